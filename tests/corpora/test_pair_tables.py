"""Tables of minimal pairs in the layouts that are common, and under names that a user gives."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lamina.corpora import load_corpus
from lamina.corpora.suites import read_suite
from lamina.corpora.suites.minimal_pairs import read_pairs
from lamina.errors import CorpusError, InputError

KEYS = "the keys that the man lost are on the table <eos>"
TAB = "pattern\tconstr_id\tsent_id\tcorrect_number\tform\tclass\ttype\tlen_prefix\tsent\n"
WSC = "The councilmen refused them a permit because they feared violence."


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        (
            "names.tsv",
            "test case\tgrammatical\tungrammatical\nagr\tIt barks.\tIt bark.\nvp\tThey run.\tThey runs.\n",
            [("agr", "It barks.", "It bark."), ("vp", "They run.", "They runs.")],
        ),
        (
            "judged.csv",
            "name,judgement,sentence\nagr,grammatical,It barks.\nagr,ungrammatical,It bark.\n"
            "vp,ungrammatical,They runs.\nvp,grammatical,They run.\n",
            [("agr", "It barks.", "It bark."), ("vp", "They run.", "They runs.")],
        ),
        (
            "generated.tab",
            f"{TAB}P\t0\t0\tplur\tare\tcorrect\toriginal\t6\t{KEYS}\nP\t0\t0\tplur\tis\twrong\toriginal\t6\t{KEYS}\n",
            [
                (
                    "original",
                    "the keys that the man lost are on the table",
                    "the keys that the man lost is on the table",
                )
            ],
        ),
        (
            "winogrande.jsonl",
            json.dumps({"sentence": "Ann paid Bo since _ sold it.", "option1": "Ann", "option2": "Bo", "answer": "2"}),
            [("winogrande", "Ann paid Bo since Bo sold it.", "Ann paid Bo since Ann sold it.")],
        ),
        (
            "wsc.jsonl",
            json.dumps(
                {"text": WSC, "pronoun": "they", "pronoun_loc": 45, "options": ["The men", "Women"], "label": 0}
            ),
            [("wsc", WSC.replace("they", "the men"), WSC.replace("they", "Women"))],
        ),
        (
            "dpr.txt",
            "The bee sat on the flower because it had pollen.\nit\nThe bee,the flower\nthe flower\n",
            [
                (
                    "dpr",
                    "The bee sat on the flower because the flower had pollen.",
                    "The bee sat on the flower because the bee had pollen.",
                )
            ],
        ),
        (
            "gap.tsv",
            "Text\tPronoun\tPronoun-offset\tA\tA-coref\tB\tB-coref\n"
            "Zoe told Kim that her car was red.\ther\t18\tZoe\tFALSE\tKim\tTRUE\n"
            "Zoe told Kim that she was late.\tshe\t18\tZoe\tFALSE\tKim\tFALSE\n",
            [("gap", "Zoe told Kim that Kim's car was red.", "Zoe told Kim that Zoe's car was red.")],
        ),
    ],
)
def test_common_layouts_are_read(tmp_path: Path, name: str, content: str, expected: list[tuple[str, str, str]]) -> None:
    """Each by what its columns are called and hold."""
    (tmp_path / name).write_text(content)
    suite = read_pairs(tmp_path / name)
    assert [(pair.paradigm, pair.good, pair.bad) for pair in suite] == expected
    assert bool(suite.left_out) == (name in ("gap.tsv", "generated.tab"))


def test_columns_are_what_the_user_says(tmp_path: Path) -> None:
    """Names, of whatever case; what is not used is counted with its name, and the fingerprint has the choice."""
    path = tmp_path / "own.csv"
    path.write_text("Right;Poor;Group;Note\nIt barks.;It bark.;agr;x\nThey run.;They runs.;vp;y\n")
    with pytest.raises(CorpusError, match="--columns good=COLUMN,bad=COLUMN"):
        read_suite(path)
    suite = read_suite(path, columns="good=Right,bad=poor,paradigm=Group")
    assert suite.paradigms == ("agr", "vp")
    assert dict(suite.left_out) == {"columns that are not used: Note": 1}
    assert suite.fingerprint != read_suite(path, columns="good=Right,bad=Poor").fingerprint


@pytest.mark.parametrize(
    ("columns", "sentence"),
    [
        ("good=Right,bad=Wrong", "has no column 'Wrong'; it has Right, Poor"),
        ("nice=Right", "'nice=Right' does not say which column is what; write ROLE=COLUMN with the roles good, bad"),
        ("good", "'good' does not say which column is what"),
    ],
)
def test_columns_that_are_not_there_are_refused(tmp_path: Path, columns: str, sentence: str) -> None:
    """With the columns, or the roles, that there are."""
    path = tmp_path / "own.csv"
    path.write_text("Right,Poor\nIt barks.,It bark.\n")
    with pytest.raises(InputError) as refused:
        read_suite(path, columns=columns)
    assert sentence in str(refused.value)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("", "own.csv is empty; expected TSV, CSV or JSONL"),
        ("sentence,option1,option2,answer\nThe _ ran.,dog,cat,3\n", "own.csv:2: the answer '3' is none of"),
        ("sentence,option1,option2,answer\nA _ and a _ ran.,dog,cat,1\n", "own.csv:2: 2 places for a candidate"),
        ("sentence,option1,option2,answer\nThe _ ran.,dog,Dog,1\n", "own.csv:2: candidates ['dog', 'Dog']"),
        ("sentence,judgement\nIt ran.,good\nShe ran.,good\n", "own.csv:3: item 'own/2' has a second good sentence"),
        ("form,class,sent\nare,correct,they is are\nis,wrong,they is are\n", "is 2 times in the sentence"),
    ],
)
def test_faults_of_layouts_name_the_line(tmp_path: Path, content: str, sentence: str) -> None:
    """What is wrong, and what was expected."""
    path = tmp_path / "own.csv"
    path.write_text(content)
    with pytest.raises(CorpusError) as refused:
        read_suite(path)
    assert sentence in str(refused.value)


def test_a_form_in_a_sentence_is_no_word_of_a_text(tmp_path: Path) -> None:
    """A table with one form per row is not read as texts, of two words each."""
    path = tmp_path / "generated.tab"
    path.write_text(f"{TAB}P\t0\t0\tplur\tare\tcorrect\tx\t6\t{KEYS}\nP\t0\t0\tplur\tis\twrong\tx\t6\t{KEYS}\n")
    with pytest.raises(CorpusError, match="has one word per row, and 'sent' whole sentences"):
        load_corpus(path, "all")


@pytest.mark.parametrize("header", ["", "kind\tright\twrong\n"])
def test_columns_by_number(tmp_path: Path, header: str) -> None:
    path = tmp_path / "own.tsv"
    path.write_text(f"{header}agr\tThe dog barks.\tThe dog bark.\nvp\tThe dogs run.\tThe dogs runs.\n")

    pairs = read_pairs(path, columns="good=2,bad=3,paradigm=1").pairs
    assert [(pair.paradigm, pair.good) for pair in pairs] == [("agr", "The dog barks."), ("vp", "The dogs run.")]
    with pytest.raises(InputError, match="has no column '4'"):
        read_pairs(path, columns="good=2,bad=4")
