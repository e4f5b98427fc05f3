"""Claims of `finetune`, `windows`, `restore`, `prune` and `diff`: documents are simulated, no model is tuned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from benchmarks.claims import Simulation
from lamina.analyses.answering.finetune import finetune
from lamina.analyses.cause.effects import ScoreChange, effects_of
from lamina.analyses.cause.prune import RETRAINED, prune
from lamina.analyses.cause.removal_curve import (
    CONTRASTS,
    CURVE,
    SHARES,
    PruningCurve,
    contrast_rows,
    score_draws,
    share_rows,
)
from lamina.analyses.cause.restore import best_table, effect_table, line_tables, restore
from lamina.analyses.cause.restored_layers import POSITIONS, ChangedLayers, LayerRange, LinePoint
from lamina.analyses.words.windows import difference_table, windows
from lamina.comparison.diff import DiffRow, changed_layers, diff, with_test
from lamina.comparison.diff import best_table as layers_changed
from lamina.comparison.similarity import LeaveOneOut, jackknife_draws
from lamina.framework.declare import Analysis
from lamina.results import Provenance, Result
from lamina.stats.family import sign_flip_family
from lamina.targets.target import TargetScores
from lamina.training.objective import Sum, TextOutcome, contrast_table

DOCUMENTS = 20
_WORDS = 100


def _outcomes(
    rng: np.random.Generator, level: np.ndarray, share: float, *, spread: float, task: str = ""
) -> list[TextOutcome]:
    """How documents of a common level are done by one model."""
    hits = share + level + rng.normal(0, spread, len(level))
    return [
        TextOutcome(f"d{at}", {"accuracy": Sum(float(_WORDS * hit), _WORDS, _WORDS)}, task)
        for at, hit in enumerate(hits)
    ]


def _level(rng: np.random.Generator) -> np.ndarray:
    return rng.normal(0, 0.05, DOCUMENTS)


def _clear(
    analysis: Analysis, tables: Mapping[str, pd.DataFrame], about: Provenance, start: Sequence[str] = ()
) -> bool:
    """Whether any claim, or any that begins so, is clear."""
    found = analysis.findings(Result(analysis.name, dict(tables), about))
    return any(each.status == "clear" and (not start or each.claim.startswith(tuple(start))) for each in found)


def _about(**settings: object) -> Provenance:
    return Provenance({"name": "m"}, {"name": "c", "target": "tags"}, settings)


def _constant(rng: np.random.Generator, planted: bool) -> bool:
    level = _level(rng)
    model, constant = (_outcomes(rng, level, share, spread=0.03) for share in (0.5 + 0.034 * planted, 0.5))
    table = contrast_table([model], constant, "document", seed=0)
    curve = pd.DataFrame([(0, 1, 1.0, "select", "accuracy", 0.5)], columns=list(finetune.tables["curve"].columns))
    return _clear(finetune, {"contrasts": table, "curve": curve}, _about(task="pos"), ("The fine-tuned model",))


def _tasks(rng: np.random.Generator, planted: bool) -> bool:
    runs: list[list[TextOutcome]] = [[], []]
    for task in range(8):
        level, more = _level(rng), 0.045 * (planted and task == 0)
        for side, share in enumerate((0.5 + more, 0.5)):
            runs[side] += _outcomes(rng, level, share, spread=0.03, task=f"qa{task}")
    table = contrast_table([runs[0]], runs[1], "document", seed=0)
    table = table[table["family"] == "task"]
    curve = pd.DataFrame([(0, 1, 1.0, "select", "accuracy", 0.5)], columns=list(finetune.tables["curve"].columns))
    return _clear(finetune, {"contrasts": table, "curve": curve}, _about(task="babi"))


def _windows(lack: float, word: float, start: tuple[str, ...], rng: np.random.Generator, planted: bool) -> bool:
    level = _level(rng)
    shares = {"0": -lack * planted + word * planted, "2": -lack * planted, "8": -lack * planted, "all": 0.0}
    runs = {name: [_outcomes(rng, level, 0.8 + less, spread=0.03)] for name, less in shares.items()}
    by_word = _outcomes(rng, level, 0.8, spread=0.03)
    table = difference_table(runs, by_word, "document", seed=0)
    scores = pd.DataFrame({"metric": ["accuracy"]})
    return _clear(windows, {"differences": table, "scores": scores}, _about(task="pos"), start)


def _restored(rng: np.random.Generator, effects: Mapping[tuple[str, int, int], float]) -> dict[str, pd.DataFrame]:
    level = _level(rng)
    own = [_outcomes(rng, level, 0.8, spread=0.03)]
    changed = [
        ChangedLayers(how, LayerRange(first, last), [_outcomes(rng, level, 0.8 + effect, spread=0.03)], own)
        for (how, first, last), effect in effects.items()
    ]
    linear = [each for each in changed if each.how == "transfer"]
    return {
        "effects": effect_table(changed, "accuracy", "document", seed=0),
        "best": best_table(changed, linear, "accuracy", "document", samples=300, seed=0),
    }


def _lower_half(rng: np.random.Generator, planted: bool) -> bool:
    spans = [
        *((0, last) for last in range(7)),
        *((first, 6) for first in range(1, 7)),
        *((at, at) for at in range(1, 6)),
    ]
    effects = {("restore", *span): -0.046 * (planted and span == (0, 3)) for span in dict.fromkeys(spans)}
    return _clear(restore, _restored(rng, effects), _about(), ("What fine-tuning changed", "With", "Without"))


def _single_layers(rng: np.random.Generator, planted: bool) -> bool:
    effects = {("restore", at, at): -0.2 - 0.032 * (planted and at == 3) for at in range(7)}
    return _clear(restore, _restored(rng, effects), _about(), ("Of single layers",))


def _linear_heads(rng: np.random.Generator, planted: bool) -> bool:
    effects = {("transfer", at, at): -0.2 + 0.032 * (planted and at == 3) for at in range(7)}
    return _clear(restore, _restored(rng, effects), _about(), ("A linear head does best",))


def _no_linear_head(rng: np.random.Generator, planted: bool) -> bool:
    effects = {("transfer", at, at): -0.042 * planted for at in range(7)}
    return _clear(restore, _restored(rng, effects), _about(), ("No linear head", "A linear head on"))


def _line(rng: np.random.Generator, planted: bool) -> bool:
    def loss(share: float) -> list[TextOutcome]:
        outcomes = _outcomes(rng, level, share, spread=0.03)
        return [TextOutcome(one.unit, {"loss": one.sums["accuracy"]}) for one in outcomes]

    level = _level(rng)
    points = [
        LinePoint(position, loss(0.8), loss(0.8 + 0.042 * (planted and position == 0.5))) for position in POSITIONS
    ]
    tables = {"effects": pd.DataFrame(), **line_tables(points, "document", samples=300, seed=0)}
    return _clear(restore, tables, _about(), ("Halfway back",))


def _orders(rng: np.random.Generator, planted: bool) -> bool:
    points = np.arange(11)
    level = rng.normal(0.9, 0.02, 40)
    found = []
    for by in ("importance", "effect", "random", "top", "bottom"):
        share = 0.5 if planted and by == "importance" else 0.2
        hits = level[:, None] - 0.03 * (points / 10 > share + 1e-9) + rng.normal(0, 0.0165, (40, 11))
        hits[:, 0] = level
        scores = [TargetScores(each, np.ones(40)) for each in hits.T]
        value = score_draws(scores, [f"d{at}" for at in range(40)], samples=300, seed=0)
        found.append(PruningCurve(by, points, 10, value, lower_is_better=False, units=40))
    whole = TargetScores(level, np.ones(40))
    (test,) = effects_of([ScoreChange(TargetScores(level - 0.7, np.ones(40)), whole, [f"d{at}" for at in range(40)])])
    control = ("twin", 0.2, 0.1, 0.3, whole.value, test.effect, test.low, test.high, test.p, test.units, test.needed)
    tables = {
        "curve": pd.DataFrame([row for curve in found for row in curve.rows()], columns=list(CURVE)),
        "shares": pd.DataFrame(share_rows(found), columns=list(SHARES)),
        "contrasts": pd.DataFrame(contrast_rows(found), columns=list(CONTRASTS)),
        "controls": pd.DataFrame([control], columns=list(prune.tables["controls"].columns)),
    }
    return _clear(prune, tables, _about(component="head"))


def _retrained(rng: np.random.Generator, planted: bool) -> bool:
    gains = [
        TargetScores(rng.normal(0.05 + more, 0.04, DOCUMENTS), np.ones(DOCUMENTS)) for more in (0.045 * planted, 0.0)
    ]
    (more,) = effects_of([ScoreChange(gains[1], gains[0], [f"d{at}" for at in range(DOCUMENTS)])])
    beside = (more.effect, more.low, more.high, more.p, more.units, more.needed)
    missing = [float("nan")] * 3
    rows = [("pruned", "top", 4, 100, 0.5, 0.6, *missing[:2], gains[0].value, *missing[:2], *beside)]
    rows.append(("whole", "top", 0, 100, 0.8, 0.8, *missing[:2], gains[1].value, *missing[:2], *[float("nan")] * 6))
    tables = {
        "curve": pd.DataFrame(columns=list(CURVE)),
        "shares": pd.DataFrame([("top", "1 point", 0, 0.0, 0.0, 0.0)], columns=list(SHARES)),
        "contrasts": pd.DataFrame(columns=list(CONTRASTS)),
        "controls": pd.DataFrame(columns=list(prune.tables["controls"].columns)),
        "retrained": pd.DataFrame(rows, columns=list(RETRAINED)),
    }
    return _clear(prune, tables, _about(component="head"))


def _layers(rng: np.random.Generator, planted: bool) -> bool:
    truth = 0.9 - 0.053 * (planted & (np.arange(7) == 5))
    groups = truth + rng.normal(0, 0.05, (20, 1)) + rng.normal(0, 0.04, (20, 7))
    left = [LeaveOneOut(float(own.mean()), (own.sum() - own) / 19) for own in groups.T]
    draws = np.stack([jackknife_draws(each, samples=500, seed=0) for each in left], 1)
    values = np.array([each.value for each in left])
    tests = changed_layers(values, draws, 20)
    rows = [
        with_test(DiffRow(at, None, "cka", value, 0, 1, 0.3), tests, at, "document") for at, value in enumerate(values)
    ]
    tables = {
        "diff": pd.DataFrame(rows, columns=list(DiffRow._fields)),
        "best": layers_changed(values, draws, 20, "document"),
    }
    return _clear(diff, tables, _about())


def _heads(kept: bool, rng: np.random.Generator, planted: bool) -> bool:
    truth = np.zeros(72)
    if planted:
        truth = np.full(72, 0.1) if kept else -0.046 * (np.arange(72) == 40)
    ahead = truth + rng.normal(0, 0.04, (DOCUMENTS, 72))
    if kept and planted:
        # The hardest of them, that all others are clear of.
        ahead[:, 40] -= 0.1 - 0.035
    tests = sign_flip_family(ahead, np.ones(DOCUMENTS))
    rows = [
        with_test(
            DiffRow(at // 12 + 1, at % 12 + 1, "attention_similarity", 0.5 + own, 0, 1, 0.5), tests, at, "document"
        )
        for at, own in enumerate(tests.estimate)
    ]
    tables = {"diff": pd.DataFrame(rows, columns=list(DiffRow._fields)), "best": pd.DataFrame()}
    return _clear(diff, tables, _about(), ("All 72 heads",) if kept else ("One of 72 heads", "Heads"))


SIMULATIONS: list[Simulation] = [
    Simulation("finetune", "does better than the constant answer", _constant),
    Simulation("finetune", "tasks of the data beside the constant answer", _tasks),
    Simulation(
        "windows", "no window does as well as the whole text", lambda *draw: _windows(0.038, 0.0, ("No", "2"), *draw)
    ),
    Simulation(
        "windows",
        "the word alone beside labels looked up by word",
        lambda *draw: _windows(0.0, 0.036, ("Of a model whose words see only themselves accuracy is higher",), *draw),
    ),
    Simulation("restore", "layers put back", _lower_half),
    Simulation("restore", "the single layer whose tuning matters most", _single_layers),
    Simulation("restore", "the best layer for a linear head", _linear_heads),
    Simulation("restore", "no linear head does as well as tuning", _no_linear_head),
    Simulation("restore", "the loss on the line between the weights", _line),
    Simulation("prune", "the share that can go by one order beside another", _orders),
    Simulation("prune", "training on makes up for what was removed", _retrained),
    Simulation("diff", "the layer that changed most", _layers),
    Simulation("diff", "heads that changed their role", lambda *draw: _heads(False, *draw)),
    Simulation("diff", "all heads kept their role", lambda *draw: _heads(True, *draw)),
]
