"""Several models on one page: each is asked by itself, and what can be compared is compared."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lamina.errors import CorpusError, InputError
from lamina.framework.outline import outline
from lamina.framework.registry import get_analysis
from lamina.report.page import write_report

if TYPE_CHECKING:
    from lamina.report.report import ReportRun
    from lamina.results import Result

COMPARED = ("geometry", "probe", "attention", "surprisal", "pairs", "cloze", "lens")
"""The analyses whose results `compare` puts side by side, in the order of the page."""


def names_compared(names: Sequence[str], only: Sequence[str] | None) -> list[str]:
    """Those of the analyses that can be compared; one that is asked for by name and cannot is an error.

    Example:
        >>> names_compared(["geometry", "neighbours", "probe"], None)
        ['geometry', 'probe']
    """
    other = [name for name in names if name not in COMPARED]
    if only and other:
        raise InputError(
            f"{', '.join(other)}: not compared between models; a report on several has {', '.join(COMPARED)}"
        )
    return [name for name in COMPARED if name in names]


def folder_names(models: Sequence[Any]) -> list[str]:
    """Where each model's results go, below `results`: its name, or the last part of its path.

    Example:
        >>> folder_names(["minilm", "data/growing_bert"])
        ['minilm', 'growing_bert']
    """
    from lamina.framework.cache import safe_name

    named = [safe_name(Path(str(each if isinstance(each, str | Path) else each.name)).name) for each in models]
    twice = sorted({each for each in named if named.count(each) > 1})
    if twice:
        raise InputError(f"several models are called {', '.join(twice)}; give models with different names")
    return named


def write_several(
    reports: Mapping[str, Callable[[Path], ReportRun]],
    names: Sequence[str],
    out: Path,
    *,
    replace: bool,
    single_file: bool = False,
) -> tuple[Path, list[Path], list[str]]:
    """Ask every model, compare, and write `out/index.html`.

    `reports` give, by the name of a model's folder, its report in the making; each is loaded when its turn comes, and
    let go after it. Returns the page, the folders of all results, and what was left out.
    """
    from lamina.comparison.tables import in_words

    made: dict[str, dict[str, Result]] = {}
    folders, notes, left_out, title = [], [], [], ""
    for name, load in reports.items():
        report = load(out / "results" / name)
        # What one of the models cannot answer may be compared between the others.
        made[name] = report.answer(names, asked_for=False)
        folders += report.folders
        notes += [f"{report.encoder.name}: {note}" for note in report.notes]
        left_out += report.left_out
        title = f"{report.texts.name} ({report.texts.split})"
        # The next model needs its memory.
        del report
    compared = {}
    for name in names:
        results = [each[name] for each in made.values() if name in each]
        if len(results) > 1:
            compared[name] = _compare(results, out / "results" / f"compare-{name}", replace=replace)
    if not compared:
        raise CorpusError("; ".join(notes) or "none of the models was asked the same")
    alone = [name for name in names if sum(name in each for each in made.values()) == 1]
    notes += [f"{outline(name).title} is left out: only one of the models has it." for name in alone]
    where = [out / "results" / f"compare-{name}" for name in compared]
    called = [next(iter(each.values())).provenance.model["name"] for each in made.values() if each]
    page = write_report(
        list(compared.values()),
        out,
        title=f"{in_words(called)} on {title}",
        notes=notes,
        folders=where,
        single_file=single_file,
    )
    return page, [*folders, *where], left_out


def _compare(results: Sequence[Result], folder: Path, *, replace: bool) -> Result:
    from lamina.framework.cache import ask

    return ask(get_analysis("compare").ask(list(results)), folder, replace=replace)
