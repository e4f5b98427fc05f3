"""Files of the Hugging Face hub whose hash nobody published: recorded at the first download, compared ever after."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock

from lamina.errors import DamagedError, HashError, WriteError
from lamina.files.checking import read_json, sha256_of, write_json
from lamina.files.places import cache_dir


def check_first_download(repo: str, revision: str, folder: Path, names: Iterable[str]) -> None:
    """Raise `HashError` if a file of a hub repository is not what it was when it was first downloaded.

    What is new is recorded. The record is kept when an asset is removed from the cache.
    """
    found = {f"{repo}@{revision}/{name}": sha256_of(folder / name) for name in names}
    if not found:
        return
    record = cache_dir() / "hub_hashes.json"
    # Without a cache to write to, there is no record to compare with.
    with suppress(OSError, WriteError), _locked(record):
        known = _read(record)
        for name, sha256 in found.items():
            if known.get(name, sha256) != sha256:
                raise HashError(
                    f"{name} has sha256 {sha256}, but had {known[name]} when it was first downloaded; it is not used. "
                    f"The file is damaged or was replaced: delete it from the hub's cache and try again. To accept it "
                    f"as it is, delete {record}, which lists what was downloaded first"
                )
        if not found.keys() <= known.keys():
            write_json(record, known | found)


@contextmanager
def _locked(record: Path) -> Iterator[None]:
    record.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(record.with_suffix(".lock")):
        yield


def _read(record: Path) -> dict[str, str]:
    try:
        with suppress(FileNotFoundError):
            return read_json(record)
        return {}
    except DamagedError as error:
        raise HashError(
            f"{error}, so downloads cannot be compared with the first ones; delete it to accept the next downloads"
        ) from None
