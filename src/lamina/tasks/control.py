"""Control tasks: random labels, which a probe can only memorise.

Every key (a word type; for spans and pairs the words of the spans, as written) gets its own labels, drawn at random but
always the same for a seed, in any order of texts. The draw is the whole label tuple of a random training target, so
that a control target has as many labels as one of the task. If annotators rated only some labels, the draw is from
training targets with the same rated labels.
"""

from __future__ import annotations

import hashlib
import json
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from itertools import accumulate
from typing import NamedTuple

from lamina.errors import TaskError
from lamina.tasks.task import Task, as_annotated
from lamina.types import Edge, Text


class _LabelCounts(NamedTuple):
    """The counts needed to score a constant answer."""

    holding: Counter[str]
    """Scored label -> number of targets that have it."""
    rated: Counter[str]
    """Label -> number of targets where it was rated, apart from `everywhere`."""
    everywhere: int
    """Number of targets where every label was rated."""

    def decided(self, label: str) -> int:
        """Number of scored decisions about a label."""
        return self.rated[label] + self.everywhere

    def macro_f1(self, answer: Collection[str]) -> float:
        """Macro-F1 of answering these labels for every target: the mean over labels that some target has."""
        scores = [2 * n / (n + self.decided(label)) if label in answer else 0.0 for label, n in self.holding.items()]
        return sum(scores) / len(scores) if scores else 0.0

    def f1(self, answer: Collection[str]) -> float:
        """Micro-F1 of answering these labels for every target."""
        right = sum(self.holding[label] for label in answer)
        answered = sum(self.decided(label) for label in answer)
        total = self.holding.total() + answered
        return 2 * right / total if total else 0.0


def best_constant(task: Task, texts: Iterable[Text]) -> tuple[str, ...]:
    """The set of labels that, answered for every target, scores best on these texts; sorted.

    For macro-F1 that is all of them, since each label is scored separately. For micro-F1:

    The majority label would score 0 if the metric leaves it out, and two labels can score more if labels overlap. The
    best set is a prefix of the labels sorted by how often they hold where they are rated. With n the number of targets
    that have a label, r the number where it is rated and G the number of all gold labels, a set S scores
    2 sum(n) / (sum(r) + G). If F is the best score, S is best exactly if it maximises sum(2 n - F r) over its labels:
    it includes every label with n / r > F / 2, none with n / r < F / 2, and any with equality.

    Example:
        >>> from lamina.tasks.catalogue import get_task
        >>> from lamina.types import Edge, Span
        >>> tags = ("NOUN", "VERB", "NOUN")
        >>> edges = tuple(Edge((tag,), Span(place, place + 1)) for place, tag in enumerate(tags))
        >>> best_constant(get_task("pos"), [Text("s1", ("dogs", "see", "cats"), edges={"pos": edges})])
        ('NOUN',)
    """
    counts = _count(task, texts)
    if task.average == "macro":
        return tuple(sorted(counts.holding))
    order = sorted(counts.holding, key=lambda label: (-counts.holding[label] / counts.decided(label), label))
    prefixes = [order[:size] for size in range(len(order) + 1)]
    return tuple(sorted(max(prefixes, key=counts.f1)))


def score_constant(task: Task, answer: Collection[str], texts: Iterable[Text]) -> float:
    """The score of answering these labels for every target of these texts."""
    counts, scored_answer = _count(task, texts), task.scored(tuple(answer))
    return counts.macro_f1(scored_answer) if task.average == "macro" else counts.f1(scored_answer)


def constant_baseline(task: Task, train: Iterable[Text], scored: Iterable[Text]) -> float:
    """The score, on the scored texts, of the constant answer that is best on the training texts."""
    return score_constant(task, best_constant(task, train), scored)


def _count(task: Task, texts: Iterable[Text]) -> _LabelCounts:
    holding: Counter[str] = Counter()
    rated: Counter[str] = Counter()
    everywhere = 0
    for text in texts:
        for edge in task.targets(text):
            if edge.rated is None:
                everywhere += 1
                holding.update(task.scored(edge.labels))
            else:
                rated.update(task.scored(edge.rated))
                holding.update(task.scored(label for label in edge.labels if label in edge.rated))
    return _LabelCounts(holding, rated, everywhere)


Labels = tuple[str, ...]

MIN_SEEN = 0.25
"""Share of scored targets whose key occurs in training, below which a control task says nothing: there is too little
that a probe could remember."""


def target_key(text: Text, edge: Edge) -> str:
    """The key of a control label: the words of the target's spans.

    Example:
        >>> from lamina.types import Span
        >>> target_key(Text("s1", ("New", "York", "sleeps")), Edge((), Span(0, 2), Span(2, 3)))
        '[["New", "York"], ["sleeps"]]'
    """
    spans = [edge.span] if edge.other is None else [edge.span, edge.other]
    return json.dumps([text.words[span.start : span.end] for span in spans], ensure_ascii=False)


class _LabelPool(NamedTuple):
    """Label tuples seen in training, with running counts to draw from."""

    options: tuple[Labels, ...]
    running: tuple[int, ...]

    @classmethod
    def of(cls, counts: Counter[Labels]) -> _LabelPool:
        options = tuple(sorted(counts))
        return cls(options, tuple(accumulate(counts[option] for option in options)))

    def draw(self, chance: int) -> Labels:
        """The option selected by a number below 2**64."""
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
        raise TaskError(f"{task.name}: no target to draw control labels from; the training texts do not have the task")
    pools = {rated: _LabelPool.of(counted) for rated, counted in counts.items()}
    together = _LabelPool.of(sum(counts.values(), Counter()))

    def labels_of(text: Text, edge: Edge) -> Labels:
        drawn = pools.get(edge.rated, together).draw(_chance(seed, target_key(text, edge)))
        return drawn if edge.rated is None else tuple(label for label in drawn if label in edge.rated)

    return labels_of


def control_task(task: Task, texts: Iterable[Text], seed: int) -> Task:
    """The task with the same targets, metric and masks, but control labels drawn from `texts` (the training set)."""
    relabelled = _control_values(task, texts, seed) if task.graded else _control_labelled(task, texts, seed)

    name, title = f"{task.name} (control)", f"{task.title} (control)"
    return replace(task, name=name, title=title, normalise=as_annotated, keep=None, source=relabelled)


def _control_labelled(task: Task, texts: Iterable[Text], seed: int) -> Callable[[Text], tuple[Edge, ...]]:
    labels_of = control_labels(task, texts, seed)
    return lambda text: tuple(replace(edge, labels=labels_of(text, edge)) for edge in task.targets(text))


def _control_values(task: Task, texts: Iterable[Text], seed: int) -> Callable[[Text], tuple[Edge, ...]]:
    """The value of a random training target, always the same for a key."""
    values = sorted(edge.value for text in texts for edge in task.targets(text) if edge.value is not None)
    if not values:
        raise TaskError(f"{task.name}: no target to draw control values from; the training texts do not have the task")

    def drawn(text: Text, edge: Edge) -> float:
        return values[_chance(seed, target_key(text, edge)) % len(values)]

    return lambda text: tuple(replace(edge, value=drawn(text, edge)) for edge in task.targets(text))


def seen_targets(task: Task, train: Iterable[Text], texts: Iterable[Text]) -> list[bool]:
    """For every target of these texts, in their order: whether its key occurs in training.

    Example:
        >>> from lamina.tasks.catalogue import get_task
        >>> from lamina.types import Span
        >>> one, two = (Text(w, (w,), edges={"pos": (Edge(("X",), Span(0, 1)),)}) for w in ("a", "b"))
        >>> seen_targets(get_task("pos"), [one], [one, two])
        [True, False]
    """
    known = {target_key(text, edge) for text in train for edge in task.targets(text)}
    return [target_key(text, edge) in known for text in texts for edge in task.targets(text)]


class SeenShare(NamedTuple):
    """How much of the scored data was seen in training; a control probe cannot know the rest."""

    targets: float
    """Share of scored targets whose key occurs in training."""
    keys: float
    """Share of scored keys, each counted once, that occur in training."""


def share_seen(task: Task, train: Iterable[Text], scored: Iterable[Text]) -> SeenShare:
    """The share of scored targets and keys that occur in training.

    Example:
        >>> from lamina.tasks.catalogue import get_task
        >>> from lamina.types import Span
        >>> def tagged(*words):
        ...     return Text("s", words, edges={"pos": tuple(Edge(("X",), Span(i, i + 1)) for i in range(len(words)))})
        >>> share_seen(get_task("pos"), [tagged("a", "b")], [tagged("a", "a", "c", "c")])
        SeenShare(targets=0.5, keys=0.5)
    """
    known = {target_key(text, edge) for text in train for edge in task.targets(text)}
    keys = Counter(target_key(text, edge) for text in scored for edge in task.targets(text))
    if not keys:
        raise TaskError(f"{task.name}: nothing to score; the texts do not have the task")
    hits = sum(count for key, count in keys.items() if key in known)
    return SeenShare(hits / keys.total(), len(keys.keys() & known) / len(keys))


def _chance(seed: int, key: str) -> int:
    """A number below 2**64 that depends only on seed and key."""
    return int.from_bytes(hashlib.blake2b(f"{seed}\x00{key}".encode(), digest_size=8).digest())
