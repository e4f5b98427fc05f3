"""Minimal pairs: does a language model find the good sentence likelier than the bad one?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Protocol

import numpy as np
import pandas as pd
from jaxtyping import Float, Int

from lamina.analyses.behaviour.inputs import SpokenSuite
from lamina.analyses.behaviour.judging import (
    SCORES,
    Score,
    SuiteJudgements,
    Verdicts,
    chances_of,
    judge_by_counting,
    judge_by_model,
    n_grams_of,
    sentences_of,
)
from lamina.corpora.corpus import sample_of_each
from lamina.corpora.suites import read_suite
from lamina.corpora.suites.agreement_pairs import DEFAULT as TREEBANK
from lamina.corpora.suites.agreement_pairs import agreement_pairs
from lamina.corpora.suites.minimal_pairs import ALL, UNNAMED, MinimalPairs
from lamina.corpora.suites.syntaxgym import RegionSuites
from lamina.errors import CorpusError, InputError
from lamina.framework.declare import ComparedItems, Overview, Table, Tables, analysis
from lamina.framework.estimate import Cost, Estimator, memory_now
from lamina.framework.settings import DeclaredSetting, Samples, Seed, Setting, Twin
from lamina.models import Encoder
from lamina.models.language.language_model import Masking, language_model
from lamina.results import Result
from lamina.results.finding import Finding, Source, cell, finding, percent, rows_of
from lamina.stats.family import Contrasts, bootstrap_family, chance_family, sign_flip_family
from lamina.stats.intervals import interval, share_interval
from lamina.stats.status import Contrast, status_of
from lamina.stats.units import weights_of

# Accuracies of suites by paradigm, term and field: intervals over items, tests against chance, paired differences.

Level = Literal["paradigm", "term", "field", "all"]


class JudgedItem(Protocol):
    """What is right or wrong."""

    @property
    def item(self) -> str: ...
    @property
    def field(self) -> str: ...
    @property
    def term(self) -> str: ...
    @property
    def paradigm(self) -> str: ...


class ParadigmGroup(NamedTuple):
    """Paradigms that are averaged; each counts as much as any other."""

    level: Level
    name: str
    field: str
    term: str
    members: tuple[int, ...]
    """Numbers of the paradigms."""


class MeanAccuracy(NamedTuple):
    """A share of right items, averaged over paradigms."""

    value: float
    low: float
    """95 %, from items drawn with replacement within their paradigm."""
    high: float


@dataclass(frozen=True)
class Accuracies:
    """Verdicts of several models ("speakers") on the same items."""

    items: Sequence[JudgedItem]
    verdicts: Mapping[str, Verdicts]
    """Speaker -> its verdicts, the model's first, which has all; others have NaN for items that they did not score."""
    chances: Float[np.ndarray, " item"]
    samples: int
    seed: int

    @cached_property
    def paradigms(self) -> dict[str, Int[np.ndarray, " item"]]:
        """Name -> the numbers of its items."""
        numbers: dict[str, list[int]] = {}
        for number, item in enumerate(self.items):
            numbers.setdefault(item.paradigm, []).append(number)
        return {name: np.array(items) for name, items in numbers.items()}

    def groups(self, level: Level) -> list[ParadigmGroup]:
        """The paradigms, terms or fields in the order of the items; those without a name are no group."""
        first = [self.items[int(members[0])] for members in self.paradigms.values()]
        if level == "all":
            return [ParadigmGroup("all", ALL, ALL, ALL, tuple(range(len(first))))]
        named: dict[str, list[int]] = {}
        for number, item in enumerate(first):
            named.setdefault(getattr(item, level), []).append(number)
        return [
            ParadigmGroup(
                level,
                name,
                _one(first[member].field for member in members),
                _one(first[member].term for member in members),
                tuple(members),
            )
            for name, members in named.items()
            if name != UNNAMED
        ]

    @property
    def model(self) -> str:
        """The first speaker."""
        return next(iter(self.verdicts))

    def count(self, group: ParadigmGroup, speaker: str | None = None) -> int:
        """Its items that the speaker scored; by default the model."""
        answered = np.isfinite(self.verdicts[speaker or self.model].value["plain"])
        paradigms = list(self.paradigms.values())
        return sum(int(answered[paradigms[member]].sum()) for member in group.members)

    def accuracy(self, group: ParadigmGroup, speaker: str, score: Score) -> MeanAccuracy:
        """The mean over a group's paradigms."""
        estimate = self._over(group, (speaker, score))
        if estimate.low == estimate.high and estimate.value in (0, 1):
            count = self.count(group, speaker)
            return MeanAccuracy(estimate.value, *share_interval(round(estimate.value) * count, count))
        return estimate

    def chance(self, group: ParadigmGroup) -> float:
        """What chance gives, averaged over the group's paradigms; NaN where that is not known of one."""
        paradigms = list(self.paradigms.values())
        return float(np.mean([self.chances[paradigms[member]].mean() for member in group.members]))

    def against_chance(self, groups: Sequence[ParadigmGroup], score: Score) -> Contrasts:
        """Accuracy of the model minus chance, of groups that are one family; ties are left out."""
        values = self.verdicts[self.model].value[score]
        # By name, so that the order of paradigms changes nothing.
        names = sorted(self.paradigms)
        places = [names.index(name) for name in self.paradigms]
        paradigms = [self.paradigms[name] for name in names]
        right = np.array([int((values[numbers] == 1).sum()) for numbers in paradigms])
        counts = np.array([int(np.isin(values[numbers], (0, 1)).sum()) for numbers in paradigms])
        chances = np.array([self.chances[numbers].mean() for numbers in paradigms])
        members = [[places[member] for member in group.members] for group in groups]
        return chance_family(right, counts, chances, members, seed=self.seed)

    def differences(self, groups: Sequence[ParadigmGroup], other: str, score: Score) -> Contrasts:
        """How much more often the model is right than another speaker, of groups that are one family.

        Items that both scored are paired, and paradigms count alike: an item counts one over their number.
        """
        differences = self.verdicts[self.model].value[score] - self.verdicts[other].value[score]
        there = np.isfinite(differences)
        shares = np.zeros((len(differences), len(groups)))
        paradigms = [numbers[there[numbers]] for numbers in self.paradigms.values()]
        for column, group in enumerate(groups):
            members = [paradigms[member] for member in group.members if len(paradigms[member])]
            for numbers in members:
                shares[numbers, column] = 1 / len(numbers) / len(members)
        # By name, so that the order of items changes nothing.
        order = np.argsort([item.item for item in self.items], kind="stable")
        ahead = np.where(there, differences, 0)[:, None] * shares
        return sign_flip_family(ahead[order], shares[order], seed=self.seed, bounds=(-1.0, 1.0))

    def between(
        self, groups: Sequence[ParadigmGroup], score: Score
    ) -> tuple[list[tuple[ParadigmGroup, ParadigmGroup]], Contrasts]:
        """Every two groups, and by how much the model is right more often in the first; one family."""
        pairs = list(combinations(groups, 2))
        spreads = {group.name: self._spread(group, score) for group in groups}
        estimates = np.array([spreads[one.name][0] - spreads[other.name][0] for one, other in pairs])
        draws = np.stack([spreads[one.name][1] - spreads[other.name][1] for one, other in pairs], axis=1)
        units = np.array([float(self.count(one) + self.count(other)) for one, other in pairs])
        return pairs, bootstrap_family(estimates, draws, units, bounds=(-1.0, 1.0))

    def _spread(self, group: ParadigmGroup, score: Score) -> tuple[float, Float[np.ndarray, " sample"]]:
        """The mean over paradigms, and its draws. A bootstrap of n items varies too little, by (n - 1) / n."""
        column = list(self._values).index((self.model, score))
        means, draws = [], []
        for member in group.members:
            mean, drawn = (part[..., column] for part in self._by_paradigm[member])
            count = len(list(self.paradigms.values())[member])
            means.append(float(mean))
            drawn = np.where(np.isfinite(drawn), drawn, mean)
            draws.append(mean + (drawn - mean) * np.sqrt(count / max(count - 1, 1)))
        return float(np.mean(means)), np.mean(draws, axis=0)

    @cached_property
    def _values(self) -> dict[tuple[str, Score], Float[np.ndarray, " item"]]:
        """What is averaged: the verdicts of every speaker."""
        return {(speaker, score): given.value[score] for speaker, given in self.verdicts.items() for score in SCORES}

    @cached_property
    def _by_paradigm(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """Of each paradigm the means [column], and the means of resampled items [sample, column]."""
        return list(self._each_paradigm())

    def _each_paradigm(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        values = np.column_stack(list(self._values.values()))
        there = np.isfinite(values)
        filled = np.where(there, values, 0)
        for numbers in self.paradigms.values():
            keys = [self.items[int(number)].item for number in numbers]
            weights = np.stack([weights_of(key, samples=self.samples, seed=self.seed) for key in keys], axis=1)
            with np.errstate(invalid="ignore"):
                means = filled[numbers].sum(0) / there[numbers].sum(0)
                yield means, weights @ filled[numbers] / (weights @ there[numbers])

    def _over(self, group: ParadigmGroup, column: tuple[str, Score]) -> MeanAccuracy:
        number = list(self._values).index(column)
        means = np.array([self._by_paradigm[member][0][number] for member in group.members])
        draws = np.stack([self._by_paradigm[member][1][:, number] for member in group.members])
        # A paradigm of which a sample has no item does not count in that sample.
        there = np.isfinite(draws)
        with np.errstate(invalid="ignore"):
            drawn = np.where(there, draws, 0).sum(0) / there.sum(0)
        return MeanAccuracy(
            float(means[np.isfinite(means)].mean()) if np.isfinite(means).any() else np.nan, *interval(drawn)
        )


def _one(names: Iterable[str]) -> str:
    """The name that all have; `all` if they differ."""
    distinct = list(dict.fromkeys(names))
    return distinct[0] if len(distinct) == 1 else ALL


AGREEMENT = "agreement"
"""The suite that is built from a treebank."""
MODEL, TWIN = "model", "twin"
"""Who judges; n-gram models are called by their order."""
_TEST = ("difference", "diff_low", "diff_high", "p_adjusted", "units", "needed")
_ACCURACY = ("pairs", "accuracy", "low", "high")
_PAIRS = ("suite", "field", "term", "paradigm", "score", *_ACCURACY, "chance", *_TEST, "beside_chance")
_TERMS = ("level", "name", "score", "paradigms", *_ACCURACY, "chance", *_TEST)
_BASELINES = ("of", "level", "name", "score", *_ACCURACY, *_TEST)
_CONTRASTS = ("level", "one", "other", *_TEST)
_MOST_GROUPS = 100
"""Terms, or paradigms, that are compared with each other."""
_ITEMS = (
    "item", "group", "value", "per_token", "margin", "margin_per_token", "twin", "twin_per_token", "ngram",
    "ngram_per_token", "field", "term", "good", "bad", "logprob_good", "logprob_bad", "pieces_good", "pieces_bad",
    "surprisals",
)  # fmt: skip
_WRONG = ("paradigm", "item", "margin", "margin_per_token", "good", "bad", "surprisals")
_NAMED = 3
"""Paradigms below chance that a finding names."""
_WORST = 3
"""Pairs shown of each paradigm."""
_FEWEST = 3
"""Items of a paradigm that show how much they vary: a simulation of fewer gives intervals that hold too little."""
_TIMED = 24
"""Items scored to estimate the time."""


def _read(suite: str | Path, options: Mapping[str, Any]) -> MinimalPairs | RegionSuites:
    if str(suite) == AGREEMENT:
        return agreement_pairs(options["corpus"], options["split"], nonce=options["nonce"])
    if (options["corpus"], options["split"], options["nonce"]) != (TREEBANK, ALL, False):
        raise InputError(
            f"--corpus, --split and --nonce are for --suite {AGREEMENT}; {suite} is read whole (see --only, --limit)"
        )
    return read_suite(suite, skip_equal=options["skip_equal"], columns=options["columns"])


_OPTIONS = (
    DeclaredSetting(
        "corpus",
        str,
        TREEBANK,
        Setting(f"The treebank of which --suite {AGREEMENT} is made, by name or path.", file=True),
    ),
    DeclaredSetting(
        "split", str, ALL, Setting(f"Its part of which --suite {AGREEMENT} is made: train, dev, test or all.")
    ),
    DeclaredSetting(
        "nonce",
        bool,
        False,
        Setting(
            f"With --suite {AGREEMENT}: beside each sentence the same one without meaning, its content words replaced "
            "by others of the same form (Gulordava et al. 2018)."
        ),
    ),
    DeclaredSetting(
        "columns",
        str | None,
        None,
        Setting(
            "Which column of your own table is what, if not named so: good and bad; sentence and judgement; sentence, "
            "form and judgement; sentence, option1, option2 and answer; paradigm, term, field and id.",
            metavar="ROLE=COLUMN,...",
        ),
    ),
    DeclaredSetting(
        "skip_equal", bool, False, Setting("Leave out pairs whose two sentences are equal, and count them.")
    ),
)


@analysis(
    title="Minimal pairs",
    question="Does a language model find the good sentence of a minimal pair likelier than the bad one?",
    method=(
        "The log-probability of a sentence is that of its tokens, each given all before it; of a masked model the "
        "pseudo-log-likelihood, each token masked in turn. A pair is right if the good sentence is likelier (plain), "
        "or likelier per token (per_token); a tie is half right. Items of SyntaxGym's suites are right if all "
        "predictions about their regions' surprisals hold. Accuracy is the mean over paradigms; 95 % intervals "
        "resample items within paradigms. Chance is drawn: items answered at random, for all paradigms together "
        "(max-T). The untrained twin and an n-gram model of words are compared with it, paired by item."
    ),
    cites=(
        "Warstadt et al. 2020",
        "Salazar et al. 2020",
        "Hu et al. 2020",
        "Linzen et al. 2016",
        "Gulordava et al. 2018",
    ),
    reads=SpokenSuite(read=_read, known=("blimp", "syntaxgym", AGREEMENT), more=_OPTIONS),
    version=3,  # a limit, and the twin's, draws pairs within paradigms
    tables={
        "pairs": Table(
            "One row per paradigm and score; `all` is the mean over paradigms. difference: accuracy minus chance, ties "
            "left out. Family: all paradigms of a score, `all` apart; two-sided.",
            _PAIRS,
        ),
        "terms": Table(
            "One row per term, field or `all` (the mean over its paradigms) and score; difference as in pairs. Family: "
            "all rows of a level and score; two-sided.",
            _TERMS,
        ),
        "baselines": Table(
            "One row per baseline, paradigm, term or field, and score, on the items that both scored (pairs: how "
            "many). difference: the model's accuracy minus the baseline's. Family: all rows of a baseline, level and "
            "score; two-sided; signs of items are flipped.",
            _BASELINES,
        ),
        "contrasts": Table(
            "One row per two terms (paradigms where there are no terms): accuracy in one minus the other, plain. "
            "Family: all rows; two-sided; items are resampled within paradigms.",
            _CONTRASTS,
        ),
        "wrong": Table(f"The {_WORST} pairs of each paradigm that it gets most wrong, by margin.", _WRONG),
        "items": Table("One row per pair.", _ITEMS, format="parquet"),
    },
    chapter="abilities",
    report={"limit": 10},
    compares=ComparedItems(
        harmless=("limit", "first", "only", "ngrams", "order", "samples", "twin", "twin_limit", "seed"),
        chance=0.5,
    ),
    example="lamina pairs smollm2 --suite blimp --limit 10 --out results/pairs",
)
def pairs(
    encoder: Encoder,
    suite: MinimalPairs | RegionSuites,
    *,
    limit: Annotated[int | None, Setting("Number of pairs to draw from each paradigm.", min=1)] = None,
    first: Annotated[
        int | None, Setting("Take the first N pairs of each paradigm instead of drawing some.", min=1)
    ] = None,
    only: Annotated[Sequence[str] | None, Setting("Paradigms, terms or fields to score; all by default.")] = None,
    masking: Annotated[
        Masking, Setting("What a masked model has masked: the scored token, or also the later tokens of its word.")
    ] = "piece",
    ngrams: Annotated[
        str | None, Setting("Corpus whose training texts the n-gram baseline learns from.", file=True)
    ] = "ewt",
    order: Annotated[int, Setting("Longest n-gram of that baseline, in words.", min=1, max=7)] = 3,
    samples: Samples = 1000,
    twin: Twin = True,
    twin_limit: Annotated[
        int, Setting("Number of pairs to draw from each paradigm for the twin, which is a slow baseline.", min=1)
    ] = 10,
    seed: Seed = 0,
) -> Tables:
    """Accuracy on minimal pairs and region suites, by paradigm, beside chance, an n-gram model and an untrained twin.

    A suite is one of the catalogue (`blimp`, `syntaxgym`), `agreement` (subject-verb pairs from a treebank, by
    number of attractors), or your own file or folder: TSV, CSV or JSONL with the columns `good` and `bad`.

    Example:
        >>> result = lamina.pairs("smollm2", "blimp", limit=10)  # doctest: +SKIP
        >>> result.tables["pairs"].query("paradigm == 'all'")  # doctest: +SKIP
    """
    suite = _chosen_part(suite, only, limit, first, seed)
    chosen = list(suite)
    model = language_model(encoder)
    skipped = dict(suite.left_out)
    # First of all, so that an unreadable corpus is noticed at once.
    grams, seen = (None, 0) if ngrams is None else n_grams_of(ngrams, order, chosen)
    judged = {MODEL: judge_by_model(model, chosen, masking)}
    if twin:
        some = _drawn(chosen, twin_limit, seed)
        beside = judge_by_model(model.random_twin(seed), [chosen[number] for number in some], masking)
        judged[TWIN] = beside.spread(some, len(chosen))
    if grams is not None:
        judged[grams.name] = judge_by_counting(grams, chosen)
        skipped[f"texts of {ngrams} that are sentences of the suite, not shown to the {grams.name} model"] = seen
    scored = np.flatnonzero(judged[MODEL].scored())
    if not len(scored):
        raise CorpusError(f"{suite.name}: {model.name} has no probability for any of its items; nothing can be scored")
    items = [chosen[number] for number in scored]
    verdicts = {name: judgement.verdicts_of(scored) for name, judgement in judged.items()}
    accuracies = Accuracies(items, verdicts, chances_of(items), samples, seed)
    skipped["items of which a sentence or region has no token, not scored"] = len(chosen) - len(scored)
    few = sum(len(numbers) < _FEWEST for numbers in accuracies.paradigms.values())
    skipped[f"paradigms of fewer than {_FEWEST} items: intervals of means over them are too narrow"] = few
    for name, judgement in judged.items():
        skipped |= judgement.notes(model.name if name == MODEL else f"the {name}")
    table = _item_table(items, judged, scored)
    return Tables(
        {
            "pairs": pd.DataFrame(_pair_rows(accuracies, Path(suite.name).stem), columns=list(_PAIRS)),
            "terms": pd.DataFrame(_term_rows(accuracies), columns=list(_TERMS)),
            "baselines": pd.DataFrame(_baseline_rows(accuracies), columns=list(_BASELINES)),
            "contrasts": pd.DataFrame(_contrast_rows(accuracies), columns=list(_CONTRASTS)),
            "wrong": _most_wrong(table),
            "items": table,
        },
        skipped,
        data={"pairs": len(scored), "paradigms": len(accuracies.paradigms)},
        scored={"pairs": len(scored)},
    )


def _chosen_part(
    suite: MinimalPairs | RegionSuites, only: Sequence[str] | None, limit: int | None, first: int | None, seed: int
) -> MinimalPairs | RegionSuites:
    """The part of a suite that is scored."""
    if limit is not None and first is not None:
        raise InputError("limit draws pairs and first takes the first ones; give one of the two")
    some = suite if only is None else suite.only(only)
    if limit is not None:
        return some.sample(limit, seed)
    return some if first is None else some.take(first)


def _drawn(items: Sequence[Any], limit: int, seed: int) -> list[int]:
    """The numbers of the items of each paradigm that the twin is asked."""
    return sample_of_each(items, limit, lambda item: item.paradigm, lambda item: item.item, seed)


def _pair_rows(accuracies: Accuracies, suite: str) -> Iterator[tuple[Any, ...]]:
    for score in SCORES:
        for level in ("all", "paradigm"):
            groups = accuracies.groups(level)
            for group, test in zip(groups, _tests(accuracies.against_chance(groups, score)), strict=True):
                where = (suite, group.field, group.term, group.name, score, accuracies.count(group))
                accuracy = accuracies.accuracy(group, accuracies.model, score)
                yield *where, *accuracy, accuracies.chance(group), *test, beside_chance(*test)


def _tests(tests: Contrasts) -> Iterator[tuple[float, ...]]:
    """Difference, interval, p, units and how many are needed, member by member."""
    return zip(*(np.ravel(values).tolist() for values in tests), strict=True)


def beside_chance(difference: float, low: float, high: float, p: float, _units: float, needed: float) -> str:
    """Above or below chance where that is clear; otherwise the status.

    Example:
        >>> beside_chance(0.3, 0.1, 0.5, 0.01, 20, 0), beside_chance(0.1, -0.1, 0.3, 0.4, 20, 0)
        ('above', 'open')
    """
    status = status_of(low, high, p, needed=needed)
    return status if status != "clear" else "above" if difference > 0 else "below"


def _term_rows(accuracies: Accuracies) -> Iterator[tuple[Any, ...]]:
    levels: tuple[Level, ...] = ("all", "term", "field")
    for score in SCORES:
        for level in levels:
            groups = accuracies.groups(level)
            for group, test in zip(groups, _tests(accuracies.against_chance(groups, score)), strict=True):
                where = (level, group.name, score, len(group.members), accuracies.count(group))
                yield *where, *accuracies.accuracy(group, accuracies.model, score), accuracies.chance(group), *test


def _baseline_rows(accuracies: Accuracies) -> Iterator[tuple[Any, ...]]:
    levels: tuple[Level, ...] = ("all", "field", "term", "paradigm")
    for other in list(accuracies.verdicts)[1:]:
        for score in SCORES:
            for level in levels:
                groups = accuracies.groups(level)
                for group, test in zip(groups, _tests(accuracies.differences(groups, other, score)), strict=True):
                    where = (other, group.level, group.name, score, accuracies.count(group, other))
                    yield *where, *accuracies.accuracy(group, other, score), *test


def compared_groups(accuracies: Accuracies) -> list[ParadigmGroup]:
    """Terms; paradigms where there are fewer than two terms; none where there are too many to compare each two."""
    terms = accuracies.groups("term")
    groups = terms if len(terms) > 1 else accuracies.groups("paradigm")
    return groups if 1 < len(groups) <= _MOST_GROUPS else []


def _contrast_rows(accuracies: Accuracies) -> Iterator[tuple[Any, ...]]:
    groups = compared_groups(accuracies)
    if not groups:
        return
    pairs, tests = accuracies.between(groups, "plain")
    for (one, other), test in zip(pairs, _tests(tests), strict=True):
        yield one.level, one.name, other.name, *test


def _item_table(items: Sequence[Any], judged: Mapping[str, SuiteJudgements], scored: np.ndarray) -> pd.DataFrame:
    model = next(iter(judged.values()))
    others = {"ngram" if name != TWIN else TWIN: judgement for name, judgement in list(judged.items())[1:]}
    columns: dict[str, Any] = {
        "item": [item.item for item in items],
        "group": [item.paradigm for item in items],
        "value": model.verdicts.value["plain"][scored],
        "per_token": model.verdicts.value["per_token"][scored],
        "margin": model.verdicts.margin["plain"][scored],
        "margin_per_token": model.verdicts.margin["per_token"][scored],
        "field": [item.field for item in items],
        "term": [item.term for item in items],
    }
    for name in (TWIN, "ngram"):
        there = others.get(name)
        columns[name] = np.nan if there is None else there.verdicts.value["plain"][scored]
        columns[f"{name}_per_token"] = np.nan if there is None else there.verdicts.value["per_token"][scored]
    details = model.details.iloc[scored].reset_index(drop=True)
    return pd.concat([pd.DataFrame(columns), details], axis=1)[list(_ITEMS)]


def _most_wrong(items: pd.DataFrame) -> pd.DataFrame:
    wrong = items[items["value"] < 1].sort_values("margin", kind="stable")
    worst = wrong.groupby("group", sort=False).head(_WORST)
    order = {name: number for number, name in enumerate(dict.fromkeys(items["group"]))}
    worst = worst.assign(paradigm=worst["group"], order=worst["group"].map(order))
    return worst.sort_values("order", kind="stable")[list(_WRONG)].reset_index(drop=True)


@pairs.finds
def _findings(result: Result) -> Iterable[Finding]:
    """Overall beside chance, the n-gram model and the twin; the best and the worst term; paradigms beside chance."""
    table = result.tables["pairs"]
    plain = table[table["score"] == "plain"]
    overall = next(rows_of(plain[plain["paradigm"] == ALL]))
    paradigms = list(rows_of(plain[plain["paradigm"] != ALL]))
    model = result.provenance.model["name"]
    over = f" (mean over {len(paradigms)} paradigms)" if len(paradigms) > 1 else ""
    whole = Source("terms", {"level": "all", "score": "plain"})
    yield finding(
        claim=f"{model} gets {percent(overall.accuracy)} of {overall.suite} right{over}; chance is "
        f"{percent(overall.chance)}",
        whether=f"{model} gets {overall.suite} right more often than chance",
        absent=f"{model} gets {overall.suite} right as often as chance",
        contrast="difference",
        test=_of_row(overall),
        source=[Source("pairs", {"paradigm": ALL, "score": "plain"}), whole],
        unit="item",
    )
    yield from _beside(result, overall)
    yield from _extremes(result, model)
    if len(paradigms) > 1:
        yield from _beside_chance(paradigms, whole)


def _of_row(row: Any) -> Contrast:
    return Contrast.of(row, "difference", "diff_low", "diff_high")


def _beside(result: Result, overall: Any) -> Iterator[Finding]:
    """The model and each baseline, on the items that both scored."""
    table = result.tables["baselines"]
    model, corpus = result.provenance.model["name"], result.provenance.parameters.get("ngrams")
    for other in rows_of(table[(table["level"] == "all") & (table["score"] == "plain")]):
        named = "its twin with random weights" if other.of == TWIN else f"a {other.of} model of {corpus}"
        some = f" on the {other.pairs:,} items that both scored" if other.pairs < overall.pairs else ""
        yield finding(
            claim=f"{model} is right more often than {named}{some}, which is right in {percent(other.accuracy)}"
            if other.difference > 0
            else f"{model} is right less often than {named}{some}, which is right in {percent(other.accuracy)}",
            whether=f"{model} is right more often than {named}{some}",
            absent=f"{model} is right as often as {named}{some}",
            contrast="difference",
            test=_of_row(other),
            source=Source("baselines", {"of": other.of, "level": "all", "score": "plain"}),
            unit="item",
            importance=("beats control",) if other.difference > 0 else ("beats control", "surprises"),
        )


def _extremes(result: Result, model: str) -> Iterator[Finding]:
    """The best and the worst term: one of all the pairs of terms that were tested together."""
    contrasts = result.tables["contrasts"]
    if contrasts.empty:
        return
    level = contrasts["level"].iloc[0]
    name, column = ("terms", "name") if level == "term" else ("pairs", "paradigm")
    table = result.tables[name]
    rows = table[(table["score"] == "plain") & table[column].isin([*contrasts["one"], *contrasts["other"]])]
    rows = rows[rows["level"] == level] if level == "term" else rows
    best, worst = (getattr(rows["accuracy"], which)() for which in ("idxmax", "idxmin"))
    best, worst = (next(rows_of(rows.loc[[row_number]])) for row_number in (best, worst))
    if best.accuracy == worst.accuracy:
        return
    names = [getattr(row, column) for row in (best, worst)]
    turned = contrasts["one"].isin(names) & contrasts["other"].isin(names)
    row = next(rows_of(contrasts[turned]))
    test = _of_row(row)
    if row.one != names[0]:
        test = test._replace(estimate=-test.estimate, low=-test.high, high=-test.low)
    where = {"score": "plain"} | ({"level": level} if level == "term" else {})
    yield finding(
        claim=f"{model} is right more often in {names[0]} ({percent(best.accuracy)}) than in {names[1]} "
        f"({percent(worst.accuracy)})",
        whether=f"{model} is right more often in {names[0]} than in {names[1]}",
        absent=f"{model} is right as often in {names[0]} as in {names[1]}",
        contrast="difference",
        test=test,
        source=[
            Source("contrasts", {"one": row.one, "other": row.other}),
            *(Source(name, {column: level_name, **where}) for level_name in names),
        ],
        unit="item",
        importance=("localised",),
    )


def _beside_chance(paradigms: Sequence[Any], whole: Source) -> Iterator[Finding]:
    """How many paradigms are above chance, with the test of the least sure of them; and those below it."""
    above, below = ([row for row in paradigms if row.beside_chance == side] for side in ("above", "below"))
    tested = [row for row in paradigms if row.p_adjusted == row.p_adjusted]
    least = max(above, key=lambda row: (row.p_adjusted, -row.difference)) if above else max(
        tested or paradigms, key=lambda row: row.difference
    )  # fmt: skip
    counted = Source("pairs", {"score": "plain", "beside_chance": "above"})
    yield finding(
        claim=f"{len(above)} of {len(paradigms)} paradigms are above chance",
        whether="any paradigm is above chance",
        absent="No paradigm is above chance",
        contrast=f"least difference, in {least.paradigm}" if above else f"largest difference, in {least.paradigm}",
        test=_of_row(least),
        source=[Source("pairs", {"score": "plain", "paradigm": least.paradigm}), whole, *([counted] if above else [])],
        unit="item",
        importance=("localised",),
    )
    if below:
        lowest = max(below, key=lambda row: (row.p_adjusted, row.difference))
        names = ", ".join(row.paradigm for row in below[:_NAMED])
        more = " and others" if len(below) > _NAMED else ""
        yield finding(
            claim=f"{len(below)} of {len(paradigms)} paradigms are below chance: {names}{more}",
            whether="any paradigm is below chance",
            absent="No paradigm is below chance",
            contrast=f"least difference, in {lowest.paradigm}",
            test=_of_row(lowest),
            source=[Source("pairs", {"score": "plain", "beside_chance": "below"}), whole],
            unit="item",
            importance=("localised", "surprises"),
        )


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
            by_score = {row.score: row for row in rows_of(source[source["name"] == name])}
            beside = baselines[(baselines["level"] == where) & (baselines["name"] == name)]
            plain = by_score["plain"]
            by_baseline = {
                row.of: _accuracy_cell(row, plain.pairs) for row in rows_of(beside[beside["score"] == "plain"])
            }
            cells = [cell(plain.accuracy, plain.low, plain.high), cell(by_score["per_token"].accuracy)]
            rows.append((name, plain.pairs, *cells, *(by_baseline[other] for other in others)))
    about = result.provenance
    title = f"{about.model['name']} on {table['suite'].iloc[0]}: accuracy"
    yield Overview(title, (level, "pairs", "plain", "per token", *others), rows)


def _accuracy_cell(row: Any, pairs: int) -> str:
    """A baseline's accuracy, with its number of items where it is not the model's."""
    return cell(row.accuracy) if row.pairs == pairs else f"{cell(row.accuracy)} (of {row.pairs:,})"


@pairs.costs
def _cost(
    estimator: Estimator, encoder: Encoder, suite: MinimalPairs | RegionSuites, *, limit: int | None,
    first: int | None, only: Sequence[str] | None, twin: bool, twin_limit: int, seed: int, **__: object,
) -> Cost:  # fmt: skip
    """Sentences are read once, by a masked model once for each of their tokens."""
    chosen = list(_chosen_part(suite, only, limit, first, seed))
    model = language_model(encoder)
    sentences = set(sentences_of(chosen))
    words = np.array([len(sentence.split()) for sentence in sentences])
    sizes = words * estimator.tokens_of_words(sentences)
    reads = sizes * (sizes if model.kind == "masked" else 1)
    passes = 1 + twin * len(_drawn(chosen, twin_limit, seed)) / len(chosen)
    work = passes * float(reads.sum()) * estimator.per_token
    return Cost(1 + twin, len(sentences), round(float(sizes.sum())), memory=memory_now(), work=work)
