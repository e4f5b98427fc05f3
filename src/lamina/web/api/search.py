"""One search box for heads, layers, tasks and words; and what is known of one layer or one task, for its page."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Literal

from fastapi import APIRouter, Query
from pydantic import BaseModel, Field

from lamina.errors import InputError, LaminaError
from lamina.results.index import ResultIndex, using
from lamina.web.api.heads import Model
from lamina.web.api.results import FindingCard, summaries_of
from lamina.web.api.schema import ERRORS, Typed
from lamina.web.state import AppState, State

if TYPE_CHECKING:
    from lamina.results import Result
    from lamina.results.index import SavedResult

router = APIRouter(tags=["search"], responses={code: ERRORS[code] for code in (400, 401, 403, 404, 422, 429, 503)})

MOST_HITS = 12
_PER_KIND = 4
_SENTENCES = 500
"""At the start of the corpus, in which a word is looked for."""
_LONGEST = 30
"""Words of a sentence that is offered for a word."""
_PREVIOUS = {"before": "previous", "last": "previous", "following": "next", "after": "next", "beginning": "first",
             "delimiter": "separator", "copy": "induction", "copies": "induction"}  # fmt: skip
"""Other words for what heads do."""


class SearchHit(BaseModel):
    """Where a search leads."""

    kind: Literal["head", "layer", "task", "word"]
    title: str
    about: str
    path: str
    """The page."""
    query: dict[str, str]
    """Its parameters."""


@router.get("/search")
def search(
    app: State,
    text: Annotated[Typed, Query(alias="q", max_length=200)],
    model: Annotated[Typed, Query(max_length=1000)],
) -> list[SearchHit]:
    """Heads by name, by what they do and by the relation they find; layers, tasks, and a word in its sentences."""
    wanted = " ".join(text.lower().split())
    if not wanted:
        return []
    results = _results(app, model)
    tasks = list(_tasks(results, wanted, model))
    exact = [hit for hit in tasks if wanted in (hit.title.lower(), hit.path.removeprefix("/task/"))]
    hits = [
        *_named_heads(app, wanted, model),
        *_layers(app, wanted, model),
        *exact,
        *_some(_finding_heads(results, wanted, model)),
        *_some(_doing_heads(results, wanted, model)),
        *_some(hit for hit in tasks if hit not in exact),
        *_some(_sentences(app, wanted, model)),
    ]
    if not re.fullmatch(r"[\d\s.-]+", wanted):
        hits.append(
            _hit("word", f"Look at “{text.strip()}”", "as a sentence", "/sentence", model, sentence=text.strip())
        )
    return hits[:MOST_HITS]


def _hit(
    kind: Literal["head", "layer", "task", "word"], title: str, about: str, path: str, model: str, **query: str
) -> SearchHit:
    return SearchHit(kind=kind, title=title, about=about, path=path, query={"model": model, **query})


def _some(hits: Iterator[SearchHit]) -> list[SearchHit]:
    return [hit for hit, _ in zip(hits, range(_PER_KIND), strict=False)]


def _results(app: AppState, model: str) -> dict[str, Result]:
    """The newest result of each analysis, whole ones first; those that cannot be read are left out."""
    results: dict[str, Result] = {}
    for entry in _newest(app, model):
        try:
            with using(entry):
                results[entry.analysis] = app.results.result(entry.id)
        except LaminaError:
            continue
    return results


def _newest(app: AppState, model: str) -> list[SavedResult]:
    newest: dict[str, SavedResult] = {}
    for entry in app.results.of_model(app.models.fingerprint(model)):
        newest.setdefault(entry.analysis, entry)
    return list(newest.values())


def _named_heads(app: AppState, wanted: str, model: str) -> Iterator[SearchHit]:
    """`3-1`, `head 3.1`, `layer 3 head 1`: of this model, then of others in memory."""
    matched = re.fullmatch(r"(?:head |l|layer )?(\d{1,4})(?:[-.:]| ?,? head |h)(\d{1,4})", wanted)
    if not matched:
        return
    layer, head = map(int, matched.groups())
    for name in dict.fromkeys([model, *app.models.loaded()]):
        if app.models.twin_of(name) is not None:
            continue
        shape = app.examined(name)
        if 1 <= layer <= shape.blocks and 1 <= head <= shape.heads:
            yield _hit("head", f"Head {layer}-{head}", f"of {name}", f"/head/{layer}-{head}", name)


def _layers(app: AppState, wanted: str, model: str) -> Iterator[SearchHit]:
    matched = re.fullmatch(r"(?:layer |l|block )?(\d{1,4})", wanted)
    if matched and int(matched[1]) <= app.examined(model).blocks:
        about = "the embeddings" if int(matched[1]) == 0 else "what it knows, and its heads"
        yield _hit("layer", f"Layer {int(matched[1])}", f"of {model}: {about}", f"/layer/{int(matched[1])}", model)


def _finding_heads(results: dict[str, Result], wanted: str, model: str) -> Iterator[SearchHit]:
    """Heads by the relation that they find best: "objects", "dobj"."""
    from lamina.results.finding import percent, rows_of
    from lamina.tasks.catalogue import in_words, plural_of, word_for

    best = results["heads"].tables.get("best") if "heads" in results else None
    if best is None:
        return
    rows = [row for row in rows_of(best) if str(row.relation) not in ("all", "all without punctuation")]
    names = {str(row.relation): (str(row.relation), word_for(row.relation), plural_of(row.relation)) for row in rows}
    exact = [row for row in rows if wanted in names[str(row.relation)]]
    within = [
        row for row in rows if row not in exact and any(_within(wanted, name) for name in names[str(row.relation)])
    ]
    for row in (*exact, *within):
        head, relation = f"{row.layer}-{row.head}", str(row.relation)
        rule = f"the best fixed offset finds {percent(row.offset_accuracy)}"
        about = f"of {model}: {percent(row.accuracy)} of {plural_of(relation)}; {rule}"
        yield _hit("head", f"Head {head} finds {in_words(relation)}", about, f"/head/{head}", model, relation=relation)


def _doing_heads(results: dict[str, Result], wanted: str, model: str) -> Iterator[SearchHit]:
    """Heads by what they do: "previous word", "broad"."""
    from lamina.analyses.heads.behaviours import BEHAVIOURS
    from lamina.results.finding import number, rows_of

    words = {_PREVIOUS.get(word, word).rstrip("s") for word in wanted.split()}
    roles = [role for role in BEHAVIOURS[:-1] if role.rstrip("s") in words]
    if not roles:
        return
    table = head_roles_of(results)
    for role in roles:
        for row in rows_of(table[table["role"] == role].sort_values("value", ascending=False)):
            what = f" ({row.what})" if row.what else ""
            about = f"of {model}: {row.measure} {number(row.value)}"
            yield _hit(
                "head", f"Head {row.layer}-{row.head}: {role}{what}", about, f"/head/{row.layer}-{row.head}", model
            )


def head_roles_of(results: dict[str, Result]):
    """As `lamina.analyses.overview.head_roles`."""
    from lamina.analyses.overview import head_roles

    return head_roles(results.values())


def _tasks(results: dict[str, Result], wanted: str, model: str) -> Iterator[SearchHit]:
    """Tasks of the catalogue and of saved results, measured ones first."""
    from lamina.tasks import TASKS, title_of
    from lamina.web.api.results import tasks_of

    measured = {task for result in results.values() if "summary" in result.tables for task in tasks_of(result)}
    about = {task.name: task.what for task in TASKS}
    names = sorted({*measured, *about}, key=lambda name: (name not in measured, name != wanted, name))
    for name in names:
        title = title_of(name)
        if name.lower() == wanted or _within(wanted, title.lower()) or _within(wanted, about.get(name, "").lower()):
            note = "" if name in measured else f", not measured of {model}"
            yield _hit("task", title, f"task{note}: {about.get(name) or name}", f"/task/{name}", model)


def _within(wanted: str, name: str) -> bool:
    """At the start of a word, so that "pos" does not lead to "opposite"; a plural is as good as the singular."""
    stem = wanted[:-1] if len(wanted) > 4 and wanted.endswith("s") else wanted
    return len(stem) > 2 and re.search(rf"\b{re.escape(stem)}", name.lower()) is not None


def _sentences(app: AppState, wanted: str, model: str) -> Iterator[SearchHit]:
    """A word in sentences of the corpus."""
    if " " in wanted or not wanted.isalpha():
        return
    for words in _corpus_sentences(app.settings.corpora[0]):
        lowered = [word.lower() for word in words]
        if wanted in lowered:
            sentence, place = " ".join(words), lowered.index(wanted)
            yield _hit("word", words[place], sentence, "/sentence", model, sentence=sentence, word=str(place))


@lru_cache(maxsize=2)
def _corpus_sentences(name: str) -> tuple[tuple[str, ...], ...]:
    from lamina.corpora import load_corpus

    try:
        texts = load_corpus(name, split="dev", limit=_SENTENCES)
        return tuple(text.words for text in texts if 4 <= len(text.words) <= _LONGEST)
    except LaminaError:
        return ()


class LayerRequest(BaseModel):
    """Which layer of which model; 0 is the embedding layer."""

    model: Model
    layer: int = Field(ge=0, le=10_000)


class LayerNumber(BaseModel):
    """One number of a layer, beside those of the other layers."""

    analysis: str
    title: str
    result: str
    """The result that it comes from."""
    series: str
    value: float
    low: float | None
    high: float | None
    rank: int
    """1 is the highest of all layers."""
    of: int


class RoleOfHead(BaseModel):
    """What a head does."""

    head: str
    role: str
    what: str
    named: bool
    """Whether it is the most telling one of its roles."""


class LayerEntry(BaseModel):
    """What saved results say about one layer."""

    layer: int
    layers: int
    numbers: list[LayerNumber]
    heads: list[RoleOfHead]
    findings: list[FindingCard]
    """Those that name the layer."""


@router.post("/layer")
def layer(app: State, wanted: LayerRequest) -> LayerEntry:
    """One layer: its numbers beside those of other layers, and its heads."""
    from lamina.results.finding import rows_of

    layers = app.examined(wanted.model).blocks + 1
    if wanted.layer >= layers:
        raise InputError(f"{wanted.model} has layers 0 to {layers - 1}")
    entries = _newest(app, wanted.model)
    results = _results(app, wanted.model)
    roles = head_roles_of(results)
    here = roles[roles["layer"] == wanted.layer] if len(roles) else roles
    numbers = [
        number for entry in entries if entry.analysis in results for number in _numbers(app, entry, wanted.layer)
    ]
    return LayerEntry(
        layer=wanted.layer,
        layers=layers,
        numbers=numbers,
        heads=[
            RoleOfHead(head=f"{row.layer}-{row.head}", role=row.role, what=row.what or "", named=bool(row.named))
            for row in rows_of(here)
        ],
        findings=_naming(app, entries, rf"\blayer {wanted.layer}\b|\bhead {wanted.layer}-\d"),
    )


def _numbers(app: AppState, entry: SavedResult, layer: int) -> Iterator[LayerNumber]:
    with using(entry):
        curves = _curves(app.results, entry.id, entry.saved)
    title = app.words_of(entry.analysis)[0]
    for series, rows in curves.groupby("series", sort=False):
        mine = rows[rows["layer"] == layer]
        if mine.empty:
            continue
        value, low, high = (float(mine[name].iloc[0]) for name in ("value", "low", "high"))
        yield LayerNumber(
            analysis=entry.analysis, title=title, result=entry.id, series=_readable(str(series)), value=value,
            low=None if low != low else low, high=None if high != high else high,
            rank=1 + int((rows["value"] > value).sum()), of=len(rows),
        )  # fmt: skip


@lru_cache(maxsize=32)
def _curves(results: ResultIndex, id: str, _saved: int):
    from lamina.comparison.compare import layer_curves

    return layer_curves(results.result(id), twin=False)


def _readable(series: str) -> str:
    return series.replace("_", " ")


def _naming(app: AppState, entries: Sequence[SavedResult], pattern: str) -> list[FindingCard]:
    """Findings whose sentence names something."""
    named = re.compile(pattern, re.IGNORECASE)
    return [
        finding for summary in summaries_of(app, entries) for finding in summary.findings if named.search(finding.text)
    ]


class TaskRequest(BaseModel):
    """Which task, of which model."""

    model: Model
    task: Annotated[Typed, Field(max_length=200)]


class TaskOfModel(BaseModel):
    """A model's result with the task in it; charts of the task alone come from `GET /api/results/ID?task=`."""

    model: str
    analysis: str
    title: str
    result: str
    best: str
    """The layers that can be the best, in words; empty where the result has no such table."""


class TaskExample(BaseModel):
    """One target of a task, as the probes of the first and of all layers read it."""

    words: list[str]
    spans: list[tuple[int, int]]
    """Of words, half-open."""
    label: str
    """The gold label."""
    first: float
    """Its probability under the probe of the embeddings, the mean over seeds."""
    last: float
    """Its probability under the probe of all layers."""
    rival: str
    """The most probable other label in the end."""
    rival_last: float


class TaskEntry(BaseModel):
    """What is known of one task."""

    task: str
    title: str
    about: str
    results: list[TaskOfModel]
    """Of this model first, then of the others."""
    findings: list[FindingCard]
    """Of this model, those that name the task."""
    right: list[TaskExample]
    """Targets that the probes of this model get right, the first of those whose way its probing result traces: of
    sentences that its probes are unsure of."""
    wrong: list[TaskExample]
    """Those that they get wrong."""
    traced: int
    """Targets that the result traces."""
    traced_right: int


@router.post("/task")
def task(app: State, wanted: TaskRequest) -> TaskEntry:
    """One task: where each model reads it, and what was found."""
    from lamina.tasks import TASKS, title_of

    entries = _newest(app, wanted.model)
    known = next((task for task in TASKS if task.name == wanted.task.partition(" (")[0]), None)
    title = title_of(wanted.task)
    every = [*entries, *(entry for entry in app.results.entries() if entry not in entries)]
    results = list(_with_task(app, every, wanted.task))
    if known is None and not results:
        raise InputError(f"there is no task {wanted.task!r} here; search for another")
    examples = list(_task_examples(_results(app, wanted.model).get("probe"), wanted.task))
    right = [example for example in examples if example.last > example.rival_last]
    wrong = [example for example in examples if example not in right]
    return TaskEntry(
        task=wanted.task,
        title=title,
        right=right[:_EXAMPLES],
        wrong=wrong[:_EXAMPLES],
        traced=len(examples),
        traced_right=len(right),
        about=known.what if known else "",
        results=results,
        findings=_naming(app, entries, rf"\b{re.escape(title)}\b"),
    )


def _with_task(app: AppState, entries: Sequence[SavedResult], task: str) -> Iterator[TaskOfModel]:
    from lamina.web.api.results import tasks_of

    seen: set[tuple[str, str]] = set()
    for entry in entries:
        if (entry.model, entry.analysis) in seen or entry.analysis == "compare":
            continue
        try:
            with using(entry):
                result = app.results.result(entry.id)
        except LaminaError:
            continue
        if task in tasks_of(result):
            seen.add((entry.model, entry.analysis))
            title = app.words_of(entry.analysis)[0]
            best = _best(result, task)
            yield TaskOfModel(model=entry.model, analysis=entry.analysis, title=title, result=entry.id, best=best)


_EXAMPLES = 5
"""Right and wrong ones, at most."""


def _task_examples(result: Result | None, task: str) -> Iterator[TaskExample]:
    """The traced targets of a task, in the order of the corpus."""
    if result is None or not {"traces", "words"} <= result.tables.keys():
        return
    traces = result.tables["traces"]
    # Of a task of single spans the second is empty.
    spans = {name: traces[name].astype(object).where(traces[name].notna(), "") for name in ("span1", "span2")}
    traces = traces.assign(**spans)
    traces = traces[traces["task"] == task]
    words = {
        str(text): [str(word) for word in rows["word"]] for text, rows in result.tables["words"].groupby("text_id")
    }
    for (text, one, other), rows in traces.groupby(["text_id", "span1", "span2"], sort=False):
        by_label = rows.groupby(["label", "gold", "layer"])["probability"].mean().reset_index()
        gold = by_label[by_label["gold"].astype(str) == "True"]
        ends = by_label[by_label["layer"] == by_label["layer"].max()]
        rivals = ends[~ends["label"].isin(gold["label"])].nlargest(1, "probability")
        # Of several gold labels there is no one answer.
        if str(text) not in words or gold["label"].nunique() != 1 or rivals.empty:
            continue
        probabilities = gold.sort_values("layer")["probability"]
        yield TaskExample(
            words=words[str(text)],
            spans=[_span(str(span)) for span in (one, other) if span],
            label=str(gold["label"].iloc[0]),
            first=float(probabilities.iloc[0]),
            last=float(probabilities.iloc[-1]),
            rival=str(rivals["label"].iloc[0]),
            rival_last=float(rivals["probability"].iloc[0]),
        )


def _span(text: str) -> tuple[int, int]:
    start, _, end = text.partition(":")
    return int(start), int(end)


def _best(result: Result, task: str) -> str:
    """The layers that can be the best at a task, as the result's confidence set has them."""
    from lamina.analyses.overview import ability_layers
    from lamina.results.finding import number
    from lamina.tasks import title_of

    table = ability_layers([result])
    rows = table[(table["ability"] == title_of(task)) & table["peak"].astype(bool)] if len(table) else table
    if not len(rows):
        return ""
    top = rows.iloc[0]
    among = (
        ""
        if top["peak_low"] != top["peak_low"]
        else f"; layers {int(top['peak_low'])} to {int(top['peak_high'])} can be the best"
    )
    return f"highest at layer {int(top['layer'])} ({top['metric']} {number(top['score'])}{among})"
