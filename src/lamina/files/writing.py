"""Writing files and folders: whole or not at all, and synced to the disk before the call returns.

What is being written has a hidden name beside its target, with the machine and the process that write it in it. So a
later writer can tell what a killed process left behind (it is swept) from what another one is writing (left alone).
"""

from __future__ import annotations

import ctypes
import errno
import hashlib
import os
import platform
import re
import secrets
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Final, Literal

import psutil

from lamina.errors import DiskFullError, LaminaError, WriteError

_FILE: Final = "tmp"
_FOLDER: Final = "saving"
_HIDDEN = re.compile(
    rf"\.(?P<target>.+)\.(?P<host>[0-9a-f]{{8}})-(?P<pid>\d+)-[0-9a-f]{{8}}\.(?P<kind>{_FILE}|{_FOLDER})"
)
_ABANDONED = 86_400.0
"""Seconds after which something that a process of another machine was writing counts as left behind."""
_HIDDEN_NAMES: set[str] = set()
"""Hidden names that this process is writing now."""
_BETWEEN_RENAMES = 1.0
"""Seconds to wait for a folder that another process is replacing, where the system cannot exchange two folders."""


@contextmanager
def fresh_path(target: Path) -> Iterator[Path]:
    """A path beside `target` to write to; it becomes `target` when the block ends, and is deleted if the block fails.

    Example:
        >>> import tempfile
        >>> target = Path(tempfile.mkdtemp()) / "table.csv"
        >>> with fresh_path(target) as path:
        ...     _ = path.write_text("layer,value\\n")
        >>> target.read_text()
        'layer,value\\n'
    """
    with readable_write_errors(target), _hidden(target, _FILE) as temporary:
        sweep(target.parent, target.name)
        yield temporary
        sync(temporary)
        temporary.replace(target)
        sync_folder(target.parent)


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file as a whole; the old one stays if that fails."""
    with fresh_path(path) as fresh:
        fresh.write_bytes(content)


def write_text(path: Path, content: str) -> None:
    """Write a file as a whole, in UTF-8; the old one stays if that fails.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "note.txt"
        >>> write_text(path, "one"), write_text(path, "two"), path.read_text()
        (None, None, 'two')
    """
    write_bytes(path, content.encode("utf-8"))


@contextmanager
def fresh_folder(target: Path) -> Iterator[Path]:
    """An empty folder to fill; it takes the place of `target` when the block ends, and is deleted if the block fails.

    Where the system can exchange two folders, readers find the old or the new one at any moment. Elsewhere the old one
    is put back after any failure; after a kill, the next reader or writer puts it back (`recover`).

    Example:
        >>> import tempfile
        >>> target = Path(tempfile.mkdtemp()) / "result"
        >>> with fresh_folder(target) as folder:
        ...     _ = (folder / "a").write_text("1")
        >>> [path.name for path in target.parent.iterdir()]
        ['result']
    """
    with readable_write_errors(target), _hidden(target, _FOLDER) as holder:
        make_folder(target.parent)
        recover(target)
        (holder / "new").mkdir(parents=True)
        yield holder / "new"
        sync_tree(holder / "new")
        _put_in_place(holder, target)
        sync_folder(target.parent)


def make_folder(folder: Path) -> None:
    """Make a folder with those above it; the names of new ones are synced, so that no loss of power takes them away.

    Example:
        >>> import tempfile
        >>> inner = Path(tempfile.mkdtemp()) / "a" / "b"
        >>> make_folder(inner), inner.is_dir()
        (None, True)
    """
    new = [path for path in (folder, *folder.parents) if not path.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    for path in new:
        # A parent that cannot be read can hold names all the same.
        with suppress(PermissionError):
            sync_folder(path.parent)


def remove_folder(target: Path) -> None:
    """Remove a folder: it is gone at once, or, if the system refuses, still whole."""
    with readable_write_errors(target), _hidden(target, _FOLDER) as holder:
        holder.mkdir()
        target.rename(holder / "removed")


def recover(target: Path) -> None:
    """Put back a folder that a killed process had moved aside, and sweep what it left.

    If another process is between moving the old folder away and the new one in, waits for a moment.
    """
    sweep(target.parent, target.name)
    until = time.monotonic() + _BETWEEN_RENAMES
    while not target.exists() and time.monotonic() < until and any(_moved_aside(target)):
        time.sleep(0.005)


def is_being_replaced(target: Path) -> bool:
    """Whether a folder is missing because a process has moved it away and the new one is not there yet."""
    return not target.exists() and any(_moved_aside(target))


def sweep(folder: Path, target: str | None = None) -> int:
    """Remove what killed processes left in a folder, of one target or of all; returns the bytes freed.

    Where the target is missing and its old content was moved aside, that is put back instead.
    """
    freed = 0
    with suppress(OSError):
        for path, its_target in left_behind(folder, target):
            freed += _size(path)
            _clear(path, its_target)
    return freed


def left_behind(folder: Path, target: str | None = None) -> Iterator[tuple[Path, Path]]:
    """What killed processes left in a folder, of one target or of all: the hidden path, and the target."""
    for path in folder.iterdir() if target is None else folder.glob(f".{_literal(target)}.*"):
        match = _HIDDEN.fullmatch(path.name)
        if match and target in (None, match["target"]) and _is_left_behind(path, match["host"], int(match["pid"])):
            yield path, path.with_name(match["target"])


def is_being_written(path: Path) -> bool:
    """Whether this is a hidden file or folder of a process that may still be at work.

    Example:
        >>> is_being_written(hidden_name(Path("table.csv"))), is_being_written(Path("table.csv"))
        (True, False)
    """
    match = _HIDDEN.fullmatch(path.name)
    if match is None:
        return False
    try:
        return not _is_left_behind(path, match["host"], int(match["pid"]))
    except FileNotFoundError:
        return False


def hidden_name(target: Path, kind: Literal["tmp", "saving"] = _FILE) -> Path:
    """A new hidden path beside `target` that says who writes it; left alone by others until this process ends."""
    name = f".{target.name}.{host_code()}-{os.getpid()}-{secrets.token_hex(4)}.{kind}"
    _HIDDEN_NAMES.add(name)
    return target.with_name(name)


@contextmanager
def _hidden(target: Path, kind: Literal["tmp", "saving"]) -> Iterator[Path]:
    """A new hidden path beside `target`; whatever is there at the end is removed."""
    path = hidden_name(target, kind)
    try:
        yield path
    finally:
        _HIDDEN_NAMES.discard(path.name)
        _clear(path, target)


def sync(path: Path) -> None:
    """Have the content of a file written to the disk."""
    descriptor = os.open(path, os.O_RDONLY if os.name == "posix" else os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_folder(folder: Path) -> None:
    """Have the names in a folder written to the disk."""
    if os.name == "posix":  # other systems cannot open a folder
        sync(folder)


def sync_tree(folder: Path) -> None:
    """Have a folder with all its files and folders written to the disk."""
    for inner, _, names in os.walk(folder, topdown=False):
        for name in names:
            sync(Path(inner) / name)
        sync_folder(Path(inner))


@contextmanager
def readable_write_errors(target: Path) -> Iterator[None]:
    """Turn the errors of a system that cannot write `target` into one sentence."""
    try:
        yield
    except Exception as error:
        number = error_number(error)
        if number is None or isinstance(error, LaminaError) or _is_about_another(error, target):
            raise
        raise write_error(target, number) from error


def _is_about_another(error: Exception, target: Path) -> bool:
    """Whether the error names a file elsewhere, such as one that was to be copied."""
    named = getattr(error, "filename", None)
    return isinstance(named, str | bytes | os.PathLike) and not Path(os.fsdecode(named)).is_relative_to(target.parent)


def write_error(target: Path, number: int | None) -> WriteError:
    """The error for a file or folder that cannot be written, by the system's error number."""
    if number in (errno.ENOSPC, errno.EDQUOT):
        return DiskFullError(
            f"no space left on the disk for {target}; what was written before is kept. Free some space (`lamina store "
            "gc` removes leftovers) or choose another folder, and run the same command again"
        )
    why = os.strerror(number) if number else "the system refuses it"
    return WriteError(f"cannot write {target}: {why}; choose a folder that can be written")


_NUMBER = re.compile(r"(?:os error|errno) (\d+)", re.IGNORECASE)


def error_number(error: BaseException) -> int | None:
    """The system's number of an error: its own, or the one in the text of a library's error.

    Example:
        >>> error_number(OSError(28, "No space left on device"))
        28
        >>> error_number(RuntimeError("I/O error: No space left on device (os error 28)"))
        28
    """
    if isinstance(error, OSError) and error.errno is not None:
        return error.errno
    match = _NUMBER.search(str(error))
    return int(match[1]) if match else None


def _put_in_place(holder: Path, target: Path) -> None:
    fresh, old = holder / "new", holder / "old"
    for last in (False, False, True):
        try:
            if target.exists():
                if _exchange(fresh, target):
                    return
                target.rename(old)
            # A failure here is mended by `_clear`, which every way out of the block passes; a kill, by `recover`.
            fresh.rename(target)
            return
        except OSError as error:
            # Another process put its folder there, or moved it away, since we looked.
            if last or old.exists() or error.errno not in (errno.ENOENT, errno.ENOTEMPTY, errno.EEXIST):
                raise


def _clear(path: Path, target: Path) -> None:
    """Remove a hidden file or folder; old content of a missing target is put back first."""
    old = path / "old"
    if old.exists() and not target.exists():
        with suppress(OSError):
            old.rename(target)
    if old.exists() and not target.exists():
        return  # the only copy stays
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink(missing_ok=True)


def _moved_aside(target: Path) -> Iterator[Path]:
    return target.parent.glob(f".{_literal(target.name)}.*.{_FOLDER}/old")


def _is_left_behind(path: Path, host: str, pid: int) -> bool:
    """Whether the process that was writing this is gone."""
    if host == host_code():
        if pid == os.getpid():
            return path.name not in _HIDDEN_NAMES
        return not psutil.pid_exists(pid)
    return time.time() - path.stat().st_mtime > _ABANDONED


def _exchange(one: Path, other: Path) -> bool:
    """Exchange two folders in one step; False where the system or the file system cannot."""
    call = exchanger()
    if call is None:
        return False
    ctypes.set_errno(0)
    if call(os.fsencode(one), os.fsencode(other)) == 0:
        return True
    number = ctypes.get_errno()
    if number in (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EXDEV):
        return False
    raise OSError(number, os.strerror(number), str(other))


@cache
def exchanger() -> Callable[[bytes, bytes], int] | None:
    """The system's call: `renameat2` of Linux, `renamex_np` of macOS, or None."""
    here, exchange = -100, 2
    with suppress(OSError, AttributeError):
        library = ctypes.CDLL(None, use_errno=True)
        if sys.platform == "linux":
            rename = library.renameat2
            return lambda one, other: rename(here, one, here, other, exchange)
        if sys.platform == "darwin":
            return library.renamex_np and (lambda one, other: library.renamex_np(one, other, exchange))
    return None


@cache
def host_code() -> str:
    """Where process numbers mean something: a machine since it was started, or a container on it.

    The name alone would not do: machines and containers may share one.
    """
    known = [platform.node()]
    with suppress(OSError):
        known += [Path("/proc/sys/kernel/random/boot_id").read_text(), str(Path("/proc/self/ns/pid").readlink())]
    return hashlib.sha256(" ".join(known).encode()).hexdigest()[:8]


def _literal(name: str) -> str:
    """The name as a pattern that matches only itself."""
    return re.sub(r"([*?[])", r"[\1]", name)


def _size(path: Path) -> int:
    files = path.rglob("*") if path.is_dir() else [path]
    return sum(file.lstat().st_size for file in files)
