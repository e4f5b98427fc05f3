"""The labelled examples of a choice: what can be learned from, duplicates, folds, and the words of every example.

Everything here is looked at before a model encodes anything: labels that nothing can be chosen by are refused first.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from lamina.corpora import Corpus
from lamina.corpora.splits import Splits
from lamina.errors import CorpusError, TaskError
from lamina.stats.units import Units, document_of
from lamina.tasks import Task, decisions, label_set
from lamina.tasks.catalogue import choose_tasks, describe_task
from lamina.tasks.task import as_annotated
from lamina.types import Edge, Text

FOLDS = 5
"""Parts that documents are divided into, where there are as many documents."""
RARE = "(rare classes)"
"""The class that classes too rare to split are merged into."""
MERGED, LEFT_OUT = "targets of rare classes (merged into one)", "targets of rare classes (left out)"
NOT_DRAWN = "targets that were not drawn (see --examples)"
UNLABELLED = "targets without a label (left out)"
DUPLICATES = "texts that occur in several documents (one fold has them all)"
COPIES = "copies of texts in other documents (left out: they link most documents)"
NEAR_DUPLICATES = "texts that nearly occur in several documents (one fold has them all)"
_ALIKE = 0.8
"""Share of word triples that two near-duplicates have in common (Jaccard)."""
_BANDS, _ROWS = 16, 4
"""Of the hashes that find candidates: two texts that are .8 alike meet in some band with a chance above .999."""
_LEAST_WORDS = 8
"""Texts of fewer words are duplicates or not: nearly the same question is another question."""
_MOST_LINKED = 0.25
"""Share of the documents that copies may link; beyond that nothing could be split."""
_ID_SHARE = 0.9
_MANY_NUMBERS = 20


@dataclass(frozen=True, eq=False)
class LabelledExamples:
    """One task's targets in some texts, with their folds."""

    task: Task
    """Without labels too rare to split."""
    texts: tuple[Text, ...]
    """Those with targets."""
    labels: tuple[str, ...]
    """The classes; `value` for graded targets."""
    gold: Float[np.ndarray, "example label"]
    """1 where a label holds; of graded targets, the value."""
    rated: Bool[np.ndarray, "example label"]
    """Which decisions count."""
    single: bool
    """Whether every target has exactly one label."""
    what: str
    """What a target is: whole texts, words, spans, pairs of them."""
    units: Units
    """Documents of the examples, those with the same texts together."""
    fold: Int[np.ndarray, " example"]
    folds: int
    skipped: dict[str, int]

    @property
    def graded(self) -> bool:
        """Whether targets have values instead of labels."""
        return self.task.graded

    def __len__(self) -> int:
        return len(self.gold)

    def some(self, rows: Int[np.ndarray, " chosen"], seed: int = 0) -> LabelledExamples:
        """Some of the examples, in folds of their own; labels that none of them has stay.

        Only for probing: `texts` are still all texts.
        """
        names = np.array(self.units.names)[np.array(self.units.owner)[rows]]
        units = Units.of(names.tolist(), self.units.kind)
        folds = min(FOLDS, len(units))
        gold = self.gold[rows]
        fold = _folds(gold, units, folds, seed)
        return replace(self, gold=gold, rated=self.rated[rows], units=units, fold=fold, folds=folds)

    def edges(self) -> list[tuple[Text, Edge]]:
        """The examples in order."""
        return [(text, edge) for text in self.texts for edge in self.task.targets(text)]


def find_examples(corpus: Corpus, task: str | Task | None, *, most: int | None, seed: int) -> LabelledExamples:
    """The examples of one task; an error in one sentence where no layer can be chosen by them.

    Example:
        >>> from lamina.corpora import corpus_from
        >>> rows = [{"text": f"{word} number {n}", "label": word} for n in range(10) for word in ("good", "bad")]
        >>> found = find_examples(corpus_from(rows), "label", most=None, seed=0)
        >>> len(found), found.labels, found.folds
        (20, ('bad', 'good'), 5)
    """
    chosen = task_of(corpus, task)
    texts = [text for text in corpus if chosen.targets(text)]
    if not texts:
        raise TaskError(f"{corpus.name} has no targets of {chosen.name}; name another task")
    _refuse_ids(corpus, texts)
    documents = len({document_of(text) for text in texts})
    if documents < 2:
        raise CorpusError(
            f"{corpus.name} is one document: what is scored could not be kept apart from what is learned from; give at "
            "least two documents, or a column that names them (--format table:doc=COLUMN,...)"
        )
    skipped: Counter[str] = Counter()
    if not chosen.graded:
        _refuse_continuous(corpus, chosen, texts)
        chosen = _with_labels_only(chosen, texts, skipped)
    texts = [text for text in texts if chosen.targets(text)]
    texts, groups = _linked_documents(texts, skipped)
    texts = _drawn(texts, chosen, groups, most, seed, skipped)
    chosen = _without_rare(chosen, texts, groups, skipped)
    texts = [text for text in texts if chosen.targets(text)]
    labels = label_set(chosen, texts)
    edges = [(text, edge) for text in texts for edge in chosen.targets(text)]
    gold, rated = _decisions(chosen, [edge for _, edge in edges], labels)
    _refuse_constant(corpus, chosen, labels, gold)
    units = Units.of((groups[document_of(text)] for text, _ in edges), "document" if documents < len(texts) else "text")
    folds = min(FOLDS, len(units))
    if folds < 3:
        raise CorpusError(
            f"{corpus.name} has {len(units)} documents that share no text: too few to choose on some and score on "
            "others; give at least 3"
        )
    single = not chosen.graded and bool((gold.sum(1) == 1).all()) and bool(rated.all())
    fold = _folds(gold, units, folds, seed)
    what = describe_task(chosen, texts).what
    return LabelledExamples(chosen, tuple(texts), labels, gold, rated, single, what, units, fold, folds, dict(+skipped))


def task_of(corpus: Corpus, name: str | Task | None) -> Task:
    """The task that is named, or the only one; an error where there are several, or none."""
    carried = choose_tasks(None if name is None else [name], Splits(corpus, corpus), faithful=False)
    if len(carried) > 1:
        names = ", ".join(task.name for task in carried)
        raise TaskError(f"{corpus.name} has several kinds of labels ({names}); name one with --task")
    return carried[0]


_ID = re.compile(r"(?=.*\d)[\w.:/#-]+|[0-9a-fA-F-]{8,}")


def _refuse_ids(corpus: Corpus, texts: Sequence[Text]) -> None:
    """Raise a CorpusError where texts are names of rows: one or two words with digits each."""
    like_ids = sum(len(text.words) <= 3 and all(map(_ID.fullmatch, _joined(text))) for text in texts)
    if like_ids > _ID_SHARE * len(texts):
        raise CorpusError(
            f"{corpus.name}: the texts look like ids ({' '.join(texts[0].words)[:40]!r}, ...); name the column that "
            "holds running text (--format table:text=COLUMN,label=COLUMN)"
        )


def _joined(text: Text) -> list[str]:
    """The words as written: an id that was cut at its hyphens is one again."""
    parts: list[str] = []
    for number, word in enumerate(text.words):
        if parts and number in text.glued:
            parts[-1] += word
        else:
            parts.append(word)
    return parts


def _refuse_continuous(corpus: Corpus, task: Task, texts: Sequence[Text]) -> None:
    """Raise a TaskError where classes are numbers on a scale."""
    labels = Counter(label for text in texts for edge in task.targets(text) for label in edge.labels)
    numbers = [label for label in labels if _is_number(label)]
    many = len(numbers) > _MANY_NUMBERS and len(numbers) > 0.9 * len(labels)
    if many or (len(numbers) == len(labels) > 2 and any("." in label.rstrip("0").rstrip(".") for label in numbers)):
        raise TaskError(
            f"{corpus.name}: {task.name} has {len(numbers):,} different numbers as classes, which looks like a "
            f"continuous scale; read them as values (--format table:text=COLUMN,{task.name}:value=COLUMN)"
        )


def _is_number(label: str) -> bool:
    try:
        float(label)
    except ValueError:
        return False
    return True


def _refuse_constant(corpus: Corpus, task: Task, labels: Sequence[str], gold: np.ndarray) -> None:
    same = len(gold) == 0 or (len(np.unique(gold[:, 0])) < 2 if task.graded else len(labels) < 2)
    if same and not task.graded and len(labels) == 1 and 0 < gold.sum() < len(gold):
        return
    if same:
        only = f" ({labels[0]!r})" if labels and not task.graded else ""
        raise TaskError(
            f"{corpus.name}: {task.name} has one value only{only}, so every layer would score alike; name a label with "
            "at least two values that occur in several documents"
        )


def _with_labels_only(task: Task, texts: Sequence[Text], skipped: Counter[str]) -> Task:
    """Single-label tasks without the targets that have no label; multi-label ones as they are."""
    counts = Counter(len(edge.labels) for text in texts for edge in task.targets(text))
    if counts[0] and set(counts) == {0, 1}:
        skipped[UNLABELLED] = counts[0]
        return _keeping(task, lambda edge: bool(edge.labels))
    return task


def _keeping(task: Task, wanted: Any) -> Task:
    """A task with some of its targets."""
    source = task.targets

    def targets(text: Text) -> tuple[Edge, ...]:
        return tuple(edge for edge in source(text) if wanted(edge))

    return replace(task, source=targets, keep=None, normalise=as_annotated)


def _without_rare(task: Task, texts: Sequence[Text], groups: dict[str, str], skipped: Counter[str]) -> Task:
    """Classes that fewer documents have than there are folds are merged into one, or left out if that is rare too."""
    if task.graded:
        return task
    where: dict[str, set[str]] = defaultdict(set)
    counts: Counter[str] = Counter()
    several = False
    for text in texts:
        for edge in task.targets(text):
            several |= len(edge.labels) != 1
            for label in edge.labels:
                where[label].add(groups[document_of(text)])
                counts[label] += 1
    least = min(FOLDS, len({group for groups_of_label in where.values() for group in groups_of_label}))
    rare = {label for label, groups_of_label in where.items() if len(groups_of_label) < least}
    if not rare or len(rare) == len(where):
        return task
    together = set().union(*(where[label] for label in rare))
    amount = sum(counts[label] for label in rare)
    merge = not several and len(together) >= least and len(rare) > 1
    skipped[MERGED if merge else LEFT_OUT] += amount
    source = task.targets

    def targets(text: Text) -> tuple[Edge, ...]:
        chosen = []
        for edge in source(text):
            if merge:
                chosen.append(replace(edge, labels=tuple(RARE if label in rare else label for label in edge.labels)))
            elif several:
                rated = None if edge.rated is None else tuple(label for label in edge.rated if label not in rare)
                common = tuple(label for label in edge.labels if label not in rare)
                chosen.append(replace(edge, labels=common, rated=rated))
            elif rare.isdisjoint(edge.labels):
                chosen.append(edge)
        return tuple(chosen)

    return replace(task, source=targets, keep=None, normalise=as_annotated)


def _decisions(task: Task, edges: Sequence[Edge], labels: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    if task.graded:
        values = np.array([[edge.value] for edge in edges], float)
        return values, np.ones((len(edges), 1), bool)
    gold, rated = decisions(replace(task, unscored=frozenset()), edges, labels)
    return gold.astype(float), rated


def _drawn(
    texts: list[Text], task: Task, groups: dict[str, str], most: int | None, seed: int, skipped: Counter[str]
) -> list[Text]:
    """Texts of whole groups of documents, drawn until there are enough targets; in the order of the corpus."""
    sizes: Counter[str] = Counter()
    for text in texts:
        sizes[groups[document_of(text)]] += len(task.targets(text))
    total = sum(sizes.values())
    if most is None or total <= most:
        return texts
    chosen: set[str] = set()
    count = 0
    for group in by_hash(sizes, seed):
        if count >= most and len(chosen) >= 2 * FOLDS:
            break
        chosen.add(group)
        count += sizes[group]
    skipped[NOT_DRAWN] += total - count
    return [text for text in texts if groups[document_of(text)] in chosen]


def by_hash(names: Iterable[str], seed: int) -> list[str]:
    """Names in an order that depends on them and the seed alone.

    Example:
        >>> by_hash(["a", "b", "c"], 0) == by_hash(["c", "b", "a"], 0)
        True
    """
    return sorted(set(names), key=lambda name: hashlib.sha256(f"{seed}:{name}".encode()).digest())


def _folds(gold: np.ndarray, units: Units, folds: int, seed: int) -> Int[np.ndarray, " example"]:
    """The fold of every example: whole units, each to the fold that lacks its most frequent label most."""
    owner = np.array(units.owner)
    labels = gold if gold.shape[1] > 1 else np.ones_like(gold)
    sums = units.sums(labels)
    main = sums.argmax(1)
    place = {name: number for number, name in enumerate(by_hash(units.names, seed))}
    # Larger documents first.
    sizes = np.log2(sums.sum(1).clip(1)).astype(int)
    order = sorted(range(len(units)), key=lambda unit: (main[unit], -sizes[unit], place[units.names[unit]]))
    filled = np.zeros((folds, labels.shape[1]))
    of_unit = np.zeros(len(units), int)
    for unit in order:
        fold = int(np.lexsort((filled.sum(1), filled[:, main[unit]]))[0])
        of_unit[unit] = fold
        filled[fold] += sums[unit]
    return of_unit[owner]


# Duplicates: documents that share a text, or nearly, are one group, and a group is in one fold.


def _linked_documents(texts: Sequence[Text], skipped: Counter[str]) -> tuple[list[Text], dict[str, str]]:
    """The texts, and document -> the first document of its group.

    Where copies link most documents with each other, all copies but one are left out instead.
    """
    by_content: dict[tuple[str, ...], list[Text]] = defaultdict(list)
    for text in texts:
        by_content[_content(text)].append(text)
    pairs = [
        (documents[0], other)
        for same in by_content.values()
        if len(documents := sorted({document_of(text) for text in same})) > 1
        for other in documents[1:]
    ]
    copies = sum(len(same) for same in by_content.values() if len({document_of(text) for text in same}) > 1)
    groups = _groups(texts, pairs)
    if _is_too_linked(groups):
        skipped[COPIES] += len(texts) - len(by_content)
        first = {id(same[0]) for same in by_content.values()}
        texts, pairs = [text for text in texts if id(text) in first], []
        groups = _groups(texts, pairs)
    else:
        skipped[DUPLICATES] += copies
    near = _near_duplicates([(content, document_of(same[0])) for content, same in by_content.items()])
    if near:
        skipped[NEAR_DUPLICATES] += len({document for pair in near for document in pair})
        linked = _groups(texts, [*pairs, *near])
        # Texts made from a template are all nearly alike: nothing could be split.
        groups = groups if _is_too_linked(linked) else linked
    return list(texts), groups


def _is_too_linked(groups: Mapping[str, str]) -> bool:
    return max(Counter(groups.values()).values()) > max(_MOST_LINKED * len(groups), 2)


def _groups(texts: Sequence[Text], pairs: Sequence[tuple[str, str]]) -> dict[str, str]:
    """Document -> the first document that it is linked to, over any number of others."""
    parent = {document_of(text): document_of(text) for text in texts}

    def first_of(name: str) -> str:
        while parent[name] != name:
            parent[name] = parent[parent[name]]
            name = parent[name]
        return name

    for one, other in pairs:
        if one in parent and other in parent:
            ends = sorted((first_of(one), first_of(other)))
            parent[ends[1]] = ends[0]
    return {document: first_of(document) for document in list(parent)}


def _content(text: Text) -> tuple[str, ...]:
    """Its words in lower case, without punctuation."""
    words = tuple(word.casefold() for word in text.words if any(map(str.isalnum, word)))
    return words or tuple(text.words)


def _near_duplicates(contents: Sequence[tuple[tuple[str, ...], str]]) -> list[tuple[str, str]]:
    """Pairs of documents with texts that share most of their word triples, by MinHash in bands."""
    long = [(words, document) for words, document in contents if len(words) >= _LEAST_WORDS]
    if len(long) < 2:
        return []
    triples = [frozenset(zip(words, words[1:], words[2:], strict=False)) for words, _ in long]
    rng = np.random.default_rng(0)
    factors = rng.integers(1, 2**31, _BANDS * _ROWS, dtype=np.uint64) | np.uint64(1)
    shifts = rng.integers(0, 2**63, _BANDS * _ROWS, dtype=np.uint64)
    buckets: dict[tuple[int, bytes], list[int]] = defaultdict(list)
    hashes: dict[tuple[str, ...], int] = {}
    for number, some in enumerate(triples):
        values = np.array([hashes.setdefault(triple, _hash(triple)) for triple in some], np.uint64)
        lowest = ((values[:, None] * factors + shifts) >> np.uint64(20)).min(0)
        for band in range(_BANDS):
            buckets[band, lowest[band * _ROWS : (band + 1) * _ROWS].tobytes()].append(number)
    pairs: set[tuple[str, str]] = set()
    looked_at: set[tuple[int, int]] = set()
    for members in buckets.values():
        # Of many alike, neighbours are enough: they are linked one after the other.
        for one, other in pairwise(members):
            if (one, other) in looked_at:
                continue
            looked_at.add((one, other))
            shared = len(triples[one] & triples[other])
            if long[one][1] != long[other][1] and shared >= _ALIKE * len(triples[one] | triples[other]):
                pairs.add((long[one][1], long[other][1]))
    return sorted(pairs)


def _hash(triple: tuple[str, ...]) -> int:
    digest = hashlib.blake2b(" ".join(triple).encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big")


# What can be read off the words alone.

_MOST_FEATURES = 1000
"""Words, and as many runs of characters, that the surface baseline counts: the most frequent."""
_LEAST_TEXTS = 2


def surface_vectors(examples: LabelledExamples) -> Float[np.ndarray, "example feature"]:
    """Words of the target and of its text, and runs of 2 to 4 characters in the target, weighed by rarity.

    Example:
        >>> from lamina.corpora import corpus_from
        >>> rows = [{"text": f"{word} number {n}", "label": word} for n in range(10) for word in ("good", "bad")]
        >>> surface_vectors(find_examples(corpus_from(rows), "label", most=None, seed=0)).shape[0]
        20
    """
    # Counted twice instead of kept: the counts of many texts take far more room than the table.
    return np.concatenate([_weighed(lambda: _word_counts(examples)), _weighed(lambda: _run_counts(examples))], 1)


def _word_counts(examples: LabelledExamples) -> Iterator[Counter[str]]:
    """Of every example: words and pairs of words; of a span, the words around it too."""
    whole = examples.what == "whole texts"
    for text, edge in examples.edges():
        sides = _sides(text, edge)
        counted = Counter(f"{side}:{word}" for side, some in enumerate(sides) for word in some)
        counted.update(f"{side}:{one} {other}" for side, some in enumerate(sides) for one, other in pairwise(some))
        if not whole:
            other_side = edge.other or edge.span
            first, last = min(edge.span.start, other_side.start), max(edge.span.end, other_side.end)
            counted.update(f"near:{word.casefold()}" for word in text.words[first:last])
            counted.update(f"before:{word.casefold()}" for word in text.words[max(0, first - 1) : first])
            counted.update(f"after:{word.casefold()}" for word in text.words[last : last + 1])
        yield counted


def _run_counts(examples: LabelledExamples) -> Iterator[Counter[str]]:
    """Of every example: runs of 2 to 4 characters."""
    for text, edge in examples.edges():
        yield Counter(
            f"{side}:{padded[start : start + size]}"
            for side, some in enumerate(_sides(text, edge))
            for padded in (f" {word} " for word in some)
            for size in (2, 3, 4)
            for start in range(max(0, len(padded) - size + 1))
        )


def _sides(text: Text, edge: Edge) -> list[list[str]]:
    """The words of the span, or of both spans."""
    return [[text.words[word].casefold() for word in span] for span in (edge.span, edge.other) if span is not None]


def _weighed(counts: Callable[[], Iterator[Counter[str]]]) -> Float[np.ndarray, "example feature"]:
    """Rows of length 1: logarithms of counts times inverse document frequencies, of the most frequent features."""
    occurring: Counter[str] = Counter()
    size = 0
    for counted in counts():
        occurring.update(counted.keys())
        size += 1
    common = [feature for feature, count in occurring.items() if count >= _LEAST_TEXTS]
    chosen = sorted(common, key=lambda feature: (-occurring[feature], feature))[:_MOST_FEATURES]
    place = {feature: number for number, feature in enumerate(chosen)}
    rarity = np.log((1 + size) / (1 + np.array([occurring[feature] for feature in chosen], float))) + 1
    table = np.zeros((size, len(chosen)), np.float32)
    for row, counted in enumerate(counts()):
        for feature, count in counted.items():
            if (column := place.get(feature)) is not None:
                table[row, column] = (1 + np.log(count)) * rarity[column]
    length = np.linalg.norm(table, axis=1, keepdims=True)
    return table / np.where(length > 0, length, 1)
