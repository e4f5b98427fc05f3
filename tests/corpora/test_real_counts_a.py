"""Real corpora, with the counts that their SOURCE.txt gives."""

from __future__ import annotations

from pathlib import Path

import pytest

from lamina.corpora import load_splits
from lamina.corpora.formats import conllu, gum, ner_columns, propbank
from lamina.corpora.splits import divide
from lamina.types import Text

pytestmark = pytest.mark.data

Splits = dict[str, list[Text]]


def present(folder: Path) -> Path:
    if not folder.is_dir():
        pytest.skip(f"no {folder.name} beside the other corpora")
    return folder


def count(texts: list[Text], annotation: str) -> int:
    return sum(len(text.edges[annotation]) for text in texts)


def sizes(splits: Splits) -> dict[str, tuple[int, int]]:
    return {split: (len(texts), sum(len(text.words) for text in texts)) for split, texts in splits.items()}


@pytest.fixture(scope="module")
def ewt(data_dir: Path) -> Splits:
    folder = present(data_dir / "ud_english_ewt")
    return {split: list(conllu.read(folder / f"en_ewt-ud-{split}.conllu")) for split in ("train", "dev", "test")}


@pytest.fixture(scope="module")
def gum_open(data_dir: Path) -> Splits:
    folder = present(data_dir / "gum_open")
    return {split: list(gum.read(folder, split=split)) for split in ("train", "dev", "test")}


def test_ewt(ewt: Splits) -> None:
    assert sizes(ewt) == {"train": (6569, 106_715), "dev": (2001, 25_147), "test": (2077, 25_094)}
    assert len({text.doc for text in ewt["train"]}) == 270
    for texts in ewt.values():
        assert count(texts, "pos") == count(texts, "dep") == sum(len(text.words) for text in texts)
        roots = [edge for text in texts for edge in text.edges["dep"] if edge.labels == ("root",)]
        assert len(roots) == len(texts)
        assert all(edge.span == edge.other for edge in roots)


def test_gum(gum_open: Splits) -> None:
    assert sizes(gum_open) == {"train": (5931, 115_936), "dev": (693, 16_241), "test": (744, 16_441)}
    assert {split: len({text.doc for text in texts}) for split, texts in gum_open.items()} == {
        "train": 117,
        "dev": 18,
        "test": 18,
    }
    entities = {split: count(texts, "ner") for split, texts in gum_open.items()}
    assert entities == {"train": 33_308, "dev": 4544, "test": 4678}


def test_gum_coreference(gum_open: Splits) -> None:
    texts = [text for texts in gum_open.values() for text in texts]
    assert count(texts, "chains") == 18_496
    assert len({(text.doc, edge.labels) for text in texts for edge in text.edges["chains"]}) == 4440
    # GUM's own scheme has the mentions of Entity=, singletons included.
    for text in texts:
        assert sorted(edge.span for edge in text.edges["chains_gum"]) == sorted(edge.span for edge in text.edges["ner"])


def test_gum_trees(gum_open: Splits) -> None:
    labels = {edge.labels[0] for text in gum_open["dev"] for edge in text.edges["const"]}
    assert {"S", "NP-SBJ", "VP"} < labels
    assert not labels & {"ROOT", "-NONE-", ""}


@pytest.mark.parametrize(
    ("split", "sentences", "predicates", "arguments"),
    [("train", 6544, 20_995, 42_009), ("dev", 1963, 4960, 9576), ("test", 2054, 4795, 9337)],
)
def test_propbank(data_dir: Path, ewt: Splits, split: str, sentences: int, predicates: int, arguments: int) -> None:
    """SOURCE.txt counts arguments without V. It counts predicates without arguments too, which make no edge."""
    path = present(data_dir / "propbank_ewt") / f"ewt_srl_const.{split}.jsonl"
    assert propbank.looks_like(path)
    texts = list(propbank.read(path))
    assert (len(texts), count(texts, "srl")) == (sentences, arguments)
    assert path.read_text(encoding="utf-8").count('"roleset"') == predicates
    # The treebank names its documents apart from its sentences.
    documents = {text.id: text.doc for text in ewt[split]}
    assert [text.doc for text in texts] == [documents[text.id] for text in texts]


def test_stopping_shares_no_document_with_training_on_propbank(data_dir: Path) -> None:
    splits = load_splits(present(data_dir / "propbank_ewt"), first=1500)
    documents = [text.doc for text in splits.train]
    division = divide(splits, seed=0)
    learn, stop = ({documents[number] for number in numbers} for numbers in (division.learn, division.stop))
    assert None not in learn | stop
    assert not learn & stop


@pytest.mark.parametrize(("split", "entities"), [("dev", 966), ("test", 1088)])
def test_uner(data_dir: Path, ewt: Splits, split: str, entities: int) -> None:
    path = present(data_dir / "uner_english_ewt") / f"en_ewt-ud-{split}.iob2"
    texts = list(ner_columns.read(path))
    assert count(texts, "ner") == entities
    # The same sentences in another order, three of each split with other words: UNER is of an older treebank.
    words = {text.id: text.words for text in ewt[split]}
    assert {text.id for text in texts} == words.keys()
    assert sum(words[text.id] != text.words for text in texts) == 3
    assert {edge.labels[0] for text in texts for edge in text.edges["ner"]} == {"PER", "ORG", "LOC"}
