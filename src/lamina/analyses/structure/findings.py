"""What structural probes and trees from attention show, in words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pandas as pd

from lamina.analyses.declaration import Overview
from lamina.analyses.legacy import legacy_finding, status_of
from lamina.analyses.structure.attention_trees import BEST, COMBINED, FREE, PARSERS, RIGHT, UAS
from lamina.analyses.structure.probing import CHAIN, CONTROL, DECAY, MODEL, PROJECTION, TWIN
from lamina.analyses.structure.scores import DSPR, MEASURES, NSPR, ROOT_ACCURACY, UUAS
from lamina.findings import Finding, cell, number, rows_of
from lamina.results import Result


def best_layer(training: pd.DataFrame, kind: str = "distance") -> int | None:
    """The layer whose probe of the largest rank has the lowest loss on stopping, not on scored, sentences."""
    own = training[(training["of"] == MODEL) & (training["kind"] == kind) & training["converged"].astype(bool)]
    own = own[own["rank"] == own["rank"].max()]
    means = own.groupby("layer")["loss"].mean()
    return int(means.idxmin()) if len(means) else None


def tell_findings(result: Result) -> Iterator[Finding]:
    """Distances, depths, the control, and attention."""
    table, training = result.tables["structure"], result.tables["training"]
    for kind, measure, said in (
        ("distance", UUAS, "Trees are best recovered at layer {layer}: UUAS {number}"),
        ("depth", ROOT_ACCURACY, "Roots are best found at layer {layer}: accuracy {number}"),
    ):
        layer = best_layer(training, kind)
        if layer is not None:
            yield from _beside(table, layer, measure, said)
    layer = best_layer(training)
    if layer is not None:
        yield from _control(table, layer)
    yield from _unfitted(training)
    if "trees" in result.tables:
        yield from _attention(result.tables["trees"])


def _at(table: pd.DataFrame, of: str, measure: str, layer: int | None = None) -> tuple[float, float, float] | None:
    """The largest rank's first seed."""
    own = table[(table["of"] == of) & (table["measure"] == measure)].dropna(subset=["value"])
    if layer is not None:
        own = own[own["layer"] == layer]
    if not len(own):
        return None
    own = own.sort_values(["rank", "seed"], ascending=[False, True]) if own["rank"].notna().any() else own
    row: Any = next(rows_of(own))
    return float(row.value), float(row.low), float(row.high)


def _beside(table: pd.DataFrame, layer: int, measure: str, said: str) -> Iterator[Finding]:
    """Compared with the strongest of what stands beside it."""
    own = _at(table, MODEL, measure, layer)
    twins = table[(table["of"] == TWIN) & (table["measure"] == measure)].dropna(subset=["value"])
    named = {
        "words in a row": _at(table, CHAIN, measure),
        "averaged neighbours": _at(table, DECAY, measure),
        "the untrained twin at its best layer": _top(twins),
        "a random projection": _at(table, PROJECTION, measure, layer),
    }
    others = {name: value for name, value in named.items() if value is not None}
    if own is None or not others:
        return
    strongest = max(others, key=lambda name: others[name][0])
    against = others[strongest]
    parts = "; ".join(f"{name} {number(*value[:1])}" for name, value in others.items())
    text = said.format(layer=layer, number=number(*own)) + f"; {parts}."
    yield legacy_finding(text, status_of(*own[1:], against[0], against[1:]), *own, against=against[0])


def _top(rows: pd.DataFrame) -> tuple[float, float, float] | None:
    if not len(rows):
        return None
    row: Any = next(rows_of(rows.sort_values("value", ascending=False)))
    return float(row.value), float(row.low), float(row.high)


def _control(table: pd.DataFrame, layer: int) -> Iterator[Finding]:
    own, shuffled = _at(table, MODEL, UUAS, layer), _at(table, CONTROL, UUAS, layer)
    if own is None or shuffled is None:
        return
    text = (
        f"On shuffled trees the probe of layer {layer} reaches UUAS {number(*shuffled)}, on the annotated ones "
        f"{number(*own)}."
    )
    yield legacy_finding(text, status_of(*own[1:], shuffled[0], shuffled[1:]), *own, against=shuffled[0])


def _unfitted(training: pd.DataFrame) -> Iterator[Finding]:
    """Layers whose probes have settled above the loss of one answer for all: a plateau alone is no fit."""
    own = training[(training["of"] == MODEL) & training["converged"].astype(bool)]
    own = own[own["rank"] == own["rank"].max()]
    for kind, answer in (("distance", "one distance for all pairs of words"), ("depth", "one depth for all words")):
        means = own[own["kind"] == kind].groupby("layer")[["loss", "constant"]].mean()
        above = means[means["loss"] >= means["constant"]]
        if not len(above):
            continue
        layers = ", ".join(str(layer) for layer in above.index)
        worst = above["loss"].max()
        text = (
            f"At layer{'s' * (len(above) > 1)} {layers} the probe of {kind}s fits no better than {answer} (loss up to "
            f"{number(worst)}, of the constant {number(above['constant'].iloc[0])}): scores there say only how words "
            "are ordered."
        )
        yield legacy_finding(text, "null")


def _attention(trees: pd.DataFrame) -> Iterator[Finding]:
    free = trees[(trees["directed"] == FREE) & (trees["measure"] == UAS)].dropna(subset=["value"])
    by_source = {
        row.source: (row.value, row.low, row.high) for row in rows_of(free[free["source"] != "structural_probe"])
    }
    best, together, right = (by_source.get(source) for source in (BEST, COMBINED, RIGHT))
    if best is None or together is None or right is None:
        return
    parser = by_source.get(next(iter(PARSERS)))
    more = f", a trained parser over all heads {number(*parser)}" if parser else ""
    text = (
        f"Directed trees from attention find {number(*together)} of heads (UAS) with the best combination of heads, "
        f"{number(*best)} with the best head{more}; the next word as head {number(*right)}."
    )
    yield legacy_finding(text, status_of(*together[1:], right[0], right[1:]), *together, against=right[0])


_TITLES = {UUAS: "UUAS", ROOT_ACCURACY: "root", DSPR: "DSpr", NSPR: "NSpr"}


def describe(result: Result) -> Iterable[Overview]:
    """The largest rank of every layer, and what is beside the model."""
    table = result.tables["structure"]
    rows: list[tuple[str | int, ...]] = []
    largest = table["rank"].max()
    named: Any
    for named, own in table.groupby(["of", "layer"], sort=False, dropna=False):
        of, layer = named
        at = own[(own["rank"] == largest) | own["rank"].isna()]
        at = at[at["seed"].isna() | (at["seed"] == at["seed"].min())]
        cells = {row.measure: cell(row.value, row.low, row.high) for row in rows_of(at)}
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
