"""The parts that are taken away one at a time: heads, blocks, and random components as large as a head."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Int
from torch import Tensor

from lamina.analyses.cause.effects import score_interval
from lamina.errors import InputError, ModelError
from lamina.models.interventions.edited_runs import RESAMPLED, CleanRun, Edit, Fill, HeadEdit
from lamina.models.interventions.interventions import Interventions
from lamina.targets.target import TargetScores
from lamina.types import Text

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


def chosen_components(components: Sequence[Component] | None, heads: Sequence[str] | None) -> tuple[Component, ...]:
    """Heads and blocks by default; heads alone where some are named.

    Example:
        >>> chosen_components(None, None), chosen_components(None, ["3-2"])
        (('head', 'block'), ('head',))
    """
    if components is None:
        return ("head", "block") if heads is None else ("head",)
    if heads is not None and "head" not in components:
        raise InputError(f"--head {heads[0]} names a head, and --component {components[0]} leaves heads out; drop one")
    return tuple(dict.fromkeys(components))


def named_heads(parts: Interventions, names: Sequence[str] | None) -> tuple[tuple[int, int], ...]:
    """(block, head) from 0 of the heads named as LAYER-HEAD from 1, in the model's order; all by default."""
    if names is None:
        return parts.heads
    chosen = set()
    for name in names:
        layer, dash, head = name.partition("-")
        if not (dash and layer.isdecimal() and head.isdecimal()):
            raise InputError(f"--head {name}: name a head as LAYER-HEAD, both counted from 1, such as 3-2")
        parts.refuse_heads(int(layer) - 1, int(head) - 1)
        chosen.add((int(layer) - 1, int(head) - 1))
    return tuple(sorted(chosen))


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
    plan: list[AblatedPart] = []
    if "head" in components:
        for how in dict.fromkeys(hows):
            for block, head in heads:
                edit = parts.without(block, heads=[head], fill=_fill(how, block, means))
                plan.append(AblatedPart("head", block, head, how, (edit,)))
            plan += _random_components(parts, sorted({block for block, _ in heads}), how, means, seed)
    if "block" in components:
        skipped = (Edit(skipped=frozenset({block})) for block in range(parts.encoder.blocks))
        plan += [AblatedPart("block", block, None, "zero", (edit,)) for block, edit in enumerate(skipped)]
    return plan


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
            edits.append(Edit(mixed={block: HeadEdit(where, _fill(how, block, means))}))
        yield AblatedPart(RANDOM_COMPONENT, block, None, how, tuple(edits))


def _fill(how: Ablation, block: int, means: Mapping[int, Tensor]) -> Fill:
    if how == "resample":
        return RESAMPLED
    return means[block] if how == "mean" else None


# Heads and blocks of a model switched off for one text: the change that is made, by numbers as tables have them.

DisabledBy = Literal["zero", "mean"]
"""What a head hands on instead: zeros, or its mean over the tokens of the text."""


def disabled(
    parts: Interventions,
    words: Sequence[str],
    *,
    heads: Iterable[tuple[int, int]] = (),
    layers: Iterable[int] = (),
    how: DisabledBy = "zero",
) -> Edit:
    """Some heads hand on nothing of their own, and some layers what they read.

    Args:
        parts: of the model.
        words: of the text, over whose tokens means are taken.
        heads: layer and head, both from 1.
        layers: from 1, whose blocks are skipped.
        how: what heads hand on instead.

    Example:
        >>> parts = Interventions(lamina.load_encoder("minilm"))  # doctest: +SKIP
        >>> disabled(parts, ["Dogs", "bark"], heads=[(3, 1)], layers=[5]).first  # doctest: +SKIP
        2
    """
    encoder = parts.encoder
    skipped = frozenset(layer - 1 for layer in layers)
    for block in sorted(skipped):
        if not 0 <= block < encoder.blocks:
            raise ModelError(f"{encoder.name} has no layer {block + 1}; it has {encoder.blocks}, counted from 1")
    by_block: dict[int, list[int]] = {}
    for layer, head in dict.fromkeys(heads):
        parts.refuse_heads(layer - 1, head - 1)
        by_block.setdefault(layer - 1, []).append(head - 1)
    means = {}
    if by_block and how == "mean":
        means = parts.means(encoder.rows(0, encoder.word_tokenizer(Text("typed", tuple(words)))))
    mixed: dict[int, HeadEdit] = {}
    for block, in_block in by_block.items():
        mixed |= parts.without(block, heads=in_block, fill=means.get(block)).mixed
    return Edit(mixed=mixed, skipped=skipped)


# States of one run put into another, at some tokens of one layer.


class PatchTokens(NamedTuple):
    """The tokens of one row that get the states of its donor."""

    to: Int[np.ndarray, " token"]
    source: Int[np.ndarray, " token"]
    """The donor's token whose state each of them gets."""

    @classmethod
    def alike(cls, tokens: Int[np.ndarray, " token"]) -> PatchTokens:
        """Tokens that get the states of the donor's tokens at the same places."""
        return cls(tokens, tokens)


def put_in(layer: int, places: Sequence[PatchTokens]) -> Edit:
    """States of a layer are those of the donors, at some tokens; `places` has an entry for every row there is."""

    def change(states: Tensor, clean: CleanRun) -> Tensor:
        if clean.donor is None:
            raise ModelError("states of another text are asked for, and no text was given to take them from")
        by_row = [places[row] for row in clean.rows]
        rows = torch.from_numpy(np.repeat(np.arange(len(by_row)), [len(tokens.to) for tokens in by_row]))
        to, source = (torch.from_numpy(np.concatenate(tokens).astype(np.int64)) for tokens in zip(*by_row, strict=True))
        patched = states.clone()
        patched[rows, to] = clean.donor.states[layer][rows, source].to(patched)
        return patched

    return Edit(states={layer: change})


def put_back(layer: int) -> Edit:
    """States of a layer are what they are anyway: a control that changes nothing if patching itself changes nothing."""
    return Edit(states={layer: lambda _states, clean: clean.states[layer]})


def random_tokens(among: Bool[np.ndarray, " token"], count: int, *, seed: int, key: str) -> Int[np.ndarray, " token"]:
    """So many of some tokens, or all where there are fewer; the same on every call with this key.

    Example:
        >>> random_tokens(np.array([False, True, True]), 5, seed=0, key="q1").tolist()
        [1, 2]
    """
    digest = hashlib.blake2b(f"{seed}:{key}".encode("utf-8", "surrogatepass"), digest_size=8).digest()
    tokens = np.flatnonzero(among)
    drawn = np.random.default_rng(int.from_bytes(digest, "big")).permutation(tokens)[:count]
    return np.sort(drawn)


def share_of(
    hits: Bool[np.ndarray, " item"], units: Sequence[str], *, samples: int, seed: int
) -> tuple[float, float, float]:
    """A share with its 95 % interval over units; of units that are all alike, the exact one of as many draws.

    Example:
        >>> units = [str(unit) for unit in range(20)]
        >>> [round(each, 2) for each in share_of(np.ones(20, bool), units, samples=9, seed=0)]
        [1.0, 0.83, 1.0]
    """
    if not len(hits):
        return float("nan"), float("nan"), float("nan")
    scores = TargetScores(hits.astype(float), np.ones(len(hits)))
    return scores.value, *score_interval(scores, units, samples=samples, seed=seed)
