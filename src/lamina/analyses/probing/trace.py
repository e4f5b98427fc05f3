"""How a decision about one target comes about, layer by layer: the probability of its labels under P(0)..P(L)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NamedTuple

import numpy as np
import pandas as pd

from lamina.analyses.probing.ambiguity import WORDS, Trace, trace_rows, words_table
from lamina.analyses.probing.decisions import saved_predictions, saved_words
from lamina.analyses.probing.live import Marked, SentenceTracer
from lamina.analyses.probing.revisions import (
    AFTER_REVISED,
    RevisedAfter,
    Revision,
    revision_findings,
    revision_tables,
)
from lamina.analyses.typed_sentence import ID
from lamina.corpora.corpus import fingerprint_of
from lamina.corpora.tokenising import split_words
from lamina.errors import InputError, ResultError
from lamina.framework.declare import Overview, Table, Tables, analysis
from lamina.framework.inputs import Input, LoadedInputs, Reads, Sentence, as_encoder, as_result, describe_models
from lamina.framework.settings import DeclaredSetting, Samples, Seed, Setting
from lamina.models import Encoder
from lamina.results import Result
from lamina.results.finding import Finding, cell, rows_of
from lamina.types import Span

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
        "traces": Table("One row per target, label, layer and seed.", Trace._fields),
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
        return Tables(_kept(probed, needed=not revisions) | revisions, skipped, seeds=probed.provenance.seeds)
    tracer = SentenceTracer(encoder, probed)
    told = tracer.beliefs(words, [_marked(each) for each in marks])
    if not told:
        raise InputError(f"mark the spans to trace (--mark); there are probes of: {', '.join(tracer.tasks)}")
    rows: list[Trace] = []
    for task, seed_, labels, spans, probabilities in told:
        rows += trace_rows(task, ID, spans, probabilities, labels, None, seed_)
    traces = pd.DataFrame(rows, columns=list(Trace._fields))
    return Tables({"traces": traces, "words": words_table([(ID, words)])}, seeds=tracer.seeds)


def _kept(probed: Result, *, needed: bool) -> dict[str, pd.DataFrame]:
    """The ambiguous sentences that probing kept; there may be none unless they are `needed`."""
    tables = {name: probed.tables[name] for name in ("traces", "words") if name in probed.tables}
    if needed and ("traces" not in tables or tables["traces"].empty):
        raise InputError(
            "the result has no traces: there is no sentence with two ambiguous targets, or no cumulative probes; "
            "give a sentence of your own, or probe with --probes cumulative"
        )
    return {"traces": pd.DataFrame(columns=list(Trace._fields))} | tables


def _revisions(
    probed: Result, *, samples: int, shuffles: int, seed: int
) -> tuple[dict[str, pd.DataFrame], dict[str, int]]:
    """How often decisions are revised, by the saved predictions, and what was left out and why."""
    early = _not_converged(probed)
    decided, skipped = [], {}
    for each in saved_predictions(probed):
        if reason := each.reason or ("probes that have not converged" if each.task in early else ""):
            skipped[f"task without revisions: {each.task} ({reason})"] = 1
        else:
            decided.append(each.decisions())
    if not decided:
        return {}, skipped
    own, pairs = revision_tables(decided, samples=samples, shuffles=shuffles, seed=seed)
    return {"revisions": own, "revised_after": pairs}, skipped


def _not_converged(probed: Result) -> set[str]:
    """The tasks with a cumulative probe of the model that was still learning at its end; older results do not say."""
    training = probed.tables.get("training")
    if training is None:
        return set()
    asked = (training["of"] == "model") & (training["probe"] == "cumulative")
    return set(training.loc[asked & ~training["converged"].astype(bool), "task"])


def _by_id(probed: Result, asked: Sequence[str]) -> tuple[dict[str, pd.DataFrame], dict[str, int]]:
    """Every target of these texts, by the saved predictions of every task; and what cannot be shown and why."""
    words = saved_words(probed)
    named = {_text_of(words, each): each for each in asked}
    rows: list[Trace] = []
    whole = saved_predictions(probed)
    for saved in (each for each in whole if not each.reason):
        own = {text_id: name for (corpus, text_id), name in named.items() if corpus == saved.corpus}
        targets = saved.targets(list(own))
        for seed in saved.seeds if len(targets) else ():
            told = np.stack([saved.probabilities(seed, layer, list(own)) for layer in range(saved.layers)])
            for place, text_id in enumerate(targets.texts):
                at = np.flatnonzero(targets.text == place)
                about = (saved.task, own[text_id], targets.words[at], told[:, at], saved.labels, targets.gold[at], seed)
                rows += trace_rows(*about, rated=targets.rated[at])
    traces = pd.DataFrame(rows, columns=list(Trace._fields))
    bare = [each for each in named.values() if each not in set(traces["text_id"])]
    if bare:
        raise InputError(
            f"no task has a target in {', '.join(bare)}, or there are no cumulative probes; name another text"
        )
    # As they were asked for; within a text by task.
    place = {each: at for at, each in enumerate(named.values())}
    traces = traces.sort_values("text_id", key=lambda ids: ids.map(place), kind="stable", ignore_index=True)
    tables = {"traces": traces, "words": words_table((name, words[key]) for key, name in named.items())}
    return tables, {f"task without traces: {each.task} ({each.reason})": 1 for each in whole if each.reason}


def _text_of(words: Mapping[tuple[str, str], Sequence[str]], asked: str) -> tuple[str, str]:
    """The corpus and the id of a text that was asked for by its id, or by CORPUS:ID."""
    found = [key for key in words if asked in (key[1], f"{key[0]}:{key[1]}")]
    if not found:
        near = get_close_matches(asked, dict.fromkeys(text_id for _, text_id in words), 3)
        said = f"did you mean {', '.join(near)}?" if near else f"ids look like {next(iter(words))[1]}" if words else ""
        raise InputError(f"there is no scored text {asked!r} in the result; {said}")
    if len(found) > 1:
        both = " or ".join(f"{corpus}:{text_id}" for corpus, text_id in found)
        raise InputError(f"several corpora have a text {asked!r}; name one of them as --text {both}")
    return found[0]


def _marked(said: str) -> Marked:
    task, *spans = said.split(":")
    try:
        ends = [[int(end) for end in span.split("-")] for span in spans]
        first, *second = [Span(end[0], end[-1] + 1) for end in ends if len(end) <= 2]
        if len(second) > 1 or len(ends) != 1 + len(second):
            raise ValueError
    except ValueError:
        raise InputError(
            f"the mark {said!r} cannot be read; write TASK:SPAN or TASK:SPAN:SPAN, a span being a word's number or "
            "FIRST-LAST, as dep:2:1 or ner:3-4"
        ) from None
    return Marked(task, first, *second)


class _Target(NamedTuple):
    """What one seed's probes say of one target."""

    task: str
    spans: list[str]
    """As start:end."""
    labels: dict[str, list[float]]
    """Label -> its probability, layer by layer."""
    gold: frozenset[str]


def _targets(result: Result) -> Iterator[tuple[list[str], list[_Target]]]:
    """The words of each sentence and its targets, by the probes of the first seed."""
    table = result.tables["traces"]
    for text_id, of_text in table[table["seed"] == table["seed"].min()].groupby("text_id", sort=False):
        targets = []
        for (task, *spans), rows in of_text.groupby(["task", "span1", "span2"], sort=False, dropna=False):
            ordered = rows.sort_values("layer", kind="stable").groupby("label", sort=False)["probability"]
            labels = {label: ordered.get_group(label).tolist() for label in dict.fromkeys(rows["label"])}
            gold = frozenset(rows.loc[rows["gold"].astype(str) == "True", "label"])
            targets.append(_Target(str(task), [span for span in spans if isinstance(span, str) and span], labels, gold))
        yield _words(result, str(text_id)), targets


def _words(result: Result, text_id: str) -> list[str]:
    table = result.tables.get("words")
    return [] if table is None else table[table["text_id"] == text_id].sort_values("position")["word"].tolist()


def _said(words: list[str], spans: list[str]) -> str:
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
        yield " ".join(f"{at}:{word}" for at, word in enumerate(words)) or "(the words of this sentence are not kept)"
        width = max(len(label) for target in targets for label in target.labels)
        for target in targets:
            yield f"  {target.task}  {_said(words, target.spans)}"
            for label, series in target.labels.items():
                mark = "*" if label in target.gold else " "
                yield f"   {mark}{label:<{width}}  {_bars(series)}  {series[0]:.2f} to {series[-1]:.2f}"


def _changed(result: Result) -> Iterator[bool]:
    """Of every target that is shown, whether its strongest label is another at the last layer than at the first."""
    for _, targets in _targets(result):
        for target in targets:
            first, final = (max(target.labels, key=lambda label: target.labels[label][at]) for at in (0, -1))
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
    return "".join(_BARS[min(int(each * len(_BARS)), len(_BARS) - 1)] for each in probabilities)
