"""How far heads look: the mean distance, in words, between a word and what it attends to."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, Float

from lamina.analyses.heads.behaviours import LEAD
from lamina.analyses.heads.surface import UnitRows, uniform_maps
from lamina.corpora import Corpus
from lamina.errors import CorpusError
from lamina.framework.declare import Table, Tables, analysis
from lamina.framework.inputs import Texts
from lamina.framework.settings import Samples, Seed, Weights
from lamina.framework.watch import Watch, WatchedBatch, Watching, refuse_without_maps
from lamina.models import Encoder
from lamina.results import Result
from lamina.results.finding import Finding, Source, finding, number, rows_of
from lamina.stats.family import Contrasts, sign_flip_family
from lamina.stats.intervals import ratio_intervals
from lamina.stats.status import Contrast
from lamina.stats.units import BY_DOCUMENT, Unit, unit_of

SHORT = "texts of one word, without a distance"
_WORDS = 0.1
"""A difference between mean distances that means nothing."""


class DistanceMeter:
    """Sums over texts of each head's mean distance, of the distance under uniform attention, and of texts."""

    def __init__(self, encoder: Encoder, *, samples: int, seed: int, unit: Unit = BY_DOCUMENT) -> None:
        self._unit, self._samples, self._seed = unit, samples, seed
        self._causal = encoder.causal_maps
        self._rows = UnitRows(encoder.blocks * encoder.heads + 2)
        self.texts = self.short = 0

    def update(self, batch: WatchedBatch) -> None:
        """See `Meter.update`."""
        counted = [index for index, text in enumerate(batch.texts) if len(text.words) > 1]
        self.texts += len(counted)
        self.short += len(batch.texts) - len(counted)
        there = torch.arange(batch.words[0].shape[-1], device=batch.device) < batch.word_counts[:, None]
        heads = [_mean_distances(group, there) for group in batch.words]
        uniform = _mean_distances(uniform_maps(there, causal=self._causal), there)
        sums = torch.cat([*heads, uniform, torch.ones_like(uniform)], 1)
        self._rows.add(sums[counted], [self._unit.of(batch.texts[index]) for index in counted])

    def table(self, heads: int) -> pd.DataFrame:
        """One row per head, blocks and heads counted from 1."""
        units, drawn = self._rows.values(), self._rows.draws(samples=self._samples, seed=self._seed)
        low, high = ratio_intervals(drawn[:, :-1], drawn[:, -1])
        value = units[:, :-1].sum(0) / units[:, -1].sum()
        layer, head = np.divmod(np.arange(len(value) - 1), heads)
        tests = beside_uniform(units)
        columns = (layer + 1, head + 1, value[:-1], low[:-1], high[:-1], np.full(len(layer), value[-1]), *tests)
        table = pd.DataFrame(dict(zip(DISTANCE, columns, strict=False)))
        nearest = np.arange(len(layer)) == int(value[:-1].argmin())
        farthest = np.arange(len(layer)) == int(value[:-1].argmax())
        ends = np.where(nearest, "nearest", np.where(farthest, "farthest", ""))
        return table.assign(end=ends).astype({"units": int, "needed": int})


def beside_uniform(sums: Float[np.ndarray, "unit system"]) -> Contrasts:
    """Each head's mean distance minus that of uniform attention; one family of all heads, two-sided.

    Args:
        sums: of documents: of each head over texts, of uniform attention, and the number of texts.
    """
    heads, uniform, texts = sums[:, :-2], sums[:, -2:-1], sums[:, -1]
    return sign_flip_family(heads - uniform, texts)


def _mean_distances(
    maps: Float[torch.Tensor, "text head word word"], there: Bool[torch.Tensor, "text word"]
) -> Float[torch.Tensor, "text head"]:
    """The mean over a text's words. Special tokens have no place among words: what they are given is left out."""
    place = torch.arange(maps.shape[-1], device=maps.device)
    apart = (place[:, None] - place).abs().to(maps.dtype)
    total = maps.sum(-1).clamp_min(torch.finfo(maps.dtype).tiny)
    return ((maps * apart).sum(-1) / total).sum(-1) / there.sum(1, keepdim=True)


DISTANCE = ("layer", "head", "value", "low", "high", "baseline", *LEAD, "end")
"""Columns of `distance.csv`."""


@analysis(
    title="How far heads look",
    question="How many words lie between a word and what a head attends to?",
    method=(
        "Each head's attention between words, special tokens left out, weighs the distance in words between the two; "
        "we take the mean over a text's words and then over texts. It is compared with uniform attention over the same "
        "texts: documents are resampled (texts where there is one document), and all heads are tested two-sided in one "
        "family, signs of whole documents flipped (max-T)."
    ),
    reads=Texts(),
    version=2,  # documents are resampled; differences from uniform attention are tested
    tables={
        "distance": Table(
            "One row per head. `difference`: its distance minus that of uniform attention; interval and `p_adjusted` "
            "are two-sided, of one family: all heads. `end`: the nearest and the farthest head.",
            DISTANCE,
        )
    },
    chapter="heads",
    takes=4,
    report={"samples": 500},
    example="lamina attention-distance minilm --corpus ewt --split dev --out results/attention_distance",
)
def attention_distance(
    encoder: Encoder, corpus: Corpus, *, weights: Weights = "attention", samples: Samples = 500, seed: Seed = 0
) -> Watching:
    """Mean distance in words between a word and the words each head attends to.

    Example:
        >>> import lamina
        >>> from lamina.testing import TinyEncoder
        >>> texts = [["Dogs", "bark", "."], ["Cats", "do", "not", "bark", "."]]
        >>> table = lamina.attention_distance(TinyEncoder(), texts, samples=10).tables["distance"]
        >>> table["baseline"].round(2).unique().tolist()
        [1.24]
    """
    refuse_without_maps(encoder)
    unit = unit_of(corpus)
    meter = DistanceMeter(encoder, samples=samples, seed=seed, unit=unit)
    skipped = yield Watch(encoder, corpus, [meter], total=len(corpus), weights=weights)
    if not meter.texts:
        raise CorpusError(f"{corpus.name} has no text of two words or more that {encoder.name} can take at once")
    tables = {"distance": meter.table(encoder.heads)}
    return Tables(tables, {**skipped, SHORT: meter.short}, data={"resampled": f"{unit.by}s"})


@attention_distance.finds
def _findings(result: Result) -> Iterable[Finding]:
    """The nearest and the farthest head beside uniform attention."""
    table = result.tables["distance"]
    if not set(DISTANCE) <= set(table):
        return
    unit = str(result.provenance.corpus.get("resampled", "documents")).removesuffix("s")
    for row in rows_of(table[table["end"].isin(["nearest", "farthest"])]):
        closer = "nearer" if row.difference < 0 else "farther"
        head = f"head {row.layer}-{row.head}"
        yield finding(
            claim=(
                f"{head.capitalize()} looks {closer} than uniform attention would: {number(row.value)} words away on "
                f"average, uniform attention {number(row.baseline)}"
            ),
            whether=f"{head}, which looks {row.end}, looks nearer or farther than uniform attention would",
            absent=f"{head.capitalize()}, which looks {row.end}, looks as far as uniform attention would",
            contrast="difference",
            test=Contrast.of(row, *LEAD[:3]),
            source=Source("distance", {"layer": row.layer, "head": row.head}),
            unit=unit,
            importance=("answers", "localised"),
            margin=_WORDS,
        )
