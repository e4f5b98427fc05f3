"""The senses of a word: its contexts on a plane, how far its classes lie apart, and which word shows it best."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int

from lamina.analyses.contextualization.occurrences import AND, Occurrences
from lamina.errors import CorpusError

LEAST = 5
"""Contexts a class needs to be compared with others."""

_PERMUTATIONS = 200


class Plane(NamedTuple):
    """Vectors seen from where they spread most."""

    points: Float[np.ndarray, "context 2"]
    explained: float
    """Their share of all variance; NaN where there is none."""


def plane(vectors: Float[np.ndarray, "context width"], before: Float[np.ndarray, "context 2"] | None = None) -> Plane:
    """The first two principal components.

    Their signs mean nothing: each is turned to agree with the same axis of `before`, the layer below.

    Example:
        >>> plane(np.array([[0.0, 0.0, 1.0], [4.0, 0.0, 1.0]])).points.round(3).tolist()
        [[2.0, 0.0], [-2.0, 0.0]]
    """
    centred = vectors.astype(np.float64) - vectors.mean(0, dtype=np.float64)
    left, sizes, _ = np.linalg.svd(centred, full_matrices=False)
    points = np.zeros((len(vectors), 2))
    points[:, : min(2, len(sizes))] = (left * sizes)[:, :2]
    agreement = points[0] if before is None else (points * before).sum(0)
    total = float(np.square(sizes).sum())
    explained = float(np.square(sizes[:2]).sum()) / total if total > 0 else float("nan")
    return Plane(points * np.where(agreement < 0, -1, 1), explained)


class Separation(NamedTuple):
    """How far classes lie apart, beside what the same vectors show with their classes shuffled."""

    silhouette: float
    """From -1 to 1 over cosine distances in the whole space; NaN with fewer than two classes to compare."""
    baseline: float
    """Mean over shuffled classes."""
    high: float
    """What one shuffle in forty exceeds."""


def separation(
    vectors: Float[np.ndarray, "context width"], classes: Sequence[str], *, seed: int = 0, least: int = LEAST
) -> Separation:
    """The silhouette of classes with at least so many contexts; only what is `comparable` counts."""
    kept = comparable(classes, least)
    labels = np.array(classes)[kept]
    if len(set(labels.tolist())) < 2:
        return Separation(*[float("nan")] * 3)
    from sklearn.metrics import silhouette_score

    apart = _distances(vectors[kept])
    rng = np.random.default_rng(seed)
    shuffled = [silhouette_score(apart, rng.permutation(labels), metric="precomputed") for _ in range(_PERMUTATIONS)]
    value = silhouette_score(apart, labels, metric="precomputed")
    return Separation(float(value), float(np.mean(shuffled)), float(np.quantile(shuffled, 0.975)))


def comparable(classes: Sequence[str], least: int = LEAST) -> Int[np.ndarray, " context"]:
    """The contexts of one class alone that has at least so many of them.

    A context with several classes at once is not another sense than a context with one of them.

    Example:
        >>> comparable(["food", "food", "", "act", "", "act+food", "act+food"], least=2).tolist()
        [0, 1]
    """
    counts = Counter(name for name in classes if name and AND not in name)
    return np.array([at for at, name in enumerate(classes) if counts[name] >= least], dtype=np.int64)


class Example(NamedTuple):
    """A word that could be shown, and how well its classes lie apart."""

    word: str
    classes: int
    contexts: int
    silhouette: float


def best_examples(
    words: Occurrences, vectors: Float[torch.Tensor, "word width"], *, least: int = LEAST
) -> list[Example]:
    """Words with two or more classes of at least `least` contexts each, those whose classes lie farthest apart first.

    Only contexts that are `comparable` count. The rule is the silhouette over cosine distances of `vectors`, which are
    the last layer's; of equals, the word with more contexts comes first. The first was chosen among many: it shows what
    is possible, not what is usual.
    """
    from sklearn.metrics import silhouette_score

    found = []
    for word, contexts in candidates(words, least).items():
        labels = [words.classes[at] for at in contexts]
        value = silhouette_score(_distances(vectors[contexts].cpu().numpy()), labels, metric="precomputed")
        found.append(Example(words.types[word], len(set(labels)), len(contexts), float(value)))
    return sorted(found, key=lambda each: (-each.silhouette, -each.contexts, each.word))


def candidates(words: Occurrences, least: int = LEAST) -> Mapping[int, list[int]]:
    """Word type -> its comparable contexts, where they have two classes or more; an error where no word has."""
    by_type: defaultdict[int, list[int]] = defaultdict(list)
    for at in sorted(words.classes):
        by_type[int(words.type_of[at])].append(at)
    kept = {}
    for word, contexts in by_type.items():
        several = [contexts[at] for at in comparable([words.classes[each] for each in contexts], least)]
        if len({words.classes[at] for at in several}) > 1:
            kept[word] = several
    if not kept:
        raise CorpusError(
            f"{words.name}: no word has two classes of at least {least} contexts each, so none can be chosen; name one "
            "with --word, or take a corpus with more semantic classes (the train split of ewt, a Wiki-PSE file)"
        )
    return kept


def _distances(vectors: np.ndarray) -> np.ndarray:
    long = np.linalg.norm(vectors.astype(np.float64), axis=1, keepdims=True)
    unit = vectors / np.maximum(long, 1e-12)
    apart = np.clip(1 - unit @ unit.T, 0, 2)
    np.fill_diagonal(apart, 0)
    return apart
