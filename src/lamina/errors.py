"""Every error lamina raises on purpose.

    LaminaError
    ├── InputError             the user's input cannot be used
    │   ├── SpanError          a span that is empty, reversed or outside its text
    │   ├── CorpusError        a corpus that is unknown or lacks what was requested
    │   │   └── FormatError    a file that breaks its format: path, line, what was expected
    │   ├── ModelError         a model that cannot be loaded or cannot do what was requested
    │   ├── RoomError          what was asked for does not fit the card, the memory or the disk
    │   ├── TaskError          a task that is unknown or not in the corpus
    │   └── ResultError        a result folder that cannot be read or written
    ├── AssetError             an asset that is unknown or cannot be fetched
    │   ├── OfflineError       nothing cached and no source reachable
    │   └── HashError          a download whose hash does not match the card
    ├── WriteError             a file or folder that cannot be written
    │   └── DiskFullError      no disk space left; everything written before is still valid
    ├── DamagedError           a file that lamina keeps and that no longer matches its checksum
    │   └── DamagedShardError  a shard of the activation store
    └── StoreError             the activation store cannot be written or read

A message says what is wrong, where, and what to do next. The command line prints it as it is,
without a traceback.

Example:
    >>> from lamina.errors import LaminaError, SpanError
    >>> issubclass(SpanError, LaminaError)
    True
"""

from __future__ import annotations


class LaminaError(Exception):
    """The base class: catch this to catch everything lamina raises on purpose."""

    def _render_traceback_(self) -> list[str]:
        """What a notebook shows: the message, as on the command line."""
        return [f"{type(self).__name__}: {self}"]


class InputError(LaminaError):
    """The user's input cannot be used."""


class SpanError(InputError, ValueError):
    """A span that is empty, reversed or outside its text."""


class CorpusError(InputError):
    """A corpus that is unknown or lacks what was requested."""


class FormatError(CorpusError):
    """A file that breaks its format."""


class ModelError(InputError):
    """A model that cannot be loaded or cannot do what was requested."""


class RoomError(InputError):
    """What was asked for does not fit the card, the memory or the disk; said before the work begins."""


class TaskError(InputError):
    """A task that is unknown or not in the corpus."""


class ResultError(InputError):
    """A result folder that cannot be read or written."""


class AssetError(LaminaError):
    """An asset that is unknown or cannot be fetched."""


class OfflineError(AssetError):
    """Nothing cached and no source reachable."""


class HashError(AssetError):
    """A download whose hash does not match the card."""


class StoreError(LaminaError):
    """The activation store cannot be written or read."""


class WriteError(LaminaError):
    """A file or folder that cannot be written."""


class DiskFullError(WriteError, StoreError):
    """No disk space left; everything written before is still valid."""


class DamagedError(LaminaError):
    """A file that lamina keeps and that no longer matches its checksum."""


class DamagedShardError(DamagedError, StoreError):
    """A shard whose checksum does not match."""
