"""A report whose inputs, results and page are as they were is found again; anything else is looked at anew."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import lamina.models
from lamina.activations import Runtime
from lamina.figures import geometry
from lamina.framework.outline import outline
from lamina.report import find_report, make_report, report
from lamina.report import report as making
from lamina.testing import TinyEncoder

OPTIONS = {"split": "all", "unit": "sentence", "format": "plain", "annotation": None, "limit": None}
OPTIONS |= {"dtype": "float32", "chat": False}
HERE = Path("report")


@pytest.fixture(scope="module", autouse=True)
def _same_source():
    """Lamina may be edited while its tests run; ray, once it is imported, puts packages of its own on the path."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(report, "source_files", lambda: "same")
        patch.setattr(report, "distributions", lambda: [])
        yield


def found(**other) -> Path | None:
    return find_report("tiny", "pets.txt", HERE, only=["geometry"], options=OPTIONS | other)


@pytest.fixture(scope="module")
def first(tmp_path_factory):
    """A report of a model in a folder on texts in a file."""
    folder = tmp_path_factory.mktemp("first")
    (folder / "tiny").mkdir()
    (folder / "tiny" / "config.json").write_text("{}", encoding="utf-8")
    (folder / "pets.txt").write_text("the dog saw the cat\nthe cat ran\na dog ran\n" * 5, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lamina.models, "load_encoder", lambda name, **_: TinyEncoder())
        patch.setattr(geometry, "PANELS", geometry.PANELS[:1])
        patch.chdir(folder)
        make_report("tiny", "pets.txt", HERE, only=["geometry"], runtime=Runtime(folder / "store"), **OPTIONS)
    return folder


@pytest.fixture
def folder(first, tmp_path, monkeypatch) -> Path:
    """A copy of it, to be changed; loading a model fails."""
    copied = shutil.copytree(first, tmp_path / "copy")
    monkeypatch.chdir(copied)
    monkeypatch.delattr(lamina.models, "load_encoder")
    return copied


def test_a_report_is_found_without_the_model(folder):
    before = (HERE / "index.html").stat().st_mtime_ns
    assert make_report("tiny", "pets.txt", HERE, only=["geometry"], **OPTIONS) == HERE / "index.html"
    assert (HERE / "index.html").stat().st_mtime_ns == before


def test_a_report_is_found_without_torch(folder):
    code = (
        "import sys; from pathlib import Path; from lamina.report import find_report, report; "
        "report.source_files = lambda: 'same'; report.distributions = lambda: []; "
        f"page = find_report('tiny', 'pets.txt', Path('report'), only=['geometry'], options={OPTIONS!r}); "
        "print(page, sorted({'torch', 'transformers', 'altair'} & {*sys.modules}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == f"{HERE / 'index.html'} []"


def test_a_report_of_two_analyses_loads_no_others(folder):
    """It once loaded 479 modules."""
    code = (
        "import sys; from pathlib import Path; import lamina.models; from lamina.testing import TinyEncoder; "
        "lamina.models.load_encoder = lambda name, **_: TinyEncoder(); from lamina import Runtime, make_report; "
        "make_report('tiny', 'pets.txt', Path('both'), only=['geometry', 'attention'], runtime=Runtime(Path('store')), "
        f"**{OPTIONS!r}); print(*(name for name in sys.modules if name.partition('.')[0] == 'lamina'))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    modules = done.stdout.split()
    assert len(modules) <= 250
    assert {"lamina.analyses.layers.geometry", "lamina.analyses.heads.attention"} <= set(modules)
    assert not [name for name in modules if name.startswith(("lamina.analyses.cause", "lamina.analyses.answering"))]


def _append(path: str) -> None:
    with Path(path).open("a", encoding="utf-8") as file:
        file.write("x\n")


@pytest.mark.parametrize(
    "changed",
    ["tiny/config.json", "tiny/more.json", "pets.txt", "report/index.html", "report/report.json"]
    + [f"report/results/geometry/{name}" for name in ("result.json", "layers.csv", "layers.svg")],
)
def test_a_file_that_changed_is_noticed(folder, changed):
    assert found() is not None
    _append(changed)
    assert found() is None


def test_another_question_is_another_report(folder):
    assert found(limit=3) is None
    assert found(dtype="bfloat16") is None
    assert find_report("tiny", "pets.txt", HERE, only=None, options=OPTIONS) is None
    assert find_report("other", "pets.txt", HERE, only=["geometry"], options=OPTIONS) is None


def test_another_lamina_looks_again(folder, monkeypatch):
    assert found() is not None
    monkeypatch.setattr(report, "source_files", lambda: "edited")
    assert found() is None


def test_a_page_that_leaves_something_out_is_made_again(tmp_path, monkeypatch, first):
    """What was missing may be there next time."""
    monkeypatch.chdir(shutil.copytree(first, tmp_path / "copy"))
    monkeypatch.setattr(lamina.models, "load_encoder", lambda name, **_: TinyEncoder())
    monkeypatch.setattr(geometry, "PANELS", geometry.PANELS[:1])
    monkeypatch.setattr(making, "in_report", lambda: {name: outline(name) for name in ("geometry", "heads")})
    make_report("tiny", "pets.txt", "more", runtime=Runtime(tmp_path / "store"), **OPTIONS)
    assert not Path("more", report.RECORD).exists()


def test_another_version_of_a_package_is_noticed(folder, monkeypatch):
    assert found() is not None
    monkeypatch.setattr(report, "distributions", lambda: [SimpleNamespace(name="torch", version="9.9")])
    assert found() is None
