"""Half precision, offered only where the processor really has it."""

from __future__ import annotations

import subprocess
import sys
from functools import cache

from lamina.errors import ModelError

# Big enough to take the matrix units (AMX) that some machines announce and then refuse.
_TRY = "import torch; a = torch.ones(64, 64, dtype=torch.{dtype}); print(float((a @ a)[0, 0]))"


def check_precision(dtype: str, device: str) -> None:
    """Raise a ModelError where `dtype` cannot be computed in on `device`.

    Example:
        >>> check_precision("float32", "cpu")
    """
    if dtype not in ("float32", "bfloat16", "float16"):
        raise ModelError(f"{dtype!r} is not a precision lamina runs in; use float32, bfloat16 or float16")
    if dtype != "float32" and device.startswith("cpu") and not cpu_multiplies(dtype):
        raise ModelError(f"{dtype} matrix products do not work on this machine's CPU; use float32, or a GPU")


@cache
def cpu_multiplies(dtype: str) -> bool:
    """Whether this CPU multiplies matrices in `dtype`: tried in a child process, since failing kills the process."""
    tried = subprocess.run(
        [sys.executable, "-c", _TRY.format(dtype=dtype)], capture_output=True, text=True, check=False
    )
    return tried.returncode == 0 and tried.stdout.strip() == "64.0"
