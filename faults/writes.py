"""A file layer that fails: of every kind of writing, the n-th call that changes a file fails, once or from then on.

Afterwards nothing that was there is damaged, the message is one sentence, and the same command then does its work.
"""

from __future__ import annotations

import errno
import io
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pandas as pd

from faults.campaign import Campaign, Outcome
from faults.commands import SmallCommands
from faults.kills import short_training, small_shards
from faults.layer import FileLayer, available, moments

_SHORT = ("a result that replaces another", "a converted corpus")
"""What the short form tries."""
ERRORS = (errno.EIO, errno.ENOSPC, errno.EACCES)


@dataclass
class Writing:
    """A command that writes: what it needs in its place, and what has to come out."""

    kind: str
    words: Sequence[object]
    """With `{}` for its place."""
    needs: Sequence[Sequence[object]] = ()
    """Commands that are run before it, once."""
    calls: int = 0
    """How many calls change files when nothing fails."""
    expected: dict[str, bytes] = field(default_factory=dict)

    def at(self, place: Path, words: Sequence[object] | None = None) -> list[str]:
        """The command in its place."""
        return [str(word).replace("{}", str(place)) for word in words or self.words]


def writings(campaign: Campaign) -> Sequence[Writing]:
    """One command for each kind of writing; in the short form two of them."""
    model, corpus = campaign.tiny_model(width=16), campaign.tiny_corpus(60, 20)
    causal, commands = campaign.tiny_model(width=16, head="causal"), SmallCommands(campaign)
    bank, out = ("--corpus", corpus), ("--out", "{}/out")
    geometry = ("geometry", model, *bank, "--no-twin", *out, "--samples")
    encode = ("encode", model, *bank, "--split", "dev")
    choose = (
        "choose",
        model,
        "--corpus",
        commands.labelled,
        "--task",
        "supersense",
        "--samples",
        10,
        "--save",
        "{}/probe",
    )
    found = [
        Writing("a result that replaces another", (*geometry, 10, "--replace"), [(*geometry, 5)]),
        Writing("a store", encode),
        Writing("charts", ("results", "draw", "{}/out"), [(*geometry, 5)]),
        Writing("a cache", (*geometry, 10)),
        Writing(
            "probes",
            ("probe", model, *bank, "--task", "pos", "--seeds", 1, "--samples", 20, "--no-twin", *out),
            [encode],
        ),
        Writing("a saved probe", (*choose, *out)),
        Writing(
            "labels", ("apply", "{}/probe", *bank, "--out", "{}/out/labels.csv"), [(*choose, "--out", "{}/chosen")]
        ),
        Writing(
            "a fine-tuned model",
            ("finetune", model, "--task", "pos", "--data", corpus, "--max-steps", 6, "--batch", 8, *out),
        ),
        Writing(
            "a pruned model",
            (
                "prune",
                causal,
                *bank,
                "--target",
                "loss",
                "--items",
                6,
                "--no-twin",
                "--step",
                4,
                "--draws",
                1,
                "--samples",
                10,
                "--save",
                "top:1",
                *out,
            ),
        ),
        Writing(
            "a converted corpus",
            ("data", "convert", corpus, "{}/out/pos.jsonl", "--annotation", "pos", "--split", "dev"),
        ),
        Writing("a report", ("report", model, *bank, "--only", "geometry", "--samples", 10, "--no-twin", *out)),
    ]
    if campaign.full:
        return campaign.mine(found)
    return [writing for writing in found if writing.kind in _SHORT]


def settle(place: Path) -> None:
    """What a forked run does first: everything it keeps is in its place."""
    os.environ |= {"LAMINA_CACHE": str(place / "cache"), "LAMINA_STORE": str(place / "store")}
    small_shards()
    short_training()


def run(campaign: Campaign) -> None:
    """Run the part."""
    if not available():
        campaign.note("not run: no file layer (a C compiler on Linux is needed)")
        return
    each = campaign.count(2, 10)
    for writing in writings(campaign):
        ready = prepared(campaign, writing)
        if ready is None:
            continue
        place, notes = campaign.folder / "place", campaign.folder / "notes"
        fresh(place, ready)
        layer = FileLayer(place, notes)
        whole = campaign.lamina(
            *writing.at(place), before=layer.armed("count", first=partial(settle, place)), seconds=600
        )
        if whole.code != 0:
            campaign.bad(f"writes: {writing.kind}", f"without a fault: {whole.said}")
            continue
        calls, writing.expected = layer.calls(), content(place)
        campaign.note(f"{writing.kind}: {len(calls)} calls change files")
        for turn in moments(calls, each, campaign.random):
            if campaign.left() < 0:
                return
            once = campaign.random.random() < 0.5
            error = campaign.random.choice(ERRORS)
            fresh(place, ready)
            layer = FileLayer(place, notes)
            how = (
                "cut short"
                if calls[turn - 1].other == "write" and once
                else "fail once"
                if once
                else "fail from then on"
            )
            before = layer.armed(how, turn, error, first=partial(settle, place))
            done = campaign.lamina(*writing.at(place), before=before, seconds=300)
            what = f"{calls[turn - 1].other} of {os.path.relpath(calls[turn - 1].path, place)}"
            case = f"writes: {writing.kind}: {how} ({errno.errorcode[error]}) at {turn}, {what}"
            campaign.judge(case, spoken_fault(done) or standing(campaign, writing, place, ready, failed=done.code != 0))


def prepared(campaign: Campaign, writing: Writing) -> Path | None:
    """The place as it is before the command, made once; None if that failed."""
    ready, place = campaign.folder / "ready" / writing.kind.replace(" ", "-"), campaign.folder / "place"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    for words in writing.needs:
        done = campaign.lamina(*writing.at(place, words), before=partial(settle, place), seconds=600)
        if done.code != 0:
            campaign.bad(f"{writing.kind}: prepared", done.said)
            return None
    shutil.copytree(place, ready)
    return ready


def fresh(place: Path, ready: Path) -> None:
    """The place as it was before the command."""
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(ready, place)


def content(place: Path) -> dict[str, bytes]:
    """What a command is run for: its tables but for measured times, and files, by path; places in the rest differ."""
    kept = {".csv", ".safetensors", ".jsonl"}
    inside = [path for path in sorted(place.rglob("*")) if path.suffix in kept and path.is_file()]
    names = [(path, path.relative_to(place)) for path in inside]
    # What is hidden is left by a process that ended; the next writer sweeps it.
    mine = [pair for pair in names if pair[1].parts[0] not in ("cache", "store") and pair[1].parts[0][0] != "."]
    return {str(name): _without_times(path) for path, name in mine}


def _without_times(path: Path) -> bytes:
    data = path.read_bytes()
    if path.suffix != ".csv" or b"seconds" not in data.partition(b"\n")[0]:
        return data
    table = pd.read_csv(io.BytesIO(data), dtype=str)
    return table.loc[:, ~table.columns.str.startswith("seconds")].to_csv(index=False).encode()


def spoken_fault(done: Outcome) -> str:
    """What is wrong with how a command ended whose disk failed: it may have done its work, or says why not."""
    if done.code is None:
        return f"ran out of time: {done.said}"
    if done.traceback or done.code not in (0, 1, 2):
        return f"exit status {done.code}: {done.said}"
    return ""


def standing(campaign: Campaign, writing: Writing, place: Path, ready: Path, *, failed: bool) -> str:
    """What is wrong with what is there after a fault, and after the same command once more; nothing if all is well."""
    if not failed and content(place) != writing.expected:
        return f"it ended well, but {different(content(place), writing.expected)}"
    before = {name: data for name, data in content(ready).items() if name.startswith("out/")}
    now = {name: data for name, data in content(place).items() if name.startswith("out/")}
    if (
        failed
        and before
        and now not in (before, {name: writing.expected[name] for name in now if name in writing.expected})
    ):
        return f"what was there is damaged: {different(now, before)}"
    damage = damaged(campaign, place)
    if damage:
        return damage
    again = campaign.lamina(*writing.at(place), before=partial(settle, place), seconds=300)
    if again.code != 0 or again.traceback:
        return f"the same command again: exit status {again.code}: {again.said}"
    if content(place) != writing.expected:
        return f"after the same command again {different(content(place), writing.expected)}"
    return damaged(campaign, place)


def different(found: dict[str, bytes], wanted: dict[str, bytes]) -> str:
    """Which files are missing, new or other."""
    names = [name for name in sorted({*found, *wanted}) if found.get(name) != wanted.get(name)]
    return ", ".join(f"{name} {'is missing' if name not in found else 'differs'}" for name in names[:5])


def damaged(campaign: Campaign, place: Path) -> str:
    """What is damaged in the stores, probes and results of a place."""
    done = campaign.forked(lambda: _print_damage(place), seconds=120)
    return done.said.strip() if done.code == 0 else f"what is there cannot be looked at: {done.said}"


def _print_damage(place: Path) -> None:
    from faults.kills import damage
    from lamina.errors import LaminaError
    from lamina.results import Result
    from lamina.results.result import check_result

    found = damage(place / "store") if (place / "store").exists() else ""
    for head in sorted(place.glob("*/result.json")):
        try:
            Result.load(head.parent)
            found += "; ".join(check_result(head.parent))
        except LaminaError as error:
            found += str(error)
    print(found)
