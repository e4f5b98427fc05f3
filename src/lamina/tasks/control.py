"""Control tasks: labels that say nothing about language, so that only memory can learn them.

Every key (a word type; for spans and pairs the words of the spans, as written) has labels of its own, drawn at random
but always the same for a seed, whatever the order of texts. What is drawn is the whole label tuple of a random training
target, so that a control target has as many labels as the task's own. Where annotators rated some labels only, the draw
is from training targets with the same rated labels.
"""

from __future__ import annotations

import hashlib
import json
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import accumulate
from typing import NamedTuple

from lamina.errors import TaskError
from lamina.tasks.task import Task, as_annotated
from lamina.types import Edge, Text

Labels = tuple[str, ...]


def target_key(text: Text, edge: Edge) -> str:
    """What a control label depends on: the words of the target's spans.

    Example:
        >>> from lamina.types import Span
        >>> target_key(Text("s1", ("New", "York", "sleeps")), Edge((), Span(0, 2), Span(2, 3)))
        '[["New", "York"], ["sleeps"]]'
    """
    spans = [edge.span] if edge.other is None else [edge.span, edge.other]
    return json.dumps([text.words[span.start : span.end] for span in spans], ensure_ascii=False)


class _Pool(NamedTuple):
    """Label tuples seen in training, with running counts to draw from."""

    options: tuple[Labels, ...]
    running: tuple[int, ...]

    @classmethod
    def of(cls, counts: Counter[Labels]) -> _Pool:
        options = tuple(sorted(counts))
        return cls(options, tuple(accumulate(counts[option] for option in options)))

    def draw(self, chance: int) -> Labels:
        """The option that a number below 2**64 falls on."""
        return self.options[bisect_right(self.running, chance * self.running[-1] >> 64)]


def control_labels(task: Task, texts: Iterable[Text], seed: int) -> Callable[[Text, Edge], Labels]:
    """A function from a target to its random labels, drawn from the label distribution of `texts` (the training set).

    Example:
        >>> from lamina.tasks.catalogue import get_task
        >>> from lamina.types import Span
        >>> text = Text("s1", ("dogs", "dogs"), edges={"pos": (Edge(("X",), Span(0, 1)), Edge(("Y",), Span(1, 2)))})
        >>> labels = control_labels(get_task("pos"), [text], seed=0)
        >>> first, second = (labels(text, edge) for edge in text.edges["pos"])
        >>> first == second
        True
    """
    counts: dict[Labels | None, Counter[Labels]] = {}
    for text in texts:
        for edge in task.targets(text):
            counts.setdefault(edge.rated, Counter())[edge.labels] += 1
    if not counts:
        raise TaskError(f"{task.name}: no target to draw control labels from; the training texts do not carry the task")
    pools = {rated: _Pool.of(held) for rated, held in counts.items()}
    together = _Pool.of(sum(counts.values(), Counter()))

    def labels_of(text: Text, edge: Edge) -> Labels:
        drawn = pools.get(edge.rated, together).draw(_chance(seed, target_key(text, edge)))
        return drawn if edge.rated is None else tuple(label for label in drawn if label in edge.rated)

    return labels_of


def control_task(task: Task, texts: Iterable[Text], seed: int) -> Task:
    """The task with the same targets, metric and masks, but control labels drawn from `texts` (the training set)."""
    labels_of = control_labels(task, texts, seed)

    def relabelled(text: Text) -> tuple[Edge, ...]:
        return tuple(replace(edge, labels=labels_of(text, edge)) for edge in task.targets(text))

    name, title = f"{task.name} (control)", f"{task.title} (control)"
    return replace(task, name=name, title=title, normalise=as_annotated, keep=None, source=relabelled)


class Seen(NamedTuple):
    """How much of what is scored was seen in training: a control probe can know nothing of the rest."""

    targets: float
    """Share of scored targets whose key occurs in training."""
    keys: float
    """Share of scored keys, each counted once, that occur in training."""


def share_seen(task: Task, train: Iterable[Text], scored: Iterable[Text]) -> Seen:
    """The share of scored targets and keys that training has seen.

    Example:
        >>> from lamina.tasks.catalogue import get_task
        >>> from lamina.types import Span
        >>> def tagged(*words):
        ...     return Text("s", words, edges={"pos": tuple(Edge(("X",), Span(i, i + 1)) for i in range(len(words)))})
        >>> share_seen(get_task("pos"), [tagged("a", "b")], [tagged("a", "a", "c", "c")])
        Seen(targets=0.5, keys=0.5)
    """
    known = {target_key(text, edge) for text in train for edge in task.targets(text)}
    asked = Counter(target_key(text, edge) for text in scored for edge in task.targets(text))
    if not asked:
        raise TaskError(f"{task.name}: nothing to score; the texts do not carry the task")
    hits = sum(count for key, count in asked.items() if key in known)
    return Seen(hits / asked.total(), len(asked.keys() & known) / len(asked))


def _chance(seed: int, key: str) -> int:
    """A number below 2**64 that depends on nothing but seed and key."""
    return int.from_bytes(hashlib.blake2b(f"{seed}\x00{key}".encode(), digest_size=8).digest())
