"""Several settings tried on the selection set; the best one's model is kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from lamina.training.recipes import Plan
from lamina.training.running import Trained

if TYPE_CHECKING:
    import pandas


class Trial(NamedTuple):
    """One plan, and what it came to."""

    plan: Plan
    trained: Trained


def try_all(plans: Sequence[Plan], folder: Path, run: Callable[[Plan, Path], Trained]) -> list[Trial]:
    """Train every plan in a folder of its own; those finished before are read, not trained again."""
    trials = []
    for number, plan in enumerate(plans):
        own = folder / f"trial-{number}"
        own.mkdir(parents=True, exist_ok=True)
        trials.append(Trial(plan, run(plan, own)))
    return trials


def best_of(trials: Sequence[Trial], *, greater: bool) -> Trial:
    """The trial that did best on the selection set; of equals, the first."""
    return (max if greater else min)(trials, key=lambda trial: trial.trained.best)


def grid_table(trials: Sequence[Trial], chosen: Trial, metric: str) -> pandas.DataFrame:
    """Everything tried: its settings, its best step and score on the selection set."""
    import pandas as pd

    rows = [
        (
            trial.plan.lr,
            trial.plan.batch,
            trial.plan.schedule,
            trial.plan.epochs,
            trial.trained.step,
            metric,
            trial.trained.best,
            trial is chosen,
        )
        for trial in trials
    ]
    return pd.DataFrame(rows, columns=["lr", "batch", "schedule", "epochs", "step", "metric", "value", "chosen"])
