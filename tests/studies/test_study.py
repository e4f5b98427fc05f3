"""Running studies: the table, what is reused, what fails, and the ways to share the work out."""

from __future__ import annotations

import os
import signal
import stat
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

import lamina
from lamina.cli.main import main
from lamina.studies.declaration import read_study
from lamina.studies.plan import cells_of, read_record
from lamina.studies.running import CellProcesses, CellReply, Place, in_shard, portions_of, run_crew
from lamina.studies.table import CellRow, read_cells

NUMBERS = ["model", "analysis", "task", "layer", "measure", "value", "low", "high", "fingerprint"]


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """Runs `lamina study`; returns its exit status."""

    def run(*words: object) -> int:
        monkeypatch.setattr("sys.argv", ["lamina", "study", *map(str, words)])
        try:
            main()
        except SystemExit as stop:
            return int(stop.code or 0)
        return 0

    return run


def test_a_study_makes_the_numbers_of_its_analyses_once(
    study_file: Callable[..., Path], command: Callable[..., int], checkpoints: Path, treebank: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    path = study_file()
    assert command("run", path) == 0
    assert "6 of 6 cells are answered (0 were before)" in capsys.readouterr().out
    table = read_cells(Path("studies/tiny"))
    assert list(table.columns) == list(CellRow._fields)
    assert set(table["model"]) == {"tiny-step100", "tiny-step200", "tiny-step300"}
    assert set(table["revision"]) == {"100", "200", "300"}
    alone = lamina.geometry(str(checkpoints / "tiny-step200"), str(treebank), samples=20)
    expected = alone.tables["layers"]
    expected = expected[expected["model"] == alone.provenance.model["name"]].sort_values(["measure", "layer"])
    mine = table[(table["model"] == "tiny-step200") & (table["analysis"] == "geometry")]
    assert mine["measure"].str.endswith(", untrained twin").any()
    mine = mine[~mine["measure"].str.endswith(", untrained twin")].sort_values(["measure", "layer"])
    for column in ("value", "low", "high"):
        assert mine[column].tolist() == pytest.approx(expected.dropna(subset="value")[column].tolist(), nan_ok=True)
    assert mine["relative_depth"].max() == 1.0
    assert set(mine["fingerprint"]) == {alone.key}
    page = Path("studies/tiny/index.html").read_text()
    assert "6 of 6 cells are answered" in page
    assert (Path("studies/tiny/compared/geometry-own/result.json")).is_file()

    heads = [path.stat().st_mtime_ns for path in sorted(Path("studies/tiny/results").rglob("result.json"))]
    assert command("run", path) == 0
    assert "6 of 6 cells are answered (6 were before)" in capsys.readouterr().out
    assert heads == [path.stat().st_mtime_ns for path in sorted(Path("studies/tiny/results").rglob("result.json"))]
    pd.testing.assert_frame_equal(read_cells(Path("studies/tiny")), table)


def test_a_cell_that_fails_or_cannot_be_asked_does_not_stop_the_others(
    study_file: Callable[..., Path], command: Callable[..., int], capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    path = study_file("[analyses.corefheads]\n[[exclude]]\nmodel = 'tiny-step1*'\n")
    from lamina.analyses.layers.geometry import geometry

    function, calls = geometry.function, []

    def breaks(encoder, *given, **settings):
        calls.append(encoder.name)
        if encoder.name == "tiny-step200":
            raise ZeroDivisionError("planted")
        return function(encoder, *given, **settings)

    breaks.__signature__ = geometry.__signature__  # type: ignore[attr-defined]
    monkeypatch.setattr(geometry, "function", breaks)
    assert command("run", path) == 1
    output = capsys.readouterr()
    assert "3 of 6 cells are answered" in output.out
    assert "geometry/tiny-step200/own failed: ZeroDivisionError: planted" in output.err
    assert "corefheads/tiny-step300/own cannot be asked: " in output.err
    assert "geometry/tiny-step200/own" in Path("studies/tiny/index.html").read_text()
    assert command("status", path) == 0
    assert "3 answered" in (said := capsys.readouterr().out)
    assert "1 failed" in said
    assert "2 cannot be asked" in said
    monkeypatch.setattr(geometry, "function", function)
    assert command("run", path) == 0
    assert "4 of 6 cells are answered (3 were before)" in capsys.readouterr().out


def test_after_ctrl_c_the_same_command_goes_on(
    study_file: Callable[..., Path],
    command: Callable[..., int],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = study_file("[[exclude]]\nanalysis = 'heads'\n")
    from lamina.analyses.layers.geometry import geometry

    function, signature = geometry.function, geometry.__signature__

    def stopped(encoder, *given, **settings):
        if encoder.name == "tiny-step200":
            raise KeyboardInterrupt
        return function(encoder, *given, **settings)

    stopped.__signature__ = signature  # type: ignore[attr-defined]
    with monkeypatch.context() as patch:
        patch.setattr(geometry, "function", stopped)
        with pytest.raises(KeyboardInterrupt):
            command("run", path)
    assert "stopped: 1 of 3 cells are done; the same command goes on" in capsys.readouterr().err
    assert command("run", path) == 0
    assert "3 of 3 cells are answered (1 were before)" in capsys.readouterr().out


def test_a_dry_run_says_what_is_answered_and_what_cannot_be_asked_and_writes_nothing(
    study_file: Callable[..., Path], command: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    Path("plain-dev.txt").write_text("Dogs bark .\nCats do not .\n")
    path = study_file(
        "[analyses.plain]\nanalysis = 'heads'\ncorpora = ['plain-dev.txt']\n"
        "[[exclude]]\nmodel = ['tiny-step100', 'tiny-step200']\n"
    )
    assert command("run", path, "--dry-run") == 0
    lines = capsys.readouterr().out
    assert "3 cells: 0 answered, 1 cannot be asked, 2 to run" in lines
    assert "plain/tiny-step300/plain-dev.txt" in lines
    assert "has no dependencies" in lines
    assert "MB" in lines
    assert not Path("studies").exists()


def test_two_studies_do_not_write_one_folder(
    study_file: Callable[..., Path], command: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    more = "[[exclude]]\nmodel = ['tiny-step100', 'tiny-step200']\n[[exclude]]\nanalysis = 'heads'\n"
    first = study_file(more, name="first.toml")
    assert command("run", first, "--out", "both") == 0
    second = study_file(more.replace("tiny-step200", "tiny-step300"), name="second.toml")
    before = {path: path.stat().st_mtime_ns for path in Path("both").rglob("*")}
    assert command("run", second, "--out", "both") == 2
    assert f"{second}:1: both is the folder of the study tiny ({first})" in capsys.readouterr().err
    assert before == {path: path.stat().st_mtime_ns for path in Path("both").rglob("*")}


def test_shards_and_killed_processes_make_the_same_table(
    study_file: Callable[..., Path], command: Callable[..., int], tmp_path: Path
) -> None:
    path = study_file()
    study = read_study(path)
    cells = cells_of(study)
    for number in range(2):
        assert command("run", path, "--shard", f"{number}/2", "--out", "shards") == 0
    assert sorted(cell.name for number in range(2) for cell in in_shard(cells, number, 2)) == sorted(
        cell.name for cell in cells
    )
    place = Place(tmp_path / "crew")
    crew = CellProcesses(2, place)
    records, killed = [], []

    def kill_one(record) -> None:
        records.append(record)
        if not killed:
            busy = next(iter(crew._busy.values()))
            killed.append(crew.pids[busy])
            os.kill(killed[0], signal.SIGKILL)

    try:
        run_crew(cells, crew, place, kill_one)
    finally:
        crew.end()
    assert killed
    assert sorted(record.name for record in records if record.state == "answered") == sorted(c.name for c in cells)
    from lamina.studies.table import write_table

    write_table(place.out, cells)
    whole, shards = read_cells(place.out)[NUMBERS], read_cells(Path("shards"))[NUMBERS]
    pd.testing.assert_frame_equal(whole, shards)


class DyingCrew:
    """A worker that dies of one cell, always."""

    size = 1

    def send(self, worker: int, cells) -> None:
        self.cells = cells

    def reply(self) -> CellReply:
        return CellReply(0, [], "SIGKILL")

    def replace(self, worker: int) -> None: ...

    def end(self) -> None: ...


def test_a_cell_that_kills_its_process_twice_has_failed(study_file: Callable[..., Path], tmp_path: Path) -> None:
    cells = cells_of(read_study(study_file()))[:1]
    records = []
    run_crew(cells, DyingCrew(), Place(tmp_path / "out"), records.append)
    assert [record.state for record in records] == ["failed"]
    assert "died twice (SIGKILL)" in read_record(tmp_path / "out", cells[0]).why


def test_cells_that_read_maps_share_a_pass(study_file: Callable[..., Path]) -> None:
    cells = cells_of(read_study(study_file("[analyses.attention_distance]\n")))
    portions = [[cell.name for cell in portion] for portion in portions_of(cells)]
    assert ["heads/tiny-step100/own", "attention_distance/tiny-step100/own"] in portions
    assert ["geometry/tiny-step100/own"] in portions


def test_slurm_gets_an_array_of_shards(
    study_file: Callable[..., Path], command: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    more = "[[exclude]]\nmodel = 'tiny-step100'\n[[exclude]]\nanalysis = 'heads'\n"
    path = study_file(more)
    assert command("run", path, "--engine", "slurm", "--dry-run") == 0
    script = capsys.readouterr().out
    assert "#SBATCH --array=0-1" in script
    assert f'study run {path} --shard "$SLURM_ARRAY_TASK_ID/2"' in script
    assert not Path("studies").exists()
    # A stand-in for SLURM's own: runs the tasks one after the other.
    stand_in = tmp_path / "bin" / "sbatch"
    stand_in.parent.mkdir()
    stand_in.write_text(
        '#!/bin/sh\necho Submitted batch job 7\nfor task in 0 1; do SLURM_ARRAY_TASK_ID=$task sh "$1" || exit 1; done '
        "> /dev/null 2>&1\n"
    )
    stand_in.chmod(stand_in.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{stand_in.parent}:{os.environ['PATH']}")
    assert command("run", path, "--engine", "slurm") == 0
    assert "Submitted batch job 7" in capsys.readouterr().out
    assert command("status", path) == 0
    assert "2 answered" in capsys.readouterr().out


def test_mlflow_gets_a_run_for_every_cell_in_its_file_store(
    study_file: Callable[..., Path], command: Callable[..., int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mlflow = pytest.importorskip("mlflow", reason="no MLflow: pip install mlflow-skinny")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", (tmp_path / "runs").as_uri())
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    path = study_file("[[exclude]]\nmodel = 'tiny-step[12]*'\n[[exclude]]\nanalysis = 'heads'\n")
    path.write_text(path.read_text().replace('name = "tiny"', 'name = "tiny"\ntrack = "mlflow"'))
    assert command("run", path) == 0
    runs = {run.info.run_name: run for run in mlflow.search_runs(experiment_names=["tiny"], output_format="list")}
    assert set(runs) == {"geometry/tiny-step300/own", "tiny"}
    cell = runs["geometry/tiny-step300/own"]
    assert cell.data.params["model"] == "tiny-step300"
    table = read_cells(Path("studies/tiny"))
    value = float(table[(table["measure"] == "anisotropy") & (table["layer"] == 1)]["value"].iloc[0])
    assert cell.data.metrics["anisotropy/layer 1"] == pytest.approx(value)
    saved = {file.name for file in (tmp_path / "runs").rglob("*") if file.is_file()}
    assert {"index.html", "cells.parquet"} <= saved


def test_a_tracker_gets_every_cell_and_the_page(
    study_file: Callable[..., Path], command: Callable[..., int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own_tracker.py").write_text(
        "import json\nclass Track:\n"
        "    def __init__(self, study): self.study = study\n"
        "    def write(self, what):\n"
        "        with open('tracked.jsonl', 'a') as file: file.write(json.dumps(what) + '\\n')\n"
        "    def log_cell(self, name, about, metrics): self.write([self.study, name, about, metrics])\n"
        "    def log_files(self, files): self.write([path.name for path in files])\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    more = "[[exclude]]\nmodel = 'tiny-step[12]*'\n[[exclude]]\nanalysis = 'heads'\n"
    path = study_file(more)
    path.write_text(path.read_text().replace('name = "tiny"', 'name = "tiny"\ntrack = "own_tracker:Track"'))
    assert command("run", path) == 0
    cell, files = Path("tracked.jsonl").read_text().splitlines()
    assert '"geometry/tiny-step300/own"' in cell
    assert "anisotropy" in cell
    assert files == '["index.html", "cells.parquet"]'
    path.write_text(path.read_text().replace("own_tracker:Track", "nothing:here"))
    assert command("run", path) == 2
