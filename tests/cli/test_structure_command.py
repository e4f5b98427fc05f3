"""`lamina structure`, from the command line to tables and figures, and what it says to bad input."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import lamina
from lamina.figures import to_svg
from lamina.figures.structure import draw
from lamina.framework.verify import check_findings
from lamina.probes.structural import StructuralBank
from lamina.results import Result
from lamina.testing import TinyEncoder
from tests.cli.conftest import Done

SENTENCES = (
    (("The", 2), ("dog", 3), ("barked", 0), ("today", 3), (".", 3)),
    (("Nobody", 2), ("knows", 0), ("the", 5), ("lazy", 5), ("fox", 2), (".", 2)),
    (("The", 2), ("cats", 3), ("sat", 0), ("far", 5), ("away", 3)),
)


def treebank(folder: Path, heads: Callable[[int], str] = str) -> Path:
    folder.mkdir()
    for split, count in (("train", 60), ("dev", 9)):
        lines = []
        for number in range(count):
            lines += [f"# newdoc id = {split}-{number}", f"# sent_id = {split}-{number}"]
            # Sentences of the two sets must differ.
            words = (*SENTENCES[number % 3], *((("far", 3),) if split == "dev" else ()))
            for at, (word, head) in enumerate(words, start=1):
                kind, tag = ("PUNCT", ".") if word == "." else ("X", "XX")
                relation = "root" if head == 0 else "dep"
                lines.append(f"{at}\t{word}\t_\t{kind}\t{tag}\t_\t{heads(head)}\t{relation}\t_\t_")
            lines.append("")
        (folder / f"own-{split}.conllu").write_text("\n".join(lines) + "\n")
    return folder


@pytest.mark.usefixtures("drawn_charts")
def test_probes_and_trees_from_attention(run: Callable[..., Done], speaker: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    few = ("--rank", 2, "--rank", 8, "--layer", 0, "--layer", 2, "--samples", 20, "--attention", 6, "--learn", 6)
    done = run("structure", speaker, "--corpus", treebank(tmp_path / "bank"), *few, "--out", out)
    assert done.exit_code == 0, done.output
    result = Result.load(out)
    assert any("combination of attention heads" in found.text for found in result.findings)
    assert check_findings(result) == []
    assert (out / "structure.csv").read_text().splitlines()[0] == "layer,rank,of,seed,measure,value,low,high"
    assert (out / "trees.csv").read_text().splitlines()[0] == "source,layer,head,directed,measure,value,low,high"
    table = pd.read_csv(out / "structure.csv")
    assert set(table["of"]) == {"model", "twin", "projection", "chain", "decay", "control"}
    assert set(table["measure"]) == {"uuas", "root", "dspr", "nspr"}
    assert table.loc[table["measure"].isin(["uuas", "root"]), "value"].dropna().between(0, 1).all()
    trained = pd.read_csv(out / "training.csv")
    stopped = trained.set_index(["of", "layer", "rank", "kind"])["converged"]
    own = table[(table["of"] == "model") & (table["measure"] == "uuas")]
    for row in own.itertuples():
        # What has not converged is not available.
        assert pd.notna(row.value) == stopped["model", row.layer, row.rank, "distance"]
    trees = pd.read_csv(out / "trees.csv")
    assert {"attention_head", "attention_layer", "attention_combined", "attention_parser", "structural_probe", "chain",
            "right_branching", "offset"} <= set(trees["source"])  # fmt: skip
    charts = draw(result)
    assert set(charts) == {"layers", "ranks", "trees", "heads", "examples"}
    for chart in charts.values():
        assert "<svg" in to_svg(chart)


def test_the_released_codes_way(run: Callable[..., Done], speaker: Path, tmp_path: Path) -> None:
    few = ("--rank", 2, "--layer", 1, "--samples", 20, "--attention", 0, "--no-twin", "--no-control", "--faithful")
    done = run("structure", speaker, "--corpus", treebank(tmp_path / "bank"), *few, "--out", tmp_path / "out")
    assert done.exit_code == 0, done.output
    assert not (tmp_path / "out" / "trees.csv").exists()


@pytest.mark.parametrize(
    ("heads", "arguments", "sentence"),
    [
        (lambda _: "_", (), "has no heads (annotation dep"),
        (lambda head: "1" if head == 3 else str(head), (), "expected a tree"),
        (lambda head: "0" if head == 3 else str(head), (), "expected exactly one word with head 0"),
        (str, ("--rank", "500"), "a rank is a number from 1 to"),
        (str, ("--layer", 9), "has layers 0 (embeddings) to 3, no other"),
    ],
    ids=["no heads", "cycle", "two roots", "rank", "layer"],
)
def test_bad_input_is_told_in_a_sentence(
    run: Callable[..., Done], speaker: Path, tmp_path: Path, heads: Callable[[int], str], arguments: tuple[object, ...],
    sentence: str,
) -> None:  # fmt: skip
    done = run(
        "structure", speaker, "--corpus", treebank(tmp_path / "bank", heads), *arguments, "--out", tmp_path / "out"
    )
    assert done.exit_code == 2, done.output
    assert "Traceback" not in done.output
    assert sentence in " ".join(done.output.split())


def test_a_dry_run_tells_what_it_would_take(run: Callable[..., Done], speaker: Path, tmp_path: Path) -> None:
    few = ("--rank", 2, "--layer", 1, "--attention", 0, "--no-twin", "--no-control", "--dry-run")
    done = run("structure", speaker, "--corpus", treebank(tmp_path / "bank"), *few, "--out", tmp_path / "out")
    assert done.exit_code == 0, done.output
    assert "about" in done.output
    assert not (tmp_path / "out").exists()


def test_a_run_that_was_stopped_continues_with_the_probes_it_had_trained(tmp_path: Path, monkeypatch) -> None:
    data, settings = str(treebank(tmp_path / "bank")), {"ranks": ["2"], "layers": [1], "samples": 20, "attention": 0}
    whole = lamina.structure(TinyEncoder(), data, **settings)
    fits: list[int] = []
    fit = StructuralBank.fit

    def stopping(bank: StructuralBank, *sentences: Any, **how: Any) -> StructuralBank:
        fits.append(len(fits))
        if len(fits) == 3:
            raise KeyboardInterrupt
        return fit(bank, *sentences, **how)

    monkeypatch.setattr(StructuralBank, "fit", stopping)
    with pytest.raises(KeyboardInterrupt):
        lamina.structure(TinyEncoder(), data, **settings, out=tmp_path / "out")
    # One set of probes is damaged meanwhile, and trained again; another is read.
    (kept,) = tmp_path.glob(".out.work-*/twin.maps")
    kept.write_bytes(kept.read_bytes()[:-1])
    again = lamina.structure(TinyEncoder(), data, **settings, out=tmp_path / "out")
    assert len(fits) == 5
    for name in ("structure", "training", "contrasts"):
        pd.testing.assert_frame_equal(again.tables[name], whole.tables[name])
    assert not list(tmp_path.glob(".out.work-*"))
