"""Keeping transformers and the hub's library from talking over lamina's own progress and errors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def quiet_transformers() -> Iterator[None]:
    """No progress bars and no log lines below errors; afterwards all is as the user had set it.

    Example:
        >>> with quiet_transformers():
        ...     pass
    """
    from huggingface_hub.utils import logging as hub
    from transformers.utils import logging

    verbosity, bars, hub_verbosity = logging.get_verbosity(), logging.is_progress_bar_enabled(), hub.get_verbosity()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    # Retries of an unreachable hub: the error that follows says it all.
    hub.set_verbosity_error()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        hub.set_verbosity(hub_verbosity)
        if bars:
            logging.enable_progress_bar()
