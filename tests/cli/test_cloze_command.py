"""`lamina cloze`, from the command line to tables and figure, and what it says to bad input."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from lamina.figures import to_svg
from lamina.figures.cloze import draw
from lamina.results import Result
from tests.cli.conftest import Done
from tests.language_models import save, tiny_causal, tiny_masked

COLUMNS = "suite,part,measure,value,low,high,n"


@pytest.fixture(scope="module")
def speakers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Tiny models with their heads, saved as Hugging Face saves them."""
    folders = {}
    for encoder in (tiny_causal(), tiny_masked()):
        folder = tmp_path_factory.mktemp("models") / encoder.name.replace(" ", "-")
        folders[encoder.name] = save(encoder, folder)
    return {"causal": folders["tiny gpt2"], "masked": folders["tiny bert"]}


@pytest.mark.usefixtures("drawn_charts")
def test_facts_with_tables_and_figure(run: Callable[..., Done], speakers: dict[str, Path], tmp_path: Path) -> None:
    folder, out = tmp_path / "facts", tmp_path / "out"
    words = ("dog", "cats", "fox", "dollars")
    for id in ("P1", "P2"):
        for kind, rows in (
            ("facts", [{"sub_label": f"{one} {id}", "obj_label": other} for one in words for other in words[:2]]),
            ("patterns", [{"pattern": "The [X] saw the [Y] ."}, {"pattern": "the [X] sat on the [Y]."}]),
        ):
            (folder / kind).mkdir(parents=True, exist_ok=True)
            (folder / kind / f"{id}.jsonl").write_text("\n".join(map(json.dumps, rows)))
    asked = ("--suite", folder, "--limit", 5, "--twin-limit", 3, "--samples", 20, "--out", out)
    done = run("cloze", speakers["masked"], *asked)
    assert done.exit_code == 0, done.output
    assert (out / "cloze.csv").read_text().splitlines()[0] == COLUMNS
    result = Result.load(out)
    cloze, baselines = result.tables["cloze"], result.tables["baselines"]
    assert set(cloze["part"]) == {"all", "P1", "P2"}
    assert {"precision_at_1_objects", "consistency", "consistent_and_right"} <= set(cloze["measure"])
    assert set(baselines["baseline"]) == {"chance", "most_frequent", "twin"}
    assert len(result.tables["items"]) == 10
    assert len(result.tables["answers"]) == 20
    assert list(pd.read_parquet(out / "items.parquet").columns[:3]) == ["item", "group", "value"]
    assert result.provenance.skipped["facts beyond the limit per relation"] == 6
    (chart,) = draw(result).values()
    assert "<svg" in to_svg(chart)


def test_a_table_of_ones_own(run: Callable[..., Done], speakers: dict[str, Path], tmp_path: Path) -> None:
    rows = ["text\tanswer\tcandidates", "The quick brown ___.\tfox\tdog|cats", "The ___ barked .\tdogs\t"]
    own = tmp_path / "own.tsv"
    own.write_text("\n".join(rows))
    done = run("cloze", speakers["causal"], "--suite", own, "--samples", 20, "--out", tmp_path / "out")
    assert done.exit_code == 0, done.output
    result = Result.load(tmp_path / "out")
    assert result.provenance.skipped == {"items whose slot is followed by words, which a causal model does not see": 1}
    cloze = result.tables["cloze"].set_index("measure")
    assert cloze.loc["choice", "n"] == 1 == cloze.loc["accuracy_at_1", "n"]
    assert result.tables["answers"]["text"].tolist() == ["The quick brown ___."]
    assert "items" in draw(result)


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        ("The dog barks.\tdog", "own.tsv:2: no slot in 'The dog barks.'"),
        ("The ___ barks ___.\tdog", "own.tsv:2: 2 slots in"),
        ("The quick ___.\tβ", "the vocabulary of tiny-bert cannot spell 'β'; leave these out"),
    ],
    ids=["no slot", "two slots", "unknown letters"],
)
def test_bad_input_is_told_in_a_sentence(
    run: Callable[..., Done], speakers: dict[str, Path], tmp_path: Path, rows: str, sentence: str
) -> None:
    own = tmp_path / "own.tsv"
    own.write_text(f"text\tanswer\n{rows}\n")
    done = run("cloze", speakers["masked"], "--suite", own)
    assert done.exit_code == 2
    assert sentence in " ".join(done.output.split())


def test_models_without_a_head_and_unknown_suites(
    run: Callable[..., Done], bert: Path, speakers: dict[str, Path]
) -> None:
    done = run("cloze", bert)
    assert done.exit_code == 2
    assert "it has no language-model head; these have: " in " ".join(done.output.split())
    done = run("cloze", speakers["masked"], "--suite", "nowhere")
    assert done.exit_code == 2
    assert "there is no suite, file or folder 'nowhere'" in " ".join(done.output.split())
