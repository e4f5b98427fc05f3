"""The list of tasks (to add one, add an entry), the choice of those that a corpus carries, and labels in words."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from itertools import combinations
from typing import Any

from lamina.corpora.catalogue import CATALOGUE
from lamina.corpora.corpus import NAMING, Corpus, fingerprint_of
from lamina.corpora.splits import Splits
from lamina.errors import CorpusError, TaskError
from lamina.tasks.syntax import arcs, chunks, conjuncts, generation, phrase
from lamina.tasks.task import Task
from lamina.types import Edge, Span, Text

RELATIONS = {
    # Universal Dependencies, version 2, and what version 1 and Stanford dependencies call otherwise.
    "acl": "clause of a noun", "acl:relcl": "relative clause", "rcmod": "relative clause",
    "partmod": "clause of a noun", "vmod": "clause of a noun", "infmod": "clause of a noun",
    "advcl": "adverbial clause", "advmod": "adverb", "neg": "negation", "npadvmod": "noun as an adverb",
    "amod": "adjective", "appos": "apposition", "aux": "auxiliary", "aux:pass": "passive auxiliary",
    "auxpass": "passive auxiliary", "case": "case marker", "prep": "preposition", "cc": "conjunction",
    "preconj": "preceding conjunction", "cc:preconj": "preceding conjunction", "ccomp": "clausal complement",
    "clf": "classifier", "compound": "compound", "nn": "compound noun", "compound:prt": "verb particle",
    "prt": "verb particle", "conj": "conjunct", "cop": "copula", "csubj": "clausal subject",
    "csubj:pass": "clausal passive subject", "csubjpass": "clausal passive subject", "dep": "unspecified dependent",
    "det": "determiner", "det:predet": "predeterminer", "predet": "predeterminer", "discourse": "discourse marker",
    "dislocated": "dislocated element", "expl": "expletive", "fixed": "fixed phrase", "mwe": "fixed phrase",
    "flat": "name part", "flat:name": "name part", "flat:foreign": "foreign phrase", "goeswith": "split word",
    "iobj": "indirect object", "list": "list item", "mark": "clause marker", "nmod": "noun modifier",
    "nmod:poss": "possessor", "poss": "possessor", "possessive": "possessive marker", "nmod:tmod": "time modifier",
    "nmod:npmod": "noun as an adverb", "nmod:unmarked": "noun as an adverb", "tmod": "time modifier",
    "nsubj": "subject", "nsubj:pass": "passive subject", "nsubjpass": "passive subject",
    "nsubj:outer": "outer subject", "nummod": "number", "num": "number", "number": "part of a number",
    "quantmod": "quantifier", "obj": "object", "dobj": "object", "obl": "oblique", "obl:tmod": "time oblique",
    "obl:npmod": "noun as an adverb", "obl:unmarked": "noun as an adverb", "obl:agent": "passive agent",
    "agent": "passive agent", "obl:arg": "oblique argument", "orphan": "orphan", "parataxis": "parataxis",
    "pobj": "object of a preposition", "pcomp": "clause of a preposition", "punct": "punctuation mark",
    "reparandum": "repaired word", "root": "root", "vocative": "vocative", "xcomp": "open clausal complement",
    "acomp": "adjective complement", "attr": "attribute",
}  # fmt: skip
"""Dependency relation -> what its dependent is called."""

_CLASSES = {
    "ADJ": "adjective", "ADP": "adposition", "ADV": "adverb", "AUX": "auxiliary", "CCONJ": "coordinating conjunction",
    "CONJ": "coordinating conjunction", "DET": "determiner", "INTJ": "interjection", "NOUN": "noun", "NUM": "number",
    "PART": "particle", "PRON": "pronoun", "PROPN": "proper noun", "PUNCT": "punctuation mark",
    "SCONJ": "subordinating conjunction", "SYM": "symbol", "VERB": "verb", "X": "other word",
}  # fmt: skip
_ENTITIES = {
    "PER": "person", "PERSON": "person", "ORG": "organisation", "LOC": "place", "GPE": "country or city",
    "MISC": "other name", "NORP": "nationality or group", "FAC": "building", "PRODUCT": "product", "EVENT": "event",
    "WORK_OF_ART": "work of art", "LAW": "law", "LANGUAGE": "language", "DATE": "date", "TIME": "time of day",
    "PERCENT": "percentage", "MONEY": "amount of money", "QUANTITY": "quantity", "ORDINAL": "ordinal number",
    "CARDINAL": "cardinal number",
}  # fmt: skip
_PHRASES = {
    "S": "clause", "SBAR": "subordinate clause", "SQ": "question", "SBARQ": "question word clause",
    "SINV": "inverted clause", "NP": "noun phrase", "VP": "verb phrase", "PP": "prepositional phrase",
    "ADJP": "adjective phrase", "ADVP": "adverb phrase", "QP": "quantifier phrase", "WHNP": "question noun phrase",
    "WHADVP": "question adverb phrase", "WHPP": "question prepositional phrase", "PRN": "parenthesis",
    "INTJ": "interjection", "UCP": "mixed coordination", "NX": "noun phrase head", "FRAG": "fragment",
}  # fmt: skip
_TABLES = (RELATIONS, _CLASSES, _ENTITIES, _PHRASES)
_PLURALS = {"person": "people", "apposition": "appositions", "country or city": "countries and cities"}


def word_for(label: str) -> str:
    """What a label is called, in the singular; the label itself where it has no name.

    A subtype that is not listed is called as its relation.

    Example:
        >>> word_for("dobj"), word_for("nsubj:xyz"), word_for("PROPN"), word_for("B-17")
        ('object', 'subject', 'proper noun', 'B-17')
    """
    for table in _TABLES:
        if label in table:
            return table[label]
    return RELATIONS.get(label.partition(":")[0], label) if ":" in label else label


def in_words(label: str) -> str:
    """A label for an axis or a legend: its name, with the annotated label in brackets.

    Example:
        >>> in_words("dobj"), in_words("root"), in_words("B-17")
        ('object (dobj)', 'root', 'B-17')
    """
    word = word_for(label)
    return word if word == label else f"{word} ({label})"


def plural_of(label: str) -> str:
    """Several of what a label stands for, as sentences count them.

    Example:
        >>> plural_of("dobj"), plural_of("pobj"), plural_of("poss"), plural_of("auxpass"), plural_of("xyz")
        ('objects', 'objects of prepositions', 'possessors', 'passive auxiliaries', 'xyz relations')
    """
    word = word_for(label)
    if word == label and label not in {name for table in _TABLES for name in table}:
        return f"{label} relations"
    if word in _PLURALS:
        return _PLURALS[word]
    for singular, plural in ((" of a ", " of "), (" as an ", " as ")):
        first, joint, second = word.partition(singular)
        if joint:
            return f"{_several(first)}{plural}{_several(second)}"
    return _several(word)


def _several(word: str) -> str:
    if word.endswith("y") and word[-2] not in "aeiou":
        return f"{word[:-1]}ies"
    if word.endswith("is"):
        return f"{word[:-2]}es"
    return f"{word}es" if word.endswith(("s", "x", "ch")) else f"{word}s"


NEAREST = 20
"""In a window or document, each mention is paired with this many mentions before it. A window of 128 words usually has
no more; in a document, the number of pairs grows linearly with length, not quadratically."""


def mention_pairs(text: Text) -> tuple[Edge, ...]:
    """The pairs of a text (`coref`), or else all pairs of mentions in one sentence: 1 if in one chain, otherwise 0.

    The earlier mention comes first. In a window or document the `sentence` annotation gives the sentences; a mention
    that crosses a sentence boundary is in none. Two mentions of the same words are not a pair.

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
    """Every mention of a window with the `NEAREST` mentions before it, in any sentence: 1 if in one chain.

    Example:
        >>> chains = (Edge(("c1",), Span(0, 1)), Edge(("c1",), Span(2, 3)))
        >>> sentences = (Edge(("s1",), Span(0, 2)), Edge(("s2",), Span(2, 4)))
        >>> text = Text("w1", ("Ann", "left", "She", "ran"), edges={"chains": chains, "sentence": sentences})
        >>> [(edge.labels[0], edge.span.start, edge.other.start) for edge in window_pairs(text)]
        [('1', 0, 2)]
    """
    chains = _chains(text)
    mentions = sorted(chains)
    near = (
        (first, mention)
        for place, mention in enumerate(mentions)
        for first in mentions[max(0, place - NEAREST) : place]
    )
    return _labelled(near, chains)


def too_far(text: Text) -> int:
    """How many pairs of mentions in a window are left out because more than `NEAREST` mentions are between them."""
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


_ALL = "micro-F1 over all labels"
_MACRO = "macro-F1 over all labels"
# PropBank's ARG0 and CoNLL-2005's A0 are kept as annotated; C-ARG0 and R-ARG0 are not separate roles.
_ROLE = re.compile(r"(?:ARG|A)(?:[0-5A]|M-.+)")


def core_role(label: str) -> str | None:
    """The label if this semantic role is scored (ARG0-5, ARGA, ARGM-*), or None.

    Example:
        >>> core_role("ARG0"), core_role("ARGM-TMP"), core_role("C-ARG1"), core_role("R-ARG0")
        ('ARG0', 'ARGM-TMP', None, None)
    """
    return label if _ROLE.fullmatch(label) else None


def in_roles(corpus: Corpus) -> Corpus:
    """Arguments of predicates in the place of dependencies: from the predicate's first word to the argument's words.

    Roles are those that probes know (ARG0 to ARG5, ARGA, ARGM-*); an argument that holds its predicate is left out.
    """
    if "srl" not in corpus.annotations:
        has = ", ".join(corpus.annotations) or "none"
        raise CorpusError(
            f"{corpus.name} has no semantic roles (annotation srl; it has: {has}); name a corpus that has, for example "
            "propbank_ewt"
        )

    def changed(text: Text) -> Text:
        links = tuple(
            Edge((role,), Span(edge.span.start, edge.span.start + 1), edge.other)
            for edge in text.edges.get("srl", ())
            if edge.other is not None and edge.labels and (role := core_role(edge.labels[0])) is not None
            and edge.span.start not in edge.other
        )  # fmt: skip
        return replace(text, edges={**text.edges, "dep": links})

    return replace(
        corpus,
        source=lambda: map(changed, iter(corpus)),
        fingerprint=fingerprint_of("roles 1", corpus.fingerprint),
        declared=tuple(dict.fromkeys((*corpus.annotations, "dep"))),
        limit=None,
        first=None,
    )


def is_no_root(edge: Edge) -> bool:
    """Whether a dependency links two words; the root is annotated as an edge from a word to itself."""
    return edge.span != edge.other


_DEP = Task(
    "dep",
    "Dependencies",
    "dep",
    2,
    f"{_ALL}, the root left out",
    "the relation of a word to its head",
    keep=is_no_root,
)
TASKS = (
    Task("pos", "Part of speech", "pos", 1, _ALL, "the tag of a word"),
    Task(
        "const",
        "Constituents",
        "const",
        1,
        f"{_ALL}, function tags and indices cut",
        "the label of a phrase",
        normalise=phrase,
    ),
    _DEP,
    Task("ner", "Entities", "ner", 1, _ALL, "the type of a named entity"),
    Task(
        "srl",
        "Semantic roles",
        "srl",
        2,
        "micro-F1 over ARG0-5, ARGA and ARGM-*",
        "the role of an argument of a predicate",
        normalise=core_role,
    ),
    Task(
        "coref",
        "Coreference",
        "coref",
        2,
        "F1 of label 1",
        "whether two mentions in one sentence refer to the same thing",
        unscored=frozenset({"0"}),
        fallback="chains",
        source=mention_pairs,
    ),
    Task(
        "coref_window",
        "Coreference in windows",
        "chains",
        2,
        "F1 of label 1",
        f"whether two mentions in one window refer to the same thing, each paired with the {NEAREST} before it",
        unscored=frozenset({"0"}),
        needs=frozenset({"sentence"}),
        source=window_pairs,
        left_out=too_far,
    ),
    Task(
        "spr",
        "Semantic proto-roles",
        "spr",
        2,
        "micro-F1 over the rated properties",
        "the properties of an argument of a predicate (several may hold)",
    ),
    Task(
        "rel",
        "Relations",
        "rel",
        2,
        "micro-F1 over all labels but Other",
        "the relation of two nominals",
        unscored=frozenset({"Other"}),
    ),
    Task("supersense", "Noun supersenses", "supersense", 1, _ALL, "the semantic classes of a noun in its context"),
    Task("ques", "Question type", "ques", 1, _MACRO, "the kind of answer a question asks for", average="macro"),
    Task("sup", "Supporting facts", "sup", 2, _MACRO, "whether a sentence supports the answer", average="macro"),
)
"""In the order of the classical pipeline, then the question tasks. Only windows and documents have `coref_window`,
since it needs the `sentence` annotation."""

SYNTAX_TASKS = (
    Task("chunk", "Chunks", "const", 1, _ALL, "the chunk that a word is in (CoNLL-2000's rules)", source=chunks),
    *(
        Task(
            f"{name}",
            f"{title} constituents",
            "const",
            1,
            _ALL,
            f"the label of the constituent {number} above a word",
            source=generation(number),
        )
        for number, (name, title) in enumerate(
            (("parent", "Parent"), ("grandparent", "Grandparent"), ("great_grandparent", "Great-grandparent")), start=1
        )
    ),
    Task(
        "conjunct",
        "Conjuncts",
        "dep",
        1,
        "F1 of label 1",
        "whether a word is the head of a conjunct, in sentences with a coordination",
        unscored=frozenset({"0"}),
        source=conjuncts,
    ),
    Task(
        "arc",
        "Arcs",
        "dep",
        2,
        f"{_ALL}; as many pairs with an arc as without",
        "whether the second of two words is the head of the first",
        source=arcs,
    ),
)
"""Made from any treebank with constituents or dependencies, where they are named (Liu et al. 2019)."""
_SYNTAX = {task.name: task for task in SYNTAX_TASKS}
_KNOWN = {task.name: task for task in TASKS} | _SYNTAX
_TITLES = {"npi_presence": "NPI presence", "npi_licensor": "NPI licensors", "npi_scope": "NPI scope"}
"""Of annotations that are made of minimal pairs, and have no other task."""

_FAITHFUL = {"dep": replace(_DEP, scoring=f"{_ALL}, the root kept (faithful)", keep=None)}
"""Tasks that the original edge-probing work defined differently."""


def get_task(name: str, *, faithful: bool = False) -> Task:
    """The task with this name; `faithful` gives the original definition if it differs (`dep` keeps the root).

    Example:
        >>> get_task("coref").scoring
        'F1 of label 1'
        >>> get_task("dep", faithful=True).scoring
        'micro-F1 over all labels, the root kept (faithful)'
    """
    if name in _KNOWN:
        return _FAITHFUL.get(name, _KNOWN[name]) if faithful else _KNOWN[name]
    close = get_close_matches(name, _KNOWN, n=1, cutoff=0.5)
    meant = f"did you mean {close[0]}? " if close else ""
    raise TaskError(f"unknown task {name!r}; {meant}known tasks: {', '.join(_KNOWN)}")


def annotation_task(annotation: str, texts: Iterable[Text]) -> Task:
    """An annotation as it comes, as a task: spans or pairs of spans with labels, or with values.

    It is graded where every target has a value, or where some have and none has a label.

    Example:
        >>> text = Text("s1", ("Dogs", "bark"), edges={"mood": (Edge(("good",), Span(0, 2)),)})
        >>> annotation_task("mood", [text]).arity
        1
    """
    arities: Counter[int] = Counter()
    valued = labelled = 0
    for text in texts:
        for edge in text.edges.get(annotation, ()):
            arities[edge.arity] += 1
            valued += edge.value is not None
            labelled += bool(edge.labels)
    if not arities:
        raise TaskError(f"no text carries the annotation {annotation!r}")
    if len(arities) > 1:
        raise TaskError(
            f"{annotation}: {arities[1]:,} targets are one span and {arities[2]:,} are a pair of spans; a task has one "
            "kind of target: give each its own annotation"
        )
    graded = valued == arities.total() or (valued > 0 and not labelled)
    scoring = "R2 and correlation" if graded else _ALL
    (arity,) = arities
    return Task(annotation, annotation, annotation, arity, scoring, f"the {annotation} of a target", graded=graded)


def tasks_of(annotations: Iterable[str]) -> tuple[Task, ...]:
    """The tasks available on texts with these annotations.

    Example:
        >>> [task.name for task in tasks_of(["chains", "pos", "xpos"])]
        ['pos', 'coref']
    """
    present = set(annotations)
    return tuple(task for task in TASKS if task.available(present))


def corpora_of(task: Task) -> tuple[str, ...]:
    """The named corpora that have a task, in sentences or in windows.

    Example:
        >>> "gum_open" in corpora_of(get_task("coref"))
        True
    """
    return tuple(entry.name for entry in CATALOGUE if task.available((*entry.annotations, "sentence")))


def title_of(task: str) -> str:
    """What findings and figures call a task.

    Example:
        >>> title_of("dep"), title_of("sup (babi_en)"), title_of("my_own")
        ('Dependencies', 'Supporting facts (babi_en)', 'my_own')
    """
    name, bracket, corpus = task.partition(" (")
    return (_KNOWN[name].title if name in _KNOWN else _TITLES.get(name, name)) + bracket + corpus


# What a task turned out to be on given texts: its targets, its classes and how it is scored, in words.


@dataclass(frozen=True)
class TaskDescription:
    """A task on given texts.

    Example:
        >>> from lamina.tasks import annotation_task
        >>> from lamina.types import Span
        >>> texts = [Text(label, ("So", "so"), edges={"mood": Edge(label, Span(0, 2))}) for label in ("good", "bad")]
        >>> describe_task(annotation_task("mood", texts), texts).in_words()
        'mood: whole texts, 2 classes, one label per target, micro-F1 over all labels'
    """

    task: Task
    targets: int
    classes: int
    what: str
    """What a target is: whole texts, words, spans, or pairs of them."""
    multi_label: bool
    """Whether a target has no label or several."""

    def in_words(self) -> str:
        """One line."""
        labels = "any number of labels per target" if self.multi_label else "one label per target"
        clash = (
            " (not the catalogue's task of this name)" if self.task.name in _KNOWN and self.definition == "own" else ""
        )
        kind = ["graded values"] if self.task.graded else [_classes(self.classes), labels]
        return f"{self.task.name}: {', '.join([self.what, *kind, self.task.scoring])}{clash}"

    @property
    def definition(self) -> str:
        """Which is meant, where an annotation may have the name of a task of the catalogue."""
        known = _KNOWN.get(self.task.name)
        if known is None:
            return "own"
        same = known.arity == self.task.arity and known.graded == self.task.graded
        return "catalogue" if same else "own"

    def as_json(self) -> dict[str, Any]:
        """For provenance."""
        return {
            "annotation": self.task.annotation,
            "definition": self.definition,
            "arity": self.task.arity,
            "metric": self.task.metric,
            "scoring": self.task.scoring,
            "targets": self.targets,
            "target": self.what,
            **({} if self.task.graded else {"classes": self.classes, "multi_label": self.multi_label}),
            "in_words": self.in_words(),
        }


def _classes(count: int) -> str:
    return f"{count:,} class{'' if count == 1 else 'es'}"


def describe_task(task: Task, texts: Iterable[Text]) -> TaskDescription:
    """A task on the texts that it is scored on."""
    targets, labels, several = 0, set[str](), False
    whole = single = True
    for text in texts:
        for edge in task.targets(text):
            targets += 1
            labels.update(edge.labels)
            several |= len(edge.labels) != 1
            whole &= edge.other is None and len(edge.span) == len(text.words)
            single &= _is_single(edge)
    if task.arity == 2:
        what = "pairs of words" if single else "pairs of spans"
    else:
        what = "whole texts" if whole else "words" if single else "spans"
    return TaskDescription(task, targets, len(labels), what, several)


def _is_single(edge: Edge) -> bool:
    return len(edge.span) == 1 and (edge.other is None or len(edge.other) == 1)


AS_GIVEN = "as given"
"""Scheme of corpora whose annotations have the names that the data gives them."""
_MOST_LABELS = 0.5
"""Labels, as a share of the targets, from which on they name things instead of telling kinds."""


def choose_tasks(names: Sequence[str | Task] | None, splits: Splits, *, faithful: bool) -> list[Task]:
    """What was named: tasks of the catalogue, other annotations, tasks given; by default all that the corpus carries.

    By default, annotations outside the catalogue are tasks where the data names its annotations itself (own files,
    tables, data in memory), or where there is nothing else.
    """
    present = splits.scored.annotations
    carried = {name: task for name, task in _carried(splits, faithful=faithful).items() if task is not None}
    if names is not None:
        return [_named(name, carried, splits) for name in dict.fromkeys(names)]
    known = {task.annotation for task in carried.values()} | {task.fallback for task in carried.values()}
    others = [name for name in present if name not in NAMING and name not in known]
    annotation, errors = [], []
    for name in others if splits.scored.scheme == AS_GIVEN or not carried else ():
        try:
            annotation.append(_annotated(name, splits))
        except TaskError as error:
            errors.append(error)
    if errors and not annotation and not carried:
        raise errors[0]
    if not carried and not annotation:
        raise TaskError(
            f"{splits.name} carries no task; its annotations: {', '.join(present) or 'none'}; tasks are made of: "
            f"{', '.join(dict.fromkeys(task.annotation for task in TASKS))}, or of any other annotation"
        )
    return [*carried.values(), *annotation]


def _carried(splits: Splits, *, faithful: bool) -> dict[str, Task | None]:
    """The tasks of the catalogue that a corpus carries.

    Not those that share only their name with an annotation of the user's: `rel` of the catalogue is about pairs.
    """
    tasks = {task.name: get_task(task.name, faithful=faithful) for task in tasks_of(splits.scored.annotations)}
    if splits.scored.scheme != AS_GIVEN:
        return dict(tasks)
    return {name: task if _fits(task, splits) else None for name, task in tasks.items()}


def _fits(task: Task, splits: Splits) -> bool:
    """Whether the first targets are of the kind that the task is about."""
    first = next((edge for text in splits.train for edge in task.targets(text)), None)
    return first is None or first.arity == task.arity


def _named(names: str | Task, carried: Mapping[str, Task], splits: Splits) -> Task:
    present = splits.scored.annotations
    if isinstance(names, Task):
        if not names.available(present):
            raise TaskError(
                f"{splits.name} does not carry the annotation {names.annotation!r} of the task {names.name}; it "
                f"carries {', '.join(present) or 'none'}"
            )
        return names
    if names in carried:
        return carried[names]
    if names in present:
        return _annotated(names, splits)
    if names in _SYNTAX and _SYNTAX[names].available(present):
        return _SYNTAX[names]
    windows = names in _KNOWN and _KNOWN[names].available((*present, "sentence"))
    hint = "; windows (--unit window:128) carry more" if windows else ""
    rules = [task.name for task in SYNTAX_TASKS if task.available(present)]
    close = get_close_matches(names, [*carried, *present, *rules], n=1)
    meant = f"; did you mean {close[0]}?" if close else ""
    others = [name for name in present if name not in carried and name not in NAMING]
    beside = f", and the annotations {', '.join(others)}" if others else ""
    beside += f"; made from it: {', '.join(rules)}" if rules else ""
    # A column may have been read and left out, as for having one value.
    left_out = f"column {names!r} is not used"
    why = next((f" ({note})" for note in splits.scored.notes.lines() if note.startswith(left_out)), "")
    raise TaskError(
        f"{splits.name} does not carry {names}{why}; it carries {', '.join(carried) or 'no task of the catalogue'}"
        f"{beside}{hint}{meant}"
    )


def _annotated(name: str, splits: Splits) -> Task:
    task = annotation_task(name, splits.train)
    if task.graded:
        return task
    targets = [edge for text in splits.train for edge in task.targets(text)]
    labels = {label for edge in targets for label in edge.labels}
    if name in NAMING or len(labels) > max(_MOST_LABELS * len(targets), 2):
        raise TaskError(
            f"the labels of {name} name single things ({len(labels):,} labels on {len(targets):,} targets), not kinds "
            "of things: a probe has nothing to learn; name another annotation"
        )
    return task
