"""The passport of a model: the checks that stand beside its numbers, and what they refuse."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, fields, replace
from functools import cached_property, partial
from importlib.metadata import version
from pathlib import Path
from threading import Timer
from typing import Any, Literal, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from lamina import assets
from lamina.errors import DamagedError, LaminaError, ModelError, WriteError
from lamina.files.checking import cache_dir, read_json, write_json
from lamina.models.contract import SHARE, TOLERANCE, Activations, Encoder, apart
from lamina.models.loading import model_folder
from lamina.models.running.devices import choose_device, running_devices
from lamina.models.running.huggingface import FORMAT, HuggingFaceEncoder
from lamina.models.running.tokens import InputFormat, WordTokenizer
from lamina.models.weights.hub import parse_name
from lamina.progress import memory_now, say
from lamina.types import Text


def _text(name: str, words: str) -> Text:
    return Text(name, tuple(words.split()))


PLAIN = _text("plain", "the quick fox and the lazy dogs barked at nobody .")
TURNED = _text("turned", "the lazy dogs barked at nobody . quick fox and the")
"""As long as the plain one, in other words."""
LONGER = _text("longer", f"{' '.join(PLAIN.words)} while the rain fell on the old river bank all night long .")
SHORT = _text("short", "who barked")
CHANGED = (3, 6, 10)
"""Words from which on the plain text is replaced, to see what depends on them ..."""
_OTHERS = _text("others", "rain fell on old river bank all night long who far").words
"""... and what it is replaced by."""


class EncoderTrial:
    """The runs of one encoder, each made when it is first needed."""

    def __init__(self, encoder: Encoder) -> None:
        self.encoder = encoder
        self.texts = {text.id: self._fitting(text) for text in (PLAIN, TURNED, LONGER, SHORT)}

    def _fitting(self, text: Text) -> Text:
        """The text without its last words where the model takes fewer tokens."""
        words = text.words
        # The longer text stays longer than the plain one.
        limit = self.encoder.limit if text is LONGER else self.encoder.limit - 3
        while len(words) > 1 and len(self.encoder.tokenize(Text(text.id, words)).ids) > limit:
            words = words[:-1]
        return Text(text.id, words)

    @cached_property
    def dtype(self) -> torch.dtype:
        """The precision of the computation."""
        model = getattr(self.encoder, "model", None)
        return self.encoder.dtype if model is None else model.dtype

    @property
    def bar(self) -> float:
        """The relative error up to which two runs agree."""
        return TOLERANCE[self.dtype]

    def apart(self, one: Tensor, other: Tensor) -> float:
        """How far vectors [layer, token, width], or rows of maps, are apart, relative to their norms."""
        return apart(one, other, SHARE.get(self.dtype, 1.0))

    def differ(self, one: Activations, other: Tensor) -> float:
        """How far the states of a text are from others [token, layer, width]."""
        return self.apart(by_layer(states_of(one)), by_layer(other))

    @cached_property
    def alone(self) -> dict[str, Tensor]:
        """The states [token, layer, width] of the plain text and the short one, each on its own."""
        return {name: states_of(self.encode([self.texts[name]])[0]) for name in ("plain", "short")}

    @cached_property
    def maps(self) -> dict[str, Tensor]:
        """The maps [block, head, token, token] of the plain text and the short one, each on its own."""
        return {name: maps_of(self.encode([self.texts[name]], maps=True)[0]) for name in ("plain", "short")}

    @cached_property
    def has_maps(self) -> bool:
        """Whether there are maps to look at."""
        return bool(self.encoder.heads and self.encoder.map_blocks)

    def encode(self, texts: Sequence[Text], *, maps: bool = False) -> list[Activations]:
        """The encoder's states, or its maps."""
        return list(self.encoder.encode(texts, ("maps",) if maps else ("states",)))

    def changed(self, start: int) -> Text:
        """The plain text with other words from word `at` on."""
        words = self.texts["plain"].words
        return Text(f"changed {start}", (*words[:start], *_OTHERS[: len(words) - start]))


def states_of(activations: Activations) -> Tensor:
    """The states that were asked for."""
    if activations.states is None:
        raise ModelError(f"{activations.text!r}: states were requested but are missing")
    return activations.states


def maps_of(activations: Activations) -> Tensor:
    """The maps that were asked for."""
    if activations.maps is None:
        raise ModelError(f"{activations.text!r}: maps were requested but are missing")
    return activations.maps


def by_layer(states: Tensor) -> Tensor:
    """[layer, token, width]"""
    return states.transpose(0, 1)


PASSPORT_VERSION = 2
"""Raised when the same model would get another verdict."""

Verdict = Literal["holds", "fails", "not applicable"]

NEEDS = ("states", "maps", "norms", "windows", "ablation")
"""What a failed check can refuse."""
_WORDS = {
    "states": "its hidden states",
    "maps": "its attention maps",
    "norms": "the norms of its values",
    "windows": "texts longer than its limit",
    "ablation": "its ablation",
}
"""What a passport can refuse -> how a message names it."""


@dataclass(frozen=True)
class Check:
    """One check and its verdict."""

    name: str
    """Short and stable, as in a column's head."""
    verdict: Verdict
    message: str
    """One sentence, with the number."""
    measured: float | None = None
    """The number that decided; None where there is none."""
    needed_by: tuple[str, ...] = ()
    """Which of `NEEDS` are refused if the check fails."""


@dataclass(frozen=True)
class Passport:
    """The verdict on one model."""

    model: str
    architecture: str
    fingerprint: str
    version: int
    transformers: str
    torch: str
    seconds: float
    causal: bool
    sink: str | None
    """Where attention that no token gets goes to, in words; None if rows sum to 1."""
    maps: tuple[int, ...]
    """Blocks (from 0) that have attention maps."""
    ablatable: tuple[str, ...]
    """Of "attention" (all heads of a block), "heads", "layers"."""
    language_head: Literal["masked", "causal"] | None
    checks: tuple[Check, ...]
    features: tuple[float, ...] = ()
    """A few numbers of the states on a fixed text, to know the model by; see `recognised`."""

    @property
    def failed(self) -> tuple[Check, ...]:
        """The checks that fail."""
        return tuple(check for check in self.checks if check.verdict == "fails")

    def refuses(self, need: str) -> str | None:
        """Why the model cannot be used for `need` (one of `NEEDS`); None if it can."""
        reasons = [check.message for check in self.failed if need in check.needed_by]
        if need in ("maps", "norms") and not self.maps and not reasons:
            return "it has no attention heads that look from token to token"
        return "; ".join(reasons) or None

    def refuse(self, needs: Collection[str]) -> None:
        """Raise a ModelError if something that is needed is refused, with the reason and what works instead."""
        for need in sorted(needs):
            if (why := self.refuses(need)) is not None:
                works = "; analyses of its states work" if need != "states" and self.refuses("states") is None else ""
                raise ModelError(f"{self.model}: {_WORDS[need]} cannot be used: {why.rstrip('.')}{works}")

    def describe(self) -> dict[str, Any]:
        """As JSON takes it; `of` reads it back."""
        return asdict(self)

    @classmethod
    def of(cls, description: Mapping[str, Any]) -> Passport:
        """The passport that `describe` wrote."""
        given = {field.name: description[field.name] for field in fields(cls)}
        checks = tuple(Check(**{**check, "needed_by": tuple(check["needed_by"])}) for check in given["checks"])
        return cls(
            **{
                **given,
                "maps": tuple(given["maps"]),
                "ablatable": tuple(given["ablatable"]),
                "checks": checks,
                "features": tuple(given["features"]),
            }
        )


def holds(name: str, message: str, measured: float | None = None) -> Check:
    """A check that holds."""
    return Check(name, "holds", message, measured)


def fails(name: str, message: str, needed_by: tuple[str, ...], measured: float | None = None) -> Check:
    """A check that fails, and what is refused for it."""
    # JSON has no infinity.
    number = measured if measured is not None and math.isfinite(measured) else None
    return Check(name, "fails", message, number, needed_by)


def not_applicable(name: str, message: str) -> Check:
    """A check that cannot be made, and why."""
    return Check(name, "not applicable", message)


def features(states: Float[Tensor, "token layer width"]) -> tuple[float, ...]:
    """Two numbers per layer that any change of weights moves: the mean norm, and how far along a fixed direction.

    Rounded to four digits: kept passports are compared with a tolerance, not to the last bit.
    """
    layers = states.double().transpose(0, 1)
    signs = torch.arange(states.shape[-1], dtype=torch.double).mul(0.7).cos()
    numbers = torch.stack([layers.norm(dim=-1).mean(-1), (layers @ signs).mean(-1)], dim=1)
    return tuple(float(f"{number:.4g}") for number in numbers.flatten().tolist())


def recognised(passport: Passport, encoder: Encoder) -> bool:
    """Whether a model that has a passport's fingerprint still gives the numbers that it was examined with.

    One forward pass: cheap enough to ask whenever a kept passport is found.

    Example:
        >>> from lamina.testing import TinyEncoder
        >>> passport = examine(TinyEncoder())
        >>> recognised(passport, TinyEncoder()), recognised(passport, TinyEncoder(seed=1))
        (True, False)
    """

    trial = EncoderTrial(encoder)
    now = torch.tensor(features(trial.alone["plain"]), dtype=torch.double).unflatten(0, (-1, 2))
    then = torch.tensor(passport.features, dtype=torch.double)
    if len(then) != now.numel():
        return False
    # Along a direction, numbers cancel: both are compared on the scale of the norms.
    apart = (now - then.unflatten(0, (-1, 2))).abs().amax(1) / now[:, 0].clamp_min(1e-30)
    return bool((apart <= max(trial.bar, 1e-2)).all())


def examine(encoder: Encoder) -> Passport:
    """Try an encoder on a few short texts: about twenty forward passes.

    Example:
        >>> from lamina.testing import TinyEncoder
        >>> passport = examine(TinyEncoder())
        >>> passport.causal, passport.maps, passport.refuses("maps")
        (False, (0, 1), None)
    """
    from lamina.models.checks.examination import examined

    return examined(encoder)


# Stored passports: a model is examined once, and recognised by its fingerprint.

_PATIENCE = 1.0
"""Seconds after which an examination is announced."""
_KNOWN: dict[Path, Passport] = {}
"""Passports read or made in this process."""


def passport_of(encoder: Encoder) -> Passport:
    """The passport of a model, examined the first time; from then on the encoder refuses what the passport refuses.

    Kept under lamina's cache, by fingerprint, device and the versions of what computes the numbers.

    Example:
        >>> from lamina.testing import TinyEncoder
        >>> tiny = TinyEncoder()
        >>> passport_of(tiny).failed, tiny.passport is passport_of(tiny)
        ((), True)
    """
    if encoder.passport is None:
        path = _path(encoder)
        known = _KNOWN.get(path) or _read(path, encoder) or _examined(path, encoder)
        _KNOWN[path] = known
        # The same weights may have been examined under another name.
        encoder.passport = replace(known, model=encoder.name)
    return encoder.passport


class ExaminedModel(NamedTuple):
    """A model's verdict and its shape: what a card of it shows, once the model itself is gone."""

    passport: Passport
    blocks: int
    heads: int
    width: int
    limit: int

    @classmethod
    def of(cls, encoder: Encoder) -> ExaminedModel:
        """Examine the encoder, if it was not yet."""
        return cls(passport_of(encoder), encoder.blocks, encoder.heads, encoder.width, encoder.limit)

    @property
    def where_maps(self) -> str:
        """Which blocks have attention maps, numbered from 1 as in tables.

        Example:
            >>> from lamina.testing import TinyEncoder
            >>> ExaminedModel.of(TinyEncoder()).where_maps
            'attention maps in every block'
        """
        maps = self.passport.maps
        if maps and len(maps) == self.blocks:
            return "attention maps in every block"
        return f"attention maps in {_blocks(maps)} only" if maps else "no attention maps"


def _blocks(numbers: Sequence[int]) -> str:
    listed = ", ".join(str(number + 1) for number in numbers)
    return f"block {listed}" if len(numbers) == 1 else f"blocks {listed}"


def summary(passport: Passport) -> dict[str, Any]:
    """What provenance says of a passport: what fails, and what a reader of its numbers should know.

    Example:
        >>> from lamina.testing import TinyEncoder
        >>> summary(passport_of(TinyEncoder()))["fails"]
        {}
    """
    return {
        "version": passport.version,
        "architecture": passport.architecture,
        "causal": passport.causal,
        "sink": passport.sink,
        "fails": {check.name: check.message for check in passport.failed},
    }


def _path(encoder: Encoder) -> Path:
    devices = running_devices(encoder.model) if isinstance(encoder, HuggingFaceEncoder) else [str(encoder.device)]
    identity = [encoder.fingerprint, PASSPORT_VERSION, version("transformers"), version("torch"), *devices]
    return cache_dir() / "passports" / f"{hashlib.sha256(json.dumps(identity).encode()).hexdigest()[:32]}.json"


def _read(path: Path, encoder: Encoder) -> Passport | None:
    """The passport that was kept; None where there is none, a damaged one, or one of other numbers."""
    try:
        passport = Passport.of(read_json(path)["passport"])
    except (OSError, DamagedError, LookupError, TypeError, ValueError):
        return None
    if passport.fingerprint != encoder.fingerprint:
        return None
    try:
        same = recognised(passport, encoder)
    except LaminaError:
        return None  # The examination says why.
    if not same:
        say(f"{encoder.name} gives other numbers than when it was examined; it is examined again")
        return None
    return passport


def _examined(path: Path, encoder: Encoder) -> Passport:
    with _announced(f"examining {encoder.name} ..."):
        try:
            passport = examine(encoder)
        except Exception as error:
            # Whatever the code of a model raises.
            lines = str(error).strip().splitlines()
            reason = f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
            if not isinstance(encoder, HuggingFaceEncoder):
                return _untried(encoder, reason)
            if isinstance(error, LaminaError):
                raise
            raise ModelError(
                f"{encoder.name} cannot be examined ({reason}), so its numbers cannot be trusted; name another model"
            ) from error
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, {"passport": passport.describe()})
    except (OSError, WriteError):
        pass  # A cache that cannot be written costs an examination next time, nothing else.
    return passport


# Models by what was kept of them when they were last loaded: enough to count with.


@dataclass(frozen=True)
class DescriptionFile:
    """Where the description of a model is kept: one per folder, precision and device, as long as its files stay."""

    path: Path

    @classmethod
    def of(cls, name: str, device: str | None, dtype: str, *, chat: bool) -> DescriptionFile | None:
        """Of an alias or a folder of this machine; None for what takes more to find, such as a model of the hub."""
        parsed, placement = parse_name(name), choose_device(device)
        card = assets.cards().get(parsed.source)
        is_model = card is not None and card.kind == "model" and assets.local_folder(card.name) is not None
        if parsed.base or parsed.revision or placement == "auto" or not (is_model or parsed.is_path):
            return None
        folder = model_folder(parsed.source) if is_model else Path(parsed.source)
        if not (folder / "config.json").is_file():
            return None
        try:
            files = sorted((file.name, *_state(file)) for file in folder.iterdir())
        except OSError:
            return None  # Loading says why.
        identity = [str(folder.resolve()), files, parsed.display_name, placement, dtype, chat, *_versions()]
        digest = hashlib.sha256(json.dumps(identity).encode()).hexdigest()[:32]
        return cls(cache_dir() / "passports" / "models" / f"{digest}.json")

    def read(self, load: Callable[[], Encoder]) -> DescribedModel | None:
        """The model that was described; None where there is no description. `load` loads it."""
        try:
            return DescribedModel(read_json(self.path), load, self)
        except FileNotFoundError:
            return None
        except (OSError, DamagedError, LookupError, TypeError, ValueError):
            with suppress(OSError):
                self.path.unlink()  # To be written again.
            return None

    def keep(self, encoder: Encoder) -> None:
        """Describe a model that was loaded and examined."""
        if type(encoder) is not HuggingFaceEncoder or encoder.passport is None or self.path.exists():
            return
        about: dict[str, Any] = {name: getattr(encoder, name) for name in (*_SHAPE, "fingerprint", "source")}
        about |= {"map_blocks": encoder.map_blocks, "reading": encoder.reading, "rounded": encoder.rounded}
        about |= {"device": str(encoder.device), "dtype": str(encoder.dtype).removeprefix("torch.")}
        about |= {"tokenizer": encoder.word_tokenizer.describe(), "passport": encoder.passport.describe()}
        self.write(about | {"memory": memory_now(), "twins": {}})

    def write(self, description: Mapping[str, Any]) -> None:
        """Keep a description; where that is not possible, the model is loaded every time."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            write_json(self.path, description)
        except (OSError, WriteError):
            return


_SHAPE = ("name", "blocks", "heads", "width", "causal", "limit", "origin")
"""What is kept of a model as it is."""


class DescribedModel(HuggingFaceEncoder):
    """A model by its description: shape, tokenizer, passport. Asked for anything else, it is loaded."""

    def __init__(self, description: Mapping[str, Any], load: Callable[[], Encoder], file: DescriptionFile) -> None:
        self._description, self._load, self._file = dict(description), load, file
        shape = {name: description[name] for name in _SHAPE}
        vars(self).update(shape, _fingerprint=description["fingerprint"])
        self.reading, self.rounded = InputFormat(*description["reading"]), bool(description["rounded"])
        self.dtype, self.memory = getattr(torch, description["dtype"]), int(description["memory"])
        self.word_tokenizer = WordTokenizer.restored(description["tokenizer"])
        self.passport = Passport.of(description["passport"])

    def __getattr__(self, name: str) -> Any:
        load = None if name.startswith("__") else vars(self).pop("_load", None)
        if load is None:
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
        vars(self).update(vars(load()) | vars(self))
        return getattr(self, name)

    @property
    def device(self) -> torch.device:
        """See `Encoder.device`."""
        return torch.device(self._description["device"])

    @property
    def source(self) -> str:
        """See `HuggingFaceEncoder.source`."""
        return self._description["source"]

    @property
    def map_blocks(self) -> tuple[int, ...]:
        """See `Encoder.map_blocks`."""
        return tuple(self._description["map_blocks"])

    def random_twin(self, seed: int = 0, *, keep_embeddings: bool = False) -> HuggingFaceEncoder:
        """See `Encoder.random_twin`; a twin is described from the first time on that it is drawn."""
        draw = partial(super().random_twin, seed, keep_embeddings=keep_embeddings)
        twins, key = self._description["twins"], f"{seed}, embeddings kept" if keep_embeddings else str(seed)
        if key not in twins:
            twin = draw()
            twins[key] = {"name": twin.name, "fingerprint": twin.fingerprint}
            self._file.write(self._description)
            return twin
        return DescribedModel(self._description | twins[key], draw, self._file)


def _state(file: Path) -> tuple[int, int, int]:
    """What changes with a file's content; `cp -p` keeps the date of the content, but not that of the file."""
    about = file.stat()
    return about.st_size, about.st_mtime_ns, about.st_ctime_ns


def _versions() -> tuple[int | str, ...]:
    packages = ("lamina", "transformers", "torch", "tokenizers")
    return (FORMAT, PASSPORT_VERSION, *map(version, packages))


def _untried(encoder: Encoder, reason: str) -> Passport:
    """The passport of a user's encoder that can only encode some texts, such as stored activations."""
    message = f"it cannot encode texts that lamina makes up ({reason}); try it with lamina.testing.check_encoder"
    return Passport(
        model=encoder.name,
        architecture=type(encoder).__name__,
        fingerprint=encoder.fingerprint,
        version=PASSPORT_VERSION,
        transformers=version("transformers"),
        torch=version("torch"),
        seconds=0.0,
        causal=encoder.causal,
        sink=None,
        maps=encoder.map_blocks if encoder.heads else (),
        ablatable=(),
        language_head=None,
        checks=(Check("examination", "not applicable", message),),
    )


@contextmanager
def _announced(text: str) -> Iterator[None]:
    timer = Timer(_PATIENCE, say, (text,))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
