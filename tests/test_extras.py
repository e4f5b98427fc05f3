"""Packages of extras: what needs one says so, and nothing else does."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner

from lamina.cli.main import app
from lamina.errors import InputError
from lamina.extras import EXTRAS

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
IMPORTED = """
import importlib, pkgutil, sys
for name in sys.argv[1:]:
    sys.modules[name] = None
import lamina
for module in pkgutil.walk_packages(lamina.__path__, "lamina."):
    if not module.name.startswith("lamina.web") and module.name != "lamina.probes.adam_kernel":
        importlib.import_module(module.name)
"""


def test_every_extra_is_in_the_project_and_in_all() -> None:
    extras = PROJECT["optional-dependencies"]
    for extra, packages in EXTRAS.items():
        assert {entry.split(">=")[0] for entry in extras[extra]} == set(packages)
    assert extras["all"] == [f"lamina[{','.join(EXTRAS)}]"]


def test_the_core_is_imported_without_any_package_of_an_extra() -> None:
    missing = [package for packages in EXTRAS.values() for package in packages]
    run = [sys.executable, "-c", IMPORTED, *missing]
    finished = subprocess.run(run, capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stderr


@pytest.mark.parametrize(
    ("package", "command"),
    [
        ("fastapi", ["serve", "results"]),
        ("ray", ["encode", "minilm", "--corpus", "ewt", "--engine", "ray"]),
        ("datasets", ["data", "show", "hf:owner/name"]),
    ],
)
def test_what_needs_an_extra_names_it(monkeypatch: pytest.MonkeyPatch, package: str, command: list[str]) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    # `lamina serve` switches progress off for its process, which is the tests' here.
    monkeypatch.setenv("LAMINA_PROGRESS", "lines")
    error = CliRunner().invoke(app, command).exception
    (extra,) = [extra for extra, packages in EXTRAS.items() if package in packages]
    assert isinstance(error, InputError)
    assert str(error).endswith(f"pip install 'lamina[{extra}]'")
