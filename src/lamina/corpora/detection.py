"""The format of a file or folder, the files to read, and why the others are not read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from lamina.corpora.formats.catalogue import FORMATS, Format, format_names
from lamina.corpora.formats.lines import not_running_text, why_not_read
from lamina.corpora.splits import lists_documents, split_of
from lamina.errors import CorpusError
from lamina.files.reading import check_regular

_ABOUT = (
    "source", "readme", "license", "licence", "citation", "contributing", "changelog", "changes", "dataset_info",
    "dataset_dict", "state.json",
)  # fmt: skip
"""Stems of files that accompany a corpus but hold none of its texts."""
_PROGRAMS = (".py", ".sh", ".pl", ".r", ".java", ".js", ".css", ".c", ".cpp", ".h", ".ipynb")
_PAGES = (".md", ".rst", ".html", ".pdf", ".png", ".jpg", ".gif", ".svg", ".bib", ".tex")
_SETTINGS = (".yaml", ".yml", ".toml", ".cfg", ".ini", ".dtd", ".xsd")
_NOT_TEXTS = frozenset((*_PROGRAMS, *_PAGES, *_SETTINGS))
"""Extensions of programs, pages and settings."""
_JUDGED = 8
"""Files per extension inspected to detect the format of a folder."""
_NAMED = 3
"""Files named in a sentence; `lamina data check` lists them all."""


class UnreadFile(NamedTuple):
    """Why a file is not read."""

    why: str
    texts: bool = True
    """Whether it may hold texts; a note, a program or a list of documents does not."""


class FolderContents(NamedTuple):
    """Every file of a folder, accounted for."""

    read: tuple[Path, ...]
    """The files to read, sorted by name."""
    unread: Mapping[Path, UnreadFile] = MappingProxyType({})
    """All the others, except those that are read together with one of `read`."""

    def unread_split(self, split: str) -> Path | None:
        """A file that may hold texts, is named like the split, and is not read."""
        return next((path for path, left in self.unread.items() if left.texts and split_of(path.name) == split), None)

    def in_words(self) -> str:
        """The files that may hold texts and are not read, in half a sentence; empty if there are none."""
        left = [f"{path.name} ({unread.why})" for path, unread in self.unread.items() if unread.texts]
        more = f" and {len(left) - _NAMED:,} more" if len(left) > _NAMED else ""
        return ", ".join(left[:_NAMED]) + more


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
    form = _sniff(path)
    if form is None:
        unknown = f"cannot detect the format of {path}; give it with --format ({format_names()})"
        raise CorpusError(why_not_read(path) or unknown)
    return form


def folder_contents(path: Path, form: Format) -> FolderContents:
    """The files of this format in a file or folder, and why the others are not read.

    Files with different extensions are read together, unless they are two versions of the same texts (`dev.iob` and
    `dev.bio`, `x.dev.iob` and `y.dev.bio`): then those of the more frequent extension are read.

    Example:
        >>> import tempfile
        >>> from lamina.corpora.formats.catalogue import get_format
        >>> folder = Path(tempfile.mkdtemp())
        >>> _ = (folder / "tree.mrg").write_text("( (S (NP (NNS Dogs)) (VP (VBP bark))) )")
        >>> _ = (folder / "README").write_text("One tree")
        >>> contents = folder_contents(folder, get_format("ptb"))
        >>> [file.name for file in contents.read], [left.why for left in contents.unread.values()]
        (['tree.mrg'], ['it is about the corpus'])
    """
    if not path.is_dir():
        check_regular(path)
        return FolderContents((path,))
    unread = dict(_set_aside(path))
    kinds = _kinds(path, unread)
    if form.glob is not None:
        read = tuple(sorted(path.glob(form.glob)))
    else:
        read, versions = _without_versions(path, form, _fitting(kinds, form))
        same = UnreadFile("it has the same name or split as a file that is read: another version of it")
        unread |= dict.fromkeys(versions, same)
    with_them = {*read, *(companion for one in read for companion in form.companions(one))}
    for file in sorted(file for files in kinds.values() for file in files):
        if file not in with_them and file not in unread:
            unread[file] = _left(file, form)
    return FolderContents(
        read, MappingProxyType({file: unread[file] for file in sorted(unread) if file not in with_them})
    )


def _detect_folder(folder: Path) -> Format:
    for form in FORMATS:
        if form.is_folder and form.looks_like(folder):
            return form
    kinds = _kinds(folder, dict(_set_aside(folder)))
    formats = {_sniff(file) for files in kinds.values() for file in files[:_JUDGED]} - {None}
    # Most corpora come with notes, lists and tables of counts; those do not make a corpus plain text or a table.
    specific = {form for form in formats if form and not form.generic}
    formats = specific or formats - {FORMATS[-1]} or formats
    if len(formats) == 1:
        return next(form for form in formats if form)
    if not formats:
        inside = [file for files in kinds.values() for file in files]
        why = next((f": {reason}" for file in inside[:_JUDGED] if (reason := why_not_read(file))), "")
        raise CorpusError(f"{folder} holds no file in a format lamina reads ({format_names()}){why}")
    candidates = ", ".join(form.name for form in FORMATS if form in formats)
    raise CorpusError(f"{folder} holds files of several formats: {candidates}; choose one with --format")


def _set_aside(folder: Path) -> Iterator[tuple[Path, UnreadFile]]:
    """The files of a folder that hold no texts, by their names."""
    for path in sorted(folder.rglob("*")):
        if path.is_dir():
            continue
        if any(part.startswith(".") for part in path.relative_to(folder).parts):
            yield path, UnreadFile("it is hidden", texts=False)
        elif not path.is_file():
            yield path, UnreadFile("it is not a regular file", texts=False)
        elif path.name.lower().startswith(_ABOUT):
            yield path, UnreadFile("it is about the corpus", texts=False)
        elif path.suffix.lower() in _NOT_TEXTS:
            yield path, UnreadFile("it is a program, a page or a setting", texts=False)
        elif lists_documents(folder, path):
            yield path, UnreadFile("it lists the documents of a split", texts=False)


def _kinds(folder: Path, aside: Mapping[Path, UnreadFile]) -> dict[str, list[Path]]:
    """The files of a folder that may hold texts, by extension."""
    kinds: dict[str, list[Path]] = {}
    for path in sorted(folder.rglob("*")):
        if path not in aside and path.is_file():
            kinds.setdefault(path.suffix.lower(), []).append(path)
    return kinds


def _fitting(kinds: Mapping[str, list[Path]], form: Format) -> list[Path]:
    """The files to read: of every extension of which one fits, all but those that are clearly something else."""
    fitting = [files for files in kinds.values() if any(map(form.looks_like, files[:_JUDGED]))]
    if not fitting:
        # If no file looks like the format the user asked for, all files are tried: the faults then say why.
        return [file for files in kinds.values() for file in files]
    alike = [file for files in fitting for file in files if form.looks_like(file)]
    # A file that is read together with another is not read by itself.
    beside = {companion for file in alike for companion in form.companions(file)} - {*alike}
    return [file for files in fitting for file in files if file not in beside and not _is_other(file, form)]


def _is_other(file: Path, form: Format) -> bool:
    """Whether a file is of another format. One of no known format is read, to report its faults, but not as text."""
    if form.looks_like(file):
        return False
    detected = _sniff(file)
    if detected is None:
        return form.name == FORMATS[-1].name
    return form.generic or not detected.generic


def _without_versions(folder: Path, form: Format, files: list[Path]) -> tuple[tuple[Path, ...], list[Path]]:
    """The files to read, and other versions of them: of the same split, or the same name, with another extension."""
    alike: dict[tuple[Path, str], list[Path]] = {}
    for file in files:
        alike.setdefault((file.parent, split_of(file.name) or file.stem), []).append(file)
    count = Counter(file.suffix for file in files)
    read: list[Path] = []
    for same in alike.values():
        first, *others = sorted({file.suffix for file in same}, key=lambda suffix: -count[suffix])
        if others and count[others[0]] == count[first]:
            endings = " and ".join(sorted(suffix or "no extension" for suffix in (first, others[0])))
            raise CorpusError(f"{folder} holds {form.name} files ending in {endings}; keep each kind in its own folder")
        read += [file for file in same if file.suffix == first]
    return tuple(sorted(read)), sorted({*files} - {*read})


def _left(file: Path, form: Format) -> UnreadFile:
    detected = _sniff(file)
    if detected is None:
        content = not_running_text(file)
        return UnreadFile("it is in no format that lamina reads" + (f"; it holds {content}" if content else ""))
    if detected is form:
        return UnreadFile(f"it is {form.name}, and lies where {form.name} has no texts")
    return UnreadFile(f"it looks like {detected.name}, and the folder is read as {form.name}")


def _sniff(path: Path) -> Format | None:
    return next((form for form in FORMATS if not form.is_folder and form.looks_like(path)), None)
