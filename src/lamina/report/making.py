"""From a model and a corpus to the page: ask each question, reuse what is already answered, write the report."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lamina.errors import CorpusError, InputError, ModelError, TaskError
from lamina.report.page import write_report
from lamina.report.wording import section_of

if TYPE_CHECKING:
    from lamina.analyses.probing.splits import Splits
    from lamina.corpora import Corpus
    from lamina.encoders import Encoder
    from lamina.results import Result

ANALYSES: dict[str, Mapping[str, Any]] = {
    "geometry": {"samples": 1000},
    "probe": {"preset": "quick"},
    "attention": {"segments": 1000},
    "heads": {"samples": 500},
    "headmap": {"samples": 200},
    "contextualize": {"preset": "quick", "context_sizes": (0, 4)},
    "neighbours": {"count": 10},
    "questions": {"samples": 300, "clustered": 40},
}
"""What a report asks, in the order of the page: a function of `lamina.analyses` -> the settings that keep it quick.

`questions` is a chapter of its own: a small fine-tuning, one question as a map of tokens, the phases over many.
"""

FIRST = next(iter(ANALYSES))
"""Asked of any model and any corpus: where it cannot be answered, there is nothing to report."""

LEARNING = frozenset({"probe"})
"""Those that learn from training texts before they score."""

WITHIN_TRAINING = frozenset({"contextualize", "neighbours"})
"""Those that need many words, and split them by themselves: asked of the training texts where there are any."""

MOST_TRAINING = 8000
"""Training texts that they are asked of: enough words for every class, within the report's time."""


def choose(only: Sequence[str] | None = None) -> list[str]:
    """The analyses named, in the order of the page; all of them where none is named.

    Example:
        >>> choose(["geometry"])
        ['geometry']
        >>> choose(["geometri"])
        Traceback (most recent call last):
        lamina.errors.InputError: there is no analysis 'geometri'; known: geometry, probe, attention, heads, headmap, \
contextualize, neighbours, questions
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
    train: Corpus | None = None,
    only: Sequence[str] | None = None,
    root: str | os.PathLike[str] | None = None,
) -> Path:
    """Answer every question, keep the answers in `out/results`, write `out/index.html` and return its path.

    An answer already kept for the same model, corpus and settings is reused. A question that the model or the corpus
    cannot answer is left out, and the page says so; asked for by name, it is an error.

    Args:
        encoder: who is asked.
        corpus: on which texts.
        out: the folder to write.
        train: texts to learn from, apart from those of `corpus`; needed for probing.
        only: the analyses wanted, by name; all by default.
        root: where activations are stored.

    Example:
        >>> encoder, corpus = lamina.load_encoder("minilm"), lamina.load_corpus("ewt")  # doctest: +SKIP
        >>> make_report(encoder, corpus, "report", train=lamina.load_corpus("ewt", "train"))  # doctest: +SKIP
        PosixPath('report/index.html')
    """
    made: list[tuple[Path, Result]] = []
    notes = []
    for name in choose(only):
        try:
            made += _answers(name, encoder, corpus, train, Path(out) / "results", root)
        except (CorpusError, ModelError, TaskError) as error:
            if only or name == FIRST:
                raise
            notes.append(f"{section_of(name).title} is left out: {error}.")
    title = f"{encoder.name} on {corpus.name} ({corpus.split})"
    folders, results = zip(*made, strict=True)
    return write_report(results, out, title=title, notes=notes, folders=folders)


def _answers(
    name: str,
    encoder: Encoder,
    corpus: Corpus,
    train: Corpus | None,
    folder: Path,
    root: str | os.PathLike[str] | None,
) -> list[tuple[Path, Result]]:
    """The results of one analysis, with where they are saved."""
    from lamina import analyses
    from lamina.report.answering import answer_questions

    if name == "questions":
        return answer_questions(encoder, folder, **ANALYSES[name])
    texts = _splits(corpus, train) if name in LEARNING else corpus
    if name in WITHIN_TRAINING and train is not None:
        texts = train.take(MOST_TRAINING)
    result = analyses.ask(getattr(analyses, name), encoder, texts, folder / name, root=root, **ANALYSES[name])
    return [(folder / name, result)]


def _splits(corpus: Corpus, train: Corpus | None) -> Splits:
    from lamina.analyses.probing.splits import Splits

    if train is None:
        raise CorpusError(f"{corpus.name} has no training texts apart from those of its split {corpus.split!r}")
    return Splits(train, corpus)
