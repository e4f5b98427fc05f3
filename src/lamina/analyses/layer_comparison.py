"""Numbers by layer of several models, on relative depth: the geometry of states, where attention goes, the lens.

Results keep their measures in every bootstrap sample (`draws`), and a sample is of the same texts in all models. So the
difference of two models has a paired interval, of what models of any depth have: the mean over layers, and the last.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Float
from scipy.stats import t as student

from lamina.analyses.comparison_tables import Compared, Depth, Difference
from lamina.analyses.legacy import MOST_FINDINGS, legacy_finding, status_of, status_of_difference
from lamina.analyses.probing.statistics import interval
from lamina.errors import InputError
from lamina.findings import Finding, number, p_in_words, rows_of
from lamina.results import Result
from lamina.stats.family import holm
from lamina.stats.status import SURE

HIGHEST, MEAN, LAST = "highest", "mean_over_layers", "last_layer"
"""Statistics of a measure: its value at the layer where it is highest, its mean over layers, its value at the last."""
MEASURED = "measure"
"""In place of a kind of probe."""
UNPAIRED = "measures by layer that are put side by side and not tested"
_OLDER = "a result of an older version keeps no draws; ask again"


class _Measure(NamedTuple):
    """One measure of an analysis."""

    name: str
    title: str
    unit: str
    drawn: tuple[str, ...] = ()
    """What is resampled for it, where not all that its analysis resamples."""


_GEOMETRY = (
    _Measure("anisotropy", "Anisotropy", "mean cosine", ("documents", "texts")),
    _Measure("self_similarity_adjusted", "Adjusted self-similarity", "difference of cosines"),
    _Measure(
        "intra_similarity_adjusted",
        "Adjusted intra-sentence similarity",
        "difference of cosines",
        ("documents", "texts"),
    ),
    _Measure(
        "max_explainable_variance_adjusted", "Adjusted explainable variance", "share of variance", ("word types",)
    ),
)
_ATTENTION = (
    _Measure("to_self", "Attention to oneself", "share of attention"),
    _Measure("to_previous", "Attention to the previous token", "share of attention"),
    _Measure("to_next", "Attention to the next token", "share of attention"),
    _Measure("to_first", "Attention to the first token", "share of attention"),
    _Measure("to_separator", "Attention to separators", "share of attention"),
    _Measure("to_punctuation", "Attention to full stops and commas", "share of attention"),
    _Measure("entropy", "Entropy of attention", "nats"),
)
_LENS = (
    _Measure("agreement", "Plain lens: agreement with the output", "share of positions"),
    _Measure("kl", "Plain lens: distance from the output", "nats"),
)


def _geometry(result: Result) -> pd.DataFrame:
    table = result.tables["layers"]
    return table[table["model"] == result.provenance.model["name"]]


def _attention(result: Result) -> pd.DataFrame:
    table = result.tables["layers"]
    return table[table["of"] == "surface"].rename(columns={"kind": "measure"})


def _lens(result: Result) -> pd.DataFrame:
    table = result.tables["lens"]
    return table[table["lens"] == "plain"]


_LAYERED: dict[str, tuple[Callable[[Result], pd.DataFrame], Sequence[_Measure]]] = {
    "geometry": (_geometry, _GEOMETRY),
    "attention": (_attention, _ATTENTION),
    "lens": (_lens, _LENS),
}
"""Analysis -> its rows (layer, measure, value, low, high), and the measures that are put side by side."""


def has_layers(result: Result) -> bool:
    """Whether a result has numbers by layer that are put beside another's."""
    return result.analysis in _LAYERED


class SideBySide(NamedTuple):
    """What `compare` makes of results with numbers by layer."""

    compared: list[Compared]
    differences: list[Difference]
    depths: list[Depth]
    left_out: Counter[str]
    samples: int
    """Bootstrap samples behind the differences; 0 where nothing is paired."""
    drawn: dict[str, int]
    """What was resampled (documents, texts, word types) -> how many of them; the fewest of any model."""


def side_by_side(results: Sequence[Result]) -> SideBySide:
    """All measures that at least two of the models have; results must be of one analysis and the same texts."""
    _refuse_unlike(results)
    read, measures = _LAYERED[results[0].analysis]
    named = {str(each.provenance.model["name"]): each for each in results}
    rows = {model: read(each) for model, each in named.items()}
    reasons = {pair: why_unpaired(*(named[model] for model in pair)) for pair in combinations(named, 2)}
    compared: list[Compared] = []
    differences: list[Difference] = []
    depths: list[Depth] = []
    left_out: Counter[str] = Counter()
    samples = 0
    for measure in measures:
        own = {model: table[table["measure"] == measure.name] for model, table in rows.items()}
        own = {model: table for model, table in own.items() if table["value"].notna().any()}
        if len(own) < 2:
            left_out["measures that only one of the models has"] += len(own)
            continue
        numbers: dict[str, dict[str, _Number]] = {}
        for model, table in own.items():
            found = list(_depths(model, measure, table))
            top = max(found, key=lambda row: row.value)
            about = (measure.title, measure.unit)
            compared.append(Compared(*about, HIGHEST, model, top.value, top.low, top.high, "interval", top.layer, ""))
            depths += found
            numbers[model] = _statistics(named[model], measure, table)
            for statistic, each in numbers[model].items():
                ends = each.ends
                reason = "" if np.isfinite(ends[0]) else _OLDER
                compared.append(Compared(*about, statistic, model, each.value, *ends, "interval", each.layer, reason))
        for a, b in combinations(own, 2):
            reason = reasons[a, b]
            left_out[UNPAIRED] += bool(reason)
            units = min((_units(named[model], measure) for model in (a, b)), key=lambda each: min(each.values()))
            for statistic, one in numbers[a].items():
                made = _apart(one, numbers[b][statistic], min(units.values())) if not reason else _nothing(reason)
                differences.append(Difference(measure.title, measure.unit, statistic, a, b, *made))
            samples = max(samples, 0 if reason else len(numbers[a][MEAN].draws))
    counts = [dict(each.provenance.corpus.get("drawn", {})) for each in results]
    drawn = {what: min(each[what] for each in counts if what in each) for what in counts[0]} if samples else {}
    return SideBySide(compared, _corrected(differences), depths, +left_out, samples, drawn)


class _Number(NamedTuple):
    """One statistic of one model."""

    value: float
    draws: Float[np.ndarray, " sample"]
    layer: int | None = None

    @property
    def ends(self) -> tuple[float, float]:
        return interval(self.draws)


def _statistics(result: Result, measure: _Measure, table: pd.DataFrame) -> dict[str, _Number]:
    """The mean over layers and (but for a lens, which is compared with it) the last layer."""
    lens = result.analysis == "lens"
    values = table.set_index("layer")["value"].astype(float).sort_index()
    last = int(values.index.max())
    if lens:
        # By definition the last layer agrees with itself.
        values = values[values.index < last]
    drawn = _drawn(result, measure)
    drawn = drawn[[layer for layer in values.index if layer in drawn.columns]]
    found = {MEAN: _Number(float(values.mean()), drawn.mean(axis=1, skipna=False).to_numpy(float))}
    if not lens:
        own = drawn[last].to_numpy(float) if last in drawn else np.empty(0)
        found[LAST] = _Number(float(values[last]), own, last)
    return found


def _drawn(result: Result, measure: _Measure) -> pd.DataFrame:
    """[sample, layer]; empty for results of older versions."""
    draws = result.tables.get("draws")
    if draws is None:
        return pd.DataFrame()
    return draws[draws["measure"] == measure.name].pivot(index="sample", columns="layer", values="value")


def _units(result: Result, measure: _Measure) -> dict[str, int]:
    """What was resampled -> how many of them."""
    drawn = {str(what): int(count) for what, count in result.provenance.corpus.get("drawn", {}).items()}
    return {what: count for what, count in drawn.items() if not measure.drawn or what in measure.drawn} or {"texts": 0}


def _apart(a: _Number, b: _Number, units: int) -> tuple[float, float, float, str, float, float, str]:
    """Difference, low, high and p: Student's, by the spread of the paired draws, which so few samples can tell."""
    draws = a.draws - b.draws
    draws = draws[np.isfinite(draws)]
    difference = a.value - b.value
    error = float(draws.std(ddof=1)) if len(draws) > 1 else np.nan
    p = 1.0 if error == difference == 0 else np.nan
    if error > 0 and units > 1:
        p = float(2 * student.sf(abs(difference) / error, units - 1))
    return difference, *interval(draws), "interval", p, np.nan, ""


def _nothing(reason: str) -> tuple[float, float, float, str, float, float, str]:
    return np.nan, np.nan, np.nan, "interval", np.nan, np.nan, f"not paired: {reason}"


def _corrected(rows: Sequence[Difference]) -> list[Difference]:
    """With Holm's correction over all measures and pairs of a statistic."""
    corrected: dict[str, Iterator[float]] = {
        name: iter(holm([row.p for row in rows if row.statistic == name]).tolist()) for name in (MEAN, LAST)
    }
    return [row._replace(p_adjusted=next(corrected[row.statistic])) for row in rows]


def why_unpaired(a: Result, b: Result) -> str:
    """Why two results are not of the same draws of the same texts; empty where they are."""
    if any("draws" not in each.tables or "drawn" not in each.provenance.corpus for each in (a, b)):
        return _OLDER
    heads = [str(each.provenance.model.get("head")) for each in (a, b)]
    if a.analysis == "lens" and heads[0] != heads[1]:
        return (
            f"they are asked different things ({heads[0]}: {_ASKED.get(heads[0])}; {heads[1]}: {_ASKED.get(heads[1])})"
        )
    one, other = (each.provenance.parameters for each in (a, b))
    unlike = sorted(name for name in one.keys() | other.keys() if one.get(name) != other.get(name))
    if unlike:
        return f"their settings differ ({', '.join(unlike)})"
    return ""


_ASKED = {"causal language model": "the next piece", "masked language model": "a hidden word"}
_IN_TOKENS = {"attention": ", each model in its own tokens", "lens": ", each model at pieces of its own"}
"""Analysis -> what is not the same for two models although their texts are."""


def layers_in_words(result: Result) -> Iterator[Finding]:
    """The clearest differences of means over layers, those of each pair of models in turn; and what is not paired."""
    rows = [Difference(*row) for row in rows_of(result.tables["differences"])]
    means = [row for row in rows if row.statistic == MEAN]
    tested = [row for row in means if np.isfinite(row.p_adjusted)]
    told = [*_differences_in_words(result, tested)] if tested else []
    told += _unpaired_in_words(result, means)
    yield from told[:MOST_FINDINGS]


def _differences_in_words(result: Result, rows: Sequence[Difference]) -> Iterator[Finding]:
    values = {(row.task, row.model): row.value for row in rows_of(result.tables["compare"]) if row.statistic == MEAN}
    clear = [row for row in rows if row.p_adjusted < SURE and status_of(row.low, row.high, 0.0) == "clear"]
    how_many = f"{len(clear)} of {len(rows)} differences are clear"
    for at, row in enumerate(_in_turn(clear or rows)[: MOST_FINDINGS - 1 if clear else 1]):
        more, less = (row.a, row.b) if row.difference >= 0 else (row.b, row.a)
        size, low, high = row[5:8] if row.difference >= 0 else (-row.difference, -row.high, -row.low)
        pair = f"{number(values[row.task, more])} and {number(values[row.task, less])} ({row.metric})"
        said = (
            f"{row.task} is higher in {more} than in {less}: mean over layers {pair}, difference "
            f"{number(size, low, high)}; {_pairing(result, row)}, {p_in_words(row.p_adjusted)} (Holm, {len(rows)} tests)"
        )
        if not clear:
            said = f"No measure differs clearly between models. The most: {said[0].lower()}{said[1:]}"
        said += f"; {how_many}." if clear and at == 0 else "."
        status = status_of_difference(row.low, row.high, row.p_adjusted)
        yield legacy_finding(said, status, size, low, high, against=0.0)


def _in_turn(rows: Sequence[Difference]) -> list[Difference]:
    """The surest difference of every pair of models, then the second of each."""
    ordered = sorted(rows, key=lambda row: -abs(row.difference) / max(row.high - row.low, np.finfo(float).tiny))
    times: Counter[tuple[str, str]] = Counter()
    turns = []
    for row in ordered:
        turns.append((times[row.a, row.b], row))
        times[row.a, row.b] += 1
    return [row for _, row in sorted(turns, key=lambda each: each[0])]


def _pairing(result: Result, row: Difference) -> str:
    """By what two models are paired, and how many of them."""
    compared = str(result.provenance.corpus["compared"])
    measure = next(each for each in _LAYERED[compared][1] if each.title == row.task)
    drawn: Mapping[str, int] = result.provenance.corpus.get("drawn", {})
    own = [f"{count:,} {what}" for what, count in drawn.items() if not measure.drawn or what in measure.drawn]
    back = {
        bool(each.get("passport", {}).get("causal"))
        for each in result.provenance.model.get("models", [])
        if each.get("name") in (row.a, row.b)
    }
    one_way = "; one of them looks back only" if compared == "attention" and len(back) > 1 else ""
    return f"paired by {' and '.join(own)}{_IN_TOKENS.get(compared, '')}{one_way}"


def _unpaired_in_words(result: Result, rows: Sequence[Difference]) -> Iterator[Finding]:
    """One finding per reason: what is only put side by side."""
    reasons = dict.fromkeys(row.reason for row in rows if row.reason)
    for reason in reasons:
        own = [row for row in rows if row.reason == reason]
        pairs = list(dict.fromkeys(f"{row.a} and {row.b}" for row in own))
        first = own[0]
        values = {
            row.model: f"{row.model} {number(row.value, row.low, row.high)}"
            for row in rows_of(result.tables["compare"])
            if (row.task, row.statistic) == (first.task, HIGHEST)
        }
        yield legacy_finding(
            f"{'; '.join(pairs)}: {reason}. Nothing is tested; {first.task.lower()} is at most "
            f"{values[first.a]} and {values[first.b]}.",
            "open",
        )


def _depths(model: str, measure: _Measure, table: pd.DataFrame) -> Iterator[Depth]:
    last = int(table["layer"].max())
    for layer, value, low, high in table[["layer", "value", "low", "high"]].dropna().itertuples(index=False):
        share = int(layer) / last if last else 0.0
        yield Depth(
            model, measure.title, measure.unit, MEASURED, int(layer), share, float(value), float(low), float(high)
        )


def _refuse_unlike(results: Sequence[Result]) -> None:
    analyses = list(dict.fromkeys(each.analysis for each in results))
    if len(analyses) > 1:
        raise InputError(f"results of one analysis are compared; these are of {' and '.join(analyses)}")
    models = [str(each.provenance.model["name"]) for each in results]
    if len(results) < 2 or len(set(models)) < len(models):
        raise InputError(f"give results of different models; these are of {', '.join(models)}")
    if len({each.provenance.corpus.get("fingerprint") for each in results}) > 1:
        raise InputError("these results are of different texts; give results on the same texts")
