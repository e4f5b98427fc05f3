"""Trained probes applied to a typed sentence: what each layer makes of its words."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int

from lamina.analyses.probing.probe import seen_by_probes
from lamina.analyses.typed_sentence import ID, encode_sentence
from lamina.errors import ModelError, ResultError, SpanError, TaskError
from lamina.framework.inputs import as_result
from lamina.models import Activations, Encoder
from lamina.probes.edge import SavedEdgeProbes, predict
from lamina.probes.streams import Stream, find_targets
from lamina.results import Result
from lamina.tasks import Task
from lamina.types import Edge, Span, Text

UNASKED = ("pos",)
"""Tasks of single words, for which every word is a target. A probe of any other task has never seen a span that is not
a target, so there the user marks the spans."""

_MARKED = "marked"
"""The annotation that holds the targets to trace."""


class Marked(NamedTuple):
    """A target that the user marked."""

    task: str
    span1: Span
    span2: Span | None = None


class Asked(NamedTuple):
    """A question the probes can answer."""

    arity: int
    """Spans a target has."""
    labels: tuple[str, ...]


class Beliefs(NamedTuple):
    """What the probes of one task and seed make of some targets. Each label has a probability of its own."""

    task: str
    seed: int
    labels: tuple[str, ...]
    words: Int[np.ndarray, "target span 2"]
    """First word and one past the last, for each span."""
    probabilities: Float[np.ndarray, "layer target label"]
    """Under P(0)..P(L)."""


class SentenceTracer:
    """Saved probes, read once, to be asked about many sentences.

    Example:
        >>> tracer = SentenceTracer(lamina.load_encoder("minilm"), "results/probe")  # doctest: +SKIP
        >>> tracer.beliefs(["he", "smoked", "toronto"])[0].probabilities.shape  # doctest: +SKIP
        (7, 3, 17)
    """

    def __init__(self, encoder: Encoder, probes: Result | str | Path) -> None:
        """`probes` is a probing result of this very encoder, or its folder."""
        learned = as_result(probes)
        self._seen, self._saved = _same_model(encoder, learned, _saved(learned))

    @property
    def tasks(self) -> dict[str, Asked]:
        """Task -> what its probes take and tell."""
        return {each.task: Asked(each.probes.arity, each.labels) for each in self._saved}

    @property
    def seeds(self) -> tuple[int, ...]:
        """Of the probes."""
        return tuple(sorted({each.seed for each in self._saved}))

    def beliefs(self, words: Sequence[str], marked: Sequence[Marked] = ()) -> list[Beliefs]:
        """Of every word where the task is of single words, and of what is marked; one for each task and seed."""
        text = Text(ID, tuple(words))
        targets = _targets(self.tasks, text, marked)
        if not targets:
            return []
        made = encode_sentence(self._seen, text.words)
        return [_believed(each, text, targets[each.task], made) for each in self._saved if each.task in targets]


def over_seeds(told: Sequence[Beliefs]) -> list[Beliefs]:
    """One for each task: the mean of its probes of all seeds, under the first seed's number.

    Example:
        >>> one = Beliefs("pos", 0, ("X",), np.array([[[0, 1]]]), np.array([[[0.2]]]))
        >>> over_seeds([one, one._replace(seed=1, probabilities=np.array([[[0.4]]]))])[0].probabilities.round(3).item()
        0.3
    """
    by_task: dict[str, list[Beliefs]] = {}
    for each in told:
        by_task.setdefault(each.task, []).append(each)
    return [
        own[0]._replace(probabilities=np.mean([each.probabilities for each in own], axis=0)) for own in by_task.values()
    ]


def most_changed(probabilities: Float[np.ndarray, "layer target label"]) -> int:
    """The target about which belief changes most on the way up: the sum over steps of the largest change of a label.

    Example:
        >>> most_changed(np.array([[[0.9, 0.1], [0.9, 0.1]], [[0.8, 0.2], [0.1, 0.9]]]))
        1
    """
    steps = np.abs(np.diff(probabilities, axis=0)).max(-1)
    return int(steps.sum(0).argmax())


def _saved(learned: Result) -> list[SavedEdgeProbes]:
    """Cumulative probes of all layers; a graded task has a value and no labels whose probabilities could be shown."""
    saved = [SavedEdgeProbes(path) for name, path in learned.files.items() if name.endswith(".safetensors")]
    whole = [each for each in saved if each.probes.mixing == each.probes.closed.shape[1] and not each.graded]
    if not whole:
        raise ResultError("the result has no probes P(0)..P(L) to trace with; probe again with --probes cumulative")
    for each in whole:
        # Members that read a single layer would cost as much again and are not shown.
        each.probes = each.probes.some(range(each.probes.mixing)).requires_grad_(False)
    return whole


def _same_model(
    encoder: Encoder, learned: Result, saved: list[SavedEdgeProbes]
) -> tuple[Encoder, list[SavedEdgeProbes]]:
    """The encoder as its probes saw it, and these; any other model's states would mean nothing to them."""
    asked = learned.provenance.parameters
    seen = seen_by_probes(encoder, faithful=bool(asked.get("faithful")), seed=int(asked.get("seed", 0)))
    own = [each for each in saved if each.encoder == seen.fingerprint]
    if not own:
        raise ModelError(
            f"the probes were trained on {learned.provenance.model['name']} with other weights or settings "
            f"than this {encoder.name}; load the model as it was, or probe this one first"
        )
    return seen, own


def _targets(tasks: dict[str, Asked], text: Text, marked: Sequence[Marked]) -> dict[str, tuple[Edge, ...]]:
    """Task -> its targets in the sentence."""
    targets = {task: [Edge((), Span(at, at + 1)) for at in range(len(text.words))] for task in UNASKED if task in tasks}
    for task, span1, span2 in marked:
        if task not in tasks:
            raise TaskError(f"there are no probes of {task!r} here; there are: {', '.join(tasks)}")
        arity = tasks[task].arity
        if arity != 1 + (span2 is not None):
            raise SpanError(f"{task} asks about {'one span' if arity == 1 else 'a pair of spans'}; mark as many")
        edge = Edge((), span1, span2)
        if edge not in targets.setdefault(task, []):
            targets[task].append(edge)
    # Checks that every span lies inside the sentence.
    Text(ID, text.words, edges={task: tuple(edges) for task, edges in targets.items()})
    return {task: tuple(edges) for task, edges in targets.items()}


class _OneText:
    """A sentence's states as a stream of targets asks for them."""

    def __init__(self, states: torch.Tensor) -> None:
        self.held = states
        self.token_bytes = states[0].nbytes

    def start(self, index: int) -> int:
        return 0

    def size(self, index: int) -> int:
        return len(self.held)

    def load(self, index: int) -> torch.Tensor:
        return self.held


def _believed(saved: SavedEdgeProbes, text: Text, edges: tuple[Edge, ...], made: Activations) -> Beliefs:
    if made.states is None:
        raise ModelError("the sentence was encoded without its states")
    # The bare question: what a task keeps or leaves out of a corpus does not matter for what the user marked.
    task = Task(saved.task, saved.task, _MARKED, edges[0].arity)
    found = find_targets(task, [Text(ID, text.words, edges={_MARKED: edges})], [made.tokens], saved.labels)
    (batch,) = Stream(_OneText(made.states), found, standard=saved.standard).in_order()
    told = np.empty((saved.probes.mixing, len(found), len(saved.labels)))
    told[:, batch.rows] = predict(saved, batch).numpy()
    return Beliefs(saved.task, saved.seed, saved.labels, found.words, told)
