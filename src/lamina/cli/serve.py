"""`lamina serve`: the web app, on this machine."""

from __future__ import annotations

import os
import re
import secrets
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lamina import progress
from lamina.cli import terminal
from lamina.errors import InputError
from lamina.extras import EXTRAS, require_package
from lamina.results.index import usual_folders

if TYPE_CHECKING:
    from lamina.web.state import ServerSettings, TrainingStep

VARIABLE = "LAMINA_TOKEN"
"""Environment variable: the token that every request needs."""
_SHORTEST_TOKEN, _LONGEST_TOKEN = 8, 200


def serve(
    results: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[RESULTS_DIR]...",
            help="Folders with results; ./results and ./report by default. New results go into the first.",
        ),
    ] = None,
    model: Annotated[
        list[str] | None,
        typer.Option(
            "--model",
            help="A model to serve; repeat for several. Of a series (a folder of checkpoints, or NAME@step1,step8) "
            "every checkpoint, with a slider over its steps. minilm by default.",
        ),
    ] = None,
    corpus: Annotated[
        list[str] | None,
        typer.Option("--corpus", help="A corpus for computations; repeat for several. ewt by default."),
    ] = None,
    host: Annotated[
        str, typer.Option("--host", help="Address to listen on; any address but loopback needs a token.")
    ] = ("127.0.0.1"),
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="Port; 0 picks a free one.")] = 8600,
    token_file: Annotated[
        Path | None,
        typer.Option(
            "--token-file",
            help="File with the token that every request needs; LAMINA_TOKEN by default, generated if needed.",
        ),
    ] = None,
    token: Annotated[str | None, typer.Option("--token", hidden=True)] = None,
    estimates: Annotated[
        bool,
        typer.Option("--estimates/--no-estimates", help="Run short trials to say how long a computation would take."),
    ] = True,
    deadline: Annotated[
        float,
        typer.Option("--deadline", min=1, metavar="SECONDS", help="Maximum time that a model may take for one answer."),
    ] = 60.0,
    device: terminal.DeviceOption = None,
    dtype: terminal.PrecisionOption = "float32",
    chat: terminal.ChatOption = False,
) -> None:
    """Look inside a model in the browser: its overview, sentences, heads, comparisons and saved runs.

    Listens on this machine only, unless you set `--host`; then every request needs the token, which is generated and
    printed if you give none. On a machine with other users give one too, since any of them can reach the server. Only
    the result folders are read, and only the models you name are loaded; fine-tuned ones in the result folders once you
    confirm them on the page. Every model runs in a process of its own. Stop the server with Ctrl-C.

    Example: `lamina serve report --model minilm`, `lamina serve results --model runs/series`
    """
    # Read when torch is loaded: each request has its own threads, and threads that spin while they wait would make
    # every answer several times slower on a busy machine.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    # Requests show no progress; background jobs report theirs on the page.
    os.environ.setdefault(progress.VARIABLE, "none")
    folders = _folders(results)
    if not folders[0].exists():
        folders[0].mkdir(parents=True)
    if token is not None:
        raise InputError(
            "--token shows the token to everyone who lists processes; write it to a file for --token-file, or set "
            f"{VARIABLE}"
        )
    for package in EXTRAS["app"]:
        require_package(package, "lamina serve is a web app")
    secret = read_token(token_file)
    with _listening(host, port) as listener:
        from lamina.web.state import Limits, ServerSettings, is_loopback

        models, steps = served_models(model or ["minilm"])
        if secret is None and not is_loopback(host):
            secret = secrets.token_urlsafe(24)
        settings = ServerSettings(
            models=models,
            steps=steps,
            folders=folders,
            corpora=tuple(dict.fromkeys(corpus or ["ewt"])),
            host=host,
            port=listener.getsockname()[1],
            token=secret,
            device=device,
            dtype=dtype,
            chat=chat,
            estimates=estimates,
            limits=Limits(answer_seconds=deadline),
        )
        _run(settings, listener)


def read_token(file: Path | None) -> str | None:
    """The token that was given; None for none."""
    # Not for the processes that this one starts.
    token = os.environ.pop(VARIABLE, None)
    if file is not None:
        try:
            with file.open(encoding="utf-8") as content:
                token = content.readline(_LONGEST_TOKEN + 1).strip()
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"{file} cannot be read: {getattr(error, 'strerror', None) or 'not text'}") from None
    if token is None:
        return None
    if len(token) < _SHORTEST_TOKEN:
        raise InputError(
            f"a token of fewer than {_SHORTEST_TOKEN} characters is easily guessed; give a longer one, or none to have "
            "one generated"
        )
    if len(token) > _LONGEST_TOKEN or not re.fullmatch(r"[A-Za-z0-9._~+/=-]+", token):
        raise InputError(
            f"a token has at most {_LONGEST_TOKEN} letters, digits and . _ ~ + / = -, as headers and cookies can hold; "
            "give another one, or none to have one generated"
        )
    return token


def served_models(named: Sequence[str]) -> tuple[tuple[str, ...], dict[str, TrainingStep]]:
    """The models that were named, checkpoints in place of each series, and where these are in their training.

    Example:
        >>> models, steps = served_models(["minilm", "owner/pythia@step8,step1"])
        >>> models, steps["owner/pythia@step8"].step
        (('minilm', 'owner/pythia@step1', 'owner/pythia@step8'), 8)
    """
    from lamina.web.state import TrainingStep

    models: dict[str, None] = {}
    folders: dict[str, Path] = {}
    steps: dict[str, TrainingStep] = {}
    for name in named:
        folder = Path(name).expanduser()
        if not _is_series(name, folder):
            models[name] = None
            continue
        # Loaded here: it takes torch along.
        from lamina.models.series import checkpoints_of

        series = name.partition("@")[0]
        if folder.is_dir():
            path = folder.resolve()
            # Folders of one name are several trainings.
            series = path.name if folders.setdefault(path.name, path) == path else str(path)
        for checkpoint in sorted(checkpoints_of(name), key=lambda one: (one.path, one.step is None, one.step or 0)):
            models[checkpoint.source] = None
            training = f"{series} {checkpoint.path}".strip()
            steps[checkpoint.source] = TrainingStep(training, checkpoint.step)
    return tuple(models), steps


def _is_series(name: str, folder: Path) -> bool:
    """Whether a name is that of several checkpoints: revisions, or a folder that is not a model and holds some."""
    if not folder.is_dir():
        return "@" in name and "," in name
    if (folder / "config.json").is_file():
        return False
    return sum((below / "config.json").is_file() for below in folder.iterdir() if below.is_dir()) > 1


def _folders(named: list[Path] | None) -> tuple[Path, ...]:
    if named:
        for folder in named:
            if folder.exists() and not folder.is_dir():
                raise InputError(f"{folder} is not a folder; give folders with results")
        return tuple(named)
    return usual_folders()


def _listening(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        # From now on connections queue; otherwise a client faster than the server's start would be refused.
        listener.listen()
    except OSError as error:
        listener.close()
        raise InputError(
            f"cannot listen on {host} port {port}: {os.strerror(error.errno or 0)}; try another --port, or --port 0"
        ) from None
    return listener


def _run(settings: ServerSettings, listener: socket.socket) -> None:
    from lamina.web.app import run

    _tell(settings)
    run(settings, listener)


def _tell(settings: ServerSettings) -> None:
    from lamina.web.state import is_loopback

    host, token = settings.host, settings.token
    if not is_loopback(host):
        print(f"Listening on {host}: other machines can reach this server. Every request needs the token.", flush=True)
    address = f"[{host}]" if ":" in host else host
    print(f"http://{address}:{settings.port}/" + (f"?token={token}" if token else ""), flush=True)
