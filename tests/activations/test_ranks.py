"""Several writers of one store: by rank, at once, in two precisions, and refused where they do not belong together."""

from __future__ import annotations

import errno
import fcntl
from collections import Counter
from pathlib import Path

import pytest
import torch

from lamina.activations import ActivationStore, ThisMachine, problems
from lamina.activations.extraction import Rank, encode_rank, parse_rank, part_of, rank_of, slurm_rank
from lamina.activations.shards import WidenedError, shape_of
from lamina.corpora import corpus_from
from lamina.errors import InputError, StoreError
from lamina.files.writing import hidden_name
from lamina.models import Activations
from lamina.testing import TinyEncoder
from lamina.types import Text, text_key

ENCODER = TinyEncoder()
SHARD_BYTES = 8000


def encoded(text: Text, encoder: TinyEncoder = ENCODER) -> tuple[bytes, Activations]:
    return text_key(text), next(encoder.encode([text]))


def test_ranks_share_the_texts_evenly_and_so_do_the_workers_of_one_rank(many_texts) -> None:
    ranks = [list(part_of(corpus_from(many_texts), Rank(number, 4))) for number in range(4)]
    assert sorted(text.id for part in ranks for text in part) == sorted(text.id for text in many_texts)
    assert min(map(len, ranks)) > len(many_texts) / 8

    workers = Counter(rank_of(text_key(text), 4, within=True) for text in ranks[1])
    assert len(workers) == 4


def test_ranks_fill_one_store(tmp_path: Path, many_texts, keys_held, assert_holds) -> None:
    corpus = corpus_from(many_texts)
    done = [encode_rank(ENCODER, corpus, Rank(number, 3), root=tmp_path) for number in (2, 0, 1)]

    store = ActivationStore.of(ENCODER, tmp_path)
    assert [each.stored for each in done] == [sum(each.encoded for each in done[: n + 1]) for n in range(3)]
    assert done[-1].stored == done[-1].texts == len(many_texts)
    assert sorted(keys_held(store)) == sorted(text_key(text) for text in many_texts)
    assert_holds(store, ENCODER, many_texts)
    assert [path.name for path in tmp_path.iterdir()] == [store.folder.name], "the plan is gone when all is done"
    assert encode_rank(ENCODER, corpus, Rank(1, 3), root=tmp_path).encoded == 0


def test_writers_do_not_wait_for_each_other_and_store_nothing_twice(tmp_path: Path, keys_held, assert_holds) -> None:
    shared, first, second = Text("s", ("shared",)), Text("a", ("first",)), Text("b", ("second",))
    one, other = ActivationStore.of(ENCODER, tmp_path), ActivationStore.of(ENCODER, tmp_path)
    with one.writing() as mine:
        mine.add(*encoded(shared))
        mine.add(*encoded(first))
        with other.writing() as theirs:
            theirs.add(*encoded(shared))
            theirs.add(*encoded(second))
        with other.writing() as theirs:
            theirs.add(*encoded(shared))

    texts = [shared, first, second]
    assert sorted(keys_held(one)) == sorted(text_key(text) for text in texts)
    assert len(one.shards) == 2, "a shard of nothing new does not appear"
    assert_holds(one, ENCODER, texts)
    assert problems(one) == []


def test_what_others_store_meanwhile_is_not_encoded_again(tmp_path: Path, many_texts) -> None:
    store, other = ActivationStore.of(ENCODER, tmp_path), ActivationStore.of(ENCODER, tmp_path)
    missing = store.missing(many_texts)
    next(missing)
    ThisMachine().fill(ENCODER, many_texts, other)
    store.look_again()

    assert list(missing) == []


class HugeOnce(TinyEncoder):
    """One text has values that float16 cannot represent."""

    def encode(self, texts, want=("states",), *, ordered=True):
        for activations in super().encode(texts, want, ordered=ordered):
            if activations.text == text_key(HUGE).hex() or activations.text == HUGE.id:
                activations.states[0, 0, 0] = 1e6
            yield activations


HUGE = Text("huge", ("huge",))


def test_widening_keeps_what_is_there(tmp_path: Path, many_texts, keys_held) -> None:
    encoder, texts = HugeOnce(), [*many_texts[:150], HUGE, *many_texts[150:]]
    store = ActivationStore.of(encoder, tmp_path)

    assert ThisMachine(shard_bytes=SHARD_BYTES).fill(encoder, texts, store) == len(texts)

    precisions = Counter(shape_of(shard)[2] for shard in store.shards)
    assert precisions["float16"] > 2
    assert precisions["float32"] > 2
    assert store.head["kept"] == "float32"
    assert len(keys_held(store)) == len(texts)
    stored = store.open(texts)
    for kept, fresh in zip(stored, encoder.encode(texts), strict=True):
        assert kept.states.dtype == torch.float32
        assert torch.allclose(kept.states, fresh.states, rtol=1e-3, atol=1e-3)
    assert stored.load(150)[0, 0, 0] == 1e6
    assert torch.equal(stored.layer(1), torch.cat([each.states[:, 1] for each in stored]))
    assert stored.token_bytes == 3 * 16 * 4

    (store.folder / "store.json").unlink()
    assert ActivationStore.of(encoder, tmp_path).head["kept"] == "float32"


def test_a_rank_notices_at_its_next_shard_that_another_has_widened(tmp_path: Path, many_texts) -> None:
    own, other = ActivationStore.of(ENCODER, tmp_path), ActivationStore.of(ENCODER, tmp_path)
    added = []

    def write() -> None:
        with own.writing(SHARD_BYTES) as writer:
            for text in many_texts:
                writer.add(*encoded(text))
                added.append(text)
                if len(added) == 100:
                    other.widen()

    with pytest.raises(WidenedError):
        write()
    own.refresh()
    assert 100 <= len(own) == len(added) < len(many_texts), "what was gathered is stored"

    ThisMachine(shard_bytes=SHARD_BYTES).fill(ENCODER, many_texts, own)
    assert {shape_of(shard)[2] for shard in own.shards} == {"float16", "float32"}
    assert all(each.states.dtype == torch.float32 for each in own.open(many_texts))


def test_sweeping_leaves_alone_what_is_being_written(tmp_path: Path) -> None:
    store = ActivationStore.of(ENCODER, tmp_path)
    living = hidden_name(store.folder / "shard.safetensors")
    living.write_bytes(b"12345")

    assert store.sweep() == 0
    assert living.exists()


@pytest.mark.parametrize("number", [errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP])
def test_a_file_system_without_locks_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    def refuse(*_: object) -> None:
        raise OSError(number, "not here")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.raises(StoreError, match=r"file system without file locks.*--store FOLDER"):
        ActivationStore.of(ENCODER, tmp_path)


def test_a_rank_that_was_started_differently_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [Text(str(number), (f"w{number}",)) for number in range(40)]
    corpus = corpus_from(texts, name="words")
    encode_rank(ENCODER, corpus, Rank(0, 4), root=tmp_path)

    with pytest.raises(InputError, match=r"shard 1/4 .* the texts words .* another --limit.*delete .*shards\.json"):
        encode_rank(ENCODER, corpus.take(30), Rank(1, 4), root=tmp_path)
    with pytest.raises(InputError, match="that one has 4 shards, not 5"):
        encode_rank(ENCODER, corpus, Rank(1, 5), root=tmp_path)
    with pytest.raises(InputError, match="that one has the model tiny with other weights"):
        encode_rank(TinyEncoder(seed=1), corpus, Rank(1, 4), root=tmp_path)

    monkeypatch.setenv("SLURM_ARRAY_JOB_ID", "77")
    encode_rank(TinyEncoder(seed=1), corpus, Rank(1, 4), root=tmp_path)
    with pytest.raises(InputError, match=r"shards-77\.json"):
        encode_rank(ENCODER, corpus, Rank(2, 4), root=tmp_path)


@pytest.mark.parametrize("said", ["8/8", "9/8", "1", "a/b", "-1/8", "1/0", "1/", ""])
def test_shards_that_cannot_be(said: str) -> None:
    with pytest.raises(InputError, match="shard"):
        parse_rank(said)


def slurm(**said: int) -> dict[str, str]:
    return {f"SLURM_ARRAY_TASK_{name}": str(value) for name, value in said.items()}


def test_a_task_of_an_array_knows_its_rank() -> None:
    assert slurm_rank({}) is None
    assert slurm_rank(slurm(ID=0, COUNT=8, MIN=0, MAX=7)) == (0, 8)
    assert slurm_rank(slurm(ID=8, COUNT=8, MIN=1, MAX=8)) == (7, 8)
    assert slurm_rank(slurm(ID=12, COUNT=4, MIN=0, MAX=12, STEP=4)) == (3, 4)


@pytest.mark.parametrize(
    "said", [slurm(ID=7, COUNT=3, MIN=1, MAX=7), slurm(ID=3, COUNT=3, MIN=1, MAX=7), slurm(ID=3)], ids=str
)
def test_an_array_with_gaps_does_not_tell(said: dict[str, str]) -> None:
    with pytest.raises(InputError, match="give --shard"):
        slurm_rank(said)
