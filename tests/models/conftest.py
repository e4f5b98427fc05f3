"""Model folders of every architecture, built once a session, and encoders loaded from them."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest
import torch
from transformers import AutoModel, PreTrainedModel

import lamina
from lamina.models.running.huggingface import HuggingFaceEncoder


def _beside(name: str) -> ModuleType:
    # Test folders are no packages: the module is found by its place.
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


tiny_models = _beside("tiny_models")


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> Iterator[None]:
    """Tiny models spend their time waiting for threads, all the more on a busy machine."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="session", params=sorted(tiny_models.ARCHITECTURES))
def architecture(request) -> str:
    """Each tested architecture in turn."""
    return request.param


@pytest.fixture(scope="session")
def tiny():
    """Architecture -> its description, with limit and direction worked out by hand."""
    return tiny_models.ARCHITECTURES.__getitem__


@pytest.fixture(scope="session")
def model_folder(tmp_path_factory) -> Callable[[str], Path]:
    """Architecture -> a folder with a tiny model; tests copy it before they change it."""
    return cache(lambda name: tiny_models.build(name, tmp_path_factory.mktemp("models") / name))


@pytest.fixture(scope="session")
def tiny_encoder(model_folder) -> Callable[[str], HuggingFaceEncoder]:
    """Architecture -> its encoder, shared by all tests."""
    return cache(lambda name: lamina.load_encoder(str(model_folder(name)), device="cpu"))


@pytest.fixture(scope="session")
def direct_model(model_folder) -> Callable[[str], PreTrainedModel]:
    """Architecture -> the same weights in transformers alone, with the attention that hands out its maps."""
    return cache(lambda name: AutoModel.from_pretrained(model_folder(name), attn_implementation="eager").eval())
