"""Retrieval across languages: is a sentence's translation its nearest neighbour, layer by layer?

Mean vectors of sentences, each language centred by its mean, compared by cosine in both directions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Float

from lamina.corpora.suites.parallel import ParallelTexts, read_parallel
from lamina.errors import InputError
from lamina.framework import Samples, Seed, Setting, Source, Table, Tables, Twin, analysis, finding, rows_of
from lamina.framework.inputs import (
    MODEL,
    MODEL_OPTIONS,
    Input,
    LoadedInputs,
    Reads,
    as_encoder,
    describe_models,
    kind_of,
    short_name,
)
from lamina.models import Encoder
from lamina.results import Finding, Result
from lamina.results.finding import percent
from lamina.stats import Contrast, Units, sign_flip_family
from lamina.stats.intervals import ratio_intervals
from lamina.types import Text

if TYPE_CHECKING:
    from lamina.activations import Runtime

COLUMNS = ("direction", "system", "layer", "accuracy", "low", "high", "pairs")
READINGS = (
    "direction", "layer", "baseline", "accuracy", "baseline_accuracy", "difference", "diff_low", "diff_high",
    "p_adjusted", "units", "needed",
)  # fmt: skip
MODEL_SYSTEM, TWIN, SPELLING = "model", "untrained twin", "shared spelling"
_GRAM = 3


class RetrievedPairs(NamedTuple):
    """Whether each sentence's translation was its nearest neighbour."""

    system: str
    layer: int | None
    right: Float[np.ndarray, "direction pair"]


def nearest(source: Float[np.ndarray, "pair width"], target: Float[np.ndarray, "pair width"]) -> np.ndarray:
    """[direction, pair] Whether the nearest sentence of the other language is the translation.

    Example:
        >>> vectors = np.eye(4)
        >>> nearest(vectors, vectors).all(), nearest(vectors, vectors[::-1]).any()
        (np.True_, np.False_)
    """
    one, other = (_centred(side) for side in (source, target))
    alike = one @ other.T
    itself = np.arange(len(alike))
    return np.stack([alike.argmax(1) == itself, alike.argmax(0) == itself]).astype(float)


def _centred(vectors: np.ndarray) -> np.ndarray:
    apart = vectors - vectors.mean(0)
    return apart / np.maximum(np.linalg.norm(apart, axis=1, keepdims=True), 1e-12)


def spelling_vectors(sides: Sequence[Sequence[Text]]) -> list[np.ndarray]:
    """Counts of letter sequences, the same columns for both languages: names and cognates are alike."""
    grams = [[_grams(" ".join(text.words).lower()) for text in side] for side in sides]
    columns = {
        gram: column for column, gram in enumerate(sorted({gram for side in grams for one in side for gram in one}))
    }
    vectors = []
    for side in grams:
        counts = np.zeros((len(side), len(columns)), np.float32)
        for row, one in enumerate(side):
            for gram, count in one.items():
                counts[row, columns[gram]] = count
        vectors.append(counts)
    return vectors


def _grams(text: str) -> Counter[str]:
    padded = f" {text} "
    return Counter(padded[start : start + _GRAM] for start in range(len(padded) - _GRAM + 1))


def sentence_vectors(encoder: Encoder, texts: Sequence[Text]) -> Float[np.ndarray, "text layer width"]:
    """The mean of each sentence's tokens, special ones left out."""
    means = []
    for encoded in encoder.encode(texts):
        if encoded.states is None:
            raise InputError(f"{encoder.name} has no hidden states")
        spoken = np.flatnonzero(encoded.tokens.words >= 0)
        means.append(encoded.states.float().cpu().numpy()[spoken].mean(0))
    return np.stack(means)


def retrieval_tables(
    retrieved: Sequence[RetrievedPairs], languages: tuple[str, str], *, samples: int, seed: int
) -> dict[str, pd.DataFrame]:
    """Accuracies of all systems, and every layer beside its baselines."""
    directions = (f"{languages[0]} to {languages[1]}", f"{languages[1]} to {languages[0]}")
    pairs = retrieved[0].right.shape[1]
    units = Units.of([f"pair {number}" for number in range(pairs)], "item")
    weights = units.weights(samples=samples, seed=seed)
    ones = np.ones(pairs)
    rows = []
    for one in retrieved:
        for place, direction in enumerate(directions):
            low, high = ratio_intervals(weights @ units.sums(one.right[place]), weights @ units.sums(ones))
            layer = np.nan if one.layer is None else one.layer
            rows.append((direction, one.system, layer, float(one.right[place].mean()), float(low), float(high), pairs))
    model = [one for one in retrieved if one.system == MODEL_SYSTEM]
    beside = {one.layer: one for one in retrieved if one.system == TWIN}
    spelling = next(one for one in retrieved if one.system == SPELLING)
    members = [
        (place, one, other)
        for place in range(2)
        for one in model
        for other in (spelling, *([beside[one.layer]] if one.layer in beside else []))
    ]
    ahead = units.sums(np.stack([one.right[place] - other.right[place] for place, one, other in members], 1))
    tests = sign_flip_family(ahead, units.sums(np.ones((pairs, len(members)))), bounds=(-1.0, 1.0), seed=seed)
    readings = []
    for member, (place, one, other) in enumerate(members):
        values = float(one.right[place].mean()), float(other.right[place].mean())
        readings.append((directions[place], one.layer, other.system, *values, *tests.member(member)))
    return {
        "retrieval": pd.DataFrame(rows, columns=list(COLUMNS)),
        "readings": pd.DataFrame(readings, columns=list(READINGS)),
    }


@dataclass(frozen=True)
class ParallelPairs(Reads):
    """A model and sentences with their translations."""

    inputs: ClassVar = (
        MODEL,
        Input(
            "pairs", "A table of sentences and their translations (TSV, CSV or JSONL, two columns).", option="--pairs"
        ),
    )
    sampled: ClassVar[bool] = False

    @property
    def options(self) -> tuple[Any, ...]:
        """See `Reads.options`."""
        return MODEL_OPTIONS

    def load(
        self, given: Mapping[str, Any], options: Mapping[str, Any], settings: Mapping[str, Any], runtime: Runtime
    ) -> LoadedInputs:
        """See `Reads.load`; the file is read before the model."""
        pairs = given["pairs"]
        if isinstance(pairs, str | Path):
            pairs = read_parallel(pairs)
        elif not isinstance(pairs, ParallelTexts):
            raise InputError(f"pairs are the path of a table; got {kind_of(pairs)}")
        encoder = as_encoder(given["model"], options, runtime)
        names = (short_name(given["model"], encoder), Path(pairs.name).stem)
        return LoadedInputs((encoder, pairs), describe_models((encoder,)), pairs.describe(), names)


@analysis(
    title="Retrieval across languages",
    question="At which layers is the translation of a sentence its nearest neighbour?",
    method=(
        "A sentence is the mean of its tokens at a layer; each language is centred by its mean, which takes away what "
        "tells languages apart, and sentences are compared by cosine, in both directions. The baselines are letter "
        "sequences of three, which names and cognates share, and the twin with random weights; chance is one in as "
        "many as there are pairs. 95 % intervals resample pairs; differences flip their signs."
    ),
    cites=("Pires et al. 2019",),
    reads=ParallelPairs(),
    version=1,
    tables={
        "retrieval": Table("One row per direction, system and layer (of shared spelling: none).", COLUMNS),
        "readings": Table(
            "One row per direction, layer and baseline: the model minus the baseline on the same pairs; two-sided; "
            "family: all rows.",
            READINGS,
        ),
    },
    chapter="layers",
    example="lamina retrieval minilm --pairs pairs.tsv --out results/retrieval",
)
def retrieval(
    encoder: Encoder,
    pairs: ParallelTexts,
    *,
    limit: Annotated[int, Setting("Maximum number of pairs, the first ones.", min=10)] = 1000,
    twin: Twin = True,
    samples: Samples = 1000,
    seed: Seed = 0,
) -> Tables:
    """How often a sentence's translation is its nearest neighbour among all translations, by layer and direction.

    Example:
        >>> result = lamina.retrieval("minilm", "pairs.tsv")  # doctest: +SKIP
        >>> result.tables["retrieval"]  # doctest: +SKIP
    """
    sides = (pairs.sources[:limit], pairs.targets[:limit])
    systems = [(MODEL_SYSTEM, encoder), *([(TWIN, encoder.random_twin(seed))] if twin and encoder.blocks else [])]
    retrieved: list[RetrievedPairs] = []
    for system, model in systems:
        source, target = (sentence_vectors(model, side) for side in sides)
        retrieved += [
            RetrievedPairs(system, layer, nearest(source[:, layer], target[:, layer])) for layer in range(model.layers)
        ]
    spelled = spelling_vectors(sides)
    retrieved.append(RetrievedPairs(SPELLING, None, nearest(*spelled)))
    left_out = {**pairs.left_out, f"pairs beyond the first {limit:,}": max(0, len(pairs.sources) - limit)}
    tables = retrieval_tables(retrieved, pairs.languages, samples=samples, seed=seed)
    return Tables(tables, left_out, scored={"pairs": len(sides[0])})


@retrieval.finds
def _findings(result: Result) -> Iterator[Finding]:
    """In each direction, the layer that finds most, beside the harder baseline."""
    rows = result.tables["readings"]
    for direction, of_direction in rows.groupby("direction", sort=False):
        best = of_direction[of_direction["accuracy"] == of_direction["accuracy"].max()]
        row = next(rows_of(best.sort_values("baseline_accuracy", ascending=False, kind="stable")))
        against = "shared spelling" if row.baseline == SPELLING else "the untrained twin"
        verb = "more" if row.difference > 0 else "less"
        shares = f"{percent(row.accuracy)} at layer {row.layer}, {against} {percent(row.baseline_accuracy)}"
        yield finding(
            claim=f"Translations ({direction}) are nearest neighbours {verb} often than by {against}: {shares}",
            whether=f"translations ({direction}) are nearest neighbours {verb} often than by {against} ({shares})",
            absent=f"Translations ({direction}) are nearest neighbours as often as by {against}: {shares}",
            contrast="difference",
            test=Contrast.of(row, "difference", "diff_low", "diff_high"),
            source=Source("readings", {"direction": direction, "layer": row.layer, "baseline": row.baseline}),
            unit="item",
            importance=("answers", "beats control", "localised"),
        )
