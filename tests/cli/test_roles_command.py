"""`lamina roles`, from the command line to tables and the figure, and what it says to bad input."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from lamina.analyses.cause.role_heads import ROLES
from tests.cli.conftest import Done
from tests.language_models import save
from tests.planted_language import agreement_pairs, copying_head, planted
from tests.planted_treebank import conllu, treebank

COLUMNS = ",".join(ROLES)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model in which one head copies the subject's number, saved."""
    return save(planted(0), tmp_path_factory.mktemp("models") / "planted")


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its language as a treebank with a training part."""
    folder = tmp_path_factory.mktemp("corpora") / "planted"
    folder.mkdir()
    for seed, (split, many) in enumerate((("train", 120), ("dev", 40))):
        (folder / f"planted-{split}.conllu").write_text(conllu(treebank(seed, many)))
    return folder


@pytest.mark.usefixtures("drawn_charts")
def test_the_head_that_copies_the_number_matters_for_its_role(
    run: Callable[..., Done], model: Path, corpus: Path, tmp_path: Path
) -> None:
    suite = tmp_path / "agreement.tsv"
    pairs = agreement_pairs(3, 60)
    suite.write_text("good\tbad\n" + "".join(f"{pair.good}\t{pair.bad}\n" for pair in pairs))
    out = tmp_path / "out"
    done = run("roles", model, "--corpus", corpus, "--suite", suite, "--items", 60, "--samples", 20, "--out", out)
    assert done.exit_code == 0, done.output
    block, head = copying_head(planted(0))
    assert f"Head {block + 1}-{head + 1}, which finds nsubj, matters for it more" in " ".join(done.output.split())
    for name in ("roles", "controls", "twin"):
        assert (out / f"{name}.csv").read_text().splitlines()[0] == COLUMNS
    table = pd.read_csv(out / "roles.csv")
    own = table[(table["target"] == "pairs") & (table["p_adjusted"] < 0.05)]
    assert own[["layer", "head"]].to_numpy().tolist() == [[block + 1, head + 1]]
    twin = pd.read_csv(out / "twin.csv")
    assert (twin.loc[twin["target"] == "pairs", "p_adjusted"] > 0.05).all()
    assert set(pd.read_csv(out / "controls.csv")["target"].str[:13]) == {"link:all but "}


def test_what_cannot_be_asked_is_told_in_a_sentence(
    run: Callable[..., Done], speaker: Path, model: Path, corpus: Path, tmp_path: Path
) -> None:
    plain = tmp_path / "plain.txt"
    plain.write_text("The dog barked.\n\nA cat ran.\n\n" * 20)
    for arguments, sentence in (
        ((model, "--corpus", corpus, "--layer", 9), "--layer 9: planted has layers 1 to 2"),
        ((speaker, "--corpus", plain, "--suite", "none"), "so no head can have a role in it; name a treebank"),
        ((model, "--corpus", corpus, "--how", "gone"), "'zero', 'mean', 'resample'"),
    ):
        done = run("roles", *arguments)
        assert done.exit_code == 2, done.output
        assert sentence in " ".join(done.output.split())
