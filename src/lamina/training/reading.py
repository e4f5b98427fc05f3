"""From the name of a corpus to the three sets of a fine-tuning."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from lamina.corpora import Corpus, load_corpus
from lamina.corpora.loading import Source, find_source, part_of, splits_of
from lamina.corpora.questions import read_questions
from lamina.corpora.splits import SPLITS
from lamina.corpora.stories import STORIES, story_questions
from lamina.errors import TaskError
from lamina.training.classes import CLASSES
from lamina.training.data import Sets
from lamina.training.objective import Item, text_of, unit_of
from lamina.training.provenance import text_hash
from lamina.types import Edge, Span, Text

ANSWERING = {"squad", "hotpot", "babi"}
"""Tasks on questions with contexts; their formats too."""
_FEW = 20
"""Documents, of which no tenth can be cut."""
_WORDS_A_PIECE = 0.6
"""What is safe for English."""


class Wanted(NamedTuple):
    """What a task asks of its data."""

    task: str
    setting: str = "distractor"
    """HotpotQA's."""
    babi_tasks: tuple[int, ...] | None = None
    """Some of bAbI's twenty, or of the stories'."""
    most_words: int = 300
    """Of a HotpotQA context, whose distractors are cut."""


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
    """The three sets of a corpus: its train, dev and test, made by document where it lacks them.

    `limit` takes the first texts of each; `setting` is HotpotQA's; `babi_tasks` are some of the twenty.
    """
    wanted = Wanted(task, setting, tuple(babi_tasks) if babi_tasks else None, round(_WORDS_A_PIECE * length))
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
    """Three sets where there are two: without a train, dev is learned from; without labels in test, dev is scored.

    What chooses is then a tenth of the documents to learn from.
    """
    if "train" not in read:
        train, select = _tenth(read["dev"])
        note = "there is no train: dev stands in for it, and a tenth of it chooses"
        return _Found({"train": train, "dev": select, "test": read["test"]}, {"train": note, "dev": note})
    if task in ("classify", "pairs") and _is_labelled(read["dev"]) and not _is_labelled(read["test"]):
        train, select = _tenth(read["train"])
        note = "test has no labels: dev is scored, and a tenth of train chooses"
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
