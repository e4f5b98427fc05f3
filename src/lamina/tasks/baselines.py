"""The score of knowing nothing about the target: the best constant answer under the task's own metric."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from typing import NamedTuple

from lamina.tasks.task import Task
from lamina.types import Text


class _Counts(NamedTuple):
    """What a constant answer's score depends on."""

    holding: Counter[str]
    """Scored label -> of how many targets it holds."""
    rated: Counter[str]
    """Label -> of how many targets its rating is known, apart from `everywhere`."""
    everywhere: int
    """Of how many targets every label is rated."""

    def asked(self, label: str) -> int:
        """How many decisions about a label count."""
        return self.rated[label] + self.everywhere

    def macro_f1(self, answer: Collection[str]) -> float:
        """Macro-F1 of answering these labels for every target: the mean over the labels that hold of some."""
        each = [2 * n / (n + self.asked(label)) if label in answer else 0.0 for label, n in self.holding.items()]
        return sum(each) / len(each) if each else 0.0

    def f1(self, answer: Collection[str]) -> float:
        """Micro-F1 of answering these labels for every target."""
        right = sum(self.holding[label] for label in answer)
        said = sum(self.asked(label) for label in answer)
        total = self.holding.total() + said
        return 2 * right / total if total else 0.0


def best_constant(task: Task, texts: Iterable[Text]) -> tuple[str, ...]:
    """The set of labels that, answered for every target, scores best on these texts; sorted.

    By macro-F1 that is all of them, since every label has a score of its own. By micro-F1:

    A plain majority would score 0 where the metric leaves that label out, and less than two labels can where labels
    overlap. The best set is a prefix of the labels sorted by how often they hold where they are rated: with n the
    targets a label holds of, r those it is rated on and G all gold labels, a set S scores 2 sum(n) / (sum(r) + G). Let
    F be the best score. Then S is best exactly if it maximises sum(2 n - F r) over its labels, which takes every label
    with n / r > F / 2, none with n / r < F / 2, and may or may not take those in between.

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
    order = sorted(counts.holding, key=lambda label: (-counts.holding[label] / counts.asked(label), label))
    prefixes = [order[:size] for size in range(len(order) + 1)]
    return tuple(sorted(max(prefixes, key=counts.f1)))


def score_constant(task: Task, answer: Collection[str], texts: Iterable[Text]) -> float:
    """The score of answering these labels for every target of these texts."""
    counts, said = _count(task, texts), task.scored(tuple(answer))
    return counts.macro_f1(said) if task.average == "macro" else counts.f1(said)


def constant_baseline(task: Task, train: Iterable[Text], scored: Iterable[Text]) -> float:
    """What the best constant answer of the training texts scores on the scored texts."""
    return score_constant(task, best_constant(task, train), scored)


def _count(task: Task, texts: Iterable[Text]) -> _Counts:
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
    return _Counts(holding, rated, everywhere)
