"""Who may ask: our own pages, with the token where there is one, and never too much at once."""

from __future__ import annotations

import pytest

from lamina.web.settings import Limits

KNOWN = "a-long-secret"


@pytest.mark.parametrize("host", ["127.0.0.1:8600", "localhost:8600", "[::1]:8600", "LOCALHOST:8600"])
def test_its_own_names_are_answered(client, host):
    assert client().get("/api/about", headers={"host": host}).status_code == 200


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1:80", "127.0.0.1.evil.example:8600", "localhost", ""])
def test_a_name_pointed_at_this_machine_is_refused(client, host):
    answer = client().get("/api/about", headers={"host": host})
    assert answer.status_code == 403
    assert "own address" in answer.json()["error"]


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://127.0.0.1:9999", "http://localhost"])
def test_a_page_elsewhere_cannot_drive_it(client, origin):
    posted = client().post("/api/jobs", json={"analysis": "geometry", "model": "tiny"}, headers={"origin": origin})
    assert posted.status_code == 403


def test_its_own_page_can(client):
    assert client().get("/api/about", headers={"origin": "http://127.0.0.1:8600"}).status_code == 200


def test_a_link_from_elsewhere_opens_the_page_but_fetches_nothing(client):
    visit = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}
    fetch = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors"}
    assert client().get("/", headers=visit).status_code == 200
    assert client().get("/api/about", headers=fetch).status_code == 403


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


def test_a_program_shows_the_token_in_a_header(client):
    guarded = client(token=KNOWN)
    assert guarded.get("/api/about", headers={"authorization": f"Bearer {KNOWN}"}).status_code == 200


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
