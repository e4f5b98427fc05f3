"""Linear probes of all layers, folds and penalties beside scikit-learn's, one fit after the other.

Part of speech on 25,000 words of the treebank, all layers of minilm, 5 folds of whole documents, 5 penalties. Vectors
are standardised float32 for both. CPU time of the process, so that other work on the machine does not count.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator

import numpy as np
import torch

import lamina
from benchmarks.bars import Bar
from lamina.activations.runtime import Runtime
from lamina.analyses.layers.choose.cells import pooled_vectors
from lamina.analyses.layers.choose.examples import find_examples
from lamina.probes.linear_grid import GRID_PENALTIES, GridMembers, Standardised, fit_grid

WORDS = int(os.environ.get("LAMINA_BENCH_WORDS", "25000"))
TIMED_FOLDS = int(os.environ.get("LAMINA_BENCH_FOLDS", "5"))
"""Folds that scikit-learn is given; its time is multiplied up to 5."""
LAYERS = os.environ.get("LAMINA_BENCH_LAYERS", "")
"""Some layers, separated by commas; all by default."""
SHARE, APART = 0.2, 0.002


def bars() -> Iterator[Bar]:
    """CPU time as a share of scikit-learn's, and the largest and mean difference of a score."""
    from sklearn.linear_model import LogisticRegression
    from threadpoolctl import threadpool_limits

    threads = int(os.environ.get("OMP_NUM_THREADS", "2"))
    torch.set_num_threads(threads)
    examples = find_examples(lamina.load_corpus("ewt", split="train"), "pos", most=WORDS, seed=0)
    pooled = pooled_vectors(lamina.load_encoder("minilm"), examples, ("mean",), Runtime(device="cpu"))
    gold = examples.gold.argmax(1)
    members = GridMembers.crossed(~np.eye(examples.folds, dtype=bool), GRID_PENALTIES)
    ours, theirs, differences, iterations, rounds = 0.0, 0.0, [], [], []
    for layer in map(int, LAYERS.split(",")) if LAYERS else range(pooled.layers):
        vectors = Standardised.of(pooled.of(pooled.poolings[0], layer)).vectors
        start = time.process_time()
        fit = fit_grid(vectors, examples.gold, examples.fold, members)
        ours += time.process_time() - start
        rounds.append(fit.rounds)
        known = vectors.numpy()
        for fold in range(TIMED_FOLDS):
            learn, scored = examples.fold != fold, examples.fold == fold
            for number, penalty in enumerate(GRID_PENALTIES):
                start = time.process_time()
                with threadpool_limits(threads):
                    model = LogisticRegression(C=1 / (penalty * learn.sum()), tol=1e-4, max_iter=1000)
                    model.fit(known[learn], gold[learn])
                theirs += time.process_time() - start
                iterations.append(model.n_iter_[0])
                answers = fit.logits(vectors[torch.from_numpy(scored)], [fold * len(GRID_PENALTIES) + number])[0]
                right = answers.argmax(1).numpy() == gold[scored]
                differences.append(abs(right.mean() - (model.predict(known[scored]) == gold[scored]).mean()))
        print(f"layer {layer}: {ours:.1f} s, scikit-learn {theirs:.1f} s", file=sys.stderr, flush=True)
    whole = theirs * examples.folds / TIMED_FOLDS
    searched = f"rounds at most {max(map(np.max, rounds))}, scikit-learn's {max(iterations)}"
    note = f"[{len(gold):,} words; {ours:.1f} s beside {whole:.1f} s; {threads} threads; {searched}]"
    yield Bar("linear probes: CPU time as a share of scikit-learn's", ours / whole, SHARE, at_least=False, note=note)
    note = f"[{len(differences)} scores; mean {np.mean(differences):.5f}]"
    yield Bar("linear probes: largest difference of a score", float(max(differences)), APART, at_least=False, note=note)
