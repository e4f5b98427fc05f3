"""One point of `benchmarks.scaling`: some work on generated texts, in a process of its own.

`python -m benchmarks.growing encode '{"texts": 1000}'` prints seconds, CPU seconds and peak memory as JSON.
"""

from __future__ import annotations

import json
import os
import random
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import torch

from benchmarks import tiny_architectures
from lamina.activations import ActivationStore, ThisMachine, extract
from lamina.corpora import Corpus, load_corpus
from lamina.models import Encoder
from lamina.models.loading import encoder_from
from lamina.types import Edge, Span, Text

TAGS = ("NOUN", "VERB", "DET", "ADJ", "ADV", "PRON", "ADP", "X")
_WORDS = (
    *("the", "cat", "dog", "bark", "sat", "on", "mat", "quick", "brown", "fox", "jump", "over", "lazy", "who", "did"),
    *("and", "far", "run", "away", "from", "near", "river", "bank", "where", "old", "king", "slept", "while", "rain"),
)


_SHARD_BYTES = 8 * 2**20
"""Less than usual: with buffers of the usual size, small corpora would not fill them and seem to need less memory."""


class Spent(NamedTuple):
    """What a point took."""

    seconds: float
    cpu_seconds: float
    peak_mb: float
    """Of the whole process, with libraries and model."""
    start_mb: float
    """The same before the work began."""


def generated(count: int, *, tagged: bool = False) -> Iterator[Text]:
    """Different texts of 6 to 12 words, each word with a tag if wanted; generated again on every pass."""
    draw = random.Random(0)
    for number in range(count):
        words = tuple(draw.choices(_WORDS, k=draw.randint(6, 12)))
        edges = {"pos": _tags(words)} if tagged else {}
        yield Text(str(number), words, edges=edges, doc=f"document {number // 20}")


def _tags(words: tuple[str, ...]) -> tuple[Edge, ...]:
    return tuple(Edge((tag_of(word),), Span(at, at + 1)) for at, word in enumerate(words))


def tag_of(word: str) -> str:
    """The same tag for a word every time."""
    return TAGS[sum(map(ord, word)) % len(TAGS)]


def corpus_of(count: int, *, tagged: bool = False) -> Corpus:
    """A corpus that is never in memory as a whole."""
    name = f"generated {count} {tagged}"
    return Corpus("generated", "all", "sentence", "none", name, lambda: generated(count, tagged=tagged))


def tiny_bert(blocks: int = 2, width: int = 32) -> Encoder:
    """A BERT with random weights: real tokenizer, batches and attention, and next to no arithmetic."""
    built = tiny_architectures.build("bert", num_hidden_layers=blocks, hidden_size=width, intermediate_size=2 * width)
    assert not isinstance(built, str), built
    return encoder_from(built.model, built.tokenizer, name="tiny BERT")


def encode(folder: Path, *, texts: int, blocks: int = 2, width: int = 32) -> Callable[[], object]:
    """Encode and store."""
    encoder, corpus = tiny_bert(blocks, width), corpus_of(texts)
    # A first call pays for what later ones have: buffers, and libraries that are loaded on demand.
    extract(encoder, corpus_of(10), root=folder / "first")
    return lambda: extract(encoder, corpus, root=folder, engine=ThisMachine(shard_bytes=_SHARD_BYTES))


def encode_shard(_folder: Path, *, texts: int, shard: int, of: int, place: str) -> Callable[[], object]:
    """Encode one shard of the texts into a store that others write to as well."""
    from lamina.activations.extraction import Rank, encode_rank

    # Large enough that encoding, and not reading the corpus in every process, is most of the work.
    encoder, corpus = tiny_bert(blocks=6, width=256), corpus_of(texts)
    return lambda: encode_rank(encoder, corpus, Rank(shard, of), root=place)


def forward(_folder: Path, *, texts: int, blocks: int = 2, width: int = 32) -> Callable[[], object]:
    """The same batches through the model alone: what no encoder can be faster than."""
    encoder: Any = tiny_bert(blocks, width)
    caught: list[dict[str, Any]] = []
    hook = encoder.model.register_forward_pre_hook(
        lambda _module, _args, inputs: caught.append({k: v for k, v in inputs.items() if isinstance(v, torch.Tensor)}),
        with_kwargs=True,
    )
    for _ in encoder.encode(corpus_of(texts), ordered=False):
        pass
    hook.remove()

    def run() -> None:
        with torch.no_grad():
            for batch in caught:
                encoder.model(**batch, output_hidden_states=True)

    return run


def open_again(folder: Path, *, texts: int) -> Callable[[], object]:
    """Find all texts in a store that is already full."""
    encoder, corpus = tiny_bert(), corpus_of(texts)
    extract(encoder, corpus, root=folder)
    root, fingerprint = os.fspath(folder), encoder.fingerprint
    return lambda: ActivationStore(Path(root) / fingerprint[:32]).open(corpus)


def read(folder: Path, *, texts: int) -> Callable[[], object]:
    """Read the states of all texts from a store, one after the other."""
    stored = extract(tiny_bert(), corpus_of(texts), root=folder)

    def run() -> None:
        for index in range(len(stored)):
            stored.load(index)

    return run


def parse(folder: Path, *, texts: int) -> Callable[[], object]:
    """Read a CoNLL-U file."""
    path = folder / "generated.conllu"
    with path.open("w", encoding="utf-8") as file:
        for text in generated(texts):
            file.write(f"# sent_id = {text.id}\n")
            for at, word in enumerate(text.words, 1):
                tag = tag_of(word)
                file.write(f"{at}\t{word}\t{word}\t{tag}\t_\t_\t{at - 1}\t{'root' if at == 1 else 'dep'}\t_\t_\n")
            file.write("\n")
    os.environ["LAMINA_CACHE"] = str(folder / "cache")

    def run() -> None:
        assert sum(1 for _ in load_corpus(str(path), split="all")) == texts

    return run


def watch_heads(_folder: Path, *, texts: int) -> Callable[[], object]:
    """The surface measures of `lamina attention`."""
    from lamina.analyses.heads.surface import SurfaceMeter
    from lamina.framework.watch import watch

    encoder, corpus = tiny_bert(), corpus_of(texts)

    def run() -> None:
        meter = SurfaceMeter(encoder)
        watch(encoder, corpus, [meter])
        meter.measured()

    return run


def geometry(folder: Path, *, texts: int) -> Callable[[], object]:
    """`lamina geometry` without a twin, from states that are stored."""
    from lamina.analyses.layers.geometry import geometry as analysis

    encoder, corpus = tiny_bert(), corpus_of(texts)
    extract(encoder, corpus, root=folder)
    os.environ["LAMINA_CACHE"] = str(folder / "cache")
    return lambda: analysis(encoder, corpus, store=folder, samples=100, twin=False)


def probe(
    folder: Path, *, texts: int, seeds: int = 1, tasks: int = 1, steps: int | None = None
) -> Callable[[], object]:
    """Tags by a probe of every layer: one pass over the texts, or so many steps, for each task and all seeds."""
    from lamina.probes.bank import train_probes
    from lamina.probes.edge import EdgeProbes, LayerCut
    from lamina.probes.learner import ProbeGroup, Schedule
    from lamina.probes.streams import Stream, find_targets
    from lamina.tasks import get_task, label_set

    encoder, corpus = tiny_bert(), corpus_of(texts, tagged=True)
    stored = extract(encoder, corpus, root=folder)
    task = get_task("pos")
    labels = label_set(task, corpus)
    cuts = [LayerCut("layer", layer) for layer in range(encoder.layers)]
    shape = {"layers": encoder.layers, "width": encoder.width, "labels": len(labels)}

    def run() -> None:
        for _ in range(tasks):
            targets = find_targets(task, corpus, stored.tokenized(), labels)
            stream, valid = Stream(stored, targets), Stream(stored, targets.among(range(32)))
            groups = [
                ProbeGroup(EdgeProbes(cuts, **shape, arity=1, seed=seed), targets, valid.targets, (stream, valid))
                for seed in range(seeds)
            ]
            schedule = Schedule(validate_every=steps or stream.batches, max_validations=1)
            train_probes(groups, schedule, order_seed=0, what="growing")

    return run


WORKS: dict[str, Callable[..., Callable[[], object]]] = {
    "encode": encode,
    "encode_shard": encode_shard,
    "forward": forward,
    "open": open_again,
    "read": read,
    "parse": parse,
    "heads": watch_heads,
    "geometry": geometry,
    "probe": probe,
}
"""Name -> what sets the work up in a folder and returns it."""


def measure(work: str, settings: dict[str, Any]) -> Spent:
    """Do the work once."""
    # One thread: CPU time is then work done, and not threads that wait for each other.
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        run = WORKS[work](Path(folder), **settings)
        before, wall, cpu = _peak(), time.perf_counter(), time.process_time()
        kept = run()
        spent = Spent(time.perf_counter() - wall, time.process_time() - cpu, _peak(), before)
        del kept
    return spent


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    print(json.dumps(measure(sys.argv[1], json.loads(sys.argv[2]))._asdict()))
