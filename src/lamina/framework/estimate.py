"""Time, memory and disk space of an analysis before it runs: one estimator for all, and nothing is tried.

Costs are counts (texts, tokens, steps, probes) times rates. What is counted becomes billions of operations, and the
profile of this machine says how many CPU seconds those take; wall time follows from the cores that are
free. Encoding is counted apart, since texts that are stored already are not encoded again. After a run, what was
foreseen and what it took stand in its provenance, and the profile learns from it.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from functools import cache
from importlib.resources import files
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import torch

from lamina.activations import ActivationStore
from lamina.activations.runtime import ENCODED, Runtime
from lamina.activations.store import default_precision
from lamina.corpora import Corpus, Splits
from lamina.corpora.corpus import TextCount
from lamina.errors import LaminaError
from lamina.files.checking import cache_dir, read_json, write_json
from lamina.framework.declare import Query
from lamina.framework.passports import needs_of
from lamina.models import Encoder
from lamina.progress import Stopwatch, cpu_seconds, memory_now
from lamina.types import Text

ENCODING = "encoding"
"""The name that the rate of encoding has among those of analyses."""
FACTOR = 2.0
"""By how much an estimate may be off before its rate is measured again."""
_SHORTEST = 1.0
"""CPU seconds that a run takes at least for its rate to be worth keeping."""
_ALONE = 0.8
"""Cores that a run has at least where nothing keeps it from running."""
_DEFAULT = 0.02
"""CPU seconds per billion operations of an analysis that was never measured."""


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
    operations: float = 0.0
    """Billions, of the run that `seconds` are of."""

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
        run = Rate(took / operations, cores, foreseen, took, 1, datetime.now(UTC).date().isoformat(), operations)
        if before is not None:
            # Of a much smaller run, what does not grow with the input is most: its rate would be too high for others.
            better = run if run.off > FACTOR and operations >= before.operations / FACTOR else before
            run = replace(run, seconds=better.seconds, operations=better.operations)
            run = replace(run, cores=max(run.cores, before.cores), runs=before.runs + 1)
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
        >>> reference("encoding") < reference("an analysis that was never measured")
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


_SAMPLED = 200
"""Texts of which tokens are counted; of all others words are."""
_PER_WORD = 1.3
"""Tokens of a word where no model says how many."""


@dataclass(frozen=True)
class Cost:
    """Cost of an analysis on this machine.

    Example:
        >>> print(Cost(passes=2, texts=1000, tokens=20_000, seconds=41.2, cpu=80.3, memory=10**9, disk=7 * 10**7))
        passes   2
        texts    1,000
        tokens   20,000
        steps    0
        CPU time about 80 s
        time     about 41 s on this machine, as busy as it is now
        memory   about 1.0 GB
        disk     about 70 MB
    """

    passes: int = 1
    """How often the texts go through a model; a model and its twin are two."""
    texts: int = 0
    tokens: int = 0
    """In one pass."""
    steps: int = 0
    """Of training, in all."""
    seconds: float = 0.0
    """Wall time, on the cores that are free now."""
    memory: int = 0
    """Peak memory of the process, in bytes."""
    disk: int = 0
    """Bytes of activations that are not stored yet."""
    states: tuple[str, ...] = ()
    """Where states are stored (disk or memory), and why; one entry per case."""
    cpu: float = 0.0
    """CPU seconds: they do not depend on what else runs."""
    work: float = 0.0
    """Billions of operations of the analysis whose seconds are not counted yet."""

    def __add__(self, other: Cost) -> Cost:
        """The cost of one after the other."""
        return Cost(
            self.passes + other.passes,
            self.texts + other.texts,
            self.tokens + other.tokens,
            self.steps + other.steps,
            self.seconds + other.seconds,
            max(self.memory, other.memory),
            self.disk + other.disk,
            tuple(dict.fromkeys((*self.states, *other.states))),
            self.cpu + other.cpu,
            self.work + other.work,
        )

    def __str__(self) -> str:
        lines = {
            "passes": f"{self.passes:,}",
            "texts": f"{self.texts:,}",
            "tokens": f"{self.tokens:,}",
            "steps": f"{self.steps:,}",
            "CPU time": f"about {max(1, round(self.cpu)):,} s",
            "time": f"about {max(1, round(self.seconds)):,} s on this machine, as busy as it is now",
            "memory": f"about {self.memory / 1e9:.1f} GB",
            "disk": f"about {self.disk / 1e6:,.0f} MB",
        }
        rows = [*lines.items(), *(("states", states) for states in self.states)]
        return "\n".join(f"{name:<8} {value}" for name, value in rows)


def estimate(query: Query) -> Cost:
    """The cost of running a query."""
    return Estimator(query).cost()


class _StatesPlan(NamedTuple):
    """How many tokens are encoded, and where their states are stored."""

    tokens: int
    memory: int
    """Bytes in memory."""
    disk: int
    """Bytes on disk."""
    states: tuple[str, ...]
    """In words."""


class Estimator:
    """Counts the data and the work of a query; runs nothing."""

    def __init__(self, query: Query) -> None:
        self._query = query
        self.runtime: Runtime = query.runtime
        arguments = query.loaded.arguments
        # Of the models of several seeds, the first stands for all.
        models = (one for argument in arguments for one in (argument if isinstance(argument, tuple) else (argument,)))
        self._encoder = next((one for one in models if isinstance(one, Encoder)), None)
        self._data = next((argument for argument in arguments if isinstance(argument, Corpus | Splits)), None)
        self.profile = profile_of(self._encoder, self.runtime.training_device)

    def cost(self) -> Cost:
        """The cost of the query."""
        counted = self.counted()
        rate = self.profile.rate(self._query.analysis.name)
        cpu = counted.cpu + rate.seconds * counted.work
        # A model that is not loaded for its estimate will be for its answer.
        memory = counted.memory + max(0, getattr(self._encoder, "memory", 0) - memory_now())
        wall = wall_seconds(cpu, rate.cores or torch.get_num_threads())
        return replace(counted, cpu=cpu, work=0.0, seconds=wall, memory=memory)

    def counted(self) -> Cost:
        """The work of the query: operations that the profile has a rate for, and CPU seconds of what else is done."""
        count = self._query.analysis.cost_function
        if count is None:
            return self.reading()
        return count(self, *self._query.loaded.arguments, **self._query.settings)

    @property
    def per_token(self) -> float:
        """Billions of operations that one token takes in the model."""
        return operations_of(self._encoder)

    def count(self, texts: Iterable[Text] | None = None) -> tuple[int, int]:
        """Texts and tokens, of all the data by default; tokens are counted in some of the texts."""
        if texts is None:
            sizes = [self.count(corpus) for corpus in _corpora(self._data)]
            return sum(size[0] for size in sizes), sum(size[1] for size in sizes)
        counted = _words_of(texts)
        return counted.texts, round(counted.words * self._tokens_of_a_word(counted.sample))

    def items(self, texts: Corpus, most: int) -> tuple[int, int]:
        """Texts and tokens of a part of a corpus."""
        there, tokens = self.count(texts)
        count = min(most, there)
        return count, round(tokens * count / max(1, there))

    def tokens_of_words(self, sentences: Iterable[str]) -> float:
        """How many tokens a word of some sentences has."""
        return self._tokens_of_a_word([Text("", tuple(written.split())) for written in islice(sentences, _SAMPLED)])

    def reading(self, *, passes: float = 1, grows: int = 0, data: Corpus | Splits | None = None) -> Cost:
        """The cost of an analysis whose work grows with the tokens it reads.

        Args:
            passes: how often the texts go through a model.
            grows: bytes that are held for each token.
            data: what is really read, where that is less than the data given.
        """
        if data is not None:
            self._data = data
        if self._encoder is None or self._data is None:
            # One sentence, or saved results: as long whatever they are.
            return Cost(passes=round(passes), texts=1, work=1.0, memory=memory_now())
        texts, tokens = self.count()
        read = Cost(round(passes), texts, tokens, work=passes * tokens * self.per_token)
        read = replace(read, memory=memory_now() + grows * tokens)
        if needs_of(self._query.analysis, self._query.settings) != ("states",):
            return read
        encoders = [self._encoder]
        if self._query.settings.get("twin") and self._encoder.blocks:
            encoders.append(self._encoder.random_twin(int(self._query.settings.get("seed") or 0)))
        encoded = self.encoding(_corpora(self._data), encoders)
        memory = max(read.memory, encoded.memory + grows * tokens)
        return replace(read, cpu=encoded.cpu, memory=memory, disk=encoded.disk, states=encoded.states)

    def encoding(self, corpora: Iterable[Corpus], encoders: Iterable[Encoder]) -> Cost:
        """Cost of encoding texts that are not stored yet."""
        corpora, named = list(corpora), {encoder.fingerprint: encoder for encoder in encoders}
        texts, tokens = map(sum, zip(*(self.count(corpus) for corpus in corpora), strict=True))
        plan = self._plan(tokens, self._missing(named, corpora), named)
        cpu = plan.tokens * self.per_token * self.profile.rate(ENCODING).seconds
        memory = memory_now() + plan.memory
        return Cost(len(named), texts, tokens, memory=memory, disk=plan.disk, states=plan.states, cpu=cpu)

    def training(self, steps: int, operations: float) -> Cost:
        """Cost of that many training steps; `operations` are those of all steps, in billions."""
        return Cost(passes=0, steps=steps, work=operations, memory=memory_now())

    def _tokens_of_a_word(self, sample: Sequence[Text]) -> float:
        words = sum(len(text.words) for text in sample)
        if self._encoder is None or not words:
            return 1.0
        return sum(len(self._encoder.tokenize(text).ids) for text in sample) / words

    def _missing(self, encoders: Mapping[str, Encoder], corpora: Iterable[Corpus]) -> dict[str, int]:
        """Fingerprint -> tokens that are not stored yet."""
        missing = dict.fromkeys(encoders, 0)
        for corpus in corpora:
            for fingerprint, encoder in encoders.items():
                store = ActivationStore.existing(encoder, self.runtime.store)
                missing[fingerprint] += self.count(corpus if store is None else store.missing(corpus))[1]
        return missing

    def _plan(self, tokens: int, missing: Mapping[str, int], encoders: Mapping[str, Encoder]) -> _StatesPlan:
        """The plan for `tokens` tokens of each encoder, some of which are `missing` in its store."""
        if not encoders:
            return _StatesPlan(0, 0, 0, ())
        size = {fingerprint: self._token_bytes(encoder) for fingerprint, encoder in encoders.items()}
        need, complete = tokens * sum(size.values()), not any(missing.values())
        chosen = self.runtime.residence(next(iter(encoders.values())), need, complete=complete)
        # States in memory are encoded afresh: reading some of the texts from a store would take longer.
        encoded = sum(missing.values()) if chosen.device is None or complete else tokens * len(encoders)
        disk = sum(missing[fingerprint] * size[fingerprint] for fingerprint in encoders) if chosen.stored else 0
        return _StatesPlan(encoded, need if chosen.device == "cpu" else 0, disk, (chosen.why,))

    def _token_bytes(self, encoder: Encoder) -> int:
        """Bytes of the states of one token, all layers together, in the precision of the store."""
        store = ActivationStore.existing(encoder, self.runtime.store)
        precision = default_precision(encoder) if store is None else store.head["kept"]
        return encoder.layers * encoder.width * getattr(torch, precision).itemsize


_COUNTED: WeakKeyDictionary[Any, TextCount] = WeakKeyDictionary()
"""Corpora that were counted: a report asks for the same one many times."""


def _words_of(texts: Iterable[Text]) -> TextCount:
    try:
        if texts in _COUNTED:
            return _COUNTED[texts]
    except TypeError:
        # Neither a list nor an iterator can be remembered.
        pass
    counted = TextCount.of(texts, _SAMPLED)
    if isinstance(texts, Corpus):
        _COUNTED[texts] = counted
    return counted


def operations_of(encoder: Encoder | None) -> float:
    """Billions of operations that one token takes in a model of this shape: two for each weight of its blocks.

    Example:
        >>> from lamina.testing import TinyEncoder
        >>> operations_of(TinyEncoder()) > 0
        True
    """
    if encoder is None:
        return 1e-6
    # Four products of the width squared for attention, eight for the feed-forward part.
    return 24e-9 * max(encoder.blocks, 1) * encoder.width**2


def profile_of(encoder: Encoder | None, device: str) -> MachineProfile:
    """What is known of this machine with models of an encoder's shape."""
    if encoder is None:
        return MachineProfile.read("no model", "cpu", "float32")
    shape = f"{encoder.blocks} blocks of {encoder.heads} heads, width {encoder.width}"
    place = encoder.device if encoder.device.type != "cpu" else torch.device(device)
    name = "cpu" if place.type == "cpu" else torch.cuda.get_device_name(place)
    return MachineProfile.read(shape, name, default_precision(encoder))


class Foresight:
    """What queries that run together were foreseen to take, and what they took: for provenance and the profile."""

    def __init__(self) -> None:
        self._watch, self._words, self._encoding = Stopwatch(), ENCODED.words, ENCODED.cpu

    def learn(self, queries: Sequence[Query]) -> list[dict[str, float]]:
        """The costs of the queries that have just run, in their order, as provenance has them; empty where unknown."""
        cpu, wall = self._watch.cpu, self._watch.wall
        encoding, words = ENCODED.cpu - self._encoding, ENCODED.words - self._words
        if cpu < _WORTH_COUNTING:
            # Counting would take longer than the run has.
            return [{"cpu_seconds": round(cpu / len(queries), 2)} for _ in queries]
        try:
            estimators = [Estimator(query) for query in queries]
            counts = [estimator.counted() for estimator in estimators]
        except Exception:
            # Whatever cannot be counted was run all the same: an answer is not lost for its estimate.
            return [{"cpu_seconds": round(cpu / len(queries), 2)} for _ in queries]
        names = [query.analysis.name for query in queries]
        parts = [
            count.cpu + estimator.profile.rate(name).seconds * count.work
            for name, estimator, count in zip(names, estimators, counts, strict=True)
        ]
        first = estimators[0].profile
        encoded = words * _PER_WORD * estimators[0].per_token
        foreseen_encoding = first.rate(ENCODING).seconds * encoded
        first.with_run(
            ENCODING, operations=encoded, foreseen=foreseen_encoding, took=encoding, wall=encoding * wall / cpu
        ).save()
        about = []
        for name, estimator, count, part in zip(names, estimators, counts, parts, strict=True):
            # Those that share a pass share what it took.
            share = part / sum(parts) if sum(parts) else 1 / len(parts)
            took = max((cpu - encoding) * share - count.cpu, 0.0)
            profile = estimator.profile.read_again().with_run(
                name, operations=count.work, foreseen=part - count.cpu, took=took, wall=took * wall / cpu
            )
            profile.save()
            about.append({
                "foreseen_cpu_seconds": round(part + foreseen_encoding * share, 2),
                "cpu_seconds": round(cpu * share, 2),
                "seconds": round(wall * share, 2),
            })  # fmt: skip
        return about


_WORTH_COUNTING = 1.0
"""CPU seconds from which on a run is compared with what was foreseen."""


def _corpora(data: Corpus | Splits | None) -> list[Corpus]:
    if isinstance(data, Splits):
        return [data.train, data.scored]
    return [] if data is None else [data]
