"""What choosing a layer by 200 labels costs, and what choosing without labels costs, on the tasks at hand.

`python -m benchmarks.choosing MODEL CORPUS TASK...` prints one JSON line per task and model;
`python -m benchmarks.choosing summary FILE` makes the tables of docs/studies/choosing.md of them.

Every layer is scored by cross-validation on all examples (at most 600 targets). Then 200 labels are drawn 20 times,
in whole documents, and a layer is chosen by them alone; regret is the score of the best layer minus that of the chosen
one, both with all labels.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import lamina
from lamina.activations.runtime import Runtime
from lamina.analyses.layers.choose.cells import cross_validate, metric_of, pooled_vectors
from lamina.analyses.layers.choose.examples import by_hash, find_examples, surface_vectors
from lamina.analyses.layers.choose.label_free import TextViews, measure_layers, views_of
from lamina.stats.intervals import interval

EXAMPLES, LABELS, DRAWS = 600, 200, 20
PENALTIES = (1e-1, 1e-2, 1e-3)


def study(models: list[str], corpus: str, tasks: list[str]) -> Iterator[dict[str, Any]]:
    """Regrets of one corpus's tasks."""
    import torch

    encoders = [lamina.load_encoder(model) for model in models]
    texts = lamina.load_corpus(corpus, split="dev")
    runtime = Runtime(device="cpu")
    for task in tasks:
        examples = find_examples(texts, task, most=EXAMPLES, seed=0)
        metric = metric_of(examples, "accuracy")
        views: dict[str, TextViews] = {encoder.name: views_of(encoder, examples, runtime) for encoder in encoders}
        measured = measure_layers(views)
        surface = cross_validate(torch.from_numpy(surface_vectors(examples)), examples, metric, PENALTIES)
        words = float(metric.value(metric.sums(examples, surface.answers).sum(0)))
        for model, encoder in zip(models, encoders, strict=True):
            pooled = pooled_vectors(encoder, examples, ("mean",), runtime)
            vectors = [pooled.of(pooled.poolings[0], layer) for layer in range(pooled.layers)]
            answers = [cross_validate(one, examples, metric, PENALTIES).answers for one in vectors]
            full = np.array([metric.value(metric.sums(examples, one).sum(0)) for one in answers])
            chosen = []
            for draw in range(DRAWS):
                rows = _drawn(examples, draw)
                few = examples.some(rows, draw)
                place = torch.from_numpy(rows)
                scores = []
                for one in vectors:
                    found = cross_validate(one[place], few, metric, PENALTIES).answers
                    scores.append(float(metric.value(metric.sums(few, found).sum(0))))
                chosen.append(int(np.nanargmax(scores)))
            depth = len(full) - 1
            here = measured[(measured["model"] == encoder.name) & measured["picks"]]
            picks = {str(measure): int(layer) for measure, layer in zip(here["measure"], here["layer"], strict=True)}
            picks |= {"last": depth, "two thirds": round(2 * depth / 3), "half": round(depth / 2)}
            best = float(full.max())
            yield {
                "corpus": corpus, "task": task, "model": model, "metric": metric.name, "examples": len(examples),
                "words": words, "scores": full.round(4).tolist(), "chosen": chosen,
                "regret": float(np.mean(best - full[chosen])), "random": float(np.mean(best - full)),
                "picks": {name: best - float(full[layer]) for name, layer in picks.items()},
            }  # fmt: skip


def _drawn(examples: Any, seed: int) -> np.ndarray:
    """About as many examples as `LABELS`, in whole documents."""
    owner, names = np.array(examples.units.owner), examples.units.names
    place = {name: number for number, name in enumerate(by_hash(names, 1000 + seed))}
    order = np.argsort(np.array([place[name] for name in names])[owner], kind="stable")
    return np.sort(order[:LABELS])


def summary(path: str) -> Iterator[str]:
    """The tables of the study, in Markdown."""
    lines = Path(path).read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines if line.startswith("{")]
    yield (
        "| corpus | task | model | metric | targets | words alone | best layer | score | last | two thirds | "
        "200 labels |"
    )
    yield "|---|---|---|---|---|---|---|---|---|---|---|"
    for row in rows:
        best = int(np.argmax(row["scores"]))
        regrets = (row["picks"]["last"], row["picks"]["two thirds"], row["regret"])
        costs = " | ".join(f"{100 * cost:.1f}" for cost in regrets)
        yield (
            f"| {row['corpus']} | {row['task']} | {row['model']} | {row['metric']} | {row['examples']:,} | "
            f"{row['words']:.3f} | {best} | {max(row['scores']):.3f} | {costs} |"
        )
    yield ""
    yield "| chosen by | mean regret [95 %] | median | cells |"
    yield "|---|---|---|---|"
    by_rule: dict[str, list[tuple[str, float]]] = {}
    for row in rows:
        told = {"200 labels": row["regret"], "random layer": row["random"], **row["picks"]}
        for rule, regret in told.items():
            by_rule.setdefault(rule, []).append((row["corpus"] + row["task"], regret))
    rng = np.random.default_rng(0)
    for rule, pairs in sorted(by_rule.items(), key=lambda item: np.mean([regret for _, regret in item[1]])):
        # Tasks are drawn, with all their models.
        names = sorted({name for name, _ in pairs})
        means = np.array([[np.mean([regret for name, regret in pairs if name == one])] for one in names])[:, 0]
        low, high = interval(np.array([rng.choice(means, len(means)).mean() for _ in range(2000)]))
        values = [100 * regret for _, regret in pairs]
        mean = f"{100 * means.mean():.1f} [{100 * low:.1f}, {100 * high:.1f}]"
        yield f"| {rule} | {mean} | {np.median(values):.1f} | {len(values)} |"


if __name__ == "__main__":
    if sys.argv[1] == "summary":
        print("\n".join(summary(sys.argv[2])))
    else:
        for line in study(sys.argv[1].split(","), sys.argv[2], sys.argv[3:]):
            print(json.dumps(line), flush=True)
