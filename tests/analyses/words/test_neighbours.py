"""Nearest neighbours of a word: against brute force, by case, without context, and what cannot be asked."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lamina.analyses.words import neighbours as module
from lamina.analyses.words.neighbours import nearest, neighbours
from lamina.analyses.words.occurrences import read_words, sentences_around
from lamina.corpora import Corpus
from lamina.errors import CorpusError, InputError, ModelError
from lamina.framework.verify import check_findings
from lamina.results import Result
from lamina.testing import TinyEncoder
from lamina.types import Edge, Span, Text


def made(*said: str, classes: dict[int, tuple[str, ...]] | None = None, word: str = "bank") -> Corpus:
    """Sentences; `classes` gives those of `word` in the sentence of that number."""
    texts = []
    for number, sentence in enumerate(said):
        words = tuple(sentence.split())
        edges = {}
        if classes is not None:
            at = [place for place, each in enumerate(words) if each.lower() == word]
            labels = classes.get(number, ())
            edges = {"supersense": tuple(Edge(labels, Span(place, place + 1)) for place in at)}
        texts.append(Text(f"s{number}", words, edges=edges))
    return Corpus("made", "dev", "sentence", "", f"{said} {classes}", source=lambda: iter(texts))


SAID = ("the Bank gave money", "a river bank is wet", "money in the bank .", "wet river")
BANKS = made(*SAID, classes={0: ("group",), 1: ("object",)})


def ask(corpus: Corpus, tmp_path, **given) -> Result:
    return neighbours(TinyEncoder(), corpus, store=tmp_path, **{"vectors": None, **given})


@given(st.integers(1, 40), st.integers(1, 6), st.integers(1, 8), st.integers(0, 2**16))
def test_nearest_is_what_brute_force_finds(rows, groups, count, seed):
    rng = np.random.default_rng(seed)
    vectors = rng.standard_normal((rows, 5)).astype(np.float32)
    group = rng.integers(groups, size=rows)
    queries = rng.integers(rows, size=3)
    found = nearest(torch.from_numpy(vectors), queries, group, count)
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    for query, own in zip(queries, found, strict=True):
        alike = (unit * unit[query]).sum(1)
        best = {}
        for row in np.argsort(-alike):
            if group[row] != group[query]:
                best.setdefault(group[row], row)
        assert [each.row for each in own] == list(best.values())[:count]
        assert [each.similarity for each in own] == pytest.approx(alike[[each.row for each in own]], abs=1e-5)


def test_chunks_change_nothing(monkeypatch):
    vectors = torch.randn(50, 6, generator=torch.Generator().manual_seed(0))
    group, queries = np.arange(50) % 20, np.arange(50)
    whole = nearest(vectors, queries, group, 4)
    monkeypatch.setattr(module, "_AT_ONCE", 7)
    monkeypatch.setattr(module, "_QUERIES", 3)
    parts = nearest(vectors, queries, group, 4)
    assert [[each.row for each in own] for own in parts] == [[each.row for each in own] for own in whole]


def test_a_word_is_found_in_any_case_with_its_sentences_and_classes(tmp_path):
    result = ask(BANKS, tmp_path, word="BANK", count=3)
    contexts = result.tables["contexts"]
    assert contexts["silhouette"].isna().all()
    assert contexts.drop(columns="silhouette").to_dict("list") == {
        "context": [0, 1, 2],
        "text_id": ["s0", "s1", "s2"],
        "sentence": ["the [Bank] gave money", "a river [bank] is wet", "money in the [bank] ."],
        "class": ["group", "object", ""],
    }
    near = result.tables["neighbours"]
    assert list(near.columns) == [
        "space", "layer", "context", "text_id", "rank", "neighbour", "neighbour_text", "similarity",
    ]  # fmt: skip
    assert len(near) == 3 * 3 * 3
    assert set(near["space"]) == {"layer"}
    assert "bank" not in set(near["neighbour"])
    for _, own in near.groupby(["layer", "context"]):
        assert own["rank"].tolist() == [1, 2, 3]
        assert own["similarity"].is_monotonic_decreasing
        assert own["neighbour"].is_unique
    for word, sentence in near[["neighbour", "neighbour_text"]].itertuples(index=False):
        assert f"[{word}]" in sentence.lower()
    assert result.provenance.skipped["contexts without a class"] == 1
    assert result.provenance.corpus["word"] == "bank"


def test_repeat_lists_the_word_itself_but_never_the_same_occurrence(tmp_path):
    near = ask(BANKS, tmp_path, word="bank", repeat=True, count=20).tables["neighbours"]
    total = sum(len(text.words) for text in BANKS)
    own = near[(near["layer"] == 0) & (near["context"] == 0)]
    assert len(own) == total - 1
    assert own["neighbour"].tolist().count("bank") == 2
    assert "the [Bank] gave money" not in own["neighbour_text"].tolist()


def test_vectors_of_ones_own_are_a_space(tmp_path):
    path = tmp_path / "own.txt"
    path.write_text("bank 1 0\nmoney 1 0.1\nriver 0 1\nunheard 1 0\n")
    result = ask(BANKS, tmp_path, word="bank", vectors=str(path))
    near: Any = result.tables["neighbours"]
    static = near[near["space"] == "static"]
    assert static["neighbour"].tolist() == ["money", "river"]
    assert static["similarity"].tolist() == pytest.approx([1 / 1.01**0.5, 0], abs=1e-6)
    assert static[["layer", "context"]].isna().all(axis=None)
    assert result.provenance.skipped["words that own lacks, no neighbours there"] == 7


def test_a_word_the_vectors_lack_has_no_static_neighbours(tmp_path):
    path = tmp_path / "own.txt"
    path.write_text("money 1 0.1\nriver 0 1\n")
    assert set(ask(BANKS, tmp_path, word="bank", vectors=str(path)).tables["neighbours"]["space"]) == {"layer"}


def test_no_vectors_in_a_model_s_place(tmp_path, monkeypatch):
    monkeypatch.setattr("lamina.analyses.words.neighbours.load_encoder", lambda name: TinyEncoder())
    with pytest.raises(ModelError, match="minilm is a model, not static vectors"):
        ask(BANKS, tmp_path, word="bank", vectors="minilm")


def test_contexts_are_drawn_and_counted(tmp_path):
    corpus = made(*(f"bank number {n}" for n in range(12)))
    one, same = (ask(corpus, tmp_path, word="bank", most_contexts=5, seed=3) for _ in range(2))
    assert len(one.tables["contexts"]) == 5
    assert one.provenance.skipped["contexts beyond the most that are looked at"] == 7
    pd.testing.assert_frame_equal(one.tables["contexts"], same.tables["contexts"])


def test_contexts_with_a_class_are_drawn_first(tmp_path):
    corpus = made(*(f"bank number {n}" for n in range(12)), classes={4: ("group",), 9: ("object",)})
    contexts = ask(corpus, tmp_path, word="bank", most_contexts=3).tables["contexts"]
    assert {"group", "object", ""} == set(contexts["class"])


def test_a_word_that_does_not_occur_is_said_with_words_like_it(tmp_path):
    with pytest.raises(InputError, match=r"'bnk' does not occur among the 10 words of made \(dev\); .*bank"):
        ask(BANKS, tmp_path, word="bnk")
    with pytest.raises(InputError, match="no word of it is similar"):
        ask(BANKS, tmp_path, word="xylophone")


@pytest.mark.parametrize("word", ["", "two words"])
def test_one_word_is_asked(tmp_path, word):
    with pytest.raises(InputError, match="one word is looked at"):
        ask(BANKS, tmp_path, word=word)


def test_without_classes_a_word_must_be_named(tmp_path):
    with pytest.raises(CorpusError, match="no word has two classes of at least 5 contexts each"):
        ask(made("a bank", "the bank"), tmp_path)
    assert not list(tmp_path.iterdir())


def test_without_a_word_the_one_whose_classes_lie_apart_is_shown(tmp_path):
    said = [f"money in the bank {n}" for n in range(6)] + [f"wet river bank {n}" for n in range(6)]
    classes = {n: ("group",) if n < 6 else ("object",) for n in range(12)}
    result = ask(made(*said, classes=classes), tmp_path)
    assert {name: tuple(table.columns) for name, table in result.tables.items()} == {
        name: table.columns for name, table in neighbours.tables.items()
    }
    assert result.tables["examples"]["word"].tolist() == ["bank"]
    assert result.provenance.corpus["word"] == "bank"
    assert "the classes of “bank” lie" in " ".join(each.text for each in result.findings)
    assert check_findings(result) == []
    assert Result.load(result.save(tmp_path / "out", charts=False)).findings == result.findings


def test_an_estimate_encodes_nothing_for_good(tmp_path):
    cost = neighbours.estimate(TinyEncoder(), BANKS, word="bank", vectors=None, store=tmp_path)
    assert (cost.passes, cost.texts) == (1, 4)
    assert cost.seconds > 0
    assert not list(tmp_path.rglob("*.safetensors"))


@pytest.mark.parametrize("given", [{"count": 0}, {"most_contexts": 0}])
def test_numbers_below_one_are_refused(tmp_path, given):
    with pytest.raises(InputError, match="must be a whole number of at least 1; got 0"):
        ask(BANKS, tmp_path, word="bank", **given)


def test_an_annotation_that_is_not_there_is_said(tmp_path):
    with pytest.raises(CorpusError, match="no annotation 'senses'"):
        ask(BANKS, tmp_path, word="bank", annotation="senses")


@pytest.mark.parametrize(
    ("sentence", "word"), [("שלום עולם טוב", "שלום"), ("so 😀 nice", "😀"), ("a [ b ] 東京", "東京")]
)
def test_any_script(tmp_path, sentence, word):
    result = ask(made(sentence), tmp_path, word=word)
    assert f"[{word}]" in result.tables["contexts"]["sentence"][0]
    assert len(result.tables["senses"]) == 3


def test_a_corpus_of_one_word_has_no_neighbours_and_still_an_answer(tmp_path):
    result = ask(made("Yes"), tmp_path, word="yes")
    assert result.tables["neighbours"].empty
    folder = result.save(tmp_path / "out", charts=False)
    assert Result.load(folder).tables["contexts"]["sentence"].tolist() == ["[Yes]"]


def test_settings_are_the_provenance(tmp_path):
    given = {
        "word": "bank", "count": 2, "vectors": None, "annotation": "supersense", "most_contexts": 9, "repeat": True,
        "seed": 4,
    }  # fmt: skip
    assert ask(BANKS, tmp_path, **given).provenance.parameters == given


def test_long_texts_are_shown_around_the_word():
    corpus = made(" ".join(f"w{n}" for n in range(60)))
    words = read_words(corpus)
    shown = sentences_around(corpus, words, [30])[30][1]
    assert shown == " ".join(["…", *(f"[w{n}]" if n == 30 else f"w{n}" for n in range(15, 46)), "…"])
