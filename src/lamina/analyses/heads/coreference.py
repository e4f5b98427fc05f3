"""Every head as an antecedent finder: does the head word of a mention attend most to that of an antecedent?"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, Float, Int

from lamina.analyses.heads.behaviours import LEAD, is_ahead
from lamina.framework.watch import WatchedBatch
from lamina.stats.best import cross_fit
from lamina.stats.family import Contrasts, sign_flip_family
from lamina.stats.intervals import ratio_intervals
from lamina.stats.units import CHOOSING, SCORED, Halves, UnitSums
from lamina.types import Span, Text

TYPES = ("pronoun", "proper", "nominal")

_PRONOUN_TAGS = frozenset({"PRON", "PRP", "PRP$", "WP", "WP$"})
_PROPER_TAGS = frozenset({"PROPN", "NNP", "NNPS"})
_PLURAL_TAGS = frozenset({"NNS", "NNPS"})
_SINGULAR_TAGS = frozenset({"NN", "NNP"})
_NOUN_TAGS = _PROPER_TAGS | _PLURAL_TAGS | _SINGULAR_TAGS | {"NOUN"}
_AFTER = frozenset({"PP", "S", "SBAR", "VP", "RRC"})
"""Constituents that follow a noun phrase's head."""


class Form(NamedTuple):
    """What a form says of its referent; None where it does not say."""

    number: str | None
    gender: str | None
    person: str | None


_PRONOUNS = {
    Form("singular", None, "first"): "i me my mine myself",
    Form("plural", None, "first"): "we us our ours ourselves",
    Form(None, None, "second"): "you your yours yourself yourselves",
    Form("singular", "masculine", "third"): "he him his himself",
    Form("singular", "feminine", "third"): "she her hers herself",
    Form("singular", "neuter", "third"): "it its itself this that",
    Form("plural", None, "third"): "they them their theirs themselves these those",
    Form(None, None, "third"): "who whom whose which one oneself",
}
_GENDERED = {
    "masculine": "mr. mr sir man boy gentleman father son brother husband uncle king",
    "feminine": "mrs. mrs ms. ms miss madam woman girl lady mother daughter sister wife aunt queen",
}
_FORMS = {word: form for form, words in _PRONOUNS.items() for word in words.split()}
_GENDERS = {word: gender for gender, words in _GENDERED.items() for word in words.split()}


@dataclass(frozen=True, slots=True)
class Mention:
    """A mention as rules and heads see it."""

    span: Span
    head: int
    """Its head word."""
    type: str
    """One of `TYPES`."""
    words: tuple[str, ...]
    """In lower case."""
    form: Form

    @property
    def head_word(self) -> str:
        """In lower case."""
        return self.words[self.head - self.span.start]

    def agrees(self, other: Mention) -> bool:
        """Whether the two forms say nothing different."""
        pairs = zip(self.form, other.form, strict=True)
        return all(one is None or another is None or one == another for one, another in pairs)


class MentionReader:
    """Describes the mentions of one text by the annotations that it has.

    Example:
        >>> text = Text("t", ("Mrs.", "Dalloway", "bought", "the", "flowers", "herself"))
        >>> mention = MentionReader(text).read(Span(0, 2))
        >>> mention.type, mention.head_word, mention.form.gender
        ('proper', 'dalloway', 'feminine')
        >>> MentionReader(text).read(Span(5, 6)).agrees(mention)
        True
    """

    def __init__(self, text: Text) -> None:
        self._text = text
        self._tags: dict[int, set[str]] = {}
        for edge in (*text.edges.get("pos", ()), *text.edges.get("xpos", ())):
            self._tags.setdefault(edge.span.start, set()).update(edge.labels)
        self._governors = {
            edge.span.start: edge.other.start for edge in text.edges.get("dep", ()) if edge.other is not None
        }
        self._after = [edge.span for edge in text.edges.get("const", ()) if _AFTER & set(map(_bare, edge.labels))]

    def read(self, span: Span) -> Mention:
        """The mention of these words."""
        words = tuple(word.lower() for word in self._text.words[span.start : span.end])
        head = self.head(span)
        form = _FORMS.get(words[head - span.start]) or self._noun(words, head, head - span.start)
        return Mention(span, head, self._type(head, alone=len(words) == 1), words, form)

    def head(self, span: Span) -> int:
        """The first word whose syntactic head lies outside the mention, or that is the root.

        Without dependencies: the last noun, or else word, before the first clause, verb phrase or prepositional
        phrase that starts inside the mention. Without constituents either: the last word.
        """
        if self._governors:
            outside = (word for word in span if (up := self._governors.get(word)) == word or up not in span)
            return next(outside, span.end - 1)
        inside = [span_after.start for span_after in self._after if span.start < span_after.start < span.end]
        front = range(span.start, min(inside, default=span.end))
        nouns = [word for word in front if self._tags.get(word, set()) & _NOUN_TAGS] if inside else []
        return nouns[-1] if nouns else front[-1]

    def _type(self, head: int, *, alone: bool) -> str:
        tags, word = self._tags.get(head, set()), self._text.words[head]
        if tags & _PRONOUN_TAGS or (not tags and alone and word.lower() in _FORMS):
            return "pronoun"
        return "proper" if tags & _PROPER_TAGS or (not tags and word[:1].isupper()) else "nominal"

    def _noun(self, words: tuple[str, ...], head: int, at: int) -> Form:
        """Number by what is joined to it and by its tag, gender by its title or by itself."""
        tags = self._tags.get(head, set())
        number = "singular" if tags & _SINGULAR_TAGS else None
        if "and" in words[at + 1 :] or tags & _PLURAL_TAGS:
            number = "plural"
        return Form(number, _GENDERS.get(words[at], _GENDERS.get(words[0])), "third")


def _bare(label: str) -> str:
    """A constituent's label without its function: NP of NP-SBJ."""
    return label.partition("-")[0].partition("=")[0]


@dataclass(frozen=True, slots=True)
class Anaphor:
    """A mention that has an antecedent."""

    mention: Mention
    candidates: tuple[Mention, ...]
    """Who could be meant, the nearest first."""
    antecedents: frozenset[int]
    """The head words of the right ones."""


def anaphors(text: Text) -> list[Anaphor]:
    """The mentions of a text that have an antecedent in it.

    With `chains`, every mention of a chain but the first; a mention comes before another where its head word does,
    and all that come before are candidates. With `coref` (GAP), every pronoun that means one of its names, wherever
    the names stand; its names are the candidates.

    Example:
        >>> from lamina.types import Edge
        >>> chains = (Edge(("c1",), Span(0, 1)), Edge(("c2",), Span(2, 3)), Edge(("c1",), Span(4, 5)))
        >>> text = Text("t", ("Ann", "saw", "Bo", "while", "she", "ran"), edges={"chains": chains})
        >>> [(each.mention.head, [c.head for c in each.candidates], set(each.antecedents)) for each in anaphors(text)]
        [(4, [2, 0], {0})]
    """
    candidates = _of_chains(text) if "chains" in text.edges else _of_pairs(text)
    return [anaphor for anaphor in candidates if anaphor.antecedents]


def _of_chains(text: Text) -> Iterator[Anaphor]:
    chains: dict[Span, set[str]] = {}
    for edge in text.edges["chains"]:
        chains.setdefault(edge.span, set()).update(edge.labels)
    reader = MentionReader(text)
    mentions = [reader.read(span) for span in sorted(chains)]
    for mention in mentions:
        before = [other for other in mentions if other.head < mention.head]
        same = [other.head for other in before if not chains[other.span].isdisjoint(chains[mention.span])]
        yield Anaphor(mention, _nearest_first(mention, before), frozenset(same))


def _of_pairs(text: Text) -> Iterator[Anaphor]:
    names: dict[Span, dict[Span, bool]] = {}
    for edge in text.edges.get("coref", ()):
        if edge.other is not None:
            names.setdefault(edge.span, {})[edge.other] = "1" in edge.labels
    reader = MentionReader(text)
    for pronoun, named in names.items():
        mention = reader.read(pronoun)
        right = frozenset(reader.head(span) for span, same in named.items() if same)
        yield Anaphor(mention, _nearest_first(mention, [reader.read(span) for span in named]), right)


def _nearest_first(mention: Mention, others: Sequence[Mention]) -> tuple[Mention, ...]:
    return tuple(sorted(others, key=lambda other: abs(mention.head - other.head)))


Sieve = Callable[[Mention, Mention], bool]

SIEVES: tuple[Sieve, ...] = (
    lambda mention, other: mention.words == other.words,
    lambda mention, other: mention.head_word == other.head_word,
    lambda mention, other: mention.agrees(other),
    lambda *_: True,
)
"""Full string; head word; number, gender and person; anything."""

BASELINES: dict[str, tuple[Sieve, ...]] = {"nearest": SIEVES[3:], "head match": SIEVES[1:2], "rules": SIEVES}
"""System -> its sieves."""


def choose(anaphor: Anaphor, sieves: Sequence[Sieve]) -> Mention | None:
    """The nearest candidate that passes the first sieve any candidate passes; None where none passes any.

    Example:
        >>> text = Text("t", ("Ann", "and", "the", "dogs", "saw", "Ann"))
        >>> reader = MentionReader(text)
        >>> ann, dogs, again = (reader.read(span) for span in (Span(0, 1), Span(2, 4), Span(5, 6)))
        >>> choose(Anaphor(again, (dogs, ann), frozenset({0})), BASELINES["head match"]) == ann
        True
    """
    for passes in sieves:
        for candidate in anaphor.candidates:
            if passes(anaphor.mention, candidate):
                return candidate
    return None


Among = Literal["words", "mentions"]
"""Where a head's answer is looked for: among all other words, or among the head words of the candidates alone."""

ALL = "all"
KINDS = (*TYPES, ALL)


class CorefHits(NamedTuple):
    """Sums of a half, or of the whole; with one more axis in front, those of its documents or of its samples."""

    heads: Float[np.ndarray, "*units kind head"]
    baselines: Float[np.ndarray, "*units kind baseline"]
    counts: Float[np.ndarray, "*units kind"]


class CorefMeter:
    """Counts, for every head, baseline and type of mention, how many antecedents it finds; by document.

    Example:
        >>> from lamina.stats.units import halve
        >>> from lamina.framework.watch import watch
        >>> from lamina.testing import TinyEncoder
        >>> from lamina.types import Edge, Span, Text
        >>> chains = (Edge(("c1",), Span(0, 1)), Edge(("c1",), Span(2, 3)))
        >>> texts = [Text(str(i), ("Ann", "saw", "herself"), edges={"chains": chains}) for i in range(4)]
        >>> meter = CorefMeter(4, halve(texts, 0), among="words", samples=10, seed=0)
        >>> _ = watch(TinyEncoder(), texts, [meter])
        >>> dict(zip(KINDS, meter.sums().counts.tolist()))
        {'pronoun': 4.0, 'proper': 0.0, 'nominal': 0.0, 'all': 4.0}
    """

    def __init__(self, heads: int, halves: Halves, *, among: Among, samples: int, seed: int) -> None:
        """For `heads` heads in all blocks together."""
        self._heads, self._among = heads, among
        self._samples, self._seed = samples, seed
        self._sums = UnitSums(len(KINDS) * (heads + len(BASELINES) + 1), halves)

    def update(self, batch: WatchedBatch) -> None:
        """See `Meter.update`."""
        by_text = [anaphors(text) for text in batch.texts]
        mentions = [mention for members in by_text for mention in members]
        if not mentions:
            return
        texts = np.repeat(np.arange(len(by_text)), [len(members) for members in by_text])
        hits = np.vstack([self._by_heads(batch, texts, mentions), _by_rules(mentions)]).astype(float)
        kinds = np.array([[kind in (anaphor.mention.type, ALL) for kind in KINDS] for anaphor in mentions], float)
        for text, members in self._sums.together(batch.texts, texts):
            counted = np.hstack([kinds[members].T @ hits[:, members].T, kinds[members].sum(0)[:, None]])
            self._sums.add(counted.ravel(), text)

    def _by_heads(
        self, batch: WatchedBatch, texts: Int[np.ndarray, " anaphor"], mentions: Sequence[Anaphor]
    ) -> Bool[np.ndarray, "anyhead anaphor"]:
        """Whether each head gives most to an antecedent, of what it gives to the words that are looked among."""
        words = np.array([len(batch.texts[text].words) for text in texts])
        places = np.array([anaphor.mention.head for anaphor in mentions])
        allowed, right = (np.zeros((len(mentions), batch.words[0].shape[-1]), bool) for _ in range(2))
        for row, anaphor in enumerate(mentions):
            right[row, list(anaphor.antecedents)] = True
            if self._among == "mentions":
                allowed[row, [candidate.head for candidate in anaphor.candidates]] = True
        if self._among == "words":
            allowed = np.arange(allowed.shape[1]) < words[:, None]
            allowed[np.arange(len(mentions)), places] = False
        here = (torch.from_numpy(array).to(batch.device) for array in (texts, places, allowed, right))
        text, place, allowed_there, right_there = here
        hits = []
        for group in batch.words:
            # [anaphor, head, word]
            top, row = group[text, :, place].masked_fill(~allowed_there[:, None], 0).max(-1)
            hits.append(right_there.gather(1, row) & (top > 0))
        return torch.cat(hits, 1).T.cpu().numpy()

    def units(self) -> CorefHits:
        """What was counted in each document."""
        return self._shaped(self._sums.values())

    def halves(self) -> Int[np.ndarray, " unit"]:
        """The half of each document."""
        return self._sums.halves()

    def sums(self, half: int | None = None) -> CorefHits:
        """What was counted in one half, or in both."""
        return self._shaped(self._sums.total(half))

    def weights(self) -> Float[np.ndarray, "sample unit"]:
        """How often each bootstrap sample draws each document."""
        return self._sums.weights(samples=self._samples, seed=self._seed)

    def samples(self) -> CorefHits:
        """Sums over documents drawn with replacement."""
        return self._shaped(self.weights() @ self._sums.values())

    def _shaped(self, flat: np.ndarray) -> CorefHits:
        by_kind = flat.reshape(*flat.shape[:-1], len(KINDS), -1)
        return CorefHits(by_kind[..., : self._heads], by_kind[..., self._heads : -1], by_kind[..., -1])


def _by_rules(mentions: Sequence[Anaphor]) -> Bool[np.ndarray, "baseline anaphor"]:
    return np.array(
        [
            [
                (chosen := choose(anaphor, sieves)) is not None and chosen.head in anaphor.antecedents
                for anaphor in mentions
            ]
            for sieves in BASELINES.values()
        ]
    )


COLUMNS = ("system", "layer", "head", "mention_type", "count", "accuracy", "low", "high")
"""Of `coref.csv`."""


CROSS_FITTED = ("crossfit_accuracy", "crossfit_low", "crossfit_high")


BEST_ANTECEDENTS = (
    "mention_type", "layer", "head", *COLUMNS[4:], "baseline", "baseline_accuracy", *LEAD, "ahead", *CROSS_FITTED,
    "agrees",
)  # fmt: skip
"""Of `best.csv`."""


BEST, CROSS = "best head", "best head, cross-fitted"


def coref_table(meter: CorefMeter, per_block: int, best: pd.DataFrame) -> pd.DataFrame:
    """Every system and type of mention on all documents, as `coref.csv`; the best head as in `best_table`."""
    sums, samples = meter.sums(), meter.samples()
    best_rows = best.drop_duplicates("mention_type").reset_index(drop=True)
    crossed = dict(zip(("accuracy", "low", "high"), (best_rows[name] for name in CROSS_FITTED), strict=True))
    both = best_rows.assign(system=CROSS, layer=np.nan, head=np.nan, **crossed).dropna(subset=["accuracy"])
    parts = [best_rows.assign(system=BEST)[list(COLUMNS)], *([both[list(COLUMNS)]] if len(both) else [])]
    heads = [("head", index // per_block + 1, index % per_block + 1) for index in range(sums.heads.shape[-1])]
    systems = [(name, None, None) for name in BASELINES]
    for named, hits, drawn in (
        (systems, sums.baselines, samples.baselines),
        (heads, sums.heads, samples.heads),
    ):
        ends = [ratio_intervals(drawn[:, kind], samples.counts[:, kind]) for kind in range(len(KINDS))]
        rows = [
            (
                *place,
                mention_type,
                int(count),
                _share(hits[kind, index], count),
                *(float(end[index]) for end in ends[kind]),
            )
            for index, place in enumerate(named)
            for kind, (mention_type, count) in enumerate(zip(KINDS, sums.counts, strict=True))
        ]
        parts.append(pd.DataFrame(rows, columns=list(COLUMNS)))
    return pd.concat([part.astype({"layer": "Int64", "head": "Int64"}) for part in parts], ignore_index=True)


def leads(units: CorefHits, *, seed: int = 0) -> Contrasts:
    """Every head beside every baseline, by type of mention: does it find more, or fewer, on the same documents?

    One family: all types, heads and baselines, signs of whole documents flipped, two-sided.

    Returns:
        [kind, head, baseline].
    """
    lead = units.heads[..., None] - units.baselines[..., None, :]
    counts = np.broadcast_to(units.counts[..., None, None], lead.shape)
    return sign_flip_family(lead, counts, bounds=(-1.0, 1.0), seed=seed)


def best_table(meter: CorefMeter, per_block: int, *, faithful: bool = False) -> pd.DataFrame:
    """The best head of each type of mention beside every baseline, as `best.csv`.

    The head shown is the best on all documents, and its test is the one told (see `leads`). `crossfit_accuracy` is free
    of the luck of the best of many: each half of the documents is scored by the head that the other half chose for the
    type; `agrees` says whether both halves chose the head that is shown. `faithful`: one head for all types, the best
    over all mentions, and nothing cross-fitted. Types that only one half has are left out.
    """
    units, halves, weights, sums = meter.units(), meter.halves(), meter.weights(), meter.sums()
    tests, samples = leads(units), meter.samples()
    overall = int(sums.heads[KINDS.index(ALL)].argmax())
    rows = []
    for kind, name in enumerate(KINDS):
        counts, heads = units.counts[:, kind], units.heads[:, kind]
        if not all(counts[halves == half].any() for half in (CHOOSING, SCORED)):
            continue
        total = float(counts.sum(dtype=float))
        crossed_heads = cross_fit(heads, halves)
        head = overall if faithful else crossed_heads.system
        low, high = (float(end[head]) for end in ratio_intervals(samples.heads[:, kind], samples.counts[:, kind]))
        place = (name, head // per_block + 1, head % per_block + 1, int(total))
        scored = (_share(sums.heads[kind, head], total), low, high)
        crossed = (float("nan"),) * 3
        if not faithful:
            ends = (float(end) for end in ratio_intervals(weights @ crossed_heads.hits, weights @ counts))
            crossed = (_share(crossed_heads.hits.sum(dtype=float), total), *ends)
        for index, baseline in enumerate(BASELINES):
            beside = (baseline, _share(sums.baselines[kind, index], total))
            tested = (float(values[kind, head, index]) for values in tests)
            rows.append((*place, *scored, *beside, *tested, False, *crossed, faithful or crossed_heads.agrees))
    table = pd.DataFrame(rows, columns=list(BEST_ANTECEDENTS)).astype({"units": int, "needed": int})
    return table.assign(ahead=is_ahead(table))


def _share(hits: float | np.floating, count: float | np.floating) -> float:
    return float(hits) / float(count) if count else float("nan")
