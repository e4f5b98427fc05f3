"""Vectors of the annotated words only, in float16, layer by layer.

They are made in parts, each of some texts. On disk, a part has one file per layer and is small enough for memory; parts
are encoded independently: a stopped run encodes the missing ones, and gets the same numbers. Vectors that are not
written to disk stay on the GPU or in memory (see `activations.residence`).
"""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from threading import Thread
from typing import IO, Generic, NamedTuple, TypeVar

import numpy as np
import psutil
import torch
from jaxtyping import Float, Int

from lamina.activations import default_root
from lamina.activations.extraction import device_of
from lamina.activations.in_memory import StoreText, also_stored
from lamina.activations.reading import sum_rows
from lamina.analyses.words.occurrences import WordsInContext
from lamina.corpora import Corpus
from lamina.corpora.corpus import fingerprint_of
from lamina.errors import DamagedError, DiskFullError, ModelError
from lamina.files.checking import load_tensors, save_tensors
from lamina.files.writing import readable_write_errors
from lamina.framework.run import run_folder
from lamina.models import SPECIAL, Encoder
from lamina.models.contract import Packed
from lamina.models.running.huggingface import HuggingFaceEncoder
from lamina.models.static import StaticEncoder, skipgram_trainer
from lamina.probes.mlp import InMemory, VectorSource
from lamina.progress import progress, say
from lamina.types import Span, Text

# Storage of vectors: on disk in parts, or on a GPU or in memory as one tensor.

FORMAT = 1
"""Raised when the same model and words would give other vectors."""
_MOST_MEMORY = 0.5
"""Share of the free memory that one layer may take; a larger one is read from disk as it is needed."""


@dataclass(frozen=True, eq=False)
class VectorFile:
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
        rows = [os.pread(self.file.fileno(), size, item * size) for item in items.tolist()]
        if any(len(row) != size for row in rows):
            raise DamagedError("a file of vectors became shorter while it was read; run the same command again")
        return torch.frombuffer(bytearray(b"".join(rows)), dtype=self.dtype).view(len(rows), self.width)


@dataclass(frozen=True, eq=False)
class VectorsOnDisk:
    """The vectors of all occurrences at every layer, on disk: one file per part and layer."""

    folder: Path
    layers: int
    width: int
    edges: tuple[int, ...]
    """Where parts begin, and the number of occurrences."""

    def layer(self, layer: int) -> VectorSource:
        """One layer: in memory where it fits, otherwise on disk."""
        for dtype in (torch.float16, torch.float32):
            size = self.edges[-1] * self.width * dtype.itemsize
            fits = size <= _MOST_MEMORY * psutil.virtual_memory().available
            source = self._in_memory(layer, dtype) if fits else self._on_disk(layer, dtype)
            if source is not None:
                return source
        raise AssertionError("float32 holds every part")

    def _in_memory(self, layer: int, dtype: torch.dtype) -> VectorSource | None:
        """None where some part needs more precision."""
        vectors = torch.empty(self.edges[-1], self.width, dtype=dtype)
        for number, part in self.parts(layer):
            if part.dtype.itemsize > dtype.itemsize:
                return None
            vectors[self.edges[number] : self.edges[number + 1]] = part
        return InMemory(vectors)

    def _on_disk(self, layer: int, dtype: torch.dtype) -> VectorSource | None:
        with readable_write_errors(self.folder):
            # Without a name: it is gone with the process, however that ends.
            file = tempfile.TemporaryFile(dir=self.folder)  # noqa: SIM115 - open as long as its vectors are used
            for _, part in self.parts(layer):
                if part.dtype.itemsize > dtype.itemsize:
                    file.close()
                    return None
                file.write(part.to(dtype).numpy().tobytes())
            file.flush()
        return VectorFile(file, dtype, self.width, self.edges[-1])

    def has(self, number: int) -> bool:
        """Whether a part is there, at every layer."""
        return all(part_path(self.folder, number, layer).is_file() for layer in range(self.layers))

    def put(self, number: int, vectors: Float[torch.Tensor, "layer item width"]) -> None:
        """Write one part."""
        for layer, of_layer in enumerate(vectors):
            tensors = {"vectors": narrowed(of_layer).cpu()}
            save_tensors(part_path(self.folder, number, layer), tensors, {"format": FORMAT, "layer": layer})

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


@dataclass(frozen=True, eq=False)
class VectorsInMemory:
    """The vectors of all occurrences at every layer, on a GPU or in memory; in the precision of those on disk."""

    by_layer: list[Float[torch.Tensor, "item width"]]
    edges: tuple[int, ...]
    """Where parts begin, and the number of occurrences."""

    @classmethod
    def empty(cls, layers: int, width: int, edges: tuple[int, ...], device: str) -> VectorsInMemory:
        """Room for vectors."""
        return cls([torch.empty(edges[-1], width, dtype=torch.half, device=device) for _ in range(layers)], edges)

    def layer(self, layer: int) -> VectorSource:
        """One layer."""
        return InMemory(self.by_layer[layer])

    def part(self, number: int, layer: int) -> Float[torch.Tensor, "item width"]:
        """One part of one layer."""
        return self.by_layer[layer][self.edges[number] : self.edges[number + 1]]

    def put(self, number: int, vectors: Float[torch.Tensor, "layer item width"]) -> None:
        """Fill one part; a layer becomes float32 where float16 does not do."""
        for layer, of_layer in enumerate(vectors):
            narrow = narrowed(of_layer)
            if narrow.dtype == torch.float32:
                self.by_layer[layer] = self.by_layer[layer].float()
            self.part(number, layer).copy_(narrow)


def part_path(folder: Path, part: int, layer: int) -> Path:
    """The file of one part of one layer."""
    return folder / f"{part:06d}-{layer:03d}.safetensors"


def narrowed(vectors: torch.Tensor) -> torch.Tensor:
    """In float16, or as they are where a value does not fit.

    Example:
        >>> narrowed(torch.tensor([1.0])).dtype, narrowed(torch.tensor([1e6])).dtype
        (torch.float16, torch.float32)
    """
    half = vectors.half()
    return half if bool(torch.isfinite(half).all()) else vectors


PART_BYTES = 64 * 2**20
"""Most bytes of one part, all layers together, in float16."""
PART_ITEMS = 2**14
"""Most occurrences of one part: their texts are in memory together."""
_PART_BYTES_IN_MEMORY = 2**29
"""Most bytes of one part on a GPU or in memory: a GPU is faster with many texts at once."""
_TAKEN_AT_ONCE = 2**15
"""Vectors read at a time where all are read."""


class Workspace:
    """Folders of vectors and answers in the store, each locked while this run needs it.

    With `memory_device`, vectors stay on that device instead of in folders.
    """

    def __init__(self, root: Path | None, stack: ExitStack, memory_device: str | None = None) -> None:
        self.root = Path(default_root() if root is None else root)
        self.memory_device = memory_device
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
        """Report how much disk something takes; an error where there is less."""
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
        # A text with more words than fit is one part.
        following = int(np.searchsorted(ends, edges[-1], side="right"))
        edges.append(int(ends[max(last, following)]))
    return tuple(edges)


class VectorRequest(NamedTuple):
    """Whose vectors, of which words, in how much of their text."""

    encoder: Encoder
    data: WordsInContext
    size: int | None = None
    """Words on each side that the model sees; None: the whole text."""
    bag: bool = False
    """The mean over all tokens that the model sees instead of over those of the word."""
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
    wanted: VectorRequest, workspace: Workspace, whole: VectorsOnDisk | VectorsInMemory | None = None
) -> VectorsOnDisk | VectorsInMemory:
    """The vectors of every occurrence, encoding only parts that are not there yet.

    `whole` are the same words with their whole text: what a window that is a whole text is copied from.
    """
    encoder, data = wanted.encoder, wanted.data
    if workspace.memory_device is not None:
        edges = part_edges(data.text, wanted.item_bytes, _PART_BYTES_IN_MEMORY)
        vectors = VectorsInMemory.empty(encoder.layers, encoder.width, edges, workspace.memory_device)
        _make(wanted, edges, range(len(edges) - 1), whole, vectors.put)
        return vectors
    edges = part_edges(data.text, wanted.item_bytes)
    on_disk = VectorsOnDisk(workspace.folder(wanted.key), encoder.layers, encoder.width, edges)
    missing = [number for number in range(len(edges) - 1) if not on_disk.has(number)]
    if missing:
        # Whole texts as they are may serve other analyses.
        whole_texts = wanted.size is None and encoder.blocks > 0 and not wanted.bag and not wanted.lower
        with also_stored(encoder, workspace.root) if whole_texts else nullcontext() as keep:
            _make(wanted, edges, missing, whole, on_disk.put, keep)
    return on_disk


def _make(
    wanted: VectorRequest,
    edges: tuple[int, ...],
    missing: Sequence[int],
    whole: VectorsOnDisk | VectorsInMemory | None,
    put: Callable[[int, torch.Tensor], None],
    keep: StoreText | None = None,
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


class _PlacedOccurrence(NamedTuple):
    """An occurrence in what the model sees."""

    item: int
    """Its number in the part."""
    start: int
    end: int


def _encoded(
    wanted: VectorRequest,
    items: range,
    texts: Sequence[Text],
    first: int,
    whole: Callable[[int], torch.Tensor] | None,
    keep: StoreText | None = None,
) -> Float[torch.Tensor, "layer item width"]:
    """The mean of each word's tokens at every layer, in float32, where the encoder runs.

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
            for encoded_text in packed.unpack():
                keep(encoded[int(encoded_text.text)], encoded_text)
    if not bool(torch.isfinite(vectors).all()):
        raise ModelError(f"{encoder.name} gave vectors with values that are not numbers; look at its weights or file")
    return vectors


def _windows(
    wanted: VectorRequest, items: range, texts: Sequence[Text], first: int, *, copies: bool
) -> tuple[dict[_Seen, list[_PlacedOccurrence]], list[int]]:
    """Everything to encode, each once, with the occurrences in it; and the occurrences that are copied.

    A window is `size` words before the occurrence, the occurrence, and `size` words after it, as far as its text goes.
    """
    data, size = wanted.data, wanted.size
    seen: dict[_Seen, list[_PlacedOccurrence]] = {}
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
        seen.setdefault((words, segments), []).append(_PlacedOccurrence(number, start - begin, end - begin))
    return seen, copied


def gather(
    packed: Packed,
    places: Sequence[Sequence[_PlacedOccurrence]],
    into: Float[torch.Tensor, "layer item width"],
    *,
    bag: bool,
) -> None:
    """Put the mean of the tokens of each occurrence (`bag`: of all tokens) where it belongs.

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


def mean_by_word(layer: VectorSource, data: WordsInContext) -> VectorSource:
    """One vector per word: the mean over all its contexts."""
    owner = torch.from_numpy(data.word).long()
    sums = torch.zeros(len(data.words), layer.width)
    for some in torch.arange(len(owner)).split(_TAKEN_AT_ONCE):
        taken = layer.take(some).float()
        sums = sums.to(taken.device) + sum_rows(taken, owner[some].to(taken.device), len(data.words))
    return InMemory(sums / torch.bincount(owner, minlength=len(data.words)).unsqueeze(1).to(sums.device))


# Representations of words: by a model in their contexts, and without context.

RANDOM_WIDTH = 300
"""Of N(0, I) and of skip-gram vectors, as in the paper."""


@dataclass(frozen=True, eq=False)
class Representation:
    """Rows of vectors that are probed alike: one per layer. Computed and read one row at a time, when needed."""

    name: str
    """What tables call it."""
    layers: tuple[int | None, ...]
    """[row] None where there are no layers."""
    key: str
    """Equal for equal vectors."""
    read: Callable[[int], VectorSource]
    """Row -> its vectors."""
    of_types: bool = False
    """Whether an item is a word, whatever its contexts, or an occurrence."""

    def rows(self, chosen: slice, name: str) -> Representation:
        """Some of the rows, under another name."""
        numbers = range(len(self.layers))[chosen]
        layers = tuple(self.layers[row] for row in numbers)
        return Representation(name, layers, f"{self.key} {numbers}", lambda row: self.read(numbers[row]), self.of_types)


class Representations:
    """Makes representations of the words of one analysis, in a workspace."""

    def __init__(self, data: WordsInContext, workspace: Workspace) -> None:
        self._data, self._workspace = data, workspace
        self._vectors: dict[str, VectorsOnDisk | VectorsInMemory] = {}

    def contextual(
        self, encoder: Encoder, *, size: int | None = None, bag: bool = False, name: str | None = None
    ) -> Representation:
        """Every layer of a model; with `size`, the model sees only that many words on each side.

        With `bag` (P-) a word is the mean of the vectors of all that is seen, itself included.
        """
        wanted = VectorRequest(encoder, self._data, size, bag, _is_lower(encoder))

        def read(row: int) -> VectorSource:
            return self._written(wanted).layer(row)

        layers = tuple(range(encoder.layers)) if encoder.blocks else (None,)
        return Representation(name or name_of(encoder), layers, wanted.key, read)

    def done(self, representation: Representation) -> None:
        """Free disk or memory: all rows have been probed, and no other representation needs them."""
        self._vectors.pop(representation.key, None)
        self._workspace.drop(representation.key)

    def averaged(self, whole: Representation, name: str) -> Representation:
        """One vector per word: the mean over all its contexts, layer by layer."""
        return Representation(
            name, whole.layers, f"AVG {whole.key}", lambda row: mean_by_word(whole.read(row), self._data), of_types=True
        )

    def without_context(self, encoder: Encoder) -> Representation:
        """One vector per word, of an encoder without context."""
        return self.averaged(self.contextual(encoder), name_of(encoder))

    def _written(self, wanted: VectorRequest) -> VectorsOnDisk | VectorsInMemory:
        if wanted.key not in self._vectors:
            # Windows that are a whole text are copied from the vectors of whole texts.
            copied = wanted.size is not None and not wanted.bag
            whole = self._written(wanted._replace(size=None)) if copied else None
            self._vectors[wanted.key] = word_vectors(wanted, self._workspace, whole)
        return self._vectors[wanted.key]


def context_free(encoder: Encoder, static: Sequence[Encoder], skipgram: StaticEncoder) -> list[Encoder]:
    """Encoders without context: static vectors, skip-gram trained on the corpus, N(0, I), the input embeddings."""
    encoders = [*static, skipgram, random_vectors()]
    if isinstance(encoder, HuggingFaceEncoder):
        encoders.append(encoder.lexical())
    return encoders


def skipgram_of(corpus: Corpus, seed: int, folder: Path) -> Callable[[], StaticEncoder]:
    """Trains skip-gram on the corpus, in any thread, or reads what a run that was stopped left in `folder`."""
    path = folder / f"skipgram-{fingerprint_of(corpus.fingerprint, seed, RANDOM_WIDTH)[:16]}.safetensors"
    try:
        tensors, head = load_tensors(path)
        words = bytes(tensors["words"].numpy()).decode("utf-8", "surrogatepass").split("\0")
        read = StaticEncoder(words, tensors["vectors"].numpy(), name=head["name"])
    except (OSError, DamagedError, KeyError):
        train = skipgram_trainer(corpus, width=RANDOM_WIDTH, seed=seed)
        return lambda: _save_skipgram(train(), path)
    return lambda: read


def _save_skipgram(encoder: StaticEncoder, path: Path) -> StaticEncoder:
    words, vectors = encoder.table
    spelled = np.frombuffer("\0".join(words).encode("utf-8", "surrogatepass"), np.uint8)
    save_tensors(path, {"words": torch.tensor(spelled), "vectors": torch.from_numpy(vectors)}, {"name": encoder.name})
    return encoder


def random_vectors() -> StaticEncoder:
    """N(0, I): a vocabulary without words, in which every word is unknown and drawn by its letters."""
    return StaticEncoder(["\0"], np.zeros((1, RANDOM_WIDTH), np.float32), name="random")


def name_of(encoder: Encoder) -> str:
    """What a table calls vectors without context.

    Example:
        >>> name_of(random_vectors())
        'random'
    """
    return encoder.name.replace(" (lexical)", " input")


def _is_lower(encoder: Encoder) -> bool:
    """Random and skip-gram vectors belong to lower-cased words; others are looked up as written first."""
    return encoder.name in ("random", "skip-gram")


def unknown_words(encoders: Iterable[Encoder], data: WordsInContext) -> Counter[str]:
    """How many words of the data each file of vectors lacks: they are drawn from N(0, I)."""
    lacking: Counter[str] = Counter()
    for encoder in encoders:
        if isinstance(encoder, StaticEncoder) and encoder.name != "random":
            spoken = (encoder.tokenize(Text(word, tuple(word.split()))) for word in data.words)
            lacking[f"words that {encoder.name} lacks, drawn from N(0, I)"] = sum(token.unknown > 0 for token in spoken)
    return lacking


# Work on one core, in the background of work on all others.

WorkResult = TypeVar("WorkResult")
OtherResult = TypeVar("OtherResult")


class BackgroundWork(Generic[WorkResult]):
    """Work in another thread; meanwhile torch uses one thread less here, since threads of one product that share a
    core wait for each other.

    As a context, it gives the threads back at the end; unfinished work is abandoned.

    Example:
        >>> with BackgroundWork(lambda: sum(range(10))) as counted:
        ...     [*counted.during("ab")], counted.result()
        (['a', 'b'], 45)
    """

    def __init__(self, work: Callable[[], WorkResult]) -> None:
        self._future: Future[WorkResult] = Future()
        self._threads = torch.get_num_threads()
        torch.set_num_threads(max(1, self._threads - 1))
        # A daemon: a process that stops or fails does not wait for it.
        Thread(target=self._run, args=(work,), daemon=True).start()

    def __enter__(self) -> BackgroundWork[WorkResult]:
        return self

    def __exit__(self, *_: object) -> None:
        torch.set_num_threads(self._threads)

    def during(self, others: Iterable[OtherResult]) -> Iterator[OtherResult]:
        """The same values, one by one; with all threads again once the work is done."""
        for other in others:
            if self._future.done():
                torch.set_num_threads(self._threads)
            yield other

    def result(self) -> WorkResult:
        """The result of the work, waiting for it if necessary."""
        result = self._future.result()
        torch.set_num_threads(self._threads)
        return result

    def _run(self, work: Callable[[], WorkResult]) -> None:
        try:
            self._future.set_result(work())
        except BaseException as error:
            # Raised by `result`.
            self._future.set_exception(error)
