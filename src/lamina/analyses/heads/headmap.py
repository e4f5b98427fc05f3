"""A map of all heads: heads that attend alike are close, whatever their layer."""

from __future__ import annotations

import math
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Annotated, Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Int
from torch import Tensor

from lamina.analyses.heads.attention import sample_texts
from lamina.analyses.heads.behaviours import LEAD, HeadBehaviour, behaviours, digits_of, named
from lamina.analyses.heads.corefheads import CorefMeter
from lamina.analyses.heads.corefheads import best_table as best_antecedents
from lamina.analyses.heads.heads import (
    BEST,
    RelationMeter,
    best_table,
    relation_findings,
    relations_of,
    relations_table,
)
from lamina.analyses.heads.surface import (
    REPEATED,
    InductionMeter,
    SurfaceMeter,
    UnitRows,
    induction_table,
    sequences_of,
)
from lamina.corpora import Corpus
from lamina.corpora.loading import load_corpus, scored_split
from lamina.errors import CorpusError, ModelError
from lamina.framework.declare import Table, Tables, analysis
from lamina.framework.inputs import Texts
from lamina.framework.settings import Length, Samples, Seed, Setting, Weights
from lamina.framework.watch import Meter, Watch, WatchedBatch, Watching, refuse_without_maps
from lamina.models import Encoder
from lamina.results import Result
from lamina.results.finding import Finding, Source, finding, not_tested, number, rows_of
from lamina.stats.family import Contrasts, drawn_contrast, sign_flip_family
from lamina.stats.intervals import ratio_intervals
from lamina.stats.status import Contrast
from lamina.stats.units import BY_DOCUMENT, CHOOSING, MOST_UNITS, SCORED, Unit, Units, halve, unit_of

DIVERGENCES = ("layer_a", "head_a", "layer_b", "head_b", "value", "mean", "low", "high", *LEAD, "closest")
"""Columns of `divergences.csv`."""
SMOOTHING = 0.001
"""The share of every distribution that is spread evenly over the text's tokens; the paper's."""

_AT_ONCE = 2**19
"""Numbers whose logarithm is taken in one go: fewer stay in a core's cache, but then threads spend their time waiting
for the interpreter (measured: 1.4 to 1.9 times as slow at 2**16)."""
_IN_ONE_KERNEL, _CELLS_IN_A_SUM = 2**24, 2**12
"""On an accelerator: numbers whose logarithm is taken in one go, and how many of them one sum has."""
_WORTH_A_THREAD = 2**13
"""Cells of a map; handing out fewer costs more than it saves."""
_RESAMPLED = 2**26
"""Numbers that bootstrap samples may hold, 256 MiB: models of more than about 500 heads get fewer samples."""
_FEWEST = 100
_MOST_SUMS, _FEWEST_UNITS = 2**25, 64
"""Numbers that sums of documents may hold, 256 MiB, and the documents that are kept apart whatever their size."""
_TESTED = 50_000
"""Pairs that are tested, those of 316 heads; more take minutes."""


class HeadDistances(NamedTuple):
    """Mean divergence per token between every two heads, heads in the order of blocks."""

    mean: Float[np.ndarray, "head head"]
    """From 0 to log 2."""
    low: Float[np.ndarray, "head head"]
    high: Float[np.ndarray, "head head"]


class DivergenceMeter:
    """Sums, over all tokens of all texts, the divergence (in nats) between every two heads.

    Example:
        >>> from lamina.framework.watch import watch
        >>> from lamina.testing import SAMPLE_TEXTS, TinyEncoder
        >>> meter = DivergenceMeter(TinyEncoder(), samples=50)
        >>> skipped = watch(TinyEncoder(), SAMPLE_TEXTS, [meter])
        >>> apart = meter.apart()
        >>> meter.summed.shape, bool((apart.mean <= np.log(2)).all()), bool((apart.low <= apart.high).all())
        ((4, 4), True, True)
    """

    def __init__(self, encoder: Encoder, *, samples: int = 500, seed: int = 0, unit: Unit = BY_DOCUMENT) -> None:
        self._heads, self._unit = encoder.heads, unit
        count = encoder.blocks * encoder.heads
        self._pairs = np.triu_indices(count, 1)
        pairs = len(self._pairs[0])
        self.samples = min(samples, max(_FEWEST, _RESAMPLED // (pairs + 1)))
        """Of the bootstrap: fewer of models with very many heads."""
        self._seed = seed
        self._rows = UnitRows(pairs + 1, most=min(MOST_UNITS, max(_FEWEST_UNITS, _MOST_SUMS // (pairs + 1))))
        self._summed = torch.zeros(count, count, dtype=torch.float64)
        self.tokens = 0
        """How many tokens' attention was compared."""

    @property
    def summed(self) -> Float[np.ndarray, "head head"]:
        """Heads in the order of blocks, summed over tokens as in the paper."""
        return self._summed.cpu().numpy()

    def update(self, batch: WatchedBatch) -> None:
        """See `Meter.update`."""
        heads = batch.groups[0] if len(batch.groups) == 1 else torch.cat(batch.groups, 1)
        by_pair = divergences(heads, batch.sizes)
        self._summed = self._summed.to(by_pair.device) + by_pair.sum(0)
        self.tokens += sum(len(pair.ids) for pair in batch.tokens)
        one, other = (torch.from_numpy(pair).to(by_pair.device) for pair in self._pairs)
        sums = torch.cat([by_pair[:, one, other], batch.sizes[:, None]], 1)
        self._rows.add(sums, [self._unit.of(text) for text in batch.texts])

    def apart(self) -> HeadDistances:
        """A token's mean, with the 95 % interval over resampled documents or texts."""
        drawn = self._rows.draws(samples=self.samples, seed=self._seed)
        sides = [np.zeros_like(self.summed) for _ in range(2)]
        for side, end in zip(sides, ratio_intervals(drawn[:, :-1], drawn[:, -1]), strict=True):
            side[self._pairs] = end
        low, high = (side + side.T for side in sides)
        return HeadDistances(self.summed / max(self.tokens, 1), low, high)

    def table(self) -> pd.DataFrame:
        """One row per pair of heads, blocks and heads counted from 1."""
        places = (array for pair in self._pairs for array in (pair // self._heads + 1, pair % self._heads + 1))
        value, mean, low, high = (array[self._pairs] for array in (self.summed, *self.apart()))
        tests = closeness(self._rows.values())
        closest = np.arange(len(mean)) == mean.argmin()
        columns = (*places, value, mean, low, high, *tests, closest)
        table = pd.DataFrame(dict(zip(DIVERGENCES, columns, strict=True)))
        return table.astype({"units": int, "needed": int})


def closeness(sums: Float[np.ndarray, "unit column"]) -> Contrasts:
    """The mean divergence of all pairs minus that of each: are two heads closer, or farther apart, than heads are?

    One family of all pairs, signs of whole documents flipped, two-sided. Of very many pairs there are no tests.

    Args:
        sums: of documents: divergences of each pair, then tokens.
    """
    pairs, tokens = sums[:, :-1], sums[:, -1]
    closer = pairs.mean(1, keepdims=True) - pairs
    if pairs.shape[1] <= _TESTED:
        return sign_flip_family(closer, tokens)
    missing = np.full(pairs.shape[1], np.nan)
    estimate = closer.sum(0) / tokens.sum()
    return Contrasts(estimate, missing, missing, missing, np.full(len(missing), len(tokens)), np.zeros(len(missing)))


def divergences(
    maps: Float[Tensor, "text head token token"], sizes: Int[Tensor, " text"]
) -> Float[Tensor, "text head head"]:
    """Jensen-Shannon divergences, in nats, between heads' smoothed distributions, summed over a text's tokens.

    `JS(p, q) = H((p + q) / 2) - (H(p) + H(q)) / 2`, where a head's own entropy is that of its mixture with itself, so
    that the divergence of a head from itself is 0 exactly. Logarithms are taken in single precision and summed in
    double: exact to about 1e-6 per token. Texts may be padded: what is beyond `sizes` does not count.

    Example:
        >>> two = torch.tensor([[[1.0, 0.0], [0.5, 0.5]], [[0.0, 1.0], [0.5, 0.5]]])
        >>> divergences(two[None], torch.tensor([2]))[0].round(decimals=3).tolist()
        [[0.0, 0.689], [0.689, 0.0]]
    """
    inside = torch.arange(maps.shape[-1], device=maps.device) < sizes[:, None]
    cells = (inside[:, :, None] & inside[:, None])[:, None]
    # Halved: the sum of two heads' numbers is their mixture. Padding stays 0, and adds nothing to an entropy.
    spread = (SMOOTHING / 2 / sizes).view(-1, 1, 1, 1)
    halves = torch.where(cells, maps.float() * ((1 - SMOOTHING) / 2) + spread, 0).flatten(2)
    mixed = _mixed_entropies_by_numpy(halves) if maps.device.type == "cpu" else _mixed_entropies(halves)
    single = mixed.diagonal(0, -2, -1)
    upper = (mixed - (single[:, :, None] + single[:, None]) / 2).triu(1).clamp_min(0)
    return upper + upper.mT


def _mixed_entropies(halves: Float[Tensor, "text head cell"]) -> Float[Tensor, "text head head"]:
    """The entropy of every two heads' mixture, the first not after the second."""
    texts, heads, cells = halves.shape
    entropies = torch.zeros(texts, heads, heads, dtype=torch.float64, device=halves.device)
    # As many texts at a time as fit the room, and as many cells of them: in pieces whose sums keep their precision.
    some = min(texts, max(1, _IN_ONE_KERNEL // (heads * _CELLS_IN_A_SUM)))
    for start in range(0, texts, some):
        for first in range(0, cells, _CELLS_IN_A_SUM):
            part = halves[start : start + some, :, first : first + _CELLS_IN_A_SUM].contiguous()
            for head in range(heads):
                mixed = part[:, head:] + part[:, head : head + 1]
                entropies[start : start + some, head, head:] += torch.special.entr(mixed).sum(-1)
    return entropies


def _mixed_entropies_by_numpy(halves: Float[Tensor, "text head cell"]) -> Float[Tensor, "text head head"]:
    """The same on a CPU, where numpy's logarithm is several times faster than torch's."""
    entropies = []
    for text in halves.numpy():
        # Padding is at the end of every row of a map; without it there is less to do.
        there = np.ascontiguousarray(text[:, text[0] > 0])
        threads = min(torch.get_num_threads(), 1 + there.shape[1] // _WORTH_A_THREAD)
        parts = np.array_split(there, threads, axis=1)
        if threads == 1:
            entropies.append(_entropies_of_one(there))
            continue
        # numpy lets go of the interpreter while it computes.
        with ThreadPoolExecutor(threads) as pool:
            entropies.append(np.sum(list(pool.map(_entropies_of_one, parts)), axis=0))
    return torch.from_numpy(np.stack(entropies))


def _entropies_of_one(halves: Float[np.ndarray, "head cell"]) -> Float[np.ndarray, "head head"]:
    heads, cells = halves.shape
    step = max(1, _AT_ONCE // heads)
    entropies = np.zeros((heads, heads))
    mixture, logs = (np.empty((heads, step), np.float32) for _ in range(2))
    for start in range(0, cells, step):
        part = np.ascontiguousarray(halves[:, start : start + step])
        for head in range(heads):
            room = np.s_[: heads - head, : part.shape[1]]
            mixed = np.add(part[head:], part[head], out=mixture[room])
            entropies[head, head:] -= np.vecdot(mixed, np.log(mixed, out=logs[room]))
    return entropies


def most_alike(table: pd.DataFrame) -> Iterable[Finding]:
    """The two heads that attend most alike, beside the mean of all pairs; none for results of older versions.

    Of models with very many heads it is untested, and says why.

    Example:
        >>> rows = [
        ...     (1, 1, 1, 2, 3.0, 0.003, 0.0023, 0.004, 0.179, 0.17, 0.19, 0.002, 20, 0, True),
        ...     (1, 1, 2, 1, 360.0, 0.36, 0.34, 0.38, -0.179, -0.19, -0.17, 0.002, 20, 0, False),
        ... ]
        >>> [found.text for found in most_alike(pd.DataFrame(rows, columns=list(DIVERGENCES)))]
        ['Heads 1-1 and 1-2 attend alike: their divergence is .0030 nats per token, less than that of two heads on \
average (difference .179 [.170, .190]).']
    """
    if not set(DIVERGENCES) <= set(table) or len(table) < 2:
        return
    for row in rows_of(table[table["closest"].astype(bool)]):
        pair = f"{row.layer_a}-{row.head_a} and {row.layer_b}-{row.head_b}"
        if math.isnan(row.p_adjusted) and not row.needed:
            yield _too_many(pair, len(table))
            continue
        yield finding(
            claim=(
                f"Heads {pair} attend alike: their divergence is {number(row.mean, digits=digits_of(row.mean))} nats "
                "per token, less than that of two heads on average"
            ),
            whether=f"heads {pair} attend more alike than two heads do on average",
            absent=f"Heads {pair}, the closest two, attend no more alike than two heads do on average",
            contrast="difference",
            test=Contrast.of(row, *LEAD[:3]),
            source=Source("divergences", {"closest": True}),
            importance=("localised",),
            digits=digits_of(row.difference, row.diff_high - row.diff_low),
        )


def _too_many(pair: str, pairs: int) -> Finding:
    """The closest pair of a model with too many heads to test pairs."""
    return not_tested(
        f"heads {pair} attend more alike than two heads do on average",
        f"all {pairs:,} pairs of heads are one family, too large to be tested in a few minutes",
        source=[Source("divergences", {"closest": True}), Source("divergences")],
        importance=("localised",),
    )


# A map of all heads: those that attend alike stand close, whatever their layer.

POINTS = ("layer", "head", "x", "y", "behaviour")
"""Columns of `points.csv`."""
FIT = ("heads", "tokens", "stress")
"""Columns of `fit.csv`."""
LIKENESS = ("within", "between", *LEAD)
"""Columns of `likeness.csv`."""

STARTS, STEPS, EPSILON = 5, 1000, 1e-10
"""The paper's: random starts, of which the best is taken; most steps of each; the gain that is not worth a step."""


class MapPlane(NamedTuple):
    """Points whose distances come as near to the given ones as two dimensions allow."""

    points: Float[np.ndarray, "point 2"]
    """Around 0, the longer axis first."""
    stress: float
    """Kruskal's stress-1: the root of the squared errors' share in the squared distances; 0 is perfect."""


def scale(distances: Float[np.ndarray, "point point"], *, seed: int = 0) -> MapPlane:
    """Metric MDS from random starts, on its principal axes.

    Example:
        >>> corners = np.array([[0.0, 0.0], [3.0, 0.0], [0.0, 4.0]])
        >>> apart = np.linalg.norm(corners[:, None] - corners, axis=-1)
        >>> found = scale(apart).points
        >>> np.linalg.norm(found[1] - found[2]).round(3).item()
        5.0
    """
    from sklearn.manifold import MDS

    squares = np.square(distances).sum()
    if not squares:
        return MapPlane(np.zeros((len(distances), 2)), 0.0)
    mds = MDS(2, metric="precomputed", n_init=STARTS, init="random", max_iter=STEPS, eps=EPSILON, random_state=seed)
    points = np.asarray(mds.fit_transform(distances))
    errors = np.square(distances - np.linalg.norm(points[:, None] - points, axis=-1)).sum()
    return MapPlane(_turned(points), float(np.sqrt(errors / squares)))


def _turned(points: np.ndarray) -> np.ndarray:
    """Along their principal axes, each with its farthest point on the positive side: any turn would fit as well."""
    centred = points - points.mean(0)
    turned = centred @ np.linalg.svd(centred, full_matrices=False)[2].T
    farthest = turned[np.abs(turned).argmax(0), np.arange(turned.shape[1])]
    return turned * np.where(farthest < 0, -1.0, 1.0)


_DRAWN = 1000
"""Samples of heads behind a finding."""


@analysis(
    title="Map of heads",
    question="Which heads attend alike, and what do they do?",
    method=(
        "The Jensen-Shannon divergence of every two heads' attention (0.001 smoothing, nats per token) is placed on a "
        "plane by metric multidimensional scaling. Behaviours follow the thresholds of Clark et al. (2019); "
        "syntactic and coreference heads must beat simple rules on the same documents, corrected by max-T over all "
        "heads, relations (types of mention) and rules. Whether heads of one layer are more alike than heads of two is "
        "tested by resampling heads. Of a decoder, induction heads are found on random tokens said twice (Olsson et "
        "al. 2022)."
    ),
    cites=("Clark et al. 2019", "Olsson et al. 2022"),
    reads=Texts(),
    # A name needs a paired, corrected lead over simple rules; divergences have intervals (3). Induction heads (4).
    # Max-T instead of Holm, punctuation is no syntax; tests of likeness and of the best heads are tables (5).
    version=5,
    tables={
        "points": Table("One row per head: its place on the plane and what it does.", POINTS),
        "divergences": Table(
            "One row per pair of heads; low and high are the interval of the mean. `difference`: the mean of all pairs "
            "minus that of the pair; `p_adjusted` is two-sided, of one family: all pairs.",
            DIVERGENCES,
        ),
        "behaviours": Table(
            "One row per head and behaviour that holds of it, with the evidence.", HeadBehaviour._fields
        ),
        "likeness": Table(
            "One row: mean divergence of heads of one layer and of heads of two layers, and the difference, heads "
            "resampled; `p_adjusted` is two-sided, of this test alone.",
            LIKENESS,
            optional=True,
        ),
        "best": Table(
            "One row per relation: its best head against the best fixed offset, as in `heads`; one-sided, one family "
            "of all heads, directions and relations.",
            BEST,
            optional=True,
        ),
        "fit": Table("One row: how well the plane keeps the divergences.", FIT),
    },
    chapter="heads",
    takes=4,
    report={"samples": 200},
    example="lamina headmap minilm --corpus ewt --split dev --out results/headmap",
)
def headmap(
    encoder: Encoder,
    corpus: Corpus,
    *,
    pairs: Annotated[
        bool, Setting("Show two consecutive texts of a document as two segments, as in the paper's figures 2 to 6.")
    ] = False,
    length: Length = None,
    segments: Annotated[
        int | None, Setting("Draw this many texts or pairs; 1000 for pairs, otherwise all by default.", min=1)
    ] = None,
    names: Annotated[
        str | None,
        Setting(
            "Corpus with dependencies or chains whose relations name heads; by default the texts themselves.",
            file=True,
            metavar="CORPUS",
        ),
    ] = None,
    weights: Weights = "attention",
    samples: Samples = 500,
    seed: Seed = 0,
) -> Watching:
    """A map of all heads: those that attend alike are close, coloured by layer and by what they do.

    `points` has each head's place on the plane, in nats per token, and what it does; `divergences` every two heads,
    summed over all tokens as in the paper, and per token with its interval; `behaviours` all that holds of a head;
    `likeness` tests whether heads of one layer attend more alike than heads of two layers; `best` has the tests of
    syntactic heads (see `heads`); `fit` the plane's stress. Blocks and heads count from 1.

    Syntactic heads are found where the corpus has dependencies, coreference heads where it has chains (load it with
    `unit="window:128"`: few antecedents are in the same sentence), induction heads in decoders. With `pairs`, or where
    `names` says so, heads are named by what they do in the single texts of a corpus that has dependencies.

    Example:
        >>> from lamina.testing import TinyEncoder
        >>> result = headmap(TinyEncoder(), [["Dogs", "bark", "."], ["Cats", "do", "not", "."]], samples=10)
        >>> result.tables["points"][["layer", "head"]].values.tolist()
        [[1, 1], [1, 2], [2, 1], [2, 2]]
    """
    refuse_without_maps(encoder)
    if encoder.blocks * encoder.heads < 2:
        raise ModelError(f"{encoder.name} has a single head; a map needs at least 2")
    drawn, limit = sample_texts(corpus, pairs=pairs, length=length, segments=segments, seed=seed)
    # The corpus itself, where all of it is shown: its pass is shared with other analyses.
    sampled = drawn if pairs or segments is not None else corpus
    divergence = DivergenceMeter(encoder, samples=samples, seed=seed, unit=unit_of(sampled))
    surface = SurfaceMeter(encoder, samples=1, seed=seed)
    naming = corpus if names is None else load_corpus(names, scored_split(names))
    relations = _relations(encoder, naming, samples, seed)
    coreference = _coreference(encoder, naming, samples, seed)
    named_by: list[Meter] = [meter_ for meter_ in (relations, coreference) if meter_ is not None]
    # Pairs and drawn texts have no trees of their own: heads are named by the single texts of a corpus.
    apart = pairs or segments is not None or names is not None
    meters: list[Meter] = [divergence, surface, *([] if apart else named_by)]
    skipped = yield Watch(encoder, sampled, meters, limit=limit, total=len(sampled), weights=weights)
    if apart and named_by:
        yield Watch(encoder, naming, named_by, total=len(naming), weights=weights)
    if not divergence.tokens:
        raise CorpusError(f"{corpus.name}: no text fits {encoder.name}; give shorter words or a larger length")
    best = None if relations is None else _best(relations, encoder.heads)
    coref = None if coreference is None else _best_antecedents(coreference, encoder.heads)
    sequences = sequences_of(encoder, REPEATED, seed=seed) if encoder.causal_maps else None
    induction = None
    if sequences is not None:
        meter, texts = InductionMeter(sequences.size), sequences.repeated + sequences.unrepeated
        yield Watch(encoder, texts, [meter], total=len(texts), weights=weights)
        induction = induction_table(meter, None)
    doing = behaviours(surface.table(), best, coref, induction)
    plane = scale(divergence.apart().mean, seed=seed)
    tables = {
        "points": _points(encoder, plane, doing),
        "divergences": divergence.table(),
        "behaviours": doing,
        "fit": pd.DataFrame([(len(divergence.summed), divergence.tokens, plane.stress)], columns=list(FIT)),
    }
    alike = likeness(tables["divergences"], samples=_DRAWN, seed=seed)
    tables |= {"likeness": alike} if len(alike) else {}
    tables |= {} if best is None else {"best": best}
    data = {"shown": drawn.describe()} if apart else {}
    return Tables(tables, skipped, data=data | ({"named_by": naming.describe()} if apart and named_by else {}))


@headmap.finds
def _findings(result: Result) -> Iterable[Finding]:
    """Whether heads of a layer are alike, which two heads are closest, and which heads are syntactic."""
    alike = result.tables.get("likeness")
    if alike is not None and set(LIKENESS) <= set(alike):
        yield from map(_layers_matter, rows_of(alike))
    table = result.tables.get("divergences")
    if table is not None:
        yield from most_alike(table)
    best = result.tables.get("best")
    if best is not None and set(BEST) <= set(best):
        yield from relation_findings(best, "best", most=2)


def _layers_matter(row: Any) -> Finding:
    """Heads of one layer against heads of two layers."""
    more = "more" if row.difference > 0 else "less"
    return finding(
        claim=(
            f"Heads of one layer attend {more} alike than heads of two layers: mean divergence {number(row.within)} "
            f"within layers and {number(row.between)} between them, in nats per token"
        ),
        whether="heads of one layer attend more or less alike than heads of two layers",
        absent="Heads of one layer attend no more and no less alike than heads of two layers",
        contrast="difference",
        test=Contrast.of(row, *LEAD[:3]),
        source=Source("likeness"),
        unit="head",
        importance=("answers", "localised"),
    )


def likeness(divergences: pd.DataFrame, *, samples: int, seed: int = 0) -> pd.DataFrame:
    """One row: divergences within and between layers, and their difference; no row where there is nothing to compare.

    That is with one layer, or one head per layer. Heads are resampled, since each of them is in many pairs; a head that
    is drawn twice is no pair with itself.

    Example:
        >>> pairs = [(a, b) for a in range(4) for b in range(a)]
        >>> rows = [(a // 2, a % 2, b // 2, b % 2, 0, 0.1 + 0.2 * (a // 2 != b // 2)) for a, b in pairs]
        >>> table = likeness(pd.DataFrame(rows, columns=list(DIVERGENCES[:6])), samples=100)
        >>> table[["within", "between", "difference", "needed"]].round(2).values.tolist()
        [[0.1, 0.3, 0.2, 6.0]]
    """
    empty = pd.DataFrame(columns=list(LIKENESS))
    mean = divergences["mean"].to_numpy(float)
    same = (divergences["layer_a"] == divergences["layer_b"]).to_numpy()
    if not same.any() or same.all() or not np.isfinite(mean).all():
        return empty
    ends = [[*zip(divergences[f"layer_{side}"], divergences[f"head_{side}"], strict=True)] for side in "ab"]
    places = {name: index for index, name in enumerate(sorted({*ends[0], *ends[1]}))}
    cells = tuple([places[name] for name in side] for side in ends)
    units = Units.of((f"{layer}-{head}" for layer, head in places), "item")
    order = [units.owner[index] for index in range(len(places))]
    drawn = units.weights(samples=samples, seed=seed)[:, order].astype(float)
    # The first row has every head once.
    weights = np.vstack([np.ones(len(places)), drawn])
    means = []
    for kind in (same, ~same):
        counted, summed = (np.zeros((len(places), len(places))) for _ in range(2))
        counted[cells], summed[cells] = kind, kind * mean
        with np.errstate(invalid="ignore"):
            means.append(np.vecdot(weights @ summed, weights) / np.vecdot(weights @ counted, weights))
    within, between = means
    test = drawn_contrast(float(between[0] - within[0]), (between - within)[1:], len(places))
    return pd.DataFrame([(within[0], between[0], *test)], columns=list(LIKENESS))


def _relations(encoder: Encoder, corpus: Corpus, samples: int, seed: int) -> RelationMeter | None:
    """None where there are no dependencies, or no second half to score on."""
    if "dep" not in corpus.annotations:
        return None
    counts, halves = relations_of(corpus), halve(corpus, seed)
    if not counts or not halves.choosing:
        return None
    return RelationMeter(encoder.blocks * encoder.heads, counts, halves, samples=samples, seed=seed)


def _best(meter: RelationMeter, per_block: int) -> pd.DataFrame:
    return best_table(meter, relations_table(meter, per_block))


def _best_antecedents(meter: CorefMeter, per_block: int) -> pd.DataFrame | None:
    """None where one half of the documents has no mention with an antecedent."""
    if not all(meter.sums(half).counts.any() for half in (CHOOSING, SCORED)):
        return None
    return best_antecedents(meter, per_block)


def _coreference(encoder: Encoder, corpus: Corpus, samples: int, seed: int) -> CorefMeter | None:
    """None where there are no chains, or no second document to score on."""
    halves = halve(corpus, seed) if {"chains", "coref"} & set(corpus.annotations) else None
    if halves is None or halves.by != "document":
        return None
    return CorefMeter(encoder.blocks * encoder.heads, halves, among="words", samples=samples, seed=seed)


def _points(encoder: Encoder, plane: MapPlane, doing: pd.DataFrame) -> pd.DataFrame:
    rows = []
    for index, (x, y) in enumerate(plane.points.tolist()):
        layer, head = index // encoder.heads + 1, index % encoder.heads + 1
        rows.append((layer, head, x, y, named(doing, layer, head)))
    return pd.DataFrame(rows, columns=list(POINTS))
