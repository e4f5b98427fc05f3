"""`lamina.grow`: when does a model learn what, and where? Analyses asked at every checkpoint of a training."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Thread
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np
import pandas as pd

from lamina.activations import Runtime
from lamina.comparison.trajectories import (
    SETTLING,
    SIMILARITY,
    Grown,
    LayerVectors,
    Measured,
    Onset,
    Order,
    along,
    bottom_up,
    bounds_of,
    grown,
    measured,
    orders,
    over_seeds,
    some_words,
)
from lamina.corpora import Corpus
from lamina.errors import InputError, LaminaError, ModelError
from lamina.framework.declare import Overview, Query, Table, Tables, analysis
from lamina.framework.estimate import Cost, Estimator
from lamina.framework.inputs import (
    Input,
    LoadedInputs,
    Texts,
    as_corpus,
    as_encoder,
    describe_models,
)
from lamina.framework.passports import refuse_unfit
from lamina.framework.registry import all_analyses, get_analysis, names
from lamina.framework.requests import data_of
from lamina.framework.settings import DeclaredSetting, Samples, Seed, Setting
from lamina.models import Encoder
from lamina.models.language.language_model import has_language_model, language_model
from lamina.models.running.huggingface import HuggingFaceEncoder
from lamina.models.series import Series, SeriesCheckpoint, SeriesFault, folder_of_checkpoint, load_series, series_place
from lamina.models.weights.bounds import weights_files
from lamina.progress import progress
from lamina.results import Result
from lamina.results.finding import Finding, Source, cell, finding, number, rows_of
from lamina.stats.bootstrap import ratio_draws
from lamina.stats.family import sign_flip_family
from lamina.stats.intervals import interval
from lamina.stats.status import SURE, Contrast, status_of
from lamina.stats.units import Units
from lamina.targets.loss import LossTarget
from lamina.tasks import title_of
from lamina.types import Text

GROWTH = ("series", "seed", "step", "tokens", "analysis", "task", "layer", "measure", "value", "low", "high")
ALL, UNTRAINED = "all", "untrained"
"""In place of a training: the mean over trainings with the same steps; the untrained twin."""
_LOSS_WORDS = 1500
"""Words of the fixed text that the loss is measured on."""
_RISE = 0.05
"""Nats that the loss of a later checkpoint may lie above that of an earlier one."""
_MOST_FINDINGS = 8
_MOST_ORDERS = 3


class AuditRow(NamedTuple):
    """One row of `audit.csv`."""

    series: str
    seed: str
    step: int | None
    tokens: int | None
    checkpoint: str
    hash: str
    """Of the weights."""
    distance: float
    """Of the weights to the checkpoint before; NaN for the first of a training."""
    loss: float
    """On the fixed text, in nats per token; NaN of a model without a language-model head."""
    low: float
    high: float
    verdict: str
    """ok, or the kinds of faults."""
    reason: str
    """What is wrong, in sentences."""


class AskedAnalysis(NamedTuple):
    """One analysis with its query of the first checkpoint; those of the others differ in the model alone."""

    name: str
    query: Query

    def of(self, encoder: Encoder) -> Query:
        """The same of another model; its texts and suites are not read again."""
        first, *rest = self.query.loaded.arguments
        swapped: Any = (encoder,) if isinstance(first, list | tuple) else encoder
        loaded = replace(
            self.query.loaded, arguments=(swapped, *rest), model=describe_models((encoder,)), names=(encoder.name,)
        )
        refuse_unfit(self.query.analysis, self.query.settings, loaded.arguments)
        return Query(self.query.analysis, loaded, self.query.settings, self.query.runtime)


@dataclass(frozen=True)
class GrowingModels(Texts):
    """Series of checkpoints, and the texts that analyses of texts are asked about."""

    inputs: ClassVar = (
        Input(
            "series",
            "A folder of checkpoints (checkpoint-100, seed0-step300, ...), or a Hugging Face id with revisions: "
            "OWNER/NAME@step1000,step3000 or OWNER/NAME@step*. Several are asked the same.",
            metavar="SERIES",
            many=True,
        ),
        Input("data", "Texts of a catalogue name or path.", option="--corpus", kind="texts"),
    )

    def load(
        self, given: Mapping[str, Any], options: Mapping[str, Any], settings: Mapping[str, Any], runtime: Runtime
    ) -> LoadedInputs:
        """See `Reads.load`; every analysis is refused here that cannot be asked, before anything is measured."""
        from lamina.corpora.corpus import fingerprint_of

        steps = _steps_given(settings["steps"])
        wanted = _analyses(settings["ask"])
        requests = _requests(wanted, settings["options"])
        sources = given["series"] if isinstance(given["series"], list | tuple) else [given["series"]]
        if not sources:
            raise InputError("name a series: a folder of checkpoints")
        series = [_series_of(one, steps) for one in sources]
        for one in series:
            _refuse_stepless(one)
        texts = as_corpus(given["data"], options, self.split)
        encoder = _first_encoder(series, runtime)
        queries = tuple(
            AskedAnalysis(name, _query(name, requests[name], encoder, given["data"], options, settings, runtime))
            for name in wanted
        )
        fingerprint = fingerprint_of([[checkpoint.hash, checkpoint.step] for one in series for checkpoint in one])
        names_of = " and ".join(one.name for one in series)
        about = {"name": names_of, "fingerprint": fingerprint, "checkpoints": sum(map(len, series))}
        data = texts.describe()
        data |= {"fingerprint": fingerprint_of(data["fingerprint"], [entry.query.question for entry in queries])}
        return LoadedInputs(
            (tuple(series), texts, queries), about, data, (*(one.name for one in series), Path(texts.name).stem)
        )

    def in_report(self, encoder: Encoder, texts: Corpus, train: Corpus | None) -> dict[str, Any] | None:
        """None: a report reads one model."""
        return None


def _steps_given(written: Sequence[str]) -> dict[str, int]:
    steps = {}
    for entry in written:
        name, _, step = entry.partition("=")
        if not name or not step.strip().replace(",", "").isdigit():
            raise InputError(f"--step {entry!r} cannot be read; write CHECKPOINT=STEP, for example seed0=11490")
        steps[name.strip()] = int(step.replace(",", ""))
    return steps


def _refuse_stepless(series: Series) -> None:
    """Raise an InputError where a checkpoint's place on its training is not known."""
    bare = [checkpoint.name for checkpoint in series if checkpoint.step is None]
    if bare:
        raise InputError(
            f"{series.name}: the step of {bare[0]} cannot be read from its name; say it with --step {bare[0]}=STEP"
            + (f" (and of {len(bare) - 1} more)" if len(bare) > 1 else "")
        )


def _analyses(ask: Sequence[str]) -> list[str]:
    """The names, each once, separated by commas or given one by one."""
    names_given = (part.strip().replace("-", "_") for entry in ask for part in entry.split(","))
    return list(dict.fromkeys(filter(None, names_given)))


def _requests(ask: Sequence[str], options: Sequence[str]) -> dict[str, dict[str, str]]:
    """Analysis -> the options given for it, as written."""
    growing = [entry.name for entry in all_analyses() if entry.compares is not None]
    for name in ask:
        if name not in names():
            raise InputError(f"there is no analysis {name!r}; --ask takes {', '.join(growing)}")
        if name not in growing:
            raise InputError(f"{name} has no numbers that are compared, so they cannot be followed; --ask takes "
                             f"{', '.join(growing)}")  # fmt: skip
    if not ask:
        raise InputError(f"name what to ask (--ask): {', '.join(growing)}")
    requests: dict[str, dict[str, str]] = {name: {} for name in ask}
    for entry in options:
        place, _, value = entry.partition("=")
        name, _, option = place.partition(".")
        name, option = name.strip().replace("-", "_"), option.strip().replace("-", "_")
        if not option or not value:
            raise InputError(f"--set {entry!r} cannot be read; write ANALYSIS.NAME=VALUE, for example pairs.limit=20")
        if name not in requests:
            raise InputError(f"--set {entry!r}: {name} is not among what is asked ({', '.join(ask)})")
        requests[name][option] = value
    return requests


def _query(
    name: str,
    request: Mapping[str, str],
    encoder: Encoder,
    data: Any,
    options: Mapping[str, Any],
    settings: Mapping[str, Any],
    runtime: Runtime,
) -> Query:
    """An analysis asked of the first checkpoint: as the default report asks it, without a twin, and as requested."""
    wanted = get_analysis(name)
    inputs = {given.name: given for given in wanted.reads.given}
    if "model" not in inputs:
        raise InputError(f"{name} reads no model, so it cannot be asked of checkpoints")
    if wanted.wants("work"):
        raise InputError(f"{name} writes a model; ask it of one model, not of a series")
    declared = {setting.name: setting for setting in (*wanted.settings.values(), *wanted.options)}
    keywords: dict[str, Any] = dict(wanted.report or {})
    keywords |= {key: value for key, value in (("samples", settings["samples"]), ("seed", settings["seed"]))
                 if key in wanted.settings}  # fmt: skip
    if "twin" in wanted.settings and declared["twin"].item is bool:
        # The untrained model is a checkpoint of its own.
        keywords["twin"] = False
    if "ngrams" in wanted.settings:
        # It would be the same at every checkpoint.
        keywords["ngrams"] = None
    called = data_of(wanted)
    if called is not None and inputs[called].kind == "texts":
        keywords[called] = data
        shared = {option.name for option in wanted.options} & options.keys() - {"dtype", "chat"}
        shared -= {"unit"} | ({"split"} if "split" in options and options["split"] == GrowingModels().split else set())
        keywords |= {key: options[key] for key in shared if options[key] is not None}
    for key, value in request.items():
        if key in inputs and key != "model":
            keywords[key] = value
        elif called is not None and key in ("corpus", "data", "suite"):
            keywords[called] = value
        elif key in declared:
            keywords[key] = _typed(declared[key], value)
        else:
            known = ", ".join([*(key for key in inputs if key != "model"), *declared])
            raise InputError(f"{name} has no option {key!r}; it has: {known}")
    return wanted.ask(model=encoder, runtime=runtime, **keywords)


def _typed(setting: DeclaredSetting, value: str) -> Any:
    """What was written, as the setting takes it."""
    if value.lower() == "none":
        return None
    parts = [part.strip() for part in value.split(",") if part.strip()] if setting.many else [value]
    try:
        if setting.item is bool:
            typed: list[Any] = [
                {"true": True, "yes": True, "false": False, "no": False}[part.lower()] for part in parts
            ]
        else:
            typed = [setting.item(part) if setting.item in (int, float) else part for part in parts]
    except (KeyError, ValueError):
        raise InputError(f"{setting.name} takes {setting.item.__name__}; got {value!r}") from None
    return typed if setting.many else typed[0]


@dataclass(frozen=True)
class SeriesInMemory(Series):
    """Encoders by name, for series that are not on the disk; weights are not compared."""

    encoders_by_name: Mapping[str, Encoder] = field(default_factory=dict)

    @classmethod
    def of(cls, encoders: Mapping[str, Encoder], steps: Mapping[str, int]) -> SeriesInMemory:
        """Names say training and step, as those of folders do."""
        if len(encoders) < 2:
            raise InputError(f"{len(encoders)} models are no series; give at least two, by name (step100, step200)")
        placed = []
        for name, encoder in encoders.items():
            path, step = series_place(name)
            placed.append(SeriesCheckpoint(name, name, path, steps.get(name, step), hash=encoder.fingerprint))
        placed.sort(key=lambda checkpoint: (checkpoint.path, checkpoint.step is None, checkpoint.step or 0))
        return cls("models in memory", tuple(placed), (), dict(encoders))


def _series_of(given: Any, steps: Mapping[str, int]) -> Series:
    if isinstance(given, Series):
        return given
    if isinstance(given, Mapping):
        return SeriesInMemory.of(given, steps)
    if not isinstance(given, str | Path):
        raise InputError("a series is a folder of checkpoints, OWNER/NAME@REVISIONS, or encoders by name (a dict)")
    return load_series(given, steps)


def _first_encoder(series: Sequence[Series], runtime: Runtime) -> Encoder:
    """Of the first checkpoint that loads."""
    reason = ""
    for one in series:
        for checkpoint in one:
            try:
                return _encoder(one, checkpoint, runtime)
            except (ModelError, InputError) as error:
                reason = reason or str(error)
    raise ModelError(f"no checkpoint of {series[0].name} can be loaded: {reason}")


def _encoder(series: Series, checkpoint: SeriesCheckpoint, runtime: Runtime) -> Encoder:
    if isinstance(series, SeriesInMemory):
        return series.encoders_by_name[checkpoint.name]
    encoder = as_encoder(checkpoint.source, {}, runtime)
    encoder.name = checkpoint.name
    return encoder


@analysis(
    title="Growth",
    question="When does a model learn what, and where?",
    method=(
        "Analyses are asked of every checkpoint of a training, on the same texts, and of the untrained model. An "
        "ability begins at the first checkpoint from which on it stays above the untrained model and above chance; it "
        "is known only to lie between two checkpoints. That it is above them at the end is tested for all abilities "
        "and layers as one family (max-T), and intervals of onsets come from the same bootstrap draws of texts at all "
        "checkpoints. Before anything is asked, the series is audited: duplicates, swaps, other trainings, tokenizers "
        "and shapes, weights and losses that do not fit their step."
    ),
    cites=("Romano and Wolf 2005", "Efron and Tibshirani 1993"),
    reads=GrowingModels(),
    version=2,
    tables={
        "growth": Table(
            "One row per series, training (all: the mean over those of the same steps), step, analysis, task, layer "
            "and measure; step 0 is the untrained model.",
            GROWTH,
        ),
        "onsets": Table(
            "One row per series, analysis, task, layer and measure: when it begins and when it is half-way.",
            Onset._fields,
        ),
        "orders": Table("One row per pair of abilities with an onset, of one series.", Order._fields),
        "audit": Table("One row per checkpoint: whether it can be what its name says.", AuditRow._fields),
        "settling": Table(
            "One row per series: the rank correlation of layers with the steps at which they are half-way to what they "
            "are at the end (above 0: lower layers settle first).",
            "series seed first last estimate low high p_adjusted units needed",
        ),
    },
    chapter="abilities",
    charts="lamina.figures.growth",
    example="lamina grow growing_bert --ask probe,pairs --step seed0=11490 --step seed1=10045 --out results/growth",
)
def grow(
    series: Sequence[Series],
    corpus: Corpus,
    queries: Sequence[AskedAnalysis],
    *,
    ask: Annotated[  # noqa: ARG001 - `GrowingModels` makes queries of these
        Sequence[str],
        Setting("Analyses to ask of every checkpoint, separated by commas or repeated.", metavar="NAME,..."),
    ] = ("probe", "geometry"),
    options: Annotated[  # noqa: ARG001
        Sequence[str],
        Setting(
            "An option of one of these analyses: pairs.limit=20, probe.corpus=gum_open.",
            option="--set",
            metavar="ANALYSIS.NAME=VALUE",
        ),
    ] = (),
    steps: Annotated[  # noqa: ARG001
        Sequence[str],
        Setting("The step of a checkpoint whose name does not say it.", option="--step", metavar="CHECKPOINT=STEP"),
    ] = (),
    samples: Samples = 500,
    seed: Seed = 0,
    runtime: Runtime,
    work: Path | None = None,
) -> Tables:
    """Analyses along a training: what is known at which step and layer, when each ability begins, and in which order.

    Any analysis whose results can be compared can be asked. Those of texts read the corpus; others (`pairs`) the data
    that they read by default, or what `--set` says. Settings are those of the default report.

    Example:
        >>> lamina.grow("runs/small", ask=["probe", "pairs"]).tables["onsets"]  # doctest: +SKIP
    """
    texts = some_words(list(corpus))
    parts = [_Growing(one, queries, texts, runtime, samples, seed, work, number) for number, one in enumerate(series)]
    growth, onsets, pairs, audit, settled = [], [], [], [], []
    skipped: Counter[str] = Counter()
    for part in parts:
        part.run()
        growth += part.rows()
        for name, growths in part.growths():
            onsets += [entry.onset for entry in growths]
            pairs += orders(growths)
            upward = bottom_up(growths)
            if upward is not None:
                settled.append((part.series.name, name, upward.first, upward.last, *upward.test))
        audit += part.audit()
        skipped.update(part.skipped)
    settling = pd.DataFrame(settled, columns=list(grow.tables["settling"].columns))
    tables = {
        "growth": pd.DataFrame(growth, columns=list(GROWTH)).astype({"layer": "Int64", "tokens": "Int64"}),
        "onsets": pd.DataFrame(onsets, columns=list(Onset._fields)).astype({"layer": "Int64"}),
        "orders": pd.DataFrame(pairs, columns=list(Order._fields)),
        "audit": pd.DataFrame(audit, columns=list(AuditRow._fields)).astype({"step": "Int64", "tokens": "Int64"}),
        "settling": settling,
    }
    return Tables(tables, skipped, data={"asked": [entry.name for entry in queries]})


class _Growing:
    """One series while it is asked."""

    def __init__(
        self,
        series: Series,
        queries: Sequence[AskedAnalysis],
        texts: Sequence[Text],
        runtime: Runtime,
        samples: int,
        seed: int,
        work: Path | None,
        place: int,
    ) -> None:
        self.series, self._asked, self._texts, self._runtime = series, queries, texts, runtime
        self._samples, self._seed, self._work, self._place = samples, seed, work, place
        self.skipped: Counter[str] = Counter()
        self._results: dict[str, list[Result | None]] = {}
        self._losses: dict[str, _TextLoss] = {}
        self._settling: dict[str, Measured] = {}
        self._faults: list[SeriesFault] = list(series.faults)
        self._odd = {fault.checkpoint for fault in series.faults if fault.kind in ("unreadable", "shape", "tokenizer")}

    def run(self) -> None:
        """Ask everything of the untrained model and of every checkpoint; the end of a training first, as the others are
        compared with it."""
        sound = [checkpoint for checkpoint in self.series if checkpoint.name not in self._odd]
        if len(sound) < 2:
            raise ModelError(
                f"{self.series.name} has {len(sound)} checkpoints that can be asked; at least 2 are needed"
            )
        self.skipped.update({f"checkpoints that were not asked: {fault.message}": 1 for fault in self._faults
                             if fault.checkpoint in self._odd})  # fmt: skip
        twinless = all(checkpoint.step != 0 for checkpoint in sound)
        ends = {path: checkpoints[-1].name for path, checkpoints in Series("", tuple(sound)).paths.items()}
        order = sorted(sound, key=lambda checkpoint: checkpoint.name not in ends.values())
        final: dict[str, LayerVectors] = {}
        twins: dict[str, LayerVectors] = {}
        with progress(f"{self.series.name}: checkpoints", len(order)) as advance:
            for number, checkpoint in enumerate(order):
                following = order[number + 1] if number + 1 < len(order) else None
                with _reading_ahead(None if isinstance(self.series, SeriesInMemory) else following):
                    try:
                        encoder = _encoder(self.series, checkpoint, self._runtime)
                        states = LayerVectors.of(encoder, self._texts)
                        self._ask(checkpoint.name, encoder)
                    except LaminaError as error:
                        self._faults.append(SeriesFault(checkpoint.name, "unreadable", _sentence(checkpoint, error)))
                        self._odd.add(checkpoint.name)
                        self.skipped[f"checkpoints that were not asked: {error}"] += 1
                        advance()
                        continue
                    if checkpoint.name in ends.values():
                        final[checkpoint.path] = states
                        if twinless and UNTRAINED not in self._results:
                            twin = _twin(encoder, self._seed)
                            twins[UNTRAINED] = LayerVectors.of(twin, self._texts)
                            self._ask(UNTRAINED, twin, loss=False)
                    if checkpoint.path in final:
                        end = final[checkpoint.path]
                        alike = states.similarity(end, samples=self._samples, seed=self._seed)
                        self._settling[checkpoint.name] = alike
                advance()
        answered = [name for name in self._results if name != UNTRAINED]
        if len(answered) < 2:
            reason = next((fault.message for fault in self._faults if fault.kind == "unreadable"), "")
            raise ModelError(f"{self.series.name}: fewer than 2 checkpoints could be asked: {reason}")
        for path, end in final.items():
            if twinless and twins:
                untrained = twins[UNTRAINED].similarity(end, samples=self._samples, seed=self._seed)
                self._settling[f"{UNTRAINED} {path}"] = untrained
        self._faults += _loss_faults(self._sound(), self._losses)

    def _sound(self) -> list[SeriesCheckpoint]:
        return [checkpoint for checkpoint in self.series if checkpoint.name not in self._odd]

    def _ask(self, name: str, encoder: Encoder, *, loss: bool = True) -> None:
        from lamina.framework.run import ask_together, run_together

        queries = [entry.of(encoder) for entry in self._asked]
        if self._work is None:
            answers: list[Result] = run_together(queries)
        else:
            folder = self._work / str(self._place) / name
            answers = ask_together(queries, [folder / query.analysis.name for query in queries])
        self._results[name] = list(answers)
        if loss and isinstance(encoder, HuggingFaceEncoder) and has_language_model(encoder):
            self._losses[name] = _TextLoss.of(encoder, self._texts, self._samples, self._seed)

    def measured(self) -> dict[str, Measured]:
        """All quantities by checkpoint; of the untrained model too."""
        known = [*(checkpoint.name for checkpoint in self._sound() if checkpoint.name in self._results)]
        known += [UNTRAINED] if UNTRAINED in self._results else []
        growths: dict[str, Measured] = {name: {} for name in known}
        for place, entry in enumerate(self._asked):
            declared = entry.query.analysis.compares
            if declared is None:
                continue
            results = [self._results[name][place] for name in known]
            separate = measured(results, declared, entry.name, samples=self._samples, seed=self._seed)
            for name, quantities in zip(known, separate, strict=True):
                growths[name] |= quantities
        for name, quantities in self._settling.items():
            if name in growths:
                growths[name] |= quantities
        return growths

    def trainings(self) -> Iterator[tuple[str, list[SeriesCheckpoint], Measured]]:
        """Each training with its steps; the untrained model first."""
        growths = self._measured
        for path, checkpoints in Series("", tuple(self._sound())).paths.items():
            placed = {checkpoint.step or 0: checkpoint for checkpoint in checkpoints if checkpoint.name in growths}
            listed = [placed[step] for step in sorted(placed)]
            parts = [growths[checkpoint.name] for checkpoint in listed]
            if 0 not in placed and UNTRAINED in growths:
                untrained = growths[UNTRAINED] | self._settling.get(f"{UNTRAINED} {path}", {})
                first = SeriesCheckpoint(UNTRAINED, "", path, 0, tokens=0)
                listed, parts = [first, *listed], [untrained, *parts]
            if listed:
                yield path or self.series.name, listed, along(parts)

    @property
    def _measured(self) -> dict[str, Measured]:
        if not hasattr(self, "_cached"):
            self._cached = self.measured()
        return self._cached

    def _groups(self) -> list[tuple[str, list[SeriesCheckpoint], Measured]]:
        """Trainings, and their mean where several have the same steps."""
        separate = list(self.trainings())
        by_steps: dict[tuple[int, ...], list[tuple[str, list[SeriesCheckpoint], Measured]]] = {}
        for name, listed, training in separate:
            by_steps.setdefault(tuple(checkpoint.step or 0 for checkpoint in listed), []).append(
                (name, listed, training)
            )
        means = [
            (ALL if len(by_steps) == 1 else f"{ALL} of {len(group)}", group[0][1],
             over_seeds([training for *_, training in group]))
            for group in by_steps.values()
            if len(group) > 1
        ]  # fmt: skip
        return [*means, *separate]

    def rows(self) -> Iterator[tuple[Any, ...]]:
        """Of `growth`."""
        for name, listed, training in self._groups():
            for quantity, part in training.items():
                for place, checkpoint in enumerate(listed):
                    if np.isfinite(part.value[place]):
                        about = (self.series.name, name, checkpoint.step, checkpoint.tokens, *quantity[:4])
                        yield (*about, float(part.value[place]), *part.ends(place, bounds_of(quantity)))

    def growths(self) -> Iterator[tuple[str, list[Grown]]]:
        """Onsets: of the mean over trainings with the same steps, and of trainings that have steps of their own."""
        groups = self._groups()
        in_mean = {tuple(checkpoint.step or 0 for checkpoint in listed) for name, listed, _ in groups
                   if name.startswith(ALL)}  # fmt: skip
        for name, listed, training in groups:
            steps = [checkpoint.step or 0 for checkpoint in listed]
            if len(steps) > 2 and (name.startswith(ALL) or tuple(steps) not in in_mean):
                yield name, grown(self.series.name, name, steps, training)

    def audit(self) -> Iterator[AuditRow]:
        """One row per checkpoint."""
        for checkpoint in self.series:
            faults = [fault for fault in self._faults if fault.checkpoint == checkpoint.name]
            loss = self._losses.get(checkpoint.name)
            numbers = (np.nan, np.nan, np.nan) if loss is None else loss.estimate
            distance = np.nan if checkpoint.distance is None else checkpoint.distance
            about = (self.series.name, checkpoint.path or self.series.name, checkpoint.step, checkpoint.tokens)
            verdict = ", ".join(dict.fromkeys(fault.kind for fault in faults)) or "ok"
            reason = "; ".join(fault.message for fault in faults)
            yield AuditRow(*about, checkpoint.name, checkpoint.hash, distance, *numbers, verdict, reason)


def _sentence(checkpoint: SeriesCheckpoint, error: LaminaError) -> str:
    return f"{checkpoint.name} could not be asked: {str(error).rstrip('.')}"


def _twin(encoder: Encoder, seed: int) -> Encoder:
    """The untrained model, with the language-model head of its kind."""
    if isinstance(encoder, HuggingFaceEncoder) and has_language_model(encoder):
        head = language_model(encoder).random_twin(seed)
        head.encoder.language_model = head
        twin: Encoder = head.encoder
    else:
        twin = encoder.random_twin(seed)
    twin.name = UNTRAINED
    return twin


@contextmanager
def _reading_ahead(checkpoint: SeriesCheckpoint | None) -> Iterator[None]:
    """Have the next checkpoint's files fetched and read from the disk while this one is asked."""
    if checkpoint is None:
        yield
        return
    thread = Thread(target=_read_through, args=(checkpoint,), daemon=True)
    thread.start()
    try:
        yield
    finally:
        thread.join()


def _read_through(checkpoint: SeriesCheckpoint) -> None:
    try:
        for path in weights_files(folder_of_checkpoint(checkpoint)):
            with path.open("rb") as file:
                while file.read(2**22):
                    pass
    except (OSError, LaminaError):
        # Reported when its turn comes.
        return


# The loss on a fixed text: it falls while a model is trained.


class _TextLoss(NamedTuple):
    """Of one checkpoint."""

    units: Units
    total: np.ndarray
    """[unit] In nats."""
    tokens: np.ndarray
    """[unit] Tokens."""
    estimate: tuple[float, float, float]

    @classmethod
    def of(cls, encoder: HuggingFaceEncoder, texts: Sequence[Text], samples: int, seed: int) -> _TextLoss:
        model = language_model(encoder)
        target = LossTarget(model, some_words(texts, _LOSS_WORDS))
        values = np.zeros((len(target.rows), 1))
        for batch in encoder.row_groups([len(row.ids) for row in target.rows]):
            last = encoder.last([target.rows[row] for row in batch])
            values[batch] = target.read(batch, {target.layers[0]: last})
        scores = target.score(values)
        units = Units.of(target.units, "document")
        total, count = units.sums(scores.hits), units.sums(scores.counts)
        value = float(total.sum() / count.sum())
        ends = interval(ratio_draws(total, count, units, samples=samples, seed=seed))
        return cls(units, total, count, (value, *ends))


def _loss_faults(checkpoints: Sequence[SeriesCheckpoint], losses: Mapping[str, _TextLoss]) -> list[SeriesFault]:
    """Checkpoints whose loss does not fall as that of the others of their training.

    A later checkpoint may not lie above an earlier one by more than a margin, tested by document for all pairs of a
    training. Where some do, those are reported without which all others fall.
    """
    faults = []
    for training in Series("", tuple(checkpoints)).paths.values():
        known = [checkpoint for checkpoint in training if checkpoint.name in losses]
        pairs = [(a, b) for a in range(len(known)) for b in range(a + 1, len(known))]
        if not pairs:
            continue
        rising = _rising([losses[checkpoint.name] for checkpoint in known], pairs)
        while rising:
            involved = Counter(place for pair in rising for place in pair)
            most = max(involved.values())
            odd = max(place for place, count in involved.items() if count == most)
            name = known[odd].name
            message = (
                f"{name} does not fit its step: its loss on a fixed text ({number(losses[name].estimate[0])} nats per "
                "token) does not lie on the falling curve of the others"
            )
            faults.append(SeriesFault(name, "loss", message))
            rising = [pair for pair in rising if odd not in pair]
    return faults


def _rising(losses: Sequence[_TextLoss], pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The pairs whose later loss is clearly higher."""
    apart = np.stack([losses[b].total - losses[a].total for a, b in pairs], axis=1)
    tests = sign_flip_family(apart, losses[0].tokens)
    return [
        pair
        for pair, estimate, low, p in zip(pairs, tests.estimate, tests.low, tests.p, strict=True)
        if estimate > _RISE and low > 0 and p < SURE
    ]


# What a result shows.


@grow.finds
def _findings(result: Result) -> Iterable[Finding]:
    """The audit first; then what begins when, in which order, and whether layers settle bottom up."""
    yield _audited(result)
    onsets = result.tables["onsets"]
    known = [Onset(*row) for row in rows_of(onsets)]
    for name in dict.fromkeys(row.series for row in known):
        of_series = [row for row in known if row.series == name]
        yield from _beginnings(of_series, several=onsets["series"].nunique() > 1)
        pairs = [Order(*row) for row in rows_of(result.tables["orders"]) if row.series == name]
        yield from _orders(pairs)
    for row in rows_of(result.tables["settling"]):
        yield finding(
            claim=f"{row.series} settles bottom up: layer {row.first} is half-way to what it is at the end first, "
            f"layer {row.last} last" if row.estimate > 0 else
            f"{row.series} settles top down: layer {row.first} is half-way to what it is at the end first, layer "
            f"{row.last} last",
            whether=f"lower layers of {row.series} settle before upper ones",
            absent=f"Layers of {row.series} settle in no order of depth",
            contrast="rank correlation of layer and half-way step",
            test=Contrast.of(row),
            source=Source("settling", {"series": row.series, "seed": row.seed}),
            unit="layer",
            importance=("localised",),
            margin=0.0,
        )  # fmt: skip


def _audited(result: Result) -> Finding:
    """What the audit says; it is a check, not a test."""
    audit = result.tables["audit"]
    odd = [row for row in rows_of(audit) if row.verdict != "ok"]
    importance: Any = ("answers", "beats control", "localised", "surprises")
    if not odd:
        claim = f"The audit finds nothing wrong with {len(audit)} checkpoints"
        return Finding(claim, "", "clear", source=(Source("audit", {"verdict": "ok"}),), importance=importance)
    reasons = "; ".join(row.reason for row in odd[:3])
    more = f" (and {len(odd) - 3} more)" if len(odd) > 3 else ""
    claim = f"The audit finds something wrong with {len(odd)} of {len(audit)} checkpoints: {reasons}{more}"
    sources = tuple(Source("audit", {"series": row.series, "checkpoint": row.checkpoint}) for row in odd[:3])
    return Finding(claim, "", "clear", source=sources, importance=importance)


def _name(row: Onset) -> str:
    """What begins, in words."""
    task = title_of(row.task) if row.task != ALL else get_analysis(row.analysis).title
    return task if row.analysis == "probe" else f"{task} ({row.analysis})"


def _beginnings(rows: Sequence[Onset], *, several: bool) -> Iterator[Finding]:
    """The abilities of the whole model, those that begin first at the top; of analyses by layer, their best layer."""
    chosen: dict[tuple[str, str], Onset] = {}
    for row in rows:
        if row.kind != "ability":
            continue
        before = chosen.get((row.analysis, row.task))
        whole = pd.isna(row.layer)
        if before is None or whole or (not pd.isna(before.layer) and row.end > before.end):
            chosen[row.analysis, row.task] = row
    ordered = sorted(chosen.values(), key=lambda row: (row.onset != row.onset, row.onset, row.p_adjusted))
    # Of many groups of items, their mean; the table has all.
    groups = Counter(row.analysis for row in ordered)
    selection = [row for row in ordered if groups[row.analysis] <= _MOST_FINDINGS or row.task == ALL]
    for row in selection[: 2 * _MOST_FINDINGS]:
        yield _beginning(row, rows, several=several)


def _beginning(row: Onset, rows: Sequence[Onset], *, several: bool) -> Finding:
    name = f"{_name(row)} in {row.series}" if several else _name(row)
    where = {"series": row.series, "seed": row.seed, "analysis": row.analysis, "task": row.task}
    layer = None if pd.isna(row.layer) else int(row.layer or 0)
    source = [Source("onsets", {**where, "measure": row.measure, "layer": layer})]
    there = "" if layer is None else f" at layer {layer}"
    began = row.onset == row.onset
    latest = f"step {row.high:,.0f}" if np.isfinite(row.high) else "the end, if at all"
    note = ""
    if began:
        note = f"Its first checkpoint above both is step {row.onset:,.0f}; it is half-way at step {row.half:,.0f}."
        first = [
            other for other in rows if other[:4] == row[:4] and other.onset == row.onset and not pd.isna(other.layer)
        ]
        if first and layer is None:
            lowest = min(first, key=lambda other: int(other.layer or 0))
            note += f" The lowest layer with it then is layer {int(lowest.layer or 0)}."
            place = {**where, "measure": lowest.measure, "layer": int(lowest.layer or 0)}
            source.append(Source("onsets", place))
    reference = "the untrained model and chance" if row.chance == row.chance else "the untrained model"
    claim = f"{name}{there} is below {reference} at the end"
    if began:
        claim = f"{name}{there} begins after step {row.low:,.0f} and by {latest}"
    return finding(
        claim=claim,
        whether=f"{name}{there} is above {reference} at the end",
        absent=f"{name}{there} never begins: it is no higher than {reference} at the end",
        contrast=f"{row.measure} above {reference} at the end",
        test=Contrast(row.above, row.above_low, row.above_high, row.p_adjusted, row.units, row.needed),
        source=source,
        unit="unit",
        importance=("answers", "beats control"),
        note=note if row.p_adjusted < SURE else "",
    )


def _orders(pairs: Sequence[Order]) -> Iterator[Finding]:
    """The clearest orders of two abilities."""

    def certain(pair: Order) -> bool:
        return status_of(pair.low, pair.high, pair.p_adjusted, needed=pair.needed, margin=0.0) == "clear"

    tested = [pair for pair in pairs if pair.p_adjusted == pair.p_adjusted]
    clear = sorted(filter(certain, tested), key=lambda pair: (pair.p_adjusted, -abs(pair.difference)))
    selection = clear[:_MOST_ORDERS] or sorted(tested, key=lambda pair: pair.p_adjusted)[:1]
    for pair in selection:
        a, b = (title_of(task) if task != ALL else get_analysis(analysis).title
                for analysis, task in ((pair.analysis_a, pair.task_a), (pair.analysis_b, pair.task_b)))  # fmt: skip
        first, second = (a, b) if pair.difference > 0 else (b, a)
        size = abs(pair.difference)
        ends = (pair.low, pair.high) if pair.difference > 0 else (-pair.high, -pair.low)
        where = {"series": pair.series, "seed": pair.seed, "task_a": pair.task_a, "task_b": pair.task_b}
        yield finding(
            claim=f"{first} grows before {second}",
            whether=f"{first} grows before {second}",
            absent=f"{first} and {second} grow at the same time",
            contrast="expected steps, in doublings",
            test=Contrast(size, *ends, pair.p_adjusted, pair.units, pair.needed),
            source=Source("orders", {**where, "analysis_a": pair.analysis_a, "analysis_b": pair.analysis_b}),
            unit="unit",
            importance=("answers", "localised"),
            margin=0.0,
            note=f"{len(clear)} of {len(pairs)} orders are clear.",
        )


@grow.costs
def _cost(
    estimator: Estimator,  # noqa: ARG001 - that of each query is used
    series: Sequence[Series],
    corpus: Corpus,  # noqa: ARG001
    queries: Sequence[AskedAnalysis],
    **settings: Any,  # noqa: ARG001
) -> Cost:
    """What is asked of the first checkpoint, as often as there are checkpoints and untrained models."""
    one = Cost(passes=0)
    for entry in queries:
        one += Estimator(entry.query).counted()
    times = sum(len(single) + all(checkpoint.step != 0 for checkpoint in single) for single in series)
    counted = {name: getattr(one, name) * times for name in ("passes", "texts", "tokens", "steps", "cpu", "work")}
    return replace(one, **counted)


@grow.shows
def _overview(result: Result) -> Iterable[Overview | str]:
    """The audit, then onsets of the whole model."""
    audit = result.tables["audit"]
    rows = [
        (row.checkpoint, row.seed, "-" if pd.isna(row.step) else f"{int(row.step):,}", row.hash[:8],
         cell(row.distance), cell(row.loss, row.low, row.high), row.verdict)
        for row in rows_of(audit)
    ]  # fmt: skip
    columns = ("checkpoint", "training", "step", "hash", "distance", "loss", "verdict")
    yield Overview("Audit of the checkpoints", columns, rows)
    yield from (row.reason for row in rows_of(audit) if row.reason)
    onsets = [Onset(*row) for row in rows_of(result.tables["onsets"])]
    selection = [row for row in onsets if pd.isna(row.layer)] or onsets
    cells: list[tuple[str | int, ...]] = [
        (
            row.series,
            _name(row) if row.analysis != SETTLING else SIMILARITY,
            "-" if row.onset != row.onset else f"{row.onset:,.0f} ({row.low:,.0f}, {row.high:,.0f}]",
            "-" if row.half != row.half else f"{row.half:,.0f} [{row.half_low:,.0f}, {row.half_high:,.0f}]",
            cell(row.untrained),
            cell(row.end),
            row.reason,
        )
        for row in sorted(selection, key=lambda row: (row.onset != row.onset, row.onset))[:40]
    ]
    yield Overview(
        "When abilities begin", ("series", "ability", "onset", "half-way", "untrained", "end", "why not"), cells
    )
