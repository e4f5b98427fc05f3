"""Means of heads and layers: by hand, over documents, and with intervals that cover."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from lamina.analyses.heads.surface import LAYERS, PATTERNS, SHARE_OF_TEXTS, HeadMeans, UnitRows, head_table, layer_table
from lamina.stats.units import BY_DOCUMENT, BY_TEXT, unit_of
from lamina.testing import TinyEncoder
from lamina.types import Text

TWO_HEADS = TinyEncoder(blocks=1, heads=2)


def said(name: str, doc: str | None = None) -> Text:
    return Text(name, ("word",), doc=doc)


def test_means_are_over_the_texts_that_have_a_kind():
    means = HeadMeans(2, TWO_HEADS, samples=200)
    values = torch.tensor([[[[0.2, 0.4]], [[9.0, 9.0]]], [[[0.6, 0.4]], [[0.5, 0.7]]]])
    beside = torch.tensor([[0.1, 9.0], [0.3, 0.2]])
    means.add(values, torch.tensor([[1.0, 0.0], [1.0, 1.0]]), [said("a"), said("b")], beside)
    heads, layers = means.heads(), means.layers()
    assert heads.value == pytest.approx(np.array([[[0.4, 0.4]], [[0.5, 0.7]]]))
    assert heads.baseline == pytest.approx([0.2, 0.2])
    assert layers.value == pytest.approx(np.array([[0.4], [0.6]]))
    # One head varies over texts, the other does not; of the second kind there is one text only.
    assert heads.low[0, 0] == pytest.approx([0.2, 0.4])
    assert heads.high[0, 0] == pytest.approx([0.6, 0.4])
    assert heads.low[1, 0] == pytest.approx([0.5, 0.7])


def test_a_kind_that_no_text_has_is_not_available():
    means = HeadMeans(1, TWO_HEADS, samples=20)
    means.add(torch.ones(1, 1, 1, 2), torch.zeros(1, 1), [said("a")])
    assert np.isnan(np.concatenate([each.ravel() for each in means.heads()])).all()


def test_a_layers_interval_is_that_of_its_mean_not_the_mean_of_its_heads():
    means = HeadMeans(1, TWO_HEADS, samples=300)
    # What one head loses the other gains: their mean never changes.
    values = torch.tensor([[[[at % 2, 1 - at % 2]]] for at in range(20)])
    means.add(values, torch.ones(20, 1), [said(str(at)) for at in range(20)])
    heads, layers = means.heads(), means.layers()
    assert (heads.high - heads.low > 0.2).all()
    assert layers.low == pytest.approx(0.5, abs=1e-6)
    assert layers.high == pytest.approx(0.5, abs=1e-6)


def test_intervals_over_documents_cover_and_intervals_over_texts_would_not():
    """Sixteen documents of four texts: documents differ, texts of one hardly do."""
    draw = np.random.default_rng(0)
    covered = {BY_DOCUMENT: 0, BY_TEXT: 0}
    for run in range(40):
        documents = draw.normal(0, 1, 16)
        meters = {unit: HeadMeans(1, TinyEncoder(blocks=1, heads=1), samples=200, unit=unit) for unit in covered}
        values = torch.from_numpy(np.repeat(documents, 4) + 0.1 * draw.normal(size=64)).view(-1, 1, 1, 1)
        texts = [said(f"{run}-{at}", doc=f"{run}-{at // 4}") for at in range(64)]
        for means in meters.values():
            means.add(values, torch.ones(64, 1), texts)
        for unit, means in meters.items():
            found = means.heads()
            covered[unit] += bool(found.low.item() <= 0 <= found.high.item())
    assert covered[BY_DOCUMENT] >= 34
    assert covered[BY_TEXT] <= 30


def test_documents_are_drawn_where_there_are_several():
    assert unit_of([said("a", "d"), said("b", "e")]) == BY_DOCUMENT
    assert unit_of([said("a"), said("b")]) == BY_DOCUMENT
    # A corpus of one document would have an interval of no width.
    assert unit_of([said("a", "d"), said("b", "d")]) == BY_TEXT


def test_tables_name_every_head_layer_and_kind():
    means = HeadMeans(len(PATTERNS), TinyEncoder(blocks=2, heads=2), samples=20)
    share = torch.zeros(1, len(PATTERNS), 2, 2)
    share[:, 1] = 1
    means.add(share, torch.ones(1, len(PATTERNS)), [said("a")])
    table = head_table(means.heads(), PATTERNS, SHARE_OF_TEXTS)
    assert table.columns.tolist() == list(SHARE_OF_TEXTS)
    assert table[table["share"] == 1][["layer", "head", "pattern"]].values.tolist() == [
        [1, 1, "diagonal"], [1, 2, "diagonal"], [2, 1, "diagonal"], [2, 2, "diagonal"],
    ]  # fmt: skip
    layers = layer_table(means.layers(), PATTERNS, "patterns", [means.layer_tests(range(len(PATTERNS)), "layers")])
    assert layers.columns.tolist() == list(LAYERS)
    assert layers[["layer", "kind"]].values.tolist() == [[layer, name] for layer in (1, 2) for name in PATTERNS]
    assert set(layers["of"]) == {"patterns"}
    assert set(layers["needed"]) == {6}, "one text is too few"


def test_leads_are_tested_on_the_same_resampled_documents():
    """A head that follows uniform attention text by text, and a little more, is clearly ahead."""
    means = HeadMeans(2, TWO_HEADS, samples=300)
    draw = np.random.default_rng(0)
    uniform = torch.from_numpy(draw.uniform(0.1, 0.9, (20, 2)))
    values = torch.stack([uniform + 0.05 + torch.from_numpy(draw.normal(0, 0.01, (20, 2))), uniform], -1)
    means.add(values[:, :, None], torch.ones(20, 2), [said(str(at)) for at in range(20)], uniform)
    tests = means.head_tests([1])
    assert tests.kinds == [1]
    assert tests.differences.p[0, 0, 0] < 0.05
    assert not tests.differences.p[0, 0, 1] < 0.05
    alone = means.heads()
    assert alone.low[1, 0, 0] < alone.baseline[1], "intervals that overlap are no comparison"
    others = means.layer_tests([0], 1)
    assert others.beside.item() == pytest.approx(float(values[:, 1].mean()), abs=1e-5)


def test_many_documents_share_rows_whatever_their_order():
    names = [f"d{at}" for at in range(30)]
    values = torch.arange(30.0)[:, None]
    found = []
    for order in (list(range(30)), list(reversed(range(30)))):
        rows = UnitRows(1, most=10)
        for start in range(0, 30, 7):
            part = order[start : start + 7]
            rows.add(values[part], [names[at] for at in part])
        found.append(dict(zip(rows.units.names, rows.values()[:, 0].tolist(), strict=True)))
    assert found[0] == found[1]
    assert len(found[0]) <= 5
    assert sum(found[0].values()) == values.sum()
