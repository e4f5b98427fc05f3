"""What a model is fine-tuned to do: from texts to labelled rows, from outputs to answers, from answers to scores."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor

from lamina.corpora.questions.question import Question
from lamina.errors import ModelError
from lamina.models.contract import SPECIAL
from lamina.models.running.tokens import WordTokenizer, token_id
from lamina.stats.bootstrap import ratio_draws
from lamina.stats.family import Contrasts, bootstrap_family, ratio_differences, sign_flip_family
from lamina.stats.intervals import interval
from lamina.stats.seeds import ENOUGH_SEEDS, draws_over_seeds, seed_spread
from lamina.stats.units import UnitKind, Units
from lamina.types import Text

if TYPE_CHECKING:
    import pandas
    from transformers import PreTrainedTokenizerFast


Item = Text | Question
"""What a data set is made of; questions keep their raw context beside the text."""

Batch = dict[str, Tensor]
"""What a model is called with."""

IGNORED = -100
"""The label that torch's loss ignores."""


class TrainingRow(NamedTuple):
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


class TextOutcome(NamedTuple):
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

    def __init__(self, word_tokenizer: WordTokenizer, length: int) -> None:
        self.word_tokenizer = word_tokenizer
        self.length = length
        self.noted: Counter[str] = Counter()
        """What was cut or left out -> how often."""

    @abstractmethod
    def rows(self, number: int, item: Item) -> list[TrainingRow]:
        """The labelled rows of a text."""

    @abstractmethod
    def label(self, batch: Batch, rows: Sequence[TrainingRow]) -> Batch:
        """The batch with its labels."""

    @abstractmethod
    def read(
        self, rows: Sequence[TrainingRow], outputs: Mapping[str, Tensor], batch: Mapping[str, Tensor]
    ) -> list[Any]:
        """What the model answers for each row of a batch, from its logits; they leave the device in one copy."""

    @abstractmethod
    def judge(self, item: Item, predictions: Sequence[Any]) -> TextOutcome:
        """Score what was read from all rows of a text."""

    @abstractmethod
    def guess(self, train: Sequence[Item], scored: Sequence[Item]) -> Iterable[TextOutcome]:
        """How each scored text would be done by always answering what is most frequent in training."""

    def constant(self, train: Sequence[Item], scored: Sequence[Item]) -> list[TextOutcome]:
        """How that constant answer, which never looks at the text, does on each; nothing is noted of it."""
        noted = Counter(self.noted)
        outcomes = list(self.guess(train, scored))
        self.noted = noted
        return outcomes

    def baseline(self, train: Sequence[Item], scored: Sequence[Item]) -> dict[str, float]:
        """The scores of the constant answer."""
        return means(self.constant(train, scored))

    def cut(self, number: int, text: Text, labels: Any = None) -> TrainingRow:
        """The whole text as one row; a text longer than `length` loses the end of its last segment."""
        tokens, types, _, tail = self.word_tokenizer(text)
        size = len(tokens.ids)
        keep = np.arange(size)
        if size > self.length:
            self.noted[f"texts cut to {self.length} tokens"] += 1
            keep = np.r_[0 : self.length - tail, size - tail : size]
        return TrainingRow(number, tokens.ids[keep], np.array(types, np.int8)[keep], tokens.words[keep], labels)


def text_of(item: Item) -> Text:
    """The words of a text or question."""
    return item.text if isinstance(item, Question) else item


def unit_of(text: Text) -> str:
    """What is never cut in two: the document, or the text itself where none is known."""
    return text.doc or text.id


def unit_kind(items: Iterable[Item]) -> UnitKind:
    """What `unit_of` names: documents where any is known."""
    return "document" if any(text_of(item).doc for item in items) else "text"


UNSEEN = "labels unseen in training (scored as errors)"
"""Noted when texts are judged."""
SAMPLES = 1000
ALL = "all"
"""The task of scores over all tasks together."""


Line = tuple[str, str, str, int, int, float, float, float]
COLUMNS = ("split", "task", "metric", "count", "seeds", "value", "low", "high")
"""Of `scores.csv`."""


def means(outcomes: Sequence[TextOutcome]) -> dict[str, float]:
    """Each metric over all texts.

    Example:
        >>> from lamina.training.objective import Sum
        >>> means([TextOutcome("a", {"f1": Sum(1, 1)}), TextOutcome("b", {"f1": Sum(0, 1)})])
        {'f1': 0.5}
    """
    metrics = outcomes[0].sums if outcomes else {}
    return {metric: _ratio(*_totals(outcomes, metric)) for metric in metrics}


def score_table(split: str, *by_seed: Sequence[TextOutcome], seed: int, samples: int = SAMPLES) -> pandas.DataFrame:
    """Every metric with its 95 % interval over resampled documents, over all tasks and per task.

    The same texts may be given as several models did them, one per seed: their mean, with the interval of `over_seeds`
    (with fewer than `ENOUGH_SEEDS` over documents alone: it holds for these models).
    """
    import pandas as pd

    tasks = sorted({outcome.task for outcome in by_seed[0] if outcome.task}, key=lambda name: (len(name), name))
    rows = list(_scores(split, ALL, by_seed, seed, samples))
    for task in tasks:
        task_outcomes = [[outcome for outcome in outcomes if outcome.task == task] for outcomes in by_seed]
        rows += _scores(split, task, task_outcomes, seed, samples)
    return pd.DataFrame(rows, columns=list(COLUMNS))


def _scores(split: str, task: str, by_seed: Sequence[Sequence[TextOutcome]], seed: int, samples: int) -> Iterator[Line]:
    for metric in by_seed[0][0].sums:
        score = over_seeds([drawn_score(outcomes, metric, seed=seed, samples=samples) for outcomes in by_seed])
        yield split, task, metric, score.count, len(by_seed), score.value, *score.interval


@dataclass(frozen=True, eq=False)
class MetricScore:
    """One metric over all texts, with draws for its interval."""

    count: int
    """How many things were scored."""
    value: float
    draws: np.ndarray
    """[sample] Over resampled documents; the same draws for all scores of the same texts and seed."""

    @property
    def interval(self) -> tuple[float, float]:
        """95 %; not available where no draw has a value."""
        return interval(self.draws)


def drawn_score(outcomes: Sequence[TextOutcome], metric: str, *, seed: int, samples: int = SAMPLES) -> MetricScore:
    """One metric over all texts.

    Example:
        >>> made = [TextOutcome(name, {"f1": Sum(float(name > "c"), 1)}) for name in "abcdef"]
        >>> score = drawn_score(made, "f1", seed=0)
        >>> score.value, score.interval[0] < 0.5 < score.interval[1]
        (0.5, True)
        >>> drawn_score([TextOutcome("a", {"f1": Sum(1, 2)})], "f1", seed=0).interval
        (nan, nan)
    """
    units = Units.of((outcome.unit for outcome in outcomes), "document")
    sums = units.sums(np.array([outcome.sums[metric][:2] for outcome in outcomes], float).reshape(-1, 2))
    # One document says nothing about others.
    several = len(units) > 1
    drawn = ratio_draws(sums[:, 0], sums[:, 1], units, samples=samples, seed=seed) if several else None
    count = sum(outcome.sums[metric].judged for outcome in outcomes)
    return MetricScore(count, _ratio(*_totals(outcomes, metric)), np.full(samples, np.nan) if drawn is None else drawn)


def over_seeds(scores: Sequence[MetricScore]) -> MetricScore:
    """The mean over models of several seeds, with the draws of `draws_over_seeds`."""
    values, drawn = np.array([score.value for score in scores]), np.stack([score.draws for score in scores])
    draws = draws_over_seeds(values, drawn)
    if not np.any(drawn > 1):
        # A share has bounds, which Student's t does not know; a loss has none.
        draws = draws.clip(0, 1)
    return MetricScore(scores[0].count, float(values.mean()), draws)


Runs = Sequence[Sequence[TextOutcome]]
"""How every scored text was done, by each model of one kind: one per seed."""


def score_contrasts(pairs: Sequence[tuple[Runs, Runs]], metric: str, *, seed: int, samples: int = SAMPLES) -> Contrasts:
    """How much each first model scores above the second, paired by document; all pairs are one family, two-sided.

    Signs of documents are flipped. From `ENOUGH_SEEDS` models on these vary too, and documents are resampled; with
    fewer the contrast is that of the mean of these very models.

    Args:
        pairs: how both did the same texts; one run of either side is compared with all runs of the other.
        metric: what is compared.
        seed: of the resampling.
        samples: how often documents are resampled.

    Example:
        >>> def runs(*hits): return [[TextOutcome(f"d{at}", {"f1": Sum(hit, 1)}) for at, hit in enumerate(hits)]]
        >>> found = score_contrasts([(runs(1, 1, 1, 1, 1, 1, 0), runs(0, 0, 0, 0, 0, 0, 0))], "f1", seed=0)
        >>> found.estimate.round(2).item(), found.p.round(3).item()
        (0.86, 0.031)
    """
    units = Units.of((entry.unit for pair in pairs for runs in pair for entry in runs[0]), "document")
    sides = [_sides(pair, metric, units.names) for pair in pairs]
    tops, bottoms = ([entry[..., part] for entry in sides] for part in (0, 1))
    shares = all((top <= bottom).all() for top, bottom in zip(tops, bottoms, strict=True))
    bounds = (-1.0, 1.0) if shares else (-np.inf, np.inf)
    if max(map(len, sides)) < ENOUGH_SEEDS:
        # [member, (ahead, counts), unit], the mean over runs.
        apart = [np.mean([ratio_differences(*run.swapaxes(1, 2)) for run in entry], axis=0) for entry in sides]
        ahead, counts = np.array(apart).transpose(1, 2, 0)
        return sign_flip_family(ahead, counts, bounds=bounds, seed=seed)
    values, drawn = zip(*(_apart(entry, units, seed, samples) for entry in sides), strict=True)
    present = np.array([(entry > 0).any((0, 1)).sum() for entry in bottoms], float)
    contrasts = bootstrap_family(np.array(values), np.stack(drawn, 1), present, bounds=bounds)
    # Two models that do every document alike differ by nothing, however documents are drawn.
    same = np.array([np.array_equal(entry[:, 0], entry[:, 1]) for entry in sides]) & (contrasts.needed == 0)
    low, high = (np.where(same, 0.0, ends) for ends in (contrasts.low, contrasts.high))
    return contrasts._replace(low=low, high=high, p=np.where(same, 1.0, contrasts.p))


def _sides(pair: tuple[Runs, Runs], metric: str, names: Sequence[str]) -> np.ndarray:
    """[run, side, unit, (top, bottom)] Sums by unit; a single run stands beside every one of the other side."""
    place = {name: number for number, name in enumerate(names)}
    many = max(map(len, pair))
    sums = np.zeros((many, 2, len(names), 2))
    for side, runs in enumerate(pair):
        for run in range(many):
            for outcome in runs[run % len(runs)]:
                sums[run, side, place[outcome.unit]] += outcome.sums[metric][:2]
    return sums


def _apart(sums: np.ndarray, units: Units, seed: int, samples: int) -> tuple[float, np.ndarray]:
    """The difference of two scores, as a mean over runs, and its draws."""
    totals = sums.sum(2)
    values = np.divide(totals[..., 0], totals[..., 1], out=np.zeros(totals.shape[:2]), where=totals[..., 1] > 0)
    one, other = (
        np.stack([ratio_draws(run[:, 0], run[:, 1], units, samples=samples, seed=seed) for run in sums[:, side]])
        for side in (0, 1)
    )
    differences = values[:, 0] - values[:, 1]
    return float(differences.mean()), draws_over_seeds(differences, one - other)


CONTRASTS = (
    "task", "family", "metric", "count", "value", "against", "difference", "low", "high", "p_adjusted", "units",
    "needed", "unit",
)  # fmt: skip
"""Of `contrasts.csv`."""


def contrast_table(
    runs: Runs, against: Sequence[TextOutcome], unit: UnitKind, *, seed: int, samples: int = SAMPLES
) -> pandas.DataFrame:
    """Every metric of a model minus that of another answer to the same texts, over all tasks and per task.

    Over all tasks it is a family of one; the tasks of a metric are a family.
    """
    import pandas as pd

    tasks = sorted({outcome.task for outcome in runs[0] if outcome.task}, key=lambda name: (len(name), name))

    def outcomes_of(side: Runs, task: str) -> Runs:
        return [[outcome for outcome in run if outcome.task == task] for run in side]

    named: dict[str, tuple[Runs, Runs]] = {ALL: (runs, [against])}
    named |= {task: (outcomes_of(runs, task), outcomes_of([against], task)) for task in tasks}
    rows = []
    for metric in runs[0][0].sums:
        for kind, family in ((ALL, [ALL]), ("task", tasks)):
            if not family:
                continue
            contrasts = score_contrasts([named[task] for task in family], metric, seed=seed, samples=samples)
            for task, difference, *ends in zip(family, *contrasts, strict=True):
                mine, other = named[task]
                value = float(np.mean([_ratio(*_totals(run, metric)) for run in mine]))
                count = sum(outcome.sums[metric].judged for outcome in mine[0])
                beside = _ratio(*_totals(other[0], metric))
                rows.append((task, kind, metric, count, value, beside, difference, *ends, unit))
    return pd.DataFrame(rows, columns=list(CONTRASTS))


SEED_COLUMNS = ("seed", "metric", "count", "value", "low", "high")
"""Of `seeds.csv`."""


SPREAD_COLUMNS = ("varied", "metric", "seeds", "mean", "sd", "low", "high")
"""Of `spread.csv`."""


def spread_table(table: pandas.DataFrame, vary: str) -> pandas.DataFrame:
    """How far models of several seeds differ, by what the seeds varied; from rows of `seed_table`."""
    import pandas

    single = table[table["seed"].astype(str) != ALL]
    rows = [
        (vary, metric, len(group), float(group["value"].mean()), *seed_spread(group["value"].to_numpy(float)))
        for metric, group in single.groupby("metric", sort=False)
    ]
    return pandas.DataFrame(rows, columns=list(SPREAD_COLUMNS))


def seed_table(by_seed: Mapping[int, Sequence[TextOutcome]], *, seed: int, samples: int = SAMPLES) -> pandas.DataFrame:
    """Every metric by seed, and `all`: their mean."""
    import pandas as pd

    rows = []
    for metric in next(iter(by_seed.values()))[0].sums:
        scores = {
            str(name): drawn_score(outcomes, metric, seed=seed, samples=samples) for name, outcomes in by_seed.items()
        }
        scores[ALL] = over_seeds(list(scores.values()))
        rows += [(name, metric, score.count, score.value, *score.interval) for name, score in scores.items()]
    return pd.DataFrame(rows, columns=list(SEED_COLUMNS))


def _totals(outcomes: Iterable[TextOutcome], metric: str) -> tuple[float, float]:
    pairs = [outcome.sums[metric][:2] for outcome in outcomes]
    return sum(top for top, _ in pairs), sum(bottom for _, bottom in pairs)


def _ratio(top: float, bottom: float) -> float:
    return float(top / bottom) if bottom else 0.0


SHARE = 0.15
"""Of the tokens, those to predict."""
_HIDDEN, _OTHER = 0.8, 0.1
"""Of those: replaced by the mask, by any token; the rest stays as it is (Devlin et al. 2019)."""


def hide(ids: Tensor, words: Tensor, mask: int, others: Tensor, seed: int) -> tuple[Tensor, Tensor]:
    """What the model sees of a batch, and the labels of what it has to predict.

    Args:
        ids: of the tokens.
        words: whether each is a token of a word, and may be hidden.
        mask: the id of the mask token.
        others: ids that may be put in place of a token.
        seed: with the ids, it says what is hidden.

    Example:
        >>> ids = torch.arange(5, 25)[None]
        >>> seen, labels = hide(ids, torch.ones_like(ids, dtype=torch.bool), 4, torch.tensor([30, 31]), seed=0)
        >>> bool((seen == ids)[labels == IGNORED].all()), int((labels != IGNORED).sum())
        (True, 2)
    """
    draw = torch.Generator().manual_seed(_seed_of(seed, ids))
    chosen = (torch.rand(ids.shape, generator=draw) < SHARE) & words
    if not chosen.any():
        # A loss over nothing is not a number.
        chosen.view(-1)[int(words.view(-1).int().argmax())] = True
    fate = torch.rand(ids.shape, generator=draw)
    other = others[torch.randint(len(others), ids.shape, generator=draw)]
    seen = torch.where(chosen & (fate < _HIDDEN), torch.full_like(ids, mask), ids)
    seen = torch.where(chosen & (fate >= _HIDDEN) & (fate < _HIDDEN + _OTHER), other.to(ids.dtype), seen)
    return seen, torch.where(chosen, ids, torch.full_like(ids, IGNORED))


class MaskedObjective(Objective):
    """Loss (nats per hidden token) and accuracy on hidden tokens."""

    head = "MaskedLM"
    metric = "loss"
    greater = False

    def __init__(
        self, word_tokenizer: WordTokenizer, length: int, tokenizer: PreTrainedTokenizerFast, seed: int
    ) -> None:
        super().__init__(word_tokenizer, length)
        mask = token_id(tokenizer.mask_token_id)
        if mask is None:
            raise ModelError("its tokenizer has no mask token, so there is no masked language model to train")
        self._mask = mask
        special = set(tokenizer.all_special_ids)
        self._others = torch.tensor([id for id in sorted(tokenizer.get_vocab().values()) if id not in special])
        self._seed = seed

    def rows(self, number: int, item: Item) -> list[TrainingRow]:
        """See `Objective.rows`; a longer text becomes several rows, nothing is cut away."""
        tokens, types, head, tail = self.word_tokenizer(text_of(item))
        size = len(tokens.ids)
        room = max(1, self.length - head - tail)
        rows = []
        for start in range(head, size - tail, room):
            keep = np.r_[0:head, start : min(start + room, size - tail), size - tail : size]
            rows.append(TrainingRow(number, tokens.ids[keep], np.array(types, np.int8)[keep], tokens.words[keep]))
        return rows

    def label(self, batch: Batch, rows: Sequence[TrainingRow]) -> Batch:
        """See `Objective.label`.

        What is hidden depends on the seed and on the rows that meet in a batch, not on how many batches came before:
        it is another in every epoch, and the same after a restart.
        """
        ids = batch["input_ids"]
        words = torch.full_like(ids, SPECIAL)
        for b, row in enumerate(rows):
            words[b, : len(row.ids)] = torch.from_numpy(row.words)
        seen, labels = hide(ids, words != SPECIAL, self._mask, self._others, self._seed)
        return batch | {"input_ids": seen, "labels": labels}

    def read(
        self, rows: Sequence[TrainingRow], outputs: Mapping[str, Tensor], batch: Mapping[str, Tensor]
    ) -> list[tuple[float, int, int]]:
        """Loss, hits and number of hidden tokens."""
        hidden = batch["labels"] != IGNORED
        logits, gold = outputs["logits"][hidden].float(), batch["labels"][hidden]
        loss = torch.nn.functional.cross_entropy(logits, gold, reduction="none")
        by_piece = torch.stack([hidden.nonzero()[:, 0].float(), loss, (logits.argmax(-1) == gold).float()])
        owner, losses, hits = by_piece.double().cpu().numpy()
        added = [np.bincount(owner.astype(int), weights, len(rows)) for weights in (losses, hits, np.ones_like(hits))]
        return [(float(loss), int(hit), int(count)) for loss, hit, count in zip(*added, strict=True)]

    def judge(self, item: Item, predictions: Sequence[Any]) -> TextOutcome:
        """See `Objective.judge`."""
        loss, hits, count = (sum(part) for part in zip(*predictions, strict=True))
        return TextOutcome(
            unit_of(text_of(item)), {"loss": Sum(loss, count, count), "accuracy": Sum(hits, count, count)}
        )

    def guess(self, train: Sequence[Item], scored: Sequence[Item]) -> Iterator[TextOutcome]:
        """See `Objective.guess`; every token has its probability in training, unseen ones counted once."""
        seen = Counter(token for item in train for token in self._tokens(item))
        size = sum(seen.values()) + len(self._others)
        most = max(sorted(seen), key=seen.__getitem__)
        for item in scored:
            tokens = self._tokens(item)
            loss = -float(np.log([(seen[token] + 1) / size for token in tokens]).sum())
            count = len(tokens)
            sums = {"loss": Sum(loss, count, count), "accuracy": Sum(tokens.count(most), count, count)}
            yield TextOutcome(unit_of(text_of(item)), sums)

    def _tokens(self, item: Item) -> list[int]:
        return [int(id) for row in self.rows(0, item) for id, word in zip(row.ids, row.words, strict=True) if word >= 0]


def _seed_of(seed: int, ids: Tensor) -> int:
    digest = hashlib.sha256(f"{seed} {tuple(ids.shape)} ".encode() + ids.numpy().tobytes()).digest()
    return int.from_bytes(digest[:7], "big")
