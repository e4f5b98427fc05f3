"""Texts, what a store should hold of them, and disks that refuse."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from lamina.activations import ActivationStore
from lamina.activations.shards import read_index
from lamina.models import Encoder
from lamina.types import Text


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    """An encoder this tiny loses more by sharing its work than it gains."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="session")
def many_texts() -> list[Text]:
    """300 different texts of 1 to 12 words."""
    return [Text(f"t{i}", tuple(f"w{i}x{j}" for j in range(1 + i % 12))) for i in range(300)]


@pytest.fixture(scope="session")
def keys_held() -> Callable[[ActivationStore], list[bytes]]:
    """Every key in every index of a store, doubled ones twice."""

    def keys(store: ActivationStore) -> list[bytes]:
        return [entry.key for index in store.folder.glob("*.arrow") for entry in read_index(index)]

    return keys


@pytest.fixture(scope="session")
def assert_holds() -> Callable[..., None]:
    """Fails unless the store has, for each text, exactly what the encoder gives, in the precision it keeps."""

    def check(store: ActivationStore, encoder: Encoder, texts: list[Text], dtype: torch.dtype = torch.float16) -> None:
        stored = store.open(texts)
        assert len(stored) == len(texts)
        for text, kept, fresh in zip(texts, stored, encoder.encode(texts), strict=True):
            assert kept.text == text.id
            assert kept.states.dtype == dtype
            assert torch.equal(kept.states, fresh.states.to(dtype))
            assert kept.tokens.ids.tolist() == fresh.tokens.ids.tolist()
            assert kept.tokens.words.tolist() == fresh.tokens.words.tolist()

    return check


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 512 KB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    _mount("-t", "tmpfs", "-o", "size=512k", "tmpfs", folder)
    yield folder
    subprocess.run(["umount", folder], check=True)


@pytest.fixture
def seal() -> Iterator[Callable[[Path], None]]:
    """Makes a folder read-only, for root too."""
    sealed: list[Path] = []

    def close(folder: Path) -> None:
        if os.geteuid() == 0:
            _mount("--bind", folder, folder)
            sealed.append(folder)
            _mount("-o", "remount,ro,bind", folder)
        else:
            folder.chmod(0o555)

    yield close
    for folder in sealed:
        subprocess.run(["umount", folder], check=True)


def _mount(*args: object) -> None:
    if os.geteuid() != 0 or subprocess.run(["mount", *map(str, args)], capture_output=True, check=False).returncode:
        pytest.skip("mounting is not allowed here")
