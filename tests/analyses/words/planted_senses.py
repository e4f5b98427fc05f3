"""A corpus and vectors whose senses and positions are planted."""

from __future__ import annotations

import random

import numpy as np
import torch

from lamina.analyses.words.senses.targets import SenseTargets, read_targets
from lamina.corpora import Splits, corpus_from
from lamina.types import Edge, Span, Text

WORDS = {"bank": ("money", "river"), "mole": ("animal", "spy"), "rock": ("stone",), "plant": ("factory", "tree")}


def texts(count: int, split: str, seed: int = 0) -> list[Text]:
    """Two targets a sentence, at any place; four sentences a document."""
    draw = random.Random(f"{split} {seed}")
    made = []
    for number in range(count):
        words = ["the"] * draw.randint(4, 14)
        edges = []
        for at in sorted(draw.sample(range(len(words)), 2)):
            words[at] = draw.choice([*WORDS])
            edges.append(Edge((draw.choice(WORDS[words[at]]),), Span(at, at + 1)))
        words.append(f"{split}{number}")
        made.append(
            Text(f"{split}-{number}", tuple(words), edges={"supersense": tuple(edges)}, doc=f"{split}-{number // 4}")
        )
    return made


def splits(train: int = 160, dev: int = 80) -> Splits:
    """Training and scored texts."""
    return Splits(
        corpus_from(texts(train, "train"), name="planted", split="train"),
        corpus_from(texts(dev, "dev"), name="planted", split="dev"),
    )


def planted_vectors(data: SenseTargets, strength: float, *, width: int = 24, seed: int = 0) -> torch.Tensor:
    """A direction per word, one per sense times `strength`, and noise; of length 1."""
    rng = np.random.default_rng(seed)
    words, senses = rng.normal(size=(len(data.words), width)), rng.normal(size=(len(data.labels), width))
    made = words[data.word] + strength * data.votes @ senses + rng.normal(size=(len(data.word), width))
    return torch.nn.functional.normalize(torch.from_numpy(made).float(), dim=1)


def targets() -> SenseTargets:
    """The targets of all texts."""
    return read_targets(splits(), None)
