"""Where models run: which devices there are, what is free there, and in which precision they can compute."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import psutil

from lamina.errors import ModelError

Placement = str | Mapping[str, int | str]
"""Where a model goes: a device; "auto" for wherever its weights fit; or part of the model -> card, "cpu" or "disk"."""

_CGROUPS = Path("/sys/fs/cgroup")
_OWN_GROUPS = Path("/proc/self/cgroup")
_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB")

# Large enough to use the matrix units (AMX) that some machines announce but then refuse.
_TRY = "import torch; a = torch.ones(64, 64, dtype=torch.{dtype}); print(float((a @ a)[0, 0]))"


def check_precision(dtype: str, device: Placement) -> None:
    """Raise a ModelError if `device` cannot compute in `dtype`.

    Example:
        >>> check_precision("float32", "cpu")
    """
    if dtype not in ("float32", "bfloat16", "float16"):
        raise ModelError(f"{dtype!r} is not a supported precision; use float32, bfloat16 or float16")
    if dtype != "float32" and _runs_on_cpu(device) and not cpu_multiplies(dtype):
        raise ModelError(f"{dtype} matrix products do not work on this machine's CPU; use float32 or a GPU")


@cache
def cpu_multiplies(dtype: str) -> bool:
    """Whether this CPU multiplies matrices in `dtype`; tested in a child process, since a failure kills the process."""
    tried = subprocess.run(
        [sys.executable, "-c", _TRY.format(dtype=dtype)], capture_output=True, text=True, check=False
    )
    return tried.returncode == 0 and tried.stdout.strip() == "64.0"


def choose_device(asked: Placement | None) -> Placement:
    """The device that was asked for, if this machine has it; by default a GPU if there is one.

    Example:
        >>> choose_device("cpu"), choose_device({"embeddings": "cpu", "encoder": "disk"})
        ('cpu', {'embeddings': 'cpu', 'encoder': 'disk'})
    """
    import torch

    if asked is None:
        return "cuda" if torch.cuda.is_available() else "cpu"
    if isinstance(asked, Mapping):
        if not asked:
            raise ModelError("device={} names no part of the model; use {'': 'cpu'} for all of it")
        return {part: _part_device(part, device) for part, device in asked.items()}
    if asked == "auto":
        return asked
    if asked.startswith("cuda") and not torch.cuda.is_available():
        raise ModelError(f"device {asked!r} is not available: torch sees no GPU; use --device cpu")
    try:
        torch.empty(0, device=asked)
    except (RuntimeError, AssertionError):
        raise ModelError(f"{asked!r} is not a device of this machine; use cpu, cuda, cuda:N or auto") from None
    return asked


def _part_device(part: str, asked: int | str) -> int | str:
    if asked == "disk":
        return asked
    choose_device(f"cuda:{asked}" if isinstance(asked, int) else asked)
    if asked == "auto":
        raise ModelError(f"{part}: 'auto' is for a whole model; use the number of a card, cpu or disk")
    return asked


def _runs_on_cpu(device: Placement) -> bool:
    """Whether a model computes on the CPU: where parts of it are on a card, all others are copied there to run."""
    import torch

    if isinstance(device, Mapping):
        return all(each in ("cpu", "disk") for each in device.values())
    return device.startswith("cpu") or (device == "auto" and not torch.cuda.is_available())


def free_on_card(device: str) -> int:
    """Bytes that can still be allocated on a GPU, those that torch holds without using them included."""
    import torch

    free, _ = torch.cuda.mem_get_info(device)
    return free + torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)


def free_in_memory() -> int:
    """Bytes of memory that this process can still take: what the machine has free, and its cgroups allow.

    Example:
        >>> free_in_memory() > 0
        True
    """
    return max(0, min(psutil.virtual_memory().available, *_left_by_cgroups()))


def shown_size(count: int) -> str:
    """A number of bytes as people write it.

    Example:
        >>> shown_size(0), shown_size(1536), shown_size(310 * 2**30)
        ('0 bytes', '1.5 KiB', '310 GiB')
    """
    power = min(max(0, count.bit_length() - 1) // 10, len(_UNITS) - 1)
    size = count / 1024**power
    return f"{size:.1f} {_UNITS[power]}" if power and size < 10 else f"{size:,.0f} {_UNITS[power]}"


def _left_by_cgroups() -> Iterator[int]:
    """What each limit on this process leaves: containers and batch systems allow less than the machine has."""
    try:
        lines = _OWN_GROUPS.read_text().splitlines()
    except OSError:
        lines = []
    for line in lines:
        _, controllers, own = line.split(":", 2)
        if not controllers:
            yield from _left(_CGROUPS, own, "memory.max", "memory.current", "inactive_file")
        elif "memory" in controllers.split(","):
            within = _CGROUPS / "memory"
            yield from _left(within, own, "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
    yield sys.maxsize


def _left(root: Path, own: str, limit: str, usage: str, cached: str) -> Iterator[int]:
    # Inside a container, the own group may be mounted as the root.
    folder = root / own.lstrip("/")
    while folder.is_relative_to(root):
        try:
            most = (folder / limit).read_text().strip()
            if most.isdigit():
                counted = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
                # Cached files count as used, but make room when memory is needed.
                used = int((folder / usage).read_text()) - int(counted.get(cached, 0))
                yield int(most) - used
        except (OSError, ValueError):
            pass  # A group that is not mounted here says nothing.
        folder = folder.parent
