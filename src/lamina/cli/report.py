"""`lamina report`: every question asked of one model and one corpus, on one page."""

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
    ModelArgument,
    SplitOption,
    StoreOption,
    UnitOption,
)
from lamina.cli.probe import expected_run

if TYPE_CHECKING:
    from lamina.corpora import Corpus
    from lamina.encoders import Encoder


def report(
    model: ModelArgument,
    corpus: CorpusOption = "ewt",
    split: SplitOption = "dev",
    out: Annotated[Path, typer.Option("--out", help="The folder to write; results in it are reused.")] = Path("report"),
    only: Annotated[
        str | None, typer.Option("--only", help="Analyses to run, separated by commas; all by default.")
    ] = None,
    unit: UnitOption = "sentence",
    format: FormatOption = None,
    limit: LimitOption = None,
    store: StoreOption = None,
    device: DeviceOption = None,
    dry_run: DryRunOption = False,
) -> None:
    """Ask every question of a model and write one page to read, print or send.

    The page needs no network and no other file. Answers already in OUT for the same model, corpus and settings are
    reused, so a second run takes seconds. Analyses: geometry, probe, attention, heads,
    headmap, contextualize, neighbours, questions.

    Probing learns from the corpus's train and scores SPLIT; where there is no train, or nothing is annotated, the
    page says that it is left out.

    Example: `lamina report minilm --corpus ewt --out report`
    """
    from lamina.report import LEARNING, choose, make_report

    wanted = [name.strip() for name in only.split(",") if name.strip()] if only else None
    names = choose(wanted)

    from lamina.corpora import load_corpus
    from lamina.encoders import load_encoder

    texts = load_corpus(corpus, split=split, unit=unit, format=format, limit=limit)
    train = None
    if LEARNING.intersection(names) and split not in ("train", "all"):
        train = _training_texts(corpus, unit, format, limit)
    encoder = load_encoder(model, device=device)
    if dry_run:
        print(_expected(encoder, texts, train, store))
        return
    print(make_report(encoder, texts, out, train=train, only=wanted, root=store))


def _expected(encoder: Encoder, texts: Corpus, train: Corpus | None, store: Path | None) -> str:
    """What all analyses together take: probing encodes whatever the others need."""
    from lamina.activations import estimate
    from lamina.analyses.probing.planning import PROBES, foresee, plan_run
    from lamina.analyses.probing.splits import Splits
    from lamina.errors import CorpusError, TaskError
    from lamina.report import ANALYSES

    if train is not None:
        try:
            splits, preset = Splits(train, texts), ANALYSES["probe"]["preset"]
            asked: dict[str, Any] = dict.fromkeys(("tasks", "seeds", "metric", "device"))
            asked |= {"faithful": False, "seed": 0}
            plan = plan_run(encoder.layers, splits, probes=PROBES, preset=preset, **asked)
            return expected_run(foresee(plan, encoder, twin=True, root=store))
        except (CorpusError, TaskError):
            pass  # as the page will say, probing is left out
    return expected(estimate(encoder, texts, root=store), passes=1 + (encoder.blocks > 0))


def _training_texts(corpus: str, unit: str, format: str | None, limit: int | None) -> Corpus | None:
    """None where the corpus has none; a file of it that breaks its format is another matter."""
    from lamina.corpora import load_corpus
    from lamina.errors import CorpusError, FormatError

    try:
        return load_corpus(corpus, split="train", unit=unit, format=format, limit=limit)
    except FormatError:
        raise
    except CorpusError:
        return None
