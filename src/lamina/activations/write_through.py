"""States that are encoded for one analysis alone are stored too, so that the next one need not encode their texts."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from lamina.activations.shards import HalfOverflowError
from lamina.activations.store import ActivationStore
from lamina.encoders import Activations, Encoder
from lamina.errors import ModelError
from lamina.types import Text, text_key

MOST_BYTES = 2 * 2**30
"""Most that is stored by the way: the texts of a treebank, not those of an encyclopedia."""
_SHARE = 0.25
"""Most of the free disk that is taken by the way."""

Keep = Callable[[Text, Activations], None]
"""Stores the states of a text."""


@contextmanager
def stored_too(encoder: Encoder, root: str | os.PathLike[str] | None = None) -> Iterator[Keep]:
    """A function that stores the states of texts which the store lacks, as long as they take little room.

    It never fails for want of room or of precision: then nothing more is stored, and whoever needs these texts
    encodes them again.

    Example:
        >>> import tempfile
        >>> from lamina.testing import TinyEncoder
        >>> encoder, text = TinyEncoder(), Text("a", ("Hello", "there"))
        >>> with tempfile.TemporaryDirectory() as root:
        ...     with stored_too(encoder, root) as keep:
        ...         keep(text, next(encoder.encode([text])))
        ...     list(ActivationStore.of(encoder, root).missing([text]))
        []
    """
    store = ActivationStore.of(encoder, root)
    left = min(MOST_BYTES, int(_SHARE * shutil.disk_usage(store.folder).free))
    # A value that float16 cannot hold, here or in another process: the next to ask for it widens the store.
    with suppress(HalfOverflowError), store.writing() as writer:

        def keep(text: Text, activations: Activations) -> None:
            nonlocal left
            key, states = text_key(text), activations.states
            if states is None or key in store:
                return
            left -= states.numel() * writer.dtype.itemsize
            if left >= 0:
                try:
                    writer.add(key, activations)
                except (HalfOverflowError, ModelError):
                    # Values that are no numbers are told by whoever uses them.
                    left = 0

        yield keep
