"""`lamina encode`: run a model over a corpus once and keep what every layer said."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lamina.cli.options import (
    CorpusOption,
    DeviceOption,
    DryRunOption,
    FormatOption,
    LimitOption,
    ModelArgument,
    PrecisionOption,
    SplitOption,
    StoreOption,
    UnitOption,
)

if TYPE_CHECKING:
    from lamina.activations import Estimate


def encode(
    model: ModelArgument,
    corpus: CorpusOption = "ewt",
    split: SplitOption = "dev",
    unit: UnitOption = "sentence",
    format: FormatOption = None,
    limit: LimitOption = None,
    store: StoreOption = None,
    device: DeviceOption = None,
    dtype: PrecisionOption = "float32",
    max_tokens: Annotated[
        int | None, typer.Option("--max-tokens", help="Most tokens at once, if less than the model's own limit.")
    ] = None,
    repair: Annotated[
        bool, typer.Option("--repair", help="Verify what is stored first, and encode damaged parts again.")
    ] = False,
    dry_run: DryRunOption = False,
) -> None:
    """Encode a corpus and store the hidden states of all layers; texts stored before are not encoded again.

    A run that was stopped continues where it was: run the same command again.

    Example: `lamina encode minilm --corpus ewt --split dev`
    """
    from lamina.activations import ActivationStore, estimate, extract
    from lamina.corpora import load_corpus
    from lamina.encoders import load_encoder

    texts = load_corpus(corpus, split=split, unit=unit, format=format, limit=limit)
    encoder = load_encoder(model, device=device, dtype=dtype, limit=max_tokens)
    if dry_run:
        print(expected(estimate(encoder, texts, root=store)))
        return
    stored = extract(encoder, texts, root=store, repair=repair)
    print(f"{len(stored):,} texts, {stored.tokens:,} tokens, {encoder.layers} layers of {encoder.width}")
    if stored.unknown:
        print(f"{stored.unknown:,} words had no piece and were replaced by the unknown token")
    if stored.windowed:
        print(f"{stored.windowed:,} texts were longer than {model} takes and were encoded in overlapping windows")
    print(ActivationStore.of(encoder, store).folder)


def expected(what: Estimate, *, passes: int = 1) -> str:
    """What a dry run says of encoding (`passes` times: a model and its twin are two)."""
    return "\n".join(
        [
            f"texts    {what.texts:,} ({what.missing_texts:,} not stored yet)",
            f"words    {what.words:,}",
            f"tokens   {what.tokens:,} ({what.missing_tokens:,} not stored yet)",
            "probes   0",
            f"time     about {max(1, round(what.seconds * passes)):,} s on this machine",
            f"disk     about {what.disk_bytes * passes / 1e6:,.0f} MB",
        ]
    )


def results_folder(out: Path | None, analysis: str, model: str, corpus: str, split: str) -> Path:
    """Where a single analysis is saved when the user names no folder."""
    return out or Path("results") / f"{analysis}-{Path(model).name}-{Path(corpus).stem}-{split}"
