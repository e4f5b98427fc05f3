"""The format of a file or folder, the files to read, and why the others are not read."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from fnmatch import fnmatch
from functools import cache
from hashlib import sha256
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from lamina.corpora.formats.catalogue import FORMATS, Format, format_names
from lamina.corpora.formats.lines import not_running_text, why_not_read
from lamina.corpora.reading import Fault
from lamina.corpora.splits import lists_documents, split_of
from lamina.errors import CorpusError
from lamina.files.reading import check_regular, open_regular

_ABOUT = (
    "source", "readme", "license", "licence", "citation", "contributing", "changelog", "changes", "dataset_info",
    "dataset_dict", "state.json", "copying", "notice", "authors", "acknowledg", "requirements", "manifest", "makefile",
    "dockerfile",
)  # fmt: skip
"""Stems of files that accompany a corpus but hold none of its texts."""
_PROGRAMS = (".py", ".sh", ".pl", ".r", ".java", ".js", ".css", ".c", ".cpp", ".h", ".ipynb")
_PAGES = (".md", ".rst", ".html", ".pdf", ".png", ".jpg", ".gif", ".svg", ".bib", ".tex")
_SETTINGS = (".yaml", ".yml", ".toml", ".cfg", ".ini", ".dtd", ".xsd")
_NOT_TEXTS = frozenset((*_PROGRAMS, *_PAGES, *_SETTINGS))
"""Extensions of programs, pages and settings."""
_PICKLES = (".pkl", ".pickle", ".joblib", ".dill", ".pt", ".pth", ".npy", ".npz")
"""Extensions of what Python stored; loading such a file may run code in it."""
_OUTPUTS = frozenset(
    (
        "submission", "submissions", "output", "outputs", "prediction", "predictions", "predicted", "pred", "preds",
        "hyp", "hyps", "system", "systems", "sysout", "baseline", "baselines",
    )
)  # fmt: skip
_DOCUMENTATION = frozenset(
    ("doc", "docs", "documentation", "license", "licenses", "licence", "licences", "guidelines", "paper", "papers")
)
_IS_DOCUMENTATION = "it looks like documentation"
_VARIANTS = frozenset(("variant", "variants", "old", "older", "backup", "deprecated", "previous", "archive"))
_LIKELY = (
    (_OUTPUTS, "it looks like the output of a system"),
    (_DOCUMENTATION, _IS_DOCUMENTATION),
    (_VARIANTS, "it looks like a variant of the data"),
)
"""Words in the names of files and folders -> what such a file is, if others are left to read."""
_ALIKE_TEXTS = 3
"""First texts by which two versions of a file are recognised, ..."""
_ALIKE_CHARACTERS = 40
"""... if they have as many characters: short ones recur."""
_COMPARED_FILES = 2000
_JUDGED = 8
"""Files per extension inspected to detect the format of a folder."""
_NAMED = 3
"""Files named in a sentence; `lamina data check` lists them all."""


class UnreadFile(NamedTuple):
    """Why a file is not read."""

    why: str
    texts: bool = True
    """Whether it may hold texts; a note, a program or a list of documents does not."""
    beside: bool = False
    """Whether it holds something else than the data, by its name: a system's output, a variant."""


class FolderContents(NamedTuple):
    """Every file of a folder, accounted for."""

    read: tuple[Path, ...]
    """The files to read, sorted by name."""
    unread: Mapping[Path, UnreadFile] = MappingProxyType({})
    """All the others, except those that are read together with one of `read`."""

    def unread_split(self, split: str) -> Path | None:
        """A file that may hold texts, is named like the split, and is not read."""
        named = (path for path, left in self.unread.items() if left.texts and not left.beside)
        return next((path for path in named if split_of(path.name) == split), None)

    def in_words(self) -> str:
        """The files that may hold texts and are not read, in half a sentence; empty if there are none."""
        left = [f"{path.name} ({unread.why})" for path, unread in self.unread.items() if unread.texts]
        more = f" and {len(left) - _NAMED:,} more" if len(left) > _NAMED else ""
        return ", ".join(left[:_NAMED]) + more


class FileSelection(NamedTuple):
    """Which files of a folder are read, by patterns of their paths or names.

    Example:
        >>> selection = FileSelection.of("*.conll", "old, *.test.*")
        >>> [selection.why_not(Path(name)) for name in ("a/dev.conll", "x.txt", "old/dev.conll")]
        ['', 'it does not match --include *.conll', 'it matches --exclude old']
    """

    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()

    @classmethod
    def of(cls, include: str | None, exclude: str | None) -> FileSelection:
        """Patterns as a user gives them, separated by commas."""
        split = [tuple(filter(None, map(str.strip, (patterns or "").split(",")))) for patterns in (include, exclude)]
        return cls(*split)

    def why_not(self, relative: Path) -> str:
        """Why a file, by its path within the folder, is not selected; empty if it is."""
        if (pattern := self._match(self.exclude, relative)) is not None:
            return f"it matches --exclude {pattern}"
        if self.include and not self.names(relative):
            return f"it does not match --include {','.join(self.include)}"
        return ""

    def names(self, relative: Path) -> bool:
        """Whether a pattern includes a file by name."""
        return self._match(self.include, relative) is not None

    def _match(self, patterns: tuple[str, ...], relative: Path) -> str | None:
        named = (relative, relative.name, *relative.parents[:-1], *(folder.name for folder in relative.parents[:-1]))
        return next(
            (pattern for pattern in patterns for name in named if fnmatch(Path(name).as_posix(), pattern.strip("/"))),
            None,
        )


ALL_FILES = FileSelection()


def detect(path: Path, selection: FileSelection = ALL_FILES) -> Format:
    """Detect the format of a file or folder from its content.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "tree.mrg"
        >>> _ = path.write_text("( (S (NP (NNS Dogs)) (VP (VBP bark))) )")
        >>> detect(path).name
        'ptb'
    """
    if path.is_dir():
        return _detect_folder(path, selection)
    check_regular(path)
    if is_empty(path):
        raise CorpusError(f"{path} is empty; give a file with texts")
    if is_pickle(path):
        raise CorpusError(
            f"{path} is a pickle, which may run code when it is loaded, so lamina reads none; save the data as text, "
            "JSON lines or Parquet"
        )
    form = _sniff(path)
    if form is None:
        unknown = f"cannot detect the format of {path}; give it with --format ({format_names()})"
        raise CorpusError(why_not_read(path) or unknown)
    return form


def is_empty(path: Path) -> bool:
    """Whether a file holds nothing but white space at its beginning, and ends there."""
    with open_regular(path) as file:
        return not file.read(1 << 16).strip(b"\xef\xbb\xbf \t\r\n") and not file.read(1)


def is_pickle(path: Path) -> bool:
    """Whether a file is a pickle, by its extension or its first bytes."""
    if path.suffix.lower() in _PICKLES:
        return True
    with open_regular(path) as file:
        start = file.read(2)
    return start[:1] == b"\x80" and start[1:] in (b"\x02", b"\x03", b"\x04", b"\x05")


def folder_contents(path: Path, form: Format, selection: FileSelection = ALL_FILES) -> FolderContents:
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
    unread = dict(_set_aside(path, selection))
    kinds = _kinds(path, unread)
    if form.glob is not None:
        read = tuple(file for file in sorted(path.glob(form.glob)) if not selection.why_not(file.relative_to(path)))
    else:
        fitting, copies = _without_copies(path, form, _fitting(kinds, form))
        unread |= copies
        read, versions = _without_versions(path, form, fitting)
        same = UnreadFile("it has the same name or split as a file that is read: another version of it")
        unread |= dict.fromkeys(versions, same)
    with_them = {*read, *(companion for one in read for companion in form.companions(one))}
    for file in sorted(file for files in kinds.values() for file in files):
        if file not in with_them and file not in unread:
            unread[file] = _left(file, form)
    return FolderContents(
        read, MappingProxyType({file: unread[file] for file in sorted(unread) if file not in with_them})
    )


def _detect_folder(folder: Path, selection: FileSelection) -> Format:
    for form in FORMATS:
        if form.is_folder and form.looks_like(folder):
            return form
    aside = dict(_set_aside(folder, selection))
    kinds = _kinds(folder, aside)
    formats = {_sniff(file) for files in kinds.values() for file in files[:_JUDGED]} - {None}
    # Most corpora come with notes, lists and tables of counts; those do not make a corpus plain text or a table.
    specific = {form for form in formats if form and not form.generic}
    formats = specific or formats - {FORMATS[-1]} or formats
    if len(formats) == 1:
        return next(form for form in formats if form)
    if not formats:
        inside = [file for files in kinds.values() for file in files]
        why = next((f": {reason}" for file in inside[:_JUDGED] if (reason := why_not_read(file))), "")
        left = [f"{path.relative_to(folder).as_posix()}: {unread.why}" for path, unread in aside.items()]
        why = why or (f": {'; '.join(left[:_NAMED])}" if left else ": it is empty")
        raise CorpusError(f"{folder} holds no file in a format lamina reads ({format_names()}){why}")
    candidates = ", ".join(form.name for form in FORMATS if form in formats)
    raise CorpusError(
        f"{folder} holds files of several formats: {candidates}; choose one with --format, or files with --include"
    )


def _set_aside(folder: Path, selection: FileSelection) -> dict[Path, UnreadFile]:
    """The files of a folder that hold no texts, or none of the data, by their names."""
    aside = dict(_by_kind(folder, selection))
    rest = [path for path in _files(folder) if path not in aside]
    likely = {path: why for path in rest if (why := _likely(path.relative_to(folder), selection))}
    # Where all files are called so, they are the data.
    return aside | (likely if len(likely) < len(rest) else {})


def _likely(relative: Path, selection: FileSelection) -> UnreadFile | None:
    """What a file probably is besides the data, by the words in its path."""
    words = {word for part in relative.parts for word in re.split(r"[^a-z]+", part.lower())}
    what = next((what for names, what in _LIKELY if names & words), None)
    if what is None or selection.names(relative):
        return None
    return UnreadFile(
        f"{what}; --include {relative.parts[0]} reads it", texts=what is not _IS_DOCUMENTATION, beside=True
    )


def _files(folder: Path) -> tuple[Path, ...]:
    return tuple(sorted(path for path in folder.rglob("*") if not path.is_dir()))


def _by_kind(folder: Path, selection: FileSelection) -> Iterator[tuple[Path, UnreadFile]]:
    for path in _files(folder):
        if why := selection.why_not(path.relative_to(folder)):
            yield path, UnreadFile(why, texts=False)
        elif any(part.startswith(".") for part in path.relative_to(folder).parts):
            yield path, UnreadFile("it is hidden", texts=False)
        elif not path.is_file():
            yield path, UnreadFile("it is not a regular file", texts=False)
        elif path.name.lower().startswith(_ABOUT):
            yield path, UnreadFile("it is about the corpus", texts=False)
        elif path.suffix.lower() in _NOT_TEXTS:
            yield path, UnreadFile("it is a program, a page or a setting", texts=False)
        elif lists_documents(folder, path):
            yield path, UnreadFile("it lists the documents of a split", texts=False)
        elif is_pickle(path):
            yield path, UnreadFile("it is a pickle, which may run code when it is loaded", texts=False)
        elif is_empty(path):
            yield path, UnreadFile("it is empty")


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


def _without_copies(folder: Path, form: Format, files: list[Path]) -> tuple[list[Path], dict[Path, UnreadFile]]:
    """The files to read, and those of the same split that begin with the same texts, in whatever case or scheme."""
    # Files of questions may differ in their names only, which say what the task is.
    if form.is_folder or form.questions is not None or not 1 < len(files) <= _COMPARED_FILES:
        return files, {}
    alike: dict[str, list[Path]] = {}
    splits: dict[Path, str | None] = {}
    for file in files:
        stat = file.stat()
        if beginning := _beginning(form.name, file, stat.st_mtime_ns, stat.st_size):
            alike.setdefault(beginning, []).append(file)
        names = (file.name, *reversed(file.relative_to(folder).parent.parts))
        splits[file] = next(filter(None, map(split_of, names)), None)
    count = Counter(file.suffix for file in files)
    copies: dict[Path, UnreadFile] = {}
    for same in alike.values():
        # A file without a split in its name is a copy of one that has it.
        ranked = sorted(same, key=lambda file: (splits[file] is None, len(file.parts), -count[file.suffix], file))
        first = {splits[file]: file for file in reversed(ranked)}
        for file in ranked[1:]:
            other = first[splits[file] or splits[ranked[0]]]
            # Versions with another extension in the same folder differ in their names.
            if file != other and (file.parent != other.parent or file.suffix == other.suffix):
                named = other.relative_to(folder).as_posix()
                what = f"it begins with the same texts as {named}: another version of it, or a system's output"
                copies[file] = UnreadFile(what, beside=True)
    return [file for file in files if file not in copies], copies


@cache
def _beginning(name: str, path: Path, *_: int) -> str:
    """What a file begins with, in lower case and without labels; empty where that says too little."""
    form = next(form for form in FORMATS if form.name == name.partition(":")[0])
    if form.generic or form.slow:
        with open_regular(path) as file:
            return sha256(file.read(_CONTENT).lower()).hexdigest()
    try:
        texts = list(islice(form.read(path, _ignored), _ALIKE_TEXTS))
    except (CorpusError, OSError):
        return ""
    words = " ".join(word.lower() for text in texts for word in text.words)
    return sha256(words.encode("utf-8", "surrogatepass")).hexdigest() if len(words) >= _ALIKE_CHARACTERS else ""


_CONTENT = 1 << 16
"""Bytes by which files are compared whose texts are not read so easily."""


def _ignored(_: Fault) -> None:
    """Faults are reported when the file is read."""


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
