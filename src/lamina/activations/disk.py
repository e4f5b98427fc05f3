"""Writing files that are whole or not there, and large ones past the page cache."""

from __future__ import annotations

import errno
import mmap
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np

from lamina.errors import DiskFullError, StoreError

PAGE = mmap.PAGESIZE
"""Memory and file positions in multiples of this can go to the disk directly."""


def page_aligned(size: int) -> np.ndarray:
    """Bytes that begin at a page, as direct writing asks for."""
    return np.frombuffer(mmap.mmap(-1, max(1, size)), np.uint8)[:size]


@contextmanager
def fresh_file(target: Path) -> Iterator[int]:
    """A descriptor that becomes `target` when all went well, and leaves nothing otherwise."""
    temporary = target.with_name(f".{target.name}.tmp")
    try:
        file = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        try:
            yield file
            os.fsync(file)
            if hasattr(os, "posix_fadvise"):
                # Written pages would only push what is being read out of memory.
                os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(file)
        temporary.replace(target)
    except BaseException as error:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise write_error(target, error) from error
        raise


def write_all(file: int, data: bytes | memoryview) -> None:
    """Write until everything is written."""
    rest = memoryview(data).cast("B")
    while rest:
        rest = rest[os.write(file, rest) :]


def write_past_cache(file: int, lead: bytes, bulk: memoryview) -> None:
    """Write `lead`, a whole number of pages, and then `bulk`; without a detour through the page cache if that works.

    Fresh cache pages cost more than the disk does. Where memory is not aligned, or the file system cannot do it,
    everything is written the usual way.
    """
    whole = len(bulk) - len(bulk) % PAGE
    try:
        _set_direct(file, on=True)
        first = page_aligned(len(lead))
        first[:] = np.frombuffer(lead, np.uint8)
        write_all(file, first.data)
        write_all(file, bulk[:whole])
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        os.lseek(file, 0, os.SEEK_SET)
        os.ftruncate(file, 0)
        _set_direct(file, on=False)
        write_all(file, lead)
        write_all(file, bulk)
    else:
        _set_direct(file, on=False)
        write_all(file, bulk[whole:])


def write_error(target: Path, error: OSError) -> StoreError:
    """What to tell of a failed write: a full disk is said in its own words."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return DiskFullError(
            f"no room left for activations in {target.parent}; what was stored so far is kept. "
            "Free some space (`lamina store gc`) or name another folder (--store), and run the same command again"
        )
    return StoreError(f"cannot write {target}: {error.strerror}; name a folder that can be written (--store)")


def _set_direct(file: int, *, on: bool) -> None:
    if not hasattr(os, "O_DIRECT"):
        return
    import fcntl

    flags = fcntl.fcntl(file, fcntl.F_GETFL)
    fcntl.fcntl(file, fcntl.F_SETFL, flags | os.O_DIRECT if on else flags & ~os.O_DIRECT)
