"""Edge probing drawn: the figures of the pipeline paper, and the curves with all that a score is compared with."""

from __future__ import annotations

import altair as alt

from lamina.figures.curves import curves
from lamina.figures.pipeline import order, pipeline
from lamina.figures.theme import themed
from lamina.figures.traces import traces
from lamina.figures.weights import weights
from lamina.results import Result


def draw(result: Result) -> dict[str, alt.TopLevelMixin]:
    """The charts `pipeline`, `weights`, `curves`, `order` and `traces`: those that the probes of the run allow."""
    corpus = result.provenance.corpus
    split = f" ({corpus['split']})" if corpus.get("split") else ""
    title = f"{result.provenance.model['name']} on {corpus['name']}{split}"
    made = {
        "pipeline": pipeline(result.tables, title),
        "weights": weights(result.tables, title),
        "curves": curves(result.tables, title),
        "order": order(result.tables, title),
        "traces": traces(result.tables, title),
    }
    return {name: themed(chart) for name, chart in made.items() if chart is not None}
