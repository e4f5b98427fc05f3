"""Description length: blocks, bits, and what a probe that knows nothing pays."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

import lamina
from lamina.analyses.probing import mdl
from lamina.corpora.learning import Splits
from lamina.files.checking import write_json
from lamina.testing import TinyEncoder

ONE_TASK = {"tasks": ["pos"], "probes": ["layer"], "seeds": 1, "twin": False, "mdl": True}


@examples(max_examples=50, deadline=None)
@given(st.integers(1, 100_000))
def test_blocks_cover_all_texts_and_none_is_empty(texts: int) -> None:
    ends = mdl.block_ends(texts)

    assert ends[-1] == texts
    assert all(0 < start < end for start, end in pairwise([*ends, texts + 1]))


def test_blocks_end_at_the_fractions_of_the_literature() -> None:
    assert mdl.block_ends(10_000) == [10, 20, 40, 80, 160, 320, 625, 1250, 2500, 5000, 10_000]


def test_a_probe_that_knows_nothing_pays_a_bit_a_decision(
    splits: Splits, settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def untrained(groups, *streams, **rest):
        with torch.no_grad():
            for group in groups:
                group.probes.outer.zero_()
                group.probes.outer_bias.zero_()

    monkeypatch.setattr(mdl, "train", untrained)
    table = lamina.probe(TinyEncoder(blocks=1, seed=5), splits, **ONE_TASK, **settings).tables["mdl"]

    assert table["codelength"].to_numpy() == pytest.approx(table["uniform"].to_numpy())
    assert table["compression"].to_numpy() == pytest.approx(1)


def test_labels_that_can_be_learned_are_compressed(splits: Splits, settings: dict[str, Any]) -> None:
    table = lamina.probe(TinyEncoder(blocks=1), splits, **ONE_TASK, **settings).tables["mdl"]

    assert table.columns.tolist() == ["model", "task", "of", "layer", "seed", "codelength", "uniform", "compression"]
    assert table[["of", "layer"]].to_numpy().tolist() == [["model", 0], ["model", 1], ["control", 0], ["control", 1]]
    assert (table.loc[table["of"] == "model", "compression"] > 1.5).all()
    assert table["uniform"].nunique() == 1

    again = lamina.probe(TinyEncoder(blocks=1), splits, **ONE_TASK, **settings).tables["mdl"]
    assert again.equals(table), "kept, not coded again"


@pytest.mark.parametrize("damage", [lambda text: text.replace(b"1", b"2", 1), lambda text: b"", lambda text: b"[]"])
def test_damaged_code_lengths_are_not_read(tmp_path: Path, capsys: pytest.CaptureFixture[str], damage) -> None:
    path = tmp_path / "pos.codelengths.json"
    assert mdl._kept(path) is None
    rows = [mdl.CodeLength("m", "pos", "model", 0, 0, 1.5, 3.0, 2.0)]
    write_json(path, {"rows": rows})
    assert mdl._kept(path) == rows

    path.write_bytes(damage(path.read_bytes()))
    assert mdl._kept(path) is None
    assert "computed again" in capsys.readouterr().err
