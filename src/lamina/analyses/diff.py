"""What fine-tuning changed, layer by layer: representations, heads, and what probes find."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from lamina.activations import extract
from lamina.analyses.compare import Estimate, compare, difference
from lamina.analyses.head_similarity import compare_heads
from lamina.analyses.layer_similarity import compare_layer
from lamina.analyses.probing.probe import probe
from lamina.analyses.probing.splits import Splits
from lamina.analyses.unseen import unseen
from lamina.corpora import Corpus
from lamina.corpora.corpus import fingerprint_of
from lamina.encoders import Encoder
from lamina.errors import CorpusError, InputError, ModelError
from lamina.progress import progress
from lamina.results import Provenance, Result


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


def diff(
    a: Encoder,
    b: Encoder,
    corpus: Corpus | Splits,
    *,
    tasks: Sequence[str] = (),
    probed: tuple[Result, Result] | None = None,
    attention: bool = True,
    twin: bool = True,
    preset: str = "quick",
    seeds: int | None = None,
    samples: int = 1000,
    seed: int = 0,
    device: str | None = None,
    root: str | os.PathLike[str] | None = None,
) -> Result:
    """Two models of one architecture, a pretrained one and what fine-tuning made of it, on the same texts.

    - `cka`: debiased linear CKA of word vectors; baseline: of `a` and its random-weights twin.
    - `cosine`: mean cosine of a word in `a` and the same word in `b`; baseline: of words of different texts.
    - `attention_similarity`: mean cosine of a head's flattened maps; baseline: with the other heads of its layer.
    - `probe_a:TASK`, `probe_b:TASK`: F1 of single-layer probes trained and scored on the same texts; baseline: the
      best constant answer. `probe_difference:TASK` is b - a; its baseline is 0.

    Texts that lamina fine-tuned either model on are left out and counted, of training texts of probes too. Intervals
    are 95 %: of CKA by leaving out groups of texts, of probes as `compare` makes them, else by bootstrap over texts.

    Args:
        a: the model before.
        b: the model after.
        corpus: texts; with `tasks` those of `load_splits`, of which the scored ones are looked at.
        tasks: train single-layer probes of these tasks on both models.
        probed: instead, two results of `lamina.probe`, of `a` and of `b`.
        attention: compare heads too.
        twin: encode the texts with the random-weights twin of `a`, the baseline of CKA.
        preset: of the probes.
        seeds: of the probes.
        samples: bootstrap samples.
        seed: of every draw.
        device: where probes are trained.
        root: where activations are stored.
    """
    _refuse_unlike(a, b, attention=attention)
    texts, skipped = _unseen(corpus, a, b)
    scored = texts.scored if isinstance(texts, Splits) else texts
    rows = list(_layers(a, b, scored, twin=twin, samples=samples, seed=seed, root=root))
    if attention and a.heads:
        heads, left_out = _heads(a, b, scored, samples=samples, seed=seed)
        rows += heads
        skipped |= left_out
    if tasks:
        if not isinstance(texts, Splits):
            raise InputError("probes need texts to learn from: give `load_splits(...)` as the corpus")
        asked: dict[str, Any] = {"tasks": list(tasks), "probes": ["layer"], "preset": preset, "seeds": seeds}
        settings = asked | {"twin": False, "samples": samples, "seed": seed, "device": device, "root": root}
        probed = (probe(a, texts, **settings), probe(b, texts, **settings))
    rows += _probes(a, b, probed) if probed else ()
    parameters = {
        "tasks": list(tasks),
        "probed": [each.key for each in probed] if probed and not tasks else None,
        "attention": attention,
        "twin": twin,
        "preset": preset,
        "seeds": seeds,
        "samples": samples,
        "seed": seed,
    }
    model = {"name": f"{a.name} and {b.name}", "fingerprint": fingerprint_of(a.fingerprint, b.fingerprint)}
    provenance = Provenance(
        model | {"a": a.describe(), "b": b.describe()}, texts.describe(), parameters, (seed,), skipped
    )
    table = pd.DataFrame(rows, columns=list(Difference._fields)).astype({"head": "Int64"})
    return Result("diff", {"diff": table}, provenance)


def _refuse_unlike(a: Encoder, b: Encoder, *, attention: bool) -> None:
    if a.layers != b.layers:
        raise ModelError(
            f"{a.name} has {a.blocks} blocks and {b.name} has {b.blocks}; layers are compared one with one: name a "
            "model and what was fine-tuned from it, or probe both and use `lamina compare`"
        )
    if attention and a.heads != b.heads:
        raise ModelError(
            f"{a.name} has {a.heads} heads a block and {b.name} has {b.heads}; heads are compared one with one: leave "
            "them out with --no-attention"
        )


def _unseen(corpus: Corpus | Splits, a: Encoder, b: Encoder) -> tuple[Corpus | Splits, dict[str, int]]:
    skipped: dict[str, int] = {}
    scored, seen = unseen(corpus.scored if isinstance(corpus, Splits) else corpus, (a, b))
    skipped["texts that a model was fine-tuned on, left out"] = seen
    if len(scored) < 2:
        raise CorpusError(f"{scored.name}: a comparison needs at least 2 texts; there are {len(scored)}")
    if not isinstance(corpus, Splits):
        return scored, skipped
    train, seen = unseen(corpus.train, (a, b))
    skipped["training texts that a model was fine-tuned on, left out"] = seen
    return Splits(train, scored), skipped


def _layers(
    a: Encoder,
    b: Encoder,
    corpus: Corpus,
    *,
    twin: bool,
    samples: int,
    seed: int,
    root: str | os.PathLike[str] | None,
) -> Iterator[Difference]:
    before, after = (extract(each, corpus, root=root) for each in (a, b))
    random = extract(a.random_twin(seed), corpus, root=root) if twin and a.blocks else None
    with progress(f"layers of {a.name} and {b.name}", a.layers) as advance:
        for layer in range(a.layers):
            found = compare_layer(before, after, random, layer, samples=samples, seed=seed)
            for measure, compared in found.items():
                yield Difference(layer, None, measure, *compared)
            advance()


def _heads(
    a: Encoder, b: Encoder, corpus: Corpus, *, samples: int, seed: int
) -> tuple[list[Difference], dict[str, int]]:
    found = compare_heads(a, b, corpus, samples=samples, seed=seed)
    numbers = [each.tolist() for each in found[:4]]
    rows = [
        Difference(block + 1, head + 1, "attention_similarity", *(each[block][head] for each in numbers))
        for block, head in np.ndindex(a.blocks, a.heads)
    ]
    return rows, dict(found.skipped)


def _probes(a: Encoder, b: Encoder, probed: tuple[Result, Result]) -> Iterator[Difference]:
    _refuse_unfair(a, b, probed)
    table: Any = compare(*probed).tables["layers"]
    names = table["model"].unique()
    if len(names) < 2:
        raise InputError("there are no probes of single layers in both results; probe both models with --probes layer")
    for task, rows in table.groupby("task", sort=False):
        before, after = (_estimates(rows[rows["model"] == name]) for name in names)
        constants = [_constant(result, task) for result in probed]
        for layer, own in before.items():
            yield Difference(layer, None, f"probe_a:{task}", *own, constants[0])
            yield Difference(layer, None, f"probe_b:{task}", *after[layer], constants[1])
            yield Difference(layer, None, f"probe_difference:{task}", *difference(after[layer], own), 0.0)


def _refuse_unfair(a: Encoder, b: Encoder, probed: tuple[Result, Result]) -> None:
    for encoder, result in zip((a, b), probed, strict=True):
        model = result.provenance.model
        if model["fingerprint"] != encoder.fingerprint:
            raise InputError(
                f"the probing result given for {encoder.name} is of another model, {model['name']}; give one of "
                f"{encoder.name} as it is now"
            )
    for what in ("corpus", "parameters"):
        one, other = (getattr(each.provenance, what) for each in probed)
        if one.get("fingerprint", one) != other.get("fingerprint", other):
            raise InputError(f"the two models were probed with different {what}; probe both in the same way")


def _estimates(rows: Any) -> dict[int, Estimate]:
    return {int(row.layer): Estimate(row.value, row.low, row.high) for row in rows.itertuples()}


def _constant(result: Result, task: str) -> float:
    scores: Any = result.tables["scores"]
    return float(scores.loc[(scores["task"] == task) & (scores["probe"] == "constant"), "value"].iloc[0])
