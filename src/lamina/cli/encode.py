"""`lamina encode`: run a model over a corpus once and store the states of every layer."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lamina.cli import options

if TYPE_CHECKING:
    from lamina.analyses.estimate import Cost
    from lamina.corpora import Corpus
    from lamina.encoders import Encoder


def encode(
    model: options.ModelArgument,
    corpus: options.CorpusOption = "ewt",
    split: options.SplitOption = "dev",
    unit: options.UnitOption = "sentence",
    format: options.FormatOption = None,
    limit: options.LimitOption = None,
    store: options.StoreOption = None,
    device: options.DeviceOption = None,
    dtype: options.PrecisionOption = "float32",
    chat: options.ChatOption = False,
    trust_remote_code: options.TrustOption = False,
    max_tokens: Annotated[
        int | None, typer.Option("--max-tokens", help="Maximum number of tokens, if less than the model's own limit.")
    ] = None,
    repair: Annotated[
        bool, typer.Option("--repair", help="Verify stored shards first, and encode damaged ones again.")
    ] = False,
    dry_run: options.DryRunOption = False,
) -> None:
    """Encode a corpus and store the hidden states of all layers; stored texts are not encoded again.

    To continue a stopped run, run the same command again.

    Example: `lamina encode minilm --corpus ewt --split dev`
    """
    from lamina.activations import ActivationStore, extract
    from lamina.corpora import load_corpus
    from lamina.encoders import load_encoder
    from lamina.encoders.passports import passport_of

    texts = load_corpus(corpus, split=split, unit=unit, format=format, limit=limit)
    encoder = load_encoder(
        model, device=device, dtype=dtype, limit=max_tokens, chat=chat, trust_remote_code=trust_remote_code
    )
    passport_of(encoder)
    if dry_run:
        print(_expected(encoder, texts, store))
        return
    stored = extract(encoder, texts, root=store, repair=repair)
    print(f"{len(stored):,} texts, {stored.tokens:,} tokens, {encoder.layers} layers of {encoder.width}")
    if stored.unknown:
        print(f"{stored.unknown:,} words had no piece and were replaced by the unknown token")
    if stored.windowed:
        print(f"{stored.windowed:,} texts were longer than {model}'s limit and were encoded in overlapping windows")
    for reason, count in texts.left_out().items():
        print(f"{count:,} {reason}")
    print(ActivationStore.of(encoder, store).folder)


def _expected(encoder: Encoder, texts: Corpus, store: Path | None) -> Cost:
    """The cost that a dry run prints."""
    from lamina.activations import estimate
    from lamina.analyses.estimate import Cost, memory_now

    what = estimate(encoder, texts, root=store)
    return Cost(1, what.texts, what.tokens, 0, what.seconds, memory_now(), what.disk_bytes)
