"""How alike two models are: linear CKA of their spaces, cosines of attention maps, attention to special tokens."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add, sub
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float

from lamina.activations import ReadActivations
from lamina.activations.reading import sum_rows
from lamina.analyses.heads.surface import MEASURES, measure
from lamina.corpora import Corpus
from lamina.framework.watch import (
    CUT,
    TOO_LONG,
    WatchedBatch,
    Weighting,
    fit,
    punctuation_ids,
    wants,
    watch,
    weighted_maps,
)
from lamina.models import SPECIAL, Activations, Encoder
from lamina.progress import progress
from lamina.results.finding import Finding, Source, finding, percent, rows_of
from lamina.stats.bootstrap import StreamedBootstrap
from lamina.stats.family import Contrasts, bootstrap_family, sign_flip_family
from lamina.stats.intervals import column_intervals
from lamina.stats.seeds import ENOUGH_SEEDS, draws_over_seeds, seed_shares
from lamina.stats.status import NEGLIGIBLE, Contrast
from lamina.stats.units import Halves, Units, UnitSums, unit_of
from lamina.types import Text


@dataclass(frozen=True, eq=False)
class HsicMoments:
    """Sums over the rows of two matrices, from which HSIC of their linear kernels follows.

    Moments of disjoint rows add up, and are taken off again by subtraction.

    Example:
        >>> x = torch.eye(5)
        >>> abs(hsic(HsicMoments.of(x[:2], x[:2]) + HsicMoments.of(x[2:], x[2:])) - hsic(HsicMoments.of(x, x))) < 1e-12
        True
    """

    count: torch.Tensor
    """Rows."""
    x: torch.Tensor
    """[width of x] Sum of the rows of x."""
    y: torch.Tensor
    xy: torch.Tensor
    """[width of x, width of y] x transposed times y."""
    x_length: torch.Tensor
    """Sum of the squared lengths of the rows of x."""
    y_length: torch.Tensor
    both_lengths: torch.Tensor
    """Sum of the products of the two squared lengths."""
    x_by_y: torch.Tensor
    """[width of x] Sum of the rows of x, each times the squared length of its row of y."""
    y_by_x: torch.Tensor

    @classmethod
    def of(cls, x: Float[torch.Tensor, "row p"], y: Float[torch.Tensor, "row q"]) -> HsicMoments:
        """Of paired rows, in double precision."""
        x, y = x.double(), y.double()
        long_x, long_y = x.square().sum(1), y.square().sum(1)
        rows = torch.tensor(len(x), dtype=torch.double)
        return cls(
            rows, x.sum(0), y.sum(0), x.T @ y, long_x.sum(), long_y.sum(), long_x @ long_y, long_y @ x, long_x @ y
        )

    def __add__(self, other: HsicMoments) -> HsicMoments:
        return self._with(other, add)

    def __sub__(self, other: HsicMoments) -> HsicMoments:
        return self._with(other, sub)

    def _with(self, other: HsicMoments, how: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]) -> HsicMoments:
        pairs = zip(vars(self).values(), vars(other).values(), strict=True)
        return HsicMoments(*(how(mine, theirs) for mine, theirs in pairs))


def hsic(sums: HsicMoments) -> float:
    """The unbiased estimate of HSIC (Song et al. 2012) with linear kernels, without a matrix of rows by rows.

    Not available (NaN) for fewer than four rows.
    """
    n = float(sums.count)
    if n < 4:
        return float("nan")
    # Kernel matrices K and L without their diagonals: the trace of K L, and the sums of K, of L and of K L.
    trace = sums.xy.square().sum() - sums.both_lengths
    whole_k = sums.x @ sums.x - sums.x_length
    whole_l = sums.y @ sums.y - sums.y_length
    product = sums.x @ sums.xy @ sums.y - sums.y_by_x @ sums.y - sums.x_by_y @ sums.x + sums.both_lengths
    total = trace + whole_k * whole_l / ((n - 1) * (n - 2)) - 2 * product / (n - 2)
    return float(total) / (n * (n - 3))


@dataclass(frozen=True, eq=False)
class CkaSums:
    """The sums from which linear CKA of two spaces follows; those of disjoint rows add up.

    Example:
        >>> x = torch.tensor([[0.0, 1.0], [2.0, 0.0], [1.0, 5.0], [4.0, 4.0], [0.0, 3.0]])
        >>> round(CkaSums.of(x, 3 * x.flip(1)).cka(), 6)
        1.0
    """

    xy: HsicMoments
    xx: HsicMoments
    yy: HsicMoments

    @classmethod
    def of(cls, x: Float[torch.Tensor, "row p"], y: Float[torch.Tensor, "row q"]) -> CkaSums:
        """Of paired rows."""
        return cls(HsicMoments.of(x, y), HsicMoments.of(x, x), HsicMoments.of(y, y))

    def __add__(self, other: CkaSums) -> CkaSums:
        return CkaSums(self.xy + other.xy, self.xx + other.xx, self.yy + other.yy)

    def __sub__(self, other: CkaSums) -> CkaSums:
        return CkaSums(self.xy - other.xy, self.xx - other.xx, self.yy - other.yy)

    def cka(self) -> float:
        """Debiased linear CKA: 1 for spaces that differ by rotation and scale, about 0 for unrelated ones.

        Plain CKA rises towards 1 where there are few words for the number of dimensions; this does
        not, and may fall a little below 0 by chance. Not available where a space has no spread.
        """
        of_x, of_y = hsic(self.xx), hsic(self.yy)
        return hsic(self.xy) / (of_x * of_y) ** 0.5 if of_x > 0 and of_y > 0 else float("nan")


class LeaveOneOut(NamedTuple):
    """A measure of all texts, and the same without each group of them."""

    value: float
    without: Float[np.ndarray, " group"]


def leave_out(groups: Sequence[CkaSums]) -> LeaveOneOut:
    """CKA of all groups together, and with one group left out at a time."""
    whole = reduce(add, groups)
    several = len(groups) > 1
    return LeaveOneOut(whole.cka(), np.array([(whole - group).cka() for group in groups] if several else []))


def jackknife_draws(measure: LeaveOneOut, *, samples: int, seed: int) -> Float[np.ndarray, " sample"]:
    """Draws around a measure, by Student's t with the jackknife's standard error; the same shares for all measures.

    CKA is not a ratio of sums over texts, and with texts drawn twice a word would be compared with itself: groups
    are left out instead of drawn. Not available (NaN) with fewer groups than `ENOUGH_SEEDS`.

    Example:
        >>> rows = torch.randn(40, 3, generator=torch.Generator().manual_seed(0))
        >>> groups = [CkaSums.of(part, part @ part.T @ part) for part in rows.split(5)]
        >>> drawn = jackknife_draws(leave_out(groups), samples=1000, seed=0)
        >>> low, high = (float(each[0]) for each in column_intervals(drawn[:, None]))
        >>> bool(low < leave_out(groups).value < high)
        True
    """
    value, without = measure
    groups = len(without)
    if groups < ENOUGH_SEEDS:
        return np.full(samples, np.nan)
    shares = seed_shares(groups, samples, np.random.default_rng([seed, groups]))
    return value + shares @ ((1 - groups) * (without - without.mean()))


GROUPS = 20
"""Of neighbouring documents; leaving out one at a time gives the interval of CKA."""
_TEXTS_AT_ONCE = 64


class LayerSimilarity(NamedTuple):
    """A measure of one layer of one pair of models."""

    value: float
    draws: Float[np.ndarray, " sample"]
    """Over documents: the same for all layers."""
    baseline: float


def over_models(pairs: Sequence[LayerSimilarity]) -> LayerSimilarity:
    """The mean over pairs of models; draws are over documents and, from `ENOUGH_SEEDS` pairs on, over pairs too."""
    values = np.array([pair.value for pair in pairs])
    draws = draws_over_seeds(values, np.stack([pair.draws for pair in pairs])).clip(-1, 1)
    return LayerSimilarity(float(values.mean()), draws, float(np.mean([pair.baseline for pair in pairs])))


class AlignedWords(NamedTuple):
    """Some texts' words at one layer of both models, and of the random-weights twin where there is one."""

    a: Float[torch.Tensor, "word width"]
    b: Float[torch.Tensor, "word other_width"]
    twin: Float[torch.Tensor, "word width"] | None
    sizes: list[int]
    """Words of each text."""
    texts: list[int]
    """Their numbers."""

    def mean(self) -> AlignedWords:
        """All of them as one."""
        twin = None if self.twin is None else self.twin.mean(0, keepdim=True)
        return AlignedWords(self.a.mean(0, keepdim=True), self.b.mean(0, keepdim=True), twin, [1], [0])


def compare_layer(
    a: ReadActivations,
    b: ReadActivations,
    twin: ReadActivations | None,
    layer: int,
    documents: Sequence[str],
    *,
    samples: int,
    seed: int,
) -> dict[str, LayerSimilarity]:
    """CKA, and (models of one width) the mean cosine of a word with itself, at one layer of both models.

    The baseline of CKA is that of the first model with the twin; of the cosine, that of words of different texts.
    Texts stream: what is kept does not grow with their number.

    Args:
        a: states of one model.
        b: of the other, of the same texts.
        twin: of the random-weights twin of the first.
        layer: which layer.
        documents: of each text, the unit it belongs to: its document.
        samples: how often documents are resampled.
        seed: of the resampling.
    """
    groups: list[CkaSums] = []
    beside: CkaSums | None = None
    cosines: WordCosines | None = None
    origin: AlignedWords | None = None
    for members in grouped(documents):
        group: CkaSums | None = None
        for words in _read(a, b, twin, layer, members):
            # CKA does not depend on the origin, but sums of squares far from it lose digits.
            origin = origin or words.mean()
            group = _plus(group, CkaSums.of(words.a - origin.a, words.b - origin.b))
            if words.twin is not None and origin.twin is not None:
                beside = _plus(beside, CkaSums.of(words.a - origin.a, words.twin - origin.twin))
            if words.a.shape == words.b.shape:
                cosines = cosines or WordCosines(words.a[0].double(), samples=samples, seed=seed)
                cosines.add(words, documents)
        groups += [] if group is None else [group]
    whole = leave_out(groups)
    drawn = jackknife_draws(whole, samples=samples, seed=seed)
    similarities = {"cka": LayerSimilarity(whole.value, drawn, beside.cka() if beside else float("nan"))}
    return similarities | ({"cosine": cosines.measured()} if cosines else {})


def _plus(whole: CkaSums | None, part: CkaSums) -> CkaSums:
    return part if whole is None else whole + part


class WordCosines:
    """Of each word in one model with itself, and with the words of other texts, in the other."""

    def __init__(self, like: Float[torch.Tensor, " width"], *, samples: int, seed: int) -> None:
        """`like` is a vector of the same width on the same device."""
        self._same = StreamedBootstrap(2, samples=samples, seed=seed)
        self._a, self._b = (torch.zeros_like(like) for _ in range(2))
        self._within, self._words, self._pairs_within = 0.0, 0, 0

    def add(self, words: AlignedWords, documents: Sequence[str]) -> None:
        a, b = (torch.nn.functional.normalize(side.double(), dim=1) for side in (words.a, words.b))
        sizes, texts = torch.tensor(words.sizes), len(words.texts)
        owner = torch.repeat_interleave(sizes).to(a.device)
        same = sum_rows((a * b).sum(1, keepdim=True), owner, texts)[:, 0].tolist()
        for text, alike, size in zip(words.texts, same, words.sizes, strict=True):
            self._same.add(np.array([alike, size]), documents[text])
            self._pairs_within += size**2
        self._within += float((sum_rows(a, owner, texts) * sum_rows(b, owner, texts)).sum())
        self._a += a.sum(0)
        self._b += b.sum(0)
        self._words += len(a)

    def measured(self) -> LayerSimilarity:
        total, count = self._same.value
        # The sum of cosines over all pairs is the product of the sums of unit vectors: no pair has to be visited.
        pairs = self._words**2 - self._pairs_within
        unrelated = (float(self._a @ self._b) - self._within) / pairs if pairs else float("nan")
        with np.errstate(invalid="ignore"):
            drawn = self._same.samples[:, 0] / self._same.samples[:, 1]
        return LayerSimilarity(total / count, drawn, unrelated)


def grouped(documents: Sequence[str]) -> list[list[int]]:
    """The numbers of the texts of at most `GROUPS` groups of neighbouring documents, of about as many texts each.

    Example:
        >>> grouped(["a", "a", "b", "c", "b"])
        [[0, 1], [2, 4], [3]]
        >>> [len(each) for each in grouped([str(at // 2) for at in range(200)])] == [10] * 20
        True
    """
    sizes = Counter(documents)
    group: dict[str, int] = {}
    before = 0
    for name, size in sizes.items():
        group[name] = len(group) if len(sizes) <= GROUPS else GROUPS * before // len(documents)
        before += size
    members: dict[int, list[int]] = {}
    for number, name in enumerate(documents):
        members.setdefault(group[name], []).append(number)
    return [members[number] for number in sorted(members)]


def _read(
    a: ReadActivations, b: ReadActivations, twin: ReadActivations | None, layer: int, texts: Sequence[int]
) -> Iterator[AlignedWords]:
    for start in range(0, len(texts), _TEXTS_AT_ONCE):
        some = list(texts[start : start + _TEXTS_AT_ONCE])
        words, sizes = word_vectors([a[text] for text in some], layer)
        other, _ = word_vectors([b[text] for text in some], layer)
        beside = None if twin is None else word_vectors([twin[text] for text in some], layer)[0].to(words.device)
        yield AlignedWords(words, other.to(words.device), beside, sizes, some)


def word_vectors(texts: Sequence[Activations], layer: int) -> tuple[Float[torch.Tensor, "word width"], list[int]]:
    """Each word of some texts as the mean of its tokens at one layer, special tokens left out; and words by text.

    Example:
        >>> from lamina.testing import TinyEncoder
        >>> from lamina.types import Text
        >>> made = TinyEncoder().encode([Text("a", ("Hello", "you")), Text("b", ("Hi",))])
        >>> vectors, sizes = word_vectors(list(made), 0)
        >>> vectors.shape, sizes
        (torch.Size([3, 16]), [2, 1])
    """
    states = torch.cat([text.states[:, layer] for text in texts if text.states is not None])
    sizes = [int(text.tokens.words.max()) + 1 for text in texts]
    words = np.concatenate([text.tokens.words for text in texts]).astype(np.int64)
    starts = np.repeat(np.cumsum(sizes) - sizes, [len(text.tokens.words) for text in texts])
    inside = words != SPECIAL
    owner = torch.from_numpy((words + starts)[inside]).to(states.device)
    sums = sum_rows(states[torch.from_numpy(inside)].float(), owner, sum(sizes))
    return sums / torch.bincount(owner, minlength=sum(sizes)).unsqueeze(1), sizes


OTHER_TOKENS = "texts that the two models cut into different tokens: their attention is not compared"


class HeadSimilarity(NamedTuple):
    """Cosines of flattened maps, averaged over texts; NaN where no text could be compared."""

    value: Float[np.ndarray, "block head"]
    """Of a head of one model with the same head of the other."""
    low: Float[np.ndarray, "block head"]
    high: Float[np.ndarray, "block head"]
    baseline: Float[np.ndarray, "block head"]
    """Of the second model's head with the other heads of that layer in the first, averaged."""
    apart: Contrasts
    """value - baseline, paired by document; all heads are one family."""
    skipped: Counter[str]


def compare_heads(
    pairs: Sequence[tuple[Encoder, Encoder]],
    texts: Iterable[Text],
    *,
    samples: int,
    seed: int,
    weights: Weighting = "attention",
) -> HeadSimilarity:
    """Every head of the second model of a pair beside the same head and the other heads of the first; mean over pairs.

    Texts are cut to what both models take, and stream: maps are never kept. `texts` is read more than once per pair.
    Intervals are over documents and, from `ENOUGH_SEEDS` pairs on, over pairs too.

    Example:
        >>> from lamina.testing import SAMPLE_TEXTS, TinyEncoder
        >>> found = compare_heads([(TinyEncoder(), TinyEncoder())], SAMPLE_TEXTS, samples=10, seed=0)
        >>> found.value.round(6).tolist(), bool((found.baseline < 1).all())
        ([[1.0, 1.0], [1.0, 1.0]], True)
    """
    shape = (pairs[0][0].blocks, pairs[0][0].heads)
    skipped: Counter[str] = Counter()
    by = unit_of(texts)
    collected: list[UnitSums] = []
    for a, b in pairs:
        # What is left out is the same for all pairs, and counted once.
        skipped.clear()
        sums = UnitSums(2 * a.blocks * a.heads + 1, Halves(frozenset(), by.by))
        _head_cosines(a, b, texts, skipped, sums, weights=weights)
        collected.append(sums)
    tables = np.stack([sums.values() for sums in collected]).astype(float)
    if not tables.shape[1]:
        nothing, none = np.full(shape, np.nan), np.zeros(shape)
        apart = Contrasts(nothing, nothing, nothing, nothing, none, none)
        return HeadSimilarity(nothing, nothing, nothing, nothing, apart, skipped)
    drawn = np.tensordot(collected[0].weights(samples=samples, seed=seed).astype(float), tables, ([1], [1]))
    with np.errstate(invalid="ignore", divide="ignore"):
        values = tables[:, :, :-1].sum(1) / tables[:, :, -1:].sum(1)
        draws = (drawn[..., :-1] / drawn[..., -1:]).swapaxes(0, 1)
    value, baseline = values.mean(0).reshape(2, *shape)
    over = draws_over_seeds(values, draws).clip(-1, 1).reshape(samples, 2, *shape)
    low, high = column_intervals(over[:, 0])
    apart = _apart(tables, values, draws, shape)
    return HeadSimilarity(value, low, high, baseline, apart, skipped)


def _apart(
    tables: Float[np.ndarray, "pair unit kinds"],
    values: Float[np.ndarray, "pair cosine"],
    draws: Float[np.ndarray, "pair sample cosine"],
    shape: tuple[int, int],
) -> Contrasts:
    """What heads are more like themselves than like others; with enough pairs of models these vary too."""
    heads = shape[0] * shape[1]
    if len(tables) < ENOUGH_SEEDS:
        mean = tables.mean(0)
        ahead = mean[:, :heads] - mean[:, heads:-1]
        # A head that is alone in its layer has no others.
        known = np.isfinite(ahead).all(0)
        counts = np.where(known, mean[:, -1:], 0.0)
        contrasts = sign_flip_family(np.where(known, ahead, 0.0), counts, bounds=(-2.0, 2.0))
    else:
        ahead = values[:, :heads] - values[:, heads:]
        over = draws_over_seeds(ahead, draws[..., :heads] - draws[..., heads:])
        contrasts = bootstrap_family(ahead.mean(0), over, int((tables[0, :, -1] > 0).sum()), bounds=(-2.0, 2.0))
    return Contrasts(*(numbers.reshape(shape) for numbers in contrasts))


def _head_cosines(
    a: Encoder,
    b: Encoder,
    texts: Iterable[Text],
    skipped: Counter[str],
    sums: UnitSums,
    *,
    weights: Weighting,
) -> None:
    """Adds each head's cosines (with itself, then with the others), and the number of texts, by document."""
    # Texts are cut for both models alike, and counted once.
    counters = (skipped, Counter[str]())
    waiting: dict[str, Text] = {}
    streams = (
        encoder.encode(_fitting(a, b, texts, count, pending), wants(weights), ordered=False)
        for encoder, count, pending in zip((a, b), counters, (waiting, None), strict=True)
    )
    with progress(f"attention of {a.name} and {b.name}", None) as advance:
        for one, other in _together(*streams):
            advance()
            before, after = weighted_maps(a, one, weights), weighted_maps(b, other, weights)
            text = waiting.pop(one.text)
            if before is None or after is None:
                skipped[TOO_LONG] += 1
            elif not np.array_equal(one.tokens.ids, other.tokens.ids):
                skipped[OTHER_TOKENS] += 1
            else:
                sums.add(np.append(_cosines(before, after), 1.0), text)


def _cosines(
    one: Float[torch.Tensor, "block head token token"], other: Float[torch.Tensor, "block head token token"]
) -> Float[np.ndarray, " both"]:
    """Of every head with itself, then with the mean of the others; NaN for the only head of its layer."""
    old, new = (torch.nn.functional.normalize(maps.flatten(2).double(), dim=2) for maps in (one, other))
    cosines = old @ new.transpose(1, 2)
    same = cosines.diagonal(dim1=1, dim2=2)
    several = same.shape[1] - 1
    others = (cosines.sum(1) - same) / several if several else torch.full_like(same, torch.nan)
    return torch.stack([same, others]).flatten().numpy()


def _fitting(
    a: Encoder, b: Encoder, texts: Iterable[Text], skipped: Counter[str], waiting: dict[str, Text] | None
) -> Iterator[Text]:
    for text in texts:
        fitted = fit(b, fit(a, text))
        skipped.update([CUT] if fitted is not text else [])
        if waiting is not None:
            waiting[fitted.id] = fitted
        yield fitted


def _together(one: Iterable[Activations], other: Iterable[Activations]) -> Iterator[tuple[Activations, Activations]]:
    """The same text of both; models of one kind bring texts in one order, so that hardly any has to wait."""
    waiting: tuple[dict[str, Activations], dict[str, Activations]] = ({}, {})
    for brought in zip(one, other, strict=True):
        for side, activations in enumerate(brought):
            partner = waiting[1 - side].pop(activations.text, None)
            if partner is None:
                waiting[side][activations.text] = activations
            else:
                yield (partner, activations) if side else (activations, partner)


SPECIAL_COLUMNS = (
    "layer", "to", "before", "after", "difference", "diff_low", "diff_high", "p_adjusted", "units", "needed", "unit",
)  # fmt: skip
"""Columns of `special`."""
PLACES = {"to_separator": "separators", "to_first": "first token"}
"""Measure -> where attention goes."""


class SpecialMeter:
    """The mean share of attention of every text's tokens and every block's heads."""

    def __init__(self, encoder: Encoder) -> None:
        self._punctuation = punctuation_ids(encoder)
        self.shares: dict[str, Float[np.ndarray, "place block"]] = {}
        """Text -> shares."""

    def update(self, batch: WatchedBatch) -> None:
        """See `Meter.update`."""
        roles = batch.roles(self._punctuation, causal=False)
        groups = zip(batch.groups, batch.received, strict=True)
        values = torch.cat([measure(*group, roles, batch.sizes) for group in groups], 2)
        by_block = values.unflatten(2, (len(batch.maps), -1)).mean(-1)
        some = roles.separators.any(1)
        chosen = by_block[:, [MEASURES.index(name) for name in PLACES]].cpu().numpy()
        for text, shares, separated in zip(batch.texts, chosen, some.tolist(), strict=True):
            # A text without separators has no share to compare.
            self.shares[text.id] = np.where([[separated], [True]], shares, np.nan)


def special_attention(
    pairs: Sequence[tuple[Encoder, Encoder]], corpus: Corpus, *, weights: Weighting, seed: int
) -> pd.DataFrame:
    """Every layer's share before and after, paired by document; of several seeds the mean."""
    sides: list[list[dict[str, np.ndarray]]] = [[], []]
    for models in pairs:
        for side, encoder in enumerate(models):
            meter = SpecialMeter(encoder)
            watch(encoder, corpus, [meter], rows="mean", weights=weights)
            sides[side].append(meter.shares)
    texts = [text for text in corpus if all(text.id in shares for side in sides for shares in side)]
    before, after = (np.stack([np.mean([shares[text.id] for shares in side], 0) for text in texts]) for side in sides)
    units = Units.of_texts(texts)
    there = np.isfinite(before) & np.isfinite(after)
    ahead = units.sums(np.where(there, after - before, 0))
    counts = units.sums(there.astype(float))
    tests = sign_flip_family(ahead, counts, bounds=(-1.0, 1.0), seed=seed)
    rows = [
        (
            block + 1, called, float(before[:, place, block][there[:, place, block]].mean()),
            float(after[:, place, block][there[:, place, block]].mean()),
            *tests.member((place, block)), units.kind,
        )
        for place, called in enumerate(PLACES.values())
        for block in range(before.shape[2])
        if there[:, place, block].any()
    ]  # fmt: skip
    return pd.DataFrame(rows, columns=list(SPECIAL_COLUMNS))


def special_findings(table: pd.DataFrame) -> Iterator[Finding]:
    """The layer at which attention to each of them changed most."""
    for called, rows in table.groupby("to", sort=False):
        row: Any = next(rows_of(rows.sort_values("difference", key=abs, ascending=False, kind="stable")))
        verb = "more" if row.difference > 0 else "less"
        what = "separators" if called == "separators" else "the first token"
        shares = f"{percent(row.before)} before, {percent(row.after)} after"
        yield finding(
            claim=f"Heads of layer {row.layer} attend {verb} to {what} after fine-tuning: {shares}",
            whether=f"heads of layer {row.layer} attend {verb} to {what} after fine-tuning ({shares})",
            absent=f"At no layer does attention to {what} change: most at layer {row.layer}, {shares}",
            contrast="difference",
            test=Contrast.of(row, "difference", "diff_low", "diff_high"),
            source=Source("special", {"to": called, "layer": row.layer}),
            unit=row.unit,
            importance=("answers", "localised"),
            margin=NEGLIGIBLE,
        )
