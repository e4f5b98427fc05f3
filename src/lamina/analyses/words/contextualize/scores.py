"""The tables of a contextualization result; their columns are a contract."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, fields, replace
from functools import cached_property, partial
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, Float, Int

from lamina.analyses.words.contextualize.vectors import Representation
from lamina.analyses.words.occurrences import SPLITS, WordClassPair, WordsInContext
from lamina.corpora.corpus import fingerprint_of
from lamina.errors import DamagedError
from lamina.files.checking import load_tensors, save_tensors
from lamina.models import SPECIAL, Encoder
from lamina.probes.mlp import (
    ClassExamples,
    ClassProbe,
    MLPTraining,
    TrainedClassProbes,
    Vectors,
    VectorSource,
    save_probes,
    train,
)
from lamina.progress import say
from lamina.stats.best import best_set
from lamina.stats.family import bootstrap_family
from lamina.stats.intervals import interval
from lamina.stats.seeds import draws_over_seeds
from lamina.stats.units import Units
from lamina.types import Text

# What class probes answer about every scored word, for every row of vectors.


@dataclass(frozen=True)
class ContextualizePreset:
    """Training, seeds and amounts."""

    training: MLPTraining
    seeds: int
    most_contexts: int
    """The most a (word, class) pair may have."""
    most_words: int | None
    """Words drawn; None: all."""
    context_sizes: tuple[int, ...]
    """Words each side."""
    permuted: str
    """Which layers are also trained on permuted classes: `all` or `last`."""
    most_pieces: int = 128


PRESETS = {
    "quick": ContextualizePreset(MLPTraining(64, 3e-3, 12, validate_every=2), 1, 8, 3000, (0, 2, 8), "last"),
    "standard": ContextualizePreset(MLPTraining(256, 1e-3, 60, validate_every=5), 3, 25, None, (0, 2, 4, 8), "last"),
    "paper": ContextualizePreset(MLPTraining(), 5, 100, None, (0, 2, 4, 8, 16, 32), "all"),
}


FORMAT = 1
"""Raised when the same vectors and classes would give other answers."""
FULL = "full"
"""The context of a word that has its whole text around it."""


@dataclass(frozen=True, eq=False)
class ClassAnswers:
    """One row, one seed."""

    representation: str
    layer: int | None
    context: str
    """`full`, or how many words each side."""
    seed: int
    of_types: bool
    read: Callable[[], Bool[np.ndarray, "occurrence label"]]
    """Gets them from disk: those of all rows together would not fit into memory."""

    @property
    def predicted(self) -> Bool[np.ndarray, "occurrence label"]:
        """Of every occurrence of dev and test; train stays False. With `of_types` the same for all of a word's."""
        return self.read()


@dataclass(frozen=True, eq=False)
class ClassProbeSetup:
    """What the probes of all rows share."""

    data: WordsInContext
    preset: ContextualizePreset
    seed: int
    """For permuted classes."""
    faithful: bool
    """The last epoch instead of the best on dev words, and vectors as they are."""
    device: str
    folder: Path
    """Where answers are saved: a stopped run continues with the first row that has none."""

    @property
    def training(self) -> MLPTraining:
        """As in the preset."""
        return replace(self.preset.training, select=not self.faithful)

    @cached_property
    def key(self) -> str:
        """Equal where the same vectors give the same answers."""
        return fingerprint_of(
            FORMAT,
            self.data.places,
            self.data.labels,
            asdict(self.training),
            self.preset.seeds,
            self.seed,
            self.faithful,
        )


def answer(
    setup: ClassProbeSetup,
    whole: Representation,
    *,
    context: str = FULL,
    instead: Sequence[Representation] = (),
    save: bool = False,
) -> Iterator[ClassAnswers]:
    """Train every class's probe on every row and seed, and let each answer about dev and test words.

    `instead` are other vectors of the same items (a fine-tuned model's): the same probes answer about them too. With
    `save` the probes are saved too, see `probe_files`.
    """
    for row in range(len(whole.layers)):
        yield from _ProbedLayer(setup, whole, row, context, permuted=False, save=save).answers([whole, *instead])


def answer_permuted(setup: ClassProbeSetup, whole: Representation) -> Iterator[ClassAnswers]:
    """The control: classes permuted over training words in context, and over those that choose the epoch."""
    rows = slice(None) if setup.preset.permuted == "all" else slice(-1, None)
    some = whole.rows(rows, f"permuted {whole.name}")
    for row in range(len(some.layers)):
        yield from _ProbedLayer(setup, some, row, FULL, permuted=True, save=False).answers([some])


def probe_files(setup: ClassProbeSetup, whole: Representation) -> dict[str, Path]:
    """The probes that `answer(..., save=True)` saved, one file per layer, by their name in a result."""
    rows = [_ProbedLayer(setup, whole, row, FULL, permuted=False, save=True) for row in range(len(whole.layers))]
    return {f"probes-layer-{row.layer}.safetensors": row.probes_path for row in rows}


class _ProbedLayer:
    """One layer, whose probes answer about its vectors and about other vectors of the same words."""

    def __init__(
        self, setup: ClassProbeSetup, whole: Representation, row: int, context: str, *, permuted: bool, save: bool
    ) -> None:
        self._setup, self._whole, self._row, self._context = setup, whole, row, context
        self._permuted, self._save = permuted, save
        self.layer = whole.layers[row]
        self._trained_on = fingerprint_of(setup.key, whole.key, row, permuted)
        self.probes_path = setup.folder / f"probes-{self._trained_on[:24]}.safetensors"

    def answers(self, representations: Sequence[Representation]) -> Iterator[ClassAnswers]:
        """Answers of every seed, about the vectors of each representation; saved ones are not computed again."""
        missing = [wanted for wanted in representations if not self._is_kept(self._path(wanted))]
        unsaved = self._save and not self._is_kept(self.probes_path)
        if missing or unsaved:
            self._compute(missing, unsaved=unsaved)
        for wanted in representations:
            for seed in range(self._setup.preset.seeds):
                about = (wanted.name, self.layer, self._context, seed, self._whole.of_types)
                yield ClassAnswers(*about, partial(self._read, self._path(wanted), seed))

    def _path(self, representation: Representation) -> Path:
        about = fingerprint_of(self._trained_on, representation.key)
        return self._setup.folder / f"answers-{about[:24]}.safetensors"

    def _is_kept(self, path: Path) -> bool:
        try:
            load_tensors(path)
        except OSError:
            return False
        except DamagedError as error:
            say(f"{error}; its probes are trained again")
            return False
        return True

    def _compute(self, missing: Sequence[Representation], *, unsaved: bool) -> None:
        setup, vectors_of_layer = self._setup, self._whole.read(self._row)
        train_items, dev, test = (self._items(split) for split in SPLITS)
        learn = Vectors(vectors_of_layer, train_items)
        learn = learn if setup.faithful else learn.centred()
        trained = self._train(vectors_of_layer, learn, train_items, dev)
        if unsaved:
            save_probes(self.probes_path, trained, learn, self._about())
        scored = np.concatenate([dev, test])
        for wanted in missing:
            vectors = Vectors(vectors_of_layer if wanted is self._whole else wanted.read(self._row), scored).like(learn)
            predicted = trained.says(vectors.on(setup.device), setup.device)
            # Seed by seed, and one bit per answer.
            by_seed = predicted.reshape(setup.preset.seeds, len(setup.data.classes), len(scored))
            packed = {str(seed): torch.from_numpy(np.packbits(of_seed.T)) for seed, of_seed in enumerate(by_seed)}
            save_tensors(self._path(wanted), packed, {"format": FORMAT})

    def _train(
        self, source: VectorSource, learn: Vectors, train_items: np.ndarray, dev: np.ndarray
    ) -> TrainedClassProbes:
        setup = self._setup
        probes = [
            ClassProbe(label, seed) for seed in range(setup.preset.seeds) for label in range(len(setup.data.classes))
        ]
        learned = ClassExamples(learn, self._labels(train_items))
        choose = ClassExamples(Vectors(source, dev).like(learn), self._labels(dev))
        where = "" if self.layer is None else f", layer {self.layer}"
        what = f"class probes of {self._whole.name}{where}, context {self._context}"
        return train(learned, choose, probes, setup.training, device=setup.device, what=what)

    def _read(self, path: Path, seed: int) -> Bool[np.ndarray, "occurrence label"]:
        data, of_types = self._setup.data, self._whole.of_types
        scored = np.concatenate([self._items(split) for split in SPLITS[1:]])
        shape = len(scored), len(data.classes)
        every = np.zeros((len(data.words) if of_types else len(data.word), shape[1]), bool)
        packed = load_tensors(path)[0][str(seed)].numpy()
        every[scored] = np.unpackbits(packed, count=shape[0] * shape[1]).reshape(shape)
        return every[data.word] if of_types else every

    def _items(self, split: str) -> Int[np.ndarray, " item"]:
        data = self._setup.data
        if not self._whole.of_types:
            return data.of(split)
        return np.flatnonzero([split_of_word == split for split_of_word in data.split])

    def _labels(self, items: np.ndarray) -> Bool[torch.Tensor, "labelling item label"]:
        gold = classes_of_words(self._setup.data) if self._whole.of_types else self._setup.data.gold
        order = np.random.default_rng(self._setup.seed).permutation(len(items)) if self._permuted else slice(None)
        return torch.from_numpy(gold[items][order]).unsqueeze(0)

    def _about(self) -> dict[str, Any]:
        about = {"model": self._whole.name, "layer": self.layer, "context": self._context}
        return about | {"classes": self._setup.data.classes, "training": asdict(self._setup.training)}


def classes_of_words(data: WordsInContext) -> Bool[np.ndarray, "word label"]:
    """The classes of a word in any of its contexts."""
    gold = np.zeros((len(data.words), len(data.classes)), bool)
    np.logical_or.at(gold, data.word, data.gold)
    return gold


ALL = "all"
"""The class that stands for all of them together, the seed that stands for the mean over seeds."""


class DecisionCounts(NamedTuple):
    """Decisions by word and class; sums over words are what F1 and recall are made of."""

    hits: Int[np.ndarray, "word label"]
    predicted: Int[np.ndarray, "word label"]
    """Decisions that say yes."""
    true: Int[np.ndarray, "word label"]
    """Decisions that should."""
    pairs: Int[np.ndarray, "word label"]
    """Pairs of the word and the class ..."""
    recalled: Int[np.ndarray, "word label"]
    """... whose class was predicted."""


@dataclass(frozen=True, eq=False)
class DecisionGrid:
    """Every (word, class) pair of some words against every class.

    The answer of a class's probe about a pair is yes where it is yes for at least half of the pair's contexts. It
    should be where at least half of them have that class: always for the class of the pair, and for another where the
    annotation gives both.
    """

    pairs: tuple[WordClassPair, ...]
    gold: Bool[np.ndarray, "pair label"]
    words: int

    @classmethod
    def of(cls, data: WordsInContext, split: str, *, least: int = 1) -> DecisionGrid:
        """The pairs of a split's words that have at least `least` contexts."""
        pairs = tuple(pair for pair in data.pairs if data.split[pair.word] == split and len(pair.contexts) >= least)
        return cls(pairs, at_least_half(data.gold, pairs), len(data.words))

    def count(self, answers: Bool[np.ndarray, "occurrence label"]) -> DecisionCounts:
        """Decisions from answers about all occurrences of the data (those outside the grid do not matter)."""
        decided = at_least_half(answers, self.pairs)
        own_class = np.zeros_like(self.gold)
        own_class[np.arange(len(self.pairs)), [pair.label for pair in self.pairs]] = True
        parts = (decided & self.gold, decided, self.gold, own_class, own_class & decided)
        return DecisionCounts(*(self._by_word(part) for part in parts))

    def _by_word(self, part: np.ndarray) -> np.ndarray:
        sums = np.zeros((self.words, part.shape[1]), np.int64)
        np.add.at(sums, [pair.word for pair in self.pairs], part)
        return sums


def at_least_half(
    answers: Bool[np.ndarray, "occurrence label"], pairs: Sequence[WordClassPair]
) -> Bool[np.ndarray, "pair label"]:
    """What holds of at least half of each pair's contexts.

    Example:
        >>> said = np.array([[True, False], [False, False], [True, True]])
        >>> at_least_half(said, [WordClassPair(0, 0, (0, 1)), WordClassPair(0, 1, (0, 1, 2))]).tolist()
        [[True, False], [True, False]]
    """
    if not pairs:
        return np.zeros((0, answers.shape[1]), bool)
    sizes = np.array([len(pair.contexts) for pair in pairs])
    order = np.concatenate([pair.contexts for pair in pairs])
    # Summed as small numbers: there are millions of contexts.
    votes = np.add.reduceat(answers[order], np.cumsum(sizes) - sizes, axis=0, dtype=np.int32)
    return 2 * votes >= sizes[:, None]


def by_word(data: WordsInContext, split: str, answers: Bool[np.ndarray, "word label"]) -> DecisionCounts:
    """Words against classes, each word once with all its classes: the paper's grid for vectors without context."""
    true = np.zeros((len(data.words), len(data.classes)), bool)
    np.logical_or.at(true, data.word, data.gold)
    inside = np.array([split_of_word == split for split_of_word in data.split])[:, None]
    true, decided = true & inside, answers & inside
    return DecisionCounts(*(part.astype(np.int64) for part in (true & decided, decided, true, true, true & decided)))


class ClassScores(NamedTuple):
    """One measure of one row, class by class and for all together (last), with draws for an interval."""

    value: Float[np.ndarray, " label"]
    draws: Float[np.ndarray, "sample label"]
    pairs: Int[np.ndarray, " label"]
    """That have the class."""


class WordBootstrap:
    """Word types resampled: the same draws for every row, so that rows are compared in pairs."""

    def __init__(self, words: Sequence[str], scored: Int[np.ndarray, " word"], *, samples: int, seed: int) -> None:
        """`scored` are the numbers of the words that are scored, among all `words`."""
        self._scored = scored
        units = Units.of((str(words[number]) for number in scored), "word type")
        self.units = len(units)
        self._weights = units.weights(samples=samples, seed=seed)[:, list(units.owner)]

    def f1(self, counts: DecisionCounts) -> ClassScores:
        """F1 of every class, and micro-F1 of all."""
        return self._scores(2 * counts.hits, counts.predicted + counts.true, counts.pairs)

    def recall(self, counts: DecisionCounts) -> ClassScores:
        """Share of pairs whose class is predicted."""
        return self._scores(counts.recalled, counts.pairs, counts.pairs)

    def _scores(self, over: np.ndarray, under: np.ndarray, pairs: np.ndarray) -> ClassScores:
        over, under = (_with_all(part[self._scored]) for part in (over, under))
        value = _ratio(over.sum(0), under.sum(0))
        return ClassScores(
            value, _ratio(self._weights @ over, self._weights @ under), _with_all(pairs).sum(0).astype(int)
        )

    def pooled(self, seeds: Sequence[ClassScores]) -> ClassScores:
        """The mean over seeds; words are drawn, and from `ENOUGH_SEEDS` on seeds vary with them."""
        values = np.stack([scores.value for scores in seeds])
        draws = draws_over_seeds(values, np.stack([scores.draws for scores in seeds])).clip(0, 1)
        return ClassScores(values.mean(0), draws, seeds[0].pairs)


def _with_all(part: np.ndarray) -> np.ndarray:
    return np.concatenate([part, part.sum(1, keepdims=True)], axis=1).astype(np.float32)


def _ratio(over: np.ndarray, under: np.ndarray) -> np.ndarray:
    return np.divide(over, under, out=np.full(np.shape(over), np.nan, np.float64), where=under > 0)


SCORED = ("dev", "test")
FREQUENT = 5
"""Contexts from which a pair also counts as frequent."""


@dataclass(frozen=True, slots=True)
class ClassScoreRow:
    """One row of `sclass.csv` and its like."""

    representation: str
    layer: int | None
    context: str
    class_: str
    """A class, or `all`: every decision together."""
    seed: str
    """A number, or `all`: the mean over seeds. Intervals are over words; of `all`, from 5 seeds on over both."""
    split: str
    chose: bool
    """Whether these words chose the epoch of the probes: then the score is too high to be reported."""
    count: int
    """Pairs of a word and this class."""
    value: float
    low: float
    high: float


SCORES = tuple(column.name.rstrip("_") for column in fields(ClassScoreRow))
"""Columns of `sclass.csv`, `recall.csv`, `frequent.csv`, `words.csv` and `context.csv`."""
PAIRS = ("representation", "layer", "context", "word", "class", "contexts", "share")
"""Columns of `pairs.csv`."""
CONTEXTS = ("split", "contexts", "pairs")
"""Columns of `contexts.csv`."""
CONTRASTS = (
    "comparison", "family", "task", "layer", "representation", "against", "window", "value", "baseline", "difference",
    "low", "high", "p_adjusted", "units", "needed",
)  # fmt: skip
"""Columns of `contrasts.csv`."""
BEST = ("layer", "value", "p_beaten", "among_best")
"""Columns of `best.csv`."""
STATIC, AVERAGE, LESS_CONTEXT, FINETUNED = "vectors without context", "average", "less context", "fine-tuning"
"""Comparisons: with vectors without context, the average over contexts, less context; after fine-tuning."""
CHOSEN = "chosen layer"
"""The family of the comparisons at the layer that is best on other words; of all layers otherwise."""
WHOLE_TEXT = "full"
"""The context of vectors that have seen the whole text."""


class ScoredVectors(NamedTuple):
    """One row of vectors, scored on the words of one split."""

    representation: str
    layer: int | None
    context: str
    split: str

    @property
    def window(self) -> int | None:
        """Words on each side that were seen; None: the whole text."""
        return None if self.context == WHOLE_TEXT else int(self.context)


class MicroF1(NamedTuple):
    """Micro-F1, mean over the seeds of the probes."""

    value: float
    draws: Float[np.ndarray, " sample"]


class MicroF1Contrast(NamedTuple):
    """One paired difference of micro-F1, and how the table names it."""

    layer: int | None
    representation: str
    against: str
    window: int | None
    """Words on each side that the other one has seen; None: the whole text."""
    ours: MicroF1
    other: MicroF1
    task: str = "none"
    """What the model was fine-tuned for."""


def contrast_rows(comparison: str, family: str, members: Sequence[MicroF1Contrast], units: int) -> Iterator[tuple]:
    """One family of paired differences of micro-F1, two-sided max-T over the same draws of words.

    Args:
        comparison: what is compared.
        family: which members are corrected together.
        members: of the family.
        units: how many words were resampled.
    """
    if not members:
        return
    values = np.array([(member.ours.value, member.other.value) for member in members])
    draws = np.stack([member.ours.draws - member.other.draws for member in members], 1)
    tests = bootstrap_family(values[:, 0] - values[:, 1], draws, units, bounds=(-1.0, 1.0))
    for member, (value, baseline), *numbers in zip(members, values.tolist(), *tests, strict=True):
        where = member.task, member.layer, member.representation, member.against, member.window
        yield comparison, family, *where, value, baseline, *map(float, numbers)


def compare_micro(
    scored: Mapping[ScoredVectors, MicroF1], model: str, split: str, units: int
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """`contrasts` and `best`: each layer against vectors without context, its average, and less context.

    The layer that findings are about is the one with the highest F1 on the words of the other split, so that its
    numbers are of words that did not choose it.

    Args:
        scored: micro-F1 of all rows, on both splits.
        model: whose layers are compared.
        split: the words that are scored.
        units: how many there are.
    """
    of_split = {row: micro for row, micro in scored.items() if row.split == split}
    layers = {row.layer: micro for row, micro in of_split.items() if row[0] == model and row.context == WHOLE_TEXT}
    others = {row.layer: micro.value for row, micro in scored.items() if row[:1] == (model,) and row[2:] == (
        WHOLE_TEXT, "dev" if split == "test" else "test",
    )}  # fmt: skip
    families: dict[str, list[int | None]] = {"layers": [*layers]}
    if others:
        families[CHOSEN] = [max(others, key=lambda layer: others[layer])]
    rows: list[tuple] = []
    for family, chosen in families.items():
        for comparison in (STATIC, AVERAGE, LESS_CONTEXT):
            members = [
                MicroF1Contrast(layer, model, against, row.window, layers[layer], micro)
                for layer in chosen
                for row, micro in of_split.items()
                if (against := _comparable(comparison, row, model, layer))
            ]
            rows += contrast_rows(comparison, family, members, units)
    numbers = [layer for layer in layers if layer is not None]
    values = np.array([layers[layer].value for layer in numbers])
    draws = np.stack([layers[layer].draws for layer in numbers], 1) if numbers else np.empty((0, 0))
    best_layers = best_set(values, draws, units)
    best = pd.DataFrame(dict(zip(BEST, (numbers, values, best_layers.p, best_layers.among), strict=True)))
    return contrast_table(rows), best


def contrast_table(rows: Sequence[tuple]) -> pd.DataFrame:
    """As it is saved."""
    return pd.DataFrame(rows, columns=list(CONTRASTS)).astype({"layer": "Int64", "window": "Int64"})


def _comparable(comparison: str, row: ScoredVectors, model: str, layer: int | None) -> str:
    """The name of this row in a comparison with a layer of the model; empty where it is not compared."""
    if comparison == STATIC:
        free = row.layer is None and row.context == WHOLE_TEXT and not row.representation.startswith("P-")
        return row.representation if free and row.representation != model else ""
    name = model if comparison == LESS_CONTEXT else f"AVG-{model}"
    whole = row.context == WHOLE_TEXT
    return name if row[:2] == (name, layer) and whole == (comparison == AVERAGE) else ""


class _SplitScorer(NamedTuple):
    """One split's grids and draws."""

    split: str
    grid: DecisionGrid
    frequent: DecisionGrid
    draws: WordBootstrap


class Scoreboard:
    """Scores rows of answers by the words they are about, and keeps the micro-F1 of all of them for comparisons."""

    def __init__(self, data: WordsInContext, *, samples: int, seed: int, selects: bool = True) -> None:
        """`selects`: whether dev words chose the epoch of the probes."""
        self._data, self._selects = data, selects
        self._judges = [self._judge(split, samples, seed) for split in SCORED]
        self.micro_f1: dict[ScoredVectors, MicroF1] = {}

    def _judge(self, split: str, samples: int, seed: int) -> _SplitScorer:
        data = self._data
        words = np.flatnonzero([split_of_word == split for split_of_word in data.split])
        draws = WordBootstrap(data.words, words, samples=samples, seed=seed)
        return _SplitScorer(split, DecisionGrid.of(data, split), DecisionGrid.of(data, split, least=FREQUENT), draws)

    def tables(self, answers: Sequence[ClassAnswers]) -> dict[str, pd.DataFrame]:
        """`sclass` (F1), `recall`, `frequent` (F1 of pairs with many contexts) and `words` (F1, words as one grid)."""
        rows: dict[str, list[ClassScoreRow]] = {"sclass": [], "recall": [], "frequent": [], "words": []}
        for seeds in _rows(answers):
            for judge in self._judges:
                counts = [judge.grid.count(answers_of_seed.predicted) for answers_of_seed in seeds]
                frequent = [judge.frequent.count(answers_of_seed.predicted) for answers_of_seed in seeds]
                rows["sclass"] += self._scored(seeds, judge, [judge.draws.f1(counted) for counted in counts], keep=True)
                rows["recall"] += self._scored(seeds, judge, [judge.draws.recall(counted) for counted in counts])
                rows["frequent"] += self._scored(seeds, judge, [judge.draws.f1(counted) for counted in frequent])
                if seeds[0].of_types:
                    by_words = [
                        by_word(self._data, judge.split, self._of_words(answers_of_seed.predicted))
                        for answers_of_seed in seeds
                    ]
                    rows["words"] += self._scored(seeds, judge, [judge.draws.f1(counted) for counted in by_words])
        return {name: as_table(scored) for name, scored in rows.items()}

    def f1(self, answers: Iterable[ClassAnswers]) -> pd.DataFrame:
        """F1 alone."""
        rows: list[ClassScoreRow] = []
        for seeds in _rows(answers):
            for judge in self._judges:
                scores = [judge.draws.f1(judge.grid.count(answers_of_seed.predicted)) for answers_of_seed in seeds]
                rows += self._scored(seeds, judge, scores, keep=True)
        return as_table(rows)

    def micro(self, answers: Iterable[ClassAnswers], split: str) -> dict[tuple[str, int | None], ClassScores]:
        """F1 of a split by representation and layer, pooled over the seeds of the probes, with its draws."""
        (judge,) = [candidate for candidate in self._judges if candidate.split == split]
        return {
            (seeds[0].representation, seeds[0].layer): judge.draws.pooled(
                [judge.draws.f1(judge.grid.count(answers_of_seed.predicted)) for answers_of_seed in seeds]
            )
            for seeds in _rows(answers)
        }

    def pooled(self, scores: Sequence[ClassScores], split: str) -> ClassScores:
        """The mean of several models' scores, on the same draws of words."""
        (judge,) = [candidate for candidate in self._judges if candidate.split == split]
        return judge.draws.pooled(scores)

    def compared(self, model: str, split: str) -> tuple[pd.DataFrame, pd.DataFrame]:
        """`contrasts` and `best` of the words of a split, of all rows scored so far; see `compare_micro`."""
        (judge,) = [candidate for candidate in self._judges if candidate.split == split]
        return compare_micro(self.micro_f1, model, split, judge.draws.units)

    def units(self, split: str) -> int:
        """How many words of a split are resampled."""
        return next(judge.draws.units for judge in self._judges if judge.split == split)

    def pairs(self, answers: Iterable[ClassAnswers]) -> pd.DataFrame:
        """Of every pair of test words: the share of seeds that predict its class."""
        grid = self._judges[-1].grid
        own_class = np.arange(len(grid.pairs)), [pair.label for pair in grid.pairs]
        rows = []
        for seeds in _rows(answers):
            first = seeds[0]
            shares = np.mean(
                [at_least_half(answers_of_seed.predicted, grid.pairs)[own_class] for answers_of_seed in seeds], axis=0
            )
            for pair, share in zip(grid.pairs, shares.tolist(), strict=True):
                what = (self._data.words[pair.word], self._data.classes[pair.label], len(pair.contexts))
                rows.append((first.representation, first.layer, first.context, *what, share))
        return pd.DataFrame(rows, columns=list(PAIRS)).astype({"layer": "Int64"})

    def _of_words(self, answers: np.ndarray) -> np.ndarray:
        every = np.zeros((len(self._data.words), answers.shape[1]), bool)
        every[self._data.word] = answers
        return every

    def _scored(
        self, answers: Sequence[ClassAnswers], judge: _SplitScorer, seeds: Sequence[ClassScores], *, keep: bool = False
    ) -> Iterator[ClassScoreRow]:
        first = answers[0]
        named = [(str(answers_of_seed.seed), scores) for answers_of_seed, scores in zip(answers, seeds, strict=True)]
        pooled = judge.draws.pooled(seeds)
        if keep:
            row = ScoredVectors(first.representation, first.layer, first.context, judge.split)
            self.micro_f1[row] = MicroF1(float(pooled.value[-1]), pooled.draws[:, -1])
        for seed, scores in [*named, (ALL, pooled)]:
            for number, label in enumerate((*self._data.classes, ALL)):
                chose = self._selects and judge.split == "dev"
                where = (first.representation, first.layer, first.context, label, seed, judge.split, chose)
                value = float(scores.value[number])
                yield ClassScoreRow(*where, int(scores.pairs[number]), value, *interval(scores.draws[:, number]))


def _rows(answers: Iterable[ClassAnswers]) -> Iterator[list[ClassAnswers]]:
    """Seeds of one row, which come one after the other."""
    for _, of_row in groupby(answers, key=lambda of_seed: (of_seed.representation, of_seed.layer, of_seed.context)):
        yield list(of_row)


def as_table(rows: Sequence[ClassScoreRow]) -> pd.DataFrame:
    """As it is saved."""
    table = pd.DataFrame([astuple(row) for row in rows], columns=list(SCORES))
    return table.astype({"layer": "Int64", "context": "str", "seed": "str"})


def overall(table: pd.DataFrame, split: str) -> pd.DataFrame:
    """The rows of a split that are of all classes and all seeds together; none whose words chose the epoch."""
    rows = table[(table["class"] == ALL) & (table["seed"] == ALL) & (table["split"] == split)]
    # Results of older versions have no such column.
    return rows[~rows["chose"].astype(bool)] if "chose" in rows.columns else rows


def over_seeds(finetuning: pd.DataFrame) -> pd.DataFrame:
    """The rows of `finetuning.csv` that are means over seeds; all of them in results of versions without seeds."""
    return finetuning[finetuning["seed"] == ALL] if "seed" in finetuning.columns else finetuning


def histogram(data: WordsInContext) -> pd.DataFrame:
    """Number of pairs per number of contexts, split by split."""
    counts = Counter((data.split[pair.word], len(pair.contexts)) for pair in data.pairs)
    ordered = sorted(counts.items(), key=lambda item: (SPLITS.index(item[0][0]), item[0][1]))
    rows = [(split, contexts, pairs) for (split, contexts), pairs in ordered]
    return pd.DataFrame(rows, columns=list(CONTEXTS))


MANY_PIECES, HURTS, HELPS = "many pieces", "context hurts", "context helps"
"""Kinds: a word in many tokens; its class found without context and lost with it; the reverse."""

MANY = 3
"""Tokens from which on a word has many."""

FAILURES = ("kind", "representation", "layer", "word", "class", "contexts", "pieces", "without", "full")
"""Columns of `failures.csv`."""
PIECES = ("layer", "pieces", "pairs", "words", "without", "full")
"""Columns of `pieces.csv`."""
_ALONE, _FULL = "0", "full"


def pieces_of(encoder: Encoder, words: Iterable[str]) -> dict[str, int]:
    """How many tokens each word is cut into; several words joined by spaces count together.

    Example:
        >>> from lamina.testing import TinyEncoder
        >>> pieces_of(TinyEncoder(), ["dog", "unhesitating"])
        {'dog': 1, 'unhesitating': 4}
    """
    counts = {}
    for word in words:
        owners = encoder.tokenize(Text(word, tuple(word.split()))).words
        counts[word] = int((owners != SPECIAL).sum())
    return counts


def failure_cases(
    pairs: pd.DataFrame, pieces: Mapping[str, int], *, layer: int | None = None, many: int = MANY
) -> pd.DataFrame:
    """`failures.csv` = `kind,representation,layer,word,class,contexts,tokens,without,full`.

    A pair of a word and its class is found where at least half of the seeds find it. A pair of a word in many tokens is
    listed whatever its scores, beside them. Of each kind those with most contexts come first: they weigh most.

    Args:
        pairs: `representation,layer,context,word,class,contexts,share`, as in results of `contextualize`;
            context `full` and, for contexts that hurt or help, `0`. `share` is the share of seeds that find the class.
        tokens: word -> how many tokens it is cut into, see `pieces_of`.
        layer: the one looked at; the last by default.
        many: tokens from which on a word has many.

    Example:
        >>> rows = [("m", 1, "0", "suit", "food", 2, 1.0), ("m", 1, "full", "suit", "food", 2, 0.0)]
        >>> names = ["representation", "layer", "context", "word", "class", "contexts", "share"]
        >>> failure_cases(pd.DataFrame(rows, columns=names), {"suit": 1})["kind"].tolist()
        ['context hurts']
    """
    scored = _side_by_side(pairs, layer)
    scored["pieces"] = scored["word"].map(pieces)
    without, full = scored["without"] >= 0.5, scored["full"] >= 0.5
    kinds = {
        MANY_PIECES: scored["pieces"] >= many,
        HURTS: without & ~full & scored["full"].notna(),
        HELPS: ~without & full & scored["without"].notna(),
    }
    by_kind = [scored[chosen].assign(kind=kind) for kind, chosen in kinds.items()]
    ordered = [rows.sort_values(["contexts", "word", "class"], ascending=[False, True, True]) for rows in by_kind]
    return pd.concat(ordered, ignore_index=True)[list(FAILURES)]


def scores_by_pieces(
    pairs: pd.DataFrame, pieces: Mapping[str, int], *, layer: int | None = None, many: int = MANY
) -> pd.DataFrame:
    """`pieces.csv` = `layer,pieces,pairs,words,without,full`: the share of pairs found, by how many tokens words have.

    Words in `many` tokens or more count together, under `many`.
    """
    scored = _side_by_side(pairs, layer)
    scored["pieces"] = scored["word"].map(pieces).clip(upper=many)
    grouped = scored.groupby(["layer", "pieces"], as_index=False)
    return grouped.agg(
        pairs=("word", "size"), words=("word", "nunique"), without=("without", "mean"), full=("full", "mean")
    )


def _side_by_side(pairs: pd.DataFrame, layer: int | None) -> pd.DataFrame:
    """One row per pair of the model's layer: predicted alone, and in its whole text; NaN where that was not scored."""
    of_layers = pairs[pairs["layer"].notna()]
    chosen = of_layers["layer"].max() if layer is None else layer
    of_layer = of_layers[of_layers["layer"] == chosen]
    keys = ["representation", "layer", "word", "class", "contexts"]
    columns = {
        name: of_layer[of_layer["context"] == context].set_index(keys)["share"]
        for name, context in (("without", _ALONE), ("full", _FULL))
    }
    return pd.DataFrame(columns).astype(float).reset_index()
