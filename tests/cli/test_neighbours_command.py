"""`lamina neighbours`, from the command line to the files."""

from __future__ import annotations

from pathlib import Path

from typer.testing import CliRunner, Result

from lamina.cli import main
from lamina.errors import InputError


def run(*args: object) -> Result:
    return CliRunner(env={"COLUMNS": "200"}).invoke(main.app, ["neighbours", *map(str, args)])


def test_tables_and_what_is_printed(bert: Path, treebank: Path, store: Path, tmp_path: Path):
    out, vectors = tmp_path / "out", tmp_path / "own.txt"
    vectors.write_text("dog 1 0\ncat 1 0.1\n")
    result = run(
        bert, "--word", "Dog", "--corpus", treebank, "--split", "dev", "--out", out, "--store", store, "--count", 2,
        "--vectors", vectors, "--device", "cpu",
    )  # fmt: skip
    assert result.exit_code == 0, (result.output, result.exception)
    heads = {
        "neighbours": "space,layer,context,text_id,rank,neighbour,neighbour_text,similarity",
        "contexts": "context,text_id,sentence,class,silhouette",
        "senses": "layer,context,x,y,class",
        "separation": "layer,silhouette,baseline,difference,low,high,p_adjusted,units,needed,unit,contexts,"
        "words,p_beaten,among_best,explained",
    }
    for name, head in heads.items():
        assert (out / f"{name}.csv").read_text().splitlines()[0] == head
    rows = (out / "neighbours.csv").read_text().splitlines()[1:]
    assert {row.partition(",")[0] for row in rows} == {"static", "input", "layer"}
    assert rows[0].startswith("static,,,,1,cat,,0.99")
    assert "The [dog] barked ." in result.stdout
    assert "untested 2 texts are too few to test whether two contexts of “dog” share more or fewer" in result.stdout
    assert result.stdout.splitlines()[-1] == str(out)


def test_dry_run_computes_nothing(bert: Path, treebank: Path, store: Path, tmp_path: Path):
    args = ("--word", "dog", "--corpus", treebank, "--split", "dev", "--store", store, "--out", tmp_path / "out")
    result = run(bert, *args, "--vectors", "none", "--dry-run")
    assert result.exit_code == 0, (result.output, result.exception)
    assert "texts    6" in result.stdout
    assert not (tmp_path / "out").exists()


def test_a_word_that_is_not_there(bert: Path, treebank: Path, store: Path):
    result = run(bert, "--word", "dgo", "--corpus", treebank, "--split", "dev", "--store", store, "--vectors", "none")
    assert isinstance(result.exception, InputError)
    assert "similar words: dog" in str(result.exception)
    assert not store.exists()
