"""Words with annotated senses, in training and in scored texts; and static vectors of their contexts."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Bool, Float, Int

from lamina.activations import ReadActivations
from lamina.activations.reading import sum_rows
from lamina.corpora import Corpus, Splits
from lamina.corpora.corpus import fingerprint_of, origins
from lamina.corpora.splits import thin
from lamina.errors import AssetError, CorpusError, InputError
from lamina.models import SPECIAL, Encoder, load_encoder
from lamina.models.running.huggingface import HuggingFaceEncoder
from lamina.models.static import train_skipgram
from lamina.stats.units import unit_of
from lamina.types import Edge, Span, Text

NAMED = ("sense", "senses", "sclass", "supersense", "wsd")
"""Default annotations: the first one in the corpus; after these, any whose name contains `sense`."""
_OF_WORD = "%"
"""In a label: before it the word, after it one of its senses (`mole%mole_(animal)`)."""

SCORED_TOO = "training texts that are also scored, left out"
TUNED = "texts that the model was fine-tuned on, left out"
NO_SENSE = "annotated words without any sense, left out"


def annotations_of(corpora: Sequence[Corpus], wanted: Collection[str] | None) -> tuple[str, ...]:
    """The annotations that have the senses; a CorpusError in words where there are none.

    Example:
        >>> from lamina.corpora import corpus_from
        >>> annotations_of([corpus_from([(["A", "mole"], {"supersense": [None, "animal"]})])], None)
        ('supersense',)
    """
    there = tuple(dict.fromkeys(name for corpus in corpora for name in corpus.annotations))
    names = tuple(dict.fromkeys(wanted or ()))
    if not names:
        names = tuple(name for name in NAMED if name in there)[:1] or tuple(
            name for name in there if "sense" in name.lower()
        )[:1]  # fmt: skip
    lacking = [name for name in names if name not in there]
    if not names or lacking:
        what = f"no annotation {' or '.join(map(repr, lacking))}" if lacking else "no senses or supersenses of words"
        raise CorpusError(
            f"{corpora[-1].name} has {what}; it has: {', '.join(there) or 'none'}. Name the annotation that has them "
            "with --annotation, or a corpus that has some: ewt, streusle, uds_wordsense_factuality, masc_senses, "
            "coarse_wsd_20"
        )
    return names


@dataclass(frozen=True, eq=False)
class SenseTargets:
    """Occurrences of words with their senses, in the order of their texts: training texts first, then scored ones.

    A word is the part of its label before `%`, or otherwise the annotated words as written, lower-cased. An occurrence
    may have several senses at once.
    """

    corpus: Corpus
    """The texts that have a target."""
    texts: tuple[Text, ...]
    labels: tuple[str, ...]
    words: tuple[str, ...]
    text: Int[np.ndarray, " target"]
    spans: Int[np.ndarray, "target 2"]
    word: Int[np.ndarray, " target"]
    gold: Bool[np.ndarray, "target label"]
    train: Bool[np.ndarray, " target"]
    annotations: tuple[str, ...]
    own_labels: bool
    """Whether every sense belongs to one word, so that other words cannot predict it."""
    skipped: Counter[str]

    @cached_property
    def units(self) -> tuple[str, ...]:
        """[text] What is resampled: its document, or the text itself where there is only one document."""
        scored = {int(number) for number in self.text[~self.train]}
        unit = unit_of(self.texts[number] for number in sorted(scored))
        return tuple(unit.of(text) for text in self.texts)

    @cached_property
    def votes(self) -> Float[np.ndarray, "target label"]:
        """What each occurrence counts for its senses: 1 together."""
        gold = self.gold.astype(np.float32)
        return gold / gold.sum(1, keepdims=True)

    @cached_property
    def frequency(self) -> Float[np.ndarray, "word label"]:
        """How often each word has each sense in training."""
        counts = np.zeros((len(self.words), len(self.labels)), np.float32)
        np.add.at(counts, self.word[self.train], self.votes[self.train])
        return counts

    @cached_property
    def known(self) -> Int[np.ndarray, " word"]:
        """How many senses each word has in training; 0 for words that are not there."""
        return (self.frequency > 0).sum(1)

    @cached_property
    def scored(self) -> Int[np.ndarray, " scored"]:
        """The targets that are scored."""
        return np.flatnonzero(~self.train)

    @cached_property
    def ambiguous(self) -> Bool[np.ndarray, " scored"]:
        """Whether a scored word has several senses in training, so that there is something to distinguish."""
        return self.known[self.word[self.scored]] > 1

    @cached_property
    def most_frequent(self) -> Int[np.ndarray, " word"]:
        """The most frequent sense of each word in training; of all words, where it has none there or two as often."""
        overall = self.frequency.sum(0)
        return (self.frequency + 1e-3 * overall / max(1.0, float(overall.max()))).argmax(1)

    def right(self, predicted: Int[np.ndarray, " scored"]) -> Bool[np.ndarray, " scored"]:
        """Whether predictions of scored targets are among their senses."""
        return self.gold[self.scored, predicted]

    def by_word(self) -> Iterator[tuple[int, Int[np.ndarray, " query"], Int[np.ndarray, " row"]]]:
        """Every ambiguous word that is scored: its scored and its training targets."""
        rows = grouped(self.word, np.flatnonzero(self.train))
        for word, queries in grouped(self.word, self.scored).items():
            if self.known[word] > 1:
                yield word, queries, rows[word]


def read_targets(
    splits: Splits,
    annotations: Collection[str] | None,
    *,
    most: int | None = None,
    used: frozenset[str] = frozenset(),
    seed: int = 0,
) -> SenseTargets:
    """Every annotated word of the training texts (about `most` of them) and of the scored texts.

    `used` are hashes of texts that the model was fine-tuned on; they are left out, and so are training texts that are
    scored too.
    """
    names = annotations_of((splits.train, splits.scored), annotations)
    skipped: Counter[str] = Counter()
    collected = _TargetCollector(names, skipped)
    scored = {origin for text in splits.scored for origin in origins(text)}
    for text in thin(splits.train, most, seed):
        if not scored.isdisjoint(origins(text)):
            skipped[SCORED_TOO] += 1
        elif used and not used.isdisjoint(origins(text)):
            skipped[TUNED] += 1
        else:
            collected.add(text, train=True)
    for text in splits.scored:
        if used and not used.isdisjoint(origins(text)):
            skipped[TUNED] += 1
        else:
            collected.add(text, train=False)
    targets = collected.targets(splits, most, seed)
    if not targets.train.any() or targets.train.all():
        side = "scored" if targets.train.any() else "training"
        raise CorpusError(
            f"{splits.name}: no {side} text has a sense ({', '.join(names)}); give more text, or another corpus"
        )
    if not targets.ambiguous.any():
        raise CorpusError(
            f"{splits.name}: no scored word has two senses in the training texts ({', '.join(names)}; "
            f"{len(targets.words):,} words), so there is nothing to distinguish; give more text, or another corpus"
        )
    return targets


class _TargetCollector:
    def __init__(self, names: tuple[str, ...], skipped: Counter[str]) -> None:
        self._names, self._skipped = names, skipped
        self._texts: list[Text] = []
        self._labels: dict[str, int] = {}
        self._words: dict[str, int] = {}
        self._targets: list[tuple[int, int, int, int, tuple[int, ...], bool]] = []

    def add(self, text: Text, *, train: bool) -> None:
        by_span: defaultdict[Span, list[Edge]] = defaultdict(list)
        for name in self._names:
            for edge in text.edges.get(name, ()):
                by_span[edge.span].append(edge)
        targets = []
        for span, edges in sorted(by_span.items(), key=lambda item: (item[0].start, item[0].end)):
            labels = tuple(dict.fromkeys(label for edge in edges for label in edge.labels))
            if not labels:
                self._skipped[NO_SENSE] += 1
                continue
            numbers = tuple(self._labels.setdefault(label, len(self._labels)) for label in labels)
            word = self._words.setdefault(_word(text, span, labels), len(self._words))
            targets.append((len(self._texts), span.start, span.end, word, numbers, train))
        if targets:
            self._texts.append(text)
            self._targets += targets

    def targets(self, splits: Splits, most: int | None, seed: int) -> SenseTargets:
        texts = tuple(self._texts)
        key = fingerprint_of("senses", splits.fingerprint, self._names, most, seed)
        corpus = replace(splits.scored, split="all", source=lambda: iter(texts), fingerprint=key, declared=None)
        gold = np.zeros((len(self._targets), len(self._labels)), bool)
        for row, target in enumerate(self._targets):
            gold[row, list(target[4])] = True
        numbers = np.array([target[:4] for target in self._targets], np.int64).reshape(-1, 4)
        labels, words = tuple(self._labels), tuple(self._words)
        return SenseTargets(
            corpus,
            texts,
            labels,
            words,
            numbers[:, 0],
            numbers[:, 1:3],
            numbers[:, 3],
            gold,
            np.array([target[5] for target in self._targets], bool),
            self._names,
            all(_OF_WORD in label for label in labels),
            self._skipped,
        )


def _word(text: Text, span: Span, labels: tuple[str, ...]) -> str:
    of_labels = {label.rpartition(_OF_WORD)[0] for label in labels}
    if len(of_labels) == 1 and (named := of_labels.pop()):
        return named.lower()
    return " ".join(text.words[span.start : span.end]).lower()


def grouped(word: np.ndarray, which: np.ndarray) -> dict[int, np.ndarray]:
    """Word -> those of `which` that are of it, in order."""
    order = which[np.argsort(word[which], kind="stable")]
    starts = np.flatnonzero(np.diff(word[order], prepend=-1))
    return {int(word[members[0]]): members for members in np.split(order, starts[1:]) if len(members)}


class SpanVectors:
    """The mean of the tokens of each span, of one layer of all texts at a time."""

    def __init__(self, stored: ReadActivations, text: Int[np.ndarray, " span"], spans: Int[np.ndarray, "span 2"]):
        by_text = grouped(text, np.arange(len(text)))
        rows, owners, start = [], [], 0
        for number, tokens in enumerate(stored.tokenized()):
            words = tokens.words
            for span in by_text.get(number, ()):
                tokens_of_span = np.flatnonzero((words >= spans[span, 0]) & (words < spans[span, 1]))
                rows.append(start + tokens_of_span)
                owners.append(np.full(len(tokens_of_span), span))
            start += len(words)
        device = "cpu" if stored.resident is None else stored.resident.device
        self._rows = torch.from_numpy(np.concatenate(rows)).to(device)
        self._owner = torch.from_numpy(np.concatenate(owners)).to(device)
        self._counts = torch.bincount(self._owner, minlength=len(text)).unsqueeze(1)

    def of(self, layer: Float[torch.Tensor, "token width"]) -> Float[torch.Tensor, "span width"]:
        """Vectors of length 1: everything here is about directions."""
        pieces = layer[self._rows].float()
        return torch.nn.functional.normalize(sum_rows(pieces, self._owner, len(self._counts)) / self._counts, dim=1)


# Static vectors to compare a model with: the words around a word, or its whole text, as the mean of their vectors.

SKIP_GRAM, INPUT = "skip-gram", "input"
"""Trained on the words of the texts; the model's own input embeddings, without positions."""
_WIDTH = 100
"""Of skip-gram: the texts are few."""
_WINDOW = re.compile(r"(.+)\.w(\d+)")


def static_encoders(
    encoder: Encoder, data: SenseTargets, names: Sequence[str], skipped: Counter[str], seed: int
) -> Iterator[tuple[str, Encoder]]:
    """Static vectors by their names in tables; those that are not on this machine are counted."""
    for name in dict.fromkeys(names):
        if name == SKIP_GRAM:
            yield name, train_skipgram(data.texts, width=_WIDTH, seed=seed)
        elif name == INPUT:
            if isinstance(encoder, HuggingFaceEncoder):
                yield name, encoder.lexical()
            else:
                skipped[f"{encoder.name} has no input embeddings to compare with"] += 1
        else:
            try:
                encoder_of_name = load_encoder(name)
            except AssetError:
                skipped[f"static vectors that are not on this machine ({name})"] += 1
                continue
            if encoder_of_name.blocks:
                raise InputError(
                    f"--vectors {name}: a model, not static vectors; name skip-gram, input, an asset as glove, or a "
                    ".txt, .vec or .bin file"
                )
            yield Path(name).stem, encoder_of_name


def bag_name(vectors: str, window: int | None) -> str:
    """What tables call a bag of words; without a window it is the whole text.

    Example:
        >>> bag_name("skip-gram", None), bag_name("skip-gram", 2)
        ('skip-gram', 'skip-gram.w2')
    """
    return vectors if window is None else f"{vectors}.w{window}"


def bag_of(name: str) -> tuple[str, int | None]:
    """The vectors of a bag, and its window.

    Example:
        >>> bag_of("skip-gram.w2"), bag_of("glove.6B")
        (('skip-gram', 2), ('glove.6B', None))
    """
    match = _WINDOW.fullmatch(name)
    return (match[1], int(match[2])) if match else (name, None)


def averaged_contexts(
    encoder: Encoder, data: SenseTargets, windows: Sequence[int], skipped: Counter[str]
) -> Iterator[tuple[int | None, Float[torch.Tensor, "target width"]]]:
    """The mean of the vectors of a target's text, and of the words in windows around it; of length 1.

    The target's words are in every bag: they are the same for all its occurrences.
    """
    sizes: tuple[int | None, ...] = (None, *dict.fromkeys(windows))
    by_text = grouped(data.text, np.arange(len(data.text)))
    means: list[torch.Tensor] = []
    order: list[int] = []
    unknown = 0
    for number, encoded in enumerate(encoder.encode(data.texts)):
        states = encoded.states if encoded.states is not None else torch.empty(0)
        inside = np.flatnonzero(encoded.tokens.words != SPECIAL)
        words = encoded.tokens.words[inside]
        vectors = states[torch.from_numpy(inside).to(states.device), 0].float()
        unknown += encoded.tokens.unknown
        targets = by_text.get(number, np.empty(0, int))
        order += targets.tolist()
        masks = np.stack([_within(words, data.spans[target], size) for target in targets for size in sizes])
        shares = torch.from_numpy(masks / masks.sum(1, keepdims=True)).to(vectors)
        means.append((shares @ vectors).unflatten(0, (len(targets), len(sizes))))
    skipped[f"words that {encoder.name} lacks, drawn from N(0, I)"] += unknown
    bags = torch.nn.functional.normalize(torch.cat(means), dim=2)
    place = torch.empty(len(order), dtype=torch.long)
    place[torch.tensor(order)] = torch.arange(len(order))
    for column, size in enumerate(sizes):
        yield size, bags[place.to(bags.device), column]


def _within(words: np.ndarray, span: np.ndarray, size: int | None) -> np.ndarray:
    """Which tokens are of words up to `size` from a span; of all words if there are none."""
    if size is None:
        return np.ones(len(words), bool)
    start, end = span.tolist()
    near = (words >= start - size) & (words < end + size)
    return near if near.any() else np.ones(len(words), bool)
