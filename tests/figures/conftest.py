"""Probing results made by hand, as plausible as real ones, for those who only show results."""

from __future__ import annotations

import pandas as pd
import pytest

from lamina.analyses.layers.probe.probe import reference_table
from lamina.analyses.layers.probe.summary import LayerReading, LayerStep, TaskLayer, TaskOrder, TaskSummary
from lamina.analyses.layers.probe.tables import ControlScore, MixingWeight, ProbeScore, ProbeTraining
from lamina.results import Provenance, Result

TRACES = ["text_id", "task", "seed", "span1", "span2", "label", "gold", "layer", "probability"]
PIPELINE = ("pos", "const", "dep", "ner", "srl", "coref", "spr", "rel")
STARTS = {"dep": 0.62, "pos": 0.86, "spr": 0.7, "supersense": 0.55, "factuality": 0.1, "ques": 0.4}
STARTS |= {"const": 0.6, "ner": 0.8, "srl": 0.65, "coref": 0.7, "rel": 0.45}
METRICS = {"factuality": "r2", "ques": "macro_f1"}
MULTI = ("spr",)
"""Targets of several labels: these tasks have no accuracy."""
NAN = float("nan")


@pytest.fixture(scope="module", autouse=True)
def _charts_are_drawn(drawn_charts: None) -> None:
    """Here is looked at what can be seen in them."""


def curve(task: str, layer: int, layers: int, *, seed: int = 0) -> float:
    depth = layer / max(1, layers - 1)
    return STARTS[task] + (0.98 - STARTS[task]) * (1 - (1 - depth) ** 3) - 0.002 * seed


def weight(layer: int, layers: int, seed: int) -> float:
    raw = [1 + each * (1 + 0.4 * seed) for each in range(layers)]
    return raw[layer] / sum(raw)


def metrics_of(task: str) -> list[str]:
    own = METRICS.get(task, "f1")
    return [own, *(["correlation"] if own == "r2" else [] if task in MULTI else ["accuracy"])]


def control_metric(task: str) -> str:
    return "r2" if METRICS.get(task) == "r2" else metrics_of(task)[-1]


def score_rows(model: str, task: str, layers: int, seeds: int, probes: tuple[str, ...]) -> list[tuple]:
    rows = []
    for metric in metrics_of(task):
        # Accuracy is a little higher than F1, and a control that F1 finds silent remembers some labels.
        up, remembered = (0.01, 0.5) if metric == "accuracy" else (0.0, 0.0)
        about = ("dev", metric, 2000)
        rows.append((model, task, "constant", "model", pd.NA, "all", "", *about, 0.2 + up, 0.19 + up, 0.21 + up))
        rows.append((model, task, "constant", "control", pd.NA, "all", "", "dev", metric, 1800, 0.15, 0.14, 0.16))
        for probe in probes:
            for layer in [layers - 1] if probe == "mix" else range(layers):
                name = "cumulative" if probe == "mix" else probe
                own = [(str(seed), curve(task, layer, layers, seed=seed) + up) for seed in range(seeds)]
                values = [("model", *each) for each in own]
                values.append(("model", "all", sum(value for _, value in own) / seeds))
                values.append(("random", "all", STARTS[task] - 0.1 + up))
                if name == "layer":
                    values.append(("control", "all", remembered + 0.01 * layer))
                for of, seed, value in values:
                    rows.append((model, task, name, of, layer, seed, "", *about, value, value - 0.01, value + 0.01))
    return rows


def training_rows(tasks: tuple[str, ...], layers: int, seeds: int, probes: tuple[str, ...], late) -> list[tuple]:
    return [
        (task, of, probe, layer, seed, "", 600, 500, 0.2, 0.001, (task, of, probe, layer) not in late, False, 3.0)
        for task in tasks
        for of in ("model", "random", "control")
        for probe in ("cumulative", "layer")
        if probe in probes and (of != "control" or probe == "layer")
        for layer in range(layers)
        for seed in range(seeds if of == "model" else 1)
    ]


def summary_row(task: str, number: int, layers: int, probes: tuple[str, ...]) -> tuple:
    """Tasks are placed as the paper places them, the later the larger their number, all over the depth."""
    full, whole = "cumulative" in probes or "mix" in probes, "cumulative" in probes
    place, last = number / 12, layers - 1
    gravity = [(0.5 + place / 2 + off) * last for off in (0, -0.02, 0.03)] if full else [NAN] * 3
    expected = [(0.4 - place / 2 + off) * last for off in (0, -0.05, 0.07)] if whole else [NAN] * 3
    twin = [0.3 * last, 0.2 * last, 0.4 * last] if whole else [NAN] * 3
    divergences = [0.12, 0.1, 0.15] if full else [NAN] * 3
    selective = [0.41, 0.38, 0.44, 3, control_metric(task)] if "layer" in probes else [NAN] * 4 + [""]
    return (
        task, "ewt", metrics_of(task)[0], 2, 1, STARTS[task] if whole else NAN, 0.98 if full else NAN, *gravity,
        *expected, *divergences, *([0.61, 0.5, 0.7] if whole else [NAN] * 3), *selective, *twin, True, "",
    )  # fmt: skip


def step_rows(task: str, layers: int) -> list[tuple]:
    found = []
    for layer in range(1, layers):
        added = curve(task, layer, layers) - curve(task, layer - 1, layers)
        found.append((task, "cumulative", layer, added, added - 0.01, added + 0.01, 0.04, 60, 0))
    return found


def reading_rows(task: str, layers: int) -> list[tuple]:
    """Every layer is above its baselines."""
    rows = []
    for layer in range(layers):
        value = curve(task, layer, layers)
        for name, other in (("untrained twin", STARTS[task] - 0.1), ("constant answer", 0.2)):
            test = (value - other, value - other - 0.02, value - other + 0.02, 0.001, 60, 0, "document", "")
            rows.append((task, metrics_of(task)[0], "layer", layer, name, value, other, *test))
    return rows


def best_rows(task: str, layers: int) -> list[tuple]:
    """The last layer is best, the rest is beaten."""
    return [
        (task, metrics_of(task)[0], "layer", layer, curve(task, layer, layers), 1.0 if layer + 1 == layers else 0.01,
         layer + 1 == layers, 60, "")
        for layer in range(layers)
    ]  # fmt: skip


def order_row(a: str, b: str, statistic: str, difference: float, seeds: int) -> tuple:
    if seeds < 5:
        return (a, b, statistic, difference, NAN, NAN, NAN, seeds, 5, False, "fewer than 5 seeds")
    p = 0.03 if abs(difference) > 0.5 else 0.2
    return (a, b, statistic, difference, difference - 0.4, difference + 0.4, p, seeds, 0, p < 0.05, "")


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
    """Makes a probing result; `probes` as a run was asked for, `late` the probes that had not converged."""

    def make(
        model: str = "minilm",
        tasks=("dep", "pos", "spr", "supersense"),
        layers: int = 7,
        seeds: int = 2,
        probes=("cumulative", "layer"),
        late=(),
        *,
        reference: bool = False,
    ) -> Result:
        full, whole = "cumulative" in probes or "mix" in probes, "cumulative" in probes
        scores = [row for task in tasks for row in score_rows(model, task, layers, seeds, tuple(probes))]
        mixing = [
            (task, seed, "", layers - 1, layer, weight(layer, layers, seed), 1.1, 5.0 + layer)
            for task in (tasks if full else ())
            for seed in range(seeds)
            for layer in range(layers)
        ]
        order = [
            order_row(a, b, statistic, 1.25 if a < b else -0.25, seeds)
            for i, a in enumerate(tasks if whole else ())
            for b in tasks[i + 1 :]
            for statistic in ("expected_layer", "center_of_gravity")
        ]
        control = [
            (task, 0.9, 1800, control_metric(task), 3.0, 0.93, 0.52, 0.15, 0.41, 0.38, 0.44, 0.001, 60, 0, "document")
            if "layer" in probes else (task, 0.9, 1800, "", *[NAN] * 9, 0, "document")
            for task in tasks
        ]  # fmt: skip
        words = {"s1": ["he", "smoked", "toronto", "in", "the", "playoffs"], "s2": ["Dogs", "bark"]}
        rows = {
            "scores": (scores, ProbeScore.__annotations__),
            "training": (training_rows(tasks, layers, seeds, tuple(probes), late), ProbeTraining._fields),
            "mixing": (mixing, MixingWeight._fields),
            "summary": (
                [summary_row(task, at, layers, tuple(probes)) for at, task in enumerate(tasks)], TaskSummary._fields
            ),
            "steps": ([row for task in (tasks if whole else ()) for row in step_rows(task, layers)], LayerStep._fields),
            "order": (order, TaskOrder._fields),
            "readings": (
                [row for task in tasks for row in reading_rows(task, layers)] if "layer" in probes else [],
                LayerReading._fields,
            ),
            "best_layers": (
                [row for task in tasks for row in best_rows(task, layers)] if "layer" in probes else [],
                TaskLayer._fields,
            ),
            "traces": (trace_rows() if whole else [], TRACES),
            "control": (control, ControlScore._fields),
            "words": (
                [(text, at, word) for text, said in words.items() for at, word in enumerate(said)],
                ["text_id", "position", "word"],
            ),
        }  # fmt: skip
        tables = {name: pd.DataFrame(each, columns=list(columns)) for name, (each, columns) in rows.items()}
        tables["scores"] = tables["scores"].astype({"layer": "Int64"})
        if reference:
            tables["reference"] = reference_table(tasks)
        provenance = Provenance(
            model={"name": model, "fingerprint": "f" * 64},
            corpus={"name": "ewt", "split": "dev", "fingerprint": "c" * 64, "files": {}},
            parameters={"preset": "quick"},
            seeds=(0, *range(seeds)),
        )
        return Result("probe", tables, provenance)

    return make
