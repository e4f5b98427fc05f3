"""Traces and revisions from the files of a probing result: any text by its id, and every decision of every probe."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lamina.analyses.layers.probe.predictions import SavedPredictions, TraceRow
from lamina.analyses.layers.trace import trace
from lamina.errors import InputError, ResultError
from lamina.framework.declare import Overview
from lamina.results import Provenance, Result

TAGS = ("NOUN", "VERB", "X")
WORDS = {"s1": ["Dogs", "bark"], "s2": ["He", "ran"], "s3": ["Yes"]}
QUICK = {"samples": 20, "shuffles": 19}


def predictions(
    path: Path,
    targets: Sequence[tuple],
    told: np.ndarray,
    labels: Sequence[str] = TAGS,
    corpus: str | None = "toy",
    probes: Sequence[str] = ("cumulative", "layer"),
    **more: list,
) -> Path:
    """Targets are (text id, first span, second span or None, gold labels); `told` is [seed, layer, target, label].

    Probes of single layers say the opposite: whoever reads them gets it wrong.
    """
    columns = ["text_id", "start1", "end1", "start2", "end2", "gold", "unseen"]
    fixed = [
        (text, *one, *(other or (None, None)), list(gold), sum(label not in labels for label in gold))
        for text, one, other, gold in targets
    ]
    table = pd.DataFrame(fixed, columns=columns).assign(**more).to_dict("list")
    parts = []
    for probe in probes:
        for seed, layer in np.ndindex(told.shape[:2]):
            own = told[seed, layer] if probe == "cumulative" else 1 - told[seed, layer]
            about = {"probe": probe, "seed": seed, "layer": layer}
            repeated = {name: [value] * len(targets) for name, value in about.items()}
            parts.append({**table, **repeated, "probabilities": own.tolist()})
    names = list(parts[0])
    whole = {name: [value for part in parts for value in part[name]] for name in names}
    types = {name: pa.int32() for name in ("start1", "end1", "start2", "end2", "unseen", "seed", "layer")}
    types |= {"probabilities": pa.list_(pa.float32()), "gold": pa.list_(pa.string()), "scored": pa.list_(pa.bool_())}
    arrays = {name: pa.array(_whole(values), types.get(name)) for name, values in whole.items()}
    head = {"task": path.name.split(".")[0], "labels": list(labels)} | ({"corpus": corpus} if corpus else {})
    pq.write_table(pa.table(arrays).replace_schema_metadata({"lamina": json.dumps(head)}), path)
    return path


def _whole(values: list) -> list:
    """What pandas made of missing numbers and of whole ones beside them."""
    plain = [None if isinstance(each, float) and np.isnan(each) else each for each in values]
    return [int(each) if isinstance(each, float) and each.is_integer() else each for each in plain]


def texts(path: Path, rows: Sequence[tuple[str, str]]) -> Path:
    columns = {"corpus": [corpus for corpus, _ in rows], "text_id": [text for _, text in rows]}
    pq.write_table(pa.table({**columns, "doc": ["d"] * len(rows), "words": [WORDS[text] for _, text in rows]}), path)
    return path


POS = [("s1", (0, 1), None, ["NOUN"]), ("s1", (1, 2), None, ["VERB"]), ("s2", (0, 1), None, ["X"])]
SURE, DOUBT = [0.1, 0.8, 0.2], [0.6, 0.4, 0.45]
# [seed, layer, target, label]: the first target is mended at layer 1, the third spoiled at layer 1.
TOLD = np.array([[[DOUBT[::-1], SURE, [0.1, 0.2, 0.3]], [DOUBT, SURE, [0.1, 0.7, 0.3]]]] * 2)
DEP = [("s1", (0, 1), (1, 2), ["nsubj"])]


@pytest.fixture
def probed(tmp_path: Path) -> Callable[..., Result]:
    """A probing result of part of speech and dependencies, as far as traces read it."""

    def make(tables: dict[str, pd.DataFrame] | None = None, **files: Path) -> Result:
        made = {
            "pos.predictions.parquet": predictions(tmp_path / "pos.predictions.parquet", POS, TOLD),
            "dep.predictions.parquet": predictions(
                tmp_path / "dep.predictions.parquet",
                DEP,
                np.array([[[[0.3, 0.4]], [[0.8, 0.1]]]] * 2),
                ("nsubj", "obj"),
            ),
            "texts.parquet": texts(tmp_path / "texts.parquet", [("toy", text) for text in WORDS]),
        }
        named = {
            f"{name}.predictions.parquet" if name != "texts" else "texts.parquet": at for name, at in files.items()
        }
        about = {"name": "tiny", "fingerprint": "f"}, {"name": "toy", "split": "dev", "fingerprint": "c"}
        return Result("probe", tables or {}, Provenance(*about, {}, (0, 1)), made | named)

    return make


def test_a_single_label_is_the_most_probable_one_whatever_its_probability(tmp_path) -> None:
    saved = SavedPredictions(predictions(tmp_path / "pos.predictions.parquet", POS, TOLD), "other")
    made = saved.decisions()

    assert (saved.task, saved.corpus, saved.seeds, saved.layers, saved.reason) == ("pos", "toy", (0, 1), 2, "")
    assert made.targets.texts == ("s1", "s2")
    assert made.targets.text.tolist() == [0, 0, 1]
    assert made.targets.words.tolist() == [[[0, 1]], [[1, 2]], [[0, 1]]]
    assert np.unpackbits(made.labels_given, axis=-1, count=3).argmax(-1).tolist() == [[[2, 1, 2], [0, 1, 1]]] * 2
    assert made.right.tolist() == [[[False, True, True], [True, True, False]]] * 2


def test_several_labels_are_those_of_at_least_one_half_among_the_rated(tmp_path) -> None:
    targets = [("s1", (0, 1), (1, 2), ["a", "b"]), ("s2", (0, 1), (1, 2), [])]
    told = np.array([[[[0.5, 0.4, 0.9], [0.4, 0.1, 0.2]], [[0.6, 0.7, 0.9], [0.6, 0.1, 0.2]]]])
    rated = [[True, True, False], None]
    path = predictions(tmp_path / "spr.predictions.parquet", targets, told, ("a", "b", "c"), scored=rated)
    made = SavedPredictions(path, "toy").decisions()

    # c was not rated for the first target; where there is no list, all labels were.
    assert np.unpackbits(made.labels_given, axis=-1, count=3)[0].tolist() == [
        [[1, 0, 0], [0, 0, 0]],
        [[1, 1, 0], [1, 0, 0]],
    ]
    assert made.right[0].tolist() == [[False, True], [True, False]]
    assert made.targets.words.tolist() == [[[0, 1], [1, 2]]] * 2


def test_no_probe_is_right_about_a_label_it_never_saw(tmp_path) -> None:
    path = predictions(tmp_path / "pos.predictions.parquet", [("s1", (0, 1), None, ["INTJ"])], TOLD[:, :, :1])

    assert not SavedPredictions(path, "toy").decisions().right.any()


def test_older_predictions_name_neither_their_probe_nor_their_corpus(tmp_path) -> None:
    path = predictions(tmp_path / "pos.predictions.parquet", POS, TOLD, corpus=None, probes=("cumulative",))
    pq.write_table(pq.read_table(path).drop_columns(["probe"]), path)
    saved = SavedPredictions(path, "ewt")

    assert saved.corpus == "ewt"
    assert saved.decisions().right.mean() == pytest.approx(2 / 3)


def test_a_file_that_is_no_table_of_predictions_is_told(tmp_path) -> None:
    path = tmp_path / "pos.predictions.parquet"
    for content in (b"", b"PAR1 and no more"):
        path.write_bytes(content)
        with pytest.raises(ResultError, match=r"holds no predictions that can be read .*probe again"):
            SavedPredictions(path, "toy")


def test_a_text_is_shown_by_its_id_with_all_targets_of_all_tasks(probed) -> None:
    result = trace(probed(), texts=["s2", "s1"])
    table = result.tables["traces"]

    assert list(table.columns) == list(TraceRow._fields)
    shown = table[table["seed"] == 0].drop_duplicates(["text_id", "task", "span1", "label"])
    assert shown[["text_id", "task", "span1", "span2", "label", "gold"]].to_numpy().tolist() == [
        ["s2", "pos", "0:1", "", "X", True],
        ["s2", "pos", "0:1", "", "VERB", False],
        ["s1", "pos", "0:1", "", "NOUN", True],
        ["s1", "pos", "0:1", "", "X", False],
        ["s1", "pos", "1:2", "", "VERB", True],
        ["s1", "pos", "1:2", "", "X", False],
        ["s1", "dep", "0:1", "1:2", "nsubj", True],
        ["s1", "dep", "0:1", "1:2", "obj", False],
    ]
    series = table[(table["task"] == "dep") & (table["label"] == "nsubj") & (table["seed"] == 1)]
    assert series["probability"].tolist() == pytest.approx([0.3, 0.8])
    assert result.tables["words"]["word"].tolist() == ["He", "ran", "Dogs", "bark"]
    assert "revisions" not in result.tables
    assert "0:Dogs 1:bark" in list(trace.overview(result))


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ("s11", "there is no scored text 's11' in the result; did you mean s1"),
        ("newsgroup-0001", "no scored text 'newsgroup-0001' in the result; ids look like s1"),
        ("s3", "no task has a target in s3"),
    ],
)
def test_a_text_that_cannot_be_shown_is_told(probed, asked, why) -> None:
    with pytest.raises(InputError, match=why):
        trace(probed(), texts=[asked])


def test_a_text_and_a_sentence_are_two_questions(probed) -> None:
    with pytest.raises(InputError, match="--text names a sentence of the corpus; leave it out"):
        trace(probed(), "a dog", texts=["s1"])


def test_without_its_texts_a_result_shows_none_by_id(probed) -> None:
    whole = probed()
    bare = Result("probe", {}, whole.provenance, {name: at for name, at in whole.files.items() if "texts" not in name})
    with pytest.raises(ResultError, match="does not hold its texts: it was made by an older lamina; probe again"):
        trace(bare, texts=["s1"])


def test_an_id_of_two_corpora_is_named_with_its_corpus(probed, tmp_path) -> None:
    other = predictions(tmp_path / "ner.predictions.parquet", POS[:1], TOLD[:, :, :1], corpus="gum")
    both = texts(tmp_path / "both.parquet", [("toy", "s1"), ("toy", "s2"), ("gum", "s1")])
    result = probed(ner=other, texts=both)

    with pytest.raises(
        InputError, match="several corpora have a text 's1'; name one of them as --text toy:s1 or gum:s1"
    ):
        trace(result, texts=["s1"])
    table = trace(result, texts=["gum:s1", "s2"]).tables["traces"]
    assert set(zip(table["text_id"], table["task"], strict=True)) == {("gum:s1", "ner"), ("s2", "pos")}


def test_revisions_are_counted_from_the_saved_predictions(probed) -> None:
    result = trace(probed(), **QUICK)
    table = result.tables["revisions"]
    pos, dep = (table[(table["task"] == task) & (table["layer"] == 1)].to_dict("records")[0] for task in ("pos", "dep"))

    assert result.tables["traces"].empty
    assert pos["revised"] == pytest.approx(2 / 3)
    assert (pos["mended"], pos["spoiled"]) == (0.5, 0.5)
    assert dep["revised"] == 1
    pairs = result.tables["revised_after"]
    assert pairs.loc[pairs["measure"] == "same_layer", ["pairs", "observed"]].to_numpy().tolist() == [[1, 1]]
    own, both = trace.overview(result)
    assert isinstance(own, Overview)
    assert isinstance(both, Overview)
    assert own.rows[0][:2] == ("pos", 3)
    assert both.columns[:2] == ("task", "after")
    assert result.findings


def test_what_has_not_converged_or_has_no_labels_is_left_out_and_said(probed, tmp_path) -> None:
    graded = predictions(
        tmp_path / "fact.predictions.parquet", POS[:1], np.full((1, 2, 1, 1), 0.5), ["value"], value=[1.5]
    )
    mixed = predictions(tmp_path / "mix.predictions.parquet", POS, TOLD[:, :1])
    training = pd.DataFrame(
        [
            ("pos", "model", "cumulative", True),
            # Neither is asked: the twin, and a probe of a single layer.
            ("pos", "random", "cumulative", False),
            ("pos", "model", "layer", False),
            ("dep", "model", "cumulative", False),
        ],
        columns=["task", "of", "probe", "converged"],
    )
    result = trace(probed({"training": training}, fact=graded, mix=mixed), **QUICK)

    assert result.tables["revisions"]["task"].unique().tolist() == ["pos"]
    assert result.tables["revised_after"].empty
    assert result.provenance.skipped == {
        "task without revisions: dep (probes that have not converged)": 1,
        "task without revisions: fact (graded values, nothing to decide between)": 1,
        "task without revisions: mix (no probes P(0)..P(L))": 1,
    }
    by_id = trace(probed(fact=graded), texts=["s1"])
    assert list(by_id.provenance.skipped) == ["task without traces: fact (graded values, nothing to decide between)"]
