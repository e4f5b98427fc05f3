"""One worker: holds the model, and encodes the texts it is handed into the store."""

from __future__ import annotations

import os
import platform
import traceback
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from lamina import progress
from lamina.activations.extraction import ThisMachine
from lamina.activations.shards import SHARD_BYTES
from lamina.activations.store import ActivationStore
from lamina.encoders.recipes import Recipe, recipe_of
from lamina.errors import LaminaError, ModelError, StoreError

if TYPE_CHECKING:
    from lamina.encoders import Encoder
    from lamina.encoders.passport import Passport
    from lamina.types import Text


@dataclass(frozen=True)
class Job:
    """What all workers of an engine do."""

    recipe: Recipe
    model: str
    """Its name in messages."""
    fingerprint: str
    passport: Passport | None
    folder: Path
    """Of the store."""
    shard_bytes: int = SHARD_BYTES

    @classmethod
    def of(cls, encoder: Encoder, store: ActivationStore, shard_bytes: int = SHARD_BYTES) -> Job:
        """To encode with this encoder into this store."""
        model, folder = encoder.name, store.folder.resolve()
        return cls(recipe_of(encoder), model, encoder.fingerprint, encoder.passport, folder, shard_bytes)


class Worker:
    """See the module. The model is loaded where it works, when the first texts come."""

    def __init__(self, job: Job, device: str, threads: int) -> None:
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

        # Progress is told by whoever hands out the texts.
        os.environ[progress.VARIABLE] = "none"
        torch.set_num_threads(self._threads)
        store = _opened(self._job)
        return _made(self._job, self._device), store


def _opened(job: Job) -> ActivationStore:
    store = ActivationStore(job.folder)
    if not job.folder.is_dir():
        raise StoreError(f"{job.folder} is not to be seen on {platform.node()}; give a --store that all machines share")
    if store.head["fingerprint"] != job.fingerprint:
        raise StoreError(f"{job.folder} on {platform.node()} is the store of another model; share one --store")
    return store


def _made(job: Job, device: str) -> Encoder:
    encoder = job.recipe.make(device)
    if encoder.fingerprint != job.fingerprint:
        raise ModelError(
            f"{job.model} is another model on {platform.node()} than here (weights, tokenizer or settings differ); use "
            "the same files and the same versions of transformers on all machines"
        )
    encoder.passport = job.passport
    return encoder
