"""Texts divided among ranks by their keys: machines, processes or GPUs that encode into one store.

Every way of encoding with more than one process asks the same function, `rank_of`. So no two ranks have a text in
common, whatever their number, and a rank that is started again has the same texts as before.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from filelock import FileLock

from lamina.activations.extraction import Engine, ThisMachine
from lamina.activations.room import check_disk
from lamina.activations.store import ActivationStore, default_root
from lamina.corpora.corpus import fingerprint_of
from lamina.errors import DamagedError, InputError
from lamina.files.checking import read_json, write_json
from lamina.files.places import check_locks
from lamina.files.writing import readable_write_errors
from lamina.keys import KeySet
from lamina.types import Text, text_key

if TYPE_CHECKING:
    from lamina.activations.store import StatePrecision
    from lamina.corpora import Corpus
    from lamina.models import Encoder

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
    return corpus if rank.is_all else replace(corpus, source=texts_of_rank, limit=None, fingerprint=fingerprint)


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
