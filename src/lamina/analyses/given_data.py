"""The data that an analysis reads: by name, by path, or in memory."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lamina.analyses.models import kind_of
from lamina.errors import CorpusError, InputError

if TYPE_CHECKING:
    from lamina.corpora import Corpus
    from lamina.corpora.learning import Splits
    from lamina.corpora.question_sets import Questions
    from lamina.corpora.views import View
    from lamina.results import Result

SCORED = "scored"
"""In place of a split of questions: the one that fine-tuning scores."""
_AS_READ = ("unit", "format", "annotation", "limit", "view")
"""Options of data given by name or path: how it is read."""


def as_corpus(data: Any, options: Mapping[str, Any], split: str = "dev") -> Corpus:
    """Texts out of a name, a path, a corpus, (train, dev), splits by name, or a table."""
    from lamina.corpora import Corpus, corpus_from, load_corpus
    from lamina.corpora.learning import Splits

    asked = {name: options[name] for name in ("split", *_AS_READ) if name in options}
    if isinstance(data, str | Path):
        return load_corpus(data, **{"split": split, **asked})
    if isinstance(data, Splits):
        found = data.train if asked.get("split") == "train" else data.scored
    elif isinstance(data, Corpus):
        found = data
    elif _is_pair(data):
        found = as_splits(data, options).scored
    elif isinstance(data, Mapping):
        found = as_part(data, str(asked.get("split", split)))
    elif _is_table(data):
        found = corpus_from(data, name="data", split=str(asked.get("split", split)))
    else:
        raise InputError(
            "data is a name, a path, a Corpus, (train, dev), a dict of splits, a datasets.DatasetDict, or a list of "
            f"texts; got {kind_of(data)}"
        )
    limit = asked.get("limit")
    return found if limit is None else found.take(limit)


def as_splits(data: Any, options: Mapping[str, Any]) -> Splits:
    """Texts to learn from and texts to score; where only one set is given, it is split by document."""
    from lamina.corpora import Corpus
    from lamina.corpora.learning import Splits, load_splits, split_by_document

    asked = {name: options[name] for name in _AS_READ if name in options}
    scored = str(options.get("split", "dev"))
    if isinstance(data, Splits):
        return data
    if isinstance(data, str | Path):
        return load_splits(data, scored, **asked)
    if _is_pair(data):
        return Splits(*(_as_part(part, name) for part, name in zip(data, ("train", scored), strict=True)))
    if isinstance(data, Mapping) and any(name in data for name in ("train", "training")):
        return Splits(as_part(data, "train"), as_part(data, scored))
    corpus = data if isinstance(data, Corpus) else as_corpus(data, options, scored)
    return split_by_document(corpus, scored)


def as_questions(data: Any, options: Mapping[str, Any], view: View | None = None) -> Questions:
    """Questions out of a name, a path, or a set of questions; those that are named are shown in a view."""
    from lamina.corpora.loading import scored_split
    from lamina.corpora.question_sets import Questions, load_questions

    if isinstance(data, Questions):
        return data
    if not isinstance(data, str | Path):
        raise InputError(f"questions are a name, a path or what load_questions gives; got {kind_of(data)}")
    split = options["split"]
    if split == SCORED:
        split = scored_split(data, options["format"])
    return load_questions(data, split, format=options["format"], limit=options["limit"], view=view)


def as_result(given: Any) -> Result:
    """A result out of a folder or a result."""
    from lamina.results import Result

    if isinstance(given, Result):
        return given
    if not isinstance(given, str | Path):
        raise InputError(f"a result is a folder or what an analysis returned; got {kind_of(given)}")
    return Result.load(given)


_SYNONYMS = {"dev": ("dev", "validation", "valid", "val"), "train": ("train", "training")}


def as_part(data: Mapping[str, Any], split: str) -> Corpus:
    """One split of data that is given by split; a missing one is an error."""
    if split == "all" and len(data) == 1:
        return _as_part(next(iter(data.values())), "all")
    for name in _SYNONYMS.get(split, (split,)):
        if name in data:
            return _as_part(data[name], split)
    raise CorpusError(f"there is no split {split!r} in what was given; it has: {', '.join(map(str, data)) or 'none'}")


def _as_part(data: Any, split: str) -> Corpus:
    from lamina.corpora import Corpus, corpus_from

    if isinstance(data, Corpus):
        return data
    if not _is_table(data):
        raise InputError(f"a split is a Corpus, a datasets.Dataset, a table or a list of texts; got {kind_of(data)}")
    return corpus_from(data, name="data", split=split)


def _is_pair(data: Any) -> bool:
    """Whether it is (train, dev): two sets of texts, not two texts."""
    return isinstance(data, tuple) and len(data) == 2 and all(_is_texts(each) for each in data)


def _is_texts(data: Any) -> bool:
    from lamina.corpora import Corpus

    if isinstance(data, Corpus) or hasattr(data, "columns") or hasattr(data, "column_names"):
        return True
    return isinstance(data, list) and bool(data) and not isinstance(data[0], str)


def _is_table(data: Any) -> bool:
    return isinstance(data, list | tuple) or hasattr(data, "columns") or hasattr(data, "column_names")
