"""Who does the encoding. This machine for now; another engine (a cluster) is one more class with `fill`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from lamina.activations.store import ActivationStore, text_key
from lamina.activations.writing import SHARD_BYTES, HalfOverflowError
from lamina.encoders import Encoder
from lamina.progress import progress
from lamina.types import Text


class Engine(Protocol):
    """Anything that can bring a store up to date."""

    def fill(self, encoder: Encoder, texts: Iterable[Text], store: ActivationStore, *, total: int | None = None) -> int:
        """Encode and store the texts that are missing; how many there were. `texts` may be read twice."""
        ...


class ThisMachine:
    """Encodes here, on the encoder's own device, writing a shard whenever `shard_bytes` are together."""

    def __init__(self, *, shard_bytes: int = SHARD_BYTES) -> None:
        self._shard_bytes = shard_bytes

    def fill(self, encoder: Encoder, texts: Iterable[Text], store: ActivationStore, *, total: int | None = None) -> int:
        """See `Engine.fill`."""
        # One lock around both tries: no other process may write float16 in between.
        with store.locked():
            try:
                return self._fill(encoder, texts, store, total)
            except HalfOverflowError:
                # Some value is beyond float16's 65504: the whole store is kept in float32, begun anew.
                store.widen()
                return self._fill(encoder, texts, store, total)

    def _fill(self, encoder: Encoder, texts: Iterable[Text], store: ActivationStore, total: int | None) -> int:
        # Known by what they say, not by an id that two texts could share.
        missing = (Text(text_key(text).hex(), text.words, text.segments) for text in store.missing(texts))
        with store.writing(self._shard_bytes) as writer, progress(f"encoding with {encoder.name}", total) as advance:
            done = 0
            for activations in encoder.encode(missing, ordered=False):
                writer.add(bytes.fromhex(activations.text), activations)
                done += 1
                advance()
        return done
