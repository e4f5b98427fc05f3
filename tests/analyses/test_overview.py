"""All results at a glance: abilities beside their baselines, heads with their roles, analyses in chapters."""

from __future__ import annotations

from typing import get_args

import pandas as pd
import pytest

import lamina
from lamina.analyses.heads.behaviours import DIFFERENCE
from lamina.analyses.heads.surface import INDUCTION
from lamina.analyses.overview import (
    ABILITIES,
    AbilityLine,
    ability_layers,
    above_static,
    head_roles,
)
from lamina.figures.overview import abilities, beside, describe_abilities, describe_roles, roles
from lamina.figures.theme import BEHAVIOUR_LOOKS
from lamina.framework.outline import CHAPTERS, Chapter, by_chapter, chapter_of
from lamina.framework.registry import all_analyses
from lamina.results import Provenance, Result
from lamina.testing import TinyEncoder

NAN = float("nan")
WHERE = Provenance({"name": "m"}, {"name": "c"}, {})


def probed(*, converged: bool = True) -> Result:
    """One task at three layers, .02 wide; the twin is better at layer 2, the constant better than the twin at 0."""
    values = {"model": [0.5, 0.8, 0.79], "random": [0.1, 0.3, 0.6]}
    rows = [
        ("m", "pos", "layer", of, layer, "all", "f1", 100, value, value - 0.01, value + 0.01)
        for of, own in values.items()
        for layer, value in enumerate(own)
    ]
    rows += [("m", "pos", "constant", "model", None, "all", "f1", 100, 0.2, 0.19, 0.21)]
    columns = ["model", "task", "probe", "of", "layer", "seed", "metric", "count", "value", "low", "high"]
    training = [("pos", "model", "layer", layer, converged or layer > 0, 10) for layer in range(3)]
    tables = {
        "scores": pd.DataFrame(rows, columns=columns),
        "training": pd.DataFrame(training, columns=["task", "of", "probe", "layer", "converged", "steps"]),
    }
    return Result("probe", tables, WHERE)


def looked_at() -> Result:
    rows = [
        (1, 1, "to_previous", 0.9, 0.85, 0.95, 0.1, 0.8, 0.7, 0.9, 0.001),
        (1, 2, "to_first", 0.61, 0.55, 0.67, 0.1, 0.51, -0.1, 1.1, 0.2),
        (1, 3, "to_next", 0.2, 0.1, 0.3, 0.1, 0.1, 0.05, 0.15, 0.01),
        (2, 1, "entropy", 1.8, 1.7, 1.9, 2.0, NAN, NAN, NAN, NAN),
    ]
    columns = ["layer", "head", "measure", "value", "low", "high", "baseline", *DIFFERENCE]
    return Result("attention", {"surface": pd.DataFrame(rows, columns=columns)}, WHERE)


def test_a_score_is_told_above_the_larger_of_its_baselines():
    table = ability_layers([probed()])
    assert table["above"].round(6).tolist() == [0.3, 0.5, 0.19]
    assert table["peak"].tolist() == [False, True, False]
    # Overlapping intervals are no comparison: without a confidence set nothing is told of ties.
    assert not table["among_best"].any()
    assert table["peak_low"].isna().all()


def test_layers_that_can_be_the_best_are_those_of_the_results_confidence_set():
    scores = pd.DataFrame(
        [("m", layer, "all", value, value - 0.1, value + 0.1) for layer, value in enumerate([0.5, 0.8, 0.79, 0.7])],
        columns=["representation", "layer", "class", "value", "low", "high"],
    )
    line = AbilityLine("Classes", "F1", scores, {}, 0.2, "static vectors", among_best=(1, 2))
    table = pd.DataFrame(line.rows("contextualize"), columns=list(ABILITIES))
    assert table["among_best"].tolist() == [False, True, True, False]
    assert set(zip(table["peak_low"], table["peak_high"], strict=True)) == {(1, 2)}
    assert "highest at layer 1 (layers 1 and 2 can be the best): F1 .80" in describe_abilities(table)


def test_probes_that_had_not_converged_have_no_peak():
    table = ability_layers([probed(converged=False)])
    assert not table["peak"].any()
    assert table["peak_low"].isna().all()
    assert "no peak" in describe_abilities(table)


def test_wrong_10_an_ability_is_above_its_baselines_where_that_was_tested():
    """The figure read "above" from scores and intervals that overlap or do not."""
    result = probed()
    assert set(ability_layers([result])["status"]) == {"untested"}
    # The constant answer is beaten everywhere, the twin at layer 1 alone; layer 2 was not tested against it.
    rows = [
        ("pos", "layer", layer, baseline, difference, p)
        for layer, p in enumerate([0.3, 0.01, NAN])
        for baseline, difference, p in (("twin", 0.4, p), ("constant", 0.3, 0.001))
    ]
    columns = ["task", "probe", "layer", "baseline", "difference", "p_adjusted"]
    tables = {**result.tables, "readings": pd.DataFrame(rows, columns=columns)}
    table = ability_layers([Result("probe", tables, WHERE)])
    assert table["status"].tolist() == ["open", "clear", "untested"]
    assert "layer 1, F1 .80 [.79, .81], shown to be above twin .30 and best constant answer .20." in describe_abilities(
        table
    )
    untested = describe_abilities(table.assign(status="untested"))
    assert "F1 .80 [.79, .81]; not tested against twin .30" in untested
    drawn = next(iter(abilities(table).to_dict()["datasets"].values()))
    assert [row["shade"] for row in drawn] == [0.0, pytest.approx(0.5), 0.0]


def test_wrong_10_semantic_classes_are_above_static_vectors_where_that_was_tested():
    rows = [
        ("vectors without context", "layers", "none", layer, "m", against, 0.2, p)
        for layer, own in enumerate([(0.01, 0.2), (0.01, 0.02)])
        for against, p in zip(("glove", "random"), own, strict=True)
    ]
    columns = ["comparison", "family", "task", "layer", "representation", "against", "difference", "p_adjusted"]
    assert above_static(pd.DataFrame(rows, columns=columns), "m") == {0: "open", 1: "clear"}


def test_wrong_10_a_role_is_shown_by_the_test_corrected_for_all_heads():
    """Heads 1-1 and 1-2 were told alike: the interval of each head alone lay above the share."""
    table = head_roles([looked_at()])
    assert table[["role", "status"]].values.tolist() == [
        ["previous", "clear"],
        ["first", "open"],
        ["other", ""],
        ["broad", "untested"],
    ]
    assert "Shown by a corrected test: 1; tested and not shown: 1; not tested: 1." in describe_roles(table)
    # Without tests nothing is drawn as shown.
    older = looked_at().tables["surface"].drop(columns=list(DIFFERENCE))
    assert "clear" not in set(head_roles([Result("attention", {"surface": older}, WHERE)])["status"])
    table = head_roles([looked_at()])
    broad = table.iloc[3]
    assert (broad["value"], broad["low"]) == pytest.approx((0.9, 0.85))


def repeated(*rows: tuple[int, float, float, float, float]) -> pd.DataFrame:
    """`induction.csv` of heads of layer 2: head, value, low, lowest difference from the unrepeated, p."""
    columns = dict.fromkeys(INDUCTION, 0.0)
    return pd.DataFrame(
        [
            columns
            | {"layer": 2, "head": head, "value": value, "low": low, "high": value + 0.1}
            | {"difference": value, "diff_low": apart, "diff_high": value + 0.1, "p_adjusted": p}
            for head, value, low, apart, p in rows
        ]
    )


def test_an_induction_head_is_clear_above_the_share_and_the_unrepeated_control():
    looked = looked_at()
    table = repeated(
        (1, 0.8, 0.7, 0.6, 0.001),
        (2, 0.4, 0.25, 0.2, 0.001),
        (3, 0.8, 0.7, 0.6, float("nan")),
        (4, 0.8, 0.7, 0.6, 0.2),
        (5, 0.2, 0.1, 0.1, 0.001),
    )
    surface = pd.concat(
        [looked.tables["surface"]]
        + [looked.tables["surface"].assign(layer=2, head=head, measure="to_self") for head in (2, 3, 4, 5)]
    )
    found = head_roles([Result("attention", {"surface": surface, "induction": table}, WHERE)])
    own = found[(found["role"] == "induction") | ((found["layer"] == 2) & (found["head"] == 5))]
    assert own[["head", "role", "status", "named"]].values.tolist() == [
        [1, "induction", "clear", True],
        [2, "induction", "clear", True],
        [5, "other", "", True],
    ]
    assert not {3, 4} & set(found.loc[found["role"] == "induction", "head"]), "not more than without a copy for sure"
    assert own.iloc[0][["value", "low", "over"]].tolist() == [0.8, 0.7, 0.3]
    # The role is drawn with its own mark.
    assert BEHAVIOUR_LOOKS["induction"].colour in str(roles(found).to_dict())


def test_a_map_of_a_decoders_heads_names_its_induction_heads():
    texts = [["the", "dog", "saw", "the", "cat"], ["the", "cat", "ran"]]
    decoder = TinyEncoder(causal=True, blocks=2)
    result = lamina.headmap(decoder, texts, samples=5)
    measured = lamina.attention(decoder, texts, samples=5).tables["induction"]
    enough = measured[measured["induction"]]
    own = result.tables["behaviours"].query("behaviour == 'induction'")
    assert own[["layer", "head"]].values.tolist() == enough[["layer", "head"]].values.tolist()
    assert own["value"].tolist() == pytest.approx(enough["value"].tolist())
    # Nothing of an encoder.
    assert "induction" not in set(lamina.headmap(TinyEncoder(), texts, samples=5).tables["behaviours"]["behaviour"])


def test_layers_that_can_be_best_are_drawn_one_by_one():
    # Layer 1 is worse than 0 and 2.
    table = ability_layers([probed()]).assign(among_best=[True, False, True])
    spec = abilities(table).to_dict()
    (ties,) = [each for each in spec["layer"] if each["mark"]["type"] == "rule"]
    assert [row["layer"] for row in spec["datasets"][ties["data"]["name"]]] == [0, 2]
    assert "(layers 0 and 2 can be the best)" in describe_abilities(table)


def test_every_analysis_is_in_one_of_five_chapters():
    assert [card.name for card in CHAPTERS] == list(get_args(Chapter))
    for each in all_analyses():
        assert chapter_of(each.name) == each.chapter
    assert list(by_chapter([looked_at(), probed()])) == ["abilities", "heads"]


def test_nothing_to_show_is_an_empty_table():
    assert ability_layers([looked_at()]).empty
    assert head_roles([probed()]).empty


def test_both_charts_share_the_layer_that_is_pointed_at():
    spec = beside(abilities(ability_layers([probed()])), roles(head_roles([looked_at()]))).to_dict()
    (shared,) = [each for each in spec["params"] if each["name"] == "layer"]
    assert len(shared["views"]) >= 2
