"""Models, corpora and vectors by name: described on cards, fetched once, verified, kept in a cache.

Example:
    >>> from lamina import assets
    >>> assets.find("minilm").licence
    'Apache-2.0'
"""

from __future__ import annotations

import os
from difflib import get_close_matches
from pathlib import Path

from lamina.assets.cache import cache_dir, cached, discard, fetch
from lamina.assets.cards import Card
from lamina.assets.catalogue import CARDS
from lamina.errors import AssetError, OfflineError

__all__ = ["Card", "cache_dir", "cards", "find", "held", "is_cached", "locate", "remove"]


def cards() -> dict[str, Card]:
    """Every card, by name.

    Example:
        >>> sorted(name for name, card in cards().items() if card.kind == "model")
        ['minilm', 'mpnet', 'smollm2']
    """
    return {card.name: card for card in CARDS}


def find(name: str) -> Card:
    """The card of this name.

    Example:
        >>> find("minilm").kind
        'model'
        >>> find("minilmm")
        Traceback (most recent call last):
        lamina.errors.AssetError: there is no asset 'minilmm'; did you mean minilm? All names: `lamina assets list`
    """
    known = cards()
    if name in known:
        return known[name]
    close = get_close_matches(name, known, n=3)
    hint = f"; did you mean {' or '.join(close)}?" if close else "."
    raise AssetError(f"there is no asset {name!r}{hint} All names: `lamina assets list`")


def locate(name: str) -> Path:
    """The folder that holds the asset's files; fetched first where this machine has none.

    Corpora and vectors are looked for in the folder `LAMINA_DATA` names, then in the cache; then the card's sources
    are tried in order. `LAMINA_OFFLINE=1` keeps lamina to what the machine has.
    """
    card = find(name)
    here = held(name)
    if here:
        return here
    if not card.sources:
        raise AssetError(f"{name} is not on this machine and is not published as one download. {card.note}")
    if os.environ.get("LAMINA_OFFLINE", "0") not in ("", "0"):
        raise OfflineError(
            f"{name} is not on this machine and LAMINA_OFFLINE is set: unset it and run "
            f"`lamina assets get {name}`{card.by_hand}"
        )
    return fetch(card)


def held(name: str) -> Path | None:
    """The folder that holds the asset's files, where this machine has them; nothing is fetched."""
    card = find(name)
    return _in_data_folder(card) or cached(card)


def is_cached(name: str) -> bool:
    """Whether the cache holds the asset whole, as its card promises it today."""
    return cached(find(name)) is not None


def remove(name: str) -> bool:
    """Take the asset out of the cache; false where it was not there. A folder of `LAMINA_DATA` is never touched."""
    return discard(find(name))


def _in_data_folder(card: Card) -> Path | None:
    data = os.environ.get("LAMINA_DATA")
    if not data or card.kind == "model":
        return None
    folder = Path(data).expanduser().absolute() / card.name
    holds_some = any(next(folder.glob(member), None) for member in card.members)
    return folder if holds_some else None
