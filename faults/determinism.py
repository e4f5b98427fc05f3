"""The same command again, with other threads, with some texts stored before: every table has the same bytes."""

from __future__ import annotations

import io
import math
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from faults.campaign import Campaign

_ROUNDED = 0.02
"""Largest difference between two tables where sums have another order: a decision at the edge may flip."""


def run(campaign: Campaign) -> None:
    """Run each command plainly, then under other circumstances, and compare all tables."""
    corpus, model = campaign.tiny_corpus(40, 20), campaign.tiny_model()
    part = ("encode", model, "--corpus", corpus, "--split", "dev", "--limit", 7)
    for name, command in _commands(model, corpus, full=campaign.full).items():
        plain = _tables(campaign, command)
        if not plain:
            campaign.bad(name, "no tables were written")
            continue
        circumstances = {
            "again": ({}, 0.0),
            "two threads": ({"threads": 2}, _ROUNDED),
            "some texts stored before": ({"first": part}, _ROUNDED),
        }
        for what, (settings, allowed) in circumstances.items():
            if campaign.full and campaign.left() < 0:
                return
            found = _tables(campaign, command, **settings)
            apart = {file: distance(plain[file], found.get(file)) for file in plain}
            differing = [f"{file} by {distance:.3g}" for file, distance in apart.items() if distance > allowed]
            campaign.judge(f"{what}: {name}", "; ".join(differing))


def _commands(model: Path, corpus: Path, *, full: bool) -> Mapping[str, tuple[object, ...]]:
    on_dev = (model, "--corpus", corpus, "--split", "dev", "--samples", 10)
    probing = (model, "--corpus", corpus, "--task", "pos", "--seeds", 1, "--samples", 50)
    tuning = (model, "--task", "pos", "--data", corpus, "--max-steps", 10, "--batch", 8)
    short = {"geometry": ("geometry", *on_dev, "--no-twin")}
    long = {
        "attention": ("attention", *on_dev),
        "heads": ("heads", *on_dev),
        "headmap": ("headmap", *on_dev),
        "probe": ("probe", *probing),
        "finetune": ("finetune", *tuning),
    }
    return short | long if full else short


def _tables(
    campaign: Campaign, command: tuple[object, ...], *, threads: int = 1, first: tuple[object, ...] | None = None
) -> dict[str, bytes]:
    """Every CSV that a command writes, with a cache and a store of its own."""
    place = campaign.folder / "run"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    if first:
        _lamina(campaign, place, first, threads)
    _lamina(campaign, place, (*command, "--out", place / "out"), threads)
    return {path.name: path.read_bytes() for path in sorted((place / "out").glob("*.csv"))}


def _lamina(campaign: Campaign, place: Path, command: tuple[object, ...], threads: int) -> None:
    here = {"LAMINA_CACHE": str(place / "cache"), "LAMINA_STORE": str(place / "store"), "OMP_NUM_THREADS": str(threads)}

    def settle() -> None:
        import torch

        os.environ |= here
        torch.set_num_threads(threads)

    if campaign.full:
        # A new Python, so that sets have another order too.
        env = os.environ | here | {"PYTHONHASHSEED": "random"}
        words = [sys.executable, "-m", "lamina", *map(str, command)]
        done = subprocess.run(words, env=env, capture_output=True, text=True, check=False)
        code, said = done.returncode, done.stderr
    else:
        code, said, _ = campaign.lamina(*command, before=settle)
    if code != 0:
        campaign.bad(f"lamina {command[0]}", said)


def distance(one: bytes, other: bytes | None) -> float:
    """The largest difference between numbers at the same place but times; infinite if anything else differs."""
    import pandas as pd

    if one == other:
        return 0.0
    if other is None:
        return math.inf
    tables = [pd.read_csv(io.BytesIO(each)) for each in (one, other)]
    tables = [table.loc[:, ~table.columns.str.startswith("seconds")] for table in tables]
    numbers = [table.select_dtypes(include="number") for table in tables]
    labels = [table.select_dtypes(exclude="number") for table in tables]
    if tables[0].shape != tables[1].shape or not labels[0].equals(labels[1]):
        return math.inf
    return float((numbers[0] - numbers[1]).abs().max().max())
