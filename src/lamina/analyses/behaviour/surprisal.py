"""How surprising a language model finds each word of a corpus, compared with models that only count words."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Int

from lamina.analyses.behaviour.inputs import NGrams, SpokenSplits
from lamina.corpora.splits import Splits
from lamina.errors import CorpusError
from lamina.framework.declare import ComparedItems, Overview, Table, Tables, analysis
from lamina.framework.estimate import Cost, Estimator, memory_now
from lamina.framework.settings import Samples, Seed, Setting, Twin
from lamina.models import Encoder
from lamina.models.language.language_model import (
    LanguageModel,
    Masking,
    WrittenPassage,
    cut_passages,
    language_model,
    score_passages,
)
from lamina.progress import progress
from lamina.results import Result
from lamina.results.finding import Finding, Source, cell, finding, number, rows_of
from lamina.stats.bootstrap import StreamedBootstrap
from lamina.stats.correlations import KINDS, Correlations
from lamina.stats.family import Contrasts, bootstrap_family, sign_flip_family
from lamina.stats.intervals import interval
from lamina.stats.status import Contrast
from lamina.stats.units import Units, unit_of
from lamina.types import Text

NEGLIGIBLE_BITS = 0.05
"""A difference in bits per word that means nothing."""
NEGLIGIBLE_RHO = 0.02
"""A difference of rank correlations that means nothing."""
LENGTH, FREQUENCY = "length", "log_frequency"
"""What surprisal is correlated with: characters, and the logarithm of one more than the count in the training texts."""
MEASURES = ("bits_per_word", "perplexity_per_word", "perplexity_per_piece")
"""Of the summary."""
NOTHING = "nothing"
"""In place of what is held constant."""
_GROUP = "bits per word"
"""The one group of items."""
_TRIED = 5000
"""Tokens, and words, of the trial that estimates the time."""
_FEWEST = 10
"""Words that a correlation needs."""
_SUMMARY = ("model", "measure", "value", "low", "high")
_TEST = ("low", "high", "p_adjusted", "units", "needed")
_DIFFERENCES = ("model", "against", "difference", *_TEST, "unit")
_CONTRASTS = ("model", "against", "with", "given", "difference", *_TEST, "unit")
_CORRELATIONS = ("model", "with", "given", "kind", "value", "low", "high", "words")
_BANDS = ("model", "by", "band", "words", "surprisal", "low", "high")
_WORDS = ("text", "index", "word", "surprisal")
_BASELINES = ("text", "index", "length", "frequency", "twin", "unigram", "ngram")
_ITEMS = ("item", "group", "value", "words", "twin", "unigram", "ngram")


@analysis(
    title="Surprisal of words",
    question="How surprising does a language model find each word, and is that more than word counts explain?",
    method=(
        "A word's surprisal is minus the base-2 logarithm of its probability, in bits, summed over its tokens. A "
        "causal model predicts each token from what comes before it in the text; a masked model from all of the text "
        "with the token masked, which is pseudo-surprisal: it sees both sides. Baselines are a unigram and an n-gram "
        "model (interpolated Kneser-Ney) of the corpus's training texts and the twin with random weights, on the same "
        "words. 95 % intervals resample documents; differences from baselines are tested together, paired by document "
        "(max-T)."
    ),
    cites=("Salazar et al. 2020", "Kauf & Ivanova 2023", "Chen & Goodman 1998"),
    reads=SpokenSplits(default="ud_english_ewt"),  # has the spaces between words; ewt does not
    version=2,  # differences and correlations beside baselines are tested
    tables={
        "words": Table("One row per word of the model's surprisal, in bits.", _WORDS),
        "summary": Table("One row per model and measure.", _SUMMARY),
        "differences": Table(
            "One row per baseline: bits per word of the model minus its. Family: all baselines; two-sided; signs of "
            "documents are flipped.",
            _DIFFERENCES,
        ),
        "correlations": Table("One row per model, property of words, kind and what is held constant.", _CORRELATIONS),
        "contrasts": Table(
            "One row per baseline, property of words and what is held constant: Spearman's rho of the model minus the "
            "baseline's. Family: all rows; two-sided; documents are resampled.",
            _CONTRASTS,
        ),
        "bands": Table("One row per model and group of words: their mean surprisal, in bits.", _BANDS),
        "baselines": Table(
            "One row per word: its length, its count in the training texts, and what baselines find, in bits.",
            _BASELINES,
            format="parquet",
        ),
        "items": Table(
            "One row per document (text, where documents are not known): bits per word.", _ITEMS, format="parquet"
        ),
    },
    chapter="words",
    report={},
    compares=ComparedItems(
        unit="document", measure="surprisal", harmless=("order", "samples", "twin", "seed"), ability=False
    ),
    example="lamina surprisal smollm2 --corpus ud_english_ewt --limit 200 --out results/surprisal",
)
def surprisal(
    encoder: Encoder,
    splits: Splits,
    *,
    masking: Annotated[
        Masking, Setting("What a masked model has masked: the scored token, or also the later tokens of its word.")
    ] = "piece",
    order: Annotated[int, Setting("Longest n-gram of the n-gram model, in words.", min=2, max=7)] = 3,
    samples: Samples = 1000,
    twin: Twin = True,
    seed: Seed = 0,
) -> Tables:
    """Surprisal of every word, compared with a unigram, an n-gram and an untrained model.

    Words are read text by text (sentence by sentence by default; `unit="document"` gives the model more context).
    The n-gram models learn from the corpus's training texts, `limit` is of the scored texts alone.

    Example:
        >>> result = lamina.surprisal("smollm2", "ud_english_ewt", limit=200)  # doctest: +SKIP
        >>> result.tables["words"].columns.tolist()  # doctest: +SKIP
        ['text', 'index', 'word', 'surprisal']
    """
    model = language_model(encoder)
    texts = list(splits.scored)
    counts = Counter(word.lower() for text in splits.train for word in text.words)
    scores = scored_by(model, texts, masking)
    words = CorpusWords(texts, scores, counts)
    if not words.scored.any():
        raise CorpusError(f"{splits.name}: the model has a probability for none of its words; nothing can be scored")
    speakers = {model.name: scores}
    if twin:
        other = model.random_twin(seed)
        speakers[other.name] = scored_by(other, texts, masking)
    fold = folds_case(encoder)
    models = [NGrams.of((read_words(text, fold) for text in splits.train), length) for length in (1, order)]
    speakers |= {grams.name: counted_by(grams, words, fold) for grams in models}
    unknown = sum(not models[0].knows(word) for text in texts for word in read_words(text, fold))
    sums = SurprisalSums(speakers, words, samples, seed)
    correlated = _correlated(speakers, words, samples, seed)
    tables = {
        "words": _word_table(words, scores),
        "summary": pd.DataFrame(_summary(speakers, sums), columns=list(_SUMMARY)),
        "differences": pd.DataFrame(_differences(sums, words.unit), columns=list(_DIFFERENCES)),
        "correlations": pd.DataFrame(_correlations(speakers, words, correlated), columns=list(_CORRELATIONS)),
        "contrasts": pd.DataFrame(_contrasts(list(speakers), words.unit, correlated), columns=list(_CONTRASTS)),
        "bands": pd.DataFrame(_bands(sums, words), columns=list(_BANDS)),
        "baselines": _baselines(speakers, words),
        "items": _items(speakers, words),
    }
    return Tables(tables, _left_out(words, scores, unknown), scored={"words": int(words.scored.sum())})


def _summary(speakers: Mapping[str, WordSurprisals], sums: SurprisalSums) -> Iterator[tuple[Any, ...]]:
    for name, scores in speakers.items():
        per_word = sums.bits(name)
        yield name, MEASURES[0], *per_word.interval()
        yield name, MEASURES[1], *BootstrappedMean(2**per_word.all).interval()
        if scores.pieces is not None:
            yield name, MEASURES[2], *BootstrappedMean(2 ** sums.bits(name, by=PIECES).all).interval()


def _differences(sums: SurprisalSums, unit: str) -> Iterator[tuple[Any, ...]]:
    model, *others = sums.names
    tests = more_bits(sums.by_unit[:, : len(sums.names)], sums.by_unit[:, WORDS])
    for member, name in enumerate(others):
        yield model, name, *_tested(tests, member), unit


def more_bits(bits: Float[np.ndarray, "unit model"], words: Float[np.ndarray, " unit"]) -> Contrasts:
    """Bits per word of the first model minus those of every other, paired by document.

    Example:
        >>> bits = np.array([[70.0, 80], [62, 75], [81, 90], [66, 70], [64, 71], [75, 88], [70, 82]])
        >>> more_bits(bits, np.full(7, 10.0)).p.round(3).tolist()
        [0.016]
    """
    return sign_flip_family(bits[:, :1] - bits[:, 1:], words)


def _tested(tests: Contrasts, member: int) -> tuple[float, ...]:
    """Difference, interval, p, units and how many are needed, of one member."""
    return tuple(float(np.ravel(values)[member]) for values in tests)


def _bands(sums: SurprisalSums, words: CorpusWords) -> Iterator[tuple[Any, ...]]:
    for name in sums.names:
        for (by, band), numbers in words.bands.items():
            yield name, by, band, len(numbers), *sums.bits(name, (by, band)).interval()


_CORRELATED = ((LENGTH, NOTHING), (LENGTH, FREQUENCY), (FREQUENCY, NOTHING), (FREQUENCY, LENGTH))
"""What surprisal is correlated with, and what is held constant."""


def _correlated(
    speakers: Mapping[str, WordSurprisals], words: CorpusWords, samples: int, seed: int
) -> Correlations | None:
    """Only of words with a letter: punctuation is short, frequent and easy to predict."""
    numbers = np.flatnonzero(words.spelled)
    if len(numbers) < _FEWEST:
        return None
    variables = {LENGTH: words.length[numbers].astype(float), FREQUENCY: np.log2(words.frequency[numbers] + 1)}
    variables |= {name: scores.bits[numbers] for name, scores in speakers.items()}
    documents = [words.units[text] for text in words.text[numbers]]
    return Correlations(variables, documents, samples=samples, seed=seed)


def _correlations(
    speakers: Mapping[str, WordSurprisals], words: CorpusWords, correlations: Correlations | None
) -> Iterator[tuple[Any, ...]]:
    if correlations is None:
        return
    count = int(words.spelled.sum())
    for name in speakers:
        for one, given in _CORRELATED:
            for kind in KINDS:
                yield name, one, given, kind, *correlations.of(name, one, kind, given=_constant(given)), count


def _contrasts(names: Sequence[str], unit: str, correlations: Correlations | None) -> Iterator[tuple[Any, ...]]:
    if correlations is None:
        return
    model, *others = names
    rows = [(other, one, given) for other in others for one, given in _CORRELATED]
    tests = rho_differences(correlations, model, [(other, one, _constant(given)) for other, one, given in rows])
    for member, row in enumerate(rows):
        yield model, *row, *_tested(tests, member), unit


def rho_differences(correlations: Correlations, model: str, rows: Sequence[tuple[str, str, str | None]]) -> Contrasts:
    """Spearman's rho of one model minus that of another, per variable and what is held constant."""
    draws = np.column_stack(
        [
            correlations.draws(model, one, "spearman", given=given)
            - correlations.draws(other, one, "spearman", given=given)
            for other, one, given in rows
        ]
    )
    return bootstrap_family(draws[0], draws[1:], correlations.units, bounds=(-2.0, 2.0))


def _constant(given: str) -> str | None:
    return None if given == NOTHING else given


def _word_table(words: CorpusWords, scores: WordSurprisals) -> pd.DataFrame:
    ids = [text.id for text in words.texts for _ in text.words]
    index = np.arange(len(words.forms)) - words.starts[words.text]
    return pd.DataFrame(dict(zip(_WORDS, (ids, index, words.forms, scores.bits), strict=True)))


def _baselines(speakers: Mapping[str, WordSurprisals], words: CorpusWords) -> pd.DataFrame:
    table = _word_table(words, next(iter(speakers.values())))[["text", "index"]]
    return table.assign(length=words.length, frequency=words.frequency, **_by_role(speakers))


def _by_role(speakers: Mapping[str, WordSurprisals]) -> dict[str, Float[np.ndarray, " word"]]:
    """Surprisal by each of the baselines; NaN without a twin."""
    model, *twin, unigram, ngram = (scores.bits for scores in speakers.values())
    return {"twin": twin[0] if twin else np.full(len(model), np.nan), "unigram": unigram, "ngram": ngram}


def _items(speakers: Mapping[str, WordSurprisals], words: CorpusWords) -> pd.DataFrame:
    """Means by document: what two models are paired by."""
    numbers = np.flatnonzero(words.scored)
    table = pd.DataFrame({"item": [words.units[text] for text in words.text[numbers]], "group": _GROUP, "words": 1})
    bits = {"value": next(iter(speakers.values())).bits, **_by_role(speakers)}
    table = table.assign(**{name: surprisals[numbers] for name, surprisals in bits.items()})
    means = {name: (name, "mean") for name in bits}
    means_by_item = table.groupby(["item", "group"], sort=False).agg(words=("words", "size"), **means).reset_index()
    return means_by_item[list(_ITEMS)]


def _left_out(words: CorpusWords, scores: WordSurprisals, unknown: int) -> dict[str, int]:
    unspelled = int((words.scored & ~words.spelled).sum())
    return {
        "words inside a token of the word before (cannot: can, not), counted as one word with it": words.shared,
        "words that the model's vocabulary cannot spell, without surprisal": int((~words.scored).sum()) - words.shared,
        "words without a letter, left out of correlations and of bands of frequency and length": unspelled,
        "words not in the training texts: n-gram models know them all as one unknown word": unknown,
        "texts longer than the model's limit, scored in overlapping windows": scores.windowed,
        "texts of a corpus that does not say where spaces are: words joined by spaces": _unspaced(words),
    }


def _unspaced(words: CorpusWords) -> int:
    """All texts of a corpus that never marks a word as following without a space."""
    return 0 if any(text.glued for text in words.texts) else len(words.texts)


@surprisal.finds
def _findings(result: Result) -> Iterable[Finding]:
    """Bits against the n-gram model and the twin; then correlations with frequency and length, against the twin."""
    about = _SurprisalNumbers.of(result)
    others = {about.ngram: about.ngram_in_words}
    if about.twin:
        others[about.twin] = "its twin with random weights"
    for name, beside in others.items():
        table = result.tables["differences"]
        (row,) = rows_of(table[table["against"] == name])
        yield finding(
            claim=f"{about.model} finds {number(about.bits(about.model)[0])} bits of {about.measure_name} in a word; "
            f"{beside} finds {number(about.bits(name)[0])}",
            whether=f"{about.model} finds words less surprising than {beside} does",
            absent=f"{about.model} finds words as surprising as {beside} does",
            contrast="difference",
            test=Contrast.of(row, "difference"),
            source=[
                Source("differences", {"against": name}),
                *(Source("summary", {"model": speaker, "measure": MEASURES[0]}) for speaker in (about.model, name)),
            ],
            unit=row.unit,
            importance=("answers", "beats control") if name == about.ngram else ("beats control",),
            margin=NEGLIGIBLE_BITS,
        )
    other, whose = (about.twin, "the twin's") if about.twin else (about.ngram, f"the {about.ngram} model's")
    measure_name = about.measure_name.capitalize()
    for one, given, text in (
        (FREQUENCY, NOTHING, "the log frequency of words"),
        (LENGTH, FREQUENCY, "the length of words of equal frequency"),
    ):
        where = {"with": one, "given": given}
        table = result.tables["contrasts"]
        rows = table[(table["against"] == other) & (table["with"] == one) & (table["given"] == given)]
        for row in rows_of(rows):
            ours, beside = (about.correlation(name, one, given) for name in (about.model, other))
            if ours is None or beside is None:
                continue
            yield finding(
                claim=f"{measure_name} and {text} correlate with Spearman's rho {number(ours[0])}; {whose} with "
                f"{number(beside[0])}",
                whether=f"{about.measure_name} of {about.model} depends on {text} otherwise than {whose}",
                absent=f"{measure_name} and {text} correlate as {whose} does",
                contrast="difference",
                test=Contrast.of(row, "difference"),
                source=[
                    Source("contrasts", {"against": other, **where}),
                    *(
                        Source("correlations", {"model": name, **where, "kind": "spearman"})
                        for name in (about.model, other)
                    ),
                ],
                unit=row.unit,
                importance=("beats control",),
                margin=NEGLIGIBLE_RHO,
            )


@surprisal.shows
def _overview(result: Result) -> Iterable[Overview]:
    """One row per model."""
    about = _SurprisalNumbers.of(result)
    rows = []
    for name in dict.fromkeys(result.tables["summary"]["model"]):
        likely = [f"{value[0]:,.1f}" if (value := about.measure(name, measure)) else "" for measure in MEASURES[1:]]
        both = [about.correlation(name, variable, NOTHING) for variable in (LENGTH, FREQUENCY)]
        rows.append((name, cell(*about.bits(name)), *likely, *(cell(*values) if values else "" for values in both)))
    corpus = result.provenance.corpus
    columns = ("model", "bits per word", "perplexity", "per token", "rho, length", "rho, log frequency")
    yield Overview(f"{about.measure_name.capitalize()} on {corpus['name']} ({corpus['split']})", columns, rows)


class _SurprisalNumbers(NamedTuple):
    """Numbers of a result, by model."""

    result: Result
    model: str
    ngram: str
    twin: str | None
    masked: bool

    @classmethod
    def of(cls, result: Result) -> _SurprisalNumbers:
        model, *twin, _, ngram = dict.fromkeys(result.tables["summary"]["model"])
        return cls(result, model, ngram, twin[0] if twin else None, is_masked(result))

    @property
    def measure_name(self) -> str:
        return "pseudo-surprisal" if self.masked else "surprisal"

    @property
    def ngram_in_words(self) -> str:
        """A masked model has more to go by."""
        sees = ", which sees only the words before," if self.masked else ""
        about = self.result.provenance.corpus
        other = about.get("train", {}).get("name", about["name"])
        of = f" of {other}" if other != about["name"] else ""
        return f"a {self.ngram} model of the training texts{of}{sees}"

    def bits(self, name: str) -> tuple[float, float, float]:
        return self.measure(name, MEASURES[0]) or (math.nan, math.nan, math.nan)

    def measure(self, name: str, measure: str) -> tuple[float, float, float] | None:
        table = self.result.tables["summary"]
        return _interval(table[(table["model"] == name) & (table["measure"] == measure)])

    def correlation(self, name: str, one: str, given: str) -> tuple[float, float, float] | None:
        table = self.result.tables["correlations"]
        rows = (table["model"] == name) & (table["with"] == one) & (table["given"] == given)
        return _interval(table[rows & (table["kind"] == "spearman")])


def is_masked(result: Result) -> bool:
    """Whether a result's numbers are pseudo-surprisal."""
    return str(result.provenance.model.get("head", "")).startswith("masked")


def _interval(rows: pd.DataFrame) -> tuple[float, float, float] | None:
    intervals = [(float(row.value), float(row.low), float(row.high)) for row in rows_of(rows)]
    return intervals[0] if intervals else None


@surprisal.costs
def _cost(estimator: Estimator, encoder: Encoder, splits: Splits, *, twin: bool, **__: Any) -> Cost:
    """Texts are read once, by a masked model once for each of their tokens."""
    model = language_model(encoder)
    texts, tokens = estimator.count(splits.scored)
    words = np.array([len(text.words) for text in splits.scored])
    sizes = words * tokens / max(1, words.sum())
    reads = sizes * (np.minimum(sizes, encoder.limit) if model.kind == "masked" else 1)
    work = float(reads.sum()) * (1 + twin) * estimator.per_token
    return Cost(1 + twin, texts, tokens, memory=memory_now() + 400 * int(words.sum()), work=work)


WORDS, PIECES = -2, -1
"""What a mean is taken over: the columns of sums that count them."""
_LONGEST = 12
"""From this length on, words are one band."""


class WordSurprisals(NamedTuple):
    """Surprisal of all words under one model."""

    bits: Float[np.ndarray, " word"]
    """Surprisal; NaN for a word without a token of its own, and for one that the vocabulary cannot spell."""
    pieces: Int[np.ndarray, " word"] | None
    """How many there are; None for models of whole words."""
    windowed: int = 0
    """Texts longer than the model's limit."""


class CorpusWords:
    """The words of all texts, one after the other; `scores` is their surprisal under the model."""

    def __init__(self, texts: Sequence[Text], scores: WordSurprisals, counts: Mapping[str, int]) -> None:
        self.texts, self.scored = texts, np.isfinite(scores.bits)
        self.starts = np.cumsum([0, *(len(text.words) for text in texts)])
        there = np.ones(len(scores.bits), bool) if scores.pieces is None else scores.pieces > 0
        there[self.starts[:-1]] = True
        self.owner = np.maximum.accumulate(np.where(there, np.arange(len(there)), 0))
        """The word itself; the last one before it with a token where it has none of its own (cannot: can, not)."""
        self.shared = int((~there).sum())
        self.forms = [word for text in texts for word in text.words]
        self.length = np.array([len(word) for word in self.forms])
        self.frequency = np.array([counts.get(word.lower(), 0) for word in self.forms])
        self.spelled = self.scored & np.array([any(map(str.isalpha, word)) for word in self.forms])
        """Those with a letter: neither punctuation nor numbers."""
        self.spelled[self.owner[~there]] = False
        unit = unit_of(texts)
        self.unit: Literal["document", "text"] = unit.by
        """What varies ..."""
        self.units = [unit.of(text) for text in texts]
        """... and its name, by text."""

    @property
    def text(self) -> Int[np.ndarray, " word"]:
        """The number of each word's text."""
        return np.repeat(np.arange(len(self.texts)), np.diff(self.starts))

    @cached_property
    def bands(self) -> dict[tuple[str, str], Int[np.ndarray, " word"]]:
        """What words are grouped by and the group's name -> the numbers of its words."""
        bands = {("frequency", name): self._within(self.frequency, *ends) for name, ends in _decades(self.frequency)}
        for size in range(1, _LONGEST):
            bands["length", str(size)] = self._within(self.length, size, size)
        bands["length", f"{_LONGEST}+"] = self._within(self.length, _LONGEST, np.inf)
        tags: dict[str, list[int]] = {}
        for start, text in zip(self.starts, self.texts, strict=False):
            for edge in text.edges.get("pos", ()):
                if len(edge.span) == 1 and edge.labels and self.scored[start + edge.span.start]:
                    tags.setdefault(edge.labels[0], []).append(int(start) + edge.span.start)
        bands |= {("pos", tag): np.array(tags[tag]) for tag in sorted(tags)}
        return {band: words for band, words in bands.items() if len(words)}

    def _within(self, values: np.ndarray, low: float, high: float) -> Int[np.ndarray, " word"]:
        return np.flatnonzero(self.spelled & (values >= low) & (values <= high))


def _decades(frequency: Int[np.ndarray, " word"]) -> Iterator[tuple[str, tuple[float, float]]]:
    """Bands of counts by powers of ten: their names, and the lowest and highest count.

    Example:
        >>> [name for name, _ in _decades(np.array([0, 12, 3000]))]
        ['0', '1-9', '10-99', '100-999', '1,000-9,999']
    """
    yield "0", (0, 0)
    low = 1
    while low <= frequency.max(initial=0):
        yield f"{low:,}-{10 * low - 1:,}", (low, 10 * low - 1)
        low *= 10


def scored_by(model: LanguageModel, texts: Sequence[Text], masking: Masking) -> WordSurprisals:
    """Surprisal of the words of these texts under a language model."""
    bits, pieces, windowed = [], [], 0
    with progress(f"surprisal by {model.name}", len(texts)) as advance:
        for scored in score_passages(model, map(WrittenPassage.of, texts), masking=masking):
            bits.append(scored.by_span / -math.log(2))
            pieces.append(np.bincount(scored.spans[scored.spans >= 0], minlength=scored.parts))
            windowed += scored.windows > 1
            advance()
    surprisals = np.concatenate(bits)
    surprisals[_unspelled(model, texts)] = np.nan
    return WordSurprisals(surprisals, np.concatenate(pieces), windowed)


def _unspelled(model: LanguageModel, texts: Sequence[Text]) -> list[int]:
    """Words of which the tokenizer makes unknown tokens: the model has a probability for these, not for the word."""
    unknown = model.encoder.tokenizer.unk_token_id
    numbers, start = [], 0
    for text in texts:
        tokens = cut_passages(model, [WrittenPassage.of(text)])[0].tokens
        numbers += [start + int(word) for word in set(tokens.words[tokens.ids == unknown]) if word >= 0]
        start += len(text.words)
    return numbers


def counted_by(grams: NGrams, words: CorpusWords, fold: bool) -> WordSurprisals:
    """Surprisal of the same words under an n-gram model; words that share a token for the model are added up."""
    bits = np.concatenate([grams.logprobs(read_words(text, fold)) for text in words.texts]) / -math.log(2)
    merged = np.bincount(words.owner, bits, minlength=len(bits))
    return WordSurprisals(np.where(words.scored, merged, np.nan), None)


def read_words(text: Text, fold: bool) -> tuple[str, ...]:
    """The words as n-gram models read them."""
    return tuple(word.lower() for word in text.words) if fold else text.words


def folds_case(encoder: Encoder) -> bool:
    """Whether the model ignores case; n-gram models then do the same."""
    upper, lower = (encoder.tokenize(Text("", (word,))).ids for word in ("The", "the"))
    return np.array_equal(upper, lower)


class SurprisalSums:
    """Sums over words, and over the words of resampled documents, of all models at once."""

    def __init__(self, speakers: Mapping[str, WordSurprisals], words: CorpusWords, samples: int, seed: int) -> None:
        self.names, self.bands = list(speakers), words.bands
        pieces = next(scores.pieces for scores in speakers.values() if scores.pieces is not None)
        bits = np.column_stack([scores.bits for scores in speakers.values()])
        groups = [np.flatnonzero(words.scored), *self.bands.values()]
        columns = [*bits.T, np.ones(len(bits)), pieces]
        sums = StreamedBootstrap(len(groups) * len(columns), samples=samples, seed=seed)
        # [text, group, what is summed]
        sums_by_text = np.zeros((len(words.texts), len(groups), len(columns)))
        for group, numbers in enumerate(groups):
            for column, values in enumerate(columns):
                sums_by_text[:, group, column] = np.bincount(
                    words.text[numbers], values[numbers], minlength=len(words.texts)
                )
        sums.add_all(torch.from_numpy(sums_by_text.reshape(len(sums_by_text), -1)), words.units)
        shape = (len(groups), len(columns))
        self.by_unit = Units.of(words.units, words.unit).sums(sums_by_text[:, 0])
        """[unit, model] Bits in all words of a document; the columns `WORDS` and `PIECES` count them."""
        self._sums = np.concatenate([sums.value[None], sums.samples]).reshape(-1, *shape)

    def bits(self, name: str, band: tuple[str, str] | None = None, *, by: int = WORDS) -> BootstrappedMean:
        """Mean surprisal per word, or per token, of one model on all words or those of one band."""
        sums = self._sums[:, 0 if band is None else 1 + list(self.bands).index(band)]
        there = sums[:, by]
        mean = np.divide(sums[:, self.names.index(name)], there, out=np.full(len(sums), np.nan), where=there > 0)
        return BootstrappedMean(mean)


class BootstrappedMean(NamedTuple):
    """A number, and the same number of every bootstrap sample."""

    all: Float[np.ndarray, " sample"]
    """The number itself comes first."""

    def interval(self) -> tuple[float, float, float]:
        """The number and its 95 % interval."""
        return float(self.all[0]), *interval(self.all[1:])
