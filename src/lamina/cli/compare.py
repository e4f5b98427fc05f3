"""`lamina compare`: two probing results side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from lamina.cli.tables import Table, number, print_table
from lamina.errors import InputError


def compare(
    results: Annotated[
        list[Path],
        typer.Argument(
            metavar="RESULT_A RESULT_B ...",
            help="Two folders that `lamina probe` wrote; or several, of two models on several corpora.",
        ),
    ],
    out: Annotated[Path, typer.Option("--out", help="The folder to write.")] = Path("results/compare"),
) -> None:
    """Two probing results side by side: scores, and where in each model's own depth the answers appear.

    Writes `compare.csv` (differences a - b with their intervals), `depth.csv` (every score by layer / L) and
    `layers.csv` (what single layers tell, and the same from the worst to the best layer). Differences of F1 are given
    only where both results score the same texts.

    Example: `lamina compare results/minilm results/mpnet --out results/compare`
    """
    from lamina import analyses
    from lamina.analyses.probing.merging import by_model
    from lamina.results import Result

    if len(results) < 2:
        raise InputError("a comparison needs two results; name another folder that `lamina probe` wrote")
    a, b = by_model([Result.load(folder) for folder in results])
    result = analyses.compare(a, b)
    result.save(out)
    rows = [
        (task, statistic, number(*numbers[:3]), number(*numbers[3:6]), number(*numbers[6:9]))
        for task, statistic, *numbers, _ in result.tables["compare"].itertuples(index=False)
    ]
    said = [f"{each.provenance.model['name']} on {each.provenance.corpus['name']}" for each in (a, b)]
    print_table(f"a: {said[0]}   b: {said[1]}", Table(("task", "statistic", "a", "b", "a - b"), rows), ())
    if len(result.tables["layers"]):
        print_table("The best layer alone", _best_layers(result.tables["layers"]), ())
    print(out)


def _best_layers(table: Any) -> Table:
    best = table.loc[table.groupby(["task", "model"], sort=False)["value"].idxmax()]
    rows = [(row.task, row.model, row.layer, number(row.value, row.low, row.high)) for row in best.itertuples()]
    return Table(("task", "model", "layer", "F1"), rows)
