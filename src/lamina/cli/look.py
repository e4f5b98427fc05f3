"""`lamina look`: the attention of a few heads on a sentence, as lines."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Literal

import typer

from lamina.cli.options import DeviceOption, ModelArgument


def look(
    model: ModelArgument,
    sentence: Annotated[str, typer.Argument(metavar="SENTENCE", help="A sentence, in quotes.")],
    head: Annotated[
        list[str] | None,
        typer.Option(
            "--head",
            metavar="LAYER-HEAD",
            help="A head, both numbers from 1; repeat for several. Where none is named: the ones that stand out.",
        ),
    ] = None,
    level: Annotated[Literal["word", "piece"], typer.Option("--level", help="Words, or the model's pieces.")] = "word",
    special: Annotated[bool, typer.Option(help="Show special tokens ([CLS], [SEP]).")] = True,
    focus: Annotated[
        str | None,
        typer.Option("--focus", metavar="WORD", help="Only lines of this word, or of the word at this place."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="The folder to write; results/look-MODEL where not given.")
    ] = None,
    device: DeviceOption = None,
) -> None:
    """Draw where chosen heads look in a sentence: `lines.svg`, with `attention.csv` beside it.

    Where no head is named, those are shown that stand out on the sentence: most attention to the previous, next and
    first token, to separators, the broadest, and the one that reaches farther words.

    Example: `lamina look minilm "The dog that chased the cats barked." --head 3-1 --head 3-9`
    """
    from lamina.analyses.attention_maps.look import look as see
    from lamina.encoders import load_encoder

    encoder = load_encoder(model, device=device)
    result = see(encoder, sentence, heads=head or (), level=level, special=special, focus=focus)
    for layer, number, why, value in result.tables["heads"].itertuples(index=False):
        print(f"{layer}-{number}  {why}" + ("" if math.isnan(value) else f" {value:.2f}"))
    folder = result.save(out or Path("results") / f"look-{Path(model).name}")
    print(folder / "lines.svg")
