"""`lamina restore`, from the command line to the tables and the figure."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from lamina.cli import main
from lamina.figures import to_svg
from lamina.figures.restore import draw
from lamina.framework.verify import check_findings
from lamina.results import Result


@pytest.fixture(scope="module")
def treebanks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`it` is a noun after `the` and a verb after `we`."""
    folder = tmp_path_factory.mktemp("data") / "bank"
    folder.mkdir()
    for split, count in (("train", 16), ("dev", 6), ("test", 8)):
        lines = []
        for number in range(count):
            first, tag = (("the", "NOUN"), ("we", "VERB"))[number % 2]
            words = [(first, "DET"), ("it", tag), *((letter, "X") for letter in f"{split}{number}"), (".", "PUNCT")]
            lines.append(f"# sent_id = {split}-{number}")
            lines += [
                f"{at}\t{word}\t_\t{tag}\t_\t_\t{at - 1}\t{'root' if at == 1 else 'dep'}\t_\t_"
                for at, (word, tag) in enumerate(words, start=1)
            ]
            lines.append("")
        (folder / f"own-{split}.conllu").write_text("\n".join(lines) + "\n")
    return folder


@pytest.fixture(scope="module")
def tuned(bert: Path, treebanks: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tagger, tuned for a few steps."""
    out = tmp_path_factory.mktemp("runs") / "pos"
    learning = ("--epochs", 99, "--max-steps", 4, "--batch", 8, "--lr", 0.01, "--device", "cpu")
    asked = ("finetune", bert, "--task", "pos", "--data", treebanks, *learning, "--out", out)
    told = CliRunner().invoke(main.app, [str(each) for each in asked])
    assert told.exit_code == 0, (told.output, told.exception)
    return out


@pytest.mark.usefixtures("drawn_charts")
def test_layers_go_back_and_models_are_tuned_again(tuned: Path, tmp_path: Path, run) -> None:
    out = tmp_path / "out"
    # Neither the data nor the model before is named: the folder knows both.
    hows = ("--how", "restore", "--how", "freeze", "--how", "reset", "--points", 2)
    told = run("restore", tuned, *hows, "--samples", 20, "--device", "cpu", "--out", out)
    assert told.exit_code == 0, told.output
    assert (out / "restore.csv").read_text().splitlines()[0] == "how,first,last,value,low,high"
    result = Result.load(out)
    table = result.tables["restore"]
    assert [tuple(row) for row in table[["how", "first", "last"]].itertuples(index=False)] == [
        ("restore", 0, 0), ("restore", 0, 2), ("restore", 1, 2), ("restore", 2, 2),
        ("freeze", 0, 0), ("freeze", 0, 2),
        ("reset", 1, 2), ("reset", 2, 2),
    ]  # fmt: skip
    assert ((table["low"] <= table["value"]) & (table["value"] <= table["high"])).all()
    # The recipe is the tuned model's own, so that it is not trained once more to be compared with.
    assert set(result.tables["references"]["what"]) == {"tuned", "most frequent answer"}
    assert result.tables["effects"]["how"].unique().tolist() == ["restore", "random", "freeze", "reset", "transfer"]
    assert set(result.tables) == {"restore", "random", "effects", "best", "references", "transfer", "transfer_twin"}
    assert result.provenance.corpus["as_tuned"] is True
    assert result.provenance.model["before"]["name"] == "tinybert"
    assert 1 <= len(result.findings) <= 7
    assert not check_findings(result)
    assert not list(out.glob("*.safetensors")), "models are not kept"
    assert [path.name for path in tmp_path.iterdir()] == ["out"], "nothing is left beside the result"
    (chart,) = draw(result).values()
    assert "<svg" in to_svg(chart)


def test_with_other_steps_it_is_compared_with_a_model_of_as_many(tuned: Path, tmp_path: Path, run) -> None:
    out = tmp_path / "out"
    asked = ("--how", "freeze", "--points", 1, "--max-steps", 2, "--no-transfer", "--samples", 20)
    told = run("restore", tuned, *asked, "--device", "cpu", "--out", out)
    assert told.exit_code == 0, told.output
    tables = Result.load(out).tables
    references = tables["references"].set_index("what")["value"]
    assert "tuned again" in references
    assert tables["effects"]["baseline"].tolist() == [references["tuned again"]]


def test_a_dry_run_counts_passes_and_steps(tuned: Path, tmp_path: Path, run) -> None:
    asked = ("--how", "restore", "--how", "freeze", "--points", 2, "--no-transfer", "--no-twin")
    told = run("restore", tuned, *asked, "--device", "cpu", "--out", tmp_path / "out", "--dry-run")
    assert told.exit_code == 0, told.output
    # The model as it is, four times with layers put back, and three trainings of four steps.
    assert "passes   8\n" in told.output
    assert "steps    12\n" in told.output
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("--before", "SPEAKER"), "are of different architectures"),
        (("--before", "nowhere/at-all"), "nowhere/at-all"),
        (("--how", "none"), "how: name at least one of restore, freeze, reset"),
        (("--how", "thaw"), "one of restore, freeze, reset"),
        (("--data", "nothing-here"), "nothing-here"),
    ],
    ids=["architecture", "no model", "nothing", "unknown", "no data"],
)
def test_mistakes_end_in_one_line(tuned: Path, speaker: Path, tmp_path: Path, run, more, said) -> None:
    given = [str(speaker) if each == "SPEAKER" else each for each in more]
    told = run("restore", tuned, "--out", tmp_path / "out", "--device", "cpu", *given)
    assert told.exit_code == 2
    assert said in told.output
    assert list(tmp_path.iterdir()) == []


def test_a_model_that_was_not_tuned_is_said_to_be_one(bert: Path, tmp_path: Path, run) -> None:
    told = run("restore", bert, "--out", tmp_path / "out", "--device", "cpu")
    assert told.exit_code == 2
    assert "was not fine-tuned by lamina" in told.output
    assert "`lamina finetune`" in told.output
