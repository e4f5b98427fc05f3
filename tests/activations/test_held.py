"""States held in memory instead of a store: the same numbers, nothing written, each text encoded once."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from lamina import corpus_from, geometry
from lamina.activations import ActivationStore, ResidentActivations, Runtime, StoredActivations, runtime
from lamina.activations import extraction as residence
from lamina.activations.extraction import Residence, choose_residence
from lamina.activations.in_memory import DistinctTexts, encode_resident
from lamina.activations.reading import WordVectors, sum_rows, sum_sorted_rows
from lamina.corpora import Corpus
from lamina.errors import ModelError
from lamina.testing import TinyEncoder
from lamina.types import Text

GIB = 2**30


class Counting(TinyEncoder):
    """Counts the texts that it has encoded."""

    encoded = 0

    def encode(self, texts, want=("states",), *, ordered=True):
        for each in super().encode(texts, want, ordered=ordered):
            self.encoded += 1
            yield each


@pytest.fixture
def corpus(many_texts: list[Text]) -> Corpus:
    """60 texts, three of them twice."""
    again = (Text(f"again-{text.id}", text.words) for text in many_texts[5:8])
    return corpus_from([*many_texts[:60], *again], name="many")


def test_held_states_are_what_a_store_gives(corpus: Corpus, tmp_path: Path) -> None:
    stored = Runtime(tmp_path).extract(TinyEncoder(), corpus)
    held = Runtime(tmp_path / "none", keep=False).extract(TinyEncoder(), corpus)
    assert isinstance(stored, StoredActivations)
    assert isinstance(held, ResidentActivations)
    for about in ("tokens", "unknown", "windowed", "token_bytes"):
        assert getattr(held, about) == getattr(stored, about)
    for index, (mine, theirs) in enumerate(zip(held, stored, strict=True)):
        assert (mine.text, mine.windows, held.size(index)) == (theirs.text, theirs.windows, stored.size(index))
        assert mine.tokens.words.tolist() == theirs.tokens.words.tolist()
        assert torch.equal(mine.states, theirs.states)
        start = held.start(index)
        assert torch.equal(held.resident[start : start + held.size(index)], theirs.states)
    lengths = [len(text.words) for text in corpus]
    for layer in range(3):
        assert torch.equal(held.layer(layer), stored.layer(layer))
        assert torch.equal(WordVectors(held, lengths).layer(layer), WordVectors(stored, lengths).layer(layer))


def test_each_text_is_encoded_once_and_nothing_is_written(corpus: Corpus, tmp_path: Path) -> None:
    encoder, where = Counting(), Runtime(tmp_path / "store", keep=False)
    first = where.extract(encoder, corpus)
    # Another analysis, and a part of the same texts.
    assert where.extract(encoder, corpus).resident is first.resident
    assert where.extract(encoder, corpus.take(9)).resident is first.resident
    assert encoder.encoded == 60
    assert not (tmp_path / "store").exists()


def test_the_shelf_is_bounded(corpus: Corpus) -> None:
    where = Runtime(keep=False)
    for seed in range(12):
        where.extract(TinyEncoder(seed=seed), corpus.take(2))
    assert len(where.shelf._blocks) == 8
    assert where.shelf.find(TinyEncoder(seed=0), DistinctTexts.of(corpus.take(2))) is None
    assert where.shelf.find(TinyEncoder(seed=11), DistinctTexts.of(corpus.take(2))) is not None


def test_more_tokens_than_expected_are_held_too(corpus: Corpus) -> None:
    listed = DistinctTexts.of(corpus)
    short = encode_resident(TinyEncoder(), listed, device="cpu", dtype=torch.float16, expected=3)
    assert torch.equal(short.states, encode_resident(TinyEncoder(), listed, device="cpu", dtype=torch.float16).states)


def test_what_float16_cannot_hold_is_held_in_float32(corpus: Corpus, tmp_path: Path) -> None:
    huge = TinyEncoder(scale=1e6)
    held = Runtime(tmp_path, keep=False).extract(huge, corpus)
    assert held.load(0).dtype == torch.float32
    assert torch.equal(held[0].states, next(iter(huge.encode(corpus))).states)


def test_values_that_are_no_numbers_are_an_error(corpus: Corpus) -> None:
    broken = TinyEncoder(scale=float("nan"))
    with pytest.raises(ModelError, match="not finite"):
        Runtime(keep=False).extract(broken, corpus)


@pytest.fixture
def held_and_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a GPU with --keep."""
    monkeypatch.setattr(runtime, "choose_residence", lambda *_, **__: Residence("cpu", True, "held and stored"))


@pytest.mark.usefixtures("held_and_kept")
@pytest.mark.parametrize("scale", [1.0, 1e6], ids=["float16", "float32"])
def test_held_and_kept_encodes_once(scale: float, corpus: Corpus, tmp_path: Path, assert_holds) -> None:
    encoder = Counting(scale=scale)
    held = Runtime(tmp_path, keep=True).extract(encoder, corpus)
    # Once in float16 as far as the first batch, if that does not do.
    encoded = encoder.encoded
    assert encoded == (60 if scale == 1 else 120)
    assert_holds(ActivationStore.of(encoder, tmp_path), TinyEncoder(scale=scale), list(corpus), held.load(0).dtype)
    # Another run reads the store.
    again = Runtime(tmp_path, keep=True).extract(encoder, corpus)
    assert isinstance(again, ResidentActivations)
    assert encoder.encoded == encoded
    assert all(torch.equal(again.load(index), held.load(index)) for index in range(len(held)))


@pytest.mark.parametrize(
    ("need", "keep", "device", "said"),
    [
        (5 * GIB, None, "cuda:0", "held on cuda:0: 5.0 GiB of 100 GiB free"),
        (5 * GIB, True, "cuda:0", "held on cuda:0 and stored (--keep): 5.0 GiB of 100 GiB free"),
        (70 * GIB, None, "cpu", "held in memory: 70 GiB of 200 GiB free; more than 60% of the 100 GiB free on cuda:0"),
        (150 * GIB, None, None, "stored: 150 GiB do not fit 60% of the 100 GiB free on cuda:0 or 50% of the 200 GiB"),
    ],
)
def test_card_then_memory_then_disk(
    need: int, keep: bool | None, device: str | None, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(residence, "device_of", lambda _: "cuda:0")
    monkeypatch.setattr(residence, "free_on_card", lambda _: 100 * GIB)
    monkeypatch.setattr(residence, "free_in_memory", lambda: 200 * GIB)
    found = choose_residence(TinyEncoder(), need, keep=keep)
    assert found.device == device
    assert said in found.why
    assert found.stored == (device is None or bool(keep))


def test_a_dry_run_says_which_way_is_taken(corpus: Corpus, tmp_path: Path) -> None:
    asked = {"samples": 5, "twin": False, "store": tmp_path / "store"}
    stored, held = (geometry.estimate(TinyEncoder(), corpus, keep=keep, **asked) for keep in (None, False))
    assert stored.states == ("stored: --keep is the default on a CPU",)
    assert stored.disk == stored.tokens * 3 * 16 * 2
    assert held.states[0].startswith("held in memory: ")
    assert held.disk == 0
    assert f"states   {held.states[0]}" in str(held)
    assert not (tmp_path / "store").exists()


def test_sums_in_the_way_of_a_gpu_are_those_of_a_cpu() -> None:
    rows, group = torch.arange(12.0).view(6, 2), torch.tensor([3, 0, 0, 1, 3, 3])
    order = group.argsort(stable=True)
    assert torch.equal(sum_sorted_rows(rows[order], torch.bincount(group, minlength=5)), sum_rows(rows, group, 5))
