"""The activation store: encode once, read many times. Knows neither labels nor models.

A store is a folder named by the encoder's fingerprint. Texts are found by content (their words and segments), so that
a sentence that occurs in two corpora, or in two runs, is encoded once.

Any number of processes, of any number of machines, may write to it. The lock is held only while the head is read or
written and while a shard appears; the second writer of a text leaves it out of its index.
"""

from __future__ import annotations

import os
from array import array
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import torch
from filelock import FileLock, Timeout

from lamina.activations.reading import ChosenPlaces, StoredActivations, StoreIndex, TextNames
from lamina.activations.shards import (
    SHARD_BYTES,
    HalfOverflowError,
    ShardEntry,
    ShardWriter,
    is_sound,
    load_index,
    read_index,
    remove_shard,
    shape_of,
)
from lamina.errors import DamagedError, InputError, StoreError
from lamina.files.checking import FileProblem, cache_dir, check_locks, read_json, write_json
from lamina.files.writing import is_being_written, make_folder, readable_write_errors, sweep
from lamina.keys import KeySet
from lamina.progress import say
from lamina.types import Text, text_key

if TYPE_CHECKING:
    from lamina.models import Encoder

FORMAT = 1
"""Format of store folders."""
_HEAD, _LOCK = "store.json", "lock"
_FIELDS = {"encoder": str, "fingerprint": str, "kept": str, "layers": int, "width": int}

_SHARD_FILES = (".arrow", ".safetensors")

StatePrecision = Literal["float16", "bfloat16", "float32"]
"""Precision of stored states."""


def default_precision(encoder: Encoder) -> StatePrecision:
    """The precision that an encoder's states are kept in if none is asked for.

    A bfloat16 model's states are kept as they are: float16 would take as much room, could not hold values above 65,504,
    and would round small ones. All others are kept in float16, at half the size of float32.

    Example:
        >>> from lamina.testing import TinyEncoder
        >>> default_precision(TinyEncoder())
        'float16'
    """
    return "bfloat16" if encoder.dtype == torch.bfloat16 else "float16"


def default_root() -> Path:
    """Where stores are kept: `LAMINA_STORE`, or a folder in lamina's cache."""
    return Path(os.environ["LAMINA_STORE"]) if os.environ.get("LAMINA_STORE") else cache_dir() / "activations"


class ActivationStore:
    """The states of any number of texts from one encoder.

    Example:
        >>> import tempfile
        >>> from lamina.testing import TinyEncoder
        >>> encoder, text = TinyEncoder(), Text("a", ("Hello", "there"))
        >>> with tempfile.TemporaryDirectory() as root:
        ...     store = ActivationStore.of(encoder, root)
        ...     with store.writing() as writer:
        ...         for activations in encoder.encode([text]):
        ...             writer.add(text_key(text), activations)
        ...     list(store.missing([text])), store.open([text])[0].states.shape[1]
        ([], 3)
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._lock = FileLock(folder / _LOCK)
        self._locks_checked = False
        self._places: StoreIndex | None = None
        self._known: set[str] = set()
        """Shards whose index was read."""
        self._later = KeySet()
        """Texts of shards that have appeared since `_places` was read."""

    @classmethod
    def of(
        cls, encoder: Encoder, root: str | os.PathLike[str] | None = None, *, precision: StatePrecision | None = None
    ) -> ActivationStore:
        """The store of an encoder's states under `root`, created if needed.

        `precision` is by default that of the store, or `default_precision` for a new one. An InputError if the store
        has another one: mixing precisions gains nothing. Values that float16 cannot hold are always stored in float32.

        A head (`store.json`) that is missing or damaged is written again from the encoder and the shards.
        """
        folder = (Path(root) if root is not None else default_root()) / encoder.fingerprint[:32]
        store = cls(folder)
        if store._head_fault(encoder):
            try:
                make_folder(folder)
            except OSError as error:
                raise StoreError(f"cannot create a store in {folder}: {error.strerror}; give another folder") from error
            with store.locked():
                if fault := store._head_fault(encoder):
                    store._write_head(encoder, precision or default_precision(encoder), fault)
        head = store.head
        if head["fingerprint"] != encoder.fingerprint:
            raise StoreError(f"{folder} belongs to another encoder ({head['encoder']}); give another folder")
        if precision not in (None, head["kept"]) and not (precision == "float16" and head["kept"] == "float32"):
            with store.locked():
                if not store.shards:
                    write_json(folder / _HEAD, head | {"kept": precision})
                    return store
            raise InputError(
                f"{folder} keeps {head['kept']}, not {precision}; leave out --precision, give another folder (--store) "
                "or delete this one to encode its texts again"
            )
        return store

    @classmethod
    def existing(cls, encoder: Encoder, root: str | os.PathLike[str] | None = None) -> ActivationStore | None:
        """The store of an encoder's states if there is one that can be read; nothing is created."""
        store = cls((Path(root) if root is not None else default_root()) / encoder.fingerprint[:32])
        readable = store._head_fault(encoder) is None and store.head["fingerprint"] == encoder.fingerprint
        return store if readable else None

    @property
    def head(self) -> dict:
        """The content of `store.json`: encoder, fingerprint, layers, width, precision."""
        path = self.folder / _HEAD
        try:
            head = read_json(path)
        except OSError as error:
            raise StoreError(f"{self.folder} cannot be read as a store: {error.strerror}") from error
        if isinstance(head.get("format"), int) and head["format"] != FORMAT:
            raise StoreError(f"{self.folder} has format {head['format']}, not {FORMAT}; delete it and encode again")
        if "format" not in head or not all(isinstance(head.get(name), kind) for name, kind in _FIELDS.items()):
            raise DamagedError(f"{path} is damaged (incomplete); `lamina encode` with its model writes it again")
        return head

    @property
    def value_bytes(self) -> int:
        """Size of one stored number."""
        return getattr(torch, self.head["kept"]).itemsize

    @property
    def shards(self) -> list[Path]:
        """The data files that have an index."""
        return sorted(path.with_suffix(".safetensors") for path in self.folder.glob("*.arrow"))

    def __len__(self) -> int:
        if len(self._later):
            self.refresh()
        return len(self._index())

    def missing(self, texts: Iterable[Text]) -> Iterator[Text]:
        """The texts that are not stored yet, each once, as a stream."""
        met = KeySet()
        for text in texts:
            key = text_key(text)
            if key not in self and met.add(key):
                yield text

    @contextmanager
    def locked(self) -> Iterator[None]:
        """A lock for changing the store, held for moments; other processes and threads wait. Blocks may be nested."""
        with readable_write_errors(self.folder / _LOCK):
            if not self._locks_checked:
                check_locks(self.folder / _LOCK)
                self._locks_checked = True
            self._lock.acquire()
        try:
            yield
        finally:
            self._lock.release()

    @contextmanager
    def only_once(self, work: str) -> Iterator[None]:
        """A lock on a piece of work, by name: who starts the same work meanwhile waits, and finds it done."""
        path = self.folder / f"{_LOCK}-{work}"
        with readable_write_errors(path):
            check_locks(path)
            lock = FileLock(path)
            try:
                lock.acquire(timeout=0)
            except Timeout:
                say(f"another process is encoding the same texts into {self.folder}; waiting for it")
                lock.acquire()
        try:
            self.refresh()
            yield
        finally:
            # Who waits for a file that is gone may start as well; even then, nothing is stored twice.
            path.unlink(missing_ok=True)
            lock.release()

    @contextmanager
    def writing(self, shard_bytes: int = SHARD_BYTES, *, pinned: bool = False) -> Iterator[ShardWriter]:
        """A writer, one of any number; added texts are stored when the block ends. `pinned`: a GPU copies to it.

        If the block fails or is interrupted, complete shards are kept and the unfinished one is dropped.
        """
        with self.locked():
            sweep(self.folder)
            self.look_again()
            head = self.head
        publisher = _StorePublisher(self, head["kept"])
        writer = ShardWriter(
            self.folder, head["layers"], head["width"], head["kept"], shard_bytes, publisher, pinned=pinned
        )
        try:
            yield writer
            writer.finish()
        except HalfOverflowError:
            # What was gathered before fits.
            writer.finish()
            raise
        finally:
            writer.stop()
            self.look_again()

    def open(self, texts: Iterable[Text], *, verify: bool = True) -> StoredActivations:
        """States of these texts, in their order; read when asked for. Each shard is verified when first read."""
        if len(self._later):
            self.refresh()
        places, rows, names = self._index(), array("q"), TextNames()
        for text in texts:
            row = places.find(text_key(text))
            if row is None:
                raise StoreError(f"text {text.id!r} is not in {self.folder}; encode the corpus first (`lamina encode`)")
            rows.append(row)
            names.append(text.id)
        return StoredActivations(ChosenPlaces(places, rows), names, verify=verify, precision=self.head["kept"])

    def widen(self) -> None:
        """Switch to float32 for what is written from now on; shards that are there stay, and are read as float32."""
        with self.locked():
            head = self.head
            if head["kept"] != "float32":
                write_json(self.folder / _HEAD, head | {"kept": "float32"})
            self.refresh()

    def damaged(self) -> list[Path]:
        """The shards whose bytes no longer match their checksum."""
        return [shard for shard in self.shards if not is_sound(shard)]

    def drop(self, shards: Iterable[Path]) -> None:
        """Delete these shards (or the shards of these indexes), so that their texts are missing again."""
        with self.locked():
            for shard in shards:
                remove_shard(shard)
            self.refresh()

    def leftovers(self) -> list[Path]:
        """Files that no index leads to, or whose index is unreadable: left by a kill, or truncated."""
        readable = {path.stem for path in self.folder.glob("*.arrow") if read_index(path)}
        return [
            path
            for path in sorted(self.folder.iterdir())
            if (path.name.endswith(".tmp") and not is_being_written(path))
            or (path.suffix in _SHARD_FILES and path.stem not in readable)
        ]

    def sweep(self) -> int:
        """Delete leftovers; returns the bytes freed. Where there are none, the store need not be writable."""
        if not self.leftovers():
            return 0
        freed = 0
        with self.locked(), readable_write_errors(self.folder):
            for path in self.leftovers():
                freed += path.stat().st_size
                path.unlink()
        return freed

    def refresh(self) -> None:
        """Discard the index; it is read again when needed."""
        self._places, self._known, self._later = None, set(), KeySet()

    def look_again(self) -> None:
        """Read the indexes that have appeared since the last look; all of them if one is gone."""
        # Names only: there may be thousands, and this is done for every shard that is written.
        with os.scandir(self.folder) as files:
            names = {file.name.removesuffix(".arrow") for file in files if file.name.endswith(".arrow")}
        if not self._known <= names:
            self.refresh()
        self._index()
        for name in sorted(names - self._known):
            if entries := read_index(self.folder / f"{name}.arrow"):
                self._known.add(name)
                for entry in entries:
                    self._later.add(entry.key)

    def __contains__(self, key: bytes) -> bool:
        """Whether a text is stored, as of the last look."""
        return key in self._index() or key in self._later

    def _head_fault(self, encoder: Encoder) -> str | None:
        """Why the head has to be written: missing, damaged, or not what the encoder gives; None if it is sound."""
        path = self.folder / _HEAD
        if not path.exists():
            return "missing"
        try:
            head = self.head
        except DamagedError as error:
            return str(error)
        if head["fingerprint"] == encoder.fingerprint and (head["layers"], head["width"]) != _shape(encoder):
            return f"{path} is damaged (other layers or width than the encoder's)"
        return None

    def _write_head(self, encoder: Encoder, precision: StatePrecision, fault: str) -> None:
        """Write the head of a new store, or again; the shards tell in which precision they are."""
        shapes = {shape_of(shard) for shard in self.shards if is_sound(shard)}
        if any(shape[:2] != _shape(encoder) for shape in shapes):
            raise StoreError(f"{fault}, and its shards are not all of {encoder.name}; delete {self.folder}")
        head = {"format": FORMAT, "encoder": encoder.name, "fingerprint": encoder.fingerprint}
        precisions = {shape[2] for shape in shapes} or {precision}
        # Of several precisions, the one that holds them all.
        head |= {
            "kept": precisions.pop() if len(precisions) == 1 else "float32",
            "layers": encoder.layers,
            "width": encoder.width,
        }
        write_json(self.folder / _HEAD, head)
        if shapes:
            say(f"{self.folder / _HEAD} was missing or damaged and is written again; the shards are kept")

    def _index(self) -> StoreIndex:
        places = self._places
        if places is None:
            self._places = places = StoreIndex(self.shards)
            self._known = set(places.read)
        return places


class _StorePublisher:
    """Lets the shards of one writer appear in a store; see `shards.Publisher`."""

    def __init__(self, store: ActivationStore, precision: str) -> None:
        self._store = store
        self._precision = precision
        self.widened = False
        """See `shards.Publisher.widened`."""

    @contextmanager
    def publish(self, entries: Sequence[ShardEntry]) -> Iterator[Sequence[ShardEntry]]:
        """See `shards.Publisher.publish`."""
        with self._store.locked():
            self._store.look_again()
            self.widened = self._store.head["kept"] != self._precision
            yield [entry for entry in entries if entry.key not in self._store]


def stores(root: str | os.PathLike[str] | None = None) -> list[ActivationStore]:
    """Every store under a root, also one that lost its head."""
    folder = Path(root) if root is not None else default_root()
    folders = {path.parent for kind in (_HEAD, "*.arrow") for path in folder.glob(f"*/{kind}")}
    return [ActivationStore(store_folder) for store_folder in sorted(folders)]


def problems(store: ActivationStore) -> list[FileProblem]:
    """What is wrong with a store: its head, every index, every shard; then what killed writers left."""
    listed = []
    try:
        _ = store.head
    except (DamagedError, StoreError) as error:
        listed.append(FileProblem(store.folder / _HEAD, str(error)))
    damaged = set()
    for shard in store.shards:
        index = shard.with_suffix(".arrow")
        try:
            load_index(index)
        except (OSError, DamagedError) as error:
            listed.append(FileProblem(index, str(error)))
            damaged.add(shard.stem)
        if shard.exists() and not is_sound(shard):
            listed.append(FileProblem(shard, f"shard {shard} is damaged (its checksum does not match)"))
            damaged.add(shard.stem)
    left = (path for path in store.leftovers() if path.stem not in damaged)
    return listed + [FileProblem(path, f"{path} was left by a run that was stopped", leftover=True) for path in left]


def _shape(encoder: Encoder) -> tuple[int, int]:
    return encoder.layers, encoder.width
