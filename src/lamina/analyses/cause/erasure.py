"""Concepts that are erased from a layer, and what that does to everything above.

A concept belongs to targets: words, or spans of several. A target's state is the mean over its tokens. What is made
equal for all classes is thereby both the mean of the targets and that of their tokens, where each target counts once.
Since states of all words are changed, the change is the least over all of them, whether they are targets or not. Its
effects are compared with those of a random subspace and of a control task.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from lamina.analyses.cause.effects import (
    MISSING,
    Effect,
    ScoreChange,
    effects_of,
    margin_of,
    mean_scores,
    measure,
    score_interval,
)
from lamina.corpora.splits import Splits, divide
from lamina.errors import ModelError, TaskError
from lamina.models.interventions.edited_runs import Change as StateChange
from lamina.models.interventions.edited_runs import CleanRun, Edit
from lamina.models.interventions.interventions import Interventions
from lamina.models.running.batching import InputRow
from lamina.models.running.huggingface import HuggingFaceEncoder
from lamina.models.running.tokens import token_id
from lamina.probes.erasers import Eraser, StateMoments, Whitened
from lamina.probes.linear import LabelledVectors, fit_softmax
from lamina.probes.streams import find_targets
from lamina.progress import progress
from lamina.stats.bootstrap import ratio_draws
from lamina.stats.family import bootstrap_family
from lamina.stats.intervals import widening
from lamina.stats.seeds import seed_shares
from lamina.stats.status import SURE, status_of
from lamina.stats.units import CHOOSING, Units, halve, unit_of
from lamina.targets.probes import BatchSpans, span_means
from lamina.targets.target import Target, TargetScores, some_texts
from lamina.tasks import Task, label_set
from lamina.tasks.catalogue import choose_tasks
from lamina.tasks.task import control_labels
from lamina.types import Edge, Text

CONCEPT, RANDOM, CONTROL = WHATS = ("concept", "random_subspace", "control")
"""What is erased: what tells a task's classes apart, a random subspace as large, what tells random classes of words
apart."""
SHARE_BESIDE = 4
"""Targets that erasers are fitted on, per target that chooses penalties or is of other documents."""
_LEAST = 2
"""Targets per dimension of a state with which an eraser is fitted at all; more by far are better."""
_STATES = 2**30
"""Bytes of states that are held at a time."""
_TOGETHER = 2048
"""Tokens whose products are summed at a time."""


class ConceptTargets(NamedTuple):
    """Some targets of a task."""

    texts: tuple[Text, ...]
    text: Int[np.ndarray, " target"]
    """Number of its text."""
    tokens: Int[np.ndarray, "target span 2"]
    """First token and one past the last."""
    gold: Int[np.ndarray, " target"]
    """Its class; -1 if training has none of it."""
    control: Int[np.ndarray, " target"]
    """Its class in the control task: drawn at random for each word."""
    units: tuple[str, ...]
    """The document of each target, or its text."""

    def __len__(self) -> int:
        return len(self.gold)


@dataclass(frozen=True)
class Concept:
    """A task whose classes are erased, and the targets that are needed for it."""

    task: Task
    labels: tuple[str, ...]
    fitted: ConceptTargets
    """What erasers are fitted on, and probes learn from."""
    select: ConceptTargets
    """What penalties of probes are chosen by."""
    elsewhere: ConceptTargets
    """Of other training documents: a probe learns from them what the eraser may have left."""
    scored: ConceptTargets
    """Held-out documents."""
    left_out: int
    """Training texts that are also scored."""

    @property
    def skipped(self) -> Counter[str]:
        """Why something was left out -> how many times."""
        unseen = int((self.scored.gold < 0).sum())
        return +Counter(
            {
                "training texts that are also scored": self.left_out,
                "scored targets of classes unseen in training (scored as errors)": unseen,
            }
        )

    @property
    def constant(self) -> int:
        """The most frequent class in training."""
        return int(np.bincount(self.fitted.gold[self.fitted.gold >= 0]).argmax())


def plan_concepts(
    names: Sequence[str], encoder: HuggingFaceEncoder, splits: Splits, *, learn: int, words: int, seed: int
) -> list[Concept]:
    """The concepts of some tasks.

    Args:
        names: tasks of the corpus, of one span and one label.
        encoder: cuts texts into tokens.
        splits: training and scored texts.
        learn: targets that erasers are fitted on, about; a quarter as many select, and as many are of other documents.
        words: targets that probes are scored on, about.
        seed: draws texts and control labels.
    """
    tasks = choose_tasks(names, splits, faithful=False)
    division = divide(splits, seed=seed)
    train = list(splits.train)
    learned, stopped = ([train[number] for number in numbers] for numbers in (division.learn, division.stop))
    halves = halve(learned, seed)
    fitted, elsewhere = (
        [text for text in learned if (halves.of(text) == CHOOSING) is beside] for beside in (False, True)
    )
    concepts = []
    for task in tasks:
        _refuse(task, splits)
        drawing = _TargetSampler(task, label_set(task, learned), control_labels(task, learned, seed), encoder, seed)
        beside = max(1, learn // SHARE_BESIDE)
        concept = Concept(
            task,
            drawing.labels,
            drawing.targets(fitted, learn),
            drawing.targets(stopped, beside),
            drawing.targets(elsewhere, beside),
            drawing.targets(list(splits.scored), words),
            division.left_out,
        )
        _refuse_few(concept, encoder, splits)
        concepts.append(concept)
    return concepts


class LayerErasers(NamedTuple):
    """What is erased at a layer for one task."""

    layer: int
    concept: Eraser
    random: tuple[Eraser, ...]
    """Several draws, each of the concept's rank."""
    control: Eraser

    def of(self, what: str) -> tuple[Eraser, ...]:
        """The erasers of a kind."""
        return {CONCEPT: (self.concept,), RANDOM: self.random, CONTROL: (self.control,)}[what]


class LayerStates(NamedTuple):
    """The states of a concept's targets at one layer."""

    fitted: Float[np.ndarray, "target width"]
    select: Float[np.ndarray, "target width"]
    elsewhere: Float[np.ndarray, "target width"]
    scored: Float[np.ndarray, "target width"]


def fitted_erasers(
    encoder: HuggingFaceEncoder, concept: Concept, layers: Sequence[int], *, draws: int, variance: bool, seed: int
) -> Iterator[tuple[LayerErasers, LayerStates]]:
    """The erasers of each layer, and the states there; as many layers in one pass as fit into memory.

    With `variance`, random subspaces take away as much of it as the concept does.
    """
    parts = (concept.fitted, concept.select, concept.elsewhere, concept.scored)
    at_once = max(1, _STATES // (4 * encoder.width * sum(map(len, parts))))
    known = torch.from_numpy(np.flatnonzero(concept.fitted.gold >= 0))
    classes = [torch.from_numpy(numbers)[known] for numbers in (concept.fitted.gold, concept.fitted.control)]
    for start in range(0, len(layers), at_once):
        some = layers[start : start + at_once]
        moments = StateMoments(len(some), encoder.width, [len(concept.labels)] * 2)
        states = [_states(encoder, targets, some, None if number else moments) for number, targets in enumerate(parts)]
        moments.add_labelled(torch.from_numpy(states[0])[known], classes)
        for number, layer in enumerate(some):
            whitened = Whitened(moments, number)
            eraser = whitened.concept(0)
            random = tuple(
                whitened.random(eraser, _generator(seed, concept.task.name, layer, draw), variance=variance)
                for draw in range(draws)
            )
            yield (
                LayerErasers(layer, eraser, random, whitened.concept(1)),
                LayerStates(*(numbers[:, number] for numbers in states)),
            )


def _states(
    encoder: HuggingFaceEncoder, targets: ConceptTargets, layers: Sequence[int], moments: StateMoments | None
) -> Float[np.ndarray, "target layer width"]:
    """The mean over the tokens of each target; the tokens of all words, targets or not, are added to the moments."""
    means = np.empty((len(targets), len(layers), encoder.width), np.float32)
    bounds = np.searchsorted(targets.text, np.arange(len(targets.texts) + 1))
    waiting: list[Tensor] = []
    with progress(f"states of {encoder.name}", len(targets.texts)) as advance:
        for number, encoded in enumerate(encoder.encode(targets.texts)):
            if encoded.states is None:
                raise ModelError(f"{encoder.name} gave no states for the text {encoded.text}")
            of_text = slice(bounds[number], bounds[number + 1])
            states = encoded.states[:, list(layers)].float()
            spans = BatchSpans(np.zeros(of_text.stop - of_text.start, np.int64), targets.tokens[of_text])
            means[of_text] = span_means(states.flatten(1)[None], spans).unflatten(1, (len(layers), -1)).cpu().numpy()
            if moments is not None:
                waiting.append(states[torch.from_numpy(encoded.tokens.words >= 0)])
                if sum(map(len, waiting)) >= _TOGETHER:
                    moments.add(torch.cat(waiting))
                    waiting = []
            advance()
    if moments is not None and waiting:
        moments.add(torch.cat(waiting))
    return means


@dataclass(frozen=True)
class _TargetSampler:
    """Draws the targets of a task, with their gold and control labels."""

    task: Task
    labels: tuple[str, ...]
    control_labels: Callable[[Text, Edge], tuple[str, ...]]
    """The control task."""
    encoder: HuggingFaceEncoder
    seed: int

    def targets(self, texts: Sequence[Text], most: int) -> ConceptTargets:
        """The targets of whole texts, drawn by the hash of their ids until there are about `most`."""
        task = self.task
        having = [text for text in texts if task.targets(text)]
        every = sum(len(task.targets(text)) for text in having)
        share = min(1.0, most / max(1, every))
        sampled = some_texts(having, max(1, round(len(having) * share)), self.seed)
        targets = find_targets(task, sampled, self.encoder.tokenize_all(sampled), self.labels)
        if len(targets) and not (targets.gold.sum(1) + targets.unseen.sum(1) == 1).all():
            raise TaskError(
                f"{task.name}: some targets have several labels or none; erasure needs exactly one label per target: "
                "name a task such as pos or ner"
            )
        numbers = {label: number for number, label in enumerate(self.labels)}
        control = [numbers[self.control_labels(text, edge)[0]] for text in sampled for edge in task.targets(text)]
        unit = unit_of(sampled)
        gold = np.where(targets.gold.any(1), targets.gold.argmax(1), -1)
        units = tuple(unit.of(sampled[index]) for index in targets.text)
        return ConceptTargets(tuple(sampled), targets.text, targets.tokens, gold, np.array(control, np.int64), units)


def _refuse(task: Task, splits: Splits) -> None:
    """A TaskError where a task has no classes of single spans."""
    if task.arity == 1 and not task.graded:
        return
    why = "its targets are pairs of spans" if task.arity == 2 else "its targets have a value instead of a class"
    raise TaskError(
        f"{task.name}: {why}, and erasure needs one class per word or span; name another task of {splits.name}, "
        "such as pos or ner"
    )


def _refuse_few(concept: Concept, encoder: HuggingFaceEncoder, splits: Splits) -> None:
    parts = {
        "to fit on": concept.fitted,
        "to choose penalties by": concept.select,
        "of other documents": concept.elsewhere,
        "to score": concept.scored,
    }
    empty = [name for name, targets in parts.items() if not len(targets)]
    classes = len(np.unique(concept.fitted.gold[concept.fitted.gold >= 0]))
    # With few more targets than dimensions, classes are separable by chance, and erasing them erases everything.
    if empty or classes < 2 or len(concept.fitted) < _LEAST * encoder.width:
        raise TaskError(
            f"{concept.task.name}: {splits.name} has too few targets to fit an eraser: {len(concept.fitted):,} of "
            f"{classes} classes for states of {encoder.width} dimensions"
            + (f", and none {', '.join(empty)}" if empty else "")
            + "; give more training texts, or raise --learn"
        )


def _generator(*key: object) -> torch.Generator:
    digest = hashlib.blake2b(":".join(map(str, key)).encode(), digest_size=7).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest, "big"))


# Whether a linear probe reads a concept from a layer, before and after the concept is erased there.

READABLE = (
    "task", "layer", "targets", "constant", "before", "before_low", "before_high", "after", "after_low", "after_high",
    "elsewhere", "elsewhere_low", "elsewhere_high", "ahead", "ahead_low", "ahead_high", "p_adjusted", "units", "needed",
    "left", "left_low", "left_high", "known", "gone",
)  # fmt: skip
_LEFT = 0.05
"""How far above the constant answer a probe may come after erasing, at most: the upper end of the interval."""


class ReadableLayer(NamedTuple):
    """What linear probes read at one layer; scores are accuracies on held-out documents, with 95 % intervals."""

    targets: int
    constant: float
    """What answering the most frequent class of the training targets scores."""
    before: tuple[float, float, float]
    after: tuple[float, float, float]
    """Of a probe that learned from the erased states of the targets that the eraser was fitted on."""
    elsewhere: tuple[float, float, float]
    """Of one that learned from the erased states of other documents: what an eraser fitted on few targets leaves."""
    ahead: Effect
    """Before minus the constant answer; p is one-sided."""
    left: Effect
    """After minus the constant answer."""
    known: bool
    """Whether the concept is readable before: surely more than the constant answer."""
    gone: bool
    """Whether it is not readable after: at most little more than the constant answer."""
    unconverged: int
    """Probes that did not converge; their scores are missing."""

    def row(self, task: str, layer: int) -> tuple[Any, ...]:
        """Of the table."""
        scores = (*self.before, *self.after, *self.elsewhere)
        tests = (*self.ahead[2:], *self.left[2:5])
        return task, layer, self.targets, self.constant, *scores, *tests, self.known, self.gone


class ProbeHits(NamedTuple):
    """Which scored targets probes of one layer are right about; None where a probe did not converge."""

    before: Float[np.ndarray, " target"] | None
    after: Float[np.ndarray, " target"] | None
    elsewhere: Float[np.ndarray, " target"] | None


def probe_layer(concept: Concept, states: LayerStates, eraser: Eraser, device: torch.device) -> ProbeHits:
    """Fresh probes before and after the concept is erased."""
    erased = LayerStates(*(eraser(torch.from_numpy(part)).numpy() for part in states))
    return ProbeHits(
        _hits(concept, concept.fitted, states.fitted, states, device),
        _hits(concept, concept.fitted, erased.fitted, erased, device),
        _hits(concept, concept.elsewhere, erased.elsewhere, erased, device),
    )


def readable_layers(
    probed: Mapping[int, ProbeHits],
    constant: Float[np.ndarray, " target"],
    units: Sequence[str],
    *,
    samples: int,
    seed: int,
) -> dict[int, ReadableLayer]:
    """What is readable at each layer, tested over all of them together.

    Args:
        probed: layer -> what its probes are right about.
        constant: which targets the constant answer is right about.
        units: the document of each target.
        samples: bootstrap samples.
        seed: of the draw.
    """
    ahead, left = (_against(constant, probed, units, name) for name in ("before", "after"))
    readable = {}
    for layer, hits in probed.items():
        before, after, elsewhere = (_score(right, units, samples=samples, seed=seed) for right in hits)
        readable[layer] = ReadableLayer(
            len(units),
            float(constant.mean()),
            before,
            after,
            elsewhere,
            ahead[layer],
            left[layer],
            bool(ahead[layer].p < SURE),
            bool(left[layer].high < _LEFT),
            sum(right is None for right in hits),
        )
    return readable


def _against(
    constant: Float[np.ndarray, " target"], probed: Mapping[int, ProbeHits], units: Sequence[str], name: str
) -> dict[int, Effect]:
    """Of the probes of all layers, how much more they are right than the constant answer."""
    one = np.ones(len(constant))
    hits = {layer: getattr(layer_hits, name) for layer, layer_hits in probed.items()}
    changes = {
        layer: ScoreChange(TargetScores(constant, one), TargetScores(right, one), units)
        for layer, right in hits.items()
        if right is not None
    }
    effects = iter(effects_of(list(changes.values()), harm=1 if name == "before" else 0))
    return {layer: next(effects) if layer in changes else MISSING for layer in hits}


def _hits(
    concept: Concept,
    learned: ConceptTargets,
    vectors: Float[np.ndarray, "target width"],
    states: LayerStates,
    device: torch.device,
) -> Float[np.ndarray, " target"] | None:
    """Which scored targets a probe is right about; None where it did not converge."""
    known, select = learned.gold >= 0, concept.select.gold >= 0
    probe = fit_softmax(
        LabelledVectors(vectors[known], learned.gold[known]),
        LabelledVectors(states.select[select], concept.select.gold[select]),
        len(concept.labels),
        device,
    )
    if not probe.converged:
        return None
    return (probe.probabilities(states.scored).argmax(1) == concept.scored.gold).astype(float)


def _score(
    hits: Float[np.ndarray, " target"] | None, units: Sequence[str], *, samples: int, seed: int
) -> tuple[float, float, float]:
    if hits is None:
        return np.nan, np.nan, np.nan
    scores = TargetScores(hits, np.ones_like(hits))
    return scores.value, *score_interval(scores, units, samples=samples, seed=seed)


ERASE = (
    "task", "layer", "what", "rank", "target", "baseline", "value", "effect", "low", "high", "p_adjusted", "units",
    "needed", "verdict",
)  # fmt: skip
DIFFERENCES = (
    "task", "layer", "target", "against", "variance", "other_variance", "value", "other", "difference", "low", "high",
    "p_adjusted", "units", "needed",
)  # fmt: skip
Tokens = Literal["words", "all"]
"""Whose states are erased."""
USED, UNUSED, OPEN, UNKNOWN = "known and used", "known and not used", "open", "not known"
"""Verdicts; the last where a linear probe cannot read the concept before erasure."""
_ALIKE = 0.1
"""Random subspaces take as much variance as the concept where the shares are this close, by the concept's."""


class ErasureScores(NamedTuple):
    """The scores of a target with each subspace of one layer erased."""

    layer: int
    ranks: Mapping[str, int]
    variances: Mapping[str, float]
    """What is erased -> the share of the states' variance that it takes, the mean of its draws."""
    before: TargetScores
    after: Mapping[str, Sequence[TargetScores]]
    """What is erased -> scores, one per draw."""
    units: Sequence[str]
    harm: int
    """1 where higher scores are worse, else -1."""

    def change(self, what: str, than: str | None = None) -> ScoreChange:
        """What erasing something does, against the model as it is or against erasing something else."""
        before = self.before if than is None else mean_scores(self.after[than])
        return ScoreChange(before, mean_scores(self.after[what]), self.units)


class ErasureEffects(NamedTuple):
    """One layer and target, tested with the other layers."""

    layer: int
    ranks: Mapping[str, int]
    variances: Mapping[str, float]
    effects: Mapping[str, Effect]
    """What is erased -> its effect; the mean of the draws of random subspaces."""
    differences: Mapping[str, Effect]
    """Random subspace and control -> what the concept does beside it; p is one-sided, that it does more harm."""
    scored: int
    """Answers, or tokens, that the target counts."""

    @property
    def alike(self) -> bool:
        """Whether random subspaces took as much variance as the concept."""
        return variances_alike(self.variances[CONCEPT], self.variances[RANDOM])


def variances_alike(concept: float, other: float) -> bool:
    """Whether two subspaces took about as much of the variance.

    Example:
        >>> variances_alike(0.17, 0.17), variances_alike(0.17, 0.06)
        (True, False)
    """
    return abs(other - concept) <= _ALIKE * concept


def measure_target(
    parts: Interventions, target: Target, erasers: Sequence[LayerErasers], *, tokens: Tokens, what: str
) -> list[ErasureScores]:
    """The target as it is and with each layer's concept, random subspaces and control erased.

    Layers above those that the target looks at are left out.
    """
    special = None if tokens == "all" else _special(parts.encoder)
    below = [layer_erasers for layer_erasers in erasers if layer_erasers.layer <= max(target.layers)]
    edits = [
        Edit(states={layer_erasers.layer: _erasing(eraser, target.rows, special)})
        for layer_erasers in below
        for kind in WHATS
        for eraser in layer_erasers.of(kind)
    ]
    if not edits:
        return []
    before, *after = measure(parts, target, edits, what=what)
    scores = iter(after)
    harm = 1 if target.lower_is_better else -1
    return [
        ErasureScores(
            layer_erasers.layer,
            {kind: layer_erasers.of(kind)[0].rank for kind in WHATS},
            {kind: float(np.mean([eraser.variance for eraser in layer_erasers.of(kind)])) for kind in WHATS},
            before,
            {kind: [next(scores) for _ in layer_erasers.of(kind)] for kind in WHATS},
            target.units,
            harm,
        )
        for layer_erasers in below
    ]


def compare_layers(erased: Sequence[ErasureScores], *, samples: int, seed: int) -> list[ErasureEffects]:
    """Effects and differences of all layers, each kind a family over the layers."""
    if not erased:
        return []
    effects = {kind: effects_of([layer_scores.change(kind) for layer_scores in erased]) for kind in (CONCEPT, CONTROL)}
    effects[RANDOM] = _over_draws(erased, samples=samples, seed=seed)
    beside = {
        RANDOM: _over_draws(erased, concept=True, samples=samples, seed=seed),
        CONTROL: effects_of([layer_scores.change(CONCEPT, CONTROL) for layer_scores in erased], harm=erased[0].harm),
    }
    return [
        ErasureEffects(
            layer_scores.layer,
            layer_scores.ranks,
            layer_scores.variances,
            {kind: effects[kind][number] for kind in WHATS},
            {kind: beside[kind][number] for kind in (RANDOM, CONTROL)},
            int(layer_scores.before.counts.sum()),
        )
        for number, layer_scores in enumerate(erased)
    ]


def contrasts_of(measured: ErasureEffects) -> dict[str, Effect]:
    """What has to harm for a concept to be used: it alone, and beside random subspaces and a control task."""
    return {**measured.differences, CONCEPT: measured.effects[CONCEPT]}


def verdict_of(measured: ErasureEffects, readable: ReadableLayer, target: str, harm: int) -> str:
    """Whether a readable concept is used.

    Used: erasing it harms, more than random subspaces that take as much variance, and more than the control; each is
    a contrast of its own, and all have to be clear. Not used: one of them is null. Open where a probe still reads it
    afterwards, or where random subspaces took another share of the variance.
    """
    if not readable.known:
        return OPEN if np.isnan(readable.before[0]) or readable.ahead.needed else UNKNOWN
    if not readable.gone or not measured.alike:
        return OPEN
    statuses = []
    for effect in contrasts_of(measured).values():
        status = status_of(effect.low, effect.high, effect.p, needed=effect.needed, margin=margin_of(target))
        statuses.append("open" if status == "clear" and effect.effect * harm < 0 else status)
    if set(statuses) == {"clear"}:
        return USED
    return UNUSED if "null" in statuses else OPEN


def effect_rows(
    task: str, target: str, measured: Sequence[ErasureEffects], readable: Mapping[int, ReadableLayer], harm: int
) -> Iterator[tuple[Any, ...]]:
    """Rows of the table `erase`."""
    for effects in measured:
        verdict = verdict_of(effects, readable[effects.layer], target, harm)
        for kind in WHATS:
            shown_verdict = verdict if kind == CONCEPT else ""
            yield task, effects.layer, kind, effects.ranks[kind], target, *effects.effects[kind], shown_verdict


def difference_rows(task: str, target: str, measured: Sequence[ErasureEffects]) -> Iterator[tuple[Any, ...]]:
    """Rows of the table `differences`."""
    for effects in measured:
        for kind, effect in effects.differences.items():
            shares = effects.variances[CONCEPT], effects.variances[kind]
            yield task, effects.layer, target, kind, *shares, effect.value, effect.baseline, *effect[2:]


def _over_draws(erased: Sequence[ErasureScores], *, samples: int, seed: int, concept: bool = False) -> list[Effect]:
    """The mean effect of random subspaces, or how much more the concept does than one more of them would.

    Documents vary, and so do the subspaces drawn: if the concept's were just another random one, its effect would vary
    like theirs, by their variance and by that of their mean. Documents are resampled, widened for few of them, and the
    subspaces follow Student's t (`seed_shares`).
    """
    units = Units.of(erased[0].units, "item")
    wider = widening(len(units))
    estimates, draws = [], []
    for number, layer_scores in enumerate(erased):
        change = layer_scores.change(CONCEPT, RANDOM) if concept else layer_scores.change(RANDOM)
        estimate = change.after.value - change.before.value
        before, after = (
            ratio_draws(units.sums(scores.hits), units.sums(scores.counts), units, samples=samples, seed=seed)
            for scores in change[:2]
        )
        values = np.array([scores.value for scores in layer_scores.after[RANDOM]])
        shares = seed_shares(len(values), samples, np.random.default_rng([seed, number]))
        # The standard error of the mean, or that of the difference of one more value from it.
        spread = np.sqrt(len(values) + 1) if concept else 1.0
        estimates.append(estimate)
        draws.append(estimate + wider * (after - before - estimate) + spread * shares @ (values - values.mean()))
    drawn, harm = np.stack(draws, 1), erased[0].harm
    tests = bootstrap_family(np.array(estimates), drawn, len(units), widen=False)
    sided = (
        bootstrap_family(harm * np.array(estimates), harm * drawn, len(units), widen=False, alternative="greater")
        if concept
        else tests
    )
    effects = []
    for member, layer_scores in enumerate(erased):
        change = layer_scores.change(CONCEPT, RANDOM) if concept else layer_scores.change(RANDOM)
        estimate, low, high, p = (float(column[member]) for column in (tests.estimate, tests.low, tests.high, sided.p))
        needed = int(sided.needed[member])
        effects.append(Effect(change.before.value, change.after.value, estimate, low, high, p, len(units), needed))
    return effects


def _erasing(eraser: Eraser, rows: Sequence[InputRow], special: Int[np.ndarray, " special"] | None) -> StateChange:
    """Erases the states of words that the model sees; of all tokens where None are special.

    Words are what erasers are fitted on. Special tokens and masks lie far from them and have no class, and many heads
    lean on special tokens whatever the words are.
    """

    def change(states: Tensor, clean: CleanRun) -> Tensor:
        if special is None:
            return eraser(states)
        words = torch.zeros(states.shape[:2], dtype=torch.bool)
        for row, number in enumerate(clean.rows):
            ids = rows[number].ids
            words[row, : len(ids)] = torch.from_numpy(~np.isin(ids, special))
        return torch.where(words.to(states.device)[..., None], eraser(states), states)

    return change


def _special(encoder: HuggingFaceEncoder) -> Int[np.ndarray, " special"]:
    """Ids of tokens that are no words: special ones, with masks; a word that is not in the vocabulary is one."""
    tokenizer = encoder.tokenizer
    others = {
        str(token) for token in (tokenizer.bos_token, tokenizer.eos_token, tokenizer.cls_token, tokenizer.sep_token)
    }
    unknown = set() if str(tokenizer.unk_token) in others else {token_id(tokenizer.unk_token_id)}
    return np.array(sorted(set(tokenizer.all_special_ids) - unknown), np.int64)
