"""Induction heads: at a repeated token, attention to the token after its earlier copy (Olsson et al. 2022).

Sequences are random tokens, said twice: nothing but the repetition tells what comes next. Beside them are sequences
whose first half is other tokens, so that the same tokens attend from the same places without a copy to find.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float

from lamina.analyses.heads.behaviours import ENOUGH, LEAD, is_ahead
from lamina.framework.watch import WatchedBatch
from lamina.models import SPECIAL, Encoder
from lamina.stats.family import sign_flip_family
from lamina.stats.intervals import student_interval
from lamina.types import Text

COPY = 25
"""Tokens that are said twice, as in Olsson et al. (2022); fewer where the model or its vocabulary has no room."""
_BEFORE = 1
"""Words before the tokens that are repeated."""
_FEWEST = 4
"""With fewer tokens there is hardly a choice of where to look."""
_CANDIDATES = 4000
"""Of the vocabulary, drawn to find tokens that are words."""
REPEATED = 20
"""Random sequences, unless a setting says otherwise."""

INDUCTION = (
    *("layer", "head", "value", "low", "high", "baseline", "unrepeated"),
    *(*LEAD, "copy", "twin", "twin_low", "twin_high", "induction"),
)
"""Columns of `induction.csv`."""
TOO_FEW = "its vocabulary has too few words of one token to repeat"
ENCODER = "not measured: attention in both directions can look at a copy anywhere, so that nothing is to be inferred"


class RepeatedSequences(NamedTuple):
    """Random tokens said twice, and the same after other ones; a word before them, since a text's first is special.

    Byte-level tokenizers write it without the space of all others, and decoders have their sink there.
    """

    repeated: list[Text]
    unrepeated: list[Text]
    size: int
    """Tokens in each half."""


def sequences_of(encoder: Encoder, count: int, *, seed: int) -> RepeatedSequences | None:
    """So many random sequences of words that are one token each; None where the vocabulary has too few of them.

    Example:
        >>> from lamina.testing import TinyEncoder
        >>> made = sequences_of(TinyEncoder(causal=True), 2, seed=0)
        >>> first = made.repeated[0].words[1:]
        >>> first[:made.size] == first[made.size:], made.unrepeated[0].words[1 + made.size:] == first[made.size:]
        (True, True)
    """
    draw = np.random.default_rng([seed, 7])
    words = _words(encoder, draw)
    special = int((encoder.tokenize(Text("a", ("a",))).words == SPECIAL).sum())
    size = min(COPY, (len(words) - _BEFORE) // 2, (encoder.limit - special - _BEFORE) // 2)
    if size < _FEWEST:
        return None
    repeated, unrepeated = [], []
    for number in range(count):
        before, *drawn = (words[index] for index in draw.choice(len(words), _BEFORE + 2 * size, replace=False))
        tokens, other = drawn[:size], drawn[size:]
        repeated.append(Text(f"repeated {number}", (before, *tokens, *tokens)))
        unrepeated.append(Text(f"unrepeated {number}", (before, *other, *tokens)))
    return RepeatedSequences(repeated, unrepeated, size)


def _words(encoder: Encoder, draw: np.random.Generator) -> list[str]:
    """Different words of the vocabulary that are one token each, wherever they are said."""
    known = encoder.vocabulary() or _letters(draw)
    named = list(dict.fromkeys(word for word in known if word and not any(letter.isspace() for letter in word)))
    some = [named[index] for index in draw.permutation(len(named))[:_CANDIDATES]]
    if not some:
        return []
    # Each after another word: what tokenizers do to a text's first word does not matter.
    cut = encoder.tokenize_all([Text(str(index), ("a", word, "a", word)) for index, word in enumerate(some)])
    words: dict[int, str] = {}
    for word, tokens in zip(some, cut, strict=True):
        once, again = (tokens.ids[tokens.words == place] for place in (1, 3))
        if not tokens.unknown and len(once) == len(again) == 1 and once[0] == again[0]:
            words.setdefault(int(once[0]), word)
    return list(words.values())


def _letters(draw: np.random.Generator) -> list[str]:
    """For an encoder that does not say what its vocabulary is."""
    letters = np.array(list("abcdefghijklmnopqrstuvwxyz"))
    return ["".join(triple) for triple in letters[draw.integers(0, 26, (_CANDIDATES // 10, 3))]]


class InductionMeter:
    """For every sequence and head: attention from the second half to the token after the copy, and to the copy.

    Example:
        >>> from lamina.framework.watch import watch
        >>> from lamina.testing import TinyEncoder
        >>> encoder = TinyEncoder(causal=True)
        >>> made = sequences_of(encoder, 3, seed=0)
        >>> meter = InductionMeter(made.size)
        >>> skipped = watch(encoder, made.repeated + made.unrepeated, [meter])
        >>> meter.values("repeated").shape
        (3, 2, 2)
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._after: dict[str, np.ndarray] = {}
        self._copy: dict[str, np.ndarray] = {}
        self._uniform: dict[str, float] = {}

    def update(self, batch: WatchedBatch) -> None:
        """See `Meter.update`."""
        heads = torch.cat(batch.words, 1)[..., _BEFORE:, _BEFORE:]
        blocks = len(batch.maps)
        # From token i of the second half to i + 1, and to i, of the first; the last has no token after its copy there.
        after, copy = (
            heads.diagonal(by - self._size, -2, -1)[..., by : by + self._size - 1].mean(-1).unflatten(1, (blocks, -1))
            for by in (1, 0)
        )
        for index, (text, tokens) in enumerate(zip(batch.texts, batch.tokens, strict=True)):
            places = np.flatnonzero(tokens.words >= _BEFORE + self._size)[: self._size - 1]
            self._after[text.id], self._copy[text.id] = after[index].cpu().numpy(), copy[index].cpu().numpy()
            self._uniform[text.id] = float((1 / (1 + places)).mean())

    def values(self, kind: str) -> Float[np.ndarray, "sequence block head"]:
        """To the token after the copy; of sequences that are `repeated` or `unrepeated`, in their order."""
        return np.stack([self._after[name] for name in self._named(kind)]).astype(float)

    def copies(self) -> Float[np.ndarray, "block head"]:
        """To the copy itself, where tokens are repeated."""
        return np.mean([self._copy[name] for name in self._named("repeated")], axis=0)

    @property
    def uniform(self) -> float:
        """What uniform attention to all earlier tokens would give."""
        return float(np.mean([self._uniform[name] for name in self._named("repeated")]))

    def _named(self, kind: str) -> Iterator[str]:
        return (f"{kind} {number}" for number in range(sum(name.startswith(f"{kind} ") for name in self._after)))


def induction_table(meter: InductionMeter, twin: InductionMeter | None) -> pd.DataFrame:
    """One row per head; intervals are over sequences, the difference is paired by sequence.

    One family of all heads, signs of sequences flipped, two-sided; `induction` says whether a head earns the name.
    """
    repeated, unrepeated = meter.values("repeated"), meter.values("unrepeated")
    value, low, high = _mean(repeated)
    tests = sign_flip_family(repeated - unrepeated, np.ones(len(repeated)), bounds=(-1.0, 1.0))
    missing = np.full_like(value, np.nan)
    beside = (missing,) * 3 if twin is None else _mean(twin.values("repeated"))
    block, head = (axis.ravel() for axis in np.indices(value.shape))
    columns = (
        *(block + 1, head + 1, value, low, high, np.full_like(value, meter.uniform), unrepeated.mean(0)),
        *(*tests, meter.copies(), *beside, missing),
    )
    table = pd.DataFrame({name: np.ravel(column) for name, column in zip(INDUCTION, columns, strict=True)})
    table = table.astype({"units": int, "needed": int})
    return table.assign(induction=(table["value"] >= ENOUGH) & is_ahead(table))


def _mean(values: Float[np.ndarray, "sequence block head"]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """With Student's interval; shares stay shares."""
    flat = values.reshape(len(values), -1)
    ends = np.array([student_interval(column) for column in flat.T]).clip(0, 1).T
    low, high = (end.reshape(values.shape[1:]) for end in ends)
    return values.mean(0), low, high


def induction_heads(table: pd.DataFrame) -> pd.DataFrame:
    """The heads that earn the name, the clearest first: enough attention, clearly more than without a repetition.

    Example:
        >>> row = dict.fromkeys(INDUCTION, 0.0) | {"layer": 2, "value": 0.8, "difference": 0.7, "p_adjusted": 0.001}
        >>> rows = pd.DataFrame([row, row | {"layer": 3, "value": 0.1}, row | {"layer": 4, "p_adjusted": 0.2}])
        >>> induction_heads(rows)["layer"].tolist()
        [2]
    """
    return table[(table["value"] >= ENOUGH) & is_ahead(table)].sort_values("value", ascending=False)
