"""The study file: models, corpora and analyses with their settings, checked against what the analyses declare."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from lamina.errors import InputError, LaminaError

if TYPE_CHECKING:
    from lamina.framework.declare import Analysis
    from lamina.framework.inputs import Input
    from lamina.framework.settings import DeclaredSetting

FORMAT = 1
"""Of study files; a newer one is refused."""
_TABLES = ("study", "data", "settings", "analyses", "override", "include", "exclude")
_STUDY = ("format", "name", "title", "out", "models", "corpora", "seeds", "order", "track")
_QUESTION = ("analysis", "models", "corpora", "settings", "data")
_SELECTORS = ("model", "corpus", "analysis", "seed")
_MODEL = ("name", "model", "dtype", "chat", "optional")


class StudyError(InputError):
    """A study file that cannot be used: file, line, what is wrong, what to do."""


@dataclass(frozen=True)
class StudyModel:
    """One model of a study."""

    name: str
    """In tables, folders and selectors."""
    source: str
    """What loads it: an alias, a hub id with its revision, a folder."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """dtype and chat, where they are not the defaults."""

    @property
    def revision(self) -> str:
        """Of a hub model, or the step of a checkpoint; empty where there is none.

        Example:
            >>> StudyModel("b", "owner/b@step1000").revision, StudyModel("c", "runs/checkpoint-300").revision
            ('step1000', '300')
        """
        from lamina.models.series import series_place

        _, separator, revision = self.source.partition("@")
        if separator:
            return revision
        step = series_place(Path(self.source).name).step if "/" in self.source else None
        return "" if step is None else str(step)


@dataclass(frozen=True)
class StudyCorpus:
    """One corpus of a study."""

    name: str
    source: str
    options: Mapping[str, Any] = field(default_factory=dict)
    """Data options that hold wherever it is read."""


@dataclass(frozen=True)
class StudyQuestion:
    """One analysis of a study with its settings."""

    name: str
    analysis: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    data: Mapping[str, Any] = field(default_factory=dict)
    """Data options."""
    inputs: Mapping[str, Any] = field(default_factory=dict)
    """What it reads besides a model and data."""
    models: tuple[str, ...] | None = None
    """Patterns of the models it is for; None for all."""
    corpora: tuple[StudyCorpus, ...] | None = None
    """Instead of those of the study."""


@dataclass(frozen=True)
class Selector:
    """Some cells, by patterns, with what is changed or added for them."""

    where: Mapping[str, tuple[str, ...]]
    """model, corpus, analysis or seed -> patterns; a cell has to match all that are given."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    data: Mapping[str, Any] = field(default_factory=dict)
    line: int = 0

    def matches(self, names: Mapping[str, str | Sequence[str]]) -> bool:
        """Whether a cell is among them.

        Example:
            >>> Selector({"model": ("grow*",)}).matches({"model": "growing", "corpus": "ewt"})
            True
        """
        return all(
            any(fnmatchcase(name, pattern) for pattern in patterns for name in _listed(names.get(part, "")))
            for part, patterns in self.where.items()
        )


@dataclass(frozen=True)
class Study:
    """A study file that was checked."""

    path: Path
    name: str
    title: str
    out: Path
    models: tuple[StudyModel, ...]
    corpora: tuple[StudyCorpus, ...]
    questions: tuple[StudyQuestion, ...]
    seeds: tuple[int, ...] = ()
    """Random seeds: a cell for each, where the analysis takes one. Empty for the default alone."""
    order: tuple[str, ...] = ()
    """Tasks in the order that the study asks about, earliest first."""
    absent: Mapping[str, str] = field(default_factory=dict)
    """Optional models that are not on this machine -> why."""
    track: str = ""
    """A tracker of experiments: mlflow, wandb or module:function."""
    data: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    overrides: tuple[Selector, ...] = ()
    includes: tuple[Selector, ...] = ()
    excludes: tuple[Selector, ...] = ()

    def refuse(self, line: int, message: str) -> NoReturn:
        """Raise a StudyError that names file and line."""
        raise StudyError(f"{self.path}:{line}: {message}")


def read_study(path: Path) -> Study:
    """Read and check a study file; a StudyError names file and line.

    Example:
        >>> import tempfile
        >>> file = Path(tempfile.mkdtemp()) / "study.toml"
        >>> _ = file.write_text('[study]\\nname = "small"\\nmodels = ["minilm"]\\n[analyses.geometri]\\n')
        >>> read_study(file)
        Traceback (most recent call last):
        ...
        lamina.studies.declaration.StudyError: ...study.toml:4: there is no analysis 'geometri'; did you mean geometry?
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise StudyError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    return parse_study(text, path)


def parse_study(text: str, path: Path) -> Study:
    """A study from the text of its file; see `read_study`."""
    try:
        table = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        place = re.search(r"\(at line (\d+)", str(error))
        line = place[1] if place else len(text.splitlines())
        raise StudyError(f"{path}:{line}: this is not TOML: {str(error).partition(' (at')[0]}") from None
    return _StudyReader(path, Lines(text), table).study()


class Lines:
    """On which line of a TOML file something stands.

    Example:
        >>> lines = Lines('[study]\\nmodels = [\\n  "a",\\n  "b",\\n]\\n[[exclude]]\\nmodel = "b"\\n')
        >>> lines.of("study", "models"), lines.of("study", "models", value="b"), lines.of("exclude", 0, "model")
        (2, 4, 7)
    """

    _HEADER = re.compile(r"^\s*(\[\[?)\s*([^\]]+?)\s*\]")
    _KEY = re.compile(r"""^\s*((?:[\w-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[\w-]+|"[^"]*"|'[^']*'))*)\s*=""")

    def __init__(self, text: str) -> None:
        self._text = text.splitlines()
        self._places: list[tuple[tuple[str | int, ...], int]] = []
        counts: dict[str, int] = {}
        table: tuple[str | int, ...] = ()
        quoted = ""
        for number, line in enumerate(self._text, start=1):
            if quoted:
                quoted = "" if line.count(quoted) % 2 else quoted
                continue
            if header := self._HEADER.match(line):
                parts = self._parts(header[2])
                table = tuple(parts)
                if header[1] == "[[":
                    name = ".".join(parts)
                    counts[name] = counts.get(name, -1) + 1
                    table = (*parts, counts[name])
                self._places.append((table, number))
            elif key := self._KEY.match(line):
                self._places.append(((*table, *self._parts(key[1])), number))
            for mark in ('"""', "'''"):
                if line.count(mark) % 2:
                    quoted = mark

    @staticmethod
    def _parts(dotted: str) -> list[str]:
        return [part.strip().strip("\"'") for part in re.findall(r"""[\w-]+|"[^"]*"|'[^']*'""", dotted)]

    def of(self, *path: str | int, value: object = None) -> int:
        """The line of a table or key, or of a value below it; of what holds it, where it cannot be found."""
        start, end = self._span(path)
        if value is not None:
            written = f'"{value}"', f"'{value}'", str(value)
            for quoted in written:
                for number in range(start, end + 1):
                    if quoted in self._text[number - 1]:
                        return number
        return start

    def _span(self, path: Sequence[str | int]) -> tuple[int, int]:
        """The first and last line of the longest part of the path that has a line."""
        for length in range(len(path), 0, -1):
            wanted = tuple(path[:length])
            for place, (known, number) in enumerate(self._places):
                if known[:length] == wanted:
                    inside = [line for path_there, line in self._places[place:] if path_there[:length] == wanted]
                    later = [line for path_there, line in self._places[place:] if path_there[:length] != wanted]
                    end = later[0] - 1 if later and later[0] > max(inside) else len(self._text)
                    if length < len(path):
                        # An inline table: the key stands somewhere inside it.
                        key = re.compile(rf"\b{re.escape(str(path[-1]))}\b\s*=")
                        lines = [line for line in range(number, end + 1) if key.search(self._text[line - 1])]
                        return (lines[0], end) if lines else (number, end)
                    return number, end
        return 1, len(self._text)


class _StudyReader:
    """Reads one file."""

    def __init__(self, path: Path, lines: Lines, table: Mapping[str, Any]) -> None:
        self._path, self._lines, self._table = path, lines, table
        self._absent: dict[str, str] = {}

    def study(self) -> Study:
        """The study, checked."""
        self._names(self._table, _TABLES, "a study file")
        about = self._part("study", required=True)
        written = about.get("format", 1)
        if type(written) is not int or written < 1:
            self._refuse(f"format is a whole number; got {written!r}", "study", "format")
        if written > FORMAT:
            self._refuse(
                f"the study file has format {written}, and this lamina reads up to {FORMAT}; update lamina", "study",
                "format",
            )  # fmt: skip
        self._names(about, _STUDY, "[study]", "study")
        name = str(about.get("name") or self._path.stem)
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name):
            self._refuse("name takes letters, digits, dots, dashes and underscores", "study", "name")
        models = tuple(self._models(about))
        corpora = tuple(self._corpora(about.get("corpora", []), "study", "corpora"))
        questions = tuple(self._questions())
        study = Study(
            self._path,
            name,
            str(about.get("title") or name),
            Path(str(about.get("out") or Path("studies") / name)),
            models,
            corpora,
            questions,
            self._seeds(about),
            tuple(self._texts(about.get("order", []), "study", "order")),
            self._absent,
            self._text(about.get("track", ""), "study", "track"),
            self._part("data"),
            self._part("settings"),
            tuple(self._selectors("override")),
            tuple(self._selectors("include")),
            tuple(self._selectors("exclude")),
        )
        self._check_shared(study)
        self._check_selectors(study)
        return study

    def _refuse(self, message: str, *path: str | int, value: object = None) -> NoReturn:
        raise StudyError(f"{self._path}:{self._lines.of(*path, value=value)}: {message}")

    def _names(self, table: Mapping[str, Any], known: Iterable[str], what: str, *path: str | int) -> None:
        known = tuple(known)
        for name in table:
            if name not in known:
                self._refuse(f"{what} has no {name!r}; {_nearest(name, known)}", *path, name)

    def _part(self, name: str, *, required: bool = False) -> Mapping[str, Any]:
        part = self._table.get(name, {})
        if not isinstance(part, Mapping) or (required and not part):
            self._refuse(f"a study file has a table [{name}]", name)
        return part

    def _text(self, value: Any, *path: str | int) -> str:
        if not isinstance(value, str) or "\0" in value:
            self._refuse(f"{path[-1]} is text; got {value!r}", *path)
        return value

    def _texts(self, value: Any, *path: str | int) -> list[str]:
        if isinstance(value, str):
            return [value]
        if not isinstance(value, list) or not all(isinstance(item, str) and "\0" not in item for item in value):
            self._refuse(f"{path[-1]} is a list of texts; got {value!r}"[:200], *path)
        return value

    def _seeds(self, about: Mapping[str, Any]) -> tuple[int, ...]:
        seeds = about.get("seeds", [])
        if not isinstance(seeds, list) or not all(type(seed) is int and seed >= 0 for seed in seeds):
            self._refuse(f"seeds is a list of whole numbers from 0; got {seeds!r}", "study", "seeds")
        if len(set(seeds)) < len(seeds):
            self._refuse("a seed is named twice; name different ones", "study", "seeds")
        return tuple(seeds)

    def _models(self, about: Mapping[str, Any]) -> Iterator[StudyModel]:
        listed = about.get("models")
        if not isinstance(listed, list) or not listed:
            self._refuse('name the models: models = ["minilm", "runs/checkpoint-*"]', "study", "models")
        names: dict[str, str] = {}
        for entry in listed:
            for model in self._expanded(entry):
                if model.name in names:
                    self._refuse(
                        f"two models are called {model.name} ({names[model.name]} and {model.source}); name one of "
                        f'them: {{ name = "other", model = "{model.source}" }}',
                        "study", "models", value=entry if isinstance(entry, str) else entry.get("model"),
                    )  # fmt: skip
                names[model.name] = model.source
                yield model

    def _expanded(self, entry: Any) -> Iterator[StudyModel]:
        """The models of one entry: one, or those of a pattern or a series."""
        from lamina.models.series import expand_models
        from lamina.training.provenance import seed_folders

        table = {"model": entry} if isinstance(entry, str) else entry
        if not isinstance(table, Mapping) or not isinstance(table.get("model"), str):
            self._refuse('a model is a name or a table, as { model = "minilm", dtype = "float16" }', "study", "models")
        self._names(table, _MODEL, "a model", "study", "models")
        source = os.path.expandvars(table["model"])
        options = {name: table[name] for name in ("dtype", "chat") if name in table}
        try:
            if "$" in source:
                raise InputError(f"{source} names a variable that is not set; set it, or give the folder")
            sources = [source] if seed_folders(source) else expand_models(source)
            for one in sources:
                _refuse_misspelt_model(one)
        except LaminaError as error:
            if table.get("optional"):
                self._absent[model_name(table["model"])] = str(error)
                return
            self._refuse(str(error), "study", "models", value=table["model"])
        named = table.get("name")
        for one in sources:
            name = model_name(one) if named is None else str(named)
            if named is not None and len(sources) > 1:
                name = f"{named}-{model_name(one)}"
            yield StudyModel(name, one, options)

    def _corpora(self, listed: Any, *path: str | int) -> Iterator[StudyCorpus]:
        if not isinstance(listed, list):
            self._refuse(f'corpora is a list: corpora = ["ewt"]; got {listed!r}'[:200], *path)
        names: set[str] = set()
        for entry in listed:
            table = {"corpus": entry} if isinstance(entry, str) else entry
            if not isinstance(table, Mapping) or not isinstance(table.get("corpus"), str):
                self._refuse('a corpus is a name, a path, or a table, as { corpus = "ewt", limit = 500 }', *path)
            source = table["corpus"]
            try:
                _refuse_misspelt_corpus(source)
            except LaminaError as error:
                self._refuse(str(error), *path, value=source)
            name = str(table.get("name") or Path(source).name)
            if name in names:
                self._refuse(f"two corpora are called {name}; give one of them a name", *path, value=source)
            names.add(name)
            yield StudyCorpus(name, source, {k: v for k, v in table.items() if k not in ("corpus", "name")})

    def _questions(self) -> Iterator[StudyQuestion]:
        from lamina.framework.inputs import REQUIRED

        listed = self._part("analyses")
        if not listed:
            self._refuse("name the analyses: [analyses.geometry]", "analyses")
        for name, table in listed.items():
            place = ("analyses", name)
            if not isinstance(table, Mapping):
                self._refuse(f"[analyses.{name}] is a table", *place)
            analysis = self._analysis(str(table.get("analysis", name)), *place)
            inputs: dict[str, Input] = {given.name: given for given in analysis.reads.given}
            if "model" not in inputs:
                self._refuse(f"{analysis.name} reads no model; a study asks analyses that do", *place)
            extra = [name for name, given in inputs.items() if given.kind == "other" or name == "other"]
            self._names(table, (*_QUESTION, *extra), f"[analyses.{name}]", *place)
            missing = [one for one in extra if one not in table and inputs[one].default is REQUIRED]
            if missing:
                self._refuse(f"{analysis.name} reads {missing[0]} too; give {missing[0]} = ...", *place)
            parts = {part: self._inner(table, part, *place) for part in ("settings", "data")}
            self._check(analysis, parts["settings"], "settings", *place)
            self._check(analysis, parts["data"], "data", *place)
            models = None if "models" not in table else tuple(self._texts(table["models"], *place, "models"))
            corpora = None
            if "corpora" in table:
                corpora = tuple(self._corpora(table["corpora"], *place, "corpora"))
            yield StudyQuestion(
                str(name), analysis.name, parts["settings"], parts["data"],
                {one: table[one] for one in extra if one in table}, models, corpora,
            )  # fmt: skip

    def _inner(self, table: Mapping[str, Any], part: str, *path: str | int) -> Mapping[str, Any]:
        inner = table.get(part, {})
        if not isinstance(inner, Mapping):
            self._refuse(f"{part} is a table of names and values; got {inner!r}"[:200], *path, part)
        return inner

    def _analysis(self, name: str, *path: str | int) -> Analysis:
        from lamina.framework.registry import get_analysis, names

        known = name.replace("-", "_")
        if known not in names():
            close = get_close_matches(known, list(names()), n=1)
            meant = f"did you mean {close[0]}?" if close else "`lamina describe` lists them"
            self._refuse(f"there is no analysis {name!r}; {meant}", *path)
        return get_analysis(known)

    def _check(self, analysis: Analysis, values: Mapping[str, Any], part: str, *path: str | int) -> None:
        """Refuse settings or data options that an analysis does not take."""
        taken, other = _taken(analysis, part), _taken(analysis, "data" if part == "settings" else "settings")
        for name in values:
            if name not in taken:
                hint = f"it belongs under {'data' if part == 'settings' else 'settings'}" if name in other else None
                what = "setting" if part == "settings" else "data option"
                message = f"{analysis.name} has no {what} {name!r}; {hint or _nearest(name, taken)}"
                self._refuse(message, *path, part, name)
        for name, value in values.items():
            try:
                _check_alone(analysis, taken[name], value)
            except LaminaError as error:
                self._refuse(str(error), *path, part, name)

    def _selectors(self, kind: str) -> Iterator[Selector]:
        listed = self._table.get(kind, [])
        if not isinstance(listed, list):
            self._refuse(f"write [[{kind}]], with two brackets", kind)
        for number, table in enumerate(listed):
            place = (kind, number)
            known = (*_SELECTORS, "settings", "data") if kind != "exclude" else (*_SELECTORS, "why")
            self._names(table, known, f"[[{kind}]]", *place)
            where = {
                part: tuple(map(str, table[part])) if isinstance(table[part], list) else (str(table[part]),)
                for part in _SELECTORS
                if part in table
            }
            if not where:
                self._refuse(f"[[{kind}]] names cells by model, corpus, analysis or seed", *place)
            if kind == "include" and not {"model", "analysis"} <= where.keys():
                self._refuse("[[include]] names a model and an analysis", *place)
            parts = {part: self._inner(table, part, *place) for part in ("settings", "data")}
            if kind == "override" and not any(parts.values()):
                self._refuse("[[override]] changes settings or data; give one of them", *place)
            yield Selector(where, parts["settings"], parts["data"], self._lines.of(*place))

    def _check_shared(self, study: Study) -> None:
        """What holds for all analyses has to be taken by one of them at least, and fit all that take it."""
        from lamina.framework.registry import get_analysis

        analyses = [get_analysis(question.analysis) for question in study.questions]
        for part, values in (("settings", study.settings), ("data", study.data)):
            for name in values:
                takers = [analysis for analysis in analyses if name in _taken(analysis, part)]
                if not takers:
                    known = dict.fromkeys(other for analysis in analyses for other in _taken(analysis, part))
                    what = "setting" if part == "settings" else "data option"
                    self._refuse(f"none of the analyses has a {what} {name!r}; {_nearest(name, known)}", part, name)
                for analysis in takers:
                    try:
                        _check_alone(analysis, _taken(analysis, part)[name], values[name])
                    except LaminaError as error:
                        self._refuse(str(error), part, name)
        fixed = [question.name for question in study.questions if "seed" in question.settings]
        if study.seeds and ("seed" in study.settings or fixed):
            where = ("settings", "seed") if "seed" in study.settings else ("analyses", fixed[0], "settings", "seed")
            self._refuse("seeds and the setting seed contradict each other; keep one of them", *where)
        known = dict.fromkeys(name for analysis in analyses for name in _taken(analysis, "data"))
        for corpus in study.corpora:
            for name in corpus.options:
                if name not in known:
                    self._refuse(
                        f"none of the analyses has a data option {name!r}; {_nearest(name, known)}",
                        "study", "corpora", value=corpus.source,
                    )  # fmt: skip

    def _check_selectors(self, study: Study) -> None:
        """Every name that a selector gives has to be one of the study."""
        from lamina.framework.registry import get_analysis

        corpora = [*study.corpora, *(corpus for question in study.questions for corpus in question.corpora or ())]
        analyses = [name for question in study.questions for name in (question.name, question.analysis)]
        known = {
            "model": [name for model in study.models for name in (model.name, model.source)],
            "corpus": [name for corpus in corpora for name in (corpus.name, corpus.source)],
            "analysis": analyses,
            "seed": list(map(str, study.seeds)),
        }
        for kind, selectors in (("override", study.overrides), ("include", study.includes),
                                ("exclude", study.excludes)):  # fmt: skip
            for number, selector in enumerate(selectors):
                for part, patterns in selector.where.items():
                    if kind == "include" and part in ("model", "corpus"):
                        continue
                    for pattern in patterns:
                        if not any(fnmatchcase(name, pattern) for name in known[part]):
                            message = f"no {part} of this study is called {pattern!r}; {_nearest(pattern, known[part])}"
                            self._refuse(message, kind, number, part, value=pattern)
                chosen = [
                    question for question in study.questions
                    if Selector({"analysis": selector.where.get("analysis", ("*",))}).matches(
                        {"analysis": (question.name, question.analysis)})
                ]  # fmt: skip
                for part, values in (("settings", selector.settings), ("data", selector.data)):
                    for name in values:
                        takers = [one for one in chosen if name in _taken(get_analysis(one.analysis), part)]
                        if not takers:
                            taken = dict.fromkeys(n for one in chosen for n in _taken(get_analysis(one.analysis), part))
                            what = "setting" if part == "settings" else "data option"
                            self._refuse(
                                f"no analysis of these cells has a {what} {name!r}; {_nearest(name, taken)}", kind,
                                number, part, name,
                            )  # fmt: skip
                        for one in takers:
                            self._check(get_analysis(one.analysis), {name: values[name]}, part, kind, number)


def model_name(source: str) -> str:
    """What a model is called by default: its alias, or the last part of its name.

    Example:
        >>> model_name("minilm"), model_name("runs/seed0-step300"), model_name("owner/pythia@step1000")
        ('minilm', 'seed0-step300', 'pythia@step1000')
    """
    body, separator, revision = source.partition("@")
    return f"{Path(body).name}{separator}{revision}"


def _refuse_misspelt_model(source: str) -> None:
    from lamina.assets import refuse_misspelt_model

    if "/" in source and "@" not in source and source.count("/") != 1 and not Path(source).exists():
        raise InputError(f"there is no folder {source}; name a folder, an alias or a hub id")
    refuse_misspelt_model(source)


def _refuse_misspelt_corpus(source: str) -> None:
    from lamina import assets
    from lamina.corpora.loading import refuse_unknown

    card = assets.cards().get(source)
    if card is None or card.kind != "suite":
        refuse_unknown(source)


def _taken(analysis: Analysis, part: str) -> Mapping[str, DeclaredSetting]:
    """The settings, or the data options, that an analysis takes by name."""
    return analysis.settings if part == "settings" else {option.name: option for option in analysis.options}


def _check_alone(analysis: Analysis, declared: DeclaredSetting, value: Any) -> None:
    """Check one value; others that have to be given are not missed."""
    from lamina.framework.settings import Checker

    Checker(analysis.name, {declared.name: declared}).check({declared.name: value})


def _nearest(name: str, known: Iterable[str]) -> str:
    listed = [str(one) for one in known]
    close = get_close_matches(str(name), listed, n=1)
    return f"did you mean {close[0]}?" if close else f"it has: {', '.join(listed) or 'none'}"


def _listed(value: str | Sequence[str]) -> Sequence[str]:
    return (value,) if isinstance(value, str) else value


# Changing and describing study files.


def add_models(text: str, models: Sequence[str], path: Path) -> str:
    """The text of a study file with more models in its list; comments and layout stay.

    Example:
        >>> text = '[study]\\nmodels = ["minilm"]\\n\\n[analyses.geometry]\\n'
        >>> add_models(text, ["mpnet"], Path("study.toml")).splitlines()[1]
        'models = ["minilm", "mpnet"]'
    """
    start = re.search(r"^\s*models\s*=\s*\[", text, re.MULTILINE)
    study = re.search(r"^\s*\[study\]", text, re.MULTILINE)
    if start is None or study is None or start.start() < study.start():
        raise StudyError(f"{path}: its [study] has no list of models; write models = [...]")
    end = _closing(text, start.end())
    inside = text[start.end() : end]
    written = [f'"{model}"' for model in models]
    body = _with_comma(inside.rstrip())
    if "\n" in inside:
        indent = re.search(r"\n([ \t]+)\S", inside)
        lines = "".join(f"{indent[1] if indent else '    '}{one},\n" for one in written)
        added = f"{body}\n{lines}"
    else:
        added = f"{body}{' ' * bool(body.strip())}{', '.join(written)}"
    changed = f"{text[: start.end()]}{added}{text[end:]}"
    parse_study(changed, path)
    return changed


_CODE = re.compile(r"""(?P<code>(?:[^"'#]|"[^"]*"|'[^']*')*)(?P<comment>#.*)?""")


def _with_comma(items: str) -> str:
    """Items of a list that others can follow: a comma after the last one, before the comment behind it.

    Example:
        >>> _with_comma('"a" # small'), _with_comma('"a",'), _with_comma("")
        ('"a", # small', '"a",', '')
    """
    lines = items.splitlines()
    for place in range(len(lines) - 1, -1, -1):
        match = _CODE.fullmatch(lines[place])
        code = (match["code"] if match else lines[place]).rstrip()
        if code.strip():
            rest = lines[place][len(code) :]
            lines[place] = code + ("" if code.endswith(",") else ",") + rest
            break
    return "\n".join(lines)


def _closing(text: str, start: int) -> int:
    """The place of the bracket that closes the list that begins before `start`."""
    depth, quote, place = 1, "", start
    while place < len(text):
        character = text[place]
        if quote:
            quote = "" if character == quote else quote
        elif character in "\"'":
            quote = character
        elif character == "#":
            place = text.find("\n", place)
            if place < 0:
                break
        elif character in "[]":
            depth += 1 if character == "[" else -1
            if not depth:
                return place
        place += 1
    return len(text)


def study_schema() -> dict[str, Any]:
    """The JSON schema of study files, with the settings of every analysis: editors complete it.

    Example:
        >>> schema = study_schema()
        >>> sorted(schema["properties"])
        ['analyses', 'data', 'exclude', 'include', 'override', 'settings', 'study']
    """
    from lamina.framework.registry import get_analysis, names

    text, texts = {"type": "string"}, {"type": "array", "items": {"type": "string"}}
    model = {"anyOf": [text, {"type": "object", "required": ["model"], "additionalProperties": False, "properties": {
        "name": text, "model": text, "dtype": {"enum": ["float32", "bfloat16", "float16"]},
        "chat": {"type": "boolean"}, "optional": {"type": "boolean"}}}]}  # fmt: skip
    corpus = {"anyOf": [text, {"type": "object", "required": ["corpus"], "properties": {"name": text, "corpus": text}}]}
    questions, labels = {}, []
    for name in names():
        analysis = get_analysis(name)
        given = {one.name for one in analysis.reads.given}
        if "model" not in given:
            continue
        properties: dict[str, Any] = {
            "analysis": {"enum": [*names()]},
            "models": texts,
            "corpora": {"type": "array", "items": corpus},
            "settings": _partly(analysis.checker.schema()),
            "data": _partly(analysis.option_checker.schema()),
        }
        properties |= {one: {} for one in given - {"model", "data"}}
        questions[name] = {
            "type": "object", "description": analysis.question, "properties": properties, "additionalProperties": False
        }  # fmt: skip
        labels.append({"if": {"properties": {"analysis": {"const": name}}, "required": ["analysis"]},
                       "then": {"properties": properties}})  # fmt: skip
    several = {"anyOf": [text, texts]}
    where: dict[str, Any] = dict.fromkeys(_SELECTORS, several)
    changed = {"settings": {"type": "object"}, "data": {"type": "object"}}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A study of lamina",
        "type": "object",
        "required": ["study", "analyses"],
        "additionalProperties": False,
        "properties": {
            "study": {
                "type": "object",
                "required": ["models"],
                "additionalProperties": False,
                "properties": {
                    "format": {"type": "integer", "minimum": 1, "maximum": FORMAT},
                    "name": text,
                    "title": text,
                    "out": text,
                    "models": {"type": "array", "items": model, "minItems": 1},
                    "corpora": {"type": "array", "items": corpus},
                    "seeds": {"type": "array", "items": {"type": "integer", "minimum": 0}, "uniqueItems": True},
                    "order": texts,
                    "track": text,
                },
            },
            "data": {"type": "object"},
            "settings": {"type": "object"},
            "analyses": {
                "type": "object", "properties": questions, "minProperties": 1, "additionalProperties":
                {"type": "object", "required": ["analysis"], "allOf": labels},
            },
            **{kind: {"type": "array", "items": {"type": "object", "additionalProperties": False,
                                                 "properties": where | changed}} for kind in ("override", "include")},
            "exclude": {"type": "array", "items": {"type": "object", "additionalProperties": False,
                                                   "properties": where | {"why": text}}},
        },
    }  # fmt: skip


def _partly(schema: dict[str, Any]) -> dict[str, Any]:
    """A schema of settings of which none has to be given: others may come from elsewhere in the file."""
    return {key: value for key, value in schema.items() if key not in ("required", "title")}
