"""Variants of an encoder: random-weights twin, embedding layer only, dropout on."""

from __future__ import annotations

import copy
import hashlib
import inspect
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any, cast

import torch
from jaxtyping import Float

from lamina.errors import ModelError
from lamina.models.contract import STATES, Activations, Encoder, Tokens, Want
from lamina.models.running.batching import InputRow
from lamina.models.running.devices import format_size, free_in_memory, is_spread, refuse_spread, spread, weights
from lamina.models.running.huggingface import HuggingFaceEncoder
from lamina.types import Text


def random_twin(encoder: HuggingFaceEncoder, seed: int, *, keep_embeddings: bool) -> HuggingFaceEncoder:
    """The encoder's architecture with new random weights, initialised as the model's authors do.

    Everything before the first block counts as the embedding layer and is kept with `keep_embeddings`.
    """
    model = encoder.model
    need, free = 4 * sum(parameter.numel() for parameter in model.parameters()), free_in_memory()
    if need > free:
        raise ModelError(
            f"{encoder.name}: random weights are drawn in memory and need {format_size(need)}, {format_size(free)} are "
            "free; do without the twin (--no-twin)"
        )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        # A copy: the config also sets how attention is computed, which each encoder switches independently.
        fresh = type(model)(copy.deepcopy(model.config))
    torch.nn.Module.to(fresh, dtype=model.dtype)
    if keep_embeddings:
        fresh.load_state_dict({k: v for k, v in weights(model) if _is_embedding(k)}, strict=False)
    spread(fresh, "auto" if is_spread(model) else str(encoder.device))
    twin = "random, embeddings kept" if keep_embeddings else "random"
    return HuggingFaceEncoder(
        fresh,
        encoder.tokenizer,
        name=f"{encoder.name} ({twin})",
        limit=encoder.limit,
        reading=encoder.reading,
    )


def _is_embedding(name: str) -> bool:
    """Whether a weight belongs to layer 0: tables, their norm, a projection to the blocks' width; wte and wpe in GPT-2.

    Blocks are numbered; relative positions (DeBERTa's rel_embeddings) act inside them.

    Example:
        >>> [_is_embedding(n) for n in ("wte.weight", "encoder.embedding_hidden_mapping_in.bias", "h.0.ln_1.weight")]
        [True, True, False]
    """
    parts = name.split(".")
    if any(part.isdigit() or part.startswith("rel") for part in parts):
        return False
    return any("embed" in part or part in {"wte", "wpe"} for part in parts)


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
        self.refuse_maps(want)
        for text in texts:
            tokens = self.tokenize(text)
            yield Activations(text.id, tokens, self.embed(tokens).unsqueeze(1))

    def embed(self, tokens: Tokens) -> Float[torch.Tensor, "token width"]:
        """The rows of the embedding table."""
        ids = torch.from_numpy(tokens.ids).long().to(self._base.device)
        with torch.no_grad():
            return self._norm(self._table(ids)).float().cpu()


class LexicalFirst(Encoder):
    """An encoder whose layer 0 is replaced by its raw token embeddings with LayerNorm.

    As in the pipeline paper's code; in transformers, layer 0 has position and segment added.
    """

    def __init__(self, base: Encoder) -> None:
        if not isinstance(base, HuggingFaceEncoder):
            raise ModelError(f"{base.name} has no token embeddings to put in place of its layer 0")
        self._base = base
        self._first = LexicalEncoder(base, layer_norm=True)
        if self._first.width != base.width:
            raise ModelError(f"{base.name}: token embeddings are {self._first.width} wide, its layers {base.width}")
        self.name, self.blocks, self.heads, self.width = base.name, base.blocks, base.heads, base.width
        self.causal = base.causal

    @property
    def fingerprint(self) -> str:
        """See `Encoder.fingerprint`."""
        return hashlib.sha256(f"{self._base.fingerprint} lexical first".encode()).hexdigest()

    @property
    def map_blocks(self) -> tuple[int, ...]:
        """See `Encoder.map_blocks`."""
        return self._base.map_blocks

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

    def with_one_segment(self) -> Encoder:
        """See `Encoder.with_one_segment`."""
        return LexicalFirst(self._base.with_one_segment())


def _layer_norm(base: HuggingFaceEncoder) -> torch.nn.Module:
    for name, module in base.model.named_modules():
        if name.endswith("embeddings.LayerNorm"):
            return module
    raise ModelError(f"{base.name} has no LayerNorm on its embeddings; use lexical() without layer_norm")


class DropoutEncoder(HuggingFaceEncoder):
    """An encoder in training mode: dropout depends only on the seed and the text.

    To ensure that, texts go through the model one by one, which is slower. The paper's code drew new masks each time it
    saw a text; stored states are drawn once.
    """

    def __init__(self, base: HuggingFaceEncoder, seed: int = 0) -> None:
        refuse_spread(base.model, base.name, "dropout needs it on one")
        # A copy: the base encoder needs its model in eval mode.
        model_copy = copy.deepcopy(base.model)
        super().__init__(
            model_copy, base.tokenizer, name=base.name, limit=base.limit, tokens_per_batch=1, reading=base.reading
        )
        # Other attention implementations draw in other orders; the choice must not matter.
        model_copy.set_attn_implementation("eager")
        model_copy.train()
        self._base, self._seed = base, seed
        # Attention with dropout is not a distribution over the tokens.
        self.heads = 0
        self.anatomy = self.anatomy._replace(heads=0, no_maps="its dropout is on")

    @property
    def fingerprint(self) -> str:
        """See `Encoder.fingerprint`."""
        return hashlib.sha256(f"{self._base.fingerprint} dropout {self._seed}".encode()).hexdigest()

    def random_twin(self, seed: int = 0, *, keep_embeddings: bool = False) -> DropoutEncoder:
        """See `Encoder.random_twin`."""
        return DropoutEncoder(self._base.random_twin(seed, keep_embeddings=keep_embeddings), self._seed)

    def with_one_segment(self) -> DropoutEncoder:
        """See `Encoder.with_one_segment`."""
        return DropoutEncoder(self._base.with_one_segment(), self._seed)

    def hidden(self, rows: Sequence[InputRow]) -> Sequence[torch.Tensor]:
        """See `HuggingFaceEncoder.hidden`."""
        ids = b"".join(row.ids.astype("<i8").tobytes() for row in rows)
        drawn = hashlib.blake2b(ids, digest_size=7, key=str(self._seed).encode()).digest()
        devices = [self.model.device] if self.model.device.type == "cuda" else []
        with torch.random.fork_rng(devices):
            torch.manual_seed(int.from_bytes(drawn))
            return super().hidden(rows)


# The same text at later positions: shifted position ids, for models that take them.

_LEAST = 16
"""Positions that must be left for a text."""


def with_positions_shifted(encoder: Encoder, by: int) -> HuggingFaceEncoder:
    """The same encoder, whose texts begin `by` positions further on; a ModelError in words where that is impossible.

    Models with absolute positions have as many fewer places for a text. Rotary positions are relative: such a model
    should not notice.

    Example:
        >>> encoder = with_positions_shifted(lamina.load_encoder("minilm"), 100)  # doctest: +SKIP
        >>> encoder.limit  # doctest: +SKIP
        412
    """
    if not isinstance(encoder, HuggingFaceEncoder):
        raise ModelError(f"{encoder.name} has no positions to shift")
    if "position_ids" not in inspect.signature(encoder.model.forward).parameters:
        kind = type(encoder.model).__name__
        raise ModelError(f"{encoder.name} ({kind}) takes no position ids, so none can be shifted")
    if by < 0 or encoder.limit - by < _LEAST:
        raise ModelError(
            f"{encoder.name} has {encoder.limit} positions: shifted by {by}, fewer than {_LEAST} are left for a text"
        )
    return ShiftedEncoder(encoder, by)


class ShiftedEncoder(HuggingFaceEncoder):
    """An encoder whose texts do not begin at the model's first position."""

    def __init__(self, base: HuggingFaceEncoder, by: int) -> None:
        super().__init__(
            base.model,
            base.tokenizer,
            name=base.name,
            limit=base.limit - by,
            tokens_per_batch=base.batch_size.tokens if base.batch_size.settled else None,
            span_model=base.span_model,
            reading=base.reading,
        )
        self.whole, self.origin = base.whole, base.origin
        self._base, self._by = base, by
        self._first = _first_position(base)

    @property
    def fingerprint(self) -> str:
        """See `Encoder.fingerprint`."""
        return hashlib.sha256(f"{self._base.fingerprint} positions {self._by}".encode()).hexdigest()

    def inputs(self, rows: Sequence[InputRow]) -> dict[str, Any]:
        """See `HuggingFaceEncoder.inputs`."""
        inputs = super().inputs(rows)
        size = inputs["input_ids"].shape
        places = torch.arange(size[1], device=inputs["input_ids"].device) + self._first + self._by
        return inputs | {"position_ids": places.expand(size)}

    def random_twin(self, seed: int = 0, *, keep_embeddings: bool = False) -> ShiftedEncoder:
        """See `Encoder.random_twin`."""
        return ShiftedEncoder(self._base.random_twin(seed, keep_embeddings=keep_embeddings), self._by)

    def with_one_segment(self) -> ShiftedEncoder:
        """See `Encoder.with_one_segment`."""
        return ShiftedEncoder(self._base.with_one_segment(), self._by)


def _first_position(encoder: HuggingFaceEncoder) -> int:
    """Where the model's own positions begin: RoBERTa's and MPNet's after that of padding."""
    for name, module in encoder.model.named_modules():
        if name.endswith("position_embeddings") and isinstance(module, torch.nn.Embedding):
            return 0 if module.padding_idx is None else module.padding_idx + 1
    return 0
