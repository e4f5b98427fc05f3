"""The small fine-tuning of the chapter on answering: how long it takes, and whether it is done unasked."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lamina.errors import ModelError
from lamina.progress import say

if TYPE_CHECKING:
    from lamina.framework.declare import Analysis, Query
    from lamina.framework.estimate import Cost

FINETUNE = "finetune"
"""The analysis whose model the chapter looks at."""
LONGEST = 120.0
"""Seconds of fine-tuning that a report spends unasked."""


class SlowError(ModelError):
    """Fine-tuning would take longer than a report may take unasked."""


def learning_settings(declared: Analysis, limit: int | None) -> dict[str, Any]:
    """The settings of the fine-tuning; with a limit, no more stories than that are learned from, or scored.

    Example:
        >>> from lamina.framework.registry import get_analysis
        >>> learning_settings(get_analysis("finetune"), 100)["max_steps"]
        7
    """
    settings: Mapping[str, Any] = declared.report or {}
    if limit is None:
        return dict(settings)
    steps = math.ceil(limit / settings["batch"])
    return {**settings, "max_steps": min(steps, settings["max_steps"]), "limit": limit}


def in_minutes(seconds: float) -> str:
    """A time as one says it.

    Example:
        >>> in_minutes(38.2), in_minutes(310)
        ('about 38 s', 'about 5 minutes')
    """
    return f"about {max(1, round(seconds))} s" if seconds < 100 else f"about {round(seconds / 60)} minutes"


def too_slow(asked: Query, cost: Cost) -> str:
    """Why fine-tuning is left out, and how to ask for it."""
    return (
        f"Answering stories is left out: fine-tuning {asked.loaded.model['name']} for it would take "
        f"{in_minutes(cost.seconds)}; ask for it with --with {asked.analysis.name}"
    )


def in_words(asked: Query, cost: Cost) -> str:
    """What is about to be done, and how to do without."""
    return (
        f"fine-tuning {asked.loaded.model['name']} on stories ({cost.steps:,} steps): {in_minutes(cost.seconds)}; "
        f"leave it out with --without {asked.analysis.name}"
    )


def announce(asked: Query, folder: Path, *, wanted: bool) -> None:
    """Say how long the fine-tuning takes; raise SlowError where that is too long and nobody wants it.

    Nothing is said of one that is done already.
    """
    from lamina.framework.cache import saved
    from lamina.framework.estimate import estimate

    if saved(asked, folder) is not None:
        return
    cost = estimate(asked)
    if cost.seconds > LONGEST and not wanted:
        raise SlowError(too_slow(asked, cost))
    say(in_words(asked, cost))
