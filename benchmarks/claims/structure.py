"""Claims of `structure`, `order` and `phases` on simulated sums by document; their own code says what is clear."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache

import numpy as np
import pandas as pd
from jaxtyping import Float

from benchmarks.claims import Simulation
from benchmarks.failure_null import World, simulate
from lamina.analyses.answering.failure import CONTRAST, CONTRASTED, AnsweredQuestions, contrast_table, failure_table
from lamina.analyses.answering.phases import answering_table, phases
from lamina.analyses.answering.streaming import DIFFERENCES, PHASES, PSEUDO, RANKED, TWIN, PhaseCell, family_tests
from lamina.analyses.answering.streaming import LAYERS as HIGHEST
from lamina.analyses.layers import order as changes
from lamina.analyses.layers.order import BaselineDifference, HalfContrast, OrderChange, OrderLayer, OrderReading, order
from lamina.analyses.layers.structure.attention_trees import COMBINED, COMPARED, TREE_CONTRASTS
from lamina.analyses.layers.structure.attention_trees import contrast_rows as tree_contrast_rows
from lamina.analyses.layers.structure.probing import (
    BEST,
    CHAIN,
    CONTRASTS,
    CONTROL,
    DECAY,
    MODEL,
    PROJECTION,
    TRAINING,
    UUAS,
    ResampledScore,
    best_rows,
    contrast_rows,
)
from lamina.analyses.layers.structure.probing import TWIN as TREE_TWIN
from lamina.analyses.layers.structure.structure import tell_findings
from lamina.results import Provenance, Result
from lamina.results.finding import Finding
from lamina.stats import Units, widening

_DOCUMENTS, _SAMPLES, _LAYERS = 30, 500, 7
_PLANTED = 3
"""The layer, between others."""
_VARYING = 0.06
"""Deviation of a document's share of right answers; what is measured on one document has it in common."""
_UNITS = Units.of([f"d{number:02}" for number in range(_DOCUMENTS)], "document")


@cache
def _weights() -> Float[np.ndarray, "sample document"]:
    return _UNITS.weights(samples=_SAMPLES, seed=0).astype(float)


def _right(rng: np.random.Generator, sizes: np.ndarray, shares: np.ndarray) -> Float[np.ndarray, "document system"]:
    """Right answers by document, of systems with these shares."""
    hard = rng.normal(0, _VARYING, (_DOCUMENTS, 1))
    return rng.binomial(sizes[:, None], np.clip(shares + hard, 0.01, 0.99)).astype(float)


def _sizes(rng: np.random.Generator) -> np.ndarray:
    return 5 + rng.poisson(35, _DOCUMENTS)


def _shares(right: np.ndarray, sizes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Of every system, and over resampled documents."""
    return right.sum(0) / sizes.sum(), _weights() @ right / (_weights() @ sizes)[:, None]


def _result(analysis: str, tables: Mapping[str, pd.DataFrame]) -> Result:
    return Result(analysis, dict(tables), Provenance({"name": "m"}, {"name": "c"}, {}))


def _clear(findings: Iterable[Finding], *words: str) -> bool:
    """Whether a claim of the family, which has one of these words, is clear."""
    return any(found.status == "clear" and any(word in found.text for word in words) for found in findings)


# structure

_BESIDE = (CHAIN, DECAY, TREE_TWIN, PROJECTION, CONTROL)


def _trees(rng: np.random.Generator, lead: float) -> list[Finding]:
    """All layers and baselines find half of the links; one layer finds more."""
    keys: list[tuple[str, int | None, str]] = [(MODEL, layer, UUAS) for layer in range(_LAYERS)]
    for against in _BESIDE:
        place = {CHAIN: (None,), DECAY: (0,)}.get(against, range(_LAYERS))
        keys += [(against, layer, UUAS) for layer in place]
    shares = np.array([0.5 + lead * (key[:2] == (MODEL, _PLANTED)) for key in keys])
    sizes = _sizes(rng)
    values, draws = _shares(_right(rng, sizes, shares), sizes)
    scores = {key: [ResampledScore(float(values[at]), draws[:, at])] for at, key in enumerate(keys)}
    tables = {
        "best": pd.DataFrame(best_rows(scores, _UNITS), columns=list(BEST)),
        "contrasts": pd.DataFrame(contrast_rows(scores, _UNITS), columns=list(CONTRASTS)),
        "training": pd.DataFrame(columns=list(TRAINING)),
    }
    return list(tell_findings(_result("structure", tables)))


def trees(rng: np.random.Generator, planted: bool) -> bool:
    """A layer finds more links than words in a row, averaged neighbours, the twin and a random projection."""
    words = (f"layer {_PLANTED} finds",) if planted else ("links",)
    return _clear(_trees(rng, 0.105 * planted), *words)


def best_layer(rng: np.random.Generator, planted: bool) -> bool:
    """One layer is best at finding links."""
    found = _trees(rng, 0.2 if not planted else 0.105)
    told = [each.claim.partition(":")[0] for each in found if "are found best at " in each.claim]
    if planted:
        return told == [f"Links between words are found best at layer {_PLANTED}"]
    # The layer that is best by far is left out of the confidence set.
    return bool(told) and not any(f"layer {_PLANTED}" in each or "layers" in each for each in told)


def attention_trees(rng: np.random.Generator, planted: bool) -> bool:
    """A combination of heads gives more words their head than the next word and the best offset do."""
    sources = sorted({source for pair in COMPARED for source in pair})
    shares = np.array([0.35 + 0.09 * planted * (source == COMBINED) for source in sources])
    sizes = _sizes(rng)
    right = _right(rng, sizes, shares)
    sums = {source: np.stack([right[:, at], sizes], 1) for at, source in enumerate(sources)}
    tables = {
        "best": pd.DataFrame(columns=list(BEST)),
        "contrasts": pd.DataFrame(columns=list(CONTRASTS)),
        "training": pd.DataFrame(columns=list(TRAINING)),
        "tree_contrasts": pd.DataFrame(tree_contrast_rows(sums, _UNITS), columns=list(TREE_CONTRASTS)),
    }
    words = ("combination",) if planted else ("their head", "attention adds")
    return _clear(tell_findings(_result("structure", tables)), *words)


# order

_TASKS = ("index", "bigram_shift", "main_auxiliary", "subject", "depth", "coordination", "tense_verb", "object_number")


def _order(rng: np.random.Generator, ahead: float, up: float, down: float) -> list[Finding]:
    """Eight tasks of two classes; the main auxiliary is read better than by the twin, and rises as the index falls."""
    readings, upper = [], np.arange(_LAYERS) > changes.middle(_LAYERS)
    for task in _TASKS:
        level = (
            0.6
            + ahead * (task == "main_auxiliary")
            + upper * (up * (task == "main_auxiliary") - down * (task == "index"))
        )
        sizes = _sizes(rng)
        right = _right(rng, sizes, np.concatenate([level, np.full(_LAYERS, 0.6), [0.6]]))
        values, draws = _shares(right, sizes)
        draws = values + (draws - values) * widening(_DOCUMENTS)
        sides = [(values[part], draws[:, part]) for part in (slice(0, _LAYERS), slice(_LAYERS, 2 * _LAYERS))]
        constant = np.repeat(values[-1:], _LAYERS), np.repeat(draws[:, -1:], _LAYERS, 1)
        beside = {changes.TWIN: sides[1], changes.CONSTANT: constant}
        whole = np.ones(_LAYERS, bool)
        readings.append(OrderReading(task, *sides[0], beside, 0, _DOCUMENTS, "document", whole, "", ""))
    tables = {
        "order": pd.DataFrame({"layer": range(_LAYERS)}),
        "layers": pd.DataFrame(changes.layer_rows(readings), columns=list(OrderLayer._fields)),
        "beside": pd.DataFrame(changes.beside_rows(readings), columns=list(BaselineDifference._fields)),
        "changes": pd.DataFrame(changes.change_rows(readings), columns=list(OrderChange._fields)),
        "contrasts": pd.DataFrame(changes.half_contrasts(readings), columns=list(HalfContrast._fields)),
    }
    return list(order.findings(_result("order", tables)))


def task_is_read(rng: np.random.Generator, planted: bool) -> bool:
    """A layer reads a task better than its twin and the best constant answer."""
    found = [each for each in _order(rng, 0.09 * planted, 0.0, 0.0) if "with accuracy" in each.text]
    return _clear(found, "main auxiliary" if planted else "")


def halves(rng: np.random.Generator, planted: bool) -> bool:
    """The upper half of the layers reads a task otherwise than the lower half."""
    words = "read the main auxiliary better than layers" if planted else " than layers "
    return _clear(_order(rng, 0.0, 0.05 * planted, 0.0), words)


def against_order(rng: np.random.Generator, planted: bool) -> bool:
    """Linear order changes differently from structure."""
    return _clear(_order(rng, 0.0, 0.035 * planted, 0.035 * planted), "From the lower to the upper half")


# phases


def _phases(**tables: pd.DataFrame) -> list[Finding]:
    """Of a model that answers."""
    answered = [(f"d{number}", "qa1", True, (str(number),)) for number in range(20)]
    given = {
        "phases": pd.DataFrame(columns=list(PHASES)),
        "answering": answering_table([answered]),
        "layers": pd.DataFrame(columns=list(HIGHEST)),
        "differences": pd.DataFrame(columns=list(DIFFERENCES)),
        "contrast": pd.DataFrame(columns=list(CONTRAST)),
    }
    return list(phases.findings(_result("phases", {**given, **tables})))


def answers(rng: np.random.Generator, planted: bool) -> bool:
    """The model answers more questions than a task's most frequent answer does."""
    accepted = np.where(rng.random(200) < 0.4, 0, rng.integers(1, 40, 200))
    always = np.bincount(accepted).argmax()
    hard = rng.normal(0, _VARYING, _DOCUMENTS)
    documents = rng.integers(0, _DOCUMENTS, 200)
    share = (accepted == always).mean() + 0.165 * planted
    right = rng.random(200) < share + hard[documents]
    questions = [
        (f"d{at}", "", bool(hit), (str(gold),)) for at, hit, gold in zip(documents, right, accepted, strict=True)
    ]
    found = _phases(answering=answering_table([questions]))
    return any(each.status == "clear" and "exactly" in each.text and (each.estimate or 0) > 0 for each in found)


def roles(rng: np.random.Generator, planted: bool) -> bool:
    """The answer stands apart, or the question is near to its support, more than both nulls say."""
    rows = []
    for measure in RANKED:
        sizes = _sizes(rng)
        shared = rng.normal(0, 0.3, (_DOCUMENTS, 1))
        means = shared + rng.normal(0, 0.3, (_DOCUMENTS, 2 * _LAYERS))
        means[:, [_PLANTED, _LAYERS + _PLANTED]] += 0.36 * planted
        values, draws = _shares(means * sizes[:, None], sizes)
        cells = [
            (against, PhaseCell(0, layer, measure, int(sizes.sum()), _DOCUMENTS, float(values[at]), draws[:, at]))
            for at, (against, layer) in enumerate((name, layer) for name in (PSEUDO, TWIN) for layer in range(_LAYERS))
        ]
        for (against, cell), test in zip(cells, family_tests(cells), strict=True):
            start = ("m", against, cell.layer, "all", measure, 1, cell.questions)
            rows.append((*start, cell.value, 0.0, *test, "document"))
    found = _phases(differences=pd.DataFrame(rows, columns=list(DIFFERENCES)))
    words = [f"At layer {_PLANTED} the answer"] if planted else ["than another", "with random weights", "to another"]
    return _clear(found, *words)


def right_and_wrong(rng: np.random.Generator, planted: bool) -> bool:
    """Right answers differ from wrong ones to similar questions, by some measure at some layer."""
    documents = np.repeat(np.arange(_DOCUMENTS), 8)
    size, measures = len(documents), len(CONTRASTED)
    right = rng.random(size) < 0.6
    values = 0.2 * rng.normal(size=(_DOCUMENTS, 4, measures))[documents] + 0.2 * rng.normal(size=(size, 4, measures))
    values[right, 2, 0] += 0.17 * planted
    strata = [f"|{kind}|1" for kind in rng.choice(["who", "what"], size)]
    made = AnsweredQuestions(values, right, [f"d{each}" for each in documents], strata)
    found = _phases(contrast=contrast_table("m", [made], samples=_SAMPLES, seed=0))
    return _clear(found, "Where the answer is right" if not planted else "at layer 2: ")


def _failures(rng: np.random.Generator, world: World, told: float) -> list[Finding]:
    """Three layers and their twin; the last layer knows which answers are wrong."""
    base = simulate(world, int(rng.integers(2**31)))
    shape = (len(base.wrong), 3, base.vectors.shape[2])
    vectors, twin = (base.vectors + rng.normal(size=shape) for _ in range(2))
    vectors[:, 2, 0] += told * base.wrong
    models = {"m": [base._replace(vectors=vectors)], "m (random)": [base._replace(vectors=twin)]}
    made = failure_table(models, samples=199, seed=0)
    return _phases(failure=made.failure, failure_contrasts=made.contrasts)


_NOTHING = World(documents=20, questions=8.0, features=4, alike=0.5, confident=False)
_SURE = _NOTHING._replace(confident=True)


def predicted(rng: np.random.Generator, planted: bool) -> bool:
    """A layer predicts which answers are wrong better than chance and than its twin."""
    return _clear(_failures(rng, _NOTHING, 1.9 * planted), "which answers are wrong with an AUC")


def over_confidence(rng: np.random.Generator, planted: bool) -> bool:
    """A layer predicts wrong answers better than the confidence does, or the other way round."""
    return _clear(_failures(rng, _NOTHING, 2.2 * planted), "the model's confidence does:", "better than any layer")


def added(rng: np.random.Generator, planted: bool) -> bool:
    """A layer adds to what the confidence says, and more than its twin does."""
    return _clear(_failures(rng, _SURE, 1.9 * planted), "says of wrong answers: ")


SIMULATIONS: list[Simulation] = [
    Simulation("structure", "a layer finds more links than all baselines", trees),
    Simulation("structure", "which layer is best", best_layer),
    Simulation("structure", "attention gives words their head", attention_trees),
    Simulation("order", "a layer reads a task better than twin and constant answer", task_is_read),
    Simulation("order", "the upper layers read a task otherwise than the lower ones", halves),
    Simulation("order", "linear order and structure change differently", against_order),
    Simulation("phases", "the model answers better than a constant", answers),
    Simulation("phases", "roles are apart more than both nulls", roles),
    Simulation("phases", "right and wrong answers differ", right_and_wrong),
    Simulation("phases", "a layer predicts wrong answers", predicted),
    Simulation("phases", "a layer predicts better than the confidence, or worse", over_confidence),
    Simulation("phases", "a layer adds to the confidence", added),
]
