"""The pages: one a view, filled by scripts from the API; everything they need comes from this server."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Literal, NamedTuple

from fastapi import FastAPI, Request
from starlette.responses import HTMLResponse, Response
from starlette.staticfiles import StaticFiles

from lamina.figures import chart_script


class View(NamedTuple):
    """One page."""

    name: str
    """Of its template and script."""
    path: str
    title: str
    about: str
    """What one sees there, in a sentence."""
    asks: Literal["sentence", "model", "nothing"]
    """What the head of the page asks for; a sentence is asked for with a model."""


VIEWS = (
    View("lens", "/", "Sentence lens", "What each layer makes of every word of a sentence.", "sentence"),
    View("heads", "/heads", "Heads", "Where every attention head looks, and what it is good at.", "sentence"),
    View("questions", "/questions", "Questions", "How a model comes to its answer, layer by layer.", "model"),
    View("layers", "/layers", "Layers", "What was measured: at which layer each ability lives.", "nothing"),
    View("compare", "/compare", "Compare", "Two models side by side, and where they differ.", "sentence"),
    View("results", "/results", "Results", "What was run, where it came from, and how to run it again.", "model"),
)


def add_to(app: FastAPI) -> None:
    """Put the pages, their scripts and the description of the API on the application."""
    for view in VIEWS:
        app.add_api_route(view.path, _page(view), include_in_schema=False, response_class=HTMLResponse)
    app.add_api_route("/api", _api_page, include_in_schema=False, response_class=HTMLResponse)
    app.add_api_route("/static/vega.js", _vega, include_in_schema=False)
    app.mount("/static", StaticFiles(directory=str(files("lamina.web").joinpath("static"))))


def _page(view: View):
    def page() -> HTMLResponse:
        return HTMLResponse(_templates().get_template(f"{view.name}.html").render(view=view, views=VIEWS))

    return page


def _api_page(request: Request) -> HTMLResponse:
    described = request.app.openapi()
    view = View("api", "/api", "The API", "What programs can ask this server.", "nothing")
    return HTMLResponse(_templates().get_template("api.html").render(view=view, views=VIEWS, api=described))


def _vega() -> Response:
    return Response(chart_script(), media_type="text/javascript", headers={"cache-control": "max-age=86400"})


@cache
def _templates():
    from jinja2 import Environment, PackageLoader, StrictUndefined

    return Environment(
        loader=PackageLoader("lamina", "web/templates"), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
