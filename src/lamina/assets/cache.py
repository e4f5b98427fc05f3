"""The cache: one folder per asset, either complete or absent.

    <cache>/assets/<name>/manifest.json   what it is, where it came from, sha256 of every file
    <cache>/assets/<name>/files/          the files
    <cache>/assets/<name>.lock            held while fetching or removing

A fetch is written to a hidden folder beside its target, which it replaces as the last step.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from filelock import FileLock

from lamina.assets.origins import Allowance, OriginFiles
from lamina.assets.recipes import CorpusRecipe
from lamina.assets.sources import AssetSource, Card
from lamina.errors import AssetError, DamagedError, InputError, OfflineError, WriteError
from lamina.files.checking import cache_dir, changed_files, list_files, read_json, write_json
from lamina.files.writing import fresh_folder, hidden_name, recover
from lamina.progress import say

_SLACK = 1.5
"""Largest allowed ratio of fetched size to the size on the card; beyond it, the archive counts as a bomb."""


def cached(card: Card) -> Path | None:
    """The folder with the card's files, if the cache holds them undamaged and they match the current card."""
    if not _is_current(card) or damaged(card):
        return None
    return _entry(card) / "files"


def damaged(card: Card, *, now: bool = False) -> list[Path]:
    """Cached files that are no longer what was fetched; with `now`, all of them are hashed again."""
    entry = _entry(card)
    try:
        manifest = _read_manifest(card)
    except DamagedError:
        return [entry / "manifest.json"]
    return [] if manifest is None else changed_files(entry / "files", manifest["files"], now=now)


def fetch(card: Card) -> Path:
    """The folder with the card's files, fetched from the first source that can be reached."""
    with _locked(card):
        # Another process may have fetched it while this one waited.
        return cached(card) or _fetch_locked(card)


def discard(card: Card) -> bool:
    """Remove the card's files from the cache, and what they were derived from; False if there were none."""
    with _locked(card):
        for origin in (
            origin for source in card.sources if isinstance(source, CorpusRecipe) for origin in source.origins
        ):
            OriginFiles(origin).forget()
        entry = _entry(card)
        if not entry.exists():
            return False
        # Renamed, then deleted, so that a kill never leaves half an entry.
        aside = entry.rename(hidden_name(entry, "saving"))
        shutil.rmtree(aside)
        return True


@contextmanager
def _locked(card: Card) -> Iterator[None]:
    """Hold the lock on the asset's entry, and remove what a killed fetch left behind."""
    entry = _entry(card)
    try:
        entry.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(entry.with_name(f"{card.name}.lock")):
            recover(entry)
            for stale in entry.parent.glob(f"{card.name}.partial-*"):  # of earlier versions
                shutil.rmtree(stale, ignore_errors=True)
            yield
    except (OSError, WriteError) as error:
        why = error.__cause__ if isinstance(error, WriteError) else error
        raise AssetError(
            f"cannot write to the cache {cache_dir()} ({why}); "
            "free some space there or set LAMINA_CACHE to another folder"
        ) from error


def _fetch_locked(card: Card) -> Path:
    broken = damaged(card)
    if broken:
        say(f"{broken[0]} is damaged; {card.name} is fetched again")
    elif card.sources:
        say(fetching_in_words(card))
    unreachable = []
    for source in card.sources:
        try:
            with fresh_folder(_entry(card)) as fresh:
                (fresh / "files").mkdir()
                source.fetch(fresh / "files", Allowance(int(card.size * _SLACK)))
                _write_manifest(card, source, fresh)
        except OfflineError as error:
            unreachable.append(str(error))
        else:
            if unreachable:
                what = f"{source.place} ({source.changes})" if isinstance(source, CorpusRecipe) else source.place
                say(f"{card.name}: {unreachable[-1]}; taken instead: {what}")
            return _entry(card) / "files"
    raise OfflineError(
        f"{missing(card)} and no source could be reached: {'; '.join(unreachable)}. "
        f"Connect and run `lamina assets get {card.name}`{card.by_hand}"
    )


_SPEED = 10e6
"""Bytes per second of a usual connection, for saying how long a download takes."""


def fetching_in_words(card: Card) -> str:
    """What is about to be fetched, how large it is, how long that takes, and that it is done once.

    Example:
        >>> from lamina.assets import find
        >>> fetching_in_words(find("glove")).split(";")[0].split(":")[0]
        'glove is not on this machine'
    """
    seconds = max(1, round(card.size / _SPEED))
    return (
        f"{card.name} is not on this machine: {card.size / 1e6:,.0f} MB are fetched once ({card.what}; "
        f"{card.licence}), about {seconds} s at 10 MB/s; kept in {cache_dir()}"
    )


def missing(card: Card) -> str:
    """Why the cache cannot give the asset: the start of an error message."""
    broken = damaged(card)
    return f"{broken[0]} is damaged" if broken else f"{card.name} is not on this machine"


def _write_manifest(card: Card, source: AssetSource, fresh: Path) -> None:
    files = list_files(fresh / "files")
    manifest = {
        "name": card.name,
        "source": source.place,
        "promise": _promise(source),
        "size": sum(file["size"] for file in files.values()),
        "files": files,
    }
    write_json(fresh / "manifest.json", manifest)


def _promise(source: AssetSource) -> str:
    """Changes when a card lists other files or hashes: anything cached before is then stale."""
    promised: list[object] = [list(source.hashes.items()), list(source.members)]
    if isinstance(source, CorpusRecipe):
        promised += [source.version, {path: dict(counts) for path, counts in source.counts.items()}]
    return hashlib.sha256(json.dumps(promised).encode()).hexdigest()


def _is_current(card: Card) -> bool:
    try:
        manifest = _read_manifest(card)
    except DamagedError:
        return False
    return manifest is not None and manifest.get("promise") in [_promise(source) for source in card.sources]


def _read_manifest(card: Card) -> dict[str, Any] | None:
    """What the cache says about the asset; None if it has nothing."""
    entry = _entry(card)
    path = entry / "manifest.json"
    if not entry.exists():
        recover(entry)
    try:
        manifest = read_json(path)
    except FileNotFoundError:
        if not entry.exists():
            return None
        raise DamagedError(f"{path} is missing") from None
    except (OSError, InputError) as error:
        raise DamagedError(f"{path} cannot be read ({error})") from None
    if not isinstance(manifest.get("files"), dict):
        raise DamagedError(f"{path} is damaged (it lists no files)")
    return manifest


def _entry(card: Card) -> Path:
    return cache_dir() / "assets" / card.name
