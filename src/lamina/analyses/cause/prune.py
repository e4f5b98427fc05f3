"""Heads or blocks removed one after another: how much of a model can be removed before it does worse?"""

from __future__ import annotations

import atexit
import json
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import isfinite
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import pandas as pd
import torch

from lamina.analyses.cause.effects import (
    TESTED,
    AskedQuestions,
    CauseInputs,
    Probes,
    ScoreChange,
    Suite,
    effects_of,
    measure,
)
from lamina.analyses.cause.removal_curve import (
    BOTTOM,
    CONTRASTS,
    CURVE,
    EFFECT,
    IMPORTANCE,
    ORDERS,
    RANDOM,
    SHARES,
    TOP,
    By,
    Component,
    PruningOrder,
    ScoreDraws,
    contrast_rows,
    curves,
    orders,
    parts_of,
    points_of,
    score_draws,
    share_rows,
)
from lamina.corpora import corpus_from
from lamina.corpora.splits import Splits
from lamina.errors import InputError
from lamina.files.writing import write_text
from lamina.framework.declare import Overview, Table, Tables, analysis
from lamina.framework.estimate import Cost, Estimator, memory_now
from lamina.framework.sample_size import LEAST_DOCUMENTS
from lamina.framework.settings import Samples, Seed, Setting, Twin
from lamina.models.interventions.interventions import Interventions
from lamina.models.interventions.pruned import (
    PRUNED,
    RemovedParts,
    refuse_unsavable,
    removed_stay_zero,
    save_pruned,
    save_weights,
)
from lamina.models.running.anatomy import attention_by
from lamina.models.running.huggingface import HuggingFaceEncoder
from lamina.results import Result
from lamina.results.finding import Finding, Source, finding, not_tested, number, percent, rows_of
from lamina.stats.intervals import column_intervals
from lamina.stats.seeds import ENOUGH_SEEDS
from lamina.stats.status import NEGLIGIBLE, SURE, Contrast
from lamina.targets.choice import TargetData, chosen_targets, targets_of
from lamina.targets.target import (
    LOSS,
    PAIRS,
    PROBE,
    QA,
    QA_EXACT,
    SubsetTarget,
    Target,
    TargetScores,
    halved,
    same_items,
    some_texts,
)
from lamina.training.provenance import ABOUT, TEXTS, folder_of, is_among, read_about, text_hash, used_texts
from lamina.training.running import RetrainingPlan, train_on
from lamina.types import Text

RETRAINED = (
    "model", "by", "removed", "steps", "before", "value", "low", "high", "difference", "diff_low", "diff_high", "more",
    "more_low", "more_high", "p_adjusted", "units", "needed",
)  # fmt: skip
FOLDER = "model"
"""Folder of the saved model, in the result's folder."""


class CurvePoint(NamedTuple):
    """A point of a curve."""

    by: str
    removed: int


def named_point(text: str, many: int, component: str) -> CurvePoint:
    """Parse `--save BY:REMOVED`.

    Example:
        >>> named_point("importance:24", 72, "head")
        CurvePoint(by='importance', removed=24)
    """
    by, _, number = text.partition(":")
    if by not in ORDERS or not number.isdecimal():
        raise InputError(f"--save {text}: write BY:REMOVED, such as importance:{many // 3}; BY is {', '.join(ORDERS)}")
    most = many if component == "head" else many - 1
    if not 1 <= int(number) <= most:
        raise InputError(f"--save {text}: {number} of {many} {component}s cannot be removed; name 1 to {most}")
    return CurvePoint(by, int(number))


def save_point(model: Interventions, orders: Sequence[PruningOrder], point: CurvePoint) -> tuple[Path, RemovedParts]:
    """Save the model without the first parts of an order (of random orders, the first one)."""
    order = next(order for order in orders if order.by == point.by)
    removed = order.without(point.removed)
    return _saved(model, removed)[1], removed


def files_of(folder: Path) -> dict[str, Path]:
    """The files of a saved model, as files of the result."""
    return {f"{FOLDER}/{path.name}": path for path in sorted(folder.iterdir()) if path.is_file()}


def retrained(
    model: Interventions, target: Target, material: TargetData, point: CurvePoint, removed: RemovedParts, folder: Path,
    learned: RetrainingData, *, items: int, samples: int, seed: int,
) -> Iterator[tuple[Any, ...]]:  # fmt: skip
    """Rows of `RETRAINED`: the pruned model and, for comparison, the whole model, both trained further.

    Replaces the saved model in `folder`. Scored texts are not trained on.
    """
    how = learned.how
    rows, gains = [], []
    for name, gone in (("pruned", removed), ("whole", RemovedParts())):
        loaded, scratch = _saved(model, gone)
        # Before training, since heads are recognised by their weights.
        (scored,) = targets_of(loaded, [target.name], material, items=items, seed=seed)
        lesson = _training_target(loaded, scratch, learned, items, seed)
        scored, parts = same_items(scored, target), Interventions(loaded, heads=bool(gone.heads))
        before = measure(parts, scored, [])[0]
        _train(parts, gone, lesson, how)
        after = measure(parts, scored, [])[0]
        if name == "pruned":
            plan = {**how._asdict(), "target": learned.target, "texts": learned.material.texts.name}
            save_weights(loaded, folder, {"retrained": plan})
            _copy_provenance(model.encoder, folder, learned.texts)
        draws = score_draws([before, after], scored.units, samples=samples, seed=seed)
        rows.append((name, point.by, len(gone.names), how.steps, *_row(draws)))
        gains.append(TargetScores(after.hits - before.hits, after.counts))
    (more,) = effects_of([ScoreChange(gains[1], gains[0], target.units)])
    yield *rows[0], more.effect, more.low, more.high, more.p, more.units, more.needed
    yield *rows[1], *[float("nan")] * 6


class RetrainingData(NamedTuple):
    """What a pruned model is trained further on."""

    target: str
    material: TargetData
    """Its texts are the training texts."""
    texts: tuple[Text, ...]
    left_out: int
    """Number of training texts left out because they are scored."""
    how: RetrainingPlan
    among: Target | None = None
    """Only its items are trained on; None for all texts."""


def retraining_data(choosing: Target, material: TargetData, how: RetrainingPlan) -> RetrainingData:
    """The target that a pruned model is trained on: training texts, or the questions that chose its parts.

    Raises InputError if there is nothing to train on.
    """
    name = choosing.name
    if name.startswith(PROBE):
        raise InputError(
            f"--retrain: {name} uses no head of the model, so there is no loss to train it by; use one of the targets "
            "loss, pairs (trained by the loss), tags, classes and qa"
        )
    if name in (QA, QA_EXACT) and material.questions is not None:
        chosen = set(choosing.items)
        some = tuple(question.text for question in material.questions.questions() if question.text.id in chosen)
        return RetrainingData(name, material, some, 0, how, choosing)
    if material.splits is None:
        raise InputError(
            f"--retrain: {material.texts.name} has no training texts; name a corpus that has some, such as ewt"
        )
    train, scored = list(material.splits.train), {text_hash(text) for text in material.scored}
    apart = [text for text in train if not is_among(text, scored)]
    if not apart:
        raise InputError(f"--retrain: every training text of {material.texts.name} is also scored; name another corpus")
    some = tuple(some_texts(apart, how.steps * how.batch, how.seed))
    corpus = corpus_from(some, name=material.texts.name, split="train")
    # Minimal pairs are a test, so the model trains by its language-model loss.
    taught = LOSS if name == PAIRS else name
    return RetrainingData(taught, replace(material, texts=Splits(corpus, corpus)), some, len(train) - len(apart), how)


def _training_target(
    encoder: HuggingFaceEncoder, folder: Path, learned: RetrainingData, items: int, seed: int
) -> Target:
    """The target that a model is trained on; `folder` is where it was loaded from."""
    if learned.among is not None:
        (target,) = targets_of(encoder, [learned.target], learned.material, items=items, seed=seed)
        return same_items(target, learned.among)
    # Texts that it was fine-tuned on may be used again.
    (folder / TEXTS).unlink(missing_ok=True)
    (target,) = targets_of(encoder, [learned.target], learned.material, items=len(learned.texts), seed=seed)
    return target


def _train(parts: Interventions, removed: RemovedParts, lesson: Target, how: RetrainingPlan) -> None:
    """Train an encoder in memory by the loss of its head; the removed heads' weights stay 0."""
    encoder = parts.encoder

    def loss_of(rows: Sequence[int]) -> torch.Tensor:
        states = encoder.model(**encoder.inputs([lesson.rows[row] for row in rows])).last_hidden_state
        return lesson.loss(rows, {encoder.blocks: states})

    with attention_by(encoder.model, None), removed_stay_zero(parts, removed.heads):
        train_on(encoder.model, loss_of, len(lesson.rows), how, what=f"{encoder.name} trained on")


def _saved(model: Interventions, removed: RemovedParts) -> tuple[HuggingFaceEncoder, Path]:
    """The model without some parts, and its folder."""
    folder = _scratch() / FOLDER
    saved = save_pruned(model, removed, folder)
    _copy_provenance(model.encoder, folder)
    return saved, folder


def _row(draws: ScoreDraws) -> tuple[float, ...]:
    """Before, after with its interval, and the difference with its own."""
    (before, after), (low, high) = draws.value, draws.interval
    moved = column_intervals(draws.drawn[:, 1] - draws.drawn[:, 0])
    return tuple(map(float, (before, after, low[1], high[1], after - before, *moved)))


def _copy_provenance(encoder: HuggingFaceEncoder, folder: Path, texts: Sequence[Text] = ()) -> None:
    """Copy what a fine-tuned folder records of its task and training texts to the pruned model."""
    source = folder_of(encoder)
    used = (frozenset() if source is None else used_texts(source)) | {text_hash(text) for text in texts}
    if source is not None and (source / ABOUT).is_file():
        blocks = json.loads((folder / PRUNED).read_text(encoding="utf-8"))["blocks_removed"]
        about = {**read_about(source), "layers": encoder.layers - len(blocks)}
        write_text(folder / ABOUT, json.dumps(about, indent=2, default=str) + "\n")
    if used:
        write_text(folder / TEXTS, "".join(f"{line}\n" for line in sorted(used)))


def _scratch() -> Path:
    """A temporary folder for models, removed when Python ends."""
    folder = Path(tempfile.mkdtemp(prefix="lamina-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


HOW = {
    IMPORTANCE: "by importance (gradient of a gate)",
    EFFECT: "by the effect of each alone",
    RANDOM: "at random",
    TOP: "from the top layer down",
    BOTTOM: "from the bottom layer up",
}
"""Order -> its words in findings."""
_NATS = 0.05
"""Differences in loss within this margin are negligible, in nats per token."""
_ORDER = ("by", "place", "layer", "head", "worth")
_CONTROLS = (
    "control", "value", "low", "high", "whole", "difference", "diff_low", "diff_high", "p_adjusted", "units", "needed",
)  # fmt: skip
TWIN, GUESS = "the twin with random weights", "guessing"
_TRIED = 16
"""Rows that are timed to estimate the cost of all of them."""
_BACKWARD = 3
"""Cost of a run with gradients, in runs without."""
_OF = {"p_adjusted": "p"}
"""Column of a test -> its field in `Effect`, where the names differ."""


@analysis(
    title="Heads and blocks pruned",
    question="How much of a model can be removed before it does worse, and does it matter which parts are removed?",
    method=(
        "Heads (zero ablation) or blocks (skipped) are removed one after another: first those with the smallest "
        "gradient of a gate, or first those whose single ablation costs least, at random, or layer by layer from the "
        "top or the bottom. The order is determined on one half of the documents (pairs and questions: of the items), "
        "the curve is scored on the other. Intervals (95 %) resample documents and, of random orders, the orders too. "
        "The share that can be removed is that at the last point before the score is worse by more than 1 point (a "
        "loss: by more than 1 %)."
    ),
    cites=("Michel et al. 2019", "Voita et al. 2019", "Sajjad et al. 2023"),
    reads=CauseInputs(),
    # 2: orders are compared as one family, the model with its controls document by document.
    version=2,
    tables={
        "curve": Table("One row per order and number of heads (or blocks) removed; of random orders the mean.", CURVE),
        "shares": Table("One row per order: the share that can be removed within 1 point (of a loss: 1 %).", SHARES),
        "contrasts": Table(
            "One row per pair of orders: the share that can be removed by the first minus that by the second. All rows "
            "are one family (bootstrap of documents, max-T), two-sided; intervals are simultaneous.",
            CONTRASTS,
        ),
        "order": Table(
            "One row per order that is not random and head (or block): its place in the order; worth: its importance, "
            "or how much worse the score is without it alone, on the half that determines the order.",
            _ORDER,
        ),
        "controls": Table(
            "One row per control: the score of guessing and of the untrained twin on the same items; difference: the "
            "whole model's score minus that, paired by document. One family (sign flips, max-T), two-sided.",
            _CONTROLS,
        ),
        "retrained": Table(
            "Only with --retrain: one row per model, pruned and whole, after further training. more: gain of the "
            "pruned model minus gain of the whole one, paired by document, a family of one, two-sided.",
            RETRAINED,
            optional=True,
        ),
    },
    chapter="heads",
    needs=("states", "ablation"),
    example="lamina prune minilm --corpus ewt --items 200 --out results/prune",
)
def prune(
    encoder: HuggingFaceEncoder,
    material: TargetData,
    *,
    targets: Annotated[
        Sequence[str] | None,
        Setting(
            "What is scored, one of loss, pairs, qa, qa_em, tags, classes and probe:TASK@LAYER; by default the first "
            "that the model and the data allow.",
            option="--target",
        ),
    ] = None,
    component: Annotated[Component, Setting("What is removed: heads or blocks.")] = "head",
    by: Annotated[Sequence[By] | None, Setting("Order of removal; all five by default.")] = None,
    step: Annotated[
        int | None, Setting("Heads or blocks removed at a time; by default such that a curve has 15 points.", min=1)
    ] = None,
    draws: Annotated[int, Setting("Number of random orders; the curve is their mean.", min=1)] = 5,
    again: Annotated[
        bool, Setting("Measure effects again after each step, given what is removed already; takes much longer.")
    ] = False,
    save: Annotated[
        str | None,
        Setting("Save the model at a point of a curve, as BY:REMOVED (importance:24), in the folder `model`."),
    ] = None,
    retrain: Annotated[
        int | None, Setting("Steps of further training of the saved model (batch size 16).", min=1)
    ] = None,
    # Read when inputs are loaded.
    suite: Suite = None,  # noqa: ARG001
    questions: AskedQuestions = None,  # noqa: ARG001
    probes: Probes = None,  # noqa: ARG001
    items: Annotated[
        int,
        Setting(
            "Maximum number of texts, pairs or questions, drawn at random; half of them determine the order.", min=4
        ),
    ] = 500,
    samples: Samples = 1000,
    twin: Twin = True,
    seed: Seed = 0,
) -> Tables:
    """The score of a model by the share of it that is left, for five orders of removal.

    Importance and single effects are measured once, on the half of the documents that is not scored, so that choosing
    does not flatter the curve. With `--save`, the model at one point is saved in the folder `model` of the result and
    loads like any other: removed heads have weights of 0 in the output projection, removed blocks are absent. With
    `--retrain` it is trained further first, and so is the whole model for comparison.

    Example:
        >>> result = lamina.prune("smollm2", "ewt", targets=["loss"], items=50)  # doctest: +SKIP
        >>> result.tables["curve"].columns.tolist()[:4]  # doctest: +SKIP
        ['by', 'removed', 'left', 'share_left']
    """
    chosen = tuple(by or ORDERS)
    model = Interventions(encoder, heads=component == "head")
    points = _points(model, component, step)
    point = None if save is None else named_point(save, points[-1], component)
    _refuse(point, chosen, retrain)
    if point is not None:
        refuse_unsavable(encoder, model.blocks)
    name = _one_target(encoder, targets, material)
    (whole,) = targets_of(encoder, [name], material, items=items, seed=seed)
    choosing, scored = halved(whole, seed)
    learned = None if retrain is None else retraining_data(choosing, material, RetrainingPlan(retrain, seed=seed))
    pruning_orders = orders(model, choosing, chosen, component, points=points, draws=draws, seed=seed, again=again)
    drawn = curves(model, scored, pruning_orders, points, samples=samples, seed=seed)
    tables = {
        "curve": pd.DataFrame([row for curve in drawn for row in curve.rows()], columns=list(CURVE)),
        "shares": pd.DataFrame(share_rows(drawn), columns=list(SHARES)),
        "contrasts": pd.DataFrame(contrast_rows(drawn), columns=list(CONTRASTS)),
        "order": pd.DataFrame(_order_rows(pruning_orders), columns=list(_ORDER)).astype({"head": "Int64"}),
        "controls": pd.DataFrame(
            _controls(encoder, scored, twin=twin, samples=samples, seed=seed), columns=list(_CONTROLS)
        ),
    }
    skipped = {f"{name}: {why}": many for why, many in whole.skipped.items()}
    files = {}
    if point is not None:
        folder, gone = save_point(model, pruning_orders, point)
        if learned is not None:
            asked_for = {"items": items, "samples": samples, "seed": seed}
            rows = list(retrained(model, scored, material, point, gone, folder, learned, **asked_for))
            tables["retrained"] = pd.DataFrame(rows, columns=list(RETRAINED))
            skipped["training texts that are scored too"] = learned.left_out
        files = files_of(folder)
    return Tables(
        tables,
        skipped,
        data={
            "target": name,
            "items_choosing": len(choosing.items),
            "items_scored": len(scored.items),
            **_few_units(scored, material),
        },
        files=files,
        scored={name: drawn[0].answers},
    )


@prune.finds
def findings_of(result: Result) -> Iterator[Finding]:
    """The share that can be removed by one order against another; what further training regains."""
    empty = _nothing_to_lose(result)
    if empty is not None:
        yield empty
        return
    yield from _retrained(result)
    for row in rows_of(result.tables["contrasts"]):
        yield _compared(result, row)


@prune.shows
def overview_of(result: Result) -> Iterator[Overview]:
    """One row per order: the share that can be removed, and the score with a quarter, half and all removed."""
    about, curve = result.provenance, result.tables["curve"]
    whole = next(row for row in rows_of(curve) if row.removed == 0)
    rows: list[tuple[str | int, ...]] = []
    for row in rows_of(result.tables["shares"]):
        points = list(rows_of(curve[curve["by"] == row.by]))
        chosen = [_nearest(points, share) for share in (0.75, 0.5, 0.0)]
        rows.append(
            (
                HOW[row.by],
                _percent(row.share, row.low, row.high),
                *(number(point.value, point.low, point.high) for point in chosen),
            )
        )
    yield Overview(
        f"{about.model['name']}: {about.corpus['target']}, whole {number(whole.value, whole.low, whole.high)}",
        (
            f"{_parts(result)} removed",
            f"removable within {_within(result, None)}",
            "1/4 removed",
            "1/2 removed",
            "all removed",
        ),
        rows,
    )


@prune.costs
def _cost(
    estimator: Estimator, encoder: HuggingFaceEncoder, material: TargetData, *, targets: Sequence[str] | None,
    component: Component, by: Sequence[By] | None, step: int | None, draws: int, again: bool, retrain: int | None,
    items: int, twin: bool, **__: Any,
) -> Cost:  # fmt: skip
    """One half of the items is read to choose parts, the other one to score what is left."""
    model = Interventions(encoder, heads=component == "head")
    points = _points(model, component, step)
    _one_target(encoder, targets, material)
    runs = _PruningRuns.of(tuple(by or ORDERS), points, draws, again=again)
    texts, tokens = estimator.items(material.scored, items)
    read = tokens / 2 * (2 + twin + _BACKWARD * runs.backward + runs.choosing + runs.scoring)
    steps = 2 * (retrain or 0)
    read += steps * RetrainingPlan(1).batch * tokens / max(1, texts) * _BACKWARD
    passes = 2 + twin + runs.choosing + runs.scoring
    return Cost(passes, texts, tokens, steps, memory=memory_now(), work=read * estimator.per_token)


def _nothing_to_lose(result: Result) -> Finding | None:
    """A finding where the whole model is not shown to do better than a control: then any share can be removed."""
    lower = _lower(result)
    for row in rows_of(result.tables["controls"]):
        test = Contrast.of(row, "difference", "diff_low", "diff_high")
        if test.p < SURE and (row.difference < 0) == lower:
            continue
        what = _score(result)
        scores = f"{number(row.whole)} against {number(row.value)}"
        return finding(
            claim=f"The whole model does worse than {row.control}, so its curves mean nothing: {what} is {scores}",
            whether=f"the whole model does better than {row.control}, so that there is something to lose",
            absent=f"The whole model does no better than {row.control}, so its curves mean nothing: {what} is {scores}",
            contrast="difference",
            test=test,
            source=Source("controls", {"control": row.control}),
            unit=_unit(result),
            importance=("beats control",),
            margin=_NATS if lower else NEGLIGIBLE,
        )
    return None


def _compared(result: Result, row: Any) -> Finding:
    """Whether more can be removed by one order than by another; not tested where none, or all, can be by both."""
    parts, within = _parts(result), _within(result, None)
    way, other = HOW[row.by], HOW[row.against]
    source = Source("contrasts", {"by": row.by, "against": row.against})
    importance = ("answers", "localised") if row.by == TOP else ("answers", "beats control")
    question = f"more {parts} can be removed {way} than {other} within {within}"
    if row.share == row.other_share and row.share in (0, 1):
        ends = "from either end" if row.by == TOP else "either way"
        many = f"no {parts.removesuffix('s')}" if row.share == 0 else f"each {parts.removesuffix('s')}"
        reason = f"{many} could be removed {ends} within {within}"
        return not_tested(question, reason, source=(source,), importance=importance)
    shares = f"{percent(row.share)} against {percent(row.other_share)}"
    more = "More" if row.difference > 0 else "Fewer"
    return finding(
        claim=f"{more} {parts} can be removed {way} than {other} within {within}: {shares}",
        whether=question,
        absent=f"As many {parts} can be removed {way} as {other} within {within}: {shares}",
        contrast="difference of the shares",
        test=Contrast.of(row, "difference"),
        source=source,
        unit=_unit(result),
        importance=importance,
        note=_resolution(result, row.against),
    )


def _retrained(result: Result) -> Iterator[Finding]:
    """What further training changes in the pruned model, compared with the whole one."""
    table = result.tables.get("retrained")
    if table is None:
        return
    rows = {row.model: row for row in rows_of(table)}
    pruned, whole = rows["pruned"], rows["whole"]
    lower = _lower(result)
    gains = f"the score of the pruned model by {number(pruned.difference)}, that of the whole one by " + number(
        whole.difference
    )
    steps = f"{pruned.steps:,} steps of training change {gains}"
    yield finding(
        claim=f"Further training makes up for some of what was removed: {steps}"
        if (pruned.more > 0) != lower
        else f"Further training helps the whole model more than the pruned one: {steps}",
        whether="further training makes up for some of what was removed",
        absent=f"Further training makes up for nothing of what was removed: {steps}",
        contrast="difference",
        test=Contrast.of(pruned, "more", "more_low", "more_high"),
        source=Source("retrained"),
        unit=_unit(result),
        importance=("answers",),
        margin=_NATS if lower else NEGLIGIBLE,
    )


def _nearest(rows: list[Any], share: float) -> Any:
    return min(rows, key=lambda row: abs(row.share_left - share))


def _parts(result: Result) -> str:
    return f"{result.provenance.parameters['component']}s"


def _resolution(result: Result, against: str) -> str:
    """Notes: the step between points, and that few random orders do not represent all."""
    step = int(sorted(result.tables["curve"]["removed"].unique())[1])
    notes = [f"{_parts(result).capitalize()} were removed {step} at a time."] if step > 1 else []
    drawn = int(result.provenance.parameters.get("draws", ENOUGH_SEEDS))
    if against == RANDOM and drawn < ENOUGH_SEEDS:
        notes.append(f"Of random orders only {drawn} {'was' if drawn == 1 else 'were'} tried.")
    return " ".join(notes)


def _lower(result: Result) -> bool:
    return bool(result.tables["shares"]["within"].iloc[0] == "1 %")


def _unit(result: Result) -> str:
    """The unit that is resampled: document or item."""
    return "item" if result.provenance.corpus["target"] == "pairs" else "document"


def _within(result: Result, row: Any) -> str:
    within = result.tables["shares"]["within"].iloc[0] if row is None else row.within
    return "1 % of the loss" if within == "1 %" else "1 point"


def _score(result: Result) -> str:
    name = result.provenance.corpus["target"]
    named = {"loss": "The loss", "qa": "F1 of the answers", "qa_em": "The share of exact answers"}
    return named.get(name, f"Accuracy ({name})")


def _percent(value: float, low: float, high: float) -> str:
    """A share in percent, with its interval.

    Example:
        >>> _percent(0.42, 0.333, 0.5)
        '42 % [33, 50]'
    """
    known = low == low and high == high
    return f"{100 * value:.0f} %" + (f" [{100 * low:.0f}, {100 * high:.0f}]" if known else "")


class _PruningRuns(NamedTuple):
    """How often texts are run with parts removed."""

    choosing: int
    scoring: int
    backward: int

    @classmethod
    def of(cls, chosen: Sequence[By], points: Sequence[int], draws: int, *, again: bool) -> _PruningRuns:
        many = points[-1]
        single = many + (sum(many - gone for gone in points[1:-1]) if again else 0)
        lines = len(set(chosen) - {RANDOM}) + draws * (RANDOM in chosen)
        return cls(single * (EFFECT in chosen), lines * (len(points) - 1), int(IMPORTANCE in chosen))


def _points(model: Interventions, component: Component, step: int | None) -> list[int]:
    many = len(parts_of(model, component))
    if step is not None and step > many:
        raise InputError(f"--step {step}: {model.encoder.name} has only {many} {component}s; name 1 to {many}")
    return points_of(many, step)


def _one_target(encoder: HuggingFaceEncoder, targets: Sequence[str] | None, material: TargetData) -> str:
    first, *others = chosen_targets(encoder, targets, material)
    if targets is not None and others:
        raise InputError(f"--target: a curve has one target; got {', '.join([first, *others])}; name one of them")
    return first


def _refuse(point: Any, chosen: Sequence[str], retrain: int | None) -> None:
    if point is not None and point.by not in chosen:
        raise InputError(f"--save {point.by}:{point.removed}: name the order with --by {point.by} too")
    if retrain is not None and point is None:
        raise InputError("--retrain trains the saved model further; name one with --save, such as --save importance:24")


def _order_rows(pruning_orders: Sequence[PruningOrder]) -> Iterator[tuple[Any, ...]]:
    for order in pruning_orders:
        if order.by != RANDOM:
            for place, (block, head) in enumerate(order.parts, start=1):
                worth = np.nan if order.worth is None else order.worth[block, head]
                yield order.by, place, block + 1, None if head is None else head + 1, worth


def _controls(
    encoder: HuggingFaceEncoder, target: SubsetTarget, *, twin: bool, samples: int, seed: int
) -> Iterator[tuple[Any, ...]]:
    whole = measure(Interventions(encoder, heads=False), target, [])[0]
    scores: dict[str, TargetScores] = {}
    if target.chance is not None and isfinite(target.chance):
        scores[GUESS] = TargetScores(target.chance * whole.counts, whole.counts)
    if twin:
        other = encoder.random_twin(seed)
        scores[TWIN] = measure(Interventions(other, heads=False), target.of(other), [])[0]
    tests = effects_of([ScoreChange(control, whole, target.units) for control in scores.values()])
    for (name, control), test in zip(scores.items(), tests, strict=True):
        draws = score_draws([control], target.units, samples=samples, seed=seed)
        value, low, high = (float(number[0]) for number in (draws.value, *draws.interval))
        yield name, value, low, high, test.value, *(getattr(test, _OF.get(field, field)) for field in TESTED)


def _few_units(target: SubsetTarget, material: TargetData) -> dict[str, Any]:
    """The number of scored units (half of the documents), where they are few enough for a warning."""
    many = len(set(target.units))
    if many >= LEAST_DOCUMENTS:
        return {}
    known = target.name != PAIRS and any(text.doc for text in material.scored)
    return {"scored_from": {"documents" if known else "items": many}}
