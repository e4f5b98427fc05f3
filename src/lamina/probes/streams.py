"""Batches of targets with the states of only the tokens they need; the same seed gives the same batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from copy import copy
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Bool, Float, Int

from lamina.models import Tokens
from lamina.tasks import Task, decisions
from lamina.types import Edge, Text

# A task's targets in a list of texts, as arrays: tokens, labels, and which decisions count.


@dataclass(frozen=True, eq=False)
class ProbeTargets:
    """All targets of one task. Texts are numbered in the order they were given."""

    labels: tuple[str, ...]
    """The columns of `gold`: the labels a probe predicts."""
    text: np.ndarray
    """[target] Number of its text."""
    tokens: Int[np.ndarray, "target span 2"]
    """First token and one past the last, within the text's own tokens, for each span."""
    words: Int[np.ndarray, "target span 2"]
    """The same in words."""
    gold: Bool[np.ndarray, "target label"]
    """Which labels hold."""
    rated: Bool[np.ndarray, "target label"]
    """Which labels annotators were asked about; training uses these."""
    scored: Bool[np.ndarray, "target label"]
    """Which decisions count in the score: rated, and not left out by the metric."""
    unseen: Bool[np.ndarray, "target unseen_label"]
    """Which scored labels without a column hold: labels unseen in training, which no probe can predict."""
    texts: int
    """Number of texts, with or without targets."""
    unseen_labels: tuple[str, ...] = ()
    """The columns of `unseen`."""
    values: Float[np.ndarray, " target"] | None = None
    """What graded targets were judged at; None where targets have labels."""

    def __len__(self) -> int:
        return len(self.text)

    @property
    def arity(self) -> int:
        """Spans per target."""
        return self.tokens.shape[1]

    def among(self, texts: Iterable[int]) -> ProbeTargets:
        """Only the targets of these texts; texts keep their numbers."""
        mask = np.isin(self.text, np.fromiter(texts, dtype=np.int64))
        return self.chosen(mask)

    def chosen(self, rows: np.ndarray) -> ProbeTargets:
        """Only these targets: numbers, or one yes or no for each."""
        parts = ("text", "tokens", "words", "gold", "rated", "scored", "unseen", "values")
        arrays = {name: array for name in parts if (array := getattr(self, name)) is not None}
        return replace(self, **{name: array[rows] for name, array in arrays.items()})

    @property
    def graded(self) -> bool:
        """Whether targets have a value instead of labels."""
        return self.values is not None

    @property
    def single_label(self) -> bool:
        """Whether every target has one label out of all, so that the highest answer is the answer."""
        labels = self.gold.sum(1) + self.unseen.sum(1)
        return not self.graded and len(self.labels) > 1 and bool(self.rated.all() and (labels == 1).all())


def find_targets(task: Task, texts: Iterable[Text], tokens: Iterable[Tokens], labels: tuple[str, ...]) -> ProbeTargets:
    """The targets of `task`; `tokens` are the texts' own, in the same order. Labels not in `labels` count as unseen."""
    known = set(labels)
    edges: list[Edge] = []
    owners: list[int] = []
    places: list[list[tuple[int, int]]] = []
    unseen: list[set[str]] = []
    number = -1
    for number, (text, cut) in enumerate(zip(texts, tokens, strict=True)):
        text_edges = task.targets(text)
        if not text_edges:
            continue
        first, last = _token_ranges(cut.words, len(text.words))
        for edge in text_edges:
            spans = (edge.span,) if edge.other is None else (edge.span, edge.other)
            places.append([(first[span.start], last[span.end - 1] + 1) for span in spans])
            known_labels = tuple(label for label in edge.labels if label in known)
            # Most edges have no label that is unknown: they are taken as they are, which is much faster.
            whole = len(known_labels) == len(edge.labels)
            unseen.append(set() if whole else set(task.scored(edge.labels)) - known)
            edges.append(edge if whole else replace(edge, labels=known_labels))
            owners.append(number)
    gold, scored = decisions(task, edges, labels)
    rated = decisions(replace(task, unscored=frozenset()), edges, labels).mask
    words = [[(s.start, s.end) for s in (e.span, e.other) if s is not None] for e in edges]
    shape = (len(edges), task.arity, 2)
    unseen_labels = tuple(sorted(set().union(*unseen)))
    missed = [[label in names for label in unseen_labels] for names in unseen]
    return ProbeTargets(
        labels,
        np.array(owners, np.int64),
        np.array(places, np.int64).reshape(shape),
        np.array(words, np.int64).reshape(shape),
        gold,
        rated,
        scored,
        np.array(missed, bool).reshape(len(edges), len(unseen_labels)),
        number + 1,
        unseen_labels,
        np.array([edge.value for edge in edges], float) if task.graded else None,
    )


def _token_ranges(words: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """The first and the last token of every word."""
    first, last = np.zeros(count, np.int64), np.zeros(count, np.int64)
    positions = np.flatnonzero(words >= 0)
    last[words[positions]] = positions
    first[words[positions[::-1]]] = positions[::-1]
    return first, last


_CHUNK = 4096
"""Texts shuffled together: neighbours in the corpus are neighbours on disk, so a chunk is read from few shards."""
_LEAST_DEVIATION = 1e-4
"""Of a dimension, as a share of the layer's largest."""
_MOST_CELLS = 2**19
"""Targets times tokens of a batch on a GPU, where spans are pooled by one product of the two; see `applied`."""


class SpanTokens(NamedTuple):
    """One span of every target, as (target, token) pairs."""

    target: torch.Tensor
    """[pair] The target, sorted."""
    token: torch.Tensor
    """[pair] Index of the token in the batch."""
    sizes: torch.Tensor
    """[target] Number of tokens."""
    single: bool
    """Whether every span is one token, so that there is nothing to pool."""


class SpanBounds(NamedTuple):
    """One span of every target, by its first token and one past its last: what a GPU pools by."""

    bounds: Int[torch.Tensor, "target 2"]


Spans = tuple[SpanTokens, ...] | tuple[SpanBounds, ...]
"""First and, for pairs, second spans of some targets."""


class ProbeBatch(NamedTuple):
    """The targets of some texts."""

    states: Float[torch.Tensor, "layer token width"]
    """The states of the tokens that the spans need, by layer."""
    spans: Spans
    rows: np.ndarray
    """[target] Which targets these are."""


class BatchLayout(NamedTuple):
    """Some batches, one after the other: where their tokens' states lie and where their spans are."""

    tokens: Int[np.ndarray, " token"]
    """Where the states of the tokens are in the stream's memory."""
    rows: Int[np.ndarray, " target"]
    """Which targets these are."""
    bounds: Int[np.ndarray, "target span 2"]
    """First token and one past the last, counted within the batch."""
    token_ends: Int[np.ndarray, " batch"]
    """Where the tokens of each batch end."""
    target_ends: Int[np.ndarray, " batch"]
    """Where the targets of each batch end."""

    def __len__(self) -> int:
        return len(self.token_ends)

    def of(self, batch: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Tokens, rows and bounds of one batch."""
        token, target = (slice(ends[batch - 1] if batch else 0, ends[batch]) for ends in self[3:])
        return self.tokens[token], self.rows[target], self.bounds[target]


class Standard(NamedTuple):
    """Every dimension of every layer with mean 0 and one deviation: layers of any scale are mixed and learned alike.

    The deviation is such that vectors have a length of about 1. With a deviation of 1 a probe starts at the edges of
    its tanh and learns slowly: dependencies lost .03 of F1 in as many steps.
    """

    shift: Float[torch.Tensor, "layer width"]
    scale: Float[torch.Tensor, "layer width"]

    def of(self, states: Float[torch.Tensor, "layer token width"]) -> Float[torch.Tensor, "layer token width"]:
        """The states, standardised."""
        shift, scale = (tensor.to(states.device).unsqueeze(1) for tensor in self)
        return (states - shift) / scale


class StreamStatistics(NamedTuple):
    """What the states of a stream look like."""

    standard: Standard
    norms: Float[np.ndarray, " layer"]
    """Mean length of the vectors."""


@runtime_checkable
class StateSource(Protocol):
    """The part of stored or held activations that a stream uses."""

    @property
    def token_bytes(self) -> int:
        """Size of one token's states in bytes, all layers together."""
        ...

    @property
    def resident(self) -> torch.Tensor | None:
        """The states of all texts, [token, layer, width], where they are in memory in one piece."""
        ...

    def start(self, index: int) -> int:
        """The first token of a text in `resident`."""
        ...

    def size(self, index: int) -> int:
        """Tokens of a text."""
        ...

    def load(self, index: int) -> torch.Tensor:
        """A text's states, [token, layer, width]."""
        ...


class Stream:
    """A task's targets with activations, batch by batch.

    States that are held on the stream's device are used where they lie. Others that fit into `resident_bytes` (by
    default a gigabyte of memory, or half of a GPU's free memory) are moved to the device once and stay there;
    otherwise each batch is read from the store. The numbers are the same either way.
    """

    def __init__(
        self,
        stored: StateSource,
        targets: ProbeTargets,
        *,
        device: str = "cpu",
        batch_texts: int = 32,
        standard: Standard | None = None,
        resident_bytes: int | None = None,
    ) -> None:
        self.targets = targets
        self._stored = stored
        self.device = device
        self._batch_texts = batch_texts
        self._standard: Standard | None = None
        """What is still to be done to states: nothing where those in memory are standardised."""
        self._order = np.argsort(targets.text, kind="stable")
        self._texts, self._row_starts = np.unique(targets.text[self._order], return_index=True)
        self._row_counts = np.diff([*self._row_starts, len(self._order)])
        self._look_up_tokens()
        self._room = _room(device) if resident_bytes is None else resident_bytes
        self._by_token: Float[torch.Tensor, "token layer width"] | None = None
        """The states in memory, as they are held ..."""
        self._resident: Float[torch.Tensor, "layer token width"] | None = None
        """... or as a CPU reads them fastest: of the tokens that are needed, by layer."""
        self._settle()
        if standard is not None:
            self._standardise(standard)

    @property
    def batches(self) -> int:
        """Batches per epoch."""
        return -(-len(self._texts) // self._batch_texts)

    @property
    def in_memory(self) -> bool:
        """Whether batches are taken from memory, so that all that changes from one to the next are numbers."""
        return self._by_token is not None or self._resident is not None

    def epoch(self, seed: int, number: int, *, skip: int = 0) -> Iterator[ProbeBatch]:
        """All targets once, shuffled: chunks of neighbouring texts, and the texts within each chunk.

        The first `skip` batches are skipped without building them.
        """
        return self._batches_of(self.shuffled(seed, number, skip=skip))

    def shuffled(self, seed: int, number: int, *, skip: int = 0) -> BatchLayout:
        """The layout of an epoch's batches."""
        rng = np.random.default_rng([seed, number])
        chunks = np.split(np.arange(len(self._texts)), range(_CHUNK, len(self._texts), _CHUNK))
        rng.shuffle(chunks)
        order = np.concatenate([rng.permutation(chunk) for chunk in chunks])[skip * self._batch_texts :]
        return self._laid(order, np.arange(0, len(order), self._batch_texts))

    def in_order(self) -> Iterator[ProbeBatch]:
        """All targets once, text by text."""
        return self._batches_of(self.applied())

    def applied(self) -> BatchLayout:
        """The layout of batches for applying probes: texts in order; on a GPU, fewer where they have many targets."""
        starts = np.arange(0, len(self._texts), self._batch_texts)
        if self.device != "cpu":
            starts = self._small_batches()
        return self._laid(np.arange(len(self._texts)), starts)

    def states_of(self, places: torch.Tensor) -> Float[torch.Tensor, "layer token width"]:
        """The states at some places of the stream's memory, standardised, in float32."""
        if self._resident is not None:
            states = self._resident.index_select(1, places)
        elif self._by_token is not None:
            states = self._by_token.index_select(0, places).transpose(0, 1)
        else:
            raise ValueError("the stream's states are not in memory")
        seen = states.float() if self._standard is None else self._standard.of(states.float())
        return seen.contiguous()

    def standardised(self, standard: Standard) -> Stream:
        """The same stream of standardised states."""
        other = copy(self)
        other._standardise(standard)
        return other

    def look(self) -> StreamStatistics:
        """Means, deviations and lengths over the tokens of all targets, as the stream gives them."""
        count, sums, squares, lengths = 0, 0.0, 0.0, 0.0
        for batch in self.in_order():
            states = batch.states.double()
            count += states.shape[1]
            sums, squares = sums + states.sum(1), squares + states.square().sum(1)
            lengths = lengths + states.norm(dim=-1).sum(1)
        mean = torch.as_tensor(sums) / count
        deviation = (torch.as_tensor(squares) / count - mean.square()).clamp_min(0).sqrt()
        # A dimension that never changes tells nothing: it stays at 0 instead of being blown up.
        least = _LEAST_DEVIATION * deviation.amax(1, keepdim=True).clamp_min(_LEAST_DEVIATION)
        length = mean.shape[1] ** 0.5
        standard = Standard(mean.float(), (length * deviation.clamp_min(least)).float())
        return StreamStatistics(standard, (torch.as_tensor(lengths) / count).cpu().numpy())

    def _look_up_tokens(self) -> None:
        """Which tokens of each text its spans need, and where the spans are among them."""
        self._sizes = np.array([self._stored.size(text) for text in self._texts.tolist()], int)
        begins = np.cumsum(self._sizes) - self._sizes
        spans = self.targets.tokens[self._order] + np.repeat(begins, self._row_counts)[:, None, None]
        # Each span opens at its first token and closes after its last: needed is what lies in any.
        depth = np.zeros(self._sizes.sum() + 1, int)
        np.add.at(depth, spans[..., 0].ravel(), 1)
        np.add.at(depth, spans[..., 1].ravel(), -1)
        needed = np.cumsum(depth[:-1]) > 0
        self._needed = np.flatnonzero(needed) - np.repeat(begins, self._sizes)[needed]
        """[needed token] Of every text, by the token's number in the text."""
        rank = np.concatenate([[0], np.cumsum(needed)])
        self._token_starts, ends = rank[begins], rank[begins + self._sizes]
        self._token_counts = ends - self._token_starts
        # A span ends one past its last token, which is needed.
        bounds = rank[spans] - np.repeat(self._token_starts, self._row_counts)[:, None, None]
        self._bounds = bounds
        """[target in text order, span, 2] Among the needed tokens of the text."""

    def _laid(self, texts: np.ndarray, starts: np.ndarray) -> BatchLayout:
        """Batches of these texts, by their place in `_texts`; `starts` are where batches begin."""
        token_counts, row_counts = self._token_counts[texts], self._row_counts[texts]
        edges = [*starts[1:], len(texts)]
        token_ends, target_ends = (np.cumsum(counts)[np.array(edges, int) - 1] for counts in (token_counts, row_counts))
        # Where a text's tokens begin within its batch.
        begins = np.cumsum(token_counts) - token_counts
        begins -= np.repeat(begins[starts], np.diff([*starts, len(texts)]))
        rows = _ranges(self._row_starts[texts], row_counts)
        bounds = self._bounds[rows] + np.repeat(begins, row_counts)[:, None, None]
        tokens = self._places[_ranges(self._token_starts[texts], token_counts)]
        return BatchLayout(tokens, self._order[rows], bounds, token_ends, target_ends)

    def _small_batches(self) -> np.ndarray:
        """Where batches begin that have at most `_MOST_CELLS` and `_batch_texts`, or a single text."""
        starts, tokens, targets = [0], 0, 0
        for number, (more_tokens, more_targets) in enumerate(zip(self._token_counts, self._row_counts, strict=True)):
            cells = (tokens + more_tokens) * (targets + more_targets)
            if number > starts[-1] and (cells > _MOST_CELLS or number - starts[-1] == self._batch_texts):
                starts.append(number)
                tokens = targets = 0
            tokens, targets = tokens + int(more_tokens), targets + int(more_targets)
        return np.array(starts)

    def _batches_of(self, layout: BatchLayout) -> Iterator[ProbeBatch]:
        for number in range(len(layout)):
            tokens, rows, bounds = layout.of(number)
            yield ProbeBatch(self._states(tokens), self._spans(bounds), rows)

    def _spans(self, bounds: np.ndarray) -> Spans:
        if self.device != "cpu":
            return tuple(SpanBounds(self._to(bounds[:, span])) for span in range(bounds.shape[1]))
        pairs = [_pairs(bounds[:, span]) for span in range(bounds.shape[1])]
        return tuple(
            SpanTokens(self._to(target), self._to(token), self._to(np.bincount(target)), len(target) == len(bounds))
            for target, token in pairs
        )

    def _states(self, places: np.ndarray) -> torch.Tensor:
        if self.in_memory:
            return self.states_of(self._to(places))
        # Numbers of needed tokens of texts that follow each other, as they are laid out.
        owner = np.searchsorted(self._token_starts, places, side="right") - 1
        texts, first = np.unique(owner, return_index=True)
        parts = []
        for text in texts[np.argsort(first)].tolist():
            tokens = self._needed[places[owner == text]]
            parts.append(self._stored.load(int(self._texts[text]))[torch.from_numpy(tokens)])
        states = torch.cat(parts).to(self.device).transpose(0, 1)
        seen = states.float() if self._standard is None else self._standard.of(states.float())
        return seen.contiguous()

    def _settle(self) -> None:
        """Use states that are held on the device; move others there if they fit."""
        self._places = np.arange(len(self._needed))
        """[needed token] Where its states are in memory, or its own number where they are not."""
        available, fits = self._stored.resident, len(self._needed) * self._stored.token_bytes <= self._room
        # A CPU is faster with a copy of what it needs, by layer, wherever there is room for one.
        if available is not None and _same_device(available, self.device) and not (self.device == "cpu" and fits):
            begins = np.array([self._stored.start(text) for text in self._texts.tolist()], int)
            self._places = np.repeat(begins, self._token_counts) + self._needed
            self._by_token = available
            return
        if not len(self._needed) or not fits:
            return
        first = self._stored.load(int(self._texts[0]))
        # Filled text by text: gathering in a list first would need twice the memory.
        resident = torch.empty(first.shape[1], len(self._needed), first.shape[2], dtype=first.dtype, device=self.device)
        for number, (start, count) in enumerate(zip(self._token_starts, self._token_counts, strict=True)):
            tokens = torch.from_numpy(self._needed[start : start + count])
            resident[:, start : start + count] = self._stored.load(int(self._texts[number]))[tokens].transpose(0, 1)
        self._resident = resident

    def _standardise(self, standard: Standard) -> None:
        """Once and for all where a CPU has room for single precision, otherwise batch by batch."""
        moved = Standard(*(tensor.to(self.device) for tensor in standard))
        resident = self._resident
        if resident is None or self.device != "cpu" or resident.numel() * 4 > self._room:
            self._standard = moved
        else:
            self._resident = moved.of(resident.float())

    def _to(self, indices: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(np.ascontiguousarray(indices)).to(self.device)


def _room(device: str) -> int:
    return 2**30 if device == "cpu" else torch.cuda.mem_get_info(device)[0] // 2


def _same_device(states: torch.Tensor, device: str) -> bool:
    """Whether states lie on a device; "cuda" is the current one of several."""
    wanted = torch.device(device)
    if wanted.type != states.device.type:
        return False
    return wanted.type == "cpu" or states.device.index == (
        torch.cuda.current_device() if wanted.index is None else wanted.index
    )


def _ranges(starts: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """The numbers from each start on, as many as it counts, one range after the other."""
    ends = np.cumsum(counts)
    return np.arange(ends[-1] if len(ends) else 0) + np.repeat(starts - (ends - counts), counts)


def _pairs(ranges: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(target, token) for every token of every range."""
    sizes = ranges[:, 1] - ranges[:, 0]
    target = np.repeat(np.arange(len(ranges)), sizes)
    return target, _ranges(ranges[:, 0], sizes)
