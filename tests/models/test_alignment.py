"""Words to pieces: every word has some, in order, whatever the word and the tokenizer."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from lamina.errors import ModelError
from lamina.models import SPECIAL
from lamina.models.running.tokens import WordTokenizer
from lamina.types import Span, Text

LETTERS = st.characters(codec="utf-8").filter(lambda letter: not letter.isspace())
WORDS = st.lists(st.text(LETTERS, min_size=1, max_size=8), min_size=1, max_size=8)


@pytest.fixture(scope="module", params=["bert", "roberta", "albert"])
def encoder(request, tiny_encoder):
    """WordPiece, byte-level BPE and SentencePiece."""
    return tiny_encoder(request.param)


@given(words=WORDS, cut=st.integers(1, 8))
def test_every_word_has_pieces_in_order(encoder, words, cut):
    segments = (Span(0, cut), Span(cut, len(words))) if cut < len(words) else ()
    tokens = encoder.tokenize(Text("t", tuple(words), segments))
    own = tokens.words[tokens.words != SPECIAL]
    assert sorted(set(own.tolist())) == list(range(len(words)))
    assert (np.diff(own) >= 0).all()
    assert len(tokens.ids) == len(tokens.words)


@given(words=WORDS)
def test_words_without_a_piece_are_counted(encoder, words):
    alone = [encoder.tokenizer(word, add_special_tokens=False)["input_ids"] for word in words]
    assert encoder.tokenize(Text("t", tuple(words))).unknown == alone.count([])


@given(words=WORDS)
def test_byte_level_pieces_are_those_of_the_joined_text_and_lose_nothing(tiny_encoder, words):
    encoder = tiny_encoder("roberta")
    tokens = encoder.tokenize(Text("t", tuple(words)))
    inner = tokens.ids[tokens.words != SPECIAL].tolist()
    assert inner == encoder.tokenizer(" ".join(words), add_special_tokens=False)["input_ids"]
    assert encoder.tokenizer.decode(inner, clean_up_tokenization_spaces=False) == " ".join(words)


@given(words=WORDS)
def test_wordpiece_pieces_are_those_of_the_joined_text(tiny_encoder, words):
    encoder = tiny_encoder("bert")
    tokens = encoder.tokenize(Text("t", tuple(words)))
    if not tokens.unknown:
        inner = tokens.ids[tokens.words != SPECIAL].tolist()
        assert inner == encoder.tokenizer(" ".join(words), add_special_tokens=False)["input_ids"]


@pytest.mark.parametrize("vanishing", ["\u200d", "\x07", "\u00ad", "\ufeff\u200b"])
def test_bert_drops_some_words_whole_and_they_become_unknown(tiny_encoder, vanishing):
    encoder = tiny_encoder("bert")
    tokens = encoder.tokenize(Text("t", ("dog", vanishing, "fox", vanishing)))
    assert tokens.unknown == 2
    unknown = encoder.tokenizer.unk_token_id
    assert tokens.ids[np.isin(tokens.words, (1, 3))].tolist() == [unknown, unknown]


def test_byte_level_bpe_has_a_piece_for_every_sign(tiny_encoder):
    for name in ("roberta", "gpt2", "llama"):
        assert tiny_encoder(name).tokenize(Text("t", ("dog", "\u200d", "\x07", "東京"))).unknown == 0


def test_the_end_of_text_stands_in_where_there_is_no_unknown_token(model_folder):
    tokenizer = AutoTokenizer.from_pretrained(model_folder("gpt2"), unk_token=None)
    tokenizer.unk_token = None
    assert tokenizer.unk_token_id is None
    tokens = WordTokenizer(tokenizer)(Text("t", ("", "dog")))[0]
    assert tokens.unknown == 1
    assert tokens.ids[0] == tokenizer.eos_token_id


def test_a_truncation_of_the_tokenizer_file_is_lifted(model_folder):
    tokenizer = AutoTokenizer.from_pretrained(model_folder("bert"))
    tokenizer.backend_tokenizer.enable_truncation(max_length=5)
    tokenizer.backend_tokenizer.enable_padding(length=64)
    assert len(WordTokenizer(tokenizer)(Text("t", ("dog",) * 30))[0].ids) == 32


def test_words_are_remembered_up_to_a_bound(tiny_encoder, monkeypatch):
    pieces = WordTokenizer(tiny_encoder("roberta").tokenizer)
    monkeypatch.setattr("lamina.models.running.tokens._MOST_REMEMBERED", 3)
    texts = [Text("t", (f"w{n}", f"x{n}")) for n in range(5)]
    first = [pieces(text)[0].ids.tolist() for text in texts]
    assert len(pieces._known) <= 3
    assert [pieces(text)[0].ids.tolist() for text in texts] == first


def test_a_tokenizer_that_does_not_cut_at_spaces_is_refused():
    from tokenizers import Tokenizer, models, trainers

    glued = Tokenizer(models.BPE())
    # Without cutting at spaces first, whole phrases become one piece.
    phrase = "The cats sat , unhesitatingly ."
    glued.train_from_iterator([phrase] * 3, trainers.BpeTrainer(vocab_size=300, show_progress=False))
    with pytest.raises(ModelError, match="words cannot be aligned"):
        WordTokenizer(PreTrainedTokenizerFast(tokenizer_object=glued))


def test_a_slow_tokenizer_is_refused():
    class Slow:
        name_or_path = "slow"

    with pytest.raises(ModelError, match="no fast version"):
        WordTokenizer(Slow())
