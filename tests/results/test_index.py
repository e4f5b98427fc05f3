"""The list of saved results: whatever lies in the folders, the sound ones are listed and the others are named."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner

from lamina.cli.results import results_app
from lamina.errors import DamagedError, ResultError
from lamina.results import Provenance, Result
from lamina.results.index import ResultIndex, SavedResult, partial, partial_in_words, using

ABOUT = Provenance({"name": "m", "fingerprint": "f"}, {"name": "c", "fingerprint": "g"}, {}, command="lamina try")


def save(folder: Path) -> Path:
    return Result("trial", {"scores": pd.DataFrame({"value": [0.5]})}, ABOUT).save(folder, charts=False)


@pytest.fixture
def kept(tmp_path) -> Path:
    """A folder with one sound result."""
    save(tmp_path / "kept" / "sound")
    return tmp_path / "kept"


def listed(folder: Path) -> tuple[list[str], dict[str, str]]:
    """Names of the listed results, and of those passed over with the reason."""
    index = ResultIndex((folder,))
    return [entry.name for entry in index.entries()], {each.name: each.why for each in index.passed_over()}


def old(changes: dict | None = None, **of_provenance) -> dict:
    """A head as an old lamina wrote it, with these parts changed."""
    about = {"model": {"name": "m", "fingerprint": "f"}, "corpus": {"name": "c"}, "created": "2026", "seeds": []}
    head = {"format": 1, "analysis": "trial", "key": "k", "tables": {}, "files": []}
    return head | {"provenance": about | of_provenance} | (changes or {})


def test_a_head_of_an_old_version_is_listed(kept):
    (kept / "old").mkdir()
    (kept / "old" / "result.json").write_text(json.dumps(old()))
    assert listed(kept) == (["kept/sound", "kept/old"], {})


ODD = {
    "no tables": {name: value for name, value in old().items() if name != "tables"},
    "tables null": old({"tables": None}),
    "columns a list": old({"tables": {"scores": ["value"]}}),
    "a column's type a number": old({"tables": {"scores": {"value": 3}}}),
    "a table that climbs": old({"tables": {"../../etc/passwd": {}}}),
    "a table with a line break": old({"tables": {"scores\n": {}}}),
    "a file that climbs": old({"files": ["../../etc/passwd"]}),
    "an absolute file": old({"files": ["/etc/passwd"]}),
    "a hidden file": old({"files": [".ssh"]}),
    "a file with a backslash": old({"files": ["..\\passwd"]}),
    "files a number": old({"files": 3}),
    "analysis a list": old({"analysis": []}),
    "analysis with a header": old({"analysis": 'x"\r\nX-Evil: 1'}),
    "analysis missing": {name: value for name, value in old().items() if name != "analysis"},
    "provenance a list": old({"provenance": []}),
    "provenance a list, of a later format": old({"provenance": [], "format": 99}),
    "model a text": old(model="m"),
    "model's name a list": old(model={"name": []}),
    "corpus a list": old(corpus=[]),
    "corpus's name null": old(corpus={"name": None}),
    "a model's name that colours a terminal": old(model={"name": "\x1b[31m"}),
    "created a number": old(created=5),
    "command null": old(command=None),
    "parameters a list": old(parameters=[]),
    "findings a text": old({"findings": "all"}),
    "a finding without a text": old({"findings": [{"status": "clear"}]}),
    "a finding of no status": old({"findings": [{"text": "x", "status": "sure"}]}),
    "key a number": old({"key": 5}),
    "version a text": old({"version": "two"}),
    "an unpaired surrogate": old(parameters={"x": "\ud800"}),
    "a list": [],
    "a text": "result",
    "null": None,
}


@pytest.mark.parametrize("head", ODD.values(), ids=ODD)
def test_a_head_that_does_not_fit_is_passed_over_and_named(kept, head):
    (kept / "odd").mkdir()
    (kept / "odd" / "result.json").write_text(json.dumps(head))
    names, passed = listed(kept)
    assert names == ["kept/sound"]
    assert list(passed) == ["kept/odd"]
    assert passed["kept/odd"]


def test_nan_in_a_head_is_none(kept):
    (kept / "nan").mkdir()
    (kept / "nan" / "result.json").write_text(json.dumps(old(parameters={"x": float("nan")})))
    entry = next(each for each in ResultIndex((kept,)).entries() if each.name == "kept/nan")
    assert entry.head["provenance"]["parameters"] == {"x": None}


def a_pipe(path: Path) -> None:
    os.mkfifo(path)


def a_huge_file(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 40)


def a_deep_file(path: Path) -> None:
    path.write_text('{"a":' * 100_000)


def a_long_number(path: Path) -> None:
    path.write_text('{"format": ' + "9" * 5000 + "}")


def no_text(path: Path) -> None:
    path.write_bytes(b"\xff\xfe\x00")


def a_link_to_nowhere(path: Path) -> None:
    path.symlink_to(path.parent / "nowhere")


def a_link_outside(path: Path) -> None:
    path.symlink_to(save(path.parents[2] / "outside") / "result.json")


def a_link_to_itself(path: Path) -> None:
    path.symlink_to(path)


@pytest.mark.parametrize(
    "make",
    [a_pipe, a_huge_file, a_deep_file, a_long_number, no_text, a_link_to_nowhere, a_link_outside, a_link_to_itself],
)
def test_what_is_no_plain_file_is_passed_over_and_named(kept, make):
    (kept / "odd").mkdir()
    make(kept / "odd" / "result.json")
    names, passed = listed(kept)
    assert (names, list(passed)) == (["kept/sound"], ["kept/odd"])


def test_a_linked_folder_is_named_and_not_followed(kept, tmp_path):
    save(tmp_path / "outside")
    (kept / "linked").symlink_to(tmp_path / "outside", target_is_directory=True)
    (kept / "nowhere").symlink_to(tmp_path / "nowhere", target_is_directory=True)
    names, passed = listed(kept)
    assert names == ["kept/sound"]
    assert passed == {"kept/linked": "it is a link, and links are not followed"}


@pytest.mark.parametrize("name", ["scores.csv", "probes.safetensors"])
def test_a_linked_table_or_file_is_not_followed(kept, tmp_path, name):
    secret = tmp_path / "secret"
    secret.write_text("root:x:0\n")
    folder = save(kept / "odd")
    head = json.loads((folder / "result.json").read_text())
    head.pop("checksum", None)
    (folder / "result.json").write_text(json.dumps(head | {"files": ["probes.safetensors"]}))
    (folder / name).unlink(missing_ok=True)
    (folder / name).symlink_to(secret)
    assert listed(kept) == (["kept/sound"], {"kept/odd": f"its {name} is a link, and links are not followed"})


@pytest.mark.parametrize("name", [b"\xff", b"a\nb", b"\x1b[31m"])
def test_a_folder_with_an_unreadable_name_is_named_as_far_as_it_can_be(kept, name):
    save(Path(os.fsdecode(os.fsencode(kept) + b"/" + name)))
    names, passed = listed(kept)
    assert names == ["kept/sound"]
    (shown,) = passed
    assert shown.isprintable()
    json.dumps(shown, ensure_ascii=False).encode()


def test_a_folder_that_cannot_be_opened_is_named(kept, monkeypatch):
    (kept / "closed").mkdir()
    scan = os.scandir

    def closed(path):
        if str(path).endswith("closed"):
            raise PermissionError(13, "Permission denied", str(path))
        return scan(path)

    monkeypatch.setattr(os, "scandir", closed)
    assert listed(kept) == (["kept/sound"], {"kept/closed": "it cannot be read: Permission denied"})


def test_folders_of_the_same_name_are_told_apart(tmp_path):
    for place in ("a", "b"):
        (save(tmp_path / place / "kept" / "tuned") / "config.json").write_text("{}")
    index = ResultIndex((tmp_path / "a" / "kept", tmp_path / "b" / "kept"))
    assert len({entry.name for entry in index.entries()}) == 2
    assert {Path(folder).parent.parent.name for folder in index.models().values()} == {"a", "b"}


def test_a_model_that_is_a_link_is_not_offered(kept, tmp_path):
    (tmp_path / "config.json").write_text("{}")
    (kept / "sound" / "config.json").symlink_to(tmp_path / "config.json")
    assert ResultIndex((kept,)).models() == {}


def test_a_result_saved_again_is_read_again(kept):
    index = ResultIndex((kept,))
    (entry,) = index.entries()
    before = index.result(entry.id)
    again = Result("trial", {"scores": pd.DataFrame({"value": [0.75]})}, ABOUT)
    again.save(kept / "sound", charts=False)
    assert before.tables["scores"]["value"].tolist() == [0.5]
    assert index.result(entry.id).tables["scores"]["value"].tolist() == [0.75]


def test_what_goes_wrong_with_a_result_is_told_as_its_error():
    entry = SavedResult("0", Path("x"), "kept/odd", {"analysis": "probe"}, 0)
    with (
        pytest.raises(ResultError, match=r"kept/odd \(probe\).*KeyError: 'layer'.*make the result again"),
        using(entry),
    ):
        raise KeyError("layer")
    with pytest.raises(DamagedError, match="bits"), using(entry):
        raise DamagedError("bits")


def test_the_command_names_what_it_does_not_list(kept):
    (kept / "odd").mkdir()
    (kept / "odd" / "result.json").write_text("{}")
    ran = CliRunner().invoke(results_app, ["ls", str(kept)])
    assert "lamina: kept/odd is not listed: " in ran.stderr
    assert "trial" in ran.stdout
    assert ran.exit_code == 0


def on(folder: Path, name: str, data: dict, created: str, **settings) -> None:
    """Save a result of these data and settings."""
    about = Provenance({"name": "m", "fingerprint": "f"}, {"name": "c", **data}, settings, created=created)
    Result("trial", {"scores": pd.DataFrame({"value": [0.5]})}, about).save(folder / name, charts=False)


def test_a_trial_on_fewer_texts_is_partial_and_never_in_the_place_of_the_whole(tmp_path):
    on(tmp_path, "whole", {"texts": 2002}, "2026-01-01")
    on(tmp_path, "trial", {"texts": 100, "limit": 100}, "2026-01-02", samples=50)
    on(tmp_path, "elsewhere", {"texts": 10, "split": "test"}, "2026-01-03")
    index = ResultIndex((tmp_path,))
    smaller = {
        entry.name: larger.name
        for entry in index.entries()
        for larger in [partial(index.entries()).get(entry.id)]
        if larger
    }
    assert smaller == {f"{tmp_path.name}/trial": f"{tmp_path.name}/whole"}
    assert [Path(entry.name).name for entry in index.of_model("f")] == ["elsewhere", "whole", "trial"]
    trial = index.of_model("f")[-1]
    words = partial_in_words(trial, partial(index.entries())[trial.id])
    assert words == f"partial: 100 of 2,002 texts; {tmp_path.name}/whole has more"
    listing = CliRunner().invoke(results_app, ["ls", str(tmp_path)]).output
    assert listing.count("(partial)") == 1
    assert "100 (partial)" in listing


@pytest.mark.parametrize(
    ("whole", "trial"),
    [
        ({"scored": {"pos": 900, "dep": 800}}, {"scored": {"pos": 90, "dep": 80}, "limit": 5}),
        ({}, {"texts": 10, "limit": 10}),
        ({"limit": 500}, {"limit": 20}),
    ],
)
def test_results_that_did_not_count_their_texts_are_told_by_targets_and_limit(tmp_path, whole, trial):
    on(tmp_path, "trial", trial, "2026-01-02")
    on(tmp_path, "whole", whole, "2026-01-01")
    newest = ResultIndex((tmp_path,)).newest("trial", "m")
    assert newest == next(entry for entry in ResultIndex((tmp_path,)).entries() if entry.folder.name == "whole")
