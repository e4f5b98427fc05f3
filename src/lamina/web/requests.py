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
    from lamina.analyses.declaration import Analysis
    from lamina.analyses.inputs import Input, Kind
    from lamina.analyses.requests import Request
    from lamina.web.app_state import AppState

STORIES = "stories"
"""Questions that are always available: lamina generates them."""
_LONGEST = 40
"""Most characters of one input in a folder's name."""
_KEY = 8
"""Characters of the key in a folder's name."""


class UnfitRequestError(InputError):
    """A request that does not fit its analysis."""


def is_job(analysis: Analysis) -> bool:
    """Whether the app can compute it in the background: it reads models and texts or questions, nothing else."""
    kinds = [each.kind for each in analysis.reads.given]
    return "model" in kinds and "other" not in kinds and any(kind != "model" for kind in kinds)


def allowed_data(app: AppState, kind: Kind) -> tuple[str, ...]:
    """What a job may read."""
    own = app.settings.corpora
    return tuple(dict.fromkeys([STORIES, *own])) if kind == "questions" else own


def default_data(app: AppState, given: Input) -> str:
    """The analysis's own default if the server has it, otherwise the server's first."""
    allowed = allowed_data(app, given.kind)
    return given.default if given.default in allowed else allowed[0]


def job_request(app: AppState, table: Mapping[str, Any]) -> Request:
    """The request that a job runs: checked, allowed, and with its own result folder."""
    from lamina.analyses.requests import read_request

    if not app.settings.folders:
        raise InputError("there is no folder to write to; start the server with one: lamina serve results")
    analysis = _startable(app, str(table.get("analysis", "")))
    inputs = {each.name: each for each in analysis.reads.given}
    unknown = [name for name in table if name not in ("analysis", "settings", *inputs)]
    if unknown:
        raise UnfitRequestError(
            f"{analysis.name}: a request has no {unknown[0]!r}; it has {', '.join(('analysis', *inputs))} and settings"
        )
    data = {each.name: default_data(app, each) for each in inputs.values() if each.kind != "model"}
    named = {name: {"name": data[name], **table[name]} for name in data if isinstance(table.get(name), Mapping)}
    try:
        request = read_request({**data, **table, **named})
    except InputError as error:
        raise UnfitRequestError(str(error)) from None
    request = dataclasses.replace(request, options=_with_model_options(app, request))
    out = _folder(app.settings.folders[0], request)
    settings = {name: _without_files(app, analysis, name, value) for name, value in request.settings.items()}
    sources = {name: _source(app, inputs[name], given) for name, given in request.inputs.items()}
    _refuse_unfit(app, request)
    return dataclasses.replace(request, inputs=sources, settings=settings, out=out, device=app.settings.device)


def _startable(app: AppState, name: str) -> Analysis:
    found = {each.name: each for each in app.analyses if is_job(each)}
    if name not in found:
        raise UnfitRequestError(f"{name!r} cannot be computed here; there are: {', '.join(found)}")
    return found[name]


def _source(app: AppState, given: Input, name: str) -> str:
    """What a job loads for an input; an error if the server was not started with it."""
    if given.kind == "model":
        return app.models.source(name)
    allowed = allowed_data(app, given.kind)
    if name not in allowed:
        raise InputError(
            f"the data {name!r} were not named when this server was started; there are: {', '.join(allowed)}. Start it "
            "again with --corpus for others"
        )
    return name


def _refuse_unfit(app: AppState, request: Request) -> None:
    """An error if a model's passport refuses what the analysis needs; the models of several seeds say so themselves."""
    from lamina.analyses.passports import needs_of
    from lamina.encoders.passports import refuse_needs

    models = [each.name for each in request.analysis.reads.given if each.kind == "model"]
    for name in models:
        if request.inputs[name] in app.models.names():
            refuse_needs(app.examined(request.inputs[name]).passport, needs_of(request.analysis, request.settings))


def _with_model_options(app: AppState, request: Request) -> Mapping[str, Any]:
    """The data options; models are loaded as the server was told when started, unless the request says otherwise."""
    usual = {each.name: each.default for each in request.analysis.options}
    own = {name: getattr(app.settings, name) for name in ("dtype", "chat") if name in usual}
    return {name: value for name, value in own.items() if value != usual[name]} | dict(request.options)


def _without_files(app: AppState, analysis: Analysis, name: str, value: Any) -> Any:
    """In a setting that can name files, only models of this server and the setting's default are allowed."""
    declared = analysis.settings[name]
    if not declared.about.file or value is None:
        return value
    usual = declared.default if isinstance(declared.default, list | tuple) else [declared.default]
    named = value if declared.many else [value]
    unknown = [each for each in named if each not in (*app.models.names(), *usual)]
    if unknown:
        raise UnfitRequestError(
            f"{analysis.name}: {name} cannot name {unknown[0]!r} here; there are: {', '.join(app.models.names())}"
        )
    sources = [each if each in usual else app.models.source(each) for each in named]
    return sources if declared.many else sources[0]


def _folder(root: Path, request: Request) -> Path:
    """The same folder for the same request, always inside the root."""
    from lamina.analyses.cache import safe_name

    # Of the whole request: models of the same name in different places have different folders.
    key = hashlib.sha256(json.dumps(request.table(), sort_keys=True).encode()).hexdigest()[:_KEY]
    names = [safe_name(Path(name).name)[:_LONGEST] for name in (request.analysis.name, *request.inputs.values())]
    folder = root / "-".join([*filter(None, names), key])
    if Path(os.path.realpath(folder)).parent != Path(os.path.realpath(root)):
        raise InputError(f"{folder} leads out of {root}; remove the link")
    return folder
