"""Locks on folders that several processes, perhaps of several machines, write to."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from lamina.errors import StoreError

_NO_LOCKS = frozenset({errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOTSUP})
"""What a file system answers that has no locks."""


def check_locks(path: Path) -> None:
    """A StoreError if the file system of a lock file has no locks.

    Checked here since the lock's own library then falls back to a marker file, which a killed process leaves behind.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     check_locks(Path(folder) / "lock")
    """
    if os.name != "posix":
        return
    import fcntl

    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in _NO_LOCKS:
            raise StoreError(
                f"{path.parent} is on a file system without file locks ({error.strerror}), which several writers need. "
                "Keep the store on one that has them (--store FOLDER), or mount this one with locks (Lustre: the "
                "option flock; NFS: without nolock)"
            ) from error
        if error.errno not in (errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES):
            raise
    finally:
        os.close(descriptor)
