"""What parser probes see of a watched text: maps between words, attention to special tokens, static vectors."""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Float

from lamina import assets
from lamina.analyses.attention_maps.roles import roles_of
from lamina.analyses.attention_maps.watching import Watched
from lamina.encoders import SPECIAL, Encoder, load_encoder
from lamina.encoders.huggingface import HuggingFaceEncoder
from lamina.errors import ModelError
from lamina.probes.parsers import Sentence
from lamina.types import Text

GLOVE, OWN = "glove", "model"


def default_vectors() -> str:
    """GloVe where this machine has it, the model's own piece embeddings otherwise."""
    return GLOVE if assets.held(GLOVE) else OWN


def static_vectors(encoder: Encoder, name: str | None) -> Encoder:
    """Where words get their vectors: `model`, the model's own piece embeddings, or the name or file of word vectors."""
    chosen = name or default_vectors()
    if chosen == OWN:
        if not isinstance(encoder, HuggingFaceEncoder):
            raise ModelError(f"{encoder.name} has no piece embeddings of its own; name word vectors, for example glove")
        return encoder.lexical()
    found = load_encoder(chosen)
    if found.blocks:
        raise ModelError(f"{chosen} is a model with contexts, not word vectors; name glove, model or a file of vectors")
    return found


def word_vectors(encoder: Encoder, text: Text) -> Float[torch.Tensor, "word width"]:
    """The static vector of every word: the mean of its pieces."""
    made = next(iter(encoder.encode([text])))
    if made.states is None:
        raise ModelError(f"{encoder.name} gave no vectors for text {text.id!r}")
    return _means(made.states[:, 0], made.tokens.words)


def to_sentence(watched: Watched, vectors: Encoder, *, causal: bool) -> Sentence:
    """A watched text as probes see it."""
    maps = watched.words.maps.flatten(0, 1)
    roles = roles_of(watched.tokens, (), causal=causal)
    first = watched.maps[..., 0]
    separators = watched.maps[..., torch.from_numpy(np.flatnonzero(roles.separators))].sum(-1)
    to_special = torch.stack([first.flatten(0, 1), separators.flatten(0, 1)], 1)
    by_token = to_special.permute(2, 1, 0)
    if watched.rows == "first":
        _, starts = np.unique(watched.tokens.words, return_index=True)
        special = by_token[torch.from_numpy(starts[-maps.shape[-1] :])]
    else:
        special = _means(by_token, watched.tokens.words)
    return Sentence(maps.permute(1, 2, 0).contiguous(), special, word_vectors(vectors, watched.text))


def _means(tokens: torch.Tensor, words: np.ndarray) -> torch.Tensor:
    """The mean over the pieces of each word."""
    inside = torch.from_numpy(words != SPECIAL)
    owners = torch.from_numpy(words).long()[inside]
    counts = torch.bincount(owners)
    sums = tokens.new_zeros(len(counts), *tokens.shape[1:]).index_add_(0, owners, tokens[inside])
    return sums / counts.view(-1, *[1] * (tokens.ndim - 1))
