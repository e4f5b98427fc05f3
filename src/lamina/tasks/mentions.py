"""Pairs of mentions, of which coreference asks whether they mean the same."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations

from lamina.types import Edge, Span, Text

NEAREST = 20
"""Mentions before each one that it is paired with in a window or document: all there are in a window of 128 words, as a
rule; in a document the number of pairs grows with its length, not with the square of it."""


def mention_pairs(text: Text) -> tuple[Edge, ...]:
    """The pairs a text has (`coref`), or else every two mentions of one sentence: 1 where of one chain, 0 otherwise.

    The earlier mention comes first. In a window or document the `sentence` annotation says what a sentence is; a
    mention that crosses the end of one has none. Mentions of the same words are no pair.

    Example:
        >>> chains = (Edge(("c1",), Span(0, 1)), Edge(("c1",), Span(2, 3)), Edge(("c2",), Span(3, 4)))
        >>> text = Text("s1", ("Ann", "saw", "herself", "there"), edges={"chains": chains})
        >>> [(edge.labels[0], edge.span.start, edge.other.start) for edge in mention_pairs(text)]
        [('1', 0, 2), ('0', 0, 3), ('0', 2, 3)]
    """
    if "coref" in text.edges:
        return text.edges["coref"]
    chains = _chains(text)
    whole = (Edge((), Span(0, len(text.words))),)
    pairs: list[tuple[Span, Span]] = []
    for sentence in text.edges.get("sentence", whole):
        inside = sorted(s for s in chains if sentence.span.start <= s.start and s.end <= sentence.span.end)
        pairs += combinations(inside, 2)
    return _labelled(pairs, chains)


def window_pairs(text: Text) -> tuple[Edge, ...]:
    """Every mention of a window with the `NEAREST` mentions before it, in whatever sentence: 1 where of one chain.

    Example:
        >>> chains = (Edge(("c1",), Span(0, 1)), Edge(("c1",), Span(2, 3)))
        >>> sentences = (Edge(("s1",), Span(0, 2)), Edge(("s2",), Span(2, 4)))
        >>> text = Text("w1", ("Ann", "left", "She", "ran"), edges={"chains": chains, "sentence": sentences})
        >>> [(edge.labels[0], edge.span.start, edge.other.start) for edge in window_pairs(text)]
        [('1', 0, 2)]
    """
    chains = _chains(text)
    mentions = sorted(chains)
    near = ((first, mention) for at, mention in enumerate(mentions) for first in mentions[max(0, at - NEAREST) : at])
    return _labelled(near, chains)


def too_far(text: Text) -> int:
    """How many pairs of mentions of a window have more than `NEAREST` mentions between them, and are left out."""
    beyond = max(0, len(_chains(text)) - NEAREST - 1)
    return beyond * (beyond + 1) // 2


def _chains(text: Text) -> dict[Span, set[str]]:
    """Mention -> its chains."""
    chains: dict[Span, set[str]] = {}
    for mention in text.edges["chains"]:
        chains.setdefault(mention.span, set()).update(mention.labels)
    return chains


def _labelled(pairs: Iterable[tuple[Span, Span]], chains: dict[Span, set[str]]) -> tuple[Edge, ...]:
    return tuple(Edge(("0",) if chains[a].isdisjoint(chains[b]) else ("1",), a, b) for a, b in pairs)
