"""This machine: the installation (`lamina doctor`), downloads (`lamina assets`), activations (`lamina store`)."""

from __future__ import annotations

import os
import platform
import shutil
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lamina.cli import terminal
from lamina.errors import AssetError

if TYPE_CHECKING:
    from lamina.activations import ActivationStore, Engine
    from lamina.activations.extraction import Rank
    from lamina.activations.store import StatePrecision
    from lamina.assets import Card
    from lamina.corpora import Corpus
    from lamina.framework.estimate import Cost
    from lamina.models import Encoder


store_app = typer.Typer(no_args_is_help=True, help="List and clean up stored activations.")


@store_app.command("ls")
def list_stores(store: terminal.StoreOption = None) -> None:
    """List the stores: encoder, precision, texts, shards, size, folder."""
    from rich.console import Console
    from rich.table import Table

    from lamina.activations import default_root, stores

    listed = stores(store)
    if not listed:
        print(f"no activations stored in {store or default_root()}; `lamina encode MODEL --corpus NAME` stores some")
        return
    table = Table("encoder", "kept", "layers", "width", "texts", "shards", "MB", "folder")
    for one in listed:
        head = _head(one)
        if head is None:
            continue
        size = sum(shard.stat().st_size for shard in one.shards) / 1e6
        numbers = (head["layers"], head["width"], f"{len(one):,}", len(one.shards), f"{size:,.0f}")
        table.add_row(head["encoder"], head["kept"], *map(str, numbers), str(one.folder))
    # In a pipe there is no terminal width: one line per store.
    Console(markup=False, width=None if sys.stdout.isatty() else 300).print(table)


@store_app.command()
def gc(
    store: terminal.StoreOption = None,
    older_than: Annotated[
        int | None,
        typer.Option(
            "--older-than", min=0, help="Also delete whole stores and probing runs not written to for this many days."
        ),
    ] = None,
) -> None:
    """Delete leftovers of interrupted runs and, with --older-than, stores and probing runs no longer written to.

    `lamina probe` uses a stored probing run to answer the same request again, or to continue a stopped run. Results
    saved with `--out` do not depend on it.
    """
    import shutil
    import time

    from lamina.activations import stores
    from lamina.files.writing import readable_write_errors
    from lamina.framework.run import clean_runs

    before = None if older_than is None else time.time() - older_than * 86400
    freed = 0
    for one in stores(store):
        if _head(one) is None:
            continue
        # Checked before sweeping and without the lock, since taking the lock is not writing.
        newest = max(path.stat().st_mtime for path in one.folder.iterdir() if path.name != "lock")
        freed += one.sweep()
        if before is not None and newest <= before:
            freed += sum(path.stat().st_size for path in one.folder.iterdir())
            with readable_write_errors(one.folder):
                shutil.rmtree(one.folder)
            print(f"deleted {one.folder}")
    for folder, size, gone in clean_runs(store, before):
        freed += size
        if gone and size:
            print(f"deleted {folder}")
    print(f"freed {freed / 1e6:,.1f} MB")


def _head(store: ActivationStore) -> dict | None:
    """The head of a store; one that cannot be read is named and passed over."""
    from lamina.errors import DamagedError, StoreError

    try:
        return store.head
    except (DamagedError, StoreError) as error:
        print(f"passed over: {error}")
        return None


def encode(
    model: terminal.ModelArgument,
    corpus: terminal.CorpusOption = "ewt",
    split: terminal.SplitOption = "dev",
    unit: terminal.UnitOption = "sentence",
    format: terminal.FormatOption = None,
    include: terminal.IncludeOption = None,
    exclude: terminal.ExcludeOption = None,
    skip_faulty: terminal.SkipFaultyOption = 0.0,
    split_from: terminal.SplitFromOption = None,
    limit: terminal.LimitOption = None,
    first: terminal.FirstOption = None,
    store: terminal.StoreOption = None,
    device: terminal.DeviceOption = None,
    dtype: terminal.PrecisionOption = "float32",
    precision: terminal.StatePrecisionOption = None,
    chat: terminal.ChatOption = False,
    trust_remote_code: terminal.TrustOption = False,
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
    engine: terminal.EngineOption = None,
    workers: terminal.WorkersOption = None,
    repair: Annotated[
        bool, typer.Option("--repair", help="Verify stored shards first, and encode damaged ones again.")
    ] = False,
    dry_run: terminal.DryRunOption = False,
) -> None:
    """Encode a corpus and store the hidden states of all layers; stored texts are not encoded again.

    To continue a stopped run, run the same command again.

    Example: `lamina encode minilm --corpus ewt --split dev`
    """
    files: dict[str, Any] = {"include": include, "exclude": exclude}
    files |= {"skip_faulty": skip_faulty, "split_from": split_from}
    terminal.refuse_misspelt([model], corpus, split, format=format, **files)
    rank = _rank(shard, repair=repair)
    from lamina.activations import ActivationStore, extract
    from lamina.activations.extraction import part_of
    from lamina.activations.runtime import engine_named
    from lamina.corpora import load_corpus
    from lamina.models import load_encoder
    from lamina.models.checks.passports import passport_of

    texts = load_corpus(corpus, split=split, unit=unit, format=format, limit=limit, first=first, **files)
    encoder = load_encoder(
        model, device=device, dtype=dtype, limit=max_tokens, chat=chat, trust_remote_code=trust_remote_code
    )
    passport_of(encoder)
    if dry_run:
        print(_expected(encoder, part_of(texts, rank), store, precision))
        return
    running = engine_named(engine, workers)
    if not rank.is_all:
        _encode_part(encoder, texts, rank, store, running, precision)
        return
    stored = extract(encoder, texts, root=store, engine=running, repair=repair, precision=precision)
    print(f"{len(stored):,} texts, {stored.tokens:,} tokens, {encoder.layers} layers of {encoder.width}")
    if stored.unknown:
        print(f"{stored.unknown:,} {encoder.replaced}")
    if stored.windowed:
        print(f"{stored.windowed:,} texts were longer than {model}'s limit and were encoded in overlapping windows")
    for reason, count in texts.left_out().items():
        print(f"{count:,} {reason}")
    print(ActivationStore.of(encoder, store).folder)


def _rank(shard: str | None, *, repair: bool) -> Rank:
    """The part of the texts to encode: `--shard`, else that of the SLURM task, else all."""
    from lamina.activations.extraction import Rank, parse_rank, slurm_rank
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
    encoder: Encoder,
    texts: Corpus,
    rank: Rank,
    store: Path | None,
    engine: Engine | None,
    precision: StatePrecision | None,
) -> None:
    from lamina.activations.extraction import encode_rank

    done = encode_rank(encoder, texts, rank, root=store, engine=engine, precision=precision)
    print(f"shard {rank}: {done.encoded:,} texts encoded; {done.stored:,} of {done.texts:,} texts are stored by now")
    print(done.store)


def _expected(encoder: Encoder, texts: Corpus, store: Path | None, precision: StatePrecision | None) -> Cost:
    """The cost that a dry run prints."""
    from lamina.activations import estimate
    from lamina.framework.estimate import ENCODING, Cost, memory_now, operations_of, profile_of, wall_seconds

    what = estimate(encoder, texts, root=store, precision=precision)
    rate = profile_of(encoder, str(encoder.device)).rate(ENCODING)
    cpu = rate.seconds * what.missing_tokens * operations_of(encoder)
    seconds = wall_seconds(cpu, rate.cores or os.cpu_count() or 1)
    return Cost(1, what.texts, what.tokens, 0, seconds, memory_now(), what.disk_bytes, cpu=cpu)


_MOST_HASHES = 12
"""Hashes shown per source."""

assets_app = typer.Typer(
    no_args_is_help=True, help="List, fetch and remove the models, corpora and vectors known by name."
)


def complete_name(incomplete: str) -> list[str]:
    from lamina import assets

    return [name for name in assets.cards() if name.startswith(incomplete)]


Name = Annotated[str, typer.Argument(help="A name from `lamina assets list`.", autocompletion=complete_name)]


@assets_app.command("list")
def list_assets() -> None:
    """List every asset: its kind, size, licence, and whether this machine has it."""
    from rich.console import Console
    from rich.table import Table

    from lamina import assets

    table = Table(box=None, pad_edge=False)
    for heading in ("name", "kind", "size", "here"):
        table.add_column(heading, no_wrap=True)
    table.add_column("what")
    table.add_column("licence", max_width=20 if sys.stdout.isatty() else None)
    for card in assets.cards().values():
        table.add_row(card.name, card.kind, _size(card.size), _state(card), card.what, card.licence)
    # In a pipe there is no terminal width: one line per asset.
    Console(width=None if sys.stdout.isatty() else 300).print(table)


@assets_app.command()
def get(names: Annotated[list[str], typer.Argument(help="One or more names.", autocompletion=complete_name)]) -> None:
    """Fetch assets if needed, and print their folders."""
    from lamina import assets

    for card in [assets.find(name) for name in names]:
        print(f"{card.name}\t{assets.locate(card.name)}")


@assets_app.command()
def show(name: Name) -> None:
    """Show an asset's card: what it is, licence, files, sources and hashes."""
    from lamina import assets
    from lamina.assets.recipes import CorpusRecipe

    card = assets.find(name)
    lines = [
        ("name", card.name),
        ("kind", card.kind),
        ("what", card.what),
        ("licence", card.licence),
        ("origin", card.origin),
        ("size", _size(card.size)),
        ("here", str(assets.local_folder(name) or _state(card))),
        ("files", ", ".join(card.members)),
        ("note", card.note),
    ]
    for source in card.sources:
        lines.append(("source", source.place))
        # The files of a repository are named by git; there may be hundreds.
        kind, hashes = ("git blob", source.blobs) if isinstance(source, CorpusRecipe) else ("sha256", source.hashes)
        lines += [(kind, f"{digest}  {what}") for what, digest in islice(hashes.items(), _MOST_HASHES)]
        if len(hashes) > _MOST_HASHES:
            lines.append((kind, f"and {len(hashes) - _MOST_HASHES:,} more"))
    for label, text in lines:
        if text:
            print(f"{label:<8} {text}")


@assets_app.command()
def path(name: Name) -> None:
    """Print only the folder of an asset; does not fetch it."""
    from lamina import assets

    folder = assets.local_folder(name)
    if folder is None:
        broken = assets.damaged(name)
        if broken:
            raise AssetError(f"{broken[0]} is damaged: fetch it again with `lamina assets get {name}`")
        card = assets.find(name)
        how = f"fetch it with `lamina assets get {name}`" if card.sources else card.note
        raise AssetError(f"{name} is not on this machine: {how}")
    print(folder)


@assets_app.command()
def remove(name: Name) -> None:
    """Delete an asset from the cache; LAMINA_DATA is never touched."""
    from lamina import assets

    print(f"{name} removed from the cache" if assets.remove(name) else f"{name} is not in the cache")


def _state(card: Card) -> str:
    from lamina import assets

    if assets.is_cached(card.name):
        return "cached"
    if assets.local_folder(card.name):
        return "local"
    return "damaged" if assets.damaged(card.name) else "no"


def _size(count: int) -> str:
    return f"{count / 1e6:.1f} MB"


_PACKAGES = ("lamina", "torch", "transformers", "numpy", "pandas", "altair")
_PURPOSES = {
    "app": "lamina serve",
    "vectors": "skip-gram vectors of contextualize and senses",
    "gguf": "models packed as GGUF, smollm2 among them",
    "elmo": "ELMo models",
    "peft": "models with adapters",
    "datasets": "corpora named hf:OWNER/NAME",
    "ray": "--engine ray",
}
"""Extra -> what needs it."""


def doctor() -> None:
    """Check this installation: versions, device, caches, what is missing for what, and how good estimates were.

    Nothing is downloaded or changed.

    Example: `lamina doctor`
    """
    for title, lines in (
        ("Versions", _versions()),
        ("Machine", _machine()),
        ("Folders", _folders()),
        ("Missing", _missing()),
        ("Estimates", _estimates()),
    ):
        print(title, flush=True)
        for line in lines:
            print(f"  {line}", flush=True)


def _versions() -> Iterator[str]:
    yield f"{'python':<13} {platform.python_version()}"
    for package in _PACKAGES:
        yield f"{package:<13} {_version(package)}"


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def _machine() -> Iterator[str]:
    from lamina.framework.estimate import machine_name, other_load

    yield f"{'processor':<13} {machine_name()}; load {other_load():.1f} (average over the last minute)"
    import psutil

    memory = psutil.virtual_memory()
    yield f"{'memory':<13} {memory.total / 2**30:.0f} GiB, {memory.available / 2**30:.0f} GiB free"
    import torch

    cards = [torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count())]
    yield f"{'GPU':<13} {', '.join(cards) or 'none: models run on the CPU'}"


def _folders() -> Iterator[str]:
    from lamina.activations import default_root
    from lamina.files.checking import cache_dir

    data = os.environ.get("LAMINA_DATA")
    for name, folder in (("cache", cache_dir()), ("store", default_root()), ("LAMINA_DATA", Path(data or ""))):
        yield f"{name:<13} {_folder_state(folder) if name != 'LAMINA_DATA' or data else 'not set'}"


def _folder_state(folder: Path) -> str:
    there = next(parent for parent in (folder, *folder.parents) if parent.exists())
    free = f"{shutil.disk_usage(there).free / 1e9:,.0f} GB free"
    if not folder.exists():
        return f"{folder} (not there yet; {free})"
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    unwritable = "" if os.access(folder, os.W_OK) else "; cannot be written to"
    return f"{folder} ({size / 1e9:,.1f} GB, {free}{unwritable})"


def _missing() -> Iterator[str]:
    from lamina import assets
    from lamina.extras import EXTRAS, installed

    complete = True
    for extra, packages in EXTRAS.items():
        lacking = [package for package in packages if not installed(package)]
        if lacking:
            complete = False
            yield f"{', '.join(lacking)}: for {_PURPOSES[extra]}; pip install 'lamina[{extra}]'"
    absent: dict[str, list[str]] = {}
    for card in assets.cards().values():
        if assets.local_folder(card.name) is None and not assets.is_cached(card.name):
            absent.setdefault(card.kind, []).append(card.name)
    for kind, names in absent.items():
        complete = False
        yield f"{kind}, fetched when first needed or by lamina assets get NAME: {', '.join(names)}"
    if complete:
        yield "nothing"


def _estimates() -> Iterator[str]:
    from lamina.framework.estimate import profiles

    known = list(profiles())
    if not known:
        yield "nothing was measured yet: the first run of an analysis measures how fast this machine is"
    for profile in known:
        yield f"{profile.model}, {profile.device}, {profile.dtype}"
        for name, rate in sorted(profile.rates.items()):
            foreseen = f"foreseen {rate.foreseen:,.1f} s of CPU time, took {rate.took:,.1f}"
            runs = "1 run" if rate.runs == 1 else f"{rate.runs} runs"
            yield f"  {name:<18} {foreseen} (factor {rate.off:.1f}; {runs}, the rate is of {rate.measured})"
