"""A real Ray on this machine: its workers make the store of one process, also when one is killed."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from lamina.activations import ActivationStore, StoredActivations, extract, workers
from lamina.activations.runtime import engine_named
from lamina.activations.workers import RayEngine, Reply
from lamina.corpora import corpus_from
from lamina.errors import InputError
from lamina.testing import TinyEncoder
from lamina.types import Text, text_key

APART = 1e-3
"""Largest difference, as a share of a vector's norm."""


@pytest.fixture(scope="module")
def ray() -> Iterator[object]:
    """Ray with two CPUs, whatever this machine has."""
    library = pytest.importorskip("ray", reason='no Ray: pip install "lamina[ray]"')
    # Sockets have short paths, shorter than those of pytest's folders.
    with tempfile.TemporaryDirectory(prefix="ray", ignore_cleanup_errors=True) as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
        small = {"num_cpus": 2, "num_gpus": 0, "object_store_memory": 80 * 2**20}
        library.init(**small, include_dashboard=False, log_to_driver=False, logging_level="ERROR", _temp_dir=folder)
        yield library
        library.shutdown()


def furthest(one: StoredActivations, other: StoredActivations) -> float:
    """The largest distance between two vectors of one token, as a share of their norm."""
    return max(
        float(((a - b).norm(dim=-1) / b.norm(dim=-1)).max())
        for a, b in ((one.load(at).float(), other.load(at).float()) for at in range(len(one)))
    )


def test_two_workers_make_the_store_of_one_process_though_one_is_killed(
    ray, tmp_path: Path, many_texts, keys_held, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    # Not one of transformers, which takes each worker three times as long to start; `benchmarks/workers.py` has those.
    encoder, corpus = TinyEncoder(), corpus_from(many_texts)
    alone = extract(encoder, corpus, root=tmp_path / "1")
    pids: list[int] = []
    send, wait = workers._Actors.send, workers._Actors.reply

    def send_noting(crew: workers._Actors, rank: int, given: list[Text]) -> None:
        if not pids:
            pids.append(ray.get(crew._actors[rank].pid.remote()))
        send(crew, rank, given)

    def kill_when_a_shard_is_there(crew: workers._Actors) -> Reply:
        if len(pids) == 1:
            while not list((tmp_path / "2").glob("*/*.arrow")):
                time.sleep(0.01)
            os.kill(pids[0], signal.SIGKILL)
            pids.append(0)
        return wait(crew)

    monkeypatch.setattr(workers._Actors, "send", send_noting)
    monkeypatch.setattr(workers._Actors, "reply", kill_when_a_shard_is_there)
    two = extract(encoder, corpus, root=tmp_path / "2", engine=RayEngine(workers=2, shard_bytes=8000))

    assert "worker 0 died" in capsys.readouterr().err
    assert furthest(alone, two) < APART
    for number in (1, 2):
        store = ActivationStore.of(encoder, tmp_path / str(number))
        assert sorted(keys_held(store)) == sorted(text_key(text) for text in many_texts)


def test_tasks_run_in_processes_of_their_own_and_an_error_of_one_is_raised(ray, tmp_path: Path) -> None:
    folder = str(tmp_path)

    def told(number: int):
        return lambda: Path(folder, str(number)).write_text(str(os.getpid()))

    def fail() -> None:
        raise InputError("this cannot be")

    # One worker, whose process is there for the second call too: each takes seconds to import what it needs.
    engine = RayEngine(workers=1)
    engine.run_tasks([told(number) for number in range(2)], what="telling", device="cpu")
    with pytest.raises(InputError, match="this cannot be"):
        engine.run_tasks([fail], what="failing", device="cpu")

    pids = {path.read_text() for path in tmp_path.iterdir()}
    assert len(list(tmp_path.iterdir())) == 2
    assert str(os.getpid()) not in pids


def test_without_ray_it_is_said_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(InputError, match=r"pip install 'lamina\[ray\]'"):
        engine_named("ray")


def test_a_study_by_two_actors_has_the_table_of_one_process_though_one_is_killed(
    ray, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lamina.studies.declaration import parse_study
    from lamina.studies.plan import cells_of
    from lamina.studies.running import Place, RayCells, run_crew, run_here
    from lamina.studies.table import read_cells, write_table
    from tests.studies.tiny_study import STUDY, write_checkpoints, write_treebank

    (tmp_path / "models").mkdir()
    models, treebank = write_checkpoints(tmp_path / "models"), write_treebank(tmp_path)
    study = parse_study(STUDY.format(models=models, treebank=treebank), tmp_path / "study.toml")
    cells = [cell for cell in cells_of(study) if cell.model != "tiny-step300"]
    here = Place(tmp_path / "here", tmp_path / "store")
    run_here(cells, here, lambda record: None)
    place, killed = Place(tmp_path / "actors", tmp_path / "store"), []
    crew = RayCells(2, place)

    def kill_one(record) -> None:
        if not killed:
            killed.append(crew.pids[next(iter(crew._busy.values()))])
            os.kill(killed[0], signal.SIGKILL)

    try:
        run_crew(cells, crew, place, kill_one)
    finally:
        crew.end()
    assert killed
    tables = []
    for one in (here, place):
        write_table(one.out, cells)
        tables.append(read_cells(one.out).drop(columns=["seconds"]))
    assert len(tables[0]) > 100
    assert tables[0].equals(tables[1])
