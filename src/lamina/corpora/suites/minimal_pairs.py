"""Minimal pairs: two sentences that differ in one point, of which one is good.

BLiMP's JSONL (one file, or one per paradigm), suites in its layout under other names of the same fields, and tables of
one's own: TSV, CSV or JSONL with one pair per row (`good`, `bad`), or one sentence per row and its grammaticality.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from lamina.corpora.corpus import fingerprint_of
from lamina.corpora.reading import Fault, raise_fault
from lamina.corpora.sampling import first_of_each, sample_of_each
from lamina.corpora.suites.files import hashes_of, is_named, suite_root, table_files, table_rows
from lamina.corpora.tables.files import TableRow
from lamina.errors import CorpusError, FormatError, InputError

UNNAMED = "-"
"""The field or term of pairs that name none."""
ALL = "all"
"""In place of a paradigm: the mean over paradigms. No paradigm may be called so."""
_NAMES = {
    "good": ("good", "sentence_good", "good_sentence", "grammatical", "grammatical_sentence", "acceptable",
             "acceptable_sentence", "correct", "correct_sentence", "sen"),
    "bad": ("bad", "sentence_bad", "bad_sentence", "ungrammatical", "ungrammatical_sentence", "unacceptable",
            "unacceptable_sentence", "incorrect", "incorrect_sentence", "wrong_sen"),
    "field": ("field",),
    "term": ("term", "linguistics_term", "phenomenon", "category"),
    "paradigm": ("paradigm", "UID"),
    "id": ("id", "pairID", "pair_id", "item", "item_id"),
    "sentence": ("sentence", "text"),
    "judgement": ("grammaticality", "acceptability", "judgement", "judgment"),
}  # fmt: skip
"""What a column holds -> what suites call it, the preferred name first; letters and digits alone count."""
_JUDGED = {
    "grammatical": True, "acceptable": True, "good": True, "1": True, "true": True, "yes": True,
    "ungrammatical": False, "unacceptable": False, "bad": False, "0": False, "false": False, "no": False, "*": False,
}  # fmt: skip
_TWO = "two sentences that differ"
_COLUMNS = "columns good and bad (or sentence_good and sentence_bad), one pair per row"


class MinimalPair(NamedTuple):
    """Two sentences of which the first is the good one."""

    id: str
    """Within its paradigm."""
    field: str
    """Such as syntax; `-` where none is named."""
    term: str
    """The phenomenon, such as island_effects; `-` where none is named."""
    paradigm: str
    good: str
    bad: str

    @property
    def item(self) -> str:
        """Equal for the same pair whatever the model."""
        return f"{self.paradigm}/{self.id}"


@dataclass(frozen=True)
class MinimalPairs:
    """The pairs of a suite, in the order of its files.

    Example:
        >>> suite = pairs_from([("Dogs bark.", "Dogs barks."), ("A cat sleeps.", "A cat sleep.")], name="own")
        >>> len(suite), suite.paradigms, suite.pairs[0].item
        (2, ('own',), 'own/1')
    """

    name: str
    fingerprint: str
    pairs: tuple[MinimalPair, ...] = field(repr=False)
    files: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)
    """File name -> sha256."""
    left_out: Mapping[str, int] = field(default_factory=dict, repr=False, compare=False)
    """Why something is not among the pairs -> how many times."""

    def __len__(self) -> int:
        return len(self.pairs)

    def __iter__(self) -> Iterator[MinimalPair]:
        return iter(self.pairs)

    @cached_property
    def paradigms(self) -> tuple[str, ...]:
        """In the order of the pairs."""
        return tuple(dict.fromkeys(pair.paradigm for pair in self.pairs))

    def describe(self) -> dict[str, Any]:
        """What provenance says of it."""
        about = {"name": self.name, "fingerprint": self.fingerprint, "split": "", "files": dict(self.files)}
        return about | {"pairs": len(self), "paradigms": len(self.paradigms)}

    def take(self, limit: int) -> MinimalPairs:
        """The first pairs of every paradigm; the others are counted in `left_out`."""
        first = [self.pairs[number] for number in first_of_each(self.pairs, limit, lambda pair: pair.paradigm)]
        return self._with(first, f"pairs beyond the first {limit:,} of a paradigm", "take", limit)

    def sample(self, limit: int, seed: int = 0) -> MinimalPairs:
        """At most `limit` pairs of every paradigm, drawn at random; the others are counted in `left_out`."""
        numbers = sample_of_each(self.pairs, limit, lambda pair: pair.paradigm, lambda pair: pair.item, seed)
        drawn = [self.pairs[number] for number in numbers]
        return self._with(drawn, f"pairs not drawn: {limit:,} of a paradigm were", "sample", limit, seed)

    def only(self, names: Sequence[str]) -> MinimalPairs:
        """The pairs of some paradigms, or of all paradigms of some terms or fields."""
        wanted = set(names)
        known = {group for pair in self.pairs for group in (pair.paradigm, pair.term, pair.field)} - {UNNAMED}
        for name in names:
            if name not in known:
                raise InputError(f"{self.name} has no paradigm, term or field {name!r}; it has {_some(sorted(known))}")
        selected = [pair for pair in self.pairs if wanted & {pair.paradigm, pair.term, pair.field}]
        return self._with(selected, "pairs of paradigms that were not asked for", "only", sorted(wanted))

    def _with(self, selected: Sequence[MinimalPair], why: str, *how: Any) -> MinimalPairs:
        if len(selected) == len(self.pairs):
            return self
        left_out = {**self.left_out, why: len(self.pairs) - len(selected)}
        return replace(
            self, pairs=tuple(selected), fingerprint=fingerprint_of(self.fingerprint, *how), left_out=left_out
        )


def pairs_from(pairs: Iterable[MinimalPair | Sequence[str]], name: str = "pairs") -> MinimalPairs:
    """Pairs in memory: `MinimalPair`s, or (good, bad), whose paradigm then has the name of all.

    Example:
        >>> pairs_from([("Dogs bark.", "Dogs bark.")])
        Traceback (most recent call last):
        lamina.errors.InputError: pairs: pair 1: both sentences are 'Dogs bark.'; expected two sentences that differ
    """
    checked = []
    for number, given in enumerate(pairs, start=1):
        pair = (
            given
            if isinstance(given, MinimalPair)
            else MinimalPair(str(number), UNNAMED, UNNAMED, name, *map(str.strip, given))
        )
        if wrong := _empty(pair) or _equal(pair):
            raise InputError(f"{name}: pair {pair.id}: {wrong}; expected {_TWO}")
        checked.append(pair)
    if repeated := [item for item, times in Counter(pair.item for pair in checked).items() if times > 1]:
        raise InputError(f"{name}: two pairs are called {repeated[0]!r}; give each its own id")
    return MinimalPairs(name, fingerprint_of("pairs", checked), tuple(checked))


def read_pairs(name_or_path: str | Path, *, skip_equal: bool = False) -> MinimalPairs:
    """The pairs of a suite that `lamina assets list` names, of a file, or of all files in a folder.

    Two sentences that are equal are an error, or with `skip_equal` left out and counted. They always are for suites
    with a name, since published ones have some: 7 of BLiMP's 67,000 pairs.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "own.tsv"
        >>> _ = path.write_text("good\\tbad\\tterm\\nDogs bark.\\tDogs barks.\\tagreement\\n")
        >>> read_pairs(path).pairs[0]
        MinimalPair(id='own:2', field='-', term='agreement', paradigm='agreement', good='Dogs bark.', bad='Dogs barks.')
    """
    root = suite_root(name_or_path)
    files = table_files(root)
    placed = _by_file([place for path in files for place in _read(path, alone=len(files) == 1)])
    equal = [place for place in placed if _equal(place.pair)]
    if equal and not skip_equal and not is_named(name_or_path):
        way = f"{_TWO}: remove the pair, or leave out all that are equal with --skip-equal"
        raise_fault(Fault(equal[0].path, equal[0].line, _equal(equal[0].pair), way))
    _refuse_repeated(placed)
    pairs = [pair for pair in _distinguished([place.pair for place in placed]) if not _equal(pair)]
    if not pairs:
        raise CorpusError(f"{root} holds no pairs; expected a table with {_COLUMNS}")
    hashes = hashes_of(root, files)
    left_out = {"pairs whose sentences are equal": len(equal)} if equal else {}
    return MinimalPairs(str(name_or_path), fingerprint_of("minimal pairs 1", hashes), tuple(pairs), hashes, left_out)


class _PairPlace(NamedTuple):
    """A pair, and where it was read."""

    pair: MinimalPair
    path: Path
    line: int


def _read(path: Path, *, alone: bool) -> Iterator[_PairPlace]:
    """The pairs of one file, which may be the only one."""
    rows = iter(table_rows(path, f"{_COLUMNS}; sentences alone do not say which of two is good"))
    first = next(rows, None)
    if first is None:
        return
    columns = _columns(first.values)
    if "good" in columns and "bad" in columns:
        placed = _one_per_row([first, *rows], columns, path, alone)
    elif "sentence" in columns and "judgement" in columns:
        placed = _one_per_item([first, *rows], columns, path, alone)
    else:
        there = ", ".join(map(str, first.values)) or "none"
        missing = next((name for name in ("good", "bad") if name not in columns), "good")
        raise FormatError(
            str(Fault(path, 1, f"no column {missing!r} (the columns are: {there[:200]})", f"{_COLUMNS}, and a header"))
        )
    for place in placed:
        if wrong := _empty(place.pair):
            raise_fault(Fault(place.path, place.line, wrong, _TWO))
        yield place


def _columns(named: Iterable[Any]) -> dict[str, str]:
    """Role -> the column that has it."""
    there = {_plain(str(name)): str(name) for name in reversed(list(named))}
    columns = {}
    for what, names in _NAMES.items():
        column = next((there[_plain(name)] for name in names if _plain(name) in there), None)
        if column is not None:
            columns[what] = column
    return columns


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def _one_per_row(rows: Iterable[TableRow], columns: Mapping[str, str], path: Path, alone: bool) -> Iterator[_PairPlace]:
    for row in rows:
        good, bad = (_sentence(row, columns[what], path) for what in ("good", "bad"))
        yield _PairPlace(_pair(row, columns, path, alone)._replace(good=good, bad=bad), path, row.number)


def _one_per_item(
    rows: Iterable[TableRow], columns: Mapping[str, str], path: Path, alone: bool
) -> Iterator[_PairPlace]:
    """Sentences with a judgement, paired by the item that they belong to."""
    if "id" not in columns:
        raise_fault(Fault(path, 1, "no column 'item' that says which sentences are a pair", _COLUMNS))
    items: dict[MinimalPair, dict[bool, str]] = defaultdict(dict)
    lines: dict[MinimalPair, int] = {}
    for row in rows:
        judged = _JUDGED.get(str(row.values.get(columns["judgement"])).strip().lower())
        if judged is None:
            what = f"{str(row.values.get(columns['judgement']))[:40]!r} in column {columns['judgement']!r}"
            raise_fault(Fault(path, row.number, what, "grammatical or ungrammatical (1 or 0)"))
            continue
        # Without its sentences, a pair says what belongs together.
        item = _pair(row, columns, path, alone)
        if judged in items[item]:
            what = f"item {item.item!r} has a second {'good' if judged else 'bad'} sentence"
            raise_fault(Fault(path, row.number, what, "one good and one bad sentence per item"))
        items[item][judged] = _sentence(row, columns["sentence"], path)
        lines.setdefault(item, row.number)
    for item, sentences in items.items():
        if len(sentences) < 2:
            what = f"item {item.item!r} has no {'bad' if True in sentences else 'good'} sentence"
            raise_fault(Fault(path, lines[item], what, "one good and one bad sentence per item"))
        yield _PairPlace(item._replace(good=sentences[True], bad=sentences[False]), path, lines[item])


def _sentence(row: TableRow, column: str, path: Path) -> str:
    cell = row.values.get(column)
    if not isinstance(cell, str):
        raise_fault(Fault(path, row.number, f"no sentence in {column!r}", "text"))
    return str(cell).strip()


def _pair(row: TableRow, columns: Mapping[str, str], path: Path, alone: bool) -> MinimalPair:
    """What a row says of its pair, without the sentences."""
    roles = ("field", "term", "paradigm", "id")
    labels = {what: _name(row.values.get(columns[what])) for what in roles if what in columns}
    # Without paradigms, a file of many is one; a file that is alone has those that its terms tell apart.
    paradigm = labels.get("paradigm") or (alone and labels.get("term")) or path.stem
    if paradigm == ALL:
        raise_fault(
            Fault(path, row.number, f"a paradigm called {ALL!r}", "another name: it is the mean over paradigms")
        )
    # Several files may hold pairs of one paradigm, and then their lines have the same numbers.
    numbered = str(row.number) if paradigm == path.stem else f"{path.stem}:{row.number}"
    return MinimalPair(
        labels.get("id") or numbered, labels.get("field") or UNNAMED, labels.get("term") or UNNAMED, paradigm, "", ""
    )


def _name(cell: Any) -> str:
    return "" if cell is None or (isinstance(cell, float) and cell != cell) else str(cell).strip()


def _empty(pair: MinimalPair) -> str:
    """Which sentence is missing, in words."""
    missing = [called for called in ("good", "bad") if not getattr(pair, called)]
    return f"the {missing[0]} sentence is empty" if missing else ""


def _equal(pair: MinimalPair) -> str:
    """That both sentences are the same, in words."""
    return f"both sentences are {pair.good[:60]!r}" if pair.good.split() == pair.bad.split() else ""


def _by_file(placed: Sequence[_PairPlace]) -> list[_PairPlace]:
    """Where several files use a paradigm's name and count its pairs from the start, each file is its own paradigm."""
    first: dict[MinimalPair, _PairPlace] = {}
    torn = set()
    for place in placed:
        other = first.setdefault(place.pair._replace(good="", bad=""), place)
        # The same sentences again are a copy of the file, which is refused.
        if other.path != place.path and other.pair != place.pair:
            torn.add((place.pair.term, place.pair.paradigm))
    regrouped = []
    for place in placed:
        named = f"{place.pair.paradigm}: {place.path.stem}"
        pair = place.pair._replace(paradigm=named) if (place.pair.term, place.pair.paradigm) in torn else place.pair
        regrouped.append(place._replace(pair=pair))
    return regrouped


def _refuse_repeated(placed: Iterable[_PairPlace]) -> None:
    seen: dict[tuple[str, str], _PairPlace] = {}
    for place in placed:
        # A paradigm's name may serve several terms; those are distinguished later.
        first = seen.setdefault((place.pair.term, place.pair.item), place)
        if first is not place:
            where = f"line {first.line}" if first.path == place.path else f"{first.path}:{first.line}"
            what = f"a second pair {place.pair.id!r} of paradigm {place.pair.paradigm!r} (the first is at {where})"
            raise_fault(Fault(place.path, place.line, what, "each id once in a paradigm"))


def _distinguished(pairs: Sequence[MinimalPair]) -> list[MinimalPair]:
    """Paradigms of one name under several terms get the term into their name."""
    terms: dict[str, set[tuple[str, str]]] = defaultdict(set)
    for pair in pairs:
        terms[pair.paradigm].add((pair.field, pair.term))
    return [
        pair._replace(paradigm=f"{pair.term}: {pair.paradigm}") if len(terms[pair.paradigm]) > 1 else pair
        for pair in pairs
    ]


def _some(names: Sequence[str], most: int = 8) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most:,} more" if len(names) > most else "")
