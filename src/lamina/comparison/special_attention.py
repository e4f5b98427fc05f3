"""Attention to special tokens before and after fine-tuning: the shares of separators and of the first token."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float

from lamina.analyses.heads.surface import MEASURES, measure
from lamina.corpora import Corpus
from lamina.framework.watch import WatchedBatch, Weighting, punctuation_ids, watch
from lamina.models import Encoder
from lamina.results.finding import Finding, Source, finding, percent, rows_of
from lamina.stats.family import sign_flip_family
from lamina.stats.status import NEGLIGIBLE, Contrast
from lamina.stats.units import Units

SPECIAL = (
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
            *(float(column[place, block]) for column in tests[:4]), int(tests.units[place, block]),
            int(tests.needed[place, block]), units.kind,
        )
        for place, called in enumerate(PLACES.values())
        for block in range(before.shape[2])
        if there[:, place, block].any()
    ]  # fmt: skip
    return pd.DataFrame(rows, columns=list(SPECIAL))


def special_findings(table: pd.DataFrame) -> Iterator[Finding]:
    """The layer at which attention to each of them changed most."""
    for called, rows in table.groupby("to", sort=False):
        row: Any = next(rows_of(rows.sort_values("difference", key=abs, ascending=False, kind="stable")))
        verb = "more" if row.difference > 0 else "less"
        what = "special separators" if called == "separators" else "the first token"
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
