"""Time, memory and disk space of an analysis before it runs: one estimator for all.

Seconds come from a trial: the analysis itself is run on two small samples of the data, and what it takes beyond a fixed
part grows with the tokens. Encoding is timed apart, since texts that are stored already are not encoded again. An
analysis whose time does not grow with its data (training) says its steps, and a few of them are timed.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import torch

from lamina.activations import ActivationStore, ReadActivations
from lamina.activations.runtime import Runtime
from lamina.activations.store import default_precision
from lamina.corpora import Corpus, Questions, Splits
from lamina.corpora.question_sets import questions_from
from lamina.errors import InputError
from lamina.framework.declare import Query
from lamina.framework.run import run
from lamina.models import Encoder
from lamina.progress import VARIABLE
from lamina.types import Text

_SMALL, _LARGE = 600, 3000
"""Tokens of the two samples."""
_WARM_UP = 4
"""Texts encoded before anything is timed: the first call is slower."""
_LONG_TRIAL = 20.0
"""Seconds after which one sample has to be enough."""


@dataclass(frozen=True)
class Cost:
    """Cost of an analysis on this machine.

    Example:
        >>> print(Cost(passes=2, texts=1000, tokens=20_000, seconds=41.2, memory=10**9, disk=7 * 10**7))
        passes   2
        texts    1,000
        tokens   20,000
        steps    0
        time     about 41 s on this machine
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
    memory: int = 0
    """Peak memory of the process, in bytes."""
    disk: int = 0
    """Bytes of activations that are not stored yet."""
    states: tuple[str, ...] = ()
    """Where states are stored (disk or memory), and why; one entry per case."""

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
        )

    def __str__(self) -> str:
        lines = {
            "passes": f"{self.passes:,}",
            "texts": f"{self.texts:,}",
            "tokens": f"{self.tokens:,}",
            "steps": f"{self.steps:,}",
            "time": f"about {max(1, round(self.seconds)):,} s on this machine",
            "memory": f"about {self.memory / 1e9:.1f} GB",
            "disk": f"about {self.disk / 1e6:,.0f} MB",
        }
        rows = [*lines.items(), *(("states", states) for states in self.states)]
        return "\n".join(f"{name:<8} {value}" for name, value in rows)


def estimate(query: Query) -> Cost:
    """The cost of running a query."""
    estimator = Estimator(query)
    with _silent():
        if query.analysis.cost_function is None:
            return estimator.trial()
        return query.analysis.cost_function(estimator, *query.loaded.arguments, **query.settings)


@dataclass
class _EncodingTime:
    """Time and tokens of encoding in a trial."""

    seconds: float = 0.0
    tokens: int = 0
    encoders: dict[str, Encoder] = field(default_factory=dict)


@dataclass(frozen=True)
class _TimedRuntime(Runtime):
    """A runtime that times encoding separately."""

    encoded: _EncodingTime = field(default_factory=_EncodingTime)

    def extract(self, encoder: Encoder, corpus: Corpus) -> ReadActivations:
        """See `Runtime.extract`."""
        start = time.perf_counter()
        stored = super().extract(encoder, corpus)
        self.encoded.seconds += time.perf_counter() - start
        self.encoded.tokens += stored.tokens
        self.encoded.encoders[encoder.fingerprint] = encoder
        return stored


@dataclass(frozen=True)
class _TrialRun:
    """Time and tokens of one run on a sample."""

    tokens: int
    seconds: float
    """Without encoding."""
    encoding: float
    encoded: int
    encoders: Mapping[str, Encoder]


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
    """Counts the data of a query, and times small parts of the work."""

    def __init__(self, query: Query) -> None:
        self._query = query
        self.runtime = query.runtime
        arguments = query.loaded.arguments
        # Of the models of several seeds, the first stands for all.
        models = (one for argument in arguments for one in (argument if isinstance(argument, tuple) else (argument,)))
        self._encoder = next((one for one in models if isinstance(one, Encoder)), None)
        self._data = next((argument for argument in arguments if isinstance(argument, Corpus | Splits)), None)

    def count(self, texts: Iterable[Text] | None = None) -> tuple[int, int]:
        """Texts and tokens, of all the data by default."""
        texts = self._texts() if texts is None else texts
        sizes = [self._size(text) for text in texts]
        return len(sizes), sum(sizes)

    def trial(
        self,
        *,
        passes: int = 1,
        grows: int = 0,
        data: Corpus | Splits | None = None,
        settings: Mapping[str, Any] | None = None,
    ) -> Cost:
        """By running the analysis on samples.

        Args:
            passes: how often the texts go through a model.
            grows: bytes that are held for each token.
            data: what is really read, where that is less than the data given.
            settings: to try it with instead of those asked, where a part of the work is counted apart.
        """
        if data is not None:
            self._data = data
        if settings is not None:
            self._query = replace(self._query, settings={**self._query.settings, **settings})
        if self._encoder is None or self._data is None:
            return self._whole(passes)
        texts, tokens = self.count()
        self._warm_up()
        small = self._try(self._data, _SMALL)
        # Small data, or a slow analysis: one sample is enough.
        enough = small.tokens >= tokens or small.seconds + small.encoding > _LONG_TRIAL
        large = small if enough else self._try(self._data, _LARGE)
        rate, fixed = _line(small, large)
        encoding = large.encoding / large.encoded if large.encoded else 0.0
        plan = self._plan(tokens, self._missing(large.encoders), large.encoders)
        return Cost(
            passes=passes,
            texts=texts,
            tokens=tokens,
            seconds=fixed + rate * tokens + encoding * plan.tokens,
            memory=memory_now() + plan.memory + grows * tokens,
            disk=plan.disk,
            states=plan.states,
        )

    def encoding(self, corpora: Iterable[Corpus], encoders: Iterable[Encoder]) -> Cost:
        """Cost of encoding texts that are not stored yet."""
        corpora, named = list(corpora), {encoder.fingerprint: encoder for encoder in encoders}
        texts, tokens = map(sum, zip(*(self.count(corpus) for corpus in corpora), strict=True))
        plan = self._plan(tokens, self._missing(named, corpora), named)
        rate = self._encoding_rate(next(iter(named.values())), corpora[0]) if plan.tokens else 0.0
        memory = memory_now() + plan.memory
        return Cost(len(named), texts, tokens, 0, rate * plan.tokens, memory, plan.disk, plan.states)

    def training(self, steps: int, step_seconds: float) -> Cost:
        """Cost of that many training steps."""
        return Cost(passes=0, steps=steps, seconds=steps * step_seconds, memory=memory_now())

    def _whole(self, passes: int) -> Cost:
        """Cost of reading one sentence or saved results, by running the whole: faster than a trial."""
        start = time.perf_counter()
        with tempfile.TemporaryDirectory() as store:
            result = run(replace(self._query, runtime=Runtime(Path(store), self.runtime.device)))
        del result
        return Cost(passes=passes, texts=1, seconds=time.perf_counter() - start, memory=memory_now())

    def _texts(self) -> Iterator[Text]:
        for corpus in _corpora(self._data):
            yield from corpus

    def _size(self, text: Text) -> int:
        return len(self._encoder.tokenize(text).ids) if self._encoder else len(text.words)

    def _warm_up(self) -> None:
        if self._encoder is not None:
            for _ in self._encoder.encode(list(islice(self._texts(), _WARM_UP))):
                pass

    def _try(self, data: Corpus | Splits, tokens: int) -> _TrialRun:
        """A run on about `tokens` tokens of each part of the data; on more if the analysis refuses so few."""
        _, there = self.count()
        while True:
            sample = self._sample(data, tokens)
            arguments = tuple(
                sample if argument is self._query_data() else argument for argument in self._query.loaded.arguments
            )
            with tempfile.TemporaryDirectory() as store:
                runtime = self._timed(Path(store), self._encoder, there)
                loaded = replace(self._query.loaded, arguments=arguments)
                start = time.perf_counter()
                try:
                    run(replace(self._query, loaded=loaded, runtime=runtime))
                except InputError:
                    if tokens >= there:
                        raise
                    tokens *= 4
                    continue
                took = time.perf_counter() - start
            sampled = sum(self._size(text) for corpus in _corpora(sample) for text in corpus)
            encoded = runtime.encoded
            return _TrialRun(sampled, took - encoded.seconds, encoded.seconds, encoded.tokens, encoded.encoders)

    def _query_data(self) -> Corpus | Splits | None:
        return next(
            (argument for argument in self._query.loaded.arguments if isinstance(argument, Corpus | Splits)), None
        )

    def _sample(self, data: Corpus | Splits, tokens: int) -> Corpus | Splits:
        if isinstance(data, Splits):
            return Splits(self._part(data.train, tokens), self._part(data.scored, tokens))
        return self._part(data, tokens)

    def _part(self, corpus: Corpus, tokens: int) -> Corpus:
        """Texts from all over the corpus, in its order."""
        every = max(1, self.count(corpus)[1] // tokens)
        if isinstance(corpus, Questions):
            some = [question for number, question in enumerate(corpus.questions()) if number % every == 0]
            return questions_from(some, corpus.name, corpus.split)
        texts = [text for number, text in enumerate(corpus) if number % every == 0]
        return replace(corpus, source=lambda: iter(texts), fingerprint=f"{corpus.fingerprint}/{every}")

    def _missing(self, encoders: Mapping[str, Encoder], corpora: Iterable[Corpus] | None = None) -> dict[str, int]:
        """Fingerprint -> tokens that are not stored yet."""
        looked_at = _corpora(self._data) if corpora is None else corpora
        missing = {}
        for fingerprint, encoder in encoders.items():
            store = ActivationStore.existing(encoder, self.runtime.store)
            texts = (text for corpus in looked_at for text in (corpus if store is None else store.missing(corpus)))
            missing[fingerprint] = sum(len(encoder.tokenize(text).ids) for text in texts)
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

    def _timed(self, store: Path, encoder: Encoder | None, tokens: int) -> _TimedRuntime:
        """A runtime for a trial that stores states where the states of all `tokens` would be stored."""
        keep = self.runtime.keep
        if encoder is not None:
            chosen = self.runtime.residence(encoder, tokens * self._token_bytes(encoder))
            keep = True if chosen.device is None else keep
        return _TimedRuntime(store, self.runtime.device, keep=keep)

    def _encoding_rate(self, encoder: Encoder, corpus: Corpus) -> float:
        """Seconds per token, including the time to store states."""
        sample = self._part(corpus, _LARGE)
        for _ in encoder.encode(list(islice(sample, _WARM_UP))):
            pass
        with tempfile.TemporaryDirectory() as store:
            timed = self._timed(Path(store), encoder, self.count(corpus)[1])
            timed.extract(encoder, sample)
        return timed.encoded.seconds / max(1, timed.encoded.tokens)


def time_call(work: Callable[[], Any]) -> float:
    """Seconds of one call."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def memory_now() -> int:
    """Peak memory of this process so far, in bytes."""
    import resource

    # Linux counts in KB, macOS in bytes.
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak * (1 if os.uname().sysname == "Darwin" else 1024)


def _line(small: _TrialRun, large: _TrialRun) -> tuple[float, float]:
    """Seconds per token, and fixed seconds."""
    if large.tokens <= small.tokens:
        return large.seconds / max(1, large.tokens), 0.0
    rate = max(0.0, (large.seconds - small.seconds) / (large.tokens - small.tokens))
    return rate, max(0.0, large.seconds - rate * large.tokens)


def _corpora(data: Corpus | Splits | None) -> list[Corpus]:
    if isinstance(data, Splits):
        return [data.train, data.scored]
    return [] if data is None else [data]


@contextmanager
def _silent() -> Iterator[None]:
    """A trial shows no progress."""
    before = os.environ.get(VARIABLE)
    os.environ[VARIABLE] = "none"
    try:
        yield
    finally:
        if before is None:
            del os.environ[VARIABLE]
        else:
            os.environ[VARIABLE] = before
