"""Which words are used, how they are split, and what is counted."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lamina.analyses.words import occurrences
from lamina.analyses.words.occurrences import find_words
from lamina.errors import CorpusError
from lamina.testing import TinyEncoder
from lamina.training.provenance import text_hash
from lamina.types import Edge, Span, Text
from tests.analyses.words.conftest import corpus_of, sentences

ENCODER = TinyEncoder()


@given(seed=st.integers(0, 1000), most=st.integers(1, 5))
def test_no_word_is_in_two_splits_and_no_pair_has_too_many_contexts(seed, most):
    data = find_words(corpus_of(sentences()), ENCODER, most_contexts=most, seed=seed)
    by_split = [set(data.word[data.of(split)].tolist()) for split in occurrences.SPLITS]
    assert sum(map(len, by_split)) == len(set.union(*by_split)) == len(data.words)
    assert max(len(pair.contexts) for pair in data.pairs) <= most
    used = set()
    for pair in data.pairs:
        for at in pair.contexts:
            assert data.word[at] == pair.word
            assert data.gold[at, pair.label]
        used |= set(pair.contexts.tolist())
    assert used == set(range(len(data.spans)))
    texts = list(data.texts)
    assert len(texts) == len(data.texts)
    for text, (start, end), word in zip(data.text, data.spans, data.word, strict=True):
        said = texts[text].words[start:end]
        assert " ".join(said).lower() == data.words[word]


def test_the_same_seed_draws_the_same_and_an_occurrence_counts_in_each_of_its_pairs(corpus):
    one, same = (find_words(corpus, ENCODER, most_contexts=2, seed=3) for _ in range(2))
    assert [(*pair[:2], pair.contexts.tolist()) for pair in one.pairs] == [
        (*pair[:2], pair.contexts.tolist()) for pair in same.pairs
    ]
    assert one.split == same.split
    assert (one.places, one.labels) == (same.places, same.labels)
    other = find_words(corpus, ENCODER, most_contexts=3, seed=3)
    assert other.places != one.places
    data = find_words(corpus, ENCODER)
    several = next(at for at in range(len(data.gold)) if data.gold[at].sum() == 2)
    assert sum(several in pair.contexts for pair in data.pairs) == 2


def test_lists_of_the_corpus_decide_and_dev_is_cut_out_of_train():
    texts = []
    for text in sentences():
        (edge,) = text.edges["supersense"]
        listed = "test" if int(text.words[2][3:]) % 2 else "train"
        edges = {"sclass": text.edges["supersense"], "sclass_split": (Edge((listed,), edge.span),)}
        texts.append(Text(text.id, text.words, edges=edges))
    data = find_words(corpus_of(texts), ENCODER)
    for word, split in zip(data.words, data.split, strict=True):
        assert (split == "test") == bool(int(word[3:]) % 2)
    assert 0 < data.split.count("dev") < data.split.count("train")


def test_a_word_that_is_cut_off_is_counted():
    far = Text("far", ("pad",) * 60 + ("foo1",), edges={"supersense": (Edge(("food",), Span(60, 61)),)})
    data = find_words(corpus_of([*sentences(), far]), ENCODER, most_pieces=40)
    assert data.skipped[occurrences.TRUNCATED] == 1
    assert "far" not in {text.id for text in data.texts}


def test_what_has_no_class_or_was_not_rated_is_counted():
    odd = [
        Text("none", ("We", "eat", "foo1"), edges={"supersense": (Edge((), Span(2, 3)),)}),
        Text("part", ("We", "eat", "foo1"), edges={"supersense": (Edge(("food",), Span(2, 3), rated=("food",)),)}),
    ]
    data = find_words(corpus_of([*sentences(), *odd]), ENCODER)
    assert data.skipped[occurrences.NO_CLASS] == data.skipped[occurrences.PARTLY_RATED] == 1


def test_a_class_without_a_word_to_learn_from_is_left_out_and_counted():
    rare = Text("rare", ("A", "unicorn"), edges={"supersense": (Edge(("myth",), Span(1, 2)),)})
    data = find_words(corpus_of([*sentences(), rare]), ENCODER)
    assert "myth" not in data.classes
    assert data.skipped[occurrences.LOST_CLASSES] == data.skipped[occurrences.LOST_WORDS] == 1
    with pytest.raises(CorpusError, match="no class of 'supersense' has a word in each"):
        find_words(corpus_of([rare]), ENCODER)


def test_texts_a_model_was_fine_tuned_on_are_left_out(corpus):
    first = next(iter(corpus))
    data = find_words(corpus, ENCODER, without=frozenset([text_hash(first)]))
    same = sum(text.words == first.words for text in corpus)
    assert data.skipped[occurrences.SEEN] == same
    assert first.words not in {text.words for text in data.texts}


@pytest.mark.parametrize(("most_held", "read"), [(2**15, 1), (10, 2)])
def test_an_occurrence_is_a_few_numbers_and_many_texts_are_read_again(monkeypatch, most_held, read):
    monkeypatch.setattr(occurrences, "_MOST_TEXTS_IN_MEMORY", most_held)
    reads = []

    def source():
        reads.append(1)
        return iter(texts)

    texts = sentences()
    corpus = replace(corpus_of(texts), source=source)
    data = find_words(corpus, ENCODER)
    before = len(reads)
    assert [text.words for text in data.texts] == [text.words for text in data.texts]
    assert len(reads) == before + read
    arrays = (data.text, data.spans, data.word, data.gold)
    held = sum(each.nbytes for each in arrays) + sum(pair.contexts.nbytes for pair in data.pairs)
    assert held / len(data.text) < 64


def test_a_corpus_without_classes_says_what_it_has(corpus):
    with pytest.raises(CorpusError, match=r"made up has no annotation 'sclas': .* It has: supersense; use ewt"):
        find_words(corpus, ENCODER, annotation="sclas")


@pytest.mark.data
def test_streusle_has_words_in_context(data_dir, monkeypatch):
    from lamina.corpora import load_corpus

    monkeypatch.setenv("LAMINA_DATA", str(data_dir))
    data = find_words(load_corpus("streusle", "all"), ENCODER, most_contexts=100)
    assert "n.PERSON" in data.classes
    assert data.skipped[occurrences.TRUNCATED] >= 0
    assert len(data.pairs) > 3000
