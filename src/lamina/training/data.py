"""What is learned from, what chooses, what is scored: three sets of texts, disjoint."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from lamina.corpora.corpus import fingerprint_of
from lamina.corpora.questions import Question
from lamina.errors import CorpusError
from lamina.training.objective import Item, text_of
from lamina.training.provenance import text_hash


@dataclass(frozen=True)
class Sets:
    """The texts or questions of one fine-tuning.

    Example:
        >>> from lamina.types import Text
        >>> Sets("pets", (Text("a", ("Dogs",)),), (Text("b", ("Cats",)),), (Text("c", ("Owls",)),)).describe()["name"]
        'pets'
    """

    name: str
    train: tuple[Item, ...]
    """Learned from."""
    select: tuple[Item, ...]
    """Chooses the checkpoint and, of a grid, the settings."""
    scored: tuple[Item, ...]
    """Scored once, at the end."""
    about: Mapping[str, Any] | None = None
    """Where they come from; None where they were made by a program."""
    behind: frozenset[str] = frozenset()
    """Hashes of further texts that those to learn and choose from were made of."""

    @cached_property
    def fingerprint(self) -> str:
        """Changes with any text or label."""
        return fingerprint_of([[_said(item) for item in part] for part in (self.train, self.select, self.scored)])

    def describe(self) -> dict[str, Any]:
        """What provenance says of them."""
        sizes = {"train": len(self.train), "select": len(self.select), "scored": len(self.scored)}
        return {
            "name": self.name,
            "split": "test",
            **(self.about or {}),
            "fingerprint": self.fingerprint,
            "texts": sizes,
        }


def _said(item: Item) -> list[Any]:
    text = text_of(item)
    edges = [
        [name, [[e.labels, e.span.start, e.span.end] for e in found]] for name, found in sorted(text.edges.items())
    ]
    answers = [item.answers, item.context] if isinstance(item, Question) else []
    return [text.words, [segment.end for segment in text.segments], edges, answers]


def apart(sets: Sets) -> tuple[Sets, Counter[str]]:
    """The sets without texts that stand in a later one too; how many were left out.

    A few sentences come up everywhere ("Thank you ."). Where it is most of them, the sets are the same texts, and the
    run is refused.
    """
    for name in ("train", "select", "scored"):
        if not getattr(sets, name):
            raise CorpusError(f"{sets.name}: there are no texts in {name}; give more, or a higher --limit")
    scored = {text_hash(text_of(item)) for item in sets.scored}
    select = tuple(item for item in sets.select if text_hash(text_of(item)) not in scored)
    later = scored | {text_hash(text_of(item)) for item in select}
    train = tuple(item for item in sets.train if text_hash(text_of(item)) not in later)
    for name, kept in (("select", select), ("train", train)):
        given = len(getattr(sets, name))
        if len(kept) < given / 2:
            raise CorpusError(
                f"{sets.name}: {given - len(kept):,} of the {given:,} texts to {name.replace('train', 'learn')} from "
                "stand in the sets that choose or score, too; what is scored may not be trained on: give texts apart"
            )
    noted = Counter(
        {
            "training texts that stand in the selection or scored texts too": len(sets.train) - len(train),
            "selection texts that stand in the scored texts too": len(sets.select) - len(select),
        }
    )
    return replace(sets, train=train, select=select), noted
