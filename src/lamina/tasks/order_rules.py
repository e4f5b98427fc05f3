"""Probing tasks about order and structure, made from any treebank by rules.

A rule reads one sentence and gives targets with their labels, or the reason why it gives none. Rules know nothing of
splits, classes to be balanced or amounts: see `order_making`.
"""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from math import log1p
from statistics import median
from types import MappingProxyType
from typing import Literal, NamedTuple

from lamina.corpora.corpus import origins
from lamina.corpora.treebanks import FEATURES
from lamina.tasks.syntax import phrase
from lamina.types import Span, Text

# What rules can read off one sentence of a treebank: its tree, its main clause, number and tense of its words.
#
# Relations have the names of UD v2, whatever the treebank uses; tags are the Penn Treebank's. Where a treebank has
# other tags, number and tense come from its features (annotation `feats`), where it has those.

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
_TENSE = {
    "VBD": "past", "VBP": "present", "VBZ": "present",
    "Tense=Past": "past", "Tense=Imp": "past", "Tense=Pqp": "past", "Tense=Pres": "present",
}  # fmt: skip
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
        named = [word for word, relation in enumerate(self.relations) if relation == "root"]
        roots = named or [word for word, head in enumerate(self.heads) if head == word and self._governs(word)]
        return roots[0] if len(roots) == 1 else None

    def _governs(self, word: int) -> bool:
        return any(head == word and other != word for other, head in enumerate(self.heads))

    def base(self, word: int) -> str:
        """A word's relation without its subtype."""
        return self.relations[word].partition(":")[0]

    def dependents(self, head: int, *relations: str) -> list[int]:
        """The words below a head, of these relations whatever their subtype; all without any."""
        below = [word for word, its in enumerate(self.heads) if its == head and word != head]
        return [word for word in below if not relations or self.base(word) in relations]

    def auxiliaries(self, governor: int) -> list[int]:
        """The auxiliaries of a predicate, the copula among them, in order."""
        return self.dependents(governor, "aux", "cop")

    def subject(self) -> int | None:
        """The subject of the main clause."""
        subjects = [] if self.root is None else self.dependents(self.root, "nsubj")
        inner = [word for word in subjects if self.relations[word] != "nsubj:outer"]
        return inner[0] if len(inner) == 1 else None

    def finite(self) -> int | None:
        """The word of the main clause that has tense or is modal: its first auxiliary, or its verb."""
        if self.root is None:
            return None
        first = [*self.auxiliaries(self.root), self.root][0]
        return first if self.tense(first) or self.is_modal(first) else None

    def subordinate(self, predicate: int) -> bool:
        """Whether a predicate is below the main clause, not beside it as a second main clause is."""
        word = predicate
        for _ in range(len(self)):
            if word == self.root:
                return False
            if self.base(word) not in _SIDE_BY_SIDE:
                return True
            word = self.heads[word]
        return False

    def below(self, word: int) -> set[int]:
        """A word and all that depends on it."""
        inside, left = {word}, [word]
        while left:
            more = [other for other in self.dependents(left.pop()) if other not in inside]
            inside.update(more)
            left += more
        return inside

    def depth(self) -> int:
        """Steps from the root to the word farthest from it, punctuation left out."""
        return max((self._steps(word) for word in range(len(self)) if not self.is_punctuation(word)), default=0)

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
        features = self.features.get(word, frozenset())
        forms = {feature for feature in features if feature.startswith("VerbForm=")}
        # Slavic pasts are participles, which are predicates by themselves; some treebanks have tense and no form.
        finite = not forms or "VerbForm=Fin" in forms or (forms == {"VerbForm=Part"} and not self.auxiliaries(word))
        return self._feature(word, _TENSE) if finite and self.pos.get(word, "VERB") in ("VERB", "AUX") else ""

    def _feature(self, word: int, names: Mapping[str, str]) -> str:
        return next((names[feature] for feature in sorted(self.features.get(word, ())) if feature in names), "")

    def is_modal(self, word: int) -> bool:
        """can, will, must and the like."""
        return self.tags.get(word) == "MD" or "VerbType=Mod" in self.features.get(word, ())

    def shows_number(self, word: int) -> bool:
        """Whether the form of a finite verb tells the number of its subject (present tense, was, were).

        Of English; of a treebank without Penn tags, whether its features say so.
        """
        if word not in self.tags or self.tags[word] not in ("VBD", "MD"):
            return self.tags.get(word) in ("VBP", "VBZ") or any(
                feature.startswith("Number=") for feature in self.features.get(word, ())
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
        spans = sorted(
            self.text.edges.get("const", ()), key=lambda constituent: (constituent.span.start, -constituent.span.end)
        )
        whole = next((constituent.span for constituent in spans if len(constituent.span) == len(self)), None)
        if whole is None:
            return ()
        inner = [constituent for constituent in spans if constituent.span != whole]
        return tuple(self._row(inner))

    def _row(self, inner: list) -> Iterator[str]:
        word = 0
        while word < len(self):
            here = next((constituent for constituent in inner if constituent.span.start == word), None)
            yield self.tags.get(word, self.pos.get(word, "?")) if here is None else here.labels[0]
            word = word + 1 if here is None else here.span.end


def _has_letters(word: str) -> bool:
    return any(letter.isalnum() for letter in word)


Kind = Literal["linear", "surface", "structure", "inflection", "meaning"]
"""Knowledge of positions and neighbours; of which and how many words there are; of the hierarchy of words; of number
and tense in the main clause; of what goes together."""


class OrderCandidate(NamedTuple):
    """Targets of one sentence that are taken together or not at all."""

    stratum: str
    """What has to be balanced: the label, or which of two targets comes first."""
    targets: tuple[tuple[str, Span], ...]
    """Label and words of each."""
    group: str = ""
    """Within which it has to be balanced, as sentences of one length."""
    form: str = ""
    """The word that must not be in both training and scored texts; empty where that would not be cheating."""
    text: Text | None = None
    """The sentence where it was changed; None as it is."""


Rule = Callable[[Clauses, int], list[OrderCandidate] | str]
"""Sentence and seed -> candidates, or why there are none."""


@dataclass(frozen=True)
class OrderTask:
    """One probing task."""

    name: str
    title: str
    kind: Kind
    what: str
    """What is asked, of which sentences."""
    fit: Callable[[Sequence[Clauses]], Rule]
    """Learns classes from the training sentences, where there are any to be learned."""
    needs: tuple[str, ...] = ()
    """Annotations without which there is no such task."""
    lexical: str = ""
    """Which word may not be in both training and scored texts."""
    word: bool = False
    """Whether single words are read; otherwise whole sentences."""
    faithful: Rule | None = field(default=None, compare=False)
    """The rule of the original, where it differs."""
    named: bool = False
    """Whether it is made only where it is named."""


def chance(seed: int, *parts: str) -> int:
    """A number below 2**64 that depends only on the seed and these strings."""
    text = "\x00".join((str(seed), *parts)).encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest())


def _fixed(rule: Rule) -> Callable[[Sequence[Clauses]], Rule]:
    def fit(_: Sequence[Clauses]) -> Rule:
        return rule

    return fit


def _one(word: int) -> Span:
    return Span(word, word + 1)


def _whole(text: Text) -> Span:
    return Span(0, len(text.words))


POSITIONS = 10
"""Number of positions that are classes: the first words of sentences that have at least as many."""
_DRAWN = 3
"""Words of a sentence whose position is asked."""
_NO_ROOT = "no single root"


def index_rule(tree: Clauses, seed: int) -> list[OrderCandidate] | str:
    """The position of some of the first words."""
    if len(tree) < POSITIONS:
        return f"fewer than {POSITIONS} words"
    words = [word for word in range(POSITIONS) if not tree.is_punctuation(word)]
    words.sort(key=lambda word: chance(seed, "index", tree.text.id, str(word)))
    return [OrderCandidate(f"{word + 1:02}", ((f"{word + 1:02}", _one(word)),)) for word in words[:_DRAWN]]


def auxiliary_rule(tree: Clauses, seed: int) -> list[OrderCandidate] | str:
    """The main clause's auxiliary beside one of a subordinate clause."""
    if tree.root is None:
        return _NO_ROOT
    auxiliaries = tree.auxiliaries(tree.root)
    if not auxiliaries:
        return "the main clause has no auxiliary"
    others = _other_auxiliaries(tree)
    if not others:
        return "no auxiliary in a subordinate clause"
    return [_beside(auxiliaries[0], _drawn(others, tree, seed), "auxiliary")]


def _other_auxiliaries(tree: Clauses) -> list[int]:
    """The first auxiliary of every subordinate clause."""
    governors = {tree.heads[word] for word in range(len(tree)) if tree.base(word) in ("aux", "cop")}
    return sorted(tree.auxiliaries(governor)[0] for governor in governors if tree.subordinate(governor))


def subject_rule(tree: Clauses, seed: int) -> list[OrderCandidate] | str:
    """The noun that is the main clause's subject beside another noun."""
    subject = tree.subject()
    if tree.root is None:
        return _NO_ROOT
    if subject is None:
        return "the main clause has no subject, or several"
    if not tree.is_noun(subject):
        return "the subject is no noun"
    others = _other_nouns(tree, subject)
    if not others:
        return "no other noun"
    return [_beside(subject, _drawn(others, tree, seed), "noun")]


def _other_nouns(tree: Clauses, subject: int) -> list[int]:
    """Heads of other noun phrases: no parts of a compound or name, no noun coordinated with the subject."""
    nouns = (word for word in range(len(tree)) if word != subject and tree.is_noun(word))
    return [
        word
        for word in nouns
        if tree.base(word) not in ("compound", "flat", "fixed", "appos", "goeswith")
        and not (tree.base(word) == "conj" and tree.heads[word] == subject)
    ]


def _beside(main: int, other: int, what: str) -> OrderCandidate:
    first = "main" if main < other else "other"
    return OrderCandidate(f"{first} {what} first", (("main", _one(main)), ("other", _one(other))))


def _drawn(words: Sequence[int], tree: Clauses, seed: int) -> int:
    return words[chance(seed, "drawn", tree.text.id) % len(words)]


def every_word(find: Callable[[Clauses], int | None]) -> Rule:
    """As Lin et al. ask: every word of a sentence is a candidate, one of them is right."""

    def rule(tree: Clauses, _: int) -> list[OrderCandidate] | str:
        main = find(tree)
        if main is None:
            return "no such word in the main clause"
        labels = ("main" if word == main else "other" for word in range(len(tree)))
        return [OrderCandidate("all words", tuple((label, _one(word)) for word, label in enumerate(labels)))]

    return rule


def _main_auxiliary(tree: Clauses) -> int | None:
    return next(iter(tree.auxiliaries(tree.root)), None) if tree.root is not None else None


def _noun_subject(tree: Clauses) -> int | None:
    subject = tree.subject()
    return subject if subject is not None and tree.is_noun(subject) else None


def _numbered(tree: Clauses, *relations: str) -> tuple[int, str] | str:
    """The main clause's only subject or object with its number, or why there is none."""
    if tree.root is None:
        return _NO_ROOT
    candidates = [tree.subject()] if "nsubj" in relations else tree.dependents(tree.root, *relations)
    if len(candidates) != 1 or candidates[0] is None:
        return "none of it in the main clause, or several"
    word = candidates[0]
    if any(tree.base(other) == "conj" for other in tree.dependents(word)):
        return "it is coordinated"
    number = tree.number(word)
    return (word, number) if number else "it is no common noun of known number"


def _number_rule(*relations: str, at_noun: bool = False) -> Rule:
    def rule(tree: Clauses, _: int) -> list[OrderCandidate] | str:
        numbered = _numbered(tree, *relations)
        if isinstance(numbered, str):
            return numbered
        word, number = numbered
        span = _one(word) if at_noun else _whole(tree.text)
        return [OrderCandidate(number, ((number, span),), form=tree.text.words[word].lower())]

    return rule


def agreement_rule(tree: Clauses, _: int) -> list[OrderCandidate] | str:
    """The number of the subject, a noun or a pronoun, read at a finite verb whose form does not tell it."""
    subject, verb = tree.subject(), tree.finite()
    if subject is None or verb is None:
        return "no single subject, or no finite verb"
    if any(tree.base(word) == "conj" for word in tree.dependents(subject)):
        return "the subject is coordinated"
    number = tree.number(subject) or tree.pronoun_number(subject)
    if not number:
        return "the subject's number is not known"
    if tree.shows_number(verb):
        return "the verb's form tells the number"
    kind = "pronoun" if tree.pronoun_number(subject) else "noun"
    return [OrderCandidate(number, ((number, _one(verb)),), group=kind)]


def _tense_rule(*, at_verb: bool) -> Rule:
    def rule(tree: Clauses, _: int) -> list[OrderCandidate] | str:
        if tree.root is None:
            return _NO_ROOT
        tense = tree.tense(tree.root)
        if not tense or tree.auxiliaries(tree.root):
            return "the main verb is not finite itself"
        span = _one(tree.root) if at_verb else _whole(tree.text)
        return [OrderCandidate(tense, ((tense, span),), form=tree.text.words[tree.root].lower())]

    return rule


LENGTHS = ((5, 8), (9, 12), (13, 16), (17, 20), (21, 25), (26, 28))
"""Bins of SentEval, in words."""


def length_rule(tree: Clauses, _: int) -> list[OrderCandidate] | str:
    """The number of words, in bins."""
    for least, most in LENGTHS:
        if least <= len(tree) <= most:
            label = f"{least:02}-{most:02}"
            return [OrderCandidate(label, ((label, _whole(tree.text)),))]
    return f"not {LENGTHS[0][0]} to {LENGTHS[-1][1]} words"


def fit_depth(trees: Sequence[Clauses]) -> Rule:
    """Whether a tree is deeper than the median of the training sentences of the same length."""
    by_length: dict[int, list[int]] = defaultdict(list)
    for tree in trees:
        if tree.root is not None:
            by_length[len(tree)].append(tree.depth())
    middle = {length: median(depths) for length, depths in by_length.items() if len(depths) >= _LEAST_OF_LENGTH}

    def rule(tree: Clauses, _: int) -> list[OrderCandidate] | str:
        if tree.root is None:
            return _NO_ROOT
        if len(tree) not in middle:
            return f"fewer than {_LEAST_OF_LENGTH} training sentences of its length"
        depth = tree.depth()
        if depth == middle[len(tree)]:
            return "as deep as the median of its length"
        label = "deep" if depth > middle[len(tree)] else "flat"
        # Balanced within each length: otherwise the length could tell.
        return [OrderCandidate(label, ((label, _whole(tree.text)),), f"{len(tree)} words")]

    return rule


_LEAST_OF_LENGTH = 20
"""Training sentences of one length, below which there is no median worth the name."""
TOP = 5
"""Sequences of top constituents that are classes of their own; SentEval has 19."""
_OTHER = "other"


def fit_top(trees: Sequence[Clauses]) -> Rule:
    """The sequence of constituents that the sentence is made of: the most frequent ones, or another."""
    counts = Counter(row for tree in trees if (row := _top(tree)))
    known = {row for row, _ in counts.most_common(TOP)}

    def rule(tree: Clauses, _: int) -> list[OrderCandidate] | str:
        row = _top(tree)
        if not row:
            return "no constituent of all words, or punctuation inside"
        label = row if row in known else _OTHER
        return [OrderCandidate(label, ((label, _whole(tree.text)),))]

    return rule


def _top(tree: Clauses) -> str:
    """Without punctuation at the end; empty where there is some inside, as in SentEval."""
    row = [phrase(label) for label in tree.top_constituents()]
    while row and not any(letter.isalpha() for letter in row[-1]):
        row.pop()
    return " ".join(row) if all(any(map(str.isalpha, label)) for label in row) else ""


WORDS = 30
"""Words that are classes; SentEval has 1,000, for which a treebank is too small."""
_LEAST_LETTERS = 4


def fit_words(trees: Sequence[Clauses]) -> Rule:
    """Which of some words is in the sentence: open-class words that most training sentences have exactly once."""
    counts: Counter[str] = Counter()
    for tree in trees:
        counted = Counter(map(str.lower, tree.text.words))
        open_class = {
            tree.text.words[word_number].lower()
            for word_number, tag in tree.pos.items()
            if tag in ("NOUN", "VERB", "ADJ", "ADV")
        }
        counts.update(word for word in open_class if len(word) >= _LEAST_LETTERS and counted[word] == 1)
    known = {word for word, count in counts.most_common(WORDS) if count > 1}

    def rule(tree: Clauses, _: int) -> list[OrderCandidate] | str:
        counted = [word for word in map(str.lower, tree.text.words) if word in known]
        if len(counted) != 1:
            return "none of the words, or several"
        return [OrderCandidate(counted[0], ((counted[0], _whole(tree.text)),))]

    return rule


def shift_rule(tree: Clauses, seed: int) -> list[OrderCandidate] | str:
    """Whether two neighbouring words have changed places; never the first word, never punctuation."""
    words = tree.text.words
    if '"' in words or "``" in words or "''" in words:
        return "double quotes"
    places = [
        place
        for place in range(1, len(words) - 1)
        if not tree.is_punctuation(place)
        and not tree.is_punctuation(place + 1)
        and words[place].lower() != words[place + 1].lower()
    ]
    if not places:
        return "no two words to exchange"
    if chance(seed, "shift", tree.text.id) % 2:
        return [OrderCandidate("original", (("original", _whole(tree.text)),))]
    place = places[chance(seed, "place", tree.text.id) % len(places)]
    changed = (*words[:place], words[place + 1], words[place], *words[place + 2 :])
    return [_changed(tree.text, changed, "shifted")]


def _changed(text: Text, words: tuple[str, ...], label: str) -> OrderCandidate:
    """Known by what it was made of: neither version is learned from where the other is scored."""
    version = Text(f"{text.id}~{label}", words, doc=text.doc or text.id, origin=" ".join(origins(text)))
    return OrderCandidate(label, ((label, _whole(version)),), text=version)


_ALIKE = 1.0
"""The most by which logarithms of frequencies may differ."""
_TRIED = 300
"""Words that are tried in the place of one."""


class WordCounts(NamedTuple):
    """How often words and pairs of neighbouring words occur, in lower case."""

    words: Counter[str]
    pairs: Counter[tuple[str, str]]

    @classmethod
    def of(cls, texts: Iterable[Text]) -> WordCounts:
        """Counts of some texts.

        Example:
            >>> WordCounts.of([Text("s", ("Dogs", "see", "dogs"))]).words["dogs"]
            2
        """
        words: Counter[str] = Counter()
        pairs: Counter[tuple[str, str]] = Counter()
        for text in texts:
            lower = [word.lower() for word in text.words]
            words.update(lower)
            pairs.update(pairwise(lower))
        return cls(words, pairs)

    def alike(self, one: str, other: str, before: str, after: str) -> bool:
        """Whether two words are about as frequent, by themselves and beside these two."""
        both = (
            (self.words[one], self.words[other]),
            (self.pairs[before, one], self.pairs[before, other]),
            (self.pairs[one, after], self.pairs[other, after]),
        )
        return all(abs(log1p(first) - log1p(second)) <= _ALIKE for first, second in both)


def fit_odd(trees: Sequence[Clauses], counts: WordCounts | None = None) -> Rule:
    """Whether a noun or verb has been replaced by another one, of the same form and about as frequent in its place.

    Args:
        trees: the training sentences; their nouns and verbs replace others.
        counts: frequencies; of the training sentences where none are given.
    """
    known = WordCounts.of(tree.text for tree in trees) if counts is None else counts
    forms: dict[str, Counter[str]] = defaultdict(Counter)
    for tree in trees:
        for word in range(len(tree)):
            if form := _replaceable(tree, word):
                forms[form][tree.text.words[word].lower()] += 1
    listed = {form: sorted(words) for form, words in forms.items()}

    def rule(tree: Clauses, seed: int) -> list[OrderCandidate] | str:
        words = tree.text.words
        places = [place for place in range(1, len(words) - 1) if _replaceable(tree, place)]
        if not places:
            return "no noun or verb between other words"
        place = places[chance(seed, "odd place", tree.text.id) % len(places)]
        old, before, after = (words[word].lower() for word in (place, place - 1, place + 1))
        if not (known.pairs[before, old] or known.pairs[old, after]):
            return "the noun or verb is in no known pair of words"
        others = listed.get(_replaceable(tree, place), [])
        start = chance(seed, "odd word", tree.text.id)
        tried = (others[(start + step) % len(others)] for step in range(min(_TRIED, len(others))))
        new = next((word for word in tried if word != old and known.alike(old, word, before, after)), None)
        if new is None:
            return "no other word is as frequent in its place"
        # Sentences as they are can be changed too, so that neither version has words of another kind.
        if chance(seed, "odd", tree.text.id) % 2:
            return [OrderCandidate("original", (("original", _whole(tree.text)),))]
        written = new.capitalize() if words[place][:1].isupper() else new
        return [_changed(tree.text, (*words[:place], written, *words[place + 1 :]), "replaced")]

    return rule


def _replaceable(tree: Clauses, word: int) -> str:
    """The form of a noun or verb, by its tag or part of speech with number and tense; empty for all other words."""
    if tree.pos.get(word) not in ("NOUN", "VERB") or not tree.text.words[word].isalpha():
        return ""
    return f"{tree.pos.get(word)} {tree.tags.get(word, '')} {tree.number(word)} {tree.tense(word)}"


def inversion_rule(tree: Clauses, seed: int) -> list[OrderCandidate] | str:
    """Whether two coordinated main clauses have changed places."""
    parts = _two_clauses(tree)
    if isinstance(parts, str):
        return parts
    first, link, second, end = parts
    longer = "equal" if len(first) == len(second) else "first" if len(first) > len(second) else "second"
    if chance(seed, "inversion", tree.text.id) % 2:
        return [OrderCandidate("original", (("original", _whole(tree.text)),), f"{longer} longer")]
    order = [*second, *link, *first, *end]
    words = [tree.text.words[word] for word in order]
    words[0] = words[0][:1].upper() + words[0][1:]
    word = len(second) + len(link)
    if tree.pos.get(first[0]) != "PROPN" and tree.text.words[first[0]] != "I":
        words[word] = words[word][:1].lower() + words[word][1:]
    candidate = _changed(tree.text, tuple(words), "inverted")
    # The label follows the reading order: the second clause now comes first.
    now = {"first": "second", "second": "first"}.get(longer, longer)
    return [candidate._replace(group=f"{now} longer")]


def _two_clauses(tree: Clauses) -> tuple[list[int], list[int], list[int], list[int]] | str:
    """First clause, conjunction (with a comma before it), second clause, final punctuation."""
    if tree.root is None:
        return _NO_ROOT
    links = [word for word in range(len(tree)) if tree.base(word) == "cc"]
    clauses = [word for word in tree.dependents(tree.root, "conj") if tree.dependents(word, "nsubj", "csubj")]
    if len(links) != 1 or len(clauses) != 1 or not tree.dependents(tree.root, "nsubj", "csubj"):
        return "not two main clauses with one conjunction"
    (link,), (other,) = links, clauses
    if tree.heads[link] not in (tree.root, other) or not tree.root < link < other:
        return "the conjunction does not link the main clauses"
    last = len(tree)
    while last and tree.is_punctuation(last - 1):
        last -= 1
    second = list(range(link + 1, last))
    if {word for word in tree.below(other) if word != link and not tree.is_punctuation(word)} != {
        word for word in second if not tree.is_punctuation(word)
    }:
        return "the second clause is not all that follows"
    start = link
    while start and tree.is_punctuation(start - 1):
        start -= 1
    return list(range(start)), list(range(start, link + 1)), second, list(range(last, len(tree)))


_HEADS = ("dep",)
_TAGGED = ("dep", "pos")
ORDER_TASKS = (
    OrderTask(
        "index", "Index of a word", "linear",
        f"the position of a word among the first {POSITIONS}, in sentences of at least as many words",
        _fixed(index_rule), word=True,
    ),
    OrderTask(
        "bigram_shift", "Bigram shift", "linear",
        "whether two neighbouring words of the sentence have changed places", _fixed(shift_rule),
    ),
    OrderTask("length", "Sentence length", "surface", "the number of words, in six bins", _fixed(length_rule)),
    OrderTask(
        "word_content", "Word content", "surface", f"which of {WORDS} words the sentence has", fit_words, ("pos",)
    ),
    OrderTask(
        "main_auxiliary", "Main auxiliary", "structure",
        "whether an auxiliary is the main clause's or a subordinate clause's; either comes first as often",
        _fixed(auxiliary_rule), _HEADS, word=True, faithful=every_word(_main_auxiliary),
    ),
    OrderTask(
        "subject", "Subject", "structure",
        "whether a noun is the main clause's subject or another noun; either comes first as often",
        _fixed(subject_rule), _TAGGED, word=True, faithful=every_word(_noun_subject),
    ),
    OrderTask(
        "subject_number_verb", "Subject's number at the verb", "structure",
        "singular or plural, read at a finite verb whose form does not tell; balanced among nouns and among pronouns",
        _fixed(agreement_rule), _TAGGED, word=True,
    ),
    OrderTask(
        "subject_number_noun", "Subject's number at the noun", "inflection", "singular or plural, read at the subject",
        _fixed(_number_rule("nsubj", at_noun=True)), _TAGGED, "the subject noun", word=True,
    ),
    OrderTask(
        "subject_number", "Subject's number", "inflection", "singular or plural",
        _fixed(_number_rule("nsubj")), _TAGGED, "the subject noun",
    ),
    OrderTask(
        "object_number", "Object's number", "inflection", "singular or plural",
        _fixed(_number_rule("obj")), _TAGGED, "the object noun",
    ),
    OrderTask(
        "tense_verb", "Tense at the verb", "inflection", "past or present, read at the main verb",
        _fixed(_tense_rule(at_verb=True)), _HEADS, "the main verb", word=True,
    ),
    OrderTask(
        "tense", "Tense", "inflection", "past or present, of the main verb",
        _fixed(_tense_rule(at_verb=False)), _HEADS, "the main verb",
    ),
    OrderTask(
        "depth", "Tree depth", "structure", "whether the tree is deeper than the median of its sentence length",
        fit_depth, _HEADS,
    ),
    OrderTask(
        "top_constituents", "Top constituents", "structure",
        f"which of the {TOP} most frequent sequences of top constituents, or another", fit_top, ("const",),
    ),
    OrderTask(
        "coordination", "Coordination inversion", "structure",
        "whether two coordinated main clauses have changed places", _fixed(inversion_rule), _HEADS,
    ),
    OrderTask(
        "odd_man_out", "Odd man out", "meaning",
        "whether a noun or verb has been replaced by another one of its form, about as frequent between its neighbours",
        fit_odd, _TAGGED, named=True,
    ),
)  # fmt: skip
"""Every task, the linear ones first."""

BY_NAME = {task.name: task for task in ORDER_TASKS}
