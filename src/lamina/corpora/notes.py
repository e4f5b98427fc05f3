"""What a reader left out or changed, apart from faults: counted, so that provenance can say it."""

from __future__ import annotations

from collections.abc import Callable, Mapping


class Notes:
    """Reasons and the ids of the texts they hold for. Reading a file again adds nothing.

    Example:
        >>> notes = Notes()
        >>> notes.add("questions without an answer", "q1")
        >>> notes.add("questions without an answer", "q1")
        >>> notes.counts()
        {'questions without an answer': 1}
    """

    def __init__(self, keep: Callable[[str], bool] | None = None) -> None:
        """`keep` says whether a document belongs to the split that is read; None for all of them."""
        self._keep = keep
        self._ids: dict[str, dict[str, None]] = {}
        self._files: dict[str, dict[str, None]] = {}

    def add(self, what: str, id: str, doc: str | None = None) -> None:
        """Note what was done with a text; `doc` is its document, by default the text itself."""
        if self._keep is None or self._keep(doc or id):
            self._ids.setdefault(what, {})[id] = None

    def add_file(self, what: str, file: str) -> None:
        """Note what holds for a whole file, whichever split is read."""
        self._files.setdefault(what, {})[file] = None

    @property
    def ids(self) -> Mapping[str, tuple[str, ...]]:
        """Reason -> the ids of its texts (or the names of its files), in the order in which they were read."""
        return {what: tuple(ids) for what, ids in (self._ids | self._files).items()}

    def counts(self) -> dict[str, int]:
        """Reason -> how many texts (or files)."""
        return {what: len(ids) for what, ids in self.ids.items()}

    def in_words(self) -> str:
        """All that is about texts, in half a sentence, the most frequent first; empty if nothing was noted.

        Example:
            >>> notes = Notes()
            >>> notes.add("questions without an answer", "q1")
            >>> notes.in_words()
            'questions without an answer: 1'
        """
        ranked = sorted(self._ids.items(), key=lambda pair: -len(pair[1]))
        return "; ".join(f"{what}: {len(ids):,}" for what, ids in ranked)
