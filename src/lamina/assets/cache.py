"""The cache: one folder per asset, either complete or absent.

    <cache>/assets/<name>/manifest.json   what it is, where it came from, sha256 of every file
    <cache>/assets/<name>/files/          the files
    <cache>/assets/<name>.lock            held while fetching or removing
    <cache>/assets/<name>.partial-*/      a fetch in progress; if it was killed, the next fetch removes it

A fetch is written to a temporary folder on the same disk, flushed, and renamed as the last step.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from filelock import FileLock
from platformdirs import user_cache_path

from lamina.assets.sources import Card, Source
from lamina.assets.unpack import Allowance
from lamina.errors import AssetError, OfflineError

_SLACK = 1.5
"""Largest allowed ratio of fetched size to the size on the card; beyond it, the archive counts as a bomb."""


def cache_dir() -> Path:
    """Where lamina keeps downloads and computed files: `LAMINA_CACHE`, or the platform's user cache folder.

    Example:
        >>> cache_dir().is_absolute()
        True
    """
    named = os.environ.get("LAMINA_CACHE")
    return Path(named).expanduser().absolute() if named else user_cache_path("lamina")


def cached(card: Card) -> Path | None:
    """The folder with the card's files, if the cache holds them and they match the current card."""
    manifest = _read_manifest(card)
    if manifest.get("promise") not in [_promise(source) for source in card.sources]:
        return None
    folder = _entry(card) / "files"
    whole = all(_size(folder / name) == file["size"] for name, file in manifest["files"].items())
    return folder if whole else None


def fetch(card: Card) -> Path:
    """The folder with the card's files, fetched from the first source that can be reached."""
    with _locked(card):
        # Another process may have fetched it while this one waited.
        return cached(card) or _fetch_locked(card)


def discard(card: Card) -> bool:
    """Remove the card's files from the cache; False if there were none."""
    with _locked(card):
        return _drop(card)


@contextmanager
def _locked(card: Card) -> Iterator[None]:
    """Hold the lock on the asset's entry, and remove what a killed fetch left behind."""
    entry = _entry(card)
    try:
        entry.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(entry.with_name(f"{card.name}.lock")):
            for stale in entry.parent.glob(f"{card.name}.partial-*"):
                shutil.rmtree(stale, ignore_errors=True)
            yield
    except OSError as error:
        raise AssetError(
            f"cannot write to the cache {cache_dir()} ({error}); "
            "free some space there or set LAMINA_CACHE to another folder"
        ) from error


def _fetch_locked(card: Card) -> Path:
    unreachable = []
    for source in card.sources:
        with tempfile.TemporaryDirectory(prefix=f"{card.name}.partial-", dir=_entry(card).parent) as holder:
            fresh = Path(holder) / "new"
            (fresh / "files").mkdir(parents=True)
            try:
                source.fetch(fresh / "files", Allowance(int(card.size * _SLACK)))
            except OfflineError as error:
                unreachable.append(str(error))
                continue
            _seal(card, source, fresh)
            _drop(card)
            fresh.rename(_entry(card))
            _flush(_entry(card).parent)
            return _entry(card) / "files"
    raise OfflineError(
        f"{card.name} is not on this machine and no source could be reached: {'; '.join(unreachable)}. "
        f"Connect and run `lamina assets get {card.name}`{card.by_hand}"
    )


def _seal(card: Card, source: Source, fresh: Path) -> None:
    """Flush every file to disk and write the manifest next to them."""
    folder = fresh / "files"
    files = {}
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        with path.open("r+b") as file:
            sha256 = hashlib.file_digest(file, "sha256").hexdigest()
            os.fsync(file.fileno())
        files[path.relative_to(folder).as_posix()] = {"sha256": sha256, "size": path.stat().st_size}
    manifest = {
        "name": card.name,
        "source": source.place,
        "promise": _promise(source),
        "size": sum(file["size"] for file in files.values()),
        "files": files,
    }
    with (fresh / "manifest.json").open("w", encoding="utf-8") as file:
        json.dump(manifest, file, indent=2)
        file.flush()
        os.fsync(file.fileno())
    for written in [fresh, *(path for path in fresh.rglob("*") if path.is_dir())]:
        _flush(written)


def _flush(folder: Path) -> None:
    if os.name == "posix":  # other systems cannot open a folder
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _promise(source: Source) -> str:
    """Changes when a card lists other files or hashes: anything cached before is then stale."""
    promised = [list(source.hashes.items()), list(source.members)]
    return hashlib.sha256(json.dumps(promised).encode()).hexdigest()


def _read_manifest(card: Card) -> dict[str, Any]:
    try:
        return json.loads((_entry(card) / "manifest.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}


def _drop(card: Card) -> bool:
    """Rename, then delete, so that a kill never leaves half an entry."""
    entry = _entry(card)
    if not entry.exists():
        return False
    with tempfile.TemporaryDirectory(prefix=f"{card.name}.partial-", dir=entry.parent) as holder:
        entry.rename(Path(holder) / "old")
    return True


def _entry(card: Card) -> Path:
    return cache_dir() / "assets" / card.name


def _size(path: Path) -> int | None:
    return path.stat().st_size if path.is_file() else None
