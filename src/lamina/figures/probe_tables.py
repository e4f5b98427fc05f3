"""What the figures of probing take out of its tables. Any table may be missing or empty, any number not available."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from lamina.tasks import TASKS

Table = Any
"""A pandas DataFrame: pandas comes without types, and what a checker guesses of them refuses sound expressions."""

Tables = Mapping[str, Table]

FEW_SEEDS = 5
"""With fewer, what lies between the lowest and the highest seed is called a range, not an interval."""

_TITLES = {task.name: task.title for task in TASKS}


def title_of(task: str) -> str:
    """What figures call a task.

    Example:
        >>> title_of("dep"), title_of("sup (babi_en)"), title_of("my_own")
        ('Dependencies', 'Supporting facts (babi_en)', 'my_own')
    """
    name, bracket, corpus = task.partition(" (")
    return _TITLES.get(name, name) + bracket + corpus


def rows_of(tables: Tables, name: str) -> Table | None:
    """A table, unless it is missing or empty."""
    table = tables.get(name)
    return None if table is None or table.empty else table


def pooled(tables: Tables) -> Table | None:
    """The scores of all seeds together, with the constant answer's; numbers of a single seed are left out."""
    scores = rows_of(tables, "scores")
    if scores is None:
        return None
    kept = scores[(scores["seed"].astype(str) == "all") | (scores["probe"] == "constant")]
    # A task may be scored by several metrics; its own comes first.
    own = kept.groupby("task", sort=False)["metric"].transform("first")
    return kept[kept["metric"] == own].drop_duplicates(["task", "probe", "of", "layer"])


def seed_count(tables: Tables) -> int:
    """How many seeds the model's probes had."""
    scores = rows_of(tables, "scores")
    if scores is None:
        return 0
    seeds = scores.loc[scores["of"] == "model", "seed"].astype(str)
    return seeds[seeds.str.isdigit()].nunique()


def last_layer(tables: Tables) -> int:
    """The highest layer that any probe saw."""
    found = [table["layer"].max() for name in ("scores", "mixing") if (table := rows_of(tables, name)) is not None]
    return max((int(layer) for layer in found if pd.notna(layer)), default=0)


def in_order(tables: Tables) -> list[str]:
    """The tasks by expected layer, then (where that is not available) by centre of gravity, then as they were given."""
    summary = rows_of(tables, "summary")
    if summary is not None:
        by = ["expected_layer", "center_of_gravity"]
        return summary.sort_values(by, kind="stable", na_position="last")["task"].tolist()
    scores = rows_of(tables, "scores")
    return [] if scores is None else list(dict.fromkeys(scores["task"]))
