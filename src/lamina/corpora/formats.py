"""The formats lamina reads, and how they are detected from a file's content."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from difflib import get_close_matches
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

from lamina.corpora import (
    babi,
    conllu,
    edge_jsonl,
    gap,
    glue,
    gum,
    hotpot,
    ner_columns,
    ontonotes,
    plain,
    propbank,
    ptb,
    semeval,
    squad,
    streusle,
    trec,
    uds,
    uds_jsonl,
    wiki_pse,
)
from lamina.corpora.questions import Question
from lamina.errors import CorpusError
from lamina.files.reading import check_regular
from lamina.types import Text

_NOT_DATA = ("source", "readme", "license", "licence", "citation", "contributing", "changelog", "changes")
"""Stems of files that accompany a corpus but hold none of its texts."""
_JUDGED = 8
"""Files per extension inspected to detect the format of a folder."""


class Format(NamedTuple):
    """One file format of annotated texts."""

    name: str
    """Name for `--format`."""
    title: str
    scheme: str
    """The label scheme of such files."""
    read: Callable[..., Iterator[Text]]
    """The texts of one file: `read(path, report)`, and with `notes` `read(path, report, noted)`."""
    looks_like: Callable[[Path], bool]
    """Whether a file (with `is_folder`, a folder) seems to be of this format."""
    version: int = 1
    """Raised when the reader gives different texts for the same file: fingerprints and caches depend on it."""
    companions: Callable[[Path], tuple[Path, ...]] = lambda _: ()
    """The files read together with this one."""
    is_folder: bool = False
    """Whether such a corpus is a folder."""
    glob: str | None = None
    """Which files of a folder to read, if their extensions do not show it."""
    slow: bool = False
    """Whether parsing is slow enough to cache the texts."""
    notes: bool = False
    """Whether the reader notes what it left out or changed, apart from faults."""
    unnamed: bool = False
    """Whether its targets have no name of their own, so that the reader takes an `annotation`."""
    questions: Callable[..., Iterator[Question]] | None = None
    """The questions of one file, `questions(path, report, noted, view)`, if it has any."""
    documents: Callable[[Path], list[str]] | None = None
    """Lists the documents of a file without reading its texts, for splits with an exact number of documents."""


def _format(module: ModuleType, title: str, scheme: str, **more: object) -> Format:
    name = module.__name__.rpartition(".")[2]
    asked = getattr(module, "questions", None)
    return Format(name, title, scheme, module.read, module.looks_like, questions=asked)._replace(**more)


def _uds_ids(path: Path) -> tuple[Path, ...]:
    """The list of sentence and document ids, in the nearest folder above."""
    return tuple(folder / uds.IDS for folder in path.absolute().parents if (folder / uds.IDS).is_file())[:1]


FORMATS = (
    _format(
        gum,
        "GUM folder: dep/, const/ and coref/ joined",
        "GUM",
        companions=gum.companions,
        is_folder=True,
        glob="dep/*.conllu",
    ),
    _format(
        uds,
        "UDS graphs from the decomp wheel (JSON)",
        "UD v1, UDS 2.0",
        companions=_uds_ids,
        glob="**/uds-*.json",
        slow=True,
    ),
    _format(uds_jsonl, "UDS proto-roles, supersenses, factuality (JSONL)", "UDS", version=2),
    _format(streusle, "STREUSLE supersenses (JSONL)", "STREUSLE", version=2),
    _format(propbank, "PropBank rows (JSONL)", "PropBank, PTB", version=2),
    _format(edge_jsonl, "edge-probing JSONL (jiant)", "as given", unnamed=True),
    _format(
        squad,
        "SQuAD v1.1 and XQuAD: questions with contexts (JSON)",
        "SQuAD",
        notes=True,
        documents=squad.documents,
    ),
    _format(hotpot, "HotpotQA, both layouts (JSON)", "HotpotQA", notes=True),
    _format(babi, "bAbI stories", "bAbI", companions=babi.companions, notes=True),
    _format(trec, "TREC question types, one `COARSE:fine question` per line", "Li and Roth", notes=True),
    _format(gap, "GAP coreference (TSV)", "GAP"),
    _format(glue, "sentences or sentence pairs with a class, GLUE style (TSV)", "as given"),
    _format(semeval, "SemEval-2010 task 8", "SemEval-2010 task 8"),
    _format(ontonotes, "OntoNotes CoNLL-2012 (*_conll)", "OntoNotes"),
    _format(conllu, "CoNLL-U: any Universal Dependencies treebank", "UD, as annotated"),
    _format(ptb, "Penn Treebank brackets (.mrg)", "PTB"),
    _format(ner_columns, "named entities, one token per line (IOB1, IOB2, BIOES)", "as given"),
    _format(
        wiki_pse,
        "Wiki-PSE: text with `@word@-class` tokens, and word lists",
        "Wiki-PSE semantic classes",
        companions=wiki_pse.companions,
    ),
    _format(plain, "plain text, one paragraph per line", "no labels"),
)
"""In the order in which they are tried; plain text comes last, since any file looks like it."""


def get_format(name: str) -> Format:
    """The format of this name.

    Example:
        >>> get_format("conllu").title
        'CoNLL-U: any Universal Dependencies treebank'
    """
    for one in FORMATS:
        if one.name == name:
            return one
    known = [one.name for one in FORMATS]
    close = get_close_matches(name, known, n=1)
    meant = f"did you mean {close[0]}? " if close else ""
    raise CorpusError(f"unknown format {name!r}; {meant}known formats: {', '.join(known)}")


def detect(path: Path) -> Format:
    """Detect the format of a file or folder from its content.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "tree.mrg"
        >>> _ = path.write_text("( (S (NP (NNS Dogs)) (VP (VBP bark))) )")
        >>> detect(path).name
        'ptb'
    """
    if path.is_dir():
        return _detect_folder(path)
    check_regular(path)
    found = _sniff(path)
    if found is None:
        raise CorpusError(f"cannot detect the format of {path}; give it with --format ({_names()})")
    return found


def files_of(path: Path, form: Format) -> tuple[Path, ...]:
    """The files of this format in a file or folder, sorted by name.

    Within a folder, the first few files of each extension are inspected. If two extensions fit, they count as two
    versions of the same texts, and the one with more files is read.
    """
    if not path.is_dir():
        check_regular(path)
        return (path,)
    if form.glob is not None:
        return tuple(sorted(path.glob(form.glob)))
    kinds = _kinds(path)
    fitting = sorted((files for files in kinds.values() if any(map(form.looks_like, files[:_JUDGED]))), key=len)
    if not fitting:
        # If no file looks like the format the user asked for, all files are tried: the faults then say why.
        return tuple(sorted(file for files in kinds.values() for file in files))
    if len(fitting) > 1 and len(fitting[-1]) == len(fitting[-2]):
        endings = " and ".join(files[0].suffix or files[0].name for files in fitting[-2:])
        raise CorpusError(f"{path} holds {form.name} files ending in {endings}; keep each kind in its own folder")
    return tuple(fitting[-1])


def _detect_folder(folder: Path) -> Format:
    for form in FORMATS:
        if form.is_folder and form.looks_like(folder):
            return form
    found = {_sniff(file) for files in _kinds(folder).values() for file in files[:_JUDGED]} - {None}
    if len(found) > 1:
        # Most corpora come with notes and lists; those do not make a corpus plain text.
        found.discard(FORMATS[-1])
    if len(found) == 1:
        return next(form for form in found if form)
    if not found:
        raise CorpusError(f"{folder} holds no file in a format lamina reads ({_names()})")
    candidates = ", ".join(form.name for form in FORMATS if form in found)
    raise CorpusError(f"{folder} holds files of several formats: {candidates}; choose one with --format")


def _sniff(path: Path) -> Format | None:
    return next((form for form in FORMATS if not form.is_folder and form.looks_like(path)), None)


def _kinds(folder: Path) -> dict[str, list[Path]]:
    """The files of a folder that may hold texts, by extension."""
    kinds: dict[str, list[Path]] = {}
    for path in sorted(folder.rglob("*")):
        hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
        about = path.name.lower().startswith(_NOT_DATA)
        if path.is_file() and not hidden and not about:
            kinds.setdefault(path.suffix.lower(), []).append(path)
    return kinds


def _names() -> str:
    return ", ".join(form.name for form in FORMATS)
