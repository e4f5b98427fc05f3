"""What the four analyses of attention maps say of a result: claims, numbers, intervals, and silence."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations

import numpy as np
import pandas as pd
import pytest

from lamina.analyses.attention_maps.attention import attention
from lamina.analyses.attention_maps.behaviours import Found
from lamina.analyses.attention_maps.corefheads import BESIDE, corefheads
from lamina.analyses.attention_maps.divergences import DIVERGENCES
from lamina.analyses.attention_maps.headmap import FIT, POINTS, headmap
from lamina.analyses.attention_maps.heads import heads
from lamina.analyses.attention_maps.relations import BEST
from lamina.analyses.attention_maps.surface import SURFACE
from lamina.analyses.declaration import Analysis
from lamina.results import Provenance, Result

NAN = float("nan")


def result(analysis: Analysis, tables: Mapping[str, pd.DataFrame], **corpus: object) -> Result:
    about = {"name": "m", "fingerprint": "f"}, {"name": "c", "fingerprint": "g", **corpus}
    return Result(analysis.name, tables, Provenance(*about, {}))


@pytest.mark.parametrize("analysis", [attention, heads, headmap, corefheads], ids=lambda each: each.name)
def test_a_result_without_tables_or_with_empty_ones_says_nothing(analysis: Analysis):
    assert analysis.findings(result(analysis, {})) == ()
    empty = {name: pd.DataFrame(columns=list(table.columns)) for name, table in analysis.tables.items()}
    assert analysis.findings(result(analysis, empty)) == ()


# attention


def surface(*rows: tuple[int, int, str, float, float, float, float]) -> Result:
    return result(attention, {"surface": pd.DataFrame(rows, columns=list(SURFACE))})


def test_attention_names_the_strongest_sink_as_the_mean_of_a_layers_heads():
    found = attention.findings(
        surface(
            (1, 1, "to_first", 0.1, 0.09, 0.11, 0.05),
            (1, 2, "to_first", 0.1, 0.09, 0.11, 0.05),
            (2, 1, "to_first", 0.9, 0.88, 0.92, 0.05),
            (2, 2, "to_first", 0.3, 0.28, 0.32, 0.05),
            # One strong head is not a layer.
            (1, 1, "to_separator", 0.95, 0.94, 0.96, 0.05),
            (1, 2, "to_separator", 0.05, 0.04, 0.06, 0.05),
        )
    )
    (sink,) = found
    assert sink.status == "clear"
    assert sink.text == (
        "The strongest sink is at layer 2: its heads give .60 [.58, .62] of their attention to the first token; "
        "uniform attention would give .05."
    )
    assert (sink.value, sink.against, sink.chapter) == (pytest.approx(0.6), pytest.approx(0.05), "heads")


def test_in_a_decoder_the_first_token_is_not_called_a_separator():
    rows = [(1, 1, name, 0.7 + tiny, 0.6 + tiny, 0.8, 0.1) for name, tiny in (("to_first", 0), ("to_separator", 1e-9))]
    assert "the first token" in attention.findings(surface(*rows))[0].text


def test_attention_names_positional_narrow_and_broad_heads():
    found = attention.findings(
        surface(
            (1, 3, "to_previous", 0.93, 0.92, 0.94, 0.06),
            (2, 1, "to_next", 0.5, 0.4, 0.6, 0.06),
            (1, 3, "entropy", 0.2, 0.15, 0.25, 3.0),
            (2, 1, "entropy", 2.9, 2.85, 2.95, 3.0),
            (2, 1, "entropy_first", 0.1, 0.05, 0.15, 3.0),
        )
    )
    assert [finding.text for finding in found] == [
        "The clearest positional head is 1-3: it gives .93 [.92, .94] of its attention to the previous token; uniform "
        "attention would give .06.",
        "The narrowest head is 1-3: entropy .20 [.15, .25] nats; the broadest, 2-1, has 2.90 [2.85, 2.95], and uniform "
        "attention 3.00.",
    ]
    assert {finding.status for finding in found} == {"clear"}


def test_attention_without_a_sink_says_so():
    (flat,) = attention.findings(surface((1, 1, "to_first", 0.051, 0.049, 0.053, 0.05)))
    assert flat.status == "null"
    assert flat.text.startswith("No layer is a sink: at most, the heads of layer 1 give .05")
    (wide,) = attention.findings(surface((1, 1, "to_first", 0.2, 0.01, 0.4, 0.05)))
    assert wide.status == "open"


def test_measures_that_no_text_has_are_passed_over():
    rows = [(1, 1, "to_separator", NAN, NAN, NAN, NAN), (1, 1, "entropy", 1.0, NAN, NAN, 2.0)]
    assert attention.findings(surface(*rows)) == ()


# heads


def best(*rows: tuple[str, int, float, float, float, float, float, float]) -> Result:
    """Relation, count, accuracy of head 3-9 and of the offset, their difference with its interval, p."""
    made = [
        (relation, "dependent", 3, 9, count, own, own - 0.02, own + 0.02, 1, offset, difference, low, high, p, True)
        for relation, count, own, offset, difference, low, high, p in rows
    ]
    return result(heads, {"best": pd.DataFrame(made, columns=list(BEST))})


def test_heads_name_the_relation_that_is_found_most_clearly():
    found = heads.findings(
        best(
            ("all without punctuation", 900, 0.43, 0.34, 0.09, 0.07, 0.11, 1e-9),
            ("all", 1000, 0.99, 0.1, 0.89, 0.88, 0.9, 1e-9),
            ("obj", 1200, 0.72, 0.31, 0.41, 0.38, 0.44, 1e-9),
            ("det", 100, 0.9, 0.85, 0.05, 0.01, 0.09, 0.03),
            # A lead that does not hold after the correction.
            ("ccomp", 100, 0.9, 0.4, 0.5, 0.4, 0.6, 0.06),
            # Five words are luck.
            ("csubj", 5, 1.0, 0.0, 1.0, 1.0, 1.0, 1e-9),
        )
    )
    assert [(finding.status, finding.text) for finding in found] == [
        (
            "clear",
            "Heads find 2 of 3 relations better than any fixed offset, most clearly obj: head 3-9 finds .72 [.70, .74] "
            "of 1,200; the best fixed offset finds .31, a difference of .41 [.38, .44] (p < .001 after Holm).",
        ),
        (
            "clear",
            "Over all relations the best single head, 3-9, finds .43 [.41, .45] of dependencies without punctuation; "
            "the best fixed offset finds .34, a difference of .09 [.07, .11] (p < .001 after Holm).",
        ),
    ]


def test_heads_that_find_no_more_than_an_offset_are_not_praised():
    for row, status in (
        (("obj", 50, 0.4, 0.3, 0.1, -0.1, 0.3, 0.4), "open"),
        (("obj", 50, 0.4, 0.3, 0.1, 0.01, 0.2, 0.2), "open"),
        (("obj", 50, 0.1, 0.3, -0.2, -0.3, -0.1, 0.01), "clear"),
    ):
        (found,) = heads.findings(best(row))
        assert found.status == status
        assert found.text.startswith("No head clearly finds a relation better than a fixed offset; the closest is obj")
    (same,) = heads.findings(best(("all without punctuation", 9000, 0.3, 0.3, 0.0, -0.01, 0.01, 1.0)))
    assert same.status == "null"


def test_heads_without_intervals_say_nothing():
    rows = [(name, 99, 0.5, 0.3, 0.2, NAN, NAN, NAN) for name in ("obj", "all without punctuation")]
    assert heads.findings(best(*rows)) == ()


# headmap


def mapped(
    within: float,
    between: float,
    *,
    layers: int = 4,
    per_layer: int = 6,
    noise: float = 0.02,
    syntactic: tuple[tuple[int, int, str, float, float], ...] = (),
    relations: int | None = None,
) -> Result:
    draw = np.random.default_rng(0)
    places = [(layer, head) for layer in range(1, layers + 1) for head in range(1, per_layer + 1)]
    rows = []
    for one, other in combinations(places, 2):
        mean = (within if one[0] == other[0] else between) + noise * draw.normal()
        rows.append((*one, *other, mean * 1000, mean))
    doing = [
        Found(layer, head, "syntactic", what, value, over, value - over, 0.01, 1.0, 0.01)
        for layer, head, what, value, over in syntactic
    ]
    tables = {
        "divergences": pd.DataFrame(rows, columns=list(DIVERGENCES[:6])),
        "points": pd.DataFrame([(*place, 0.0, 0.0, "other") for place in places], columns=list(POINTS)),
        "behaviours": pd.DataFrame(doing, columns=list(Found._fields)),
        "fit": pd.DataFrame([(len(places), 1000, 0.1)], columns=list(FIT)),
    }
    return result(headmap, tables, **({} if relations is None else {"relations": relations}))


def test_a_map_tells_whether_heads_of_a_layer_are_alike():
    (alike,) = headmap.findings(mapped(0.2, 0.3))
    assert alike.status == "clear"
    assert alike.text.startswith("Heads of one layer attend more alike than heads of two layers: mean divergence .20")
    assert alike.low is not None
    assert alike.high is not None
    assert 0.05 < alike.low < alike.value < alike.high < 0.15
    (apart,) = headmap.findings(mapped(0.3, 0.2))
    assert apart.status == "clear"
    assert "less alike" in apart.text
    (same,) = headmap.findings(mapped(0.25, 0.25))
    assert same.status == "null"
    (few,) = headmap.findings(mapped(0.25, 0.3, layers=2, per_layer=3, noise=0.2))
    assert few.status == "open"
    assert "is undecided" in few.text


def test_a_claim_of_likeness_is_rarely_made_of_nothing():
    """Heads differ for reasons of their own, whatever their layer: an interval that forgot that would claim much."""
    claims = 0
    for seed in range(20):
        draw = np.random.default_rng(seed)
        own = draw.normal(0, 1, (24, 3))
        pairs = combinations(range(24), 2)
        rows = [
            (a // 6 + 1, a % 6 + 1, b // 6 + 1, b % 6 + 1, 0.0, float(np.linalg.norm(own[a] - own[b])))
            for a, b in pairs
        ]
        tables = {"divergences": pd.DataFrame(rows, columns=list(DIVERGENCES[:6]))}
        claims += headmap.findings(result(headmap, tables))[0].status == "clear"
    assert claims <= 1


@pytest.mark.parametrize(("layers", "per_layer"), [(1, 6), (6, 1)])
def test_a_single_layer_or_single_heads_cannot_be_compared(layers: int, per_layer: int):
    assert headmap.findings(mapped(0.2, 0.3, layers=layers, per_layer=per_layer)) == ()


def test_a_map_with_nan_says_nothing():
    with_nan = mapped(0.2, 0.3)
    with_nan.tables["divergences"].loc[0, "mean"] = NAN
    assert headmap.findings(with_nan) == ()


def test_syntactic_heads_are_counted():
    heads_found = ((2, 1, "obj", 0.7, 0.3), (2, 1, "case", 0.6, 0.5), (3, 2, "det", 0.9, 0.85))
    counted = next(
        finding
        for finding in headmap.findings(mapped(0.25, 0.25, syntactic=heads_found, relations=20))
        if "syntactic" in finding.text
    )
    assert (counted.status, counted.value) == ("clear", 2)
    assert counted.text == (
        "2 of 24 heads are syntactic (most clearly 2-1 for obj, 2-1 for case, 3-2 for det): each finds one or more of "
        "20 relations better than the best fixed offset (p < .05 after Holm)."
    )
    none = headmap.findings(mapped(0.25, 0.25, relations=20))
    (silent,) = [finding for finding in none if "syntactic" in finding.text]
    assert (silent.status, silent.text[:30]) == ("open", "None of 24 heads is syntactic:")


def test_without_dependencies_nothing_is_said_of_syntax():
    assert not any("syntactic" in finding.text for finding in headmap.findings(mapped(0.2, 0.3)))


# corefheads


def coref(*rows: tuple[str, float, float, float, float, float]) -> Result:
    """Of all mentions: a baseline's name and share, the difference of head 5-4 with its interval, p."""
    made = [
        ("all", 5, 4, 1200, 0.5, 0.45, 0.55, name, share, difference, low, high, p, True)
        for name, share, difference, low, high, p in rows
    ]
    # One type of mention says nothing of all.
    made.append(("pronoun", 1, 1, 900, 0.9, 0.8, 1.0, "nearest", 0.1, 0.8, 0.7, 0.9, 0.01, True))
    return result(corefheads, {"best": pd.DataFrame(made, columns=list(BESIDE))})


def test_the_best_head_is_compared_with_every_baseline_on_the_same_documents():
    found = corefheads.findings(
        coref(
            ("nearest", 0.3, 0.2, 0.15, 0.25, 1e-6),
            ("head match", 0.45, 0.05, 0.01, 0.09, 0.3),
            ("rules", 0.7, -0.2, -0.25, -0.15, 0.002),
        )
    )
    assert [(finding.status, finding.text) for finding in found] == [
        (
            "clear",
            "The best single head, 5-4, finds more antecedents than taking the nearest mention: .50 [.45, .55] against "
            ".30 of 1,200 mentions, a difference of .20 [.15, .25] (p < .001 after Holm).",
        ),
        (
            "clear",
            "The best single head, 5-4, finds fewer antecedents than the rules: .50 [.45, .55] against .70 of 1,200 "
            "mentions, a difference of -.20 [-.25, -.15] (p = .002 after Holm).",
        ),
        (
            "open",
            "Whether the best single head, 5-4, finds more antecedents than matching head words is undecided: .50 "
            "[.45, .55] against .45 of 1,200 mentions, a difference of .05 [.01, .09] (p = .300 after Holm).",
        ),
    ]


def test_two_precise_and_equal_systems_are_a_null():
    (finding,) = corefheads.findings(coref(("nearest", 0.501, -0.001, -0.01, 0.01, 1.0)))
    assert finding.status == "null"
    assert "as many antecedents as" in finding.text


def test_a_missing_interval_is_passed_over():
    assert corefheads.findings(coref(("nearest", 0.3, 0.2, NAN, NAN, NAN))) == ()
