"""What a probe reads from a layer, and which word it links another to, while parts of the model are changed.

Links are attachment and antecedents. One run gives the share of links found of every relation, since the same states
tell all of them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy

from lamina.corpora.splits import Splits, divide, thin
from lamina.errors import CorpusError, TaskError
from lamina.models.running.huggingface import HuggingFaceEncoder
from lamina.probes import parsers as linking
from lamina.probes.edge import EdgeProbes, LayerCut, SavedEdgeProbes
from lamina.probes.linear import LabelledVectors, SoftmaxProbe, fit_softmax
from lamina.probes.streams import SpanBounds, Spans, SpanTokens, Standard, find_targets
from lamina.stats.units import unit_of
from lamina.targets.target import Target, TargetScores, link_name, probe_name
from lamina.tasks import Task, label_set
from lamina.types import Text

# Probes that read the states of a layer while parts below it are changed: linear ones, and those that were saved.

TRAINING_TEXTS = 1000
"""Training texts that a linear probe learns from, about, in whole documents ..."""
_TARGETS = 10_000
"""... and the most targets in them."""
_CELLS = 2**22
"""Targets times tokens of what is pooled at a time on a GPU."""


class BatchSpans(NamedTuple):
    """Targets in a batch of rows."""

    row: Int[np.ndarray, " target"]
    """The row, counted within the batch."""
    tokens: Int[np.ndarray, "target span 2"]
    """First token and one past the last of each span, within the row."""


class ProbeReader(ABC):
    """A trained probe."""

    labels: tuple[str, ...]
    layers: tuple[int, ...]
    """Layers that it reads."""

    seeds: int = 1
    """As how many probes it was trained, which are asked one by one; scores are their mean."""

    @abstractmethod
    def logits(
        self, states: Mapping[int, Float[Tensor, "row token width"]], spans: BatchSpans
    ) -> Float[Tensor, "seed target label"]:
        """What it makes of some targets: the highest is its answer; gradients go through it."""

    @abstractmethod
    def losses(
        self, logits: Float[Tensor, "seed target label"], gold: Float[Tensor, "target label"]
    ) -> Float[Tensor, " target"]:
        """What it was trained to lower, for each target; the mean over seeds."""


class LinearReader(ProbeReader):
    """Softmax regression on the mean of a span's states at one layer; of a pair, on those of both side by side."""

    def __init__(self, probe: SoftmaxProbe, labels: tuple[str, ...], layer: int) -> None:
        self.labels, self.layers = labels, (layer,)
        self.probe = probe
        self._on_device: dict[torch.device, tuple[Tensor, ...]] = {}

    def logits(
        self, states: Mapping[int, Float[Tensor, "row token width"]], spans: BatchSpans
    ) -> Float[Tensor, "seed target label"]:
        """See `Reader.logits`."""
        vectors = span_means(states[self.layers[0]].float(), spans)
        if vectors.device not in self._on_device:
            given = (self.probe.weights, self.probe.bias, self.probe.middle, self.probe.spread)
            self._on_device[vectors.device] = tuple(
                torch.from_numpy(numbers).float().to(vectors.device) for numbers in given
            )
        weights, bias, middle, spread = self._on_device[vectors.device]
        return (((vectors - middle) / spread) @ weights + bias)[None]

    def losses(
        self, logits: Float[Tensor, "seed target label"], gold: Float[Tensor, "target label"]
    ) -> Float[Tensor, " target"]:
        """See `Reader.losses`: cross-entropy; 0 for a label that training has not."""
        return cross_entropy(logits[0], gold, reduction="none")


class SavedReader(ProbeReader):
    """Probes that `lamina probe` saved: of one layer, or of a mix of layers 0..l."""

    def __init__(self, saved: Sequence[SavedEdgeProbes], cut: LayerCut) -> None:
        self.labels = saved[0].labels
        self.layers = (cut.layer,) if cut.probe == "layer" else tuple(range(cut.layer + 1))
        members = [(trained, trained.probes.cuts.index(cut)) for trained in saved if cut in trained.probes.cuts]
        self.seeds = len(members)
        self._probes = [_alone(trained.probes, member, len(self.layers)) for trained, member in members]
        self._standards = [
            None if trained.standard is None else Standard(*(part[list(self.layers)] for part in trained.standard))
            for trained, _ in members
        ]

    def logits(
        self, states: Mapping[int, Float[Tensor, "row token width"]], spans: BatchSpans
    ) -> Float[Tensor, "seed target label"]:
        """See `Reader.logits`."""
        stacked = torch.stack([states[layer].float() for layer in self.layers])
        return torch.cat([self._some(stacked, some) for some in _few(spans, stacked)], 1)

    def _some(self, stacked: Float[Tensor, "layer row token width"], batch: BatchSpans) -> Tensor:
        first, last = int(batch.row[0]), int(batch.row[-1])
        size = stacked.shape[2]
        flat = stacked[:, first : last + 1].flatten(1, 2)
        spans = spans_of(batch.tokens + size * (batch.row - first)[:, None, None], flat.device)
        logits = []
        for probes, standard in zip(self._probes, self._standards, strict=True):
            seen = flat if standard is None else standard.of(flat)
            logits.append(probes.to(flat.device).logits(seen, spans)[0])
        return torch.stack(logits)

    def losses(
        self, logits: Float[Tensor, "seed target label"], gold: Float[Tensor, "target label"]
    ) -> Float[Tensor, " target"]:
        """See `Reader.losses`: each label is a decision of its own."""
        return binary_cross_entropy_with_logits(logits, gold.expand_as(logits), reduction="none").mean((0, 2))


def span_means(states: Float[Tensor, "row token width"], spans: BatchSpans) -> Float[Tensor, "target features"]:
    """The mean state of each span; those of a pair side by side.

    Example:
        >>> states = torch.arange(6.0).reshape(1, 6, 1)
        >>> span_means(states, BatchSpans(np.array([0]), np.array([[[1, 2], [3, 6]]]))).tolist()
        [[1.0, 4.0]]
    """
    row = torch.from_numpy(spans.row).to(states.device)
    sides = []
    for side in range(spans.tokens.shape[1]):
        sizes = spans.tokens[:, side, 1] - spans.tokens[:, side, 0]
        target, token = _pairs(spans.tokens[:, side], sizes)
        target, token, counts = (torch.from_numpy(numbers).to(states.device) for numbers in (target, token, sizes))
        picked = states[row[target], token]
        if len(picked) > len(sizes):
            sums = torch.zeros(len(sizes), states.shape[-1], dtype=states.dtype, device=states.device)
            picked = sums.index_add(0, target, picked) / counts[:, None]
        sides.append(picked)
    return torch.cat(sides, 1)


def linear_readers(
    encoder: HuggingFaceEncoder, tasks: Sequence[tuple[Task, int]], splits: Splits, seed: int
) -> list[LinearReader]:
    """A linear probe for each task and layer, trained on some of the training texts, which are encoded once.

    The penalty is chosen on documents of their own; texts that are scored are never learned from.
    """
    train = thin(splits.train, TRAINING_TEXTS, seed)
    division = divide(Splits(train, splits.scored), seed=seed)
    chosen, learning = {*division.learn, *division.stop}, set(division.learn)
    numbered = [(number, text) for number, text in enumerate(train) if number in chosen]
    texts = [text for _, text in numbered]
    learned = [text for number, text in numbered if number in learning]
    tokens = encoder.tokenize_all(texts)
    labels = {task.name: label_set(task, learned) for task, _ in tasks}
    targets_of = {task.name: find_targets(task, texts, tokens, labels[task.name]) for task, _ in tasks}
    vectors_of: dict[tuple[str, int], list[np.ndarray]] = {(task.name, layer): [] for task, layer in tasks}
    for index, encoded in enumerate(encoder.encode(texts)):
        for (name, layer), vectors in vectors_of.items():
            in_text = targets_of[name].text == index
            if in_text.any() and encoded.states is not None:
                places = BatchSpans(np.zeros(int(in_text.sum()), np.int64), targets_of[name].tokens[in_text])
                vectors.append(span_means(encoded.states[None, :, layer].float(), places).numpy())
    is_learning = np.array([number in learning for number, _ in numbered], bool)
    readers = []
    for task, layer in tasks:
        targets, vectors = targets_of[task.name], vectors_of[task.name, layer]
        known = targets.gold.sum(1) == 1
        learn, select = (np.flatnonzero(known & (is_learning[targets.text] == which)) for which in (True, False))
        if not len(learn) or not len(select):
            raise TaskError(
                f"{task.name}: the training texts of {splits.name} have too few targets for a probe to learn"
            )
        if len(learn) > _TARGETS:
            learn = np.sort(np.random.default_rng(seed).choice(learn, _TARGETS, replace=False))
        every, gold = np.concatenate(vectors), targets.gold.argmax(1)
        learned_from, selected_by = (LabelledVectors(every[some], gold[some]) for some in (learn, select))
        probe = fit_softmax(learned_from, selected_by, len(labels[task.name]), encoder.device)
        if not probe.converged:
            raise TaskError(f"{task.name}: a linear probe at layer {layer} of {encoder.name} did not converge")
        readers.append(LinearReader(probe, labels[task.name], layer))
    return readers


def _alone(probes: EdgeProbes, member: int, layers: int) -> EdgeProbes:
    """One member, which is given no other layers than those it reads."""
    mixes = probes.cuts[member].probe == "cumulative"
    alone = EdgeProbes(
        [LayerCut("cumulative", layers - 1) if mixes else LayerCut("layer", 0)],
        layers=layers,
        width=probes.project.shape[1],
        labels=probes.outer.shape[-1],
        arity=probes.arity,
        seed=probes.seed_of[member],
        hidden=probes.hidden,
    )
    with torch.no_grad():
        for (name, mine), whole in zip(alone.named_parameters(), probes.parameters(), strict=True):
            if name in ("mix", "gamma") and not mixes:
                continue
            mine.copy_(whole[member : member + 1, :layers] if name == "mix" else whole[member : member + 1])
    return alone.requires_grad_(False)


def _few(spans: BatchSpans, stacked: Float[Tensor, "layer row token width"]) -> list[BatchSpans]:
    """Targets in batches: all on a CPU; on a GPU, rows are grouped so that targets times tokens stay bounded."""
    if stacked.device.type == "cpu" or not len(spans.row):
        return [spans]
    most = max(1, int((_CELLS / (stacked.shape[2] * max(1, len(spans.row) / stacked.shape[1]))) ** 0.5))
    cuts = np.searchsorted(spans.row, np.arange(most, stacked.shape[1], most))
    parts = zip(np.split(spans.row, cuts), np.split(spans.tokens, cuts), strict=True)
    return [BatchSpans(row, tokens) for row, tokens in parts if len(row)]


def spans_of(bounds: Int[np.ndarray, "target span 2"], device: torch.device) -> Spans:
    """First token and one past the last of each span, as edge probes pool them on a device."""
    sides = [bounds[:, side] for side in range(bounds.shape[1])]
    if device.type != "cpu":
        return tuple(SpanBounds(torch.from_numpy(bounds_of_side).to(device)) for bounds_of_side in sides)
    tokens = []
    for bounds_of_side in sides:
        sizes = bounds_of_side[:, 1] - bounds_of_side[:, 0]
        target, token = (torch.from_numpy(part) for part in _pairs(bounds_of_side, sizes))
        tokens.append(SpanTokens(target, token, torch.from_numpy(sizes), bool((sizes == 1).all())))
    return tuple(tokens)


def _pairs(bounds: Int[np.ndarray, "target 2"], sizes: Int[np.ndarray, " target"]) -> tuple[np.ndarray, np.ndarray]:
    """(target, token) for every token of every span."""
    target = np.repeat(np.arange(len(bounds)), sizes)
    within = np.arange(len(target)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return target, bounds[target, 0] + within


TOO_LONG = "texts longer than the model's limit"


class ProbeTarget(Target):
    """The share of targets of a task about which a probe's highest answer is right; an item is a text.

    Probes of several seeds are asked one by one, and right answers are averaged, as `lamina probe` does.
    """

    def __init__(
        self,
        encoder: HuggingFaceEncoder,
        task: Task,
        reader: ProbeReader,
        texts: Sequence[Text],
        *,
        splits: Splits | None = None,
        seed: int = 0,
    ) -> None:
        """`splits` has the texts that a probe of the twin learns from."""
        self.reader, self.task = reader, task
        self.layers, self.name = reader.layers, probe_name(task.name, reader.layers[-1])
        self._splits, self._texts, self._seed = splits, texts, seed
        with_targets = [text for text in texts if task.targets(text)]
        cuts = encoder.word_tokenizer.cut(with_targets)
        fits = [index for index, cut in enumerate(cuts) if len(cut.tokens.ids) <= encoder.limit]
        readable = [with_targets[index] for index in fits]
        if not readable:
            raise CorpusError(
                f"{self.name}: none of the texts has a target of {task.name} that {encoder.name} can read"
            )
        self._targets = find_targets(task, readable, [cuts[index].tokens for index in fits], reader.labels)
        if not self._targets.single_label:
            raise TaskError(
                f"{self.name}: targets of {task.name} have several labels or a value instead of one label, so there is "
                "no highest answer to score; name a task such as pos, ner or dep"
            )
        self.rows = [encoder.rows(index, cuts[number])[0] for index, number in enumerate(fits)]
        self.owners = np.arange(len(readable))
        unit = unit_of(readable)
        self.items, self.units = tuple(text.id for text in readable), tuple(unit.of(text) for text in readable)
        self.skipped = +Counter(
            {
                f"texts without a target of {task.name}": len(texts) - len(with_targets),
                TOO_LONG: len(with_targets) - len(readable),
                "labels unseen in training (scored as errors)": int(self._targets.unseen.sum()),
            }
        )
        self._bounds = np.searchsorted(self._targets.text, np.arange(len(readable) + 1))
        self._counts = np.diff(self._bounds).astype(float)
        self.chance = _most_frequent(self._targets.gold, self._targets.unseen)

    def read(self, rows: Sequence[int], states: Mapping[int, Tensor]) -> Float[np.ndarray, "row kept"]:
        """See `Target.read`: targets of the row about which the probe is right."""
        spans, numbers = self._spans_of(rows)
        with torch.no_grad():
            answers = self.reader.logits(states, spans).argmax(-1).cpu().numpy()
        right = self._targets.gold[numbers, answers].mean(0)
        return np.bincount(spans.row, right, len(rows))[:, None]

    def score(self, values: Float[np.ndarray, "row kept"]) -> TargetScores:
        """See `Target.score`."""
        return TargetScores(values[:, 0].copy(), self._counts)

    def loss(self, rows: Sequence[int], states: Mapping[int, Tensor]) -> Float[Tensor, " row"]:
        """See `Target.loss`: the probe's own, the mean over the row's targets."""
        spans, numbers = self._spans_of(rows)
        logits = self.reader.logits(states, spans)
        gold = torch.from_numpy(self._targets.gold[numbers]).to(logits)
        where = torch.from_numpy(spans.row).to(logits.device)
        sums = torch.zeros(len(rows), device=logits.device).index_add(0, where, self.reader.losses(logits, gold))
        return sums / torch.from_numpy(self._counts[list(rows)]).to(sums)

    def of(self, encoder: HuggingFaceEncoder) -> ProbeTarget:
        """See `Target.of`: a linear probe of its own, trained on the other encoder's states."""
        if self._splits is None:
            raise CorpusError(
                f"{self.name}: there are no training texts for a probe of the twin; name a corpus that has some, or do "
                "without the twin (--no-twin)"
            )
        (reader,) = linear_readers(encoder, [(self.task, self.layers[-1])], self._splits, self._seed)
        return ProbeTarget(encoder, self.task, reader, self._texts, splits=self._splits, seed=self._seed)

    def _spans_of(self, rows: Sequence[int]) -> tuple[BatchSpans, np.ndarray]:
        """The targets of some rows, and their numbers."""
        numbers = np.concatenate([np.arange(self._bounds[row], self._bounds[row + 1]) for row in rows])
        counts = [int(self._counts[row]) for row in rows]
        return BatchSpans(np.repeat(np.arange(len(rows)), counts), self._targets.tokens[numbers]), numbers


def _most_frequent(gold: np.ndarray, unseen: np.ndarray) -> float:
    """What always answering the most frequent label of these targets scores."""
    return float(np.concatenate([gold, unseen], 1).sum(0).max() / len(gold))


ALL_LINKS = "all"
BESIDES = "all but "
"""Before a relation: all others together."""


class WordLink(NamedTuple):
    """A word, and those it belongs to."""

    word: int
    right: frozenset[int]
    relation: str


LinksOf = Callable[[Text], Sequence[WordLink]]


class LinksTarget(Target):
    """The share of links that a probe finds at one layer, in all and by relation; an item is a text."""

    def __init__(
        self,
        encoder: HuggingFaceEncoder,
        links_of: LinksOf,
        layer: int,
        texts: Sequence[Text],
        splits: Splits,
        *,
        seed: int = 0,
    ) -> None:
        """The probe learns from the training texts; `texts` are asked about."""
        self._given = (links_of, layer, texts, splits)
        self._seed, self._layer = seed, layer
        self.layers, self.name = (layer,), link_name(ALL_LINKS, layer)
        linked = [text for text in texts if links_of(text)]
        cuts = encoder.word_tokenizer.cut(linked)
        fits = [index for index, cut in enumerate(cuts) if len(cut.tokens.ids) <= encoder.limit]
        readable = [linked[index] for index in fits]
        if not readable:
            raise CorpusError(f"{self.name}: none of the texts has a link that {encoder.name} can read")
        self.rows = [encoder.rows(index, cuts[number])[0] for index, number in enumerate(fits)]
        self.owners = np.arange(len(readable))
        unit = unit_of(readable)
        self.items, self.units = tuple(text.id for text in readable), tuple(unit.of(text) for text in readable)
        self.skipped = +Counter(
            {"texts without a link": len(texts) - len(linked), TOO_LONG: len(linked) - len(readable)}
        )
        self._links = [list(links_of(text)) for text in readable]
        counted = Counter(link.relation for links in self._links for link in links)
        self.relations = tuple(relation for relation, _ in counted.most_common())
        if len(self.relations) == 1:
            self.name = link_name(self.relations[0], layer)
        self.counts = {**counted, ALL_LINKS: counted.total()}
        self._numbers = {relation: index for index, relation in enumerate(self.relations)}
        self._totals = np.zeros((len(readable), len(self.relations)))
        for index, links in enumerate(self._links):
            for link in links:
                self._totals[index, self._numbers[link.relation]] += 1
        self.probe = _trained(encoder, links_of, layer, splits, seed)

    def read(self, rows: Sequence[int], states: Mapping[int, Tensor]) -> Float[np.ndarray, "row kept"]:
        """See `Target.read`: links found, of each relation."""
        with torch.no_grad():
            answers = self._logits(rows, states).argmax(-1).cpu().numpy()
        right = np.zeros((len(rows), len(self.relations)))
        for index, row in enumerate(rows):
            for link in self._links[row]:
                right[index, self._numbers[link.relation]] += int(answers[index, link.word]) in link.right
        return right

    def score(self, values: Float[np.ndarray, "row kept"]) -> TargetScores:
        """See `Target.score`: of all links."""
        return self.scores(values, ALL_LINKS)

    def scores(self, values: Float[np.ndarray, "row kept"], relation: str) -> TargetScores:
        """Of the links of one relation, of all, or of all but one."""
        if relation == ALL_LINKS:
            chosen = np.ones(len(self.relations), bool)
        else:
            one = np.arange(len(self.relations)) == self._numbers[relation.removeprefix(BESIDES)]
            chosen = ~one if relation.startswith(BESIDES) else one
        return TargetScores(values[:, chosen].sum(1), self._totals[:, chosen].sum(1))

    def loss(self, rows: Sequence[int], states: Mapping[int, Tensor]) -> Float[Tensor, " row"]:
        """See `Target.loss`: the probe's own, the mean over the row's links."""
        logits = self._logits(rows, states).log_softmax(-1)
        losses = []
        for index, row in enumerate(rows):
            by_link = [-logits[index, link.word, list(link.right)].logsumexp(0) for link in self._links[row]]
            losses.append(torch.stack(by_link).mean())
        return torch.stack(losses)

    def of(self, encoder: HuggingFaceEncoder) -> LinksTarget:
        """See `Target.of`: with a probe of its own, trained on the other encoder's states."""
        return LinksTarget(encoder, *self._given, seed=self._seed)

    def _logits(self, rows: Sequence[int], states: Mapping[int, Tensor]) -> Float[Tensor, "row word word"]:
        vectors, words = word_means(states[self._layer], [self.rows[row].words for row in rows])
        return self.probe.logits(vectors, words)


def word_means(
    states: Float[Tensor, "row token width"], words: Sequence[Int[np.ndarray, " token"]]
) -> tuple[Float[Tensor, "row word width"], Bool[Tensor, "row word"]]:
    """The mean state of every word's tokens, and which words there are; special tokens belong to none.

    Example:
        >>> means, there = word_means(torch.arange(4.0).reshape(1, 4, 1), [np.array([-1, 0, 0, 1])])
        >>> means.flatten().tolist(), there.tolist()
        ([1.5, 3.0], [[True, True]])
    """
    longest = max(int(numbers.max()) + 1 for numbers in words)
    owner = np.full(states.shape[:2], longest)
    for row, numbers in enumerate(words):
        owner[row, : len(numbers)] = np.where(numbers >= 0, numbers, longest)
    into = torch.from_numpy(owner).to(states.device)
    sums = states.new_zeros(len(words), longest + 1, states.shape[-1], dtype=torch.float32)
    sums = sums.scatter_add(1, into[..., None].expand_as(states), states.float())[:, :longest]
    pieces = torch.zeros(len(words), longest + 1, device=states.device)
    pieces = pieces.scatter_add(1, into, torch.ones_like(into, dtype=torch.float32))[:, :longest]
    return sums / pieces.clamp(min=1)[..., None], pieces > 0


def _trained(
    encoder: HuggingFaceEncoder, links_of: LinksOf, layer: int, splits: Splits, seed: int
) -> linking.LinkingProbe:
    """A probe trained on some of the training texts; texts that are scored are never learned from."""
    train = thin(splits.train, TRAINING_TEXTS, seed)
    division = divide(Splits(train, splits.scored), seed=seed)
    learning = set(division.learn)
    chosen = {*division.learn, *division.stop}
    numbered = [(number, text) for number, text in enumerate(train) if number in chosen and links_of(text)]
    parts: dict[bool, list[linking.LinkedText]] = {True: [], False: []}
    for (number, _), vectors in zip(
        numbered, _vectors(encoder, [text for _, text in numbered], links_of, layer), strict=True
    ):
        parts[number in learning].append(vectors)
    if not parts[True] or not parts[False]:
        raise TaskError(f"the training texts of {splits.name} have too few links for a probe to learn")
    probe = linking.train_linking_probe(parts[True], parts[False], seed=seed, device=encoder.device)
    if not probe.converged:
        raise TaskError(f"a probe of links at layer {layer} of {encoder.name} did not converge")
    return probe


def _vectors(
    encoder: HuggingFaceEncoder, texts: Sequence[Text], links_of: LinksOf, layer: int
) -> Iterable[linking.LinkedText]:
    tokens = encoder.tokenize_all(texts)
    for text, cut, encoded in zip(texts, tokens, encoder.encode(texts), strict=True):
        if encoded.states is not None:
            vectors, _ = word_means(encoded.states[None, :, layer].float(), [cut.words])
            links = tuple((link.word, link.right) for link in links_of(text))
            yield linking.LinkedText(vectors[0].cpu().numpy(), links)
