"""Every file of a folder is read, or named with the reason why not; no split is made while its file lies unread."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from lamina.cli.main import app
from lamina.corpora import load_corpus
from lamina.corpora.detection import detect, folder_contents
from lamina.corpora.formats.catalogue import get_format
from lamina.corpora.loading import known_splits
from lamina.errors import CorpusError

NER = "Ada B-PER\nLovelace I-PER\nwrote O\n\nShe O\nsleeps O\n"
PTB = "( (S (NP (NNS Dogs)) (VP (VBP bark))) )\n"


def folder_of(tmp_path: Path, files: dict[str, str]) -> Path:
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content)
    return tmp_path


def test_files_of_one_format_are_read_whatever_their_extensions(tmp_path: Path) -> None:
    folder = folder_of(
        tmp_path, {"tweets17train.conll": NER, "emerging.dev.conll": NER, "emerging.test.annotated": NER}
    )

    held = folder_contents(folder, get_format("ner_columns"))

    assert [file.name for file in held.read] == ["emerging.dev.conll", "emerging.test.annotated", "tweets17train.conll"]
    assert not held.unread
    assert load_corpus(folder, "test").made_split is None


def test_a_split_in_place_of_an_extension_is_no_version(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, {"eng.train": NER, "eng.testa": NER, "eng.testb": NER})

    assert len(folder_contents(folder, get_format("ner_columns")).read) == 3
    assert len(load_corpus(folder, "train")) == 2


def test_two_versions_of_a_split_are_not_read_twice(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, {"x.train.iob": NER, "x.dev.iob": NER, "original.dev.bio": NER})

    held = folder_contents(folder, get_format("ner_columns"))

    assert [file.name for file in held.read] == ["x.dev.iob", "x.train.iob"]
    assert [file.name for file in held.unread] == ["original.dev.bio"]


def test_every_other_file_has_a_reason(tmp_path: Path) -> None:
    folder = folder_of(
        tmp_path,
        {
            "a.iob": NER,
            "b.iob": NER,
            "a.bio": NER,
            "trees/c.mrg": PTB,
            "README": "What this is",
            ".hidden": "x",
            "count.py": "print()",
            "weights.bin": "\x00\x01",
            "splits/train.txt": "a\n",
        },
    )

    held = folder_contents(folder, get_format("ner_columns"))

    assert [file.name for file in held.read] == ["a.iob", "b.iob"]
    assert {file.name: left.why for file, left in held.unread.items()} == {
        ".hidden": "it is hidden",
        "README": "it is about the corpus",
        "a.bio": "it has the same name or split as a file that is read: another version of it",
        "c.mrg": "it looks like ptb, and the folder is read as ner_columns",
        "count.py": "it is a program, a page or a setting",
        "train.txt": "it lists the documents of a split",
        "weights.bin": "it is in no format that lamina reads; it holds binary data",
    }
    assert {file.name for file, left in held.unread.items() if left.texts} == {"a.bio", "c.mrg", "weights.bin"}


def test_a_file_of_another_format_with_the_same_extension_is_named_not_misread(tmp_path: Path) -> None:
    edges = json.dumps({"text": "Dogs bark", "targets": [{"span1": [0, 1], "label": "NOUN"}]}) + "\n"
    folder = folder_of(tmp_path, {"a.txt": NER, "b.txt": NER, "c.txt": edges, "d.txt": "Ada\nno tag at all here\n"})

    held = folder_contents(folder, get_format("ner_columns"))

    # What is of no format is read, so that its faults are told.
    assert [file.name for file in held.read] == ["a.txt", "b.txt", "d.txt"]
    assert held.in_words() == "c.txt (it looks like edge_jsonl, and the folder is read as ner_columns)"


@pytest.mark.parametrize("split", ["test", "dev"])
def test_no_split_is_made_while_a_file_named_like_it_lies_unread(tmp_path: Path, split: str) -> None:
    folder = folder_of(tmp_path, {"train.iob": NER, f"{split}.mrg": PTB})
    other = "dev" if split == "test" else "test"

    with pytest.raises(CorpusError, match=rf"{split}\.mrg is named like a split and is not read: it looks like ptb"):
        load_corpus(folder, split, format="ner_columns")
    assert known_splits(folder, "ner_columns") == tuple(one for one in ("train", "dev", "test") if one != split)
    # The other one, of which there is no file, is still made, as if this one were given.
    note = load_corpus(folder, "train", format="ner_columns").made_split
    assert note == "train is 85 % of the documents of the given train, by hash with seed 0", other
    assert len(load_corpus(folder, "all", format="ner_columns")) == 2


def test_unread_files_are_in_provenance_but_not_in_the_fingerprint(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, {"dev.iob": NER})
    before = load_corpus(folder, "dev", format="ner_columns")
    (folder / "more.mrg").write_text(PTB)
    after = load_corpus(folder, "dev", format="ner_columns")

    assert "files_not_read" not in before.describe()
    assert after.describe()["files_not_read"] == {
        "more.mrg": "it looks like ptb, and the folder is read as ner_columns"
    }
    assert after.fingerprint == before.fingerprint


def test_specific_formats_win_over_generic_ones(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, {"dev.mrg": PTB, "novel.txt": "It was a dark night.\n"})

    assert detect(folder).name == "ptb"


def test_data_check_accounts_for_every_file(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, {"x-train.iob": NER, "x-test.iob": NER, "y.mrg": PTB, "README": "About"})

    result = CliRunner().invoke(app, ["data", "check", str(folder), "--format", "ner_columns"])

    assert result.exit_code == 0
    assert result.output.splitlines() == [
        "read as test: x-test.iob",
        "read as train: x-train.iob",
        "not read: README: it is about the corpus",
        "not read: y.mrg: it looks like ptb, and the folder is read as ner_columns",
        "no faults: 4 texts, 10 words, read as ner_columns",
    ]
