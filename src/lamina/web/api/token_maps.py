"""A token map as the page draws it."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from lamina.results import Result
from lamina.web.api.answers import rows_of

Place = tuple[float, float]


class Token(BaseModel):
    """A token, the same at every layer."""

    word: str
    """The word it is part of; of a special token, its name."""
    role: str
    """What it is drawn as; where several roles hold, the rarest."""
    sentence: int
    """From 0; -1 outside the context."""
    question: bool
    support: bool
    gold: bool
    predicted: bool


class Layer(BaseModel):
    """What the picture of one layer shows, and what not."""

    layer: int
    tokens: int
    left_out: int
    """Outliers: tokens that are in no fit, no cluster and no picture of this layer."""
    explained_x: float | None
    explained_y: float | None
    clusters: int
    silhouette: float | None


class TokenMap(BaseModel):
    """The tokens of one question at every layer."""

    tokens: list[Token]
    positions: list[list[Place | None]]
    """[layer][token] from -1 to 1, both ways to the same scale; null for what is not drawn."""
    clusters: list[list[int]]
    """[layer][token] of k-means in the full space; -1 for an outlier."""
    layers: list[Layer]
    drawn: int
    """Tokens in the picture; of very many, some without a role are left out."""


def map_of(result: Result) -> TokenMap:
    """The map of a `token_map` result."""
    from lamina.figures.token_map import OTHER, drawn_rows

    table: Any = result.tables["tokens"].reset_index(drop=True)
    layers = len(result.tables["projection"])
    size = len(table) // layers
    roles = [OTHER.name] * size
    positions: list[list[Place | None]] = [[None] * size for _ in range(layers)]
    drawn = drawn_rows(table)
    for row, x, y, role in zip(drawn.index, drawn["x"], drawn["y"], drawn["role"], strict=True):
        positions[row // size][row % size] = (float(x), float(y))
        roles[row % size] = role
    columns = ["word", "sentence", "question", "support", "gold", "predicted"]
    tokens = [Token(**row, role=role) for row, role in zip(rows_of(table[columns][:size]), roles, strict=True)]
    return TokenMap(
        tokens=tokens,
        positions=positions,
        clusters=table["cluster"].to_numpy().reshape(layers, size).tolist(),
        layers=[Layer(**row) for row in rows_of(result.tables["projection"])],
        drawn=len({row % size for row in drawn.index}),
    )
