"""The store: what goes in comes out, once, and only for its own encoder."""

from __future__ import annotations

import json
from itertools import count, islice
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file

from lamina.activations import ActivationStore, ThisMachine, default_root, estimate, extract, stores
from lamina.corpora import corpus_from
from lamina.errors import ModelError, StoreError
from lamina.files.checking import read_json, write_json
from lamina.models import Activations
from lamina.testing import SAMPLE_TEXTS, TinyEncoder
from lamina.types import Span, Text, text_key

# Of odd width and an odd number of layers: nothing in a shard is aligned by luck.
ODD = TinyEncoder(blocks=2, heads=1, width=5)

WORDS = st.lists(st.text(st.characters(exclude_categories=()), min_size=1, max_size=9), min_size=1, max_size=5)


@st.composite
def any_text(draw: st.DrawFn) -> Text:
    words = tuple(draw(WORDS))
    cut = draw(st.integers(0, len(words) - 1))
    segments = (Span(0, cut), Span(cut, len(words))) if cut else ()
    return Text(draw(st.sampled_from(["a", "b", "c"])), words, segments)


@given(st.lists(st.lists(any_text(), max_size=6), min_size=1, max_size=4), st.sampled_from([1, 100, 2**20]))
def test_what_any_runs_wrote_is_read_back(
    tmp_path_factory: pytest.TempPathFactory, keys_held, assert_holds, runs: list[list[Text]], shard_bytes: int
) -> None:
    store = ActivationStore.of(ODD, tmp_path_factory.mktemp("store"))
    for texts in runs:
        ThisMachine(shard_bytes=shard_bytes).fill(ODD, texts, store)

    texts = [text for run in runs for text in run]
    assert_holds(store, ODD, texts)
    assert sorted(keys_held(store)) == sorted({text_key(text) for text in texts})
    assert list(store.missing(texts)) == []
    assert store.damaged() == []


def test_keys_tell_texts_apart() -> None:
    words = ("a", "b", "c")
    different = [
        Text("x", words),
        Text("x", words, (Span(0, 1), Span(1, 3))),
        Text("x", words, (Span(0, 2), Span(2, 3))),
        Text("x", ("a b", "c")),
        Text("x", ("ab", "c")),
        Text("x", ("a", "b", "C")),
    ]

    assert len({text_key(text) for text in different}) == len(different)
    assert text_key(Text("x", words)) == text_key(Text("y", words, (Span(0, 3),), doc="d"))


class Uncased(TinyEncoder):
    """Hears no difference between capitals and small letters."""

    def tokenize(self, text: Text):
        return super().tokenize(Text(text.id, tuple(word.lower() for word in text.words), text.segments))


def test_texts_that_look_the_same_to_the_model_are_both_kept(tmp_path: Path, assert_holds) -> None:
    shouted, said = Text("a", ("YES",)), Text("b", ("yes",))
    for text in (shouted, said):
        extract(Uncased(), corpus_from([text]), root=tmp_path)

    assert_holds(ActivationStore.of(Uncased(), tmp_path), Uncased(), [shouted, said])


def test_the_library_reads_the_shards(tmp_path: Path) -> None:
    stored = extract(ODD, corpus_from(SAMPLE_TEXTS), root=tmp_path)
    (shard,) = ActivationStore.of(ODD, tmp_path).shards

    tensors = load_file(shard)

    assert torch.equal(tensors["states"], torch.cat([each.states for each in stored]))
    assert tensors["ids"].tolist() == [i for each in stored for i in each.tokens.ids.tolist()]
    assert tensors["words"].tolist() == [i for each in stored for i in each.tokens.words.tolist()]


def test_missing_streams_and_says_each_text_once(tmp_path: Path) -> None:
    store = ActivationStore.of(ODD, tmp_path)
    endless = (Text(str(i), (f"w{i // 2}",)) for i in count())

    assert [text.id for text in islice(store.missing(endless), 3)] == ["0", "2", "4"]


def test_a_second_run_encodes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    extract(ODD, corpus_from(SAMPLE_TEXTS), root=tmp_path)
    monkeypatch.setattr(TinyEncoder, "encode", lambda *args, **kwargs: pytest.fail("encoded again"))

    again = extract(ODD, corpus_from([*SAMPLE_TEXTS, SAMPLE_TEXTS[0]]), root=tmp_path)

    assert len(again) == len(SAMPLE_TEXTS) + 1


def test_what_was_left_out_is_counted(tmp_path: Path) -> None:
    text = Text("long", ("a", "b"))
    (plain,) = ODD.encode([text])
    tokens = plain.tokens._replace(unknown=1)
    store = ActivationStore.of(ODD, tmp_path)
    with store.writing() as writer:
        writer.add(text_key(text), Activations("long", tokens, plain.states, None, windows=3))

    stored = store.open([text, text])

    assert (stored.tokens, stored.unknown, stored.windowed) == (8, 2, 2)
    assert (stored[0].windows, stored[0].tokens.unknown) == (3, 1)


def test_an_estimate_counts_and_stores_nothing(tmp_path: Path) -> None:
    corpus = corpus_from(SAMPLE_TEXTS[:3])
    tokens = sum(len(ODD.tokenize(text).ids) for text in corpus)

    before = estimate(ODD, corpus, root=tmp_path)
    assert ActivationStore.of(ODD, tmp_path).shards == []
    extract(ODD, corpus.take(1), root=tmp_path)
    after = estimate(ODD, corpus, root=tmp_path)

    assert before[:5] == (3, 18, tokens, 3, tokens)
    assert before.disk_bytes == tokens * 3 * 5 * 2
    assert (after.missing_texts, after.missing_tokens) == (2, tokens - len(ODD.tokenize(SAMPLE_TEXTS[0]).ids))


def test_values_beyond_half_precision_are_kept_in_full(tmp_path: Path, assert_holds, keys_held, many_texts) -> None:
    huge = TinyEncoder(scale=1e6)
    store = ActivationStore.of(huge, tmp_path)
    assert ThisMachine(shard_bytes=4000).fill(huge, many_texts, store) == len(many_texts)

    assert json.loads((store.folder / "store.json").read_text())["kept"] == "float32"
    assert_holds(store, huge, many_texts, torch.float32)
    assert len(keys_held(store)) == len(many_texts)

    more = [Text("later", ("small", "words"))]
    ThisMachine().fill(huge, more, store)
    assert_holds(store, huge, [*many_texts, *more], torch.float32)


class Rotten(TinyEncoder):
    """Gives one value that is no number, in the text `bad`."""

    value = float("nan")

    def encode(self, texts, want=("states",), *, ordered=True):
        for text in texts:
            for activations in super().encode([text], want):
                if text.words == ("bad",):
                    activations.states[0, 0, 0] = self.value
                yield activations


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_what_is_no_number_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: float) -> None:
    monkeypatch.setattr(Rotten, "value", value)
    with pytest.raises(ModelError, match="not finite"):
        extract(Rotten(), corpus_from([["bad"]]), root=tmp_path)

    assert ActivationStore.of(Rotten(), tmp_path).shards == []


def test_nan_does_not_cost_what_was_stored(tmp_path: Path, assert_holds) -> None:
    good = Text("good", ("fine",))
    extract(Rotten(), corpus_from([good]), root=tmp_path)
    with pytest.raises(ModelError, match="not finite"):
        extract(Rotten(), corpus_from([["bad"]]), root=tmp_path)

    store = ActivationStore.of(Rotten(), tmp_path)
    assert store.head["kept"] == "float16"
    assert_holds(store, Rotten(), [good])


def test_maps_alone_cannot_be_stored(tmp_path: Path) -> None:
    (maps,) = ODD.encode([Text("a", ("b",))], ("maps",))
    with (
        pytest.raises(StoreError, match="has no states to store"),
        ActivationStore.of(ODD, tmp_path).writing() as writer,
    ):
        writer.add(b"0" * 16, maps)


def test_a_text_not_stored_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"text 'new' is not in .*lamina encode"):
        ActivationStore.of(ODD, tmp_path).open([Text("new", ("word",))])


def test_another_encoders_folder_is_refused(tmp_path: Path) -> None:
    folder = ActivationStore.of(ODD, tmp_path).folder
    head = read_json(folder / "store.json")
    write_json(folder / "store.json", head | {"fingerprint": "other", "encoder": "bert"})

    with pytest.raises(StoreError, match=r"belongs to another encoder \(bert\)"):
        ActivationStore.of(ODD, tmp_path)


def test_a_store_of_a_later_lamina_is_refused(tmp_path: Path) -> None:
    folder = ActivationStore.of(ODD, tmp_path).folder
    write_json(folder / "store.json", {"format": 99})

    with pytest.raises(StoreError, match="format 99"):
        ActivationStore.of(ODD, tmp_path)


def test_encoders_have_stores_of_their_own(tmp_path: Path) -> None:
    twins = [ODD, ODD.random_twin(), ODD.random_twin(keep_embeddings=True), TinyEncoder(heads=1, width=5, scale=2)]
    for encoder in twins:
        extract(encoder, corpus_from([["one"]]), root=tmp_path)

    assert len(stores(tmp_path)) == len(twins)


def test_where_stores_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAMINA_STORE", str(tmp_path / "there"))
    assert default_root() == tmp_path / "there"
    assert stores() == []
    monkeypatch.delenv("LAMINA_STORE")
    monkeypatch.setenv("LAMINA_CACHE", str(tmp_path / "cache"))
    assert default_root().is_relative_to(tmp_path / "cache")
