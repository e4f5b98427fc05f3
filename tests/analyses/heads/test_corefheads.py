"""Heads as antecedent finders, and the rules beside them, on mentions made by hand."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lamina.analyses.heads.corefheads import corefheads, windows
from lamina.corpora import corpus_from
from lamina.corpora.corpus import Corpus, fingerprint_of
from lamina.errors import CorpusError, ModelError
from lamina.models import SPECIAL, Activations, Encoder, Tokens
from lamina.stats.units import CHOOSING, halve
from lamina.testing import TinyEncoder
from lamina.types import Edge, Span, Text

NUMBERS = ["count", "accuracy"]


class Pointing(Encoder):
    """One head a list of targets: word i of a text gives nearly all its attention to the i-th of them."""

    name, blocks, width = "pointing", 1, 1

    def __init__(self, targets: Mapping[str, list[list[int]]]) -> None:
        """Text id -> a list of targets a head."""
        self._targets = targets
        self.heads = len(next(iter(targets.values())))

    @property
    def fingerprint(self) -> str:
        return "pointing"

    def tokenize(self, text: Text) -> Tokens:
        words = [SPECIAL, *range(len(text.words))]
        return Tokens(np.arange(len(words)), np.array(words))

    def encode(self, texts: Iterable[Text], want=("states",), *, ordered: bool = True) -> Iterator[Activations]:
        for text in texts:
            size = len(text.words) + 1
            maps = torch.full((1, self.heads, size, size), 0.1 / size)
            for head, targets in enumerate(self._targets[text.id]):
                for word, target in enumerate(targets):
                    maps[0, head, word + 1, target + 1] = 0.9
            yield Activations(text.id, self.tokenize(text), None, maps)


def corpus_of(texts: list[Text], unit: str = "document") -> Corpus:
    return Corpus("own", "dev", unit, "none", fingerprint_of([text.id for text in texts]), lambda: iter(texts))


def tag(*tags: str) -> tuple[Edge, ...]:
    return tuple(Edge((each,), Span(at, at + 1)) for at, each in enumerate(tags))


def chain(name: str, *spans: tuple[int, int]) -> tuple[Edge, ...]:
    return tuple(Edge((name,), Span(*span)) for span in spans)


#         0      1      2    3    4     5      6    7      8    9     10
WORDS = ("Mary", "saw", "a", "dog", "and", "the", "dog", "saw", "her", "see", "Mary")
TAGS = tag("NNP", "VBD", "DT", "NN", "CC", "DT", "NN", "VBD", "PRP", "VB", "NNP")
CHAINS = (*chain("m", (0, 1), (8, 9), (10, 11)), *chain("d", (2, 4), (5, 7)))


def story(name: str) -> Text:
    return Text(name, WORDS, edges={"chains": CHAINS, "xpos": TAGS})


def rows(table: pd.DataFrame, system: str, **place: int) -> dict[str, tuple[int, float]]:
    own = table[table["system"] == system]
    for column, value in place.items():
        own = own[own[column] == value]
    return {row.mention_type: (row.count, row.accuracy) for row in own.itertuples(index=False, name="Row")}


def test_a_head_is_right_where_it_attends_most_to_an_antecedent():
    # The first head finds both of Mary's antecedents and not the dog's; the second attends to later words only.
    right = [1, 0, 0, 0, 0, 0, 5, 0, 0, 0, 8]
    later = [10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 9]
    texts = [story(f"s{number}") for number in range(4)]
    encoder = Pointing({text.id: [right, later] for text in texts})
    result = corefheads(encoder, corpus_of(texts), samples=20)
    table = result.tables["coref"]
    assert list(table.columns) == ["system", "layer", "head", "mention_type", "count", "accuracy", "low", "high"]
    assert rows(table, "head", head=1) == {
        "pronoun": (4, 1), "proper": (4, 1), "nominal": (4, 0), "all": (12, pytest.approx(2 / 3)),
    }  # fmt: skip
    assert set(rows(table, "head", head=2).values()) == {(4, 0), (12, 0)}
    # Both halves are scored, each by the head that the other chose.
    for system in ("best head", "nearest", "head match", "rules"):
        assert rows(table, system)["all"] == (12, pytest.approx(2 / 3))
    assert table.loc[table["system"] == "rules", "layer"].isna().all()


def test_among_mentions_a_head_need_not_beat_other_words():
    # All attend to words that are no mention; next to that, to whatever comes with the same small weight.
    texts = [story(f"s{number}") for number in range(4)]
    encoder = Pointing({text.id: [[1] * len(WORDS)] for text in texts})
    words = corefheads(encoder, corpus_of(texts), samples=5).tables["coref"]
    assert rows(words, "head")["all"] == (12, 0)
    among = corefheads(encoder, corpus_of(texts), among="mentions", samples=5)
    # The first of equals is Mary: right for her and for Mary.
    assert rows(among.tables["coref"], "head")["all"] == (12, pytest.approx(2 / 3))
    assert among.provenance.parameters["among"] == "mentions"


def test_a_pronoun_of_gap_means_one_of_two_names():
    words = ("Ann", "met", "Bea", "Lee", "and", "she", "left")
    pairs = (Edge(("1",), Span(5, 6), Span(0, 1)), Edge(("0",), Span(5, 6), Span(2, 4)))
    neither = tuple(Edge(("0",), edge.span, edge.other) for edge in pairs)
    texts = [Text(f"g{at}", words, edges={"coref": pairs}, doc=f"page{at}") for at in range(4)]
    texts.append(Text("none", words, edges={"coref": neither}, doc="page"))
    encoder = Pointing({text.id: [[6, 6, 6, 6, 6, 0, 6], [6, 6, 6, 6, 6, 3, 6]] for text in texts})
    table = corefheads(encoder, corpus_of(texts, "sentence"), samples=5).tables["coref"]
    assert rows(table, "head", head=1)["pronoun"] == (4, 1)
    assert rows(table, "head", head=2)["pronoun"] == (4, 0)
    assert rows(table, "head", head=1)["proper"][0] == 0
    assert rows(table, "nearest")["all"][1] == 0
    assert rows(table, "head match")["all"][1] == 0


@given(
    st.lists(st.lists(st.text("ab", min_size=1, max_size=7), min_size=1, max_size=6), min_size=1, max_size=8),
    st.integers(6, 30),
)
def test_windows_are_whole_sentences_that_fit_and_lose_nothing(sentences: list[list[str]], most: int):
    words = [word for sentence in sentences for word in sentence]
    ends = np.cumsum([len(sentence) for sentence in sentences]).tolist()
    marks = tuple(Edge((str(end),), Span(start, end)) for start, end in zip([0, *ends], ends, strict=False))
    encoder = TinyEncoder()
    made = list(windows(encoder, [Text("d", tuple(words), edges={"sentence": marks})], most))
    assert [word for window in made for word in window.words] == words
    assert sum(len(window.edges["sentence"]) for window in made) == len(sentences)
    for window, following in zip(made, [*made[1:], None], strict=True):
        size = len(encoder.tokenize(window).ids)
        assert size <= most or len(window.edges["sentence"]) == 1
        if following is not None:
            first = following.words[: len(following.edges["sentence"][0].span)]
            assert len(encoder.tokenize(Text("t", window.words + first)).ids) > most


def test_antecedents_out_of_reach_are_counted():
    sentences = (Edge(("s1",), Span(0, 4)), Edge(("s2",), Span(4, 11)))
    texts = [Text(f"s{at}", WORDS, edges={"chains": CHAINS, "xpos": TAGS, "sentence": sentences}) for at in range(4)]
    encoder = TinyEncoder()
    whole = corefheads(encoder, corpus_of(texts), samples=5)
    assert "mentions whose antecedents all lie outside their window" not in whole.provenance.skipped
    encoder.limit = 14
    parts = corefheads(encoder, corpus_of(texts), samples=5)
    # In the second sentence only the last Mary still has an antecedent.
    assert parts.provenance.skipped["mentions whose antecedents all lie outside their window"] == 8
    assert rows(parts.tables["coref"], "head", layer=1, head=1)["all"][0] == 4


def test_faithful_takes_the_first_128_pieces():
    long = [
        Text(f"s{at}", WORDS * 20, edges={"chains": (*CHAINS, *chain("far", (100, 101), (219, 220)))})
        for at in range(4)
    ]
    result = corefheads(TinyEncoder(), corpus_of(long), faithful=True, samples=5)
    assert result.provenance.skipped["texts cut to their first 128 tokens"] == 4
    assert result.provenance.skipped["mentions whose antecedents all lie outside their window"] == 4


def test_every_type_has_its_own_best_head_beside_every_baseline():
    # The first head finds Mary's antecedents, the second the dog's.
    mary = [1, 0, 0, 0, 0, 0, 5, 0, 0, 0, 8]
    dog = [1, 1, 1, 1, 1, 1, 3, 1, 1, 1, 1]
    texts = [story(f"s{number}") for number in range(8)]
    encoder = Pointing({text.id: [mary, dog] for text in texts})
    best = corefheads(encoder, corpus_of(texts), samples=5).tables["best"]
    assert list(best.columns) == [
        "mention_type", "layer", "head", "count", "accuracy", "low", "high", "baseline", "baseline_accuracy",
        "difference", "diff_low", "diff_high", "p_adjusted", "units", "needed", "ahead",
        "crossfit_accuracy", "crossfit_low", "crossfit_high", "agrees",
    ]  # fmt: skip
    assert best["baseline"].tolist() == ["nearest", "head match", "rules"] * 4
    assert best.drop_duplicates("mention_type").set_index("mention_type")["head"].to_dict() == {
        "pronoun": 1, "proper": 1, "nominal": 2, "all": 1,
    }  # fmt: skip
    own = best.set_index(["mention_type", "baseline"])
    # Her is nobody's head word; the nearest mention before her is the dog.
    assert own.loc[("pronoun", "head match"), ["accuracy", "baseline_accuracy", "difference"]].tolist() == [1, 0, 1]
    assert own.loc[("nominal", "head match"), ["accuracy", "baseline_accuracy", "difference"]].tolist() == [1, 1, 0]
    # Eight documents that all say the same: 2 of 2**8 flips, however many heads, types and baselines there are.
    assert own.loc[("pronoun", "head match"), "p_adjusted"] == 2 * 2**-8
    assert own.loc[("pronoun", "head match"), "ahead"]
    assert best["agrees"].all()


def test_faithful_takes_one_head_for_all_types_chosen_where_it_is_scored():
    mary = [1, 0, 0, 0, 0, 0, 5, 0, 0, 0, 8]
    dog = [1, 1, 1, 1, 1, 1, 3, 1, 1, 1, 1]
    texts = [story(f"s{number}") for number in range(4)]
    corpus = corpus_of(texts)
    # Each half of the documents would choose another head than the other.
    halves = halve(texts, seed=0)
    encoder = Pointing({t.id: [mary, dog] if halves.of(t) == CHOOSING else [dog, mary] for t in texts})
    lucky = corefheads(encoder, corpus, samples=5, faithful=True).tables["best"].drop_duplicates("mention_type")
    assert lucky["head"].nunique() == 1
    assert lucky.set_index("mention_type")["accuracy"].to_dict() == {
        "pronoun": 0.5, "proper": 0.5, "nominal": 0.5, "all": 0.5,
    }  # fmt: skip
    fitted = corefheads(encoder, corpus, samples=5).tables["best"].drop_duplicates("mention_type")
    assert fitted.set_index("mention_type")["crossfit_accuracy"].to_dict() == {
        "pronoun": 0, "proper": 0, "nominal": 0, "all": pytest.approx(1 / 3),
    }  # fmt: skip
    assert not fitted["agrees"].any()


def test_bad_input_is_refused_in_one_sentence():
    encoder = TinyEncoder()
    with pytest.raises(CorpusError, match=r"own has no coreference .*for example gum_open"):
        corefheads(encoder, corpus_from([["Dogs", "bark"]], name="own"))
    with pytest.raises(CorpusError, match="is one document"):
        corefheads(encoder, corpus_of([story("s")]))
    lonely = [Text(f"s{at}", ("Ann", "ran"), edges={"chains": chain("a", (0, 1))}) for at in range(3)]
    with pytest.raises(CorpusError, match="no mention has an antecedent"):
        corefheads(encoder, corpus_of(lonely))
    with pytest.raises(CorpusError, match="one half of the documents has no mention"):
        corefheads(encoder, corpus_of([story("s"), *lonely]))
    encoder.heads = 0
    with pytest.raises(ModelError, match="no attention heads"):
        corefheads(encoder, corpus_of([story("a"), story("b")]))
