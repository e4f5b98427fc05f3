"""`lamina finetune`: a pretrained model learns a task, and stays a model that lamina looks into."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from lamina.cli.options import DeviceOption, FormatOption, LimitOption, ModelArgument
from lamina.cli.tables import Table, number, print_table
from lamina.errors import InputError


def finetune(
    model: ModelArgument,
    task: Annotated[
        str, typer.Option("--task", help="squad, hotpot, babi, pos, ner, classify, pairs or mlm.", show_default=False)
    ],
    data: Annotated[
        str,
        typer.Option("--data", help="A catalogue name (`lamina data list`) or the path of a file or folder."),
    ],
    out: Annotated[Path, typer.Option("--out", help="The folder to make: a Hugging Face model, with its scores.")],
    epochs: Annotated[float | None, typer.Option("--epochs", help="How often each text is seen.")] = None,
    lr: Annotated[float | None, typer.Option("--lr", help="The highest learning rate.")] = None,
    batch: Annotated[int | None, typer.Option("--batch", min=1, help="Texts (or windows) a step.")] = None,
    schedule: Annotated[
        str | None, typer.Option("--schedule", help="constant, linear (falling to 0) or warmup (rising first).")
    ] = None,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of the head, the order of texts and dropout.")] = 0,
    max_steps: Annotated[int | None, typer.Option("--max-steps", min=1, help="Stop after so many steps.")] = None,
    limit: LimitOption = None,
    grid: Annotated[
        bool, typer.Option("--grid", help="Try several rates and batch sizes; keep what does best on dev.")
    ] = False,
    length: Annotated[int | None, typer.Option("--length", min=8, help="The most word pieces at once.")] = None,
    attention_window: Annotated[
        int | None,
        typer.Option("--attention-window", min=0, help="pos, ner: words see so many words to each side."),
    ] = None,
    format: FormatOption = None,
    setting: Annotated[
        str, typer.Option("--setting", help="HotpotQA: distractor, or support (supporting sentences alone).")
    ] = "distractor",
    babi_tasks: Annotated[
        str | None, typer.Option("--babi-tasks", help="Some of bAbI's tasks, as 1,2,15; all together by default.")
    ] = None,
    resume: Annotated[bool, typer.Option(help="Continue a run that was stopped; or start it anew.")] = True,
    device: DeviceOption = None,
) -> None:
    """Fine-tune a model: learn from train, keep the best step on dev, score test once.

    What is not given is as the task's paper has it. Texts that stand in two of the three sets are left out and
    counted. The folder loads wherever a Hugging Face model does, and wherever lamina takes a MODEL.

    Writes `curve.csv` (step, epoch, split, metric, value), `scores.csv` (split, metric, count, value, low, high),
    with `--grid` also `grid.csv`; the learning curve; the model; and provenance. A run that was stopped continues:
    run the same command again.

    Example: `lamina finetune minilm --task pos --data ewt --max-steps 200 --out runs/pos`
    """
    from lamina.training.finetune import finetune as run

    result = run(
        model,
        task,
        data,
        out=out,
        epochs=epochs,
        lr=lr,
        batch=batch,
        schedule=schedule,
        seed=seed,
        max_steps=max_steps,
        limit=limit,
        grid=grid,
        length=length,
        attention_window=attention_window,
        format=format,
        setting=setting,
        babi_tasks=_numbers(babi_tasks),
        resume=resume,
        device=device,
    )
    shown = result.provenance
    print_table(f"{shown.model['name']}: {task} on {shown.corpus['name']}", _scores(result.tables["scores"]), ())
    for reason, count in shown.skipped.items():
        if count:
            print(f"{count:,} {reason}")
    print(out)


def _numbers(listed: str | None) -> list[int] | None:
    if listed is None:
        return None
    try:
        return [int(part) for part in listed.split(",")]
    except ValueError:
        raise InputError(f"--babi-tasks takes numbers, as 1,2,15; got {listed!r}") from None


def _scores(table: Any) -> Table:
    tasks = "task" in table.columns
    rows = [
        (*((row.task,) if tasks else ()), row.metric, f"{row.count_:,}", number(row.value, row.low, row.high))
        for row in table.rename(columns={"count": "count_"}).itertuples()
    ]
    return Table((*(("task",) if tasks else ()), "metric", "count", "value"), rows)
