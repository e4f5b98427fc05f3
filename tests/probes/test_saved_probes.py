"""Trained probes on disk: the same after reading, a clear word where they cannot be read."""

from __future__ import annotations

import pytest
import torch
from safetensors.torch import save_file

from lamina.errors import ResultError
from lamina.files.checking import load_tensors, save_tensors
from lamina.probes.edge import EdgeProbes, LayerCut, SavedEdgeProbes, predict, save_probes
from lamina.probes.streams import Standard, Stream

CUTS = [LayerCut("cumulative", 0), LayerCut("cumulative", 2), LayerCut("layer", 1)]


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

    read = SavedEdgeProbes(path)

    assert (read.graded, read.standard) == (False, None)
    assert (read.task, read.seed, read.encoder, read.labels) == ("srl", 5, "f" * 64, targets.labels)
    assert read.probes.cuts == CUTS
    for one, other in zip(probes.state_dict().values(), read.probes.state_dict().values(), strict=True):
        assert torch.equal(one, other)
    expected = probes(batch).detach().sigmoid()
    assert torch.equal(predict(read, batch), expected)
    assert not predict(read, batch).requires_grad


def test_probes_are_saved_with_their_width_and_how_layers_are_standardised(find, stored, tmp_path):
    targets = find("pos").all
    standard = Stream(stored, targets).look().standard
    probes = EdgeProbes(CUTS, layers=3, width=16, labels=3, arity=1, seed=5, hidden=8)
    save_probes(tmp_path / "p", probes, task="pos", labels=targets.labels, encoder="f", standard=standard)

    read = SavedEdgeProbes(tmp_path / "p")
    assert read.probes.hidden == 8
    assert isinstance(read.standard, Standard)
    for one, other in zip(read.standard, standard, strict=True):
        assert torch.equal(one, other)
    batch, same = (next(iter(Stream(stored, targets, standard=each).in_order())) for each in (standard, read.standard))
    assert torch.equal(predict(read, same), probes(batch).detach().sigmoid())


def test_graded_probes_predict_values(find, stored, tmp_path):
    targets = find("mood").all
    probes = EdgeProbes(CUTS, layers=3, width=16, labels=1, arity=1, seed=5, hidden=8)
    with torch.no_grad():
        probes.outer_bias.add_(12)
    save_probes(tmp_path / "p", probes, task="mood", labels=targets.labels, encoder="f", graded=True)
    batch = next(iter(Stream(stored, targets).in_order()))

    read = SavedEdgeProbes(tmp_path / "p")
    assert (read.graded, read.standard, read.labels) == (True, None, ("value",))
    assert torch.equal(predict(read, batch), probes(batch).detach())
    assert (predict(read, batch) > 1).all()


def test_probes_that_mix_nothing_are_saved_too(tmp_path):
    probes = EdgeProbes([LayerCut("layer", 1)], layers=3, width=16, labels=2, arity=1, seed=0)
    save_probes(tmp_path / "p", probes, task="pos", labels=("A", "B"), encoder="f")

    assert torch.equal(SavedEdgeProbes(tmp_path / "p").probes.outer, probes.outer)


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
        tensors, head = load_tensors(path)
        told = {name: value for name, value in (head | changed).items() if value is not None}
        save_tensors(path, tensors, told)

    return damage


@pytest.mark.parametrize(
    "damage",
    [
        _cut_short,
        _flipped,
        _rubbish,
        _other_file,
        _missing,
        _head(format=1),
        _head(format=99),
        _head(format=None),
        _head(labels=["ARG0"]),
        _head(width=17),
        _head(tensors=["nothing"]),
    ],
    ids=[
        "short",
        "flipped",
        "rubbish",
        "other",
        "missing",
        "before",
        "format",
        "no format",
        "labels",
        "width",
        "tensors",
    ],
)
def test_a_file_that_holds_no_probes_is_told(saved, damage):
    _, path = saved
    damage(path)

    with pytest.raises(ResultError, match="probe again") as told:
        SavedEdgeProbes(path)
    assert str(path) in str(told.value)
