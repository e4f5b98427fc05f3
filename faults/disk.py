"""Disks that are full, read-only or forbidden; files that change under a reader; bits that flip in all that is kept."""

from __future__ import annotations

import contextlib
import ctypes
import io
import os
import resource
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

from faults.campaign import Campaign, Outcome
from faults.kills import short_training, small_shards

_TOLD = ("encoder", "fingerprint", "kept", "layers", "width")
"""What is read of the head of a store."""


def run(campaign: Campaign) -> None:
    """Run the part."""
    made = _Made(campaign)
    _change_under_a_reader(campaign, made)
    _forbid(campaign, made)
    _fill_the_disk(campaign, made)
    _flip_before_commands(campaign, made)
    _flip_bits(campaign, made)


class _Made:
    """A model, a corpus, and a probing of both: its store and its result, to damage copies of."""

    def __init__(self, campaign: Campaign) -> None:
        self.model, self.corpus = campaign.tiny_model(width=16), campaign.tiny_corpus(40, 20)
        self.probe = ["probe", self.model, "--corpus", self.corpus, "--task", "pos", "--seeds", 1, "--samples", 50]
        self.encode = ["encode", self.model, "--corpus", self.corpus, "--split", "train", "--store"]
        self.tune = ["finetune", self.model, "--task", "pos", "--data", self.corpus, "--max-steps", 10, "--batch", 8]
        self.folder = campaign.folder / "made"
        done = campaign.lamina(*self.asked(self.folder), before=_small, seconds=600)
        if done.code != 0:
            raise RuntimeError(f"the probing failed: {done.said}")

    def asked(self, folder: Path) -> list[object]:
        """The command that made, or uses, the store and the result in a folder."""
        return [*self.probe, "--store", folder / "store", "--out", folder / "result"]

    def copy(self, folder: Path) -> Path:
        shutil.rmtree(folder, ignore_errors=True)
        return shutil.copytree(self.folder, folder)


def _small() -> None:
    small_shards()
    short_training()


def _one_sentence(done: Outcome, *, may_work: bool = False) -> str:
    """What is wrong with how a command ended that cannot do its work."""
    if done.code is None:
        return f"ran out of time: {done.said}"
    if done.traceback or (done.code not in (1, 2) and not (may_work and done.code == 0)):
        return f"exit status {done.code}: {done.said}"
    return ""


def _flip_bits(campaign: Campaign, made: _Made) -> None:
    """One bit of one file: what is read is the same, or nothing is read."""
    from lamina.activations import stores
    from lamina.activations.shards import read_index

    folder = made.copy(campaign.folder / "flipped")
    readers: dict[Path, Callable[[], object]] = {}
    for store in stores(folder / "store"):
        readers[store.folder / "store.json"] = lambda store=store: [store.head[name] for name in _TOLD]
        for shard in store.shards:
            readers[shard] = lambda shard=shard: _shard_content(shard)
            readers[shard.with_suffix(".arrow")] = lambda shard=shard: read_index(shard.with_suffix(".arrow"))
    for path in sorted((folder / "store" / "probes").glob("*/*")):
        if path.suffix in (".run", ".safetensors"):
            readers[path] = lambda path=path: _run_content(path)
    for path in sorted((folder / "result").iterdir()):
        if path.suffix in (".json", ".csv", ".parquet", ".safetensors"):
            readers[path] = lambda path=path: _result_content(path.parent)
    paths = sorted(readers)
    for path in campaign.random.sample(paths, min(len(paths), campaign.count(12, len(paths)))):
        expected, content = readers[path](), path.read_bytes()
        for _ in range(campaign.count(4, 40)):
            at, bit = campaign.random.randrange(len(content)), campaign.random.randrange(8)
            path.write_bytes(content[:at] + bytes([content[at] ^ 1 << bit]) + content[at + 1 :])
            fault = _difference(expected, readers[path])
            campaign.judge(f"bits flipped: {path.name} at {at}, bit {bit}", fault)
        path.write_bytes(content)


def _difference(expected: object, read: Callable[[], object]) -> str:
    from lamina.errors import LaminaError

    try:
        with contextlib.redirect_stderr(io.StringIO()):
            found = read()
    except LaminaError:
        return ""
    except Exception as error:
        return repr(error)
    return "" if found in (None, [], expected) else "other content, without a word"


def _shard_content(shard: Path) -> bytes:
    from lamina.activations.reading import StoredActivations, StoredPlace
    from lamina.activations.shards import ShardEntry

    place = StoredPlace(shard, ShardEntry(b"", 0, 1, 0, 1))
    (first,) = StoredActivations([place], ["text"], precision="float16")
    return first.states.numpy().tobytes() + first.tokens.ids.tobytes() if first.states is not None else b""


def _run_content(path: Path) -> object:
    from lamina.analyses.layers.probe.training import load_run
    from lamina.tasks import get_task

    kept = load_run(get_task("pos"), path.with_name("pos.run"))
    if kept is None:
        return None
    arrays = [array for each in kept.outcomes for array in (each.learned.loss, each.weights, each.gamma)]
    return [array.tobytes() for array in (*arrays, kept.seen, kept.norms, kept.targets.gold)]


def _result_content(folder: Path) -> object:
    from lamina.results import Result

    result = Result.load(folder)
    files = {name: path.read_bytes() for name, path in result.files.items()}
    return {name: table.to_csv() for name, table in result.tables.items()}, files, result.provenance.parameters


def _change_under_a_reader(campaign: Campaign, made: _Made) -> None:
    """Shards that are cut, overwritten, replaced or deleted after they were read once."""
    from lamina.activations import ActivationStore
    from lamina.corpora import load_corpus
    from lamina.models import load_encoder

    changes: dict[str, Callable[[Path], object]] = {
        "cut": lambda path: os.truncate(path, path.stat().st_size // 2),
        "overwritten": lambda path: path.write_bytes(b"\1" * path.stat().st_size),
        "replaced": _replace,
        "deleted": lambda path: path.unlink(),
    }
    texts = list(load_corpus(str(made.corpus), split="train"))
    encoder = load_encoder(str(made.model), device="cpu")
    for name, change in changes.items():
        store = ActivationStore.of(encoder, made.copy(campaign.folder / "changed") / "store")
        stored = store.open(texts)
        expected = [stored.load(number).tolist() for number in range(len(stored))]
        for shard in store.shards:
            change(shard)
        readers: dict[str, Callable[[], object]] = {
            "load": lambda stored=stored: [stored.load(number).tolist() for number in range(len(stored))],
            "iterate": lambda stored=stored: [each.states.tolist() for each in stored if each.states is not None],
        }
        for how, read in readers.items():
            campaign.judge(f"shards changed under a reader: {name}, {how}", _difference(expected, read))


def _replace(path: Path) -> None:
    fresh = path.with_suffix(".new")
    shutil.copy(path, fresh)
    fresh.replace(path)


def _fill_the_disk(campaign: Campaign, made: _Made) -> None:
    """A command on a disk with so much room: one sentence, and what was stored before is good."""
    commands = {"encode": [*made.encode, "{}/store"]}
    sizes = (4, 64) if not campaign.full else (4, 16, 64, 200, 400, 4000)
    if campaign.full:
        commands["probe"] = [*made.probe, "--store", "{}/store", "--out", "{}/out"]
        commands["finetune"] = [*made.tune, "--out", "{}/out"]
        commands["geometry"] = ["geometry", made.model, "--corpus", made.corpus, "--store", "{}/store", "--out", "{}/o"]
    for name, words in commands.items():
        for size in sizes:
            if campaign.left() <= 0:
                return
            with _small_disk(campaign, size * 1024) as (disk, before):
                asked = [str(word).format(disk) for word in words]
                done = campaign.lamina(*asked, before=before, seconds=600)
                fault = _one_sentence(done, may_work=size > 4)
                campaign.judge(f"full disks: {name}, {size} KB", fault or _damage_in(disk / "store"))


def _damage_in(root: Path) -> str:
    from lamina.activations import problems, stores
    from lamina.analyses.layers.probe import training as checkpoints

    found = [problem for store in stores(root) for problem in problems(store)] + checkpoints.problems(root)
    return "; ".join(problem.what for problem in found if not problem.leftover)


@contextlib.contextmanager
def _small_disk(campaign: Campaign, size: int) -> Iterator[tuple[Path, Callable[[], object]]]:
    """A disk of this size, and what to do first in the process that writes to it.

    Where no disk can be mounted, no file of that process may be larger.
    """
    disk = campaign.folder / "disk"
    shutil.rmtree(disk, ignore_errors=True)
    disk.mkdir()
    if _mounted("-t", "tmpfs", "-o", f"size={size}", "tmpfs", disk):
        try:
            yield disk, _small
        finally:
            subprocess.run(["umount", disk], check=True)
        return

    def limited() -> None:
        _small()
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size // 4, size // 4))

    yield disk, limited


def _mounted(*words: object) -> bool:
    if os.name != "posix" or os.geteuid() != 0 or shutil.which("mount") is None:
        return False
    return subprocess.run(["mount", *map(str, words)], capture_output=True, check=False).returncode == 0


def _forbid(campaign: Campaign, made: _Made) -> None:
    """Folders that may not be written or not even read; a store on a read-only disk."""
    for mode in (0o000, 0o555):
        place = campaign.folder / f"forbidden-{mode:o}"
        place.mkdir()
        place.chmod(mode)
        commands = {
            "encode": ([*made.encode, place / "s"], False),
            "store ls": (["store", "ls", "--store", place], True),
            "store gc": (["store", "gc", "--store", place], True),
            "probe": ([*made.probe, "--store", made.folder / "store", "--out", place / "r"], False),
            "finetune": ([*made.tune, "--out", place / "r"], False),
        }
        chosen = commands if campaign.full else {name: commands[name] for name in ("encode", "store gc")}
        for name, (words, may_work) in chosen.items():
            if campaign.left() <= 0:
                break
            done = campaign.lamina(*words, before=_without_power, seconds=600)
            campaign.judge(f"forbidden folders: {name}, {mode:o}", _one_sentence(done, may_work=may_work))
        place.chmod(0o755)
    root = made.copy(campaign.folder / "read-only") / "store"
    if not _mounted("--bind", root, root):
        campaign.note("no read-only disk: mounting is not allowed here")
        return
    try:
        subprocess.run(["mount", "-o", "remount,ro,bind", root], check=True)
        complete = [[*made.encode, root], ["store", "ls", "--store", root], ["store", "gc", "--store", root]]
        for words in complete if campaign.full else complete[:1]:
            done = campaign.lamina(*words, before=_small)
            campaign.judge(f"read-only disks: {words[0]}", done.said if done.code or done.traceback else "")
        missing = [*made.encode[:-3], "--split", "test", "--store", root]
        campaign.judge("read-only disks: texts missing", _one_sentence(campaign.lamina(*missing, before=_small)))
    finally:
        subprocess.run(["umount", root], check=True)


def _without_power() -> None:
    """Take root's powers away, so that permissions count."""
    _small()
    if os.geteuid() == 0:
        version = (ctypes.c_uint32 * 2)(0x20080522, 0)
        none = (ctypes.c_uint32 * 6)()
        if ctypes.CDLL(None).capset(version, none):
            raise SystemExit(1)


def _flip_before_commands(campaign: Campaign, made: _Made) -> None:
    """A bit of a file, and then the same command: the same tables, or a sentence."""
    tables = {path.name: path.read_bytes() for path in (made.folder / "result").glob("*.csv")}
    files = [path for path in sorted(made.folder.rglob("*")) if path.is_file() and path.stat().st_size]
    for _ in range(campaign.count(2, 60)):
        if campaign.left() <= 0:
            return
        path = campaign.random.choice(files)
        folder = made.copy(campaign.folder / "again")
        content = bytearray(path.read_bytes())
        content[campaign.random.randrange(len(content))] ^= 1 << campaign.random.randrange(8)
        (folder / path.relative_to(made.folder)).write_bytes(content)
        # Results that are asked for again are read; without them, the store is.
        if campaign.random.random() < 0.5 and "result" not in path.parts:
            shutil.rmtree(folder / "result")
        done = campaign.lamina(*made.asked(folder), before=_small, seconds=600)
        fault = _one_sentence(done, may_work=True)
        if done.code == 0:
            other = [name for name in tables if (folder / "result" / name).read_bytes() != tables[name]]
            fault = fault or ", ".join(f"{name} differs" for name in other)
        campaign.judge(f"bits flipped before a command: {path.name}", fault)
