"""What an analysis declares, known without importing it, and the chapters in which analyses stand."""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

from lamina.errors import InputError
from lamina.framework.inputs import REQUIRED, Input
from lamina.framework.registry import get_analysis, homes, names
from lamina.framework.settings import Checker, DeclaredSetting, Setting

if TYPE_CHECKING:
    from lamina.framework.declare import Analysis
    from lamina.results import Result


Chapter = Literal["layers", "abilities", "heads", "words", "answering"]
"""Where a result is shown; titles and questions are in `chapters`."""
INDEX = Path(__file__).parents[1] / "analyses" / "index.json"
_TYPES = {"int": int, "float": float, "bool": bool, "str": str}


_HOW_READ = ("format", "include", "exclude", "skip_faulty", "annotation", "split_from")
"""Options that can make a file unreadable."""


@dataclass(frozen=True)
class Outline:
    """An analysis as its declaration describes it."""

    name: str
    title: str
    question: str
    summary: str
    """The first paragraph of its description."""
    example: str
    chapter: Chapter
    takes: float | None
    """Seconds in the default report of minilm; see `analysis`."""
    charts: str
    """The module that draws it."""
    in_report: bool
    encodes: bool
    """Whether it stores states, so that encoding can be shared out."""
    inputs: tuple[Input, ...]
    options: tuple[DeclaredSetting, ...]
    """Which part of the data, in which form."""
    settings: tuple[DeclaredSetting, ...]

    @property
    def command(self) -> str:
        """Its name on the command line.

        Example:
            >>> outline("token_map").command
            'token-map'
        """
        return self.name.replace("_", "-")

    @property
    def headline(self) -> str:
        """The first sentence of its summary, as the list of commands shows it."""
        return self.summary.partition(". ")[0].removesuffix(".") + "."

    def refuse_misspelt(self, inputs: Mapping[str, Any], settings: Mapping[str, Any]) -> None:
        """Raise an error for names of models and corpora that do not exist and for values that no setting takes.

        Loading the analysis finds the same, but imports torch first, which takes seconds.

        Example:
            >>> outline("heads").refuse_misspelt({"model": "minilmm", "data": "ewt"}, {})
            Traceback (most recent call last):
            lamina.errors.ModelError: there is no model 'minilmm'; did you mean minilm?
        """
        from lamina.assets import refuse_misspelt_model
        from lamina.corpora.loading import refuse_unknown

        for given in self.inputs:
            value = inputs.get(given.name)
            if isinstance(value, str) and given.kind == "model":
                refuse_misspelt_model(value)
            elif isinstance(value, str) and given.kind == "suite":
                # Needs numpy, which the command line starts without.
                from lamina.corpora.suites import refuse_faulty_suite
                from lamina.corpora.suites.files import refuse_unknown_suite

                refuse_unknown_suite(value, given.named)
                how = {name: settings[name] for name in ("columns", "skip_equal") if name in settings}
                refuse_faulty_suite(value, how)
            elif isinstance(value, str) and given.kind == "texts":
                refuse_unknown(value)
                self._refuse_unread(value, settings)
        if settings.get("limit") is not None and settings.get("first") is not None:
            raise InputError("--limit draws texts and --first takes the first ones; give one of the two")
        for declared in (self.settings, self.options):
            named = {setting.name: setting for setting in declared}
            Checker(self.name, named).check({name: value for name, value in settings.items() if name in named})

    def _refuse_unread(self, data: str, settings: Mapping[str, Any]) -> None:
        """See `refuse_misspelt`; an analysis that scores dev or test only learns from other texts."""
        from lamina.corpora.detection import FileSelection
        from lamina.corpora.loading import refuse_faulty, refuse_split

        split = next((option for option in self.options if option.name == "split"), None)
        wanted = "dev" if settings.get("split") == "dev+test" else settings.get("split")
        if split is None or wanted not in ("train", "dev", "test", "all"):
            return
        learns = bool(split.choices) and not {"train", "all"} & {*split.choices}
        # Of several targets, only probes learn.
        learns &= all(setting.name != "targets" for setting in self.settings)
        selection = FileSelection.of(settings.get("include"), settings.get("exclude"))
        how = settings.get("format"), settings.get("split_from")
        refuse_split(data, wanted, *how, learns=learns, selection=selection)
        # Senses ask for annotations by a setting of that name, which renames none.
        taken = {setting.name for setting in self.settings}
        how_read = {name: settings[name] for name in _HOW_READ if name in settings and name not in taken}
        refuse_faulty(data, wanted, learns=learns, **how_read)


@cache
def outline(name: str) -> Outline:
    """The outline of an analysis.

    Example:
        >>> outline("heads").chapter
        'heads'
    """
    return read_index(name) or outline_of(get_analysis(name))


def read_index(name: str) -> Outline | None:
    """The outline that the index holds; None where it holds none of the declaration as it is now.

    Example:
        >>> read_index("poetry") is None
        True
    """
    listed = _index().get(name)
    if listed is None or listed["declared"] != declared_in(homes()[name]):
        return None
    return _read(listed)


def outlines() -> dict[str, Outline]:
    """Name -> outline of every analysis, in the order of the report."""
    return {name: outline(name) for name in names()}


def outline_of(analysis: Analysis) -> Outline:
    """The outline of a declared analysis."""
    summary = inspect.cleandoc(analysis.__doc__ or "").split("\n\n")[0].replace("\n", " ")
    return Outline(
        analysis.name,
        analysis.title,
        analysis.question,
        summary,
        analysis.example,
        analysis.chapter,
        analysis.takes,
        analysis.charts,
        analysis.report is not None,
        analysis.wants("runtime"),
        analysis.reads.given,
        analysis.options,
        tuple(analysis.settings.values()),
    )


def write_index(path: Path = INDEX) -> None:
    """Write the outlines of lamina's analyses; `make index` calls it."""
    listed = {name: home for name, home in homes().items() if home.startswith("lamina.")}
    entries = {
        name: {**_entry(outline_of(get_analysis(name))), "declared": declared_in(home)} for name, home in listed.items()
    }
    path.write_text(json.dumps(entries, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


@cache
def _index() -> Mapping[str, Any]:
    return json.loads(INDEX.read_text(encoding="utf-8")) if INDEX.exists() else {}


def declared_in(home: str) -> str:
    """A hash of the source of a declaration: decorator, signature and the first paragraph of the description."""
    module = home.partition(":")[0]
    # By its path: to find it as a module would import the packages around it.
    path = Path(__file__).parents[2].joinpath(*module.split(".")).with_suffix(".py")
    if not module.startswith("lamina.") or not path.is_file():
        return ""
    source = path.read_text(encoding="utf-8")
    start = source.find("@analysis(")
    end = source.find("\n\n", source.find('"""', start))
    return sha256(source[start:end].encode()).hexdigest()[:16]


def _entry(of: Outline) -> dict[str, Any]:
    """An outline as JSON; inputs and settings without the fields that have their default."""
    return {name: getattr(of, name) for name in of.__dataclass_fields__} | {
        "inputs": [_input_entry(given) for given in of.inputs],
        "options": [_setting_entry(setting) for setting in of.options],
        "settings": [_setting_entry(setting) for setting in of.settings],
    }


def _read(entry: Mapping[str, Any]) -> Outline:
    fields = {name: entry[name] for name in Outline.__dataclass_fields__}
    fields["inputs"] = tuple(_read_input(given) for given in entry["inputs"])
    for name in ("options", "settings"):
        fields[name] = tuple(_read_setting(setting) for setting in entry[name])
    return Outline(**fields)


def _input_entry(given: Input) -> dict[str, Any]:
    fields = {name: value for name, value in asdict(given).items() if value not in (None, False, ())}
    fields.pop("default", None)
    return fields if given.default is REQUIRED else fields | {"default": given.default}


def _read_input(entry: Mapping[str, Any]) -> Input:
    return Input(**{**entry, "named": tuple(entry.get("named", ()))})


def _setting_entry(setting: DeclaredSetting) -> dict[str, Any]:
    about = setting.about
    kind = next((name for name, known in _TYPES.items() if known is setting.item), "str")
    entry: dict[str, Any] = {"name": setting.name, "type": kind, "help": about.help}
    if setting.choices:
        entry["choices"] = list(setting.choices)
    if setting.many:
        entry["many"] = True
    if type(None) in get_args(setting.type):
        entry["optional"] = True
    if not setting.required:
        entry["default"] = _plain(setting.default)
    for name in ("min", "max", "option", "metavar", "group"):
        if getattr(about, name) is not None:
            entry[name] = getattr(about, name)
    return entry


def _read_setting(entry: Mapping[str, Any]) -> DeclaredSetting:
    kind: Any = Literal[tuple(entry["choices"])] if "choices" in entry else _TYPES[entry["type"]]
    if entry.get("many"):
        kind = Sequence[kind]
    if entry.get("optional"):
        kind = kind | None
    default = entry.get("default", REQUIRED)
    details: dict[str, Any] = {name: entry.get(name) for name in ("min", "max", "option", "metavar", "group")}
    about = Setting(entry["help"], **details)
    return DeclaredSetting(entry["name"], kind, tuple(default) if isinstance(default, list) else default, about)


def _plain(value: Any) -> Any:
    """A default as JSON; one that only Python can give, as text."""
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value if isinstance(value, str | int | float | bool | None) else str(value)


class ChapterCard(NamedTuple):
    """One chapter of the report, and of the app's overview."""

    name: Chapter
    title: str
    question: str
    leads: tuple[tuple[str, str], ...]
    """Analysis and chart that the chapter opens with: the first of these that there is, else the first there is."""


CHAPTERS = (
    ChapterCard("layers", "Layers", "What happens to word vectors from layer to layer?", (("geometry", "measure"),)),
    ChapterCard(
        "abilities",
        "Abilities",
        "Which linguistic questions can be answered, and at which layers?",
        (("probe", "pipeline"), ("probe", "heatmap"), ("pairs", "terms")),
    ),
    ChapterCard(
        "heads",
        "Heads",
        "What does each attention head do, and does the model need it?",
        (("heads", "arcs"), ("headmap", "map")),
    ),
    ChapterCard("words", "Words", "What does the model make of a word in its context?", (("contextualize", "layers"),)),
    ChapterCard(
        "answering", "Answering", "How does the model come to an answer?", (("phases", "tasks"), ("phases", "answers"))
    ),
)
"""In the order of the report."""

_FORMER: Mapping[str, Chapter] = {"behaviour": "answering", "cause": "heads", "comparison": "layers"}
"""Former chapters, which other packages may still name -> where they are now."""


def shown_chapter(declared: str) -> Chapter:
    """The chapter that a declared one is shown in; an unknown one is shown last.

    Example:
        >>> shown_chapter("words"), shown_chapter("cause"), shown_chapter("poetry")
        ('words', 'heads', 'answering')
    """
    known: dict[str, Chapter] = {card.name: card.name for card in CHAPTERS}
    return known.get(declared) or _FORMER.get(declared, "answering")


def chapter_of(analysis: str) -> Chapter:
    """The chapter that an analysis belongs to; results of unknown analyses come last.

    Example:
        >>> chapter_of("geometry"), chapter_of("ablate"), chapter_of("my_own")
        ('layers', 'heads', 'answering')
    """
    return shown_chapter(outline(analysis).chapter) if analysis in names() else "answering"


def by_chapter(results: Sequence[Result]) -> dict[Chapter, list[Result]]:
    """The results of each chapter that has any, chapters in the order of the report.

    Example:
        >>> from lamina.results import Provenance, Result
        >>> plain = Provenance({}, {}, {})
        >>> list(by_chapter([Result("heads", {}, plain), Result("geometry", {}, plain)]))
        ['layers', 'heads']
    """
    placed: dict[Chapter, list[Result]] = {}
    for card in CHAPTERS:
        if here := [result for result in results if chapter_of(result.analysis) == card.name]:
            placed[card.name] = here
    return placed
