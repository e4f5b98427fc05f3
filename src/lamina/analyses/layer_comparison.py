"""Numbers by layer of several models, on relative depth: the geometry of states, where attention goes, the lens.

Each model's numbers and intervals are its own. They are put side by side, not tested: what pairs models text by text
is not kept in their results.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import pandas as pd

from lamina.analyses.comparison_tables import Compared, Depth
from lamina.errors import InputError
from lamina.results import Result

HIGHEST = "highest"
"""The statistic of a measure: its value at the layer where it is highest."""
MEASURED = "measure"
"""In place of a kind of probe."""
UNPAIRED = "measures by layer that are put side by side and not tested: results do not keep what pairs models"


class _Measure(NamedTuple):
    """One measure of an analysis."""

    name: str
    title: str
    unit: str


_GEOMETRY = (
    _Measure("anisotropy", "Anisotropy", "mean cosine"),
    _Measure("self_similarity_adjusted", "Self-similarity, adjusted", "difference of cosines"),
    _Measure("intra_similarity_adjusted", "Intra-sentence similarity, adjusted", "difference of cosines"),
    _Measure("max_explainable_variance_adjusted", "Explainable variance, adjusted", "difference"),
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
    depths: list[Depth]
    left_out: Counter[str]


def side_by_side(results: Sequence[Result]) -> SideBySide:
    """All measures that at least two of the models have; results must be of one analysis and the same texts."""
    _refuse_unlike(results)
    read, measures = _LAYERED[results[0].analysis]
    rows = {str(each.provenance.model["name"]): read(each) for each in results}
    compared: list[Compared] = []
    depths: list[Depth] = []
    left_out: Counter[str] = Counter()
    for measure in measures:
        own = {model: table[table["measure"] == measure.name] for model, table in rows.items()}
        own = {model: table for model, table in own.items() if table["value"].notna().any()}
        if len(own) < 2:
            left_out["measures that only one of the models has"] += len(own)
            continue
        left_out[UNPAIRED] += 1
        for model, table in own.items():
            found = list(_depths(model, measure, table))
            top = max(found, key=lambda row: row.value)
            about = (measure.title, measure.unit, HIGHEST, model)
            compared.append(Compared(*about, top.value, top.low, top.high, "interval", top.layer, ""))
            depths += found
    return SideBySide(compared, depths, left_out)


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
