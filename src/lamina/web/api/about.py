"""What the server has: models, corpora, the example sentence, and folders that it cannot use."""

from __future__ import annotations

import sys
from typing import Annotated

from fastapi import APIRouter, Path
from pydantic import BaseModel, Field

from lamina.web.api.schema import ERRORS, Typed
from lamina.web.models import base_of
from lamina.web.state import EXAMPLES, State, TrainingStep

router = APIRouter(tags=["about"], responses={code: ERRORS[code] for code in (401, 403)})


class ModelCard(BaseModel):
    """An available model."""

    name: str
    """What to send as `model`."""
    title: str
    loaded: bool
    """Whether it is in memory; otherwise the first request waits for it."""
    finetuned: bool
    """Whether it is a fine-tuned model from the result folders."""
    trouble: str | None
    """Why it could not be loaded; null if it could, or was not tried yet."""
    unconfirmed: bool
    """Whether a user has to confirm that it may be loaded: it lies in a result folder and was not named."""
    waiting: int
    """Its requests that wait or are being answered."""
    training: str | None
    """Of a checkpoint of a series: which training it is of; those of one training come from the first to the last."""
    step: int | None
    """Of a checkpoint: after how many steps; null at the end of a training whose name has no step."""


class ExampleSentence(BaseModel):
    """A sentence worth trying."""

    sentence: str
    why: str


class AboutServer(BaseModel):
    """What every page needs."""

    models: list[ModelCard]
    corpora: list[str]
    sentence: str
    examples: list[ExampleSentence]


@router.get("/about")
def about(app: State) -> AboutServer:
    """Models, corpora and the example sentence."""
    loaded, finetuned, waiting = app.models.loaded(), app.results.models(), app.models.waiting()
    steps = app.settings.steps
    cards = [
        ModelCard(
            name=name,
            title=_title(name, steps.get(name), finetuned=name in finetuned),
            loaded=name in loaded,
            finetuned=name in finetuned,
            trouble=app.models.trouble(name),
            unconfirmed=app.models.unconfirmed(name),
            waiting=waiting.get(name, 0),
            training=steps[name].training if name in steps else None,
            step=steps[name].step if name in steps else None,
        )
        for name in app.models.names()
    ]
    examples = [ExampleSentence(sentence=sentence, why=why) for sentence, why in EXAMPLES]
    return AboutServer(
        models=cards,
        corpora=list(app.settings.corpora),
        sentence=app.settings.sentence,
        examples=examples,
    )


def _title(name: str, place: TrainingStep | None, *, finetuned: bool) -> str:
    if place is not None:
        return f"{place.training}, " + ("the end" if place.step is None else f"step {place.step:,}")
    return f"{name} (fine-tuned)" if finetuned else name


class ModelQueue(BaseModel):
    """A model at work."""

    model: str
    waiting: int
    """Its requests that wait or are being answered."""


class RequestQueue(BaseModel):
    """Who waits for what, and how long at most."""

    models: list[ModelQueue]
    """Those at work."""
    most: int
    """Requests of all models together; more are refused with 429."""
    answer_seconds: float
    """That a model may take for one answer, and a request may wait for its turn; then it fails with 504 or 429."""


@router.get("/queue")
def queue(app: State) -> RequestQueue:
    """How many requests wait for each model, and how long an answer may take."""
    models = [ModelQueue(model=name, waiting=count) for name, count in app.models.waiting().items()]
    limits = app.settings.limits
    return RequestQueue(models=models, most=limits.waiting, answer_seconds=limits.answer_seconds)


class StrangeModel(BaseModel):
    """A model of a result folder, before it is loaded."""

    name: str
    folder: str
    base: str | None
    """Of an adapter: the model that its files name as its base, which would be loaded too."""
    size: int
    """Bytes of its weights."""


class ConfirmedModel(BaseModel):
    """A model that may be loaded from now on."""

    model: Typed = Field(max_length=1000)
    base: Typed | None = Field(None, max_length=1000, description="Of an adapter: the base, as it was shown.")


@router.get("/strange-models/{name:path}", responses={code: ERRORS[code] for code in (400, 404)})
def strange(app: State, name: Annotated[str, Path(max_length=1000)]) -> StrangeModel:
    """What would be loaded if this model were confirmed; its files are not read but for an adapter's settings."""
    from lamina.models.weights.bounds import weights_files

    folder = app.models.folder(name)
    return StrangeModel(
        name=name,
        folder=str(folder),
        base=base_of(folder),
        size=sum(path.stat().st_size for path in weights_files(folder)),
    )


@router.post("/strange-models", responses={code: ERRORS[code] for code in (400, 404, 422)})
def confirm(app: State, confirmed: ConfirmedModel) -> StrangeModel:
    """Let a model of a result folder be loaded until the server ends, in a process of its own."""
    app.models.confirm(confirmed.model, confirmed.base)
    return strange(app, confirmed.model)


class CheckCard(BaseModel):
    """One thing that was tried on a model."""

    name: str
    verdict: str
    """holds, fails or not applicable."""
    message: str
    """One sentence, with the number."""


class ModelVerdict(BaseModel):
    """What a model is, and whether its numbers can be trusted."""

    name: str
    architecture: str
    blocks: int
    heads: int
    """Per block; 0 if it has no attention."""
    width: int
    limit: int | None
    """Most tokens of a text; null if there is none."""
    causal: bool
    """Whether a token sees only the tokens before it."""
    language_head: str | None
    """masked or causal; null if it has none."""
    maps: str
    """Which blocks have attention maps, in words."""
    ablatable: list[str]
    checks: list[CheckCard]
    verdict: list[str]
    """What fails, what follows from it, and where attention goes that no token gets; empty if all is well."""
    refused: dict[str, str]
    """Analysis -> why it is refused for this model."""
    seconds: float
    """That the examination took."""
    transformers: str
    """The version that it was examined with."""


@router.get("/models/{name:path}", responses={code: ERRORS[code] for code in (400, 404, 409, 429, 503, 504)})
def model(app: State, name: Annotated[str, Path(max_length=1000)]) -> ModelVerdict:
    """A model's card and passport; a model that was never examined is loaded for it."""
    from lamina.framework.passports import refused_analyses, verdict

    examined = app.examined(name)
    passport = examined.passport
    return ModelVerdict(
        name=name,
        architecture=passport.architecture,
        blocks=examined.blocks,
        heads=examined.heads,
        width=examined.width,
        limit=None if examined.limit == sys.maxsize else examined.limit,
        causal=passport.causal,
        language_head=passport.language_head,
        maps=examined.where_maps,
        ablatable=list(passport.ablatable),
        checks=[CheckCard(name=check.name, verdict=check.verdict, message=check.message) for check in passport.checks],
        verdict=verdict(passport),
        refused=refused_analyses(passport, app.analyses),
        seconds=passport.seconds,
        transformers=passport.transformers,
    )


class UnlistedFolderCard(BaseModel):
    """A folder that looks like a result and is not listed."""

    name: str
    """The folder, relative to the one named at the start."""
    why: str


@router.get("/passed-over")
def passed_over(app: State) -> list[UnlistedFolderCard]:
    """Folders that look like results and are not listed, with the reason."""
    return [UnlistedFolderCard(name=folder.name, why=folder.why) for folder in app.results.passed_over()]


class MarkStyle(BaseModel):
    """How one kind of thing is drawn."""

    name: str
    short: str
    """A shorter name."""
    colour: str
    """On a white background."""
    fill: str
    """As CSS: a token with a light and a dark value, or a colour."""
    shape: str
    """An SVG path around 0, 0, about from -1 to 1."""


class Theme(BaseModel):
    """Names, colours and shapes, in the order of legends."""

    behaviours: list[MarkStyle]
    """Of heads, the most telling first; the last is for all other heads."""
    roles: list[MarkStyle]
    """Of tokens."""
    rarest: list[str]
    """Roles whose tokens are labelled on a map; a token with several is drawn as the first."""
    plain: str
    """The role of tokens without any other."""
    hues: int
    """Number of colours for groups: `--hue-0`, `--hue-1`, ..."""
    dark: dict[str, str]
    """Colour of a chart on white paper -> its colour on dark paper."""


@router.get("/theme")
def theme() -> Theme:
    """How heads and tokens are named and drawn."""
    from lamina.figures.theme import BEHAVIOUR_LOOKS, COLOURS, DARK, OTHER, RAREST_FIRST, ROLES, SPECIAL

    return Theme(
        behaviours=[
            MarkStyle(name=name, short=look.short, colour=look.colour, fill=_fill(look.colour), shape=look.shape)
            for name, look in BEHAVIOUR_LOOKS.items()
        ],
        roles=[
            MarkStyle(name=role.name, short=role.name, colour=role.colour, fill=_fill(role.colour), shape=role.shape)
            for role in ROLES
        ],
        rarest=[role.name for role in RAREST_FIRST if role is not SPECIAL],
        plain=OTHER.name,
        hues=len(COLOURS),
        dark=DARK,
    )


def _fill(colour: str) -> str:
    """The token of a colour of charts, which has a dark value too; any other colour unchanged."""
    from lamina.figures.theme import COLOURS, GREY, TONES

    tokens = {GREY: "grey"}
    for kind, colours in (("hue", COLOURS), ("tone", TONES)):
        tokens |= {shade: f"{kind}-{index}" for index, shade in enumerate(colours)}
    return f"var(--{tokens[colour]})" if colour in tokens else colour
