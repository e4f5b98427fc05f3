"""Concepts that are erased from a layer: the states they are fitted on, and the subspaces that go beside them.

The concept belongs to targets: words, or spans of several. A target's state is the mean over its tokens. What is made
equal for all classes is thereby both the mean of the targets and that of their tokens, where each target counts once.
Since states of all words are changed, the change is the least over all of them, whether they are targets or not.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from lamina.corpora.splits import Splits, divide
from lamina.errors import ModelError, TaskError
from lamina.models.running.huggingface import HuggingFaceEncoder
from lamina.probes.erasers import Eraser, StateMoments, Whitened
from lamina.probes.streams import find_targets
from lamina.progress import progress
from lamina.stats.units import CHOOSING, halve, unit_of
from lamina.targets.probes import BatchSpans, span_means
from lamina.targets.target import some_texts
from lamina.tasks import Task, label_set
from lamina.tasks.catalogue import choose_tasks
from lamina.tasks.control import control_labels
from lamina.types import Edge, Text

CONCEPT, RANDOM, CONTROL = WHATS = ("concept", "random_subspace", "control")
"""What is erased: what tells a task's classes apart, a random subspace as large, what tells random classes of words
apart."""
SHARE_BESIDE = 4
"""Targets that erasers are fitted on, per target that chooses penalties or is of other documents."""
_LEAST = 2
"""Targets per dimension of a state with which an eraser is fitted at all; more by far are better."""
_STATES = 2**30
"""Bytes of states that are held at a time."""
_TOGETHER = 2048
"""Tokens whose products are summed at a time."""


class ConceptTargets(NamedTuple):
    """Some targets of a task."""

    texts: tuple[Text, ...]
    text: Int[np.ndarray, " target"]
    """Number of its text."""
    tokens: Int[np.ndarray, "target span 2"]
    """First token and one past the last."""
    gold: Int[np.ndarray, " target"]
    """Its class; -1 if training has none of it."""
    control: Int[np.ndarray, " target"]
    """Its class in the control task: drawn at random for each word."""
    units: tuple[str, ...]
    """The document of each target, or its text."""

    def __len__(self) -> int:
        return len(self.gold)


@dataclass(frozen=True)
class Concept:
    """A task whose classes are erased, and the targets that are needed for it."""

    task: Task
    labels: tuple[str, ...]
    fitted: ConceptTargets
    """What erasers are fitted on, and probes learn from."""
    select: ConceptTargets
    """What penalties of probes are chosen by."""
    elsewhere: ConceptTargets
    """Of other training documents: a probe learns from them what the eraser may have left."""
    scored: ConceptTargets
    """Held-out documents."""
    left_out: int
    """Training texts that are also scored."""

    @property
    def skipped(self) -> Counter[str]:
        """Why something was left out -> how many times."""
        unseen = int((self.scored.gold < 0).sum())
        return +Counter(
            {
                "training texts that are also scored": self.left_out,
                "scored targets of classes unseen in training (scored as errors)": unseen,
            }
        )

    @property
    def constant(self) -> int:
        """The most frequent class in training."""
        return int(np.bincount(self.fitted.gold[self.fitted.gold >= 0]).argmax())


def plan_concepts(
    names: Sequence[str], encoder: HuggingFaceEncoder, splits: Splits, *, learn: int, words: int, seed: int
) -> list[Concept]:
    """The concepts of some tasks.

    Args:
        names: tasks of the corpus, of one span and one label.
        encoder: cuts texts into tokens.
        splits: training and scored texts.
        learn: targets that erasers are fitted on, about; a quarter as many select, and as many are of other documents.
        words: targets that probes are scored on, about.
        seed: draws texts and control labels.
    """
    tasks = choose_tasks(names, splits, faithful=False)
    division = divide(splits, seed=seed)
    train = list(splits.train)
    learned, stopped = ([train[number] for number in numbers] for numbers in (division.learn, division.stop))
    halves = halve(learned, seed)
    fitted, elsewhere = (
        [text for text in learned if (halves.of(text) == CHOOSING) is beside] for beside in (False, True)
    )
    concepts = []
    for task in tasks:
        _refuse(task, splits)
        drawing = _TargetSampler(task, label_set(task, learned), control_labels(task, learned, seed), encoder, seed)
        beside = max(1, learn // SHARE_BESIDE)
        concept = Concept(
            task,
            drawing.labels,
            drawing.targets(fitted, learn),
            drawing.targets(stopped, beside),
            drawing.targets(elsewhere, beside),
            drawing.targets(list(splits.scored), words),
            division.left_out,
        )
        _refuse_few(concept, encoder, splits)
        concepts.append(concept)
    return concepts


class LayerErasers(NamedTuple):
    """What is erased at a layer for one task."""

    layer: int
    concept: Eraser
    random: tuple[Eraser, ...]
    """Several draws, each of the concept's rank."""
    control: Eraser

    def of(self, what: str) -> tuple[Eraser, ...]:
        """The erasers of a kind."""
        return {CONCEPT: (self.concept,), RANDOM: self.random, CONTROL: (self.control,)}[what]


class LayerStates(NamedTuple):
    """The states of a concept's targets at one layer."""

    fitted: Float[np.ndarray, "target width"]
    select: Float[np.ndarray, "target width"]
    elsewhere: Float[np.ndarray, "target width"]
    scored: Float[np.ndarray, "target width"]


def fitted_erasers(
    encoder: HuggingFaceEncoder, concept: Concept, layers: Sequence[int], *, draws: int, variance: bool, seed: int
) -> Iterator[tuple[LayerErasers, LayerStates]]:
    """The erasers of each layer, and the states there; as many layers in one pass as fit into memory.

    With `variance`, random subspaces take away as much of it as the concept does.
    """
    parts = (concept.fitted, concept.select, concept.elsewhere, concept.scored)
    at_once = max(1, _STATES // (4 * encoder.width * sum(map(len, parts))))
    known = torch.from_numpy(np.flatnonzero(concept.fitted.gold >= 0))
    classes = [torch.from_numpy(numbers)[known] for numbers in (concept.fitted.gold, concept.fitted.control)]
    for start in range(0, len(layers), at_once):
        some = layers[start : start + at_once]
        moments = StateMoments(len(some), encoder.width, [len(concept.labels)] * 2)
        states = [_states(encoder, targets, some, None if number else moments) for number, targets in enumerate(parts)]
        moments.add_labelled(torch.from_numpy(states[0])[known], classes)
        for number, layer in enumerate(some):
            whitened = Whitened(moments, number)
            eraser = whitened.concept(0)
            random = tuple(
                whitened.random(eraser, _generator(seed, concept.task.name, layer, draw), variance=variance)
                for draw in range(draws)
            )
            yield (
                LayerErasers(layer, eraser, random, whitened.concept(1)),
                LayerStates(*(numbers[:, number] for numbers in states)),
            )


def _states(
    encoder: HuggingFaceEncoder, targets: ConceptTargets, layers: Sequence[int], moments: StateMoments | None
) -> Float[np.ndarray, "target layer width"]:
    """The mean over the tokens of each target; the tokens of all words, targets or not, are added to the moments."""
    means = np.empty((len(targets), len(layers), encoder.width), np.float32)
    bounds = np.searchsorted(targets.text, np.arange(len(targets.texts) + 1))
    waiting: list[Tensor] = []
    with progress(f"states of {encoder.name}", len(targets.texts)) as advance:
        for number, encoded in enumerate(encoder.encode(targets.texts)):
            if encoded.states is None:
                raise ModelError(f"{encoder.name} gave no states for the text {encoded.text}")
            of_text = slice(bounds[number], bounds[number + 1])
            states = encoded.states[:, list(layers)].float()
            spans = BatchSpans(np.zeros(of_text.stop - of_text.start, np.int64), targets.tokens[of_text])
            means[of_text] = span_means(states.flatten(1)[None], spans).unflatten(1, (len(layers), -1)).cpu().numpy()
            if moments is not None:
                waiting.append(states[torch.from_numpy(encoded.tokens.words >= 0)])
                if sum(map(len, waiting)) >= _TOGETHER:
                    moments.add(torch.cat(waiting))
                    waiting = []
            advance()
    if moments is not None and waiting:
        moments.add(torch.cat(waiting))
    return means


@dataclass(frozen=True)
class _TargetSampler:
    """Draws the targets of a task, with their gold and control labels."""

    task: Task
    labels: tuple[str, ...]
    control_labels: Callable[[Text, Edge], tuple[str, ...]]
    """The control task."""
    encoder: HuggingFaceEncoder
    seed: int

    def targets(self, texts: Sequence[Text], most: int) -> ConceptTargets:
        """The targets of whole texts, drawn by the hash of their ids until there are about `most`."""
        task = self.task
        having = [text for text in texts if task.targets(text)]
        every = sum(len(task.targets(text)) for text in having)
        share = min(1.0, most / max(1, every))
        sampled = some_texts(having, max(1, round(len(having) * share)), self.seed)
        targets = find_targets(task, sampled, self.encoder.tokenize_all(sampled), self.labels)
        if len(targets) and not (targets.gold.sum(1) + targets.unseen.sum(1) == 1).all():
            raise TaskError(
                f"{task.name}: some targets have several labels or none; erasure needs exactly one label per target: "
                "name a task such as pos or ner"
            )
        numbers = {label: number for number, label in enumerate(self.labels)}
        control = [numbers[self.control_labels(text, edge)[0]] for text in sampled for edge in task.targets(text)]
        unit = unit_of(sampled)
        gold = np.where(targets.gold.any(1), targets.gold.argmax(1), -1)
        units = tuple(unit.of(sampled[index]) for index in targets.text)
        return ConceptTargets(tuple(sampled), targets.text, targets.tokens, gold, np.array(control, np.int64), units)


def _refuse(task: Task, splits: Splits) -> None:
    """A TaskError where a task has no classes of single spans."""
    if task.arity == 1 and not task.graded:
        return
    why = "its targets are pairs of spans" if task.arity == 2 else "its targets have a value instead of a class"
    raise TaskError(
        f"{task.name}: {why}, and erasure needs one class per word or span; name another task of {splits.name}, "
        "such as pos or ner"
    )


def _refuse_few(concept: Concept, encoder: HuggingFaceEncoder, splits: Splits) -> None:
    parts = {
        "to fit on": concept.fitted,
        "to choose penalties by": concept.select,
        "of other documents": concept.elsewhere,
        "to score": concept.scored,
    }
    empty = [name for name, targets in parts.items() if not len(targets)]
    classes = len(np.unique(concept.fitted.gold[concept.fitted.gold >= 0]))
    # With few more targets than dimensions, classes are separable by chance, and erasing them erases everything.
    if empty or classes < 2 or len(concept.fitted) < _LEAST * encoder.width:
        raise TaskError(
            f"{concept.task.name}: {splits.name} has too few targets to fit an eraser: {len(concept.fitted):,} of "
            f"{classes} classes for states of {encoder.width} dimensions"
            + (f", and none {', '.join(empty)}" if empty else "")
            + "; give more training texts, or raise --learn"
        )


def _generator(*key: object) -> torch.Generator:
    digest = hashlib.blake2b(":".join(map(str, key)).encode(), digest_size=7).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest, "big"))
