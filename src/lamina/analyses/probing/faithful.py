"""The model as the probes see it: as it is, or as the pipeline paper's code had it."""

from __future__ import annotations

from lamina.encoders import Encoder
from lamina.encoders.dropout import DropoutEncoder
from lamina.encoders.huggingface import HuggingFaceEncoder
from lamina.encoders.lexical import LexicalFirst


def seen_by_probes(encoder: Encoder, *, faithful: bool, seed: int) -> Encoder:
    """With `faithful`, the model's own dropout stays on, and layer 0 is its raw piece embeddings with LayerNorm."""
    if not faithful:
        return encoder
    return LexicalFirst(DropoutEncoder(encoder, seed) if isinstance(encoder, HuggingFaceEncoder) else encoder)


def described(encoder: Encoder, *, faithful: bool, seed: int) -> dict[str, str]:
    """What provenance says of the model."""
    if not faithful:
        return encoder.describe()
    return encoder.describe() | {"faithful": f"layer 0 raw piece embeddings with LayerNorm; dropout on, seed {seed}"}
