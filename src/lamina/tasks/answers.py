"""Exact match and F1 of answers, by the official definition of SQuAD v1.1.

Both sides are put into small letters, stripped of punctuation and of the articles a, an and the, and split at white
space; the score of a prediction is the best over all accepted answers.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from lamina.errors import TaskError

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)


class Scores(NamedTuple):
    """How well an answer matches, both between 0 and 1."""

    exact: float
    f1: float


def normalise(answer: str) -> str:
    """What counts of an answer: small letters without punctuation, articles and extra white space.

    Example:
        >>> normalise("The  Denver-Broncos, 24–10!")
        'denverbroncos 24–10'
    """
    return " ".join(_ARTICLES.sub(" ", answer.lower().translate(_PUNCTUATION)).split())


def exact_match(prediction: str, answer: str) -> float:
    """1 where the two are the same once normalised, else 0.

    Example:
        >>> exact_match("the Broncos.", "Broncos"), exact_match("Denver Broncos", "Broncos")
        (1.0, 0.0)
    """
    return float(normalise(prediction) == normalise(answer))


def f1(prediction: str, answer: str) -> float:
    """The harmonic mean of precision and recall over their words, each counted as often as it occurs.

    Example:
        >>> round(f1("the Denver Broncos", "Broncos"), 3)
        0.667
    """
    said, asked = normalise(prediction).split(), normalise(answer).split()
    shared = sum((Counter(said) & Counter(asked)).values())
    return 2 * shared / (len(said) + len(asked)) if shared else 0.0


def best(prediction: str, answers: Iterable[str]) -> Scores:
    """The best exact match and the best F1 over the accepted answers, each by itself.

    Example:
        >>> best("Santa Clara", ["Santa Clara, California", "in Santa Clara"])
        Scores(exact=0.0, f1=0.8)
    """
    accepted = list(answers)
    if not accepted:
        raise TaskError("an answer cannot be scored against no accepted answer; leave such questions out")
    return Scores(
        max(exact_match(prediction, answer) for answer in accepted), max(f1(prediction, answer) for answer in accepted)
    )
