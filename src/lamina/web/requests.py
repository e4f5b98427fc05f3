"""Job requests: checked against their analysis and against what the server was started with."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lamina.errors import InputError

if TYPE_CHECKING:
    from lamina.framework.declare import Analysis
    from lamina.framework.inputs import Input
    from lamina.framework.requests import Request
    from lamina.framework.settings import DeclaredSetting
    from lamina.web.state import AppState

TABLES = "tables"
"""Where tables from pages are kept, in the first result folder."""
STORIES = "stories"
"""Questions that are always available: lamina generates them."""
_LONGEST = 40
"""Most characters of one input in a folder's name."""
_KEY = 8
"""Characters of the key in a folder's name."""


class UnfitRequestError(InputError):
    """A request that does not fit its analysis."""


def tables_of(app: AppState) -> dict[str, Path]:
    """Name -> file of the tables that pages were given."""
    if not app.settings.folders:
        return {}
    folder = app.settings.folders[0] / TABLES
    if folder.is_symlink() or not folder.is_dir():
        return {}
    return {path.name: path for path in sorted(folder.iterdir()) if path.is_file() and not path.is_symlink()}


def is_job(analysis: Analysis) -> bool:
    """Whether the app can compute it in the background: it reads models and texts, questions or a suite."""
    kinds = [given.kind for given in analysis.reads.given]
    return "model" in kinds and "other" not in kinds and any(kind != "model" for kind in kinds)


def allowed_data(app: AppState, given: Input) -> tuple[str, ...]:
    """What a job may read: suites by name, where this machine has them, and nothing by a path of the request's own."""
    from lamina import assets

    corpora = app.settings.corpora
    if given.kind == "suite":
        # What is not in the catalogue is made of other data.
        there, known = _suites(), assets.cards()
        return tuple(name for name in given.named if name in there or name not in known)
    return tuple(dict.fromkeys([STORIES, *corpora])) if given.kind == "questions" else corpora


def _suites() -> list[str]:
    """The test suites of the catalogue that this machine has."""
    from lamina import assets

    return [card.name for card in assets.cards().values() if card.kind == "suite" and assets.local_folder(card.name)]


def default_data(app: AppState, given: Input) -> str:
    """The analysis's own default if the server has it, otherwise the server's first."""
    allowed = allowed_data(app, given)
    return given.default if given.default in allowed or not allowed else allowed[0]


def job_request(app: AppState, table: Mapping[str, Any]) -> Request:
    """The request that a job runs: checked, allowed, and with its own result folder."""
    from lamina.framework.requests import read_request

    if not app.settings.folders:
        raise InputError("there is no folder to write to; start the server with one: lamina serve results")
    analysis = _startable(app, str(table.get("analysis", "")))
    inputs = {given.name: given for given in analysis.reads.given}
    unknown = [name for name in table if name not in ("analysis", "settings", *inputs)]
    if unknown:
        raise UnfitRequestError(
            f"{analysis.name}: a request has no {unknown[0]!r}; it has {', '.join(('analysis', *inputs))} and settings"
        )
    data = {given.name: default_data(app, given) for given in inputs.values() if given.kind != "model"}
    named = {name: {"name": data[name], **table[name]} for name in data if isinstance(table.get(name), Mapping)}
    try:
        request = read_request({**data, **table, **named})
    except InputError as error:
        raise UnfitRequestError(str(error)) from None
    if any(inputs[name].kind == "model" and not isinstance(given, str) for name, given in request.inputs.items()):
        raise UnfitRequestError(f"{analysis.name}: pages ask about one model at a time; name one")
    request = dataclasses.replace(request, options=_with_model_options(app, request))
    out = _folder(app.settings.folders[0], request)
    declared = {**analysis.settings, **{option.name: option for option in analysis.options}}
    settings, options = (
        {name: _without_files(app, analysis, declared[name], value) for name, value in given.items()}
        for given in (request.settings, request.options)
    )
    sources = {name: _source(app, inputs[name], given) for name, given in request.inputs.items()}
    _refuse_unfit(app, request)
    checked = {"inputs": sources, "options": options, "settings": settings}
    return dataclasses.replace(request, **checked, out=out, device=app.settings.device)


def _startable(app: AppState, name: str) -> Analysis:
    startable = {analysis.name: analysis for analysis in app.analyses if is_job(analysis)}
    if name not in startable:
        raise UnfitRequestError(f"{name!r} cannot be computed here; there are: {', '.join(startable)}")
    return startable[name]


def _source(app: AppState, given: Input, name: str) -> str:
    """What a job loads for an input; an error if the server was not started with it."""
    if given.kind == "model":
        return app.models.source(name)
    if given.kind == "texts" and name in (tables := tables_of(app)):
        return str(tables[name])
    allowed = allowed_data(app, given)
    if name not in allowed and given.kind == "suite":
        get = f"this machine has none: `lamina assets get {given.named[0]}`"
        there = f"there are: {', '.join(allowed)}" if allowed else get
        raise InputError(f"the suite {name!r} cannot be read here, where suites are given by name; {there}")
    if name not in allowed:
        raise InputError(
            f"the data {name!r} were not named when this server was started; there are: {', '.join(allowed)}. Start it "
            "again with --corpus for others"
        )
    return name


def _refuse_unfit(app: AppState, request: Request) -> None:
    """An error if a model's passport refuses what the analysis needs; the models of several seeds say so themselves."""
    from lamina.framework.passports import needs_of

    models = [given.name for given in request.analysis.reads.given if given.kind == "model"]
    for name in models:
        if request.inputs[name] in app.models.names():
            app.examined(request.inputs[name]).passport.refuse(needs_of(request.analysis, request.settings))


def _with_model_options(app: AppState, request: Request) -> Mapping[str, Any]:
    """The data options; models are loaded with the server's settings, unless the request says otherwise."""
    usual = {option.name: option.default for option in request.analysis.options}
    server_options = {name: getattr(app.settings, name) for name in ("dtype", "chat") if name in usual}
    return {name: value for name, value in server_options.items() if value != usual[name]} | dict(request.options)


def _without_files(app: AppState, analysis: Analysis, declared: DeclaredSetting, value: Any) -> Any:
    """What can name files, may here name models and data of this server, test suites, and its own default."""
    if declared.about.writes and value is not None:
        raise UnfitRequestError(
            f"{analysis.name}: {declared.name} writes files, which pages cannot; use the command line"
        )
    if not declared.about.file or value is None:
        return value
    usual = declared.default if isinstance(declared.default, list | tuple) else [declared.default]
    named = value if declared.many else [value]
    models, others = app.models.names(), (*usual, *app.settings.corpora, *_suites())
    unknown = [name for name in named if name not in (*models, *others)]
    if unknown:
        known = ", ".join(dict.fromkeys([*models, *app.settings.corpora, *_suites()]))
        raise UnfitRequestError(f"{analysis.name}: {declared.name} cannot name {unknown[0]!r} here; there are: {known}")
    sources = [app.models.source(name) if name in models and name not in usual else name for name in named]
    return sources if declared.many else sources[0]


def _folder(root: Path, request: Request) -> Path:
    """The same folder for the same request, always inside the root."""
    from lamina.framework.run import safe_name

    # Of the whole request: models of the same name in different places have different folders.
    key = hashlib.sha256(json.dumps(request.table(), sort_keys=True).encode()).hexdigest()[:_KEY]
    names = [safe_name(Path(name).name)[:_LONGEST] for name in (request.analysis.name, *request.inputs.values())]
    folder = root / "-".join([*filter(None, names), key])
    if Path(os.path.realpath(folder)).parent != Path(os.path.realpath(root)):
        raise InputError(f"{folder} leads out of {root}; remove the link")
    return folder
