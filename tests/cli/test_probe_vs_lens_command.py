"""`lamina probe-vs-lens`, from the command line to tables and figure, and its errors."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner

from lamina.cli import main
from lamina.results import Result

WORDS = {
    "train": ("The dog barked", "The dogs ran away", "Nobody knows the fox", "The cats sat", "The lazy dog ran"),
    "dev": ("The dog barked far away", "The quick cats ran", "The lazy fox sat", "Nobody knows the dogs"),
}
TAGS = {"The": "DET", "the": "DET", "Nobody": "PRON", "lazy": "ADJ", "quick": "ADJ", "brown": "ADJ", "far": "ADV",
        "away": "ADV", "dog": "NOUN", "dogs": "NOUN", "cats": "NOUN", "fox": "NOUN"}  # fmt: skip


@pytest.fixture(scope="module")
def treebank(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data") / "bank"
    folder.mkdir()
    for split, count in (("train", 60), ("dev", 20)):
        lines = []
        for number in range(count):
            lines += [f"# newdoc id = {split}-{number}", f"# sent_id = {split}-{number}"]
            for at, word in enumerate(WORDS[split][number % len(WORDS[split])].split(), start=1):
                lines.append(f"{at}\t{word}\t_\t{TAGS.get(word, 'VERB')}\t_\t_\t_\t_\t_\t_")
            lines.append("")
        (folder / f"own-{split}.conllu").write_text("\n".join(lines) + "\n")
    return folder


@pytest.fixture(scope="module")
def facts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two relations in ParaRel's layout, with objects of one piece."""
    folder = tmp_path_factory.mktemp("facts")
    for name, objects in (("P1", ("dog", "the")), ("P2", ("and", "and"))):
        rows = [{"sub_label": f"{name}{at}", "obj_label": objects[at % 2]} for at in range(120)]
        patterns = [
            {"pattern": f"[X] {verb} the [Y] ."} for verb in ("barked", "sat", "ran", "knows", "thought", "did")
        ]
        for part, lines in (("facts", rows), ("patterns", patterns)):
            (folder / part).mkdir(exist_ok=True)
            (folder / part / f"{name}.jsonl").write_text("\n".join(map(json.dumps, lines)) + "\n")
    return folder


def run(*arguments: object) -> tuple[int, str]:
    done = CliRunner(env={"COLUMNS": "240"}).invoke(main.app, ["probe-vs-lens", *map(str, arguments)])
    return done.exit_code, done.output + str(done.exception or "")


@pytest.mark.usefixtures("drawn_charts")
def test_treebank_and_facts_to_tables_and_figure(speaker: Path, treebank: Path, facts: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    code, output = run(
        speaker, "--corpus", treebank, "--facts", facts, "--words", 30, "--learn", 80, "--samples", 20, "--no-seen",
        "--out", out,
    )  # fmt: skip
    assert code == 0, output
    result = Result.load(out)
    assert set(result.tables["scores"]["task"]) == {"pos", "relation"}
    assert any("number: xpos" in why for why in result.provenance.skipped)
    assert result.provenance.corpus["facts"]["facts"] == 240
    assert len(pd.read_parquet(out / "items.parquet")) == len(result.tables["items"]) == 60
    assert pd.read_csv(out / "layers.csv")["of"].tolist() == ["probe", "lens", "later"] * 4
    assert "Part of speech" in output
    assert "Relation of a fact" in output


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--tasks", "pos,tense"), "tasks takes a list, each item one of pos, number, agreement, role, relation"),
        (("--tasks", "role"), "has no dep, which the task role needs; name a corpus that has it"),
        (("--tasks", "relation", "--facts", "none"), "the task relation needs facts: run `lamina assets get pararel`"),
        (("--facts", "nowhere"), "there is no suite, file or folder 'nowhere'"),
        (("--lens", "blurred"), "'blurred' is not one of"),
    ],
    ids=["task", "annotation", "no-facts", "facts", "lens"],
)
def test_bad_settings_are_sentences(speaker: Path, treebank: Path, arguments: tuple[str, ...], sentence: str) -> None:
    code, output = run(speaker, "--corpus", treebank, *arguments)
    assert code != 0
    assert sentence in output


def test_a_folder_without_facts_is_refused(speaker: Path, treebank: Path, tmp_path: Path) -> None:
    (tmp_path / "own.tsv").write_text("text\tanswer\nDogs ___ .\tbark\n")
    code, output = run(speaker, "--corpus", treebank, "--facts", tmp_path)
    assert code != 0
    assert "holds no facts of relations with patterns; name pararel or a folder like it" in output


def test_a_model_without_a_head_is_told_which_models_have_one(bert: Path, treebank: Path) -> None:
    code, output = run(bert, "--corpus", treebank)
    assert code != 0
    assert "it has no language-model head; these have: " in output
