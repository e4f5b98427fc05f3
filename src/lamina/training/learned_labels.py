"""Which annotation a model learns: the task's own, or any other that fits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

from lamina.corpora import Corpus
from lamina.errors import TaskError
from lamina.training.classes import CLASSES, is_class
from lamina.types import Text

LEARNED = {"classify": "label", "pairs": "label", "pos": "pos", "ner": "ner", "tag": "tag"}
"""Task -> the name of the annotation that it learns."""
_LOOKED_AT = 200
"""Texts that are looked at to find an annotation that fits."""


def with_learned_labels(corpus: Corpus, task: str, annotation: str | None) -> Corpus:
    """The corpus with the annotation to learn under the name that the task learns.

    Without a name it is the task's own annotation, or else the only one that fits: classes of whole texts, labels of
    words. Texts without it are left out, and noted.

    Example:
        >>> from lamina.corpora import corpus_from
        >>> corpus = corpus_from([("I like it", {"mood": "good"}), ("It rains", {})])
        >>> [text.edges["label"][0].labels for text in with_learned_labels(corpus, "classify", None)]
        [('good',)]
    """
    learned = LEARNED.get(task)
    if learned is None:
        if annotation is not None:
            raise TaskError(f"{task} learns no annotation, so leave --annotation out; it is for {', '.join(LEARNED)}")
        return corpus
    held = corpus.annotations
    if annotation is not None and annotation not in held:
        raise TaskError(f"{corpus.name} ({corpus.split}) has no {annotation!r}; it has {', '.join(held) or 'none'}")
    own = CLASSES if learned == "label" else {learned}
    chosen = annotation or (None if own & set(held) else _only(corpus, task))
    if chosen is None or chosen == learned:
        return corpus

    def read() -> Iterator[Text]:
        for text in corpus.source():
            if chosen in text.edges:
                others = {name: edges for name, edges in text.edges.items() if name not in (*own, chosen)}
                yield replace(text, edges={**others, learned: text.edges[chosen]})
            else:
                corpus.notes.add(f"texts without {chosen}", text.id, text.doc)

    return replace(corpus, source=read, declared=None)


def _only(corpus: Corpus, task: str) -> str | None:
    """The only annotation that fits; None where there is none, which the task itself will say."""
    if task in ("pos", "ner"):
        return None
    fits = is_class if LEARNED[task] == "label" else _is_tagged
    found: dict[str, bool] = {}
    for text in islice(iter(corpus), _LOOKED_AT):
        for name, edges in text.edges.items():
            if edges:
                found[name] = found.get(name, True) and fits(text, edges)
    names = [name for name, good in found.items() if good]
    if len(names) > 1:
        raise TaskError(f"{corpus.name} has several annotations that {task} can learn; say which: {_options(names)}")
    return names[0] if names else None


def _is_tagged(text: Text, edges: tuple) -> bool:  # noqa: ARG001 - as `is_class`
    """Whether targets are single words with one label."""
    return all(len(edge.span) == 1 and edge.other is None and len(edge.labels) == 1 for edge in edges)


def _options(names: list[str]) -> str:
    return " or ".join(f"--annotation {name}" for name in names)
