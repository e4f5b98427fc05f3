"""Measures of questions that stream past, summed for every group of answers, with intervals over documents."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float

from lamina.analyses.questions.answering import CUT, is_cut
from lamina.analyses.questions.clusters import AGREEMENTS, agreement, labels_of
from lamina.analyses.questions.measures import (
    MEASURES,
    QUESTION,
    SIMILARITIES,
    TIMES,
    WORDS,
    Before,
    Sums,
    add_up,
    measure,
    ordinary,
    unit_vectors,
)
from lamina.analyses.questions.roles import GROUPS, groups_of, roles_of, shuffled
from lamina.analyses.resampling import StreamedBootstrap
from lamina.corpora.questions import Question
from lamina.encoders import SPECIAL, Activations, Encoder
from lamina.errors import ModelError
from lamina.types import Span

ALL, RIGHT, WRONG, SURE_WRONG, UNSURE = "all", "right", "wrong", "confident wrong", "low confidence"
ANSWERS = (ALL, RIGHT, WRONG, SURE_WRONG, UNSURE)
"""Groups of questions: by exact match, and of the wrong ones those the model was and was not confident about."""
COLUMNS = (*MEASURES, *AGREEMENTS)
_ANISOTROPY = COLUMNS.index("anisotropy")

Line = tuple[str, int, str, str, int, float, float, float]


class Given(NamedTuple):
    """What is known of one answer."""

    right: bool
    confidence: float


def memberships(given: Given | None, confident: float) -> list[int]:
    """The groups of ANSWERS a question belongs to.

    Example:
        >>> [ANSWERS[group] for group in memberships(Given(False, 0.9), 0.5)]
        ['all', 'wrong', 'confident wrong']
    """
    if given is None:
        return [0]
    if given.right:
        return [0, ANSWERS.index(RIGHT)]
    return [0, ANSWERS.index(WRONG), ANSWERS.index(SURE_WRONG if given.confidence >= confident else UNSURE)]


class PhaseSums:
    """Sums and counts of every measure at every layer; memory does not grow with the number of questions."""

    def __init__(self, layers: int, *, samples: int, seed: int) -> None:
        self._shape = (len(ANSWERS), layers, len(COLUMNS), 2)
        self._bootstrap = StreamedBootstrap(int(np.prod(self._shape)), samples=samples, seed=seed)
        self._key: str | None = None
        self._held = np.zeros(self._shape)

    def add(self, key: str, groups: list[int], values: Float[np.ndarray, "layer column"]) -> None:
        """One question's measures, NaN where there is none; `key` is what is resampled: its document, or itself."""
        if key != self._key:
            self._finish()
            self._key = key
        there = np.isfinite(values)
        self._held[groups] += np.stack([np.where(there, values, 0), there], axis=-1)

    def _finish(self) -> None:
        if self._key is not None:
            self._bootstrap.add(self._held.ravel(), self._key)
            self._held = np.zeros(self._shape)

    def lines(self, model: str) -> Iterator[Line]:
        """One row per layer, group and measure; similarities also minus the layer's anisotropy."""
        self._finish()
        self._key = None
        whole = self._bootstrap.value.reshape(self._shape)
        drawn = self._bootstrap.samples.reshape(-1, *self._shape)
        with np.errstate(invalid="ignore", divide="ignore"):
            means, spread = whole[..., 0] / whole[..., 1], drawn[..., 0] / drawn[..., 1]
        counts = whole[..., 1].astype(int)
        # What unrelated words are like is a fact of the layer, whichever answers are looked at.
        alike, alikes = means[0, :, _ANISOTROPY], spread[:, 0, :, _ANISOTROPY]
        for at in np.ndindex(counts.shape):
            group, layer, column = at
            if not counts[at]:
                continue
            name, here = COLUMNS[column], (model, layer, ANSWERS[group])
            yield *here, name, int(counts[at]), *_interval(float(means[at]), spread[:, *at])
            if name in SIMILARITIES and counts[0, layer, _ANISOTROPY]:
                adjusted = spread[:, *at] - alikes[:, layer]
                yield *here, f"{name}_adjusted", int(counts[at]), *_interval(float(means[at] - alike[layer]), adjusted)


def _interval(value: float, spread: np.ndarray) -> tuple[float, float, float]:
    real = spread[np.isfinite(spread)]
    low, high = np.quantile(real, [0.025, 0.975]) if len(real) else (np.nan, np.nan)
    return value, float(low), float(high)


class Unrelated:
    """Sums of the words of earlier documents, for what two unrelated words are like."""

    def __init__(self, layers: int, width: int) -> None:
        self._finished = Before(torch.zeros(layers, width), torch.zeros(layers))
        self._held = Before(torch.zeros(layers, width), torch.zeros(layers))
        self._document: str | None = None

    def before(self, document: str) -> Before:
        """Of all documents before this one."""
        if document != self._document:
            self._finished = Before(*(done + held for done, held in zip(self._finished, self._held, strict=True)))
            self._held = Before(*(torch.zeros_like(part) for part in self._held))
            self._document = document
        return self._finished

    def add(self, sums: torch.Tensor, counts: torch.Tensor) -> None:
        """The words of one text of the document asked about last."""
        self._held = Before(self._held.sums + sums, self._held.counts + counts)


SHUFFLED = "shuffled roles"


class Turn(NamedTuple):
    """One question, and what is known of it."""

    number: int
    question: Question
    groups: list[int]
    """Of answers, that it belongs to."""
    predicted: Span | None
    clustered: bool
    """Whether its words are clustered, too."""
    place: int | None
    """Where its vectors are kept; None where they are not."""

    @property
    def document(self) -> str:
        """The article, story or, where there is none, the question itself."""
        return self.question.text.doc or self.question.text.id


class Watcher:
    """Everything measured of one model; with `control`, of its roles shuffled too."""

    def __init__(
        self, encoder: Encoder, *, samples: int, seed: int, by_document: bool, places: int, control: bool
    ) -> None:
        self._encoder, self._seed, self._by_document = encoder, seed, by_document
        names = (encoder.name, *((f"{encoder.name} ({SHUFFLED})",) if control else ()))
        self._sums = {name: PhaseSums(encoder.layers, samples=samples, seed=seed) for name in names}
        self._unrelated = Unrelated(encoder.layers, encoder.width)
        self.vectors = np.zeros((places, encoder.layers, 2 * encoder.width), np.float32)
        self.skipped: Counter[str] = Counter()

    def watch(self, turns: list[Turn]) -> None:
        """Encode some questions and measure them, in their order."""
        for turn, activations in zip(turns, self._encoder.encode(turn.question.text for turn in turns), strict=True):
            self._measure(turn, activations)

    def _measure(self, turn: Turn, activations: Activations) -> None:
        if activations.states is None:
            raise ModelError(f"{self._encoder.name} gives no states, so there is nothing to measure")
        inside = activations.tokens.words != SPECIAL
        owners = activations.tokens.words[inside]
        states = activations.states[torch.from_numpy(inside)]
        keep = ordinary(states)
        self._note(activations, keep)
        self.skipped[CUT] += turn.predicted is not None and is_cut(activations.tokens, turn.question)
        rng = np.random.default_rng([self._seed, turn.number])
        roles = roles_of(turn.question, turn.predicted)
        real = groups_of(roles)
        variants = (real, shuffled(real, rng))[: len(self._sums)]
        groups = torch.from_numpy(np.concatenate(variants)[:, owners])
        unit = unit_vectors(states, keep)
        sums, counts = add_up(unit, keep, groups)
        before = self._unrelated.before(turn.document)
        agreed = np.full((len(variants), len(keep[0]), len(AGREEMENTS)), np.nan)
        if turn.clustered:
            labels = [labels_of(turn.question.text, real, roles.sentence)]
            labels += [labels_of(turn.question.text, words, roles.sentence, rng) for words in variants[1:]]
            spread = [tuple(each[owners] for each in own) for own in labels]
            agreed = agreement(states, keep, spread, seed=self._seed)
        resampled = turn.document if self._by_document else turn.question.text.id
        for variant, into in enumerate(self._sums.values()):
            rows = slice(variant * len(GROUPS), (variant + 1) * len(GROUPS))
            measured = measure(unit, keep, groups[rows], Sums(sums[rows], counts[rows]), before).numpy()
            into.add(resampled, turn.groups, np.hstack([measured, agreed[variant]]))
        self._unrelated.add(sums[WORDS], counts[WORDS])
        if turn.place is not None:
            self._keep(turn.place, sums, counts)

    def _keep(self, place: int, sums: torch.Tensor, counts: torch.Tensor) -> None:
        """The mean vectors of the question and of the context: nothing that only the gold answer tells."""
        asked, told = sums[QUESTION], sums[WORDS] - sums[QUESTION]
        numbers = counts[QUESTION], counts[WORDS] - counts[QUESTION]
        means = [part / number.clamp_min(1)[:, None] for part, number in zip((asked, told), numbers, strict=True)]
        self.vectors[place] = torch.cat(means, dim=1).numpy()

    def _note(self, activations: Activations, keep: torch.Tensor) -> None:
        name = self._encoder.name
        self.skipped[f"{name}: words without a piece, replaced by the unknown token"] += activations.tokens.unknown
        windowed = f"{name}: questions longer than the model takes, encoded in overlapping windows"
        self.skipped[windowed] += activations.windows > 1
        outliers = f"{name}: tokens left out at some layer, their vectors more than {TIMES:g} times the median's length"
        self.skipped[outliers] += int((~keep).any(1).sum())

    def lines(self) -> list[Line]:
        """The rows of `phases.csv`."""
        return [line for name, sums in self._sums.items() for line in sums.lines(name)]
