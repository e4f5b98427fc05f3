"""The cells of a study: requests like any other, each with its place in the study's folder."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from lamina.errors import DamagedError, LaminaError
from lamina.files.checking import read_json, write_json
from lamina.framework.registry import get_analysis
from lamina.framework.requests import Request, data_of, read_request
from lamina.framework.run import safe_name
from lamina.results.folder import HEAD, answer_key, read_head
from lamina.studies.declaration import Selector, Study, StudyCorpus, StudyModel, StudyQuestion

RESULTS, CELLS, RECORD = "results", "cells", "study.json"
"""In the folder of a study: results of cells, what is recorded of cells, and which study it is."""
State = Literal["answered", "failed", "refused", "open"]


@dataclass(frozen=True)
class StudyCell:
    """One model, one corpus, one analysis with its settings and, where the study has several, one seed."""

    study: str
    question: str
    """The analysis, by its name in the study."""
    model: str
    corpus: str
    """Empty where the analysis reads none."""
    seed: int | None
    source: str
    """What loads the model."""
    revision: str
    table: Mapping[str, Any] = field(hash=False)
    """The request, as `read_request` reads it."""

    @property
    def name(self) -> str:
        """As in `probe/minilm/ewt`: unique in the study, and the names of its folders."""
        parts = [self.question, self.model, self.corpus or "none"]
        return "/".join(map(safe_name, parts)) + (f"/seed{self.seed}" if self.seed is not None else "")

    @property
    def label(self) -> str:
        """One part of a path."""
        return self.name.replace("/", "--")

    @property
    def folder(self) -> Path:
        """Of its result, in the folder of the study."""
        return Path(RESULTS) / safe_name(self.question) / self.label.partition("--")[2]

    @cached_property
    def request(self) -> Request:
        """The request, checked."""
        return read_request(self.table)

    def __getstate__(self) -> dict[str, Any]:
        """Without the request, which holds functions: workers read it again."""
        return {name: value for name, value in self.__dict__.items() if name != "request"}

    @property
    def digest(self) -> str:
        """Equal for the same request to the same version of the analysis."""
        version = get_analysis(str(self.table["analysis"])).version
        return hashlib.sha256(json.dumps([self.table, version], sort_keys=True, default=str).encode()).hexdigest()

    @property
    def names(self) -> dict[str, str | tuple[str, ...]]:
        """What selectors know it by."""
        analysis = str(self.table["analysis"])
        seed = "" if self.seed is None else str(self.seed)
        data = data_of(get_analysis(analysis))
        given = self.table.get(data, {}) if data else {}
        path = str(given.get("name", "")) if isinstance(given, Mapping) else str(given)
        corpus = (self.corpus, path)
        return {"model": (self.model, self.source), "corpus": corpus, "analysis": (self.question, analysis),
                "seed": seed}  # fmt: skip


@dataclass(frozen=True)
class CellRecord:
    """What is known of a cell that was run."""

    name: str
    state: State
    why: str = ""
    """Why it failed or could not be asked, in one sentence."""
    digest: str = ""
    """Of the request that was run."""
    key: str = ""
    """Of the answer."""
    seconds: float = 0.0
    """What computing the answer took, as wall time; of a reused answer, when it was computed."""
    memory: int = 0
    """Most memory that the process had held by then, in bytes."""
    reused: bool = False
    """Whether the answer was there already."""


def cells_of(study: Study) -> list[StudyCell]:
    """All cells, by model, then corpus, then analysis; a StudyError names the line of what contradicts itself.

    Example:
        >>> from lamina.studies.declaration import parse_study
        >>> text = '[study]\\nmodels = ["minilm", "mpnet"]\\ncorpora = ["ewt"]\\n[analyses.geometry]\\n'
        >>> [cell.name for cell in cells_of(parse_study(text, Path("small.toml")))]
        ['geometry/minilm/ewt', 'geometry/mpnet/ewt']
    """
    cells = {cell.name: cell for cell in _product(study)}
    excluded = {name for name, cell in cells.items() if any(one.matches(cell.names) for one in study.excludes)}
    cells_left = {name: cell for name, cell in cells.items() if name not in excluded}
    for selector in study.includes:
        for cell in _included(study, selector):
            if any(one.matches(cell.names) for one in study.excludes):
                line = next(one.line for one in study.excludes if one.matches(cell.names))
                study.refuse(selector.line, f"{cell.name} is included here and excluded in line {line}; keep one")
            if cell.name in cells_left and cells_left[cell.name].table != cell.table:
                study.refuse(
                    selector.line,
                    f"{cell.name} is in the study already with other settings; use [[override]] to change them",
                )
            cells_left[cell.name] = cell
    if not cells_left:
        study.refuse(1, "the study has no cells: everything is excluded, or no corpus is named")
    by_model = {model.name: place for place, model in enumerate(study.models)}
    ordered = sorted(cells_left.values(), key=lambda cell: (by_model.get(cell.model, len(by_model)), cell.corpus))
    for cell in ordered:
        try:
            _ = cell.request
        except LaminaError as error:
            study.refuse(1, f"{cell.name}: {error}")
    return ordered


def _product(study: Study) -> Iterator[StudyCell]:
    for model in study.models:
        for question in study.questions:
            if question.models is not None and not Selector({"model": question.models}).matches(
                {"model": (model.name, model.source)}
            ):
                continue
            for corpus in _corpora(study, question):
                for seed in _seeds(study, question):
                    yield _cell(study, model, question, corpus, seed)


def _corpora(study: Study, question: StudyQuestion) -> Sequence[StudyCorpus | None]:
    if data_of(get_analysis(question.analysis)) is None:
        return (None,)
    return study.corpora if question.corpora is None else question.corpora


def _seeds(study: Study, question: StudyQuestion) -> Sequence[int | None]:
    taken = "seed" in get_analysis(question.analysis).settings
    return study.seeds if study.seeds and taken else (None,)


def _included(study: Study, selector: Selector) -> Iterator[StudyCell]:
    """The cells of one [[include]]; models and corpora may be other ones than the study's."""
    patterns = Selector({"analysis": selector.where["analysis"]})
    named = [question for question in study.questions if patterns.matches({"analysis": question.name})]
    questions = named or [one for one in study.questions if patterns.matches({"analysis": one.analysis})]
    for source in selector.where["model"]:
        known = next((model for model in study.models if source in (model.name, model.source)), None)
        model = known or StudyModel(source.rpartition("/")[2], source)
        for question in questions:
            corpora = _corpora(study, question)
            if corpora != (None,):
                corpora = _included_corpora(study, question, selector.where.get("corpus"))
            for corpus in corpora:
                for seed in _seeds(study, question):
                    yield _cell(study, model, question, corpus, seed, selector)


def _included_corpora(
    study: Study, question: StudyQuestion, named: Sequence[str] | None
) -> Sequence[StudyCorpus | None]:
    if named is None:
        return _corpora(study, question)
    known = {corpus.name: corpus for corpus in (*study.corpora, *(question.corpora or ()))}
    return [known.get(name, StudyCorpus(Path(name).name, name)) for name in named]


def _cell(
    study: Study,
    model: StudyModel,
    question: StudyQuestion,
    corpus: StudyCorpus | None,
    seed: int | None,
    include: Selector | None = None,
) -> StudyCell:
    analysis = get_analysis(question.analysis)
    taken = {option.name for option in analysis.options}
    settings = {name: value for name, value in study.settings.items() if name in analysis.settings} | {
        **question.settings
    }
    options = {name: value for name, value in study.data.items() if name in taken}
    if corpus is not None:
        options |= {name: value for name, value in corpus.options.items() if name in taken}
    options |= {**question.data} | {name: value for name, value in model.options.items() if name in taken}
    if seed is not None:
        settings["seed"] = seed
    cell = _as_cell(study, model, question, corpus, seed, settings, options)
    changed: dict[tuple[str, str], tuple[Any, int]] = {}
    for selector in (*study.overrides, *([include] if include is not None else ())):
        if selector is not include and not selector.matches(cell.names):
            continue
        for part, values, into in (("settings", selector.settings, settings), ("data", selector.data, options)):
            for name, value in values.items():
                if name not in (analysis.settings if part == "settings" else taken):
                    continue
                before = changed.get((part, name))
                if before is not None and before[0] != value and selector is not include:
                    study.refuse(
                        selector.line,
                        f"{cell.name} is given two values of {name}: {before[0]!r} in line {before[1]} and {value!r} "
                        "here; name its model, corpus or analysis in one of them only",
                    )
                changed[part, name] = (value, selector.line)
                into[name] = value
    return _as_cell(study, model, question, corpus, seed, settings, options)


def _as_cell(
    study: Study, model: StudyModel, question: StudyQuestion, corpus: StudyCorpus | None, seed: int | None,
    settings: Mapping[str, Any], options: Mapping[str, Any],
) -> StudyCell:  # fmt: skip
    analysis = get_analysis(question.analysis)
    table: dict[str, Any] = {"analysis": analysis.name, "model": model.source, **question.inputs}
    data = data_of(analysis)
    if data is not None and corpus is not None:
        table[data] = {"name": corpus.source, **options}
    elif options:
        study.refuse(1, f"{question.name} reads no data, so {model.name} cannot be given {', '.join(options)} for it")
    table["settings"] = dict(settings)
    corpus_name = "" if corpus is None or data is None else corpus.name
    return StudyCell(study.name, question.name, model.name, corpus_name, seed, model.source, model.revision, table)


# What is recorded of cells, beside their results.


def record_path(out: Path, cell: StudyCell) -> Path:
    """The file that says how a cell went."""
    return out / CELLS / f"{cell.label}.json"


def write_record(out: Path, cell: StudyCell, record: CellRecord) -> None:
    """Write down how a cell went, with its request."""
    path = record_path(out, cell)
    path.parent.mkdir(parents=True, exist_ok=True)
    about = {"question": cell.question, "model": cell.model, "corpus": cell.corpus, "revision": cell.revision}
    write_json(path, {**asdict(record), **about, "request": dict(cell.table)})


def read_record(out: Path, cell: StudyCell) -> CellRecord:
    """How a cell went when it was last run; `open` where it was not, or was asked otherwise."""
    nothing = CellRecord(cell.name, "open")
    try:
        written = read_json(record_path(out, cell))
        known = CellRecord(**{name: written[name] for name in CellRecord.__dataclass_fields__})
    except (OSError, LaminaError, DamagedError, LookupError, TypeError):
        return nothing
    if known.digest != cell.digest:
        return nothing
    if known.state == "answered":
        try:
            head = read_head(out / cell.folder)
        except LaminaError:
            return nothing
        version = get_analysis(str(cell.table["analysis"])).version
        same = head.get("key") == known.key == answer_key(str(head.get("question")), version)
        return known if same else nothing
    return known


def claim_folder(study: Study, out: Path) -> None:
    """Write down whose folder it is; a StudyError where another study writes there."""
    path = out / RECORD
    here = str(study.path.resolve())
    if path.is_file():
        try:
            written = read_json(path)
        except (LaminaError, OSError):
            written = {}
        name, file = str(written.get("name")), str(written.get("file"))
        if name != study.name or (file != here and Path(file).is_file()):
            study.refuse(
                1, f"{out} is the folder of the study {name} ({file}); name another with out = ... or --out FOLDER"
            )
    elif out.is_dir() and any(out.iterdir()):
        study.refuse(1, f"{out} holds something other than a study; name a new or empty folder with --out")
    elif out.exists() and not out.is_dir():
        study.refuse(1, f"{out} is a file; name a folder with --out")
    out.mkdir(parents=True, exist_ok=True)
    about = {"format": 1, "name": study.name, "title": study.title, "file": here, "order": list(study.order)}
    write_json(path, about)
    # The study as it was run stays with its results.
    copy = out / "study.toml"
    text = study.path.read_text(encoding="utf-8")
    if copy.resolve() != study.path.resolve() and (not copy.is_file() or copy.read_text(encoding="utf-8") != text):
        from lamina.files.writing import write_text

        write_text(copy, text)


def is_answered(out: Path, cell: StudyCell) -> bool:
    """Whether there is a result where the answer would be."""
    return (out / cell.folder / HEAD).is_file()
