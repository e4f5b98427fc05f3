"""The parts that are taken away one at a time: heads, blocks, and random components as large as a head."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from lamina.encoders.interventions import RESAMPLED, Edit, Fill, Interventions, Mixed
from lamina.errors import InputError

Component = Literal["head", "block"]
Ablation = Literal["zero", "mean", "resample"]
RANDOM_COMPONENT = "random"
"""In tables: a random component as large as a head."""
DRAWS = 3
"""Random components of each block; their scores are averaged."""


class AblatedPart(NamedTuple):
    """A part of a model, and how it is taken away."""

    component: str
    """head, block or random."""
    block: int
    """From 0."""
    head: int | None
    """From 0; None for a block and for random components."""
    how: Ablation
    edits: tuple[Edit, ...]
    """Several for random components: one for each draw."""


def chosen_components(asked: Sequence[Component] | None, heads: Sequence[str] | None) -> tuple[Component, ...]:
    """Heads and blocks by default; heads alone where some are named.

    Example:
        >>> chosen_components(None, None), chosen_components(None, ["3-2"])
        (('head', 'block'), ('head',))
    """
    if asked is None:
        return ("head", "block") if heads is None else ("head",)
    if heads is not None and "head" not in asked:
        raise InputError(f"--head {heads[0]} names a head, and --component {asked[0]} leaves heads out; drop one")
    return tuple(dict.fromkeys(asked))


def named_heads(parts: Interventions, names: Sequence[str] | None) -> tuple[tuple[int, int], ...]:
    """(block, head) from 0 of the heads named as LAYER-HEAD from 1, in the model's order; all by default."""
    if names is None:
        return parts.heads
    found = set()
    for name in names:
        layer, dash, head = name.partition("-")
        if not (dash and layer.isdecimal() and head.isdecimal()):
            raise InputError(f"--head {name}: name a head as LAYER-HEAD, both counted from 1, such as 3-2")
        parts.refuse_heads(int(layer) - 1, int(head) - 1)
        found.add((int(layer) - 1, int(head) - 1))
    return tuple(sorted(found))


def plan_ablations(
    parts: Interventions,
    *,
    components: Iterable[Component],
    hows: Sequence[Ablation],
    heads: Sequence[tuple[int, int]],
    means: Mapping[int, Tensor],
    seed: int,
) -> list[AblatedPart]:
    """All parts that are taken away, heads first, then random components of their blocks, then blocks."""
    found: list[AblatedPart] = []
    if "head" in components:
        for how in dict.fromkeys(hows):
            for block, head in heads:
                edit = parts.without(block, heads=[head], fill=_fill(how, block, means))
                found.append(AblatedPart("head", block, head, how, (edit,)))
            found += _random_components(parts, sorted({block for block, _ in heads}), how, means, seed)
    if "block" in components:
        skipped = (Edit(skipped=frozenset({block})) for block in range(parts.encoder.blocks))
        found += [AblatedPart("block", block, None, "zero", (edit,)) for block, edit in enumerate(skipped)]
    return found


def _random_components(
    parts: Interventions, blocks: Sequence[int], how: Ablation, means: Mapping[int, Tensor], seed: int
) -> Iterator[AblatedPart]:
    if parts.encoder.heads < 2:
        # As many units as a head has are the head.
        return
    for block in blocks:
        edits = []
        for draw in range(DRAWS):
            rng = np.random.default_rng([seed, block, draw])
            where = torch.zeros(parts.encoder.heads * parts.size, dtype=torch.bool)
            where[torch.from_numpy(rng.choice(len(where), parts.size, replace=False))] = True
            edits.append(Edit(mixed={block: Mixed(where, _fill(how, block, means))}))
        yield AblatedPart(RANDOM_COMPONENT, block, None, how, tuple(edits))


def _fill(how: Ablation, block: int, means: Mapping[int, Tensor]) -> Fill:
    if how == "resample":
        return RESAMPLED
    return means[block] if how == "mean" else None
