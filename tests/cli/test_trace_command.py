"""`lamina trace` on a saved probing result: no model is needed for texts of the corpus and for revisions."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from lamina.cli import main
from lamina.results import Provenance, Result

WORDS = ["the", "dogs", "bark", "now"]
TEXTS = 30


def predictions(path: Path, task: str, settled: np.ndarray) -> Path:
    """Of one target per word: `b` until the layer it settles at, then `a`, which is right."""
    columns = {
        "text_id": [f"toy-{at // 4:02}" for at in range(4 * TEXTS)],
        "start1": [at % 4 for at in range(4 * TEXTS)],
        "end1": [at % 4 + 1 for at in range(4 * TEXTS)],
        "start2": None,
        "end2": None,
        "gold": [["a"]] * 4 * TEXTS,
        "unseen": 0,
        "probe": "cumulative",
    }
    told = [[[0.2, 0.7] if layer < at else [0.9, 0.1] for at in settled] for layer in range(5)]
    parts = [
        pd.DataFrame(columns | {"seed": seed, "layer": layer, "probabilities": told[layer]})
        for seed in (0, 1)
        for layer in range(5)
    ]
    table = pa.Table.from_pandas(pd.concat(parts), preserve_index=False)
    head = {"task": task, "labels": ["a", "b"], "corpus": "toy"}
    pq.write_table(table.replace_schema_metadata({"lamina": json.dumps(head)}), path)
    return path


@pytest.fixture(scope="module")
def probed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Part of speech settles one layer after dependencies."""
    root = tmp_path_factory.mktemp("probed")
    settled = np.random.default_rng(0).integers(1, 4, 4 * TEXTS)
    texts = pa.table(
        {
            "corpus": ["toy"] * TEXTS,
            "text_id": [f"toy-{at:02}" for at in range(TEXTS)],
            "doc": ["d"] * TEXTS,
            "words": [WORDS] * TEXTS,
        }
    )
    pq.write_table(texts, root / "texts.parquet")
    files = [
        predictions(root / "dep.predictions.parquet", "dep", settled),
        predictions(root / "pos.predictions.parquet", "pos", settled + 1),
        root / "texts.parquet",
    ]
    about = {"name": "tiny", "fingerprint": "f"}, {"name": "toy", "split": "dev", "fingerprint": "c"}
    training = pd.DataFrame({"task": ["dep", "pos"], "of": "model", "probe": "cumulative", "converged": True})
    result = Result(
        "probe", {"training": training}, Provenance(*about, {}, (0, 1)), {path.name: path for path in files}
    )
    return result.save(root / "probe", charts=False)


def output(*args: object) -> str:
    result = CliRunner(env={"COLUMNS": "220"}).invoke(main.app, [str(arg) for arg in args])
    assert result.exit_code == 0, (result.output, result.exception)
    return result.stdout


def test_revisions_are_told_drawn_and_saved(probed, tmp_path) -> None:
    told = output("trace", probed, "--shuffles", 99, "--samples", 50, "--out", tmp_path / "out")

    assert re.search(r"│ pos +│ dep +│ +120 │ 1\.000 \[1\.000, 1\.000\] │ 0\.\d{3} +│ 0\.010", told)
    assert re.search(
        r"^clear +Part of speech is last revised at a later layer than Dependencies more often", told, re.MULTILINE
    )
    after = pd.read_csv(tmp_path / "out" / "revised_after.csv")
    assert set(after["measure"]) == {"after_settled", "after_revised", "same_layer"}
    revisions = pd.read_csv(tmp_path / "out" / "revisions.csv")
    assert revisions.loc[revisions["layer"].isna(), "revised"].tolist() == [1, 1]
    assert {path.name for path in (tmp_path / "out").glob("*.svg")} == {"revisions.svg", "revised_after.svg"}


def test_texts_are_shown_by_their_ids(probed, tmp_path) -> None:
    told = output("trace", probed, "--text", "toy-07", "--text", "toy-02", "--out", tmp_path / "out")

    assert told.count("0:the 1:dogs 2:bark 3:now") == 2
    assert len(re.findall(r"^   \*a  [▁▂▃▄▅▆▇█]{5}  0\.20 to 0\.90$", told, re.MULTILINE)) == 16
    traces = pd.read_csv(tmp_path / "out" / "traces.csv")
    assert traces["text_id"].unique().tolist() == ["toy-07", "toy-02"]
    assert (tmp_path / "out" / "traces.svg").exists()
    assert not (tmp_path / "out" / "revisions.csv").exists()


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        (["--text", "toy-7"], "there is no scored text 'toy-7' in the result; did you mean toy-"),
        (["--text", "toy-07", "a dog"], "--text names a sentence of the corpus; leave it out"),
        (["--text", "toy-07", "--mark", "pos:1"], "--model and --mark are for a sentence of your own"),
        (["--shuffles", "0"], "shuffles"),
    ],
    ids=str,
)
def test_what_cannot_be_shown_is_told_and_nothing_is_written(asked, why, probed, tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.setattr(sys, "argv", ["lamina", "trace", str(probed), *asked, "--out", str(tmp_path / "out")])

    with pytest.raises(SystemExit, match="2"):
        main.main()

    told = capsys.readouterr().err
    assert why in told
    assert "Traceback" not in told
    assert not (tmp_path / "out").exists()
