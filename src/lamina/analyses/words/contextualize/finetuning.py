"""What fine-tuning does to words in context: old and new probes on its vectors, and heads before and after.

A model that was fine-tuned through an attention window is probed through it, as is the pretrained model.
Models that differ in nothing but the seed of their fine-tuning are one task, with a mean and an interval.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float

from lamina.analyses.words.contextualize.scores import (
    ALL,
    FINETUNED,
    ClassAnswers,
    ClassProbeSetup,
    ClassScores,
    MicroF1,
    MicroF1Contrast,
    Scoreboard,
    answer,
    contrast_rows,
    contrast_table,
)
from lamina.analyses.words.contextualize.vectors import Representation, Representations
from lamina.errors import InputError, ModelError
from lamina.framework.watch import fit
from lamina.models import Encoder, load_encoder
from lamina.models.checks.passports import passport_of
from lamina.models.running.huggingface import HuggingFaceEncoder
from lamina.progress import progress
from lamina.stats.intervals import interval
from lamina.training.heads import WindowedEncoder
from lamina.training.provenance import ABOUT, read_about, used_texts
from lamina.types import Text

COMPARED_TEXTS = 300
"""Whose attention is compared; the first of those probed."""
PRETRAINED = "pretrained"
FINETUNING = ("task", "window", "setup", "layer", "seed", "value", "low", "high")
"""Columns of `finetuning.csv`."""
SIMILARITY = ("task", "seed", "layer", "head", "value", "baseline")
"""Columns of `attention_similarity.csv`."""
WHOLE = "all"
"""The window of a model whose words see the whole text."""
_OWN_SEED = ("seed", "best_step")
"""What two runs may differ in and still be of one task."""


@dataclass(frozen=True, eq=False)
class FinetunedEncoder:
    """A model and what it was trained for."""

    task: str
    """As tables call it; the same for models that differ in their seed alone."""
    folder: str
    encoder: Encoder
    """Through its window, where it was fine-tuned through one."""
    base: Encoder
    """The pretrained model, through the same window."""
    window: int | None
    seed: str

    @property
    def run(self) -> str:
        """A unique name."""
        return f"{self.task}, seed {self.seed}"


def load_finetuned(base: Encoder, folders: Sequence[str]) -> list[FinetunedEncoder]:
    """The fine-tuned models, those of one task together; one of another architecture than `base` is refused."""
    twice = [folder for number, folder in enumerate(folders) if folder in folders[:number]]
    if twice:
        raise InputError(f"{twice[0]} is given twice; name every fine-tuned folder once")
    about = [read_about(folder) if (Path(folder) / ABOUT).is_file() else {} for folder in folders]
    names = _task_names(folders, about)
    bases: dict[int | None, Encoder] = {None: base}
    probe = Text("a probe of the tokenizer", ("Unhesitating", "dogs", "barked", "."))
    tuned = []
    for folder, details, name in zip(folders, about, names, strict=True):
        encoder, window = load_encoder(folder), details.get("attention_window")
        passport_of(encoder)
        before, after = (_shape(model, probe) for model in (base, encoder))
        if before != after:
            raise ModelError(
                f"{folder} is not {base.name} fine-tuned: it has {after}, {base.name} has {before}; name the "
                "model it was fine-tuned from"
            )
        bases.setdefault(window, _through(base, window))
        tuned.append(FinetunedEncoder(name, folder, _through(encoder, window), bases[window], window, _seed(details)))
    return sorted(tuned, key=lambda model: names.index(model.task))


def _task_names(folders: Sequence[str], about: Sequence[dict[str, Any]]) -> list[str]:
    """The task of each model; a folder's name where models of one task differ in more than their seed."""
    tasks = [str(details.get("task", Path(folder).name)) for folder, details in zip(folders, about, strict=True)]
    runs = [(_way(details) or folder, _seed(details)) for folder, details in zip(folders, about, strict=True)]
    groups = [run[0] if runs.count(run) == 1 else folder for folder, run in zip(folders, runs, strict=True)]
    kinds = [task for task, _ in set(zip(tasks, groups, strict=True))]
    different = {task for task in kinds if kinds.count(task) > 1}
    firsts = [folders[groups.index(group)] for group in groups]
    short = [Path(first).name for first in firsts]
    clash = {
        name
        for name in short
        if len({first for first, short_name in zip(firsts, short, strict=True) if short_name == name}) > 1
    }
    return [
        task if task not in different else first if name in clash else name
        for task, first, name in zip(tasks, firsts, short, strict=True)
    ]


def _seed(about: dict[str, Any]) -> str:
    return str(about.get("plan", {}).get("seed", 0))


def _way(about: dict[str, Any]) -> str:
    """How a model was trained, without its seed; empty where that is not known."""
    if not about:
        return ""
    plan = {name: value for name, value in about.get("plan", {}).items() if name not in _OWN_SEED}
    return json.dumps(
        {**{name: value for name, value in about.items() if name not in _OWN_SEED}, "plan": plan}, sort_keys=True
    )


def _through(encoder: Encoder, window: int | None) -> Encoder:
    if window is None:
        return encoder
    if not isinstance(encoder, HuggingFaceEncoder):
        raise ModelError(f"{encoder.name} has no attention that can be limited to a window; name a transformer")
    windowed = WindowedEncoder(encoder, window)
    # The same blocks and maps: what is refused of the one is refused of the other.
    windowed.passport = encoder.passport
    return windowed


def _shape(model: Encoder, text: Text) -> str:
    """The shape and tokenizer that a fine-tuned model shares with its base, in words."""
    pieces = " ".join(map(str, model.tokenize(text).ids))
    direction = "left to right" if model.causal else "both ways"
    return (
        f"{model.blocks} blocks of {model.heads} heads looking {direction}, {model.width} wide, and a tokenizer that "
        f"cuts {' '.join(text.words)!r} into {pieces}"
    )


def texts_used(tuned: Sequence[FinetunedEncoder]) -> frozenset[str]:
    """Hashes of every text that one of the models was fine-tuned on."""
    return frozenset().union(*(used_texts(model.folder) for model in tuned))


def probe_finetuned(
    setup: ClassProbeSetup,
    representations: Representations,
    tuned: Sequence[FinetunedEncoder],
    whole: Representation,
    save: bool,
) -> list[ClassAnswers]:
    """Answers about the pretrained model (through each window), about (a) new vectors by old probes, by (b) new probes.

    The pretrained model's come first; with `save` its probes are saved.
    """
    answers = []
    windows = dict.fromkeys([None, *(model.window for model in tuned)])
    for window in windows:
        of_window = [model for model in tuned if model.window == window]
        changed = [representations.contextual(model.encoder, name=_run_name(model, "a")) for model in of_window]
        before = whole if window is None else representations.contextual(of_window[0].base)
        answers += answer(setup, before, instead=changed, save=save and window is None)
        for model, vectors in zip(of_window, changed, strict=True):
            answers += answer(setup, vectors.rows(slice(None), _run_name(model, "b")))
            representations.done(vectors)
        if window is not None:
            representations.done(before)
    return answers


def finetuning_table(
    setup: ClassProbeSetup, board: Scoreboard, tuned: Sequence[FinetunedEncoder], answers: Sequence[ClassAnswers]
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Micro-F1 by layer: `pretrained`, setup `a` and setup `b` (new probes), task by task; and what changed.

    Of test words; with `faithful` of dev words, as in the paper. Seed `all` is the mean over the fine-tuned models of
    a task; `pretrained` has no other. Changes are of these means, all tasks and layers in one family.
    """
    split = "dev" if setup.faithful else "test"
    scores = board.micro(answers, split)
    layers = sorted({layer for _, layer in scores if layer is not None})
    rows = []
    members: list[MicroF1Contrast] = []
    for task in dict.fromkeys(model.task for model in tuned):
        models = [model for model in tuned if model.task == task]
        window = WHOLE if models[0].window is None else str(models[0].window)
        rows += [
            (task, window, PRETRAINED, layer, ALL, *_number(scores[models[0].base.name, layer])) for layer in layers
        ]
        means = {(PRETRAINED, layer): scores[models[0].base.name, layer] for layer in layers}
        for way in ("a", "b"):
            for layer in layers:
                by_seed = {model.seed: scores[_run_name(model, way), layer] for model in models}
                together = by_seed | {ALL: board.pooled(list(by_seed.values()), split)}
                means[way, layer] = together[ALL]
                rows += [(task, window, way, layer, seed, *_number(score)) for seed, score in together.items()]
        members += [
            MicroF1Contrast(layer, way, against, None, _micro(means[way, layer]), _micro(means[against, layer]), task)
            for way, against in (("a", PRETRAINED), ("b", PRETRAINED), ("b", "a"))
            for layer in layers
        ]
    changes = contrast_rows(FINETUNED, "tasks and layers", members, board.units(split))
    return pd.DataFrame(rows, columns=list(FINETUNING)), contrast_table([*changes])


def _micro(scores: ClassScores) -> MicroF1:
    return MicroF1(float(scores.value[-1]), scores.draws[:, -1])


def _number(score: ClassScores) -> tuple[float, float, float]:
    return float(score.value[-1]), *interval(score.draws[:, -1])


def attention_similarity(tuned: Sequence[FinetunedEncoder], texts: Iterable[Text]) -> pd.DataFrame:
    """Cosine of a head's flattened attention before and after fine-tuning, mean over texts.

    The baseline is the mean cosine of the fine-tuned head with the other heads of its layer before fine-tuning; not
    available for a layer of one head.
    """
    first = list(islice(texts, COMPARED_TEXTS))
    rows = []
    for model in tuned:
        base = model.base
        if not (base.has_maps and model.encoder.has_maps):
            continue
        some = [fit(base, text) for text in first]
        cosines = _cosines(base, model.encoder, some)
        same_head = np.diagonal(cosines, axis1=1, axis2=2)
        others = (cosines.sum(1) - same_head) / (base.heads - 1) if base.heads > 1 else np.full(same_head.shape, np.nan)
        rows += [
            (model.task, model.seed, block + 1, head + 1, same_head[block, head], others[block, head])
            for block in range(base.blocks)
            for head in range(base.heads)
        ]
    return pd.DataFrame(rows, columns=list(SIMILARITY))


def _cosines(base: Encoder, tuned: Encoder, texts: Sequence[Text]) -> Float[np.ndarray, "block head head"]:
    """Of every head before (row) with every head of the same layer after (column)."""
    sums = torch.zeros(base.blocks, base.heads, base.heads, dtype=torch.float64)
    count = 0
    with progress(f"attention of {base.name} and {tuned.name}", len(texts)) as advance:
        for before, after in zip(base.encode(texts, ("maps",)), tuned.encode(texts, ("maps",)), strict=True):
            if before.maps is not None and after.maps is not None:
                old, new = (torch.nn.functional.normalize(maps.flatten(2), dim=2) for maps in (before.maps, after.maps))
                sums += old @ new.transpose(1, 2)
                count += 1
            advance()
    return (sums / max(count, 1)).numpy()


def _run_name(model: FinetunedEncoder, way: str) -> str:
    return f"{model.run} ({way})"
