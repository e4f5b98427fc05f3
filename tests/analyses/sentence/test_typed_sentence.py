"""One word of a typed sentence: its vectors, its path, its neighbours and its heads."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lamina.activations import extract
from lamina.activations.reading import WordVectors
from lamina.analyses.heads.look import attended
from lamina.analyses.layers.trace import encode_sentence, farthest_travelled, token_paths, word_vectors
from lamina.analyses.words.neighbours import index_words, nearest_in_corpus
from lamina.corpora import corpus_from
from lamina.errors import ModelError
from lamina.models import Activations, Tokens
from lamina.models.contract import STATES, Want
from lamina.testing import TinyEncoder
from lamina.types import Text

WORDS = ("the", "unhesitating", "dogs", "barked", ".")
PETS = [["Dogs", "bark", "loudly"], ["the", "dogs", "sleep"], ["cats", "and", "dogs"], ["a", "quiet", "place"]]


class Broken(TinyEncoder):
    """An encoder whose states are not numbers."""

    def encode(
        self, texts: Iterable[Text], want: Collection[Want] = STATES, *, ordered: bool = True
    ) -> Iterator[Activations]:
        for made in super().encode(texts, want, ordered=ordered):
            yield Activations(made.text, made.tokens, torch.full_like(made.states, math.nan), made.maps)


def test_states_are_those_of_a_store(tmp_path):
    stored = extract(TinyEncoder(), corpus_from([list(WORDS)], name="one"), root=tmp_path)
    made = encode_sentence(TinyEncoder(), WORDS)
    assert made.states.dtype == stored[0].states.dtype == torch.float16
    # Encoded in two places: a value at the edge of a float16 step may fall to either side.
    torch.testing.assert_close(made.states, stored[0].states, rtol=1e-3, atol=1e-5)
    kept = WordVectors(stored, [len(WORDS)])
    own = word_vectors(made, len(WORDS))
    assert all(torch.allclose(own[layer], kept.layer(layer), rtol=1e-3, atol=1e-5) for layer in range(3))


def test_states_too_large_for_half_precision_stay_whole(tmp_path):
    encoder = TinyEncoder(scale=1e6)
    stored = extract(encoder, corpus_from([list(WORDS)], name="one"), root=tmp_path)
    made = encode_sentence(encoder, WORDS)
    assert made.states.dtype == torch.float32
    # 1e-5 before scaling, as for any forward pass.
    torch.testing.assert_close(made.states, stored[0].states, rtol=1e-4, atol=10)


def test_what_is_not_a_number_is_refused():
    with pytest.raises(ModelError, match="not numbers"):
        encode_sentence(Broken(), WORDS)


def test_without_states_there_are_no_vectors():
    with pytest.raises(ModelError, match="without its states"):
        word_vectors(encode_sentence(TinyEncoder(), WORDS, ("maps",)), len(WORDS))


@pytest.mark.parametrize("shape", [(3, 5, 40), (7, 30, 8)], ids=["fewer points than widths", "more points than widths"])
def test_paths_are_those_of_a_pca_of_all_layers(shape):
    from sklearn.decomposition import PCA

    vectors = torch.randn(*shape, generator=torch.Generator().manual_seed(0))
    paths = token_paths(vectors)
    points = torch.nn.functional.normalize(vectors.double(), dim=-1).reshape(-1, shape[-1]).numpy()
    fitted = PCA(2, svd_solver="full").fit(points)
    expected = fitted.transform(points).reshape(*shape[:2], 2)
    np.testing.assert_allclose(np.abs(paths.places.numpy()), np.abs(expected), atol=1e-8)
    np.testing.assert_allclose(paths.explained, fitted.explained_variance_ratio_, atol=1e-8)
    assert ((paths.places[-1] - paths.places[0]).sum(0) >= 0).all()


@given(st.integers(1, 4), st.integers(1, 6), st.integers(1, 5), st.floats(0.1, 1000), st.integers(0, 99))
def test_paths_do_not_depend_on_how_long_vectors_are(layers, words, width, scale, seed):
    vectors = torch.randn(layers, words, width, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    one, other = token_paths(vectors), token_paths(vectors * scale)
    assert one.places.shape == (layers, words, 2)
    assert one.places.isfinite().all()
    assert 0 <= one.explained[0] + one.explained[1] <= 1 + 1e-9
    assert one.explained == pytest.approx(other.explained, abs=1e-9)


def test_one_word_at_one_layer_is_a_point():
    paths = token_paths(torch.ones(1, 1, 4))
    assert paths.places.tolist() == [[[0.0, 0.0]]]
    assert paths.explained == (0.0, 0.0)


def test_a_sentence_of_signs_has_a_word_to_begin_with():
    vectors = torch.tensor([[[1.0, 0.0], [0.0, 1.0]], [[0.9, 0.1], [1.0, 0.0]]])
    assert farthest_travelled(vectors, ["!", "?"]) == 1
    assert farthest_travelled(vectors, ["a", "?"]) == 0


def test_neighbours_are_the_nearest_of_all_words_by_hand(tmp_path):
    encoder = TinyEncoder()
    index = index_words(encoder, corpus_from(PETS, name="pets"), root=tmp_path)
    asked = word_vectors(encode_sentence(encoder, WORDS), len(WORDS))[:, 2]
    found = nearest_in_corpus(index, asked, count=3)
    flat = [word for words in PETS for word in words]
    stored = WordVectors(extract(encoder, corpus_from(PETS, name="pets"), root=tmp_path), [3] * 4)
    for layer, near in enumerate(found):
        alike = torch.cosine_similarity(stored.layer(layer), asked[layer].expand(12, -1)).tolist()
        best: dict[str, float] = {}
        for word, value in zip(flat, alike, strict=True):
            best[word.lower()] = max(value, best.get(word.lower(), -2))
        expected = sorted(best.items(), key=lambda each: -each[1])[:3]
        assert [each.word.lower() for each in near] == [word for word, _ in expected]
        assert [each.similarity for each in near] == pytest.approx([value for _, value in expected], abs=1e-5)
        assert all(f"[{each.word}]" in each.sentence for each in near)


def test_an_index_takes_whole_sentences_up_to_its_memory(tmp_path):
    room = 7 * 4 * 3 * 16
    index = index_words(TinyEncoder(), corpus_from(PETS, name="pets"), root=tmp_path, most_bytes=room)
    assert len(index.sentences) == 2
    assert index.units.nbytes <= room
    # A sentence longer than the room is better than none.
    assert len(index_words(TinyEncoder(), corpus_from(PETS, name="pets"), root=tmp_path, most_bytes=1).sentences) == 1


def test_the_strongest_weights_by_hand():
    # [CLS] a b1 b2 c: b has two pieces; the special token takes no part.
    tokens = Tokens(np.arange(5, dtype=np.int32), np.array([-1, 0, 1, 1, 2], np.int32))
    rows = [
        [1.0, 0.0, 0.0, 0.0, 0.0],
        [0.1, 0.2, 0.3, 0.4, 0.0],
        [0.0, 0.2, 0.2, 0.2, 0.4],
        [0.0, 0.0, 0.2, 0.0, 0.8],
        [0.5, 0.1, 0.1, 0.1, 0.2],
    ]
    found = attended(Activations("typed", tokens, None, torch.tensor(rows)[None, None]))
    assert found is not None
    # To b: a gives 0.3 + 0.4, c gives 0.2. From b: to a the mean of 0.2 and 0, to c of 0.4 and 0.8.
    assert found.incoming.weight[1].item() == pytest.approx(0.7)
    assert found.incoming.partner[1].item() == 0
    assert found.outgoing.weight[1].item() == pytest.approx(0.6)
    assert found.outgoing.partner[1].item() == 2
    assert found.to_sinks.tolist() == pytest.approx([0.1, 0.0, 0.5])


def test_the_first_word_of_a_decoder_is_a_sink():
    """No link leads to it, nor is anybody said to look at it; what goes there is counted."""
    tokens = Tokens(np.arange(3, dtype=np.int32), np.array([0, 1, 2], np.int32))
    maps = torch.tensor([[1.0, 0.0, 0.0], [0.75, 0.25, 0.0], [0.5, 0.25, 0.25]])[None, None]
    found = attended(Activations("typed", tokens, None, maps), causal=True)
    assert found is not None
    assert found.sinks == [0]
    assert found.outgoing.partner.flatten().tolist() == [-1, -1, 1]
    assert found.incoming.partner.flatten().tolist() == [-1, 2, -1]
    assert found.to_sinks.tolist() == [1.0, 0.75, 0.5]


def test_a_word_alone_has_no_partner():
    found = attended(encode_sentence(TinyEncoder(), ["Yes"], ("maps",)))
    assert found is not None
    assert set(found.incoming.partner.flatten().tolist()) == {-1}
    assert found.outgoing.weight.sum() == 0


def test_without_maps_nothing_is_attended():
    assert attended(encode_sentence(TinyEncoder(), WORDS)) is None
    assert attended(encode_sentence(TinyEncoder(blocks=0), WORDS, ("maps",))) is None
