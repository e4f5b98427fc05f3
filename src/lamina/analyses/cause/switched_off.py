"""Heads and blocks of a model switched off for one text: the change that is made, by numbers as tables have them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

from lamina.encoders.interventions import Edit, Interventions, Mixed
from lamina.errors import ModelError
from lamina.types import Text

DisabledBy = Literal["zero", "mean"]
"""What a head hands on instead: zeros, or its mean over the tokens of the text."""


def disabled(
    parts: Interventions,
    words: Sequence[str],
    *,
    heads: Iterable[tuple[int, int]] = (),
    layers: Iterable[int] = (),
    how: DisabledBy = "zero",
) -> Edit:
    """Some heads hand on nothing of their own, and some layers what they read.

    Args:
        parts: of the model.
        words: of the text, over whose tokens means are taken.
        heads: layer and head, both from 1.
        layers: from 1, whose blocks are skipped.
        how: what heads hand on instead.

    Example:
        >>> parts = Interventions(lamina.load_encoder("minilm"))  # doctest: +SKIP
        >>> disabled(parts, ["Dogs", "bark"], heads=[(3, 1)], layers=[5]).first  # doctest: +SKIP
        2
    """
    encoder = parts.encoder
    skipped = frozenset(layer - 1 for layer in layers)
    for block in sorted(skipped):
        if not 0 <= block < encoder.blocks:
            raise ModelError(f"{encoder.name} has no layer {block + 1}; it has {encoder.blocks}, counted from 1")
    by_block: dict[int, list[int]] = {}
    for layer, head in dict.fromkeys(heads):
        parts.refuse_heads(layer - 1, head - 1)
        by_block.setdefault(layer - 1, []).append(head - 1)
    means = {}
    if by_block and how == "mean":
        means = parts.means(encoder.rows(0, encoder.pieces(Text("typed", tuple(words)))))
    mixed: dict[int, Mixed] = {}
    for block, own in by_block.items():
        mixed |= parts.without(block, heads=own, fill=means.get(block)).mixed
    return Edit(mixed=mixed, skipped=skipped)
