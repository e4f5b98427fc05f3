"""`lamina compare`: two probing results side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lamina.cli.tables import Table, number, print_table


def compare(
    result_a: Annotated[Path, typer.Argument(metavar="RESULT_A", help="A folder that `lamina probe` wrote.")],
    result_b: Annotated[Path, typer.Argument(metavar="RESULT_B", help="Another one.")],
    out: Annotated[Path, typer.Option("--out", help="The folder to write.")] = Path("results/compare"),
) -> None:
    """Two probing results side by side: scores, and where in each model's own depth the answers appear.

    Writes `compare.csv` (differences a - b with their intervals) and `depth.csv` (every score by layer / L).
    Differences of F1 are given only where both results score the same texts.

    Example: `lamina compare results/minilm results/mpnet --out results/compare`
    """
    from lamina import analyses
    from lamina.results import Result

    result = analyses.compare(Result.load(result_a), Result.load(result_b))
    result.save(out)
    rows = [
        (task, statistic, number(*numbers[:3]), number(*numbers[3:6]), number(*numbers[6:9]))
        for task, statistic, *numbers, _ in result.tables["compare"].itertuples(index=False)
    ]
    print_table(f"a: {result_a}   b: {result_b}", Table(("task", "statistic", "a", "b", "a - b"), rows), ())
    print(out)
