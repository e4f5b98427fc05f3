"""How much a corpus holds: texts, words, targets, labels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from lamina.types import Text

_NAMING = ("chains", "chains_gum", "sentence")
"""Annotations whose labels name one thing of one document, rather than a kind of thing."""


@dataclass
class Counts:
    """What was counted so far; grows with `add`.

    Example:
        >>> from lamina.types import Edge, Span
        >>> counts = Counts()
        >>> counts.add(Text("s", ("Dogs", "bark"), edges={"pos": (Edge(("NOUN",), Span(0, 1)),)}))
        >>> counts.texts, counts.words, counts.targets["pos"], counts.labels["pos"]["NOUN"]
        (1, 2, 1, 1)
    """

    texts: int = 0
    words: int = 0
    annotated: Counter[str] = field(default_factory=Counter)
    """Annotation -> texts that carry it."""
    targets: Counter[str] = field(default_factory=Counter)
    """Annotation -> its edges."""
    labels: dict[str, Counter[str]] = field(default_factory=dict)
    """Annotation -> label -> how often."""

    def add(self, text: Text) -> None:
        """Count one more text."""
        self.texts += 1
        self.words += len(text.words)
        for annotation, edges in text.edges.items():
            self.annotated[annotation] += 1
            self.targets[annotation] += len(edges)
            seen = self.labels.setdefault(annotation, Counter())
            scope = f"{text.doc or text.id}: " if annotation in _NAMING else ""
            seen.update(scope + label for edge in edges for label in edge.labels)


def counted(texts: Iterable[Text], *counts: Counts) -> Iterator[Text]:
    """Pass the texts on and count them on the way."""
    for text in texts:
        for one in counts:
            one.add(text)
        yield text
