"""What erasing a concept does to everything above, beside a random subspace and a control task; and what that means."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from jaxtyping import Int
from scipy.stats import t as student
from torch import Tensor

from lamina.analyses.cause.effects import Effect, effect_of, measure
from lamina.analyses.cause.erase_concepts import CONCEPT, CONTROL, RANDOM, WHATS, Erasers
from lamina.analyses.cause.erase_readable import Readable
from lamina.analyses.cause.loss import LOSS
from lamina.analyses.cause.targets import Scores, Target
from lamina.encoders.huggingface import HuggingFaceEncoder
from lamina.encoders.interventions import Change, Clean, Edit, Interventions
from lamina.encoders.pieces import token_id
from lamina.encoders.rows import Row
from lamina.probes.leace import Eraser
from lamina.stats.family import holm
from lamina.stats.status import NEGLIGIBLE, SURE

ERASE = (
    "task", "layer", "what", "rank", "target", "baseline", "value", "effect", "low", "high", "p_adjusted", "verdict",
)  # fmt: skip
DIFFERENCES = ("task", "layer", "target", "against", "difference", "low", "high", "p_adjusted")
Tokens = Literal["words", "all"]
"""Whose states are erased."""
USED, UNUSED, OPEN, UNKNOWN = "known and used", "known and not used", "cannot be told", "not known"
"""Verdicts; the last where a linear probe does not read the concept in the first place."""
NATS = 0.05
"""A difference in loss that means nothing, in nats per piece."""


class Difference(NamedTuple):
    """The effect of erasing the concept minus that of erasing something else."""

    value: float
    low: float
    """95 %."""
    high: float
    p: float
    """Two-sided, that there is none; not corrected for several tests."""


class Measured(NamedTuple):
    """One layer and target."""

    layer: int
    ranks: Mapping[str, int]
    effects: Mapping[str, Effect]
    """What is erased -> its effect; the mean of the draws of random subspaces."""
    differences: Mapping[str, Difference]
    """Random subspace and control -> how much more the concept does."""
    scored: int
    """Answers, or pieces, that the target counts."""


def measure_target(
    parts: Interventions, target: Target, erasers: Sequence[Erasers], *, tokens: Tokens, what: str
) -> list[Measured]:
    """The target as it is and with each layer's concept, random subspaces and control erased.

    Layers above those that the target looks at are left out.
    """
    special = None if tokens == "all" else _special(parts.encoder)
    own = [each for each in erasers if each.layer <= max(target.layers)]
    edits = [
        Edit(states={each.layer: _erasing(eraser, target.rows, special)})
        for each in own
        for kind in WHATS
        for eraser in each.of(kind)
    ]
    if not edits:
        return []
    before, *after = measure(parts, target, edits, what=what)
    made = iter(after)
    return [
        _measured(each, before, {kind: [next(made) for _ in each.of(kind)] for kind in WHATS}, target) for each in own
    ]


def verdict_of(measured: Measured, readable: Readable, target: str, p_adjusted: Mapping[str, float]) -> str:
    """Whether what is readable is used, from intervals.

    Used: erasing it harms, and more than the random subspaces and the control do, each by an interval and a corrected
    test. Not used: it harms less than the margin; or about as much as random subspaces do, within the margin, and not
    more than the control. Nothing is said where a probe still reads it afterwards.
    """
    if not readable.known:
        return OPEN if np.isnan(readable.before[0]) else UNKNOWN
    if not readable.gone:
        return OPEN
    margin, sign = margin_of(target), 1 if target == LOSS else -1
    own = _harm(measured.effects[CONCEPT], sign)
    beside = {kind: _harm(each, sign) for kind, each in measured.differences.items()}
    if own[0] > 0 and all(low > 0 and p_adjusted[kind] < SURE for kind, (low, _) in beside.items()):
        return USED
    as_random = -margin < beside[RANDOM][0] and beside[RANDOM][1] < margin and beside[CONTROL][1] < margin
    return UNUSED if own[1] < margin or as_random else OPEN


def margin_of(target: str) -> float:
    """A change of a target that means nothing.

    Example:
        >>> margin_of("loss"), margin_of("pairs")
        (0.05, 0.02)
    """
    return NATS if target == LOSS else NEGLIGIBLE


def effect_rows(
    task: str, target: str, measured: Sequence[Measured], readable: Mapping[int, Readable]
) -> Iterator[tuple[Any, ...]]:
    """Rows of the table `erase`: p is corrected over the layers of a task, target and kind."""
    p_adjusted = {kind: holm([each.effects[kind].p for each in measured]) for kind in WHATS}
    against = _corrected(measured)
    for at, each in enumerate(measured):
        told = {kind: float(against[kind][at]) for kind in against}
        verdict = verdict_of(each, readable[each.layer], target, told)
        for kind in WHATS:
            effect = each.effects[kind]
            said = verdict if kind == CONCEPT else ""
            yield task, each.layer, kind, each.ranks[kind], target, *effect[:5], float(p_adjusted[kind][at]), said


def difference_rows(task: str, target: str, measured: Sequence[Measured]) -> Iterator[tuple[Any, ...]]:
    """Rows of the table `differences`: p is corrected over the layers of a task, target and kind."""
    p_adjusted = _corrected(measured)
    for at, each in enumerate(measured):
        for kind, found in each.differences.items():
            yield task, each.layer, target, kind, *found[:-1], float(p_adjusted[kind][at])


def _corrected(measured: Sequence[Measured]) -> dict[str, np.ndarray]:
    return {kind: holm([each.differences[kind].p for each in measured]) for kind in (RANDOM, CONTROL)}


def _harm(found: Effect | Difference, sign: int) -> tuple[float, float]:
    """The interval of an effect, so that above 0 is worse."""
    return (found.low, found.high) if sign > 0 else (-found.high, -found.low)


def _measured(erasers: Erasers, before: Scores, after: Mapping[str, Sequence[Scores]], target: Target) -> Measured:
    means = {kind: _mean(scores) for kind, scores in after.items()}
    effects = {
        kind: _over_draws(before, scores, target) if len(scores) > 1 else _effect(before, means[kind], target)
        for kind, scores in after.items()
    }
    return Measured(
        erasers.layer,
        {kind: erasers.of(kind)[0].rank for kind in after},
        effects,
        {kind: _difference(means[CONCEPT], after[kind], target) for kind in (RANDOM, CONTROL)},
        int(before.counts.sum()),
    )


def _effect(before: Scores, after: Scores, target: Target) -> Effect:
    return effect_of(before, after, target.units)


def _over_draws(before: Scores, draws: Sequence[Scores], target: Target) -> Effect:
    """The mean effect of several draws; its interval is over documents and draws."""
    found = effect_of(before, _mean(draws), target.units)
    spread = np.var([each.value for each in draws], ddof=1) / len(draws)
    low, high, p = _wider(found, float(spread), len(draws), target)
    return found._replace(low=low, high=high, p=p)


def _difference(concept: Scores, others: Sequence[Scores], target: Target) -> Difference:
    """How much more the concept does than one more random draw would, given some; documents and draws both vary.

    If the concept's subspace were just another random one, its effect would vary like theirs: by their variance, and by
    that of their mean.
    """
    found = effect_of(_mean(others), concept, target.units)
    if len(others) < 2:
        return Difference(found.effect, found.low, found.high, found.p)
    spread = np.var([each.value for each in others], ddof=1) * (1 + 1 / len(others))
    return Difference(found.effect, *_wider(found, float(spread), len(others), target))


def _wider(found: Effect, spread: float, draws: int, target: Target) -> tuple[float, float, float]:
    """Interval and p of an effect over documents whose draws add a variance; degrees of freedom as Welch has them."""
    degrees = len(set(target.units)) - 1
    if degrees < 1 or not np.isfinite(found.high):
        return found.low, found.high, found.p
    by_document = ((found.high - found.low) / 2 / student.ppf(0.975, degrees)) ** 2
    total = by_document + spread
    if total <= 0:
        return found.low, found.high, found.p
    together = total**2 / (by_document**2 / degrees + spread**2 / (draws - 1))
    reach = student.ppf(0.975, together) * np.sqrt(total)
    p = 2 * student.sf(abs(found.effect) / np.sqrt(total), together)
    # Each guards against another kind of luck: few documents of one sign, and few draws.
    return float(found.effect - reach), float(found.effect + reach), float(max(p, found.p))


def _mean(scores: Sequence[Scores]) -> Scores:
    return Scores(*(np.mean(each, axis=0) for each in zip(*scores, strict=True)))


def _erasing(eraser: Eraser, rows: Sequence[Row], special: Int[np.ndarray, " special"] | None) -> Change:
    """Erases the states of words that the model sees; of all tokens where None are special.

    Words are what erasers are fitted on. Special tokens and masks lie far from them and have no class, and many heads
    lean on special tokens whatever the words are.
    """

    def change(states: Tensor, clean: Clean) -> Tensor:
        if special is None:
            return eraser(states)
        words = torch.zeros(states.shape[:2], dtype=torch.bool)
        for at, number in enumerate(clean.rows):
            ids = rows[number].ids
            words[at, : len(ids)] = torch.from_numpy(~np.isin(ids, special))
        return torch.where(words.to(states.device)[..., None], eraser(states), states)

    return change


def _special(encoder: HuggingFaceEncoder) -> Int[np.ndarray, " special"]:
    """Ids of tokens that are no words: special ones, with masks; a word that is not in the vocabulary is one."""
    tokenizer = encoder.tokenizer
    others = {
        str(each) for each in (tokenizer.bos_token, tokenizer.eos_token, tokenizer.cls_token, tokenizer.sep_token)
    }
    unknown = set() if str(tokenizer.unk_token) in others else {token_id(tokenizer.unk_token_id)}
    return np.array(sorted(set(tokenizer.all_special_ids) - unknown), np.int64)
