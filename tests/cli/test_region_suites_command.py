"""`lamina pairs` with suites of regions and with pairs made of a treebank; formulas that do not parse."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd


def suite(formula: str, items: int = 4) -> str:
    def condition(name: str, *contents: str) -> dict[str, Any]:
        regions = [{"region_number": at, "content": content} for at, content in enumerate(contents, start=1)]
        return {"condition_name": name, "regions": regions}

    made = [
        {
            "item_number": number,
            "conditions": [
                condition("sing", "The dog", f"{'far ' * number}barked"),
                condition("plural", "The dogs", f"{'far ' * number}barked"),
            ],
        }
        for number in range(1, items + 1)
    ]
    return json.dumps(
        {"meta": {"name": "number_own", "metric": "sum"}, "predictions": [{"formula": formula}], "items": made}
    )


TREEBANK = """
1 Dogs dog NOUN NNS _ 4 nsubj _ _
2 of of ADP IN _ 3 case _ _
3 morning morning NOUN NN _ 1 nmod _ _
4 run run VERB VBP _ 0 root _ _

1 A a DET DT _ 2 det _ _
2 fox fox NOUN NN _ 3 nsubj _ _
3 runs run VERB VBZ _ 0 root _ _
"""


def test_regions_from_file_to_table(speaker: Path, tmp_path: Path, run: Callable[..., Any]) -> None:
    path = tmp_path / "number_own.json"
    path.write_text(suite("[(2;%sing%) < (2;%plural%)] & [(1;%sing%) < (1;%plural%)]"))
    out = tmp_path / "out"
    done = run("pairs", speaker, "--suite", path, "--ngrams", "none", "--samples", 50, "--out", out)
    assert done.exit_code == 0, done
    table = pd.read_csv(out / "pairs.csv")
    own = table[(table["paradigm"] == "number_own") & (table["score"] == "plain")].iloc[0]
    assert (own["field"], own["term"], own["pairs"], own["chance"]) == ("syntaxgym", "agreement", 4, 0.25)


def test_agreement_by_attractors(speaker: Path, tmp_path: Path, run: Callable[..., Any]) -> None:
    path = tmp_path / "own.conllu"
    path.write_text("\n".join("\t".join(line.split()) for line in TREEBANK.strip().split("\n")) + "\n\n")
    out = tmp_path / "out"
    asked = ("--suite", "agreement", "--corpus", path, "--ngrams", "none", "--samples", 50)
    done = run("pairs", speaker, *asked, "--out", out)
    assert done.exit_code == 0, done
    items = pd.read_parquet(out / "items.parquet")
    assert dict(zip(items["group"], items["bad"], strict=True)) == {
        "0 attractors": "A fox run",
        "1 attractor": "Dogs of morning runs",
    }


def test_a_formula_that_does_not_parse(speaker: Path, tmp_path: Path, run: Callable[..., Any]) -> None:
    path = tmp_path / "own.json"
    path.write_text(suite("(2;%sing%) < (2;%plural%"))
    done = run("pairs", speaker, "--suite", path, "--out", tmp_path / "out")
    assert done.exit_code == 2
    said = " ".join(done.output.split())
    assert "suite number_own: formula 1, at character 17: expected the condition as %name% and a closing )" in said
    path.write_text(suite("(2;%sing%) < (3;%plural%)"))
    done = run("pairs", speaker, "--suite", path, "--out", tmp_path / "out")
    assert done.exit_code == 2
    assert "item 1, condition plural: formula 1 names region 3, which the condition lacks" in " ".join(
        done.output.split()
    )
