"""Cloze: what a language model says in a gap, in psycholinguistic diagnostics, facts and texts of one's own."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import pandas as pd

from lamina.analyses.behaviour.cloze_diagnostics import ask_diagnostics
from lamina.analyses.behaviour.cloze_findings import findings_of, overview_of
from lamina.analyses.behaviour.cloze_own import ask_clozes, most_frequent_answer
from lamina.analyses.behaviour.cloze_relations import (
    BY_KNOWLEDGE,
    FACTS,
    FREQUENCIES,
    ask_relations,
    frequency_effects,
    most_frequent_object,
    object_counts,
)
from lamina.analyses.behaviour.cloze_scores import (
    ANSWERS,
    BASELINES,
    CHANCE,
    CLOZE,
    CONTRASTS,
    ITEMS,
    MOST_FREQUENT,
    PARTS,
    SCORES,
    TWIN,
    Estimates,
    Outcome,
    Outcomes,
    baseline_table,
    by_chance,
    cloze_table,
    contrast_table,
    estimates,
    item_table,
    score_table,
    with_mean,
)
from lamina.analyses.behaviour.inputs import SpokenSuite
from lamina.corpora import load_corpus
from lamina.corpora.cloze import Clozes, read_cloze
from lamina.corpora.lm_diagnostics import Diagnostics
from lamina.corpora.pararel import Relations
from lamina.encoders import Encoder
from lamina.encoders.candidates import Spelling
from lamina.encoders.language_model import LanguageModel, language_model
from lamina.encoders.passages import Passage, cut_passages
from lamina.framework.declare import Overview, Table, Tables, analysis
from lamina.framework.estimate import Cost, Estimator, memory_now
from lamina.framework.settings import Samples, Seed, Setting, Twin
from lamina.results import Result
from lamina.results.finding import Finding

Suite = Clozes | Diagnostics | Relations
_TIMED = 3
"""Relations, and items per part, that are asked to estimate the time."""


def _read(suite: str | Path, _: Mapping[str, Any]) -> Suite:
    return read_cloze(suite)


@analysis(
    title="Cloze",
    question="What does a language model say in a gap: the expected word, the true one, the fact?",
    method=(
        "A masked model sees both sides of the gap, a causal model what comes before it. Diagnostics are scored as in "
        "Ettinger (2020): whether an expected word is among the k likeliest (accuracy), and whether the good word is "
        "likelier than all bad ones (sensitivity). Facts are asked by all patterns of their relation: whether the "
        "object is among the k likeliest pieces (precision), whether it is the likeliest of the relation's objects, "
        "and whether paraphrases get the same object (consistency). Words of several pieces are filled in with as many "
        "masks, or piece by piece; their probability is the product over pieces. Beside it are chance, the most "
        "frequent answer of the other items, and the twin with random weights, on the same items; 95 % intervals "
        "resample items (facts by subject)."
    ),
    cites=("Ettinger 2020", "Petroni et al. 2019", "Elazar et al. 2021"),
    reads=SpokenSuite(read=_read, known=("lm_diagnostics", "pararel")),
    version=2,  # differences are tested as families
    tables={
        "cloze": Table("One row per part (`all`: the mean over parts) and measure.", CLOZE),
        "baselines": Table(
            "One row per part, measure and baseline, on the items that both were asked; difference: the model minus "
            "the baseline. Family: all parts of a measure (all sensitivities are one), the mean over parts apart; "
            "two-sided; what is right or wrong against items answered by chance, else signs of units are flipped.",
            BASELINES,
        ),
        "contrasts": Table(
            "One row per part and contrast: negative minus affirmative contexts (family: all parts; signs of items are "
            "flipped); facts of words of one token minus those of several; correlations with frequency (families of "
            "one; subjects are resampled). Two-sided.",
            CONTRASTS,
        ),
        "parts": Table("One row per part: items and texts asked, and how many have words of several pieces.", PARTS),
        "answers": Table("One row per text: where the answer ranks, and what the model said instead.", ANSWERS),
        "scores": Table("One row per item and measure.", SCORES, kept="parquet"),
        "items": Table("One row per item: the measure that models are compared by.", ITEMS, kept="parquet"),
    },
    chapter="answering",
    report={},
    example="lamina cloze smollm2 --suite lm_diagnostics --out results/cloze",
)
def cloze(
    encoder: Encoder,
    suite: Suite,
    *,
    limit: Annotated[
        int | None,
        Setting(
            f"Most items per part; by default {FACTS} facts per relation, drawn by the seed, and all of other items; "
            "0 for all.",
            min=0,
        ),
    ] = None,
    spelling: Annotated[
        Spelling,
        Setting("How objects of one piece and of several are compared: by the sum of log-probabilities or the mean."),
    ] = "sum",
    corpus: Annotated[
        str | None,
        Setting("Corpus in whose training texts the objects of facts are counted, by name or path.", file=True),
    ] = None,
    samples: Samples = 1000,
    twin: Twin = True,
    twin_limit: Annotated[int, Setting("Most facts per relation that the twin is asked.", min=1)] = 10,
    seed: Seed = 0,
) -> Tables:
    """Diagnostics, facts or clozes of one's own, beside chance, the most frequent answer and an untrained twin.

    A suite is one of the catalogue (`lm_diagnostics`, `pararel`), a file or folder in the layout of one, or a TSV, CSV
    or JSONL of one's own: texts with one slot (`[MASK]`, `[Y]` or `___`) and a column `answer`; `candidates`, `part`
    and `id` if wanted.

    Example:
        >>> result = lamina.cloze("smollm2", "lm_diagnostics")  # doctest: +SKIP
        >>> result.tables["cloze"].query("measure == 'sensitivity_negative'")  # doctest: +SKIP
    """
    model = language_model(encoder)
    chosen = _limited(suite, limit)
    facts = FACTS if limit is None else limit
    answered = _ask(model, chosen, facts, spelling, seed, answers=True)
    beside: dict[str, Sequence[Outcome]] = {CHANCE: by_chance(answered.scores)}
    if isinstance(chosen, Relations):
        beside[MOST_FREQUENT] = most_frequent_object(chosen.relations, answered.scores)
    elif isinstance(chosen, Clozes):
        beside[MOST_FREQUENT] = most_frequent_answer(chosen.items, answered.scores)
    if twin:
        fewer = min(facts or twin_limit, twin_limit)
        twin_scores = _ask(model.random_twin(seed), chosen, fewer, spelling, seed, answers=False).scores
        # What each of two models knows are not the same facts.
        beside[TWIN] = [outcome for outcome in twin_scores if outcome.measure not in BY_KNOWLEDGE]

    def summarise(outcomes: Sequence[Outcome], certain: bool) -> Estimates:
        means = estimates(outcomes, samples=samples, seed=seed, certain=certain)
        several = len({outcome.part for outcome in outcomes}) > 1 and not isinstance(chosen, Diagnostics)
        return with_mean(means) if several else means

    means = summarise(answered.scores, False)
    if isinstance(chosen, Relations):
        counts = None if corpus is None else object_counts(load_corpus(corpus, "train"), chosen.relations)
        means |= frequency_effects(chosen.relations, answered.scores, counts, samples=samples, seed=seed)
    name = Path(suite.name).stem
    scores = score_table(answered.scores, beside)
    parts = _part_table(chosen, answered)
    return Tables(
        {
            "cloze": cloze_table(name, means),
            "baselines": baseline_table(name, answered.scores, beside, summarise, seed),
            "contrasts": contrast_table(answered.scores, means, FREQUENCIES, seed),
            "parts": parts,
            "answers": pd.DataFrame(answered.answers, columns=list(ANSWERS)),
            "scores": scores,
            "items": item_table(answered.scores, scores),
        },
        {**chosen.left_out, **{why: count for why, count in answered.skipped.items() if count}},
        scored=_scored(chosen, parts),
    )


@cloze.finds
def _findings(result: Result) -> Iterable[Finding]:
    """See `findings_of`."""
    return findings_of(result)


@cloze.shows
def _overview(result: Result) -> Iterable[Overview]:
    """See `overview_of`."""
    return overview_of(result)


@cloze.costs
def _cost(
    _: Estimator, encoder: Encoder, suite: Suite, *, limit: int | None, spelling: Spelling, twin: bool,
    twin_limit: int, seed: int, **__: object,
) -> Cost:  # fmt: skip
    """Some items are asked and timed."""
    model = language_model(encoder)
    chosen, facts = _limited(suite, limit), FACTS if limit is None else limit
    some = (
        replace(chosen, relations=chosen.relations[:_TIMED]) if isinstance(chosen, Relations) else chosen.take(_TIMED)
    )
    _ask(model, some, 1, spelling, seed, answers=True)  # Warm-up; not timed.
    start = time.perf_counter()
    timed = _ask(model, some, _TIMED, spelling, seed, answers=True)
    seconds_per_text = (time.perf_counter() - start) / len(timed.answers)
    cuts = cut_passages(model, [Passage.typed(row.item, row.text) for row in timed.answers])
    pieces = sum(len(cut.tokens.ids) for cut in cuts) / len(cuts)
    texts = _texts(model, chosen, facts)
    fewer = _texts(model, chosen, min(facts or twin_limit, twin_limit)) if twin else 0
    seconds = seconds_per_text * (texts + fewer)
    return Cost(passes=1 + twin, texts=texts, tokens=round(pieces * texts), seconds=seconds, memory=memory_now())


def _limited(suite: Suite, limit: int | None) -> Suite:
    """The part of a suite that is asked; facts are drawn later, since all of a relation's objects stay candidates."""
    return suite.take(limit) if limit and not isinstance(suite, Relations) else suite


def _ask(model: LanguageModel, suite: Suite, facts: int, spelling: Spelling, seed: int, *, answers: bool) -> Outcomes:
    if isinstance(suite, Diagnostics):
        return ask_diagnostics(model, suite, answers=answers)
    if isinstance(suite, Relations):
        return ask_relations(model, suite, limit=facts, spelling=spelling, seed=seed, answers=answers)
    return ask_clozes(model, suite, answers=answers)


def _texts(model: LanguageModel, suite: Suite, facts: int) -> int:
    """Texts that are asked, about."""
    if isinstance(suite, Clozes):
        return len(suite.items)
    if isinstance(suite, Diagnostics):
        return 2 * sum(map(len, suite.parts.values()))
    patterns = [
        sum(model.kind == "masked" or pattern.ends for pattern in relation.patterns) for relation in suite.relations
    ]
    facts_per_relation = [min(facts or len(relation.facts), len(relation.facts)) for relation in suite.relations]
    return sum(a * b for a, b in zip(patterns, facts_per_relation, strict=True))


def _part_table(suite: Suite, outcomes: Outcomes) -> pd.DataFrame:
    names = {relation.id: relation.name for relation in suite.relations} if isinstance(suite, Relations) else {}
    texts = pd.Series([answer.part for answer in outcomes.answers]).value_counts()
    rows = []
    for part in dict.fromkeys(score.part for score in outcomes.scores):
        items = {score.id: score.one_piece for score in outcomes.scores if score.part == part and score.group}
        single = sum(bool(item_score) for item_score in items.values())
        rows.append((part, names.get(part, part), len(items), int(texts[part]), single, len(items) - single))
    return pd.DataFrame(rows, columns=list(PARTS))


def _scored(suite: Suite, parts: pd.DataFrame) -> dict[str, int]:
    """What was scored: of the diagnostics, parts are looked at one by one."""
    if isinstance(suite, Diagnostics):
        return {part: int(items) for part, items in zip(parts["part"], parts["items"], strict=True)}
    return {"items": int(parts["items"].sum())}
