"""Comparisons of models, and what `trace` says of revisions, on simulated documents and items."""

from __future__ import annotations

import numpy as np
import pandas as pd
import torch

from benchmarks.claims import Simulation
from lamina.analyses.layers.probe.predictions import ProbeDecisions, SavedTargets
from lamina.analyses.layers.revisions import revision_tables
from lamina.comparison.agreement import orders_of
from lamina.comparison.compare import SAME_DEPTH
from lamina.comparison.correspondence import HeadOverlaps, WordRelations, layer_table, match_heads
from lamina.comparison.measures import PairedMeasure, layer_family, values_beside
from lamina.comparison.predictions import ALL, GroupDifference, ProbeAnswers, differences
from lamina.comparison.probes import ModelTask, TaskComparison, TaskMatch, differences_of, sample_models
from lamina.comparison.tables import ModelDifference
from lamina.framework.declare import ComparedValues
from lamina.framework.registry import get_analysis
from lamina.probes.bank import DecisionTally
from lamina.probes.edge import LayerCut
from lamina.results import Provenance, Result
from lamina.results.finding import Finding, rows_of
from lamina.stats import NEGLIGIBLE, Units, ratio_draws, status_of
from lamina.types import Text

SAMPLES = 1000
DOCUMENTS, TARGETS = 30, 20
"""Documents, and targets of each."""
TASKS = ("pos", "dep", "ner", "srl")


def _clear(row: ModelDifference | GroupDifference, margin: float = NEGLIGIBLE) -> bool:
    return status_of(row.low, row.high, row.p_adjusted, needed=row.needed, margin=margin) == "clear"


def _comparison(
    rng: np.random.Generator, task: str, shares: np.ndarray, *, spread: float, by_seed: float = 0.0
) -> TaskComparison:
    """Probes P(0)..P(L) that are right at a share of the targets, [model, seed, layer], of documents of their own ease.

    What is hard is hard for all models; beside it, every model and seed has its own documents and its own luck.
    """
    models, seeds, layers = shares.shape
    names = tuple(f"{task}/d{number}" for number in range(DOCUMENTS))
    ease = rng.normal(0, 0.1, DOCUMENTS)
    cuts = tuple(LayerCut("cumulative", layer) for layer in range(layers))
    entries = []
    for model in range(models):
        own, sums = rng.normal(0, spread, DOCUMENTS), []
        for seed in range(seeds):
            luck = rng.normal(0, by_seed, layers)[:, None]
            right = rng.binomial(TARGETS, np.clip(shares[model, seed][:, None] + luck + ease + own, 0, 1))
            all_of = np.full_like(right, TARGETS)
            sums.append(DecisionTally("f1", np.stack([right, all_of, all_of]).astype(float)))
        answers = ProbeAnswers(task, "simulated", names, names, "same", cuts, tuple(sums), tuple(range(seeds)))
        entries.append(ModelTask(f"model {model}", task, "simulated", "f1", layers - 1, answers, None, {}, {}))
    return TaskComparison(task, "f1", entries)


def _compared(comparisons: list[TaskComparison], statistic: str, rng: np.random.Generator) -> list[ModelDifference]:
    seed = int(rng.integers(2**31))
    return differences_of(
        [TaskMatch(comparison, sample_models(comparison, SAMPLES, seed)) for comparison in comparisons], statistic
    )


def scores(rng: np.random.Generator, planted: bool) -> bool:
    """Three models at four tasks; planted, the first is ahead at the first task."""
    comparisons = []
    for task in TASKS:
        shares = np.full((3, 1, 2), 0.7)
        shares[0] += 0.14 * (planted and task == TASKS[0])
        comparisons.append(_comparison(rng, task, shares, spread=0.05))
    rows = _compared(comparisons, "score_full", rng)
    if not planted:
        return any(map(_clear, rows))
    return all(_clear(row) and row.difference > 0 for row in rows if row.task == TASKS[0] and row.a == "model 0")


def places(rng: np.random.Generator, planted: bool) -> bool:
    """Expected layers of two models at three tasks, five seeds; planted, one model gains later at the first task."""
    early, late = np.array([0.4, 0.6, 0.65, 0.7, 0.7]), np.array([0.4, 0.52, 0.58, 0.64, 0.7])
    comparisons = []
    for task in TASKS[:3]:
        curves = np.stack([late if planted and task == TASKS[0] else early, early])
        comparisons.append(_comparison(rng, task, np.repeat(curves[:, None], 5, axis=1), spread=0.02, by_seed=0.01))
    rows = _compared(comparisons, "expected_layer", rng)
    if not planted:
        return any(_clear(row, SAME_DEPTH) for row in rows)
    return _clear(rows[0], SAME_DEPTH) and rows[0].difference > 0


def orders(rng: np.random.Generator, planted: bool) -> bool:
    """Three models at three tasks, five seeds; planted, all models gain later at the first task."""
    early, late = np.array([0.4, 0.6, 0.65, 0.7, 0.7]), np.array([0.4, 0.46, 0.52, 0.6, 0.7])
    places, seed = {}, int(rng.integers(2**31))
    for task in TASKS[:3]:
        curves = np.stack([late if planted and task == TASKS[0] else early] * 3)
        comparison = _comparison(rng, task, np.repeat(curves[:, None], 5, axis=1), spread=0.02, by_seed=0.01)
        for sampled in sample_models(comparison, SAMPLES, seed):
            places[sampled.entry.model, task] = sampled.statistic("expected_layer")
    rows = list(orders_of(places, [f"model {number}" for number in range(3)], TASKS[:3]))
    if not planted:
        return any(row.verdict in ("a first", "b first") for row in rows)
    return all(row.verdict == "b first" for row in rows if row.task_a == TASKS[0])


GROUPS, ITEMS = 12, 40


def _items(rng: np.random.Generator, shares: np.ndarray) -> list[GroupDifference]:
    """Right and wrong answers of two models, [group, model], to items of their own ease."""
    values = []
    for group in shares:
        ease = rng.normal(0, 1, (ITEMS, 1))
        values.append((ease + rng.normal(0, 1, (ITEMS, 2)) < group).astype(float))
    return differences([f"group {number}" for number in range(len(shares))], values, ["one", "other"])


def groups_of_items(rng: np.random.Generator, planted: bool) -> bool:
    """Two models at twelve groups of forty items; planted, one is ahead at the first group."""
    limits = np.full((GROUPS, 2), 1.0)
    limits[0, 1] -= 1.45 * planted
    rows = [row for row in _items(rng, limits) if row.group != ALL]
    return any(map(_clear, rows)) if not planted else _clear(rows[0]) and rows[0].difference > 0


def mean_over_groups(rng: np.random.Generator, planted: bool) -> bool:
    """The same, over all groups; planted, one model is a little ahead at every group."""
    limits = np.full((GROUPS, 2), 1.0)
    limits[:, 1] -= 0.32 * planted
    (row,) = (row for row in _items(rng, limits) if row.group == ALL)
    return _clear(row) and (not planted or row.difference > 0)


def layers(rng: np.random.Generator, planted: bool) -> bool:
    """Seven measures of three models by document; planted, one measure is higher in one model."""
    units = Units.of([f"{rng.integers(2**31)}/{number}" for number in range(DOCUMENTS)], "document")
    shared = rng.normal(0, 0.2, (DOCUMENTS, 7, 1))
    values = 0.5 + shared + rng.normal(0, 0.1, (DOCUMENTS, 7, 3))
    values[:, 0, 0] += 0.13 * planted
    drawn = ratio_draws(values, np.ones(DOCUMENTS), units, samples=SAMPLES, seed=0)
    means, paired = values.mean(0), []
    for measure in range(7):
        for a, b in ((0, 1), (0, 2), (1, 2)):
            apart = drawn[:, measure, a] - drawn[:, measure, b]
            paired.append(PairedMeasure(float(means[measure, a] - means[measure, b]), apart, len(units), "document"))
    tests = layer_family(paired)
    clear = [status_of(*test[1:4], needed=test.needed) == "clear" for test in tests]
    return any(clear) if not planted else clear[0] and clear[1]


def _decided(task: str, said: np.ndarray, gold: np.ndarray, per_text: int) -> ProbeDecisions:
    """Decisions, [seed, layer, target]; every word of a text is a target, three texts are a document."""
    text, place = np.divmod(np.arange(said.shape[-1]), per_text)
    one = np.eye(max(int(said.max()), int(gold.max())) + 1, dtype=bool)
    words = np.stack([place, place + 1], -1)[:, None]
    names = tuple(f"s{number}" for number in range(text.max() + 1))
    documents = tuple(f"d{number // 3}" for number in range(text.max() + 1))
    every = np.ones((len(gold), one.shape[1]), bool)
    targets = SavedTargets(names, text, words, one[gold], every, np.zeros(len(gold), np.int64), documents)
    return ProbeDecisions(
        task, "simulated", tuple(range(len(said))), targets, np.packbits(one[said], axis=-1), said == gold
    )


def _clear_rows(table: pd.DataFrame) -> list[bool]:
    return [
        status_of(row.difference_low, row.difference_high, row.p_adjusted, needed=row.needed) == "clear"
        for row in rows_of(table)
    ]


def revised_beyond_seeds(rng: np.random.Generator, planted: bool) -> bool:
    """Two tasks, four layers, two seeds: labels change by luck alone; planted, the truth changes at one layer."""
    texts, per_text = 60, 8
    targets, tasks = texts * per_text, []
    for number in range(2):
        # The chance that a probe says another label, by document.
        luck = np.repeat(rng.beta(2, 14, texts // 3), per_text * 3)
        truth = np.zeros((1, 5, targets), int)
        if planted and number == 0:
            truth[:, :2] = (rng.random(targets) < 0.155).astype(int)
        said = np.where(rng.random((2, 5, targets)) < luck, 1 - truth, truth)
        tasks.append(_decided(f"task {number}", said, np.zeros(targets, int), per_text))
    table, _ = revision_tables(tasks, samples=20, shuffles=1, seed=0)
    steps = table[table["layer"].notna()]
    clear = _clear_rows(steps)
    return any(clear) if not planted else clear[1]


def revised_with_another_task(rng: np.random.Generator, planted: bool) -> bool:
    """Two tasks whose decisions settle together within a document; planted, one follows the other's words."""
    texts, per_text = 36, 6
    targets = texts * per_text
    gold, words = rng.integers(0, 3, targets), rng.normal(0, 1.45 * planted, targets)

    def settling() -> np.ndarray:
        late = np.repeat(rng.normal(0, 0.7, texts // 3), per_text * 3)
        noise = late + words + rng.normal(0, 1, (2, targets))
        last = 1 + np.searchsorted(np.quantile(noise, [0.25, 0.5, 0.75]), noise)
        last = np.where(rng.random(last.shape) < 0.25, 0, last)
        return (np.arange(5)[None, :, None] < last[:, None]).astype(int)

    tasks = [_decided(name, settling(), gold, per_text) for name in ("a", "b")]
    _, table = revision_tables(tasks, samples=200, shuffles=99, seed=int(rng.integers(2**31)))
    clear = _clear_rows(table)
    return any(clear) if not planted else bool(np.array(clear)[table["measure"] == "same_layer"].all())


RELATIONS, BETTER = 12, 0.25
"""Relations, and how much more often the better model's head finds the first of them."""


def best_heads(rng: np.random.Generator, planted: bool) -> bool:
    """One of two models is said to find a relation more often; one finds the first relation more often."""
    results = []
    # How often a relation is found varies from document to document, and is the same for both models.
    counts = rng.poisson(4, (RELATIONS, DOCUMENTS)) + 1
    ease = rng.normal(0.5, 0.1, (RELATIONS, DOCUMENTS))
    for number in range(2):
        shares = ease + rng.normal(0, 0.1, (RELATIONS, DOCUMENTS))
        shares[0] += BETTER * (planted and number == 1)
        hits = rng.binomial(counts, np.clip(shares, 0, 1))
        units = [
            (f"relation {relation}", unit, hits[relation, unit], counts[relation, unit])
            for relation in range(RELATIONS)
            for unit in range(DOCUMENTS)
        ]
        documents = pd.DataFrame(units, columns=["relation", "unit", "hits", "count"])
        best = pd.DataFrame({"relation": [f"relation {relation}" for relation in range(RELATIONS)], "layer": 1})
        best["crossfit_accuracy"] = hits.sum(1) / counts.sum(1)
        best[["crossfit_low", "crossfit_high"]] = 0.0, 1.0
        about = Provenance({"name": f"model {number}"}, {"fingerprint": "simulated"}, {})
        results.append(Result("heads", {"best": best, "documents": documents}, about))
    declared = get_analysis("heads").compares
    assert isinstance(declared, ComparedValues)
    rows = values_beside(results, declared).differences
    return _clear(rows[0]) if planted else any(map(_clear, rows))


WORDS, WIDTH = 8, 6
"""Words of each document, and dimensions of a simulated space."""


def _space(rng: np.random.Generator, signal: np.ndarray, shares: list[float]) -> WordRelations:
    """A model whose layers hold a share of the signal each, beside noise; no attention."""
    kernels = []
    for share in shares:
        vectors = torch.from_numpy(share * signal + rng.normal(0, 1, signal.shape)).float()
        kernels.append((vectors @ vectors.T).fill_diagonal_(0))
    return WordRelations(torch.stack(kernels), (), (), 0, causal=False)


def _corresponding(rng: np.random.Generator, shares: list[float], twin: list[float]) -> list[Finding]:
    """What is said of a model and another one, whose layers hold these shares of what the first one holds."""
    texts = [Text(str(number), ("word",) * WORDS, doc=f"d{number}") for number in range(DOCUMENTS)]
    signal = rng.normal(0, 1, (DOCUMENTS * WORDS, WIDTH))
    one, other, untrained = (_space(rng, signal, layers) for layers in ([1.0], shares, twin))
    table = layer_table(one, other, untrained, texts, samples=SAMPLES, seed=int(rng.integers(2**31)))
    about = Provenance({"name": "both", "a": {"name": "one"}, "b": {"name": "other"}}, {"name": "simulated"}, {})
    return list(get_analysis("correspondence").findings(Result("correspondence", {"layers": table}, about)))


def alike_beyond_twin(rng: np.random.Generator, planted: bool) -> bool:
    """Two models are as much alike as one and the other's twin, or more."""
    found = _corresponding(rng, [0.0, 0.0, 0.6 * planted], [0.0, 0.0, 0.0])
    return any(one.status == "clear" for one in found if one.claim.startswith("The last layers of"))


def nearest_layer(rng: np.random.Generator, planted: bool) -> bool:
    """All layers of one model are as much like the other's last one, or one is more."""
    found = _corresponding(rng, [0.6, 0.6 + 0.4 * planted, 0.6], [0.0, 0.0, 0.0])
    return any(one.status == "clear" for one in found if one.claim.startswith("The last layer of"))


def matched_heads(rng: np.random.Generator, planted: bool) -> bool:
    """No head is more like one head of the other model than like another; or the first is like the first."""
    level = rng.normal(0.4, 0.05, (DOCUMENTS, 6, 1))
    overlaps = level + rng.normal(0, 0.08, (DOCUMENTS, 6, 6))
    overlaps[:, 0, 0] += 0.12 * planted
    halves = rng.permutation(np.arange(DOCUMENTS) % 2)
    matches = match_heads(
        HeadOverlaps(overlaps * WORDS, np.full(DOCUMENTS, float(WORDS)), halves, "document", 0), (6, 6), seed=0
    )
    tests = [match for match in matches if match.mutual]
    clear = [match for match in tests if match.p_adjusted < 0.05 and match.difference > 0]
    return any(match.head == match.match_head == 1 for match in clear) if planted else bool(clear)


SIMULATIONS = [
    Simulation("correspondence", "two models are more alike than one and an untrained other", alike_beyond_twin),
    Simulation("correspondence", "a layer is more like one layer of another model", nearest_layer),
    Simulation("correspondence", "one of six heads has a match", matched_heads),
    Simulation("compare", "scores of three models at four tasks", scores),
    Simulation("compare", "expected layers of two models at three tasks, 5 seeds", places),
    Simulation("agreement", "which of three tasks comes first in three models, 5 seeds", orders),
    Simulation("compare", "two models at twelve groups of items", groups_of_items),
    Simulation("compare", "two models over all groups of items", mean_over_groups),
    Simulation("compare", "seven measures by layer of three models", layers),
    Simulation("compare", "what the best heads of two models find of twelve relations", best_heads),
    Simulation("trace", "decisions are revised more often than two seeds disagree", revised_beyond_seeds),
    Simulation("trace", "one task is revised with another", revised_with_another_task),
]
