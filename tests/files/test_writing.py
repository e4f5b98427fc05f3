"""Files and folders are written whole or not at all, whatever happens on the way."""

from __future__ import annotations

import errno
import os
import signal
import time
from contextlib import suppress
from pathlib import Path

import pytest

from lamina.errors import DiskFullError, WriteError
from lamina.files import writing
from lamina.files.writing import fresh_folder, fresh_path, recover, remove_folder, sweep, write_text


def replaced(target: Path) -> None:
    with fresh_folder(target) as fresh:
        (fresh / "one").write_text("new")
        (fresh / "two").write_text("new")


def contents(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.iterdir()}


OLD, NEW = {"one": "old", "two": "old"}, {"one": "new", "two": "new"}


@pytest.fixture
def target(tmp_path: Path) -> Path:
    folder = tmp_path / "result"
    folder.mkdir()
    for name, text in OLD.items():
        (folder / name).write_text(text)
    return folder


@pytest.mark.parametrize("error", [KeyboardInterrupt(), OSError(errno.EIO, "Input/output error")], ids=["stop", "disk"])
def test_whatever_step_fails_one_whole_folder_is_there(
    target: Path, exchanges: bool, error: BaseException, failing_at
) -> None:
    step, made = 0, 0
    while made >= step:
        step += 1
        with pytest.MonkeyPatch.context() as patch:
            calls = failing_at(step, error, patch)
            with suppress(KeyboardInterrupt, WriteError):
                replaced(target)
            made = calls()
        assert contents(target) in (OLD, NEW)
        sweep(target.parent)
        assert [path.name for path in target.parent.iterdir()] == ["result"]
    assert step > 10
    assert contents(target) == NEW


@pytest.mark.parametrize("error", [KeyboardInterrupt(), OSError(errno.ENOSPC, "No space")], ids=["stop", "full"])
def test_whatever_step_fails_one_whole_file_is_there(tmp_path: Path, error: BaseException, failing_at) -> None:
    path = tmp_path / "file"
    path.write_text("old")
    step, made = 0, 0
    while made >= step:
        step += 1
        with pytest.MonkeyPatch.context() as patch:
            calls = failing_at(step, error, patch)
            with suppress(KeyboardInterrupt, DiskFullError):
                write_text(path, "new")
            made = calls()
        assert path.read_text() in ("old", "new")
        sweep(tmp_path)
        assert [each.name for each in tmp_path.iterdir()] == ["file"]
    assert step > 3
    assert path.read_text() == "new"


def test_a_folder_killed_between_two_renames_is_put_back(tmp_path: Path) -> None:
    gone = _pid_of_the_dead()
    holder = tmp_path / f".result.{writing.host_code()}-{gone}-00000000.saving"
    (holder / "old").mkdir(parents=True)
    (holder / "old" / "one").write_text("old")
    (holder / "new").mkdir()

    recover(tmp_path / "result")

    assert contents(tmp_path / "result") == {"one": "old"}
    assert not holder.exists()


def test_what_another_process_is_writing_is_left_alone(tmp_path: Path) -> None:
    living = tmp_path / f".result.{writing.host_code()}-{os.getppid()}-00000000.saving"
    elsewhere = tmp_path / ".result.00000000-1-00000000.tmp"
    living.mkdir()
    elsewhere.touch()

    assert sweep(tmp_path) == 0
    assert living.exists()
    assert elsewhere.exists()

    two_days_ago = time.time() - 2 * 86_400
    os.utime(elsewhere, (two_days_ago, two_days_ago))
    sweep(tmp_path)
    assert not elsewhere.exists()


def test_leftovers_of_the_same_file_are_swept_by_its_next_writer(tmp_path: Path) -> None:
    own = tmp_path / f".a[1].json.{writing.host_code()}-{_pid_of_the_dead()}-00000000.tmp"
    other = tmp_path / f".b.json.{writing.host_code()}-{_pid_of_the_dead()}-00000000.tmp"
    for left in (own, other):
        left.write_bytes(b"half")

    write_text(tmp_path / "a[1].json", "{}")

    assert not own.exists()
    assert other.exists()
    assert sweep(tmp_path) == 4


def test_kills_leave_the_old_or_the_new_folder(target: Path) -> None:
    for number in range(12):
        child = os.fork()
        if child == 0:
            while True:
                replaced(target)
        time.sleep(0.004 + number * 0.003)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)

        assert contents(target) in (OLD, NEW)
        recover(target)
        assert [path.name for path in target.parent.iterdir()] == ["result"]


def test_readers_always_find_a_folder(target: Path) -> None:
    if writing.exchanger() is None:
        pytest.skip("this system cannot exchange two folders in one step")
    child = os.fork()
    if child == 0:
        while True:
            replaced(target)
    try:
        until, reads = time.monotonic() + 0.4, 0
        while time.monotonic() < until or reads < 100:
            assert target.is_dir()
            reads += 1
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (errno.ENOSPC, "no space left on the disk for .*file; what was written before is kept"),
        (errno.EROFS, "cannot write .*file: Read-only file system; choose a folder that can be written"),
        (errno.EACCES, "cannot write .*file: Permission denied"),
    ],
)
def test_a_system_that_refuses_is_told_in_one_sentence(tmp_path: Path, number: int, said: str) -> None:
    with pytest.raises(WriteError, match=said), fresh_path(tmp_path / "file"):
        raise OSError(number, os.strerror(number))

    assert list(tmp_path.iterdir()) == []


def test_an_error_about_another_file_stays_what_it_is(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), fresh_path(tmp_path / "file") as fresh:
        fresh.write_bytes(Path("/no/such/source").read_bytes())


@pytest.mark.parametrize("error", [KeyboardInterrupt(), OSError(errno.EIO, "Input/output error")], ids=["stop", "disk"])
def test_a_folder_is_removed_whole_or_not_at_all(target: Path, error: BaseException, failing_at) -> None:
    step, made = 0, 0
    while made >= step and target.exists():
        step += 1
        with pytest.MonkeyPatch.context() as patch:
            calls = failing_at(step, error, patch)
            with suppress(KeyboardInterrupt, WriteError):
                remove_folder(target)
            made = calls()
        assert not target.exists() or contents(target) == OLD
        sweep(target.parent)
        assert [path.name for path in target.parent.iterdir()] == (["result"] if target.exists() else [])
    assert step > 2


def test_a_folder_that_another_process_put_there_first_is_replaced(
    target: Path, exchanges: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    exists, looks = Path.exists, iter([False])
    with fresh_folder(target) as fresh:
        (fresh / "one").write_text("new")
        # It was not there at the first look.
        monkeypatch.setattr(Path, "exists", lambda path: exists(path) and (path != target or next(looks, True)))

    assert contents(target) == {"one": "new"}
    assert [path.name for path in target.parent.iterdir()] == ["result"]


def _pid_of_the_dead() -> int:
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    return child
