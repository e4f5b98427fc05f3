"""`lamina contextualize`, from the command line to the files."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner, Result

import lamina
from lamina.analyses.words.contextualize.scores import PRESETS
from lamina.cli import main
from lamina.errors import InputError
from lamina.probes.mlp import MLPTraining
from lamina.training.reading import Sets
from lamina.types import Edge, Span, Text


@pytest.fixture(scope="module", autouse=True)
def quick() -> Iterator[None]:
    short = MLPTraining(hidden=8, learning_rate=0.01, epochs=4, batch=32, validate_every=2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(PRESETS, "quick", replace(PRESETS["quick"], training=short, context_sizes=(0, 1)))
        yield


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    lines = [f"the @dog{n}@-animal barked and @city{n}@-place ran ." for n in range(40)] * 2
    path = tmp_path / "corpus.txt"
    path.write_text("\n".join(lines) + "\n")
    return path


def run(*args: object) -> Result:
    return CliRunner(env={"COLUMNS": "220"}).invoke(main.app, ["contextualize", *map(str, args)])


def test_tables_and_what_is_printed(bert: Path, corpus: Path, store: Path, tmp_path: Path):
    out = tmp_path / "out"
    vectors = tmp_path / "own.txt"
    vectors.write_text("dog1 1 0\ndog2 0 1\n")
    result = run(
        bert, "--corpus", corpus, "--out", out, "--store", store, "--samples", 20, "--vectors", vectors,
        "--device", "cpu",
    )  # fmt: skip
    assert result.exit_code == 0, (result.output, result.exception)
    head = "representation,layer,context,class,seed,split,chose,count,value,low,high"
    for name in ("sclass", "context", "recall", "frequent", "words"):
        assert (out / f"{name}.csv").read_text().splitlines()[0] == head
    assert (out / "contexts.csv").read_text().splitlines()[0] == "split,contexts,pairs"
    for name in ("tinybert input", "P-tinybert input", "AVG-tinybert", "own", "P-own", "skip-gram", "P-random"):
        assert f"\n{name}," in (out / "sclass.csv").read_text()
        assert name in result.stdout
    assert "words that own lacks, drawn from N(0, I)" in result.stdout
    assert any(line.split()[0] in ("clear", "open", "null") for line in result.stdout.splitlines() if line)
    assert result.stdout.splitlines()[-1] == str(out)


def test_a_dry_run_counts_training_and_computes_nothing(bert: Path, corpus: Path, store: Path, tmp_path: Path):
    asked = (bert, "--corpus", corpus, "--store", store, "--out", tmp_path / "out", "--vectors", "none")
    result = run(*asked, "--device", "cpu", "--dry-run")
    assert result.exit_code == 0, (result.output, result.exception)
    told = dict(line.split(maxsplit=1) for line in result.stdout.splitlines())
    assert told["texts"] == "80"
    # Four epochs, of 3 layers as words, in whole and in cut contexts, and of the baselines.
    assert int(told["steps"].replace(",", "")) > 4 * 15
    assert told["time"].startswith("about ")
    assert not (tmp_path / "out").exists()


def test_sizes_that_are_no_numbers_are_said(bert: Path, corpus: Path):
    result = run(bert, "--corpus", corpus, "--context-sizes", "0,two")
    assert isinstance(result.exception, InputError)
    assert "--context-sizes takes whole numbers separated by commas; got 0,two" in str(result.exception)


def test_a_model_tuned_through_a_window_is_probed_through_it(bert: Path, corpus: Path, store: Path, tmp_path: Path):
    texts = {
        split: tuple(
            Text(f"{split}{n}", (split, f"w{n}"), edges={"pos": (Edge(("A",), Span(0, 1)), Edge(("B",), Span(1, 2)))})
            for n in range(8)
        )
        for split in ("train", "select", "scored")
    }
    folders = []
    for seed in (0, 1):
        folders.append(tmp_path / f"pos{seed}")
        learning = {"max_steps": 1, "lr": 1e-9, "batch": 4, "attention_window": 1, "seed": seed, "device": "cpu"}
        lamina.finetune(str(bert), Sets("toy", **texts), task="pos", out=folders[-1], **learning)
    out = tmp_path / "out"
    result = run(
        bert, "--corpus", corpus, "--out", out, "--store", store, "--samples", 20, "--vectors", "none",
        "--context-sizes", 1, "--device", "cpu", "--finetuned", folders[0], "--finetuned", folders[1],
    )  # fmt: skip
    assert result.exit_code == 0, (result.output, result.exception)
    table = pd.read_csv(out / "finetuning.csv", dtype={"window": str, "seed": str})
    assert set(table["window"]) == {"1"}
    assert set(table["seed"]) == {"0", "1", "all"}
    assert set(table["task"]) == {"pos"}
    # Hardly a step was learned: through the same window both models are the same, seen whole they are not.
    wide = table[table["seed"] == "all"].pivot_table(index="layer", columns="setup", values="value")
    assert np.allclose(wide["a"], wide["pretrained"], atol=0.05)
    heads = pd.read_csv(out / "attention_similarity.csv")
    assert heads["value"].min() > 0.999


def test_probes_and_predictions_are_files_of_the_result(bert: Path, corpus: Path, store: Path, tmp_path: Path):
    out = tmp_path / "out"
    asked = (bert, "--corpus", corpus, "--out", out, "--store", store, "--samples", 5, "--vectors", "none")
    result = run(*asked, "--device", "cpu")
    assert result.exit_code == 0, (result.output, result.exception)
    assert sorted(path.name for path in out.iterdir() if path.suffix in (".safetensors", ".parquet")) == [
        "occurrences.parquet", *(f"probes-layer-{layer}.safetensors" for layer in range(3)),
    ]  # fmt: skip
    told = pd.read_parquet(out / "occurrences.parquet")
    assert list(told.columns) == [
        "text_id", "start", "end", "word", "classes", "representation", "layer", "context", "seed", "predicted",
    ]  # fmt: skip
    assert set(told["context"]) == {"full", "0", "1"}
