"""`lamina windows`, from the command line to the table and the figure."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import lamina
from lamina.cli import main
from lamina.errors import InputError
from lamina.figures import to_svg
from lamina.figures.windows import draw
from lamina.framework.verify import check_findings
from lamina.results import Result
from lamina.training import finetune as training


@pytest.fixture(scope="module")
def treebanks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`it` is a noun after `the` and a verb after `we`: the word alone does not tell."""
    folder = tmp_path_factory.mktemp("data") / "bank"
    folder.mkdir()
    for split, count in (("train", 24), ("dev", 8), ("test", 8)):
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


def asked(treebanks: Path, out: Path) -> tuple[object, ...]:
    learning = ("--epochs", 99, "--max-steps", 2, "--batch", 8, "--lr", 0.01, "--device", "cpu")
    return ("--data", treebanks, "--windows", "1,0", "--seeds", 2, *learning, "--out", out)


@pytest.fixture(scope="module")
def done(bert: Path, treebanks: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The folder of a result, and what was printed."""
    out = tmp_path_factory.mktemp("results") / "out"
    told = CliRunner(env={"COLUMNS": "220"}).invoke(main.app, ["windows", *map(str, (bert, *asked(treebanks, out)))])
    assert told.exit_code == 0, (told.output, told.exception)
    return out, told.output


@pytest.mark.usefixtures("drawn_charts")
def test_one_row_per_window_and_seed(done: tuple[Path, str]) -> None:
    out, told = done
    assert (out / "scores.csv").read_text().splitlines()[0] == "window,seed,metric,count,value,low,high"
    result = Result.load(out)
    scores = result.tables["scores"]
    assert list(zip(scores["window"], scores["seed"], strict=True)) == [
        (window, seed) for window in ("0", "1", "all") for seed in ("0", "1", "all")
    ]
    assert ((scores["low"] <= scores["value"]) & (scores["value"] <= scores["high"])).all()
    wide = scores.pivot_table(index="window", columns="seed", values="value")
    assert np.allclose(wide["all"], (wide["0"] + wide["1"]) / 2)
    lacks = result.tables["differences"].set_index(["against", "window"])["difference"]
    assert lacks["all", 0] == pytest.approx(wide["all"]["0"] - wide["all"]["all"])
    # Labels looked up by word: all but `it`, half of which are nouns; letters that training lacks are X as well.
    words = scores["count"].iloc[0]
    baseline = result.tables["baseline"].set_index("baseline")["value"]
    assert baseline["most frequent label of the word"] == pytest.approx((words - 4) / words)
    assert baseline["most frequent label"] < baseline["most frequent label of the word"]
    assert set(result.tables["curve"]["window"]) == {"0", "1", "all"}
    assert 1 <= len(result.findings) <= 4
    assert not check_findings(result)
    assert "words seen" in told
    assert not list(out.glob("*.safetensors")), "models are not kept"
    assert [path.name for path in out.parent.iterdir()] == ["out"], "nothing is left beside the result"
    (chart,) = draw(result).values()
    assert "<svg" in to_svg(chart)
    assert chart.to_dict()["description"].startswith("Accuracy by words seen on each side: 0 ")


def test_a_run_that_was_stopped_continues(
    bert: Path, treebanks: Path, done: tuple[Path, str], tmp_path: Path, run, monkeypatch: pytest.MonkeyPatch
) -> None:
    train, trained = training.train, []

    def stopping(*given, **more):
        trained.append(given[5].name)
        if len(trained) == 4:
            raise KeyboardInterrupt
        return train(*given, **more)

    monkeypatch.setattr(training, "train", stopping)
    out = tmp_path / "out"
    settings = {"windows": [1, 0], "seeds": 2, "epochs": 99.0, "max_steps": 2, "batch": 8, "lr": 0.01}
    with pytest.raises(KeyboardInterrupt):
        lamina.windows(str(bert), str(treebanks), out=out, device="cpu", **settings)
    assert not out.exists()
    assert run("windows", bert, *asked(treebanks, out)).exit_code == 0
    every = [f"window-{window}-seed-{seed}" for window in ("0", "1", "all") for seed in (0, 1)]
    assert trained == [*every[:4], *every[3:]]
    for name in ("scores", "differences", "curve"):
        assert (out / f"{name}.csv").read_text() == (done[0] / f"{name}.csv").read_text()


def test_a_dry_run_counts_every_window_and_seed(bert: Path, treebanks: Path, tmp_path: Path, run) -> None:
    told = run("windows", bert, *asked(treebanks, tmp_path / "out"), "--dry-run")
    assert told.exit_code == 0, told.output
    assert "passes   6\n" in told.output
    assert "steps    12\n" in told.output
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("--windows", "2,2"), "windows: every size is named once; got 2, 2"),
        (("--windows", "-1"), "windows takes a list, each item a whole number of at least 0"),
        (("--windows", "near"), "--windows takes whole numbers"),
        (("--task", "mlm"), "'mlm' is not one of"),
        (("--task", "ner"), "has no ner annotation"),
        (("--lr", "0"), "lr must be more than 0"),
    ],
)
def test_mistakes_end_in_one_line(bert: Path, treebanks: Path, tmp_path: Path, run, more, said) -> None:
    told = run("windows", bert, "--data", treebanks, "--out", tmp_path / "out", "--device", "cpu", *more)
    assert told.exit_code == 2
    assert said in told.output
    assert list(tmp_path.iterdir()) == []


def test_no_window_is_said(bert: Path, treebanks: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="name at least one size"):
        lamina.windows(str(bert), str(treebanks), windows=[], out=tmp_path / "out", device="cpu")
    assert list(tmp_path.iterdir()) == []
