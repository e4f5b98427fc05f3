"""SyntaxGym's suites: sentences in regions under several conditions, and formulas about the regions' surprisals.

One JSON file per suite, with `meta` (name and metric), `predictions` (formulas, see `formulas`) and `items`; an item
has conditions, a condition regions. The regions of a condition are joined as SyntaxGym joins them: empty ones are
dropped, and all others are separated by one space, before punctuation too.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple, cast, get_args

from lamina.corpora.corpus import fingerprint_of
from lamina.corpora.suites.files import suite_root
from lamina.corpora.suites.formulas import Formula, FormulaError, chance, contradicts, parse, regions_in
from lamina.errors import CorpusError, FormatError, InputError
from lamina.files.checking import sha256_of
from lamina.files.reading import parse_json, read_regular

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
        taken: Counter[str] = Counter()
        kept = []
        for item in self.items:
            taken[item.paradigm] += 1
            if taken[item.paradigm] <= limit:
                kept.append(item)
        return self._with(kept, f"items beyond the first {limit:,} of a suite", "take", limit)

    def only(self, names: Sequence[str]) -> RegionSuites:
        """Some suites, or all of some circuits."""
        known = sorted({each for item in self.items for each in (item.paradigm, item.term, item.field)})
        for name in names:
            if name not in known:
                raise InputError(f"{self.name} has no suite or circuit {name!r}; it has {', '.join(known)}")
        kept = [item for item in self.items if {*names} & {item.paradigm, item.term, item.field}]
        return self._with(kept, "items of suites that were not asked for", "only", sorted({*names}))

    def _with(self, kept: Sequence[RegionItem], why: str, *how: Any) -> RegionSuites:
        if len(kept) == len(self.items):
            return self
        left_out = {**self.left_out, why: len(self.items) - len(kept)}
        return replace(self, items=tuple(kept), fingerprint=fingerprint_of(self.fingerprint, *how), left_out=left_out)


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
    # Looked for as text: a suite with a fault in its JSON should be told so, not taken for something else.
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
    found = _json_files(root) if root.is_dir() else [root]
    paths = [path for path in found if looks_like_regions(path)]
    if not paths:
        raise CorpusError(f"{root} holds no suite of regions; expected JSON with meta, predictions and items")
    items: list[RegionItem] = []
    left_out = Counter({"JSON files without a suite": len(found) - len(paths)})
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
    found = (path for path in root.rglob("*.json") if path.is_file())
    return sorted(path for path in found if not any(part.startswith(".") for part in path.relative_to(root).parts))


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
            made = parse_json(read_regular(path).decode("utf-8-sig"))
        except json.JSONDecodeError as error:
            raise FormatError(f"{path}:{error.lineno}: not JSON ({error.msg} at column {error.colno})") from None
        except ValueError as error:
            raise FormatError(f"{path}: not JSON ({error})") from None
        meta = _entry(made, "meta", dict, f"{path}: the suite", {})
        name = meta.get("name") or path.stem
        where = f"{path}: suite {name}"
        metric = meta.get("metric", "sum")
        if metric not in get_args(Metric):
            raise FormatError(f"{where}: unknown metric {metric!r}; use one of {', '.join(get_args(Metric))}")
        declared = _entry(made, "region_meta", dict, where, None)
        regions = None if declared is None else tuple(sorted(_number(each, where) for each in declared))
        formulas = _formulas(_entry(made, "predictions", list, where), where)
        kept: list[Formula] = []
        for formula in formulas:
            if not contradicts(formula, kept):
                kept.append(formula)
        items = _entry(made, "items", list, where)
        if not items:
            raise FormatError(f"{where}: it has no items")
        tags = [tag for tag in _entry(meta, "tags", list, where, []) if isinstance(tag, str) and tag]
        term = circuit_of(str(name))
        term = tags[0] if term == OTHER and tags else term
        return cls(path, str(name), term, cast(Metric, metric), tuple(kept), len(formulas) - len(kept), regions, items)

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
        for each in given:
            condition = _entry(each, "condition_name", str, where).strip()
            if condition in sentences:
                raise FormatError(f"{where}: two conditions are called {condition!r}; name every condition once")
            at = f"{where}, condition {condition}"
            regions: dict[int, str] = {}
            for region in _entry(each, "regions", list, at):
                number = _number(_entry(region, "region_number", (int, str), at), at)
                if number in regions:
                    raise FormatError(f"{at}: two regions have the number {number}; number every region once")
                if self.regions is not None and number not in self.regions:
                    raise FormatError(f"{at}: region {number} is not in region_meta ({_list(self.regions)})")
                regions[number] = " ".join(_entry(region, "content", str, f"{at}, region {number}").split())
            if not any(regions.values()):
                raise FormatError(f"{at}: every region is empty; expected a sentence")
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
    found = []
    for order, each in enumerate(given, start=1):
        at = f"{where}: formula {order}"
        written = each if isinstance(each, str) else _entry(each, "formula", str, at)
        if isinstance(each, dict) and each.get("type", "formula") != "formula":
            raise FormatError(f"{at}: unknown type {each['type']!r}; expected 'formula'")
        try:
            found.append(parse(written))
        except FormulaError as error:
            raise FormatError(f"{at}, {error}; the formula is {written!r:.300}") from None
    return found


_REQUIRED = object()
_CALLED: Mapping[Any, str] = {dict: "an object", list: "a list", str: "text", (int, str): "a number"}


def _entry(made: Any, key: str, kind: Any, where: str, default: Any = _REQUIRED) -> Any:
    """An entry of a JSON object, checked."""
    if not isinstance(made, dict):
        raise FormatError(f"{where}: found {made!r:.40}; expected an object with {key!r}")
    if key not in made:
        if default is _REQUIRED:
            raise FormatError(f"{where}: {key!r} is missing")
        return default
    if not isinstance(made[key], kind) or isinstance(made[key], bool):
        raise FormatError(f"{where}: {key!r} is {made[key]!r:.40}; expected {_CALLED[kind]}")
    return made[key]


def _number(given: Any, where: str) -> int:
    if re.fullmatch(r"[0-9]{1,9}", str(given)):
        return int(given)
    raise FormatError(f"{where}: region number {given!r:.40}; expected a whole number such as 1")


def _list(numbers: Any) -> str:
    return ", ".join(map(str, numbers))
