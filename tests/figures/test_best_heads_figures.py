"""Best heads beside simple systems: dependencies and antecedents."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd
import pytest

from lamina.analyses.heads.behaviours import LEAD
from lamina.analyses.heads.corefheads import BEST_ANTECEDENTS, COLUMNS
from lamina.analyses.heads.heads import BEST, EXAMPLES
from lamina.figures import captions_of, corefheads, heads, to_svg
from lamina.results import Provenance, Result

ABOUT = {"name": "m", "fingerprint": "f"}, {"name": "ewt", "split": "dev", "fingerprint": "g"}


def dependencies(*, examples: bool = True, faithful: bool = False) -> Result:
    nan = float("nan")
    best = [
        ("obj", "dependent", 4, 7, 600, 0.62, 0.6, 0.64, -2, 0.31, 0.31, 0.28, 1.0, 0.001, 13, 0),
        ("det", "head", 1, 2, 900, 0.9, 0.88, 0.92, 1, 0.85, 0.05, 0.01, 1.0, 0.2, 13, 0),
        ("iobj", "head", 1, 1, 3, 1.0, 1.0, 1.0, 1, 0.0, 1.0, nan, nan, nan, 3, 0),
    ]
    more = [
        ("document", kind, ahead, *[nan if faithful else 0.5] * 4, True)
        for kind, ahead in (("relation", True), ("relation", False), ("rare", False))
    ]
    words = ("Dogs", "chase", "cats")
    shown = [
        ("obj", "dependent", 4, 7, "s1", words[one], words[other], one, other, 0.3, (one, other) == (2, 1))
        for one in range(3)
        for other in range(3)
    ]
    tables = {
        "best": pd.DataFrame([(*one, *rest) for one, rest in zip(best, more, strict=True)], columns=list(BEST)),
        "examples": pd.DataFrame(shown if examples else [], columns=list(EXAMPLES)),
    }
    return Result("heads", tables, Provenance(*ABOUT, {"faithful": faithful}))


def antecedents(*, faithful: bool = False) -> Result:
    rows = []
    for kind, count in (("all", 90), ("pronoun", 90), ("proper", 0)):
        for at, name in enumerate(("best head", "best head, cross-fitted", "nearest", "head match", "rules")):
            place = (2, 1) if at == 0 else (None, None)
            rows.append((name, *place, kind, count, 0.15 * at, 0.1 * at, 0.2 * at))
        rows += [("head", layer, head, kind, 2 * count, 0.3, 0.2, 0.4) for layer in (1, 2) for head in (1, 2)]
    table = pd.DataFrame(rows, columns=list(COLUMNS)).astype({"layer": "Int64", "head": "Int64"})
    leads = [
        (
            kind,
            2,
            1,
            90,
            0.5,
            0.4,
            0.6,
            name,
            0.3,
            lead,
            lead - 0.1,
            lead + 0.1,
            0.001,
            9,
            0,
            lead > 0,
            0.5,
            0.4,
            0.6,
            True,
        )
        for kind in ("pronoun", "all")
        for name, lead in (("nearest", 0.2), ("head match", 0.15), ("rules", -0.2))
    ]
    tables = {"coref": table, "best": pd.DataFrame(leads, columns=list(BEST_ANTECEDENTS))}
    return Result("corefheads", tables, Provenance(*ABOUT, {"faithful": faithful}))


def test_relations_are_ordered_by_their_best_head_and_rare_ones_are_left_out():
    charts = heads.draw(dependencies())
    assert (
        list(charts) == ["arcs", "relations", "examples"] == sorted(charts, key=["arcs", *captions_of("heads")].index)
    )
    spec = charts["relations"].to_dict()
    assert spec["concat"][0]["layer"][0]["encoding"]["y"]["sort"] == ["determiner (det): 900", "object (obj): 600"]
    assert spec["title"]["subtitle"][-1] == "not drawn: relations of fewer than 20 scored words (1)"
    assert spec["description"].startswith("det: head 1-2 finds 0.90, offset +1 finds 0.85.")
    shares, leads = spec["concat"]
    assert [panel["title"] for panel in (shares, leads)] == ["Shares", "Lead"]
    dots = leads["layer"][2]
    assert dots["encoding"]["x"]["scale"]["domain"] == [0, 0.4]
    sure = {row["relation"]: row["lead"] for row in spec["datasets"][dots["data"]["name"]]}
    assert sure == {"determiner (det): 900": "not clearly ahead", "object (obj): 600": "clearly ahead"}
    # A one-sided interval has no upper end: its line ends at the estimate.
    assert {row["line_high"] for row in spec["datasets"][dots["data"]["name"]]} == {0.31, 0.05}
    assert "4-7" in to_svg(charts["relations"])
    assert "object (obj): head 4-7" in to_svg(charts["examples"])


@pytest.mark.parametrize("faithful", [True, False])
def test_a_chart_says_where_its_heads_were_chosen(faithful: bool):
    charts = heads.draw(dependencies(examples=False, faithful=faithful))
    assert list(charts) == ["relations"]
    said = charts["relations"].to_dict()["title"]["subtitle"][0]
    assert said.startswith("the best head and offset on these documents")
    assert ("that other documents chose" in said) != faithful
    systems = corefheads.draw(antecedents(faithful=faithful))["systems"].to_dict()
    said = "on the documents it is scored on" if faithful else "by type on one half of the documents"
    assert said in systems["title"]["subtitle"][1]


def test_results_of_older_versions_are_drawn_without_leads():
    old = dependencies(examples=False)
    best = old.tables["best"].drop(columns=[*LEAD, "agrees"])
    (panel,) = heads.draw(replace(old, tables={**old.tables, "best": best}))["relations"].to_dict()["concat"]
    assert panel["title"] == "Shares"
    older = antecedents()
    tables = {name: table for name, table in older.tables.items() if name != "best"}
    assert list(corefheads.draw(replace(older, tables=tables))) == ["systems", "heads"]


def test_antecedents_have_a_panel_for_every_type_that_occurs():
    charts = corefheads.draw(antecedents())
    assert list(charts) == ["systems", "leads", "heads"] == list(captions_of("corefheads"))
    systems, leads, grids = (charts[name].to_dict() for name in ("systems", "leads", "heads"))
    assert [panel["title"]["text"] for panel in leads["concat"]] == ["all", "pronoun"]
    assert leads["concat"][0]["title"]["subtitle"] == "head 2-1, 90 mentions"
    scales = [panel["layer"][2]["encoding"]["x"]["scale"]["domain"] for panel in leads["concat"]]
    assert scales == [pytest.approx([-0.3, 0.3])] * 2
    assert [panel["title"]["text"] for panel in systems["concat"]] == ["all", "pronoun"]
    assert [panel["title"]["subtitle"] for panel in systems["concat"]] == ["90 mentions"] * 2
    assert "best head: 2-1" in systems["title"]["subtitle"][0]
    assert [panel["title"]["text"] for panel in grids["concat"]] == ["all", "pronoun"]
    assert "ewt (dev)" in to_svg(charts["heads"])
