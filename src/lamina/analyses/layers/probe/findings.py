"""What a probing result shows, in sentences, and in a small table for the terminal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import pandas as pd

from lamina.framework.declare import Overview
from lamina.results import Result
from lamina.results.finding import Finding, Source, Worth, best_in_words, cell, finding, not_tested, number, rows_of
from lamina.stats.seeds import ENOUGH_SEEDS
from lamina.stats.status import Contrast
from lamina.tasks import title_of
from lamina.tasks.task import METRIC_NAMES

TWIN, CONSTANT = "untrained twin", "constant answer"
"""Baselines of a reading."""
_TIES = 3
"""The most pairs of tasks that a sentence names."""
STATISTICS = {"expected_layer": "expected layer", "center_of_gravity": "centre of gravity"}
"""What places tasks -> its name."""


def probe_findings(tables: Mapping[str, pd.DataFrame]) -> Iterator[Finding]:
    """Every task beside its baselines and at its best layers; the order of all tasks; the least selective task."""
    if not {"readings", "best_layers", "order", "control", "summary"} <= tables.keys():
        return
    for task in dict.fromkeys(tables["readings"]["task"]):
        yield _reading(tables, str(task))
    yield from _orders(tables)
    yield from _selectivity(tables["control"])


def _reading(tables: Mapping[str, pd.DataFrame], task: str) -> Finding:
    """Whether a task is read above its baselines, and which layers read it best."""
    rows = tables["readings"]
    rows = rows[rows["task"] == task]
    layers = tables["best_layers"]
    layers = layers[layers["task"] == task]
    title = _title(task)
    whether = f"{_inside(title)} can be read above {'the untrained twin' if _has_twin(rows) else 'chance'}"
    highest = highest_tested(rows)
    if highest is None:
        reason = next(row.reason for row in rows_of(rows))
        return not_tested(whether, reason, source=[Source("readings", {"task": task})], importance=("answers",))
    baseline = f"the {'untrained twin' if highest.baseline == TWIN else 'best constant answer'}"
    short = "twin" if highest.baseline == TWIN else "constant"
    among = layers["among_best"].astype(bool).tolist()
    together = highest.probe == "cumulative"
    best = best_in_words(layers["layer"].astype(int).tolist(), among)
    where = f"layers 0 to {highest.layer}" if together else f"layer {highest.layer}"
    score = (
        f"{_metric_name(highest.metric)} {number(highest.value)} at {where}, {short} {number(highest.baseline_value)}"
    )
    known = layers["p_beaten"].notna().any()
    localised = f", best {'when mixed up to' if together else 'at'} {best}" if best else ""
    nowhere = "; no layer was shown to be better than another" if known and not best and len(layers) > 1 else ""
    claim = f"{title} can be read above {baseline}{localised}: {score}{nowhere}"
    from_baseline = "from the untrained twin" if highest.baseline == TWIN else "by the best constant answer"
    if highest.difference < 0:
        claim = f"{title} can be predicted better {from_baseline}: {score}"
    worth: tuple[Worth, ...] = ("answers", "beats control")
    return finding(
        claim=claim,
        whether=f"{_inside(title)} can be read above {baseline} ({score})",
        absent=f"{title} can be predicted as well {from_baseline}: {score}",
        contrast="difference",
        test=Contrast.of(highest, "difference"),
        source=[
            Source("readings", {"task": task, "layer": highest.layer, "baseline": highest.baseline}),
            Source("best_layers", {"task": task}),
        ],
        unit=highest.unit,
        importance=(*worth, "localised") if best else worth,
        note="" if known else f"The best layer is not available: {next(row.reason for row in rows_of(layers))}.",
    )


def highest_tested(rows: pd.DataFrame) -> Any | None:
    """Of a task's rows of `readings`, the layer of the highest score and the harder baseline there, if it was tested.

    All layers and baselines are one family, so that any of them may be picked.
    """
    twin = _has_twin(rows)
    best = None
    for _, layer in rows.groupby("layer", sort=True):
        tested = layer[layer["reason"].fillna("") == ""]
        if tested.empty or (twin and TWIN not in set(tested["baseline"])):
            continue
        harder = next(rows_of(tested.sort_values("baseline_value", ascending=False, kind="stable")))
        if best is None or harder.value > best.value:
            best = harder
    return best


def _has_twin(rows: pd.DataFrame) -> bool:
    return TWIN in set(rows["baseline"])


def _orders(tables: Mapping[str, pd.DataFrame]) -> Iterator[Finding]:
    """The whole order of tasks by either statistic; where there is none, the reason, once."""
    rows = tables["order"]
    worth: tuple[Worth, ...] = ("answers", "localised")
    whether = "tasks are resolved at different layers"
    for statistic in STATISTICS:
        of_statistic = rows[rows["statistic"] == statistic]
        if of_statistic["p_adjusted"].notna().any():
            yield _order(of_statistic, tables["summary"], statistic)
    if rows.empty or rows["p_adjusted"].notna().any():
        return
    few = rows[rows["needed"] > 0]
    if len(few):
        row = next(rows_of(few))
        test = Contrast(*[float("nan")] * 4, units=int(row.units), needed=int(row.needed))
        yield finding(
            claim=whether, whether=whether, absent=whether, contrast="difference in layers", test=test,
            source=Source("order", {"needed": row.needed}), unit="seed", importance=worth, margin=0,
        )  # fmt: skip
    elif _placed(tables["summary"]):
        reason = next(row.reason for row in rows_of(rows))
        yield not_tested(whether, reason, source=[Source("order", {"statistic": "expected_layer"})], importance=worth)


def _placed(summary: pd.DataFrame) -> bool:
    """Whether layers were mixed at all; of single layers alone, nothing places a task."""
    return bool(summary["f1_full"].notna().any())


def _order(rows: pd.DataFrame, summary: pd.DataFrame, statistic: str) -> Finding:
    """All tasks in their order, and the pairs that do not differ."""
    name = STATISTICS[statistic]
    tested = rows[rows["p_adjusted"].notna()]
    clear = tested[tested["clear"].astype(bool)]
    source = [Source("order", {"statistic": statistic})]
    worth: tuple[Worth, ...] = ("answers", "localised")
    if clear.empty:
        row = next(rows_of(tested.sort_values("p_adjusted", kind="stable")))
        pair = _pair(row)
        whether, contrast = (
            f"any task comes before another by {name}",
            f"surest pair, {pair.later} minus {pair.earlier}",
        )
        if len(rows) == 1:
            whether, contrast = f"the order by {name} is {pair.earlier} before {pair.later}", "difference in layers"
        return finding(
            claim=whether, whether=whether, absent=whether, contrast=contrast, test=pair.test, source=source,
            unit="seed", importance=worth, margin=0,
        )  # fmt: skip
    # A claim about several pairs is as sure as the least sure of them.
    surest_last = clear.assign(size=clear["difference"].abs()).sort_values(
        ["p_adjusted", "size"], ascending=[False, True], kind="stable"
    )
    pair = _pair(next(rows_of(surest_last)))
    placed = set(tested["task_a"]) | set(tested["task_b"])
    in_order = [task for task in summary.sort_values(statistic, kind="stable")["task"] if task in placed]
    if len(clear) == len(rows) == 1:
        claim = f"The order by {name} is {pair.earlier} before {pair.later}"
        contrast = "difference in layers"
    else:
        listed = _listed([_title(in_order[0]), *(_inside(_title(task)) for task in in_order[1:])])
        claim = f"Tasks by {name}, earliest first: {_inside(listed)}; {_apart(rows, clear, tested)}"
        contrast = f"least sure of them, {pair.later} minus {pair.earlier}"
        source.append(Source("order", {"statistic": statistic, "clear": True}))
    return finding(
        claim=claim, whether=claim, absent=claim, contrast=contrast, test=pair.test, source=source, unit="seed",
        importance=worth, margin=0,
    )  # fmt: skip


def _apart(rows: pd.DataFrame, clear: pd.DataFrame, tested: pd.DataFrame) -> str:
    """Which pairs differ."""
    if len(clear) == len(rows):
        return f"all {len(rows)} pairs differ"
    ties = [f"{_inside(_title(row.task_a))} and {_inside(_title(row.task_b))}" for row in rows_of(tested)
            if not row.clear]  # fmt: skip
    of = f"{len(clear)} of {len(rows)} pairs differ"
    missing = len(rows) - len(tested)
    if 0 < len(ties) <= _TIES and not missing:
        return f"{of}, all but {_listed(ties, also=', ')}"
    return of


class TaskPair(NamedTuple):
    """Two tasks, the later one minus the earlier one."""

    earlier: str
    later: str
    test: Contrast


def _pair(row: Any) -> TaskPair:
    test = Contrast.of(row, "difference")
    first, second = row.task_a, row.task_b
    if test.estimate < 0:
        first, second = second, first
        test = test._replace(estimate=-test.estimate, low=-test.high, high=-test.low)
    return TaskPair(_inside(_title(first)), _inside(_title(second)), test)


def _listed(parts: Sequence[str], also: str = " and ") -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])}{also}{parts[-1]}"


def _selectivity(control: pd.DataFrame) -> Iterator[Finding]:
    """The task that a probe could most nearly have memorised."""
    known = control.dropna(subset=["difference"])
    if known.empty:
        return
    row: Any = next(rows_of(known.sort_values("difference", kind="stable")))
    title = _title(row.task)
    least = ", the least selective task," if len(known) > 1 else ""
    score = (
        f"{_metric_name(str(row.metric))} {number(row.model)} at layer {int(row.layer)}, control labels "
        f"{number(row.control)}"
    )
    claim = f"{title}{least} can be read beyond what a probe memorises: {score}"
    if row.difference < 0:
        claim = f"Control labels, which a probe can only memorise, are predicted better than {_inside(title)}: {score}"
    yield finding(
        claim=claim,
        whether=f"{_inside(title)} can be read beyond what a probe memorises ({score})",
        absent=f"{title}{least} can be read no better than control labels, which a probe can only memorise: {score}",
        contrast="selectivity",
        test=Contrast.of(row, "difference"),
        source=Source("control", {"task": row.task}),
        unit=row.unit,
        importance=("beats control",),
    )


class AbilityReading(NamedTuple):
    """A task by layer with its baselines, for what shows all abilities at a glance."""

    task: str
    metric: str
    rows: pd.DataFrame
    """The model's scores by layer ..."""
    twin_rows: pd.DataFrame
    """... and the twin's."""
    constant: float
    """The best constant answer's score; NaN where it is not known."""
    converged: bool
    """Whether all of the model's probes of the kind have."""
    among_best: tuple[int, ...]
    """Layers of the confidence set of best ones; empty in older results, and where there is none."""


def best_readings(tables: Mapping[str, pd.DataFrame]) -> Iterator[AbilityReading]:
    """Each task at every layer alone (where only mixed layers were probed, at those up to it), by its own metric."""
    scores = tables["scores"]
    pooled = scores[scores["seed"].astype(str) == "all"].dropna(subset=["value"])
    for task, rows in pooled.groupby("task", sort=False):
        # The task's own metric comes first.
        metric_rows = rows[rows["metric"] == rows["metric"].iloc[0]]
        probed = metric_rows[metric_rows["probe"] != "constant"]
        if probed.empty:
            continue
        probe = "layer" if (probed["probe"] == "layer").any() else "cumulative"
        probed = probed[probed["probe"] == probe]
        model, twin = (probed[probed["of"] == of] for of in ("model", "random"))
        if model.empty:
            continue
        constant = metric_rows[(metric_rows["probe"] == "constant") & (metric_rows["of"] == "model")]["value"].max()
        late = _has_late(tables.get("training"), str(task), probe)
        yield AbilityReading(
            str(task), _metric_name(str(model["metric"].iloc[0])), model, twin, float(constant), not late,
            _among_best(tables.get("best_layers"), str(task)),
        )  # fmt: skip


def _has_late(training: pd.DataFrame | None, task: str, probe: str) -> bool:
    if training is None:
        return False
    rows = training[(training["task"] == task) & (training["of"] == "model") & (training["probe"] == probe)]
    return not rows["converged"].astype(bool).all()


def _among_best(layers: pd.DataFrame | None, task: str) -> tuple[int, ...]:
    if layers is None:
        return ()
    rows = layers[(layers["task"] == task) & layers["among_best"].astype(bool)]
    return tuple(map(int, rows["layer"]))


def _metric_name(metric: str) -> str:
    return METRIC_NAMES.get(metric, metric)


def _title(task: str) -> str:
    return title_of(task)


def _inside(title: str) -> str:
    """Within a sentence."""
    return title[0].lower() + title[1:] if title[1:2].islower() else title


def probe_overview(result: Result) -> Iterable[Overview | str]:
    """Scores of the first and the full probe, and where each task is resolved; of single layers alone, the best."""
    corpus = result.provenance.corpus
    yield from (
        description["in_words"]
        for description in corpus.get("tasks", {}).values()
        if description["definition"] == "own"
    )
    title = f"{result.provenance.model['name']} on {corpus['name']} ({corpus.get('split', '')})"
    if not (result.tables["scores"]["probe"] == "cumulative").any():
        columns = ("task", "score", "highest at layer", "value", "best layers", "twin", "constant", "selectivity")
        yield Overview(title, columns, [_single(result, row) for row in rows_of(result.tables["summary"])])
        yield from _reasons(result)
        return
    columns = ("task", "score", "P(0)", "P(L)", "centre of gravity", "expected layer", "selectivity")
    rows = [
        (
            row.task,
            row.metric,
            cell(row.f1_first),
            cell(row.f1_full),
            cell(row.center_of_gravity, row.cog_low, row.cog_high),
            cell(row.expected_layer, row.el_low, row.el_high),
            cell(row.selectivity, row.selectivity_low, row.selectivity_high),
        )
        for row in rows_of(result.tables["summary"])
    ]
    yield Overview(title, columns, rows)
    seeds = result.tables["summary"][["probe_seeds", "tuning_seeds"]].max().astype(int)
    varied = seeds["tuning_seeds"] if seeds["tuning_seeds"] > 1 else seeds["probe_seeds"]
    if 1 < varied < ENOUGH_SEEDS:
        yield f"[ ] of centre of gravity and expected layer: lowest to highest of {varied} seeds, no interval"
    yield from _reasons(result)


def _reasons(result: Result) -> Iterable[str]:
    reasons = result.tables["summary"].set_index("task")["reason"].dropna()
    return (f"{task}: {reason}" for task, reason in reasons.items() if reason)


def _single(result: Result, row: Any) -> tuple[str | int, ...]:
    """A line of the overview of single layers: the highest score, and what it is compared with at that layer."""
    scores = result.tables["scores"]
    task_scores = scores[(scores["task"] == row.task) & (scores["metric"] == row.metric) & (scores["seed"] == "all")]
    model, twin = (
        task_scores[(task_scores["of"] == of) & (task_scores["probe"] == "layer")] for of in ("model", "random")
    )
    highest = model.sort_values("value", kind="stable").iloc[-1]
    beside = twin[twin["layer"] == highest["layer"]]["value"].max()
    constant = task_scores[(task_scores["probe"] == "constant") & (task_scores["of"] == "model")]["value"].max()
    selectivity = cell(row.selectivity, row.selectivity_low, row.selectivity_high)
    value = cell(highest["value"], highest["low"], highest["high"])
    layers = result.tables["best_layers"]
    layers = layers[layers["task"] == row.task]
    among = layers["among_best"].astype(bool).tolist()
    best = best_in_words(layers["layer"].astype(int).tolist(), among).removeprefix("layers ").removeprefix("layer ")
    none = "any" if any(among) else "n/a"
    return (row.task, row.metric, int(highest["layer"]), value, best or none, cell(beside), cell(constant), selectivity)
