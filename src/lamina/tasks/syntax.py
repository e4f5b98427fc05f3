"""Tasks that are made from constituents or dependencies by rules: chunks, ancestors, conjuncts and arcs.

As Liu et al. (2019) ask them. Constituents are read in the order of their brackets, outer before inner, so that two of
the same words keep their order.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from lamina.types import Edge, Span, Text

NONE = "none"
"""Label of a word that has no such ancestor."""
OUTSIDE = "O"
"""Label of a word that is in no chunk."""
_FUNCTION = re.compile(r"[-=|].*")


def phrase(label: str) -> str:
    """A constituent's label without function tags, indices and alternatives; bracket labels like -LRB- stay.

    Example:
        >>> phrase("NP-SBJ-1"), phrase("NP=2"), phrase("ADVP|PRT"), phrase("-LRB-")
        ('NP', 'NP', 'ADVP', '-LRB-')
    """
    return label if label[:1] in "-=|" else _FUNCTION.sub("", label)


def ancestors(text: Text, generation: int) -> tuple[Edge, ...]:
    """Every word with the constituent it is directly in (generation 1), the one around that (2), and so on.

    Example:
        >>> tree = (Edge("S", Span(0, 2)), Edge("NP-SBJ", Span(0, 1)), Edge("VP", Span(1, 2)))
        >>> text = Text("s1", ("Dogs", "bark"), edges={"const": tree})
        >>> [[edge.labels[0] for edge in ancestors(text, generation)] for generation in (1, 2, 3)]
        [['NP', 'VP'], ['S', 'S'], ['none', 'none']]
    """
    lines: list[list[str]] = [[] for _ in text.words]
    for constituent in text.edges["const"]:
        for word in constituent.span:
            lines[word].append(phrase(constituent.labels[0]))
    labels = (line[-generation] if len(line) >= generation else NONE for line in lines)
    return tuple(Edge((label,), Span(word, word + 1)) for word, label in enumerate(labels))


def generation(number: int) -> Callable[[Text], tuple[Edge, ...]]:
    """`ancestors` of one generation, as a task's source."""

    def source(text: Text) -> tuple[Edge, ...]:
        return ancestors(text, number)

    source.__qualname__ = f"ancestors_{number}"
    return source


def conjuncts(text: Text) -> tuple[Edge, ...]:
    """Every word of a sentence with a coordination: 1 if it is the head of a conjunct, otherwise 0.

    Example:
        >>> links = (("root", 0), ("cc", 2), ("conj", 0))
        >>> dep = tuple(Edge(name, Span(n, n + 1), Span(head, head + 1)) for n, (name, head) in enumerate(links))
        >>> [edge.labels[0] for edge in conjuncts(Text("s1", ("Cats", "and", "dogs"), edges={"dep": dep}))]
        ['1', '0', '1']
    """
    heads: set[int] = set()
    for edge in text.edges["dep"]:
        if edge.other is not None and edge.labels[:1] and edge.labels[0].partition(":")[0] == "conj":
            heads |= {edge.span.start, edge.other.start}
    if not heads:
        return ()
    return tuple(Edge(("1" if word in heads else "0",), Span(word, word + 1)) for word in range(len(text.words)))


def arcs(text: Text) -> tuple[Edge, ...]:
    """Every word with its head (1), and with another word drawn from the sentence by its name (0); roots have none.

    Example:
        >>> links = (("nsubj", 1), ("root", 1), ("obj", 1))
        >>> dep = tuple(Edge(name, Span(n, n + 1), Span(head, head + 1)) for n, (name, head) in enumerate(links))
        >>> pairs = arcs(Text("s1", ("Dogs", "chase", "cats"), edges={"dep": dep}))
        >>> [(edge.labels[0], edge.span.start, edge.other.start) for edge in pairs]
        [('1', 0, 1), ('0', 0, 2), ('1', 2, 1), ('0', 2, 0)]
    """
    pairs: list[Edge] = []
    for edge in text.edges["dep"]:
        if edge.other is None or edge.other == edge.span:
            continue
        word, head = edge.span.start, edge.other.start
        others = [other for other in range(len(text.words)) if other not in (word, head)]
        if others:
            drawn = hashlib.blake2b(f"{text.id} {word}".encode("utf-8", "surrogatepass"), digest_size=8).digest()
            other = others[int.from_bytes(drawn) % len(others)]
            pairs += [Edge(("1",), edge.span, edge.other), Edge(("0",), edge.span, Span(other, other + 1))]
    return tuple(pairs)


# Chunks, by the rules of CoNLL-2000 (Tjong Kim Sang and Buchholz): a chunk has everything up to and including the head
# of its constituent, and nothing after it.

_KINDS = {
    "NP": "NP", "WHNP": "NP", "NX": "NP", "NML": "NP", "NAC": "NP", "QP": "NP",
    "VP": "VP", "PP": "PP", "WHPP": "PP", "ADVP": "ADVP", "WHADVP": "ADVP", "ADJP": "ADJP", "WHADJP": "ADJP",
    "SBAR": "SBAR", "PRT": "PRT", "INTJ": "INTJ", "CONJP": "CONJP", "LST": "LST", "UCP": "UCP",
}  # fmt: skip
"""Constituent -> the chunk that its head ends; the words of any other are outside."""
_ALWAYS = {"NP": {"QP", "NML", "NX", "NAC"}}
"""Chunk -> constituents that are part of it wherever they stand."""
_BEFORE = {
    "NP": {"ADJP", "UCP", "ADVP", "WHADJP"},
    "VP": {"ADVP"},
    "ADJP": {"ADVP", "ADJP"},
    "ADVP": {"ADVP"},
    "PP": {"ADVP", "ADJP"},
    "SBAR": {"ADVP"},
}
"""Chunk -> constituents that are part of it before its head."""
_JOINS = {"CC", "CCONJ"}
_WORDS = {"and", "or", "but", "nor", "&"}
_POSSESSIVE = {"POS"}


class _Phrase(NamedTuple):
    kind: str
    words: list[int]


@dataclass
class _Constituent:
    label: str
    span: Span
    children: list[_Constituent | int] = field(default_factory=list)
    """Constituents, and the words that are directly in it."""


def chunks(text: Text) -> tuple[Edge, ...]:
    """Every word with its chunk: B-NP at the start of one, I-NP inside it, O outside all.

    Example:
        >>> tree = (Edge("S", Span(0, 4)), Edge("NP", Span(0, 2)), Edge("VP", Span(2, 4)), Edge("VP", Span(3, 4)))
        >>> text = Text("s1", ("The", "dog", "was", "barking"), edges={"const": tree})
        >>> [edge.labels[0] for edge in chunks(text)]
        ['B-NP', 'I-NP', 'B-VP', 'I-VP']
    """
    return _Chunker(text).edges()


class _Chunker:
    """Collects the chunks of one tree, from left to right."""

    def __init__(self, text: Text) -> None:
        self._text = text
        tags = text.edges.get("xpos") or text.edges.get("pos", ())
        self._tags = {edge.span.start: edge.labels[0] for edge in tags}
        self._chunks: list[_Phrase] = []
        self._begins = True
        """Whether the next word begins a chunk whatever is before it."""

    def edges(self) -> tuple[Edge, ...]:
        """One per word."""
        for top in _tree(self._text):
            self._visit(top)
        labels = [OUTSIDE] * len(self._text.words)
        for chunk in self._chunks:
            for place, word in enumerate(self._trimmed(chunk.words)):
                labels[word] = f"{'I' if place else 'B'}-{chunk.kind}"
        return tuple(Edge((label,), Span(word, word + 1)) for word, label in enumerate(labels))

    def _visit(self, node: _Constituent, *, verbs: bool = False) -> None:
        """`verbs` says that a verb phrase here goes on with the verbs before it."""
        kind = _KINDS.get(node.label)
        phrases = [child for child in node.children if isinstance(child, _Constituent)]
        # Where whole phrases are joined, what joins them is outside.
        joined = any(_KINDS.get(phrase.label) == kind for phrase in phrases)
        one_verb_phrase = sum(phrase.label == "VP" for phrase in phrases) == 1
        self._begins |= not verbs
        for place, child in enumerate(node.children):
            if isinstance(child, int):
                if kind is not None and not (joined and (self._joins(child) or self._is_mark(child))):
                    self._add(kind, child)
            elif kind is not None and self._belongs(kind, child, node.children[place + 1 :]):
                for word in child.span:
                    self._add(kind, word)
            else:
                # A clause without a subject goes on with the verbs around it: want to sell.
                subjectless = child.label == "S" and [getattr(part, "label", "") for part in child.children] == ["VP"]
                goes_on = kind == "VP" or verbs
                self._visit(child, verbs=goes_on and (subjectless or (child.label == "VP" and one_verb_phrase)))
                self._begins = not (kind == "NP" and child.label == "NP" and self._split_possessive(child))

    def _add(self, kind: str, word: int) -> None:
        last = self._chunks[-1] if self._chunks else None
        if last is None or self._begins or last.kind != kind or last.words[-1] != word - 1:
            self._chunks.append(_Phrase(kind, [word]))
        else:
            last.words.append(word)
        self._begins = False

    def _belongs(self, kind: str, child: _Constituent, rest: Sequence[_Constituent | int]) -> bool:
        if child.label in _ALWAYS.get(kind, ()):
            return True
        if child.label not in _BEFORE.get(kind, ()) or _has_noun_phrase(child):
            return False
        after = [part for part in rest if not (isinstance(part, int) and (self._is_mark(part) or self._joins(part)))]
        heads = _ALWAYS.get(kind, set()) | ({"VP"} if kind == "VP" else set())
        return any(isinstance(part, int) or part.label in heads for part in after)

    def _split_possessive(self, child: _Constituent) -> bool:
        """Whether a phrase ends in 's, which then begins the chunk of what is possessed."""
        last = self._chunks[-1] if self._chunks else None
        word = child.span.end - 1
        if last is None or last.kind != "NP" or last.words[-1] != word or not self._is_possessive(word):
            return False
        if len(last.words) > 1:
            last.words.pop()
            self._chunks.append(_Phrase("NP", [word]))
        return True

    def _trimmed(self, words: list[int]) -> list[int]:
        """Without marks and conjunctions at either end."""
        while words and (self._is_mark(words[-1]) or self._joins(words[-1])):
            words = words[:-1]
        while words and (self._is_mark(words[0]) or self._joins(words[0])) and len(words) > 1:
            words = words[1:]
        return words

    def _joins(self, word: int) -> bool:
        tag = self._tags.get(word)
        return tag in _JOINS if tag is not None else self._text.words[word].lower() in _WORDS

    def _is_mark(self, word: int) -> bool:
        written = self._text.words[word]
        return not any(letter.isalnum() for letter in written) and written not in ("%", "$", "#", "&", "£", "€")

    def _is_possessive(self, word: int) -> bool:
        tag = self._tags.get(word)
        written = self._text.words[word].replace("\N{RIGHT SINGLE QUOTATION MARK}", "'")
        return written in ("'s", "'") and (tag is None or tag in (*_POSSESSIVE, "PART"))


def _tree(text: Text) -> list[_Constituent]:
    """The constituents of a text as trees."""
    tops: list[_Constituent] = []
    around: list[_Constituent] = []
    for edge in text.edges["const"]:
        node = _Constituent(phrase(edge.labels[0]), edge.span)
        while around and not (around[-1].span.start <= edge.span.start and edge.span.end <= around[-1].span.end):
            around.pop()
        (around[-1].children if around else tops).append(node)
        around.append(node)
    for top in tops:
        _with_words(top)
    return tops


def _with_words(node: _Constituent) -> None:
    """Put the words that are in no constituent below a node among its children."""
    inner = {child.span.start: child for child in node.children if isinstance(child, _Constituent)}
    children: list[_Constituent | int] = []
    word = node.span.start
    while word < node.span.end:
        child = inner.get(word)
        children.append(word if child is None else child)
        word = word + 1 if child is None else child.span.end
        if child is not None:
            _with_words(child)
    node.children = children


def _has_noun_phrase(node: _Constituent) -> bool:
    inner = [child for child in node.children if isinstance(child, _Constituent)]
    return any((_KINDS.get(child.label) == "NP" and child.label != "QP") or _has_noun_phrase(child) for child in inner)
