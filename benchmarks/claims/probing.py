"""Claims of `lamina probe`: scores of probes by document are drawn, and its own code says what is clear."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Literal

import numpy as np
import pandas as pd
from jaxtyping import Float

from benchmarks.claims import Simulation
from lamina.analyses.layers.choose.label_free import LayerScores, regret_findings, regrets_by_rule
from lamina.analyses.layers.probe.findings import probe_findings
from lamina.analyses.layers.probe.statistics import Resampling
from lamina.analyses.layers.probe.summary import (
    LayerReading,
    TaskLayer,
    TaskOrder,
    bootstrap,
    compare_layers,
    neighbours,
    order,
    readings,
    selectivity,
    selectivity_tests,
    steps,
    summarise,
)
from lamina.analyses.layers.probe.tables import ControlScore
from lamina.analyses.layers.probe.training import ProbeOutcome, TaskRun, Whose
from lamina.probes.bank import DecisionTally
from lamina.probes.edge import LayerCut
from lamina.probes.learner import LearningRecord
from lamina.probes.streams import ProbeTargets
from lamina.results.finding import Finding
from lamina.stats.best import best_set, regrets
from lamina.stats.bootstrap import ratio_draws
from lamina.stats.status import SURE, status_of
from lamina.stats.units import Units
from lamina.tasks import get_task
from lamina.tasks.task import Metric

_DOCUMENTS, _ASKED, _LAYERS = 60, 20, 7
_TASKS = ("pos", "dep", "ner", "srl")
_SAMPLES = 1000
"""As `lamina probe` draws by default."""
_HARD = 0.06
"""Deviation of a document's share of right decisions, for all layers, tasks of a document and systems alike."""
_PLANTED = 3
"""The layer."""


@cache
def _texts() -> Resampling:
    return Resampling(_DOCUMENTS, _SAMPLES, 0)


def _tally(
    chances: Float[np.ndarray, " member"],
    hard: Float[np.ndarray, " document"],
    rng: np.random.Generator,
    asked: int = _ASKED,
) -> DecisionTally:
    """Right decisions of each member in every document, out of as many."""
    chance = (np.asarray(chances)[:, None] + hard).clip(0.02, 0.98)
    right = rng.binomial(asked, chance).astype(float)
    return DecisionTally("accuracy", np.stack([right, np.full(right.shape, float(asked))]))


def _outcome(of: Whose, seed: int, tally: DecisionTally, probe: Literal["cumulative", "layer"]) -> ProbeOutcome:
    members = tally.sums.shape[1]
    cuts = tuple(LayerCut(probe, layer) for layer in range(members))
    none, count = np.zeros(members), np.full(members, 600)
    learned = LearningRecord(np.arange(members, dtype=float), count, count, none, none == 0, none > 0, none + 10)
    # Seeds differ a little in what they mix, with no order of tasks.
    raised = np.exp(np.random.default_rng([seed, members]).normal(0, 1, members))
    mixing = members if probe == "cumulative" else 0
    weights = np.tile(raised / raised.sum(), (mixing, 1))
    return ProbeOutcome(
        of, seed, cuts, {"f1": tally, "accuracy": tally}, tally, learned, weights, np.ones(mixing), None
    )


def _run(task: str, outcomes: Sequence[ProbeOutcome], constant: DecisionTally) -> TaskRun:
    places, flags = np.zeros((0, 1, 2), int), np.zeros((0, 0), bool)
    targets = ProbeTargets((), np.zeros(0, int), places, places, flags, flags, flags, flags, _DOCUMENTS)
    answers: dict[Metric, DecisionTally] = {"f1": constant, "accuracy": constant}
    return TaskRun(get_task(task), targets, tuple(outcomes), answers, answers, np.ones(1, bool), np.ones(_LAYERS))


def _findings(rows: Mapping[str, tuple[Sequence[Any], Any]]) -> list[Finding]:
    """What `probe` tells of some tables; the others are empty."""
    kinds: dict[str, Any] = {
        "readings": LayerReading,
        "best_layers": TaskLayer,
        "order": TaskOrder,
        "control": ControlScore,
    }
    tables = {name: pd.DataFrame([], columns=list(kind._fields)) for name, kind in kinds.items()}
    tables["summary"] = pd.DataFrame([], columns=["task", "expected_layer", "center_of_gravity", "f1_full"])
    tables |= {name: pd.DataFrame(own, columns=list(kind._fields)) for name, (own, kind) in rows.items()}
    return list(probe_findings(tables))


def _compared(rng: np.random.Generator, gain: float) -> tuple[list[LayerReading], list[TaskLayer]]:
    """Four tasks read as well as their twins and constant answers; one of them better, at one layer."""
    hard = _HARD * rng.normal(size=_DOCUMENTS)
    compared = []
    for number, task in enumerate(_TASKS):
        chances = np.full(_LAYERS, 0.5)
        own = chances + gain * (np.arange(_LAYERS) == _PLANTED) * (number == 0)
        outcomes = [_outcome("model", seed, _tally(own, hard, rng), "layer") for seed in range(2)]
        outcomes.append(_outcome("random", 0, _tally(chances, hard, rng), "layer"))
        run = _run(task, outcomes, _tally(chances[:1], hard, rng))
        compared.append(compare_layers(run, bootstrap(run, _texts(), [0, number])))
    return readings(compared), [row for task in compared for row in task.best]


def _reading(rng: np.random.Generator, planted: bool) -> bool:
    rows, best = _compared(rng, 0.085 * planted)
    findings = _findings({"readings": (rows, LayerReading), "best_layers": (best, TaskLayer)})
    return any(found.status == "clear" for found in (findings[:1] if planted else findings))


def _best(rng: np.random.Generator, planted: bool) -> bool:
    """Whether a layer as good as any leaves the set; with a best layer planted, whether it is found alone."""
    _, best = _compared(rng, 0.065 * planted)
    own = [row.among_best for row in best if row.task == _TASKS[0]]
    return sum(own) == 1 and own[_PLANTED] if planted else not own[_PLANTED]


def _selective(rng: np.random.Generator, planted: bool) -> bool:
    hard = _HARD * rng.normal(size=_DOCUMENTS)
    rows = []
    for number, task in enumerate(_TASKS):
        model = np.full(_LAYERS, 0.5 + 0.065 * planted * (number == 0))
        outcomes = [_outcome("model", seed, _tally(model, hard, rng), "layer") for seed in range(2)]
        outcomes.append(_outcome("control", 0, _tally(np.full(_LAYERS, 0.5), hard, rng), "layer"))
        run = _run(task, outcomes, _tally(np.full(1, 0.5), hard, rng))
        rows.append(selectivity(run, bootstrap(run, _texts(), [0, number])))
    tests = selectivity_tests(rows)
    clear = [test["p_adjusted"] < SURE for test in tests]
    return clear[0] if planted else any(clear)


def _placed(rng: np.random.Generator, late: Sequence[float], asked: int = _ASKED) -> list[TaskOrder]:
    """The order of tasks that gain as much; `late` is how many layers later each does. Five seeds."""
    hard = _HARD * rng.normal(size=_DOCUMENTS)
    places = []
    for number, off in enumerate(late):
        scores = 0.5 + 0.27 / (1 + np.exp(-2.5 * (np.arange(_LAYERS) - 1.5 - off)))
        outcomes = []
        for seed in range(5):
            seeded = scores + 0.01 * rng.normal() + 0.006 * rng.normal(size=_LAYERS)
            outcomes.append(_outcome("model", seed, _tally(seeded, hard, rng, asked), "cumulative"))
        run = _run("pos", outcomes, _tally(np.full(1, 0.3), hard, rng))
        drawn = bootstrap(run, _texts(), [0, number])
        place = summarise(run, drawn, "simulated", selectivity(run, drawn))[1]
        places.append(place._replace(task=f"t{number}"))
    return [row for row in order(places) if row.statistic == "expected_layer"]


def _ordered(rng: np.random.Generator, planted: bool) -> bool:
    """Eight tasks; one is later than all others."""
    rows = _placed(rng, [0.0] * 7 + [1.1 * planted])
    last = [row for row in rows if row.task_b == "t7"]
    return last[0].clear if planted else any(row.clear for row in rows)


def all_orders(rng: np.random.Generator) -> int:
    """How many of the 28 orders of eight separated tasks are clear: .55 layers apart, on ten times the targets."""
    return sum(row.clear for row in _placed(rng, [0.55 * number - 0.7 for number in range(8)], 10 * _ASKED))


def _stepped(rng: np.random.Generator, planted: bool) -> bool:
    hard = _HARD * rng.normal(size=_DOCUMENTS)
    apart = []
    for number, task in enumerate(_TASKS):
        chances = 0.5 + 0.09 * planted * (number == 0) * (np.arange(_LAYERS) >= _PLANTED)
        run = _run(task, [_outcome("model", 0, _tally(chances, hard, rng), "layer")], _tally(chances[:1], hard, rng))
        apart += neighbours(run, bootstrap(run, _texts(), [0, number]))
    clear = [row.p_adjusted < SURE for row in steps(apart)]
    return clear[_PLANTED - 1] if planted else any(clear)


def _cells(rng: np.random.Generator, means: Float[np.ndarray, " layer"]) -> tuple[np.ndarray, np.ndarray]:
    """Scores of layers, and of resampled documents, as `lamina choose` has them."""
    right = _tally(means, _HARD * rng.normal(size=_DOCUMENTS), rng).sums[0].T
    units = Units.of([str(number) for number in range(_DOCUMENTS)], "document")
    return right.sum(0) / (_DOCUMENTS * _ASKED), ratio_draws(
        right, np.full(_DOCUMENTS, _ASKED), units, samples=500, seed=0
    )


def _costly(rng: np.random.Generator, planted: bool) -> bool:
    """Whether the last layer is said to cost something; planted, it does."""
    scores, draws = _cells(rng, 0.5 - 0.08 * planted * (np.arange(_LAYERS) == _LAYERS - 1))
    found, best = regrets(scores, draws, _DOCUMENTS), best_set(scores, draws, _DOCUMENTS)
    return status_of(found.low[-1], found.high[-1], best.p[-1]) == "clear"


def _missed(rng: np.random.Generator, planted: bool) -> bool:
    """Whether some regret lies outside its interval, the last layer's; planted, whether the interval is above 0."""
    means = 0.5 + 0.08 * np.sin(np.pi * np.arange(_LAYERS) / (_LAYERS - 1)) * (1 if planted else 0.4)
    found = regrets(*_cells(rng, means), _DOCUMENTS)
    true = means.max() - means[-1]
    return bool(found.low[-1] > 0) if planted else not found.low[-1] <= true <= found.high[-1]


def _picking(rng: np.random.Generator, planted: bool) -> bool:
    """Whether some measure is told to cost more or less than a habit, on 20 tasks; planted, one mostly picks well."""
    cells = []
    for task in range(20):
        scores = rng.normal(0.5, 0.05, _LAYERS)
        picks = {measure: int(rng.integers(_LAYERS)) for measure in ("curvature", "DiME", "LiDAR")}
        if planted and rng.random() < 0.75:
            picks["curvature"] = int(scores.argmax())
        cells.append(
            LayerScores("made", str(task), "m", "accuracy", 300, tuple(range(_LAYERS)), tuple(scores.tolist()), picks)
        )
    clear = [one for one in regret_findings(regrets_by_rule(cells, samples=50)) if one.status == "clear"]
    return any("curvature" in one.claim for one in clear) if planted else bool(clear)


SIMULATIONS = [
    Simulation("probe", "a task is read above its twin and constant answer: tasks, layers and baselines", _reading),
    Simulation("probe", "the best layers of a task: the true best is in the set", _best),
    Simulation("probe", "a task is read beyond memory: tasks", _selective),
    Simulation("probe", "one of eight tasks comes first: all pairs, 5 seeds", _ordered),
    Simulation("probe", "a layer adds to the one before it: tasks and layers", _stepped),
    Simulation("choose", "the last layer costs something beside the best one", _costly),
    Simulation("choose", "the last layer's regret lies in its interval", _missed),
    Simulation("choose", "picking without labels costs more or less than a habit: measures and habits", _picking),
]
