"""How a decision about one target comes about, layer by layer: the probability of its labels under P(0)..P(L)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NamedTuple

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Int
from torch import Tensor

from lamina.activations.store import StatePrecision, default_precision
from lamina.analyses.layers.probe.predictions import (
    WORDS,
    TraceRow,
    saved_predictions,
    saved_words,
    trace_rows,
    words_table,
)
from lamina.analyses.layers.probe.probe import probing_encoder
from lamina.analyses.layers.revisions import (
    AFTER_REVISED,
    RevisedAfter,
    Revision,
    revision_findings,
    revision_tables,
)
from lamina.corpora.corpus import fingerprint_of
from lamina.corpora.tokenising import split_words
from lamina.errors import InputError, ModelError, ResultError, SpanError, TaskError
from lamina.framework.declare import Overview, Table, Tables, analysis
from lamina.framework.inputs import Input, LoadedInputs, Reads, Sentence, as_encoder, as_result, describe_models
from lamina.framework.settings import DeclaredSetting, Samples, Seed, Setting
from lamina.models import SPECIAL, Activations, Encoder
from lamina.models.contract import STATES, Want
from lamina.probes.edge import SavedEdgeProbes, predict
from lamina.probes.streams import Stream, find_targets
from lamina.results import Result
from lamina.results.finding import Finding, cell, rows_of
from lamina.tasks import Task
from lamina.types import Edge, Span, Text

if TYPE_CHECKING:
    from lamina.activations import Runtime


class ProbedSentence(Reads):
    """A probing result; and a sentence with the model that was probed, where one is typed."""

    inputs: ClassVar = (
        Input("result", "A folder that `lamina probe` wrote.", metavar="RESULT_DIR"),
        Input("sentence", "A sentence of your own, in quotes; needs --model.", default=None, metavar="SENTENCE"),
        Input("model", "The model that was probed, to encode your sentence with.", default=None, option="--model"),
    )

    @property
    def options(self) -> tuple[DeclaredSetting, ...]:
        """See `Reads.options`."""
        return Sentence().options

    def load(
        self, given: Mapping[str, Any], options: Mapping[str, Any], settings: Mapping[str, Any], runtime: Runtime
    ) -> LoadedInputs:
        """See `Reads.load`."""
        probed, sentence, model = as_result(given["result"]), given["sentence"], given["model"]
        if probed.analysis != "probe":
            raise ResultError(f"a {probed.analysis!r} result has no probes; name a folder that `lamina probe` wrote")
        about = probed.provenance
        if sentence is not None and settings["texts"]:
            raise InputError("--text names a sentence of the corpus; leave it out, or the sentence of your own")
        if sentence is None:
            if model is not None or settings["marks"]:
                raise InputError("--model and --mark are for a sentence of your own; give one, in quotes")
            data = {**about.corpus, "fingerprint": fingerprint_of(probed.key), "probes": probed.key}
            names = (Path(str(about.model["name"])).name, Path(str(about.corpus["name"])).stem)
            return LoadedInputs((probed, None, None), about.model, data, names)
        if model is None:
            raise InputError("a sentence of your own has to be encoded: name the model that was probed with --model")
        words = split_words(sentence).words if isinstance(sentence, str) else tuple(sentence)
        if not words:
            raise InputError("the sentence has no words; give some")
        encoder = as_encoder(model, options, runtime)
        data = {"name": "a typed sentence", "split": "", "words": list(words), "probes": probed.key}
        data["fingerprint"] = fingerprint_of(probed.key, words)
        return LoadedInputs((probed, words, encoder), describe_models((encoder,)), data, (Path(encoder.name).name,))


@analysis(
    title="From layer to layer",
    question="What does each layer make of the words of one sentence, and when does it change its mind?",
    method=(
        "Probes trained on a corpus are applied to the sentence; P(l) mixes layers 0 to l. A probe answers which label "
        "a given span has. It has never seen a span that is not a target, so spans are marked by hand for all tasks "
        "but part of speech. A decision is revised at layer l where P(l) says something else than P(l-1); how often is "
        "compared with how often two seeds disagree. Whether one task is revised after another has settled is counted "
        "for targets that share words, and compared with targets of other texts that have the same label. Both are "
        "tested by document, corrected by max-T over all tasks."
    ),
    cites=("Tenney et al. 2019",),
    reads=ProbedSentence(),
    version=3,  # documents vary, seeds by Student's t; families by max-T; revisions are compared with seeds
    tables={
        "traces": Table("One row per target, label, layer and seed.", TraceRow._fields),
        "words": Table("One row per word of the sentences.", WORDS, optional=True),
        "revisions": Table(
            "One row per task and layer, and one for all layers; of all scored targets, where no sentence is named. "
            "difference is revised minus seeds_differ: a two-sided sign-flip test by document, with p_adjusted and its "
            "interval corrected by max-T over all tasks and layers.",
            Revision._fields,
            optional=True,
        ),
        "revised_after": Table(
            "One row per pair of tasks of one corpus and measure. p_adjusted is two-sided, from the shuffles, by max-T "
            "over all pairs and measures; the interval of the difference is simultaneous over them.",
            RevisedAfter._fields,
            optional=True,
        ),
    },
    chapter="abilities",
    example='lamina trace results/probe "he smoked toronto in the playoffs" --model minilm --mark dep:2:1',
)
def trace(
    probed: Result,
    words: tuple[str, ...] | None,
    encoder: Encoder | None,
    *,
    marks: Annotated[
        Sequence[str],
        Setting(
            "A target of your sentence. A span is a word's number, or FIRST-LAST with both included; words count from "
            "0. `dep:2:1`: the dependency of word 2 on word 1; `ner:3-4`: words 3 and 4.",
            option="--mark",
            metavar="TASK:SPAN[:SPAN]",
        ),
    ] = (),
    texts: Annotated[
        Sequence[str],
        Setting(
            "A scored text of the corpus by its id, with all targets and their gold labels; where several corpora "
            "have the id, CORPUS:ID.",
            option="--text",
            metavar="ID",
        ),
    ] = (),
    samples: Samples = 1000,
    shuffles: Annotated[int, Setting("Shuffles of the texts, for the baseline of revisions.", min=1)] = 1000,
    seed: Seed = 0,
) -> Tables:
    """The probability of labels under the probes P(0) to P(L), and how often decisions are revised.

    Without a sentence: the ambiguous ones that probing found (more than one target whose best label has a mean
    probability of at most 0.7), those in which most tasks are in doubt first; and, from the saved predictions, how
    often decisions are revised from layer to layer, and whether one task is revised after another has settled.

    With `texts`: scored texts of the corpus, by id. With a sentence: part of speech of every word, and whatever you
    mark; a probe of any other task has never seen words that are not a target.

    Example:
        >>> trace("results/probe", "he smoked toronto", model="minilm", marks=["dep:2:1"]).chart()  # doctest: +SKIP
        >>> trace("results/probe").tables["revised_after"]  # doctest: +SKIP
    """
    if texts:
        return Tables(*_by_id(probed, texts), seeds=probed.provenance.seeds)
    if words is None or encoder is None:
        revisions, skipped = _revisions(probed, samples=samples, shuffles=shuffles, seed=seed)
        return Tables(_saved_traces(probed, needed=not revisions) | revisions, skipped, seeds=probed.provenance.seeds)
    tracer = SentenceTracer(encoder, probed)
    beliefs = tracer.beliefs(words, [_parse_mark(mark) for mark in marks])
    if not beliefs:
        raise InputError(f"mark the spans to trace (--mark); there are probes of: {', '.join(tracer.tasks)}")
    rows: list[TraceRow] = []
    for task, seed_, labels, spans, probabilities in beliefs:
        rows += trace_rows(task, ID, spans, probabilities, labels, None, seed_)
    traces = pd.DataFrame(rows, columns=list(TraceRow._fields))
    return Tables({"traces": traces, "words": words_table([(ID, words)])}, seeds=tracer.seeds)


def _saved_traces(probed: Result, *, needed: bool) -> dict[str, pd.DataFrame]:
    """The ambiguous sentences that probing kept; there may be none unless they are `needed`."""
    tables = {name: probed.tables[name] for name in ("traces", "words") if name in probed.tables}
    if needed and ("traces" not in tables or tables["traces"].empty):
        raise InputError(
            "the result has no traces: there is no sentence with two ambiguous targets, or no cumulative probes; "
            "give a sentence of your own, or probe with --probes cumulative"
        )
    return {"traces": pd.DataFrame(columns=list(TraceRow._fields))} | tables


def _revisions(
    probed: Result, *, samples: int, shuffles: int, seed: int
) -> tuple[dict[str, pd.DataFrame], dict[str, int]]:
    """How often decisions are revised, by the saved predictions, and what was left out and why."""
    early = _not_converged(probed)
    decided, skipped = [], {}
    for saved in saved_predictions(probed):
        if reason := saved.reason or ("probes that have not converged" if saved.task in early else ""):
            skipped[f"task without revisions: {saved.task} ({reason})"] = 1
        else:
            decided.append(saved.decisions())
    if not decided:
        return {}, skipped
    revisions, pairs = revision_tables(decided, samples=samples, shuffles=shuffles, seed=seed)
    return {"revisions": revisions, "revised_after": pairs}, skipped


def _not_converged(probed: Result) -> set[str]:
    """The tasks with a cumulative probe of the model that was still learning at its end; older results do not say."""
    training = probed.tables.get("training")
    if training is None:
        return set()
    cumulative = (training["of"] == "model") & (training["probe"] == "cumulative")
    return set(training.loc[cumulative & ~training["converged"].astype(bool), "task"])


def _by_id(probed: Result, requested: Sequence[str]) -> tuple[dict[str, pd.DataFrame], dict[str, int]]:
    """Every target of these texts, by the saved predictions of every task; and what cannot be shown and why."""
    words = saved_words(probed)
    named = {_text_of(words, name): name for name in requested}
    rows: list[TraceRow] = []
    whole = saved_predictions(probed)
    for saved in (saved for saved in whole if not saved.reason):
        names = {text_id: name for (corpus, text_id), name in named.items() if corpus == saved.corpus}
        targets = saved.targets(list(names))
        for seed in saved.seeds if len(targets) else ():
            probabilities = np.stack([saved.probabilities(seed, layer, list(names)) for layer in range(saved.layers)])
            for place, text_id in enumerate(targets.texts):
                members = np.flatnonzero(targets.text == place)
                about = (
                    saved.task,
                    names[text_id],
                    targets.words[members],
                    probabilities[:, members],
                    saved.labels,
                    targets.gold[members],
                    seed,
                )
                rows += trace_rows(*about, rated=targets.rated[members])
    traces = pd.DataFrame(rows, columns=list(TraceRow._fields))
    bare = [name for name in named.values() if name not in set(traces["text_id"])]
    if bare:
        raise InputError(
            f"no task has a target in {', '.join(bare)}, or there are no cumulative probes; name another text"
        )
    # As they were asked for; within a text by task.
    place = {name: position for position, name in enumerate(named.values())}
    traces = traces.sort_values("text_id", key=lambda ids: ids.map(place), kind="stable", ignore_index=True)
    tables = {"traces": traces, "words": words_table((name, words[key]) for key, name in named.items())}
    return tables, {f"task without traces: {saved.task} ({saved.reason})": 1 for saved in whole if saved.reason}


def _text_of(words: Mapping[tuple[str, str], Sequence[str]], requested: str) -> tuple[str, str]:
    """The corpus and the id of a text that was asked for by its id, or by CORPUS:ID."""
    keys = [key for key in words if requested in (key[1], f"{key[0]}:{key[1]}")]
    if not keys:
        near = get_close_matches(requested, dict.fromkeys(text_id for _, text_id in words), 3)
        advice = (
            f"did you mean {', '.join(near)}?" if near else f"ids look like {next(iter(words))[1]}" if words else ""
        )
        raise InputError(f"there is no scored text {requested!r} in the result; {advice}")
    if len(keys) > 1:
        both = " or ".join(f"{corpus}:{text_id}" for corpus, text_id in keys)
        raise InputError(f"several corpora have a text {requested!r}; name one of them as --text {both}")
    return keys[0]


def _parse_mark(mark: str) -> MarkedTarget:
    task, *spans = mark.split(":")
    try:
        ends = [[int(end) for end in span.split("-")] for span in spans]
        first, *second = [Span(end[0], end[-1] + 1) for end in ends if len(end) <= 2]
        if len(second) > 1 or len(ends) != 1 + len(second):
            raise ValueError
    except ValueError:
        raise InputError(
            f"the mark {mark!r} cannot be read; write TASK:SPAN or TASK:SPAN:SPAN, a span being a word's number or "
            "FIRST-LAST, as dep:2:1 or ner:3-4"
        ) from None
    return MarkedTarget(task, first, *second)


class TracedTarget(NamedTuple):
    """What one seed's probes say of one target."""

    task: str
    spans: list[str]
    """As start:end."""
    labels: dict[str, list[float]]
    """Label -> its probability, layer by layer."""
    gold: frozenset[str]


def _targets(result: Result) -> Iterator[tuple[list[str], list[TracedTarget]]]:
    """The words of each sentence and its targets, by the probes of the first seed."""
    table = result.tables["traces"]
    for text_id, of_text in table[table["seed"] == table["seed"].min()].groupby("text_id", sort=False):
        targets = []
        for (task, *spans), rows in of_text.groupby(["task", "span1", "span2"], sort=False, dropna=False):
            ordered = rows.sort_values("layer", kind="stable").groupby("label", sort=False)["probability"]
            labels = {label: ordered.get_group(label).tolist() for label in dict.fromkeys(rows["label"])}
            gold = frozenset(rows.loc[rows["gold"].astype(str) == "True", "label"])
            targets.append(
                TracedTarget(str(task), [span for span in spans if isinstance(span, str) and span], labels, gold)
            )
        yield _words(result, str(text_id)), targets


def _words(result: Result, text_id: str) -> list[str]:
    table = result.tables.get("words")
    return [] if table is None else table[table["text_id"] == text_id].sort_values("position")["word"].tolist()


def _spans_in_words(words: list[str], spans: list[str]) -> str:
    ends = [[int(part) for part in span.split(":")] for span in spans]
    return " + ".join(" ".join(words[start:end]) or f"{start}:{end}" for start, end in ends)


@trace.finds
def _findings(result: Result) -> Iterable[Finding]:
    """What is revised and after what; single sentences are shown, nothing is claimed of them."""
    if "revisions" in result.tables:
        yield from revision_findings(result.tables["revisions"], result.tables["revised_after"])


_BARS = "▁▂▃▄▅▆▇█"


@trace.shows
def _overview(result: Result) -> Iterable[Overview | str]:
    """Each sentence with its words numbered, then one line per label: bars by layer, first and last probability."""
    yield from _revised(result)
    table = result.tables["traces"]
    if table.empty:
        return
    seed = table["seed"].min()
    last, changed = table["layer"].max(), list(_changed(result))
    yield f"probabilities by layer, 0 to {last}; probes of seed {seed}; * gold"
    yield f"{sum(changed)} of {len(changed)} targets have another strongest label at layer {last} than at layer 0"
    for words, targets in _targets(result):
        yield ""
        yield (
            " ".join(f"{position}:{word}" for position, word in enumerate(words))
            or "(the words of this sentence are not kept)"
        )
        width = max(len(label) for target in targets for label in target.labels)
        for target in targets:
            yield f"  {target.task}  {_spans_in_words(words, target.spans)}"
            for label, series in target.labels.items():
                mark = "*" if label in target.gold else " "
                yield f"   {mark}{label:<{width}}  {_bars(series)}  {series[0]:.2f} to {series[-1]:.2f}"


def _changed(result: Result) -> Iterator[bool]:
    """Of every target that is shown, whether its strongest label is another at the last layer than at the first."""
    for _, targets in _targets(result):
        for target in targets:
            first, final = (max(target.labels, key=lambda label: target.labels[label][layer]) for layer in (0, -1))
            yield first != final


def _revised(result: Result) -> Iterator[Overview]:
    if "revisions" not in result.tables:
        return
    whole = result.tables["revisions"]
    rows = [
        (row.task, row.targets, cell(row.revised, row.low, row.high), cell(row.mended), cell(row.spoiled))
        for row in rows_of(whole[whole["layer"].isna()])
    ]
    yield Overview("Decisions revised on the way up", ("task", "targets", "revised", "mended", "spoiled"), rows)
    pairs = result.tables["revised_after"]
    rows = [
        (
            row.task_a,
            row.task_b,
            round(row.pairs),
            cell(row.observed, row.low, row.high),
            cell(row.shuffled),
            cell(row.p_adjusted),
        )
        for row in rows_of(pairs[pairs["measure"] == AFTER_REVISED])
    ]
    if rows:
        columns = ("task", "after", "pairs", "observed", "shuffled", "p (max-T)")
        yield Overview("Last revised after the other task, where both are revised", columns, rows)


def _bars(probabilities: list[float]) -> str:
    """One character per probability."""
    return "".join(_BARS[min(int(probability * len(_BARS)), len(_BARS) - 1)] for probability in probabilities)


# A typed sentence: saved probes applied to it, and its words at every layer. The app's sentence view shows these.

ID = "typed"
"""Id of the only text."""

EVERY_WORD = ("pos",)
"""Tasks of single words, for which every word is a target. A probe of any other task has only seen spans that are
targets, so there the user marks the spans."""

_MARKED = "marked"
"""The annotation that holds the targets to trace."""


class MarkedTarget(NamedTuple):
    """A target that the user marked."""

    task: str
    span1: Span
    span2: Span | None = None


class TracedTask(NamedTuple):
    """A task that there are saved probes for."""

    arity: int
    """Spans per target."""
    labels: tuple[str, ...]


class Beliefs(NamedTuple):
    """What the probes of one task and seed predict for some targets. Every label has a probability of its own."""

    task: str
    seed: int
    labels: tuple[str, ...]
    words: Int[np.ndarray, "target span 2"]
    """First word and one past the last, for every span."""
    probabilities: Float[np.ndarray, "layer target label"]
    """Under P(0)..P(L)."""


class SentenceTracer:
    """Saved probes, read once and applied to any number of sentences.

    Example:
        >>> tracer = SentenceTracer(lamina.load_encoder("minilm"), "results/probe")  # doctest: +SKIP
        >>> tracer.beliefs(["he", "smoked", "toronto"])[0].probabilities.shape  # doctest: +SKIP
        (7, 3, 17)
    """

    def __init__(self, encoder: Encoder, probes: Result | str | Path) -> None:
        """`probes` is a probing result of this very encoder, or its folder."""
        probed = as_result(probes)
        self._encoder, self._saved = _same_model(encoder, probed, _saved_probes(probed))

    @property
    def tasks(self) -> dict[str, TracedTask]:
        """Task -> number of spans and labels of its probes."""
        return {saved.task: TracedTask(saved.probes.arity, saved.labels) for saved in self._saved}

    @property
    def seeds(self) -> tuple[int, ...]:
        """Of the probes."""
        return tuple(sorted({saved.seed for saved in self._saved}))

    def beliefs(self, words: Sequence[str], marked: Sequence[MarkedTarget] = ()) -> list[Beliefs]:
        """Of every word where the task is one of single words, and of the marked targets; one per task and seed."""
        text = Text(ID, tuple(words))
        targets = _edges_to_trace(self.tasks, text, marked)
        if not targets:
            return []
        activations = encode_sentence(self._encoder, text.words)
        return [
            _beliefs(saved, text, targets[saved.task], activations) for saved in self._saved if saved.task in targets
        ]


def over_seeds(beliefs: Sequence[Beliefs]) -> list[Beliefs]:
    """One per task: the mean of its probes of all seeds, under the first seed's number.

    Example:
        >>> one = Beliefs("pos", 0, ("X",), np.array([[[0, 1]]]), np.array([[[0.2]]]))
        >>> over_seeds([one, one._replace(seed=1, probabilities=np.array([[[0.4]]]))])[0].probabilities.round(3).item()
        0.3
    """
    by_task: dict[str, list[Beliefs]] = {}
    for of_seed in beliefs:
        by_task.setdefault(of_seed.task, []).append(of_seed)
    return [
        seeds[0]._replace(probabilities=np.mean([of_seed.probabilities for of_seed in seeds], axis=0))
        for seeds in by_task.values()
    ]


def most_changed(probabilities: Float[np.ndarray, "layer target label"]) -> int:
    """The target whose belief changes most over the layers: the sum over steps of the largest change of a label.

    Example:
        >>> most_changed(np.array([[[0.9, 0.1], [0.9, 0.1]], [[0.8, 0.2], [0.1, 0.9]]]))
        1
    """
    steps = np.abs(np.diff(probabilities, axis=0)).max(-1)
    return int(steps.sum(0).argmax())


MARGIN = 0.1
"""How far the final label leads the next one where a word counts as decided."""


def decided_at(probabilities: Float[np.ndarray, "layer label"], margin: float = MARGIN) -> int | None:
    """The first layer from which on the final label stays and leads by the margin; None where it never does.

    Example:
        >>> decided_at(np.array([[0.6, 0.4], [0.45, 0.5], [0.2, 0.7], [0.2, 0.8]]))
        2
        >>> decided_at(np.array([[0.2, 0.8], [0.5, 0.55]])) is None
        True
    """
    final = probabilities[-1].argmax()
    others = np.delete(probabilities, final, axis=1).max(1, initial=0.0)
    ahead = probabilities[:, final] - others >= margin
    after = np.flatnonzero(~ahead)
    first = int(after[-1]) + 1 if after.size else 0
    return first if first < len(probabilities) else None


def _saved_probes(probed: Result) -> list[SavedEdgeProbes]:
    """Cumulative probes of all layers; graded tasks have a value, and no labels whose probabilities could be shown."""
    saved = [SavedEdgeProbes(path) for name, path in probed.files.items() if name.endswith(".safetensors")]
    whole = [one for one in saved if one.probes.mixing == one.probes.closed.shape[1] and not one.graded]
    if not whole:
        raise ResultError("the result has no probes P(0)..P(L) to trace with; probe again with --probes cumulative")
    for one in whole:
        # Probes of single layers would cost as much again and are not shown.
        one.probes = one.probes.some(range(one.probes.mixing)).requires_grad_(False)
    return whole


def _same_model(
    encoder: Encoder, probed: Result, saved: list[SavedEdgeProbes]
) -> tuple[Encoder, list[SavedEdgeProbes]]:
    """The encoder in the form that was probed, and its probes; states of any other model would mean nothing to them."""
    parameters = probed.provenance.parameters
    as_published = {"faithful": bool(parameters.get("faithful")), "practices": parameters.get("practices") or ()}
    seen = probing_encoder(encoder, **as_published, seed=int(parameters.get("seed", 0)))
    fitting = [one for one in saved if one.encoder == seen.fingerprint]
    if not fitting:
        raise ModelError(
            f"the probes were trained on {probed.provenance.model['name']} with other weights or settings "
            f"than this {encoder.name}; load the model as it was, or probe this one first"
        )
    return seen, fitting


def _edges_to_trace(
    tasks: dict[str, TracedTask], text: Text, marked: Sequence[MarkedTarget]
) -> dict[str, tuple[Edge, ...]]:
    """Task -> its targets in the sentence."""
    words = range(len(text.words))
    targets = {task: [Edge((), Span(word, word + 1)) for word in words] for task in EVERY_WORD if task in tasks}
    for task, span1, span2 in marked:
        if task not in tasks:
            raise TaskError(f"there are no probes of {task!r} here; there are: {', '.join(tasks)}")
        arity = tasks[task].arity
        if arity != 1 + (span2 is not None):
            raise SpanError(f"{task} asks about {'one span' if arity == 1 else 'a pair of spans'}; mark as many")
        edge = Edge((), span1, span2)
        if edge not in targets.setdefault(task, []):
            targets[task].append(edge)
    # Checks that every span lies inside the sentence.
    Text(ID, text.words, edges={task: tuple(edges) for task, edges in targets.items()})
    return {task: tuple(edges) for task, edges in targets.items()}


class _SentenceStates:
    """The hidden states of one sentence, as a `Stream` of targets reads them."""

    def __init__(self, states: torch.Tensor) -> None:
        self.resident = states
        self.token_bytes = states[0].nbytes

    def start(self, index: int) -> int:
        return 0

    def size(self, index: int) -> int:
        return len(self.resident)

    def load(self, index: int) -> torch.Tensor:
        return self.resident


def _beliefs(saved: SavedEdgeProbes, text: Text, edges: tuple[Edge, ...], activations: Activations) -> Beliefs:
    if activations.states is None:
        raise ModelError("the sentence was encoded without its states")
    # A task without its filters: the user decides what is a target.
    task = Task(saved.task, saved.task, _MARKED, edges[0].arity)
    targets = find_targets(task, [Text(ID, text.words, edges={_MARKED: edges})], [activations.tokens], saved.labels)
    (batch,) = Stream(_SentenceStates(activations.states), targets, standard=saved.standard).in_order()
    probabilities = np.empty((saved.probes.mixing, len(targets), len(saved.labels)))
    probabilities[:, batch.rows] = predict(saved, batch).numpy()
    return Beliefs(saved.task, saved.seed, saved.labels, targets.words, probabilities)


def encode_sentence(encoder: Encoder, words: Sequence[str], want: Collection[Want] = STATES) -> Activations:
    """The words in one pass through the model; hidden states in the precision of a store.

    Example:
        >>> from lamina.testing import TinyEncoder
        >>> activations = encode_sentence(TinyEncoder(), ["Dogs", "bark"], ("states", "maps"))
        >>> activations.states.dtype, tuple(activations.maps.shape)
        (torch.float16, (2, 2, 6, 6))
    """
    activations = next(iter(encoder.encode([Text(ID, tuple(words))], want)))
    states = activations.states
    return (
        activations if states is None else replace(activations, states=_as_stored(states, default_precision(encoder)))
    )


def _as_stored(states: torch.Tensor, precision: StatePrecision) -> torch.Tensor:
    """Probes are trained on stored states: two bytes per number, unless some value is too large for that."""
    half = states.to(getattr(torch, precision))
    if half.isfinite().all():
        return half
    if not states.isfinite().all():
        raise ModelError("the model gave values that are not numbers (inf or nan); load it in float32")
    return states


def word_vectors(activations: Activations, words: int) -> Float[torch.Tensor, "layer word width"]:
    """Every word at every layer: the mean of its tokens, special tokens left out.

    Example:
        >>> from lamina.testing import TinyEncoder
        >>> tuple(word_vectors(encode_sentence(TinyEncoder(), ["Dogs", "bark"]), 2).shape)
        (3, 2, 16)
    """
    if activations.states is None:
        raise ModelError("the sentence was encoded without its states")
    word_of = torch.from_numpy(activations.tokens.words).long()
    inside = word_of != SPECIAL
    tokens = activations.states[inside].float().transpose(0, 1)
    counts = torch.bincount(word_of[inside], minlength=words).unsqueeze(1)
    summed = torch.zeros(len(tokens), words, tokens.shape[2]).index_add_(1, word_of[inside], tokens)
    return summed / counts


class WordPaths(NamedTuple):
    """The place of every word at every layer, in two dimensions."""

    places: Float[Tensor, "layer word 2"]
    explained: tuple[float, float]
    """The share of all variance along each axis."""


def token_paths(vectors: Float[Tensor, "layer word width"]) -> WordPaths:
    """One PCA over all words at all layers, so that a word's places can be joined to a path.

    Vectors are scaled to length 1 first: layers differ in length by factors, and the longest would hide all others.
    An axis is turned so that words move towards its positive side.

    Example:
        >>> vectors = torch.tensor([[[1.0, 0.0, 0.0]], [[0.0, 1.0, 0.0]], [[0.0, 0.0, 2.0]]])
        >>> paths = token_paths(vectors)
        >>> tuple(paths.places.shape), round(sum(paths.explained), 6)
        ((3, 1, 2), 1.0)
    """
    layers, words, width = vectors.shape
    points = torch.nn.functional.normalize(vectors.double(), dim=-1).reshape(-1, width)
    values, along = _principal_axes(points - points.mean(0))
    places = torch.nn.functional.pad(along, (0, 2 - along.shape[1])).reshape(layers, words, 2)
    forwards = (places[-1] - places[0]).sum(0)
    total = max(float(values.sum()), 1e-12)
    shares = [*(values[:2] / total).tolist(), 0.0]
    return WordPaths(places * torch.where(forwards < 0, -1.0, 1.0), (shares[0], shares[1]))


def _principal_axes(points: Float[Tensor, "point width"]) -> tuple[Float[Tensor, " axis"], Float[Tensor, "point two"]]:
    """The variance along every axis, the largest first, and the points' coordinates on the first two."""
    count, width = points.shape
    # Both products have the same positive values; a sentence has fewer points than dimensions, a long text more.
    values, axes = torch.linalg.eigh(points.T @ points if count > width else points @ points.T)
    values, axes = values.clamp_min(0).flip(0), axes.flip(1)[:, :2]
    return values, points @ axes if count > width else axes * values[:2].sqrt()


def farthest_travelled(vectors: Float[Tensor, "layer word width"], words: Sequence[str]) -> int:
    """The word whose direction differs most between first and last layer; punctuation only if there are no words.

    Example:
        >>> vectors = torch.tensor([[[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]], [[0.9, 0.1], [0.5, 0.5], [1.0, 0.0]]])
        >>> farthest_travelled(vectors, ["Dogs", "bark", "."])
        1
    """
    alike = torch.cosine_similarity(vectors[0], vectors[-1], dim=-1)
    punctuation = torch.tensor([not any(letter.isalnum() for letter in word) for word in words])
    return int(torch.where(punctuation, alike + 2, alike).argmin())
