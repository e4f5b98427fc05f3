"""The API against its own description: whatever fits it, and whatever does not, gets the answer that it promises."""

from __future__ import annotations

import sys

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from lamina.web.app import warm_up

CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
HOST = {"host": "127.0.0.1:8600"}
TRIES = settings(max_examples=10, suppress_health_check=[*HealthCheck])


@pytest.fixture
def described(client, make_geometry, tmp_path):
    make_geometry(layers=2).save(tmp_path / "kept" / "geometry", charts=False)
    app = client(folders=[tmp_path / "kept"]).app
    # Jobs are tried elsewhere; here they end at once.
    app.state.lamina.jobs.program = (sys.executable, "-c", "pass")
    # What a server does while its first page is opened; hypothesis minds threads that draw random numbers.
    warm_up(app.state.lamina)
    yield schemathesis.openapi.from_asgi("/api/openapi.json", app, headers=HOST)
    app.state.lamina.jobs.close()


@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE], ids=["fitting", "not fitting"])
def test_every_answer_is_as_described(described, mode):
    operations = [found.ok() for found in described.get_all_operations()]
    assert {"GET /api/about", "POST /api/jobs", "GET /api/results/{id}"} <= {each.label for each in operations}
    for operation in operations:
        takes_something = bool(operation.body or operation.path_parameters or operation.query)
        if mode is GenerationMode.NEGATIVE and not takes_something:
            continue
        given(operation.as_strategy(generation_mode=mode))(_answered)()


@TRIES
def _answered(case: schemathesis.Case) -> None:
    # A slow machine is no fault of the API.
    case.call_and_validate(headers=HOST, checks=CHECKS, timeout=300)
