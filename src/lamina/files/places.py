"""Where lamina keeps what it downloads and computes."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from platformdirs import user_cache_path

from lamina.errors import StoreError


def cache_dir() -> Path:
    """The folder for downloads and computed files: `LAMINA_CACHE`, or the platform's user cache folder.

    Example:
        >>> cache_dir().is_absolute()
        True
    """
    named = os.environ.get("LAMINA_CACHE")
    return Path(named).expanduser().absolute() if named else user_cache_path("lamina")


# Locks on folders that several processes, perhaps of several machines, write to.

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
