"""A paper, run: what is at hand is looked at first, then its requests are run, and the page is written."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lamina import assets
from lamina.errors import CorpusError, InputError, LaminaError, ModelError, TaskError
from lamina.files.writing import write_text
from lamina.framework.registry import get_analysis
from lamina.framework.requests import data_of
from lamina.progress import say
from lamina.reproduction.comparison import compare_numbers
from lamina.reproduction.page import write_page
from lamina.reproduction.papers import (
    MISSING,
    ORIGINAL,
    STAND_IN,
    Paper,
    PaperData,
    PaperRun,
    get_paper,
    refuse_other_edition,
)

if TYPE_CHECKING:
    from lamina.activations import Runtime
    from lamina.framework.declare import Query
    from lamina.framework.estimate import Cost
    from lamina.results import Result

_REFUSED = (CorpusError, ModelError, TaskError, InputError)
"""What a model or the data cannot do is told before anything runs; the rest is run."""


@dataclass
class PlannedRun:
    """One request, with its inputs loaded, or why it cannot be run."""

    run: PaperRun
    data: str
    """What is read, in words."""
    data_is: str
    query: Query | None = None
    to_get: str = ""
    """What the paper's own data are and how to come by them, where they are not what is read."""
    refusal: str = ""
    remark: str = ""
    """How much of the paper's data was scored, where not all."""
    result: Result | None = None
    folder: Path | None = None


@dataclass
class PaperPlan:
    """What will be run of a paper, on what."""

    paper: Paper
    model: str
    model_is: str
    runs: list[PlannedRun]
    small: bool

    def __str__(self) -> str:
        lines = [f"{self.paper.title} ({self.paper.cite})", f"model  {self.model}: {self.model_is}"]
        for planned in self.runs:
            state = planned.refusal and f"not run: {planned.refusal}"
            read = f"{planned.data}: {planned.data_is}"
            lines.append(f"{planned.run.name:<18} {planned.run.analysis:<14} {state or read}")
        lines += dict.fromkeys(f"to get: {planned.to_get}" for planned in self.runs if planned.to_get)
        return "\n".join(lines)


def plan_paper(
    name: str,
    model: str | None = None,
    data: str | os.PathLike[str] | None = None,
    *,
    small: bool = False,
    any_edition: bool = False,
    runtime: Runtime | None = None,
) -> PaperPlan:
    """Load what a paper's requests read, and say what is its own, what stands in and what cannot be run.

    Example:
        >>> plan_paper("blimpp")
        Traceback (most recent call last):
        ...
        lamina.errors.InputError: there is no paper 'blimpp'; did you mean blimp? There are: ...
    """
    paper = get_paper(name)
    root = None if data is None else Path(data)
    if root is not None and not root.is_dir():
        raise InputError(f"--data {root} is not a folder; it holds the papers' data, as in {root}/ontonotes")
    chosen = model or model_for(paper)
    model_is = ORIGINAL if paper.is_own(chosen) else STAND_IN
    runs = []
    for run in paper.runs:
        if run.unless and paper.data[run.unless].folder(root):
            continue
        if run.needs_original and run.original and paper.data[run.original].folder(root) is None:
            continue
        runs.append(_planned(paper, run, chosen, root, small=small, any_edition=any_edition, runtime=runtime))
    if not runs or all(planned.refusal for planned in runs):
        reasons = "; ".join(dict.fromkeys(planned.refusal for planned in runs))
        instead = f"try --model {paper.stand_ins[0]}" if chosen != paper.stand_ins[0] else "nothing stands in"
        raise ModelError(f"nothing of {paper.name} can be run with {chosen}: {reasons}; {instead}")
    return PaperPlan(paper, chosen, model_is, runs, small)


def model_for(paper: Paper) -> str:
    """The paper's model where it is on this machine, otherwise the first stand-in that is; else the first stand-in.

    Example:
        >>> model_for(get_paper("blimp")) in ("gpt2-large", "gpt2", "smollm2")
        True
    """
    from lamina.models.weights.hub import snapshot_folder

    for name in paper.models:
        if snapshot_folder(name, None) is not None:
            return name
    at_hand = [name for name in paper.stand_ins if name in assets.cards() and assets.is_cached(name)]
    return (at_hand or list(paper.stand_ins))[0]


def _planned(
    paper: Paper, run: PaperRun, model: str, root: Path | None, *, small: bool, any_edition: bool,
    runtime: Runtime | None,
) -> PlannedRun:  # fmt: skip
    source, words, data_is = _data_for(paper, run, root)
    original = paper.data.get(run.original or "")
    planned = PlannedRun(
        run, words, data_is, to_get="" if original is None or data_is == ORIGINAL else original.to_get_it()
    )
    settings, options = run.asked(small=small, stands_in=data_is != ORIGINAL)
    analysis = get_analysis(run.analysis)
    where: dict[str, Any] = {} if runtime is None else {"runtime": runtime}
    inputs: dict[str, Any] = {"model": model, **run.inputs}
    given = data_of(analysis)
    try:
        if source is not None and given is not None:
            inputs.setdefault(given, source)
        if original is not None and original.format and data_is == ORIGINAL:
            options["format"] = original.format
            if not any_edition:
                refuse_other_edition(original, counted(original, Path(str(source))))
        query = analysis.ask(**inputs, **options, **settings, **where)
        _refuse_unable(run, query)
        planned.query = query
    except _REFUSED as error:
        planned.refusal = str(error)
    return planned


def _refuse_unable(run: PaperRun, query: Query) -> None:
    """Raise a ModelError where a run needs a language-model head or training, and the model has none."""
    from lamina.models import Encoder
    from lamina.models.language.language_model import language_model
    from lamina.models.running.huggingface import HuggingFaceEncoder

    for argument in query.loaded.arguments:
        for encoder in argument if isinstance(argument, list | tuple) else (argument,):
            if isinstance(encoder, Encoder) and run.needs == "predict":
                language_model(encoder)
            elif isinstance(encoder, Encoder) and run.needs == "train" and not isinstance(encoder, HuggingFaceEncoder):
                raise ModelError(f"{encoder.name} cannot be fine-tuned: it is no transformers model")


def _data_for(paper: Paper, run: PaperRun, root: Path | None) -> tuple[str | None, str, str]:
    """What a run reads: a name or path, in words, and what it is to the paper."""
    original = paper.data.get(run.original or "")
    if original is None:
        return run.data, run.stand_in or run.data or "", STAND_IN if run.stand_in else ORIGINAL
    folder = original.folder(root)
    if folder is not None and (original.asset is None or folder.name != original.asset):
        return str(folder), original.title, ORIGINAL
    if original.asset is not None:
        return original.asset, original.title, ORIGINAL
    if run.data is None:
        return None, original.title, MISSING
    return run.data, run.stand_in or run.data, STAND_IN


def counted(data: PaperData, folder: Path) -> dict[str, dict[str, int]]:
    """What the splits of these files hold, of what the paper's edition is known by; splits that are not there lack."""
    from lamina.corpora.loading import known_splits, load_corpus

    counts: dict[str, dict[str, int]] = {}
    if any("listed" in expected for expected in data.counts.values()):
        lists = {split: folder / f"{split}.tsv" for split in data.counts}
        return {split: {"listed": _lines(path)} for split, path in lists.items() if path.is_file()}
    for split in set(data.counts) & set(known_splits(folder, data.format)):
        texts, documents = 0, set()
        for text in load_corpus(folder, split, format=data.format):
            texts += 1
            # Parts of a document (`bc/cctv/00/cctv_0000:000`) are one document of the shared task.
            documents.add(str(text.doc).rpartition(":")[0] or str(text.doc))
        counts[split] = {"texts": texts, "documents": len(documents)}
    return counts


def _lines(path: Path) -> int:
    from lamina.files.reading import read_regular

    return sum(bool(line.strip()) for line in read_regular(path).decode("utf-8").splitlines())


def share_of_suite(data: PaperData, result: Result) -> str:
    """How much of a test suite was scored, in words; empty where all of it was, or where it has no counts.

    Example:
        >>> import pandas as pd
        >>> from lamina.results import Provenance, Result
        >>> items = pd.DataFrame({"item": ["1", "2"], "group": ["a", "a"]})
        >>> result = Result("pairs", {"items": items}, Provenance({}, {}, {}))
        >>> share_of_suite(PaperData("blimp", "BLiMP", counts={"suite": {"pairs": 67_000}}), result)
        '2 of the 67,000 pairs'
    """
    items = result.tables.get("items")
    if items is None:
        return ""
    counts = {"pairs": len(items), "suites": items["group"].nunique(), "relations": items["group"].nunique()}
    expected = data.counts.get("suite", {})
    lacking = [f"{counts[what]:,} of the {count:,} {what}" for what, count in expected.items() if counts[what] != count]
    return ", ".join(lacking)


def estimate_paper(plan: PaperPlan) -> Iterator[tuple[str, Cost | str]]:
    """What every run takes on this machine, or why it is not run."""
    from lamina.framework.estimate import estimate

    for planned in plan.runs:
        yield planned.run.name, planned.refusal if planned.query is None else estimate(planned.query)


def reproduce(
    paper: str,
    model: str | None = None,
    data: str | os.PathLike[str] | None = None,
    out: str | os.PathLike[str] | None = None,
    *,
    small: bool = False,
    only: list[str] | None = None,
    any_edition: bool = False,
    replace: bool = False,
    runtime: Runtime | None = None,
) -> Path:
    """Run a paper's requests and write one page with its figures and tables, published numbers beside ours.

    Args:
        paper: its name, see `paper_names`.
        model: by default the paper's where it is on this machine, otherwise a stand-in.
        data: a folder with the papers' own data, as `data.toml` says.
        out: the folder to write; by default reproductions/PAPER-MODEL.
        small: the smaller settings of the request file.
        only: the runs wanted, by name; all by default.
        any_edition: run on data whose counts are not the paper's.
        replace: overwrite other results in `out`.
        runtime: where models run and states are kept.

    Example:
        >>> reproduce("blimp", "smollm2")  # doctest: +SKIP
        PosixPath('reproductions/blimp-smollm2/index.html')
    """
    from lamina.framework.run import ask, safe_name

    plan = plan_paper(paper, model, data, small=small, any_edition=any_edition, runtime=runtime)
    _choose(plan, only)
    folder = Path(out) if out is not None else Path("reproductions") / f"{paper}-{safe_name(Path(plan.model).name)}"
    say(str(plan))
    for planned in plan.runs:
        if planned.query is None:
            continue
        planned.folder = folder / "results" / planned.run.name
        try:
            planned.result = ask(planned.query, planned.folder, replace=replace)
        except _REFUSED as error:
            planned.refusal = str(error)
        else:
            original = plan.paper.data.get(planned.run.original or "")
            planned.remark = "" if original is None else share_of_suite(original, planned.result)
        # The next run needs its memory.
        planned.query = None
        write_comparison(plan, folder)
    return write_comparison(plan, folder)


def write_comparison(plan: PaperPlan, folder: Path) -> Path:
    """Write comparison.csv and the page with what there is so far; a stopped run leaves them."""
    results: Mapping[str, Result] = {run.run.name: run.result for run in plan.runs if run.result is not None}
    numbers = compare_numbers(plan.paper.tables, results)
    folder.mkdir(parents=True, exist_ok=True)
    write_text(folder / "comparison.csv", numbers.to_csv(index=False))
    return write_page(plan, numbers, folder)


def _choose(plan: PaperPlan, only: list[str] | None) -> None:
    if not only:
        return
    known = [planned.run.name for planned in plan.runs]
    if unknown := [name for name in only if name not in known]:
        raise InputError(f"{plan.paper.name} has no run {', '.join(unknown)}; it has {', '.join(known)}")
    plan.runs = [planned for planned in plan.runs if planned.run.name in only]
    if all(planned.refusal for planned in plan.runs):
        raise LaminaError("; ".join(dict.fromkeys(planned.refusal for planned in plan.runs)))
