"""Similarities of groups of words, at all layers at once, without visiting a pair.

The sum of the cosines of all pairs of two groups is the product of the sums of their unit vectors; so is the mean
distance of a token to a group, which makes the silhouette by cosine distance exact at the cost of a sum.
"""

from __future__ import annotations

from itertools import combinations
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float

from lamina.analyses.questions.roles import GROUPS

TIMES = 10.0
"""A token is an outlier at a layer where its vector is more than this many times as long as the text's median.

Measured on SQuAD: the longest vectors of MiniLM and MPNet are at most 4 times the median, those of SmolLM2 are below 3
in most layers and 5 to 11 in layers 3 to 9; its first token is at 14 to 184 in layers 12 to 29.
"""


def ordinary(states: Float[torch.Tensor, "token layer width"]) -> Bool[torch.Tensor, "token layer"]:
    """Where a token is no outlier.

    Example:
        >>> states = torch.ones(4, 2, 3)
        >>> states[0, 1] *= 100
        >>> ordinary(states)[0].tolist()
        [True, False]
    """
    lengths = states.norm(dim=-1)
    return lengths <= TIMES * lengths.median(0).values


QUESTION, SUPPORT, ANSWER, OTHER, PREDICTED, WORDS = range(len(GROUPS))
_PAIRS = tuple(combinations((QUESTION, SUPPORT, ANSWER, OTHER), 2))
_APART = (ANSWER, PREDICTED)
SIMILARITIES = (
    *(f"within_{GROUPS[group]}" for group in (QUESTION, SUPPORT, ANSWER, OTHER, PREDICTED)),
    *(f"between_{GROUPS[one]}_{GROUPS[other]}" for one, other in _PAIRS),
)
"""Mean cosines; those that are adjusted for anisotropy."""
MEASURES = (
    *SIMILARITIES,
    "question_nearer_support",
    *(f"{GROUPS[group]}_apart" for group in _APART),
    *(f"{GROUPS[group]}_silhouette" for group in _APART),
    "anisotropy",
)
"""In the order of the columns of `measure`."""


class Before(NamedTuple):
    """The words of the documents before this one: what unrelated words are like at each layer."""

    sums: Float[torch.Tensor, "layer width"]
    """Of unit vectors."""
    counts: Float[torch.Tensor, " layer"]


class Sums(NamedTuple):
    """Groups of words as sums of their unit vectors."""

    sums: Float[torch.Tensor, "group layer width"]
    counts: Float[torch.Tensor, "group layer"]


def unit_vectors(
    states: Float[torch.Tensor, "token layer width"], keep: Bool[torch.Tensor, "token layer"]
) -> Float[torch.Tensor, "token layer width"]:
    """Every vector at length 1; those not kept at length 0, so that they count nowhere."""
    return states * (keep / states.norm(dim=-1).clamp_min(1e-12))[..., None]


def add_up(
    unit: Float[torch.Tensor, "token layer width"],
    keep: Bool[torch.Tensor, "token layer"],
    groups: Float[torch.Tensor, "group token"],
) -> Sums:
    """The sums of any number of groups."""
    tokens, layers, width = unit.shape
    sums = (groups @ unit.reshape(tokens, layers * width)).view(-1, layers, width)
    return Sums(sums, groups @ keep.to(groups.dtype))


def measure(
    unit: Float[torch.Tensor, "token layer width"],
    keep: Bool[torch.Tensor, "token layer"],
    groups: Float[torch.Tensor, "group token"],
    added: Sums,
    before: Before,
) -> Float[torch.Tensor, "layer measure"]:
    """Every one of MEASURES at every layer; not a number where a group has too few words for it."""
    sums, counts = added
    products = torch.einsum("gld,hld->ghl", sums, sums)
    within = [_pairs(products[group, group], counts[group]) for group in range(WORDS)]
    between = {(one, other): products[one, other] / _some(counts[one] * counts[other]) for one, other in _PAIRS}
    nearer = between[QUESTION, SUPPORT] - between[QUESTION, OTHER]
    apart = [_apart(products, counts, group) for group in _APART]
    silhouettes = [_silhouette(unit, keep, groups[group], added, group) for group in _APART]
    unrelated = (sums[WORDS] * before.sums).sum(-1) / _some(counts[WORDS] * before.counts)
    pairs = [between[pair] for pair in _PAIRS]
    return torch.stack([*within, *pairs, nearer, *apart, *silhouettes, unrelated], dim=1)


def _pairs(product: torch.Tensor, count: torch.Tensor) -> torch.Tensor:
    """Mean cosine of two different words of a group."""
    return (product - count) / _some(count * (count - 1))


def _some(count: torch.Tensor) -> torch.Tensor:
    return torch.where(count > 0, count, torch.nan)


def _apart(products: torch.Tensor, counts: torch.Tensor, group: int) -> torch.Tensor:
    """How much farther a group's words are from all others than those are from each other."""
    own, all_, shared = products[group, group], products[WORDS, WORDS], products[group, WORDS]
    rest = counts[WORDS] - counts[group]
    return _pairs(all_ - 2 * shared + own, rest) - (shared - own) / _some(counts[group] * rest)


def _silhouette(unit: torch.Tensor, keep: torch.Tensor, members: torch.Tensor, added: Sums, group: int) -> torch.Tensor:
    """The mean silhouette (cosine distance) of a group's words against all others; it needs two of them."""
    own = members > 0
    vectors, kept = unit[own], keep[own]
    count = added.counts[group]
    rest = added.counts[WORDS] - count
    inside = 1 - (torch.einsum("tld,ld->tl", vectors, added.sums[group]) - 1) / _some(count - 1)
    outside = 1 - torch.einsum("tld,ld->tl", vectors, added.sums[WORDS] - added.sums[group]) / _some(rest)
    each = (outside - inside) / torch.maximum(inside, outside).clamp_min(1e-12)
    return torch.where(kept, each, 0).sum(0) / _some(kept.sum(0))
