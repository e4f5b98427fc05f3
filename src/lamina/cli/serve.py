"""`lamina serve`: the web app, on this machine."""

from __future__ import annotations

import os
import secrets
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lamina.cli.options import DeviceOption
from lamina.errors import InputError

if TYPE_CHECKING:
    from lamina.web.settings import Settings


def serve(
    results: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[RESULTS_DIR]...",
            help="Folders with results; ./results and ./report where not given. New results go into the first.",
        ),
    ] = None,
    model: Annotated[
        list[str] | None,
        typer.Option("--model", help="A model that may be looked into; repeat for several. minilm where not given."),
    ] = None,
    corpus: Annotated[
        list[str] | None,
        typer.Option("--corpus", help="A corpus that may be computed on; repeat for several. ewt where not given."),
    ] = None,
    host: Annotated[
        str, typer.Option("--host", help="The address to listen at; others than loopback need a token.")
    ] = ("127.0.0.1"),
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="The port; 0 takes a free one.")] = 8600,
    token: Annotated[
        str | None, typer.Option("--token", help="What every visitor has to know; made where it is needed.")
    ] = None,
    device: DeviceOption = None,
) -> None:
    """Look inside a model in the browser: sentences, heads, questions, layers, with saved results beside them.

    Listens on this machine only, unless `--host` says otherwise; then every request needs the token, which is made
    and printed if you give none. Nothing outside the result folders is read, and no model but those named (and
    fine-tuned ones in the result folders) is loaded. Stop it with Ctrl-C.

    Example: `lamina serve report --model minilm`
    """
    # Read when torch is loaded: each request has threads of its own, and those that spin while they wait would make
    # every answer several times slower on a busy machine.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    folders = _folders(results)
    if not folders[0].exists():
        folders[0].mkdir(parents=True)
    if token is not None and len(token) < 8:
        raise InputError(
            "a token of fewer than 8 characters is easily guessed; give a longer one, or none to have one made"
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
                raise InputError(f"{folder} is not a folder; name folders with results")
        return tuple(named)
    usual = [Path("results"), Path("report")]
    return tuple(folder for folder in usual if folder.is_dir()) or (usual[0],)


def _listening(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        # From now on visitors wait in line; without it, whoever is faster than the server would be turned away.
        listener.listen()
    except OSError as error:
        listener.close()
        raise InputError(
            f"cannot listen at {host} port {port}: {os.strerror(error.errno or 0)}; try another --port, or --port 0"
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
        print(f"Listening at {host}: other machines can reach this server. Every request needs the token.", flush=True)
    shown = f"[{host}]" if ":" in host else host
    print(f"http://{shown}:{settings.port}/" + (f"?token={token}" if token else ""), flush=True)
