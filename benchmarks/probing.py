"""Probing minilm on EWT: the bank against one probe after another, and against encoding again at every step."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import torch

from benchmarks.bars import Bar
from lamina.activations import extract
from lamina.corpora import load_corpus
from lamina.models import load_encoder
from lamina.models.running.huggingface import HuggingFaceEncoder
from lamina.probes.bank import ProbeGroup, Schedule, train_probes
from lamina.probes.edge import EdgeProbes, LayerCut
from lamina.probes.streams import ProbeTargets, Stream, find_targets
from lamina.tasks import get_task, label_set
from lamina.types import Text

TEXTS = 1000
STEPS = 12
SEEDS = 3
ENCODED = 8
"""Batches encoded to estimate the cost of encoding at every step."""
BATCH = 32


def bars() -> Iterator[Bar]:
    """Both ratios, then the real command."""
    with tempfile.TemporaryDirectory() as root:
        setting = _Setting.make(root)
        setting.seconds(setting.cuts[:1], seeds=1)
        bank = setting.seconds(setting.cuts, seeds=SEEDS)
        alone = SEEDS * sum(setting.seconds([cut], seeds=1) for cut in setting.cuts)
        count = SEEDS * len(setting.cuts)
        note = f"[{count} probes, {STEPS} steps of {BATCH} texts: {bank:.1f} s against {alone:.1f} s, one seed timed]"
        yield Bar("one probe after another / bank", alone / bank, 2.0, at_least=True, note=note)
        anew = count * STEPS * setting.encoding() + alone
        note = f"[{ENCODED} steps timed, {count * STEPS} extrapolated: {anew:,.0f} s]"
        yield Bar("encoding again at every step / bank", anew / bank, 30.0, at_least=True, note=note)
    yield from _command()


class _Setting(NamedTuple):
    """Part of speech, on the first training texts."""

    encoder: HuggingFaceEncoder
    texts: list[Text]
    stream: Stream
    valid: Stream
    cuts: list[LayerCut]

    @classmethod
    def make(cls, root: str) -> _Setting:
        encoder = load_encoder("minilm", device="cpu")
        assert isinstance(encoder, HuggingFaceEncoder)
        corpus = load_corpus("ewt", split="train", limit=TEXTS)
        stored = extract(encoder, corpus, root=root)
        task, texts = get_task("pos"), list(corpus)
        targets = find_targets(task, texts, (each.tokens for each in stored), label_set(task, texts))
        cuts = [LayerCut(probe, layer) for probe in ("cumulative", "layer") for layer in range(encoder.layers)]
        # A validation of one batch, which takes the same share of time on both sides.
        valid = Stream(stored, targets.among(range(BATCH)))
        return cls(encoder, texts, Stream(stored, targets, batch_texts=BATCH), valid, cuts)

    @property
    def targets(self) -> ProbeTargets:
        return self.stream.targets

    def seconds(self, cuts: list[LayerCut], seeds: int) -> float:
        """Seconds to train these cuts, each with `seeds` seeds, as one bank."""
        shape = {"layers": self.encoder.layers, "width": self.encoder.width, "labels": len(self.targets.labels)}
        labelled = self.targets, self.valid.targets, (self.stream, self.valid)
        groups = [ProbeGroup(EdgeProbes(cuts, **shape, arity=1, seed=seed), *labelled) for seed in range(seeds)]
        schedule = Schedule(learning_rate=2e-3, validate_every=STEPS, max_validations=1)
        start = time.perf_counter()
        train_probes(groups, schedule, order_seed=0, what="benchmark")
        return time.perf_counter() - start

    def encoding(self) -> float:
        """Seconds per step to encode a batch in file order, as without stored activations."""
        batches = (self.texts[at : at + BATCH] for at in range(0, len(self.texts), BATCH))
        start = time.perf_counter()
        with torch.no_grad():
            for texts in islice(batches, ENCODED):
                words = [list(text.words) for text in texts]
                batch = self.encoder.tokenizer(words, is_split_into_words=True, padding=True, return_tensors="pt")
                self.encoder.model(**batch, output_hidden_states=True)
        return (time.perf_counter() - start) / ENCODED


def _command() -> Iterator[Bar]:
    """The real command, once, with nothing stored and no run to continue; models and corpora come from the cache."""
    from lamina.assets import cache_dir

    with tempfile.TemporaryDirectory() as holder:
        cache = Path(holder) / "cache"
        cache.mkdir()
        for part in cache_dir().iterdir():
            if part.name != "probes":
                (cache / part.name).symlink_to(part)
        places = {"LAMINA_CACHE": str(cache), "LAMINA_STORE": f"{holder}/store"}
        asked = ["probe", "minilm", "--corpus", "ewt", "--preset", "quick", "--out", f"{holder}/out"]
        start = time.perf_counter()
        with (Path(holder) / "said").open("wb") as said:
            child = subprocess.Popen(
                [sys.executable, "-m", "lamina", *asked], env=os.environ | places, stdout=said, stderr=said
            )
            # For this child only, which `resource` cannot separate from earlier ones.
            _, status, used = os.wait4(child.pid, 0)
        seconds = time.perf_counter() - start
        child.returncode = os.waitstatus_to_exitcode(status)
        assert child.returncode == 0, (Path(holder) / "said").read_text()
    peak = used.ru_maxrss / 1024**2
    what = "lamina probe minilm --corpus ewt --preset quick"
    yield Bar(what, seconds, 180, at_least=False, unit=" s")
    yield Bar(f"peak memory of {what}", peak, 4.0, at_least=False, unit=" GB")
