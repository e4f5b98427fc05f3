"""States of one run put into another, at some tokens of one layer."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Int
from torch import Tensor

from lamina.analyses.cause.effects import score_interval
from lamina.analyses.cause.targets import TargetScores
from lamina.encoders.interventions import Clean, Edit
from lamina.errors import ModelError


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

    def change(states: Tensor, clean: Clean) -> Tensor:
        if clean.donor is None:
            raise ModelError("states of another text are asked for, and no text was given to take them from")
        own = [places[row] for row in clean.rows]
        rows = torch.from_numpy(np.repeat(np.arange(len(own)), [len(each.to) for each in own]))
        to, source = (torch.from_numpy(np.concatenate(each).astype(np.int64)) for each in zip(*own, strict=True))
        made = states.clone()
        made[rows, to] = clean.donor.states[layer][rows, source].to(made)
        return made

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
