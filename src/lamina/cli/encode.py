"""`lamina encode`: run a model over a corpus once and store the states of every layer."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lamina.cli import options

if TYPE_CHECKING:
    from lamina.activations import Engine
    from lamina.activations.ranks import Rank
    from lamina.activations.store import Kept
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
    kept: options.KeptOption = None,
    chat: options.ChatOption = False,
    trust_remote_code: options.TrustOption = False,
    max_tokens: Annotated[
        int | None, typer.Option("--max-tokens", help="Maximum number of tokens, if less than the model's own limit.")
    ] = None,
    shard: Annotated[
        str | None,
        typer.Option(
            "--shard",
            metavar="NUMBER/OF",
            help="Encode one part of the texts, counted from 0: 0/8 to 7/8. Run one process per part, on any machines "
            "that share the store. In a SLURM job array, taken from the task by default.",
        ),
    ] = None,
    engine: options.EngineOption = None,
    workers: options.WorkersOption = None,
    repair: Annotated[
        bool, typer.Option("--repair", help="Verify stored shards first, and encode damaged ones again.")
    ] = False,
    dry_run: options.DryRunOption = False,
) -> None:
    """Encode a corpus and store the hidden states of all layers; stored texts are not encoded again.

    To continue a stopped run, run the same command again.

    Example: `lamina encode minilm --corpus ewt --split dev`
    """
    rank = _rank(shard, repair=repair)
    from lamina.activations import ActivationStore, extract
    from lamina.activations.engines import engine_named
    from lamina.activations.ranks import part_of
    from lamina.corpora import load_corpus
    from lamina.encoders import load_encoder
    from lamina.encoders.passports import passport_of

    texts = load_corpus(corpus, split=split, unit=unit, format=format, limit=limit)
    encoder = load_encoder(
        model, device=device, dtype=dtype, limit=max_tokens, chat=chat, trust_remote_code=trust_remote_code
    )
    passport_of(encoder)
    if dry_run:
        print(_expected(encoder, part_of(texts, rank), store, kept))
        return
    running = engine_named(engine, workers)
    if not rank.is_all:
        _encode_part(encoder, texts, rank, store, running, kept)
        return
    stored = extract(encoder, texts, root=store, engine=running, repair=repair, kept=kept)
    print(f"{len(stored):,} texts, {stored.tokens:,} tokens, {encoder.layers} layers of {encoder.width}")
    if stored.unknown:
        print(f"{stored.unknown:,} {encoder.replaced}")
    if stored.windowed:
        print(f"{stored.windowed:,} texts were longer than {model}'s limit and were encoded in overlapping windows")
    for reason, count in texts.left_out().items():
        print(f"{count:,} {reason}")
    print(ActivationStore.of(encoder, store).folder)


def _rank(shard: str | None, *, repair: bool) -> Rank:
    """Which part of the texts: the one that was asked for, else that of the SLURM task, else all."""
    from lamina.activations.ranks import Rank, parse_rank, slurm_rank
    from lamina.errors import InputError
    from lamina.progress import say

    rank = parse_rank(shard) if shard is not None else slurm_rank()
    if rank is None:
        return Rank(0, 1)
    if shard is None and not rank.is_all:
        say(f"task of a SLURM job array: encoding shard {rank} (--shard 0/1 would encode all texts)")
    if repair and not rank.is_all:
        raise InputError("--repair looks at the whole store; run it once without --shard, then the shards")
    return rank


def _encode_part(
    encoder: Encoder, texts: Corpus, rank: Rank, store: Path | None, engine: Engine | None, kept: Kept | None
) -> None:
    from lamina.activations.ranks import encode_rank

    done = encode_rank(encoder, texts, rank, root=store, engine=engine, kept=kept)
    print(f"shard {rank}: {done.encoded:,} texts encoded; {done.stored:,} of {done.texts:,} texts are stored by now")
    print(done.store)


def _expected(encoder: Encoder, texts: Corpus, store: Path | None, kept: Kept | None) -> Cost:
    """The cost that a dry run prints."""
    from lamina.activations import estimate
    from lamina.analyses.estimate import Cost, memory_now

    what = estimate(encoder, texts, root=store, kept=kept)
    return Cost(1, what.texts, what.tokens, 0, what.seconds, memory_now(), what.disk_bytes)
