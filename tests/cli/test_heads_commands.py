"""`lamina heads` and `lamina corefheads`, from the command line to the files."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner, Result

from lamina.cli import main
from lamina.errors import CorpusError


def run(*args: object) -> Result:
    return CliRunner(env={"COLUMNS": "200"}).invoke(main.app, [str(arg) for arg in args])


def output(*args: object) -> str:
    result = run(*args)
    assert result.exit_code == 0, (result.output, result.exception)
    return result.stdout


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    """Pronouns and names as GAP writes them."""
    columns = ["ID", "Text", "Pronoun", "Pronoun-offset", "A", "A-offset", "A-coref", "B", "B-offset", "B-coref", "URL"]
    rows = ["\t".join(columns)]
    for number in range(4):
        text = "The dog ran and the cat saw her ."
        rows.append(
            "\t".join([f"r{number}", text, "her", "28", "dog", "4", "TRUE", "cat", "20", "FALSE", f"u{number}"])
        )
    path = tmp_path / "gap-validation.tsv"
    path.write_text("\n".join(rows) + "\n")
    return path


def test_heads_writes_its_tables_and_reuses_them(bert: Path, treebank: Path, tmp_path: Path):
    out = tmp_path / "out"
    asked = ("heads", bert, "--corpus", treebank, "--out", out, "--samples", 10, "--from", "first")
    assert output(*asked).splitlines()[-1] == str(out)
    made = (out / "result.json").stat().st_mtime_ns
    output(*asked)
    assert (out / "result.json").stat().st_mtime_ns == made
    columns = "relation,direction,layer,head,count,accuracy,low,high,offset,offset_accuracy,"
    columns += "difference,diff_low,diff_high,p_adjusted,units,needed"
    for name, end in (("relations", "\n"), ("best", ",unit,kind,ahead,")):
        assert (out / f"{name}.csv").read_text().startswith(columns + end)
    assert (out / "baselines.csv").read_text().startswith("system,relation,count,accuracy,low,high\n")
    table = pd.read_csv(out / "relations.csv")
    assert set(table["relation"]) == {"all", "all without punctuation", "dep"}
    assert len(table) == 3 * 2 * 2 * 2
    # In this treebank every word hangs on the one before it.
    assert (table["offset"] == -1).all()
    assert (table["offset_accuracy"] == 1).all()


def test_the_papers_way_scores_all_texts(bert: Path, treebank: Path, tmp_path: Path):
    out = tmp_path / "out"
    output("heads", bert, "--corpus", treebank, "--out", out, "--samples", 10, "--faithful")
    best, everywhere = (pd.read_csv(out / f"{name}.csv") for name in ("best", "relations"))
    assert best.set_index("relation")["count"]["all"] == everywhere.set_index("relation")["count"]["all"].max()


def test_corefheads_writes_its_table(bert: Path, pairs: Path, tmp_path: Path):
    out = tmp_path / "out"
    told = output("corefheads", bert, "--corpus", pairs, "--split", "all", "--out", out, "--samples", 10)
    assert told.splitlines()[-1] == str(out)
    assert (out / "coref.csv").read_text().startswith("system,layer,head,mention_type,count,accuracy,low,high\n")
    table = pd.read_csv(out / "coref.csv")
    assert list(table["system"].unique()) == [
        "best head",
        "best head, cross-fitted",
        "nearest",
        "head match",
        "rules",
        "head",
    ]
    # Only pronouns occur: no head is best for other types.
    assert len(table) == 4 + (3 + 2 * 2) * 4
    nearest = table[(table["system"] == "nearest") & (table["mention_type"] == "pronoun")]
    assert nearest[["count", "accuracy"]].to_numpy().tolist() == [[4, 0]]
    best = pd.read_csv(out / "best.csv")
    assert best[["mention_type", "baseline"]].to_numpy().tolist() == [
        [kind, name] for kind in ("pronoun", "all") for name in ("nearest", "head match", "rules")
    ]


def test_a_dry_run_counts_and_writes_nothing(bert: Path, treebank: Path, pairs: Path, tmp_path: Path):
    for command, corpus, texts in (("heads", treebank, 6), ("corefheads", pairs, 4)):
        told = output(command, bert, "--corpus", corpus, "--split", "all", "--out", tmp_path / "out", "--dry-run")
        assert told.startswith(f"passes   1\ntexts    {texts}\n")
        assert "disk     about 0 MB" in told
    assert not (tmp_path / "out").exists()


def test_a_corpus_without_the_annotation_is_refused(bert: Path, treebank: Path, pairs: Path, tmp_path: Path):
    for command, corpus, lacks in (("heads", pairs, "no dependencies"), ("corefheads", treebank, "no coreference")):
        result = run(command, bert, "--corpus", corpus, "--split", "all", "--out", tmp_path / "out")
        assert isinstance(result.exception, CorpusError)
        assert lacks in str(result.exception)
