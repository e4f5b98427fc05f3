"""Results of several models side by side: what one knows or says better, and where in its depth it knows it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from lamina.comparison.measures import (
    MEAN,
    VALUE,
    layers_in_words,
    side_by_side,
    values_beside,
    values_in_words,
)
from lamina.comparison.predictions import ALL, ITEMS, models_with_items, shared_items
from lamina.comparison.probes import (
    TaskMatch,
    best_layers,
    compare_tasks,
    differences_of,
    sample_models,
    unlike_training,
)
from lamina.comparison.tables import (
    METRICS,
    STATISTICS,
    DepthScore,
    ModelDifference,
    ModelLead,
    ModelResults,
    ModelValue,
    RankedLayer,
    in_words,
    leads_in_words,
    unlike_in_words,
    unlike_settings,
)
from lamina.errors import InputError
from lamina.framework.declare import (
    Comparable,
    ComparedItems,
    ComparedLayers,
    ComparedTasks,
    ComparedValues,
    Overview,
    Table,
    Tables,
    analysis,
)
from lamina.framework.inputs import SavedResults
from lamina.framework.registry import all_analyses, get_analysis
from lamina.framework.settings import Samples, Seed
from lamina.results import Result
from lamina.results.finding import Finding, Source, cell, finding, not_tested, number, rows_of
from lamina.results.index import SavedResult
from lamina.stats.seeds import ENOUGH_SEEDS
from lamina.stats.status import NEGLIGIBLE, SURE, Contrast
from lamina.tasks import title_of

if TYPE_CHECKING:
    import pandas as pd

    from lamina.results import Result


SAME_DEPTH = 0.05
"""Expected layers this close, as shares of the depth, are equal: a third of a layer in a model of six."""
_MOST_SHOWN = 40
"""Differences in the terminal."""


@analysis(
    title="Several models side by side",
    question="What does one model know or say better than another, and where in its depth does it know it?",
    method=(
        "Scores and places of the models' probes are compared task by task, with layers as shares of each model's own "
        "depth. All models are scored on the same draws of the same documents, from their saved predictions, so that "
        "differences are paired; p-values and intervals are corrected by max-T over all tasks and pairs of models. "
        "Results with items (minimal pairs, clozes) are compared item by item, by flipped signs within groups. "
        "Measures by layer (geometry, attention, lens) are compared by their mean over layers and at the last layer, "
        "in the bootstrap samples that their results keep: a sample draws the same documents, texts or word types of "
        "all models."
    ),
    cites=("Tenney et al. 2019", "Efron and Tibshirani 1993", "Romano and Wolf 2005"),
    reads=SavedResults(),
    # Several models; paired intervals from the saved predictions (2). Measures by layer are paired (3). Documents are
    # resampled, families corrected by max-T; best layers are a confidence set (4).
    version=4,
    tables={
        "compare": Table("One row per task, statistic and model.", ModelValue._fields),
        "differences": Table(
            "One row per task, statistic and pair of models: a - b. p_adjusted is two-sided, by max-T over all tasks "
            "(measures, groups of items) and pairs of models of the statistic; the mean over groups of items is "
            "corrected over pairs of models. low and high are simultaneous over the same family.",
            ModelDifference._fields,
        ),
        "depth": Table(
            "One row per model, task (or measure), kind of probe and layer: the score (or measure), by share of the "
            "depth; of results by layer.",
            DepthScore._fields,
            optional=True,
        ),
        "best_layers": Table(
            "One row per task, model and layer: the score of that layer alone, the highest of all models first, and "
            "whether it can be the best of them (a confidence set over all layers of all models at the task); of "
            "probing results.",
            RankedLayer._fields,
            optional=True,
        ),
        "items": Table(
            "One row per item and model; of results with items (pairs, clozes).",
            (*ITEMS[:2], "model", ITEMS[2]),
            optional=True,
            format="parquet",
        ),
    },
    chapter="abilities",
    example="lamina compare results/minilm results/mpnet results/smollm2 --out results/compare",
)
def compare(results: Sequence[Result], *, samples: Samples = 1000, seed: Seed = 0) -> Tables:
    """Results of any number of models: scores, and where in each model's own depth the answers appear.

    Results of one model on several corpora are merged. A task is compared among the models that were scored on the
    same targets by the same metric; what is left out is counted. Depth is relative (layer / L), so that models of
    different depth can be compared.

    Documents are resampled (texts where there is one document), the same for all models, and from 5 seeds on each
    model's seeds vary too. So a difference is paired, and its interval is narrower than that of independent results
    where models err on the same texts. Differences of one statistic are a family: all tasks, all pairs of models. Below
    5 seeds, the expected layer and the centre of gravity have a range over seeds and no test.

    Of analyses with a table of items (`pairs`, `cloze`): models are paired by item, task is the group (paradigm,
    relation), and `all` the mean over groups. p is that of a sign-flip test, corrected by max-T over groups and pairs
    of models. Items that not all models answered are left out.

    Of `geometry`, `attention` and `lens`: their measures by layer are put side by side on relative depth. Differences
    of means over layers, and of last layers, are paired: of the same draws of documents (texts, word types), which the
    results keep. What is not paired (results of older versions or with other settings; a lens on the next token beside
    one on masked words) is not tested, and `reason` and the findings say so.

    Example:
        >>> compare("results/minilm", "results/mpnet").tables["differences"]  # doctest: +SKIP
    """
    declared = compared_by(results)
    if isinstance(declared, ComparedItems):
        return _compare_items(results, declared, samples, seed)
    if isinstance(declared, ComparedLayers):
        return _compare_layers(results, declared)
    if isinstance(declared, ComparedValues):
        return _compare_values(results, declared)
    return _compare_tasks(results, declared, samples, seed)


def compared_by(results: Sequence[Result]) -> Comparable:
    """What the analysis of these results declares that models are compared by; an InputError where there is nothing."""
    analyses = list(dict.fromkeys(result.analysis for result in results))
    if len(analyses) > 1:
        names = " and ".join(analyses)
        raise InputError(f"results of {names} cannot be compared with each other; name results of one of them")
    if len(results) < 2:
        raise InputError(f"a comparison needs two results; name another folder that `lamina {analyses[0]}` wrote")
    declared = get_analysis(analyses[0]).compares
    if declared is None:
        names = ", ".join(known.name for known in all_analyses() if known.compares is not None)
        raise InputError(f"results of {analyses[0]} are not compared; these are: results of {names}")
    return declared


def _compare_tasks(results: Sequence[Result], declared: ComparedTasks, samples: int, seed: int) -> Tables:
    models, comparisons, left_out = compare_tasks(results, declared)
    matches = [TaskMatch(comparison, sample_models(comparison, samples, seed)) for comparison in comparisons]
    tables = {
        "compare": pd.DataFrame(
            [row for match in matches for row in match.compared()], columns=list(ModelValue._fields)
        ).astype({"layer": "Int64"}),
        "differences": pd.DataFrame(
            [row for statistic in STATISTICS for row in differences_of(matches, statistic)],
            columns=list(ModelDifference._fields),
        ),
        "depth": pd.DataFrame(
            [row for match in matches for model in match.models for row in model.depths(match.comparison)],
            columns=list(DepthScore._fields),
        ),
        "best_layers": pd.DataFrame(
            [row for match in matches for row in best_layers(match)], columns=list(RankedLayer._fields)
        ),
    }
    return Tables(tables, left_out, model=_about_models(models), data=_about_data(results))


def _about_models(models: Sequence[ModelResults]) -> dict[str, Any]:
    return {"name": in_words([model.name for model in models]), "models": [model.describe() for model in models]}


def _about_data(results: Sequence[Result]) -> dict[str, Any]:
    names = dict.fromkeys(str(result.provenance.corpus.get("name", "")) for result in results)
    return {"name": in_words(names), "compared": results[0].analysis}


def _compare_items(results: Sequence[Result], declared: ComparedItems, samples: int, seed: int) -> Tables:
    models = models_with_items(results)
    items = shared_items(models, declared)
    means, apart = items.compare(samples=samples, seed=seed)
    about = (items.metric, "items")
    values = [ModelValue(row.group, *about, *row[2:], "interval", None, "") for row in means]
    differences = [
        ModelDifference(row.group, *about, *row[2:7], "interval", *row[7:], declared.unit, "") for row in apart
    ]
    tables = {
        "compare": pd.DataFrame(values, columns=list(ModelValue._fields)).astype({"layer": "Int64"}),
        "differences": pd.DataFrame(differences, columns=list(ModelDifference._fields)),
        "items": items.long(),
    }
    return Tables(tables, items.left_out, model=_about_models(models), data=_about_data(results))


def _compare_layers(results: Sequence[Result], declared: ComparedLayers) -> Tables:
    compared = side_by_side(results, declared)
    tables = {
        "compare": pd.DataFrame(compared.values, columns=list(ModelValue._fields)).astype({"layer": "Int64"}),
        "differences": pd.DataFrame(compared.differences, columns=list(ModelDifference._fields)),
        "depth": pd.DataFrame(compared.depths, columns=list(DepthScore._fields)),
    }
    models = _models_of(results)
    # Not the setting `samples`: the draws are those of the results.
    draws = {"bootstrap": compared.samples, "drawn": compared.resampled}
    return Tables(
        tables,
        compared.left_out,
        model=models,
        data=_about_data(results[:1]) | draws,
    )


def _compare_values(results: Sequence[Result], declared: ComparedValues) -> Tables:
    compared = values_beside(results, declared)
    if not compared.values:
        raise InputError("these results have no number in common; measure the models on the same texts")
    tables = {
        "compare": pd.DataFrame(compared.values, columns=list(ModelValue._fields)).astype({"layer": "Int64"}),
        "differences": pd.DataFrame(compared.differences, columns=list(ModelDifference._fields)),
    }
    return Tables(tables, compared.left_out, model=_models_of(results), data=_about_data(results[:1]))


def _models_of(results: Sequence[Result]) -> dict[str, Any]:
    models = [dict(result.provenance.model) for result in results]
    return {"name": in_words([str(model["name"]) for model in models]), "models": models}


@compare.finds
def _findings(result: Result) -> Iterable[Finding]:
    """Who is ahead at which tasks, who resolves tasks deeper, and whether the models were probed alike."""
    models = result.provenance.model.get("models", [])
    declared = get_analysis(str(result.provenance.corpus.get("compared", "probe"))).compares
    if isinstance(declared, ComparedItems):
        yield from _items_in_words(result, declared)
        yield from unlike_in_words("the models were asked", unlike_settings(models, declared.harmless))
        return
    if isinstance(declared, ComparedLayers):
        yield from layers_in_words(result, declared)
        return
    if isinstance(declared, ComparedValues):
        yield from values_in_words(result, declared)
        return
    for statistic, what in (("score_full", ""), ("score_best_layer", " in one layer")):
        leads = list(_leads(result, statistic, what))
        if leads:
            yield from leads_in_words(leads, "tasks")
            break
    else:
        yield from _no_scores(result)
    yield from _deeper_in_words(result)
    yield from unlike_in_words(
        "the probes were trained", unlike_training(models, declared.harmless if declared else ())
    )


def _no_scores(result: Result) -> Iterator[Finding]:
    """Why no scores were compared."""
    table = result.tables["differences"]
    rows = table[table["statistic"].isin(["score_full", "score_best_layer"]) & (table["reason"].fillna("") != "")]
    for row in rows_of(rows.head(1)):
        source = {"task": row.task, "statistic": row.statistic, "a": row.a, "b": row.b}
        yield not_tested(
            "one model reads a task better than another", row.reason, source=[Source("differences", source)]
        )


def _leads(result: Result, statistic: str, what: str = "") -> Iterator[ModelLead]:
    """The differences of a statistic that were tested, or could not be for want of documents."""
    compared, apart = result.tables["compare"], result.tables["differences"]
    values = {(row.task, row.model): row.value for row in rows_of(compared[compared["statistic"] == statistic])}
    for row in rows_of(apart[apart["statistic"] == statistic]):
        if row.spread == "range" or not np.isfinite(row.difference):
            continue
        about = {"task": row.task, "statistic": statistic}
        # Sources of both values, then of the difference.
        source = (*(Source("compare", {**about, "model": model}) for model in (row.a, row.b)),
                  Source("differences", {**about, "a": row.a, "b": row.b}))  # fmt: skip
        measure = METRICS.get(row.metric, "F1")
        yield ModelLead(
            row.a,
            row.b,
            (values[row.task, row.a], values[row.task, row.b]),
            Contrast.of(row, "difference"),
            measure,
            f"at {title_of(row.task)}{what}",
            source,
            row.unit,
            note="The layer is that of the least loss on the texts that decide when to stop." if what else "",
        )


def _items_in_words(result: Result, declared: ComparedItems) -> Iterator[Finding]:
    """Who is ahead over all groups, and at which group."""
    accuracy = set(result.tables["compare"]["metric"]) == {"accuracy"}
    leads = [
        lead._replace(
            measure="accuracy" if accuracy else declared.measure,
            where="in the mean over groups" if group == ALL else f"at {group}",
            margin=NEGLIGIBLE if accuracy else 0.0,
        )
        for lead, group in ((lead, str(lead.source[-1].where["task"])) for lead in _leads(result, "items"))
    ]
    for overall in (True, False):
        some = [lead for lead in leads if (lead.source[-1].where["task"] == ALL) is overall]
        yield from leads_in_words(some, "groups")


def _deeper_in_words(result: Result) -> Iterator[Finding]:
    """The task at which one model's expected layer is clearly deepest against another's."""
    table = result.tables["differences"]
    known = table[(table["statistic"] == "expected_layer") & table["difference"].notna()]
    if known.empty:
        return
    leads = list(_leads(result, "expected_layer"))
    if not leads:
        yield not_tested(
            "one model resolves a task deeper than another",
            f"an expected layer has no interval with fewer than {ENOUGH_SEEDS} seeds of the probes",
        )
        return
    turned = [
        (lead if lead.test.estimate >= 0 else lead.turned())._replace(margin=SAME_DEPTH, where="") for lead in leads
    ]
    clear = [lead for lead in turned if lead.clear]
    top = max(clear, key=lambda lead: lead.test.estimate) if clear else _surest(turned)
    task = title_of(str(top.source[-1].where["task"]))
    one, other = map(number, top.values)
    yield finding(
        claim=f"{top.a} resolves {task} deeper than {top.b}: its expected layer is at {one} of its depth, that of "
        f"{top.b} at {other}",
        whether=f"{top.a} or {top.b} resolves {task} deeper in its layers",
        absent=f"{top.a} and {top.b} resolve {task} at the same depth",
        contrast="difference",
        test=top.test,
        source=top.source,
        unit=top.unit,
        importance=("answers", "localised"),
        margin=SAME_DEPTH,
        note=f"Clear in {len(clear)} of {len(leads)} comparisons." if len(leads) > 1 else "",
    )


def _surest(leads: Sequence[ModelLead]) -> ModelLead:
    return min(leads, key=lambda lead: (lead.test.p if np.isfinite(lead.test.p) else 2.0, -lead.test.estimate))


@compare.shows
def _overview(result: Result) -> Iterable[Overview]:
    """Every statistic of every model, the differences of full probes, and where to read each task."""
    table = result.tables["compare"]
    models = list(dict.fromkeys(table["model"]))
    rows: list[tuple[str | int, ...]] = []
    for (task, statistic), group in table.groupby(["task", "statistic"], sort=False):
        known = {row.model: cell(row.value, row.low, row.high) for row in rows_of(group)}
        rows.append((str(task), str(statistic), *(known.get(model, "-") for model in models)))
    yield Overview(result.provenance.model["name"], ("task", "statistic", *models), rows)
    apart = result.tables["differences"]
    full = apart[apart["statistic"].isin(["score_full", "items", MEAN, VALUE]) & apart["difference"].notna()]
    if len(full):
        # Of many groups, those that models are clearly apart at; the table has them all.
        selected = full if len(full) <= _MOST_SHOWN else full[(full["task"] == ALL) | (full["p_adjusted"] < SURE)]
        cells = [
            (row.task, f"{row.a} - {row.b}", cell(row.difference, row.low, row.high), cell(row.p_adjusted))
            for row in rows_of(selected.head(_MOST_SHOWN))
        ]
        what = "Differences of the full probes, paired by document"
        if "items" in result.tables:
            what = "Differences, paired by item"
        elif (full["statistic"] == MEAN).any():
            what = "Differences of means over layers, paired"
        elif (full["statistic"] == VALUE).any():
            what = "Differences, paired by document where results keep what each document has"
        more = len(full) - len(cells)
        what += f"; {more:,} more are in differences.csv" if more else ""
        yield Overview(what, ("task", "models", "difference", "p"), cells)
    best = result.tables.get("best_layers")
    if best is not None and len(best):
        selected = best[best["among_best"] | best["chosen"]]
        cells = [
            (
                row.task,
                row.rank,
                row.model,
                row.layer,
                cell(row.value, row.low, row.high),
                "yes" if row.among_best else "no",
            )
            for row in rows_of(selected)
        ]
        yield Overview("The best single layers", ("task", "rank", "model", "layer", "score", "can be the best"), cells)


_HARMLESS = frozenset({"samples", "seed", "twin", "reference", "tasks", "suite", "mdl", "store", "twin_limit"})
"""Settings that do not change what is measured, only how surely or what beside it."""
NO_RESULT = "no saved result of "
"""How the reason begins why something of a model is not compared."""
_NUMBERS = ("layer", "value", "low", "high")
_TWIN = "random"
_MOST = 24
"""Series of one table: more cannot be read side by side."""


class ModelEntries(NamedTuple):
    """A model, or its random twin, with its newest result of each analysis."""

    name: str
    """In requests."""
    twin: bool
    entries: Mapping[str, SavedResult]


def newest_results(entries: Sequence[SavedResult]) -> dict[str, SavedResult]:
    """Analysis -> its newest result; `entries` come newest first."""
    return {entry.analysis: entry for entry in reversed(entries)}


def why_not_comparable(a: SavedResult, b: SavedResult) -> str:
    """Why two results of one analysis cannot be compared; empty where they can."""
    if a.head.get("version", 0) != b.head.get("version", 0):
        return f"made by different versions of the analysis ({a.head.get('version', 0)}, {b.head.get('version', 0)})"
    if _data(a) != _data(b):
        same = _corpus(a) == _corpus(b)
        on = f"other texts of {_corpus(a)}" if same else f"{a.model} on {_corpus(a)}, {b.model} on {_corpus(b)}"
        return f"measured on different texts ({on})"
    names = sorted({*a.parameters, *b.parameters} - _HARMLESS)
    unlike = [name for name in names if a.parameters.get(name) != b.parameters.get(name)]
    settings = [f"{name} {a.parameters.get(name)}, {b.parameters.get(name)}" for name in unlike]
    return f"different settings: {'; '.join(settings)}" if settings else ""


def _data(entry: SavedResult) -> tuple[str, ...]:
    return tuple(str(entry.corpus.get(name, "")) for name in ("name", "split", "fingerprint"))


def _corpus(entry: SavedResult) -> str:
    return f"{entry.corpus.get('name', '?')} {entry.corpus.get('split', '')}".strip()


class NotComparable(NamedTuple):
    """What is not compared, and why."""

    what: str
    why: str


def comparable_results(sides: Sequence[ModelEntries]) -> tuple[dict[str, list[ModelEntries]], list[NotComparable]]:
    """Analysis -> the sides whose results are like the first's that has it; and what is left out, with the reason."""
    comparable: dict[str, list[ModelEntries]] = {}
    unlike, missing = [], {side.name: [] for side in sides}
    for name in dict.fromkeys(name for side in sides for name in side.entries):
        holders = [side for side in sides if name in side.entries]
        alike = [holders[0]]
        for side in holders[1:]:
            why = why_not_comparable(holders[0].entries[name], side.entries[name])
            if why:
                unlike.append(NotComparable(f"{name} of {side.name}", why))
            else:
                alike.append(side)
        for side in sides:
            if side not in holders:
                missing[side.name].append(name)
        if len(alike) > 1:
            comparable[name] = alike
    return comparable, [
        *unlike,
        *(NotComparable(name, f"{NO_RESULT}{', '.join(analyses)}") for name, analyses in missing.items() if analyses),
    ]


def layer_curves(result: Result, *, twin: bool) -> pd.DataFrame:
    """Numbers by layer with intervals, of the model or of its twin: `series,layer,value,low,high,relative_depth`.

    Read from any table that has them: whatever else its columns say names the series.

    Example:
        >>> import pandas as pd
        >>> from lamina.results import Provenance, Result
        >>> rows = [("m", 0, "size", 0.5, 0.4, 0.6), ("m", 2, "size", 0.7, 0.6, 0.8)]
        >>> rows += [("m (random)", 0, "size", 0.1, 0, 0.2)]
        >>> table = pd.DataFrame(rows, columns=["model", "layer", "measure", "value", "low", "high"])
        >>> result = Result("geometry", {"layers": table}, Provenance({"name": "m"}, {}, {}))
        >>> layer_curves(result, twin=False)[["series", "layer", "relative_depth"]].values.tolist()
        [['size', 0, 0.0], ['size', 2, 1.0]]
    """
    import pandas as pd

    parts = [part for table in result.tables.values() for part in _series(result, table, twin=twin)]
    columns = ["series", *_NUMBERS, "relative_depth"]
    return pd.concat(parts, ignore_index=True)[columns] if parts else pd.DataFrame(columns=columns)


def _series(result: Result, table: pd.DataFrame, *, twin: bool) -> Iterator[pd.DataFrame]:
    if not {*_NUMBERS} <= {*table.columns} or "head" in table:
        return
    rows = _of_side(table, str(result.provenance.model.get("name", "")), twin=twin)
    rows = rows.dropna(subset=["layer", "value"])
    if rows.empty:
        return
    words = [name for name in rows.columns if _names_series(name, rows[name])]
    # What is the same in every row tells nothing apart.
    keys = [name for name in words if rows[name].nunique() > 1] or words
    names = rows[keys].astype(str).agg(" · ".join, axis=1) if keys else result.analysis
    rows = rows.assign(series=names, layer=rows["layer"].astype(int))
    # A table with several rows per layer tells of something else.
    if rows.duplicated(["series", "layer"]).any() or rows["series"].nunique() > _MOST:
        return
    last = int(rows["layer"].max())
    yield rows.assign(relative_depth=rows["layer"] / last if last else 0.0)


def _of_side(table: pd.DataFrame, model: str, *, twin: bool) -> pd.DataFrame:
    """The rows of the model or of its twin, all seeds together."""
    rows = table
    if "seed" in rows and (rows["seed"].astype(str) == "all").any():
        rows = rows[rows["seed"].astype(str) == "all"]
    if "metric" in rows and "task" in rows:
        # Each task by its own metric, which comes first.
        rows = rows[rows["metric"] == rows.groupby("task", sort=False)["metric"].transform("first")]
    chosen = False
    if "of" in rows and {"model", _TWIN} & {*rows["of"].astype(str)}:
        rows, chosen = rows[rows["of"] == (_TWIN if twin else "model")], True
    elif "model" in rows and model in {*rows["model"].astype(str)}:
        rows, chosen = rows[rows["model"] == (f"{model} ({_TWIN})" if twin else model)], True
    return rows if chosen or not twin else rows[:0]


def _names_series(name: str, column: pd.Series) -> bool:
    """Whether a column says in words what is measured."""
    about = {"model", "of", "seed", "tuning_seed", "split", "metric", "reason", "chose", "spread"}
    return name not in about and column.dtype.kind not in "fiub"


def all_layer_scores(result: Result, *, twin: bool) -> list[dict[str, Any]]:
    """The scores of the probe of all layers, of the model or of its twin, one per task."""
    table = result.tables.get("scores")
    if table is None or "of" not in table:
        return []
    whose = table["of"] == (_TWIN if twin else "model")
    scores = table[whose & (table["probe"] == "cumulative") & (table["seed"].astype(str) == "all")]
    records = []
    for task, rows in scores.groupby("task", sort=False):
        rows = rows[rows["metric"] == rows["metric"].iloc[0]]
        row = rows.loc[rows["layer"].astype(float).idxmax()]
        records.append({"task": str(task), **{name: row[name] for name in ("metric", "value", "low", "high")}})
    return records
