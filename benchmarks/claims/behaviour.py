"""Claims about what language models say: surprisal, pairs, cloze, lens, said, perturb."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from benchmarks.claims import Simulation
from lamina.analyses.behaviour.cloze.scores import (
    ALL,
    NEGATION,
    ClozeOutcome,
    beside_baseline,
    by_chance,
    contrast_table,
)
from lamina.analyses.behaviour.cloze.suites import OBJECTS
from lamina.analyses.behaviour.judging import SCORES, Verdicts
from lamina.analyses.behaviour.layer_predictions import above
from lamina.analyses.behaviour.lens import NEGLIGIBLE_LAYERS, NEGLIGIBLE_NATS, depth_contrasts, tuned_gain
from lamina.analyses.behaviour.pairs import Accuracies, beside_chance, compared_groups
from lamina.analyses.behaviour.perturb.perturbations import Perturbation
from lamina.analyses.behaviour.perturb.scores import PerturbedItems, above_chance, beyond, changes
from lamina.analyses.behaviour.probe_vs_lens import SAME_LAYER, LayerCurve, first, gains, later_family
from lamina.analyses.behaviour.surprisal import NEGLIGIBLE_BITS, NEGLIGIBLE_RHO, more_bits, rho_differences
from lamina.corpora.suites.minimal_pairs import MinimalPair
from lamina.stats.correlations import Correlations
from lamina.stats.family import Contrasts
from lamina.stats.status import NEGLIGIBLE, status_of
from lamina.stats.units import Units

_SAMPLES = 300


def _clear(tests: Contrasts, margin: float, planted: int | None = None) -> bool:
    """Whether the planted member is clear; any where nothing is planted."""
    members = zip(*(np.ravel(values).tolist() for values in tests), strict=True)
    found = [status_of(low, high, p, needed=needed, margin=margin) == "clear" for _, low, high, p, _, needed in members]
    return any(found) if planted is None else found[planted]


def _sizes(rng: np.random.Generator, documents: int) -> np.ndarray:
    """Words of documents, some of which are five times as long as others."""
    return rng.integers(20, 100, documents).astype(float)


def _names(rng: np.random.Generator, count: int) -> list[str]:
    """Names of units, other ones in every draw, so that they are resampled otherwise."""
    start = int(rng.integers(2**40))
    return [f"{start}-{number}" for number in range(count)]


def _bits(rng: np.random.Generator, planted: bool) -> bool:
    """20 documents; three baselines, of which the second is worse."""
    words = _sizes(rng, 20)
    means = 9 + rng.normal(0, 1, (20, 1)) + rng.normal(0, 0.5, (20, 4))
    means[:, 2] += 0.75 * planted
    return _clear(more_bits(means * words[:, None], words), NEGLIGIBLE_BITS, 1 if planted else None)


def _correlations(rng: np.random.Generator, planted: bool) -> bool:
    """24 documents of 15 words; surprisal falls with frequency, that of the second baseline less."""
    documents = np.repeat(_names(rng, 24), 15).tolist()
    frequency = rng.normal(size=360) + np.repeat(rng.normal(0, 0.5, 24), 15)
    slopes = [0.6, 0.6, 0.6 - 0.32 * planted]
    variables = {"frequency": frequency, "length": rng.normal(size=360) - 0.5 * frequency}
    for number, slope in enumerate(slopes):
        variables[str(number)] = rng.normal(size=360) - slope * frequency
    found = Correlations(variables, documents, samples=_SAMPLES, seed=0)
    rows = [
        (other, one, given) for other in ("1", "2") for one, given in (("frequency", None), ("length", "frequency"))
    ]
    return _clear(rho_differences(found, "0", rows), NEGLIGIBLE_RHO, 2 if planted else None)


def _accuracies(
    rng: np.random.Generator, model: Sequence[float], other: Sequence[float] | None = None, items: int = 30
) -> Accuracies:
    """Paradigms, each its own term, of as many items; a model, and another one that is like it on some items."""
    names = _names(rng, items * len(model))
    pairs = [MinimalPair(name, "f", f"t{at // items}", f"p{at // items}", "g", "b") for at, name in enumerate(names)]
    luck = rng.random(len(pairs))
    own = (luck < np.repeat(model, items)).astype(float)
    spoken = {"model": own}
    if other is not None:
        shared = np.where(rng.random(len(pairs)) < 0.5, luck, rng.random(len(pairs)))
        spoken["other"] = (shared < np.repeat(other, items)).astype(float)
    verdicts = {
        name: Verdicts(dict.fromkeys(SCORES, values), dict.fromkeys(SCORES, values)) for name, values in spoken.items()
    }
    return Accuracies(pairs, verdicts, np.full(len(pairs), 0.5), _SAMPLES, 0)


def _paradigms(rng: np.random.Generator, planted: bool) -> bool:
    """8 paradigms of 30 pairs; the first is above chance."""
    found = _accuracies(rng, [0.84 if planted else 0.5, *[0.5] * 7])
    tests = found.against_chance(found.groups("paradigm"), "plain")
    sides = [beside_chance(*map(float, member)) for member in zip(*tests, strict=True)]
    return sides[0] == "above" if planted else bool({"above", "below"} & {*sides})


def _suite(rng: np.random.Generator, planted: bool) -> bool:
    """The mean over 5 paradigms of 20 pairs."""
    found = _accuracies(rng, [0.68 if planted else 0.5] * 5, items=20)
    return _clear(found.against_chance(found.groups("all"), "plain"), NEGLIGIBLE, 0 if planted else None)


def _terms(rng: np.random.Generator, planted: bool) -> bool:
    """6 terms of 40 pairs, one of which is harder."""
    found = _accuracies(rng, [0.8, 0.37 if planted else 0.8, *[0.8] * 4], items=40)
    return _clear(found.between(compared_groups(found), "plain")[1], NEGLIGIBLE, 0 if planted else None)


def _baselines(rng: np.random.Generator, planted: bool) -> bool:
    """8 paradigms of 30 pairs beside another model, which is worse in the first."""
    found = _accuracies(rng, [0.8] * 8, [0.36 if planted else 0.8, *[0.8] * 7])
    return _clear(found.differences(found.groups("term"), "other", "plain"), NEGLIGIBLE, 0 if planted else None)


def _diagnostics(rng: np.random.Generator, planted: bool) -> bool:
    """4 parts of 18 to 40 items, one of which has a chance of a third."""
    parts = {"C": (34, 1 / 3), "R": (40, 0.5), "N": (18, 0.5), "M": (18, 0.5)}
    own = []
    for part, (items, chance) in parts.items():
        right = rng.random(items) < (0.62 if planted and part == "C" else chance)
        own += [ClozeOutcome(part, str(at), "sensitivity", float(each), True, chance) for at, each in enumerate(right)]
    keys = [(part, "sensitivity") for part in parts]
    tests = beside_baseline(own, by_chance(own), keys, by_chance=True, seed=0)
    return _clear_rows([tests[key] for key in keys], planted)


def _clear_rows(rows: Sequence[tuple[float, ...]], planted: bool, margin: float = NEGLIGIBLE) -> bool:
    found = [status_of(low, high, p, needed=needed, margin=margin) == "clear" for _, low, high, p, _, needed in rows]
    return found[0] if planted else any(found)


def _negations(rng: np.random.Generator, planted: bool) -> bool:
    """2 parts of 18 negated and affirmative contexts."""
    own = []
    for part in ("N", "M"):
        easy = rng.random(18)
        for polarity in ("affirmative", "negative"):
            hard = planted and part == "N" and polarity == "negative"
            right = 0.5 * easy + 0.5 * rng.random(18) < (0.3 if hard else 0.62)
            own += [
                ClozeOutcome(part, str(at), f"sensitivity_{polarity}", float(each), True)
                for at, each in enumerate(right)
            ]
    table = contrast_table(own, {}, (), 0)
    rows = table[table["contrast"] == NEGATION].drop(columns=["part", "contrast"])
    return _clear_rows([tuple(row) for row in rows.itertuples(index=False, name=None)], planted)


def _facts(rng: np.random.Generator, planted: bool) -> bool:
    """5 relations of 10 to 30 facts, two of a subject, each asked by four patterns."""
    own, other = [], []
    for part in range(5):
        for at in range(int(rng.integers(10, 30))):
            # A fact is known or not, by most of its patterns.
            known = rng.beta(0.6, 0.9 if not planted else 0.35)
            value = rng.binomial(4, known) / 4
            made = ClozeOutcome(f"P{part}", str(at), OBJECTS, value, None, 0.1, f"s{at // 2}")
            own.append(made)
            other.append(made._replace(value=float(rng.random() < 0.4)))
    keys = [(ALL, OBJECTS)]
    tests = beside_baseline(own, other, keys, by_chance=False, seed=0)
    return _clear_rows([tests[key] for key in keys], planted)


def _depth(rng: np.random.Generator, planted: bool) -> bool:
    """15 documents; model minus twin, tuned minus plain."""
    positions = rng.integers(5, 30, 15).astype(float)
    mean = rng.normal(0, 0.8, (15, 2)) + np.array([0.95 * planted, 0.0])
    tests = depth_contrasts(mean * positions[:, None], positions)
    return _clear(tests, NEGLIGIBLE_LAYERS, 0 if planted else None)


def _gain(rng: np.random.Generator, planted: bool) -> bool:
    """15 documents, 11 inner layers that go together."""
    positions = rng.integers(5, 30, 15).astype(float)
    mean = 0.3 * rng.normal(0, 1, (15, 1)) + 0.3 * rng.normal(0, 1, (15, 11))
    mean[:, 4] -= 0.6 * planted
    return _clear(tuned_gain(mean * positions[:, None], positions), NEGLIGIBLE_NATS, 4 if planted else None)


def _layers_of_pairs(rng: np.random.Generator, planted: bool) -> bool:
    """6 paradigms of 10 pairs, 12 layers; verdicts of neighbouring layers are alike."""
    luck = np.cumsum(rng.normal(0, 1, (60, 12)), axis=1) / np.sqrt(np.arange(1, 13))
    right = np.where(luck + np.where(np.arange(12) == 11, 0.66 * planted, 0) > 0, 0.5, -0.5)
    tests = above(right, [str(at // 10) for at in range(60)], ALL, most=0.5)
    return _clear(tests, NEGLIGIBLE, 11 if planted else None)


def _layers_of_answers(rng: np.random.Generator, planted: bool) -> bool:
    """4 parts of 15 clozes; 8 layers beside the embeddings."""
    easy = rng.random((60, 1))
    first_layer = 0.5 * easy + 0.5 * rng.random((60, 1)) < 0.4
    layers = 0.5 * easy + 0.5 * rng.random((60, 8)) < np.where(np.arange(8) == 7, 0.4 + 0.15 * planted, 0.4)
    tests = above(layers.astype(float) - first_layer, [str(at // 15) for at in range(60)], ALL)
    return _clear(tests, NEGLIGIBLE, 7 if planted else None)


def _later(rng: np.random.Generator, planted: bool) -> bool:
    """3 tasks, 30 documents of 20 words, 7 layers: gains of known and said grow to their best at layer 4, or later."""
    units = Units.of(_names(rng, 30), "document")
    weights = units.weights(samples=_SAMPLES, seed=0).astype(float)
    weights /= weights.sum(1, keepdims=True)
    layers = np.arange(7)
    estimates, draws = [], []
    for task in range(3):
        ends = (4.0, 4.0 + 1.9 * (planted and task == 0))
        documents = rng.normal(0, 0.06, (30, 1))
        found = []
        for end in ends:
            profile = 0.2 + 0.5 * np.clip(layers / end, 0, 1)
            values = profile + documents + rng.normal(0, 0.06, (30, 7))
            curve = LayerCurve(values.mean(0), weights @ values)
            found.append(first(curve, LayerCurve(np.array([0.2]), np.full((_SAMPLES, 1), 0.2)), sure=True))
        known, told = found
        assert known.places is not None
        assert told.places is not None
        estimates.append(told.place - known.place)
        draws.append(told.places - known.places)
    tests = later_family(np.array(estimates), np.column_stack(draws), np.full(3, 30))
    return _clear(tests, SAME_LAYER, 0 if planted else None)


def _known(rng: np.random.Generator, planted: bool) -> bool:
    """15 documents of 5 to 30 words, 7 layers, known and said."""
    words = rng.integers(5, 30, 15).astype(float)
    mean = 0.1 * rng.normal(0, 1, (15, 2, 1)) + 0.1 * rng.normal(0, 1, (15, 2, 7))
    mean[:, 0, 5] += 0.18 * planted
    return _clear(gains(mean * words[:, None, None], words), 0.0, 5 if planted else None)


def _perturbed(rng: np.random.Generator, effect: float, *, chance: float | None = None) -> list[PerturbedItems]:
    """6 perturbations of 60 pairs, or texts of 15 documents: what they score, with and without."""
    names = tuple(map(str, range(60)))
    units = tuple(f"d{at // 4}" for at in range(60))
    counts = rng.integers(5, 30, 60).astype(float)
    documents = np.repeat(rng.normal(0, 0.25, 15), 4)
    base = 4 + documents + rng.normal(0, 0.5, 60)
    made = []
    for at in range(6):
        own = base + np.repeat(rng.normal(0, 0.2, 15), 4) + rng.normal(0, 0.4, 60) + effect * (at == 2)
        items = PerturbedItems(
            "loss", Perturbation("shuffled", at), names, units, own * counts, counts, base * counts, counts
        )
        if chance is not None:
            right = rng.random(60) < chance + effect * (at == 2)
            before = rng.random(60) < 0.9
            one = np.ones(60)
            items = PerturbedItems(
                "pairs", Perturbation("shuffled", at), names, names, right * one, one, before * one, one, chance=chance
            )
        made.append(items)
    return made


def _changes(rng: np.random.Generator, planted: bool) -> bool:
    return _clear(changes(_perturbed(rng, 0.34 * planted)), 0.05, 2 if planted else None)


def _left(rng: np.random.Generator, planted: bool) -> bool:
    return _clear(above_chance(_perturbed(rng, 0.25 * planted, chance=0.5)), NEGLIGIBLE, 2 if planted else None)


def _beyond_twin(rng: np.random.Generator, planted: bool) -> bool:
    tests = beyond(_perturbed(rng, 0.48 * planted), _perturbed(rng, 0.0))
    return _clear(tests, 0.05, 2 if planted else None)


SIMULATIONS = [
    Simulation("surprisal", "bits beside baselines", _bits),
    Simulation("surprisal", "correlations beside baselines", _correlations),
    Simulation("pairs", "the suite beside chance", _suite),
    Simulation("pairs", "paradigms beside chance", _paradigms),
    Simulation("pairs", "terms beside each other", _terms),
    Simulation("pairs", "terms beside a baseline", _baselines),
    Simulation("cloze", "parts beside chance", _diagnostics),
    Simulation("cloze", "negative beside affirmative contexts", _negations),
    Simulation("cloze", "facts beside the most frequent object", _facts),
    Simulation("lens", "depth beside twin and plain lens", _depth),
    Simulation("lens", "tuned beside plain, by layer", _gain),
    Simulation("lens", "pairs beside chance, by layer", _layers_of_pairs),
    Simulation("lens", "answers beside the embeddings, by layer", _layers_of_answers),
    Simulation("probe_vs_lens", "lens later than probe", _later),
    Simulation("probe_vs_lens", "probe or lens at any layer", _known),
    Simulation("perturb", "change by perturbation", _changes),
    Simulation("perturb", "above chance when perturbed", _left),
    Simulation("perturb", "change beside the twin's", _beyond_twin),
]
