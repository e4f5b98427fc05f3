"""Static vectors to compare a model with: the words around a word, or its whole text, as the mean of their vectors."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float

from lamina.analyses.word_senses.targets import SenseTargets, grouped
from lamina.encoders import SPECIAL, Encoder, load_encoder
from lamina.encoders.huggingface import HuggingFaceEncoder
from lamina.encoders.static import train_skipgram
from lamina.errors import AssetError, InputError

SKIP_GRAM, INPUT = "skip-gram", "input"
"""Trained on the words of the texts; the model's own input embeddings, without positions."""
_WIDTH = 100
"""Of skip-gram: the texts are few."""
_WINDOW = re.compile(r"(.+)\.w(\d+)")


def static_encoders(
    encoder: Encoder, data: SenseTargets, names: Sequence[str], skipped: Counter[str], seed: int
) -> Iterator[tuple[str, Encoder]]:
    """The static vectors that are asked for, by the names that tables call them; what is not at hand is counted."""
    for name in dict.fromkeys(names):
        if name == SKIP_GRAM:
            yield name, train_skipgram(data.texts, width=_WIDTH, seed=seed)
        elif name == INPUT:
            if isinstance(encoder, HuggingFaceEncoder):
                yield name, encoder.lexical()
            else:
                skipped[f"{encoder.name} has no input embeddings to compare with"] += 1
        else:
            try:
                encoder_of_name = load_encoder(name)
            except AssetError:
                skipped[f"static vectors that are not at hand ({name})"] += 1
                continue
            if encoder_of_name.blocks:
                raise InputError(
                    f"--vectors {name}: a model, not static vectors; name skip-gram, input, an asset as glove, or a "
                    ".txt, .vec or .bin file"
                )
            yield Path(name).stem, encoder_of_name


def bag_name(vectors: str, window: int | None) -> str:
    """What tables call a bag of words; without a window it is the whole text.

    Example:
        >>> bag_name("skip-gram", None), bag_name("skip-gram", 2)
        ('skip-gram', 'skip-gram.w2')
    """
    return vectors if window is None else f"{vectors}.w{window}"


def bag_of(name: str) -> tuple[str, int | None]:
    """The vectors of a bag, and its window.

    Example:
        >>> bag_of("skip-gram.w2"), bag_of("glove.6B")
        (('skip-gram', 2), ('glove.6B', None))
    """
    match = _WINDOW.fullmatch(name)
    return (match[1], int(match[2])) if match else (name, None)


def averaged_contexts(
    encoder: Encoder, data: SenseTargets, windows: Sequence[int], skipped: Counter[str]
) -> Iterator[tuple[int | None, Float[torch.Tensor, "target width"]]]:
    """The mean of the vectors of a target's text, and of the words up to so far from it; of length 1.

    The target's own words are in every bag: they are the same for all its occurrences.
    """
    sizes: tuple[int | None, ...] = (None, *dict.fromkeys(windows))
    by_text = grouped(data.text, np.arange(len(data.text)))
    means: list[torch.Tensor] = []
    order: list[int] = []
    unknown = 0
    for number, encoded in enumerate(encoder.encode(data.texts)):
        states = encoded.states if encoded.states is not None else torch.empty(0)
        inside = np.flatnonzero(encoded.tokens.words != SPECIAL)
        words = encoded.tokens.words[inside]
        vectors = states[torch.from_numpy(inside).to(states.device), 0].float()
        unknown += encoded.tokens.unknown
        targets = by_text.get(number, np.empty(0, int))
        order += targets.tolist()
        masks = np.stack([_within(words, data.spans[target], size) for target in targets for size in sizes])
        shares = torch.from_numpy(masks / masks.sum(1, keepdims=True)).to(vectors)
        means.append((shares @ vectors).unflatten(0, (len(targets), len(sizes))))
    skipped[f"words that {encoder.name} lacks, drawn from N(0, I)"] += unknown
    bags = torch.nn.functional.normalize(torch.cat(means), dim=2)
    place = torch.empty(len(order), dtype=torch.long)
    place[torch.tensor(order)] = torch.arange(len(order))
    for column, size in enumerate(sizes):
        yield size, bags[place.to(bags.device), column]


def _within(words: np.ndarray, span: np.ndarray, size: int | None) -> np.ndarray:
    """Which pieces are of words up to so far from a span; of all words where nothing else is there."""
    if size is None:
        return np.ones(len(words), bool)
    start, end = span.tolist()
    near = (words >= start - size) & (words < end + size)
    return near if near.any() else np.ones(len(words), bool)
