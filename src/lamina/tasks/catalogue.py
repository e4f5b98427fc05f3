"""The tasks, readable at a glance. Adding one is adding an entry.

Scoring, everywhere: every target is one yes/no decision a label (always multi-label), and the score is micro-F1 over
the decisions about scored labels; decisions about labels that annotators did not rate are left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from difflib import get_close_matches

from lamina.corpora.catalogue import CATALOGUE
from lamina.errors import TaskError
from lamina.tasks.mentions import NEAREST, mention_pairs, too_far, window_pairs
from lamina.tasks.task import Task
from lamina.types import Edge

_ALL = "micro-F1 over all labels"
_MACRO = "macro-F1 over all labels"
# PropBank's ARG0 and CoNLL-2005's A0 are kept as annotated; C-ARG0 and R-ARG0 are not roles of their own.
_ROLE = re.compile(r"(?:ARG|A)(?:[0-5A]|M-.+)")
_FUNCTION = re.compile(r"[-=|].*")


def phrase(label: str) -> str:
    """A constituent's label without function tags, indices and alternatives; bracket labels like -LRB- stay.

    Example:
        >>> phrase("NP-SBJ-1"), phrase("NP=2"), phrase("ADVP|PRT"), phrase("-LRB-")
        ('NP', 'NP', 'ADVP', '-LRB-')
    """
    return label if label[:1] in "-=|" else _FUNCTION.sub("", label)


def core_role(label: str) -> str | None:
    """A semantic role that is scored (ARG0-5, ARGA, ARGM-*), or None.

    Example:
        >>> core_role("ARG0"), core_role("ARGM-TMP"), core_role("C-ARG1"), core_role("R-ARG0")
        ('ARG0', 'ARGM-TMP', None, None)
    """
    return label if _ROLE.fullmatch(label) else None


def is_no_root(edge: Edge) -> bool:
    """Whether a dependency is one between two words; the root is annotated as an edge of a word to itself."""
    return edge.span != edge.other


_DEP = Task(
    "dep",
    "Dependencies",
    "dep",
    2,
    f"{_ALL}, the root left out",
    "the relation of a word to its head",
    keep=is_no_root,
)
TASKS = (
    Task("pos", "Part of speech", "pos", 1, _ALL, "the tag of a word"),
    Task(
        "const",
        "Constituents",
        "const",
        1,
        f"{_ALL}, function tags and indices cut",
        "the label of a phrase",
        normalise=phrase,
    ),
    _DEP,
    Task("ner", "Entities", "ner", 1, _ALL, "the type of a named entity"),
    Task(
        "srl",
        "Semantic roles",
        "srl",
        2,
        "micro-F1 over ARG0-5, ARGA and ARGM-*",
        "the role of an argument of a predicate",
        normalise=core_role,
    ),
    Task(
        "coref",
        "Coreference",
        "coref",
        2,
        "F1 of label 1",
        "whether two mentions of one sentence mean the same",
        unscored=frozenset({"0"}),
        fallback="chains",
        source=mention_pairs,
    ),
    Task(
        "coref_window",
        "Coreference in windows",
        "chains",
        2,
        "F1 of label 1",
        f"whether two mentions of one window mean the same, each with the {NEAREST} before it",
        unscored=frozenset({"0"}),
        needs=frozenset({"sentence"}),
        source=window_pairs,
        left_out=too_far,
    ),
    Task(
        "spr",
        "Semantic proto-roles",
        "spr",
        2,
        "micro-F1 over the rated properties",
        "the properties of an argument of a predicate (several may hold)",
    ),
    Task(
        "rel",
        "Relations",
        "rel",
        2,
        "micro-F1 over all labels but Other",
        "the relation of two nominals",
        unscored=frozenset({"Other"}),
    ),
    Task("supersense", "Noun supersenses", "supersense", 1, _ALL, "the semantic classes of a noun in its context"),
    Task("ques", "Question type", "ques", 1, _MACRO, "the kind of answer a question asks for", average="macro"),
    Task("sup", "Supporting facts", "sup", 2, _MACRO, "whether a sentence supports the answer", average="macro"),
)
"""In the order of the classical pipeline, then those of questions. Only windows and documents carry `coref_window`:
they know sentences."""

_FAITHFUL = {"dep": replace(_DEP, metric=f"{_ALL}, the root kept (faithful)", keep=None)}
"""What the original edge-probing work did otherwise."""


def get_task(name: str, *, faithful: bool = False) -> Task:
    """The task of this name; `faithful` as the original work had it (`dep` keeps the root), where that differs.

    Example:
        >>> get_task("coref").metric
        'F1 of label 1'
        >>> get_task("dep", faithful=True).metric
        'micro-F1 over all labels, the root kept (faithful)'
    """
    for task in TASKS:
        if task.name == name:
            return _FAITHFUL.get(name, task) if faithful else task
    known = [task.name for task in TASKS]
    close = get_close_matches(name, known, n=1, cutoff=0.5)
    meant = f"did you mean {close[0]}? " if close else ""
    raise TaskError(f"unknown task {name!r}; {meant}known tasks: {', '.join(known)}")


def tasks_of(annotations: Iterable[str]) -> tuple[Task, ...]:
    """The tasks that texts with these annotations carry.

    Example:
        >>> [task.name for task in tasks_of(["chains", "pos", "xpos"])]
        ['pos', 'coref']
    """
    held = set(annotations)
    return tuple(task for task in TASKS if task.available(held))


def corpora_of(task: Task) -> tuple[str, ...]:
    """The corpora known by name that carry a task, in sentences or in windows.

    Example:
        >>> "gum_open" in corpora_of(get_task("coref"))
        True
    """
    return tuple(entry.name for entry in CATALOGUE if task.available((*entry.annotations, "sentence")))
