"""Tasks of several models' probes: which models answered the same questions, and their statistics on the same draws."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, NamedTuple, cast

import numpy as np
import pandas as pd

from lamina.analyses.layers.probe.statistics import center_of_gravity
from lamina.comparison.predictions import (
    DrawnDifference,
    ProbeAnswers,
    SampledScores,
    ScoreEstimate,
    difference_family,
    read_answers,
    resample,
)
from lamina.comparison.tables import (
    STATISTICS,
    DepthScore,
    ModelDifference,
    ModelResults,
    ModelValue,
    RankedLayer,
    results_by_model,
    unlike_settings,
)
from lamina.errors import InputError
from lamina.framework.declare import ComparedTasks
from lamina.framework.registry import get_analysis
from lamina.probes.edge import LayerCut
from lamina.results import Result
from lamina.results.finding import rows_of
from lamina.stats.best import best_set
from lamina.stats.intervals import interval
from lamina.stats.seeds import ENOUGH_SEEDS
from lamina.stats.status import LEAST_UNITS, Contrast
from lamina.tasks.task import Metric

_READ = {"scores": ("task", "probe", "of", "layer", "seed", "metric", "value"), "summary": ("task",)}
"""Table -> the columns that a comparison needs."""
_TEXT = ("task", "probe", "of", "seed", "metric")
_MOST_LAYERS = 100_000
_ROUNDING = 0.005
"""A score computed from saved predictions may differ by this: probabilities near 0.5 were rounded when saved."""


@dataclass(frozen=True, eq=False)
class ModelTask:
    """One model at one task."""

    model: str
    task: str
    corpus: str
    metric: str
    last: int
    """Its last layer, L."""
    answers: ProbeAnswers
    gravity: np.ndarray | None
    """[seed] Centre of gravity of the full probe; of several fine-tuning seeds, one number each."""
    lacks: dict[str, str]
    """Statistic that the result does not have -> the reason that it gives."""
    losses: dict[int, float]
    """Layer -> loss of its probe on the texts that decide when to stop; empty in older results, and with --faithful,
    where the scored texts decide."""
    unconverged: frozenset[LayerCut] = frozenset()
    """Probes that had not converged with some seed; older results do not say."""


class LostTask(NamedTuple):
    """A task of a model whose answers cannot be used."""

    model: str
    task: str
    corpus: str
    reason: str


class TaskComparison(NamedTuple):
    """Models that answered the same questions, scored by the same metric."""

    task: str
    """With the corpus where the task is scored on several."""
    metric: str
    models: list[ModelTask]


class TaskComparisons(NamedTuple):
    """All that can be compared, and what cannot."""

    models: list[ModelResults]
    comparisons: list[TaskComparison]
    left_out: dict[str, int]


def compare_tasks(results: Sequence[Result], declared: ComparedTasks) -> TaskComparisons:
    """Merge the results of each model, and put together, task by task, the models that answered the same questions."""
    models = _models_with_probes([_checked(result, declared) for result in results])
    entries = [
        entry for model in models for result in model.results for entry in _entries(model.name, result, declared)
    ]
    corpora: dict[str, set[str]] = {}
    for entry in entries:
        corpora.setdefault(entry.task, set()).add(entry.corpus)
    by_task: dict[str, list[ModelTask | LostTask]] = {}
    for entry in entries:
        # A task on several corpora is as many tasks.
        name = f"{entry.task} ({entry.corpus})" if len(corpora[entry.task]) > 1 else entry.task
        by_task.setdefault(name, []).append(entry)
    comparisons, left_out = [], {}
    for task, of_models in by_task.items():
        alike = _largest([entry for entry in of_models if isinstance(entry, ModelTask)])
        if len(alike) > 1:
            comparisons.append(TaskComparison(task, alike[0].metric, alike))
        lost = of_models if len(alike) < 2 else [entry for entry in of_models if entry not in alike]
        left_out |= {f"{task} of {entry.model}: {_why(entry, alike)}": 1 for entry in lost}
    if not comparisons:
        raise InputError(_nothing_shared(results, left_out))
    return TaskComparisons(models, comparisons, left_out)


def tasks_over(results: Mapping[str, Result], declared: ComparedTasks) -> list[TaskComparison]:
    """The tasks of results by name, as of the checkpoints of one training: those that were asked the same questions.

    Unlike in `compare_tasks`, a result is what is compared, and two may be of one model.
    """
    by_task: dict[str, list[ModelTask]] = {}
    for name, result in results.items():
        for entry in _entries(name, _checked(result, declared), declared):
            if isinstance(entry, ModelTask):
                by_task.setdefault(entry.task, []).append(entry)
    alike = {task: _largest(entries) for task, entries in by_task.items()}
    return [TaskComparison(task, entries[0].metric, entries) for task, entries in alike.items() if entries]


def _models_with_probes(results: Sequence[Result]) -> list[ModelResults]:
    """The results by model; an InputError where a model was probed for a task twice on one corpus."""
    models = results_by_model(results)
    for model in models:
        times = Counter(task for result in model.results for task in tasks_of(result))
        twice = [task for (task, _), count in times.items() if count > 1]
        if twice:
            raise InputError(
                f"{model.results[0].provenance.model['name']} was probed for {twice[0]} twice on one corpus; name one "
                "of these results when several models are compared"
            )
    return models


def tasks_of(result: Result) -> list[tuple[str, str]]:
    """The tasks of a probing result, each with the name of the corpus it was taken from."""
    summary, corpus = result.tables["summary"], str(result.provenance.corpus["name"])
    corpora = summary["corpus"].map(str) if "corpus" in summary else [corpus] * len(summary)
    return list(zip(summary["task"].map(str), corpora, strict=True))


def unlike_training(models: Sequence[Mapping[str, Any]], harmless: Iterable[str]) -> list[str]:
    """How the probes of models (`ModelResults.describe`) were trained differently: settings and training texts.

    Example:
        >>> models = [{"name": "a", "parameters": [{"steps": 100}]}, {"name": "b", "parameters": [{"steps": 500}]}]
        >>> unlike_training(models, ())
        ['steps: a 100, b 500']
    """
    training: dict[str, set[str]] = {}
    for model in models:
        for corpus, train in zip(model.get("corpora", ()), model.get("train", ()), strict=True):
            training.setdefault(corpus, set()).add(train)
    unlike = [f"training texts of {corpus}" for corpus, sets in training.items() if len(sets) > 1]
    return [*unlike_settings(models, harmless), *unlike]


def _largest(entries: Sequence[ModelTask]) -> list[ModelTask]:
    """The most models that answered the same questions, scored by the same metric."""
    alike: dict[tuple[str, str], list[ModelTask]] = {}
    for entry in entries:
        alike.setdefault((entry.metric, entry.answers.targets), []).append(entry)
    return max(alike.values(), key=len, default=[])


def _why(entry: ModelTask | LostTask, alike: Sequence[ModelTask]) -> str:
    """Why a model is not compared at a task."""
    if isinstance(entry, LostTask):
        return entry.reason
    first = alike[0]
    if entry is first:
        return "no other model has answers to the same questions"
    if entry.metric != first.metric:
        return f"scored by {entry.metric}, {first.model} by {first.metric}"
    if entry.answers.texts != first.answers.texts:
        return f"scored on other texts than {first.model}"
    return f"its texts have the ids of those of {first.model}, but other targets or gold labels"


def _nothing_shared(results: Sequence[Result], left_out: dict[str, int]) -> str:
    names = dict.fromkeys(f"{result.provenance.model['name']} on {_corpus(result)}" for result in results)
    return (
        f"no task of {' and '.join(names)} was scored on the same texts by the same metric ({'; '.join(left_out)}); "
        "probe the models on the same corpus, with the same --split and --limit"
    )


def _corpus(result: Result) -> str:
    corpus = result.provenance.corpus
    return f"{corpus['name']} ({corpus['split']})" if corpus.get("split") else str(corpus["name"])


def _entries(model: str, result: Result, declared: ComparedTasks) -> Iterator[ModelTask | LostTask]:
    """The tasks of one result."""
    scores: Any = result.tables["scores"]
    summary: Any = result.tables["summary"].set_index("task")
    layers = scores["layer"].dropna()
    last = int(layers.max()) if len(layers) else 0
    for name, row in summary.iterrows():
        task = str(name)
        # A task may be scored by several metrics; its main one comes first.
        pooled = scores[(scores["task"] == task) & (scores["of"] == "model") & (scores["seed"] == "all")]
        metric = str(row.get("metric", pooled["metric"].iloc[0]))
        answers = _answers(result, task, metric, pooled[pooled["metric"] == metric], declared)
        corpus = str(row.get("corpus") or result.provenance.corpus["name"])
        if isinstance(answers, str):
            yield LostTask(model, task, corpus, answers)
            continue
        numbers = (_gravity(result, task, last), _lacks(row, declared), _losses(result, task))
        yield ModelTask(model, task, corpus, metric, last, answers, *numbers, _unconverged(result, task))


def _lacks(row: Any, declared: ComparedTasks) -> dict[str, str]:
    """What is not available, such as an expected layer of probes that have not converged, and why."""
    parts = (part.partition(": ") for part in str(row.get("reason", "")).split("; "))
    reasons = {title: reason for title, _, reason in parts}
    unknown = "its probes have not converged" if str(row.get("converged", True)) == "False" else ""
    missing = {
        name: reasons.get(title, unknown)
        for name, title in declared.places.items()
        if name in row and pd.isna(row[name])
    }
    return {name: reason for name, reason in missing.items() if reason}


def _answers(
    result: Result, task: str, metric: str, scores: pd.DataFrame, declared: ComparedTasks
) -> ProbeAnswers | str:
    """The saved predictions, or why they cannot be used."""
    path = result.files.get(declared.predictions.format(task=task))
    if metric not in declared.metrics:
        return f"scored by {metric}, which cannot be compared; probe it again"
    if path is None or not path.is_file():
        return "its predictions were not saved; probe it again"
    answers = read_answers(path, cast(Metric, metric))
    if not answers.cuts:
        return "its predictions were not saved; probe it again"
    in_table = {LayerCut(row.probe, int(row.layer)): row.value for row in rows_of(scores[scores["layer"].notna()])}
    expected = [in_table.get(cut, np.nan) for cut in answers.cuts]
    if not np.allclose(answers.value(), expected, rtol=0, atol=_ROUNDING):
        # An older result does not say which labels its score leaves out.
        return "its saved predictions do not give the scores in scores.csv; probe it again"
    return answers


def _gravity(result: Result, task: str, last: int) -> np.ndarray | None:
    mixing = result.tables.get("mixing")
    if mixing is None or not {"task", "seed", "upto", "layer", "weight"} <= {*mixing.columns}:
        return None
    full = mixing[(mixing["task"] == task) & (mixing["upto"] == last)]
    tuned = "tuning_seed" in full and full["tuning_seed"].nunique() > 1
    # The mean over the seeds of a model's probes.
    unit = "tuning_seed" if tuned else "seed"
    weights = full.pivot_table(index=unit, columns="layer", values="weight").to_numpy(float)
    complete = weights.shape[1:] == (last + 1,) and np.isfinite(weights).all()
    return center_of_gravity(weights) if complete else None


def _losses(result: Result, task: str) -> dict[int, float]:
    training = result.tables.get("training")
    faithful = bool(result.provenance.parameters.get("faithful"))
    if faithful or training is None or not {"task", "of", "probe", "layer", "loss"} <= {*training.columns}:
        return {}
    single = training[(training["task"] == task) & (training["of"] == "model") & (training["probe"] == "layer")]
    means = single.groupby("layer")["loss"].mean()
    return {int(str(layer)): float(loss) for layer, loss in means.items()}


def _unconverged(result: Result, task: str) -> frozenset[LayerCut]:
    training = result.tables.get("training")
    if training is None or not {"task", "of", "probe", "layer", "converged"} <= {*training.columns}:
        return frozenset()
    of_model = training[(training["task"] == task) & (training["of"] == "model")]
    late = of_model[of_model["converged"].astype(str) == "False"]
    return frozenset(LayerCut(row.probe, int(row.layer)) for row in rows_of(late))


def _checked(result: Result, declared: ComparedTasks) -> Result:
    """The result with the columns that a comparison reads; an error if they are not as `lamina probe` writes them."""
    about = result.provenance
    name = f"{about.model.get('name', 'a model')} on {about.corpus.get('name', 'a corpus')}"
    for part in (about.model, about.corpus):
        if not all(isinstance(part.get(key), str) for key in ("name", "fingerprint")):
            raise InputError(f"{name}: the result does not say what it was made of; make it again with `lamina probe`")
    if declared.scores in result.tables:
        result = replace(result, tables={**result.tables, "scores": result.tables[declared.scores]})
    tables = dict(result.tables) | {table: _columns(result, table, name, declared) for table in _READ}
    scores, tasks = tables["scores"], tables["summary"]["task"]
    layers = scores["layer"].dropna()
    scored = set(scores.loc[(scores["of"] == "model") & (scores["seed"] == "all"), "task"])
    if tasks.duplicated().any():
        raise InputError(f"{name}: summary.csv has two rows of the task {tasks[tasks.duplicated()].iloc[0]!r}")
    if not scored.issuperset(tasks):
        raise InputError(f"{name}: scores.csv has no scores of the task {min({*tasks} - scored)!r}; probe it again")
    if ((layers % 1 != 0) | (layers < 0) | (layers > _MOST_LAYERS)).any():
        raise InputError(f"{name}: the column layer of scores.csv holds something other than layers")
    return replace(result, tables=tables)


def _columns(result: Result, table: str, name: str, declared: ComparedTasks) -> pd.DataFrame:
    """The table with its columns as text or as numbers."""
    if table not in result.tables:
        raise InputError(f"{name}: the result has no {table}.csv; make it again with `lamina probe`")
    whole = result.tables[table]
    read = {}
    for column in _READ[table]:
        times = [*whole.columns].count(column)
        if times != 1:
            fault = "lacks the column" if times == 0 else f"has {times} columns named"
            raise InputError(f"{name}: {table}.csv {fault} {column}; make the result again with `lamina probe`")
        try:
            values: Any = whole[column]
            read[column] = values.map(str) if column in _TEXT else pd.to_numeric(values).astype("float64")
        except (TypeError, ValueError):
            raise InputError(f"{name}: the column {column} of {table}.csv holds something other than numbers") from None
    optional = ("metric", "corpus", "converged", "reason", *declared.places)
    more = [column for column in optional if column not in read and [*whole.columns].count(column) == 1]
    return pd.DataFrame(read | {column: whole[column] for column in more})


class LayerDifference(NamedTuple):
    """A probe of one layer in two results, on the same draws of the same documents."""

    task: str
    layer: int
    a: ScoreEstimate
    b: ScoreEstimate
    difference: Contrast
    """b - a, by document (text); corrected by max-T over all tasks and layers, its interval simultaneous over them.
    Neither interval nor p where a probe had not converged."""
    unit: str
    """What is resampled: document or text."""


def layer_differences(a: Result, b: Result, *, samples: int, seed: int) -> Iterator[LayerDifference]:
    """Layer by layer what the single-layer probes of two results score, and b - a; all of them are one family."""
    pairs = []
    declared = get_analysis(a.analysis).compares
    if not isinstance(declared, ComparedTasks):
        raise InputError(f"{a.analysis} has no probes of single layers; give results of `lamina probe`")
    for comparison in compare_tasks([a, b], declared).comparisons:
        one, other = sample_models(comparison, samples, seed)
        for layer in sorted({cut.layer for cut in one.cuts("layer")} & {cut.layer for cut in other.cuts("layer")}):
            cut = LayerCut("layer", layer)
            tested = not any(cut in model.entry.unconverged for model in (one, other))
            pairs.append((comparison.task, layer, one.score(cut), other.score(cut), tested))
    drawn = [_drawn(other, one) for *_, one, other, tested in pairs if tested]
    tests = difference_family(drawn, least=LEAST_UNITS) if drawn else None
    member = 0
    for task, layer, one, other, tested in pairs:
        difference = Contrast(other.value - one.value, np.nan, np.nan, np.nan, one.units)
        if tested and tests is not None:
            difference, member = tests.member(member), member + 1
        yield LayerDifference(task, layer, one.estimate, other.estimate, difference, one.unit)


@dataclass(frozen=True, eq=False)
class ModelStatistic:
    """One statistic of one model at one task."""

    value: float
    draws: np.ndarray | None = None
    """[sample]"""
    seeds: np.ndarray | None = None
    """[seed] Where draws of documents do not move it, or do not say enough, and there are too few seeds to draw."""
    layer: int | None = None
    reason: str = ""
    units: int = 0
    """How many units were resampled."""
    unit: str = ""
    """What these are."""
    bounds: tuple[float, float] = (-np.inf, np.inf)
    """What it lies between."""
    compared: bool = True
    """Whether it is compared with that of other models."""

    @property
    def spread(self) -> str:
        return "interval" if self.seeds is None else "range"

    @property
    def estimate(self) -> ScoreEstimate:
        if self.seeds is not None:
            return ScoreEstimate(self.value, *_range_of(np.append(self.seeds, self.value)))
        ends = interval(self.draws) if self.draws is not None else (np.nan, np.nan)
        return ScoreEstimate(self.value, *(float(np.clip(end, *self.bounds)) for end in ends))

    def row(self) -> tuple[Any, ...]:
        return (*self.estimate, self.spread, self.layer, self.reason)


def _range_of(values: np.ndarray) -> tuple[float, float]:
    return (float(values.min()), float(values.max())) if np.isfinite(values).all() else (np.nan, np.nan)


@dataclass(frozen=True, eq=False)
class SampledTask:
    """One model at one task, resampled."""

    entry: ModelTask
    sampled: SampledScores

    def cuts(self, probe: str) -> list[LayerCut]:
        """The probes of a kind."""
        return [cut for cut in self.sampled.answers.cuts if cut.probe == probe]

    def statistic(self, name: str) -> ModelStatistic:
        """NaN with the reason where it is not available."""
        if name in self.entry.lacks:
            return _missing(self.entry.lacks[name])
        if name == "center_of_gravity":
            return self._gravity()
        if name == "expected_layer":
            return self._expected_layer()
        if name == "score_best_layer":
            if not self.cuts("layer"):
                return _missing("no probes of single layers")
            layer = self.chosen_layer()
            if layer is None:
                return _missing("no losses on texts that are not scored, to choose a layer by")
            return self.converged(LayerCut("layer", layer))
        return self.converged(LayerCut("cumulative", 0 if name == "score_first" else self.entry.last))

    def converged(self, cut: LayerCut) -> ModelStatistic:
        """The score of one probe; not compared where it had not converged, since more training would change it."""
        score = self.score(cut)
        if cut in self.entry.unconverged:
            probe = f"P({cut.layer})" if cut.probe == "cumulative" else f"layer {cut.layer}"
            return replace(score, reason=f"the probe of {probe} had not converged", compared=False)
        return score

    def score(self, cut: LayerCut) -> ModelStatistic:
        """Of one probe."""
        if cut not in self.sampled.answers.cuts:
            return _missing(f"no probe P({cut.layer})")
        # Draws are spread for few documents, and may leave what a score can be.
        bounds = (-np.inf if self.entry.metric == "r2" else 0.0, 1.0)
        value, draws = self.sampled.at(cut)
        return ModelStatistic(
            value, draws, layer=cut.layer, units=self.sampled.count, unit=self.sampled.kind, bounds=bounds
        )

    def chosen_layer(self) -> int | None:
        """The layer with the least loss on the texts that decide when to stop: none of them is scored."""
        single = [cut.layer for cut in self.cuts("layer")]
        losses = [self.entry.losses.get(layer, np.nan) for layer in single]
        return single[int(np.argmin(losses))] if single and np.isfinite(losses).all() else None

    def _gravity(self) -> ModelStatistic:
        gravity = self.entry.gravity
        if gravity is None or not self.entry.last:
            return _missing("no mixing weights of a full probe")
        shares = gravity / self.entry.last
        draws = self.sampled.over_seeds(shares)
        if draws is not None:
            return ModelStatistic(float(shares.mean()), draws, units=len(shares), unit="seed")
        return ModelStatistic(float(shares.mean()), seeds=shares, reason=_FEW_SEEDS)

    def _expected_layer(self) -> ModelStatistic:
        last = self.sampled.last
        if last is None:
            return _missing("no cumulative probes of all layers")
        if not self.sampled.gain()[0] > 0:
            return _missing("P(L) was not shown to gain on P(0)")
        value, by_seed, draws = self.sampled.expected_layers()
        if draws is None:
            return ModelStatistic(value / last, seeds=by_seed / last, reason=_FEW_SEEDS)
        return ModelStatistic(value / last, draws / last, units=self.sampled.count, unit=self.sampled.kind)

    def depths(self, comparison: TaskComparison) -> Iterator[DepthScore]:
        """The score of every probe."""
        last = self.entry.last
        for cut in self.sampled.answers.cuts:
            share = cut.layer / last if last else np.nan
            about = (self.entry.model, comparison.task, comparison.metric, cut.probe, cut.layer, share)
            yield DepthScore(*about, *self.score(cut).estimate)


_FEW_SEEDS = f"range over seeds: fewer than {ENOUGH_SEEDS}"


def _missing(reason: str) -> ModelStatistic:
    return ModelStatistic(np.nan, reason=reason)


def sample_models(comparison: TaskComparison, samples: int, seed: int) -> list[SampledTask]:
    """The models of one task, on the same draws of the same documents."""
    sampled = resample([task.answers for task in comparison.models], samples=samples, seed=seed)
    return [SampledTask(task, scores) for task, scores in zip(comparison.models, sampled, strict=True)]


@dataclass(frozen=True, eq=False)
class TaskMatch:
    """The models that are compared at one task."""

    comparison: TaskComparison
    models: list[SampledTask]

    def compared(self) -> Iterator[ModelValue]:
        """Every statistic of every model."""
        about = (self.comparison.task, self.comparison.metric)
        for statistic in STATISTICS:
            for model in self.models:
                yield ModelValue(*about, statistic, model.entry.model, *model.statistic(statistic).row())


def differences_of(matches: Sequence[TaskMatch], statistic: str) -> list[ModelDifference]:
    """All pairs of models at all tasks: one family."""
    rows, tested, drawn = [], [], []
    for match in matches:
        values = [(model.entry.model, model.statistic(statistic)) for model in match.models]
        for (one, a), (other, b) in combinations(values, 2):
            reason = "; ".join(f"{model}: {value.reason}" for model, value in ((one, a), (other, b)) if value.reason)
            about = (match.comparison.task, match.comparison.metric, statistic, one, other)
            compared = a.compared and b.compared
            if compared and a.draws is not None and b.draws is not None:
                tested.append(len(rows))
                drawn.append(_drawn(a, b))
                apart = (np.nan, np.nan, np.nan)
                rows.append(ModelDifference(*about, *apart, "interval", np.nan, 0, 0, a.unit, reason))
                continue
            spread, apart = "interval", (np.nan, np.nan, np.nan)
            if compared and np.isfinite(a.value) and np.isfinite(b.value):
                # The farthest that any two seeds are apart.
                spread, (_, *x), (_, *y) = "range", a.estimate, b.estimate
                apart = (a.value - b.value, x[0] - y[1], x[1] - y[0])
            rows.append(ModelDifference(*about, *apart, spread, np.nan, 0, 0, "", reason))
    if drawn:
        least = ENOUGH_SEEDS if statistic == "center_of_gravity" else LEAST_UNITS
        tests = difference_family(drawn, least=least)
        for member, row in enumerate(tested):
            rows[row] = _tested(rows[row], tests.member(member))
    return rows


def _drawn(a: ModelStatistic, b: ModelStatistic) -> DrawnDifference:
    none = np.full(1, np.nan)
    apart = (none if a.draws is None else a.draws) - (none if b.draws is None else b.draws)
    return DrawnDifference(a.value - b.value, apart, min(a.units, b.units))


def _tested(row: ModelDifference, test: Contrast) -> ModelDifference:
    reason = row.reason
    if not test.needed and np.isnan(test.p):
        reason = "; ".join(filter(None, (reason, "the same in every draw")))
    named = {"difference": test.estimate, "low": test.low, "high": test.high, "p_adjusted": test.p}
    return row._replace(**named, units=test.units, needed=test.needed, reason=reason)


def best_layers(match: TaskMatch) -> Iterator[RankedLayer]:
    """Every single layer of every model, the highest score first."""
    scored = [(model, cut, model.score(cut)) for model in match.models for cut in model.cuts("layer")]
    if not scored:
        return
    draws = np.stack([score.draws for *_, score in scored if score.draws is not None], axis=1)
    # Draws are spread for few documents already.
    late = [cut in model.entry.unconverged for model, cut, _ in scored]
    known = np.where(late, np.nan, [score.value for *_, score in scored])
    best = best_set(known, draws, scored[0][2].units, widen=False)
    order = sorted(range(len(scored)), key=lambda place: -scored[place][2].value)
    for rank, place in enumerate(order, start=1):
        model, cut, score = scored[place]
        values = [other.value for of, _, other in scored if of is model]
        spread, last = max(values) - min(values), model.entry.last
        yield RankedLayer(
            match.comparison.task,
            rank,
            model.entry.model,
            cut.layer,
            cut.layer / last if last else np.nan,
            *score.estimate,
            float(best.p[place]),
            bool(best.among[place]),
            cut.layer == model.chosen_layer(),
            (score.value - min(values)) / spread if spread else np.nan,
        )
