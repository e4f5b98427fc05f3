"""A site of a study: its pages in a real browser, and its cells run again."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from lamina.__main__ import main
from lamina.errors import LaminaError
from lamina.studies.atlas import build_atlas, verify_atlas
from lamina.studies.sharing import open_bundle
from lamina.studies.table import CellRow, packed_script, study_part

WIDTHS = (360, 768, 1280, 1920)


@pytest.fixture(scope="module")
def browser(chromium, tmp_path_factory: pytest.TempPathFactory) -> Iterator:
    with chromium(tmp_path_factory.mktemp("profile")) as context:
        yield context


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory, checkpoints: Path, treebank: Path) -> tuple[Path, Path]:
    """A study that was run, and its site."""
    home = tmp_path_factory.mktemp("atlas")
    file = home / "study.toml"
    file.write_text(
        f'[study]\nname = "tiny"\nout = "{home}/study"\nmodels = ["{checkpoints}"]\n'
        f'corpora = [{{ corpus = "{treebank}", name = "own" }}]\n[settings]\nsamples = 20\n[analyses.geometry]\n'
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LAMINA_STORE", str(home / "store"))
        patch.setattr("sys.argv", ["lamina", "study", "run", str(file)])
        with pytest.raises(SystemExit, match="0"):
            main()
    build_atlas([home / "study"], home / "site", title="Tiny")
    return home / "study", home / "site"


def test_every_cell_has_a_page_and_a_bundle_with_its_request(built: tuple[Path, Path], tmp_path: Path) -> None:
    study, site = built
    head = json.loads((site / "atlas.json").read_text())
    assert len(head["cells"]) == 3
    assert sorted(path.name for path in (site / "model").glob("*.html")) == [
        f"tiny-step{step}.html" for step in (100, 200, 300)
    ]
    first = head["cells"][0]
    opened = open_bundle(site / first["bundle"], tmp_path / "cell")
    request = json.loads((opened / "request.json").read_text())
    assert request["analysis"] == "geometry"
    saved = pd.read_csv(study / "results/geometry/tiny-step100--own/layers.csv")
    pd.testing.assert_frame_equal(pd.read_csv(opened / "result/layers.csv"), saved)
    page = (site / "cell" / f"{first['id']}.html").read_text()
    assert "lamina run request.json" in page
    # Addresses stay: they are those of the answers.
    keys = {json.loads(path.read_text())["key"][:16] for path in (study / "cells").glob("*.json")}
    assert {cell["id"] for cell in head["cells"]} == keys


def test_cells_run_again_lie_inside_their_intervals_and_a_forged_one_does_not(
    built: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    study, site = built
    monkeypatch.setenv("LAMINA_STORE", str(tmp_path / "store"))
    monkeypatch.setattr("sys.argv", ["lamina", "atlas", "verify", str(site), "--cells", "2"])
    with pytest.raises(SystemExit, match="0"):
        main()
    assert "2 of 2 cells were run again" in capsys.readouterr().out
    forged = tmp_path / "forged"
    shutil.copytree(study, forged)
    from lamina.results import Result

    folder = forged / "results/geometry/tiny-step100--own"
    result = Result.load(folder)
    table = result.tables["layers"]
    for column in ("value", "low", "high"):
        table[column] += 1.0
    shutil.rmtree(folder)
    result.save(folder, charts=False)
    for path in (forged / "cells").glob("*step[23]00*"):
        path.unlink()
    (check,) = verify_atlas(build_atlas([forged], tmp_path / "site").parent)
    assert not check.fault
    assert check.inside < check.numbers


def test_other_folders_are_never_replaced(built: tuple[Path, Path], tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(LaminaError, match="something other than an atlas"):
        build_atlas([built[0]], tmp_path)
    with pytest.raises(LaminaError, match="not the folder of a study"):
        build_atlas([tmp_path], tmp_path / "site")
    assert (tmp_path / "notes.txt").read_text() == "mine"


@pytest.mark.browser
@pytest.mark.parametrize("width", WIDTHS)
def test_the_site_works_in_a_browser_without_a_server(built: tuple[Path, Path], browser, width: int) -> None:
    page = browser.new_page()
    page.set_viewport_size({"width": width, "height": 900})
    faults: list[str] = []
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("console", lambda message: faults.append(message.text) if message.type == "error" else None)
    page.goto((built[1] / "index.html").as_uri())
    page.fill("#search", "step200")
    page.click("#found a >> nth=0")
    page.wait_for_selector("#cells-table[data-ready=yes] tbody tr")
    assert "tiny-step200" in page.inner_text("h1")
    page.wait_for_selector(".live svg, .live canvas")
    rows = page.locator("#cells-table tbody tr").count()
    page.select_option("#cells-table select >> nth=-1", index=1)
    assert 0 < page.locator("#cells-table tbody tr").count() < rows
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.click("a[href*='cell/'] >> nth=0")
    assert "Run it again" in page.inner_text("main")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert not faults
    page.close()


@pytest.mark.browser
def test_a_large_table_opens_sorts_and_filters(browser, tmp_path: Path) -> None:
    """`python -m benchmarks studies` opens a million rows; the same with fewer."""
    count = 20_000
    chance = np.random.default_rng(0)
    numbers = {name: chance.random(count) for name in ("relative_depth", "value", "low", "high", "n", "seconds")}
    named = ("study", "model", "revision", "corpus", "analysis", "task", "measure", "fingerprint")
    texts = {name: [f"{name} {number}" for number in chance.integers(0, 9, count)] for name in named}
    table = pd.DataFrame({**texts, **numbers, "layer": chance.integers(0, 9, count), "version": 1})[[*CellRow._fields]]
    (tmp_path / "cells.js").write_text(packed_script(table))
    (tmp_path / "index.html").write_text(
        f'<div id="cells-table"></div><script src="cells.js"></script><script>{study_part("table.js")}</script>'
    )
    page = browser.new_page()
    page.goto((tmp_path / "index.html").as_uri())
    page.wait_for_selector("#cells-table[data-ready=yes] tbody tr")
    assert "20,000 of 20,000 numbers" in page.inner_text("#cells-table [role=status]")
    page.click("#cells-table th button:text-is('value')")
    names = page.eval_on_selector_all("#cells-table th", "cells => cells.map((cell) => cell.textContent)")
    place = names.index("value") + 1
    smallest = float(page.inner_text(f"#cells-table tbody tr:first-child td:nth-child({place})"))
    assert smallest == pytest.approx(table["value"].min(), rel=1e-2)
    page.select_option("#cells-table select >> nth=0", label="model 3")
    expected = int((table["model"] == "model 3").sum())
    assert f"{expected:,} of 20,000" in page.inner_text("#cells-table [role=status]")
    page.close()
