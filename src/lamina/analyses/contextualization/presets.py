"""How much of it: the paper's way, or what a laptop does in minutes."""

from __future__ import annotations

from dataclasses import dataclass

from lamina.errors import InputError
from lamina.probes.mlp import MLPTraining


@dataclass(frozen=True)
class Preset:
    """Training, seeds and amounts."""

    training: MLPTraining
    seeds: int
    most_contexts: int
    """That a (word, class) pair may have."""
    most_words: int | None
    """Words drawn; None: all."""
    context_sizes: tuple[int, ...]
    """Words each side."""
    permuted: str
    """Which layers are also trained on permuted classes: `all` or `last`."""
    most_pieces: int = 128


PRESETS = {
    "quick": Preset(MLPTraining(64, 3e-3, 12, validate_every=2), 1, 8, 3000, (0, 2, 8), "last"),
    "paper": Preset(MLPTraining(), 5, 100, None, (0, 2, 4, 8, 16, 32), "all"),
}


def get_preset(name: str) -> Preset:
    """The preset of this name.

    Example:
        >>> get_preset("paper").training.hidden
        1024
    """
    if name not in PRESETS:
        raise InputError(f"there is no preset {name!r}; there are: {', '.join(PRESETS)}")
    return PRESETS[name]
