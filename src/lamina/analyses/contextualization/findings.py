"""What results about words in context show, in sentences."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Float

from lamina.analyses.contextualization.tables import Table, over_seeds, overall
from lamina.analyses.legacy import finding, legacy_finding
from lamina.findings import Finding, layers_in_words, number
from lamina.results import Result

_SAMPLES = 1000
"""Bootstrap samples over contexts."""
_TAIL = 0.025
"""What a bound on shuffled classes leaves above itself."""


class _Score(NamedTuple):
    """Micro-F1 with its interval."""

    value: float
    low: float
    high: float

    @classmethod
    def of(cls, rows: Table) -> _Score | None:
        """The best of some rows."""
        rows = rows.dropna(subset=["value"])
        if rows.empty:
            return None
        best = rows.iloc[rows["value"].argmax()]
        return cls(float(best["value"]), float(best["low"]), float(best["high"]))


def contextualize_findings(result: Result) -> Iterator[Finding]:
    """The best layer beside vectors without context, its average over contexts and less context."""
    if "sclass" not in result.tables:
        return
    model, split = result.provenance.model["name"], "dev" if result.provenance.parameters.get("faithful") else "test"
    scores = overall(result.tables["sclass"], split)
    own = scores[scores["representation"] == model].dropna(subset=["value"])
    if own.empty:
        return
    best = own.iloc[own["value"].argmax()]
    layer, score = int(best["layer"]), _Score(float(best["value"]), float(best["low"]), float(best["high"]))
    yield from _beside_static(scores, own, layer, score)
    yield from _beside_average(scores, model, layer, score)
    if "finetuning" in result.tables:
        yield from _after_finetuning(result.tables["finetuning"])
    if "context" in result.tables:
        sizes = overall(result.tables["context"], split)
        at_layer = sizes[(sizes["representation"] == model) & (sizes["layer"] == layer)]
        yield from _with_less_context(at_layer, layer, score)


def _beside_static(scores: Table, own: Table, layer: int, score: _Score) -> Iterator[Finding]:
    """The best layer beside the best vectors that know no context."""
    tied = own[(own["layer"] != layer) & (own["high"] >= score.low)]["layer"]
    unsure = f" (not clearly better than {layers_in_words(tied)})" if len(tied) else ""
    free = scores[scores["layer"].isna() & ~scores["representation"].str.startswith("P-")].dropna(subset=["value"])
    if free.empty:
        return
    static = free.iloc[free["value"].argmax()]
    beside = _Score(float(static["value"]), float(static["low"]), float(static["high"]))
    # Better than random vectors is nothing to be told by itself.
    chance = _Score.of(free[free["representation"] == "random"])
    least = f", random ones {number(*chance)}" if chance and static["representation"] != "random" else ""
    yield _compared(
        f"Semantic classes are best told at layer {layer}{unsure}: micro-F1 {{number}}; the best vectors without "
        f"context, {static['representation']}, reach {{against}}{least}.",
        score, beside,
    )  # fmt: skip


def _beside_average(scores: Table, model: str, layer: int, score: _Score) -> Iterator[Finding]:
    """Whether a vector per context tells more than one per word."""
    average = _Score.of(scores[(scores["representation"] == f"AVG-{model}") & (scores["layer"] == layer)])
    if average is not None:
        yield _compared(
            f"At layer {layer} one vector per context reaches micro-F1 {{number}}; one per word, the average over its "
            "contexts, reaches {against}.",
            score, average,
        )  # fmt: skip


def _with_less_context(sizes: Table, layer: int, score: _Score) -> Iterator[Finding]:
    """The whole text beside the smallest context that was asked for."""
    if sizes.empty:
        return
    least = min(sizes["context"], key=int)
    less = _Score.of(sizes[sizes["context"] == least])
    if less is not None:
        seen = "the word alone" if least == "0" else f"{least} words on each side"
        yield _compared(
            f"With the whole text layer {layer} reaches micro-F1 {{number}}; with {seen} it reaches {{against}}.",
            score, less,
        )  # fmt: skip


def _after_finetuning(table: Table) -> Iterator[Finding]:
    """The model that fine-tuning changed most, at the layer where old probes lose most."""
    mean = over_seeds(table)
    wide = mean.pivot_table(index=["task", "layer"], columns="setup", values="value")
    if not {"pretrained", "a", "b"} <= set(wide.columns):
        return
    change = wide["a"] - wide["pretrained"]
    task, layer = change.index[int(change.argmin())]
    own = mean[(mean["task"] == task) & (mean["layer"] == layer)]
    before, old, new = (_Score.of(own[own["setup"] == setup]) for setup in ("pretrained", "a", "b"))
    if before is None or old is None or new is None:
        return
    every = table[(table["task"] == task) & (table["layer"] == layer) & (table["setup"] == "a")]
    seeds = f" (mean of {len(every) - 1} seeds)" if len(every) > 2 else ""
    yield _compared(
        f"After fine-tuning for {task}{seeds}, the old probes reach micro-F1 {{number}} at layer {layer}, before it "
        f"{{against}}; new probes reach {number(*new)}.",
        old, before,
    )  # fmt: skip


def _compared(text: str, one: _Score, other: _Score) -> Finding:
    return finding(text, *one, other.value, (other.low, other.high))


def neighbours_findings(result: Result) -> Iterator[Finding]:
    """How far classes lie apart, and how neighbours change from the first layer to the last."""
    word = result.provenance.corpus["word"]
    tables = result.tables
    if "separation" in tables:
        yield from _separated(tables["separation"], word, len(tables["examples"]) if "examples" in tables else 1)
    if "neighbours" in tables:
        yield from _changed(tables["neighbours"], word)


def _separated(separation: Table, word: str, words: int) -> Iterator[Finding]:
    """The largest silhouette beside what shuffled classes reach when as many layers and words are looked at."""
    measured = separation.dropna(subset=["silhouette", "high"])
    if measured.empty:
        return
    best = measured.iloc[measured["silhouette"].argmax()]
    # The best of many looks is high by chance too: the bound of one shuffle is moved out, as of a normal distribution.
    looks = len(measured) * words
    wider = NormalDist().inv_cdf(1 - _TAIL / looks) / NormalDist().inv_cdf(1 - _TAIL)
    bound = float(best["baseline"] + (best["high"] - best["baseline"]) * wider)
    value = float(best["silhouette"])
    looked = f"the best of {len(measured)} layers" + (f" and {words} words" if words > 1 else "")
    yield legacy_finding(
        f"The classes of “{word}” lie farthest apart at layer {int(best['layer'])}: silhouette {number(value)}; with "
        f"shuffled classes {looked} stays below {number(bound)}, one layer averages {number(best['baseline'])}.",
        "clear" if value > bound else "open", value, against=bound,
    )  # fmt: skip


def _changed(near: Table, word: str) -> Iterator[Finding]:
    """How many neighbours stay from the first layer to the last, and how many two contexts have in common."""
    near = near[near["space"] == "layer"]
    if near.empty:
        return
    last, count = int(near["layer"].max()), int(near["rank"].max())
    first, end = (_listed(near[near["layer"] == layer], near) for layer in (0, last))
    if len(first) < 2 or last == 0:
        return
    kept = (first * end).sum(1) / np.maximum(first.sum(1), end.sum(1))
    value, low, high = _bootstrapped(np.diag(kept), pairs=False)
    yield finding(
        f"From layer 0 to layer {last}, {{number}} of the {count} words nearest to a context of “{word}” stay the "
        "same; {against} would be no change.",
        value, low, high, 1.0,
    )  # fmt: skip
    before, after = (_bootstrapped(_shared(each), pairs=True) for each in (first, end))
    yield finding(
        f"Two contexts of “{word}” share {{number}} of their nearest words at layer {last}; at layer 0 they share "
        "{against}.",
        *after, before[0], before[1:],
    )  # fmt: skip


def _shared(listed: Float[np.ndarray, "context neighbour"]) -> Float[np.ndarray, "context context"]:
    """Of every two contexts, the share of their nearest words that both have."""
    sizes = listed.sum(1)
    return listed @ listed.T / np.maximum(sizes[:, None], sizes)


def _listed(rows: Table, near: Table) -> Float[np.ndarray, "context neighbour"]:
    """1 where a word is among the nearest of a context."""
    contexts, words = (pd.unique(near[name]) for name in ("context", "neighbour"))
    table = pd.crosstab(rows["context"], rows["neighbour"]).clip(upper=1)
    return table.reindex(index=contexts, columns=words, fill_value=0).to_numpy(float)


def _bootstrapped(values: Float[np.ndarray, "context context"], *, pairs: bool) -> tuple[float, float, float]:
    """The mean over contexts (the diagonal) or over pairs of different contexts, with its interval over contexts."""
    count = len(values)
    drawn = np.random.default_rng(0).multinomial(count, np.full(count, 1 / count), size=_SAMPLES)
    weights = np.concatenate([np.ones((1, count)), drawn])
    if pairs:
        different = values * (1 - np.eye(count))
        under = weights.sum(1) ** 2 - (weights**2).sum(1)
        over = np.einsum("si,ij,sj->s", weights, different, weights)
    else:
        under, over = weights.sum(1), weights @ np.diag(values)
    means = np.divide(over, under, out=np.full(len(weights), np.nan), where=under > 0)
    low, high = np.nanquantile(means[1:], [_TAIL, 1 - _TAIL])
    return float(means[0]), float(low), float(high)
