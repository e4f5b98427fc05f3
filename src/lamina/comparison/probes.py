"""Which models of several probing results can be compared at which task: those that answered the same questions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from lamina.analyses.layers.probe.statistics import center_of_gravity
from lamina.comparison.predictions import ProbeAnswers, read_answers
from lamina.errors import InputError
from lamina.probes.edge import LayerCut
from lamina.results import Result
from lamina.results.finding import rows_of
from lamina.tasks.task import Metric

_READ = {"scores": ("task", "probe", "of", "layer", "seed", "metric", "value"), "summary": ("task",)}
"""Table -> the columns that a comparison cannot do without."""
_TEXT = ("task", "probe", "of", "seed", "metric")
_MOST_LAYERS = 100_000
_METRICS: dict[str, Metric] = {"f1": "f1", "macro_f1": "macro_f1", "r2": "r2"}
"""What a task can be scored by."""
_HARMLESS = {"tasks", "probes", "twin", "mdl", "samples", "seed", "suite", "reference"}
"""Settings that do not change how the probes of a task are trained."""
_CALLED = {"center_of_gravity": "centre of gravity", "expected_layer": "expected layer"}
"""Statistic -> what the column `reason` of summary.csv calls it."""
_ROUNDING = 0.005
"""A score computed from saved predictions may differ by this: probabilities near 0.5 were rounded when saved."""


@dataclass(frozen=True, eq=False)
class ProbeResults:
    """One model with all its results."""

    name: str
    results: tuple[Result, ...]

    def describe(self) -> dict[str, Any]:
        """What provenance says of it."""
        about = [each.provenance for each in self.results]
        return {
            "name": self.name,
            "model": dict(about[0].model),
            "keys": [each.key for each in self.results],
            "corpora": [each.corpus["name"] for each in about],
            "train": [dict(each.corpus.get("train") or {}).get("fingerprint", "") for each in about],
            "parameters": [dict(each.parameters) for each in about],
        }


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
    """Statistic that the result does not have -> why, as it says."""
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
    why: str


class TaskComparison(NamedTuple):
    """Models that answered the same questions, scored by the same metric."""

    task: str
    """With the corpus where the task is scored on several."""
    metric: str
    entries: list[ModelTask]


class TaskComparisons(NamedTuple):
    """All that can be compared, and what cannot."""

    models: list[ProbeResults]
    held: list[TaskComparison]
    left_out: dict[str, int]


def compare_tasks(results: Sequence[Result]) -> TaskComparisons:
    """Merge the results of each model, and put together, task by task, the models that answered the same questions."""
    if len(results) < 2:
        raise InputError("a comparison needs two results; name another folder that `lamina probe` wrote")
    models = models_with_probes([_checked(each) for each in results])
    entries = [entry for model in models for result in model.results for entry in _entries(model.name, result)]
    corpora = {task: {each.corpus for each in entries if each.task == task} for task in {e.task for e in entries}}
    by_task: dict[str, list[ModelTask | LostTask]] = {}
    for entry in entries:
        # A task on several corpora is as many tasks.
        name = f"{entry.task} ({entry.corpus})" if len(corpora[entry.task]) > 1 else entry.task
        by_task.setdefault(name, []).append(entry)
    held, left_out = [], {}
    for task, own in by_task.items():
        alike = _largest([each for each in own if isinstance(each, ModelTask)])
        if len(alike) > 1:
            held.append(TaskComparison(task, alike[0].metric, alike))
        lost = own if len(alike) < 2 else [each for each in own if each not in alike]
        left_out |= {f"{task} of {each.model}: {_why(each, alike)}": 1 for each in lost}
    if not held:
        raise InputError(_nothing_shared(results, left_out))
    return TaskComparisons(models, held, left_out)


def models_with_probes(results: Sequence[Result]) -> list[ProbeResults]:
    """The results by model, in the order given; results of one model alone are compared with each other."""
    by_model: dict[str, list[Result]] = {}
    for result in results:
        by_model.setdefault(result.provenance.model["fingerprint"], []).append(result)
    groups = list(by_model.values()) if len(by_model) > 1 else [[each] for each in results]
    for group in groups:
        asked = Counter(pair for each in group for pair in tasks_of(each))
        twice = [task for (task, _), times in asked.items() if times > 1]
        if twice:
            raise InputError(
                f"{group[0].provenance.model['name']} was probed for {twice[0]} twice on one corpus; name one of these "
                "results when several models are compared"
            )
    names = [group[0].provenance.model["name"] for group in groups]
    shown = [f"{name} ({at})" if names.count(name) > 1 else name for at, name in enumerate(names, start=1)]
    return [ProbeResults(name, tuple(group)) for name, group in zip(shown, groups, strict=True)]


def tasks_of(result: Result) -> list[tuple[str, str]]:
    """The tasks of a probing result, each with the name of the corpus it was taken from."""
    summary, whole = result.tables["summary"], str(result.provenance.corpus["name"])
    corpora = summary["corpus"].map(str) if "corpus" in summary else [whole] * len(summary)
    return list(zip(summary["task"].map(str), corpora, strict=True))


def unlike_training(models: Sequence[Mapping[str, Any]]) -> list[str]:
    """The settings in which models (`Contender.describe`) were probed differently, with what each model has.

    Example:
        >>> given = [{"name": "a", "parameters": [{"steps": 100}]}, {"name": "b", "parameters": [{"steps": 500}]}]
        >>> unlike_training(given)
        ['steps: a 100, b 500']
    """
    found: dict[str, dict[str, str]] = {}
    for model in models:
        for name in sorted({name for each in model["parameters"] for name in each} - _HARMLESS):
            values = dict.fromkeys(str(each.get(name)) for each in model["parameters"])
            found.setdefault(name, {})[model["name"]] = " and ".join(values)
    unlike = {name: said for name, said in found.items() if len({*said.values()}) > 1}
    told = [
        f"{name}: {', '.join(f'{model} {value}' for model, value in said.items())}" for name, said in unlike.items()
    ]
    learned: dict[str, set[str]] = {}
    for model in models:
        for corpus, train in zip(model.get("corpora", ()), model.get("train", ()), strict=True):
            learned.setdefault(corpus, set()).add(train)
    return [*told, *(f"training texts of {corpus}" for corpus, trains in learned.items() if len(trains) > 1)]


def _largest(entries: Sequence[ModelTask]) -> list[ModelTask]:
    """The most models that answered the same questions, scored by the same metric."""
    alike: dict[tuple[str, str], list[ModelTask]] = {}
    for entry in entries:
        alike.setdefault((entry.metric, entry.answers.targets), []).append(entry)
    return max(alike.values(), key=len, default=[])


def _why(entry: ModelTask | LostTask, alike: Sequence[ModelTask]) -> str:
    """Why a model is not compared at a task."""
    if isinstance(entry, LostTask):
        return entry.why
    first = alike[0]
    if entry is first:
        return "no other model has answers to the same questions"
    if entry.metric != first.metric:
        return f"scored by {entry.metric}, {first.model} by {first.metric}"
    if entry.answers.texts != first.answers.texts:
        return f"scored on other texts than {first.model}"
    return f"its texts have the ids of those of {first.model}, but other targets or gold labels"


def _nothing_shared(results: Sequence[Result], left_out: dict[str, int]) -> str:
    said = dict.fromkeys(f"{each.provenance.model['name']} on {_corpus(each)}" for each in results)
    return (
        f"no task of {' and '.join(said)} was scored on the same texts by the same metric ({'; '.join(left_out)}); "
        "probe the models on the same corpus, with the same --split and --limit"
    )


def _corpus(result: Result) -> str:
    corpus = result.provenance.corpus
    return f"{corpus['name']} ({corpus['split']})" if corpus.get("split") else str(corpus["name"])


def _entries(model: str, result: Result) -> Iterator[ModelTask | LostTask]:
    """The tasks of one result."""
    scores: Any = result.tables["scores"]
    summary: Any = result.tables["summary"].set_index("task")
    layers = scores["layer"].dropna()
    last = int(layers.max()) if len(layers) else 0
    for task, row in summary.iterrows():
        # A task may be scored by several metrics; its own comes first.
        own = scores[(scores["task"] == task) & (scores["of"] == "model") & (scores["seed"] == "all")]
        metric = str(row.get("metric", own["metric"].iloc[0]))
        answers = _answers(result, str(task), metric, own[own["metric"] == metric])
        corpus = str(row.get("corpus") or result.provenance.corpus["name"])
        if isinstance(answers, str):
            yield LostTask(model, str(task), corpus, answers)
            continue
        yield ModelTask(
            model,
            str(task),
            corpus,
            metric,
            last,
            answers,
            _gravity(result, str(task), last),
            _lacks(row),
            _losses(result, str(task)),
            _unconverged(result, str(task)),
        )


def _lacks(row: Any) -> dict[str, str]:
    """What is not available, such as an expected layer of probes that have not converged, and why."""
    parts = (each.partition(": ") for each in str(row.get("reason", "")).split("; "))
    said = {name: why for name, _, why in parts}
    missing = {name: pd.isna(row[name]) for name in _CALLED if name in row}
    unknown = "its probes have not converged" if str(row.get("converged", True)) == "False" else ""
    found = {name: said.get(called, unknown) for name, called in _CALLED.items() if missing.get(name)}
    return {name: why for name, why in found.items() if why}


def _answers(result: Result, task: str, metric: str, scores: pd.DataFrame) -> ProbeAnswers | str:
    """What was saved, or why it cannot be used."""
    path = result.files.get(f"{task}.predictions.parquet")
    if metric not in _METRICS:
        return f"scored by {metric}, which cannot be compared; probe it again"
    if path is None or not path.is_file():
        return "its predictions were not saved; probe it again"
    answers = read_answers(path, _METRICS[metric])
    if not answers.cuts:
        return "its predictions were not saved; probe it again"
    told = {LayerCut(row.probe, int(row.layer)): row.value for row in rows_of(scores[scores["layer"].notna()])}
    own = [told.get(cut, np.nan) for cut in answers.cuts]
    if not np.allclose(answers.value(), own, rtol=0, atol=_ROUNDING):
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
    whole = weights.shape[1:] == (last + 1,) and np.isfinite(weights).all()
    return center_of_gravity(weights) if whole else None


def _losses(result: Result, task: str) -> dict[int, float]:
    training = result.tables.get("training")
    faithful = bool(result.provenance.parameters.get("faithful"))
    if faithful or training is None or not {"task", "of", "probe", "layer", "loss"} <= {*training.columns}:
        return {}
    own = training[(training["task"] == task) & (training["of"] == "model") & (training["probe"] == "layer")]
    means = own.groupby("layer")["loss"].mean()
    return {int(str(layer)): float(loss) for layer, loss in means.items()}


def _unconverged(result: Result, task: str) -> frozenset[LayerCut]:
    training = result.tables.get("training")
    if training is None or not {"task", "of", "probe", "layer", "converged"} <= {*training.columns}:
        return frozenset()
    own = training[(training["task"] == task) & (training["of"] == "model")]
    late = own[own["converged"].astype(str) == "False"]
    return frozenset(LayerCut(row.probe, int(row.layer)) for row in rows_of(late))


def _checked(result: Result) -> Result:
    """The result with the columns that a comparison reads; an error if they are not as `lamina probe` writes them."""
    about = result.provenance
    name = f"{about.model.get('name', 'a model')} on {about.corpus.get('name', 'a corpus')}"
    if result.analysis != "probe":
        raise InputError(
            f"{name} is a {result.analysis!r} result; only results of `lamina probe`, or of one analysis with a table "
            "of items (pairs, cloze), can be compared"
        )
    for part in (about.model, about.corpus):
        if not all(isinstance(part.get(key), str) for key in ("name", "fingerprint")):
            raise InputError(f"{name}: the result does not say what it was made of; make it again with `lamina probe`")
    tables = dict(result.tables) | {table: _columns(result, table, name) for table in _READ}
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


def _columns(result: Result, table: str, name: str) -> pd.DataFrame:
    """The table with what is read of it as text or as numbers."""
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
            own: Any = whole[column]
            read[column] = own.map(str) if column in _TEXT else pd.to_numeric(own).astype("float64")
        except (TypeError, ValueError):
            raise InputError(f"{name}: the column {column} of {table}.csv holds something other than numbers") from None
    more = ("metric", "corpus", "converged", "reason", *_CALLED)
    kept = [column for column in more if column not in read and [*whole.columns].count(column) == 1]
    return pd.DataFrame(read | {column: whole[column] for column in kept})
