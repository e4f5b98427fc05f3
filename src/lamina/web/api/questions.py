"""Questions: how a model comes to its answer, with the tokens of one question at every layer."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from fastapi import APIRouter
from pydantic import BaseModel, Field

from lamina.errors import InputError, ModelError
from lamina.web.api.answers import ERRORS, Typed
from lamina.web.api.token_maps import TokenMap, map_of
from lamina.web.desk import Desk, TheDesk, TooLongError

if TYPE_CHECKING:
    from lamina.analyses.questions.reading import Questions
    from lamina.corpora.questions import Question
    from lamina.encoders import Encoder
    from lamina.results import Result

router = APIRouter(prefix="/questions", tags=["questions"], responses={code: ERRORS[code] for code in (401, 403)})

_SHOWN = (
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
"""Tokens of all layers together, in a map that is computed while somebody waits: ten to twenty seconds."""
Clusters = Annotated[int, Field(ge=2, le=20)]


class Example(BaseModel):
    """A story that no model was fine-tuned on, with its answer."""

    id: str
    """What to send as `example`."""
    title: str
    question: str
    context: str
    answer: str


class Answering(BaseModel):
    """What is known of a model that lamina fine-tuned."""

    name: str
    task: str
    answers: bool
    """Whether it answers questions; a model tuned for something else does not."""
    base: str | None
    """The model of this server that it was tuned from."""


class Asked(BaseModel):
    """An example, or a question about a context."""

    model: Typed = Field(max_length=1000)
    example: Typed | None = Field(None, max_length=100, description="One of the examples; the texts are then its own.")
    question: Typed = ""
    context: Typed = ""
    answer: Typed = Field("", max_length=1000, description="The expected answer, where it is known.")
    method: Literal["pca", "tsne", "ica"] = "pca"
    fit: Literal["layer", "all"] = "layer"
    clusters: Clusters | None = Field(None, description="By default, layer by layer, what the silhouette says.")


class Part(BaseModel):
    """A word of the context, or what stands between two."""

    text: str
    sentence: int
    """From 0; -1 between sentences."""
    support: bool
    gold: bool
    predicted: bool


class Said(BaseModel):
    """The model's answer, and how good it is."""

    answers: bool
    """False for a model that answers nothing: it was not fine-tuned to."""
    predicted: str
    confidence: float | None
    """Probability of its start times probability of its end."""
    accepted: list[str]
    right: bool | None
    """Whether it is one of the accepted answers, by SQuAD's definition; null where none is known."""


class Answered(BaseModel):
    """An answer, the context with its roles, and the tokens at every layer."""

    model: str
    answer: Said
    text: list[Part]
    map: TokenMap
    notes: list[str]
    """What was left out, in words."""
    phases: str | None
    """The saved result with the phases of this very model, where there is one."""


@router.get("/examples")
def examples() -> list[Example]:
    """Stories to begin with, none of which a model was fine-tuned on."""
    made = []
    for name in _SHOWN:
        story = _stories()[f"stories-{name}"]
        title = f"{story.question} ({_ABOUT[story.task]}, {len(story.text.edges['sentence'])} sentences)"
        made.append(
            Example(
                id=story.text.id,
                title=title,
                question=story.question,
                context=story.context,
                answer=story.answers[0],
            )
        )
    return made


@router.get("/models")
def models(desk: TheDesk) -> list[Answering]:
    """The fine-tuned models among the results, the newest first."""
    return [made for name, folder in desk.shelf.models().items() if (made := _answering(desk, name, folder))]


@router.post("", responses={code: ERRORS[code] for code in (400, 404, 413, 422, 429)})
def answered(desk: TheDesk, asked: Asked) -> Answered:
    """The answer of a model, and where every token stands at every layer."""
    from lamina.analyses.questions.marking import marked_context
    from lamina.analyses.questions.tokenmap import token_map

    desk.check_length(asked.question, asked.context)
    questions = _questions(asked)
    question = next(questions.questions())
    with desk.model(asked.model) as encoder:
        _check_size(encoder, question, asked)
        result = token_map(encoder, questions, method=asked.method, fit=asked.fit, clusters=asked.clusters)
    said = result.tables["answer"].iloc[0]
    place = (int(said["start"]), int(said["end"])) if said["predicted"] else None
    return Answered(
        model=asked.model,
        answer=_said(result, question),
        text=[Part(**part._asdict()) for part in marked_context(question, place)],
        map=map_of(result),
        notes=_notes(result),
        phases=_phases(desk, result),
    )


@cache
def _stories() -> dict[str, Question]:
    from lamina.analyses.questions.reading import load_questions

    return {story.text.id: story for story in load_questions("stories", "test").questions()}


def _questions(asked: Asked) -> Questions:
    from lamina.analyses.questions.reading import questions_from, typed_question

    if asked.example is None:
        return typed_question(asked.question, asked.context, asked.answer)
    if asked.example not in _stories():
        raise InputError(f"there is no example {asked.example!r}; type the question, or take one of the list")
    return questions_from([_stories()[asked.example]], "stories", "test")


def _check_size(encoder: Encoder, question: Question, asked: Asked) -> None:
    """Refuses what would keep everybody waiting."""
    tokens, most = len(encoder.tokenize(question.text).ids), _MOST[asked.method] // encoder.layers
    if tokens > most:
        raise TooLongError(
            f"question and context are {tokens:,} tokens; of a model with {encoder.layers} layers this page maps at "
            f"most {most:,} by {asked.method}. Take a shorter context{', or pca' if asked.method == 'tsne' else ''}, "
            "or compute it in a terminal: lamina phases MODEL --question ... --context ..."
        )


def _said(result: Result, question: Question) -> Said:
    row = result.tables["answer"].iloc[0]
    answers = bool(row["predicted"])
    judged = answers and bool(question.answers)
    return Said(
        answers=answers,
        predicted=str(row["predicted"]),
        confidence=round(float(row["confidence"]), 4) if answers else None,
        accepted=list(question.answers),
        right=bool(row["exact_match"] == 1) if judged else None,
    )


def _notes(result: Result) -> list[str]:
    from lamina.analyses.questions.answering import SILENT
    from lamina.analyses.questions.tokenmap import NO_GOLD, OUTLIERS

    # These are said elsewhere on the page.
    said = (SILENT, NO_GOLD, OUTLIERS)
    return [
        f"{reason}: {count:,}" for reason, count in result.provenance.skipped.items() if count and reason not in said
    ]


def _phases(desk: Desk, result: Result) -> str | None:
    own = desk.shelf.of_model(result.provenance.model["fingerprint"])
    return next((entry.id for entry in own if entry.analysis == "phases"), None)


def _answering(desk: Desk, name: str, folder: str) -> Answering | None:
    from lamina.training.provenance import read_about

    try:
        about = read_about(folder)
    except ModelError:
        return None
    base = str(about.get("base", {}).get("name", ""))
    known = [other for other in desk.models.names() if base in (other, Path(other).name)]
    return Answering(
        name=name,
        task=str(about.get("task", "")),
        answers=about.get("head") == "QuestionAnswering",
        base=known[0] if known else None,
    )
