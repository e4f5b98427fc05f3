"""The JSON API: one module a view, each with a router."""

from lamina.web.api import about, compare, heads, jobs, lens, questions, results

ROUTERS = tuple(each.router for each in (about, lens, heads, questions, compare, results, jobs))
