"""Attention: meters against the forward pass, divergences against scipy, an epoch of parser probes, memory.

On a GPU too, where there is one: a model of BERT-base's shape with random weights.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import combinations, islice
from statistics import median
from typing import cast

import torch

from benchmarks.bars import Bar
from lamina.analyses.heads.headmap import DivergenceMeter, divergences
from lamina.analyses.heads.heads import RelationMeter, relations_of
from lamina.analyses.heads.parse import shuffled
from lamina.analyses.heads.surface import PatternMeter, SurfaceMeter
from lamina.analyses.heads.trees import ParserTrainer, static_vectors
from lamina.corpora import load_corpus
from lamina.framework.watch import Meter, WatchedBatch, watch
from lamina.models import Encoder, load_encoder
from lamina.probes.parsers import AttentionAndWords
from lamina.stats.units import halve
from lamina.types import Text

PAIRS = 5
HEADS, SEGMENTS, TOKENS = 144, 1000, 128
"""Size of the divergence benchmark: BERT-base on the paper's segments."""
TIMED_SEGMENTS = 6
GPU_SEGMENTS = 50
"""At a time."""
SCIPY_PAIRS = 40
LEARNED = 1000
"""Training texts that are timed; the time of an epoch is extrapolated to all texts."""


def bars() -> Iterator[Bar]:
    """All bars, on this machine."""
    encoder = load_encoder("minilm", device="cpu")
    yield _meters(encoder, "")
    yield from _divergences()
    yield _epoch(encoder)
    yield _memory()
    if torch.cuda.is_available():
        yield _meters(_large_encoder(), f", on {torch.cuda.get_device_name()}")
        yield _divergences_on_gpu()


def meters_of(encoder: Encoder, texts: Iterable[Text]) -> list[Meter]:
    """Everything `lamina attention` and `lamina heads` measure."""
    heads = encoder.blocks * encoder.heads
    relations = RelationMeter(heads, relations_of(texts), halve(texts, 0), samples=500, seed=0)
    return [SurfaceMeter(encoder), PatternMeter(encoder), relations]


def _meters(encoder: Encoder, where: str) -> Bar:
    """Against the pass that the meters themselves are fed by; tokenizing is part of both."""
    texts = list(load_corpus("ewt", split="dev"))

    def bare() -> None:
        for _ in encoder.map_batches(texts):
            pass

    _seconds(bare)
    # In pairs, so that a slowdown of the machine affects both.
    timed = [(_seconds(bare), _seconds(lambda: watch(encoder, texts, meters_of(encoder, texts)))) for _ in range(PAIRS)]
    ratios = sorted(watched / alone for alone, watched in timed)
    note = f"[{ratios[0]:.2f} to {ratios[-1]:.2f} in {PAIRS} pairs; {len(texts):,} texts]"
    return Bar(f"all meters / forward pass with maps{where}", median(ratios), 1.3, at_least=False, note=note)


def _large_encoder() -> Encoder:
    """BERT-base's shape with random weights, which do not change the amount of work."""
    from transformers import BertConfig, BertModel

    from lamina.models.running.huggingface import HuggingFaceEncoder

    tokenizer = cast("HuggingFaceEncoder", load_encoder("minilm", device="cpu")).tokenizer
    with torch.device("cuda"):
        model = BertModel(BertConfig(vocab_size=len(tokenizer)), add_pooling_layer=False)
    return HuggingFaceEncoder(model, tokenizer, name="BERT-base's shape")


def _divergences() -> Iterator[Bar]:
    """On random maps: their values do not change the amount of work."""
    from scipy.spatial.distance import jensenshannon

    draw = torch.Generator().manual_seed(0)
    maps = torch.randn(HEADS, TOKENS, TOKENS, generator=draw).mul(3).softmax(-1)
    size = torch.tensor([TOKENS])
    divergences(maps[None], size)
    ours = _seconds(lambda: [divergences(maps[None], size) for _ in range(TIMED_SEGMENTS)]) / TIMED_SEGMENTS
    note = f"[{TIMED_SEGMENTS} of {SEGMENTS:,} segments timed]"
    what = f"divergences of {HEADS} heads, {SEGMENTS:,} x {TOKENS} tokens"
    yield Bar(what, ours * SEGMENTS, 240, at_least=False, unit=" s", note=note)

    pairs = list(islice(combinations(range(HEADS), 2), SCIPY_PAIRS))
    smooth = maps.numpy() * 0.999 + 0.001 / TOKENS
    theirs = _seconds(lambda: [(jensenshannon(smooth[a].T, smooth[b].T) ** 2).sum() for a, b in pairs])
    whole = theirs / SCIPY_PAIRS * HEADS * (HEADS - 1) / 2
    note = f"[per segment: {ours:.3f} s against {whole:.1f} s, {SCIPY_PAIRS} pairs timed]"
    yield Bar("scipy, pair by pair / divergences of all heads", whole / ours, 30, at_least=True, note=note)


def _divergences_on_gpu() -> Bar:
    """All segments, bootstrap included."""
    encoder = _large_encoder()
    meter = DivergenceMeter(encoder, samples=500)
    shape = (encoder.blocks, GPU_SEGMENTS, encoder.heads, TOKENS, TOKENS)
    maps = torch.randn(shape, device="cuda").mul(3).softmax(-1).unbind()
    words = ("dog",) * (TOKENS - 2)
    tokens = (encoder.tokenize(Text("", words)),) * GPU_SEGMENTS

    def all_segments() -> None:
        for start in range(0, SEGMENTS, GPU_SEGMENTS):
            texts = tuple(Text(str(start + at), words) for at in range(GPU_SEGMENTS))
            meter.update(WatchedBatch(texts, tokens, maps))

    all_segments()
    what = f"divergences of {HEADS} heads, {SEGMENTS:,} x {TOKENS} tokens, on {torch.cuda.get_device_name()}"
    return Bar(what, _seconds(all_segments), 5, at_least=False, unit=" s")


def _epoch(encoder: Encoder) -> Bar:
    """The attention+words probe on EWT train, encoding included."""
    texts = shuffled(load_corpus("ewt", split="train"), 0)
    some = [replace(text, edges={"dep": text.edges["dep"]}) for text in texts[:LEARNED]]
    vectors = static_vectors(encoder, None)
    probe = AttentionAndWords(encoder.blocks * encoder.heads, vectors.width)
    learner = ParserTrainer({"attention+words": probe}, vectors, causal=encoder.causal, seed=0)

    def learn() -> None:
        watch(encoder, some, [learner])
        learner.finish()

    seconds = _seconds(learn)
    note = f"[{seconds:.1f} s for {LEARNED:,} of {len(texts):,} texts, shuffled; {vectors.name} vectors]"
    whole = seconds / LEARNED * len(texts)
    return Bar("an epoch of attention+words on EWT train", whole, 600, at_least=False, unit=" s", note=note)


_WATCH = """
import resource, sys
from benchmarks.attention import meters_of
from lamina.framework.watch import watch
from lamina.corpora import load_corpus
from lamina.models import load_encoder
encoder = load_encoder("minilm", device="cpu")
corpus = load_corpus("ewt", split="train", limit=int(sys.argv[1]))
watch(encoder, corpus, meters_of(encoder, corpus))
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def _memory() -> Bar:
    some, more = (float(_run(_WATCH, texts)) for texts in ("1000", "5000"))
    note = f"[{some / 1024:,.0f} MB for 1,000 texts, {more / 1024:,.0f} MB for 5,000]"
    return Bar("peak memory of meters on 5x the text", more / some, 1.1, at_least=False, note=note)


def _run(program: str, *arguments: str) -> str:
    done = subprocess.run([sys.executable, "-c", program, *arguments], check=True, capture_output=True, text=True)
    return done.stdout.strip()


def _seconds(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    run()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter() - start
