"""Trained probes on disk: the same after reading, a clear word where they cannot be read."""

from __future__ import annotations

import json

import pytest
import torch
from safetensors.torch import load_file, save_file

from lamina.errors import ResultError
from lamina.probes.edge import Cut, EdgeProbes, SavedProbes, predict, save_probes
from lamina.probes.streams import Stream

CUTS = [Cut("cumulative", 0), Cut("cumulative", 2), Cut("layer", 1)]


@pytest.fixture
def saved(find, tmp_path):
    targets = find("srl").all
    probes = EdgeProbes(CUTS, layers=3, width=16, labels=len(targets.labels), arity=2, seed=5)
    with torch.no_grad():
        for weight in probes.parameters():
            weight += 0.1 * torch.randn(weight.shape, generator=torch.Generator().manual_seed(1))
    path = tmp_path / "srl-5.safetensors"
    save_probes(path, probes, task="srl", labels=targets.labels, encoder="f" * 64)
    return probes, path


def test_probes_read_back_are_the_probes_written(saved, find, stored):
    probes, path = saved
    targets = find("srl").all
    batch = next(iter(Stream(stored, targets).in_order()))

    read = SavedProbes(path)

    assert (read.task, read.seed, read.encoder, read.labels) == ("srl", 5, "f" * 64, targets.labels)
    assert read.probes.cuts == CUTS
    for one, other in zip(probes.state_dict().values(), read.probes.state_dict().values(), strict=True):
        assert torch.equal(one, other)
    expected = probes(batch).detach().sigmoid()
    assert torch.equal(predict(read, batch), expected)
    assert not predict(read, batch).requires_grad


def test_probes_that_mix_nothing_are_saved_too(tmp_path):
    probes = EdgeProbes([Cut("layer", 1)], layers=3, width=16, labels=2, arity=1, seed=0)
    save_probes(tmp_path / "p", probes, task="pos", labels=("A", "B"), encoder="f")

    assert torch.equal(SavedProbes(tmp_path / "p").probes.outer, probes.outer)


def _cut_short(path):
    path.write_bytes(path.read_bytes()[:-100])


def _flipped(path):
    content = bytearray(path.read_bytes())
    content[-100] ^= 64
    path.write_bytes(content)


def _rubbish(path):
    path.write_bytes(b"no probes here")


def _other_file(path):
    save_file({"a": torch.zeros(1)}, path)


def _missing(path):
    path.unlink()


def _head(**changed):
    def damage(path):
        tensors = load_file(path)
        head = {
            "format": 1, "task": "srl", "seed": 5, "encoder": "f", "labels": ["ARG0", "ARG1", "ARG2"], "cuts": CUTS,
            "layers": 3, "width": 16, "arity": 2, "tensors": sorted(tensors),
        }  # fmt: skip
        head |= changed
        head = {name: value for name, value in head.items() if value is not None}
        save_file(tensors, path, metadata={"lamina": json.dumps(head)})

    return damage


@pytest.mark.parametrize(
    "damage",
    [
        _cut_short,
        _flipped,
        _rubbish,
        _other_file,
        _missing,
        _head(format=99),
        _head(format=None),
        _head(labels=["ARG0"]),
        _head(width=17),
        _head(tensors=["nothing"]),
    ],
    ids=["short", "flipped", "rubbish", "other", "missing", "format", "no format", "labels", "width", "tensors"],
)
def test_a_file_that_holds_no_probes_is_told(saved, damage):
    _, path = saved
    damage(path)

    with pytest.raises(ResultError, match="probe again") as told:
        SavedProbes(path)
    assert str(path) in str(told.value)
