"""The activation store: encode once, read many times. Knows neither labels nor models.

A store is a folder named by the encoder's fingerprint. Texts are found by content (their words and segments), so that
a sentence that occurs in two corpora, or in two runs, is encoded once.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from filelock import FileLock

from lamina.activations.disk import write_error
from lamina.activations.reading import StoredActivations
from lamina.activations.shards import SHARD_BYTES, Entry, ShardWriter, is_sound, read_index, remove_shard
from lamina.assets import cache_dir
from lamina.errors import StoreError
from lamina.types import Text, text_key

if TYPE_CHECKING:
    from lamina.encoders import Encoder

FORMAT = 1
"""Format of store folders."""

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
        self._lock = FileLock(folder / "lock")
        self._places: dict[bytes, Place] | None = None

    @classmethod
    def of(
        cls, encoder: Encoder, root: str | os.PathLike[str] | None = None, *, kept: Kept = "float16"
    ) -> ActivationStore:
        """The store of an encoder's states under `root`, created if needed; `kept` is the precision."""
        folder = (Path(root) if root is not None else default_root()) / encoder.fingerprint[:32]
        store = cls(folder)
        if not (folder / "store.json").exists():
            head = {"format": FORMAT, "encoder": encoder.name, "fingerprint": encoder.fingerprint, "kept": kept}
            try:
                folder.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise StoreError(f"cannot create a store in {folder}: {error.strerror}; give another folder") from error
            with store.locked():
                if not (folder / "store.json").exists():
                    _write_json(folder / "store.json", head | {"layers": encoder.layers, "width": encoder.width})
        if store.head["fingerprint"] != encoder.fingerprint:
            raise StoreError(f"{folder} belongs to another encoder ({store.head['encoder']}); give another folder")
        return store

    @property
    def head(self) -> dict:
        """The content of `store.json`: encoder, fingerprint, layers, width, precision."""
        try:
            head = json.loads((self.folder / "store.json").read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise StoreError(f"{self.folder} cannot be read as a store: {error}") from error
        if head.get("format") != FORMAT:
            raise StoreError(f"{self.folder} has format {head.get('format')}, not {FORMAT}; delete it and encode again")
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
        try:
            self._lock.acquire()
        except OSError as error:
            raise write_error(self.folder / "lock", error) from error
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
        """Memory-mapped states of these texts, in their order. Each shard is verified when first read."""
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
                _write_json(self.folder / "store.json", head | {"kept": "float32"})
            self.refresh()

    def damaged(self) -> list[Path]:
        """The shards whose bytes no longer match their checksum."""
        return [shard for shard in self.shards if not is_sound(shard)]

    def drop(self, shards: Iterable[Path]) -> None:
        """Delete these shards, so that their texts are missing again."""
        with self.locked():
            for shard in shards:
                remove_shard(shard)
            self.refresh()

    def sweep(self) -> int:
        """Delete unreadable files (left by a kill, or truncated); returns the bytes freed."""
        freed = 0
        with self.locked():
            readable = {path.stem for path in self.folder.glob("*.arrow") if read_index(path)}
            for path in list(self.folder.iterdir()):
                orphan = path.suffix in (".arrow", ".safetensors") and path.stem not in readable
                if orphan or path.name.endswith(".tmp"):
                    freed += path.stat().st_size
                    path.unlink()
        return freed

    def refresh(self) -> None:
        """Discard the index; it is read again when needed."""
        self._places = None

    def _index(self) -> dict[bytes, Place]:
        if self._places is None:
            self._places = {
                entry.key: Place(shard, entry)
                for shard in self.shards
                for entry in read_index(shard.with_suffix(".arrow"))
            }
        return self._places


def stores(root: str | os.PathLike[str] | None = None) -> list[ActivationStore]:
    """Every store under a root."""
    folder = Path(root) if root is not None else default_root()
    return [ActivationStore(path.parent) for path in sorted(folder.glob("*/store.json"))]


def _write_json(path: Path, content: dict) -> None:
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        temporary.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
        temporary.replace(path)
    except OSError as error:
        raise write_error(path, error) from error
