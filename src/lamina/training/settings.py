"""The tasks that a model can be fine-tuned on, each with its paper's settings."""

from __future__ import annotations

from typing import Literal, NamedTuple

import pandas as pd

from lamina.errors import InputError

Task = Literal["squad", "hotpot", "babi", "pos", "ner", "tag", "classify", "pairs", "mlm"]
Kind = Literal["span", "class", "tags", "masked"]
Schedule = Literal["constant", "linear", "warmup"]

SCHEDULES: dict[Schedule, tuple[str, float]] = {
    "constant": ("constant", 0.0),
    "linear": ("linear", 0.0),
    "warmup": ("linear", 0.1),
}
"""Name -> transformers' name, and the share of steps that warm up."""


class PaperSettings(NamedTuple):
    """One task's objective and default settings."""

    title: str
    kind: Kind
    epochs: float
    lr: float
    batch: int
    schedule: Schedule
    length: int
    """Most tokens in one row."""
    every: int
    """Most steps between two evaluations; a short run is evaluated ten times."""
    clip: float
    """Largest norm of a gradient; 0 does not clip."""
    lrs: tuple[float, ...]
    """Learning rates that a grid tries."""
    batches: tuple[int, ...]
    """Batch sizes that a grid tries."""
    short: float = 2
    """Epochs that a grid tries too, with a rate that falls: how fast it falls depends on them."""


def _answering(title: str, length: int) -> PaperSettings:
    """van Aken et al. (2019): five epochs, the best evaluation kept, rate and batch size by grid."""
    return PaperSettings(title, "span", 5, 3e-5, 32, "warmup", length, 1000, 1.0, (3e-5, 5e-5, 1e-4), (16, 32))


def _plain(title: str, kind: Kind, batch: int, lr: float = 5e-5) -> PaperSettings:
    """Zhao et al. (2020): plain Adam, constant rate, no warm-up, no decay, no clipping, 128 tokens."""
    return PaperSettings(title, kind, 5, lr, batch, "constant", 128, 1000, 0.0, (2e-5, 5e-5, 1e-4), (32, batch))


PAPER_SETTINGS: dict[Task, PaperSettings] = {
    "squad": _answering("answer a question by a span of its context (SQuAD, XQuAD)", 384),
    "hotpot": _answering("answer a question over several paragraphs (HotpotQA)", 512),
    "babi": _answering("answer a question about a story (bAbI, generated stories)", 384),
    "pos": _plain("part of speech, read off each word's last token", "tags", 150),
    "ner": _plain("named entities as BIO tags, read off each word's last token", "tags", 32),
    "tag": _plain("any labels of single words, read off each word's last token", "tags", 32),
    "classify": _plain("the class of a text (question types, SST-2, bAbI answers)", "class", 200),
    "pairs": _plain("the class of two sentences (MRPC; question and answer sentence)", "class", 350),
    "mlm": _plain("15 % of the tokens, masked (masked language model)", "masked", 32),
}
"""Task -> its recipe."""


Vary = Literal["both", "init", "order"]
"""What seeds vary: new weights, the order of the texts (and dropout), or both."""


class TrainingPlan(NamedTuple):
    """All settings of one training."""

    epochs: float
    lr: float
    batch: int
    schedule: Schedule
    seed: int
    max_steps: int | None
    every: int
    clip: float
    freeze: int | None = None
    """The last of the layers, from 0 on, that keep their weights; None where all are trained."""
    reset: int = 0
    """How many of the top blocks begin with new random weights."""
    init_seed: int | None = None
    """Of new weights, where it is another one than `seed`."""
    order_seed: int | None = None
    """Of the order of the texts and of dropout, where it is another one than `seed`."""

    @property
    def init(self) -> int:
        """The seed of new weights."""
        return self.seed if self.init_seed is None else self.init_seed

    @property
    def order(self) -> int:
        """The seed of the order of the texts and of dropout."""
        return self.seed if self.order_seed is None else self.order_seed

    def again(self, seed: int, vary: Vary) -> TrainingPlan:
        """The same plan with another seed, of all that is random or of one source alone.

        Example:
            >>> plan = TrainingPlan(1, 1e-3, 8, "constant", 0, None, 1, 1.0)
            >>> (plan.again(3, "both").init, plan.again(3, "both").order), plan.again(3, "order").init
            ((3, 3), 0)
        """
        if vary == "init":
            return self._replace(seed=seed, order_seed=self.order)
        return self._replace(seed=seed, init_seed=self.init) if vary == "order" else self._replace(seed=seed)

    def steps(self, rows: int) -> int:
        """Number of updates for this many rows."""
        in_all = max(1, round(self.epochs * -(-rows // self.batch)))
        return in_all if self.max_steps is None else min(in_all, self.max_steps)


def make_plans(
    recipe: PaperSettings,
    *,
    epochs: float | None,
    lr: float | None,
    batch: int | None,
    schedule: Schedule | None,
    seed: int,
    max_steps: int | None,
    grid: bool,
    freeze: int | None = None,
    reset: int = 0,
) -> list[TrainingPlan]:
    """What to try: one plan, or with `grid` every rate, batch size, schedule and number of epochs that is not given.

    With a constant rate, or where `max_steps` ends the run, one number of epochs is enough: the best step of the longer
    run is looked for among those of the shorter one too.

    Example:
        >>> asked = {"epochs": None, "lr": 1e-4, "batch": 32, "schedule": None, "seed": 0, "max_steps": None}
        >>> [(plan.schedule, plan.epochs) for plan in make_plans(PAPER_SETTINGS["squad"], **asked, grid=True)]
        [('constant', 5), ('linear', 2), ('linear', 5), ('warmup', 2), ('warmup', 5)]
    """
    for what, value in (("epochs", epochs), ("lr", lr)):
        if value is not None and not value > 0:
            raise InputError(f"{what} must be more than 0; got {value}")
    lrs = (lr,) if lr is not None else recipe.lrs if grid else (recipe.lr,)
    batches = (batch,) if batch is not None else tuple(sorted(set(recipe.batches))) if grid else (recipe.batch,)
    schedules = (schedule,) if schedule is not None else tuple(SCHEDULES) if grid else (recipe.schedule,)

    def lengths(one: Schedule) -> tuple[float, ...]:
        if epochs is not None:
            return (epochs,)
        falls = grid and one != "constant" and max_steps is None
        return (recipe.short, recipe.epochs) if falls else (recipe.epochs,)

    return [
        TrainingPlan(length, rate, size, one, seed, max_steps, recipe.every, recipe.clip, freeze, reset)
        for rate in lrs
        for size in batches
        for one in schedules
        for length in lengths(one)
    ]


LOWER_IS_BETTER = frozenset({"loss"})


def by_seed(curve: pd.DataFrame) -> list[pd.DataFrame]:
    """The learning curve of each seed; folders of older versions have one seed and do not name it.

    Example:
        >>> [len(each) for each in by_seed(pd.DataFrame({"seed": [0, 0, 1], "step": [1, 2, 1]}))]
        [2, 1]
    """
    return [group for _, group in curve.groupby("seed", sort=False)] if "seed" in curve.columns else [curve]


def best_step(curve: pd.DataFrame) -> int:
    """The step of one seed that does best on the selection set, by the first metric noted there; of equals, the first.

    Example:
        >>> rows = [(10, 1.0, "select", "f1", 0.5), (20, 2.0, "select", "f1", 0.75), (30, 3.0, "select", "f1", 0.75)]
        >>> best_step(pd.DataFrame(rows, columns=["step", "epoch", "split", "metric", "value"]))
        20
    """
    columns = (curve[name] for name in ("split", "metric", "step", "value"))
    chosen = [(metric, step, value) for split, metric, step, value in zip(*columns, strict=True) if split == "select"]
    if not chosen:
        return int(max(curve["step"]))
    first = chosen[0][0]
    points = [(value, step) for metric, step, value in chosen if metric == first]
    best = (min if first in LOWER_IS_BETTER else max)(points, key=lambda point: point[0])
    return int(best[1])
