"""From an encoder and a corpus to stored activations: whether there is room, the cost, and texts divided among ranks.

Ranks are machines, processes or GPUs that encode into one store; keys of texts decide.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

import torch
from filelock import FileLock

from lamina.activations.reading import StoredActivations
from lamina.activations.shards import SHARD_BYTES, HalfOverflowError
from lamina.activations.store import ActivationStore, StatePrecision, default_root
from lamina.corpora import Corpus
from lamina.corpora.corpus import TextCount, fingerprint_of
from lamina.errors import DamagedError, InputError, RoomError
from lamina.files.checking import check_locks, read_json, write_json
from lamina.files.writing import readable_write_errors
from lamina.keys import KeySet
from lamina.models import Encoder
from lamina.models.running.devices import format_size, free_in_memory, free_on_card
from lamina.progress import progress
from lamina.types import Text, text_key

if TYPE_CHECKING:
    from lamina.corpora import Corpus


_SAMPLED = 256
"""Texts that are tokenised to know how many tokens a word has."""
_TOKEN_BYTES = 8
"""Of a token's id and word, beside its states."""
_TEXT_BYTES = 48
"""Of a text's entry in an index."""


def free_on_disk(folder: Path) -> int:
    """Bytes that this user can still write to the disk of a folder, which need not exist yet.

    Example:
        >>> free_on_disk(Path("/no/such/folder")) > 0
        True
    """
    existing = next(parent for parent in (folder.absolute(), *folder.absolute().parents) if parent.exists())
    return shutil.disk_usage(existing).free


def refuse_without_room(what: str, need: int, free: int, where: str, *, fitting: int = 0, fix: str = "") -> None:
    """Raise a RoomError if `need` bytes are more than the `free` ones; it says what would fit.

    Args:
        what: that needs the room, in the plural: "the states of 1,000 texts".
        need: in bytes; may be estimated.
        free: in bytes.
        where: the free bytes are: "in FOLDER", "on cuda:0", "in memory".
        fitting: about how many texts would fit; 0 if it is not known, or none.
        fix: what else can be done.

    Example:
        >>> refuse_without_room("the states of 9 texts", 2**20, 2**30, "in memory")
        >>> refuse_without_room("the states of 900 texts", 3 * 2**30, 2**30, "in /data", fitting=312, fix="use --store")
        Traceback (most recent call last):
        lamina.errors.RoomError: the states of 900 texts need about 3.0 GiB, 1.0 GiB are free in /data; --limit 310 \
would fit, or use --store
    """
    if need <= free:
        return
    fixes = [f"--limit {_rounded_down(fitting)} would fit"] * bool(fitting) + [fix] * bool(fix)
    message = f"{what} need about {format_size(need)}, {format_size(free)} are free {where}"
    raise RoomError(f"{message}; {', or '.join(fixes)}" if fixes else message)


def check_disk(encoder: Encoder, texts: Iterable[Text], store: ActivationStore) -> int:
    """Raise a RoomError if the states that a store lacks of these texts do not fit its disk; returns how many it lacks.

    Words are counted, tokens are not: a sample says how many tokens a word has. `texts` may be read twice.
    """
    lacked = TextCount.of(store.missing(texts), _SAMPLED)
    per_word = _bytes_per_word(encoder, lacked.sample, store.value_bytes)
    need, free = int(lacked.words * per_word), free_on_disk(store.folder)
    fitting = 0
    if need > free:
        room = float(free)
        for text in texts:
            room -= len(text.words) * per_word * (text_key(text) not in store)
            if room < 0:
                break
            fitting += 1
    what = f"the states of {lacked.texts:,} texts"
    refuse_without_room(
        what, need, free, f"in {store.folder}", fitting=fitting, fix="give a folder on another disk with --store"
    )
    return lacked.texts


def _bytes_per_word(encoder: Encoder, sample: list[Text], value_bytes: int) -> float:
    tokens = sum(len(encoder.tokenize(text).ids) for text in sample)
    size = tokens * (encoder.layers * encoder.width * value_bytes + _TOKEN_BYTES) + len(sample) * _TEXT_BYTES
    return size / max(1, sum(len(text.words) for text in sample))


def _rounded_down(count: int) -> int:
    """To two digits: an estimate cannot promise more.

    Example:
        >>> _rounded_down(361_234), _rounded_down(7)
        (360000, 7)
    """
    unit = 10 ** max(0, len(str(count)) - 2)
    return count // unit * unit


# Where the states of a corpus live while they are used: on the card, in memory, or in a store; and why, in words.

_CARD_SHARE = 0.6
"""Most of a card's free memory that states may take: batches of the model and probes need the rest."""
_MEMORY_SHARE = 0.5
"""Most of the free memory that states may take."""


class Residence(NamedTuple):
    """Where states live."""

    device: str | None
    """Where they are held: a card, or "cpu" for memory. None: they are read from a store."""
    stored: bool
    """Whether encoded states are written to a store."""
    why: str
    """In words, for the end of a sentence that begins with "states are"."""


def choose_residence(
    encoder: Encoder, need: int, *, keep: bool | None, engine: bool = False, complete: bool = False
) -> Residence:
    """Where states of `need` bytes live: on the card, in memory or in a store, the first that has room.

    Args:
        encoder: whose states; they are held where it runs.
        need: in bytes.
        keep: whether they are stored; by default if the encoder runs on a CPU.
        engine: whether other processes encode, which need a store to write to.
        complete: whether all texts are in the store already.

    Example:
        >>> from lamina.testing import TinyEncoder
        >>> choose_residence(TinyEncoder(), 2**20, keep=None).why
        'stored: --keep is the default on a CPU'
        >>> choose_residence(TinyEncoder(), 2**62, keep=False).device is None
        True
    """
    card = device_of(encoder)
    if engine:
        return Residence(None, True, "stored: the workers of --engine write to a store")
    if card == "cpu" and keep is not False:
        if complete:
            return Residence(None, True, "read from the store, which has all texts")
        return Residence(None, True, "stored: --keep is the default on a CPU" if keep is None else "stored: --keep")
    return _first_with_room(card, need, keep=bool(keep), complete=complete)


def _first_with_room(card: str, need: int, *, keep: bool, complete: bool) -> Residence:
    also = ", read from the store" if complete else " and stored (--keep)" if keep else ""
    full = []
    if card != "cpu":
        free = free_on_card(card)
        if need <= _CARD_SHARE * free:
            return Residence(card, keep, f"held on {card}{also}: {format_size(need)} of {format_size(free)} free")
        full.append(f"{_CARD_SHARE:.0%} of the {format_size(free)} free on {card}")
    free = free_in_memory()
    if need <= _MEMORY_SHARE * free:
        more = f"; more than {full[0]}" if full else ""
        return Residence("cpu", keep, f"held in memory{also}: {format_size(need)} of {format_size(free)} free{more}")
    full.append(f"{_MEMORY_SHARE:.0%} of the {format_size(free)} of free memory")
    how = "read from the store" if complete else "stored"
    return Residence(None, True, f"{how}: {format_size(need)} do not fit {' or '.join(full)}")


def device_of(encoder: Encoder) -> str:
    """Where an encoder's states come from: a card as cuda:N, or cpu.

    Example:
        >>> from lamina.testing import TinyEncoder
        >>> device_of(TinyEncoder())
        'cpu'
    """
    device = encoder.device
    if device.type != "cuda":
        return "cpu"
    return f"cuda:{torch.cuda.current_device() if device.index is None else device.index}"


GPU_SHARD_BYTES = 128 * 2**20
"""A GPU needs larger batches, which a shard has to hold; larger ones take longer to be made ready than they save."""


class Engine(Protocol):
    """Encodes and stores missing texts."""

    def fill(self, encoder: Encoder, texts: Iterable[Text], store: ActivationStore, *, total: int | None = None) -> int:
        """Encode and store the missing texts; returns their number. `texts` may be read twice."""
        ...


class ThisMachine:
    """Encodes on this machine, on the encoder's device, and writes a shard for every `shard_bytes`."""

    def __init__(self, *, shard_bytes: int | None = None) -> None:
        self._shard_bytes = shard_bytes

    def fill(self, encoder: Encoder, texts: Iterable[Text], store: ActivationStore, *, total: int | None = None) -> int:
        """See `Engine.fill`."""
        done = 0
        try:
            for stored in self._fill(encoder, texts, store, total):
                done += stored
        except HalfOverflowError:
            # Some value exceeds float16's 65504, here or at another writer: what is not stored yet goes in as float32.
            store.widen()
            for stored in self._fill(encoder, texts, store, None if total is None else total - done):
                done += stored
        return done

    def _fill(
        self, encoder: Encoder, texts: Iterable[Text], store: ActivationStore, total: int | None
    ) -> Iterator[int]:
        """The number of texts of each batch, when it is stored or on its way."""
        # Identified by content, not by an id that two texts could share.
        missing = (Text(text_key(text).hex(), text.words, text.segments) for text in store.missing(texts))
        on_gpu = encoder.device.type == "cuda"
        shard_bytes = self._shard_bytes or (GPU_SHARD_BYTES if on_gpu else SHARD_BYTES)
        label = f"encoding with {encoder.name}"
        with store.writing(shard_bytes, pinned=on_gpu) as writer, progress(label, total) as advance:
            for packed in encoder.packed(missing, dtype=writer.dtype, room=writer.room, most=writer.most):
                writer.add_packed(packed)
                advance(len(packed.texts))
                yield len(packed.texts)


def extract(
    encoder: Encoder,
    corpus: Corpus,
    *,
    root: str | os.PathLike[str] | None = None,
    engine: Engine | None = None,
    repair: bool = False,
    precision: StatePrecision | None = None,
) -> StoredActivations:
    """The states of every text of the corpus, encoding only what is not stored yet.

    Args:
        encoder: the encoder.
        corpus: the texts to encode.
        root: where stores are kept; `lamina.activations.default_root()` by default.
        engine: where to encode; this machine by default.
        repair: verify all stored shards first, and encode the texts of damaged shards again.
        kept: precision of a new store: float16 by default, bfloat16 for a model that computes in it.
    """
    encoder.refuse(("states",))
    store = ActivationStore.of(encoder, root, precision=precision)
    if repair:
        store.drop(store.damaged())
    missing = check_disk(encoder, corpus, store)
    if missing:  # a complete store need not be writable
        with store.only_once(f"{corpus.fingerprint[:8]}-0-of-1"):
            (engine or ThisMachine()).fill(encoder, corpus, store, total=missing)
    return store.open(corpus)


class EncodingCost(NamedTuple):
    """The expected cost of encoding a corpus."""

    texts: int
    words: int
    tokens: int
    missing_texts: int
    """Texts that are not stored yet and would be encoded."""
    missing_tokens: int
    disk_bytes: int


def estimate(
    encoder: Encoder,
    corpus: Corpus,
    *,
    root: str | os.PathLike[str] | None = None,
    precision: StatePrecision | None = None,
) -> EncodingCost:
    """Count the texts, without encoding or storing anything."""
    store = ActivationStore.of(encoder, root, precision=precision)
    texts = words = tokens = 0
    for text in corpus:
        texts, words, tokens = texts + 1, words + len(text.words), tokens + len(encoder.tokenize(text).ids)
    missing_texts = missing_tokens = 0
    for text in store.missing(corpus):
        missing_texts, missing_tokens = missing_texts + 1, missing_tokens + len(encoder.tokenize(text).ids)
    disk = missing_tokens * encoder.layers * encoder.width * store.value_bytes
    return EncodingCost(texts, words, tokens, missing_texts, missing_tokens, disk)


_HALF = 8
"""Bytes of a key that decide the rank."""


def rank_of(key: bytes, ranks: int, *, within: bool = False) -> int:
    """The rank, from 0, that a text belongs to; `within`: the rank among the workers of one rank.

    Both are decided by different bytes of the key: by the same, all texts of a rank could go to one worker.

    Example:
        >>> rank_of(bytes(15) + b"\\x07", 8), rank_of(bytes(15) + b"\\x07", 8, within=True)
        (0, 7)
    """
    half = key[_HALF:] if within else key[:_HALF]
    return int.from_bytes(half, "big") % ranks


class Rank(NamedTuple):
    """One of several ranks, counted from 0.

    Example:
        >>> str(Rank(3, 8)), Rank(0, 1).is_all
        ('3/8', True)
    """

    number: int
    of: int

    @property
    def is_all(self) -> bool:
        """Whether there is no other rank."""
        return self.of == 1

    def __str__(self) -> str:
        return f"{self.number}/{self.of}"


def part_of(corpus: Corpus, rank: Rank) -> Corpus:
    """The texts of one rank.

    Example:
        >>> from lamina.corpora import corpus_from
        >>> corpus = corpus_from([[str(number)] for number in range(100)])
        >>> parts = [{text.words for text in part_of(corpus, Rank(number, 4))} for number in range(4)]
        >>> sum(map(len, parts)), len(set.union(*parts))
        (100, 100)
    """

    def texts_of_rank() -> Iterator[Text]:
        return (text for text in corpus if rank_of(text_key(text), rank.of) == rank.number)

    fingerprint = fingerprint_of("shard", corpus.fingerprint, *rank)
    return corpus if rank.is_all else replace(corpus, source=texts_of_rank, fingerprint=fingerprint)


def parse_rank(text: str) -> Rank:
    """A rank as it is written: its number, from 0, and how many there are.

    Example:
        >>> parse_rank("3/8")
        Rank(number=3, of=8)
        >>> parse_rank("8/8")
        Traceback (most recent call last):
        lamina.errors.InputError: there is no shard 8/8: shards are counted from 0, so give 0/8 to 7/8
    """
    number, slash, of = text.partition("/")
    if not (slash and number.isdecimal() and of.isdecimal()) or int(of) == 0:
        raise InputError(f"a shard is its number, from 0, and how many there are, as 0/8 or 7/8; got {text!r}")
    rank = Rank(int(number), int(of))
    if rank.number >= rank.of:
        raise InputError(
            f"there is no shard {rank}: shards are counted from 0, so give 0/{rank.of} to {rank.of - 1}/{rank.of}"
        )
    return rank


def slurm_rank(environment: Mapping[str, str] = os.environ) -> Rank | None:
    """The rank of a task of a SLURM job array; None if this is not one.

    Example:
        >>> slurm_rank({"SLURM_ARRAY_TASK_ID": "3", "SLURM_ARRAY_TASK_COUNT": "8", "SLURM_ARRAY_TASK_MIN": "1"})
        Rank(number=2, of=8)
    """
    variables = {
        name: environment.get(f"SLURM_ARRAY_TASK_{name}", "") for name in ("ID", "COUNT", "MIN", "MAX", "STEP")
    }
    if not variables["ID"]:
        return None
    try:
        task, count, first = int(variables["ID"]), int(variables["COUNT"]), int(variables["MIN"] or 0)
        step = int(variables["STEP"] or 1)
        last = int(variables["MAX"] or first + step * (count - 1))
    except ValueError:
        raise InputError(
            f"SLURM_ARRAY_TASK_ID is {variables['ID']!r}, and SLURM_ARRAY_TASK_COUNT and _MIN do not say how many "
            "tasks there are; give --shard NUMBER/OF, or --shard 0/1 for all texts"
        ) from None
    number, between = divmod(task - first, step)
    if between or not 0 <= number < count or last != first + step * (count - 1):
        raise InputError(
            f"task {task} of a SLURM array of {count} tasks from {first} to {last}: with gaps in it, the tasks do not "
            "tell their shards; give --shard NUMBER/OF, or submit an array without gaps"
        )
    return Rank(number, count)


class RankDone(NamedTuple):
    """What one rank has done."""

    encoded: int
    """Texts that it encoded."""
    stored: int
    """Texts of the corpus that are stored now, by all ranks."""
    texts: int
    """Texts of the corpus, each counted once."""
    store: Path


def encode_rank(
    encoder: Encoder,
    corpus: Corpus,
    rank: Rank,
    *,
    root: str | os.PathLike[str] | None = None,
    engine: Engine | None = None,
    precision: StatePrecision | None = None,
) -> RankDone:
    """Encode and store what is missing of one rank's texts; other ranks may do theirs at the same time.

    Other arguments are those of `extract`.

    Example:
        >>> import tempfile
        >>> from lamina.corpora import corpus_from
        >>> from lamina.testing import TinyEncoder
        >>> corpus = corpus_from([["Dogs", "bark"], ["Cats", "do", "not"], ["Birds", "sing"]])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     both = [encode_rank(TinyEncoder(), corpus, Rank(number, 2), root=folder) for number in range(2)]
        >>> sum(done.encoded for done in both), both[-1].stored, both[-1].texts
        (3, 3, 3)
    """
    encoder.refuse(("states",))
    store = ActivationStore.of(encoder, root, precision=precision)
    # Of all texts: the other ranks need the disk as well.
    check_disk(encoder, corpus, store)
    # The disk has to have room for what all ranks write.
    check_disk(encoder, corpus, store)
    part = part_of(corpus, rank)
    plan = SharedPlan(Path(default_root() if root is None else root))
    if not rank.is_all:
        plan.join(encoder, corpus, rank)
    encoded = 0
    if missing := sum(1 for _ in store.missing(part)):
        with store.only_once(f"{corpus.fingerprint[:8]}-{rank.number}-of-{rank.of}"):
            encoded = (engine or ThisMachine()).fill(encoder, part, store, total=missing)
    store.refresh()
    met, stored = KeySet(), 0
    for text in corpus:
        key = text_key(text)
        stored += met.add(key) and key in store
    if stored == len(met):
        plan.leave()
    return RankDone(encoded, stored, len(met), store.folder)


class SharedPlan:
    """What the ranks of one run have agreed on: model, texts, and how many they are.

    The first rank writes it down, the others compare, and it is deleted when every text is stored. A job array has a
    plan of its own, so that several may run at once.
    """

    def __init__(self, root: Path) -> None:
        job = os.environ.get("SLURM_ARRAY_JOB_ID", "")
        self.path = root / (f"shards-{job}.json" if job.isdecimal() else "shards.json")

    def join(self, encoder: Encoder, corpus: Corpus, rank: Rank) -> None:
        """Write the plan down, or compare with it: an InputError if this rank was started differently."""
        plan = {
            "model": encoder.name,
            "fingerprint": encoder.fingerprint,
            "texts": f"{corpus.name} ({corpus.split})",
            "texts_fingerprint": corpus.fingerprint,
            "shards": rank.of,
        }
        lock = self.path.with_suffix(".lock")
        with readable_write_errors(lock):
            check_locks(lock)
            with FileLock(lock):
                agreed = self._read()
                if agreed is None:
                    write_json(self.path, plan)
                    return
        different = list(_different(agreed, plan))
        if different:
            raise InputError(
                f"shard {rank} does not belong to the run that is going on in {self.path.parent}: that one has "
                f"{'; '.join(different)}. Start all shards with the same command; for another run use another --store, "
                f"or, if that run was given up, delete {self.path}"
            )

    def leave(self) -> None:
        """Delete the plan: all is done."""
        self.path.unlink(missing_ok=True)
        self.path.with_suffix(".lock").unlink(missing_ok=True)

    def _read(self) -> dict | None:
        try:
            return read_json(self.path)
        except (OSError, DamagedError):
            return None


def _different(agreed: Mapping[str, object], ours: Mapping[str, object]) -> Iterator[str]:
    """What was agreed and is different here, in words."""
    names = {
        "fingerprint": ("model", "with other weights, --dtype or --max-tokens"),
        "texts_fingerprint": ("texts", "with another --limit or --unit, or other files"),
    }
    for name, (subject, how) in names.items():
        if agreed.get(name) != ours[name]:
            there, here = agreed.get(subject), ours[subject]
            yield f"the {subject} {there} {how}" if there == here else f"the {subject} {there}, not {here}"
    if agreed.get("shards") != ours["shards"]:
        yield f"{agreed.get('shards')} shards, not {ours['shards']}"
