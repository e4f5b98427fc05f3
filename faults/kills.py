"""Kills: encode, probe and finetune stopped at random moments and run again, until they end as if nothing had been."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from faults.campaign import Campaign, Outcome

if TYPE_CHECKING:
    import torch

    from lamina.activations import ActivationStore

_IN_A_ROW = 8
"""Most kills of one run before it may end."""
_ROUNDING = 0.01
"""Largest difference between states of one text encoded in two batches, after rounding to float16."""


def run(campaign: Campaign) -> None:
    """Run the part."""
    encoded = _Encoding.of(campaign)
    _kill_encoding(campaign, encoded, campaign.count(3, 200), until=0.5 * campaign.seconds)
    _write_together(campaign, encoded)
    _kill_a_rank(campaign, encoded, campaign.count(1, 20), until=0.25 * campaign.seconds)
    if campaign.full:
        corpus, model = campaign.tiny_corpus(40, 20), campaign.tiny_model(width=16)
        probe = ["probe", model, "--corpus", corpus, "--task", "pos", "--seeds", 1, "--samples", 50]
        files = ("scores.csv", "summary.csv", "mixing.csv", "pos-0.safetensors")
        _kill_command(campaign, _Command("probe", probe, files), 60, until=0.25 * campaign.seconds)
        tune = ["finetune", model, "--task", "pos", "--data", corpus, "--max-steps", 30, "--batch", 8]
        _kill_command(campaign, _Command("finetune", tune, ("scores.csv", "curve.csv", "model.safetensors")), 30)


def small_shards() -> None:
    """A shard every 4 KB instead of every 64 MB: many more moments between two of them."""
    from lamina.activations import ThisMachine

    (ThisMachine.__init__.__kwdefaults__ or {})["shard_bytes"] = 4096


def short_training() -> None:
    """A few steps per probe, with its state saved at every validation instead of every minute."""
    from lamina.analyses.layers.probe.training import PRESETS
    from lamina.probes import bank

    brief = replace(PRESETS["quick"].schedule, validate_every=5, max_validations=4)
    PRESETS["quick"] = replace(PRESETS["quick"], schedule=brief, small=brief)
    bank.SECONDS = 0.0


class _Encoding(NamedTuple):
    """What is encoded, how long that takes, and what comes of it."""

    words: list[object]
    """The command, without its store."""
    model: Path
    corpus: Path
    before: Callable[[], object] | None
    seconds: float
    states: dict[bytes, torch.Tensor]
    """By text, of a run that nothing happened to."""

    @classmethod
    def of(cls, campaign: Campaign) -> _Encoding:
        # In the long form shards have their full size: many narrow layers make much to store and little to compute.
        model = campaign.tiny_model(width=64, layers=120) if campaign.full else campaign.tiny_model(width=16)
        corpus = campaign.tiny_corpus(4000, 20) if campaign.full else campaign.tiny_corpus(40, 20)
        before = None if campaign.full else small_shards
        words = ["encode", model, "--corpus", corpus, "--split", "train", "--device", "cpu", "--store"]
        whole = campaign.lamina(*words, campaign.folder / "whole", before=before, seconds=600)
        if whole.code != 0:
            raise RuntimeError(f"the corpus could not be encoded: {whole.said}")
        encoding = cls(words, model, corpus, before, whole.seconds, {})
        store = encoding.store(campaign.folder / "whole")
        campaign.note(f"encode writes {len(store.shards)} shards in {whole.seconds:.1f} s")
        return encoding._replace(states=encoding.read(store)[0])

    def store(self, root: Path) -> ActivationStore:
        from lamina.activations import ActivationStore
        from lamina.models import load_encoder

        return ActivationStore.of(load_encoder(str(self.model), device="cpu"), root)

    def read(self, store: ActivationStore) -> tuple[dict[bytes, torch.Tensor], int]:
        """The states of every text, and the number of entries in all indexes."""
        from lamina.activations.shards import read_index
        from lamina.corpora import load_corpus
        from lamina.types import text_key

        texts = list(load_corpus(str(self.corpus), split="train"))
        stored = store.open(texts)
        entries = sum(len(read_index(shard.with_suffix(".arrow"))) for shard in store.shards)
        return {text_key(text): stored.load(number) for number, text in enumerate(texts)}, entries

    def fault(self, root: Path) -> str:
        """What is not as in the run that nothing happened to; nothing if all is well."""
        from lamina.activations import problems
        from lamina.errors import LaminaError

        store = self.store(root)
        try:
            found, entries = self.read(store)
        except LaminaError as error:
            return str(error)
        if entries != len(self.states):
            return f"{entries} texts in the indexes, not {len(self.states)}"
        apart = max(float((found[key].float() - states.float()).abs().max()) for key, states in self.states.items())
        if apart > _ROUNDING:
            return f"states differ by {apart}"
        return "; ".join(problem.what for problem in problems(store) if not problem.leftover)


def _kill_encoding(campaign: Campaign, encoding: _Encoding, kills: int, *, until: float) -> None:
    """Kill it that often, unless fewer than `until` seconds of the part are left."""
    tried = landed = rounds = 0
    # The machine may be busier at one time than at another: the shortest run that came to its end is the measure.
    span = encoding.seconds
    while tried < kills and campaign.left() > until:
        root = campaign.folder / f"killed-{rounds}"
        rounds += 1
        for _ in range(_IN_A_ROW):
            how = signal.SIGINT if campaign.random.random() < 0.2 else signal.SIGKILL
            moment = campaign.random.uniform(0.1, 0.9) * span
            done = campaign.lamina(
                *encoding.words, root, before=encoding.before, kill_after=moment, signal=how, seconds=600
            )
            tried += 1
            landed += done.code in (-signal.SIGKILL, 130)
            campaign.judge(f"kills of encode: {tried}", fault_of_stopped(done) or damage(root))
            if done.code == 0:
                span = min(span, done.seconds)
            if done.code == 0 or tried == kills:
                break
        last = campaign.lamina(*encoding.words, root, before=encoding.before, seconds=600)
        campaign.judge(f"encodings resumed: {rounds}", last.said if last.code else encoding.fault(root))
        swept = campaign.lamina("store", "gc", "--store", root)
        campaign.judge(f"stores swept: {rounds}", swept.said if swept.code else damage(root, leftovers=True))
        shutil.rmtree(root)
    campaign.note(f"{landed} of {tried} kills of encode landed")


def _write_together(campaign: Campaign, encoding: _Encoding) -> None:
    """Two writers at once, and readers beside them."""
    root = campaign.folder / "together"
    writers = []
    for _ in range(2):
        writer = os.fork()
        if writer == 0:
            done = campaign.lamina(*encoding.words, root, before=encoding.before, seconds=600)
            os._exit(0 if done.code == 0 and not done.traceback else 1)
        writers.append(writer)
    for command in ("ls", "gc", "ls") if campaign.full else ("ls",):
        done = campaign.lamina("store", command, "--store", root)
        campaign.judge(f"readers beside writers: {command}", done.said if done.code or done.traceback else "")
    codes = [os.waitstatus_to_exitcode(os.waitpid(writer, 0)[1]) for writer in writers]
    campaign.judge("writers at once: 2", f"exit status {codes}" if any(codes) else encoding.fault(root))


def _kill_a_rank(campaign: Campaign, encoding: _Encoding, rounds: int, *, until: float) -> None:
    """Two ranks write at once, and one of them is killed and started again."""
    landed = 0
    for number in range(rounds):
        if campaign.left() < until:
            break
        root = campaign.folder / f"ranks-{number}"
        other = os.fork()
        if other == 0:
            done = campaign.lamina(*encoding.words, root, "--shard", "1/2", before=encoding.before, seconds=600)
            os._exit(0 if done.code == 0 and not done.traceback else 1)
        words = (*encoding.words, root, "--shard", "0/2")
        moment = campaign.random.uniform(0.1, 0.9) * encoding.seconds
        killed = campaign.lamina(*words, before=encoding.before, kill_after=moment, seconds=600)
        landed += killed.code == -signal.SIGKILL
        campaign.judge(f"kills of a rank: {number}", fault_of_stopped(killed))
        again = campaign.lamina(*words, before=encoding.before, seconds=600)
        code = os.waitstatus_to_exitcode(os.waitpid(other, 0)[1])
        fault = again.said if again.code else f"the other rank ended with {code}" if code else encoding.fault(root)
        campaign.judge(f"ranks resumed: {number}", fault)
        shutil.rmtree(root)
    campaign.note(f"{landed} of {rounds} kills of a rank landed")


class _Command(NamedTuple):
    """A command that saves a result."""

    name: str
    words: Sequence[object]
    files: tuple[str, ...]
    """What has to be the same, byte by byte."""


def _kill_command(campaign: Campaign, command: _Command, kills: int, *, until: float = 0.0) -> None:
    """Kill it that often, unless fewer than `until` seconds of the part are left."""
    if campaign.left() <= until:
        return
    place = campaign.folder / command.name
    settings = {"before": short_training, "seconds": 600.0}

    def words(name: str) -> list[object]:
        stores = ["--store", place / f"store-{name}"] if command.name == "probe" else []
        return [*command.words, *stores, "--out", place / name]

    whole = campaign.lamina(*words("whole"), **settings)
    if whole.code != 0:
        campaign.bad(f"{command.name}: without a kill", whole.said)
        return
    tried = landed = rounds = 0
    span = whole.seconds
    while tried < kills and campaign.left() > until:
        name = f"out-{rounds}"
        rounds += 1
        for _ in range(_IN_A_ROW):
            how = signal.SIGINT if campaign.random.random() < 0.2 else signal.SIGKILL
            moment = campaign.random.uniform(0.1, 0.9) * span
            done = campaign.lamina(*words(name), kill_after=moment, signal=how, **settings)
            tried += 1
            landed += done.code in (-signal.SIGKILL, 130)
            campaign.judge(f"kills of {command.name}: {tried}", fault_of_stopped(done))
            if done.code == 0:
                span = min(span, done.seconds)
            if done.code == 0 or tried == kills:
                break
        last = campaign.lamina(*words(name), **settings)
        fault = last.said if last.code else _differences(place / "whole", place / name, command.files)
        if not fault and command.name == "probe":
            fault = damage(place / f"store-{name}")
        campaign.judge(f"{command.name} resumed: {rounds}", fault)
    campaign.note(f"{landed} of {tried} kills of {command.name} landed")


def fault_of_stopped(done: Outcome) -> str:
    """What is wrong with how a run ended that was sent a signal."""
    if done.code == 0 and "Exception ignored in" in done.said:
        # Compiled code of a library swallowed a Ctrl-C, and the run went on: what it made is looked at all the same.
        return ""
    if done.traceback or done.code not in (0, -signal.SIGKILL, 130):
        return f"exit status {done.code}: {done.said}"
    return ""


def damage(root: Path, *, leftovers: bool = False) -> str:
    """What is damaged under a root of stores; with `leftovers`, what is of no use too."""
    from lamina.activations import problems, stores
    from lamina.analyses.layers.probe import training as checkpoints

    found = [problem for store in stores(root) for problem in problems(store)] + checkpoints.problems(root)
    return "; ".join(problem.what for problem in found if leftovers or not problem.leftover)


def _differences(whole: Path, found: Path, files: Sequence[str]) -> str:
    """Files that differ, and what lies about beside the result."""
    other = [name for name in files if not (found / name).exists() or _bytes(found, name) != _bytes(whole, name)]
    hidden = [path.name for path in found.parent.glob(f".{found.name}.*")]
    return "; ".join([f"{name} differs" for name in other] + [f"{name} was left" for name in hidden])


def _bytes(folder: Path, name: str) -> bytes:
    return (folder / name).read_bytes()
