"""Tasks trained by other processes give the tables that this one gives."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pandas as pd

from lamina import Result, Runtime, probe
from lamina.activations import ThisMachine
from lamina.corpora.splits import Splits
from lamina.testing import TinyEncoder


class Elsewhere(ThisMachine):
    """Runs what is left of a task after a journey."""

    def __init__(self) -> None:
        super().__init__()
        self.ran: list[str] = []

    def run_tasks(self, tasks, *, what: str, device: str) -> None:
        for task in tasks:
            arrived = pickle.loads(pickle.dumps(task))  # noqa: S301
            arrived()
            self.ran.append(arrived.task.name)


def test_whole_tasks_are_trained_elsewhere(
    result: Result, splits: Splits, settings: dict[str, Any], tmp_path: Path
) -> None:
    engine = Elsewhere()
    own = {name: value for name, value in settings.items() if name != "device"}
    runtime = Runtime(tmp_path, "cpu", engine)

    told = probe(TinyEncoder(), splits, tasks=["pos"], **own, runtime=runtime)

    assert engine.ran == ["pos"], "one for the task, not one for each probe"
    for name in ("training", "mixing"):
        alone = result.tables[name].query("task == 'pos'").reset_index(drop=True)
        pd.testing.assert_frame_equal(told.tables[name], alone)
    probe(TinyEncoder(), splits, tasks=["pos"], **own, runtime=runtime)
    assert engine.ran == ["pos"], "what was kept is not trained again"
