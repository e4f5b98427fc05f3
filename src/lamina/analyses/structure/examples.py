"""A few scored sentences with the annotated tree and the probe's, to be drawn."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from lamina.analyses.structure.arborescences import directed_from
from lamina.analyses.structure.gold import GoldTree, smallest_tree
from lamina.probes.structural import Kind

EXAMPLES = ("sentence", "layer", "position", "word", "punctuation", "head", "linked")
_MANY = 4
_LENGTHS = (7, 13)
"""Words that are not punctuation, fewest and most: enough to see a tree, and not too many for a line."""


def example_rows(
    trees: Sequence[GoldTree],
    predicted: Mapping[tuple[int, Kind], Sequence[np.ndarray]],
    layer: int | None,
    *,
    seed: int,
) -> list[tuple[Any, ...]]:
    """Sentences drawn by hash, whatever the probe makes of them."""
    if layer is None or (layer, "depth") not in predicted:
        return []
    fit = [number for number, tree in enumerate(trees) if _LENGTHS[0] <= len(tree.kept) <= _LENGTHS[1]]
    fit = fit or [number for number, tree in enumerate(trees) if len(tree.kept) > 1]
    drawn = sorted(fit, key=lambda number: hashlib.sha256(f"{seed}:{trees[number].key}".encode()).digest())[:_MANY]
    rows = []
    for number in drawn:
        tree, distances, depths = trees[number], predicted[layer, "distance"][number], predicted[layer, "depth"][number]
        links = smallest_tree(distances, tree.kept)
        root = int(tree.kept[depths[tree.kept].argmin()])
        linked = directed_from(links, len(tree), root) + 1
        for word, text in enumerate(tree.words):
            out = bool(tree.punctuation[word])
            rows.append(
                (tree.key, layer, word + 1, text, out, int(tree.heads[word]), None if out else int(linked[word]))
            )
    return rows
