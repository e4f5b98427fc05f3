"""`lamina model series`: the checkpoints of one training, in order, and what is wrong with them."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated

import typer


def series(
    where: Annotated[
        str,
        typer.Argument(
            metavar="SERIES",
            help="A folder of checkpoints (checkpoint-100, seed0-step300, ...), or a Hugging Face id with revisions: "
            "OWNER/NAME@step1000,step3000.",
        ),
    ],
    as_json: Annotated[bool, typer.Option("--json", help="Print the series as JSON.")] = False,
) -> None:
    """Check a series of checkpoints: one shape, one tokenizer, no duplicates, in the order their names say.

    Weights are compared by hash and by distance. The distance is to the checkpoint before. Exit status: 0 if nothing is
    wrong, 1 if something is.

    Example: `lamina model series runs/bert`
    """
    from lamina.cli.tables import Table, print_table
    from lamina.encoders.series import load_series

    found = load_series(where)
    if as_json:
        print(json.dumps(asdict(found), indent=2))
    else:
        kinds = {each.name: [fault.kind for fault in found.faults if fault.checkpoint == each.name] for each in found}
        rows = [
            (
                each.name,
                each.path,
                "last" if each.step is None else each.step,
                each.hash[:12],
                "" if each.distance is None else f"{each.distance:.2f}",
                ", ".join(kinds[each.name]) or "ok",
            )
            for each in found
        ]
        columns = ("checkpoint", "path", "step", "hash", "distance", "verdict")
        print_table(f"{found.name}: {len(found)} checkpoints", Table(columns, rows), ())
        for fault in found.faults:
            print(fault.said)
    if found.faults:
        raise typer.Exit(1)
