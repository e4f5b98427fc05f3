"""How models are loaded (precision, chat template): as the server was started, unless a job says otherwise."""

from __future__ import annotations

import pytest

from lamina.errors import InputError
from lamina.framework.requests import read_request
from lamina.testing import TinyEncoder
from lamina.web import ServerSettings
from lamina.web.process import load_state
from lamina.web.requests import job_request
from lamina.web.workers import start_message

WANTED = {"analysis": "geometry", "model": "tiny"}


@pytest.mark.parametrize(("dtype", "chat"), [("float32", False), ("bfloat16", True)])
def test_models_are_loaded_in_it(monkeypatch, dtype, chat):
    asked = []

    def load(name, **how):
        asked.append((name, how))
        return TinyEncoder()

    monkeypatch.setattr("lamina.models.load_encoder", load)
    settings = ServerSettings(models=("tiny",), dtype=dtype, chat=chat)
    with load_state(start_message(settings, "tiny", "tiny")).model("tiny"):
        pass
    # Code that comes with a model is never run here.
    assert asked == [("tiny", {"device": None, "dtype": dtype, "chat": chat, "trust_remote_code": False})]


def test_a_request_cannot_ask_for_remote_code(client):
    app = client(chat=True).app.state.lamina
    assert "--chat" in job_request(app, WANTED).command
    for table in ({"trust_remote_code": True}, {"settings": {"trust_remote_code": True}}):
        with pytest.raises(InputError, match="trust_remote_code"):
            job_request(app, WANTED | table)
        with pytest.raises(InputError, match="trust_remote_code"):
            read_request(WANTED | table)
    with pytest.raises(InputError, match="trust_remote_code"):
        read_request(WANTED | {"data": {"name": "ewt", "trust_remote_code": True}})


def test_jobs_compute_in_it_unless_they_say_otherwise(client):
    app = client(dtype="bfloat16").app.state.lamina
    plain = job_request(client().app.state.lamina, WANTED)
    own, other = (job_request(app, WANTED | {"data": data}) for data in ({}, {"dtype": "float16"}))
    assert "--dtype bfloat16" in own.command
    assert "--dtype float16" in other.command
    assert "--dtype" not in plain.command
    assert len({str(request.out) for request in (plain, own, other)}) == 3


def test_training_is_not_in_it(client):
    app = client(dtype="bfloat16").app.state.lamina
    assert (
        "--dtype"
        not in job_request(app, {"analysis": "finetune", "model": "tiny", "settings": {"task": "babi"}}).command
    )
