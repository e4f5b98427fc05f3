"""Does `ablate` find the head that does the work, and stay silent where none does? Small models whose truth is known.

In the planted language one head has to copy the subject's number to the verb. Which head of a trained model does, its
attention and weights say; ablating every head should name the same one. Models trained on the language with verbs in a
number of their own have no such head: there, hardly any set of pairs should show an effect, all heads tested together.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import lamina
from benchmarks.bars import Bar
from lamina.stats.status import SURE
from tests.planted_language import agreement_pairs, copying_head, planted, sentences

SEEDS = 20
PAIRS = 200
"""Minimal pairs of agreement that a model judges."""
SETS = 5
"""Sets of pairs that each model without the dependency judges."""


class Found(NamedTuple):
    """What `ablate` says of a model."""

    head: tuple[int, int]
    """(block, head), from 0, without which agreement suffers most."""
    effect: float
    smallest_p: float
    """Of all heads, adjusted for their family."""


def ablated(seed: int, *, dependent: bool = True, pairs: int = PAIRS, drawn: int = 0) -> Found:
    """The heads of the model of a seed, by their effect on agreement."""
    result = lamina.ablate(
        planted(seed, dependent),
        sentences(seed, 20, dependent=dependent),
        suite=agreement_pairs(5000 + 100 * seed + drawn, pairs),
        targets=["pairs"],
        component=["head"],
        items=pairs,
        samples=50,
        twin=False,
    )
    table = result.tables["effects"]
    heads = table[table["component"] == "head"]
    most = heads.sort_values("effect").iloc[0]
    return Found(
        (int(most["layer"]) - 1, int(most["head"]) - 1), float(most["effect"]), float(heads["p_adjusted"].min())
    )


def bars() -> Iterator[Bar]:
    """Seeds whose planted head comes first, and the rate of false alarms."""
    first, strengths = 0, []
    for seed in range(SEEDS):
        found = ablated(seed)
        first += found.head == copying_head(planted(seed))
        strengths.append(found.effect)
    note = f"effect on agreement from {min(strengths):.2f} to {max(strengths):.2f}"
    yield Bar(f"ablate: seeds of {SEEDS} whose planted head comes first", first, 19, at_least=True, note=note)
    alarms = [
        ablated(seed, dependent=False, drawn=drawn).smallest_p < SURE for seed in range(SEEDS) for drawn in range(SETS)
    ]
    what = f"ablate: false alarms over all heads without the dependency, {SEEDS} models, {SETS} sets of pairs each"
    yield Bar(what, sum(alarms) / len(alarms), SURE, at_least=False)
