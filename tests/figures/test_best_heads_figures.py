"""Best heads beside simple systems: dependencies and antecedents."""

from __future__ import annotations

import pandas as pd
import pytest

from lamina.analyses.attention_maps.corefheads import COLUMNS
from lamina.analyses.attention_maps.heads import EXAMPLES
from lamina.analyses.attention_maps.relations import RELATIONS
from lamina.figures import captions_of, corefheads, heads, to_svg
from lamina.results import Provenance, Result

ABOUT = {"name": "m", "fingerprint": "f"}, {"name": "ewt", "split": "dev", "fingerprint": "g"}


def dependencies(*, examples: bool = True, faithful: bool = False) -> Result:
    best = [
        ("obj", "dependent", 4, 7, 600, 0.62, 0.6, 0.64, -2, 0.31),
        ("det", "head", 1, 2, 900, 0.9, 0.88, 0.92, 1, 0.5),
        ("iobj", "head", 1, 1, 3, 1.0, 1.0, 1.0, 1, 0.0),
    ]
    words = ("Dogs", "chase", "cats")
    shown = [
        ("obj", "dependent", 4, 7, "s1", words[one], words[other], one, other, 0.3, (one, other) == (2, 1))
        for one in range(3)
        for other in range(3)
    ]
    tables = {
        "best": pd.DataFrame(best, columns=list(RELATIONS)),
        "examples": pd.DataFrame(shown if examples else [], columns=list(EXAMPLES)),
    }
    return Result("heads", tables, Provenance(*ABOUT, {"faithful": faithful}))


def antecedents() -> Result:
    rows = []
    for kind, count in (("all", 90), ("pronoun", 90), ("proper", 0)):
        for at, name in enumerate(("best head", "nearest", "head match", "rules")):
            place = (2, 1) if at == 0 else (None, None)
            rows.append((name, *place, kind, count, 0.2 * at, 0.1 * at, 0.3 * at))
        rows += [("head", layer, head, kind, 2 * count, 0.3, 0.2, 0.4) for layer in (1, 2) for head in (1, 2)]
    table = pd.DataFrame(rows, columns=list(COLUMNS)).astype({"layer": "Int64", "head": "Int64"})
    return Result("corefheads", {"coref": table}, Provenance(*ABOUT, {}))


def test_relations_are_ordered_by_their_best_head_and_rare_ones_are_left_out():
    charts = heads.draw(dependencies())
    assert list(charts) == ["relations", "examples"] == list(captions_of("heads"))
    spec = charts["relations"].to_dict()
    assert spec["concat"][0]["layer"][0]["encoding"]["y"]["sort"] == ["det (900)", "obj (600)"]
    assert spec["title"]["subtitle"][1] == "not drawn: relations of fewer than 20 scored words (1)"
    assert spec["description"].startswith("det: head 1-2 finds 0.90, offset +1 finds 0.50.")
    assert "4-7" in to_svg(charts["relations"])
    assert "obj: head 4-7" in to_svg(charts["examples"])


@pytest.mark.parametrize("faithful", [True, False])
def test_a_chart_says_where_its_heads_were_chosen(faithful: bool):
    charts = heads.draw(dependencies(examples=False, faithful=faithful))
    assert list(charts) == ["relations"]
    said = "on the texts it is scored on" if faithful else "on one half of the texts, scored on the other"
    assert said in charts["relations"].to_dict()["title"]["subtitle"][0]


def test_antecedents_have_a_panel_for_every_type_that_occurs():
    charts = corefheads.draw(antecedents())
    assert list(charts) == ["systems", "heads"] == list(captions_of("corefheads"))
    systems, grids = (charts[name].to_dict() for name in ("systems", "heads"))
    assert [panel["title"]["text"] for panel in systems["concat"]] == ["all", "pronoun"]
    assert [panel["title"]["subtitle"] for panel in systems["concat"]] == ["90 mentions"] * 2
    assert "best head: 2-1" in systems["title"]["subtitle"][0]
    assert [panel["title"]["text"] for panel in grids["concat"]] == ["all", "pronoun"]
    assert "ewt (dev)" in to_svg(charts["heads"])
