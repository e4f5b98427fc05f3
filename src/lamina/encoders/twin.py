"""The random-weights twin: what the architecture and the tokenizer alone account for."""

from __future__ import annotations

import copy

import torch

from lamina.encoders.huggingface import HuggingFaceEncoder


def random_twin(encoder: HuggingFaceEncoder, seed: int, *, keep_embeddings: bool) -> HuggingFaceEncoder:
    """The encoder's architecture with weights drawn anew, as the model's authors initialise them.

    Everything before the first block counts as the embedding layer and is kept with `keep_embeddings`.
    """
    model = encoder.model
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        # A copy: the config also holds the way attention is computed, which each encoder switches for itself.
        fresh = type(model)(copy.deepcopy(model.config))
    torch.nn.Module.to(fresh, device=model.device, dtype=model.dtype)
    if keep_embeddings:
        fresh.load_state_dict({k: v for k, v in model.state_dict().items() if _is_embedding(k)}, strict=False)
    twin = "random, embeddings kept" if keep_embeddings else "random"
    return HuggingFaceEncoder(fresh, encoder.tokenizer, name=f"{encoder.name} ({twin})", limit=encoder.limit)


def _is_embedding(name: str) -> bool:
    """Whether a weight makes layer 0: tables, their norm, a projection to the blocks' width; GPT-2 has wte and wpe.

    Blocks are numbered; relative positions (DeBERTa's rel_embeddings) act inside them.

    Example:
        >>> [_is_embedding(n) for n in ("wte.weight", "encoder.embedding_hidden_mapping_in.bias", "h.0.ln_1.weight")]
        [True, True, False]
    """
    parts = name.split(".")
    if any(part.isdigit() or part.startswith("rel") for part in parts):
        return False
    return any("embed" in part or part in {"wte", "wpe"} for part in parts)
