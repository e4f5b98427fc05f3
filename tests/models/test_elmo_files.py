"""Folders that are no ELMo, or a broken one: a sentence each, which names what is wrong."""

from __future__ import annotations

import json
import os

import h5py
import numpy as np
import pytest

import lamina
from lamina.errors import InputError, ModelError
from tests.elmo_folders import OPTIONS, elmo_arrays, elmo_options, save_elmo


def refused(folder, said: str) -> None:
    with pytest.raises(ModelError, match=said):
        lamina.load_encoder(str(folder))


def test_a_tensor_that_is_missing_is_named(tmp_path):
    arrays = elmo_arrays(OPTIONS) | {"CNN_high_1/W_carry": None}
    refused(save_elmo(tmp_path / "a", arrays=arrays), r"tiny_weights.hdf5 lacks the tensor CNN_high_1/W_carry, which")
    arrays |= {"RNN_1/RNN/MultiRNNCell/Cell1/LSTMCell/B": None}
    refused(
        save_elmo(tmp_path / "b", arrays=arrays), "lacks the tensor CNN_high_1/W_carry and 1 more, which options.json"
    )
    # A third layer that the weights do not have.
    deeper = save_elmo(tmp_path / "c", elmo_options(lstm__n_layers=3), elmo_arrays(OPTIONS))
    refused(deeper, "lacks the tensor RNN_0/RNN/MultiRNNCell/Cell2/LSTMCell/W_0 and 5 more")


def test_other_hdf5_is_no_elmo(tmp_path):
    folder = save_elmo(tmp_path / "a", arrays={"0": np.zeros((2, 5, 16), np.float32)})
    refused(folder, "is not the weights of an ELMo: it holds none of its tensors, such as char_embed")
    # A group where a tensor should be, and a tensor where a group should be.
    arrays = elmo_arrays(OPTIONS)
    groups = {name: None for name in arrays if name.startswith("CNN_proj")}
    refused(
        save_elmo(tmp_path / "b", arrays=arrays | groups | {"CNN_proj": np.zeros(3)}),
        "lacks the tensor CNN_proj/W_proj",
    )
    refused(save_elmo(tmp_path / "c", arrays=arrays | {"char_embed": None, "char_embed/x": np.zeros(3)}), "char_embed")


@pytest.mark.parametrize(
    ("array", "said"),
    [
        (np.zeros((260, 4), np.float32), r"char_embed is float32 \(260, 4\); options.json asks for float32 \(261, 4\)"),
        (np.zeros((261, 4), np.int32), r"char_embed is int32 \(261, 4\); options.json asks for float32"),
        (np.full((261, 4), np.nan, np.float32), "char_embed has values that are not numbers"),
        (np.full((261, 4), 1e300), "char_embed has values that are not numbers"),
    ],
)
def test_tensors_of_another_kind(tmp_path, array, said):
    refused(save_elmo(tmp_path / "a", arrays=elmo_arrays(OPTIONS) | {"char_embed": array}), said)


def test_files_that_are_no_hdf5(tmp_path):
    folder = save_elmo(tmp_path / "a")
    path = folder / "tiny_weights.hdf5"
    whole = path.read_bytes()
    for content in (b"", b"no hdf5 at all", whole[: len(whole) // 2]):
        path.write_bytes(content)
        refused(folder, r"tiny_weights.hdf5 cannot be read as HDF5 \(.+\); copy the file again")


def test_values_in_other_files_are_not_read(tmp_path):
    secret = tmp_path / "secret.hdf5"
    with h5py.File(secret, "w") as file:
        file["char_embed"] = np.zeros((261, 4), np.float32)
    arrays = elmo_arrays(OPTIONS) | {"char_embed": None}
    linked = save_elmo(tmp_path / "a", arrays=arrays | {"char_embed": h5py.ExternalLink(secret, "char_embed")})
    refused(linked, "lacks the tensor char_embed")
    outside = save_elmo(tmp_path / "b", arrays=arrays)
    with h5py.File(outside / "tiny_weights.hdf5", "a") as file:
        file.create_dataset("char_embed", (261, 4), "f4", external=[(str(secret), 0, 261 * 16)])
    refused(outside, "char_embed is kept in another file")
    virtual = save_elmo(tmp_path / "c", arrays=arrays)
    layout = h5py.VirtualLayout((261, 4), "f4")
    layout[:] = h5py.VirtualSource(str(secret), "char_embed", (261, 4))
    with h5py.File(virtual / "tiny_weights.hdf5", "a") as file:
        file.create_virtual_dataset("char_embed", layout)
    refused(virtual, "char_embed is kept in another file")


def test_options_far_larger_than_the_weights(tmp_path):
    folder = save_elmo(tmp_path / "a", elmo_options(lstm__dim=1_000_000, lstm__projection_dim=1_000_000), {})
    refused(folder, "far larger than the stored weights")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ([], "is not the options of an ELMo: it lacks char_cnn.activation"),
        ({"lstm": {}, "char_cnn": 3}, "it lacks char_cnn.activation"),
        (elmo_options(char_cnn__activation="gelu"), "char_cnn.activation is 'gelu'; expected relu or tanh"),
        (elmo_options(char_cnn__n_characters=300), r"n_characters is 300; expected 262 \(261 in training\)"),
        (elmo_options(char_cnn__filters=[]), r"filters is \[\]; expected a list of \[width, number\]"),
        (elmo_options(char_cnn__filters=[[13, 4]]), r"filters is \[13, 4\]; expected .* widths from 1 to 12"),
        (elmo_options(char_cnn__filters=[[1, True]]), "filters is"),
        (elmo_options(char_cnn__embedding={}), "it lacks char_cnn.embedding.dim"),
        (elmo_options(char_cnn__max_characters_per_token=2), "max_characters_per_token is 2; expected a number from 3"),
        (elmo_options(lstm__dim="64"), "lstm.dim is '64'; expected a number from 1"),
        (elmo_options(lstm__n_layers=0), "lstm.n_layers is 0; expected a number from 1 to 100"),
        (elmo_options(lstm__cell_clip=-1), "lstm.cell_clip is -1; expected a positive number or null"),
        (elmo_options(lstm__use_skip_connections=1), "use_skip_connections is 1; expected true or false"),
    ],
)
def test_options_that_cannot_be_used(tmp_path, options, said):
    folder = save_elmo(tmp_path / "a")
    (folder / "options.json").write_text(json.dumps(options), encoding="utf-8")
    refused(folder, said)


def test_options_that_are_no_json(tmp_path):
    folder = save_elmo(tmp_path / "a")
    for content in (b"{", b"\xff", b"[" * 5000):
        (folder / "options.json").write_bytes(content)
        refused(folder, r"options.json cannot be read as JSON")


def test_what_a_folder_lacks_or_has_too_much_of(tmp_path):
    folder = save_elmo(tmp_path / "a")
    (folder / "second_weights.hdf5").write_bytes(b"")
    refused(folder, r"holds 2 files of weights \(second_weights.hdf5, tiny_weights.hdf5\); an ELMo has one")
    (folder / "second_weights.hdf5").unlink()
    (folder / "options.json").unlink()
    refused(folder, "holds tiny_weights.hdf5 but no options.json; an ELMo is a folder with both")
    save_elmo(folder)
    (folder / "tiny_weights.hdf5").unlink()
    refused(folder, r"holds options.json but no file \*weights.hdf5")


@pytest.mark.skipif(os.name != "posix", reason="named pipes")
def test_a_pipe_is_not_waited_for(tmp_path):
    folder = save_elmo(tmp_path / "a")
    (folder / "tiny_weights.hdf5").unlink()
    os.mkfifo(folder / "tiny_weights.hdf5")
    with pytest.raises(InputError, match="is a named pipe"):
        lamina.load_encoder(str(folder))
