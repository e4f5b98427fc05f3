"""What kind of mention it is, which of its words is the head, and what its form says of number, gender and person."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from lamina.types import Span, Text

TYPES = ("pronoun", "proper", "nominal")

_PRONOUN_TAGS = frozenset({"PRON", "PRP", "PRP$", "WP", "WP$"})
_PROPER_TAGS = frozenset({"PROPN", "NNP", "NNPS"})
_PLURAL_TAGS = frozenset({"NNS", "NNPS"})
_SINGULAR_TAGS = frozenset({"NN", "NNP"})
_NOUN_TAGS = _PROPER_TAGS | _PLURAL_TAGS | _SINGULAR_TAGS | {"NOUN"}
_AFTER = frozenset({"PP", "S", "SBAR", "VP", "RRC"})
"""Constituents that follow a noun phrase's head."""


class Form(NamedTuple):
    """What a form says of its referent; None where it does not say."""

    number: str | None
    gender: str | None
    person: str | None


_PRONOUNS = {
    Form("singular", None, "first"): "i me my mine myself",
    Form("plural", None, "first"): "we us our ours ourselves",
    Form(None, None, "second"): "you your yours yourself yourselves",
    Form("singular", "masculine", "third"): "he him his himself",
    Form("singular", "feminine", "third"): "she her hers herself",
    Form("singular", "neuter", "third"): "it its itself this that",
    Form("plural", None, "third"): "they them their theirs themselves these those",
    Form(None, None, "third"): "who whom whose which one oneself",
}
_GENDERED = {
    "masculine": "mr. mr sir man boy gentleman father son brother husband uncle king",
    "feminine": "mrs. mrs ms. ms miss madam woman girl lady mother daughter sister wife aunt queen",
}
_FORMS = {word: form for form, words in _PRONOUNS.items() for word in words.split()}
_GENDERS = {word: gender for gender, words in _GENDERED.items() for word in words.split()}


@dataclass(frozen=True, slots=True)
class Mention:
    """A mention as rules and heads see it."""

    span: Span
    head: int
    """Its head word."""
    type: str
    """One of `TYPES`."""
    words: tuple[str, ...]
    """In lower case."""
    form: Form

    @property
    def head_word(self) -> str:
        """In lower case."""
        return self.words[self.head - self.span.start]

    def agrees(self, other: Mention) -> bool:
        """Whether the two forms say nothing different."""
        pairs = zip(self.form, other.form, strict=True)
        return all(one is None or another is None or one == another for one, another in pairs)


class MentionReader:
    """Describes the mentions of one text by the annotations that it has.

    Example:
        >>> text = Text("t", ("Mrs.", "Dalloway", "bought", "the", "flowers", "herself"))
        >>> mention = MentionReader(text).read(Span(0, 2))
        >>> mention.type, mention.head_word, mention.form.gender
        ('proper', 'dalloway', 'feminine')
        >>> MentionReader(text).read(Span(5, 6)).agrees(mention)
        True
    """

    def __init__(self, text: Text) -> None:
        self._text = text
        self._tags: dict[int, set[str]] = {}
        for edge in (*text.edges.get("pos", ()), *text.edges.get("xpos", ())):
            self._tags.setdefault(edge.span.start, set()).update(edge.labels)
        self._governors = {
            edge.span.start: edge.other.start for edge in text.edges.get("dep", ()) if edge.other is not None
        }
        self._after = [edge.span for edge in text.edges.get("const", ()) if _AFTER & set(map(_bare, edge.labels))]

    def read(self, span: Span) -> Mention:
        """The mention of these words."""
        words = tuple(word.lower() for word in self._text.words[span.start : span.end])
        head = self.head(span)
        form = _FORMS.get(words[head - span.start]) or self._noun(words, head, head - span.start)
        return Mention(span, head, self._type(head, alone=len(words) == 1), words, form)

    def head(self, span: Span) -> int:
        """The first word whose syntactic head lies outside the mention, or that is the root.

        Without dependencies: the last noun, or else word, before the first clause, verb phrase or prepositional
        phrase that starts inside the mention. Without constituents either: the last word.
        """
        if self._governors:
            outside = (word for word in span if (up := self._governors.get(word)) == word or up not in span)
            return next(outside, span.end - 1)
        inside = [each.start for each in self._after if span.start < each.start < span.end]
        front = range(span.start, min(inside, default=span.end))
        nouns = [word for word in front if self._tags.get(word, set()) & _NOUN_TAGS] if inside else []
        return nouns[-1] if nouns else front[-1]

    def _type(self, head: int, *, alone: bool) -> str:
        tags, word = self._tags.get(head, set()), self._text.words[head]
        if tags & _PRONOUN_TAGS or (not tags and alone and word.lower() in _FORMS):
            return "pronoun"
        return "proper" if tags & _PROPER_TAGS or (not tags and word[:1].isupper()) else "nominal"

    def _noun(self, words: tuple[str, ...], head: int, at: int) -> Form:
        """Number by what is joined to it and by its tag, gender by its title or by itself."""
        tags = self._tags.get(head, set())
        number = "singular" if tags & _SINGULAR_TAGS else None
        if "and" in words[at + 1 :] or tags & _PLURAL_TAGS:
            number = "plural"
        return Form(number, _GENDERS.get(words[at], _GENDERS.get(words[0])), "third")


def _bare(label: str) -> str:
    """A constituent's label without its function: NP of NP-SBJ."""
    return label.partition("-")[0].partition("=")[0]
