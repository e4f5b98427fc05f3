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
    lens,
    overview,
    questions,
    results,
)

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
