"""Computations in the background: followed, stopped, and never able to take the server down."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from threading import Event
from unittest.mock import Mock

import psutil
import pytest

from lamina.framework.requests import read_request
from lamina.results import Result
from lamina.testing import TinyEncoder
from lamina.web.jobs import BackgroundJob, Jobs, TooManyJobsError, UnknownJobError, read_progress

PROGRAM = """
import json, os, signal, sys, time
def tell(done): print(json.dumps({"what": "encoding", "done": done, "total": 4}), file=sys.stderr, flush=True)
kind = json.load(sys.stdin)["kind"]
tell(1)
if kind == "fine": tell(4)
elif kind == "mistake": print("lamina: there is no such corpus", file=sys.stderr); sys.exit(2)
elif kind == "crash": os.kill(os.getpid(), signal.SIGSEGV)
elif kind == "greedy": held = bytearray(400 * 1024**2); held[::4096] = b"x" * len(held[::4096]); time.sleep(60)
elif kind == "long": time.sleep(60)
"""


@pytest.fixture
def jobs(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    made = Jobs(most=2, memory=200 * 1024**2, program=(sys.executable, str(program)))
    yield made
    made.close()


def begin(jobs: Jobs, kind: str) -> BackgroundJob:
    return jobs.start({"kind": kind}, f"lamina {kind}")


def wait(job: BackgroundJob, until=lambda job: job.over, seconds: int = 60) -> BackgroundJob:
    for _ in range(100 * seconds):
        if until(job):
            return job
        time.sleep(0.01)
    raise AssertionError(f"still {job}")


def test_a_job_is_followed_to_its_end(jobs):
    job = wait(begin(jobs, "fine"))
    assert (job.state, job.what, job.done, job.total) == ("done", "encoding", 4, 4)
    assert job.command == "lamina fine"
    assert jobs.get(job.id) is job


def test_a_mistake_is_told_in_a_sentence(jobs):
    job = wait(begin(jobs, "mistake"))
    assert (job.state, job.message) == ("failed", "there is no such corpus")


def test_a_crash_takes_nothing_with_it(jobs):
    crashed = wait(begin(jobs, "crash"))
    assert crashed.state == "failed"
    assert "-11" in crashed.message
    assert wait(begin(jobs, "fine")).state == "done"


def test_too_much_memory_ends_a_job_with_a_message(jobs):
    job = wait(begin(jobs, "greedy"))
    assert job.state == "failed"
    assert "more than 0.195 GB" in job.message


class TestAJobThatCannotStart:
    """It fails with a sentence, and the next one runs."""

    @pytest.mark.parametrize(
        ("program", "said"),
        [((sys.executable, "-c", "pass\0"), "null byte"), (("/nowhere/python",), "No such file"), (("",), "")],
        ids=["NUL", "missing program", "no program"],
    )
    def test_for_its_program(self, jobs, monkeypatch, program, said):
        sound = jobs.program
        monkeypatch.setattr(jobs, "program", program)
        job = wait(begin(jobs, "fine"))
        assert job.state == "failed"
        assert re.match("it could not be run .*; try it again", job.message)
        assert said in job.message
        monkeypatch.setattr(jobs, "program", sound)
        assert wait(begin(jobs, "fine")).state == "done"

    @pytest.mark.parametrize(
        ("what", "error"),
        [
            ("lamina.web.jobs.subprocess.Popen", MemoryError()),
            ("lamina.web.jobs.tempfile.TemporaryFile", OSError(28, "No space left on device")),
            ("lamina.web.jobs.read_progress", RuntimeError("unforeseen")),
        ],
        ids=["no memory", "no disk", "anything else"],
    )
    def test_for_the_machine(self, jobs, what, error):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(what, Mock(side_effect=error))
            job = wait(begin(jobs, "long"))
        assert job.state == "failed"
        assert str(error or "MemoryError") in job.message
        assert job.process is None or job.process.wait(10) is not None
        assert wait(begin(jobs, "fine")).state == "done"

    def test_while_it_is_cancelled(self, jobs, monkeypatch):
        """Nobody waits for a slow start, and what was cancelled during it does not run."""
        started, go_on = Event(), Event()
        slow = jobs.begin

        def start(request):
            started.set()
            assert go_on.wait(10)
            return slow(request)

        monkeypatch.setattr(jobs, "begin", start)
        job = begin(jobs, "long")
        assert started.wait(10)
        assert jobs.cancel(job.id).state == "cancelled"
        go_on.set()
        wait(job, lambda job: job.process is not None and job.process.poll() is not None)
        assert (job.state, job.message) == ("cancelled", "")


def test_odd_progress_is_not_progress(jobs):
    odd = ['{"what": 1, "done": "x", "total": 1}', "[" * 100_000, '{"what": "a", "done": 1e400, "total": []}', "told"]
    job = BackgroundJob("0", {}, "")
    assert read_progress(odd, job)[-1] == "told"
    assert (job.done, job.total) == (0.0, None)


STARTER = """
import sys, time
from lamina.web.jobs import Jobs
job = Jobs(most=1, memory=2**33, program=(sys.executable, "-c", sys.argv[1])).start({}, "")
while job.process is None: time.sleep(0.01)
print(job.process.pid, flush=True)
time.sleep(60)
"""
STARTED = """
from lamina.lifeline import follow_starter
import sys, time
follow_starter()
print('{"what": "waiting", "done": 0, "total": null}', file=sys.stderr, flush=True)
time.sleep(60)
"""


def test_a_job_ends_with_its_server_even_if_that_is_killed():
    with subprocess.Popen([sys.executable, "-c", STARTER, STARTED], stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        job = psutil.Process(int(server.stdout.readline()))
        server.kill()
    psutil.wait_procs([job], timeout=15)
    assert not job.is_running()


def test_running_and_waiting_jobs_are_cancelled_and_bounded(jobs):
    running, waiting = (begin(jobs, "long") for _ in range(2))
    wait(running, lambda job: job.process is not None)
    with pytest.raises(TooManyJobsError, match="2 computations"):
        begin(jobs, "fine")
    jobs.cancel(waiting.id)
    assert waiting.state == "cancelled"
    jobs.cancel(running.id)
    assert running.process is not None
    assert running.process.wait(10) != 0
    assert running.state == "cancelled"
    assert wait(begin(jobs, "fine")).state == "done"


def test_what_is_over_stays_as_it_ended(jobs):
    job = wait(begin(jobs, "fine"))
    assert jobs.cancel(job.id).state == "done"


def test_an_unknown_job_is_said_to_be_unknown(jobs):
    with pytest.raises(UnknownJobError, match="nothing"):
        jobs.get("nothing")


class TestAsked:
    """Through the API."""

    @pytest.fixture
    def server(self, client, monkeypatch):
        made = client()
        monkeypatch.setattr(made.app.state.lamina.jobs, "program", (sys.executable, "-c", "pass"))
        yield made
        made.app.state.lamina.jobs.close()

    def test_it_is_started_listed_and_done(self, server, tmp_path):
        wanted = {"analysis": "geometry", "model": "tiny", "data": {"name": "ewt", "limit": 7}}
        started = server.post("/api/jobs", json=wanted | {"settings": {"samples": 10}})
        assert started.status_code == 202
        job = server.app.state.lamina.jobs.get(started.json()["id"])
        out = Path(job.request["out"])
        assert out.parent == tmp_path / "results"
        assert re.fullmatch(r"geometry-tiny-ewt-[0-9a-f]{8}", out.name)
        assert job.request == wanted | {"settings": {"samples": 10}, "out": str(out), "replace": False}
        assert started.json()["command"] == f"lamina geometry tiny --limit 7 --samples 10 --out {out}"
        wait(job)
        assert [job["state"] for job in server.get("/api/jobs").json()] == ["done"]
        assert server.get(f"/api/jobs/{job.id}").json()["state"] == "done"
        assert server.delete(f"/api/jobs/{job.id}").json()["state"] == "done"

    def test_other_settings_have_another_folder_and_the_same_ones_the_same(self, server):
        wanted = {"analysis": "geometry", "model": "tiny"}
        asked = [wanted, wanted | {"settings": {"samples": 10}}, wanted, wanted | {"data": "ewt"}]
        ids = [server.post("/api/jobs", json=each).json()["id"] for each in asked]
        first, second, again, spelled = (server.app.state.lamina.jobs.get(id).request["out"] for id in ids)
        assert first == again == spelled != second

    @pytest.mark.parametrize(
        ("wanted", "status", "said"),
        [
            ({"model": "gpt5"}, 404, "not named when this server was started"),
            ({"model": "\ud800"}, 422, "model"),
            ({"model": ["tiny"]}, 422, "model"),
            ({"data": "/etc/passwd"}, 400, "not named when this server was started; there are: ewt"),
            ({"data": {"name": "../ewt"}}, 400, "not named when this server"),
            ({"data": "stories"}, 400, "there are: ewt"),
            ({"data": {"limit": 0}}, 422, "limit must be a whole number of at least 1"),
            ({"data": {"rows": 3}}, 422, "geometry has no setting 'rows'"),
            ({"data": 3}, 422, "data"),
            ({"analysis": "diff"}, 422, "diff: other is missing"),
            ({"analysis": "diff", "other": "../tiny"}, 404, "not named when this server"),
            ({"analysis": "report; rm"}, 422, "'report; rm' cannot be computed here; there are: geometry"),
            ({"analysis": "look", "sentence": "Dogs bark."}, 422, "'look' cannot be computed here"),
            ({"settings": {"samples": "many"}}, 422, "samples must be a whole number"),
            ({"settings": {"sample": 10}}, 422, "did you mean samples?"),
            ({"settings": {"samples": "\ud800"}}, 422, "unpaired surrogate"),
            ({"settings": 3}, 422, "settings"),
            ({"other": "tiny"}, 422, "geometry: a request has no 'other'; it has analysis, model, data and settings"),
            ({"out": "elsewhere"}, 422, "a request has no 'out'"),
            ({"store": "elsewhere"}, 422, "a request has no 'store'"),
            ({"replace": True}, 422, "a request has no 'replace'"),
            ({"analysis": "contextualize", "settings": {"vectors": ["/etc/passwd"]}}, 422, "cannot name '/etc/passwd'"),
            ({"analysis": "neighbours", "settings": {"vectors": "/etc/passwd"}}, 422, "cannot name '/etc/passwd'"),
            ({"analysis": "pairs", "suite": "/etc/passwd"}, 400, "the suite '/etc/passwd' cannot be read here"),
            (
                {"analysis": "cloze", "suite": {"name": "../own.tsv"}},
                400,
                "cannot be read here, where suites are given",
            ),
            ({"analysis": "pairs", "suite": {"name": "agreement", "corpus": "/etc/passwd"}}, 422, "cannot name '/etc"),
            ({"analysis": "cloze", "settings": {"corpus": "/etc/passwd"}}, 422, "cannot name '/etc/passwd'"),
            ({"analysis": "lens", "settings": {"suite": "/etc/passwd"}}, 422, "cannot name '/etc/passwd'"),
            ({"analysis": "probe_vs_lens", "data": {"facts": "/etc/passwd"}}, 422, "cannot name '/etc/passwd'"),
            ({"corpus": "x/../../escaped"}, 422, "geometry: a request has no 'corpus'"),
            ({"analysis": "finetune", "corpus": "x/../../escaped"}, 422, "finetune: a request has no 'corpus'"),
            (
                {"analysis": "finetune", "data": "x/../../escaped", "settings": {"task": "babi"}},
                400,
                "not named when this server was started",
            ),
            (
                {"analysis": "phases", "data": {"name": "x/../../escaped"}},
                400,
                "not named when this server was started",
            ),
            ({"other": "a\0b"}, 422, "a request has no 'other'"),
            ({"analysis": "diff", "other": "a\0b"}, 404, "not named when this server was started"),
            ({"data": {"name": ["ewt"]}}, 422, "data is text in a request"),
            ({"device": "cuda"}, 422, "a request has no 'device'"),
        ],
    )
    def test_what_was_not_allowed_is_refused(self, server, wanted, status, said):
        # By hand: the client's own JSON cannot hold an unpaired surrogate.
        body = json.dumps({"analysis": "geometry", "model": "tiny"} | wanted)
        answer = server.post("/api/jobs", content=body, headers={"content-type": "application/json"})
        assert (answer.status_code, said in answer.json()["error"]) == (status, True), answer.text
        assert server.get("/api/jobs").json() == []

    def test_questions_are_stories_unless_others_are_named(self, server):
        for analysis, settings in (("phases", {}), ("finetune", {"task": "babi"})):
            started = server.post("/api/jobs", json={"analysis": analysis, "model": "tiny", "settings": settings})
            assert server.app.state.lamina.jobs.get(started.json()["id"]).request["data"] == "stories"

    def test_files_that_settings_name_are_models_of_this_server(self, server):
        wanted = {
            "analysis": "contextualize",
            "model": "tiny",
            "settings": {"finetuned": ["tiny"], "vectors": ["glove"]},
        }
        started = server.post("/api/jobs", json=wanted)
        assert started.status_code == 202, started.text

    def test_a_folder_that_is_a_link_to_elsewhere_is_refused(self, server, tmp_path):
        wanted = {"analysis": "geometry", "model": "tiny"}
        id = server.post("/api/jobs", json=wanted).json()["id"]
        (tmp_path / "outside").mkdir()
        Path(server.app.state.lamina.jobs.get(id).request["out"]).symlink_to(tmp_path / "outside")
        answer = server.post("/api/jobs", json=wanted)
        assert (answer.status_code, "leads out of" in answer.json()["error"]) == (400, True)

    @pytest.mark.parametrize(
        "name",
        ["../../x y/\u00e9", "/etc/passwd", "..", "\u202e\u2215..\u2215x", "a\n-rf", "n" * 900, "\u0665", "con.."],
    )
    def test_a_job_writes_into_a_plain_folder_of_the_root(self, client, tmp_path, name):
        made = client(models={name: TinyEncoder()}, corpora=(f"{name}/c",))
        made.app.state.lamina.jobs.program = (sys.executable, "-c", "pass")
        id = made.post("/api/jobs", json={"analysis": "geometry", "model": name}).json()["id"]
        out = Path(made.app.state.lamina.jobs.get(id).request["out"])
        made.app.state.lamina.jobs.close()
        assert out.parent == tmp_path / "results"
        assert re.fullmatch(r"geometry-[A-Za-z0-9._-]{1,100}", out.name)

    def test_models_of_one_name_in_two_places_have_a_folder_each(self, client):
        made = client(models={"A/ft": TinyEncoder(), "B/ft": TinyEncoder()})
        jobs = made.app.state.lamina.jobs
        jobs.program = (sys.executable, "-c", "pass")
        asked = [{"analysis": "geometry", "model": model} for model in ("A/ft", "B/ft")]
        folders = {jobs.get(made.post("/api/jobs", json=each).json()["id"]).request["out"] for each in asked}
        jobs.close()
        assert len(folders) == 2

    def test_a_link_to_a_folder_that_is_not_there_yet_is_refused(self, server):
        wanted = {"analysis": "geometry", "model": "tiny"}
        id = server.post("/api/jobs", json=wanted).json()["id"]
        out = Path(server.app.state.lamina.jobs.get(id).request["out"])
        out.symlink_to(out.parent / ".." / "elsewhere")
        assert server.post("/api/jobs", json=wanted).status_code == 400

    def test_without_a_folder_nothing_can_be_computed(self, client):
        made = client()
        state = made.app.state.lamina
        object.__setattr__(state, "settings", replace(state.settings, folders=()))
        answer = made.post("/api/jobs", json={"analysis": "geometry", "model": "tiny"})
        assert (answer.status_code, "no folder" in answer.json()["error"]) == (400, True)

    def test_one_too_many_is_answered_with_429(self, server, monkeypatch):
        monkeypatch.setattr(server.app.state.lamina.jobs, "most", 0)
        answer = server.post("/api/jobs", json={"analysis": "geometry", "model": "tiny"})
        assert answer.status_code == 429
        assert answer.headers["retry-after"] == "1"

    def test_an_unknown_one_is_a_404(self, server):
        assert server.get("/api/jobs/nothing").status_code == 404


def test_the_process_answers_the_request_and_says_how_to_ask_again(model_folder, tmp_path, monkeypatch):
    monkeypatch.setenv("LAMINA_STORE", str(tmp_path / "store"))
    texts = tmp_path / "pets.txt"
    texts.write_text("Dogs bark at cats .\nCats do not bark .\nThe dog saw the cat .\n")
    table = {"analysis": "geometry", "model": str(model_folder("bert")), "data": {"name": str(texts), "split": "all"}}
    asked = read_request(table | {"settings": {"samples": 5, "min_count": 2}, "out": str(tmp_path / "made")})
    jobs = Jobs(most=1, memory=8 * 1024**3)
    job = wait(jobs.start(asked.table(), asked.command), seconds=180)
    jobs.close()
    assert (job.state, job.message) == ("done", "")
    made = Result.load(tmp_path / "made")
    assert made.provenance.command == asked.command == job.command
    assert made.provenance.parameters["samples"] == 5
    assert made.findings
