"""The layer at which a probe reads the class of a masked word, and the layer at which the lens predicts it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Float

from lamina.activations import Runtime
from lamina.analyses.behaviour.inputs import SpokenSplits
from lamina.analyses.behaviour.layer_predictions import tuned_lens
from lamina.analyses.behaviour.masked_words import (
    RELATION,
    TITLES,
    TREEBANK_TASKS,
    ClassedTexts,
    ClassVocabulary,
    LayerAnswers,
    MaskedWordData,
    Of,
    TaskAnswers,
    TaskName,
    answer,
    relation_data,
    vocabularies,
)
from lamina.corpora.corpus import Corpus
from lamina.corpora.detection import FileSelection
from lamina.corpora.splits import Splits, divide
from lamina.corpora.suites.cloze import Relations
from lamina.corpora.treebanks import FEATURES, with_features
from lamina.errors import CorpusError, InputError
from lamina.framework.declare import Overview, Table, Tables, analysis
from lamina.framework.estimate import Cost, Estimator, memory_now
from lamina.framework.inputs import LoadedInputs
from lamina.framework.settings import DeclaredSetting, Samples, Seed, Setting, Twin
from lamina.models import Encoder
from lamina.models.language.language_model import LanguageModel, language_model
from lamina.probes.translators import Translators
from lamina.results import Result
from lamina.results.finding import Finding, Source, cell, finding, not_tested, numbers_in_words, rows_of
from lamina.stats.best import BestSet, best_set
from lamina.stats.family import Contrasts, bootstrap_family, sign_flip_family
from lamina.stats.intervals import interval
from lamina.stats.status import SURE, Contrast
from lamina.stats.units import Units

# Scores of probe and lens by layer, the first layer of each, and words that only one of them gets right.

REACHED = 0.95
"""Share of the best gain over the baseline at which something counts as reached."""
MEASURES = ("accuracy", "probability")
WAYS: tuple[Of, Of] = ("probe", "lens")
NOT_ABOVE = "not above the baseline"
LATER = "later"
"""In place of a way: from probe to lens."""
_EXAMPLES_OF_KIND = 8
"""Words of each kind that are shown, per task and layer."""
TableRow = tuple[Any, ...]


class LayerCurve(NamedTuple):
    """A measure by layer, and the same over resampled documents."""

    value: Float[np.ndarray, " layer"]
    draws: Float[np.ndarray, "sample layer"]

    def interval(self, layer: int) -> tuple[float, float]:
        """95 %."""
        return interval(self.draws[:, layer])

    def minus(self, other: LayerCurve) -> LayerCurve:
        """The difference, over the same documents."""
        return LayerCurve(self.value - other.value, self.draws - other.draws)


class FirstLayer(NamedTuple):
    """The first layer at which something is reached."""

    layer: float
    draws: Float[np.ndarray, " sample"]
    best: int
    """The layer with the highest value."""
    reason: str = ""
    """Why there is no such layer, or which layers have no probe."""
    place: float = np.nan
    """Where between two layers it is reached, by interpolation: whole layers hardly move from sample to sample."""
    places: Float[np.ndarray, " sample"] | None = None
    """The same of every sample."""


class ResampledWords:
    """Means over words, whose documents are drawn again and again."""

    def __init__(self, answers: TaskAnswers, *, samples: int, seed: int) -> None:
        names = [answers.items.items[word.passage].document for word in answers.words]
        self.kind = "pattern" if answers.task == RELATION else "document"
        if len(set(names)) == 1:
            # One document cannot be resampled: its texts are.
            names = [answers.items.passages[word.passage].id for word in answers.words]
            self.kind = "text"
        self.units = Units.of(names, "document")
        self._weights = self.units.weights(samples=samples, seed=seed).astype(float)
        self.sizes = self.units.sums(np.ones(len(names)))
        """Words of each unit."""

    def curve(self, values: Float[np.ndarray, "word layer"]) -> LayerCurve:
        """The mean of each column."""
        sums = self.units.sums(values)
        size = self._weights @ self.sizes
        draws = np.divide(
            self._weights @ sums,
            size[:, None],
            out=np.full((len(size), sums.shape[1]), np.nan),
            where=size[:, None] > 0,
        )
        return LayerCurve(values.mean(0), draws)


class TaskScores:
    """The scores of one task."""

    def __init__(self, task_answers: TaskAnswers, *, samples: int, seed: int) -> None:
        self.answers = task_answers
        self._resampled = ResampledWords(task_answers, samples=samples, seed=seed)
        self.units = len(self._resampled.units)
        """Documents, or patterns, that vary ..."""
        self.unit = self._resampled.kind
        """... and what they are."""
        prior = task_answers.vocabulary.prior
        least = {
            "accuracy": (task_answers.gold == prior.argmax()).astype(float),
            "probability": prior[task_answers.gold],
        }
        self.baselines = {measure: self._resampled.curve(values[:, None]) for measure, values in least.items()}
        """What the most frequent class in training gets, and the share of each class there."""
        self.tests = {measure: self._above(measure, values) for measure, values in least.items()}
        """Measure -> [way, layer] how far each layer is above that."""
        self.curves = {
            (*key, measure): self._resampled.curve(_values(answers, task_answers, measure))
            for key, answers in task_answers.answers.items()
            for measure in MEASURES
        }

    def _above(self, measure: str, least: Float[np.ndarray, " word"]) -> Contrasts:
        values = np.stack([_values(self.answers.answers["model", of], self.answers, measure) for of in WAYS], axis=1)
        return gains(self._resampled.units.sums(values - least[:, None, None]), self._resampled.sizes)

    def best(self, of: Of, measure: str) -> BestSet:
        """The layers that can be the best."""
        curve = self.curves["model", of, measure]
        return best_set(curve.value, curve.draws, self.units)

    def rows(self, lens: str) -> Iterator[TableRow]:
        """Of the table `scores`."""
        for (model, of, measure), curve in self.curves.items():
            yield from self._rows(of, model, lens if of == "lens" and model == "model" else "plain", measure, curve)
        for measure in MEASURES:
            gap = self.curves["model", "probe", measure].minus(self.curves["model", "lens", measure])
            yield from self._rows("gap", "model", lens, measure, gap)
        coverage = self.answers.answers["model", "lens"].mass
        if coverage is not None:
            yield from self._rows("lens", "model", lens, "coverage", self._resampled.curve(coverage))

    def _rows(self, of: str, model: str, lens: str, measure: str, curve: LayerCurve) -> Iterator[TableRow]:
        least = float(self.baselines[measure].value[0]) if measure in self.baselines and of != "gap" else np.nan
        used = lens if of in ("lens", "gap") else ""
        best = None
        if model == "model" and of != "gap" and measure in MEASURES:
            best = best_set(curve.value, curve.draws, self.units)
        for layer, value in enumerate(curve.value.tolist()):
            low, high = curve.interval(layer)
            among = (np.nan, "") if best is None else (best.p[layer], _yes(best.among[layer]))
            where = (
                self.answers.task,
                of,
                model,
                used,
                layer,
                measure,
                value,
                low,
                high,
                least,
                len(self.answers.gold),
            )
            yield *where, *among

    def layers(self, measure: str, later: Sequence[float]) -> Iterator[TableRow]:
        """Of the table `layers`: the first layers of probe and lens, and the test of the distance between them."""
        least = self.baselines[measure]
        probe, lens = (self.first(of, measure) for of in WAYS)
        for way, (of, first_layer) in enumerate(zip(WAYS, (probe, lens), strict=True)):
            curve = self.curves["model", of, measure]
            best = (first_layer.best, float(curve.value[first_layer.best]), *curve.interval(first_layer.best))
            test = [float(values[way, first_layer.best]) for values in self.tests[measure]]
            where = (self.answers.task, measure, of, first_layer.layer, *_whole(interval(first_layer.draws)))
            yield *where, *best, float(least.value[0]), *test, self.unit, first_layer.reason
        reason = "; ".join(
            f"{of}: {way_layer.reason}" for of, way_layer in zip(WAYS, (probe, lens), strict=True) if way_layer.reason
        )
        between = (lens.layer - probe.layer, *_whole(interval(lens.draws - probe.draws)))
        yield self.answers.task, measure, LATER, *between, *[np.nan] * 5, *later, self.unit, reason

    def later(self, measure: str) -> tuple[float, Float[np.ndarray, " sample"]]:
        """Layers from probe to lens, interpolated between layers; and in every sample."""
        probe, lens = (self.first(of, measure) for of in WAYS)
        if probe.places is None or lens.places is None:
            return np.nan, np.full(len(probe.draws), np.nan)
        return lens.place - probe.place, lens.places - probe.places

    def first(self, of: Of, measure: str) -> FirstLayer:
        """The first layer of the probe, or of the lens."""
        curve = self.curves["model", of, measure]
        best = int(np.where(np.isnan(curve.value), -np.inf, curve.value).argmax())
        p = self.tests[measure].p[WAYS.index(of), best]
        return first(curve, self.baselines[measure], sure=bool(p < SURE))

    def joint(self) -> Iterator[TableRow]:
        """Of the table `joint`: shares of words that probe, lens, both or neither get right at the same layer."""
        probe, lens = (self._right(of) for of in WAYS)
        for yes, by_lens in ((True, True), (True, False), (False, True), (False, False)):
            curve = self._resampled.curve(np.where(np.isnan(probe), np.nan, (probe == yes) & (lens == by_lens)))
            for layer, value in enumerate(curve.value.tolist()):
                yield self.answers.task, layer, _yes(yes), _yes(by_lens), value, *curve.interval(layer)

    def _right(self, of: Of) -> np.ndarray:
        return _values(self.answers.answers["model", of], self.answers, "accuracy")

    def examples(self, piece: Callable[[int], str]) -> Iterator[TableRow]:
        """Of the table `examples`: the widest gaps at the probe's first layer, and at the last layer."""
        probe, lens = (self.answers.answers["model", of] for of in WAYS)
        by_probe, by_lens = (self._right(of) == 1 for of in WAYS)
        first_of_probe = self.first("probe", "probability").layer
        layers = {probe.label.shape[1] - 1} | (set() if np.isnan(first_of_probe) else {int(first_of_probe)})
        for layer in sorted(layers):
            gap = probe.gold[:, layer] - lens.gold[:, layer]
            kinds = (
                ("probe, not lens", by_probe & ~by_lens, -gap),
                ("lens, not probe", by_lens & ~by_probe, gap),
            )
            for kind, which, order in kinds:
                words = np.flatnonzero(which[:, layer] & (probe.label[:, layer] >= 0))
                for word in words[np.argsort(order[words], kind="stable")][:_EXAMPLES_OF_KIND]:
                    yield self.answers.task, layer, kind, *self._example(int(word), layer, piece)

    def _example(self, number: int, layer: int, piece: Callable[[int], str]) -> TableRow:
        answers, labels = self.answers, self.answers.vocabulary.labels
        probe, lens = (answers.answers["model", of] for of in WAYS)
        sentence, word = answers.items.sentence(answers.words[number])
        item, gold = answers.items.item_of(answers.words[number]), labels[answers.gold[number]]
        by_probe = labels[probe.label[number, layer]], float(probe.gold[number, layer])
        by_lens = labels[lens.label[number, layer]], float(lens.gold[number, layer])
        top = "" if lens.top is None else piece(int(lens.top[number, layer]))
        return item, sentence, word, gold, *by_probe, *by_lens, top

    def items(self) -> Iterator[TableRow]:
        """Of the table `items`: one row per word, at the last layer."""
        probe, lens = (self.answers.answers["model", of] for of in WAYS)
        labels = (*self.answers.vocabulary.labels, "")
        for number, (word, gold) in enumerate(zip(self.answers.words, self.answers.gold.tolist(), strict=True)):
            key = f"{self.answers.task}/{self.answers.items.item_of(word)}"
            right = float(lens.label[number, -1] == gold)
            predicted = labels[probe.label[number, -1]], labels[lens.label[number, -1]]
            yield key, self.answers.task, right, labels[gold], *predicted, probe.gold[number, -1], lens.gold[number, -1]


def layer_rows(scores: Sequence[TaskScores]) -> Iterator[TableRow]:
    """Of the table `layers`, task by task; how much later is tested for all tasks together."""
    tests = {}
    for measure in MEASURES:
        estimates, draws = zip(*(task.later(measure) for task in scores), strict=True)
        family = later_family(np.array(estimates), np.column_stack(draws), np.array([task.units for task in scores]))
        tests[measure] = [np.ravel(values).tolist() for values in family]
    for number, task in enumerate(scores):
        for measure in MEASURES:
            yield from task.layers(measure, [column[number] for column in tests[measure]])


def later_family(
    later: Float[np.ndarray, " task"], draws: Float[np.ndarray, "sample task"], units: np.ndarray
) -> Contrasts:
    """Layers from probe to lens, of all tasks."""
    return bootstrap_family(later, draws, units.astype(float))


def gains(sums: Float[np.ndarray, "unit way layer"], words: Float[np.ndarray, " unit"]) -> Contrasts:
    """How far probe and lens are above the baseline, by layer: one family, one-sided; signs of units are flipped.

    Args:
        sums: of the differences from the baseline over the words of a unit; NaN at layers without a probe.
        words: of each unit.
    """
    there = np.isfinite(sums)
    counts = np.where(there, words[:, None, None], 0)
    return sign_flip_family(np.where(there, sums, 0), counts, alternative="greater", bounds=(-1.0, 1.0))


def first(curve: LayerCurve, least: LayerCurve, *, sure: bool) -> FirstLayer:
    """The first layer that has `REACHED` of the best layer's gain over a baseline, whose curve has one column.

    There is none where the best layer is not clearly above the baseline (`sure`).

    Example:
        >>> by_layer = LayerCurve(np.array([0.5, 0.78, 0.8]), np.array([[0.5, 0.70, 0.8], [0.5, 0.79, 0.8]]))
        >>> found = first(by_layer, LayerCurve(np.array([0.4]), np.array([[0.4], [0.4]])), sure=True)
        >>> found.layer, found.draws.tolist(), found.best, round(found.place, 2)
        (1.0, [2.0, 1.0], 2, 1.0)
    """
    values = np.where(np.isnan(curve.value), -np.inf, curve.value)
    best = int(values.argmax())
    nothing = np.full(len(curve.draws), np.nan)
    if not np.isfinite(values[best]):
        return FirstLayer(np.nan, nothing, best, "no probe has converged")
    if not sure:
        return FirstLayer(np.nan, nothing, best, NOT_ABOVE)
    missing = int(np.isnan(curve.value).sum())
    reason = f"{missing} layers n/a (not converged)" if missing else ""
    layer, place = _reached(curve.value[None], least.value)
    layers, places = _reached(curve.draws, least.draws[:, 0])
    return FirstLayer(float(layer[0]), layers, best, reason, float(place[0]), places)


def _reached(
    curves: Float[np.ndarray, "sample layer"], least: Float[np.ndarray, " sample"]
) -> tuple[Float[np.ndarray, " sample"], Float[np.ndarray, " sample"]]:
    """The first layer with enough of the best gain; and the place between it and the layer before with just so much.

    Example:
        >>> _reached(np.array([[0.0, 0.5, 1.0]]), np.zeros(1))
        (array([2.]), array([1.9]))
    """
    gains = np.where(np.isnan(curves), -np.inf, curves - least[:, None])
    level = REACHED * gains.max(1)
    layer = (gains >= level[:, None] - 1e-12).argmax(1)
    rows = np.arange(len(gains))
    reached, before = gains[rows, layer], gains[rows, np.maximum(layer - 1, 0)]
    between = (layer > 0) & np.isfinite(before) & (reached > before)
    part = np.divide(level - before, reached - before, out=np.ones(len(gains)), where=between)
    return layer.astype(float), np.where(between, layer - 1 + part, layer)


def _values(answers: LayerAnswers, task: TaskAnswers, measure: str) -> Float[np.ndarray, "word layer"]:
    if measure == "probability":
        return answers.gold
    return np.where(answers.label < 0, np.nan, answers.label == task.gold[:, None])


def _whole(ends: tuple[float, float]) -> tuple[float, float]:
    """An interval of layers, widened to whole ones."""
    return float(np.floor(ends[0])), float(np.ceil(ends[1]))


def _yes(condition: bool) -> str:
    return "yes" if condition else "no"


FACTS = "pararel"
MASS = "probability"
"""The measure that findings are about: the mass on the right class."""
_TRIED = 100
"""Words per task of a trial."""
SAME_LAYER = 0.5
"""Layers between probe and lens that mean nothing."""
_SCORES = (
    "task", "of", "model", "lens", "layer", "measure", "value", "low", "high", "baseline", "n", "p_beaten",
    "among_best",
)  # fmt: skip
_LAYERS = (
    "task", "measure", "of", "layer", "low", "high", "best_layer", "best", "best_low", "best_high", "baseline",
    "difference", "diff_low", "diff_high", "p_adjusted", "units", "needed", "unit", "reason",
)  # fmt: skip
_JOINT = ("task", "layer", "probe", "lens", "share", "low", "high")
_EXAMPLES = (
    "task", "layer", "kind", "item", "sentence", "word", "gold", "probe", "probe_probability", "lens",
    "lens_probability", "top",
)  # fmt: skip
_ITEMS = ("item", "group", "value", "gold", "probe", "lens", "probe_probability", "lens_probability")


@dataclass(frozen=True)
class SpokenFacts(SpokenSplits):
    """A language model, texts to learn from and to score, and facts."""

    @property
    def options(self) -> tuple[DeclaredSetting, ...]:
        """See `Reads.options`."""
        text = (
            f"Facts for the task {RELATION}: {FACTS} (left out where it is not on this machine), or a folder in its "
            "layout. Use `none` to leave the task out."
        )
        return (*super().options, DeclaredSetting("facts", str | None, FACTS, Setting(text, file=True)))

    def load(
        self, given: Mapping[str, Any], options: Mapping[str, Any], settings: Mapping[str, Any], runtime: Any
    ) -> LoadedInputs:
        """See `Reads.load`."""
        from lamina.corpora.corpus import fingerprint_of

        loaded = super().load(given, options, settings, runtime)
        facts = _facts(options["facts"])
        data = dict(loaded.data)
        if facts is not None:
            fingerprint = fingerprint_of(str(data["fingerprint"]), facts.fingerprint)
            data |= {"fingerprint": fingerprint, "facts": facts.describe()}
        return replace(loaded, arguments=(*loaded.arguments, facts), data=data)

    def _prepared(self, splits: Splits, data: Any, options: Mapping[str, Any]) -> Splits:
        """With features where tags are not the Penn Treebank's."""
        if not isinstance(data, str | Path):
            return splits
        selection = FileSelection.of(options.get("include"), options.get("exclude"))
        return with_features(splits, data, options.get("format"), selection)


def _facts(name: str | None) -> Relations | None:
    from lamina import assets
    from lamina.corpora.suites.cloze import read_cloze

    if name is None or (name == FACTS and assets.local_folder(FACTS) is None):
        return None
    facts = read_cloze(name)
    if not isinstance(facts, Relations):
        raise InputError(f"facts: {name} holds no facts of relations with patterns; name {FACTS} or a folder like it")
    return facts


@analysis(
    title="Probe and logit lens",
    question="At which layer can a probe read a masked word's class, and at which layer does the model predict it?",
    method=(
        "A word is masked: a masked model reads the text with the word's tokens masked, a causal model only what comes "
        "before it. From the same hidden state, a linear probe reads the word's class (probe), and the model's own "
        "head, applied to every layer (logit lens), gives probabilities that are summed over the tokens which begin "
        "words of each class (lens). Each is reached at the first layer with 95 % of the best gain over the baseline, "
        "which knows how frequent each class is in training. 95 % intervals resample documents, for facts their "
        "patterns; the untrained twin is measured in the same way."
    ),
    cites=("nostalgebraist 2020", "Elazar et al. 2021a"),
    reads=SpokenFacts(),
    # 2: probe and lens are compared for all tasks together, the best layers are a set. 3: features without Penn tags.
    version=3,
    tables={
        "scores": Table(
            "One row per task, way (of: probe, lens, seen: a probe on the visible word, gap: probe minus lens), model, "
            "layer and measure. p_beaten: that some other layer of the curve is better; among_best: yes where that was "
            "not shown.",
            _SCORES,
        ),
        "layers": Table(
            "One row per task, measure and way: the first layer that reaches it. difference: of probe and lens, the "
            "best layer minus the baseline (family: both ways and all layers of a task and measure; one-sided, above; "
            "signs of documents are flipped); of later, layers from probe to lens, interpolated between layers "
            "(family: all tasks of a measure; two-sided; documents are resampled).",
            _LAYERS,
        ),
        "joint": Table(
            "One row per task, layer and outcome: share of words that probe, lens, both or neither get right.", _JOINT
        ),
        "examples": Table(
            "One row per task, layer and word that the probe gets right and the lens does not, or the reverse.",
            _EXAMPLES,
        ),
        "items": Table("One row per task and scored word, at the last layer.", _ITEMS, format="parquet"),
    },
    chapter="abilities",
    example="lamina probe-vs-lens smollm2 --corpus ewt --words 500 --out results/probe_vs_lens",
)
def probe_vs_lens(
    encoder: Encoder,
    splits: Splits,
    facts: Relations | None,
    *,
    tasks: Annotated[
        Sequence[TaskName] | None,
        Setting("Properties of masked words; all that the data is annotated with by default."),
    ] = None,
    words: Annotated[int, Setting("Maximum number of scored words per task.", min=20)] = 1000,
    learn: Annotated[int, Setting("Maximum number of training words per task.", min=20)] = 4000,
    seen: Annotated[bool, Setting("Also probe the hidden states of the visible words, for comparison.")] = True,
    lens: Annotated[
        Literal["plain", "tuned"], Setting("Logit lens (plain), or tuned lens as in `lamina lens`.")
    ] = "plain",
    samples: Samples = 1000,
    twin: Twin = True,
    seed: Seed = 0,
    runtime: Runtime,
) -> Tables:
    """The first layer at which a probe reads a masked word's class, and the first at which the lens predicts it.

    - `pos`: part of speech; `number`: of common nouns; `agreement`: number of verbs in the present; `role`: subject or
      object, of personal pronouns; `relation`: the kind of object that a fact's relation takes.
    - `probe`: a linear probe on the hidden state at the masked word; `lens`: the lens's probability of words of each
      class, from the same hidden state; `seen`: a probe on the hidden state of the visible word, for comparison.

    Example:
        >>> result = lamina.probe_vs_lens("smollm2", "ewt", words=500)  # doctest: +SKIP
        >>> result.tables["layers"]  # doctest: +SKIP
    """
    model = language_model(encoder)
    models = {"model": model} | ({"twin": model.random_twin(seed)} if twin else {})
    translators = _translators(model, splits, seed, runtime) if lens == "tuned" else None
    skipped: Counter[str] = Counter()
    scores: list[TaskScores] = []
    for data in _data(model, splits, facts, tasks, seed, skipped):
        classes = vocabularies(model, data.train, data.tasks)
        data = _usable(model, data, classes, tasks, skipped)
        if data.tasks:
            task_answers = answer(
                models, data, classes, most=words, learn=learn, seen=seen, translators=translators, seed=seed
            )
            scores += [TaskScores(task, samples=samples, seed=seed) for task in task_answers]
            skipped.update(_left_out(task_answers))
    if not scores:
        raise CorpusError(f"{splits.name}: too few words with classes to learn from and to score; give more texts")
    return Tables(
        _tables(scores, model, lens),
        dict(skipped),
        scored={task.answers.task: len(task.answers.gold) for task in scores},
    )


def _translators(model: LanguageModel, splits: Splits, seed: int, runtime: Runtime) -> Translators:
    """The translators that `lamina lens` trains by default on the same texts; saved ones are reused."""
    from lamina.analyses.behaviour.lens import learning_of, lens

    learning, _ = learning_of(splits, seed)
    positions, steps = (lens.settings[name].default for name in ("learned", "steps"))
    return tuned_lens(model, learning, positions=positions, steps=steps, seed=seed, runtime=runtime)


_NEEDED = {"xpos": "xpos (tags of the Penn Treebank, or features as in Universal Dependencies)"}


def _annotations(corpus: Corpus) -> set[str]:
    """What masked words can be classed by; features stand in for Penn tags."""
    return {"xpos" if name == FEATURES else name for name in corpus.annotations}


def _data(
    model: LanguageModel,
    splits: Splits,
    facts: Relations | None,
    tasks: Sequence[str] | None,
    seed: int,
    skipped: Counter[str],
) -> Iterable[MaskedWordData]:
    """The treebank's tasks, then the facts'."""
    wanted = _wanted(tasks)
    has = set.intersection(*(_annotations(part) for part in (splits.train, splits.scored)))
    available = [task for task in TREEBANK_TASKS if task.name in wanted and has.issuperset(task.needs)]
    for task in TREEBANK_TASKS:
        if task.name in wanted and task not in available:
            missing = ", ".join(_NEEDED.get(name, name) for name in sorted(set(task.needs) - has))
            if tasks is not None:
                raise CorpusError(
                    f"{splits.name} has no {missing}, which the task {task.name} needs; name a corpus that has it, for "
                    "example ewt, or other tasks"
                )
            skipped[f"tasks that the corpus has no annotation for ({task.name}: {missing})"] += 1
    if RELATION in wanted and facts is None:
        if tasks is not None:
            raise CorpusError(
                f"the task {RELATION} needs facts: run `lamina assets get {FACTS}`, or pass --facts FOLDER"
            )
        skipped[f"tasks without facts ({RELATION}); `lamina assets get {FACTS}` fetches some"] += 1
    if available:
        division = divide(splits, seed=seed)
        skipped["training texts that are also scored"] += division.left_out
        texts = list(splits.train)
        learn, select = ([texts[number] for number in numbers] for numbers in (division.learn, division.stop))
        parts = [ClassedTexts.of(texts_of_part, available) for texts_of_part in (learn, select, splits.scored)]
        yield MaskedWordData(parts[0], parts[1], parts[2], tuple(task.name for task in available))
    if RELATION in wanted and facts is not None:
        skipped.update({f"{RELATION}: {what}": count for what, count in facts.left_out.items()})
        data, left_out = relation_data(facts, causal=model.kind == "causal", seed=seed)
        skipped.update(left_out)
        yield data


def _wanted(tasks: Sequence[str] | None) -> Sequence[str]:
    if tasks is not None and not tasks:
        raise InputError(f"tasks: name at least one of {', '.join(TITLES)}")
    return tuple(TITLES) if tasks is None else tuple(tasks)


def _usable(
    model: LanguageModel,
    data: MaskedWordData,
    classes: Mapping[str, ClassVocabulary],
    tasks: Sequence[str] | None,
    skipped: Counter[str],
) -> MaskedWordData:
    """Without tasks that have fewer than two classes, or no words in one of the parts."""
    askable = []
    parts = [(part, part.firsts(model)) for part in (data.learn, data.select, data.scored)]
    for task in data.tasks:
        labels = classes[task].numbers
        skipped[f"{task}: training words of classes that are too rare"] += classes[task].rare
        there = [sum(label in labels for _, label in part.maskable_words(task, firsts)) for part, firsts in parts]
        if len(labels) >= 2 and min(there) > 0:
            askable.append(task)
        elif tasks is not None:
            raise CorpusError(
                f"the task {task} has too few words: {there[0]} to learn from, {there[1]} to select by, {there[2]} to "
                f"score, of {len(labels)} classes; give more texts"
            )
        else:
            skipped[f"tasks with too few words ({task})"] += 1
    return data._replace(tasks=tuple(askable))


def _left_out(answers: Sequence[TaskAnswers]) -> dict[str, int]:
    left_out = {}
    for task in answers:
        labels = task.vocabulary.numbers
        there = [label in labels for _, label in task.items.words_of(task.task)]
        left_out[f"{task.task}: scored words of classes that training has too few of"] = there.count(False)
        left_out[f"{task.task}: words beyond --words, or without a token"] = there.count(True) - len(task.gold)
        left_out[f"{task.task}: probes that have not converged"] = task.unconverged
    return left_out


def _tables(scores: Sequence[TaskScores], model: LanguageModel, lens: str) -> dict[str, pd.DataFrame]:
    tables = {
        "scores": (_SCORES, (row for task in scores for row in task.rows(lens))),
        "layers": (_LAYERS, layer_rows(scores)),
        "joint": (_JOINT, (row for task in scores for row in task.joint())),
        "examples": (_EXAMPLES, (row for task in scores for row in task.examples(_piece(model)))),
        "items": (_ITEMS, (row for task in scores for row in task.items())),
    }
    return {name: pd.DataFrame(list(rows), columns=list(columns)) for name, (columns, rows) in tables.items()}


def _piece(model: LanguageModel):
    """The function that writes a token as one reads it."""
    return lambda number: model.encoder.token_names([number])[0].strip()


@probe_vs_lens.finds
def _findings(result: Result) -> Iterable[Finding]:
    """For every task, the layers of probe and lens, or that one of them is not above the baseline."""
    table = result.tables["layers"]
    of_mass = table[table["measure"] == MASS]
    for task in dict.fromkeys(of_mass["task"]):
        rows = {row.of: row for row in rows_of(of_mass[of_mass["task"] == task])}
        probe, lens = rows["probe"], rows["lens"]
        if pd.isna(probe.layer) or pd.isna(lens.layer):
            yield _missing(task, probe, lens)
        else:
            yield _order(task, probe, lens, rows[LATER])


def _order(task: str, probe: Any, lens: Any, later: Any) -> Finding:
    """The first layers of probe and lens; the test is of the distance between the two."""
    title, name = TITLES[task], TITLES[task].lower()
    parts = [f"the probe reads it from layer {probe.layer:.0f} on", f"the lens from layer {lens.layer:.0f} on"]
    first, second = ("probe", "lens") if later.difference >= 0 else ("lens", "probe")
    gaps = [row.reason for row in (probe, lens) if isinstance(row.reason, str) and row.reason]
    return finding(
        claim=f"{title}: {', '.join(parts)}",
        whether=f"the {first} reads {name} at an earlier layer than the {second}",
        absent=f"{title}: {', '.join(parts)}, less than a layer apart",
        contrast="layers from probe to lens",
        test=Contrast.of(later, "difference", "diff_low", "diff_high"),
        source=[Source("layers", {"task": task, "measure": MASS, "of": of}) for of in (LATER, "probe", "lens")],
        unit=later.unit,
        importance=("answers", "localised") if first == "probe" else ("answers", "surprises"),
        margin=SAME_LAYER,
        digits=1,
        note=f"{'; '.join(gaps)}." if gaps else "",
    )


def _missing(task: str, probe: Any, lens: Any) -> Finding:
    """Probe or lens was not shown to be above the baseline: the best layer beside it."""
    row = lens if pd.isna(lens.layer) else probe
    whether = f"the {row.of} reads {TITLES[task].lower()} at any layer"
    source = Source("layers", {"task": task, "measure": MASS, "of": row.of})
    if row.reason != NOT_ABOVE:
        return not_tested(whether, str(row.reason), source=[source])
    return finding(
        claim=f"{TITLES[task]}: the {row.of} reads it",
        whether=whether,
        absent=f"{TITLES[task]}: the {row.of} reads it at no layer",
        contrast="best layer minus share in training",
        test=Contrast.of(row, "difference", "diff_low", "diff_high"),
        source=source,
        unit=row.unit,
    )


def _layer(row: Any) -> str:
    # An empty cell is read back as NaN.
    beside = f" ({row.reason})" if isinstance(row.reason, str) and row.reason else ""
    return f"{row.layer:.0f} [{row.low:.0f}, {row.high:.0f}]{beside}"


@probe_vs_lens.shows
def _overview(result: Result) -> Iterable[Overview]:
    """One row per task."""
    table = result.tables["layers"]
    of_mass = table[table["measure"] == MASS]
    rows: list[tuple[str | int, ...]] = []
    for task in dict.fromkeys(of_mass["task"]):
        by = {row.of: row for row in rows_of(of_mass[of_mass["task"] == task])}
        cells = [
            part
            for of in ("probe", "lens")
            for part in (
                "-" if pd.isna(by[of].layer) else _layer(by[of]),
                cell(by[of].best, by[of].best_low, by[of].best_high),
                _best_layers(result, task, of),
            )
        ]
        rows.append((TITLES[task], *cells, cell(by["lens"].baseline)))
    about = result.provenance
    title = f"{about.model['name']} on {about.corpus['name']}: masked words, probability of the right class"
    ways = [part for of in ("probe", "lens") for part in (f"{of} at layer", "at best", "best layers")]
    yield Overview(title, ("task", *ways, "share in training"), rows)


def _best_layers(result: Result, task: str, of: str) -> str:
    """The layers that no other was shown to beat."""
    table = result.tables["scores"]
    curve = table[
        (table["task"] == task) & (table["of"] == of) & (table["model"] == "model") & (table["measure"] == MASS)
    ]
    best = curve[curve["among_best"] == "yes"]["layer"].tolist()
    return "any" if len(best) == len(curve) else numbers_in_words(best) if best else "-"


@probe_vs_lens.costs
def _cost(
    estimator: Estimator, encoder: Encoder, splits: Splits, facts: Relations | None, *,
    words: int, learn: int, seen: bool, twin: bool, **_: Any,
) -> Cost:  # fmt: skip
    """Passes, lens and probes grow with the number of masked words; without translators."""
    texts, tokens = estimator.count(splits.scored)
    groups = 1 + (facts is not None)
    many = round(groups * (words + 1.25 * learn))
    read = many * tokens / max(1, texts) * (1 + twin + seen)
    return Cost(
        passes=1 + twin + seen,
        texts=many,
        work=read * estimator.per_token,
        memory=memory_now() + many * encoder.layers * encoder.width * 4,
    )
