"""`lamina parse`, from the command line to the files."""

from __future__ import annotations

import random
from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner, Result

from lamina.cli.main import app
from lamina.errors import CorpusError, ModelError, ResultError

WORDS = ("the", "a", "dog", "cat", "ran", "barked", "and")


def conllu(sentences: range, *, heads: bool = True) -> str:
    """Sentences of words drawn at random, each hanging on the one before, closed by a full stop."""
    lines = []
    for sentence in sentences:
        draw = random.Random(sentence)
        lines.append(f"# sent_id = s{sentence}")
        words = [*draw.choices(WORDS, k=draw.randint(5, 9)), "."]
        for at, word in enumerate(words, start=1):
            tag = "PUNCT" if word == "." else "X"
            head, relation = (at - 1, "root" if at == 1 else "dep") if heads else ("_", "_")
            lines.append(f"{at}\t{word}\t{word}\t{tag}\t_\t_\t{head}\t{relation}\t_\t_")
        lines.append("")
    return "\n".join(lines) + "\n"


@pytest.fixture(autouse=True)
def _own_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Trained probes are kept with the tests."""
    monkeypatch.setenv("LAMINA_STORE", str(tmp_path / "store"))


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    folder = tmp_path / "own"
    folder.mkdir()
    (folder / "own-train.conllu").write_text(conllu(range(40)))
    (folder / "own-dev.conllu").write_text(conllu(range(50, 60)))
    (folder / "own-test.conllu").write_text(conllu(range(70, 75)))
    return folder


def run(*args: object) -> Result:
    return CliRunner(env={"COLUMNS": "200"}).invoke(app, ["parse", *(str(arg) for arg in args)])


def test_tables_probes_and_provenance_are_written_and_reused(bert: Path, corpus: Path, tmp_path: Path):
    out = tmp_path / "out"
    asked = (bert, "--corpus", corpus, "--vectors", "model", "--samples", 20, "--out", out, "--device", "cpu")
    first = run(*asked)
    assert first.exit_code == 0, (first.output, first.exception)
    assert "attention+words, random blocks" in first.stdout
    assert "Attention maps and word vectors find" in first.stdout
    table = pd.read_csv(out / "uas.csv")
    assert list(table.columns) == ["system", "uas", "uuas", "low", "high"]
    assert len(table) == 10
    assert {"weights.csv", "chosen.csv", "probes.safetensors", "result.json"} <= {path.name for path in out.iterdir()}
    written = (out / "result.json").stat().st_mtime_ns
    assert run(*asked).exit_code == 0
    assert (out / "result.json").stat().st_mtime_ns == written
    other = (*asked, "--faithful", "--from", "first", "--texts", 20, "--no-twin")
    refused = run(*other)
    assert isinstance(refused.exception, ResultError)
    assert "holds another result" in str(refused.exception)
    assert run(*other, "--replace").exit_code == 0
    assert len(pd.read_csv(out / "uas.csv")) == 8


def test_a_dry_run_counts_and_writes_nothing(bert: Path, corpus: Path, tmp_path: Path):
    out = tmp_path / "out"
    said = run(bert, "--corpus", corpus, "--vectors", "model", "--dry-run", "--out", out, "--device", "cpu")
    assert said.exit_code == 0, said.exception
    assert said.stdout.splitlines()[:2] == ["passes   2", "texts    50"]
    assert not out.exists()


def test_a_corpus_without_heads_and_vectors_with_contexts_are_refused(bert: Path, corpus: Path, tmp_path: Path):
    bare = tmp_path / "bare"
    bare.mkdir()
    (bare / "bare-train.conllu").write_text(conllu(range(9), heads=False))
    (bare / "bare-dev.conllu").write_text(conllu(range(20, 25), heads=False))
    refused = run(bert, "--corpus", bare, "--vectors", "model", "--out", tmp_path / "out")
    assert isinstance(refused.exception, CorpusError)
    assert "no dependencies" in str(refused.exception)
    refused = run(bert, "--corpus", corpus, "--vectors", bert, "--out", tmp_path / "out")
    assert isinstance(refused.exception, ModelError)
    assert "not word vectors" in str(refused.exception)
    refused = run(bert, "--corpus", corpus, "--split", "train", "--out", tmp_path / "out")
    assert refused.exit_code == 2
    assert "'train' is not one of 'dev', 'test'" in " ".join(refused.output.split())
