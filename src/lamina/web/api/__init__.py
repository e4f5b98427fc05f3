"""The JSON API: one module per view, each with a router."""

from lamina.web.api import (
    about,
    analyses,
    behaviour,
    compare,
    head_examples,
    heads,
    interventions,
    jobs,
    overview,
    questions,
    results,
)
from lamina.web.api import sentence as lens

ROUTERS = tuple(
    each.router
    for each in (
        about,
        overview,
        analyses,
        lens,
        heads,
        head_examples,
        questions,
        behaviour,
        interventions,
        compare,
        results,
        jobs,
    )
)
