"""Minimal pairs: two sentences that differ in one point, of which one is good.

BLiMP's JSONL (one file, or one per paradigm), suites in its layout under other names of the same fields, and tables of
your own: TSV, CSV or JSONL with one pair per row (`good`, `bad`), or one sentence per row and its grammaticality.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from lamina.corpora.corpus import fingerprint_of, first_of_each, sample_of_each
from lamina.corpora.reading import Fault, raise_fault, read_blocks
from lamina.corpora.suites.files import hashes_of, is_named, suite_root, table_files, table_rows
from lamina.corpora.tables.files import TableRow, arrow_kind, is_lines, layout_of, list_of
from lamina.errors import CorpusError, FormatError, InputError

__all__ = ["ALL", "UNNAMED", "MinimalPair", "MinimalPairs", "pairs_from", "read_pairs"]


UNNAMED = "-"
"""The field or term of pairs that name none."""
ALL = "all"
"""In place of a paradigm: the mean over paradigms. No paradigm may be called so."""
ROLES = {
    "good": ("good", "sentence_good", "good_sentence", "grammatical", "grammatical_sentence", "acceptable",
             "acceptable_sentence", "correct", "correct_sentence", "sen"),
    "bad": ("bad", "sentence_bad", "bad_sentence", "ungrammatical", "ungrammatical_sentence", "unacceptable",
            "unacceptable_sentence", "incorrect", "incorrect_sentence", "wrong", "wrong_sentence", "wrong_sen"),
    "field": ("field",),
    "term": ("term", "linguistics_term", "phenomenon", "category"),
    "paradigm": ("paradigm", "UID", "test case", "construction", "condition", "name", "case", "type"),
    "id": ("id", "pairID", "pair_id", "item", "item_id", "qID"),
    "sentence": ("sentence", "text", "sent"),
    "judgement": ("grammaticality", "acceptability", "judgement", "judgment"),
    "form": ("form", "word", "token"),
    "position": ("position", "len_prefix", "target_index", "pronoun-offset", "pronoun_loc"),
    "option1": ("option1", "candidate1", "option_1", "candidate_1", "option0", "candidate0", "A"),
    "option2": ("option2", "candidate2", "option_2", "candidate_2", "option1", "candidate1", "B"),
    "candidates": ("candidates", "options"),
    "answer": ("answer", "correct_answer", "correct", "label", "gold", "target"),
    "pronoun": ("pronoun",),
    "right1": ("A-coref",),
    "right2": ("B-coref",),
}  # fmt: skip
"""What a column holds -> what suites call it, the preferred name first; letters and digits alone count."""
_METHODS = frozenset({"simple_LM_method", "one_prefix_method", "two_prefix_method", "lexically_identical"})
"""Columns of BLiMP's layout that say how else a pair may be scored."""
_JUDGED = {
    "grammatical": True, "acceptable": True, "good": True, "correct": True, "right": True, "1": True, "true": True,
    "yes": True, "ungrammatical": False, "unacceptable": False, "bad": False, "incorrect": False, "wrong": False,
    "0": False, "false": False, "no": False, "*": False,
}  # fmt: skip
TWO_SENTENCES = "two sentences that differ"
COLUMNS = "columns good and bad (or sentence_good and sentence_bad), one pair per row"
"""The simplest layout, for messages."""
_CHOICE = "--columns good=COLUMN,bad=COLUMN,paradigm=COLUMN says which column is what, by name or by number"
_GAP = re.compile(r"\[MASK\]|<mask>|\[Y\]|(?<!\w)_+(?!\w)")
"""Where a candidate goes."""
_POSSESSIVE = frozenset({"his", "its", "their", "my", "your", "our"})
_NOT_OWNED = frozenset(
    (
        "a", "an", "the", "and", "or", "but", "nor", "to", "that", "this", "than", "in", "on", "at", "of", "for",
        "with", "from", "by", "as", "into", "about", "over", "after", "before", "when", "while", "if", "because",
        "since", "until", "so", "was", "is", "has", "had", "would", "could", "will", "not", "again", "too",
    )
)  # fmt: skip
"""Words after `her` that show an object, as in *told her that*."""
_BLOCK = 4
"""Lines of an item that is no row: sentence, pronoun, candidates, answer."""


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


class PairPlace(NamedTuple):
    """A pair, and where it was read."""

    pair: MinimalPair
    path: Path
    line: int


class PairTable(NamedTuple):
    """One file, read."""

    places: list[PairPlace]
    unused: tuple[str, ...]
    """Columns that are not used."""
    unanswered: int = 0
    """Rows with candidates of which none, or both, are right."""


def parse_roles(columns: str) -> dict[str, str]:
    """What a user says about columns, as `ROLE=COLUMN,...`.

    Example:
        >>> parse_roles("good=right sentence, bad=wrong sentence")
        {'good': 'right sentence', 'bad': 'wrong sentence'}
    """
    chosen: dict[str, str] = {}
    for part in columns.split(","):
        role, equals, column = (piece.strip() for piece in part.partition("="))
        if role not in ROLES or not equals or not column:
            raise InputError(
                f"--columns: {part.strip()[:80]!r} does not say which column is what; write ROLE=COLUMN with the roles "
                f"{', '.join(ROLES)}, as in good=COLUMN,bad=COLUMN,paradigm=COLUMN"
            )
        chosen[role] = column
    return chosen


def read_pair_table(path: Path, chosen: Mapping[str, str], *, alone: bool) -> PairTable:
    """The pairs of one file, which may be the only one; `chosen` says which column is what.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "own.csv"
        >>> _ = path.write_text("sentence,option1,option2,answer\\nThe _ barked.,dog,cat,1\\n")
        >>> (place,) = read_pair_table(path, {}, alone=True).places
        >>> place.pair.good, place.pair.bad
        ('The dog barked.', 'The cat barked.')
    """
    if not chosen and (blocks := list(_candidate_blocks(path))):
        return _Reader(path, {}, alone).candidates(blocks)
    what = f"{COLUMNS}; sentences alone do not say which of two is good"
    rows = list(table_rows(path, what, header=not _lacks_names(path, chosen)))
    if not rows:
        return PairTable([], ())
    there = list(dict.fromkeys(str(name) for row in rows for name in row.values))
    roles = _roles(there, chosen, rows[0], path)
    reader = _Reader(path, roles, alone)
    if {"good", "bad"} <= roles.keys():
        table = reader.sentences(rows)
    elif "sentence" in roles and ({"option1", "option2"} <= roles.keys() or "candidates" in roles):
        table = reader.candidates(rows)
    elif {"form", "judgement", "sentence"} <= roles.keys():
        table = reader.forms(rows)
    elif {"sentence", "judgement"} <= roles.keys():
        table = reader.judged(rows)
    else:
        missing = next((role for role in ("good", "bad") if role not in roles), "good")
        what = f"no column {missing!r} (the columns are: {', '.join(there)[:200]})"
        raise FormatError(str(Fault(path, 1, what, f"{COLUMNS}, and a header; or {_CHOICE}")))
    for place in table.places:
        if wrong := empty_sentence(place.pair):
            raise_fault(Fault(place.path, place.line, wrong, TWO_SENTENCES))
    used = {*roles.values(), *_METHODS}
    return table._replace(unused=tuple(column for column in there if column not in used))


def _lacks_names(path: Path, chosen: Mapping[str, str]) -> bool:
    """Whether columns are given by number, and the first line of the file holds sentences instead of names."""
    if not chosen or not all(column.isdecimal() for column in chosen.values()):
        return False
    layout = None if is_lines(path) or list_of(path) or arrow_kind(path) else layout_of(path)
    if layout is None or layout.header:
        return False
    first = layout.sample[0]
    places = [int(chosen[role][:6]) - 1 for role in ("good", "bad", "sentence") if role in chosen]
    return all(" " in first[place].strip() for place in places if 0 <= place < len(first))


def _roles(there: Sequence[str], chosen: Mapping[str, str], first: TableRow, path: Path) -> dict[str, str]:
    """Role -> the column that has it: as chosen, or as columns are called."""
    by_name = {_plain(name): name for name in reversed(there)}
    roles: dict[str, str] = {}
    for role, column in chosen.items():
        if column not in there and column.isdecimal() and 0 < int(column[:6]) <= len(there):
            roles[role] = there[int(column[:6]) - 1]
            continue
        if column not in there and _plain(column) not in by_name:
            raise InputError(f"--columns: {path} has no column {column!r}; it has {', '.join(there)[:300]}")
        roles[role] = column if column in there else by_name[_plain(column)]
    taken = {*roles.values()}

    def called(role: str) -> str | None:
        columns = (by_name[_plain(name)] for name in ROLES[role] if _plain(name) in by_name)
        return next((column for column in columns if column not in taken), None)

    for role in ROLES.keys() - chosen.keys() & {"good", "bad"}:
        if (column := called(role)) is not None:
            roles[role] = column
    if {"good", "bad"} <= roles.keys():
        # Otherwise `correct` may be an answer or a judgement.
        taken |= {roles["good"], roles["bad"]}
    for role in ROLES:
        if role not in roles and (column := called(role)) is not None:
            roles[role] = column
            # What is called option1 is the second one only where there is an option0.
            taken |= {column} if role == "option1" else set()
    if "judgement" not in roles:
        # A column of any name whose cells judge in words.
        word = next((name for name in there if str(first.values.get(name)).strip().lower() in _JUDGED_IN_WORDS), None)
        roles |= {} if word is None else {"judgement": word}
    judges = {roles.get("judgement"), roles.get("answer")} - {None}
    grouping = {role for role in ("paradigm", "term", "field") if role not in chosen and roles.get(role) in judges}
    return {role: column for role, column in roles.items() if role not in grouping}


_JUDGED_IN_WORDS = frozenset(word for word in _JUDGED if len(word) > len("false"))


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def _is_possessive(pronoun: str, after: str) -> bool:
    """Whether a pronoun stands before what belongs to someone: `her` does unless a function word comes next."""
    following = re.match(r" ([A-Za-z]+)", after)
    owns = following is not None and following[1].lower() not in _NOT_OWNED
    return pronoun.lower() in _POSSESSIVE or (pronoun.lower() == "her" and owns)


def _candidate_blocks(path: Path) -> Iterator[TableRow]:
    """Items of four lines between blank ones (sentence, pronoun, two candidates, answer), as rows; none elsewhere."""
    if path.suffix.lower() not in ("", ".txt"):
        return
    for number, block in enumerate(read_blocks(path, raise_fault)):
        lines = [line.text.strip() for line in block]
        options = [option.strip() for option in lines[2].split(",")] if len(lines) == _BLOCK else []
        fits = len(options) == 2 and lines[3].lower() in map(str.lower, options)
        if not fits and not number:
            return
        if not fits:
            expected = "a sentence, a pronoun, two candidates with a comma, and the answer, one per line"
            raise_fault(Fault(path, block[0].number, f"an item of {len(lines)} lines", expected))
        cells: dict[str, Any] = {"sentence": lines[0], "pronoun": lines[1], "candidates": options, "answer": lines[3]}
        yield TableRow(block[0].number, cells)


class _Reader:
    """Rows of one file, of which it is known what its columns hold."""

    def __init__(self, path: Path, roles: Mapping[str, str], alone: bool) -> None:
        self.path, self.alone = path, alone
        self.roles = roles or {name: name for name in ("sentence", "pronoun", "candidates", "answer")}

    def sentences(self, rows: Iterable[TableRow]) -> PairTable:
        """One pair per row."""
        places = [self._place(row, self._sentence(row, "good"), self._sentence(row, "bad")) for row in rows]
        return PairTable(places, ())

    def judged(self, rows: Iterable[TableRow]) -> PairTable:
        """One sentence per row with its judgement; those of an item, or two in a row, are a pair."""
        return self._paired(rows, lambda row, _: self._sentence(row, "sentence"))

    def forms(self, rows: Sequence[TableRow]) -> PairTable:
        """One form per row, right or wrong in a sentence, which two rows in a row have in common."""
        return self._paired(rows, self._with_form, by_item=False)

    def candidates(self, rows: Sequence[TableRow]) -> PairTable:
        """One item per row: a sentence with a gap or a pronoun, two candidates for it, and which of them is right."""
        answers = {self._cell(row, "answer") for row in rows}
        counts_from = 0 if "0" in answers else 1
        places, unanswered = [], 0
        for row in rows:
            options = self._options(row)
            right = self._right(row, options, counts_from)
            if right is None:
                unanswered += 1
                continue
            good, bad = (self._filled(row, option) for option in (options[right], options[1 - right]))
            places.append(self._place(row, good, bad))
        return PairTable(places, (), unanswered)

    def _paired(
        self, rows: Iterable[TableRow], sentence_of: Callable[[TableRow, str], str], *, by_item: bool = True
    ) -> PairTable:
        items: dict[MinimalPair, dict[bool, tuple[TableRow, str]]] = defaultdict(dict)
        lines: dict[MinimalPair, int] = {}
        numbered = by_item and "id" in self.roles
        latest: MinimalPair | None = None
        for row in rows:
            judged = self._judgement(row)
            # Without its sentences, a pair says what belongs together; without a column that says it, the row before.
            item = self._pair(row)
            if not numbered:
                item = item if latest is None or len(items[latest]) == 2 else latest
            if judged in items[item]:
                how = "" if numbered else ", and no column 'item' that says which sentences are a pair"
                what = f"item {item.item!r} has a second {'good' if judged else 'bad'} sentence{how}"
                raise_fault(Fault(self.path, row.number, what, "one good and one bad sentence per item"))
            other = next(iter(items[item].values()), None)
            items[item][judged] = row, sentence_of(row, "" if other is None else self._cell(other[0], "form"))
            lines.setdefault(item, row.number)
            latest = item
        places = []
        for item, sentences in items.items():
            if len(sentences) < 2:
                missing = f"item {item.item!r} has no {'bad' if True in sentences else 'good'} sentence"
                how = "" if numbered else "; no column 'item' that says which sentences are a pair"
                raise_fault(Fault(self.path, lines[item], f"{missing}{how}", "one good and one bad sentence per item"))
            good, bad = (self._exchanged(sentences, judged) for judged in (True, False))
            places.append(PairPlace(item._replace(good=good, bad=bad), self.path, lines[item]))
        return PairTable(places, ())

    def _exchanged(self, sentences: Mapping[bool, tuple[TableRow, str]], judged: bool) -> str:
        """A sentence, or the other one with this form, where both rows have the sentence of the right form."""
        (row, sentence), (other_row, other) = sentences[judged], sentences[not judged]
        if "form" not in self.roles or sentence != other:
            return sentence
        words, form, rival = sentence.split(), self._cell(row, "form"), self._cell(other_row, "form")
        places = [place for place, word in enumerate(words) if word.lower() in (form.lower(), rival.lower())]
        given = self._cell(row, "position")
        if given.isdecimal() and int(given[:9]) in places:
            places = [int(given[:9])]
        if len(places) != 1:
            times = f"is {len(places)} times in the sentence" if places else "is not in the sentence"
            way = "the form once, or position=COLUMN with the number of words before it, in --columns"
            raise_fault(Fault(self.path, row.number, f"{form!r} or {rival!r} {times}", way))
        return " ".join([*words[: places[0]], form, *words[places[0] + 1 :]])

    def _with_form(self, row: TableRow, _: str) -> str:
        sentence = self._sentence(row, "sentence").removesuffix("<eos>").strip()
        return _GAP.sub(lambda _: self._cell(row, "form"), sentence, count=1)

    def _judgement(self, row: TableRow) -> bool:
        cell = self._cell(row, "judgement")
        judged = _JUDGED.get(cell.lower())
        if judged is None:
            what = f"{cell[:40]!r} in column {self.roles['judgement']!r}"
            raise_fault(Fault(self.path, row.number, what, "grammatical or ungrammatical (1 or 0)"))
        return bool(judged)

    def _options(self, row: TableRow) -> list[str]:
        if "candidates" in self.roles:
            cell = row.values.get(self.roles["candidates"])
            listed = cell if isinstance(cell, list) else str(cell).strip("[]").split(",")
            options = [str(option).strip().strip("'\"") for option in listed]
        else:
            options = [self._cell(row, "option1"), self._cell(row, "option2")]
        if len(options) != 2 or not all(options) or options[0].lower() == options[1].lower():
            raise_fault(Fault(self.path, row.number, f"candidates {options!r}"[:200], "two candidates that differ"))
        return options

    def _right(self, row: TableRow, options: Sequence[str], counts_from: int) -> int | None:
        """0 or 1: the candidate that is right; None where none or both are."""
        if {"right1", "right2"} <= self.roles.keys() and "answer" not in self.roles:
            right = [_JUDGED.get(self._cell(row, role).lower(), False) for role in ("right1", "right2")]
            return right.index(True) if sum(right) == 1 else None
        answer = self._cell(row, "answer")
        if not answer or answer in ("-1", "?"):
            return None
        plain = [option.lower() for option in options]
        if answer.lower() in plain:
            return plain.index(answer.lower())
        number = re.fullmatch(r"(?:option|candidate|choice)?[ _]?([012AaBb])\.?", answer)
        place = {"a": 0, "b": 1}.get(number[1].lower()) if number else None
        if number and place is None:
            place = int(number[1]) - counts_from
        if place not in (0, 1):
            what = f"the answer {answer[:60]!r} is none of the candidates"
            raise_fault(Fault(self.path, row.number, what, f"1, 2, or one of {options!r}"[:200]))
        return place

    def _filled(self, row: TableRow, option: str) -> str:
        """The sentence with a candidate in its gap, or in place of its pronoun."""
        sentence = self._sentence(row, "sentence")
        gaps = [match.span() for match in _GAP.finditer(sentence)]
        pronoun = self._cell(row, "pronoun")
        if not gaps and pronoun and not _GAP.fullmatch(pronoun):
            gaps = [match.span() for match in re.finditer(rf"(?<!\w){re.escape(pronoun)}(?!\w)", sentence)]
            given = self._cell(row, "position")
            if given.isdecimal():
                gaps = [gap for gap in gaps if gap[0] == int(given[:9])] or gaps
        if len(gaps) != 1:
            what = f"{'no place' if not gaps else f'{len(gaps)} places'} for a candidate in {sentence[:60]!r}"
            raise_fault(Fault(self.path, row.number, what, "one gap (_ or [MASK]), or a column with the pronoun"))
        ((start, end),) = gaps
        written = option + "'s" * _is_possessive(sentence[start:end], sentence[end:])
        if not sentence[:start].strip():
            written = written[:1].upper() + written[1:]
        elif re.match(r"(?:The|A|An|My|His|Her|Their) ", written):
            written = written[:1].lower() + written[1:]
        return f"{sentence[:start]}{written}{sentence[end:]}"

    def _sentence(self, row: TableRow, role: str) -> str:
        cell = row.values.get(self.roles[role])
        if not isinstance(cell, str):
            raise_fault(Fault(self.path, row.number, f"no sentence in {self.roles[role]!r}", "text"))
        return str(cell).strip()

    def _cell(self, row: TableRow, role: str) -> str:
        cell = row.values.get(self.roles[role]) if role in self.roles else None
        return "" if cell is None or (isinstance(cell, float) and cell != cell) else str(cell).strip()

    def _place(self, row: TableRow, good: str, bad: str) -> PairPlace:
        return PairPlace(self._pair(row)._replace(good=good, bad=bad), self.path, row.number)

    def _pair(self, row: TableRow) -> MinimalPair:
        """What a row says of its pair, without the sentences."""
        stem, paradigm, term = self.path.stem, self._cell(row, "paradigm"), self._cell(row, "term")
        # Without paradigms, a file of many is one; a file that is alone has those that its terms tell apart.
        paradigm = paradigm or (self.alone and term) or stem
        if paradigm == ALL:
            what = f"a paradigm called {ALL!r}"
            raise_fault(Fault(self.path, row.number, what, "another name: it is the mean over paradigms"))
        # Several files may hold pairs of one paradigm, and then their lines have the same numbers.
        numbered = str(row.number) if paradigm == stem else f"{stem}:{row.number}"
        field = self._cell(row, "field") or UNNAMED
        return MinimalPair(self._cell(row, "id") or numbered, field, term or UNNAMED, paradigm, "", "")


def empty_sentence(pair: MinimalPair) -> str:
    """Which sentence is missing, in words."""
    missing = [called for called in ("good", "bad") if not getattr(pair, called)]
    return f"the {missing[0]} sentence is empty" if missing else ""


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
    `ROLE=COLUMN,...`, where the layout is none of those that are known (see `lamina.corpora.suites.minimal_pairs`).

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
