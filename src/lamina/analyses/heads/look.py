"""Heads on sentences: the maps of one sentence, the heads that stand out, rollout; and a corpus's clearest examples.

Examples are the sentences of a corpus in which heads do what they are known for most clearly, and those in which they
fail.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Final, Literal, NamedTuple, TypeVar

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from lamina.analyses.heads.heads import DIRECTIONS, dependencies, most_attended, relations_of, targets_of
from lamina.analyses.heads.surface import SurfaceMeter
from lamina.corpora.tokenising import split_words
from lamina.errors import InputError
from lamina.framework.declare import Table, Tables, analysis
from lamina.framework.inputs import Sentence
from lamina.framework.settings import Setting, Weights
from lamina.framework.watch import Meter, WatchedBatch, WatchedText, Weighting, refuse_without_maps, to_words, watch
from lamina.models import SPECIAL, Activations, Encoder, Tokens
from lamina.results import Result
from lamina.results.finding import Finding, Source, not_tested, number, rows_of
from lamina.types import Text

RESIDUAL = 0.5
"""What a token keeps of itself in every block: the residual connection counts as much as attention."""


def rollout(maps: Float[Tensor, "block head token token"]) -> Float[Tensor, "block token token"]:
    """From every token (row) down to the input tokens (column), after each block; rows sum to 1.

    A block's heads are averaged, and half of the mean is replaced by the token itself; blocks are multiplied, the last
    one first.

    Example:
        >>> maps = torch.tensor([[[[1.0, 0.0], [1.0, 0.0]]], [[[0.0, 1.0], [0.0, 1.0]]]])
        >>> rollout(maps)[-1].tolist()
        [[0.75, 0.25], [0.5, 0.5]]
    """
    one = torch.eye(maps.shape[-1], dtype=maps.dtype)
    mixed = (1 - RESIDUAL) * maps.mean(1) + RESIDUAL * one
    mixed /= mixed.sum(-1, keepdim=True)
    reached = [one]
    for block in mixed:
        reached.append(block @ reached[-1])
    return torch.stack(reached[1:])


Level = Literal["word", "piece"]
ROLLOUT: Final = "rollout"
"""In place of a head: what all heads of all layers together pass on."""
HeadOrRollout = tuple[int, int] | Literal["rollout"]
"""Layer and head, both from 1, or all of them together."""


class MapUnits(NamedTuple):
    """The rows and columns of a map: words or tokens, and special tokens."""

    names: list[str]
    owners: Int[np.ndarray, " token"]
    """The unit each token belongs to."""
    special: Bool[np.ndarray, " unit"]
    """Whether it is a special token."""


def watch_sentence(
    encoder: Encoder,
    sentence: str | Sequence[str],
    meters: Sequence[Meter] = (),
    *,
    most: int | None = None,
    weights: Weighting = "attention",
) -> WatchedText:
    """Every head's attention on one sentence, shown to the meters too.

    Args:
        encoder: whose heads.
        sentence: running text, split as anything typed is, or the words themselves.
        meters: who else watches.
        most: tokens, where less than the model takes; maps grow with their square.
        weights: attention as it is, or times the norm of what it moves.

    Example:
        >>> from lamina.testing import TinyEncoder
        >>> watch_sentence(TinyEncoder(), "Dogs bark.").maps.shape
        torch.Size([2, 2, 7, 7])
    """
    refuse_without_maps(encoder)
    words = split_words(sentence).words if isinstance(sentence, str) else tuple(sentence)
    if not words:
        raise InputError("the sentence has no words; give some")
    _refuse_broken(words)
    text = Text("typed", words)
    _refuse_too_long(encoder, text, most)
    keeper = _SingleText()
    watch(encoder, [text], [*meters, keeper], weights=weights)
    return keeper.watched


class _SingleText:
    """Keeps the one text there is."""

    watched: WatchedText

    def update(self, batch: WatchedBatch) -> None:
        (self.watched,) = batch.singly


def _refuse_broken(words: Sequence[str]) -> None:
    """An unpaired surrogate can be sent, but no tokenizer reads it."""
    for word in words:
        try:
            word.encode()
        except UnicodeEncodeError:
            raise InputError(f"{word!r} is not valid Unicode: it contains an unpaired surrogate; remove it") from None


def _refuse_too_long(encoder: Encoder, text: Text, most: int | None) -> None:
    size = len(encoder.tokenize(text).ids)
    if size > encoder.limit:
        raise InputError(
            f"the sentence has {size} tokens and {encoder.name} takes {encoder.limit} at once; give a shorter one"
        )
    if most is not None and size > most:
        raise InputError(f"the sentence has {size} tokens; at most {most} are shown here; give a shorter one")


def head_of(encoder: Encoder, name: str) -> tuple[int, int]:
    """Layer and head of `3-7`, both from 1.

    Example:
        >>> from lamina.testing import TinyEncoder
        >>> head_of(TinyEncoder(), "2-1")
        (2, 1)
    """
    refuse_without_maps(encoder)
    match = re.fullmatch(r"\s*(\d+)-(\d+)\s*", name)
    if match is None:
        raise InputError(f"the head {name!r} cannot be read; write LAYER-HEAD, as 3-7")
    layer, head = int(match[1]), int(match[2])
    if not (1 <= layer <= encoder.blocks and 1 <= head <= encoder.heads):
        raise InputError(
            f"there is no head {layer}-{head}: {encoder.name} has layers 1 to {encoder.blocks} "
            f"with heads 1 to {encoder.heads}"
        )
    return layer, head


def units_of(encoder: Encoder, text: Text, tokens: Tokens, level: Level) -> MapUnits:
    """The words or tokens of a text, with its special tokens.

    Example:
        >>> from lamina.testing import TinyEncoder
        >>> text = Text("a", ("Dogs", "bark"))
        >>> units_of(TinyEncoder(), text, TinyEncoder().tokenize(text), "word").names
        ['[special]', 'Dogs', 'bark', '[special]']
    """
    special = tokens.words == SPECIAL
    # A unit starts with every token, or with every special token and the first token of every word.
    starts = np.r_[True, tokens.words[1:] != tokens.words[:-1]] | special | (level == "piece")
    named = encoder.names(tokens) or [
        "[special]" if word == SPECIAL else text.words[word] for word in tokens.words.tolist()
    ]
    names = [
        named[index] if special[index] or level == "piece" else text.words[tokens.words[index]]
        for index in np.flatnonzero(starts).tolist()
    ]
    return MapUnits(names, np.cumsum(starts) - 1, special[starts])


def reach(watched: WatchedText) -> Float[np.ndarray, "block head"]:
    """How far each head looks: the mean of a word's largest weight on words more than one away.

    Example:
        >>> from lamina.testing import TinyEncoder
        >>> reach(watch_sentence(TinyEncoder(), "Dogs bark.")).shape
        (2, 2)
    """
    maps = watched.words.maps
    size = maps.shape[-1]
    near = (torch.arange(size)[:, None] - torch.arange(size)).abs() <= 1
    return maps.masked_fill(near, 0).amax(-1).mean(-1).numpy()


FLOOR, MOST = 0.01, 24
"""The smallest weight that is a link, and the most links of one word."""


class RowLinks(NamedTuple):
    """The links of each row, strongest first; the rest of a row is kept as a sum."""

    counts: Int[np.ndarray, " unit"]
    """Links of each row."""
    to: Int[np.ndarray, " link"]
    """The unit attended to."""
    weight: Float[np.ndarray, " link"]
    rest: Float[np.ndarray, " unit"]
    """What each row gives to everything else."""


class SentenceLinks(NamedTuple):
    """One sentence and the links of a few heads on it."""

    units: MapUnits
    words: list[int]
    """The word each unit belongs to; -1 for special tokens."""
    links: list[RowLinks]
    """Of each head, in the order asked for."""
    sinks: Bool[np.ndarray, " unit"]
    """Special tokens, and the first word of a decoder."""
    to_sinks: list[float]
    """The share of each head's attention that goes to sinks, from all other units."""


def sentence_links(
    encoder: Encoder,
    sentence: str | Sequence[str],
    heads: Sequence[HeadOrRollout],
    *,
    level: Level = "word",
    most: int | None = None,
    weights: Weighting = "attention",
) -> SentenceLinks:
    """Where some heads look in a sentence, as links between words or tokens.

    Args:
        encoder: whose heads.
        sentence: running text, or the words themselves.
        heads: layer and head of each, from 1; `rollout` for all of them together, down to the input.
        level: words, or the model's tokens.
        most: tokens, where less than the model takes.
        weights: attention as it is, or times the norm of what it moves.

    Example:
        >>> from lamina.testing import TinyEncoder
        >>> found = sentence_links(TinyEncoder(), "Dogs bark.", [(2, 1)])
        >>> found.units.names, found.words, found.links[0].counts.tolist()
        (['[special]', 'Dogs', 'bark', '.', '[special]'], [-1, 0, 1, 2, -1], [5, 5, 5, 5, 5])
    """
    seen = watch_sentence(encoder, sentence, most=most, weights=weights)
    units = units_of(encoder, seen.text, seen.tokens, level)
    wanted = [rollout(seen.maps)[-1] if head == ROLLOUT else seen.maps[head[0] - 1, head[1] - 1] for head in heads]
    maps = to_words(torch.stack(wanted)[None], units.owners).maps[0].numpy()
    firsts = np.flatnonzero(np.diff(units.owners, prepend=-1))
    words = seen.tokens.words[firsts]
    sinks = units.special | np.isin(words, sink_words(seen.tokens, causal=encoder.causal_maps))
    others = maps[:, ~sinks]
    to_sinks = others[..., sinks].sum(-1).mean(1) if others.size else np.zeros(len(maps))
    return SentenceLinks(units, words.tolist(), [strongest(head) for head in maps], sinks, to_sinks.tolist())


def strongest(weights: Float[np.ndarray, "unit unit"], *, floor: float = FLOOR, most: int = MOST) -> RowLinks:
    """The links of each row: weights of at least the floor, and of those the largest.

    Example:
        >>> found = strongest(np.array([[0.7, 0.2, 0.1], [0.0, 0.0, 1.0], [0.3, 0.3, 0.4]]), floor=0.15, most=2)
        >>> found.counts.tolist(), found.to.tolist(), found.rest.round(2).tolist()
        ([2, 1, 2], [0, 1, 2, 2, 0], [0.1, 0.0, 0.3])
    """
    order = np.argsort(-weights, axis=1, kind="stable")[:, :most]
    best = np.take_along_axis(weights, order, axis=1)
    linked = best >= floor
    rest = np.maximum(weights.sum(1) - np.where(linked, best, 0).sum(1), 0)
    return RowLinks(linked.sum(1), order[linked], best[linked], rest)


ATTENTION = ("layer", "head", "from", "from_word", "to", "to_word", "weight")
"""Columns of `attention.csv`."""
ROLLOUT_COLUMNS = ("layer", "from", "from_word", "to", "to_word", "weight")
"""Columns of `rollout.csv`."""

STANDING_OUT = {
    "to_previous": "previous token",
    "to_next": "next token",
    "to_first": "first token",
    "to_separator": "separator",
    "entropy": "broadest (entropy)",
}
"""Measure -> in words. Where no head is named, the head with the most of each is shown, and the most far-reaching."""
FAR = "farther words"
REQUESTED = "asked for"


class OutstandingHead(NamedTuple):
    """A head to show, and why."""

    layer: int
    head: int
    why: str
    value: float
    """Of what it stands out by; NaN where it was asked for."""


@analysis(
    title="Attention on one sentence",
    question="Where do chosen heads look in this sentence?",
    method=(
        "Each head's attention on the sentence is taken from one pass of the model. Between words, attention to a "
        "split word is the sum over its tokens and attention from it their mean. Rollout multiplies the blocks' maps, "
        "averaged over heads and mixed half and half with the token itself, down to the input."
    ),
    cites=("Clark et al. 2019", "Abnar and Zuidema 2020"),
    reads=Sentence(),
    version=2,  # a table of rollout
    tables={
        "attention": Table("One row per head and pair of words; positions count from 0.", ATTENTION),
        "heads": Table(
            "One row per head shown: why, and how much it has of what it stands out by.", OutstandingHead._fields
        ),
        "rollout": Table(
            "One row per layer and pair of words: how much of the input word's vector is mixed into the other there.",
            ROLLOUT_COLUMNS,
        ),
    },
    chapter="heads",
    needs=("maps",),
    example='lamina look minilm "The dog that chased the cats barked." --head 3-1 --head 3-9',
)
def look(
    encoder: Encoder,
    sentence: str | Sequence[str],
    *,
    heads: Annotated[
        Sequence[str],
        Setting(
            "A head, both numbers from 1; by default the heads that stand out.", option="--head", metavar="LAYER-HEAD"
        ),
    ] = (),
    level: Annotated[Level, Setting("Words, or the model's tokens.")] = "word",
    special: Annotated[bool, Setting("Show special tokens ([CLS], [SEP]).")] = True,
    focus: Annotated[
        str | None, Setting("Draw only the lines of this word, or of the word at this position.", metavar="WORD")
    ] = None,
    weights: Weights = "attention",
) -> Tables:
    """Where chosen heads look in a sentence, drawn as lines between its words.

    Where no head is named, those are shown that stand out on the sentence: most attention to the previous, next and
    first token and to separators, the largest entropy, and the largest mean of a word's strongest weight on words more
    than one position away. Without special tokens the weights of a row sum to less than 1.

    `rollout` follows attention through all blocks: what of each input word has been mixed into a word after a layer.

    Example:
        >>> from lamina.testing import TinyEncoder
        >>> found = look(TinyEncoder(), "Dogs bark.", heads=["2-1"], special=False)
        >>> found.tables["attention"][["from_word", "to_word"]].values.tolist()[:3]
        [['Dogs', 'Dogs'], ['Dogs', 'bark'], ['Dogs', '.']]
    """
    refuse_without_maps(encoder)
    requested = [OutstandingHead(*head_of(encoder, name), REQUESTED, float("nan")) for name in heads]
    surface = SurfaceMeter(encoder, samples=1)
    seen = watch_sentence(encoder, sentence, [surface], weights=weights)
    units = units_of(encoder, seen.text, seen.tokens, level)
    chosen = requested or standing_out(surface.table(), reach(seen))
    maps = to_words(seen.maps, units.owners).maps
    visible = np.flatnonzero(~units.special | special)
    table = pd.DataFrame(_rows(maps, units, chosen, visible), columns=list(ATTENTION))
    position = None if focus is None else _position(table, focus)
    tables = {
        "attention": table,
        "heads": pd.DataFrame(chosen, columns=list(OutstandingHead._fields)),
        "rollout": _rolled(to_words(rollout(seen.maps)[:, None], units.owners).maps[:, 0], units, visible),
    }
    return Tables(tables, data={"words": list(seen.text.words), "focus": position})


@look.finds
def _findings(result: Result) -> Iterable[Finding]:
    """The heads that stand out; one sentence can test nothing."""
    outstanding = result.tables["heads"].dropna(subset=["value"])
    if len(outstanding):
        named = ", ".join(f"{row.layer}-{row.head} ({row.why}: {number(row.value)})" for row in rows_of(outstanding))
        whether = f"the heads that stand out on this sentence, {named}, do so on others"
        yield not_tested(whether, "one sentence has no interval", source=[Source("heads")])


@look.shows
def _overview(result: Result) -> Iterable[str]:
    """One line per head."""
    for layer, head, why, value in rows_of(result.tables["heads"]):
        yield f"{layer}-{head}  {why}" + ("" if np.isnan(value) else f" {value:.2f}")


def standing_out(surface: pd.DataFrame, far: Float[np.ndarray, "block head"]) -> list[OutstandingHead]:
    """The head with the most of each measure, and the most far-reaching; one that leads several is named once."""
    rows = list(surface[["layer", "head", "measure", "value"]].itertuples(index=False))
    leaders = [
        max(
            (OutstandingHead(layer, head, why, value) for layer, head, name, value in rows if name == measure),
            key=_value,
        )
        for measure, why in STANDING_OUT.items()
    ]
    layer, head = divmod(int(far.argmax()), far.shape[1])
    leaders.append(OutstandingHead(layer + 1, head + 1, FAR, float(far.max())))
    first: dict[tuple[int, int], OutstandingHead] = {}
    for leader in leaders:
        if leader.value > 0:
            first.setdefault((leader.layer, leader.head), leader)
    return list(first.values())


def _value(chosen: OutstandingHead) -> float:
    return -1.0 if np.isnan(chosen.value) else chosen.value


def _rows(
    maps: Float[torch.Tensor, "block head unit unit"],
    units: MapUnits,
    chosen: Iterable[OutstandingHead],
    visible: np.ndarray,
) -> Iterator[tuple]:
    for layer, head, *_ in chosen:
        weights = maps[layer - 1, head - 1][visible][:, visible].tolist()
        for one, row in enumerate(weights):
            for other, weight in enumerate(row):
                yield layer, head, one, units.names[visible[one]], other, units.names[visible[other]], weight


def _rolled(rolled: Float[torch.Tensor, "block unit unit"], units: MapUnits, visible: np.ndarray) -> pd.DataFrame:
    weights = rolled.numpy()[:, visible[:, None], visible]
    layer, one, other = (axis.ravel() for axis in np.indices(weights.shape))
    names = np.array(units.names, object)[visible]
    columns = (layer + 1, one, names[one], other, names[other], weights.ravel())
    return pd.DataFrame(dict(zip(ROLLOUT_COLUMNS, columns, strict=True)))


def _position(table: pd.DataFrame, focus: str) -> int:
    words = dict(zip(table["from"], table["from_word"], strict=True))
    places = [position for position, word in words.items() if word.lower() == focus.lower()]
    if not places and focus.isdecimal() and int(focus) in words:
        places = [int(focus)]
    if len(places) != 1:
        listed = ", ".join(f"{position}:{word}" for position, word in words.items() if not places or position in places)
        problem = f"is in the sentence {len(places)} times" if places else "is not in the sentence"
        raise InputError(f"{focus!r} {problem}; give the word's number: {listed}")
    return places[0]


# One word of a sentence: for every head, the other word with the largest weight from it and to it.


class StrongestPartners(NamedTuple):
    """For every word and head the other word with the largest weight."""

    weight: Float[Tensor, "word block head"]
    partner: Int[Tensor, "word block head"]
    """The other word; -1 where there is none."""


class SentenceAttention(NamedTuple):
    """Attention between the words of a sentence, both ways. Attention to a word itself and to sinks is left out."""

    incoming: StrongestPartners
    """From another word to each word; nothing for a sink."""
    outgoing: StrongestPartners
    """From each word to another one."""
    sinks: list[int]
    """Words that are sinks; special tokens always are."""
    to_sinks: Float[Tensor, " word"]
    """The share of each word's attention that goes to sinks, over all heads."""


def sink_words(tokens: Tokens, *, causal: bool) -> list[int]:
    """The first word of a decoder, where no special token stands before it.

    Example:
        >>> from lamina.testing import TinyEncoder
        >>> sink_words(TinyEncoder().tokenize(Text("t", ("Dogs", "bark"))), causal=True)
        []
    """
    first = int(tokens.words[0]) if len(tokens.words) else SPECIAL
    return [first] if causal and first != SPECIAL else []


def attended(activations: Activations, *, causal: bool = False) -> SentenceAttention | None:
    """The strongest weights to and from every word, head by head; None where there are no maps.

    Attention to a split word is the sum over its tokens, attention from it their mean. There are no maps of a text that
    is longer than the model takes at once, nor of a model without heads.

    Example:
        >>> from lamina.testing import TinyEncoder
        >>> from lamina.types import Text
        >>> activations = next(iter(TinyEncoder().encode([Text("t", ("Dogs", "bark", "."))], ("maps",))))
        >>> found = attended(activations)
        >>> tuple(found.incoming.weight.shape), set(found.outgoing.partner[1].flatten().tolist()) <= {0, 2}
        ((3, 2, 2), True)
    """
    if activations.maps is None or activations.maps.numel() == 0:
        return None
    maps, special = to_words(activations.maps, activations.tokens.words)
    sinks = sink_words(activations.tokens, causal=causal)
    to_sinks = special + maps[..., sinks].sum(-1)
    hidden = torch.eye(maps.shape[-1], dtype=torch.bool)
    hidden[:, sinks] = True
    between = maps.masked_fill(hidden, -1)
    return SentenceAttention(_partners(between.mT), _partners(between), sinks, to_sinks.mean((0, 1)))


def _partners(weights: Float[Tensor, "block head word other"]) -> StrongestPartners:
    best = weights.max(-1)
    partner = best.indices.masked_fill(best.values <= 0, -1)
    return StrongestPartners(best.values.clamp(min=0).movedim(2, 0), partner.movedim(2, 0))


MOST_EXAMPLES = 5
"""Examples per head."""
_OFFSETS = {"previous": -1, "next": 1}


class LinkQuery(NamedTuple):
    """Which links of a head are examples."""

    relation: str = ""
    """Between a word and its head by this dependency; empty for links of any kind."""
    direction: str = ""
    """`dependent`: from the dependent to its head; `head`: the other way round."""
    offset: int = 0
    """To the word so far away; 0 for any other word."""

    @property
    def attends(self) -> bool:
        """Whether the word that a head is asked about attends; otherwise it is attended to."""
        return self.direction != DIRECTIONS[1]

    def in_words(self) -> str:
        """What is looked for.

        Example:
            >>> LinkQuery("dobj", "dependent").in_words(), LinkQuery(offset=-1).in_words(), LinkQuery().in_words()
            ('from a word to its head by dobj', 'to the previous word', 'between any two words')
        """
        if self.relation:
            by = f"by {self.relation}"
            return f"from a word to its head {by}" if self.direction == "dependent" else f"to a word's dependent {by}"
        return {-1: "to the previous word", 1: "to the next word"}.get(self.offset, "between any two words")


class LinkExample(NamedTuple):
    """The strongest link of a head in one sentence."""

    text: Text
    source: int
    """The word that attends."""
    target: int
    """The word attended to."""
    weight: float
    relation: str
    """The dependency that links the two words, if the corpus has one."""


class LinkMiss(NamedTuple):
    """A word for which a head chooses a wrong one."""

    text: Text
    word: int
    """The word that the head is asked about."""
    chosen: int
    """The word it attends most to (or, seen from the head of a relation, that attends most to it)."""
    right: int
    weight: float
    """Between the word asked about and the one chosen."""
    right_weight: float
    """Between the word asked about and the right one."""
    relation: str
    """The dependency between the word asked about and the right one, if the corpus has one."""


class HeadExamples(NamedTuple):
    """What a head does in a corpus: where it does it most clearly, and where it fails."""

    best: list[LinkExample]
    """The strongest links, the strongest first; at most one per sentence."""
    misses: list[LinkMiss]
    """Those with the largest weight on a wrong word, the largest first; at most one per sentence."""
    targets: int
    """Words that it was asked about; 0 where nothing is right or wrong."""
    hits: int
    """Of those, for how many it chooses the right one."""
    to_sinks: float
    """The share of its attention that goes to sinks: special tokens, and the first word of a decoder."""


Head = tuple[int, int]
"""Layer and head, both from 1."""


def queries_by(results: Mapping[str, Result], blocks: int, heads: int) -> dict[Head, LinkQuery]:
    """What every head is known for by results of `headmap` and `heads`: its best relation, the word before or after.

    Example:
        >>> queries_by({}, 1, 2)
        {(1, 1): LinkQuery(relation='', direction='', offset=0), (1, 2): LinkQuery(relation='', direction='', offset=0)}
    """
    queries = {(layer + 1, head + 1): LinkQuery() for layer, head in np.ndindex(blocks, heads)}
    for row in _saved_rows(results, "headmap", "points"):
        if row.behaviour in _OFFSETS:
            queries[row.layer, row.head] = LinkQuery(offset=_OFFSETS[row.behaviour])
    directions = {(row.layer, row.head, row.relation): row.direction for row in _saved_rows(results, "heads", "best")}
    # The relation with the largest lead is looked for: it comes last.
    known = [row for row in _saved_rows(results, "headmap", "behaviours") if row.behaviour == "syntactic"]
    for row in sorted(known, key=lambda scored: scored.difference):
        direction = directions.get((row.layer, row.head, row.what))
        if direction is not None:
            queries[row.layer, row.head] = LinkQuery(row.what, direction)
    return queries


def queries_for(relation: str, results: Mapping[str, Result], blocks: int, heads: int) -> dict[Head, LinkQuery]:
    """The same relation of every head, each in the direction in which `heads` found more; without it, from dependents.

    Example:
        >>> queries_for("dobj", {}, 1, 1)
        {(1, 1): LinkQuery(relation='dobj', direction='dependent', offset=0)}
    """
    queries = {(layer + 1, head + 1): LinkQuery(relation, DIRECTIONS[0]) for layer, head in np.ndindex(blocks, heads)}
    scored = [row for row in _saved_rows(results, "heads", "relations") if row.relation == relation]
    for row in sorted(scored, key=lambda scores: scores.accuracy):
        queries[row.layer, row.head] = LinkQuery(relation, row.direction)
    return queries


def examples_of(
    encoder: Encoder, texts: Iterable[Text], sought: Mapping[Head, LinkQuery], *, weights: Weighting = "attention"
) -> dict[Head, HeadExamples]:
    """For every head the sentences where it does most clearly what is sought, and where it fails; one pass for all.

    A head's answer for a word is that of the analysis `heads`: the other word with the largest weight in the word's
    row, or in its column, special tokens left out. Links between any two words are neither right nor wrong; those to
    the first word of a decoder, which is a sink, are no examples.

    Args:
        encoder: whose heads.
        texts: the sentences; of each, every head's strongest link counts.
        sought: head -> which links.
        weights: attention as it is, or times the norm of what it moves.

    Example:
        >>> from lamina.testing import SAMPLE_TEXTS, TinyEncoder
        >>> found = examples_of(TinyEncoder(), SAMPLE_TEXTS, {(2, 1): LinkQuery(offset=-1)})[2, 1]
        >>> [each.source - each.target for each in found.best]
        [1, 1, 1, 1, 1]
        >>> all(miss.chosen != miss.right == miss.word - 1 for miss in found.misses)
        True
    """
    meter = _ExampleMeter(sought, causal=encoder.causal_maps)
    watch(encoder, texts, [meter], weights=weights)
    return {
        head: HeadExamples(
            meter.best[head], meter.misses[head], meter.targets[head], meter.hits[head], meter.to_sinks(head)
        )
        for head in sought
    }


class _LinkTarget(NamedTuple):
    """A word asked about, the right answer, and the dependency between the two."""

    word: int
    right: int
    relation: str


class _ExampleMeter:
    """Keeps the strongest links and the clearest misses of every head, at most one of each per sentence."""

    def __init__(self, sought: Mapping[Head, LinkQuery], *, causal: bool) -> None:
        self._causal = causal
        self._sunk: Tensor | float = 0.0
        self._words = 0
        self.best: dict[Head, list[LinkExample]] = {head: [] for head in sought}
        self.misses: dict[Head, list[LinkMiss]] = {head: [] for head in sought}
        self.targets, self.hits = Counter[Head](), Counter[Head]()
        self._heads: dict[LinkQuery, list[Head]] = {}
        for head, kind in sought.items():
            self._heads.setdefault(kind, []).append(head)

    def update(self, batch: WatchedBatch) -> None:
        for watched in batch.singly:
            self._look(watched)

    def to_sinks(self, head: Head) -> float:
        """The share of a head's attention that goes to sinks, over all words."""
        return float(self._sunk[head[0] - 1, head[1] - 1]) / self._words if isinstance(self._sunk, Tensor) else 0.0

    def _look(self, watched: WatchedText) -> None:
        maps, text = watched.words.maps, watched.text
        answers, edges = most_attended(maps), _edges(text)
        sinks = sink_words(watched.tokens, causal=self._causal)
        self._sunk = self._sunk + (watched.words.special + maps[..., sinks].sum(-1)).sum(-1).double()
        self._words += maps.shape[-1]
        for kind, heads in self._heads.items():
            targets = _targets(kind, edges, len(text.words), sinks)
            if not targets:
                continue
            layers, places = (torch.tensor(numbers) - 1 for numbers in zip(*heads, strict=True))
            backwards = not kind.attends
            # By the word asked about, then its answer, whichever of the two attends.
            links = maps[layers, places].mT if backwards else maps[layers, places]
            self._keep_best(text, heads, links, targets, backwards=backwards)
            if kind != LinkQuery():
                self._keep_misses(text, heads, links, answers[int(backwards)][layers, places], targets)

    def _keep_best(
        self, text: Text, heads: list[Head], links: Tensor, targets: list[_LinkTarget], *, backwards: bool
    ) -> None:
        words, right = _places(targets)
        best = links[:, words, right].max(1)
        for head, weight, index in zip(heads, best.values.tolist(), best.indices.tolist(), strict=True):
            one, other, relation = targets[index]
            source, target = (other, one) if backwards else (one, other)
            _keep(self.best[head], LinkExample(text, source, target, weight, relation))

    def _keep_misses(
        self, text: Text, heads: list[Head], links: Tensor, answers: Tensor, targets: list[_LinkTarget]
    ) -> None:
        words, right = _places(targets)
        chosen = answers[:, words]
        weights = links[:, words].gather(2, chosen.clamp(min=0)[..., None])[..., 0]
        # Where a decoder's word has no answer at all, it is missed, but there is nothing to show.
        worst = weights.masked_fill((chosen == right) | (chosen < 0), -1).max(1)
        for index, head in enumerate(heads):
            self.targets[head] += len(targets)
            self.hits[head] += int((chosen[index] == right).sum())
            weight, number = float(worst.values[index]), int(worst.indices[index])
            if weight > 0:
                target = targets[number]
                beside = float(links[index, target.word, target.right])
                miss = LinkMiss(
                    text, target.word, int(chosen[index, number]), target.right, weight, beside, target.relation
                )
                _keep(self.misses[head], miss)


_Ranked = TypeVar("_Ranked", LinkExample, LinkMiss)


def _keep(ranked: list[_Ranked], example: _Ranked) -> None:
    """Add it if it is among the strongest; a corpus may have a sentence twice."""
    if len(ranked) == MOST_EXAMPLES and example.weight <= ranked[-1].weight:
        return
    if all(other.text.words != example.text.words for other in ranked):
        ranked[:] = sorted([*ranked, example], key=lambda one: -one.weight)[:MOST_EXAMPLES]


def _places(targets: Sequence[_LinkTarget]) -> tuple[Tensor, Tensor]:
    words, right = torch.tensor([target[:2] for target in targets]).T
    return words, right


def _edges(text: Text) -> dict[_LinkTarget, set[str]]:
    """The dependencies as `heads` asks for them -> what they are counted under."""
    columns = {name: index for index, name in enumerate(relations_of([text]))}
    targets, names = targets_of([text], columns), list(columns)
    labels = [edge.labels[0] for edge in dependencies(text)]
    rows = zip(targets.words.tolist(), targets.heads.tolist(), labels, strict=True)
    return {
        _LinkTarget(*row): {names[index] for index in np.flatnonzero(member)}
        for row, member in zip(rows, targets.members, strict=True)
    }


def _targets(
    kind: LinkQuery, edges: Mapping[_LinkTarget, set[str]], size: int, sinks: Sequence[int] = ()
) -> list[_LinkTarget]:
    """The links that heads are scored on in a text of `size` words; links to sinks are no examples of other links."""
    if kind.relation:
        # The reader may cut a text: what is gone cannot be asked for.
        return [target for target, names in edges.items() if kind.relation in names and max(target[:2]) < size]
    relations = {(target.word, target.right): target.relation for target in edges}
    pairs = ((one, other) for one in range(size) for other in range(size))
    return [
        _LinkTarget(one, other, relations.get((one, other), ""))
        for one, other in pairs
        if (other - one == kind.offset if kind.offset else one != other and other not in sinks)
    ]


def _saved_rows(results: Mapping[str, Result], analysis: str, table: str) -> Sequence:
    rows = results[analysis].tables.get(table, pd.DataFrame()) if analysis in results else pd.DataFrame()
    return list(rows.itertuples(index=False))
