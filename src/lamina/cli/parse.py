"""`lamina parse`: how much of a sentence's tree is in the attention maps."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any, Literal

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
    UnitOption,
)
from lamina.cli.tables import Table, number, print_table

if TYPE_CHECKING:
    from lamina.analyses.attention_maps.parse_planning import Foreseen


def parse(
    model: ModelArgument,
    corpus: CorpusOption = "ewt",
    split: Annotated[str, typer.Option("--split", help="What is scored: dev or test.")] = "dev",
    vectors: Annotated[
        str | None,
        typer.Option(
            "--vectors",
            help="Word vectors: glove, model (the model's own piece embeddings) or a file. "
            "GloVe where this machine has it, the model's own otherwise.",
        ),
    ] = None,
    rows: Annotated[
        Literal["mean", "first"],
        typer.Option("--from", help="Attention from a split word: the mean of its pieces, or its first piece."),
    ] = "mean",
    faithful: Annotated[
        bool,
        typer.Option("--faithful", help="With the slip of the paper's code: candidates get their neighbour's vector."),
    ] = False,
    texts: Annotated[
        int | None,
        typer.Option("--texts", min=1, help="Learn from about so many texts, in whole documents drawn by hash."),
    ] = None,
    out: OutOption = None,
    unit: UnitOption = "sentence",
    format: FormatOption = None,
    limit: LimitOption = None,
    twin: Annotated[bool, typer.Option(help="Put the same probes over random blocks beside the model.")] = True,
    samples: Annotated[int, typer.Option("--samples", min=1, help="Bootstrap samples for the intervals.")] = 1000,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of the order of texts, the twin, the bootstrap.")] = 0,
    device: DeviceOption = None,
    dry_run: DryRunOption = False,
) -> None:
    """Parser probes over attention maps: one weight a head, or weights that depend on the two words.

    Learns from the corpus's train for one epoch and scores dev (or test) without punctuation. Beside the probes: the
    next word as head, word vectors with distances, the same probes over random blocks, and trees straight from maps.

    Writes `uas.csv` with columns system, uas, uuas, low, high; `weights.csv`; `chosen.csv`; the trained probes; charts;
    and provenance.

    Example: `lamina parse minilm --corpus ewt --out results/parse`
    """
    from lamina import analyses
    from lamina.analyses.attention_maps.parse import parse as run
    from lamina.analyses.attention_maps.parse_planning import foresee
    from lamina.analyses.attention_maps.parse_sentences import default_vectors
    from lamina.encoders import load_encoder

    splits = analyses.load_splits(corpus, split, unit=unit, format=format, limit=limit, seed=seed)
    encoder = load_encoder(model, device=device)
    if dry_run:
        print(expected_parse(foresee(encoder, splits, twin=twin, texts=texts, seed=seed)))
        return
    folder = results_folder(out, "parse", model, corpus, split)
    settings: dict[str, Any] = {
        # By name: a result must not be taken for one with other vectors.
        "vectors": vectors or default_vectors(),
        "rows": rows,
        "faithful": faithful,
        "twin": twin,
        "texts": texts,
        "seed": seed,
        "samples": samples,
    }
    result = analyses.ask(run, encoder, splits, folder, **settings)
    print_table(f"{encoder.name} on {splits.name} ({split})", _scores(result.tables["uas"]), ())
    for reason, count in result.provenance.skipped.items():
        if count:
            print(f"{count:,} {reason}")
    print(folder)


def _scores(table: Any) -> Table:
    """The interval stands where it belongs: at UAS, or at UUAS where there is no UAS."""
    rows = []
    for row in table.itertuples():
        beside = (row.low, row.high) if math.isnan(row.uas) else ()
        rows.append((row.system, number(row.uas, row.low, row.high), number(row.uuas, *beside)))
    return Table(("system", "UAS", "UUAS"), rows)


def expected_parse(what: Foreseen) -> str:
    """What a dry run says."""
    return "\n".join(
        [
            f"texts    {what.learned:,} to learn from, {what.scored:,} to score",
            f"words    {what.words:,}",
            f"tokens   {what.tokens:,}",
            f"probes   {what.probes:,}",
            f"time     about {max(1, round(what.seconds)):,} s on this machine",
            "disk     next to nothing: maps are not stored",
        ]
    )
