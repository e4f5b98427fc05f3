"""`lamina model`: check whether the numbers of a model can be trusted."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lamina.cli import terminal
from lamina.errors import InputError
from lamina.files.checking import read_json

if TYPE_CHECKING:
    from lamina.models.checks.passports import Check, ExaminedModel


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
    from lamina.cli.terminal import TextTable, print_table
    from lamina.models.series import load_series

    checkpoints = load_series(where)
    if as_json:
        print(json.dumps(asdict(checkpoints), indent=2))
    else:
        kinds = {
            checkpoint.name: [fault.kind for fault in checkpoints.faults if fault.checkpoint == checkpoint.name]
            for checkpoint in checkpoints
        }
        rows = [
            (
                checkpoint.name,
                checkpoint.path,
                "last" if checkpoint.step is None else checkpoint.step,
                checkpoint.hash[:12],
                "" if checkpoint.distance is None else f"{checkpoint.distance:.2f}",
                ", ".join(kinds[checkpoint.name]) or "ok",
            )
            for checkpoint in checkpoints
        ]
        columns = ("checkpoint", "path", "step", "hash", "distance", "verdict")
        print_table(f"{checkpoints.name}: {len(checkpoints)} checkpoints", TextTable(columns, rows), ())
        for fault in checkpoints.faults:
            print(fault.message)
    if checkpoints.faults:
        raise typer.Exit(1)


def pretrain(
    out: Annotated[Path, typer.Option("--out", help="Folder of the series; one of the same settings is continued.")],
    text: Annotated[
        list[str],
        typer.Option(
            "--text",
            help="A file of plain text (one paragraph per line), a corpus file or a catalogue name; of questions, "
            "their contexts. Repeat for several.",
        ),
    ],
    shape: Annotated[str, typer.Option("--shape", metavar="BLOCKSxWIDTH", help="Size of the model.")] = "4x256",
    objective: Annotated[
        str,
        typer.Option("--objective", help="masked (a BERT with WordPieces) or causal (a GPT-2 with byte-level BPE)."),
    ] = "masked",
    steps: Annotated[int, typer.Option("--steps", min=1, help="Steps of training.")] = 1000,
    checkpoints: Annotated[
        int, typer.Option("--checkpoints", min=2, max=64, help="Checkpoints kept beside the untrained one, log-spaced.")
    ] = 8,
    seeds: Annotated[int, typer.Option("--seeds", min=1, help="How many models, each with the next seed.")] = 2,
    seed: Annotated[int, typer.Option("--seed", help="The first seed.")] = 0,
    vocabulary: Annotated[int, typer.Option("--vocabulary", min=300, help="Tokens of the tokenizer, at most.")] = 8192,
    batch: Annotated[int, typer.Option("--batch", min=1, help="Rows of a step.")] = 32,
    length: Annotated[int, typer.Option("--length", min=8, max=4096, help="Tokens of a row.")] = 128,
    lr: Annotated[float, typer.Option("--lr", min=0, help="Highest learning rate.")] = 1e-3,
    device: terminal.DeviceOption = None,
) -> None:
    """Train a small language model from nothing, as a series: checkpoints at log-spaced steps, several seeds.

    The tokenizer is trained on the text. A run that was stopped continues to the same weights. `lamina model series`
    audits what it wrote, and `lamina grow` asks when the models learn what.

    Example: `lamina pretrain --text squad --shape 2x128 --steps 1500 --seeds 3 --out runs/small`
    """
    from lamina.training.pretrain import ABOUT_SERIES, ModelShape, PretrainingPlan, train_series

    if objective not in ("masked", "causal"):
        raise InputError(f"--objective is masked or causal; got {objective!r}")
    settings: dict[str, Any] = {
        "steps": steps,
        "checkpoints": checkpoints,
        "seeds": seeds,
        "seed": seed,
        "vocabulary": vocabulary,
    }
    settings |= {"batch": batch, "length": length, "lr": lr}
    plan = PretrainingPlan(ModelShape.of(shape), "causal" if objective == "causal" else "masked", **settings)
    folder = train_series(text, out, plan, device=device)
    losses = read_json(folder / ABOUT_SERIES)["losses"]
    table: dict[int, list[str]] = {}
    for point in losses:
        table.setdefault(int(point["step"]), []).append(f"{point['loss']:.3f}")
    columns = ("step", *(f"seed {number}" for number in range(seed, seed + seeds)))
    rows: list[Any] = [(f"{step:,}", *cells) for step, cells in table.items()]
    terminal.print_table("Loss on held-out text, in nats per token", terminal.TextTable(columns, rows), ())
    print(folder)


app = typer.Typer(no_args_is_help=True, help="Check models: what can be measured on them, and what cannot.")

_WIDE = 300
"""Characters of a line where there is no terminal: one line per model."""
_SIGNS = {"holds": "ok", "fails": "FAILS", "not applicable": "n/a"}

Names = Annotated[
    list[str],
    typer.Argument(
        metavar="MODEL...",
        help="Aliases (`lamina assets list`), Hugging Face ids or folders, with `@REVISION` or `:decoder` if needed.",
    ),
]


app.command()(series)


@app.command()
def check(
    names: Names,
    device: terminal.DeviceOption = None,
    dtype: terminal.PrecisionOption = "float32",
    chat: terminal.ChatOption = False,
    trust_remote_code: terminal.TrustOption = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the passports as JSON.")] = False,
) -> None:
    """Examine models: one row per model, one column per check, then what fails and what follows from it.

    A model is examined once; the verdict is kept by its fingerprint. Exit status: 0 if all checks hold, 1 if one fails,
    2 if a model cannot be loaded.

    Example: `lamina model check minilm`
    """
    from lamina.assets import refuse_misspelt_model

    how: dict[str, Any] = {"device": device, "dtype": dtype, "chat": chat, "trust_remote_code": trust_remote_code}
    examined: dict[str, ExaminedModel] = {}
    errors: dict[str, str] = {}
    for name in _expanded(names):
        try:
            # Before torch is imported, which takes seconds.
            refuse_misspelt_model(name)
            examined[name] = _examined(name, how)
        except Exception as error:
            # One model that cannot be loaded does not stop the others.
            errors[name] = _in_one_sentence(error)
    if as_json:
        failed = [{"name": name, "error": sentence} for name, sentence in errors.items()]
        print(json.dumps([*(_described(name, model) for name, model in examined.items()), *failed], indent=2))
    else:
        _print(examined)
    for sentence in errors.values():
        print(f"lamina: {sentence}", file=sys.stderr)
    status = 2 if errors else int(any(model.passport.failed for model in examined.values()))
    if status:
        raise typer.Exit(status)


def _examined(name: str, how: Mapping[str, Any]) -> ExaminedModel:
    from lamina.models import load_encoder
    from lamina.models.checks.passports import ExaminedModel

    return ExaminedModel.of(load_encoder(name, **how))


def _expanded(names: Sequence[str]) -> list[str]:
    """The models of a folder that `lamina finetune --seeds` wrote, one by one; every other name as it is."""
    expanded: dict[str, None] = {}
    for name in names:
        several: Sequence[Path] = ()
        if Path(name).is_dir() and not (Path(name) / "config.json").exists():
            from lamina.training.provenance import seed_folders

            several = seed_folders(name)
        expanded |= dict.fromkeys(map(str, several or (name,)))
    return list(expanded)


def _described(name: str, model: ExaminedModel) -> dict[str, Any]:
    shape = {"blocks": model.blocks, "heads": model.heads, "width": model.width, "limit": model.limit}
    return {"name": name, **shape, **model.passport.describe()}


def _in_one_sentence(error: Exception) -> str:
    from lamina.cli.terminal import in_one_sentence

    sentence = in_one_sentence(error)
    if sentence is None:
        raise error
    return sentence


def _print(examined: Mapping[str, ExaminedModel]) -> None:
    from rich.console import Console
    from rich.table import Table

    if not examined:
        return
    columns = list(dict.fromkeys(check.name for model in examined.values() for check in model.passport.checks))
    table = Table(box=None, pad_edge=False)
    for number, column in enumerate(("model", "architecture", *columns)):
        table.add_column(column, no_wrap=not number)
    for name, model in examined.items():
        checks = {check.name: check for check in model.passport.checks}
        table.add_row(name, model.passport.architecture, *(_cell(checks.get(column)) for column in columns))
    console = Console(width=None if sys.stdout.isatty() else _WIDE, markup=False, emoji=False, highlight=False)
    console.print(table)
    for name, model in examined.items():
        for line in _lines(name, model):
            console.print(line, soft_wrap=True)


def _cell(check: Check | None) -> str:
    if check is None:
        return _SIGNS["not applicable"]
    number = "" if check.measured is None or check.verdict == "not applicable" else f" {check.measured:.2g}"
    return f"{_SIGNS[check.verdict]}{number}"


def _lines(name: str, model: ExaminedModel) -> Iterator[str]:
    from lamina.framework.passports import verdict

    passport = model.passport
    direction = "causal" if passport.causal else "sees the whole text"
    heads = f"{model.heads} heads" if model.heads else "no attention heads"
    head = f"{passport.language_head} language-model head" if passport.language_head else "no language-model head"
    parts = ", ".join(passport.ablatable) or "nothing"
    yield ""
    yield f"{name}: {direction}; {model.blocks} blocks, {heads}, {model.width} wide; {model.where_maps}"
    examination = f"examined in {passport.seconds:.1f} s (transformers {passport.transformers})"
    yield f"  {head}; can be ablated: {parts}; {examination}"
    yield from (f"  {sentence}" for sentence in verdict(passport))
