"""How alike the heads of two models look at the same texts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float

from lamina.analyses.attention_maps.cutting import fit
from lamina.analyses.attention_maps.halves import intervals
from lamina.analyses.attention_maps.watching import CUT, TOO_LONG
from lamina.analyses.resampling import StreamedBootstrap
from lamina.encoders import Activations, Encoder
from lamina.progress import progress
from lamina.types import Text

OTHER_TOKENS = "texts that the two models cut into different tokens: their attention is not compared"


class HeadSimilarity(NamedTuple):
    """Cosines of flattened maps, averaged over texts; NaN where no text could be compared."""

    value: Float[np.ndarray, "block head"]
    """Of a head of one model with the same head of the other."""
    low: Float[np.ndarray, "block head"]
    high: Float[np.ndarray, "block head"]
    baseline: Float[np.ndarray, "block head"]
    """Of the second model's head with the other heads of that layer in the first, averaged."""
    skipped: Counter[str]


def compare_heads(a: Encoder, b: Encoder, texts: Iterable[Text], *, samples: int, seed: int) -> HeadSimilarity:
    """Every head of `b` beside the same head and the other heads of `a`; texts stream, maps are never kept.

    Texts are cut to what both models take. `texts` is read twice.

    Example:
        >>> from lamina.testing import SAMPLE_TEXTS, TinyEncoder
        >>> found = compare_heads(TinyEncoder(), TinyEncoder(), SAMPLE_TEXTS, samples=10, seed=0)
        >>> found.value.round(6).tolist(), bool((found.baseline < 1).all())
        ([[1.0, 1.0], [1.0, 1.0]], True)
    """
    shape = (a.blocks, a.heads)
    skipped: Counter[str] = Counter()
    sums = StreamedBootstrap(2 * a.blocks * a.heads + 1, samples=samples, seed=seed)
    # What is cut is cut for both, and counted once.
    counters = (skipped, Counter[str]())
    shown = (
        each.encode(_fitting(a, b, texts, count), ("maps",), ordered=False)
        for each, count in zip((a, b), counters, strict=True)
    )
    with progress(f"attention of {a.name} and {b.name}", None) as advance:
        for one, other in _together(*shown):
            advance()
            if one.maps is None or other.maps is None:
                skipped[TOO_LONG] += 1
            elif not np.array_equal(one.tokens.ids, other.tokens.ids):
                skipped[OTHER_TOKENS] += 1
            else:
                sums.add(np.append(_cosines(one.maps, other.maps), 1.0))
    whole, drawn = sums.value, sums.samples
    with np.errstate(invalid="ignore"):
        value, baseline = (whole[:-1] / whole[-1]).reshape(2, *shape)
    low, high = (each.reshape(2, *shape)[0] for each in intervals(drawn[:, :-1], drawn[:, -1]))
    return HeadSimilarity(value, low, high, baseline, skipped)


def _cosines(
    one: Float[torch.Tensor, "block head token token"], other: Float[torch.Tensor, "block head token token"]
) -> Float[np.ndarray, " both"]:
    """Of every head with itself, then with the mean of the others; NaN for the only head of its layer."""
    old, new = (torch.nn.functional.normalize(maps.flatten(2).double(), dim=2) for maps in (one, other))
    cosines = old @ new.transpose(1, 2)
    own = cosines.diagonal(dim1=1, dim2=2)
    several = own.shape[1] - 1
    others = (cosines.sum(1) - own) / several if several else torch.full_like(own, torch.nan)
    return torch.stack([own, others]).flatten().numpy()


def _fitting(a: Encoder, b: Encoder, texts: Iterable[Text], skipped: Counter[str]) -> Iterator[Text]:
    for text in texts:
        kept = fit(b, fit(a, text))
        skipped.update([CUT] if kept is not text else [])
        yield kept


def _together(one: Iterable[Activations], other: Iterable[Activations]) -> Iterator[tuple[Activations, Activations]]:
    """The same text of both; models of one kind bring texts in one order, so that hardly any has to wait."""
    waiting: tuple[dict[str, Activations], dict[str, Activations]] = ({}, {})
    for brought in zip(one, other, strict=True):
        for side, made in enumerate(brought):
            partner = waiting[1 - side].pop(made.text, None)
            if partner is None:
                waiting[side][made.text] = made
            else:
                yield (partner, made) if side else (made, partner)
