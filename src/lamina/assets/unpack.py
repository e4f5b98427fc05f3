"""Extract named members from a zip or tar archive, trusting nothing the archive says about itself."""

from __future__ import annotations

import errno
import lzma
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import IO, Literal, NamedTuple

from lamina.errors import AssetError

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
