"""`lamina describe`, `lamina run` and `lamina results`: analyses, requests and results as data."""

from __future__ import annotations

import errno
import json
import os
import shutil
from pathlib import Path

import pandas as pd
import pytest

from lamina.cli.main import app
from lamina.framework.registry import get_analysis, names
from lamina.results import Provenance, Result
from lamina.results.folder import work_folder


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    path = tmp_path / "pets.txt"
    path.write_text("Dogs bark at cats .\nCats do not bark .\nThe dog saw the cat .\n")
    return path


@pytest.fixture
def request_file(tmp_path: Path, texts: Path, model_folder) -> Path:
    path = tmp_path / "request.toml"
    path.write_text(
        f'analysis = "geometry"\nmodel = "{model_folder("bert")}"\nstore = "{tmp_path / "store"}"\ndevice = "cpu"\n'
        f'[data]\nname = "{texts}"\nsplit = "all"\n[settings]\nsamples = 5\nmin_count = 2\n'
    )
    return path


@pytest.mark.parametrize("name", names())
def test_every_analysis_describes_itself(run, name: str) -> None:
    done = run("describe", name)
    assert done.exit_code == 0, done.output
    told = json.loads(done.output)
    assert told["name"] == name
    assert told["version"] >= 1
    assert told["title"]
    assert told["question"].endswith("?")
    assert told["tables"]
    for setting in told["settings"]["properties"].values():
        assert setting["description"][0].isupper()
        assert setting["description"].endswith(".")


def test_a_request_does_what_the_command_does(
    run, tmp_path: Path, request_file: Path, texts: Path, model_folder
) -> None:
    asked = run("run", request_file, "--out", tmp_path / "asked")
    assert asked.exit_code == 0, asked.output
    typed = run(
        "geometry", model_folder("bert"), "--corpus", texts, "--split", "all", "--samples", 5, "--min-count", 2,
        "--store", tmp_path / "store", "--device", "cpu", "--out", tmp_path / "typed",
    )  # fmt: skip
    assert typed.exit_code == 0, typed.output
    one, other = Result.load(tmp_path / "asked"), Result.load(tmp_path / "typed")
    assert one.key == other.key
    assert (tmp_path / "asked" / "layers.csv").read_bytes() == (tmp_path / "typed" / "layers.csv").read_bytes()
    assert one.findings
    assert asked.output.splitlines()[0] == f"{one.findings[0].status:<6} {one.findings[0].text}"


def test_a_dry_run_says_what_it_would_take(run, request_file: Path, tmp_path: Path) -> None:
    done = run("run", request_file, "--dry-run")
    assert done.exit_code == 0, done.output
    assert [line.split()[0] for line in done.output.splitlines()] == [
        "passes", "texts", "tokens", "steps", "CPU", "time", "memory", "disk", "states",
    ]  # fmt: skip
    assert not (tmp_path / "results").exists()


def test_a_folder_with_another_result_is_refused(run, request_file: Path, tmp_path: Path) -> None:
    assert run("run", request_file, "--out", tmp_path / "r").exit_code == 0
    request_file.write_text(request_file.read_text().replace("samples = 5", "samples = 6"))
    refused = run("run", request_file, "--out", tmp_path / "r")
    assert refused.exit_code == 2
    assert "holds another result" in refused.output
    assert run("run", request_file, "--out", tmp_path / "r", "--replace").exit_code == 0


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "cannot be read"),
        ("analysis = ", "is neither TOML nor JSON"),
        ("a = " + "[" * 100_000, "is nested too deeply"),
        ('{"a": ' + "[" * 100_000, "JSON nested deeper"),
        ('{"a": ' + "9" * 5_000 + "}", "more than 4,300 digits"),
        ('{"analysis": "geometri"}', "there is no analysis 'geometri'"),
        ("model = 'x'", "a request names its analysis"),
    ],
    ids=["absent", "cut", "deep-toml", "deep-json", "digits", "unknown", "unnamed"],
)
def test_a_wrong_request_file_gives_a_sentence(run, tmp_path: Path, content: str | None, said: str) -> None:
    path = tmp_path / "r.toml"
    if content is not None:
        path.write_text(content)
    done = run("run", path)
    assert done.exit_code == 2
    assert said in done.output


def test_results_are_listed_shown_and_removed(run, request_file: Path, tmp_path: Path) -> None:
    assert "no results in" in run("results", "ls", tmp_path / "r").output
    run("run", request_file, "--out", tmp_path / "r" / "one")
    listed = run("results", "ls", tmp_path / "r")
    assert "geometry" in listed.output
    assert "stopped" not in listed.output
    work = work_folder(tmp_path / "r" / "two", "0123456789abcdef")
    work.mkdir()
    (work / "weights").write_bytes(bytes(2_500_000))
    left = run("results", "ls", tmp_path / "r").output
    assert f"{work} (2.5 MB) is of a run that was stopped; the command that makes two continues it" in left
    shutil.rmtree(work)
    shown = run("results", "show", tmp_path / "r" / "one")
    assert shown.output.startswith("geometry (version ")
    assert "samples = 5" in shown.output
    assert "layers.csv" in shown.output
    (tmp_path / "mine").mkdir()
    refused = run("results", "rm", tmp_path / "mine", "--yes")
    assert refused.exit_code == 2
    assert (tmp_path / "mine").is_dir()
    assert run("results", "rm", tmp_path / "r" / "one", "--yes").exit_code == 0
    assert list((tmp_path / "r").iterdir()) == []


def test_a_full_disk_leaves_the_old_result_and_one_sentence(
    run, request_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    about = {"name": "m", "fingerprint": "f"}
    out = Result("geometry", {}, Provenance(about, about, {}, revision=None)).save(tmp_path / "r", charts=False)
    old = (out / "result.json").read_bytes()

    def fail(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(pd.DataFrame, "to_csv", fail)
    told = run("run", request_file, "--out", out, "--replace")

    assert told.exit_code == 2
    assert "lamina: the result was not saved: no space left on the disk for" in told.output
    assert "Traceback" not in told.output
    assert (out / "result.json").read_bytes() == old
    assert not list(tmp_path.glob(".*"))


@pytest.mark.parametrize("name", names())
def test_every_analysis_has_the_papers_it_cites(name: str) -> None:
    cited = get_analysis(name)
    assert cited.bibtex().count("\n@") + 1 == len(cited.cites) + 1


def test_analyses_and_results_are_cited_once_each(run, request_file: Path, tmp_path: Path) -> None:
    folder = tmp_path / "result"
    assert run("run", request_file, "--out", folder).exit_code == 0
    cited = run("cite", folder, "geometry", "attention-distance")
    assert cited.exit_code == 0, cited.output
    assert cited.output.count("@inproceedings{ethayarajh-2019") == cited.output.count("@software{lamina") == 1
    for wrong, said in (("geometri", "neither an analysis"), (tmp_path / "store", "no result in")):
        refused = run("cite", wrong)
        assert refused.exit_code == 2
        assert said in refused.output


def test_the_commands_of_analyses_are_those_of_the_list(run) -> None:
    shown = run("--help").output
    assert all(name.replace("_", "-") in shown for name in names())
    assert app.info.name == "lamina"


def test_underscores_stand_for_hyphens_and_chapters_order_the_list(run) -> None:
    assert run("token_map", "--help").output.replace("token_map", "token-map") == run("token-map", "--help").output
    listed = run("--help").output
    order = [listed.index(f"│ {name} ") for name in ("geometry", "probe", "attention-distance", "senses", "token-map")]
    assert order == sorted(order)


def test_help_begins_with_five_options_and_leaves_the_rest_to_headings(run) -> None:
    shown = run("heads", "--help").output
    first = shown[shown.index("─ Options") : shown.index("─ What is measured")]
    assert [line.split()[1] for line in first.splitlines() if line.startswith("│ --")] == [
        "--corpus", "--from", "--weights", "--limit", "--out", "--help",
    ]  # fmt: skip
    places = [shown.index(f"─ {heading}") for heading in ("What is measured", "Data", "Statistics", "Where it runs")]
    assert places == sorted(places)
    assert "p_adjusted" not in shown
    assert "lamina describe heads" in shown


def test_charts_that_failed_are_drawn_again_by_the_command_that_the_run_names(
    run, tmp_path: Path, request_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lamina.figures import geometry

    def fail(_: Result) -> dict:
        raise ValueError("no colours left")

    with monkeypatch.context() as patch:
        patch.setattr(geometry, "draw", fail)
        done = run("run", request_file, "--out", tmp_path / "r")
        again = run("results", "draw", tmp_path / "r")
    tables = {path.name: path.read_bytes() for path in (tmp_path / "r").glob("*.csv")}

    assert done.exit_code == 0, done.output
    assert tables
    advice = f"charts not drawn (ValueError: no colours left); `lamina results draw {tmp_path / 'r'}` tries again"
    assert advice in done.output
    assert "charts not drawn" in run("results", "show", tmp_path / "r").output
    assert again.exit_code == 1
    assert "no colours left" in again.output
    assert run("results", "draw", tmp_path / "r").exit_code == 0
    assert (tmp_path / "r" / "layers.svg").exists()
    assert not Result.load(tmp_path / "r").undrawn
    assert {path.name: path.read_bytes() for path in (tmp_path / "r").glob("*.csv")} == tables
