"""Claims about words: geometry, semantic classes in context, neighbours, senses and position."""

from __future__ import annotations

import numpy as np
import pandas as pd

import lamina
from benchmarks.claims import Simulation
from lamina.analyses.layers.dimensions import PairSums, dimension_table
from lamina.analyses.layers.geometry import drawn_mean, layer_contrasts
from lamina.analyses.layers.numbers import CHARACTERS, LayerOutcomes, NumberOutcome, number_tables
from lamina.analyses.layers.numbers import TWIN as NUMBER_TWIN
from lamina.analyses.layers.retrieval import RetrievedPairs, retrieval_tables
from lamina.analyses.words.contextualize.scores import (
    FINETUNED,
    DecisionCounts,
    MicroF1,
    MicroF1Contrast,
    ScoredVectors,
    WordBootstrap,
    compare_micro,
    contrast_rows,
    contrast_table,
)
from lamina.analyses.words.neighbours import SEPARATION, SHARED, separation_table, shared_table
from lamina.analyses.words.sense_map import separation
from lamina.analyses.words.senses.predictions import (
    BAGS,
    BEST,
    CONSTANTS,
    DIFFERENCES,
    TWIN,
    PairedHits,
    ResampledRatios,
    WordMeans,
    best_rows,
    drawn_rows,
    paired_rows,
)
from lamina.results import Provenance, Result
from lamina.stats.units import Units

_SAMPLES = 300
# Effects with a nominal power of about .9, sized by trial.
_STATIC, _AVERAGE, _CONTEXT, _FINETUNED = 0.125, 0.1, 0.1, 0.12
_SEPARATED, _SHARED = 1.4, 0.16
_DIMENSION = 0.5
_CONSTANTS, _BAGS, _CLUSTERS, _PLACES = 0.125, 0.14, 0.09, 0.057


def _clear(result: Result) -> bool:
    """Whether any finding is clear."""
    return any(found.status == "clear" for found in getattr(lamina, result.analysis).findings(result))


def _result(analysis: str, tables: dict[str, pd.DataFrame], **parameters: object) -> Result:
    return Result(analysis, tables, Provenance({"name": "m"}, {"name": "c", "word": "w"}, parameters))


def _seed(rng: np.random.Generator) -> int:
    """Another bootstrap in every draw."""
    return int(rng.integers(2**31))


def _geometry(rng: np.random.Generator, planted: bool, *, extreme: bool = False) -> pd.DataFrame:
    """Contrasts of the self-similarity of 60 word types at 7 layers of a model and its twin; planted at layer 3."""
    units = Units.of([f"w{at}" for at in range(60)], "word type")
    weights = units.weights(samples=_SAMPLES, seed=_seed(rng))
    common = rng.normal(0.6, 0.1, 60)
    sides = []
    for own in (True, False):
        values = common[:, None] + rng.normal(0, 0.05, (60, 1)) + rng.gamma(4, 0.025, (60, 7)) - 0.1
        if own and planted:
            # Of the differences' spread .1, beside a critical value of about 2.7 (of leads: .07 and 2.5).
            values[:, 3] -= (2.7 + 1.3) * 0.1 / 60**0.5 if not extreme else (2.6 + 1.0) * 0.071 / 60**0.5
        sides.append([drawn_mean(values[:, layer], weights) for layer in range(7)])
    own, twin = sides
    return layer_contrasts("self_similarity_adjusted", own, twin, 60)


def _differs_from_twin(rng: np.random.Generator, planted: bool) -> bool:
    return _clear(_result("geometry", {"contrasts": _geometry(rng, planted)}))


def _lowest_layer(rng: np.random.Generator, planted: bool) -> bool:
    """Whether some layers are told as the lowest; planted: whether the set has the lowest layer and not all others."""
    among = _geometry(rng, planted, extreme=True)["among_best"].to_numpy()
    return bool(among[3] and among.sum() < 7) if planted else not among.all()


def _dimensions(rng: np.random.Generator, planted: bool) -> bool:
    """40 documents of 8 words, 16 dimensions, 4 layers of a model and its twin; one dimension grows at layer 2."""
    units = Units.of([f"d{document}" for document in range(40)], "document")
    weights = units.weights(samples=_SAMPLES, seed=_seed(rng))
    mean = np.where(np.arange(16) == 0, 1.0, 0.3)
    sums = []
    for trained in (True, False):
        layers = []
        for layer in range(4):
            grown = mean + np.eye(16)[0] * _DIMENSION * (planted and trained and layer == 2)
            vectors = grown + rng.normal(0, 0.3, (40, 1, 16)) + rng.normal(0, 1, (40, 8, 16))
            vectors /= np.linalg.norm(vectors, axis=2, keepdims=True)
            layers.append(PairSums(vectors.sum(1), np.full(40, 8.0)))
        sums.append(layers)
    table = dimension_table(sums, rng.permutation(np.arange(40) % 2), weights, 1)
    return _clear(_result("dimensions", {"layers": table})) if not planted else table["p_adjusted"][2] < 0.05


def _numbers(rng: np.random.Generator, planted: bool) -> bool:
    """60 items, 7 layers of a model and its twin and one spelling, with errors of a heavy tail; layer 3 errs less."""
    gold = rng.normal(size=60)
    around = np.square(gold - gold.mean())

    def outcome(size: float) -> NumberOutcome:
        return NumberOutcome("r2", around - np.square(size * rng.standard_t(4, 60)), around)

    layers = [outcome(0.4 if planted and layer == 3 else 1.0) for layer in range(7)]
    one = LayerOutcomes(
        "decoding", "integers", "inside", layers, [outcome(1.0) for _ in range(7)], {CHARACTERS: outcome(1.0)}
    )
    table = number_tables([one], samples=20, seed=_seed(rng))["readings"].set_index(["layer", "baseline"])
    clear = table["p_adjusted"] < 0.05
    return bool(clear[(3, CHARACTERS)] or clear[(3, NUMBER_TWIN)]) if planted else bool(clear.any())


def _retrieval(rng: np.random.Generator, planted: bool) -> bool:
    """120 pairs of uneven ease, 7 layers of a model and its twin and the spelling; layer 4 finds more."""
    ease = rng.beta(2, 2, (2, 120))

    def drawn(more: float) -> np.ndarray:
        return rng.binomial(1, np.clip(ease + more, 0, 1)).astype(float)

    found = [RetrievedPairs("model", layer, drawn(0.3 * (planted and layer == 4))) for layer in range(7)]
    found += [RetrievedPairs("untrained twin", layer, drawn(0)) for layer in range(7)]
    found.append(RetrievedPairs("shared spelling", None, drawn(0)))
    table = retrieval_tables(found, ("en", "de"), samples=20, seed=_seed(rng))["readings"]
    clear = table[table["p_adjusted"] < 0.05]
    return bool((clear["layer"] == 4).any()) if planted else len(clear) > 0


def _counts(rng: np.random.Generator, sizes: np.ndarray, share: np.ndarray) -> DecisionCounts:
    """Decisions of a system that finds the class of each pair with these chances, with some wrong ones."""
    hits = rng.binomial(sizes, share)
    wrong = rng.binomial(sizes, 0.4)
    return DecisionCounts(*(part[:, None] for part in (hits, hits + wrong, sizes, sizes, hits)))


def _micro_f1(
    rng: np.random.Generator, planted: float, names: list[ScoredVectors]
) -> tuple[dict[ScoredVectors, MicroF1], int]:
    """Micro-F1 of 300 test words and 200 dev words; the model's rows with the whole text find `planted` more."""
    scored: dict[ScoredVectors, MicroF1] = {}
    seed = _seed(rng)
    for split, words in (("test", 300), ("dev", 200)):
        sizes = rng.geometric(0.65, words)
        hardness = rng.beta(2, 2, words)
        named = [f"{split}{at}" for at in range(words)]
        bootstrap = WordBootstrap(named, np.arange(words), samples=_SAMPLES, seed=seed)
        for row in names:
            better = planted if row.representation == "m" and row.context == "full" else 0.0
            found = bootstrap.f1(_counts(rng, sizes, np.clip(hardness + better, 0, 1)))
            scored[row._replace(split=split)] = MicroF1(float(found.value[-1]), found.draws[:, -1])
    return scored, 300


def _classes(rng: np.random.Generator, planted: float, beside: list[ScoredVectors]) -> bool:
    """The layer that other words chose, of 7, beside some other rows."""
    scored, units = _micro_f1(rng, planted, [*(ScoredVectors("m", layer, "full", "") for layer in range(7)), *beside])
    contrasts, best = compare_micro(scored, "m", "test", units)
    return _clear(_result("contextualize", {"contrasts": contrasts, "best": best}))


def _beside_static(rng: np.random.Generator, planted: bool) -> bool:
    rows = [ScoredVectors(name, None, "full", "") for name in ("glove", "m input", "random")]
    return _classes(rng, _STATIC * planted, rows)


def _beside_average(rng: np.random.Generator, planted: bool) -> bool:
    return _classes(rng, _AVERAGE * planted, [ScoredVectors("AVG-m", layer, "full", "") for layer in range(7)])


def _beside_less_context(rng: np.random.Generator, planted: bool) -> bool:
    rows = [ScoredVectors("m", layer, str(size), "") for layer in range(7) for size in (0, 4)]
    return _classes(rng, _CONTEXT * planted, rows)


def _finetuned(rng: np.random.Generator, planted: bool) -> bool:
    """Old probes on fine-tuned models of two tasks at 7 layers; planted: they lose at the last layer of one."""
    sizes, hardness = rng.geometric(0.65, 300), rng.beta(2, 2, 300)
    bootstrap = WordBootstrap([f"w{at}" for at in range(300)], np.arange(300), samples=_SAMPLES, seed=_seed(rng))

    def micro(loss: float = 0.0) -> MicroF1:
        found = bootstrap.f1(_counts(rng, sizes, np.clip(hardness - loss, 0, 1)))
        return MicroF1(float(found.value[-1]), found.draws[:, -1])

    before = [micro() for _ in range(7)]
    members = []
    for task in ("pos", "ner"):
        for layer in range(7):
            old, new = micro(_FINETUNED * (planted and task == "pos" and layer == 6)), micro()
            pairs = (
                ("a", old, "pretrained", before[layer]),
                ("b", new, "pretrained", before[layer]),
                ("b", new, "a", old),
            )
            members += [
                MicroF1Contrast(layer, way, against, None, own, other, task) for way, own, against, other in pairs
            ]
    table = contrast_table([*contrast_rows(FINETUNED, "tasks and layers", members, 300)])
    columns = lamina.contextualize.tables["finetuning"].columns
    return _clear(_result("contextualize", {"contrasts": table, "finetuning": pd.DataFrame(columns=list(columns))}))


def _separated(rng: np.random.Generator, planted: bool) -> bool:
    """The classes of one of 4 candidate words at 3 layers: 40 contexts of two classes in 25 documents."""
    words, seed = [], _seed(rng)
    for word in range(4):
        classes = ["a"] * 28 + ["b"] * 12
        documents = rng.permutation(np.concatenate([np.arange(25), rng.integers(25, size=15)]))
        units = Units.of([f"d{at}" for at in documents], "document")
        weights = units.weights(samples=_SAMPLES, seed=seed)[:, list(units.owner)]
        base = rng.normal(0, 1, (40, 12))
        layers = []
        for layer in range(3):
            vectors = base + rng.normal(0, 0.7, (40, 12)) + 0.5
            if planted and word == 0 and layer == 2:
                vectors[:28, :4] += _SEPARATED
                vectors[28:, 4:8] += _SEPARATED
            layers.append(separation(vectors, classes, permutations=50, weights=weights))
        words.append((layers, len(units)))
    # The one with the largest silhouette at the last layer is shown.
    words.sort(key=lambda each: -each[0][-1].silhouette)
    table = separation_table(
        [list(layer) for layer in zip(*(own for own, _ in words), strict=True)], [n for _, n in words]
    )
    table = table.assign(unit="document", contexts=40, explained=0.5)[list(SEPARATION)]
    return _clear(_result("neighbours", {"separation": table}))


def _sharing(rng: np.random.Generator, planted: bool) -> bool:
    """What 40 contexts of 25 documents share of their nearest words at 4 layers; planted: less at the last."""
    documents = np.concatenate([np.arange(25), rng.integers(25, size=15)])
    units = Units.of([f"d{at}" for at in documents], "document")
    usual = rng.beta(4, 4, 40)
    topic = rng.beta(4, 4, 25)[documents]
    layers = []
    for layer in range(4):
        rate = np.clip((usual + topic) / 2 + rng.normal(0, 0.1, 40) - _SHARED * (planted and layer == 3), 0.02, 0.98)
        near = [set(np.flatnonzero(rng.random(30) < each * np.linspace(1, 0.1, 30)).tolist()) or {0} for each in rate]
        layers.append(np.array([[len(one & other) / max(len(one), len(other)) for other in near] for one in near]))
    table = shared_table(layers, units, units.weights(samples=_SAMPLES, seed=_seed(rng)))
    return _clear(_result("neighbours", {"shared": table[list(SHARED)]}))


def _senses(tables: list[tuple], best: list[tuple]) -> Result:
    return _result(
        "senses",
        {
            "senses": pd.DataFrame(columns=["layer", "measure", "value"]),
            "differences": pd.DataFrame(tables, columns=list(DIFFERENCES)).astype(
                {"layer": "Int64", "window": "Int64"}
            ),
            "best": pd.DataFrame(best, columns=list(BEST)),
        },
        k=[5],
    )


def _answers(rng: np.random.Generator, others: int, planted: float) -> tuple[np.ndarray, np.ndarray, list[np.ndarray]]:
    """Right answers by document: of the model, and of others that are as good where nothing is planted."""
    counts = rng.integers(2, 30, 30).astype(float)
    share = rng.beta(6, 4, 30)
    own = rng.binomial(counts.astype(int), np.clip(share + planted, 0, 1)).astype(float)
    return counts, own, [rng.binomial(counts.astype(int), share).astype(float) for _ in range(others)]


def _constants(rng: np.random.Generator, planted: bool) -> bool:
    counts, own, theirs = _answers(rng, 2, _CONSTANTS * planted)
    pairs = [
        PairedHits(None, name, own, each)
        for name, each in zip(("most_frequent", "scored_majority"), theirs, strict=True)
    ]
    return _clear(_senses([*paired_rows("chosen.ambiguous", CONSTANTS, pairs, counts)], []))


def _bags(rng: np.random.Generator, planted: bool) -> bool:
    names = [f"{vectors}{window}" for vectors in ("skip-gram", "input") for window in ("", ".w1", ".w2", ".w4", ".w8")]
    counts, own, theirs = _answers(rng, len(names), _BAGS * planted)
    pairs = [PairedHits(None, name, own, each) for name, each in zip(names, theirs, strict=True)]
    return _clear(_senses([*paired_rows("chosen.ambiguous", BAGS, pairs, counts)], []))


def _clusters(rng: np.random.Generator, planted: bool) -> bool:
    """Agreement of the clusters of 40 words with their senses at 7 layers."""
    words = WordMeans([f"w{at}" for at in range(40)], rng.integers(10, 100, 40), samples=_SAMPLES, seed=_seed(rng))
    ami = rng.normal(0, 0.08, (40, 1)) + rng.gamma(1.5, 0.08, (40, 7)) - 0.12
    ami[:, 4] += _CLUSTERS * planted
    null = rng.normal(0, 0.005, (40, 7))
    values = np.stack([words.by_layer(each)[0] for each in (ami, null)], 1)
    rows = drawn_rows("ami", "shuffled senses", values, words.by_layer(ami - null)[1], len(words))
    return _clear(_senses([*rows], [*best_rows("ami", *words.by_layer(ami), len(words))]))


def _position(rng: np.random.Generator, against: str, planted: float) -> bool:
    """Squared errors of places and of what they are compared with: 40 documents, 7 layers; planted at the last."""
    names = [f"d{at}" for at in range(40)]
    resampled = ResampledRatios.of(names, "document", samples=_SAMPLES, seed=_seed(rng))
    total = rng.integers(5, 60, 40)[:, None] * rng.gamma(20, 0.05, (40, 7))
    error, theirs = (total * (1 + rng.normal(0, 0.05, (40, 7))) for _ in range(2))
    error[:, -1] -= planted * total[:, -1]
    own, other = (1 - part.sum(0) / total.sum(0) for part in (error, theirs))
    rows = drawn_rows("position.both", against, np.stack([own, other], 1), resampled.draws(theirs - error, total), 40)
    return _clear(_senses([*rows], [*best_rows("position.both", own, 1 - resampled.draws(error, total), 40)]))


def _shuffled_places(rng: np.random.Generator, planted: bool) -> bool:
    return _position(rng, "shuffled places", _PLACES * planted)


def _place_in_twin(rng: np.random.Generator, planted: bool) -> bool:
    return _position(rng, TWIN, _PLACES * planted)


SIMULATIONS = [
    Simulation("geometry", "a layer differs from the twin's", _differs_from_twin),
    Simulation("geometry", "a layer is lower than another", _lowest_layer),
    Simulation("dimensions", "the largest dimensions carry more than the twin's", _dimensions),
    Simulation("retrieval", "a layer finds more translations than its baselines", _retrieval),
    Simulation("numbers", "a layer tells more than its baselines", _numbers),
    Simulation("contextualize", "the chosen layer beside vectors without context", _beside_static),
    Simulation("contextualize", "the chosen layer beside its average over contexts", _beside_average),
    Simulation("contextualize", "the whole text beside less context", _beside_less_context),
    Simulation("contextualize", "old and new probes after fine-tuning", _finetuned),
    Simulation("neighbours", "the classes of the chosen word lie apart", _separated),
    Simulation("neighbours", "contexts share other nearest words than at layer 0", _sharing),
    Simulation("senses", "neighbours beside constant answers", _constants),
    Simulation("senses", "neighbours beside bags of words", _bags),
    Simulation("senses", "clusters agree with senses", _clusters),
    Simulation("senses", "places explain variance", _shuffled_places),
    Simulation("senses", "places explain less at the last layer than in the twin", _place_in_twin),
]
