"""One pass over a corpus, many meters: each reduces a text's maps to what it needs before they are gone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Generator, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, count
from typing import Literal, NamedTuple, Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Float, Int

from lamina.analyses.declaration import Tables
from lamina.encoders import SPECIAL, Activations, Encoder, Tokens
from lamina.encoders.contract import Want
from lamina.encoders.values import weigh_by_norm
from lamina.errors import ModelError
from lamina.progress import progress
from lamina.types import Edge, Span, Text, text_key

From = Literal["mean", "first"]
"""How the rows of a split word become one: the mean of its pieces, or (the paper's released code) the first piece."""
Weighting = Literal["attention", "norm"]
"""Attention as it is, or times the norm of what it moves, with rows that sum to 1 again."""


def wants(weights: Weighting) -> tuple[Want, ...]:
    """What has to be asked of an encoder for maps that are weighted so.

    Example:
        >>> wants("attention"), wants("norm")
        (('maps',), ('maps', 'norms'))
    """
    return ("maps", "norms") if weights == "norm" else ("maps",)


def weighted_maps(
    encoder: Encoder, made: Activations, weights: Weighting
) -> Float[torch.Tensor, "block head token token"] | None:
    """The maps between pieces, special tokens included; None for a text that needed several windows."""
    if weights == "attention" or made.maps is None:
        return made.maps
    if made.norms is None:
        raise ModelError(f"{encoder.name} has attention maps but no norms of values; use --weights attention")
    return weigh_by_norm(made.maps, made.norms)


class WordMaps(NamedTuple):
    """Attention from word (row) to word (column); a row and its `special` sum to 1."""

    maps: Float[torch.Tensor, "block head word word"]
    """Of words alone."""
    special: Float[torch.Tensor, "block head word"]
    """What each word gives to all special tokens together."""


def to_words(
    maps: Float[torch.Tensor, "block head token token"], words: Int[np.ndarray, " token"], rows: From = "mean"
) -> WordMaps:
    """Attention to a split word is the sum over its pieces; attention from it the mean over them.

    Example:
        >>> maps = torch.tensor([[0.5, 0.25, 0.25], [0.0, 0.5, 0.5], [1.0, 0.0, 0.0]])[None, None]
        >>> to_words(maps, np.array([SPECIAL, 0, 0])).maps.squeeze().item()
        0.5
    """
    inside = np.flatnonzero(words != SPECIAL)
    owners = words[inside]
    # Pieces of a word stand together, so a word starts where the owner changes.
    starts = np.r_[True, owners[1:] != owners[:-1]]
    first, rest = inside[starts], inside[~starts]
    owner = torch.from_numpy(owners[~starts]).long()
    # Most words are one piece: take that one, then add the few others.
    given = _take(maps, first, -2)
    if rows == "mean" and len(rest):
        sizes = torch.from_numpy(np.bincount(owners)).to(maps.dtype)
        given = given.index_add_(-2, owner, _take(maps, rest, -2)) / sizes[:, None]
    to_first, to_rest, special = (_take(given, some, -1) for some in (first, rest, np.flatnonzero(words == SPECIAL)))
    return WordMaps(to_first.index_add_(-1, owner, to_rest) if len(rest) else to_first, special.sum(-1))


def _take(maps: torch.Tensor, places: np.ndarray, axis: int) -> torch.Tensor:
    """In numpy, which is many times faster at this than torch."""
    return torch.from_numpy(maps.numpy().take(places, axis=axis))


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
    most = encoder.limit if limit is None else min(limit, encoder.limit)
    owners = encoder.tokenize(text).words
    over = len(owners) - most
    if over <= 0:
        return text
    sizes = np.bincount(owners[owners != SPECIAL], minlength=len(text.words))
    ends = [segment.end for segment in text.segments]
    held = [int(sizes[segment.start : segment.end].sum()) for segment in text.segments]
    while over > 0:
        longest = max(
            (i for i, segment in enumerate(text.segments) if ends[i] - segment.start > 1),
            key=lambda i: held[i],
            default=None,
        )
        if longest is None:
            break
        ends[longest] -= 1
        held[longest] -= sizes[ends[longest]]
        over -= sizes[ends[longest]]
    return _kept(text, ends)


def _kept(text: Text, ends: list[int]) -> Text:
    words: list[str] = []
    segments: list[Span] = []
    moved: dict[int, int] = {}
    for segment, end in zip(text.segments, ends, strict=True):
        start = len(words)
        moved |= {word: start + word - segment.start for word in range(segment.start, end)}
        words += text.words[segment.start : end]
        segments.append(Span(start, len(words)))
    edges = {
        name: tuple(edge for each in found if (edge := _moved(each, moved)) is not None)
        for name, found in text.edges.items()
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


class TokenRoles(NamedTuple):
    """Tokens of a text by what they are; a token may be in several."""

    separators: np.ndarray
    """[token] Whether it is a special token other than the first token ([SEP], </s>)."""
    punctuation: np.ndarray
    """[token] Whether it is a full stop or a comma."""


def punctuation_ids(encoder: Encoder) -> frozenset[int]:
    """The vocabulary's full stops and commas, as words and at the ends of words (byte-level BPE tells them apart)."""
    found = set()
    for sign in PUNCTUATION:
        # In the middle, so that what a tokenizer does to a text's first word does not matter.
        tokens = encoder.tokenize(Text(sign, ("a", sign, f"a{sign}")))
        alone = tokens.ids[tokens.words == 1]
        glued = tokens.ids[tokens.words == 2]
        found |= {int(alone[-1])} | ({int(glued[-1])} if len(glued) > 1 else set())
    return frozenset(found)


def roles_of(tokens: Tokens, punctuation: Collection[int], *, causal: bool) -> TokenRoles:
    """The roles of a text's tokens. A decoder without separators has its first token in their place: its sink.

    Example:
        >>> tokens = Tokens(np.array([101, 7, 5, 102]), np.array([SPECIAL, 0, 1, SPECIAL]))
        >>> roles_of(tokens, {5}, causal=False).separators.tolist()
        [False, False, False, True]
    """
    first = np.arange(len(tokens.ids)) == 0
    separators = (tokens.words == SPECIAL) & ~first
    if causal and not separators.any():
        separators = first
    # A handful of ids: comparing with each is many times faster than np.isin.
    signs = np.zeros_like(first)
    for sign in punctuation:
        signs |= tokens.ids == sign
    return TokenRoles(separators, signs)


def first_token(encoder: Encoder) -> str:
    """What a text's first token is, for provenance: in decoders it draws much attention, be it special or a word's.

    Example:
        >>> from lamina.testing import TinyEncoder
        >>> first_token(TinyEncoder())
        'a special token, put before the text'
    """
    special = encoder.tokenize(Text("a", ("a",))).words[0] == SPECIAL
    return (
        "a special token, put before the text" if special else "the text's first piece; no special token was prepended"
    )


CUT = "texts longer than the model's limit, cut at its last whole word"
UNKNOWN = "words without a piece, replaced by the unknown token"
TOO_LONG = "texts whose first words alone are longer than the model's limit, left out"


@dataclass(frozen=True, eq=False)
class Watched:
    """One text and every head's attention on it."""

    text: Text
    """As encoded: cut where it was too long."""
    tokens: Tokens
    """Its pieces, special tokens included."""
    maps: Float[torch.Tensor, "block head token token"]
    """Attention from (row) to (column), weighted as was asked."""
    rows: From = "mean"
    """How rows of split words become one."""

    @cached_property
    def words(self) -> WordMaps:
        """The maps between words, made once for all meters that want them."""
        return to_words(self.maps, self.tokens.words, self.rows)


@runtime_checkable
class Meter(Protocol):
    """Reduces maps while they stream; what it keeps does not grow with a text's length squared."""

    def update(self, watched: Watched) -> None:
        """Take one text's maps in."""
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
        ...     def update(self, watched):
        ...         self.tokens = max(self.tokens, watched.maps.shape[-1])
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
    for at, each in enumerate(watches):
        refuse_without_maps(each.encoder)
        each.encoder.refuse(wants(each.weights))
        by_model.setdefault(each.encoder.fingerprint, []).append(at)
    for members in by_model.values():
        _one_pass({at: watches[at] for at in members}, skipped)
    return skipped


class _Shown(NamedTuple):
    """A text on its way through the model, and the numbers of the watches that wait for it."""

    text: Text
    members: list[int]


def _one_pass(watches: Mapping[int, Watch], skipped: list[Counter[str]]) -> None:
    encoder = next(iter(watches.values())).encoder
    waiting: dict[str, _Shown] = {}
    totals = [each.total for each in watches.values()]
    total = None if None in totals else max(filter(None, totals), default=None)
    with progress(f"attention of {encoder.name}", total) as advance:
        # In whatever order batches come: maps held back for their turn would fill the memory.
        want = wants("norm" if any(each.weights == "norm" for each in watches.values()) else "attention")
        for made in encoder.encode(_wanted(encoder, watches, waiting, skipped), want, ordered=False):
            text, members = waiting.pop(made.text)
            advance()
            asked: set[Weighting] = {watches[at].weights for at in members}
            maps = {weights: weighted_maps(encoder, made, weights) for weights in asked}
            views: dict[tuple[Weighting, From], Watched] = {}
            for at in members:
                each = watches[at]
                shown = maps[each.weights]
                if shown is None:
                    skipped[at][TOO_LONG] += 1
                    continue
                if made.tokens.unknown:
                    skipped[at][UNKNOWN] += made.tokens.unknown
                view = Watched(text, made.tokens, shown, each.rows)
                watched = views.setdefault((each.weights, each.rows), view)
                for meter in each.meters:
                    meter.update(watched)


def refuse_without_maps(encoder: Encoder) -> None:
    """An encoder that has no attention maps, or whose maps cannot be trusted, cannot be asked about them."""
    if not encoder.heads:
        raise ModelError(f"{encoder.name} has no attention heads; name a transformer, for example minilm")
    encoder.refuse(("maps",))


class _Reading(NamedTuple):
    """Texts read once for all watches that want them, cut alike."""

    texts: Iterable[Text]
    limit: int | None
    members: list[int]
    """The numbers of the watches."""


def _readings(watches: Mapping[int, Watch]) -> list[_Reading]:
    """The one of most texts first."""
    found: dict[tuple[int, int | None], _Reading] = {}
    for at, each in watches.items():
        new = _Reading(each.texts, each.limit, [])
        found.setdefault((id(each.texts), each.limit), new).members.append(at)
    first, *others = sorted(found.values(), key=lambda reading: -(watches[reading.members[0]].total or 0))
    # All but the first are read twice, which an iterator cannot be.
    return [first, *(each._replace(texts=_again(each.texts)) for each in others)]


def _again(texts: Iterable[Text]) -> Iterable[Text]:
    return list(texts) if isinstance(texts, Iterator) else texts


def _wanted(
    encoder: Encoder,
    watches: Mapping[int, Watch],
    waiting: dict[str, _Shown],
    skipped: list[Counter[str]],
) -> Iterator[Text]:
    """Every text that somebody wants, once; a text cut in two ways is two texts."""
    first, *others = _readings(watches)
    # What others want, and whether it was cut for them: shown together with the same text of the first.
    also: dict[Hashable, list[tuple[list[int], bool]]] = {}
    for reading in others:
        for text in reading.texts:
            kept = fit(encoder, text, reading.limit)
            also.setdefault(_known(kept), []).append((reading.members, kept is not text))
    for reading in (first, *others):
        for text in reading.texts:
            kept = fit(encoder, text, reading.limit)
            wanting = also.pop(_known(kept), []) if also else []
            if reading is first:
                wanting.append((first.members, kept is not text))
            if not wanting:
                continue  # shown already
            for members, cut in wanting:
                for member in members if cut else ():
                    skipped[member][CUT] += 1
            name = _free_name(kept.id, waiting)
            waiting[name] = _Shown(kept, [member for members, _ in wanting for member in members])
            yield kept if name == kept.id else replace(kept, id=name)


def _known(text: Text) -> Hashable:
    """Equal for texts that every meter would see alike."""
    return text.id, text_key(text), text.doc, hash(tuple(text.edges.items()))


def _free_name(name: str, taken: Collection[str]) -> str:
    """One that no text on its way has: the same text may come whole and cut."""
    numbered = (f"{name}#{number}" for number in count(2))
    return next(each for each in chain([name], numbered) if each not in taken)
