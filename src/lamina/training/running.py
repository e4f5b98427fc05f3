"""One training with transformers' Trainer: evaluated along the way, best step kept, continued where it was stopped."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from safetensors import SafetensorError
from transformers import PrinterCallback, Trainer, TrainerCallback, TrainingArguments

from lamina.encoders.batching import bucket
from lamina.encoders.pieces import token_id
from lamina.encoders.placement import input_device
from lamina.encoders.quiet import quiet_transformers
from lamina.errors import DamagedError, WriteError
from lamina.files.checking import read_json, write_json
from lamina.files.writing import fresh_folder
from lamina.progress import Advance, progress, say
from lamina.training.attention import Sight
from lamina.training.checkpoints import are_sound, checkpoint_folder, hashes, is_sound, last_checkpoint, seal
from lamina.training.objective import Batch, Item, Objective, Outcome, Row
from lamina.training.recipes import SCHEDULES, Plan

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerFast


class Collator:
    """Makes a batch of rows, as wide as its longest."""

    def __init__(
        self,
        objective: Objective,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerFast,
        sight: Sight | None = None,
    ) -> None:
        self._objective = objective
        self._pad = token_id(tokenizer.pad_token_id) or 0
        self._takes_types = (getattr(model.config, "type_vocab_size", 0) or 0) > 1
        self._sight = sight

    def __call__(self, rows: Sequence[Row]) -> Batch:
        width = max(len(row.ids) for row in rows)
        ids = np.full((len(rows), width), self._pad)
        mask, types = np.zeros_like(ids), np.zeros_like(ids)
        for b, row in enumerate(rows):
            size = len(row.ids)
            ids[b, :size] = row.ids
            types[b, :size] = row.types
            mask[b, :size] = 1
        seen = torch.from_numpy(mask) if self._sight is None else self._sight(rows, width)
        batch = {"input_ids": torch.from_numpy(ids), "attention_mask": seen}
        if self._takes_types:
            batch["token_type_ids"] = torch.from_numpy(types)
        return self._objective.label(batch, rows)


_OUTPUTS = ("logits", "start_logits", "end_logits")


def predict(model: PreTrainedModel, objective: Objective, rows: Sequence[Row], collator: Collator) -> list[Any]:
    """What the objective reads of each row, in their order; batches hold rows of similar length."""
    device = input_device(model)
    budget = 2048 if device.type == "cpu" else 32768
    said: list[Any] = [None] * len(rows)
    training = model.training
    model.eval()
    for group in bucket([len(row.ids) for row in rows], budget):
        chosen = [rows[i] for i in group]
        batch = {name: tensor.to(device) for name, tensor in collator(chosen).items()}
        with torch.no_grad(), torch.autocast(device.type, torch.bfloat16, enabled=mixes(device)):
            out = model(**batch)
        found = {name: out[name] for name in _OUTPUTS if name in out}
        for i, own in zip(group, objective.read(chosen, found, batch), strict=True):
            said[i] = own
    model.train(training)
    return said


def judge(
    model: PreTrainedModel, objective: Objective, items: Sequence[Item], rows: Sequence[Row], collator: Collator
) -> list[Outcome]:
    """Scores each text; `rows` are those of the texts, in order."""
    told: list[list[Any]] = [[] for _ in items]
    for row, said in zip(rows, predict(model, objective, rows, collator), strict=True):
        told[row.item].append(said)
    return [objective.judge(item, said) for item, said in zip(items, told, strict=True)]


def rows_of(objective: Objective, items: Sequence[Item]) -> list[Row]:
    """The rows of all texts."""
    return [row for number, item in enumerate(items) for row in objective.rows(number, item)]


def mixes(device: torch.device) -> bool:
    """Whether to compute in mixed precision: on a GPU that has bfloat16, never on a CPU."""
    return device.type == "cuda" and torch.cuda.is_bf16_supported()


Evaluate = Callable[["PreTrainedModel"], Mapping[str, float]]
"""A model -> its scores on the selection set."""

_DONE, _BEST = "done.json", "best"
_LOGS = 10
"""Losses noted between two evaluations."""
_EVALUATIONS = 10
"""At least, in one run."""
_TIMED = 3
"""Steps timed for an estimate; fewer where they are slow."""
_TIMED_SECONDS = 5.0


class Point(NamedTuple):
    """One point of the learning curve."""

    step: int
    epoch: float
    split: str
    metric: str
    value: float


class Trained(NamedTuple):
    """The outcome of one training."""

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
    """Train, continue in `folder`, or read what is finished there; the model ends as it was at its best step."""
    finished = _finished(folder)
    if finished is not None:
        return finished
    steps = plan.steps(len(rows))
    arguments = _arguments(plan, folder, steps, model.device, metric=metric, greater=greater)
    best = folder / _BEST
    with quiet_transformers(), ExitStack() as stack:
        advance = stack.enter_context(progress(what, steps))
        trainer = _Evaluated(model, arguments, rows, collator, evaluate, [_Watch(advance), *callbacks])
        checkpoint = last_checkpoint(folder)
        trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
        with fresh_folder(best) as fresh:
            model.save_pretrained(fresh)
    state = trainer.state
    trained = Trained(
        best, float(state.best_metric or 0.0), state.best_global_step or steps, _curve(state.log_history, metric)
    )
    done = {"best": trained.best, "step": trained.step, "curve": trained.curve, "files": hashes(best)}
    write_json(folder / _DONE, done)
    for each in folder.glob("checkpoint-*"):
        shutil.rmtree(each)
    return trained


def _finished(folder: Path) -> Trained | None:
    """What a finished training left; none if it is not finished, or if that is damaged."""
    best = folder / _BEST
    try:
        done = read_json(folder / _DONE)
    except FileNotFoundError:
        return None
    except DamagedError as error:
        say(f"{error}; training starts again")
        return None
    if not are_sound(best, done.get("files", {})):
        say(f"the model in {best} is damaged; training starts again")
        return None
    return Trained(best, done["best"], done["step"], [Point(*point) for point in done["curve"]])


class _Evaluated(Trainer):
    """The Trainer, with evaluation by our own rules: whole texts judged, not logits averaged.

    A checkpoint that cannot be written does not end the training. If the best weights would have been in it, they are
    kept in memory.
    """

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
        self._best_weights: dict[str, torch.Tensor] | None = None
        self._told = False
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

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        step = self.state.global_step
        folder = checkpoint_folder(Path(str(self.args.output_dir)), step)
        is_best = self.state.best_global_step == step
        try:
            super()._save_checkpoint(model, trial)
            seal(folder)
        except (OSError, RuntimeError, SafetensorError, WriteError) as error:
            # torch gives a RuntimeError where it cannot write, with no reason in it.
            shutil.rmtree(folder, ignore_errors=True)
            if not self._told:
                say(f"no checkpoint at step {step:,}, training goes on: {str(error).splitlines()[0]}")
            self._told = True
            if is_best:
                own: Any = self.model
                self._best_weights = {name: part.detach().cpu().clone() for name, part in own.state_dict().items()}
                self.state.best_model_checkpoint = str(folder)
        else:
            if is_best:
                self._best_weights = None

    def _load_best_model(self) -> None:
        own: Any = self.model
        best = Path(str(self.state.best_model_checkpoint))
        if self._best_weights is not None:
            own.load_state_dict(self._best_weights)
        elif is_sound(best):
            super()._load_best_model()
        else:
            raise DamagedError(f"{best} is damaged, and the best weights were in it; run the same command again")


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
    often, every = _intervals(plan, steps)
    return TrainingArguments(
        output_dir=str(folder),
        max_steps=steps,
        per_device_train_batch_size=plan.batch,
        learning_rate=plan.lr,
        lr_scheduler_type=schedule,
        warmup_steps=round(warmup * steps),
        weight_decay=0.0,
        max_grad_norm=plan.clip,
        # One kernel for all parameters: an eighth of the time of one step per parameter, and the same numbers.
        optim="adamw_torch_fused",
        seed=plan.seed,
        data_seed=plan.seed,
        eval_strategy="steps",
        eval_steps=every,
        save_strategy="steps",
        save_steps=every,
        save_total_limit=2,
        logging_steps=often,
        # It would wait for the device after every step.
        logging_nan_inf_filter=False,
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


def _intervals(plan: Plan, steps: int) -> tuple[int, int]:
    """Steps between two noted losses, and between two evaluations.

    Losses are noted at the same steps before and after a restart: checkpoints fall on them.
    """
    most = min(plan.every, -(-steps // _EVALUATIONS))
    often = max(1, most // _LOGS)
    return often, max(1, most // often) * often


def evaluations(plan: Plan, steps: int) -> int:
    """How often a run of this many steps is evaluated and saved; the last step always is.

    Example:
        >>> evaluations(Plan(1, 1e-4, 16, "constant", 0, None, 1000, 1.0), 120)
        10
    """
    return -(-steps // _intervals(plan, steps)[1])


def time_step(model: PreTrainedModel, rows: Sequence[Row], collator: Collator, plan: Plan) -> float:
    """Seconds of one training step on rows like these; the model is changed by it."""
    draw = torch.Generator().manual_seed(plan.seed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=plan.lr, fused=True)
    model.train()
    took: list[float] = []
    # The first step is a warm-up and not timed.
    while len(took) <= _TIMED and sum(took[1:]) < _TIMED_SECONDS:
        start = time.perf_counter()
        chosen = torch.randint(len(rows), (plan.batch,), generator=draw).tolist()
        batch = {name: part.to(model.device) for name, part in collator([rows[at] for at in chosen]).items()}
        with torch.autocast(model.device.type, torch.bfloat16, enabled=mixes(model.device)):
            loss = model(**batch).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        # Reading a number waits for the device.
        loss.item()
        took.append(time.perf_counter() - start)
    return sum(took[1:]) / len(took[1:])


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
