"""Where lamina keeps what it downloads and computes."""

from __future__ import annotations

import os
from pathlib import Path

from platformdirs import user_cache_path


def cache_dir() -> Path:
    """The folder for downloads and computed files: `LAMINA_CACHE`, or the platform's user cache folder.

    Example:
        >>> cache_dir().is_absolute()
        True
    """
    named = os.environ.get("LAMINA_CACHE")
    return Path(named).expanduser().absolute() if named else user_cache_path("lamina")
