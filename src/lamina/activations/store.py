"""The activation store: encode once, read many times. Knows neither labels nor models.

A store is a folder named by the encoder's fingerprint. Texts are found by content (their words and segments), so that
a sentence that occurs in two corpora, or in two runs, is encoded once.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from filelock import FileLock

from lamina.activations.reading import StoredActivations
from lamina.activations.shards import (
    SHARD_BYTES,
    Entry,
    ShardWriter,
    is_sound,
    load_index,
    read_index,
    remove_shard,
    shape_of,
)
from lamina.errors import DamagedError, StoreError
from lamina.files.checking import Problem, read_json, write_json
from lamina.files.places import cache_dir
from lamina.files.writing import sweep, told
from lamina.progress import say
from lamina.types import Text, text_key

if TYPE_CHECKING:
    from lamina.encoders import Encoder

FORMAT = 1
"""Format of store folders."""
_HEAD, _LOCK = "store.json", "lock"
_FIELDS = {"encoder": str, "fingerprint": str, "kept": str, "layers": int, "width": int}

_SHARD_FILES = (".arrow", ".safetensors")

Kept = Literal["float16", "float32"]


class Place(NamedTuple):
    """The shard that holds a text, and the text's position in it."""

    shard: Path
    entry: Entry


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
        self._places: dict[bytes, Place] | None = None

    @classmethod
    def of(
        cls, encoder: Encoder, root: str | os.PathLike[str] | None = None, *, kept: Kept = "float16"
    ) -> ActivationStore:
        """The store of an encoder's states under `root`, created if needed; `kept` is the precision.

        A head (`store.json`) that is missing or damaged is written again: the encoder and the shards tell all that is
        in it.
        """
        folder = (Path(root) if root is not None else default_root()) / encoder.fingerprint[:32]
        store = cls(folder)
        if store._head_fault(encoder):
            try:
                folder.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise StoreError(f"cannot create a store in {folder}: {error.strerror}; give another folder") from error
            with store.locked():
                if fault := store._head_fault(encoder):
                    store._write_head(encoder, kept, fault)
        if store.head["fingerprint"] != encoder.fingerprint:
            raise StoreError(f"{folder} belongs to another encoder ({store.head['encoder']}); give another folder")
        return store

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
    def shards(self) -> list[Path]:
        """The data files that have an index."""
        return sorted(path.with_suffix(".safetensors") for path in self.folder.glob("*.arrow"))

    def __len__(self) -> int:
        return len(self._index())

    def missing(self, texts: Iterable[Text]) -> Iterator[Text]:
        """The texts that are not stored yet, each once, as a stream."""
        seen: set[bytes] = set()
        for text in texts:
            key = text_key(text)
            if key not in self._index() and key not in seen:
                seen.add(key)
                yield text

    @contextmanager
    def locked(self) -> Iterator[None]:
        """A lock for changing the store; other processes wait. Blocks may be nested."""
        with told(self.folder / _LOCK):
            self._lock.acquire()
        try:
            yield
        finally:
            self._lock.release()

    @contextmanager
    def writing(self, shard_bytes: int = SHARD_BYTES) -> Iterator[ShardWriter]:
        """A writer, for one process at a time; added texts are stored when the block ends.

        If the block fails or is interrupted, complete shards are kept and the unfinished one is dropped.
        """
        with self.locked():
            sweep(self.folder)
            self.refresh()
            head = self.head
            writer = ShardWriter(self.folder, head["layers"], head["width"], head["kept"], shard_bytes)
            try:
                yield writer
                writer.finish()
            finally:
                writer.stop()
                self.refresh()

    def open(self, texts: Iterable[Text], *, verify: bool = True) -> StoredActivations:
        """States of these texts, in their order; read when asked for. Each shard is verified when first read."""
        places, names = [], []
        for text in texts:
            place = self._index().get(text_key(text))
            if place is None:
                raise StoreError(f"text {text.id!r} is not in {self.folder}; encode the corpus first (`lamina encode`)")
            places.append(place)
            names.append(text.id)
        return StoredActivations(places, names, verify=verify)

    def widen(self) -> None:
        """Switch to float32: float16 shards are dropped, so their texts are missing again."""
        with self.locked():
            head = self.head
            if head["kept"] != "float32":
                self.drop(self.shards)
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
            if path.name.endswith(".tmp") or (path.suffix in _SHARD_FILES and path.stem not in readable)
        ]

    def sweep(self) -> int:
        """Delete leftovers; returns the bytes freed. Where there are none, the store need not be writable."""
        if not self.leftovers():
            return 0
        freed = 0
        with self.locked(), told(self.folder):
            for path in self.leftovers():
                freed += path.stat().st_size
                path.unlink()
        return freed

    def refresh(self) -> None:
        """Discard the index; it is read again when needed."""
        self._places = None

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

    def _write_head(self, encoder: Encoder, kept: Kept, fault: str) -> None:
        """Write the head of a new store, or again; the shards tell in which precision they are."""
        shapes = {shape_of(shard) for shard in self.shards if is_sound(shard)}
        if len(shapes) > 1 or any(shape[:2] != _shape(encoder) for shape in shapes):
            raise StoreError(f"{fault}, and its shards are not all of {encoder.name}; delete {self.folder}")
        head = {"format": FORMAT, "encoder": encoder.name, "fingerprint": encoder.fingerprint}
        head |= {"kept": next((shape[2] for shape in shapes), kept), "layers": encoder.layers, "width": encoder.width}
        write_json(self.folder / _HEAD, head)
        if shapes:
            say(f"{self.folder / _HEAD} was missing or damaged and is written again; the shards are kept")

    def _index(self) -> dict[bytes, Place]:
        if self._places is None:
            self._places = {
                entry.key: Place(shard, entry)
                for shard in self.shards
                for entry in read_index(shard.with_suffix(".arrow"))
            }
        return self._places


def stores(root: str | os.PathLike[str] | None = None) -> list[ActivationStore]:
    """Every store under a root, also one that lost its head."""
    folder = Path(root) if root is not None else default_root()
    held = {path.parent for kind in (_HEAD, "*.arrow") for path in folder.glob(f"*/{kind}")}
    return [ActivationStore(each) for each in sorted(held)]


def problems(store: ActivationStore) -> list[Problem]:
    """What is wrong with a store: its head, every index, every shard; then what killed writers left."""
    found = []
    try:
        _ = store.head
    except (DamagedError, StoreError) as error:
        found.append(Problem(store.folder / _HEAD, str(error)))
    damaged = set()
    for shard in store.shards:
        index = shard.with_suffix(".arrow")
        try:
            load_index(index)
        except (OSError, DamagedError) as error:
            found.append(Problem(index, str(error)))
            damaged.add(shard.stem)
        if shard.exists() and not is_sound(shard):
            found.append(Problem(shard, f"shard {shard} is damaged (its checksum does not match)"))
            damaged.add(shard.stem)
    left = (path for path in store.leftovers() if path.stem not in damaged)
    return found + [Problem(path, f"{path} was left by a run that was stopped", leftover=True) for path in left]


def _shape(encoder: Encoder) -> tuple[int, int]:
    return encoder.layers, encoder.width
