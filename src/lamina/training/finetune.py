"""Fine-tuning from a name to a model folder with its scores."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lamina.encoders import load_encoder
from lamina.encoders.huggingface import HuggingFaceEncoder
from lamina.errors import ModelError, TaskError
from lamina.results import Provenance, Result, result_key
from lamina.training.attention import make_sight
from lamina.training.classes import Classifying
from lamina.training.collating import Collator
from lamina.training.data import Sets, apart
from lamina.training.grid import best_of, grid_table, try_all
from lamina.training.heads import load_with_head, reload, source_of, with_padding
from lamina.training.masked import Masking
from lamina.training.objective import IGNORED, Objective, Row, text_of
from lamina.training.predicting import judge, rows_of
from lamina.training.provenance import refuse_used, text_hash, used_texts
from lamina.training.reading import load_sets
from lamina.training.recipes import Plan, Recipe, get_recipe, make_plans
from lamina.training.running import Point, Trained, train
from lamina.training.saving import model_files, saved, work_folder
from lamina.training.scoring import means, score_table
from lamina.training.spans import Answering
from lamina.training.tags import Tagging


def finetune(
    model: str | HuggingFaceEncoder,
    task: str,
    data: str | Path | Sets,
    *,
    out: str | os.PathLike[str],
    epochs: float | None = None,
    lr: float | None = None,
    batch: int | None = None,
    schedule: str | None = None,
    seed: int = 0,
    max_steps: int | None = None,
    limit: int | None = None,
    grid: bool = False,
    length: int | None = None,
    attention_window: int | None = None,
    format: str | None = None,
    setting: str = "distractor",
    babi_tasks: Sequence[int] | None = None,
    resume: bool = True,
    device: str | None = None,
) -> Result:
    """Fine-tune a model on a task; `out` becomes a model folder anyone can load, with its scores and provenance.

    Learns from the data's train, keeps the step that does best on its dev, and scores its test once, at the end.
    What is not given is as the task's paper has it. Asked twice, the folder is read; stopped, it continues.

    Args:
        model: an alias, a Hugging Face id, a folder, or an encoder loaded from one.
        task: squad, hotpot, babi, pos, ner, classify, pairs or mlm.
        data: a catalogue name, a file or folder, or `Sets` of your own.
        out: the folder to make.
        epochs: how often each text is seen.
        lr: the (highest) learning rate.
        batch: rows a step.
        schedule: constant, linear (falling to 0) or warmup (a tenth rising, then falling).
        seed: of the fresh head, the order of texts, dropout and hidden pieces.
        max_steps: at most so many steps.
        limit: only the first texts of each set.
        grid: try several rates and batch sizes (those not given) and keep what does best on the selection set.
        length: the most pieces at once.
        attention_window: pos and ner only: words see at most so many words to each side.
        format: of the data, where its content does not tell.
        setting: of HotpotQA: distractor or support.
        babi_tasks: some of bAbI's twenty.
        resume: continue a run that was stopped; otherwise start anew.
        device: cpu or cuda; a GPU where there is one by default.

    Example:
        >>> result = lamina.finetune("minilm", "pos", "ewt", out="runs/pos", max_steps=100)  # doctest: +SKIP
        >>> result.tables["scores"]  # doctest: +SKIP
    """
    target = Path(out)
    recipe = get_recipe(task)
    plans = make_plans(
        recipe, epochs=epochs, lr=lr, batch=batch, schedule=schedule, seed=seed, max_steps=max_steps, grid=grid
    )
    if attention_window is not None and recipe.kind != "tags":
        raise TaskError(f"an attention window is for pos and ner, whose labels stand on words; {task} is neither")
    encoder = _encoder(model, device)
    most = min(length or recipe.length, encoder.limit or recipe.length)
    if isinstance(data, Sets):
        given = data
    else:
        given = load_sets(task, data, format=format, limit=limit, setting=setting, babi_tasks=babi_tasks, length=most)
    sets, noted = apart(given)
    refuse_used(source_of(encoder), map(text_of, sets.scored), f"{sets.name} (scored)")
    parameters = {
        "task": task,
        "epochs": epochs,
        "lr": lr,
        "batch": batch,
        "schedule": schedule,
        "seed": seed,
        "max_steps": max_steps,
        "limit": limit,
        "grid": grid,
        "length": length,
        "attention_window": attention_window,
        "setting": setting,
        "babi_tasks": babi_tasks and list(babi_tasks),
    }
    key = result_key("finetune", encoder.fingerprint, sets.fingerprint, parameters)
    found = saved(target, key)
    if found is not None:
        return found
    objective = _objective(task, recipe, encoder, sets, most, seed)
    work = work_folder(target, key, resume=resume)
    run = _Run(task, encoder, objective, sets, attention_window)
    result = run.result(plans, work, parameters, noted)
    result.save(target)
    shutil.rmtree(work)
    return Result.load(target)


def _encoder(model: str | HuggingFaceEncoder, device: str | None) -> HuggingFaceEncoder:
    encoder = load_encoder(model, device=device) if isinstance(model, str) else model
    if not isinstance(encoder, HuggingFaceEncoder):
        raise ModelError(f"{encoder.name} has no blocks to fine-tune; name a transformer")
    with_padding(encoder.tokenizer)
    return encoder


def _objective(task: str, recipe: Recipe, encoder: HuggingFaceEncoder, sets: Sets, length: int, seed: int) -> Objective:
    pieces = encoder.pieces
    if recipe.kind == "span":
        return Answering(pieces, length)
    if recipe.kind == "class":
        return Classifying.learn(pieces, length, sets.train)
    if recipe.kind == "tags":
        return Tagging.learn(pieces, length, task, sets.train)
    return Masking(pieces, length, encoder.tokenizer, seed)


class _Run:
    """One model on one task: all plans tried, the best one scored."""

    def __init__(
        self, task: str, encoder: HuggingFaceEncoder, objective: Objective, sets: Sets, reach: int | None
    ) -> None:
        self._task, self._encoder, self._objective, self._sets, self._reach = task, encoder, objective, sets, reach
        self._select = rows_of(objective, sets.select)
        # Noted once, for what is trained on and scored; not again for what chooses.
        objective.noted.clear()
        self._train = [row for row in rows_of(objective, sets.train) if _teaches(row)]

    def result(self, plans: Sequence[Plan], work: Path, parameters: dict[str, Any], noted: Counter[str]) -> Result:
        """Train, choose, score."""
        import pandas as pd

        objective, sets, encoder = self._objective, self._sets, self._encoder
        trials = try_all(plans, work, self._one)
        chosen = best_of(trials, greater=objective.greater)
        folder = chosen.trained.folder
        model: Any = reload(folder, objective.head)
        model = model.to(encoder.model.device)
        learned = Counter(objective.noted)
        objective.noted.clear()
        scored = judge(model, objective, sets.scored, rows_of(objective, sets.scored), self._collator(model))
        tables = {
            "curve": pd.DataFrame(chosen.trained.curve, columns=list(Point._fields)),
            "scores": score_table("scored", scored, seed=chosen.plan.seed),
        }
        if len(trials) > 1:
            tables["grid"] = grid_table(trials, chosen, objective.metric)
        used = {text_hash(text_of(item)) for item in (*sets.train, *sets.select)} | sets.behind
        used |= used_texts(source_of(encoder))
        files = model_files(folder, encoder.tokenizer, self._about(chosen.plan, chosen.trained.step), used)
        skipped = dict(noted)
        skipped |= {f"training: {what}": count for what, count in learned.items() if "scored" not in what}
        skipped |= {f"scored: {what}": count for what, count in objective.noted.items()}
        provenance = Provenance(encoder.describe(), sets.describe(), parameters, (chosen.plan.seed,), skipped)
        return Result("finetune", tables, provenance, files)

    def _one(self, plan: Plan, folder: Path) -> Trained:
        objective = self._objective
        model: Any = load_with_head(self._encoder, objective, seed=plan.seed)
        model = model.to(self._encoder.model.device)
        collator = self._collator(model)

        def evaluate(model: Any) -> dict[str, float]:
            return means(judge(model, objective, self._sets.select, self._select, collator))

        what = f"{self._task}: {self._encoder.name}, lr {plan.lr:g}, batch {plan.batch}"
        chooses = {"metric": objective.metric, "greater": objective.greater}
        return train(model, self._train, collator, evaluate, plan, folder, what=what, **chooses)

    def _collator(self, model: Any) -> Collator:
        sight = None if self._reach is None else make_sight(model, self._reach, causal=self._encoder.causal)
        return Collator(self._objective, model, self._encoder.tokenizer, sight)

    def _about(self, plan: Plan, step: int) -> dict[str, Any]:
        return {
            "task": self._task,
            "head": self._objective.head,
            "labels": self._objective.labels,
            "length": self._objective.length,
            "attention_window": self._reach,
            "base": self._encoder.describe(),
            "data": self._sets.describe(),
            "plan": plan._asdict(),
            "best_step": step,
        }


def _teaches(row: Row) -> bool:
    """Whether there is a label to learn: a loss over nothing is not a number."""
    return not (hasattr(row.labels, "all") and bool((row.labels == IGNORED).all()))
