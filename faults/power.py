"""A loss of power: a run ends at some call, and what was not synced by then is dropped.

Whatever is left: what is read is whole or refused, the same command does its work, and what a command that had ended
promised is there.
"""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path

from faults.campaign import Campaign
from faults.layer import Disk, FileLayer, available, moments
from faults.writes import content, damaged, different, fresh, prepared, settle, writings

MADE_AGAIN = {"a store", "a cache"}
"""Kinds of writing without an output of their own: what is lost is made again."""


def run(campaign: Campaign) -> None:
    """Run the part."""
    if not available():
        campaign.note("not run: no file layer (a C compiler on Linux is needed)")
        return
    place, notes = campaign.folder / "place", campaign.folder / "notes"
    for writing in writings(campaign):
        ready = prepared(campaign, writing)
        if ready is None:
            continue
        fresh(place, ready)
        layer = FileLayer(place, notes)
        whole = campaign.lamina(
            *writing.at(place), before=layer.armed("count", first=partial(settle, place)), seconds=600
        )
        if whole.code != 0:
            campaign.bad(f"power: {writing.kind}", f"without a fault: {whole.said}")
            continue
        calls, writing.expected = layer.calls(), content(place)
        for number in range(campaign.count(1, 3)):
            _lose_power(campaign, ready, place, layer)
            found = content(place)
            lost = "" if found == writing.expected or writing.kind in MADE_AGAIN else different(found, writing.expected)
            campaign.judge(f"power lost after the end: {writing.kind} {number}", lost or damaged(campaign, place))
        for turn in moments(calls, campaign.count(1, 8), campaign.random):
            if campaign.left() < 0:
                return
            fresh(place, ready)
            layer = FileLayer(place, notes)
            before = layer.armed("kill", turn, first=partial(settle, place))
            campaign.lamina(*writing.at(place), before=before, seconds=300)
            _lose_power(campaign, ready, place, layer)
            call = calls[turn - 1]
            case = f"power lost: {writing.kind}, at {turn} of {len(calls)} ({call.other} of {Path(call.path).name})"
            old, now = outputs(content(ready)), outputs(content(place))
            other = (
                ""
                if now in (old, outputs(writing.expected)) or not old
                else f"what was there is damaged: {different(now, old)}"
            )
            again = campaign.lamina(*writing.at(place), before=partial(settle, place), seconds=300)
            if again.code != 0 or again.traceback:
                other = other or f"the same command again: exit status {again.code}: {again.said}"
            elif content(place) != writing.expected:
                other = other or f"after the same command again {different(content(place), writing.expected)}"
            campaign.judge(case, other or damaged(campaign, place))


def outputs(found: dict[str, bytes]) -> dict[str, bytes]:
    """What the command was run for."""
    return {name: data for name, data in found.items() if name.startswith("out/")}


def _lose_power(campaign: Campaign, ready: Path, place: Path, layer: FileLayer) -> None:
    """Replace a place by what is on its disk after a loss of power."""
    left = campaign.folder / "left"
    shutil.rmtree(left, ignore_errors=True)
    Disk(ready, place).after(layer.log(), left, campaign.random)
    shutil.rmtree(place)
    left.rename(place)
