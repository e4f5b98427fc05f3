"""`lamina apply`: label texts with a saved probe; `lamina choose --evaluate-label-free`."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lamina.errors import InputError

if TYPE_CHECKING:
    from lamina.analyses.layers.choose.label_free import LayerScores
    from lamina.corpora import Corpus
    from lamina.types import Text


def apply(
    probe: Annotated[str, typer.Argument(metavar="PROBE", help="A folder that `lamina choose --save` wrote.")],
    corpus: Annotated[
        str, typer.Option("--corpus", help="A catalogue name, the path of a file or folder, or hf:OWNER/NAME.")
    ],
    out: Annotated[Path, typer.Option("--out", help="Where to write the labels (CSV).")],
    split: Annotated[str, typer.Option("--split", help="train, dev, test or all.")] = "all",
    format: Annotated[
        str | None, typer.Option("--format", help="The format, detected by default; table:text=COLUMN for columns.")
    ] = None,
    limit: Annotated[int | None, typer.Option("--limit", help="Take only the first N texts.", min=1)] = None,
) -> None:
    """Label the texts of a corpus with a saved probe.

    One row per text, or per word where the probe labels words: its label and the calibrated probability.

    Example: `lamina apply probe/ --corpus new.csv --out labels.csv`
    """
    from lamina.corpora import load_corpus
    from lamina.files.writing import make_folder, readable_write_errors, write_text
    from lamina.probes.text_probe import load_probe
    from lamina.results.folder import refuse_unwritable_file

    refuse_unwritable_file(out)
    loaded = load_probe(probe)
    texts = _one_column(corpus, limit) if format is None else None
    if texts is None:
        texts = list(load_corpus(corpus, split=split, format=format, limit=limit))
    answers = loaded(texts)
    written = io.StringIO()
    rows = csv.writer(written, lineterminator="\n")
    whole = loaded.card.targets == "whole texts"
    rows.writerow(("id", "label", "probability") if whole else ("id", "target", "label", "probability"))
    for text, answer in zip(texts, answers, strict=True):
        for number, one in enumerate([answer] if whole else answer):
            label = " ".join(one.label) if isinstance(one.label, tuple) else one.label
            sure = "" if one.probability != one.probability else f"{one.probability:.4f}"
            rows.writerow((text.id, label, sure) if whole else (text.id, number, label, sure))
    with readable_write_errors(out):
        make_folder(out.parent)
    write_text(out, written.getvalue())
    print(f"{len(texts):,} texts labelled")
    print(out)


def _one_column(corpus: str, limit: int | None) -> list[Text] | None:
    """The texts of a CSV file that has nothing but texts, which no reader of labelled tables takes; None for others."""
    from lamina.corpora import corpus_from
    from lamina.files.reading import read_regular

    path = Path(corpus)
    if path.suffix.lower() != ".csv" or not path.is_file():
        return None
    rows = [row for row in csv.reader(io.StringIO(read_regular(path).decode("utf-8-sig"))) if row]
    if len(rows) < 2 or any(len(row) != 1 for row in rows):
        return None
    named = [(f"{path.stem}-{number}", row[0]) for number, row in enumerate(rows[1:], start=2)]
    return list(corpus_from([{"id": name, "text": text} for name, text in named]))[:limit]


def evaluate_label_free(
    models: Annotated[
        list[str] | None, typer.Argument(metavar="[MODEL]...", help="Models; all on this machine by default.")
    ] = None,
    corpus: Annotated[
        list[str] | None,
        typer.Option(
            "--corpus",
            help="A catalogue name, a file or a folder. Repeat for several; all on this machine by default.",
        ),
    ] = None,
    task: Annotated[
        list[str] | None, typer.Option("--task", help="Only tasks of this name. Repeat for several.")
    ] = None,
    # What these options belong to; they are not read without it.
    evaluate_label_free: Annotated[  # noqa: ARG001
        bool, typer.Option("--evaluate-label-free", help="What these options belong to.")
    ] = True,
    examples: Annotated[int, typer.Option("--examples", help="Most labelled targets of a task.", min=20)] = 400,
    layers: Annotated[
        int | None, typer.Option("--layers", help="Most layers per model, at equal distances (default: all).", min=2)
    ] = None,
    draws: Annotated[
        int, typer.Option("--draws", help="How often a layer is also chosen by 200 labels; 0 for never.", min=0)
    ] = 0,
    out: Annotated[Path, typer.Option("--out", help="Output folder; a second run goes on from it.")] = Path(
        "results/label-free"
    ),
) -> None:
    """Measure what picking a layer without labels costs, on all tasks and models at hand.

    For every task and model, each measure's layer, the last layer, two thirds of the depth and a random layer are
    compared with the best layer, all scored by cross-validated linear probes.

    Example: `lamina choose minilm mpnet --corpus ewt --evaluate-label-free`
    """
    import lamina
    from lamina.activations.runtime import Runtime
    from lamina.analyses.layers.choose.label_free import regret_findings, regrets_by_rule, score_layers
    from lamina.cli.terminal import TextTable, print_table
    from lamina.errors import LaminaError
    from lamina.files.writing import write_text
    from lamina.progress import say
    from lamina.results.finding import cell

    encoders = [lamina.load_encoder(name) for name in models or _at_hand("model")]
    cells, skipped = [], []
    for name in corpus or _at_hand("corpus"):
        texts = lamina.load_corpus(name)
        for one in _tasks_of(texts, task):
            path = out / "cells" / f"{texts.name}-{one}.json".replace("/", "-")
            request = {
                "models": [encoder.fingerprint for encoder in encoders], "corpus": texts.fingerprint,
                "examples": examples, "layers": layers, "draws": draws,
            }  # fmt: skip
            scores = _read_cell(path, request)
            if scores is None:
                say(f"{texts.name}, {one}: {', '.join(encoder.name for encoder in encoders)}")
                try:
                    scores = score_layers(
                        encoders, texts, one, examples=examples, depths=layers, draws=draws,
                        runtime=Runtime(device=None),
                    )  # fmt: skip
                except LaminaError as error:
                    skipped.append(f"{texts.name}, {one}: {error}")
                    continue
                path.parent.mkdir(parents=True, exist_ok=True)
                write_text(path, json.dumps({"request": request, "scores": [dataclasses.asdict(s) for s in scores]}))
            cells += scores
    for line in skipped:
        print(f"left out: {line}")
    if not cells:
        raise InputError("no task could be scored; name corpora with labels (--corpus) or other tasks (--task)")
    table = regrets_by_rule(cells)
    write_text(out / "regret.csv", table.to_csv(index=False))
    rows = [
        (row["rule"], row["tasks"], cell(row["regret"], row["low"], row["high"]), f"{row['median']:.3f}")
        for row in table.sort_values("regret").to_dict("records")
    ]
    print_table("regret, mean over tasks", TextTable(("picked by", "tasks", "regret", "median"), rows), ())
    for finding in regret_findings(table):
        print(f"{finding.status:<6} {finding.text}")
    print(out)


def _at_hand(kind: str) -> list[str]:
    """Names of the catalogue's models or labelled corpora that are on this machine."""
    from lamina.assets import cards, local_folder
    from lamina.corpora.catalogue import CATALOGUE

    labelled = {entry.name for entry in CATALOGUE if entry.annotations}
    wanted = [
        card.name for card in cards().values() if card.kind == kind and (kind == "model" or card.name in labelled)
    ]
    here = [name for name in wanted if local_folder(name) is not None]
    if not here:
        raise InputError(f"there is no {kind} on this machine yet; `lamina assets list` names some to fetch")
    return here


def _tasks_of(texts: Corpus, names: list[str] | None) -> list[str]:
    """The tasks of a corpus, and its other annotations that have kinds of things as labels."""
    from lamina.corpora.corpus import NAMING
    from lamina.corpora.splits import Splits
    from lamina.errors import TaskError
    from lamina.tasks.catalogue import choose_tasks

    try:
        tasks = choose_tasks(None, Splits(texts, texts), faithful=False)
    except TaskError:
        return []
    known = {task.annotation for task in tasks} | {task.name for task in tasks}
    names_of_tasks = [task.name for task in tasks]
    names_of_tasks += [name for name in texts.annotations if name not in known and name not in NAMING]
    return [name for name in names_of_tasks if names is None or name in names]


def _read_cell(path: Path, request: dict[str, Any]) -> list[LayerScores] | None:
    """The scores of an earlier run with the same settings, or None."""
    from lamina.analyses.layers.choose.label_free import LayerScores
    from lamina.files.reading import parse_json, read_regular

    if not path.is_file():
        return None
    saved = parse_json(read_regular(path).decode())
    if saved.get("request") != request:
        return None
    return [
        LayerScores(
            **{name: one[name] for name in ("corpus", "task", "model", "metric", "examples", "picks")},
            layers=tuple(one["layers"]),
            scores=tuple(one["scores"]),
            few=tuple(map(tuple, one["few"])),
        )
        for one in saved["scores"]
    ]
