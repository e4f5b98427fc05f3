"""The available models: named at the start, loaded on first use, a few kept in memory."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from threading import Lock
from typing import TYPE_CHECKING

from lamina.errors import LaminaError, ModelError

if TYPE_CHECKING:
    from lamina.models import Encoder
    from lamina.models.checks.passports import ExaminedModel


TWIN = " (random)"
"""What is put behind a model's name for its random twin, as in results."""


class UnknownModelError(ModelError):
    """A model that the server was not started with."""


class _LoadedModel:
    """One model: loaded once, used by one request at a time."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.encoder: Encoder | None = None


class Models:
    """Loads models by name, and drops the least recently used one when there are too many.

    Example:
        >>> from lamina.testing import TinyEncoder
        >>> models = Models(lambda: {"tiny": "tiny"}, most=1, load=lambda name: TinyEncoder())
        >>> with models.use("tiny") as encoder:
        ...     encoder.blocks
        2
    """

    def __init__(
        self,
        allowed: Callable[[], Mapping[str, str]],
        *,
        most: int,
        load: Callable[[str], Encoder],
        seeds: Callable[[], Mapping[str, str]] = dict,
    ) -> None:
        """`allowed` gives name in requests -> what is loaded: an alias, a Hugging Face id or a path.

        `seeds` gives the same for folders with the models of several seeds, which only jobs can take.
        """
        self._allowed = allowed
        self._seeds = seeds
        self._most = most
        self._load = load
        self._lock = Lock()
        self.importing = Lock()
        """Held while transformers is imported: two threads that import it at once break it."""
        self._slots: OrderedDict[str, _LoadedModel] = OrderedDict()
        self._examined: dict[str, ExaminedModel] = {}
        self._fingerprints: dict[str, str] = {}
        self._failed: dict[str, str] = {}

    def names(self, *, seeds: bool = False) -> list[str]:
        """All available models; with `seeds`, also the folders with the models of several."""
        return [*self._allowed(), *(self._seeds() if seeds else ())]

    def loaded(self) -> list[str]:
        """The models in memory."""
        with self._lock:
            return [name for name, slot in self._slots.items() if slot.encoder is not None]

    def twin_of(self, name: str) -> str | None:
        """The model whose random twin is meant by `NAME (random)`; None for any other name."""
        base = name.removesuffix(TWIN)
        return base if base != name and name not in self._allowed() and base in self._allowed() else None

    def fingerprint(self, name: str) -> str:
        """The model's fingerprint; a model that has never been loaded is loaded for it."""
        if name not in self._fingerprints:
            with self.use(name):
                pass
        return self._fingerprints[name]

    def trouble(self, name: str) -> str | None:
        """Why the model could not be loaded when that was last tried; None if it could, or was not tried."""
        return self._failed.get(name)

    def source(self, name: str) -> str:
        """What is loaded for a name: an alias, a Hugging Face id or a path."""
        allowed = {**self._seeds(), **self._allowed()}
        if name not in allowed:
            raise UnknownModelError(
                f"the model {name!r} was not named when this server was started; there are: {', '.join(allowed)}. "
                "Start it again with --model for others"
            )
        return allowed[name]

    @contextmanager
    def use(self, name: str) -> Iterator[Encoder]:
        """The model, for one request at a time: two at once on the same cores would only slow each other.

        `NAME (random)` is the model's twin with random weights.
        """
        base = self.twin_of(name)
        source = self.source(base or name)
        if name in self._seeds():
            raise ModelError(f"{name} is several models, one per seed; take one of them, such as {name}/seed-0")
        slot = self._slot(name)
        with slot.lock:
            if slot.encoder is None:
                with self.importing, self._noting_failure(name):
                    loaded = self._load(source)
                    # The twin of results: drawn with seed 0, embeddings too.
                    slot.encoder = loaded if base is None else loaded.random_twin()
                    self._examined[name] = _examined(slot.encoder)
                    self._fingerprints[name] = slot.encoder.fingerprint
            yield slot.encoder

    def examined(self, name: str) -> ExaminedModel:
        """The model's passport; a model that has never been loaded is loaded for it."""
        if name not in self._examined:
            with self.use(name):
                pass
        return self._examined[name]

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


def _examined(encoder: Encoder) -> ExaminedModel:
    from lamina.models.checks.passports import ExaminedModel

    return ExaminedModel.of(encoder)
