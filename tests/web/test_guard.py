"""Who may ask: our own pages, with the token where there is one, and never too much at once."""

from __future__ import annotations

import asyncio
import re

import pytest

from lamina.errors import InputError
from lamina.web.app import Guard
from lamina.web.state import Limits, ServerSettings

KNOWN = "a-long-secret"


@pytest.mark.parametrize("host", ["127.0.0.1:8600", "localhost:8600", "[::1]:8600", "LOCALHOST:8600"])
def test_its_own_names_are_answered(client, host):
    assert client().get("/api/about", headers={"host": host}).status_code == 200


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1:80", "127.0.0.1.evil.example:8600", "localhost", ""])
def test_a_name_pointed_at_this_machine_is_refused(client, host):
    answer = client().get("/api/about", headers={"host": host})
    assert answer.status_code == 403
    assert "own address" in answer.json()["error"]


@pytest.mark.parametrize(
    "origin",
    [
        *(
            "https://evil.example",
            "null",
            "http://127.0.0.1:9999",
            "http://localhost",
            "http://[",
            "http://[x]:y",
            "//",
        ),
        *("chrome-extension://127.0.0.1:8600", "http://127.0.0.1:8600@evil.example", "\xff", ""),
    ],
)
def test_a_page_elsewhere_cannot_drive_it(client, origin):
    posted = client().post(
        "/api/jobs", json={"analysis": "geometry", "model": "tiny"}, headers={"origin": origin.encode("latin-1")}
    )
    assert posted.status_code == 403


def test_one_of_two_origins_is_enough_to_be_refused(client):
    headers = [("origin", "http://evil.example"), ("origin", "http://127.0.0.1:8600")]
    assert client().get("/api/about", headers=headers).status_code == 403


def test_its_own_page_can(client):
    assert client().get("/api/about", headers={"origin": "http://127.0.0.1:8600"}).status_code == 200


def test_a_link_from_elsewhere_opens_the_page_but_fetches_nothing(client):
    visit = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}
    fetch = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors"}
    assert client().get("/", headers=visit).status_code == 200
    assert client().get("/api/about", headers=fetch).status_code == 403
    # Another port of this machine is the same site.
    assert client().get("/api/about", headers=fetch | {"sec-fetch-site": "same-site"}).status_code == 403


@pytest.mark.parametrize("path", ["/", "/api/about", "/static/shared/base.css", "/nothing"])
def test_every_answer_has_the_careful_headers(client, path):
    headers = client().get(path).headers
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "http" not in policy
    assert headers["x-content-type-options"] == "nosniff"


def test_without_the_token_nothing_is_answered(client):
    guarded = client(token=KNOWN)
    for path in ("/", "/api/about", "/static/shared/base.css"):
        assert guarded.get(path).status_code == 401
    assert guarded.get("/?token=another-secret").status_code == 401
    assert guarded.get("/api/about", headers={"authorization": "Bearer another"}).status_code == 401
    assert guarded.get("/api/about", headers={"cookie": 'lamina_token="'}).status_code == 401


def test_the_token_in_the_address_becomes_a_cookie(client):
    guarded = client(token=KNOWN)
    first = guarded.get("/heads?token=" + KNOWN, follow_redirects=False)
    assert first.status_code == 303
    assert first.headers["location"] == "/heads"
    assert "HttpOnly" in first.headers["set-cookie"]
    assert "SameSite=strict" in first.headers["set-cookie"]
    assert guarded.get("/api/about").status_code == 200


@pytest.mark.parametrize("path", ["//evil.example/x", "/\\evil.example", "//evil.example/%2f..", "/%09/evil.example"])
def test_the_token_in_the_address_never_leads_to_another_server(client, path):
    answer = client(token=KNOWN).get(f"http://127.0.0.1:8600{path}?token={KNOWN}", follow_redirects=False)
    assert answer.status_code == 303
    assert re.match(r"/(?![/\\])", answer.headers["location"])


def test_a_program_shows_the_token_in_a_header(client):
    guarded = client(token=KNOWN)
    assert guarded.get("/api/about", headers={"authorization": f"Bearer {KNOWN}"}).status_code == 200
    assert guarded.get("/api/about", headers={"authorization": KNOWN}).status_code == 401
    assert guarded.get("/api/about", headers={"authorization": f"Basic {KNOWN}"}).status_code == 401


def test_odd_cookies_of_others_do_not_hide_the_token(client):
    cookies = f'=; {{"a": 1}}; \xff; lamina_token={KNOWN}'.encode("latin-1")
    assert client(token=KNOWN).get("/api/about", headers={"cookie": cookies}).status_code == 200


def test_no_other_machine_is_let_in_without_a_token():
    with pytest.raises(InputError, match="needs a token"):
        ServerSettings(host="192.0.2.7")
    assert "a-long" not in repr(ServerSettings(host="192.0.2.7", token=KNOWN))


@pytest.mark.parametrize("length", ["-1", "+5", "abc", "\xb2", "9" * 5000, ""])
def test_a_length_that_is_none_is_refused(client, length):
    answer = client().get("/api/about", headers={"content-length": length.encode("latin-1")})
    assert answer.status_code in (400, 413)


def test_behind_another_address_any_name_will_do_but_not_without_the_token(client):
    guarded = client(host="192.0.2.7", token=KNOWN)
    named = {"host": "lab.example:8600"}
    assert guarded.get("/api/about", headers=named).status_code == 401
    assert guarded.get("/api/about", headers={**named, "authorization": f"Bearer {KNOWN}"}).status_code == 200


def test_a_large_request_is_refused_whether_it_says_its_length_or_not(client):
    small = client(limits=Limits(body=1000))
    wanted = {"analysis": "geometry", "model": "x" * 2000}
    assert small.post("/api/jobs", json=wanted).status_code == 413
    parts = (part for part in [b'{"analysis": "', b"x" * 2000, b'"}'])
    answer = small.post("/api/jobs", content=parts, headers={"content-type": "application/json"})
    assert answer.status_code == 413
    assert "1,000 bytes" in answer.json()["error"]


def asked(messages, *, limits: Limits, kind: str = "http") -> list[dict]:
    """What the guard answers to a request of these messages; it waits for more after the last."""
    sent = []
    scope = {
        "type": kind,
        "method": "POST",
        "path": "/",
        "query_string": b"",
        "headers": [(b"host", b"127.0.0.1:8600")],
    }

    async def app(scope, receive, send):
        sent.append({"type": "app", "body": (await receive())["body"]})

    async def receive():
        return messages.pop(0) if messages else await asyncio.Event().wait()

    async def send(message):
        sent.append(message)

    asyncio.run(Guard(app, ServerSettings(limits=limits))(scope, receive, send))
    return sent


def test_a_body_that_never_comes_is_answered_with_408():
    start, body = asked([{"type": "http.request", "body": b"{", "more_body": True}], limits=Limits(body_seconds=0.05))
    assert start["status"] == 408
    assert (b"connection", b"close") in start["headers"]
    assert b"0.05 seconds" in body["body"]


def test_half_a_request_is_not_answered():
    half = {"type": "http.request", "body": b"{}", "more_body": True}
    assert asked([half, {"type": "http.disconnect"}], limits=Limits()) == []


def test_a_websocket_is_not_let_in():
    assert asked([{"type": "websocket.connect"}], limits=Limits(), kind="websocket") == []


def test_a_request_that_is_cut_off_by_the_servers_end_is_told():
    sent = []

    async def endless(scope, receive, send):
        await asyncio.Event().wait()

    async def receive():
        return {"type": "http.request", "body": b""}

    async def send(message):
        sent.append(message)

    async def stopped():
        scope = {
            "type": "http",
            "method": "GET",
            "path": "/",
            "query_string": b"",
            "headers": [(b"host", b"[::1]:8600")],
        }
        task = asyncio.create_task(Guard(endless, ServerSettings())(scope, receive, send))
        await asyncio.sleep(0)
        task.cancel()
        await task

    asyncio.run(stopped())
    assert sent[0]["status"] == 503
