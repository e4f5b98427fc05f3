"""The files that lamina keeps: where they lie, and checksums that are written with them and compared at reading."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import xxhash
from platformdirs import user_cache_path

from lamina.errors import DamagedError, StoreError, WriteError
from lamina.files.reading import LARGEST_JSON, check_depth, open_regular, read_regular
from lamina.files.writing import fresh_path, write_text

if TYPE_CHECKING:
    import torch


_CHECKSUM = "checksum"
_LARGE = 1 << 20
"""Smallest file size, in bytes, for which hashes are remembered across processes."""
_SETTLED = 2.0
"""Minimum age of a file in seconds: one written just now may change again without a new modification time."""
_HERE: dict[str, str] = {}
"""Hashes known in this process."""


class FileProblem(NamedTuple):
    """Something wrong with a file that lamina keeps."""

    path: Path
    what: str
    leftover: bool = False
    """Not damaged, but of no use: a killed process left it."""


def sha256_of(path: Path) -> str:
    """The sha256 of a file, remembered by path, size and modification time.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "empty"
        >>> path.touch()
        >>> sha256_of(path)[:12]
        'e3b0c44298fc'
    """
    path = path.resolve()
    state = path.stat()
    if time.time() - state.st_mtime <= _SETTLED:
        return hash_file(path)
    key = f"{path}|{state.st_size}|{state.st_mtime_ns}"
    if key not in _HERE:
        _HERE[key] = _remembered_or_hashed(path, key) if state.st_size >= _LARGE else hash_file(path)
    return _HERE[key]


def matches(path: Path, sha256: str) -> bool:
    """Whether a file has this sha256; looked at again if its size or modification time changed since the last look."""
    try:
        # A remembered hash that differs may itself be damaged.
        return sha256_of(path) == sha256 or hash_file(path) == sha256
    except OSError:
        return False


def hash_file(path: Path) -> str:
    """The sha256 of a file, computed now.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "empty"
        >>> path.touch()
        >>> hash_file(path)[:12]
        'e3b0c44298fc'
    """
    with open_regular(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def list_files(folder: Path, known: Mapping[str, Any] = MappingProxyType({})) -> dict[str, dict[str, Any]]:
    """Every file in a folder and below: its path in the folder -> sha256 and size; what is `known` is not hashed again.

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> (folder / "a").touch()
        >>> list_files(folder)["a"]["size"]
        0
    """
    files = {path.relative_to(folder).as_posix(): path for path in sorted(folder.rglob("*")) if path.is_file()}
    return {
        name: known[name] if name in known else {"sha256": hash_file(path), "size": path.stat().st_size}
        for name, path in files.items()
    }


def changed_files(folder: Path, listed: Mapping[str, Any], *, now: bool = False) -> list[Path]:
    """The files of a list made by `list_files` that are missing or changed; `now`: all of them are hashed again."""
    changed = []
    for name, file in listed.items():
        path = folder / name
        sha256 = file.get("sha256") if isinstance(file, dict) else None
        if not isinstance(sha256, str) or not path.is_file() or not _has(path, sha256, now=now):
            changed.append(path)
    return changed


def _has(path: Path, sha256: str, *, now: bool) -> bool:
    return hash_file(path) == sha256 if now else matches(path, sha256)


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write a JSON object with its own checksum."""
    write_text(path, json_text(content))


def json_text(content: Mapping[str, Any]) -> str:
    """The text of a JSON object with its own checksum.

    Example:
        >>> print(json_text({"layers": 7}))
        {
          "layers": 7,
          "checksum": "e347bdfed2af37d8a0fac89ca37e3483"
        }
        <BLANKLINE>
    """
    # As it will be read back: keys become strings, tuples become lists.
    plain = json.loads(json.dumps(content))
    return json.dumps(plain | {_CHECKSUM: _digest(plain)}, indent=2) + "\n"


def read_json(path: Path) -> dict[str, Any]:
    """Read what `write_json` wrote. An object without a checksum is accepted: older versions wrote none."""
    try:
        # Not `parse_json`: a path in it may hold a character that is not UTF-8.
        text = read_regular(path, LARGEST_JSON).decode("utf-8")
        check_depth(text)
        content = json.loads(text)
    except ValueError as error:
        raise DamagedError(f"{path} is damaged ({error})") from None
    if not isinstance(content, dict):
        raise DamagedError(f"{path} is damaged (not a JSON object)")
    checksum = content.pop(_CHECKSUM, None)
    if checksum not in (None, _digest(content)):
        raise DamagedError(f"{path} is damaged (its checksum does not match)")
    return content


def save_tensors(path: Path, tensors: Mapping[str, torch.Tensor], head: Mapping[str, Any]) -> None:
    """Write tensors and a JSON object about them as safetensors, with a checksum over both."""
    from safetensors.torch import save_file

    whole = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    about = json.dumps(dict(head))
    with fresh_path(path) as fresh:
        # One entry: the library writes several in any order, and the same content should have the same bytes.
        save_file(whole, fresh, {"lamina": f"{digest_tensors(whole, about)} {about}"})


def load_tensors(path: Path) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
    """Read what `save_tensors` wrote: the tensors, and the object about them.

    Older versions wrote the checksum as an entry of its own, or none; both are accepted.
    """
    from safetensors import SafetensorError, safe_open

    try:
        with open_regular(path), safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            # Cloned: what is mapped would change, or end the process, with the file.
            tensors = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118
        checksum, about = metadata.get(_CHECKSUM), metadata["lamina"]
        if not about.startswith("{"):
            checksum, _, about = about.partition(" ")
        if checksum not in (None, digest_tensors(tensors, about)):
            raise DamagedError(f"{path} is damaged (its checksum does not match)")
        return tensors, json.loads(about)
    except (KeyError, ValueError, RuntimeError, SafetensorError) as error:
        raise DamagedError(f"{path} is damaged ({error})") from None


def _digest(content: Mapping[str, Any]) -> str:
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return xxhash.xxh3_128(text.encode("utf-8", errors="surrogatepass")).hexdigest()


def digest_tensors(tensors: Mapping[str, torch.Tensor], about: str) -> str:
    import torch

    digest = xxhash.xxh3_128(about.encode())
    for name, tensor in sorted(tensors.items()):
        digest.update(f"{name} {tensor.dtype} {list(tensor.shape)}".encode())
        flat = tensor.reshape(-1)
        if flat.stride(0) == 0:
            # Of a single value: its bytes cannot be viewed.
            flat = flat.clone(memory_format=torch.contiguous_format)
        digest.update(flat.view(torch.uint8).numpy().data)
    return digest.hexdigest()


def _remembered_or_hashed(path: Path, key: str) -> str:
    memory = cache_dir() / "hashes.json"
    known: dict[str, str] = {}
    with suppress(OSError, DamagedError):
        known = read_json(memory)
    if key not in known:
        # Hashes of earlier states of this path are never needed again.
        known = {other: value for other, value in known.items() if not other.startswith(f"{path}|")}
        known[key] = hash_file(path)
        # Without a cache to write to, it is hashed again next time.
        with suppress(OSError, WriteError):
            memory.parent.mkdir(parents=True, exist_ok=True)
            write_json(memory, known)
    return str(known[key])


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
