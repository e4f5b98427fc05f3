"""The tokens of one question, or of two, by layer: a map with a slider, and all layers on one page for print."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import altair as alt
import numpy as np
import pandas as pd

from lamina.analyses.answering.groups import LEFT_OUT, STABLE
from lamina.figures._marks import name_marks, outline_of, placed_names
from lamina.figures.theme import (
    COLOURS,
    GREY,
    INK,
    OTHER,
    PREDICTED,
    QUESTION,
    RAREST_FIRST,
    ROLES,
    SOURCE,
    SPECIAL,
    SUPPORT,
    Role,
    Table,
    themed,
)
from lamina.results import Result

CAPTIONS = {
    "map": (
        "The tokens of a question and its context, projected into two dimensions; the slider goes from the "
        "embeddings (layer 0) to the last layer, and tokens can be coloured by role, sentence or cluster "
        "(k-means in the full space, outlined; none at layers where other seeds find other clusters). Tokens of "
        "question, answer and support are named as far as there is room. The two axes hold only the "
        "stated share of the variance: tokens close here may be far apart in the full space. One question has no "
        "interval: compare the phases over many questions."
    ),
    "layers": (
        "The same for all layers, one panel per layer and question, each with its share of the variance. Compare where "
        "the question lies with its supporting facts, and the answer with all other tokens, from layer to layer."
    ),
}
"""Chart -> how to read it."""

SIZE = 460
BESIDE = 330
"""Of each of two maps side by side."""
SMALL = 210
MOST_DRAWN = 400
"""Tokens without a role that are drawn; of more, a regular subsample."""
_COLOURINGS = ("role", "sentence", "cluster")
_METHODS = {"pca": "PCA", "tsne": "t-SNE", "ica": "FastICA"}


ACCEPTED = "accepted answer"
"""What an outline around a token says."""


def not_drawn(result: Result) -> dict[str, str]:
    """Chart -> which of two questions was answered correctly; nothing where there is one."""
    answers = result.tables["answer"]
    if len(answers) < 2:
        return {}
    verdicts = " ".join(f"{_shortened_question(row)} {_judged(row)}" for row in answers.to_dict("records"))
    return dict.fromkeys(("map", "layers"), f"Shown: {verdicts}")


def draw(result: Result) -> dict[str, alt.TopLevelMixin]:
    """The charts `map` (one layer at a time, by a slider) and `layers` (all of them).

    Of two questions, one answered correctly and one incorrectly, the maps are side by side.
    """
    if len(result.tables["answer"]) > 1:
        return _draw_beside(result)
    tokens, projection = result.tables["tokens"], result.tables["projection"]
    rows = _stable(drawn_rows(tokens), projection)
    roles = [role for role in ROLES if role.name in set(rows["role"])]
    title, reading = _title(result), _reading(result)
    colouring = alt.param(
        name="colouring", value="role", bind=alt.binding_select(options=list(_COLOURINGS), name="colour by ")
    )
    last = int(max(rows["layer"]))
    slider = alt.param(name="layer", value=last // 2, bind=alt.binding_range(min=0, max=last, step=1, name="layer "))
    words = _in_words(result)
    moving = _of_layer(_panel(rows, roles, SIZE, legend=True))
    above = alt.TitleParams(title, subtitle=[*reading, "drag the slider to go through the layers"])
    one = alt.concat(moving, title=above, description=words, usermeta={"keepShape": True}).add_params(slider, colouring)
    panels = []
    for layer, shares in zip(projection["layer"], _shares(projection), strict=True):
        layer_rows = rows[rows["layer"] == layer]
        panels.append(_panel(layer_rows, roles, SMALL, legend=not layer).properties(title=f"Layer {layer}{shares}"))
    page = alt.concat(
        *panels,
        columns=3,
        spacing=20,
        title=alt.TitleParams(title, subtitle=reading),
        description=words,
        usermeta={"panelWidth": SMALL, "keepShape": True},
    ).add_params(colouring)
    return {"map": themed(one), "layers": themed(page)}


def _draw_beside(result: Result) -> dict[str, alt.TopLevelMixin]:
    """Two questions, with one slider for both."""
    examples = [_only(result, example) for example in result.tables["answer"]["example"]]
    rows = [_stable(drawn_rows(example.tables["tokens"]), example.tables["projection"]) for example in examples]
    roles = [role for role in ROLES if any(role.name in set(table["role"]) for table in rows)]
    last = max(int(max(table["layer"])) for table in rows)
    slider = alt.param(name="layer", value=last // 2, bind=alt.binding_range(min=0, max=last, step=1, name="layer "))
    choices = alt.binding_select(options=list(_COLOURINGS), name="colour by ")
    colouring = alt.param(name="colouring", value="role", bind=choices)
    title = f"{result.provenance.model['name']}: a question answered correctly, and one answered incorrectly"
    moving, panels = [], []
    for example, example_rows in zip(examples, rows, strict=True):
        answer = example.tables["answer"].to_dict("records")[0]
        above = alt.TitleParams(
            _shortened_question(answer), subtitle=[_judged(answer), f"gold answer (outlined): {_gold(answer)}"]
        )
        moving.append(_of_layer(_panel(example_rows, roles, BESIDE, legend=not moving)))
        moving[-1] = moving[-1].properties(title=above)
    for layer in range(last + 1):
        for example, example_rows in zip(examples, rows, strict=True):
            projection = example.tables["projection"]
            shares = dict(zip(projection["layer"], _shares(projection), strict=True))
            verdict = _verdict(example.tables["answer"].to_dict("records")[0])
            panel = _panel(example_rows[example_rows["layer"] == layer], roles, SMALL, legend=not panels)
            panels.append(panel.properties(title=f"Layer {layer}, {verdict}{shares.get(layer, '')}"))
    reading, words = _how(result), " ".join(map(_in_words, examples))
    one = alt.concat(
        *moving,
        columns=2,
        spacing=24,
        title=alt.TitleParams(title, subtitle=[*reading, "drag the slider to go through the layers"]),
        description=words,
        usermeta={"panelWidth": BESIDE},
    ).add_params(slider, colouring)
    page = alt.concat(
        *panels,
        columns=2,
        spacing=20,
        title=alt.TitleParams(title, subtitle=reading),
        description=words,
        usermeta={"panelWidth": SMALL},
    ).add_params(colouring)
    return {"map": themed(one), "layers": themed(page)}


def _only(result: Result, example: str) -> Result:
    """The same result with the rows of one question."""
    tables = {name: table[table["example"] == example].reset_index(drop=True) for name, table in result.tables.items()}
    return replace(result, tables=tables)


def _verdict(answer: Mapping[Any, Any]) -> str:
    return {1.0: "answered correctly", 0.0: "answered incorrectly"}.get(answer["exact_match"], "answer not judged")


def _judged(answer: Mapping[Any, Any]) -> str:
    verdict = _verdict(answer)
    return f"{verdict[0].upper()}{verdict[1:]}: {answer['predicted']}, confidence {answer['confidence']:.2f}."


def _shortened_question(answer: Mapping[Any, Any]) -> str:
    question = str(answer["question"])
    return question if len(question) <= 60 else f"{question[:59]}…"


def _gold(answer: Mapping[Any, Any]) -> str:
    return str(answer["accepted"]).split(" | ")[0] or "not known"


def drawn_rows(tokens: Table) -> Table:
    """What is drawn: places scaled to -1 .. 1, alike both ways; one role per token."""
    table = tokens.reset_index(drop=True)
    table = table.assign(role=_roles(table), label=_labels(table))
    table = table[_few(table) & table["x"].notna()]
    together = table["fit"].iloc[0] == "all"
    places = table[["x", "y"]].groupby(table["fit"] if together else table["layer"])
    middle = (places.transform("max") + places.transform("min")) / 2
    extent = (places.transform("max") - places.transform("min")).max(axis=1) / 2
    scaled = (table[["x", "y"]] - middle).div(extent.replace(0, 1), axis=0).round(3)
    return pd.DataFrame(
        {
            "layer": table["layer"],
            "word": table["word"],
            "x": scaled["x"],
            "y": scaled["y"],
            "role": table["role"],
            "gold": table["gold"],
            "label": table["label"],
            "sentence": table["sentence"],
            "cluster": table["cluster"],
        }
    )


def _stable(rows: Table, projection: Table) -> Table:
    """Without the clusters of layers where other seeds find other ones."""
    if "stability" not in projection:
        return rows
    stable = projection.loc[projection["stability"] >= STABLE, "layer"]
    return rows.assign(cluster=rows["cluster"].where(rows["layer"].isin(stable), LEFT_OUT))


def _roles(table: Table) -> list[str]:
    """The role each token is drawn with; of several, the rarest."""
    wrong = table["predicted"] & ~table["gold"]
    # Where no predicted token is an accepted one, the answer came from elsewhere.
    sources = set(table.loc[wrong, "sentence"]) if table["predicted"].any() and not _hits(table) else set()
    special = ~table["question"] & (table["sentence"] < 0) & ~table["gold"] & table["word"].str.match(r"^[\[<].*[\]>]$")
    holds = {
        SPECIAL: special,
        SOURCE: table["sentence"].isin(sources - {-1}),
        SUPPORT: table["support"],
        QUESTION: table["question"],
        PREDICTED: table["predicted"],
    }
    role = np.full(len(table), OTHER.name, dtype=object)
    for kind in reversed(RAREST_FIRST):
        role[holds[kind].to_numpy()] = kind.name
    return role.tolist()


def _labels(table: Table) -> list[str]:
    """The answer, written beside its first token; the predicted one where there is one."""
    answer = table["predicted"] if table["predicted"].any() else table["gold"]
    first = table.loc[answer, "token"].min() if answer.any() else -1
    words = table.loc[answer & (table["layer"] == 0), ["token", "word", "sentence"]]
    # A word of several tokens is written once; other places of the same answer are only outlined.
    run = words[words["token"] - words["token"].rank() == first - 1]
    text = " ".join(
        word for word, again in zip(run["word"], run["word"] == run["word"].shift(), strict=True) if not again
    )
    return [text if token == first else "" for token in table["token"]]


def _hits(table: Table) -> bool:
    return bool((table["predicted"] & table["gold"]).any()) or not table["gold"].any()


def _few(table: Table) -> Any:
    plain = table["role"] == OTHER.name
    count = int((plain & (table["layer"] == 0)).sum())
    every = math.ceil(count / MOST_DRAWN) if count else 1
    return ~plain | (table["token"] % every == 0)


def _shade() -> str:
    """The colour of a dot, by what the reader chose; sentences and clusters go round the palette."""
    by_role = json.dumps({role.name: role.colour for role in ROLES})
    number = "datum[colouring]"
    palette = json.dumps(COLOURS)
    return (
        f"colouring == 'role' ? {by_role}[datum.role] : {number} < 0 ? '{GREY}' : {palette}[{number} % {len(COLOURS)}]"
    )


def _panel(rows: Table, roles: list[Role], size: int, *, legend: bool) -> alt.LayerChart:
    names, shapes = [role.name for role in roles], [role.shape for role in roles]
    area = 90 if size != SMALL else 40
    look = alt.Legend(title=None, orient="top", columns=3, symbolSize=110, symbolOpacity=1, labelLimit=400)
    scale = alt.Scale(domain=names, range=shapes)
    base = alt.Chart(alt.Data(values=rows.to_dict("records")), width=size, height=size, view=_FRAME).encode(
        x=_axis("x"), y=_axis("y"), shape=alt.Shape("role:N", scale=scale, legend=look if legend else None)
    )
    tooltip = [alt.Tooltip(f"{name}:N") for name in ("word", "role", "gold", "sentence", "cluster")]
    key = alt.Color(
        "role:N",
        scale=alt.Scale(domain=names, range=[role.colour for role in roles]),
        legend=look if legend else None,
    )
    plain = f"datum.role == '{OTHER.name}'"
    dots = base.transform_calculate(shade=_shade()).mark_point(filled=True, opacity=0.85, size=area)
    layers: list[alt.Chart] = [
        *_cluster_outlines(rows),
        # Seen in the legend alone: the dots have the colour that the reader chose.
        base.mark_point(opacity=0, filled=True).encode(color=key),
        dots.transform_filter(plain).encode(fill=_SHADE, tooltip=tooltip),
        dots.transform_filter(f"!({plain})").encode(fill=_SHADE, tooltip=tooltip),
        base.transform_filter("datum.gold").mark_point(size=2 * area, strokeWidth=1.8, opacity=1, color=INK),
    ]
    layers += name_marks(_named_tokens(rows, size), _axis("x"), _axis("y"))
    return alt.LayerChart(layer=layers)


def _of_layer(panel: alt.LayerChart) -> alt.LayerChart:
    """The panel with the tokens of the slider's layer; each mark is filtered, since some have data apart."""
    filtered: Any = panel.copy(deep=False)
    filtered.layer = [mark.transform_filter("datum.layer == layer") for mark in panel.layer]
    return filtered


_NAMED_ROLES = (PREDICTED.name, QUESTION.name, SUPPORT.name, SOURCE.name)
"""Roles whose tokens are named, as far as there is room: the answer first."""


def _named_tokens(rows: Table, size: int) -> Table:
    """Tokens of question, answer and support with their words, where these have room, layer by layer."""
    labels = [
        label or (str(word) if role in _NAMED_ROLES and str(word)[:1].isalnum() else "")
        for label, word, role in zip(rows["label"], rows["word"], rows["role"], strict=True)
    ]
    first = [_NAMED_ROLES.index(role) if role in _NAMED_ROLES else len(_NAMED_ROLES) for role in rows["role"]]
    ordered = rows.assign(label=labels, first=first).sort_values(["layer", "first"], kind="stable")
    # A word of several tokens is named once.
    again = ordered.duplicated(["layer", "sentence", "word", "role"]) & (ordered["label"] == ordered["word"])
    ordered = ordered.assign(label=ordered["label"].where(~again, ""))
    ends = (-_EDGE, _EDGE, -_EDGE, _EDGE)
    placed = [placed_names(group, (size, size), ends) for _, group in ordered.groupby("layer", sort=False)]
    return pd.concat(placed)[["layer", "x", "y", "label", "side", "shift"]]


def _cluster_outlines(rows: Table) -> list[alt.Chart]:
    """A line around each cluster that other seeds find too."""
    corners = [
        (layer, f"{layer}-{cluster}", place, *corner)
        for (layer, cluster), group in rows[rows["cluster"] >= 0].groupby(["layer", "cluster"])
        for place, corner in enumerate(outline_of(list(zip(group["x"], group["y"], strict=True))))
    ]
    if not corners:
        return []
    table = pd.DataFrame(corners, columns=["layer", "outline", "place", "x", "y"])
    line = alt.Chart(table).mark_line(color=GREY, strokeWidth=1, strokeDash=[4, 3], opacity=0.9)
    return [line.encode(x=_axis("x"), y=_axis("y"), detail=alt.Detail("outline:N"), order=alt.Order("place:Q"))]


_EDGE = 1.06
"""Of the axes: a little beyond the outermost tokens."""
_SHADE = alt.Fill("shade:N", scale=None)
_FRAME = alt.ViewBackground(stroke="#bbbbbb")


def _axis(name: str) -> Any:
    channel = alt.X if name == "x" else alt.Y
    frame = alt.Axis(labels=False, ticks=False, title=None, grid=False, domain=False)
    return channel(f"{name}:Q", scale=alt.Scale(domain=[-_EDGE, _EDGE], nice=False), axis=frame)


def _shares(projection: Table) -> list[str]:
    both = projection["explained_x"] + projection["explained_y"]
    return ["" if math.isnan(share) else f": {share:.0%} of variance" for share in both]


def _title(result: Result) -> str:
    question = str(result.tables["answer"]["question"].iloc[0])
    question = question if len(question) <= 80 else f"{question[:79]}…"
    return f"{result.provenance.model['name']}: {question}"


def _reading(result: Result) -> list[str]:
    """What the picture is, and what it leaves out."""
    answer = result.tables["answer"].iloc[0]
    accepted = str(answer["accepted"]).split(" | ")[0] or "not known"
    answers = f"gold answer (outlined): {accepted}"
    if answer["predicted"]:
        judged = {1.0: " (right)", 0.0: " (not an exact match)"}.get(answer["exact_match"], "")
        answers += f"; predicted: {answer['predicted']}{judged}, confidence {answer['confidence']:.2f}"
    return [answers, *_how(result)]


def _how(result: Result) -> list[str]:
    settings = result.provenance.parameters
    fitted = "one projection over all layers" if settings["fit"] == "all" else "one projection per layer"
    how = f"{_METHODS[settings['method']]}, {fitted}; both axes to the same scale"
    if settings["method"] == "pca":
        projection = result.tables["projection"]
        both = projection["explained_x"] + projection["explained_y"]
        how += f"; two axes hold {both.min():.0%} to {both.max():.0%} of a layer's variance"
    lines = [how]
    outliers = max(int(number) for number in result.tables["projection"]["left_out"])
    if outliers:
        lines.append(f"up to {outliers} outlier token{'s' * (outliers > 1)} per layer left out")
    return lines


def _in_words(result: Result) -> str:
    projection = result.tables["projection"]
    stability = projection["stability"] if "stability" in projection else [math.nan] * len(projection)
    rows = zip(*(projection[name] for name in ("layer", "clusters", "silhouette")), stability, strict=True)
    parts = [
        f"layer {layer}: {count} clusters, silhouette {silhouette:.2f}"
        if stable >= STABLE
        else f"layer {layer}: clusters depend on the seed"
        for layer, count, silhouette, stable in rows
    ]
    return (
        f"Tokens of one question in two dimensions at every layer. {'; '.join(_reading(result))}. {'; '.join(parts)}."
    )
