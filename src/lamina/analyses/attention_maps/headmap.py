"""A map of all heads: those that attend alike stand close, whatever their layer."""

from __future__ import annotations

import numpy as np
import pandas as pd

from lamina.analyses.attention_maps.behaviours import behaviours, named
from lamina.analyses.attention_maps.coreference import CorefMeter
from lamina.analyses.attention_maps.corefheads import coref_table
from lamina.analyses.attention_maps.divergence import DivergenceMeter
from lamina.analyses.attention_maps.halves import CHOOSING, SCORED, halve
from lamina.analyses.attention_maps.relation_tables import best_table, picks
from lamina.analyses.attention_maps.relations import RelationMeter, relations_of
from lamina.analyses.attention_maps.scaling import Plane, scale
from lamina.analyses.attention_maps.surface import SurfaceMeter
from lamina.analyses.attention_maps.watching import Meter, refuse_without_maps, watch
from lamina.corpora import Corpus
from lamina.encoders import Encoder
from lamina.errors import CorpusError, ModelError
from lamina.results import Provenance, Result


def headmap(
    encoder: Encoder,
    corpus: Corpus,
    *,
    length: int | None = None,
    samples: int = 500,
    seed: int = 0,
) -> Result:
    """Jensen-Shannon divergences between all heads, and heads placed on a plane by them, in one pass over the corpus.

    Tables: `points` (a head's place on the plane, in nats a token, and what it does), `divergences` (every two heads:
    summed over all tokens as in the paper, and a token's mean), `behaviours` (all that holds of a head, with its
    evidence) and `fit` (how well the plane keeps the divergences). Blocks and heads count from 1.

    Syntactic heads are found where the corpus has dependencies, coreference heads where it has chains (load it with
    `unit="window:128"`: few antecedents stand in the same sentence); chosen on one half of it and scored on the other.

    Args:
        encoder: whose heads.
        corpus: on which texts.
        length: the most tokens of a text, where less than the model takes; 128 in the paper.
        samples: bootstrap samples that decide which heads are syntactic or find antecedents.
        seed: of the plane's starts, the halves and the bootstrap.

    Example:
        >>> from lamina.corpora import corpus_from
        >>> from lamina.testing import TinyEncoder
        >>> corpus = corpus_from([["Dogs", "bark", "."], ["Cats", "do", "not", "."]], name="pets")
        >>> headmap(TinyEncoder(), corpus, samples=10).tables["points"][["layer", "head"]].values.tolist()
        [[1, 1], [1, 2], [2, 1], [2, 2]]
    """
    refuse_without_maps(encoder)
    if encoder.blocks * encoder.heads < 2:
        raise ModelError(f"{encoder.name} has a single head; a map needs at least 2")
    apart, surface = DivergenceMeter(), SurfaceMeter(encoder, samples=1, seed=seed)
    relations = _relations(encoder, corpus, samples, seed)
    coreference = _coreference(encoder, corpus, samples, seed)
    meters: list[Meter] = [apart, surface, *(each for each in (relations, coreference) if each is not None)]
    skipped = watch(encoder, corpus, meters, limit=length, total=len(corpus))
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
        "fit": pd.DataFrame({"heads": [len(apart.mean)], "tokens": [apart.tokens], "stress": [plane.stress]}),
    }
    parameters = {"length": length, "samples": samples, "seed": seed}
    provenance = Provenance(encoder.describe(), corpus.describe(), parameters, (seed,), dict(skipped))
    return Result("headmap", tables, provenance)


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
    return pd.DataFrame(rows, columns=["layer", "head", "x", "y", "behaviour"])


def _divergences(encoder: Encoder, apart: DivergenceMeter) -> pd.DataFrame:
    one, other = np.triu_indices(len(apart.summed), 1)
    columns = {
        "layer_a": one // encoder.heads + 1,
        "head_a": one % encoder.heads + 1,
        "layer_b": other // encoder.heads + 1,
        "head_b": other % encoder.heads + 1,
        "value": apart.summed[one, other],
        "mean": apart.mean[one, other],
    }
    return pd.DataFrame(columns)
