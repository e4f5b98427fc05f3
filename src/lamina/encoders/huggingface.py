"""Any Hugging Face encoder or decoder that AutoModel loads."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import nullcontext
from functools import cached_property
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from lamina.encoders.anatomy import Anatomy, accepted, anatomy, attention_by, text_part
from lamina.encoders.batching import bucket, chunked, plan_windows
from lamina.encoders.blocks import noted_inputs
from lamina.encoders.contract import STATES, Activations, Encoder, Tokens, Want
from lamina.encoders.pieces import Pieces, Reading, token_id
from lamina.encoders.values import ValueNorms
from lamina.errors import ModelError
from lamina.types import Text

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerFast

    from lamina.encoders.variants import LexicalEncoder

FORMAT = 1
"""Version of the encoding; raised when the same model and text would give different numbers."""

_SAMPLE = ("the", "lazy", "dog", "runs", "far", "away")
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
        reading: Reading | None = None,
    ) -> None:
        self.name = name
        self.span_model = None if span_model is None else span_model.eval().requires_grad_(False)
        """The same weights with the span head that the model was saved with; None if it has none."""
        self.whole: PreTrainedModel | None = None
        """The model with its head, if it was given in memory; None if only its body was loaded."""
        self.model = text_part(model).eval().requires_grad_(False)
        self.tokenizer = tokenizer
        self.reading = reading or Reading()
        """How texts become ids: segments, chat template, side of an encoder-decoder."""
        self.pieces = Pieces(tokenizer, self.reading)
        self._pad = token_id(tokenizer.pad_token_id) or 0
        self.anatomy: Anatomy = self._look()
        """What running the model shows."""
        self.blocks, self.width, self.heads = self.anatomy.blocks, self.anatomy.width, self.anatomy.heads
        self.causal = self.anatomy.causal
        self.limit = _limit(self.model, tokenizer, limit)
        self._takes_types = (getattr(self.model.config, "type_vocab_size", 0) or 0) > 1
        self._tokens_per_batch = tokens_per_batch or (2048 if model.device.type == "cpu" else 32768)

    @property
    def fingerprint(self) -> str:
        """See `Encoder.fingerprint`."""
        return self._fingerprint

    @property
    def map_blocks(self) -> tuple[int, ...]:
        """See `Encoder.map_blocks`."""
        return tuple(self.anatomy.maps) if self.heads else ()

    @cached_property
    def _fingerprint(self) -> str:
        return self.weigh()

    @property
    def weights_fingerprint(self) -> str:
        """The fingerprint of the model's own weights, config and tokenizer, as it was first taken."""
        return self._fingerprint

    def weigh(self) -> str:
        """The fingerprint, worked out again from what is in memory now."""
        config = {k: v for k, v in self.model.config.to_dict().items() if k not in _TRANSIENT_CONFIG}
        head = [FORMAT, type(self.model).__name__, config, str(self.model.dtype), self.limit, self.pieces.definition()]
        digest = hashlib.sha256(json.dumps(head, sort_keys=True, default=str).encode())
        for name, tensor in sorted(self.model.state_dict().items()):
            digest.update(f"{name}{tuple(tensor.shape)}".encode())
            digest.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy())
        return digest.hexdigest()

    @property
    def causal_maps(self) -> bool:
        """See `Encoder.causal_maps`."""
        return self.causal or self.reading.decoder_start is not None

    def _look(self) -> Anatomy:
        ids = self._ordinary_ids()
        pooler = getattr(self.model, "pooler", None)
        if isinstance(pooler, torch.nn.Module):
            # Not part of any layer and often untrained: it would only cost time and change the fingerprint.
            self.model.register_module("pooler", None)
            try:
                return anatomy(self.model, ids, name=self.name)
            except ModelError:
                # Some models cannot do without.
                self.model.register_module("pooler", pooler)
        return anatomy(self.model, ids, name=self.name)

    def _ordinary_ids(self) -> list[int]:
        """Some tokens that are not special, of a sentence first; a few of the vocabulary where it has none of them."""
        tokens = self.tokenize(Text("", _SAMPLE))
        said = tokens.ids[tokens.words >= 0].tolist() if not tokens.unknown else []
        special = {self._pad, *self.tokenizer.all_special_ids}
        ordinary = [each for each in said if each not in special]
        if len(set(ordinary)) >= len(_SAMPLE):
            return ordinary
        known = sorted(set(self.tokenizer.get_vocab().values()) - special)
        return ordinary + known[: 2 * len(_SAMPLE)]

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
        if not self.anatomy.heads and {"maps", "norms"} & set(want):
            raise ModelError(f"{self.name} ({type(self.model).__name__}) has no attention maps: {self.anatomy.no_maps}")
        self.refuse(want)
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
        maps = len(self.map_blocks) * self.heads * size**2 if "maps" in want and size <= self.limit else 0
        return 4 * (states + maps)

    def random_twin(self, seed: int = 0, *, keep_embeddings: bool = False) -> HuggingFaceEncoder:
        """The same architecture and tokenizer with new random weights; optionally keeps the embedding layer."""
        from lamina.encoders.variants import random_twin

        return random_twin(self, seed, keep_embeddings=keep_embeddings)

    def with_one_segment(self) -> HuggingFaceEncoder:
        """See `Encoder.with_one_segment`."""
        if not (self._takes_types and self.pieces.tells_segments):
            return self
        one = HuggingFaceEncoder(
            self.model,
            self.tokenizer,
            name=self.name,
            limit=self.limit,
            tokens_per_batch=self._tokens_per_batch,
            span_model=self.span_model,
            reading=self.reading._replace(one_segment=True),
        )
        one.whole, one.origin = self.whole, self.origin
        return one

    def lexical(self, *, layer_norm: bool = False) -> LexicalEncoder:
        """The raw piece embeddings, with or without the embedding layer's LayerNorm; no position, no context."""
        from lamina.encoders.variants import LexicalEncoder

        return LexicalEncoder(self, layer_norm=layer_norm)

    def _rows(self, text: int, tokens: Tokens, types: list[int], head: int, tail: int) -> list[Row]:
        size = len(tokens.ids)
        if size <= self.limit:
            return [Row(text, tokens.ids, types, tokens.words, slice(0, size), slice(0, size))]
        self.refuse(("windows",))
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
        for group in self._groups([len(row.ids) for row in flat]):
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

    def _groups(self, lengths: list[int]) -> list[list[int]]:
        groups = bucket(lengths, self._tokens_per_batch)
        if self.anatomy.pads:
            return groups
        # Padding would change this model's states: only texts of one length share a batch.
        return [
            list(same)
            for group in groups
            for _, same in groupby(sorted(group, key=lengths.__getitem__), key=lengths.__getitem__)
        ]

    def _forward(self, batch: list[Row], want: frozenset[Want]) -> Computed:
        """States by the model's own attention, whatever else is asked; maps and norms by one that hands them out."""
        hidden: list[Tensor] = []
        if "states" in want:
            with torch.no_grad(), attention_by(self.model, None):
                hidden = [layer.cpu() for layer in self._layers(self._inputs(batch))]
        if not want & {"maps", "norms"}:
            return Computed(hidden, [], [])
        with torch.no_grad(), attention_by(self.model, "eager"):
            inputs = self._inputs(batch)
            with self._value_norms.taken() if "norms" in want else nullcontext([]) as norms:
                out = self.model(**inputs, output_attentions="maps" in want)
        found = [out.attentions[place].cpu() for place in self.anatomy.maps.values()] if "maps" in want else []
        return Computed(hidden, found, [block.cpu() for block in norms])

    def _layers(self, inputs: dict[str, Any]) -> Sequence[Tensor]:
        if self.anatomy.shifted is None:
            return self.model(**inputs, output_hidden_states=True).hidden_states
        with noted_inputs(self.model, self.anatomy.shifted) as read:
            last = self.model(**inputs).last_hidden_state
        return [*read, last]

    def _inputs(self, batch: list[Row]) -> dict[str, Any]:
        width = max(len(row.ids) for row in batch)
        ids = torch.full((len(batch), width), self._pad)
        types = torch.zeros((len(batch), width), dtype=torch.long)
        for b, row in enumerate(batch):
            size = len(row.ids)
            ids[b, :size] = torch.from_numpy(row.ids)
            types[b, :size] = torch.tensor(row.types)
        device = self.model.device
        inputs: dict[str, Any] = {
            "input_ids": ids.to(device),
            "attention_mask": self._mask(batch, width).to(device),
            "use_cache": False,
        }
        if self._takes_types:
            inputs["token_type_ids"] = types.to(device)
        return accepted(self.model, inputs)

    @cached_property
    def _value_norms(self) -> ValueNorms:
        return ValueNorms(self.model, name=self.name, heads=self.heads, maps=self.anatomy.maps)

    def _mask(self, batch: list[Row], width: int) -> Tensor:
        """What may be looked at: all tokens of a row, and no padding."""
        mask = torch.zeros((len(batch), width), dtype=torch.long)
        for b, row in enumerate(batch):
            mask[b, : len(row.ids)] = 1
        return mask


def _limit(model: PreTrainedModel, tokenizer: PreTrainedTokenizerFast, asked: int | None) -> int:
    """The maximum number of tokens."""
    said = [getattr(model.config, name, None) for name in ("max_position_embeddings", "max_seq_len")]
    # Models with relative positions say -1, or nothing.
    limits = [_UNLIMITED, *(each for each in said if isinstance(each, int) and each > 0)]
    limits.append(int(tokenizer.model_max_length))
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


def has_weights_of(model: PreTrainedModel, encoder: HuggingFaceEncoder) -> bool:
    """Whether a model with a head is built on the very weights of an encoder."""
    own = model.base_model.state_dict()
    return all(
        name in own and torch.equal(own[name].cpu(), part.cpu()) for name, part in encoder.model.state_dict().items()
    )
