"""Questions: a model's answer, and the tokens of one question at every layer."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from fastapi import APIRouter
from pydantic import BaseModel, Field

from lamina.errors import InputError, ModelError
from lamina.results import Result
from lamina.web.api.schema import ERRORS, Typed, rows_of
from lamina.web.state import AppState, State, TooLongError
from lamina.web.workers import in_worker

if TYPE_CHECKING:
    from lamina.corpora.question_sets import Questions
    from lamina.corpora.questions.question import Question
    from lamina.models import Encoder


Place = tuple[float, float]


class MapToken(BaseModel):
    """A token, the same at every layer."""

    word: str
    """The word it is part of; for a special token, its name."""
    role: str
    """What it is drawn as; where several roles hold, the rarest."""
    roles: list[str]
    """All roles that it has."""
    sentence: int
    """From 0; -1 outside the context."""
    question: bool
    support: bool
    gold: bool
    predicted: bool


class MapLayer(BaseModel):
    """What the map of one layer shows, and what it leaves out."""

    layer: int
    tokens: int
    left_out: int
    """Outliers: tokens left out of the fit, the clusters and the map of this layer."""
    explained_x: float | None
    explained_y: float | None
    clusters: int
    silhouette: float | None
    stability: float | None
    """Mean adjusted Rand index of the clusters over seeds of k-means; null where it was not measured."""
    stable: bool
    """Whether other seeds find the same clusters; if not, they are not outlined. True where it was not measured."""


class TokenMap(BaseModel):
    """The tokens of one question at every layer."""

    tokens: list[MapToken]
    positions: list[list[Place | None]]
    """[layer][token] from -1 to 1, both ways to the same scale; null for what is not drawn."""
    clusters: list[list[int]]
    """[layer][token] of k-means in the full space; -1 for an outlier."""
    layers: list[MapLayer]
    drawn: int
    """Tokens on the map; if there are very many, some without a role are left out."""


def map_of(result: Result) -> TokenMap:
    """The map of a `token_map` result."""
    from lamina.figures.theme import OTHER, PREDICTED, QUESTION, SUPPORT
    from lamina.figures.token_map import ACCEPTED, drawn_rows

    table = result.tables["tokens"].reset_index(drop=True)
    layers = len(result.tables["projection"])
    size = len(table) // layers
    roles = [OTHER.name] * size
    positions: list[list[Place | None]] = [[None] * size for _ in range(layers)]
    drawn = drawn_rows(table)
    for row, x, y, role in zip(drawn.index, drawn["x"], drawn["y"], drawn["role"], strict=True):
        positions[row // size][row % size] = (float(x), float(y))
        roles[row % size] = role
    columns = ["word", "sentence", "question", "support", "gold", "predicted"]
    named = {"question": QUESTION.name, "support": SUPPORT.name, "gold": ACCEPTED, "predicted": PREDICTED.name}
    tokens = [
        MapToken(**row, role=role, roles=[name for column, name in named.items() if row[column]] or [role])
        for row, role in zip(rows_of(table[columns][:size]), roles, strict=True)
    ]
    return TokenMap(
        tokens=tokens,
        positions=positions,
        clusters=table["cluster"].to_numpy().reshape(layers, size).tolist(),
        layers=[_layer(row) for row in rows_of(result.tables["projection"])],
        drawn=len({row % size for row in drawn.index}),
    )


def _layer(row: Mapping[str, Any]) -> MapLayer:
    from lamina.analyses.answering.groups import STABLE

    # Results of older versions have not measured it.
    stability = row.get("stability")
    return MapLayer(**{**row, "stability": stability, "stable": stability is None or stability >= STABLE})


router = APIRouter(prefix="/questions", tags=["questions"], responses={code: ERRORS[code] for code in (401, 403)})

_EXAMPLE_STORIES = (
    *("qa1-test-9", "qa1-test-4", "qa1-test-3", "qa1-test-6", "qa1-test-8", "qa1-test-5"),
    *("qa2-test-1", "qa3-test-1", "qa15-test-1", "qa15-test-4"),
)
"""Stories offered as examples: most of the kind that `lamina finetune` on stories learns in two minutes."""
_ABOUT = {
    "qa1": "one supporting fact",
    "qa2": "two supporting facts",
    "qa3": "three supporting facts",
    "qa15": "a deduction",
}
_MOST = {"pca": 14_000, "ica": 14_000, "tsne": 3_600}
"""Tokens of all layers together: a map that takes ten to twenty seconds."""
Clusters = Annotated[int, Field(ge=2, le=20)]


class StoryExample(BaseModel):
    """A story that no model was fine-tuned on, with its answer."""

    id: str
    """What to send as `example`."""
    title: str
    question: str
    context: str
    answer: str


class AnsweringModel(BaseModel):
    """A model that lamina fine-tuned."""

    name: str
    task: str
    answers: bool
    """Whether it was fine-tuned to answer questions."""
    base: str | None
    """The model of this server that it was fine-tuned from."""


class QuestionRequest(BaseModel):
    """An example, or a question about a context."""

    model: Typed = Field(max_length=1000)
    example: Typed | None = Field(None, max_length=100, description="One of the examples; the texts are then its own.")
    question: Typed = ""
    context: Typed = ""
    answer: Typed = Field("", max_length=1000, description="The expected answer, where it is known.")
    method: Literal["pca", "tsne", "ica"] = "pca"
    fit: Literal["layer", "all"] = "layer"
    clusters: Clusters | None = Field(None, description="By default, layer by layer, what the silhouette says.")


class ContextPart(BaseModel):
    """A word of the context, or the text between two words."""

    text: str
    sentence: int
    """From 0; -1 between sentences."""
    support: bool
    gold: bool
    predicted: bool


class ModelAnswer(BaseModel):
    """The model's answer and its quality."""

    answers: bool
    """False for a model that was not fine-tuned to answer questions."""
    predicted: str
    confidence: float | None
    """Probability of its start times probability of its end; of a class, its probability."""
    accepted: list[str]
    right: bool | None
    """Whether it is one of the accepted answers (of spans, by SQuAD's definition); null where none is known."""


class AnsweredQuestion(BaseModel):
    """An answer, the context with its roles, and the tokens at every layer."""

    model: str
    answer: ModelAnswer
    text: list[ContextPart]
    map: TokenMap
    notes: list[str]
    """What was left out, in words."""
    phases: str | None
    """The id of the newest `phases` result of exactly this model, if there is one."""


@router.get("/examples")
def examples() -> list[StoryExample]:
    """Example stories; no model was fine-tuned on them."""
    stories = []
    for name in _EXAMPLE_STORIES:
        story = _stories()[f"stories-{name}"]
        title = f"{story.question} ({_ABOUT[story.task]}, {len(story.text.edges['sentence'])} sentences)"
        stories.append(
            StoryExample(
                id=story.text.id,
                title=title,
                question=story.question,
                context=story.context,
                answer=story.answers[0],
            )
        )
    return stories


@router.get("/models")
def models(app: State) -> list[AnsweringModel]:
    """The fine-tuned models among the results, the newest first."""
    return [model for name, folder in app.results.models().items() if (model := _answering(app, name, folder))]


@router.post("", responses={code: ERRORS[code] for code in (400, 404, 409, 413, 422, 429, 503, 504)})
@in_worker
def answered(app: State, request: QuestionRequest) -> AnsweredQuestion:
    """A model's answer, and the position of every token at every layer."""
    from lamina.analyses.answering.roles import marked_context
    from lamina.analyses.answering.token_map import token_map

    app.check_length(request.question, request.context)
    questions = _questions(request)
    question = next(questions.questions())
    with app.model(request.model) as encoder:
        _check_size(encoder, question, request)
        result = token_map(encoder, questions, method=request.method, fit=request.fit, clusters=request.clusters)
    place = result.tables["answer"][["start", "end"]].dropna().astype(int).to_numpy().tolist()
    return AnsweredQuestion(
        model=request.model,
        answer=_model_answer(result, question),
        text=[ContextPart(**part._asdict()) for part in marked_context(question, tuple(place[0]) if place else None)],
        map=map_of(result),
        notes=_notes(result),
        phases=_phases(app, result),
    )


@cache
def _stories() -> dict[str, Question]:
    from lamina.corpora.question_sets import load_questions

    return {story.text.id: story for story in load_questions("stories", "test").questions()}


def _questions(request: QuestionRequest) -> Questions:
    from lamina.corpora.question_sets import questions_from, typed_question

    if request.example is None:
        return typed_question(request.question, request.context, request.answer)
    if request.example not in _stories():
        raise InputError(f"there is no example {request.example!r}; type the question, or take one of the list")
    return questions_from([_stories()[request.example]], "stories", "test")


def _check_size(encoder: Encoder, question: Question, request: QuestionRequest) -> None:
    """Refuse maps that would take too long."""
    tokens, most = len(encoder.tokenize(question.text).ids), _MOST[request.method] // encoder.layers
    if tokens > most:
        raise TooLongError(
            f"question and context are {tokens:,} tokens; of a model with {encoder.layers} layers this page maps at "
            f"most {most:,} by {request.method}. Take a shorter context"
            f"{', or pca' if request.method == 'tsne' else ''}, "
            "or compute it in a terminal: lamina token-map MODEL --question ... --context ..."
        )


def _model_answer(result: Result, question: Question) -> ModelAnswer:
    row = result.tables["answer"].iloc[0]
    answers = bool(row["predicted"])
    judged = answers and bool(question.answers)
    return ModelAnswer(
        answers=answers,
        predicted=str(row["predicted"]),
        confidence=round(float(row["confidence"]), 4) if answers else None,
        accepted=list(question.answers),
        right=bool(row["exact_match"] == 1) if judged else None,
    )


def _notes(result: Result) -> list[str]:
    from lamina.analyses.answering.roles import SILENT
    from lamina.analyses.answering.token_map import NO_GOLD, OUTLIERS

    # The page shows these elsewhere.
    elsewhere = (SILENT, NO_GOLD, OUTLIERS)
    return [
        f"{reason}: {count:,}"
        for reason, count in result.provenance.skipped.items()
        if count and reason not in elsewhere
    ]


def _phases(app: AppState, result: Result) -> str | None:
    entries = app.results.of_model(result.provenance.model["fingerprint"])
    return next((entry.id for entry in entries if entry.analysis == "phases"), None)


def answers_questions(about: Mapping[str, Any]) -> bool:
    """Whether a model was fine-tuned on questions with contexts; folders of older versions tell no view."""
    by_class = about.get("head") == "SequenceClassification" and about.get("view") is not None
    return by_class or about.get("head") == "QuestionAnswering"


def _answering(app: AppState, name: str, folder: str) -> AnsweringModel | None:
    from lamina.training.provenance import read_about

    try:
        about = read_about(folder)
    except ModelError:
        return None
    start = about.get("base")
    base = str(start.get("name", "")) if isinstance(start, dict) else ""
    known = [other for other in app.models.names() if base in (other, Path(other).name)]
    return AnsweringModel(
        name=name,
        task=str(about.get("task", "")),
        answers=answers_questions(about),
        base=known[0] if known else None,
    )
