"""What fine-tuning changed, drawn; and what each layer tells of each task."""

from __future__ import annotations

import json

import pandas as pd

from lamina.figures import to_svg
from lamina.figures.diff import draw
from lamina.results import Provenance, Result

COLUMNS = ["layer", "head", "measure", "value", "low", "high", "baseline"]


def changed(*, heads: int = 2, tasks: tuple[str, ...] = (), twin: bool = True, names=("minilm", "tuned")) -> Result:
    nan = float("nan")
    rows: list[tuple] = []
    for layer in range(4):
        value = 1 - 0.1 * layer
        rows.append((layer, None, "cka", value, value - 0.05, min(1, value + 0.05), 0.3 if twin else nan))
        rows.append((layer, None, "cosine", value, value - 0.05, value, 0.1))
        for task in tasks:
            rows.append((layer, None, f"probe_a:{task}", 0.5, 0.4, 0.6, 0.2))
            rows.append((layer, None, f"probe_b:{task}", 0.5 + 0.1 * layer, 0.4, 0.9, 0.2))
            rows.append((layer, None, f"probe_difference:{task}", 0.1 * layer, -0.1, 0.3, 0.0))
    for layer in range(1, 4):
        for head in range(1, heads + 1):
            value = 0.9 - 0.1 * layer - 0.02 * head
            rows.append((layer, head, "attention_similarity", value, value - 0.01, value + 0.01, 0.4))
    sides = {side: {"name": name, "fingerprint": side} for side, name in zip("ab", names, strict=True)}
    model = {"name": " and ".join(names), "fingerprint": "f", **sides}
    table = pd.DataFrame(rows, columns=COLUMNS).astype({"head": "Int64"})
    return Result("diff", {"diff": table}, Provenance(model, {"name": "ewt", "fingerprint": "c"}, {}))


def test_layers_heads_and_probes_are_drawn():
    specs = {name: chart.to_dict() for name, chart in draw(changed(tasks=("ques", "sup"))).items()}
    assert list(specs) == ["layers", "heads", "probes"]
    assert len(specs["layers"]["concat"]) == 2
    assert "lowest at layer 3, 0.700" in specs["layers"]["description"]
    assert "0.56 of head 3-2" in specs["heads"]["description"]
    assert [panel["title"] for panel in specs["probes"]["concat"]] == ["Question type", "Supporting facts"]
    line = specs["probes"]["concat"][0]["layer"][1]
    assert line["encoding"]["color"]["scale"]["domain"] == ["minilm", "tuned"]
    for spec in specs.values():
        assert "NaN" not in json.dumps(spec)
        assert to_svg(spec).startswith("<svg")


def test_what_there_is_not_is_not_drawn():
    charts = draw(changed(heads=0, twin=False))
    assert list(charts) == ["layers"]
    assert "twin" not in json.dumps(charts["layers"].to_dict()["concat"][0])


def test_one_name_twice_is_told_apart():
    chart = draw(changed(tasks=("pos",), names=("model", "model")))["probes"].to_dict()
    assert chart["concat"][0]["layer"][1]["encoding"]["color"]["scale"]["domain"] == ["model (a)", "model (b)"]
