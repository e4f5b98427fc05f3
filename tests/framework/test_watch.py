"""Maps between words, texts cut to fit, and the one pass that feeds all meters."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lamina.errors import ModelError
from lamina.framework.watch import CUT, WatchedBatch, fit, punctuation_ids, roles_of, to_words, watch
from lamina.models import SPECIAL
from lamina.testing import SAMPLE_TEXTS, TinyEncoder
from lamina.types import Edge, Span, Text

# [CLS] un ##hesitating dogs [SEP]: the answers below are added up by hand.
WORDS = np.array([SPECIAL, 0, 0, 1, SPECIAL])
MAP = torch.tensor(
    [
        [0.2, 0.2, 0.2, 0.2, 0.2],
        [0.1, 0.2, 0.3, 0.3, 0.1],
        [0.3, 0.1, 0.1, 0.1, 0.4],
        [0.0, 0.25, 0.25, 0.5, 0.0],
        [1.0, 0.0, 0.0, 0.0, 0.0],
    ]
)[None, None]


def test_to_a_split_word_is_the_sum_and_from_it_the_mean():
    made = to_words(MAP, WORDS)
    torch.testing.assert_close(made.maps[0, 0], torch.tensor([[0.35, 0.2], [0.5, 0.5]]))
    torch.testing.assert_close(made.special[0, 0], torch.tensor([0.45, 0.0]))


def test_from_first_takes_the_first_piece_as_the_released_code_did():
    made = to_words(MAP, WORDS, "first")
    torch.testing.assert_close(made.maps[0, 0], torch.tensor([[0.5, 0.3], [0.5, 0.5]]))
    torch.testing.assert_close(made.special[0, 0], torch.tensor([0.2, 0.0]))


@given(st.lists(st.integers(1, 4), min_size=1, max_size=8), st.integers(0, 2), st.integers(0, 2), st.integers(0, 99))
def test_rows_sum_to_one_with_the_special_tokens(pieces: list[int], before: int, after: int, seed: int):
    owners = [SPECIAL] * before + [w for w, n in enumerate(pieces) for _ in range(n)] + [SPECIAL] * after
    maps = torch.rand(2, 3, len(owners), len(owners), generator=torch.Generator().manual_seed(seed)).softmax(-1)
    for rows in ("mean", "first"):
        made = to_words(maps, np.array(owners), rows)
        torch.testing.assert_close(made.maps.sum(-1) + made.special, torch.ones(2, 3, len(pieces)))


@given(st.lists(st.text("ab", min_size=1, max_size=9), min_size=2, max_size=12), st.integers(5, 40), st.data())
def test_a_cut_text_fits_and_is_the_longest_that_does(words: list[str], limit: int, data: st.DataObject):
    border = data.draw(st.integers(1, len(words) - 1))
    text = Text("t", tuple(words), (Span(0, border), Span(border, len(words))))
    encoder = TinyEncoder()
    kept = fit(encoder, text, limit)
    size = len(encoder.tokenize(kept).ids)
    if all(len(segment) == 1 for segment in kept.segments):
        return
    assert size <= limit
    if kept is not text:
        assert limit - size < 3  # a piece has three letters, a word of this test at most three pieces
    for segment, whole in zip(kept.segments, text.segments, strict=True):
        assert kept.words[segment.start : segment.end] == text.words[whole.start : whole.start + len(segment)]


def test_a_cut_text_keeps_the_targets_that_are_whole():
    edges = (Edge(("nsubj",), Span(0, 1), Span(1, 2)), Edge(("obj",), Span(3, 4), Span(1, 2)), Edge(("x",), Span(1, 3)))
    text = Text("t", ("we", "saw", "a", "dog"), edges={"dep": edges})
    assert fit(TinyEncoder(), text, limit=4).edges["dep"] == edges[:1]


def test_targets_of_a_second_segment_move_with_it():
    text = Text(
        "t",
        ("who", "ran", "far", "off", "?", "dogs", "do"),
        (Span(0, 5), Span(5, 7)),
        {"ner": (Edge(("ANIMAL",), Span(5, 6)),)},
    )
    kept = fit(TinyEncoder(), text, limit=8)
    # Three special tokens and five pieces, dog-s being two.
    assert kept.words == ("who", "ran", "dogs", "do")
    assert kept.edges["ner"][0].span == Span(2, 3)


def test_watching_shows_every_text_to_every_meter_and_counts_what_was_cut():
    class Names:
        def __init__(self) -> None:
            self.seen: list[tuple[str, int]] = []

        def update(self, batch: WatchedBatch) -> None:
            assert batch.word_counts.tolist() == [len(text.words) for text in batch.texts]
            self.seen += [(text.id, len(text.words)) for text in batch.texts]

    one, other = Names(), Names()
    skipped = watch(TinyEncoder(), SAMPLE_TEXTS, [one, other], limit=10)
    assert one.seen == other.seen
    assert {name for name, _ in one.seen} == {text.id for text in SAMPLE_TEXTS}
    lengths = dict(one.seen)
    assert skipped[CUT] == sum(lengths[text.id] < len(text.words) for text in SAMPLE_TEXTS) > 0


def test_an_encoder_without_heads_is_refused():
    encoder = TinyEncoder()
    encoder.heads = 0
    with pytest.raises(ModelError, match="no attention heads"):
        watch(encoder, SAMPLE_TEXTS, [])


def test_roles_of_the_tokens_of_an_encoder_and_of_a_decoder():
    encoder = TinyEncoder()
    text = Text("t", ("So", ",", "go", "on", "."))
    tokens = encoder.tokenize(text)
    roles = roles_of(tokens, punctuation_ids(encoder), causal=False)
    assert roles.separators.tolist() == [False] * 6 + [True]
    assert roles.punctuation.tolist() == [False, False, True, False, False, True, False]
    bare = tokens._replace(ids=tokens.ids[1:-1], words=tokens.words[1:-1])
    assert roles_of(bare, (), causal=True).separators.tolist() == [True] + [False] * 4
    assert not roles_of(bare, (), causal=False).separators.any()
