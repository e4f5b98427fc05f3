"""Asking a question once: an answer saved for the same inputs is read, not computed again."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lamina.corpora import Corpus
from lamina.encoders import Encoder
from lamina.errors import ResultError
from lamina.results import Result, read_head, result_key

_WHERE = {"root"}
"""Settings that say where things lie and cannot change an answer."""


def ask(analysis: Callable[..., Result], encoder: Encoder, corpus: Corpus, folder: Path, **settings: Any) -> Result:
    """The result saved in `folder` where it answers exactly this; otherwise `analysis` is run and saved there."""
    defaults = {
        name: parameter.default
        for name, parameter in inspect.signature(analysis).parameters.items()
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY and name not in _WHERE
    }
    asked = defaults | {name: value for name, value in settings.items() if name not in _WHERE}
    seeds = (asked["seed"],) if "seed" in asked else ()
    key = result_key(analysis.__name__, encoder.fingerprint, corpus.fingerprint, asked, seeds)
    if _saved_key(folder) == key:
        return Result.load(folder)
    result = analysis(encoder, corpus, **settings)
    result.save(folder)
    return result


def _saved_key(folder: Path) -> str | None:
    try:
        return read_head(folder)["key"]
    except ResultError:
        return None
