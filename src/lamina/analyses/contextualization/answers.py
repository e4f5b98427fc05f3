"""What class probes answer about every scored word, for every row of vectors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Int

from lamina.analyses.contextualization.representations import Representation
from lamina.analyses.contextualization.words_in_context import SPLITS, WordsInContext
from lamina.corpora.corpus import fingerprint_of
from lamina.errors import DamagedError
from lamina.files.checking import load_tensors, save_tensors
from lamina.probes.mlp import ClassProbe, Examples, MLPTraining, Source, Trained, Vectors, save_probes, train
from lamina.progress import say


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


FORMAT = 1
"""Raised when the same vectors and classes would give other answers."""
FULL = "full"
"""The context of a word that has its whole text around it."""


@dataclass(frozen=True, eq=False)
class Answers:
    """One row, one seed."""

    representation: str
    layer: int | None
    context: str
    """`full`, or how many words each side."""
    seed: int
    of_types: bool
    read: Callable[[], Bool[np.ndarray, "occurrence label"]]
    """Gets them from disk: those of all rows together would not fit into memory."""

    @property
    def said(self) -> Bool[np.ndarray, "occurrence label"]:
        """Of every occurrence of dev and test; train stays False. With `of_types` the same for all of a word's."""
        return self.read()


@dataclass(frozen=True, eq=False)
class Setup:
    """What the probes of all rows share."""

    data: WordsInContext
    preset: Amounts
    seed: int
    """For permuted classes."""
    faithful: bool
    """The last epoch instead of the best on dev words, and vectors as they are."""
    device: str
    folder: Path
    """Where answers are kept: a run that was stopped goes on with the first row that has none."""

    @property
    def training(self) -> MLPTraining:
        """As the preset says."""
        return replace(self.preset.training, select=not self.faithful)

    @cached_property
    def key(self) -> str:
        """Equal where the same vectors give the same answers."""
        return fingerprint_of(
            FORMAT,
            self.data.places,
            self.data.labels,
            asdict(self.training),
            self.preset.seeds,
            self.seed,
            self.faithful,
        )


def answer(
    setup: Setup,
    whole: Representation,
    *,
    context: str = FULL,
    instead: Sequence[Representation] = (),
    save: bool = False,
) -> Iterator[Answers]:
    """Train every class's probe on every row and seed, and let each answer about dev and test words.

    `instead` are other vectors of the same items (a fine-tuned model's): the same probes answer about them too. With
    `save` the probes are kept too, see `probe_files`.
    """
    for row in range(len(whole.layers)):
        yield from _Row(setup, whole, row, context, permuted=False, save=save).answers([whole, *instead])


def answer_permuted(setup: Setup, whole: Representation) -> Iterator[Answers]:
    """The control: classes permuted over training words in context, and over those that choose the epoch."""
    rows = slice(None) if setup.preset.permuted == "all" else slice(-1, None)
    some = whole.rows(rows, f"permuted {whole.name}")
    for row in range(len(some.layers)):
        yield from _Row(setup, some, row, FULL, permuted=True, save=False).answers([some])


def probe_files(setup: Setup, whole: Representation) -> dict[str, Path]:
    """The probes that `answer(..., save=True)` kept, one file per layer, by their name in a result."""
    rows = [_Row(setup, whole, row, FULL, permuted=False, save=True) for row in range(len(whole.layers))]
    return {f"probes-layer-{row.layer}.safetensors": row.probes_path for row in rows}


class _Row:
    """One layer, whose probes answer about its own vectors and about others of the same words."""

    def __init__(
        self, setup: Setup, whole: Representation, row: int, context: str, *, permuted: bool, save: bool
    ) -> None:
        self._setup, self._whole, self._row, self._context = setup, whole, row, context
        self._permuted, self._save = permuted, save
        self.layer = whole.layers[row]
        self._trained_on = fingerprint_of(setup.key, whole.key, row, permuted)
        self.probes_path = setup.folder / f"probes-{self._trained_on[:24]}.safetensors"

    def answers(self, representations: Sequence[Representation]) -> Iterator[Answers]:
        """Of every seed, about the vectors of each representation; those kept before are not computed again."""
        missing = [wanted for wanted in representations if not self._is_kept(self._path(wanted))]
        unsaved = self._save and not self._is_kept(self.probes_path)
        if missing or unsaved:
            self._compute(missing, unsaved=unsaved)
        for wanted in representations:
            for seed in range(self._setup.preset.seeds):
                about = (wanted.name, self.layer, self._context, seed, self._whole.of_types)
                yield Answers(*about, partial(self._read, self._path(wanted), seed))

    def _path(self, representation: Representation) -> Path:
        about = fingerprint_of(self._trained_on, representation.key)
        return self._setup.folder / f"answers-{about[:24]}.safetensors"

    def _is_kept(self, path: Path) -> bool:
        try:
            load_tensors(path)
        except OSError:
            return False
        except DamagedError as error:
            say(f"{error}; its probes are trained again")
            return False
        return True

    def _compute(self, missing: Sequence[Representation], *, unsaved: bool) -> None:
        setup, vectors_of_layer = self._setup, self._whole.read(self._row)
        train_items, dev, test = (self._items(split) for split in SPLITS)
        learn = Vectors(vectors_of_layer, train_items)
        learn = learn if setup.faithful else learn.centred()
        trained = self._train(vectors_of_layer, learn, train_items, dev)
        if unsaved:
            save_probes(self.probes_path, trained, learn, self._about())
        scored = np.concatenate([dev, test])
        for wanted in missing:
            vectors = Vectors(vectors_of_layer if wanted is self._whole else wanted.read(self._row), scored).like(learn)
            predicted = trained.says(vectors.on(setup.device), setup.device)
            # Seed by seed, and one bit per answer.
            by_seed = predicted.reshape(setup.preset.seeds, len(setup.data.classes), len(scored))
            packed = {str(seed): torch.from_numpy(np.packbits(of_seed.T)) for seed, of_seed in enumerate(by_seed)}
            save_tensors(self._path(wanted), packed, {"format": FORMAT})

    def _train(self, source: Source, learn: Vectors, train_items: np.ndarray, dev: np.ndarray) -> Trained:
        setup = self._setup
        probes = [
            ClassProbe(label, seed) for seed in range(setup.preset.seeds) for label in range(len(setup.data.classes))
        ]
        learned = Examples(learn, self._labels(train_items))
        choose = Examples(Vectors(source, dev).like(learn), self._labels(dev))
        where = "" if self.layer is None else f", layer {self.layer}"
        what = f"class probes of {self._whole.name}{where}, context {self._context}"
        return train(learned, choose, probes, setup.training, device=setup.device, what=what)

    def _read(self, path: Path, seed: int) -> Bool[np.ndarray, "occurrence label"]:
        data, of_types = self._setup.data, self._whole.of_types
        scored = np.concatenate([self._items(split) for split in SPLITS[1:]])
        shape = len(scored), len(data.classes)
        every = np.zeros((len(data.words) if of_types else len(data.word), shape[1]), bool)
        packed = load_tensors(path)[0][str(seed)].numpy()
        every[scored] = np.unpackbits(packed, count=shape[0] * shape[1]).reshape(shape)
        return every[data.word] if of_types else every

    def _items(self, split: str) -> Int[np.ndarray, " item"]:
        data = self._setup.data
        if not self._whole.of_types:
            return data.of(split)
        return np.flatnonzero([split_of_word == split for split_of_word in data.split])

    def _labels(self, items: np.ndarray) -> Bool[torch.Tensor, "labelling item label"]:
        gold = own_classes(self._setup.data) if self._whole.of_types else self._setup.data.gold
        order = np.random.default_rng(self._setup.seed).permutation(len(items)) if self._permuted else slice(None)
        return torch.from_numpy(gold[items][order]).unsqueeze(0)

    def _about(self) -> dict[str, Any]:
        about = {"model": self._whole.name, "layer": self.layer, "context": self._context}
        return about | {"classes": self._setup.data.classes, "training": asdict(self._setup.training)}


def own_classes(data: WordsInContext) -> Bool[np.ndarray, "word label"]:
    """A word's own classes: those of all its contexts together."""
    gold = np.zeros((len(data.words), len(data.classes)), bool)
    np.logical_or.at(gold, data.word, data.gold)
    return gold
