"""`lamina order`, from the command line to tables and figures, and what it says to bad input."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from lamina.analyses.layers.probe.tables import ProbeScore
from lamina.figures import to_svg
from lamina.figures.order import draw
from lamina.framework.verify import check_findings
from lamina.results import Result
from tests.cli.conftest import Done
from tests.tasks.test_order_making import text

FEW = ("--items", 60, "--steps", 600, "--seeds", 1, "--samples", 20)


def write_bank(folder: Path, *, heads: bool = True, tags: bool = True) -> Path:
    """A generated treebank in CoNLL-U; tags are in features instead where there are no Penn tags."""
    folder.mkdir()
    told = {"NNS": "Number=Plur", "NN": "Number=Sing", "VBD": "Tense=Past|VerbForm=Fin",
            "VBP": "Tense=Pres|VerbForm=Fin", "VBZ": "Tense=Pres|VerbForm=Fin"}  # fmt: skip
    for split, count in (("train", 160), ("dev", 80), ("test", 40)):
        lines = []
        for number in range(count):
            own = text(number, split)
            lines += [f"# newdoc id = {own.doc}", f"# sent_id = {own.id}"]
            rows = zip(own.words, own.edges["pos"], own.edges["xpos"], own.edges["dep"], strict=True)
            for at, (word, pos, tag, dep) in enumerate(rows, start=1):
                assert dep.other is not None
                head = 0 if dep.other == dep.span else dep.other.start + 1
                place = f"{head}\t{dep.labels[0]}" if heads else "_\t_"
                name = tag.labels[0]
                both = f"{name}\t_" if tags else f"_\t{told.get(name, '_')}"
                lines.append(f"{at}\t{word}\t{word}\t{pos.labels[0]}\t{both}\t{place}\t_\t_")
            lines.append("")
        (folder / f"own-{split}.conllu").write_text("\n".join(lines) + "\n")
    return folder


@pytest.mark.usefixtures("drawn_charts")
def test_tables_and_charts(run: Callable[..., Done], bert: Path, tmp_path: Path) -> None:
    folder, out = write_bank(tmp_path / "bank"), tmp_path / "out"
    names = ("index", "subject_number", "tense")
    asked = [part for name in names for part in ("--task", name)]
    done = run("order", bert, "--corpus", folder, *asked, *FEW, "--out", out)
    assert done.exit_code == 0, done.output
    table = pd.read_csv(out / "order.csv")
    assert list(table.columns) == list(ProbeScore.__annotations__)
    assert set(table["task"]) == set(names)
    assert set(table["of"]) == {"model", "random", "control"}
    # Both dev and test are scored.
    assert set(table["split"]) == {"dev+test"}
    made = pd.read_csv(out / "tasks.csv")
    whole = made[made["label"].notna()].groupby(["task", "part"])
    assert (whole["count"].sum() == whole["targets"].first()).all()
    result = Result.load(out)
    assert check_findings(result) == []
    charts = draw(result)
    assert set(charts) == {"order", "tasks"}
    assert all("<svg" in to_svg(chart) for chart in charts.values())


def test_without_converged_probes_there_are_no_charts(run: Callable[..., Done], bert: Path, tmp_path: Path) -> None:
    folder, out = write_bank(tmp_path / "bank"), tmp_path / "out"
    few = ("--items", 60, "--steps", 2, "--seeds", 1, "--samples", 20, "--no-twin")
    done = run("order", bert, "--corpus", folder, "--task", "index", *few, "--out", out)
    assert done.exit_code == 0, done.output
    result = Result.load(out)
    assert {found.status for found in result.findings} == {"untested"}
    assert all("the probe of layer 0 and 2 others had not converged" in found.text for found in result.findings)
    assert draw(result) == {}


def test_features_instead_of_tags(run: Callable[..., Done], bert: Path, tmp_path: Path) -> None:
    folder, out = write_bank(tmp_path / "bank", tags=False), tmp_path / "out"
    done = run("order", bert, "--corpus", folder, "--task", "tense", *FEW, "--no-twin", "--faithful", "--out", out)
    assert done.exit_code == 0, done.output
    assert set(pd.read_csv(out / "order.csv")["task"]) == {"tense"}


@pytest.mark.parametrize(
    ("arguments", "heads", "sentence"),
    [
        (("--task", "subjects"), True, "unknown task 'subjects'; did you mean subject?"),
        (("--task", "subject"), False, "subject cannot be made from"),
        (("--task", "top_constituents"), True, "it has no constituents (annotation const)"),
        (("--split", "train"), True, "Invalid value for '--split': 'train' is not one of"),
    ],
    ids=["unknown", "no heads", "no constituents", "split"],
)
def test_bad_input_is_told_in_a_sentence(
    run: Callable[..., Done], bert: Path, tmp_path: Path, arguments: tuple[str, ...], heads: bool, sentence: str
) -> None:
    folder = write_bank(tmp_path / "bank", heads=heads)
    done = run("order", bert, "--corpus", folder, *arguments, *FEW, "--no-twin", "--out", tmp_path / "out")
    assert done.exit_code == 2, done.output
    assert sentence in " ".join(done.output.split())


def test_a_corpus_of_which_no_task_can_be_made(run: Callable[..., Done], bert: Path, tmp_path: Path) -> None:
    path = tmp_path / "own.txt"
    path.write_text("\n".join(f"Hi {number}" for number in range(200)) + "\n")
    done = run("order", bert, "--corpus", path, *FEW, "--no-twin", "--out", tmp_path / "out")
    assert done.exit_code == 2, done.output
    assert "no task can be made from" in " ".join(done.output.split())


def test_a_dry_run_tells_what_it_would_take(run: Callable[..., Done], bert: Path, tmp_path: Path) -> None:
    folder = write_bank(tmp_path / "bank")
    done = run("order", bert, "--corpus", folder, "--task", "index", *FEW, "--no-twin", "--dry-run")
    assert done.exit_code == 0, done.output
    assert "about" in done.output
