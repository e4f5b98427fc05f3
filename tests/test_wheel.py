"""The installed package has everything that the report and the app are made of."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "lamina"
SERVED = """
import lamina, sys
from pathlib import Path
from starlette.testclient import TestClient
from lamina.figures import colour_tokens
from lamina.report import page
from lamina.web import ServerSettings, create_app
assert Path(lamina.__file__).is_relative_to(sys.argv[1]), lamina.__file__
client = TestClient(create_app(ServerSettings(port=8600)), base_url="http://127.0.0.1:8600")
made = ("/static/tokens.css", "/static/drawing.js")
for address in ("/", "/runs", "/static/views/sentence/view.js", "/static/shared/base.css", *made):
    assert client.get(address).status_code == 200, address
assert page.read_part("report.css") and page.read_part("report.js") and page.page_template() and colour_tokens()
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    # Built elsewhere: setuptools leaves a build folder beside what it builds.
    copy = folder / "source"
    copy.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        (copy / name).write_bytes((ROOT / name).read_bytes())
    kept = [path for path in SOURCE.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    for path in kept:
        target = copy / "src" / "lamina" / path.relative_to(SOURCE)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(path.read_bytes())
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*command, "--wheel-dir", folder, copy], check=True)
    (built,) = folder.glob("*.whl")
    return built


def test_every_file_that_pages_are_made_of_is_in_the_wheel(wheel: Path) -> None:
    inside = set(zipfile.ZipFile(wheel).namelist())
    parts = [
        path
        for folder in ("web/static", "web/templates", "report", "figures")
        for path in (SOURCE / folder).rglob("*")
        if path.is_file() and path.suffix not in (".py", ".pyc")
    ]
    assert {path.suffix for path in parts} >= {".js", ".ts", ".css", ".html"}
    assert [path for path in parts if f"lamina/{path.relative_to(SOURCE).as_posix()}" not in inside] == []
    assert "lamina/py.typed" in inside


def test_the_installed_wheel_serves_its_pages(wheel: Path, tmp_path: Path) -> None:
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", tmp_path / "site", wheel]
    subprocess.run(install, check=True)
    environment = os.environ | {"PYTHONPATH": str(tmp_path / "site")}
    run = [sys.executable, "-c", SERVED, str(tmp_path / "site")]
    done = subprocess.run(run, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
