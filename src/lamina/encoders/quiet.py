"""Loading without the log lines and progress bars of transformers and the hub."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from logging import ERROR, getLogger


@contextmanager
def quiet_transformers() -> Iterator[None]:
    """Hide progress bars and log lines below errors; restores the user's settings afterwards.

    Example:
        >>> with quiet_transformers():
        ...     pass
    """
    from huggingface_hub.utils import logging as hub
    from transformers.utils import logging

    # It warns of parts that are kept in memory or on disk, as was asked for.
    spreading = getLogger("accelerate.big_modeling")
    spreading_level = spreading.level
    spreading.setLevel(ERROR)
    verbosity, bars, hub_verbosity = logging.get_verbosity(), logging.is_progress_bar_enabled(), hub.get_verbosity()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    # No warnings about retries of an unreachable hub: the final error is enough.
    hub.set_verbosity_error()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        hub.set_verbosity(hub_verbosity)
        spreading.setLevel(spreading_level)
        if bars:
            logging.enable_progress_bar()
