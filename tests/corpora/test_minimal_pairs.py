"""Minimal pairs as suites write them: BLiMP's files, other names of its fields, tables of one's own, and faults."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lamina.corpora.suites.minimal_pairs import MinimalPair, pairs_from, read_pairs
from lamina.errors import CorpusError, FormatError, InputError


def blimp(uid: str, number: int, **other: Any) -> dict[str, Any]:
    """One of BLiMP's lines."""
    return {
        "sentence_good": f"The dogs bark {number} times.",
        "sentence_bad": f"The dogs barks {number} times.",
        "field": "morphology",
        "linguistics_term": "agreement",
        "UID": uid,
        "simple_LM_method": True,
        "pairID": str(number),
    } | other


def write(path: Path, *rows: dict[str, Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_blimp_as_one_file_and_as_one_file_per_paradigm(tmp_path: Path) -> None:
    rows = [blimp(uid, number) for uid in ("plural", "singular") for number in range(3)]
    whole = read_pairs(write(tmp_path / "all.jsonl", *rows))
    write(tmp_path / "parts" / "plural.jsonl", *rows[:3])
    write(tmp_path / "parts" / "singular.jsonl", *rows[3:])
    (tmp_path / "parts" / "SOURCE.txt").write_text("notes")
    parts = read_pairs(tmp_path / "parts")
    assert whole.pairs == parts.pairs
    assert whole.pairs[4] == MinimalPair(
        "1", "morphology", "agreement", "singular", "The dogs bark 1 times.", "The dogs barks 1 times."
    )
    assert (whole.pairs[4].item, whole.paradigms) == ("singular/1", ("plural", "singular"))
    assert list(parts.files) == ["plural.jsonl", "singular.jsonl"]
    assert whole.describe()["pairs"] == 6


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        (
            {"sentence_good": "g", "sentence_bad": "b", "phenomenon": "Aspect", "paradigm": "zai", "pair_ID": 7},
            MinimalPair("7", "-", "Aspect", "zai", "g", "b"),
        ),
        ({"ID": 3, "good_sentence": "g", "bad_sentence": "b"}, MinimalPair("3", "-", "-", "suite", "g", "b")),
        ({"sen": "g", "wrong_sen": "b", "phenomenon": "SV"}, MinimalPair("suite:1", "-", "SV", "SV", "g", "b")),
        ({"Good": " g ", "BAD": "b", "field": ""}, MinimalPair("1", "-", "-", "suite", "g", "b")),
    ],
    ids=["SLING", "JBLiMP", "MultiBLiMP", "own"],
)
def test_other_names_of_the_same_fields(tmp_path: Path, row: dict[str, Any], expected: MinimalPair) -> None:
    assert read_pairs(write(tmp_path / "suite.jsonl", row)).pairs == (expected,)


def test_sentences_with_a_judgement_are_paired_by_item(tmp_path: Path) -> None:
    """As BLiMP-NL writes them; a paradigm's name may serve two phenomena."""
    path = tmp_path / "nl.csv"
    path.write_text(
        "Phenomenon,Paradigm,Item,Grammaticality,Sentence\n"
        "Anaphor,number,1,Ungrammatical,Wij zien mezelf.\nAnaphor,number,1,Grammatical,Ik zie mezelf.\n"
        'Verb,number,1,Grammatical,"Ik zie, dus."\nVerb,number,1,Ungrammatical,"Ik ziet, dus."\n'
    )
    assert [(pair.item, pair.good) for pair in read_pairs(path)] == [
        ("Anaphor: number/1", "Ik zie mezelf."),
        ("Verb: number/1", "Ik zie, dus."),
    ]


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("good\tworse\nA.\tB.\n", "own.tsv:1: no column 'bad' (the columns are: good, worse)"),
        ("A dog.\tA dogs.\nA cat.\tA cats.\n", "own.tsv:1: no column 'good' (the columns are: A dog., A dogs.)"),
        ("good\tbad\nA.\tB.\nC.\tC.\n", "own.tsv:3: both sentences are 'C.'; expected two sentences that differ"),
        ("good\tbad\nA.\tB.\n\tC.\n", "own.tsv:3: the good sentence is empty"),
        (
            "good\tbad\tid\nA.\tB.\t1\nC.\tD.\t1\n",
            "own.tsv:3: a second pair '1' of paradigm 'own' (the first is at line 2)",
        ),
        ("good\tbad\tparadigm\nA.\tB.\tall\n", "own.tsv:2: a paradigm called 'all'"),
        ("good\tbad\nA.\tB.\tC.\nA.\tB.\nD.\tE.\n", "own.tsv:2: 3 columns; expected 2 columns"),
        ("good\tbad\n", "holds no pairs"),
        ("item\tgrammaticality\tsentence\n1\tyes\tA.\n", "own.tsv:2: item 'own/1' has no bad sentence"),
        ("item\tgrammaticality\tsentence\n1\tmaybe\tA.\n", "own.tsv:2: 'maybe' in column 'grammaticality'"),
    ],
    ids=["column", "header", "equal", "empty", "twice", "all", "cells", "nothing", "alone", "judgement"],
)
def test_faults_are_told_with_file_and_line(tmp_path: Path, content: str, sentence: str) -> None:
    path = tmp_path / "own.tsv"
    path.write_text(content)
    with pytest.raises(CorpusError) as told:
        read_pairs(path)
    assert sentence in str(told.value)


def test_equal_pairs_are_left_out_and_counted_where_that_is_asked(tmp_path: Path) -> None:
    path = write(tmp_path / "own.jsonl", blimp("a", 1), blimp("a", 2, sentence_bad="The dogs  bark 2 times."))
    with pytest.raises(FormatError, match="--skip-equal"):
        read_pairs(path)
    suite = read_pairs(path, skip_equal=True)
    assert (len(suite), suite.left_out) == (1, {"pairs whose sentences are equal": 1})


def test_some_pairs_of_each_paradigm_and_some_paradigms(tmp_path: Path) -> None:
    suite = read_pairs(write(tmp_path / "own.jsonl", *(blimp(uid, at) for at in range(4) for uid in ("a", "b"))))
    some = suite.take(1)
    assert [pair.item for pair in some] == ["a/0", "b/0"]
    assert sum(some.left_out.values()) == 6
    assert {len(suite.only(["b"])), len(suite.only(["agreement"]))} == {4, 8}
    assert len({suite.fingerprint, some.fingerprint, suite.take(2).fingerprint, suite.only(["b"]).fingerprint}) == 4
    assert suite.take(9) is suite
    with pytest.raises(InputError, match="has no paradigm, term or field 'c'; it has a, agreement, b, morphology"):
        suite.only(["c"])


def test_files_that_count_a_paradigm_anew_are_told_apart_but_copies_are_refused(tmp_path: Path) -> None:
    write(tmp_path / "x" / "female.jsonl", blimp("plural", 0))
    write(tmp_path / "x" / "male.jsonl", blimp("plural", 0, sentence_good="He barks.", sentence_bad="He bark."))
    assert read_pairs(tmp_path / "x").paradigms == ("plural: female", "plural: male")
    write(tmp_path / "y" / "one.jsonl", blimp("plural", 0))
    write(tmp_path / "y" / "two.jsonl", blimp("plural", 0))
    with pytest.raises(FormatError, match=r"two\.jsonl:1: a second pair '0' .*one\.jsonl:1"):
        read_pairs(tmp_path / "y")


def test_pairs_in_memory_and_unknown_names() -> None:
    with pytest.raises(InputError, match=r"two pairs are called 'p/1'"):
        pairs_from([MinimalPair("1", "-", "-", "p", "A.", "B.")] * 2)
    with pytest.raises(
        CorpusError, match="there is no suite, file or folder 'blimpp'; did you mean blimp\\? Suites by name: blimp"
    ):
        read_pairs("blimpp")
