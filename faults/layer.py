"""The file layer (`file_layer.c`): compiled once, preloaded into the campaign, armed in a forked run.

It counts every call that changes files under one folder, in whatever library it is made, and lets the n-th of them
fail, be cut short or end the process. What it logs is enough to play back a loss of power: `disk_after`.
"""

from __future__ import annotations

import ctypes
import errno
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, Literal, NamedTuple

SOURCE: Final = Path(__file__).with_name("file_layer.c")
_VARIABLE: Final = "LAMINA_FAULTS_LAYER"
How = Literal["count", "fail once", "fail from then on", "kill", "cut short"]
_MODES: dict[How, int] = {"count": 0, "fail once": 1, "fail from then on": 2, "kill": 3, "cut short": 4}


def preload() -> str:
    """Start this program again with the layer in it; returns why that cannot be done here."""
    if _VARIABLE in os.environ:
        return ""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if sys.platform != "linux" or compiler is None:
        return "no C compiler on Linux here: the file layer cannot be built"
    library = Path(tempfile.mkdtemp(prefix="lamina-file-layer-")) / "file_layer.so"
    command = [compiler, "-shared", "-fPIC", "-O1", "-o", str(library), str(SOURCE), "-ldl"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        unload(library)
        return f"the file layer cannot be built: {done.stderr[:300]}"
    environment = os.environ | {"LD_PRELOAD": str(library), _VARIABLE: str(library)}
    return os.execve(sys.executable, [sys.executable, "-m", "faults", *sys.argv[1:]], environment)


def unload(library: Path | None = None) -> None:
    """Remove the compiled layer."""
    if library is not None or _VARIABLE in os.environ:
        shutil.rmtree(library.parent if library else Path(os.environ[_VARIABLE]).parent, ignore_errors=True)


class Call(NamedTuple):
    """A line of the layer's log: a call (`call`, with its kind in `other`), or what it changed."""

    what: str
    path: str
    other: str


class FileLayer:
    """The layer of one run: which folder it watches, where it logs."""

    def __init__(self, folder: Path, notes: Path) -> None:
        """Watch `folder`; `notes` is a folder outside it for the log and for what was synced."""
        self.folder = folder.resolve()
        self._notes = notes.resolve()
        shutil.rmtree(self._notes, ignore_errors=True)
        (self._notes / "synced").mkdir(parents=True)

    def arm(self, how: How, at: int = 0, error: int = errno.EIO) -> None:
        """From now on, in this process."""
        arm = ctypes.CDLL(os.environ[_VARIABLE]).file_layer_arm
        arm.argtypes = [ctypes.c_char_p, ctypes.c_long, ctypes.c_int, ctypes.c_int, ctypes.c_char_p, ctypes.c_char_p]
        arm.restype = None
        log, synced = (os.fsencode(self._notes / name) for name in ("log", "synced"))
        arm(os.fsencode(self.folder), at, _MODES[how], error, log, synced)

    def armed(
        self, how: How, at: int = 0, error: int = errno.EIO, *, first: Callable[[], object]
    ) -> Callable[[], None]:
        """What a forked run calls before it begins: `first`, and then the layer is armed."""

        def before() -> None:
            first()
            self.arm(how, at, error)

        return before

    def log(self) -> list[Call]:
        """What the run did, in its order."""
        path = self._notes / "log"
        lines = path.read_text(encoding="utf-8", errors="surrogateescape").splitlines() if path.exists() else []
        return [Call(*line.split("\t")) for line in lines if line.count("\t") == 2]

    def calls(self) -> list[Call]:
        """The calls of the run that change files, also those that the system refused."""
        return [call for call in self.log() if call.what == "call"]


def available() -> bool:
    """Whether the layer is in this process."""
    return _VARIABLE in os.environ


class _File:
    """A file of the played-back disk: what was synced of it, or None."""

    def __init__(self, synced: Path | None, size: int = 0) -> None:
        self.synced = synced
        self.size = size


class _Folder:
    """A folder of the played-back disk."""

    def __init__(self) -> None:
        self.names: dict[str, _File | _Folder] = {}
        """As running programs saw it."""
        self.kept: dict[str, _File | _Folder] = {}
        """As it is on the disk."""
        self.pending: list[tuple[int, str, _File | _Folder | None]] = []
        """Changes of names that were not synced: when, which, what stands there then (None: nothing)."""

    def settle(self, until: float) -> None:
        """Changes up to a moment are on the disk."""
        later = []
        for when, name, thing in self.pending:
            if when > until:
                later.append((when, name, thing))
            elif thing is None:
                self.kept.pop(name, None)
            else:
                self.kept[name] = thing
        self.pending = later


class Disk:
    """A folder as it was before a run, and the run's calls played back on it."""

    def __init__(self, before: Path, folder: Path) -> None:
        """`before`: a copy of the watched folder, all of it on the disk."""
        self._base = folder.resolve()
        self._root = self._read(before)

    def _read(self, folder: Path) -> _Folder:
        made = _Folder()
        for path in sorted(folder.iterdir()) if folder.exists() else ():
            made.names[path.name] = self._read(path) if path.is_dir() else _File(path)
        made.kept = dict(made.names)
        return made

    def after(self, calls: list[Call], into: Path, draw: random.Random) -> None:
        """What is on the disk when the power is lost after these calls.

        Changes of names reach the disk in their order, at least those of folders that were synced; how many more is
        drawn. Of a file only what was synced is sure: otherwise it is empty, full of zeros, or (a third of the times)
        whole.
        """
        for when, call in enumerate(calls):
            self._play(when, call)
        self._settle(self._root, draw.choice((-1, draw.randint(0, len(calls)), len(calls))))
        self._write(self._root, into, draw)

    def _play(self, when: int, call: Call) -> None:
        found = self._find(call.path)
        if found is None:
            return
        folder, name = found
        thing = folder.names.get(name)
        if call.what == "mkdir":
            self._change(folder, when, name, _Folder())
        elif call.what == "create":
            self._change(folder, when, name, _File(None))
        elif call.what == "truncate" and isinstance(thing, _File):
            thing.synced = None
        elif call.what == "remove":
            self._change(folder, when, name, None)
        elif call.what == "sync" and isinstance(thing, _File):
            thing.synced = Path(call.other)
        elif call.what == "sync" and thing is None:
            self._appear(folder, when, name, Path(call.other))
        elif call.what == "sync-folder":
            (thing if isinstance(thing, _Folder) else folder).settle(when)
        elif call.what in ("rename", "exchange") and thing is not None:
            self._move(when, call, folder, name, thing)

    def _move(self, when: int, call: Call, folder: _Folder, name: str, thing: _File | _Folder) -> None:
        to = self._find(call.other)
        if to is None:
            return
        target, new_name = to
        replaced = target.names.get(new_name) if call.what == "exchange" else None
        self._change(target, when, new_name, thing)
        self._change(folder, when, name, replaced)

    def _appear(self, folder: _Folder, when: int, name: str, synced: Path) -> None:
        """A file that no call has put there: safetensors renames `.tmpXXXXXX` by a system call of its own."""
        source = next((other for other in reversed(folder.names) if other.startswith(".tmp")), None)
        if source is not None:
            self._change(folder, when, source, None)
        self._change(folder, when, name, _File(synced))

    def _change(self, folder: _Folder, when: int, name: str, thing: _File | _Folder | None) -> None:
        if thing is None:
            folder.names.pop(name, None)
        else:
            folder.names[name] = thing
        folder.pending.append((when, name, thing))

    def _find(self, path: str) -> tuple[_Folder, str] | None:
        relative = os.path.relpath(os.path.normpath(path), self._base)
        if relative.startswith(".."):
            return None
        folder = self._root
        *above, name = relative.split("/")
        for part in above:
            inner = folder.names.get(part)
            if not isinstance(inner, _Folder):
                return None
            folder = inner
        return folder, "" if name == "." else name

    def _settle(self, folder: _Folder, until: float) -> None:
        for inner in [*folder.names.values(), *folder.kept.values()]:
            if isinstance(inner, _Folder):
                self._settle(inner, until)
        folder.settle(until)

    def _write(self, folder: _Folder, into: Path, draw: random.Random) -> None:
        into.mkdir(parents=True, exist_ok=True)
        for name, thing in folder.kept.items():
            if isinstance(thing, _Folder):
                self._write(thing, into / name, draw)
            elif thing.synced is not None:
                shutil.copyfile(thing.synced, into / name)
            else:
                (into / name).write_bytes(bytes(draw.choice((0, 0, 700))))


def moments(calls: list[Call], count: int, draw: random.Random) -> Iterator[int]:
    """Calls (from 1) to disturb, `count` in all or a few less: of each kind of call and each kind of file some."""
    groups: dict[tuple[str, str], list[int]] = {}
    for turn, call in enumerate(calls, start=1):
        groups.setdefault((call.other, Path(call.path).suffix), []).append(turn)
    share = max(1, count // max(1, len(groups)))
    for turns in draw.sample(list(groups.values()), min(count, len(groups))):
        yield from draw.sample(turns, min(share, len(turns)))
