"""`lamina headmap`: which heads attend alike."""

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
    UnitOption,
)


def headmap(
    model: ModelArgument,
    corpus: CorpusOption = "ewt",
    split: SplitOption = "dev",
    out: OutOption = None,
    unit: UnitOption = "sentence",
    format: FormatOption = None,
    limit: LimitOption = None,
    length: Annotated[
        int | None, typer.Option("--length", min=8, help="The most tokens of a text; 128 in the paper.")
    ] = None,
    samples: Annotated[int, typer.Option("--samples", min=1, help="Bootstrap samples behind syntactic heads.")] = 500,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of the map's starts, the halves and the bootstrap.")] = 0,
    device: DeviceOption = None,
    dry_run: DryRunOption = False,
) -> None:
    """A map of all heads: those that attend alike stand close, coloured by layer and by what they do.

    Writes `points.csv` with columns layer, head, x, y, behaviour; `divergences.csv` (Jensen-Shannon, every two heads);
    `behaviours.csv` with the evidence; charts; and provenance. Syntactic heads need a corpus with dependencies.

    Example: `lamina headmap minilm --corpus ewt --split dev --out results/headmap`
    """
    from lamina import analyses
    from lamina.activations import estimate
    from lamina.analyses.attention_maps.headmap import headmap as ask_headmap
    from lamina.corpora import load_corpus
    from lamina.encoders import load_encoder

    texts = load_corpus(corpus, split=split, unit=unit, format=format, limit=limit)
    encoder = load_encoder(model, device=device)
    if dry_run:
        print(expected(estimate(encoder, texts)))
        return
    folder = results_folder(out, "headmap", model, corpus, split)
    settings = {"length": length, "samples": samples, "seed": seed}
    result = analyses.ask(ask_headmap, encoder, texts, folder, **settings)
    for reason, count in result.provenance.skipped.items():
        if count:
            print(f"{count:,} {reason}")
    print(folder)
