"""How fast this machine is: CPU seconds per billion operations, by analysis, measured in real runs and kept.

One file per kind of model, device and dtype lies beside the passports. A rate is measured in the first run that takes
long enough, and again when an estimate was off by more than a factor of two. Where nothing was measured yet, rates of
another model on this machine stand in, or those of the machine that lamina's own estimates were measured on.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from lamina.errors import LaminaError
from lamina.files.checking import read_json, write_json
from lamina.files.places import cache_dir
from lamina.progress import cpu_seconds

ENCODING = "encoding"
"""The name that the rate of encoding has among those of analyses."""
FACTOR = 2.0
"""By how much an estimate may be off before its rate is measured again."""
_SHORTEST = 1.0
"""CPU seconds that a run takes at least for its rate to be worth keeping."""
_ALONE = 0.8
"""Cores that a run has at least where nothing keeps it from running."""
_DEFAULT = 0.02
"""CPU seconds per billion operations of an analysis that nobody has measured."""


@dataclass(frozen=True)
class Rate:
    """What was measured of one analysis."""

    seconds: float
    """CPU seconds per billion operations."""
    cores: float
    """How many cores its runs kept busy at best; 0 where others kept them busy."""
    foreseen: float
    """CPU seconds that were foreseen of the last run ..."""
    took: float
    """... and that it took."""
    runs: int
    measured: str
    """When, as a date."""

    @property
    def off(self) -> float:
        """The factor between what was foreseen of the last run and what it took; NaN where nothing was foreseen.

        Example:
            >>> Rate(0.02, 2.0, 10.0, 25.0, 3, "2026-11-19").off
            2.5
        """
        if not self.foreseen or not self.took:
            return float("nan")
        return max(self.foreseen / self.took, self.took / self.foreseen)


@dataclass(frozen=True)
class MachineProfile:
    """The rates of one kind of model on one device of this machine."""

    model: str
    """Its shape: models of one shape are equally fast."""
    device: str
    dtype: str
    rates: Mapping[str, Rate] = field(default_factory=dict)
    """Analysis -> rate; `encoding` is one of them."""

    @classmethod
    def read(cls, model: str, device: str, dtype: str) -> MachineProfile:
        """The profile that is kept, or an empty one."""
        empty = cls(model, device, dtype)
        return _read(empty.path) or empty

    def read_again(self) -> MachineProfile:
        """The profile as it is kept now."""
        return self.read(self.model, self.device, self.dtype)

    @property
    def path(self) -> Path:
        """Where it is kept; another machine that shares the folder has a file of its own."""
        identity = json.dumps([machine_name(), self.model, self.device, self.dtype])
        return _folder() / f"{hashlib.sha256(identity.encode()).hexdigest()[:32]}.json"

    def rate(self, name: str) -> Rate:
        """The rate of an analysis: measured with this model, with another one here, or elsewhere."""
        if name in self.rates:
            return self.rates[name]
        others = [other for other in profiles() if other.device == self.device and name in other.rates]
        if others:
            return max(others, key=lambda other: other.rates[name].measured).rates[name]
        return Rate(reference(name) * machine_factor(), 0.0, 0.0, 0.0, 0, "")

    def with_run(self, name: str, *, operations: float, foreseen: float, took: float, wall: float) -> MachineProfile:
        """The profile after a run of some billion operations; its rate changes where it was not known, or was off.

        Example:
            >>> profile = MachineProfile("m", "cpu", "float32")
            >>> one = profile.with_run("heads", operations=100, foreseen=9.0, took=4.0, wall=2.0)
            >>> one.rates["heads"].seconds, one.rates["heads"].cores
            (0.04, 2.0)
            >>> near = one.with_run("heads", operations=100, foreseen=4.0, took=5.0, wall=5.0)
            >>> off = one.with_run("heads", operations=100, foreseen=4.0, took=9.0, wall=9.0)
            >>> near.rates["heads"].seconds, off.rates["heads"].seconds
            (0.04, 0.09)
        """
        if took < _SHORTEST or operations <= 0:
            return self
        before = self.rates.get(name)
        # A run that was kept from even one core does not tell how many it can use.
        cores = took / max(wall, 1e-3)
        cores = cores if cores > _ALONE else 0.0
        run = Rate(took / operations, cores, foreseen, took, 1, datetime.now(UTC).date().isoformat())
        if before is not None:
            seconds = run.seconds if run.off > FACTOR else before.seconds
            run = replace(run, seconds=seconds, cores=max(run.cores, before.cores), runs=before.runs + 1)
        return replace(self, rates={**self.rates, name: run})

    def save(self) -> None:
        """Keep it; where that is not possible, the next run measures again."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            content = {"machine": machine_name(), **asdict(self)}
            write_json(self.path, content)
        except (OSError, LaminaError):
            return


def profiles() -> Iterator[MachineProfile]:
    """All profiles of this machine."""
    for path in sorted(_folder().glob("*.json")):
        profile = _read(path)
        if profile is not None and profile.path == path:
            yield profile


def machine_name() -> str:
    """What a profile is of: processor and number of cores."""
    return f"{_processor()}, {os.cpu_count()} cores"


def wall_seconds(cpu: float, cores: float) -> float:
    """Wall time of work that could keep some cores busy, on the cores that are free now.

    Example:
        >>> wall_seconds(8.0, 1.0) >= 8.0
        True
    """
    there = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    cores = min(max(cores, 1.0), there)
    # Cores are shared with what runs beside it.
    return cpu / min(cores, there * cores / (cores + other_load()))


def other_load() -> float:
    """How many threads of others want a core, on average over the last minute."""
    return os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0


def reference(name: str) -> float:
    """CPU seconds per billion operations on the machine that lamina was measured on.

    Example:
        >>> reference("encoding") < reference("an analysis that nobody has measured")
        True
    """
    return float(_reference()["seconds"].get(name, _DEFAULT))


@cache
def machine_factor() -> float:
    """How much slower than the reference a core of this machine multiplies matrices, in a tenth of a second."""
    import torch

    one = torch.full((1024, 1024), 0.5)
    torch.mm(one, one)
    start, times = cpu_seconds(), 0
    while (spent := cpu_seconds() - start) < _MULTIPLIED:
        torch.mm(one, one)
        times += 1
    return spent / times / (2 * 1024**3 / 1e9) / float(_reference()["product"])


_MULTIPLIED = 0.1
"""CPU seconds of matrix products."""


@cache
def _reference() -> dict[str, Any]:
    """What was measured on another machine; `python -m benchmarks.estimates record` writes it."""
    return json.loads(files("lamina.framework").joinpath("reference.json").read_text(encoding="utf-8"))


@cache
def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return named[0] if named else platform.machine()


def _folder() -> Path:
    return cache_dir() / "passports" / "speed"


def _read(path: Path) -> MachineProfile | None:
    try:
        saved = read_json(path)
        rates = {str(name): Rate(**rate) for name, rate in saved["rates"].items()}
        return MachineProfile(saved["model"], saved["device"], saved["dtype"], rates)
    except (OSError, LaminaError, LookupError, TypeError, AttributeError):
        return None
