"""What `grow` says: whether an ability is above the untrained model at the end, and which of two is first."""

from __future__ import annotations

import numpy as np

from benchmarks.claims import Simulation
from lamina.comparison.trajectories import SETTLING, Measurement, Quantity, bottom_up, grown, orders
from lamina.stats import status_of, widening

STEPS = (0, 10, 20, 40, 80, 160)
DOCUMENTS, SAMPLES, NOISE = 40, 500, 0.25


def _measurement(rng: np.random.Generator, truth: np.ndarray, weights: np.ndarray, noise: float) -> Measurement:
    """Documents of their own ease, and beside it their own luck at every checkpoint."""
    ease = rng.normal(0, noise, (DOCUMENTS, 1))
    values = truth[None] + ease + rng.normal(0, noise, (DOCUMENTS, len(truth)))
    mean = values.mean(0)
    return Measurement(mean, mean + (weights @ values - mean) * widening(DOCUMENTS), DOCUMENTS)


def _weights(rng: np.random.Generator) -> np.ndarray:
    return rng.multinomial(DOCUMENTS, np.full(DOCUMENTS, 1 / DOCUMENTS), SAMPLES) / DOCUMENTS


def _quantity(task: str, layer: int | None = None) -> Quantity:
    return Quantity("simulated", task, layer, "accuracy", True, np.nan, 0.02)


def beginnings(rng: np.random.Generator, planted: bool) -> bool:
    """Four abilities of the whole model; planted, one of them begins at the third checkpoint."""
    weights, training = _weights(rng), {}
    for task in ("a", "b", "c", "d"):
        size = 0.25 * (planted and task == "a")
        truth = 0.3 + size * (np.arange(len(STEPS)) >= 3)
        training[_quantity(task)] = _measurement(rng, truth, weights, NOISE)
    begun = [growth.onset.task for growth in grown("s", "all", STEPS, training) if np.isfinite(growth.onset.onset)]
    return "a" in begun if planted else bool(begun)


def first_of_two(rng: np.random.Generator, planted: bool) -> bool:
    """Three abilities that grow evenly; planted, one of them begins three doublings later."""
    weights, training = _weights(rng), {}
    places = np.log2(1 + np.array(STEPS, float))
    for task in ("a", "b", "c"):
        late = 3.0 * (planted and task == "c")
        truth = 0.2 + 0.6 * np.clip((places - late) / (places[-1] - late), 0, 1)
        training[_quantity(task)] = _measurement(rng, truth, weights, 0.12)
    rows = orders(grown("s", "all", STEPS, training))
    clear = [
        (row.task_a, row.task_b)
        for row in rows
        if status_of(row.low, row.high, row.p_adjusted, needed=row.needed, margin=0) == "clear"
    ]
    return ("a", "c") in clear if planted else bool(clear)


def settling(rng: np.random.Generator, planted: bool) -> bool:
    """Seven layers; planted, upper ones come to their end later."""
    weights, training = _weights(rng), {}
    for layer in range(7):
        middle = 1.5 + 0.35 * layer if planted else 2.5
        truth = 1 / (1 + np.exp(2 * (middle - np.arange(len(STEPS)))))
        quantity = Quantity(SETTLING, "likeness", layer, "CKA", False, np.nan, 0.02)
        training[quantity] = _measurement(rng, truth, weights, 0.2)
    upward = bottom_up(grown("s", "all", STEPS, training), seed=int(rng.integers(2**31)))
    return upward is not None and upward.test.p < 0.05 and (not planted or upward.test.estimate > 0)


SIMULATIONS = [
    Simulation("grow", "four abilities are above the untrained model at the end", beginnings),
    Simulation("grow", "three abilities: one grows before another", first_of_two),
    Simulation("grow", "lower layers settle before upper ones", settling),
]
