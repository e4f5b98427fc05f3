"""What results about words in context are said to show: clear effects, none, and numbers that are not there."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import lamina
from lamina.analyses.words.contextualize.scores import (
    FINETUNED,
    MicroF1,
    MicroF1Contrast,
    ScoredVectors,
    compare_micro,
    contrast_rows,
    contrast_table,
)
from lamina.analyses.words.neighbours import SEPARATION, separation_table, shared_table
from lamina.analyses.words.sense_map import Separation
from lamina.framework.verify import check_findings
from lamina.results import Provenance, Result
from lamina.results.finding import Finding
from lamina.stats.units import Units


def scored(
    model: list[float], *, alone: list[float] | None = None, average: list[float] | None = None, spread: float = 0.02,
    apart: float = 0.004, **static: float,
) -> Result:  # fmt: skip
    """Micro-F1 by layer; rows share most of their spread, as rows of the same words do, and differ by `apart`."""
    rng = np.random.default_rng(0)
    common = rng.normal(0, spread, 800)

    def micro(value: float) -> MicroF1:
        return MicroF1(value, value + common + rng.normal(0, apart, 800))

    rows = {}
    for split in ("dev", "test"):
        by_layer = [
            ("m", "full", model),
            ("AVG-m", "full", average or []),
            ("m", "0", alone or []),
            ("m", "4", alone or []),
        ]
        for name, context, values in by_layer:
            rows |= {ScoredVectors(name, layer, context, split): micro(value) for layer, value in enumerate(values)}
        rows |= {ScoredVectors(name, None, "full", split): micro(value) for name, value in static.items()}
        rows[ScoredVectors("P-glove", None, "full", split)] = micro(0.99)
    contrasts, best = compare_micro(rows, "m", "test", 400)
    tables = {"contrasts": contrasts, "best": best}
    return Result("contextualize", tables, Provenance({"name": "m"}, {"name": "ewt"}, {"faithful": False}))


def told(result: Result) -> list[Finding]:
    found = list(getattr(lamina, result.analysis).findings(result))
    assert check_findings(replace(result, findings=tuple(found))) == []
    return found


def test_the_chosen_layer_beside_all_it_is_compared_with():
    found = told(scored([0.5, 0.7, 0.6], average=[0.5, 0.55, 0.5], glove=0.6, random=0.3, alone=[0.4, 0.45, 0.4]))
    assert {each.status for each in found} == {"clear"}
    starts = sorted(each.text.partition(" (difference")[0] for each in found)
    assert starts == [
        "At layer 1 one vector per context predicts classes better than one per word, the average over its contexts: "
        "micro-F1 .70, average .55",
        "At layer 1 the whole text predicts classes better than the word alone: micro-F1 .70, the word alone .45",
        "Layer 1 predicts the semantic classes of new words better than glove, the best vectors without context: micro-"
        "F1 .70, glove .60; layer 1 can be the best",
    ]
    assert all(each.unit == "word type" and each.n == 400 for each in found)


def test_wrong_10_a_paired_difference_is_clear_though_intervals_overlap():
    """Whole text against word alone was open: .55 [.51, .59] and .515 [.475, .555] overlap, the difference does not."""
    (_, _, less) = sorted(
        told(scored([0.5, 0.55], alone=[0.5, 0.515], average=[0.5, 0.548], glove=0.3)),
        key=lambda each: "alone" in each.text,
    )
    assert less.status == "clear"
    assert less.low is not None
    assert 0 < less.low < 0.035


def test_wrong_6_the_status_is_that_of_the_contrast_beside_it():
    """A badge said open, and beside it the interval lay above what it was compared with."""
    for found in told(scored([0.5, 0.55], alone=[0.5, 0.54], average=[0.5, 0.549], glove=0.54, apart=0.01)):
        assert found.low is not None
        assert found.high is not None
        assert (found.status == "clear") == (found.low > 0 or found.high < 0)


def test_layers_that_do_not_differ_are_a_set():
    (found,) = told(scored([0.3, 0.699, 0.7], glove=0.4))
    assert "; layers 1 and 2 can be the best" in found.text
    (equal,) = told(scored([0.7, 0.7], glove=0.4))
    assert "; no layer was shown to be better than another" in equal.text


def test_missing_numbers_are_not_spoken_of():
    result = scored([0.5, 0.7], glove=0.6)
    assert told(replace(result, tables={})) == []
    assert told(scored([0.5, 0.7])) == []
    (only,) = told(scored([0.5, 0.7], glove=0.6))
    assert "best vectors without context" in only.text


@pytest.mark.parametrize(("seeds", "note"), [(("0", "all"), "One fine-tuned model"), (("0", "1", "all"), "")])
def test_fine_tuning_is_told_by_what_old_probes_lose(seeds, note):
    rng = np.random.default_rng(0)

    def micro(value: float) -> MicroF1:
        return MicroF1(value, value + rng.normal(0, 0.005, 500))

    means = {"pretrained": (0.5, 0.7), "a": (0.5, 0.3), "b": (0.5, 0.66)}
    members = [
        MicroF1Contrast(layer, way, against, None, micro(means[way][layer]), micro(means[against][layer]), "pos")
        for way, against in (("a", "pretrained"), ("b", "pretrained"), ("b", "a"))
        for layer in range(2)
    ]
    rows = [("pos", "all", "a", layer, seed, 0.3, 0.2, 0.4) for layer in range(2) for seed in seeds]
    tables = {
        "contrasts": contrast_table([*contrast_rows(FINETUNED, "tasks and layers", members, 300)]),
        "finetuning": pd.DataFrame(rows, columns=list(lamina.contextualize.tables["finetuning"].columns)),
    }
    lost, regained = told(Result("contextualize", tables, Provenance({"name": "m"}, {"name": "c"}, {})))
    assert lost.text.startswith(
        "After fine-tuning for pos the old probes predict classes worse at layer 1: micro-F1 .30, before .70 "
        "(difference -.40 ["
    )
    assert note in lost.text
    assert regained.text.startswith(
        "After fine-tuning for pos new probes predict classes better than old ones at layer 1"
    )


def nearby(tables: dict[str, pd.DataFrame]) -> Result:
    return Result("neighbours", tables, Provenance({"name": "m"}, {"name": "ewt", "word": "bank"}, {}))


def test_contexts_that_come_to_share_fewer_words():
    rng = np.random.default_rng(0)
    units = Units.of([f"d{at // 2}" for at in range(24)], "document")
    weights = units.weights(samples=400, seed=0)
    listed = [np.ones((24, 24)), rng.uniform(0, 0.4, (24, 24))]
    (found,) = told(nearby({"shared": shared_table(listed, units, weights)}))
    assert found.text.startswith(
        "Two contexts of “bank” share fewer of their nearest words at layer 1: 21 %, at layer 0 100 % (difference -.79"
    )
    assert (found.status, found.unit, found.n) == ("clear", "document", 12)
    (same,) = told(nearby({"shared": shared_table([np.ones((24, 24))] * 2, units, weights)}))
    assert same.text.endswith("what contexts share does not vary between texts.")
    few = Units.of([f"d{at % 5}" for at in range(24)], "document")
    (untested,) = told(nearby({"shared": shared_table(listed, few, few.weights(samples=400, seed=0))}))
    assert untested.text.startswith(
        "5 documents are too few to test whether two contexts of “bank” share more or fewer"
    )


def separated(values: list[float], words: int = 1, spread: float = 0.05) -> Result:
    rng = np.random.default_rng(0)

    def one(value: float) -> Separation:
        return Separation(value, -0.01, value + rng.normal(0, spread, 800), np.full(30, value))

    layers = [[one(value), *(one(-0.01) for _ in range(words - 1))] for value in values]
    table = separation_table(layers, [25] * words).assign(unit="document", contexts=30, explained=0.5)
    return nearby({"separation": table[list(SEPARATION)]})


@pytest.mark.parametrize(
    ("value", "words", "status"), [(0.3, 1, "clear"), (0.04, 1, "open"), (0.14, 1, "clear"), (0.14, 50, "open")]
)
def test_separation_is_corrected_for_as_many_looks(value, words, status):
    (found,) = told(separated([0.0, value], words))
    assert found.status == status
    assert ("and 50 words" in found.text) == (words == 50)
    if status == "clear":
        assert (
            f"“bank” lie farther apart than shuffled classes: silhouette {value:.2f}".replace("0.", ".") in found.text
        )


def test_a_word_of_one_class_or_one_layer_has_nothing_to_say():
    assert told(separated([float("nan")] * 2)) == []
    units = Units.of(["a", "b"], "document")
    assert told(nearby({"shared": shared_table([np.ones((2, 2))], units, units.weights(samples=9, seed=0))})) == []
