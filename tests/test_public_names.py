"""The public names resolve, and resolving none of them costs nothing."""

from __future__ import annotations

import subprocess
import sys

import pytest

import lamina

HEAVY = {"torch", "pandas", "transformers", "altair", "pyarrow", "numpy", "tokenizers", "vl_convert", "ijson"}


@pytest.mark.parametrize("name", lamina.__all__)
def test_every_public_name_resolves_to_what_it_is_called(name: str) -> None:
    assert getattr(lamina, name).__name__.rpartition(".")[2] == name


def test_the_names_are_listed_in_order_and_once() -> None:
    assert dir(lamina) == sorted(set(lamina.__all__))
    assert len(lamina.__all__) == len(set(lamina.__all__))


def test_another_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'lamina' has no attribute 'geometri'"):
        getattr(lamina, "geo" + "metri")


@pytest.mark.parametrize("module", ["lamina", "lamina.cli.main", "lamina.results", "lamina.types"])
def test_importing_brings_nothing_heavy(module: str) -> None:
    asked = f"import sys, {module}; print(*{{name.partition('.')[0] for name in sys.modules}})"
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)

    assert HEAVY.isdisjoint(done.stdout.split())
