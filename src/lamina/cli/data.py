"""`lamina data`: look at corpora, count them, check and convert your own."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lamina.cli.options import FormatOption, LimitOption, SplitOption, UnitOption

app = typer.Typer(
    no_args_is_help=True,
    help="Corpora: what there is, what it holds, whether your own files are sound.",
)

CorpusArgument = Annotated[
    str, typer.Argument(metavar="CORPUS", help="A catalogue name (`lamina data list`) or the path of a file or folder.")
]
AnnotationOption = Annotated[str | None, typer.Option("--annotation", help="Only this annotation, such as pos or ner.")]


@app.command("list")
def list_() -> None:
    """Show the corpora that have a name: what they carry, where they are from, whether they are at hand."""
    from lamina.assets import cards, held
    from lamina.corpora.catalogue import CATALOGUE
    from lamina.corpora.loading import find_source, splits_of

    for entry in CATALOGUE:
        card = cards()[entry.name]
        here = held(entry.name) is not None
        splits = splits_of(find_source(entry.name)) if here else entry.splits_within(card.members)
        typer.echo(f"{typer.style(entry.name, bold=True)}  ({'at hand' if here else 'not at hand'})")
        typer.echo(f"  {entry.title}")
        typer.echo(f"  annotations: {', '.join(entry.annotations) or 'none'}  ({entry.scheme})")
        typer.echo(f"  splits: {', '.join(splits)}")
        typer.echo(f"  from: {card.origin}, {card.licence}")
        if card.note and not here:
            typer.echo(f"  note: {card.note}")
    typer.echo("\nstories is a corpus of questions that is made on the spot, with nothing to download.")
    typer.echo("A file or folder of your own works wherever a name does: --corpus PATH")


@app.command()
def show(
    corpus: CorpusArgument,
    split: SplitOption = "all",
    format: FormatOption = None,
    unit: UnitOption = "sentence",
    limit: LimitOption = 5,
    annotation: AnnotationOption = None,
) -> None:
    """Print texts with their edges."""
    from lamina.cli.edges import text_lines
    from lamina.corpora import load_corpus

    loaded = load_corpus(corpus, split, unit=unit, format=format, limit=limit)
    if annotation is not None:
        _require(annotation, loaded.annotations, corpus)
    for text in loaded:
        typer.echo("\n".join(text_lines(text, annotation)) + "\n")


@app.command()
def stats(
    corpus: CorpusArgument,
    split: Annotated[
        str | None, typer.Option("--split", help="Only this split; every one there is by default.")
    ] = None,
    format: FormatOption = None,
    unit: UnitOption = "sentence",
    annotation: AnnotationOption = None,
    csv: Annotated[Path | None, typer.Option("--csv", help="Also write the table to this CSV file.")] = None,
) -> None:
    """Count texts, words, targets and labels per split; with --annotation, how often each of its labels occurs."""
    from lamina.cli.tables import frequencies, print_table, volumes, write_csv
    from lamina.corpora import load_corpus
    from lamina.corpora.counting import Counts
    from lamina.corpora.loading import known_splits
    from lamina.progress import progress

    title = ""
    counts: dict[str, Counts] = {}
    notes: list[str] = []
    for one in [split] if split else known_splits(corpus, format):
        loaded = load_corpus(corpus, one, unit=unit, format=format)
        title = f"{loaded.name}: {loaded.scheme}"
        counts[one] = Counts()
        notes += [loaded.made_split] if loaded.made_split else []
        with progress(f"counting {one}") as advance:
            for text in loaded:
                counts[one].add(text)
                advance()
    if annotation is not None:
        _require(annotation, sorted({name for count in counts.values() for name in count.labels}), corpus)
    table = volumes(counts) if annotation is None else frequencies(counts, annotation)
    print_table(title, table, notes)
    if csv is not None:
        write_csv(csv, table)


@app.command()
def check(
    path: Annotated[Path, typer.Argument(help="Your file or folder.")],
    format: FormatOption = None,
) -> None:
    """Read a file or folder of your own and report every fault with its line."""
    from lamina.corpora.counting import Counts, counted
    from lamina.corpora.faults import Fault
    from lamina.corpora.formats import detect, files_of, get_format
    from lamina.errors import CorpusError

    if not path.exists():
        raise CorpusError(f"there is no file or folder {path}")
    form = get_format(format) if format else detect(path)
    faults = 0

    def tell(fault: Fault) -> None:
        nonlocal faults
        faults += 1
        typer.echo(str(fault))

    counts = Counts()
    noted: dict[str, list[str]] = {}
    for file in files_of(path, form):
        texts = form.read(file, tell, noted) if form.notes else form.read(file, tell)
        for _ in counted(texts, counts):
            pass
    for what, ids in noted.items():
        typer.echo(f"{len(ids)} times {what} (first {ids[0]})")
    held = f"{counts.texts} texts, {counts.words} words, read as {form.name}"
    if not faults and not counts.texts:
        tell(Fault(path, 0, "no text in it", form.title))
    if faults:
        typer.echo(f"{faults} faults; sound: {held}")
        raise typer.Exit(1)
    typer.echo(f"no faults: {held}")


@app.command()
def convert(
    corpus: CorpusArgument,
    out: Annotated[Path, typer.Argument(help="The file to write.")],
    annotation: Annotated[str, typer.Option("--annotation", help="Which annotation to write, such as pos or srl.")],
    split: SplitOption = "all",
    format: FormatOption = None,
    unit: UnitOption = "sentence",
    limit: LimitOption = None,
) -> None:
    """Write one annotation of a corpus as edge-probing JSONL."""
    from lamina.corpora import load_corpus
    from lamina.corpora.counting import Counts, counted
    from lamina.corpora.edge_jsonl import write

    loaded = load_corpus(corpus, split, unit=unit, format=format, limit=limit)
    _require(annotation, loaded.annotations, corpus)
    counts = Counts()
    written = write(counted(loaded, counts), annotation, out)
    typer.echo(f"{out}: {written} texts, {counts.targets[annotation]} targets of {annotation}")


def _require(annotation: str, carried: list[str] | tuple[str, ...], corpus: str) -> None:
    from lamina.errors import CorpusError

    if annotation not in carried:
        raise CorpusError(f"{corpus} carries no {annotation!r}; it carries {', '.join(carried) or 'no annotation'}")
