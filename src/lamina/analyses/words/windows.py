"""How much context tagging takes: the model is fine-tuned through attention windows of several sizes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import pandas as pd

from lamina.analyses.answering.finetune import TrainingSets, learning_of
from lamina.errors import InputError
from lamina.framework.declare import Overview, Table, Tables, analysis
from lamina.framework.estimate import Cost, Estimator, memory_now
from lamina.framework.settings import Seed, Setting
from lamina.models.running.huggingface import HuggingFaceEncoder
from lamina.results import Result
from lamina.results.finding import Finding, Source, cell, finding, number, rows_of
from lamina.stats.status import SURE, Contrast
from lamina.training.objective import (
    ALL,
    MetricScore,
    Runs,
    TextOutcome,
    drawn_score,
    means,
    over_seeds,
    score_contrasts,
    unit_kind,
)
from lamina.training.reading import Sets
from lamina.training.settings import PAPER_SETTINGS, Schedule, TrainingPlan, make_plans

if TYPE_CHECKING:
    from lamina.training.finetune import PlanOutcome

WHOLE = "all"
"""The window of a model whose words see the whole text."""
BY_WORD, CONSTANT = "most frequent label of the word", "most frequent label"
"""Baselines: what training says of the word alone, and of nothing."""
_SCORES = ("window", "seed", "metric", "count", "value", "low", "high")
_BASELINE = ("baseline", "metric", "value", "low", "high")
_DIFFERENCES = (
    "window", "against", "metric", "value", "reference", "difference", "low", "high", "p_adjusted", "units", "needed",
    "unit",
)  # fmt: skip
_CURVE = ("window", "seed", "step", "epoch", "split", "metric", "value")
_NAMES = {"pos": "accuracy", "ner": "F1"}
"""Task -> its metric in a sentence."""
_POINT = 0.01
"""A difference in score that counts as none."""


@analysis(
    title="Tagging through attention windows",
    question="How many words on each side does a model need to tag a word?",
    method=(
        "The model is fine-tuned for tagging once for every window and seed: in every block, words see only the words "
        "within the window, their own tokens and special tokens; special tokens see only each other. Each block widens "
        "the view by as much again. The step that does best on the selection set is scored once, on texts of its own, "
        "beside a model that sees the whole text and labels looked up by word. 95 % intervals resample documents, from "
        "5 seeds on seeds too; differences are paired by document and adjusted for the number of windows."
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
    # 2: five seeds and more widen intervals as far as so few can tell (Student).
    # 3: documents are resampled by name; differences are families with simultaneous intervals.
    version=3,
    tables={
        "scores": Table("One row per window (all: the whole text), seed (all: their mean) and metric.", _SCORES),
        "differences": Table(
            "One row per window (empty: the whole text), metric and what it is compared with (the whole text, labels "
            "looked up by word), paired by document; two-sided. All windows of a metric that are compared with the "
            "same are one family (max-T); intervals are simultaneous.",
            _DIFFERENCES,
        ),
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
    length: Annotated[
        int | None, Setting("Maximum number of tokens in one row; the task's own by default.", min=8)
    ] = None,
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
    learned: dict[str, dict[int, PlanOutcome]] = {}
    skipped: dict[str, int] = dict(sets.left_out)
    baselines: dict[str, list[TextOutcome]] = {}
    for name, reach in sizes.items():
        learning = learning_of(encoder, sets, task, length=length, attention_window=reach, seed=seed)
        learned[name] = {
            run_seed: learning.learn(plan._replace(seed=run_seed), work / f"window-{name}-seed-{run_seed}")
            for run_seed in range(seed, seed + seeds)
        }
        baselines = baselines or _baselines(learning.objective, sets)
    scores = {
        name: scores_by_metric({run_seed: outcome.scored for run_seed, outcome in outcomes.items()}, seed)
        for name, outcomes in learned.items()
    }
    runs = {name: [outcome.scored for outcome in outcomes.values()] for name, outcomes in learned.items()}
    return Tables(
        {
            "scores": score_table(scores),
            "differences": difference_table(runs, baselines[BY_WORD], unit_kind(sets.scored), seed=seed),
            "baseline": _table(_BASELINE, _baseline_rows(baselines, seed)),
            "curve": _table(
                _CURVE,
                (
                    (name, str(run_seed), *point)
                    for name, outcomes in learned.items()
                    for run_seed, outcome in outcomes.items()
                    for point in outcome.curve
                ),
            ),
        },
        skipped,
        seeds=tuple(range(seed, seed + seeds)),
        scored={task: max(by_seed[str(seed)].count for by_seed in scores[WHOLE].values())},
    )


@windows.finds
def _findings(result: Result) -> Iterable[Finding]:
    """The smallest window that does as well as the whole text; the word alone; whether context is needed at all."""
    metric = _metric(result)
    rows = [row for row in rows_of(result.tables["differences"]) if row.metric == metric]
    name = _NAMES[result.provenance.parameters["task"]]
    yield _enough([row for row in rows if row.against == WHOLE], name)
    for row in rows:
        if row.window == 0:
            yield _alone(row, name)


@windows.shows
def _overview(result: Result) -> Iterable[Overview]:
    """One row per window."""
    metric = _metric(result)
    table = result.tables["differences"]
    contrasts = table[(table["metric"] == metric) & (table["against"] == WHOLE)]
    lacks = {str(int(row["window"])): row for row in contrasts.to_dict("records")}
    rows = []
    for name, row in _means(result.tables["scores"], metric).items():
        less = lacks.get(name)
        difference = "" if less is None else cell(less["difference"], less["low"], less["high"])
        rows.append((name, cell(*_interval(row)), difference))
    for row in result.tables["baseline"].to_dict("records"):
        if row["metric"] == metric:
            rows.append((row["baseline"], cell(*_interval(row)), ""))
    about = result.provenance
    title = f"{about.model['name']}: {about.parameters['task']} on {about.corpus['name']}, words seen on each side"
    yield Overview(title, ("window", metric, "against the whole text"), rows)


@windows.costs
def _cost(
    estimator: Estimator, encoder: HuggingFaceEncoder, sets: Sets, *, task: Literal["pos", "ner"],
    windows: Sequence[int], seeds: int, length: int | None, seed: int, **settings: Any,
) -> Cost:  # fmt: skip
    """Steps and evaluations of one window, times the windows."""
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
        work=trained * one.read * estimator.per_token,
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


def _plan(task: Literal["pos", "ner"], **settings: Any) -> TrainingPlan:
    return make_plans(PAPER_SETTINGS[task], grid=False, **settings)[0]


def _baselines(objective: Any, sets: Sets) -> dict[str, list[TextOutcome]]:
    """What needs no model, on the same texts."""
    from lamina.training.tags import guess_by_word

    return {
        BY_WORD: guess_by_word(objective, sets.train, sets.scored),
        CONSTANT: objective.constant(sets.train, sets.scored),
    }


def _baseline_rows(baselines: Mapping[str, Sequence[TextOutcome]], seed: int) -> Iterator[tuple[Any, ...]]:
    for name, outcomes in baselines.items():
        for metric in outcomes[0].sums:
            score = drawn_score(outcomes, metric, seed=seed)
            yield name, metric, score.value, *score.interval


def scores_by_metric(runs: Mapping[int, Sequence[TextOutcome]], seed: int) -> dict[str, dict[str, MetricScore]]:
    """Metric -> seed -> score, and `all`."""
    scores = {}
    for metric in next(iter(runs.values()))[0].sums:
        by_seed = {str(run_seed): drawn_score(outcomes, metric, seed=seed) for run_seed, outcomes in runs.items()}
        scores[metric] = by_seed | {ALL: over_seeds(list(by_seed.values()))}
    return scores


def score_table(scores: Mapping[str, Mapping[str, Mapping[str, MetricScore]]]) -> pd.DataFrame:
    rows = (
        (name, run_seed, metric, score.count, score.value, *score.interval)
        for name, by_metric in scores.items()
        for metric, by_seed in by_metric.items()
        for run_seed, score in by_seed.items()
    )
    return _table(_SCORES, rows)


def difference_table(runs: Mapping[str, Runs], by_word: Sequence[TextOutcome], unit: str, *, seed: int) -> pd.DataFrame:
    """Every window minus the whole text, and every window and the whole text minus labels looked up by word."""
    rows = []
    for against, reference in ((WHOLE, runs[WHOLE]), (BY_WORD, [by_word])):
        names = [name for name in runs if name != against]
        for metric in by_word[0].sums:
            contrasts = score_contrasts([(runs[name], reference) for name in names], metric, seed=seed)
            (beside,) = _means_of([reference], metric)
            for name, value, *contrast in zip(
                names, _means_of([runs[name] for name in names], metric), *contrasts, strict=True
            ):
                rows.append((None if name == WHOLE else int(name), against, metric, value, beside, *contrast, unit))
    return _table(_DIFFERENCES, rows).astype({"window": float})


def _means_of(kinds: Iterable[Runs], metric: str) -> list[float]:
    """A metric over all texts, as a mean over seeds."""
    return [sum(means(run)[metric] for run in runs) / len(runs) for runs in kinds]


def _table(columns: tuple[str, ...], rows: Iterable[tuple[Any, ...]]) -> pd.DataFrame:
    return pd.DataFrame(list(rows), columns=list(columns))


def _metric(result: Result) -> str:
    """The task's own: the first that is noted."""
    return str(result.tables["scores"]["metric"].iloc[0])


def _means(scores: pd.DataFrame, metric: str) -> dict[str, Mapping[Any, Any]]:
    pooled = scores[(scores["metric"] == metric) & (scores["seed"] == ALL)]
    return {row["window"]: row for row in pooled.to_dict("records")}


def _interval(row: Mapping[Any, Any]) -> tuple[float, float, float]:
    return float(row["value"]), float(row["low"]), float(row["high"])


def _enough(rows: Sequence[Any], name: str) -> Finding:
    """The smallest window that lacks less than a point of the whole text."""
    tested = [(Contrast.of(row, "difference"), row) for row in rows]
    alike = [row for test, row in tested if test.low >= -_POINT and test.high <= _POINT]
    behind = [row for test, row in tested if test.p < SURE and test.estimate < 0 and row not in alike]
    if alike:
        row = alike[0]
    elif len(behind) == len(rows):
        # That none does as well is as sure as the least sure of the differences.
        row = max(behind, key=lambda row: (row.p_adjusted, row.difference))
    else:
        row = next(row for row in rows if row not in behind)
    words = f"{int(row.window)} words on each side"
    value, whole = number(row.value, digits=3), number(row.reference, digits=3)
    ahead = row.difference > 0
    return finding(
        claim=f"{words} give a higher {name} than the whole text, {value} against {whole}"
        if ahead
        else f"No window does as well as the whole text: with {words} {name} is {value}, with the whole text {whole}",
        whether=f"{words} are enough, within 1 point of the whole text's {name} of {whole}",
        absent=f"{words} are enough: {name} {value}, with the whole text {whole}",
        contrast="difference",
        test=Contrast.of(row, "difference"),
        source=Source("differences", {"against": row.against, "metric": row.metric}),
        unit=row.unit,
        importance=("answers", "localised"),
        margin=_POINT,
        digits=3,
    )


def _alone(row: Any, name: str) -> Finding:
    """The word alone beside the whole text, or beside labels looked up by word."""
    alone, beside = number(row.value, digits=3), number(row.reference, digits=3)
    whole = row.against == WHOLE
    other = "the whole text" if whole else "each word's most frequent label in training"
    order = ("lower", "higher")[row.difference > 0]
    return finding(
        claim=f"Of a model whose words see only themselves {name} is {order} than that of {other}: {alone} against "
        f"{beside}",
        whether=f"{name} of a model whose words see only themselves differs from that of {other}",
        absent=f"A model whose words see only themselves has the {name} of {other}: {alone} and {beside}",
        contrast="difference",
        test=Contrast.of(row, "difference"),
        source=Source("differences", {"window": int(row.window), "against": row.against, "metric": row.metric}),
        unit=row.unit,
        importance=("answers",) if whole else ("beats control",),
        margin=_POINT,
        digits=3,
    )
