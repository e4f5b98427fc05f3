"""Formats told from content."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from lamina.corpora.detection import detect, folder_contents
from lamina.corpora.formats.catalogue import FORMATS, get_format
from lamina.errors import CorpusError

NER = "Ada B-PER\nLovelace I-PER\nwrote O\n"
PTB = "( (S (NP (NNS Dogs)) (VP (VBP bark))) )\n"
EDGES = json.dumps({"text": "Dogs bark", "targets": [{"span1": [0, 1], "label": "NOUN"}]}) + "\n"
STREUSLE = json.dumps({"sent_id": "s", "tokens": ["Dogs"], "exprs": [[0, 1, "N", "n.ANIMAL", None]]}) + "\n"
SQUAD = json.dumps({"version": "1.1", "data": [{"title": "T", "paragraphs": [{"context": "C", "qas": []}]}]})
HOTPOT = json.dumps([{"question": "Q?", "answer": "A", "context": [], "supporting_facts": []}])
BABI = "1 Mary went home.\n2 Where is Mary? \thome\t1\n"
TREC = "DESC:manner How did it end ?\nHUM:ind Who was it ?\n"
SEMEVAL = '1\t"The <e1>dog</e1> has a <e2>tail</e2>."\nComponent-Whole(e2,e1)\nComment:\n\n'


@pytest.mark.parametrize(
    ("content", "name"),
    [
        (NER, "ner_columns"),
        (PTB, "ptb"),
        (EDGES, "edge_jsonl"),
        (STREUSLE, "streusle"),
        (SEMEVAL, "semeval"),
        (SQUAD, "squad"),
        (HOTPOT, "hotpot"),
        (BABI, "babi"),
        (TREC, "trec"),
    ],
)
def test_content_tells_the_format(tmp_path: Path, content: str, name: str) -> None:
    path = tmp_path / "anything.txt"
    path.write_text(content)

    assert detect(path).name == name


def test_conllu_and_text(tmp_path: Path, treebank: Callable[..., str]) -> None:
    (tmp_path / "trees").write_text(treebank("s1"))
    (tmp_path / "novel.txt").write_text("It was a dark night.\n")

    assert detect(tmp_path / "trees").name == "conllu"
    assert detect(tmp_path / "novel.txt").name == "plain"


def test_what_cannot_be_told_is_said(tmp_path: Path) -> None:
    path = tmp_path / "blob.bin"
    path.write_bytes(bytes(range(256)))

    with pytest.raises(CorpusError, match=r"blob.bin holds binary data; no reader of lamina fits: save the texts as"):
        detect(path)


def test_a_file_in_another_encoding_is_read_after_the_command_that_is_advised(tmp_path: Path) -> None:
    path = tmp_path / "own.csv"
    path.write_text("text,label\nDogs bark,a\nCats mew,b\nCows moo,a\n", encoding="utf-16")

    with pytest.raises(CorpusError, match=r"`(iconv -f UTF-16 -t UTF-8) OLD > NEW` converts it") as error:
        detect(path)
    words = str(error.value).split("`")[1].split()[:5]
    converted = subprocess.run([*words, path], capture_output=True, check=True).stdout
    path.write_bytes(converted)
    assert detect(path).name == "table"


def test_a_table_whose_lines_have_different_columns_names_them(tmp_path: Path) -> None:
    path = tmp_path / "own.csv"
    path.write_text("text,label\n" + "'Dogs, too, bark',a\n" * 5)

    with pytest.raises(CorpusError, match=r"line 1 has 2 columns separated by commas and line 2 has 4; put cells"):
        detect(path)
    path.write_text(path.read_text().replace("'", '"'))
    assert detect(path).name == "table"


def test_a_folder_of_two_formats_names_them(tmp_path: Path) -> None:
    (tmp_path / "a.iob").write_text(NER)
    (tmp_path / "b.mrg").write_text(PTB)

    with pytest.raises(CorpusError, match=r"several formats: ner_columns, ptb; choose one with --format"):
        detect(tmp_path)
    assert [path.name for path in folder_contents(tmp_path, get_format("ptb")).read] == ["b.mrg"]


def test_notes_beside_a_corpus_are_no_corpus(tmp_path: Path) -> None:
    (tmp_path / "wsj").mkdir()
    for number in (2, 1):
        (tmp_path / "wsj" / f"wsj_000{number}.mrg").write_text(PTB)
    (tmp_path / "documents.txt").write_text("a list of documents\n")
    (tmp_path / "README.txt").write_text("What this is\n")
    (tmp_path / ".hidden.iob").write_text(NER)

    assert detect(tmp_path).name == "ptb"
    assert [path.name for path in folder_contents(tmp_path, get_format("ptb")).read] == ["wsj_0001.mrg", "wsj_0002.mrg"]


def test_two_versions_of_the_same_texts_are_not_read_twice(tmp_path: Path) -> None:
    (tmp_path / "dev.iob").write_text(NER)
    (tmp_path / "dev.bio").write_text(NER)
    with pytest.raises(CorpusError, match=r"ending in \.bio and \.iob"):
        folder_contents(tmp_path, get_format("ner_columns"))

    (tmp_path / "test.iob").write_text(NER)
    assert [path.name for path in folder_contents(tmp_path, get_format("ner_columns")).read] == ["dev.iob", "test.iob"]


def test_a_format_insisted_on_is_tried_on_everything(tmp_path: Path) -> None:
    (tmp_path / "novel.txt").write_text("It was a dark night.\n")

    assert [path.name for path in folder_contents(tmp_path, get_format("conllu")).read] == ["novel.txt"]


def test_a_gum_folder_is_told_before_its_parts(tmp_path: Path, treebank: Callable[..., str]) -> None:
    (tmp_path / "dep").mkdir()
    (tmp_path / "const").mkdir()
    (tmp_path / "dep" / "GUM_one.conllu").write_text(treebank("s1", doc="GUM_one"))
    (tmp_path / "const" / "GUM_one.ptb").write_text(PTB)

    form = detect(tmp_path)

    assert form.name == "gum"
    assert [path.name for path in folder_contents(tmp_path, form).read] == ["GUM_one.conllu"]
    assert [path.name for path in form.companions(tmp_path / "dep" / "GUM_one.conllu")] == ["GUM_one.ptb"]


def test_names_are_unique_and_found() -> None:
    assert len({form.name for form in FORMATS}) == len(FORMATS)
    assert all(get_format(form.name) is form for form in FORMATS)
    with pytest.raises(CorpusError, match="did you mean conllu"):
        get_format("conll-u")
