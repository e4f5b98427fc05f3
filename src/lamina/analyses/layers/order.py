"""`lamina.order`: where the order of words is known, and where their hierarchy."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
import pandas as pd

from lamina.activations import Runtime
from lamina.activations.runtime import RunsTasks
from lamina.analyses.layers.probe.planning import (
    ProbePlan,
    TaskSource,
    TrainingAmounts,
    bootstrap_work,
    plan_run,
    training_cost,
)
from lamina.analyses.layers.probe.probe import left_out_of, run_all, saved_answers, train_elsewhere, training_folder
from lamina.analyses.layers.probe.statistics import Resampling
from lamina.analyses.layers.probe.summary import TaskSummary, bootstrap, unconverged
from lamina.analyses.layers.probe.tables import ControlScore, CorpusRuns, ProbeScore, ProbeTraining, make_tables
from lamina.analyses.layers.probe.training import ProbeSetup, TaskRun
from lamina.corpora.corpus import Corpus, fingerprint_of
from lamina.corpora.detection import FileSelection
from lamina.corpora.loading import known_splits, load_corpus, load_splits
from lamina.corpora.splits import Splits
from lamina.corpora.treebanks import with_features
from lamina.errors import InputError
from lamina.framework.declare import ComparedTasks, Overview, Table, Tables, analysis
from lamina.framework.estimate import Cost, Estimator
from lamina.framework.inputs import LoadedInputs, TrainedTexts, as_encoder, as_splits, model_and
from lamina.framework.settings import DeclaredSetting, Samples, Seed, Seeds, Setting
from lamina.framework.settings import Twin as TwinSetting
from lamina.models import Encoder
from lamina.results import Result
from lamina.results.finding import (
    Finding,
    best_in_words,
    cell,
    finding,
    layers_in_words,
    not_tested,
    number,
    numbers_in_words,
    rows_of,
    weakest,
)
from lamina.results.finding import Source as Place
from lamina.stats.best import best_set
from lamina.stats.family import Contrasts, bootstrap_family
from lamina.stats.intervals import interval
from lamina.stats.status import Contrast as Test
from lamina.stats.units import Units
from lamina.tasks import describe_task
from lamina.tasks.order_making import OrderTargets, make_order_tasks
from lamina.tasks.order_rules import BY_NAME
from lamina.tasks.task import Metric
from lamina.training.provenance import refuse_seen
from lamina.types import Edge, Span

# How what is read changes from layer to layer: best layers, what is beside them, lower against upper half.
#
# All differences are paired: the layers of a task are scored on the same resampled documents, and so are two tasks.

METRIC: Metric = "accuracy"
TWIN, CONSTANT = "twin", "constant"


class OrderLayer(NamedTuple):
    """One row of `layers.csv`: the layers of a task whose probes have converged."""

    task: str
    layer: int
    value: float
    """Accuracy, mean over seeds."""
    low: float
    high: float
    p_beaten: float
    """That another layer is better: max-T over the other layers, one-sided."""
    among_best: bool
    """Whether the layer can be the best: p_beaten is at least .05."""
    units: int


class BaselineDifference(NamedTuple):
    """One row of `beside.csv`: a layer of the model minus its twin, or minus the best constant answer."""

    task: str
    layer: int
    against: str
    """twin or constant."""
    value: float
    other: float
    estimate: float
    low: float
    high: float
    p_adjusted: float
    """Of one family over tasks, layers and both; two-sided."""
    units: int
    needed: int
    unit: str


class OrderChange(NamedTuple):
    """One row of `changes.csv`; what is not available is NaN, and `reason` says why."""

    task: str
    kind: str
    """linear, surface, structure, inflection or meaning."""
    metric: str
    first: float
    """At layer 0."""
    stopping_layer: int
    """With the lowest loss on the texts that decide when to stop: not chosen by what is scored, and not the best."""
    chosen: float
    """At that layer."""
    chosen_low: float
    chosen_high: float
    rise: float
    """At that layer minus layer 0."""
    rise_low: float
    rise_high: float
    last: float
    """At the last layer."""
    fall: float
    """At the last layer minus that layer."""
    fall_low: float
    fall_high: float
    lower: float
    """Mean of layers 1 to the middle."""
    upper: float
    """Mean of the layers above."""
    change: float
    """Upper minus lower."""
    change_low: float
    """95 %, simultaneous over the tasks."""
    change_high: float
    p_adjusted: float
    """Of the change: one family over the tasks, two-sided."""
    units: int
    needed: int
    unit: str
    reason: str | None


class HalfContrast(NamedTuple):
    """One row of `contrasts.csv`: does one task rise from the lower to the upper half where another falls?"""

    linear: str
    structure: str
    linear_change: float
    structure_change: float
    difference: float
    """The change of the structural task minus that of the linear one."""
    low: float
    """95 %, simultaneous over all pairs."""
    high: float
    p_adjusted: float
    """One family over all pairs, two-sided."""
    units: int
    needed: int
    unit: str


class OrderReading(NamedTuple):
    """A task's accuracy by layer, and the same resampled."""

    task: str
    value: np.ndarray
    """[layer]"""
    drawn: np.ndarray
    """[sample, layer]"""
    beside: Mapping[str, tuple[np.ndarray, np.ndarray]]
    """Twin and constant answer: the same; NaN where a probe has not converged."""
    stopping: int
    """The layer with the lowest loss on stopping texts."""
    units: int
    """Documents (or texts) with a scored target."""
    unit: str
    """What these are."""
    converged: np.ndarray
    """[layer] Whether all probes of the model have."""
    ends: str
    """Which probes of layer 0, the stopping and the last layer have not converged, in words; empty if all have."""
    reason: str
    """The same of all layers."""

    @property
    def kind(self) -> str:
        """linear, surface, structure, inflection or meaning."""
        return BY_NAME[self.task].kind

    @property
    def change(self) -> tuple[float, np.ndarray]:
        """Upper minus lower half, and its draws; NaN where a probe has not converged."""
        value = float(_halves(self.value)[2])
        return (float("nan") if self.reason else value), _halves(self.drawn)[2]


_FamilyTest = tuple[float, float, float, float, int, int, str]
"""Estimate, simultaneous interval, adjusted p, units, how many are needed, and what they are."""


def middle(layers: int) -> int:
    """The last layer of the lower half, of layers 0 to L.

    Example:
        >>> middle(7), middle(13), middle(2)
        (3, 6, 1)
    """
    return max(1, (layers - 1) // 2)


def _halves(by_layer: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Means of the lower and the upper half without layer 0, and their difference; NaN for a single block."""
    cut = middle(by_layer.shape[-1]) + 1
    lower = by_layer[..., 1:cut].mean(-1)
    upper = by_layer[..., cut:].mean(-1) if by_layer.shape[-1] > cut else np.full(by_layer.shape[:-1], np.nan)
    return lower, upper, upper - lower


def read_runs(runs: Sequence[TaskRun], units: Units, *, samples: int, seed: int) -> list[OrderReading]:
    """All tasks on the same resampled documents; `units` has that of every scored text."""
    texts = Resampling(units, samples, seed)
    return [_read(run, texts, [seed, number]) for number, run in enumerate(runs)]


def _read(run: TaskRun, texts: Resampling, seed: list[int]) -> OrderReading:
    drawn = bootstrap(run, texts, seed)
    draws = drawn["model"][METRIC]
    outcomes = run.outcomes_of("model")
    single = [member for member, cut in enumerate(outcomes[0].cuts) if cut.probe == "layer"]
    loss = np.mean([outcome.learned.loss for outcome in outcomes], axis=0)[single]
    stopping, last = int(loss.argmin()), len(single) - 1
    constant = run.constant[METRIC]
    layers = np.arange(len(single))
    sides = {CONSTANT: (np.repeat(constant.value()[:1], len(layers)), np.repeat(texts.score(constant), len(layers), 1))}
    if "random" in drawn:
        twin = run.outcomes_of("random")
        single_of_twin = [member for member, cut in enumerate(twin[0].cuts) if cut.probe == "layer"]
        done = np.array([not unconverged(twin, "layer", [int(layer)]) for layer in layers])
        values = drawn["random"][METRIC]
        sides[TWIN] = np.where(done, values.value[single_of_twin], np.nan), values.pooled[:, single_of_twin]
    converged = np.array([not unconverged(outcomes, "layer", [int(layer)]) for layer in layers])
    reasons = unconverged(outcomes, "layer", [0, stopping, last]), unconverged(outcomes, "layer")
    places = draws.value[single], draws.pooled[:, single], sides, stopping
    return OrderReading(run.task.name, *places, draws.texts, texts.units.kind, converged, *reasons)


def layer_rows(readings: Sequence[OrderReading]) -> list[OrderLayer]:
    """Which layers of every task can be the best."""
    rows = []
    for reading in readings:
        known = np.flatnonzero(reading.converged)
        if not len(known):
            continue
        # Draws of accuracies are spread for few documents already.
        best = best_set(reading.value[known], reading.drawn[:, known], reading.units, widen=False)
        ends = [interval(reading.drawn[:, layer]) for layer in known]
        rows += [
            OrderLayer(
                reading.task, int(layer), float(reading.value[layer]), *end, float(p), bool(inside), reading.units
            )
            for layer, end, p, inside in zip(known, ends, best.p, best.among, strict=True)
        ]
    return rows


def beside_rows(readings: Sequence[OrderReading]) -> list[BaselineDifference]:
    """Every layer minus its twin and minus the best constant answer, as one family."""
    members = [
        (reading, int(layer), against)
        for reading in readings
        for layer in np.flatnonzero(reading.converged)
        for against in (TWIN, CONSTANT)
        if against in reading.beside and np.isfinite(reading.beside[against][0][layer])
    ]
    estimates = [reading.value[layer] - reading.beside[against][0][layer] for reading, layer, against in members]
    draws = [reading.drawn[:, layer] - reading.beside[against][1][:, layer] for reading, layer, against in members]
    tests = _family(estimates, draws, [(reading.units, reading.unit) for reading, *_ in members])
    return [
        BaselineDifference(
            reading.task, layer, against, float(reading.value[layer]), float(reading.beside[against][0][layer]), *test
        )
        for (reading, layer, against), test in zip(members, tests, strict=True)
    ]


def change_rows(readings: Sequence[OrderReading]) -> list[OrderChange]:
    """What changes within every task; the changes are one family."""
    values, draws = zip(*(reading.change for reading in readings), strict=True)
    tests = _family(values, draws, [(reading.units, reading.unit) for reading in readings])
    return [_change(reading, test) for reading, test in zip(readings, tests, strict=True)]


def _change(reading: OrderReading, test: _FamilyTest) -> OrderChange:
    value, drawn, stopping = reading.value, reading.drawn, reading.stopping
    known = not reading.ends
    first, top, last = (float(value[layer]) if known else np.nan for layer in (0, stopping, -1))
    rise, fall = drawn[:, stopping] - drawn[:, 0], drawn[:, -1] - drawn[:, stopping]
    (low, high), (rise_low, rise_high), (fall_low, fall_high) = (
        interval(draws) if known else (np.nan, np.nan) for draws in (drawn[:, stopping], rise, fall)
    )
    lower, upper, _ = (np.nan if reading.reason else float(half) for half in _halves(value))
    row = (first, stopping, top, low, high, top - first, rise_low, rise_high, last, last - top, fall_low, fall_high)
    return OrderChange(reading.task, reading.kind, METRIC, *row, lower, upper, *test, reading.reason or None)


def half_contrasts(readings: Sequence[OrderReading]) -> list[HalfContrast]:
    """Structural against linear tasks: by how much more they gain from the lower to the upper half; one family."""
    known = [reading for reading in readings if np.isfinite(reading.change[0])]
    pairs = [
        (one, other)
        for one in known
        if one.kind == "linear"
        for other in known
        if other.kind == "structure"
    ]  # fmt: skip
    estimates = [other.change[0] - one.change[0] for one, other in pairs]
    draws = [other.change[1] - one.change[1] for one, other in pairs]
    tests = _family(estimates, draws, [(min(one.units, other.units), one.unit) for one, other in pairs])
    return [
        HalfContrast(one.task, other.task, one.change[0], other.change[0], *test)
        for (one, other), test in zip(pairs, tests, strict=True)
    ]


def _family(
    estimates: Sequence[float], draws: Sequence[np.ndarray], units: Sequence[tuple[int, str]]
) -> Iterator[_FamilyTest]:
    if not estimates:
        return
    # Draws of accuracies are spread for few documents already.
    counts = np.array([count for count, _ in units], float)
    tests: Contrasts = bootstrap_family(
        np.array(estimates, float), np.stack(draws, 1), counts, bounds=(-1.0, 1.0), widen=False
    )
    for (_, unit), (estimate, low, high, p, count, needed) in zip(units, zip(*tests, strict=True), strict=True):
        yield float(estimate), float(low), float(high), float(p), int(count), int(needed), unit


# The treebank that order tasks are made from: more scored sentences, and features where tags are not Penn's.

BOTH = "dev+test"


@dataclass(frozen=True)
class OrderTexts(TrainedTexts):
    """A model and a treebank: training sentences, and those of dev and test, of which few tasks have many."""

    split: str = BOTH

    @property
    def options(self) -> tuple[DeclaredSetting, ...]:
        """See `Reads.options`."""
        setting = Setting(f"What is scored: dev, test, or {BOTH}, which has more sentences for rare tasks.")
        return (DeclaredSetting("split", Literal["dev", "test", "dev+test"], self.split, setting), *super().options[1:])

    def load(
        self, given: Mapping[str, Any], options: Mapping[str, Any], settings: Mapping[str, Any], runtime: Runtime
    ) -> LoadedInputs:
        """See `Reads.load`."""
        splits = treebank_splits(given["data"], options)
        return model_and(as_encoder(given["model"], options, runtime), splits, given["model"])


_OF_SOURCE = ("unit", "format", "include", "exclude", "skip_faulty", "annotation", "split_from", "limit", "first")
"""Options that say which sentences of a treebank are read."""


def treebank_splits(data: Any, options: Mapping[str, Any]) -> Splits:
    """Training and scored sentences; of a corpus without a training split, dev alone is scored."""
    if not isinstance(data, str | Path):
        return as_splits(data, {**options, "split": "dev" if options.get("split") == BOTH else options["split"]})
    source_options = {name: options[name] for name in _OF_SOURCE if name in options}
    selection = FileSelection.of(options.get("include"), options.get("exclude"))
    if options["split"] != BOTH:
        return with_features(load_splits(data, options["split"], **source_options), data, options["format"], selection)
    dev, test = (load_splits(data, name, **source_options) for name in ("dev", "test"))
    if dev.train.fingerprint != test.train.fingerprint:
        # Without a train split, each of the two is the training set when the other is scored.
        return with_features(dev, data, options["format"], selection)
    return with_features(Splits(dev.train, _together(dev.scored, test.scored)), data, options["format"], selection)


def _together(one: Corpus, other: Corpus) -> Corpus:
    return replace(
        one,
        split=BOTH,
        source=lambda: chain(one, other),
        fingerprint=fingerprint_of(BOTH, one.fingerprint, other.fingerprint),
        files={**one.files, **other.files},
    )


_TASKS = ("task", "kind", "part", "targets", "classes", "label", "count", "left_out", "reason")


@analysis(
    title="Order and subjects by layer",
    question="At which layers is the order of words known, and at which their hierarchy?",
    method=(
        "Probing tasks are made from a treebank by rules: the index of a word, the main clause's auxiliary and subject "
        "among other auxiliaries and nouns, sentence length, tense, number, exchanged words and clauses. Classes are "
        "balanced; where a word could be remembered, training and scored texts share none. A probe per layer reads "
        "the word's mean vector, or the sentence's, and is scored on other documents, beside the best constant answer "
        "and a twin of the model with random weights."
    ),
    cites=("Lin et al. 2019", "Conneau et al. 2018", "Jawahar et al. 2019", "Rogers et al. 2020"),
    reads=OrderTexts(),
    # 2: best layers are confidence sets; families by max-T over tasks (and layers). 3: `standard` trains in cycles.
    version=3,
    tables={
        "order": Table("One row per task, metric, probe, layer and seed, as `scores` of `probe`.",
                       ProbeScore.__annotations__),
        "layers": Table("One row per task and layer whose probes have converged: accuracy, and whether the layer can "
                        "be the best (p_beaten: that another one is better, max-T over layers, one-sided).",
                        OrderLayer._fields),
        "beside": Table("One row per task, layer and what stands beside it (twin, constant answer): the model minus "
                        "that on the same texts; one family over all rows (max-T, bootstrap, two-sided).",
                        BaselineDifference._fields),
        "changes": Table("One row per task: accuracy at layer 0, at the layer with the lowest stopping loss and at the "
                         "last one; upper minus lower half of the layers. Change, its interval and p_adjusted are of "
                         "one family over the tasks (max-T, bootstrap, two-sided); differences are paired.",
                         OrderChange._fields),
        "contrasts": Table("One row per linear and structural task: their changes from the lower to the upper half "
                           "compared; one family over all rows (max-T, bootstrap, two-sided).",
                           HalfContrast._fields, optional=True),
        "tasks": Table("One row per task, part of the corpus and class, and one per reason for leaving out.", _TASKS),
        "training": Table("One row per probe: how its training went, and whether it has converged.",
                          ProbeTraining._fields),
        "summary": Table("One row per task, as `summary` of `probe`.", TaskSummary._fields),
        "control": Table("One row per task: model and control on targets whose words training has seen.",
                         ControlScore._fields),
    },
    chapter="abilities",
    compares=ComparedTasks(
        scores="order",
        places={"center_of_gravity": "centre of gravity", "expected_layer": "expected layer"},
        harmless=("twin", "seed", "samples"),
    ),
    example="lamina order minilm --corpus ewt --task index --task main_auxiliary --out results/order",
)  # fmt: skip
def order(
    encoder: Encoder,
    splits: Splits,
    *,
    tasks: Annotated[
        Sequence[str] | None,
        Setting(
            f"A task: {', '.join(BY_NAME)}; by default all that the treebank allows but odd_man_out.",
            option="--task",
            metavar="NAME",
        ),
    ] = None,
    frequencies: Annotated[
        str | None,
        Setting(
            "Corpus whose training texts (all, if it has none) say how frequent words and pairs of words are, by name "
            "or path, for odd_man_out; by default the treebank's own (wikitext2 has 2 million words).",
            file=True,
        ),
    ] = None,
    items: Annotated[int, Setting("The most targets of a task, in training and in scored texts.", min=20)] = 1000,
    preset: Annotated[
        Literal["quick", "standard"],
        Setting("How long probes are trained: quick (2 seeds, minutes) or standard (5 seeds)."),
    ] = "quick",
    seeds: Seeds = None,
    steps: Annotated[int, Setting("Maximum number of steps; training ends earlier on a plateau.", min=1)] = 3000,
    faithful: Annotated[
        bool,
        Setting(
            "As the originals did it: logistic regression on the mean vector, and every word of a sentence a candidate "
            "for the main auxiliary and the subject."
        ),
    ] = False,
    twin: TwinSetting = True,
    seed: Seed = 0,
    samples: Samples = 1000,
    runtime: Runtime,
) -> Tables:
    """Where the order of words is known and where their hierarchy: probing tasks made from any treebank by rules.

    Linear: `index`, `bigram_shift`. Surface: `length`, `word_content`. Structure: `main_auxiliary`, `subject`,
    `subject_number_verb`, `depth`, `top_constituents`, `coordination`. Inflection: `subject_number`,
    `subject_number_noun`, `object_number`, `tense`, `tense_verb`. Meaning: `odd_man_out`, where it is named.

    Probes learn from the treebank's train, a part of which decides when they stop, and are scored on dev and test.
    Intervals (95 %) resample documents and, from 5 seeds on, seeds. What is made of probes that have not converged is
    not available. Which layers can be the best is a confidence set (`layers`), not the layer with the lowest loss.

    Example:
        >>> result = order("minilm", "ewt", tasks=["index", "subject"])  # doctest: +SKIP
        >>> result.tables["changes"][["task", "lower", "upper", "change"]]  # doctest: +SKIP
    """
    counted = None if frequencies is None else texts_to_count(frequencies)
    targets = make_order_tasks(splits, tasks, items=items, seed=seed, faithful=faithful, counted=counted)
    for part in (targets.splits.train, targets.splits.scored):
        refuse_seen(encoder, part)
    plan = _plan(encoder, targets, OrderTraining(preset, seeds, steps, faithful, seed), runtime.training_device)
    trained_by = {"order": plan.setup.reads, "seed": seed, "twin": twin}
    if isinstance(runtime.engine, RunsTasks):
        train_elsewhere([encoder], [plan], trained_by, runtime.engine, runtime)
    with training_folder([encoder], plan, trained_by, runtime) as work:
        runs = run_all(plan, encoder, work, twin=twin, runtime=runtime)
        files = saved_answers(runs, plan.setup, work)
        probed = [CorpusRuns(runs, plan.setup.splits)]
        tables = make_tables(probed, encoder.name, samples=samples, seed=seed)
    readings = read_runs(runs, Units.of_texts(targets.splits.scored), samples=samples, seed=seed)
    contrasts = half_contrasts(readings)
    probing_tables = {name: tables[name] for name in ("training", "summary", "control")}
    return Tables(
        {
            "order": tables["scores"],
            "layers": pd.DataFrame(layer_rows(readings), columns=list(OrderLayer._fields)),
            "beside": pd.DataFrame(beside_rows(readings), columns=list(BaselineDifference._fields)),
            "changes": pd.DataFrame(change_rows(readings), columns=list(OrderChange._fields)),
            **({"contrasts": pd.DataFrame(contrasts, columns=list(HalfContrast._fields))} if contrasts else {}),
            "tasks": pd.DataFrame(list(_task_rows(targets)), columns=list(_TASKS)),
            **probing_tables,
        },
        left_out_of(probed, [plan]) | {f"{name}: not made, {why}": 1 for name, why in targets.refused.items()},
        data={"tasks": {run.task.name: describe_task(run.task, targets.splits.scored).as_json() for run in runs}},
        seeds=(seed, *range(plan.setup.seeds)),
        files=files,
        scored={run.task.name: len(run.targets.text) for run in runs},
    )


class OrderTraining(NamedTuple):
    """How probes are to be trained."""

    preset: str
    seeds: int | None
    steps: int
    faithful: bool
    seed: int


def _plan(encoder: Encoder, targets: OrderTargets, training: OrderTraining, device: str) -> ProbePlan:
    if encoder.layers < 2:
        raise InputError(f"{encoder.name} has no layers to compare; name a model with some")
    # The generated targets have the right number already: no thinning, and all stopping texts are used.
    every = len(targets.splits.train)
    seeds = 1 if training.faithful else training.seeds
    amounts = TrainingAmounts(seeds=seeds, steps=training.steps, train_texts=every, stop_texts=every)
    plan = plan_run(
        encoder.layers, TaskSource(targets.splits, targets.tasks), probes=("layer",), preset=training.preset,
        amounts=amounts, faithful=False, metric=None, seed=training.seed, device=device,
    )  # fmt: skip
    return plan._replace(setup=replace(plan.setup, reads="linear" if training.faithful else "means"))


def _task_rows(targets: OrderTargets) -> Iterator[tuple[Any, ...]]:
    for task, both in targets.parts.items():
        if task in targets.refused:
            continue
        for name, part in zip(("training", "scored"), both, strict=True):
            place = (task, BY_NAME[task].kind, name, part.targets, len(part.classes))
            yield from ((*place, label, count, None, "") for label, count in part.classes.items())
            yield from ((*place, "", None, count, why) for why, count in part.left_out.items())


@order.costs
def _cost(
    estimator: Estimator, encoder: Encoder, splits: Splits, *, tasks: Sequence[str] | None, items: int, preset: str,
    frequencies: str | None, seeds: int | None, steps: int, faithful: bool, twin: bool, seed: int, samples: int,
    **_: Any,
) -> Cost:  # fmt: skip
    """Encoding, training on single vectors, and the bootstrap; as if no run had been kept."""
    counted = None if frequencies is None else texts_to_count(frequencies)
    targets = make_order_tasks(splits, tasks, items=items, seed=seed, faithful=faithful, counted=counted)
    plan = _plan(
        encoder, targets, OrderTraining(preset, seeds, steps, faithful, seed), estimator.runtime.training_device
    )
    both = [encoder, *([encoder.random_twin(seed)] if twin and encoder.blocks else [])]
    cost = estimator.encoding((targets.splits.train, targets.splits.scored), both)
    cost += training_cost(estimator, _one_word(plan), both, mdl=False)
    return cost + Cost(passes=0, work=2 * bootstrap_work(plan, samples))


def texts_to_count(frequencies: str) -> Corpus:
    """The texts in which words are counted: to train on, or all where there are none."""
    return load_corpus(frequencies, "train" if "train" in known_splits(frequencies) else "all")


def _one_word(plan: ProbePlan) -> ProbePlan:
    """The same plan with targets of one word: probes read one vector, however long a sentence is."""
    setup: ProbeSetup = plan.setup

    def first_word(edge: Edge) -> Edge:
        return replace(edge, span=Span(edge.span.start, edge.span.start + 1))

    def cut(corpus: Any) -> Any:
        texts = tuple(
            replace(text, edges={name: tuple(map(first_word, edges)) for name, edges in text.edges.items()})
            for text in corpus
        )
        return replace(corpus, source=lambda: iter(texts))

    few = Splits(cut(setup.splits.train), cut(setup.splits.scored))
    return plan._replace(setup=replace(setup, splits=few))


_PRIMER = ("index", "main_auxiliary", "subject")
"""The tasks of the primer's picture."""


@order.finds
def _findings(result: Result) -> Iterable[Finding]:
    """The index, the main auxiliary and the subject, or what else there is; then whether one falls as others rise."""
    changes = result.tables["changes"].set_index("task", drop=False)
    linear, structure = (
        [name for name in [*_PRIMER, *changes.index] if name in changes.index and changes["kind"][name] == kind]
        for kind in ("linear", "structure")
    )
    for name in list(dict.fromkeys([*linear[:1], *structure[:2], *changes.index]))[:3]:
        yield from _read_at(result, name)
        yield from _changed(result, name)
    yield from _contrasted(result, linear, structure)


def _read_at(result: Result, task: str) -> Iterator[Finding]:
    """The layer that is read best beside twin and constant answer, and which layers can be best."""
    title, layers = _title(task), result.tables["layers"]
    task_layers, beside = layers[layers["task"] == task], result.tables["beside"]
    if task_layers.empty:
        reason = str(result.tables["changes"].set_index("task")["reason"][task])
        place = Place("changes", {"task": task})
        yield not_tested(f"{title} is read at any layer", reason, source=(place,), importance=("answers",))
        return
    layer = int(task_layers["layer"].iloc[int(task_layers["value"].to_numpy().argmax())])
    rows = beside[(beside["task"] == task) & (beside["layer"] == layer)]
    if rows.empty:
        return
    # Ahead of both where it is ahead of the one that it is least surely ahead of.
    row = weakest(rows_of(rows), lambda row: row.estimate)
    other = {TWIN: "the untrained twin", CONSTANT: "the best constant answer"}[row.against]
    among = best_in_words(task_layers["layer"].tolist(), task_layers["among_best"].astype(bool).tolist())
    best = f"{title[0].upper()}{title[1:]} is read{' best' * (len(task_layers) > 1)} at {among}"
    best = best if among else f"No layer was shown to read {title} better than another"
    numbers = f"layer {layer} reads it with accuracy {number(row.value)}, {other} {number(row.other)}"
    yield finding(
        claim=f"{best}: {numbers}",
        whether=f"layer {layer} reads {title} better than {other}",
        absent=f"Layer {layer} reads {title} no better than {other}",
        contrast="difference",
        test=Test.of(row),
        source=(
            Place("beside", {"task": task, "layer": layer, "against": row.against}),
            Place("layers", {"task": task, "among_best": True}),
        ),
        unit=row.unit,
        importance=("beats control", "localised"),
    )


def _changed(result: Result, task: str) -> Iterator[Finding]:
    """Whether the upper half of the layers reads a task otherwise than the lower half."""
    title, table = _title(task), result.tables["changes"]
    row = next(rows_of(table[table["task"] == task]))
    layers = int(pd.to_numeric(result.tables["order"]["layer"]).max()) + 1
    cut = middle(layers)
    above, below = layers_in_words(range(cut + 1, layers)), layers_in_words(range(1, cut + 1))
    one = cut + 2 == layers
    if pd.isna(row.change):
        reason = row.reason if isinstance(row.reason, str) else "there is one block only"
        yield not_tested(
            f"{title} is read otherwise in upper than in lower layers",
            reason,
            source=(Place("changes", {"task": task}),),
            importance=("answers",),
        )
        return
    sentence = f"{above} read{'s' * one} {title}"
    yield finding(
        claim=f"{sentence[0].upper()}{sentence[1:]} {'better' if row.change > 0 else 'worse'} than {below}: accuracy "
        f"{number(row.upper)} and {number(row.lower)}",
        whether=f"{sentence} otherwise than {below}",
        absent=f"{sentence[0].upper()}{sentence[1:]} as well as {below}",
        contrast="difference",
        test=Test.of(row, "change", "change_low", "change_high"),
        source=(Place("changes", {"task": task}), Place("layers", {"task": task})),
        unit=row.unit,
        importance=("answers", "localised"),
    )


def _contrasted(result: Result, linear: Sequence[str], structure: Sequence[str]) -> Iterator[Finding]:
    table = result.tables.get("contrasts")
    if table is None or not linear or not structure:
        return
    contrasts = table[(table["linear"] == linear[0]) & (table["structure"] == structure[0])]
    for row in rows_of(contrasts):
        names = _title(row.linear), _title(row.structure)
        halves = "from the lower to the upper half of the layers"
        yield finding(
            claim=f"F{halves[1:]}, accuracy changes by {number(row.linear_change)} for {names[0]} and by "
            f"{number(row.structure_change)} for {names[1]}",
            whether=f"{names[0]} and {names[1]} change differently {halves}",
            absent=f"F{halves[1:]}, {names[0]} and {names[1]} change alike",
            contrast="difference",
            test=Test.of(row, "difference"),
            source=Place("contrasts", {"linear": row.linear, "structure": row.structure}),
            unit=row.unit,
            importance=("answers", "surprises"),
        )


def _title(task: str) -> str:
    """As it is called within a sentence."""
    title = BY_NAME[task].title
    return f"the {title[0].lower()}{title[1:]}" if task in _PRIMER else f"{title[0].lower()}{title[1:]}"


@order.shows
def _overview(result: Result) -> Iterable[Overview | str]:
    """One line per task."""
    about = result.provenance
    columns = ("task", "layers that can be best", "highest accuracy", "upper minus lower half")
    layers = result.tables["layers"]
    rows: list[tuple[str | int, ...]] = []
    for row in rows_of(result.tables["changes"]):
        task_layers = layers[layers["task"] == row.task]
        top = task_layers.sort_values("value", ascending=False).head(1)
        highest = next((cell(best.value, best.low, best.high) for best in rows_of(top)), "-")
        best = (
            numbers_in_words(task_layers.loc[task_layers["among_best"].astype(bool), "layer"].tolist())
            if len(task_layers)
            else "-"
        )
        rows.append((row.task, best, highest, cell(row.change, row.change_low, row.change_high)))
    yield Overview(f"{about.model['name']} on {about.corpus['name']} ({about.corpus.get('split', '')})", columns, rows)
    reasons = result.tables["changes"].set_index("task")["reason"].dropna()
    yield from (f"{task}: {reason}" for task, reason in reasons.items() if reason)
