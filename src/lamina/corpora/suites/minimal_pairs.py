"""Minimal pairs: two sentences that differ in one point, of which one is good.

BLiMP's JSONL (one file, or one per paradigm), suites in its layout under other names of the same fields, and tables of
one's own: TSV, CSV or JSONL with one pair per row (`good`, `bad`), or one sentence per row and its grammaticality.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from lamina.corpora.corpus import fingerprint_of
from lamina.corpora.reading import Fault, raise_fault
from lamina.corpora.sampling import first_of_each, sample_of_each
from lamina.corpora.suites.files import hashes_of, is_named, suite_root, table_files
from lamina.corpora.suites.pair_tables import (
    ALL,
    COLUMNS,
    TWO_SENTENCES,
    UNNAMED,
    MinimalPair,
    PairPlace,
    empty_sentence,
    parse_roles,
    read_pair_table,
)
from lamina.errors import CorpusError, InputError

__all__ = ["ALL", "UNNAMED", "MinimalPair", "MinimalPairs", "pairs_from", "read_pairs"]


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
        if wrong := empty_sentence(pair) or _equal(pair):
            raise InputError(f"{name}: pair {pair.id}: {wrong}; expected {TWO_SENTENCES}")
        checked.append(pair)
    if repeated := [item for item, times in Counter(pair.item for pair in checked).items() if times > 1]:
        raise InputError(f"{name}: two pairs are called {repeated[0]!r}; give each its own id")
    return MinimalPairs(name, fingerprint_of("pairs", checked), tuple(checked))


def read_pairs(
    name_or_path: str | Path, *, skip_equal: bool = False, columns: str | Mapping[str, str] | None = None
) -> MinimalPairs:
    """The pairs of a suite that `lamina assets list` names, of a file, or of all files in a folder.

    Two sentences that are equal are an error, or with `skip_equal` left out and counted. They always are for suites
    with a name, since published ones have some: 7 of BLiMP's 67,000 pairs. `columns` says which column is what, as
    `ROLE=COLUMN,...`, where the layout is none of those that are known (see `lamina.corpora.suites.pair_tables`).

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "own.tsv"
        >>> _ = path.write_text("good\\tbad\\tterm\\nDogs bark.\\tDogs barks.\\tagreement\\n")
        >>> read_pairs(path).pairs[0]
        MinimalPair(id='own:2', field='-', term='agreement', paradigm='agreement', good='Dogs bark.', bad='Dogs barks.')
    """
    chosen = parse_roles(columns) if isinstance(columns, str) else dict(columns or {})
    root = suite_root(name_or_path)
    files = table_files(root)
    tables = [read_pair_table(path, chosen, alone=len(files) == 1) for path in files]
    placed = _by_file([place for table in tables for place in table.places])
    equal = [place for place in placed if _equal(place.pair)]
    if equal and not skip_equal and not is_named(name_or_path):
        way = f"{TWO_SENTENCES}: remove the pair, or leave out all that are equal with --skip-equal"
        raise_fault(Fault(equal[0].path, equal[0].line, _equal(equal[0].pair), way))
    _refuse_repeated(placed)
    pairs = [pair for pair in _distinguished([place.pair for place in placed]) if not _equal(pair)]
    if not pairs:
        raise CorpusError(f"{root} holds no pairs; expected a table with {COLUMNS}")
    hashes = hashes_of(root, files)
    unused = list(dict.fromkeys(column for table in tables for column in table.unused))
    left_out = {
        "pairs whose sentences are equal": len(equal),
        "rows of which no candidate, or both, are right": sum(table.unanswered for table in tables),
        f"columns that are not used: {_some(unused)}": 0 if is_named(name_or_path) else len(unused),
    }
    fingerprint = fingerprint_of("minimal pairs 2", hashes, *([chosen] if chosen else []))
    counted = {why: count for why, count in left_out.items() if count}
    return MinimalPairs(str(name_or_path), fingerprint, tuple(pairs), hashes, counted)


def _equal(pair: MinimalPair) -> str:
    """That both sentences are the same, in words."""
    return f"both sentences are {pair.good[:60]!r}" if pair.good.split() == pair.bad.split() else ""


def _by_file(placed: Sequence[PairPlace]) -> list[PairPlace]:
    """Where several files use a paradigm's name and count its pairs from the start, each file is its own paradigm."""
    first: dict[MinimalPair, PairPlace] = {}
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


def _refuse_repeated(placed: Iterable[PairPlace]) -> None:
    seen: dict[tuple[str, str], PairPlace] = {}
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
