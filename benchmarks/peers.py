"""lamina beside what people use instead, on the same texts and model, in one run.

`python -m benchmarks.peers` prints a table per comparison: encoding, probing, statistics of heads. Every library runs
in a process of its own and they take turns, so that a slow moment of the machine meets all of them. Peers are installed
by the extra `peers`, here or in another environment (`--python`); those that are missing are named.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import IO, Any

import numpy as np

from benchmarks.bars import Bar
from benchmarks.peer_programs import encoding, probing

ENCODING = ("lamina", "lamina, stored", *(name for name in encoding.PEERS if "host" not in name))
ON_A_GPU = ("lamina", "lamina, on the card", "transformers, sorted", "transformers, sorted, to the host")
PROBING = tuple(probing.PROGRAMS)
HEADS = ("lamina", "numpy, eager maps")
SUBJECTS = ("encoding", "probing", "heads")


@dataclass
class Contender:
    """One program, waiting for its turn."""

    name: str
    process: subprocess.Popen[str]
    errors: IO[bytes]
    about: dict[str, Any] = field(default_factory=dict)
    turns: list[dict[str, float]] = field(default_factory=list)

    def turn(self) -> None:
        """Let it do its work once."""
        assert self.process.stdin is not None
        self.process.stdin.write("go\n")
        self.process.stdin.flush()
        self.turns.append(self._answer())

    def begin(self) -> None:
        """Wait until it is ready."""
        self.about = self._answer()

    def of(self, what: str) -> list[float]:
        """One number of every turn."""
        return [turn[what] for turn in self.turns]

    def _answer(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        said = self.process.stdout.readline()
        if not said:
            self.errors.seek(0)
            last = self.errors.read().decode(errors="replace").strip().splitlines()[-1:]
            raise ChildProcessError(last[0] if last else "it ended without a word")
        return json.loads(said)


def compare(subject: str, names: Sequence[str], folder: Path, options: argparse.Namespace) -> list[Contender]:
    """Run all programs of a subject in turns; those that cannot run are named and left out."""
    with ExitStack() as stack:
        ready = []
        for name in names:
            contender = _start(subject, name, folder, options, stack)
            try:
                contender.begin()
            except ChildProcessError as error:
                print(f"{name} is left out: {error}", file=sys.stderr, flush=True)
            else:
                ready.append(contender)
        for _ in range(options.rounds):
            for contender in ready:
                contender.turn()
        return ready


def _start(subject: str, name: str, folder: Path, options: argparse.Namespace, stack: ExitStack) -> Contender:
    python = sys.executable if name.startswith("lamina") else options.python
    errors = stack.enter_context(tempfile.TemporaryFile())  # noqa: SIM115 (the stack closes it)
    process = stack.enter_context(
        subprocess.Popen(
            [python, "-m", f"benchmarks.peer_programs.{subject}", name, str(folder), options.device, options.dtype],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env=os.environ | {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"},
            cwd=Path(__file__).parent.parent,
        )
    )
    return Contender(name, process, errors)


def set_table(folder: Path, options: argparse.Namespace) -> None:
    """Write the model, the texts and the vectors of the probing comparison into a folder."""
    from lamina.corpora import load_corpus
    from lamina.models import load_encoder
    from lamina.models.running.huggingface import HuggingFaceEncoder

    encoder = load_encoder(options.model, device="cpu")
    assert isinstance(encoder, HuggingFaceEncoder)
    encoder.model.save_pretrained(folder / "model")
    encoder.tokenizer.save_pretrained(folder / "model")
    texts = [text.words for text in load_corpus(options.corpus, split=options.split, limit=options.texts)]
    (folder / "texts.json").write_text(json.dumps(texts))
    if "probing" in options.subjects:
        arrays = {}
        labels: dict[str, int] = {}
        for part, split, limit in (("learned", "train", options.learned), ("scored", "dev", options.learned // 2)):
            corpus = load_corpus(options.corpus, split=split, limit=limit)
            arrays |= {f"{part}_{name}": each for name, each in _vectors(encoder, corpus, labels).items()}
        np.savez(folder / "probing.npz", **arrays)


def _vectors(encoder: Any, corpus: Any, labels: dict[str, int]) -> dict[str, np.ndarray]:
    """Of the words that are one piece, so that there is no question of how pieces become a word."""
    states, found, owner = [], [], []
    for number, (text, made) in enumerate(zip(corpus, encoder.encode(corpus), strict=True)):
        words = made.tokens.words
        pieces = np.bincount(words[words >= 0], minlength=len(text.words))
        token = {int(word): at for at, word in enumerate(words)}
        for edge in text.edges["pos"]:
            if pieces[edge.span.start] == 1:
                states.append(made.states[token[edge.span.start]].half().numpy())
                found.append(labels.setdefault(edge.labels[0], len(labels)))
                owner.append(number)
    return {"states": np.stack(states), "labels": np.array(found), "text": np.array(owner)}


def encoding_rows(ready: Sequence[Contender], folder: Path) -> Iterator[str]:
    """A line per library: tokens per second, memory, and how far its states are from lamina's."""
    tokens = ready[0].about["tokens"]
    yield "| who | version | tokens/s | tokens/s of CPU time | peak memory | time against lamina | largest difference |"
    yield "|---|---|---|---|---|---|---|"
    for each in ready:
        seconds, cpu = each.of("seconds"), each.of("cpu_seconds")
        apart = _apart(folder / "lamina.npz", folder / f"{each.name}.npz")
        yield (
            f"| {each.name} | {each.about['version']} | {tokens / median(seconds):,.0f} "
            f"({tokens / max(seconds):,.0f} to {tokens / min(seconds):,.0f}) | {tokens / median(cpu):,.0f} "
            f"| {max(each.of('peak_mb')):,.0f} MB | {_ratio(each, ready[0]):.2f}x | {apart:.1e} |"
        )


def probing_rows(ready: Sequence[Contender]) -> Iterator[str]:
    """A line per library: seconds, accuracy over layers and at the best layer."""
    lamina = next(each for each in ready if each.name == "lamina")
    yield f"| who | version | {_SPENT} | probes | accuracy: mean, best |"
    yield "|---|---|---|---|---|---|---|---|"
    for each in ready:
        about = each.about
        yield (
            f"| {each.name} | {about['version']} | {_spent(each, lamina)} | {about['probes']} "
            f"| {about['accuracy']:.3f}, {about['best']:.3f} |"
        )


def heads_rows(ready: Sequence[Contender], folder: Path) -> Iterator[str]:
    """A line per library: seconds, memory, and how far its numbers are from lamina's."""
    yield f"| who | version | {_SPENT} | largest difference |"
    yield "|---|---|---|---|---|---|---|"
    ours = np.load(folder / "heads-lamina.npy")
    for each in ready:
        apart = np.abs(np.load(folder / f"heads-{each.name}.npy") - ours).max()
        yield f"| {each.name} | {each.about['version']} | {_spent(each, ready[0])} | {apart:.1e} |"


_SPENT = "seconds | CPU seconds | peak memory | time against lamina"


def _spent(each: Contender, lamina: Contender) -> str:
    """The cells under `_SPENT`."""
    seconds, cpu = (median(each.of(what)) for what in ("seconds", "cpu_seconds"))
    return f"{seconds:.1f} | {cpu:.1f} | {max(each.of('peak_mb')):,.0f} MB | {_ratio(each, lamina):.2f}x"


def _ratio(each: Contender, lamina: Contender) -> float:
    """Round by round, so that a slow moment of the machine meets both."""
    pairs = zip(each.of("seconds"), lamina.of("seconds"), strict=True)
    return median(theirs / ours for theirs, ours in pairs)


def _apart(ours: Path, theirs: Path) -> float:
    """The largest difference of a number, over the layers that both give."""
    one, other = np.load(ours), np.load(theirs)
    return max(float(np.abs(one[name][-len(other[name]) :] - other[name]).max()) for name in other)


def run(options: argparse.Namespace) -> Iterator[Bar]:
    """Print the tables; one bar per peer."""
    with tempfile.TemporaryDirectory() as holder:
        folder = Path(holder)
        set_table(folder, options)
        names = {"encoding": ON_A_GPU if options.device != "cpu" else ENCODING, "probing": PROBING, "heads": HEADS}
        for subject in options.subjects:
            ready = compare(subject, names[subject], folder, options)
            if subject == "encoding":
                rows = encoding_rows(ready, folder)
            else:
                rows = probing_rows(ready) if subject == "probing" else heads_rows(ready, folder)
            print("\n".join(["", f"{subject}:", *rows, ""]), flush=True)
            lamina = next(each for each in ready if each.name == "lamina")
            for each in ready:
                if not each.name.startswith("lamina"):
                    what = f"{subject}: time of {each.name} / lamina"
                    yield Bar(what, _ratio(each, lamina), 1.0, at_least=True)


def bars() -> Iterator[Bar]:
    """All comparisons, as `python -m benchmarks peers` runs them."""
    return run(_options([]))


def _options(given: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers", description=__doc__)
    parser.add_argument("subjects", nargs="*", default=list(SUBJECTS), help=f"of {', '.join(SUBJECTS)}; default: all")
    parser.add_argument("--python", default=os.environ.get("LAMINA_PEERS", sys.executable), help="a Python with peers")
    parser.add_argument("--model", default="minilm")
    parser.add_argument("--corpus", default="ewt")
    parser.add_argument("--split", default="dev", help="of the corpus, to encode")
    parser.add_argument("--texts", type=int, default=1000, help="texts to encode")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--learned", type=int, default=600, help="texts that probes learn from; half as many are scored"
    )
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", default="float32")
    options = parser.parse_args(given)
    if unknown := set(options.subjects) - set(SUBJECTS):
        parser.error(f"unknown: {', '.join(unknown)}; choose from {', '.join(SUBJECTS)}")
    return options


if __name__ == "__main__":
    for found in run(_options(None)):
        print(found)
