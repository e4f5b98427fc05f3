"""The tags and classes that a fine-tuned model gives, while its parts are changed."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import cross_entropy

from lamina.corpora import Corpus
from lamina.corpora.questions.question import Question
from lamina.errors import CorpusError, ModelError, TaskError
from lamina.models.contract import SPECIAL
from lamina.models.running.huggingface import HuggingFaceEncoder
from lamina.models.running.task_heads import HeadOnStates
from lamina.stats.units import unit_of
from lamina.targets.answers import as_row
from lamina.targets.target import CLASSES_OF_TEXTS, TAGS, Target, TargetScores
from lamina.training.classes import CLASSES, ClassObjective, class_of
from lamina.training.objective import IGNORED, UNSEEN, Item, text_of
from lamina.training.provenance import ABOUT, folder_of, is_among, read_about, used_texts
from lamina.training.reading import LEARNED
from lamina.training.tags import TagObjective, last_tokens, word_labels
from lamina.types import Text

_LENGTH = 512
"""Most tokens of a text, for a model that does not say what it was trained with."""
_CHECKED_TEXTS = 200
"""Texts by which to tell whether an annotation is what a head was trained for."""
_AGREE = 0.5
"""The least share of an annotation's labels that are labels of the head."""
SEEN_TEXTS = "texts that the model was fine-tuned on"


class HeadTraining(NamedTuple):
    """How a head was trained, and on what."""

    task: str | None
    """What `lamina finetune` calls it; None where lamina did not make the model."""
    length: int
    """Maximum number of tokens of a text; longer texts are cut."""
    used: frozenset[str]
    """Hashes of the texts that it was trained on or selected by."""
    window: int | None = None
    """Words that a word could look at on either side while it was trained; None for all."""

    @classmethod
    def of(cls, encoder: HuggingFaceEncoder) -> HeadTraining:
        """Of the model's folder; nothing where lamina did not make it."""
        folder = folder_of(encoder)
        if folder is None or not (folder / ABOUT).is_file():
            return cls(None, min(_LENGTH, encoder.limit), frozenset())
        about = read_about(folder)
        length = min(int(about.get("length", _LENGTH)), encoder.limit)
        return cls(about.get("task"), length, used_texts(folder), about.get("attention_window"))


class _LabelsTarget(Target):
    """Places in rows, each with the class that a head should say there; an item is a text."""

    _counts: Float[np.ndarray, " item"]

    def __init__(self, head: HeadOnStates, seed: int) -> None:
        self._head, self._seed = head, seed
        self.layers = (head.encoder.blocks,)

    def _ask(self, texts: Sequence[Text], gold: Sequence[np.ndarray], places: Sequence[np.ndarray]) -> None:
        """`gold` are the classes at the places of each text: `IGNORED` where the head has no such class."""
        unit = unit_of(texts)
        self.items, self.units = tuple(text.id for text in texts), tuple(unit.of(text) for text in texts)
        self.owners = np.arange(len(texts))
        self._gold, self._places = gold, places

    def _logits(self, rows: Sequence[int], states: Mapping[int, Tensor]) -> tuple[Tensor, Tensor, Tensor]:
        """Logits at the places of some rows, the classes there, and the row of each, counted within the batch."""
        (logits,) = self._head([self.rows[row] for row in rows], states[self.layers[0]])
        owner = np.repeat(np.arange(len(rows)), [len(self._places[row]) for row in rows])
        place = np.concatenate([self._places[row] for row in rows])
        gold = np.concatenate([self._gold[row] for row in rows])
        row, token, known = (
            torch.from_numpy(numbers.astype(np.int64)).to(logits.device) for numbers in (owner, place, gold)
        )
        return logits[row] if logits.dim() == 2 else logits[row, token], known, row

    def read(self, rows: Sequence[int], states: Mapping[int, Tensor]) -> Float[np.ndarray, "row kept"]:
        """See `Target.read`: right answers."""
        with torch.no_grad():
            logits, gold, owner = self._logits(rows, states)
        right = (logits.argmax(1) == gold).cpu().numpy()
        return np.bincount(owner.cpu().numpy(), right, len(rows))[:, None]

    def score(self, values: Float[np.ndarray, "row kept"]) -> TargetScores:
        """See `Target.score`."""
        return TargetScores(values[:, 0].copy(), self._counts)

    def loss(self, rows: Sequence[int], states: Mapping[int, Tensor]) -> Float[Tensor, " row"]:
        """See `Target.loss`: cross-entropy, the mean over the row's labels that the head knows."""
        logits, gold, owner = self._logits(rows, states)
        losses = cross_entropy(logits, gold, ignore_index=IGNORED, reduction="none")
        sums = torch.zeros(len(rows), device=logits.device).index_add(0, owner, losses)
        known = torch.bincount(owner[gold != IGNORED], minlength=len(rows))
        return sums / known.clamp_min(1)

    def of(self, encoder: HuggingFaceEncoder) -> Target:
        """See `Target.of`."""
        twin = copy.copy(self)
        twin._head = self._head.on(encoder, self._seed)
        return twin


class TagsTarget(_LabelsTarget):
    """The share of words whose tag is right.

    A word is read at its last token by models that lamina fine-tuned, and at its first by all others, as is usual.
    Words that are cut off are errors, as are words whose label the head does not have.
    """

    name = TAGS

    def __init__(self, head: HeadOnStates, texts: Sequence[Text], annotation: str, *, seed: int = 0) -> None:
        super().__init__(head, seed)
        training = HeadTraining.of(head.encoder)
        objective = TagObjective(head.encoder.word_tokenizer, training.length, annotation, head.labels)
        number = {label: token for token, label in enumerate(head.labels)}
        pieces = first_tokens if training.task is None else last_tokens
        tagged, rows, gold, places, counts = [], [], [], [], []
        unknown = 0
        for text in texts:
            labels = word_labels(text, annotation) if annotation in text.edges else []
            if not any(label is not None for label in labels):
                continue
            row = objective.cut(len(tagged), text)
            there = [token for token in pieces(row.words) if labels[row.words[token]] is not None]
            gold.append(np.array([number.get(labels[row.words[token]] or "", IGNORED) for token in there], np.int64))
            places.append(np.array(there, np.int64))
            counts.append(sum(label is not None for label in labels))
            unknown += sum(label is not None and label not in number for label in labels)
            rows.append(as_row(row))
            tagged.append(text)
        if not tagged:
            raise CorpusError(f"{TAGS}: none of the texts has a label of {annotation}")
        self.rows = rows
        self._ask(tagged, gold, places)
        self._counts = np.array(counts, float)
        self.skipped = +Counter({f"texts without {annotation}": len(texts) - len(tagged), UNSEEN: unknown})
        self.skipped.update(objective.noted)
        given = Counter(label for text in tagged for label in word_labels(text, annotation) if label is not None)
        self.chance = max(given.values()) / given.total()


class ClassesTarget(_LabelsTarget):
    """The share of texts, or of questions about a story, whose class is right."""

    name = CLASSES_OF_TEXTS

    def __init__(self, head: HeadOnStates, items: Sequence[Item], *, seed: int = 0) -> None:
        super().__init__(head, seed)
        objective = ClassObjective(head.encoder.word_tokenizer, HeadTraining.of(head.encoder).length, head.labels)
        classified = [item for item in items if class_or_none(item) is not None]
        if not classified:
            raise CorpusError(f"{CLASSES_OF_TEXTS}: none of the texts has a class")
        rows = [row for index, item in enumerate(classified) for row in objective.rows(index, item)]
        self.rows = [as_row(row) for row in rows]
        texts = [text_of(item) for item in classified]
        self._ask(texts, [np.array([row.labels]) for row in rows], [np.zeros(1, np.int64)] * len(classified))
        self._counts = np.ones(len(classified))
        unknown = sum(row.labels == IGNORED for row in rows)
        self.skipped = +Counter({"texts without a class": len(items) - len(classified), UNSEEN: unknown})
        self.skipped.update(objective.noted)
        self.chance = max(Counter(map(class_of, classified)).values()) / len(classified)


def first_tokens(words: np.ndarray) -> list[int]:
    """The first token of every word.

    Example:
        >>> first_tokens(np.array([-1, 0, 1, 1, 2, -1]))
        [1, 2, 4]
    """
    before = np.append(SPECIAL, words[:-1])
    return [int(token) for token in np.flatnonzero((words != SPECIAL) & (words != before))]


def tagged_as(encoder: HuggingFaceEncoder, labels: Sequence[str], corpus: Corpus) -> str:
    """The annotation of a corpus that a head for tags was trained for: the task's own, or else that with its labels."""
    training = HeadTraining.of(encoder)
    if training.window is not None:
        raise ModelError(
            f"{TAGS}: {encoder.name} was fine-tuned with attention to {training.window} words on either side, and is "
            "asked here with all of its attention, which would be another model; fine-tune one without "
            "--attention-window"
        )
    learned = LEARNED.get(training.task or "")
    annotations = [name for name in corpus.annotations if name != "sentence"]
    candidates = [learned] if learned in annotations else annotations
    shares = {name: _share_known(islice(iter(corpus), _CHECKED_TEXTS), name, set(labels)) for name in candidates}
    best = max(shares, key=lambda name: shares[name], default=None)
    if best is None or shares[best] < _AGREE:
        raise TaskError(
            f"{TAGS}: {corpus.name} has no annotation with the labels of the head of {encoder.name} "
            f"({_some(labels)}); it has {', '.join(annotations) or 'none'}; name a corpus with these labels"
        )
    return best


def refuse_other_classes(
    encoder: HuggingFaceEncoder, labels: Sequence[str], corpus: Corpus, items: Iterable[Item]
) -> None:
    """Raise a TaskError where the texts or questions of a corpus have no class that the head of a model has."""
    given = [name for item in islice(items, _CHECKED_TEXTS) if (name := class_or_none(item)) is not None]
    if set(labels).isdisjoint(given):
        classes = _some(sorted(set(given))) or f"none (annotations: {', '.join(corpus.annotations) or 'none'})"
        raise TaskError(
            f"{CLASSES_OF_TEXTS}: the head of {encoder.name} tells {_some(labels)}; classes in {corpus.name}: {classes}"
            "; name the corpus it was fine-tuned for"
        )


def unseen_texts(encoder: HuggingFaceEncoder, corpus: Corpus) -> tuple[list[Text], int]:
    """Texts that the model was not fine-tuned on, and how many it was; a CorpusError where it was on all of them."""
    used = HeadTraining.of(encoder).used
    every = list(corpus)
    unseen = [text for text in every if not is_among(text, used)] if used else every
    if not unseen:
        raise CorpusError(
            f"{encoder.name} was fine-tuned on every text of {corpus.name} ({corpus.split}), or chosen by it; name "
            "texts it has not seen, for example with --split test"
        )
    return unseen, len(every) - len(unseen)


def _share_known(texts: Iterable[Text], annotation: str, labels: set[str]) -> float:
    """The share of an annotation's labels that a head has; 0 where they are not labels of words."""
    given: list[str] = []
    for text in texts:
        edges = text.edges.get(annotation, ())
        if annotation != "ner" and any(len(edge.span) > 1 or edge.other is not None for edge in edges):
            return 0.0
        if edges:
            given += [label for label in word_labels(text, annotation) if label is not None]
    return sum(label in labels for label in given) / len(given) if given else 0.0


def class_or_none(item: Item) -> str | None:
    """The class of a text, or the answer to a question; None where it has none.

    Example:
        >>> class_or_none(Text("s1", ("Who", "?"))) is None
        True
    """
    if isinstance(item, Question):
        return item.answers[0] if item.answers else None
    return class_of(item) if any(item.edges.get(name) for name in CLASSES) else None


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:5]) + (", ..." if len(names) > 5 else "")
