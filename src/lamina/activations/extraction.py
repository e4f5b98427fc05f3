"""From an encoder and a corpus to stored activations; and an estimate of the cost."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import NamedTuple, Protocol

from lamina.activations.reading import StoredActivations
from lamina.activations.room import check_disk
from lamina.activations.shards import SHARD_BYTES, HalfOverflowError
from lamina.activations.store import ActivationStore, StatePrecision
from lamina.corpora import Corpus
from lamina.models import Encoder
from lamina.progress import progress
from lamina.types import Text, text_key

GPU_SHARD_BYTES = 128 * 2**20
"""A GPU needs larger batches, which a shard has to hold; larger ones take longer to be made ready than they save."""


class Engine(Protocol):
    """Encodes and stores missing texts."""

    def fill(self, encoder: Encoder, texts: Iterable[Text], store: ActivationStore, *, total: int | None = None) -> int:
        """Encode and store the missing texts; returns their number. `texts` may be read twice."""
        ...


class ThisMachine:
    """Encodes on this machine, on the encoder's device, and writes a shard for every `shard_bytes`."""

    def __init__(self, *, shard_bytes: int | None = None) -> None:
        self._shard_bytes = shard_bytes

    def fill(self, encoder: Encoder, texts: Iterable[Text], store: ActivationStore, *, total: int | None = None) -> int:
        """See `Engine.fill`."""
        done = 0
        try:
            for stored in self._fill(encoder, texts, store, total):
                done += stored
        except HalfOverflowError:
            # Some value exceeds float16's 65504, here or at another writer: what is not stored yet goes in as float32.
            store.widen()
            for stored in self._fill(encoder, texts, store, None if total is None else total - done):
                done += stored
        return done

    def _fill(
        self, encoder: Encoder, texts: Iterable[Text], store: ActivationStore, total: int | None
    ) -> Iterator[int]:
        """The number of texts of each batch, when it is stored or on its way."""
        # Identified by content, not by an id that two texts could share.
        missing = (Text(text_key(text).hex(), text.words, text.segments) for text in store.missing(texts))
        on_gpu = encoder.device.type == "cuda"
        shard_bytes = self._shard_bytes or (GPU_SHARD_BYTES if on_gpu else SHARD_BYTES)
        label = f"encoding with {encoder.name}"
        with store.writing(shard_bytes, pinned=on_gpu) as writer, progress(label, total) as advance:
            for packed in encoder.packed(missing, dtype=writer.dtype, room=writer.room, most=writer.most):
                writer.add_packed(packed)
                advance(len(packed.texts))
                yield len(packed.texts)


_TIMED_TEXTS = 64


def extract(
    encoder: Encoder,
    corpus: Corpus,
    *,
    root: str | os.PathLike[str] | None = None,
    engine: Engine | None = None,
    repair: bool = False,
    precision: StatePrecision | None = None,
) -> StoredActivations:
    """The states of every text of the corpus, encoding only what is not stored yet.

    Args:
        encoder: the encoder.
        corpus: the texts to encode.
        root: where stores are kept; `lamina.activations.default_root()` by default.
        engine: where to encode; this machine by default.
        repair: verify all stored shards first, and encode the texts of damaged shards again.
        kept: precision of a new store: float16 by default, bfloat16 for a model that computes in it.
    """
    encoder.refuse(("states",))
    store = ActivationStore.of(encoder, root, precision=precision)
    if repair:
        store.drop(store.damaged())
    missing = check_disk(encoder, corpus, store)
    if missing:  # a complete store need not be writable
        with store.only_once(f"{corpus.fingerprint[:8]}-0-of-1"):
            (engine or ThisMachine()).fill(encoder, corpus, store, total=missing)
    return store.open(corpus)


class EncodingCost(NamedTuple):
    """The expected cost of encoding a corpus."""

    texts: int
    words: int
    tokens: int
    missing_texts: int
    """Texts that are not stored yet and would be encoded."""
    missing_tokens: int
    seconds: float
    """From timing a few texts on this machine."""
    disk_bytes: int


def estimate(
    encoder: Encoder,
    corpus: Corpus,
    *,
    root: str | os.PathLike[str] | None = None,
    precision: StatePrecision | None = None,
) -> EncodingCost:
    """Count the texts and time a few, without storing anything."""
    store = ActivationStore.of(encoder, root, precision=precision)
    texts = words = tokens = 0
    for text in corpus:
        texts, words, tokens = texts + 1, words + len(text.words), tokens + len(encoder.tokenize(text).ids)
    missing_texts = missing_tokens = 0
    for text in store.missing(corpus):
        missing_texts, missing_tokens = missing_texts + 1, missing_tokens + len(encoder.tokenize(text).ids)
    seconds = missing_tokens / _tokens_per_second(encoder, corpus) if missing_tokens else 0.0
    disk = missing_tokens * encoder.layers * encoder.width * store.value_bytes
    return EncodingCost(texts, words, tokens, missing_texts, missing_tokens, seconds, disk)


def _tokens_per_second(encoder: Encoder, corpus: Corpus) -> float:
    sample = list(islice(corpus, _TIMED_TEXTS))
    for _ in encoder.encode(sample[:4]):
        pass  # warm-up; not timed
    start = time.perf_counter()
    done = sum(len(activations.tokens.ids) for activations in encoder.encode(sample))
    return done / (time.perf_counter() - start)
