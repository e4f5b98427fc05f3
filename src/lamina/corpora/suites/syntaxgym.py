"""SyntaxGym's suites: sentences in regions under several conditions, and formulas about the regions' surprisals."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, lru_cache
from itertools import permutations
from pathlib import Path
from typing import Any, Literal, NamedTuple, cast, get_args

import numpy as np

from lamina.corpora.corpus import fingerprint_of, first_of_each, sample_of_each
from lamina.corpora.suites.files import suite_root
from lamina.errors import CorpusError, FormatError, InputError
from lamina.files.checking import sha256_of
from lamina.files.reading import parse_json, read_regular

Key = tuple[str, int | None]
"""Condition and region; the region None is the whole sentence."""
Values = Mapping[Key, float]
"""The surprisals of one item, in bits."""

_CLOSE, _RELATIVE = 1e-3, 1e-5
"""SyntaxGym's tolerance of `=`, in bits and as a share of the right side."""
TIE = 1e-4
"""Bits within which two amounts are tied: rounding in batches of different shapes gives as much."""
_DRAWS = 2**15
"""Random ways to break ties, each of them used with both signs."""
_MOST_ORDERED = 7
"""Regions whose orders are all looked at, 5,040 of them; for more, orders are drawn."""

Sign = Literal["+", "-"]
Relation = Literal["<", ">", "="]
Connective = Literal["&", "|"]


class FormulaRegion(NamedTuple):
    """The surprisal of a region in a condition."""

    number: int | None
    """None for the whole sentence."""
    condition: str

    @property
    def key(self) -> Key:
        """Where its value is looked up."""
        return self.condition, self.number

    def __str__(self) -> str:
        return f"({'*' if self.number is None else self.number};%{self.condition}%)"


class Constant(NamedTuple):
    """A number of bits."""

    bits: float

    def __str__(self) -> str:
        return f"{self.bits:g}" if float(f"{self.bits:g}") == self.bits else repr(self.bits)


class Arithmetic(NamedTuple):
    """A sum or a difference."""

    left: Amount
    sign: Sign
    right: Amount

    def __str__(self) -> str:
        return f"[{self.left} {self.sign} {self.right}]"


class RegionComparison(NamedTuple):
    """One amount is less than, more than or equal to another."""

    left: Amount
    relation: Relation
    right: Amount

    def __str__(self) -> str:
        return f"[{self.left} {self.relation} {self.right}]"


class JoinedStatement(NamedTuple):
    """Both hold, or at least one."""

    left: Statement
    connective: Connective
    right: Statement

    def __str__(self) -> str:
        return f"[{self.left} {self.connective} {self.right}]"


Amount = FormulaRegion | Constant | Arithmetic
Statement = RegionComparison | JoinedStatement
Formula = Statement
"""What a suite predicts is a statement."""


def regions_in(formula: Formula | Amount) -> Iterator[FormulaRegion]:
    """The regions that a formula names, from the left, each as often as it is named.

    Example:
        >>> from lamina.corpora.suites.syntaxgym import parse
        >>> [str(region) for region in regions_in(parse("(1;%a%) + (2;%a%) < (*;%b%)"))]
        ['(1;%a%)', '(2;%a%)', '(*;%b%)']
    """
    if isinstance(formula, FormulaRegion):
        yield formula
    elif not isinstance(formula, Constant):
        yield from regions_in(formula.left)
        yield from regions_in(formula.right)


def comparisons_in(formula: Formula) -> Iterator[RegionComparison]:
    """The comparisons that a formula joins."""
    if isinstance(formula, RegionComparison):
        yield formula
    else:
        yield from comparisons_in(formula.left)
        yield from comparisons_in(formula.right)


def named_regions(formulas: Sequence[Formula]) -> list[Key]:
    """Condition and number of each region that is named, once, from the left."""
    return list(dict.fromkeys(region.key for formula in formulas for region in regions_in(formula)))


def degree(formulas: Sequence[Formula], values: Values) -> float:
    """1 if all formulas hold for these surprisals, 0 if not; with ties, the share of ways to break them that do.

    Values of whole sentences are looked up like those of regions.

    Example:
        >>> from lamina.corpora.suites.syntaxgym import parse
        >>> formulas = [parse("(1;%good%) < (1;%bad%)")]
        >>> degree(formulas, {("good", 1): 2.0, ("bad", 1): 3.5}), degree(formulas, {("good", 1): 2, ("bad", 1): 2})
        (1.0, 0.5)
    """
    broken = _tie_breaks(tuple(named_regions(formulas))) if has_tie(formulas, values) else {}
    holds = np.asarray(True)
    for formula in formulas:
        holds = holds & _holds(formula, values, broken)
    return float(np.mean(holds))


def margin(formulas: Sequence[Formula], values: Values) -> float:
    """Bits by which the tightest of several formulas holds; negative if one does not.

    Example:
        >>> from lamina.corpora.suites.syntaxgym import parse
        >>> formulas = [parse("(1;%good%) < (1;%bad%)"), parse("(2;%good%) < (2;%bad%)")]
        >>> margin(formulas, {("good", 1): 2.0, ("bad", 1): 3.5, ("good", 2): 4.0, ("bad", 2): 1.0})
        -3.0
    """
    return min(_margin(formula, values) for formula in formulas)


def has_tie(formulas: Sequence[Formula], values: Values) -> bool:
    """Whether a comparison by < or > has two sides that are tied."""
    return any(
        comparison.relation != "=" and abs(_amount(comparison.left, values) - _amount(comparison.right, values)) <= TIE
        for formula in formulas
        for comparison in comparisons_in(formula)
    )


@cache
def chance(formulas: tuple[Formula, ...], regions: tuple[int, ...]) -> float:
    """How often all formulas hold by chance: for surprisals that are drawn independently from one distribution.

    Where every comparison is between two regions only their order counts, so that the share of orders is exact for any
    distribution. Otherwise surprisals are drawn from a normal distribution. NaN where chance depends on the spread of
    surprisals: with `=`, or with a constant other than 0. `regions` are those of a sentence, for `*`.

    Example:
        >>> from lamina.corpora.suites.syntaxgym import parse
        >>> both = parse("[(1;%a%) < (1;%b%)] & [(1;%a%) < (1;%c%)]")
        >>> round(chance((both,), (1,)), 4), chance((parse("(*;%a%) - (*;%b%) > 0"),), (1, 2))
        (0.3333, 0.5)
    """
    if not all(_is_free_of_scale(comparison) for formula in formulas for comparison in comparisons_in(formula)):
        return float("nan")
    named = named_regions(formulas)
    if len(named) <= _MOST_ORDERED and all(map(_orders_regions, formulas)):
        orders = np.array(list(permutations(range(len(named)))), float).T
        drawn: Mapping[Key, np.ndarray] = dict(zip(named, orders, strict=True))
    else:
        drawn = _surprisals_by_chance(named, regions)
    equal = dict.fromkeys(drawn, 0.0)
    return float(np.mean(np.all([_holds(formula, equal, drawn) for formula in formulas], axis=0)))


def contradicts(formula: Formula, earlier: Sequence[Formula]) -> bool:
    """Whether a formula asks for two amounts to be equal that an earlier one asks to differ, or the other way round.

    Example:
        >>> from lamina.corpora.suites.syntaxgym import parse
        >>> more, same = parse("(1;%a%) > (1;%b%)"), parse("(1;%b%) = (1;%a%)")
        >>> contradicts(same, [more]), contradicts(more, [more])
        (True, False)
    """
    demanded = {kind for prior in earlier for kind in _demands(prior)}
    return any((form, not equal) in demanded for form, equal in _demands(formula))


def _margin(formula: Formula, values: Values) -> float:
    if isinstance(formula, JoinedStatement):
        return (min if formula.connective == "&" else max)(
            _margin(formula.left, values), _margin(formula.right, values)
        )
    left, right = (float(_amount(side, values)) for side in (formula.left, formula.right))
    if formula.relation == "=":
        return _CLOSE + _RELATIVE * abs(right) - abs(left - right)
    return left - right if formula.relation == ">" else right - left


def _demands(formula: Formula) -> Iterator[tuple[frozenset[tuple[str, float]], bool]]:
    """What holds wherever the formula holds: the difference of two sides, up to its sign, and whether it is none."""
    if isinstance(formula, JoinedStatement):
        if formula.connective == "&":
            yield from _demands(formula.left)
            yield from _demands(formula.right)
        return
    weights: dict[str, float] = {}
    _weigh(formula.left, 1.0, weights)
    _weigh(formula.right, -1.0, weights)
    terms = sorted((name, weight) for name, weight in weights.items() if weight)
    turn = -1.0 if terms and terms[0][1] < 0 else 1.0
    yield frozenset((name, turn * weight) for name, weight in terms), formula.relation == "="


def _weigh(amount: Amount, weight: float, weights: dict[str, float]) -> None:
    if isinstance(amount, Arithmetic):
        _weigh(amount.left, weight, weights)
        _weigh(amount.right, weight if amount.sign == "+" else -weight, weights)
    elif isinstance(amount, Constant):
        weights[""] = weights.get("", 0.0) + weight * amount.bits
    else:
        weights[str(amount)] = weights.get(str(amount), 0.0) + weight


def _orders_regions(formula: Formula) -> bool:
    """Whether each comparison is between two single regions."""
    sides = (side for comparison in comparisons_in(formula) for side in (comparison.left, comparison.right))
    return all(isinstance(side, FormulaRegion) and side.number is not None for side in sides)


def _surprisals_by_chance(named: Sequence[Key], regions: Sequence[int]) -> dict[Key, np.ndarray]:
    """Independent draws; that of a whole sentence is the sum of those of its regions."""
    whole = [condition for condition, region in named if region is None]
    single = [key for key in named if key[1] is not None]
    keys = dict.fromkeys([*single, *((condition, region) for condition in whole for region in regions)])
    drawn = dict(_tie_breaks(tuple(keys)))
    for condition in whole:
        drawn[condition, None] = np.sum([drawn[condition, region] for region in regions], axis=0)
    return drawn


def _is_free_of_scale(comparison: RegionComparison) -> bool:
    return comparison.relation != "=" and not any(_constants(side) for side in (comparison.left, comparison.right))


def _constants(amount: Amount) -> bool:
    """Whether it holds a number other than 0."""
    if isinstance(amount, Arithmetic):
        return _constants(amount.left) or _constants(amount.right)
    return isinstance(amount, Constant) and amount.bits != 0


@lru_cache(maxsize=4)
def _tie_breaks(keys: tuple[Key, ...]) -> Mapping[Key, np.ndarray]:
    """Normal draws for each surprisal, each with both signs, so that a single tie is broken evenly."""
    drawn = np.random.Generator(np.random.Philox(key=0)).standard_normal((len(keys), _DRAWS))
    return dict(zip(keys, np.concatenate([drawn, -drawn], axis=1), strict=True))


def _holds(formula: Formula, values: Values, broken: Mapping[Key, np.ndarray]) -> np.ndarray:
    """One truth value; or one per way to break ties, where one has to be broken."""
    if isinstance(formula, JoinedStatement):
        left, right = (_holds(side, values, broken) for side in (formula.left, formula.right))
        return left & right if formula.connective == "&" else left | right
    left, right = (float(_amount(side, values)) for side in (formula.left, formula.right))
    if formula.relation == "=":
        return np.asarray(abs(left - right) <= _CLOSE + _RELATIVE * abs(right))
    more = np.asarray(left - right)
    if abs(left - right) <= TIE:
        more = np.asarray(_amount(formula.left, broken)) - np.asarray(_amount(formula.right, broken))
    return more > 0 if formula.relation == ">" else more < 0


def _amount(amount: Amount, values: Mapping[Key, float] | Mapping[Key, np.ndarray]) -> float | np.ndarray:
    if isinstance(amount, FormulaRegion):
        return values[amount.key]
    if isinstance(amount, Constant):
        return amount.bits
    left, right = _amount(amount.left, values), _amount(amount.right, values)
    return left + right if amount.sign == "+" else left - right


# The parser of formulas.

_DEEPEST, _MOST_OPERATORS = 50, 200
_REGION = re.compile(r"\(\s*([0-9]{1,9}|\*)\s*;\s*%([^%]+)%\s*\)")
_REGION_START = re.compile(r"\(\s*(?:[0-9]+|\*)\s*;")
_NUMBER = re.compile(r"[+-]?(?:[0-9]{1,15}(?:\.[0-9]{0,15})?|\.[0-9]{1,15})(?:[eE][+-]?[0-9]{1,2})?")
_CLOSING = {"[": "]", "(": ")"}
_AMOUNT = "a region such as (2;%match%), a number or an opening bracket"


class FormulaError(InputError):
    """A formula that cannot be read: the character, counted from 1, and what was expected there."""


def parse(formula: str) -> Formula:
    """Read a formula.

    Example:
        >>> print(parse("(2;%mismatch%) - (2;%match%) > 0"))
        [[(2;%mismatch%) - (2;%match%)] > 0]
        >>> parse("[(2;%mismatch%) > ]")
        Traceback (most recent call last):
        lamina.corpora.suites.syntaxgym.FormulaError: at character 19: expected a region such as ..., found ']'
    """
    return _Parser(formula).formula()


class _Parser:
    """Recursive descent; amounts and statements are separate types, so that `1 & 2` is refused."""

    def __init__(self, text: str) -> None:
        self._text, self._position = text, 0
        self._depth = self._operators = 0

    def formula(self) -> Formula:
        parsed = self._logic()
        self._space()
        if self._position < len(self._text):
            raise self._error("an operator (+ - < > = & |) or the end")
        if not isinstance(parsed, Statement):
            raise FormulaError(
                f"at character {len(self._text.rstrip()) + 1}: expected a comparison (< > =), found none"
            )
        return parsed

    def _logic(self) -> Amount | Statement:
        start = self._next()
        left = self._comparison()
        while sign := self._operator(Connective):
            position = self._next()
            right = self._comparison()
            left = JoinedStatement(
                self._statement(left, start), cast(Connective, sign), self._statement(right, position)
            )
        return left

    def _comparison(self) -> Amount | Statement:
        start = self._next()
        left = self._sum()
        if sign := self._operator(Relation):
            position = self._next()
            right = self._sum()
            left = RegionComparison(self._quantity(left, start), cast(Relation, sign), self._quantity(right, position))
            if self._peek() in get_args(Relation):
                raise self._error("&, | or the end, since a comparison has two sides")
        return left

    def _sum(self) -> Amount | Statement:
        start = self._next()
        left = self._atom()
        while sign := self._operator(Sign):
            position = self._next()
            right = self._atom()
            left = Arithmetic(self._quantity(left, start), cast(Sign, sign), self._quantity(right, position))
        return left

    def _atom(self) -> Amount | Statement:
        self._space()
        if region := _REGION.match(self._text, self._position):
            self._position = region.end()
            return FormulaRegion(None if region[1] == "*" else int(region[1]), region[2].strip())
        if start := _REGION_START.match(self._text, self._position):
            self._position = start.end()
            raise self._error("the condition as %name% and a closing )")
        if number := _NUMBER.match(self._text, self._position):
            self._position = number.end()
            return Constant(float(number[0]))
        if (opened := self._peek()) in _CLOSING:
            return self._group(opened)
        raise self._error(_AMOUNT)

    def _group(self, opened: str) -> Amount | Statement:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise self._error(f"brackets nested at most {_DEEPEST} levels deep")
        self._position += 1
        inner = self._logic()
        if self._peek() != _CLOSING[opened]:
            raise self._error(f"an operator (+ - < > = & |) or the closing {_CLOSING[opened]}")
        self._position += 1
        self._depth -= 1
        return inner

    def _operator(self, kind: object) -> str:
        """The next character if it is such an operator, otherwise empty."""
        operator = self._peek()
        if operator not in get_args(kind):
            return ""
        self._operators += 1
        if self._operators > _MOST_OPERATORS:
            raise self._error(f"at most {_MOST_OPERATORS} operators")
        self._position += 1
        return operator

    def _statement(self, parsed: Amount | Statement, position: int) -> Statement:
        if isinstance(parsed, Statement):
            return parsed
        raise FormulaError(
            f"at character {position + 1}: expected a comparison such as (2;%bad%) > (2;%good%), found {parsed}"
        )

    def _quantity(self, parsed: Amount | Statement, position: int) -> Amount:
        if isinstance(parsed, Amount):
            return parsed
        raise FormulaError(
            f"at character {position + 1}: expected an amount of surprisal, found the comparison {parsed}"
        )

    def _space(self) -> None:
        while self._position < len(self._text) and self._text[self._position].isspace():
            self._position += 1

    def _next(self) -> int:
        self._space()
        return self._position

    def _peek(self) -> str:
        self._space()
        return self._text[self._position : self._position + 1]

    def _error(self, expected: str) -> FormulaError:
        self._space()
        rest = repr(self._text[self._position : self._position + 20]) if self._position < len(self._text) else "the end"
        return FormulaError(f"at character {self._position + 1}: expected {expected}, found {rest}")


Metric = Literal["sum", "mean", "median", "range", "max", "min"]
"""What a region's surprisal is of those of its pieces."""
FIELD = "syntaxgym"
OTHER = "other"
"""The circuit of suites that Hu et al. (2020) do not name and that have no tag of their own."""
_CIRCUITS = {
    "npi": "licensing",
    "reflexive": "licensing",
    "fgd": "long_distance_dependencies",
    "cleft": "long_distance_dependencies",
    "number": "agreement",
    "npz": "garden_path_effects",
    "mvrr": "garden_path_effects",
    "subordination": "gross_syntactic_state",
    "center": "center_embedding",
}
"""First word of a suite's name -> its circuit in Hu et al. (2020)."""
_CONTRADICTING = "predictions that contradict an earlier one of their suite"


class RegionItem(NamedTuple):
    """One item of a suite: the same sentence under several conditions, and what is predicted of it."""

    id: str
    """Its number in the suite."""
    field: str
    term: str
    """The suite's circuit: agreement, licensing, garden_path_effects ..."""
    paradigm: str
    """The suite's name."""
    sentences: Mapping[str, Mapping[int, str]]
    """Condition -> region -> what is written there, in order; empty regions included."""
    predictions: tuple[Formula, ...]
    """The item is right if all of them hold."""
    metric: Metric
    chance: float
    """How often all predictions hold for surprisals drawn at random; NaN where that is not defined."""

    @property
    def item(self) -> str:
        """Equal for the same item whatever the model."""
        return f"{self.paradigm}/{self.id}"

    def parts(self, condition: str) -> list[str]:
        """The regions of a condition as they are written one after the other, with the spaces between them.

        Example:
            >>> regions = {1: "The dog", 2: "", 3: "barks", 4: "."}
            >>> RegionItem("1", FIELD, OTHER, "own", {"good": regions}, (), "sum", 0.5).parts("good")
            ['The dog', '', ' barks', ' .']
        """
        parts: list[str] = []
        for content in self.sentences[condition].values():
            parts.append(f" {content}" if content and any(parts) else content)
        return parts

    def text(self, condition: str) -> str:
        """The sentence of a condition."""
        return "".join(self.parts(condition))


@dataclass(frozen=True)
class RegionSuites:
    """The items of one or more suites, in the order of their files."""

    name: str
    fingerprint: str
    items: tuple[RegionItem, ...] = field(repr=False)
    files: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)
    """File name -> sha256."""
    left_out: Mapping[str, int] = field(default_factory=dict, repr=False, compare=False)
    """Why something is not asked -> how many times."""

    def __len__(self) -> int:
        return len(self.items)

    def __iter__(self) -> Iterator[RegionItem]:
        return iter(self.items)

    @cached_property
    def paradigms(self) -> tuple[str, ...]:
        """The suites, in the order of the items."""
        return tuple(dict.fromkeys(item.paradigm for item in self.items))

    def describe(self) -> dict[str, Any]:
        """What provenance says of them."""
        about = {"name": self.name, "fingerprint": self.fingerprint, "split": "", "files": dict(self.files)}
        return about | {"items": len(self), "paradigms": len(self.paradigms)}

    def take(self, limit: int) -> RegionSuites:
        """The first items of every suite; the others are counted in `left_out`."""
        first = [self.items[number] for number in first_of_each(self.items, limit, lambda item: item.paradigm)]
        return self._with(first, f"items beyond the first {limit:,} of a suite", "take", limit)

    def sample(self, limit: int, seed: int = 0) -> RegionSuites:
        """At most `limit` items of every suite, drawn at random; the others are counted in `left_out`."""
        numbers = sample_of_each(self.items, limit, lambda item: item.paradigm, lambda item: item.item, seed)
        drawn = [self.items[number] for number in numbers]
        return self._with(drawn, f"items not drawn: {limit:,} of a suite were", "sample", limit, seed)

    def only(self, names: Sequence[str]) -> RegionSuites:
        """Some suites, or all of some circuits."""
        known = sorted({group for item in self.items for group in (item.paradigm, item.term, item.field)})
        for name in names:
            if name not in known:
                raise InputError(f"{self.name} has no suite or circuit {name!r}; it has {', '.join(known)}")
        selected = [item for item in self.items if {*names} & {item.paradigm, item.term, item.field}]
        return self._with(selected, "items of suites that were not asked for", "only", sorted({*names}))

    def _with(self, selected: Sequence[RegionItem], why: str, *how: Any) -> RegionSuites:
        if len(selected) == len(self.items):
            return self
        left_out = {**self.left_out, why: len(self.items) - len(selected)}
        return replace(
            self, items=tuple(selected), fingerprint=fingerprint_of(self.fingerprint, *how), left_out=left_out
        )


def circuit_of(suite: str) -> str:
    """The circuit to which Hu et al. (2020) count a suite, by its name.

    Example:
        >>> circuit_of("fgd-embed3"), circuit_of("npz_ambig_mod"), circuit_of("own")
        ('long_distance_dependencies', 'garden_path_effects', 'other')
    """
    return _CIRCUITS.get(re.split(r"[-_0-9]", suite)[0].lower(), OTHER)


def looks_like_regions(path: Path) -> bool:
    """Whether a file, or any file of a folder, is a suite of regions."""
    if path.is_dir():
        return any(map(looks_like_regions, _json_files(path)))
    if not path.is_file() or path.suffix.lower() not in (".json", ""):
        return False
    content = read_regular(path).decode("utf-8", errors="replace")
    if not content.lstrip("\ufeff \t\r\n").startswith("{"):
        return False
    # Searched as text, so that a suite with a fault in its JSON is reported as one, not taken for something else.
    return '"region_number"' in content or ('"predictions"' in content and '"items"' in content)


def read_region_suites(name_or_path: str | Path) -> RegionSuites:
    """The suites of the asset `syntaxgym`, of a JSON file, or of all JSON files in a folder.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "own.json"
        >>> region = lambda text: {"region_number": 1, "content": text}
        >>> conditions = [{"condition_name": n, "regions": [region(n)]} for n in ("good", "bad")]
        >>> suite = {"meta": {"name": "own", "metric": "sum"}, "items": [{"item_number": 1, "conditions": conditions}]}
        >>> suite |= {"predictions": [{"type": "formula", "formula": "(1;%good%) < (1;%bad%)"}]}
        >>> _ = path.write_text(json.dumps(suite))
        >>> [(item.item, item.chance) for item in read_region_suites(path)]
        [('own/1', 0.5)]
    """
    root = suite_root(name_or_path)
    files = _json_files(root) if root.is_dir() else [root]
    paths = [path for path in files if looks_like_regions(path)]
    if not paths:
        raise CorpusError(f"{root} holds no suite of regions; expected JSON with meta, predictions and items")
    items: list[RegionItem] = []
    left_out = Counter({"JSON files without a suite": len(files) - len(paths)})
    named: dict[str, Path] = {}
    for path in paths:
        suite = _SuiteFile.read(path)
        if named.setdefault(suite.name, path) != path:
            raise FormatError(f"{path}: suite {suite.name}: {named[suite.name].name} has that name too; rename one")
        left_out[_CONTRADICTING] += suite.contradicting
        items += suite.items()
    hashes = {path.relative_to(root).as_posix() if root.is_dir() else path.name: sha256_of(path) for path in paths}
    fingerprint = fingerprint_of("regions 1", hashes)
    return RegionSuites(str(name_or_path), fingerprint, tuple(items), hashes, {k: n for k, n in left_out.items() if n})


def _json_files(root: Path) -> list[Path]:
    files = (path for path in root.rglob("*.json") if path.is_file())
    return sorted(path for path in files if not any(part.startswith(".") for part in path.relative_to(root).parts))


class _SuiteFile(NamedTuple):
    """A suite's file, checked from the outside in; every error says where it is."""

    path: Path
    name: str
    term: str
    metric: Metric
    predictions: tuple[Formula, ...]
    contradicting: int
    """Predictions left out, since no surprisals can meet them and those before."""
    regions: tuple[int, ...] | None
    """The numbers that `region_meta` declares; None without one."""
    given: list[Any]

    @classmethod
    def read(cls, path: Path) -> _SuiteFile:
        try:
            content = parse_json(read_regular(path).decode("utf-8-sig"))
        except json.JSONDecodeError as error:
            raise FormatError(f"{path}:{error.lineno}: not JSON ({error.msg} at column {error.colno})") from None
        except ValueError as error:
            raise FormatError(f"{path}: not JSON ({error})") from None
        meta = _entry(content, "meta", dict, f"{path}: the suite", {})
        name = meta.get("name") or path.stem
        where = f"{path}: suite {name}"
        metric = meta.get("metric", "sum")
        if metric not in get_args(Metric):
            raise FormatError(f"{where}: unknown metric {metric!r}; use one of {', '.join(get_args(Metric))}")
        declared = _entry(content, "region_meta", dict, where, None)
        regions = None if declared is None else tuple(sorted(_number(region, where) for region in declared))
        formulas = _formulas(_entry(content, "predictions", list, where), where)
        consistent: list[Formula] = []
        for formula in formulas:
            if not contradicts(formula, consistent):
                consistent.append(formula)
        items = _entry(content, "items", list, where)
        if not items:
            raise FormatError(f"{where}: it has no items")
        tags = [tag for tag in _entry(meta, "tags", list, where, []) if isinstance(tag, str) and tag]
        term = circuit_of(str(name))
        term = tags[0] if term == OTHER and tags else term
        return cls(
            path,
            str(name),
            term,
            cast(Metric, metric),
            tuple(consistent),
            len(formulas) - len(consistent),
            regions,
            items,
        )

    def items(self) -> Iterator[RegionItem]:
        """The items, checked against the predictions."""
        seen: set[str] = set()
        for place, given in enumerate(self.given, start=1):
            where = f"{self.path}: suite {self.name}, item {place}"
            number = str(_entry(given, "item_number", (int, str), where, place)).strip()
            where = f"{self.path}: suite {self.name}, item {number}"
            if number in seen:
                raise FormatError(f"{where}: a second item has this number; number every item once")
            seen.add(number)
            sentences = self._sentences(_entry(given, "conditions", list, where), where)
            self._check(sentences, where)
            regions = tuple(next(iter(sentences.values())))
            by_chance = chance(self.predictions, regions)
            yield RegionItem(number, FIELD, self.term, self.name, sentences, self.predictions, self.metric, by_chance)

    def _sentences(self, given: list[Any], where: str) -> dict[str, dict[int, str]]:
        sentences: dict[str, dict[int, str]] = {}
        for entry in given:
            condition = _entry(entry, "condition_name", str, where).strip()
            if condition in sentences:
                raise FormatError(f"{where}: two conditions are called {condition!r}; name every condition once")
            inside = f"{where}, condition {condition}"
            regions: dict[int, str] = {}
            for region in _entry(entry, "regions", list, inside):
                number = _number(_entry(region, "region_number", (int, str), inside), inside)
                if number in regions:
                    raise FormatError(f"{inside}: two regions have the number {number}; number every region once")
                if self.regions is not None and number not in self.regions:
                    raise FormatError(f"{inside}: region {number} is not in region_meta ({_list(self.regions)})")
                regions[number] = " ".join(_entry(region, "content", str, f"{inside}, region {number}").split())
            if not any(regions.values()):
                raise FormatError(f"{inside}: every region is empty; expected a sentence")
            sentences[condition] = regions
        if not sentences:
            raise FormatError(f"{where}: it has no conditions")
        return sentences

    def _check(self, sentences: Mapping[str, Mapping[int, str]], where: str) -> None:
        """Refuse formulas about conditions and regions that the item does not have."""
        for order, formula in enumerate(self.predictions, start=1):
            for region in regions_in(formula):
                if region.condition not in sentences:
                    raise FormatError(
                        f"{where}: formula {order} names condition {region.condition!r}, which the item lacks; it has "
                        f"{', '.join(sentences)}"
                    )
                there = sentences[region.condition]
                if region.number is not None and region.number not in there:
                    raise FormatError(
                        f"{where}, condition {region.condition}: formula {order} names region {region.number}, which "
                        f"the condition lacks; it has {_list(there)}"
                    )


def _formulas(given: list[Any], where: str) -> list[Formula]:
    if not given:
        raise FormatError(f"{where}: it has no predictions, so nothing can be right or wrong")
    formulas = []
    for order, entry in enumerate(given, start=1):
        inside = f"{where}: formula {order}"
        written = entry if isinstance(entry, str) else _entry(entry, "formula", str, inside)
        if isinstance(entry, dict) and entry.get("type", "formula") != "formula":
            raise FormatError(f"{inside}: unknown type {entry['type']!r}; expected 'formula'")
        try:
            formulas.append(parse(written))
        except FormulaError as error:
            raise FormatError(f"{inside}, {error}; the formula is {written!r:.300}") from None
    return formulas


_REQUIRED = object()
_CALLED: Mapping[Any, str] = {dict: "an object", list: "a list", str: "text", (int, str): "a number"}


def _entry(parent: Any, key: str, kind: Any, where: str, default: Any = _REQUIRED) -> Any:
    """An entry of a JSON object, checked."""
    if not isinstance(parent, dict):
        raise FormatError(f"{where}: found {parent!r:.40}; expected an object with {key!r}")
    if key not in parent:
        if default is _REQUIRED:
            raise FormatError(f"{where}: {key!r} is missing")
        return default
    if not isinstance(parent[key], kind) or isinstance(parent[key], bool):
        raise FormatError(f"{where}: {key!r} is {parent[key]!r:.40}; expected {_CALLED[kind]}")
    return parent[key]


def _number(given: Any, where: str) -> int:
    if re.fullmatch(r"[0-9]{1,9}", str(given)):
        return int(given)
    raise FormatError(f"{where}: region number {given!r:.40}; expected a whole number such as 1")


def _list(numbers: Any) -> str:
    return ", ".join(map(str, numbers))
