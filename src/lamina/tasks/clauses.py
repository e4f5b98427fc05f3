"""What rules can read off one sentence of a treebank: its tree, its main clause, number and tense of its words.

Relations have the names of UD v2, whatever the treebank uses; tags are the Penn Treebank's. Where a treebank has other
tags, number and tense come from its features (annotation `feats`), where it has those.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType

from lamina.types import Text

FEATURES = "feats"
"""The annotation with a word's features as labels, such as `Number=Sing`."""

_V2 = {
    "dobj": "obj",
    "nsubjpass": "nsubj:pass",
    "csubjpass": "csubj:pass",
    "auxpass": "aux:pass",
    "mwe": "fixed",
    "name": "flat",
    "foreign": "flat",
    "neg": "advmod",
}
"""Relation of UD v1 -> the same in UD v2."""
_NUMBER = {"NN": "singular", "NNS": "plural", "Number=Sing": "singular", "Number=Plur": "plural"}
_TENSE = {"VBD": "past", "VBP": "present", "VBZ": "present", "Tense=Past": "past", "Tense=Pres": "present"}
_PRONOUNS = {"he": "singular", "she": "singular", "it": "singular", "we": "plural", "they": "plural"}
"""English pronouns whose number their form tells; not you, and not I, which takes its own verb forms."""
_SIDE_BY_SIDE = {"conj", "parataxis", "list", "appos", "discourse"}
"""Relations of a clause that stands beside its head instead of below it."""


def in_v2(relation: str) -> str:
    """A relation as UD v2 calls it.

    Example:
        >>> in_v2("nsubjpass"), in_v2("dobj"), in_v2("nmod:poss")
        ('nsubj:pass', 'obj', 'nmod:poss')
    """
    return _V2.get(relation, relation)


@dataclass(frozen=True)
class Clauses:
    """One sentence, word by word.

    Example:
        >>> from lamina.types import Edge, Span
        >>> relations, heads = ("nsubj", "aux", "root"), (2, 2, 2)
        >>> dep = tuple(Edge((r,), Span(i, i + 1), Span(h, h + 1)) for i, (r, h) in enumerate(zip(relations, heads)))
        >>> tree = Clauses.of(Text("s", ("Dogs", "can", "bark"), edges={"dep": dep}))
        >>> tree.root, tree.auxiliaries(tree.root), tree.subject()
        (2, [1], 0)
    """

    text: Text
    heads: tuple[int, ...]
    """Of each word; its own number at the root, and where none is annotated."""
    relations: tuple[str, ...]
    """In UD v2; empty where none is annotated."""
    pos: Mapping[int, str]
    """Word -> universal part of speech."""
    tags: Mapping[int, str]
    """Word -> Penn Treebank tag."""
    features: Mapping[int, frozenset[str]]

    @classmethod
    def of(cls, text: Text) -> Clauses:
        """The annotations of a text by word."""
        count = len(text.words)
        heads, relations = list(range(count)), [""] * count
        for edge in text.edges.get("dep", ()):
            if edge.other is not None:
                heads[edge.span.start] = edge.other.start
                relations[edge.span.start] = in_v2(edge.labels[0])
        pos, tags = ({edge.span.start: edge.labels[0] for edge in text.edges.get(name, ())} for name in ("pos", "xpos"))
        features = {edge.span.start: frozenset(edge.labels) for edge in text.edges.get(FEATURES, ())}
        return cls(text, tuple(heads), tuple(relations), MappingProxyType(pos), MappingProxyType(tags), features)

    def __len__(self) -> int:
        return len(self.heads)

    @cached_property
    def root(self) -> int | None:
        """The root; none where a sentence has none, or several."""
        named = [at for at, relation in enumerate(self.relations) if relation == "root"]
        found = named or [at for at, head in enumerate(self.heads) if head == at and self._governs(at)]
        return found[0] if len(found) == 1 else None

    def _governs(self, word: int) -> bool:
        return any(head == word and at != word for at, head in enumerate(self.heads))

    def base(self, word: int) -> str:
        """A word's relation without its subtype."""
        return self.relations[word].partition(":")[0]

    def dependents(self, head: int, *relations: str) -> list[int]:
        """The words below a head, of these relations whatever their subtype; all without any."""
        own = [at for at, its in enumerate(self.heads) if its == head and at != head]
        return [at for at in own if not relations or self.base(at) in relations]

    def auxiliaries(self, governor: int) -> list[int]:
        """The auxiliaries of a predicate, the copula among them, in order."""
        return self.dependents(governor, "aux", "cop")

    def subject(self) -> int | None:
        """The subject of the main clause."""
        found = [] if self.root is None else self.dependents(self.root, "nsubj")
        own = [at for at in found if self.relations[at] != "nsubj:outer"]
        return own[0] if len(own) == 1 else None

    def finite(self) -> int | None:
        """The word of the main clause that has tense or is modal: its first auxiliary, or its verb."""
        if self.root is None:
            return None
        first = [*self.auxiliaries(self.root), self.root][0]
        return first if self.tense(first) or self.is_modal(first) else None

    def subordinate(self, predicate: int) -> bool:
        """Whether a predicate is below the main clause, not beside it as a second main clause is."""
        at = predicate
        for _ in range(len(self)):
            if at == self.root:
                return False
            if self.base(at) not in _SIDE_BY_SIDE:
                return True
            at = self.heads[at]
        return False

    def below(self, word: int) -> set[int]:
        """A word and all that depends on it."""
        found, left = {word}, [word]
        while left:
            more = [at for at in self.dependents(left.pop()) if at not in found]
            found.update(more)
            left += more
        return found

    def depth(self) -> int:
        """Steps from the root to the word farthest from it, punctuation left out."""
        return max((self._steps(at) for at in range(len(self)) if not self.is_punctuation(at)), default=0)

    def _steps(self, word: int) -> int:
        steps = 0
        while self.heads[word] != word and steps < len(self):
            word, steps = self.heads[word], steps + 1
        return steps

    def number(self, word: int) -> str:
        """singular or plural, of common nouns; empty for all other words."""
        if not self.is_common_noun(word):
            return ""
        return _NUMBER.get(self.tags.get(word, ""), "") or self._feature(word, _NUMBER)

    def pronoun_number(self, word: int) -> str:
        """singular or plural, of personal pronouns that tell; empty for all other words."""
        if self.tags.get(word) == "PRP":
            return _PRONOUNS.get(self.text.words[word].lower(), "")
        personal = {"PronType=Prs", "Person=3"} <= self.features.get(word, frozenset())
        return self._feature(word, _NUMBER) if personal else ""

    def tense(self, word: int) -> str:
        """past or present, of finite verbs; empty for all other words."""
        if tense := _TENSE.get(self.tags.get(word, ""), ""):
            return tense
        return self._feature(word, _TENSE) if "VerbForm=Fin" in self.features.get(word, ()) else ""

    def _feature(self, word: int, names: Mapping[str, str]) -> str:
        return next((names[each] for each in sorted(self.features.get(word, ())) if each in names), "")

    def is_modal(self, word: int) -> bool:
        """can, will, must and the like."""
        return self.tags.get(word) == "MD" or "VerbType=Mod" in self.features.get(word, ())

    def shows_number(self, word: int) -> bool:
        """Whether the form of a finite verb tells the number of its subject (present tense, was, were).

        Of English; of a treebank without Penn tags, whether its features say so.
        """
        if word not in self.tags or self.tags[word] not in ("VBD", "MD"):
            return self.tags.get(word) in ("VBP", "VBZ") or any(
                each.startswith("Number=") for each in self.features.get(word, ())
            )
        return self.text.words[word].lower() in ("was", "were", "'s", "wasn't", "weren't")

    def is_noun(self, word: int) -> bool:
        """A common noun or a name."""
        if word in self.tags and self.tags[word] in ("NN", "NNS", "NNP", "NNPS"):
            return True
        return self.pos.get(word) in ("NOUN", "PROPN")

    def is_common_noun(self, word: int) -> bool:
        """A common noun."""
        return self.tags.get(word) in ("NN", "NNS") or self.pos.get(word) == "NOUN"

    def is_punctuation(self, word: int) -> bool:
        """A mark instead of a word."""
        return self.base(word) == "punct" or self.pos.get(word) == "PUNCT" or not _has_letters(self.text.words[word])

    def top_constituents(self) -> tuple[str, ...]:
        """The labels of what the largest constituent is made of; words of no constituent by their tags."""
        spans = sorted(self.text.edges.get("const", ()), key=lambda each: (each.span.start, -each.span.end))
        whole = next((each.span for each in spans if len(each.span) == len(self)), None)
        if whole is None:
            return ()
        inner = [each for each in spans if each.span != whole]
        return tuple(self._row(inner))

    def _row(self, inner: list) -> Iterator[str]:
        at = 0
        while at < len(self):
            here = next((each for each in inner if each.span.start == at), None)
            yield self.tags.get(at, self.pos.get(at, "?")) if here is None else here.labels[0]
            at = at + 1 if here is None else here.span.end


def _has_letters(word: str) -> bool:
    return any(letter.isalnum() for letter in word)
