"""Annotations under other names than those that a file gives them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TypeVar

from lamina.corpora.corpus import Corpus, fingerprint_of
from lamina.errors import CorpusError
from lamina.types import Text

Value = TypeVar("Value")
_STRUCTURE = ("sentence",)
"""Annotations that lamina adds to windows and documents; they keep their names."""


def renamed(corpus: Corpus, asked: str) -> Corpus:
    """The corpus with its annotations renamed: `NAME` for the only one it has, or `OLD=NEW,...`.

    Example:
        >>> from lamina.corpora import corpus_from
        >>> corpus = corpus_from([("I like it", {"label": "good"})])
        >>> renamed(corpus, "sentiment").annotations
        ('sentiment',)
    """
    names = _names(asked)
    if corpus.declared is not None:
        known = dict.fromkeys(corpus.declared, ())
        _refuse(known, names, corpus.name)
        declared = tuple(_new(known, names))
    else:
        declared = None
    return replace(
        corpus,
        source=lambda: _renamed(corpus.source(), names, corpus.name),
        declared=declared,
        fingerprint=fingerprint_of("annotation", corpus.fingerprint, asked),
    )


Names = Mapping[str, str] | str
"""Old name -> new name, or the new name of the only annotation."""


def _names(asked: str) -> Names:
    parts = [part.strip() for part in asked.split(",")]
    pairs = [tuple(side.strip() for side in part.split("=")) for part in parts]
    if len(pairs) == 1 and len(pairs[0]) == 1 and pairs[0][0]:
        return pairs[0][0]
    news = [pair[-1] for pair in pairs]
    if any(len(pair) != 2 or not all(pair) for pair in pairs) or len(set(news)) < len(news):
        raise CorpusError(
            f"--annotation {asked!r} cannot be read; give one NAME, or OLD=NEW for each that is to be renamed, "
            "separated by commas"
        )
    return {pair[0]: pair[1] for pair in pairs}


def _renamed(texts: Iterable[Text], names: Names, corpus: str) -> Iterator[Text]:
    seen: dict[str, tuple[()]] = {}
    for text in texts:
        if not seen.keys() >= text.edges.keys():
            seen |= dict.fromkeys(text.edges, ())
            _refuse(seen, names, corpus)
        yield replace(text, edges=_new(text.edges, names))
    if isinstance(names, str):
        missing = [] if _own(seen) else [names]
        what = f"it has no annotation that could be named {names!r}"
    else:
        missing = [old for old in names if old not in seen]
        what = f"it has no annotation {missing[0]!r}; it has {', '.join(seen) or 'none'}" if missing else ""
    if missing:
        raise CorpusError(f"{corpus}: {what}; leave --annotation out")


def _refuse(found: Mapping[str, object], names: Names, corpus: str) -> None:
    """Where one name is meant for several annotations, or is taken already."""
    own = _own(found)
    if isinstance(names, str) and len(own) > 1:
        said = f"{corpus} has {len(own)} annotations ({', '.join(own)})"
        if names in own:
            raise CorpusError(f"{said}, and {names!r} is one of them already; leave --annotation out")
        raise CorpusError(f"{said}, so which is to be named {names!r}? Say it as --annotation {own[0]}={names}")
    if not isinstance(names, str):
        taken = [new for new in names.values() if new in found and new not in names]
        if taken:
            raise CorpusError(f"{corpus} has an annotation {taken[0]!r} already; choose another name")


def _own(found: Iterable[str]) -> list[str]:
    return [name for name in found if name not in _STRUCTURE]


def _new(edges: Mapping[str, Value], names: Names) -> dict[str, Value]:
    if isinstance(names, str):
        return {name if name in _STRUCTURE else names: each for name, each in edges.items()}
    return {names.get(name, name): each for name, each in edges.items()}
