"""What there is: models, corpora, and the example to begin with."""

from __future__ import annotations

from fastapi import APIRouter
from pydantic import BaseModel

from lamina.web.api.answers import ERRORS
from lamina.web.desk import TheDesk

router = APIRouter(tags=["about"], responses={code: ERRORS[code] for code in (401, 403)})


class ModelCard(BaseModel):
    """A model that may be asked."""

    name: str
    """What to send as `model`."""
    title: str
    loaded: bool
    """Whether it is in memory; the first request of another waits for it."""
    finetuned: bool
    """Whether lamina fine-tuned it: it lies among the results."""


class About(BaseModel):
    """What a page needs to begin."""

    models: list[ModelCard]
    corpora: list[str]
    sentence: str


@router.get("/about")
def about(desk: TheDesk) -> About:
    """Models, corpora and the example sentence."""
    loaded, own = desk.models.loaded(), desk.shelf.models()
    cards = [
        ModelCard(
            name=name,
            title=f"{name} (fine-tuned)" if name in own else name,
            loaded=name in loaded,
            finetuned=name in own,
        )
        for name in desk.models.names()
    ]
    return About(models=cards, corpora=list(desk.settings.corpora), sentence=desk.settings.sentence)
