"""Results that are saved over and over: killed at any moment, interrupted, and read meanwhile."""

from __future__ import annotations

import os
import signal
import time
from contextlib import nullcontext
from pathlib import Path
from unittest.mock import patch

from faults.campaign import Campaign

ROWS = 3000
WEIGHTS = 5_000_000
"""Bytes of the file that goes with a result."""


def run(campaign: Campaign) -> None:
    """Kill and interrupt saves, with and without the system's exchange of two folders, with a reader beside them."""
    weights = campaign.folder / "weights"
    weights.write_bytes(campaign.random.randbytes(WEIGHTS))
    ways = [
        _Stopping(campaign, weights, exchange=exchange, stop=stop)
        for stop in (signal.SIGKILL, signal.SIGINT)
        for exchange in (True, False)
    ]
    for number in range(campaign.count(3, 200)):
        # Ctrl-C takes the way of an exception, which tests try at every step; kills come more often.
        for way in ways if number % 4 == 0 else ways[:2]:
            if number == 0 or campaign.left() > 0:
                way.stop_a_save()
    for way in ways:
        way.sweep()


class _Stopping:
    """One result that is saved again and again by processes that are stopped."""

    def __init__(self, campaign: Campaign, weights: Path, *, exchange: bool, stop: signal.Signals) -> None:
        self._case = f"{stop.name} of a save {'by exchange' if exchange else 'by two renames'}"
        folder = campaign.folder / self._case.replace(" ", "-")
        folder.mkdir()
        self._campaign = campaign
        self._target = folder / "result"
        self._weights = weights
        self._stop = stop
        self._exchange = exchange
        self._save(0)
        start = time.monotonic()
        self._save(0)
        self._span = time.monotonic() - start

    def stop_a_save(self) -> None:
        """Save on and on until a signal comes, with a reader beside it; then look at the result."""
        campaign = self._campaign
        reader = self._start_reader()
        after = 0.05 + campaign.random.uniform(0, 4) * self._span
        # A Ctrl-C in the very moment of the fork is lost in Python's own work: such a run ends by the time limit.
        campaign.forked(self._save_on, kill_after=after, signal=self._stop, seconds=after + 2)
        os.kill(reader, signal.SIGTERM)
        failed = os.waitstatus_to_exitcode(os.waitpid(reader, 0)[1])
        campaign.judge(self._case, self._fault())
        campaign.judge("reader beside saves", self._told_by_reader() if failed else "")

    def sweep(self) -> None:
        """Save once more: nothing hidden is left."""
        self._save(0)
        left = [path.name for path in self._target.parent.iterdir() if path.name.startswith(".")]
        self._campaign.judge("sweep by the next save", self._fault() or ", ".join(left))

    def _save(self, value: int) -> None:
        import pandas as pd

        from lamina.files import writing
        from lamina.results import Provenance, Result

        about = {"name": "m", "fingerprint": "f"}
        tables = {name: pd.DataFrame({"layer": range(ROWS), "value": [value] * ROWS}) for name in ("one", "two")}
        made = Provenance(about, about, {}, command="faults", versions={}, revision=None)
        result = Result("demo", tables, made, {"weights": self._weights})
        with nullcontext() if self._exchange else patch.object(writing, "exchanger", lambda: None):
            result.save(self._target, charts=False)

    def _save_on(self) -> None:
        for value in range(1, 1_000_000):
            self._save(value)

    def _value(self) -> int:
        from lamina.results import Result

        found = {int(value) for table in Result.load(self._target).tables.values() for value in table["value"]}
        if len(found) != 1:
            raise ValueError(f"two results are mixed: {found}")
        return found.pop()

    def _fault(self) -> str:
        """What is wrong with the result."""
        from lamina.results.result import check_result

        try:
            self._value()
        except Exception as error:
            return f"it cannot be read: {error}"
        return "; ".join(check_result(self._target))

    def _start_reader(self) -> int:
        """A process that reads until a signal ends it; its status is 1 if a read failed."""
        pid = os.fork()
        if pid == 0:
            stopped = False

            def stop(*_: object) -> None:
                nonlocal stopped
                stopped = True

            signal.signal(signal.SIGTERM, stop)
            try:
                while not stopped:
                    self._value()
                    time.sleep(0.001)
            except BaseException as error:
                self._reader_log.write_text(f"{type(error).__name__}: {error}", encoding="utf-8")
                os._exit(1)
            os._exit(0)
        return pid

    @property
    def _reader_log(self) -> Path:
        return self._target.with_name("reader.txt")

    def _told_by_reader(self) -> str:
        return self._reader_log.read_text(encoding="utf-8") if self._reader_log.exists() else "it was killed"
