"""What the report says of each question: its title, what it asks, how it is answered, how its charts are read."""

from __future__ import annotations

from lamina.report.wording import attention, contextualization, geometry, probing, questions
from lamina.report.wording.section import Section

__all__ = ["Section", "section_of"]

_SECTIONS = {
    **geometry.SECTIONS,
    **probing.SECTIONS,
    **attention.SECTIONS,
    **questions.SECTIONS,
    **contextualization.SECTIONS,
}


def section_of(analysis: str) -> Section:
    """The words for an analysis; its bare name where nobody has written any.

    Example:
        >>> section_of("geometry").title
        'Geometry of the layers'
        >>> section_of("head_roles").title
        'Head roles'
    """
    plain = Section(analysis.replace("_", " ").capitalize(), question="", method="", captions={})
    return _SECTIONS.get(analysis, plain)
