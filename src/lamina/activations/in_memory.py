"""Activations held on a GPU or in memory, without a store in between.

The states of a corpus are one tensor in the precision a store would keep, so that what is computed from them is the
same. Texts are found by content, as in a store: a text that occurs twice is encoded once.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int

from lamina.activations.reading import ReadActivations
from lamina.activations.shards import HalfOverflowError
from lamina.activations.store import ActivationStore
from lamina.errors import ModelError
from lamina.models import Activations, Encoder, Tokens
from lamina.progress import progress, say
from lamina.types import Text, text_key

_SAMPLED = 1024
"""Texts that are tokenised to find how many tokens there will be."""
_SPARE = 1.05
"""Room beyond the expected tokens; more than that moves everything to a larger tensor."""
_COPIED_BYTES = 64 * 2**20
"""Copied from a GPU at once where held states are stored, too."""
_NOT_FINITE = (
    "the model gave values that are not finite (inf or nan). Compute in float32 (--dtype float32), or check the "
    "model's weights"
)
_MOST_SHELVED = 8
"""Corpora that a shelf holds, each of one encoder."""


class ResidentText(NamedTuple):
    """One text of a block."""

    start: int
    """Its first row."""
    tokens: Tokens
    windows: int


@dataclass(frozen=True, eq=False)
class StateBlock:
    """The states of some texts of one encoder in one piece, and where each text is in it."""

    states: Float[torch.Tensor, "token layer width"]
    texts: Mapping[bytes, ResidentText]
    """By `text_key`."""


@dataclass(frozen=True, eq=False)
class DistinctTexts:
    """The texts of a corpus as they are encoded: each content once."""

    keys: tuple[bytes, ...]
    """Of all texts, in their order."""
    names: tuple[str, ...]
    texts: Mapping[bytes, Text]
    """Without annotations."""

    @classmethod
    def of(cls, corpus: Iterable[Text]) -> DistinctTexts:
        """Read a corpus once."""
        keys, names, texts = [], [], {}
        for text in corpus:
            key = text_key(text)
            keys.append(key)
            names.append(text.id)
            if key not in texts:
                # Named by content, not by an id that two texts could share.
                texts[key] = Text(key.hex(), text.words, text.segments)
        return cls(tuple(keys), tuple(names), texts)

    def expected_tokens(self, encoder: Encoder) -> int:
        """About how many tokens the encoder makes of these texts; a sample is tokenised."""
        texts = list(self.texts.values())
        sample = texts[:: max(1, len(texts) // _SAMPLED)]
        tokens = sum(len(encoder.tokenize(text).ids) for text in sample)
        words = sum(len(text.words) for text in sample)
        return -(-tokens * sum(len(text.words) for text in texts) // max(1, words))


class ResidentActivations(ReadActivations):
    """Activations on a GPU or in memory; `states` are all of them, and `load` gives views of it.

    Example:
        >>> from lamina.testing import TinyEncoder
        >>> texts = DistinctTexts.of([Text("a", ("Hello", "you")), Text("b", ("Hi",))])
        >>> held = ResidentActivations(encode_resident(TinyEncoder(), texts, device="cpu", dtype=torch.float16), texts)
        >>> len(held), held.load(0).shape[1:], held.resident is held.states
        (2, torch.Size([3, 16]), True)
    """

    def __init__(self, block: StateBlock, listed: DistinctTexts) -> None:
        self.states = self.resident = block.states
        self._texts = [block.texts[key] for key in listed.keys]
        self._names = listed.names

    def __len__(self) -> int:
        return len(self._texts)

    def __getitem__(self, index: int) -> Activations:
        text = self._texts[index]
        return Activations(self._names[index], text.tokens, self.load(index), None, text.windows)

    @property
    def tokens(self) -> int:
        """See `ReadActivations`."""
        return sum(len(text.tokens.ids) for text in self._texts)

    @property
    def unknown(self) -> int:
        """See `ReadActivations`."""
        return sum(text.tokens.unknown for text in self._texts)

    @property
    def windowed(self) -> int:
        """See `ReadActivations`."""
        return sum(text.windows > 1 for text in self._texts)

    @property
    def token_bytes(self) -> int:
        """See `ReadActivations`."""
        return self.states[:1].numel() * self.states.element_size()

    def size(self, index: int) -> int:
        """See `ReadActivations`."""
        return len(self._texts[index].tokens.ids)

    def start(self, index: int) -> int:
        """See `ReadActivations`."""
        return self._texts[index].start

    def name(self, index: int) -> str:
        """See `ReadActivations`."""
        return self._names[index]

    def tokenized(self) -> Iterator[Tokens]:
        """See `ReadActivations`."""
        return (text.tokens for text in self._texts)

    def load(self, index: int) -> torch.Tensor:
        """See `ReadActivations`."""
        start = self.start(index)
        return self.states[start : start + self.size(index)]

    def layer(self, number: int) -> Float[torch.Tensor, "token width"]:
        """See `ReadActivations`."""
        return self.states[:, number].index_select(0, self._rows)

    @cached_property
    def _rows(self) -> Int[torch.Tensor, " token"]:
        """The rows of all texts, one text after the other: batches are encoded in another order."""
        sizes = np.array([len(text.tokens.ids) for text in self._texts], np.int64)
        shift = np.array([text.start for text in self._texts], np.int64) - (sizes.cumsum() - sizes)
        return torch.from_numpy(np.arange(sizes.sum()) + np.repeat(shift, sizes)).to(self.states.device)


def encode_resident(
    encoder: Encoder, listed: DistinctTexts, *, device: str, dtype: torch.dtype, expected: int | None = None
) -> StateBlock:
    """Encode every text straight into one tensor on a device; a HalfOverflowError if a value does not fit float16."""
    room = int(_SPARE * (listed.expected_tokens(encoder) if expected is None else expected)) + 1
    states = _allocate((room, encoder.layers, encoder.width), dtype, device)
    texts: dict[bytes, ResidentText] = {}
    filled = 0
    where = "in memory" if device == "cpu" else f"on {device}"
    with progress(f"encoding with {encoder.name}, held {where}", len(listed.texts)) as advance:
        on = "host" if device == "cpu" else "device"
        for packed in encoder.packed(listed.texts.values(), dtype=dtype, on=on):
            if packed.nan or (packed.overflow and dtype != torch.float16):
                raise ModelError(_NOT_FINITE)
            if packed.overflow:
                raise HalfOverflowError
            end = filled + len(packed.states)
            states = states if end <= len(states) else _grown(states, filled, end)
            states[filled:end] = packed.states
            for key, tokens, windows in zip(packed.texts, packed.tokens, packed.windows, strict=True):
                texts[bytes.fromhex(key)] = ResidentText(filled, tokens, windows)
                filled += len(tokens.ids)
            advance(len(packed.texts))
    return StateBlock(states[:filled], texts)


def _grown(states: torch.Tensor, filled: int, least: int) -> torch.Tensor:
    size = max(least, int(1.25 * len(states)))
    larger = _allocate((size, *states.shape[1:]), states.dtype, str(states.device))
    larger[:filled] = states[:filled]
    return larger


def _allocate(shape: tuple[int, ...], dtype: torch.dtype, device: str) -> torch.Tensor:
    """Room for states; in memory if the card has become too full for them."""
    try:
        return torch.empty(shape, dtype=dtype, device=device)
    except torch.OutOfMemoryError:
        if device == "cpu":
            raise
        say(f"{device} has become too full for all states; they are held in memory instead")
        return torch.empty(shape, dtype=dtype)


def load_resident(stored: ReadActivations, listed: DistinctTexts, device: str) -> StateBlock:
    """Read a store once into one tensor on a device."""
    numbers = dict(zip(reversed(listed.keys), range(len(listed.keys) - 1, -1, -1), strict=True))
    states: torch.Tensor | None = None
    texts: dict[bytes, ResidentText] = {}
    start = 0
    with progress(f"reading stored states, held on {device}", len(numbers)) as advance:
        for key, index in numbers.items():
            one = stored[index]
            text_states = stored.load(index) if one.states is None else one.states
            if states is None:
                tokens = sum(stored.size(number) for number in numbers.values())
                states = torch.empty(tokens, *text_states.shape[1:], dtype=text_states.dtype, device=device)
            states[start : start + len(text_states)] = text_states
            texts[key] = ResidentText(start, one.tokens, one.windows)
            start += len(text_states)
            advance()
    return StateBlock(torch.empty(0, 0, 0) if states is None else states, texts)


def store_resident(block: StateBlock, store: ActivationStore, listed: DistinctTexts) -> None:
    """Write what a store lacks of a block."""
    missing = [(text_key(text), block.texts[text_key(text)]) for text in store.missing(listed.texts.values())]
    # In the order of rows: some texts at a time are one copy.
    missing.sort(key=lambda item: item[1].start)
    row = block.states[:1].numel() * block.states.element_size()
    if block.states.dtype == torch.float32 and store.head["kept"] != "float32":
        store.widen()
    with store.writing() as writer:
        for some in _neighbours(missing, max(1, _COPIED_BYTES // row)):
            first = some[0][1].start
            last = some[-1][1]
            states = block.states[first : last.start + len(last.tokens.ids)].cpu()
            for key, text in some:
                start = text.start - first
                text_states = states[start : start + len(text.tokens.ids)]
                writer.add(key, Activations(key.hex(), text.tokens, text_states, None, text.windows))


def _neighbours(texts: Sequence[tuple[bytes, ResidentText]], most: int) -> Iterator[list[tuple[bytes, ResidentText]]]:
    """Runs of consecutive texts of at most `most` rows; a longer text is a run of its own."""
    some: list[tuple[bytes, ResidentText]] = []
    for item in texts:
        if some and item[1].start + len(item[1].tokens.ids) - some[0][1].start > most:
            yield some
            some = []
        some.append(item)
    if some:
        yield some


@dataclass(eq=False)
class Shelf:
    """Held states that several analyses of one runtime share: a report encodes each corpus once.

    It has the last few corpora, and gives them up when another one needs their room; all are freed with the runtime.
    """

    _blocks: dict[tuple[str, int], StateBlock] = field(default_factory=dict)
    """Those used last come last."""

    def find(self, encoder: Encoder, listed: DistinctTexts) -> StateBlock | None:
        """A block of this encoder that has all these texts."""
        for key, block in self._blocks.items():
            if key[0] == encoder.fingerprint and all(content in block.texts for content in listed.texts):
                self._blocks[key] = self._blocks.pop(key)
                return block
        return None

    def add(self, encoder: Encoder, block: StateBlock) -> None:
        """Shelve a block; the one used longest ago leaves where there are too many."""
        self._blocks[encoder.fingerprint, id(block)] = block
        if len(self._blocks) > _MOST_SHELVED:
            del self._blocks[next(iter(self._blocks))]

    def clear(self) -> None:
        """Give everything up."""
        self._blocks.clear()


# States that are encoded for one analysis alone are stored too, so that the next one need not encode their texts.

MOST_BYTES = 2 * 2**30
"""Most that is stored by the way: the texts of a treebank, not those of an encyclopedia."""
_SHARE = 0.25
"""Most of the free disk that is taken by the way."""

StoreText = Callable[[Text, Activations], None]
"""Stores the states of a text."""


@contextmanager
def also_stored(encoder: Encoder, root: str | os.PathLike[str] | None = None) -> Iterator[StoreText]:
    """A function that stores the states of texts which the store lacks, as long as they take little room.

    It never fails for lack of room or precision: then nothing more is stored, and these texts are encoded again
    when they are needed.

    Example:
        >>> import tempfile
        >>> from lamina.testing import TinyEncoder
        >>> encoder, text = TinyEncoder(), Text("a", ("Hello", "there"))
        >>> with tempfile.TemporaryDirectory() as root:
        ...     with also_stored(encoder, root) as keep:
        ...         keep(text, next(encoder.encode([text])))
        ...     list(ActivationStore.of(encoder, root).missing([text]))
        []
    """
    store = ActivationStore.of(encoder, root)
    left = min(MOST_BYTES, int(_SHARE * shutil.disk_usage(store.folder).free))
    # A value that float16 cannot hold, here or in another process: the next to ask for it widens the store.
    with suppress(HalfOverflowError), store.writing() as writer:

        def keep(text: Text, activations: Activations) -> None:
            nonlocal left
            key, states = text_key(text), activations.states
            if states is None or key in store:
                return
            left -= states.numel() * writer.dtype.itemsize
            if left >= 0:
                try:
                    writer.add(key, activations)
                except (HalfOverflowError, ModelError):
                    # NaN and infinity are not reported here; the caller checks for them.
                    left = 0

        yield keep
