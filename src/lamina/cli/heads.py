"""`lamina heads`: which head finds which dependency."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from lamina.cli.encode import results_folder
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

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lamina.analyses.attention_maps.foresight import Foreseen

FromOption = Annotated[
    Literal["mean", "first"],
    typer.Option(
        "--from", help="Attention from a split word: the mean of its pieces, or the first (the released code)."
    ),
]
"""How rows of split words become one; "mean" by default."""

SamplesOption = Annotated[int, typer.Option("--samples", min=1, help="Bootstrap samples for the intervals.")]
SeedOption = Annotated[int, typer.Option("--seed", min=0, help="Of the halves and the bootstrap.")]


def heads(
    model: ModelArgument,
    corpus: CorpusOption = "ewt",
    split: SplitOption = "dev",
    out: OutOption = None,
    unit: UnitOption = "sentence",
    format: FormatOption = None,
    limit: LimitOption = None,
    rows: FromOption = "mean",
    faithful: Annotated[
        bool,
        typer.Option("--faithful", help="Choose the best heads on the texts they are scored on, as in the paper."),
    ] = False,
    samples: SamplesOption = 500,
    seed: SeedOption = 0,
    device: DeviceOption = None,
    dry_run: DryRunOption = False,
) -> None:
    """How many dependencies each attention head finds, by relation and direction, beside fixed offsets.

    Writes `relations.csv` (every head) and `best.csv` (the best, chosen on one half of the texts and scored on the
    other) with columns relation, direction, layer, head, count, accuracy, low, high, offset, offset_accuracy;
    `baselines.csv`; `examples.csv`; charts; and provenance.

    Example: `lamina heads minilm --corpus ud_english_ewt --split dev --out results/heads`
    """
    from lamina.analyses import ask
    from lamina.analyses.attention_maps.foresight import foresee
    from lamina.analyses.attention_maps.heads import heads as analysis
    from lamina.corpora import load_corpus
    from lamina.encoders import load_encoder

    texts = load_corpus(corpus, split=split, unit=unit, format=format, limit=limit)
    encoder = load_encoder(model, device=device)
    if dry_run:
        print(foreseen(foresee(encoder, texts)))
        return
    folder = results_folder(out, "heads", model, corpus, split)
    settings = {"rows": rows, "faithful": faithful, "samples": samples, "seed": seed}
    result = ask(analysis, encoder, texts, folder, **settings)
    print_skipped(result.provenance.skipped)
    print(folder)


def foreseen(what: Foreseen) -> str:
    """What a dry run says of watching attention: nothing is stored."""
    return "\n".join(
        [
            f"texts    {what.texts:,}",
            f"words    {what.words:,}",
            f"tokens   {what.tokens:,}",
            f"time     about {max(1, round(what.seconds)):,} s on this machine",
            "disk     only the result: attention maps are reduced as they come and never stored",
        ]
    )


def print_skipped(skipped: Mapping[str, int]) -> None:
    """A line for each reason that something was left out."""
    for reason, count in skipped.items():
        if count:
            print(f"{count:,} {reason}")
