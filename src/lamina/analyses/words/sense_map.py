"""The senses of a word: its contexts on a plane, how far its classes lie apart, and candidate words."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int

from lamina.analyses.words.occurrences import AND, WordOccurrences
from lamina.errors import CorpusError

LEAST = 5
"""Contexts a class needs to be compared with others."""

PERMUTATIONS = 200
MOST_WORDS = 100
"""Words that an example is chosen from: those with most contexts."""


class PrincipalPlane(NamedTuple):
    """The first two principal components of vectors."""

    points: Float[np.ndarray, "context 2"]
    explained: float
    """Their share of all variance; NaN where there is none."""


def plane(
    vectors: Float[np.ndarray, "context width"], before: Float[np.ndarray, "context 2"] | None = None
) -> PrincipalPlane:
    """The first two principal components.

    Their signs are arbitrary: each is flipped to agree with the same axis of `before`, the layer below.

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
    return PrincipalPlane(points * np.where(agreement < 0, -1, 1), explained)


class Separation(NamedTuple):
    """How far the classes of one word lie apart in one layer."""

    silhouette: float
    """From -1 to 1 over cosine distances in the whole space; NaN with fewer than two classes to compare."""
    shuffled: float
    """The mean of the same with the classes shuffled."""
    draws: Float[np.ndarray, " sample"]
    """The same of resampled documents."""
    by_context: Float[np.ndarray, " context"]
    """Of each context; NaN where it is not compared."""


def separation(
    vectors: Float[np.ndarray, "context width"],
    classes: Sequence[str],
    *,
    seed: int = 0,
    least: int = LEAST,
    permutations: int = PERMUTATIONS,
    weights: Float[np.ndarray, "sample context"] | None = None,
) -> Separation:
    """The silhouette of classes with at least `least` contexts; only `comparable` contexts count.

    Args:
        vectors: of the contexts.
        classes: theirs.
        seed: of the shuffles.
        least: contexts that a class needs.
        permutations: how many shuffles.
        weights: how often each bootstrap sample draws each context's document.
    """
    compared = comparable(classes, least)
    names, labels = np.unique(np.array(classes)[compared], return_inverse=True)
    by_context, samples = np.full(len(classes), np.nan), 0 if weights is None else len(weights)
    if len(names) < 2:
        return Separation(np.nan, np.nan, np.full(samples, np.nan), by_context)
    apart = _distances(vectors[compared])
    rng = np.random.default_rng(seed)
    by_context[compared] = _silhouettes(apart, labels[None])[0]
    shuffled = np.nan
    if permutations:
        shuffled = _silhouettes(apart, np.stack([rng.permutation(labels) for _ in range(permutations)])).mean()
    draws = np.empty(0) if weights is None else _resampled(apart, labels, weights[:, compared])
    return Separation(float(by_context[compared].mean()), float(shuffled), draws, by_context)


def _silhouettes(
    apart: Float[np.ndarray, "context context"], labels: Int[np.ndarray, "labelling context"]
) -> Float[np.ndarray, "labelling context"]:
    """The silhouette of each context under each labelling; all labellings have as many contexts of each class."""
    inside = (labels[..., None] == np.arange(labels.max() + 1)).astype(float)
    sums = (apart @ inside.transpose(1, 0, 2).reshape(len(apart), -1)).reshape(len(apart), *inside.shape[::2])
    counts = inside[0].sum(0)
    return _ratio(sums.transpose(1, 0, 2), inside > 0, counts - 1, counts)


def _resampled(
    apart: Float[np.ndarray, "context context"],
    labels: Int[np.ndarray, " context"],
    weights: Float[np.ndarray, "sample context"],
) -> Float[np.ndarray, " sample"]:
    """The mean silhouette of resampled contexts; a context is not compared with its own copies."""
    weights = weights.astype(float)
    inside = labels[:, None] == np.arange(labels.max() + 1)
    weighed = weights[..., None] * inside
    sums = (apart @ weighed.transpose(1, 0, 2).reshape(len(apart), -1)).reshape(len(apart), len(weights), -1)
    counts = weighed.sum(1, keepdims=True)
    values = _ratio(sums.transpose(1, 0, 2), inside[None], counts - weights[..., None], counts)
    known = np.isfinite(values)
    total = (weights * known).sum(1)
    drawn = (np.where(known, values, 0) * weights).sum(1)
    return np.divide(drawn, total, out=np.full(len(weights), np.nan), where=total > 0)


def _ratio(sums: np.ndarray, inside: np.ndarray, own_counts: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """`(b - a) / max(a, b)` of mean distances to the same class (a) and to the nearest other one (b)."""
    with np.errstate(divide="ignore", invalid="ignore"):
        within = np.where(inside, sums / np.where(own_counts > 0, own_counts, np.nan), 0).sum(2)
        other = np.where(inside, np.inf, sums / np.where(counts > 0, counts, np.nan))
    other = np.where(np.isnan(other), np.inf, other).min(2)
    most = np.maximum(within, other)
    ratios = np.divide(other - within, most, out=np.zeros(most.shape), where=(most > 0) & np.isfinite(most))
    return np.where(np.isfinite(within) & np.isfinite(other), ratios, np.nan)


def comparable(classes: Sequence[str], least: int = LEAST) -> Int[np.ndarray, " context"]:
    """The contexts with exactly one class, of classes with at least `least` of them.

    A context with several classes at once is not another sense than a context with one of them.

    Example:
        >>> comparable(["food", "food", "", "act", "", "act+food", "act+food"], least=2).tolist()
        [0, 1]
    """
    counts = Counter(name for name in classes if name and AND not in name)
    return np.array([number for number, name in enumerate(classes) if counts[name] >= least], dtype=np.int64)


class ExampleWord(NamedTuple):
    """A candidate word, and how far its classes lie apart."""

    word: str
    classes: int
    contexts: int
    silhouette: float


def best_examples(
    words: WordOccurrences, vectors: Float[torch.Tensor, "word width"], *, least: int = LEAST
) -> list[ExampleWord]:
    """Words with two or more classes of at least `least` contexts each, those whose classes lie farthest apart first.

    Only contexts that are `comparable` count. The rule is the silhouette over cosine distances of `vectors`, which are
    the last layer's; of equals, the word with more contexts comes first. The first was chosen among many: it shows what
    is possible, not what is usual.
    """
    examples = []
    for word, contexts in candidates(words, least).items():
        labels = [words.classes[context] for context in contexts]
        value = separation(vectors[contexts].cpu().numpy(), labels, least=least, permutations=0).silhouette
        examples.append(ExampleWord(words.types[word], len(set(labels)), len(contexts), value))
    return sorted(examples, key=lambda example: (-example.silhouette, -example.contexts, example.word))


def candidates(words: WordOccurrences, least: int = LEAST) -> Mapping[int, list[int]]:
    """Word type -> its comparable contexts, where they have two classes or more; an error where no word has.

    Of more than 100 such words those with most contexts.
    """
    by_type: defaultdict[int, list[int]] = defaultdict(list)
    for context in sorted(words.classes):
        by_type[int(words.type_of[context])].append(context)
    contexts_by_word = {}
    for word, contexts in by_type.items():
        several = [contexts[place] for place in comparable([words.classes[context] for context in contexts], least)]
        if len({words.classes[context] for context in several}) > 1:
            contexts_by_word[word] = several
    if not contexts_by_word:
        raise CorpusError(
            f"{words.name}: no word has two classes of at least {least} contexts each, so none can be chosen; name one "
            "with --word, or take a corpus with more semantic classes (the train split of ewt, a Wiki-PSE file)"
        )
    frequent = sorted(contexts_by_word, key=lambda word: (-len(contexts_by_word[word]), words.types[word]))[:MOST_WORDS]
    return {word: contexts_by_word[word] for word in sorted(frequent)}


def _distances(vectors: np.ndarray) -> np.ndarray:
    long = np.linalg.norm(vectors.astype(np.float64), axis=1, keepdims=True)
    unit = vectors / np.maximum(long, 1e-12)
    apart = np.clip(1 - unit @ unit.T, 0, 2)
    np.fill_diagonal(apart, 0)
    return apart
