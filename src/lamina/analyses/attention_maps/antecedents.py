"""Which mentions have an antecedent, who could be it, and what simple rules choose."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from lamina.analyses.attention_maps.mention_types import Mention, MentionReader
from lamina.types import Span, Text


@dataclass(frozen=True, slots=True)
class Anaphor:
    """A mention that has an antecedent."""

    mention: Mention
    candidates: tuple[Mention, ...]
    """Who could be meant, the nearest first."""
    antecedents: frozenset[int]
    """The head words of the right ones."""


def anaphors(text: Text) -> list[Anaphor]:
    """The mentions of a text that have an antecedent in it.

    With `chains`, every mention of a chain but the first; a mention comes before another where its head word does,
    and all that come before are candidates. With `coref` (GAP), every pronoun that means one of its names, wherever
    the names stand; its names are the candidates.

    Example:
        >>> from lamina.types import Edge
        >>> chains = (Edge(("c1",), Span(0, 1)), Edge(("c2",), Span(2, 3)), Edge(("c1",), Span(4, 5)))
        >>> text = Text("t", ("Ann", "saw", "Bo", "while", "she", "ran"), edges={"chains": chains})
        >>> [(each.mention.head, [c.head for c in each.candidates], set(each.antecedents)) for each in anaphors(text)]
        [(4, [2, 0], {0})]
    """
    found = _of_chains(text) if "chains" in text.edges else _of_pairs(text)
    return [each for each in found if each.antecedents]


def _of_chains(text: Text) -> Iterator[Anaphor]:
    chains: dict[Span, set[str]] = {}
    for edge in text.edges["chains"]:
        chains.setdefault(edge.span, set()).update(edge.labels)
    reader = MentionReader(text)
    mentions = [reader.read(span) for span in sorted(chains)]
    for mention in mentions:
        before = [other for other in mentions if other.head < mention.head]
        same = [other.head for other in before if not chains[other.span].isdisjoint(chains[mention.span])]
        yield Anaphor(mention, _nearest_first(mention, before), frozenset(same))


def _of_pairs(text: Text) -> Iterator[Anaphor]:
    names: dict[Span, dict[Span, bool]] = {}
    for edge in text.edges.get("coref", ()):
        if edge.other is not None:
            names.setdefault(edge.span, {})[edge.other] = "1" in edge.labels
    reader = MentionReader(text)
    for pronoun, named in names.items():
        mention = reader.read(pronoun)
        right = frozenset(reader.head(span) for span, same in named.items() if same)
        yield Anaphor(mention, _nearest_first(mention, [reader.read(span) for span in named]), right)


def _nearest_first(mention: Mention, others: Sequence[Mention]) -> tuple[Mention, ...]:
    return tuple(sorted(others, key=lambda other: abs(mention.head - other.head)))


Sieve = Callable[[Mention, Mention], bool]

SIEVES: tuple[Sieve, ...] = (
    lambda mention, other: mention.words == other.words,
    lambda mention, other: mention.head_word == other.head_word,
    lambda mention, other: mention.agrees(other),
    lambda *_: True,
)
"""Full string; head word; number, gender and person; anything."""

BASELINES: dict[str, tuple[Sieve, ...]] = {"nearest": SIEVES[3:], "head match": SIEVES[1:2], "rules": SIEVES}
"""System -> its sieves."""


def choose(anaphor: Anaphor, sieves: Sequence[Sieve]) -> Mention | None:
    """The nearest candidate that passes the first sieve any candidate passes; None where none passes any.

    Example:
        >>> text = Text("t", ("Ann", "and", "the", "dogs", "saw", "Ann"))
        >>> reader = MentionReader(text)
        >>> ann, dogs, again = (reader.read(span) for span in (Span(0, 1), Span(2, 4), Span(5, 6)))
        >>> choose(Anaphor(again, (dogs, ann), frozenset({0})), BASELINES["head match"]) == ann
        True
    """
    for passes in sieves:
        for candidate in anaphor.candidates:
            if passes(anaphor.mention, candidate):
                return candidate
    return None
