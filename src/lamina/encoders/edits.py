"""Changes of a model's parts: what is taken away, replaced or skipped, and what comes of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from jaxtyping import Bool, Float
from torch import Tensor

from lamina.errors import ModelError

RESAMPLED: Literal["resampled"] = "resampled"
"""Instead of a value: what the same place has in another text."""
Fill = Tensor | Literal["resampled"] | None
"""What replaces a part of what heads hand on: numbers [head x size] (means), the values of another text, or zeros."""


class Mixed(NamedTuple):
    """A change of what the heads of a block hand to its output projection."""

    where: Bool[Tensor, " unit"]
    """Which of the block's heads x size numbers are replaced: those of a head, or any others."""
    fill: Fill = None


Change = Callable[[Float[Tensor, "row token width"], "Clean"], Float[Tensor, "row token width"]]
"""A change of the states of a layer, given them and the run of the same rows as they are."""


@dataclass(frozen=True, eq=False)
class Edit:
    """What is changed in a run; several changes act together.

    Example:
        >>> Edit(skipped=frozenset({3})).first, Edit(states={2: lambda states, clean: states}).first
        (3, 2)
    """

    mixed: Mapping[int, Mixed] = field(default_factory=dict)
    """Block (from 0) -> what becomes of its heads' output."""
    skipped: frozenset[int] = frozenset()
    """Blocks (from 0) that hand on what they read."""
    states: Mapping[int, Change] = field(default_factory=dict)
    """Layer -> what becomes of its states; layers as `encode` counts them, 0 being the embeddings."""

    @property
    def first(self) -> int:
        """The first block (from 0) that makes something else than in a run without it."""
        return min((*self.mixed, *self.skipped, *self.states), default=0)


@dataclass(frozen=True, eq=False)
class Clean:
    """A batch of rows, run as they are."""

    rows: tuple[int, ...]
    """Their numbers among all rows that were given."""
    sizes: tuple[int, ...]
    """Tokens of each, without padding."""
    states: tuple[Float[Tensor, "row token width"], ...]
    """Of every layer, the last one as `encode` gives it (after a final norm)."""
    mixed: Mapping[int, Float[Tensor, "row token unit"]]
    """Block -> what its heads hand on; only where a change asks for it."""
    made: tuple[Any, ...]
    """What every block returned."""
    inside: Mapping[int, Any]
    """Block -> what the module returned that need not run again, where there is one; kept with `mixed`."""
    donor: Clean | None = None
    """The rows that stand in for these, each as long as the row it stands in for."""


class Made(NamedTuple):
    """What came of one change in one batch."""

    rows: tuple[int, ...]
    """Numbers of the rows."""
    edit: int | None
    """Number of the change; None for the run without one, which comes first."""
    states: Mapping[int, Float[Tensor, "row token width"]]
    """Layer -> its states, of the layers asked for; padding included."""


def refilled(handed: Tensor, block: int, edits: Sequence[Edit], clean: Clean) -> Tensor:
    """What the heads of a block hand on, [edit x row, token, unit], after each edit's change of it."""
    changed = handed.clone()
    for edit, part in zip(edits, changed.chunk(len(edits)), strict=True):
        if block not in edit.mixed:
            continue
        where, fill = edit.mixed[block]
        where = where.to(part.device)
        if fill is None:
            part[..., where] = 0
        elif isinstance(fill, str):
            if clean.donor is None:
                raise ModelError("values of another text are asked for, and no text was given to take them from")
            part[..., where] = clean.donor.mixed[block][..., where]
        else:
            part[..., where] = fill.to(part)[where]
    return changed
