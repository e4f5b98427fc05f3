"""End a process together with the one that started it, even if that one was killed.

The starter holds one end of a pipe and never writes to it. When the starter is gone, even killed, the system closes its
end, and the other one is at its end of file.
"""

from __future__ import annotations

import os
import signal
import time
from threading import Thread

VARIABLE = "LAMINA_LIFELINE"
"""Environment variable: the number of the pipe's file descriptor in the started process."""
AVAILABLE = os.name == "posix"
"""Whether a file descriptor can be given to a started process."""

_PATIENCE = 5.0
"""Seconds to end in an orderly way."""


def follow_starter() -> None:
    """End this process, as SIGTERM would, when the process that started it is gone; does nothing without a lifeline."""
    descriptor = os.environ.pop(VARIABLE, "")
    if AVAILABLE and descriptor.isdecimal():
        Thread(target=_watch, args=(int(descriptor),), name="lifeline", daemon=True).start()


def _watch(descriptor: int) -> None:
    while os.read(descriptor, 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(_PATIENCE)
    os._exit(128 + signal.SIGTERM)
