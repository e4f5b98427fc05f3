"""`lamina geometry`: the shape of every layer's space."""

from __future__ import annotations

from typing import Annotated

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


def geometry(
    model: ModelArgument,
    corpus: CorpusOption = "ewt",
    split: SplitOption = "dev",
    out: OutOption = None,
    unit: UnitOption = "sentence",
    format: FormatOption = None,
    limit: LimitOption = None,
    samples: Annotated[int, typer.Option("--samples", min=1, help="Bootstrap samples for the intervals.")] = 1000,
    min_count: Annotated[int, typer.Option("--min-count", min=2, help="Occurrences a word type needs.")] = 5,
    twin: Annotated[bool, typer.Option(help="Put the random-weights twin beside the model.")] = True,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of the bootstrap and the twin.")] = 0,
    store: StoreOption = None,
    device: DeviceOption = None,
    dry_run: DryRunOption = False,
) -> None:
    """How alike words are at each layer: in general, across a word's contexts, within a sentence.

    Writes `layers.csv` with columns model, layer, measure, value, low, high; charts; and provenance.

    Example: `lamina geometry minilm --corpus ewt --split dev --out results/geometry`
    """
    from lamina import analyses
    from lamina.activations import estimate
    from lamina.corpora import load_corpus
    from lamina.encoders import load_encoder

    texts = load_corpus(corpus, split=split, unit=unit, format=format, limit=limit)
    encoder = load_encoder(model, device=device)
    if dry_run:
        print(expected(estimate(encoder, texts, root=store), passes=1 + (twin and encoder.blocks > 0)))
        return
    folder = results_folder(out, "geometry", model, corpus, split)
    settings = {"samples": samples, "min_count": min_count, "twin": twin, "seed": seed}
    result = analyses.ask(analyses.geometry, encoder, texts, folder, root=store, **settings)
    for reason, count in result.provenance.skipped.items():
        if count:
            print(f"{count:,} {reason}")
    print(folder)
