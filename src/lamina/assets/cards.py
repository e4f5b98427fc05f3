"""The card of an asset: what it is, whose, and where to have it from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from lamina.assets.sources import Source


@dataclass(frozen=True)
class Card:
    """A model, a corpus or a set of word vectors, described."""

    name: str
    """What people type."""
    kind: Literal["model", "corpus", "vectors"]
    """What it can be used as."""
    what: str
    """One line for the list."""
    licence: str
    """Of weights or data."""
    members: tuple[str, ...]
    """The files of its folder; `*` stands for anything."""
    size: int
    """Bytes on disk, all files."""
    sources: tuple[Source, ...] = ()
    """Where to fetch it from, tried in order; none: it has to be put into the folder `LAMINA_DATA`."""
    note: str = ""
    """What else one should know before using it."""
    origin: str = ""
    """Who made it: the project's page, at the commit used."""

    @property
    def by_hand(self) -> str:
        """How to do without the sources, to end a message with."""
        if self.kind == "model":
            return ", or name a folder that holds the model instead"
        return f", or set LAMINA_DATA to a folder that holds {self.name}/ with {', '.join(self.members)}"
