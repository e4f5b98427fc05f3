"""Training that is killed goes on, and nobody can tell from what comes out."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from lamina.probes import bank
from lamina.probes.bank import Checkpoint, Group, Schedule, train
from lamina.probes.edge import Cut, EdgeProbes
from lamina.probes.streams import Stream

CUTS = [Cut(probe, layer) for probe in ("cumulative", "layer") for layer in range(3)]
# Members stop one by one, rates are halved, and a validation falls into the middle of an epoch of 8 batches.
SCHEDULE = Schedule(learning_rate=5e-3, validate_every=5, max_validations=9, halve_after=1, stop_after=3)

Run = Callable[[Checkpoint | None], tuple[list[EdgeProbes], list[np.ndarray]]]


@pytest.fixture
def run(find, stored) -> Run:
    found = find("ner")

    def run(checkpoint: Checkpoint | None) -> tuple[list[EdgeProbes], list[np.ndarray]]:
        shape = {"layers": 3, "width": 16, "labels": len(found.all.labels), "arity": 1}
        groups = [Group(EdgeProbes(CUTS, **shape, seed=seed), found.learn.gold, found.stop) for seed in (0, 1)]
        learn, stop = (Stream(stored, targets, batch_texts=8) for targets in (found.learn, found.stop))
        best = train(groups, learn, stop, SCHEDULE, order_seed=0, what="test", checkpoint=checkpoint)
        return [group.probes for group in groups], best

    return run


def kill_at(validation: int, patch: pytest.MonkeyPatch) -> None:
    seen = 0
    validated = bank._validated

    def killed(*args):
        nonlocal seen
        seen += 1
        if seen == validation:
            raise KeyboardInterrupt
        return validated(*args)

    patch.setattr(bank, "_validated", killed)


@pytest.mark.parametrize("validation", [2, 4, 7])
def test_a_killed_training_ends_as_if_it_had_not_been(validation, run: Run, tmp_path: Path, monkeypatch) -> None:
    expected, expected_best = run(None)
    monkeypatch.setattr(bank, "SECONDS", 0.0)
    path = tmp_path / "pos.partial"
    with monkeypatch.context() as patch:
        kill_at(validation, patch)
        with pytest.raises(KeyboardInterrupt):
            run(Checkpoint(path))
    assert path.exists()

    steps = []
    step = bank._Learner.step
    monkeypatch.setattr(bank._Learner, "step", lambda *args: (steps.append(args[2]), step(*args)))
    probes, best = run(Checkpoint(path))

    assert min(steps) == 5 * (validation - 1) + 1, "what was done is not done again"
    np.testing.assert_array_equal(best, expected_best)
    for one, other in zip(probes, expected, strict=True):
        for mine, theirs in zip(one.parameters(), other.parameters(), strict=True):
            assert torch.equal(mine, theirs)


def test_a_finished_training_is_only_read(run: Run, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(bank, "SECONDS", 0.0)
    expected, _ = run(Checkpoint(tmp_path / "pos.partial"))
    monkeypatch.delattr(bank._Learner, "step")
    again, _ = run(Checkpoint(tmp_path / "pos.partial"))

    assert torch.equal(again[1].outer, expected[1].outer)


def test_nothing_is_written_before_its_time(run: Run, tmp_path: Path) -> None:
    run(Checkpoint(tmp_path / "pos.partial"))

    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("content", [b"", b"no tensors", None])
def test_what_cannot_be_read_or_does_not_fit_is_begun_anew(content, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(bank, "SECONDS", 0.0)
    path = tmp_path / "pos.partial"
    if content is None:
        Checkpoint(path).offer(3, {"a": torch.ones(2)})
    else:
        path.write_bytes(content)
    state = {"a": torch.zeros(3)}

    assert Checkpoint(path).restore(state) == 0
    assert Checkpoint(path).restore({"b": torch.zeros(2)}) == 0
    assert not state["a"].any()


@pytest.mark.parametrize("at", [0.1, 0.5, 0.99])
def test_a_damaged_checkpoint_is_not_continued_from(at: float, tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.setattr(bank, "SECONDS", 0.0)
    path = tmp_path / "pos.partial"
    Checkpoint(path).offer(3, {"a": torch.ones(1000)})
    content = bytearray(path.read_bytes())
    content[int(at * len(content))] ^= 64
    path.write_bytes(content)
    state = {"a": torch.zeros(1000)}

    assert Checkpoint(path).restore(state) == 0
    assert not state["a"].any()
    assert "pos.partial is damaged" in capsys.readouterr().err


def test_a_checkpoint_that_cannot_be_written_does_not_end_the_training(
    run: Run, tmp_path: Path, monkeypatch, capsys
) -> None:
    _, expected = run(None)
    monkeypatch.setattr(bank, "SECONDS", 0.0)

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("safetensors.torch.save_file", full)
    _, best = run(Checkpoint(tmp_path / "pos.partial"))

    np.testing.assert_array_equal(best, expected)
    assert capsys.readouterr().err.count("no checkpoint, training goes on: no space left") == 1, "said once"
    assert list(tmp_path.iterdir()) == []
