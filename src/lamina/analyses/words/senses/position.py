"""How much of a word's vector is its position: the same word at other places, and near a sentence's ends."""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int

from lamina.activations.reading import sum_rows
from lamina.analyses.words.senses.targets import SenseTargets, grouped
from lamina.errors import ModelError
from lamina.models import Activations, Encoder
from lamina.models.running.variants import with_positions_shifted
from lamina.progress import progress
from lamina.stats.units import document_of
from lamina.types import Span, Text

STARTS = (0, 1, 2, 3, 4, 6, 9, 13, 19, 28)
"""First place of each bin, counted from 0."""
BINS = ("1", "2", "3", "4", "5-6", "7-9", "10-13", "14-19", "20-28", "29+")
"""The same as in tables, counted from 1."""
DESIGNS = ("start", "end", "both", "boundary", "inner")
"""What a share is of: bins of places from the start, from the end, both; being first or last; both, ends left out."""
NEAR, FAR = 2, 10
"""Places apart: at most, at least."""
_LEAST, _MOST, _TYPES = 10, 40, 200
"""Occurrences that a word needs, those of it that are looked at, and words."""
_FOLDS = 5
_PERMUTATIONS = 5
_PAIRS = 200
"""Pairs of occurrences of one word with one sense, of each kind."""


@dataclass(frozen=True, eq=False)
class FrequentWordPlaces:
    """Occurrences of frequent words, written the same and of the same tokens, and where in their text they are."""

    text: Int[np.ndarray, " place"]
    spans: Int[np.ndarray, "place 2"]
    word: Int[np.ndarray, " place"]
    start: Int[np.ndarray, " place"]
    """Words before it."""
    end: Int[np.ndarray, " place"]
    """Words after it."""
    fold: Int[np.ndarray, " place"]
    """By document: shares are predicted from other documents."""
    seed: int

    def __len__(self) -> int:
        return len(self.text)

    @cached_property
    def designs(self) -> dict[str, tuple[np.ndarray, Float[np.ndarray, "place column"]]]:
        """Design -> which places it is about, and their columns."""
        start, end = _bins(self.start), _bins(self.end)
        every = np.ones(len(self), bool)
        edges = np.stack([self.start == 0, self.end == 0], 1).astype(np.float32)
        both = np.concatenate([start, end], 1)
        return {
            "start": (every, start),
            "end": (every, end),
            "both": (every, both),
            "boundary": (every, edges),
            "inner": (np.asarray(~edges.any(1)), both),
        }

    @cached_property
    def shuffles(self) -> list[Int[np.ndarray, " place"]]:
        """Places exchanged among the occurrences of each word."""
        orders = []
        for number in range(_PERMUTATIONS):
            keys = np.random.default_rng([self.seed, number]).random(len(self))
            drawn, plain = np.lexsort((keys, self.word)), np.lexsort((np.arange(len(self)), self.word))
            order = np.empty(len(self), int)
            order[plain] = drawn
            orders.append(order)
        return orders


def find_places(texts: Sequence[Text], units: Sequence[str], encoder: Encoder, *, seed: int = 0) -> FrequentWordPlaces:
    """Up to 40 occurrences of each of up to 200 words that have at least 10, drawn at random.

    Other tokens make another word: byte-level tokenizers read the first word of a text without a space before it, and
    what follows from that is spelling, not position.
    """
    where: defaultdict[tuple[str, tuple[int, ...]], list[tuple[int, int]]] = defaultdict(list)
    for number, (text, tokens) in enumerate(zip(texts, encoder.tokenize_all(texts), strict=True)):
        pieces: defaultdict[int, list[int]] = defaultdict(list)
        for position, piece in zip(tokens.words.tolist(), tokens.ids.tolist(), strict=True):
            pieces[position].append(piece)
        for position, word in enumerate(text.words):
            where[word, tuple(pieces[position])].append((number, position))
    often = sorted(
        (candidate for candidate in where.items() if len(candidate[1]) >= _LEAST),
        key=lambda candidate: (-len(candidate[1]), candidate[0]),
    )
    rows = []
    for word, (_, occurrences) in enumerate(often[:_TYPES]):
        for position in np.random.default_rng([seed, word]).permutation(len(occurrences))[:_MOST]:
            rows.append((*occurrences[position], word))
    rows.sort()
    text, position, word = (np.array([row[column] for row in rows], int) for column in range(3))
    length = np.array([len(texts[number].words) for number in text], int)
    fold = np.array([_fold(units[int(number)], seed) for number in text], int)
    return FrequentWordPlaces(
        text, np.stack([position, position + 1], 1).reshape(-1, 2), word, position, length - 1 - position, fold, seed
    )


class ExplainedVariance(NamedTuple):
    """Squared errors and squared distances from the word's mean; 1 minus their ratio is the share explained."""

    error: Float[np.ndarray, " place"]
    total: Float[np.ndarray, " place"]

    @property
    def value(self) -> float:
        """NaN where vectors do not vary: a word that is always the same has nothing to explain."""
        total = float(self.total.sum())
        return 1 - float(self.error.sum()) / total if total > 1e-6 * max(1, len(self.total)) else float("nan")


def explained(
    places: FrequentWordPlaces,
    vectors: Float[torch.Tensor, "place width"],
    design: str,
    shuffle: np.ndarray | None = None,
) -> ExplainedVariance:
    """How well places predict a word's vectors around its mean, in documents that the prediction did not see.

    One linear model for all words (what a place does to any word), by least squares on other documents, with the
    mean of each word subtracted on both sides.
    """
    inside, columns = places.designs[design]
    columns = columns if shuffle is None else columns[shuffle]
    error, total = (np.full(len(places), np.nan) for _ in range(2))
    design_rows = torch.from_numpy(columns).to(vectors.device)
    for fold in range(_FOLDS):
        learn, held_out = (np.flatnonzero(inside & mask) for mask in (places.fold != fold, places.fold == fold))
        if not len(learn) or not len(held_out):
            continue
        x, y = (_centred(rows[learn], places.word[learn]) for rows in (design_rows, vectors))
        gram = (x.T @ x).double()
        slopes = (torch.linalg.pinv(gram, rtol=1e-6, hermitian=True) @ (x.T @ y).double()).float()
        x, y = (_centred(rows[held_out], places.word[held_out]) for rows in (design_rows, vectors))
        error[held_out] = (y - x @ slopes).square().sum(1).cpu().numpy()
        total[held_out] = y.square().sum(1).cpu().numpy()
    predicted = np.isfinite(error)
    return ExplainedVariance(np.where(predicted, error, 0.0), np.where(predicted, total, 0.0))


def chance_share(
    places: FrequentWordPlaces, vectors: Float[torch.Tensor, "place width"], design: str
) -> ExplainedVariance:
    """The same with places exchanged among the occurrences of each word, mean over exchanges."""
    shares = [explained(places, vectors, design, order) for order in places.shuffles]
    return ExplainedVariance(np.mean([share.error for share in shares], axis=0), shares[0].total)


def mean_distance(places: FrequentWordPlaces, vectors: Float[torch.Tensor, "place width"]) -> float:
    """The mean squared distance of two occurrences of a word in different contexts: twice the variance within."""
    spread = float(_centred(vectors, places.word).square().sum())
    free = len(places) - len(np.unique(places.word))
    return 2 * spread / free if free > 0 else float("nan")


def likeness(places: FrequentWordPlaces, vectors: Float[torch.Tensor, "place width"]) -> Float[np.ndarray, " place"]:
    """The cosine of each occurrence with the mean of the word's other occurrences."""
    group = torch.from_numpy(places.word).to(vectors.device)
    sums = sum_rows(vectors, group, int(places.word.max(initial=-1)) + 1)[group] - vectors
    return torch.nn.functional.cosine_similarity(sums, vectors, dim=1).cpu().numpy()


class OccurrencePairs(NamedTuple):
    """Pairs of occurrences of one word with one sense, in different texts."""

    first: Int[np.ndarray, " pair"]
    second: Int[np.ndarray, " pair"]
    word: Int[np.ndarray, " pair"]
    near: np.ndarray
    """Whether the two are at about the same place; far apart otherwise."""


def find_pairs(data: SenseTargets, *, seed: int = 0) -> OccurrencePairs:
    """At most 200 near and 200 far pairs of each word, of words that have at least 3 of both."""
    single = np.flatnonzero(data.gold.sum(1) == 1)
    pairs: list[tuple[int, int, int, bool]] = []
    for word, rows in grouped(data.word, single).items():
        drawn = np.random.default_rng([seed, word]).permutation(rows)[: 2 * _MOST]
        kinds: dict[bool, list[tuple[int, int, int, bool]]] = {True: [], False: []}
        for one, other in combinations(drawn.tolist(), 2):
            if data.text[one] == data.text[other] or (data.gold[one] != data.gold[other]).any():
                continue
            places = abs(int(data.spans[one, 0] - data.spans[other, 0]))
            if places <= NEAR or places >= FAR:
                kinds[places <= NEAR].append((one, other, word, places <= NEAR))
        if min(map(len, kinds.values())) >= 3:
            pairs += [pair for of_kind in kinds.values() for pair in of_kind[:_PAIRS]]
    rows = np.array(pairs, int).reshape(-1, 4)
    return OccurrencePairs(rows[:, 0], rows[:, 1], rows[:, 2], rows[:, 3].astype(bool))


def pair_means(
    pairs: OccurrencePairs, vectors: Float[torch.Tensor, "target width"]
) -> tuple[Int[np.ndarray, " word"], Float[np.ndarray, "word 2"]]:
    """Words, and the mean cosine of their near and of their far pairs."""
    parts = np.array_split(np.arange(len(pairs.first)), max(1, len(pairs.first) // 8192))
    alike = np.concatenate(
        [(vectors[pairs.first[block]] * vectors[pairs.second[block]]).sum(1).cpu().numpy() for block in parts]
    )
    words, of = np.unique(pairs.word, return_inverse=True)
    means = np.stack(
        [
            np.bincount(of, alike * kind, len(words)) / np.maximum(np.bincount(of, kind, len(words)), 1)
            for kind in (pairs.near, ~pairs.near)
        ],
        1,
    )
    return words, means


def bin_of(places: Int[np.ndarray, " place"]) -> Int[np.ndarray, " place"]:
    """The number of each place's bin.

    Example:
        >>> [BINS[at] for at in bin_of(np.array([0, 5, 40]))]
        ['1', '5-6', '29+']
    """
    return np.searchsorted(STARTS, places, side="right") - 1


def _bins(places: np.ndarray) -> Float[np.ndarray, "place bin"]:
    return np.eye(len(STARTS), dtype=np.float32)[bin_of(places)]


def _centred(rows: torch.Tensor, word: np.ndarray) -> torch.Tensor:
    _, numbers = np.unique(word, return_inverse=True)
    group = torch.from_numpy(numbers).to(rows.device)
    counts = torch.bincount(group).unsqueeze(1)
    return rows - (sum_rows(rows, group, len(counts)) / counts)[group]


def _fold(unit: str, seed: int) -> int:
    digest = hashlib.sha256(f"{seed} {unit}".encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:4], "little") % _FOLDS


# The same sentence at later positions: how far the vectors of its words move.

SHIFTED, SENTENCE, ONE_SEGMENT = "shifted", "sentence", "one_segment"
"""Shifted positions; another sentence before it, as a separate segment; the same with one segment."""
_LIMIT = 10**9
"""Of an encoder that has none."""


class WordMovements(NamedTuple):
    """Squared distances between the vectors (of length 1) of a word before and after."""

    sums: Float[np.ndarray, "text layer"]
    """Over the words of each text."""
    words: Int[np.ndarray, " text"]
    documents: tuple[str, ...]


def draw_texts(texts: Sequence[Text], count: int, seed: int = 0) -> list[Text]:
    """`count` texts of one segment, at random."""
    single = [text for text in texts if len(text.segments) == 1]
    return [single[number] for number in np.random.default_rng(seed).permutation(len(single))[:count]]


def put_after(texts: Sequence[Text], seed: int = 0) -> list[Text]:
    """Each text after another one, of another document if possible.

    Example:
        >>> texts = [Text("a", ("Dogs", "bark"), doc="1"), Text("b", ("Cats", "sleep"), doc="2")]
        >>> [" ".join(text.words) for text in put_after(texts)]
        ['Cats sleep Dogs bark', 'Dogs bark Cats sleep']
    """
    rng = np.random.default_rng(seed)
    joined = []
    for text in texts:
        tried = [texts[number] for number in rng.permutation(len(texts))[:20]]
        other = next((candidate for candidate in tried if document_of(candidate) != document_of(text)), tried[0])
        cut = len(other.words)
        words = (*other.words, *text.words)
        joined.append(Text(f"{other.id} {text.id}", words, (Span(0, cut), Span(cut, len(words))), doc=text.doc))
    return joined


def movements(
    encoder: Encoder, texts: Sequence[Text], *, by: int, seed: int, skipped: Counter[str]
) -> dict[str, WordMovements]:
    """Movements of each kind at every layer; kinds that a model cannot have are left out and counted."""
    after = put_after(texts, seed)
    limit = getattr(encoder, "limit", _LIMIT)
    fits = [len(encoder.tokenize(text).ids) <= limit for text in after]
    skipped["sentences that are too long after another one, not moved"] += fits.count(False)
    texts = [text for text, fit in zip(texts, fits, strict=True) if fit]
    after = [text for text, fit in zip(after, fits, strict=True) if fit]
    if not texts:
        return {}
    ways: dict[str, tuple[Encoder, Sequence[Text]]] = {SENTENCE: (encoder, after)}
    one = encoder.with_one_segment()
    if one is not encoder:
        ways[ONE_SEGMENT] = (one, after)
    try:
        ways = {SHIFTED: (with_positions_shifted(encoder, by), texts), **ways}
    except ModelError as error:
        skipped[f"positions not shifted: {error}"] += 1
    return {name: _compare(encoder, texts, *way, name) for name, way in ways.items()}


def _compare(
    encoder: Encoder, texts: Sequence[Text], other: Encoder, moved: Sequence[Text], name: str
) -> WordMovements:
    sums, counts = [], []
    with progress(f"sentences of {encoder.name} moved ({name})", len(texts)) as advance:
        for before, after in zip(_words(encoder, texts, texts), _words(other, moved, texts), strict=True):
            apart = 2 - 2 * (before * after).sum(2)
            sums.append(apart.clamp(min=0).sum(0).cpu().numpy())
            counts.append(len(apart))
            advance()
    return WordMovements(np.stack(sums), np.array(counts), tuple(map(document_of, texts)))


def _words(
    encoder: Encoder, texts: Sequence[Text], of: Sequence[Text]
) -> Iterator[Float[torch.Tensor, "word layer width"]]:
    """The last words of each text, as many as its counterpart has; of length 1."""
    for text, encoded, counterpart in zip(texts, encoder.encode(texts), of, strict=True):
        yield _means(encoded, len(text.words) - len(counterpart.words), len(counterpart.words))


def _means(encoded: Activations, first: int, count: int) -> torch.Tensor:
    if encoded.states is None:
        raise ModelError("no states were given")
    words = torch.from_numpy(encoded.tokens.words.astype(np.int64) - first)
    inside = (words >= 0) & (words < count)
    owner = words[inside].to(encoded.states.device)
    states = encoded.states[inside.to(encoded.states.device)].float()
    sums = sum_rows(states.flatten(1), owner, count).unflatten(1, states.shape[1:])
    # Means and sums have the same direction.
    return torch.nn.functional.normalize(sums, dim=2)
