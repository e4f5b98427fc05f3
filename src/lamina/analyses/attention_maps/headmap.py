"""A map of all heads: those that attend alike stand close, whatever their layer."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Float

from lamina.analyses.attention_maps.behaviours import SYNTACTIC, Found, behaviours, named, scored_relations
from lamina.analyses.attention_maps.coreference import CorefMeter
from lamina.analyses.attention_maps.corefheads import best_table as best_antecedents
from lamina.analyses.attention_maps.divergences import DIVERGENCES, DivergenceMeter, most_alike
from lamina.analyses.attention_maps.induction import REPEATED, InductionMeter, induction_table, sequences_of
from lamina.analyses.attention_maps.relations import RelationMeter, best_table, relations_of, relations_table
from lamina.analyses.attention_maps.surface import SurfaceMeter
from lamina.analyses.declaration import Table, Tables, analysis
from lamina.analyses.inputs import Texts
from lamina.analyses.legacy import legacy_finding, status_of
from lamina.analyses.settings import Length, Samples, Seed, Weights
from lamina.analyses.watching import Meter, Watch, Watching, refuse_without_maps
from lamina.corpora import Corpus
from lamina.encoders import Encoder
from lamina.errors import CorpusError, ModelError
from lamina.findings import Finding, number, rows_of
from lamina.results import Result
from lamina.stats.status import SURE
from lamina.stats.units import CHOOSING, SCORED, halve, unit_of

POINTS = ("layer", "head", "x", "y", "behaviour")
"""Columns of `points.csv`."""
FIT = ("heads", "tokens", "stress")
"""Columns of `fit.csv`."""

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


@analysis(
    title="Map of heads",
    question="Which heads attend alike, and what do they do?",
    method=(
        "The Jensen-Shannon divergence of every two heads' attention (0.001 smoothing, nats per token) is placed on a "
        "plane by metric multidimensional scaling. Behaviours are told by the thresholds of Clark et al. (2019); "
        "syntactic and coreference heads must beat simple rules on the same documents, cross-fitted and with Holm's "
        "correction. Of a decoder, induction heads are found on random tokens said twice (Olsson et al. 2022)."
    ),
    cites=("Clark et al. 2019", "Olsson et al. 2022"),
    reads=Texts(),
    # A name needs a paired, corrected lead over simple rules; divergences have intervals (3). Induction heads (4).
    version=4,
    tables={
        "points": Table("One row per head: its place on the plane and what it does.", POINTS),
        "divergences": Table("One row per pair of heads; low and high are the interval of the mean.", DIVERGENCES),
        "behaviours": Table("One row per head and behaviour that holds of it, with the evidence.", Found._fields),
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
    length: Length = None,
    weights: Weights = "attention",
    samples: Samples = 500,
    seed: Seed = 0,
) -> Watching:
    """A map of all heads: those that attend alike are close, coloured by layer and by what they do.

    `points` has each head's place on the plane, in nats per token, and what it does; `divergences` every two heads,
    summed over all tokens as in the paper, and per token with its interval; `behaviours` all that holds of a head;
    `fit` the plane's stress. Blocks and heads count from 1.

    Syntactic heads are found where the corpus has dependencies, coreference heads where it has chains (load it with
    `unit="window:128"`: few antecedents are in the same sentence), induction heads in decoders.

    Example:
        >>> from lamina.testing import TinyEncoder
        >>> result = headmap(TinyEncoder(), [["Dogs", "bark", "."], ["Cats", "do", "not", "."]], samples=10)
        >>> result.tables["points"][["layer", "head"]].values.tolist()
        [[1, 1], [1, 2], [2, 1], [2, 2]]
    """
    refuse_without_maps(encoder)
    if encoder.blocks * encoder.heads < 2:
        raise ModelError(f"{encoder.name} has a single head; a map needs at least 2")
    apart = DivergenceMeter(encoder, samples=samples, seed=seed, unit=unit_of(corpus))
    surface = SurfaceMeter(encoder, samples=1, seed=seed)
    relations = _relations(encoder, corpus, samples, seed)
    coreference = _coreference(encoder, corpus, samples, seed)
    meters: list[Meter] = [apart, surface, *(each for each in (relations, coreference) if each is not None)]
    skipped = yield Watch(encoder, corpus, meters, limit=length, total=len(corpus), weights=weights)
    if not apart.tokens:
        raise CorpusError(f"{corpus.name}: no text fits {encoder.name}; give shorter words or a larger length")
    best = None if relations is None else _best(relations, encoder.heads)
    coref = None if coreference is None else _best_antecedents(coreference, encoder.heads)
    made = sequences_of(encoder, REPEATED, seed=seed) if encoder.causal_maps else None
    induction = None
    if made is not None:
        meter, texts = InductionMeter(made.size), made.repeated + made.unrepeated
        yield Watch(encoder, texts, [meter], total=len(texts), weights=weights)
        induction = induction_table(meter, None)
    doing = behaviours(surface.table(), best, coref, induction)
    plane = scale(apart.apart().mean, seed=seed)
    tables = {
        "points": _points(encoder, plane, doing),
        "divergences": apart.table(),
        "behaviours": doing,
        "fit": pd.DataFrame([(len(apart.summed), apart.tokens, plane.stress)], columns=list(FIT)),
    }
    return Tables(tables, skipped, data={} if best is None else {"relations": scored_relations(best)})


@headmap.finds
def _findings(result: Result) -> Iterable[Finding]:
    """Whether heads of a layer are alike, and how many heads are syntactic."""
    table = result.tables.get("divergences")
    if table is not None:
        yield from _layers_matter(table)
        yield from most_alike(table)
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
    yield legacy_finding(text, status, difference, found.low, found.high, 0.0)


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
    """Their number; the correction lets luck make any of them in one corpus of twenty at most."""
    own = doing[doing["behaviour"] == SYNTACTIC]
    rule = f"one or more of {relations} relations better than the best fixed offset (p < {number(SURE)} after Holm)."
    if own.empty:
        return legacy_finding(f"None of {heads} heads is syntactic: none finds {rule}", "open", 0.0, against=0.0)
    found = len(own[["layer", "head"]].drop_duplicates())
    leading = rows_of(own.nlargest(3, "difference"))
    names = ", ".join(f"{row.layer}-{row.head} for {row.what}" for row in leading)
    text = f"{found} of {heads} heads are syntactic (most clearly {names}): each finds {rule}"
    return legacy_finding(text, "clear", float(found), against=0.0)


def _relations(encoder: Encoder, corpus: Corpus, samples: int, seed: int) -> RelationMeter | None:
    """None where there are no dependencies, or no second half to score on."""
    if "dep" not in corpus.annotations:
        return None
    found, halves = relations_of(corpus), halve(corpus, seed)
    if not found or not halves.choosing:
        return None
    return RelationMeter(encoder.blocks * encoder.heads, found, halves, samples=samples, seed=seed)


def _best(meter: RelationMeter, per_block: int) -> pd.DataFrame:
    return best_table(meter, per_block, relations_table(meter, per_block))


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


def _points(encoder: Encoder, plane: Plane, doing: pd.DataFrame) -> pd.DataFrame:
    rows = []
    for at, (x, y) in enumerate(plane.points.tolist()):
        layer, head = at // encoder.heads + 1, at % encoder.heads + 1
        rows.append((layer, head, x, y, named(doing, layer, head)))
    return pd.DataFrame(rows, columns=list(POINTS))
