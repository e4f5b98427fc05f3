"""A map of all heads: those that attend alike stand close, whatever their layer."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float
from scipy.stats import binom

from lamina.analyses.attention_maps.behaviours import SYNTACTIC, Found, behaviours, named, scored_relations
from lamina.analyses.attention_maps.coreference import CorefMeter
from lamina.analyses.attention_maps.corefheads import coref_table
from lamina.analyses.attention_maps.relations import RelationMeter, best_table, picks, relations_of
from lamina.analyses.attention_maps.surface import SurfaceMeter
from lamina.analyses.declaration import Table, Tables, analysis
from lamina.analyses.findings import number, rows_of, status_of
from lamina.analyses.inputs import Texts
from lamina.analyses.resampling import CHOOSING, SCORED, halve
from lamina.analyses.settings import Length, Samples, Seed
from lamina.analyses.watching import Meter, Watch, Watched, Watching, refuse_without_maps
from lamina.corpora import Corpus
from lamina.encoders import Encoder
from lamina.errors import CorpusError, ModelError
from lamina.results import Finding, Result

POINTS = ("layer", "head", "x", "y", "behaviour")
"""Columns of `points.csv`."""
DIVERGENCES = ("layer_a", "head_a", "layer_b", "head_b", "value", "mean")
"""Columns of `divergences.csv`."""
FIT = ("heads", "tokens", "stress")
"""Columns of `fit.csv`."""
SMOOTHING = 0.001
"""The share of every distribution that is spread evenly over the text's tokens; the paper's."""

_AT_ONCE = 2**19
"""Numbers whose logarithm is taken in one go: fewer stay in a core's cache, but then threads spend their time waiting
for the interpreter (measured: 1.4 to 1.9 times as slow at 2**16)."""
_WORTH_A_THREAD = 2**13
"""Cells of a map; handing out fewer costs more than it saves."""


class DivergenceMeter:
    """Sums, over all tokens of all texts, the divergence (in nats) between every two heads.

    Example:
        >>> from lamina.analyses.watching import watch
        >>> from lamina.testing import SAMPLE_TEXTS, TinyEncoder
        >>> meter = DivergenceMeter()
        >>> skipped = watch(TinyEncoder(), SAMPLE_TEXTS, [meter])
        >>> meter.summed.shape, bool((meter.mean <= np.log(2)).all())
        ((4, 4), True)
    """

    def __init__(self) -> None:
        self.tokens = 0
        """How many tokens' attention was compared."""
        self.summed: Float[np.ndarray, "head head"] = np.zeros((0, 0))
        """Heads in the order of blocks, summed over tokens as in the paper."""

    def update(self, watched: Watched) -> None:
        """See `Meter.update`."""
        found = divergences(watched.maps.flatten(0, 1))
        self.summed = found + self.summed if self.tokens else found
        self.tokens += watched.maps.shape[-1]

    @property
    def mean(self) -> Float[np.ndarray, "head head"]:
        """A token's mean: from 0 to log 2."""
        return self.summed / max(self.tokens, 1)


def divergences(maps: Float[torch.Tensor, "head row token"]) -> Float[np.ndarray, "head head"]:
    """Jensen-Shannon divergences, in nats, between heads' smoothed distributions, summed over rows.

    `JS(p, q) = H((p + q) / 2) - (H(p) + H(q)) / 2`, where a head's own entropy is that of its mixture with itself, so
    that the divergence of a head from itself is 0 exactly. In single precision: exact to about 1e-6 per token.

    Example:
        >>> two = torch.tensor([[[1.0, 0.0]], [[0.0, 1.0]]])
        >>> divergences(two).round(3).tolist()
        [[0.0, 0.689], [0.689, 0.0]]
    """
    # Halved: the sum of two heads' numbers is their mixture.
    smooth = maps.float().flatten(1).mul(1 - SMOOTHING).add_(SMOOTHING / maps.shape[-1]).mul_(0.5).numpy()
    threads = min(torch.get_num_threads(), 1 + smooth.shape[1] // _WORTH_A_THREAD)
    if threads == 1:
        mixed = _mixed_entropies(smooth)
    else:
        # numpy lets go of the interpreter while it computes.
        with ThreadPoolExecutor(threads) as pool:
            mixed = np.sum(list(pool.map(_mixed_entropies, np.array_split(smooth, threads, axis=1))), axis=0)
    own = mixed.diagonal()
    upper = np.maximum(np.triu(mixed - (own[:, None] + own) / 2, 1), 0)
    return upper + upper.T


def _mixed_entropies(halves: Float[np.ndarray, "head cell"]) -> Float[np.ndarray, "head head"]:
    """The entropy of every two heads' mixture, the first not after the second."""
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


STARTS, STEPS, EPSILON = 5, 1000, 1e-10
"""The paper's: random starts, of which the best is taken; most steps of each; the gain that is not worth a step."""


class Plane(NamedTuple):
    """Points whose distances come as near to the given ones as two dimensions allow."""

    points: Float[np.ndarray, "point 2"]
    """Around 0, the longer axis first."""
    stress: float
    """Kruskal's stress-1: the root of the squared errors' share in the squared distances; 0 is perfect."""


def scale(distances: Float[np.ndarray, "point point"], *, seed: int = 0) -> Plane:
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
        return Plane(np.zeros((len(distances), 2)), 0.0)
    mds = MDS(2, metric="precomputed", n_init=STARTS, init="random", max_iter=STEPS, eps=EPSILON, random_state=seed)
    points = np.asarray(mds.fit_transform(distances))
    errors = np.square(distances - np.linalg.norm(points[:, None] - points, axis=-1)).sum()
    return Plane(_turned(points), float(np.sqrt(errors / squares)))


def _turned(points: np.ndarray) -> np.ndarray:
    """Along their principal axes, each with its farthest point on the positive side: any turn would fit as well."""
    centred = points - points.mean(0)
    turned = centred @ np.linalg.svd(centred, full_matrices=False)[2].T
    farthest = turned[np.abs(turned).argmax(0), np.arange(turned.shape[1])]
    return turned * np.where(farthest < 0, -1.0, 1.0)


_DRAWN = 1000
"""Samples of heads behind a finding."""
_LUCK = 0.025
"""Intervals of 95 % that lie above what they should hold."""


@analysis(
    title="Map of heads",
    question="Which heads attend alike, and what do they do?",
    method=(
        "The Jensen-Shannon divergence of every two heads' attention (0.001 smoothing, nats per token) is placed on a "
        "plane by metric multidimensional scaling. Behaviours are told by the thresholds of Clark et al. (2019); "
        "syntactic and coreference heads are chosen on one half of the documents and scored on the other."
    ),
    cites=("Clark et al. 2019",),
    reads=Texts(),
    version=2,  # bootstrap weights follow from a text's id, no longer from the order of texts
    tables={
        "points": Table("One row per head: its place on the plane and what it does.", POINTS),
        "divergences": Table("One row per pair of heads.", DIVERGENCES),
        "behaviours": Table("One row per head and behaviour that holds of it, with the evidence.", Found._fields),
        "fit": Table("One row: how well the plane keeps the divergences.", FIT),
    },
    chapter="heads",
    report={"samples": 200},
    example="lamina headmap minilm --corpus ewt --split dev --out results/headmap",
)
def headmap(
    encoder: Encoder,
    corpus: Corpus,
    *,
    length: Length = None,
    samples: Samples = 500,
    seed: Seed = 0,
) -> Watching:
    """A map of all heads: those that attend alike are close, coloured by layer and by what they do.

    `points` has each head's place on the plane, in nats per token, and what it does; `divergences` every two heads,
    summed over all tokens as in the paper, and per token; `behaviours` all that holds of a head; `fit`
    the plane's stress. Blocks and heads count from 1.

    Syntactic heads are found where the corpus has dependencies, coreference heads where it has chains (load it with
    `unit="window:128"`: few antecedents are in the same sentence).

    Example:
        >>> from lamina.testing import TinyEncoder
        >>> result = headmap(TinyEncoder(), [["Dogs", "bark", "."], ["Cats", "do", "not", "."]], samples=10)
        >>> result.tables["points"][["layer", "head"]].values.tolist()
        [[1, 1], [1, 2], [2, 1], [2, 2]]
    """
    refuse_without_maps(encoder)
    if encoder.blocks * encoder.heads < 2:
        raise ModelError(f"{encoder.name} has a single head; a map needs at least 2")
    apart, surface = DivergenceMeter(), SurfaceMeter(encoder, samples=1, seed=seed)
    relations = _relations(encoder, corpus, samples, seed)
    coreference = _coreference(encoder, corpus, samples, seed)
    meters: list[Meter] = [apart, surface, *(each for each in (relations, coreference) if each is not None)]
    skipped = yield Watch(encoder, corpus, meters, limit=length, total=len(corpus))
    if not apart.tokens:
        raise CorpusError(f"{corpus.name}: no text fits {encoder.name}; give shorter words or a larger length")
    best = None if relations is None else best_table(relations, picks(relations, CHOOSING), SCORED, encoder.heads)
    coref = None if coreference is None else coref_table(coreference, encoder.heads)
    doing = behaviours(surface.table(), best, coref)
    plane = scale(apart.mean, seed=seed)
    tables = {
        "points": _points(encoder, plane, doing),
        "divergences": _divergences(encoder, apart),
        "behaviours": doing,
        "fit": pd.DataFrame([(len(apart.mean), apart.tokens, plane.stress)], columns=list(FIT)),
    }
    return Tables(tables, skipped, data={} if best is None else {"relations": scored_relations(best)})


@headmap.finds
def _findings(result: Result) -> Iterable[Finding]:
    """Whether heads of a layer are alike, and how many heads are syntactic."""
    table = result.tables.get("divergences")
    if table is not None:
        yield from _layers_matter(table)
    points, doing = result.tables.get("points"), result.tables.get("behaviours")
    relations = result.provenance.corpus.get("relations")
    if points is not None and doing is not None and relations:
        yield _syntactic_heads(len(points), doing, int(relations))


class _Contrast(NamedTuple):
    """Mean divergences of heads of one layer and of heads of two layers."""

    within: float
    between: float
    low: float
    """Of the difference."""
    high: float


def _layers_matter(divergences: pd.DataFrame) -> Iterable[Finding]:
    """Heads of one layer against heads of two layers."""
    found = _contrast(divergences)
    if found is None:
        return
    difference = found.between - found.within
    status = status_of(found.low, found.high, 0.0)
    claim = {
        "clear": f"Heads of one layer attend {'more' if difference > 0 else 'less'} alike than heads of two layers",
        "open": "Whether heads of one layer attend more alike than heads of two layers is undecided",
        "null": "Heads of one layer attend no more alike than heads of two layers",
    }[status]
    text = (
        f"{claim}: mean divergence {number(found.within)} within layers and {number(found.between)} between them, a "
        f"difference of {number(difference, found.low, found.high)} nats per token (heads resampled)."
    )
    yield Finding(text, status, difference, found.low, found.high, 0.0)


def _contrast(divergences: pd.DataFrame) -> _Contrast | None:
    """None where there is one layer, or one head per layer. Heads are resampled, since each is in many pairs."""
    mean = divergences["mean"].to_numpy()
    same = (divergences["layer_a"] == divergences["layer_b"]).to_numpy()
    if not same.any() or same.all() or not np.isfinite(mean).all():
        return None
    ends = [[*zip(divergences[f"layer_{side}"], divergences[f"head_{side}"], strict=True)] for side in "ab"]
    places = {name: at for at, name in enumerate(sorted({*ends[0], *ends[1]}))}
    cells = tuple([places[name] for name in side] for side in ends)
    drawn = np.random.default_rng(0).multinomial(len(places), np.full(len(places), 1 / len(places)), size=_DRAWN)
    # The first row has every head once. A head drawn twice is no pair with itself.
    weights = np.vstack([np.ones(len(places)), drawn])
    means = []
    for kind in (same, ~same):
        counted, summed = (np.zeros((len(places), len(places))) for _ in range(2))
        counted[cells], summed[cells] = kind, kind * mean
        with np.errstate(invalid="ignore"):
            means.append(np.vecdot(weights @ summed, weights) / np.vecdot(weights @ counted, weights))
    spread = (means[1] - means[0])[1:]
    low, high = np.nanquantile(spread, [0.025, 0.975]) if np.isfinite(spread).any() else (np.nan, np.nan)
    return _Contrast(float(means[0][0]), float(means[1][0]), float(low), float(high))


def _syntactic_heads(heads: int, doing: pd.DataFrame, relations: int) -> Finding:
    """Their number, beside what luck gives: one interval in forty lies above what it should hold."""
    own = doing[doing["behaviour"] == SYNTACTIC]
    lucky = relations * _LUCK
    if own.empty:
        text = f"None of {heads} heads is syntactic: for none of {relations} relations an interval lies above the best "
        return Finding(text + "fixed offset.", "open", 0.0, against=lucky)
    found = len(own[["layer", "head"]].drop_duplicates())
    leading = rows_of(own.assign(lead=own["value"] - own["over"]).nlargest(3, "lead"))
    text = (
        f"{found} of {heads} heads are syntactic (most clearly "
        f"{', '.join(f'{row.layer}-{row.head} for {row.what}' for row in leading)}): the interval of each lies above "
        f"the best fixed offset for one or more of {relations} relations; luck would give {number(lucky, digits=1)}."
    )
    clear = own["what"].nunique() > binom.ppf(0.975, relations, _LUCK)
    return Finding(text, "clear" if clear else "open", float(found), against=lucky)


def _relations(encoder: Encoder, corpus: Corpus, samples: int, seed: int) -> RelationMeter | None:
    """None where there are no dependencies, or no second half to score on."""
    if "dep" not in corpus.annotations:
        return None
    found, halves = relations_of(corpus), halve(corpus, seed)
    if not found or not halves.choosing:
        return None
    return RelationMeter(encoder.blocks * encoder.heads, found, halves, samples=samples, seed=seed)


def _coreference(encoder: Encoder, corpus: Corpus, samples: int, seed: int) -> CorefMeter | None:
    """None where there are no chains, or no second document to score on."""
    halves = halve(corpus, seed) if {"chains", "coref"} & set(corpus.annotations) else None
    if halves is None or halves.by != "document":
        return None
    return CorefMeter(encoder.blocks * encoder.heads, halves, among="words", samples=samples, seed=seed)


def _points(encoder: Encoder, plane: Plane, doing: pd.DataFrame) -> pd.DataFrame:
    rows = []
    for at, (x, y) in enumerate(plane.points.tolist()):
        layer, head = at // encoder.heads + 1, at % encoder.heads + 1
        rows.append((layer, head, x, y, named(doing, layer, head)))
    return pd.DataFrame(rows, columns=list(POINTS))


def _divergences(encoder: Encoder, apart: DivergenceMeter) -> pd.DataFrame:
    one, other = np.triu_indices(len(apart.summed), 1)
    places = (each for pair in (one, other) for each in (pair // encoder.heads + 1, pair % encoder.heads + 1))
    values = (apart.summed[one, other], apart.mean[one, other])
    return pd.DataFrame(dict(zip(DIVERGENCES, (*places, *values), strict=True)))
