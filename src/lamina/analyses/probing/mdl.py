"""Minimum description length by online code: how many bits the labels take when a probe learns as it reads.

Texts come in blocks of growing size. The first is coded without knowledge, one bit per yes/no decision; every
next one by probes trained on all that came before it. A layer whose vectors make the labels easy to learn has a
short code, even where two layers end at the same F1.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float

from lamina.analyses.probing.checkpoints import Whose
from lamina.analyses.probing.running import Setup, States
from lamina.errors import DamagedError
from lamina.files.checking import read_json, write_json
from lamina.probes.bank import Group, train
from lamina.probes.edge import Cut, EdgeProbes
from lamina.probes.streams import Stream
from lamina.probes.targets import Targets, find_targets
from lamina.progress import say
from lamina.tasks import Task, control_task, label_set

FRACTIONS = (0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.0625, 0.125, 0.25, 0.5, 1.0)
"""Of the texts learned from: where blocks end."""


class CodeLength(NamedTuple):
    """One row of `mdl.csv`."""

    model: str
    task: str
    of: Whose
    layer: int
    seed: int
    codelength: float
    """Bits."""
    uniform: float
    """Bits without knowledge: one per decision."""
    compression: float
    """uniform / codelength."""


@dataclass(frozen=True)
class _Coded:
    """Whose labels are coded on which states."""

    of: Whose
    task: Task
    states: States
    seeds: int


def block_ends(texts: int) -> list[int]:
    """Where blocks end, in texts; blocks of less than a text are merged with the next.

    Example:
        >>> block_ends(100)
        [1, 3, 6, 12, 25, 50, 100]
    """
    return sorted({int(texts * fraction) for fraction in FRACTIONS} - {0})


def online_code(
    task: Task, setup: Setup, states: States, twin: States | None, model: str, folder: Path
) -> list[CodeLength]:
    """Code lengths of a task's labels on every single layer; kept in `folder`, so that a stopped run continues."""
    path = folder / f"{task.name}.codelengths.json"
    kept = _kept(path)
    if kept is not None:
        return kept
    chosen = set(setup.division.learn)
    learned = [text for number, text in enumerate(setup.splits.train) if number in chosen]
    labels = label_set(task, learned)
    beside = min(setup.seeds, setup.preset.beside_seeds)
    coded = [
        _Coded("model", task, states, setup.seeds),
        _Coded("control", control_task(task, learned, setup.seed), states, beside),
    ]
    if twin is not None:
        coded.append(_Coded("random", task, twin, beside))
    rows = []
    for each in coded:
        bits, uniform = _code(each, setup, labels)
        for (seed, layer), length in np.ndenumerate(bits):
            rows.append(CodeLength(model, task.name, each.of, layer, seed, length, uniform, uniform / length))
    write_json(path, {"rows": rows})
    return rows


def _kept(path: Path) -> list[CodeLength] | None:
    """Code lengths computed before; none if there are none, or if they are damaged."""
    try:
        return [CodeLength(*row) for row in read_json(path)["rows"]]
    except FileNotFoundError:
        return None
    except (DamagedError, LookupError, TypeError) as error:
        say(f"{path} cannot be used ({error}); its code lengths are computed again")
        return None


def _code(coded: _Coded, setup: Setup, labels: tuple[str, ...]) -> tuple[Float[np.ndarray, "seed layer"], float]:
    """Bits by seed and layer, and bits without knowledge."""
    stored = coded.states.train
    found = find_targets(coded.task, setup.splits.train, stored.tokenized(), labels)
    learn, stop = found.among(setup.division.learn), found.among(setup.division.stop)
    texts = np.random.default_rng([setup.seed, 2]).permutation(np.unique(learn.text)).tolist()
    ends = block_ends(len(texts))
    blind = float(learn.among(texts[: ends[0]]).rated.sum())
    bits = np.full((coded.seeds, coded.states.layers), blind)
    for start, end in pairwise(ends):
        groups = _trained(coded, setup, learn.among(texts[:start]), stop)
        bits += _bits(groups, setup, coded.states, learn.among(texts[start:end]))
    return bits, float(learn.rated.sum())


def _trained(coded: _Coded, setup: Setup, learn: Targets, stop: Targets) -> list[EdgeProbes]:
    """One bank per seed, of single-layer probes."""
    states, preset = coded.states, setup.preset
    schedule = preset.small if len(learn) < preset.few else preset.schedule
    settings = {"device": setup.device, "batch_texts": schedule.batch_texts}
    shape = {"layers": states.layers, "width": states.width, "labels": len(learn.labels), "arity": learn.arity}
    cuts = [Cut("layer", layer) for layer in range(states.layers)]
    groups = [Group(EdgeProbes(cuts, **shape, seed=seed), learn.gold, stop) for seed in range(coded.seeds)]
    what = f"{coded.task.name}: code after {len(learn):,} targets"
    first, valid = (Stream(states.train, each, **settings) for each in (learn, stop))
    train(groups, first, valid, schedule, order_seed=setup.seed, what=what)
    return [group.probes for group in groups]


def _bits(banks: list[EdgeProbes], setup: Setup, states: States, block: Targets) -> Float[np.ndarray, "seed layer"]:
    """What the decisions of a block cost under each probe."""
    bits = np.zeros((len(banks), states.layers))
    gold, rated = torch.from_numpy(block.gold).float(), torch.from_numpy(block.rated).float()
    with torch.no_grad():
        for batch in Stream(states.train, block, device=setup.device).in_order():
            for row, bank in zip(bits, banks, strict=True):
                logits = bank(batch).cpu()
                nats = torch.nn.functional.binary_cross_entropy_with_logits(
                    logits, gold[batch.rows].expand_as(logits), rated[batch.rows], reduction="none"
                )
                row += nats.double().sum((1, 2)).numpy() / np.log(2)
    return bits
