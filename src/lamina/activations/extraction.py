"""From an encoder and a corpus to stored activations; and what that would take."""

from __future__ import annotations

import os
import time
from itertools import islice
from typing import NamedTuple

from lamina.activations.engines import Engine, ThisMachine
from lamina.activations.reading import StoredActivations
from lamina.activations.store import ActivationStore
from lamina.corpora import Corpus
from lamina.encoders import Encoder

_TIMED_TEXTS = 64


def extract(
    encoder: Encoder,
    corpus: Corpus,
    *,
    root: str | os.PathLike[str] | None = None,
    engine: Engine | None = None,
    repair: bool = False,
) -> StoredActivations:
    """The states of every text of the corpus, encoding only what is not stored yet.

    Args:
        encoder: who encodes.
        corpus: what is encoded.
        root: where stores are kept; `lamina.activations.default_root()` if not given.
        engine: where the work is done; this machine if not given.
        repair: verify all stored shards first, and encode the texts of damaged ones again.
    """
    store = ActivationStore.of(encoder, root)
    if repair:
        store.drop(store.damaged())
    missing = sum(1 for _ in store.missing(corpus))
    if missing:  # a store that has everything need not be writable
        (engine or ThisMachine()).fill(encoder, corpus, store, total=missing)
    return store.open(corpus)


class Estimate(NamedTuple):
    """What encoding a corpus would take."""

    texts: int
    words: int
    tokens: int
    missing_texts: int
    """Not stored yet: what would be encoded."""
    missing_tokens: int
    seconds: float
    """From timing a few texts here and now."""
    disk_bytes: int


def estimate(encoder: Encoder, corpus: Corpus, *, root: str | os.PathLike[str] | None = None) -> Estimate:
    """Count, and time a few texts, without storing anything."""
    store = ActivationStore.of(encoder, root)
    texts = words = tokens = 0
    for text in corpus:
        texts, words, tokens = texts + 1, words + len(text.words), tokens + len(encoder.tokenize(text).ids)
    missing_texts = missing_tokens = 0
    for text in store.missing(corpus):
        missing_texts, missing_tokens = missing_texts + 1, missing_tokens + len(encoder.tokenize(text).ids)
    seconds = missing_tokens / _tokens_per_second(encoder, corpus) if missing_tokens else 0.0
    value = 2 if store.head["kept"] == "float16" else 4
    disk = missing_tokens * encoder.layers * encoder.width * value
    return Estimate(texts, words, tokens, missing_texts, missing_tokens, seconds, disk)


def _tokens_per_second(encoder: Encoder, corpus: Corpus) -> float:
    sample = list(islice(corpus, _TIMED_TEXTS))
    for _ in encoder.encode(sample[:4]):
        pass  # the first call pays for more than its share
    start = time.perf_counter()
    done = sum(len(activations.tokens.ids) for activations in encoder.encode(sample))
    return done / (time.perf_counter() - start)
