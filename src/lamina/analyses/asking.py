"""Asking a question once: an answer saved for the same inputs is read, not computed again."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lamina.analyses.probing.splits import Splits
from lamina.corpora import Corpus
from lamina.encoders import Encoder
from lamina.errors import ResultError
from lamina.results import Result, read_head, refuse_foreign, result_key

_WHERE = {"root", "device"}
"""Settings that say where things lie or run and cannot change an answer."""


def ask(
    analysis: Callable[..., Result], encoder: Encoder, corpus: Corpus | Splits, folder: Path, **settings: Any
) -> Result:
    """The result saved in `folder` where it answers exactly this; otherwise `analysis` is run and saved there."""
    taken = inspect.signature(analysis).parameters
    defaults = {
        name: parameter.default
        for name, parameter in taken.items()
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY and name not in _WHERE
    }
    asked = defaults | {name: value for name, value in settings.items() if name not in _WHERE}
    key = result_key(analysis.__name__, encoder.fingerprint, corpus.fingerprint, asked)
    # Before the work, not after it.
    refuse_foreign(folder)
    saved = _saved(folder, key)
    if saved is not None:
        return saved
    # Not every question needs stored activations.
    given = {name: value for name, value in settings.items() if name in taken or name not in _WHERE}
    result = analysis(encoder, corpus, **given)
    result.save(folder)
    return result


def _saved(folder: Path, key: str) -> Result | None:
    try:
        return Result.load(folder) if read_head(folder).get("key") == key else None
    except ResultError:
        return None
