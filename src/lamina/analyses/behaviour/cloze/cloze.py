"""Cloze: what a language model predicts in a gap, in psycholinguistic diagnostics, facts and clozes from a file."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd

from lamina.analyses.behaviour.cloze.scores import (
    ALL,
    ANSWERS,
    BASELINES,
    CHANCE,
    CLOZE,
    CONTRASTS,
    GIVEN_AWAY,
    ITEMS,
    MOST_FREQUENT,
    NAMED,
    NEGATION,
    PARTS,
    PIECES,
    SCORES,
    TOP_WORDS,
    TWIN,
    UNNAMED,
    AnswerRow,
    ClozeEstimates,
    ClozeOutcome,
    ClozeOutcomes,
    baseline_table,
    by_chance,
    cloze_table,
    contrast_table,
    estimates,
    item_table,
    score_table,
    with_mean,
)
from lamina.analyses.behaviour.cloze.suites import (
    BY_KNOWLEDGE,
    FACTS,
    FREQUENCIES,
    OBJECTS,
    WITHIN,
    ask_diagnostics,
    ask_relations,
    frequency_effects,
    most_frequent_object,
    object_counts,
)
from lamina.analyses.behaviour.inputs import SpokenSuite
from lamina.corpora import load_corpus
from lamina.corpora.suites.cloze import Cloze, Clozes, Diagnostics, Relations, read_cloze
from lamina.errors import InputError
from lamina.framework.declare import ComparedItems, Overview, Table, Tables, analysis
from lamina.framework.estimate import Cost, Estimator, memory_now
from lamina.framework.settings import Samples, Seed, Setting, Twin
from lamina.models import Encoder
from lamina.models.language.language_model import LanguageModel, language_model
from lamina.models.language.slots import Gap, RatedCandidates, Spelling, cannot_spell, rate
from lamina.results import Result
from lamina.results.finding import Finding, Source, cell, finding, percent, rows_of
from lamina.stats.status import Contrast

Suite = Clozes | Diagnostics | Relations
_TIMED = 3
"""Relations, and items per part, of the trial that estimates the time."""


def _read(suite: str | Path, _: Mapping[str, Any]) -> Suite:
    return read_cloze(suite)


@analysis(
    title="Cloze",
    question="What does a language model predict in a gap: the expected word, the true one, the fact?",
    method=(
        "A masked model sees both sides of the gap, a causal model what comes before it. Diagnostics are scored as in "
        "Ettinger (2020): whether an expected word is among the k likeliest (accuracy), and whether the good word is "
        "likelier than all bad ones (sensitivity). Facts are scored with all patterns of their relation: whether the "
        "object is among the k likeliest tokens (precision), whether it is the likeliest of the relation's objects, "
        "and whether paraphrases get the same object (consistency); measures in `_unnamed` leave out facts whose "
        "object is in the subject's name (Poerner et al. 2020). Words of several tokens are filled in with as many "
        "masks, or token by token; their probability is the product over tokens. The baselines are chance, the most "
        "frequent answer of the other items, and the twin with random weights, on the same items; 95 % intervals "
        "resample items (facts by subject)."
    ),
    cites=("Ettinger 2020", "Petroni et al. 2019", "Elazar et al. 2021b", "Poerner et al. 2020"),
    reads=SpokenSuite(read=_read, known=("lm_diagnostics", "pararel")),
    # A limit draws items within parts (3); categories of completions, objects in the subject's name (4).
    version=4,
    tables={
        "cloze": Table("One row per part (`all`: the mean over parts) and measure.", CLOZE),
        "baselines": Table(
            "One row per part, measure and baseline, on the items that both scored; difference: the model minus "
            "the baseline. Family: all parts of a measure (all sensitivities are one), the mean over parts apart; "
            "two-sided; what is right or wrong against items answered by chance, else signs of units are flipped.",
            BASELINES,
        ),
        "contrasts": Table(
            "One row per part and contrast: negative minus affirmative contexts (family: all parts; signs of items are "
            "flipped); facts of words of one token minus those of several, all facts minus those "
            "whose object is not in the subject's name; correlations with frequency (families of "
            "one; subjects are resampled). Two-sided.",
            CONTRASTS,
        ),
        "parts": Table(
            "One row per part: items and texts that were scored, and how many have words of several tokens.", PARTS
        ),
        "answers": Table("One row per text: the rank of the answer, and the most likely tokens.", ANSWERS),
        "scores": Table("One row per item and measure.", SCORES, format="parquet"),
        "items": Table("One row per item: the measure that models are compared by.", ITEMS, format="parquet"),
    },
    chapter="answering",
    report={},
    compares=ComparedItems(harmless=("limit", "first", "samples", "twin", "twin_limit", "seed")),
    example="lamina cloze smollm2 --suite lm_diagnostics --out results/cloze",
)
def cloze(
    encoder: Encoder,
    suite: Suite,
    *,
    limit: Annotated[
        int | None,
        Setting(
            f"Number of items to draw from each part; by default {FACTS} facts per relation and all of other items; 0 "
            "for all.",
            min=0,
        ),
    ] = None,
    first: Annotated[int | None, Setting("Take the first N items of each part instead of drawing some.", min=1)] = None,
    spelling: Annotated[
        Spelling,
        Setting("How objects of one token and of several are compared: by the sum of log-probabilities or the mean."),
    ] = "sum",
    corpus: Annotated[
        str | None,
        Setting("Corpus in whose training texts the objects of facts are counted, by name or path.", file=True),
    ] = None,
    samples: Samples = 1000,
    twin: Twin = True,
    twin_limit: Annotated[int, Setting("Maximum number of facts per relation for the twin.", min=1)] = 10,
    seed: Seed = 0,
) -> Tables:
    """Diagnostics, facts or your own clozes, compared with chance, the most frequent answer and an untrained twin.

    A suite is one of the catalogue (`lm_diagnostics`, `pararel`), a file or folder in the layout of one, or a TSV, CSV
    or JSONL of your own: texts with one slot (`[MASK]`, `[Y]` or `___`) and a column `answer`; `candidates`, `part`
    and `id` if wanted.

    Example:
        >>> result = lamina.cloze("smollm2", "lm_diagnostics")  # doctest: +SKIP
        >>> result.tables["cloze"].query("measure == 'sensitivity_negative'")  # doctest: +SKIP
    """
    model = language_model(encoder)
    chosen = _limited(suite, limit, first, seed)
    facts = _facts_per_relation(limit)
    answered = _ask(model, chosen, facts, spelling, seed, answers=True)
    beside: dict[str, Sequence[ClozeOutcome]] = {CHANCE: by_chance(answered.scores)}
    if isinstance(chosen, Relations):
        beside[MOST_FREQUENT] = most_frequent_object(chosen.relations, answered.scores)
    elif isinstance(chosen, Clozes):
        beside[MOST_FREQUENT] = most_frequent_answer(chosen.items, answered.scores)
    if twin:
        fewer = min(facts or twin_limit, twin_limit)
        twin_scores = _ask(model.random_twin(seed), chosen, fewer, spelling, seed, answers=False).scores
        # The facts that each of two models knows are not the same.
        beside[TWIN] = [outcome for outcome in twin_scores if outcome.measure not in BY_KNOWLEDGE]

    def summarise(outcomes: Sequence[ClozeOutcome], certain: bool) -> ClozeEstimates:
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


@cloze.costs
def _cost(
    estimator: Estimator, encoder: Encoder, suite: Suite, *, limit: int | None, first: int | None, twin: bool,
    twin_limit: int, seed: int, **__: object,
) -> Cost:  # fmt: skip
    """Texts that are scored, with about as many tokens as a sentence has."""
    model = language_model(encoder)
    chosen, facts = _limited(suite, limit, first, seed), _facts_per_relation(limit)
    texts = _texts(model, chosen, facts)
    fewer = _texts(model, chosen, min(facts or twin_limit, twin_limit)) if twin else 0
    tokens = _TOKENS * texts
    work = _TOKENS * (texts + fewer) * estimator.per_token
    return Cost(passes=1 + twin, texts=texts, tokens=tokens, memory=memory_now(), work=work)


_TOKENS = 12
"""Tokens of a cloze, about."""


def _limited(suite: Suite, limit: int | None, first: int | None, seed: int) -> Suite:
    """The part of a suite that is scored; facts are drawn later, since all objects of a relation stay candidates."""
    if limit is not None and first is not None:
        raise InputError("limit draws items and first takes the first ones; give one of the two")
    if isinstance(suite, Relations):
        if first is not None:
            raise InputError(f"facts of {suite.name} are drawn; give --limit {first} in place of --first {first}")
        return suite
    if first is not None:
        return suite.take(first)
    return suite.sample(limit, seed) if limit else suite


def _facts_per_relation(limit: int | None) -> int:
    return FACTS if limit is None else limit


def _ask(
    model: LanguageModel, suite: Suite, facts: int, spelling: Spelling, seed: int, *, answers: bool
) -> ClozeOutcomes:
    if isinstance(suite, Diagnostics):
        return ask_diagnostics(model, suite, answers=answers)
    if isinstance(suite, Relations):
        return ask_relations(model, suite, limit=facts, spelling=spelling, seed=seed, answers=answers)
    return ask_clozes(model, suite, answers=answers)


def _texts(model: LanguageModel, suite: Suite, facts: int) -> int:
    """Approximate number of texts that are scored."""
    if isinstance(suite, Clozes):
        return len(suite.items)
    if isinstance(suite, Diagnostics):
        return 2 * sum(map(len, suite.parts.values()))
    patterns = [
        sum(model.kind == "masked" or pattern.ends for pattern in relation.patterns) for relation in suite.relations
    ]
    facts_per_relation = [min(facts or len(relation.facts), len(relation.facts)) for relation in suite.relations]
    return sum(a * b for a, b in zip(patterns, facts_per_relation, strict=True))


def _part_table(suite: Suite, outcomes: ClozeOutcomes) -> pd.DataFrame:
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


CLOZE_RANKS = (1, 5, 10)
CHOICE = "choice"
"""The share of items of which an answer is the likeliest candidate."""
SLOTS_FOLLOWED = "items whose slot is followed by words, which a causal model does not see"


def ask_clozes(model: LanguageModel, suite: Clozes, *, answers: bool) -> ClozeOutcomes:
    """Score every item; for a causal model, those whose slot comes last."""
    items = [item for item in suite.items if model.kind == "masked" or not re.search(r"\w", item.after)]
    left_out = len(suite.items) - len(items)
    if not items:
        raise InputError(
            f"{suite.name}: words follow every slot, which {model.name} (a causal model) does not see; ask a masked "
            "model, or write texts that end with their slot"
        )
    _refuse_unspelt(model, suite.name, items)
    outcomes = ClozeOutcomes(skipped={SLOTS_FOLLOWED: left_out} if left_out else {})
    slots = [Gap(item.item, item.before, item.after) for item in items]
    words = [item.candidates or item.answers for item in items]
    for item, rated in zip(items, rate(model, slots, words), strict=True):
        outcomes.scores.extend(_cloze_outcomes(item, rated, model.vocabulary))
        if answers:
            outcomes.answers.append(_cloze_answer(model, item, rated))
    return outcomes


def most_frequent_answer(items: Iterable[Cloze], outcomes: Iterable[ClozeOutcome]) -> list[ClozeOutcome]:
    """The same outcomes for a baseline that always gives the most frequent answer of the part's other items."""
    known = {(item.part, item.id): item for item in items}
    counts: dict[str, Counter[str]] = {}
    for item in known.values():
        counts.setdefault(item.part, Counter()).update(item.answers)
    baseline = []
    for outcome in outcomes:
        item = known[outcome.part, outcome.id]
        others = counts[outcome.part] - Counter(item.answers)
        offered = [(-count, word) for word, count in others.items() if not item.candidates or word in item.candidates]
        if outcome.measure == CHOICE:
            # Where no answer of the other items is a candidate, it guesses.
            value = float(min(offered)[1] in item.answers) if offered else outcome.chance
            baseline.append(outcome._replace(value=value))
        elif outcome.measure.startswith("accuracy_at_"):
            first = [word for _, word in sorted((-count, word) for word, count in others.items())]
            guesses = first[: int(outcome.measure.rpartition("_")[2])]
            baseline.append(outcome._replace(value=float(any(word in item.answers for word in guesses))))
    return baseline


def _refuse_unspelt(model: LanguageModel, name: str, items: Iterable[Cloze]) -> None:
    every = list(dict.fromkeys(word for item in items for word in (*item.answers, *item.candidates)))
    if unspelt := cannot_spell(model, every):
        listed = ", ".join(map(repr, unspelt[:8])) + (f" and {len(unspelt) - 8:,} more" if len(unspelt) > 8 else "")
        raise InputError(f"{name}: the vocabulary of {model.name} cannot spell {listed}; leave these out")


def _cloze_outcomes(item: Cloze, rated: RatedCandidates, vocabulary: int) -> Iterator[ClozeOutcome]:
    # The answers come first among the candidates.
    count = len(item.answers)
    one_piece = bool((rated.pieces[:count] == 1).any())
    rank = min(rated.rank(number) for number in range(count))
    for k in CLOZE_RANKS:
        group = item.part if k == 1 and not item.candidates else ""
        chance = min(1.0, k * count / vocabulary)
        yield ClozeOutcome(item.part, item.id, f"accuracy_at_{k}", float(rank <= k), one_piece, chance, group=group)
    yield ClozeOutcome(item.part, item.id, "probability", float(np.exp(rated.logprobs[:count]).sum()), one_piece)
    if item.candidates:
        same = bool((rated.pieces == 1).all())
        value = float(rated.logprobs.argmax() < count)
        chance = count / len(item.candidates)
        yield ClozeOutcome(item.part, item.id, CHOICE, value, same, chance, group=item.part)


def _cloze_answer(model: LanguageModel, item: Cloze, rated: RatedCandidates) -> AnswerRow:
    count = len(item.answers)
    best = min(range(count), key=rated.rank)
    top = " | ".join(rated.top(model, TOP_WORDS))
    probability = float(np.exp(rated.logprobs[:count]).sum())
    text = f"{item.before}___{item.after}"
    return AnswerRow(
        item.item, item.part, text, "|".join(item.answers), len(rated.ids[best]), rated.rank(best), probability, top
    )


_NEGATED, _AFFIRMED = "sensitivity_negative", "sensitivity_affirmative"


@cloze.finds
def findings_of(result: Result) -> Iterator[Finding]:
    """What a result shows, by the kind of suite."""
    rows = ClozeRows(result)
    if rows.any(OBJECTS):
        yield from _of_facts(rows)
    elif rows.any("sensitivity"):
        yield from _of_diagnostics(rows)
    else:
        yield from _of_clozes(rows)


class ClozeRows:
    """The rows of a result, found by part and measure."""

    def __init__(self, result: Result) -> None:
        self.model = str(result.provenance.model["name"])
        self._scores = {(row.part, row.measure): row for row in rows_of(result.tables["cloze"])}
        self._beside = {(row.part, row.measure, row.baseline): row for row in rows_of(result.tables["baselines"])}
        self.parts = {row.part: row for row in rows_of(result.tables["parts"])}
        self.names = {part: row.name for part, row in self.parts.items()}
        self.contrasts = {(row.part, row.contrast): row for row in rows_of(result.tables["contrasts"])}

    @property
    def whole(self) -> str:
        """The part that is the mean over all."""
        return ALL if any(part == ALL for part, _ in self._scores) else next(iter(self.names))

    def any(self, measure: str) -> bool:
        """Whether some part has this measure."""
        return any(name == measure for _, name in self._scores)

    def get(self, part: str, measure: str) -> Any:
        """A row of `cloze`, or None."""
        return self._scores.get((part, measure))

    def beside(self, part: str, measure: str, baseline: str) -> Any:
        """A row of `baselines`, or None."""
        return self._beside.get((part, measure, baseline))


def _of_row(row: Any) -> Contrast:
    return Contrast.of(row, "difference", "diff_low", "diff_high")


def _sources(part: str, measures: Sequence[str], baseline: str) -> list[Source]:
    """Rows of a part's measures, with the baseline of the first one."""
    beside = Source("baselines", {"part": part, "measure": measures[0], "baseline": baseline})
    return [beside, *(Source("cloze", {"part": part, "measure": measure}) for measure in measures)]


def _pieces_note(part: Any) -> str:
    """How many items depend on words of several tokens."""
    if not part.several_pieces:
        return ""
    return (
        f"In {part.one_piece:,} of {part.items:,} items all words are one token; the probability of a word of several "
        "is the product over its tokens."
    )


def _of_diagnostics(rows: ClozeRows) -> Iterator[Finding]:
    for part in rows.names:
        if rows.get(part, _NEGATED):
            yield from _negation(rows, part)
        elif score := rows.get(part, "sensitivity"):
            chance = rows.beside(part, "sensitivity", CHANCE)
            good = (
                "the expected word is likelier than both that do not fit"
                if chance.value < 0.5
                else "the word is likelier than with the roles reversed"
            )
            yield finding(
                claim=f"{part}: {good} in {percent(score.value)} of {score.n} items; chance is {percent(chance.value)}",
                whether=f"in {part}, {good} more often than by chance",
                absent=f"{part}: {good} as often as by chance",
                contrast="difference",
                test=_of_row(chance),
                source=_sources(part, ["sensitivity"], CHANCE),
                unit="item",
                note=_pieces_note(rows.parts[part]),
            )
            yield from _categories(rows, part)


def _categories(rows: ClozeRows, part: str) -> Iterator[Finding]:
    """Whether of two words that are not expected, the one of the right category is preferred."""
    score, chance = rows.get(part, WITHIN), rows.beside(part, WITHIN, CHANCE)
    if score is None or chance is None:
        return
    kind = "an unexpected word of the expected category is likelier than one of another category"
    yield finding(
        claim=f"{part}: {kind} in {percent(score.value)} of {score.n} items; chance is {percent(chance.value)}",
        whether=f"in {part}, {kind} more often than by chance",
        absent=f"{part}: {kind} as often as by chance",
        contrast="difference",
        test=_of_row(chance),
        source=_sources(part, [WITHIN], CHANCE),
        unit="item",
        note=_pieces_note(rows.parts[part]),
    )


def _negation(rows: ClozeRows, part: str) -> Iterator[Finding]:
    """Whether the true word is preferred under negation, and whether negation moves the preference."""
    negated, affirmed = rows.get(part, _NEGATED), rows.get(part, _AFFIRMED)
    chance = rows.beside(part, _NEGATED, CHANCE)
    how = "passes" if chance.difference > 0 else "fails"
    yield finding(
        claim=f"{part}: {rows.model} {how} under negation: the true word is likelier than the false one in "
        f"{percent(negated.value)} of {negated.n} negative contexts, in affirmative ones in {percent(affirmed.value)}",
        whether=f"in {part}, the true word is likelier than the false one in negative contexts",
        absent=f"{part}: the true word is as likely as the false one in negative contexts",
        contrast="negative contexts minus chance",
        test=_of_row(chance),
        source=_sources(part, [_NEGATED, _AFFIRMED], CHANCE),
        unit="item",
        importance=("answers",) if how == "passes" else ("answers", "surprises"),
        note=_pieces_note(rows.parts[part]),
    )
    apart = rows.contrasts.get((part, NEGATION))
    if apart is not None and apart.difference:
        more, less = ("negative", "affirmative") if apart.difference > 0 else ("affirmative", "negative")
        yield finding(
            claim=f"{part}: the true word is likelier than the false one in more {more} contexts than {less} ones",
            whether=f"in {part}, the true word is preferred more often in {more} contexts than in {less} ones",
            absent=f"{part}: the true word is preferred as often in negative contexts as in affirmative ones",
            contrast=NEGATION,
            test=_of_row(apart),
            source=Source("contrasts", {"part": part, "contrast": NEGATION}),
            unit="item",
            importance=("surprises",),
        )


def _of_facts(rows: ClozeRows) -> Iterator[Finding]:
    whole = rows.whole
    score, frequent = rows.get(whole, OBJECTS), rows.beside(whole, OBJECTS, MOST_FREQUENT)
    over = f" (mean over {len(rows.names)} relations)" if len(rows.names) > 1 else ""
    constant = "always answering the most frequent one"
    yield finding(
        claim=f"{rows.model} puts the right object first among its relation's objects for {percent(score.value)} of "
        f"facts{over}; {constant} is right for {percent(frequent.value)}",
        whether=f"{rows.model} finds the object of a fact more often than {constant} does",
        absent=f"{rows.model} finds the object of a fact as often as {constant} does",
        contrast="difference",
        test=_of_row(frequent),
        source=[*_sources(whole, [OBJECTS], MOST_FREQUENT), Source("parts")],
        unit="item",
        importance=("answers", "beats control"),
    )
    yield from _consistency(rows)
    yield from _pieces(rows)
    yield from _given_away(rows)
    row = rows.contrasts.get((whole, FREQUENCIES[0]))
    if row is not None:
        within = " within relations" if whole == ALL else ""
        yield finding(
            claim=f"{'More' if row.difference > 0 else 'Less'} frequent objects are predicted more often{within}",
            whether=f"frequent objects are predicted more often than rare ones{within}",
            absent=f"Frequent objects are predicted as often as rare ones{within}",
            contrast="rank correlation",
            test=_of_row(row),
            source=Source("contrasts", {"part": whole, "contrast": FREQUENCIES[0]}),
            unit="item",
            importance=("localised",),
            margin=0.05,
        )


def _consistency(rows: ClozeRows) -> Iterator[Finding]:
    same = rows.get(rows.whole, "consistency")
    if same is None:
        return
    twin, chance = (rows.beside(rows.whole, "consistency", name) for name in (TWIN, CHANCE))
    beside, name = (chance, CHANCE) if twin is None else (twin, TWIN)
    against = "chance" if twin is None else "the twin with random weights"
    # The twin may have fewer facts: the difference is on those of both.
    yield finding(
        claim=f"Two paraphrases of a question get the same object in {percent(same.value)} of pairs; {against} gives "
        f"the same in {percent(beside.value)}",
        whether=f"paraphrases get the same object more often than {against} gives",
        absent=f"Paraphrases get the same object as often as {against} gives",
        contrast="difference" if twin is None else "difference on the facts of both",
        test=_of_row(beside),
        source=_sources(rows.whole, ["consistency"], name),
        unit="item",
        importance=("beats control",),
    )


def _pieces(rows: ClozeRows) -> Iterator[Finding]:
    one, several = (rows.get(rows.whole, f"{OBJECTS}_{which}") for which in ("one_piece", "several_pieces"))
    row = rows.contrasts.get((rows.whole, PIECES))
    if one is None or several is None or row is None:
        return
    yield finding(
        claim=f"Objects of one token come first in {percent(one.value)} of {one.n:,} facts, objects of several in "
        f"{percent(several.value)} of {several.n:,}",
        whether="objects of one token come first more often than those of several",
        absent="Objects of one token come first as often as those of several",
        contrast="difference",
        test=_of_row(row),
        source=[
            Source("contrasts", {"part": rows.whole, "contrast": PIECES}),
            *(Source("cloze", {"part": rows.whole, "measure": f"{OBJECTS}_{which}"}) for which in
              ("one_piece", "several_pieces")),
        ],
        unit="item",
        importance=("localised",),
    )  # fmt: skip


def _given_away(rows: ClozeRows) -> Iterator[Finding]:
    """What is left without the facts whose object is in the subject's letters."""
    score, named, others = (rows.get(rows.whole, f"{OBJECTS}{which}") for which in ("", NAMED, UNNAMED))
    row = rows.contrasts.get((rows.whole, GIVEN_AWAY))
    if named is None or others is None or row is None:
        return
    yield finding(
        claim=f"Without {named.n:,} facts whose object is in the subject's name, the right object comes first in "
        f"{percent(others.value)}; with them in {percent(score.value)}",
        whether="facts whose object is in the subject's name change how often the right object comes first",
        absent="Facts whose object is in the subject's name do not change how often the right object comes first",
        contrast="with them minus without",
        test=_of_row(row),
        source=[
            Source("contrasts", {"part": rows.whole, "contrast": GIVEN_AWAY}),
            *(Source("cloze", {"part": rows.whole, "measure": f"{OBJECTS}{which}"}) for which in ("", NAMED, UNNAMED)),
        ],
        unit="item",
        importance=("localised",),
    )


def _of_clozes(rows: ClozeRows) -> Iterator[Finding]:
    for measure, what, baseline in (
        (CHOICE, "the answer is the likeliest candidate", CHANCE),
        ("accuracy_at_1", "the answer is the likeliest word", MOST_FREQUENT),
    ):
        score, other = rows.get(rows.whole, measure), rows.beside(rows.whole, measure, baseline)
        if score is None or other is None:
            continue
        named = "chance" if baseline == CHANCE else "the most frequent answer of the other items"
        yield finding(
            claim=f"{what[0].upper()}{what[1:]} in {percent(score.value)} of {score.n:,} items; {named} gives "
            f"{percent(other.value)}",
            whether=f"{what} more often than {named} gives",
            absent=f"{what[0].upper()}{what[1:]} as often as {named} gives",
            contrast="difference",
            test=_of_row(other),
            source=_sources(rows.whole, [measure], baseline),
            unit="item",
            importance=("answers", "beats control"),
            note=_pieces_note(rows.parts[rows.whole]) if rows.whole in rows.parts else "",
        )


_MEASURES_OF_SUITE = {
    OBJECTS: ("precision_at_1", "precision_at_10", OBJECTS, "consistency"),
    "sensitivity": ("accuracy_at_5", "sensitivity", WITHIN, _AFFIRMED, _NEGATED),
    "accuracy_at_1": ("accuracy_at_1", "accuracy_at_5", "accuracy_at_10", CHOICE),
}
"""The measure that identifies the kind of suite -> the measures that the terminal shows."""
_FEW = 12
"""Parts that are shown with an interval."""
_HEADINGS: dict[str, str] = {
    "accuracy_at_1": "at 1", "accuracy_at_5": "at 5", "accuracy_at_10": "at 10", _AFFIRMED: "affirmed",
    _NEGATED: "negated", "precision_at_1": "P@1", "precision_at_10": "P@10", OBJECTS: "objects",
    CHANCE: "chance", MOST_FREQUENT: "most frequent", WITHIN: "category",
}  # fmt: skip


@cloze.shows
def overview_of(result: Result) -> Iterable[Overview]:
    """One row per part, the measures that one looks at first, and the baselines of the main one."""
    rows = ClozeRows(result)
    main = next(measure for measure in _MEASURES_OF_SUITE if rows.any(measure))
    measures = [measure for measure in _MEASURES_OF_SUITE[main] if rows.any(measure)]
    beside = CHANCE if main == "sensitivity" else MOST_FREQUENT
    parts = ([ALL] if rows.whole == ALL else []) + list(rows.names)
    few = len(parts) <= _FEW
    table: list[tuple[str | int, ...]] = []
    for part in parts:
        name = rows.names.get(part, part)
        # The terminal has room for one interval, and with many parts for none.
        cells = [
            "" if row is None else cell(row.value, row.low, row.high) if measure == main and few else cell(row.value)
            for measure in measures
            for row in (rows.get(part, measure),)
        ]
        other = rows.beside(part, main, beside)
        most = max((row.n for measure in measures if (row := rows.get(part, measure)) is not None), default=0)
        baseline = "" if other is None else cell(other.value)
        table.append((part if name == part else f"{part} ({name})", most, *cells, baseline))
    suite = str(result.tables["cloze"]["suite"].iloc[0])
    columns = (
        "part",
        "items",
        *(_HEADINGS[measure] if measure in _HEADINGS else measure.replace("_", " ") for measure in measures),
        _HEADINGS[beside],
    )
    yield Overview(f"{rows.model} on {suite}", columns, table)
