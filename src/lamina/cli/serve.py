"""`lamina serve`: the web app, on this machine."""

from __future__ import annotations

import os
import secrets
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lamina.cli import options
from lamina.errors import InputError
from lamina.progress import VARIABLE
from lamina.result_index import usual_folders

if TYPE_CHECKING:
    from lamina.web.settings import Settings


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
        typer.Option("--model", help="A model to serve; repeat for several. minilm by default."),
    ] = None,
    corpus: Annotated[
        list[str] | None,
        typer.Option("--corpus", help="A corpus for computations; repeat for several. ewt by default."),
    ] = None,
    host: Annotated[
        str, typer.Option("--host", help="Address to listen on; any address but loopback needs a token.")
    ] = ("127.0.0.1"),
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="Port; 0 picks a free one.")] = 8600,
    token: Annotated[
        str | None, typer.Option("--token", help="Token that every request needs; generated if needed.")
    ] = None,
    device: options.DeviceOption = None,
) -> None:
    """Look inside a model in the browser: sentences, heads, questions, layers and saved results.

    Listens on this machine only, unless you set `--host`; then every request needs the token, which is generated and
    printed if you give none. Only the result folders are read, and only the models you name (and fine-tuned ones in
    the result folders) are loaded. Stop it with Ctrl-C.

    Example: `lamina serve report --model minilm`
    """
    # Read when torch is loaded: each request has its own threads, and threads that spin while they wait would make
    # every answer several times slower on a busy machine.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    # Steps of single requests are nobody's to watch here; computations in the background tell theirs on the pages.
    os.environ.setdefault(VARIABLE, "none")
    folders = _folders(results)
    if not folders[0].exists():
        folders[0].mkdir(parents=True)
    if token is not None and len(token) < 8:
        raise InputError(
            "a token of fewer than 8 characters is easily guessed; give a longer one, or none to generate one"
        )
    with _listening(host, port) as listener:
        from lamina.web.settings import Settings, is_loopback

        if token is None and not is_loopback(host):
            token = secrets.token_urlsafe(24)
        settings = Settings(
            models=tuple(dict.fromkeys(model or ["minilm"])),
            folders=folders,
            corpora=tuple(dict.fromkeys(corpus or ["ewt"])),
            host=host,
            port=listener.getsockname()[1],
            token=token,
            device=device,
        )
        _run(settings, listener)


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


def _run(settings: Settings, listener: socket.socket) -> None:
    import uvicorn

    from lamina.web import create_app

    config = uvicorn.Config(create_app(settings), log_level="warning", server_header=False, date_header=False)
    _tell(settings)
    uvicorn.Server(config).run(sockets=[listener])


def _tell(settings: Settings) -> None:
    from lamina.web.settings import is_loopback

    host, token = settings.host, settings.token
    if not is_loopback(host):
        print(f"Listening on {host}: other machines can reach this server. Every request needs the token.", flush=True)
    shown = f"[{host}]" if ":" in host else host
    print(f"http://{shown}:{settings.port}/" + (f"?token={token}" if token else ""), flush=True)
