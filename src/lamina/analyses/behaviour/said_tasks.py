"""What is known and said of a hidden word: its part of speech, number, role or relation, as its annotations tell.

A task gives classes to words. Some of these words are hidden and asked for; all of them tell which class the pieces of
the vocabulary belong to, so that the mass of a class can be summed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

from lamina.types import Edge, Text

TaskName = Literal["pos", "number", "agreement", "role", "relation"]
"""In the order of tables and figures."""


class Marked(NamedTuple):
    """The class of a word."""

    label: str
    asked: bool = True
    """Whether the word can be hidden and asked for; otherwise it only counts as a form of its class."""


@dataclass(frozen=True)
class WordTask:
    """One question about hidden words."""

    name: str
    title: str
    """In a sentence."""
    needs: tuple[str, ...]
    """Annotations that the texts must have."""
    mark: Callable[[Text], Mapping[int, Marked]]
    """Word -> its class; words of no class are missing."""


_NUMBERS = {"NN": "singular", "NNS": "plural"}
_FINITE = {"VBZ": "singular", "VBP": "plural"}
_ROLES = {
    **dict.fromkeys(("nsubj", "nsubj:pass", "nsubjpass"), "subject"),
    **dict.fromkeys(("obj", "dobj", "iobj"), "object"),
}
_LEANS = ("aux", "aux:pass", "auxpass", "cop")
"""Relations of a finite verb to the word that its subject depends on."""
_NO_NUMBER = ("i", "you")
"""Subjects after which a verb's form does not tell their number."""
_FIRST_PERSON = ("am", "'m", "\N{RIGHT SINGLE QUOTATION MARK}m", "m")


def _tags(text: Text, annotation: str) -> dict[int, str]:
    """Word -> its tag, of tags of single words."""
    return {edge.span.start: edge.labels[0] for edge in text.edges.get(annotation, ()) if _is_one(edge)}


def _is_one(edge: Edge) -> bool:
    return len(edge.span) == 1 and len(edge.labels) == 1


def _pos(text: Text) -> dict[int, Marked]:
    return {word: Marked(tag) for word, tag in _tags(text, "pos").items()}


def _number(text: Text) -> dict[int, Marked]:
    """Common nouns: NN is singular, NNS plural."""
    return {word: Marked(_NUMBERS[tag]) for word, tag in _tags(text, "xpos").items() if tag in _NUMBERS}


def _agreement(text: Text) -> dict[int, Marked]:
    """Verbs in the present: VBZ goes with a singular subject, VBP with a plural one.

    Asked for where there is a subject whose number the verb's form tells, so not after I and you.
    """
    heads = {edge.span.start: (edge.labels[0], edge.other.start) for edge in text.edges["dep"] if edge.other}
    subjects = {head: word for word, (label, head) in heads.items() if _ROLES.get(label) == "subject"}
    marked = {}
    for word, tag in _tags(text, "xpos").items():
        if tag not in _FINITE or text.words[word].lower() in _FIRST_PERSON:
            continue
        label, head = heads.get(word, ("", word))
        subject = subjects.get(head if label in _LEANS else word)
        maskable = subject is not None and text.words[subject].lower() not in _NO_NUMBER
        marked[word] = Marked(_FINITE[tag], maskable)
    return marked


def _role(text: Text) -> dict[int, Marked]:
    """Personal pronouns that are a subject or an object: the English words whose form tells (he, him)."""
    pos, tags = _tags(text, "pos"), _tags(text, "xpos")
    return {
        edge.span.start: Marked(_ROLES[edge.labels[0]])
        for edge in text.edges["dep"]
        if edge.labels[0] in _ROLES and pos.get(edge.span.start) == "PRON" and tags.get(edge.span.start, "PRP") == "PRP"
    }


TREEBANK_TASKS = (
    WordTask("pos", "Part of speech", ("pos",), _pos),
    WordTask("number", "Number of nouns", ("xpos",), _number),
    WordTask("agreement", "Number of verbs", ("xpos", "dep"), _agreement),
    WordTask("role", "Role of pronouns", ("pos", "dep"), _role),
)
"""What a treebank tells."""
RELATION = "relation"
"""The annotation of hidden objects of facts, and the name of the task."""


def _relation(text: Text) -> dict[int, Marked]:
    return {edge.span.start: Marked(edge.labels[0]) for edge in text.edges.get(RELATION, ())}


RELATION_TASK = WordTask(RELATION, "Relation of a fact", (RELATION,), _relation)
TITLES = {task.name: task.title for task in (*TREEBANK_TASKS, RELATION_TASK)}
"""Task -> what figures and findings call it."""
