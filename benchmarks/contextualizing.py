"""Words in context: class probes together against one after another, and memory and disk of a million occurrences."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from statistics import median

import numpy as np
import torch

from benchmarks.bars import Bar
from lamina.corpora import Corpus
from lamina.models import Activations, Encoder, Tokens
from lamina.models.contract import STATES, Want
from lamina.probes.mlp import ClassExamples, ClassProbe, MLPTraining, Vectors, train
from lamina.types import Edge, Span, Text

LAYERS, WIDTH, CLASSES = 7, 384, 26
EXAMPLES, BATCH, HIDDEN = 128 * 8, 128, 1024
RUNS = 3
EPOCHS = {"cpu": 1, "cuda": 20}
"""Enough that drawing initial weights does not matter."""


AMOUNTS = (10**4, 10**5, 10**6)
"""Occurrences of words."""
DEPTH, NARROW = 4, 64
"""Layers and width of the encoder that they are encoded with."""


def bars() -> Iterator[Bar]:
    """On this machine's cores, on its GPU if there is one, memory and disk by size, then the real command."""
    yield from ratios()
    yield from growth()
    yield from _command()


def ratios() -> Iterator[Bar]:
    """Alone and together in turn, since the speed of a shared machine varies."""
    devices = [("cpu", 1.3), *([("cuda", 20.0)] if torch.cuda.is_available() else [])]
    for device, bar in devices:
        told = _told()
        _alone(told, ClassProbe(0), device)
        pairs = [(_all_alone(told, device), _together(told, device)) for _ in range(RUNS)]
        ratio = median(alone / together for alone, together in pairs)
        alone, together = (median(each) for each in zip(*pairs, strict=True))
        what = f"{LAYERS * CLASSES} probes of {WIDTH} x {HIDDEN}, batch {BATCH}, {EPOCHS[device] * EXAMPLES:,} examples"
        spread = f"{min(a / b for a, b in pairs):.1f} to {max(a / b for a, b in pairs):.1f}"
        note = f"[{what}: {together:.2f} s against {alone:.2f} s; {spread}]"
        yield Bar(f"class probes one after another / together, {device}", ratio, bar, at_least=True, note=note)


def _told() -> list[ClassExamples]:
    """One per layer."""
    draw = torch.Generator().manual_seed(0)
    gold = torch.rand(1, EXAMPLES, CLASSES, generator=draw) < 0.1
    layers = torch.randn(LAYERS, EXAMPLES, WIDTH, generator=draw).half()
    return [ClassExamples(Vectors.of(layer), gold) for layer in layers]


def _together(told: list[ClassExamples], device: str) -> float:
    probes = [ClassProbe(label) for label in range(CLASSES)]
    training = MLPTraining(HIDDEN, epochs=EPOCHS[device], batch=BATCH, select=False)
    start = time.perf_counter()
    for layer in told:
        train(layer, layer, probes, training, device=device)
    _wait(device)
    return time.perf_counter() - start


def _all_alone(told: list[ClassExamples], device: str) -> float:
    """Time one layer, and multiply by the number of layers."""
    start = time.perf_counter()
    for label in range(CLASSES):
        _alone(told, ClassProbe(label), device)
    _wait(device)
    return (time.perf_counter() - start) * LAYERS


def _alone(told: list[ClassExamples], probe: ClassProbe, device: str) -> None:
    """With torch's own modules and optimiser."""
    linear = torch.nn.Linear
    model = torch.nn.Sequential(linear(WIDTH, HIDDEN), torch.nn.ReLU(), linear(HIDDEN, 1)).to(device)
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-3)
    vectors = told[0].vectors.take(torch.arange(EXAMPLES)).to(device)
    gold = told[0].gold[0, :, probe.label].float().to(device)
    for epoch in range(EPOCHS[device]):
        for rows in torch.from_numpy(np.random.default_rng(epoch).permutation(EXAMPLES)).to(device).split(BATCH):
            logits = model(vectors[rows]).squeeze(1)
            optimiser.zero_grad()
            torch.nn.functional.binary_cross_entropy_with_logits(logits, gold[rows]).backward()
            optimiser.step()


def _wait(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


_GROWTH = """
import resource, sys, time
from contextlib import ExitStack
from pathlib import Path
import numpy as np
import torch
from benchmarks.contextualizing import Quick, occurrences
from lamina.analyses.words.contextualize.vectors import VectorRequest, Workspace, word_vectors
from lamina.analyses.words.occurrences import find_words
from lamina.probes.mlp import ClassExamples, ClassProbe, MLPTraining, Vectors, train

def note(name):
    print(name, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024, time.perf_counter() - start)

start = time.perf_counter()
encoder, corpus = Quick(), occurrences(int(sys.argv[1]))
note("start")
data = find_words(corpus, encoder)
assert len(data.text) == int(sys.argv[1])
note("found")
with ExitStack() as stack:
    kept = word_vectors(VectorRequest(encoder, data), Workspace(Path(sys.argv[2]), stack))
    note("encoded")
    layer = kept.layer(1)
    some = {split: data.of(split) for split in ("train", "dev")}
    learn, choose = (
        ClassExamples(Vectors(layer, items), torch.from_numpy(data.gold[items]).unsqueeze(0)) for items in some.values()
    )
    train(learn, choose, [ClassProbe(label) for label in range(2)], MLPTraining(16, epochs=1, batch=4096))
    note("trained")
    print("disk", sum(path.stat().st_size for path in kept.folder.glob("*.safetensors")), 0)
"""


class Quick(Encoder):
    """Looks its states up: what is measured is everything around the model."""

    name, heads = "quick", 0
    blocks, width = DEPTH - 1, NARROW

    def __init__(self) -> None:
        self._states = torch.randn(997, DEPTH, NARROW, generator=torch.Generator().manual_seed(0))

    @property
    def fingerprint(self) -> str:
        """See `Encoder.fingerprint`."""
        return "quick"

    def tokenize(self, text: Text) -> Tokens:
        """See `Encoder.tokenize`."""
        ids = [int(word[1:]) % 997 for word in text.words]
        return Tokens(np.array(ids, np.int32), np.arange(len(ids), dtype=np.int32))

    def encode(
        self, texts: Iterable[Text], want: Collection[Want] = STATES, *, ordered: bool = True
    ) -> Iterator[Activations]:
        """See `Encoder.encode`."""
        for text in texts:
            tokens = self.tokenize(text)
            yield Activations(text.id, tokens, self._states[tokens.ids])


def occurrences(count: int) -> Corpus:
    """So many annotated words, ten to a text, of 20,000 words and eight classes."""

    def read() -> Iterator[Text]:
        for number in range(count // 10):
            spoken = [(number * 10 + at) * 7919 % 20_000 for at in range(10)]
            edges = tuple(Edge((f"class{word % 8}",), Span(at, at + 1)) for at, word in enumerate(spoken))
            yield Text(f"t{number}", tuple(f"w{word}" for word in spoken), edges={"sclass": edges})

    return Corpus("generated", "all", "sentence", "", f"generated {count}", source=read, declared=("sclass",))


def growth() -> Iterator[Bar]:
    """Memory and disk by the number of occurrences, each in a process of its own."""
    seen = {count: _measure(count) for count in AMOUNTS}
    least, _, most = AMOUNTS
    for count, own in seen.items():
        start = own["start"][0]
        stages = {stage: (own[stage][0] - start) / 2**20 for stage in ("found", "encoded", "trained")}
        said = ", ".join(f"{stage} {grown:.0f} MB" for stage, grown in stages.items())
        note = f"[memory above {start / 2**20:.0f} MB at the start: {said}; {own['trained'][1]:.0f} s]"
        theory = 2 * DEPTH * NARROW
        what = f"disk of an occurrence / layers x width x 2 bytes, {count:,} occurrences"
        yield Bar(what, own["disk"][0] / count / theory, 1.1, at_least=False, note=note)
    added = {count: max(0, own["encoded"][0] - own["found"][0]) / 2**20 for count, own in seen.items()}
    what = f"memory that encoding adds, {most:,} occurrences"
    yield Bar(what, added[most], 200, at_least=False, unit=" MB", note=f"[{least:,}: {added[least]:.0f} MB]")
    each = (seen[most]["trained"][0] - seen[least]["trained"][0]) / (most - least)
    note = f"[one layer of it is {2 * NARROW} bytes; of an encoder of 12 blocks, 768 wide, 1,536]"
    yield Bar("memory of an occurrence, one layer held", each, 300, at_least=False, unit=" bytes", note=note)


def _measure(count: int) -> dict[str, tuple[float, float]]:
    """Stage -> peak memory so far, and seconds."""
    with tempfile.TemporaryDirectory() as store:
        environment = {**os.environ, "LAMINA_PROGRESS": "none"}
        asked = [sys.executable, "-c", _GROWTH, str(count), store]
        done = subprocess.run(asked, check=True, capture_output=True, text=True, env=environment)
    rows = (line.split() for line in done.stdout.splitlines())
    return {stage: (float(value), float(seconds)) for stage, value, seconds in rows}


def _command() -> Iterator[Bar]:
    """The real command, once, with nothing stored; models and corpora come from the cache."""
    with tempfile.TemporaryDirectory() as holder:
        asked = ["contextualize", "minilm", "--corpus", "ewt", "--preset", "quick", "--out", f"{holder}/out"]
        start = time.perf_counter()
        with (Path(holder) / "said").open("wb") as said:
            child = subprocess.Popen(
                [sys.executable, "-m", "lamina", *asked, "--store", f"{holder}/store", "--device", "cpu"],
                stdout=said,
                stderr=said,
            )
            # For this child only, which `resource` cannot separate from earlier ones.
            _, status, used = os.wait4(child.pid, 0)
        seconds = time.perf_counter() - start
        child.returncode = os.waitstatus_to_exitcode(status)
        assert child.returncode == 0, (Path(holder) / "said").read_text()
    what = "lamina contextualize minilm --corpus ewt --preset quick"
    note = f"[{used.ru_utime + used.ru_stime:.0f} s of CPU]"
    yield Bar(what, seconds, 300, at_least=False, unit=" s", note=note)
    yield Bar(f"peak memory of {what}", used.ru_maxrss / 1024**2, 4.0, at_least=False, unit=" GB")
