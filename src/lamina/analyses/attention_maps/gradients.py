"""Does it matter where a head looks? The gradient of the model's own loss with respect to its attention weights."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np
import torch

from lamina.analyses.attention_maps.cutting import fit
from lamina.analyses.attention_maps.roles import punctuation_ids, roles_of
from lamina.encoders import Encoder
from lamina.encoders.gradients import Gradients, OwnLoss
from lamina.progress import progress
from lamina.types import Text

if TYPE_CHECKING:
    import pandas as pd

TARGETS = ("separator", "punctuation", "other")

UNPREDICTED = "texts with nothing to predict, without gradients"
UNCUT = "texts whose first words alone are longer than the model's limit, without gradients"


class GradientMeter:
    """The mean magnitude of a text's gradients by what attention goes to, then over texts that have such a token."""

    def __init__(self, encoder: Encoder) -> None:
        self._causal = encoder.causal
        self._punctuation = punctuation_ids(encoder)
        self._sums = np.zeros((encoder.blocks, encoder.heads, len(TARGETS)))
        self._texts = np.zeros(len(TARGETS))

    def update(self, gradients: Gradients) -> None:
        """Take one text's gradients in."""
        roles = roles_of(gradients.tokens, self._punctuation, causal=self._causal)
        size = len(gradients.tokens.ids)
        # The loss has a gradient for every weight, but a decoder has no weights for what comes later.
        seen = np.tri(size) if self._causal else np.ones((size, size))
        only = roles.punctuation & ~roles.separators
        cells = np.stack([seen * columns for columns in (roles.separators, only, ~(roles.separators | only))], -1)
        counts = cells.sum((0, 1))
        chosen = torch.from_numpy(cells.reshape(size * size, -1) / np.maximum(counts, 1)).float()
        self._sums += (gradients.weights.abs().flatten(2) @ chosen).double().numpy()
        self._texts += counts > 0

    def table(self) -> pd.DataFrame:
        """`layer,head,target,value`, blocks and heads counted from 1; NaN where no text has such a target."""
        import pandas as pd

        value = np.divide(self._sums, self._texts, out=np.full_like(self._sums, np.nan), where=self._texts > 0)
        block, head, at = (axis.ravel() for axis in np.indices(value.shape))
        names = np.array(TARGETS, object)[at]
        return pd.DataFrame({"layer": block + 1, "head": head + 1, "target": names, "value": value.ravel()})


def measure_gradients(
    loss: OwnLoss, encoder: Encoder, texts: Iterable[Text], *, limit: int | None = None, total: int | None = None
) -> tuple[pd.DataFrame, Counter[str]]:
    """The table of gradients over all texts, and what was left out; texts are cut as `watch` cuts them.

    Args:
        loss: of the model with its head.
        encoder: the same model, for its tokens.
        texts: on which the loss is taken.
        limit: the most tokens of a text, where less than the model takes.
        total: how many texts there are, for the progress bar.
    """
    meter = GradientMeter(encoder)
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
                meter.update(found)
    return meter.table(), skipped
