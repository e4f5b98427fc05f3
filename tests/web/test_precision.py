"""What models compute in: as the server was started, unless a job says otherwise."""

from __future__ import annotations

import pytest

from lamina.testing import TinyEncoder
from lamina.web import Settings, create_app
from lamina.web.requests import job_request

WANTED = {"analysis": "geometry", "model": "tiny"}


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_models_are_loaded_in_it(monkeypatch, dtype):
    asked = []

    def load(name, **how):
        asked.append((name, how))
        return TinyEncoder()

    monkeypatch.setattr("lamina.encoders.load_encoder", load)
    with create_app(Settings(models=("tiny",), dtype=dtype)).state.lamina.model("tiny"):
        pass
    assert asked == [("tiny", {"device": None, "dtype": dtype})]


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
