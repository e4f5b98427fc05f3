"""Every error lamina raises on purpose.

    LaminaError
    ├── InputError             what the user gave cannot be used
    │   ├── SpanError          a span that is empty, reversed or outside its text
    │   ├── CorpusError        a corpus that is unknown or lacks what is asked of it
    │   │   └── FormatError    a file that breaks its format: path, line, what was expected
    │   ├── ModelError         a model that cannot be loaded or cannot do what is asked
    │   ├── TaskError          a task that is unknown or that the corpus does not carry
    │   └── ResultError        a result folder that cannot be read or written
    ├── AssetError             an asset that cannot be had
    │   ├── OfflineError       nothing cached and no source reachable
    │   └── HashError          what was fetched is not what the card promises
    └── StoreError             the activation store cannot be written or read
        ├── DamagedShardError  a shard whose checksum does not match
        └── DiskFullError      no room left; the store itself is still good

A message says what is wrong, where, and what to do next. The command line prints it as it is,
without a traceback.

Example:
    >>> from lamina.errors import LaminaError, SpanError
    >>> issubclass(SpanError, LaminaError)
    True
"""

from __future__ import annotations


class LaminaError(Exception):
    """The root: catch this to catch everything lamina raises on purpose."""


class InputError(LaminaError):
    """What the user gave cannot be used."""


class SpanError(InputError, ValueError):
    """A span that is empty, reversed or outside its text."""


class CorpusError(InputError):
    """A corpus that is unknown or lacks what is asked of it."""


class FormatError(CorpusError):
    """A file that breaks its format."""


class ModelError(InputError):
    """A model that cannot be loaded or cannot do what is asked."""


class TaskError(InputError):
    """A task that is unknown or that the corpus does not carry."""


class ResultError(InputError):
    """A result folder that cannot be read or written."""


class AssetError(LaminaError):
    """An asset that cannot be had."""


class OfflineError(AssetError):
    """Nothing cached and no source reachable."""


class HashError(AssetError):
    """What was fetched is not what the card promises."""


class StoreError(LaminaError):
    """The activation store cannot be written or read."""


class DamagedShardError(StoreError):
    """A shard whose checksum does not match."""


class DiskFullError(StoreError):
    """No room left on the disk; what was stored before is still good."""
