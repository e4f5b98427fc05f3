"""The papers: their requests, their published numbers and their data, as the files beside this one have them."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from lamina.errors import CorpusError, InputError

ORIGINAL, STAND_IN, MISSING = "the paper's own", "a stand-in", "missing"
"""What model and data of a run are."""


@dataclass(frozen=True)
class PaperData:
    """Data of a paper: what it is, what to put where, and what it has to hold."""

    name: str
    title: str
    asset: str | None = None
    """Its name in the catalogue, where everybody may have it."""
    licence: str = ""
    how: str = ""
    """What to put where."""
    format: str | None = None
    counts: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Split -> what it has to hold; another count is another edition."""
    source: str = ""
    """Where the counts stand."""
    carries: tuple[str, ...] = ()
    """The annotations it has."""

    def folder(self, root: Path | None) -> Path | None:
        """Where it lies below `root`, or below LAMINA_DATA; None where it is at neither.

        Example:
            >>> get_paper("attention").data["ptb_dependencies"].folder(Path("no/such/folder")) is None
            True
        """
        roots = [root] if root is not None else []
        if data := os.environ.get("LAMINA_DATA"):
            roots.append(Path(data))
        return next((place / self.name for place in roots if (place / self.name).exists()), None)

    def to_get_it(self) -> str:
        """How a reader comes by it."""
        if self.asset:
            return f"{self.title}: `lamina assets get {self.asset}`"
        licence = f" ({self.licence})" if self.licence else ""
        return f"{self.title}{licence}: put {self.how} below a folder and name the folder with --data"


@dataclass(frozen=True)
class PaperRun:
    """One request of a paper."""

    name: str
    analysis: str
    original: str | None = None
    """The paper's own data, by its name in `data.toml`; None where everybody has it."""
    data: str | None = None
    """What is read where the paper's own data are not at hand."""
    unless: str | None = None
    """Left out where these data are at hand."""
    beside: str | None = None
    """Left out where these data are not at hand."""
    stand_in: str = ""
    """What stands in for the paper's data, in words; empty where it reads the paper's original."""
    inputs: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    stand_in_settings: Mapping[str, Any] = field(default_factory=dict)
    """Settings where other data stand in for the paper's: what makes them more alike."""
    small: Mapping[str, Any] = field(default_factory=dict)
    """Settings that differ with --small."""
    small_options: Mapping[str, Any] = field(default_factory=dict)
    figures: Mapping[str, str] = field(default_factory=dict)
    """Chart -> the paper's figure that it draws."""
    needs: str = ""
    """What a model has to be able to do beside giving states and maps: predict (a language-model head), or train."""
    tokens: int = 0
    """Tokens of a text as the model has to take them, where no setting `length` says so."""
    model_of: str = ""
    """The run whose fine-tuned model is asked; empty: the model itself."""
    models_of: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Setting -> the runs whose fine-tuned models it takes, those of them that are run."""
    vectors: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Word vectors: the paper's `own`, all that are here, or else the first of `instead` that is."""
    note: str = ""

    @property
    def after(self) -> tuple[str, ...]:
        """Runs whose models this one takes."""
        return (*filter(None, [self.model_of]), *(name for names in self.models_of.values() for name in names))

    def asked(self, *, small: bool, stands_in: bool = True) -> tuple[dict[str, Any], dict[str, Any]]:
        """Settings and data options."""
        settings = {**self.settings, **(self.stand_in_settings if stands_in else {}), **(self.small if small else {})}
        options = {**self.options, **(self.small_options if small else {})}
        return settings, options


@dataclass(frozen=True)
class PublishedTable:
    """Numbers of one table or figure, and which numbers of ours stand beside them."""

    id: str
    title: str
    model: str
    data: str
    source: str
    columns: tuple[str, ...]
    units: tuple[str, ...]
    rows: Mapping[str, tuple[float, ...]]
    layers: int | None = None
    """Blocks of the published model, where rows are layers or values are places in its depth."""
    mean: str | None = None
    """The name of a further row: the mean over the rows that both have."""
    runs: tuple[str, ...] = ()
    table: str = ""
    """The table of ours."""
    key: str = ""
    """Its column that names the row."""
    where: Mapping[str, Any] = field(default_factory=dict)
    selections: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Row -> columns and values that select ours, where its name does not."""
    values: tuple[Mapping[str, Any], ...] = ()
    """Per column of the paper: `value`, `low` and `high` of ours, and where they differ `from`, `key` and `where`;
    `of_recall`: ours is a recall, of which the paper's F1 is made."""
    compare: int | None = None
    """Ours stands beside every column by this entry of `values`, where there is one entry for all."""
    note: str = ""


@dataclass(frozen=True)
class Paper:
    """A paper with its requests and published numbers."""

    name: str
    title: str
    cite: str
    models: tuple[str, ...]
    """Those of the paper, the one of its tables first."""
    stand_ins: tuple[str, ...]
    """Models that are taken where none of them is at hand, in this order."""
    runs: tuple[PaperRun, ...]
    tables: tuple[PublishedTable, ...]
    data: Mapping[str, PaperData]
    note: str = ""

    def is_own(self, model: str) -> bool:
        """Whether this is a model of the paper.

        Example:
            >>> get_paper("attention").is_own("google-bert/bert-base-uncased"), get_paper("attention").is_own("minilm")
            (True, False)
        """
        return model.partition("@")[0].rpartition("/")[2].lower() in {name.lower() for name in self.models}


def paper_names() -> tuple[str, ...]:
    """The papers there are requests for.

    Example:
        >>> "pipeline" in paper_names()
        True
    """
    order = ("pipeline", "attention", "questions", "contextualization", "structural")
    known = {path.name[:-5] for path in files("lamina.reproduction").joinpath("papers").iterdir()}
    return (*order, *sorted(known - set(order)))


@cache
def get_paper(name: str) -> Paper:
    """The paper of this name; an InputError names those there are.

    Example:
        >>> get_paper("blimp").tables[0].rows["overall"][0]
        0.8302
    """
    if name not in paper_names():
        close = get_close_matches(name, paper_names(), n=1)
        meant = f"; did you mean {close[0]}?" if close else "."
        raise InputError(f"there is no paper {name!r}{meant} There are: {', '.join(paper_names())}")
    request = _read(f"papers/{name}.toml")
    published = _read("published.toml").get(name, {})
    tables = tuple(_table(table, published[table["id"]]) for table in request.get("table", ()))
    runs = tuple(PaperRun(**run) for run in request["run"])
    named = {data for run in runs for data in (run.original, run.data, run.unless, run.beside) if data}
    data = {known: _data(known, entry) for known, entry in _read("data.toml").items() if known in named}
    about = {key: request.get(key, "") for key in ("title", "cite", "note")}
    return Paper(
        name=name, models=tuple(request["models"]), stand_ins=tuple(request["stand_ins"]), runs=runs, tables=tables,
        data=data, **about,
    )  # fmt: skip


def _read(path: str) -> dict[str, Any]:
    return tomllib.loads(files("lamina.reproduction").joinpath(path).read_text(encoding="utf-8"))


def _data(name: str, entry: Mapping[str, Any]) -> PaperData:
    return PaperData(name, **{**entry, "carries": tuple(entry.get("carries", ()))})


def _table(request: Mapping[str, Any], published: Mapping[str, Any]) -> PublishedTable:
    numbers = {row: tuple(map(float, values)) for row, values in published["rows"].items()}
    about = {key: published[key] for key in ("title", "model", "data", "source")}
    return PublishedTable(
        id=request["id"],
        columns=tuple(published["columns"]),
        units=tuple(published["units"]),
        rows=numbers,
        layers=published.get("layers"),
        mean=published.get("mean"),
        runs=tuple(request["runs"]),
        table=request["from"],
        key=request.get("key", ""),
        where=request.get("where", {}),
        selections=request.get("rows", {}),
        values=tuple(request["columns"]),
        note=request.get("note", ""),
        **about,
    )


def refuse_other_edition(data: PaperData, counted: Mapping[str, Mapping[str, int]]) -> None:
    """Raise a CorpusError where counts are not those of the paper's edition; splits that are not there are not asked.

    Example:
        >>> data = PaperData("d", "D", counts={"dev": {"texts": 2}}, source="table 1")
        >>> refuse_other_edition(data, {"dev": {"texts": 2}})
        >>> refuse_other_edition(data, {"dev": {"texts": 3}})
        Traceback (most recent call last):
        ...
        lamina.errors.CorpusError: D is of another edition than the paper's: dev has 3 texts, expected 2 (table 1); ...
    """
    wrong = [
        f"{split} has {counted[split][what]:,} {what}, expected {count:,}"
        for split, expected in data.counts.items()
        for what, count in expected.items()
        if split in counted and what in counted[split] and counted[split][what] != count
    ]
    if wrong:
        raise CorpusError(
            f"{data.title} is of another edition than the paper's: {'; '.join(wrong)} ({data.source}); put the paper's "
            f"files there, take {data.name} away to run the stand-in, or run it all the same with --any-edition"
        )


def described(values: Sequence[str]) -> str:
    """Names in a sentence.

    Example:
        >>> described(["a", "b"])
        'a and b'
    """
    return " and ".join(filter(None, [", ".join(values[:-1]), values[-1] if values else ""]))
