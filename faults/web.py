"""A server under attack from its own machine: whose requests it takes, what it lets out, what brings it down."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psutil

from faults.campaign import Campaign
from faults.served import MARKUP, PATIENCE, SECRET, SOUND, Server, save

TOKEN = "correct-horse-battery"


def run(campaign: Campaign) -> None:
    """Attack a server, then one with a token, and end both while they work."""
    (campaign.folder / "secret.txt").write_text(SECRET)
    server, guarded = Server(campaign, "open"), Server(campaign, "guarded", LAMINA_TOKEN=TOKEN)
    try:
        before = _outside(campaign)
        for part in (strangers, ways_out, malformed, hostile_jobs, poisoned, random_requests, crowds, queue):
            try:
                part(campaign, server)
            except TimeoutError:
                campaign.bad(part.__name__, f"no answer within {PATIENCE:.0f} s")
        tokens(campaign, guarded)
        written = sorted(_outside(campaign) - before)
        campaign.judge("nothing is written outside", ", ".join(written))
        half_open(campaign, guarded)
        ended(campaign, server, signal.SIGKILL)
        for each in (server, guarded):
            said = each.log.read_text(errors="replace")
            campaign.judge("no traceback in the log", said if "Traceback" in said or TOKEN in said else "")
        campaign.note(f"{server.requests + guarded.requests:,} requests")
    finally:
        for each in (server, guarded):
            each.end()


def _outside(campaign: Campaign) -> set[str]:
    """What is in the campaign's folder, but for the logs and what is in the result folders."""
    found = set()
    for folder, inner, files in os.walk(campaign.folder):
        inner[:] = [name for name in inner if name != "results"]
        found |= {f"{folder}/{name}" for name in [*inner, *files] if not name.endswith(".log")}
    return found


def strangers(campaign: Campaign, server: Server) -> None:
    """Requests that are not from a page of this server."""
    own, port = server.own, server.port
    hosts = ["evil.example", f"evil.example:{port}", f"{own}.evil.example", f"localhost.:{port}", "127.0.0.1", ""]
    hosts += [f"127.0.0.1:{port + 1}", f"0.0.0.0:{port}", f"127.1:{port}", f"2130706433:{port}", f"user@{own}"]
    hosts += [f"[::ffff:127.0.0.1]:{port}", f"{own}/x", f"{own},evil.example", f"{own}:{port}", "[", "\xff"]
    for host in hosts:
        campaign.judge(f"foreign hosts: {host!r}", server.ask("GET", "/api/results", host=host).fault(400, 403))
    origins = ["http://evil.example", f"http://evil.example:{port}", "null", f"http://{own}.evil.example", "file://"]
    origins += [f"http://127.0.0.1:{port + 1}", f"http://localhost:{port}", f"https://user:x@{own}", "http://[", ""]
    origins += ["http://[::1", "http://[x]:y", "//", f"chrome-extension://{own}", f"http://evil.example#{own}", "\xff"]
    for origin in origins:
        for method, path, body in (("GET", "/api/results", None), ("POST", "/api/jobs", {"analysis": "geometry"})):
            answer = server.ask(method, path, body, host=own, origin=origin)
            campaign.judge(f"foreign origins: {method} {origin!r}", answer.fault(403))
    for site in ("cross-site", "same-site", "odd"):
        answer = server.ask("GET", "/api/results", sec_fetch_site=site, sec_fetch_mode="no-cors")
        campaign.judge(f"foreign pages: {site}", answer.fault(403))
    for method in ("OPTIONS", "PUT", "PATCH", "TRACE", "DELETE", "HEAD", "GETT"):
        answer = server.ask(method, "/api/results", host=own)
        shared = "access-control-allow-origin" in {name.lower() for name in answer.headers}
        campaign.judge(f"odd methods: {method}", "it lets others in" if shared else answer.fault(400, 405))
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", ""):
        wanted = json.dumps({"analysis": "geometry", "model": server.model})
        campaign.judge(f"forms: {kind!r}", server.ask("POST", "/api/jobs", wanted, content_type=kind).fault(415, 422))


CLIMBS = (
    *("../../../secret.txt", "..%2f..%2f..%2fsecret.txt", "%2e%2e/%2e%2e/secret.txt", "....//....//secret.txt", "%00"),
    *("..%5c..%5csecret.txt", "../" * 12 + "etc/passwd", "/etc/passwd", "//etc/passwd", "%252e%252e%252fsecret.txt"),
    *("..;/..;/secret.txt", "result.json", ".", "..", "a" * 3000, "%ff%fe", "%0d%0aX-Evil:1", "~root", "x%00.csv"),
)


def ways_out(campaign: Campaign, server: Server) -> None:
    """Paths that lead out of the folders, spelled in all ways, and links."""
    (server.results / "linked").mkdir()
    (server.results / "linked" / "result.json").symlink_to(campaign.folder / "secret.txt")
    (server.results / "away").symlink_to(campaign.folder)
    save(server.results / "table", SOUND | {"tables": {"secret": {SECRET: "str"}}})
    (server.results / "table" / "secret.csv").symlink_to(campaign.folder / "secret.txt")
    # A report with links out of its folder, as a table and as an image.
    (server.results / "index.html").write_text('<body><img src="figures/secret.svg">')
    for folder, name in (("results", "secret.csv"), ("figures", "secret.svg")):
        (server.results / folder).mkdir()
        (server.results / folder / name).symlink_to(campaign.folder / "secret.txt")
    id = json.loads(server.ask("GET", "/api/results").body)[0]["id"]
    bases = ["/static/", "/api/results/", f"/api/results/{id}/tables/", f"/api/results/{id}/charts/", "/api/jobs/", "/"]
    bases += ["/report/results/", "/report/"]
    campaign.judge("ways out: links beside a report", server.ask("GET", "/report/results/secret.csv").fault(404))
    page = server.ask("GET", "/report")
    inside = "" if 'src="data:,"' in page.body else f"the image is inside: {page.body[:200]}"
    campaign.judge("ways out: an image of a report", page.fault(200) or inside)
    tries = [(base, climb, tail) for base in bases for climb in CLIMBS for tail in ("", ".csv", ".svg")]
    for base, climb, tail in campaign.random.sample(tries, campaign.count(30, len(tries))):
        answer = server.raw(f"GET {base}{climb}{tail} HTTP/1.1\r\nHost: OWN\r\nConnection: close\r\n\r\n".encode())
        split = "it splits the header" if "\nX-Evil" in answer.body.partition("\r\n\r\n")[0] else ""
        campaign.judge(f"ways out: {base}{climb[:40]}{tail}", split or answer.fault())
    (server.results / "index.html").unlink()
    for name in ("linked", "away", "table", "results", "figures"):
        path = server.results / name
        path.unlink() if path.is_symlink() else _remove(path)


def _remove(folder: Path) -> None:
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()


GET = b"GET /api/results HTTP/1.1\r\nHost: OWN\r\n"
POST = b"POST /api/jobs HTTP/1.1\r\nHost: OWN\r\n"
RAW = {
    "two lengths": POST + b"Content-Length: 2\r\nContent-Length: 40\r\n\r\n{}",
    "length and chunked": POST + b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "odd chunked": POST + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    "two hosts": b"GET /api/results HTTP/1.1\r\nHost: OWN\r\nHost: evil.example\r\n\r\n",
    "own host last": b"GET /api/results HTTP/1.1\r\nHost: evil.example\r\nHost: OWN\r\n\r\n",
    "two origins": GET + b"Origin: http://evil.example\r\nOrigin: http://OWN\r\n\r\n",
    "no host": b"GET /api/results HTTP/1.1\r\n\r\n",
    "no host in HTTP 1.0": b"GET /api/results HTTP/1.0\r\n\r\n",
    "space before a colon": b"GET /api/results HTTP/1.1\r\nHost : OWN\r\n\r\n",
    "NUL in a header": GET + b"X: a\0b\r\n\r\n",
    "length of 40 digits": POST + b"Content-Length: " + b"9" * 40 + b"\r\n\r\n",
    "negative length": POST + b"Content-Length: -1\r\n\r\n",
    "length +5": POST + b"Content-Length: +5\r\n\r\nabcde",
    "length of a lie": POST + b"Content-Length: 5\r\n\r\n" + b"x" * 500_000,
    "chunks without end": POST + b"Transfer-Encoding: chunked\r\n\r\n" + (b"40000\r\n" + b"x" * 0x40000 + b"\r\n") * 2,
    "half a body": POST + b"Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{}",
    "a header of 1 MB": GET + b"X: " + b"a" * 1_000_000 + b"\r\n\r\n",
    "an address of 1 MB": b"GET /" + b"a" * 1_000_000 + b" HTTP/1.1\r\nHost: OWN\r\n\r\n",
    "a websocket": b"GET /api/jobs HTTP/1.1\r\nHost: evil.example\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
    "HTTP 2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 300,
    "nothing": b"",
}
"""Requests that are none, all to be refused or closed."""
LENIENT = {
    "an address of another server": b"GET http://evil.example/api/results HTTP/1.1\r\nHost: OWN\r\n\r\n",
    "bare newlines": b"GET /api/results HTTP/1.1\nHost: OWN\n\n",
    "a folded header": GET + b"X: a\r\n Origin: x\r\n\r\n",
    "an odd query": b"GET /api/results?%ff=%00&task=%&&&=&;[]=%zz HTTP/1.1\r\nHost: OWN\r\n\r\n",
    "odd cookies": GET + b'Cookie: =; {"a": 1}; \xff; lamina_token="\r\n\r\n',
}
"""Requests that may be answered."""


def malformed(campaign: Campaign, server: Server) -> None:
    """What is no HTTP, lies about its length, or is noise."""
    refused = (0, 400, 403, 405, 408, 411, 413, 414, 422, 431)
    for name, data in RAW.items():
        campaign.judge(f"malformed HTTP: {name}", server.raw(data).fault(*refused))
    for name, data in LENIENT.items():
        campaign.judge(f"malformed HTTP: {name}", server.raw(data).fault())
    for number in range(campaign.count(20, 400)):
        data = bytearray(campaign.random.choice([*RAW.values(), *LENIENT.values()])[:4000])
        data[:0] = b"" if campaign.random.random() < 0.8 else campaign.random.randbytes(20)
        for _ in range(campaign.random.randrange(1, 8)):
            if data:
                data[campaign.random.randrange(len(data))] = campaign.random.randrange(256)
        campaign.judge(f"noise: {number}", server.raw(bytes(data)).fault())
    for body in ("[" * 100_000, '{"a":' * 5000 + "1" + "}" * 5000, "\xff", "9" * 10_000, '{"model": "\\ud800"}', "NaN"):
        answer = server.ask("POST", "/api/jobs", body.encode("latin-1"), content_type="application/json")
        campaign.judge(f"malformed JSON: {body[:20]!r}", answer.fault(400, 413, 422))
    for size in (300_000, 2_000_000):
        campaign.judge(f"large bodies: {size}", server.ask("POST", "/api/lens", b"x" * size).fault(0, 413))


def hostile_jobs(campaign: Campaign, server: Server) -> None:
    """Jobs that name what they may not."""
    sound = {"analysis": "geometry", "model": server.model}
    outside = f"{campaign.folder}/escaped"
    tried: list[dict[str, Any]] = [
        *({"corpus": way} for way in ("x/../../escaped", outside)),
        *({"data": way} for way in ("x/../../escaped", outside, "/etc/passwd", "--help", "a\0b", ["x"], 3, None)),
        *({"data": {"name": way}} for way in ("../../escaped", outside, {}, 3, None)),
        *({"model": way} for way in ("../../../etc", "--help", "a\0b", MARKUP, "\u202e", "x" * 900, [], {}, None)),
        *({name: outside} for name in ("out", "store", "device", "replace", "other", "__proto__", "a\0b", "")),
        *({"settings": way} for way in ({"out": outside}, {"samples": -1}, {"": 1}, [], "x", None)),
        *({"analysis": way} for way in ("report", "encode", "../x", "a\0b", "", [], None, "probe; rm -rf /")),
        {"analysis": "neighbours", "settings": {"vectors": outside}},
        {"analysis": "finetune", "corpus": "x/../../escaped", "settings": {"task": "babi"}},
    ]
    for change in tried:
        answer, started = server.job(sound | change)
        campaign.judge(f"hostile jobs: {str(change)[:60]}", answer.fault(400, 404, 413, 422))
        if started:
            server.ask("DELETE", f"/api/jobs/{started['id']}")


POISONED: dict[str, Callable[[Path], object]] = {
    "no tables": lambda _: {name: value for name, value in SOUND.items() if name != "tables"},
    "tables null": lambda _: SOUND | {"tables": None},
    "a table that climbs": lambda _: SOUND | {"tables": {"../../../../../secret": {}}},
    "a file that climbs": lambda _: SOUND | {"files": ["../../../../../secret.txt"]},
    "analysis a list": lambda _: SOUND | {"analysis": []},
    "analysis with a header": lambda _: SOUND | {"analysis": 'x"\r\nX-Evil: 1'},
    "analysis of probes": lambda _: SOUND | {"analysis": "probe", "tables": {"scores": {}}},
    "findings odd": lambda _: SOUND | {"findings": [None]},
    "provenance null": lambda _: SOUND | {"provenance": None},
    "corpus a list": lambda _: SOUND | {"provenance": SOUND["provenance"] | {"corpus": []}},
    "created a number": lambda _: SOUND | {"provenance": SOUND["provenance"] | {"created": 5}},
    "command null": lambda _: SOUND | {"provenance": SOUND["provenance"] | {"command": None}},
    "surrogate": lambda _: SOUND | {"provenance": SOUND["provenance"] | {"parameters": {"x": "\ud800"}}},
    "a pipe": lambda path: os.mkfifo(path),
    "a huge file": lambda path: path.open("wb").truncate(1 << 40),
    "deep": lambda path: path.write_text("[" * 100_000),
    "a link to nowhere": lambda path: path.symlink_to("nowhere"),
    "a link to a device": lambda path: path.symlink_to("/dev/zero"),
    "a folder": lambda path: path.mkdir(),
}
"""What a stranger's result can hold: its head, or a way to make one."""


def poisoned(campaign: Campaign, server: Server) -> None:
    """Results of strangers: one that is odd takes nothing with it, and what it names is text."""
    chart = {"mark": "point", "description": MARKUP, "data": {"url": f"file://{campaign.folder}/secret.txt"}}
    for name, make in POISONED.items():
        folder = server.results / f"odd {name}"
        folder.mkdir()
        made = make(folder / "result.json")
        if isinstance(made, dict):
            save(folder, made)
        (folder / "x.vl.json").write_text(json.dumps(chart))
        answer = server.ask("GET", "/api/results")
        campaign.judge(f"poisoned results: {name}", answer.fault(200))
        campaign.judge(f"poisoned results: {name}, named", server.ask("GET", "/api/passed-over").fault(200))
        for entry in json.loads(answer.body) if answer.status == 200 else []:
            if name in entry["name"]:
                for tail in ("", "/charts/x.svg", "/charts/x.png", "/tables/scores.csv"):
                    campaign.judge(
                        f"poisoned results: {name}{tail}",
                        server.ask("GET", f"/api/results/{entry['id']}{tail}").fault(),
                    )
    campaign.judge("poisoned results: overview", server.ask("GET", f"/api/overview/{quote(server.model)}").fault(200))
    for page in ("/", "/sentence", "/compare", "/runs", "/runs/table", "/api"):
        answer = server.ask("GET", page)
        campaign.judge(f"pages: {page}", "markup of a name" if "onerror=alert" in answer.body else answer.fault(200))


def random_requests(campaign: Campaign, server: Server) -> None:
    """Every address of the API, with fields that fit and fields that do not."""
    described = json.loads(server.ask("GET", "/api/openapi.json").body)
    results = [each["id"] for each in json.loads(server.ask("GET", "/api/results").body)]
    asked = [(path, method) for path, methods in described["paths"].items() for method in methods]
    for number in range(campaign.count(30, 1500)):
        if campaign.left() < 0:
            break
        path, method = campaign.random.choice(asked)
        where, body = _random_request(campaign, server, described, path, method, results)
        answer = server.ask(method.upper(), where, body)
        bare = answer.status and "content-security-policy" not in {name.lower() for name in answer.headers}
        fault = "no security headers" if bare else answer.fault()
        campaign.judge(f"random requests: {number} {method} {where[:60]} {str(body)[:200]}", fault)
        if answer.status == 202:
            server.ask("DELETE", f"/api/jobs/{json.loads(answer.body)['id']}")


def _random_request(
    campaign: Campaign, server: Server, described: dict[str, Any], path: str, method: str, results: list[str]
) -> tuple[str, dict[str, Any] | None]:
    draw = campaign.random
    odd: list[Any] = [
        None,
        True,
        -1,
        0,
        10**30,
        1e308,
        "",
        "x",
        MARKUP,
        "\0",
        "\u202e",
        "a" * 3000,
        [],
        {},
        [[]],
        "NaN",
    ]
    odd += ["../..", ["x"] * 500, {"a": {"b": []}}, "=1+1", "\U0001f600"]
    # In the short form nothing waits for a model.
    model = server.model if campaign.full else "nothing"
    sound = {
        "model": model,
        "other": model,
        "sentence": "Dogs bark .",
        "word": 0,
        "analysis": "geometry",
        "head": "1-1",
    }
    sound |= {"heads": ["1-1"], "question": "Who ran ?", "context": "Bob ran .", "data": {"limit": 1}, "settings": {}}
    parts = {"id": [*results, "0" * 12, "zz", "%00", "-1"], "name": ["scores", "%22", "x" * 99], "kind": ["svg", "exe"]}
    for name, values in parts.items():
        path = path.replace(f"{{{name}}}", draw.choice(values))
    if draw.random() < 0.3:
        path += "?" + draw.choice(["task=x", "task=" + "x" * 2000, "a=%ff", "&task=" * 60, "tasks[]=1", "%00=1"])
    schema = described["paths"].get(path.partition("?")[0], {}).get(method, {}).get("requestBody")
    if not schema:
        return path, None
    ref = schema["content"]["application/json"]["schema"].get("$ref", "").rpartition("/")[2]
    fields = described["components"]["schemas"].get(ref, {}).get("properties", {})
    return path, {
        name: sound.get(name, draw.choice(odd)) if draw.random() < 0.65 else draw.choice(odd)
        for name in fields
        if draw.random() < 0.9
    }


def crowds(campaign: Campaign, server: Server) -> None:
    """Many at once."""
    wanted = {"model": server.model, "sentence": "Dogs bark ."}
    with ThreadPoolExecutor(50) as pool:
        asked = [pool.submit(server.ask, "GET", "/api/results") for _ in range(campaign.count(50, 200))]
        asked += [pool.submit(server.ask, "POST", "/api/lens", wanted) for _ in range(campaign.count(0, 100))]
        for each in asked:
            campaign.judge("crowds", each.result().fault(200, 429, 503))


def queue(campaign: Campaign, server: Server) -> None:
    """More jobs than there is room for, and a job that is killed: the queue goes on."""
    wanted = {"analysis": "geometry", "model": server.model, "settings": {"samples": 10}}
    jobs = [server.job(wanted | {"data": {"limit": limit}}) for limit in range(1, 13)]
    ids = [started["id"] for _, started in jobs if started]
    flooded = "" if len(ids) == 8 else f"{len(ids)} jobs were taken"
    campaign.judge("queue: flooded", flooded or next(filter(None, (answer.fault(202, 429) for answer, _ in jobs)), ""))
    for id in ids[2:]:
        server.ask("DELETE", f"/api/jobs/{id}")
    states = {server.state(id)["state"] for id in ids[2:]}
    campaign.judge("queue: cancelled", "" if states == {"cancelled"} else str(states))
    for child in _children(server):
        child.kill()
    said = _until(lambda: server.state(ids[0]), lambda state: state["state"] not in ("queued", "running"))
    campaign.judge("queue: a killed job", "" if said["state"] == "failed" and said["message"] else str(said))
    said = _until(lambda: server.state(ids[1]), lambda state: state["state"] != "queued")
    campaign.judge("queue: the next job", "" if said["state"] in ("running", "done") else str(said))
    if campaign.full:
        said = _until(lambda: server.state(ids[1]), lambda state: state["state"] in ("done", "failed"), 120)
        campaign.judge("queue: the next job's end", "" if said["state"] == "done" else str(said))
    server.ask("DELETE", f"/api/jobs/{ids[1]}")


def tokens(campaign: Campaign, server: Server) -> None:
    """With the token, without it, and with what only looks like it."""
    wrong = [{}, {"authorization": TOKEN}, {"authorization": f"Bearer {TOKEN[:-1]}"}, {"authorization": "Bearer "}]
    wrong += [{"authorization": f"Bearer {TOKEN.upper()}"}, {"authorization": f"Basic {TOKEN}"}, {"cookie": "=;\xff"}]
    wrong += [{"cookie": f"lamina_token={TOKEN}x"}, {"cookie": 'lamina_token="'}, {"authorization": "\xff"}]
    for headers in wrong:
        for path in ("/", "/api/results", "/static/shared/base.css", f"/api/results?token={TOKEN}"):
            campaign.judge(f"without the token: {headers} {path}", server.ask("GET", path, **headers).fault(401))
    for headers in ({"authorization": f"Bearer {TOKEN}"}, {"cookie": f"a=b; lamina_token={TOKEN}"}):
        campaign.judge(f"with the token: {headers}", server.ask("GET", "/api/results", **headers).fault(200))
    for path in (
        "/",
        "//evil.example/x",
        "/\\evil.example",
        "//evil.example/%2f..",
        "/%09/evil.example",
        "http://evil/",
    ):
        answer = server.raw(f"GET {path}?token={TOKEN} HTTP/1.1\r\nHost: OWN\r\nConnection: close\r\n\r\n".encode())
        place = re.findall(r"^location: (.*)\r$", answer.body, re.MULTILINE | re.IGNORECASE)
        away = [to for to in place if not re.match(r"/(?![/\\])", to) or TOKEN in to]
        campaign.judge(f"redirects: {path}", f"it leads to {away}" if away else answer.fault(303, 400))
    shown = " ".join(psutil.Process(server.process.pid).cmdline())
    campaign.judge("the token is not in the list of processes", shown if TOKEN in shown else "")


def half_open(campaign: Campaign, server: Server) -> None:
    """Requests that do not go on: others are served, and the server ends on request."""
    body = f"POST /api/lens HTTP/1.1\r\nHost: OWN\r\nAuthorization: Bearer {TOKEN}\r\nContent-Length: 1000\r\n\r\n{{"
    kinds = [b"", b"GET / HTTP/1.1\r\nHost: x", body.encode()]
    links = [server.half(kinds[number % 3]) for number in range(campaign.count(30, 150))]
    start = time.monotonic()
    answer = server.ask("GET", "/", authorization=f"Bearer {TOKEN}")
    campaign.judge("half requests: others are served", answer.fault(200))
    campaign.note(f"beside {len(links)} half requests an answer took {time.monotonic() - start:.1f} s")
    if campaign.full:
        closed = [_closed(link, 30.0 - (time.monotonic() - start)) for link in links]
        open_still = closed.count(False)
        campaign.judge("half requests: closed in time", f"{open_still} are open" if open_still else "")
        links += [server.half(kinds[number % 3]) for number in range(30)]
    ended(campaign, server, signal.SIGTERM, job=campaign.full, authorization=f"Bearer {TOKEN}")
    for link in links:
        link.close()


def _closed(link: socket.socket, seconds: float) -> bool:
    link.settimeout(max(0.1, seconds))
    try:
        while link.recv(65536):
            pass
    except TimeoutError:
        return False
    except OSError:
        pass
    return True


def ended(campaign: Campaign, server: Server, how: signal.Signals, *, job: bool = True, **headers: str) -> None:
    """The server ends in time, and the job that it runs with it."""
    if job:
        wanted = {"analysis": "finetune", "model": server.model, "settings": {"task": "babi"}}
        answer, started = server.job(wanted, **headers)
        campaign.judge(f"{how.name}: a job starts", answer.fault(202))
        _until(lambda: server.state(started["id"], **headers), lambda state: state["state"] != "queued")
    children = _children(server)
    seconds = server.stop(how)
    campaign.judge(f"{how.name}: the server ends", f"it took {seconds:.0f} s" if seconds > 15 else "")
    _, left = psutil.wait_procs(children, timeout=20)
    alive = [child.pid for child in left if child.status() != psutil.STATUS_ZOMBIE]
    campaign.judge(
        f"{how.name}: its job ends", f"{alive} of {len(children)} run on" if alive or job > len(children) else ""
    )
    for child in left:
        child.kill()


def _children(server: Server) -> list[psutil.Process]:
    return psutil.Process(server.process.pid).children(recursive=True)


def _until(ask: Callable[[], dict[str, Any]], reached: Callable[[dict[str, Any]], bool], seconds: float = 30.0) -> Any:
    end = time.monotonic() + seconds
    while not reached(said := ask()) and time.monotonic() < end:
        time.sleep(0.05)
    return said
