"""`lamina doctor` says what this installation has, what it lacks, and how good estimates were."""

from __future__ import annotations

from pathlib import Path

import pytest

from lamina import extras
from lamina.framework.estimate import MachineProfile, Rate


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAMINA_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("LAMINA_STORE", str(tmp_path / "store"))
    monkeypatch.delenv("LAMINA_DATA", raising=False)


def test_the_doctor_says_what_is_there(run) -> None:
    told = run("doctor").output

    assert [line for line in told.splitlines() if not line.startswith(" ")] == [
        "Versions", "Machine", "Folders", "Missing", "Estimates",
    ]  # fmt: skip
    for word in ("python", "torch", "transformers", "processor", "memory", "GPU", "not there yet"):
        assert word in told
    assert "LAMINA_DATA   not set" in told
    (models,) = (line for line in told.splitlines() if line.startswith("  model, fetched when first needed"))
    assert "minilm" in models, "an empty cache has no model"
    assert "nothing was measured yet" in told


def test_the_doctor_names_what_a_missing_package_is_for(run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extras, "installed", lambda package: package != "ray")
    told = run("doctor").output

    assert "ray: for --engine ray; pip install 'lamina[ray]'" in told
    assert "gguf: for" not in told


def test_the_doctor_shows_how_good_estimates_were(run) -> None:
    rate = Rate(0.02, 2.0, 10.0, 25.0, 3, "2026-11-19")
    MachineProfile("6 blocks of 12 heads, width 384", "cpu", "float32", {"heads": rate}).save()
    told = run("doctor").output

    assert "6 blocks of 12 heads, width 384, cpu, float32" in told
    assert "foreseen 10.0 s of CPU time, took 25.0 (factor 2.5; 3 runs, the rate is of 2026-11-19)" in told
