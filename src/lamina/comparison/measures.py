"""Measures of several models side by side: by layer on relative depth, such as the geometry of states or where
attention goes, and numbers that are not by layer, such as what the best heads find.

Results contain their measures in every bootstrap sample (`draws`), and a sample is of the same texts in all models. So
the difference of two models has a paired interval, for what models of any depth have: the mean over layers, and the
last layer. Which measures of an analysis are compared, its declaration says (`ComparedLayers`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Float

from lamina.comparison.tables import DepthScore, ModelDifference, ModelLead, ModelValue, leads_in_words
from lamina.errors import InputError
from lamina.framework.declare import ComparedLayers, ComparedValues, LayerMeasure
from lamina.results import Result
from lamina.results.finding import Finding, Source, finding, not_tested, number, rows_of
from lamina.stats.bootstrap import normal_draws, ratio_draws
from lamina.stats.family import bootstrap_family, sign_flip_family
from lamina.stats.intervals import interval, widening
from lamina.stats.status import Contrast, status_of
from lamina.stats.units import Units
from lamina.tasks.catalogue import in_words

HIGHEST, MEAN, LAST = "highest", "mean_over_layers", "last_layer"
"""Statistics of a measure: its value at the layer where it is highest, its mean over layers, its value at the last."""
MEASURED = "measure"
"""In place of a kind of probe."""
VALUE = "value"
"""The statistic of a number that is not by layer."""
UNPAIRED = "measures by layer that are put side by side and not tested"
_OLDER = "a result of an older version has no draws; make it again"
_NO_DRAWS = "results of this analysis keep no numbers of single texts, so that differences cannot be paired"
_SEVERAL, _ONE = 4, 1
"""The most measures per pair of models that findings are about: of the only pair, and where there are more."""


class MeasureStatistic(NamedTuple):
    """One statistic of one model."""

    value: float
    draws: Float[np.ndarray, " sample"]
    units: int
    """How many were resampled."""
    layer: int | None = None

    @property
    def ends(self) -> tuple[float, float]:
        """Its 95 % interval."""
        return interval(self.value + (self.draws - self.value) * widening(self.units))


class PairedMeasure(NamedTuple):
    """A difference of two models in the same draws."""

    difference: float
    draws: Float[np.ndarray, " sample"]
    units: int
    """Of what was resampled, the fewest."""
    unit: str

    @classmethod
    def of(cls, a: MeasureStatistic, b: MeasureStatistic, resampled: Sequence[Mapping[str, int]]) -> PairedMeasure:
        """a - b."""
        unit, units = min(
            ((what, count) for counts in resampled for what, count in counts.items()), key=lambda pair: pair[1]
        )
        return cls(a.value - b.value, a.draws - b.draws, units, unit.removesuffix("s"))


class SideBySide(NamedTuple):
    """The tables of measures by layer."""

    values: list[ModelValue]
    differences: list[ModelDifference]
    depths: list[DepthScore]
    left_out: Counter[str]
    samples: int
    """Bootstrap samples behind the differences; 0 where nothing is paired."""
    resampled: dict[str, int]
    """What was resampled (documents, texts, word types) -> how many of them; the fewest of any model."""


def side_by_side(results: Sequence[Result], declared: ComparedLayers) -> SideBySide:
    """All measures that at least two of the models have; the results are of one analysis and the same texts."""
    _refuse_unlike(results)
    by_model = {str(result.provenance.model["name"]): result for result in results}
    rows = {model: _rows(result, declared) for model, result in by_model.items()}
    reasons = {(a, b): why_unpaired(by_model[a], by_model[b], declared) for a, b in combinations(by_model, 2)}
    values: list[ModelValue] = []
    differences: list[ModelDifference] = []
    depths: list[DepthScore] = []
    tested: dict[str, list[tuple[int, PairedMeasure]]] = {MEAN: [], LAST: []}
    left_out: Counter[str] = Counter()
    samples = 0
    for measure in declared.measures:
        of_measure = {model: table[table["measure"] == measure.name] for model, table in rows.items()}
        available = {model: table for model, table in of_measure.items() if table["value"].notna().any()}
        if len(available) < 2:
            left_out["measures that only one of the models has"] += len(available)
            continue
        statistics: dict[str, dict[str, MeasureStatistic]] = {}
        for model, table in available.items():
            by_layer = list(_depths(model, measure, table))
            depths += by_layer
            statistics[model] = _statistics(by_model[model], declared, measure, table)
            values += _values(model, measure, by_layer, statistics[model], has_draws=bool(declared.draws))
        for a, b in combinations(available, 2):
            reason = reasons[a, b]
            left_out[UNPAIRED] += bool(reason)
            for name, statistic in statistics[a].items():
                about, none = (measure.title, measure.unit, name, a, b), (np.nan, np.nan, np.nan)
                if reason:
                    row = ModelDifference(*about, *none, "interval", np.nan, 0, 0, "", f"not paired: {reason}")
                else:
                    counts = [_units(by_model[model], measure) for model in (a, b)]
                    pair = PairedMeasure.of(statistic, statistics[b][name], counts)
                    tested[name].append((len(differences), pair))
                    row = ModelDifference(*about, *none, "interval", np.nan, pair.units, 0, pair.unit, "")
                differences.append(row)
            samples = max(samples, 0 if reason else len(statistics[a][MEAN].draws))
    for pairs in tested.values():
        tests = layer_family([pair for _, pair in pairs])
        for (place, _), test in zip(pairs, tests, strict=True):
            differences[place] = _tested(differences[place], test)
    counts = [dict(result.provenance.corpus.get("drawn", {})) for result in results]
    fewest = {what: min(count[what] for count in counts if what in count) for what in counts[0]} if samples else {}
    return SideBySide(values, differences, depths, +left_out, samples, fewest)


def _rows(result: Result, declared: ComparedLayers) -> pd.DataFrame:
    """The rows that are compared, with the measure in the column `measure`."""
    table = result.tables[declared.table]
    table = _selected(table, declared.rows, result)
    if "model" in table:
        table = table[table["model"] == result.provenance.model["name"]]
    return table.dropna(subset=["layer"]).rename(columns={declared.column: "measure"})


def _selected(table: pd.DataFrame, rows: Mapping[str, str], result: Result) -> pd.DataFrame:
    """The rows with these values; `{model}` is the model's name."""
    name = str(result.provenance.model["name"])
    for column, value in rows.items():
        table = table[table[column].astype(str) == value.replace("{model}", name)]
    return table


def _values(
    model: str,
    measure: LayerMeasure,
    by_layer: Sequence[DepthScore],
    statistics: Mapping[str, MeasureStatistic],
    *,
    has_draws: bool,
) -> Iterator[ModelValue]:
    about = (measure.title, measure.unit)
    top = max(by_layer, key=lambda row: row.value)
    yield ModelValue(*about, HIGHEST, model, top.value, top.low, top.high, "interval", top.layer, "")
    for name, statistic in statistics.items():
        ends = statistic.ends
        reason = "" if np.isfinite(ends[0]) else _OLDER if has_draws else _NO_DRAWS
        yield ModelValue(*about, name, model, statistic.value, *ends, "interval", statistic.layer, reason)


def layer_family(pairs: Sequence[PairedMeasure]) -> list[Contrast]:
    """All measures and pairs of models of one statistic, corrected together by max-T."""
    if not pairs:
        return []
    samples = max(len(pair.draws) for pair in pairs)
    draws = np.full((samples, len(pairs)), np.nan)
    for member, pair in enumerate(pairs):
        draws[: len(pair.draws), member] = pair.draws
    units = np.array([pair.units for pair in pairs], float)
    return bootstrap_family(np.array([pair.difference for pair in pairs]), draws, units).members()


def _tested(row: ModelDifference, test: Contrast) -> ModelDifference:
    numbers = {"difference": test.estimate, "low": test.low, "high": test.high, "p_adjusted": test.p}
    reason = "the same in every draw" if not test.needed and np.isnan(test.p) else ""
    return row._replace(**numbers, units=test.units, needed=test.needed, reason=reason)


def _statistics(
    result: Result, declared: ComparedLayers, measure: LayerMeasure, table: pd.DataFrame
) -> dict[str, MeasureStatistic]:
    """The mean over layers and, where it has a value of its own, the last layer."""
    values = table.set_index("layer")["value"].astype(float).sort_index()
    last = int(values.index.max())
    if not declared.last_layer:
        values = values[values.index < last]
    draws, units = _draws(result, declared, measure), min(_units(result, measure).values())
    draws = draws[[layer for layer in values.index if layer in draws.columns]]
    means = draws.mean(axis=1, skipna=False).to_numpy(float)
    statistics = {MEAN: MeasureStatistic(float(values.mean()), means, units)}
    if declared.last_layer:
        of_last = draws[last].to_numpy(float) if last in draws else np.empty(0)
        statistics[LAST] = MeasureStatistic(float(values[last]), of_last, units, last)
    return statistics


def _draws(result: Result, declared: ComparedLayers, measure: LayerMeasure) -> pd.DataFrame:
    """[sample, layer]; empty for results of older versions."""
    draws = result.tables.get(declared.draws)
    if draws is None:
        return pd.DataFrame()
    return draws[draws["measure"] == measure.name].pivot(index="sample", columns="layer", values="value")


def _units(result: Result, measure: LayerMeasure) -> dict[str, int]:
    """What was resampled for a measure -> how many of them."""
    counts = {str(what): int(count) for what, count in result.provenance.corpus.get("drawn", {}).items()}
    return {what: count for what, count in counts.items() if measure.varies_by(what)} or {"texts": 0}


class LayerDraws(NamedTuple):
    """One measure of one result by layer, resampled."""

    values: pd.Series
    """Layer -> value."""
    draws: Mapping[int, Float[np.ndarray, " sample"]]
    """Layer -> the same in bootstrap samples, spread for few units; a layer without an interval has none."""
    units: int
    """How many were resampled; 0 where that is not known."""


def layer_draws(
    result: Result, declared: ComparedLayers, measure: LayerMeasure, *, samples: int, seed: int
) -> LayerDraws:
    """A measure by layer with the draws that the result keeps; where it keeps none, draws of its intervals.

    The first are paired with those of other results on the same texts, the second are not.
    """
    rows = _rows(result, declared)
    rows = rows[(rows["measure"] == measure.name) & rows["value"].notna()].drop_duplicates("layer")
    values = rows.set_index("layer")["value"].astype(float).sort_index()
    sampled = _draws(result, declared, measure)
    units = min(_units(result, measure).values())
    drawn: dict[int, np.ndarray] = {}
    for row in rows_of(rows):
        layer = int(row.layer)
        if layer in sampled.columns:
            drawn[layer] = row.value + (sampled[layer].to_numpy(float)[:samples] - row.value) * widening(units)
        elif np.isfinite([row.low, row.high]).all():
            key = f"{result.key}:{measure.name}:{layer}"
            drawn[layer] = normal_draws(row.value, row.low, row.high, samples=samples, key=key, seed=seed)
    return LayerDraws(values, drawn, units)


class ValueDraws(NamedTuple):
    """One number of a result that is not by layer, resampled."""

    row: ModelValue
    draws: Float[np.ndarray, " sample"] | None
    """Spread for few units; None without an interval."""
    units: int
    """How many were resampled; 0 where that is not known."""


def value_draws(result: Result, declared: ComparedValues, *, samples: int, seed: int) -> Iterator[ValueDraws]:
    """The numbers of a result, drawn by unit where it keeps what each unit has, else from their intervals."""
    table = UnitTable.of(result, declared)
    for row in _numbers(result, declared):
        sums = table.sums.get(row.task)
        if sums is not None and sums["count"].sum() > 0:
            units = Units.of([str(name) for name in sums.index], "document")
            hits, count = (units.sums(sums[column].to_numpy(float)) for column in ("hits", "count"))
            drawn = ratio_draws(hits, count, units, samples=samples, seed=seed)
            # The number itself may be cross-fitted; its draws are moved to it.
            centre = float(hits.sum() / count.sum())
            yield ValueDraws(row, row.value + (drawn - centre) * widening(len(units)), len(units))
        elif np.isfinite([row.low, row.high]).all():
            key = f"{result.key}:{row.task}"
            drawn = normal_draws(row.value, row.low, row.high, samples=samples, key=key, seed=seed)
            yield ValueDraws(row, drawn, 0)
        else:
            yield ValueDraws(row, None, 0)


def why_unpaired(a: Result, b: Result, declared: ComparedLayers) -> str:
    """Why two results are not of the same draws of the same texts; empty where they are."""
    if not declared.draws:
        return _NO_DRAWS
    if any(declared.draws not in result.tables or "drawn" not in result.provenance.corpus for result in (a, b)):
        return _OLDER
    if declared.questions:
        heads = [str(result.provenance.model.get("head")) for result in (a, b)]
        if heads[0] != heads[1]:
            questions = "; ".join(f"{head}: {declared.questions.get(head)}" for head in heads)
            return f"they are asked different things ({questions})"
    one, other = (result.provenance.parameters for result in (a, b))
    unlike = sorted(name for name in one.keys() | other.keys() if one.get(name) != other.get(name))
    return f"their settings differ ({', '.join(unlike)})" if unlike else ""


def _depths(model: str, measure: LayerMeasure, table: pd.DataFrame) -> Iterator[DepthScore]:
    last = int(table["layer"].max())
    for layer, value, low, high in table[["layer", "value", "low", "high"]].dropna().itertuples(index=False):
        share = int(layer) / last if last else 0.0
        place = (model, measure.title, measure.unit, MEASURED, int(layer), share)
        yield DepthScore(*place, float(value), float(low), float(high))


def _refuse_unlike(results: Sequence[Result]) -> None:
    models = [str(result.provenance.model["name"]) for result in results]
    if len(set(models)) < len(models):
        raise InputError(f"give results of different models; these are of {', '.join(models)}")
    if len({result.provenance.corpus.get("fingerprint") for result in results}) > 1:
        raise InputError("these results are of different texts; give results on the same texts")


def layers_in_words(result: Result, declared: ComparedLayers) -> Iterator[Finding]:
    """The surest differences of means over layers of every pair of models; and what is not paired."""
    rows = [ModelDifference(*row) for row in rows_of(result.tables["differences"])]
    means = [row for row in rows if row.statistic == MEAN]
    yield from _differences_in_words(result, declared, [row for row in means if np.isfinite(row.difference)])
    yield from _unpaired_in_words(means)


def _differences_in_words(
    result: Result, declared: ComparedLayers, rows: Sequence[ModelDifference]
) -> Iterator[Finding]:
    measures = {measure.title: measure for measure in declared.measures}
    clear = [row for row in rows if _status(row, measures[row.task]) == "clear"]
    count = f"{len(clear)} of {len(rows)} differences are clear."
    pairs = dict.fromkeys((row.a, row.b) for row in rows)
    most = _SEVERAL if len(pairs) == 1 else _ONE
    for pair in pairs:
        surest = sorted((row for row in rows if (row.a, row.b) == pair), key=_surest)
        ahead = [row for row in surest if row in clear][:most]
        if ahead or not clear:
            for row in ahead or surest[:1]:
                note = f"{_pairing(result, declared, measures[row.task], row)}; {count}"
                yield _difference(result, row, measures[row.task], note)


def _surest(row: ModelDifference) -> tuple[float, float]:
    width = max(row.high - row.low, np.finfo(float).tiny)
    return (row.p_adjusted if np.isfinite(row.p_adjusted) else 2.0, -abs(row.difference) / width)


def _status(row: ModelDifference, measure: LayerMeasure) -> str:
    return status_of(row.low, row.high, row.p_adjusted, needed=row.needed, margin=measure.margin)


def _difference(result: Result, row: ModelDifference, measure: LayerMeasure, note: str) -> Finding:
    table = result.tables["compare"]
    means = rows_of(table[(table["statistic"] == MEAN) & (table["task"] == row.task)])
    values = {mean.model: mean.value for mean in means}
    more, less = (row.a, row.b) if row.difference >= 0 else (row.b, row.a)
    test = Contrast.of(row, "difference")
    if row.difference < 0:
        test = test._replace(estimate=-test.estimate, low=-test.high, high=-test.low)
    about = {"task": row.task, "statistic": MEAN}
    title = f"{row.task[0].lower()}{row.task[1:]}"
    return finding(
        claim=f"{row.task} is higher in {more} than in {less} in the mean over layers: {number(values[more])} and "
        f"{number(values[less])}{' nats' * (row.metric == 'nats')}",
        whether=f"{title} is higher in {row.a} or in {row.b}",
        absent=f"{row.task} is about the same in {row.a} and {row.b}",
        contrast="difference",
        test=test,
        source=(
            *(Source("compare", {**about, "model": model}) for model in (row.a, row.b)),
            Source("differences", {**about, "a": row.a, "b": row.b}),
        ),
        unit=row.unit,
        importance=("answers",),
        margin=measure.margin,
        note=note,
    )


def _pairing(result: Result, declared: ComparedLayers, measure: LayerMeasure, row: ModelDifference) -> str:
    """By what two models are paired, and how many of them."""
    counts: Mapping[str, int] = result.provenance.corpus.get("drawn", {})
    paired = [f"{count:,} {what}" for what, count in counts.items() if measure.varies_by(what)]
    directions = {
        bool(model.get("passport", {}).get("causal"))
        for model in result.provenance.model.get("models", [])
        if model.get("name") in (row.a, row.b)
    }
    one_way = "; one of them looks back only" if declared.directed and len(directions) > 1 else ""
    apart = f", {declared.apart}" if declared.apart else ""
    return f"Paired by {' and '.join(paired)}{apart}{one_way}"


def _unpaired_in_words(rows: Sequence[ModelDifference]) -> Iterator[Finding]:
    """One finding per reason: what is only put side by side."""
    unpaired = [row for row in rows if row.reason.startswith("not paired: ")]
    for reason in dict.fromkeys(row.reason for row in unpaired):
        alike = [row for row in unpaired if row.reason == reason]
        pairs = " or ".join(dict.fromkeys(f"between {row.a} and {row.b}" for row in alike))
        yield not_tested(
            f"measures differ {pairs}",
            f"{reason.removeprefix('not paired: ')}. They are put side by side",
            source=[Source("differences", {"reason": reason})],
        )


class PlainValues(NamedTuple):
    """The tables of numbers that are not by layer."""

    values: list[ModelValue]
    differences: list[ModelDifference]
    left_out: Counter[str]


def values_beside(results: Sequence[Result], declared: ComparedValues) -> PlainValues:
    """All numbers that at least two of the models have; the results are of one analysis and the same texts."""
    _refuse_unlike(results)
    by_name: dict[str, list[ModelValue]] = {}
    for result in results:
        for row in _numbers(result, declared):
            by_name.setdefault(row.task, []).append(row)
    shared = {name: rows for name, rows in by_name.items() if len({row.model for row in rows}) > 1}
    pairs = [(name, a, b) for name, rows in shared.items() for a, b in combinations(rows, 2)]
    units = {str(result.provenance.model["name"]): UnitTable.of(result, declared) for result in results}
    tests = _value_family([(name, units[a.model], units[b.model]) for name, a, b in pairs], declared.often)
    differences = []
    for (name, a, b), test in zip(pairs, tests, strict=True):
        about, apart = (name, a.metric, VALUE, a.model, b.model), a.value - b.value
        if isinstance(test, str):
            row = ModelDifference(*about, apart, *(np.nan, np.nan), "interval", np.nan, 0, 0, "", test)
        else:
            ends = (test.estimate, test.low, test.high)
            row = ModelDifference(*about, *ends, "interval", test.p, test.units, test.needed, declared.unit, "")
        differences.append(row)
    left_out = Counter({"numbers that only one of the models has": len(by_name) - len(shared)})
    return PlainValues([row for rows in shared.values() for row in rows], differences, +left_out)


class UnitTable(NamedTuple):
    """What each unit of a result has, by name."""

    sums: Mapping[str, pd.DataFrame]
    """Name -> `unit` (index), `hits`, `count`."""
    why: str
    """Why there is none; empty where there is."""

    @classmethod
    def of(cls, result: Result, declared: ComparedValues) -> UnitTable:
        """Of one result."""
        table = result.tables.get(declared.units) if declared.units else None
        if table is None:
            return cls({}, _OLDER if declared.units else _NO_DRAWS)
        names = _names(table, declared)
        return cls({str(name): rows.set_index("unit")[["hits", "count"]] for name, rows in table.groupby(names)}, "")


def _value_family(pairs: Sequence[tuple[str, UnitTable, UnitTable]], often: int) -> list[Contrast | str]:
    """All names and pairs of models as one family, by flipped signs of units; why a pair is not in it."""
    tested: list[Contrast | str] = []
    members: list[tuple[int, pd.Series, pd.Series]] = []
    for name, one, other in pairs:
        a, b = one.sums.get(name), other.sums.get(name)
        why = one.why or other.why
        if not why and (a is None or b is None or not a["count"].equals(b["count"])):
            why = "not the same units of both models have it"
        elif not why and a is not None and a["count"].sum() < often:
            why = f"fewer than {often} of them"
        elif a is not None and b is not None:
            members.append((len(tested), a["hits"] - b["hits"], a["count"]))
        tested.append(f"not paired: {why}")
    if members:
        apart = pd.concat([difference for _, difference, _ in members], axis="columns").fillna(0).to_numpy(float)
        counts = pd.concat([count for *_, count in members], axis="columns").fillna(0).to_numpy(float)
        tests = sign_flip_family(apart, counts, bounds=(-1.0, 1.0))
        for member, (place, *_) in enumerate(members):
            tested[place] = tests.member(member)
    return tested


def _names(table: pd.DataFrame, declared: ComparedValues) -> pd.Series:
    return table[list(declared.names)].astype(str).agg(" · ".join, axis=1)


def _numbers(result: Result, declared: ComparedValues) -> Iterator[ModelValue]:
    table = result.tables.get(declared.table)
    if table is None:
        return
    table = _selected(table, declared.rows, result).dropna(subset=[declared.value[0]])
    table = table.drop_duplicates([*declared.names])
    if table.empty:
        return
    table = table.assign(task=_names(table, declared))
    model = str(result.provenance.model["name"])
    for row in table.to_dict("records"):
        value, low, high = (float(row.get(column, np.nan)) for column in declared.value)
        layer = row.get(declared.layer)
        yield ModelValue(
            str(row["task"]),
            declared.metric or str(row["metric"]),
            *(VALUE, model, value, low, high, "interval"),
            None if layer is None or pd.isna(layer) else int(layer),
            "",
        )


def values_in_words(result: Result, declared: ComparedValues) -> Iterator[Finding]:
    """Who is ahead where; without a test, the difference that is largest beside the models' own intervals."""
    rows = [ModelDifference(*row) for row in rows_of(result.tables["differences"])]
    if declared.units and any(not row.reason for row in rows):
        yield from leads_in_words(list(_value_leads(result, rows)), f"{declared.names[-1].replace('_', ' ')}s")
        return
    known = [row for row in rows if np.isfinite(row.difference)]
    if not known:
        return
    numbers = {(row.task, row.model): row for row in rows_of(result.tables["compare"])}
    values = {place: row.value for place, row in numbers.items()}

    def apart(row: ModelDifference) -> float:
        widths = [numbers[row.task, model].high - numbers[row.task, model].low for model in (row.a, row.b)]
        width = float(np.hypot(*widths))
        return abs(row.difference) / width if width > 0 else 0.0

    top = max(known, key=apart)
    more, less = (top.a, top.b) if top.difference >= 0 else (top.b, top.a)
    about = {"task": top.task, "statistic": VALUE}
    yield not_tested(
        f"models differ; they are farthest apart at {in_words(top.task)}, where {more} has "
        f"{number(values[top.task, more])} and {less} has {number(values[top.task, less])}",
        f"{_NO_DRAWS}. They are put side by side",
        source=[
            *(Source("compare", {**about, "model": model}) for model in (more, less)),
            Source("differences", {**about, "a": top.a, "b": top.b}),
        ],
    )


def _value_leads(result: Result, rows: Sequence[ModelDifference]) -> Iterator[ModelLead]:
    values = {(row.task, row.model): row.value for row in rows_of(result.tables["compare"])}
    for row in rows:
        if row.reason:
            continue
        about = {"task": row.task, "statistic": VALUE}
        source = (
            *(Source("compare", {**about, "model": model}) for model in (row.a, row.b)),
            Source("differences", {**about, "a": row.a, "b": row.b}),
        )
        both = (values[row.task, row.a], values[row.task, row.b])
        test = Contrast.of(row, "difference")
        yield ModelLead(row.a, row.b, both, test, row.metric, f"at {in_words(row.task)}", source, row.unit)
