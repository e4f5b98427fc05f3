"""Settings as data: what a setting is, the ones that several analyses share, and checking what was given."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from lamina.errors import InputError

Group = Literal["data", "training", "statistics", "machine"]
"""What a setting is about, where that is not what the analysis measures."""


@dataclass(frozen=True)
class Setting:
    """What a signature says of one of its settings, besides type and default.

    Example:
        >>> Samples = Annotated[int, Setting("Bootstrap samples for the intervals.", min=1)]
    """

    help: str
    """One plain sentence."""
    min: float | None = None
    max: float | None = None
    option: str | None = None
    """On the command line; by default `--` and the name with hyphens."""
    metavar: str | None = None
    file: bool = False
    """Whether values may name files, whose contents then count as part of the question."""
    writes: bool = False
    """Whether it names a folder that is written; pages cannot give it."""
    counts: bool = True
    """Whether it can change the answer; if not, it is left out of the question's key."""
    group: Group | None = None
    """The heading of the command's help that it stands under, where it is none of the most used."""
    stands_for: Callable[[], Any] | None = None
    """What None stands for on this machine, where machines differ; the value becomes part of the question's key."""
    parts: Callable[[Any], Mapping[str, Any]] | None = None
    """For a setting that groups several values: these by name, as provenance records them."""


Samples = Annotated[int, Setting("Bootstrap samples for the intervals.", min=1, group="statistics")]
Seed = Annotated[int, Setting("Random seed.", min=0, group="statistics")]
Twin = Annotated[bool, Setting("Compare the model with its untrained twin.", group="statistics")]
Rows = Annotated[
    Literal["mean", "first"],
    Setting("Attention from a split word: the mean over its tokens, or that of its first token.", option="--from"),
]
Weights = Annotated[
    Literal["attention", "norm"],
    Setting("What a map holds: attention, or attention times the norm of the value it moves, rows summing to 1 again."),
]
Length = Annotated[int | None, Setting("Maximum number of tokens of a text; the model's own limit by default.", min=8)]
Preset = Annotated[
    Literal["quick", "standard", "paper"],
    Setting(
        "How long probes are trained: quick (minutes), standard (hours) or paper (as in the paper).",
        group="training",
    ),
]
Seeds = Annotated[
    int | None, Setting("How often probes are trained; the preset's number by default.", min=1, group="training")
]
Annotation = Annotated[
    str | None, Setting("The annotation that has the classes; sclass or supersense by default.", group="data")
]


@dataclass(frozen=True)
class DeclaredSetting:
    """One setting of an analysis, as its signature declares it."""

    name: str
    type: Any
    """Without its `Setting`."""
    default: Any
    """`inspect.Parameter.empty` where it has to be given."""
    about: Setting

    @property
    def required(self) -> bool:
        """Whether it has no default."""
        return self.default is inspect.Parameter.empty

    @property
    def option(self) -> str:
        """Its name on the command line."""
        return self.about.option or "--" + self.name.replace("_", "-")

    @property
    def item(self) -> Any:
        """The type of one value: of a list its items, otherwise the type without None."""
        inner = _without_none(self.type)
        return get_args(inner)[0] if self.many else inner

    @property
    def many(self) -> bool:
        """Whether it takes a list."""
        return get_origin(_without_none(self.type)) in (Sequence, list, tuple)

    @property
    def text(self) -> bool:
        """Whether one value is text, or an object that Python can give in its place."""
        return self.item is str or str in get_args(self.item)

    @property
    def choices(self) -> tuple[str, ...]:
        """The values it takes, where they are few and known."""
        return get_args(self.item) if get_origin(self.item) is Literal else ()


def settings_of(function: Callable[..., Any], besides: Sequence[str] = ()) -> dict[str, DeclaredSetting]:
    """The settings in a function's signature: its keyword-only parameters, except those named `besides`."""
    hints = get_type_hints(function, include_extras=True)
    declared = {}
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind is not inspect.Parameter.KEYWORD_ONLY or name in besides:
            continue
        hint = hints[name]
        about = next((note for note in getattr(hint, "__metadata__", ()) if isinstance(note, Setting)), None)
        if about is None:
            raise TypeError(f"{function.__name__}: annotate {name} as Annotated[type, Setting('what it is')]")
        declared[name] = DeclaredSetting(name, get_args(hint)[0], parameter.default, about)
    return declared


def read_group(given: str | Mapping[str, Any], fields: Mapping[str, type], what: str) -> dict[str, Any]:
    """The values of a grouped setting by name, from text (`name=value,...`) or from a mapping.

    Args:
        given: text or a mapping; in text, numbers of a list are joined by `+`.
        fields: name -> type: `int`, `float`, `str`, or `tuple` for whole numbers.
        what: how errors call the group.

    Example:
        >>> read_group("steps=2000,lr=1e-3", {"steps": int, "lr": float}, "the schedule")
        {'steps': 2000, 'lr': 0.001}
        >>> read_group("tasks=1+2", {"tasks": tuple}, "the view")
        {'tasks': (1, 2)}
    """
    if isinstance(given, str):
        parts = [part.partition("=") for part in given.split(",") if part.strip()]
        if not all(equals for _, equals, _ in parts):
            raise InputError(
                f"{what} {given!r} cannot be read; write NAME=VALUE,NAME=VALUE with these names: {', '.join(fields)}"
            )
        given = {name.strip(): value.strip() for name, _, value in parts}
    unknown = [str(name) for name in given if name not in fields]
    if unknown:
        close = get_close_matches(unknown[0], fields, n=1)
        meant = f"did you mean {close[0]}? " if close else ""
        raise InputError(f"{what} has no {unknown[0]!r}; {meant}It has: {', '.join(fields)}")
    return {name: _converted(value, fields[name], f"{what}: {name}") for name, value in given.items()}


def _converted(value: Any, kind: type, name: str) -> Any:
    words = {int: "a whole number", float: "a number", str: "text", tuple: "whole numbers, as in 1+2"}
    try:
        if kind is tuple:
            numbers = value.split("+") if isinstance(value, str) else [value] if isinstance(value, int) else value
            return tuple(_converted(number, int, name) for number in numbers)
        if isinstance(value, str) or (type(value) is kind) or (kind is float and type(value) is int):
            return kind(value)
    except (TypeError, ValueError):
        pass
    raise InputError(f"{name} must be {words[kind]}; got {value!r}")


class Checker:
    """Checks values against declared settings, and describes them as a JSON schema."""

    def __init__(self, analysis: str, settings: Mapping[str, DeclaredSetting]) -> None:
        from pydantic import ConfigDict, Field, create_model

        fields: dict[str, Any] = {}
        for name, setting in settings.items():
            least, most = setting.about.min, setting.about.max
            limited = least is not None or most is not None
            item = Annotated[setting.item, Field(ge=least, le=most)] if limited else _checked(setting.item)
            kind = Sequence[item] if setting.many else item
            optional = _takes_none(setting.type)
            default = ... if setting.required else setting.default
            fields[name] = (Union[kind, None] if optional else kind, Field(default, description=setting.about.help))  # noqa: UP007
        config = ConfigDict(strict=True, extra="forbid", arbitrary_types_allowed=True)
        self._model = create_model(analysis, __config__=config, **fields)
        self._analysis, self._settings = analysis, settings

    def check(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """The values with defaults filled in, lists as tuples; an InputError for what does not fit."""
        from pydantic import ValidationError

        unknown = [name for name in given if name not in self._settings]
        if unknown:
            close = get_close_matches(unknown[0], self._settings, n=1)
            meant = f"did you mean {close[0]}? " if close else ""
            known = ", ".join(self._settings) or "none"
            raise InputError(f"{self._analysis} has no setting {unknown[0]!r}; {meant}It has: {known}")
        plain = {name: _plain(value) for name, value in given.items()}
        try:
            checked = self._model(**plain)
        except ValidationError as error:
            raise InputError(f"{self._analysis}: {self._in_words(error.errors()[0])}") from None
        values = {name: getattr(checked, name) for name in self._settings}
        for name, setting in self._settings.items():
            if values[name] is None and setting.about.stands_for is not None:
                values[name] = setting.about.stands_for()
        return {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}

    def schema(self) -> dict[str, Any]:
        """The settings as JSON schema."""
        schema = self._model.model_json_schema(schema_generator=_generator())
        for name, setting in self._settings.items():
            schema["properties"][name]["option"] = setting.option
        return schema

    def _in_words(self, error: Any) -> str:
        name = str(error["loc"][0])
        setting, got = self._settings[name], error.get("input")
        if error["type"] == "missing":
            choices = f" ({', '.join(setting.choices)})" if setting.choices else ""
            return f"{name} has to be given{choices}"
        return f"{name} {self._expected(setting)}; got {got!r}"

    def _expected(self, setting: DeclaredSetting) -> str:
        """What a setting takes, in words."""
        about = setting.about
        words = {int: "a whole number", float: "a number", bool: "true or false"}
        plain = "text" if setting.text else words.get(setting.item, "a value")
        one = f"one of {', '.join(map(str, setting.choices))}" if setting.choices else plain
        if about.min is not None and about.max is not None:
            one += f" from {about.min:g} to {about.max:g}"
        elif about.min is not None:
            one += f" of at least {about.min:g}"
        kind = f"takes a list, each item {one}" if setting.many else f"must be {one}"
        return kind + (" or None" if _takes_none(setting.type) else "")


def _checked(kind: Any) -> Any:
    """The type as pydantic checks it: an object that only Python can give by its class, without looking into it."""
    from pydantic import GetPydanticSchema
    from pydantic_core import core_schema

    if get_origin(kind) in (Union, UnionType):
        return Union[tuple(map(_checked, get_args(kind)))]  # noqa: UP007
    if not isinstance(kind, type) or kind in (str, int, float, bool):
        return kind
    return Annotated[kind, GetPydanticSchema(lambda *_: core_schema.is_instance_schema(kind))]


def _generator() -> Any:
    from pydantic.json_schema import GenerateJsonSchema

    class SettingsSchema(GenerateJsonSchema):
        """Objects that only Python can give (a result, an encoder) are text, as a request file writes them."""

        def is_instance_schema(self, schema: Any) -> dict[str, Any]:
            return {"type": "string"}

    return SettingsSchema


def _plain(value: Any) -> Any:
    """Numbers of numpy as Python's own; paths as text."""
    if hasattr(value, "item") and getattr(value, "shape", None) == ():
        return value.item()
    if hasattr(value, "__fspath__"):
        return str(value)
    return [_plain(item) for item in value] if isinstance(value, list | tuple | set | range) else value


def _without_none(kind: Any) -> Any:
    if get_origin(kind) not in (Union, UnionType):
        return kind
    others = tuple(part for part in get_args(kind) if part is not NoneType)
    return others[0] if len(others) == 1 else Union[others]  # noqa: UP007


def _takes_none(kind: Any) -> bool:
    return get_origin(kind) in (Union, UnionType) and NoneType in get_args(kind)
