"""Where the states of a corpus live while they are used: on the card, in memory, or in a store; and why, in words."""

from __future__ import annotations

from typing import NamedTuple

import torch

from lamina.activations.room import free_in_memory, free_on_card, shown_size
from lamina.encoders import Encoder

_CARD_SHARE = 0.6
"""Most of a card's free memory that states may take: batches of the model and probes need the rest."""
_MEMORY_SHARE = 0.5
"""Most of the free memory that states may take."""


class Residence(NamedTuple):
    """Where states live."""

    device: str | None
    """Where they are held: a card, or "cpu" for memory. None: they are read from a store."""
    stored: bool
    """Whether what is encoded is written to a store."""
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
            return Residence(card, keep, f"held on {card}{also}: {shown_size(need)} of {shown_size(free)} free")
        full.append(f"{_CARD_SHARE:.0%} of the {shown_size(free)} free on {card}")
    free = free_in_memory()
    if need <= _MEMORY_SHARE * free:
        more = f"; more than {full[0]}" if full else ""
        return Residence("cpu", keep, f"held in memory{also}: {shown_size(need)} of {shown_size(free)} free{more}")
    full.append(f"{_MEMORY_SHARE:.0%} of the {shown_size(free)} of free memory")
    how = "read from the store" if complete else "stored"
    return Residence(None, True, f"{how}: {shown_size(need)} do not fit {' or '.join(full)}")


def device_of(encoder: Encoder) -> str:
    """Where an encoder's states come from: a card as cuda:N, or cpu.

    Example:
        >>> from lamina.testing import TinyEncoder
        >>> device_of(TinyEncoder())
        'cpu'
    """
    found = encoder.device
    if found.type != "cuda":
        return "cpu"
    return f"cuda:{torch.cuda.current_device() if found.index is None else found.index}"
