"""A model's raw piece embeddings: no position, no segment, no context."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator
from typing import cast

import torch
from jaxtyping import Float

from lamina.encoders.contract import STATES, Activations, Encoder, Tokens, Want
from lamina.encoders.huggingface import HuggingFaceEncoder
from lamina.errors import ModelError
from lamina.types import Text


class LexicalEncoder(Encoder):
    """One layer: each token's row of the embedding table, with or without the embedding layer's LayerNorm.

    Not the same as layer 0 of the model, which has position and segment added and the LayerNorm applied.
    """

    def __init__(self, base: HuggingFaceEncoder, *, layer_norm: bool = False) -> None:
        self._base, self._normed = base, layer_norm
        self._table = cast(torch.nn.Embedding, base.model.get_input_embeddings())
        self._norm = _layer_norm(base) if layer_norm else torch.nn.Identity()
        self.name = f"{base.name} (lexical{' + LayerNorm' if layer_norm else ''})"
        self.blocks, self.heads, self.width = 0, 0, self._table.weight.shape[1]

    @property
    def fingerprint(self) -> str:
        """See `Encoder.fingerprint`."""
        return hashlib.sha256(f"lexical {self._base.fingerprint} {self._normed}".encode()).hexdigest()

    def tokenize(self, text: Text) -> Tokens:
        """See `Encoder.tokenize`."""
        return self._base.tokenize(text)

    def encode(
        self, texts: Iterable[Text], want: Collection[Want] = STATES, *, ordered: bool = True
    ) -> Iterator[Activations]:
        """See `Encoder.encode`."""
        if "maps" in want:
            raise ModelError(f"{self.name} has no attention maps")
        for text in texts:
            tokens = self.tokenize(text)
            yield Activations(text.id, tokens, self.embed(tokens).unsqueeze(1))

    def embed(self, tokens: Tokens) -> Float[torch.Tensor, "token width"]:
        """The rows of the embedding table."""
        ids = torch.from_numpy(tokens.ids).long().to(self._table.weight.device)
        with torch.no_grad():
            return self._norm(self._table(ids)).float().cpu()


class LexicalFirst(Encoder):
    """An encoder whose layer 0 is replaced by its raw piece embeddings with LayerNorm.

    The pipeline paper's code did it so; layer 0 as transformers gives it has position and segment added.
    """

    def __init__(self, base: Encoder) -> None:
        if not isinstance(base, HuggingFaceEncoder):
            raise ModelError(f"{base.name} has no piece embeddings to put in place of its layer 0")
        self._base = base
        self._first = LexicalEncoder(base, layer_norm=True)
        if self._first.width != base.width:
            raise ModelError(f"{base.name}: piece embeddings are {self._first.width} wide, its layers {base.width}")
        self.name, self.blocks, self.heads, self.width = base.name, base.blocks, base.heads, base.width
        self.causal = base.causal

    @property
    def fingerprint(self) -> str:
        """See `Encoder.fingerprint`."""
        return hashlib.sha256(f"{self._base.fingerprint} lexical first".encode()).hexdigest()

    def tokenize(self, text: Text) -> Tokens:
        """See `Encoder.tokenize`."""
        return self._base.tokenize(text)

    def encode(
        self, texts: Iterable[Text], want: Collection[Want] = STATES, *, ordered: bool = True
    ) -> Iterator[Activations]:
        """See `Encoder.encode`."""
        for activations in self._base.encode(texts, want, ordered=ordered):
            if activations.states is not None:
                activations.states[:, 0] = self._first.embed(activations.tokens)
            yield activations

    def random_twin(self, seed: int = 0, *, keep_embeddings: bool = False) -> Encoder:
        """See `Encoder.random_twin`."""
        return LexicalFirst(self._base.random_twin(seed, keep_embeddings=keep_embeddings))


def _layer_norm(base: HuggingFaceEncoder) -> torch.nn.Module:
    for name, module in base.model.named_modules():
        if name.endswith("embeddings.LayerNorm"):
            return module
    raise ModelError(f"{base.name} has no LayerNorm on its embeddings; use lexical() without layer_norm")
