"""Fine-tuning: train every plan, keep the best one, score it once, and make its folder a model that anyone can load."""

from __future__ import annotations

import json
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from lamina.encoders.huggingface import HuggingFaceEncoder
from lamina.errors import DamagedError
from lamina.files.checking import read_json, write_json
from lamina.files.writing import told, write_text
from lamina.training.attention import make_sight
from lamina.training.classes import Classifying
from lamina.training.heads import load_with_head, reload, source_of
from lamina.training.masked import Masking
from lamina.training.objective import (
    IGNORED,
    UNSEEN,
    Item,
    Objective,
    Outcome,
    Row,
    Sum,
    means,
    score_table,
    seed_table,
    text_of,
)
from lamina.training.provenance import ABOUT, FORMAT, TEXTS, text_hash, used_texts
from lamina.training.reading import Sets
from lamina.training.recipes import RECIPES, Plan, Task
from lamina.training.running import (
    Collator,
    Point,
    Trained,
    evaluations,
    judge,
    rows_of,
    time_step,
    train,
)
from lamina.training.spans import Answering
from lamina.training.tags import Tagging

if TYPE_CHECKING:
    import pandas
    from transformers import PreTrainedTokenizerFast

_SCORED = "scored.json"
"""In the folder of a training whose model is not kept: how it did."""
_TRIED = 100
"""Texts of each set that an estimate looks at."""


class Trial(NamedTuple):
    """One plan and its outcome."""

    plan: Plan
    trained: Trained


class Finetuned(NamedTuple):
    """What a fine-tuning leaves behind."""

    tables: dict[str, pandas.DataFrame]
    skipped: dict[str, int]
    files: dict[str, Path]
    """The model folder, file by file."""


class Learned(NamedTuple):
    """What one plan learned, without its model."""

    step: int
    """The one that did best on the selection set."""
    curve: list[Point]
    scored: list[Outcome]


class Expected(NamedTuple):
    """What a fine-tuning would take."""

    steps: int
    tokens: int
    """Of the training rows, once."""
    seconds: float
    size: int
    """Bytes of the model."""


@dataclass(frozen=True)
class Finetuning:
    """One model, one task and its data: what is learned, before anything is trained."""

    encoder: HuggingFaceEncoder
    sets: Sets
    task: Task
    objective: Objective
    attention_window: int | None

    @classmethod
    def of(
        cls,
        encoder: HuggingFaceEncoder,
        sets: Sets,
        task: Task,
        *,
        length: int,
        attention_window: int | None,
        seed: int,
    ) -> Finetuning:
        """With the labels of the training texts; raises an InputError where these cannot be learned."""
        return cls(encoder, sets, task, _objective(task, encoder, sets, length, seed), attention_window)

    def run(self, plans: Sequence[Plan], work: Path, *, seeds: int = 1) -> Finetuned:
        """Train every plan in `work`, choose on the selection set, score once; continues what was stopped.

        With several `seeds` the chosen plan is trained again with the following seeds. The folder is the model of the
        first: to keep the best of them would make it look better than it is.
        """
        import pandas as pd

        objective, sets = self.objective, self.sets
        rows, select = self._rows()
        learned = Counter(objective.noted)
        trials = try_all(plans, work, lambda plan, folder: self._train(plan, folder, rows, select))
        chosen = best_of(trials, greater=objective.greater)
        folder = chosen.trained.folder
        objective.noted.clear()
        scored = self._judge(folder)
        noted = Counter(objective.noted)
        baseline = objective.baseline(sets.train, sets.scored)
        tables = {
            "curve": pd.DataFrame(chosen.trained.curve, columns=list(Point._fields)),
            "scores": score_table("scored", scored, seed=chosen.plan.seed),
            "baseline": pd.DataFrame(baseline.items(), columns=["metric", "value"]),
        }
        if len(trials) > 1:
            tables["grid"] = grid_table(trials, chosen, objective.metric)
        if seeds > 1:
            first = chosen.plan.seed
            others = {seed: chosen.plan._replace(seed=seed) for seed in range(first + 1, first + seeds)}
            by_seed = {seed: self.learn(plan, work / f"seed-{seed}").scored for seed, plan in others.items()}
            tables["seeds"] = seed_table({first: scored, **by_seed}, seed=first)
        skipped = dict(sets.left_out)
        skipped |= {f"training: {what}": count for what, count in learned.items() if what != UNSEEN}
        skipped |= {f"scored: {what}": count for what, count in noted.items()}
        about = self._about(chosen.plan, chosen.trained.step)
        return Finetuned(tables, skipped, model_files(folder, self.encoder.tokenizer, about, self._used()))

    def learn(self, plan: Plan, work: Path) -> Learned:
        """Train one plan and score it; the model itself is not kept, and what was finished before is read."""
        path = work / _SCORED
        try:
            kept = read_json(path)
            return Learned(kept["step"], [Point(*each) for each in kept["curve"]], _outcomes(kept["scored"]))
        except (FileNotFoundError, DamagedError, KeyError):
            with told(work):
                work.mkdir(parents=True, exist_ok=True)
        trained = self._train(plan, work, *self._rows())
        made = Learned(trained.step, trained.curve, self._judge(trained.folder))
        said = [[each.unit, each.task, {name: [*own] for name, own in each.sums.items()}] for each in made.scored]
        write_json(path, {"step": made.step, "curve": made.curve, "scored": said})
        shutil.rmtree(trained.folder, ignore_errors=True)
        return made

    def _rows(self) -> tuple[list[Row], list[Row]]:
        """For training, and for selection; what was left out of the first is noted."""
        select = rows_of(self.objective, self.sets.select)
        # Noted for what is trained on and for what is scored; not for what is only selected by.
        self.objective.noted.clear()
        return _training_rows(self.objective, self.sets.train), select

    def _judge(self, folder: Path) -> list[Outcome]:
        """How the model of a folder does on the scored texts."""
        model: Any = reload(folder, self.objective.head)
        model = model.to(self.encoder.model.device)
        rows = rows_of(self.objective, self.sets.scored)
        return judge(model, self.objective, self.sets.scored, rows, self._collator(model))

    def expect(self, plans: Sequence[Plan], *, seeds: int = 1) -> Expected:
        """What `run` would take, by timing a few steps, a part of an evaluation and a checkpoint."""
        objective, sets = self.objective, self.sets
        some = _spread(sets.train, _TRIED)
        rows = _training_rows(objective, some)
        share = len(sets.train) / len(some)
        model: Any = load_with_head(self.encoder, objective, seed=plans[0].seed)
        model = model.to(self.encoder.model.device)
        collator = self._collator(model)
        judging = self._time_judging(model, collator)
        saving = _time_saving(model)
        by_batch = {plan.batch: time_step(model, rows, collator, plan) for plan in plans}
        steps, seconds = 0, seeds * judging * len(sets.scored)
        # Which plan is trained with further seeds is not known yet.
        for plan in (*plans, *[plans[0]] * (seeds - 1)):
            own = plan.steps(round(len(rows) * share))
            steps += own
            seconds += own * by_batch[plan.batch]
            seconds += evaluations(plan, own) * (judging * len(sets.select) + saving)
        tokens = round(sum(len(row.ids) for row in rows) * share)
        return Expected(steps, tokens, seconds, sum(part.nbytes for part in model.parameters()))

    def _train(self, plan: Plan, folder: Path, rows: Sequence[Row], select: Sequence[Row]) -> Trained:
        objective = self.objective
        model: Any = load_with_head(self.encoder, objective, seed=plan.seed)
        model = model.to(self.encoder.model.device)
        collator = self._collator(model)

        def evaluate(model: Any) -> dict[str, float]:
            return means(judge(model, objective, self.sets.select, select, collator))

        what = f"{self.task}: {self.encoder.name}, lr {plan.lr:g}, batch {plan.batch}"
        chooses = {"metric": objective.metric, "greater": objective.greater}
        return train(model, rows, collator, evaluate, plan, folder, what=what, **chooses)

    def _collator(self, model: Any) -> Collator:
        reach, causal = self.attention_window, self.encoder.causal
        sight = None if reach is None else make_sight(model, reach, causal=causal)
        return Collator(self.objective, model, self.encoder.tokenizer, sight)

    def _time_judging(self, model: Any, collator: Collator) -> float:
        """Seconds to answer and score one text."""
        some = _spread(self.sets.select, _TRIED)
        rows = rows_of(self.objective, some)
        start = time.perf_counter()
        judge(model, self.objective, some, rows, collator)
        return (time.perf_counter() - start) / len(some)

    def _used(self) -> set[str]:
        """Hashes of all texts that this model, or the one it came from, has learned from or was selected by."""
        own = {text_hash(text_of(item)) for item in (*self.sets.train, *self.sets.select)}
        return own | self.sets.behind | used_texts(source_of(self.encoder))

    def _about(self, plan: Plan, step: int) -> dict[str, Any]:
        return {
            "task": self.task,
            "head": self.objective.head,
            "labels": self.objective.labels,
            "length": self.objective.length,
            "attention_window": self.attention_window,
            "base": self.encoder.describe(),
            "data": self.sets.describe(),
            "plan": plan._asdict(),
            "best_step": step,
        }


def _outcomes(kept: Any) -> list[Outcome]:
    return [Outcome(unit, {name: Sum(*own) for name, own in sums.items()}, task) for unit, task, sums in kept]


def try_all(plans: Sequence[Plan], folder: Path, run: Callable[[Plan, Path], Trained]) -> list[Trial]:
    """Train every plan in a folder of its own; those finished before are read, not trained again."""
    trials = []
    for number, plan in enumerate(plans):
        own = folder / f"trial-{number}"
        with told(own):
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


def model_files(
    best: Path, tokenizer: PreTrainedTokenizerFast, about: Mapping[str, Any], used: Iterable[str]
) -> dict[str, Path]:
    """Complete the folder of the best step: tokenizer, what it is, which texts it has seen."""
    with told(best):
        tokenizer.save_pretrained(best)
    write_text(best / ABOUT, json.dumps({"format": FORMAT, **about}, indent=2, default=str) + "\n")
    write_text(best / TEXTS, "".join(f"{line}\n" for line in sorted(set(used))))
    return {path.name: path for path in sorted(best.iterdir()) if path.is_file()}


def _objective(task: Task, encoder: HuggingFaceEncoder, sets: Sets, length: int, seed: int) -> Objective:
    pieces, kind = encoder.pieces, RECIPES[task].kind
    if kind == "span":
        return Answering(pieces, length)
    if kind == "class":
        return Classifying.learn(pieces, length, sets.train)
    if kind == "tags":
        return Tagging.learn(pieces, length, task, sets.train)
    return Masking(pieces, length, encoder.tokenizer, seed)


def _training_rows(objective: Objective, items: Sequence[Item]) -> list[Row]:
    return [row for row in rows_of(objective, items) if _teaches(row)]


def _teaches(row: Row) -> bool:
    """Whether there is a label to learn: a loss over nothing is not a number."""
    return not (hasattr(row.labels, "all") and bool((row.labels == IGNORED).all()))


def _spread(items: Sequence[Item], count: int) -> Sequence[Item]:
    """About `count` items from all over the set."""
    return items[:: max(1, len(items) // count)]


def _time_saving(model: Any) -> float:
    """Seconds to save one checkpoint: the weights, and Adam's two moments of each."""
    import torch

    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        torch.save(model.state_dict(), Path(folder) / "weights.pt")
        return 3 * (time.perf_counter() - start)
