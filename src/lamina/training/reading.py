"""From the name of a corpus to the three sets of a fine-tuning."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from lamina.corpora import Corpus, load_corpus
from lamina.corpora.corpus import fingerprint_of
from lamina.corpora.loading import Source, find_source, part_of, splits_of
from lamina.corpora.question_sets import read_questions
from lamina.corpora.questions import Question
from lamina.corpora.splits import SPLITS
from lamina.corpora.stories import STORIES, story_questions
from lamina.errors import CorpusError, TaskError
from lamina.training.classes import CLASSES
from lamina.training.objective import Item, text_of, unit_of
from lamina.training.provenance import text_hash
from lamina.types import Edge, Span, Text


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
    behind: frozenset[str] = frozenset()
    """Hashes of further texts that the training and selection items were made of."""
    left_out: Mapping[str, int] = field(default_factory=dict)
    """Why texts were left out -> how many."""

    @cached_property
    def fingerprint(self) -> str:
        """Changes with any text or label."""
        return fingerprint_of([[_said(item) for item in part] for part in (self.train, self.select, self.scored)])

    def describe(self) -> dict[str, Any]:
        """What provenance says of them."""
        sizes = {"train": len(self.train), "select": len(self.select), "scored": len(self.scored)}
        return {
            "name": self.name,
            "split": "test",
            **(self.about or {}),
            "fingerprint": self.fingerprint,
            "texts": sizes,
        }


def _said(item: Item) -> list[Any]:
    text = text_of(item)
    edges = [
        [name, [[e.labels, e.span.start, e.span.end] for e in found]] for name, found in sorted(text.edges.items())
    ]
    answers = [item.answers, item.context] if isinstance(item, Question) else []
    return [text.words, [segment.end for segment in text.segments], edges, answers]


def apart(sets: Sets) -> Sets:
    """The sets without texts that are also in a later set.

    A few sentences occur in every set ("Thank you ."). Where that is most of a set, the data is refused.
    """
    for name in ("train", "select", "scored"):
        if not getattr(sets, name):
            raise CorpusError(f"{sets.name}: there are no texts in {name}; give more, or raise --limit")
    scored = {text_hash(text_of(item)) for item in sets.scored}
    select = tuple(item for item in sets.select if text_hash(text_of(item)) not in scored)
    later = scored | {text_hash(text_of(item)) for item in select}
    train = tuple(item for item in sets.train if text_hash(text_of(item)) not in later)
    for name, kept in (("select", select), ("train", train)):
        given = len(getattr(sets, name))
        if len(kept) < given / 2:
            raise CorpusError(
                f"{sets.name}: {given - len(kept):,} of the {given:,} texts of {name} are also in a later set; what is "
                "scored may not be trained on: give sets that share no texts"
            )
    left_out = {
        "training texts that are also in the selection or scored texts": len(sets.train) - len(train),
        "selection texts that are also in the scored texts": len(sets.select) - len(select),
    }
    return replace(sets, train=train, select=select, left_out=left_out)


ANSWERING = {"squad", "hotpot", "babi"}
"""Tasks on questions with contexts; their formats too."""
_FEW = 20
"""Documents below which texts are split instead of documents."""
_WORDS_PER_PIECE = 0.6
"""A safe estimate for English."""


class Wanted(NamedTuple):
    """What a task asks of its data."""

    task: str
    setting: str = "distractor"
    """HotpotQA's."""
    babi_tasks: tuple[int, ...] | None = None
    """Some of bAbI's twenty tasks, or of the stories'."""
    most_words: int = 300
    """Of a HotpotQA context; its distractors are cut."""


def load_sets(
    task: str,
    data: str | Path,
    *,
    format: str | None = None,
    limit: int | None = None,
    setting: str = "distractor",
    babi_tasks: Sequence[int] | None = None,
    length: int = 384,
) -> Sets:
    """The three sets of a corpus: its train, dev and test; missing ones are made by document.

    `limit` takes the first texts of each set; `setting` is HotpotQA's; `babi_tasks` are some of bAbI's twenty.
    """
    wanted = Wanted(task, setting, tuple(babi_tasks) if babi_tasks else None, round(_WORDS_PER_PIECE * length))
    source = None if str(data) == STORIES else find_source(data, format)
    if source is None or "train" in splits_of(source):
        corpora = {split: load_corpus(data, split, format=format) for split in SPLITS}
    else:
        corpora = {split: load_corpus(data, split, format=format) for split in ("dev", "test")}
    found = _read(wanted, source, corpora)
    parts = [tuple(found.items[split][:limit]) for split in SPLITS]
    about = {
        "unit": "sentence",
        "scheme": corpora["test"].scheme,
        "files": {name: sha for corpus in corpora.values() for name, sha in corpus.files.items()},
        "splits": {split: corpus.made_split or "as given" for split, corpus in corpora.items()} | found.notes,
    }
    return Sets(corpora["test"].name, parts[0], parts[1], parts[2], about, found.behind)


class _Found(NamedTuple):
    """What was read: items by split, how splits were changed, and the hashes of the texts behind the items."""

    items: dict[str, list[Item]]
    notes: dict[str, str]
    behind: frozenset[str] = frozenset()


def _read(wanted: Wanted, source: Source | None, corpora: Mapping[str, Corpus]) -> _Found:
    asks = source is None or source.format.name in ANSWERING
    if wanted.task in ANSWERING and source is not None and not asks:
        kind = source.format.name
        raise TaskError(f"{source.name} is {kind}; {wanted.task} takes questions with contexts (squad|hotpot|babi)")
    if not asks or wanted.task in ("mlm", "pos", "ner"):
        return _complete({split: list(corpus) for split, corpus in corpora.items()}, wanted.task)
    read: dict[str, list[Item]] = {}
    if source is None:
        read |= {split: [*story_questions(split, tasks=wanted.babi_tasks)] for split in SPLITS}
    else:
        read |= _questions(source, wanted)
    if wanted.task != "pairs":
        return _Found(read, {})
    behind = frozenset(text_hash(text_of(item)) for split in ("train", "dev") for item in read[split])
    return _Found({split: [*sentence_pairs(found)] for split, found in read.items()}, {}, behind)


def _questions(source: Source, wanted: Wanted) -> dict[str, list[Item]]:
    """The questions of each split, with the raw strings that a corpus of texts does not have."""
    kind = source.format.name
    settings: dict[str, Any] = {}
    if kind == "hotpot":
        settings = {"setting": wanted.setting, "max_words": wanted.most_words}
    elif kind == "babi":
        settings = {"view": "classification" if wanted.task == "classify" else "span", "tasks": wanted.babi_tasks}
    parts = {split: part_of(source, split, 0) for split in SPLITS}
    read: dict[str, list[Item]] = {split: [] for split in SPLITS}
    for given, paths in source.files.items():
        for path in paths:
            for question in read_questions(path, format=kind, **settings):
                for split, part in parts.items():
                    if given in part.sources and (part.keep is None or part.keep(question.text)):
                        read[split].append(question)
    return read


def _complete(read: dict[str, list[Item]], task: str) -> _Found:
    """Three sets where there are two: without a train, dev is trained on; without labels in test, dev is scored.

    A tenth of the training documents is then for selection.
    """
    if "train" not in read:
        train, select = _tenth(read["dev"])
        note = "there is no train: nine tenths of dev are trained on, and one tenth is for selection"
        return _Found({"train": train, "dev": select, "test": read["test"]}, {"train": note, "dev": note})
    if task in ("classify", "pairs") and _is_labelled(read["dev"]) and not _is_labelled(read["test"]):
        train, select = _tenth(read["train"])
        note = "test has no labels: dev is scored, and a tenth of train is for selection"
        return _Found({"train": train, "dev": select, "test": read["dev"]}, dict.fromkeys(SPLITS, note))
    return _Found(read, {})


def _tenth(items: Sequence[Item]) -> tuple[list[Item], list[Item]]:
    """Nine tenths and one tenth of the documents, in the order of a hash; of the texts where documents are few."""
    many = len({unit_of(text_of(item)) for item in items}) >= _FEW
    names = [unit_of(text_of(item)) if many else text_of(item).id for item in items]
    ranked = sorted(set(names), key=lambda name: hashlib.sha256(name.encode("utf-8", "surrogatepass")).digest())
    chosen = set(ranked[: -(-len(ranked) // 10)])
    train = [item for item, name in zip(items, names, strict=True) if name not in chosen]
    return train, [item for item, name in zip(items, names, strict=True) if name in chosen]


def _is_labelled(items: Sequence[Item]) -> bool:
    return any(not CLASSES.isdisjoint(text_of(item).edges) for item in items)


def sentence_pairs(questions: Sequence[Item], seed: int = 0) -> Iterator[Text]:
    """Each question with a sentence that answers it (`1`) and with one of its context that does not (`0`), drawn."""
    draw = np.random.default_rng(seed)
    for question in questions:
        text = text_of(question)
        for label in ("1", "0"):
            found = [edge.other for edge in text.edges.get("sup", ()) if edge.labels == (label,) and edge.other]
            if found:
                yield _pair(text, found[draw.integers(len(found))], label)


def _pair(text: Text, sentence: Span, label: str) -> Text:
    asked = text.segments[0]
    words = (*text.words[asked.start : asked.end], *text.words[sentence.start : sentence.end])
    segments = (Span(0, len(asked)), Span(len(asked), len(words)))
    return Text(f"{text.id}-{label}", words, segments, {"label": (Edge((label,), Span(0, len(words))),)}, unit_of(text))
