"""Reuse that can be trusted: where an analysis's numbers change, its version has to be raised.

Every analysis is run on a small fixed input, and its numbers are compared with those in `recorded_numbers.json`. If
this test fails, the change gives other numbers for the same inputs: raise the analysis's `version`, then record the new
ones with `make record-versions`.
"""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import lamina
from lamina.analyses import ANALYSES
from lamina.analyses.layers.probe.training import PRESETS as PROBING_PRESETS
from lamina.analyses.words.contextualize.scores import PRESETS as WORDS_PRESETS
from lamina.corpora import Corpus, Splits, corpus_from
from lamina.corpora.questions import babi
from lamina.results import Result
from lamina.testing import TinyEncoder
from lamina.training.reading import Sets
from lamina.types import Edge, Span, Text
from tests.language_models import tiny_causal, tiny_masked

RECORDED = Path(__file__).with_name("recorded_numbers.json")
NAMES = [each.partition(":")[2] for each in ANALYSES]
ROUNDING = 2e-3
"""Relative to a column's spread: another CPU adds up in another order."""
TRAINED = 0.05
"""The same, where rounding goes through training."""
TRAINING = {
    "choose",
    "probe",
    "order",
    "parse",
    "contextualize",
    "finetune",
    "windows",
    "token_map",
    "phases",
    "trace",
    "compare",
    "agreement",
    "lens",
    "probe_vs_lens",
    "restore",
    "roles",
    "structure",
}
BY_A_BIT = {
    "choose": {"choose.seconds_per_1000_texts", "front.seconds_per_1000_texts"},
    "structure": {"training.epochs", "best.p_beaten", "contrasts.p_adjusted"},
    "erase": {f"readable.{part}{end}" for part in ("after", "left") for end in ("", "_low", "_high")},
}
"""Analysis -> columns that hang on the last bit or are measured times: when training has reached a plateau, what a
probe answers where nothing is left to be read, and p-values of so few draws that one of them moves p by a tenth. How
many numbers they have is compared, not which."""


def sentences(count: int, split: str, seed: int) -> Corpus:
    """Sentences with tags, dependencies, classes and chains of mentions, drawn from a small grammar."""
    draw = random.Random(seed)
    texts = []
    for number in range(count):
        subject, verb = draw.choice(["dog", "cat", "bird"]), draw.choice(["sees", "hears"])
        thing = draw.choice(["stone", "river", "house"])
        words = ("the", subject, verb, draw.choice(["a", "the"]), thing, "and", "it", "runs")
        tags = ("DET", "NOUN", "VERB", "DET", "NOUN", "CCONJ", "PRON", "VERB")
        heads = (1, 2, None, 4, 2, 7, 7, 2)
        relations = ("det", "nsubj", "root", "det", "obj", "cc", "nsubj", "conj")
        edges = {
            "pos": tuple(Edge((tag,), Span(at, at + 1)) for at, tag in enumerate(tags)),
            "dep": tuple(
                Edge((relation,), Span(at, at + 1), Span(head, head + 1))
                for at, (head, relation) in enumerate(zip(heads, relations, strict=True))
                if head is not None
            ),
            "supersense": (
                Edge(("animal",), Span(1, 2)),
                Edge(("place" if thing == "river" else "object",), Span(4, 5)),
            ),
            "chains": (Edge(("1",), Span(1, 2)), Edge(("1",), Span(6, 7))),
            "sentence": (Edge(("s",), Span(0, 8)),),
        }  # fmt: skip
        texts.append(Text(f"{split}-{number}", words, edges=edges, doc=f"{split}-{number // 3}"))
    return corpus_from(texts, name="grammar", split=split)


def with_senses(corpus: Corpus) -> Corpus:
    """The same sentences, whose last noun has a sense for each article."""
    texts = [replace(text, edges={"sense": (Edge((text.words[3],), Span(4, 5)),)}) for text in corpus]
    return corpus_from(texts, name="senses", split=corpus.split)


@pytest.fixture(scope="module")
def given(model_folder, tmp_path_factory) -> dict[str, Callable[[], Result]]:
    """Analysis -> a small fixed question."""
    folder = tmp_path_factory.mktemp("versions")
    train, dev = sentences(60, "train", 1), sentences(30, "dev", 2)
    splits, tiny = Splits(train, dev), TinyEncoder()
    where: dict[str, Any] = {"store": folder / "store", "device": "cpu"}
    made: dict[str, Result] = {}

    def probed(seed: int = 0) -> Result:
        key = f"probe{seed}"
        if key not in made:
            model = TinyEncoder(seed=seed)
            settings = {"tasks": ["pos"], "seeds": 1, "samples": 20, "probes": ("cumulative", "layer")}
            made[key] = lamina.probe(model, splits, out=folder / key, **settings, **where)
        return made[key]

    def ordered(seed: int) -> Result:
        settings = {"tasks": ["pos", "dep"], "seeds": 5, "samples": 20, "probes": ("cumulative",), "twin": False}
        return lamina.probe(TinyEncoder(seed=seed), splits, out=folder / f"ordered{seed}", **settings, **where)

    def tuned() -> Path:
        target = folder / "tuned"
        learning = {"task": "babi", "babi_tasks": [1], "max_steps": 4, "lr": 1e-3, "batch": 4, "schedule": "constant"}
        made["finetune"] = lamina.finetune(str(model_folder("bert")), "stories", out=target, **learning, device="cpu")
        return target

    def tagged() -> Result:
        # The sets share no sentence; the grammar has 36 of them.
        unique = list({text.words: text for text in sentences(300, "all", 3)}.values())
        sets = Sets("grammar", tuple(unique[:16]), tuple(unique[16:24]), tuple(unique[24:]))
        short: dict[str, Any] = {"windows": [0], "max_steps": 4, "lr": 1e-3, "batch": 4, "device": "cpu"}
        return lamina.windows(str(model_folder("bert")), sets, out=folder / "windows", **short)

    def table(head: str, row: str) -> Path:
        path = folder / f"{head[:4]}.tsv"
        rows = (row.replace("{}", noun) for noun in ("dog", "cat", "fox", "lazy dog", "quick fox", "brown cat"))
        path.write_text("\n".join([head, *rows]) + "\n", encoding="utf-8")
        return path

    few: dict[str, Any] = {"samples": 20}
    return {
        "geometry": lambda: lamina.geometry(tiny, dev, **few, **where),
        "dimensions": lambda: lamina.dimensions(tiny, dev, **few, **where),
        "numbers": lambda: lamina.numbers(tiny, tasks=["decoding"], forms=["integers"], top=60, items=40, **few),
        "retrieval": lambda: lamina.retrieval(tiny, parallel(folder), **few),
        "choose": lambda: lamina.choose(tiny, dev, task="supersense", poolings=["mean"], **few, **where),
        "probe": probed,
        "trace": lambda: probed() and lamina.trace(folder / "probe0", "the dog runs", model=tiny),
        "order": lambda: lamina.order(
            tiny,
            Splits(sentences(200, "train", 1), sentences(90, "dev", 2)),
            tasks=["bigram_shift"],
            items=60,
            seeds=1,
            **few,
            **where,
        ),
        "compare": lambda: lamina.compare(probed(), probed(1)),
        "agreement": lambda: lamina.agreement(ordered(0), ordered(1), **few),
        "structure": lambda: lamina.structure(tiny, splits, ranks=["4"], attention=10, learn=10, **few, **where),
        "attention": lambda: lamina.attention(tiny, dev, **few),
        "attention_distance": lambda: lamina.attention_distance(tiny, dev, **few),
        "heads": lambda: lamina.heads(tiny, dev, **few),
        "headmap": lambda: lamina.headmap(tiny, dev, **few),
        "corefheads": lambda: lamina.corefheads(tiny, dev, **few),
        "parse": lambda: lamina.parse(load_bert(model_folder), splits, vectors="model", **few, **where),
        "look": lambda: lamina.look(tiny, "the dog sees a river"),
        "contextualize": lambda: lamina.contextualize(tiny, train, vectors=(), context_sizes=(), **few, **where),
        "neighbours": lambda: lamina.neighbours(tiny, train, word="river", vectors=None, **where),
        "senses": lambda: lamina.senses(
            tiny, Splits(with_senses(train), with_senses(dev)), vectors=(), moved=4, clustered=1, **few, **where
        ),
        "finetune": lambda: tuned() and made["finetune"],
        "windows": tagged,
        "surprisal": lambda: lamina.surprisal(tiny_causal(), splits, **few),
        "pairs": lambda: lamina.pairs(
            tiny_masked(), table("good\tbad", "The {} runs .\tThe {} run ."), ngrams=None, **few
        ),
        "cloze": lambda: lamina.cloze(tiny_causal(), table("text\tanswer", "The {} sees the ___ .\tdog"), **few),
        "perturb": lambda: lamina.perturb(tiny_causal(), splits, targets=["loss"], how=["shuffled"], **few, **where),
        "lens": lambda: lamina.lens(tiny_causal(), splits, positions=60, learned=120, steps=4, **few, **where),
        "probe_vs_lens": lambda: lamina.probe_vs_lens(tiny_causal(), splits, facts=None, words=60, learn=120, **few),
        "ablate": lambda: lamina.ablate(tiny_causal(), splits, targets=["loss"], items=12, **few),
        "prune": lambda: lamina.prune(tiny_causal(), splits, targets=["loss"], items=12, **few),
        "erase": lambda: lamina.erase(tiny_causal(), splits, targets=["loss"], items=12, learn=200, words=100, **few),
        "restore": lambda: lamina.restore(
            tuned(), out=folder / "restore", items=20, learn=20, points=2, **few, device="cpu"
        ),
        "patch": lambda: lamina.patch(
            tiny_causal(), suite=table("good\tbad", "The {} runs far .\tThe {} sees far ."), items=4, **few
        ),
        "roles": lambda: lamina.roles(tiny_causal(), splits, suite=None, watched=200, items=40, twin=False, **few),
        "token_map": lambda: lamina.token_map(tuned(), "stories", device="cpu"),
        "phases": lambda: lamina.phases(tuned(), "stories", first=6, clustered=2, **few, device="cpu"),
        "grow": lambda: lamina.grow(
            {"step0": TinyEncoder(seed=2), "step10": TinyEncoder(seed=1), "step20": tiny},
            data=dev,
            ask=["geometry"],
            **few,
            **where,
        ),
        "diff": lambda: lamina.diff(tiny, TinyEncoder(seed=1), dev, **few, **where),
        "correspondence": lambda: lamina.correspondence(tiny, TinyEncoder(seed=1, blocks=3), dev, **few),
    }


def parallel(folder: Path) -> Path:
    path = folder / "parallel.tsv"
    path.write_text("".join(f"{one}\t{other}\n" for one, other in [("en", "de"), *(
        (f"the {noun} {verb} here .", f"der {noun[::-1]} {verb[::-1]} hier .")
        for noun in ("dog", "cat", "fox", "river") for verb in ("runs", "sees", "likes")
    )]))  # fmt: skip
    return path


def load_bert(model_folder) -> lamina.Encoder:
    return lamina.load_encoder(str(model_folder("bert")), device="cpu")


def numbers_of(result: Result) -> dict[str, list[float]]:
    """Of each column of numbers: how many there are, their mean and their spread."""
    found = {}
    for name, table in result.tables.items():
        found[name] = [len(table)]
        for column in table.select_dtypes("number"):
            values = pd.to_numeric(table[column]).to_numpy(float, na_value=np.nan)
            values = values[np.isfinite(values)]
            summary = [len(values), values.mean(), values.std()] if len(values) else [0]
            found[f"{name}.{column}"] = [round(float(each), 6) for each in summary]
    return found


# Taken before any test runs: other tests patch the presets, some of them for the whole session.
PROBING, WORDS = PROBING_PRESETS["quick"], WORDS_PRESETS["quick"]
SHORT = replace(PROBING.schedule, validate_every=2, max_validations=1)


@pytest.fixture(autouse=True)
def quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Drawing is tested elsewhere; a moment of training is enough to see that numbers change."""
    monkeypatch.setattr(Result, "charts", lambda self: {})
    monkeypatch.setattr(babi, "_SIZES", {"train": 20, "dev": 8, "test": 8})
    monkeypatch.setitem(PROBING_PRESETS, "quick", replace(PROBING, schedule=SHORT, small=SHORT))
    monkeypatch.setitem(WORDS_PRESETS, "quick", replace(WORDS, training=replace(WORDS.training, epochs=3)))


@pytest.mark.parametrize("name", NAMES)
def test_numbers_change_only_with_the_version(name: str, given: dict[str, Callable[[], Result]]) -> None:
    result = given[name]()
    numbers = numbers_of(result)
    assert len(numbers) > 1
    recorded = json.loads(RECORDED.read_text()) if RECORDED.exists() else {}
    if os.environ.get("LAMINA_RECORD"):
        recorded[name] = {"version": result.version, "numbers": numbers}
        RECORDED.write_text(json.dumps(recorded, indent=1, sort_keys=True) + "\n")
        return
    known = recorded[name]
    assert known["version"] == result.version, "record the numbers of the new version: make record-versions"
    assert known["numbers"].keys() == numbers.keys(), "other columns: raise the version, then make record-versions"
    allowed = TRAINED if name in TRAINING else ROUNDING
    for column, values in numbers.items():
        was = known["numbers"][column]
        spread = max(abs(was[-1]), abs(was[1]) if len(was) > 1 else 0, 1e-3)
        off = f"{name} {column}: {values} where {was} is recorded for version {result.version}"
        assert len(values) == len(was), off
        assert values[0] == pytest.approx(was[0], abs=max(1, 0.1 * was[0]) if name in TRAINING else 0), off
        if column not in BY_A_BIT.get(name, ()):
            assert values[1:] == pytest.approx(was[1:], abs=allowed * spread), off


def test_a_changed_number_is_noticed(given: dict[str, Callable[[], Result]]) -> None:
    """The tolerance is not so wide that nothing could fail."""
    numbers = numbers_of(given["geometry"]())
    was = json.loads(RECORDED.read_text())["geometry"]["numbers"]["layers.value"]
    changed = numbers_of(lamina.geometry(TinyEncoder(seed=2), sentences(30, "dev", 2), samples=20))["layers.value"]
    assert numbers["layers.value"][1] == pytest.approx(was[1], abs=ROUNDING * was[2])
    assert changed[1] != pytest.approx(was[1], abs=ROUNDING * was[2])
