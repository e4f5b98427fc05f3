"""Dealing texts to workers by rank; a worker that dies is replaced, and gets its texts again."""

from __future__ import annotations

import os
import platform
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

from lamina import progress
from lamina.activations.extraction import ThisMachine
from lamina.activations.ranks import rank_of
from lamina.activations.shards import SHARD_BYTES
from lamina.activations.store import ActivationStore
from lamina.errors import LaminaError, ModelError, StoreError
from lamina.models.running.reloading import EncoderLoader, loader_of
from lamina.progress import Advance, say
from lamina.types import Text, text_key

if TYPE_CHECKING:
    from lamina.models import Encoder
    from lamina.models.checks.passports import Passport


_MOST_TEXTS = 2048
"""Texts that a worker gets at once; also what it does again after a worker died."""
_LEAST_TEXTS = 64
_WAITING = 2
"""Hands of texts read ahead for each worker."""
_MOST_DEATHS = 3
"""Of workers of one rank in a row, until it is given up."""

Task = Callable[[], object]
"""Work without arguments, done for what it writes."""


class Reply(NamedTuple):
    """What came back from a worker."""

    rank: int
    died: str | None
    """How it ended, if it did."""


class Crew(Protocol):
    """Workers by rank, from 0."""

    size: int

    def send(self, rank: int, texts: list[Text]) -> None:
        """Have the worker of a rank encode some texts; it has done all that it was sent before."""
        ...

    def reply(self) -> Reply:
        """The next reply, waited for; an error that a worker had is raised."""
        ...

    def replace(self, rank: int) -> None:
        """A new worker in the place of one that died."""
        ...


def deal(missing: Iterable[Text], crew: Crew, total: int | None, advance: Advance) -> int:
    """Have all texts encoded by the workers of their ranks; returns their number.

    The texts are a stream: only a few hands for each worker are in memory.
    """
    hands = _hands(missing, crew.size, _hand_size(total, crew.size))
    waiting: list[deque[list[Text]]] = [deque() for _ in range(crew.size)]
    busy: dict[int, list[Text]] = {}
    deaths = [0] * crew.size
    done, more = 0, True
    while True:
        while more and sum(map(len, waiting)) < _WAITING * crew.size:
            dealt = next(hands, None)
            if dealt is None:
                more = False
            else:
                waiting[dealt[0]].append(dealt[1])
        for rank, ready in enumerate(waiting):
            if ready and rank not in busy:
                busy[rank] = ready.popleft()
                crew.send(rank, busy[rank])
        if not busy:
            return done
        rank, died = crew.reply()
        if died is None:
            texts = busy.pop(rank)
            deaths[rank] = 0
            done += len(texts)
            advance(len(texts))
        else:
            deaths[rank] += 1
            _refuse_dying(rank, died, deaths[rank])
            crew.replace(rank)
            crew.send(rank, busy[rank])


def _refuse_dying(rank: int, died: str, times: int) -> None:
    if times >= _MOST_DEATHS:
        raise StoreError(
            f"worker {rank} died {times} times in a row ({died}); what was stored is kept. The usual cause is too "
            "little memory: give fewer --workers, and run the same command again"
        )
    say(f"worker {rank} died ({died}); it is replaced, and its texts are encoded again")


def _hand_size(total: int | None, ranks: int) -> int:
    if total is None:
        return _MOST_TEXTS
    return min(_MOST_TEXTS, max(_LEAST_TEXTS, total // (2 * ranks)))


def _hands(texts: Iterable[Text], ranks: int, size: int) -> Iterator[tuple[int, list[Text]]]:
    """Some texts of one rank at a time, without what encoding does not need."""
    gathered: list[list[Text]] = [[] for _ in range(ranks)]
    for text in texts:
        rank = rank_of(text_key(text), ranks, within=True)
        gathered[rank].append(Text(text.id, text.words, text.segments))
        if len(gathered[rank]) == size:
            yield rank, gathered[rank]
            gathered[rank] = []
    yield from ((rank, left) for rank, left in enumerate(gathered) if left)


# One worker: holds the model, and encodes the texts it is handed into the store.


@dataclass(frozen=True)
class EncodingJob:
    """What all workers of an engine do."""

    loader: EncoderLoader
    model: str
    """Its name in messages."""
    fingerprint: str
    passport: Passport | None
    folder: Path
    """Of the store."""
    shard_bytes: int = SHARD_BYTES

    @classmethod
    def of(cls, encoder: Encoder, store: ActivationStore, shard_bytes: int = SHARD_BYTES) -> EncodingJob:
        """To encode with this encoder into this store."""
        model, folder = encoder.name, store.folder.resolve()
        return cls(loader_of(encoder), model, encoder.fingerprint, encoder.passport, folder, shard_bytes)


class Worker:
    """See the module. The model is loaded where it works, when the first texts come."""

    def __init__(self, job: EncodingJob, device: str, threads: int) -> None:
        self._job, self._device, self._threads = job, device, threads

    def encode(self, texts: list[Text]) -> Exception | None:
        """Encode and store those texts that are not stored yet; returns an error that it met.

        One that is not lamina's own comes as text: it may not bear the journey.
        """
        try:
            encoder, store = self._ready
            ThisMachine(shard_bytes=self._job.shard_bytes).fill(encoder, texts, store)
        except LaminaError as error:
            return error
        except Exception:
            return RuntimeError(f"a worker on {platform.node()} failed:\n{traceback.format_exc()}")
        return None

    def pid(self) -> int:
        """The number of its process."""
        return os.getpid()

    @cached_property
    def _ready(self) -> tuple[Encoder, ActivationStore]:
        import torch

        # The process that deals the texts shows the progress.
        os.environ[progress.VARIABLE] = "none"
        torch.set_num_threads(self._threads)
        store = _opened(self._job)
        return _load_encoder(self._job, self._device), store


def _opened(job: EncodingJob) -> ActivationStore:
    store = ActivationStore(job.folder)
    if not job.folder.is_dir():
        raise StoreError(f"{job.folder} is not to be seen on {platform.node()}; give a --store that all machines share")
    if store.head["fingerprint"] != job.fingerprint:
        raise StoreError(f"{job.folder} on {platform.node()} is the store of another model; share one --store")
    return store


def _load_encoder(job: EncodingJob, device: str) -> Encoder:
    encoder = job.loader.make(device)
    if encoder.fingerprint != job.fingerprint:
        raise ModelError(
            f"{job.model} is another model on {platform.node()} than here (weights, tokenizer or settings differ); use "
            "the same files and the same versions of transformers on all machines"
        )
    encoder.passport = job.passport
    return encoder
