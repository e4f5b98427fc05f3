"""One sentence: which heads are shown, what stands in the table, what is refused."""

from __future__ import annotations

import pytest

from lamina.analyses.heads.look import ATTENTION, look
from lamina.errors import InputError, ModelError
from lamina.testing import TinyEncoder

SENTENCE = "The unhesitating dogs barked."


def test_all_pairs_of_words_of_the_heads_asked_for():
    table = look(TinyEncoder(), SENTENCE, heads=["2-1", "1-2"]).tables["attention"]
    assert table.columns.tolist() == list(ATTENTION)
    assert table[["layer", "head"]].drop_duplicates().values.tolist() == [[2, 1], [1, 2]]
    assert table.loc[:6, "to_word"].tolist() == ["[special]", "The", "unhesitating", "dogs", "barked", ".", "[special]"]
    sums = table.groupby(["layer", "head", "from"])["weight"].sum()
    assert sums.to_numpy() == pytest.approx(1, abs=1e-5)


def test_hidden_special_tokens_keep_their_share():
    shown = look(TinyEncoder(), SENTENCE, heads=["1-1"]).tables["attention"]
    table = look(TinyEncoder(), SENTENCE, heads=["1-1"], special=False).tables["attention"]
    assert table["from_word"].unique().tolist() == ["The", "unhesitating", "dogs", "barked", "."]
    assert (table.groupby("from")["weight"].sum() < 1).all()
    same = shown[(shown["from_word"] == "dogs") & (shown["to_word"] == "barked")]["weight"].item()
    assert table[(table["from_word"] == "dogs") & (table["to_word"] == "barked")]["weight"].item() == same


def test_pieces_are_the_models_own_maps():
    encoder = TinyEncoder()
    table = look(encoder, ["unhesitating", "dog"], heads=["2-2"], level="piece").tables["attention"]
    from lamina.types import Text

    (made,) = encoder.encode([Text("t", ("unhesitating", "dog"))], ("maps",))
    assert table["weight"].tolist() == made.maps[1, 1].flatten().tolist()


def test_without_names_the_heads_that_stand_out_are_shown_once_each():
    heads = look(TinyEncoder(blocks=3, heads=4), SENTENCE).tables["heads"]
    assert 1 < len(heads) <= 6
    assert not heads.duplicated(["layer", "head"]).any()
    assert (heads["value"] > 0).all()


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"heads": ["13-1"]}, r"no head 13-1: tiny has layers 1 to 2 with heads 1 to 2"),
        ({"heads": ["1-3"]}, "no head 1-3"),
        ({"heads": ["0-1"]}, "no head 0-1"),
        ({"heads": ["three"]}, "LAYER-HEAD"),
        ({"sentence": "  "}, "no words"),
        ({"sentence": []}, "no words"),
        ({"focus": "cat"}, r"is not in the sentence; .* 0:\[special\], 1:The"),
        (
            {"sentence": "the dog saw the cat", "focus": "the"},
            "is in the sentence 2 times; give the word's number: 1:the, 4",
        ),
    ],
    ids=str,
)
def test_mistakes_are_answered_in_words(settings: dict, why: str):
    with pytest.raises(InputError, match=why):
        look(TinyEncoder(), **{"sentence": SENTENCE, **settings})


def test_a_sentence_too_long_and_a_model_without_heads_are_refused():
    encoder = TinyEncoder()
    encoder.limit = 8
    with pytest.raises(InputError, match="has 12 tokens and tiny takes 8"):
        look(encoder, SENTENCE)
    encoder.heads = 0
    with pytest.raises(ModelError, match="no attention heads"):
        look(encoder, "Yes")


@pytest.mark.parametrize("sentence", ["Yes", ".", "😀 😀", "שלום עולם", "東京"])
@pytest.mark.parametrize("level", ["word", "piece"])
def test_odd_sentences_work(sentence: str, level):
    table = look(TinyEncoder(), sentence, level=level).tables["attention"]
    assert table.groupby(["layer", "head", "from"])["weight"].sum().to_numpy() == pytest.approx(1, abs=1e-5)


def test_a_word_is_focused_on_by_name_or_number():
    assert look(TinyEncoder(), SENTENCE, focus="DOGS").provenance.corpus["focus"] == 3
    assert look(TinyEncoder(), SENTENCE, focus="3").provenance.corpus["focus"] == 3
    assert look(TinyEncoder(), SENTENCE, focus="dogs", special=False).provenance.corpus["focus"] == 2


def test_the_sentence_and_the_words_are_recorded():
    result = look(TinyEncoder(), SENTENCE, focus="dogs")
    assert result.provenance.corpus["words"] == ["The", "unhesitating", "dogs", "barked", "."]
    assert result.provenance.parameters["focus"] == "dogs"
    assert result.key != look(TinyEncoder(), "Cats slept.", focus="cats").key


def test_heads_that_stand_out_are_named_without_a_claim():
    result = look(TinyEncoder(blocks=3, heads=4), SENTENCE)
    (found,) = result.findings
    first = result.tables["heads"].iloc[0]
    assert found.status == "untested"
    assert f"{first['layer']}-{first['head']} ({first['why']}: " in found.text
    assert "one sentence has no interval" in found.text
    assert look(TinyEncoder(), SENTENCE, heads=["1-1"]).findings == ()
    assert list(look.overview(look(TinyEncoder(), SENTENCE, heads=["1-1"]))) == ["1-1  asked for"]
