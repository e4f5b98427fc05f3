"""Measures of questions that stream past, summed by group of answers, beside nulls measured the same way."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float

from lamina.activations.extraction import device_of
from lamina.analyses.answering.groups import (
    AGREEMENTS,
    MEASURES,
    QUESTION,
    SIMILARITIES,
    STABILITIES,
    TIMES,
    WORDS,
    EarlierWords,
    GroupSums,
    add_up,
    agreement,
    labels_of,
    measure,
    ordinary,
    pseudo_labels,
    unit_vectors,
)
from lamina.analyses.answering.roles import (
    CUT,
    GROUPS,
    AnswerPositions,
    groups_of,
    is_cut,
    note_answers,
    pseudo_groups,
    roles_of,
)
from lamina.corpora import Questions
from lamina.corpora.questions.question import Question
from lamina.errors import CorpusError, ModelError
from lamina.models import SPECIAL, Activations, Encoder
from lamina.stats.best import best_set
from lamina.stats.bootstrap import StreamedBootstrap
from lamina.stats.family import bootstrap_family
from lamina.stats.intervals import widened_intervals
from lamina.stats.seeds import draws_over_seeds
from lamina.types import Span, Text

NO_SPANS = "questions without an answer in their context: what needs its place is not measured"
NO_SUPPORT = "questions whose supporting sentences are not known: what needs them is not measured"
UNKNOWN = "questions without an accepted answer: neither right nor wrong"


class QuestionPlan(NamedTuple):
    """What is known of the questions before anything is encoded, and which of them are looked at more closely."""

    size: int
    documents: int
    paragraphs: int
    """Different contexts."""
    positions: AnswerPositions
    """Of answers, for pseudo-answers."""
    lacking: Counter[str]
    clustered: frozenset[int]
    places: dict[int, int]
    """Number of a question -> where its vectors are kept."""

    @property
    def kind(self) -> str:
        """What a unit is."""
        return "document" if self.documents > 1 else "paragraph"

    def unit(self, question: Question) -> str:
        """What is resampled: the document; where there is only one, the paragraph. Never the question alone."""
        if self.documents > 1:
            return question.text.doc or question.text.id
        return question.context or question.text.id


def plan_questions(questions: Questions, *, clustered: int, followed_count: int, seed: int) -> QuestionPlan:
    """Read all questions once; draw those whose words are clustered and those whose vectors are kept."""
    count, positions, lacking = 0, AnswerPositions(), Counter()
    documents: set[str] = set()
    # Only whether there are several matters, so that hashes do.
    paragraphs: set[int] = set()
    for question in questions.questions():
        documents.add(question.text.doc or question.text.id)
        paragraphs.add(hash(question.context))
        note_answers(question, positions)
        edges = question.text.edges
        lacking[NO_SPANS] += not edges.get("answer")
        lacking[NO_SUPPORT] += not edges.get("answer") and not edges.get("sup")
        lacking[UNKNOWN] += not question.answers
        count += 1
    if not count:
        raise CorpusError(f"{questions.name} ({questions.split}) has no questions")
    draw = np.random.default_rng(seed)
    chosen = draw.choice(count, min(clustered, count), replace=False).tolist()
    followed = np.sort(draw.choice(count, min(followed_count, count), replace=False)).tolist()
    places = {number: place for place, number in enumerate(followed)}
    return QuestionPlan(count, len(documents), len(paragraphs), positions, lacking, frozenset(chosen), places)


ALL, RIGHT, WRONG, SURE_WRONG, UNSURE = "all", "right", "wrong", "confident wrong", "low confidence"
ANSWERS = (ALL, RIGHT, WRONG, SURE_WRONG, UNSURE)
"""Groups of questions: by exact match, and of the wrong ones those the model was and was not confident about."""
COLUMNS = (*MEASURES, *AGREEMENTS, *STABILITIES)
_ANISOTROPY = COLUMNS.index("anisotropy")

ADJUSTED = "_adjusted"
"""What the name of a similarity minus the layer's anisotropy ends with."""
PSEUDO, TWIN = "pseudo roles", "random"
"""What a model is compared with: other words of the same shape, and its random-weights twin."""
PHASES = ("model", "layer", "group", "measure", "seeds", "count", "value", "low", "high", "stability")
"""Columns of `phases.csv`."""
LAYERS = ("measure", "layer", "value", "low", "high", "p_beaten", "among_best", "units")
"""Columns of `layers.csv`."""
RANKED = ("answer_apart", "question_nearer_support")
"""Measures whose highest layers are looked for."""
DIFFERENCES = (
    *("model", "against", "layer", "group", "measure", "seeds", "count"),
    *("value", "null", "difference", "low", "high", "p_adjusted", "units", "needed", "unit"),
)
"""Columns of `differences.csv`."""

Values = Float[np.ndarray, "layer column"]


class AnswerOutcome(NamedTuple):
    """What is known of one answer."""

    right: bool
    confidence: float


def memberships(given: AnswerOutcome | None, confident: float) -> list[int]:
    """The groups of ANSWERS a question belongs to.

    Example:
        >>> [ANSWERS[group] for group in memberships(AnswerOutcome(False, 0.9), 0.5)]
        ['all', 'wrong', 'confident wrong']
    """
    if given is None:
        return [0]
    if given.right:
        return [0, ANSWERS.index(RIGHT)]
    return [0, ANSWERS.index(WRONG), ANSWERS.index(SURE_WRONG if given.confidence >= confident else UNSURE)]


class PhaseMeans(NamedTuple):
    """Means over questions and over resampled documents; NaN where nothing was measured."""

    values: Float[np.ndarray, "group layer column"]
    draws: Float[np.ndarray, "sample group layer column"]
    counts: np.ndarray
    """[group, layer, column] Questions."""
    units: np.ndarray
    """[group, layer, column] Documents."""


class PhaseSums:
    """Sums and counts of every measure at every layer; memory does not grow with the number of questions."""

    def __init__(self, layers: int, *, samples: int, seed: int) -> None:
        self._shape = (len(ANSWERS), layers, len(COLUMNS), 2)
        self._bootstrap = StreamedBootstrap(int(np.prod(self._shape)), samples=samples, seed=seed)
        self._key: str | None = None
        self._held = np.zeros(self._shape)
        self._units = np.zeros(self._shape[:-1], int)

    def add(self, key: str, groups: list[int], values: Values) -> None:
        """One question's measures, NaN where there is none; `key` is what is resampled: its document."""
        if key != self._key:
            self._finish()
            self._key = key
        there = np.isfinite(values)
        self._held[groups] += np.stack([np.where(there, values, 0), there], axis=-1)

    def _finish(self) -> None:
        if self._key is not None:
            self._bootstrap.add(self._held.ravel(), self._key)
            self._units += self._held[..., 1] > 0
            self._held = np.zeros(self._shape)

    def means(self) -> PhaseMeans:
        """Of all that was added."""
        self._finish()
        self._key = None
        whole = self._bootstrap.value.reshape(self._shape)
        drawn = self._bootstrap.samples.reshape(-1, *self._shape)
        with np.errstate(invalid="ignore", divide="ignore"):
            values, draws = whole[..., 0] / whole[..., 1], drawn[..., 0] / drawn[..., 1]
        return PhaseMeans(values, draws, whole[..., 1].astype(int), self._units)


class UnrelatedWords:
    """Sums of the words of earlier documents, for what two unrelated words are like."""

    def __init__(self, layers: int, width: int, device: str = "cpu") -> None:
        self._finished = EarlierWords(torch.zeros(layers, width, device=device), torch.zeros(layers, device=device))
        self._held = EarlierWords(*(torch.zeros_like(part) for part in self._finished))
        self._document: str | None = None

    def before(self, document: str) -> EarlierWords:
        """Of all documents before this one."""
        if document != self._document:
            self._finished = EarlierWords(
                *(done + current for done, current in zip(self._finished, self._held, strict=True))
            )
            self._held = EarlierWords(*(torch.zeros_like(part) for part in self._held))
            self._document = document
        return self._finished

    def add(self, sums: torch.Tensor, counts: torch.Tensor) -> None:
        """The words of one text of the document asked about last."""
        self._held = EarlierWords(self._held.sums + sums, self._held.counts + counts)


class QuestionTurn(NamedTuple):
    """One question, and what is known of it."""

    number: int
    question: Question
    given: AnswerOutcome | None
    groups: list[int]
    """Of answers, that it belongs to."""
    predicted: Span | None
    clustered: bool
    """Whether its words are clustered, too."""
    place: int | None
    """Where its vectors are kept; None where they are not."""
    unit: str
    """What is resampled."""

    @property
    def document(self) -> str:
        """The article, story or, where there is none, the question itself."""
        return self.question.text.doc or self.question.text.id


class QuestionMeter:
    """Measures questions in one model, where it runs; with `positions`, pseudo roles too."""

    def __init__(
        self,
        encoder: Encoder,
        *,
        seed: int,
        places: int,
        positions: AnswerPositions | None,
        without_first: bool = False,
    ) -> None:
        self._encoder, self._seed, self._positions, self._without_first = encoder, seed, positions, without_first
        self._device = device_of(encoder)
        self._unrelated = UnrelatedWords(encoder.layers, encoder.width, self._device)
        self.vectors = np.zeros((places, encoder.layers, 2 * encoder.width), np.float32)
        self.skipped: Counter[str] = Counter()

    def watch(self, turns: list[QuestionTurn]) -> list[list[Values]]:
        """Encode some questions and measure them, in their order: the roles, and pseudo roles where they are asked."""
        # Numbered: states are left on the device in the order of batches.
        texts = (
            Text(str(index), turn.question.text.words, turn.question.text.segments) for index, turn in enumerate(turns)
        )
        packed = self._encoder.packed(texts, on="device")
        encoded = {int(activations.text): activations for batch in packed for activations in batch.unpack()}
        return [self._measure(turn, encoded[index]) for index, turn in enumerate(turns)]

    def _measure(self, turn: QuestionTurn, activations: Activations) -> list[Values]:
        if activations.states is None:
            raise ModelError(f"{self._encoder.name} gives no states, so there is nothing to measure")
        inside = activations.tokens.words != SPECIAL
        owners = activations.tokens.words[inside]
        states = activations.states.to(self._device)[torch.from_numpy(inside)]
        keep = ordinary(states)
        self._note(activations, keep)
        if self._without_first:
            keep[torch.from_numpy(np.flatnonzero(inside) == 0).to(self._device)] = False
        self.skipped[CUT] += turn.predicted is not None and is_cut(activations.tokens, turn.question)
        rng = np.random.default_rng([self._seed, turn.number])
        roles = roles_of(turn.question, turn.predicted)
        variants = [groups_of(roles)]
        if self._positions is not None:
            variants.append(pseudo_groups(turn.question, roles, self._positions, rng))
        groups = torch.from_numpy(np.concatenate(variants)[:, owners]).to(self._device)
        unit = unit_vectors(states, keep)
        sums, counts = add_up(unit, keep, groups)
        before = self._unrelated.before(turn.document)
        agreed = np.full((len(variants), len(keep[0]), len(AGREEMENTS) + len(STABILITIES)), np.nan)
        if turn.clustered:
            labels = [labels_of(turn.question.text, variants[0], roles.sentence)]
            labels += [pseudo_labels(turn.question.text, labels[0], rng) for _ in variants[1:]]
            spread = [tuple(column[owners] for column in by_kind) for by_kind in labels]
            # On the CPU: many small steps.
            agreed = agreement(states.cpu(), keep.cpu(), spread, seed=self._seed)
        values = []
        for variant, ami in enumerate(agreed):
            rows = slice(variant * len(GROUPS), (variant + 1) * len(GROUPS))
            measured = measure(unit, keep, groups[rows], GroupSums(sums[rows], counts[rows]), before).cpu().numpy()
            values.append(np.hstack([measured, ami]))
        self._unrelated.add(sums[WORDS], counts[WORDS])
        if turn.place is not None:
            self._keep(turn.place, sums, counts)
        return values

    def _keep(self, place: int, sums: torch.Tensor, counts: torch.Tensor) -> None:
        """The mean vectors of the question and of the context: nothing that only the gold answer tells."""
        question, context = sums[QUESTION], sums[WORDS] - sums[QUESTION]
        numbers = counts[QUESTION], counts[WORDS] - counts[QUESTION]
        means = [part / number.clamp_min(1)[:, None] for part, number in zip((question, context), numbers, strict=True)]
        self.vectors[place] = torch.cat(means, dim=1).cpu().numpy()

    def _note(self, activations: Activations, keep: torch.Tensor) -> None:
        name = self._encoder.name
        self.skipped[f"{name}: {self._encoder.replaced}"] += activations.tokens.unknown
        windowed = f"{name}: questions longer than the model takes, encoded in overlapping windows"
        self.skipped[windowed] += activations.windows > 1
        outliers = f"{name}: tokens left out at some layer, their vectors more than {TIMES:g} times the median's length"
        self.skipped[outliers] += int((~keep).any(1).sum())


class PhaseLedger:
    """What one fine-tuning seed measured: the model, its nulls, and the differences question by question."""

    def __init__(self, layers: int, *, samples: int, seed: int, twin: bool) -> None:
        self.against = (PSEUDO, TWIN) if twin else (PSEUDO,)
        names = (ALL, *self.against, *(f"minus {null}" for null in self.against))
        self._sums = {name: PhaseSums(layers, samples=samples, seed=seed) for name in names}
        self._paired = {name: np.zeros((len(ANSWERS), layers, len(COLUMNS), 2)) for name in self.against}

    def add(self, turn: QuestionTurn, of_model: Values, nulls: Sequence[Values]) -> None:
        """One question: the model's measures, and those of each null."""
        self._sums[ALL].add(turn.unit, turn.groups, of_model)
        for name, values in zip(self.against, nulls, strict=True):
            self._sums[name].add(turn.unit, turn.groups, values)
            self._sums[f"minus {name}"].add(turn.unit, turn.groups, of_model - values)
            both = np.isfinite(of_model - values)
            self._paired[name][turn.groups] += np.stack([np.where(both, of_model, 0), both], axis=-1)

    def paired(self, against: str) -> Float[np.ndarray, "group layer column"]:
        """The model's means over the questions that were measured on both sides."""
        sums, counts = np.moveaxis(self._paired[against], -1, 0)
        return np.divide(sums, counts, out=np.full_like(sums, np.nan), where=counts > 0)

    def means(self) -> dict[str, PhaseMeans]:
        """By name; the anisotropy that pseudo roles are adjusted for is the model's."""
        means = {name: sums.means() for name, sums in self._sums.items()}
        for part in ("values", "draws", "counts", "units"):
            anisotropy = getattr(means[ALL], part)[..., _ANISOTROPY]
            getattr(means[PSEUDO], part)[..., _ANISOTROPY] = anisotropy
            # A difference from other words at the same layer needs no adjusting.
            getattr(means[f"minus {PSEUDO}"], part)[..., _ANISOTROPY] = 0 * anisotropy
        return means


class PhaseCell(NamedTuple):
    """One number of one group of questions, at one layer."""

    group: int
    layer: int
    measure: str
    questions: int
    units: int
    value: float
    draws: Float[np.ndarray, " sample"]


def _cells(by_seed: Sequence[PhaseMeans]) -> Iterator[PhaseCell]:
    """One per group, layer and measure; similarities also minus the layer's anisotropy. Means over seeds."""
    values, draws = np.stack([ledger.values for ledger in by_seed]), np.stack([ledger.draws for ledger in by_seed])
    counts = np.mean([ledger.counts for ledger in by_seed], axis=0).round().astype(int)
    # A document is one of any seed's: which answers are right differs from seed to seed.
    units = np.max([ledger.units for ledger in by_seed], axis=0)
    # What unrelated words are like is a fact of the layer, whichever answers are looked at.
    alike, alikes = values[:, :1, :, [_ANISOTROPY]], draws[:, :, :1, :, [_ANISOTROPY]]
    sides = [
        (raw.mean(0), draws_over_seeds(raw, drawn))
        for raw, drawn in ((values, draws), (values - alike, draws - alikes))
    ]
    for place in np.ndindex(counts.shape):
        group, layer, column = place
        name, size = COLUMNS[column], (int(counts[place]), int(units[place]))
        for (value, drawn), ending in zip(sides, ("", ADJUSTED), strict=True):
            if np.isfinite(value[place]) and (not ending or name in SIMILARITIES):
                yield PhaseCell(
                    group, layer, f"{name}{ending}", *size, float(value[place]), drawn[(slice(None), *place)]
                )


def phase_lines(model: str, by_seed: Sequence[PhaseLedger]) -> Iterator[tuple]:
    """The rows of `phases.csv`: the model and its nulls."""
    means = [ledger.means() for ledger in by_seed]
    for name in (ALL, *by_seed[0].against):
        called = model if name == ALL else f"{model} ({name})"
        cells = list(_cells([ledger[name] for ledger in means]))
        stability = {(cell.group, cell.layer, cell.measure): cell.value for cell in cells}
        visible = [cell for cell in cells if cell.measure not in STABILITIES]
        visible = [cell for cell in visible if name != PSEUDO or cell.measure != "anisotropy"]
        for cell, low, high in zip(visible, *_ends(visible), strict=True):
            start = (called, cell.layer, ANSWERS[cell.group], cell.measure, len(by_seed), cell.questions)
            # Widened draws do not know that two clusterings cannot agree more than fully.
            most = 1.0 if cell.measure in AGREEMENTS else np.inf
            again = stability.get((cell.group, cell.layer, f"{cell.measure}_stability"), np.nan)
            yield *start, cell.value, low, min(high, most), again


def _ends(cells: Sequence[PhaseCell]) -> tuple[list[float], list[float]]:
    """95 % intervals; NaN where fewer than two documents were drawn."""
    if not cells:
        return [], []
    values, units = (np.array([getattr(cell, name) for cell in cells], float) for name in ("value", "units"))
    low, high = widened_intervals(values, np.stack([cell.draws for cell in cells], 1), units)
    return low.tolist(), high.tolist()


def layer_lines(by_seed: Sequence[PhaseLedger]) -> Iterator[tuple]:
    """The rows of `layers.csv`: at which layers the measures of the phases can be highest, of all questions."""
    cells = list(_cells([ledger.means()[ALL] for ledger in by_seed]))
    for name in RANKED:
        ranked = [cell for cell in cells if cell.group == ANSWERS.index(ALL) and cell.measure == name]
        if not ranked:
            continue
        units = min(cell.units for cell in ranked)
        values, draws = np.array([cell.value for cell in ranked]), np.stack([cell.draws for cell in ranked], 1)
        best = best_set(values, draws, units)
        for cell, low, high, p, inside in zip(ranked, *_ends(ranked), best.p, best.among, strict=True):
            yield name, cell.layer, cell.value, low, high, float(p), bool(inside), cell.units


def difference_lines(model: str, by_seed: Sequence[PhaseLedger], unit: str = "document") -> Iterator[tuple]:
    """The rows of `differences.csv`: over the questions that both sides were measured for."""
    means = [ledger.means() for ledger in by_seed]
    alike = np.mean([ledger[ALL].values[0, :, _ANISOTROPY] for ledger in means], axis=0)
    paired = {name: np.mean([ledger.paired(name) for ledger in by_seed], axis=0) for name in by_seed[0].against}
    cells = [
        (against, cell)
        for against in by_seed[0].against
        for cell in _cells([ledger[f"minus {against}"] for ledger in means])
        if _differs(cell, against)
    ]
    for (against, cell), test in zip(cells, family_tests(cells), strict=True):
        plain = cell.measure.removesuffix(ADJUSTED)
        value = float(paired[against][cell.group, cell.layer, COLUMNS.index(plain)])
        value -= float(alike[cell.layer]) if plain != cell.measure else 0.0
        start = (model, against, cell.layer, ANSWERS[cell.group], cell.measure, len(by_seed), cell.questions)
        yield *start, value, value - cell.value, *test, unit


def _differs(cell: PhaseCell, against: str) -> bool:
    """Anisotropy has no roles; the question is the same words among pseudo roles."""
    same = "within_question" if against == PSEUDO else "anisotropy"
    measured = cell.measure != "anisotropy" and cell.measure not in STABILITIES
    return measured and cell.measure.removesuffix(ADJUSTED) != same


def family_tests(cells: Sequence[tuple[str, PhaseCell]]) -> list[tuple[float, ...]]:
    """Difference, simultaneous interval, adjusted p, units and how many are needed, of every cell.

    A family is one measure of one group of questions: its layers, against both nulls.
    """
    families: dict[tuple[int, str], list[int]] = {}
    for number, (_, cell) in enumerate(cells):
        families.setdefault((cell.group, cell.measure), []).append(number)
    rows_of_cells: dict[int, tuple[float, ...]] = {}
    for members in families.values():
        values, units = (
            np.array([getattr(cells[member][1], name) for member in members], float) for name in ("value", "units")
        )
        tests = bootstrap_family(values, np.stack([cells[member][1].draws for member in members], 1), units)
        rows = zip(*(column.tolist() for column in tests), strict=True)
        rows_of_cells |= dict(zip(members, rows, strict=True))
    return [rows_of_cells[number] for number in range(len(cells))]
