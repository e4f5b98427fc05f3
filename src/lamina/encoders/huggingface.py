"""Any Hugging Face encoder or decoder that AutoModel loads."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import nullcontext
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch import Tensor

from lamina.encoders.batching import bucket, chunked, plan_windows
from lamina.encoders.contract import STATES, Activations, Encoder, Tokens, Want
from lamina.encoders.pieces import Pieces, token_id
from lamina.encoders.values import ValueNorms
from lamina.errors import ModelError
from lamina.types import Text

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerFast

    from lamina.encoders.variants import LexicalEncoder

FORMAT = 1
"""Version of the encoding; raised when the same model and text would give different numbers."""

_LOOKAHEAD_TEXTS = 1024
_LOOKAHEAD_BYTES = 256 * 2**20
_UNLIMITED = 1_000_000
_DEFAULT_LIMIT = 512
_TRANSIENT_CONFIG = {"_name_or_path", "transformers_version", "dtype", "torch_dtype", "architectures"}


class Row(NamedTuple):
    """One row of a batch: a whole text, or one window of it."""

    text: int
    ids: np.ndarray
    types: list[int]
    words: np.ndarray
    """[token] The word of each token; SPECIAL for special tokens."""
    keep: slice
    """The tokens of the row that are kept ..."""
    to: slice
    """... and where in the text they go."""


class Computed(NamedTuple):
    """What a batch gave, padding included; empty where it was not asked for."""

    hidden: Sequence[Tensor]
    """Of every layer, [row, token, width]."""
    maps: Sequence[Tensor]
    """Of every block, [row, head, token, token]."""
    norms: Sequence[Tensor]
    """Of every block, [row, head, token]."""


class HuggingFaceEncoder(Encoder):
    """A transformers model with its tokenizer, frozen and in eval mode.

    States are those of transformers: layer 0 is the embedding layer's output, layer l the output
    of block l; for decoders with a final norm (GPT-2, Llama) the last one is after that norm.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerFast,
        *,
        name: str,
        limit: int | None = None,
        tokens_per_batch: int | None = None,
        span_model: PreTrainedModel | None = None,
        one_segment: bool = False,
    ) -> None:
        self.name = name
        self.span_model = None if span_model is None else span_model.eval().requires_grad_(False)
        """The same weights with the span head that the model was saved with; None if it has none."""
        if getattr(model, "pooler", None) is not None:
            # Not part of any layer and often untrained: it would only cost time and change the fingerprint.
            model.register_module("pooler", None)
        self.model = model.eval().requires_grad_(False)
        self.tokenizer = tokenizer
        self.one_segment = one_segment
        """Whether every token has segment id 0, whatever its segment."""
        self.pieces = Pieces(tokenizer, one_segment=one_segment)
        config = model.config
        self.blocks = config.num_hidden_layers
        self.heads = config.num_attention_heads
        self.width = config.hidden_size
        self.causal = _is_causal(model)
        self.limit = _limit(model, tokenizer, limit)
        self._pad = token_id(tokenizer.pad_token_id) or 0
        self._takes_types = getattr(config, "type_vocab_size", 0) > 1
        self._tokens_per_batch = tokens_per_batch or (2048 if model.device.type == "cpu" else 32768)

    @property
    def fingerprint(self) -> str:
        """See `Encoder.fingerprint`."""
        return self._fingerprint

    @cached_property
    def _fingerprint(self) -> str:
        config = {k: v for k, v in self.model.config.to_dict().items() if k not in _TRANSIENT_CONFIG}
        head = [FORMAT, type(self.model).__name__, config, str(self.model.dtype), self.limit, self.pieces.definition()]
        digest = hashlib.sha256(json.dumps(head, sort_keys=True, default=str).encode())
        for name, tensor in sorted(self.model.state_dict().items()):
            digest.update(f"{name}{tuple(tensor.shape)}".encode())
            digest.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy())
        return digest.hexdigest()

    def tokenize(self, text: Text) -> Tokens:
        """See `Encoder.tokenize`."""
        return self.pieces(text)[0]

    def joined_ids(self, words: Sequence[str]) -> list[int]:
        """See `Encoder.joined_ids`."""
        return self.pieces.joined_ids(words)

    def names(self, tokens: Tokens) -> list[str]:
        """See `Encoder.names`."""
        # Decoded, since byte-level vocabularies are unreadable; raw if a piece is only part of a character.
        raw = self.tokenizer.convert_ids_to_tokens(tokens.ids.tolist())
        said = [str(self.tokenizer.decode([each])).strip() for each in tokens.ids.tolist()]
        return [name if not word or "\ufffd" in word else word for name, word in zip(raw, said, strict=True)]

    def encode(
        self, texts: Iterable[Text], want: Collection[Want] = STATES, *, ordered: bool = True
    ) -> Iterator[Activations]:
        """See `Encoder.encode`."""
        # Ordered results wait for earlier texts; they must not fill the memory meanwhile.
        cut = ((text, *self.pieces(text)) for text in texts)
        sized = ((item, self._bytes(len(item[1].ids), want) if ordered else 1) for item in cut)
        for chunk in chunked(sized, _LOOKAHEAD_TEXTS, _LOOKAHEAD_BYTES):
            rows = [self._rows(i, tokens, types, head, tail) for i, (_, tokens, types, head, tail) in enumerate(chunk)]
            heads = [(text.id, tokens) for text, tokens, *_ in chunk]
            made = self._run(heads, rows, frozenset(want))
            if ordered:
                yield from (activations for _, activations in sorted(made, key=lambda pair: pair[0]))
            else:
                yield from (activations for _, activations in made)

    def _bytes(self, size: int, want: Collection[Want]) -> int:
        states = self.layers * self.width * size if "states" in want else 0
        maps = self.blocks * self.heads * size**2 if "maps" in want and size <= self.limit else 0
        return 4 * (states + maps)

    def random_twin(self, seed: int = 0, *, keep_embeddings: bool = False) -> HuggingFaceEncoder:
        """The same architecture and tokenizer with new random weights; optionally keeps the embedding layer."""
        from lamina.encoders.variants import random_twin

        return random_twin(self, seed, keep_embeddings=keep_embeddings)

    def with_one_segment(self) -> HuggingFaceEncoder:
        """See `Encoder.with_one_segment`."""
        if not (self._takes_types and self.pieces.tells_segments):
            return self
        return HuggingFaceEncoder(
            self.model,
            self.tokenizer,
            name=self.name,
            limit=self.limit,
            tokens_per_batch=self._tokens_per_batch,
            span_model=self.span_model,
            one_segment=True,
        )

    def lexical(self, *, layer_norm: bool = False) -> LexicalEncoder:
        """The raw piece embeddings, with or without the embedding layer's LayerNorm; no position, no context."""
        from lamina.encoders.variants import LexicalEncoder

        return LexicalEncoder(self, layer_norm=layer_norm)

    def _rows(self, text: int, tokens: Tokens, types: list[int], head: int, tail: int) -> list[Row]:
        size = len(tokens.ids)
        if size <= self.limit:
            return [Row(text, tokens.ids, types, tokens.words, slice(0, size), slice(0, size))]
        if head > self.limit // 2:
            # Leading segments that are too long to repeat in every window are cut into windows as well.
            head = int(np.argmax(tokens.words >= 0))
        rows = []
        for window in plan_windows(size - head - tail, self.limit - head - tail, causal=self.causal):
            first, last = window.keep_start == 0, window.keep_stop == size - head - tail
            chosen = np.r_[0:head, head + window.start : head + window.stop, size - tail : size]
            keep = slice(
                0 if first else head + window.keep_start - window.start,
                len(chosen) if last else head + window.keep_stop - window.start,
            )
            to = slice(0 if first else head + window.keep_start, size if last else head + window.keep_stop)
            rows.append(Row(text, tokens.ids[chosen], [types[i] for i in chosen], tokens.words[chosen], keep, to))
        return rows

    def _run(
        self, heads: Sequence[tuple[str, Tokens]], rows: list[list[Row]], want: frozenset[Want]
    ) -> Iterator[tuple[int, Activations]]:
        flat = [row for windows in rows for row in windows]
        waiting: dict[int, tuple[Tensor, int]] = {}
        for group in bucket([len(row.ids) for row in flat], self._tokens_per_batch):
            batch = [flat[i] for i in group]
            hidden, attentions, lengths = self._forward(batch, want)
            for b, row in enumerate(batch):
                name, tokens = heads[row.text]
                states = torch.stack([layer[b, row.keep] for layer in hidden], dim=1).float() if hidden else None
                windows = len(rows[row.text])
                if windows == 1:
                    size = len(row.ids)
                    maps = (
                        torch.stack([block[b, :, :size, :size] for block in attentions]).float() if attentions else None
                    )
                    norms = torch.stack([block[b, :, :size] for block in lengths]) if lengths else None
                    yield row.text, Activations(name, tokens, states, maps, norms=norms)
                    continue
                whole, done = waiting.pop(row.text, (torch.empty(0), 0))
                if states is not None:
                    whole = whole if done else torch.empty(len(tokens.ids), self.layers, self.width)
                    whole[row.to] = states
                if done + 1 == windows:
                    yield row.text, Activations(name, tokens, whole if hidden else None, None, windows)
                else:
                    waiting[row.text] = (whole, done + 1)
            # Released before the next batch runs, which needs the memory.
            del hidden, attentions, lengths

    def _forward(self, batch: list[Row], want: frozenset[Want]) -> Computed:
        width = len(batch[0].ids)
        ids = torch.full((len(batch), width), self._pad)
        types = torch.zeros((len(batch), width), dtype=torch.long)
        for b, row in enumerate(batch):
            size = len(row.ids)
            ids[b, :size] = torch.from_numpy(row.ids)
            types[b, :size] = torch.tensor(row.types)
        if want & {"maps", "norms"} and self.model.config._attn_implementation != "eager":
            # Other implementations return no maps, with only a log line.
            self.model.set_attn_implementation("eager")
        device = self.model.device
        inputs = {"input_ids": ids.to(device), "attention_mask": self._mask(batch, width).to(device)}
        if self._takes_types:
            inputs["token_type_ids"] = types.to(device)
        with torch.no_grad(), self._value_norms.taken() if "norms" in want else nullcontext([]) as norms:
            out = self.model(**inputs, output_hidden_states="states" in want, output_attentions="maps" in want)
        hidden = [layer.cpu() for layer in out.hidden_states] if "states" in want else []
        attentions = [block.cpu() for block in out.attentions] if "maps" in want else []
        return Computed(hidden, attentions, [block.cpu() for block in norms])

    @cached_property
    def _value_norms(self) -> ValueNorms:
        return ValueNorms(self.model, name=self.name, heads=self.heads)

    def _mask(self, batch: list[Row], width: int) -> Tensor:
        """What may be looked at: all tokens of a row, and no padding."""
        mask = torch.zeros((len(batch), width), dtype=torch.long)
        for b, row in enumerate(batch):
            mask[b, : len(row.ids)] = 1
        return mask


def _is_causal(model: PreTrainedModel) -> bool:
    """Whether the model is causal, found by testing: does changing the last token change the first one's state?"""
    ids = torch.tensor([[1, 2, 3], [1, 2, 4]], device=model.device)
    with torch.no_grad():
        out = model(input_ids=ids, attention_mask=torch.ones_like(ids)).last_hidden_state
    return bool(torch.allclose(out[0, 0], out[1, 0], atol=1e-6))


def _limit(model: PreTrainedModel, tokenizer: PreTrainedTokenizerFast, asked: int | None) -> int:
    """The maximum number of tokens."""
    limits = [getattr(model.config, "max_position_embeddings", None) or _UNLIMITED, int(tokenizer.model_max_length)]
    for name, module in model.named_modules():
        # RoBERTa's and MPNet's positions start after the padding index.
        if name.endswith("position_embeddings") and isinstance(module, torch.nn.Embedding):
            behind = 0 if module.padding_idx is None else module.padding_idx + 1
            limits.append(module.num_embeddings - behind)
    own = min(limits)
    own = own if own < _UNLIMITED else _DEFAULT_LIMIT
    if asked is None:
        return own
    if not 8 <= asked <= own:
        raise ModelError(f"a maximum length of {asked} tokens is not possible; use 8 to {own} for this model")
    return asked
