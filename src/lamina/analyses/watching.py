"""One pass over a corpus, many meters: each reduces the maps of a batch to what it needs before they are gone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Generator, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, count, islice
from typing import Literal, NamedTuple, Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from lamina.analyses.declaration import Tables
from lamina.analyses.watched import From, WatchedBatch
from lamina.encoders import SPECIAL, Activations, Encoder
from lamina.encoders.contract import MapBatch, Want
from lamina.encoders.values import weigh_by_norm
from lamina.errors import ModelError
from lamina.progress import progress
from lamina.types import Edge, Span, Text, text_key

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
    encoder: Encoder, made: Activations, weights: Weighting
) -> Float[torch.Tensor, "block head token token"] | None:
    """The maps between pieces, special tokens included; None for a text that needed several windows."""
    if weights == "attention" or made.maps is None:
        return made.maps
    if made.norms is None:
        raise ModelError(NO_NORMS.format(name=encoder.name))
    return weigh_by_norm(made.maps, made.norms)


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
    ((_, kept),) = fitted(encoder, [text], limit)
    return kept


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
        norms = any(each.weights == "norm" for each in watches.values())
        for made in encoder.map_batches(_wanted(encoder, watches, waiting, skipped), norms=norms):
            shown = [waiting.pop(name) for name in made.texts]
            advance(len(shown))
            _show(encoder, made, shown, watches, skipped)
            # Released before the next batch runs, which needs the memory.
            del made


def _show(
    encoder: Encoder,
    made: MapBatch,
    shown: Sequence[_Shown],
    watches: Mapping[int, Watch],
    skipped: list[Counter[str]],
) -> None:
    """Show each watch those texts of a batch that it wants."""
    rows: dict[int, list[int]] = {}
    for row, (_, members) in enumerate(shown):
        for at in members:
            rows.setdefault(at, []).append(row)
    views: dict[tuple[Weighting, From, tuple[int, ...]], WatchedBatch] = {}
    maps: dict[Weighting, tuple[Tensor, ...]] = {}
    for at, own in rows.items():
        each = watches[at]
        if not made.maps:
            skipped[at][TOO_LONG] += len(own)
            continue
        if unknown := sum(made.tokens[row].unknown for row in own):
            skipped[at][UNKNOWN] += unknown
        if each.weights not in maps:
            maps[each.weights] = _weighted(encoder, made, each.weights)
        # Watches that want the same see the same: what one meter works out is there for all.
        view = (each.weights, each.rows, tuple(own))
        if view not in views:
            texts, tokens = tuple(shown[row].text for row in own), tuple(made.tokens[row] for row in own)
            views[view] = WatchedBatch(texts, tokens, _some(maps[each.weights], own), each.rows)
        for meter in each.meters:
            meter.update(views[view])


def _some(maps: tuple[Tensor, ...], rows: Sequence[int]) -> tuple[Tensor, ...]:
    """The maps of some texts of a batch."""
    if len(rows) == len(maps[0]):
        return maps
    chosen = torch.tensor(rows, device=maps[0].device)
    return tuple(block.index_select(0, chosen) for block in maps)


def _weighted(encoder: Encoder, made: MapBatch, weights: Weighting) -> tuple[Tensor, ...]:
    """The maps of every block, as they were asked for."""
    if weights == "attention":
        return made.maps
    if not made.norms:
        raise ModelError(NO_NORMS.format(name=encoder.name))
    return tuple(weigh_by_norm(block, norms) for block, norms in zip(made.maps, made.norms, strict=True))


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
        for text, kept in fitted(encoder, reading.texts, reading.limit):
            also.setdefault(_known(kept), []).append((reading.members, kept is not text))
    for reading in (first, *others):
        for text, kept in fitted(encoder, reading.texts, reading.limit):
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
