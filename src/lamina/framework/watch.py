"""One pass over a corpus, many meters: each reduces the maps of a batch to what it needs before they are gone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Generator, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, count, islice
from typing import Literal, NamedTuple, Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from lamina.errors import ModelError
from lamina.framework.declare import Tables
from lamina.models import SPECIAL, Activations, Encoder, Tokens
from lamina.models.contract import MapBatch, Want
from lamina.models.running.attention_maps import weigh_by_norm
from lamina.progress import progress
from lamina.types import Edge, Span, Text, text_key

# What meters are shown: every head's attention on many texts, on the device where the model ran.

From = Literal["mean", "first"]
"""How the rows of a split word become one: the mean of its tokens, or (the paper's released code) the first token."""
PADDING = -2
"""In place of a word or an id, where a text of a batch has no token."""


class TokenRoles(NamedTuple):
    """Tokens by what they are; a token may be in several."""

    separators: Bool[Tensor, "*text token"]
    """Whether it is a special token other than the first token ([SEP], </s>)."""
    punctuation: Bool[Tensor, "*text token"]
    """Whether it is a full stop or a comma."""


def roles_of(tokens: Tokens, punctuation: Collection[int], *, causal: bool) -> TokenRoles:
    """The roles of a text's tokens. A decoder without separators has its first token in their place: its sink.

    Example:
        >>> tokens = Tokens(np.array([101, 7, 5, 102]), np.array([SPECIAL, 0, 1, SPECIAL]))
        >>> roles_of(tokens, {5}, causal=False).separators.tolist()
        [False, False, False, True]
    """
    ids, words = (torch.from_numpy(values)[None] for values in (tokens.ids, tokens.words))
    return TokenRoles(*(values[0] for values in _roles(ids, words, punctuation, causal=causal)))


def _roles(
    ids: Int[Tensor, "text token"], words: Int[Tensor, "text token"], punctuation: Collection[int], *, causal: bool
) -> TokenRoles:
    first = torch.zeros_like(words, dtype=torch.bool)
    first[:, 0] = True
    separators = (words == SPECIAL) & ~first
    if causal:
        separators = torch.where(separators.any(1, keepdim=True), separators, first)
    signs = torch.zeros_like(first)
    for sign in punctuation:
        signs |= ids == sign
    return TokenRoles(separators, signs)


class WordPlaces(NamedTuple):
    """Which tokens are the tokens of which words, in a batch of texts."""

    first: Int[Tensor, "text word"]
    """The token of each word's first token; 0 where a text has no such word."""
    sizes: Int[Tensor, "text word"]
    """Tokens of each word; 0 where a text has no such word."""
    rest: tuple[Int[Tensor, " piece"], Int[Tensor, " piece"], Int[Tensor, " piece"]]
    """Of every token that is not a word's first: its text, its token, and the token of the word's first token."""


def word_places(words: Int[np.ndarray, "text token"], device: torch.device | None = None) -> WordPlaces:
    """Where words are; the tokens of a word are neighbours, other tokens have a negative number.

    Example:
        >>> found = word_places(np.array([[SPECIAL, 0, 0, 1]]))
        >>> found.first.tolist(), found.sizes.tolist(), [each.tolist() for each in found.rest]
        ([[1, 3]], [[2, 1]], [[0], [2], [1]])
    """
    inside = words >= 0
    starts = inside.copy()
    starts[:, 1:] &= words[:, 1:] != words[:, :-1]
    first, sizes = (np.zeros((len(words), words.max() + 1), np.int64) for _ in range(2))
    text, token = np.nonzero(starts)
    first[text, words[text, token]] = token
    text, token = np.nonzero(inside)
    np.add.at(sizes, (text, words[text, token]), 1)
    text, token = np.nonzero(inside & ~starts)
    one, two, three = (_on(values, device) for values in (text, token, first[text, words[text, token]]))
    return WordPlaces(_on(first, device), _on(sizes, device), (one, two, three))


class PendingNumbers:
    """Numbers on their way from a device to this machine's memory; only reading them waits for them.

    Example:
        >>> PendingNumbers(torch.arange(3)).numpy().tolist()
        [0, 1, 2]
    """

    def __init__(self, there: Tensor) -> None:
        self._arrived: torch.cuda.Event | None = None
        if there.device.type != "cuda":
            self._here = there.cpu()
            return
        self._here = torch.empty(there.shape, dtype=there.dtype, pin_memory=True)
        self._here.copy_(there, non_blocking=True)
        self._arrived = torch.cuda.Event()
        self._arrived.record(torch.cuda.current_stream(there.device))

    def numpy(self) -> np.ndarray:
        """The numbers, once they are here."""
        if self._arrived is not None:
            self._arrived.synchronize()
        return self._here.numpy()


def _on(values: np.ndarray, device: torch.device | None) -> Tensor:
    return torch.from_numpy(values).to(device)


def from_words(
    maps: Float[Tensor, "text head token token"], places: WordPlaces, rows: From
) -> Float[Tensor, "text head token token"]:
    """Maps in which the row of a word's first token is that of the word: the mean over its tokens, or its own."""
    text, token, first = places.rest
    merged = maps.clone()
    if rows == "mean" and len(text):
        by_row = merged.transpose(1, 2)
        by_row.index_put_((text, first), by_row[text, token], accumulate=True)
        pieces = maps.new_ones(maps.shape[0], maps.shape[-1]).index_put_(
            (text, first), maps.new_ones(len(text)), accumulate=True
        )
        merged /= pieces[:, None, :, None]
    return merged


def between_words(
    maps: Float[Tensor, "text head token token"], places: WordPlaces, rows: From
) -> Float[Tensor, "text head word word"]:
    """Attention between words: to a word, the sum over its tokens; 0 from and to words that a text does not have."""
    text, token, first = places.rest
    merged = from_words(maps, places, rows)
    if len(text):
        by_column = merged.permute(0, 3, 1, 2)
        by_column.index_put_((text, first), by_column[text, token], accumulate=True)
    # Most words are one token: those of all words' first tokens are the cells that remain.
    size = places.first.shape[1]
    cells = (places.first[:, :, None] * maps.shape[-1] + places.first[:, None]).view(-1, 1, size * size)
    cells_between = merged.flatten(2).gather(2, cells.expand(-1, maps.shape[1], -1)).unflatten(2, (size, size))
    there = (places.sizes > 0).to(maps.dtype)
    return cells_between.mul_((there[:, :, None] * there[:, None])[:, None])


class WordMaps(NamedTuple):
    """Attention from word (row) to word (column); a row and its `special` sum to 1."""

    maps: Float[Tensor, "block head word word"]
    """Of words alone."""
    special: Float[Tensor, "block head word"]
    """What each word gives to all special tokens together."""


def to_words(
    maps: Float[Tensor, "block head token token"], words: Int[np.ndarray, " token"], rows: From = "mean"
) -> WordMaps:
    """Attention to a split word is the sum over its tokens; attention from it the mean over them.

    Example:
        >>> maps = torch.tensor([[0.5, 0.25, 0.25], [0.0, 0.5, 0.5], [1.0, 0.0, 0.0]])[None, None]
        >>> to_words(maps, np.array([SPECIAL, 0, 0])).maps.squeeze().item()
        0.5
    """
    places = word_places(words[None], maps.device)
    one = maps.flatten(0, 1)[None]
    to_special = from_words(one, places, rows)[..., torch.from_numpy(words == SPECIAL).to(maps.device)].sum(-1)
    special = to_special[..., places.first[0]]
    return WordMaps(*(part[0].unflatten(0, maps.shape[:2]) for part in (between_words(one, places, rows), special)))


@dataclass(frozen=True, eq=False)
class WatchedText:
    """One text and every head's attention on it, in this machine's memory."""

    text: Text
    """As encoded: cut where it was too long."""
    tokens: Tokens
    """Its tokens, special tokens included."""
    maps: Float[Tensor, "block head token token"]
    """Attention from (row) to (column), weighted as was asked."""
    rows: From = "mean"
    """How rows of split words become one."""

    @cached_property
    def words(self) -> WordMaps:
        """The maps between words."""
        return to_words(self.maps, self.tokens.words, self.rows)


@dataclass(frozen=True, eq=False)
class WatchedBatch:
    """Some texts and every head's attention on them, on the device where the model ran.

    Maps are as large as the longest text, and 0 from and to what is padding in another. What is the same for all
    meters is worked out once.

    Example:
        >>> text = Text("a", ("Dogs", "bark"))
        >>> tokens = Tokens(np.array([1, 7, 8, 2]), np.array([SPECIAL, 0, 1, SPECIAL]))
        >>> batch = WatchedBatch.of([WatchedText(text, tokens, torch.rand(3, 2, 4, 4))])
        >>> len(batch.maps), tuple(batch.maps[0].shape), tuple(batch.words[0].shape), batch.sizes.tolist()
        (3, (1, 2, 4, 4), (1, 2, 2, 2), [4])
    """

    texts: tuple[Text, ...]
    tokens: tuple[Tokens, ...]
    maps: tuple[Float[Tensor, "text head token token"], ...]
    """Of every block: attention from (row) to (column), weighted as was asked."""
    rows: From = "mean"
    """How rows of split words become one."""

    @classmethod
    def of(cls, watched: Sequence[WatchedText]) -> WatchedBatch:
        """Single texts together."""
        longest = max(one.maps.shape[-1] for one in watched)
        blocks, heads = watched[0].maps.shape[:2]
        maps = watched[0].maps.new_zeros(blocks, len(watched), heads, longest, longest)
        for row, one in enumerate(watched):
            maps[:, row, :, : one.maps.shape[-1], : one.maps.shape[-1]] = one.maps
        texts, tokens = tuple(one.text for one in watched), tuple(one.tokens for one in watched)
        return cls(texts, tokens, maps.unbind(), watched[0].rows)

    @cached_property
    def singly(self) -> tuple[WatchedText, ...]:
        """The texts one by one, copied to this machine's memory: for what cannot be done where the maps are."""
        texts = []
        for row, (text, tokens) in enumerate(zip(self.texts, self.tokens, strict=True)):
            size = len(tokens.ids)
            maps = torch.stack([block[row, :, :size, :size] for block in self.maps]).cpu()
            texts.append(WatchedText(text, tokens, maps, self.rows))
        return tuple(texts)

    @cached_property
    def groups(self) -> tuple[Float[Tensor, "text head token token"], ...]:
        """The maps of all heads, in the order of blocks, in pieces that are reduced fastest.

        On a CPU a piece is a block, which stays in its cache; elsewhere all are one, since starting work costs most.
        """
        return self.maps if self.device.type == "cpu" else (torch.cat(self.maps, 1),)

    @cached_property
    def received(self) -> tuple[Float[Tensor, "text head token"], ...]:
        """What each token gets from all tokens together, of every group."""
        return tuple(group.sum(-2) for group in self.groups)

    @property
    def device(self) -> torch.device:
        """Where the maps are."""
        return self.maps[0].device

    @cached_property
    def sizes(self) -> Int[Tensor, " text"]:
        """Tokens of each text."""
        return torch.tensor([len(tokens.ids) for tokens in self.tokens], device=self.device)

    @cached_property
    def inside(self) -> Bool[Tensor, "text token"]:
        """Whether it is a token of the text, and not padding."""
        return torch.arange(self.maps[0].shape[-1], device=self.device) < self.sizes[:, None]

    @cached_property
    def owners(self) -> Int[Tensor, "text token"]:
        """The word of each token; `SPECIAL` for special tokens, `PADDING` for none."""
        return _on(self._owners, self.device)

    @cached_property
    def _owners(self) -> Int[np.ndarray, "text token"]:
        return self._padded([tokens.words for tokens in self.tokens])

    @cached_property
    def _ids(self) -> Int[Tensor, "text token"]:
        return _on(self._padded([tokens.ids for tokens in self.tokens]), self.device)

    def _padded(self, values: Sequence[np.ndarray]) -> np.ndarray:
        sizes = np.array([len(row) for row in values])
        padded = np.full((len(values), self.maps[0].shape[-1]), PADDING)
        padded[np.arange(padded.shape[1]) < sizes[:, None]] = np.concatenate(values)
        return padded

    def roles(self, punctuation: Collection[int], *, causal: bool) -> TokenRoles:
        """What each token is; padding is nothing."""
        return _roles(self._ids, self.owners, punctuation, causal=causal)

    @cached_property
    def word_counts(self) -> Int[Tensor, " text"]:
        """Words of each text."""
        return (self._places.sizes > 0).sum(1)

    @cached_property
    def _places(self) -> WordPlaces:
        return word_places(self._owners, self.device)

    @cached_property
    def words(self) -> tuple[Float[Tensor, "text head word word"], ...]:
        """The maps between words, of every group; 0 from and to words that a text does not have."""
        return tuple(between_words(group, self._places, self.rows) for group in self.groups)


Weighting = Literal["attention", "norm"]
"""Attention as it is, or times the norm of what it moves, with rows that sum to 1 again."""

NO_NORMS = "{name} has attention maps but no norms of values; use --weights attention"

_FITTED_AT_ONCE = 256
"""Texts that are tokenized together to see whether they fit."""


def wants(weights: Weighting) -> tuple[Want, ...]:
    """What has to be asked of an encoder for maps that are weighted so.

    Example:
        >>> wants("attention"), wants("norm")
        (('maps',), ('maps', 'norms'))
    """
    return ("maps", "norms") if weights == "norm" else ("maps",)


def weighted_maps(
    encoder: Encoder, activations: Activations, weights: Weighting
) -> Float[torch.Tensor, "block head token token"] | None:
    """The maps between tokens, special tokens included; None for a text that needed several windows."""
    if weights == "attention" or activations.maps is None:
        return activations.maps
    if activations.norms is None:
        raise ModelError(NO_NORMS.format(name=encoder.name))
    return weigh_by_norm(activations.maps, activations.norms)


def fit(encoder: Encoder, text: Text, limit: int | None = None) -> Text:
    """The text, or as many of its first words as fit `limit` tokens (by default, and at most, the model's own).

    Whole words are taken off the end of the longest segment; targets that lose a word go with it. A segment keeps
    its first word, so a text whose first words alone are longer than the limit stays too long.

    Example:
        >>> from lamina.testing import TinyEncoder
        >>> text = Text("t", ("a", "dog", "barked", "at", "us"))
        >>> fit(TinyEncoder(), text, limit=6).words
        ('a', 'dog', 'barked')
    """
    ((_, fitting),) = fitted(encoder, [text], limit)
    return fitting


def fitted(encoder: Encoder, texts: Iterable[Text], limit: int | None = None) -> Iterator[tuple[Text, Text]]:
    """Texts, each with what `fit` makes of it: itself where it fits.

    Example:
        >>> from lamina.testing import SAMPLE_TEXTS, TinyEncoder
        >>> [text.id for text, kept in fitted(TinyEncoder(), SAMPLE_TEXTS, limit=20) if kept is not text]
        ['longer']
    """
    most = encoder.limit if limit is None else min(limit, encoder.limit)
    left = iter(texts)
    while some := list(islice(left, _FITTED_AT_ONCE)):
        for text, tokens in zip(some, encoder.tokenize_all(some), strict=True):
            yield text, text if len(tokens.ids) <= most else _shortened(text, tokens.words, len(tokens.ids) - most)


def _shortened(text: Text, owners: Int[np.ndarray, " token"], over: int) -> Text:
    sizes = np.bincount(owners[owners != SPECIAL], minlength=len(text.words))
    ends = [segment.end for segment in text.segments]
    lengths = [int(sizes[segment.start : segment.end].sum()) for segment in text.segments]
    while over > 0:
        longest = max(
            (i for i, segment in enumerate(text.segments) if ends[i] - segment.start > 1),
            key=lambda i: lengths[i],
            default=None,
        )
        if longest is None:
            break
        ends[longest] -= 1
        lengths[longest] -= sizes[ends[longest]]
        over -= sizes[ends[longest]]
    return _without_words(text, ends)


def _without_words(text: Text, ends: list[int]) -> Text:
    words: list[str] = []
    segments: list[Span] = []
    moved: dict[int, int] = {}
    for segment, end in zip(text.segments, ends, strict=True):
        start = len(words)
        moved |= {word: start + word - segment.start for word in range(segment.start, end)}
        words += text.words[segment.start : end]
        segments.append(Span(start, len(words)))
    edges = {
        name: tuple(edge for edge_before in edges_of if (edge := _moved(edge_before, moved)) is not None)
        for name, edges_of in text.edges.items()
    }
    return Text(text.id, tuple(words), tuple(segments), edges, text.doc, text.origin)


def _moved(edge: Edge, moved: Mapping[int, int]) -> Edge | None:
    spans = [edge.span] if edge.other is None else [edge.span, edge.other]
    if any(word not in moved for span in spans for word in span):
        return None
    placed = [Span(moved[span.start], moved[span.end - 1] + 1) for span in spans]
    return Edge(edge.labels, placed[0], placed[1] if len(placed) > 1 else None, edge.rated, edge.value)


PUNCTUATION = (".", ",")
"""The paper's."""


def punctuation_ids(encoder: Encoder) -> frozenset[int]:
    """The vocabulary's full stops and commas, as words and at the ends of words (byte-level BPE tells them apart)."""
    ids = set()
    for sign in PUNCTUATION:
        # In the middle, so that what a tokenizer does to a text's first word does not matter.
        tokens = encoder.tokenize(Text(sign, ("a", sign, f"a{sign}")))
        alone = tokens.ids[tokens.words == 1]
        glued = tokens.ids[tokens.words == 2]
        ids |= {int(alone[-1])} | ({int(glued[-1])} if len(glued) > 1 else set())
    return frozenset(ids)


def first_token(encoder: Encoder) -> str:
    """What a text's first token is, for provenance: in decoders it draws much attention, be it special or a word's.

    Example:
        >>> from lamina.testing import TinyEncoder
        >>> first_token(TinyEncoder())
        'a special token, put before the text'
    """
    special = encoder.tokenize(Text("a", ("a",))).words[0] == SPECIAL
    return (
        "a special token, put before the text" if special else "the text's first token; no special token was prepended"
    )


CUT = "texts longer than the model's limit, cut at its last whole word"
UNKNOWN = Encoder.replaced
TOO_LONG = "texts whose first words alone are longer than the model's limit, left out"


@runtime_checkable
class Meter(Protocol):
    """Reduces maps while they stream; what it keeps does not grow with a text's length squared."""

    def update(self, batch: WatchedBatch) -> None:
        """Take the maps of some texts in, where they are: what is copied from there are small sums.

        `batch.singly` has the texts one by one in this machine's memory, which is simple, and slow.
        """
        ...


@dataclass(frozen=True)
class Watch:
    """What an analysis wants to see: texts, and the meters that reduce their maps.

    An analysis yields it and gets back what was cut or left out, and how often; the runner shows the maps.
    """

    encoder: Encoder
    texts: Iterable[Text]
    """Read when the pass begins, twice where several analyses share it."""
    meters: Sequence[Meter]
    rows: From = "mean"
    """How rows of split words become one."""
    limit: int | None = None
    """The most tokens of a text, where less than the model takes."""
    total: int | None = None
    """How many texts there are, for the progress bar."""
    weights: Weighting = "attention"
    """What a map holds: attention as it is, or times the norm of what it moves."""


Watching = Generator[Watch, Counter[str], Tables]
"""What an analysis that watches maps is: a generator that yields `Watch` and returns its tables."""


def watch(
    encoder: Encoder,
    texts: Iterable[Text],
    meters: Sequence[Meter],
    *,
    rows: From = "mean",
    limit: int | None = None,
    total: int | None = None,
    weights: Weighting = "attention",
) -> Counter[str]:
    """Show every text's maps to every meter, in one pass; returns what was cut or left out, and how often.

    Args:
        encoder: whose heads.
        texts: what they look at.
        meters: who watches.
        rows: how rows of split words become one.
        limit: the most tokens of a text, where less than the model takes.
        total: how many texts there are, for the progress bar.
        weights: attention as it is, or times the norm of what it moves.

    Example:
        >>> from lamina.testing import SAMPLE_TEXTS, TinyEncoder
        >>> class Longest:
        ...     tokens = 0
        ...     def update(self, batch):
        ...         self.tokens = max(self.tokens, *batch.sizes.tolist())
        >>> longest = Longest()
        >>> dict(watch(TinyEncoder(), SAMPLE_TEXTS, [longest])), longest.tokens
        ({}, 21)
    """
    return watch_together([Watch(encoder, texts, meters, rows, limit, total, weights)])[0]


def watch_together(watches: Sequence[Watch]) -> list[Counter[str]]:
    """Show maps to several analyses; those of the same model share one pass, and a text is encoded once for all.

    Returns what was cut or left out, and how often, for each of them.
    """
    skipped: list[Counter[str]] = [Counter() for _ in watches]
    by_model: dict[str, list[int]] = {}
    for number, one in enumerate(watches):
        refuse_without_maps(one.encoder)
        one.encoder.refuse(wants(one.weights))
        by_model.setdefault(one.encoder.fingerprint, []).append(number)
    for members in by_model.values():
        _one_pass({number: watches[number] for number in members}, skipped)
    return skipped


class _QueuedText(NamedTuple):
    """A text on its way through the model, and the numbers of the watches that wait for it."""

    text: Text
    members: list[int]


def _one_pass(watches: Mapping[int, Watch], skipped: list[Counter[str]]) -> None:
    encoder = next(iter(watches.values())).encoder
    waiting: dict[str, _QueuedText] = {}
    totals = [one.total for one in watches.values()]
    total = None if None in totals else max(filter(None, totals), default=None)
    with progress(f"attention of {encoder.name}", total) as advance:
        # In whatever order batches come: maps held back for their turn would fill the memory.
        norms = any(one.weights == "norm" for one in watches.values())
        for batch in encoder.map_batches(_texts_to_encode(encoder, watches, waiting, skipped), norms=norms):
            queued = [waiting.pop(name) for name in batch.texts]
            advance(len(queued))
            _show(encoder, batch, queued, watches, skipped)
            # Released before the next batch runs, which needs the memory.
            del batch


def _show(
    encoder: Encoder,
    batch: MapBatch,
    queued: Sequence[_QueuedText],
    watches: Mapping[int, Watch],
    skipped: list[Counter[str]],
) -> None:
    """Show each watch those texts of a batch that it wants."""
    rows: dict[int, list[int]] = {}
    for row, (_, members) in enumerate(queued):
        for number in members:
            rows.setdefault(number, []).append(row)
    views: dict[tuple[Weighting, From, tuple[int, ...]], WatchedBatch] = {}
    maps: dict[Weighting, tuple[Tensor, ...]] = {}
    for number, rows_of_watch in rows.items():
        one = watches[number]
        if not batch.maps:
            skipped[number][TOO_LONG] += len(rows_of_watch)
            continue
        if unknown := sum(batch.tokens[row].unknown for row in rows_of_watch):
            skipped[number][UNKNOWN] += unknown
        if one.weights not in maps:
            maps[one.weights] = _weighted(encoder, batch, one.weights)
        # Watches that want the same see the same: what one meter works out is there for all.
        view = (one.weights, one.rows, tuple(rows_of_watch))
        if view not in views:
            texts, tokens = (
                tuple(queued[row].text for row in rows_of_watch),
                tuple(batch.tokens[row] for row in rows_of_watch),
            )
            views[view] = WatchedBatch(texts, tokens, _some(maps[one.weights], rows_of_watch), one.rows)
        for meter in one.meters:
            meter.update(views[view])


def _some(maps: tuple[Tensor, ...], rows: Sequence[int]) -> tuple[Tensor, ...]:
    """The maps of some texts of a batch."""
    if len(rows) == len(maps[0]):
        return maps
    chosen = torch.tensor(rows, device=maps[0].device)
    return tuple(block.index_select(0, chosen) for block in maps)


def _weighted(encoder: Encoder, batch: MapBatch, weights: Weighting) -> tuple[Tensor, ...]:
    """The maps of every block, as they were asked for."""
    if weights == "attention":
        return batch.maps
    if not batch.norms:
        raise ModelError(NO_NORMS.format(name=encoder.name))
    return tuple(weigh_by_norm(block, norms) for block, norms in zip(batch.maps, batch.norms, strict=True))


def refuse_without_maps(encoder: Encoder) -> None:
    """An encoder that has no attention maps, or whose maps cannot be trusted, cannot be asked about them."""
    if not encoder.heads:
        raise ModelError(f"{encoder.name} has no attention heads; name a transformer, for example minilm")
    encoder.refuse(("maps",))


class _SharedTexts(NamedTuple):
    """Texts read once for all watches that want them, cut alike."""

    texts: Iterable[Text]
    limit: int | None
    members: list[int]
    """The numbers of the watches."""


def _readings(watches: Mapping[int, Watch]) -> list[_SharedTexts]:
    """The one of most texts first."""
    shared: dict[tuple[int, int | None], _SharedTexts] = {}
    for number, one in watches.items():
        new = _SharedTexts(one.texts, one.limit, [])
        shared.setdefault((id(one.texts), one.limit), new).members.append(number)
    first, *others = sorted(shared.values(), key=lambda reading: -(watches[reading.members[0]].total or 0))
    # All but the first are read twice, which an iterator cannot be.
    return [first, *(one._replace(texts=_again(one.texts)) for one in others)]


def _again(texts: Iterable[Text]) -> Iterable[Text]:
    return list(texts) if isinstance(texts, Iterator) else texts


def _texts_to_encode(
    encoder: Encoder,
    watches: Mapping[int, Watch],
    waiting: dict[str, _QueuedText],
    skipped: list[Counter[str]],
) -> Iterator[Text]:
    """Every text that a meter wants, once; a text cut in two ways is two texts."""
    first, *others = _readings(watches)
    # What others want, and whether it was cut for them: shown together with the same text of the first.
    also: dict[Hashable, list[tuple[list[int], bool]]] = {}
    for reading in others:
        for text, fitting in fitted(encoder, reading.texts, reading.limit):
            also.setdefault(_identity(fitting), []).append((reading.members, fitting is not text))
    for reading in (first, *others):
        for text, fitting in fitted(encoder, reading.texts, reading.limit):
            wanting = also.pop(_identity(fitting), []) if also else []
            if reading is first:
                wanting.append((first.members, fitting is not text))
            if not wanting:
                continue  # shown already
            for members, cut in wanting:
                for member in members if cut else ():
                    skipped[member][CUT] += 1
            name = _free_name(fitting.id, waiting)
            waiting[name] = _QueuedText(fitting, [member for members, _ in wanting for member in members])
            yield fitting if name == fitting.id else replace(fitting, id=name)


def _identity(text: Text) -> Hashable:
    """Equal for texts that every meter would see alike."""
    return text.id, text_key(text), text.doc, hash(tuple(text.edges.items()))


def _free_name(name: str, taken: Collection[str]) -> str:
    """One that no text on its way has: the same text may come whole and cut."""
    numbered = (f"{name}#{number}" for number in count(2))
    return next(free for free in chain([name], numbered) if free not in taken)
