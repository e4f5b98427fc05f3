"""Encoders over transformers models: any encoder or decoder that AutoModel loads."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import cached_property, partial
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor

from lamina.errors import ModelError
from lamina.models.contract import STATES, Activations, Encoder, MapBatch, Packed, Room, Tokens, Want
from lamina.models.running.anatomy import (
    Anatomy,
    accepted,
    anatomy,
    attention_by,
    last_mixer,
    noted_inputs,
    only_tokens,
    text_part,
)
from lamina.models.running.attention_maps import ValueNorms, map_batches, with_maps
from lamina.models.running.batching import (
    BatchSize,
    Chunk,
    InputRow,
    Packing,
    chunks,
    cut_ahead,
    lookahead,
    packs,
    padded,
    row_groups,
    rows_of,
    sent,
)
from lamina.models.running.devices import input_device, weights
from lamina.models.running.tokens import InputFormat, TokenizedText, WordTokenizer, token_id
from lamina.types import Text

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerFast

    from lamina.models.language.language_model import LanguageModel
    from lamina.models.running.task_heads import HeadOnStates
    from lamina.models.running.variants import LexicalEncoder


FORMAT = 1
"""Version of the encoding; raised when the same model and text would give different numbers."""

_SAMPLE = ("the", "lazy", "dog", "runs", "far", "away")
_LOOKAHEAD_BYTES = {False: 256 * 2**20, True: 2**30}
"""Results that wait for earlier ones, without a GPU and with one."""
_UNLIMITED = 1_000_000
_DEFAULT_LIMIT = 512
_TRANSIENT_CONFIG = {"_name_or_path", "transformers_version", "dtype", "torch_dtype", "architectures"}


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
        reading: InputFormat | None = None,
    ) -> None:
        self.name = name
        self.span_model = None if span_model is None else span_model.eval().requires_grad_(False)
        """The same weights with the span head that the model was saved with; None if it has none."""
        self.whole: PreTrainedModel | None = None
        """The model with its head, if it was given in memory; None if only its body was loaded."""
        self.language_model: LanguageModel | None = None
        """With its language-model head, once `language_model` was asked for it."""
        self.head_on_states: HeadOnStates | None = None
        """The head it was fine-tuned with, once `head_on_states` was asked for it."""
        self.model = text_part(model).eval().requires_grad_(False)
        self.pooler: torch.nn.Module | None = None
        """Taken off the model, which does without; a head for classes may read it."""
        self.tokenizer = tokenizer
        self.rounded = False
        """Whether the weights of linear layers are in 8 bits (`lamina.models.weights.quantised`)."""
        self.reading = reading or InputFormat()
        """How texts become ids: segments, chat template, side of an encoder-decoder."""
        self.word_tokenizer = WordTokenizer(tokenizer, self.reading)
        self._pad = token_id(tokenizer.pad_token_id) or 0
        self.anatomy: Anatomy = self._look()
        """Its properties, found by running it."""
        self.blocks, self.width, self.heads = self.anatomy.blocks, self.anatomy.width, self.anatomy.heads
        self.causal, self.dtype = self.anatomy.causal, self.anatomy.dtype
        self.limit = _limit(self.model, tokenizer, limit)
        self._takes_types = (getattr(self.model.config, "type_vocab_size", 0) or 0) > 1
        self.batch_size = BatchSize(self.device, tokens_per_batch)
        """Tokens of a batch; found by timing on a GPU unless `tokens_per_batch` is given."""

    @property
    def device(self) -> torch.device:
        """Where the model reads its input; not `model.device`, which is empty where weights are on disk until used."""
        return input_device(self.model)

    @property
    def source(self) -> str:
        """The folder or the hub's id that it was loaded from; empty for a model made in memory."""
        return str(self.model.name_or_path or "")

    @property
    def pads(self) -> bool:
        """Whether texts of different lengths may share a batch: padding changes nothing."""
        return self.anatomy.pads

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
        head = [
            FORMAT,
            type(self.model).__name__,
            config,
            str(self.model.dtype),
            self.limit,
            self.word_tokenizer.definition(),
        ]
        digest = hashlib.sha256(json.dumps(head, sort_keys=True, default=str).encode())
        for name, tensor in weights(self.model):
            digest.update(f"{name}{tuple(tensor.shape)}".encode())
            digest.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
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
                result = anatomy(self.model, ids, name=self.name)
                self.pooler = pooler
                return result
            except ModelError:
                # Some models cannot do without.
                self.model.register_module("pooler", pooler)
        return anatomy(self.model, ids, name=self.name)

    @cached_property
    def trial_ids(self) -> list[int]:
        """Some tokens that are not special, at least six different ones if the vocabulary has them."""
        return self._ordinary_ids()[: 2 * len(_SAMPLE)]

    def _ordinary_ids(self) -> list[int]:
        """Some tokens that are not special, of a sentence first; a few of the vocabulary where it has none of them."""
        tokens = self.tokenize(Text("", _SAMPLE))
        ids = tokens.ids[tokens.words >= 0].tolist() if not tokens.unknown else []
        special = {self._pad, *self.tokenizer.all_special_ids}
        ordinary = [token for token in ids if token not in special]
        if len(set(ordinary)) >= len(_SAMPLE):
            return ordinary
        known = sorted(set(self.tokenizer.get_vocab().values()) - special)
        return ordinary + known[: 2 * len(_SAMPLE)]

    def tokenize(self, text: Text) -> Tokens:
        """See `Encoder.tokenize`."""
        return self.word_tokenizer(text)[0]

    def tokenize_all(self, texts: Sequence[Text]) -> list[Tokens]:
        """See `Encoder.tokenize_all`."""
        return [cut.tokens for cut in self.word_tokenizer.cut(texts)]

    def joined_ids(self, words: Sequence[str]) -> list[int]:
        """See `Encoder.joined_ids`."""
        return self.word_tokenizer.joined_ids(words)

    def names(self, tokens: Tokens) -> list[str]:
        """See `Encoder.names`."""
        return [name.strip() for name in self.token_names(tokens.ids.tolist())]

    def vocabulary(self) -> list[str]:
        """See `Encoder.vocabulary`."""
        special = {self._pad, *self.tokenizer.all_special_ids}
        known = sorted(set(self.tokenizer.get_vocab().values()) - special)
        return [name.strip() for name in self.token_names(known)]

    def token_names(self, ids: Sequence[int]) -> list[str]:
        """Tokens as one reads them, with the space before them where they have one."""
        # Decoded, since byte-level vocabularies are unreadable; raw if a token is only part of a character, or blank.
        raw = self.tokenizer.convert_ids_to_tokens(list(ids))
        decoded = [str(self.tokenizer.decode([token], clean_up_tokenization_spaces=False)) for token in ids]
        return [name if not word.strip() or "\ufffd" in word else word for name, word in zip(raw, decoded, strict=True)]

    def encode(
        self, texts: Iterable[Text], want: Collection[Want] = STATES, *, ordered: bool = True
    ) -> Iterator[Activations]:
        """See `Encoder.encode`."""
        if not self.anatomy.heads and {"maps", "norms"} & set(want):
            raise ModelError(f"{self.name} ({type(self.model).__name__}) has no attention maps: {self.anatomy.no_maps}")
        self.refuse(want)
        if not ordered and set(want) == set(STATES):
            yield from (activations for packed in self.packed(texts) for activations in packed.unpack())
            return
        # Ordered results wait for earlier texts; they must not fill the memory meanwhile.
        weigh = partial(self._bytes, want=frozenset(want)) if ordered else _weightless
        for chunk in self._chunks(texts, weigh):
            numbered = self._activations(chunk, want)
            yield from (
                activations for _, activations in (sorted(numbered, key=itemgetter(0)) if ordered else numbered)
            )

    def packed(
        self,
        texts: Iterable[Text],
        *,
        dtype: torch.dtype = torch.float32,
        on: Literal["device", "host"] = "host",
        room: Room | None = None,
        most: int | None = None,
    ) -> Iterator[Packed]:
        """See `Encoder.packed`."""
        self.refuse(STATES)
        how = Packing(dtype, on, room, most)
        yield from (packed for _, packed in packs(self, self._chunks(texts, _weightless), how))

    def _chunks(self, texts: Iterable[Text], weigh: Callable[[int], int]) -> Iterator[Chunk]:
        cut = cut_ahead(texts, self.word_tokenizer, lambda: lookahead(self))
        return chunks(cut, self, weigh, _LOOKAHEAD_BYTES[self.device.type == "cuda"])

    def _activations(self, chunk: Chunk, want: Collection[Want]) -> Iterator[tuple[int, Activations]]:
        if set(want) != set(STATES):
            yield from with_maps(self, chunk, want)
            return
        for numbers, packed in packs(self, [chunk], Packing()):
            yield from zip(numbers, packed.unpack(), strict=True)

    def map_batches(self, texts: Iterable[Text], *, norms: bool = False) -> Iterator[MapBatch]:
        """See `Encoder.map_batches`."""
        return map_batches(self, texts, norms=norms)

    def _bytes(self, size: int, want: Collection[Want]) -> int:
        states = self.layers * self.width * size if "states" in want else 0
        maps = len(self.map_blocks) * self.heads * size**2 if "maps" in want and size <= self.limit else 0
        return 4 * (states + maps)

    def random_twin(self, seed: int = 0, *, keep_embeddings: bool = False) -> HuggingFaceEncoder:
        """The same architecture and tokenizer with new random weights; optionally keeps the embedding layer."""
        from lamina.models.running.variants import random_twin

        return random_twin(self, seed, keep_embeddings=keep_embeddings)

    def with_one_segment(self) -> HuggingFaceEncoder:
        """See `Encoder.with_one_segment`."""
        if not (self._takes_types and self.word_tokenizer.tells_segments):
            return self
        one = HuggingFaceEncoder(
            self.model,
            self.tokenizer,
            name=self.name,
            limit=self.limit,
            tokens_per_batch=self.batch_size.tokens if self.batch_size.settled else None,
            span_model=self.span_model,
            reading=self.reading._replace(one_segment=True),
        )
        one.whole, one.origin, one.rounded = self.whole, self.origin, self.rounded
        return one

    def lexical(self, *, layer_norm: bool = False) -> LexicalEncoder:
        """The raw token embeddings, with or without the embedding layer's LayerNorm; no position, no context."""
        from lamina.models.running.variants import LexicalEncoder

        return LexicalEncoder(self, layer_norm=layer_norm)

    def rows(self, text: int, cut: TokenizedText) -> list[InputRow]:
        """The rows of a text: itself, or windows if it is longer than `limit`."""
        if len(cut.tokens.ids) > self.limit:
            self.refuse(("windows",))
        return rows_of(text, cut, limit=self.limit, causal=self.causal)

    def row_groups(self, lengths: Sequence[int]) -> list[list[int]]:
        """Which rows share a batch, given their lengths."""
        return row_groups(lengths, self.batch_size.tokens, pads=self.pads)

    def hidden(self, rows: Sequence[InputRow]) -> Sequence[Tensor]:
        """The states of a batch by layer, [row, token, width] with padding, by the model's own attention."""
        with torch.no_grad(), attention_by(self.model, None):
            return self._layers(self.inputs(rows))

    def last(self, rows: Sequence[InputRow], places: Tensor | None = None) -> Tensor:
        """The last layer of a batch, [row, token, width] with padding; with `places`, of one token per row alone."""
        with torch.no_grad(), attention_by(self.model, None):
            if places is None:
                return self.model(**self.inputs(rows)).last_hidden_state
            mixer = last_mixer(self.model, self.trial_ids)
            if mixer is None:
                states = self.model(**self.inputs(rows)).last_hidden_state
                return states[torch.arange(len(rows)), places][:, None]
            with only_tokens(mixer, places):
                return self.model(**self.inputs(rows)).last_hidden_state

    def _layers(self, inputs: dict[str, Any]) -> Sequence[Tensor]:
        if self.anatomy.shifted is None:
            return self.model(**inputs, output_hidden_states=True).hidden_states
        with noted_inputs(self.model, self.anatomy.shifted) as read:
            last = self.model(**inputs).last_hidden_state
        return [*read, last]

    def inputs(self, rows: Sequence[InputRow]) -> dict[str, Any]:
        """What the model is called with for a batch, on its device."""
        ids, types, mask = padded(rows, self._pad)
        device = self.device
        inputs: dict[str, Any] = {
            "input_ids": sent(ids, device),
            "attention_mask": sent(self._mask(rows, mask), device),
            "use_cache": False,
        }
        if self._takes_types:
            inputs["token_type_ids"] = sent(types, device)
        return accepted(self.model, inputs)

    @property
    def value_norms(self) -> ValueNorms:
        """Takes the norms of values while the model runs."""
        return self._value_norms

    @cached_property
    def _value_norms(self) -> ValueNorms:
        return ValueNorms(self.model, name=self.name, heads=self.heads, maps=self.anatomy.maps)

    def _mask(self, rows: Sequence[InputRow], inside: Tensor) -> Tensor:
        """The attention mask, given which tokens are not padding."""
        return inside


def _weightless(_size: int) -> int:
    return 0


def _limit(model: PreTrainedModel, tokenizer: PreTrainedTokenizerFast, requested: int | None) -> int:
    """The maximum number of tokens."""
    declared = [getattr(model.config, name, None) for name in ("max_position_embeddings", "max_seq_len")]
    # Models with relative positions say -1, or nothing.
    limits = [_UNLIMITED, *(value for value in declared if isinstance(value, int) and value > 0)]
    limits.append(int(tokenizer.model_max_length))
    for name, module in model.named_modules():
        # RoBERTa's and MPNet's positions start after the padding index.
        if name.endswith("position_embeddings") and isinstance(module, torch.nn.Embedding):
            behind = 0 if module.padding_idx is None else module.padding_idx + 1
            limits.append(module.num_embeddings - behind)
    most = min(limits)
    most = most if most < _UNLIMITED else _DEFAULT_LIMIT
    if requested is None:
        return most
    if not 8 <= requested <= most:
        raise ModelError(f"a maximum length of {requested} tokens is not possible; use 8 to {most} for this model")
    return requested


def has_weights_of(model: PreTrainedModel, encoder: HuggingFaceEncoder) -> bool:
    """Whether a model with a head is built on the very weights of an encoder."""
    body = model.base_model.state_dict()
    return all(name in body and torch.equal(body[name].cpu(), part.cpu()) for name, part in weights(encoder.model))
