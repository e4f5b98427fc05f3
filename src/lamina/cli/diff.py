"""`lamina diff`: what fine-tuning changed, layer by layer."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lamina.cli.encode import expected
from lamina.cli.options import (
    CorpusOption,
    DeviceOption,
    DryRunOption,
    FormatOption,
    LimitOption,
    OutOption,
    StoreOption,
    UnitOption,
)
from lamina.cli.tables import Table, number, print_table
from lamina.errors import InputError

if TYPE_CHECKING:
    from lamina.results import Result


def diff(
    model_a: Annotated[str, typer.Argument(metavar="MODEL_A", help="The model before: an alias, an id or a folder.")],
    model_b: Annotated[
        str, typer.Argument(metavar="MODEL_B", help="The model after: best a `lamina finetune` folder.")
    ],
    corpus: CorpusOption = "ewt",
    split: Annotated[str, typer.Option("--split", help="Which texts; with --probe those scored: dev or test.")] = "dev",
    out: OutOption = None,
    unit: UnitOption = "sentence",
    format: FormatOption = None,
    limit: LimitOption = None,
    probe: Annotated[
        list[str] | None, typer.Option("--probe", metavar="TASK", help="Probe both models; repeat for several tasks.")
    ] = None,
    probed_a: Annotated[
        Path | None, typer.Option("--probed-a", help="Instead, a `lamina probe` folder of MODEL_A ...")
    ] = None,
    probed_b: Annotated[Path | None, typer.Option("--probed-b", help="... and one of MODEL_B.")] = None,
    attention: Annotated[bool, typer.Option(help="Compare attention heads too.")] = True,
    twin: Annotated[bool, typer.Option(help="Measure CKA with the random-weights twin beside that of B.")] = True,
    preset: Annotated[str, typer.Option("--preset", help="Of the probes: quick or paper.")] = "quick",
    seeds: Annotated[int | None, typer.Option("--seeds", min=1, help="How often to train the probes.")] = None,
    samples: Annotated[int, typer.Option("--samples", min=1, help="Bootstrap samples for the intervals.")] = 1000,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of every draw.")] = 0,
    store: StoreOption = None,
    device: DeviceOption = None,
    dry_run: DryRunOption = False,
) -> None:
    """What changed from MODEL_A to MODEL_B, layer by layer and head by head, on texts that neither was tuned on.

    Writes `diff.csv` with columns layer, head, measure, value, low, high, baseline; charts; and provenance. Measures:
    cka, cosine, attention_similarity and (`--probe`) probe_a:TASK, probe_b:TASK, probe_difference:TASK.

    Example: `lamina diff minilm runs/squad --corpus ewt --probe pos --out results/diff`
    """
    if (probed_a is None) != (probed_b is None) or (probe and probed_a):
        raise InputError("give --probed-a and --probed-b together, or --probe; not one of them with the other")
    from lamina.activations import estimate
    from lamina.analyses.diff import diff as analysis
    from lamina.analyses.probing.splits import load_splits
    from lamina.corpora import load_corpus
    from lamina.encoders import load_encoder
    from lamina.results import Result, refuse_foreign

    reading: dict[str, Any] = {"unit": unit, "format": format, "limit": limit, "seed": seed}
    texts = load_splits(corpus, split, **reading) if probe else load_corpus(corpus, split, **reading)
    a, b = (load_encoder(name, device=device) for name in (model_a, model_b))
    if dry_run:
        looked_at = load_corpus(corpus, split, **reading)
        passes = 2 + (twin and a.blocks > 0) + 2 * (attention and a.heads > 0)
        print(expected(estimate(a, looked_at, root=store), passes=passes))
        return
    folder = out or Path("results") / f"diff-{Path(model_a).name}-{Path(model_b).name}-{Path(corpus).stem}-{split}"
    refuse_foreign(folder)
    result = analysis(
        a,
        b,
        texts,
        tasks=probe or (),
        probed=(Result.load(probed_a), Result.load(probed_b)) if probed_a and probed_b else None,
        attention=attention,
        twin=twin,
        preset=preset,
        seeds=seeds,
        samples=samples,
        seed=seed,
        device=device,
        root=store,
    )
    result.save(folder)
    title = f"{result.provenance.model['name']} on {texts.name} ({split}); in brackets: the baseline"
    print_table(title, _table(result), ())
    for reason, count in result.provenance.skipped.items():
        if count:
            print(f"{count:,} {reason}")
    print(folder)


def _table(result: Result) -> Table:
    """A row a layer; of heads their mean."""
    # pandas comes without types, and what a checker guesses of them refuses sound expressions.
    table: Any = result.tables["diff"]
    measures = list(dict.fromkeys(table["measure"]))
    means = table.groupby(["measure", "layer"])[["value", "baseline"]].mean()
    rows = []
    for layer in sorted(set(table["layer"])):
        cells = [means.loc[(name, layer)] if (name, layer) in means.index else None for name in measures]
        shown = ("-" if cell is None else f"{number(cell['value'])} ({number(cell['baseline'])})" for cell in cells)
        rows.append((layer, *shown))
    return Table(("layer", *measures), rows)
