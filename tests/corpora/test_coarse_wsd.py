"""CoarseWSD: one folder per word; indices from 0, numbers of senses with names."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lamina.corpora import load_corpus
from lamina.corpora.detection import detect, folder_contents
from lamina.corpora.formats.word_senses import read_coarse_wsd
from lamina.corpora.reading import Fault
from lamina.types import Edge, Span

SENSES = {"0": "mole_mole_(animal)", "1": "mole_mole_(unit)"}


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """Two words, train and test, and a licence."""
    root = tmp_path / "senses"
    put(root, "mole/train.data.txt", "1\ta mole digs\n2\tone whole mole\u00a0of  gas\n")
    put(root, "mole/train.gold.txt", "0\n1\n")
    put(root, "mole/test.data.txt", "0\tmole rats\n")
    put(root, "mole/test.gold.txt", "0")
    put(root, "mole/classes_map.txt", json.dumps(SENSES))
    put(root, "yard_10/train.data.txt", "1\tthe yard\n")
    put(root, "yard_10/train.gold.txt", "1\n")
    put(root, "yard_10/classes_map.txt", json.dumps({"0": "yard_yard", "1": "yard_yard_(sailing)"}))
    put(root, "LICENSE", "CC\n")
    return root


def put(root: Path, name: str, content: str) -> Path:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content, encoding="utf-8")
    return path


def faults_of(path: Path) -> list[Fault]:
    faults: list[Fault] = []
    list(read_coarse_wsd(path, faults.append))
    return faults


def test_a_folder_of_words_is_one_corpus(corpus: Path) -> None:
    assert detect(corpus).name == "coarse_wsd"
    texts = {text.id: text for text in load_corpus(corpus, "all")}
    assert texts["mole-train-1"].edges == {"sense": (Edge(("mole%mole_(animal)",), Span(1, 2)),)}
    # Words are separated by any white space, as the set's authors count them.
    assert texts["mole-train-2"].words == ("one", "whole", "mole", "of", "gas")
    assert texts["yard_10-train-1"].edges["sense"][0].labels == ("yard%yard_(sailing)",)
    assert [text.id for text in load_corpus(corpus, "test")] == ["mole-test-1"]
    held = folder_contents(corpus, detect(corpus))
    assert [path.name for path in held.unread] == ["LICENSE"]


def test_senses_without_names_keep_their_numbers(corpus: Path) -> None:
    (corpus / "mole/classes_map.txt").unlink()
    labels = [text.edges["sense"][0].labels for text in read_coarse_wsd(corpus / "mole/train.data.txt")]
    assert labels == [("mole%0",), ("mole%1",)]


def test_out_of_domain_rows_are_read_too(tmp_path: Path) -> None:
    path = put(tmp_path, "outofdomain.tsv", "club\tclub_club_(weapon)\t2\tA heavy club .\n")
    assert detect(path).name == "coarse_wsd"
    (text,) = read_coarse_wsd(path)
    assert text.edges["sense"] == (Edge(("club%club_(weapon)",), Span(2, 3)),)


@pytest.mark.parametrize(
    ("name", "content", "where", "what"),
    [
        ("train.data.txt", "1\ta mole digs\n9\tone mole\n", ("train.data.txt", 2), "index '9' in 2 words"),
        ("train.data.txt", "1\ta mole digs\nmole\n", ("train.data.txt", 2), "index 'mole' in 0 words"),
        ("train.data.txt", f"1\ta mole digs\n{'9' * 5000}\ta mole\n", ("train.data.txt", 2), "index '9999"),
        ("train.gold.txt", "0\n", ("train.gold.txt", 2), "no sense"),
        ("train.gold.txt", "0\n7\n", ("train.gold.txt", 2), "sense '7', which classes_map.txt does not name"),
        ("classes_map.txt", "{", ("classes_map.txt", 1), "cannot be read"),
        ("classes_map.txt", '["mole"]', ("classes_map.txt", 1), "not a list of senses"),
    ],
)
def test_faults_say_which_line(corpus: Path, name: str, content: str, where: tuple[str, int], what: str) -> None:
    put(corpus, f"mole/{name}", content)
    (fault,) = faults_of(corpus / "mole/train.data.txt")
    assert (fault.path.name, fault.line) == where
    assert fault.what.startswith(what)


def test_missing_senses_are_a_fault(corpus: Path) -> None:
    (corpus / "mole/train.gold.txt").unlink()
    (fault,) = faults_of(corpus / "mole/train.data.txt")
    assert (fault.path.name, fault.what) == ("train.gold.txt", "file not found")
