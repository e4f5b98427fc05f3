"""From a model and a corpus to the page: ask each question, reuse what is already answered, write the report."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from lamina.errors import InputError, ResultError
from lamina.report.page import write_report
from lamina.results import Result, read_head, result_key

if TYPE_CHECKING:
    from lamina.corpora import Corpus
    from lamina.encoders import Encoder


class Question(NamedTuple):
    """One analysis of the report, with the settings that keep it quick."""

    ask: Callable[..., Result]
    """Called with the encoder, the corpus, the settings and `seed`."""
    settings: Mapping[str, Any]
    seed: int = 0


def _geometry(encoder: Encoder, corpus: Corpus, **settings: Any) -> Result:
    from lamina import analyses

    return analyses.geometry(encoder, corpus, **settings)


ANALYSES = {"geometry": Question(_geometry, {"samples": 1000, "twin": True})}
"""What a report can ask, in the order of the page."""


def choose(only: Sequence[str] | None = None) -> list[str]:
    """The analyses named, in the order of the page; all of them where none is named.

    Example:
        >>> choose(["geometry"])
        ['geometry']
        >>> choose(["geometri"])
        Traceback (most recent call last):
        lamina.errors.InputError: there is no analysis 'geometri'; known: geometry
    """
    unknown = [name for name in only or () if name not in ANALYSES]
    if unknown:
        raise InputError(f"there is no analysis {', '.join(map(repr, unknown))}; known: {', '.join(ANALYSES)}")
    return [name for name in ANALYSES if not only or name in only]


def make_report(
    encoder: Encoder, corpus: Corpus, out: str | os.PathLike[str], *, only: Sequence[str] | None = None
) -> Path:
    """Answer every question (or `only` some), keep the answers in `out/results`, write `out/index.html`.

    An answer already kept for the same model, corpus and settings is reused.

    Example:
        >>> encoder, corpus = lamina.load_encoder("minilm"), lamina.load_corpus("ewt")  # doctest: +SKIP
        >>> make_report(encoder, corpus, "report")  # doctest: +SKIP
        PosixPath('report/index.html')
    """
    results = [_answer(name, encoder, corpus, Path(out)) for name in choose(only)]
    return write_report(results, out, title=f"{encoder.name} on {corpus.name} ({corpus.split})")


def kept(name: str, encoder: Encoder, corpus: Corpus, out: Path) -> bool:
    """Whether `out` already holds this answer, for these inputs and settings."""
    question = ANALYSES[name]
    key = result_key(name, encoder.fingerprint, corpus.fingerprint, question.settings, (question.seed,))
    try:
        return read_head(_folder(name, out))["key"] == key
    except ResultError:
        return False


def _answer(name: str, encoder: Encoder, corpus: Corpus, out: Path) -> Result:
    folder = _folder(name, out)
    if kept(name, encoder, corpus, out):
        return Result.load(folder)
    question = ANALYSES[name]
    result = question.ask(encoder, corpus, seed=question.seed, **question.settings)
    result.save(folder)
    return result


def _folder(name: str, out: Path) -> Path:
    return out / "results" / name
