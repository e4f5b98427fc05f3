"""Saved results are checked when they are read: damage and odd content end in one sentence, never in other numbers."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lamina.errors import DamagedError, ResultError
from lamina.files.checking import write_json
from lamina.results import Provenance, Result
from lamina.results.finding import Finding
from lamina.results.folder import check_listed, is_as_saved, leftovers, read_head, work_folder
from lamina.results.result import check_result

ABOUT = {"name": "m", "fingerprint": "f"}
PROVENANCE = Provenance(ABOUT, ABOUT, {"samples": 3}, command="lamina demo m")
TABLE = pd.DataFrame({"layer": [0, 1, 2], "label": ["a", "b", ""], "value": [0.5, 0.25, float("nan")]})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "weights").write_bytes(bytes(range(256)) * 8)
    findings = (Finding("Layer 0 is best", "lead", "clear", 0.5),)
    files = {"model.safetensors": tmp_path / "weights"}
    result = Result("demo", {"scores": TABLE}, PROVENANCE, files, findings)
    return result.save(tmp_path / "r", charts=False)


def rewrite(folder: Path, **changed: Any) -> None:
    """Another head, with a checksum of its own."""
    head = read_head(folder) | changed
    write_json(folder / "result.json", {name: value for name, value in head.items() if value is not None})


@given(place=st.integers(0, 1 << 20), bit=st.integers(0, 7), name=st.sampled_from(["result.json", "scores.csv", "w"]))
def test_a_flipped_bit_is_noticed_or_harmless(
    tmp_path_factory: pytest.TempPathFactory, place: int, bit: int, name: str
) -> None:
    place_of = tmp_path_factory.getbasetemp()
    (place_of / "weights").write_bytes(b"weights" * 20)
    files = {"w": place_of / "weights"}
    made = Result("demo", {"scores": TABLE}, PROVENANCE, files, (Finding("it is so", "lead", "open", 0.5),))
    folder = made.save(place_of / "flipped", charts=False, replace=True)
    content = bytearray((folder / name).read_bytes())
    content[place % len(content)] ^= 1 << bit
    (folder / name).write_bytes(content)

    try:
        found = Result.load(folder)
    except ResultError:
        return
    assert name == "result.json"
    pd.testing.assert_frame_equal(found.tables["scores"], TABLE, check_exact=True)
    assert (found.provenance, found.findings) == (made.provenance, made.findings)


@pytest.mark.parametrize("name", ["scores.csv", "model.safetensors"])
@pytest.mark.parametrize("damage", ["flipped", "cut", "gone"])
def test_damage_names_the_file_and_the_command(folder: Path, name: str, damage: str) -> None:
    content = bytearray((folder / name).read_bytes())
    content[len(content) // 2] ^= 1
    (folder / name).write_bytes(content[:-3] if damage == "cut" else content)
    if damage == "gone":
        (folder / name).unlink()

    with pytest.raises(ResultError, match=f"{name}.*; make it again with `lamina demo m`"):
        Result.load(folder)
    with pytest.raises(DamagedError, match=f"{name} is missing or damaged; make it again with `lamina demo m`"):
        check_listed(folder)
    assert [problem.split(" is ")[0] for problem in check_result(folder)] == [str(folder / name)]
    assert not is_as_saved(folder, name)


def test_a_change_that_keeps_size_and_time_is_found_by_a_full_check(folder: Path) -> None:
    path = folder / "model.safetensors"
    os.utime(path, (1, 1))
    assert check_result(folder) == []
    Result.load(folder)
    path.write_bytes(bytes(2048))
    os.utime(path, (1, 1))

    assert len(check_result(folder)) == 1


def test_a_full_check_tells_all_that_is_wrong(folder: Path) -> None:
    assert check_result(folder) == []
    (folder / "scores.csv").write_text("other")
    (folder / "model.safetensors").unlink()
    (folder / "notes.txt").write_text("mine")

    found = check_result(folder)

    assert [Path(problem.split(" is ")[0]).name for problem in found] == ["model.safetensors", "scores.csv"]
    (folder / "result.json").write_text("{")
    assert len(check_result(folder)) == 1


def test_results_of_older_versions_have_no_hashes(folder: Path) -> None:
    head = read_head(folder)
    del head["hashes"]
    (folder / "result.json").write_text(json.dumps(head))

    assert Result.load(folder).tables["scores"]["layer"].tolist() == [0, 1, 2]
    assert check_result(folder) == []
    assert is_as_saved(folder, "scores.csv")
    check_listed(folder)
    (folder / "scores.csv").write_text("layer,label,value\n7,0,a,0.5\n")
    with pytest.raises(ResultError, match="rows of more than 3 cells"):
        Result.load(folder)
    (folder / "scores.csv").write_text("layer,value\n0,0.5\n")
    with pytest.raises(ResultError, match="has the columns layer, value instead of layer, label, value"):
        Result.load(folder)


@pytest.mark.parametrize("name", ["../scores", "/etc/passwd", "a\0b", "a\\b", "..", "", "result.json"])
@pytest.mark.parametrize("part", ["tables", "files", "hashes"])
def test_names_never_lead_out_of_the_folder(folder: Path, name: str, part: str) -> None:
    rewrite(folder, **{part: [name] if part == "files" else {name: {}}})

    with pytest.raises(ResultError, match="cannot be the name of a table or file"):
        Result.load(folder)


def test_a_name_that_cannot_be_read_back_is_not_saved(tmp_path: Path) -> None:
    with pytest.raises(ResultError, match=r"'\.\./scores' cannot be the name"):
        Result("demo", {"../scores": TABLE}, PROVENANCE).save(tmp_path / "r", charts=False)
    twice = pd.DataFrame([[1, 2]], columns=["layer", "layer"])
    with pytest.raises(ResultError, match="two columns of the table 'scores' have the same name"):
        Result("demo", {"scores": twice}, PROVENANCE).save(tmp_path / "r", charts=False)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "dtypes",
    [
        {"layer": "datetime64[ns]", "label": "str", "value": "float64"},
        {"layer": "int64", "label": "nonsense", "value": "float64"},
        {"layer": "int64", "label": "float64", "value": "float64"},
        {"layer": "complex128", "label": "str", "value": "float64"},
        {"layer": 3, "label": "str", "value": None},
        {"layer": "int64", "label": "str"},
        {"layer": "int64", "label": "str", "other": "float64"},
        ["layer", "label", "value"],
        None,
    ],
    ids=str,
)
def test_columns_of_another_type_are_one_sentence(folder: Path, dtypes: Any) -> None:
    rewrite(folder, tables={"scores": dtypes})

    with pytest.raises(ResultError, match=r"does not match its result\.json \(.+\); make it again with"):
        Result.load(folder)


@pytest.mark.parametrize(
    "odd",
    [
        {"tables": [1]},
        {"tables": 3},
        {"files": {}},
        {"hashes": []},
        {"hashes": {"scores.csv": "x"}},
        {"provenance": []},
        {"provenance": {}},
        {"provenance": {"model": [], "corpus": {}, "parameters": {}, "seeds": []}},
        {"provenance": {"model": {}, "corpus": {}, "parameters": {}, "seeds": 3}},
        {"provenance": {"model": {}, "corpus": {}, "parameters": {}, "seeds": [], "other": 1}},
        {"analysis": ["demo"]},
        {"findings": [{"text": "So.", "status": "loud"}]},
        {"findings": 3},
        {"format": [2]},
        {"format": None},
    ],
    ids=str,
)
def test_an_odd_head_is_one_sentence(folder: Path, odd: dict[str, Any]) -> None:
    rewrite(folder, **odd)

    with pytest.raises(ResultError):
        Result.load(folder)
    assert len(check_result(folder)) == 1


def test_results_of_a_renamed_analysis_are_refused_with_today_s_command(folder: Path) -> None:
    head = json.loads((folder / "result.json").read_text())
    provenance = head["provenance"] | {"command": "lamina probe-vs-lens tiny --out here"}
    rewrite(folder, analysis="said", provenance=provenance)

    with pytest.raises(ResultError, match="make it again with `lamina probe-vs-lens tiny --out here`"):
        Result.load(folder)


@pytest.mark.skipif(os.name != "posix", reason="pipes and sparse files")
def test_a_head_whose_reading_might_not_end_is_refused_at_once(folder: Path) -> None:
    path = folder / "result.json"
    for content in (b"[" * 100_000, b'{"a":' * 100_000, b'{"format": ' + b"9" * 5000 + b"}", b"\xff\xfe"):
        path.write_bytes(content)
        with pytest.raises(ResultError, match=r"result\.json cannot be read"):
            Result.load(folder)
    os.truncate(path, 1 << 40)
    with pytest.raises(ResultError, match="too many for a result"):
        Result.load(folder)
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(ResultError, match="is a named pipe"):
        Result.load(folder)
    path.unlink()
    path.symlink_to("/dev/zero")
    with pytest.raises(ResultError, match="is a device"):
        Result.load(folder)


def test_times_and_odd_names_of_columns_come_back_as_text(tmp_path: Path) -> None:
    table = pd.DataFrame({"at": pd.to_datetime(["2026-01-02"]), "": ["x"], 'a,\n"b': [1], 7: [True], "é.1": [2.0]})
    result = Result("demo", {"scores": table}, PROVENANCE)

    back = Result.load(result.save(tmp_path / "r", charts=False)).tables["scores"]

    assert list(back.columns) == ["at", "", 'a,\n"b', "7", "é.1"]
    assert back.iloc[0].tolist() == ["2026-01-02", "x", 1, True, 2.0]


def test_a_folder_without_a_list_is_not_judged(tmp_path: Path) -> None:
    check_listed(tmp_path)
    (tmp_path / "result.json").write_text("[1, 2]")
    check_listed(tmp_path)


def test_work_of_stopped_runs_is_found(tmp_path: Path) -> None:
    work = work_folder(tmp_path / "runs" / "pos", "0123456789abcdef")
    (work / "checkpoint-3").mkdir(parents=True)
    (work / "checkpoint-3" / "weights").write_bytes(bytes(1000))
    (tmp_path / "runs" / ".git").mkdir()

    assert leftovers(tmp_path) == [(work, tmp_path / "runs" / "pos", 1000)]
    assert leftovers(tmp_path / "nowhere") == []
