"""`lamina contextualize`: how well each layer interprets a word in its context."""

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
    StoreOption,
)
from lamina.cli.tables import Table, number, print_table
from lamina.errors import InputError

if TYPE_CHECKING:
    from lamina.results import Result


def contextualize(
    model: ModelArgument,
    corpus: CorpusOption = "ewt",
    annotation: Annotated[
        str | None, typer.Option("--annotation", help="What has the classes; sclass or supersense by default.")
    ] = None,
    context_sizes: Annotated[
        str | None,
        typer.Option("--context-sizes", help="Words each side the model may see, as 0,2,8; as the preset says."),
    ] = None,
    vectors: Annotated[
        list[str] | None,
        typer.Option("--vectors", help="Static vectors beside the model: an asset or a file; repeat. `none`: no such."),
    ] = None,
    finetuned: Annotated[
        list[str] | None, typer.Option("--finetuned", help="A folder of this model, fine-tuned; repeat for several.")
    ] = None,
    preset: Annotated[str, typer.Option("--preset", help="quick (minutes) or paper (1024, 400 epochs).")] = "quick",
    seeds: Annotated[
        int | None, typer.Option("--seeds", min=1, help="How often to train; as the preset says by default.")
    ] = None,
    faithful: Annotated[
        bool, typer.Option("--faithful", help="As the paper: last epoch, vectors not scaled, dev results drawn.")
    ] = False,
    out: OutOption = None,
    format: FormatOption = None,
    limit: LimitOption = None,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of every draw and split.")] = 0,
    samples: Annotated[int, typer.Option("--samples", min=1, help="Bootstrap samples for the intervals.")] = 1000,
    store: StoreOption = None,
    device: DeviceOption = None,
    dry_run: DryRunOption = False,
) -> None:
    """How well each layer tells a word's semantic class, and how much of its context it takes.

    All texts of the corpus are used; words are split into train, dev and test. Beside every layer: vectors without
    context, bags of vectors, random vectors and permuted classes.

    Writes `sclass.csv`, `context.csv` and more (with `--finetuned` also `finetuning.csv` and
    `attention_similarity.csv`), charts, and provenance.

    Example: `lamina contextualize minilm --corpus ewt --out results/contextualize`
    """
    from lamina import analyses
    from lamina.activations import estimate
    from lamina.analyses.contextualization.contextualize import contextualize as analysis
    from lamina.corpora import load_corpus
    from lamina.encoders import load_encoder

    sizes = None if context_sizes is None else _sizes(context_sizes)
    texts = load_corpus(corpus, "all", format=format, limit=limit, seed=seed)
    encoder = load_encoder(model, device=device)
    if dry_run:
        print(expected(estimate(encoder, texts, root=store)))
        return
    folder = results_folder(out, "contextualize", model, corpus, "all")
    settings = {
        "annotation": annotation,
        "context_sizes": sizes,
        "vectors": ["glove"] if vectors is None else [name for name in vectors if name != "none"],
        "finetuned": finetuned or [],
        "preset": preset,
        "seeds": seeds,
        "faithful": faithful,
        "seed": seed,
        "samples": samples,
    }
    result = analyses.ask(analysis, encoder, texts, folder, root=store, device=device, **settings)
    title = f"{encoder.name} on {texts.name}: semantic classes of words in context"
    print_table(title, _table(result, "dev" if faithful else "test"), ())
    for reason, count in result.provenance.skipped.items():
        if count:
            print(f"{count:,} {reason}")
    print(folder)


def _sizes(said: str) -> list[int]:
    try:
        return [int(size) for size in said.split(",") if size.strip()]
    except ValueError:
        raise InputError(f"--context-sizes takes counts of words, as 0,2,4,8,16,32; got {said!r}") from None


def _table(result: Result, split: str) -> Table:
    rows = []
    for name in ("sclass", "context"):
        # pandas comes without types, and what a checker guesses of them refuses sound expressions.
        table: Any = result.tables[name]
        shown = table[(table["class"] == "all") & (table["seed"] == "all") & (table["split"] == split)]
        for row in shown.to_dict("records"):
            layer = str(row["layer"]) if isinstance(row["layer"], int) else "-"
            rows.append((row["representation"], layer, row["context"], number(row["value"], row["low"], row["high"])))
    return Table(("representation", "layer", "context", f"micro-F1, {split} words"), rows)
