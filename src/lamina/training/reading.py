"""From the name of a corpus to the three sets of a fine-tuning."""

from __future__ import annotations

import gc
import hashlib
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain, islice, zip_longest
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from lamina.corpora import Corpus, load_corpus
from lamina.corpora.corpus import SampleSource, Setting, View, origins, place_in_order
from lamina.corpora.detection import FileSelection
from lamina.corpora.loading import CorpusSource, find_source, scored_split_of, splits_of
from lamina.corpora.question_sets import Questions, load_questions
from lamina.corpora.questions.babi import STORIES
from lamina.corpora.questions.question import Question
from lamina.corpora.splits import SPLITS
from lamina.errors import CorpusError, TaskError
from lamina.training.objective import Item, text_of, unit_of
from lamina.training.provenance import is_among
from lamina.training.tags import CLASSES, is_class
from lamina.types import Edge, Span, Text

# Which annotation a model learns: the task's own, or any other that fits.

LEARNED = {"classify": "label", "pairs": "label", "pos": "pos", "ner": "ner", "tag": "tag"}
"""Task -> the name of the annotation that it learns."""
_SAMPLED = 200
"""Texts that are looked at to find an annotation that fits."""


def with_learned_labels(corpus: Corpus, task: str, annotation: str | None) -> Corpus:
    """The corpus with the annotation to learn under the name that the task learns.

    Without a name it is the task's own annotation, or else the only one that fits: classes of whole texts, labels of
    words. Texts without it are left out, and noted.

    Example:
        >>> from lamina.corpora import corpus_from
        >>> corpus = corpus_from([("I like it", {"mood": "good"}), ("It rains", {})])
        >>> [text.edges["label"][0].labels for text in with_learned_labels(corpus, "classify", None)]
        [('good',)]
    """
    learned = LEARNED.get(task)
    if learned is None:
        if annotation is not None:
            raise TaskError(f"{task} learns no annotation, so leave --annotation out; it is for {', '.join(LEARNED)}")
        return corpus
    annotations = corpus.annotations
    if annotation is not None and annotation not in annotations:
        raise TaskError(
            f"{corpus.name} ({corpus.split}) has no {annotation!r}; it has {', '.join(annotations) or 'none'}"
        )
    names = CLASSES if learned == "label" else {learned}
    chosen = annotation or (None if names & set(annotations) else _only(corpus, task))
    if chosen is None or chosen == learned:
        return corpus

    def read() -> Iterator[Text]:
        for text in corpus.source():
            if chosen in text.edges:
                others = {name: edges for name, edges in text.edges.items() if name not in (*names, chosen)}
                yield replace(text, edges={**others, learned: text.edges[chosen]})
            else:
                corpus.notes.add(f"texts without {chosen}", text.id, text.doc)

    return replace(corpus, source=read, declared=None)


def _only(corpus: Corpus, task: str) -> str | None:
    """The only annotation that fits; None where there is none, which the task itself will say."""
    if task in ("pos", "ner"):
        return None
    fits = is_class if LEARNED[task] == "label" else _is_tagged
    fitting: dict[str, bool] = {}
    for text in islice(iter(corpus), _SAMPLED):
        for name, edges in text.edges.items():
            if edges:
                fitting[name] = fitting.get(name, True) and fits(text, edges)
    names = [name for name, good in fitting.items() if good]
    if len(names) > 1:
        raise TaskError(f"{corpus.name} has several annotations that {task} can learn; say which: {_options(names)}")
    return names[0] if names else None


def _is_tagged(text: Text, edges: tuple) -> bool:  # noqa: ARG001 - as `is_class`
    """Whether targets are single words with one label."""
    return all(len(edge.span) == 1 and edge.other is None and len(edge.labels) == 1 for edge in edges)


def _options(names: list[str]) -> str:
    return " or ".join(f"--annotation {name}" for name in names)


@dataclass(frozen=True)
class Sets:
    """The texts or questions of one fine-tuning.

    Example:
        >>> from lamina.types import Text
        >>> Sets("pets", (Text("a", ("Dogs",)),), (Text("b", ("Cats",)),), (Text("c", ("Owls",)),)).describe()["name"]
        'pets'
    """

    name: str
    train: tuple[Item, ...]
    """For training."""
    select: tuple[Item, ...]
    """For choosing the step and, with a grid, the settings."""
    scored: tuple[Item, ...]
    """Scored once, at the end."""
    about: Mapping[str, Any] | None = None
    """Where they come from; None where they were made by a program."""
    left_out: Mapping[str, int] = field(default_factory=dict)
    """Why texts were left out -> how many."""
    view: View = field(default=View())
    """How questions are shown."""

    @cached_property
    def fingerprint(self) -> str:
        """Changes with any text or label."""
        digest = hashlib.sha256()
        for part in (self.train, self.select, self.scored):
            digest.update(f"{len(part)}\n".encode())
            for item in part:
                digest.update(repr(_content(item)).encode("utf-8", "surrogatepass"))
        return digest.hexdigest()

    def describe(self) -> dict[str, Any]:
        """What provenance says of them."""
        sizes = {"train": len(self.train), "select": len(self.select), "scored": len(self.scored)}
        return {
            "name": self.name,
            "split": "test",
            **(self.about or {}),
            **({} if self.view == View() else {"view": self.view.describe()}),
            "fingerprint": self.fingerprint,
            "texts": sizes,
        }


def _content(item: Item) -> tuple[Any, ...]:
    text = text_of(item)
    edges = [
        (name, [(e.labels, e.span.start, e.span.end) for e in targets]) for name, targets in sorted(text.edges.items())
    ]
    answers = (item.answers, item.context) if isinstance(item, Question) else ()
    return (text.words, [segment.end for segment in text.segments], edges, answers)


def apart(sets: Sets) -> Sets:
    """The sets without texts that are also in a later set.

    A few sentences occur in every set ("Thank you ."). Where that is most of a set, the data is refused.
    """
    for name in ("train", "select", "scored"):
        if not getattr(sets, name):
            raise CorpusError(f"{sets.name}: there are no texts in {name}; give more, or raise --limit")
    later = _origins(sets.scored)
    select = tuple(item for item in sets.select if not is_among(text_of(item), later))
    later |= _origins(select)
    train = tuple(item for item in sets.train if not is_among(text_of(item), later))
    for name, remaining in (("select", select), ("train", train)):
        given = len(getattr(sets, name))
        if len(remaining) < given / 2:
            raise CorpusError(
                f"{sets.name}: {given - len(remaining):,} of the {given:,} texts of {name} are also in a later set; "
                "scored texts may not be trained on: give sets that share no texts"
            )
    left_out = {
        **sets.left_out,
        "training texts that are also in the selection or scored texts": len(sets.train) - len(train),
        "selection texts that are also in the scored texts": len(sets.select) - len(select),
    }
    return replace(sets, train=train, select=select, left_out=left_out)


def _origins(items: Iterable[Item]) -> set[str]:
    return {origin for item in items for origin in origins(text_of(item))}


ANSWERING = {"squad", "hotpot", "babi"}
"""Tasks on questions with contexts; their formats too."""
_BY_TASK = "bAbI"
"""Scheme of questions that are of several tasks."""
_FEW = 20
"""Documents below which texts are split instead of documents."""
_WORDS_PER_PIECE = 0.8
"""Of the longest row. Cut to 410 words, HotpotQA has 376 tokens of MiniLM on average; 1 of 179 questions over 512."""
_CALLED = {"train": "training", "select": "selection", "scored": "scored", "pool": "training and selection"}
"""Role of a split -> its name where what was left out of it is counted."""


def load_sets(
    task: str,
    data: str | Path,
    *,
    format: str | None = None,
    include: str | None = None,
    exclude: str | None = None,
    skip_faulty: float = 0.0,
    split_from: str | None = None,
    limit: int | None = None,
    first: int | None = None,
    setting: Setting = "distractor",
    babi_tasks: Sequence[int] | None = None,
    length: int = 384,
    annotation: str | None = None,
) -> Sets:
    """The three sets of a corpus: its train, dev and test; missing ones are made by document.

    Files are chosen, faults left out and a split divided as in `load_corpus`. Where dev is given and test is not, dev
    is scored, and a part of train is for selection. `limit` draws texts of each set, as whole documents, of bAbI (and
    the stories) as many of each task; `first` takes the first ones instead.
    `setting` is HotpotQA's; `babi_tasks` are some of bAbI's twenty. `annotation` is what is learned, where it is not
    the task's own annotation or the only one that fits.
    """
    source = None if str(data) == STORIES else find_source(data, format, FileSelection.of(include, exclude))
    files: dict[str, Any] = {"format": format, "include": include, "exclude": exclude, "skip_faulty": skip_faulty}
    files["split_from"] = split_from
    asks = _asks(task, source)
    if asks and annotation is not None:
        raise TaskError(f"{data} has questions, whose answers are learned; leave --annotation out")
    view = View(
        setting=setting,
        babi="classification" if task == "classify" else "span",
        tasks=tuple(babi_tasks) if babi_tasks else None,
        max_words=round(_WORDS_PER_PIECE * length) if task in ANSWERING else None,
    )

    def load(split: str) -> Corpus:
        if asks:
            return load_questions(data, split, **files, view=view)
        return with_learned_labels(load_corpus(data, split, **files), task, annotation)

    roles = _roles(task, source, load, split_from)
    portion = Portion(limit, first)
    corpora = {role: portion.of_corpus(load(split), role) for role, split in roles.splits.items()}
    documents = _documents(source, roles.splits.get("pool"))
    items = _items(corpora, portion, documents, pairs=asks and task == "pairs")
    scored = corpora["scored"]
    about = {
        "split": scored.split,
        "unit": "sentence",
        "scheme": scored.scheme,
        "files": {name: sha for corpus in corpora.values() for name, sha in corpus.files.items()},
        "splits": {role: _split_description(corpus) for role, corpus in corpora.items()},
        **({"note": roles.note} if roles.note else {}),
        "asked": {
            "data": str(data),
            "format": format,
            **{name: value for name, value in files.items() if value and name != "format"},
            **portion.describe(),
            "annotation": annotation,
        },
    }
    left_out = {
        f"{_CALLED[role]}: {reason}": count
        for role, corpus in corpora.items()
        for reason, count in corpus.left_out().items()
    }
    return Sets(scored.name, *items, about=about, left_out=left_out, view=scored.view)


def sets_of_splits(
    corpora: Mapping[str, Corpus], task: str, limit: int | None = None, first: int | None = None
) -> Sets:
    """The three sets of data in memory, of which train, dev and test are given."""
    read = {split: with_learned_labels(corpus, task, None).part(limit, first) for split, corpus in corpora.items()}
    items = {split: tuple(corpus) for split, corpus in read.items()}
    left_out = {
        f"{split}: {why}": count for split, read_corpus in read.items() for why, count in read_corpus.left_out().items()
    }
    return Sets(corpora["test"].name, items["train"], items["dev"], items["test"], left_out=left_out)


def _asks(task: str, source: CorpusSource | None) -> bool:
    """Whether the data is read as questions with contexts, with the raw strings that texts do not have."""
    asks = source is None or source.format.name in ANSWERING
    if task in ANSWERING and source is not None and not asks:
        kind = source.format.name
        raise TaskError(f"{source.name} is {kind}; {task} takes questions with contexts (squad|hotpot|babi)")
    return asks and task not in ("mlm", "pos", "ner", "tag")


class _SplitRoles(NamedTuple):
    """Which split is what: `train`, `select` and `scored`, or `pool` for what is cut into train and select."""

    splits: dict[str, str]
    note: str = ""
    """Where that is not the usual: why."""


def _roles(
    task: str, source: CorpusSource | None, load: Callable[[str], Corpus], split_from: str | None
) -> _SplitRoles:
    if source is None or split_from is not None:
        return _SplitRoles(dict(zip(_ROLES, SPLITS, strict=True)))
    splits = splits_of(source)
    if "train" not in splits:
        note = "there is no train: nine tenths of dev are trained on, and one tenth is for selection"
        return _SplitRoles({"pool": "dev", "scored": "test"}, note)
    if "test" not in splits:
        note = "there is no test: dev is scored, and a tenth of train is for selection"
        return _SplitRoles({"pool": "train", "scored": "dev"}, note)
    if scored_split_of(source) == "dev":
        note = "no test is given: dev is scored, and the test that is made of train is for selection"
        return _SplitRoles({"train": "train", "select": "test", "scored": "dev"}, note)
    classes = task in ("classify", "pairs") and source.format.name not in ANSWERING
    if classes and _is_labelled(load("dev")) and not _is_labelled(load("test")):
        note = "test has no labels: dev is scored, and a tenth of train is for selection"
        return _SplitRoles({"pool": "train", "scored": "dev"}, note)
    return _SplitRoles(dict(zip(_ROLES, SPLITS, strict=True)))


_ROLES = ("train", "select", "scored")


def _documents(source: CorpusSource | None, split: str | None) -> list[str]:
    """The documents of a split, where they can be listed without reading its texts."""
    if source is None or split is None or source.format.documents is None:
        return []
    return [document for path in source.files.get(split, ()) for document in source.format.documents(path)]


def _items(
    corpora: Mapping[str, Corpus], portion: Portion, documents: Sequence[str], *, pairs: bool
) -> list[tuple[Item, ...]]:
    """The items of train, select and scored, as many as wanted; `documents` are those of the pool, if known."""
    read: dict[str, Sequence[Item]] = {}
    with _without_collecting():
        for role, corpus in corpora.items():
            if role == "pool":
                cut = _tenth(_items_of(corpus), documents, portion.first)
                read["train"], read["select"] = map(portion.of, cut)
            elif isinstance(corpus, Questions) and corpus.scheme == _BY_TASK:
                read[role] = portion.of_each_task([*corpus.questions()])
            else:
                read[role] = [*_items_of(corpus)]
    if pairs:
        read = {role: portion.of([*sentence_pairs(questions)]) for role, questions in read.items()}
    return [tuple(read[role]) for role in _ROLES]


class Portion(NamedTuple):
    """How much of each set is read: a sample, the first items, or all where both are None.

    Example:
        >>> texts = [Text(f"{number}", ("Dogs",)) for number in range(100)]
        >>> len(Portion(limit=10).of(texts)), [text.id for text in Portion(first=2).of(texts)]
        (10, ['0', '1'])
    """

    limit: int | None = None
    """Items to draw, as whole documents."""
    first: int | None = None

    def describe(self) -> dict[str, int | None]:
        """What provenance says of it."""
        about = {"limit": self.limit}
        about |= {} if self.limit is None else {"sample_seed": 0}
        return about if self.first is None else about | {"first": self.first}

    def of_corpus(self, corpus: Corpus, role: str) -> Corpus:
        """The portion of a corpus; what is divided later, into sets or by task, is read whole."""
        return corpus if role == "pool" or corpus.scheme == _BY_TASK else corpus.part(*self)

    def of(self, items: Sequence[Item]) -> list[Item]:
        """The portion, in the order of the items."""
        if self.limit is None:
            return [*items[: self.first]]
        return [*SampleSource(lambda: items, self.limit, 0, _document_of)()]

    def of_each_task(self, questions: Sequence[Question]) -> Sequence[Question]:
        """As many questions of each task as of any other, since a corpus has tasks one after the other."""
        most = self.first if self.limit is None else self.limit
        if most is None:
            return questions
        tasks: dict[str, list[Question]] = {}
        for question in questions:
            tasks.setdefault(question.task, []).append(question)
        if self.limit is not None:
            for of_task in tasks.values():
                of_task.sort(key=lambda question: place_in_order(0, _document_of(question)))
        turns = chain.from_iterable(zip_longest(*tasks.values()))
        return list(islice((question for question in turns if question is not None), most))


def _document_of(item: Item) -> str:
    text = text_of(item)
    return text.doc or text.id


def _items_of(corpus: Corpus) -> Iterator[Item]:
    return corpus.questions() if isinstance(corpus, Questions) else iter(corpus)


@contextmanager
def _without_collecting() -> Iterator[None]:
    """No garbage is looked for among millions of things that all stay: 40 % of the time it takes to read SQuAD."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


def _split_description(corpus: Corpus) -> str:
    return f"{corpus.split}: {corpus.made_split or 'as given'}"


def _tenth(items: Iterable[Item], documents: Sequence[str], first: int | None) -> tuple[list[Item], list[Item]]:
    """Nine tenths and one tenth of the documents, in the order of a hash; of the texts where documents are few.

    At most the `first` items of each. Where all documents are known, no more items are read than it takes.
    """
    if len(set(documents)) < _FEW:
        items = [*items]
        documents = [unit_of(text_of(item)) for item in items]
    many = len(set(documents)) >= _FEW
    names = set(documents) if many else {text_of(item).id for item in items}
    ranked = sorted(names, key=lambda name: hashlib.sha256(name.encode("utf-8", "surrogatepass")).digest())
    chosen = set(ranked[: -(-len(ranked) // 10)])
    most = sys.maxsize if first is None else first
    train, select = [], []
    for item in items:
        text = text_of(item)
        part = select if (unit_of(text) if many else text.id) in chosen else train
        if len(part) < most:
            part.append(item)
        elif len(train) == len(select) == most:
            break
    return train, select


def _is_labelled(corpus: Corpus) -> bool:
    return any(not CLASSES.isdisjoint(text.edges) for text in corpus)


def sentence_pairs(questions: Sequence[Item], seed: int = 0) -> Iterator[Text]:
    """Each question with a sentence that answers it (`1`) and with one of its context that does not (`0`), drawn."""
    draw = np.random.default_rng(seed)
    for question in questions:
        text = text_of(question)
        for label in ("1", "0"):
            sentences = [edge.other for edge in text.edges.get("sup", ()) if edge.labels == (label,) and edge.other]
            if sentences:
                yield _pair(text, sentences[draw.integers(len(sentences))], label)


def _pair(text: Text, sentence: Span, label: str) -> Text:
    question = text.segments[0]
    words = (*text.words[question.start : question.end], *text.words[sentence.start : sentence.end])
    segments = (Span(0, len(question)), Span(len(question), len(words)))
    edges = {"label": (Edge((label,), Span(0, len(words))),)}
    # Known by its question: which sentence was drawn differs from run to run.
    return Text(f"{text.id}-{label}", words, segments, edges, unit_of(text), " ".join(origins(text)))
