"""How a decision about one target comes about, layer by layer: the probability of its labels under P(0)..P(L)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float, Int

from lamina.analyses.declaration import Table, Tables, analysis
from lamina.analyses.findings import number
from lamina.analyses.inputs import Input, Loaded, Reads, Sentence, as_encoder, as_result
from lamina.analyses.settings import Declared, Setting
from lamina.corpora.corpus import fingerprint_of
from lamina.corpora.tokenising import split_words
from lamina.encoders import Encoder
from lamina.errors import InputError, ResultError
from lamina.results import Finding, Result

if TYPE_CHECKING:
    from lamina.activations import Runtime
    from lamina.analyses.probing.live import Marked

UNSURE = 0.7
"""A target is ambiguous where even its best label's mean probability over layers is not above this."""
_READABLE = 20
"""Words of a sentence that is easy to show; longer ones come last."""


class Trace(NamedTuple):
    """One row of `traces.csv`."""

    text_id: str
    task: str
    seed: int
    span1: str
    """Words, as start:end."""
    span2: str
    """The same of the second span; empty where there is none."""
    label: str
    gold: bool | None
    """Whether the label holds; None where that is not known, as in a sentence the user typed."""
    layer: int
    """The last layer the probe may look at."""
    probability: float


def ambiguous_targets(probabilities: Float[np.ndarray, "layer target label"]) -> Bool[np.ndarray, " target"]:
    """Which targets are ambiguous by the paper's rule.

    Example:
        >>> ambiguous_targets(np.array([[[0.9, 0.1], [0.2, 0.8]], [[0.9, 0.1], [0.8, 0.2]]])).tolist()
        [False, True]
    """
    return np.mean(probabilities, axis=0, dtype=np.float64).max(-1) <= UNSURE


def ambiguous_texts(
    text: Int[np.ndarray, " target"],
    ambiguous: Bool[np.ndarray, " target"],
    lengths: Sequence[int],
    most: int = 8,
) -> list[int]:
    """The texts with more than one ambiguous target: at most `most`, short ones with many such targets first.

    Example:
        >>> owners = np.array([0, 0, 1, 2, 2, 2])
        >>> ambiguous_texts(owners, np.array([True, True, True, True, True, True]), [5, 5, 5])
        [2, 0]
    """
    unsure = np.bincount(text[ambiguous], minlength=len(lengths))
    found = np.flatnonzero(unsure > 1).tolist()
    return sorted(found, key=lambda number: (lengths[number] > _READABLE, -unsure[number], number))[:most]


def trace_rows(
    task: str,
    text_id: str,
    words: Int[np.ndarray, "target span 2"],
    probabilities: Float[np.ndarray, "layer target label"],
    labels: Sequence[str],
    gold: Bool[np.ndarray, "target label"] | None,
    seed: int,
    *,
    rated: Bool[np.ndarray, "target label"] | None = None,
) -> list[Trace]:
    """For each target its gold labels and the wrong one with the highest mean probability over layers.

    Where the gold labels are not known, the two labels with the highest mean probability. A label that was not
    `rated` is neither right nor wrong, and is not shown.

    Example:
        >>> rows = trace_rows("pos", "s1", np.array([[[0, 1]]]), np.array([[[0.9, 0.4]], [[0.2, 0.7]]]),
        ...                   ["X", "Y"], np.array([[False, True]]), seed=0)
        >>> [(row.label, row.gold, row.layer, row.probability) for row in rows]
        [('Y', True, 0, 0.4), ('Y', True, 1, 0.7), ('X', False, 0, 0.9), ('X', False, 1, 0.2)]
    """
    rows = []
    for target, spans in enumerate(words):
        said = [f"{start}:{end}" for start, end in spans.tolist()]
        places = (text_id, task, seed, said[0], said[1] if len(said) > 1 else "")
        own = probabilities[:, target]
        mask = None if rated is None else rated[target]
        for column, holds in _shown(own, None if gold is None else gold[target], mask):
            series = np.round(own[:, column].astype(np.float64), 5).tolist()
            rows += [Trace(*places, labels[column], holds, layer, each) for layer, each in enumerate(series)]
    return rows


def _shown(
    probabilities: Float[np.ndarray, "layer label"], gold: np.ndarray | None, rated: np.ndarray | None
) -> list[tuple[int, bool | None]]:
    """The columns to show of one target, and whether each holds."""
    order = np.argsort(-np.mean(probabilities, axis=0, dtype=np.float64), kind="stable")
    if rated is not None:
        order = order[rated[order]]
    if gold is None:
        return [(column, None) for column in order[:2].tolist()]
    shown = np.concatenate([np.flatnonzero(gold), order[~gold[order]][:1]])
    return [(column, bool(gold[column])) for column in shown.tolist()]


WORDS = ("text_id", "position", "word")
"""Columns of `words.csv`."""


def words_table(texts: Iterable[tuple[str, Sequence[str]]]) -> pd.DataFrame:
    """Texts, as (id, words), one row per word: what a figure marks the traced spans in.

    Example:
        >>> words_table([("s1", ["Dogs", "bark"])]).to_dict("list")
        {'text_id': ['s1', 's1'], 'position': [0, 1], 'word': ['Dogs', 'bark']}
    """
    rows = [(text_id, position, word) for text_id, words in texts for position, word in enumerate(words)]
    return pd.DataFrame(rows, columns=list(WORDS))


class ProbedSentence(Reads):
    """A probing result; and a sentence with the model that was probed, where one is typed."""

    inputs: ClassVar = (
        Input("result", "A folder that `lamina probe` wrote.", metavar="RESULT_DIR"),
        Input("sentence", "A sentence of your own, in quotes; needs --model.", default=None, metavar="SENTENCE"),
        Input("model", "The model that was probed, to encode your sentence with.", default=None, option="--model"),
    )

    @property
    def options(self) -> tuple[Declared, ...]:
        """See `Reads.options`."""
        return Sentence().options

    def load(
        self, given: Mapping[str, Any], options: Mapping[str, Any], settings: Mapping[str, Any], runtime: Runtime
    ) -> Loaded:
        """See `Reads.load`."""
        probed, sentence, model = as_result(given["result"]), given["sentence"], given["model"]
        if probed.analysis != "probe":
            raise ResultError(f"a {probed.analysis!r} result has no probes; name a folder that `lamina probe` wrote")
        about = probed.provenance
        if sentence is None:
            if model is not None or settings["marks"]:
                raise InputError("--model and --mark are for a sentence of your own; give one, in quotes")
            data = {**about.corpus, "fingerprint": fingerprint_of(probed.key), "probes": probed.key}
            names = (Path(str(about.model["name"])).name, Path(str(about.corpus["name"])).stem)
            return Loaded((probed, None, None), about.model, data, names)
        if model is None:
            raise InputError("a sentence of your own has to be encoded: name the model that was probed with --model")
        words = split_words(sentence).words if isinstance(sentence, str) else tuple(sentence)
        if not words:
            raise InputError("the sentence has no words; give some")
        encoder = as_encoder(model, options, runtime)
        data = {"name": "a typed sentence", "split": "", "words": list(words), "probes": probed.key}
        data["fingerprint"] = fingerprint_of(probed.key, words)
        return Loaded((probed, words, encoder), encoder.describe(), data, (Path(encoder.name).name,))


@analysis(
    title="From layer to layer",
    question="What does each layer make of the words of one sentence?",
    method=(
        "Probes trained on a corpus are applied to the sentence; P(l) mixes layers 0 to l. A probe answers which label "
        "a given span has. It has never seen a span that is not a target, so spans are marked by hand for all tasks "
        "but part of speech."
    ),
    cites=("Tenney et al. 2019",),
    reads=ProbedSentence(),
    version=1,
    tables={
        "traces": Table("One row per target, label, layer and seed.", Trace._fields),
        "words": Table("One row per word of the sentences.", WORDS, optional=True),
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
) -> Tables:
    """The probability of labels under the probes P(0) to P(L), for ambiguous sentences or one of your own.

    Without a sentence: the ambiguous ones that probing found (more than one target whose best label has a mean
    probability of at most 0.7). With a sentence: part of speech of every word, and whatever you mark; a probe of any
    other task has never seen words that are not a target.

    Example:
        >>> trace("results/probe", "he smoked toronto", model="minilm", marks=["dep:2:1"]).chart()  # doctest: +SKIP
    """
    if words is None or encoder is None:
        return Tables(_kept(probed), seeds=probed.provenance.seeds)
    # Not above: probing imports the rows of this module, and a typed sentence imports probing.
    from lamina.analyses.probing.live import SentenceTracer
    from lamina.analyses.typed_sentence import ID

    tracer = SentenceTracer(encoder, probed)
    told = tracer.beliefs(words, [_marked(each) for each in marks])
    if not told:
        raise InputError(f"mark the spans to trace (--mark); there are probes of: {', '.join(tracer.tasks)}")
    rows: list[Trace] = []
    for task, seed, labels, spans, probabilities in told:
        rows += trace_rows(task, ID, spans, probabilities, labels, None, seed)
    traces = pd.DataFrame(rows, columns=list(Trace._fields))
    return Tables({"traces": traces, "words": words_table([(ID, words)])}, seeds=tracer.seeds)


def _kept(probed: Result) -> dict[str, pd.DataFrame]:
    """The ambiguous sentences that probing kept."""
    tables = {name: probed.tables[name] for name in ("traces", "words") if name in probed.tables}
    if "traces" not in tables or tables["traces"].empty:
        raise InputError(
            "the result has no traces: there is no sentence with two ambiguous targets, or no cumulative probes; "
            "give a sentence of your own, or probe with --probes cumulative"
        )
    return tables


def _marked(said: str) -> Marked:
    from lamina.analyses.probing.live import Marked
    from lamina.types import Span

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
    """How many targets end with another label than they begin with; probes of one seed have no interval."""
    table = result.tables["traces"]
    if table.empty:
        return
    last, seed = int(table["layer"].max()), table["seed"].min()
    count, changed = 0, []
    for words, targets in _targets(result):
        for target in targets:
            count += 1
            first, final = (max(target.labels, key=lambda label: target.labels[label][at]) for at in (0, -1))
            if first != final:
                ends = [target.labels[label][at] for label, at in ((first, 0), (final, -1))]
                changed.append((sum(ends), f"{_said(words, target.spans)} ({target.task})", first, final, ends))
    text = f"{len(changed)} of {count} targets have another strongest label at layer {last} than at layer 0"
    if changed:
        _, name, first, final, ends = max(changed)
        text += f", as {name}: {first} {number(ends[0])} at layer 0, {final} {number(ends[1])} at layer {last}"
    yield Finding(f"{text}; probes of seed {seed} alone, no interval.", "open", len(changed) / count)


_BARS = "▁▂▃▄▅▆▇█"


@trace.shows
def _overview(result: Result) -> Iterable[str]:
    """Each sentence with its words numbered, then one line per label: bars by layer, first and last probability."""
    table = result.tables["traces"]
    seed = table["seed"].min()
    yield f"probabilities by layer, 0 to {table['layer'].max()}; probes of seed {seed}; * gold"
    for words, targets in _targets(result):
        yield ""
        yield " ".join(f"{at}:{word}" for at, word in enumerate(words)) or "(the words of this sentence are not kept)"
        width = max(len(label) for target in targets for label in target.labels)
        for target in targets:
            yield f"  {target.task}  {_said(words, target.spans)}"
            for label, series in target.labels.items():
                mark = "*" if label in target.gold else " "
                yield f"   {mark}{label:<{width}}  {_bars(series)}  {series[0]:.2f} to {series[-1]:.2f}"


def _bars(probabilities: list[float]) -> str:
    """One character per probability."""
    return "".join(_BARS[min(int(each * len(_BARS)), len(_BARS) - 1)] for each in probabilities)
