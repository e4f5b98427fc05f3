"""How much to train: the paper's way, or what a laptop does in minutes."""

from __future__ import annotations

from dataclasses import dataclass

from lamina.errors import InputError
from lamina.probes.bank import PAPER, PAPER_SMALL, QUICK, Schedule


@dataclass(frozen=True)
class Preset:
    """Schedules, seeds and amounts."""

    schedule: Schedule
    small: Schedule
    """For tasks with fewer than `few` training targets."""
    few: int
    seeds: int
    train_texts: int | None
    """About how many training texts, whole documents drawn at random; None: all."""
    stop_texts: int | None
    """Texts that decide when to stop at most."""
    beside_seeds: int
    """Seeds of the random-weights twin and of the control."""
    beside_cumulative: bool
    """Whether twin and control have cumulative probes too, or single-layer ones only."""


PRESETS = {
    "quick": Preset(QUICK, QUICK, 0, 2, 3000, 300, 1, beside_cumulative=False),
    "paper": Preset(PAPER, PAPER_SMALL, 20_000, 5, None, None, 5, beside_cumulative=True),
}


def get_preset(name: str) -> Preset:
    """The preset of this name.

    Example:
        >>> get_preset("paper").seeds
        5
    """
    if name not in PRESETS:
        raise InputError(f"there is no preset {name!r}; there are: {', '.join(PRESETS)}")
    return PRESETS[name]
