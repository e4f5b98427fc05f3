"""Minimal pairs: states of the good sentence put into the bad one, at one layer and place.

What can change is how likely the tokens are that both sentences have, each at the same place: the first that differs is
predicted from what both have. So the difference of log-probabilities is that over shared tokens, and a patch shrinks it
by as much as it makes the shared words of the bad sentence likelier.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int

from lamina.analyses.cause.effects import TESTED, PatchTokens, ScoreChange, effect_of, effects_of, put_in, random_tokens
from lamina.corpora.suites.minimal_pairs import MinimalPair
from lamina.errors import CorpusError
from lamina.models.contract import SPECIAL
from lamina.models.interventions.edited_runs import Edit
from lamina.models.interventions.interventions import Interventions
from lamina.models.language.language_model import LanguageModel, TokenQueries, cut_passages, query_every_token
from lamina.models.running.batching import InputRow
from lamina.models.running.tokens import TokenizedText
from lamina.progress import progress
from lamina.targets.loss import TokenSums
from lamina.targets.pairs import written
from lamina.targets.target import TargetScores

POSITIONS = ("before", "word", "after", "last", "special")
"""Where states are put in: all words before the first that differs; from the first word that differs to the last; the
words after these but the last of the sentence; the last word; tokens that are no text."""
EVERYWHERE = "all"
"""At all tokens: the difference over shared tokens is then gone, whatever the layer."""
EFFECTS = ("layer", "position", *TESTED, "n")
CONTRASTS = (
    "layer", "position", "effect", "other", "difference", "low", "high", "p_adjusted", "units", "needed", "n",
)  # fmt: skip
GAPS = ("words", "gap", "low", "high", "p_adjusted", "units", "needed", "n")
_SHARED, _DIFFERING = range(2)
_SIZES = "pairs whose sentences have different numbers of tokens"
_LONG = "pairs with a sentence longer than the model's limit"
_SPELLED = "pairs whose sentences have the same tokens, or none"


@dataclass(frozen=True, eq=False)
class PairRows:
    """Pairs as a language model reads them: the rows of bad sentences, and those of the good ones beside them."""

    pairs: list[MinimalPair]
    rows: list[InputRow]
    """Of bad sentences: one per sentence, or from a masked model one per token, which is hidden."""
    donors: list[InputRow]
    """Of good sentences, in the same order and as long."""
    owners: Int[np.ndarray, " row"]
    """The pair of each row."""
    bad: TokenSums
    """Tokens of bad sentences; those that both sentences have at the same place are summed apart from the others."""
    good: TokenSums
    """The same of good sentences."""
    places: list[dict[str, Int[np.ndarray, " token"]]]
    """[pair] Position -> its tokens."""


class PairPatchTables(NamedTuple):
    """Rows of tables."""

    effects: list[tuple[Any, ...]]
    random: list[tuple[Any, ...]]
    contrasts: list[tuple[Any, ...]]
    gaps: list[tuple[Any, ...]]


class PairPatch(NamedTuple):
    """Pairs with states put in at one layer and place."""

    layer: int
    position: str
    pairs: Int[np.ndarray, " held"]
    """Numbers of the pairs that have tokens there."""
    after: Float[np.ndarray, " held"]
    """Their differences of log-probabilities over shared tokens."""
    random: Float[np.ndarray, " held"] | None
    """The same with as many random tokens; None at all tokens."""


def ask_pairs(model: LanguageModel, pairs: Sequence[MinimalPair], skipped: Counter[str]) -> PairRows:
    """The pairs whose sentences have equally many tokens; others are counted in `skipped`."""
    cuts = cut_passages(model, [written(sentence) for pair in pairs for sentence in (pair.good, pair.bad)])
    fitting: list[MinimalPair] = []
    places: list[dict[str, np.ndarray]] = []
    rows: tuple[list[InputRow], list[InputRow]] = ([], [])
    parts: tuple[list[TokenQueries], list[TokenQueries]] = ([], [])
    owners: list[int] = []
    for pair, good, bad in zip(pairs, cuts[::2], cuts[1::2], strict=True):
        if why := _unfit(model, good, bad):
            skipped[why] += 1
            continue
        for side, cut in enumerate((good, bad)):
            wanted = query_every_token(model, [cut])[1]
            parts[side].append(wanted._replace(row=wanted.row + len(rows[side])))
            rows[side].extend(wanted.rows)
        owners += [len(fitting)] * (len(rows[1]) - len(owners))
        fitting.append(pair)
        places.append(positions_of(good, bad))
    if not fitting:
        why = "; ".join(f"{reason}: {count:,}" for reason, count in skipped.items())
        raise CorpusError(f"no pair can be patched ({why}); name a suite whose sentences differ in single words")
    every = [np.concatenate([sentence.target for sentence in wanted_of_side]) for wanted_of_side in parts]
    column = np.where(every[0] == every[1], _SHARED, _DIFFERING)
    good, bad = (
        TokenSums(_joined(sentence, wanted_of_side), column)
        for sentence, wanted_of_side in zip(parts, rows, strict=True)
    )
    return PairRows(fitting, rows[1], rows[0], np.array(owners), bad, good, places)


def _unfit(model: LanguageModel, good: TokenizedText, bad: TokenizedText) -> str:
    """Why the states of one sentence cannot be put into the other; nothing where they can."""
    sizes = [len(cut.tokens.ids) for cut in (good, bad)]
    if sizes[0] != sizes[1]:
        return _SIZES
    if sizes[0] > model.encoder.limit:
        return _LONG
    return _SPELLED if np.array_equal(good.tokens.ids, bad.tokens.ids) else ""


def _joined(parts: Sequence[TokenQueries], rows: list[InputRow]) -> TokenQueries:
    return TokenQueries(
        rows, *(np.concatenate([getattr(part, name) for part in parts]) for name in ("row", "place", "target"))
    )


def positions_of(good: TokenizedText, bad: TokenizedText) -> dict[str, Int[np.ndarray, " token"]]:
    """Position -> its tokens, in two sentences of equally many tokens.

    Example:
        >>> from lamina.models.contract import Tokens
        >>> words = np.array([-1, 0, 1, 2, 3, -1])
        >>> pieces = np.array([0, 5, 6, 7, 8, 1]), np.array([0, 5, 9, 7, 8, 1])
        >>> one, two = (TokenizedText(Tokens(ids, words), words, 1, 1) for ids in pieces)
        >>> {name: tokens.tolist() for name, tokens in positions_of(one, two).items()}
        {'before': [1], 'word': [2], 'after': [3], 'last': [4], 'special': [0, 5]}
    """
    text = np.arange(good.head, len(good.tokens.ids) - good.tail)
    apart = np.flatnonzero(good.tokens.ids != bad.tokens.ids)
    first, last = int(apart[0]), int(apart[-1])
    # To the borders of words, in either sentence.
    while first > text[0] and any(_same_word(cut, first, first - 1) for cut in (good, bad)):
        first -= 1
    while last < text[-1] and any(_same_word(cut, last, last + 1) for cut in (good, bad)):
        last += 1
    ending = int(text[-1])
    while ending > last + 1 and _same_word(bad, ending, ending - 1):
        ending -= 1
    return {
        "before": text[text < first],
        "word": text[(text >= first) & (text <= last)],
        "after": text[(text > last) & (text < ending)],
        "last": text[(text > last) & (text >= ending)],
        "special": np.setdiff1d(np.arange(len(good.tokens.ids)), text),
    }


def _same_word(cut: TokenizedText, one: int, other: int) -> bool:
    words = cut.tokens.words
    return bool(words[one] == words[other] != SPECIAL)


def measure_pairs(
    parts: Interventions, model: LanguageModel, pair_rows: PairRows, layers: Sequence[int], *, seed: int
) -> PairPatchTables:
    """How much each patch changes the difference of log-probabilities, and what that difference is made of."""
    edits: dict[tuple[bool, int, str], Edit] = {}
    for position in (*POSITIONS, EVERYWHERE):
        values = [_tokens(pair_rows, row, position) for row in range(len(pair_rows.rows))]
        edits |= {(False, layer, position): put_in(layer, list(map(PatchTokens.alike, values))) for layer in layers}
        if position != EVERYWHERE:
            drawn = _random(pair_rows, position, seed)
            edits |= {(True, layer, position): put_in(layer, drawn) for layer in layers}
    (good,) = _sums(parts, model, pair_rows, pair_rows.good, pair_rows.donors)
    bad, *changed = _sums(
        parts, model, pair_rows, pair_rows.bad, pair_rows.rows, list(edits.values()), pair_rows.donors
    )
    after = dict(zip(edits, changed, strict=True))
    patches = []
    for (random, layer, position), values in after.items():
        with_tokens = [
            number for number, places in enumerate(pair_rows.places) if position == EVERYWHERE or len(places[position])
        ]
        if with_tokens and not random:
            other = after.get((True, layer, position))
            drawn = None if other is None else (good - other)[with_tokens, _SHARED]
            patches.append(
                PairPatch(layer, position, np.array(with_tokens), (good - values)[with_tokens, _SHARED], drawn)
            )
    return pair_tables(good - bad, patches, [pair.item for pair in pair_rows.pairs])


def pair_tables(
    differences: Float[np.ndarray, "pair 2"], patches: Sequence[PairPatch], units: Sequence[str]
) -> PairPatchTables:
    """Rows of tables from the differences of log-probabilities of pairs, on shared tokens and on those that differ.

    All layers and positions are one family: of patches, of random tokens, and of patches minus random tokens, where p
    is one-sided, that states take more of the difference away than random tokens do.
    """
    before = differences[:, _SHARED]
    drawn = [(patch, patch.random) for patch in patches if patch.random is not None]
    effects = effects_of([_changed(before[patch.pairs], patch.after, patch, units) for patch in patches])
    random = effects_of([_changed(before[patch.pairs], values, patch, units) for patch, values in drawn])
    compared = effects_of([_changed(values, patch.after, patch, units) for patch, values in drawn], harm=-1)
    both = {(patch.layer, patch.position): effect.effect for patch, effect in zip(patches, effects, strict=True)}
    rows = [
        (patch.layer, patch.position, both[patch.layer, patch.position], other.effect, *test[2:], len(patch.pairs))
        for (patch, _), other, test in zip(drawn, random, compared, strict=True)
    ]
    return PairPatchTables(
        [
            (patched.layer, patched.position, *effect_row[2:], len(patched.pairs))
            for patched, effect_row in zip(patches, effects, strict=True)
        ],
        [
            (patched.layer, patched.position, *effect_row[2:], len(patched.pairs))
            for (patched, _), effect_row in zip(drawn, random, strict=True)
        ],
        rows,
        _gaps(differences, units),
    )


def _changed(before: np.ndarray, after: np.ndarray, patch: PairPatch, units: Sequence[str]) -> ScoreChange:
    one = np.ones(len(patch.pairs))
    return ScoreChange(TargetScores(before, one), TargetScores(after, one), np.array(units)[patch.pairs].tolist())


def _tokens(pair_rows: PairRows, row: int, position: str) -> Int[np.ndarray, " token"]:
    if position == EVERYWHERE:
        return np.arange(len(pair_rows.rows[row].ids))
    return pair_rows.places[pair_rows.owners[row]][position]


def _random(pair_rows: PairRows, position: str, seed: int) -> list[PatchTokens]:
    """For each row as many tokens as the position has, of the others."""
    tokens = []
    for row in range(len(pair_rows.rows)):
        patched, among = _tokens(pair_rows, row, position), np.ones(len(pair_rows.rows[row].ids), bool)
        among[patched] = False
        key = f"{position}:{pair_rows.pairs[pair_rows.owners[row]].item}"
        tokens.append(PatchTokens.alike(random_tokens(among, len(patched), seed=seed, key=key)))
    return tokens


def _sums(
    parts: Interventions,
    model: LanguageModel,
    pair_rows: PairRows,
    spoken: TokenSums,
    rows: Sequence[InputRow],
    edits: Sequence[Edit] = (),
    donors: Sequence[InputRow] | None = None,
) -> list[Float[np.ndarray, "pair 2"]]:
    """Log-probabilities of sentences as they are, then under each edit: of shared tokens, and of those that differ."""
    last = parts.encoder.blocks
    by_run = [np.zeros((len(pair_rows.pairs), 2)) for _ in range(len(edits) + 1)]
    with progress(f"pairs for {model.name}", len(rows) * len(by_run)) as advance, torch.no_grad():
        for batch in parts.run(rows, edits, donors=donors):
            logprobs = spoken.logprobs(model, batch.rows, batch.states[last]).cpu().numpy()
            sums = by_run[0 if batch.edit is None else batch.edit + 1]
            np.add.at(sums, pair_rows.owners[list(batch.rows)], np.pad(logprobs, ((0, 0), (0, 2 - logprobs.shape[1]))))
            advance(len(batch.rows))
    return by_run


def _gaps(differences: Float[np.ndarray, "pair 2"], units: Sequence[str]) -> list[tuple[Any, ...]]:
    """By how much good sentences are likelier: in all, on the tokens that both have, and on the others."""
    one, nothing = np.ones(len(differences)), np.zeros(len(differences))
    parts = {
        "all": differences.sum(1),
        "shared": differences[:, _SHARED],
        "differing": differences[:, _DIFFERING],
    }
    tests = (effect_of(TargetScores(nothing, one), TargetScores(gap, one), units) for gap in parts.values())
    return [(words, *test[2:], len(one)) for words, test in zip(parts, tests, strict=True)]
