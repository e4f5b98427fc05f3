"""From a model and a corpus to the page: ask each question, reuse what is already answered, write the report."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lamina.errors import InputError
from lamina.report.page import write_report

if TYPE_CHECKING:
    from lamina.corpora import Corpus
    from lamina.encoders import Encoder

ANALYSES: dict[str, Mapping[str, Any]] = {"geometry": {"samples": 1000}}
"""What a report asks, in the order of the page: a function of `lamina.analyses` -> the settings that keep it quick."""


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
    encoder: Encoder,
    corpus: Corpus,
    out: str | os.PathLike[str],
    *,
    only: Sequence[str] | None = None,
    root: str | os.PathLike[str] | None = None,
) -> Path:
    """Answer every question, keep the answers in `out/results`, write `out/index.html` and return its path.

    An answer already kept for the same model, corpus and settings is reused.

    Args:
        encoder: who is asked.
        corpus: on which texts.
        out: the folder to write.
        only: the analyses wanted, by name; all by default.
        root: where activations are stored.

    Example:
        >>> encoder, corpus = lamina.load_encoder("minilm"), lamina.load_corpus("ewt")  # doctest: +SKIP
        >>> make_report(encoder, corpus, "report")  # doctest: +SKIP
        PosixPath('report/index.html')
    """
    from lamina import analyses

    results = [
        analyses.ask(
            getattr(analyses, name), encoder, corpus, Path(out) / "results" / name, root=root, **ANALYSES[name]
        )
        for name in choose(only)
    ]
    return write_report(results, out, title=f"{encoder.name} on {corpus.name} ({corpus.split})")
