"""What a probe reads from a layer while parts below it are changed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy

from lamina.corpora.splits import Splits, divide, thin
from lamina.errors import CorpusError, TaskError
from lamina.models.running.huggingface import HuggingFaceEncoder
from lamina.probes.edge import EdgeProbes, LayerCut, SavedEdgeProbes
from lamina.probes.linear import LabelledVectors, SoftmaxProbe, fit_softmax
from lamina.probes.streams import SpanBounds, Spans, SpanTokens, Standard, find_targets
from lamina.stats.units import unit_of
from lamina.targets.target import Target, TargetScores, probe_name
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
        self, states: Mapping[int, Float[Tensor, "row token width"]], asked: BatchSpans
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
        self._held: dict[torch.device, tuple[Tensor, ...]] = {}

    def logits(
        self, states: Mapping[int, Float[Tensor, "row token width"]], asked: BatchSpans
    ) -> Float[Tensor, "seed target label"]:
        """See `Reader.logits`."""
        vectors = span_means(states[self.layers[0]].float(), asked)
        if vectors.device not in self._held:
            given = (self.probe.weights, self.probe.bias, self.probe.middle, self.probe.spread)
            self._held[vectors.device] = tuple(torch.from_numpy(each).float().to(vectors.device) for each in given)
        weights, bias, middle, spread = self._held[vectors.device]
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
        own = [(each, each.probes.cuts.index(cut)) for each in saved if cut in each.probes.cuts]
        self.seeds = len(own)
        self._probes = [_alone(each.probes, member, len(self.layers)) for each, member in own]
        self._standards = [
            None if each.standard is None else Standard(*(part[list(self.layers)] for part in each.standard))
            for each, _ in own
        ]

    def logits(
        self, states: Mapping[int, Float[Tensor, "row token width"]], asked: BatchSpans
    ) -> Float[Tensor, "seed target label"]:
        """See `Reader.logits`."""
        stacked = torch.stack([states[layer].float() for layer in self.layers])
        return torch.cat([self._some(stacked, some) for some in _few(asked, stacked)], 1)

    def _some(self, stacked: Float[Tensor, "layer row token width"], asked: BatchSpans) -> Tensor:
        first, last = int(asked.row[0]), int(asked.row[-1])
        size = stacked.shape[2]
        flat = stacked[:, first : last + 1].flatten(1, 2)
        spans = spans_of(asked.tokens + size * (asked.row - first)[:, None, None], flat.device)
        found = []
        for probes, standard in zip(self._probes, self._standards, strict=True):
            seen = flat if standard is None else standard.of(flat)
            found.append(probes.to(flat.device).logits(seen, spans)[0])
        return torch.stack(found)

    def losses(
        self, logits: Float[Tensor, "seed target label"], gold: Float[Tensor, "target label"]
    ) -> Float[Tensor, " target"]:
        """See `Reader.losses`: each label is a decision of its own."""
        return binary_cross_entropy_with_logits(logits, gold.expand_as(logits), reduction="none").mean((0, 2))


def span_means(states: Float[Tensor, "row token width"], asked: BatchSpans) -> Float[Tensor, "target features"]:
    """The mean state of each span; those of a pair side by side.

    Example:
        >>> states = torch.arange(6.0).reshape(1, 6, 1)
        >>> span_means(states, BatchSpans(np.array([0]), np.array([[[1, 2], [3, 6]]]))).tolist()
        [[1.0, 4.0]]
    """
    row = torch.from_numpy(asked.row).to(states.device)
    sides = []
    for side in range(asked.tokens.shape[1]):
        sizes = asked.tokens[:, side, 1] - asked.tokens[:, side, 0]
        target, token = _pairs(asked.tokens[:, side], sizes)
        target, token, counts = (torch.from_numpy(each).to(states.device) for each in (target, token, sizes))
        picked = states[row[target], token]
        if len(picked) > len(sizes):
            sums = torch.zeros(len(sizes), states.shape[-1], dtype=states.dtype, device=states.device)
            picked = sums.index_add(0, target, picked) / counts[:, None]
        sides.append(picked)
    return torch.cat(sides, 1)


def linear_readers(
    encoder: HuggingFaceEncoder, asked: Sequence[tuple[Task, int]], splits: Splits, seed: int
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
    labels = {task.name: label_set(task, learned) for task, _ in asked}
    found = {task.name: find_targets(task, texts, tokens, labels[task.name]) for task, _ in asked}
    held: dict[tuple[str, int], list[np.ndarray]] = {(task.name, layer): [] for task, layer in asked}
    for at, made in enumerate(encoder.encode(texts)):
        for (name, layer), vectors in held.items():
            own = found[name].text == at
            if own.any() and made.states is not None:
                places = BatchSpans(np.zeros(int(own.sum()), np.int64), found[name].tokens[own])
                vectors.append(span_means(made.states[None, :, layer].float(), places).numpy())
    made_of = np.array([number in learning for number, _ in numbered], bool)
    readers = []
    for task, layer in asked:
        targets, vectors = found[task.name], held[task.name, layer]
        known = targets.gold.sum(1) == 1
        learn, select = (np.flatnonzero(known & (made_of[targets.text] == which)) for which in (True, False))
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


def _few(asked: BatchSpans, stacked: Float[Tensor, "layer row token width"]) -> list[BatchSpans]:
    """All targets on a CPU; on a GPU those of so many rows that targets times tokens are few enough to pool at once."""
    if stacked.device.type == "cpu" or not len(asked.row):
        return [asked]
    most = max(1, int((_CELLS / (stacked.shape[2] * max(1, len(asked.row) / stacked.shape[1]))) ** 0.5))
    cuts = np.searchsorted(asked.row, np.arange(most, stacked.shape[1], most))
    parts = zip(np.split(asked.row, cuts), np.split(asked.tokens, cuts), strict=True)
    return [BatchSpans(row, tokens) for row, tokens in parts if len(row)]


def spans_of(bounds: Int[np.ndarray, "target span 2"], device: torch.device) -> Spans:
    """First token and one past the last of each span, as edge probes pool them on a device."""
    sides = [bounds[:, side] for side in range(bounds.shape[1])]
    if device.type != "cpu":
        return tuple(SpanBounds(torch.from_numpy(each).to(device)) for each in sides)
    made = []
    for each in sides:
        sizes = each[:, 1] - each[:, 0]
        target, token = (torch.from_numpy(part) for part in _pairs(each, sizes))
        made.append(SpanTokens(target, token, torch.from_numpy(sizes), bool((sizes == 1).all())))
    return tuple(made)


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
        asked = [text for text in texts if task.targets(text)]
        cuts = encoder.word_tokenizer.cut(asked)
        fits = [at for at, cut in enumerate(cuts) if len(cut.tokens.ids) <= encoder.limit]
        own = [asked[at] for at in fits]
        if not own:
            raise CorpusError(
                f"{self.name}: none of the texts has a target of {task.name} that {encoder.name} can read"
            )
        self._found = find_targets(task, own, [cuts[at].tokens for at in fits], reader.labels)
        if not self._found.single_label:
            raise TaskError(
                f"{self.name}: targets of {task.name} have several labels or a value instead of one label, so there is "
                "no highest answer to score; name a task such as pos, ner or dep"
            )
        self.rows = [encoder.rows(at, cuts[number])[0] for at, number in enumerate(fits)]
        self.owners = np.arange(len(own))
        unit = unit_of(own)
        self.items, self.units = tuple(text.id for text in own), tuple(unit.of(text) for text in own)
        self.skipped = +Counter(
            {
                f"texts without a target of {task.name}": len(texts) - len(asked),
                TOO_LONG: len(asked) - len(own),
                "labels unseen in training (scored as errors)": int(self._found.unseen.sum()),
            }
        )
        self._bounds = np.searchsorted(self._found.text, np.arange(len(own) + 1))
        self._counts = np.diff(self._bounds).astype(float)
        self.chance = _most_frequent(self._found.gold, self._found.unseen)

    def read(self, rows: Sequence[int], states: Mapping[int, Tensor]) -> Float[np.ndarray, "row kept"]:
        """See `Target.read`: targets of the row about which the probe is right."""
        asked, numbers = self._asked(rows)
        with torch.no_grad():
            said = self.reader.logits(states, asked).argmax(-1).cpu().numpy()
        right = self._found.gold[numbers, said].mean(0)
        return np.bincount(asked.row, right, len(rows))[:, None]

    def score(self, kept: Float[np.ndarray, "row kept"]) -> TargetScores:
        """See `Target.score`."""
        return TargetScores(kept[:, 0].copy(), self._counts)

    def loss(self, rows: Sequence[int], states: Mapping[int, Tensor]) -> Float[Tensor, " row"]:
        """See `Target.loss`: the probe's own, the mean over the row's targets."""
        asked, numbers = self._asked(rows)
        logits = self.reader.logits(states, asked)
        gold = torch.from_numpy(self._found.gold[numbers]).to(logits)
        where = torch.from_numpy(asked.row).to(logits.device)
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

    def _asked(self, rows: Sequence[int]) -> tuple[BatchSpans, np.ndarray]:
        """The targets of some rows, and their numbers."""
        numbers = np.concatenate([np.arange(self._bounds[row], self._bounds[row + 1]) for row in rows])
        counts = [int(self._counts[row]) for row in rows]
        return BatchSpans(np.repeat(np.arange(len(rows)), counts), self._found.tokens[numbers]), numbers


def _most_frequent(gold: np.ndarray, unseen: np.ndarray) -> float:
    """What always answering the most frequent label of these targets scores."""
    return float(np.concatenate([gold, unseen], 1).sum(0).max() / len(gold))
