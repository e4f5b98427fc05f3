"""A bar: what was measured, and what it should be."""

from __future__ import annotations

from typing import NamedTuple


class Bar(NamedTuple):
    """One measured number and its bar."""

    what: str
    value: float
    bar: float
    at_least: bool
    """True: the value should be at least the bar; False: at most."""
    unit: str = ""
    note: str = ""

    @property
    def met(self) -> bool:
        """Whether the bar is met."""
        return self.value >= self.bar if self.at_least else self.value <= self.bar

    def __str__(self) -> str:
        side = ">=" if self.at_least else "<="
        word = "met   " if self.met else "MISSED"
        return f"{word} {self.what}: {self.value:.3f}{self.unit} ({side} {self.bar}{self.unit}) {self.note}".rstrip()
