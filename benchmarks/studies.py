"""Studies: their cost over their cells by hand, two workers, a table of a million rows, an atlas of 1,000 cells."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa

from benchmarks.bars import Bar
from lamina.studies.atlas import build_atlas
from lamina.studies.declaration import parse_study
from lamina.studies.plan import CellRecord, StudyCell, cells_of, claim_folder, write_record
from lamina.studies.running import CellProcesses, Place, run_crew, run_here
from lamina.studies.table import CellRow, packed_script, study_part, write_rows, write_table
from tests.studies.tiny_study import write_checkpoints, write_treebank

ROWS, CELLS = 1_000_000, 1000
OVERHEAD, SPEEDUP, OPENS, BUILDS, GROWS = 1.03, 1.7, 2.0, 60.0, 1.2
STUDY = """
[study]
name = "bench"
models = ["minilm"]
corpora = ["ewt"]
[data]
limit = 400
[analyses.geometry]
[analyses.dimensions]
[analyses.senses]
"""


def bars() -> Iterator[Bar]:
    """All of them; those in a browser only where there is Chromium."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        yield from overhead(home)
        yield from workers(home)
        yield from table_in_browser(home)
        yield from atlas(home)


def overhead(home: Path) -> Iterator[Bar]:
    """CPU time of cells in a study over that of the same questions asked one by one, nothing stored before either."""
    path = home / "study.toml"
    path.write_text(STUDY)
    cells = cells_of(parse_study(STUDY, path))
    taken: dict[str, float] = {}
    for turn in range(3):
        for kind in ("by hand", "study"):
            out, store = home / f"{kind}-{turn}", home / f"store-{kind}-{turn}"
            started = time.process_time()
            if kind == "study":
                run_here(cells, Place(out, store), [].append)
            else:
                model = None
                for cell in cells:
                    from lamina.models import load_encoder

                    model = model or load_encoder("minilm")
                    request = cell.request
                    inputs = {**request.inputs, "model": model}
                    request.analysis(
                        **inputs, **request.options, **request.settings, store=store, out=out / cell.label, keep=True
                    )
            seconds = time.process_time() - started
            # The first turn also imports what both need.
            if turn:
                taken[kind] = min(taken.get(kind, np.inf), seconds)
    note = f"by hand {taken['by hand']:.1f} s of CPU time"
    yield Bar("a study over its cells by hand", taken["study"] / taken["by hand"], OVERHEAD, at_least=False, note=note)


def workers(home: Path) -> Iterator[Bar]:
    """Two processes of one thread against one, start-up apart."""
    (home / "models").mkdir()
    models, treebank = write_checkpoints(home / "models"), write_treebank(home)
    text = (
        f'[study]\nname = "w"\nmodels = ["{models}/*"]\ncorpora = [{{ corpus = "{treebank}", name = "own" }}]\n'
        "seeds = [0, 1, 2, 3]\n[settings]\nsamples = 3000\n[analyses.geometry]\n"
    )
    cells = cells_of(parse_study(text, home / "w.toml"))
    seconds = {}
    for count in (1, 2):
        place = Place(home / f"workers-{count}", home / f"store-{count}", threads=1)
        crew = CellProcesses(count, place)
        try:
            for worker in range(count):
                crew.send(worker, [])
            for _ in range(count):
                crew.reply()
            started = time.perf_counter()
            run_crew(cells, crew, place, [].append)
            seconds[count] = time.perf_counter() - started
        finally:
            crew.end()
    yield Bar("two workers of one thread against one", seconds[1] / seconds[2], SPEEDUP, at_least=True, unit="x")


def made_table(rows: int) -> pd.DataFrame:
    """A table as a large study has it."""
    chance = np.random.default_rng(0)
    sizes = {"study": 1, "model": 40, "revision": 20, "corpus": 12, "analysis": 8, "task": 200, "measure": 30,
             "fingerprint": 4000}  # fmt: skip
    words = {name: np.array([f"{name} {number}" for number in range(size)]) for name, size in sizes.items()}
    texts = {name: values[chance.integers(0, len(values), rows)] for name, values in words.items()}
    numbers = {name: chance.random(rows) for name in ("relative_depth", "value", "low", "high", "n", "seconds")}
    table = pd.DataFrame({**texts, **numbers, "layer": chance.integers(0, 25, rows), "version": 1})
    return table[[*CellRow._fields]]


def table_in_browser(home: Path) -> Iterator[Bar]:
    """From opening the page to the first rows."""
    binary = shutil.which("chromium")
    if binary is None:
        return
    from playwright.sync_api import sync_playwright

    script = packed_script(made_table(ROWS))
    (home / "cells.js").write_text(script)
    (home / "index.html").write_text(
        f'<div id="cells-table"></div><script src="cells.js"></script><script>{study_part("table.js")}</script>'
    )
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=binary, args=["--no-sandbox"])
        page = browser.new_page()
        times = []
        for _ in range(3):
            started = time.perf_counter()
            page.goto((home / "index.html").as_uri())
            page.wait_for_selector("#cells-table[data-ready=yes] tbody tr")
            times.append(time.perf_counter() - started)
        note = f"{len(script) / 1e6:.0f} MB; median of 3"
        opened = float(np.median(times))
        yield Bar(f"a table of {ROWS:,} rows opens", opened, OPENS, at_least=False, unit=" s", note=note)
        browser.close()


def made_study(home: Path, count: int) -> tuple[Path, Sequence[StudyCell]]:
    """The folder of a study with that many cells, all of one tiny result under other names."""
    import lamina

    models, treebank = home / "models", write_treebank(home)
    result = lamina.geometry(str(models / "tiny-step100"), str(treebank), samples=50)
    out = home / f"study-{count}"
    file = home / f"many-{count}.toml"
    file.write_text('[study]\nname = "many"\nmodels = ["minilm"]\ncorpora = ["ewt"]\n[analyses.geometry]\n')
    study = parse_study(file.read_text(), file)
    claim_folder(study, out)
    cells = []
    for number in range(count):
        model, corpus = f"model{number % 40}", f"corpus{number // 40}"
        cell = replace(cells_of(study)[0], model=model, corpus=corpus)
        about = {**result.provenance.model, "name": model, "fingerprint": f"f{number}"}
        named = replace(result, provenance=replace(result.provenance, model=about), recorded_question="")
        named.save(out / cell.folder, charts=False)
        write_rows(out, cell, named, 1.0)
        write_record(out, cell, CellRecord(cell.name, "answered", "", cell.digest, named.key, 1.0))
        cells.append(cell)
    write_table(out, cells)
    return out, cells


def atlas(home: Path) -> Iterator[Bar]:
    """A site of 1,000 cells; and the memory that their table takes against a tenth of it."""
    peaks = {}
    for count in (CELLS // 10, CELLS):
        out, cells = made_study(home, count)
        pool = pa.proxy_memory_pool(pa.default_memory_pool())
        default = pa.default_memory_pool()
        pa.set_memory_pool(pool)
        try:
            write_table(out, cells)
        finally:
            pa.set_memory_pool(default)
        peaks[count] = float(pool.max_memory() or 0)
        if count == CELLS:
            started, cpu = time.perf_counter(), time.process_time()
            build_atlas([out], home / "site")
            note = f"{time.process_time() - cpu:.0f} s of CPU time"
            taken = time.perf_counter() - started
            yield Bar(f"an atlas of {CELLS:,} cells", taken, BUILDS, at_least=False, unit=" s", note=note)
    ratio = peaks[CELLS] / max(1.0, peaks[CELLS // 10])
    yield Bar("memory of the table of 10 times the cells", ratio, GROWS, at_least=False, unit="x")
