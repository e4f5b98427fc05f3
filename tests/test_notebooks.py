"""The notebooks run from top to bottom, on models with the same tokenizers and heads but narrow and untrained."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

FEWER = {"limit": 60, "samples": 20, "items": 20, "learn": 200, "positions": 30, "max_steps": 4}
"""What settings of the notebooks are cut down to."""
NOTEBOOKS = sorted((Path(__file__).parents[1] / "notebooks").glob("*.ipynb"))


def cells(path: Path) -> list[dict]:
    return [cell for cell in json.loads(path.read_text(encoding="utf-8"))["cells"] if cell["cell_type"] == "code"]


def source_of(cell: dict) -> str:
    return "".join(cell["source"])


def test_there_are_notebooks() -> None:
    assert len(NOTEBOOKS) >= 7


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_kept_with_its_outputs(path: Path) -> None:
    first, *others = cells(path)
    assert source_of(first).startswith("%pip install")
    assert any(cell["outputs"] for cell in others)
    assert not [output for cell in others for output in cell["outputs"] if output["output_type"] == "error"]
    assert path.stat().st_size < 600_000


@pytest.mark.real
@pytest.mark.usefixtures("slim_models", "short_corpora", "hasty_probes")
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "__main__"}
    for cell in cells(path):
        # Lines of the shell are run by tests of the commands; samples are few, since the numbers do not matter here.
        lines = [line for line in source_of(cell).splitlines() if not line.startswith(("%", "!"))]
        few = re.sub(rf"\b({'|'.join(FEWER)})=\d+", lambda found: f"{found[1]}={FEWER[found[1]]}", "\n".join(lines))
        exec(compile(few, path.name, "exec", dont_inherit=True), names)  # noqa: S102 - the repository's own notebooks
