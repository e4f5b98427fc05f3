"""What fine-tuning does to words in context: old probes on new vectors, new probes, and heads before and after."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float

from lamina.analyses.contextualization.answers import Answers, Setup, answer
from lamina.analyses.contextualization.representations import Representation
from lamina.analyses.contextualization.tables import ALL, Scoreboard
from lamina.analyses.watching import fit
from lamina.encoders import Encoder, load_encoder
from lamina.errors import ModelError
from lamina.progress import progress
from lamina.training.provenance import ABOUT, read_about, used_texts
from lamina.types import Text

COMPARED_TEXTS = 300
"""Whose attention is compared; the first of those probed."""
PRETRAINED = "pretrained"
FINETUNING = ("task", "setup", "layer", "value", "low", "high")
"""Columns of `finetuning.csv`."""
SIMILARITY = ("task", "layer", "head", "value", "baseline")
"""Columns of `attention_similarity.csv`."""


class Finetuned(NamedTuple):
    """A model and what it was trained for."""

    task: str
    folder: str
    encoder: Encoder


def load_finetuned(base: Encoder, folders: Sequence[str]) -> list[Finetuned]:
    """The fine-tuned models; one of another architecture than `base` is refused."""
    tuned = [Finetuned(_task(folder), folder, load_encoder(folder)) for folder in folders]
    names = [each.task for each in tuned]
    tuned = [each._replace(task=Path(each.folder).name) if names.count(each.task) > 1 else each for each in tuned]
    probe = Text("a probe of the tokenizer", ("Unhesitating", "dogs", "barked", "."))
    for each in tuned:
        before, after = (_shape(model, probe) for model in (base, each.encoder))
        if before != after:
            raise ModelError(
                f"{each.folder} is not {base.name} fine-tuned: it has {after}, {base.name} has {before}; name the "
                "model it was fine-tuned from"
            )
    return tuned


def _shape(model: Encoder, text: Text) -> str:
    """All that a fine-tuned model shares with its base, in words."""
    pieces = " ".join(map(str, model.tokenize(text).ids))
    direction = "left to right" if model.causal else "both ways"
    return (
        f"{model.blocks} blocks of {model.heads} heads looking {direction}, {model.width} wide, and a tokenizer that "
        f"cuts {' '.join(text.words)!r} into {pieces}"
    )


def texts_used(tuned: Sequence[Finetuned]) -> frozenset[str]:
    """Hashes of every text that one of the models was fine-tuned on."""
    return frozenset().union(*(used_texts(each.folder) for each in tuned))


def old_probes(tuned: Sequence[Finetuned], changed: Sequence[Representation]) -> list[tuple[str, torch.Tensor]]:
    """Setup (a): the vectors that probes of the pretrained model are applied to, by name."""
    return [(_named(each, "a"), own.vectors) for each, own in zip(tuned, changed, strict=True)]


def finetuning_table(
    setup: Setup,
    board: Scoreboard,
    tuned: Sequence[Finetuned],
    changed: Sequence[Representation],
    answers: Sequence[Answers],
) -> pd.DataFrame:
    """Micro-F1 by layer: `pretrained`, setup `a` and setup `b` (new probes), task by task.

    Of test words; with `faithful` of dev words, as in the paper. `answers` are those of the pretrained model's probes.
    """
    scores = board.f1([*answers, *_new_probes(setup, tuned, changed)])
    split = "dev" if setup.faithful else "test"
    scores = scores[(scores["class"] == ALL) & (scores["seed"] == ALL) & (scores["split"] == split)]
    before = answers[0].representation
    rows = []
    for each in tuned:
        for way, name in ((PRETRAINED, before), ("a", _named(each, "a")), ("b", _named(each, "b"))):
            own = scores[scores["representation"] == name]
            rows += [(each.task, way, *row) for row in own[["layer", "value", "low", "high"]].itertuples(index=False)]
    return pd.DataFrame(rows, columns=list(FINETUNING))


def attention_similarity(base: Encoder, tuned: Sequence[Finetuned], texts: Sequence[Text]) -> pd.DataFrame:
    """Cosine of a head's flattened attention before and after fine-tuning, mean over texts.

    The baseline is the mean cosine of the fine-tuned head with the other heads of its layer before fine-tuning; not
    available for a layer of one head.
    """
    if not base.heads:
        return pd.DataFrame([], columns=list(SIMILARITY))
    some = [fit(base, text) for text in texts[:COMPARED_TEXTS]]
    rows = []
    for each in tuned:
        cosines = _cosines(base, each.encoder, some)
        own = np.diagonal(cosines, axis1=1, axis2=2)
        others = (cosines.sum(1) - own) / (base.heads - 1) if base.heads > 1 else np.full(own.shape, np.nan)
        rows += [
            (each.task, block + 1, head + 1, own[block, head], others[block, head])
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


def _new_probes(setup: Setup, tuned: Sequence[Finetuned], changed: Sequence[Representation]) -> Iterator[Answers]:
    for each, own in zip(tuned, changed, strict=True):
        yield from answer(setup, Representation(_named(each, "b"), own.layers, own.vectors))


def _named(each: Finetuned, way: str) -> str:
    return f"{each.task} ({way})"


def _task(folder: str) -> str:
    """As `lamina finetune` wrote it down; the folder's name where it did not make it."""
    path = Path(folder)
    return str(read_about(path).get("task", path.name)) if (path / ABOUT).is_file() else path.name
