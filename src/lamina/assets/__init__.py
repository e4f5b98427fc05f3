"""Models, corpora and vectors by name: described on cards, fetched once, verified and cached.

Example:
    >>> from lamina import assets
    >>> assets.find("minilm").licence
    'Apache-2.0'
"""

from __future__ import annotations

import os
import re
from difflib import get_close_matches
from pathlib import Path

from lamina.assets.cache import cached, discard, fetch, missing
from lamina.assets.cache import damaged as damaged_files
from lamina.assets.catalogue import CARDS
from lamina.assets.origins import local_origins, offline_by
from lamina.assets.sources import Card
from lamina.errors import AssetError, ModelError, OfflineError
from lamina.files.checking import cache_dir

__all__ = [
    "Card",
    "cache_dir",
    "cards",
    "damaged",
    "find",
    "is_cached",
    "local_folder",
    "locate",
    "refuse_misspelt_model",
    "remove",
]


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


def refuse_misspelt_model(name: str) -> None:
    """Raise a ModelError for a name that no model here can have, at once: asking the hub takes half a minute.

    That is one that is almost an alias and, with HF_HUB_OFFLINE, a hub id of which this machine holds nothing.

    Example:
        >>> refuse_misspelt_model("minilmm:decoder")
        Traceback (most recent call last):
        lamina.errors.ModelError: there is no model 'minilmm'; did you mean minilm?
    """
    if "+" in name and not _exists(name):
        # An adapter with its base.
        for part in name.rpartition("+")[::2]:
            refuse_misspelt_model(part)
        return
    source = re.sub(r":(?:encoder|decoder)$", "", name).partition("@")[0]
    if (
        source in OWN_VECTORS
        or source in cards()
        or not source.strip()
        or "\0" in source
        or _exists(name)
        or _exists(source)
    ):
        return
    aliases = [card.name for card in CARDS if card.kind == "model"]
    close = get_close_matches(source.lower(), aliases, n=1, cutoff=0.75) if "/" not in source else []
    if close:
        raise ModelError(f"there is no model {source!r}; did you mean {close[0]}?")
    if os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "ON", "YES", "TRUE"):
        downloaded = _downloaded_models()
        if source not in downloaded:
            close = get_close_matches(source, downloaded, n=1, cutoff=0.75)
            meant = f"did you mean {close[0]}? Otherwise " if close else ""
            raise ModelError(
                f"there is no model {name!r} on this machine, and HF_HUB_OFFLINE keeps the hub from being asked; "
                f"{meant}unset it, or give an alias ({', '.join(aliases)}) or a folder"
            )


def _downloaded_models() -> list[str]:
    """The ids of the hub's models in its cache, found without importing it."""
    home = os.environ.get("HF_HOME") or Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "huggingface"
    folder = Path(os.environ.get("HF_HUB_CACHE") or os.environ.get("HUGGINGFACE_HUB_CACHE") or Path(home) / "hub")
    return [path.name.removeprefix("models--").replace("--", "/") for path in folder.expanduser().glob("models--*")]


def _exists(name: str) -> bool:
    try:
        return Path(name).exists()
    except OSError:
        # Longer than a path can be.
        return False


OWN_VECTORS = {
    "glove300": ("glove.6B.300d.txt", "glove.840B.300d.txt"),
    "fasttext": ("wiki-news-300d-1M.vec", "crawl-300d-2M.vec", "wiki-news-300d-1M-subword.vec"),
}
"""Word vectors that users bring themselves: name -> the files they are published in, the first that is there."""


def own_vectors(name: str, folder: Path | None = None) -> Path | None:
    """The user's copy of published word vectors, in LAMINA_DATA or its folder `vectors` or NAME; None for other names.

    With a folder, they are looked for there first.

    Example:
        >>> own_vectors("glove") is None
        True
    """
    if name not in OWN_VECTORS:
        return None
    root = Path(os.environ.get("LAMINA_DATA") or ".").expanduser().absolute()
    roots = [root] if folder is None else [folder.expanduser().absolute(), root]
    places = [
        place / published
        for top in roots
        for published in OWN_VECTORS[name]
        for place in (top, top / "vectors", top / name)
    ]
    file = next((place for place in places if place.is_file()), None)
    if file is None:
        files = " or ".join(OWN_VECTORS[name])
        raise AssetError(f"{name} is not on this machine: put {files} into the folder that LAMINA_DATA names ({root})")
    return file


def locate(name: str) -> Path:
    """The folder that holds the asset's files; fetches them first if this machine does not have them.

    Corpora and vectors are looked for in the folder `LAMINA_DATA` names, then in the cache; then the card's sources
    are tried in order. With `LAMINA_OFFLINE=1` or `HF_HUB_OFFLINE=1` nothing is downloaded; what can be made from the
    folder that `LAMINA_ORIGINS` names still is.
    """
    card = find(name)
    here = local_folder(name)
    if here:
        return here
    if not card.sources:
        raise AssetError(f"{name} is not on this machine and there is no source to fetch it from. {card.note}")
    if (variable := offline_by()) is not None and local_origins() is None:
        raise OfflineError(
            f"{missing(card)} and {variable} is set: unset it and run `lamina assets get {name}`{card.by_hand}"
        )
    return fetch(card)


def local_folder(name: str) -> Path | None:
    """The folder that holds the asset's files, or None if this machine does not have them; fetches nothing."""
    card = find(name)
    return _in_data_folder(card) or cached(card)


def is_cached(name: str) -> bool:
    """Whether the cache holds the complete asset, matching its current card."""
    return cached(find(name)) is not None


def damaged(name: str, *, now: bool = False) -> list[Path]:
    """Files of a cached asset that are no longer what was fetched; with `now`, all of them are hashed again."""
    return damaged_files(find(name), now=now)


def remove(name: str) -> bool:
    """Remove the asset from the cache; False if it was not cached. `LAMINA_DATA` folders are never touched."""
    return discard(find(name))


def _in_data_folder(card: Card) -> Path | None:
    data = os.environ.get("LAMINA_DATA")
    if not data or card.kind == "model":
        return None
    folder = Path(data).expanduser().absolute() / card.name
    holds_some = any(next(folder.glob(member), None) for member in card.members)
    return folder if holds_some else None
