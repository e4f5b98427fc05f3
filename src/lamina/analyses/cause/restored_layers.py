"""Layers of a fine-tuned model restored, frozen or re-initialised: which ones, and the score of the task then."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import torch
from jaxtyping import Float

from lamina.models.contract import SPECIAL
from lamina.models.interventions.pruned import Layers, exchanged, weights_of
from lamina.models.running.batching import InputRow as EncoderRow
from lamina.models.running.huggingface import HuggingFaceEncoder
from lamina.probes import linear as pointing
from lamina.probes import linear as softmax
from lamina.progress import progress
from lamina.targets.target import some_texts
from lamina.training.objective import (
    IGNORED,
    Item,
    MetricScore,
    Objective,
    Runs,
    TextOutcome,
    TrainingRow,
    drawn_score,
    over_seeds,
    text_of,
)
from lamina.training.reading import Sets
from lamina.training.settings import TrainingPlan
from lamina.training.spans import SpanObjective
from lamina.training.tags import ClassObjective, TagObjective, last_tokens

if TYPE_CHECKING:
    from lamina.training.finetune import Finetuning


How = Literal["restore", "freeze", "reset"]
HOWS: tuple[How, ...] = ("restore", "freeze", "reset")
RANDOM, TRANSFER = "random", "transfer"
"""In the table of effects: random weights instead of pretrained ones; a linear head on a frozen layer."""


class LayerRange(NamedTuple):
    """Layers from the first to the last, both included; layer 0 is the embedding layer."""

    first: int
    last: int


class ChangedLayers(NamedTuple):
    """Scores with some layers changed."""

    how: str
    span: LayerRange
    runs: Runs
    against: Runs
    """Scores of the model without the change."""


def score_of(runs: Runs, metric: str, *, samples: int, seed: int) -> MetricScore:
    """One metric over all texts, with draws over documents; the mean over seeds."""
    return over_seeds([drawn_score(run, metric, seed=seed, samples=samples) for run in runs])


def some_of(candidates: Sequence[int], points: int | None) -> list[int]:
    """`points` of the candidates, evenly spread, with both ends; all if None.

    Example:
        >>> some_of(range(7), 3), some_of(range(7), 1), some_of(range(3), None)
        ([0, 3, 6], [6], [0, 1, 2])
    """
    if points is None or points >= len(candidates):
        return list(candidates)
    if points == 1:
        return [candidates[-1]]
    places = np.linspace(0, len(candidates) - 1, points).round().astype(int)
    return [candidates[place] for place in places]


def spans_of(how: How, blocks: int, points: int | None) -> list[LayerRange]:
    """Layers that are changed together: from 0 up (freeze), to the top (reset), or both and single ones (restore).

    Example:
        >>> [tuple(span) for span in spans_of("restore", 2, None)]
        [(0, 0), (0, 1), (0, 2), (1, 2), (2, 2), (1, 1)]
        >>> [tuple(span) for span in spans_of("reset", 6, 2)]
        [(1, 6), (6, 6)]
    """
    upwards = [LayerRange(0, last) for last in some_of(range(blocks + 1), points)]
    downwards = [LayerRange(first, blocks) for first in some_of(range(1, blocks + 1), points)]
    if how == "restore":
        single = [LayerRange(layer, layer) for layer in some_of(range(blocks + 1), points)]
        return list(dict.fromkeys([*upwards, *downwards, *single]))
    return upwards if how == "freeze" else downwards


def put_back(
    learning: Finetuning,
    model: Any,
    layers: Layers,
    source: HuggingFaceEncoder,
    spans: Sequence[LayerRange],
    *,
    what: str,
) -> Iterator[tuple[LayerRange, list[TextOutcome]]]:
    """Score a tuned model with the layers of each span replaced by those of another model."""
    with progress(what, len(spans)) as advance:
        for span in spans:
            names = [name for of_layer in layers[span.first : span.last + 1] for name in of_layer]
            with exchanged(model, weights_of(source, names)):
                yield span, learning.judge(model)
            advance()


POSITIONS = tuple(quarter / 4 for quarter in range(9))
"""Places on the line through the weights before fine-tuning (0) and after it (1), as far past them as before them."""


class LinePoint(NamedTuple):
    """The loss of every text with weights on the line, and as far from the tuned ones in a random direction."""

    position: float
    line: list[TextOutcome]
    random: list[TextOutcome]


def along_line(
    learning: Finetuning, model: Any, before: HuggingFaceEncoder, names: Sequence[str], *, seed: int, what: str
) -> Iterator[LinePoint]:
    """The loss at `POSITIONS` (Hao et al. 2019); the random step is as long as the real one in every weight matrix."""
    start = weights_of(before, names)
    tuned = {name: model.base_model.get_parameter(name).detach().clone() for name in names}
    steps = {name: part - start[name].to(part) for name, part in tuned.items()}
    draw = torch.Generator().manual_seed(seed)
    drawn = {name: torch.randn(part.shape, generator=draw).to(part) for name, part in steps.items()}
    noise = {name: part * (steps[name].norm() / part.norm()) for name, part in drawn.items()}
    with progress(what, len(POSITIONS)) as advance:
        for position in POSITIONS:
            scored: list[list[TextOutcome]] = []
            for direction in (steps, noise):
                moved = {name: part + (position - 1) * direction[name] for name, part in tuned.items()}
                with exchanged(model, moved):
                    scored.append(learning.losses(model))
            yield LinePoint(position, *scored)
            advance()


def width_of(positions: Float[np.ndarray, " place"], losses: Float[np.ndarray, "*draw place"], most: Any) -> np.ndarray:
    """How long the stretch around the tuned weights (1) is on which the loss is at most `most`, points joined by lines.

    Of a loss that is higher there, it is 0.

    Example:
        >>> float(width_of(np.array([0, 0.5, 1, 1.5, 2]), np.array([4.0, 2, 0, 2, 4]), 1.0))
        0.5
        >>> float(width_of(np.array([0, 0.5, 1, 1.5, 2]), np.array([0.0, 0, 2, 0, 0]), 1.0))
        0.0
    """
    most = np.asarray(most)[..., None]
    middle = int(np.flatnonzero(positions == 1)[0])
    total = np.zeros(losses.shape[:-1])
    for side in (slice(middle, None), slice(middle, None, -1)):
        away, level = np.abs(positions[side] - 1), losses[..., side]
        rise, below = level[..., 1:] - level[..., :-1], level[..., :-1] <= most
        room = np.divide(most - level[..., :-1], rise, out=np.ones_like(rise), where=below & (level[..., 1:] > most))
        total += (np.cumprod(below, axis=-1) * room * np.diff(away)).sum(-1)
    return total


def plans_of(plan: TrainingPlan, how: How, spans: Iterable[LayerRange]) -> dict[LayerRange, TrainingPlan]:
    """For each span, the settings of a fine-tuning in which its layers are frozen or re-initialised."""
    return {
        span: plan._replace(freeze=span.last) if how == "freeze" else plan._replace(reset=span.last - span.first + 1)
        for span in spans
    }


def tuned_again(
    learning: Finetuning, plan: TrainingPlan, seeds: Sequence[int], work: Path, name: str
) -> list[list[TextOutcome]]:
    """The scored texts of models tuned with a plan, one per seed; the models are not kept."""
    return [learning.learn(plan._replace(seed=seed), work / f"{name}-seed-{seed}").scored for seed in seeds]


def unchanged(
    learning: Finetuning, plan: TrainingPlan, known: Sequence[TextOutcome] | None, seeds: Sequence[int], work: Path
) -> list[Sequence[TextOutcome]]:
    """The scored texts of models tuned with nothing frozen or reset; `known` are those of a model with this plan."""
    return [
        known if known is not None and seed == plan.seed else tuned_again(learning, plan, [seed], work, "unchanged")[0]
        for seed in seeds
    ]


# Layer transferability: a linear head on every frozen layer, scored as the fine-tuned model is.

_MEMORY = 2**30
"""Maximum bytes of vectors in memory; layers are read in as many passes as needed."""
_LEAST = 1e-30
"""Lower bound of probabilities, so that they have a logarithm."""

Vectors = list[Float[np.ndarray, "place width"]]
"""What the head reads, per row."""


class LinearHead(NamedTuple):
    """A linear head on one layer."""

    layer: int
    outcomes: list[TextOutcome] | None
    """On the scored texts; None where it could not be fitted."""


def some_items(items: Sequence[Item], most: int, seed: int) -> tuple[Item, ...]:
    """At most `most` texts or questions, drawn by the hash of their ids, in their order."""
    chosen = {id(text) for text in some_texts(map(text_of, items), most, seed)}
    return tuple(item for item in items if id(text_of(item)) in chosen)


def has_linear_head(objective: Objective) -> bool:
    """Whether a linear head on single layers can learn it: tags, classes and spans, but not masked words."""
    return isinstance(objective, TagObjective | ClassObjective | SpanObjective)


def linear_heads(encoder: HuggingFaceEncoder, objective: Objective, sets: Sets) -> Iterator[LinearHead]:
    """A linear head for every layer, fitted until it converges; the penalty is chosen on the selection set.

    A word is read at its last token, a text by the mean over the tokens of its words, and an answer by its start and
    its end, each a softmax over the tokens of a window.
    """
    rows = [_rows(objective, items) for items in (sets.train, sets.select, sets.scored)]
    one = isinstance(objective, ClassObjective)
    size = sum(1 if one else len(_places(objective, row)) for of_split in rows for row in of_split)
    at_once = max(1, _MEMORY // max(1, size * encoder.width * 4))
    with progress(f"linear heads on {encoder.name}", encoder.layers) as advance:
        for first in range(0, encoder.layers, at_once):
            layers = range(first, min(first + at_once, encoder.layers))
            read = [_vectors(encoder, objective, of_split, layers) for of_split in rows]
            for index, layer in enumerate(layers):
                vectors = [of_set[index] for of_set in read]
                yield LinearHead(layer, _fit_and_judge(objective, sets.scored, rows, vectors, encoder.device))
                advance()


def _rows(objective: Objective, items: Sequence[Item]) -> list[TrainingRow]:
    noted = objective.noted.copy()
    rows = [row for number, item in enumerate(items) for row in objective.rows(number, item)]
    objective.noted = noted
    return rows


def _places(objective: Objective, row: TrainingRow) -> np.ndarray:
    """The tokens of a row that a head reads."""
    if isinstance(objective, TagObjective):
        return np.array(last_tokens(row.words), int)
    everything = np.arange(len(row.ids))
    in_words = np.flatnonzero(row.words != SPECIAL)
    return in_words if isinstance(objective, ClassObjective) and len(in_words) else everything


def _vectors(
    encoder: HuggingFaceEncoder, objective: Objective, rows: Sequence[TrainingRow], layers: Sequence[int]
) -> list[Vectors]:
    """By layer, the vectors of each row."""
    nothing = np.zeros((0, encoder.width), np.float32)
    vectors: list[Vectors] = [[nothing] * len(rows) for _ in layers]
    whole = slice(0)
    read = [EncoderRow(row.item, row.ids, row.types, row.words, whole, whole) for row in rows]
    for group in encoder.row_groups([len(row.ids) for row in rows]):
        hidden = encoder.hidden([read[number] for number in group])
        for index, layer in enumerate(layers):
            states = hidden[layer].float().cpu().numpy()
            for of_row, number in zip(states, group, strict=True):
                taken = of_row[_places(objective, rows[number])]
                vectors[index][number] = (
                    taken.mean(0, keepdims=True) if isinstance(objective, ClassObjective) else taken
                )
    return vectors


def _fit_and_judge(
    objective: Objective,
    items: Sequence[Item],
    rows: Sequence[Sequence[TrainingRow]],
    vectors: Sequence[Vectors],
    device: torch.device,
) -> list[TextOutcome] | None:
    """`rows` and `vectors` are those to learn from, to select by and to score."""
    fit = _fit_spans if isinstance(objective, SpanObjective) else _fit_classes
    outputs = fit(objective, rows, vectors, device)
    if outputs is None:
        return None
    by_item: list[list[object]] = [[] for _ in items]
    for row, output in zip(rows[2], outputs, strict=True):
        by_item[row.item] += objective.read([row], output, {})
    noted = objective.noted.copy()
    judged = [objective.judge(item, answers) for item, answers in zip(items, by_item, strict=True)]
    objective.noted = noted
    return judged


Outputs = list[dict[str, torch.Tensor]]
"""Of each row, what a model with a head would put out."""


def _fit_classes(
    objective: Objective, rows: Sequence[Sequence[TrainingRow]], vectors: Sequence[Vectors], device: torch.device
) -> Outputs | None:
    learn, select = (_examples(objective, rows[part], vectors[part]) for part in (0, 1))
    probe = softmax.fit_softmax(learn, select, len(objective.labels), device)
    if not probe.converged:
        return None
    outputs: Outputs = []
    for row, of_row in zip(rows[2], vectors[2], strict=True):
        logprobs = torch.from_numpy(np.log(np.maximum(probe.probabilities(of_row), _LEAST)))
        if isinstance(objective, TagObjective):
            logits = torch.zeros(1, len(row.ids), len(objective.labels), dtype=logprobs.dtype)
            logits[0, _places(objective, row)] = logprobs
        else:
            logits = logprobs
        outputs.append({"logits": logits})
    return outputs


def _examples(objective: Objective, rows: Sequence[TrainingRow], vectors: Vectors) -> softmax.LabelledVectors:
    labels = [
        np.atleast_1d(row.labels[_places(objective, row)] if isinstance(objective, TagObjective) else row.labels)
        for row in rows
    ]
    gold, read = np.concatenate(labels).astype(int), np.concatenate(vectors)
    known = gold != IGNORED
    return softmax.LabelledVectors(read[known], gold[known])


def _fit_spans(
    _: Objective, rows: Sequence[Sequence[TrainingRow]], vectors: Sequence[Vectors], device: torch.device
) -> Outputs | None:
    probes = []
    for end in (0, 1):
        learn, select = (_pointed(rows[part], vectors[part], end) for part in (0, 1))
        probes.append(pointing.fit_pointing(learn, select, device))
    if not all(probe.converged for probe in probes):
        return None
    names = ("start_logits", "end_logits")
    return [
        {name: torch.from_numpy(probe.logits(of_row))[None] for name, probe in zip(names, probes, strict=True)}
        for of_row in vectors[2]
    ]


def _pointed(rows: Sequence[TrainingRow], vectors: Vectors, end: int) -> pointing.PointingTexts:
    gold = np.array([row.labels[end] for row in rows], int)
    return pointing.PointingTexts(np.concatenate(vectors), np.array([len(of_row) for of_row in vectors], int), gold)
