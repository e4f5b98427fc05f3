"""Vectors of words: of the words asked about alone, in float16, layer by layer.

They are made in parts, each of some texts. On disk, a part has one file per layer and is small enough for memory; parts
are encoded apart from each other: a run that was stopped encodes the missing ones, and gets the same numbers. Where
vectors are not kept, they are held on the GPU or in memory (see `activations.residence`).
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from contextlib import ExitStack, nullcontext
from functools import partial
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int

from lamina.activations import default_root
from lamina.activations.reading import sum_rows
from lamina.activations.residence import device_of
from lamina.activations.write_through import Keep, stored_too
from lamina.analyses.contextualization.kept_vectors import FORMAT, HeldVectors, OccurrenceVectors
from lamina.analyses.contextualization.words_in_context import WordsInContext
from lamina.corpora.corpus import fingerprint_of
from lamina.encoders import SPECIAL, Encoder
from lamina.encoders.contract import Packed
from lamina.errors import DiskFullError, ModelError
from lamina.framework.cache import run_folder
from lamina.probes.mlp import InMemory, Source
from lamina.progress import progress, say
from lamina.types import Span, Text

PART_BYTES = 64 * 2**20
"""Most bytes of one part, all layers together, in float16."""
PART_ITEMS = 2**14
"""Most occurrences of one part: their texts are in memory together."""
_HELD_PART_BYTES = 2**29
"""Most bytes of one part where parts are held: a GPU is faster with many texts at once."""
_TAKEN_AT_ONCE = 2**15
"""Vectors read at a time where all are read."""


class Workspace:
    """Folders of vectors and answers in the store, each locked while this run needs it.

    With `held`, a device, vectors are held there instead of in folders.
    """

    def __init__(self, root: Path | None, stack: ExitStack, held: str | None = None) -> None:
        self.root = Path(default_root() if root is None else root)
        self.held = held
        self._stack = stack
        self._open: dict[str, tuple[Path, ExitStack]] = {}

    def folder(self, key: str) -> Path:
        """The folder of this key; another process that wants it waits."""
        if key not in self._open:
            lock = self._stack.enter_context(ExitStack())
            self._open[key] = lock.enter_context(run_folder(key, self.root)), lock
        return self._open[key][0]

    def drop(self, key: str) -> None:
        """Delete the folder: what it holds has served."""
        if key in self._open:
            folder, lock = self._open.pop(key)
            for path in folder.glob("*.safetensors"):
                path.unlink(missing_ok=True)
            lock.close()

    def refuse_full(self, size: int, what: str) -> None:
        """Say how much disk something takes; an error where there is not as much."""
        there = next(folder for folder in (self.root, *self.root.absolute().parents) if folder.exists())
        free = shutil.disk_usage(there).free
        say(f"{what}: up to {size / 1e6:,.0f} MB of disk in {self.root} ({free / 1e6:,.0f} MB are free)")
        if size > free:
            raise DiskFullError(
                f"{what} take up to {size / 1e9:,.1f} GB of disk, and {free / 1e9:,.1f} GB are free in {self.root}; "
                "free some space (`lamina store gc`), name another folder with --store, or take fewer texts (--limit)"
            )


def part_edges(text: Int[np.ndarray, " occurrence"], item_bytes: int, most: int | None = None) -> tuple[int, ...]:
    """Where parts begin, and the number of occurrences: whole texts, as many as fit.

    Example:
        >>> part_edges(np.array([0, 0, 1, 2, 2, 2]), item_bytes=10, most=30)
        (0, 3, 6)
    """
    ends = np.append(np.flatnonzero(np.diff(text)) + 1, len(text))
    room = max(1, min(PART_ITEMS, (PART_BYTES if most is None else most) // item_bytes))
    edges = [0]
    while edges[-1] < len(text):
        last = int(np.searchsorted(ends, edges[-1] + room, side="right")) - 1
        # A text with more words than fit is a part of its own.
        following = int(np.searchsorted(ends, edges[-1], side="right"))
        edges.append(int(ends[max(last, following)]))
    return tuple(edges)


class Wanted(NamedTuple):
    """Whose vectors, of which words, in how much of their text."""

    encoder: Encoder
    data: WordsInContext
    size: int | None = None
    """Words on each side that the model sees; None: the whole text."""
    bag: bool = False
    """The mean over all pieces that the model sees instead of over the word's own."""
    lower: bool = False
    """Whether words are lower-cased first."""

    @property
    def key(self) -> str:
        """Equal for equal vectors."""
        how = [FORMAT, self.size, self.bag, self.lower]
        return fingerprint_of("words in context", self.encoder.fingerprint, self.data.places, how)

    @property
    def bytes(self) -> int:
        """What they take on disk."""
        return len(self.data.text) * self.item_bytes

    @property
    def item_bytes(self) -> int:
        """What one occurrence takes in all layers."""
        return 2 * self.encoder.layers * self.encoder.width


def word_vectors(
    wanted: Wanted, workspace: Workspace, whole: OccurrenceVectors | HeldVectors | None = None
) -> OccurrenceVectors | HeldVectors:
    """The vectors of every occurrence, encoding only parts that are not there yet.

    `whole` are the same words with their whole text: what a window that is a whole text is copied from.
    """
    encoder, data = wanted.encoder, wanted.data
    if workspace.held is not None:
        edges = part_edges(data.text, wanted.item_bytes, _HELD_PART_BYTES)
        vectors = HeldVectors.empty(encoder.layers, encoder.width, edges, workspace.held)
        _make(wanted, edges, range(len(edges) - 1), whole, vectors.put)
        return vectors
    edges = part_edges(data.text, wanted.item_bytes)
    on_disk = OccurrenceVectors(workspace.folder(wanted.key), encoder.layers, encoder.width, edges)
    missing = [number for number in range(len(edges) - 1) if not on_disk.has(number)]
    if missing:
        # What other analyses may ask for: whole texts, as they are.
        whole_texts = wanted.size is None and encoder.blocks > 0 and not wanted.bag and not wanted.lower
        with stored_too(encoder, workspace.root) if whole_texts else nullcontext() as keep:
            _make(wanted, edges, missing, whole, on_disk.put, keep)
    return on_disk


def _make(
    wanted: Wanted,
    edges: tuple[int, ...],
    missing: Sequence[int],
    whole: OccurrenceVectors | HeldVectors | None,
    put: Callable[[int, torch.Tensor], None],
    keep: Keep | None = None,
) -> None:
    """Encode some parts and put each where it belongs; `keep` stores the states of whole texts."""
    encoder, data = wanted.encoder, wanted.data
    seen = "whole texts" if wanted.size is None else f"{wanted.size} words on each side"
    with progress(f"words of {encoder.name}, {seen}", edges[-1]) as advance:
        texts, first = iter(data.texts), 0
        for number in range(len(edges) - 1):
            items = range(edges[number], edges[number + 1])
            last = int(data.text[items[-1]]) + 1
            texts_of_part = list(islice(texts, last - first))
            if number in missing:
                copy = None if whole is None or wanted.size is None else partial(whole.part, number)
                put(number, _encoded(wanted, items, texts_of_part, first, copy, keep))
            first = last
            advance(len(items))


_Seen = tuple[tuple[str, ...], tuple[Span, ...]]
"""Words and segments that a model sees at once."""


class _Place(NamedTuple):
    """An occurrence in what the model sees."""

    item: int
    """Its number in the part."""
    start: int
    end: int


def _encoded(
    wanted: Wanted,
    items: range,
    texts: Sequence[Text],
    first: int,
    whole: Callable[[int], torch.Tensor] | None,
    keep: Keep | None = None,
) -> Float[torch.Tensor, "layer item width"]:
    """The mean of each word's pieces at every layer, in float32, where the encoder runs.

    Args:
        wanted: whose vectors.
        items: which occurrences.
        texts: theirs.
        first: the number of the first of these texts.
        whole: layer -> the vectors of these occurrences in their whole texts, where they can be copied.
        keep: called with every text that is encoded, and its states.
    """
    encoder = wanted.encoder
    vectors = torch.zeros(encoder.layers, len(items), encoder.width, device=device_of(encoder))
    seen, copied = _windows(wanted, items, texts, first, copies=whole is not None)
    if whole is not None and copied:
        for layer in range(encoder.layers):
            vectors[layer, copied] = whole(layer)[copied].to(vectors)
    places = list(seen.values())
    encoded = [Text(str(number), *one) for number, one in enumerate(seen)]
    for packed in encoder.packed(encoded, on="device"):
        gather(packed, places, vectors, bag=wanted.bag)
        if keep is not None:
            for encoded_text in packed.each():
                keep(encoded[int(encoded_text.text)], encoded_text)
    if not bool(torch.isfinite(vectors).all()):
        raise ModelError(f"{encoder.name} gave vectors with values that are not numbers; look at its weights or file")
    return vectors


def _windows(
    wanted: Wanted, items: range, texts: Sequence[Text], first: int, *, copies: bool
) -> tuple[dict[_Seen, list[_Place]], list[int]]:
    """Everything to encode, each once, with the occurrences in it; and the occurrences that are copied.

    A window is `size` words before the occurrence, the occurrence, and `size` words after it, as far as its text goes.
    """
    data, size = wanted.data, wanted.size
    seen: dict[_Seen, list[_Place]] = {}
    copied = []
    for number, item in enumerate(items):
        text = texts[data.text[item] - first]
        start, end = data.spans[item].tolist()
        begin, stop = (0, len(text.words)) if size is None else (max(0, start - size), min(len(text.words), end + size))
        is_whole = stop - begin == len(text.words)
        if is_whole and copies:
            copied.append(number)
            continue
        words = text.words[begin:stop]
        words = tuple(word.lower() for word in words) if wanted.lower else words
        segments = text.segments if is_whole else ()
        seen.setdefault((words, segments), []).append(_Place(number, start - begin, end - begin))
    return seen, copied


def gather(
    packed: Packed, places: Sequence[Sequence[_Place]], into: Float[torch.Tensor, "layer item width"], *, bag: bool
) -> None:
    """Put the mean of the pieces of each occurrence (`bag`: of all pieces) where it belongs.

    `places` are those of each text, whose number is its id.
    """
    rows, items, start = [], [], 0
    for text, tokens in zip(packed.texts, packed.tokens, strict=True):
        words = tokens.words
        for place in places[int(text)]:
            inside = words != SPECIAL if bag else (words >= place.start) & (words < place.end)
            rows.append(start + np.flatnonzero(inside))
            items.append(place.item)
        start += len(words)
    sizes = torch.tensor([len(tokens_of_item) for tokens_of_item in rows])
    owner, pieces = torch.repeat_interleave(sizes), torch.from_numpy(np.concatenate(rows))
    states = packed.states.index_select(0, pieces.to(packed.states.device)).to(into.device).float()
    sums = sum_rows(states.flatten(1), owner.to(into.device), len(items)).unflatten(1, states.shape[1:])
    into[:, items] = (sums / sizes.to(into.device)[:, None, None]).transpose(0, 1)


def mean_by_word(layer: Source, data: WordsInContext) -> Source:
    """One vector per word: the mean over all its contexts."""
    owner = torch.from_numpy(data.word).long()
    sums = torch.zeros(len(data.words), layer.width)
    for some in torch.arange(len(owner)).split(_TAKEN_AT_ONCE):
        taken = layer.take(some).float()
        sums = sums.to(taken.device) + sum_rows(taken, owner[some].to(taken.device), len(data.words))
    return InMemory(sums / torch.bincount(owner, minlength=len(data.words)).unsqueeze(1).to(sums.device))
