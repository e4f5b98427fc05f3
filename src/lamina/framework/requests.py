"""A request as data: the contents of a TOML file, of a request of the app, or of a command."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lamina.errors import InputError
from lamina.framework.inputs import REQUIRED
from lamina.framework.registry import get_analysis

if TYPE_CHECKING:
    from lamina.framework.declare import Analysis, Query
    from lamina.framework.estimate import Cost
    from lamina.framework.settings import DeclaredSetting

NONE = "none"
"""On the command line: no value, for an option that has a default."""
_KNOWN = ("analysis", "settings", "out", "replace", "store", "device", "keep")


@dataclass(frozen=True)
class Request:
    """An analysis with its inputs and settings; nothing is loaded yet."""

    analysis: Analysis
    inputs: Mapping[str, Any]
    """By name: model, data, ..."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Which part of the data, in which form."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    out: Path | None = None
    replace: bool = False
    store: Path | None = None
    device: str | None = None
    keep: bool | None = None
    """Whether states are stored; see `Runtime.keep`."""

    def ask(self) -> Query:
        """The query, with its inputs loaded."""
        return self.analysis.ask(**self._keywords)

    def estimate(self) -> Cost:
        """What answering it would take."""
        return self.analysis.estimate(**self._keywords)

    @property
    def _keywords(self) -> dict[str, Any]:
        where = {"store": self.store, "device": self.device, "keep": self.keep}
        return {**self.inputs, **self.options, **self.settings, **where}

    @property
    def command(self) -> str:
        """The command line of it, without defaults.

        Example:
            >>> read_request({"analysis": "geometry", "model": "minilm", "settings": {"samples": 10}}).command
            'lamina geometry minilm --samples 10'
        """
        return shlex.join(["lamina", self.analysis.name.replace("_", "-"), *self._words()])

    def table(self) -> dict[str, Any]:
        """The table that `read_request` reads as this request.

        Example:
            >>> read_request({"analysis": "geometry", "model": "minilm", "data": {"limit": 20}}).table()["data"]
            {'name': 'ewt', 'limit': 20}
        """
        table: dict[str, Any] = {"analysis": self.analysis.name, **self.inputs, "settings": dict(self.settings)}
        data = data_of(self.analysis)
        if self.options and data is not None:
            table[data] = {"name": self.inputs[data], **self.options}
        paths = {name: str(path) for name, path in (("out", self.out), ("store", self.store)) if path is not None}
        where = {name: value for name, value in (("device", self.device), ("keep", self.keep)) if value is not None}
        return table | paths | where | {"replace": self.replace}

    def _words(self) -> Iterator[str]:
        for expected in self.analysis.reads.given:
            given = self.inputs.get(expected.name, expected.default)
            if given != expected.default:
                yield from () if expected.option is None else (expected.option,)
                yield from map(str, given) if isinstance(given, list | tuple) else (str(given),)
        values = {**self.options, **self.settings}
        for setting in (*self.analysis.options, *self.analysis.settings.values()):
            if setting.name in values and _plain(values[setting.name]) != _plain(setting.default):
                yield from _option_words(setting, values[setting.name])
        for name in ("out", "store", "device"):
            if getattr(self, name) is not None:
                yield from (f"--{name}", str(getattr(self, name)))
        if self.keep is not None:
            yield "--keep" if self.keep else "--no-keep"
        if self.replace:
            yield "--replace"


def data_of(analysis: Analysis) -> str | None:
    """The input that data options belong to: texts, questions or a test suite; None where it reads none.

    Example:
        >>> data_of(get_analysis("geometry"))
        'data'
    """
    return next((given.name for given in analysis.reads.given if given.kind in ("texts", "questions", "suite")), None)


def read_request(table: Mapping[str, Any]) -> Request:
    """Check a table and make a request of it; an InputError says what is wrong.

    Example:
        >>> request = read_request({"analysis": "heads", "model": "minilm", "data": {"name": "ewt", "limit": 20}})
        >>> request.inputs, request.options
        ({'model': 'minilm', 'data': 'ewt'}, {'limit': 20})
    """
    if not isinstance(table, Mapping) or not isinstance(table.get("analysis"), str):
        raise InputError("a request names its analysis: analysis = 'heads'; `lamina describe` lists them")
    analysis = get_analysis(table["analysis"])
    expected = {wanted.name: wanted for wanted in analysis.reads.given}
    unknown = [name for name in table if name not in (*_KNOWN, *expected)]
    if unknown:
        raise InputError(
            f"{analysis.name}: a request has no {unknown[0]!r}; it has {', '.join(('analysis', *expected))}, settings, "
            "out, store, device and keep"
        )
    inputs, options = {}, {}
    for name, wanted in expected.items():
        if name not in table:
            if wanted.default is REQUIRED:
                raise InputError(f"{analysis.name}: {name} is missing; {wanted.help[0].lower()}{wanted.help[1:]}")
            continue
        given = table[name]
        if name == data_of(analysis) and isinstance(given, Mapping):
            options = {key: value for key, value in given.items() if key != "name"}
            given = given.get("name", wanted.default)
        if not isinstance(given, str) and not (wanted.many and isinstance(given, list)):
            raise InputError(f"{analysis.name}: {name} is text in a request; got {type(given).__name__}")
        inputs[name] = given
    settings = table.get("settings", {})
    if not isinstance(settings, Mapping):
        raise InputError(f"{analysis.name}: settings is a table of names and values; got {type(settings).__name__}")
    analysis.option_checker.check(options)
    analysis.checker.check(settings)
    paths = {name: Path(table[name]) for name in ("out", "store") if table.get(name) is not None}
    return Request(
        analysis,
        inputs,
        options,
        dict(settings),
        replace=bool(table.get("replace")),
        device=table.get("device"),
        keep=None if table.get("keep") is None else bool(table["keep"]),
        **paths,
    )


def _option_words(setting: DeclaredSetting, value: Any) -> Iterator[str]:
    if setting.item is bool:
        yield setting.option if value else f"--no-{setting.option[2:]}"
    elif setting.many and not value:
        yield from (setting.option, NONE)
    elif setting.many and setting.text:
        yield from (part for one in value for part in (setting.option, str(one)))
    else:
        text = ",".join(map(str, value)) if setting.many else NONE if value is None else str(value)
        yield from (setting.option, text)


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, list | tuple) else value
