"""A model with its own dropout left on, as the pipeline paper's code had it."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Sequence

import torch
from torch import Tensor

from lamina.encoders.contract import Want
from lamina.encoders.huggingface import HuggingFaceEncoder, Row
from lamina.errors import ModelError


class DropoutEncoder(HuggingFaceEncoder):
    """An encoder in training mode: what is dropped depends on the seed and the text, and on nothing else.

    For that, texts go through the model one by one, which is slower. The paper's code drew anew each time it saw a
    text; states that are kept are drawn once.
    """

    def __init__(self, base: HuggingFaceEncoder, seed: int = 0) -> None:
        # A copy: the encoder that this is made of wants its model in eval mode.
        own = copy.deepcopy(base.model)
        super().__init__(own, base.tokenizer, name=base.name, limit=base.limit, tokens_per_batch=1)
        # Other ways to compute attention draw in other orders; which one is in use must not matter.
        own.set_attn_implementation("eager")
        own.train()
        self._base, self._seed = base, seed
        # Attention that was partly dropped is no distribution over the tokens.
        self.heads = 0

    @property
    def fingerprint(self) -> str:
        """See `Encoder.fingerprint`."""
        return hashlib.sha256(f"{self._base.fingerprint} dropout {self._seed}".encode()).hexdigest()

    def random_twin(self, seed: int = 0, *, keep_embeddings: bool = False) -> DropoutEncoder:
        """See `Encoder.random_twin`."""
        return DropoutEncoder(self._base.random_twin(seed, keep_embeddings=keep_embeddings), self._seed)

    def _forward(self, batch: list[Row], want: frozenset[Want]) -> tuple[Sequence[Tensor], Sequence[Tensor]]:
        if "maps" in want:
            raise ModelError(f"{self.name} has no attention maps while its dropout is on")
        said = b"".join(row.ids.astype("<i8").tobytes() for row in batch)
        drawn = hashlib.blake2b(said, digest_size=7, key=str(self._seed).encode()).digest()
        devices = [self.model.device] if self.model.device.type == "cuda" else []
        with torch.random.fork_rng(devices):
            torch.manual_seed(int.from_bytes(drawn))
            return super()._forward(batch, want)
