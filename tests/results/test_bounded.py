"""What lies in a served folder may be made to be slow or large: reads are bounded, heads are read once."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lamina
import lamina.results.index as index_module
from lamina.errors import ResultError
from lamina.files.checking import json_text, list_files
from lamina.results import Provenance, Result
from lamina.results.folder import read_head
from lamina.results.index import ResultIndex, sample_in_words
from lamina.testing import TinyEncoder
from lamina.web.app import embedded_report

PROVENANCE = Provenance({"name": "m", "fingerprint": "f"}, {"name": "c", "fingerprint": "g"}, {})


def test_a_parquet_table_that_unpacks_to_gigabytes_is_refused(tmp_path: Path) -> None:
    table = pd.DataFrame({"word": ["x" * 1000]})
    folder = Result("demo", {"items": table}, PROVENANCE, parquet=("items",)).save(tmp_path / "r", charts=False)
    chunk = pa.table({"word": pa.array(["x" * 1000] * 10_000)})
    with pq.ParquetWriter(folder / "items.parquet", chunk.schema, compression="zstd") as writer:
        for _ in range(40):
            writer.write_table(chunk)
    assert (folder / "items.parquet").stat().st_size < 2**20
    head = read_head(folder)
    head["hashes"] = {name: one for name, one in list_files(folder).items() if name != "result.json"}
    (folder / "result.json").write_text(json_text(head))
    with pytest.raises(ResultError, match="unpacks to far more than its"):
        Result.load(folder)


def test_a_parquet_table_of_one_long_word_is_refused(tmp_path: Path) -> None:
    table = pd.DataFrame({"word": ["x"]})
    folder = Result("demo", {"items": table}, PROVENANCE, parquet=("items",)).save(tmp_path / "r", charts=False)
    # Small on the disk and in Arrow's memory, 2.4 GB once every value is written out.
    words = pa.DictionaryArray.from_arrays(pa.array([0] * 40_000, pa.int32()), pa.array(["x" * 60_000]))
    pq.write_table(pa.table({"word": words}), folder / "items.parquet")
    head = read_head(folder)
    head["hashes"] = {name: one for name, one in list_files(folder).items() if name != "result.json"}
    (folder / "result.json").write_text(json_text(head))
    with pytest.raises(ResultError, match="unpacks to far more than its"):
        Result.load(folder)


def test_heads_are_read_up_to_a_size_alone_and_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in "abc":
        about = replace(PROVENANCE, parameters={f"p{number}": "x" * 100 for number in range(2000)})
        Result("demo", {}, about).save(tmp_path / name, charts=False)
    (tmp_path / "large").mkdir()
    with (tmp_path / "large" / "result.json").open("wb") as file:
        file.truncate(1 << 40)
    index = ResultIndex((tmp_path,))
    (large,) = index.passed_over()
    assert "too many for a result" in large.why
    entries = index.entries()
    assert len(entries) == 3
    # What is listed of it stays a sentence.
    assert len(sample_in_words({}, entries[0].parameters)) < 20_000
    monkeypatch.setattr(index_module, "MOST_HEAD_BYTES", 600_000)
    assert len(index.entries()) == 2
    assert any("more than" in folder.why for folder in index.passed_over() if folder.name.endswith("/c"))


def test_a_damaged_head_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "r").mkdir()
    (tmp_path / "r" / "result.json").write_text("{" + " " * 1000)
    index = ResultIndex((tmp_path,))
    (folder,) = index.passed_over()
    monkeypatch.setattr(index_module, "read_head", lambda folder: pytest.fail("read again"))
    assert index.passed_over() == [folder]


def test_a_head_is_read_again_only_when_it_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Result("demo", {"t": pd.DataFrame({"n": [1]})}, PROVENANCE).save(tmp_path / "r", charts=False)
    index = ResultIndex((tmp_path,))
    assert len(index.entries()) == 1
    reads: list[Path] = []
    monkeypatch.setattr(index_module, "read_head", lambda folder: reads.append(folder) or read_head(folder))
    assert len(index.entries()) == 1
    assert reads == []
    Result("demo", {"t": pd.DataFrame({"n": [2]})}, PROVENANCE).save(tmp_path / "r", charts=False)
    assert len(index.entries()) == 1
    assert reads == [tmp_path / "r"]


def test_a_page_of_opened_tags_is_shown_in_linear_time(tmp_path: Path) -> None:
    page = tmp_path / "index.html"
    times = []
    for size in (50_000, 400_000):
        page.write_text("<body " * size)
        start = time.process_time()
        embedded_report(page, "<nav></nav>")
        times.append(time.process_time() - start)
    # Eight times as long; quadratic would be 64 times (44 s).
    assert times[1] < 30 * max(times[0], 0.01)


def test_a_folder_that_cannot_be_written_is_refused_before_the_work(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ResultError, match=r"cannot write to .*file/below: .* not a folder; choose another folder"):
        lamina.geometry(TinyEncoder(), [["Dogs", "bark"]], samples=10, out=tmp_path / "file" / "below")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
