"""Minimal pairs: does a language model find the good sentence likelier than the bad one?"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd

from lamina.analyses.behaviour.accuracies import Accuracies, Level, corrected
from lamina.analyses.behaviour.inputs import SpokenSuite
from lamina.analyses.behaviour.judging import (
    Judged,
    chances_of,
    judge_by_counting,
    judge_by_model,
    n_grams_of,
    sentences_of,
)
from lamina.analyses.behaviour.verdicts import SCORES
from lamina.analyses.declaration import Overview, Table, Tables, analysis
from lamina.analyses.estimate import Cost, Estimator, memory_now
from lamina.analyses.legacy import finding, legacy_finding, status_of
from lamina.analyses.settings import Declared, Samples, Seed, Setting, Twin
from lamina.corpora.agreement_pairs import DEFAULT as TREEBANK
from lamina.corpora.agreement_pairs import agreement_pairs
from lamina.corpora.minimal_pairs import ALL, MinimalPairs
from lamina.corpora.suites import read_suite
from lamina.corpora.syntaxgym import RegionSuites
from lamina.encoders import Encoder
from lamina.encoders.language_model import language_model
from lamina.encoders.scoring import Masking
from lamina.errors import CorpusError, InputError
from lamina.findings import Finding, cell, number, rows_of
from lamina.results import Result
from lamina.stats.status import SURE

AGREEMENT = "agreement"
"""The suite that is made of a treebank."""
MODEL, TWIN = "model", "twin"
"""Who judges; n-gram models are called by their order."""
_PAIRS = (
    "suite",
    "field",
    "term",
    "paradigm",
    "score",
    "pairs",
    "accuracy",
    "low",
    "high",
    "chance",
    "p",
    "p_adjusted",
)
_TERMS = ("level", "name", "score", "paradigms", "pairs", "accuracy", "low", "high", "chance", "p", "p_adjusted")
_BASELINES = ("of", "level", "name", "score", "pairs", "accuracy", "low", "high", "difference", "diff_low", "diff_high")
_ITEMS = (
    "item", "group", "value", "per_token", "margin", "margin_per_token", "twin", "twin_per_token", "ngram",
    "ngram_per_token", "field", "term", "good", "bad", "logprob_good", "logprob_bad", "pieces_good", "pieces_bad",
    "told",
)  # fmt: skip
_WRONG = ("paradigm", "item", "margin", "margin_per_token", "good", "bad", "told")
_WORST = 3
"""Pairs shown of each paradigm."""
_FEWEST = 3
"""Items of a paradigm that show how much they vary: a simulation of fewer gives intervals that hold too little."""
_TIMED = 24
"""Items scored to estimate the time."""


def _read(suite: str | Path, options: Mapping[str, Any]) -> MinimalPairs | RegionSuites:
    if str(suite) == AGREEMENT:
        return agreement_pairs(options["corpus"], options["split"])
    if (options["corpus"], options["split"]) != (TREEBANK, ALL):
        raise InputError(
            f"--corpus and --split are for --suite {AGREEMENT}; {suite} is read whole (see --only, --limit)"
        )
    return read_suite(suite, skip_equal=options["skip_equal"])


_OPTIONS = (
    Declared(
        "corpus",
        str,
        TREEBANK,
        Setting(f"The treebank of which --suite {AGREEMENT} is made, by name or path.", file=True),
    ),
    Declared("split", str, ALL, Setting(f"Its part of which --suite {AGREEMENT} is made: train, dev, test or all.")),
    Declared("skip_equal", bool, False, Setting("Leave out pairs whose two sentences are equal, and count them.")),
)


@analysis(
    title="Minimal pairs",
    question="Does a language model find the good sentence of a minimal pair likelier than the bad one?",
    method=(
        "The log-probability of a sentence is that of its pieces, each given all before it; of a masked model the "
        "pseudo-log-likelihood, each piece hidden in turn. A pair is right if the good sentence is likelier (plain), "
        "or likelier per piece (per_token); a tie is half right. Items of SyntaxGym's suites are right if all "
        "predictions about their regions' surprisals hold. Accuracy is the mean over paradigms; 95 % intervals "
        "resample items within paradigms; paradigms are tested against chance by an exact binomial test with Holm's "
        "correction. Beside it are the twin with random weights and an n-gram model of words, on the same items."
    ),
    cites=("Warstadt et al. 2020", "Salazar et al. 2020", "Hu et al. 2020", "Linzen et al. 2016"),
    reads=SpokenSuite(read=_read, known=("blimp", "syntaxgym", AGREEMENT), more=_OPTIONS),
    version=1,
    tables={
        "pairs": Table("One row per paradigm and score; `all` is the mean over paradigms.", _PAIRS),
        "terms": Table("One row per term or field (the mean over its paradigms) and score.", _TERMS),
        "baselines": Table("One row per baseline, paradigm, term or field, and score; paired by item.", _BASELINES),
        "wrong": Table(f"The {_WORST} pairs of each paradigm that it gets most wrong, by margin.", _WRONG),
        "items": Table("One row per pair.", _ITEMS, kept="parquet"),
    },
    chapter="abilities",
    report={"limit": 10},
    example="lamina pairs smollm2 --suite blimp --limit 10 --out results/pairs",
)
def pairs(
    encoder: Encoder,
    suite: MinimalPairs | RegionSuites,
    *,
    limit: Annotated[int | None, Setting("Take only the first N pairs of each paradigm.", min=1)] = None,
    only: Annotated[Sequence[str] | None, Setting("Paradigms, terms or fields to ask; all by default.")] = None,
    masking: Annotated[
        Masking, Setting("Hidden from a masked model: the piece asked for, or with it the later pieces of its word.")
    ] = "piece",
    ngrams: Annotated[
        str | None, Setting("Corpus whose training texts the n-gram baseline learns from.", file=True)
    ] = "ewt",
    order: Annotated[int, Setting("Longest n-gram of that baseline, in words.", min=1, max=7)] = 3,
    samples: Samples = 1000,
    twin: Twin = True,
    twin_limit: Annotated[
        int, Setting("Take only the first N pairs of each paradigm for the twin, which is a slow baseline.", min=1)
    ] = 10,
    seed: Seed = 0,
) -> Tables:
    """Accuracy on minimal pairs and region suites, by paradigm, beside chance, an n-gram model and an untrained twin.

    A suite is one of the catalogue (`blimp`, `syntaxgym`), `agreement` (subject-verb pairs made of a treebank, by
    number of attractors), or a file or folder of one's own: TSV, CSV or JSONL with the columns `good` and `bad`.

    Example:
        >>> result = lamina.pairs("smollm2", "blimp", limit=10)  # doctest: +SKIP
        >>> result.tables["pairs"].query("paradigm == 'all'")  # doctest: +SKIP
    """
    suite = _asked(suite, only, limit)
    asked = list(suite)
    model = language_model(encoder)
    skipped = dict(suite.left_out)
    # First of all: a corpus that cannot be read should not be found out after minutes.
    grams, seen = (None, 0) if ngrams is None else n_grams_of(ngrams, order, asked)
    judged = {MODEL: judge_by_model(model, asked, masking)}
    if twin:
        some = _first(asked, twin_limit)
        beside = judge_by_model(model.random_twin(seed), [asked[at] for at in some], masking)
        judged[TWIN] = beside.spread(some, len(asked))
    if grams is not None:
        judged[grams.name] = judge_by_counting(grams, asked)
        skipped[f"texts of {ngrams} that are sentences of the suite, not shown to the {grams.name} model"] = seen
    kept = np.flatnonzero(judged[MODEL].scored())
    if not len(kept):
        raise CorpusError(f"{suite.name}: {model.name} has no probability for any of its items; nothing can be scored")
    items = [asked[at] for at in kept]
    own = {name: each.verdicts_of(kept) for name, each in judged.items()}
    found = Accuracies(items, own, chances_of(items), samples, seed)
    skipped["items of which a sentence or region has no piece, not scored"] = len(asked) - len(kept)
    few = sum(len(each) < _FEWEST for each in found.paradigms.values())
    skipped[f"paradigms of fewer than {_FEWEST} items: intervals of means over them are too narrow"] = few
    for name, each in judged.items():
        skipped |= each.notes(model.name if name == MODEL else f"the {name}")
    table = _item_table(items, judged, kept)
    return Tables(
        {
            "pairs": pd.DataFrame(_pair_rows(found, Path(suite.name).stem), columns=list(_PAIRS)),
            "terms": pd.DataFrame(_term_rows(found), columns=list(_TERMS)),
            "baselines": pd.DataFrame(_baseline_rows(found), columns=list(_BASELINES)),
            "wrong": _most_wrong(table),
            "items": table,
        },
        skipped,
        data={"pairs": len(kept), "paradigms": len(found.paradigms)},
        scored={"pairs": len(kept)},
    )


def _asked(
    suite: MinimalPairs | RegionSuites, only: Sequence[str] | None, limit: int | None
) -> MinimalPairs | RegionSuites:
    """The part of a suite that is asked."""
    some = suite if only is None else suite.only(only)
    return some if limit is None else some.take(limit)


def _first(items: Sequence[Any], limit: int) -> list[int]:
    """The numbers of the first items of each paradigm."""
    taken: Counter[str] = Counter()
    found = []
    for at, item in enumerate(items):
        taken[item.paradigm] += 1
        if taken[item.paradigm] <= limit:
            found.append(at)
    return found


def _pair_rows(found: Accuracies, suite: str) -> Iterator[tuple[Any, ...]]:
    for score in SCORES:
        for level in ("all", "paradigm"):
            groups = found.groups(level)
            tests = [found.against_chance(group, score) for group in groups]
            for group, test, p_adjusted in zip(groups, tests, corrected(tests), strict=True):
                accuracy = found.accuracy(group, found.model, score)
                told = (suite, group.field, group.term, group.name, score, found.count(group))
                yield *told, *accuracy, *test, p_adjusted


def _term_rows(found: Accuracies) -> Iterator[tuple[Any, ...]]:
    levels: tuple[Level, ...] = ("term", "field")
    for score in SCORES:
        for level in levels:
            groups = found.groups(level)
            tests = [found.against_chance(group, score) for group in groups]
            for group, test, p_adjusted in zip(groups, tests, corrected(tests), strict=True):
                told = (level, group.name, score, len(group.members), found.count(group))
                yield *told, *found.accuracy(group, found.model, score), *test, p_adjusted


def _baseline_rows(found: Accuracies) -> Iterator[tuple[Any, ...]]:
    levels: tuple[Level, ...] = ("all", "field", "term", "paradigm")
    for other in list(found.verdicts)[1:]:
        for score in SCORES:
            for group in (each for level in levels for each in found.groups(level)):
                told = (other, group.level, group.name, score, found.count(group, other))
                yield *told, *found.accuracy(group, other, score), *found.difference(group, other, score)


def _item_table(items: Sequence[Any], judged: Mapping[str, Judged], kept: np.ndarray) -> pd.DataFrame:
    own = next(iter(judged.values()))
    others = {"ngram" if name != TWIN else TWIN: each for name, each in list(judged.items())[1:]}
    columns: dict[str, Any] = {
        "item": [item.item for item in items],
        "group": [item.paradigm for item in items],
        "value": own.verdicts.value["plain"][kept],
        "per_token": own.verdicts.value["per_token"][kept],
        "margin": own.verdicts.margin["plain"][kept],
        "margin_per_token": own.verdicts.margin["per_token"][kept],
        "field": [item.field for item in items],
        "term": [item.term for item in items],
    }
    for name in (TWIN, "ngram"):
        there = others.get(name)
        columns[name] = np.nan if there is None else there.verdicts.value["plain"][kept]
        columns[f"{name}_per_token"] = np.nan if there is None else there.verdicts.value["per_token"][kept]
    details = own.details.iloc[kept].reset_index(drop=True)
    return pd.concat([pd.DataFrame(columns), details], axis=1)[list(_ITEMS)]


def _most_wrong(items: pd.DataFrame) -> pd.DataFrame:
    wrong = items[items["value"] < 1].sort_values("margin", kind="stable")
    worst = wrong.groupby("group", sort=False).head(_WORST)
    order = {name: at for at, name in enumerate(dict.fromkeys(items["group"]))}
    worst = worst.assign(paradigm=worst["group"], at=worst["group"].map(order))
    return worst.sort_values("at", kind="stable")[list(_WRONG)].reset_index(drop=True)


@pairs.finds
def _findings(result: Result) -> Iterable[Finding]:
    """Overall beside chance and the n-gram model; the best and the worst term; paradigms below chance."""
    table = result.tables["pairs"]
    plain = table[table["score"] == "plain"]
    overall = next(rows_of(plain[plain["paradigm"] == ALL]))
    paradigms = list(rows_of(plain[plain["paradigm"] != ALL]))
    model = result.provenance.model["name"]
    over = f" (mean over {len(paradigms)} paradigms)" if len(paradigms) > 1 else ""
    yield finding(
        f"{model} gets {{number}} of {overall.suite} right{over}; chance is {{against}}.",
        overall.accuracy, overall.low, overall.high, overall.chance,
    )  # fmt: skip
    yield from _beside(result)
    terms = result.tables["terms"]
    by_term = list(rows_of(terms[(terms["score"] == "plain") & (terms["level"] == "term")]))
    yield from _extremes(by_term or [row._replace(term=row.paradigm) for row in paradigms], bool(by_term))
    if len(paradigms) > 1:
        yield _below(paradigms)


def _beside(result: Result) -> Iterator[Finding]:
    """The model and the n-gram model, or else the twin, on the same items."""
    table = result.tables["baselines"]
    rows = list(rows_of(table[(table["level"] == "all") & (table["score"] == "plain")]))
    if not rows:
        return
    other = rows[-1]
    corpus = result.provenance.parameters.get("ngrams")
    named = "its twin with random weights" if other.of == TWIN else f"a {other.of} model of {corpus}"
    apart = (other.difference, other.diff_low, other.diff_high)
    yield legacy_finding(
        f"On the same items {named} reaches {number(other.accuracy, other.low, other.high)}: "
        f"{result.provenance.model['name']} is {number(*apart, digits=3)} above it.",
        status_of(*apart[1:], 0.0), *apart, 0.0,
    )  # fmt: skip


def _extremes(rows: Sequence[Any], terms: bool) -> Iterator[Finding]:
    if len({row.accuracy for row in rows}) < 2:
        return
    name = (lambda row: row.name) if terms else (lambda row: row.term)
    best, worst = max(rows, key=lambda row: row.accuracy), min(rows, key=lambda row: row.accuracy)
    yield finding(
        f"Best at {name(best)}: {{number}}; worst at {name(worst)}: {{against}}.",
        best.accuracy, best.low, best.high, worst.accuracy, (worst.low, worst.high),
    )  # fmt: skip


def _below(paradigms: Sequence[Any]) -> Finding:
    sure = [row for row in paradigms if row.p_adjusted < SURE]
    below, above = ([row for row in sure if (row.accuracy < row.chance) is side] for side in (True, False))
    lowest = min(paradigms, key=lambda row: row.accuracy - row.chance)
    told = number(lowest.accuracy, lowest.low, lowest.high)
    return legacy_finding(
        f"{len(above)} of {len(paradigms)} paradigms are above chance and {len(below)} below it (Holm); the lowest is "
        f"{lowest.paradigm}: {told}, chance {number(lowest.chance)}.",
        "clear" if sure else "open", lowest.accuracy, lowest.low, lowest.high, lowest.chance,
    )  # fmt: skip


@pairs.shows
def _overview(result: Result) -> Iterable[Overview]:
    """One row per term, or per paradigm where there are no terms."""
    table, terms, baselines = (result.tables[name] for name in ("pairs", "terms", "baselines"))
    by_term = terms[terms["level"] == "term"]
    level = "term" if by_term["name"].nunique() > 1 else "paradigm"
    named = by_term if level == "term" else table[table["paradigm"] != ALL].assign(name=table["paradigm"])
    others = list(dict.fromkeys(baselines["of"]))
    rows: list[tuple[str | int, ...]] = []
    for where, source in (("all", table[table["paradigm"] == ALL].assign(name=ALL)), (level, named)):
        for name in dict.fromkeys(source["name"]):
            own = {row.score: row for row in rows_of(source[source["name"] == name])}
            beside = baselines[(baselines["level"] == where) & (baselines["name"] == name)]
            said = {row.of: row.accuracy for row in rows_of(beside[beside["score"] == "plain"])}
            plain = own["plain"]
            shown = [cell(plain.accuracy, plain.low, plain.high), cell(own["per_token"].accuracy)]
            rows.append((name, plain.pairs, *shown, *(cell(said[other]) for other in others)))
    about = result.provenance
    title = f"{about.model['name']} on {table['suite'].iloc[0]}: accuracy"
    yield Overview(title, (level, "pairs", "plain", "per token", *others), rows)


@pairs.costs
def _cost(
    _: Estimator, encoder: Encoder, suite: MinimalPairs | RegionSuites, *, limit: int | None,
    only: Sequence[str] | None, masking: Masking, twin: bool, twin_limit: int, **__: object,
) -> Cost:  # fmt: skip
    """Some items are scored and timed."""
    asked = list(_asked(suite, only, limit))
    model = language_model(encoder)
    sample = asked[:: -(-len(asked) // _TIMED)]
    judge_by_model(model, sample[:1], masking)  # Warm-up; not timed.
    start = time.perf_counter()
    timed = judge_by_model(model, sample, masking)
    seconds, share = time.perf_counter() - start, len(asked) / len(sample)
    passes = 1 + twin * len(_first(asked, twin_limit)) / len(asked)
    return Cost(
        passes=1 + twin,
        texts=len(set(sentences_of(asked))),
        tokens=round(share * timed.pieces),
        seconds=passes * share * seconds,
        memory=memory_now(),
    )
