"""How long `contextualize` takes: rows of vectors that are probed are counted, and some training steps are timed."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from math import ceil
from typing import NamedTuple

import torch

from lamina.analyses.contextualization.answers import Amounts, Setup
from lamina.analyses.contextualization.finetuning import Finetuned
from lamina.analyses.contextualization.representations import RANDOM_WIDTH
from lamina.analyses.contextualization.words_in_context import SPLITS, WordsInContext
from lamina.corpora import Corpus
from lamina.encoders import Encoder
from lamina.encoders.huggingface import HuggingFaceEncoder
from lamina.encoders.static import skipgram_epochs, train_skipgram
from lamina.framework.estimate import Cost, Estimator, memory_now, time_call
from lamina.probes.mlp import ClassProbe, Examples, Vectors, train

_TIMED_BATCHES = 8
_FORWARD = 1 / 3
"""Share of a training step that applying probes to as many examples takes."""
_TIMED_TEXTS = 1000
"""Texts that skip-gram is tried on."""
_TIMED_EPOCHS = 4
_ENCODED_TEXTS = 64
"""Texts that encoding is timed on."""


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
    for other in (*(vectors.width for vectors in static), RANDOM_WIDTH):
        yield Rows(1, other)
        yield Rows(1, other, of_types=True)
    # Skip-gram has no bag.
    yield Rows(1, RANDOM_WIDTH, of_types=True)
    if isinstance(encoder, HuggingFaceEncoder):
        yield Rows(1 + sizes, width)
        yield Rows(1, width, of_types=True)


def disk_bytes(encoder: Encoder, tuned: Sequence[Finetuned], chosen: Amounts, data: WordsInContext) -> int:
    """The most that vectors take on disk at once.

    Those of whole texts stay; those of one other model, window or bag are there beside them, one after the other.
    """
    whole = 2 * encoder.layers * encoder.width * len(data.text)
    through = {model.window for model in tuned if model.window is not None}
    beside = max((bool(chosen.context_sizes), _most_at_once(tuned, through)))
    return whole * (1 + beside) + 2 * RANDOM_WIDTH * len(data.text)


def _most_at_once(tuned: Sequence[Finetuned], through: set[int]) -> int:
    """Vectors beside those of the model: the fine-tuned ones of one window, and the pretrained model's through it."""
    plain = sum(model.window is None for model in tuned)
    return max([plain, *(1 + sum(model.window == window for model in tuned) for window in through)])


def encoding_cost(encoder: Encoder, tuned: Sequence[Finetuned], chosen: Amounts, data: WordsInContext) -> Cost:
    """What encoding takes: whole texts with every model, and the windows of every size; some texts are timed."""
    pieces = [len(encoder.tokenize(text).ids) for text in data.texts]
    per_word = sum(pieces) / max(1, sum(len(text.words) for text in data.texts))
    models = 1 + len(tuned) + len({model.window for model in tuned if model.window is not None})
    rate = _seconds_per_token(encoder, data)
    windows = sum(len(data.text) * per_word * (2 * size + 1) for size in chosen.context_sizes)
    seconds = rate * (models * sum(pieces) + windows)
    return Cost(models, len(data.texts), sum(pieces), 0, seconds, memory_now())


def _seconds_per_token(encoder: Encoder, data: WordsInContext) -> float:
    some = list(islice(data.texts, _ENCODED_TEXTS))
    for _ in encoder.encode(some[:4]):
        pass  # warm-up; not timed
    took = time_call(lambda: deque(encoder.encode(some), maxlen=0))
    return took / sum(len(encoder.tokenize(text).ids) for text in some)


def training_cost(estimator: Estimator, setup: Setup, rows: Sequence[Rows]) -> Cost:
    """What training all class probes takes. One step is one batch through the probes of one row."""
    training = setup.training
    probes = len(setup.data.classes) * setup.preset.seeds
    step_seconds = {width: _step_seconds(setup, width) for width in {group.width for group in rows}}
    total = Cost(passes=0)
    for group in rows:
        train, dev, test = _items(setup.data, of_types=group.of_types)
        batches = training.epochs * ceil(train / training.batch)
        looks = training.epochs // training.validate_every if training.select else 0
        passed = _FORWARD * (looks * dev + dev + test) / training.batch
        seconds = group.rows * (batches + passed) * probes * step_seconds[group.width]
        total += estimator.training(group.rows * batches, seconds / (group.rows * batches))
    return total


def _items(data: WordsInContext, *, of_types: bool) -> tuple[int, ...]:
    """Training, dev and test items."""
    return tuple(data.split.count(split) if of_types else len(data.of(split)) for split in SPLITS)


def _step_seconds(setup: Setup, width: int) -> float:
    """One batch through one probe, timed on random vectors: what they say does not change how long it takes."""
    training, classes = setup.training, len(setup.data.classes)
    count = _TIMED_BATCHES * training.batch
    examples = Examples(Vectors.of(torch.randn(count, width).half()), torch.rand(1, count, classes) < 0.1)
    probes = [ClassProbe(label, seed) for seed in range(setup.preset.seeds) for label in range(classes)]
    short = replace(training, epochs=1, select=False)

    def work() -> None:
        train(examples, examples, probes, short, device=setup.device)

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
