"""What parser probes would take, before they are trained."""

from __future__ import annotations

import time
from itertools import islice
from typing import NamedTuple

from lamina.analyses.attention_maps.parse_training import HeadChoice, Learner
from lamina.analyses.attention_maps.watching import refuse_without_maps, watch
from lamina.analyses.probing.splits import Splits, thin
from lamina.encoders import Encoder
from lamina.probes.parsers import AttentionAndWords, AttentionOnly, DistanceAndWords

_TIMED_TEXTS = 48


class Foreseen(NamedTuple):
    """What a run would take."""

    learned: int
    scored: int
    """Texts."""
    words: int
    tokens: int
    probes: int
    seconds: float


def foresee(encoder: Encoder, splits: Splits, *, twin: bool, texts: int | None, seed: int) -> Foreseen:
    """Count, and learn from a few texts to see how long that takes."""
    refuse_without_maps(encoder)
    train = thin(splits.train, texts, seed)
    words = tokens = 0
    for corpus in (train, splits.scored):
        for text in corpus:
            words, tokens = words + len(text.words), tokens + len(encoder.tokenize(text).ids)
    passes = 1 + twin
    return Foreseen(
        len(train), len(splits.scored), words, tokens, 1 + 2 * passes, passes * tokens * _seconds(encoder, splits)
    )


def _seconds(encoder: Encoder, splits: Splits) -> float:
    """For one token, encoded and learned from."""
    maps = encoder.blocks * encoder.heads
    probes = {
        "attention": AttentionOnly(maps),
        "words": AttentionAndWords(maps, encoder.width),
        "distance": DistanceAndWords(encoder.width, seed=0),
    }
    # States of layer 0 stand in for word vectors: as many numbers, and never far away.
    learner = Learner(probes, encoder, causal=encoder.causal, seed=0)
    sample = list(islice(splits.scored, _TIMED_TEXTS))
    for _ in encoder.encode(sample[:4], ("maps",)):
        pass  # the first call pays for more than its share
    start = time.perf_counter()
    watch(encoder, sample, [learner, HeadChoice(maps)])
    learner.finish()
    return (time.perf_counter() - start) / sum(len(encoder.tokenize(text).ids) for text in sample)
