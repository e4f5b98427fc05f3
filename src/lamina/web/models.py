"""The available models: named at the start, or found in the result folders and confirmed; a few stay in memory."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, ClassVar

from lamina.errors import LaminaError, ModelError
from lamina.web.workers import EndpointInWorker, ModelWorker, examined_in

if TYPE_CHECKING:
    from lamina.framework.inputs import Precision
    from lamina.models import Encoder
    from lamina.models.checks.passports import ExaminedModel
    from lamina.web.state import Limits


TWIN = " (random)"
"""What is put behind a model's name for its random twin, as in results."""


class UnknownModelError(ModelError):
    """A model that the server was not started with."""


class UnconfirmedModelError(ModelError):
    """A model of a result folder that is not confirmed yet."""


def load_model(name: str, device: str | None, dtype: Precision, chat: bool) -> Encoder:
    """The model as the app loads it: code that comes with a model is never run."""
    from lamina.models import load_encoder

    return load_encoder(name, device=device, dtype=dtype, chat=chat, trust_remote_code=False)


class Models(ABC):
    """Which models can be asked, under which names."""

    elsewhere: ClassVar[bool]
    """Whether models answer in processes of their own."""

    def __init__(
        self,
        named: Callable[[], Mapping[str, str]],
        *,
        stray: Callable[[], Mapping[str, str]] = dict,
        seeds: Callable[[], Mapping[str, str]] = dict,
    ) -> None:
        """`named` gives name in requests -> what is loaded: an alias, a Hugging Face id or a path.

        `stray` gives the same for models in the result folders, which load once they are confirmed; `seeds` for folders
        with the models of several seeds, which only jobs can take.
        """
        self._named = named
        self._stray = stray
        self._seeds = seeds
        self._confirmed: dict[str, str] = {}
        self._lock = Lock()
        self.importing = Lock()
        """Held while transformers is imported: two threads that import it at once break it."""

    def names(self, *, seeds: bool = False) -> list[str]:
        """All available models; with `seeds`, also the folders with the models of several."""
        return list(dict.fromkeys([*self._named(), *self._stray(), *(self._seeds() if seeds else ())]))

    def source(self, name: str) -> str:
        """What is loaded for a name: an alias, a Hugging Face id or a path."""
        named = self._named()
        if name in named:
            return named[name]
        unnamed = {**self._seeds(), **self._stray()}
        if name not in unnamed:
            raise UnknownModelError(
                f"the model {name!r} was not named when this server was started; there are: "
                f"{', '.join({**named, **unnamed})}. Start it again with --model for others"
            )
        if self.unconfirmed(name):
            raise UnconfirmedModelError(
                f"{name} lies in a result folder and was not named when this server was started; confirm on the page "
                f"that it may be loaded, or start the server again with --model {unnamed[name]}"
            )
        return self._confirmed.get(name, unnamed[name])

    def unconfirmed(self, name: str) -> bool:
        """Whether a user has to confirm the model before it is loaded."""
        named = self._named()
        if name in named or name in self._confirmed:
            return False
        folder = {**self._seeds(), **self._stray()}.get(name)
        # It may have been named by its path.
        return folder is not None and os.path.realpath(folder) not in map(os.path.realpath, named.values())

    def confirm(self, name: str, base: str | None = None) -> None:
        """Let a model of a result folder be loaded from now on; of an adapter, with the base that was shown for it."""
        folder = self.folder(name)
        wanted = base_of(folder)
        if wanted != base:
            raise ModelError(
                f"{name} is an adapter on {wanted!r}; confirm both together" if wanted else f"{name} has no base"
            )
        self._confirmed[name] = f"{base}+{folder}" if base else str(folder)

    def folder(self, name: str) -> Path:
        """Where a model of the result folders is."""
        folder = {**self._seeds(), **self._stray()}.get(name)
        if folder is None:
            raise UnknownModelError(f"there is no model {name!r} in the result folders")
        return Path(folder)

    def twin_of(self, name: str) -> str | None:
        """The model whose random twin is meant by `NAME (random)`; None for any other name."""
        base = name.removesuffix(TWIN)
        return base if base != name and name not in (names := self.names()) and base in names else None

    def refuse_seeds(self, name: str) -> None:
        """An error for a folder with the models of several seeds."""
        if name not in self._named() and name in self._seeds():
            raise ModelError(f"{name} is several models, one per seed; take one of them, such as {name}/seed-0")

    def fingerprint(self, name: str) -> str:
        """The model's fingerprint; a model that has never been loaded is loaded for it."""
        return self._about(name)[1]

    def examined(self, name: str) -> ExaminedModel:
        """The model's passport; a model that has never been loaded is loaded for it."""
        return self._about(name)[0]

    @abstractmethod
    def loaded(self) -> list[str]:
        """The models in memory."""

    @abstractmethod
    def trouble(self, name: str) -> str | None:
        """Why the model could not be loaded when that was last tried; None if it could, or was not tried."""

    @abstractmethod
    def _about(self, name: str) -> tuple[ExaminedModel, str]:
        """Passport and fingerprint."""

    @abstractmethod
    def ask(self, name: str, endpoint: EndpointInWorker, body: Any) -> bytes:
        """What the process of a model answers."""

    @abstractmethod
    def waiting(self) -> dict[str, int]:
        """Model -> its requests that wait or are being answered."""

    @abstractmethod
    def close(self) -> None:
        """End what was started."""


def base_of(folder: Path) -> str | None:
    """The base that an adapter in a folder names, where it is none of the catalogue; None for a whole model."""
    from lamina.models.weights.adapters import foreign_base

    return foreign_base(folder)


class _LoadedModel:
    """One model: loaded once, used by one request at a time."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.encoder: Encoder | None = None


class LoadedModels(Models):
    """Models in this process: loaded by name, and dropped, the least recently used first, when there are too many.

    Example:
        >>> from lamina.testing import TinyEncoder
        >>> models = LoadedModels(lambda: {"tiny": "tiny"}, most=1, load=lambda name: TinyEncoder())
        >>> with models.use("tiny") as encoder:
        ...     encoder.blocks
        2
    """

    elsewhere = False

    def __init__(
        self,
        named: Callable[[], Mapping[str, str]],
        *,
        most: int,
        load: Callable[[str], Encoder],
        stray: Callable[[], Mapping[str, str]] = dict,
        seeds: Callable[[], Mapping[str, str]] = dict,
    ) -> None:
        super().__init__(named, stray=stray, seeds=seeds)
        self._most = most
        self._load = load
        self._slots: OrderedDict[str, _LoadedModel] = OrderedDict()
        self._known: dict[str, tuple[ExaminedModel, str]] = {}
        self._failed: dict[str, str] = {}

    def loaded(self) -> list[str]:
        """See `Models.loaded`."""
        with self._lock:
            return [name for name, slot in self._slots.items() if slot.encoder is not None]

    def trouble(self, name: str) -> str | None:
        """See `Models.trouble`."""
        return self._failed.get(name)

    def ask(self, name: str, endpoint: EndpointInWorker, body: Any) -> bytes:
        """See `Models.ask`; in this process there is no other to ask."""
        raise NotImplementedError

    def waiting(self) -> dict[str, int]:
        """See `Models.waiting`; not counted here."""
        return {}

    def close(self) -> None:
        """See `Models.close`; nothing was started."""

    def _about(self, name: str) -> tuple[ExaminedModel, str]:
        if name not in self._known:
            with self.use(name):
                pass
        return self._known[name]

    @contextmanager
    def use(self, name: str) -> Iterator[Encoder]:
        """The model, for one request at a time: two at once on the same cores would only slow each other.

        `NAME (random)` is the model's twin with random weights.
        """
        base = self.twin_of(name)
        self.refuse_seeds(name)
        source = self.source(base or name)
        slot = self._slot(name)
        with slot.lock:
            if slot.encoder is None:
                with self.importing, self._noting_failure(name):
                    loaded = self._load(source)
                    # The twin of results: drawn with seed 0, embeddings too.
                    slot.encoder = loaded if base is None else loaded.random_twin()
                    self._known[name] = _examined(slot.encoder), slot.encoder.fingerprint
            yield slot.encoder

    @contextmanager
    def _noting_failure(self, name: str) -> Iterator[None]:
        try:
            yield
        except LaminaError as error:
            self._failed[name] = str(error)
            raise
        self._failed.pop(name, None)

    def _slot(self, name: str) -> _LoadedModel:
        with self._lock:
            slot = self._slots.setdefault(name, _LoadedModel())
            self._slots.move_to_end(name)
            while len(self._slots) > self._most:
                # A request that still uses it keeps it in memory until it is done.
                self._slots.popitem(last=False)
            return slot


class ModelWorkers(Models):
    """Models in processes of their own; a request of a model waits for those before it, never for other models."""

    elsewhere = True

    def __init__(
        self,
        named: Callable[[], Mapping[str, str]],
        *,
        start: Callable[[str, str], Mapping[str, Any]],
        limits: Limits,
        stray: Callable[[], Mapping[str, str]] = dict,
        seeds: Callable[[], Mapping[str, str]] = dict,
    ) -> None:
        """`start` gives the first request of a process, from a model's name and what is loaded for it."""
        super().__init__(named, stray=stray, seeds=seeds)
        self._start = start
        self._limits = limits
        self._workers: OrderedDict[str, ModelWorker] = OrderedDict()
        self._known: dict[str, tuple[ExaminedModel, str]] = {}

    def loaded(self) -> list[str]:
        """See `Models.loaded`."""
        with self._lock:
            return [name for name, worker in self._workers.items() if worker.loaded]

    def trouble(self, name: str) -> str | None:
        """See `Models.trouble`."""
        with self._lock:
            worker = self._workers.get(name)
        return None if worker is None else worker.trouble

    def waiting(self) -> dict[str, int]:
        """See `Models.waiting`."""
        with self._lock:
            return {name: worker.waiting for name, worker in self._workers.items() if worker.waiting}

    def ask(self, name: str, endpoint: EndpointInWorker, body: Any) -> bytes:
        """See `Models.ask`."""
        return self._worker(name).ask(endpoint, body)

    def _about(self, name: str) -> tuple[ExaminedModel, str]:
        if name not in self._known:
            try:
                self._known[name] = examined_in(self._worker(name).ask(None, name))
            except (ValueError, LookupError, TypeError) as error:
                raise ModelError(f"the process of {name} gave no passport that can be read ({error})") from None
        return self._known[name]

    def close(self) -> None:
        """See `Models.close`."""
        with self._lock:
            workers = list(self._workers.values())
        for worker in workers:
            worker.close()

    def _worker(self, name: str) -> ModelWorker:
        """The process of a model and its random twin; those used least lately end when there are too many."""
        base = self.twin_of(name) or name
        self.refuse_seeds(base)
        source = self.source(base)
        with self._lock:
            if base not in self._workers:
                self._workers[base] = ModelWorker(base, self._start(base, source), self._limits)
            self._workers.move_to_end(base)
            others = [worker for other, worker in self._workers.items() if other != base and worker.running]
            idle = [worker for worker in others if not worker.waiting]
            for worker in idle[: max(0, len(others) + 1 - self._limits.loaded)]:
                worker.rest()
            return self._workers[base]


def _examined(encoder: Encoder) -> ExaminedModel:
    from lamina.models.checks.passports import ExaminedModel

    return ExaminedModel.of(encoder)
