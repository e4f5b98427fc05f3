"""A pruned model as a folder that loads, as it is or trained on for some steps."""

from __future__ import annotations

import atexit
import json
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import torch

from lamina.analyses.cause.effects import ScoreChange, effects_of, measure
from lamina.analyses.cause.prune.curve import ORDERS, PruningOrder, ScoreDraws, score_draws
from lamina.corpora import corpus_from
from lamina.corpora.splits import Splits
from lamina.errors import InputError
from lamina.files.writing import write_text
from lamina.models.interventions.interventions import Interventions
from lamina.models.interventions.pruned import PRUNED, RemovedParts, removed_stay_zero, save_pruned, save_weights
from lamina.models.running.anatomy import attention_by
from lamina.models.running.huggingface import HuggingFaceEncoder
from lamina.stats.intervals import column_intervals
from lamina.targets.choice import TargetData, targets_of
from lamina.targets.target import LOSS, PAIRS, PROBE, QA, QA_EXACT, Target, TargetScores, same_items, some_texts
from lamina.training.provenance import ABOUT, TEXTS, folder_of, is_among, read_about, text_hash, used_texts
from lamina.training.running import RetrainingPlan, train_on
from lamina.types import Text

RETRAINED = (
    "model", "by", "removed", "steps", "before", "value", "low", "high", "difference", "diff_low", "diff_high", "more",
    "more_low", "more_high", "p_adjusted", "units", "needed",
)  # fmt: skip
FOLDER = "model"
"""Of the saved model, in the folder of the result."""


class CurvePoint(NamedTuple):
    """A point of a curve."""

    by: str
    removed: int


def named_point(text: str, many: int, component: str) -> CurvePoint:
    """What `--save BY:REMOVED` says.

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
    """The model without the first parts of an order (of random orders the first), in a folder of its own."""
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
    """See `RETRAINED`: the pruned model and, for comparison, the whole one, trained on alike.

    The saved model in `folder` is replaced. What is scored is not trained on.
    """
    how = learned.how
    rows, gains = [], []
    for name, gone in (("pruned", removed), ("whole", RemovedParts())):
        loaded, scratch = _saved(model, gone)
        # Both before anything is learned: a head is told by the weights below it.
        (scored,) = targets_of(loaded, [target.name], material, items=items, seed=seed)
        lesson = _training_target(loaded, scratch, learned, items, seed)
        scored, parts = same_items(scored, target), Interventions(loaded, heads=bool(gone.heads))
        before = measure(parts, scored, [])[0]
        _train(parts, gone, lesson, how)
        after = measure(parts, scored, [])[0]
        if name == "pruned":
            plan = {**how._asdict(), "target": learned.target, "texts": learned.material.texts.name}
            save_weights(loaded, folder, {"retrained": plan})
            _hand_on(model.encoder, folder, learned.texts)
        draws = score_draws([before, after], scored.units, samples=samples, seed=seed)
        rows.append((name, point.by, len(gone.names), how.steps, *_row(draws)))
        gains.append(TargetScores(after.hits - before.hits, after.counts))
    (more,) = effects_of([ScoreChange(gains[1], gains[0], target.units)])
    yield *rows[0], more.effect, more.low, more.high, more.p, more.units, more.needed
    yield *rows[1], *[float("nan")] * 6


class RetrainingData(NamedTuple):
    """What a pruned model is trained on with."""

    target: str
    material: TargetData
    """Its texts are those that are trained on."""
    texts: tuple[Text, ...]
    left_out: int
    """Training texts that are among those scored."""
    how: RetrainingPlan
    among: Target | None = None
    """Only its items are trained on; None: all texts."""


def retraining_data(choosing: Target, material: TargetData, how: RetrainingPlan) -> RetrainingData:
    """What is asked of a model's head in training: of training texts, or of the questions that chose its parts.

    An InputError says where there is nothing to train on.
    """
    name = choosing.name
    if name.startswith(PROBE):
        raise InputError(
            f"--retrain: {name} reads a model without a head of its own, which has nothing to learn by; it works with "
            "the targets loss, pairs (by the loss), tags, classes and qa"
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
        raise InputError(f"--retrain: every training text of {material.texts.name} is scored too; name another corpus")
    some = tuple(some_texts(apart, how.steps * how.batch, how.seed))
    corpus = corpus_from(some, name=material.texts.name, split="train")
    # Pairs are a test: what learns is the language model.
    taught = LOSS if name == PAIRS else name
    return RetrainingData(taught, replace(material, texts=Splits(corpus, corpus)), some, len(train) - len(apart), how)


def _training_target(
    encoder: HuggingFaceEncoder, folder: Path, learned: RetrainingData, items: int, seed: int
) -> Target:
    """What is asked of a model in training; `folder` is where it was loaded from."""
    if learned.among is not None:
        (target,) = targets_of(encoder, [learned.target], learned.material, items=items, seed=seed)
        return same_items(target, learned.among)
    # What it learned from before, it may learn from again.
    (folder / TEXTS).unlink(missing_ok=True)
    (target,) = targets_of(encoder, [learned.target], learned.material, items=len(learned.texts), seed=seed)
    return target


def _train(parts: Interventions, removed: RemovedParts, lesson: Target, how: RetrainingPlan) -> None:
    """Train an encoder in memory by its head's own loss; the removed heads' weights stay 0."""
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
    _hand_on(model.encoder, folder)
    return saved, folder


def _row(draws: ScoreDraws) -> tuple[float, ...]:
    """Before, after with its interval, and the difference with its own."""
    (before, after), (low, high) = draws.value, draws.interval
    moved = column_intervals(draws.drawn[:, 1] - draws.drawn[:, 0])
    return tuple(map(float, (before, after, low[1], high[1], after - before, *moved)))


def _hand_on(encoder: HuggingFaceEncoder, folder: Path, texts: Sequence[Text] = ()) -> None:
    """What a fine-tuned folder says of its task and its texts stays true of the pruned model."""
    source = folder_of(encoder)
    used = (frozenset() if source is None else used_texts(source)) | {text_hash(text) for text in texts}
    if source is not None and (source / ABOUT).is_file():
        blocks = json.loads((folder / PRUNED).read_text(encoding="utf-8"))["blocks_removed"]
        about = {**read_about(source), "layers": encoder.layers - len(blocks)}
        write_text(folder / ABOUT, json.dumps(about, indent=2, default=str) + "\n")
    if used:
        write_text(folder / TEXTS, "".join(f"{line}\n" for line in sorted(used)))


def _scratch() -> Path:
    """A folder for models until the result is saved, or Python ends."""
    folder = Path(tempfile.mkdtemp(prefix="lamina-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder
