"""The basic types: spans, targets and texts. Frozen, validated, free of tensors and files."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise

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

    One label may be given as a string, several as a list.

    Example:
        >>> Edge(("nsubj",), Span(0, 1), Span(1, 2)).arity
        2
        >>> Edge("positive", Span(0, 1)).labels
        ('positive',)
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

    def __post_init__(self) -> None:
        # Readers make millions of edges, with tuples of strings: those pass by a look at their types.
        if type(self.labels) is not tuple or not set(map(type, self.labels)) <= _PLAIN:
            object.__setattr__(self, "labels", _labels(self.labels, "labels"))
        if self.rated is not None and (type(self.rated) is not tuple or not set(map(type, self.rated)) <= _PLAIN):
            object.__setattr__(self, "rated", _labels(self.rated, "rated"))
        for span in (self.span, self.other):
            if type(span) is not Span and not (span is None and self.span is not None):
                raise SpanError(f"an edge is between spans, as Span(0, 1); got {span!r:.80}")
        if self.value is not None and not (type(self.value) is float and math.isfinite(self.value)):
            object.__setattr__(self, "value", _value(self.value))

    @property
    def arity(self) -> int:
        """1 for a single span, 2 for a pair."""
        return 1 if self.other is None else 2

    def shift(self, by: int) -> Edge:
        """The same edge, `by` words further on."""
        other = None if self.other is None else self.other.shift(by)
        return Edge(self.labels, self.span.shift(by), other, self.rated, self.value)


_PLAIN = {str}


def _labels(given: object, what: str) -> tuple[str, ...]:
    """One label or several, as a tuple: a string is one label, never a sequence of letters."""
    if isinstance(given, str):
        return (str(given),)
    if isinstance(given, list | tuple) and all(isinstance(label, str) for label in given):
        return tuple(map(str, given))
    raise SpanError(f"{what} of an edge are strings, as 'positive' or ('positive', 'strong'); got {given!r:.80}")


def _value(given: object) -> float:
    """A finite number; text and NaN are refused."""
    try:
        number = None if isinstance(given, str | bytes | bool) else float(given)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        number = None
    if number is None or not math.isfinite(number):
        raise SpanError(f"the value of an edge is a finite number; got {given!r:.80}")
    return number


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
    glued: tuple[int, ...] = ()
    """Words written without a space before them, by number and in order; none where the corpus does not say.

    Encoders read words, whatever is between them; language models are asked for text as it is written.
    """

    def __post_init__(self) -> None:
        if type(self.words) is not tuple:
            object.__setattr__(self, "words", _words(self.id, self.words))
        if not self.words:
            raise SpanError(f"text {self.id!r} has no words")
        if not self.segments:
            object.__setattr__(self, "segments", (Span(0, len(self.words)),))
        self._check_segments()
        self._check_edges()
        if self.glued:
            self._check_glued()

    def _check_segments(self) -> None:
        end = 0
        for segment in self.segments:
            if segment.start != end:
                raise SpanError(f"text {self.id!r}: segments must be consecutive; expected one at {end}, got {segment}")
            end = segment.end
        if end != len(self.words):
            raise SpanError(f"text {self.id!r}: segments end at word {end} of {len(self.words)}")

    def _check_edges(self) -> None:
        size = len(self.words)
        if not all(type(edges) is tuple for edges in self.edges.values()):
            object.__setattr__(self, "edges", {name: _tuple(edges) for name, edges in self.edges.items()})
        for name, edges in self.edges.items():
            for edge in edges:
                if not isinstance(edge, Edge):
                    raise SpanError(f"text {self.id!r}: {name} holds {edge!r:.80}; give a tuple of Edge")
                if edge.span.end > size or (edge.other is not None and edge.other.end > size):
                    raise SpanError(f"text {self.id!r}: a {name} edge {edge} is outside its {size} words")

    def _check_glued(self) -> None:
        bounds = (0, *self.glued, len(self.words))
        if any(before >= after for before, after in pairwise(bounds)):
            raise SpanError(f"text {self.id!r}: glued words are numbers from 1 to {len(self.words) - 1}, in order")


def _words(id: str, given: object) -> tuple[str, ...]:
    if isinstance(given, list) and all(isinstance(word, str) for word in given):
        return tuple(given)
    raise SpanError(f"text {id!r}: words are a tuple of strings, as ('Dogs', 'bark'); got {given!r:.80}")


def _tuple(edges: object) -> tuple[object, ...]:
    return tuple(edges) if isinstance(edges, list | tuple) else (edges,)


def text_key(text: Text) -> bytes:
    """The content of a text as a 16-byte key: equal words in equal segments have equal keys.

    Example:
        >>> text_key(Text("a", ("Hi", "you"))) == text_key(Text("b", ("Hi", "you")))
        True
        >>> text_key(Text("a", ("Hi", "you"))) == text_key(Text("a", ("Hi you",)))
        False
    """
    parts = json.dumps([text.words, [segment.end for segment in text.segments]], ensure_ascii=False)
    return hashlib.blake2b(parts.encode("utf-8", "surrogatepass"), digest_size=16).digest()
