"""What results about words in context are said to show: clear effects, none, and numbers that are not there."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd
import pytest

import lamina
from lamina.analyses.contextualization.neighbours import NEIGHBOURS, SEPARATION
from lamina.analyses.contextualization.tables import SCORES
from lamina.findings import number
from lamina.results import Provenance, Result

NAN = float("nan")


def rows(name: str, values: list[float], *, context: str = "full", layers: bool = True, spread: float = 0.02):
    return [
        (
            name,
            layer if layers else pd.NA,
            context,
            "all",
            "all",
            split,
            split == "dev",
            10,
            value,
            value - spread,
            value + spread,
        )
        for layer, value in enumerate(values)
        for split in ("dev", "test")
    ]


def scored(model: list[float], **others: list[float]) -> Result:
    """`others`: `avg` by layer; `glove`, `random` without layers; `alone` by layer, with no context."""
    found = [*rows("minilm", model), *rows("AVG-minilm", others.get("avg", []))]
    for name in ("glove", "random"):
        found += rows(name, others.get(name, []), layers=False)
    found += rows("P-glove", [0.99], layers=False) + rows("permuted minilm", [0.1])
    alone = rows("minilm", others.get("alone", []), context="0") + rows("minilm", others.get("alone", []), context="4")
    tables = {
        name: pd.DataFrame(part, columns=list(SCORES)).astype({"layer": "Int64"})
        for name, part in (("sclass", found), ("context", alone))
    }
    about = Provenance({"name": "minilm"}, {"name": "ewt"}, {"faithful": False})
    return Result("contextualize", tables, about)


def said(result: Result) -> dict[str, str]:
    return {each.text: each.status for each in lamina.contextualize.findings(result)}


def test_the_best_layer_beside_all_it_is_compared_with():
    told = said(
        scored([0.5, 0.7, 0.6], avg=[0.5, 0.55, 0.5], glove=[0.6], random=[0.3], alone=[0.4, 0.45, 0.4]),
    )
    assert told == {
        "Semantic classes are best told at layer 1: micro-F1 .70 [.68, .72]; the best vectors without context, glove, "
        "reach .60 [.58, .62], random ones .30 [.28, .32].": "clear",
        "At layer 1 one vector per context reaches micro-F1 .70 [.68, .72]; one per word, the average over its "
        "contexts, reaches .55 [.53, .57].": "clear",
        "With the whole text layer 1 reaches micro-F1 .70 [.68, .72]; with the word alone it reaches .45 [.43, .47].":
        "clear",
    }  # fmt: skip


def test_what_overlaps_is_open_and_layers_that_do_not_differ_are_named():
    told = said(scored([0.69, 0.7, 0.6], avg=[0.6, 0.69, 0.6], glove=[0.68]))
    assert list(told.values()) == ["open", "open"]
    assert "at layer 1 (not clearly better than layer 0): micro-F1 .70" in next(iter(told))


def test_missing_numbers_are_not_spoken_of():
    assert said(scored([NAN, NAN])) == {}
    assert said(scored([0.5, NAN], glove=[NAN])) == {}
    result = scored([0.5, 0.7], glove=[0.6])
    assert len(said(replace(result, tables={"sclass": result.tables["sclass"]}))) == 1
    assert said(replace(result, tables={})) == {}


@pytest.mark.parametrize(("seeds", "mean"), [(("0", "all"), ""), (("0", "1", "all"), " (mean of 2 seeds)")])
def test_fine_tuning_is_told_by_what_old_probes_lose(seeds, mean):
    result = scored([0.5, 0.7], glove=[0.6])
    table = [
        ("pos", "all", setup, layer, seed, value, value - 0.01, value + 0.01)
        for setup, values in (("pretrained", (0.5, 0.7)), ("a", (0.5, 0.3)), ("b", (0.5, 0.66)))
        for layer, value in enumerate(values)
        for seed in (seeds if setup != "pretrained" else ("all",))
    ]
    columns = lamina.contextualize.tables["finetuning"].columns
    tuned = replace(result, tables={**result.tables, "finetuning": pd.DataFrame(table, columns=columns)})
    assert said(tuned)[
        f"After fine-tuning for pos{mean}, the old probes reach micro-F1 .30 [.29, .31] at layer 1, before it .70 "
        "[.69, .71]; new probes reach .66 [.65, .67]."
    ] == "clear"  # fmt: skip


def near(by_layer: dict[int, list[list[str]]], separation: list[tuple] = (), examples: int = 0) -> Result:
    """Layer -> the nearest words of each context."""
    listed = [
        ("layer", layer, context, f"s{context}", rank, word, "", 0.5)
        for layer, contexts in by_layer.items()
        for context, words in enumerate(contexts)
        for rank, word in enumerate(words, start=1)
    ]
    tables = {
        "neighbours": pd.DataFrame(listed, columns=list(NEIGHBOURS)).astype({"layer": "Int64", "context": "Int64"}),
        "separation": pd.DataFrame(separation, columns=list(SEPARATION)),
    }
    if examples:
        tables["examples"] = pd.DataFrame({"word": ["bank"] * examples})
    return Result("neighbours", tables, Provenance({"name": "minilm"}, {"name": "ewt", "word": "bank"}, {}))


def test_neighbours_that_come_with_the_context():
    contexts = [[f"{number}{at}" for at in range(2)] for number in range(6)]
    told = lamina.neighbours.findings(near({0: [["a", "b"]] * 6, 3: contexts}))
    assert [(each.text, each.status) for each in told] == [
        ("From layer 0 to layer 3, .00 [.00, .00] of the 2 words nearest to a context of “bank” stay the same; 1.00 "
         "would be no change.", "clear"),
        ("Two contexts of “bank” share .00 [.00, .00] of their nearest words at layer 3; at layer 0 they share 1.00 "
         "[1.00, 1.00].", "clear"),
    ]  # fmt: skip


def test_neighbours_that_stay_are_a_null():
    told = lamina.neighbours.findings(near({0: [["a", "b"]] * 6, 3: [["a", "b"]] * 6}))
    assert [each.status for each in told] == ["null", "null"]


@pytest.mark.parametrize(
    ("silhouette", "examples", "status"), [(0.3, 0, "clear"), (0.04, 0, "open"), (0.12, 0, "clear"), (0.12, 50, "open")]
)
def test_separation_is_clear_above_what_shuffled_classes_reach_at_as_many_looks(silhouette, examples, status):
    separation = [(0, 0.0, -0.02, 0.05, 0.5), (1, silhouette, -0.02, 0.06, 0.5)]
    (told,) = lamina.neighbours.findings(near({}, separation, examples))
    assert told.status == status
    assert f"lie farthest apart at layer 1: silhouette {number(silhouette)}; " in told.text
    assert "with shuffled classes the best of 2 layers" in told.text
    assert ("and 50 words" in told.text) == bool(examples)


def test_a_word_of_one_class_or_one_context_has_nothing_to_say():
    assert lamina.neighbours.findings(near({}, [(0, NAN, NAN, NAN, 0.5)])) == ()
    assert lamina.neighbours.findings(near({0: [["a"]], 3: [["b"]]})) == ()
