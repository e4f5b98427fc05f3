"""The whole analysis: tables, pairs, what provenance says, and what is refused."""

from __future__ import annotations

import json

import pandas as pd
import pytest

import lamina
from lamina.analyses.heads.atlas import sentence_atlas
from lamina.analyses.heads.attention import SampledTexts, attention, pair_up
from lamina.analyses.heads.behaviours import LEAD
from lamina.analyses.heads.surface import MEASURES, PATTERNS, UNCLASSIFIED, constant_measures
from lamina.corpora import Corpus, corpus_from
from lamina.errors import CorpusError, InputError, ModelError
from lamina.figures import captions_for
from lamina.testing import SAMPLE_TEXTS, TinyEncoder
from lamina.types import Span, Text


def corpus_of(*texts: Text) -> Corpus:
    return corpus_from(list(texts), name="own")


def paragraphs(doc: str | None, *names: str) -> list[Text]:
    return [Text(name, (name, "it", "was", ".") * 3, doc=doc) for name in names]


def test_tables_have_their_columns_and_a_row_for_every_head_and_measure():
    result = attention(TinyEncoder(blocks=3, heads=2), corpus_of(*SAMPLE_TEXTS), samples=50)
    surface, patterns = result.tables["surface"], result.tables["patterns"]
    assert surface.columns.tolist() == ["layer", "head", "measure", "value", "low", "high", "baseline", *LEAD]
    assert len(surface) == 3 * 2 * len(MEASURES)
    assert sorted(surface["layer"].unique()) == [1, 2, 3]
    assert sorted(surface["head"].unique()) == [1, 2]
    assert surface[["value", "low", "high", "baseline"]].notna().all(axis=None)
    tested = surface[~surface["measure"].str.startswith("entropy")]
    assert tested.notna().all(axis=None)
    assert len(patterns) == 3 * 2 * len(PATTERNS)
    assert patterns.groupby(["layer", "head"])["share"].sum().tolist() == pytest.approx([1.0] * 6)
    assert "gradients" not in result.tables
    layers = result.tables["layers"]
    assert len(layers) == 3 * (len(MEASURES) + len(PATTERNS))
    means = surface.groupby(["layer", "measure"])["value"].mean()
    own = layers[layers["of"] == "surface"].set_index(["layer", "kind"])["value"]
    assert own.to_dict() == pytest.approx(means.to_dict())
    for table in (surface, layers, patterns.rename(columns={"share": "value"})):
        assert (table["low"] <= table["value"] + 1e-6).all()
        assert (table["value"] <= table["high"] + 1e-6).all()


def test_what_is_resampled_is_said_and_is_the_document():
    named = corpus_of(*paragraphs("d", *"abc"), *paragraphs("e", *"fgh"))
    assert attention(TinyEncoder(), named, samples=20).provenance.corpus["resampled"] == "documents"
    single = corpus_of(*paragraphs("d", *"abc"))
    assert attention(TinyEncoder(), single, samples=20).provenance.corpus["resampled"] == "texts"


def test_maps_may_be_weighted_by_norms():
    corpus = corpus_of(*SAMPLE_TEXTS)
    plain, norm = (attention(TinyEncoder(), corpus, samples=20, weights=weights) for weights in ("attention", "norm"))
    assert norm.provenance.parameters["weights"] == "norm"
    assert not plain.tables["surface"]["value"].equals(norm.tables["surface"]["value"])
    assert plain.tables["surface"]["baseline"].tolist() == pytest.approx(norm.tables["surface"]["baseline"].tolist())


def test_faithful_gives_every_token_segment_id_0_and_says_where_that_changes_nothing(model_folder):
    bert, other = (lamina.load_encoder(str(model_folder(name)), device="cpu") for name in ("bert", "distilbert"))
    corpus = corpus_of(*paragraphs("d", *"abcd"), *paragraphs("e", *"efgh"))
    plain, faithful = (attention(bert, corpus, pairs=True, samples=20, faithful=each) for each in (False, True))
    assert "segment_ids" not in plain.provenance.model
    assert faithful.provenance.model["segment_ids"] == "0 for every token"
    moved = plain.tables["surface"]["value"] - faithful.tables["surface"]["value"]
    assert moved.abs().max() > 1e-4
    none = attention(other, corpus, pairs=True, samples=20, faithful=True)
    assert none.provenance.model["segment_ids"] == "the model has none; faithful changes nothing"


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
    # On [CLS] word [SEP] every cell is next to the diagonal or on a special token.
    assert result.provenance.skipped[UNCLASSIFIED] == 4


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
    drawn = [text.id for text in SampledTexts(corpus, most=10)]
    assert drawn == [text.id for text in SampledTexts(corpus, most=10)] == sorted(drawn, key=int)
    assert len(drawn) == 10
    assert drawn != [text.id for text in SampledTexts(corpus, most=10, seed=1)]
    assert len(list(SampledTexts(corpus, most=100))) == 30


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


def test_what_no_head_of_a_decoder_could_do_is_measured_and_not_drawn():
    decoder = TinyEncoder(causal=True)
    result = lamina.attention(decoder, [["Dogs", "bark", "."], ["Cats", "do", "not", "."]] * 6, samples=10)

    # Nor does a word see the separator after the text.
    assert constant_measures(result.tables["surface"]) == ["other_to_separator", "entropy_first"]
    assert set(result.tables["surface"]["measure"]) == set(MEASURES) - {"to_next"}
    titles = json.dumps(result.chart("atlas").to_dict())
    assert "To the previous token" in titles
    assert "To the next token" not in titles
    assert "by construction: from other tokens to separators" in captions_for(result)["layers"]
    assert "to_next" not in {measure.name for measure in sentence_atlas(decoder, "Dogs bark.").measures}
    assert "to_next" in {measure.name for measure in sentence_atlas(TinyEncoder(), "Dogs bark.").measures}
