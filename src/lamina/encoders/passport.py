"""The passport of a model: what was tried before its numbers are trusted, and what follows from it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal

import torch
from jaxtyping import Float
from torch import Tensor

from lamina.encoders.contract import Encoder

PASSPORT_VERSION = 2
"""Raised when the same model would get another verdict."""

Verdict = Literal["holds", "fails", "not applicable"]

NEEDS = ("states", "maps", "norms", "windows", "ablation")
"""What a failed check can refuse."""


@dataclass(frozen=True)
class Check:
    """One thing that was tried."""

    name: str
    """Short and stable, as in a column's head."""
    verdict: Verdict
    said: str
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
        reasons = [check.said for check in self.failed if need in check.needed_by]
        if need in ("maps", "norms") and not self.maps and not reasons:
            return "it has no attention heads that look from token to token"
        return "; ".join(reasons) or None

    def describe(self) -> dict[str, Any]:
        """As JSON takes it; `of` reads it back."""
        return asdict(self)

    @classmethod
    def of(cls, said: Mapping[str, Any]) -> Passport:
        """The passport that `describe` wrote."""
        given = {field.name: said[field.name] for field in fields(cls)}
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


def holds(name: str, said: str, measured: float | None = None) -> Check:
    """A check that holds."""
    return Check(name, "holds", said, measured)


def fails(name: str, said: str, needed_by: tuple[str, ...], measured: float | None = None) -> Check:
    """A check that fails, and what is refused for it."""
    # JSON has no infinity.
    number = measured if measured is not None and math.isfinite(measured) else None
    return Check(name, "fails", said, number, needed_by)


def not_applicable(name: str, said: str) -> Check:
    """A check that cannot be made, and why."""
    return Check(name, "not applicable", said)


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
    from lamina.encoders._trial import Trial

    trial = Trial(encoder)
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
    from lamina.encoders._examination import examined

    return examined(encoder)
