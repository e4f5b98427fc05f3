"""Asking a question once: an answer saved for the same inputs is read, not computed again."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from lamina.analyses.probing.splits import Splits
from lamina.corpora import Corpus
from lamina.corpora.hashing import contents_sha256
from lamina.encoders import Encoder
from lamina.errors import ResultError
from lamina.results import Result, read_head, refuse_foreign, result_key

_WHERE = {"root", "device"}
"""Settings that say where things lie or run and cannot change an answer."""
_FILES = ("finetuned", "vectors")
"""Settings that may name files: what is in them counts, not only what they are called."""


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
    contents = _contents(asked)
    key = result_key(analysis.__name__, encoder.fingerprint, corpus.fingerprint, asked | contents)
    # Before the work, not after it.
    refuse_foreign(folder)
    saved = _saved(folder, key)
    if saved is not None:
        return saved
    # Not every question needs stored activations.
    given = {name: value for name, value in settings.items() if name in taken or name not in _WHERE}
    result = analysis(encoder, corpus, **given)
    about = result.provenance
    result = replace(result, provenance=replace(about, parameters={**about.parameters, **contents}))
    result.save(folder)
    return result


def _contents(asked: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """Hashes of the files that settings name; nothing where they name none."""
    named = [name for setting in _FILES for name in _listed(asked.get(setting))]
    found = {name: contents_sha256(Path(name)) for name in named if Path(name).exists()}
    return {"contents": found} if found else {}


def _listed(value: str | Sequence[str] | None) -> Sequence[str]:
    return [value] if isinstance(value, str) else value or ()


def _saved(folder: Path, key: str) -> Result | None:
    try:
        return Result.load(folder) if read_head(folder).get("key") == key else None
    except ResultError:
        return None
