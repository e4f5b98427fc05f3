"""How long `contextualize` takes: rows of vectors that are probed are counted, and some training steps are timed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from math import ceil
from typing import NamedTuple

import torch

from lamina.analyses.contextualization.answers import Setup
from lamina.analyses.contextualization.finetuning import Finetuned
from lamina.analyses.contextualization.representations import RANDOM_WIDTH
from lamina.analyses.contextualization.words_in_context import SPLITS, WordsInContext
from lamina.analyses.estimate import Cost, Estimator, time_call
from lamina.corpora import Corpus
from lamina.encoders import Encoder
from lamina.encoders.huggingface import HuggingFaceEncoder
from lamina.encoders.static import skipgram_epochs, train_skipgram
from lamina.probes.mlp import ClassProbe, Examples, decide

_TIMED_BATCHES = 8
_FORWARD = 1 / 3
"""Share of a training step that applying probes to as many examples takes."""
_TIMED_TEXTS = 1000
"""Texts that skip-gram is tried on."""
_TIMED_EPOCHS = 4


class Rows(NamedTuple):
    """Rows of vectors, each of which has probes of its own."""

    rows: int
    width: int
    of_types: bool = False
    """Whether a word has one vector, or one per context."""


def probed_rows(
    encoder: Encoder, static: Sequence[Encoder], tuned: Sequence[Finetuned], setup: Setup
) -> Iterator[Rows]:
    """All that is probed, as `contextualize` does it."""
    layers, width = encoder.layers, encoder.width
    sizes = len(setup.preset.context_sizes)
    permuted = layers if setup.preset.permuted == "all" else 1
    yield Rows(layers * (1 + sizes + len(tuned)) + permuted, width)
    yield Rows(layers, width, of_types=True)
    for other in (*(each.width for each in static), RANDOM_WIDTH):
        yield Rows(1, other)
        yield Rows(1, other, of_types=True)
    # Skip-gram has no bag.
    yield Rows(1, RANDOM_WIDTH, of_types=True)
    if isinstance(encoder, HuggingFaceEncoder):
        yield Rows(1 + sizes, width)
        yield Rows(1, width, of_types=True)


def training_cost(estimator: Estimator, setup: Setup, rows: Sequence[Rows]) -> Cost:
    """What training all class probes takes. One step is one batch through the probes of one row."""
    training = setup.training
    probes = len(setup.data.classes) * setup.preset.seeds
    each = {width: _step_seconds(setup, width) for width in {own.width for own in rows}}
    total = Cost(passes=0)
    for own in rows:
        train, dev, test = _items(setup.data, of_types=own.of_types)
        batches = training.epochs * ceil(train / training.batch)
        looks = training.epochs // training.validate_every if training.select else 0
        passed = _FORWARD * (looks * dev + dev + test) / training.batch
        seconds = own.rows * (batches + passed) * probes * each[own.width]
        total += estimator.training(own.rows * batches, seconds / (own.rows * batches))
    return total


def _items(data: WordsInContext, *, of_types: bool) -> tuple[int, ...]:
    """Training, dev and test items."""
    return tuple(data.split.count(split) if of_types else len(data.of(split)) for split in SPLITS)


def _step_seconds(setup: Setup, width: int) -> float:
    """One batch through one probe, timed on random vectors: what they say does not change how long it takes."""
    training, classes = setup.training, len(setup.data.classes)
    count, rows = _TIMED_BATCHES * training.batch, 2
    examples = Examples(torch.randn(rows, count, width), torch.rand(1, count, classes) < 0.1)
    probes = [
        ClassProbe(row, label, seed)
        for row in range(rows)
        for seed in range(setup.preset.seeds)
        for label in range(classes)
    ]
    short = replace(training, epochs=1, select=False)

    def work() -> None:
        decide(examples, examples, [], probes, short, device=setup.device)

    # Warm-up; not timed.
    work()
    return time_call(work) / (_TIMED_BATCHES * len(probes))


def skipgram_seconds(corpus: Corpus) -> float:
    """What training skip-gram vectors takes: what some texts take in several epochs beyond one."""
    words = sum(len(text.words) for text in corpus)
    some = list(islice(corpus, _TIMED_TEXTS))
    tried = sum(len(text.words) for text in some)
    # The first call is slower; one epoch has what does not grow: reading, the vocabulary.
    train_skipgram(some[:1], width=RANDOM_WIDTH, epochs=1)
    one, several = (
        time_call(lambda epochs=epochs: train_skipgram(some, width=RANDOM_WIDTH, epochs=epochs))
        for epochs in (1, _TIMED_EPOCHS)
    )
    epoch = max(0.0, several - one) / (_TIMED_EPOCHS - 1) / max(1, tried)
    return one + epoch * skipgram_epochs(words) * words
