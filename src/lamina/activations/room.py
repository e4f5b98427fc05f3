"""Whether something fits the card, the memory or the disk: asked before work begins, and refused in words."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import torch

from lamina.errors import RoomError
from lamina.models import Encoder
from lamina.models.running.devices import format_size, free_in_memory, free_on_card
from lamina.types import Text, text_key

if TYPE_CHECKING:
    from lamina.activations.store import ActivationStore


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
    lacked = _TextCount.of(store.missing(texts))
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


class _TextCount(NamedTuple):
    """Texts, counted in one pass."""

    texts: int
    words: int
    sample: list[Text]
    """Some of the texts, at equal distances."""

    @classmethod
    def of(cls, texts: Iterable[Text]) -> _TextCount:
        number = words = 0
        sample: list[Text] = []
        distance = 1
        for text in texts:
            if number % distance == 0:
                sample.append(text)
                if len(sample) > _SAMPLED:
                    del sample[1::2]
                    distance *= 2
            number, words = number + 1, words + len(text.words)
        return cls(number, words, sample)


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
    """For people, to be said after "states are"."""


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
