"""`lamina probe`: where in the network each linguistic ability lives."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

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
    StoreOption,
    UnitOption,
)
from lamina.cli.tables import Table, number, print_table

if TYPE_CHECKING:
    from lamina.analyses.probing.planning import Foreseen


def probe(
    model: ModelArgument,
    corpus: CorpusOption = "ewt",
    task: Annotated[
        list[str] | None, typer.Option("--task", help="A task to probe; repeat for several. All the corpus carries.")
    ] = None,
    probes: Annotated[
        str,
        typer.Option(
            "--probes",
            help="cumulative (layers 0 to l mixed, for every l), layer (layer l alone), mix (all layers mixed).",
        ),
    ] = "cumulative,layer,mix",
    seeds: Annotated[
        int | None, typer.Option("--seeds", min=1, help="How often to train; as the preset says by default.")
    ] = None,
    preset: Annotated[str, typer.Option("--preset", help="quick (minutes) or paper (the paper's schedule).")] = "quick",
    faithful: Annotated[
        bool,
        typer.Option(
            "--faithful", help="As the paper's code did it: stops on what is scored, raw layer 0, dropout on, roots."
        ),
    ] = False,
    metric: Annotated[
        str | None,
        typer.Option(
            "--metric",
            help="micro (F1 of all decisions together) or macro (the labels' mean F1); the task's own by default.",
        ),
    ] = None,
    mdl: Annotated[bool, typer.Option("--mdl", help="Measure the labels' description length too.")] = False,
    split: Annotated[str, typer.Option("--split", help="What is scored: dev or test.")] = "dev",
    out: OutOption = None,
    unit: UnitOption = "sentence",
    format: FormatOption = None,
    limit: LimitOption = None,
    twin: Annotated[bool, typer.Option(help="Put the random-weights twin beside the model.")] = True,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of the draw of texts, the control, the bootstrap.")] = 0,
    samples: Annotated[int, typer.Option("--samples", min=1, help="Bootstrap samples for the intervals.")] = 1000,
    store: StoreOption = None,
    device: DeviceOption = None,
    dry_run: DryRunOption = False,
) -> None:
    """How well each layer tells part of speech, dependencies, roles and more, and where the answers appear.

    Learns from the corpus's train, decides when to stop on a part of it, and scores dev (or test). Beside every score:
    the best constant answer, the random-weights twin, and a control task that only memory can learn.

    Writes `scores.csv`, `mixing.csv`, `summary.csv`, `order.csv`, `traces.csv` and more; every prediction as Parquet;
    the trained probes; charts; and provenance. A run that was stopped continues: run the same command again.

    Example: `lamina probe minilm --corpus ewt --task pos --task dep --out results/probe`
    """
    from lamina import analyses
    from lamina.analyses.probing.faithful import seen_by_probes
    from lamina.analyses.probing.planning import foresee, plan_run
    from lamina.encoders import load_encoder

    splits = analyses.load_splits(corpus, split, unit=unit, format=format, limit=limit, seed=seed)
    encoder = load_encoder(model, device=device)
    settings: dict[str, Any] = {
        "tasks": task or None,
        "probes": [name.strip() for name in probes.split(",") if name.strip()],
        "preset": preset,
        "seeds": seeds,
        "faithful": faithful,
        "metric": metric,
        "seed": seed,
        "device": device,
    }
    if dry_run:
        seen = seen_by_probes(encoder, faithful=faithful, seed=seed)
        print(expected_run(foresee(plan_run(encoder.layers, splits, **settings), seen, twin=twin, mdl=mdl, root=store)))
        return
    folder = results_folder(out, "probe", model, corpus, split)
    asked = settings | {"twin": twin, "samples": samples, "mdl": mdl}
    result = analyses.ask(analyses.probe, encoder, splits, folder, root=store, **asked)
    print_table(f"{encoder.name} on {splits.name} ({split})", _summary(result.tables["summary"]), ())
    for reason, count in result.provenance.skipped.items():
        if count:
            print(f"{count:,} {reason}")
    print(folder)


def _summary(table: Any) -> Table:
    columns = ("task", "F1 of P(0)", "F1 of P(L)", "center of gravity", "expected layer", "selectivity")
    rows = [
        (
            row.task,
            number(row.f1_first),
            number(row.f1_full),
            number(row.center_of_gravity, row.cog_low, row.cog_high),
            number(row.expected_layer, row.el_low, row.el_high),
            number(row.selectivity),
        )
        for row in table.itertuples()
    ]
    return Table(columns, rows)


def expected_run(what: Foreseen) -> str:
    """What a dry run says; a twin is encoded as well."""
    both = (what.train, what.scored)
    encoding = sum(each.seconds for each in both) * what.passes
    return "\n".join(
        [
            f"texts    {what.train.texts:,} to learn from, {what.scored.texts:,} to score "
            f"({sum(each.missing_texts for each in both):,} not stored yet)",
            f"words    {sum(each.words for each in both):,}",
            f"tokens   {sum(each.tokens for each in both):,} "
            f"({sum(each.missing_tokens for each in both):,} not stored yet)",
            f"probes   {what.probes:,}",
            f"time     about {max(1, round(encoding)):,} s to encode and at most {max(1, round(what.training)):,} s "
            "to train on this machine",
            f"disk     about {sum(each.disk_bytes for each in both) * what.passes / 1e6:,.0f} MB",
        ]
    )
