"""Layers of a fine-tuned model put back, frozen or drawn anew: which ones, and how well the task is then done."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from lamina.encoders.huggingface import HuggingFaceEncoder
from lamina.encoders.layer_weights import Layers, exchanged, weights_of
from lamina.progress import progress
from lamina.training.objective import Outcome, Runs, Score, drawn_score, over_seeds
from lamina.training.recipes import Plan

if TYPE_CHECKING:
    from lamina.training.finetune import Finetuning

How = Literal["restore", "freeze", "reset"]
HOWS: tuple[How, ...] = ("restore", "freeze", "reset")
RANDOM, TRANSFER = "random", "transfer"
"""In the table of effects: random weights instead of pretrained ones; a linear head on a frozen layer."""


class LayerRange(NamedTuple):
    """Layers from the first to the last, both included; 0 are the embeddings."""

    first: int
    last: int


class ChangedLayers(NamedTuple):
    """How the scored texts were done with some layers changed."""

    how: str
    span: LayerRange
    runs: Runs
    against: Runs
    """How they were done by the model without the change."""


def score_of(runs: Runs, metric: str, *, samples: int, seed: int) -> Score:
    """One metric over all texts, with draws over documents; the mean over seeds."""
    return over_seeds([drawn_score(each, metric, seed=seed, samples=samples) for each in runs])


def some_of(candidates: Sequence[int], points: int | None) -> list[int]:
    """So many of them, evenly spread, with both ends; all where no number is given.

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
    """The layers that are changed together: from 0 on (freeze), to the top (reset), or both, and single ones (restore).

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
) -> Iterator[tuple[LayerRange, list[Outcome]]]:
    """A tuned model's scored texts, with the layers of each span as they are in another model."""
    with progress(what, len(spans)) as advance:
        for span in spans:
            names = [name for own in layers[span.first : span.last + 1] for name in own]
            with exchanged(model, weights_of(source, names)):
                yield span, learning.judge(model)
            advance()


def plans_of(plan: Plan, how: How, spans: Iterable[LayerRange]) -> dict[LayerRange, Plan]:
    """For each span, the settings of a fine-tuning in which its layers are frozen, or begin anew."""
    return {
        span: plan._replace(freeze=span.last) if how == "freeze" else plan._replace(reset=span.last - span.first + 1)
        for span in spans
    }


def tuned_again(learning: Finetuning, plan: Plan, seeds: Sequence[int], work: Path, name: str) -> list[list[Outcome]]:
    """The scored texts of models tuned with a plan, one per seed; the models are not kept."""
    return [learning.learn(plan._replace(seed=seed), work / f"{name}-seed-{seed}").scored for seed in seeds]


def unchanged(
    learning: Finetuning, plan: Plan, own: Sequence[Outcome] | None, seeds: Sequence[int], work: Path
) -> list[Sequence[Outcome]]:
    """The scored texts of models tuned with nothing frozen or reset; `own` are those of a model with this very plan."""
    return [
        own if own is not None and seed == plan.seed else tuned_again(learning, plan, [seed], work, "unchanged")[0]
        for seed in seeds
    ]
