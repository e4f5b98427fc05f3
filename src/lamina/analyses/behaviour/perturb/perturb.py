"""Words shuffled, cut and left out: what of a model's loss, judgements, probes and answers is left?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import isfinite, log
from typing import Annotated, Any

import numpy as np
import pandas as pd

from lamina import assets
from lamina.activations import Runtime
from lamina.analyses.behaviour.inputs import speaking, texts_to_score
from lamina.analyses.behaviour.perturb.perturbations import HOWS, PARTIAL, REMOVED, Lexicon, Perturbation, Way, plan
from lamina.analyses.behaviour.perturb.scores import (
    BY_WORD,
    CONTRASTS,
    ITEMS,
    PERTURB,
    REMAINS,
    PerturbationPlan,
    PerturbedItems,
    ProbedTask,
    ahead_of,
    answer_items,
    ask_task,
    beyond,
    contrast_rows,
    guesses,
    in_words,
    item_rows,
    loss_items,
    pair_items,
    plan_task,
    probe_items,
    score_of,
    score_rows,
    train_reader,
)
from lamina.analyses.layers.probe.planning import ProbePlan, training_cost
from lamina.corpora import Corpus
from lamina.corpora.corpus import fingerprint_of
from lamina.corpora.loading import scored_split
from lamina.corpora.question_sets import Questions, load_questions
from lamina.corpora.questions.question import Question
from lamina.corpora.splits import Splits
from lamina.corpora.suites.minimal_pairs import MinimalPair, MinimalPairs, read_pairs
from lamina.errors import CorpusError, InputError, ModelError
from lamina.framework.declare import Overview, Table, Tables, analysis
from lamina.framework.estimate import Cost, Estimator, memory_now
from lamina.framework.inputs import (
    LoadedInputs,
    TrainedTexts,
    as_encoder,
    chosen_view,
    model_and,
)
from lamina.framework.settings import Samples, Seed, Setting, Twin
from lamina.models import Encoder
from lamina.models.language.language_model import LanguageModel, has_language_model, language_model
from lamina.models.running.huggingface import HuggingFaceEncoder
from lamina.results import Result
from lamina.results.finding import Finding, Source, finding, not_tested, number, percent, rows_of
from lamina.stats.status import Contrast
from lamina.stats.units import unit_of
from lamina.targets.answers import has_span_head, random_answerer, span_answerer
from lamina.targets.target import LOSS, PAIRS, PROBE, QA, some_pairs, some_texts
from lamina.types import Text

TWIN = "twin"
"""What changes are compared with."""
_SHUFFLED = {"how": "shuffled", "strength": 1.0}
_NATS = 0.05
"""A difference in loss that means nothing, in nats per token."""
_SUITE, _QUESTIONS = "blimp", "stories"
"""Pairs and questions where none are named."""
GUESS, UNIFORM = "guessing", "every token equally likely"
"""Controls of pairs and of the loss."""
_CONTROLS = ("target", "control", "value", "low", "high")
_TRIED = 8
"""Texts, pairs and questions that are timed to estimate the time of all."""


@dataclass(frozen=True)
class PerturbedTexts(TrainedTexts):
    """A model, texts for probes to learn from and texts to perturb; pairs and questions where it has the head for them.

    The analysis's function gets the encoder, the texts (a corpus where there are none to learn from), and pairs and
    questions or None. A limit is of the texts that are perturbed.
    """

    def load(
        self, given: Mapping[str, Any], options: Mapping[str, Any], settings: Mapping[str, Any], runtime: Runtime
    ) -> LoadedInputs:
        """See `Reads.load`; a model without the head that a target needs is refused before texts are read."""
        targets = settings["targets"]
        _refuse_unknown(targets)
        encoder = as_encoder(given["model"], options, runtime)
        speaks = has_language_model(encoder)
        spoken = speaking(encoder) if speaks or {LOSS, PAIRS} & set(targets or ()) else None
        if targets is not None and QA in targets:
            span_answerer(encoder)
        pairs = _pairs(settings["suite"], targets) if speaks else None
        questions = _questions(settings["questions"], targets, encoder) if has_span_head(encoder) else None
        texts = texts_to_score(given["data"], options, targets, self.split)
        loaded = model_and(encoder, texts, given["model"])
        read = {"pairs": pairs, "questions": questions}
        about = {name: described.describe() for name, described in read.items() if described is not None}
        prints = [described["fingerprint"] for described in about.values()]
        data = {**loaded.data, **about, "fingerprint": fingerprint_of(loaded.data["fingerprint"], *prints)}
        return replace(loaded, arguments=(encoder, texts, pairs, questions), model=spoken or loaded.model, data=data)

    def in_report(self, encoder: Encoder, texts: Any, train: Any) -> dict[str, Any] | None:
        """A report does not ask it."""
        return None


@analysis(
    title="Perturbed input",
    question="What is left of a model's loss, judgements, probes and answers when words are shuffled, cut or left out?",
    method=(
        "Texts, both sentences of minimal pairs and the contexts of questions are perturbed: words shuffled (in or "
        "within n-grams, within phrases), cut, reduced to content or to function words, or read at shifted positions. "
        "Each word keeps its identity, and punctuation that ends a sentence its place. The same words are scored with "
        "and without it: loss per token, accuracy on the pairs, accuracy of a probe trained on unperturbed texts, F1 "
        "of answers. Differences are paired by document (pairs: by pair) and tested together for all perturbations of "
        "a target (max-T); 95 % intervals of scores resample documents. The twin with random weights is beside them."
    ),
    cites=("Ettinger 2020", "Pham et al. 2021", "Sinha et al. 2021", "Sinha et al. 2022"),
    reads=PerturbedTexts(),
    # Perturbations of a target are one family; findings name the remaining score (2). Subject and object removed, and
    # the parts of a question alone, are of the family (3).
    version=3,
    tables={
        "perturb": Table(
            "One row per perturbation and target; baseline: the same words unperturbed; difference: value minus "
            "baseline. Family: all perturbations of a target; two-sided; signs of units are flipped.",
            PERTURB,
        ),
        "twin": Table("The same of the twin with random weights.", PERTURB, optional=True),
        "remains": Table(
            "One row per perturbation, strength and target with a chance level: the share of the score above chance "
            "that is left (n/a where the unperturbed score is not above chance, tested one-sided); difference: the "
            "perturbed score minus chance. Family: all perturbations of a target; two-sided; signs of units are "
            "flipped.",
            REMAINS,
        ),
        "contrasts": Table(
            "One row per perturbation, target and comparison: the change minus that of the twin; of probes, the score "
            "minus that of each word's most frequent label. Family: all perturbations of a target and comparison; "
            "two-sided; signs of units are flipped.",
            CONTRASTS,
        ),
        "controls": Table("One row per target and answer that needs no model, on unperturbed input.", _CONTROLS),
        "items": Table(
            "One row per perturbation, strength, target and text, pair or question.", ITEMS, format="parquet"
        ),
    },
    chapter="words",
    example="lamina perturb smollm2 --corpus ewt --suite blimp --items 100 --out results/perturb",
)
def perturb(
    encoder: Encoder,
    texts: Splits | Corpus,
    minimal_pairs: MinimalPairs | None,
    asked_questions: Questions | None,
    *,
    targets: Annotated[
        Sequence[str] | None,
        Setting(
            "What is scored: loss, pairs, qa or probe:TASK; by default what model and data can give, and probe:pos.",
            option="--target",
        ),
    ] = None,
    how: Annotated[
        Sequence[Way] | None,
        Setting(
            "Perturbations: shuffled (n-grams stay whole; of 1 word: all words), shuffled_within (n-grams stay in "
            "their places), phrases, cut_first, cut_last, content, function, positions, subject, object, arguments "
            "(both removed), and of questions no_question and no_context (the other part alone); all by default."
        ),
    ] = None,
    # Which pairs and questions that means is found when inputs are loaded.
    suite: Annotated[  # noqa: ARG001
        str | None, Setting("Minimal pairs: a suite or a file; blimp by default, where it is at hand.", file=True)
    ] = None,
    questions: Annotated[  # noqa: ARG001
        str | None, Setting("Questions for a model with a span head: a name or a path; stories by default.", file=True)
    ] = None,
    ngrams: Annotated[Sequence[int], Setting("Words of an n-gram.", min=1)] = (1, 2, 3, 4),
    cuts: Annotated[Sequence[float], Setting("Shares of the words that are cut.", min=0.0, max=1.0)] = (
        0.25,
        0.5,
        0.75,
    ),
    shifts: Annotated[Sequence[int], Setting("Places by which positions are shifted.", min=1)] = (16, 64, 256),
    items: Annotated[
        int, Setting("Maximum number of texts, pairs and questions of each target, drawn at random.", min=2)
    ] = 300,
    draws: Annotated[int, Setting("How often a random order is drawn; scores are averaged.", min=1)] = 1,
    steps: Annotated[
        int | None, Setting("Maximum number of steps of a probe's training; the quick schedule's by default.", min=1)
    ] = None,
    samples: Samples = 1000,
    twin: Twin = True,
    seed: Seed = 0,
    runtime: Runtime,
) -> Tables:
    """Loss, minimal pairs, probes and answers on perturbed input, beside the same words as they are written.

    A language-model head is asked for its loss and for minimal pairs, a span head for answers; any model can be probed.
    `remains` has the share of the score above chance that is left: what does not depend on the order that was changed.
    Perturbations that need what a text does not have (dependencies, parts of speech, position ids) are left out and
    counted. Sentences of pairs and contexts have no parts of speech: content words are distinguished from function
    words by each word's most frequent one in the training texts.

    Example:
        >>> result = lamina.perturb("smollm2", "ewt", targets=["loss"], how=["shuffled"], items=50)  # doctest: +SKIP
        >>> result.tables["perturb"].columns.tolist()[:4]  # doctest: +SKIP
        ['how', 'strength', 'target', 'value']
    """
    chosen = chosen_names(targets, encoder, texts, minimal_pairs, asked_questions)
    perturbations = plan(HOWS if how is None else how, ngrams=ngrams, cuts=cuts, shifts=shifts)
    drawing = PerturbationPlan(perturbations, seed, draws, Counter())
    scored, train = (texts.scored, texts.train) if isinstance(texts, Splits) else (texts, texts)
    material = _PerturbedData(
        some_texts(scored, items, seed),
        [] if minimal_pairs is None else some_pairs(minimal_pairs, items, seed),
        [] if asked_questions is None else _answerable(asked_questions, items, seed),
        Lexicon(train) or None if {PAIRS, QA} & set(chosen) else None,
    )
    for target in chosen:
        if target.startswith(PROBE) and isinstance(texts, Splits):
            probed = _planned(target, texts, encoder, runtime, steps=steps, seed=seed)
            material.probed[target] = ask_task(probed, material.texts)
    measured = list(_measure(chosen, _ModelOrTwin(encoder), material, drawing, runtime))
    if not measured:
        why = "; ".join(drawing.skipped) or "no perturbation was asked for"
        raise CorpusError(f"{texts.name}: nothing could be perturbed ({why})")
    rows = score_rows(measured, samples=samples, seed=seed)
    tables = {
        "perturb": pd.DataFrame(rows.scores, columns=list(PERTURB)),
        "remains": pd.DataFrame(rows.remains, columns=list(REMAINS)),
        "controls": pd.DataFrame(
            _controls(chosen, encoder, material, samples=samples, seed=seed), columns=list(_CONTROLS)
        ),
        "items": item_rows(measured),
    }
    beside: list[PerturbedItems] = []
    if twin and encoder.blocks:
        beside = list(_measure(chosen, _ModelOrTwin(encoder, seed), material, drawing, runtime))
        tables["twin"] = pd.DataFrame(score_rows(beside, samples=samples, seed=seed).scores, columns=list(PERTURB))
    tables["contrasts"] = pd.DataFrame(_contrasts(measured, beside, material), columns=list(CONTRASTS))
    for target, probed in material.probed.items():
        drawing.note({f"{target}: targets of several words": probed.longer})
    return Tables(tables, drawing.skipped, scored=_scored(measured))


@perturb.finds
def findings_of(result: Result) -> Iterator[Finding]:
    """What is left when all words are shuffled, target by target, beside the twin and each word's label."""
    for row in _shuffled(result, "perturb"):
        yield from _loss(result, row) if row.target == LOSS else _score(result, row)


@perturb.shows
def overview_of(result: Result) -> Iterator[Overview]:
    """One row per perturbation and strength, one column per target: the change."""
    table = result.tables["perturb"]
    targets = list(dict.fromkeys(table["target"]))
    about = result.provenance
    rows: dict[tuple[str, float], dict[str, str]] = {}
    for row in rows_of(table):
        # Of words of a kind, the share left out differs from target to target.
        key = (row.how, 0.0 if row.how in REMOVED else row.strength)
        rows.setdefault(key, {})[row.target] = number(row.difference, row.diff_low, row.diff_high)
    lines: list[tuple[str | int, ...]] = [
        (in_words(Perturbation(how, strength)), *(cells.get(target, "-") for target in targets))  # type: ignore[arg-type]
        for (how, strength), cells in rows.items()
    ]
    base = _unperturbed(table, targets)
    yield Overview(
        f"{about.model['name']} on {about.corpus['name']}: change by perturbation",
        ("perturbation", *(f"{target} ({base[target]} unperturbed)" for target in targets)),
        lines,
    )


@perturb.costs
def _cost(
    estimator: Estimator, encoder: Encoder, texts: Splits | Corpus, minimal_pairs: MinimalPairs | None,
    asked_questions: Questions | None, *, targets: Sequence[str] | None, items: int, twin: bool, **settings: Any,
) -> Cost:  # fmt: skip
    """Items of each head's targets, each perturbed in as many ways; of probes, encoding and training."""
    chosen = chosen_names(targets, encoder, texts, minimal_pairs, asked_questions)
    spoken = tuple(name for name in chosen if not name.startswith(PROBE))
    scored = texts.scored if isinstance(texts, Splits) else texts
    total = Cost(passes=1 + twin, texts=min(items, len(scored)), memory=memory_now())
    if len(spoken) < len(chosen) and isinstance(texts, Splits):
        encoders = [encoder, *([encoder.random_twin(0)] if twin and encoder.blocks else [])]
        for target in (name for name in chosen if name not in spoken):
            plan_of_task = _planned(
                target, texts, encoder, estimator.runtime, steps=settings["steps"], seed=settings["seed"]
            )
            total += estimator.encoding([plan_of_task.setup.splits.train, texts.scored], encoders)
            total += training_cost(estimator, plan_of_task, encoders, mdl=False)
    if spoken:
        count, tokens = estimator.count(scored)
        read = len(spoken) * min(items, count) * tokens / max(1, count) * (1 + twin)
        total += Cost(passes=0, work=read * estimator.per_token, memory=memory_now())
    return total


def _shuffled(result: Result, name: str, target: str | None = None) -> list[Any]:
    """The rows of a table in which all words are shuffled."""
    table = result.tables[name]
    rows = table[(table["how"] == "shuffled") & (table["strength"] == 1)]
    return list(rows_of(rows if target is None else rows[rows["target"] == target]))


def _loss(result: Result, row: Any) -> Iterator[Finding]:
    """By how much shuffling raises the loss, and whether by more than the twin's."""
    verb = "raises" if row.difference > 0 else "lowers"
    source = Source("perturb", {**_SHUFFLED, "target": LOSS})
    yield finding(
        claim=f"Shuffling all words {verb} the loss from {number(row.baseline)} to {number(row.value)} nats per token",
        whether=f"shuffling all words {verb} the loss",
        absent="Shuffling all words leaves the loss as it is",
        contrast="difference",
        test=_of_row(row),
        source=source,
        unit=row.unit,
        margin=_NATS,
    )
    for beside in _shuffled(result, "contrasts", LOSS):
        more = "more" if beside.difference > 0 else "less"
        yield finding(
            claim=f"Shuffling all words raises the loss {more} than that of the twin with random weights",
            whether=f"shuffling all words raises the loss {more} than that of the twin with random weights",
            absent="Shuffling all words changes the loss as much as that of the twin with random weights",
            contrast="change minus the twin's, in nats",
            test=_of_row(beside),
            source=Source("contrasts", {**_SHUFFLED, "target": LOSS, "against": TWIN}),
            unit=beside.unit,
            importance=("beats control",),
            margin=_NATS,
        )


def _of_row(row: Any) -> Contrast:
    return Contrast.of(row, "difference", "diff_low", "diff_high")


def _score(result: Result, row: Any) -> Iterator[Finding]:
    """What is above chance with all words shuffled, and which share of what is so as written; probes beside labels."""
    (left,) = _shuffled(result, "remains", row.target)
    where = {**_SHUFFLED, "target": row.target}
    source = [Source("remains", where), Source("perturb", where)]
    what = _what(row.target)
    side = "above" if left.difference > 0 else "below"
    whether = f"{what} stays {side} chance with all words shuffled"
    if not isfinite(left.remains):
        yield not_tested(whether, f"as written, {what} is not clearly above chance", source=source)
        return
    yield finding(
        claim=f"With all words shuffled, {what} is {percent(row.value)}: {percent(left.remains)} of its lead over "
        "chance is left"
        if left.difference > 0
        else f"With all words shuffled, {what} falls below chance, to {percent(row.value)}",
        whether=whether,
        absent=f"With all words shuffled, {what} is at chance",
        contrast=f"{what} minus chance",
        test=_of_row(left),
        source=source,
        unit=left.unit,
    )
    for beside in _shuffled(result, "contrasts", row.target):
        if beside.against != BY_WORD:
            continue
        control = {"target": row.target, "control": BY_WORD}
        table = result.tables["controls"]
        (known,) = rows_of(table[(table["target"] == row.target) & (table["control"] == BY_WORD)])
        yield finding(
            claim=f"With all words shuffled, {what} is {percent(row.value)}; each word's most frequent label gives "
            f"{percent(known.value)}",
            whether=f"with all words shuffled, {what} differs from what each word's most frequent label gives",
            absent=f"With all words shuffled, {what} is what each word's most frequent label gives",
            contrast="difference",
            test=_of_row(beside),
            source=[Source("contrasts", {**where, "against": BY_WORD}), Source("perturb", where),
                    Source("controls", control)],
            unit=beside.unit,
            importance=("beats control",),
        )  # fmt: skip


def _what(target: str) -> str:
    if target == PAIRS:
        return "accuracy on minimal pairs"
    if target == QA:
        return "F1 of the answers"
    return f"a probe's accuracy on {target.removeprefix(PROBE)}"


def _unperturbed(table: pd.DataFrame, targets: list[str]) -> Mapping[str, str]:
    """Target -> the score of all words, which every perturbation that leaves none out is compared with."""
    whole = table[~table["how"].isin(["cut_first", "cut_last", *REMOVED, *PARTIAL])]
    scores = {}
    for target in targets:
        of_target = whole[whole["target"] == target]
        scores[target] = number(float(of_target["baseline"].iloc[0]), digits=3) if len(of_target) else "n/a"
    return scores


def chosen_names(
    targets: Sequence[str] | None,
    encoder: Encoder,
    texts: Splits | Corpus,
    pairs: MinimalPairs | None,
    questions: Questions | None,
) -> tuple[str, ...]:
    """The targets asked for; by default all that the model and the data give."""
    if targets is not None:
        return tuple(dict.fromkeys(targets))
    there = {
        LOSS: has_language_model(encoder),
        PAIRS: pairs is not None,
        f"{PROBE}pos": isinstance(texts, Splits) and "pos" in texts.scored.annotations,
        QA: questions is not None,
    }
    available = tuple(target for target, given in there.items() if given)
    if not available:
        raise ModelError(
            f"{encoder.name} has no head that can be asked, and {texts.name} no parts of speech for a probe to learn; "
            f"name a model with a head, a corpus such as ewt, or a task of this one with --target {PROBE}TASK"
        )
    return available


def _refuse_unknown(targets: Sequence[str] | None) -> None:
    for target in targets or ():
        if target not in (LOSS, PAIRS, QA) and not (target.startswith(PROBE) and target.removeprefix(PROBE)):
            raise InputError(
                f"unknown target {target!r}; name {LOSS}, {PAIRS}, {QA} or {PROBE}TASK, such as {PROBE}pos"
            )


def _pairs(suite: str | None, targets: Sequence[str] | None) -> MinimalPairs | None:
    """The pairs asked for; by default BLiMP, where it is at hand."""
    wanted = suite is not None or assets.local_folder(_SUITE) if targets is None else PAIRS in targets
    return read_pairs(suite or _SUITE) if wanted else None


def _questions(named: str | None, targets: Sequence[str] | None, encoder: Encoder) -> Questions | None:
    if targets is not None and QA not in targets:
        return None
    data = named or _QUESTIONS
    return load_questions(data, scored_split(data), view=chosen_view({}, encoder))


def _planned(
    target: str, splits: Splits, encoder: Encoder, runtime: Runtime, *, steps: int | None, seed: int
) -> ProbePlan:
    return plan_task(
        target.removeprefix(PROBE),
        splits,
        layers=encoder.layers,
        steps=steps,
        seed=seed,
        device=runtime.training_device,
    )


@dataclass
class _PerturbedData:
    """What is perturbed."""

    texts: list[Text]
    pairs: list[MinimalPair]
    questions: list[Question]
    lexicon: Lexicon | None
    probed: dict[str, ProbedTask] = field(default_factory=dict)
    """Target -> the task, and the words it is asked about."""


@dataclass(frozen=True)
class _ModelOrTwin:
    """A model, or its twin with random weights."""

    encoder: Encoder
    seed: int | None = None
    """Of the twin's weights; None for the model itself."""

    @property
    def speaking(self) -> LanguageModel:
        """With its language-model head."""
        model = language_model(self.encoder)
        return model if self.seed is None else model.random_twin(self.seed)

    @property
    def read(self) -> Encoder:
        """For probes."""
        return self.encoder if self.seed is None else self.encoder.random_twin(self.seed)

    @property
    def answering(self) -> Any:
        """With its span head."""
        if self.seed is None or not isinstance(self.encoder, HuggingFaceEncoder):
            return span_answerer(self.encoder)
        return random_answerer(self.encoder, self.seed)


def _measure(
    chosen: Sequence[str], model: _ModelOrTwin, material: _PerturbedData, drawing: PerturbationPlan, runtime: Runtime
) -> Iterator[PerturbedItems]:
    ways: dict[str, Callable[[], Iterator[PerturbedItems]]] = {
        LOSS: lambda: loss_items(model.speaking, material.texts, drawing),
        PAIRS: lambda: pair_items(model.speaking, material.pairs, drawing, material.lexicon),
        QA: lambda: answer_items(model.answering, material.questions, drawing, material.lexicon),
    }
    for target in chosen:
        if target in ways:
            yield from ways[target]()
        else:
            yield from probe_items(train_reader(model.read, material.probed[target], runtime), drawing)


def _answerable(questions: Questions, most: int, seed: int) -> list[Question]:
    """Some of the questions that have a context and a known answer."""
    known = {question.text.id: question for question in questions.questions() if question.context and question.answers}
    return [known[text.id] for text in some_texts((question.text for question in known.values()), most, seed)]


def _controls(
    chosen: Sequence[str], encoder: Encoder, material: _PerturbedData, *, samples: int, seed: int
) -> Iterator[tuple[Any, ...]]:
    if LOSS in chosen:
        uniform = log(language_model(encoder).vocabulary)
        yield LOSS, UNIFORM, uniform, uniform, uniform
    if PAIRS in chosen:
        yield PAIRS, GUESS, 0.5, 0.5, 0.5
    for target, task in material.probed.items():
        unit = unit_of(task.texts)
        units, sizes = [unit.of(text) for text in task.texts], np.array([len(words) for words in task.targets], float)
        for name, right in guesses(task).items():
            hits = np.array([words.sum() for words in right], float)
            yield target, name, *score_of(units, hits, sizes, samples=samples, seed=seed)


def _contrasts(
    measured: Sequence[PerturbedItems], beside: Sequence[PerturbedItems], material: _PerturbedData
) -> Iterator[tuple[Any, ...]]:
    """Changes minus those of the twin; probes beside what each word's most frequent label gives."""
    twins = {(items.target, items.perturbation): items for items in beside}
    for target in dict.fromkeys(items.target for items in measured):
        mine = [items for items in measured if items.target == target and (target, items.perturbation) in twins]
        mine = [items for items in mine if items.names == twins[target, items.perturbation].names]
        if mine:
            tests = beyond(mine, [twins[target, items.perturbation] for items in mine])
            yield from contrast_rows(mine, tests, TWIN)
        task = material.probed.get(target)
        if task is None:
            continue
        ids = [text.id for text in task.texts]
        right = {id: float(items.sum()) for id, items in zip(ids, guesses(task)[BY_WORD], strict=True)}
        sizes = {id: float(len(items)) for id, items in zip(ids, task.targets, strict=True)}
        # Where words are left out, so are some of those that are looked up.
        whole = [
            items
            for items in measured
            if items.target == target and np.allclose(items.counts, [sizes[name] for name in items.names])
        ]
        if whole:
            by_word = [np.array([right[name] for name in items.names]) for items in whole]
            yield from contrast_rows(whole, ahead_of(whole, by_word), BY_WORD)


def _scored(items: Sequence[PerturbedItems]) -> dict[str, int]:
    """Target -> how many tokens, pairs, words or questions are scored without a perturbation."""
    counts: dict[str, int] = {}
    for member in items:
        counts[member.target] = max(counts.get(member.target, 0), int(member.base_counts.sum()))
    return counts
