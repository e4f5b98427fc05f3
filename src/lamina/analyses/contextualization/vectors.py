"""Vectors of words on disk: of the words asked about alone, in float16, layer by layer.

They are written in parts, each of some texts and small enough for memory, with one file per part and layer. Parts are
encoded apart from each other: a run that was stopped encodes the missing ones, and gets the same numbers.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import IO, NamedTuple

import numpy as np
import psutil
import torch
from jaxtyping import Float, Int

from lamina.activations import default_root
from lamina.analyses.contextualization.words_in_context import WordsInContext
from lamina.analyses.kept_runs import run_folder
from lamina.corpora.corpus import fingerprint_of
from lamina.encoders import SPECIAL, Activations, Encoder
from lamina.errors import DamagedError, DiskFullError, ModelError
from lamina.files.checking import load_tensors, save_tensors
from lamina.files.writing import told
from lamina.probes.mlp import InMemory, Source
from lamina.progress import progress, say
from lamina.types import Span, Text

FORMAT = 1
"""Raised when the same model and words would give other vectors."""
PART_BYTES = 64 * 2**20
"""Most bytes of one part, all layers together, in float16."""
PART_ITEMS = 2**14
"""Most occurrences of one part: their texts are in memory together."""
_MOST_MEMORY = 0.5
"""Share of the free memory that one layer may take; a larger one is read from disk as it is needed."""
_TAKEN_AT_ONCE = 2**15
"""Vectors read at a time where all are read."""


class Workspace:
    """Folders of vectors and answers in the store, each locked while this run needs it."""

    def __init__(self, root: Path | None, stack: ExitStack) -> None:
        self.root = Path(default_root() if root is None else root)
        self._stack = stack
        self._open: dict[str, tuple[Path, ExitStack]] = {}

    def folder(self, key: str) -> Path:
        """The folder of this key; another process that wants it waits."""
        if key not in self._open:
            own = self._stack.enter_context(ExitStack())
            self._open[key] = own.enter_context(run_folder(key, self.root)), own
        return self._open[key][0]

    def drop(self, key: str) -> None:
        """Delete the folder: what it holds has served."""
        if key in self._open:
            folder, own = self._open.pop(key)
            for path in folder.glob("*.safetensors"):
                path.unlink(missing_ok=True)
            own.close()

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


@dataclass(frozen=True, eq=False)
class OnDisk:
    """Vectors of one layer in an unnamed file: rows are read as they are needed."""

    file: IO[bytes]
    dtype: torch.dtype
    width: int
    count: int

    def __post_init__(self) -> None:
        weakref.finalize(self, self.file.close)

    def __len__(self) -> int:
        return self.count

    def take(self, items: Int[torch.Tensor, " item"]) -> Float[torch.Tensor, "item width"]:
        """See `Source.take`. Not mapped: a file that shrinks would end the process."""
        size = self.width * self.dtype.itemsize
        rows = [os.pread(self.file.fileno(), size, at * size) for at in items.tolist()]
        if any(len(row) != size for row in rows):
            raise DamagedError("a file of vectors became shorter while it was read; run the same command again")
        return torch.frombuffer(bytearray(b"".join(rows)), dtype=self.dtype).view(len(rows), self.width)


@dataclass(frozen=True, eq=False)
class OccurrenceVectors:
    """The vectors of all occurrences at every layer."""

    folder: Path
    layers: int
    width: int
    edges: tuple[int, ...]
    """Where parts begin, and the number of occurrences."""

    def layer(self, at: int) -> Source:
        """One layer: in memory where it fits, otherwise on disk."""
        for dtype in (torch.float16, torch.float32):
            size = self.edges[-1] * self.width * dtype.itemsize
            fits = size <= _MOST_MEMORY * psutil.virtual_memory().available
            made = self._in_memory(at, dtype) if fits else self._on_disk(at, dtype)
            if made is not None:
                return made
        raise AssertionError("float32 holds every part")

    def _in_memory(self, at: int, dtype: torch.dtype) -> Source | None:
        """None where some part needs more precision."""
        vectors = torch.empty(self.edges[-1], self.width, dtype=dtype)
        for number, part in self.parts(at):
            if part.dtype.itemsize > dtype.itemsize:
                return None
            vectors[self.edges[number] : self.edges[number + 1]] = part
        return InMemory(vectors)

    def _on_disk(self, at: int, dtype: torch.dtype) -> Source | None:
        with told(self.folder):
            # Without a name: it is gone with the process, however that ends.
            file = tempfile.TemporaryFile(dir=self.folder)  # noqa: SIM115 - open as long as its vectors are used
            for _, part in self.parts(at):
                if part.dtype.itemsize > dtype.itemsize:
                    file.close()
                    return None
                file.write(part.to(dtype).numpy().tobytes())
            file.flush()
        return OnDisk(file, dtype, self.width, self.edges[-1])

    def parts(self, layer: int) -> Iterator[tuple[int, Float[torch.Tensor, "item width"]]]:
        """The vectors of one layer, part by part."""
        for number in range(len(self.edges) - 1):
            yield number, self.part(number, layer)

    def part(self, number: int, layer: int) -> Float[torch.Tensor, "item width"]:
        """One part of one layer."""
        path = part_path(self.folder, number, layer)
        try:
            return load_tensors(path)[0]["vectors"]
        except (OSError, DamagedError, KeyError) as error:
            path.unlink(missing_ok=True)
            raise DamagedError(
                f"{error}; it was removed. Run the same command again: it encodes these words again"
            ) from None


def part_path(folder: Path, part: int, layer: int) -> Path:
    """Where one part of one layer lies."""
    return folder / f"{part:06d}-{layer:03d}.safetensors"


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


def word_vectors(wanted: Wanted, workspace: Workspace, whole: OccurrenceVectors | None = None) -> OccurrenceVectors:
    """The vectors of every occurrence, encoding only parts that are not there yet.

    `whole` are the same words with their whole text: what a window that is a whole text is copied from.
    """
    encoder, data = wanted.encoder, wanted.data
    edges = part_edges(data.text, wanted.item_bytes)
    made = OccurrenceVectors(workspace.folder(wanted.key), encoder.layers, encoder.width, edges)
    missing = [number for number in range(len(edges) - 1) if not _is_there(made, number)]
    if not missing:
        return made
    seen = "whole texts" if wanted.size is None else f"{wanted.size} words on each side"
    with progress(f"words of {encoder.name}, {seen}", edges[-1]) as advance:
        texts, at = iter(data.texts), 0
        for number in range(len(edges) - 1):
            items = range(edges[number], edges[number + 1])
            last = int(data.text[items[-1]]) + 1
            own = list(islice(texts, last - at))
            if number in missing:
                copy = None if whole is None or wanted.size is None else partial(whole.part, number)
                _write(made, number, _encoded(wanted, items, own, at, copy))
            at = last
            advance(len(items))
    return made


def _is_there(made: OccurrenceVectors, number: int) -> bool:
    return all(part_path(made.folder, number, layer).is_file() for layer in range(made.layers))


def _write(made: OccurrenceVectors, number: int, vectors: Float[torch.Tensor, "layer item width"]) -> None:
    for layer, own in enumerate(vectors):
        half = own.half()
        kept = half if bool(torch.isfinite(half).all()) else own
        save_tensors(part_path(made.folder, number, layer), {"vectors": kept}, {"format": FORMAT, "layer": layer})


_Seen = tuple[tuple[str, ...], tuple[Span, ...]]
"""Words and segments that a model sees at once."""


class _Place(NamedTuple):
    """An occurrence in what the model sees."""

    item: int
    """Its number in the part."""
    start: int
    end: int


def _encoded(
    wanted: Wanted, items: range, texts: Sequence[Text], first: int, whole: Callable[[int], torch.Tensor] | None
) -> Float[torch.Tensor, "layer item width"]:
    """The mean of each word's pieces at every layer, in float32.

    Args:
        wanted: whose vectors.
        items: which occurrences.
        texts: theirs.
        first: the number of the first of these texts.
        whole: layer -> the vectors of these occurrences in their whole texts, where they can be copied.
    """
    encoder = wanted.encoder
    made = torch.zeros(encoder.layers, len(items), encoder.width)
    seen, copied = _windows(wanted, items, texts, first, copies=whole is not None)
    if whole is not None and copied:
        for layer in range(encoder.layers):
            made[layer, copied] = whole(layer)[copied].float()
    places = list(seen.values())
    for each in encoder.encode((Text(str(at), *one) for at, one in enumerate(seen)), ordered=False):
        gather(each, places[int(each.text)], made, bag=wanted.bag)
    if not bool(torch.isfinite(made).all()):
        raise ModelError(f"{encoder.name} gave vectors with values that are not numbers; look at its weights or file")
    return made


def _windows(
    wanted: Wanted, items: range, texts: Sequence[Text], first: int, *, copies: bool
) -> tuple[dict[_Seen, list[_Place]], list[int]]:
    """Everything to encode, each once, with the occurrences in it; and the occurrences that are copied.

    A window is `size` words before the occurrence, the occurrence, and `size` words after it, as far as its text goes.
    """
    data, size = wanted.data, wanted.size
    seen: dict[_Seen, list[_Place]] = {}
    copied = []
    for at, item in enumerate(items):
        text = texts[data.text[item] - first]
        start, end = data.spans[item].tolist()
        begin, stop = (0, len(text.words)) if size is None else (max(0, start - size), min(len(text.words), end + size))
        is_whole = stop - begin == len(text.words)
        if is_whole and copies:
            copied.append(at)
            continue
        words = text.words[begin:stop]
        words = tuple(word.lower() for word in words) if wanted.lower else words
        segments = text.segments if is_whole else ()
        seen.setdefault((words, segments), []).append(_Place(at, start - begin, end - begin))
    return seen, copied


def gather(
    made: Activations, places: Iterable[_Place], into: Float[torch.Tensor, "layer item width"], *, bag: bool
) -> None:
    """Put the mean of the pieces of each occurrence (`bag`: of all pieces) where it belongs."""
    words, states = made.tokens.words, made.states
    for place in places:
        inside = words != SPECIAL if bag else (words >= place.start) & (words < place.end)
        if states is not None:
            into[:, place.item] = states[torch.from_numpy(inside)].float().mean(0)


def mean_by_word(layer: Source, data: WordsInContext) -> Source:
    """One vector per word: the mean over all its contexts."""
    sums = torch.zeros(len(data.words), layer.width)
    owner = torch.from_numpy(data.word).long()
    for some in torch.arange(len(owner)).split(_TAKEN_AT_ONCE):
        sums.index_add_(0, owner[some], layer.take(some).float())
    return InMemory(sums / torch.bincount(owner, minlength=len(data.words)).unsqueeze(1))
