"""Where models run, and in which precision this machine can compute."""

from __future__ import annotations

import subprocess
import sys
from functools import cache

from lamina.errors import ModelError

# Large enough to use the matrix units (AMX) that some machines announce but then refuse.
_TRY = "import torch; a = torch.ones(64, 64, dtype=torch.{dtype}); print(float((a @ a)[0, 0]))"


def check_precision(dtype: str, device: str) -> None:
    """Raise a ModelError if `device` cannot compute in `dtype`.

    Example:
        >>> check_precision("float32", "cpu")
    """
    if dtype not in ("float32", "bfloat16", "float16"):
        raise ModelError(f"{dtype!r} is not a supported precision; use float32, bfloat16 or float16")
    if dtype != "float32" and device.startswith("cpu") and not cpu_multiplies(dtype):
        raise ModelError(f"{dtype} matrix products do not work on this machine's CPU; use float32 or a GPU")


@cache
def cpu_multiplies(dtype: str) -> bool:
    """Whether this CPU multiplies matrices in `dtype`; tested in a child process, since a failure kills the process."""
    tried = subprocess.run(
        [sys.executable, "-c", _TRY.format(dtype=dtype)], capture_output=True, text=True, check=False
    )
    return tried.returncode == 0 and tried.stdout.strip() == "64.0"


def choose_device(asked: str | None) -> str:
    """The device that was asked for, if this machine has it; by default a GPU if there is one."""
    import torch

    if asked is None:
        return "cuda" if torch.cuda.is_available() else "cpu"
    if asked.startswith("cuda") and not torch.cuda.is_available():
        raise ModelError(f"device {asked!r} is not available: torch sees no GPU; use --device cpu")
    try:
        torch.empty(0, device=asked)
    except (RuntimeError, AssertionError):
        raise ModelError(f"{asked!r} is not a device of this machine; use cpu, cuda or cuda:N") from None
    return asked
