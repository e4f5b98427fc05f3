"""Models in processes of their own: a server with a hostile model answers the others, and ends when it is told to."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest
from starlette.testclient import TestClient

from lamina.errors import ModelError
from lamina.models import load_encoder
from lamina.results import Provenance, Result
from lamina.testing import TinyEncoder
from lamina.web import ServerSettings, create_app
from lamina.web.state import Limits
from lamina.web.workers import BusyError, DeadlineError, ModelWorker
from tests.models import tiny_models

SENTENCE = "the dog barked"
ENDLESS = " ".join("a" * 26 + first + second for first in "bcdefghijklmnopqrstu" for second in "bcdefghijklmnopqrstu")
"""What takes the hostile tokenizer minutes: each word alone stays below the limit of its library."""
PANIC = "a" * 40
"""What goes beyond that limit, on which the library panics."""
SECONDS = 6.0
"""Of the test server's deadline: a tiny model answers much faster, even on a busy machine."""


def hostile(folder: Path, sound: Path) -> Path:
    """A model whose tokenizer splits words by a pattern that looks harmless and takes minutes on `ENDLESS`."""
    shutil.copytree(sound, folder)
    settings = json.loads((folder / "tokenizer_config.json").read_text(encoding="utf-8"))
    settings["tokenizer_class"] = "PreTrainedTokenizerFast"
    (folder / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")
    about = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
    pattern = {"type": "Split", "pattern": {"Regex": "a*" * 7 + r"\d"}, "behavior": "Isolated", "invert": False}
    about["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": [pattern, {"type": "WhitespaceSplit"}]}
    (folder / "tokenizer.json").write_text(json.dumps(about), encoding="utf-8")
    return folder


class Served:
    """`lamina serve` in a process of its own."""

    def __init__(self, results: Path, *models: Path) -> None:
        named = [part for model in models for part in ("--model", str(model))]
        options = ["--port", "0", "--no-estimates", "--deadline", f"{SECONDS}"]
        command = [sys.executable, "-m", "lamina", "serve", str(results), *named, *options]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        address = re.match(r"http\S+", self.process.stdout.readline() if self.process.stdout else "")
        assert address, "the server did not start"
        self.client = httpx.Client(base_url=address[0], timeout=300)

    def lens(self, model: Path, sentence: str) -> httpx.Response:
        return self.client.post("/api/lens", json={"model": str(model), "sentence": sentence})


def test_a_server_with_a_hostile_model_answers_and_ends(tmp_path):
    sound = tiny_models.build("bert", tmp_path / "sound")
    odd = hostile(tmp_path / "odd", sound)
    served = Served(tmp_path / "results", sound, odd)
    try:
        plain = served.lens(sound, SENTENCE).json()
        with_it = load_encoder(str(sound), device="cpu")
        assert plain["words"] == SENTENCE.split()
        assert plain["layers"] == with_it.layers
        assert served.lens(odd, SENTENCE).status_code == 200
        panic = served.lens(odd, PANIC)
        assert panic.status_code == 400
        assert "its libraries fail on this (PanicException" in panic.json()["error"]
        answers: list[httpx.Response] = []
        stuck = threading.Thread(target=lambda: answers.append(served.lens(odd, ENDLESS)))
        stuck.start()
        _until(lambda: served.client.get("/api/queue").json()["models"])
        # Meanwhile the other model answers, and the queue says who waits.
        assert served.lens(sound, SENTENCE).json() == plain
        assert served.client.get("/api/queue").json()["models"] == [{"model": str(odd), "waiting": 1}]
        stuck.join(120)
        assert answers[0].status_code == 504
        assert f"did not answer within {SECONDS:g} seconds" in answers[0].json()["error"]
        # Its next request gets a fresh process; and while that hangs, the server ends in time, with all processes.
        assert served.lens(odd, SENTENCE).status_code == 200
        hanging = threading.Thread(target=_keep_answer, args=(served, odd, answers))
        hanging.start()
        _until(lambda: served.client.get("/api/queue").json()["models"])
        processes = psutil.Process(served.process.pid).children(recursive=True)
        assert processes
        served.process.send_signal(signal.SIGTERM)
        served.process.wait(60)
        # It did not wait until the deadline of that request, which would have been told.
        hanging.join(60)
        assert 504 not in [answer.status_code for answer in answers[1:]]
        _, alive = psutil.wait_procs(processes, timeout=60)
        assert not alive
    finally:
        served.client.close()
        served.process.kill()
        served.process.communicate()


def _keep_answer(served: Served, model: Path, answers: list[httpx.Response]) -> None:
    with contextlib.suppress(httpx.HTTPError):
        answers.append(served.lens(model, ENDLESS))


def _until(true, seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end
        time.sleep(0.02)


@pytest.fixture
def worker(monkeypatch, tmp_path):
    """Makes a worker whose process is a few lines of Python, called once per request with the message."""

    def make(program: str, **limits: Any) -> ModelWorker:
        path = tmp_path / "program.py"
        path.write_text(
            "import json, os, sys, time\n"
            "def say(text):\n    sys.stdout.write(text + '\\n'); sys.stdout.flush()\n"
            f"for line in sys.stdin:\n    message = json.loads(line)\n{program}\n"
        )
        monkeypatch.setattr("lamina.web.workers.PROGRAM", (sys.executable, "-S", str(path)))
        return ModelWorker("odd", {"start": True}, Limits(**limits))

    return make


ANSWER = "    say('{}' if 'start' in message else message['examine'])"


def test_requests_wait_in_line_and_are_answered_in_turn(worker):
    line = worker(f"    time.sleep(0.02)\n{ANSWER}")
    answers: dict[int, bytes] = {}
    threads = [threading.Thread(target=lambda n=n: answers.__setitem__(n, line.ask(None, str(n)))) for n in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert answers == {n: f"{n}\n".encode() for n in range(20)}
    assert line.waiting == 0
    line.close()


@pytest.mark.parametrize(
    ("program", "limits", "error", "message"),
    [
        ("    time.sleep(60)", {"loading_seconds": 0.3}, DeadlineError, "could not be loaded within 0.3 seconds"),
        (
            f"    time.sleep(0 if 'start' in message else 60)\n{ANSWER}",
            {"answer_seconds": 0.3},
            DeadlineError,
            "did not answer within 0.3 seconds",
        ),
        ("    os._exit(3)", {}, ModelError, "ended with status 3 while it was to load"),
        ("    os.kill(os.getpid(), 11)", {}, ModelError, "ended by signal 11"),
        (
            "    x = bytearray(10**9); time.sleep(60)",
            {"model_memory": 2 * 10**8},
            ModelError,
            "needs more than the 0.2 GB of memory",
        ),
        ("    say('!not json')", {}, ModelError, "gave no answer that can be read"),
        ('    say("!" + json.dumps({"kind": "os", "message": "x"}))', {}, ModelError, "x"),
    ],
    ids=["loads without end", "answers without end", "exits", "crashes", "takes all memory", "noise", "odd error"],
)
def test_a_process_that_goes_wrong_is_told_in_a_sentence(worker, program, limits, error, message):
    odd = worker(program, **limits)
    start = time.monotonic()
    for _ in range(2):
        with pytest.raises(error, match=re.escape(message)) as caught:
            odd.ask(None, "1")
        assert "\n" not in str(caught.value)
    assert time.monotonic() - start < 15
    odd.close()
    with pytest.raises(BusyError, match="being stopped"):
        odd.ask(None, "1")


def test_who_waited_too_long_is_sent_away_and_the_next_is_answered(worker):
    line = worker(f"    time.sleep(0.7 if message.get('examine') else 0)\n{ANSWER}", answer_seconds=1.5)
    outcomes: list[object] = []

    def ask(n: int) -> None:
        try:
            outcomes.append(line.ask(None, f"{n}"))
        except BusyError as error:
            outcomes.append(str(error))

    threads = [threading.Thread(target=ask, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    refused = [outcome for outcome in outcomes if isinstance(outcome, str)]
    assert refused
    assert all("was busy with other requests" in outcome for outcome in refused)
    assert line.ask(None, "9") == b"9\n"
    line.close()


def visiting(folder: Path) -> TestClient:
    """A client of a server with one model that was named, and one in a result folder."""
    settings = ServerSettings(models=("tiny",), folders=(folder.parent,), port=8600)
    encoders = {"tiny": TinyEncoder(), str(folder): TinyEncoder()}
    return TestClient(create_app(settings, encoders.__getitem__), base_url="http://127.0.0.1:8600")


def test_a_model_of_a_result_folder_loads_once_it_is_confirmed(tmp_path):
    folder = tmp_path / "report" / "tuned"
    (tmp_path / "config.json").write_text("{}")
    about = Provenance({"name": "tiny", "fingerprint": "t"}, {"name": "c", "fingerprint": "s"}, {})
    Result("finetune", {}, about, {"config.json": tmp_path / "config.json"}).save(folder, charts=False)
    asked = {"model": "report/tuned", "sentence": SENTENCE}
    visitor = visiting(folder)
    card = visitor.get("/api/about").json()["models"][1]
    assert (card["name"], card["unconfirmed"]) == ("report/tuned", True)
    refused = visitor.post("/api/lens", json=asked)
    assert refused.status_code == 409
    assert f"or start the server again with --model {folder}" in refused.json()["error"]
    assert visitor.post("/api/jobs", json={"analysis": "geometry", "model": "report/tuned"}).status_code == 409
    assert visitor.get("/api/about").json()["models"][1]["loaded"] is False
    assert visitor.get("/api/strange-models/report/tuned").json()["folder"] == str(folder)
    assert visitor.post("/api/strange-models", json={"model": "gone"}).status_code == 404
    assert visitor.post("/api/strange-models", json={"model": "report/tuned"}).status_code == 200
    assert visitor.post("/api/lens", json=asked).status_code == 200
    assert visitor.get("/api/about").json()["models"][1]["loaded"] is True


def test_an_adapter_is_confirmed_together_with_its_base(tmp_path):
    folder = tmp_path / "report" / "tuned"
    for name, content in (("config.json", {}), ("adapter_config.json", {"base_model_name_or_path": "someone/else"})):
        (tmp_path / name).write_text(json.dumps(content))
    about = Provenance({"name": "tiny", "fingerprint": "t"}, {"name": "c", "fingerprint": "s"}, {})
    files = {name: tmp_path / name for name in ("config.json", "adapter_config.json")}
    Result("finetune", {}, about, files).save(folder, charts=False)
    visitor = visiting(folder)
    assert visitor.get("/api/strange-models/report/tuned").json()["base"] == "someone/else"
    alone = visitor.post("/api/strange-models", json={"model": "report/tuned"})
    assert alone.status_code == 400
    assert "an adapter on 'someone/else'" in alone.json()["error"]
    both = visitor.post("/api/strange-models", json={"model": "report/tuned", "base": "someone/else"})
    assert both.status_code == 200
    assert visitor.app.state.lamina.models.source("report/tuned") == f"someone/else+{folder}"


def test_a_process_that_rests_starts_again(worker):
    odd = worker(ANSWER)
    assert odd.ask(None, "1") == b"1\n"
    assert odd.loaded
    odd.rest()
    assert not odd.loaded
    assert odd.ask(None, "2") == b"2\n"
    odd.close()


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="the system has no timers")
def test_a_process_that_nobody_ends_ends_itself(tmp_path):
    # It holds the interpreter, as a library that searches with a pattern does.
    program = "import re; from lamina.web import process; process.MARGIN = 0.0\n"
    program += "with process.self_ending(0.2): re.match(r'(a|aa)+$', 'a' * 60 + 'b')"
    ended = subprocess.run([sys.executable, "-c", program], timeout=300, check=False)
    assert ended.returncode == -signal.SIGALRM
