"""`lamina neighbours`: what lies near a word, without context and at each layer in its contexts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from lamina.cli.encode import expected, results_folder
from lamina.cli.options import (
    CorpusOption,
    DeviceOption,
    DryRunOption,
    FormatOption,
    LimitOption,
    ModelArgument,
    OutOption,
    SplitOption,
    StoreOption,
    UnitOption,
)
from lamina.cli.tables import Table, print_table

if TYPE_CHECKING:
    from lamina.results import Result

_PRINTED = 3
"""Contexts."""


def neighbours(
    model: ModelArgument,
    word: Annotated[
        str | None,
        typer.Option(
            "--word", help="Which word, in any case; where none is named, the one whose classes lie farthest apart."
        ),
    ] = None,
    corpus: CorpusOption = "ewt",
    split: SplitOption = "train",
    out: OutOption = None,
    unit: UnitOption = "sentence",
    format: FormatOption = None,
    limit: LimitOption = None,
    count: Annotated[int, typer.Option("--count", min=1, help="Neighbours of each context.")] = 10,
    vectors: Annotated[
        str, typer.Option("--vectors", help="Static vectors beside the model: an asset or a file. `none`: no such.")
    ] = "glove",
    annotation: Annotated[
        str | None, typer.Option("--annotation", help="What has the classes; sclass or supersense by default.")
    ] = None,
    most_contexts: Annotated[int, typer.Option("--most-contexts", min=1, help="Contexts looked at.")] = 100,
    repeat: Annotated[
        bool, typer.Option("--repeat", help="List a word as often as it is near, the word itself too.")
    ] = False,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of the draw of contexts.")] = 0,
    store: StoreOption = None,
    device: DeviceOption = None,
    dry_run: DryRunOption = False,
) -> None:
    """The nearest neighbours of a word, in static space and at each layer in its contexts; and a map of its senses.

    Writes `neighbours.csv`, `contexts.csv`, `senses.csv` (the contexts in two dimensions, by layer),
    `separation.csv` (how far classes lie apart), charts, and provenance.

    Example: `lamina neighbours minilm --word place --corpus ewt --split dev --out results/place`
    """
    from lamina import analyses
    from lamina.activations import estimate
    from lamina.analyses.contextualization.neighbours import neighbours as analysis
    from lamina.corpora import load_corpus
    from lamina.encoders import load_encoder

    texts = load_corpus(corpus, split=split, unit=unit, format=format, limit=limit)
    encoder = load_encoder(model, device=device)
    if dry_run:
        print(expected(estimate(encoder, texts, root=store)))
        return
    settings = {
        "word": word,
        "count": count,
        "vectors": None if vectors == "none" else vectors,
        "annotation": annotation,
        "most_contexts": most_contexts,
        "repeat": repeat,
        "seed": seed,
    }
    folder = results_folder(out, "neighbours", model, corpus, split)
    result = analyses.ask(analysis, encoder, texts, folder, root=store, **settings)
    print_table(f"{encoder.name} on {texts.name}: near “{result.provenance.corpus['word']}”", _table(result), ())
    for reason, number in result.provenance.skipped.items():
        if number:
            print(f"{number:,} {reason}")
    print(folder)


def _table(result: Result) -> Table:
    """Without context, then the first contexts at the last layer; files have the rest."""
    # pandas comes without types, and what a checker guesses of them refuses sound expressions.
    near: Any = result.tables["neighbours"]
    contexts: Any = result.tables["contexts"]
    rows = []
    for space, own in near[near["space"] != "layer"].groupby("space", sort=False):
        rows.append((space, "", ", ".join(own["neighbour"])))
    last = near["layer"].max()
    for context in contexts.head(_PRINTED).itertuples():
        own = near[(near["layer"] == last) & (near["context"] == context.context)]
        rows.append((f"layer {last}", context.sentence, ", ".join(own["neighbour"])))
    return Table(("space", "context", "nearest words"), rows)
