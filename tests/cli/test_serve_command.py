"""`lamina serve` as a person starts it: a real server in a process of its own."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys

import httpx
import pytest

from lamina.__main__ import main
from lamina.cli.serve import read_token, served_models
from lamina.errors import InputError

EVERYWHERE = ".".join("0000")


@pytest.fixture
def serve(tmp_path):
    """Starts the server, and gives the process and what it printed up to its address."""
    running = []

    def start(*arguments: str) -> tuple[subprocess.Popen[str], str]:
        command = [sys.executable, "-m", "lamina", "serve", "--port", "0", *arguments]
        process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        running.append(process)
        said = ""
        for line in process.stdout:
            said += line
            if line.startswith("http"):
                break
        return process, said

    yield start
    for process in running:
        process.kill()
        process.communicate()


@pytest.fixture
def refused(tmp_path, monkeypatch, capsys):
    """What `lamina serve` prints in one line when it does not start, in this process."""
    monkeypatch.chdir(tmp_path)
    # It switches progress off for its process, which is the tests' here.
    monkeypatch.setenv("LAMINA_PROGRESS", "lines")

    def tried(*arguments: str) -> str:
        monkeypatch.setattr(sys, "argv", ["lamina", "serve", *arguments])
        with pytest.raises(SystemExit, match="2"):
            main()
        errors = capsys.readouterr().err
        assert errors.startswith("lamina: ")
        assert errors.count("\n") == 1
        return errors

    return tried


def test_it_listens_on_this_machine_alone_and_stops_with_ctrl_c(serve, tmp_path):
    process, said = serve("--model", "minilm", "--model", "mpnet")
    address = re.fullmatch(r"(http://127\.0\.0\.1:\d+)/\n", said)[1]
    about = httpx.get(f"{address}/api/about", timeout=60).json()
    assert [model["name"] for model in about["models"]] == ["minilm", "mpnet"]
    assert "<h1>Overview</h1>" in httpx.get(f"{address}/", timeout=60).text
    assert (tmp_path / "results").is_dir()
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=30)
    assert "Traceback" not in errors


def test_a_series_is_served_checkpoint_by_checkpoint(tmp_path):
    for name in ("seed0-step20", "seed0-step3", "seed0", "seed1-step3", "notes"):
        (tmp_path / "grown" / name).mkdir(parents=True)
        if name != "notes":
            (tmp_path / "grown" / name / "config.json").write_text("{}")
    models, steps = served_models(["minilm", str(tmp_path / "grown")])
    names = [model.rpartition("/")[2] for model in models]
    assert names == ["minilm", "seed0-step3", "seed0-step20", "seed0", "seed1-step3"]
    assert [(place.training, place.step) for place in steps.values()] == [
        ("grown seed0", 3), ("grown seed0", 20), ("grown seed0", None), ("grown seed1", 3),
    ]  # fmt: skip


def test_series_of_one_name_in_two_places_are_two_trainings(tmp_path):
    named = [tmp_path / place / "series" for place in ("one", "other")]
    for folder in named:
        for step in (1, 2):
            (folder / f"step{step}").mkdir(parents=True)
            (folder / f"step{step}" / "config.json").write_text("{}")
    models, steps = served_models([str(folder) for folder in named])
    assert [steps[model].step for model in models] == [1, 2, 1, 2]
    assert [steps[model].training for model in models] == ["series"] * 2 + [str(named[1])] * 2


def test_a_folder_of_other_files_is_a_model_as_before(tmp_path):
    # ELMo's have no config.json.
    (tmp_path / "elmo").mkdir()
    (tmp_path / "elmo" / "options.json").write_text("{}")
    assert served_models([str(tmp_path / "elmo")]) == ((str(tmp_path / "elmo"),), {})


def test_another_address_makes_a_token_and_a_model_that_cannot_be_loaded_is_said_at_the_start(serve):
    process, said = serve("--host", EVERYWHERE, "--model", "no/where")
    assert process.stderr.readline().startswith("lamina: the model no/where cannot be loaded: ")
    assert "other machines can reach this server" in said
    port, token = re.search(r":(\d+)/\?token=(\S{32})\n", said).groups()
    about = f"http://127.0.0.1:{port}/api/about"
    assert httpx.get(about).status_code == 401
    assert httpx.get(about, headers={"authorization": f"Bearer {token}"}).json()["models"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--token", "a-long-secret"], "--token shows the token to everyone who lists processes"),
        (["a-file"], "a-file is not a folder"),
        (["--host", "203.0.113.9"], "cannot listen on 203.0.113.9"),
    ],
)
def test_what_cannot_be_is_said_in_a_line(refused, tmp_path, arguments, said):
    (tmp_path / "a-file").write_text("")
    errors = refused("--port", "0", *arguments)
    assert said in errors


@pytest.mark.parametrize(
    ("variable", "file", "said"),
    [
        ("short", None, "easily guessed"),
        ("", None, "easily guessed"),
        ("a long secret", None, "headers and cookies can hold"),
        ("x" * 201, None, "at most 200"),
        (None, b"short\n", "easily guessed"),
        (None, b"\xff" * 20, "cannot be read: not text"),
    ],
)
def test_a_token_that_will_not_do_is_refused(monkeypatch, tmp_path, variable, file, said):
    if variable is not None:
        monkeypatch.setenv("LAMINA_TOKEN", variable)
    if file is not None:
        (tmp_path / "token").write_bytes(file)
    with pytest.raises(InputError, match=said):
        read_token(None if file is None else tmp_path / "token")


def test_a_token_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(InputError, match="nowhere cannot be read: No such file"):
        read_token(tmp_path / "nowhere")


def test_a_token_comes_from_the_environment_or_a_file_and_is_not_passed_on(monkeypatch, tmp_path):
    assert read_token(None) is None
    monkeypatch.setenv("LAMINA_TOKEN", "correct-horse")
    assert read_token(None) == "correct-horse"
    assert "LAMINA_TOKEN" not in os.environ
    (tmp_path / "token").write_text("battery-staple\nsomething else\n")
    monkeypatch.setenv("LAMINA_TOKEN", "correct-horse")
    assert read_token(tmp_path / "token") == "battery-staple"
    assert "LAMINA_TOKEN" not in os.environ


def test_a_port_that_is_taken_is_named(refused):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        errors = refused("--port", port)
    assert f"port {port}" in errors
    assert "another --port" in errors
