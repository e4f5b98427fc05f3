"""What the server has: models, corpora, the example sentence, and folders that it cannot use."""

from __future__ import annotations

from fastapi import APIRouter
from pydantic import BaseModel

from lamina.web.api.answers import ERRORS
from lamina.web.app_state import State

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


class About(BaseModel):
    """What every page needs."""

    models: list[ModelCard]
    corpora: list[str]
    sentence: str


@router.get("/about")
def about(app: State) -> About:
    """Models, corpora and the example sentence."""
    loaded, own = app.models.loaded(), app.results.models()
    cards = [
        ModelCard(
            name=name,
            title=f"{name} (fine-tuned)" if name in own else name,
            loaded=name in loaded,
            finetuned=name in own,
        )
        for name in app.models.names()
    ]
    return About(models=cards, corpora=list(app.settings.corpora), sentence=app.settings.sentence)


class PassedOver(BaseModel):
    """A folder that looks like a result and is not listed."""

    name: str
    """The folder, relative to the one named at the start."""
    why: str


@router.get("/passed-over")
def passed_over(app: State) -> list[PassedOver]:
    """Folders that look like results and are not listed, with the reason."""
    return [PassedOver(name=each.name, why=each.why) for each in app.results.passed_over()]


class Look(BaseModel):
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

    behaviours: list[Look]
    """Of heads, the most telling first; the last is for all other heads."""
    roles: list[Look]
    """Of tokens."""
    rarest: list[str]
    """Roles whose tokens are labelled on a map; a token with several is drawn as the first."""
    plain: str
    """The role of tokens without any other."""
    hues: int
    """Number of colours for groups: `--hue-0`, `--hue-1`, ..."""


@router.get("/theme")
def theme() -> Theme:
    """How heads and tokens are named and drawn."""
    from lamina.figures.theme import BEHAVIOUR_LOOKS, COLOURS
    from lamina.figures.token_map import OTHER, RAREST_FIRST, ROLES, SPECIAL

    return Theme(
        behaviours=[
            Look(name=name, short=look.short, colour=look.colour, fill=_fill(look.colour), shape=look.shape)
            for name, look in BEHAVIOUR_LOOKS.items()
        ],
        roles=[
            Look(name=role.name, short=role.name, colour=role.colour, fill=_fill(role.colour), shape=role.shape)
            for role in ROLES
        ],
        rarest=[role.name for role in RAREST_FIRST if role is not SPECIAL],
        plain=OTHER.name,
        hues=len(COLOURS),
    )


def _fill(colour: str) -> str:
    """The token of a palette colour, which has a dark value too; any other colour unchanged."""
    from lamina.figures.theme import COLOURS, GREY

    if colour == GREY:
        return "var(--grey)"
    return f"var(--hue-{COLOURS.index(colour)})" if colour in COLOURS else colour
