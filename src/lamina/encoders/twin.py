"""The random-weights twin: what the architecture and the tokenizer alone account for."""

from __future__ import annotations

import torch

from lamina.encoders.huggingface import HuggingFaceEncoder


def random_twin(encoder: HuggingFaceEncoder, seed: int, *, keep_embeddings: bool) -> HuggingFaceEncoder:
    """The encoder's architecture with weights drawn anew, as the model's authors initialise them.

    Everything before the first block counts as the embedding layer and is kept with `keep_embeddings`.
    """
    model = encoder.model
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        fresh = type(model)(model.config)
    torch.nn.Module.to(fresh, device=model.device, dtype=model.dtype)
    if keep_embeddings:
        fresh.load_state_dict({k: v for k, v in model.state_dict().items() if _is_embedding(k)}, strict=False)
    twin = "random, embeddings kept" if keep_embeddings else "random"
    return HuggingFaceEncoder(fresh, encoder.tokenizer, name=f"{encoder.name} ({twin})", limit=encoder.limit)


def _is_embedding(name: str) -> bool:
    """Whether a weight belongs to the embedding layer; GPT-2 calls its tables wte and wpe."""
    top = name.split(".")[0]
    return "embed" in top or top in {"wte", "wpe"}
