"""Probing results made by hand, as plausible as real ones, for those who only show results."""

from __future__ import annotations

import pandas as pd
import pytest

from lamina.results import Provenance, Result

SCORES = ["model", "task", "probe", "of", "layer", "seed", "split", "metric", "count", "value", "low", "high"]
MIXING = ["task", "seed", "upto", "layer", "weight", "gamma", "norm"]
SUMMARY = [
    "task", "f1_first", "f1_full", "center_of_gravity", "cog_low", "cog_high", "expected_layer", "el_low", "el_high",
    "kl_mixing", "kl_differential", "selectivity",
]  # fmt: skip
TRACES = ["text_id", "task", "seed", "span1", "span2", "label", "gold", "layer", "probability"]
STARTS = {"dep": 0.62, "pos": 0.86, "spr": 0.7, "supersense": 0.55}


def curve(task: str, layer: int, layers: int, *, seed: int = 0) -> float:
    depth = layer / max(1, layers - 1)
    return STARTS[task] + (0.98 - STARTS[task]) * (1 - (1 - depth) ** 3) - 0.002 * seed


def weight(layer: int, layers: int, seed: int) -> float:
    raw = [1 + each * (1 + 0.4 * seed) for each in range(layers)]
    return raw[layer] / sum(raw)


def score_rows(model: str, task: str, layers: int, seeds: int, probes: tuple[str, ...]) -> list[tuple]:
    about = ("dev", "micro-F1 over all labels", 2000)
    rows = [(model, task, "constant", "model", pd.NA, "all", *about, 0.2, 0.19, 0.21)]
    for probe in probes:
        for layer in [layers - 1] if probe == "mix" else range(layers):
            name = "cumulative" if probe == "mix" else probe
            own = [(str(seed), curve(task, layer, layers, seed=seed)) for seed in range(seeds)]
            for seed, value in [*own, ("all", sum(value for _, value in own) / seeds)]:
                rows.append((model, task, name, "model", layer, seed, *about, value, value - 0.01, value + 0.01))
            if name == "layer":
                for of, value in (("random", STARTS[task] - 0.1), ("control", 0.5)):
                    rows.append((model, task, name, of, layer, "all", *about, value, value - 0.02, value + 0.02))
    return rows


def trace_rows() -> list[tuple]:
    """Two sentences; the second has a pair and a target of several gold labels."""
    shown = [
        ("s1", "pos", "2:3", "", "PROPN", True, 0.3, 0.95),
        ("s1", "pos", "2:3", "", "NOUN", False, 0.6, 0.05),
        ("s1", "pos", "4:5", "", "DET", True, 0.5, 0.9),
        ("s1", "pos", "4:5", "", "PRON", False, 0.7, 0.1),
        ("s2", "dep", "0:1", "1:2", "nsubj", True, 0.4, 0.99),
        ("s2", "dep", "0:1", "1:2", "obj", False, 0.4, 0.01),
        ("s2", "spr", "1:2", "0:1", "volition", True, 0.4, 0.8),
        ("s2", "spr", "1:2", "0:1", "awareness", True, 0.9, 0.95),
        ("s2", "spr", "1:2", "0:1", "change_of_state", False, 0.6, 0.4),
    ]
    return [
        (text, task, seed, span1, span2, label, gold, layer, first + (last - first) * layer / 6)
        for seed in (0, 1)
        for text, task, span1, span2, label, gold, first, last in shown
        for layer in range(7)
    ]


@pytest.fixture(scope="session")
def make_probe():
    """Makes a probing result; `probes` as a run was asked for."""

    def make(
        model: str = "minilm",
        tasks=("dep", "pos", "spr", "supersense"),
        layers: int = 7,
        seeds: int = 2,
        probes=("cumulative", "layer"),
    ) -> Result:
        full = "cumulative" in probes or "mix" in probes
        scores = [row for task in tasks for row in score_rows(model, task, layers, seeds, tuple(probes))]
        mixing = [
            (task, seed, layers - 1, layer, weight(layer, layers, seed), 1.1, 5.0 + layer)
            for task in (tasks if full else ())
            for seed in range(seeds)
            for layer in range(layers)
        ]
        nan = float("nan")
        summary = []
        for number, task in enumerate(tasks):
            first = STARTS[task] if "cumulative" in probes else nan
            gravity = (3.0 + number / 3, 2.9 + number / 3, 3.2 + number / 3) if full else (nan, nan, nan)
            expected = (2.4 - number / 2, 2.0 - number / 2, 2.9 - number / 2) if "cumulative" in probes else (nan,) * 3
            summary.append((task, first, 0.98 if full else nan, *gravity, *expected, 0.1, 0.4, 0.3))
        order = [
            (a, b, statistic, 0.9 if a < b else 0.25)
            for i, a in enumerate(tasks)
            for b in tasks[i + 1 :]
            for statistic in ("expected_layer", "center_of_gravity")
        ]
        words = {"s1": ["he", "smoked", "toronto", "in", "the", "playoffs"], "s2": ["Dogs", "bark"]}
        tables = {
            "scores": pd.DataFrame(scores, columns=SCORES).astype({"layer": "Int64"}),
            "mixing": pd.DataFrame(mixing, columns=MIXING),
            "summary": pd.DataFrame(summary, columns=SUMMARY),
            "order": pd.DataFrame(
                order if "cumulative" in probes else [], columns=["task_a", "task_b", "statistic", "probability"]
            ),
            "traces": pd.DataFrame(trace_rows() if "cumulative" in probes else [], columns=TRACES),
            "words": pd.DataFrame(
                [(text, at, word) for text, said in words.items() for at, word in enumerate(said)],
                columns=["text_id", "position", "word"],
            ),
        }
        provenance = Provenance(
            model={"name": model, "fingerprint": "f" * 64},
            corpus={"name": "ewt", "split": "dev", "fingerprint": "c" * 64, "files": {}},
            parameters={"preset": "quick"},
            seeds=(0, *range(seeds)),
        )
        return Result("probe", tables, provenance)

    return make
