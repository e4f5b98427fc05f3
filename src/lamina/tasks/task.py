"""A task: a question that a probe answers about targets in a text, how answers are scored (micro-F1), and its control.

It knows neither tensors nor files. A control task has random labels, which a probe can only memorise. Every key (a word
type; for spans and pairs the words of the spans, as written) gets its own labels, drawn at random but always the same
for a seed, in any order of texts. The draw is the whole label tuple of a random training target, so that a control
target has as many labels as one of the task. If annotators rated only some labels, the draw is from training targets
with the same rated labels.
"""

from __future__ import annotations

import hashlib
import json
import re
import string
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from lamina.errors import TaskError
from lamina.types import Edge, Text

if TYPE_CHECKING:
    import numpy as np
    from jaxtyping import Bool


Metric = Literal["f1", "macro_f1", "accuracy", "r2", "correlation"]
"""Names of scores in tables: micro-F1, macro-F1, the share of right highest answers; of graded tasks, R2 and Pearson's
correlation."""

METRIC_NAMES: dict[str, str] = {
    "f1": "F1",
    "macro_f1": "macro-F1",
    "accuracy": "accuracy",
    "r2": "R2",
    "correlation": "correlation",
}
"""Metric -> what sentences and figures call it."""

VALUE = "value"
"""The one label of a graded task: its prediction is a number."""

Average = Literal["micro", "macro"]
"""F1 over all decisions together, or the mean F1 of the labels that some target has."""

Normalise = Callable[[str], str | None]
"""Annotated label -> the task's label, or None if the task does not use it."""


def as_annotated(label: str) -> str:
    """The label itself."""
    return label


@dataclass(frozen=True)
class Task:
    """One question, its targets and how an answer is scored.

    Example:
        >>> from lamina.types import Span
        >>> task = Task("pos", "Part of speech", "pos", 1)
        >>> text = Text("s1", ("Dogs", "bark"), edges={"pos": (Edge(("NOUN",), Span(0, 1)),)})
        >>> [edge.labels for edge in task.targets(text)]
        [('NOUN',)]
    """

    name: str
    """Name in commands and tables."""
    title: str
    """Name in figures."""
    annotation: str
    """The annotation its targets come from."""
    arity: int
    """1 if a target is a span, 2 if it is a pair of spans."""
    scoring: str = "micro-F1 over all labels"
    """Description of the score."""
    what: str = ""
    """Description of the question."""
    normalise: Normalise = as_annotated
    """Annotated label -> the task's label."""
    unscored: frozenset[str] = frozenset()
    """Labels that are predicted like any other, but left out of the score."""
    keep: Callable[[Edge], bool] | None = None
    """Which edges are targets; all by default."""
    fallback: str | None = None
    """The annotation from which `source` makes targets if a text does not have `annotation`."""
    needs: frozenset[str] = frozenset()
    """Other annotations that a text must have."""
    source: Callable[[Text], tuple[Edge, ...]] | None = None
    """Makes the edges of a text that has the task; by default those of the annotation."""
    left_out: Callable[[Text], int] | None = None
    """How many edges of a text `source` leaves out because there would be too many."""
    average: Average = "micro"
    """Whether all decisions are scored together (micro) or the labels' scores are averaged (macro)."""
    graded: bool = False
    """Whether a target has a value (`Edge.value`), which a probe predicts, instead of labels."""

    @property
    def metric(self) -> Metric:
        """The score of the task."""
        return "r2" if self.graded else "macro_f1" if self.average == "macro" else "f1"

    def available(self, annotations: Iterable[str]) -> bool:
        """Whether texts with these annotations have the task."""
        present = set(annotations)
        return not present.isdisjoint({self.annotation, self.fallback}) and self.needs <= present

    def targets(self, text: Text) -> tuple[Edge, ...]:
        """The task's targets in a text, with the task's labels; none if the text does not have the task."""
        if not self.available(text.edges):
            return ()
        edges = text.edges[self.annotation] if self.source is None else self.source(text)
        chosen = edges if self.keep is None else filter(self.keep, edges)
        return tuple(target for edge in chosen if (target := self._as_target(edge)) is not None)

    def too_many(self, texts: Iterable[Text]) -> int:
        """How many targets of these texts were left out because there would be too many."""
        counted = self.left_out
        return 0 if counted is None else sum(counted(text) for text in texts if self.available(text.edges))

    def averaged(self, average: Average) -> Task:
        """The same task, scored by micro- or macro-F1; if only one label is scored, the two are equal.

        Example:
            >>> Task("pos", "Part of speech", "pos", 1).averaged("macro").metric
            'macro_f1'
        """
        if self.graded:
            raise TaskError(f"{self.name} is graded: it is scored by R2 and correlation, not by {average}-F1")
        return replace(self, average=average, scoring=self.scoring.replace(f"{self.average}-F1", f"{average}-F1"))

    def over_all_labels(self) -> Task:
        """The same task, scored by macro-F1 over all labels, also those that its own score leaves out.

        Example:
            >>> from lamina.tasks import get_task
            >>> get_task("coref").over_all_labels().scoring  # its own: F1 of label 1
            'macro-F1 over all labels'
        """
        return replace(self.averaged("macro"), unscored=frozenset(), scoring="macro-F1 over all labels")

    def describe(self) -> dict[str, Any]:
        """What makes it this task, for provenance and keys; functions by their names."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        plain = {name: sorted(value) if isinstance(value, frozenset) else value for name, value in values.items()}
        return {name: getattr(value, "__qualname__", value) for name, value in plain.items()}

    def scored(self, labels: Iterable[str]) -> tuple[str, ...]:
        """The labels that count in the score, in the given order."""
        return tuple(label for label in labels if label not in self.unscored)

    def _as_target(self, edge: Edge) -> Edge | None:
        """The edge with the task's labels; None if it had labels but the task uses none of them, or has no value."""
        if self.graded:
            return None if edge.value is None else Edge((), edge.span, edge.other, value=edge.value)
        if self.normalise is as_annotated:
            return edge
        labels = self._normalised(edge.labels)
        if edge.labels and not labels:
            return None
        rated = None if edge.rated is None else self._normalised(edge.rated)
        return Edge(labels, edge.span, edge.other, rated, edge.value)

    def _normalised(self, labels: tuple[str, ...]) -> tuple[str, ...]:
        """Without duplicates: two annotated labels may map to one."""
        known = (self.normalise(label) for label in labels)
        return tuple(dict.fromkeys(label for label in known if label is not None))


class GoldDecisions(NamedTuple):
    """The annotators' decision for each target and label."""

    gold: Bool[np.ndarray, "target label"]
    """Whether the label holds."""
    mask: Bool[np.ndarray, "target label"]
    """Whether the decision counts: the label was rated on that target, and the task scores it."""


def label_set(task: Task, texts: Iterable[Text]) -> tuple[str, ...]:
    """The labels that occur on some target, sorted; `value` for a graded task.

    Example:
        >>> from lamina.tasks.catalogue import get_task
        >>> from lamina.types import Span
        >>> label_set(get_task("pos"), [Text("s", ("a", "b"), edges={"pos": (Edge(("X",), Span(0, 1)),)})])
        ('X',)
    """
    if task.graded:
        return (VALUE,)
    return tuple(sorted({label for text in texts for edge in task.targets(text) for label in edge.labels}))


def decisions(task: Task, targets: Sequence[Edge], labels: Sequence[str]) -> GoldDecisions:
    """Gold decisions over targets and labels, and which of them count.

    Example:
        >>> from lamina.tasks.catalogue import get_task
        >>> from lamina.types import Span
        >>> gold, mask = decisions(get_task("rel"), [Edge(("Other",), Span(0, 1), Span(1, 2))], ["A", "Other"])
        >>> gold.tolist(), mask.tolist()
        ([[False, True]], [[True, False]])
    """
    import numpy as np

    column = {label: place for place, label in enumerate(labels)}
    gold = np.zeros((len(targets), len(labels)), dtype=bool)
    mask = np.zeros_like(gold)
    scored = np.array([label not in task.unscored for label in labels], dtype=bool)
    for row, edge in enumerate(targets):
        if missing := [label for label in edge.labels if label not in column]:
            raise TaskError(
                f"{task.name}: label {missing[0]!r} is not in the label set; build it from all texts you score"
            )
        gold[row, [column[label] for label in edge.labels]] = True
        if edge.rated is None:
            mask[row] = scored
        else:
            rated = [column[label] for label in edge.rated if label in column]
            mask[row, rated] = scored[rated]
    return GoldDecisions(gold, mask)


def micro_f1(
    gold: Bool[np.ndarray, "target label"],
    predicted: Bool[np.ndarray, "target label"],
    mask: Bool[np.ndarray, "target label"] | None = None,
) -> float:
    """F1 over all decisions together; `mask` says which count (set a label's column to False to leave it out).

    It is 0 if nothing is gold and nothing is predicted, as in scikit-learn.

    Example:
        >>> import numpy as np
        >>> gold = np.array([[True, False], [False, True]])
        >>> round(micro_f1(gold, np.array([[True, True], [False, False]])), 3)
        0.5
    """
    if mask is not None:
        gold, predicted = gold & mask, predicted & mask
    right = int((gold & predicted).sum())
    decided = int(gold.sum()) + int(predicted.sum())
    return 2 * right / decided if decided else 0.0


_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)


class AnswerScores(NamedTuple):
    """How well an answer matches; both scores are between 0 and 1."""

    exact: float
    f1: float


@lru_cache(maxsize=2**16)
def normalise(answer: str) -> str:
    """The answer in lower case, without punctuation, articles and extra white space.

    Example:
        >>> normalise("The  Denver-Broncos, 24–10!")
        'denverbroncos 24–10'
    """
    return " ".join(_ARTICLES.sub(" ", answer.lower().translate(_PUNCTUATION)).split())


def exact_match(prediction: str, answer: str) -> float:
    """1 if the two are equal after normalisation, otherwise 0.

    Example:
        >>> exact_match("the Broncos.", "Broncos"), exact_match("Denver Broncos", "Broncos")
        (1.0, 0.0)
    """
    return float(normalise(prediction) == normalise(answer))


def f1(prediction: str, answer: str) -> float:
    """The harmonic mean of precision and recall over their words, each counted as often as it occurs.

    Example:
        >>> round(f1("the Denver Broncos", "Broncos"), 3)
        0.667
    """
    predicted, expected = normalise(prediction).split(), normalise(answer).split()
    shared = sum((Counter(predicted) & Counter(expected)).values())
    return 2 * shared / (len(predicted) + len(expected)) if shared else 0.0


def best(prediction: str, answers: Iterable[str]) -> AnswerScores:
    """The best exact match and the best F1 over the accepted answers, taken separately.

    Example:
        >>> best("Santa Clara", ["Santa Clara, California", "in Santa Clara"])
        AnswerScores(exact=0.0, f1=0.8)
    """
    accepted = list(answers)
    if not accepted:
        raise TaskError("cannot score an answer without accepted answers; leave such questions out")
    return AnswerScores(
        max(exact_match(prediction, answer) for answer in accepted), max(f1(prediction, answer) for answer in accepted)
    )


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
