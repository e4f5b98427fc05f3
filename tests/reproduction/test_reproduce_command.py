"""`lamina reproduce`: a paper run whole on a tiny model and a tiny suite, and what bad input is told."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from tests.cli.conftest import Done
from tests.cli.conftest import bert as bert
from tests.cli.conftest import run as run
from tests.language_models import save, tiny_masked

PAIRS = [
    ("The dog barked .", "The dog barked barked .", "island_effects", "adjunct_island"),
    ("A cat ran .", "A ran cat .", "island_effects", "wh_island"),
    ("the dog ran .", "the ran dog .", "binding", "principle_A_case_1"),
]


@pytest.fixture
def speaker(tmp_path: Path) -> Path:
    return save(tiny_masked(), tmp_path / "tinybert")


@pytest.fixture
def suite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three pairs where LAMINA_DATA has BLiMP."""
    folder = tmp_path / "data" / "blimp"
    folder.mkdir(parents=True)
    rows = [
        {"sentence_good": good, "sentence_bad": bad, "field": "syntax", "linguistics_term": term, "UID": uid,
         "pairID": str(number)}
        for number, (good, bad, term, uid) in enumerate(PAIRS)
    ]  # fmt: skip
    (folder / "pairs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    monkeypatch.setenv("LAMINA_DATA", str(tmp_path / "data"))
    return folder


def test_a_paper_is_one_page_with_both_numbers(
    run: Callable[..., Done], speaker: Path, suite: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lamina.reproduction import papers

    # The n-gram model beside the pairs learns from a treebank that is not here.
    paper = papers.get_paper("blimp")
    object.__setattr__(paper.runs[0], "settings", {**paper.runs[0].settings, "ngrams": None})
    out = tmp_path / "out"
    done = run("reproduce", "blimp", "--model", speaker, "--small", "--out", out)
    assert done.exit_code == 0, done.output
    assert "a stand-in" in done.output
    numbers = pd.read_csv(out / "comparison.csv").set_index(["row", "column"])
    terms = pd.read_csv(out / "results" / "pairs" / "terms.csv").query("score == 'plain'").set_index("name")
    assert numbers.loc[("binding", "GPT-2-large"), "published"] == 0.8094
    assert numbers.loc[("binding", "GPT-2-large"), "ours"] == terms.loc["binding", "accuracy"]
    assert numbers.loc[("ellipsis", "GPT-2-large"), "verdict"] == "not there"
    page = (out / "index.html").read_text()
    assert "Accuracy by phenomenon" in page
    assert "3 of the 67,000 pairs" in page
    assert "lamina reproduce blimp" in page
    assert [*(out / "figures").glob("*.svg")]


def test_a_model_that_cannot_do_it_is_refused_before_anything_runs(
    run: Callable[..., Done], bert: Path, suite: Path, tmp_path: Path
) -> None:
    done = run("reproduce", "blimp", "--model", bert, "--out", tmp_path / "out")
    assert done.exit_code == 2
    assert "nothing of blimp can be run with" in done.output
    assert "try --model smollm2" in done.output
    assert not (tmp_path / "out").exists()


def test_bad_input_is_told_before_anything_runs(run: Callable[..., Done], speaker: Path, tmp_path: Path) -> None:
    done = run("reproduce", "blimpp")
    assert done.exit_code == 2
    assert "did you mean blimp" in done.output
    done = run("reproduce", "blimp", "--model", speaker, "--data", tmp_path / "nowhere")
    assert done.exit_code == 2
    assert "is not a folder" in done.output
    assert "attention" in run("reproduce").output


def test_a_model_with_too_short_a_context_is_refused_before_anything_runs(
    run: Callable[..., Done], bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The paper shows 128 tokens at once; this model takes 64. Runs of sentences stay."""
    folder = tmp_path / "data" / "wikipedia_pairs"
    folder.mkdir(parents=True)
    (folder / "pairs.txt").write_text("The dog barked .\nA cat ran .\n\nThe cat ran .\nA dog barked .\n")
    monkeypatch.setenv("LAMINA_DATA", str(tmp_path / "data"))
    done = run("reproduce", "attention", "--model", bert, "--only", "surface", "--out", tmp_path / "out")
    assert done.exit_code == 2
    assert "takes at most 64 tokens, and the paper shows it 128" in done.output
    assert not (tmp_path / "out").exists()


@pytest.fixture
def reader(bert: Path, tmp_path: Path) -> Path:
    """A tiny BERT that takes as many tokens as the small settings show it."""
    import torch
    from transformers import AutoTokenizer, BertConfig, BertModel

    folder = tmp_path / "reader"
    torch.manual_seed(0)
    sizes: dict[str, Any] = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
    config = BertConfig(vocab_size=80, max_position_embeddings=200, intermediate_size=32, **sizes)
    BertModel(config).save_pretrained(folder)
    AutoTokenizer.from_pretrained(bert).save_pretrained(folder)
    return folder


def write_squad(folder: Path) -> None:
    """Twelve articles to train and four to score, of one question each, where LAMINA_DATA has SQuAD."""
    folder.mkdir(parents=True)
    for split, count in (("train", 12), ("dev", 4)):
        articles = []
        for number in range(count):
            context = f"The {split} dog {number} barked . A cat ran . The end ."
            answers = [{"text": "cat", "answer_start": context.index("cat")}]
            asked = [{"id": f"{split}{number}", "question": "Which cat ran ?", "answers": answers}]
            articles.append({"title": f"{split} {number}", "paragraphs": [{"context": context, "qas": asked}]})
        (folder / f"{split}-v1.1.json").write_text(json.dumps({"data": articles}))


def test_a_run_asks_the_model_that_an_earlier_run_trained(
    run: Callable[..., Done], reader: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_squad(tmp_path / "data" / "squad")
    monkeypatch.setenv("LAMINA_DATA", str(tmp_path / "data"))
    out = tmp_path / "out"
    done = run("reproduce", "questions", "--model", reader, "--small", "--only", "tokens", "--out", out)
    assert done.exit_code == 2
    assert "asks the model that the run squad trains, which is not run; add squad to --only" in done.output
    done = run("reproduce", "questions", "--model", reader, "--small", "--only", "squad,tokens", "--out", out)
    assert done.exit_code == 0, done.output
    about = json.loads((out / "results" / "tokens" / "result.json").read_text())
    assert about["provenance"]["model"]["name"] == "squad"
    numbers = pd.read_csv(out / "comparison.csv").set_index(["row", "column"])
    scores = pd.read_csv(out / "results" / "squad" / "scores.csv").query("task == 'all' and metric == 'f1'")
    assert numbers.loc[("squad", "BERT"), "ours"] == pytest.approx(100 * scores["value"].item())
    assert numbers.loc[("babi", "BERT"), "verdict"] == "not run"
    assert "The model is the one that squad trains" in (out / "index.html").read_text()
