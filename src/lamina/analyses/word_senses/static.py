"""Static vectors to compare a model with: the sentence around a word as the mean of its words' vectors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch
from jaxtyping import Float

from lamina.analyses.word_senses.targets import SenseTargets
from lamina.encoders import SPECIAL, Encoder, load_encoder
from lamina.encoders.huggingface import HuggingFaceEncoder
from lamina.encoders.static import train_skipgram
from lamina.errors import AssetError, InputError

SKIP_GRAM, INPUT = "skip-gram", "input"
"""Trained on the words of the texts; the model's own input embeddings, without positions."""
_WIDTH = 100
"""Of skip-gram: the texts are few."""


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
                found = load_encoder(name)
            except AssetError:
                skipped[f"static vectors that are not at hand ({name})"] += 1
                continue
            if found.blocks:
                raise InputError(
                    f"--vectors {name}: a model, not static vectors; name skip-gram, input, an asset as glove, or a "
                    ".txt, .vec or .bin file"
                )
            yield Path(name).stem, found


def averaged_context(
    encoder: Encoder, data: SenseTargets, skipped: Counter[str]
) -> Float[torch.Tensor, "target width"]:
    """The mean of the vectors of all words of a target's text; of length 1."""
    rows, unknown = [], 0
    for each in encoder.encode(data.texts):
        inside = torch.from_numpy(each.tokens.words != SPECIAL)
        states = each.states if each.states is not None else torch.empty(0)
        rows.append(states[inside.to(states.device), 0].float().mean(0))
        unknown += each.tokens.unknown
    skipped[f"words that {encoder.name} lacks, drawn from N(0, I)"] += unknown
    bags = torch.nn.functional.normalize(torch.stack(rows), dim=1)
    return bags[torch.from_numpy(data.text).to(bags.device)]
