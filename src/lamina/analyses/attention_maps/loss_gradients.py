"""Whether a model's own loss hangs on attention: gradients by what attention goes to, with intervals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import pandas as pd
import torch

from lamina.analyses.attention_maps.behaviours import FIRST
from lamina.analyses.attention_maps.head_means import HeadMeans, head_table
from lamina.analyses.watched import roles_of
from lamina.analyses.watching import fit, punctuation_ids
from lamina.encoders import Encoder
from lamina.encoders.gradients import Gradients, OwnLoss
from lamina.progress import progress
from lamina.stats.units import BY_DOCUMENT, Unit
from lamina.types import Text

TARGETS = ("separator", "punctuation", "other")
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
        """Kinds are `targets`."""
        self.targets = TARGETS
        """`FIRST` instead of `separator` where the first token stands in for separators."""

    def update(self, text: Text, gradients: Gradients) -> None:
        """Take one text's gradients in."""
        roles = roles_of(gradients.tokens, self._punctuation, causal=self._causal)
        if roles.separators[0]:
            self.targets = (FIRST, *TARGETS[1:])
        size = len(gradients.tokens.ids)
        # The loss has a gradient for every weight, but a decoder has no weights for what comes later.
        seen = torch.ones(size, size).tril() if self._causal else torch.ones(size, size)
        only = roles.punctuation & ~roles.separators
        columns = torch.stack([roles.separators, only, ~(roles.separators | only)], -1)
        cells = seen[..., None] * columns
        counts = cells.sum((0, 1))
        chosen = (cells.flatten(0, 1) / counts.clamp_min(1)).to(gradients.weights.device)
        found = gradients.weights.float().abs().flatten(2) @ chosen
        self.means.add(found.permute(2, 0, 1)[None].cpu(), (counts > 0)[None].float(), [text])

    def table(self) -> pd.DataFrame:
        """`layer,head,target,value,low,high`; NaN where no text has such a target."""
        return head_table(self.means.heads(), self.targets, GRADIENTS)


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
