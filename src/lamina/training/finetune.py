"""Fine-tuning: train every plan, keep the best one, score it once, and make its folder a model that anyone can load."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from lamina.corpora.questions.question import Question
from lamina.errors import DamagedError
from lamina.files.checking import read_json, write_json
from lamina.files.writing import readable_write_errors, write_text
from lamina.models.running.huggingface import HuggingFaceEncoder
from lamina.models.series import log_steps
from lamina.training.heads import layers_in_words, load_with_head, make_sight, prepare_layers, reload, source_of
from lamina.training.objective import (
    IGNORED,
    Item,
    MaskedObjective,
    Objective,
    Sum,
    TextOutcome,
    TrainingRow,
    contrast_table,
    means,
    score_table,
    seed_table,
    spread_table,
    text_of,
    unit_kind,
)
from lamina.training.provenance import ABOUT, FORMAT, GUARD, TEXTS, guard_of, seed_folder, text_hash, used_texts
from lamina.training.reading import Sets
from lamina.training.running import (
    ON_THE_WAY,
    Collator,
    CurvePoint,
    TrainedPlan,
    evaluations,
    judge,
    losses,
    rows_of,
    train,
    weight_hashes,
)
from lamina.training.settings import PAPER_SETTINGS, Task, TrainingPlan, Vary
from lamina.training.spans import SpanObjective
from lamina.training.tags import ClassObjective, TagObjective

if TYPE_CHECKING:
    import pandas
    from transformers import PreTrainedTokenizerFast

_STEPS = 8
"""Log-spaced steps at which a model is kept, beside the first."""
_SCORED = "scored.json"
"""In the folder of a training: how its model did."""
_TRIED = 100
"""Texts of each set that an estimate looks at."""


class PlanTrial(NamedTuple):
    """One plan and its outcome."""

    plan: TrainingPlan
    trained: TrainedPlan


class FinetunedModel(NamedTuple):
    """What a fine-tuning leaves behind."""

    tables: dict[str, pandas.DataFrame]
    skipped: dict[str, int]
    files: dict[str, Path]
    """The model folder, file by file; of several seeds one folder each."""


class PlanOutcome(NamedTuple):
    """What one plan learned, without its model."""

    step: int
    """The one that did best on the selection set."""
    curve: list[CurvePoint]
    scored: list[TextOutcome]
    noted: dict[str, int]
    """What was noted when the scored texts were judged."""


class SetRows(NamedTuple):
    """The rows of the three sets, made once; what was cut or left out of them is noted by set."""

    train: list[TrainingRow]
    select: list[TrainingRow]
    scored: list[TrainingRow]
    noted: dict[str, dict[str, int]]


class ExpectedCost(NamedTuple):
    """What a fine-tuning would take."""

    steps: int
    tokens: int
    """Of the training rows, once."""
    read: float
    """Tokens that pass through the model in all, those of a step counted three times."""
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
    keeps: bool = False
    """Whether the model is kept at log-spaced steps."""

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
        keeps: bool = False,
    ) -> Finetuning:
        """With the labels of the training texts; raises an InputError where these cannot be learned."""
        return cls(encoder, sets, task, _objective(task, encoder, sets, length, seed), attention_window, keeps)

    def run(self, plans: Sequence[TrainingPlan], work: Path, *, seeds: int = 1, vary: Vary = "both") -> FinetunedModel:
        """Train every plan in `work`, choose on the selection set, score once; continues what was stopped.

        With several `seeds` the chosen plan is trained again with the following seeds, and all models are kept.
        """
        import pandas as pd

        objective, sets = self.objective, self.sets
        # Made before anything is written: data that cannot be learned leaves nothing behind.
        _ = self.rows
        trials = try_all(plans, work, self._train)
        chosen = best_of(trials, greater=objective.greater)
        first = chosen.plan.seed
        others = [chosen.plan.again(seed, vary) for seed in range(first + 1, first + seeds)]
        finished = [chosen, *try_all(others, work, self._train, names=[seed_folder(plan.seed) for plan in others])]
        learned = {entry.plan.seed: self._score(entry.trained) for entry in finished}
        scored = [entry.scored for entry in learned.values()]
        constant = objective.constant(sets.train, sets.scored)
        curve = [(seed, *point) for seed, entry in learned.items() for point in entry.curve]
        tables = {
            "curve": pd.DataFrame(curve, columns=["seed", *CurvePoint._fields]),
            "scores": score_table("scored", *scored, seed=first),
            "baseline": pd.DataFrame(means(constant).items(), columns=["metric", "value"]),
            "contrasts": contrast_table(scored, constant, unit_kind(sets.scored), seed=first),
        }
        if len(trials) > 1:
            tables["grid"] = grid_table(trials, chosen, objective.metric)
        if seeds > 1:
            tables["seeds"] = seed_table({seed: entry.scored for seed, entry in learned.items()}, seed=first)
            tables["spread"] = spread_table(tables["seeds"], vary)
        files = {
            f"{seed_folder(entry.plan.seed)}/{name}" if seeds > 1 else name: path
            for entry in finished
            for name, path in self._model_files(entry).items()
        }
        for entry in finished:
            files |= self._kept_files(entry)
        return FinetunedModel(tables, self._skipped(learned[first].noted), files)

    def learn(self, plan: TrainingPlan, work: Path) -> PlanOutcome:
        """Train one plan and score it; the model itself is not kept, and what was finished before is read."""
        path = work / _SCORED
        stored = _read_learned(path)
        if stored is not None:
            return stored[0]
        with readable_write_errors(work):
            work.mkdir(parents=True, exist_ok=True)
        trained = self._train(plan, work)
        outcome = self._score(trained)
        shutil.rmtree(trained.folder, ignore_errors=True)
        return outcome

    @cached_property
    def rows(self) -> SetRows:
        """The rows of the three sets; of the training texts those with a label to learn."""
        objective, by_set, noted = self.objective, {}, {}
        for name in ("train", "select", "scored"):
            objective.noted.clear()
            by_set[name] = rows_of(objective, getattr(self.sets, name))
            noted[name] = dict(objective.noted)
        objective.noted.clear()
        return SetRows([row for row in by_set["train"] if _teaches(row)], by_set["select"], by_set["scored"], noted)

    @cached_property
    def scored_rows(self) -> list[TrainingRow]:
        """The rows of the scored texts alone."""
        return rows_of(self.objective, self.sets.scored)

    def judge(self, model: Any) -> list[TextOutcome]:
        """How a model with the task's head does on the scored texts: one outcome per text."""
        return judge(model, self.objective, self.sets.scored, self.scored_rows, self._collator(model))

    def losses(self, model: Any) -> list[TextOutcome]:
        """The loss that a model with the task's head has on the scored texts: one outcome per text."""
        return losses(model, self.sets.scored, self.scored_rows, self._collator(model))

    def _score(self, trained: TrainedPlan) -> PlanOutcome:
        """How a trained model does on the scored texts; read where this very model was scored before."""
        path, weights = trained.folder.parent / _SCORED, weight_hashes(trained.folder)
        stored = _read_learned(path)
        if stored is not None and stored[1] == weights:
            return stored[0]
        model: Any = reload(trained.folder, self.objective.head)
        model = model.to(self.encoder.model.device)
        self.objective.noted.clear()
        scored = judge(model, self.objective, self.sets.scored, self.rows.scored, self._collator(model))
        outcome = PlanOutcome(trained.step, trained.curve, scored, dict(self.objective.noted))
        serialised = [
            [text_outcome.unit, text_outcome.task, {name: [*total] for name, total in text_outcome.sums.items()}]
            for text_outcome in scored
        ]
        write_json(path, outcome._asdict() | {"scored": serialised, "weights": weights})
        return outcome

    def _skipped(self, judged: Mapping[str, int]) -> dict[str, int]:
        """What was cut or left out, of what is trained on and of what is scored; not of what is only selected by."""
        noted = self.rows.noted
        skipped = dict(self.sets.left_out)
        skipped |= {f"training: {what}": count for what, count in noted["train"].items()}
        return skipped | {f"scored: {what}": count for what, count in {**noted["scored"], **judged}.items()}

    def _model_files(self, trial: PlanTrial) -> dict[str, Path]:
        about = self._about(trial.plan, trial.trained.step)
        return model_files(trial.trained.folder, self.encoder.tokenizer, about, self._used)

    def _kept_files(self, trial: PlanTrial) -> dict[str, Path]:
        """The model at every step that was kept, one folder each: together they are a series."""
        files: dict[str, Path] = {}
        for folder in sorted((trial.trained.folder.parent / ON_THE_WAY).glob("step*")) if self.keeps else ():
            about = self._about(trial.plan, int(folder.name.removeprefix("step")))
            parts = model_files(folder, self.encoder.tokenizer, about, self._used)
            files |= {f"seed{trial.plan.seed}-{folder.name}/{name}": path for name, path in parts.items()}
        return files

    def expect(self, plans: Sequence[TrainingPlan], *, seeds: int = 1) -> ExpectedCost:
        """What `run` would take, by the tokens of some of its rows."""
        objective, sets = self.objective, self.sets
        some = _spread(sets.train, _TRIED)
        rows = [row for row in rows_of(objective, some) if _teaches(row)]
        share = len(sets.train) / len(some)
        length = sum(len(row.ids) for row in rows) / max(1, len(rows))
        steps, read = 0, seeds * length * len(sets.scored)
        # Which plan is trained with further seeds is not known yet.
        for plan in (*plans, *[plans[0]] * (seeds - 1)):
            plan_steps = plan.steps(round(len(rows) * share))
            steps += plan_steps
            # The way back takes twice as long as the way there.
            read += 3 * plan_steps * plan.batch * length
            read += evaluations(plan, plan_steps) * length * len(sets.select)
        size = sum(part.nbytes for part in self.encoder.model.parameters())
        return ExpectedCost(steps, round(length * len(rows) * share), read, size)

    def _train(self, plan: TrainingPlan, folder: Path) -> TrainedPlan:
        objective, rows = self.objective, self.rows
        model: Any = load_with_head(self.encoder, objective, seed=plan.init)
        model = model.to(self.encoder.model.device)
        prepare_layers(model, self.encoder, plan)
        collator = self._collator(model)

        def evaluate(model: Any) -> dict[str, float]:
            return means(judge(model, objective, self.sets.select, rows.select, collator))

        what = (
            f"{self.task}: {self.encoder.name}, lr {plan.lr:g}, batch {plan.batch}, {plan.schedule}, seed {plan.seed}"
            f"{layers_in_words(plan, self.encoder)}"
        )
        chooses = {"metric": objective.metric, "greater": objective.greater}
        keep = [0, *log_steps(plan.steps(len(rows.train)), _STEPS)] if self.keeps else []
        return train(model, rows.train, collator, evaluate, plan, folder, what=what, keep=keep, **chooses)

    def _collator(self, model: Any) -> Collator:
        reach, causal = self.attention_window, self.encoder.causal
        sight = None if reach is None else make_sight(model, reach, causal=causal)
        return Collator(self.objective, model, self.encoder.tokenizer, sight)

    @cached_property
    def _used(self) -> set[str]:
        """Hashes of all texts that this model, or the one it came from, has learned from or was selected by."""
        used = {text_hash(text_of(item)) for item in (*self.sets.train, *self.sets.select)}
        return used | used_texts(source_of(self.encoder))

    def _about(self, plan: TrainingPlan, step: int) -> dict[str, Any]:
        asks = isinstance(self.sets.train[0], Question)
        return {
            "task": self.task,
            "head": self.objective.head,
            "labels": self.objective.labels,
            "layers": self.encoder.layers,
            "length": self.objective.length,
            "attention_window": self.attention_window,
            "view": self.sets.view.describe() if asks else None,
            "guard": min(GUARD, guard_of(source_of(self.encoder))),
            "base": self.encoder.describe() | _home(self.encoder),
            "data": self.sets.describe(),
            "plan": plan._asdict(),
            "best_step": step,
        }


def _home(encoder: HuggingFaceEncoder) -> dict[str, str]:
    """Where a model is that has the name of its folder; one of the hub or an alias is found by its name."""
    source = Path(source_of(encoder))
    return {"folder": str(source)} if source.is_dir() and source.name == encoder.name else {}


def _read_learned(path: Path) -> tuple[PlanOutcome, dict[str, str]] | None:
    """What was kept of a training, and the hashes of the weights that were scored; none where nothing sound is kept."""
    try:
        content = read_json(path)
        scored = [
            TextOutcome(unit, {name: Sum(*total) for name, total in sums.items()}, task)
            for unit, task, sums in content["scored"]
        ]
        curve = [CurvePoint(*point) for point in content["curve"]]
        return PlanOutcome(content["step"], curve, scored, content["noted"]), content["weights"]
    except (FileNotFoundError, DamagedError, KeyError):
        return None


def try_all(
    plans: Sequence[TrainingPlan],
    folder: Path,
    run: Callable[[TrainingPlan, Path], TrainedPlan],
    *,
    names: Sequence[str] | None = None,
) -> list[PlanTrial]:
    """Train every plan in a folder of its own; those finished before are read, not trained again."""
    trials = []
    for plan, name in zip(plans, names or [f"trial-{number}" for number in range(len(plans))], strict=True):
        plan_folder = folder / name
        with readable_write_errors(plan_folder):
            plan_folder.mkdir(parents=True, exist_ok=True)
        trials.append(PlanTrial(plan, run(plan, plan_folder)))
    return trials


def best_of(trials: Sequence[PlanTrial], *, greater: bool) -> PlanTrial:
    """The trial that did best on the selection set; of equals, the first."""
    return (max if greater else min)(trials, key=lambda trial: trial.trained.best)


def grid_table(trials: Sequence[PlanTrial], chosen: PlanTrial, metric: str) -> pandas.DataFrame:
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
    with readable_write_errors(best):
        tokenizer.save_pretrained(best)
    write_text(best / ABOUT, json.dumps({"format": FORMAT, **about}, indent=2, default=str) + "\n")
    write_text(best / TEXTS, "".join(f"{line}\n" for line in sorted(set(used))))
    return {path.name: path for path in sorted(best.iterdir()) if path.is_file()}


def _objective(task: Task, encoder: HuggingFaceEncoder, sets: Sets, length: int, seed: int) -> Objective:
    words, kind = encoder.word_tokenizer, PAPER_SETTINGS[task].kind
    if kind == "span":
        return SpanObjective(words, length)
    if kind == "class":
        return ClassObjective.learn(words, length, sets.train)
    if kind == "tags":
        return TagObjective.learn(words, length, task, sets.train)
    return MaskedObjective(words, length, encoder.tokenizer, seed)


def _teaches(row: TrainingRow) -> bool:
    """Whether there is a label to learn: a loss over nothing is not a number."""
    return not (hasattr(row.labels, "all") and bool((row.labels == IGNORED).all()))


def _spread(items: Sequence[Item], count: int) -> Sequence[Item]:
    """About `count` items from all over the set."""
    return items[:: max(1, len(items) // count)]
