"""`lamina pairs`, from the command line to tables and figures, and what it says to bad input."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from lamina.figures import to_svg
from lamina.figures.pairs import draw
from lamina.results import Result
from tests.cli.conftest import Done
from tests.language_models import save, tiny_masked

ROWS = (
    ("The dog barked .", "The dog barked barked .", "order", "double"),
    ("A cat ran .", "A ran cat .", "order", "swap"),
    ("the dog ran .", "the ran dog .", "order", "swap"),
    ("the end .", "end the .", "other", "end"),
)


@pytest.fixture(scope="module")
def speaker(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny BERT with its head."""
    return save(tiny_masked(), tmp_path_factory.mktemp("models") / "tinybert")


@pytest.fixture
def own(tmp_path: Path) -> Path:
    path = tmp_path / "own.tsv"
    path.write_text("good\tbad\tterm\tparadigm\n" + "".join("\t".join(row) + "\n" for row in ROWS))
    return path


@pytest.mark.usefixtures("drawn_charts")
def test_a_table_of_ones_own_is_a_suite(run: Callable[..., Done], speaker: Path, own: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    words = tmp_path / "words-train.txt"
    words.write_text("The dog barked .\nthe cat ran .\n" * 20)
    done = run("pairs", speaker, "--suite", own, "--ngrams", words, "--order", 2, "--samples", 20, "--out", out)
    assert done.exit_code == 0, done.output
    assert "own right more often than chance" in done.output
    assert "a bigram model of" in done.output
    head = "suite,field,term,paradigm,score,pairs,accuracy,low,high,chance,"
    head += "difference,diff_low,diff_high,p_adjusted,units,needed,beside_chance"
    assert (out / "pairs.csv").read_text().splitlines()[0] == head
    table = pd.read_csv(out / "pairs.csv")
    assert table.groupby("score")["paradigm"].apply(list).to_dict() == {
        score: ["all", "double", "swap", "end"] for score in ("plain", "per_token")
    }
    assert len(pd.read_parquet(out / "items.parquet")) == 4
    result = Result.load(out)
    assert list(dict.fromkeys(result.tables["baselines"]["of"])) == ["twin", "bigram"]
    assert all("<svg" in to_svg(chart) for chart in draw(result).values())
    some = run("pairs", speaker, "--suite", own, "--only", "swap", "--limit", 1, "--no-twin", "--ngrams", "none",
               "--out", tmp_path / "some")  # fmt: skip
    assert some.exit_code == 0, some.output
    assert Result.load(tmp_path / "some").tables["items"]["item"].tolist() == ["swap/own:3"]
    assert "2 pairs of paradigms that were not asked for" in some.output


@pytest.mark.parametrize(
    ("content", "arguments", "sentence"),
    [
        ("good\tbad\nA dog.\tA dog.\n", (), "own.tsv:2: both sentences are 'A dog.'"),
        ("right\twrong\nA dog.\tA dogs.\n", (), "own.tsv:1: no column 'good' (the columns are: right, wrong)"),
        ("good\tbad\nA dog.\tA dogs.\n", ("--only", "islands"), "has no paradigm, term or field 'islands'"),
        ("good\tbad\nA dog.\tA dogs.\n", ("--masking", "letter"), "'letter' is not one of"),
        ("good\tbad\nA dog.\tA dogs.\n", ("--split", "dev"), "--corpus, --split and --nonce are for --suite agreement"),
        ("good\tbad\nA dog.\tA dogs.\n", ("--suite", "blimpp"), "there is no suite, file or folder 'blimpp'"),
    ],
    ids=["equal", "columns", "only", "masking", "split", "unknown"],
)
def test_bad_input_is_told_in_a_sentence(
    run: Callable[..., Done], speaker: Path, own: Path, content: str, arguments: tuple[str, ...], sentence: str
) -> None:
    own.write_text(content)
    done = run("pairs", speaker, "--suite", own, *arguments)
    assert done.exit_code == 2
    assert sentence in " ".join(done.output.split())
    assert "Traceback" not in done.output


def test_a_model_without_a_head_is_refused_in_words(run: Callable[..., Done], bert: Path, tmp_path: Path) -> None:
    (tmp_path / "own.tsv").write_text("good\tbad\nDogs bark .\tDogs barks .\n")
    done = run("pairs", bert, "--suite", tmp_path / "own.tsv")
    assert done.exit_code == 2
    assert "has no language-model head; these have: smollm2" in " ".join(done.output.split())
