"""A treebank in another language, whose tags are not the Penn Treebank's, and all questions about trees."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from lamina.analyses.behaviour.masked_words import TREEBANK_TASKS
from lamina.analyses.heads.corefheads import MentionReader
from lamina.corpora import load_splits
from lamina.corpora.treebanks import with_features
from lamina.types import Edge, Span, Text
from tests import german_treebank
from tests.cli.conftest import Done

COUNTS = {"train": 240, "dev": 120}


@pytest.fixture(scope="module")
def german(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return german_treebank.write(tmp_path_factory.mktemp("banks") / "german", **COUNTS)


def finite_verbs(split: str) -> Counter[str]:
    """Tense -> sentences of the split whose main verb is finite, counted in the rows."""
    roots = [next(word for word in words if word.relation == "root") for _, words in sentences(split)]
    return Counter("past" if "Tense=Past" in root.features else "present" for root in roots if "Fin" in root.features)


def sentences(split: str) -> list[tuple[str, list[german_treebank.Word]]]:
    return list(german_treebank.sentences(split, COUNTS[split]))


def test_order_reads_tense_and_number_from_features(
    run: Callable[..., Done], bert: Path, german: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    few = ("--items", 40, "--steps", 4, "--seeds", 1, "--samples", 10, "--no-twin")
    tasks = ("--task", "tense", "--task", "subject_number", "--task", "index")
    done = run("order", bert, "--corpus", german, "--split", "dev", *tasks, *few, "--out", out)
    assert done.exit_code == 0, done.output
    made = pd.read_csv(out / "tasks.csv")
    assert set(made["task"]) == {"tense", "subject_number", "index"}
    left = made[(made["task"] == "tense") & made["reason"].notna()]
    perfect = COUNTS["dev"] - sum(finite_verbs("dev").values())
    assert perfect == 40
    # Of the training sentences as many are looked at as are needed; of the scored ones, all.
    rows = left[(left["part"] == "scored") & left["reason"].str.contains("not finite")]
    assert rows["left_out"].tolist() == [perfect], left


@pytest.mark.usefixtures("drawn_charts")
def test_heads_and_structure_run_whole(run: Callable[..., Done], bert: Path, german: Path, tmp_path: Path) -> None:
    done = run("heads", bert, "--corpus", german, "--samples", 20, "--out", tmp_path / "heads")
    assert done.exit_code == 0, done.output
    relations = set(pd.read_csv(tmp_path / "heads" / "relations.csv")["relation"])
    assert {"nsubj", "obj", "det", "aux", "advmod"} <= relations
    few = ("--rank", 4, "--layer", 1, "--samples", 10, "--attention", 0, "--no-twin", "--no-control")
    done = run("structure", bert, "--corpus", german, *few, "--out", tmp_path / "structure")
    assert done.exit_code == 0, done.output
    table = pd.read_csv(tmp_path / "structure" / "structure.csv")
    assert table.loc[table["of"] == "model", "value"].notna().all()


def test_masked_words_are_classed_by_features(german: Path) -> None:
    splits = with_features(load_splits(german), german)
    marks = {task.name: Counter[str]() for task in TREEBANK_TASKS}
    for text in splits.scored:
        for task in TREEBANK_TASKS:
            marks[task.name].update(mark.label for mark in task.mark(text).values() if mark.maskable)
    rows = [word for _, words in sentences("dev") for word in words]
    numbers = Counter("plural" if "Plur" in word.features else "singular" for word in rows if word.pos == "NOUN")
    agreeing = Counter("plural" if "Plur" in word.features else "singular" for word in rows if "Fin" in word.features)
    assert marks["number"] == numbers
    assert marks["agreement"] == agreeing
    assert sum(marks["pos"].values()) == len(rows)


def test_a_german_noun_says_nothing_of_its_number() -> None:
    def mention(tags: tuple[str, str, str]) -> str | None:
        edges = {"xpos": tuple(Edge((tag,), Span(at, at + 1)) for at, tag in enumerate(tags))}
        return MentionReader(Text("t", ("die", "Wagen", "fahren"), edges=edges)).read(Span(0, 2)).form.number

    assert mention(("ART", "NN", "VVFIN")) is None
    assert mention(("DT", "NN", "VBP")) == "singular"
