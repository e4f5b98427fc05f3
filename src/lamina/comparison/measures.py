"""Measures by layer of several models on relative depth, such as the geometry of states or where attention goes.

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

from lamina.comparison.tables import DepthScore, ModelDifference, ModelValue
from lamina.errors import InputError
from lamina.framework.declare import ComparedLayers, LayerMeasure
from lamina.results import Result
from lamina.results.finding import Finding, Source, finding, not_tested, number, rows_of
from lamina.stats.family import bootstrap_family
from lamina.stats.intervals import interval, widening
from lamina.stats.status import Contrast, status_of

HIGHEST, MEAN, LAST = "highest", "mean_over_layers", "last_layer"
"""Statistics of a measure: its value at the layer where it is highest, its mean over layers, its value at the last."""
MEASURED = "measure"
"""In place of a kind of probe."""
UNPAIRED = "measures by layer that are put side by side and not tested"
_OLDER = "a result of an older version has no draws; make it again"
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
            values += _values(model, measure, by_layer, statistics[model])
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
    for column, value in declared.rows.items():
        table = table[table[column] == value]
    if "model" in table:
        table = table[table["model"] == result.provenance.model["name"]]
    return table.rename(columns={declared.column: "measure"})


def _values(
    model: str, measure: LayerMeasure, by_layer: Sequence[DepthScore], statistics: Mapping[str, MeasureStatistic]
) -> Iterator[ModelValue]:
    about = (measure.title, measure.unit)
    top = max(by_layer, key=lambda row: row.value)
    yield ModelValue(*about, HIGHEST, model, top.value, top.low, top.high, "interval", top.layer, "")
    for name, statistic in statistics.items():
        ends = statistic.ends
        reason = "" if np.isfinite(ends[0]) else _OLDER
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
    tests = bootstrap_family(np.array([pair.difference for pair in pairs]), draws, units)
    return [
        Contrast(estimate, low, high, p, int(count), int(needed))
        for estimate, low, high, p, count, needed in zip(*(column.tolist() for column in tests), strict=True)
    ]


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


def why_unpaired(a: Result, b: Result, declared: ComparedLayers) -> str:
    """Why two results are not of the same draws of the same texts; empty where they are."""
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
