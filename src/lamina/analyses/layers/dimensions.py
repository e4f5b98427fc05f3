"""Dominant dimensions: how much of the similarity of words rests on very few dimensions of a layer?

After Timkey and van Schijndel (2021): the cosine of two words is a sum over dimensions, so each has its share of the
mean cosine of words from different texts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated, NamedTuple

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Int

from lamina.activations import Runtime
from lamina.activations.reading import WordVectors, sum_rows
from lamina.corpora import Corpus
from lamina.errors import CorpusError
from lamina.framework import Samples, Seed, Setting, Source, Table, Tables, Texts, Twin, analysis, finding, rows_of
from lamina.models import Encoder
from lamina.results import Finding, Result
from lamina.results.finding import number
from lamina.stats import Contrast, Units, bootstrap_family, column_intervals, halve
from lamina.stats.units import CHOOSING, SCORED

COLUMNS = (
    "layer", "anisotropy", "without", "carried", "low", "high", "even", "share", "top", "dimensions", "against",
    "baseline", "difference", "difference_low", "difference_high", "p_adjusted", "units", "needed",
)  # fmt: skip
"""Columns of `layers`."""
_MEANINGFUL = 0.02
"""A mean cosine carried that is this close to the baseline's means nothing."""


class Carried(NamedTuple):
    """The mean cosine that the largest dimensions of a layer carry, and the same in each bootstrap sample."""

    value: float
    draws: Float[np.ndarray, " sample"]


class PairSums(NamedTuple):
    """Of each document: sums over its words that the mean cosine of words of different documents is made of."""

    vectors: Float[np.ndarray, "document width"]
    """Sums of unit vectors."""
    words: Float[np.ndarray, " document"]

    def contributions(self, weights: Float[np.ndarray, "sample document"]) -> Float[np.ndarray, "sample width"]:
        """The mean over pairs of words of different documents of what each dimension adds to their cosine."""
        squared = np.square(weights)
        pairs = np.square(weights @ self.words) - squared @ np.square(self.words)
        sums = np.square(weights @ self.vectors) - squared @ np.square(self.vectors)
        pairs = pairs[:, None]
        return np.divide(sums, pairs, out=np.full_like(sums, np.nan), where=pairs > 0.5)

    def carried(
        self, halves: Int[np.ndarray, " document"], weights: Float[np.ndarray, "sample document"], top: int
    ) -> Carried:
        """The largest dimensions of one half of the documents, measured on the other: chance does not choose."""
        values, draws = [], []
        for half in (CHOOSING, SCORED):
            choosing, scored = (halves == half).astype(float)[None], (halves != half).astype(float)[None]
            chosen = np.argsort(-self.contributions(choosing)[0], kind="stable")[:top]
            values.append(self.contributions(scored)[0, chosen].sum())
            draws.append(self.contributions(weights * scored)[:, chosen].sum(1))
        return Carried(float(np.mean(values)), np.mean(draws, 0))


@analysis(
    title="Dominant dimensions",
    question="Does the similarity of word vectors rest on very few dimensions?",
    method=(
        "The cosine of two words is a sum over dimensions. At each layer we take the mean cosine of words from "
        "different documents and the part of it that the largest few dimensions carry, chosen on one half of the "
        "documents and measured on the other, both ways. Documents are resampled; each layer is compared with the "
        "twin with random weights (max-T over layers)."
    ),
    cites=("Timkey and van Schijndel 2021",),
    reads=Texts(),
    version=1,
    tables={
        "layers": Table(
            "One row per layer. `anisotropy`: mean cosine of words from different documents; `carried`: what the "
            "largest dimensions add to it, with its 95 % interval; `without`: the rest; `even`: what as many would "
            "add if all added alike; `share`: carried divided by anisotropy; `dimensions`: the `top` largest "
            "on all documents, counted from 0. `difference`: carried minus `baseline`, which is the twin's, or `even` "
            "without a twin; two-sided, one family over layers.",
            COLUMNS,
        )
    },
    chapter="layers",
    example="lamina dimensions minilm --corpus ewt --split dev --out results/dimensions",
)
def dimensions(
    encoder: Encoder,
    corpus: Corpus,
    *,
    top: Annotated[int, Setting("Dimensions taken together, the largest first.", min=1)] = 3,
    twin: Twin = True,
    samples: Samples = 1000,
    seed: Seed = 0,
    runtime: Runtime,
) -> Tables:
    """The part of the mean cosine between words that the largest few dimensions of each layer carry.

    Example:
        >>> import lamina
        >>> from lamina.testing import TinyEncoder
        >>> texts = [["Dogs", "bark"], ["Cats", "do", "not"], ["Birds", "sing"], ["Fish", "swim"]]
        >>> table = lamina.dimensions(TinyEncoder(), texts, samples=20).tables["layers"]
        >>> bool((table["without"] + table["carried"] - table["anisotropy"]).abs().max() < 1e-6)
        True
    """
    if top > encoder.width:
        raise CorpusError(f"--top {top}: the layers of {encoder.name} have {encoder.width} dimensions")
    units = Units.of_texts(corpus)
    if len(units) < 4:
        raise CorpusError(f"{corpus.name}: dimensions are chosen and measured on two halves, which takes 4 texts")
    lengths = [len(text.words) for text in corpus]
    weights = units.weights(samples=samples, seed=seed)
    skipped: dict[str, int] = {}
    sums: list[list[PairSums]] = []
    for model in (encoder, *([encoder.random_twin(seed)] if twin and encoder.blocks else [])):
        stored = runtime.extract(model, corpus)
        skipped |= {f"{model.name}: {model.replaced}": stored.unknown}
        vectors = WordVectors(stored, lengths)
        sums.append([_sums(vectors.layer(layer), vectors.text, units) for layer in range(model.layers)])
    table = dimension_table(sums, _halves(corpus, units, seed), weights, top)
    return Tables({"layers": table}, skipped, data={"drawn": {f"{units.kind}s": len(units)}})


def dimension_table(
    sums: Sequence[Sequence[PairSums]],
    halves: Int[np.ndarray, " document"],
    weights: Float[np.ndarray, "sample document"],
    top: int,
) -> pd.DataFrame:
    """What the largest dimensions of each layer carry, beside the twin.

    Args:
        sums: of the model, and of its twin if there is one, layer by layer.
        halves: dimensions are chosen on the documents of one half and measured on those of the other.
        weights: how often each bootstrap sample draws each document.
        top: dimensions taken together.
    """
    carried = [[layer.carried(halves, weights, top) for layer in model] for model in sums]
    values = [np.array([layer.value for layer in model]) for model in carried]
    draws = [np.stack([layer.draws for layer in model], 1) for model in carried]
    everything = [layer.contributions(np.ones((1, len(halves))))[0] for layer in sums[0]]
    anisotropy = np.array([layer.sum() for layer in everything])
    even = anisotropy * top / everything[0].size
    beside, theirs = (values[1], draws[1]) if len(sums) > 1 else (even, even[None])
    tests = bootstrap_family(values[0] - beside, draws[0] - theirs, len(halves), bounds=(-2.0, 2.0))
    low, high = column_intervals(draws[0])
    largest = [np.argsort(-layer, kind="stable")[:top] for layer in everything]
    columns = {
        "layer": range(len(anisotropy)),
        "anisotropy": anisotropy,
        "without": anisotropy - values[0],
        "carried": values[0],
        "low": low,
        "high": high,
        "even": even,
        "share": np.where(np.abs(anisotropy) > _MEANINGFUL, values[0] / anisotropy, np.nan),
        "top": top,
        "dimensions": [" ".join(map(str, layer)) for layer in largest],
        "against": "twin" if len(sums) > 1 else "even",
        "baseline": beside,
        **tests.columns("difference_"),
    }
    return pd.DataFrame(columns).rename(columns={"difference_estimate": "difference"})[list(COLUMNS)]


def _halves(corpus: Corpus, units: Units, seed: int) -> np.ndarray:
    """[unit] The half it belongs to."""
    halves = halve(corpus, seed)
    named = dict(zip((units.names[owner] for owner in units.owner), map(halves.of, corpus), strict=True))
    return np.array([named[name] for name in units.names])


def _sums(vectors: Float[torch.Tensor, "word width"], text: torch.Tensor, units: Units) -> PairSums:
    unit = torch.nn.functional.normalize(vectors, dim=1)
    owner = torch.tensor(units.owner, device=text.device)[text]
    ones = torch.ones(len(unit), 1, device=unit.device)
    sums, words = sum_rows(unit, owner, len(units)), sum_rows(ones, owner, len(units))
    return PairSums(sums.double().cpu().numpy(), words[:, 0].double().cpu().numpy())


@dimensions.finds
def _findings(result: Result) -> Iterable[Finding]:
    """The layer whose largest dimensions carry most, beside the twin."""
    table = result.tables["layers"].dropna(subset=["carried", "difference"])
    if table.empty:
        return
    row = next(iter(rows_of(table.sort_values("carried", ascending=False))))
    few = "the largest dimension carries" if row.top == 1 else f"the {row.top} largest dimensions carry"
    against = "those of the untrained twin" if row.against == "twin" else "average ones"
    yield finding(
        claim=(
            f"At layer {row.layer} {few} {number(row.carried)} of the mean cosine of "
            f"{number(row.anisotropy)} between words, {against} {number(row.baseline)}"
        ),
        whether=f"at layer {row.layer} {few} more of the mean cosine between words than {against}",
        absent=f"At layer {row.layer} {few} as much of the mean cosine between words as {against}",
        contrast="difference",
        test=Contrast.of(row, "difference", "difference_low", "difference_high"),
        source=Source("layers", {"layer": row.layer}),
        importance=("answers", "beats control", "localised"),
        margin=_MEANINGFUL,
    )
