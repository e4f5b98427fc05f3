"""From a name, a path or a dataset of the Hugging Face hub to a corpus, or to its training and scored texts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from functools import cache, partial
from inspect import signature
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

from lamina.corpora.caching import parsed_once
from lamina.corpora.catalogue import CorpusEntry, get_entry, names
from lamina.corpora.corpus import Corpus, View, fingerprint_of, in_units, parse_unit
from lamina.corpora.detection import ALL_FILES, FileSelection, FolderContents, UnreadFile, detect, folder_contents
from lamina.corpora.formats.catalogue import Format, get_format
from lamina.corpora.questions.babi import STORIES, VERSION, split_note, story_questions
from lamina.corpora.reading import Fault, Notes, raise_fault
from lamina.corpora.splits import (
    SPLITS,
    Files,
    SplitPart,
    Splits,
    divided_part,
    exact_part,
    files_by_split,
    part,
    split_of,
    whole_part,
)
from lamina.errors import CorpusError, FormatError
from lamina.extras import require_package
from lamina.files.checking import sha256_of
from lamina.files.reading import check_regular
from lamina.progress import say
from lamina.types import Text

# Datasets of the Hugging Face hub, by name: `hf:OWNER/NAME`, `hf:OWNER/NAME:CONFIG`, each with `@REVISION` or without.
#
# The package `datasets` downloads and keeps them; its Arrow files are then read like any other table. Code that comes
# with a dataset is never run.

PREFIX = "hf:"
_NAME = re.compile(r"(?P<repo>[\w.-]+(?:/[\w.-]+)?)(?::(?P<config>[^:@\s]+))?(?:@(?P<revision>[^@\s]+))?")
_COMMIT = re.compile(r"[@/]([0-9a-f]{40})(?=/)")
_GRAMMAR = "hf:OWNER/NAME, hf:OWNER/NAME:CONFIG or hf:OWNER/NAME:CONFIG@REVISION"


class HubName(NamedTuple):
    """Which dataset."""

    repo: str
    config: str | None = None
    revision: str | None = None


class HubFiles(NamedTuple):
    """A dataset on this machine."""

    files: Mapping[str | None, tuple[Path, ...]]
    """Split -> its files; None holds those whose split is called like no split of lamina."""
    revision: str | None
    """The commit it was downloaded at."""


def is_hub_name(name: str) -> bool:
    """Whether a corpus is a dataset of the hub, rather than a path or a name of the catalogue."""
    return name.startswith(PREFIX) and not Path(name).exists()


def parse_hub_name(name: str) -> HubName:
    """The parts of a dataset's name.

    Example:
        >>> parse_hub_name("hf:nyu-mll/glue:sst2@main")
        HubName(repo='nyu-mll/glue', config='sst2', revision='main')
    """
    match = _NAME.fullmatch(name.removeprefix(PREFIX))
    if match is None:
        raise CorpusError(f"{name!r} is no name of a dataset of the Hugging Face hub; write {_GRAMMAR}")
    return HubName(match["repo"], match["config"], match["revision"])


@cache
def hub_files(name: str) -> HubFiles:
    """The files of a dataset, downloaded if they are not on this machine; looked up once per process."""
    wanted = parse_hub_name(name)
    if Path(wanted.repo).exists():
        raise CorpusError(
            f"{wanted.repo} is also a folder here, which the package `datasets` would read in place of {name}; give "
            "its path without hf:, or work in another folder"
        )
    loaded = _loaded(name, wanted)
    files: dict[str | None, list[Path]] = {}
    for split, table in loaded.items():
        files.setdefault(split_of(str(split)), []).extend(Path(file["filename"]) for file in table.cache_files)
    commit = wanted.revision or _commit(loaded.values())
    return HubFiles({split: tuple(paths) for split, paths in files.items() if paths}, commit)


def _loaded(name: str, wanted: HubName) -> Mapping[Any, Any]:
    require_package("datasets", f"{name} is on a hub", CorpusError)
    import datasets

    # Versions before 4 can run a dataset's program, by this argument or by an environment variable.
    runs_code = "trust_remote_code" in signature(datasets.load_dataset).parameters
    never: dict[str, Any] = {"trust_remote_code": False} if runs_code else {}
    try:
        loaded = datasets.load_dataset(wanted.repo, wanted.config, revision=wanted.revision, **never)
    # What its builders and the hub raise is not listed anywhere.
    except Exception as error:
        raise CorpusError(_refusal(name, wanted, error)) from error
    if not isinstance(loaded, Mapping):
        raise CorpusError(f"{name} is not a dataset with splits; download its files and give their path")
    return loaded


def _refusal(name: str, wanted: HubName, error: Exception) -> str:
    """The hub's own reason, and what to do."""
    reason = " ".join(str(error).split()) or type(error).__name__
    page = f"https://huggingface.co/datasets/{wanted.repo}"
    low = reason.lower()
    if "gated" in low or "authenticat" in low or "401" in low or "403" in low:
        todo = f"ask for access at {page}, run `hf auth login`, and try again"
    elif "offline" in low or isinstance(error, ConnectionError):
        todo = "it is not on this machine: try again with a connection and without HF_HUB_OFFLINE"
    elif "script" in low:
        todo = "lamina runs no code of a dataset; give its files by path, or a revision with Parquet files, such as "
        todo += f"hf:{wanted.repo}@refs/convert/parquet"
    elif "config" in low:
        todo = f"name one of them: hf:{wanted.repo}:CONFIG"
    else:
        todo = f"see {page}, or download its files and give their path"
    return f"{name} cannot be loaded: {reason[:600].rstrip('.')}; {todo}"


def _commit(tables: Iterable[Any]) -> str | None:
    """The commit that files were downloaded at, which is in their addresses or in the name of their folder."""
    for table in tables:
        places = [*(table.info.download_checksums or {}), *(file["filename"] for file in table.cache_files)]
        commit = next((match[1] for place in places if (match := _COMMIT.search(str(place)))), None)
        if commit:
            return commit
    return None


# Renamed annotations (`--annotation`).

Value = TypeVar("Value")
_STRUCTURE = ("sentence",)
"""Annotations that lamina adds to windows and documents; they keep their names."""


def renamed(corpus: Corpus, annotation: str) -> Corpus:
    """The corpus with its annotations renamed: `NAME` for the only one it has, or `OLD=NEW,...`.

    Example:
        >>> from lamina.corpora import corpus_from
        >>> corpus = corpus_from([("I like it", {"label": "good"})])
        >>> renamed(corpus, "sentiment").annotations
        ('sentiment',)
    """
    names = _names(annotation)
    if corpus.declared is not None:
        known = dict.fromkeys(corpus.declared, ())
        _refuse(known, names, corpus.name)
        declared = tuple(_new(known, names))
    else:
        declared = None
    return replace(
        corpus,
        source=lambda: _renamed(corpus.source(), names, corpus.name),
        declared=declared,
        fingerprint=fingerprint_of("annotation", corpus.fingerprint, annotation),
    )


Names = Mapping[str, str] | str
"""Old name -> new name, or the new name of the only annotation."""


def _names(annotation: str) -> Names:
    parts = [part.strip() for part in annotation.split(",")]
    pairs = [tuple(side.strip() for side in part.split("=")) for part in parts]
    if len(pairs) == 1 and len(pairs[0]) == 1 and pairs[0][0]:
        return pairs[0][0]
    news = [pair[-1] for pair in pairs]
    if any(len(pair) != 2 or not all(pair) for pair in pairs) or len(set(news)) < len(news):
        raise CorpusError(
            f"--annotation {annotation!r} cannot be read; give one NAME, or OLD=NEW for each annotation to rename, "
            "separated by commas"
        )
    return {pair[0]: pair[1] for pair in pairs}


def _renamed(texts: Iterable[Text], names: Names, corpus: str) -> Iterator[Text]:
    seen: dict[str, tuple[()]] = {}
    for text in texts:
        if not seen.keys() >= text.edges.keys():
            seen |= dict.fromkeys(text.edges, ())
            _refuse(seen, names, corpus)
        yield replace(text, edges=_new(text.edges, names))
    if isinstance(names, str):
        missing = [] if _without_structure(seen) else [names]
        what = f"it has no annotation that could be named {names!r}"
    else:
        missing = [old for old in names if old not in seen]
        what = f"it has no annotation {missing[0]!r}; it has {', '.join(seen) or 'none'}" if missing else ""
    if missing:
        raise CorpusError(f"{corpus}: {what}; leave --annotation out")


def _refuse(known: Mapping[str, object], names: Names, corpus: str) -> None:
    """Where one name is meant for several annotations, or is taken already."""
    annotations = _without_structure(known)
    if isinstance(names, str) and len(annotations) > 1:
        problem = f"{corpus} has {len(annotations)} annotations ({', '.join(annotations)})"
        if names in annotations:
            raise CorpusError(f"{problem}, and {names!r} is one of them already; leave --annotation out")
        raise CorpusError(
            f"{problem}, so which is to be named {names!r}? Say it as --annotation {annotations[0]}={names}"
        )
    if not isinstance(names, str):
        taken = [new for new in names.values() if new in known and new not in names]
        if taken:
            raise CorpusError(f"{corpus} has an annotation {taken[0]!r} already; choose another name")


def _without_structure(annotations: Iterable[str]) -> list[str]:
    return [name for name in annotations if name not in _STRUCTURE]


def _new(edges: Mapping[str, Value], names: Names) -> dict[str, Value]:
    if isinstance(names, str):
        return {name if name in _STRUCTURE else names: value for name, value in edges.items()}
    return {names.get(name, name): value for name, value in edges.items()}


class CorpusSource(NamedTuple):
    """Where a corpus is and how to read it."""

    name: str
    root: Path
    format: Format
    files: Files
    scheme: str
    annotations: tuple[str, ...] | None
    """As listed in the catalogue; None for a user's own files."""
    documents: Mapping[str, int] = MappingProxyType({})
    """Split -> number of documents; empty if splits are given or made by percentage."""
    complete: bool = False
    """Whether no split is made: those of `files` are all there are."""
    unread: Mapping[Path, UnreadFile] = MappingProxyType({})
    """Files of a user's folder that are not read -> why."""
    revision: str | None = None
    """The commit of a dataset of the hub."""

    @property
    def not_made(self) -> dict[str, Path]:
        """Splits that are not made of train, since a file named like them lies there unread -> that file."""
        contents = FolderContents((), self.unread)
        files = {split: contents.unread_split(split) for split in ("dev", "test") if split not in self.files}
        return {split: path for split, path in files.items() if path is not None}


def load_corpus(
    name_or_path: str | Path,
    split: str = "dev",
    *,
    unit: str = "sentence",
    format: str | None = None,
    include: str | None = None,
    exclude: str | None = None,
    skip_faulty: float = 0.0,
    annotation: str | None = None,
    limit: int | None = None,
    first: int | None = None,
    seed: int = 0,
    split_from: str | None = None,
    view: View | None = None,
) -> Corpus:
    """The texts of a corpus in the catalogue, of your own file or folder, or of a dataset (`hf:OWNER/NAME`).

    `split` is train, dev, test or all. A missing dev or test is taken from train, by document, by hash with `seed`;
    `made_split` says so. `split_from` makes all three of one split, where there is dev or test only. `unit` is
    sentence, document or window:N. `format` is detected from the content by default. Of a folder,
    `include` and `exclude` are patterns of the files to read (`*.conll,gold`); `skip_faulty` is the largest share of
    texts that may be left out because of a fault in the file (none by default). `annotation` renames the only
    annotation, or some of them (`old=new,...`). Whole documents are drawn with `seed` until there are `limit` texts
    (see `Corpus.sample`); `first` takes the first texts. `view` is how questions are shown; other texts have none. The
    corpus `stories` is generated, not read.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "own-dev.txt"
        >>> _ = path.write_text("Dogs bark .\\nCats do not .\\n")
        >>> [text.words for text in load_corpus(path, "dev", format="plain")]
        [('Dogs', 'bark', '.'), ('Cats', 'do', 'not', '.')]
    """
    parse_unit(unit)
    if name_or_path == STORIES:
        corpus = _stories(split, unit, seed, view or View())
        corpus = corpus if annotation is None else renamed(corpus, annotation)
        return corpus.part(limit, first, seed)
    try:
        source = find_source(name_or_path, format, FileSelection.of(include, exclude))
        chosen = part_of(source, split, seed, split_from)
        corpus = _corpus(source, split, unit, chosen, view or View(), skip_faulty)
        corpus = corpus if annotation is None else renamed(corpus, annotation)
        empty = next(iter(corpus), None) is None
    except OSError as error:
        raise CorpusError(f"{name_or_path} cannot be read: {error}") from error
    if empty:
        raise CorpusError(_emptiness(source, split, chosen, corpus))
    return corpus.part(limit, first, seed)


def load_splits(
    corpus: str | Path,
    scored: str = "dev",
    *,
    unit: str = "sentence",
    format: str | None = None,
    include: str | None = None,
    exclude: str | None = None,
    skip_faulty: float = 0.0,
    annotation: str | None = None,
    limit: int | None = None,
    first: int | None = None,
    seed: int = 0,
    split_from: str | None = None,
    view: View | None = None,
) -> Splits:
    """The training texts of a corpus and the split to score, read as `load_corpus` does; limits are of each of them.

    If a corpus has dev and test but no train, the one that is not scored is used for training, and recorded as such.
    """
    if scored not in ("dev", "test"):
        raise CorpusError(f"the scored split must be dev or test; got {scored!r}")
    settings: dict[str, Any] = {
        "unit": unit,
        "format": format,
        "include": include,
        "exclude": exclude,
        "skip_faulty": skip_faulty,
        "annotation": annotation,
        "limit": limit,
        "first": first,
        "seed": seed,
        "split_from": split_from,
        "view": view,
    }
    selection = FileSelection.of(include, exclude)
    given = SPLITS if split_from else known_splits(corpus, format, selection)
    stand_in = {"dev": "test", "test": "dev"}[scored]
    _refuse_untrainable(corpus, format, scored, given, selection)
    if "train" in given:
        return Splits(load_corpus(corpus, "train", **settings), load_corpus(corpus, scored, **settings))
    train = load_corpus(corpus, stand_in, **settings)
    train = replace(train, split="train", made_split=f"no train split: {stand_in}, not scored, is used instead")
    return Splits(train, load_corpus(corpus, scored, **settings))


def _refuse_untrainable(
    corpus: str | Path, format: str | None, scored: str, given: Sequence[str], selection: FileSelection = ALL_FILES
) -> None:
    """Raise a CorpusError where there are no texts to learn from, or none to score, with advice that leads to both."""
    if "train" not in given and len(given) == 1:
        raise CorpusError(
            f"{corpus} has {given[0]} only, and texts to learn from are needed too; divide it by document with "
            f"--split-from {given[0]}"
        )
    if corpus == STORIES:
        return
    source = find_source(corpus, format, selection)
    if source.complete and scored not in given:
        raise CorpusError(f"{corpus}: there is no {scored}, only {' and '.join(given)}; ask for --split {given[-1]}")
    # Of files without a split nothing is made while a file named like one lies there unread.
    unread = dict(source.not_made) if not {*source.files} - {None} else {scored: source.not_made.get(scored)}
    path = unread.get(scored) or next(iter(unread.values()), None)
    if path is not None:
        raise CorpusError(
            f"{corpus}: {path.name} is named like a split and is not read: {source.unread[path].why}; give its format "
            "with --format, or move it away"
        )


def splits_of(source: CorpusSource) -> tuple[str, ...]:
    """The available splits, including made ones."""
    named = tuple(split for split in SPLITS if split in source.files)
    if source.complete or (named and "train" not in named):
        return named
    return tuple(split for split in SPLITS if split not in source.not_made)


def known_splits(
    name_or_path: str | Path, format: str | None = None, selection: FileSelection = ALL_FILES
) -> tuple[str, ...]:
    """The available splits of a corpus, including made ones.

    Example:
        >>> known_splits("stories")
        ('train', 'dev', 'test')
    """
    return SPLITS if name_or_path == STORIES else splits_of(find_source(name_or_path, format, selection))


def scored_split(name_or_path: str | Path, format: str | None = None, selection: FileSelection = ALL_FILES) -> str:
    """The split that a model fine-tuned on this data is scored on: test; dev, where that is given and test is not.

    Example:
        >>> scored_split("stories")
        'test'
    """
    return "test" if name_or_path == STORIES else scored_split_of(find_source(name_or_path, format, selection))


def scored_split_of(source: CorpusSource) -> str:
    """See `scored_split`."""
    return "dev" if "dev" in source.files and "test" not in source.files else "test"


def find_source(
    name_or_path: str | Path, format: str | None = None, selection: FileSelection = ALL_FILES
) -> CorpusSource:
    """Find the corpus in the catalogue (fetching it if needed) or on disk; write `./ewt` for a folder named ewt."""
    entry = get_entry(str(name_or_path))
    if selection != ALL_FILES and not Path(name_or_path).is_dir():
        raise CorpusError(
            f"--include and --exclude choose files of a folder, and {name_or_path} is none; leave them out"
        )
    if entry is not None:
        return _from_catalogue(entry)
    if is_hub_name(str(name_or_path)):
        return _from_hub(str(name_or_path), format)
    refuse_unknown(name_or_path)
    path = Path(name_or_path)
    form = get_format(format) if format else detect(path, selection)
    contents = folder_contents(path, form, selection)
    if not contents.read:
        raise CorpusError(f"{path} holds no {form.name} file ({form.title})")
    if contents.in_words():
        _say_once(f"not read: {contents.in_words()}; `lamina data check {path}` lists every file")
    root = path if path.is_dir() else path.parent
    by_split = files_by_split(path, contents.read) if path.is_dir() else {split_of(path.name): contents.read}
    return CorpusSource(str(name_or_path), root, form, by_split, form.scheme, None, unread=contents.unread)


@cache
def _say_once(line: str) -> None:
    """A corpus is looked up several times in a run, and for every split."""
    say(line)


def _stories(split: str, unit: str, seed: int, view: View) -> Corpus:
    """The corpus that is generated instead of read."""
    kind_view = view.of_kind(STORIES)
    note = split_note(split, seed, kind_view.tasks)
    return Corpus(
        name=STORIES,
        split=split,
        unit=unit,
        scheme="bAbI",
        fingerprint=fingerprint_of(STORIES, VERSION, unit, note),
        source=lambda: in_units(
            (question.text for question in story_questions(split, tasks=kind_view.tasks, seed=seed)), unit
        ),
        made_split=note,
        declared=("question", "sentence", "answer", "sup"),
        view=kind_view,
    )


def _from_hub(name: str, format: str | None) -> CorpusSource:
    dataset = hub_files(name)
    form = get_format(format or "table")
    root = next(path.parent for paths in dataset.files.values() for path in paths)
    return CorpusSource(name, root, form, dataset.files, form.scheme, None, revision=dataset.revision)


def _from_catalogue(entry: CorpusEntry) -> CorpusSource:
    from lamina.assets import locate

    root = locate(entry.name)
    form = get_format(entry.format)
    if entry.files:
        globbed = {split: tuple(sorted(root.glob(pattern))) for split, pattern in entry.files.items()}
        files: Files = {split: paths for split, paths in globbed.items() if paths}
    else:
        files = files_by_split(root, folder_contents(root, form).read)
    if not files:
        raise CorpusError(
            f"{root} holds none of the files of {entry.name}; `lamina assets remove {entry.name}` and retry"
        )
    return CorpusSource(entry.name, root, form, files, entry.scheme, entry.annotations, entry.documents, entry.complete)


def part_of(source: CorpusSource, split: str, seed: int, split_from: str | None = None) -> SplitPart:
    """Which texts of a corpus a split has."""
    listed = source.format.documents
    try:
        if split_from is not None:
            return divided_part(source.files, split_from, split, seed)
        if source.documents and listed is not None and split != "all":
            documents = [document for path in source.files[None] for document in listed(path)]
            return exact_part(documents, source.documents, split, seed)
        if source.complete:
            return whole_part(source.files, split)
        _refuse_to_make(source, split)
        # A split that is there, though unread, is not made of train either.
        return part(source.files if split == "all" else {*source.files, *source.not_made}, split, seed)
    except CorpusError as error:
        raise CorpusError(f"{source.name}: {error}") from None


def _refuse_to_make(source: CorpusSource, split: str) -> None:
    not_made = source.not_made
    if split in not_made or (split in SPLITS and not_made and not {*source.files} - {None}):
        path = not_made.get(split) or next(iter(not_made.values()))
        raise CorpusError(
            f"{path.name} is named like a split and is not read: {source.unread[path].why}. No split is made of the "
            f"other files while it lies there; give its format with --format, move it away, or ask for --split all"
        )


def _corpus(
    source: CorpusSource, split: str, unit: str, chosen: SplitPart, view: View, skip_faulty: float = 0.0
) -> Corpus:
    paths = [path for one in chosen.sources for path in source.files[one]]
    form = source.format
    hashes = {path: _sha256(path) for main in paths for path in (main, *form.companions(main))}
    files = {_relative(path, source.root): sha for path, sha in hashes.items()}
    kind_view, notes = view.of_kind(form.name), Notes(chosen.keep)

    def read() -> Iterator[Text]:
        faults = FaultyTexts(source.name, notes, skip_faulty)
        texts = (text for path in paths for text in _read_file(form, path, hashes, kind_view, notes, faults))
        return in_units(filter(chosen.holds, faults.counted(texts)), unit)

    # Only what differs from the default, so that the fingerprints of all other corpora stay as they are.
    named: list[Any] = [] if kind_view == View() else [kind_view.describe()]
    named += [["skip_faulty"]] if skip_faulty else []
    return Corpus(
        name=source.name,
        split=split,
        unit=unit,
        scheme=source.scheme,
        fingerprint=fingerprint_of(form.name, form.version, list(files.items()), split, unit, chosen.note, *named),
        source=read,
        files=files,
        made_split=chosen.note,
        declared=_annotations(source.annotations, unit),
        view=kind_view,
        notes=notes,
        unread={_relative(path, source.root): left.why for path, left in source.unread.items() if left.texts},
        revision=source.revision,
    )


class FaultyTexts:
    """Faults of one pass over the files: errors, or texts that are left out up to a share."""

    def __init__(self, name: str, notes: Notes, most: float) -> None:
        if not 0 <= most < 1:
            raise CorpusError(f"--skip-faulty is a share of the texts, from 0 to below 1; got {most}")
        self.most = most
        self._name, self._notes = name, notes
        self._texts = 0
        self._faults: list[Fault] = []
        self._count = 0

    def report(self, fault: Fault) -> None:
        """Stop at a fault, or count it; one of a whole file is always an error."""
        if not fault.line:
            raise_fault(fault)
        if not self.most:
            raise FormatError(f"{fault}. Mend the line, or leave out up to 5 % of the texts with --skip-faulty 0.05")
        self._count += 1
        self._faults = self._faults or [fault]
        self._notes.add_fault("texts with a fault in the file, left out (--skip-faulty)", fault)

    def counted(self, texts: Iterable[Value]) -> Iterator[Value]:
        """The texts, or questions; an error after the last one if more than the share had a fault."""
        for text in texts:
            self._texts += 1
            yield text
        share = self._count / max(1, self._count + self._texts)
        if share > self.most:
            raise CorpusError(
                f"{self._name}: {self._count:,} of {self._count + self._texts:,} texts have a fault ({share:.1%}), "
                f"more than --skip-faulty {self.most:g} allows; the first: {self._faults[0]}"
            )


def _sha256(path: Path) -> str:
    check_regular(path)
    return sha256_of(path)


def _read_file(
    form: Format, path: Path, hashes: Mapping[Path, str], view: View, notes: Notes, faults: FaultyTexts
) -> Iterator[Text]:
    noted = {"noted": notes} if form.notes else {}
    try:
        if form.questions is not None and view != View():
            texts = (question.text for question in form.questions(path, faults.report, noted=notes, view=view))
            yield from texts if view.segments == "two" else (replace(text, segments=()) for text in texts)
        elif form.slow and not faults.most:
            key = [form.name, str(form.version), *(hashes[file] for file in (path, *form.companions(path)))]
            yield from parsed_once(key, partial(form.read, path, faults.report))
        else:
            yield from form.read(path, faults.report, **noted)
    except OSError as error:
        raise CorpusError(f"{path} cannot be read: {error}") from error


def _annotations(declared: tuple[str, ...] | None, unit: str) -> tuple[str, ...] | None:
    return declared if declared is None or unit == "sentence" else (*declared, "sentence")


def _relative(path: Path, root: Path) -> str:
    return path.relative_to(root).as_posix() if path.is_relative_to(root) else path.name


def refuse_unknown(name_or_path: str | Path) -> None:
    """Raise a CorpusError for what is neither a catalogue name nor a dataset of the hub nor a path, without reading it.

    Example:
        >>> refuse_unknown("ewt")
        >>> refuse_unknown("minilm")
        Traceback (most recent call last):
        lamina.errors.CorpusError: minilm is a model, not a corpus of texts with labels; ...
    """
    name = str(name_or_path)
    if name != STORIES and get_entry(name) is None and not is_hub_name(name) and not Path(name).exists():
        raise CorpusError(_unknown(name))


def refuse_split(
    path: str | Path,
    split: str,
    format: str | None = None,
    split_from: str | None = None,
    *,
    learns: bool = False,
    selection: FileSelection = ALL_FILES,
) -> None:
    """Raise a CorpusError for a file or folder that cannot be read at all, or has no such split, by names alone.

    With `learns`, texts to learn from are needed too.

    Names of the catalogue and of the hub are left to loading, which may have to fetch them.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "own-dev.txt"
        >>> _ = path.write_text("Dogs bark .\\n")
        >>> refuse_split(path, "dev")
        >>> refuse_split(path, "test")
        Traceback (most recent call last):
        lamina.errors.CorpusError: ...: there is no test here, only dev; ask for --split dev or --split all, ...
    """
    name = str(path)
    if name == STORIES or get_entry(name) is not None or is_hub_name(name):
        return
    try:
        source = find_source(path, format, selection)
        if learns and not split_from:
            _refuse_untrainable(path, format, split, splits_of(source), selection)
        elif not learns:
            part_of(source, split, 0, split_from)
    except OSError as error:
        raise CorpusError(f"{path} cannot be read: {error.strerror or error}") from None


_READ_AT_ONCE = 2_000_000
"""Bytes of files that are read before anything else is done; larger ones take longer than importing torch."""


def refuse_faulty(path: str | Path, split: str, *, learns: bool = False, **how: Any) -> None:
    """Raise the error of a small file or folder that cannot be read as asked; `how` is read as by `load_corpus`.

    With `learns`, training texts are read too. Names of the catalogue and of the hub are left to loading.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "own.jsonl"
        >>> _ = path.write_text('{"text": "Dogs bark ."}\\n{"text": \\n')
        >>> refuse_faulty(path, "all")
        Traceback (most recent call last):
        lamina.errors.FormatError: ...own.jsonl:2: not JSON (...); expected one JSON object per line. Mend the line, ...
    """
    name = str(path)
    if name == STORIES or get_entry(name) is not None or is_hub_name(name):
        return
    selection = FileSelection.of(how.get("include"), how.get("exclude"))
    files = [file for files in find_source(path, how.get("format"), selection).files.values() for file in files]
    if sum(file.stat().st_size for file in files if file.is_file()) > _READ_AT_ONCE:
        return
    splits = load_splits(path, split, **how) if learns else None
    corpora = (load_corpus(path, split, **how),) if splits is None else (splits.train, splits.scored)
    for corpus in corpora:
        for _ in corpus:
            pass


def _unknown(name: str) -> str:
    from lamina.assets import cards

    if "/" in name or "\\" in name or Path(name).suffix:
        hub = f", and so does a dataset of the Hugging Face hub: hf:{name}" if name.count("/") == 1 else ""
        return f"file or folder not found: {name}; a catalogue name works too, see `lamina data list`{hub}"
    if (card := cards().get(name)) and card.kind != "corpus":
        what = {"suite": "a test suite for language models", "vectors": "a set of word vectors"}
        kind = what.get(card.kind, "a model")
        return f"{name} is {kind}, not a corpus of texts with labels; `lamina data list` shows the corpora"
    close = get_close_matches(name, names(), n=3, cutoff=0.5)
    meant = f"did you mean {' or '.join(close)}? " if close else ""
    return (
        f"unknown corpus {name!r}: neither a catalogue name nor a path; {meant}`lamina data list` shows the catalogue"
    )


def _emptiness(source: CorpusSource, split: str, chosen: SplitPart, corpus: Corpus) -> str:
    if corpus.notes.in_words():
        return f"{source.name} ({split}): every question is left out ({corpus.notes.in_words()}); give other questions"
    if corpus.view.tasks is not None:
        tasks = ", ".join(map(str, corpus.view.tasks))
        return f"{source.name} ({split}) has no questions of task {tasks}; choose others (tasks of the view)"
    if chosen.note is None:
        where = ", ".join(str(path) for one in chosen.sources for path in source.files[one][:3])
        return f"{source.name} ({split}) is empty: {source.format.name} finds no text in {where}"
    return (
        f"{source.name} is too small to have a {split} ({chosen.note}, which is none); give more documents, or ask for "
        "--split all where nothing is learned"
    )
