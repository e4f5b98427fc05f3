"""`lamina probe --suite`, from the command line to the files."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner

from lamina.analyses.layers.probe.planning import SUITES, ProbeSuite
from lamina.analyses.layers.probe.training import PRESETS
from lamina.cli import main
from lamina.probes.bank import Schedule

WORDS = {"the": "DET", "a": "DET", "dog": "NOUN", "cat": "NOUN", "ran": "VERB", "barked": "VERB"}


def treebank(folder: Path, seed: int) -> Path:
    folder.mkdir()
    for split, documents in (("train", 20), ("dev", 6)):
        lines = []
        for document in range(documents):
            lines.append(f"# newdoc id = {split}{document}")
            rng = random.Random(f"{seed} {split} {document}")
            for _ in range(3):
                for at, word in enumerate(rng.choices(list(WORDS), k=6), start=1):
                    head, relation = (0, "root") if at == 1 else (at - 1, f"of_{WORDS[word].lower()}")
                    lines.append(f"{at}\t{word}\t{word}\t{WORDS[word]}\t_\t_\t{head}\t{relation}\t_\t_")
                lines.append("")
        (folder / f"{folder.name}-{split}.conllu").write_text("\n".join(lines) + "\n")
    return folder


@pytest.mark.usefixtures("drawn_charts")
def test_a_suite_is_one_result_with_the_papers_values(bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    tasks = {"pos": str(treebank(tmp_path / "first", 0)), "dep": str(treebank(tmp_path / "second", 1))}
    monkeypatch.setitem(SUITES, "pipeline", ProbeSuite(tasks))
    monkeypatch.setenv("LAMINA_CACHE", str(tmp_path / "cache"))
    short = Schedule(learning_rate=3e-3, validate_every=3, max_validations=2, hidden=8)
    monkeypatch.setitem(PRESETS, "quick", replace(PRESETS["quick"], schedule=short, small=short))
    out = tmp_path / "out"
    asked = ["probe", bert, "--suite", "pipeline", "--out", out, "--store", tmp_path / "store", "--samples", 50]

    done = CliRunner(env={"COLUMNS": "220"}).invoke(main.app, [*map(str, asked), "--reference"])

    assert done.exit_code == 0, (done.output, done.exception)
    assert "pipeline suite (dev)" in done.stdout
    summary = pd.read_csv(out / "summary.csv").set_index("task")
    assert summary["corpus"].to_dict() == tasks
    assert set(pd.read_csv(out / "reference.csv")["model"]) == {"BERT-base", "BERT-large"}
    # Two validations make no plateau.
    assert not summary["converged"].any()
    assert summary["expected_layer"].isna().all()
    assert "had not converged" in (out / "statistics.svg").read_text()
    assert {"pos.predictions.parquet", "dep.predictions.parquet"} <= {path.name for path in out.iterdir()}
