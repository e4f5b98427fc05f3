"""The catalogue: every entry can be read, and holds what its source says it holds."""

from __future__ import annotations

from pathlib import Path

import pytest

from lamina.assets import cards
from lamina.corpora import load_corpus
from lamina.corpora.catalogue import CATALOGUE, get_entry, names
from lamina.corpora.counting import Counts
from lamina.corpora.formats import get_format
from lamina.corpora.loading import find_source, splits_of

COUNTS = {
    "ud_english_ewt": {
        "train": (6569, {"pos": 106715, "dep": 106715}),
        "dev": (2001, {"pos": 25147}),
        "test": (2077, {"pos": 25094}),
    },
    "gum_open": {"dev": (693, {"pos": 16241, "ner": 4544}), "test": (744, {"pos": 16441, "ner": 4678})},
    "propbank_ewt": {
        "train": (6544, {"srl": 42009}),
        "dev": (1963, {"srl": 9576}),
        "test": (2054, {"srl": 9337}),
    },
    "uds_protoroles": {"train": (2191, {"spr": 5669}), "dev": (291, {"spr": 751}), "test": (276, {"spr": 670})},
    "uds_wordsense_factuality": {
        "train": (5103, {"supersense": 8548, "factuality": 11440}),
        "dev": (1358, {"supersense": 1850, "factuality": 2646}),
        "test": (1328, {"supersense": 1793, "factuality": 2548}),
    },
    "streusle": {"train": (2304, {"supersense_prep": 3418}), "dev": (498, {}), "test": (474, {})},
    "uner_english_ewt": {"dev": (2001, {"ner": 966}), "test": (2077, {"ner": 1088})},
    "semeval2010_task8": {"test": (2717, {"rel": 2717}), "all": (10717, {"rel": 10717})},
    "gap_coreference": {"train": (2000, {"coref": 4000}), "dev": (454, {"coref": 908}), "test": (2000, {})},
    "wikitext2": {"dev": (2461, {}), "test": (2891, {})},
}
"""Corpus -> split -> texts and targets, as each folder's SOURCE.txt counts them."""


def test_every_entry_has_a_card_and_a_format() -> None:
    assert len(set(names())) == len(CATALOGUE)
    for entry in CATALOGUE:
        assert cards()[entry.name].kind == "corpus"
        assert get_format(entry.format).name == entry.format
        assert set(entry.splits) <= {"train", "dev", "test"}
    assert get_entry("nothing") is None


@pytest.mark.data
@pytest.mark.parametrize(("name", "split"), [(name, split) for name, found in COUNTS.items() for split in found])
def test_counts_are_those_of_the_source(
    name: str, split: str, data_dir: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAMINA_DATA", str(data_dir))
    texts, targets = COUNTS[name][split]
    corpus = load_corpus(name, split)

    counts = Counts()
    for text in corpus:
        counts.add(text)

    assert counts.texts == len(corpus) == texts
    assert {annotation: counts.targets[annotation] for annotation in targets} == targets
    assert set(corpus.annotations) == set(counts.labels)
    assert corpus.made_split is None


@pytest.mark.data
def test_semeval_gets_a_dev_of_its_train(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAMINA_DATA", str(data_dir))
    train, dev = load_corpus("semeval2010_task8", "train"), load_corpus("semeval2010_task8", "dev")

    assert len(train) + len(dev) == 8000
    assert len(dev) == pytest.approx(1200, abs=60)
    assert not {text.id for text in train} & {text.id for text in dev}
    assert "15 %" in (dev.made_split or "")


@pytest.mark.data
def test_onto_gum_has_its_chains_whole(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """4,440 chains and 18,496 mentions, as the source counts them; documents are one text each."""
    monkeypatch.setenv("LAMINA_DATA", str(data_dir))
    corpus = load_corpus("gum_open", "all", unit="document")
    chains = [{edge.labels for edge in text.edges["chains"]} for text in corpus]

    assert len(chains) == 153
    assert sum(map(len, chains)) == 4440
    assert sum(len(text.edges["chains"]) for text in corpus) == 18496


@pytest.mark.data
def test_a_path_is_read_as_the_catalogue_would(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAMINA_DATA", str(data_dir))
    for entry in CATALOGUE:
        if (data_dir / entry.name).is_dir():
            named, by_path = find_source(entry.name), find_source(data_dir / entry.name)
            assert by_path.format == named.format
            assert by_path.files == named.files
            assert splits_of(by_path) == splits_of(named)
