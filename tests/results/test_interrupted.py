"""Saving is stopped at every step, killed at any moment, read meanwhile: the old or the new result is always there."""

from __future__ import annotations

import errno
import os
import random
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pandas as pd
import pytest

from lamina.errors import ResultError
from lamina.files import writing
from lamina.results import Provenance, Result
from lamina.results.folder import put_back

ABOUT = {"name": "m", "fingerprint": "f"}
PROVENANCE = Provenance(ABOUT, ABOUT, {})
ROWS = 5
posix_only = pytest.mark.skipif(os.name != "posix", reason="needs fork")


def make(value: int, weights: Path | None = None) -> Result:
    """A result with the same number all over."""
    tables = {name: pd.DataFrame({"layer": range(ROWS), "value": [value] * ROWS}) for name in ("one", "two")}
    return Result("demo", tables, PROVENANCE, {"weights": weights} if weights else {})


def value_of(folder: Path) -> int:
    """The number of a result; fails if two results are mixed."""
    found = {int(value) for table in Result.load(folder).tables.values() for value in table["value"]}
    assert len(found) == 1, found
    return found.pop()


MORE = ((writing, "_exchange"), (pd.DataFrame, "to_csv"), (Path, "write_text"))
"""What saving a result asks for besides."""


@pytest.mark.parametrize("error", [KeyboardInterrupt(), OSError(errno.ENOSPC, "No space left")], ids=["stop", "full"])
def test_whatever_step_fails_one_whole_result_is_there(
    tmp_path: Path, exchanges: bool, error: BaseException, failing_at
) -> None:
    target = tmp_path / "r"
    make(0).save(target, charts=False)
    step, made, old = 0, 0, 0
    while made >= step:
        step += 1
        with pytest.MonkeyPatch.context() as patch:
            calls = failing_at(step, error, patch, *MORE)
            with suppress(KeyboardInterrupt, ResultError):
                make(step).save(target, charts=False)
            made = calls()
        # A reader puts back what was moved aside, and sweeps the rest.
        found = value_of(target)
        assert found in (old, step)
        assert [path.name for path in tmp_path.iterdir()] == ["r"]
        old = found
    assert step > 15
    assert old == step


def forked(work: Callable[[], object]) -> int:
    pid = os.fork()
    if pid == 0:
        try:
            work()
        finally:
            os._exit(0)
    return pid


def killed_after(work: Callable[[], object], seconds: float) -> None:
    pid = forked(work)
    time.sleep(seconds)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


@posix_only
def test_kills_at_any_moment_lose_nothing(tmp_path: Path, exchanges: bool) -> None:
    draw, target, weights = random.Random(0), tmp_path / "r", tmp_path / "weights"
    weights.write_bytes(bytes(200_000))
    make(0, weights).save(target, charts=False)

    def save_on() -> None:
        value = value_of(target)
        while True:
            value += 1
            make(value, weights).save(target, charts=False)

    before, start = 0, time.monotonic()
    make(0, weights).save(target, charts=False)
    span = time.monotonic() - start
    for _ in range(12):
        killed_after(save_on, draw.uniform(0.5, 3) * span)
        found = value_of(target)
        assert found >= before
        before = found
    make(0).save(target, charts=False)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["r", "weights"]


@posix_only
@pytest.mark.parametrize("rename", [1, 2])
def test_a_kill_between_the_two_renames_is_mended_by_the_next_reader(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rename: int
) -> None:
    monkeypatch.setattr(writing, "exchanger", lambda: None)
    make(0).save(tmp_path / "r", charts=False)

    def save() -> None:
        real, made = Path.rename, 0

        def stopped(self: Path, target: Path) -> Path:
            nonlocal made
            made += 1
            if made == rename:
                os.kill(os.getpid(), signal.SIGKILL)
            return real(self, target)

        monkeypatch.setattr(Path, "rename", stopped)
        make(1).save(tmp_path / "r", charts=False)

    os.waitpid(forked(save), 0)

    assert (tmp_path / "r").exists() == (rename == 1)
    assert value_of(tmp_path / "r") == 0
    assert [path.name for path in tmp_path.iterdir()] == ["r"]


@posix_only
def test_a_result_is_read_whole_while_it_is_replaced(tmp_path: Path, exchanges: bool) -> None:
    target = tmp_path / "r"
    make(0).save(target, charts=False)

    def save_on() -> None:
        value = 0
        while True:
            value += 1
            make(value).save(target, charts=False)

    pid, seen, start = forked(save_on), [0], time.monotonic()
    # On a busy machine it takes longer until as much has happened.
    while time.monotonic() - start < 0.7 or (len(set(seen)) < 5 and time.monotonic() - start < 60):
        seen.append(value_of(target))
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)

    assert seen == sorted(seen)
    assert len(set(seen)) >= 5


@posix_only
def test_two_processes_save_at_once(tmp_path: Path, exchanges: bool) -> None:
    """Whoever comes last stays; neither fails, not even where there was nothing before."""
    for number in range(5):
        target, start = tmp_path / f"r{number}", time.monotonic() + 0.03

        def save(value: int, target: Path = target, start: float = start) -> None:
            time.sleep(max(0, start - time.monotonic()))
            with suppress(ResultError):
                make(value).save(target, charts=False)
                (tmp_path / f"done-{target.name}-{value}").touch()

        for pid in [forked(lambda value=value, save=save: save(value)) for value in (1, 2)]:
            os.waitpid(pid, 0)
        assert value_of(target) in (1, 2)
        assert len(list(tmp_path.glob(f"done-r{number}-*"))) == 2
    assert not list(tmp_path.glob(".*"))


def leave_older(target: Path, parts: tuple[str, ...], age: float) -> Path:
    """What a killed save of an older lamina left."""
    holder = target.with_name(f".{target.name}.ab_d3f7h")
    for value, part in enumerate(parts):
        make(value).save(holder / part, charts=False)
    for path in (*holder.iterdir(), holder):
        os.utime(path, (time.time() - age,) * 2)
    return holder


def test_what_older_versions_moved_aside_is_put_back(tmp_path: Path) -> None:
    holder = leave_older(tmp_path / "r", ("old", "new"), age=60)

    assert value_of(tmp_path / "r") == 0
    os.utime(holder, (1, 1))
    os.utime(holder / "new", (1, 1))
    make(3).save(tmp_path / "r", charts=False)
    assert [path.name for path in tmp_path.iterdir()] == ["r"]


def test_what_an_older_version_may_be_writing_is_left_alone(tmp_path: Path) -> None:
    holder = leave_older(tmp_path / "r", ("old", "new"), age=1)
    work = tmp_path / ".r.work-0123456789ab"
    work.mkdir()
    foreign = tmp_path / ".r.my_notes"
    foreign.mkdir()
    (foreign / "thesis.tex").write_text("mine")
    os.utime(foreign, (1, 1))
    with pytest.raises(ResultError, match="not a result folder"):
        Result.load(tmp_path / "r")

    make(3).save(tmp_path / "r", charts=False)
    put_back(tmp_path / "r")

    assert (holder / "old" / "result.json").exists()
    assert work.exists()
    assert (foreign / "thesis.tex").exists()


def test_a_link_to_a_result_stays_a_link(tmp_path: Path) -> None:
    make(0).save(tmp_path / "elsewhere" / "r", charts=False)
    (tmp_path / "r").symlink_to(tmp_path / "elsewhere" / "r")

    make(1).save(tmp_path / "r", charts=False)

    assert (tmp_path / "r").is_symlink()
    assert value_of(tmp_path / "elsewhere" / "r") == 1


def test_the_current_folder_is_never_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "r" / "below").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "r" / "below")

    for folder in (".", "..", tmp_path):
        with pytest.raises(ResultError, match="is the current folder or one above it"):
            make(0).save(folder, charts=False)
    with pytest.raises(ResultError, match="cannot be the name of a folder"):
        make(0).save("a\0b", charts=False)


def test_a_file_that_cannot_be_copied_is_named(tmp_path: Path) -> None:
    make(0).save(tmp_path / "r", charts=False)
    with pytest.raises(ResultError, match=r"nowhere/weights, a file of the result, is gone"):
        make(1, tmp_path / "nowhere" / "weights").save(tmp_path / "r", charts=False)
    assert value_of(tmp_path / "r") == 0
