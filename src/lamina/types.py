"""The basic types: spans, targets and texts. Frozen, validated, free of tensors and files."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from lamina.errors import SpanError


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """Words `start` to `end`, half-open.

    Example:
        >>> span = Span(2, 5)
        >>> len(span), 4 in span, 5 in span
        (3, True, False)
    """

    start: int
    """The first word."""
    end: int
    """One past the last word."""

    def __post_init__(self) -> None:
        if not 0 <= self.start < self.end:
            raise SpanError(f"a span needs 0 <= start < end; got start={self.start}, end={self.end}")

    def __len__(self) -> int:
        return self.end - self.start

    def __contains__(self, word: object) -> bool:
        return isinstance(word, int) and self.start <= word < self.end

    def __iter__(self):
        return iter(range(self.start, self.end))

    def shift(self, by: int) -> Span:
        """The same span, `by` words further on."""
        return Span(self.start + by, self.end + by)


@dataclass(frozen=True, slots=True)
class Edge:
    """One annotated target of any kind: a POS tag, an entity, a dependency, a coreference link.

    Example:
        >>> Edge(("nsubj",), Span(0, 1), Span(1, 2)).arity
        2
    """

    labels: tuple[str, ...]
    """The target's labels: several if the annotation is multi-label, none if no label holds."""
    span: Span
    """The target's words; the dependent of a dependency, the predicate of a role."""
    other: Span | None = None
    """The second span of a pair; the head of a dependency, the argument of a role."""
    rated: tuple[str, ...] | None = None
    """The labels annotators were asked about; None means all of them. A label not rated is unknown, never negative."""
    value: float | None = None
    """A graded judgement, if the annotation has one (factuality)."""

    @property
    def arity(self) -> int:
        """1 for a single span, 2 for a pair."""
        return 1 if self.other is None else 2

    def shift(self, by: int) -> Edge:
        """The same edge, `by` words further on."""
        other = None if self.other is None else self.other.shift(by)
        return Edge(self.labels, self.span.shift(by), other, self.rated, self.value)


@dataclass(frozen=True, slots=True)
class Text:
    """The unit of encoding: a sentence, a window, a document, or a question with its context.

    Example:
        >>> text = Text("s1", ("Dogs", "bark"), edges={"pos": (Edge(("NOUN",), Span(0, 1)),)})
        >>> text.segments, text.edges["pos"][0].labels
        ((Span(start=0, end=2),), ('NOUN',))
    """

    id: str
    """Unique within its corpus."""
    words: tuple[str, ...]
    """The words, as the annotation splits them."""
    segments: tuple[Span, ...] = ()
    """The words of each of the model's segments, in order and without gaps; one segment by default."""
    edges: Mapping[str, tuple[Edge, ...]] = field(default_factory=dict, hash=False)
    """Annotation name -> its targets."""
    doc: str | None = None
    """The document it comes from, if known."""
    origin: str | None = None
    """What it was made of, where that is more than its words (the uncut context): hashes, separated by spaces."""

    def __post_init__(self) -> None:
        if not self.words:
            raise SpanError(f"text {self.id!r} has no words")
        if not self.segments:
            object.__setattr__(self, "segments", (Span(0, len(self.words)),))
        self._check_segments()
        self._check_edges()

    def _check_segments(self) -> None:
        at = 0
        for segment in self.segments:
            if segment.start != at:
                raise SpanError(f"text {self.id!r}: segments must be consecutive; expected one at {at}, got {segment}")
            at = segment.end
        if at != len(self.words):
            raise SpanError(f"text {self.id!r}: segments end at word {at} of {len(self.words)}")

    def _check_edges(self) -> None:
        size = len(self.words)
        for name, edges in self.edges.items():
            for edge in edges:
                if edge.span.end > size or (edge.other is not None and edge.other.end > size):
                    raise SpanError(f"text {self.id!r}: a {name} edge {edge} is outside its {size} words")


def text_key(text: Text) -> bytes:
    """The content of a text as a 16-byte key: equal words in equal segments have equal keys.

    Example:
        >>> text_key(Text("a", ("Hi", "you"))) == text_key(Text("b", ("Hi", "you")))
        True
        >>> text_key(Text("a", ("Hi", "you"))) == text_key(Text("a", ("Hi you",)))
        False
    """
    said = json.dumps([text.words, [segment.end for segment in text.segments]], ensure_ascii=False)
    return hashlib.blake2b(said.encode("utf-8", "surrogatepass"), digest_size=16).digest()
