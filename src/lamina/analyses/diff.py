"""What fine-tuning changed, layer by layer: representations, heads, and what probes find."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, NamedTuple

import numpy as np
import pandas as pd

from lamina.activations import Runtime
from lamina.analyses.behaviour.item_changes import (
    ASKED,
    ITEMS,
    Changed,
    TwoSpeakers,
    asking_cost,
    changed_items,
    changes_in_words,
    changes_shown,
)
from lamina.analyses.compare import layer_differences
from lamina.analyses.declaration import Overview, Table, Tables, analysis
from lamina.analyses.estimate import Cost, Estimator
from lamina.analyses.given_data import as_result
from lamina.analyses.legacy import legacy_finding, status_of
from lamina.analyses.models import describe_models
from lamina.analyses.probing.probe import probe
from lamina.analyses.settings import Preset, Samples, Seed, Seeds, Setting, Weights
from lamina.analyses.similarity import compare_heads, compare_layer, over_models
from lamina.analyses.watching import Weighting
from lamina.corpora import Corpus
from lamina.corpora.learning import Splits
from lamina.encoders import Encoder
from lamina.errors import CorpusError, InputError, ModelError
from lamina.findings import Finding, cell, layers_in_words, number, rows_of
from lamina.progress import progress
from lamina.results import Result
from lamina.training.provenance import unseen


class Difference(NamedTuple):
    """One row of `diff.csv`."""

    layer: int
    """0 is the embedding layer; heads have layers from 1 on."""
    head: int | None
    """From 1 on; None where a measure is of the layer."""
    measure: str
    """cka, cosine, attention_similarity; of a probed task T probe_a:T, probe_b:T and probe_difference:T (b - a)."""
    value: float
    low: float
    high: float
    baseline: float
    """What the value is compared with; see `diff`."""


@analysis(
    title="What fine-tuning changed",
    question="At which layers and in which heads does the fine-tuned model differ from the one it came from?",
    method=(
        "On texts that neither model was tuned on, we take at each layer the debiased linear CKA of word vectors and "
        "the mean cosine of a word with itself, and for each head the mean cosine of its attention maps before and "
        "after. They are compared with the random-weights twin, with words of different texts, and with the other "
        "heads of the layer; 95 % intervals leave out groups of texts (CKA) or resample texts. Suites of minimal pairs "
        "and clozes are asked of both models and compared item by item."
    ),
    cites=("Kornblith et al. 2019",),
    reads=TwoSpeakers(),
    version=3,  # differences of probes are paired by text
    tables={
        "diff": Table(
            "One row per layer and measure, and per head for attention_similarity: the value, its interval and its "
            "baseline; of several seeds the mean.",
            (*Difference._fields, "seeds"),
        ),
        "behaviour": Table(
            "One row per suite and group of items (all: the mean over groups): what both models say, and the "
            "difference after - before, paired by item.",
            Changed._fields,
            optional=True,
        ),
        "items": Table(
            "One row per item of a suite: its value before and after.", ITEMS, optional=True, kept="parquet"
        ),
    },
    chapter="layers",
    example="lamina diff minilm runs/squad --corpus ewt --probe pos --out results/diff",
)
def diff(
    a: Sequence[Encoder],
    b: Sequence[Encoder],
    texts: Corpus | Splits,
    *,
    tasks: Annotated[Sequence[str], Setting("A task to probe both models for.", option="--probe", metavar="TASK")] = (),
    probed: Annotated[
        Sequence[str | Result] | None,
        Setting(
            "Instead of probing here: a result of `lamina probe` of the model before, then one of the model after.",
            file=True,
            metavar="RESULT_DIR",
        ),
    ] = None,
    pairs: Annotated[
        str | None,
        Setting("Minimal pairs that both models are asked: blimp, syntaxgym or a file.", file=True, metavar="SUITE"),
    ] = None,
    cloze: Annotated[
        str | None,
        Setting("Clozes that both models are asked: lm_diagnostics, pararel or a file.", file=True, metavar="SUITE"),
    ] = None,
    items: Annotated[int | None, Setting("Most items per group of a suite; all by default.", min=1)] = None,
    attention: Annotated[bool, Setting("Compare attention heads too.")] = True,
    weights: Weights = "attention",
    twin: Annotated[bool, Setting("Measure CKA with the random-weights twin of the model before too.")] = True,
    preset: Preset = "quick",
    seeds: Seeds = None,
    samples: Samples = 1000,
    seed: Seed = 0,
    runtime: Runtime,
) -> Tables:
    """What changed from one model to another, layer by layer and head by head, on texts that neither was tuned on.

    - `cka`: debiased linear CKA of word vectors; baseline: of the model before and its random-weights twin.
    - `cosine`: mean cosine of a word before and the same word after; baseline: of words of different texts.
    - `attention_similarity`: mean cosine of a head's flattened maps; baseline: with the other heads of its layer.
    - `probe_a:TASK`, `probe_b:TASK`: F1 of single-layer probes trained and scored on the same texts; baseline: the
      best constant answer. `probe_difference:TASK` is b - a; its baseline is 0.
    - Suites (`pairs`, `cloze`) are asked of both as `lamina pairs` and `lamina cloze` ask them, and compared item by
      item; both models need a language-model head.

    Both models have one architecture: a pretrained one and what fine-tuning made of it. Either may be a folder of
    `finetune --seeds`: values are then means over its models. Texts that lamina fine-tuned either model on are left out
    and counted, of the training texts of probes too; questions are shown as they were in fine-tuning. Intervals are
    95 %: of CKA by leaving out groups of texts, of probes as `compare` makes them, else by bootstrap over texts; from 5
    seeds on they are over texts and seeds together.

    Example:
        >>> lamina.diff("minilm", "runs/squad", "ewt", tasks=["pos"]).chart("layers")  # doctest: +SKIP
    """
    compared = _pairs(a, b)
    for one, other in compared:
        _refuse_unlike(one, other, attention=attention)
    given = _both_probed(a, b, probed, tasks)
    kept, skipped = _unseen(texts, (*a, *b))
    scored = kept.scored if isinstance(kept, Splits) else kept
    rows = list(_layers(compared, scored, twin=twin, samples=samples, seed=seed, runtime=runtime))
    untrusted = next((why for each in (*a, *b) if (why := each.refusal("maps")) is not None), None)
    if attention and untrusted is not None:
        skipped[f"heads not compared ({untrusted.rstrip('.')})"] = a[0].blocks * a[0].heads
    elif attention and a[0].heads:
        heads, left_out = _heads(compared, scored, samples=samples, seed=seed, weights=weights)
        rows += heads
        skipped |= left_out
    if tasks:
        asked: dict[str, Any] = {"tasks": list(tasks), "probes": ["layer"], "preset": preset, "seeds": seeds}
        asked |= {"twin": False, "samples": samples, "seed": seed, "runtime": runtime}
        given = (probe([*a], kept, **asked), probe([*b], kept, **asked))
    rows += _probes(given, samples=samples, seed=seed) if given else ()
    table = pd.DataFrame(rows, columns=list(Difference._fields)).astype({"head": "Int64"}).assign(seeds=len(compared))
    tables = {"diff": table}
    suites = _suites(pairs, cloze)
    found = [
        changed_items(name, suite, a, b, items=items, samples=samples, seed=seed, runtime=runtime)
        for name, suite in suites.items()
    ]
    if found:
        tables["behaviour"] = pd.DataFrame([row for each in found for row in each.rows], columns=list(Changed._fields))
        tables["items"] = pd.concat([each.items for each in found], ignore_index=True)
        skipped |= {why: count for each in found for why, count in each.left_out.items()}
    scored = given[0].provenance.corpus.get("scored", {}) if given else {}
    return Tables(tables, skipped, scored=scored, data=_about(kept, suites))


def _suites(pairs: str | None, cloze: str | None) -> dict[str, str]:
    """Analysis -> the suite that it asks."""
    return {name: suite for name, suite in zip(ASKED, (pairs, cloze), strict=True) if suite is not None}


def _about(texts: Corpus | Splits, suites: Mapping[str, str]) -> dict[str, Any]:
    """What provenance says of the texts; with suites, the fingerprint is that of all data together."""
    about = texts.describe()
    return {name: each for name, each in about.items() if name != "fingerprint"} if suites else about


_PROBED = "probe_difference:"


@diff.finds
def _findings(result: Result) -> Iterable[Finding]:
    """The layer that changed most, heads that changed their role, and what probes read better or worse."""
    table = result.tables["diff"][list(Difference._fields)]
    rows = [Difference(*row) for row in rows_of(table.dropna(subset=["value", "low", "high"]))]
    yield from _changed_layer([row for row in rows if row.measure == "cka"])
    heads = [row for row in rows if row.measure == "attention_similarity" and not math.isnan(row.baseline)]
    yield from _changed_heads(heads)
    for measure in dict.fromkeys(row.measure for row in rows if row.measure.startswith(_PROBED)):
        yield _changed_task(measure.removeprefix(_PROBED), [row for row in rows if row.measure == measure])
    if "behaviour" in result.tables:
        yield from changes_in_words(result.tables["behaviour"])


def _changed_layer(rows: Sequence[Difference]) -> Iterator[Finding]:
    if not rows:
        return
    least = min(rows, key=lambda row: row.value)
    status = status_of(least.low, least.high, 1.0)
    said = {
        "clear": f"{layers_in_words(row.layer for row in rows if row.low <= least.high).capitalize()} changed most",
        "open": "Whether any layer changed is undecided",
        "null": "No layer changed",
    }[status]
    against, beside = 1.0, ""
    if not math.isnan(least.baseline):
        against, beside = least.baseline, f", a random-weights twin has {number(least.baseline)}"
    lowest = f"CKA before and after is lowest at layer {least.layer}, {number(least.value, least.low, least.high)}"
    yield legacy_finding(
        f"{said}: {lowest}; unchanged is 1{beside}.", status, least.value, least.low, least.high, against
    )  # fmt: skip


def _changed_heads(rows: Sequence[Difference]) -> Iterator[Finding]:
    if not rows:
        return
    changed = [row for row in rows if row.high < row.baseline]
    most = min(changed or rows, key=lambda row: row.value - row.baseline)
    if changed:
        said, status = f"{len(changed)} of {len(rows)} heads changed role, most clearly", "clear"
    elif all(row.low > row.baseline for row in rows):
        said, status = "No head changed its role", "null"
    else:
        said, status = "Whether a head changed its role is undecided", "open"
    yield legacy_finding(
        f"{said}: head {most.layer}-{most.head} has a cosine of {number(most.value, most.low, most.high)} with itself "
        f"before and of {number(most.baseline)} with the other heads of its layer.",
        status, most.value, most.low, most.high, most.baseline,
    )  # fmt: skip


def _changed_task(task: str, rows: Sequence[Difference]) -> Finding:
    """At how many layers F1 changed, and where most."""
    statuses = [status_of(row.low, row.high, 0.0) for row in rows]
    clear = [row for row, status in zip(rows, statuses, strict=True) if status == "clear"]
    most = max(clear or rows, key=lambda row: abs(row.value))
    if clear:
        count = sum((row.value > 0) == (most.value > 0) for row in clear)
        change = "better" if most.value > 0 else "worse"
        said, status = f"is read {change} after fine-tuning at {count} of {len(rows)} layers", "clear"
    elif set(statuses) == {"null"}:
        said, status = "is read as well after fine-tuning as before", "null"
    else:
        said, status = "may or may not be read as well after fine-tuning", "open"
    return legacy_finding(
        f"{task} {said}: F1 changes most at layer {most.layer}, by {number(most.value, most.low, most.high)}; "
        "unchanged is 0.",
        status, most.value, most.low, most.high, 0.0,
    )  # fmt: skip


@diff.costs
def _cost(
    estimator: Estimator,
    a: Sequence[Encoder],
    b: Sequence[Encoder],
    texts: Corpus | Splits,
    *,
    tasks: Sequence[str],
    pairs: str | None,
    cloze: str | None,
    items: int | None,
    attention: bool,
    weights: Weighting,
    twin: bool,
    preset: str,
    seeds: int | None,
    samples: int,
    seed: int,
    **_: object,
) -> Cost:
    """A trial without probes and suites, and what those take; scored texts that both encode are counted twice."""
    asking = asking_cost(_suites(pairs, cloze), (*a, *b), items=items, seed=seed)
    if not isinstance(texts, Splits):
        compared, twins = len(_pairs(a, b)), twin and a[0].blocks > 0
        passes = len(a) + len(b) + twins + 2 * compared * (attention and a[0].heads > 0)
        return sum(asking, estimator.trial(passes=passes, settings={"pairs": None, "cloze": None, "items": None}))
    shared: dict[str, Any] = {"samples": samples, "seed": seed, "runtime": estimator.runtime}
    probing: dict[str, Any] = {"tasks": tasks, "probes": ["layer"], "preset": preset, "seeds": seeds, "twin": False}
    looking = diff.estimate([*a], [*b], texts.scored, attention=attention, weights=weights, twin=twin, **shared)
    both = [probe.estimate([*each], texts, **probing, **shared) for each in (a, b)]
    return sum(asking, looking + both[0] + both[1])


@diff.shows
def _overview(result: Result) -> Iterable[Overview]:
    """One row per layer; of heads their mean."""
    about, table = result.provenance, result.tables["diff"]
    measures = list(dict.fromkeys(table["measure"]))
    means = table.groupby(["measure", "layer"])[["value", "baseline"]].mean()
    rows: list[tuple[str | int, ...]] = []
    for layer in sorted(set(table["layer"])):
        there = [means.loc[(name, layer)] if (name, layer) in means.index else None for name in measures]
        cells = ("-" if each is None else f"{cell(each['value'])} ({cell(each['baseline'])})" for each in there)
        rows.append((layer, *cells))
    title = (
        f"{about.model['name']} on {about.corpus['name']} ({about.corpus.get('split', '')}); in brackets: the baseline"
    )
    yield Overview(title, ("layer", *measures), rows)
    if "behaviour" in result.tables:
        yield changes_shown(result.tables["behaviour"])


def _pairs(a: Sequence[Encoder], b: Sequence[Encoder]) -> list[tuple[Encoder, Encoder]]:
    """One model before with each after, or the seeds of both in their order."""
    if len(a) != len(b) and 1 not in (len(a), len(b)):
        raise ModelError(
            f"{a[0].name} has {len(a)} seeds and {b[0].name} has {len(b)}; seeds are compared one with one: name "
            "folders with as many seeds, or one model of either"
        )
    size = max(len(a), len(b))
    return list(zip(*(each if len(each) == size else [each[0]] * size for each in (a, b)), strict=True))


def _refuse_unlike(a: Encoder, b: Encoder, *, attention: bool) -> None:
    if a.layers != b.layers:
        raise ModelError(
            f"{a.name} has {a.blocks} blocks and {b.name} has {b.blocks}; layers are compared one with one: name a "
            "model and what was fine-tuned from it, or probe both and use `lamina compare`"
        )
    if attention and a.heads != b.heads:
        raise ModelError(
            f"{a.name} has {a.heads} heads per block and {b.name} has {b.heads}; heads are compared one with one: "
            "leave them out with --no-attention"
        )


def _unseen(corpus: Corpus | Splits, models: Sequence[Encoder]) -> tuple[Corpus | Splits, dict[str, int]]:
    skipped: dict[str, int] = {}
    scored, seen = unseen(corpus.scored if isinstance(corpus, Splits) else corpus, models)
    skipped["texts that a model was fine-tuned on, left out"] = seen
    if len(scored) < 2:
        raise CorpusError(f"{scored.name}: a comparison needs at least 2 texts; there are {len(scored)}")
    if not isinstance(corpus, Splits):
        return scored, skipped
    train, seen = unseen(corpus.train, models)
    skipped["training texts that a model was fine-tuned on, left out"] = seen
    return Splits(train, scored), skipped


def _layers(
    pairs: Sequence[tuple[Encoder, Encoder]],
    corpus: Corpus,
    *,
    twin: bool,
    samples: int,
    seed: int,
    runtime: Runtime,
) -> Iterator[Difference]:
    first, second = pairs[0]
    stored = [(runtime.extract(one, corpus), runtime.extract(other, corpus)) for one, other in pairs]
    random = runtime.extract(first.random_twin(seed), corpus) if twin and first.blocks else None
    with progress(f"layers of {first.name} and {second.name}", first.layers) as advance:
        for layer in range(first.layers):
            found = [compare_layer(*both, random, layer, samples=samples, seed=seed) for both in stored]
            for measure in found[0]:
                compared = over_models(measure, [each[measure] for each in found])
                yield Difference(layer, None, measure, *compared)
            advance()


def _heads(
    pairs: Sequence[tuple[Encoder, Encoder]], corpus: Corpus, *, samples: int, seed: int, weights: Weighting
) -> tuple[list[Difference], dict[str, int]]:
    found = compare_heads(pairs, corpus, samples=samples, seed=seed, weights=weights)
    numbers = [each.tolist() for each in found[:4]]
    rows = [
        Difference(block + 1, head + 1, "attention_similarity", *(each[block][head] for each in numbers))
        for block, head in np.ndindex(found.value.shape)
    ]
    return rows, dict(found.skipped)


def _both_probed(
    a: Sequence[Encoder], b: Sequence[Encoder], probed: Sequence[str | Result] | None, tasks: Sequence[str]
) -> tuple[Result, Result] | None:
    if not probed:
        return None
    if tasks:
        raise InputError("give tasks to probe (--probe) or two probing results (--probed), not both")
    if len(probed) != 2:
        raise InputError(
            f"probed takes two results of `lamina probe`, of the model before and of the model after; got {len(probed)}"
        )
    before, after = map(as_result, probed)
    _refuse_unfair(a, b, (before, after))
    return before, after


def _probes(probed: tuple[Result, Result], *, samples: int, seed: int) -> Iterator[Difference]:
    found = list(layer_differences(*probed, samples=samples, seed=seed))
    if not found:
        raise InputError("there are no probes of single layers in both results; probe both models with --probes layer")
    for task, layer, before, after, apart in found:
        constants = [_constant(result, task) for result in probed]
        yield Difference(layer, None, f"probe_a:{task}", *before, constants[0])
        yield Difference(layer, None, f"probe_b:{task}", *after, constants[1])
        yield Difference(layer, None, f"probe_difference:{task}", *apart[:3], 0.0)


def _refuse_unfair(a: Sequence[Encoder], b: Sequence[Encoder], probed: tuple[Result, Result]) -> None:
    for encoders, result in zip((a, b), probed, strict=True):
        model, name = result.provenance.model, encoders[0].name
        if model.get("fingerprint") != describe_models(encoders)["fingerprint"]:
            raise InputError(
                f"the probing result given for {name} is of another model, {model.get('name')}; give one of {name} as "
                "it is now"
            )
    for what in ("corpus", "parameters"):
        one, other = (getattr(each.provenance, what) for each in probed)
        if one.get("fingerprint", one) != other.get("fingerprint", other):
            raise InputError(f"the two models were probed with different {what}; probe both in the same way")


def _constant(result: Result, task: str) -> float:
    scores = result.tables["scores"]
    found = scores.loc[(scores["task"] == task) & (scores["probe"] == "constant"), "value"]
    return float(found.iloc[0]) if len(found) else math.nan
