"""`lamina data`: list, get, show, count, check and convert corpora."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lamina.cli import terminal
from lamina.cli.terminal import Cell, TextTable
from lamina.errors import CorpusError

if TYPE_CHECKING:
    from lamina.assets import Card
    from lamina.corpora import Corpus
    from lamina.corpora.corpus import CorpusCounts
    from lamina.corpora.detection import FolderContents
    from lamina.corpora.formats.catalogue import Format
    from lamina.types import Edge, Span, Text


def get(
    names: Annotated[
        list[str],
        typer.Argument(help="Names from `lamina data list`, or a suite of tasks: pipeline or qa."),
    ],
) -> None:
    """Get corpora, or those of a suite: size, licence and origin first, then what is missing, then counts."""
    from lamina import assets
    from lamina.errors import AssetError, LaminaError
    from lamina.progress import say

    wanted = _cards(names)
    for card in wanted:
        for line in _about(card, assets.local_folder(card.name)):
            typer.echo(line)
    typer.echo("")
    failed: list[str] = []
    for card in wanted:
        try:
            folder = assets.locate(card.name)
        except LaminaError as error:
            if len(wanted) == 1:
                raise
            # The others may still be fetched.
            say(str(error))
            failed.append(card.name)
            continue
        typer.echo(f"{card.name}: {folder}")
        for line in _contents(card, folder):
            typer.echo(f"  {line}")
    if failed:
        raise AssetError(f"{len(failed)} of {len(wanted)} corpora could not be fetched: {', '.join(failed)}")


def _cards(names: list[str]) -> list[Card]:
    """The cards of the names, those of suites included, each once."""
    from lamina import assets
    from lamina.corpora.questions.babi import STORIES
    from lamina.errors import CorpusError

    known = assets.cards()
    wanted: dict[str, Card] = {}
    for name in names:
        if name == STORIES:
            typer.echo(f"{STORIES} is generated and needs no download")
            continue
        corpora = (name,) if name in known else _suite_corpora(name)
        for corpus in corpora:
            wanted[corpus] = assets.find(corpus)
        if wanted[corpora[-1]].kind == "model":
            raise CorpusError(f"{name} is a model, not a corpus; get it with `lamina assets get {name}`")
    return list(wanted.values())


def _suite_corpora(name: str) -> tuple[str, ...]:
    """The corpora of a suite; an error with close names if there is none."""
    from difflib import get_close_matches

    from lamina import assets
    from lamina.analyses.layers.probe.planning import SUITES
    from lamina.errors import CorpusError

    if name in SUITES:
        return tuple(dict.fromkeys(SUITES[name].corpora.values()))
    close = get_close_matches(name, [*SUITES, *assets.cards()], n=3)
    hint = f"; did you mean {' or '.join(close)}?" if close else "."
    raise CorpusError(
        f"there is no corpus or suite {name!r}{hint} Corpora: `lamina data list`; suites: {', '.join(SUITES)}"
    )


def _about(card: Card, here: Path | None) -> Iterator[str]:
    """Size, licence and origin, printed before it is fetched."""
    from lamina.assets.recipes import CorpusRecipe

    state = "on this machine" if here else "to be fetched" if card.sources else "lamina has no source of it"
    yield f"{typer.style(card.name, bold=True)}  {card.size / 1e6:.1f} MB, {card.licence}  ({state})"
    yield f"  {card.what}"
    recipe = next((source for source in card.sources if isinstance(source, CorpusRecipe)), None)
    if recipe is None:
        yield f"  from {card.origin}"
        return
    for origin in recipe.origins:
        how = ", out of the archive of the whole repository" if origin.archive else ""
        yield f"  from {origin.page}: {len(origin.files):,} files, {origin.size / 1e6:.1f} MB{how}"


def _contents(card: Card, folder: Path) -> Iterator[str]:
    """What the folder holds: the counts of a derived corpus, else the number and size of the files."""
    from lamina import assets
    from lamina.assets.recipes import counts_in

    if assets.is_cached(card.name) and (counts := counts_in(folder)):
        yield from counts
        return
    files = {path for member in card.members for path in folder.glob(member) if path.is_file()}
    yield f"{len(files):,} files, {sum(path.stat().st_size for path in files) / 1e6:.1f} MB"


_SUITE_WIDTH = 160


def find_suite(name: str) -> Card | None:
    """The card of the suite of this name, or None.

    Example:
        >>> suite = find_suite("blimp")
        >>> suite.licence if suite else None
        'CC BY 4.0'
        >>> find_suite("ewt") is None
        True
    """
    from lamina.assets import cards

    card = cards().get(name)
    return card if card is not None and card.kind == "suite" else None


def list_suites() -> Iterator[str]:
    """What `lamina data list` says about suites."""
    from lamina.assets import cards, local_folder

    for card in cards().values():
        if card.kind == "suite":
            here = "on this machine" if local_folder(card.name) else "not on this machine"
            yield f"{card.name}  ({here})"
            yield f"  {card.what}"
            yield f"  from: {card.origin}, {card.licence}"


def show_suite(card: Card, limit: int | None) -> Iterator[str]:
    """What a suite is, where its files are, and the first items of its first file; fetches the suite if needed."""
    from lamina.assets import locate

    folder = locate(card.name)
    files = [path for member in card.members for path in sorted(folder.glob(member))]
    yield f"{card.name}: {card.what}"
    yield "A test suite for language models, not a corpus of texts with labels: it has no splits and no tasks to probe."
    yield f"Files: {len(files):,}, in {folder} ({card.licence})"
    if files:
        yield f"\n{files[0].relative_to(folder).as_posix()}:"
        yield from islice(_suite_items(files[0]), limit)


def _suite_items(path: Path) -> Iterator[str]:
    from lamina.files.reading import open_regular, parse_json, read_regular

    if path.suffix == ".json":
        try:
            yield from _regions(parse_json(read_regular(path).decode("utf-8-sig")))
        except (ValueError, TypeError, AttributeError, KeyError) as error:
            raise CorpusError(f"{path} is not a SyntaxGym suite ({error}); remove it, or get the suite again") from None
        return
    with open_regular(path) as file:
        for line in file:
            text = line.decode("utf-8", errors="replace").strip()
            yield f"  {text if len(text) <= _SUITE_WIDTH else text[: _SUITE_WIDTH - 3] + '...'}"


def _regions(suite: dict[str, Any]) -> Iterator[str]:
    """The sentences of a SyntaxGym suite, regions separated by bars."""
    for item in suite["items"]:
        for condition in item["conditions"]:
            regions = " | ".join(str(region.get("content", "")) for region in condition["regions"])
            yield f"  item {item.get('item_number')}, {condition.get('condition_name')}: {regions}"


app = typer.Typer(
    no_args_is_help=True,
    help="List, get, show and count corpora; check and convert your own files.",
)
app.command()(get)

CorpusArgument = Annotated[
    str,
    typer.Argument(
        metavar="CORPUS", help="A catalogue name (`lamina data list`), the path of a file or folder, or hf:OWNER/NAME."
    ),
]
AnnotationOption = Annotated[str | None, typer.Option("--annotation", help="Only this annotation, such as pos or ner.")]


@app.command("list")
def list_() -> None:
    """List the named corpora and test suites: annotations, splits, origin, and whether they are on this machine."""
    from lamina.assets import cards, local_folder
    from lamina.corpora.catalogue import CATALOGUE
    from lamina.corpora.loading import find_source, splits_of

    for entry in CATALOGUE:
        card = cards()[entry.name]
        here = local_folder(entry.name) is not None
        splits = splits_of(find_source(entry.name)) if here else entry.splits_within(card.members)
        typer.echo(f"{typer.style(entry.name, bold=True)}  ({'on this machine' if here else 'not on this machine'})")
        typer.echo(f"  {entry.title}")
        typer.echo(f"  annotations: {', '.join(entry.annotations) or 'none'}  ({entry.scheme})")
        typer.echo(f"  splits: {', '.join(splits)}")
        typer.echo(f"  from: {card.origin}, {card.licence}")
        if card.note and not here:
            typer.echo(f"  note: {card.note}")
    typer.echo("\nThe corpus `stories` (questions) is generated and needs no download.")
    typer.echo("\nTest suites for language models; `lamina data show NAME` prints the first items:\n")
    for line in list_suites():
        typer.echo(line)
    typer.echo("")
    typer.echo("Your own file or folder works wherever a name does: --corpus PATH")


_PRINTED = 5
"""Texts that are printed by default."""


@app.command()
def show(
    corpus: CorpusArgument,
    split: terminal.SplitOption = "all",
    format: terminal.FormatOption = None,
    include: terminal.IncludeOption = None,
    exclude: terminal.ExcludeOption = None,
    skip_faulty: terminal.SkipFaultyOption = 0.0,
    split_from: terminal.SplitFromOption = None,
    unit: terminal.UnitOption = "sentence",
    limit: terminal.LimitOption = None,
    first: Annotated[int | None, typer.Option("--first", min=1, help="Print the first N texts; 5 by default.")] = None,
    annotation: AnnotationOption = None,
) -> None:
    """Print texts with their edges; of a test suite, its first items."""
    from lamina.corpora import load_corpus

    if suite := find_suite(corpus):
        for line in show_suite(suite, limit or first or _PRINTED):
            typer.echo(line)
        return
    files: dict[str, Any] = {"include": include, "exclude": exclude}
    files |= {"skip_faulty": skip_faulty, "split_from": split_from}
    most = _PRINTED if limit is None and first is None else first
    loaded = load_corpus(
        corpus,
        split,
        unit=unit,
        format=format,
        **files,
        limit=limit,
        first=most,
    )
    if annotation is not None:
        _require(annotation, loaded.annotations, corpus)
    for text in loaded:
        typer.echo("\n".join(text_lines(text, annotation)) + "\n")


@app.command()
def stats(
    corpus: CorpusArgument,
    split: Annotated[str | None, typer.Option("--split", help="Only this split; all splits by default.")] = None,
    format: terminal.FormatOption = None,
    include: terminal.IncludeOption = None,
    exclude: terminal.ExcludeOption = None,
    skip_faulty: terminal.SkipFaultyOption = 0.0,
    split_from: terminal.SplitFromOption = None,
    unit: terminal.UnitOption = "sentence",
    annotation: AnnotationOption = None,
    csv: Annotated[Path | None, typer.Option("--csv", help="Also write the table to this CSV file.")] = None,
) -> None:
    """Count texts, words, targets and labels per split; with --annotation, count each of its labels."""
    from lamina.cli.terminal import print_table
    from lamina.corpora import load_corpus
    from lamina.corpora.corpus import CorpusCounts
    from lamina.corpora.detection import FileSelection
    from lamina.corpora.loading import known_splits
    from lamina.corpora.splits import SPLITS
    from lamina.progress import progress

    files: dict[str, Any] = {"include": include, "exclude": exclude}
    files |= {"skip_faulty": skip_faulty, "split_from": split_from}
    selection = FileSelection.of(include, exclude)
    title = ""
    counts: dict[str, CorpusCounts] = {}
    notes: list[str] = []
    changed: list[str] = []
    given = SPLITS if split_from else known_splits(corpus, format, selection)
    for one in [split] if split else given:
        loaded = load_corpus(
            corpus,
            one,
            unit=unit,
            format=format,
            **files,
        )
        title = f"{loaded.name}: {loaded.scheme}"
        counts[one] = CorpusCounts()
        notes += [loaded.made_split] if loaded.made_split else []
        with progress(f"counting {one}") as advance:
            for text in loaded:
                counts[one].add(text)
                advance()
        changed += [f"{one}: {line}" for line in _left_out(loaded)]
    if annotation is not None:
        _require(annotation, sorted({name for count in counts.values() for name in count.labels}), corpus)
    table = _volumes(counts) if annotation is None else _frequencies(counts, annotation)
    print_table(title, table, notes)
    for line in changed:
        typer.echo(line)
    if csv is not None:
        _write_csv(csv, table)


def _volumes(counts: Mapping[str, CorpusCounts]) -> TextTable:
    """One row per split and annotation: numbers of texts, words, targets and different labels."""
    columns = ("split", "texts", "words", "annotation", "annotated", "targets", "labels")
    rows: list[tuple[Cell, ...]] = []
    for split, count in counts.items():
        for name in count.labels or [""]:
            kinds = len(count.labels.get(name, ()))
            rows.append((split, count.texts, count.words, name, count.annotated[name], count.targets[name], kinds))
    return TextTable(columns, rows)


def _frequencies(counts: Mapping[str, CorpusCounts], annotation: str) -> TextTable:
    """One row per label, the most frequent first: how often it occurs in each split."""
    counted = {split: count.labels.get(annotation, Counter()) for split, count in counts.items()}
    total = Counter[str]()
    for labels in counted.values():
        total.update(labels)
    rows = [(label, *(labels[label] for labels in counted.values())) for label, _ in total.most_common()]
    return TextTable((annotation, *counted), rows)


def _write_csv(path: Path, table: TextTable) -> None:
    """Write the table as CSV, with a header row."""
    import csv

    from lamina.files.writing import fresh_path, make_folder

    make_folder(path.parent)
    with fresh_path(path) as fresh, fresh.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(table.columns)
        writer.writerows(table.rows)


@app.command()
def check(
    path: Annotated[Path, typer.Argument(help="Your file or folder, or a dataset of the hub: hf:OWNER/NAME.")],
    format: terminal.FormatOption = None,
    include: terminal.IncludeOption = None,
    exclude: terminal.ExcludeOption = None,
    all: Annotated[bool, typer.Option("--all", help="Show every fault, not only the first of each kind.")] = False,
) -> None:
    """Check your own file or folder: the first faults of each kind with their lines, and how many there are."""
    from lamina.corpora.detection import FileSelection, FolderContents, detect, folder_contents
    from lamina.corpora.formats.catalogue import get_format
    from lamina.corpora.loading import find_source, is_hub_name
    from lamina.corpora.reading import Fault, FaultKinds, Notes
    from lamina.errors import CorpusError

    hub = find_source(str(path), format) if is_hub_name(str(path)) else None
    if hub is None and not path.exists():
        raise CorpusError(f"there is no file or folder {path}")
    faults = FaultKinds()

    def tell(fault: Fault) -> None:
        faults.add(fault)
        if all:
            typer.echo(str(fault))

    texts = words = 0
    noted, contents = Notes(), FolderContents(())
    try:
        if hub is not None:
            form, contents = hub.format, FolderContents(tuple(file for files in hub.files.values() for file in files))
        else:
            selection = FileSelection.of(include, exclude)
            suite = None if format else _pairs_in(path)
            if suite is not None:
                typer.echo(f"{suite}: score them with `lamina pairs MODEL --suite {path}`")
            try:
                form = get_format(format) if format else detect(path, selection)
            except CorpusError:
                if suite is None:
                    raise
                typer.echo(f"no faults: {suite}")
                return
            contents = folder_contents(path, form, selection)
        # Before anything is read, which takes longest.
        for line in _accounted(path, contents, all):
            typer.echo(line)
        for file in contents.read:
            for text in form.read(file, tell, noted) if form.notes else form.read(file, tell):
                texts += 1
                words += len(text.words)
    except OSError as error:
        raise CorpusError(f"{path} cannot be read: {error}") from error
    if not faults.total and not texts:
        tell(Fault(path, 0, "contains no text", f"some in a file that is read as {form.name} ({form.title})"))
    if not all:
        for line in faults.lines():
            typer.echo(line)
    for line in _explained(form, contents):
        typer.echo(line)
    for line in noted.lines():
        typer.echo(line)
    valid = f"{texts} texts, {words} words, read as {form.name}"
    if faults.total:
        hint = "" if all or faults.complete else "; --all shows all of them"
        counted = f"{faults.kinds} of faults; {faults.total:,} in all"
        typer.echo(f"{counted}{hint}; valid: {valid}")
        raise typer.Exit(1)
    typer.echo(f"no faults: {valid}")


def _pairs_in(path: Path) -> str | None:
    """What a file holds if it is a table of minimal pairs; None if it is none."""
    from lamina.corpora.suites.minimal_pairs import read_pairs
    from lamina.errors import LaminaError

    if not path.is_file():
        return None
    try:
        suite = read_pairs(path, skip_equal=True)
    except LaminaError:
        return None
    paradigms = len(suite.paradigms)
    return f"{len(suite):,} minimal pairs of {paradigms:,} paradigm{'' if paradigms == 1 else 's'}"


_MOST_NAMED, _MOST_LISTED = 5, 20
"""Files per split, and files that are not read, unless --all is given."""


def _explained(form: Format, contents: FolderContents) -> Iterator[str]:
    """What the columns of the files contain, for formats that detect it."""
    explanations = Counter(form.explain(file) for file in contents.read) if form.explain else {}
    for what, count in explanations.items():
        if what:
            yield what if len(explanations) == 1 else f"{what} ({count} of {len(contents.read)} files)"


def _accounted(path: Path, contents: FolderContents, every: bool) -> Iterator[str]:
    """Every file of a folder: by split if it is read, with the reason if it is not."""
    from lamina.corpora.splits import files_by_split

    if not path.is_dir():
        return
    for split, files in files_by_split(path, contents.read).items():
        named = [file.relative_to(path).as_posix() for file in files]
        listed = named if every else named[:_MOST_NAMED]
        more = f" and {len(named) - len(listed):,} more" if len(named) > len(listed) else ""
        yield f"read as {split or 'no split'}: {', '.join(listed)}{more}"
    left = list(contents.unread.items())
    for file, reason in left if every else left[:_MOST_LISTED]:
        yield f"not read: {file.relative_to(path).as_posix()}: {reason.why}"
    if not every and len(left) > _MOST_LISTED:
        yield f"not read: {len(left) - _MOST_LISTED:,} more files; --all lists them"


@app.command()
def convert(
    corpus: CorpusArgument,
    out: Annotated[Path, typer.Argument(help="The file to write.")],
    annotation: Annotated[str, typer.Option("--annotation", help="Which annotation to write, such as pos or srl.")],
    split: terminal.SplitOption = "all",
    format: terminal.FormatOption = None,
    include: terminal.IncludeOption = None,
    exclude: terminal.ExcludeOption = None,
    skip_faulty: terminal.SkipFaultyOption = 0.0,
    split_from: terminal.SplitFromOption = None,
    unit: terminal.UnitOption = "sentence",
    limit: terminal.LimitOption = None,
    first: terminal.FirstOption = None,
) -> None:
    """Write one annotation of a corpus as edge-probing JSONL."""
    from lamina.corpora import load_corpus
    from lamina.corpora.corpus import CorpusCounts, counted
    from lamina.corpora.formats.edge_jsonl import write
    from lamina.results.folder import refuse_unwritable_file

    refuse_unwritable_file(out)
    files: dict[str, Any] = {"include": include, "exclude": exclude}
    files |= {"skip_faulty": skip_faulty, "split_from": split_from}
    loaded = load_corpus(
        corpus,
        split,
        unit=unit,
        format=format,
        **files,
        limit=limit,
        first=first,
    )
    _require(annotation, loaded.annotations, corpus)
    counts = CorpusCounts()
    written = write(counted(loaded, counts), annotation, out)
    typer.echo(f"{out}: {written} texts, {counts.targets[annotation]} targets of {annotation}")
    for line in _left_out(loaded):
        typer.echo(line)


def _left_out(corpus: Corpus) -> list[str]:
    """What was left out or changed when the texts were read, one line per reason."""
    return [f"{count:,} {what}" for what, count in corpus.left_out().items()]


def _require(annotation: str, carried: list[str] | tuple[str, ...], corpus: str) -> None:
    from lamina.errors import CorpusError

    if annotation not in carried:
        raise CorpusError(f"{corpus} has no {annotation!r}; it has {', '.join(carried) or 'no annotations'}")


_WIDTH = 100


def text_lines(text: Text, annotation: str | None = None) -> Iterator[str]:
    """The text, then its annotations: tags of single words in one row, everything else one edge per line."""
    yield f"{text.id}  (document {text.doc})" if text.doc else text.id
    yield from _wrapped(" ".join(text.words), "  ")
    for name, edges in text.edges.items():
        if annotation is None or annotation == name:
            yield from _annotation_lines(name, edges, text)


def _annotation_lines(name: str, edges: tuple[Edge, ...], text: Text) -> Iterator[str]:
    if not edges:
        yield f"  {name}: nothing found"
    elif all(edge.other is None and edge.value is None and len(edge.span) == 1 for edge in edges):
        tags = " ".join(f"{text.words[edge.span.start]}/{_labels(edge)}" for edge in edges)
        yield from _wrapped(f"{name}: {tags}", "  ")
    else:
        yield f"  {name}:"
        yield from (_edge_line(edge, text) for edge in edges)


def _edge_line(edge: Edge, text: Text) -> str:
    line = f"    {_labels(edge)}  {_quoted(edge.span, text)}"
    if edge.other is not None:
        line += f" -> {_quoted(edge.other, text)}"
    return line if edge.value is None else f"{line}  value {edge.value:.3g}"


def _labels(edge: Edge) -> str:
    return "|".join(edge.labels) or "-"


def _quoted(span: Span, text: Text) -> str:
    return f"[{span.start}:{span.end}] {' '.join(text.words[span.start : span.end])}"


def _wrapped(line: str, indent: str) -> list[str]:
    return textwrap.wrap(
        line,
        _WIDTH,
        initial_indent=indent,
        subsequent_indent=indent * 2,
        break_long_words=False,
        break_on_hyphens=False,
    )
