"""The catalogue: every entry can be read, and holds what its source says it holds."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from lamina.assets import cards, locate
from lamina.corpora import load_corpus
from lamina.corpora.catalogue import CATALOGUE, get_entry, names
from lamina.corpora.corpus import CorpusCounts
from lamina.corpora.formats.catalogue import get_format
from lamina.corpora.loading import find_source, splits_of
from lamina.errors import CorpusError
from lamina.training.objective import text_of
from lamina.training.reading import load_sets

DEV = {
    "ud_english_ewt": (2001, {"pos": 25147, "dep": 25147}),
    "gum_open": (693, {"pos": 16241, "ner": 4544}),
    "propbank_ewt": (1963, {"srl": 9576}),
    "uds_protoroles": (291, {"spr": 751}),
    "uds_wordsense_factuality": (1358, {"supersense": 1850, "factuality": 2646}),
    "streusle": (498, {}),
    "uner_english_ewt": (2001, {"ner": 966}),
    "gap_coreference": (454, {"coref": 908}),
    "wikitext2": (2461, {}),
}
"""Corpus -> texts and targets of its dev, as each folder's SOURCE.txt counts them."""


@pytest.fixture
def at_hand(data_dir: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The real corpora, where lamina looks for them."""
    monkeypatch.setenv("LAMINA_DATA", str(data_dir))
    return data_dir


def test_every_entry_has_a_card_and_a_format() -> None:
    assert len(set(names())) == len(CATALOGUE)
    for entry in CATALOGUE:
        assert cards()[entry.name].kind == "corpus"
        assert get_format(entry.format).name == entry.format
        assert entry.splits_within(cards()[entry.name].members)
    assert get_entry("nothing") is None


def test_files_tell_the_splits_of_what_is_not_at_hand() -> None:
    semeval, propbank, gum = (get_entry(name) for name in ("semeval2010_task8", "propbank_ewt", "gum_open"))
    assert semeval
    assert propbank
    assert gum

    assert semeval.splits_within(["TRAIN_FILE.TXT", "TEST_FILE_FULL.TXT"]) == ("train", "test")
    assert propbank.splits_within(["ewt_srl_const.*.jsonl"]) == ("train", "dev", "test")
    assert gum.splits_within(["dep/*.conllu"]) == ("train", "dev", "test")


@pytest.mark.data
@pytest.mark.parametrize("name", DEV)
def test_a_name_gives_what_its_source_counts(name: str, at_hand: Path) -> None:
    texts, targets = DEV[name]
    corpus = load_corpus(name, "dev")

    counts = CorpusCounts()
    for text in corpus:
        counts.add(text)

    assert counts.texts == len(corpus) == texts
    assert {annotation: counts.targets[annotation] for annotation in targets} == targets
    assert set(corpus.annotations) == set(counts.labels)
    assert corpus.made_split is None


@pytest.mark.data
def test_semeval_gets_a_dev_of_its_train(at_hand: Path) -> None:
    train, dev = (load_corpus("semeval2010_task8", split) for split in ("train", "dev"))
    trained, developed = ({text.id for text in corpus} for corpus in (train, dev))

    assert len(trained) + len(developed) == 8000
    assert len(developed) == pytest.approx(1200, abs=60)
    assert not trained & developed
    assert "15 %" in (dev.made_split or "")


@pytest.mark.data
def test_documents_of_gum_have_their_chains_whole(at_hand: Path) -> None:
    marks = {
        path.stem: [line.split("\t")[-1] for line in path.read_text(encoding="utf-8").splitlines() if "\t" in line]
        for path in at_hand.glob("gum_open/coref/ontogum/conll/*")
    }
    documents = {text.doc: text for text in load_corpus("gum_open", "dev", unit="document")}

    assert len(documents) == 18
    for doc, text in documents.items():
        assert doc is not None
        assert len(text.edges["chains"]) == "".join(marks[doc]).count("(")
        times = Counter(edge.labels for edge in text.edges["chains"])
        assert min(times.values()) > 1


@pytest.mark.data
def test_a_path_is_read_as_the_catalogue_would(at_hand: Path) -> None:
    for entry in CATALOGUE:
        if (at_hand / entry.name).is_dir():
            named, by_path = find_source(entry.name), find_source(at_hand / entry.name)
            assert by_path.format == named.format
            if entry.name == "squad_v1.1_dev":
                # By path it is what its name says, a dev; by name it is a corpus of its own, split by article.
                assert (list(by_path.files), list(named.files)) == (["dev"], [None])
                continue
            assert by_path.files == named.files
            assert splits_of(by_path) == splits_of(named)


def test_squad_has_a_train_and_a_dev_of_which_nothing_is_taken(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAMINA_DATA", str(tmp_path))
    (tmp_path / "squad").mkdir()
    for split, articles in (("train", 30), ("dev", 5)):
        data = [
            {
                "title": f"{split} {a}",
                "paragraphs": [
                    {
                        "context": f"Dogs of {split} {a} bark.",
                        "qas": [
                            {"id": f"{split}{a}", "question": "Who?", "answers": [{"text": "Dogs", "answer_start": 0}]}
                        ],
                    }
                ],
            }
            for a in range(articles)
        ]
        (tmp_path / "squad" / f"{split}-v1.1.json").write_text(json.dumps({"data": data}))
    assert splits_of(find_source("squad")) == ("train", "dev")
    assert [len(load_corpus("squad", split)) for split in ("train", "dev", "all")] == [30, 5, 35]
    assert load_corpus("squad", "train").made_split is None
    with pytest.raises(CorpusError, match="squad: there is no test here, only train and dev; ask for --split dev"):
        load_corpus("squad", "test")

    sets = load_sets("squad", "squad")
    assert {text_of(item).id[:3] for item in sets.scored} == {"dev"}
    assert (len(sets.train), len(sets.select), len(sets.scored)) == (27, 3, 5)
    assert sets.describe()["note"] == "there is no test: dev is scored, and a tenth of train is for selection"


@pytest.mark.real
def test_squad_is_the_whole_of_it() -> None:
    counts = []
    for name in ("train-v1.1.json", "dev-v1.1.json"):
        articles = json.loads((locate("squad") / name).read_text(encoding="utf-8"))["data"]
        counts.append((len(articles), sum(len(each["qas"]) for article in articles for each in article["paragraphs"])))
    assert counts == [(442, 87_599), (48, 10_570)]
