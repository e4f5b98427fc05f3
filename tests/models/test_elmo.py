"""ELMo against AllenNLP's own vectors, a plain reimplementation, torch's LSTM, and a sentence read backwards."""

from __future__ import annotations

import json
from itertools import pairwise

import h5py
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import lamina
from lamina.errors import ModelError
from lamina.models.checks.passports import examine
from lamina.models.elmo import Characters, ElmoEncoder, ElmoNetwork, ElmoOptions, drawn_weights
from lamina.models.running.reloading import loader_of
from lamina.testing import SAMPLE_TEXTS, check_encoder
from lamina.types import Text
from tests.elmo_folders import elmo_arrays, elmo_options, save_elmo

LISTS = 3
"""Sentences that the fixture's batches have."""


@pytest.fixture(scope="module")
def fixture(data_dir):
    """AllenNLP's tiny ELMo."""
    folder = data_dir / "elmo_fixture"
    if not folder.is_dir():
        pytest.skip("no elmo_fixture in the folder of real data")
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A tiny ELMo whose memory and projections are clipped now and then."""
    options = elmo_options(lstm__cell_clip=0.5, lstm__proj_clip=0.4)
    return save_elmo(tmp_path_factory.mktemp("models") / "tiny", options, elmo_arrays(options))


def loaded(folder, **settings) -> ElmoEncoder:
    encoder = lamina.load_encoder(str(folder), **settings)
    assert isinstance(encoder, ElmoEncoder)
    return encoder


def states(encoder, *texts) -> list[np.ndarray]:
    """[word, layer, width] of each text."""
    return [made.states.numpy() for made in encoder.encode(texts)]


def test_top_layer_is_that_of_allennlp(fixture):
    encoder = loaded(fixture)
    lists = json.loads((fixture / "sentences.json").read_text(encoding="utf-8"))
    wanted = [h5py.File(fixture / f"lm_embeddings_{number}.hdf5") for number in range(LISTS)]
    carried = None
    for number in range(len(lists[0])):
        texts = [Text(str(own), tuple(lists[own][number].split())) for own in range(LISTS)]
        words, sizes = encoder.sentences([encoder.word_tokenizer(text).types for text in texts])
        # The original carries its state from batch to batch; lamina does so here only.
        layers, carried = encoder.network.layers(words, sizes, carried)
        for own, text in enumerate(texts):
            made = layers[-1][own, 1 : len(text.words) + 1].unflatten(-1, (2, -1)).transpose(0, 1)
            # The largest difference seen is 1e-6: sums in another order.
            np.testing.assert_allclose(made.numpy(), wanted[own][str(number)][...], atol=1e-5, rtol=0)
            if not number:
                (alone,) = states(encoder, text)
                np.testing.assert_allclose(alone[:, -1], np.concatenate([*made.numpy()], -1), atol=1e-5, rtol=0)


def test_token_layer_is_that_of_the_original(fixture):
    words = (fixture / "vocab_test.txt").read_text(encoding="utf-8").split("\n")
    (made,) = states(loaded(fixture), Text("vocabulary", tuple(words)))
    with h5py.File(fixture / "elmo_token_embeddings.hdf5") as file:
        wanted = np.asarray(file["embedding"])
    # Both directions read the same words; two of them are those that begin and end a sentence.
    assert {"<S>", "</S>"} < set(words)
    np.testing.assert_allclose(made[:, 0], np.concatenate([wanted, wanted], 1), atol=1e-5, rtol=0)


def test_the_fixture_is_an_encoder(fixture):
    encoder = loaded(fixture)
    assert (encoder.layers, encoder.heads, encoder.width, encoder.name) == (3, 0, 32, "elmo_fixture")
    check_encoder(encoder)


def sigmoid(values):
    return 1 / (1 + np.exp(-values))


def by_hand(options, weights, words) -> np.ndarray:
    """[word, layer, width] of one sentence: loops over words and steps, one direction after the other."""
    longest, lstm = options["char_cnn"]["max_characters_per_token"], options["lstm"]
    spelled = [[256], *(list(word.encode())[: longest - 2] for word in words), [257]]
    vectors = []
    for characters in spelled:
        seen = [258, *characters, 259]
        seen += [260] * (longest - len(seen))
        table = weights["char_embed"][seen].astype(np.float64)
        pooled = []
        for number, (width, _) in enumerate(options["char_cnn"]["filters"]):
            kernel, bias = weights[f"CNN/W_cnn_{number}"][0], weights[f"CNN/b_cnn_{number}"]
            slid = [np.einsum("wc,wcn->n", table[at : at + width], kernel) for at in range(longest - width + 1)]
            pooled.append(np.max(slid, axis=0) + bias)
        made = np.concatenate(pooled)
        made = np.maximum(made, 0) if options["char_cnn"]["activation"] == "relu" else np.tanh(made)
        for number in range(options["char_cnn"]["n_highway"]):
            own = {
                key: weights[f"CNN_high_{number}/{key}"] for key in ("W_carry", "b_carry", "W_transform", "b_transform")
            }
            gate = sigmoid(made @ own["W_carry"] + own["b_carry"])
            made = gate * np.maximum(made @ own["W_transform"] + own["b_transform"], 0) + (1 - gate) * made
        vectors.append(made @ weights["CNN_proj/W_proj"] + weights["CNN_proj/b_proj"])
    directions = []
    for direction, read in enumerate((vectors, vectors[::-1])):
        layers = [read]
        for layer in range(lstm["n_layers"]):
            name = f"RNN_{direction}/RNN/MultiRNNCell/Cell{layer}/LSTMCell"
            said, memory, out = np.zeros(lstm["projection_dim"]), np.zeros(lstm["dim"]), []
            for vector in layers[-1]:
                gates = np.concatenate([vector, said]) @ weights[f"{name}/W_0"] + weights[f"{name}/B"]
                let_in, new, forget, let_out = np.split(gates, 4)
                memory = sigmoid(forget + 1) * memory + sigmoid(let_in) * np.tanh(new)
                memory = np.clip(memory, -lstm["cell_clip"], lstm["cell_clip"])
                said = (sigmoid(let_out) * np.tanh(memory)) @ weights[f"{name}/W_P_0"]
                said = np.clip(said, -lstm["proj_clip"], lstm["proj_clip"])
                out.append(said + vector if layer and lstm["use_skip_connections"] else said)
            layers.append(out)
        directions.append([each if not direction else each[::-1] for each in layers])
    return np.array([np.concatenate(pair, -1) for pair in zip(*directions, strict=True)]).transpose(1, 0, 2)[1:-1]


@pytest.mark.parametrize("changed", [{}, {"char_cnn__activation": "tanh"}, {"lstm__use_skip_connections": False}])
def test_all_layers_are_those_worked_out_by_loops(tmp_path, changed):
    options = elmo_options(lstm__cell_clip=0.5, lstm__proj_clip=0.4, **changed)
    weights = elmo_arrays(options)
    encoder = loaded(save_elmo(tmp_path / "elmo", options, weights))
    texts = [("The", "naïve", "dog", "überschwänglichkeiten"), ("東京",)]
    for words, made in zip(texts, states(encoder, *(Text(words[0], words) for words in texts)), strict=True):
        wanted = by_hand(options, weights, words)
        assert (np.abs(wanted[:, 1]) == 0.4).any()  # clips do bite
        # Float32 against float64.
        np.testing.assert_allclose(made, wanted, atol=2e-6, rtol=0)


def test_one_layer_without_clips_is_torchs_lstm():
    options = ElmoOptions(4, ((1, 4), (2, 4)), 1, 10, "relu", 3, 5, 1, None, None, True)
    network = ElmoNetwork(options, {name: each * 0.7 for name, each in drawn_weights(options, seed=3).items()})
    draw = torch.Generator().manual_seed(0)
    rows, sizes = torch.randn(3, 6, 3, generator=draw), [4, 6, 1]
    (_, made), (after,) = network.layers(rows, sizes)
    peer = torch.nn.LSTM(3, 5, proj_size=3, batch_first=True, bidirectional=True)
    mine = {"": 0, "_reverse": 1}
    with torch.no_grad():
        for suffix, direction in mine.items():
            name = f"RNN_{direction}/RNN/MultiRNNCell/Cell0/LSTMCell"
            both, bias = network.weights[f"{name}/W_0"], network.weights[f"{name}/B"]
            # Gates: input, new, forget, output in bilm-tf; input, forget, new, output in torch.
            turned = [
                torch.cat([part[i] for i in (0, 2, 1, 3)], -1)
                for part in (both[:3].chunk(4, -1), both[3:].chunk(4, -1))
            ]
            let_in, new, forget, let_out = bias.chunk(4)
            getattr(peer, f"weight_ih_l0{suffix}").copy_(turned[0].T)
            getattr(peer, f"weight_hh_l0{suffix}").copy_(turned[1].T)
            getattr(peer, f"bias_ih_l0{suffix}").copy_(torch.cat([let_in, forget + 1, new, let_out]))
            getattr(peer, f"bias_hh_l0{suffix}").zero_()
            getattr(peer, f"weight_hr_l0{suffix}").copy_(network.weights[f"{name}/W_P_0"].T)
        packed = torch.nn.utils.rnn.pack_padded_sequence(rows, sizes, batch_first=True, enforce_sorted=False)
        given, (said, memory) = peer(packed)
    wanted, _ = torch.nn.utils.rnn.pad_packed_sequence(given, batch_first=True)
    for row, size in enumerate(sizes):
        # Sums in another order.
        torch.testing.assert_close(made[row, :size], wanted[row, :size], atol=1e-6, rtol=1e-5)
    torch.testing.assert_close(after.output, said, atol=1e-6, rtol=1e-5)
    torch.testing.assert_close(after.memory, memory, atol=1e-6, rtol=1e-5)


WORD = st.text(st.characters(min_codepoint=33, max_codepoint=0x2FF), min_size=1, max_size=14)


@given(words=st.lists(WORD, min_size=1, max_size=9))
def test_a_sentence_backwards_is_read_by_the_other_direction(words):
    # Both directions exchanged, and begin and end of a sentence with them: a mirror image.
    options = ElmoOptions(4, ((1, 4), (3, 4)), 1, 12, "relu", 3, 5, 2, 3.0, 3.0, True)
    weights = {name: 2 * each for name, each in drawn_weights(options, seed=1).items()}
    other = {name.replace("RNN_0", "RNN_x").replace("RNN_1", "RNN_0").replace("RNN_x", "RNN_1"): each
             for name, each in weights.items()}  # fmt: skip
    swapped = torch.arange(261)
    swapped[[256, 257]] = torch.tensor([257, 256])
    other["char_embed"] = weights["char_embed"][swapped]
    plain = ElmoEncoder(ElmoNetwork(options, weights), name="plain")
    mirrored = ElmoEncoder(ElmoNetwork(options, other), name="mirrored")
    (made,) = states(plain, Text("t", tuple(words)))
    (turned,) = states(mirrored, Text("t", tuple(reversed(words))))
    turned = np.concatenate([turned[..., 3:], turned[..., :3]], -1)[::-1]
    # Rows of a batch of two directions may be summed in another order.
    np.testing.assert_allclose(made, turned, atol=1e-5, rtol=1e-5)


def test_the_contract_holds(folder):
    encoder = loaded(folder)
    assert (encoder.blocks, encoder.layers, encoder.heads, encoder.width, encoder.name) == (2, 3, 0, 12, "tiny")
    check_encoder(encoder)
    check_encoder(loaded(folder, limit=8))
    verdicts = {check.name: check.verdict for check in examine(encoder).checks}
    assert {name for name, verdict in verdicts.items() if verdict == "holds"} == {
        "alive", "company", "padding", "causal", "windows",
    }  # fmt: skip
    with pytest.raises(ModelError, match="tiny has no attention maps"):
        next(encoder.encode(SAMPLE_TEXTS, ("maps",)))


def test_a_texts_vectors_depend_on_the_text_alone(folder):
    encoder = loaded(folder)
    before = states(encoder, *SAMPLE_TEXTS)
    again = states(encoder, *reversed(SAMPLE_TEXTS))
    for one, other in zip(before, reversed(again), strict=True):
        # In a batch that is sorted otherwise, sums have another order.
        np.testing.assert_allclose(one, other, atol=1e-6, rtol=0)


def test_many_texts_come_in_batches_and_in_order(folder):
    encoder = loaded(folder)
    texts = [Text(str(number), ("dog",) * (1 + number * 7 % 40)) for number in range(300)]
    made = list(encoder.encode(texts))
    assert [each.text for each in made] == [text.id for text in texts]
    unordered = {each.text: each for each in encoder.encode(texts, ordered=False)}
    assert {name: len(each.states) for name, each in unordered.items()} == {t.id: len(t.words) for t in texts}
    packed = list(encoder.packed(texts, dtype=torch.float16, most=100))
    assert sum(len(each.states) for each in packed) == sum(len(text.words) for text in texts)
    assert packed[0].states.dtype == torch.float16


def test_longer_texts_go_in_windows(folder):
    words = ("the", "old", "dog", "barked", "at", "nobody", "all", "night", "long", "and", "slept")
    (made,) = loaded(folder, limit=8).encode([Text("long", words)])
    assert made.windows == 2
    (whole,) = states(loaded(folder), Text("long", words))
    # Words by themselves do not depend on windows, what LSTMs make of them does.
    np.testing.assert_allclose(made.states[:, 0].numpy(), whole[:, 0], atol=1e-6, rtol=0)
    assert np.abs(made.states[:, 2].numpy() - whole[:, 2]).max() > 1e-3
    with pytest.raises(ModelError, match="a maximum length of 4 words is not possible; use 8 to 8192 for an ELMo"):
        loaded(folder, limit=4)


def test_words_are_their_bytes():
    spelled = Characters(6)(Text("t", ("ab", "é", "abcd", "abcde", "\ud800x"))).types.tolist()
    assert spelled == [
        [259, 98, 99, 260, 261, 261],
        [259, 0xC3 + 1, 0xA9 + 1, 260, 261, 261],
        [259, 98, 99, 100, 101, 260],
        [259, 98, 99, 100, 101, 260],
        [259, 121, 260, 261, 261, 261],
    ]
    assert Characters(6).boundaries.tolist() == [[259, 257, 260, 261, 261, 261], [259, 258, 260, 261, 261, 261]]


def test_words_that_are_cut_are_counted(folder):
    encoder = loaded(folder)
    tokens = encoder.tokenize(Text("t", ("short", "exactly-te", "overlong-word", "überschwänglich")))
    assert (tokens.unknown, tokens.words.tolist(), len(set(tokens.ids))) == (2, [0, 1, 2, 3], 4)
    assert encoder.replaced == "words of more than 10 bytes, of which the first 10 were read"
    cut, same = states(encoder, Text("a", ("overlong-word",)), Text("b", ("overlong-w",)))
    assert np.array_equal(cut, same)


def test_the_fingerprint_is_of_weights_and_options(folder, tmp_path):
    options = elmo_options(lstm__cell_clip=0.5, lstm__proj_clip=0.4)
    known = loaded(folder).fingerprint
    assert loaded(save_elmo(tmp_path / "copy", options)).fingerprint == known
    changed = elmo_arrays(options)
    changed["CNN_proj/b_proj"] = changed["CNN_proj/b_proj"] + np.eye(6, dtype=np.float32)[0] * 1e-4
    others = [
        save_elmo(tmp_path / "weights", options, changed),
        save_elmo(tmp_path / "clip", elmo_options(lstm__cell_clip=0.6, lstm__proj_clip=0.4)),
        save_elmo(tmp_path / "none", elmo_options(lstm__cell_clip=0.5, lstm__proj_clip=None)),
    ]
    found = [known, *(loaded(each).fingerprint for each in others), loaded(folder, limit=100).fingerprint]
    found.append(loaded(folder).random_twin(0).fingerprint)
    assert len(set(found)) == len(found)


def test_the_twin_has_the_shape_and_other_weights(folder):
    encoder = loaded(folder)
    twin, same, other = (encoder.random_twin(seed) for seed in (0, 0, 1))
    assert (twin.name, twin.layers, twin.width, twin.limit) == ("tiny (random)", 3, 12, encoder.limit)
    assert twin.fingerprint == same.fingerprint != other.fingerprint
    check_encoder(twin)
    kept = encoder.random_twin(0, keep_embeddings=True)
    text = Text("t", ("the", "dog"))
    own, random = states(encoder, text)[0], states(kept, text)[0]
    assert np.array_equal(own[:, 0], random[:, 0])
    assert np.abs(own[:, 1:] - random[:, 1:]).max() > 1e-2
    for each in (encoder, twin, kept):
        # As a worker makes it, by the folder's name.
        assert loader_of(each).make("cpu").fingerprint == each.fingerprint


def test_half_precision_stays_near(folder):
    exact = states(loaded(folder), *SAMPLE_TEXTS)
    encoder = loaded(folder, dtype="bfloat16")
    assert encoder.dtype == torch.bfloat16
    for one, other in zip(exact, states(encoder, *SAMPLE_TEXTS), strict=True):
        # Eight bits of mantissa, and a memory that adds up over a dozen steps.
        assert np.abs(one - other).max() < 0.1
    assert encoder.fingerprint != loaded(folder).fingerprint


def test_what_an_elmo_has_not_is_refused(folder):
    for said, asked in {
        "no chat template, no sides": {"chat": True},
        "runs on one device": {"device": {"": "cpu"}},
        "is not a supported precision": {"dtype": "int8"},
    }.items():
        with pytest.raises(ModelError, match=said):
            loaded(folder, **asked)
    with pytest.raises(ModelError, match="no chat template, no sides"):
        lamina.load_encoder(f"{folder}:decoder")
    assert loaded(folder, device="auto").device.type in ("cpu", "cuda")


def test_layers_differ(folder):
    (made,) = states(loaded(folder), Text("t", ("the", "dog", "barked")))
    assert all(np.abs(made[:, low] - made[:, high]).max() > 1e-2 for low, high in pairwise(range(3)))
