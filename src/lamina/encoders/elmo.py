"""ELMo: a word by its characters, then two directions of LSTMs; three layers, no attention."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cached_property, lru_cache
from operator import itemgetter
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from lamina.encoders.ahead import cut_ahead
from lamina.encoders.batch_size import BatchSize
from lamina.encoders.contract import STATES, Activations, Encoder, Packed, Room, Tokens, Want
from lamina.encoders.devices import Placement, check_precision, choose_device, free_in_memory, shown_size
from lamina.encoders.elmo_files import Options, read_elmo
from lamina.encoders.elmo_network import ElmoNetwork, drawn_weights
from lamina.encoders.packing import sent
from lamina.encoders.pieces import Cut
from lamina.encoders.recipes import RandomTwin, recipe_of
from lamina.encoders.rows import Row, rows_of
from lamina.encoders.state_batches import Chunk, Packing, chunks, lookahead, packs
from lamina.errors import ModelError
from lamina.types import Text

FORMAT = 1
"""Version of the encoding; raised when the same weights and text would give different numbers."""

_LIMIT = 8192
"""Words that are read at once: LSTMs have no limit of their own, memory has."""
_LEAST = 8
_LOOKAHEAD_BYTES = 256 * 2**20
"""Results that wait for earlier ones."""
_BEGIN, _END, _WORD_BEGIN, _WORD_END, _PAD = 257, 258, 259, 260, 261
"""Numbers of what is no byte: begin and end of a sentence, begin and end of a word, padding; byte b is b + 1."""


_BOUNDARIES = {b"<S>": [_BEGIN], b"</S>": [_END]}
"""How texts write these words, if they do; all other words in brackets are spelled like any word."""


class Characters:
    """Words as the numbers of their UTF-8 bytes; one token per word, no special tokens.

    Example:
        >>> Characters(6)(Text("t", ("ab", "abcdefg"))).types.tolist()
        [[259, 98, 99, 260, 261, 261], [259, 98, 99, 100, 101, 260]]
    """

    def __init__(self, longest: int) -> None:
        self._longest = longest
        self.boundaries = np.stack([_spelled(word, longest) for word in _BOUNDARIES])
        """[2, character] The words that begin and end every sentence."""

    @property
    def room(self) -> int:
        """Bytes of a word that are read."""
        return self._longest - 2

    def __call__(self, text: Text) -> Cut:
        """A text cut into words; in the place of token types, each has its characters."""
        # Half characters are left out, as in the original.
        words = [word.encode("utf-8", "ignore") for word in text.words]
        ids = np.array([_number(word) for word in words], np.int32)
        tokens = Tokens(ids, np.arange(len(words), dtype=np.int32), sum(len(word) > self.room for word in words))
        return Cut(tokens, np.stack([_spelled(word, self._longest) for word in words]), head=0, tail=0)

    def cut(self, texts: Sequence[Text]) -> list[Cut]:
        """Many texts."""
        return [self(text) for text in texts]


@lru_cache(1 << 16)
def _spelled(word: bytes, longest: int) -> np.ndarray:
    """The numbers of a word; of one that is too long, those of its first bytes."""
    return _between(_BOUNDARIES.get(word) or [byte + 1 for byte in word[: longest - 2]], longest)


def _between(numbers: Sequence[int], longest: int) -> np.ndarray:
    spelled = np.full(longest, _PAD, np.int16)
    spelled[: len(numbers) + 2] = [_WORD_BEGIN, *numbers, _WORD_END]
    return spelled


@lru_cache(1 << 16)
def _number(word: bytes) -> int:
    """A number to know a word by: there is no vocabulary."""
    return int.from_bytes(hashlib.blake2b(word, digest_size=4).digest(), "little") >> 1


class ElmoEncoder(Encoder):
    """An ELMo. Layer 0 is the words by their characters (the same vector twice), then one layer per pair of LSTMs.

    Every text begins from zero: its vectors depend on the text alone. (The original carries the state of its LSTMs
    from batch to batch.) Words that begin and end the sentence are read and left out. Segments are read as one.
    """

    def __init__(self, network: ElmoNetwork, *, name: str, limit: int | None = None) -> None:
        options = network.options
        if limit is not None and not _LEAST <= limit <= _LIMIT:
            raise ModelError(f"a maximum length of {limit} words is not possible; use {_LEAST} to {_LIMIT} for an ELMo")
        self.name, self.network = name, network
        self.blocks, self.heads, self.width = options.layers, 0, 2 * options.projection
        self.dtype, self.limit, self.pads = network.dtype, limit or _LIMIT, True
        self.pieces = Characters(options.longest)
        self.replaced = f"words of more than {self.pieces.room} bytes, of which the first {self.pieces.room} were read"
        self.batch_size = BatchSize(self.device)
        """Tokens of a batch."""

    @classmethod
    def read(
        cls,
        folder: Path,
        *,
        name: str,
        device: Placement | None = None,
        dtype: str = "float32",
        limit: int | None = None,
    ) -> ElmoEncoder:
        """From a folder with options.json and one file of weights."""
        chosen = choose_device(device)
        if chosen == "auto":
            chosen = choose_device(None)
        if not isinstance(chosen, str):
            raise ModelError(f"{name} is an ELMo, which runs on one device; use --device cpu, cuda or cuda:N")
        check_precision(dtype, chosen)
        options, weights = read_elmo(folder)
        try:
            network = _network(options, weights, torch.device(chosen), getattr(torch, dtype))
        except torch.OutOfMemoryError:
            raise ModelError(f"{name}: its weights do not fit {chosen}; use --dtype bfloat16 or --device cpu") from None
        return cls(network, name=name, limit=limit)

    @property
    def device(self) -> torch.device:
        """See `Encoder.device`."""
        return self.network.device

    @cached_property
    def _fingerprint(self) -> str:
        head = ["elmo", FORMAT, self.network.options, str(self.dtype), self.limit]
        digest = hashlib.sha256(json.dumps(head).encode())
        for name, tensor in self.network.weights.items():
            digest.update(f"{name}{tuple(tensor.shape)}".encode())
            digest.update(tensor.cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
        return digest.hexdigest()

    @property
    def fingerprint(self) -> str:
        """See `Encoder.fingerprint`."""
        return self._fingerprint

    def tokenize(self, text: Text) -> Tokens:
        """See `Encoder.tokenize`."""
        return self.pieces(text).tokens

    def encode(
        self, texts: Iterable[Text], want: Collection[Want] = STATES, *, ordered: bool = True
    ) -> Iterator[Activations]:
        """See `Encoder.encode`."""
        self.refuse_maps(want)
        self.refuse(want)
        for chunk in self._chunks(texts, 4 * self.layers * self.width if ordered else 0):
            made = (
                (number, each)
                for numbers, packed in packs(self, [chunk], Packing())
                for number, each in zip(numbers, packed.each(), strict=True)
            )
            yield from (each for _, each in (sorted(made, key=itemgetter(0)) if ordered else made))

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
        yield from (packed for _, packed in packs(self, self._chunks(texts, 0), how))

    def _chunks(self, texts: Iterable[Text], token_bytes: int) -> Iterator[Chunk]:
        cut = cut_ahead(texts, self.pieces, lambda: lookahead(self))
        return chunks(cut, self, lambda size: size * token_bytes, _LOOKAHEAD_BYTES)

    def rows(self, text: int, cut: Cut) -> list[Row]:
        """The rows of a text: itself, or windows if it is longer than `limit`."""
        if len(cut.tokens.ids) > self.limit:
            self.refuse(("windows",))
        return rows_of(text, cut, limit=self.limit, causal=False)

    def hidden(self, rows: Sequence[Row]) -> Sequence[Tensor]:
        """The states of a batch by layer, [row, word, width] with padding."""
        with torch.no_grad():
            layers, _ = self.network.layers(*self.sentences([row.types for row in rows]))
            # Without the words that begin and end the sentence.
            return [layer[:, 1:-1] for layer in layers]

    def sentences(self, spelled: Sequence[np.ndarray]) -> tuple[Tensor, list[int]]:
        """The vectors [row, word, projection] of sentences by their characters, begin and end included, and sizes."""
        sizes = [len(each) + 2 for each in spelled]
        # Each word that occurs is looked at once, however often it does.
        kinds, which = np.unique(np.concatenate([self.pieces.boundaries, *spelled]), axis=0, return_inverse=True)
        begin, end, *_ = which = which.reshape(-1)
        places, at = np.full((len(spelled), max(sizes)), end), 2
        for row, size in enumerate(sizes):
            places[row, 0], places[row, 1 : size - 1] = begin, which[at : at + size - 2]
            at += size - 2
        vectors = self.network.words(sent(torch.from_numpy(kinds).int(), self.device))
        return vectors[sent(torch.from_numpy(places), self.device)], sizes

    def random_twin(self, seed: int = 0, *, keep_embeddings: bool = False) -> ElmoEncoder:
        """The same shape with new random weights, drawn as the authors do; optionally keeps the character network."""
        own = self.network
        need, free = 4 * sum(each.numel() for each in own.weights.values()), free_in_memory()
        if need > free:
            raise ModelError(
                f"{self.name}: random weights need {shown_size(need)} of memory, {shown_size(free)} are free; do "
                "without the twin (--no-twin)"
            )
        weights = drawn_weights(own.options, seed)
        if keep_embeddings:
            weights |= {name: each for name, each in own.weights.items() if not name.startswith("RNN")}
        name = f"{self.name} ({'random, embeddings kept' if keep_embeddings else 'random'})"
        twin = ElmoEncoder(_network(own.options, weights, self.device, self.dtype), name=name, limit=self.limit)
        twin.recipe = RandomTwin(recipe_of(self), seed, keep_embeddings)
        return twin


def _network(options: Options, weights: dict[str, Tensor], device: torch.device, dtype: torch.dtype) -> ElmoNetwork:
    return ElmoNetwork(options, {name: each.to(device, dtype) for name, each in weights.items()})
