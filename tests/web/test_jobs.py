"""Computations in the background: followed, stopped, and never able to take the server down."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import pytest

from lamina.web.jobs import Job, Jobs, TooManyJobsError, UnknownJobError

PROGRAM = """
import json, os, signal, sys, time
def tell(done): print(json.dumps({"what": "encoding", "done": done, "total": 4}), file=sys.stderr, flush=True)
kind = sys.argv[1]
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


def wait(job: Job, until=lambda job: job.over) -> Job:
    for _ in range(2000):
        if until(job):
            return job
        time.sleep(0.01)
    raise AssertionError(f"still {job}")


def test_a_job_is_followed_to_its_end(jobs):
    job = wait(jobs.start(["fine"], Path("out")))
    assert (job.state, job.what, job.done, job.total) == ("done", "encoding", 4, 4)
    assert job.command == "lamina fine"
    assert jobs.get(job.id) is job


def test_a_mistake_is_told_in_a_sentence(jobs):
    job = wait(jobs.start(["mistake"], Path("out")))
    assert (job.state, job.message) == ("failed", "there is no such corpus")


def test_a_crash_takes_nothing_with_it(jobs):
    crashed = wait(jobs.start(["crash"], Path("out")))
    assert crashed.state == "failed"
    assert "-11" in crashed.message
    assert wait(jobs.start(["fine"], Path("out"))).state == "done"


def test_too_much_memory_ends_a_job_with_a_message(jobs):
    job = wait(jobs.start(["greedy"], Path("out")))
    assert job.state == "failed"
    assert "more than 0.195 GB" in job.message


def test_running_and_waiting_jobs_are_cancelled_and_bounded(jobs):
    running, waiting = (jobs.start(["long"], Path("out")) for _ in range(2))
    wait(running, lambda job: job.state == "running")
    with pytest.raises(TooManyJobsError, match="2 computations"):
        jobs.start(["fine"], Path("out"))
    jobs.cancel(waiting.id)
    assert waiting.state == "cancelled"
    jobs.cancel(running.id)
    assert running.process is not None
    assert running.process.wait(10) != 0
    assert running.state == "cancelled"
    assert wait(jobs.start(["fine"], Path("out"))).state == "done"


def test_what_is_over_stays_as_it_ended(jobs):
    job = wait(jobs.start(["fine"], Path("out")))
    assert jobs.cancel(job.id).state == "done"


def test_an_unknown_job_is_said_to_be_unknown(jobs):
    with pytest.raises(UnknownJobError, match="nothing"):
        jobs.get("nothing")


class TestAsked:
    """Through the API."""

    @pytest.fixture
    def server(self, client, monkeypatch):
        made = client()
        monkeypatch.setattr(made.app.state.desk.jobs, "_program", (sys.executable, "-c", "pass"))
        yield made
        made.app.state.desk.jobs.close()

    def test_it_is_started_listed_and_done(self, server, tmp_path):
        started = server.post("/api/jobs", json={"analysis": "geometry", "model": "tiny", "limit": 7})
        assert started.status_code == 202
        out = tmp_path / "results" / "geometry-tiny-7"
        assert started.json()["command"] == f"lamina geometry tiny --corpus ewt --limit 7 --out {out}"
        wait(server.app.state.desk.jobs.get(started.json()["id"]))
        assert [job["state"] for job in server.get("/api/jobs").json()] == ["done"]
        assert server.get(f"/api/jobs/{started.json()['id']}").json()["state"] == "done"
        assert server.delete(f"/api/jobs/{started.json()['id']}").json()["state"] == "done"

    @pytest.mark.parametrize(
        ("wanted", "status", "said"),
        [
            ({"analysis": "geometry", "model": "gpt5"}, 404, "not named when this server was started"),
            ({"analysis": "geometry", "model": "\ud800"}, 422, "model"),
            ({"analysis": "geometry", "model": "tiny", "corpus": "/etc/passwd"}, 400, "not named when this server"),
            ({"analysis": "diff", "model": "tiny"}, 400, "name the other"),
            ({"analysis": "diff", "model": "tiny", "other": "../tiny"}, 404, "not named when this server"),
            ({"analysis": "report; rm", "model": "tiny"}, 422, "analysis"),
            ({"analysis": "geometry", "model": "tiny", "limit": 0}, 422, "limit"),
        ],
    )
    def test_what_was_not_allowed_is_refused(self, server, wanted, status, said):
        # By hand: the client's own JSON cannot hold half a character.
        sent = {"content": json.dumps(wanted), "headers": {"content-type": "application/json"}}
        answer = server.post("/api/jobs", **sent)
        assert answer.status_code == status
        assert said in answer.json()["error"]
        assert server.get("/api/jobs").json() == []

    def test_one_too_many_is_answered_with_429(self, server, monkeypatch):
        monkeypatch.setattr(server.app.state.desk.jobs, "_most", 0)
        answer = server.post("/api/jobs", json={"analysis": "finetune", "model": "tiny"})
        assert answer.status_code == 429
        assert answer.headers["retry-after"] == "1"

    def test_an_unknown_one_is_a_404(self, server):
        assert server.get("/api/jobs/nothing").status_code == 404
