"""Do claims hold their level? Tables of units are simulated, nothing is trained, and each analysis says what is clear.

With nothing planted at most 5 % of draws may have any clear claim of the family; what is planted with a nominal power
of .9 has to be found. `python -m benchmarks claims` prints the table of docs/methods/statistics.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module
from pkgutil import iter_modules
from typing import NamedTuple

import numpy as np

from benchmarks.bars import Bar

DRAWS = 400
MOST_ALARMS = 29
"""Of 400 draws without an effect; more are unlikely (.02) at 5 %."""
LEAST_FOUND = 320
"""Of 400 draws with an effect of a nominal power of .9."""


class Simulation(NamedTuple):
    """One family of claims of an analysis, on simulated tables of units."""

    analysis: str
    family: str
    """What is claimed, in a few words."""
    clear: Callable[[np.random.Generator, bool], bool]
    """Whether the claim is clear in one draw: any of the family where nothing is planted; the planted one otherwise."""


class Rates(NamedTuple):
    """How often a claim was clear."""

    alarms: int
    """With nothing planted."""
    found: int
    """With the effect planted."""
    draws: int


def rates(simulation: Simulation, draws: int = DRAWS, *, seed: int = 0) -> Rates:
    """Simulate without and with an effect."""

    alarms, found = (sum(draws_of(simulation, draws, planted=planted, seed=seed)) for planted in (False, True))
    return Rates(alarms, found, draws)


def draws_of(simulation: Simulation, draws: int, *, planted: bool, seed: int = 0) -> Iterator[bool]:
    """Whether the claim is clear in each draw, one after the other."""
    for number in range(draws):
        yield bool(simulation.clear(np.random.default_rng([seed, number, planted]), planted))


def simulations() -> list[Simulation]:
    """Those of all analyses."""
    modules = (import_module(f"{__name__}.{module.name}") for module in iter_modules(__path__))
    return [simulation for module in modules for simulation in module.SIMULATIONS]


def bars() -> Iterator[Bar]:
    """Two bars per family of claims."""
    for simulation in simulations():
        what = f"{simulation.analysis}: {simulation.family}"
        alarms, found, draws = rates(simulation)
        yield Bar(f"{what}, clear without an effect", alarms, MOST_ALARMS, at_least=False, unit=f" of {draws}")
        yield Bar(f"{what}, clear with one", found, LEAST_FOUND, at_least=True, unit=f" of {draws}")
