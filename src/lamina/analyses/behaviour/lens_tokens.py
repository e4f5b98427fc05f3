"""A typed text through the lens: what every layer would say in the place of every token."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from lamina.analyses.behaviour.lens_readings import Lens, lens_says, most_at_once
from lamina.encoders.lens import layer_states
from lamina.encoders.passages import Passage, cut_passages
from lamina.encoders.scoring import Wanted, every_piece
from lamina.errors import InputError

if TYPE_CHECKING:
    from lamina.encoders.language_model import LanguageModel
    from lamina.probes.translators import Translators

UNKNOWN = -1
"""In place of the id of a piece that is not there: what comes after the text."""


def token_table(
    model: LanguageModel, text: str, translators: Translators | None, top: int
) -> Iterator[tuple[Any, ...]]:
    """One row per token, layer, lens and rank: token, index, layer, lens, rank, piece, probability, probability of the
    token itself, KL to the final distribution.

    A causal model tells each token from those before it, and what would come after the text (`token` is empty there).
    From a masked model each token is hidden in turn.
    """
    wanted = every_token(model, text)
    names = _names(model, wanted.target)
    lenses: tuple[Lens, ...] = ("plain",) if translators is None else ("plain", "tuned")
    rows: list[tuple[int, tuple[Any, ...]]] = []
    for numbers, states in layer_states(model, wanted):
        most = most_at_once(model)
        for some, part in zip(np.split(numbers, range(most, len(numbers), most)), states.split(most), strict=True):
            for layer in range(part.shape[1]):
                for lens in lenses:
                    top_rows = _said(model, part, layer, lens, translators, wanted.target[some], top)
                    for place, number in enumerate(some.tolist()):
                        rows += [(number, (names[number], number, layer, lens, *row)) for row in top_rows[place]]
    yield from (row for _, row in sorted(rows, key=lambda numbered: numbered[0]))


def every_token(model: LanguageModel, text: str) -> Wanted:
    """The tokens of a typed text, each asked for; an InputError where it cannot be read."""
    if not text.strip():
        raise InputError("the text is empty; give some words in quotes, as in --text 'Dogs bark at the moon'")
    cut = cut_passages(model, [Passage.typed("text", text)])[0]
    size, limit = len(cut.tokens.ids), model.encoder.limit
    if size > limit:
        raise InputError(
            f"the text has {size:,} tokens, {model.name} reads {limit:,} at once; give a shorter one for the grid of "
            "tokens and layers"
        )
    if size == cut.head + cut.tail:
        raise InputError(f"{model.name} has no pieces for {text!r:.60}; give another text")
    rows, wanted = every_piece(model, [cut])
    if model.kind == "masked":
        return wanted
    # The last token tells what comes after the text.
    after = np.array([size - 1]), np.array([UNKNOWN])
    places, targets = (np.concatenate(parts) for parts in zip((wanted.place, wanted.target), after, strict=True))
    return Wanted(rows[0], np.zeros(len(places), np.int64), places, targets)


def _said(
    model: LanguageModel,
    states: torch.Tensor,
    layer: int,
    lens: Lens,
    translators: Translators | None,
    targets: np.ndarray,
    top: int,
) -> list[list[tuple[Any, ...]]]:
    """[token] Rank, piece, probability, probability of the token that is there, KL."""
    with torch.no_grad():
        logprobs = lens_says(model, states[:, layer], layer, lens, translators).log_softmax(-1)
        final = model.logits(states[:, -1]).log_softmax(-1)
        kl = (final.exp() * (final - logprobs)).sum(-1).clamp_min(0).tolist()
        best = logprobs.topk(min(top, logprobs.shape[-1]), dim=-1)
        there = torch.from_numpy(np.maximum(targets, 0)).to(logprobs.device)
        actual = logprobs.gather(1, there[:, None])[:, 0].exp().tolist()
    rows = []
    for token, (ids, values) in enumerate(zip(best.indices, best.values.exp().tolist(), strict=True)):
        probability = float("nan") if targets[token] == UNKNOWN else actual[token]
        pieces = _names(model, ids.cpu().numpy())
        rows.append(
            [
                (rank, piece, value, probability, kl[token])
                for rank, (piece, value) in enumerate(zip(pieces, values, strict=True), start=1)
            ]
        )
    return rows


def _names(model: LanguageModel, ids: np.ndarray) -> list[str]:
    """Pieces as they are read, a leading space kept as one where the vocabulary has it; empty for what is not there."""
    named = model.encoder.piece_names(np.maximum(ids, 0).tolist())
    return ["" if id == UNKNOWN else name for id, name in zip(ids.tolist(), named, strict=True)]
