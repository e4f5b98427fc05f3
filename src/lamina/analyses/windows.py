"""How much context tagging takes: the model is fine-tuned through attention windows of several sizes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import pandas as pd

from lamina.analyses.declaration import Overview, Table, Tables, analysis
from lamina.analyses.estimate import Cost, Estimator, memory_now
from lamina.analyses.finetune import TrainingSets, learning_of
from lamina.analyses.legacy import finding, legacy_finding, status_of
from lamina.analyses.settings import Seed, Setting
from lamina.encoders.huggingface import HuggingFaceEncoder
from lamina.errors import InputError
from lamina.findings import Finding, cell, number
from lamina.results import Result
from lamina.training.objective import ALL, Score, drawn_score, over_seeds
from lamina.training.reading import Sets
from lamina.training.recipes import RECIPES, Plan, Schedule, make_plans

if TYPE_CHECKING:
    from lamina.training.finetune import Learned

WHOLE = "all"
"""The window of a model whose words see the whole text."""
BY_WORD, CONSTANT = "most frequent label of the word", "most frequent label"
"""Baselines: what training says of the word alone, and of nothing."""
_SCORES = ("window", "seed", "metric", "count", "value", "low", "high")
_BASELINE = ("baseline", "metric", "value", "low", "high")
_DIFFERENCES = ("window", "metric", "difference", "low", "high")
_CURVE = ("window", "seed", "step", "epoch", "split", "metric", "value")
_NAMES = {"pos": "accuracy", "ner": "F1"}
"""Task -> its metric in a sentence."""


@analysis(
    title="Tagging through attention windows",
    question="How many words on each side does a model need to tag a word?",
    method=(
        "The model is fine-tuned for tagging once for every window and seed: in every block, words see only the words "
        "within the window, their own pieces and special tokens; special tokens see only each other. Each block widens "
        "the view by as much again. The step that does best on the selection set is scored once, on texts of its own, "
        "beside a model that sees the whole text and labels looked up by word. 95 % intervals resample documents, from "
        "5 seeds on seeds too."
    ),
    cites=("Zhao et al. 2020",),
    reads=TrainingSets(
        fixed={
            "grid": False,
            "attention_window": None,
            "setting": "distractor",
            "babi_tasks": None,
            "freeze": None,
            "reset": 0,
        }
    ),
    version=2,  # five seeds and more widen intervals as far as so few can tell (Student)
    tables={
        "scores": Table("One row per window (all: the whole text), seed (all: their mean) and metric.", _SCORES),
        "differences": Table("One row per window and metric: what it lacks against the whole text.", _DIFFERENCES),
        "baseline": Table("One row per baseline and metric.", _BASELINE),
        "curve": Table("One row per window, seed, step noted, split and metric; select is the selection set.", _CURVE),
    },
    chapter="words",
    example="lamina windows minilm --data ewt --windows 0,2,8 --limit 500 --max-steps 100 --out results/windows",
)
def windows(
    encoder: HuggingFaceEncoder,
    sets: Sets,
    *,
    task: Annotated[Literal["pos", "ner"], Setting("Task to learn: parts of speech or named entities.")] = "pos",
    windows: Annotated[
        Sequence[int], Setting("Words on each side that a word may see; the whole text is always added.", min=0)
    ] = (0, 2, 4, 8, 16, 32),
    seeds: Annotated[int, Setting("How often each window is trained, each time with the next seed.", min=1)] = 1,
    epochs: Annotated[float | None, Setting("How often each text is seen; the task's own by default.", min=0)] = None,
    lr: Annotated[float | None, Setting("Highest learning rate; the task's own by default.", min=0)] = None,
    batch: Annotated[int | None, Setting("Texts per step; the task's own by default.", min=1)] = None,
    schedule: Annotated[
        Schedule | None, Setting("Learning rate over time: constant, linear or warmup; the task's by default.")
    ] = None,
    max_steps: Annotated[int | None, Setting("Stop after this many steps.", min=1)] = None,
    length: Annotated[int | None, Setting("Most word pieces in one row; the task's own by default.", min=8)] = None,
    seed: Seed = 0,
    work: Path,
) -> Tables:
    """Fine-tune a tagger through attention windows of several sizes, and score each beside the whole text.

    The models are not kept; `lamina finetune --attention-window` makes one, which `lamina contextualize --finetuned`
    then probes through its window. A run that was stopped continues: run the same command again.

    Example:
        >>> result = lamina.windows("minilm", "ewt", windows=[0, 2], out="results/windows")  # doctest: +SKIP
        >>> result.tables["scores"]  # doctest: +SKIP
    """
    sizes = _sizes(windows)
    plan = _plan(task, epochs=epochs, lr=lr, batch=batch, schedule=schedule, max_steps=max_steps, seed=seed)
    learned: dict[str, dict[int, Learned]] = {}
    skipped: dict[str, int] = dict(sets.left_out)
    baselines: dict[str, dict[str, Score]] = {}
    for name, reach in sizes.items():
        learning = learning_of(encoder, sets, task, length=length, attention_window=reach, seed=seed)
        learned[name] = {
            at: learning.learn(plan._replace(seed=at), work / f"window-{name}-seed-{at}")
            for at in range(seed, seed + seeds)
        }
        baselines = baselines or _baselines(learning.objective, sets, seed)
    scores = {name: _by_metric(own, seed) for name, own in learned.items()}
    return Tables(
        {
            "scores": _score_table(scores),
            "differences": _difference_table(scores),
            "baseline": _table(_BASELINE, ((name, *row) for name, own in baselines.items() for row in _lines(own))),
            "curve": _table(
                _CURVE,
                ((name, str(at), *p) for name, own in learned.items() for at, each in own.items() for p in each.curve),
            ),
        },
        skipped,
        seeds=tuple(range(seed, seed + seeds)),
        scored={task: max(by_seed[str(seed)].count for by_seed in scores[WHOLE].values())},
    )


@windows.finds
def _findings(result: Result) -> Iterable[Finding]:
    """The smallest window that does as well as the whole text; the word alone; whether context is needed at all."""
    scores, metric = result.tables["scores"], _metric(result)
    means = _means(scores, metric)
    whole = means[WHOLE]
    yield from _enough(result, means, metric)
    if "0" in means:
        yield from _alone(result, means["0"], whole, metric)


@windows.shows
def _overview(result: Result) -> Iterable[Overview]:
    """One row per window."""
    metric = _metric(result)
    lacks = {row["window"]: row for row in result.tables["differences"].to_dict("records") if row["metric"] == metric}
    rows = []
    for name, row in _means(result.tables["scores"], metric).items():
        less = lacks.get(name)
        told = "" if less is None else cell(less["difference"], less["low"], less["high"])
        rows.append((name, cell(*_interval(row)), told))
    for row in result.tables["baseline"].to_dict("records"):
        if row["metric"] == metric:
            rows.append((row["baseline"], cell(*_interval(row)), ""))
    about = result.provenance
    title = f"{about.model['name']}: {about.parameters['task']} on {about.corpus['name']}, words seen on each side"
    yield Overview(title, ("window", metric, "against the whole text"), rows)


@windows.costs
def _cost(
    _: Estimator, encoder: HuggingFaceEncoder, sets: Sets, *, task: Literal["pos", "ner"], windows: Sequence[int],
    seeds: int, length: int | None, seed: int, **settings: Any,
) -> Cost:  # fmt: skip
    """A few real steps, a part of an evaluation and a checkpoint are timed, for one window."""
    trained = len(_sizes(windows)) * seeds
    learning = learning_of(encoder, sets, task, length=length, attention_window=max(windows, default=0), seed=seed)
    one = learning.expect([_plan(task, seed=seed, **settings)])
    texts = len(sets.train) + len(sets.select) + len(sets.scored)
    # Models are not kept: one with its checkpoints is on disk at a time.
    return Cost(
        passes=trained,
        texts=texts,
        tokens=one.tokens,
        steps=trained * one.steps,
        seconds=trained * one.seconds,
        memory=memory_now(),
        disk=0,
    )


def _sizes(windows: Sequence[int]) -> dict[str, int | None]:
    """Name -> words on each side, by size; the whole text last."""
    if not windows:
        raise InputError("windows: name at least one size, such as --windows 0,2,8")
    if len(set(windows)) < len(windows):
        raise InputError(f"windows: every size is named once; got {', '.join(map(str, windows))}")
    return {**{str(size): size for size in sorted(windows)}, WHOLE: None}


def _plan(task: Literal["pos", "ner"], **settings: Any) -> Plan:
    return make_plans(RECIPES[task], grid=False, **settings)[0]


def _baselines(objective: Any, sets: Sets, seed: int) -> dict[str, dict[str, Score]]:
    """What needs no model, scored on the same texts."""
    from lamina.training.tags import guess_by_word

    noted = objective.noted.copy()
    told = {
        BY_WORD: guess_by_word(objective, sets.train, sets.scored),
        CONSTANT: list(objective.guess(sets.train, sets.scored)),
    }
    objective.noted = noted
    return {
        name: {metric: drawn_score(said, metric, seed=seed) for metric in said[0].sums} for name, said in told.items()
    }


def _by_metric(learned: Mapping[int, Learned], seed: int) -> dict[str, dict[str, Score]]:
    """Metric -> seed -> score, and `all`."""
    found = {}
    for metric in next(iter(learned.values())).scored[0].sums:
        own = {str(at): drawn_score(each.scored, metric, seed=seed) for at, each in learned.items()}
        found[metric] = own | {ALL: over_seeds(list(own.values()))}
    return found


def _score_table(scores: Mapping[str, Mapping[str, Mapping[str, Score]]]) -> pd.DataFrame:
    rows = (
        (name, at, metric, score.count, score.value, *score.interval)
        for name, by_metric in scores.items()
        for metric, by_seed in by_metric.items()
        for at, score in by_seed.items()
    )
    return _table(_SCORES, rows)


def _difference_table(scores: Mapping[str, Mapping[str, Mapping[str, Score]]]) -> pd.DataFrame:
    rows = []
    for name, by_metric in scores.items():
        if name != WHOLE:
            for metric, by_seed in by_metric.items():
                less = by_seed[ALL].minus(scores[WHOLE][metric][ALL])
                rows.append((name, metric, less.value, *less.interval))
    return _table(_DIFFERENCES, rows)


def _lines(scores: Mapping[str, Score]) -> Iterator[tuple[str, float, float, float]]:
    for metric, score in scores.items():
        yield metric, score.value, *score.interval


def _table(columns: tuple[str, ...], rows: Iterable[tuple[Any, ...]]) -> pd.DataFrame:
    return pd.DataFrame(list(rows), columns=list(columns))


def _metric(result: Result) -> str:
    """The task's own: the first that is noted."""
    return str(result.tables["scores"]["metric"].iloc[0])


def _means(scores: pd.DataFrame, metric: str) -> dict[str, Mapping[Any, Any]]:
    own = scores[(scores["metric"] == metric) & (scores["seed"] == ALL)]
    return {row["window"]: row for row in own.to_dict("records")}


def _interval(row: Mapping[Any, Any]) -> tuple[float, float, float]:
    return float(row["value"]), float(row["low"]), float(row["high"])


def _enough(result: Result, means: Mapping[str, Mapping[Any, Any]], metric: str) -> Iterator[Finding]:
    """The smallest window whose difference from the whole text may be none, and how small that difference is."""
    lacks = [row for row in result.tables["differences"].to_dict("records") if row["metric"] == metric]
    name, whole = _NAMES[result.provenance.parameters["task"]], number(*_interval(means[WHOLE]))
    enough = next((row for row in lacks if row["high"] >= 0), None)
    if enough is None:
        least = lacks[-1]
        lacking = number(-least["difference"], -least["high"], -least["low"], digits=3)
        yield legacy_finding(
            f"No window does as well as the whole text: {least['window']} words on each side lack {lacking} of {whole} "
            f"({name}).",
            "clear", least["difference"], least["low"], least["high"], 0.0,
        )  # fmt: skip
        return
    difference = (enough["difference"], enough["low"], enough["high"])
    status = status_of(*difference[1:], 0.0)
    are = {"null": "are enough", "open": "may be enough", "clear": "do better"}[status]
    yield legacy_finding(
        f"{enough['window']} words on each side {are}: {name} {number(*_interval(means[enough['window']]))}; the whole "
        f"text gives {whole}, a difference of {number(*difference, digits=3)}.",
        status, *difference, 0.0,
    )  # fmt: skip


def _alone(result: Result, alone: Mapping[Any, Any], whole: Mapping[Any, Any], metric: str) -> Iterator[Finding]:
    """The word alone beside the whole text, and beside labels looked up by word."""
    name = _NAMES[result.provenance.parameters["task"]]
    yield finding(
        f"With the whole text {name} is {{number}}; a model whose words see only themselves reaches {{against}}.",
        *_interval(whole), float(alone["value"]), (float(alone["low"]), float(alone["high"])),
    )  # fmt: skip
    table = result.tables["baseline"]
    rows = table[(table["baseline"] == BY_WORD) & (table["metric"] == metric)].to_dict("records")
    for row in rows:
        yield finding(
            f"Words that see only themselves reach {name} {{number}}; each word's most frequent label in training "
            "gives {against}.",
            *_interval(alone), float(row["value"]), (float(row["low"]), float(row["high"])),
        )  # fmt: skip
