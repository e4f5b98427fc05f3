"""No room is said before the work begins, with what would fit; states come back in the precision they were kept in."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from lamina.activations import ActivationStore, ThisMachine, estimate, extract, extraction
from lamina.activations.extraction import check_disk
from lamina.activations.store import default_precision
from lamina.corpora import corpus_from
from lamina.errors import InputError, ModelError, RoomError
from lamina.models.running import devices
from lamina.models.running.devices import free_in_memory
from lamina.testing import TinyEncoder
from lamina.types import Text

BRAIN = torch.bfloat16


class Brainy(TinyEncoder):
    """Computes in bfloat16, with values beyond what float16 can represent."""

    dtype = BRAIN
    times = 1e6

    def encode(self, texts, want=("states",), *, ordered=True):
        for made in super().encode(texts, want, ordered=ordered):
            if made.states is not None:
                made.states.mul_(self.times).copy_(made.states.to(BRAIN))
            yield made


@pytest.mark.parametrize("shard_bytes", [1000, 2**20])
def test_bfloat16_is_kept_as_it_is(tmp_path: Path, assert_holds, many_texts, shard_bytes: int) -> None:
    encoder, texts = Brainy(), many_texts[:24]
    store = ActivationStore.of(encoder, tmp_path)
    ThisMachine(shard_bytes=shard_bytes).fill(encoder, texts, store)
    assert store.head["kept"] == default_precision(encoder) == "bfloat16"
    assert_holds(store, encoder, texts, BRAIN)
    fresh = torch.cat([made.states for made in encoder.encode(texts)])
    assert fresh.abs().max() > 65504
    assert torch.equal(store.open(texts).layer(1).float(), fresh[:, 1])
    assert store.open(texts).token_bytes == 2 * encoder.layers * encoder.width
    assert load_file(store.shards[0])["states"].dtype == BRAIN
    # The shards alone tell the precision.
    (store.folder / "store.json").unlink()
    assert ActivationStore.of(encoder, tmp_path).head["kept"] == "bfloat16"


def test_bfloat16_that_is_no_number_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Brainy, "times", float("inf"))
    with pytest.raises(ModelError, match="not finite"):
        extract(Brainy(), corpus_from([Text("a", ("one", "word"))]), root=tmp_path)


@pytest.mark.parametrize("kept", ["float16", "bfloat16", "float32"])
def test_the_precision_that_was_asked_for(tmp_path: Path, many_texts, kept: str) -> None:
    corpus = corpus_from(many_texts[:5])
    # Nothing is stored yet, so nothing stands in the way of another precision.
    ActivationStore.of(TinyEncoder(), tmp_path)
    expected = estimate(TinyEncoder(), corpus, root=tmp_path, precision=kept)
    stored = extract(TinyEncoder(), corpus, root=tmp_path, precision=kept)
    assert stored[0].states.dtype == getattr(torch, kept)
    assert expected.disk_bytes == stored.tokens * stored.token_bytes
    # Without a wish, what is there; with another one, a sentence.
    assert extract(TinyEncoder(), corpus, root=tmp_path)[0].states.dtype == getattr(torch, kept)
    other = "float32" if kept != "float32" else "bfloat16"
    with pytest.raises(InputError, match=f"keeps {kept}, not {other}; leave out --precision"):
        extract(TinyEncoder(), corpus, root=tmp_path, precision=other)


def test_a_full_disk_is_foreseen_and_what_is_told_fits(tmp_path: Path, monkeypatch, many_texts) -> None:
    encoder = TinyEncoder()
    store = ActivationStore.of(encoder, tmp_path)
    free = 60_000
    monkeypatch.setattr(extraction, "free_on_disk", lambda _: free)
    with pytest.raises(RoomError) as caught:
        extract(encoder, corpus_from(many_texts), root=tmp_path)
    assert re.fullmatch(
        rf"the states of 300 texts need about \d+ KiB, 59 KiB are free in {store.folder}; --limit \d+ would fit, or "
        "give a folder on another disk with --store",
        str(caught.value),
    )
    assert not store.shards
    fitting = int(str(caught.value).split("--limit ")[1].split()[0])
    extract(encoder, corpus_from(many_texts[:fitting]), root=tmp_path)
    written = sum(path.stat().st_size for shard in store.shards for path in (shard, shard.with_suffix(".arrow")))
    # A header and a page of padding come with every shard.
    assert 0.8 * free < written < free + 10_000
    # What is stored already needs no room: only the rest counts, and a limit counts from the first text on.
    with pytest.raises(RoomError, match=f"the states of {300 - fitting} texts need") as again:
        extract(encoder, corpus_from(many_texts), root=tmp_path)
    assert int(str(again.value).split("--limit ")[1].split()[0]) > 1.5 * fitting


def test_a_sample_tells_the_size(tmp_path: Path, monkeypatch, many_texts) -> None:
    encoder = TinyEncoder()
    store = ActivationStore.of(encoder, tmp_path)
    exact = estimate(encoder, corpus_from(many_texts), root=tmp_path).disk_bytes
    told: list[int] = []
    monkeypatch.setattr(extraction, "_SAMPLED", 20)
    monkeypatch.setattr(extraction, "refuse_without_room", lambda _, need, *__, **___: told.append(need))
    assert check_disk(encoder, many_texts, store) == 300
    assert told[0] == pytest.approx(exact, rel=0.25)


def test_memory_is_what_the_narrowest_group_leaves(tmp_path: Path, monkeypatch) -> None:
    """Version 2 with a limit on the parent, and version 1; files that were only read do not count as used."""
    for folder, limit, usage, cached in (
        ("job", "memory.max", "memory.current", "inactive_file"),
        ("memory/batch", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
    ):
        (tmp_path / folder / "step").mkdir(parents=True)
        (tmp_path / folder / limit).write_text("5000000\n")
        (tmp_path / folder / usage).write_text("4000000\n")
        (tmp_path / folder / "memory.stat").write_text(f"anon 7\n{cached} 1500000\n")
    (tmp_path / "job" / "step" / "memory.max").write_text("max\n")
    (tmp_path / "memory" / "batch" / "memory.usage_in_bytes").write_text("4750000\n")
    monkeypatch.setattr(devices, "_CGROUPS", tmp_path)
    groups = tmp_path / "cgroup"
    monkeypatch.setattr(devices, "_PROCESS_GROUPS", groups)
    groups.write_text("0::/job/step\n")
    assert free_in_memory() == 2_500_000
    groups.write_text("4:cpu,memory:/batch/step\n0::/job/step\n")
    assert free_in_memory() == 1_750_000
    groups.write_text("0::/elsewhere\n")
    assert free_in_memory() > 2_500_000
