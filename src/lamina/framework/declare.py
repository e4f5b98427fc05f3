"""An analysis declares itself once; the command, the Python call, the report, the app and the docs come from that.

The signature of the function declares the settings (`samples: Samples = 500`), the decorator the rest:

    @analysis(title="Heads that find dependencies", question="...", method="...", reads=Treebank(), version=1)
    def heads(encoder: Encoder, corpus: Corpus, *, samples: Samples = 500, seed: Seed = 0) -> Tables: ...

    @heads.finds
    def _findings(result: Result) -> Iterable[Finding]: ...

A function may also take a `runtime` (folders, device, engine) and a `work` folder (deleted when the result is saved;
with the default None, given only where a result is saved).
One that watches attention maps is a generator: it yields a `Watch`, and one pass over the texts serves all that wait.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from lamina.errors import InputError
from lamina.framework.inputs import REQUIRED, Input, LoadedInputs, Reads
from lamina.framework.outline import Chapter
from lamina.framework.passports import refuse_unfit
from lamina.framework.sample_size import Sample
from lamina.framework.settings import Checker, DeclaredSetting, settings_of
from lamina.results import Result
from lamina.results.finding import Finding, strongest_first
from lamina.stats.status import NEGLIGIBLE

if TYPE_CHECKING:
    import pandas

    from lamina.activations.runtime import Runtime
    from lamina.framework.estimate import Cost

TableFormat = Literal["csv", "parquet"]
"""The format of a saved table, and the suffix of its file."""
_INJECTED = ("runtime", "work")
"""Parameters that the runner fills in."""
_PLACES: Mapping[str, Any] = {
    "runtime": Any,
    "store": str | Path | None,
    "device": str | None,
    "engine": Any,
    "keep": bool | None,
    "trust_remote_code": bool | None,
    "out": str | Path | None,
    "replace": bool | None,
}
"""Keywords of a call that say where it runs and where the result goes, with their types."""


@dataclass(frozen=True)
class Tables:
    """What an analysis returns; provenance and findings are added, and it becomes a `Result`."""

    tables: Mapping[str, pandas.DataFrame]
    """Table name -> long-form table, with the columns that were declared."""
    skipped: Mapping[str, int] = field(default_factory=dict)
    """Why something was left out -> how many times."""
    model: Mapping[str, Any] = field(default_factory=dict)
    """Further entries of the provenance of the model."""
    data: Mapping[str, Any] = field(default_factory=dict)
    """Further entries of the provenance of the data."""
    seeds: tuple[int, ...] | None = None
    """The random seeds used; by default the setting `seed`."""
    files: Mapping[str, Path] = field(default_factory=dict)
    """Files that belong to the result, by name."""
    scored: Mapping[str, int] = field(default_factory=dict)
    """What was scored (a task, dependencies) -> number of targets; too few give a warning, see `sample_size`."""


@dataclass(frozen=True)
class Table:
    """What one table of a result holds."""

    rows: str
    """What one row is, as in "One row per head and relation."."""
    columns: tuple[str, ...]
    optional: bool = False
    """Whether it is there only with some settings or some data."""
    format: TableFormat = "csv"
    """Parquet where there is one row per item."""

    def __init__(
        self, rows: str, columns: str | Iterable[str], *, optional: bool = False, format: TableFormat = "csv"
    ) -> None:
        """`columns` are names, or one string that separates them by spaces or commas."""
        names = columns.replace(",", " ").split() if isinstance(columns, str) else columns
        object.__setattr__(self, "rows", rows)
        object.__setattr__(self, "columns", tuple(names))
        object.__setattr__(self, "optional", optional)
        object.__setattr__(self, "format", format)


FEW_NATS = 0.05
"""A difference of entropies or divergences this small means nothing, in nats."""


@dataclass(frozen=True)
class LayerMeasure:
    """One measure by layer.

    Example:
        >>> LayerMeasure("entropy", "Entropy of attention", "nats", margin=0.05).title
        'Entropy of attention'
    """

    name: str
    """In the column of measures."""
    title: str
    unit: str
    resampled: tuple[str, ...] = ()
    """What is resampled for it (documents, texts, word types), where not all that its analysis resamples."""
    margin: float = NEGLIGIBLE
    """Differences this small mean nothing."""
    ability: bool = False
    """Whether more of it is knowing more: while a model grows, such a measure has an onset, others only change."""

    def varies_by(self, unit: str) -> bool:
        """Whether these are resampled for it."""
        return not self.resampled or unit in self.resampled


@dataclass(frozen=True)
class ComparedLayers:
    """Measures by layer; two models are paired by bootstrap samples of the same documents, texts or word types."""

    table: str
    """One row per layer and measure, with the columns `layer`, `value`, `low` and `high`."""
    measures: tuple[LayerMeasure, ...]
    column: str = "measure"
    """The column that names the measure."""
    rows: Mapping[str, str] = field(default_factory=dict)
    """Column -> the value of the rows that are compared, where not all are; `{model}` stands for the model's name. Rows
    of a twin are never."""
    draws: str = "draws"
    """The table with every measure in each bootstrap sample: `measure`, `layer`, `sample`, `value`. Empty where results
    have none: then measures are put side by side and not tested."""
    last_layer: bool = True
    """Whether the last layer has a value of its own; where it is the reference of all others, it has none."""
    questions: Mapping[str, str] = field(default_factory=dict)
    """Language-model head -> what a model with it is asked; models that are asked different things are not paired."""
    apart: str = ""
    """What is not the same for two models although their texts are."""
    directed: bool = False
    """Whether it matters that a model looks back only."""


@dataclass(frozen=True)
class ComparedItems:
    """Numbers of items (minimal pairs, clozes, documents); two models are paired item by item."""

    table: str = "items"
    """One row per item."""
    keys: tuple[str, str] = ("group", "item")
    """Columns that name an item: its group, and the item within it."""
    value: str = "value"
    unit: str = "item"
    """What one item is; signs of items are flipped."""
    measure: str = "mean value"
    """What the mean over items is called where items are not right or wrong."""
    harmless: tuple[str, ...] = ("samples", "seed", "twin", "limit")
    """Settings that change no item."""
    chance: float | None = None
    """The mean of answers that do not look at the input; None where that is not known."""
    ability: bool = True
    """Whether more of it is knowing more."""


@dataclass(frozen=True)
class ComparedTasks:
    """Tasks of trained probes; two models are paired by the documents of the texts that both were scored on."""

    predictions: str = "{task}.predictions.parquet"
    """The file with what the probes of a task predicted of every target."""
    scores: str = "scores"
    """The table with the scores of the probes."""
    metrics: tuple[str, ...] = ("f1", "macro_f1", "r2")
    """Metrics that follow from saved predictions."""
    places: Mapping[str, str] = field(default_factory=dict)
    """Column of the table `summary` that places a task in the depth of a model -> what it is called."""
    harmless: tuple[str, ...] = ()
    """Settings that do not change how the probes of a task are trained."""


@dataclass(frozen=True)
class ComparedValues:
    """Numbers that are not by layer, such as how often the best head finds a relation.

    Two models are paired unit by unit where results keep what each unit has, and put side by side otherwise.
    """

    table: str
    """One row per thing that is measured."""
    names: tuple[str, ...]
    """The columns that name it."""
    metric: str = ""
    """What is measured; where it is empty, the column `metric` says so."""
    value: tuple[str, str, str] = ("value", "low", "high")
    """The columns of the number and of its 95 % interval; the interval's may be missing."""
    layer: str = ""
    """The column with its layer, where it has one."""
    units: str = ""
    """The table with the sums of every unit: the columns of `names`, then `unit`, `hits` and `count`. Signs of units
    are flipped."""
    unit: str = "document"
    """What a unit is."""
    often: int = 30
    """Numbers over fewer things are not tested."""
    rows: Mapping[str, str] = field(default_factory=dict)
    """Column -> the value of the rows that are compared, where not all are."""
    ability: bool = True
    """Whether more of it is knowing more."""


Comparable = ComparedLayers | ComparedItems | ComparedTasks | ComparedValues
"""What an analysis may declare as `compares`."""


@dataclass(frozen=True, kw_only=True)
class Declaration:
    """What an analysis says of itself; decorates the function that answers the question (as `analysis`)."""

    title: str
    """A heading."""
    question: str
    """What it answers, as a question."""
    method: str
    """How, in two sentences."""
    reads: Reads
    """What it is called with."""
    version: int
    """Raised when the same inputs would give other numbers."""
    tables: Mapping[str, Table]
    """What it returns."""
    chapter: Chapter
    """Where the report and the app show it."""
    cites: tuple[str, ...] = ()
    """Papers, as author and year."""
    report: Mapping[str, Any] | None = None
    """The settings with which the default report asks it; None where it does not."""
    takes: float | None = None
    """Seconds in the default report of minilm on 2 cores (docs/benchmarks.md): while a report is made, its page says
    from these how long the rest takes."""
    charts: str | None = None
    """The module whose `draw` draws it and whose `CAPTIONS` explain the charts; by default the one in `lamina.figures`
    with the analysis's name."""
    example: str = ""
    """A command to show in its help."""
    needs: tuple[str, ...] | None = None
    """What it cannot do without of a model's states, maps, norms or ablation, where the function does not show it: by
    default maps if it watches them, states otherwise."""
    compares: Comparable | None = None
    """What of its results `lamina compare` compares models by; None where it compares none."""

    def __call__(self, function: Callable[..., Any]) -> Analysis:
        """The function as an analysis."""
        return Analysis(function, self)


analysis = Declaration
"""The decorator of an analysis's function."""


class Overview(NamedTuple):
    """A small table for the terminal: the numbers to look at first."""

    title: str
    columns: tuple[str, ...]
    rows: list[tuple[str | int, ...]]


@dataclass(frozen=True)
class Query:
    """An analysis with its inputs loaded and its settings checked, ready to run."""

    analysis: Analysis
    loaded: LoadedInputs
    settings: Mapping[str, Any]
    runtime: Runtime

    @cached_property
    def parameters(self) -> dict[str, Any]:
        """What provenance records: every setting that can change the answer, and hashes of the files they name."""
        from lamina.framework.run import contents_of

        declared = self.analysis.settings
        recorded: dict[str, Any] = {}
        for name, value in self.settings.items():
            about = declared[name].about
            if about.counts:
                recorded |= {name: _json(value)} if about.parts is None else about.parts(value)
        return recorded | contents_of(declared, self.settings)

    @cached_property
    def question(self) -> str:
        """Equal for the same question on the same inputs."""
        from lamina.results.folder import question_key

        return question_key(self.analysis.name, *self.loaded.fingerprints, self.parameters)


class Analysis:
    """One declared analysis: call it with its inputs and settings, and get a `Result`.

    Example:
        >>> import lamina
        >>> from lamina.testing import TinyEncoder
        >>> result = lamina.geometry(TinyEncoder(), [["Dogs", "bark"], ["Cats", "do", "not"]], samples=10)
        >>> result.tables["layers"].columns.tolist()
        ['model', 'layer', 'measure', 'value', 'low', 'high']
    """

    def __init__(self, function: Callable[..., Any], declaration: Declaration) -> None:
        self.function = function
        self.name: str = function.__name__
        self.title = declaration.title
        self.question = declaration.question
        self.method = declaration.method
        self.cites = declaration.cites
        self.reads = declaration.reads
        self.version = declaration.version
        self.tables = declaration.tables
        self.chapter: Chapter = declaration.chapter
        self.report = declaration.report
        self.takes = declaration.takes
        self.charts = declaration.charts or f"lamina.figures.{self.name}"
        self.example = declaration.example
        self.needs = declaration.needs
        self.compares = declaration.compares
        self.__name__, self.__qualname__, self.__module__ = self.name, self.name, function.__module__
        self.__doc__, self.__wrapped__ = function.__doc__, function
        self._findings: Callable[[Result], Iterable[Finding]] | None = None
        self._costs: Callable[..., Cost] | None = None
        self._shows: Callable[[Result], Iterable[Overview | str]] | None = None

    @cached_property
    def settings(self) -> dict[str, DeclaredSetting]:
        """Name -> setting, as the signature declares them."""
        return settings_of(self.function, _INJECTED)

    @cached_property
    def options(self) -> tuple[DeclaredSetting, ...]:
        """The data options of what it reads; a setting of the same name replaces one."""
        return tuple(option for option in self.reads.options if option.name not in self.settings)

    @cached_property
    def checker(self) -> Checker:
        """Checks settings."""
        return Checker(self.name, self.settings)

    @cached_property
    def option_checker(self) -> Checker:
        """Checks data options."""
        return Checker(self.name, {option.name: option for option in self.options})

    @cached_property
    def __signature__(self) -> inspect.Signature:
        kind = inspect.Parameter
        alone = len(self.reads.given) == 1
        positional = [
            kind(given.name, kind.VAR_POSITIONAL if given.many and alone else kind.POSITIONAL_OR_KEYWORD)
            if given.many or given.default is REQUIRED
            else kind(given.name, kind.POSITIONAL_OR_KEYWORD, default=given.default)
            for given in self.reads.given
        ]
        keywords = {setting.name: setting for setting in (*self.settings.values(), *self.options)}
        named = [
            kind(name, kind.KEYWORD_ONLY, default=setting.default, annotation=setting.type)
            for name, setting in keywords.items()
        ]
        places = [kind(name, kind.KEYWORD_ONLY, default=None, annotation=taken) for name, taken in _PLACES.items()]
        return inspect.Signature([*positional, *named, *places], return_annotation=Result)

    def __repr__(self) -> str:
        return f"<analysis {self.name}: {self.title}>"

    def __call__(self, *inputs: Any, **keywords: Any) -> Result:
        """Answer the question; with `out`, save the result there, or reuse a saved one that answers it already."""
        from lamina.framework.run import ask, run

        work = inspect.signature(self.function).parameters.get("work")
        if work is not None and work.default is work.empty and keywords.get("out") is None:
            raise InputError(f"{self.name} writes files: say where with out=FOLDER")
        query, out, replace = self._bound(inputs, keywords)
        return run(query) if out is None else ask(query, Path(out), replace=replace)

    def estimate(self, *inputs: Any, **keywords: Any) -> Cost:
        """What answering would take, without answering; models that were loaded before are not loaded for it."""
        from lamina.framework.estimate import estimate

        return estimate(self._bound(inputs, keywords, described=True)[0])

    def ask(self, *inputs: Any, **keywords: Any) -> Query:
        """The analysis with its inputs loaded and settings checked, not run."""
        return self._bound(inputs, keywords)[0]

    def finds(self, function: Callable[[Result], Iterable[Finding]]) -> Callable[[Result], Iterable[Finding]]:
        """Decorates the function that says what a result shows."""
        self._findings = function
        return function

    def costs(self, function: Callable[..., Cost]) -> Callable[..., Cost]:
        """Decorates the function that estimates the cost; called with an `Estimator`, then as the analysis itself."""
        self._costs = function
        return function

    def shows(self, function: Callable[[Result], Iterable[Overview | str]]) -> Callable[..., Any]:
        """Decorates the function that gives what the terminal prints above the findings: small tables, or lines."""
        self._shows = function
        return function

    def overview(self, result: Result) -> Iterable[Overview | str]:
        """What the terminal prints above the findings."""
        return self._shows(result) if self._shows else ()

    @property
    def cost_function(self) -> Callable[..., Cost] | None:
        """What `costs` decorated; None if its work grows with the tokens it reads."""
        return self._costs

    def findings(self, result: Result) -> tuple[Finding, ...]:
        """What a result shows, clear findings first, the most important of them at the top."""
        findings = strongest_first(tuple(self._findings(result)) if self._findings else ())
        with_remarks = Sample.of(result.provenance).with_remarks(findings)
        return tuple(replace(finding, chapter=self.chapter) for finding in with_remarks)

    def wants(self, name: str) -> bool:
        """Whether the function asks for a `runtime` or a `work` folder."""
        return name in inspect.signature(self.function).parameters

    def bibtex(self) -> str:
        """BibTeX entries of the papers behind this analysis, and of lamina.

        Example:
            >>> import lamina
            >>> lamina.geometry.bibtex().splitlines()[0]
            '@inproceedings{ethayarajh-2019,'
        """
        written = files("lamina.framework").joinpath("references.bib").read_text(encoding="utf-8")
        parts = (part.strip().partition("\n") for part in f"\n{written}".split("\n% ")[2:])
        entries = {name: entry for name, _, entry in parts}
        missing = [name for name in self.cites if name not in entries]
        if missing:
            raise InputError(f"{self.name} cites {missing[0]}, of which references.bib has no entry; add one")
        return "\n\n".join(entries[name] for name in (*self.cites, "lamina"))

    def describe(self) -> dict[str, Any]:
        """Inputs, settings, tables and version, as data; settings and data options are JSON schemas."""
        return {
            "name": self.name,
            "title": self.title,
            "question": self.question,
            "method": self.method,
            "cites": list(self.cites),
            "chapter": self.chapter,
            "version": self.version,
            "inputs": [_input(given) for given in self.reads.given],
            "data_options": self.option_checker.schema(),
            "settings": self.checker.schema(),
            "tables": {
                name: {
                    "rows": table.rows,
                    "columns": list(table.columns),
                    "optional": table.optional,
                    "format": table.format,
                }
                for name, table in self.tables.items()
            },
        }

    def _bound(
        self, inputs: tuple[Any, ...], keywords: dict[str, Any], *, described: bool = False
    ) -> tuple[Query, Any, bool]:
        places = {name: keywords.pop(name) for name in _PLACES if name in keywords}
        given = self._given(inputs, keywords)
        options = {option.name for option in self.options}
        chosen = {name: keywords.pop(name) for name in list(keywords) if name in options}
        settings = self.checker.check(keywords)
        runtime = _runtime(places)
        if described:
            runtime = replace(runtime, described=True)
        loaded = self.reads.load(given, self._options(given, chosen), settings, runtime)
        refuse_unfit(self, settings, loaded.arguments)
        return Query(self, loaded, settings, runtime), places.get("out"), bool(places.get("replace"))

    def _given(self, inputs: tuple[Any, ...], keywords: dict[str, Any]) -> dict[str, Any]:
        """The inputs by name; an InputError if one is missing, unknown or given twice."""
        expected = self.reads.given
        if len(expected) == 1 and expected[0].many:
            name = expected[0].name
            listed = inputs[0] if len(inputs) == 1 and isinstance(inputs[0], list | tuple) else inputs
            return {name: list(keywords.pop(name, listed))}
        call = f"lamina.{self.name}({', '.join(wanted.name for wanted in expected)}, **settings)"
        if len(inputs) > len(expected):
            raise InputError(f"{self.name} takes {len(expected)} inputs, not {len(inputs)}: {call}")
        given = dict(zip((wanted.name for wanted in expected), inputs, strict=False))
        for wanted in expected:
            if wanted.name in keywords:
                if wanted.name in given:
                    raise InputError(f"{self.name}: {wanted.name} is given twice")
                given[wanted.name] = keywords.pop(wanted.name)
            elif wanted.name not in given and wanted.default is REQUIRED:
                raise InputError(f"{self.name}: {wanted.name} is missing; call it as {call}")
        return {wanted.name: given.get(wanted.name, wanted.default) for wanted in expected}

    def _options(self, given: Mapping[str, Any], chosen: Mapping[str, Any]) -> dict[str, Any]:
        data, model = given.get("data"), given.get("model")
        named = isinstance(data, str | Path)
        for name in chosen:
            if name in ("unit", "format", "annotation") and not named and data is not None:
                raise InputError(f"{self.name}: {name} is for data given by name or path; this data is already loaded")
            models = model if isinstance(model, list) else [model]
            if name == "dtype" and model is not None and not all(isinstance(one, str | Path) for one in models):
                raise InputError(f"{self.name}: dtype is for a model given by name; this model is already loaded")
        return self.option_checker.check(chosen)


def _runtime(places: dict[str, Any]) -> Runtime:
    from lamina.activations.runtime import Runtime

    given = places.pop("runtime", None)
    store, device, engine, keep = (places.pop(name, None) for name in ("store", "device", "engine", "keep"))
    trust = bool(places.pop("trust_remote_code", None))
    if given is not None:
        has_parts = trust or any(part is not None for part in (store, device, engine, keep))
        if not isinstance(given, Runtime) or has_parts:
            raise InputError("runtime is a lamina.Runtime(store, device, engine); give it or its parts, not both")
        return given
    return Runtime(None if store is None else Path(store), device, engine, trust, keep)


def _input(given: Input) -> dict[str, Any]:
    required = given.default is REQUIRED
    described = {"name": given.name, "help": given.help, "many": given.many, "required": required}
    return described if required else described | {"default": given.default}


def _json(value: Any) -> Any:
    """A setting as provenance and keys hold it."""
    if isinstance(value, list | tuple):
        return [_json(item) for item in value]
    if isinstance(value, Result):
        return value.key
    return value.describe() if hasattr(value, "describe") else value
