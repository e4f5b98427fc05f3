"""Engines with several processes: the same store as by one, also when a worker is killed; encoders that travel."""

from __future__ import annotations

import os
import pickle
import signal
import time
from pathlib import Path

import pytest
import torch

from lamina import progress
from lamina.activations import ActivationStore, extract, workers
from lamina.activations.runtime import engine_named
from lamina.activations.workers import EncodingJob, ProcessEngine, Reply, Worker, deal
from lamina.corpora import corpus_from
from lamina.errors import InputError, ModelError, StoreError
from lamina.models import load_encoder
from lamina.models.loading import ByName
from lamina.models.running.reloading import ByWeights, loader_of
from lamina.models.running.variants import DropoutEncoder, LexicalFirst
from lamina.testing import SAMPLE_TEXTS, TinyEncoder
from lamina.types import Text, text_key

ENCODER = TinyEncoder()


class Crew:
    """Workers that only note what they get; those of `dying` ranks die so often before they do."""

    def __init__(self, size: int, dying: dict[int, int] | None = None) -> None:
        self.size = size
        self.got: list[tuple[int, list[str]]] = []
        self.replaced: list[int] = []
        self._dying = dying or {}
        self._busy: list[int] = []

    def send(self, rank: int, texts) -> None:
        assert rank not in self._busy
        self._busy.append(rank)
        self.got.append((rank, [text.id for text in texts]))

    def reply(self) -> Reply:
        rank = self._busy.pop()
        if self._dying.get(rank, 0):
            self._dying[rank] -= 1
            self.got.pop(max(at for at, (of, _) in enumerate(self.got) if of == rank))
            return Reply(rank, "SIGKILL")
        return Reply(rank, None)

    def replace(self, rank: int) -> None:
        self.replaced.append(rank)


def test_every_text_is_dealt_once_whoever_dies(many_texts, capsys: pytest.CaptureFixture) -> None:
    crew = Crew(3, {1: 2})
    advanced: list[float] = []

    assert deal(many_texts, crew, None, lambda by=1, note=None: advanced.append(by)) == len(many_texts)

    assert sorted(name for _, names in crew.got for name in names) == sorted(text.id for text in many_texts)
    assert crew.replaced == [1, 1]
    assert sum(advanced) == len(many_texts)
    assert "worker 1 died (SIGKILL); it is replaced" in capsys.readouterr().err


def test_texts_are_read_as_they_are_needed(many_texts, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "_MOST_TEXTS", 10)
    read = 0

    class Looking(Crew):
        def reply(self) -> Reply:
            assert read <= len([name for _, names in self.got for name in names]) + 10 * 3 * self.size
            return super().reply()

    def stream():
        nonlocal read
        for text in many_texts:
            read += 1
            yield text

    assert deal(stream(), Looking(2), None, lambda by=1, note=None: None) == len(many_texts)


def test_a_worker_that_always_dies_is_given_up(many_texts) -> None:
    with pytest.raises(StoreError, match=r"worker 0 died 3 times in a row \(SIGKILL\).*fewer --workers"):
        deal(many_texts, Crew(2, {0: 9}), None, lambda by=1, note=None: None)


def test_two_processes_make_the_same_store_though_one_is_killed(
    tmp_path: Path, many_texts, keys_held, assert_holds, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    killed: list[int] = []
    wait = workers._Processes.reply

    def kill_one_first(crew: workers._Processes) -> Reply:
        if not killed:
            while not list(tmp_path.glob("*/*.arrow")):
                time.sleep(0.01)
            killed.append(crew.pids[0])
            os.kill(crew.pids[0], signal.SIGKILL)
        return wait(crew)

    monkeypatch.setattr(workers._Processes, "reply", kill_one_first)
    stored = extract(ENCODER, corpus_from(many_texts), root=tmp_path, engine=ProcessEngine(workers=2, shard_bytes=8000))

    store = ActivationStore.of(ENCODER, tmp_path)
    assert len(stored) == len(many_texts)
    assert sorted(keys_held(store)) == sorted(text_key(text) for text in many_texts)
    assert_holds(store, ENCODER, many_texts)
    assert "worker 0 died (SIGKILL); it is replaced" in capsys.readouterr().err
    store.sweep()
    assert store.damaged() == []


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
def test_two_processes_share_a_card(bert, tmp_path: Path, keys_held) -> None:
    folder = bert.recipe.name
    texts = [Text(f"t{number}", ("the", "lazy", "dog", f"runs{number}")) for number in range(80)]
    stored = []
    for device, engine in (("cpu", None), ("cuda", ProcessEngine(workers=2))):
        encoder = load_encoder(folder, device=device)
        stored.append(extract(encoder, corpus_from(texts), root=tmp_path / device, engine=engine))
        assert len(keys_held(ActivationStore.of(encoder, tmp_path / device))) == len(texts)

    for one, other in zip(*stored, strict=True):
        assert float(((one.states - other.states).float().norm(dim=-1) / one.states.float().norm(dim=-1)).max()) < 1e-3


def test_without_a_gpu_the_number_of_processes_has_to_be_said(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"one process per GPU.*--workers N"):
        extract(ENCODER, corpus_from([["one"]]), root=tmp_path, engine=engine_named("gpus"))


def test_there_are_two_engines() -> None:
    with pytest.raises(InputError, match="there is no engine 'dask'; there are gpus and ray"):
        engine_named("dask")  # pyright: ignore[reportArgumentType]
    with pytest.raises(InputError, match="at least 1 worker"):
        engine_named("gpus", 0)


@pytest.fixture(scope="module")
def bert(model_folder):
    return load_encoder(str(model_folder("bert")), device="cpu", limit=24)


def test_an_encoder_travels_by_its_name_or_by_its_weights(bert) -> None:
    twin = bert.random_twin(3)
    travelling = {
        "named": bert,
        "twin": twin,
        "half": twin.random_twin(4, keep_embeddings=True),
        "dropout": LexicalFirst(DropoutEncoder(bert, 2)),
        "twin of that": LexicalFirst(DropoutEncoder(bert, 2)).random_twin(1),
        "one segment": bert.with_one_segment(),
    }
    assert isinstance(loader_of(bert), ByName)
    assert isinstance(loader_of(twin), ByWeights)
    for name, encoder in travelling.items():
        made = pickle.loads(pickle.dumps(loader_of(encoder))).make("cpu")  # noqa: S301
        assert made.fingerprint == encoder.fingerprint, name
        (here,), (there,) = (list(each.encode(SAMPLE_TEXTS[:1])) for each in (encoder, made))
        assert torch.allclose(here.states, there.states, atol=1e-5), name


def test_a_worker_refuses_another_model_and_a_store_it_does_not_see(
    bert, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A worker switches it off for its whole process, which is this one here.
    monkeypatch.setenv(progress.VARIABLE, "lines")
    job = EncodingJob.of(bert, ActivationStore.of(bert, tmp_path))
    assert Worker(job, "cpu", 1).encode(list(SAMPLE_TEXTS)) is None
    other = EncodingJob(loader_of(bert.random_twin(1)), "bert", job.fingerprint, None, job.folder)
    elsewhere = EncodingJob(job.loader, "bert", job.fingerprint, None, tmp_path / "nowhere")

    faults = [Worker(each, "cpu", 1).encode(list(SAMPLE_TEXTS)) for each in (other, elsewhere)]

    assert [type(each) for each in faults] == [ModelError, StoreError]
    assert "another model on" in str(faults[0])
    assert "--store that all machines share" in str(faults[1])
