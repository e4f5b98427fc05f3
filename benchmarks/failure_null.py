"""Do the tests and intervals of `phases` hold where questions share documents? Simulated, through the real code.

Right and wrong answers, confidence and vectors all depend on the document, and vectors on the confidence; beyond that
vectors say nothing. A test at 5 % should then find something in 5 % of the data sets. Intervals of means over questions
should hold the truth in 95 %, whether there are many documents or few, one fine-tuning seed or five.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from scipy.special import expit

from benchmarks.bars import Bar
from lamina.analyses.answering.failure import AnswerCases, FailurePredictor
from lamina.stats.bootstrap import StreamedBootstrap
from lamina.stats.family import permutation_family
from lamina.stats.intervals import widened_intervals
from lamina.stats.seeds import draws_over_seeds

DRAWS = 1000
"""Simulated data sets."""
SAMPLES = 199
"""Draws of each test."""
COVERED = 400
"""Simulated data sets for each interval."""
LEVEL = 0.05
LOWEST, HIGHEST = 0.035, 0.065
"""What 1,000 data sets may give: a rate of .05 lies within .036 and .064 in 19 of 20 cases."""


class World(NamedTuple):
    """Where data sets come from."""

    documents: int = 30
    questions: float = 10.0
    """Per document, on average."""
    features: int = 48
    failing: float = 1.0
    """Deviation of a document's effect on the log-odds of failing."""
    alike: float = 1.0
    """Deviation of a document's effect on its vectors; that of a question is 1."""
    confident: bool = True
    """Whether the confidence tells of failures, as the tests of a gain need it, or nothing does."""


def simulate(world: World, seed: int) -> AnswerCases:
    """One data set in which vectors say no more than the confidence does.

    Example:
        >>> simulate(World(documents=4), 0).vectors.shape[1:]
        (1, 48)
    """
    draw = np.random.default_rng(seed)
    documents = np.repeat(np.arange(world.documents), 1 + draw.poisson(world.questions - 1, world.documents))
    size = len(documents)
    sure = draw.normal(size=size) + 0.5 * draw.normal(size=world.documents)[documents]
    hard = world.failing * draw.normal(size=world.documents)[documents]
    wrong = draw.random(size) < expit(-0.3 + hard - sure * world.confident)
    vectors = draw.normal(size=(size, world.features))
    vectors += world.alike * draw.normal(size=(world.documents, world.features))[documents]
    # Vectors know the confidence: where it tells of failures, only the test of a gain has nothing to find.
    vectors += 0.3 * sure[:, None] * draw.normal(size=world.features)
    return AnswerCases(vectors[:, None], wrong, documents, expit(sure), np.ones(size))


def p_values(world: World, draws: int, *, samples: int = SAMPLES, first: int = 0) -> np.ndarray:
    """[data set, 2] `p` where nothing tells of failures, and `p_gain` where the confidence does."""
    found = []
    for seed in range(first, first + draws):
        judged = []
        for confident in (False, True):
            cases = simulate(world._replace(confident=confident), seed)
            predictor = FailurePredictor(cases, samples=samples, seed=seed)
            # A data set without failures, or without documents to tell apart, is not tested.
            judged.append(predictor.judge(cases.vectors[:, 0]) if predictor.possible else None)
        if all(each is not None for each in judged):
            found.append((p_of(judged[0].alone), p_of(judged[1].added)))
    return np.array(found)


def p_of(statistics: np.ndarray) -> float:
    """One-sided, of one layer; the first statistic is the one observed."""
    return float(permutation_family(statistics[:1], statistics[1:, None])[0])


def covered(documents: int, seeds: int, draws: int, *, samples: int = 300) -> float:
    """The share of simulated data sets whose interval holds the true mean, 0."""
    inside = 0
    for seed in range(draws):
        draw = np.random.default_rng(seed)
        alike, sizes = draw.normal(size=documents), 1 + draw.poisson(9, documents)
        questions = [alike[at] + draw.normal(size=size) for at, size in enumerate(sizes)]
        values, drawn = [], []
        for shift in draw.normal(scale=0.5, size=seeds) if seeds > 1 else (0.0,):
            sums = StreamedBootstrap(2, samples=samples, seed=seed)
            for at, own in enumerate(questions):
                measured = own + shift + draw.normal(scale=0.5, size=len(own))
                sums.add(np.array([measured.sum(), len(own)]), str(at))
            with np.errstate(invalid="ignore"):
                drawn.append(sums.samples[:, 0] / sums.samples[:, 1])
            values.append(sums.value[0] / sums.value[1])
        by_seed = np.array(values), np.array(drawn)
        low, high = widened_intervals(np.array(np.mean(values)), draws_over_seeds(*by_seed), documents)
        inside += bool(low <= 0 <= high)
    return inside / draws


def bars() -> Iterator[Bar]:
    """The rates of p < .05 in 1,000 data sets, for both columns."""
    for name, world in {"30 articles": World(), "8 articles": World(documents=8, questions=40.0)}.items():
        rates = (p_values(world, DRAWS) < LEVEL).mean(0)
        for column, rate in zip(("p", "p_gain"), rates, strict=True):
            what = f"failure.csv: rate of {column} < .05 under a clustered null, {name}"
            yield Bar(f"{what}, at least {LOWEST}", float(rate), LOWEST, at_least=True)
            yield Bar(f"{what}, at most {HIGHEST}", float(rate), HIGHEST, at_least=False)
    for documents, seeds in ((4, 1), (8, 1), (30, 1), (8, 5), (30, 5)):
        what = f"phases.csv: 95 % intervals that hold the truth, {documents} documents, {seeds} seed{'s' * (seeds > 1)}"
        yield Bar(what, covered(documents, seeds, COVERED), 0.92, at_least=True)
