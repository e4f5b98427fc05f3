"""Model folders of every architecture, built once a session, and encoders loaded from them."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest

import lamina
from lamina.encoders.huggingface import HuggingFaceEncoder


def _tiny_models() -> ModuleType:
    # Test folders are no packages: the module is found by its place.
    spec = importlib.util.spec_from_file_location("tiny_models", Path(__file__).with_name("tiny_models.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


tiny_models = _tiny_models()


@pytest.fixture(params=sorted(tiny_models.ARCHITECTURES))
def architecture(request) -> str:
    """Each tested architecture in turn."""
    return request.param


@pytest.fixture(scope="session")
def tiny():
    """Name -> the architecture's description, with the limit and direction worked out by hand."""
    return tiny_models.ARCHITECTURES.__getitem__


@pytest.fixture(scope="session")
def model_folder(tmp_path_factory) -> Callable[[str], Path]:
    """Architecture -> a folder with a tiny model; never written to by tests."""
    return cache(lambda name: tiny_models.build(name, tmp_path_factory.mktemp("models") / name))


@pytest.fixture(scope="session")
def tiny_encoder(model_folder) -> Callable[[str], HuggingFaceEncoder]:
    """Architecture -> its encoder, shared by tests that leave it as it is."""
    return cache(lambda name: lamina.load_encoder(str(model_folder(name)), device="cpu"))
