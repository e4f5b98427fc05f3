"""All heads at a glance, and one head's card: what the numbers of results become."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest

from lamina.analyses.heads.atlas import card, result_atlas, sentence_atlas
from lamina.analyses.heads.behaviours import BEHAVIOURS, LEAD, HeadBehaviour
from lamina.analyses.heads.heads import RELATIONS
from lamina.analyses.heads.look import watch_sentence
from lamina.errors import InputError
from lamina.results import Provenance, Result
from lamina.testing import TinyEncoder

SENTENCE = "The unhesitating dogs barked."


def result(analysis: str, **tables: pd.DataFrame) -> Result:
    return Result(
        analysis, tables, Provenance({"name": "m", "fingerprint": "f"}, {"name": "c", "fingerprint": "g"}, {})
    )


ATTENTION = result(
    "attention",
    surface=pd.DataFrame(
        [
            (1, 1, "to_next", 0.2, 0.1, 0.3, 0.1),
            (1, 2, "to_next", 0.7, 0.6, 0.8, 0.1),
            (1, 3, "to_next", 0.2, 0, 1, 0.1),
        ],
        columns=["layer", "head", "measure", "value", "low", "high", "baseline"],
    ),
    patterns=pd.DataFrame([(1, 2, "diagonal", 0.9)], columns=["layer", "head", "pattern", "share"]),
)
HEADS = result(
    "heads",
    relations=pd.DataFrame(
        [
            ("obj", "dependent", 1, 1, 50, 0.3, 0.2, 0.4, -2, 0.35, -0.05, -0.1, 0.0, 1.0, 13, 0),
            ("obj", "dependent", 1, 2, 50, 0.8, 0.7, 0.9, -2, 0.35, 0.45, 0.4, 0.5, 0.001, 13, 0),
            ("obj", "head", 1, 1, 50, 0.6, 0.5, 0.7, -2, 0.35, 0.25, 0.2, 0.3, 0.01, 13, 0),
            ("obj", "head", 1, 2, 50, 0.1, 0.0, 0.2, -2, 0.35, -0.25, -0.3, -0.2, 0.01, 13, 0),
            ("det", "dependent", 1, 2, 90, 0.5, 0.4, 0.6, 1, 0.6, -0.1, -0.2, -0.05, 0.01, 13, 0),
            ("amod", "dependent", 1, 2, 60, 0.9, 0.8, 1.0, 1, 0.6, 0.3, 0.2, 0.4, 0.2, 13, 0),
            ("rare", "dependent", 1, 2, 3, 1.0, 1.0, 1.0, 1, 0.0, 1.0, 1.0, 1.0, 0.5, 13, 0),
        ],
        columns=list(RELATIONS),
    ),
    best=pd.DataFrame(
        [("obj", "dependent", 1, 2, 50, 0.75, 0.6, 0.9, -2, 0.3, 0.45, 0.4, 1.0, 0.001, 13, 0, True)],
        columns=[*RELATIONS, "agrees"],
    ),
)
HEADMAP = result(
    "headmap",
    points=pd.DataFrame(
        [(1, 1, 0.0, 0.0, "other"), (1, 2, 1.0, 0.0, "syntactic"), (1, 3, 0.0, 1.0, "broad")],
        columns=["layer", "head", "x", "y", "behaviour"],
    ),
    divergences=pd.DataFrame(
        [(1, 1, 1, 2, 10.0, 0.1), (1, 1, 1, 3, 30.0, 0.3), (1, 2, 1, 3, 20.0, 0.2)],
        columns=["layer_a", "head_a", "layer_b", "head_b", "value", "mean"],
    ),
    behaviours=pd.DataFrame([HeadBehaviour(1, 2, "syntactic", "obj", 0.75, 0.3, 0.45, 0.4, 0.5, 0.001)]),
)
COREF = result(
    "corefheads",
    coref=pd.DataFrame(
        [
            ("best head", 1, 2, "pronoun", 9, 0.4, 0.3, 0.5),
            ("nearest", math.nan, math.nan, "pronoun", 9, 0.2, 0.1, 0.3),
            ("head match", math.nan, math.nan, "pronoun", 9, 0.3, 0.1, 0.5),
            ("head", 1, 2, "pronoun", 9, 0.4, 0.3, 0.5),
        ],
        columns=["system", "layer", "head", "mention_type", "count", "accuracy", "low", "high"],
    ),
)


def by_name(made: Result) -> dict:
    return {measure.name: measure for measure in result_atlas(made, 1, 3)}


def test_a_sentence_is_measured_as_its_maps_say():
    encoder = TinyEncoder(blocks=3, heads=2)
    found = sentence_atlas(encoder, SENTENCE)
    maps = watch_sentence(encoder, SENTENCE).maps.numpy()
    measures = {measure.name: measure for measure in found.measures}
    assert measures["to_first"].values == pytest.approx(maps[..., 0].mean(-1), abs=1e-6)
    assert measures["to_previous"].values == pytest.approx(
        np.diagonal(maps, -1, 2, 3).sum(-1) / maps.shape[-1], abs=1e-6
    )
    assert measures["to_first"].baseline == pytest.approx(1 / maps.shape[-1])
    assert math.isnan(measures["reach"].baseline)
    assert found.tokens == maps.shape[-1]
    best = np.unravel_index(measures["to_next"].values.argmax(), (3, 2))
    assert (best[0] + 1, best[1] + 1) in {each[:2] for each in found.outstanding}


def test_attention_has_the_measures_and_the_shapes_of_maps():
    found = by_name(ATTENTION)
    assert found["to_next"].values.tolist() == [[0.2, 0.7, 0.2]]
    assert (found["to_next"].baseline, found["to_next"].unit) == (0.1, "share of attention")
    assert np.isnan(found["pattern diagonal"].values).tolist() == [[True, False, True]]


def test_a_relation_is_scored_in_the_better_direction_and_the_common_ones_come_first():
    found = by_name(HEADS)
    assert list(found) == ["det", "amod", "obj"]
    assert found["obj"].values[0, :2].tolist() == [0.6, 0.8]
    assert found["obj"].baseline == 0.35


def test_the_map_gives_roles_and_distances():
    found = by_name(HEADMAP)
    assert [BEHAVIOURS[int(code)] for code in found["role"].values[0]] == ["other", "syntactic", "broad"]
    assert found["role"].names == BEHAVIOURS
    assert found["apart"].values[0] == pytest.approx([0.2, 0.15, 0.25])


def test_coreference_beside_the_best_simple_system():
    found = by_name(COREF)["pronoun"]
    assert (found.values[0, 1], found.baseline, found.rule) == (0.4, 0.3, "head match")


def test_what_a_decoder_has_none_of_is_no_measure():
    empty = ATTENTION.tables["surface"].assign(measure="to_separator", value=math.nan)
    saved = result("attention", surface=empty, patterns=ATTENTION.tables["patterns"])
    assert "to_separator" not in by_name(saved)


def test_other_results_say_nothing_of_heads(make_geometry):
    assert result_atlas(make_geometry(), 6, 12) == []


def test_a_card_has_everything_there_is():
    found = card(1, 2, {each.analysis: each for each in (ATTENTION, HEADS, HEADMAP, COREF)})
    assert found.role == "syntactic"
    # A lead that does not hold after the correction is no sure one, and a deficit is none at all.
    assert found.relations[["relation", "accuracy", "held_out", "ahead"]].values.tolist() == [
        ["obj", 0.75, True, True],
        ["amod", 0.9, False, False],
        ["det", 0.5, False, False],
    ]
    assert found.pattern[["title", "rank", "of"]].values.tolist() == [["to the next token", 1, 3]]
    assert found.shapes["pattern"].tolist() == ["diagonal"]
    assert found.coreference["mention_type"].tolist() == ["pronoun"]
    assert found.neighbours.values.tolist() == [[1, 1, 0.1, "other"], [1, 3, 0.2, "broad"]]
    assert found.behaviours[["what", "difference", "p_adjusted"]].values.tolist() == [["obj", 0.45, 0.001]]
    assert len(found.points) == 3


def test_results_without_differences_show_no_sure_lead():
    tables = {name: table.drop(columns=list(LEAD)) for name, table in HEADS.tables.items()}
    doing = HEADMAP.tables["behaviours"].drop(columns=list(LEAD[:4]))
    older = {
        "heads": result("heads", **tables),
        "headmap": result("headmap", **{**HEADMAP.tables, "behaviours": doing}),
    }
    found = card(1, 2, older)
    assert found.relations["relation"].tolist() == ["obj", "amod", "det"]
    assert not found.relations["ahead"].any()
    assert found.behaviours["what"].tolist() == ["obj"]
    assert found.behaviours["difference"].isna().all()


def test_equal_heads_share_a_rank():
    ranks = [card(1, head, {"attention": ATTENTION}).pattern["rank"].item() for head in (1, 2, 3)]
    assert ranks == [2, 1, 2]


def test_a_card_without_results_is_empty():
    found = card(1, 2, {})
    assert found.role == ""
    assert all(table.empty for name, table in found._asdict().items() if name != "role")


@pytest.mark.parametrize(
    ("sentence", "most", "why"),
    [(" \n", None, "no words"), ("one two three", 3, "at most 3"), ("half \ud800 pair", None, "valid Unicode")],
    ids=["blank", "long", "broken"],
)
def test_what_cannot_be_seen_is_refused(sentence: str, most: int | None, why: str):
    with pytest.raises(InputError, match=why):
        watch_sentence(TinyEncoder(), sentence, most=most)
