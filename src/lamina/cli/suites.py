"""Test suites by name: BLiMP, SyntaxGym and the like, which are items for language models instead of labelled texts."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lamina.errors import CorpusError

if TYPE_CHECKING:
    from lamina.assets import Card

_WIDTH = 160


def find_suite(name: str) -> Card | None:
    """The card of the suite of this name, or None.

    Example:
        >>> suite = find_suite("blimp")
        >>> suite.licence if suite else None
        'CC BY 4.0'
        >>> find_suite("ewt") is None
        True
    """
    from lamina.assets import cards

    card = cards().get(name)
    return card if card is not None and card.kind == "suite" else None


def list_suites() -> Iterator[str]:
    """What `lamina data list` says about suites."""
    from lamina.assets import cards, held

    for card in cards().values():
        if card.kind == "suite":
            here = "on this machine" if held(card.name) else "not on this machine"
            yield f"{card.name}  ({here})"
            yield f"  {card.what}"
            yield f"  from: {card.origin}, {card.licence}"


def show_suite(card: Card, limit: int | None) -> Iterator[str]:
    """What a suite is, where its files are, and the first items of its first file; fetches the suite if needed."""
    from lamina.assets import locate

    folder = locate(card.name)
    files = [path for member in card.members for path in sorted(folder.glob(member))]
    yield f"{card.name}: {card.what}"
    yield "A test suite for language models, not a corpus of texts with labels: it has no splits and no tasks to probe."
    yield f"Files: {len(files):,}, in {folder} ({card.licence})"
    if files:
        yield f"\n{files[0].relative_to(folder).as_posix()}:"
        yield from islice(_items(files[0]), limit)


def _items(path: Path) -> Iterator[str]:
    from lamina.files.reading import open_regular, parse_json, read_regular

    if path.suffix == ".json":
        try:
            yield from _regions(parse_json(read_regular(path).decode("utf-8-sig")))
        except (ValueError, TypeError, AttributeError, KeyError) as error:
            raise CorpusError(f"{path} is not a SyntaxGym suite ({error}); remove it, or get the suite again") from None
        return
    with open_regular(path) as file:
        for line in file:
            shown = line.decode("utf-8", errors="replace").strip()
            yield f"  {shown if len(shown) <= _WIDTH else shown[: _WIDTH - 3] + '...'}"


def _regions(suite: dict[str, Any]) -> Iterator[str]:
    """The sentences of a SyntaxGym suite, regions separated by bars."""
    for item in suite["items"]:
        for condition in item["conditions"]:
            regions = " | ".join(str(region.get("content", "")) for region in condition["regions"])
            yield f"  item {item.get('item_number')}, {condition.get('condition_name')}: {regions}"
