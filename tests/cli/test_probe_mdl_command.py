"""`lamina probe --mdl`, from the command line to the table."""

from __future__ import annotations

import random
from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner

from lamina.cli import main

WORDS = {"the": "DET", "a": "DET", "dog": "NOUN", "cat": "NOUN", "ran": "VERB", "barked": "VERB", "and": "CCONJ"}


def conllu(documents: range) -> str:
    """One sentence per document, of words drawn at random."""
    lines = []
    for document in documents:
        lines += [f"# newdoc id = d{document}", f"# sent_id = d{document}"]
        for at, word in enumerate(random.Random(document).choices(list(WORDS), k=7), start=1):
            lines.append(f"{at}\t{word}\t{word}\t{WORDS[word]}\t_\t_\t{at - 1}\tdep\t_\t_")
        lines.append("")
    return "\n".join(lines) + "\n"


def test_the_command_writes_the_code_of_every_layer(
    bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAMINA_CACHE", str(tmp_path / "cache"))
    corpus = tmp_path / "own"
    corpus.mkdir()
    (corpus / "own-train.conllu").write_text(conllu(range(50)))
    (corpus / "own-dev.conllu").write_text(conllu(range(100, 106)))
    settings = ("--task", "pos", "--probes", "layer", "--seeds", 1, "--schedule", "steps=40,lr=1e-2,hidden=16")
    asked = ("probe", bert, "--corpus", corpus, "--mdl", "--samples", 50, *settings)
    asked = (*asked, "--store", tmp_path / "store", "--out", tmp_path / "out")

    ran = CliRunner().invoke(main.app, [str(each) for each in asked])

    assert ran.exit_code == 0, (ran.output, ran.exception)
    table = pd.read_csv(tmp_path / "out" / "mdl.csv", dtype={"seed": str})
    # Layers 0 to 2 of the model, of its control and of its twin, each by one seed and by all.
    assert len(table) == 3 * 3 * 2
    assert set(table["of"]) == {"model", "control", "random"}
    assert set(table["code"]) == {"categorical"}
    assert table["uniform"].to_numpy() == pytest.approx(2 * table["targets"].to_numpy())
    assert (table["codelength"] > 0).all()
