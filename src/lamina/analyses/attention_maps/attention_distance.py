"""How far heads look: the mean distance, in words, between a word and what it attends to."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, Float

from lamina.analyses.attention_maps.surface import uniform_maps
from lamina.analyses.declaration import Table, Tables, analysis
from lamina.analyses.inputs import Texts
from lamina.analyses.legacy import finding
from lamina.analyses.settings import Samples, Seed, Weights
from lamina.analyses.watched import WatchedBatch
from lamina.analyses.watching import Watch, Watching, refuse_without_maps
from lamina.corpora import Corpus
from lamina.encoders import Encoder
from lamina.errors import CorpusError
from lamina.findings import Finding, rows_of
from lamina.results import Result
from lamina.stats.bootstrap import StreamedBootstrap

SHORT = "texts of one word, without a distance"


class DistanceMeter:
    """Sums over texts of each head's mean distance, of the distance under uniform attention, and of texts."""

    def __init__(self, encoder: Encoder, *, samples: int, seed: int) -> None:
        self._causal = encoder.causal_maps
        self._sums = StreamedBootstrap(encoder.blocks * encoder.heads + 2, samples=samples, seed=seed)
        self.texts = self.short = 0

    def update(self, batch: WatchedBatch) -> None:
        """See `Meter.update`."""
        counted = [at for at, text in enumerate(batch.texts) if len(text.words) > 1]
        self.texts += len(counted)
        self.short += len(batch.texts) - len(counted)
        there = torch.arange(batch.words[0].shape[-1], device=batch.device) < batch.word_counts[:, None]
        heads = [_mean_distances(group, there) for group in batch.words]
        uniform = _mean_distances(uniform_maps(there, causal=self._causal), there)
        sums = torch.cat([*heads, uniform, torch.ones_like(uniform)], 1)
        self._sums.add_all(sums[counted], [batch.texts[at].id for at in counted])

    def table(self, heads: int) -> pd.DataFrame:
        """One row per head, blocks and heads counted from 1."""
        sums = self._sums.samples
        # A sample of few texts may have drawn none of them.
        drawn = sums[sums[:, -1] > 0]
        value = self._sums.value[:-1] / self._sums.value[-1]
        low, high = np.quantile(drawn[:, :-1] / drawn[:, -1:], [0.025, 0.975], axis=0)
        layer, head = np.divmod(np.arange(len(value) - 1), heads)
        columns = (layer + 1, head + 1, value[:-1], low[:-1], high[:-1], np.full(len(layer), value[-1]))
        return pd.DataFrame(dict(zip(attention_distance.tables["distance"].columns, columns, strict=True)))


def _mean_distances(
    maps: Float[torch.Tensor, "text head word word"], there: Bool[torch.Tensor, "text word"]
) -> Float[torch.Tensor, "text head"]:
    """The mean over a text's words. Special tokens have no place among words: what they are given is left out."""
    place = torch.arange(maps.shape[-1], device=maps.device)
    apart = (place[:, None] - place).abs().to(maps.dtype)
    total = maps.sum(-1).clamp_min(torch.finfo(maps.dtype).tiny)
    return ((maps * apart).sum(-1) / total).sum(-1) / there.sum(1, keepdim=True)


@analysis(
    title="How far heads look",
    question="How many words lie between a word and what a head attends to?",
    method=(
        "Each head's attention between words, special tokens left out, weighs the distance in words between the two; "
        "we take the mean over a text's words and then over texts. It is compared with uniform attention over the same "
        "texts; intervals resample texts."
    ),
    reads=Texts(),
    version=1,
    tables={"distance": Table("One row per head.", "layer, head, value, low, high, baseline")},
    chapter="heads",
    takes=4,
    report={"samples": 500},
    example="lamina attention_distance minilm --corpus ewt --split dev --out results/attention_distance",
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
    meter = DistanceMeter(encoder, samples=samples, seed=seed)
    skipped = yield Watch(encoder, corpus, [meter], total=len(corpus), weights=weights)
    if not meter.texts:
        raise CorpusError(f"{corpus.name} has no text of two words or more that {encoder.name} can take at once")
    return Tables({"distance": meter.table(encoder.heads)}, {**skipped, SHORT: meter.short})


@attention_distance.finds
def _findings(result: Result) -> Iterable[Finding]:
    heads = sorted(rows_of(result.tables["distance"].dropna()), key=lambda row: row.value)
    for row, said in zip(heads[:1] + heads[-1:], ("nearest", "farthest"), strict=False):
        head = f"Of {len(heads)} heads, {row.layer}-{row.head}"
        text = f"{head} looks {said}: {{number}} words away on average; uniform attention, {{against}}."
        yield finding(text, row.value, row.low, row.high, row.baseline, negligible=0.1)
