"""The chapters of the report, which are also those of the app and of the list of commands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from lamina.framework.outline import Chapter, outline
from lamina.framework.registry import names

if TYPE_CHECKING:
    from lamina.results import Result


class ChapterCard(NamedTuple):
    """One chapter of the report, and of the app's overview."""

    name: Chapter
    title: str
    question: str
    leads: tuple[tuple[str, str], ...]
    """Analysis and chart that the chapter opens with: the first of these that there is, else the first there is."""


CHAPTERS = (
    ChapterCard("layers", "Layers", "What happens to word vectors from layer to layer?", (("geometry", "layers"),)),
    ChapterCard(
        "abilities",
        "Abilities",
        "Which linguistic questions can be answered, and at which layers?",
        (("probe", "pipeline"), ("pairs", "terms")),
    ),
    ChapterCard(
        "heads", "Heads", "What does each attention head do, and does the model need it?", (("headmap", "map"),)
    ),
    ChapterCard("words", "Words", "What does the model make of a word in its context?", (("contextualize", "layers"),)),
    ChapterCard("answering", "Answering", "How does the model come to an answer?", (("phases", "answers"),)),
)
"""In the order of the report."""

_FORMER: Mapping[str, Chapter] = {"behaviour": "answering", "cause": "heads", "comparison": "layers"}
"""Former chapters, which other packages may still name -> where they are now."""


def shown_chapter(declared: str) -> Chapter:
    """The chapter that a declared one is shown in; an unknown one is shown last.

    Example:
        >>> shown_chapter("words"), shown_chapter("cause"), shown_chapter("poetry")
        ('words', 'heads', 'answering')
    """
    known: dict[str, Chapter] = {card.name: card.name for card in CHAPTERS}
    return known.get(declared) or _FORMER.get(declared, "answering")


def chapter_of(analysis: str) -> Chapter:
    """The chapter that an analysis belongs to; results of unknown analyses come last.

    Example:
        >>> chapter_of("geometry"), chapter_of("ablate"), chapter_of("my_own")
        ('layers', 'heads', 'answering')
    """
    return shown_chapter(outline(analysis).chapter) if analysis in names() else "answering"


def by_chapter(results: Sequence[Result]) -> dict[Chapter, list[Result]]:
    """The results of each chapter that has any, chapters in the order of the report.

    Example:
        >>> from lamina.results import Provenance, Result
        >>> plain = Provenance({}, {}, {})
        >>> list(by_chapter([Result("heads", {}, plain), Result("geometry", {}, plain)]))
        ['layers', 'heads']
    """
    placed: dict[Chapter, list[Result]] = {}
    for card in CHAPTERS:
        if here := [result for result in results if chapter_of(result.analysis) == card.name]:
            placed[card.name] = here
    return placed
