"""What a model is fine-tuned to do: from texts to labelled rows, from outputs to answers, from answers to scores."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from torch import Tensor

from lamina.corpora.questions import Question
from lamina.encoders.pieces import Pieces
from lamina.stats.seeds import draws_over_seeds
from lamina.types import Text

if TYPE_CHECKING:
    import pandas


Item = Text | Question
"""What a data set is made of; questions keep their raw context beside the text."""

Batch = dict[str, Tensor]
"""What a model is called with."""

IGNORED = -100
"""The label that torch's loss ignores."""


class Row(NamedTuple):
    """One row of a batch: a text, a part of it, or a window."""

    item: int
    """The number of the text or question it belongs to."""
    ids: np.ndarray
    types: np.ndarray
    """[token] Token types; 1 in a second segment, where the model knows types."""
    words: np.ndarray
    """[token] The word of each token; SPECIAL for special tokens."""
    labels: Any = None
    """What is to be learned, in the objective's form."""
    places: Any = None
    """Where an answer may be, in the objective's form; found once, and not with every evaluation."""


class Sum(NamedTuple):
    """One text's part of a score: scores are ratios of sums, so that texts can be resampled."""

    top: float
    bottom: float
    judged: int = 1
    """How many things it is about."""


class Outcome(NamedTuple):
    """How one text was done."""

    unit: str
    """What is resampled as a whole: the article, document or story."""
    sums: Mapping[str, Sum]
    """Metric -> this text's part of it."""
    task: str = ""


class Objective(ABC):
    """What to learn, and how it is scored."""

    head: ClassVar[str]
    """The class with the head, as in transformers' `AutoModelFor...`."""
    metric: str
    """For choosing among checkpoints."""
    greater: bool = True
    """Whether higher is better."""
    labels: tuple[str, ...] = ()
    """The classes of the head, where it has classes."""

    def __init__(self, pieces: Pieces, length: int) -> None:
        self.pieces = pieces
        self.length = length
        self.noted: Counter[str] = Counter()
        """What was cut or left out -> how often."""

    @abstractmethod
    def rows(self, number: int, item: Item) -> list[Row]:
        """The labelled rows of a text."""

    @abstractmethod
    def label(self, batch: Batch, rows: Sequence[Row]) -> Batch:
        """The batch with its labels."""

    @abstractmethod
    def read(self, rows: Sequence[Row], outputs: Mapping[str, Tensor], batch: Mapping[str, Tensor]) -> list[Any]:
        """What the model answers for each row of a batch, from its logits; they leave the device in one copy."""

    @abstractmethod
    def judge(self, item: Item, said: Sequence[Any]) -> Outcome:
        """Score what was read from all rows of a text."""

    @abstractmethod
    def guess(self, train: Sequence[Item], scored: Sequence[Item]) -> Iterable[Outcome]:
        """How each scored text would be done by always answering what is most frequent in training."""

    def baseline(self, train: Sequence[Item], scored: Sequence[Item]) -> dict[str, float]:
        """The scores of that constant answer, which never looks at the text."""
        noted = Counter(self.noted)
        found = means(list(self.guess(train, scored)))
        self.noted = noted
        return found

    def cut(self, number: int, text: Text, labels: Any = None) -> Row:
        """The whole text as one row; a text longer than `length` loses the end of its last segment."""
        tokens, types, _, tail = self.pieces(text)
        size = len(tokens.ids)
        keep = np.arange(size)
        if size > self.length:
            self.noted[f"texts cut to {self.length} pieces"] += 1
            keep = np.r_[0 : self.length - tail, size - tail : size]
        return Row(number, tokens.ids[keep], np.array(types, np.int8)[keep], tokens.words[keep], labels)


def text_of(item: Item) -> Text:
    """The words of a text or question."""
    return item.text if isinstance(item, Question) else item


def unit_of(text: Text) -> str:
    """What is never cut in two: the document, or the text itself where none is known."""
    return text.doc or text.id


UNSEEN = "labels unseen in training (scored as errors)"
"""Noted when texts are judged."""
SAMPLES = 1000
ALL = "all"
"""The task of scores over all tasks together."""


Line = tuple[str, str, str, int, int, float, float, float]
COLUMNS = ("split", "task", "metric", "count", "seeds", "value", "low", "high")
"""Of `scores.csv`."""


def means(outcomes: Sequence[Outcome]) -> dict[str, float]:
    """Each metric over all texts.

    Example:
        >>> from lamina.training.objective import Sum
        >>> means([Outcome("a", {"f1": Sum(1, 1)}), Outcome("b", {"f1": Sum(0, 1)})])
        {'f1': 0.5}
    """
    metrics = outcomes[0].sums if outcomes else {}
    return {metric: _ratio(*_totals(outcomes, metric)) for metric in metrics}


def score_table(split: str, *by_seed: Sequence[Outcome], seed: int, samples: int = SAMPLES) -> pandas.DataFrame:
    """Every metric with its 95 % interval over resampled documents, over all tasks and per task.

    The same texts may be given as several models did them, one per seed: their mean, with the interval of `over_seeds`.
    """
    import pandas as pd

    tasks = sorted({each.task for each in by_seed[0] if each.task}, key=lambda name: (len(name), name))
    rows = list(_scores(split, ALL, by_seed, seed, samples))
    for task in tasks:
        own = [[each for each in outcomes if each.task == task] for outcomes in by_seed]
        rows += _scores(split, task, own, seed, samples)
    return pd.DataFrame(rows, columns=list(COLUMNS))


def _scores(split: str, task: str, by_seed: Sequence[Sequence[Outcome]], seed: int, samples: int) -> Iterator[Line]:
    for metric in by_seed[0][0].sums:
        found = over_seeds([drawn_score(each, metric, seed=seed, samples=samples) for each in by_seed])
        yield split, task, metric, found.count, len(by_seed), found.value, *found.interval


@dataclass(frozen=True, eq=False)
class Score:
    """One metric over all texts, with draws for its interval."""

    count: int
    """How many things were scored."""
    value: float
    draws: np.ndarray
    """[sample] Over documents drawn with replacement; the same draws for all scores of the same texts and seed."""

    @property
    def interval(self) -> tuple[float, float]:
        """95 %; not available where no draw has a value."""
        real = self.draws[np.isfinite(self.draws)]
        low, high = np.quantile(real, [0.025, 0.975]) if len(real) else (np.nan, np.nan)
        return float(low), float(high)

    def minus(self, other: Score) -> Score:
        """The difference from another score of the same texts, draw by draw."""
        return Score(self.count, self.value - other.value, self.draws - other.draws)


def drawn_score(outcomes: Sequence[Outcome], metric: str, *, seed: int, samples: int = SAMPLES) -> Score:
    """One metric over all texts.

    Example:
        >>> score = drawn_score([Outcome("a", {"f1": Sum(1, 1)}), Outcome("b", {"f1": Sum(0, 1)})], "f1", seed=0)
        >>> score.value, score.interval
        (0.5, (0.0, 1.0))
        >>> drawn_score([Outcome("a", {"f1": Sum(1, 2)})], "f1", seed=0).interval
        (nan, nan)
    """
    units = {unit: number for number, unit in enumerate(dict.fromkeys(each.unit for each in outcomes))}
    draw = np.random.default_rng(seed)
    weights = draw.multinomial(len(units), np.full(len(units), 1 / len(units)), size=samples)
    sums = np.zeros((len(units), 2))
    for each in outcomes:
        sums[units[each.unit]] += each.sums[metric][:2]
    drawn = weights @ sums
    # One document says nothing about others.
    told = (drawn[:, 1] > 0) & (len(units) > 1)
    values = np.divide(drawn[:, 0], drawn[:, 1], out=np.full(samples, np.nan), where=told)
    count = sum(each.sums[metric].judged for each in outcomes)
    return Score(count, _ratio(*_totals(outcomes, metric)), values)


def over_seeds(scores: Sequence[Score]) -> Score:
    """The mean over models of several seeds, with the draws of `draws_over_seeds`."""
    values, drawn = np.array([each.value for each in scores]), np.stack([each.draws for each in scores])
    draws = draws_over_seeds(values, drawn)
    if not np.any(drawn > 1):
        # A share has bounds, which Student's t does not know; a loss has none.
        draws = draws.clip(0, 1)
    return Score(scores[0].count, float(values.mean()), draws)


SEED_COLUMNS = ("seed", "metric", "count", "value", "low", "high")
"""Of `seeds.csv`."""


def seed_table(by_seed: Mapping[int, Sequence[Outcome]], *, seed: int, samples: int = SAMPLES) -> pandas.DataFrame:
    """Every metric by seed, and `all`: their mean."""
    import pandas as pd

    rows = []
    for metric in next(iter(by_seed.values()))[0].sums:
        own = {str(at): drawn_score(said, metric, seed=seed, samples=samples) for at, said in by_seed.items()}
        own[ALL] = over_seeds(list(own.values()))
        rows += [(at, metric, score.count, score.value, *score.interval) for at, score in own.items()]
    return pd.DataFrame(rows, columns=list(SEED_COLUMNS))


def _totals(outcomes: Iterable[Outcome], metric: str) -> tuple[float, float]:
    pairs = [each.sums[metric][:2] for each in outcomes]
    return sum(top for top, _ in pairs), sum(bottom for _, bottom in pairs)


def _ratio(top: float, bottom: float) -> float:
    return float(top / bottom) if bottom else 0.0
