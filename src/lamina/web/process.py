"""The process of one model, or of charts: reads requests from its standard input, answers each with a line of JSON."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import signal
import traceback
from base64 import b64encode
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from lamina import lifeline
from lamina.errors import LaminaError
from lamina.web.workers import ENDPOINTS, ERROR, MARGIN, SHAPE, ChartImage

if TYPE_CHECKING:
    from lamina.web.models import Models
    from lamina.web.state import AppState


def main() -> None:
    """Serve one model, or draw charts, until the standard input ends."""
    # Ctrl-C in a terminal goes to every process; the server ends this one.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    lifeline.follow_starter()
    requests, answers = _private_pipes()
    app = None
    for line in requests:
        message = json.loads(line)
        try:
            with self_ending(float(message.pop("seconds"))):
                if "charts" in message:
                    answer = _ready_to_draw()
                elif "draw" in message:
                    answer = _drawn(message["draw"], message["spec"])
                elif app is None:
                    app = load_state(message)
                    answer = b"{}"
                elif "examine" in message:
                    answer = _examined(app.models, message["examine"])
                else:
                    answer = ENDPOINTS[message["call"]].run(app, message["body"])
        except LaminaError as error:
            answer = ERROR + json.dumps({"kind": type(error).__name__, "message": str(error)}).encode()
        except Exception as error:
            traceback.print_exc()
            answer = _failure(error)
        except BaseException as error:
            # The panic of a library in Rust: its state is unknown.
            answers.write(ERROR + _failure(error) + b"\n")
            answers.flush()
            os._exit(1)
        answers.write(answer + b"\n")
        answers.flush()


def _failure(error: BaseException) -> bytes:
    reason = str(error).strip().splitlines()[:1]
    message = f"the model's files or its libraries fail on this ({type(error).__name__}: {' '.join(reason)[:300]})"
    return ERROR + json.dumps({"kind": "ModelError", "message": message}).encode()


def _private_pipes() -> tuple[BinaryIO, BinaryIO]:
    """Standard input and output for messages alone: what libraries print goes to the standard error."""
    requests, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    return requests, answers


@contextlib.contextmanager
def self_ending(seconds: float) -> Iterator[None]:
    """The system ends this process after its time, even without a server and while a library holds the interpreter."""
    if not hasattr(signal, "setitimer"):
        yield
        return
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, seconds + MARGIN)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


_SCALE = 2
"""Pixels of a PNG per pixel of the chart."""


def _ready_to_draw() -> bytes:
    """Load what draws, so that the time of a chart is its own."""
    import vl_convert

    from lamina.figures import to_svg  # noqa: F401 - loaded for later

    vl_convert.vegalite_to_svg({"mark": "point", "data": {"values": []}})
    return b"{}"


def _drawn(kind: ChartImage, spec: dict[str, Any]) -> bytes:
    """An image of a chart; nothing is loaded for it."""
    import vl_convert

    from lamina.figures import to_svg

    if kind == "svg":
        image = to_svg(spec).encode()
    elif kind == "png":
        image = vl_convert.vegalite_to_png(spec, scale=_SCALE, allowed_base_urls=[])
    else:
        image = vl_convert.vegalite_to_pdf(spec, allowed_base_urls=[])
    return json.dumps({"image": b64encode(image).decode()}).encode()


def load_state(start: Mapping[str, Any]) -> AppState:
    """The state that endpoints take, with this one model in it."""
    from lamina.results.index import ResultIndex
    from lamina.web.models import LoadedModels, load_model
    from lamina.web.state import AppState, Limits, ServerSettings

    settings = ServerSettings(
        models=(start["name"],),
        folders=tuple(map(Path, start["folders"])),
        corpora=tuple(start["corpora"]),
        device=start["device"],
        dtype=start["dtype"],
        chat=start["chat"],
        limits=Limits(**start["limits"]),
    )
    load = functools.partial(load_model, device=settings.device, dtype=settings.dtype, chat=settings.chat)
    # The model, and its random twin.
    models = LoadedModels(lambda: {start["name"]: start["source"]}, most=2, load=load)
    models.examined(start["name"])
    return AppState.of(settings, models, ResultIndex(settings.folders))


def _examined(models: Models, name: str) -> bytes:
    """The verdict on a model, its shape and its fingerprint; `examined_in` reads them."""
    examined = models.examined(name)
    shape = {part: getattr(examined, part) for part in SHAPE}
    about = {"passport": examined.passport.describe(), "fingerprint": models.fingerprint(name), **shape}
    return json.dumps(about).encode()
