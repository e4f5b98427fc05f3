"""Writing large files past the page cache."""

from __future__ import annotations

import errno
import mmap
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np

from lamina.files.writing import fresh_path

PAGE = mmap.PAGESIZE
"""Alignment that direct writing needs, in memory and in the file."""


def page_aligned(size: int) -> np.ndarray:
    """A buffer that starts at a page, as direct writing needs."""
    if not hasattr(mmap, "MAP_PRIVATE"):
        return np.frombuffer(mmap.mmap(-1, max(1, size)), np.uint8)[:size]
    memory = mmap.mmap(-1, max(1, size), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        # Fewer and larger pages are made, and locked for a GPU, in a fraction of the time. Not every kernel has them.
        with suppress(OSError):
            memory.madvise(mmap.MADV_HUGEPAGE)
    return np.frombuffer(memory, np.uint8)[:size]


@contextmanager
def fresh_file(target: Path) -> Iterator[int]:
    """A descriptor of a file that becomes `target` on success and is deleted on failure."""
    with fresh_path(target) as temporary:
        file = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
        try:
            yield file
        finally:
            os.close(file)


def write_all(file: int, data: bytes | memoryview) -> None:
    """Write all bytes."""
    rest = memoryview(data).cast("B")
    while rest:
        rest = rest[os.write(file, rest) :]


def write_past_cache(file: int, lead: bytes, bulk: memoryview) -> None:
    """Write `lead`, a whole number of pages, and then `bulk`, bypassing the page cache if possible.

    New cache pages cost more than the disk. If memory is not aligned, or the file system does not support it,
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
        if hasattr(os, "posix_fadvise"):
            # Written pages would only push the pages being read out of memory; only synced ones can be dropped.
            os.fsync(file)
            os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
    else:
        _set_direct(file, on=False)
        write_all(file, bulk[whole:])


def _set_direct(file: int, *, on: bool) -> None:
    if not hasattr(os, "O_DIRECT"):
        return
    import fcntl

    flags = fcntl.fcntl(file, fcntl.F_GETFL)
    fcntl.fcntl(file, fcntl.F_SETFL, flags | os.O_DIRECT if on else flags & ~os.O_DIRECT)
