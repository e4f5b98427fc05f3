"""What structural probes and trees from attention show, in words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import pandas as pd

from lamina.analyses.structure.attention_trees import BEST, COMBINED, OFFSET, RIGHT, WITHOUT
from lamina.analyses.structure.scores import (
    CHAIN,
    CONTROL,
    DECAY,
    DSPR,
    MEASURES,
    MODEL,
    NSPR,
    PROJECTION,
    ROOT_ACCURACY,
    TWIN,
    UUAS,
)
from lamina.framework.declare import Overview
from lamina.results import Result
from lamina.results.finding import (
    Finding,
    Source,
    best_in_words,
    cell,
    finding,
    layers_in_words,
    not_tested,
    percent,
    rows_of,
)
from lamina.stats.status import SURE, Contrast

_BESIDE = {
    CHAIN: "words in a row",
    DECAY: "averaged neighbours",
    TWIN: "the untrained twin",
    PROJECTION: "a random projection",
}
_ATTENTION = {
    RIGHT: "always the next word",
    OFFSET: "the best fixed offset",
    WITHOUT: "a parser without attention",
    BEST: "The best attention head",
    COMBINED: "The best combination of attention heads",
}


class _Measured(NamedTuple):
    """What a measure counts."""

    things: str
    kind: str
    """Of the probe."""


_MEASURED = {
    UUAS: _Measured("links between words", "distance"),
    ROOT_ACCURACY: _Measured("roots of sentences", "depth"),
}


def first_layer(best: pd.DataFrame, measure: str) -> int | None:
    """The layer with the best score: the one that is shown, not one that is proven to be best."""
    of_measure = best[best["measure"] == measure]
    return int(of_measure["layer"].iloc[int(of_measure["value"].to_numpy().argmax())]) if len(of_measure) else None


def tell_findings(result: Result) -> Iterator[Finding]:
    """Links and roots beside all baselines, with the layers that can be best; shuffled trees; attention."""
    for measure in _MEASURED:
        yield from _beside(result, measure)
    yield from _below_twin(result)
    yield from _control(result)
    yield from _unfitted(result.tables["training"])
    if "tree_contrasts" in result.tables:
        yield from _attention(result.tables["tree_contrasts"])


def hardest(rows: pd.DataFrame) -> Any:
    """The contrast that is least sure: a claim of all of them holds where this one does."""
    untested = rows[rows["p_adjusted"].isna()]
    some = untested if len(untested) else rows[rows["p_adjusted"] == rows["p_adjusted"].max()]
    return next(rows_of(some.sort_values("estimate")))


def _beside(result: Result, measure: str) -> Iterator[Finding]:
    """The layer with the best score against the baseline that it is least surely ahead of."""
    table, best = result.tables["contrasts"], result.tables["best"]
    things, kind = _MEASURED[measure]
    layer = first_layer(best, measure)
    if layer is None:
        reason = f"no probe of {kind}s with the largest rank had converged"
        yield not_tested(f"a layer holds {things}", reason, importance=("answers",))
        return
    rows = table[(table["measure"] == measure) & (table["layer"] == layer) & table["against"].isin(list(_BESIDE))]
    if rows.empty:
        return
    row = hardest(rows)
    other = _BESIDE[row.against]
    numbers = f"layer {layer} finds {percent(row.value)} of them, {other} {percent(row.other)}"
    yield finding(
        claim=f"{_best_layers(best, measure)}: {numbers}",
        whether=f"layer {layer} finds more {things} than {other}",
        absent=f"Layer {layer} finds no more {things} than {other}",
        contrast="difference",
        test=Contrast.of(row),
        source=(
            Source("contrasts", {"measure": measure, "layer": layer, "against": row.against}),
            Source("best", {"measure": measure, "among_best": True}),
        ),
        unit=row.unit,
        importance=("answers", "beats control", "localised"),
        note=_missing(result.tables["training"], kind),
    )


def _best_layers(best: pd.DataFrame, measure: str) -> str:
    """Which layers can be best."""
    of_measure, things = best[best["measure"] == measure], _MEASURED[measure].things
    among = best_in_words(of_measure["layer"].tolist(), of_measure["among_best"].astype(bool).tolist())
    if among or len(of_measure) == 1:
        return f"{things[0].upper()}{things[1:]} are found{' best' if len(of_measure) > 1 else ''} at {among}"
    return f"No layer was shown to find {things} better than another"


def _missing(training: pd.DataFrame, kind: str) -> str:
    """Layers that have no score."""
    largest = training[(training["of"] == MODEL) & (training["kind"] == kind)]
    largest = largest[(largest["rank"] == largest["rank"].max()) & ~largest["converged"].astype(bool)]
    return f"Probes of {layers_in_words(largest['layer'])} had not converged and have no score." if len(largest) else ""


def _below_twin(result: Result) -> Iterator[Finding]:
    """Layers at which less is found than with random weights."""
    table = result.tables["contrasts"]
    beside_twin = table[(table["measure"] == UUAS) & (table["against"] == TWIN)]
    below = beside_twin[(beside_twin["estimate"] < 0) & (beside_twin["p_adjusted"] < SURE) & (beside_twin["high"] < 0)]
    if below.empty:
        return
    row = next(rows_of(below.sort_values(["p_adjusted", "estimate"], ascending=False)))
    layers = layers_in_words(below["layer"])
    links = _MEASURED[UUAS].things
    yield finding(
        claim=f"{layers[0].upper()}{layers[1:]} find{'s' * (len(below) == 1)} fewer {links} than with random weights",
        whether=f"{layers} find{'s' * (len(below) == 1)} fewer {links} than with random weights",
        absent=f"{layers[0].upper()}{layers[1:]} find as many {links} as with random weights",
        contrast=f"difference at layer {row.layer}",
        test=Contrast.of(row),
        source=[
            Source("contrasts", {"measure": UUAS, "layer": int(layer), "against": TWIN}) for layer in below["layer"]
        ],
        unit=row.unit,
        importance=("localised", "surprises"),
    )


def _control(result: Result) -> Iterator[Finding]:
    table = result.tables["contrasts"]
    layer = first_layer(result.tables["best"], UUAS)
    beside_control = table[(table["measure"] == UUAS) & (table["against"] == CONTROL) & (table["layer"] == layer)]
    for row in rows_of(beside_control):
        of = f"the probe of layer {layer}"
        yield finding(
            claim=f"{of[0].upper()}{of[1:]} finds {percent(row.value)} of annotated links, of shuffled trees' links "
            f"{percent(row.other)}",
            whether=f"{of} finds more annotated links than links of shuffled trees",
            absent=f"{of[0].upper()}{of[1:]} finds no more annotated links than links of shuffled trees",
            contrast="difference",
            test=Contrast.of(row),
            source=Source("contrasts", {"measure": UUAS, "layer": layer, "against": CONTROL}),
            unit=row.unit,
            importance=("beats control",),
        )


def _unfitted(training: pd.DataFrame) -> Iterator[Finding]:
    """Layers whose probes have settled above the loss of one answer for all: a plateau alone is no fit."""
    largest = training[(training["of"] == MODEL) & training["converged"].astype(bool)]
    largest = largest[largest["rank"] == largest["rank"].max()]
    for kind, answer in (("distance", "one distance for all pairs of words"), ("depth", "one depth for all words")):
        means = largest[largest["kind"] == kind].groupby("layer")[["loss", "constant"]].mean()
        above = means[means["loss"] >= means["constant"]]
        if len(above):
            reason = f"the probes fit no better than {answer}, so their scores say only how words are ordered"
            yield not_tested(
                f"{layers_in_words(above.index)} hold{'s' * (len(above) == 1)} tree {kind}s",
                reason,
                source=[Source("training", {"of": MODEL, "kind": kind, "layer": layer}) for layer in above.index],
            )


def _attention(table: pd.DataFrame) -> Iterator[Finding]:
    """The best head and the best combination, chosen on training sentences; what attention adds to words."""
    for source in (COMBINED, BEST):
        of_source = table[table["source"] == source]
        if of_source.empty:
            continue
        row = hardest(of_source)
        name, other = _ATTENTION[source], _ATTENTION[row.against]
        yield finding(
            claim=f"{name} gives {percent(row.value)} of words their head, {other} {percent(row.other)}",
            whether=f"{name[0].lower()}{name[1:]} gives more words their head than {other}",
            absent=f"{name} gives no more words their head than {other}",
            contrast="difference",
            test=Contrast.of(row),
            source=Source("tree_contrasts", {"source": source, "against": row.against}),
            unit=row.unit,
            importance=("answers", "beats control") if source == COMBINED else ("beats control",),
        )
    for row in rows_of(table[table["against"] == WITHOUT]):
        yield finding(
            claim=f"A parser over attention and words gives {percent(row.value)} of words their head, one without "
            f"attention {percent(row.other)}",
            whether="attention adds to what a parser knows from words and distances",
            absent="Attention adds nothing to what a parser knows from words and distances",
            contrast="difference",
            test=Contrast.of(row),
            source=Source("tree_contrasts", {"source": row.source, "against": WITHOUT}),
            unit=row.unit,
            importance=("beats control",),
        )


_TITLES = {UUAS: "UUAS", ROOT_ACCURACY: "root", DSPR: "DSpr", NSPR: "NSpr"}


def describe(result: Result) -> Iterable[Overview]:
    """The largest rank of every layer, and what is beside the model."""
    table = result.tables["structure"]
    rows: list[tuple[str | int, ...]] = []
    largest = table["rank"].max()
    named: Any
    for named, of_group in table.groupby(["of", "layer"], sort=False, dropna=False):
        of, layer = named
        of_rank = of_group[(of_group["rank"] == largest) | of_group["rank"].isna()]
        of_rank = of_rank[of_rank["seed"].isna() | (of_rank["seed"] == of_rank["seed"].min())]
        cells = {row.measure: cell(row.value, row.low, row.high) for row in rows_of(of_rank)}
        rows.append((str(of), "-" if pd.isna(layer) else int(layer), *(cells.get(name, "-") for name in MEASURES)))
    about = result.provenance
    title = f"{about.model['name']} on {about.corpus['name']} ({about.corpus.get('split', '')}), rank {largest}"
    yield Overview(title, ("of", "layer", *_TITLES.values()), rows)
    if "trees" in result.tables:
        trees = result.tables["trees"]
        some = trees[~trees["source"].isin(["attention_head", "attention_layer"])]
        listed: list[tuple[str | int, ...]] = [
            (row.source, "-" if pd.isna(row.layer) else int(row.layer), row.directed, row.measure,
             cell(row.value, row.low, row.high))
            for row in rows_of(some)
        ]  # fmt: skip
        yield Overview("Trees on the same sentences", ("source", "layer", "directed", "measure", "value"), listed)
