"""`lamina encode --shard`, job arrays and engines, from the command line to the store."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from lamina.activations import ActivationStore, problems, stores
from lamina.activations.shards import read_index
from lamina.activations.workers import ProcessEngine
from lamina.errors import InputError
from lamina.framework.requests import read_request

PAGE = Path(__file__).parents[2] / "docs" / "methods" / "scale.md"
JOB = re.compile(r"```sbatch\n(.*?)```", re.DOTALL)


def entries(store: ActivationStore) -> int:
    return sum(len(read_index(shard.with_suffix(".arrow"))) for shard in store.shards)


def test_parts_make_the_whole(run: Callable, bert: Path, treebank: Path, store: Path) -> None:
    words = ("encode", bert, "--corpus", treebank, "--store", store)
    told = [run(*words, "--shard", f"{number}/3").output for number in (1, 0, 2)]

    assert re.search(r"shard 1/3: \d texts encoded; \d of 6 texts are stored by now", told[0])
    assert "6 of 6 texts are stored" in told[2]
    assert entries(stores(store)[0]) == 6
    assert "encoding with" not in run(*words).output, "nothing is left to do"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--shard", "8/8"], "shards are counted from 0, so give 0/8 to 7/8"),
        (["--shard", "three"], "as 0/8 or 7/8; got 'three'"),
        (["--shard", "0/2", "--repair"], "run it once without --shard"),
        (["--workers", "2"], "give --engine gpus or ray too"),
        (["--engine", "gpus", "--device", "cpu"], "give --workers N for N processes on the CPU"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_what_cannot_be_is_refused(
    run: Callable, bert: Path, treebank: Path, store: Path, words: list[str], said: str
) -> None:
    done = run("encode", bert, "--corpus", treebank, "--store", store, *words)

    assert done.exit_code == 2
    assert said in done.output
    assert [shard for each in stores(store) for shard in each.shards] == []


def test_a_task_with_other_texts_is_refused(
    run: Callable, bert: Path, treebank: Path, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"ID": 0, "COUNT": 2, "MIN": 0, "MAX": 1}.items():
        monkeypatch.setenv(f"SLURM_ARRAY_TASK_{name}", str(value))
    monkeypatch.setenv("SLURM_ARRAY_JOB_ID", "4")
    words = ("encode", bert, "--corpus", treebank, "--store", store)

    assert "encoding shard 0/2 (--shard 0/1 would encode all texts)" in run(*words).output
    refused = run(*words, "--limit", 5)
    assert refused.exit_code == 2
    assert "with another --limit or --unit" in refused.output
    assert "6 texts" in run(*words, "--shard", "0/1").output


def test_the_job_of_the_documentation_runs(bert: Path, treebank: Path, tmp_path: Path) -> None:
    (body,) = JOB.findall(PAGE.read_text(encoding="utf-8"))
    asked = f"--corpus {treebank} --device cpu"
    command = re.sub(r"lamina encode minilm --corpus ewt --split train", f"lamina encode {bert} {asked}", body)
    assert str(treebank) in command
    array = {"SLURM_ARRAY_JOB_ID": "9", "SLURM_ARRAY_TASK_COUNT": "2", "SLURM_ARRAY_TASK_MIN": "0"}
    here = os.environ | array | {"LAMINA_STORE": str(tmp_path / "store"), "LAMINA_CACHE": str(tmp_path / "cache")}
    here["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{here['PATH']}"
    tasks = [
        subprocess.Popen(
            ["bash", "-c", command],
            env=here | {"SLURM_ARRAY_TASK_ID": str(number)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for number in range(2)
    ]
    said = [task.communicate()[0] for task in tasks]

    assert [task.returncode for task in tasks] == [0, 0], said
    (store,) = stores(tmp_path / "store")
    assert entries(store) == len(store) == 6
    assert problems(store) == []
    assert any("6 of 6 texts are stored by now" in each for each in said)


def test_every_command_that_stores_states_has_an_engine(
    run: Callable, bert: Path, treebank: Path, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int | None] = []
    monkeypatch.setattr(ProcessEngine, "fill", lambda engine, *_, **__: asked.append(engine.workers) or 0)
    engine = ("--engine", "gpus", "--workers", 3, "--store", store, "--device", "cpu")
    for command in ("encode", "geometry"):
        run(command, bert, "--corpus", treebank, *engine)
    assert set(asked) == {3}
    assert len(asked) >= 2

    refused = run("heads", bert, "--corpus", treebank, *engine)
    assert refused.exit_code == 2
    assert "heads stores no states" in refused.output


def test_a_request_names_no_engine() -> None:
    with pytest.raises(InputError, match="a request has no 'engine'"):
        read_request({"analysis": "geometry", "model": "minilm", "engine": "ray"})
