"""Results: saved, read back the same, refused where something else lies."""

from __future__ import annotations

import errno
import json
import os
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lamina import figures
from lamina.errors import ResultError
from lamina.files import writing
from lamina.files.checking import json_text
from lamina.results import Provenance, Result
from lamina.results.finding import Finding, Source, strongest_first
from lamina.results.folder import FORMAT, answer_key, question_key, read_head
from lamina.results.result import check_result, draw_again

PROVENANCE = Provenance(
    {"name": "m", "fingerprint": "f"},
    {"name": "c", "fingerprint": "g", "split": "dev"},
    {"samples": 10, "twin": True},
    seeds=(3,),
    skipped={"texts too long": 2},
)

LABELS = st.one_of(
    st.sampled_from(["NA", "N/A", "None", "nan", "NULL", "", " ", "1", "01", "1.0", "True", '"', "a,b", "a\nb", "-"]),
    # A lone carriage return or NUL is no label, and CSV has no way to say it.
    st.text(st.characters(exclude_categories=("Cc", "Cs")), max_size=8),
)
ROWS = st.lists(
    st.tuples(LABELS, st.integers(-(2**40), 2**40), st.floats(allow_nan=True, width=64), st.booleans()), min_size=1
)


def make(table: pd.DataFrame | None = None, analysis: str = "demo") -> Result:
    frame = pd.DataFrame({"layer": [0, 1], "value": [0.5, 0.25]}) if table is None else table
    return Result(analysis, {"scores": frame}, PROVENANCE)


@given(ROWS)
def test_any_table_comes_back_as_it_was(tmp_path_factory: pytest.TempPathFactory, rows: list) -> None:
    table = pd.DataFrame(rows, columns=["label", "count", "value", "flag"])
    folder = tmp_path_factory.mktemp("round")

    back = Result.load(make(table).save(folder, charts=False))

    pd.testing.assert_frame_equal(back.tables["scores"], table, check_exact=True)


@given(ROWS)
def test_so_does_one_that_is_kept_as_parquet(tmp_path_factory: pytest.TempPathFactory, rows: list) -> None:
    table = pd.DataFrame(rows, columns=["label", "count", "value", "flag"]).astype({"count": "Int64"})
    folder = tmp_path_factory.mktemp("round")

    back = Result.load(replace(make(table), parquet=("scores",)).save(folder, charts=False))

    pd.testing.assert_frame_equal(back.tables["scores"], table, check_exact=True)
    assert back.parquet == ("scores",)
    assert {path.name for path in folder.iterdir()} == {"result.json", "scores.parquet"}
    assert check_result(folder) == []


@pytest.mark.parametrize("content", [b"", b"PAR1 and no more", b"layer,value\n0,0.5\n"], ids=["empty", "cut", "csv"])
def test_a_parquet_table_that_is_none_is_damaged(tmp_path: Path, content: bytes) -> None:
    folder = replace(make(), parquet=("scores",)).save(tmp_path / "r", charts=False)
    (folder / "scores.parquet").write_bytes(content)
    with pytest.raises(ResultError, match=r"scores\.parquet is damaged"):
        Result.load(folder)
    (folder / "result.json").write_text(json_text({**read_head(folder), "hashes": {}}))
    with pytest.raises(ResultError, match=r"scores\.parquet is not a Parquet table"):
        Result.load(folder)


def test_provenance_and_key_come_back(tmp_path: Path) -> None:
    result = make()
    back = Result.load(result.save(tmp_path / "r", charts=False))

    assert back.provenance == result.provenance
    assert back.analysis == "demo"
    assert back.key == result.key == read_head(tmp_path / "r")["key"]
    assert result.provenance.versions["lamina"]
    assert result.provenance.command


def test_files_go_with_the_result(tmp_path: Path) -> None:
    (tmp_path / "made.parquet").write_bytes(b"large")
    result = Result("demo", {}, PROVENANCE, {"predictions.parquet": tmp_path / "made.parquet"})

    back = Result.load(result.save(tmp_path / "r", charts=False))

    assert back.files["predictions.parquet"] == tmp_path / "r" / "predictions.parquet"
    assert back.files["predictions.parquet"].read_bytes() == b"large"


def test_a_missing_number_stays_missing(tmp_path: Path) -> None:
    table = pd.DataFrame({"measure": ["a", "b"], "value": [np.nan, 1.0], "low": [np.nan, np.nan]})

    back = Result.load(make(table).save(tmp_path / "r", charts=False)).tables["scores"]

    assert back["value"].isna().tolist() == [True, False]
    assert back["low"].dtype == np.float64


def test_a_table_without_rows_keeps_its_columns(tmp_path: Path) -> None:
    table = pd.DataFrame({"label": pd.Series([], dtype="str"), "value": pd.Series([], dtype="float64")})

    back = Result.load(make(table).save(tmp_path / "r", charts=False)).tables["scores"]

    assert back.dtypes.to_dict() == table.dtypes.to_dict()


def test_the_csv_is_plain(tmp_path: Path) -> None:
    make().save(tmp_path / "r", charts=False)

    assert (tmp_path / "r" / "scores.csv").read_text() == "layer,value\n0,0.5\n1,0.25\n"


def test_saving_again_replaces_the_whole_folder(tmp_path: Path) -> None:
    make().save(tmp_path / "r", charts=False)
    (tmp_path / "r" / "left.svg").write_text("old")

    make(pd.DataFrame({"value": [7]})).save(tmp_path / "r", charts=False)

    assert sorted(path.name for path in (tmp_path / "r").iterdir()) == ["result.json", "scores.csv"]
    assert [path.name for path in tmp_path.iterdir()] == ["r"]


def test_a_failed_save_leaves_the_old_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make().save(tmp_path / "r", charts=False)

    def fail(*args: object, **kwargs: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pd.DataFrame, "to_csv", fail)
    with pytest.raises(ResultError, match=r"was not saved: no space left .*/r; .*Free some space"):
        make(pd.DataFrame({"value": [7]})).save(tmp_path / "r", charts=False)

    assert Result.load(tmp_path / "r").tables["scores"]["value"].tolist() == [0.5, 0.25]
    assert [path.name for path in tmp_path.iterdir()] == ["r"]


def test_an_empty_folder_may_be_used(tmp_path: Path) -> None:
    assert make().save(tmp_path, charts=False) == tmp_path


@pytest.mark.parametrize("other", ["thesis.tex", ".git"])
def test_a_folder_of_something_else_is_refused(tmp_path: Path, other: str) -> None:
    (tmp_path / other).write_text("mine")

    with pytest.raises(ResultError, match="something other than a result"):
        make().save(tmp_path, charts=False)

    assert (tmp_path / other).read_text() == "mine"


def test_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "r").write_text("mine")

    with pytest.raises(ResultError, match="is a file"):
        make().save(tmp_path / "r", charts=False)
    with pytest.raises(ResultError, match=r"cannot write to .*choose another folder"):
        make().save(tmp_path / "r" / "below", charts=False)


def test_loading_says_what_is_wrong(tmp_path: Path) -> None:
    with pytest.raises(ResultError, match=r"no result\.json"):
        Result.load(tmp_path / "nowhere")
    folder = make().save(tmp_path / "r", charts=False)
    path = folder / "result.json"
    good = read_head(folder)

    path.write_text("{half")
    with pytest.raises(ResultError, match=r"result\.json cannot be read .*make the result again"):
        Result.load(folder)
    path.write_text(json.dumps(good | {"format": FORMAT + 1}))
    with pytest.raises(ResultError, match=f"format {FORMAT + 1}, this lamina reads up to {FORMAT}"):
        Result.load(folder)
    path.write_text("[]")
    with pytest.raises(ResultError, match="not a JSON object"):
        Result.load(folder)
    path.write_text(json.dumps({key: value for key, value in good.items() if key != "provenance"}))
    with pytest.raises(ResultError, match="does not match its"):
        Result.load(folder)
    path.write_text(json.dumps(good))
    (folder / "scores.csv").unlink()
    with pytest.raises(ResultError, match="does not match its"):
        Result.load(folder)


def test_the_key_tells_questions_apart() -> None:
    asked = ("geometry", "m", "c", {"samples": 10, "seed": 0})
    others = [
        ("probes", "m", "c", {"samples": 10, "seed": 0}),
        ("geometry", "n", "c", {"samples": 10, "seed": 0}),
        ("geometry", "m", "d", {"samples": 10, "seed": 0}),
        ("geometry", "m", "c", {"samples": 11, "seed": 0}),
        ("geometry", "m", "c", {"samples": 10, "seed": 1}),
    ]

    assert len({question_key(*each) for each in (asked, *others)}) == 6
    assert answer_key("q", 1) != answer_key("q", 2) != answer_key("p", 2)


def test_findings_version_and_question_come_back(tmp_path: Path) -> None:
    best = Finding("Layer 3 is best", "lead", "clear", 0.9, 0.89, 0.91, 0.01, source=(Source("t", {"layer": 3}),))
    found = (best, Finding("it holds", "lead", "open", np.nan))
    result = Result("demo", {}, PROVENANCE, findings=found, version=3, recorded_question="the question")

    back = Result.load(result.save(tmp_path / "r", charts=False))

    assert (back.version, back.question, back.key) == (3, "the question", result.key)
    assert back.findings[0] == found[0]
    assert back.findings[1].estimate is None, "NaN becomes null"
    assert "NaN" not in (tmp_path / "r" / "result.json").read_text()


def test_clear_findings_come_first() -> None:
    statuses = ("untested", "null", "open", "clear", "clear")
    listed = [Finding(name, "", status) for name, status in zip("abcde", statuses, strict=True)]
    assert [finding.claim for finding in strongest_first(listed)] == ["d", "e", "b", "c", "a"]


def test_findings_of_older_formats_are_left_out_with_a_warning(tmp_path: Path) -> None:
    folder = make().save(tmp_path / "r", charts=False)
    head = read_head(folder)
    head |= {"format": 3, "findings": [{"text": "Layer 6 is best.", "status": "clear", "value": 0.3}]}
    (folder / "result.json").write_text(json.dumps(head))
    back = Result.load(folder)
    assert back.findings == ()
    assert back.provenance.warnings[-1].startswith("Findings of an older lamina are left out; ")


def test_a_result_of_another_question_is_not_replaced(tmp_path: Path) -> None:
    make().save(tmp_path / "r", charts=False)
    other = Result("demo", {}, PROVENANCE, recorded_question="another question")

    with pytest.raises(ResultError, match=r"holds another result \(demo: m on c"):
        other.save(tmp_path / "r", charts=False)
    assert Result.load(tmp_path / "r").tables["scores"]["value"].tolist() == [0.5, 0.25]
    other.save(tmp_path / "r", charts=False, replace=True)
    assert Result.load(tmp_path / "r").question == "another question"


def test_a_result_that_cannot_be_used_names_the_command_that_makes_it_again(tmp_path: Path) -> None:
    folder = make().save(tmp_path / "r", charts=False)
    head = read_head(folder)
    head["provenance"]["command"] = "lamina demo m"
    (folder / "result.json").write_text(json.dumps(head | {"format": 99}))
    with pytest.raises(ResultError, match="make it again with `lamina demo m`"):
        Result.load(folder)


@pytest.mark.usefixtures("drawn_charts")
def test_a_notebook_shows_charts_and_tables(make_geometry) -> None:
    shown = make_geometry(model="a<b", layers=2)._repr_html_()

    assert shown.startswith("<h3>geometry: a&lt;b on ewt</h3>")
    assert "<svg" in shown
    assert "<table" in shown
    assert "self_similarity_adjusted" in shown


def test_charts_by_name(make_geometry) -> None:
    result = make_geometry(layers=2, measures=["anisotropy"])

    name = next(iter(result.charts()))
    assert result.chart().to_dict() == result.chart(name).to_dict()
    with pytest.raises(ResultError, match=f"no chart 'pie'; it has: {name}"):
        result.chart("pie")
    with pytest.raises(ResultError, match="a 'demo' result has no charts"):
        make().chart()


@pytest.mark.usefixtures("drawn_charts")
def test_charts_are_saved_beside_the_tables(make_geometry, tmp_path: Path) -> None:
    result = make_geometry(layers=2, measures=["anisotropy"])
    folder = result.save(tmp_path / "r")

    for name in result.charts():
        assert json.loads((folder / f"{name}.vl.json").read_text())["$schema"].startswith("https://vega.github.io")
        assert (folder / f"{name}.svg").read_text().startswith("<svg")
    listed = read_head(folder)["hashes"]
    assert {*listed, "result.json"} == {path.name for path in folder.iterdir()}
    assert all(set(file) == {"sha256", "size"} for file in listed.values())
    assert check_result(folder) == []
    (folder / "layers.svg").write_text("<svg/>")
    assert check_result(folder)[0].startswith(f"{folder / 'layers.svg'} is missing or damaged; make it again")


@pytest.fixture
def two_charts(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Every result has the charts `one` and `two`; those in the set cannot be drawn."""
    import altair as alt

    failing = {"two"}

    def to_svg(spec: dict) -> str:
        if spec["description"] in failing:
            raise ValueError("no room for the legend")
        return f"<svg>{spec['description']}</svg>"

    charts = {name: alt.Chart(pd.DataFrame({"x": [1]}), description=name).mark_point() for name in ("one", "two")}
    monkeypatch.setattr(Result, "charts", lambda _: charts)
    monkeypatch.setattr(figures, "to_svg", to_svg)
    return failing


def test_a_chart_that_fails_is_a_line_and_is_drawn_again(tmp_path: Path, two_charts: set[str]) -> None:
    folder = make(pd.DataFrame({"value": [1 / 3, 1e-17]})).save(tmp_path / "r")
    kept = {path.name: path.read_bytes() for path in folder.glob("*.csv")}

    assert Result.load(folder).undrawn == {"two": "ValueError: no room for the legend"}
    assert (folder / "one.svg").read_text() == "<svg>one</svg>"
    assert not (folder / "two.svg").exists()
    assert draw_again(folder) == {"two": "ValueError: no room for the legend"}
    two_charts.clear()
    assert draw_again(folder) == {}
    assert Result.load(folder).undrawn == {}
    assert (folder / "two.svg").exists()
    assert check_result(folder) == []
    # What was drawn before is kept where drawing fails today.
    two_charts |= {"one", "two"}
    assert {*draw_again(folder)} == {"one", "two"} == {*Result.load(folder).undrawn}
    assert (folder / "one.svg").exists()
    assert check_result(folder) == []
    assert {path.name: path.read_bytes() for path in folder.glob("*.csv")} == kept


@pytest.mark.usefixtures("two_charts")
def test_drawing_again_keeps_findings_of_older_formats(tmp_path: Path) -> None:
    folder = make().save(tmp_path / "r", charts=False)
    head = read_head(folder) | {"format": 3, "findings": [{"text": "It is so.", "status": "clear"}]}
    (folder / "result.json").write_text(json_text(head))

    draw_again(folder)

    assert {name: read_head(folder)[name] for name in ("format", "findings")} == {
        "format": 3,
        "findings": head["findings"],
    }


def test_the_tables_are_synced_before_a_chart_is_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result, synced = make(), []
    monkeypatch.setattr(writing, "sync", lambda path, sync=writing.sync: (synced.append(path.name), sync(path)))

    def stop(_: Result) -> dict:
        assert {*synced} == {"scores.csv", "result.json", "new", tmp_path.name}
        assert synced[-1] == tmp_path.name
        raise KeyboardInterrupt

    monkeypatch.setattr(Result, "charts", stop)
    with pytest.raises(KeyboardInterrupt):
        result.save(tmp_path / "r")

    back = Result.load(tmp_path / "r")
    assert back.tables["scores"].equals(result.tables["scores"])
    assert back.undrawn == {"charts": "the run ended, or the disk was full, before they were saved"}


@pytest.mark.usefixtures("two_charts")
def test_a_disk_that_is_full_at_the_charts_costs_no_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "link", lambda *_: (_ for _ in ()).throw(OSError(errno.EPERM, "no links")))
    monkeypatch.setattr(shutil, "copyfile", lambda *_: (_ for _ in ()).throw(OSError(errno.ENOSPC, "full")))

    folder = make().save(tmp_path / "r")

    assert Result.load(folder).undrawn.keys() == {"charts"}
    with pytest.raises(ResultError, match="the charts were not saved: no space left"):
        draw_again(folder)
    assert check_result(folder) == []


@pytest.mark.parametrize("program", ["/usr/bin/lamina", "/site-packages/lamina/__main__.py"])
def test_a_command_is_told_as_it_is_typed(program, monkeypatch):
    monkeypatch.setattr("sys.argv", [program, "report", "minilm"])
    assert Provenance({}, {}, {}).command == "lamina report minilm"
