"""The phases of question answering as numbers: similarities of roles by layer, for right and wrong answers apart."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import chain, islice, repeat
from typing import Annotated, Any, NamedTuple

import numpy as np
import pandas as pd

from lamina.analyses.answering.failure import (
    ADDED,
    ADDED_OVER_TWIN,
    CHANCE,
    CONTRAST,
    CONTRASTED,
    FAILURE,
    FAILURE_CONTRASTS,
    OVER_CONFIDENCE,
    OVER_TWIN,
    TOGETHER,
    AnswerCases,
    AnsweredQuestions,
    contrast_table,
    failure_table,
    mixed_tasks,
    stratum_of,
)
from lamina.analyses.answering.roles import SILENT, ScoredAnswer, score_answers
from lamina.analyses.answering.streaming import (
    ALL,
    ANSWERS,
    COLUMNS,
    DIFFERENCES,
    LAYERS,
    PHASES,
    PSEUDO,
    RIGHT,
    SURE_WRONG,
    TWIN,
    UNSURE,
    WRONG,
    AnswerOutcome,
    PhaseLedger,
    QuestionMeter,
    QuestionPlan,
    QuestionTurn,
    difference_lines,
    layer_lines,
    memberships,
    phase_lines,
    plan_questions,
)
from lamina.corpora import Questions
from lamina.corpora.questions.babi import TASK_TITLES
from lamina.corpora.questions.question import Question
from lamina.framework.declare import ComparedLayers, LayerMeasure, Overview, Table, Tables, analysis
from lamina.framework.estimate import Cost, Estimator
from lamina.framework.inputs import QuestionSet, each_of
from lamina.framework.settings import Samples, Seed, Setting, Twin
from lamina.models import Encoder
from lamina.progress import progress
from lamina.results import Result
from lamina.results.finding import (
    Finding,
    Source,
    cell,
    finding,
    not_tested,
    number,
    percent,
    rows_of,
    weakest,
    where_best,
)
from lamina.stats.family import sign_flip_family
from lamina.stats.intervals import share_interval
from lamina.stats.status import NEGLIGIBLE, SURE, Contrast, status_of
from lamina.stats.units import Units
from lamina.training.answering import Answerer, answerer_of, refuse_unfit
from lamina.training.provenance import refuse_seen

_SMALL_AUC = 0.05
"""A difference of AUCs that means nothing."""
_SMALL_GAIN = 0.01
"""Nats per question that mean nothing."""


class _MeasureWording(NamedTuple):
    """A measure in words."""

    higher: str
    """What it means that it is above a null."""
    lower: str
    equal: str
    nulls: dict[str, str]
    """Pseudo roles and twin, for this measure."""


_ROLES = {
    "answer_apart": _MeasureWording(
        "the answer stands farther apart from all other words than {null}",
        "the answer stands less far apart from all other words than {null}",
        "the answer stands as far apart from all other words as {null}",
        {PSEUDO: "another span of that length", TWIN: "with random weights"},
    ),
    "question_nearer_support": _MeasureWording(
        "the question is nearer to its supporting sentences than {null}",
        "the question is farther from its supporting sentences than {null}",
        "the question is as near to its supporting sentences as {null}",
        {PSEUDO: "to another sentence", TWIN: "with random weights"},
    ),
}
"""Measure -> its words; each is a difference of cosines, 0 where roles make no difference."""
_CONTRASTS = {
    "answer_apart": "the gold answer stands {more} apart",
    "predicted_apart": "the predicted answer stands {more} apart",
    "question_nearer_support": "the question is {more} near to its supporting sentences than to the rest",
    "between_question_support": "question and supporting sentences are {more} alike",
    "within_question": "the words of the question are {more} alike",
    "within_support": "the words of the supporting sentences are {more} alike",
    "answer_silhouette": "the gold answer is {more} of a cluster",
    "predicted_silhouette": "the predicted answer is {more} of a cluster",
}
"""Measure -> what it means that it differs between right and wrong answers."""


def phase_findings(result: Result) -> Iterator[Finding]:
    """Whether the model answers at all; only then, what its phases, its right answers and its failures show."""
    answering = result.tables.get("answering")
    if answering is None or answering.empty:
        reason = "the model has no head that answers these questions"
        if answering is not None:
            reason = "no answer is known to be right or wrong"
        yield _no_phases(reason)
        return
    row = next(rows_of(answering))
    tasks = result.tables.get("tasks", pd.DataFrame())
    answers = _answers(row, tasks)
    yield answers
    if answers.status != "clear" or row.estimate < 0:
        yield _no_phases("the model was not shown to answer better than always giving a task's most frequent answer")
        return
    if _is_of_stories(tasks) and "share" in tasks and tasks["share"].max() < ANSWERS_STORIES:
        yield _no_phases(f"it answers no task of the stories in {percent(ANSWERS_STORIES)} of the cases")
        return
    for measure in _ROLES:
        yield from _role(result, measure)
    yield from _right_and_wrong(result)
    yield from _failures(result)


def _no_phases(reason: str) -> Finding:
    return not_tested(
        "question, support and answer come together or move apart as the model answers",
        reason,
        importance=("answers",),
    )


ANSWERS_STORIES = 0.85
"""Share of one task's questions from which a model answers stories: nearly all can be learned."""


def _is_of_stories(tasks: pd.DataFrame) -> bool:
    return bool(len(tasks)) and all(str(task) in TASK_TITLES for task in tasks["task"])


def _by_task(tasks: pd.DataFrame) -> str:
    """What a model of stories can answer and what it cannot; the share of each task, the best first."""
    ordered = rows_of(tasks.sort_values("share", ascending=False, kind="stable"))
    nouns = chain(["the questions"], repeat("those"))
    parts = [
        f"{percent(row.share)} of {noun} about {TASK_TITLES[str(row.task)]} ({row.task})"
        for noun, row in zip(nouns, ordered, strict=False)
    ]
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def _answers(row: Any, tasks: pd.DataFrame) -> Finding:
    always = "always giving a task's most frequent answer"
    claim = f"The model answers {percent(row.value)} of the questions exactly, {always} {percent(row.other)}"
    several = _is_of_stories(tasks) and "share" in tasks and len(tasks) > 1
    if several:
        claim = f"The model answers {_by_task(tasks)}; {always} answers {percent(row.other)} of all"
    return finding(
        claim=claim,
        whether=f"the model answers more questions than {always} does",
        absent=f"The model answers no more questions than {always} does",
        contrast="difference",
        test=Contrast.of(row),
        source=[Source("answering"), *([Source("tasks")] if several else [])],
        unit=row.unit,
        # What a model answers comes before how it does.
        importance=("answers", "beats control", "localised", "surprises"),
    )


def _hardest(rows: pd.DataFrame) -> Any:
    return weakest(rows_of(rows), lambda row: abs(row.estimate))


def _strongest(rows: Sequence[Any]) -> Any:
    """The surest row; of equally sure ones, the largest contrast."""
    return min(rows, key=lambda row: (row.p_adjusted if row.p_adjusted == row.p_adjusted else 2, -abs(row.estimate)))


def _role(result: Result, measure: str) -> Iterator[Finding]:
    """The layer at which a measure is most surely above (or below) both nulls, and where it can be highest."""
    table = result.tables["differences"]
    rows_of_measure = table[(table["group"] == ALL) & (table["measure"] == measure) & table["difference"].notna()]
    if rows_of_measure.empty:
        return
    rows_of_measure = rows_of_measure.rename(columns={"difference": "estimate"})
    # A claim of both nulls has one direction.
    alike = [rows for _, rows in rows_of_measure.groupby("layer") if len(set(rows["estimate"] > 0)) == 1]
    row = _strongest([_hardest(rows) for rows in alike or [rows_of_measure]])
    wording = _ROLES[measure]
    wording_of = (wording.higher if row.estimate > 0 else wording.lower).format(null=wording.nulls[row.against])
    claim = f"at layer {row.layer} {wording_of}"
    best, source = _highest(result.tables["layers"], measure) if row.estimate > 0 else ("", [])
    where = {"group": ALL, "measure": measure, "layer": row.layer, "against": row.against}
    yield finding(
        claim=f"A{claim[1:]}: by a cosine of {number(row.value)} against {number(row.null)}{best}",
        whether=claim,
        absent=f"At layer {row.layer} {wording.equal.format(null=wording.nulls[row.against])}",
        contrast="difference",
        test=Contrast.of(row),
        source=[Source("differences", where), *source],
        unit=row.unit,
        importance=("answers", "beats control", "localised"),
    )


def _highest(layers: pd.DataFrame, measure: str) -> tuple[str, list[Source]]:
    return where_best(
        rows_of(layers[layers["measure"] == measure]),
        "the highest value is at {}",
        "no layer was shown to be higher than another",
        source=Source("layers", {"measure": measure, "among_best": True}),
    )


def _right_and_wrong(result: Result) -> Iterator[Finding]:
    """The measure and layer that tell right from wrong answers best, among matched questions of all tasks together."""
    table = result.tables["contrast"]
    known = table[table["task"] == TOGETHER] if len(table) else table
    if known.empty:
        yield from _not_compared(result)
        return
    rows = list(rows_of(known.rename(columns={"difference": "estimate"})))
    # None differs only if the widest interval is within the margin: the finding states that one.
    some = [row for row in rows if not _is_nothing(row, NEGLIGIBLE)]
    row = _strongest(some) if some else max(rows, key=lambda row: max(abs(row.low), abs(row.high)))
    means = _CONTRASTS[row.measure].format(more="more" if row.estimate > 0 else "less")
    yield finding(
        claim=f"Where the answer is right, {means}, at layer {row.layer}: {number(row.right)} against "
        f"{number(row.wrong)}",
        whether=f"right and wrong answers to similar questions differ (most in {row.measure} at layer {row.layer})",
        absent="Right and wrong answers to similar questions do not differ by any measure at any layer",
        contrast="difference",
        test=Contrast.of(row),
        source=Source("contrast", {"task": TOGETHER, "layer": row.layer, "measure": row.measure}),
        unit=row.unit,
        importance=("answers", "localised"),
        note=f"{row.matched:,} wrong answers stand beside right ones of the same task, question word and length of "
        "answer.",
    )


def _is_nothing(row: Any, margin: float) -> bool:
    return status_of(row.low, row.high, row.p_adjusted, needed=row.needed, margin=margin) == "null"


def _not_compared(result: Result) -> Iterator[Finding]:
    """Where every task is always answered correctly or always incorrectly, there is nothing to compare."""
    tasks = result.tables.get("tasks")
    if tasks is None or tasks.empty or tasks["compared"].any():
        return
    counts = ", ".join(f"{row.right:,} of {row.questions:,} right{_in_task(row.task)}" for row in rows_of(tasks))
    yield not_tested("right and wrong answers differ", f"no task has both ({counts})", importance=("answers",))


def _in_task(task: object) -> str:
    return f" in {task}" if isinstance(task, str) and task else ""


def _failures(result: Result) -> Iterator[Finding]:
    """How well a layer predicts wrong answers, beside twin and confidence, and what it adds to the confidence."""
    table = result.tables.get("failure_contrasts")
    if table is None:
        return
    if table.empty:
        yield not_tested("wrong answers can be predicted", _reason(result), importance=("answers",))
        return
    yield _predicted(table)
    yield _confidence(table)
    yield _added(table)


def _at_one_layer(table: pd.DataFrame, contrasts: tuple[str, ...]) -> Any:
    """The layer that is most surely ahead in all of these contrasts, by the least sure of them."""
    rows_of_contrasts = table[table["contrast"].isin(contrasts) & table["estimate"].notna()]
    layers = [rows for _, rows in rows_of_contrasts.groupby("layer")]
    # Ahead in all where it is: a contrast below 0 is never part of such a claim.
    ahead = [rows for rows in layers if (rows["estimate"] > 0).all()]
    if ahead:
        return _strongest([_hardest(rows) for rows in ahead])
    first = rows_of_contrasts[rows_of_contrasts["contrast"] == contrasts[0]]
    layer = first["layer"].iloc[int(first["value"].to_numpy(float).argmax())]
    rows = rows_of_contrasts[rows_of_contrasts["layer"] == layer]
    return next(rows_of(rows.iloc[[int(rows["estimate"].to_numpy(float).argmin())]]))


def _failure_finding(row: Any, **parts: Any) -> Finding:
    source = Source("failure_contrasts", {"contrast": row.contrast, "layer": int(row.layer)})
    return finding(test=Contrast.of(row), source=source, unit=row.unit, **parts)


def _predicted(table: pd.DataFrame) -> Finding:
    row = _at_one_layer(table, (CHANCE, OVER_TWIN))
    other = "chance" if row.contrast == CHANCE else "the same layer with random weights"
    beside = (
        f"; chance is {number(row.other)}" if row.contrast == CHANCE else f", with random weights {number(row.other)}"
    )
    return _failure_finding(
        row,
        claim=f"Layer {row.layer} predicts which answers are wrong with an AUC of {number(row.value)}{beside}",
        whether=f"layer {row.layer} predicts which answers are wrong better than {other}",
        absent=f"Layer {row.layer} predicts which answers are wrong no better than {other}",
        contrast="difference",
        importance=("answers", "beats control", "localised"),
        margin=_SMALL_AUC,
    )


def _confidence(table: pd.DataFrame) -> Finding:
    """One layer ahead of the confidence, or the confidence ahead of all layers."""
    rows = list(rows_of(table[table["contrast"] == OVER_CONFIDENCE]))
    ahead = [row for row in rows if row.estimate > 0 and row.p_adjusted < SURE]
    behind = all(row.estimate < 0 and row.p_adjusted < SURE for row in rows)
    if behind:
        row = max(rows, key=lambda row: (row.p_adjusted, row.estimate))
        claim = (
            f"The model's confidence predicts wrong answers better than any layer does: AUC {number(row.other)}, "
            f"layer {row.layer} {number(row.value)}"
        )
    else:
        row = _strongest(ahead) if ahead else max(rows, key=lambda row: row.value)
        claim = (
            f"Layer {row.layer} predicts wrong answers better than the model's confidence does: AUC "
            f"{number(row.value)} against {number(row.other)}"
        )
        if row.estimate < 0:
            claim = (
                f"Layer {row.layer} predicts wrong answers worse than the model's confidence does: AUC "
                f"{number(row.value)} against {number(row.other)}"
            )
    return _failure_finding(
        row,
        claim=claim,
        whether=f"layer {row.layer} predicts wrong answers better than the model's confidence does",
        absent=f"Layer {row.layer} predicts wrong answers as well as the model's confidence does",
        contrast="difference",
        importance=("beats control",),
        margin=_SMALL_AUC,
    )


def _added(table: pd.DataFrame) -> Finding:
    row = _at_one_layer(table, (ADDED, ADDED_OVER_TWIN))
    more = "" if row.contrast == ADDED else "more than the same layer with random weights "
    against = "" if row.contrast == ADDED else f", with random weights {number(row.other, digits=3)}"
    return _failure_finding(
        row,
        claim=f"Layer {row.layer} adds to what the model's confidence says of wrong answers: "
        f"{number(row.value, digits=3)} nats per question{against}",
        whether=f"layer {row.layer} adds {more}to what the model's confidence says of wrong answers",
        absent=f"Layer {row.layer} adds nothing {more}to what the model's confidence says of wrong answers",
        contrast="gain" if row.contrast == ADDED else "difference",
        importance=("surprises", "beats control"),
        margin=_SMALL_GAIN,
        digits=3,
    )


def _reason(result: Result) -> str:
    phases = result.tables["phases"]
    kinds = [group for group in ("right", "wrong") if group in set(phases["group"])]
    tasks = result.tables.get("tasks")
    if len(kinds) != 1:
        alike = tasks is not None and len(tasks) and not tasks["compared"].any()
        return "each task's answers are all right or all wrong" if alike else "there is only one document"
    if phases["seeds"].max() > 1:
        return "the answers of every model are all right or all wrong"
    return f"all answers are {kinds[0]}"


_AT_ONCE = 64
"""Questions held in memory."""
_TIMED = 8
"""Questions clustered to estimate how long it takes."""
_OVERVIEW = (
    "within_question",
    "within_support",
    "question_nearer_support",
    "answer_apart",
    "ami_sentences",
    "ami_roles",
)
"""Measures that the terminal shows."""
_TASKS = (
    "task",
    "questions",
    "right",
    "share",
    "low",
    "high",
    "constant",
    "confident_wrong",
    "low_confidence",
    "compared",
)
ANSWERING = (
    *("questions", "value", "other"),
    *("estimate", "low", "high", "p_adjusted", "units", "needed", "unit"),
)
"""Columns of `answering.csv`."""
_CONTRASTED = [COLUMNS.index(measure) for measure in CONTRASTED]


class _AnswerRecord:
    """What is known of the answers of one model."""

    def __init__(self, size: int) -> None:
        self.known, self.wrong = np.zeros(size, bool), np.zeros(size, bool)
        self.confidence, self.length = np.zeros(size), np.zeros(size)
        self.documents, self.tasks = np.zeros(size, object), np.zeros(size, object)
        self.counts: dict[str, Counter[str]] = {}
        """Task -> group of ANSWERS -> questions."""
        self._answered: list[tuple[np.ndarray, bool, str, str]] = []
        self.judged: list[tuple[str, str, bool, tuple[str, ...]]] = []
        """Of every answered question: document, task, whether right, and what is accepted."""

    def note(self, turn: QuestionTurn, values: np.ndarray) -> None:
        """One answered question and its measures."""
        if turn.given is None:
            return
        right, confidence = turn.given
        accepted = tuple(dict.fromkeys(answer.strip().lower() for answer in turn.question.answers))
        self.judged.append((turn.unit, turn.question.task, right, accepted))
        self._answered.append((values[:, _CONTRASTED].astype(np.float32), right, turn.unit, stratum_of(turn.question)))
        if turn.place is not None:
            self.known[turn.place], self.wrong[turn.place], self.confidence[turn.place] = True, not right, confidence
            self.length[turn.place] = len(turn.question.text.segments[0])
            self.documents[turn.place], self.tasks[turn.place] = turn.unit, turn.question.task
        self.counts.setdefault(turn.question.task, Counter()).update(ANSWERS[group] for group in turn.groups)

    def cases(self, vectors: np.ndarray) -> AnswerCases:
        """For predicting failures, from these vectors: of tasks with right answers as well as wrong ones."""
        use = self.known.copy()
        use[use] = mixed_tasks(self.wrong[use], self.tasks[use].astype(str))
        documents, tasks = self.documents[use].astype(str), self.tasks[use].astype(str)
        return AnswerCases(vectors[use], self.wrong[use], documents, self.confidence[use], self.length[use], tasks)

    def answered(self) -> AnsweredQuestions:
        """For comparing right with wrong answers."""
        values, right, units, strata = zip(*self._answered, strict=True)
        return AnsweredQuestions(np.stack(values), np.array(right), units, strata)

    @property
    def both(self) -> bool:
        """Whether some answers are right and some wrong."""
        return len({right for _, right, _, _ in self._answered}) == 2


class _ModelReading(NamedTuple):
    """What one model, and its twin, made of all questions."""

    ledger: PhaseLedger
    known: _AnswerRecord
    watchers: list[QuestionMeter]
    answers: bool
    """Whether the model answers these questions."""


@analysis(
    title="The phases of answering",
    question=(
        "At which layers do question, support and answer come together or move apart, and can failures be predicted "
        "early?"
    ),
    method=(
        "We take mean cosines of words within and between groups, minus the layer's anisotropy; how far the answer "
        "lies from all other words; and the agreement of k-means clusters with sentences, roles and entity types. Each "
        "is compared, question by question, with another sentence and another span of the same context and with the "
        "random-weights twin; intervals resample documents. Right and wrong answers are compared within a task, "
        "matched by question word and length of the answer: between tasks, any difference would be one of the tasks. A "
        "logistic regression on one layer's vectors, trained and scored on different documents, predicts which "
        "questions of a task are answered incorrectly, alone and added to the model's confidence, beside the same for "
        "the random-weights twin."
    ),
    cites=("van Aken et al. 2019",),
    reads=QuestionSet(seeds=True),
    # 3: nulls of the same shape, tests by document, nested models of failure, intervals by Student's t.
    # 4: failures are predicted within tasks; the lead over the twin is tested; contrasts of single tasks.
    # 6: the share of each task that is answered; no phases of a model that answers no task of the stories.
    # 5: families by max-T; no findings for models that do not answer; clusters of 20 starts and two seeds.
    version=6,
    tables={
        "phases": Table(
            "One row per model (or null), layer, group of answers and measure; cosines and silhouettes are of tokens "
            "of words, `count` is of questions; `stability` of clusters: whether a second seed finds them (adjusted "
            "Rand index). Groups of answers hold different questions, and tasks in different shares: compare them in "
            "`contrast`.",
            PHASES,
        ),
        "layers": Table(
            "One row per measure (of all questions) and layer: whether the layer can be the one with the highest value "
            "(p_beaten: that another layer's is higher, max-T over layers, one-sided).",
            LAYERS,
        ),
        "differences": Table(
            "One row per null, layer, group of answers and measure: the model minus the null, question by question; "
            "`p_adjusted` and intervals are of one family per group and measure: its layers, against both nulls "
            "(max-T, bootstrap, two-sided).",
            DIFFERENCES,
        ),
        "answering": Table(
            "One row: the share of questions answered exactly, minus that of always giving a task's most frequent "
            "answer (signs of documents flipped, two-sided). Only for a model that has a head that answers.",
            ANSWERING,
            optional=True,
        ),
        "tasks": Table(
            "One row per task of the data: how its questions are answered (`share`: correctly, with Clopper and "
            "Pearson's interval); `constant`: how many are by its most frequent answer; `compared` where some are "
            "answered correctly and some incorrectly. Of several seeds the mean. Only for a model that answers.",
            _TASKS,
            optional=True,
        ),
        "contrast": Table(
            "One row per task (all: together, each answer beside those of its own task), layer and measure: right "
            "minus wrong answers, matched. Of all tasks together, layers and measures are one family; single tasks, "
            "with their layers and measures, are another one (max-T, bootstrap, two-sided). Only for a model that "
            "answers.",
            CONTRAST,
            optional=True,
        ),
        "failure": Table(
            "One row per model, layer and feature that predicts which questions of a task are answered incorrectly. "
            "Only for a model that answers.",
            FAILURE,
            optional=True,
        ),
        "failure_contrasts": Table(
            "One row per contrast and layer: AUC over chance, over the random-weights twin, over the model's "
            "confidence; log likelihood (nats per question) added to the confidence, and more than the twin adds. The "
            "layers of one contrast are a family: by max-T, two-sided, documents resampled; over chance and added: "
            "one-sided, documents' residuals turned around, the interval being that of resampled documents.",
            FAILURE_CONTRASTS,
            optional=True,
        ),
    },
    chapter="answering",
    takes=5,
    report={"samples": 300, "clustered": 40},
    compares=ComparedLayers(
        "phases",
        (
            LayerMeasure("within_question", "Words of the question with each other", "mean cosine"),
            LayerMeasure("between_question_support", "Question and support", "mean cosine"),
            LayerMeasure(
                "question_nearer_support", "Question nearer its support than the rest", "difference of cosines"
            ),
            LayerMeasure("answer_apart", "Gold answer apart from other words", "difference of cosines"),
        ),
        rows={"group": "all"},
        draws="",
    ),
    example="lamina phases runs/squad --data xquad_en --split all --out results/phases",
)
def phases(
    encoder: Encoder | Sequence[Encoder],
    questions: Questions,
    *,
    samples: Samples = 1000,
    confident: Annotated[float, Setting("Probability from which an answer counts as confident.", min=0, max=1)] = 0.5,
    clustered: Annotated[
        int, Setting("Questions whose words are clustered, drawn at random; 0 for none.", min=0)
    ] = 100,
    predicted: Annotated[
        int, Setting("Questions used to predict failures, drawn at random; 0 for none.", min=0)
    ] = 2000,
    without_first: Annotated[
        bool, Setting("Leave the first token out at every layer, as the paper did in its figures of GPT-2.")
    ] = False,
    twin: Twin = True,
    seed: Seed = 0,
) -> Tables:
    """How question, support and answer relate at each layer, and whether failures can be predicted early.

    Best with a model that answers: a folder of `lamina finetune --task squad|hotpot|babi|classify`. Then right and
    wrong answers are measured apart, `contrast` compares them among similar questions of a task, and `failure` says how
    well wrong ones can be predicted from one layer's vectors, beside its twin's. Tasks whose answers are all right or
    all wrong are in `tasks` and are not compared. A folder with several seeds (`lamina finetune --seeds`) gives
    the mean over them.

    Questions stream: memory hardly grows with their number. Beside the model are pseudo roles (`NAME (pseudo roles)`:
    another sentence as support, another span as answer) and the random-weights twin (`NAME (random)`). Intervals
    (95 %) and tests are over documents, from 5 seeds on over seeds too; over paragraphs where there is one document.

    Example:
        >>> import lamina
        >>> from lamina.testing import TinyEncoder
        >>> asked = lamina.load_questions("stories", "test", limit=4)
        >>> result = lamina.phases(TinyEncoder(), asked, samples=10, clustered=0)
        >>> sorted(set(result.tables["phases"]["model"]))
        ['tiny', 'tiny (pseudo roles)', 'tiny (random)']
    """
    encoders = each_of(encoder)
    for model in encoders:
        refuse_seen(model, questions)
        refuse_unfit(model, questions.questions(), f"{questions.name} ({questions.split})")
    plan = plan_questions(questions, clustered=clustered, followed_count=predicted, seed=seed)
    how = {"samples": samples, "confident": confident, "without_first": without_first, "twin": twin, "seed": seed}
    read = [_read(model, questions, plan, **how, number=number) for number, model in enumerate(encoders)]
    name, ledgers = encoders[0].name, [model.ledger for model in read]
    tables = {
        "phases": pd.DataFrame(phase_lines(name, ledgers), columns=list(PHASES)),
        "layers": pd.DataFrame(layer_lines(ledgers), columns=list(LAYERS)),
        "differences": pd.DataFrame(difference_lines(name, ledgers, plan.kind), columns=list(DIFFERENCES)),
    }
    answers = all(model.answers for model in read)
    if answers:
        tables["tasks"] = _tasks(read)
        tables["answering"] = answering_table([model.known.judged for model in read], plan.kind)
        tables["contrast"] = _contrast(name, read, samples, seed, plan.kind)
        if plan.places:
            models = _failing(name, read)
            tables["failure"], tables["failure_contrasts"] = failure_table(
                models, samples=samples, seed=seed, unit=plan.kind
            )
    return Tables(tables, _left_out(plan, read, answers), scored={"questions": plan.size})


@phases.finds
def _findings(result: Result) -> Iterable[Finding]:
    """Whether the answer is separated, how right and wrong answers differ, and whether failures can be predicted."""
    yield from phase_findings(result)


@phases.shows
def _overview(result: Result) -> Iterable[Overview]:
    """The main measures by layer."""
    table, name = result.tables["phases"], result.provenance.model["name"]
    model_rows = table[(table["model"] == name) & (table["group"] == ALL)]
    there = set(model_rows["measure"])
    measures = [f"{measure}_adjusted" if f"{measure}_adjusted" in there else measure for measure in _OVERVIEW]
    measures = [measure for measure in measures if measure in there]
    values = dict(zip(zip(model_rows["layer"], model_rows["measure"], strict=True), model_rows["value"], strict=True))
    rows = [
        (int(layer), *(cell(values.get((layer, measure), float("nan"))) for measure in measures))
        for layer in sorted(set(model_rows["layer"]))
    ]
    yield Overview(f"{name}: phases by layer", ("layer", *measures), rows)


@phases.costs
def _cost(
    estimator: Estimator,
    encoder: Encoder | Sequence[Encoder],
    questions: Questions,
    *,
    clustered: int,
    predicted: int,
    twin: bool,
    seed: int,
    **_: object,
) -> Cost:
    """Reading grows with the questions; clustering and predicting failures use a limited number of them."""
    encoders = each_of(encoder)
    first = encoders[0]
    passes = len(encoders) * (1 + (twin and first.blocks > 0))
    answers = answerer_of(first, questions.questions()) is not None
    reading = estimator.reading(passes=passes + answers * len(encoders))
    plan = plan_questions(questions, clustered=clustered, followed_count=predicted if answers else 0, seed=seed)
    # k-means of the words of a question, with its starts and sizes; of a failure, a regression per layer.
    work = passes * len(plan.clustered) * _CLUSTERING * first.layers * first.width
    if plan.places:
        work += passes * first.layers * _REGRESSION * 2 * first.width * len(plan.places)
    return reading + Cost(passes=0, work=work)


_CLUSTERING = 5e-5
"""Billions of operations that clustering the words of a question takes, per layer and dimension ..."""
_REGRESSION = 1e-6
"""... and that a regression takes, per answer and feature: hundreds of rounds, over all folds."""


def _read(
    encoder: Encoder,
    questions: Questions,
    plan: QuestionPlan,
    *,
    samples: int,
    confident: float,
    without_first: bool,
    twin: bool,
    seed: int,
    number: int,
) -> _ModelReading:
    """All questions, in one model and its twin; `number` is that of its fine-tuning seed."""
    answerer = answerer_of(encoder, questions.questions())
    places = len(plan.places) if answerer else 0
    meter = partial(QuestionMeter, seed=seed, places=places, without_first=without_first)
    watchers = [meter(encoder, positions=plan.positions)]
    if twin and encoder.blocks:
        watchers.append(meter(encoder.random_twin(seed + number), positions=None))
    ledger = PhaseLedger(encoder.layers, samples=samples, seed=seed, twin=len(watchers) > 1)
    known = _AnswerRecord(places)
    with progress(f"phases of {encoder.name}", plan.size) as advance:
        for turns in _turns(questions, answerer, plan, confident):
            for turn, *values_of in zip(turns, *(watcher.watch(turns) for watcher in watchers), strict=True):
                model_values, *nulls = (values for by_meter in values_of for values in by_meter)
                ledger.add(turn, model_values, nulls)
                known.note(turn, model_values)
            advance(len(turns))
    return _ModelReading(ledger, known, watchers, answerer is not None)


def _turns(
    questions: Questions, answerer: Answerer | None, plan: QuestionPlan, confident: float
) -> Iterator[list[QuestionTurn]]:
    remaining, number = questions.questions(), 0
    while chunk := list(islice(remaining, _AT_ONCE)):
        answers = list(score_answers(answerer, chunk)) if answerer else [None] * len(chunk)
        turns = []
        for question, answer in zip(chunk, answers, strict=True):
            turns.append(_turn(number, question, answer, plan, confident))
            number += 1
        yield turns


def _turn(
    number: int, question: Question, answer: ScoredAnswer | None, plan: QuestionPlan, confident: float
) -> QuestionTurn:
    given = None
    if answer is not None and answer.exact is not None:
        given = AnswerOutcome(answer.exact == 1, answer.answer.confidence)
    return QuestionTurn(
        number=number,
        question=question,
        given=given,
        groups=memberships(given, confident),
        predicted=answer.answer.span if answer else None,
        clustered=number in plan.clustered,
        place=plan.places.get(number) if given else None,
        unit=plan.unit(question),
    )


def _tasks(read: list[_ModelReading]) -> pd.DataFrame:
    counts = [reading.known.counts for reading in read]
    constants = _constants(read[0].known.judged)
    rows = []
    for task in dict.fromkeys(task for reading in counts for task in reading):
        by_seed = [reading.get(task, Counter()) for reading in counts]
        means = [
            round(sum(reading[group] for reading in by_seed) / len(by_seed))
            for group in (ALL, RIGHT, SURE_WRONG, UNSURE)
        ]
        always = sum(hit for (_, of, *_), hit in zip(read[0].known.judged, constants, strict=True) if of == task)
        compared = any(reading[RIGHT] and reading[WRONG] for reading in by_seed)
        share = means[1] / means[0] if means[0] else float("nan")
        rows.append((task, *means[:2], share, *share_interval(means[1], means[0]), always, *means[2:], compared))
    return pd.DataFrame(rows, columns=list(_TASKS))


_Judgements = Sequence[tuple[str, str, bool, tuple[str, ...]]]
"""Of every answered question: document, task, whether right, and what is accepted."""


def _constants(judged: _Judgements) -> list[bool]:
    """Whether the most frequent answer of its task is right for each question."""
    accepted: dict[str, Counter[str]] = {}
    for _, task, _, answers in judged:
        accepted.setdefault(task, Counter()).update(answers)
    always = {task: counts.most_common(1)[0][0] if counts else None for task, counts in accepted.items()}
    return [always[task] in answers for _, task, _, answers in judged]


def answering_table(by_seed: Sequence[_Judgements], unit: str = "document") -> pd.DataFrame:
    """Whether the model answers more questions than always giving a task's most frequent answer does."""
    judged = by_seed[0]
    if not judged:
        return pd.DataFrame(columns=list(ANSWERING))
    right = np.mean([[question[2] for question in judgements] for judgements in by_seed], axis=0)
    always = np.array(_constants(judged), float)
    documents = Units.of([question[0] for question in judged], "document")
    test = sign_flip_family(
        documents.sums(right - always)[:, None], documents.sums(np.ones(len(judged))), bounds=(-1.0, 1.0)
    ).one()
    row = (len(judged), float(right.mean()), float(always.mean()), *test, unit)
    return pd.DataFrame([row], columns=list(ANSWERING))


def _contrast(name: str, read: list[_ModelReading], samples: int, seed: int, unit: str) -> pd.DataFrame:
    answered = [reading.known.answered() for reading in read if reading.known.both]
    if not answered:
        return pd.DataFrame(columns=list(CONTRAST))
    return contrast_table(name, answered, samples=samples, seed=seed, unit=unit)


def _failing(name: str, read: list[_ModelReading]) -> dict[str, list[AnswerCases]]:
    models = {name: [reading.known.cases(reading.watchers[0].vectors) for reading in read]}
    if len(read[0].watchers) > 1:
        models[f"{name} ({TWIN})"] = [reading.known.cases(reading.watchers[1].vectors) for reading in read]
    return models


def _left_out(plan: QuestionPlan, read: list[_ModelReading], answers: bool) -> dict[str, int]:
    skipped: Counter[str] = Counter()
    for reading in read:
        for watcher in reading.watchers:
            # What every seed leaves out is counted once.
            skipped |= watcher.skipped
    alone = "one document only: nothing is adjusted for anisotropy, "
    alone += "intervals are over paragraphs" if plan.paragraphs > 1 else "and there are no intervals"
    alike: Counter[str] = Counter()
    for reading in read:
        for counts in reading.known.counts.values():
            alike[ALL] += counts[ALL] if not counts[RIGHT] or not counts[WRONG] else 0
    one_sided = sum(not reading.known.both for reading in read) if answers and len(read) > 1 else 0
    return {
        **skipped,
        **plan.lacking,
        "questions not drawn for clustering": plan.size - len(plan.clustered),
        "questions not drawn for predicting failures": plan.size - len(plan.places) if answers else 0,
        "questions of tasks whose answers are all right or all wrong: not compared": alike[ALL] // len(read),
        SILENT: int(not answers),
        "seeds left out of contrast and failure: all of their answers are right, or all wrong": one_sided,
        alone: int(plan.documents == 1),
    }
