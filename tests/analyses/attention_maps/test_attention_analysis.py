"""The whole analysis: tables, pairs, what provenance says, and what is refused."""

from __future__ import annotations

import pandas as pd
import pytest

from lamina.analyses.attention_maps.attention import Shown, attention, pair_up
from lamina.analyses.attention_maps.surface import MEASURES, PATTERNS, UNTOLD
from lamina.corpora import Corpus, corpus_from
from lamina.errors import CorpusError, InputError, ModelError
from lamina.testing import SAMPLE_TEXTS, TinyEncoder
from lamina.types import Span, Text


def corpus_of(*texts: Text) -> Corpus:
    return corpus_from(list(texts), name="own")


def paragraphs(doc: str | None, *names: str) -> list[Text]:
    return [Text(name, (name, "it", "was", ".") * 3, doc=doc) for name in names]


def test_tables_have_their_columns_and_a_row_for_every_head_and_measure():
    result = attention(TinyEncoder(blocks=3, heads=2), corpus_of(*SAMPLE_TEXTS), samples=50)
    surface, patterns = result.tables["surface"], result.tables["patterns"]
    assert surface.columns.tolist() == ["layer", "head", "measure", "value", "low", "high", "baseline"]
    assert len(surface) == 3 * 2 * len(MEASURES)
    assert sorted(surface["layer"].unique()) == [1, 2, 3]
    assert sorted(surface["head"].unique()) == [1, 2]
    assert surface.notna().all(axis=None)
    assert len(patterns) == 3 * 2 * len(PATTERNS)
    assert patterns.groupby(["layer", "head"])["share"].sum().tolist() == pytest.approx([1.0] * 6)
    assert "gradients" not in result.tables


def test_parameters_are_the_settings_and_two_runs_agree():
    corpus = corpus_of(*SAMPLE_TEXTS)
    first, again = (attention(TinyEncoder(), corpus, samples=20, seed=3) for _ in range(2))
    assert set(first.provenance.parameters) == set(attention.settings)
    pd.testing.assert_frame_equal(first.tables["surface"], again.tables["surface"])
    assert first.provenance.model["first_token"].startswith("a special token")


def test_the_real_model_has_a_head_for_the_previous_token_and_its_first_token_for_a_sink(real_encoder):
    said = ("The quick dogs barked at the old man in the park .", "She gave him a book , and he read it that day .")
    result = attention(real_encoder, corpus_from([line.split() for line in said], name="own"), samples=20)
    table = result.tables["surface"].set_index(["measure", "layer", "head"])["value"]
    assert table["to_previous"].idxmax() == (1, 3)
    assert table["to_previous", 1, 3] > 0.8
    assert table["to_first"].groupby("layer").mean()[3] > 0.4


def test_texts_of_one_word_of_signs_alone_and_of_other_scripts_work():
    odd = [Text(word, (word,)) for word in ("Yes", ".", "😀", "שלום", "\u200d")]
    result = attention(TinyEncoder(), corpus_of(*odd), samples=20)
    assert result.tables["surface"]["value"].notna().all()
    assert result.provenance.skipped[UNTOLD] == 1


def test_long_texts_are_cut_and_counted():
    result = attention(TinyEncoder(), corpus_of(*SAMPLE_TEXTS), samples=20, length=10)
    (reason,) = (reason for reason in result.provenance.skipped if "10 tokens" in reason)
    assert result.provenance.skipped[reason] > 0


def test_pairs_join_consecutive_paragraphs_of_one_document():
    heading = Text("h", ("=", "=", "Title", "=", "="), doc="d")
    made = list(pair_up([*paragraphs("d", "a"), heading, *paragraphs("d", "b", "c"), *paragraphs("e", "f", "g", "h2")]))
    assert [pair.id for pair in made] == ["a+b", "f+g"]
    assert made[0].segments == (Span(0, 12), Span(12, 24))
    assert made[0].words[12:] == paragraphs("d", "b")[0].words


def test_pairs_are_shown_as_two_segments_of_limited_length():
    corpus = corpus_of(*paragraphs("d", *"abcd"), *paragraphs("e", *"efgh"))
    result = attention(TinyEncoder(), corpus, pairs=True, length=12, segments=3, samples=20)
    assert result.provenance.corpus["shown"].startswith("3 of 4 pairs")
    assert result.provenance.skipped["texts longer than 12 tokens, cut at the last whole word"] == 3
    # Two of at most 12 tokens are separators.
    table = result.tables["surface"]
    assert table.loc[table["measure"] == "to_separator", "baseline"].iloc[0] == pytest.approx(2 / 12)


def test_a_draw_is_seeded_and_keeps_the_order():
    corpus = corpus_of(*(Text(str(i), ("a",)) for i in range(30)))
    drawn = [text.id for text in Shown(corpus, most=10)]
    assert drawn == [text.id for text in Shown(corpus, most=10)] == sorted(drawn, key=int)
    assert len(drawn) == 10
    assert drawn != [text.id for text in Shown(corpus, most=10, seed=1)]
    assert len(list(Shown(corpus, most=100))) == 30


def test_what_cannot_be_asked_is_refused_with_a_reason():
    encoder, corpus = TinyEncoder(), corpus_of(*SAMPLE_TEXTS)
    with pytest.raises(CorpusError, match="two consecutive texts of one document"):
        attention(encoder, corpus, pairs=True)
    with pytest.raises(InputError, match="length must be a whole number of at least 8"):
        attention(encoder, corpus, length=3)
    with pytest.raises(InputError, match="segments must be a whole number of at least 1"):
        attention(encoder, corpus, segments=0)
    with pytest.raises(ModelError, match="no loss of its own"):
        attention(encoder, corpus, gradients=True)
    encoder.heads = 0
    with pytest.raises(ModelError, match="no attention heads"):
        attention(encoder, corpus)
