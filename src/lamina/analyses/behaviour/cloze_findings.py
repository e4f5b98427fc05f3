"""What the results of a cloze suite show, in sentences and in a small table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from lamina.analyses.behaviour.cloze_own import CHOICE
from lamina.analyses.behaviour.cloze_relations import FREQUENCIES, OBJECTS
from lamina.analyses.behaviour.cloze_scores import ALL, CHANCE, MOST_FREQUENT, NEGATION, PIECES, TWIN
from lamina.framework.declare import Overview
from lamina.results import Result
from lamina.results.finding import Finding, Source, cell, finding, percent, rows_of
from lamina.stats.status import Contrast

_NEGATED, _AFFIRMED = "sensitivity_negative", "sensitivity_affirmative"


def findings_of(result: Result) -> Iterator[Finding]:
    """What a result shows, by the kind of suite."""
    rows = Rows(result)
    if rows.any(OBJECTS):
        yield from _of_facts(rows)
    elif rows.any("sensitivity"):
        yield from _of_diagnostics(rows)
    else:
        yield from _of_own(rows)


class Rows:
    """The rows of a result, found by part and measure."""

    def __init__(self, result: Result) -> None:
        self.model = str(result.provenance.model["name"])
        self._own = {(row.part, row.measure): row for row in rows_of(result.tables["cloze"])}
        self._beside = {(row.part, row.measure, row.baseline): row for row in rows_of(result.tables["baselines"])}
        self.parts = {row.part: row for row in rows_of(result.tables["parts"])}
        self.names = {part: row.name for part, row in self.parts.items()}
        self.contrasts = {(row.part, row.contrast): row for row in rows_of(result.tables["contrasts"])}

    @property
    def whole(self) -> str:
        """The part that stands for all."""
        return ALL if any(part == ALL for part, _ in self._own) else next(iter(self.names))

    def any(self, measure: str) -> bool:
        """Whether some part has this measure."""
        return any(name == measure for _, name in self._own)

    def get(self, part: str, measure: str) -> Any:
        """A row of `cloze`, or None."""
        return self._own.get((part, measure))

    def beside(self, part: str, measure: str, baseline: str) -> Any:
        """A row of `baselines`, or None."""
        return self._beside.get((part, measure, baseline))


def _of_row(row: Any) -> Contrast:
    return Contrast.of(row, "difference", "diff_low", "diff_high")


def _sources(part: str, measures: Sequence[str], baseline: str) -> list[Source]:
    """Rows of a part's measures, the first one's beside a baseline, and how many items it has."""
    beside = Source("baselines", {"part": part, "measure": measures[0], "baseline": baseline})
    return [beside, *(Source("cloze", {"part": part, "measure": measure}) for measure in measures)]


def _pieces_note(part: Any) -> str:
    """How many items depend on words of several tokens."""
    if not part.several_pieces:
        return ""
    return (
        f"In {part.one_piece:,} of {part.items:,} items all words are one token; the probability of a word of several "
        "is the product over its tokens."
    )


def _of_diagnostics(rows: Rows) -> Iterator[Finding]:
    for part in rows.names:
        if rows.get(part, _NEGATED):
            yield from _negation(rows, part)
        elif score := rows.get(part, "sensitivity"):
            chance = rows.beside(part, "sensitivity", CHANCE)
            good = (
                "the expected word is likelier than both that do not fit"
                if chance.value < 0.5
                else "the word is likelier than with the roles reversed"
            )
            yield finding(
                claim=f"{part}: {good} in {percent(score.value)} of {score.n} items; chance is {percent(chance.value)}",
                whether=f"in {part}, {good} more often than by chance",
                absent=f"{part}: {good} as often as by chance",
                contrast="difference",
                test=_of_row(chance),
                source=_sources(part, ["sensitivity"], CHANCE),
                unit="item",
                note=_pieces_note(rows.parts[part]),
            )


def _negation(rows: Rows, part: str) -> Iterator[Finding]:
    """Whether the true word is preferred under negation, and whether negation moves the preference."""
    negated, affirmed = rows.get(part, _NEGATED), rows.get(part, _AFFIRMED)
    chance = rows.beside(part, _NEGATED, CHANCE)
    how = "passes" if chance.difference > 0 else "fails"
    yield finding(
        claim=f"{part}: {rows.model} {how} under negation: the true word is likelier than the false one in "
        f"{percent(negated.value)} of {negated.n} negative contexts, in affirmative ones in {percent(affirmed.value)}",
        whether=f"in {part}, the true word is likelier than the false one in negative contexts",
        absent=f"{part}: the true word is as likely as the false one in negative contexts",
        contrast="negative contexts minus chance",
        test=_of_row(chance),
        source=_sources(part, [_NEGATED, _AFFIRMED], CHANCE),
        unit="item",
        importance=("answers",) if how == "passes" else ("answers", "surprises"),
        note=_pieces_note(rows.parts[part]),
    )
    apart = rows.contrasts.get((part, NEGATION))
    if apart is not None and apart.difference:
        more, less = ("negative", "affirmative") if apart.difference > 0 else ("affirmative", "negative")
        yield finding(
            claim=f"{part}: the true word is likelier than the false one in more {more} contexts than {less} ones",
            whether=f"in {part}, the true word is preferred more often in {more} contexts than in {less} ones",
            absent=f"{part}: the true word is preferred as often in negative contexts as in affirmative ones",
            contrast=NEGATION,
            test=_of_row(apart),
            source=Source("contrasts", {"part": part, "contrast": NEGATION}),
            unit="item",
            importance=("surprises",),
        )


def _of_facts(rows: Rows) -> Iterator[Finding]:
    whole = rows.whole
    score, frequent = rows.get(whole, OBJECTS), rows.beside(whole, OBJECTS, MOST_FREQUENT)
    over = f" (mean over {len(rows.names)} relations)" if len(rows.names) > 1 else ""
    constant = "always saying the most frequent one"
    yield finding(
        claim=f"{rows.model} puts the right object first among its relation's objects for {percent(score.value)} of "
        f"facts{over}; {constant} is right for {percent(frequent.value)}",
        whether=f"{rows.model} finds the object of a fact more often than {constant} does",
        absent=f"{rows.model} finds the object of a fact as often as {constant} does",
        contrast="difference",
        test=_of_row(frequent),
        source=[*_sources(whole, [OBJECTS], MOST_FREQUENT), Source("parts")],
        unit="item",
        importance=("answers", "beats control"),
    )
    yield from _consistency(rows)
    yield from _pieces(rows)
    row = rows.contrasts.get((whole, FREQUENCIES[0]))
    if row is not None:
        within = " within relations" if whole == ALL else ""
        yield finding(
            claim=f"{'More' if row.difference > 0 else 'Less'} frequent objects are said right more often{within}",
            whether=f"frequent objects are said right more often than rare ones{within}",
            absent=f"Frequent objects are said right as often as rare ones{within}",
            contrast="rank correlation",
            test=_of_row(row),
            source=Source("contrasts", {"part": whole, "contrast": FREQUENCIES[0]}),
            unit="item",
            importance=("localised",),
            margin=0.05,
        )


def _consistency(rows: Rows) -> Iterator[Finding]:
    same = rows.get(rows.whole, "consistency")
    if same is None:
        return
    twin, chance = (rows.beside(rows.whole, "consistency", name) for name in (TWIN, CHANCE))
    beside, name = (chance, CHANCE) if twin is None else (twin, TWIN)
    against = "chance" if twin is None else "the twin with random weights"
    # The twin may have been asked fewer facts: the difference is on those that both were asked.
    yield finding(
        claim=f"Two paraphrases of a question get the same object in {percent(same.value)} of pairs; {against} gives "
        f"the same in {percent(beside.value)}",
        whether=f"paraphrases get the same object more often than {against} gives",
        absent=f"Paraphrases get the same object as often as {against} gives",
        contrast="difference" if twin is None else "difference on the facts that both were asked",
        test=_of_row(beside),
        source=_sources(rows.whole, ["consistency"], name),
        unit="item",
        importance=("beats control",),
    )


def _pieces(rows: Rows) -> Iterator[Finding]:
    one, several = (rows.get(rows.whole, f"{OBJECTS}_{which}") for which in ("one_piece", "several_pieces"))
    row = rows.contrasts.get((rows.whole, PIECES))
    if one is None or several is None or row is None:
        return
    yield finding(
        claim=f"Objects of one token come first in {percent(one.value)} of {one.n:,} facts, objects of several in "
        f"{percent(several.value)} of {several.n:,}",
        whether="objects of one token come first more often than those of several",
        absent="Objects of one token come first as often as those of several",
        contrast="difference",
        test=_of_row(row),
        source=[
            Source("contrasts", {"part": rows.whole, "contrast": PIECES}),
            *(Source("cloze", {"part": rows.whole, "measure": f"{OBJECTS}_{which}"}) for which in
              ("one_piece", "several_pieces")),
        ],
        unit="item",
        importance=("localised",),
    )  # fmt: skip


def _of_own(rows: Rows) -> Iterator[Finding]:
    for measure, what, baseline in (
        (CHOICE, "the answer is the likeliest candidate", CHANCE),
        ("accuracy_at_1", "the answer is the likeliest word", MOST_FREQUENT),
    ):
        score, other = rows.get(rows.whole, measure), rows.beside(rows.whole, measure, baseline)
        if score is None or other is None:
            continue
        named = "chance" if baseline == CHANCE else "the most frequent answer of the other items"
        yield finding(
            claim=f"{what[0].upper()}{what[1:]} in {percent(score.value)} of {score.n:,} items; {named} gives "
            f"{percent(other.value)}",
            whether=f"{what} more often than {named} gives",
            absent=f"{what[0].upper()}{what[1:]} as often as {named} gives",
            contrast="difference",
            test=_of_row(other),
            source=_sources(rows.whole, [measure], baseline),
            unit="item",
            importance=("answers", "beats control"),
            note=_pieces_note(rows.parts[rows.whole]) if rows.whole in rows.parts else "",
        )


_SHOWN = {
    OBJECTS: ("precision_at_1", "precision_at_10", OBJECTS, "consistency"),
    "sensitivity": ("accuracy_at_5", "sensitivity", _AFFIRMED, _NEGATED),
    "accuracy_at_1": ("accuracy_at_1", "accuracy_at_5", "accuracy_at_10", CHOICE),
}
"""The measure that tells the kind of suite -> the measures that the terminal shows."""
_FEW = 12
"""Parts that are shown with an interval."""
_HEADINGS = {
    "accuracy_at_1": "at 1", "accuracy_at_5": "at 5", "accuracy_at_10": "at 10", _AFFIRMED: "affirmed",
    _NEGATED: "negated", "precision_at_1": "P@1", "precision_at_10": "P@10", OBJECTS: "objects",
    CHANCE: "chance", MOST_FREQUENT: "most frequent",
}  # fmt: skip


def overview_of(result: Result) -> Iterable[Overview]:
    """One row per part, the measures that one looks at first, and the baselines of the main one."""
    rows = Rows(result)
    main = next(measure for measure in _SHOWN if rows.any(measure))
    measures = [measure for measure in _SHOWN[main] if rows.any(measure)]
    beside = CHANCE if main == "sensitivity" else MOST_FREQUENT
    parts = ([ALL] if rows.whole == ALL else []) + list(rows.names)
    few = len(parts) <= _FEW
    table: list[tuple[str | int, ...]] = []
    for part in parts:
        name = rows.names.get(part, part)
        # The terminal has room for one interval, and with many parts for none.
        cells = [
            "" if row is None else cell(row.value, row.low, row.high) if measure == main and few else cell(row.value)
            for measure in measures
            for row in (rows.get(part, measure),)
        ]
        other = rows.beside(part, main, beside)
        most = max((row.n for measure in measures if (row := rows.get(part, measure)) is not None), default=0)
        baseline = "" if other is None else cell(other.value)
        table.append((part if name == part else f"{part} ({name})", most, *cells, baseline))
    suite = str(result.tables["cloze"]["suite"].iloc[0])
    columns = (
        "part",
        "items",
        *(_HEADINGS.get(measure, measure.replace("_", " ")) for measure in measures),
        _HEADINGS[beside],
    )
    yield Overview(f"{rows.model} on {suite}", columns, table)
