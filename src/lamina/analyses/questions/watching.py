"""A model looks at one question after the other; what is measured of each is summed."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

import numpy as np
import torch

from lamina.analyses.questions.agreement import AGREEMENTS, agreement, labels_of
from lamina.analyses.questions.answering import CUT, is_cut
from lamina.analyses.questions.measures import QUESTION, WORDS, Sums, add_up, measure, unit_vectors
from lamina.analyses.questions.outliers import TIMES, ordinary
from lamina.analyses.questions.roles import GROUPS, groups_of, roles_of, shuffled
from lamina.analyses.questions.streaming import Line, PhaseSums, Unrelated
from lamina.corpora.questions import Question
from lamina.encoders import SPECIAL, Activations, Encoder
from lamina.errors import ModelError
from lamina.types import Span

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
        self._encoder, self._seed = encoder, seed
        settings = {"samples": samples, "seed": seed, "by_document": by_document}
        names = (encoder.name, *((f"{encoder.name} ({SHUFFLED})",) if control else ()))
        self._sums = {name: PhaseSums(encoder.layers, **settings) for name in names}
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
        for variant, into in enumerate(self._sums.values()):
            rows = slice(variant * len(GROUPS), (variant + 1) * len(GROUPS))
            measured = measure(unit, keep, groups[rows], Sums(sums[rows], counts[rows]), before).numpy()
            into.add(turn.document, turn.groups, np.hstack([measured, agreed[variant]]))
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
