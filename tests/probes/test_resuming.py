"""Training that is killed goes on, and nobody can tell from what comes out."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from lamina.probes import bank
from lamina.probes.bank import BankCheckpoint, LearningRecord, ProbeGroup, Schedule, train_probes
from lamina.probes.edge import EdgeProbes, LayerCut
from lamina.probes.streams import Stream

CUTS = [LayerCut(probe, layer) for probe in ("cumulative", "layer") for layer in range(3)]
# Members stop one by one, rates are halved, and a validation falls into the middle of an epoch of 8 batches.
SCHEDULE = Schedule(learning_rate=5e-3, validate_every=5, max_validations=9, halve_after=1, stop_after=3)

Run = Callable[[BankCheckpoint | None], tuple[list[EdgeProbes], list[LearningRecord]]]


@pytest.fixture
def run(find, stored) -> Run:
    found = find("ner")

    def run(checkpoint: BankCheckpoint | None) -> tuple[list[EdgeProbes], list[LearningRecord]]:
        shape = {"layers": 3, "width": 16, "labels": len(found.all.labels), "arity": 1, "hidden": 24}
        streams = Stream(stored, found.learn, batch_texts=8), Stream(stored, found.stop, batch_texts=8)
        groups = [ProbeGroup(EdgeProbes(CUTS, **shape, seed=seed), found.learn, found.stop, streams) for seed in (0, 1)]
        learned = train_probes(groups, SCHEDULE, order_seed=0, what="test", checkpoint=checkpoint)
        return [group.probes for group in groups], learned

    return run


def same(
    one: tuple[list[EdgeProbes], list[LearningRecord]], other: tuple[list[EdgeProbes], list[LearningRecord]]
) -> None:
    """To the last bit."""
    for mine, theirs in zip(one[1], other[1], strict=True):
        for a, b in zip(mine, theirs, strict=True):
            np.testing.assert_array_equal(a, b)
    for mine, theirs in zip(one[0], other[0], strict=True):
        for a, b in zip(mine.parameters(), theirs.parameters(), strict=True):
            assert torch.equal(a, b)


def kill_at(validation: int, patch: pytest.MonkeyPatch) -> None:
    seen = 0
    validated = bank._StepsByBatch.losses

    def killed(*args):
        nonlocal seen
        seen += 1
        if seen == validation:
            raise KeyboardInterrupt
        return validated(*args)

    patch.setattr(bank._StepsByBatch, "losses", killed)


def kill_and_resume(
    validation: int, run: Run, path: Path, monkeypatch
) -> tuple[list[EdgeProbes], list[LearningRecord]]:
    """What comes of a training that was killed at a validation and asked for again."""
    monkeypatch.setattr(bank, "SECONDS", 0.0)
    with monkeypatch.context() as patch:
        kill_at(validation, patch)
        with pytest.raises(KeyboardInterrupt):
            run(BankCheckpoint(path))
    assert path.exists()
    steps = []
    step = bank.Learner.step
    monkeypatch.setattr(bank.Learner, "step", lambda *args: (steps.append(args[2]), step(*args)))
    resumed = run(BankCheckpoint(path))
    assert min(steps) == 5 * (validation - 1) + 1, "what was done is not done again"
    return resumed


@pytest.mark.parametrize("validation", [2, 5])
def test_a_killed_training_ends_as_if_it_had_not_been(validation, run: Run, tmp_path: Path, monkeypatch) -> None:
    expected = run(None)

    same(kill_and_resume(validation, run, tmp_path / "pos.partial", monkeypatch), expected)


# [group][member] The validation with its lowest loss: it stops three later.
BEST = np.array([[1, 3, 1, 2, 9, 1], [1, 1, 1, 1, 1, 2]])


@pytest.mark.parametrize("validation", [5, 6, 8])
def test_a_stack_that_has_shrunk_goes_on_to_the_last_bit(validation, run: Run, tmp_path: Path, monkeypatch) -> None:
    stacks: dict[tuple[int, int], list[int]] = {}

    def falling(learners, *_):
        """Losses by hand that fall until each member's own best validation."""
        told = []
        for learner in learners:
            number = 1 + int((~np.isnan(learner.history)).any(1).sum())
            best = BEST[learner.full.seeds[0]]
            told.append((1.0 - 0.05 * np.minimum(number, best))[learner.members, None])
            stacks[learner.full.seeds[0], number] = learner.members.tolist()
        return told

    monkeypatch.setattr(bank._StepsByBatch, "losses", lambda _, learners: falling(learners))
    expected = run(None)
    # Member 3 stops after 5 validations, which leaves too many for a smaller stack; 1 after 6.
    shrunk = [stacks[0, number] for number in range(1, 10)]
    assert shrunk == [[0, 1, 2, 3, 4, 5]] * 4 + [[1, 3, 4]] * 2 + [[4]] * 3
    learned = expected[1][0]
    assert (learned.converged | learned.overfitted).tolist() == [True, True, True, True, False, True]
    assert expected[1][1].steps.tolist() == [20, 20, 20, 20, 20, 25]

    stacks.clear()
    same(kill_and_resume(validation, run, tmp_path / "pos.partial", monkeypatch), expected)
    assert [stacks[0, number] for number in range(1, 10)] == shrunk, "another stack would round otherwise"


def test_a_finished_training_is_only_read(run: Run, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(bank, "SECONDS", 0.0)
    expected = run(BankCheckpoint(tmp_path / "pos.partial"))
    monkeypatch.delattr(bank.Learner, "step")

    same(run(BankCheckpoint(tmp_path / "pos.partial")), expected)


def test_nothing_is_written_before_its_time(run: Run, tmp_path: Path) -> None:
    run(BankCheckpoint(tmp_path / "pos.partial"))

    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("content", [b"", b"no tensors"])
def test_what_cannot_be_read_is_begun_anew(content, run: Run, tmp_path: Path, capsys) -> None:
    expected = run(None)
    path = tmp_path / "pos.partial"
    path.write_bytes(content)

    same(run(BankCheckpoint(path)), expected)
    assert "its training starts again" in capsys.readouterr().err


def test_a_checkpoint_of_other_probes_is_not_taken(run: Run, find, stored, tmp_path: Path, monkeypatch) -> None:
    expected = run(None)
    found = find("pos")
    monkeypatch.setattr(bank, "SECONDS", 0.0)
    probes = EdgeProbes(CUTS, layers=3, width=16, labels=3, arity=1, seed=0, hidden=8)
    streams = Stream(stored, found.learn), Stream(stored, found.stop)
    short = Schedule(validate_every=1, max_validations=1)
    path = tmp_path / "pos.partial"
    group = ProbeGroup(probes, found.learn, found.stop, streams)
    train_probes([group], short, order_seed=0, what="other", checkpoint=BankCheckpoint(path))
    assert path.exists()

    same(run(BankCheckpoint(path)), expected)


@pytest.mark.parametrize("at", [0.1, 0.99])
def test_a_damaged_checkpoint_is_not_continued_from(at: float, run: Run, tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.setattr(bank, "SECONDS", 0.0)
    path = tmp_path / "pos.partial"
    expected = run(BankCheckpoint(path))
    content = bytearray(path.read_bytes())
    content[int(at * len(content))] ^= 64
    path.write_bytes(content)

    same(run(BankCheckpoint(path)), expected)
    assert "pos.partial is damaged" in capsys.readouterr().err


def test_a_checkpoint_that_cannot_be_written_does_not_end_the_training(
    run: Run, tmp_path: Path, monkeypatch, capsys
) -> None:
    expected = run(None)
    monkeypatch.setattr(bank, "SECONDS", 0.0)

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("safetensors.torch.save_file", full)
    same(run(BankCheckpoint(tmp_path / "pos.partial")), expected)
    assert capsys.readouterr().err.count("no checkpoint, training goes on: no space left") == 1, "said once"
    assert list(tmp_path.iterdir()) == []
