"""States at hidden words: through the head they give what the scorer gives, one word at a time."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from lamina.models.language.language_model import WrittenPassage, cut_passages, language_model, score_passages
from lamina.models.language.lens import layer_states
from lamina.models.language.slots import PassageWord, first_tokens, masked_words, unmasked_words
from lamina.models.running.huggingface import HuggingFaceEncoder
from tests.language_models import tiny_causal, tiny_masked
from tests.models.tiny_models import POSITIONS

PASSAGES = [
    WrittenPassage.typed("short", "The unhesitating dogs barked ."),
    WrittenPassage.typed("long", " ".join(["the quick brown fox sat on the lazy dog and"] * 8)),
]


@pytest.mark.parametrize("make", [tiny_masked, tiny_causal], ids=["masked", "causal"])
def test_the_last_layer_says_what_the_scorer_says(make: type[HuggingFaceEncoder]) -> None:
    model = language_model(make())
    assert len(cut_passages(model, PASSAGES)[1].tokens.ids) > POSITIONS, "the second text is read in windows"
    firsts = first_tokens(model, PASSAGES)
    words = [
        PassageWord(at, part) for at, each in enumerate(firsts) for part in np.flatnonzero(each.sizes == 1).tolist()
    ]
    assert {word.passage for word in words} == {0, 1}
    wanted = masked_words(model, PASSAGES, words)
    found = np.full(len(words), np.nan)
    for numbers, states in layer_states(model, wanted):
        chances = model.logits(states[:, -1]).log_softmax(-1)
        found[numbers] = chances[torch.arange(len(numbers)), torch.from_numpy(wanted.target[numbers])].numpy()
    expected = [each.by_span for each in score_passages(model, PASSAGES)]
    assert found == pytest.approx([expected[word.passage][word.part] for word in words], abs=1e-5)


def test_all_pieces_of_a_masked_word_are_hidden_and_only_these() -> None:
    model = language_model(tiny_masked())
    cut = cut_passages(model, PASSAGES[:1])[0]
    part = int(np.argmax(first_tokens(model, PASSAGES[:1])[0].sizes))
    own = cut.tokens.words == part
    assert own.sum() > 1, "the word has several pieces"
    wanted = masked_words(model, PASSAGES[:1], [PassageWord(0, part)])
    (row,) = wanted.rows
    assert (row.ids == model.mask).tolist() == own.tolist()
    assert wanted.place.tolist() == [int(np.argmax(own))]
    assert wanted.target.tolist() == first_tokens(model, PASSAGES[:1])[0].ids[[part]].tolist()
    assert unmasked_words(model, PASSAGES[:1], [PassageWord(0, part)]).place.tolist() == [int(np.flatnonzero(own)[-1])]
    assert (unmasked_words(model, PASSAGES[:1], [PassageWord(0, part)]).rows[0].ids == cut.tokens.ids).all()


def test_a_causal_model_reads_a_text_once() -> None:
    model = language_model(tiny_causal())
    words = [PassageWord(0, part) for part in range(5)]
    assert len(masked_words(model, PASSAGES[:1], words).rows) == 1
    assert masked_words(model, PASSAGES[:1], words).place.tolist()[0] == 0, (
        "the token that begins a text tells the first"
    )
