"""`lamina corefheads`: which head finds antecedents."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from lamina.cli.encode import results_folder
from lamina.cli.heads import FromOption, SamplesOption, SeedOption, foreseen, print_skipped
from lamina.cli.options import (
    CorpusOption,
    DeviceOption,
    DryRunOption,
    FormatOption,
    LimitOption,
    ModelArgument,
    OutOption,
    SplitOption,
)


def corefheads(
    model: ModelArgument,
    corpus: CorpusOption = "gum_open",
    split: SplitOption = "dev",
    out: OutOption = None,
    unit: Annotated[
        str | None,
        typer.Option(
            "--unit",
            help="What becomes one text before it is cut into windows: document where the corpus has chains of "
            "mentions; otherwise (GAP) the texts as they are.",
        ),
    ] = None,
    format: FormatOption = None,
    limit: LimitOption = None,
    among: Annotated[
        Literal["words", "mentions"],
        typer.Option("--among", help="A head picks among all other words, or among the earlier mentions only."),
    ] = "words",
    window: Annotated[int, typer.Option("--window", min=16, help="Most pieces of a window.")] = 512,
    rows: FromOption = "mean",
    faithful: Annotated[
        bool, typer.Option("--faithful", help="Only the first 128 pieces of each document, as in the paper.")
    ] = False,
    samples: SamplesOption = 1000,
    seed: SeedOption = 0,
    device: DeviceOption = None,
    dry_run: DryRunOption = False,
) -> None:
    """How often each attention head finds a mention's antecedent, beside three simple baselines.

    Writes `coref.csv` with columns system, layer, head, mention_type, count, accuracy, low, high; charts; and
    provenance. The best head is chosen on one half of the documents and scored on the other.

    Example: `lamina corefheads minilm --corpus gum_open --split dev --out results/corefheads`
    """
    from lamina.analyses import ask
    from lamina.analyses.attention_maps.corefheads import corefheads as analysis
    from lamina.analyses.attention_maps.corefheads import cut
    from lamina.analyses.attention_maps.foresight import foresee
    from lamina.corpora import load_corpus
    from lamina.encoders import load_encoder

    texts = load_corpus(corpus, split=split, unit=unit or "sentence", format=format, limit=limit if unit else None)
    if unit is None:
        joined = "document" if "chains" in texts.annotations else "sentence"
        texts = load_corpus(corpus, split=split, unit=joined, format=format, limit=limit)
    encoder = load_encoder(model, device=device)
    if dry_run:
        print(foreseen(foresee(encoder, *cut(encoder, texts, window=window, faithful=faithful))))
        return
    folder = results_folder(out, "corefheads", model, corpus, split)
    settings = {
        "among": among,
        "window": window,
        "rows": rows,
        "faithful": faithful,
        "samples": samples,
        "seed": seed,
    }
    result = ask(analysis, encoder, texts, folder, **settings)
    print_skipped(result.provenance.skipped)
    print(folder)
