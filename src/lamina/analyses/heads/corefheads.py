"""Every head as an antecedent finder: does the head word of a mention attend most to that of an antecedent?

The coreference analysis of the attention paper, whose code was never released.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, Float, Int

from lamina.analyses.heads.behaviours import LEAD, is_ahead
from lamina.corpora import Corpus
from lamina.corpora.corpus import with_unique_ids
from lamina.corpora.treebanks import has_penn_tags
from lamina.errors import CorpusError
from lamina.framework.declare import ComparedValues, Table, Tables, analysis
from lamina.framework.inputs import Documents
from lamina.framework.settings import Rows, Samples, Seed, Setting, Weights
from lamina.framework.watch import CUT, Watch, WatchedBatch, Watching, first_token, refuse_without_maps
from lamina.models import SPECIAL, Encoder
from lamina.results import Result
from lamina.results.finding import Finding, Source, finding, percent, rows_of
from lamina.stats.best import cross_fit
from lamina.stats.family import Contrasts, sign_flip_family
from lamina.stats.intervals import ratio_intervals
from lamina.stats.status import Contrast
from lamina.stats.units import CHOOSING, SCORED, Halves, UnitSums, document_of, halve
from lamina.types import Edge, Span, Text

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
        # German NN says nothing of number: only tags of the Penn Treebank are read, and universal ones.
        tags = text.edges.get("xpos", ()) if has_penn_tags([text]) else ()
        for edge in (*text.edges.get("pos", ()), *tags):
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

    def _noun(self, words: tuple[str, ...], head: int, place: int) -> Form:
        """Number by what is joined to it and by its tag, gender by its title or by itself."""
        tags = self._tags.get(head, set())
        number = "singular" if tags & _SINGULAR_TAGS else None
        if "and" in words[place + 1 :] or tags & _PLURAL_TAGS:
            number = "plural"
        return Form(number, _GENDERS.get(words[place], _GENDERS.get(words[0])), "third")


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

    The head shown is the best on all documents, and findings state its test (see `leads`). `crossfit_accuracy` is free
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


def windows(encoder: Encoder, texts: Iterable[Text], most: int) -> Iterator[Text]:
    """Each text in as few windows of whole sentences as fit `most` tokens, special ones included.

    Sentences are those of the annotation `sentence`; a text without them stays whole, and a sentence longer than a
    window is one by itself. Targets that lie in two windows are lost.

    Example:
        >>> from lamina.testing import TinyEncoder
        >>> sentences = tuple(Edge((str(at),), Span(at, at + 2)) for at in (0, 2, 4))
        >>> text = Text("d", ("We", "ran", "He", "sat", "It", "fell"), edges={"sentence": sentences})
        >>> [(each.id, each.words) for each in windows(TinyEncoder(), [text], most=6)]
        [('d:1', ('We', 'ran', 'He', 'sat')), ('d:2', ('It', 'fell'))]
    """
    for text in texts:
        tokens = encoder.tokenize(text).words
        ends = sorted({edge.span.end for edge in text.edges.get("sentence", ())} - {len(text.words)})
        if len(tokens) <= most or not ends or len(text.segments) > 1:
            yield text
            continue
        word_tokens = tokens[tokens != SPECIAL]
        # Tokens before each word: a window's size without cutting it into tokens again.
        before = np.r_[0, np.cumsum(np.bincount(word_tokens, minlength=len(text.words)))]
        borders = _borders([0, *ends, len(text.words)], before, most - (len(tokens) - len(word_tokens)))
        for number, (start, end) in enumerate(pairwise(borders), start=1):
            yield _part(text, Span(start, end), number)


def _borders(ends: Sequence[int], before: np.ndarray, room: int) -> list[int]:
    borders = [0]
    for this, following in zip(ends[1:], [*ends[2:], None], strict=True):
        if following is None or before[following] - before[borders[-1]] > room:
            borders.append(this)
    return borders


def _part(text: Text, span: Span, number: int) -> Text:
    edges = {
        name: tuple(edge.shift(-span.start) for edge in annotated if _inside(edge, span))
        for name, annotated in text.edges.items()
    }
    return Text(f"{text.id}:{number}", text.words[span.start : span.end], edges=edges, doc=document_of(text))


def _inside(edge: Edge, window: Span) -> bool:
    return all(
        window.start <= span.start and span.end <= window.end for span in (edge.span, edge.other) if span is not None
    )


PAPER_PIECES = 128
"""What the paper cut documents to."""
_CALLED = {"nearest": "taking the nearest mention", "head match": "matching head words", "rules": "the rules"}
"""Baseline -> in words."""


@analysis(
    title="Heads that find antecedents",
    question="Which head points from a mention to one it corefers with?",
    method=(
        "For each mention with an antecedent in its window: is the word that its head word attends most to the head "
        "word of an antecedent? The best head of each type of mention is compared with three baselines on the same "
        "documents, by flipping the signs of whole documents, two-sided; one family of all heads, types and baselines "
        "(max-T). Its accuracy is also cross-fitted: the head is chosen on one half of the documents and scored on the "
        "other, then the other way round."
    ),
    cites=("Clark et al. 2019",),
    reads=Documents(),
    # Both halves choose and are scored; a best head per type; head and baselines are paired (3). Max-T instead of Holm;
    # findings state the contrast that is tested, beside cross-fitted scores (4). Tags of other sets are not read (5).
    version=5,
    tables={
        "coref": Table("One row per system and type of mention; the system `head` has one per head.", COLUMNS),
        "best": Table(
            "One row per type of mention and baseline: the type's best head against it. `difference`: head minus "
            "baseline; its interval and `p_adjusted` are two-sided, of one family: all heads, types and baselines. "
            "`needed` above 0: untested. `crossfit_` are scores of heads that other documents chose.",
            BEST_ANTECEDENTS,
        ),
    },
    chapter="heads",
    compares=ComparedValues(
        "best",
        ("mention_type",),
        "accuracy of the best head",
        ("crossfit_accuracy", "crossfit_low", "crossfit_high"),
        layer="layer",
    ),
    example="lamina corefheads minilm --corpus gum_open --split dev --out results/corefheads",
)
def corefheads(
    encoder: Encoder,
    corpus: Corpus,
    *,
    among: Annotated[
        Among, Setting("A head picks among all other words, or among the candidates that the baselines pick from.")
    ] = "words",
    window: Annotated[int, Setting("Maximum number of tokens of a window, where the model takes more.", min=16)] = 512,
    rows: Rows = "mean",
    weights: Weights = "attention",
    faithful: Annotated[
        bool,
        Setting(
            "As in the paper: the first 128 tokens of each document, and one best head for all types of mention, "
            "chosen on the documents it is scored on."
        ),
    ] = False,
    samples: Samples = 1000,
    seed: Seed = 0,
) -> Watching:
    """How often each attention head finds a mention's antecedent, beside three simple baselines.

    Documents with `chains` of mentions are cut at sentence ends into windows that fit the model; antecedents in
    another window are out of reach and counted. Texts with pairs of mentions (`coref`, as in GAP) stay as they are.

    The system `head` has one row per head, on all documents, `best head` the best of them for each type of mention, and
    `best head, cross-fitted` what such a choice is worth on other documents: a head is chosen on one half of the
    documents and scored on the other, then the other way round, and both are pooled.
    `best` compares it with every baseline: `difference` is head minus baseline on the same documents; its interval and
    `p_adjusted` (two-sided) belong to one family of all heads, types and baselines, since any of them could have been
    the best. Documents are what varies in all of them.

    Example:
        >>> corpus = lamina.load_corpus("gum_open", "dev", unit="document")  # doctest: +SKIP
        >>> corefheads(lamina.load_encoder("minilm"), corpus).tables["coref"]["system"].iloc[0]  # doctest: +SKIP
        'best head'
    """
    refuse_without_maps(encoder)
    mentions = _count_mentions(corpus)
    halves = halve(corpus, seed)
    if halves.by != "document":
        raise CorpusError(
            f"{corpus.name} ({corpus.split}) is one document; one half of the documents chooses a head and the other "
            "is scored, so give at least two (--split all has most)"
        )
    meter = CorefMeter(encoder.blocks * encoder.heads, halves, among=among, samples=samples, seed=seed)
    texts, most = _cut(encoder, corpus, window=window, faithful=faithful)
    skipped = yield Watch(encoder, texts, [meter], rows=rows, limit=most, weights=weights)
    counts = [meter.sums(half).counts[KINDS.index(ALL)] for half in (CHOOSING, SCORED)]
    if not all(counts):
        raise CorpusError(
            f"{corpus.name} ({corpus.split}): one half of the documents has no mention with an antecedent in reach; "
            "give more documents, or load them with --unit document"
        )
    skipped["mentions whose antecedents all lie outside their window"] = mentions - int(sum(counts))
    best = best_table(meter, encoder.heads, faithful=faithful)
    tables = {"coref": coref_table(meter, encoder.heads, best), "best": best}
    scored = {"mentions": int(sum(counts))}
    return Tables(tables, _named(skipped, most), model={"first_token": first_token(encoder)}, scored=scored)


@corefheads.finds
def _findings(result: Result) -> Iterable[Finding]:
    """The best head against each baseline over all types of mention, and of each type against its best baseline."""
    best = result.tables.get("best")
    if best is None or not set(BEST_ANTECEDENTS) <= set(best):
        return
    for row in rows_of(best[(best["mention_type"] == ALL) & (best["count"] > 0)]):
        yield _compared(row, _CALLED[str(row.baseline)])
    by_type = best[(best["mention_type"] != ALL) & (best["count"] > 0)]
    strongest = by_type.sort_values("baseline_accuracy", ascending=False).drop_duplicates("mention_type")
    for row in rows_of(strongest.sort_values("mention_type")):
        yield _compared(row, _CALLED[str(row.baseline)], f"Of {_TYPES.get(row.mention_type, row.mention_type)}, the")


_TYPES = {"pronoun": "pronouns", "proper": "proper names", "nominal": "nominal mentions"}
"""Type of mention -> what is looked for, in words."""


def _compared(row: Any, called: str, lead: str = "The") -> Finding:
    head = f"best single head, {row.layer}-{row.head},"
    plain = lead[:1].lower() + lead[1:]
    more = "more" if row.difference > 0 else "fewer"
    note = f"Chosen on other documents, the best head finds {percent(row.crossfit_accuracy)}." if not row.agrees else ""
    return finding(
        claim=(
            f"{lead} {head} finds {more} antecedents than {called}: {percent(row.accuracy)} against "
            f"{percent(row.baseline_accuracy)}"
        ),
        whether=f"{plain} {head} finds more or fewer antecedents than {called}",
        absent=f"{lead} {head} finds as many antecedents as {called}",
        contrast="difference",
        test=Contrast.of(row, *LEAD[:3]),
        source=Source("best", {"mention_type": row.mention_type, "baseline": row.baseline}),
        importance=("answers", "beats control", "localised") if row.difference > 0 else ("answers",),
        note=note,
    )


def _cut(encoder: Encoder, corpus: Corpus, *, window: int, faithful: bool) -> tuple[Iterable[Text], int]:
    """What is watched, and the most tokens of it: windows of documents, or the documents for their first 128."""
    if faithful:
        return corpus, PAPER_PIECES
    most = min(window, encoder.limit)
    return with_unique_ids(windows(encoder, corpus, most)), most


def _named(skipped: Mapping[str, int], most: int) -> dict[str, int]:
    """The counts, saying how many tokens were kept of what was cut."""
    return {f"texts cut to their first {most} tokens" if why == CUT else why: count for why, count in skipped.items()}


def _count_mentions(corpus: Corpus) -> int:
    """How many mentions of the corpus have an antecedent."""
    if not {"chains", "coref"} & set(corpus.annotations):
        has = ", ".join(corpus.annotations) or "none"
        raise CorpusError(
            f"{corpus.name} has no coreference (annotation chains or coref; it has: {has}); "
            "name a corpus that has, for example gum_open or gap_coreference"
        )
    mentions = sum(len(anaphors(text)) for text in corpus)
    if not mentions:
        raise CorpusError(f"{corpus.name} ({corpus.split}): no mention has an antecedent; load it with --unit document")
    return mentions
