"""`lamina patch`, from the command line to tables and figure, and what it says to bad input."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from lamina.analyses.cause.exchanged_states import EFFECTS, GAPS
from lamina.figures import to_svg
from lamina.figures.patch import draw
from lamina.results import Result
from tests.cli.conftest import Done


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    path = tmp_path / "own.tsv"
    path.write_text(
        "good\tbad\nThe dog ran.\tThe fox ran.\nthe cat ran far.\tthe fox ran far.\na cat sat.\ta fox sat.\n"
    )
    return path


@pytest.fixture
def answering(bert: Path, tmp_path: Path) -> Path:
    import torch
    from transformers import AutoModelForQuestionAnswering, AutoTokenizer

    folder = tmp_path / "answering"
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        AutoModelForQuestionAnswering.from_pretrained(bert).save_pretrained(folder)
    AutoTokenizer.from_pretrained(bert).save_pretrained(folder)
    return folder


@pytest.fixture
def squad(tmp_path: Path) -> Path:
    context = "The dog ran in 1815. A cat ran in 1822."
    asked = {"id": "q1", "question": "When?", "answers": [{"text": "1815", "answer_start": 15}]}
    path = tmp_path / "own.json"
    path.write_text(json.dumps({"data": [{"title": "t", "paragraphs": [{"context": context, "qas": [asked]}]}]}))
    return path


@pytest.mark.usefixtures("drawn_charts")
def test_minimal_pairs_by_layer_and_position(
    run: Callable[..., Done], speaker: Path, suite: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    done = run(
        "patch", speaker, "--suite", suite, "--items", 3, "--samples", 20, "--layer", 0, "--layer", 2, "--out", out
    )
    assert done.exit_code == 0, done.output
    assert "Change of the difference of log-probabilities" in done.output
    assert (out / "pairs.csv").read_text().splitlines()[0] == ",".join(EFFECTS)
    assert (out / "gaps.csv").read_text().splitlines()[0] == ",".join(GAPS)
    table = pd.read_csv(out / "pairs.csv")
    assert set(table["layer"]) == {0, 2}
    assert table[table["position"] == "before"]["effect"].abs().max() < 1e-4, "a causal model has read the same"
    assert set(pd.read_csv(out / "beside.csv")["model"]) == {"twin", "random tokens"}
    result = Result.load(out)
    assert result.provenance.skipped["pairs whose sentences have different numbers of tokens"] == 1
    (chart,) = draw(result).values()
    assert "<svg" in to_svg(chart)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--layer", "9"), "has no layer 9; it has layers 0 (embeddings) to 3"),
        (("--data", "stories"), "has no head that answers with a span of a context; `lamina finetune MODEL"),
        (("--suite", "nowhere.tsv"), "nowhere.tsv"),
        (("--swap", "words"), "each item one of asked, answer"),
    ],
    ids=["layer", "data", "suite", "swap"],
)
def test_bad_input_is_told_in_a_sentence(
    run: Callable[..., Done], speaker: Path, suite: Path, arguments: tuple[str, ...], sentence: str
) -> None:
    done = run("patch", speaker, *(() if "--suite" in arguments else ("--suite", suite)), *arguments)
    assert done.exit_code == 2, done.output
    assert sentence in " ".join(done.output.split())


def test_models_that_say_nothing_are_told_what_would_work(
    run: Callable[..., Done], bert: Path, answering: Path, squad: Path
) -> None:
    done = run("patch", bert)
    assert done.exit_code == 2
    assert "has neither a head that answers with a span nor a language-model head" in " ".join(done.output.split())
    done = run("patch", answering, "--data", squad, "--split", "all")
    assert done.exit_code == 2
    said = " ".join(done.output.split())
    assert "no answer can turn: none of 1 questions is answered differently in two contexts" in said
    assert "questions that are not answered correctly in both contexts (answer): 1" in said
