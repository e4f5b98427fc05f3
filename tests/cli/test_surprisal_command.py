"""`lamina surprisal`, from the command line to tables and figure, and what it says to bad input."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from lamina.figures import to_svg
from lamina.figures.surprisal import draw
from lamina.results import Result
from tests.cli.conftest import Done

SENTENCES = ("The dog barked .", "A cat ran and the dog did n't .", "the dogs bark .", "The cat ran , too .")


@pytest.fixture(scope="module")
def treebanks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Full stops, commas and `n't` are written without a space before them."""
    folder = tmp_path_factory.mktemp("data") / "bank"
    folder.mkdir()
    for split, count in (("train", 24), ("dev", 12)):
        lines = []
        for number in range(count):
            words = SENTENCES[number % 4].split()
            lines += [f"# newdoc id = {split}-{number}", f"# sent_id = {split}-{number}"]
            for at, word in enumerate(words, start=1):
                after = "SpaceAfter=No" if words[at : at + 1] and words[at] in (".", ",", "n't") else "_"
                lines.append(f"{at}\t{word}\t_\tX\t_\t_\t{at - 1}\t{'root' if at == 1 else 'dep'}\t_\t{after}")
            lines.append("")
        (folder / f"own-{split}.conllu").write_text("\n".join(lines) + "\n")
    return folder


@pytest.mark.usefixtures("drawn_charts")
def test_words_baselines_and_figure(run: Callable[..., Done], speaker: Path, treebanks: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    asked = ("--first", 10, "--order", 2, "--samples", 20, "--out", out)
    done = run("surprisal", speaker, "--corpus", treebanks, *asked)
    assert done.exit_code == 0, done.output
    assert "bits per word" in done.output
    assert (out / "words.csv").read_text().splitlines()[0] == "text,index,word,surprisal"
    words = pd.read_csv(out / "words.csv")
    assert len(words) == sum(len(SENTENCES[at % 4].split()) for at in range(10))
    result = Result.load(out)
    assert set(result.tables["summary"]["model"]) == {"tinygpt", "tinygpt (random)", "unigram", "bigram"}
    assert len(result.tables["items"]) == 10
    assert result.provenance.corpus["first"] == 10
    assert "first" not in result.provenance.corpus["train"], "n-gram models learn from all training texts"
    assert not any("joined by spaces" in why for why in result.provenance.skipped)
    (chart,) = draw(result).values()
    assert "<svg" in to_svg(chart)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--masking", "letter"), "'letter' is not one of"),
        (("--order", "1"), "Input should be greater than or equal to 2"),
        (("--split", "train"), "the scored split must be dev or test; got 'train'"),
    ],
    ids=["masking", "order", "split"],
)
def test_bad_settings_are_told_in_a_sentence(
    run: Callable[..., Done], speaker: Path, treebanks: Path, arguments: tuple[str, ...], sentence: str
) -> None:
    done = run("surprisal", speaker, "--corpus", treebanks, *arguments)
    assert done.exit_code == 2
    assert sentence in done.output


def test_a_model_without_a_head_is_told_which_models_have_one(
    run: Callable[..., Done], bert: Path, treebanks: Path
) -> None:
    done = run("surprisal", bert, "--corpus", treebanks)
    assert done.exit_code == 2
    assert "it has no language-model head; these have: " in done.output
