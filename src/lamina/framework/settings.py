"""Settings as data: what a setting is, the ones that several analyses share, and checking what was given."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from lamina.errors import InputError


@dataclass(frozen=True)
class Setting:
    """What a signature says of one of its settings, beside its type and default.

    Example:
        >>> Samples = Annotated[int, Setting("Bootstrap samples for the intervals.", min=1)]
    """

    help: str
    """One plain sentence."""
    min: float | None = None
    max: float | None = None
    option: str | None = None
    """On the command line, where it is not `--` and the name with hyphens."""
    metavar: str | None = None
    file: bool = False
    """Whether values may name files, whose contents then count as part of the question."""
    counts: bool = True
    """Whether it can change the answer; if not, it is no part of the question."""
    stands_for: Callable[[], Any] | None = None
    """What None stands for on this machine, where that differs from one to the next: it is part of the question."""


Samples = Annotated[int, Setting("Bootstrap samples for the intervals.", min=1)]
Seed = Annotated[int, Setting("Random seed.", min=0)]
Twin = Annotated[bool, Setting("Put the random-weights twin beside the model.")]
Rows = Annotated[
    Literal["mean", "first"],
    Setting("Attention from a split word: the mean of its pieces, or its first piece.", option="--from"),
]
Weights = Annotated[
    Literal["attention", "norm"],
    Setting("What a map holds: attention, or attention times the norm of the value it moves, rows summing to 1 again."),
]
Length = Annotated[int | None, Setting("Most tokens of a text; the model's own limit by default.", min=8)]
Preset = Annotated[
    Literal["quick", "paper"], Setting("How long probes are trained: quick (minutes) or paper (as in the paper).")
]
Seeds = Annotated[int | None, Setting("How often probes are trained; the preset's number by default.", min=1)]
Annotation = Annotated[str | None, Setting("The annotation that has the classes; sclass or supersense by default.")]


@dataclass(frozen=True)
class DeclaredSetting:
    """One setting of one analysis, as its signature declares it."""

    name: str
    type: Any
    """Without its `Setting`."""
    default: Any
    """`inspect.Parameter.empty` where it has to be given."""
    about: Setting

    @property
    def required(self) -> bool:
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
    found = {}
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind is not inspect.Parameter.KEYWORD_ONLY or name in besides:
            continue
        hint = hints[name]
        about = next((each for each in getattr(hint, "__metadata__", ()) if isinstance(each, Setting)), None)
        if about is None:
            raise TypeError(f"{function.__name__}: annotate {name} as Annotated[type, Setting('what it is')]")
        found[name] = DeclaredSetting(name, get_args(hint)[0], parameter.default, about)
    return found


class Checker:
    """Checks values against declared settings, and describes them as a JSON schema."""

    def __init__(self, analysis: str, settings: Mapping[str, DeclaredSetting]) -> None:
        from pydantic import ConfigDict, Field, create_model

        fields: dict[str, Any] = {}
        for name, each in settings.items():
            least, most = each.about.min, each.about.max
            limited = least is not None or most is not None
            item = Annotated[each.item, Field(ge=least, le=most)] if limited else _checked(each.item)
            kind = Sequence[item] if each.many else item
            optional = _takes_none(each.type)
            default = ... if each.required else each.default
            fields[name] = (Union[kind, None] if optional else kind, Field(default, description=each.about.help))  # noqa: UP007
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
        for name, each in self._settings.items():
            if values[name] is None and each.about.stands_for is not None:
                values[name] = each.about.stands_for()
        return {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}

    def schema(self) -> dict[str, Any]:
        """The settings as JSON schema."""
        schema = self._model.model_json_schema(schema_generator=_generator())
        for name, each in self._settings.items():
            schema["properties"][name]["option"] = each.option
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

    class Plain(GenerateJsonSchema):
        """Objects that only Python can give (a result, an encoder) are shown as what a file can say: text."""

        def is_instance_schema(self, schema: Any) -> dict[str, Any]:
            return {"type": "string"}

    return Plain


def _plain(value: Any) -> Any:
    """Numbers of numpy as Python's own; paths as text."""
    if hasattr(value, "item") and getattr(value, "shape", None) == ():
        return value.item()
    if hasattr(value, "__fspath__"):
        return str(value)
    return [_plain(each) for each in value] if isinstance(value, list | tuple | set | range) else value


def _without_none(kind: Any) -> Any:
    if get_origin(kind) not in (Union, UnionType):
        return kind
    kept = tuple(each for each in get_args(kind) if each is not NoneType)
    return kept[0] if len(kept) == 1 else Union[kept]  # noqa: UP007


def _takes_none(kind: Any) -> bool:
    return get_origin(kind) in (Union, UnionType) and NoneType in get_args(kind)
