"""What is learned from, what stops and what is scored never share a document or a text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lamina.corpora import Corpus, corpus_from
from lamina.corpora.loading import load_splits
from lamina.corpora.splits import Splits, divide, thin
from lamina.errors import CorpusError
from lamina.types import Text


def corpus(sizes: list[int], name: str = "own", said: str = "train") -> Corpus:
    """Documents of these many texts."""
    return corpus_from(
        [
            Text(f"{said}{doc}-{at}", (said, f"d{doc}", f"s{at}"), doc=f"{said}{doc}")
            for doc, size in enumerate(sizes)
            for at in range(size)
        ],
        name=name,
    )


SCORED = corpus([3, 3], said="dev")


@given(st.lists(st.integers(1, 6), min_size=2, max_size=40), st.integers(0, 5))
def test_a_division_never_cuts_a_document(sizes, seed):
    train = corpus(sizes)
    texts = list(train)
    division = divide(Splits(train, SCORED), seed=seed)

    assert sorted(division.learn + division.stop) == list(range(len(texts)))
    learned, stopping = ({texts[number].doc for number in part} for part in (division.learn, division.stop))
    assert learned
    assert stopping
    assert learned.isdisjoint(stopping)
    assert division == divide(Splits(train, SCORED), seed=seed)


def test_about_a_tenth_decides_when_to_stop_and_seeds_differ():
    train = corpus([5] * 400)
    one, other = (divide(Splits(train, SCORED), seed=seed) for seed in (0, 1))

    assert len(one.stop) == pytest.approx(200, rel=0.3)
    assert one.stop != other.stop
    few = divide(Splits(train, SCORED), seed=0, most_stop=20)
    assert few.stop == one.stop[:20]
    assert few.learn == one.learn


def test_a_document_stays_on_its_side_whatever_else_is_read():
    whole = divide(Splits(corpus([5] * 100), SCORED), seed=0)
    some = divide(Splits(corpus([5] * 60), SCORED), seed=0)

    assert set(some.stop) <= set(whole.stop)
    assert set(some.learn) <= set(whole.learn)


def test_texts_that_are_scored_are_not_learned_from():
    train = list(corpus([4] * 20))
    scored = corpus_from([Text("other id", train[5].words, doc="x"), Text("new", ("new",)), train[17]], name="own")

    division = divide(Splits(corpus_from(train, name="own"), scored), seed=0)

    assert division.left_out == 2
    assert {5, 17}.isdisjoint(division.learn + division.stop)
    assert len(division.learn + division.stop) == 78


def test_questions_about_a_scored_passage_are_not_learned_from_in_any_view():
    """A cut context has other words than the whole one; both tell what they were made of."""
    train = [Text(f"t{n}", ("who", "?", f"w{n}"), doc=f"d{n}", origin=f"o{n}") for n in range(40)]
    scored = [Text("s", ("other", "words"), origin="o7"), Text("window", ("two", "of", "them"), origin="o1 o2")]

    division = divide(Splits(corpus_from(train, name="own"), corpus_from(scored, name="own")), seed=0)

    assert division.left_out == 3
    assert {1, 2, 7}.isdisjoint(division.learn + division.stop)


def test_texts_without_a_document_are_divided_one_by_one():
    train = corpus_from([Text(f"t{number}", (f"w{number}",)) for number in range(200)], name="own")

    division = divide(Splits(train, SCORED), seed=0)

    assert 10 <= len(division.stop) <= 30


@pytest.mark.parametrize("train", [corpus([9]), SCORED], ids=["one document", "all of it scored"])
def test_what_cannot_be_divided_is_told(train):
    with pytest.raises(CorpusError, match="give more documents"):
        divide(Splits(train, SCORED), seed=0)


@given(st.lists(st.integers(1, 9), min_size=1, max_size=30), st.integers(1, 200), st.integers(0, 3))
def test_thinning_draws_whole_documents(sizes, asked, seed):
    train = corpus(sizes)
    drawn = thin(train, asked, seed)
    documents = {text.doc for text in drawn}

    assert [text.id for text in drawn] == [text.id for text in train if text.doc in documents]
    if asked >= sum(sizes):
        assert drawn is train
    else:
        assert asked <= len(drawn) < asked + max(sizes)
    assert [text.id for text in thin(train, asked, seed)] == [text.id for text in drawn]


def test_thinning_says_so_and_changes_the_fingerprint():
    train = corpus([5] * 40)
    drawn, other = thin(train, 50, 0), thin(train, 50, 1)

    assert thin(train, None, 0) is train
    assert len({train.fingerprint, drawn.fingerprint, other.fingerprint}) == 3
    assert drawn.describe()["made_split"] == "about 50 texts, documents drawn by hash with seed 0"
    assert {text.doc for text in drawn} != {text.doc for text in other}


def test_splits_know_both_their_parts():
    one, other = Splits(corpus([2]), SCORED), Splits(corpus([3]), SCORED)

    assert one.fingerprint != other.fingerprint
    assert one.describe()["train"] == corpus([2]).describe()
    assert one.describe()["fingerprint"] == one.fingerprint
    with pytest.raises(CorpusError, match="dev or test"):
        load_splits("ewt", "train")
