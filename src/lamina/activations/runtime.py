"""Where data is stored and computations run; affects speed, but never results beyond rounding.

An engine encodes with several processes: one per GPU of this machine, or Ray's workers on any number of machines.
"""

from __future__ import annotations

import gc
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol, get_args, runtime_checkable

import torch

from lamina.activations.extraction import Engine, Residence, check_disk, choose_residence, extract
from lamina.activations.in_memory import (
    DistinctTexts,
    ResidentActivations,
    Shelf,
    StateBlock,
    encode_resident,
    load_resident,
    store_resident,
)
from lamina.activations.reading import ReadActivations
from lamina.activations.shards import HalfOverflowError
from lamina.activations.store import ActivationStore, default_precision
from lamina.activations.workers import Task
from lamina.corpora import Corpus
from lamina.errors import InputError
from lamina.models import Encoder
from lamina.progress import Stopwatch, say


class EncodingMeter:
    """Words that were encoded in this process, and the CPU seconds that took: estimates count encoding separately."""

    def __init__(self) -> None:
        self.words, self.cpu = 0, 0.0

    def add(self, words: int, cpu: float) -> None:
        """Count what was just encoded."""
        self.words, self.cpu = self.words + words, self.cpu + cpu


ENCODED = EncodingMeter()


@dataclass(frozen=True)
class Runtime:
    """Where activations are kept, on which device models and probes run, and which engine encodes.

    Example:
        >>> Runtime(device="cpu").device
        'cpu'
    """

    store: Path | None = None
    """Where activations are kept; LAMINA_STORE or lamina's cache by default."""
    device: str | None = None
    """cpu, cuda or cuda:N; by default a GPU if there is one."""
    engine: Engine | None = None
    """Where to encode; this machine by default."""
    trust_remote_code: bool = False
    """Whether code that comes with a model may run here; never set by a request file or the web app."""
    keep: bool | None = None
    """Whether states are stored: by default on a CPU; on a GPU they are held on the card, or in memory, if they fit."""
    described: bool = False
    """Whether models need not be loaded: an estimate counts with what was kept of them when they last were."""
    shelf: Shelf = field(default_factory=Shelf, repr=False, compare=False)
    """States that are held, for the next analysis with this runtime."""

    def __post_init__(self) -> None:
        if self.engine is not None and self.keep is False:
            raise InputError("the workers of an engine write states to a store; leave out --no-keep, or the engine")

    def extract(self, encoder: Encoder, corpus: Corpus) -> ReadActivations:
        """The states of every text of the corpus; what is stored or held already is not encoded again."""
        store = ActivationStore.existing(encoder, self.store)
        words = sum(len(text.words) for text in (corpus if store is None else store.missing(corpus)))
        watch = Stopwatch()
        read = self._extract(encoder, corpus)
        if words:
            ENCODED.add(words, watch.cpu)
        return read

    def _extract(self, encoder: Encoder, corpus: Corpus) -> ReadActivations:
        if self.residence(encoder, 0).device is None:
            return extract(encoder, corpus, root=self.store, engine=self.engine)
        encoder.refuse(("states",))
        listed = DistinctTexts.of(corpus)
        block = self.shelf.find(encoder, listed)
        if block is None:
            block = self._resident(encoder, corpus, listed)
            if block is None:
                return extract(encoder, corpus, root=self.store)
            self.shelf.add(encoder, block)
        return ResidentActivations(block, listed)

    def residence(self, encoder: Encoder, need: int, *, complete: bool = False) -> Residence:
        """Where states of `need` bytes would live now; `complete` if all are stored."""
        return choose_residence(encoder, need, keep=self.keep, engine=self.engine is not None, complete=complete)

    def _resident(self, encoder: Encoder, corpus: Corpus, listed: DistinctTexts) -> StateBlock | None:
        """The states in one piece on the card or in memory; None if they fit neither."""
        store = ActivationStore.existing(encoder, self.store)
        complete = store if store and next(store.missing(listed.texts.values()), None) is None else None
        if self.keep and complete is None:
            check_disk(encoder, listed.texts.values(), ActivationStore.of(encoder, self.store))
        expected = listed.expected_tokens(encoder)
        precision = getattr(torch, default_precision(encoder) if store is None else store.head["kept"])
        try:
            block = self._settled(encoder, corpus, listed, expected, precision, complete)
        except HalfOverflowError:
            # As in a store: values that float16 cannot represent are kept in float32.
            block = self._settled(encoder, corpus, listed, expected, torch.float32, None)
        if block is not None and self.keep and complete is None:
            store_resident(block, ActivationStore.of(encoder, self.store), listed)
        return block

    def _settled(
        self,
        encoder: Encoder,
        corpus: Corpus,
        listed: DistinctTexts,
        expected: int,
        dtype: torch.dtype,
        complete: ActivationStore | None,
    ) -> StateBlock | None:
        need = expected * encoder.layers * encoder.width * dtype.itemsize
        chosen = self.residence(encoder, need, complete=complete is not None)
        if chosen.device != self.residence(encoder, 0).device:
            # What earlier analyses have held gives way.
            self.shelf.clear()
            gc.collect()
            chosen = self.residence(encoder, need, complete=complete is not None)
        say(f"states of {corpus.name} ({corpus.split}) in {encoder.name} are {chosen.why}")
        if chosen.device is None:
            return None
        if complete is not None:
            return load_resident(complete.open(corpus), listed, chosen.device)
        return encode_resident(encoder, listed, device=chosen.device, dtype=dtype, expected=expected)

    @property
    def training_device(self) -> str:
        """Where probes are trained."""
        if self.device in (None, "auto"):
            return "cuda" if torch.cuda.is_available() else "cpu"
        return self.device


EngineName = Literal["gpus", "ray"]


@runtime_checkable
class RunsTasks(Protocol):
    """An engine that can run other work too, such as the tasks of a probing suite."""

    def run_tasks(self, tasks: list[Task], *, what: str, device: str) -> None:
        """Run functions without arguments, some at once and each in a process of its own; the first error is raised."""
        ...


def engine_named(name: EngineName | None, workers: int | None = None) -> Engine | None:
    """The engine that is called so; None for this process.

    Example:
        >>> engine_named(None) is None, type(engine_named("gpus", 2)).__name__
        (True, 'ProcessEngine')
        >>> engine_named(None, 2)
        Traceback (most recent call last):
        lamina.errors.InputError: --workers is for an engine with workers; give --engine gpus or ray too
    """
    if workers is not None and workers < 1:
        raise InputError(f"there must be at least 1 worker; got {workers}")
    if name is None:
        if workers is not None:
            raise InputError("--workers is for an engine with workers; give --engine gpus or ray too")
        return None
    if name == "gpus":
        from lamina.activations.workers import ProcessEngine

        return ProcessEngine(workers)
    if name == "ray":
        from lamina.activations.workers import RayEngine, import_ray

        import_ray()
        return RayEngine(workers)
    raise InputError(f"there is no engine {name!r}; there are {' and '.join(get_args(EngineName))}")
