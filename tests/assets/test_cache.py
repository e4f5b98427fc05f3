from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

import pytest

from lamina.assets import cache as asset_cache
from lamina.assets.cache import cached, damaged, discard, fetch
from lamina.assets.origins import Allowance
from lamina.assets.sources import Card, Registry, Url
from lamina.errors import AssetError, HashError, OfflineError
from lamina.files import checking
from lamina.files.checking import cache_dir

FETCH = """
import sys
from lamina.assets.cache import fetch
from lamina.assets.sources import Card
from lamina.assets.sources import Url
base, name, sha256 = sys.argv[1:]
print("ready", flush=True)
print(fetch(Card("demo", "corpus", "", "", (name,), 1 << 20, (Url(base, {name: sha256}),))))
"""

KILLED_WHILE_UNPACKING = """
import os, shutil, signal, sys
from lamina.assets import origins
from lamina.assets.cache import fetch
from lamina.assets.sources import Card
from lamina.assets.sources import Registry
wheel, sha256 = sys.argv[1:]

class Dying(origins.Allowance):
    def take(self, count, what):
        os.kill(os.getpid(), signal.SIGKILL)

import lamina.assets.cache as cache
cache.Allowance = Dying
source = Registry({"fake==1.0": sha256}, ("fake/*",), download=lambda _, folder: shutil.copy(wheel, folder))
fetch(Card("demo", "corpus", "", "", ("a",), 1 << 20, (source,)))
"""


def card_of(web, **promised: bytes) -> Card:
    hashes = {name: sha256(content).hexdigest() for name, content in promised.items()}
    return Card("demo", "corpus", "a demo", "CC0", tuple(hashes), 1000, (Url(web.base, hashes),))


def start(script: str, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", script, *arguments], stdout=subprocess.PIPE, text=True)


def leftovers(cache: Path) -> list[str]:
    return sorted(path.name for path in (cache / "assets").iterdir() if not path.name.endswith(".lock"))


def test_a_fetch_is_kept_with_its_manifest(web, cache: Path) -> None:
    web.files = {"a": b"alpha", "b": b"beta"}
    card = card_of(web, **web.files)
    assert cached(card) is None
    folder = fetch(card)
    assert folder == cached(card) == fetch(card)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == web.files
    assert web.asked == {"a": 1, "b": 1}
    manifest = json.loads((folder.parent / "manifest.json").read_text())
    assert (manifest["name"], manifest["source"], manifest["size"]) == ("demo", web.base, 9)
    assert manifest["files"]["a"] == {"sha256": sha256(b"alpha").hexdigest(), "size": 5}
    assert leftovers(cache) == ["demo"]


def test_an_entry_is_used_only_whole(web) -> None:
    web.files = {"a": b"alpha"}
    card = card_of(web, a=b"alpha")
    folder = fetch(card)
    (folder / "a").write_bytes(b"alp")
    assert cached(card) is None, "a shortened file"
    assert (fetch(card) / "a").read_bytes() == b"alpha"
    (folder / "a").write_bytes(b"alphA")
    assert cached(card) is None, "a changed file of the same size"
    assert damaged(card) == [folder / "a"]
    (folder / "a").unlink()
    assert damaged(card) == [folder / "a"], "a missing file"
    fetch(card)
    (folder.parent / "manifest.json").unlink()
    assert cached(card) is None, "no manifest"
    assert damaged(card) == [folder.parent / "manifest.json"]


@pytest.mark.parametrize(
    "odd", ["{", "", "[]", "7", "null", "{}", '{"files": []}', '{"files": {"a": 1}}', "[" * 99_999]
)
def test_an_odd_manifest_is_damage(web, odd: str) -> None:
    web.files = {"a": b"alpha"}
    card = card_of(web, a=b"alpha")
    folder = fetch(card)
    (folder.parent / "manifest.json").write_text(odd)
    assert cached(card) is None
    assert damaged(card)
    assert (fetch(card) / "a").read_bytes() == b"alpha"
    assert not damaged(card)


def test_a_file_is_hashed_again_only_when_it_changed(web, monkeypatch) -> None:
    web.files = {"a": b"alpha"}
    card = card_of(web, a=b"alpha")
    folder = fetch(card)
    os.utime(folder / "a", (1_000_000, 1_000_000))
    assert cached(card) == folder
    monkeypatch.setattr(checking, "hash_file", lambda path: pytest.fail(f"{path} is hashed again"))
    assert cached(card) == folder
    with pytest.raises(pytest.fail.Exception, match="hashed again"):
        damaged(card, now=True)


def test_a_card_that_promises_something_else_is_fetched_again(web, cache: Path) -> None:
    web.files = {"a": b"old"}
    fetch(card_of(web, a=b"old"))
    web.files = {"a": b"new"}
    newer = card_of(web, a=b"new")
    assert cached(newer) is None
    assert (fetch(newer) / "a").read_bytes() == b"new"
    assert leftovers(cache) == ["demo"]


def test_another_hash_keeps_nothing_and_tries_no_further(web, cache: Path) -> None:
    web.files = {"a": b"tampered"}
    card = card_of(web, a=b"right")
    with pytest.raises(HashError, match=sha256(b"right").hexdigest()):
        fetch(Card("demo", "corpus", "", "", ("a",), 1000, (*card.sources, Url(web.base, {"b": "0"}))))
    assert web.asked == {"a": 1}
    assert leftovers(cache) == []


def test_the_next_source_is_tried_from_an_empty_folder(web) -> None:
    class HalfThenGone:
        place, hashes, members = "nowhere", {}, ("a",)

        def fetch(self, into: Path, allowance: Allowance) -> None:
            (into / "a").write_bytes(b"half")
            raise OfflineError("gone")

    web.files = {"b": b"beta"}
    card = card_of(web, b=b"beta")
    folder = fetch(Card("demo", "corpus", "", "", ("b",), 1000, (HalfThenGone(), *card.sources)))
    assert [path.name for path in folder.iterdir()] == ["b"]


def test_no_source_in_reach_is_one_line_with_every_reason(web, cache: Path) -> None:
    def no_network(requirement: str, folder: Path) -> None:
        raise OfflineError(f"pip could not download {requirement} (no network)")

    sources = Registry({"fake==1.0": "0"}, ("*",), download=no_network), Url(web.base, {"a": "0"})
    with pytest.raises(OfflineError) as raised:
        fetch(Card("demo", "corpus", "", "", ("a",), 1000, sources))
    message = str(raised.value)
    assert message.startswith("demo is not on this machine and no source could be reached: pip could not download")
    assert "HTTP Error 404" in message
    assert message.endswith("run `lamina assets get demo`, or set LAMINA_DATA to a folder that holds demo/ with a")
    assert "\n" not in message
    assert leftovers(cache) == []


def test_two_processes_fetch_once(web) -> None:
    web.files = {"a": b"alpha"}
    web.stall = "a"
    arguments = web.base, "a", sha256(b"alpha").hexdigest()
    both = [start(FETCH, *arguments), start(FETCH, *arguments)]
    assert [process.stdout.readline() for process in both if process.stdout] == ["ready\n"] * 2
    assert web.halfway.wait(30)
    assert all(process.poll() is None for process in both), "one downloads, the other waits for it"
    web.go_on.set()
    answers = {process.communicate(timeout=60)[0] for process in both}
    assert [process.returncode for process in both] == [0, 0]
    assert web.asked == {"a": 1}
    assert len(answers) == 1
    assert (Path(answers.pop().strip()) / "a").read_bytes() == b"alpha"


def test_a_kill_during_the_download_leaves_a_good_cache(web, cache: Path) -> None:
    web.files = {"a": b"alpha"}
    web.stall = "a"
    process = start(FETCH, web.base, "a", sha256(b"alpha").hexdigest())
    assert web.halfway.wait(30)
    process.kill()
    process.communicate(timeout=30)
    web.go_on.set()
    card = card_of(web, a=b"alpha")
    assert any(name.startswith(".demo.") for name in leftovers(cache))
    assert cached(card) is None
    assert (fetch(card) / "a").read_bytes() == b"alpha"
    assert leftovers(cache) == ["demo"], "what the killed process left is swept away"


def test_a_kill_during_unpacking_leaves_a_good_cache(make_wheel, cache: Path) -> None:
    wheel = make_wheel("fake", {"fake/a": b"alpha"})
    promised = sha256(wheel.read_bytes()).hexdigest()
    process = start(KILLED_WHILE_UNPACKING, str(wheel), promised)
    process.communicate(timeout=60)
    assert process.returncode == -signal.SIGKILL
    source = Registry({"fake==1.0": promised}, ("fake/*",), download=lambda _, folder: shutil.copy(wheel, folder))
    card = Card("demo", "corpus", "", "", ("a",), 1000, (source,))
    assert cached(card) is None
    assert (fetch(card) / "a").read_bytes() == b"alpha"
    assert leftovers(cache) == ["demo"]


def test_discarding(web, cache: Path) -> None:
    web.files = {"a": b"alpha"}
    card = card_of(web, a=b"alpha")
    assert discard(card) is False
    fetch(card)
    assert discard(card) is True
    assert leftovers(cache) == []


def test_a_cache_that_cannot_be_written_is_named(web, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    web.files = {"a": b"alpha"}

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(asset_cache, "list_files", full)
    with pytest.raises(AssetError, match=r"cannot write to the cache .*No space left on device.*set LAMINA_CACHE"):
        fetch(card_of(web, a=b"alpha"))
    assert leftovers(cache) == []
    monkeypatch.setenv("LAMINA_CACHE", str(cache / "assets" / "demo.lock"))
    with pytest.raises(AssetError, match="set LAMINA_CACHE to another folder"):
        fetch(card_of(web, a=b"alpha"))


def test_where_the_cache_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert cache_dir() == tmp_path / "cache"
    monkeypatch.delenv("LAMINA_CACHE")
    assert cache_dir().is_absolute()
    assert "lamina" in cache_dir().parts
