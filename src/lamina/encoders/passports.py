"""Passports that are kept: a model is examined once, and known again by its fingerprint."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from threading import Timer
from typing import Any, NamedTuple

from lamina.encoders.contract import Encoder
from lamina.encoders.huggingface import HuggingFaceEncoder
from lamina.encoders.passport import PASSPORT_VERSION, Check, Passport, examine, recognised
from lamina.encoders.placement import running_devices
from lamina.errors import DamagedError, LaminaError, ModelError, WriteError
from lamina.files.checking import read_json, write_json
from lamina.files.places import cache_dir
from lamina.progress import say

_PATIENCE = 1.0
"""Seconds after which an examination is announced."""
_WORDS = {
    "states": "its hidden states",
    "maps": "its attention maps",
    "norms": "the norms of its values",
    "windows": "texts longer than its limit",
    "ablation": "its ablation",
}
"""What a passport can refuse -> how a message names it."""
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


def refuse_needs(passport: Passport, needs: Collection[str]) -> None:
    """Raise a ModelError if a passport refuses something that is needed, with the reason and what works instead."""
    for need in sorted(needs):
        if (why := passport.refuses(need)) is not None:
            works = "; analyses of its states work" if need != "states" and passport.refuses("states") is None else ""
            raise ModelError(f"{passport.model}: {_WORDS[need]} cannot be used: {why.rstrip('.')}{works}")


class Examined(NamedTuple):
    """A model's verdict and its shape: what a card of it shows, once the model itself is gone."""

    passport: Passport
    blocks: int
    heads: int
    width: int
    limit: int

    @classmethod
    def of(cls, encoder: Encoder) -> Examined:
        """Examine the encoder, if it was not yet."""
        return cls(passport_of(encoder), encoder.blocks, encoder.heads, encoder.width, encoder.limit)

    @property
    def where_maps(self) -> str:
        """Which blocks have attention maps, numbered from 1 as in tables.

        Example:
            >>> from lamina.testing import TinyEncoder
            >>> Examined.of(TinyEncoder()).where_maps
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
        "fails": {check.name: check.said for check in passport.failed},
    }


def _path(encoder: Encoder) -> Path:
    devices = running_devices(encoder.model) if isinstance(encoder, HuggingFaceEncoder) else [str(encoder.device)]
    said = [encoder.fingerprint, PASSPORT_VERSION, version("transformers"), version("torch"), *devices]
    return cache_dir() / "passports" / f"{hashlib.sha256(json.dumps(said).encode()).hexdigest()[:32]}.json"


def _read(path: Path, encoder: Encoder) -> Passport | None:
    """The passport that was kept; None where there is none, a damaged one, or one of other numbers."""
    try:
        kept = Passport.of(read_json(path)["passport"])
    except (OSError, DamagedError, LookupError, TypeError, ValueError):
        return None
    if kept.fingerprint != encoder.fingerprint:
        return None
    try:
        same = recognised(kept, encoder)
    except LaminaError:
        return None  # The examination says why.
    if not same:
        say(f"{encoder.name} gives other numbers than when it was examined; it is examined again")
        return None
    return kept


def _examined(path: Path, encoder: Encoder) -> Passport:
    with _announced(f"examining {encoder.name} ..."):
        try:
            passport = examine(encoder)
        except Exception as error:
            # Whatever the code of a model raises.
            said = str(error).strip().splitlines()
            reason = f"{type(error).__name__}: {said[0]}" if said else type(error).__name__
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


def _untried(encoder: Encoder, reason: str) -> Passport:
    """Of an encoder of the user's own that knows only some texts, such as one of stored activations."""
    said = f"it cannot encode texts that lamina makes up ({reason}); try it with lamina.testing.check_encoder"
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
        checks=(Check("examination", "not applicable", said),),
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
