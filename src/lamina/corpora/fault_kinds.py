"""Many faults as a short answer: the first of each kind, and how many there are."""

from __future__ import annotations

import re
from collections.abc import Iterator

from lamina.corpora.reading import Fault

_SHOWN = 5
"""Faults shown of each kind."""
_MOST_KINDS = 20
"""Kinds shown; a file of another format may have as many kinds as lines."""
_QUOTED = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"", re.DOTALL)
_PARTICULAR = re.compile(r"\S*[\d/-]\S*")
"""Numbers, names with numbers (`dev-12`), paths and tags (`B-PER`)."""


def kind_of(fault: Fault) -> str:
    """What is wrong, without what differs between faults of one kind: quoted parts, numbers, names with numbers.

    Example:
        >>> from pathlib import Path
        >>> one, two = (Fault(Path("a"), 1, f"question q{n}: {n} columns, 'x{n}'", "2") for n in (3, 4))
        >>> kind_of(one) == kind_of(two)
        True
    """
    return _PARTICULAR.sub("_", _QUOTED.sub("_", fault.what[:1000]))


class FaultKinds:
    """Counts faults by kind and keeps the first few of each, so that memory does not grow with their number.

    Example:
        >>> from pathlib import Path
        >>> kinds = FaultKinds()
        >>> for line in range(1, 9):
        ...     kinds.add(Fault(Path("a.conllu"), line, f"{line} columns", "10 columns"))
        >>> list(kinds.lines())[-2:]
        ['a.conllu:5: 5 columns; expected 10 columns', '  ... and 3 more like these']
    """

    def __init__(self) -> None:
        self.total = 0
        self._counts: dict[str, int] = {}
        self._first: dict[str, list[Fault]] = {}
        self._other = 0
        """Faults of further kinds."""

    def add(self, fault: Fault) -> None:
        """Count one more fault."""
        self.total += 1
        kind = kind_of(fault)
        if kind not in self._counts and len(self._counts) == _MOST_KINDS:
            self._other += 1
            return
        self._counts[kind] = self._counts.get(kind, 0) + 1
        if self._counts[kind] <= _SHOWN:
            self._first.setdefault(kind, []).append(fault)

    @property
    def kinds(self) -> str:
        """The number of kinds, in words."""
        known = len(self._counts)
        return f"more than {known} kinds" if self._other else f"{known} kind{'s' * (known != 1)}"

    @property
    def complete(self) -> bool:
        """Whether `lines` shows every fault."""
        return not self._other and all(count <= _SHOWN for count in self._counts.values())

    def lines(self) -> Iterator[str]:
        """The first faults of each kind, and how many more there are."""
        for kind, faults in self._first.items():
            yield from map(str, faults)
            if more := self._counts[kind] - len(faults):
                yield f"  ... and {more:,} more like these"
        if self._other:
            yield f"  ... and {self._other:,} of other kinds"
