"""Kills of every analysis: at random moments, at random writes, and while a fresh Python is importing.

A run that is killed leaves a whole result or none; the same command then ends, gives the tables of a run that nothing
happened to, and leaves nothing behind.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

from faults.campaign import Campaign, Outcome
from faults.commands import SmallCommand, SmallCommands
from faults.determinism import distance
from faults.kills import damage, fault_of_stopped
from faults.layer import FileLayer, available
from faults.writes import settle

_ROUNDED = 0.02
"""Largest difference between tables where states were stored in other batches."""
_SHORT = ("look",)


def run(campaign: Campaign) -> None:
    """Run the part."""
    commands = SmallCommands(campaign)
    campaign.judge("every analysis has a command", commands.check_complete())
    landed = 0
    for command in campaign.mine(commands.all) if campaign.full else commands.named(*_SHORT):
        if campaign.left() < 0:
            campaign.note(f"out of time at {command.name}")
            break
        landed += _Killing(campaign, command).try_all()
    campaign.note(f"{landed} kills landed before the end of a run")


class _Killing:
    """One analysis, killed and run again."""

    def __init__(self, campaign: Campaign, command: SmallCommand) -> None:
        self._campaign = campaign
        self._command = command
        self._place = campaign.folder / "place"
        self._landed = 0

    def try_all(self) -> int:
        """Returns how many kills came before the end of the run."""
        self._clear()
        layer = FileLayer(self._place, self._campaign.folder / "notes")
        counted = layer.armed("count", first=self._settle) if available() else self._settle
        whole = self._run(before=counted)
        if whole.code != 0:
            self._campaign.bad(f"{self._command.name}: without a kill", whole.said)
            return 0
        self._expected = self._tables()
        writes = len(layer.calls())
        self._clear()
        self._kill("kills at a random moment", kill_after=self._campaign.random.uniform(0.05, 0.95) * whole.seconds)
        for _ in range(self._campaign.count(1, 2) if writes else 0):
            at = self._campaign.random.randint(1, writes)
            layer = FileLayer(self._place, self._campaign.folder / "notes")
            self._kill(f"kills at a write: {at} of {writes}", before=layer.armed("kill", at, first=self._settle))
        self._kill_import()
        self._check_resumed()
        return self._landed

    def _clear(self) -> None:
        shutil.rmtree(self._place, ignore_errors=True)
        self._place.mkdir(parents=True)

    def _settle(self) -> None:
        settle(self._place)

    def _run(self, **how: object) -> Outcome:
        words = self._command.at(self._place)
        return self._campaign.lamina(*words, **({"before": self._settle, "seconds": 300} | how))  # type: ignore[arg-type]

    def _kill(self, case: str, **how: object) -> None:
        done = self._run(**how)
        self._landed += done.code == -signal.SIGKILL
        kind, _, more = case.partition(":")
        fault = fault_of_stopped(done) or self._fault_of_result() or self._store_damage()
        self._campaign.judge(f"{kind}: {self._command.name}{more}", fault)

    def _kill_import(self) -> None:
        """A fresh Python, ended while it is loading lamina, torch and the analysis."""
        command = [sys.executable, "-m", "lamina", *map(str, self._command.at(self._place))]
        variables = {"LAMINA_CACHE": str(self._place / "cache"), "LAMINA_STORE": str(self._place / "store")}
        environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"} | variables
        process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        time.sleep(self._campaign.random.uniform(0.05, 2.5))
        process.send_signal(signal.SIGKILL if self._campaign.random.random() < 0.8 else signal.SIGINT)
        said = process.communicate(timeout=120)[0].decode(errors="replace")
        self._landed += process.returncode == -signal.SIGKILL
        # Ctrl-C before lamina's first line is Python's to tell.
        odd = process.returncode not in (0, -signal.SIGKILL, -signal.SIGINT, 130) and "KeyboardInterrupt" not in said
        fault = f"exit status {process.returncode}: {said}" if odd else self._fault_of_result() or self._store_damage()
        self._campaign.judge(f"kills during import: {self._command.name}", fault)

    def _check_resumed(self) -> None:
        last = self._run()
        if last.code != 0 or last.traceback:
            self._campaign.bad(f"runs after kills: {self._command.name}", f"exit status {last.code}: {last.said}")
            return
        found = self._tables()
        apart = {name: distance(self._expected[name], found.get(name)) for name in self._expected}
        other = [f"{name} by {size:.3g}" for name, size in apart.items() if size > _ROUNDED]
        left = [path.name for path in self._place.iterdir() if path.name.startswith(".")]
        fault = "; ".join([*other, *(f"{name} was left" for name in left)]) or self._fault_of_result()
        self._campaign.judge(f"runs after kills: {self._command.name}", fault or self._store_damage())

    def _tables(self) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in sorted((self._place / "out").glob("*.csv"))}

    def _fault_of_result(self) -> str:
        """What is wrong with the result that is there; nothing if there is none."""
        from lamina.errors import LaminaError
        from lamina.results import Result
        from lamina.results.result import check_result

        out: Path = self._place / "out"
        if not out.exists():
            return ""
        try:
            Result.load(out)
        except LaminaError as error:
            return str(error)
        return "; ".join(check_result(out))

    def _store_damage(self) -> str:
        return damage(self._place / "store") if (self._place / "store").exists() else ""
