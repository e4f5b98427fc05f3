"""Packages that only some commands need: each belongs to an extra, `pip install "lamina[EXTRA]"`.

Example:
    >>> from lamina.extras import EXTRAS
    >>> EXTRAS["elmo"]
    ('h5py',)
"""

from __future__ import annotations

from importlib.util import find_spec

from lamina.errors import InputError

EXTRAS: dict[str, tuple[str, ...]] = {
    "app": ("fastapi", "uvicorn"),
    "vectors": ("gensim",),
    "gguf": ("gguf",),
    "elmo": ("h5py",),
    "peft": ("peft",),
    "datasets": ("datasets",),
    "ray": ("ray",),
}
"""The packages of every extra; `all` has all of them."""
_EXTRA_OF = {package: extra for extra, packages in EXTRAS.items() for package in packages}


def require_package(package: str, purpose: str, error: type[InputError] = InputError) -> None:
    """Raise an error that names the extra if a package is not installed.

    Example:
        >>> from lamina.extras import require_package
        >>> require_package("gguf", "smollm2 is a GGUF file")  # installed: nothing happens
    """
    if not installed(package):
        raise error(
            f"{purpose}, and the package {package} is not installed: pip install 'lamina[{_EXTRA_OF[package]}]'"
        )


def installed(package: str) -> bool:
    """Whether a package can be imported; it is not."""
    try:
        return find_spec(package) is not None
    except ValueError:
        # The package was replaced by None, as tests do.
        return False
