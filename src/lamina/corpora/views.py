"""How questions are shown to a model: which context, which form of answer.

A model is fine-tuned on one view of its data, and has to be asked in the same one. The view is therefore kept with the
model and given to every reader of questions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, get_args

from lamina.errors import InputError

Setting = Literal["distractor", "support"]
BabiView = Literal["span", "classification"]

_MATTERS = {
    "hotpot": ("setting", "max_words", "seed"),
    "babi": ("babi", "tasks"),
    "stories": ("tasks",),
}
"""Kind of data -> the fields that change its questions; all other kinds have a single view."""


@dataclass(frozen=True)
class View:
    """How questions are shown to a model; the default is everything as it is in the files.

    Example:
        >>> View(setting="support", tasks=(1, 2)).of_kind("babi")
        View(setting='distractor', babi='span', tasks=(1, 2), max_words=None, seed=0)
        >>> View.of(View(max_words=230).describe()) == View(max_words=230)
        True
    """

    setting: Setting = "distractor"
    """HotpotQA: all paragraphs, or the supporting facts alone."""
    babi: BabiView = "span"
    """bAbI: the possible answers are appended and the answer is a span of them, or the answer is a class."""
    tasks: tuple[int, ...] | None = None
    """Some of bAbI's twenty tasks, or of the stories'; None for all."""
    max_words: int | None = None
    """HotpotQA: whole distractor paragraphs are dropped until question and context have at most so many words."""
    seed: int = 0
    """Of that draw."""

    def __post_init__(self) -> None:
        for name, kind in (("setting", Setting), ("babi", BabiView)):
            value, known = getattr(self, name), get_args(kind)
            if value not in known:
                raise InputError(f"a view's {name} is {' or '.join(known)}; got {value!r}")
        if self.tasks is not None and (not self.tasks or not all(_is_count(task) for task in self.tasks)):
            raise InputError(f"a view's tasks are numbers from 1 on, as in (1, 2); got {self.tasks!r}")
        if self.max_words is not None and not _is_count(self.max_words):
            raise InputError(f"a view's max_words is a number of words from 1 on; got {self.max_words!r}")
        if type(self.seed) is not int or self.seed < 0:
            raise InputError(f"a view's seed is a number from 0 on; got {self.seed!r}")

    def describe(self) -> dict[str, Any]:
        """The view as JSON, which `View.of` reads."""
        return asdict(self) | {"tasks": None if self.tasks is None else list(self.tasks)}

    def of_kind(self, kind: str) -> View:
        """The view without what makes no difference to questions of this kind (a format, or `stories`)."""
        return View(**{name: getattr(self, name) for name in _MATTERS.get(kind, ())})

    @classmethod
    def of(cls, said: Any) -> View:
        """The view that `describe` wrote; an InputError for anything else.

        Example:
            >>> View.of({"setting": "all"})
            Traceback (most recent call last):
            lamina.errors.InputError: a view's setting is distractor or support; got 'all'
        """
        known = [each.name for each in fields(cls)]
        if not isinstance(said, Mapping) or not all(name in known for name in said):
            raise InputError(f"a view is an object with {', '.join(known)}; got {str(said)[:80]}")
        tasks = said.get("tasks")
        return cls(**{**said, "tasks": tuple(tasks) if isinstance(tasks, list) else tasks})


def _is_count(value: object) -> bool:
    return type(value) is int and value >= 1
