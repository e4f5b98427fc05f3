"""What is learned and how, where nothing else is asked: each task with its paper's settings."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Literal, NamedTuple

from lamina.errors import InputError, TaskError

Kind = Literal["span", "class", "tags", "masked"]

SCHEDULES = {"constant": ("constant", 0.0), "linear": ("linear", 0.0), "warmup": ("linear", 0.1)}
"""Name -> transformers' name, and the share of steps that warm up."""


class Recipe(NamedTuple):
    """One task's objective and default settings."""

    title: str
    kind: Kind
    epochs: float
    lr: float
    batch: int
    schedule: str
    length: int
    """The most pieces at once."""
    every: int
    """Steps between evaluations, at most; a short run is evaluated ten times."""
    clip: float
    """The most a gradient's norm may be; 0 leaves gradients as they are."""
    lrs: tuple[float, ...]
    """What a grid tries ..."""
    batches: tuple[int, ...]
    """... of each."""


def _answering(title: str, length: int) -> Recipe:
    """van Aken et al. (2019): five epochs, best of the evaluations kept, rate and batch by grid."""
    return Recipe(title, "span", 5, 3e-5, 32, "warmup", length, 1000, 1.0, (3e-5, 5e-5, 1e-4), (16, 32))


def _plain(title: str, kind: Kind, batch: int, lr: float = 5e-5) -> Recipe:
    """Zhao et al. (2020): plain Adam, constant rate, no warm-up, no decay, no clipping, 128 pieces."""
    return Recipe(title, kind, 5, lr, batch, "constant", 128, 1000, 0.0, (2e-5, 5e-5, 1e-4), (32, batch))


RECIPES = {
    "squad": _answering("answer a question by a span of its context (SQuAD, XQuAD)", 384),
    "hotpot": _answering("answer a question over several paragraphs (HotpotQA)", 512),
    "babi": _answering("answer a question about a story (bAbI, generated stories)", 384),
    "pos": _plain("part of speech, read off each word's last piece", "tags", 150),
    "ner": _plain("named entities as BIO tags, read off each word's last piece", "tags", 32),
    "classify": _plain("the class of a text (question types, SST-2, bAbI answers)", "class", 200),
    "pairs": _plain("the class of two sentences (MRPC; question and answer sentence)", "class", 350),
    "mlm": _plain("15 % of the pieces, hidden (masked language model)", "masked", 32),
}
"""Task -> its recipe."""


def get_recipe(task: str) -> Recipe:
    """The recipe of this task.

    Example:
        >>> get_recipe("pos").batch
        150
    """
    if task in RECIPES:
        return RECIPES[task]
    close = get_close_matches(task, RECIPES, n=1)
    meant = f"did you mean {close[0]}? " if close else ""
    raise TaskError(f"unknown task {task!r} to fine-tune on; {meant}known tasks: {', '.join(RECIPES)}")


class Plan(NamedTuple):
    """Everything that decides how one model is trained, but for the model and the data."""

    epochs: float
    lr: float
    batch: int
    schedule: str
    seed: int
    max_steps: int | None
    every: int
    clip: float

    def steps(self, rows: int) -> int:
        """How many updates there will be for so many rows."""
        in_all = max(1, round(self.epochs * -(-rows // self.batch)))
        return in_all if self.max_steps is None else min(in_all, self.max_steps)


def make_plans(
    recipe: Recipe,
    *,
    epochs: float | None,
    lr: float | None,
    batch: int | None,
    schedule: str | None,
    seed: int,
    max_steps: int | None,
    grid: bool,
) -> list[Plan]:
    """What to try: one plan, or with `grid` every rate with every batch size that is not given."""
    chosen = schedule or recipe.schedule
    if chosen not in SCHEDULES:
        raise InputError(f"unknown schedule {chosen!r}; use {', '.join(SCHEDULES)}")
    for what, value in (("epochs", epochs), ("lr", lr), ("batch", batch), ("max_steps", max_steps)):
        if value is not None and not value > 0:
            raise InputError(f"{what} must be more than 0; got {value}")
    lrs = (lr,) if lr is not None else recipe.lrs if grid else (recipe.lr,)
    batches = (batch,) if batch is not None else tuple(sorted(set(recipe.batches))) if grid else (recipe.batch,)
    whole = recipe.epochs if epochs is None else epochs
    return [
        Plan(whole, one, size, chosen, seed, max_steps, recipe.every, recipe.clip) for one in lrs for size in batches
    ]
