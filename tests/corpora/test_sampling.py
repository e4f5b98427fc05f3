"""Samples: whole documents at random, the last one cut; texts where each is its own document; pairs in paradigms."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from lamina.corpora import Corpus, corpus_from, load_corpus
from lamina.corpora.question_sets import load_questions
from lamina.corpora.suites.minimal_pairs import MinimalPair, pairs_from
from lamina.errors import CorpusError, InputError
from lamina.framework.inputs import as_corpus, as_splits
from lamina.types import Edge, Span, Text


def documents(number: int = 60) -> Corpus:
    """Documents of one to seven texts."""
    texts = [
        Text(f"d{doc}-{text}", ("a",), doc=f"d{doc}") for doc in range(number) for text in range(1 + (3 * doc) % 7)
    ]
    return corpus_from(texts, name="documents")


@pytest.mark.parametrize("limit", [1, 7, 40, 100])
def test_a_sample_has_whole_documents_of_which_the_last_is_cut(limit: int) -> None:
    """As many texts as wanted, in the corpus's order; at most one document is not whole, and of it the first texts."""
    whole, drawn = documents(), documents().sample(limit)
    ids = [text.id for text in drawn]
    assert len(drawn) == len(ids) == limit
    assert ids == [text.id for text in whole if text.id in set(ids)]
    sizes, taken = (Counter(text.doc for text in corpus) for corpus in (whole, drawn))
    cut = [doc for doc in taken if taken[doc] < sizes[doc]]
    assert len(cut) <= 1
    for doc in cut:
        assert [id for id in ids if id.startswith(f"{doc}-")] == [f"{doc}-{text}" for text in range(taken[doc])]


def test_a_sample_depends_on_its_seed_alone_and_holds_smaller_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same seed draws the same texts, whether they are held in memory or read again; another seed draws others."""
    first, again, other = ({text.id for text in documents().sample(60, seed)} for seed in (0, 0, 1))
    assert first == again != other
    assert {text.doc for text in documents().sample(30)} <= {text.doc for text in documents().sample(60)}
    monkeypatch.setattr("lamina.corpora.corpus.MOST_IN_MEMORY", 10)
    read_again = documents().sample(60)
    assert [text.id for text in read_again] == [text.id for text in read_again]
    assert {text.id for text in read_again} == first


def test_a_sample_is_fair() -> None:
    """Over seeds, every text of single-text documents is drawn about equally often."""
    corpus = corpus_from([[f"w{number}"] for number in range(20)], name="texts")
    times = Counter(text.id for seed in range(400) for text in corpus.sample(5, seed))
    # 400 draws of 5 in 20: 100 each, standard deviation 8.7.
    assert len(times) == 20
    assert all(60 < count < 140 for count in times.values())


def test_a_sorted_file_gives_a_sample_of_all_labels(tmp_path: Path) -> None:
    """Where every row is its own document, rows are drawn from all over the file, and provenance says so."""
    rows = [f"This is text {number} of many,{genre}" for genre in ("news", "prose", "verse") for number in range(1200)]
    path = tmp_path / "genres.csv"
    path.write_text("text,genre\n" + "\n".join(rows))
    drawn = load_corpus(path, "all", limit=300)
    counts = Counter(text.edges["genre"][0].labels[0] for text in drawn)
    assert sum(counts.values()) == 300
    assert all(60 < counts[genre] < 140 for genre in ("news", "prose", "verse"))
    assert drawn.describe() | {"limit": 300, "sample_seed": 0} == drawn.describe()
    assert load_corpus(path, "all", limit=300, seed=1).fingerprint != drawn.fingerprint
    first = load_corpus(path, "all", first=300)
    assert {text.edges["genre"][0].labels for text in first} == {("news",)}
    assert first.describe()["first"] == 300
    assert "limit" not in first.describe()


def test_more_than_there_is_takes_all() -> None:
    """A limit beyond the corpus, of whatever size, takes the whole corpus in its order."""
    assert [text.id for text in documents().sample(10**21)] == [text.id for text in documents()]
    assert [text.id for text in documents().take(10**21)] == [text.id for text in documents()]


def test_what_was_left_out_is_counted_of_the_sample(tmp_path: Path) -> None:
    """A reader's notes on texts that were not drawn are not the sample's."""
    rows = [f"This is text number {number},{'' if number % 2 else 'a'}" for number in range(200)]
    path = tmp_path / "half.csv"
    path.write_text("text,label\n" + "\n".join(rows))
    drawn = load_corpus(path, "all", limit=40)
    bare = sum("label" not in text.edges for text in drawn)
    assert 0 < bare < 40
    assert drawn.left_out() == {"texts without label": bare}


def test_questions_are_drawn_like_their_texts() -> None:
    """The questions of a sample are those whose texts are drawn."""
    drawn = load_questions("stories", "test", limit=12)
    assert [question.text.id for question in drawn.questions()] == [text.id for text in drawn]
    assert len(drawn) == 12
    assert len(load_questions("stories", "test", first=12)) == 12


def test_limit_and_first_exclude_each_other(tmp_path: Path) -> None:
    """Both at once are refused, of files and of data in memory."""
    path = tmp_path / "pets.txt"
    path.write_text("Dogs bark .\nCats do not .\n")
    with pytest.raises(InputError, match="give one of the two"):
        load_corpus(path, "all", limit=1, first=1)
    with pytest.raises(InputError, match="give one of the two"):
        as_corpus(documents(), {"limit": 1, "first": 1})


def test_data_in_memory_is_limited_too() -> None:
    """Each of two given sets is sampled; a single set is split first."""
    assert len(as_corpus(documents(), {"limit": 9})) == 9
    splits = as_splits((documents(), documents(40)), {"limit": 9})
    assert (len(splits.train), len(splits.scored)) == (9, 9)
    splits = as_splits(documents(200), {"first": 9})
    assert (len(splits.train), len(splits.scored)) == (9, 9)


@pytest.mark.parametrize("split", ["banana", "", "Dev"])
def test_splits_of_data_in_memory_are_checked(split: str) -> None:
    """A name that no split has is refused, whatever kind of data is in memory."""
    for data in (documents(), [["Dogs", "bark"]], (documents(), documents())):
        with pytest.raises(CorpusError, match=r"unknown split .*use train, dev, test or all|use dev or test"):
            as_corpus(data, {"split": split})
        with pytest.raises(CorpusError, match=r"unknown split .*use dev or test"):
            as_splits(data, {"split": split})


def test_pairs_are_drawn_within_paradigms() -> None:
    """As many pairs of every paradigm, from all over it; the others are counted."""
    suite = pairs_from(
        [
            MinimalPair(f"{number}", "-", "-", name, f"Dog {number} barks.", f"Dog {number} bark.")
            for name in ("one", "two", "three")
            for number in range(100)
        ],
        name="own",
    )
    drawn = suite.sample(10)
    assert Counter(pair.paradigm for pair in drawn) == {"one": 10, "two": 10, "three": 10}
    assert max(int(pair.id) for pair in drawn) > 50
    assert drawn.left_out == {"pairs not drawn: 10 of a paradigm were": 270}
    assert drawn.fingerprint != suite.sample(10, seed=1).fingerprint
    assert [pair.id for pair in suite.take(2)] == ["0", "1"] * 3


def test_a_sample_can_be_probed_by_every_split() -> None:
    """The draw does not depend on what splits are made of: half of the documents of a sample are in either half."""
    texts = [Text(f"t{number}", ("a", "b"), edges={"pos": (Edge(("X",), Span(0, 1)),)}) for number in range(2000)]
    drawn = corpus_from(texts, name="many").sample(400)
    splits = as_splits(drawn, {})
    assert 20 < len(splits.scored) < 60
