"""A corpus that is held is read once, unless it is large."""

from __future__ import annotations

import pickle
from itertools import islice

import pytest

from lamina.corpora.corpus import Corpus, in_memory
from lamina.types import Text

TEXTS = [Text(f"t{number}", ("Dogs", "bark")) for number in range(5)]


class Source:
    """Counts how many texts were read."""

    read = 0

    def __call__(self):
        for text in TEXTS:
            self.read += 1
            yield text


@pytest.mark.parametrize(("most", "read"), [(5, 5), (4, 15)])
def test_texts_are_read_once_where_there_are_few(most, read):
    source = Source()
    corpus = in_memory(Corpus("pets", "all", "sentence", "", "f", source=source), most)
    # Not `list(corpus)`, which asks for the length first.
    assert [[*iter(corpus)] for _ in range(3)] == [TEXTS] * 3
    assert source.read == read
    assert corpus.fingerprint == "f"


def test_a_pass_that_was_not_finished_holds_nothing():
    corpus = in_memory(Corpus("pets", "all", "sentence", "", "f", source=Source()))
    assert len(list(islice(corpus, 2))) == 2
    assert list(corpus) == TEXTS
    assert list(corpus.take(3)) == TEXTS[:3]


def test_texts_do_not_travel_to_other_processes():
    corpus = in_memory(Corpus("pets", "all", "sentence", "", "f", source=Source()))
    empty = len(pickle.dumps(corpus.source))
    assert list(corpus) == TEXTS
    assert len(pickle.dumps(corpus.source)) < empty + 100
