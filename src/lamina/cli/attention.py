"""`lamina attention`: what every head looks at."""

from __future__ import annotations

from typing import Annotated

import typer

from lamina.cli.encode import results_folder
from lamina.cli.heads import SamplesOption, foreseen, print_skipped
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


def attention(
    model: ModelArgument,
    corpus: CorpusOption = "ewt",
    split: SplitOption = "dev",
    out: OutOption = None,
    unit: UnitOption = "sentence",
    format: FormatOption = None,
    limit: LimitOption = None,
    pairs: Annotated[
        bool,
        typer.Option("--pairs", help="Show two consecutive texts of a document as two segments, as the paper did."),
    ] = False,
    length: Annotated[
        int | None,
        typer.Option(
            "--length", min=8, help="Most tokens of a text or pair; 128 for pairs, else what the model takes."
        ),
    ] = None,
    segments: Annotated[
        int | None, typer.Option("--segments", min=1, help="Draw so many texts or pairs; 1000 for pairs, else all.")
    ] = None,
    gradients: Annotated[
        bool, typer.Option("--gradients", help="Add the gradient of the model's own loss with respect to attention.")
    ] = False,
    samples: SamplesOption = 1000,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of the draw, the bootstrap and the masks.")] = 0,
    device: DeviceOption = None,
    dry_run: DryRunOption = False,
) -> None:
    """Where every head's attention goes: neighbours, the first token, separators, punctuation; how broad it is.

    Writes `surface.csv` with columns layer, head, measure, value, low, high, baseline (under uniform attention);
    `patterns.csv` with columns layer, head, pattern, share; with `--gradients` `gradients.csv` with columns layer,
    head, target, value; charts; and provenance.

    Example: `lamina attention minilm --corpus ewt --split dev --out results/attention`
    """
    from lamina.analyses import ask
    from lamina.analyses.attention_maps.attention import attention as analysis
    from lamina.analyses.attention_maps.attention import shown_of
    from lamina.analyses.attention_maps.foresight import foresee
    from lamina.corpora import load_corpus
    from lamina.encoders import load_encoder

    texts = load_corpus(corpus, split=split, unit=unit, format=format, limit=limit)
    encoder = load_encoder(model, device=device)
    if dry_run:
        shown, most = shown_of(texts, pairs=pairs, length=length, segments=segments, seed=seed)
        print(foreseen(foresee(encoder, shown, most)))
        return
    folder = results_folder(out, "attention", model, corpus, split)
    settings = {"pairs": pairs, "length": length, "segments": segments, "gradients": gradients}
    result = ask(analysis, encoder, texts, folder, seed=seed, samples=samples, **settings)
    print(f"{result.provenance.corpus['shown']}; first token: {result.provenance.model['first_token']}")
    print_skipped(result.provenance.skipped)
    print(folder)
