"""One training: transformers' Trainer, evaluated as it goes, its best step kept, continued where it was stopped."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from transformers import PrinterCallback, Trainer, TrainerCallback, TrainingArguments

from lamina.encoders.quiet import quiet_transformers
from lamina.progress import Advance, progress
from lamina.training.collating import Collator
from lamina.training.objective import Row
from lamina.training.predicting import mixes
from lamina.training.recipes import SCHEDULES, Plan

if TYPE_CHECKING:
    from transformers import PreTrainedModel

Evaluate = Callable[["PreTrainedModel"], Mapping[str, float]]
"""A model -> its scores on the selection set."""

_LOGS = 10
"""Losses noted between two evaluations."""
_EVALUATIONS = 10
"""Of a run that is shorter than that many of its usual intervals."""


class Point(NamedTuple):
    """One point of the learning curve."""

    step: int
    epoch: float
    split: str
    metric: str
    value: float


class Trained(NamedTuple):
    """What one training came to."""

    folder: Path
    """The weights of its best step."""
    best: float
    step: int
    curve: list[Point]


def train(
    model: PreTrainedModel,
    rows: Sequence[Row],
    collator: Collator,
    evaluate: Evaluate,
    plan: Plan,
    folder: Path,
    *,
    metric: str,
    greater: bool,
    what: str,
    callbacks: Sequence[TrainerCallback] = (),
) -> Trained:
    """Train, or continue in `folder`, or read there what is finished; the model ends as it was at its best step."""
    done = folder / "done.json"
    best = folder / "best"
    if done.is_file():
        said = json.loads(done.read_text(encoding="utf-8"))
        return Trained(best, said["best"], said["step"], [Point(*point) for point in said["curve"]])
    steps = plan.steps(len(rows))
    arguments = _arguments(plan, folder, steps, model.device, metric=metric, greater=greater)
    with quiet_transformers(), ExitStack() as stack:
        advance = stack.enter_context(progress(what, steps))
        trainer = _Evaluated(model, arguments, rows, collator, evaluate, [_Watch(advance), *callbacks])
        checkpoint = last_checkpoint(folder)
        trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
        model.save_pretrained(best)
    curve = _curve(trainer.state.log_history, metric)
    value = trainer.state.best_metric
    found = {"best": value, "step": trainer.state.best_global_step, "curve": curve}
    _write(done, json.dumps(found))
    for each in folder.glob("checkpoint-*"):
        shutil.rmtree(each)
    return Trained(best, float(value or 0.0), trainer.state.best_global_step or steps, curve)


class _Evaluated(Trainer):
    """The Trainer, with evaluation by our own rules: whole texts judged, not logits averaged."""

    def __init__(
        self,
        model: PreTrainedModel,
        arguments: TrainingArguments,
        rows: Sequence[Row],
        collator: Collator,
        evaluate: Evaluate,
        callbacks: list[TrainerCallback],
    ) -> None:
        self._evaluate_model = evaluate
        data: Any = rows
        super().__init__(
            model, arguments, data_collator=collator, train_dataset=data, eval_dataset=data, callbacks=callbacks
        )
        self.remove_callback(PrinterCallback)

    def evaluate(
        self, eval_dataset: Any = None, ignore_keys: Any = None, metric_key_prefix: str = "eval"
    ) -> dict[str, float]:
        model: Any = self.model
        found = {f"{metric_key_prefix}_{name}": value for name, value in self._evaluate_model(model).items()}
        self.log(found)
        self.control = self.callback_handler.on_evaluate(self.args, self.state, self.control, found)
        return found


class _Watch(TrainerCallback):
    """Moves the progress bar, with the latest loss beside it, and has the last step evaluated too."""

    def __init__(self, advance: Advance) -> None:
        self._advance = advance

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._advance(state.global_step)

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._advance()
        if state.global_step >= state.max_steps:
            control.should_evaluate = True

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
        if logs and "loss" in logs:
            self._advance(0, note=f"loss {logs['loss']:.3f}")


def _arguments(
    plan: Plan, folder: Path, steps: int, device: torch.device, *, metric: str, greater: bool
) -> TrainingArguments:
    schedule, warmup = SCHEDULES[plan.schedule]
    often = max(1, min(plan.every, -(-steps // _EVALUATIONS)) // _LOGS)
    # Losses are noted at the same steps before and after a restart: checkpoints fall on them.
    every = max(1, min(plan.every, -(-steps // _EVALUATIONS)) // often) * often
    return TrainingArguments(
        output_dir=str(folder),
        max_steps=steps,
        per_device_train_batch_size=plan.batch,
        learning_rate=plan.lr,
        lr_scheduler_type=schedule,
        warmup_steps=round(warmup * steps),
        weight_decay=0.0,
        max_grad_norm=plan.clip,
        optim="adamw_torch",
        seed=plan.seed,
        data_seed=plan.seed,
        eval_strategy="steps",
        eval_steps=every,
        save_strategy="steps",
        save_steps=every,
        save_total_limit=2,
        logging_steps=often,
        load_best_model_at_end=True,
        metric_for_best_model=metric,
        greater_is_better=greater,
        bf16=mixes(device),
        use_cpu=device.type == "cpu",
        dataloader_pin_memory=device.type != "cpu",
        remove_unused_columns=False,
        disable_tqdm=True,
        report_to="none",
    )


def last_checkpoint(folder: Path) -> Path | None:
    """The latest checkpoint that was written whole: its state comes last."""
    found = sorted(folder.glob("checkpoint-*"), key=lambda path: int(path.name.rpartition("-")[2]), reverse=True)
    return next((path for path in found if _is_whole(path)), None)


def _is_whole(checkpoint: Path) -> bool:
    try:
        return isinstance(json.loads((checkpoint / "trainer_state.json").read_text(encoding="utf-8")), dict)
    except (OSError, ValueError):
        return False


def _curve(history: Sequence[Mapping[str, float]], metric: str) -> list[Point]:
    """What chooses comes first; the rest by name, since a checkpoint forgets the order."""
    points = []
    for entry in history:
        step, epoch = int(entry["step"]), float(entry.get("epoch", 0.0))
        if "loss" in entry:
            points.append(Point(step, epoch, "train", "loss", float(entry["loss"])))
        points += [
            Point(step, epoch, "select", name.removeprefix("eval_"), float(value))
            for name, value in sorted(entry.items(), key=lambda pair: (pair[0] != f"eval_{metric}", pair[0]))
            if name.startswith("eval_")
        ]
    return points


def _write(path: Path, content: str) -> None:
    """Write the whole file or nothing."""
    fresh = path.with_suffix(".new")
    fresh.write_text(content, encoding="utf-8")
    fresh.replace(path)
