"""Bundles that are opened only if they are what they say, and what would be sent to the hub."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import zipfile
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pandas as pd
import pytest
import yaml

from lamina.__main__ import main
from lamina.errors import InputError, LaminaError
from lamina.results import Provenance, Result
from lamina.results.finding import Finding
from lamina.studies.sharing import bundle, eval_results_yaml, open_bundle, shipment_of

TABLE = pd.DataFrame(
    {"suite": ["s"], "field": ["f"], "term": ["t"], "paradigm": ["agreement"], "score": ["logprob"], "pairs": [40],
     "accuracy": [0.75], "low": [0.6], "high": [0.9]}
)  # fmt: skip


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    about = {"name": "tiny", "fingerprint": "f"}, {"name": "suite", "split": "", "fingerprint": "g", "texts": 40}
    finding = Finding("Agreement is known", "difference", "clear", 0.25, 0.1, 0.4)
    result = Result("pairs", {"pairs": TABLE}, Provenance(*about, {"seed": 0}), findings=(finding,), version=3)
    return result.save(tmp_path / "pairs", charts=False)


def test_a_bundle_is_one_file_of_the_same_bytes_and_opens_to_the_same_result(saved: Path, tmp_path: Path) -> None:
    one, again = bundle(saved, tmp_path / "one.lamina"), bundle(saved, tmp_path / "again.lamina")
    assert one.read_bytes() == again.read_bytes()
    opened = Result.load(open_bundle(one, tmp_path / "opened"))
    pd.testing.assert_frame_equal(opened.tables["pairs"], Result.load(saved).tables["pairs"])
    assert opened.findings == Result.load(saved).findings
    with pytest.raises(LaminaError, match="is there already"):
        open_bundle(one, tmp_path / "opened")


def changed(source: Path, target: Path, change: Callable[[zipfile.ZipFile, dict], None]) -> Path:
    """A bundle with other files: `change` writes them, given the manifest."""
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as new:
        manifest = json.loads(old.read("bundle.json"))
        files = {name: old.read(name) for name in manifest["files"]}
        change(new, manifest)
        new.writestr("bundle.json", json.dumps(manifest))
        for name, content in files.items():
            if name in manifest["files"] and name not in new.namelist():
                new.writestr(name, content)
    return target


def outside(archive: zipfile.ZipFile, manifest: dict) -> None:
    manifest["files"]["../escaped.csv"] = {"sha256": "0", "size": 1}
    archive.writestr("../escaped.csv", "x")


def pickled(archive: zipfile.ZipFile, manifest: dict) -> None:
    manifest["files"]["probe.pkl"] = {"sha256": "0", "size": 1}
    archive.writestr("probe.pkl", "x")


def linked(archive: zipfile.ZipFile, manifest: dict) -> None:
    entry = zipfile.ZipInfo("link.csv")
    entry.external_attr = 0o120777 << 16
    manifest["files"]["link.csv"] = {"sha256": "0", "size": 1}
    archive.writestr(entry, "/etc/passwd")


def forged(archive: zipfile.ZipFile, manifest: dict) -> None:
    archive.writestr("pairs.csv", "suite,field,term,paradigm,score,pairs,accuracy,low,high\ns,f,t,a,l,1,1,1,1\n")


def unlisted(archive: zipfile.ZipFile, manifest: dict) -> None:
    archive.writestr("more.csv", "x")


def newer(archive: zipfile.ZipFile, manifest: dict) -> None:
    manifest["format"] = 99


def bomb(archive: zipfile.ZipFile, manifest: dict) -> None:
    manifest["files"]["bomb.csv"] = {"sha256": "0", "size": 1}
    archive.writestr("bomb.csv", b"0" * 2**23)


@pytest.mark.parametrize("change", [outside, pickled, linked, forged, unlisted, newer, bomb])
def test_a_bundle_that_is_not_what_it_says_writes_nothing(saved: Path, tmp_path: Path, change) -> None:
    bad = changed(bundle(saved, tmp_path / "good.lamina"), tmp_path / "bad.lamina", change)
    with pytest.raises(InputError):
        open_bundle(bad, tmp_path / "opened")
    assert not (tmp_path / "opened").exists()
    assert not (tmp_path / "escaped.csv").exists()


def test_what_is_no_bundle_is_refused_in_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "text.lamina").write_text("hello")
    with pytest.raises(InputError, match="not a bundle"):
        open_bundle(tmp_path / "text.lamina", tmp_path / "opened")
    with pytest.raises(InputError, match="there is no bundle"):
        open_bundle(tmp_path / "none.lamina")


def test_a_dry_run_shows_the_card_and_sends_nothing(
    saved: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["lamina", "push", str(saved), "hf:me/numbers", "--dry-run"])
    monkeypatch.setattr("lamina.studies.sharing.send", lambda shipment: pytest.fail("something was sent"))
    with pytest.raises(SystemExit, match="0"):
        main()
    shown = capsys.readouterr().out
    assert "to me/numbers (dataset): 3 files" in shown
    assert "pairs.csv" in shown
    assert "Agreement is known (difference .25 [.10, .40])." in shown
    assert "fingerprint `f`" in shown


def test_scores_become_eval_results_of_a_model_page(saved: Path) -> None:
    (entry,) = yaml.safe_load(eval_results_yaml(Result.load(saved), "nyu/blimp"))
    assert entry["dataset"]["id"] == "nyu/blimp"
    assert entry["value"] == 0.75
    assert "95 % interval 0.6 to 0.9" in entry["notes"]
    shipment = shipment_of(saved, "hf:owner/model", eval_results="nyu/blimp")
    assert shipment.pull_request
    assert [name.split("/")[0] for name in shipment.files] == [".eval_results"]
    with pytest.raises(InputError, match="names no repository"):
        shipment_of(saved, "hf:nothing")


class _Hub(BaseHTTPRequestHandler):
    """As much of the hub's API as a commit needs."""

    requests: list[tuple[str, bytes]] = []  # noqa: RUF012

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.headers.get("Transfer-Encoding") == "chunked":
            while size := int(self.rfile.readline(), 16):
                body += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
        self.requests.append((self.path, body))
        if "preupload" in self.path:
            paths = [file["path"] for file in json.loads(body)["files"]]
            answer = {"files": [{"path": path, "uploadMode": "regular", "shouldIgnore": False} for path in paths]}
        elif "commit" in self.path:
            answer = {"commitUrl": "https://huggingface.co/datasets/me/numbers/commit/1", "commitOid": "1"}
        else:
            answer = {"url": "https://huggingface.co/datasets/me/numbers", "name": "me/numbers"}
        self._answer(answer)

    def do_GET(self) -> None:
        self._answer({"name": "me", "type": "user", "auth": {}})

    def _answer(self, answer: dict) -> None:
        content = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None: ...


@pytest.fixture
def hub() -> Iterator[str]:
    _Hub.requests = []
    server = HTTPServer(("127.0.0.1", 0), _Hub)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_what_is_sent_reaches_a_hub(saved: Path, hub: str) -> None:
    # A process of its own: the library reads the hub's address when it is imported.
    environment = {**os.environ, "HF_ENDPOINT": hub, "HF_TOKEN": "hf_test", "HF_HUB_OFFLINE": "0"}
    words = [sys.executable, "-m", "lamina", "push", str(saved), "hf:me/numbers"]
    refused = subprocess.run(words, env=environment, capture_output=True, text=True, input="n\n", check=False)
    assert "nothing was sent" in refused.stdout, refused.stderr
    assert not _Hub.requests
    sent = subprocess.run([*words, "--yes"], env=environment, capture_output=True, text=True, check=False)
    assert sent.returncode == 0, sent.stderr
    assert "commit/1" in sent.stdout
    (created,) = (json.loads(body) for path, body in _Hub.requests if path == "/api/repos/create")
    assert created.get("visibility") == "private" or created.get("private")
    (commit,) = (body for path, body in _Hub.requests if "commit" in path)
    lines = [json.loads(line) for line in commit.splitlines()]
    assert {line["value"]["path"] for line in lines if line["key"] == "file"} == {
        "README.md", "pairs.csv", "result.json",
    }  # fmt: skip
