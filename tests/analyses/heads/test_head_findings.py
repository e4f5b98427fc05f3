"""What the four analyses of attention maps say of a result: claims, numbers, intervals, and silence."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import combinations

import numpy as np
import pandas as pd
import pytest

from lamina.analyses.heads.attention import attention
from lamina.analyses.heads.behaviours import LEAD
from lamina.analyses.heads.corefheads import BEST_ANTECEDENTS, corefheads
from lamina.analyses.heads.headmap import DIVERGENCES, headmap, likeness
from lamina.analyses.heads.heads import BEST, heads, kind_of
from lamina.analyses.heads.surface import LAYERS, SURFACE
from lamina.framework.declare import Analysis
from lamina.framework.verify import check_findings
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


def tables(
    heads_rows: Iterable[tuple[int, int, str, float, float]] = (),
    layer_rows: Iterable[tuple[int, str, str, float, float]] = (),
    *,
    half: float = 0.02,
    p: float = 0.001,
    needed: int = 0,
) -> Result:
    """Tables of `attention`, of values and what they are compared with."""
    documents = 5 if needed else 20

    def tested(value: float, beside: float) -> tuple[float, ...]:
        return value - beside, value - beside - half, value - beside + half, p, documents, needed

    of_heads = [
        (layer, head, measure, value, value - half, value + half, beside, *tested(value, beside))
        for layer, head, measure, value, beside in heads_rows
    ]
    of_layers = [
        (layer, of, kind, value, value - half, value + half, beside, beside, *tested(value, beside))
        for layer, of, kind, value, beside in layer_rows
    ]
    return result(
        attention,
        {
            "surface": pd.DataFrame(of_heads, columns=list(SURFACE)),
            "layers": pd.DataFrame(of_layers, columns=list(LAYERS)),
        },
    )


def told(made: Result) -> list[str]:
    found = attention.findings(made)
    assert check_findings(replace(made, findings=found)) == []
    return [f"{finding.status}: {finding.text}" for finding in found]


def test_attention_names_the_strongest_sink_as_the_mean_of_a_layers_heads():
    rows = [(1, "surface", "to_first", 0.1, 0.05), (2, "surface", "to_first", 0.6, 0.05)]
    assert told(tables((), [*rows, (1, "surface", "to_separator", 0.5, 0.05)])) == [
        "clear: The heads of layer 2 give 60 % of their attention to the first token; uniform attention would give 5 % "
        "(difference .55 [.53, .57])."
    ]


def test_in_a_decoder_the_first_token_is_not_called_a_separator():
    rows = [(1, "surface", name, 0.7 + tiny, 0.1) for name, tiny in (("to_first", 0), ("to_separator", 1e-9))]
    assert "the first token" in told(tables((), rows))[0]


def test_attention_names_positional_heads_with_enough_digits():
    rows = [(1, 3, "to_previous", 0.997, 0.05), (2, 1, "to_next", 0.5, 0.05)]
    assert told(tables(rows, half=0.001)) == [
        "clear: Head 1-3 gives 99.7 % of its attention to the previous token; uniform attention would give 5 % "
        "(difference .95 [.95, .95])."
    ]


def test_attention_without_a_sink_says_so():
    rows = [(1, "surface", "to_first", 0.051, 0.05)]
    assert told(tables((), rows, half=0.01, p=0.8))[0].startswith("null: No layer is a sink: the heads of layer 1 come")
    assert told(tables((), rows, half=0.2, p=0.8))[0].startswith(
        "open: It is not known whether any layer is a sink; the"
    )
    assert told(tables((), rows, p=NAN, needed=6))[0].startswith(
        "untested: 5 documents are too few to test whether any"
    )


def test_what_could_not_vary_is_passed_over():
    assert told(tables([(1, 1, "to_previous", 0.0, 0.0)], [(1, "surface", "to_first", 1.0, 1.0)], p=NAN)) == []


def test_a_layer_is_told_beside_all_layers():
    rows = [(2, "patterns", "vertical", 0.6, 0.4), (1, "patterns", "heterogeneous", 0.9, 0.5)]
    assert told(tables((), [*rows, (4, "surface", "entropy", 2.5, 1.8)])) == [
        "clear: At layer 2, 60 % of the heads' maps are vertical; over all layers 40 % are (difference "
        ".20 [.18, .22]). Types are assigned by a rule, which agrees with labels by eye on two maps of three.",
        "clear: Attention is broader at layer 4 than over all layers: its entropy is 2.50 nats, over all layers 1.80 "
        "(difference .70 [.68, .72]).",
    ]


def test_small_entropies_have_enough_digits():
    """An entropy of .0030 [.0023, .0040] was told as .00 [.00, .00]."""
    (said,) = told(tables((), [(4, "surface", "entropy", 0.106, 0.003)], half=0.001))
    assert "its entropy is .1060 nats, over all layers .0030 (difference .10 [.10, .10])" in said


@pytest.mark.parametrize(
    ("own", "half", "p", "words"),
    [
        (0.004, 0.001, 0.001, "clear: The loss hangs less on attention to the first token"),
        (0.040, 0.005, 0.001, "clear: The loss hangs more on attention to the first token"),
        (0.011, 0.003, 0.8, "open: It is not known whether the loss hangs less on attention to the first token"),
        (0.0121, 0.0003, 0.8, "null: The loss hangs on attention to the first token as much as to other tokens"),
    ],
)
def test_whether_the_loss_hangs_on_a_sink_is_the_paired_difference(own: float, half: float, p: float, words: str):
    rows = [
        (3, "gradients", "first", own, 0.012),
        (2, "gradients", "first", 9.0, 1.0),
        (3, "surface", "to_first", 0.7, 0.1),
        (2, "surface", "to_first", 0.3, 0.1),
    ]
    said = told(tables((), rows, half=half, p=p))
    assert len(said) == 2
    assert any(words in each and "layer 3, which attends most to the first token" in each for each in said)


# heads


def best(*rows: tuple[str, int, float, float, float, float, float, int]) -> Result:
    """Relation, count, accuracy of head 3-9 and of the offset, lower end of their difference, p, documents needed."""
    made = []
    for relation, count, own, offset, low, p, needed in rows:
        tested = (own - offset, low, 1.0, p, 5 if needed else 13, needed)
        about = ("document", kind_of(relation, count), p < 0.05, own - 0.01, own - 0.03, own + 0.01, offset, True)
        made.append((relation, "dependent", 3, 9, count, own, own - 0.02, own + 0.02, 1, offset, *tested, *about))
    return result(heads, {"best": pd.DataFrame(made, columns=list(BEST))})


def test_heads_name_the_relations_that_are_found_most_clearly_and_count_them():
    made = best(
        ("all without punctuation", 900, 0.43, 0.34, 0.07, 0.001, 0),
        ("all", 1000, 0.99, 0.1, 0.88, 0.001, 0),
        ("punct", 1000, 0.99, 0.1, 0.88, 0.001, 0),
        ("obj", 1200, 0.72, 0.31, 0.33, 0.001, 0),
        ("det", 100, 0.9, 0.85, 0.01, 0.03, 0),
        # A lead that does not hold in its family.
        ("ccomp", 100, 0.9, 0.4, -0.1, 0.06, 0),
        # Five words are luck.
        ("csubj", 5, 1.0, 0.0, NAN, NAN, 0),
    )
    found = heads.findings(made)
    assert sorted((finding.status, finding.text) for finding in found) == sorted(
        [
            (
                "clear",
                "Head 3-9 finds 72 % of objects; the best fixed offset finds 31 % (difference .41, at least .33).",
            ),
            (
                "clear",
                "Head 3-9 finds 90 % of determiners; the best fixed offset finds 85 % (difference .05, "
                "at least .01). Small sample: 100 targets.",
            ),
            (
                "clear",
                "Heads find 2 of 3 relations more often than the best fixed offset; the least certain is determiner "
                "(det) (its difference .05, at least .01).",
            ),
            (
                "clear",
                "Head 3-9 finds 43 % of all dependencies without punctuation; the best fixed offset finds 34 % "
                "(difference .09, at least .07).",
            ),
        ]
    )
    assert check_findings(replace(made, findings=found)) == []


def test_heads_that_find_no_more_than_an_offset_are_not_praised():
    for row in (
        ("obj", 50, 0.4, 0.3, -0.1, 0.4, 0),
        ("obj", 50, 0.4, 0.3, 0.01, 0.2, 0),
        ("obj", 50, 0.1, 0.3, -0.3, 1.0, 0),
    ):
        (found,) = heads.findings(best(row))
        assert found.status == "open"
        assert found.text.startswith(
            "It is not known whether a head finds any relation more often than the best fixed offset; head 3-9 comes "
            "closest, for object (obj) (difference"
        )


def test_wrong_1_without_power_absence_is_not_claimed():
    made = best(("obj", 200, 0.8, 0.2, -0.1, NAN, 6))
    (found,) = heads.findings(made)
    assert (found.status, found.needed) == ("untested", 6)
    assert found.text == (
        "5 documents are too few to test whether a head finds any relation more often than the best fixed offset; at "
        "least 6 are needed."
    )
    (rare,) = heads.findings(best(("csubj", 5, 1.0, 0.0, NAN, NAN, 0)))
    assert rare.text == (
        "It was not tested whether a head finds any relation more often than the best fixed offset: no relation is "
        "frequent enough."
    )


def test_heads_of_older_results_say_nothing():
    older = best(("obj", 99, 0.5, 0.3, 0.1, 0.01, 0)).tables["best"].drop(columns=["kind", "ahead"])
    assert heads.findings(result(heads, {"best": older})) == ()


# headmap


def mapped(within: float, between: float, *, layers: int = 4, per_layer: int = 6, noise: float = 0.02) -> Result:
    draw = np.random.default_rng(0)
    places = [(layer, head) for layer in range(1, layers + 1) for head in range(1, per_layer + 1)]
    rows = []
    for one, other in combinations(places, 2):
        mean = (within if one[0] == other[0] else between) + noise * draw.normal()
        rows.append((*one, *other, mean * 1000, mean))
    pairs = pd.DataFrame(rows, columns=list(DIVERGENCES[:6]))
    return result(headmap, {"likeness": likeness(pairs, samples=500)})


def test_a_map_tells_whether_heads_of_a_layer_are_alike():
    made = mapped(0.2, 0.3)
    (alike,) = headmap.findings(made)
    assert (alike.status, alike.unit, alike.n) == ("clear", "head", 24)
    assert alike.text.startswith("Heads of one layer attend more alike than heads of two layers: mean divergence .20")
    assert alike.low is not None
    assert alike.high is not None
    assert 0.05 < alike.low < alike.estimate < alike.high < 0.15
    assert check_findings(replace(made, findings=(alike,))) == []
    (apart,) = headmap.findings(mapped(0.3, 0.2))
    assert apart.status == "clear"
    assert "less alike" in apart.text
    (same,) = headmap.findings(mapped(0.25, 0.25))
    assert same.status == "null"
    (few,) = headmap.findings(mapped(0.25, 0.3, layers=2, per_layer=3, noise=0.2))
    assert few.status == "open"
    assert few.text.startswith("It is not known whether heads of one layer attend more or less alike")


def test_wrong_12_with_too_many_pairs_to_test_the_closest_is_untested_and_says_why():
    pairs = [*combinations([(layer, head) for layer in range(1, 19) for head in range(1, 19)], 2)]
    missing = dict(zip(LEAD, (0.1, NAN, NAN, NAN, 20, 0), strict=True))
    rows = [(*one, *other, 30.0, 0.3, 0.2, 0.4, *missing.values(), at == 7) for at, (one, other) in enumerate(pairs)]
    made = result(headmap, {"divergences": pd.DataFrame(rows, columns=list(DIVERGENCES))})
    (untested,) = headmap.findings(made)
    assert untested.text == (
        "It was not tested whether heads 1-1 and 1-9 attend more alike than two heads do on average: all 52,326 pairs "
        "of heads are one family, too large to be tested in a few minutes."
    )
    assert check_findings(replace(made, findings=(untested,))) == []


def test_few_heads_are_untested():
    (few,) = headmap.findings(mapped(0.2, 0.3, layers=2, per_layer=2))
    assert few.text.startswith("4 heads are too few to test whether")


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
        table = likeness(pd.DataFrame(rows, columns=list(DIVERGENCES[:6])), samples=300)
        claims += headmap.findings(result(headmap, {"likeness": table}))[0].status == "clear"
    assert claims <= 2


@pytest.mark.parametrize(("layers", "per_layer"), [(1, 6), (6, 1)])
def test_a_single_layer_or_single_heads_cannot_be_compared(layers: int, per_layer: int):
    assert mapped(0.2, 0.3, layers=layers, per_layer=per_layer).tables["likeness"].empty


def test_a_map_with_nan_says_nothing():
    pairs = pd.DataFrame([(1, 1, 1, 2, NAN, NAN), (1, 1, 2, 1, 1.0, 0.1)], columns=list(DIVERGENCES[:6]))
    assert likeness(pairs, samples=10).empty


def test_wrong_1_a_map_tells_syntactic_heads_as_heads_does_and_no_absence_without_power():
    found = headmap.findings(result(headmap, dict(best(("obj", 200, 0.7, 0.3, 0.2, 0.01, 0)).tables)))
    assert [finding.status for finding in found] == ["clear"]
    assert found[0].text.startswith("Head 3-9 finds 70 % of objects")
    (none,) = headmap.findings(result(headmap, dict(best(("obj", 200, 0.7, 0.3, 0.2, NAN, 6)).tables)))
    assert none.text.startswith("5 documents are too few to test whether a head finds any relation")
    assert "None of" not in none.text


# corefheads


def coref(*rows: tuple[str, float, float, float, float, float]) -> Result:
    """Of all mentions: a baseline's name and share, the difference of head 5-4 with its interval, p."""
    made = [
        (
            "all",
            5,
            4,
            1200,
            0.5,
            0.45,
            0.55,
            name,
            share,
            difference,
            low,
            high,
            p,
            15,
            0,
            p < 0.05,
            0.48,
            0.4,
            0.5,
            True,
        )
        for name, share, difference, low, high, p in rows
    ]
    # One type of mention says nothing of all.
    made.append(
        ("pronoun", 1, 1, 900, 0.9, 0.8, 1.0, "nearest", 0.1, 0.8, 0.7, 0.9, 0.01, 15, 0, True, 0.9, 0.8, 1.0, True)
    )
    return result(corefheads, {"best": pd.DataFrame(made, columns=list(BEST_ANTECEDENTS))})


def test_the_best_head_is_compared_with_every_baseline_on_the_same_documents():
    made = coref(
        ("nearest", 0.3, 0.2, 0.15, 0.25, 0.001),
        ("head match", 0.45, 0.05, -0.01, 0.11, 0.3),
        ("rules", 0.7, -0.2, -0.25, -0.15, 0.002),
    )
    found = corefheads.findings(made)
    of_all = [finding for finding in found if not finding.text.startswith("Of pronouns")]
    assert [(finding.status, finding.text) for finding in of_all] == [
        (
            "clear",
            "The best single head, 5-4, finds more antecedents than taking the nearest mention: 50 % against 30 % "
            "(difference .20 [.15, .25]).",
        ),
        (
            "clear",
            "The best single head, 5-4, finds fewer antecedents than the rules: 50 % against 70 % (difference -.20 "
            "[-.25, -.15]).",
        ),
        (
            "open",
            "It is not known whether the best single head, 5-4, finds more or fewer antecedents than matching head "
            "words (difference .05 [-.01, .11]).",
        ),
    ]
    assert check_findings(replace(made, findings=found)) == []


def test_two_precise_and_equal_systems_are_a_null():
    found = corefheads.findings(coref(("nearest", 0.501, -0.001, -0.01, 0.01, 1.0)))
    (finding,) = (finding for finding in found if not finding.text.startswith("Of pronouns"))
    assert finding.status == "null"
    assert "as many antecedents as" in finding.text
