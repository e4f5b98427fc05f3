"""Vectors of words on disk: the right ones, in few bytes, and the same after a stop."""

from __future__ import annotations

import shutil
from contextlib import ExitStack
from itertools import pairwise, product
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lamina.activations import ActivationStore
from lamina.analyses.words.contextualize import scores, vectors
from lamina.analyses.words.contextualize.contextualize import contextualize
from lamina.analyses.words.contextualize.vectors import (
    Representations,
    VectorRequest,
    Workspace,
    name_of,
    part_edges,
    random_vectors,
    word_vectors,
)
from lamina.analyses.words.occurrences import find_words
from lamina.errors import DamagedError, DiskFullError, ModelError
from lamina.files.checking import load_tensors
from lamina.models.checks.passports import passport_of
from lamina.testing import TinyEncoder
from lamina.types import Text
from tests.analyses.words.conftest import corpus_of, sentences

CORPUS = corpus_of(sentences(60))
SETTINGS = {"vectors": [], "context_sizes": [0, 1], "samples": 10, "device": "cpu"}


@pytest.fixture
def workspace(tmp_path):
    with ExitStack() as stack:
        yield Workspace(tmp_path / "store", stack)


@pytest.fixture
def small_parts(monkeypatch):
    monkeypatch.setattr(vectors, "PART_ITEMS", 7)


def everything(source):
    return source.take(torch.arange(len(source)))


def by_hand(encoder, data, size=None, bag=False):
    """[layer, occurrence, width] One text or window at a time."""
    texts, made = list(data.texts), []
    for at, (start, end) in zip(data.text, data.spans, strict=True):
        words = texts[at].words
        begin, stop = (0, len(words)) if size is None else (max(0, start - size), end + size)
        seen = next(encoder.encode([Text("w", words[begin:stop])]))
        owners = seen.tokens.words
        inside = owners >= 0 if bag else (owners >= start - begin) & (owners < end - begin)
        made.append(seen.states[torch.from_numpy(inside)].mean(0))
    return torch.stack(made, 1)


@given(st.lists(st.integers(1, 9), min_size=1, max_size=30), st.integers(1, 40))
def test_parts_are_whole_texts_that_fit(sizes, most):
    text = np.repeat(np.arange(len(sizes)), sizes)
    edges = part_edges(text, 1, most)
    assert edges[0] == 0
    assert edges[-1] == len(text)
    assert all(start < end for start, end in pairwise(edges))
    for start, end in pairwise(edges):
        assert end == len(text) or text[end] != text[end - 1]
        # More than fit only where one text has more.
        assert end - start <= most or text[start] == text[end - 1]


@pytest.mark.parametrize("size", [None, 0, 1, 50])
@pytest.mark.parametrize("bag", [False, True])
def test_a_vector_is_the_mean_of_what_the_model_made_of_it(made, small_parts, size, bag):
    encoder = TinyEncoder()
    data = find_words(CORPUS, encoder, most_contexts=3)
    whole = made(data).contextual(encoder, size=size, bag=bag)
    expected = by_hand(encoder, data, size, bag)
    for row in whole.layers:
        found = everything(whole.read(row))
        assert found.dtype == torch.float16
        assert torch.allclose(found.float(), expected[row], atol=2e-3)


def test_averages_and_bags_of_static_vectors(made):
    encoder = TinyEncoder()
    data = find_words(CORPUS, encoder, most_contexts=3)
    every = made(data)
    whole = every.contextual(encoder)
    mean = everything(every.averaged(whole, "AVG").read(1))
    assert torch.allclose(mean[4], everything(whole.read(1))[data.word == 4].float().mean(0), atol=1e-5)
    bag = everything(every.contextual(random_vectors(), bag=True).read(0))
    words = [word.lower() for word in list(data.texts)[data.text[7]].words]
    each = [next(random_vectors().encode([Text("w", (word,))])).states[0, 0] for word in words]
    assert torch.allclose(bag[7].float(), torch.stack(each).mean(0), atol=2e-3)
    assert name_of(random_vectors()) == "random"


@pytest.mark.parametrize("scale", [1.0, 1e6], ids=["float16", "float32"])
def test_held_vectors_are_those_on_disk(scale, tmp_path, monkeypatch):
    # The same parts: other batches are rounded otherwise.
    monkeypatch.setattr(vectors, "PART_ITEMS", 7)
    encoder = TinyEncoder(scale=scale)
    data = find_words(CORPUS, encoder, most_contexts=3)
    with ExitStack() as stack:
        stored, held = (
            {size: made.contextual(encoder, size=size) for size in (None, 1)}
            for where in (None, "cpu")
            for made in [Representations(data, Workspace(tmp_path / str(where), stack, where))]
        )
        for size, layer in product(stored, range(encoder.layers)):
            assert torch.equal(everything(held[size].read(layer)), everything(stored[size].read(layer)))
    assert not (tmp_path / "cpu").exists()


def test_an_occurrence_takes_two_bytes_per_layer_and_dimension(workspace):
    encoder = TinyEncoder(blocks=3, width=64)
    data = find_words(corpus_of(sentences(400)), encoder)
    wanted = VectorRequest(encoder, data)
    kept = word_vectors(wanted, workspace)
    on_disk = sum(path.stat().st_size for path in kept.folder.glob("*.safetensors"))
    assert wanted.bytes == len(data.text) * 4 * 64 * 2
    assert wanted.bytes < on_disk < 1.05 * wanted.bytes


def test_what_float16_cannot_hold_is_kept_in_float32(made, small_parts):
    encoder = TinyEncoder(scale=1e5)
    data = find_words(CORPUS, encoder, most_contexts=3)
    found = everything(made(data).contextual(encoder).read(1))
    assert found.dtype == torch.float32
    assert torch.allclose(found, by_hand(encoder, data)[1], rtol=1e-2)


def test_the_states_of_whole_texts_are_stored_for_other_analyses(made, tmp_path):
    encoder = TinyEncoder()
    data = find_words(CORPUS, encoder, most_contexts=3)
    made(data).contextual(encoder, size=1).read(0)
    store = ActivationStore.of(encoder, tmp_path / "vectors")
    texts = list(data.texts)
    assert len(store) == len({text.words for text in texts})
    for stored, text in zip(store.open(texts), texts, strict=True):
        (own,) = encoder.encode([text])
        assert torch.allclose(stored.states.float(), own.states, atol=1e-2)


def test_values_that_are_no_numbers_are_refused(made):
    encoder = TinyEncoder(scale=float("nan"))
    data = find_words(CORPUS, TinyEncoder(), most_contexts=3)
    with pytest.raises(ModelError, match="tiny gave vectors with values that are not numbers"):
        made(data).contextual(encoder).read(0)


def test_a_layer_that_does_not_fit_into_memory_is_read_from_disk(made, small_parts, monkeypatch):
    encoder = TinyEncoder()
    data = find_words(CORPUS, encoder, most_contexts=3)
    whole = made(data).contextual(encoder)
    held = whole.read(2)
    monkeypatch.setattr(vectors.psutil, "virtual_memory", lambda: SimpleNamespace(available=100))
    on_disk = whole.read(2)
    assert isinstance(on_disk, vectors.VectorFile)
    some = torch.tensor([5, 0, 11, 5])
    assert torch.equal(on_disk.take(some), held.take(some))
    on_disk.file.truncate(10)
    with pytest.raises(DamagedError, match="became shorter while it was read; run the same command again"):
        on_disk.take(some)


def test_parts_that_are_there_are_not_encoded_again(tmp_path, small_parts):
    encoder, stopping = Counting(), Counting(stop_after=30)
    data = find_words(CORPUS, encoder, most_contexts=3)
    with ExitStack() as stack:
        whole = word_vectors(VectorRequest(encoder, data), Workspace(tmp_path / "whole", stack))
        expected = [everything(whole.layer(row)) for row in range(encoder.layers)]
    with ExitStack() as stack, pytest.raises(KeyboardInterrupt):
        word_vectors(VectorRequest(stopping, data), Workspace(tmp_path / "stopped", stack))
    encoder.encoded = 0
    with ExitStack() as stack:
        resumed = word_vectors(VectorRequest(encoder, data), Workspace(tmp_path / "stopped", stack))
        assert 0 < encoder.encoded < stopping.total
        for row, before in enumerate(expected):
            assert torch.equal(everything(resumed.layer(row)), before)


def test_a_damaged_part_is_removed_and_encoded_again(workspace, small_parts):
    encoder = Counting()
    data = find_words(CORPUS, encoder, most_contexts=3)
    kept = word_vectors(VectorRequest(encoder, data), workspace)
    before = everything(kept.layer(1))
    path = vectors.part_path(kept.folder, 2, 1)
    path.write_bytes(path.read_bytes()[:-3] + b"abc")
    with pytest.raises(
        DamagedError, match=r"000002-001\.safetensors is damaged .* it was removed\. Run the same command"
    ):
        kept.layer(1)
    encoder.encoded = 0
    again = word_vectors(VectorRequest(encoder, data), workspace)
    assert 0 < encoder.encoded <= 7
    assert torch.equal(everything(again.layer(1)), before)


class Counting(TinyEncoder):
    """Counts texts, and is stopped after so many."""

    def __init__(self, stop_after: int | None = None) -> None:
        super().__init__()
        self.passport = passport_of(TinyEncoder())  # what it encodes to be examined is not counted
        self.encoded, self.total, self._stop = 0, 60, stop_after

    def encode(self, texts, want=("states",), *, ordered=True):
        for each in super().encode(texts, want, ordered=ordered):
            self.encoded += 1
            if self._stop is not None and self.encoded > self._stop:
                raise KeyboardInterrupt
            yield each


def test_disk_is_said_beforehand_and_too_little_is_refused(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("LAMINA_PROGRESS", "lines")
    cost = contextualize.estimate(TinyEncoder(), CORPUS, store=tmp_path, **SETTINGS)
    words = len(find_words(CORPUS, TinyEncoder(), most_contexts=8).text)
    # Whole texts, one window beside them, one row of static vectors, and what is stored for other analyses.
    assert cost.disk == words * (2 * 2 * 3 * 16 + 2 * 300) + cost.tokens * 2 * 3 * 16
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=10))
    with pytest.raises(
        DiskFullError, match=r"vectors of \d+ words in context, 96 bytes each take up to 0\.0 GB of disk"
    ):
        contextualize(TinyEncoder(), CORPUS, store=tmp_path, **SETTINGS)
    assert "vectors of" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == [], "nothing is written"


@pytest.mark.parametrize("stop_at", [1, 4, 11])
def test_a_run_that_was_stopped_continues_to_the_same_numbers(tmp_path, monkeypatch, stop_at):
    expected = contextualize(TinyEncoder(), CORPUS, store=tmp_path / "one", out=tmp_path / "expected", **SETTINGS)
    calls = []

    def stopping(*given, **more):
        calls.append(1)
        if len(calls) == stop_at:
            raise KeyboardInterrupt
        return trained(*given, **more)

    trained = scores.train
    monkeypatch.setattr(scores, "train", stopping)
    places = {"store": tmp_path / "two", "out": tmp_path / "resumed"}
    with pytest.raises(KeyboardInterrupt):
        contextualize(TinyEncoder(), CORPUS, **places, **SETTINGS)
    assert not (tmp_path / "resumed").exists()
    resumed = contextualize(TinyEncoder(), CORPUS, **places, **SETTINGS)
    # Whatever was trained before the stop is not trained again.
    rows = 3 * 3 + 3 + 2 + 1 + 1
    assert len(calls) == rows + 1
    for name, table in expected.tables.items():
        assert table.equals(resumed.tables[name]), name
    one, other = (sorted((tmp_path / name).glob("*.safetensors")) for name in ("expected", "resumed"))
    assert (
        [path.name for path in one]
        == [path.name for path in other]
        == [f"probes-layer-{n}.safetensors" for n in range(3)]
    )
    for path, same in zip(one, other, strict=True):
        tensors, again = load_tensors(path)[0], load_tensors(same)[0]
        assert all(torch.equal(tensors[name], again[name]) for name in tensors)
    one, other = (pd.read_parquet(tmp_path / name / "occurrences.parquet") for name in ("expected", "resumed"))
    assert one.astype(str).equals(other.astype(str))


def test_only_vectors_of_whole_texts_stay(tmp_path):
    contextualize(TinyEncoder(), CORPUS, store=tmp_path, **SETTINGS)
    kept = list((tmp_path / "probes").rglob("0*.safetensors"))
    assert len(kept) == 3, "one file per layer"


def test_a_damaged_answer_is_computed_again(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("LAMINA_PROGRESS", "lines")
    before = contextualize(TinyEncoder(), CORPUS, store=tmp_path, **SETTINGS)
    path = sorted((tmp_path / "probes").rglob("answers-*.safetensors"))[0]
    path.write_bytes(path.read_bytes()[:-1])
    again = contextualize(TinyEncoder(), CORPUS, store=tmp_path, **SETTINGS)
    assert "its probes are trained again" in capsys.readouterr().err
    assert before.tables["sclass"].equals(again.tables["sclass"])
