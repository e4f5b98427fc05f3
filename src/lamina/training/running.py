"""One training with transformers' Trainer: evaluated along the way, best step kept, continued where it was stopped."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from safetensors import SafetensorError
from torch import Tensor
from torch.nn import Module
from transformers import PrinterCallback, Trainer, TrainerCallback, TrainingArguments

from lamina.errors import DamagedError, ModelError, WriteError
from lamina.files.checking import hash_file, matches, read_json, write_json
from lamina.files.writing import fresh_folder, sync_tree
from lamina.models.running.batching import bucket
from lamina.models.running.devices import input_device
from lamina.models.running.tokens import token_id
from lamina.models.weights.hub import quiet_transformers
from lamina.progress import Advance, progress, say
from lamina.training.heads import Sight
from lamina.training.objective import (
    IGNORED,
    Batch,
    Item,
    Objective,
    Sum,
    TextOutcome,
    TrainingRow,
    text_of,
    unit_of,
)
from lamina.training.settings import SCHEDULES, TrainingPlan

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerFast


# Checkpoints of a training: sealed with the hashes of their files, so that only a sound one is continued from.

_SEAL = "sealed.json"
_STATE = "trainer_state.json"


def checkpoint_folder(folder: Path, step: int) -> Path:
    """Where transformers' Trainer saves a step."""
    return folder / f"checkpoint-{step}"


def seal(checkpoint: Path) -> None:
    """Have a checkpoint on the disk, and keep the hashes of its files with it."""
    sync_tree(checkpoint)
    write_json(checkpoint / _SEAL, {"files": hashes(checkpoint)})


def hashes(folder: Path) -> dict[str, str]:
    """The sha256 of every file in a folder, by name."""
    return {path.name: hash_file(path) for path in sorted(folder.iterdir()) if path.is_file() and path.name != _SEAL}


def weight_hashes(folder: Path) -> dict[str, str]:
    """The sha256 of a model's weights, by file."""
    return {name: sha256 for name, sha256 in hashes(folder).items() if name.endswith(".safetensors")}


def are_sound(folder: Path, files: Mapping[str, str]) -> bool:
    """Whether these files are in a folder and have these hashes."""
    return all(matches(folder / name, sha256) for name, sha256 in files.items())


def is_sound(checkpoint: Path) -> bool:
    """Whether a checkpoint was sealed and is as it was then."""
    try:
        return are_sound(checkpoint, read_json(checkpoint / _SEAL)["files"])
    except (OSError, LookupError, DamagedError):
        return False


def last_checkpoint(folder: Path) -> Path | None:
    """The latest checkpoint to continue from: it is sound, and so is the one with the best weights up to then."""
    folders = sorted(folder.glob("checkpoint-*"), key=lambda path: int(path.name.rpartition("-")[2]), reverse=True)
    return next((path for path in folders if is_sound(path) and _has_best(path)), None)


def _has_best(checkpoint: Path) -> bool:
    state = read_json(checkpoint / _STATE)
    step, named = state["best_global_step"], state["best_model_checkpoint"]
    if not step:
        return True
    best = checkpoint_folder(checkpoint.parent, step)
    # Without the folder it names, the Trainer would go on without the best weights.
    return named is not None and Path(named).resolve() == best.resolve() and is_sound(best)


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

    def __call__(self, rows: Sequence[TrainingRow]) -> Batch:
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


def predict(model: PreTrainedModel, objective: Objective, rows: Sequence[TrainingRow], collator: Collator) -> list[Any]:
    """What the objective reads of each row, in their order; batches hold rows of similar length."""
    device = input_device(model)
    budget = 2048 if device.type == "cpu" else 32768
    predictions: list[Any] = [None] * len(rows)
    training = model.training
    model.eval()
    for group in bucket([len(row.ids) for row in rows], budget):
        chosen = [rows[i] for i in group]
        batch = {name: tensor.to(device) for name, tensor in collator(chosen).items()}
        with torch.no_grad(), torch.autocast(device.type, torch.bfloat16, enabled=mixes(device)):
            out = model(**batch)
        logits = {name: out[name] for name in _OUTPUTS if name in out}
        for i, prediction in zip(group, objective.read(chosen, logits, batch), strict=True):
            predictions[i] = prediction
    model.train(training)
    return predictions


def judge(
    model: PreTrainedModel, objective: Objective, items: Sequence[Item], rows: Sequence[TrainingRow], collator: Collator
) -> list[TextOutcome]:
    """Scores each text; `rows` are those of the texts, in order."""
    by_item: list[list[Any]] = [[] for _ in items]
    for row, predictions in zip(rows, predict(model, objective, rows, collator), strict=True):
        by_item[row.item].append(predictions)
    return [objective.judge(item, predictions) for item, predictions in zip(items, by_item, strict=True)]


def losses(
    model: PreTrainedModel, items: Sequence[Item], rows: Sequence[TrainingRow], collator: Collator
) -> list[TextOutcome]:
    """The loss that is trained with, of each text: the mean over its labels; a text without one counts for nothing."""
    device = input_device(model)
    sums = np.zeros((len(items), 2))
    training = model.training
    model.eval()
    for row in rows:
        batch = {name: tensor.to(device) for name, tensor in collator([row]).items()}
        count = int((batch["labels"] != IGNORED).sum()) if "labels" in batch else 1
        if count:
            with torch.no_grad(), torch.autocast(device.type, torch.bfloat16, enabled=mixes(device)):
                sums[row.item] += (float(model(**batch).loss) * count, count)
    model.train(training)
    return [
        TextOutcome(unit_of(text_of(item)), {"loss": Sum(float(total), float(count), int(count))})
        for item, (total, count) in zip(items, sums, strict=True)
    ]


def rows_of(objective: Objective, items: Sequence[Item]) -> list[TrainingRow]:
    """The rows of all texts."""
    return [row for number, item in enumerate(items) for row in objective.rows(number, item)]


def mixes(device: torch.device) -> bool:
    """Whether to compute in mixed precision: on a GPU that has bfloat16, never on a CPU."""
    return device.type == "cuda" and torch.cuda.is_bf16_supported()


Evaluate = Callable[["PreTrainedModel"], Mapping[str, float]]
"""A model -> its scores on the selection set."""

_DONE, _BEST = "done.json", "best"
ON_THE_WAY = "kept"
"""Of a training's folder: the model at some steps."""
_LOGS = 10
"""Losses noted between two evaluations."""
_EVALUATIONS = 10
"""At least, in one run."""
_TIMED = 3
"""Steps timed for an estimate; fewer where they are slow."""
_TIMED_SECONDS = 5.0


class CurvePoint(NamedTuple):
    """One point of the learning curve."""

    step: int
    epoch: float
    split: str
    metric: str
    value: float


class TrainedPlan(NamedTuple):
    """The outcome of one training."""

    folder: Path
    """The weights of its best step."""
    best: float
    step: int
    curve: list[CurvePoint]


def train(
    model: PreTrainedModel,
    rows: Sequence[TrainingRow],
    collator: Collator,
    evaluate: Evaluate,
    plan: TrainingPlan,
    folder: Path,
    *,
    metric: str,
    greater: bool,
    what: str,
    callbacks: Sequence[TrainerCallback] = (),
    keep: Sequence[int] = (),
) -> TrainedPlan:
    """Train, continue in `folder`, or read what is finished there; the model ends as it was at its best step.

    The model at the steps of `keep` stays in `folder/kept`.
    """
    finished = _finished(folder)
    if finished is not None:
        return finished
    steps = plan.steps(len(rows))
    arguments = _arguments(plan, folder, steps, model.device, metric=metric, greater=greater)
    best = folder / _BEST
    with quiet_transformers(), ExitStack() as stack:
        advance = stack.enter_context(progress(what, steps))
        trainer = _EvaluatingTrainer(
            model, arguments, rows, collator, evaluate, [_ProgressCallback(advance), *callbacks]
        )
        if keep:
            trainer.add_callback(_KeepingCallback(model, folder / ON_THE_WAY, keep))
        checkpoint = last_checkpoint(folder)
        trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
        with fresh_folder(best) as fresh:
            model.save_pretrained(fresh)
    state = trainer.state
    trained = TrainedPlan(
        best, float(state.best_metric or 0.0), state.best_global_step or steps, _curve(state.log_history, metric)
    )
    done = {"best": trained.best, "step": trained.step, "curve": trained.curve, "files": hashes(best)}
    write_json(folder / _DONE, done)
    for old_checkpoint in folder.glob("checkpoint-*"):
        shutil.rmtree(old_checkpoint)
    return trained


def _finished(folder: Path) -> TrainedPlan | None:
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
    return TrainedPlan(best, done["best"], done["step"], [CurvePoint(*point) for point in done["curve"]])


class _EvaluatingTrainer(Trainer):
    """The Trainer, with evaluation by our own rules: whole texts judged, not logits averaged.

    A checkpoint that cannot be written does not end the training. If the best weights would have been in it, they are
    kept in memory.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        arguments: TrainingArguments,
        rows: Sequence[TrainingRow],
        collator: Collator,
        evaluate: Evaluate,
        callbacks: list[TrainerCallback],
    ) -> None:
        self._evaluate_model = evaluate
        self._best_weights: dict[str, torch.Tensor] | None = None
        self._warned = False
        data: Any = rows
        super().__init__(
            model, arguments, data_collator=collator, train_dataset=data, eval_dataset=data, callbacks=callbacks
        )
        self.remove_callback(PrinterCallback)

    def evaluate(
        self, eval_dataset: Any = None, ignore_keys: Any = None, metric_key_prefix: str = "eval"
    ) -> dict[str, float]:
        model: Any = self.model
        scores = {f"{metric_key_prefix}_{name}": value for name, value in self._evaluate_model(model).items()}
        self.log(scores)
        self.control = self.callback_handler.on_evaluate(self.args, self.state, self.control, scores)
        return scores

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
            if not self._warned:
                say(f"no checkpoint at step {step:,}, training goes on: {str(error).splitlines()[0]}")
            self._warned = True
            if is_best:
                current: Any = self.model
                self._best_weights = {name: part.detach().cpu().clone() for name, part in current.state_dict().items()}
                self.state.best_model_checkpoint = str(folder)
        else:
            if is_best:
                self._best_weights = None

    def _load_best_model(self) -> None:
        current: Any = self.model
        best = Path(str(self.state.best_model_checkpoint))
        if self._best_weights is not None:
            current.load_state_dict(self._best_weights)
        elif is_sound(best):
            super()._load_best_model()
        else:
            raise DamagedError(f"{best} is damaged, and the best weights were in it; run the same command again")


class _KeepingCallback(TrainerCallback):
    """Keeps the model as it is at some steps."""

    def __init__(self, model: PreTrainedModel, folder: Path, steps: Sequence[int]) -> None:
        self._model, self._folder, self._steps = model, folder, frozenset(steps)

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._save(state.global_step)

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._save(state.global_step)

    def _save(self, step: int) -> None:
        if step in self._steps:
            self._folder.mkdir(exist_ok=True)
            with fresh_folder(self._folder / f"step{step}") as fresh:
                self._model.save_pretrained(fresh)


class _ProgressCallback(TrainerCallback):
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
    plan: TrainingPlan, folder: Path, steps: int, device: torch.device, *, metric: str, greater: bool
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
        seed=plan.order,
        data_seed=plan.order,
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


def _intervals(plan: TrainingPlan, steps: int) -> tuple[int, int]:
    """Steps between two noted losses, and between two evaluations.

    Losses are noted at the same steps before and after a restart: checkpoints fall on them.
    """
    most = min(plan.every, -(-steps // _EVALUATIONS))
    often = max(1, most // _LOGS)
    return often, max(1, most // often) * often


def evaluations(plan: TrainingPlan, steps: int) -> int:
    """How often a run of this many steps is evaluated and saved; the last step always is.

    Example:
        >>> evaluations(TrainingPlan(1, 1e-4, 16, "constant", 0, None, 1000, 1.0), 120)
        10
    """
    return -(-steps // _intervals(plan, steps)[1])


def _curve(history: Sequence[Mapping[str, float]], metric: str) -> list[CurvePoint]:
    """What chooses comes first; the rest by name, since a checkpoint forgets the order."""
    points = []
    for entry in history:
        step, epoch = int(entry["step"]), float(entry.get("epoch", 0.0))
        if "loss" in entry:
            points.append(CurvePoint(step, epoch, "train", "loss", float(entry["loss"])))
        points += [
            CurvePoint(step, epoch, "select", name.removeprefix("eval_"), float(value))
            for name, value in sorted(entry.items(), key=lambda pair: (pair[0] != f"eval_{metric}", pair[0]))
            if name.startswith("eval_")
        ]
    return points


# A model in memory trained on for some steps, so that it makes up for what was taken from it.

LossOf = Callable[[Sequence[int]], Float[Tensor, " row"]]
"""Numbers of rows -> the loss of each; gradients go through it."""


class RetrainingPlan(NamedTuple):
    """How a model is trained on: Adam at a constant rate, as in the recipes of `finetune` for words and classes."""

    steps: int
    batch: int = 16
    """Rows of a step."""
    lr: float = 5e-5
    clip: float = 1.0
    """Largest norm of a gradient."""
    seed: int = 0


def train_on(model: Module, loss_of: LossOf, rows: int, how: RetrainingPlan, *, what: str) -> None:
    """Lower a loss for some steps; all weights of the model learn, and it ends frozen and in eval mode as before.

    Rows come in a random order, each once before any comes again.

    Example:
        >>> line = torch.nn.Linear(1, 1, bias=False).requires_grad_(False)
        >>> def loss_of(rows: Sequence[int]) -> Tensor:
        ...     return (line(torch.ones(len(rows), 1)) - 3).square()[:, 0]
        >>> train_on(line, loss_of, 4, RetrainingPlan(200, batch=2, lr=0.1), what="a line")
        >>> round(line.weight.item(), 1), line.weight.requires_grad
        (3.0, False)
    """
    learned = [parameter for parameter in dict.fromkeys(model.parameters()) if parameter.is_floating_point()]
    before = [parameter.requires_grad for parameter in learned]
    optimizer = torch.optim.Adam(learned, lr=how.lr)
    order = _order(rows, how)
    try:
        model.train()
        for parameter in learned:
            parameter.requires_grad_(True)
        with torch.random.fork_rng(), torch.enable_grad(), progress(what, how.steps) as advance:
            torch.manual_seed(how.seed)
            for step in range(how.steps):
                loss = loss_of(order[step * how.batch : (step + 1) * how.batch]).mean()
                if not torch.isfinite(loss):
                    raise ModelError(f"{what}: the loss is not a number at step {step + 1}; train fewer steps")
                optimizer.zero_grad()
                loss.backward()
                torch.nn.utils.clip_grad_norm_(learned, how.clip)
                optimizer.step()
                advance(note=f"loss {loss.item():.3f}")
    finally:
        model.eval()
        for parameter, learns in zip(learned, before, strict=True):
            parameter.requires_grad_(learns)
            parameter.grad = None


def _order(rows: int, how: RetrainingPlan) -> list[int]:
    draw = torch.Generator().manual_seed(how.seed)
    order: list[int] = []
    while len(order) < how.steps * how.batch:
        order += torch.randperm(rows, generator=draw).tolist()
    return order
