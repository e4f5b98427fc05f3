"""Training that was stopped goes on where it last was validated; what comes out is the same to the last bit."""

from __future__ import annotations

import time
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

SECONDS = 60.0
"""Between two savings: what a kill loses at most. State is large (five times the weights), so not every validation."""
_STEP = "step"


class Checkpoint:
    """A file that holds the state of training; written at validations, now and then."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._saved = time.monotonic()

    def offer(self, step: int, state: dict[str, Tensor]) -> None:
        """Take the state after a step, unless one was taken a moment ago."""
        if time.monotonic() - self._saved < SECONDS:
            return
        fresh = self._path.with_suffix(".tmp")
        save_file({name: value.detach().cpu().contiguous() for name, value in state.items()}, fresh, {_STEP: str(step)})
        fresh.replace(self._path)
        self._saved = time.monotonic()

    def restore(self, state: dict[str, Tensor]) -> int:
        """Put what was saved into these tensors; the step it was saved after, 0 where there is nothing that fits."""
        try:
            with safe_open(self._path, framework="pt") as file:
                step = int((file.metadata() or {})[_STEP])
                saved = {name: file.get_tensor(name) for name in state}
        except (OSError, LookupError, ValueError, SafetensorError):
            return 0
        if any(saved[name].shape != value.shape for name, value in state.items()):
            # Left by another device, which groups probes otherwise.
            return 0
        with torch.no_grad():
            for name, value in state.items():
                value.copy_(saved[name])
        return step
