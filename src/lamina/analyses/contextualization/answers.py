"""What class probes answer about every scored word, for every row of vectors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float

from lamina.analyses.contextualization.representations import Representation
from lamina.analyses.contextualization.words_in_context import SPLITS, WordsInContext
from lamina.probes.mlp import ClassProbe, Examples, MLPTraining, decide


@dataclass(frozen=True)
class Amounts:
    """Training, seeds and amounts."""

    training: MLPTraining
    seeds: int
    most_contexts: int
    """The most a (word, class) pair may have."""
    most_words: int | None
    """Words drawn; None: all."""
    context_sizes: tuple[int, ...]
    """Words each side."""
    permuted: str
    """Which layers are also trained on permuted classes: `all` or `last`."""
    most_pieces: int = 128


PRESETS = {
    "quick": Amounts(MLPTraining(64, 3e-3, 12, validate_every=2), 1, 8, 3000, (0, 2, 8), "last"),
    "paper": Amounts(MLPTraining(), 5, 100, None, (0, 2, 4, 8, 16, 32), "all"),
}


FULL = "full"
"""The context of a word that has its whole text around it."""


class Answers(NamedTuple):
    """One row, one seed."""

    representation: str
    layer: int | None
    context: str
    """`full`, or how many words each side."""
    seed: int
    of_types: bool
    said: Bool[np.ndarray, "occurrence label"]
    """Of every occurrence of dev and test; train stays False. With `of_types` the same for all of a word's."""


class Setup(NamedTuple):
    """What the probes of all rows share."""

    data: WordsInContext
    preset: Amounts
    seed: int
    """For permuted classes."""
    faithful: bool
    """The last epoch instead of the best on dev words, and vectors as they are."""
    device: str

    @property
    def training(self) -> MLPTraining:
        """As the preset says."""
        return replace(self.preset.training, select=not self.faithful)


def answer(
    setup: Setup,
    whole: Representation,
    *,
    context: str = FULL,
    instead: Sequence[tuple[str, Float[torch.Tensor, "row item width"]]] = (),
) -> Iterator[Answers]:
    """Train every class's probe on every row and seed, and let each answer about dev and test words.

    `instead` are other vectors of the same items (a fine-tuned model's): the same probes answer about them too, under
    the names given.
    """
    yield from _answer(setup, whole, context, permuted=False, instead=instead)


def answer_permuted(setup: Setup, whole: Representation) -> Iterator[Answers]:
    """The control: classes permuted over training words in context, and over those that choose the epoch."""
    rows = slice(None) if setup.preset.permuted == "all" else slice(-1, None)
    some = Representation(f"permuted {whole.name}", whole.layers[rows], whole.vectors[rows], whole.of_types)
    yield from _answer(setup, some, FULL, permuted=True, instead=())


def _answer(
    setup: Setup,
    whole: Representation,
    context: str,
    *,
    permuted: bool,
    instead: Sequence[tuple[str, torch.Tensor]],
) -> Iterator[Answers]:
    data, preset = setup.data, setup.preset
    gold = _gold(data, whole.of_types)
    train, dev, test = (_items(data, split, whole.of_types) for split in SPLITS)
    shape = _Shape(0.0, 1.0) if setup.faithful else _Shape.of(whole.vectors, train)
    shown = [(whole.name, whole.vectors), *instead]
    scored = np.concatenate([dev, test])
    learn, choose = (
        Examples(shape.undo(whole.vectors[:, items]), _labels(gold[items], permuted, setup.seed))
        for items in (train, dev)
    )
    probes = [
        ClassProbe(row, label, seed)
        for row in range(len(whole.layers))
        for seed in range(preset.seeds)
        for label in range(len(data.classes))
    ]
    where = f"{whole.name}, context {context}"
    decided = decide(
        learn,
        choose,
        [shape.undo(vectors[:, scored]) for _, vectors in shown],
        probes,
        setup.training,
        device=setup.device,
        what=f"class probes of {where}",
    )
    for (name, _), said in zip(shown, decided, strict=True):
        by_probe = said.reshape(len(whole.layers), preset.seeds, len(data.classes), len(scored))
        for row, layer in enumerate(whole.layers):
            for seed in range(preset.seeds):
                every = np.zeros(gold.shape, bool)
                every[scored] = by_probe[row, seed].T
                every = every[data.word] if whole.of_types else every
                yield Answers(name, layer, context, seed, whole.of_types, every)


def _gold(data: WordsInContext, of_types: bool) -> Bool[np.ndarray, "item label"]:
    """A word's own classes are those of all its contexts together."""
    if not of_types:
        return data.gold
    gold = np.zeros((len(data.words), len(data.classes)), bool)
    np.logical_or.at(gold, data.word, data.gold)
    return gold


def _items(data: WordsInContext, split: str, of_types: bool) -> np.ndarray:
    if not of_types:
        return data.of(split)
    return np.flatnonzero([own == split for own in data.split])


def _labels(gold: np.ndarray, permuted: bool, seed: int) -> Bool[torch.Tensor, "labelling item label"]:
    order = np.random.default_rng(seed).permutation(len(gold)) if permuted else slice(None)
    return torch.from_numpy(gold[order]).unsqueeze(0)


class _Shape(NamedTuple):
    """Where a row's training vectors lie and how far they spread: taken off, so that a learning rate means the same
    for vectors of any length."""

    middle: Float[torch.Tensor, "row 1 width"] | float
    spread: Float[torch.Tensor, "row 1 1"] | float

    @classmethod
    def of(cls, vectors: Float[torch.Tensor, "row item width"], train: np.ndarray) -> _Shape:
        """One vector and one number per row."""
        own = vectors[:, train].float()
        middle = own.mean(1, keepdim=True)
        return cls(middle, (own - middle).square().mean((1, 2), keepdim=True).sqrt().clamp_min(1e-12))

    def undo(self, vectors: Float[torch.Tensor, "row item width"]) -> Float[torch.Tensor, "row item width"]:
        """Any vectors of the same rows, without it."""
        return (vectors.float() - self.middle) / self.spread
