"""The formats lamina reads, and telling them from what a file holds."""

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
from lamina.errors import CorpusError
from lamina.types import Text

_NOT_DATA = ("source", "readme", "license", "licence", "citation", "contributing", "changelog", "changes")
"""Files that lie beside corpora and hold none of their texts."""
_JUDGED = 8
"""Files of one kind looked at to tell the format of a folder."""


class Format(NamedTuple):
    """One way to write annotated texts in a file."""

    name: str
    """What `--format` takes."""
    title: str
    scheme: str
    """Whose labels such a file has, in words."""
    read: Callable[..., Iterator[Text]]
    """The texts of one file: `read(path, report)`, and with `notes` `read(path, report, noted)`."""
    looks_like: Callable[[Path], bool]
    """Whether a file (with `is_folder`, a folder) seems to be of this format."""
    version: int = 1
    """Raised when the reader gives other texts for the same file: fingerprints and caches depend on it."""
    companions: Callable[[Path], tuple[Path, ...]] = lambda _: ()
    """The files read together with this one."""
    is_folder: bool = False
    """Whether it takes a folder to make such a corpus."""
    glob: str | None = None
    """Which files of a folder to read, where their endings do not tell."""
    slow: bool = False
    """Whether the parsed texts are worth keeping."""
    notes: bool = False
    """Whether the reader leaves out or changes what is no fault, and notes it."""
    documents: Callable[[Path], list[str]] | None = None
    """The documents of a file, told without reading its texts, where a split takes an exact number of them."""


def _format(module: ModuleType, title: str, scheme: str, **more: object) -> Format:
    name = module.__name__.rpartition(".")[2]
    return Format(name, title, scheme, module.read, module.looks_like)._replace(**more)


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
        "UDS graphs, as in the decomp wheel (JSON)",
        "UD v1, UDS 2.0",
        companions=_uds_ids,
        glob="**/uds-*.json",
        slow=True,
    ),
    _format(uds_jsonl, "UDS proto-roles, supersenses, factuality (JSONL)", "UDS"),
    _format(streusle, "STREUSLE supersenses (JSONL)", "STREUSLE"),
    _format(propbank, "PropBank rows (JSONL)", "PropBank, PTB"),
    _format(edge_jsonl, "edge-probing JSONL, as of jiant", "as given"),
    _format(
        squad,
        "SQuAD v1.1 and XQuAD: questions with contexts (JSON)",
        "SQuAD",
        notes=True,
        documents=squad.documents,
    ),
    _format(hotpot, "HotpotQA, both layouts (JSON)", "HotpotQA", notes=True),
    _format(babi, "bAbI stories", "bAbI", companions=babi.companions),
    _format(trec, "TREC question types, COARSE:fine a line", "Li and Roth", notes=True),
    _format(gap, "GAP coreference (TSV)", "GAP"),
    _format(glue, "sentences or pairs with a class, as of GLUE (TSV)", "as given"),
    _format(semeval, "SemEval-2010 task 8", "SemEval-2010 task 8"),
    _format(ontonotes, "OntoNotes CoNLL-2012 (*_conll)", "OntoNotes"),
    _format(conllu, "CoNLL-U: any Universal Dependencies treebank", "UD, as annotated"),
    _format(ptb, "Penn Treebank brackets (.mrg)", "PTB"),
    _format(ner_columns, "named entities, a token a line (IOB1, IOB2, BIOES)", "as given"),
    _format(
        wiki_pse,
        "Wiki-PSE: text with `@word@-class` tokens, and its word lists",
        "Wiki-PSE semantic classes",
        companions=wiki_pse.companions,
    ),
    _format(plain, "plain text, a paragraph a line", "no labels"),
)
"""In the order in which a file is tried; plain text, which anything looks like, comes last."""


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
    """Tell the format of a file or folder from its content.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "tree.mrg"
        >>> _ = path.write_text("( (S (NP (NNS Dogs)) (VP (VBP bark))) )")
        >>> detect(path).name
        'ptb'
    """
    if path.is_dir():
        return _detect_folder(path)
    found = _sniff(path)
    if found is None:
        raise CorpusError(f"cannot tell the format of {path}; give it with --format ({_names()})")
    return found


def files_of(path: Path, form: Format) -> tuple[Path, ...]:
    """The files of this format that make up a file or folder, in the order of their names.

    Within a folder every kind of file (by its ending) is judged by its first few. Where two kinds fit, they are taken
    for two versions of the same texts, and the kind with more files is read.
    """
    if path.is_file():
        return (path,)
    if form.glob is not None:
        return tuple(sorted(path.glob(form.glob)))
    kinds = _kinds(path)
    fitting = sorted((files for files in kinds.values() if any(map(form.looks_like, files[:_JUDGED]))), key=len)
    if not fitting:
        # A format the user insists on, but that no file looks like, is tried on all of them: the faults tell why.
        return tuple(sorted(file for files in kinds.values() for file in files))
    if len(fitting) > 1 and len(fitting[-1]) == len(fitting[-2]):
        endings = " and ".join(files[0].suffix or files[0].name for files in fitting[-2:])
        raise CorpusError(f"{path} holds {form.name} files ending in {endings}; keep one kind in a folder of its own")
    return tuple(fitting[-1])


def _detect_folder(folder: Path) -> Format:
    for form in FORMATS:
        if form.is_folder and form.looks_like(folder):
            return form
    found = {_sniff(file) for files in _kinds(folder).values() for file in files[:_JUDGED]} - {None}
    if len(found) > 1:
        # Notes and lists lie beside most corpora; they do not make them plain text.
        found.discard(FORMATS[-1])
    if len(found) == 1:
        return next(form for form in found if form)
    if not found:
        raise CorpusError(f"{folder} holds no file in a format that lamina reads ({_names()})")
    candidates = ", ".join(form.name for form in FORMATS if form in found)
    raise CorpusError(f"{folder} holds files of several formats: {candidates}; choose one with --format")


def _sniff(path: Path) -> Format | None:
    return next((form for form in FORMATS if not form.is_folder and form.looks_like(path)), None)


def _kinds(folder: Path) -> dict[str, list[Path]]:
    """The files of a folder that may hold texts, by their ending."""
    kinds: dict[str, list[Path]] = {}
    for path in sorted(folder.rglob("*")):
        hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
        about = path.name.lower().startswith(_NOT_DATA)
        if path.is_file() and not hidden and not about:
            kinds.setdefault(path.suffix.lower(), []).append(path)
    return kinds


def _names() -> str:
    return ", ".join(form.name for form in FORMATS)
