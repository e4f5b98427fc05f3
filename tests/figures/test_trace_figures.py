"""Traces and revisions drawn: what is compared, what is marked, and that little data draws too."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from lamina.analyses.layers.probe.predictions import TraceRow
from lamina.analyses.layers.revisions import RevisedAfter, Revision
from lamina.figures import captions_of, draw, spec_of, to_svg
from lamina.figures.trace import traces
from lamina.results import Provenance, Result

NAN = float("nan")


def beside_seeds(layer: int, seeds: int) -> tuple:
    """Revised minus seeds_differ; clear at layer 1 alone."""
    if seeds < 2:
        return (NAN, NAN, NAN, NAN, 0, 0, "text")
    return (0.3 / layer - 0.1, 0.0, 0.3, 0.01 if layer == 1 else 0.5, 40, 0, "text")


def made(*, seeds: int = 2, tasks: tuple[str, ...] = ("pos", "dep"), sentences: int = 0) -> Result:
    steps = [
        Revision(
            task,
            layer,
            100,
            0.3 / layer,
            0.25 / layer,
            0.35 / layer,
            0.3 / layer,
            layer / 6,
            0.5,
            0.2,
            differ,
            *beside_seeds(layer, seeds),
        )
        for task in tasks
        for layer in range(1, 7)
        for differ in [0.1 if seeds > 1 else NAN]
    ]
    none = (NAN, NAN, NAN, NAN, 0, 0, "text")
    whole = [Revision(task, None, 100, 0.5, 0.4, 0.6, 0.7, NAN, 0.5, 0.2, NAN, *none) for task in tasks]
    pairs = [
        RevisedAfter(a, b, measure, 50, 0.6, 0.5, 0.7, 0.4, 0.3, 0.5, 0.2, 0.1, 0.3, p, 40, 0, "text")
        for measure in ("after_settled", "after_revised", "same_layer")
        for a, b, p in (("pos", "dep", 0.01), ("dep", "pos", 0.3))
        if len(tasks) > 1 and (measure != "same_layer" or a == "pos")
    ]
    shown = [
        TraceRow(f"s{number}", task, 0, f"{at}:{at + 1}", "", label, gold, layer, 0.5)
        for number in range(sentences)
        for task in tasks
        for at in range(8)
        for label, gold in (("A", True), ("B", False))
        for layer in range(7)
    ]
    tables = {
        "traces": pd.DataFrame(shown, columns=list(TraceRow._fields)),
        "revisions": pd.DataFrame(steps + whole, columns=list(Revision._fields)).astype({"layer": "Int64"}),
        "revised_after": pd.DataFrame(pairs, columns=list(RevisedAfter._fields)),
    }
    about = {"name": "tiny", "fingerprint": "f"}, {"name": "toy", "split": "dev", "fingerprint": "c"}
    return Result("trace", tables, Provenance(*about, {}))


def rows_of(spec: dict, panel: dict) -> pd.DataFrame:
    return pd.DataFrame(spec["datasets"][panel["data"]["name"]])


def test_every_chart_draws_and_says_what_it_shows() -> None:
    charts = draw(made(sentences=1))

    assert list(charts) == ["traces", "revisions", "revised_after"] == list(captions_of("trace"))
    for chart in charts.values():
        spec = spec_of(chart)
        assert "tiny on toy (dev)" in spec["title"]["text"]
        assert len(spec["description"]) > 30
        assert to_svg(spec).startswith("<svg")


def test_revisions_stand_beside_what_two_seeds_disagree_on() -> None:
    spec = spec_of(draw(made())["revisions"])
    band, _, _ = spec["concat"][0]["layer"]

    assert [panel["title"]["text"] for panel in spec["concat"]] == ["Part of speech", "Dependencies"]
    assert (band["encoding"]["y"]["field"], band["encoding"]["y2"]["field"]) == ("low", "high")
    rows = rows_of(spec, spec["concat"][0])
    assert rows.groupby("what")["layer"].apply(list).to_dict() == {
        "decisions revised": [1, 2, 3, 4, 5, 6],
        "two seeds disagree": [1, 2, 3, 4, 5, 6],
    }
    # Only what is clearly more than seeds disagree on is filled.
    _, _, points = spec["concat"][0]["layer"]
    assert points["encoding"]["fill"]["condition"][0]["test"]["oneOf"] == [1]
    # One seed has nobody to disagree with.
    alone = spec_of(draw(made(seeds=1))["revisions"])
    assert set(rows_of(alone, alone["concat"][0])["what"]) == {"decisions revised"}


def test_pairs_stand_beside_their_shuffles_and_clear_ones_are_starred() -> None:
    spec = spec_of(draw(made())["revised_after"])

    assert [panel["title"]["text"].split(",")[0] for panel in spec["concat"]] == [
        "The first is last revised after the second",
        "Both have their last revision at the same layer",
        "The first is revised after the second has settled",
    ]
    rows = rows_of(spec, spec["concat"][0])
    pairs = ["Part of speech after dependencies *", "Dependencies after part of speech"]
    assert rows["pair"].unique().tolist() == pairs
    first = rows[rows["pair"] == pairs[0]][["what", "from", "value", "to"]]
    assert first.to_numpy().tolist() == [
        ["same words", 0.5, 0.6, 0.7],
        ["second task from other texts", 0.3, 0.4, 0.5],
    ]


def test_one_task_or_no_pair_that_shares_words_draws_no_pairs() -> None:
    assert list(draw(made(tasks=("pos",)))) == ["revisions"]
    result = made()
    result.tables["revised_after"].loc[:, ["observed", "low", "high"]] = np.nan
    assert list(draw(result)) == ["revisions"]


@pytest.mark.parametrize(("everything", "each"), [(False, 3), (True, 8)])
def test_where_not_all_targets_are_drawn_every_task_has_its_share(everything, each) -> None:
    chart = traces(made(sentences=1).tables, "a title", everything=everything)

    assert chart is not None
    (sentence,) = spec_of(chart)["concat"]
    names = {"Part of speech": "pos", "Dependencies": "dep"}
    assert [names[panel["title"]["subtitle"]] for panel in sentence["concat"]] == ["pos"] * each + ["dep"] * each
