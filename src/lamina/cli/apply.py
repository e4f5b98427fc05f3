"""`lamina apply`: label texts with a saved probe."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from lamina.types import Text


def apply(
    probe: Annotated[str, typer.Argument(metavar="PROBE", help="A folder that `lamina choose --save` wrote.")],
    corpus: Annotated[
        str, typer.Option("--corpus", help="A catalogue name, the path of a file or folder, or hf:OWNER/NAME.")
    ],
    out: Annotated[Path, typer.Option("--out", help="Where to write the labels (CSV).")],
    split: Annotated[str, typer.Option("--split", help="train, dev, test or all.")] = "all",
    format: Annotated[
        str | None, typer.Option("--format", help="The format, detected by default; table:text=COLUMN for columns.")
    ] = None,
    limit: Annotated[int | None, typer.Option("--limit", help="Take only the first N texts.", min=1)] = None,
) -> None:
    """Label the texts of a corpus with a saved probe.

    One row per text, or per word where the probe labels words: its label and the calibrated probability.

    Example: `lamina apply probe/ --corpus new.csv --out labels.csv`
    """
    from lamina.corpora import load_corpus
    from lamina.files.writing import write_text
    from lamina.probes.text_probe import load_probe

    loaded = load_probe(probe)
    texts = _one_column(corpus, limit) if format is None else None
    if texts is None:
        texts = list(load_corpus(corpus, split=split, format=format, limit=limit))
    answers = loaded(texts)
    written = io.StringIO()
    rows = csv.writer(written, lineterminator="\n")
    whole = loaded.card.targets == "whole texts"
    rows.writerow(("id", "label", "probability") if whole else ("id", "target", "label", "probability"))
    for text, answer in zip(texts, answers, strict=True):
        for number, one in enumerate([answer] if whole else answer):
            label = " ".join(one.label) if isinstance(one.label, tuple) else one.label
            sure = "" if one.probability != one.probability else f"{one.probability:.4f}"
            rows.writerow((text.id, label, sure) if whole else (text.id, number, label, sure))
    write_text(out, written.getvalue())
    print(f"{len(texts):,} texts labelled")
    print(out)


def _one_column(corpus: str, limit: int | None) -> list[Text] | None:
    """The texts of a CSV file that has nothing but texts, which no reader of labelled tables takes; None for others."""
    from lamina.corpora import corpus_from
    from lamina.files.reading import read_regular

    path = Path(corpus)
    if path.suffix.lower() != ".csv" or not path.is_file():
        return None
    rows = [row for row in csv.reader(io.StringIO(read_regular(path).decode("utf-8-sig"))) if row]
    if len(rows) < 2 or any(len(row) != 1 for row in rows):
        return None
    named = [(f"{path.stem}-{number}", row[0]) for number, row in enumerate(rows[1:], start=2)]
    return list(corpus_from([{"id": name, "text": text} for name, text in named]))[:limit]
