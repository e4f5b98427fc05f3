"""Public git repositories at a pinned commit: which files are taken, the hash of each, and how to get them.

Public addresses are read by https only, up to a bound, with one line when it fails. Archives are unpacked trusting
nothing that they say about themselves.
"""

from __future__ import annotations

import errno
import gzip
import hashlib
import io
import json
import lzma
import os
import stat
import subprocess
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from http.client import HTTPException, HTTPResponse
from importlib import resources
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import IO, Literal, NamedTuple
from urllib import request
from urllib.error import URLError
from urllib.parse import quote, urlsplit

from lamina.errors import AssetError, HashError, OfflineError
from lamina.files.checking import cache_dir
from lamina.files.reading import read_regular
from lamina.files.writing import fresh_path, write_bytes
from lamina.progress import progress

_UNREADABLE = (zipfile.BadZipFile, tarfile.TarError, zlib.error, lzma.LZMAError, EOFError, RuntimeError, ValueError)
"""What zipfile and tarfile raise for damaged, encrypted or unknown archives."""
CHUNK = 1 << 20
"""Bytes copied at a time."""


class Allowance:
    """How many bytes may still be written; stops archive bombs."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.left = limit

    def take(self, count: int, what: str) -> None:
        """Use up `count` bytes for `what`; an error if that is more than the card allows."""
        self.left -= count
        if self.left < 0:
            raise AssetError(f"{what} exceeds the {self.limit:,} bytes its card allows; the download was discarded")


class Member(NamedTuple):
    """One entry of an archive."""

    name: str
    """Its path in the archive."""
    kind: Literal["file", "folder", "other"]
    """`other` is a link or a device."""
    open: Callable[[], IO[bytes]]
    """Its content; for files only."""


def unpack(archive: Path, into: Path, patterns: Iterable[str], allowance: Allowance) -> None:
    """Write the files that match `patterns` under the folder `into`.

    The part of a pattern before its first wildcard, up to the last slash, is dropped from the file's new name:
    `pkg/model/*` gives `config.json` and `1_Pooling/config.json`. The whole archive is refused if a member has an
    absolute path, contains `..` or is a link, or if a pattern matches nothing.
    """
    with open_members(archive) as members:
        for member in members:
            refuse_unsafe(archive, member)
        for pattern in patterns:
            matching = select(members, pattern)
            if not matching:
                raise AssetError(f"{archive.name} has no member {pattern}; the archive is not what its card describes")
            for member in matching:
                target = into / member.name.removeprefix(_literal_folder(pattern))
                _make_room(archive, member, target)
                with member.open() as stream:
                    copy(stream, target, allowance)


def _make_room(archive: Path, member: Member, target: Path) -> None:
    """Make the folder of a new file, and refuse a name that cannot be one."""
    try:
        if target.exists():
            raise AssetError(f"{archive.name} has {member.name} twice; the download was discarded")
        target.parent.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise AssetError(
            f"{archive.name} has a file where {member.name} needs a folder; the download was discarded"
        ) from None
    except OSError as error:
        if error.errno != errno.ENAMETOOLONG:
            raise
        raise AssetError(
            f"{archive.name} has a member with too long a name ({member.name[:40]}...); the download was discarded"
        ) from None


def select(members: Iterable[Member], pattern: str) -> list[Member]:
    """The files whose path matches; `*` crosses folders.

    Example:
        >>> from io import BytesIO
        >>> members = [Member("pkg/a.json", "file", BytesIO), Member("pkg/b.py", "file", BytesIO)]
        >>> [member.name for member in select(members, "pkg/*.json")]
        ['pkg/a.json']
    """
    return [member for member in members if member.kind == "file" and fnmatchcase(member.name, pattern)]


def copy(
    stream: IO[bytes],
    target: Path,
    allowance: Allowance,
    *,
    append: bool = False,
    advance: Callable[[float], None] | None = None,
) -> None:
    """Stream into a new file, or append to one (`append`), within the allowance."""
    with target.open("ab" if append else "xb") as file:
        while chunk := stream.read(CHUNK):
            allowance.take(len(chunk), target.name)
            file.write(chunk)
            if advance:
                advance(len(chunk))


def refuse_unsafe(archive: Path, member: Member) -> None:
    """Raise an error for a member that could write outside its folder.

    Example:
        >>> refuse_unsafe(Path("x.zip"), Member("../evil", "file", open))
        Traceback (most recent call last):
        lamina.errors.AssetError: x.zip has the unsafe member '../evil'; nothing was unpacked
    """
    path = PurePosixPath(member.name)
    climbs = ".." in path.parts or path.is_absolute() or (member.kind == "file" and not path.name)
    # On Windows a backslash is a separator and `C:` is a drive.
    foreign = "\\" in member.name or bool(PureWindowsPath(member.name).drive)
    if climbs or foreign or "\0" in member.name or member.kind == "other":
        raise AssetError(f"{archive.name} has the unsafe member {member.name!r}; nothing was unpacked")


@contextmanager
def open_members(archive: Path) -> Iterator[list[Member]]:
    """Every entry of a zip or tar archive, readable within a `with` block."""
    try:
        if zipfile.is_zipfile(archive):
            with zipfile.ZipFile(archive) as opened:
                yield [_from_zip(opened, info) for info in opened.infolist()]
        else:
            with tarfile.open(archive) as opened:
                yield [_from_tar(opened, info) for info in opened.getmembers()]
    except _UNREADABLE as error:
        raise AssetError(f"{archive.name} cannot be unpacked: {error}") from error


def _from_zip(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Member:
    # Archives not made on Unix leave the type empty.
    plain = stat.S_IFMT(info.external_attr >> 16) in (0, stat.S_IFREG)
    folder = info.filename.endswith("/")
    kind = "folder" if folder else "file" if plain and info.filename else "other"
    return Member(info.filename, kind, lambda: archive.open(info))


def _from_tar(archive: tarfile.TarFile, info: tarfile.TarInfo) -> Member:
    def read() -> IO[bytes]:
        stream = archive.extractfile(info)
        if stream is None:
            raise AssetError(f"{info.name} is not a file")
        return stream

    kind = "file" if info.isreg() else "folder" if info.isdir() else "other"
    return Member(info.name, kind, read)


def _literal_folder(pattern: str) -> str:
    literal = pattern.partition("*")[0]
    return literal[: literal.rfind("/") + 1]


_PATIENCE = 60
"""Seconds to wait for an answer, or for the next bytes of one."""


def offline_by() -> str | None:
    """The variable that forbids fetching: `LAMINA_OFFLINE`, or where that is not set `HF_HUB_OFFLINE`; or None."""
    if value := os.environ.get("LAMINA_OFFLINE"):
        return None if value == "0" else "LAMINA_OFFLINE"
    return "HF_HUB_OFFLINE" if os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "ON", "YES", "TRUE") else None


def refuse_offline(place: str) -> None:
    """Raise `OfflineError` for a place to fetch from if fetching is forbidden."""
    if (variable := offline_by()) is not None:
        raise OfflineError(f"{place} was not asked ({variable} is set)")


def refuse_insecure(address: str) -> None:
    """Raise an error for an address that is not https; this machine itself may serve plainly.

    Example:
        >>> refuse_insecure("http://example.org/corpus")
        Traceback (most recent call last):
        lamina.errors.AssetError: http://example.org/corpus is not an https address
    """
    parts = urlsplit(address)
    if parts.scheme != "https" and parts.hostname != "127.0.0.1":
        raise AssetError(f"{address} is not an https address")


def download(address: str, target: Path, allowance: Allowance, what: str) -> None:
    """Write what an address holds, `what` for people, into a new file."""
    with (
        opened(address) as response,
        progress(f"downloading {what}", total=response.length) as advance,
    ):
        copy(response, target, allowance, advance=advance)
        if response.length:
            raise HTTPException(f"download incomplete, {response.length:,} bytes missing")


@contextmanager
def opened(address: str) -> Iterator[HTTPResponse]:
    """The answer of an address, to be read within the block; `OfflineError` if it fails in there."""
    refuse_insecure(address)
    refuse_offline(address)
    try:
        with _opener().open(address, timeout=_PATIENCE) as response:
            refuse_insecure(response.url)
            yield response
    except (URLError, TimeoutError, ConnectionError, HTTPException) as error:
        raise OfflineError(f"{address} could not be read ({first_line(error)})") from error


def first_line(error: BaseException) -> str:
    """The first line of what an error says.

    Example:
        >>> first_line(ValueError("one\\ntwo"))
        'one'
    """
    return (str(error).splitlines() or [type(error).__name__])[0]


def _opener() -> request.OpenerDirector:
    # urllib's own opener would also read file:// and ftp:// addresses, for instance after a redirect.
    opener = request.OpenerDirector()
    for handler in (
        request.ProxyHandler,
        request.HTTPHandler,
        request.HTTPSHandler,
        request.HTTPDefaultErrorHandler,
        request.HTTPRedirectHandler,
        request.HTTPErrorProcessor,
    ):
        opener.add_handler(handler())
    return opener


# Public repositories that this machine already has: the folder that `LAMINA_ORIGINS` names.
#
# <LAMINA_ORIGINS>/OWNER/NAME    a clone (bare or not), a checkout, or an unpacked archive of github.com/OWNER/NAME
# <LAMINA_ORIGINS>/OWNER+NAME    the same, in one level
#
# A clone is read at the pinned commit, whatever is checked out. The caller checks the hash.


def local_origins() -> Path | None:
    """The folder that `LAMINA_ORIGINS` names, or None; an error if it does not exist."""
    named = os.environ.get("LAMINA_ORIGINS")
    if not named:
        return None
    folder = Path(named).expanduser().absolute()
    if not folder.is_dir():
        raise AssetError(f"LAMINA_ORIGINS is {folder}, which is not a folder; correct it or unset it")
    return folder


def local_repository(repo: str) -> Path | None:
    """The folder of a repository `owner/name`, or None if this machine has none."""
    base = local_origins()
    if base is None:
        return None
    places = (base / repo, base / repo.replace("/", "+"))
    return next((place for place in places if place.is_dir()), None)


def read_checked_out(folder: Path, path: str) -> bytes | None:
    """A file as it lies in the folder; None if there is none."""
    target = folder / path
    return read_regular(target) if target.is_file() else None


def read_committed(folder: Path, name: str) -> bytes | None:
    """A file of a clone, by `commit:path` or by blob id; None if the folder is no clone or does not have it."""
    if not ((folder / ".git").exists() or (folder / "objects").is_dir()):
        return None
    # The folder may belong to another user, which git refuses by default; it is only read, and its hash is checked.
    command = ["git", "-c", f"safe.directory={folder.resolve()}", "-C", str(folder), "cat-file", "blob", name]
    # No promisor remote may be asked: a partial clone would fetch what it lacks.
    environment = {**os.environ, "GIT_NO_LAZY_FETCH": "1", "GIT_TERMINAL_PROMPT": "0"}
    try:
        done = subprocess.run(command, capture_output=True, check=False, env=environment)
    except OSError:
        return None
    return done.stdout if done.returncode == 0 else None


RAW = "https://raw.githubusercontent.com"
"""Where single files of public repositories are."""
ARCHIVES = "https://codeload.github.com"
"""Where whole commits are, as tar archives."""
_SLACK = 1.5
"""Largest allowed ratio of what is fetched to what the manifest says."""


def blob_id(content: bytes) -> str:
    """The name git gives to a file's content.

    Example:
        >>> blob_id(b"hello\\n")
        'ce013625030ba8dba906f756967f9e9ca394464a'
    """
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


@dataclass(frozen=True)
class Origin:
    """Files of one public repository at one commit."""

    repo: str
    """`owner/name` on GitHub."""
    commit: str
    """40 hex digits."""
    files: Mapping[str, str]
    """Path -> git blob id."""
    size: int
    """Bytes of these files, at most: what may be fetched."""
    archive: int = 0
    """Bytes of the whole repository, if it is fetched as one archive; 0: file by file."""

    @property
    def page(self) -> str:
        """The address of the repository at this commit, for people."""
        return f"https://github.com/{self.repo}/tree/{self.commit}"

    @property
    def place(self) -> str:
        """A readable name."""
        return f"{self.repo} at {self.commit[:12]}"

    @property
    def sha256(self) -> str:
        """One hash of the commit, the files and their blob ids."""
        return hashlib.sha256(json.dumps([self.repo, self.commit, sorted(self.files.items())]).encode()).hexdigest()

    def only(self, *patterns: str) -> Origin:
        """This origin with only the files that match (`*` crosses folders); each pattern has to match one.

        Example:
            >>> whole = Origin("me/mine", "0" * 40, {"a.txt": "1", "b.md": "2"}, 9)
            >>> list(whole.only("*.txt").files)
            ['a.txt']
        """
        files = {path: blob for path, blob in self.files.items() if any(fnmatchcase(path, one) for one in patterns)}
        for pattern in patterns:
            if not any(fnmatchcase(path, pattern) for path in files):
                raise AssetError(f"the manifest of {self.repo} has no file {pattern}")
        return Origin(self.repo, self.commit, files, self.size, self.archive)


def read_manifest(name: str) -> Origin:
    """The origin that `manifests/NAME.txt` of this package describes.

    Example:
        >>> read_manifest("ewt").repo
        'UniversalDependencies/UD_English-EWT'
    """
    text = resources.files("lamina.assets").joinpath("manifests", f"{name}.txt").read_text("utf-8")
    head = dict(line[2:].split(": ", 1) for line in text.splitlines() if line.startswith("# "))
    lines = [line.split(" ", 1) for line in text.splitlines() if line and not line.startswith("#")]
    files = {path: blob for blob, path in lines}
    return Origin(head["repository"], head["commit"], files, int(head["bytes"]), int(head["archive"]))


class OriginFiles:
    """The files of an origin, fetched when first read and checked at every reading."""

    def __init__(self, origin: Origin) -> None:
        self.origin = origin
        self._folder = local_repository(origin.repo)
        self._allowance = Allowance(int(origin.size * _SLACK))

    @property
    def paths(self) -> tuple[str, ...]:
        """Every path, in the manifest's order."""
        return tuple(self.origin.files)

    def text(self, path: str) -> str:
        """The content of a file in UTF-8, line ends as in the file."""
        try:
            return self.read(path).decode("utf-8")
        except UnicodeDecodeError as error:
            raise AssetError(f"{self.origin.repo}/{path} is not UTF-8 ({error})") from None

    def read(self, path: str) -> bytes:
        """The content of a file; `HashError` if it is not that of the pinned commit."""
        blob = self.origin.files[path]
        content = self._local(path, blob)
        if content is None:
            content = self._fetched(blob)
        if content is None:
            self._fetch(path, blob)
            content = self._fetched(blob)
        if content is None:
            raise AssetError(f"{self.origin.repo}/{path} vanished from {_cached_blob(blob)}; try again")
        return content

    def forget(self) -> None:
        """Delete the files that were fetched; another recipe that needs them fetches them again."""
        for blob in self.origin.files.values():
            _cached_blob(blob).unlink(missing_ok=True)

    def _local(self, path: str, blob: str) -> bytes | None:
        """From `LAMINA_ORIGINS`; None if it is not there. A file that is there but differs is an error."""
        if self._folder is None:
            return None
        content = read_checked_out(self._folder, path)
        if content is not None and blob_id(content) == blob:
            return content
        committed = read_committed(self._folder, blob)
        if committed is not None and blob_id(committed) == blob:
            return committed
        if content is not None:
            raise HashError(
                f"{self._folder / path} has git blob id {blob_id(content)}, but commit {self.origin.commit[:12]} of "
                f"{self.origin.repo} has {blob}; check out that commit (without changing line ends), or unset "
                f"LAMINA_ORIGINS"
            )
        return None

    def _fetched(self, blob: str) -> bytes | None:
        """Fetched before; None if it was not, or is damaged and has to be fetched again."""
        try:
            content = _cached_blob(blob).read_bytes()
        except FileNotFoundError:
            return None
        return content if blob_id(content) == blob else None

    def _fetch(self, path: str, blob: str) -> None:
        if self.origin.archive:
            self._fetch_archive()
            return
        address = f"{RAW}/{self.origin.repo}/{self.origin.commit}/{quote(path)}"
        with fresh_path(_with_folder(_cached_blob(blob))) as fresh:
            download(address, fresh, self._allowance, what=path)
            _check(fresh.read_bytes(), blob, address)

    def _fetch_archive(self) -> None:
        """Keep every file of the manifest that the commit's archive holds; the rest of the archive is skipped."""
        address = f"{ARCHIVES}/{self.origin.repo}/tar.gz/{self.origin.commit}"
        wanted = dict(self.origin.files)
        with opened(address) as response, progress(f"downloading {self.origin.repo}") as advance:
            for path, content in _members(response, Allowance(int(self.origin.archive * _SLACK)), wanted, address):
                advance(len(content))
                blob = wanted.pop(path)
                _check(content, blob, f"{path} in {address}")
                write_bytes(_with_folder(_cached_blob(blob)), content)
                if not wanted:
                    return
        raise AssetError(f"{address} lacks {next(iter(wanted))} ({len(wanted):,} of {len(self.origin.files):,} files)")


def _members(
    stream: HTTPResponse, allowance: Allowance, wanted: Mapping[str, str], address: str
) -> Iterator[tuple[str, bytes]]:
    """Path (below the archive's only folder) and content of the wanted files, in the archive's order."""
    bounded = _Bounded(gzip.GzipFile(fileobj=stream), allowance, address)
    try:
        with tarfile.open(fileobj=bounded, mode="r|") as archive:
            for info in archive:
                path = info.name.partition("/")[2]
                member = archive.extractfile(info) if info.isreg() and path in wanted else None
                if member is not None:
                    yield path, member.read()
    except (tarfile.TarError, zlib.error, EOFError, gzip.BadGzipFile) as error:
        raise OfflineError(f"{address} could not be unpacked ({error})") from error


class _Bounded(io.BufferedIOBase):
    """A stream that ends in an error when it gives more than is allowed."""

    def __init__(self, stream: gzip.GzipFile, allowance: Allowance, what: str) -> None:
        self._stream, self._allowance, self._what = stream, allowance, what

    def read(self, size: int | None = -1, /) -> bytes:
        """The next bytes."""
        piece = self._stream.read(size)
        self._allowance.take(len(piece), self._what)
        return piece


def _check(content: bytes, blob: str, what: str) -> None:
    actual = blob_id(content)
    if actual != blob:
        raise HashError(
            f"{what} has git blob id {actual}, but its manifest says {blob}; the download was discarded. "
            "Try again; if this persists, the source has changed or cannot be trusted"
        )


def _cached_blob(blob: str) -> Path:
    return cache_dir() / "origins" / blob[:2] / blob


def _with_folder(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    return path
