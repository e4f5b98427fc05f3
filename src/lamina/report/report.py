"""From a model and a corpus to the page: ask every question, reuse what is already answered, write the report."""

from __future__ import annotations

import dataclasses
import hashlib
import inspect
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from importlib.metadata import distributions, entry_points
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from lamina import assets
from lamina.corpora.corpus import fingerprint_of
from lamina.errors import (
    CorpusError,
    DamagedError,
    FormatError,
    InputError,
    ModelError,
    ResultError,
    TaskError,
    WriteError,
)
from lamina.files.checking import changed_files, hash_file, read_json, sha256_of, write_json
from lamina.framework.outline import Outline, outlines
from lamina.framework.registry import GROUP, get_analysis
from lamina.progress import say
from lamina.report.page import BY_NAME, FIGURES, GrowingPage, ReportPage, folder_names, names_compared, write_several
from lamina.results.folder import HEAD, read_head

if TYPE_CHECKING:
    from lamina.activations import Runtime
    from lamina.corpora import Corpus
    from lamina.framework.declare import Analysis, Query
    from lamina.framework.estimate import Cost
    from lamina.framework.inputs import Precision
    from lamina.models import Encoder
    from lamina.results import Result


RECORD = "report.json"
"""Beside the page: what it was made from."""
_FORMAT = 2
"""Raised when an older record would say something else."""


def inputs_key(
    model: Any, texts: Corpus, train: Corpus | None, only: Sequence[str] | None, options: Mapping[str, Any]
) -> str | None:
    """Equal where a report would be the same; None where files cannot tell.

    Files cannot tell of a model in memory, of one on the hub (its branch may have moved), of an adapter (its base is
    elsewhere), and where other packages add analyses (their source may be edited in place).
    """
    of_model = _model_files(model)
    if of_model is None or any(entry_points(group=GROUP)):
        return None
    read = [[corpus.name, corpus.split, corpus.fingerprint] for corpus in (texts, train) if corpus is not None]
    installed = sorted(f"{package.name} {package.version}" for package in distributions())
    requested = sorted(only) if only else None
    return fingerprint_of(_FORMAT, str(model), of_model, read, requested, dict(options), source_files(), installed)


def page_up_to_date(out: Path, key: str) -> Path | None:
    """The page of a report that is as it was written, results included, and was made from these inputs."""
    page = out / "index.html"
    try:
        record = read_json(out / RECORD)
        if record.get("inputs") != key or hash_file(page) != record.get("page"):
            return None
        whole = all(_is_whole(out / "results" / name, sha256) for name, sha256 in record["results"].items())
        whole = whole and all(hash_file(out / name) == sha256 for name, sha256 in record["beside"].items())
        # Results that were put there since are compared too.
        there = (path.parent for name in BY_NAME for path in (out / "results").glob(f"*/{name}/{HEAD}"))
        whole = whole and {path.relative_to(out / "results").as_posix() for path in there} <= {*record["results"]}
    except (OSError, DamagedError, InputError, ResultError, LookupError, AttributeError):
        return None
    return page if whole else None


def record_report(out: Path, key: str, results: Sequence[Path]) -> None:
    """Write down what the page in `out` was made from; where that cannot be written, the next report looks again."""
    with suppress(OSError, WriteError):
        heads = {folder.relative_to(out / "results").as_posix(): hash_file(folder / HEAD) for folder in results}
        beside = {f"{FIGURES}/{path.name}": hash_file(path) for path in sorted((out / FIGURES).glob("*.svg"))}
        page = hash_file(out / "index.html")
        write_json(out / RECORD, {"inputs": key, "page": page, "results": heads, "beside": beside})


def _is_whole(folder: Path, sha256: str) -> bool:
    return hash_file(folder / HEAD) == sha256 and not changed_files(folder, read_head(folder).get("hashes", {}))


def _model_files(model: Any) -> dict[str, str] | None:
    """Path -> sha256 of every file that a model given by name may be loaded from; None where that is not known."""
    if not isinstance(model, str | Path):
        return None
    card = assets.cards().get(str(model))
    source = assets.local_folder(card.name) if card is not None and card.kind == "model" else Path(model)
    if source is None or not source.exists() or (source / "adapter_config.json").exists():
        return None
    return {path.relative_to(source).as_posix(): sha256_of(path) for path in _files(source)}


def _files(source: Path) -> Iterator[Path]:
    return (path for path in sorted(source.rglob("*")) if path.is_file()) if source.is_dir() else iter([source])


def source_files() -> str:
    """One hash of lamina's own source: readers, analyses, charts and the page's template."""
    root = Path(str(files("lamina")))
    digest = hashlib.sha256()
    for path in _files(root):
        if "__pycache__" not in path.parts:
            digest.update(f"{path.relative_to(root)} {hash_file(path)}\n".encode())
    return digest.hexdigest()


# The small fine-tuning of the chapter on answering. It belongs to every report, however busy the machine is: what a
# report contains depends on the model, the texts and the options alone.

FINETUNE = "finetune"
"""The analysis whose model the chapter looks at."""


def finetuning_settings(declared: Analysis, limit: int | None) -> dict[str, Any]:
    """The settings of the fine-tuning; with a limit, no more stories than that are learned from, or scored.

    Example:
        >>> from lamina.framework.registry import get_analysis
        >>> finetuning_settings(get_analysis("finetune"), 100)["limit"]
        100
    """
    settings: Mapping[str, Any] = declared.report or {}
    return dict(settings) if limit is None else {**settings, "limit": limit}


def is_too_few(limit: int | None) -> bool:
    """Whether a limit leaves fewer stories than the fine-tuning of a report learns from.

    Example:
        >>> is_too_few(100), is_too_few(None)
        (True, False)
    """
    settings = get_analysis(FINETUNE).report or {}
    return limit is not None and limit < settings.get("max_steps", 0) * settings.get("batch", 0)


def in_minutes(seconds: float) -> str:
    """A time as one says it.

    Example:
        >>> in_minutes(38.2), in_minutes(310)
        ('about 38 s', 'about 5 minutes')
    """
    return f"about {max(1, round(seconds))} s" if seconds < 100 else f"about {round(seconds / 60)} minutes"


def cost_in_words(question: Query, cost: Cost, seconds: float) -> str:
    """What is about to be done, and how to do without."""
    return (
        f"fine-tuning {question.loaded.model['name']} on stories ({cost.steps:,} steps): {in_minutes(seconds)} of CPU "
        f"time; leave it out with --without {question.analysis.name}"
    )


def finetuning_cost(question: Query) -> tuple[Cost, float]:
    """What fine-tuning takes, and its seconds of CPU time, which hardly depend on what else the machine does."""
    from lamina.framework.estimate import estimate

    wall, cpu = time.perf_counter(), time.process_time()
    cost = estimate(question)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    return cost, cost.seconds * cpu / wall if wall > 0 and cpu > 0 else cost.seconds


def announce(question: Query, folder: Path) -> None:
    """Print how long fine-tuning takes; nothing where the fine-tuned model is saved already."""
    from lamina.framework.run import saved

    if saved(question, folder) is None:
        say(cost_in_words(question, *finetuning_cost(question)))


_FULL: Precision = "float32"
"""What models compute in unless a report says otherwise."""
STORIES = "stories"
"""What a model learns to answer for the chapter on answering: lamina makes them itself."""
_LEFT_OUT = (CorpusError, ModelError, TaskError)
"""What the model or the corpus cannot answer is left out, and the page says so."""


def in_report() -> dict[str, Outline]:
    """The analyses of a report, in the order of the page; none is imported for that."""
    return {name: analysis for name, analysis in outlines().items() if analysis.in_report}


def choose(
    only: Sequence[str] | None = None, without: Sequence[str] | None = None, *, several: bool = False
) -> list[str]:
    """The analyses named, in the order of the page; all of them where none is named. A chapter stands for its analyses.

    A report on `several` models has further ones, where they are named.

    Example:
        >>> choose(["geometry"]), choose(["probe", "attention"], without=["abilities"])
        (['geometry'], ['attention'])
    """
    further = _compared_by_name() if several else {}
    wanted, unwanted = expand(only or (), further), expand(without or (), further)
    if FINETUNE in unwanted:
        unwanted |= _learned()
    known = in_report() | (further if only else {})
    left = [name for name in known if (not only or name in wanted) and name not in unwanted]
    if not left:
        raise InputError("no analysis is left; name fewer with --without")
    return left


def _compared_by_name() -> dict[str, Outline]:
    """The analyses that only a report on several models has, where they are named."""
    report = in_report()
    return {name: analysis for name, analysis in outlines().items() if name in BY_NAME and name not in report}


def expand(names: Sequence[str], further: Mapping[str, Outline] | None = None) -> set[str]:
    """The analyses that are named, by themselves or by their chapter; an analysis goes before a chapter of its name."""
    chapters: dict[str, set[str]] = {}
    for analysis in in_report().values():
        chapters.setdefault(analysis.chapter, set()).add(analysis.name)
    known = in_report() | dict(further or {})
    unknown = [name for name in names if name not in known and name not in chapters]
    if unknown:
        raise InputError(
            f"a report has no analysis {', '.join(map(repr, unknown))}; it has: {', '.join(known)}; in the chapters: "
            f"{', '.join(chapters)}"
        )
    return {analysis for name in names for analysis in ({name} if name in known else chapters[name])}


def make_report(
    model: Any,
    data: Any = "ewt",
    out: str | os.PathLike[str] = "report",
    *,
    only: Sequence[str] | None = None,
    without: Sequence[str] | None = None,
    split: str = "dev",
    unit: str = "sentence",
    format: str | None = None,
    annotation: str | None = None,
    limit: int | None = None,
    first: int | None = None,
    dtype: Precision = "float32",
    chat: bool = False,
    runtime: Runtime | None = None,
    replace: bool = False,
    single_file: bool = False,
) -> Path:
    """Answer every question, keep the answers in `out/results`, write `out/index.html` and return its path.

    The page is there after the first analysis and is written again after each, with what is still to come; a run that
    is stopped leaves it.

    An answer already kept for the same model, data and settings is reused. A question that the model or the data cannot
    answer is left out, and the page says so; asked for by name, it is an error. Analyses that watch attention maps
    share one pass. For the chapter on answering the model is fine-tuned on stories; with a limit that leaves too few
    of them, it is done only if the chapter is asked for by name (`only`).

    Args:
        model: a name, a folder, an encoder, or a pair (model, tokenizer); a list of models for a page that compares
            them, each with its results in `out/results/MODEL`.
        data: a name, a path, a corpus, (train, dev), or splits by name.
        out: the folder to write.
        only: the analyses wanted, by name or by chapter; all by default.
        without: analyses or chapters to leave out.
        split: what is looked at and scored, of data given by name.
        unit: what becomes one text, of data given by name.
        format: of a file or folder; detected by default.
        annotation: a name for the only annotation of the data, or `old=new,...` for some of them.
        limit: number of texts to draw from each split, as whole documents.
        first: take the first texts of each split instead of drawing some.
        dtype: what a model given by name computes in; fine-tuning is in float32.
        chat: put each text as the user's message into the model's chat template.
        runtime: where activations are kept and models run.
        replace: overwrite results of other questions that lie in `out/results`.
        single_file: put still images and tables into the page, which then needs no other file.

    Example:
        >>> lamina.make_report("minilm", "ewt", "report")  # doctest: +SKIP
        PosixPath('report/index.html')
    """
    of_data = {"split": split, "unit": unit, "format": format, "annotation": annotation, "limit": limit}
    of_data |= {} if first is None else {"first": first}
    how = of_data | {"dtype": dtype, "chat": chat} | named_apart(without)
    how |= {"single_file": True} if single_file else {}
    trusts = runtime is not None and runtime.trust_remote_code
    key = None if trusts else _key(model, data, only, how)
    page = None if key is None else page_up_to_date(Path(out), key)
    if page is not None:
        return page
    names = choose(only, without, several=isinstance(model, list))
    if isinstance(model, list):
        return _make_several(model, data, names, Path(out), how, runtime, only=only, replace=replace, key=key)
    report = ReportRun.of(model, data, how, Path(out), runtime, replace=replace)
    page = report.write(names, asked_for=bool(only))
    # What was left out may be there next time; what changed meanwhile is not what the report was made from.
    if key is not None and not report.left_out and key == _key(model, data, only, how):
        record_report(Path(out), key, report.folders)
    return page


def _make_several(
    models: list[Any],
    data: Any,
    names: Sequence[str],
    out: Path,
    how: dict[str, Any],
    runtime: Runtime | None,
    *,
    only: Sequence[str] | None,
    replace: bool,
    key: str | None,
) -> Path:
    """A page that compares models; see `make_report`."""

    def loading(model: Any) -> Callable[[Path], ReportRun]:
        return lambda results: ReportRun.of(model, data, how, out, runtime, replace=replace, results=results)

    reports = {folder: loading(model) for folder, model in zip(folder_names(models), models, strict=True)}
    compared = names_compared(names, only)
    whole = {"replace": replace, "single_file": bool(how.get("single_file"))}
    page, folders, left_out = write_several(reports, compared, out, **whole)
    if key is not None and not left_out and key == _key(models, data, only, how):
        record_report(out, key, folders)
    return page


def named_apart(without: Sequence[str] | None) -> dict[str, list[str]]:
    """What a report leaves out, as an option that it is known by; nothing where not given.

    Example:
        >>> named_apart(["answering"])
        {'without': ['answering']}
    """
    return {"without": sorted(without)} if without else {}


def find_report(
    model: Any, data: Any, out: str | os.PathLike[str], *, only: Sequence[str] | None, options: Mapping[str, Any]
) -> Path | None:
    """The page in `out` if it is up to date, found in a second: neither torch nor the model is loaded for it.

    Example:
        >>> options = {"split": "dev", "unit": "sentence", "format": None, "annotation": None, "limit": None}
        >>> find_report("minilm", "stories", "no/such/folder", only=None, options=options) is None
        True
    """
    if not (Path(out) / RECORD).is_file():
        return None
    key = _key(model, data, only, options)
    return None if key is None else page_up_to_date(Path(out), key)


def _key(model: Any, data: Any, only: Sequence[str] | None, options: Mapping[str, Any]) -> str | None:
    """What a report is known by, of models and texts given by name."""
    if isinstance(model, list):
        keys = [_key(single, data, only, options) for single in model]
        return None if None in keys else fingerprint_of("several", keys)
    if not isinstance(model, str | Path) or not isinstance(data, str | Path):
        return None
    return inputs_key(model, *_load_texts(data, options), only, options)


class ReportCost(NamedTuple):
    """What a report would take."""

    total: Cost
    notes: list[str]
    """What of it is fine-tuning, or why there is none."""

    def __str__(self) -> str:
        return "\n".join([str(self.total), *self.notes])


def estimate_report(
    model: Any, data: Any, *, only: Sequence[str] | None, options: dict[str, Any], runtime: Runtime | None = None
) -> ReportCost:
    """What all analyses of a report would take, one after the other."""
    from lamina.activations import Runtime
    from lamina.framework.estimate import Cost, estimate

    names = choose(only, options.get("without"), several=isinstance(model, list))
    if isinstance(model, list):
        folder_names(model)
        compared = names_compared(names, only)
        costs = [estimate_report(one, data, only=compared, options=options, runtime=runtime) for one in model]
        return ReportCost(sum((cost.total for cost in costs), Cost(passes=0)), [])
    described = dataclasses.replace(runtime or Runtime(), described=True)
    report = ReportRun.of(model, data, options, Path("report"), described, replace=False)
    total, notes = Cost(passes=0), []
    if not only and is_too_few(options.get("limit")):
        names = [name for name in names if name not in _learned()]
    names = names if only else report.without_choosing(names)
    for name in sorted(names, key=lambda name: name != FINETUNE):
        try:
            question = report.question(name, tuned=lambda: report.encoder)
            cost, cpu = finetuning_cost(question) if name == FINETUNE else (estimate(question), 0.0)
        except _LEFT_OUT:
            continue
        if name == FINETUNE:
            notes.append(f"of this, {cost_in_words(question, cost, cpu)}")
        total += cost
    return ReportCost(total, notes)


class ReportRun:
    """One report in the making."""

    def __init__(
        self,
        encoder: Encoder,
        texts: Corpus,
        train: Corpus | None,
        out: Path,
        runtime: Runtime,
        *,
        dtype: Precision,
        replace: bool,
        single_file: bool = False,
        limit: int | None = None,
        results: Path | None = None,
    ) -> None:
        self.encoder, self.texts, self.train, self.out, self.runtime = encoder, texts, train, out, runtime
        self._dtype: Precision = dtype
        self._single_file = single_file
        self._replace = replace
        self._limit = limit
        self._kept = results or out / "results"
        """Where results are kept."""
        self._made: dict[str, Result] = {}
        self._notes: dict[str, str] = {}
        self._lacking: list[str] = []
        """What this model can never answer: a report without it is complete."""
        self._learned: Encoder | None = None

    @classmethod
    def of(
        cls,
        model: Any,
        data: Any,
        options: dict[str, Any],
        out: Path,
        runtime: Runtime | None,
        *,
        replace: bool,
        results: Path | None = None,
    ) -> ReportRun:
        """With texts to score, and texts to learn from where there are any."""
        from lamina.activations import Runtime
        from lamina.corpora.corpus import in_memory
        from lamina.framework.inputs import as_encoder

        where = runtime or Runtime()
        if options.get("dtype", _FULL) != _FULL and not isinstance(model, str | Path):
            raise InputError("dtype is for a model given by name; this model is already loaded")
        texts, train = _load_texts(data, options)
        encoder = as_encoder(model, options, where)
        # Every analysis reads them, most several times.
        texts, train = in_memory(texts), None if train is None else in_memory(train)
        keywords: dict[str, Any] = {"replace": replace, "single_file": bool(options.get("single_file"))}
        keywords |= {"limit": options.get("limit") or options.get("first"), "results": results}
        return cls(encoder, texts, train, out, where, dtype=options.get("dtype", _FULL), **keywords)

    def write(self, names: Sequence[str], *, asked_for: bool) -> Path:
        """Answer, and write the page, which grows meanwhile."""
        if not asked_for:
            names = self.without_choosing(self._without_learning(self._without_behaviour(names)))
        title = f"{self.encoder.name} on {self.texts.name} ({self.texts.split})"
        page = ReportPage(self.out, title, single_file=self._single_file)
        with GrowingPage(page, {name: in_report()[name].title for name in names}) as growing:
            for _ in self._each(names, asked_for=asked_for):
                growing.grow(self._results, self.folders, self.notes, [*self._made, *self._notes])
        if not self._made:
            raise CorpusError("; ".join(self._notes.values()) or "nothing was asked")
        return page.write(self._results, notes=self.notes, folders=self.folders)

    def answer(self, names: Sequence[str], *, asked_for: bool) -> dict[str, Result]:
        """Answer without a page."""
        if not asked_for:
            names = self.without_choosing(self._without_learning(self._without_behaviour(names)))
        for _ in self._each(names, asked_for=asked_for):
            pass
        return {result.analysis: result for result in self._results}

    def _each(self, names: Sequence[str], *, asked_for: bool) -> Iterator[None]:
        """Answer one after the other."""
        watching = [name for name in names if _watches(name)]
        for name in names:
            if name in self._made:
                continue
            if name in watching:
                self._watch_together(watching)
                watching = []
            if name not in self._made:
                self._tolerant(name, names, asked_for, lambda name=name: self._ask(name))
            yield

    @property
    def _results(self) -> list[Result]:
        """What was answered so far, in the order of the page."""
        return [self._made[name] for name in self._order]

    @property
    def notes(self) -> list[str]:
        """What was left out, and why."""
        return [*self._notes.values(), *self._lacking]

    @property
    def left_out(self) -> list[str]:
        """The analyses that the model or the texts could not answer."""
        return [*self._notes]

    @property
    def folders(self) -> list[Path]:
        """Where the results on the page are saved, in its order."""
        return [self._folder(name) for name in self._order]

    @property
    def _order(self) -> list[str]:
        """What was answered, in the order of the page."""
        return [name for name in in_report() | _compared_by_name() if name in self._made]

    def question(self, name: str, tuned: Callable[[], Encoder] | None = None) -> Query:
        """One analysis with the settings of a report."""
        from lamina.framework.inputs import QuestionSet

        declared = get_analysis(name)
        if isinstance(declared.reads, QuestionSet):
            inputs: dict[str, Any] = {"model": (tuned or self._tuned)(), "data": STORIES}
        else:
            given = declared.reads.in_report(self.encoder, self.texts, self.train)
            if given is None:
                raise self._cannot_ask(declared)
            inputs = given
        settings = finetuning_settings(declared, self._limit) if name == FINETUNE else declared.report or {}
        return declared.ask(**inputs, **settings, runtime=self.runtime)

    def _ask(self, name: str) -> None:
        """One analysis; fine-tuning says first how long it takes."""
        question = self.question(name)
        if name == FINETUNE:
            announce(question, self._folder(name))
        self._answer({name: question})

    def _cannot_ask(self, declared: Analysis) -> InputError:
        """Why an analysis of the report has nothing to read; a model without a head says so itself."""
        from lamina.models.language.language_model import language_model

        if declared.reads.speaks:
            language_model(self.encoder)
        suite = next((given.default for given in declared.reads.given if given.kind == "suite"), None)
        if suite is not None:
            return CorpusError(f"{suite} is not on this machine; get it with `lamina assets get {suite}`")
        return InputError(f"{declared.name} cannot be part of a report")

    def _without_behaviour(self, names: Sequence[str]) -> Sequence[str]:
        """The analyses without those that ask for words, where the model has no head to say any."""
        from lamina.models.language.language_model import has_language_model

        behaviour = [name for name in names if get_analysis(name).reads.speaks]
        if not behaviour or has_language_model(self.encoder):
            return names
        self._lacking.append(
            f"Behaviour (what a language model says) is left out: {self.encoder.name} has no language-model head."
        )
        return [name for name in names if name not in behaviour]

    def _without_learning(self, names: Sequence[str]) -> Sequence[str]:
        """The analyses without those of a model that learns to answer, where a limit leaves too few stories."""
        learning = _learned() & set(names)
        if not learning or not is_too_few(self._limit):
            return names
        self._lacking.append(
            "Answering stories is left out: --limit leaves too few stories to learn from; ask for it with --only "
            "phases,token_map."
        )
        return [name for name in names if name not in learning]

    def without_choosing(self, names: Sequence[str]) -> Sequence[str]:
        """Which layer to use is asked where the texts have one kind of label, as a table does.

        Of several, as in a treebank, one has to be named: `lamina choose --task`.
        """
        from lamina.analyses.layers.choose.examples import task_of
        from lamina.framework.inputs import SeveralModels

        choosing = [name for name in names if isinstance(get_analysis(name).reads, SeveralModels)]
        if not choosing:
            return names
        try:
            task_of(self.texts, None)
        except InputError:
            return [name for name in names if name not in choosing]
        return names

    def _tuned(self) -> Encoder:
        """The model after it has learned to answer stories; loaded once."""
        from lamina.models import load_encoder

        if FINETUNE not in self._made:
            self._ask(FINETUNE)
        if self._learned is None:
            self._learned = load_encoder(
                str(self._folder(FINETUNE)),
                device=self.runtime.device,
                dtype=self._dtype,
                # It was fine-tuned on texts in this form.
                chat="chat" in self.encoder.origin,
            )
            self._learned.name = f"{self.encoder.name}, fine-tuned"
        return self._learned

    def _watch_together(self, names: Sequence[str]) -> None:
        """All analyses that watch maps, in one pass; what fails is asked again alone, and then says why."""
        questions: dict[str, Query] = {}
        for name in names:
            with suppress(InputError):
                questions[name] = self.question(name)
        with suppress(InputError):
            self._answer(questions)

    def _answer(self, questions: dict[str, Query]) -> None:
        from lamina.framework.run import ask_together

        folders = [self._folder(name) for name in questions]
        answers = ask_together(list(questions.values()), folders, replace=self._replace)
        self._made |= dict(zip(questions, answers, strict=True))

    def _folder(self, name: str) -> Path:
        return self._kept / name

    def _tolerant(self, name: str, names: Sequence[str], asked_for: bool, work: Callable[[], None]) -> None:
        try:
            work()
        except _LEFT_OUT as error:
            # The first is asked of any model and any corpus: where it fails, there is nothing to report.
            if asked_for or name == names[0]:
                raise
            self._notes[name] = f"{outlines()[name].title} is left out: {error}."


def _learned() -> set[str]:
    """The analyses that fine-tune, or look at a fine-tuned model."""
    known = in_report().values()
    return {analysis.name for analysis in known if any(given.kind == "questions" for given in analysis.inputs)}


def _watches(name: str) -> bool:
    return inspect.isgeneratorfunction(inspect.unwrap(get_analysis(name).function))


def _load_texts(data: Any, options: Mapping[str, Any]) -> tuple[Corpus, Corpus | None]:
    """Texts to score, and texts to learn from where there are any."""
    from lamina.corpora import Corpus
    from lamina.framework.inputs import as_corpus, as_splits

    texts = as_corpus(data, options, options["split"])
    if options["split"] not in ("dev", "test") or isinstance(data, Corpus):
        return texts, None
    try:
        return texts, as_splits(data, options).train
    except FormatError:
        raise
    except CorpusError:
        return texts, None
