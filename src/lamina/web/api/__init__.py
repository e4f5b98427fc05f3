"""The JSON API: one module per view, each with a router."""

from lamina.web.api import (
    about,
    behaviour,
    compare,
    heads,
    jobs,
    overview,
    questions,
    results,
    search,
    sentence,
)

ROUTERS = (
    about.router,
    overview.router,
    jobs.analyses_router,
    sentence.router,
    heads.router,
    heads.examples_router,
    questions.router,
    behaviour.router,
    sentence.interventions_router,
    compare.router,
    results.router,
    search.router,
    jobs.router,
    jobs.tables_router,
)
