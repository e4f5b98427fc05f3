"""Trained probes applied to a sentence somebody types: what each layer makes of its words."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from lamina.activations import StoredActivations, extract
from lamina.analyses.probing.faithful import seen_by_probes
from lamina.analyses.probing.sentences import words_table
from lamina.analyses.probing.traces import Trace, trace_rows
from lamina.corpora import corpus_from
from lamina.encoders import Encoder
from lamina.errors import InputError, ModelError, ResultError, SpanError, TaskError
from lamina.probes.saving import SavedProbes, predict
from lamina.probes.streams import Stream
from lamina.probes.targets import find_targets
from lamina.results import Provenance, Result
from lamina.tasks import Task
from lamina.types import Edge, Span, Text

UNASKED = ("pos",)
"""Tasks of single words, which any word is a target of. A probe of any other task has never seen a span that is no
target, so there the user marks the spans."""

_ID = "typed"
_MARKED = "marked"
"""The annotation that holds the targets to trace."""


class Marked(NamedTuple):
    """A target that the user marked."""

    task: str
    span1: Span
    span2: Span | None = None


def trace_sentence(
    encoder: Encoder,
    probes: str | os.PathLike[str],
    words: Sequence[str],
    marked: Sequence[Marked] = (),
) -> Result:
    """The probability of labels under P(0)..P(L), for a sentence of your own.

    Part of speech is traced for every word; other tasks for the spans you mark.

    Args:
        encoder: the model that the probes were trained on.
        probes: the folder of a saved probing result.
        words: the sentence.
        marked: targets of tasks other than part of speech.

    Example:
        >>> encoder, words = lamina.load_encoder("minilm"), ["he", "smoked", "toronto"]  # doctest: +SKIP
        >>> marked = [Marked("dep", Span(2, 3), Span(1, 2))]  # doctest: +SKIP
        >>> trace_sentence(encoder, "results/probe", words, marked).chart()  # doctest: +SKIP
    """
    learned = Result.load(probes)
    saved = _saved(learned, probes)
    seen = _same_model(encoder, learned, saved, probes)
    text = Text(_ID, tuple(words))
    targets = _targets({each.task: each for each in saved}, text, marked)
    corpus = corpus_from([text], name="a typed sentence")
    rows: list[Trace] = []
    with tempfile.TemporaryDirectory() as folder:
        # Through a store, so that the probes see states in the precision that they were trained on.
        states = extract(seen, corpus, root=folder)
        for each in saved:
            if each.task in targets:
                rows += _trace(each, Text(_ID, text.words, edges={_MARKED: targets[each.task]}), states)
    provenance = Provenance(
        encoder.describe(),
        corpus.describe() | {"split": ""},
        {"probes": learned.key, "words": list(words), "marked": [_in_words(*each) for each in marked]},
        tuple(sorted({each.seed for each in saved})),
    )
    traces = pd.DataFrame(rows, columns=list(Trace._fields))
    return Result("trace", {"traces": traces, "words": words_table([(text.id, text.words)])}, provenance)


def _saved(learned: Result, folder: str | os.PathLike[str]) -> list[SavedProbes]:
    if learned.analysis != "probe":
        raise ResultError(f"{folder} holds a {learned.analysis!r} result; name a folder that `lamina probe` wrote")
    saved = [SavedProbes(path) for name, path in learned.files.items() if name.endswith(".safetensors")]
    whole = [each for each in saved if each.probes.mixing == each.probes.closed.shape[1]]
    if not whole:
        raise ResultError(f"{folder} has no probes P(0)..P(L) to trace with; probe again with cumulative probes")
    return whole


def _same_model(encoder: Encoder, learned: Result, saved: list[SavedProbes], folder: str | os.PathLike[str]) -> Encoder:
    """The encoder as the probes saw it; any other model's states would mean nothing to them."""
    asked = learned.provenance.parameters
    seen = seen_by_probes(encoder, faithful=bool(asked.get("faithful")), seed=int(asked.get("seed", 0)))
    if {each.encoder for each in saved} != {seen.fingerprint}:
        raise ModelError(
            f"the probes in {folder} were trained on {learned.provenance.model['name']} with other weights or settings "
            f"than this {encoder.name}; load the model as it was, or probe this one first"
        )
    return seen


def _targets(saved: dict[str, SavedProbes], text: Text, marked: Sequence[Marked]) -> dict[str, tuple[Edge, ...]]:
    """Task -> its targets in the sentence."""
    targets = {task: [Edge((), Span(at, at + 1)) for at in range(len(text.words))] for task in UNASKED if task in saved}
    for task, span1, span2 in marked:
        if task not in saved:
            raise TaskError(f"there are no probes of {task!r} here; there are: {', '.join(saved)}")
        arity = saved[task].probes.project.shape[1]
        if arity != 1 + (span2 is not None):
            raise SpanError(f"{task} asks about {'one span' if arity == 1 else 'a pair of spans'}; mark as many")
        edge = Edge((), span1, span2)
        if edge not in targets.setdefault(task, []):
            targets[task].append(edge)
    if not targets:
        raise InputError(f"mark the spans to trace; there are probes of: {', '.join(saved)}")
    # Checks that every span lies inside the sentence.
    Text(_ID, text.words, edges={task: tuple(edges) for task, edges in targets.items()})
    return {task: tuple(edges) for task, edges in targets.items()}


def _trace(saved: SavedProbes, text: Text, states: StoredActivations) -> list[Trace]:
    edges = text.edges[_MARKED]
    # The bare question: what a task keeps or leaves out of a corpus does not matter for what the user marked.
    task = Task(saved.task, saved.task, _MARKED, edges[0].arity, "", "")
    found = find_targets(task, [text], [states[0].tokens], saved.labels)
    (batch,) = Stream(states, found).in_order()
    told = np.empty((saved.probes.mixing, len(found), len(saved.labels)))
    told[:, batch.rows] = predict(saved, batch)[: saved.probes.mixing].numpy()
    return trace_rows(saved.task, text.id, found.words, told, saved.labels, None, saved.seed)


def _in_words(task: str, span1: Span, span2: Span | None) -> str:
    second = "" if span2 is None else f" {span2.start}:{span2.end}"
    return f"{task} {span1.start}:{span1.end}{second}"
