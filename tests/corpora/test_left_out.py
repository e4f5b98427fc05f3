"""What readers leave out or change is counted, and said by every command that used the texts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

import lamina
from lamina.cli.main import app
from lamina.corpora import Splits, load_corpus, load_questions, load_splits
from lamina.corpora.formats.lines import REPEATED
from lamina.corpora.questions.hotpot import NOWHERE, YES_NO
from lamina.errors import CorpusError
from lamina.testing import TinyEncoder
from lamina.training.reading import apart, load_sets

FACTS = [["A", 0], ["B", 0]]


def item(number: int, answer: str) -> dict[str, object]:
    context = [["A", [f"The cat {number} ran.", " It slept."]], ["B", ["The dog barked.", " It ran."]]]
    return {
        "_id": f"h{number}", "question": "Who ran?", "answer": answer, "context": context, "supporting_facts": FACTS
    }  # fmt: skip


@pytest.fixture
def hotpot(tmp_path: Path) -> Path:
    """Six questions, two of them answered by yes or no, and one whose answer is nowhere."""
    path = tmp_path / "hotpot.json"
    path.write_text(json.dumps([item(n, answer) for n, answer in enumerate(("cat", "yes", "dog", "no", "cow", "dog"))]))
    return path


EXPECTED = {YES_NO: 2, NOWHERE: 1}


@pytest.mark.parametrize(
    ("command", "more"),
    [
        ("phases", {"samples": 5, "twin": False}),
        ("attention", {"samples": 5}),
        ("geometry", {"samples": 5, "twin": False}),
    ],
)
def test_every_command_says_what_was_left_out(hotpot, command, more, tmp_path) -> None:
    result = getattr(lamina, command)(TinyEncoder(), str(hotpot), split="all", store=tmp_path / "store", **more)
    assert {what: result.provenance.skipped.get(what) for what in EXPECTED} == EXPECTED


def test_reading_again_and_in_parts_counts_nothing_twice(hotpot) -> None:
    corpus = load_questions(hotpot, "all")
    for _ in range(2):
        assert [text.id for text in corpus] == ["h0", "h2", "h5"]
        assert [question.text.id for question in corpus.questions()] == ["h0", "h2", "h5"]
    assert corpus.left_out() == EXPECTED
    assert load_questions(hotpot, "all").left_out() == {}, "h0 is the first to be read, and nothing is before it"
    few = load_questions(hotpot, "all", first=2)
    assert len(few) == 2
    assert few.left_out() == {YES_NO: 1}, "what comes before the last of the first"


def test_only_what_is_left_out_of_the_split_counts(tmp_path) -> None:
    path = tmp_path / "hotpot.json"
    path.write_text(json.dumps([item(n, "yes" if n % 3 else "cat") for n in range(60)]))
    counts = []
    for split in ("train", "dev", "test"):
        corpus = load_corpus(path, split)
        list(corpus)
        counts.append(corpus.left_out().get(YES_NO, 0))
    assert sum(counts) == 40
    assert all(counts)


def test_of_two_sets_each_is_named(tmp_path) -> None:
    for split, answers in (("train", ("cat", "yes", "no")), ("dev", ("no", "dog")), ("test", ("dog",))):
        path = tmp_path / f"hotpot_{split}.json"
        path.write_text(json.dumps([item(n + 10 * len(split), answer) for n, answer in enumerate(answers)]))
    splits = load_splits(tmp_path)
    assert isinstance(splits, Splits)
    list(splits.train), list(splits.scored)
    assert splits.left_out() == {f"training: {YES_NO}": 2, f"scored: {YES_NO}": 1}


def test_fine_tuning_names_the_set_and_keeps_what_was_counted(tmp_path) -> None:
    for split in ("train", "dev", "test"):
        path = tmp_path / f"hotpot_{split}.json"
        path.write_text(
            json.dumps([item(n + 10 * len(split + split[0]), a) for n, a in enumerate(("yes", "cat", "dog"))])
        )
    sets = apart(load_sets("hotpot", tmp_path, length=64))
    said = {what: count for what, count in sets.left_out.items() if YES_NO in what}
    assert said == {f"{name}: {YES_NO}": 1 for name in ("training", "selection", "scored")}


def test_data_of_which_every_question_is_left_out_is_refused_with_the_reasons(tmp_path) -> None:
    path = tmp_path / "hotpot.json"
    path.write_text(json.dumps([item(1, "yes"), item(2, "no"), item(3, "cow")]))
    said = rf"every question is left out \({YES_NO}: 2; {NOWHERE}: 1\)"
    for load in (load_corpus, load_questions):
        with pytest.raises(CorpusError, match=said):
            load(path, "all")


def test_counting_a_corpus_says_it(tmp_path) -> None:
    path = tmp_path / "types.txt"
    path.write_text("HUM:ind Who ran ?\nHUM:ind Who ran ?\nHUM:ind Who sat ?\n")
    told = CliRunner().invoke(app, ["data", "stats", str(path), "--split", "all"])
    assert told.exit_code == 0, told.output
    assert f"all: 1 {REPEATED}" in told.output
