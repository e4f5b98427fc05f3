"""Structural probes of a model, its twin and the control: trained together, applied and scored."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

from lamina.activations import Runtime
from lamina.analyses.structure.gold import GoldTree
from lamina.analyses.structure.scores import (
    CHAIN,
    CONTROL,
    DECAY,
    DSPR,
    MODEL,
    NSPR,
    PROJECTION,
    ROOT_ACCURACY,
    UUAS,
    Estimate,
    Intervals,
    Score,
    Tally,
    depth_correlations,
    distance_correlations,
    links_tally,
    root_tally,
)
from lamina.analyses.structure.words import (
    Trees,
    layer_vectors,
    rows_of_sentences,
    scale_layers,
    sentences_of,
    shuffled,
)
from lamina.corpora.learning import Splits
from lamina.encoders import Encoder
from lamina.probes.structural import Group, Kind, Sentences, StructuralBank, StructuralSchedule, squared_distances
from lamina.progress import progress
from lamina.stats.units import Units

TRAINING = ("layer", "rank", "of", "seed", "kind", "loss", "constant", "epochs", "converged")
STRUCTURE = ("layer", "rank", "of", "seed", "measure", "value", "low", "high")
BY_KIND: dict[Kind, tuple[str, str]] = {"distance": (UUAS, DSPR), "depth": (ROOT_ACCURACY, NSPR)}
"""What is made of distances and of depths."""


class How(NamedTuple):
    """What all probes have in common."""

    schedule: StructuralSchedule
    faithful: bool
    samples: int
    seed: int


class Probed(NamedTuple):
    """What the probes of one encoder gave."""

    rows: list[tuple[Any, ...]]
    training: list[tuple[Any, ...]]
    scores: dict[tuple[str, int | None, str], list[Score]]
    """Of the largest rank: what, layer and measure -> one per seed, NaN where a probe had not converged."""
    predicted: dict[tuple[int, Kind], list[np.ndarray]]
    """Layer and kind -> distances or depths of the scored sentences; of the model's largest rank and first seed, where
    the probe converged."""


class Probing:
    """Trains and scores structural probes over one encoder at a time, on the same sentences."""

    def __init__(self, splits: Splits, trees: Trees, layers: Sequence[int], how: How, runtime: Runtime) -> None:
        self._splits, self._trees, self._layers, self._how, self._runtime = splits, trees, tuple(layers), how, runtime
        self._intervals = Intervals(trees.scored, samples=how.samples, seed=how.seed)

    @property
    def units(self) -> Units:
        """What is resampled."""
        return self._intervals.units

    def probe(
        self, encoder: Encoder, of: str, groups: Sequence[Group], *, decay: bool = False, projections: bool = False
    ) -> Probed:
        """All layers of an encoder; of the control, with trees whose places were exchanged."""
        train, scored = self._vectors(encoder, decay=decay)
        trees = self._trees
        if of == CONTROL:
            exchanged = ([shuffled(tree, self._how.seed) for tree in some] for some in (trees.train, trees.scored))
            trees = trees._replace(**dict(zip(("train", "scored"), exchanged, strict=True)))
        learn, stop = (sentences_of(train, trees.train, numbers) for numbers in (trees.learn, trees.stop))
        bank = StructuralBank(groups, self._how.schedule)
        what = f"structural probes of {encoder.name}" + (" (control)" if of == CONTROL else "")
        with progress(what, self._how.schedule.max_validations) as advance:
            bank.fit(learn, stop, seed=self._how.seed, advance=lambda _: advance(1))
        names: list[tuple[str, int | None]] = [*((of, layer) for layer in self._layers), *[(DECAY, 0)] * decay]
        rows: list[tuple[Any, ...]] = []
        scores: dict[tuple[str, int | None, str], list[Score]] = defaultdict(list)
        predicted: dict[tuple[int, Kind], list[np.ndarray]] = {}
        largest = max(group.rank for group in groups)
        for group in groups:
            trained = bank.trained_[group]
            values = apply_maps(trained.maps, scored, trees.scored, group.kind)
            largest_scores = scores if group.rank == largest else defaultdict(list)
            rows += self._rows(group, names, values, trees.scored, trained.converged, largest_scores)
            if of == MODEL and group.rank == largest and group.seed == min(other.seed for other in groups):
                for number, layer in enumerate(self._layers):
                    if trained.converged[number]:
                        predicted[layer, group.kind] = [value[number] for value in values]
            if projections:
                drawn = torch.randn(
                    trained.maps.shape[1:], generator=torch.Generator().manual_seed(group.seed + self._how.seed)
                )
                maps = drawn.to(trained.maps.device).expand(len(self._layers), -1, -1)
                beside = apply_maps(maps, scored[: len(self._layers)], trees.scored, group.kind)
                names_of: list[tuple[str, int | None]] = [(PROJECTION, layer) for layer in self._layers]
                rows += self._rows(group, names_of, beside, trees.scored, np.ones(len(names_of), bool), largest_scores)
        constants = constant_losses(learn, stop)
        training = [
            (layer, group.rank, name, group.seed, group.kind, loss, constants[group.kind], *numbers)
            for group, trained in bank.trained_.items()
            for (name, layer), loss, *numbers in zip(
                names, trained.losses.tolist(), trained.epochs.tolist(), trained.converged.tolist(), strict=True
            )
        ]
        return Probed(rows, training, dict(scores), predicted)

    def chain(self) -> Probed:
        """Words in a row: distances are those in the sentence, depths those from the best place for a root."""
        trees = self._trees
        place = best_place([trees.train[number] for number in trees.learn])
        distances = [chain_distances(len(tree))[None] for tree in trees.scored]
        depths = [chain_depths(len(tree), place)[None] for tree in trees.scored]
        by_kind = [(Group("distance", 0, 0), distances), (Group("depth", 0, 0), depths)]
        scores: dict[tuple[str, int | None, str], list[Score]] = defaultdict(list)
        rows = [
            row
            for group, values in by_kind
            for row in self._rows(group, [(CHAIN, None)], values, trees.scored, np.ones(1, bool), scores)
        ]
        return Probed([(None, None, CHAIN, None, *row[4:]) for row in rows], [], dict(scores), {})

    def _vectors(self, encoder: Encoder, *, decay: bool) -> tuple[torch.Tensor, torch.Tensor]:
        splits = self._splits
        train, scored = (
            layer_vectors(encoder, corpus, self._layers, self._runtime, decay=decay)
            for corpus in (splits.train, splits.scored)
        )
        if not self._how.faithful:
            scale_layers(train, rows_of_sentences(self._trees.train, self._trees.learn), scored)
        return train, scored

    def _rows(
        self,
        group: Group,
        names: Sequence[tuple[str, int | None]],
        values: Sequence[np.ndarray],
        trees: Sequence[GoldTree],
        converged: np.ndarray,
        scores: dict[tuple[str, int | None, str], list[Score]],
    ) -> list[tuple[Any, ...]]:
        first, second = BY_KIND[group.kind]
        tallies: tuple[list[Tally], list[Tally]]
        if group.kind == "distance":
            tallies = links_tally(values, trees), distance_correlations(values, trees)
        else:
            tallies = root_tally(values, trees, faithful=self._how.faithful), depth_correlations(values, trees)
        rows: list[tuple[Any, ...]] = []
        for measure, by_name in zip((first, second), tallies, strict=True):
            for (of, layer), tally, whole in zip(names, by_name, converged, strict=True):
                score = self._intervals.score(tally)
                # A number that has not converged is not shown as one.
                estimate = self._intervals.of(score) if whole else Estimate(*[float("nan")] * 3)
                rows.append((layer, group.rank, of, group.seed, measure, *estimate))
                scores[of, layer, measure].append(score if whole else score._replace(value=float("nan")))
        return rows


def apply_maps(maps: torch.Tensor, vectors: torch.Tensor, trees: Sequence[GoldTree], kind: Kind) -> list[np.ndarray]:
    """Squared distances [layer, word, word], or squared norms [layer, word], of every sentence."""
    by_sentence = []
    sizes = [len(tree) for tree in trees]
    projected = torch.stack(
        [layer_vectors.float() @ layer_map for layer_vectors, layer_map in zip(vectors, maps, strict=True)]
    )
    for part in projected.split(sizes, dim=1):
        values = squared_distances(part) if kind == "distance" else part.square().sum(-1)
        by_sentence.append(values.cpu().numpy())
    return by_sentence


def constant_losses(learn: Sentences, stop: Sentences) -> dict[Kind, float]:
    """What the loss on stopping sentences is where all pairs have one distance, and all words one depth.

    Example:
        >>> some = Sentences(torch.zeros(1, 2, 1), np.zeros(1, int), np.full(1, 2), [1 - np.eye(2)], [np.arange(2)])
        >>> constant_losses(some, some)
        {'distance': 0.0, 'depth': 0.5}
    """
    apart = [tree[~np.eye(len(tree), dtype=bool)] for tree in learn.distances]
    distance = float(np.median(np.concatenate(apart))) if sum(map(len, apart)) else 0.0
    depth = float(np.median(np.concatenate(list(learn.depths))))
    distances = [np.abs(tree - distance * (1 - np.eye(len(tree)))).mean() for tree in stop.distances]
    return {
        "distance": float(np.mean(distances)),
        "depth": float(np.mean([np.abs(tree - depth).mean() for tree in stop.depths])),
    }


def chain_distances(size: int) -> np.ndarray:
    """Words in between, and one.

    Example:
        >>> chain_distances(3).tolist()
        [[0.0, 1.0, 2.0], [1.0, 0.0, 1.0], [2.0, 1.0, 0.0]]
    """
    place = np.arange(size, dtype=float)
    return np.abs(place[:, None] - place)


def chain_depths(size: int, place: int) -> np.ndarray:
    """Words from a place, counted from the start (0, 1, ...) or from the end (-1, -2, ...)."""
    root = min(place, size - 1) if place >= 0 else max(size + place, 0)
    return np.abs(np.arange(size) - root).astype(float)


def best_place(trees: Sequence[GoldTree]) -> int:
    """The place that is most often the root's, from the start or from the end."""
    starts = np.bincount([tree.root for tree in trees], minlength=1)
    ends = np.bincount([len(tree) - 1 - tree.root for tree in trees], minlength=1)
    return int(starts.argmax()) if starts.max() >= ends.max() else -1 - int(ends.argmax())
