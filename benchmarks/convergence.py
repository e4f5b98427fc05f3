"""Do probes of the quick preset converge? Against ten times the steps, and against scikit-learn on the same vectors.

`python -m benchmarks convergence` takes about an hour on two idle cores. `python -m benchmarks.convergence --limit 200`
tries it on few texts, where the bars say nothing.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import lamina
from benchmarks.bars import Bar
from lamina.activations import StoredActivations, extract
from lamina.analyses.layers.probe.planning import ProbePlan, TaskSource, TrainingAmounts, plan_run
from lamina.analyses.layers.probe.training import PRESETS
from lamina.corpora.loading import load_splits
from lamina.corpora.splits import Splits
from lamina.models import Encoder, load_encoder
from lamina.probes.streams import ProbeTargets, find_targets
from lamina.results import Result
from lamina.tasks import label_set, micro_f1

MODEL = "minilm"
LONGER = 10
"""How much longer the long run may take."""
TASKS = ("pos", "dep", "supersense")
NEAR = 0.015
"""Most F1 that the long run may gain."""
REGRESSED = {"ewt": ("pos", "dep"), "gum_open": ("ner",), "semeval2010_task8": ("rel",)}
"""Corpus -> tasks that logistic regression is fitted to."""
AHEAD = 0.01
"""Most F1 by which logistic regression may beat a converged probe."""
_ITERATIONS = 300


def bars(limit: int | None = None) -> Iterator[Bar]:
    """Both comparisons; `limit`: the most texts of each split."""
    yield from _against_long(limit)
    yield from _against_regression(limit)


def _against_long(limit: int | None) -> Iterator[Bar]:
    """The same texts, width and rates, validated a tenth as often: patience, too, is ten times as long."""
    schedule = PRESETS["quick"].schedule
    long = replace(schedule, validate_every=LONGER * schedule.validate_every)
    quick, slow = (_probed("ewt", TASKS, limit, schedule=each) for each in (schedule, long))
    one, other = (result.tables["summary"].set_index("task") for result in (quick, slow))
    for task in TASKS:
        note = f"[{_told(one.loc[task])}; long: {_told(other.loc[task])}]"
        yield Bar(f"{task}: probes that have not converged", _cut_off(quick, task), 0, at_least=False, note=note)
        gain = other["f1_full"].to_dict()[task] - one["f1_full"].to_dict()[task]
        yield Bar(f"{task}: F1 that ten times the steps gain", gain, NEAR, at_least=False)
    yield from _same_order(quick, slow)


def _same_order(quick: Result, slow: Result) -> Iterator[Bar]:
    """Tasks that lie apart after ten times the steps, in every seed, are in the same order after `quick`."""
    one, other = (result.tables["summary"].set_index("task") for result in (quick, slow))
    for a, b in combinations(TASKS, 2):
        first, second = (a, b) if other["el_high"][a] < other["el_low"][b] else (b, a)
        if not other["el_high"][first] < other["el_low"][second]:
            continue
        apart, long = (float(own["expected_layer"][second] - own["expected_layer"][first]) for own in (one, other))
        yield Bar(f"{first} before {second}, layers, quick", apart, 0, at_least=True, note=f"[long: {long:.2f}]")


def _against_regression(limit: int | None) -> Iterator[Bar]:
    """At the layer that does best on the stopping texts, for either, and on the texts that the preset learns from."""
    encoder = load_encoder(MODEL, device="cpu")
    for corpus, tasks in REGRESSED.items():
        probed = _probed(corpus, tasks, limit, probes=["layer"], twin=False)
        plan = _plan(encoder, load_splits(corpus, "dev", limit=limit), tasks)
        with tempfile.TemporaryDirectory() as root:
            texts = plan.setup.splits
            stored = tuple(extract(encoder, each, root=root) for each in (texts.train, texts.scored))
            for number, task in enumerate(tasks):
                fitted = _regressed(plan, number, stored, encoder.layers)
                own = _best_layer(probed, task)
                note = f"[regression {fitted.f1:.3f} at layer {fitted.layer}, probe {own.f1:.3f} at layer {own.layer}; "
                note += f"{_cut_off(probed, task)} probes not converged]"
                yield Bar(f"{task}: logistic regression - probe", fitted.f1 - own.f1, AHEAD, at_least=False, note=note)


class _Scored(NamedTuple):
    """The score of the layer that was chosen."""

    f1: float
    layer: int


def _probed(corpus: str, tasks: tuple[str, ...], limit: int | None, **settings: Any) -> Result:
    """The quick preset, with a store of its own, so that no kept run is read."""
    with tempfile.TemporaryDirectory() as root:
        asked = {"tasks": list(tasks), "preset": "quick", "limit": limit, "device": "cpu", "store": root}
        return lamina.probe(MODEL, corpus, **asked, **settings)


def _plan(encoder: Encoder, splits: Splits, tasks: tuple[str, ...]) -> ProbePlan:
    settings: dict[str, Any] = {"probes": ["layer"], "preset": "quick", "faithful": False, "metric": None, "seed": 0}
    return plan_run(encoder.layers, TaskSource(splits, tasks), amounts=TrainingAmounts(), device="cpu", **settings)


def _best_layer(result: Result, task: str) -> _Scored:
    single = "of == 'model' and probe == 'layer'"
    training, scores = (result.tables[name].query(f"task == '{task}' and {single}") for name in ("training", "scores"))
    layer = int(training.groupby("layer")["loss"].mean().idxmin())  # pyright: ignore
    own = scores.query(f"metric == 'f1' and seed == 'all' and layer == {layer}")
    return _Scored(float(own["value"].iloc[0]), layer)


def _cut_off(result: Result, task: str) -> int:
    training = result.tables["training"].query(f"task == '{task}' and of == 'model'")
    return int((~training["converged"]).sum())


def _told(row: Any) -> str:
    return f"F1 {row['f1_full']:.3f}, expected layer {row['expected_layer']:.2f}"


def _regressed(plan: ProbePlan, number: int, stored: tuple[StoredActivations, ...], layers: int) -> _Scored:
    """One regression per layer; the layer is chosen by the stopping texts, as a probe's is."""
    task, setup = plan.tasks[number], plan.setup
    labels = label_set(task, setup.learned)
    both = zip((setup.splits.train, setup.splits.scored), stored, strict=True)
    train, scored = (find_targets(task, texts, states.tokenized(), labels) for texts, states in both)
    learn, stop = train.among(setup.division.learn), train.among(setup.division.stop)
    vectors = [
        _vectors(states, targets) for states, targets in ((stored[0], learn), (stored[0], stop), (stored[1], scored))
    ]
    best, chosen = -1.0, _Scored(0.0, 0)
    for layer in range(layers):
        model = make_pipeline(StandardScaler(), LogisticRegression(C=0.1, max_iter=_ITERATIONS))
        held = learn.gold.any(1)
        model.fit(vectors[0][held, layer], learn.gold[held].argmax(1))
        stopping, score = (
            _f1(model.predict(each[:, layer]), model.classes_, targets)
            for each, targets in ((vectors[1], stop), (vectors[2], scored))
        )
        if stopping > best:
            best, chosen = stopping, _Scored(score, layer)
    return chosen


def _vectors(states: StoredActivations, targets: ProbeTargets) -> np.ndarray:
    """[target, layer, dimension] The mean of a span's pieces; of a pair, both spans side by side."""
    made = []
    for text in range(targets.texts):
        rows = np.flatnonzero(targets.text == text)
        if not len(rows):
            continue
        own = states.load(text).float()
        for row in rows:
            spans = [own[start:end].mean(0) for start, end in targets.tokens[row].tolist()]
            made.append(torch.cat(spans, dim=-1).numpy())
    return np.stack(made)


def _f1(said: np.ndarray, classes: np.ndarray, targets: ProbeTargets) -> float:
    """Micro-F1 as probes are scored: labels that are not scored left out, labels unseen in training missed."""
    decided = np.zeros_like(targets.gold)
    decided[np.arange(len(said)), said] = True
    assert set(said) <= set(classes)
    gold = np.concatenate([targets.gold & targets.scored, targets.unseen], axis=1)
    predicted = np.concatenate([decided & targets.scored, np.zeros_like(targets.unseen)], axis=1)
    return micro_f1(gold, predicted)


if __name__ == "__main__":
    few = int(sys.argv[sys.argv.index("--limit") + 1]) if "--limit" in sys.argv else None
    for bar in bars(few):
        print(bar, flush=True)
