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

from lamina.comparison.tables import DepthScore, ModelDifference, ModelValue
from lamina.errors import InputError
from lamina.results import Result
from lamina.results.finding import Finding, Source, finding, not_tested, number, rows_of
from lamina.stats.family import bootstrap_family
from lamina.stats.intervals import interval, widening
from lamina.stats.status import NEGLIGIBLE, Contrast, status_of

HIGHEST, MEAN, LAST = "highest", "mean_over_layers", "last_layer"
"""Statistics of a measure: its value at the layer where it is highest, its mean over layers, its value at the last."""
MEASURED = "measure"
"""In place of a kind of probe."""
UNPAIRED = "measures by layer that are put side by side and not tested"
_OLDER = "a result of an older version keeps no draws; ask again"


_FEW_NATS = 0.05
"""A difference of entropies or divergences this small means nothing."""


class LayerMeasure(NamedTuple):
    """One measure of an analysis."""

    name: str
    title: str
    unit: str
    drawn: tuple[str, ...] = ()
    """What is resampled for it, where not all that its analysis resamples."""
    margin: float = NEGLIGIBLE
    """Differences this small mean nothing."""


_GEOMETRY = (
    LayerMeasure("anisotropy", "Anisotropy", "mean cosine", ("documents", "texts")),
    LayerMeasure("self_similarity_adjusted", "Adjusted self-similarity", "difference of cosines"),
    LayerMeasure(
        "intra_similarity_adjusted",
        "Adjusted intra-sentence similarity",
        "difference of cosines",
        ("documents", "texts"),
    ),
    LayerMeasure(
        "max_explainable_variance_adjusted", "Adjusted explainable variance", "share of variance", ("word types",)
    ),
)
_ATTENTION = (
    LayerMeasure("to_self", "Attention to oneself", "share of attention"),
    LayerMeasure("to_previous", "Attention to the previous token", "share of attention"),
    LayerMeasure("to_next", "Attention to the next token", "share of attention"),
    LayerMeasure("to_first", "Attention to the first token", "share of attention"),
    LayerMeasure("to_separator", "Attention to separators", "share of attention"),
    LayerMeasure("to_punctuation", "Attention to full stops and commas", "share of attention"),
    LayerMeasure("entropy", "Entropy of attention", "nats", margin=_FEW_NATS),
)
_LENS = (
    LayerMeasure("agreement", "Plain lens: agreement with the output", "share of positions"),
    LayerMeasure("kl", "Plain lens: distance from the output", "nats", margin=_FEW_NATS),
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


_LAYERED: dict[str, tuple[Callable[[Result], pd.DataFrame], Sequence[LayerMeasure]]] = {
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

    compared: list[ModelValue]
    differences: list[ModelDifference]
    depths: list[DepthScore]
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
    tested: dict[str, list[tuple[int, PairedMeasure]]] = {MEAN: [], LAST: []}
    reasons = {pair: why_unpaired(*(named[model] for model in pair)) for pair in combinations(named, 2)}
    compared: list[ModelValue] = []
    differences: list[ModelDifference] = []
    depths: list[DepthScore] = []
    left_out: Counter[str] = Counter()
    samples = 0
    for measure in measures:
        own = {model: table[table["measure"] == measure.name] for model, table in rows.items()}
        own = {model: table for model, table in own.items() if table["value"].notna().any()}
        if len(own) < 2:
            left_out["measures that only one of the models has"] += len(own)
            continue
        numbers: dict[str, dict[str, MeasureStatistic]] = {}
        for model, table in own.items():
            found = list(_depths(model, measure, table))
            top = max(found, key=lambda row: row.value)
            about = (measure.title, measure.unit)
            compared.append(ModelValue(*about, HIGHEST, model, top.value, top.low, top.high, "interval", top.layer, ""))
            depths += found
            numbers[model] = _statistics(named[model], measure, table)
            for statistic, each in numbers[model].items():
                ends = each.ends
                reason = "" if np.isfinite(ends[0]) else _OLDER
                compared.append(ModelValue(*about, statistic, model, each.value, *ends, "interval", each.layer, reason))
        for a, b in combinations(own, 2):
            reason = reasons[a, b]
            left_out[UNPAIRED] += bool(reason)
            for statistic, one in numbers[a].items():
                about, none = (measure.title, measure.unit, statistic, a, b), (np.nan, np.nan, np.nan)
                if reason:
                    differences.append(
                        ModelDifference(*about, *none, "interval", np.nan, 0, 0, "", f"not paired: {reason}")
                    )
                    continue
                pair = PairedMeasure.of(one, numbers[b][statistic], [_units(named[model], measure) for model in (a, b)])
                tested[statistic].append((len(differences), pair))
                differences.append(ModelDifference(*about, *none, "interval", np.nan, pair.units, 0, pair.unit, ""))
            samples = max(samples, 0 if reason else len(numbers[a][MEAN].draws))
    for pairs in tested.values():
        for at, test in zip([at for at, _ in pairs], layer_family([pair for _, pair in pairs]), strict=True):
            differences[at] = _tested(differences[at], test)
    counts = [dict(each.provenance.corpus.get("drawn", {})) for each in results]
    drawn = {what: min(each[what] for each in counts if what in each) for what in counts[0]} if samples else {}
    return SideBySide(compared, differences, depths, +left_out, samples, drawn)


class PairedMeasure(NamedTuple):
    """A difference of two models in the same draws."""

    difference: float
    draws: Float[np.ndarray, " sample"]
    units: int
    """Of what was resampled, the fewest."""
    unit: str

    @classmethod
    def of(cls, a: MeasureStatistic, b: MeasureStatistic, drawn: Sequence[Mapping[str, int]]) -> PairedMeasure:
        """a - b."""
        unit, units = min(((what, count) for each in drawn for what, count in each.items()), key=lambda one: one[1])
        return cls(a.value - b.value, a.draws - b.draws, units, unit.removesuffix("s"))


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
        for estimate, low, high, p, count, needed in zip(*(each.tolist() for each in tests), strict=True)
    ]


def _tested(row: ModelDifference, test: Contrast) -> ModelDifference:
    named = {"difference": test.estimate, "low": test.low, "high": test.high, "p_adjusted": test.p}
    reason = "the same in every draw" if not test.needed and np.isnan(test.p) else ""
    return row._replace(**named, units=test.units, needed=test.needed, reason=reason)


class MeasureStatistic(NamedTuple):
    """One statistic of one model."""

    value: float
    draws: Float[np.ndarray, " sample"]
    units: int
    """How many were resampled."""
    layer: int | None = None

    @property
    def ends(self) -> tuple[float, float]:
        return interval(self.value + (self.draws - self.value) * widening(self.units))


def _statistics(result: Result, measure: LayerMeasure, table: pd.DataFrame) -> dict[str, MeasureStatistic]:
    """The mean over layers and (but for a lens, which is compared with it) the last layer."""
    lens = result.analysis == "lens"
    values = table.set_index("layer")["value"].astype(float).sort_index()
    last = int(values.index.max())
    if lens:
        # By definition the last layer agrees with itself.
        values = values[values.index < last]
    drawn, units = _drawn(result, measure), min(_units(result, measure).values())
    drawn = drawn[[layer for layer in values.index if layer in drawn.columns]]
    found = {MEAN: MeasureStatistic(float(values.mean()), drawn.mean(axis=1, skipna=False).to_numpy(float), units)}
    if not lens:
        own = drawn[last].to_numpy(float) if last in drawn else np.empty(0)
        found[LAST] = MeasureStatistic(float(values[last]), own, units, last)
    return found


def _drawn(result: Result, measure: LayerMeasure) -> pd.DataFrame:
    """[sample, layer]; empty for results of older versions."""
    draws = result.tables.get("draws")
    if draws is None:
        return pd.DataFrame()
    return draws[draws["measure"] == measure.name].pivot(index="sample", columns="layer", values="value")


def _units(result: Result, measure: LayerMeasure) -> dict[str, int]:
    """What was resampled -> how many of them."""
    drawn = {str(what): int(count) for what, count in result.provenance.corpus.get("drawn", {}).items()}
    return {what: count for what, count in drawn.items() if not measure.drawn or what in measure.drawn} or {"texts": 0}


def why_unpaired(a: Result, b: Result) -> str:
    """Why two results are not of the same draws of the same texts; empty where they are."""
    if any("draws" not in each.tables or "drawn" not in each.provenance.corpus for each in (a, b)):
        return _OLDER
    heads = [str(each.provenance.model.get("head")) for each in (a, b)]
    if a.analysis == "lens" and heads[0] != heads[1]:
        return f"they are asked different things ({heads[0]}: {_QUESTIONS.get(heads[0])}; {heads[1]}: {_QUESTIONS.get(heads[1])})"
    one, other = (each.provenance.parameters for each in (a, b))
    unlike = sorted(name for name in one.keys() | other.keys() if one.get(name) != other.get(name))
    if unlike:
        return f"their settings differ ({', '.join(unlike)})"
    return ""


_QUESTIONS = {"causal language model": "the next piece", "masked language model": "a hidden word"}
_IN_TOKENS = {"attention": ", each model in its own tokens", "lens": ", each model at pieces of its own"}
"""Analysis -> what is not the same for two models although their texts are."""


_SEVERAL, _ONE = 4, 1
"""Measures that are told of a pair of models: of the only one, and where there are more."""


def layers_in_words(result: Result) -> Iterator[Finding]:
    """The surest differences of means over layers of every pair of models; and what is not paired."""
    rows = [ModelDifference(*row) for row in rows_of(result.tables["differences"])]
    means = [row for row in rows if row.statistic == MEAN]
    yield from _differences_in_words(result, [row for row in means if np.isfinite(row.difference)])
    yield from _unpaired_in_words(means)


def _differences_in_words(result: Result, rows: Sequence[ModelDifference]) -> Iterator[Finding]:
    measures = {each.title: each for each in _LAYERED[str(result.provenance.corpus["compared"])][1]}
    clear = [row for row in rows if _status(row, measures) == "clear"]
    pairs = dict.fromkeys((row.a, row.b) for row in rows)
    most = _SEVERAL if len(pairs) == 1 else _ONE
    for a, b in pairs:
        own = sorted((row for row in rows if (row.a, row.b) == (a, b)), key=_surest)
        ahead = [row for row in own if row in clear][:most]
        if ahead or not clear:
            for row in ahead or own[:1]:
                yield _difference(
                    result, row, measures[row.task], f"{len(clear)} of {len(rows)} differences are clear."
                )


def _surest(row: ModelDifference) -> tuple[float, float]:
    width = max(row.high - row.low, np.finfo(float).tiny)
    return (row.p_adjusted if np.isfinite(row.p_adjusted) else 2.0, -abs(row.difference) / width)


def _status(row: ModelDifference, measures: Mapping[str, LayerMeasure]) -> str:
    return status_of(row.low, row.high, row.p_adjusted, needed=row.needed, margin=measures[row.task].margin)


def _difference(result: Result, row: ModelDifference, measure: LayerMeasure, count: str) -> Finding:
    compared = result.tables["compare"]
    values = {
        each.model: each.value for each in rows_of(compared[compared["statistic"] == MEAN]) if each.task == row.task
    }
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
        note=f"{_pairing(result, row)}; {count}",
    )


def _pairing(result: Result, row: ModelDifference) -> str:
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
    return f"Paired by {' and '.join(own)}{_IN_TOKENS.get(compared, '')}{one_way}"


def _unpaired_in_words(rows: Sequence[ModelDifference]) -> Iterator[Finding]:
    """One finding per reason: what is only put side by side."""
    unpaired = [row for row in rows if row.reason.startswith("not paired: ")]
    for reason in dict.fromkeys(row.reason for row in unpaired):
        own = [row for row in unpaired if row.reason == reason]
        pairs = " or ".join(dict.fromkeys(f"between {row.a} and {row.b}" for row in own))
        yield not_tested(
            f"measures differ {pairs}",
            f"{reason.removeprefix('not paired: ')}. They are put side by side",
            source=[Source("differences", {"reason": reason})],
        )


def _depths(model: str, measure: LayerMeasure, table: pd.DataFrame) -> Iterator[DepthScore]:
    last = int(table["layer"].max())
    for layer, value, low, high in table[["layer", "value", "low", "high"]].dropna().itertuples(index=False):
        share = int(layer) / last if last else 0.0
        yield DepthScore(
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
