"""Whether a model's own loss hangs on attention: gradients by what attention goes to, with intervals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import pandas as pd
import torch

from lamina.analyses.attention_maps.behaviours import FIRST
from lamina.analyses.attention_maps.head_means import HeadMeans, head_table, layer_table
from lamina.analyses.watched import roles_of
from lamina.analyses.watching import fit, punctuation_ids
from lamina.encoders import Encoder
from lamina.encoders.gradients import Gradients, OwnLoss
from lamina.progress import progress
from lamina.stats.units import BY_DOCUMENT, Unit
from lamina.types import Text

TARGETS = (FIRST, "separator", "punctuation", "other")
"""What attention goes to; the text's first token, [CLS] where there is one, is none of the others: it is a sink."""
GRADIENTS = ("layer", "head", "target", "value", "low", "high")
"""Columns of `gradients.csv`."""

UNPREDICTED = "texts with nothing to predict, without gradients"
UNCUT = "texts whose first words alone are longer than the model's limit, without gradients"


class GradientMeter:
    """The mean magnitude of a text's gradients by what attention goes to, then over texts that have such a token."""

    def __init__(self, encoder: Encoder, *, samples: int = 1000, seed: int = 0, unit: Unit = BY_DOCUMENT) -> None:
        self._causal = encoder.causal_maps
        self._punctuation = punctuation_ids(encoder)
        self.means = HeadMeans(len(TARGETS), encoder, samples=samples, seed=seed, unit=unit)
        """Kinds are `TARGETS`."""

    def update(self, text: Text, gradients: Gradients) -> None:
        """Take one text's gradients in."""
        roles = roles_of(gradients.tokens, self._punctuation, causal=self._causal)
        size = len(gradients.tokens.ids)
        first = torch.arange(size) == 0
        # The loss has a gradient for every weight, but a decoder has no weights for what comes later.
        seen = torch.ones(size, size).tril() if self._causal else torch.ones(size, size)
        # A decoder's first token stands in for separators that its texts do not have: here it is the first token only.
        separators = roles.separators & ~first
        signs = roles.punctuation & ~roles.separators & ~first
        columns = torch.stack([first, separators, signs, ~(first | separators | signs)], -1)
        cells = seen[..., None] * columns
        counts = cells.sum((0, 1))
        chosen = (cells.flatten(0, 1) / counts.clamp_min(1)).to(gradients.weights.device)
        found = gradients.weights.float().abs().flatten(2) @ chosen
        self.means.add(found.permute(2, 0, 1)[None].cpu(), (counts > 0)[None].float(), [text])

    def table(self) -> pd.DataFrame:
        """`layer,head,target,value,low,high`; without targets that no text has."""
        return _there(head_table(self.means.heads(), TARGETS, GRADIENTS), "target")

    def layers(self) -> pd.DataFrame:
        """Rows of `layers.csv`: the first token and separators beside other tokens of the same layer."""
        tests = self.means.layer_tests([0, 1], TARGETS.index("other"))
        return _there(layer_table(self.means.layers(), TARGETS, "gradients", [tests]), "kind")


def _there(table: pd.DataFrame, column: str) -> pd.DataFrame:
    """Without the kinds that are never there."""
    absent = [kind for kind, rows in table.groupby(column, sort=False) if rows["value"].isna().all()]
    return table[~table[column].isin(absent)].reset_index(drop=True)


def measure_gradients(
    meter: GradientMeter,
    loss: OwnLoss,
    encoder: Encoder,
    texts: Iterable[Text],
    *,
    limit: int | None = None,
    total: int | None = None,
) -> Counter[str]:
    """Show the gradients of all texts to the meter; returns what was left out. Texts are cut as `watch` cuts them.

    Args:
        meter: takes them in.
        loss: of the model with its head.
        encoder: the same model, for its tokens.
        texts: on which the loss is taken.
        limit: the most tokens of a text, where less than the model takes.
        total: how many texts there are, for the progress bar.
    """
    skipped: Counter[str] = Counter()
    with progress(f"gradients of {encoder.name}", total) as advance:
        for text in texts:
            kept = fit(encoder, text, limit)
            advance()
            if len(encoder.tokenize(kept).ids) > encoder.limit:
                skipped[UNCUT] += 1
                continue
            found = loss(kept)
            if found is None:
                skipped[UNPREDICTED] += 1
            else:
                meter.update(kept, found)
    return skipped
