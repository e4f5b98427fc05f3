"""Texts and labels in two files, line by line."""

from __future__ import annotations

from pathlib import Path

import pytest

from lamina.corpora import load_corpus
from lamina.corpora.detection import detect
from lamina.errors import CorpusError, FormatError


def test_a_folder_of_texts_labels_and_class_names(tmp_path: Path) -> None:
    for split in ("train", "val"):
        (tmp_path / f"{split}_text.txt").write_text(f"The {split} dogs bark \nCats mew, too\n")
        (tmp_path / f"{split}_labels.txt").write_text("1\n0\n")
    (tmp_path / "mapping.txt").write_text("0\tcat\n1\tdog\n")

    corpus = load_corpus(tmp_path, "dev")

    assert [text.edges["label"][0].labels for text in corpus] == [("dog",), ("cat",)]
    assert next(iter(corpus)).words == ("The", "val", "dogs", "bark")
    assert set(corpus.files) == {"val_text.txt", "val_labels.txt", "mapping.txt"}
    assert not corpus.unread


def test_words_with_tags_and_a_class(tmp_path: Path) -> None:
    (tmp_path / "seq.in").write_text("fly to new-york now\nstop now\nfly now\n")
    (tmp_path / "seq.out").write_text("O O B-city O\nO O\nO O\n")
    (tmp_path / "label").write_text("flight\nstop\nflight\n")

    first = next(iter(load_corpus(tmp_path, "all")))

    assert first.words == ("fly", "to", "new-york", "now")
    assert [edge.labels[0] for edge in first.edges["tags"]] == ["O", "O", "B-city", "O"]
    assert first.edges["label"][0].labels == ("flight",)


def test_files_of_different_length_are_no_pair(tmp_path: Path) -> None:
    text, labels = tmp_path / "text.txt", tmp_path / "labels.txt"
    text.write_text("Dogs bark\nCats mew\nCows moo\n")
    labels.write_text("1\n0\n")

    assert detect(text).name == "plain"
    with pytest.raises(FormatError, match=r"text\.txt:3: labels\.txt ends before this line; expected as many labels"):
        list(load_corpus(text, "all", format="parallel"))
    with pytest.raises(CorpusError, match="a list of numbers, such as the labels"):
        detect(labels)
