"""Question answering: one token map, phases of a data set against the bare forward passes, and memory."""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from itertools import islice
from statistics import median

from benchmarks.bars import Bar
from lamina.analyses.answering.phases import phases
from lamina.analyses.answering.token_map import token_map
from lamina.corpora.question_sets import Questions, load_questions
from lamina.models import Encoder, load_encoder

PAIRS = 3
_AT_ONCE = 64
"""Questions encoded together, as in `phases`."""


def bars() -> Iterator[Bar]:
    """All bars, on this machine."""
    encoder = load_encoder("minilm", device="cpu")
    yield _map(encoder)
    yield _phases(encoder)
    yield _memory()


def _map(encoder: Encoder) -> Bar:
    questions = load_questions("xquad_en", "all", limit=10)
    chosen = questions.find([question.text.id for question in questions.questions()][-1])
    token_map(encoder, chosen)
    seconds = median(_timed(lambda: token_map(encoder, chosen)) for _ in range(PAIRS))
    return Bar("token map of one question, minilm", seconds, 2.0, at_least=False, unit=" s")


def _phases(encoder: Encoder) -> Bar:
    """The model and its twin: two passes over the questions."""
    questions = load_questions("xquad_en", "all")
    twin = encoder.random_twin(0)

    def bare() -> None:
        remaining = iter(questions)
        while chunk := list(islice(remaining, _AT_ONCE)):
            for each in (encoder, twin):
                for _ in each.encode(chunk):
                    pass

    ratios = [_timed(lambda: phases(encoder, questions)) / _timed(bare) for _ in range(PAIRS)]
    what = "phases of xquad_en against the bare forward passes of model and twin"
    return Bar(what, median(ratios), 1.3, at_least=False, unit="x")


def _memory() -> Bar:
    """Peak memory of four times as many questions, each measured in its own process."""
    few, many = (_peak(count) for count in (250, 1000))
    said = f"{few:.0f} MB for 250 questions, {many:.0f} MB for 1,000"
    return Bar("phases: peak memory of four times as many questions", many / few, 1.15, False, "x", said)


def _peak(count: int) -> float:
    code = f"from benchmarks.questions import peak; print(peak({count}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return float(done.stdout.split()[-1])


def peak(count: int) -> float:
    """Peak memory of this process in MB, after the phases of `count` questions."""
    questions: Questions = load_questions("xquad_en", "all", limit=count)
    phases(load_encoder("minilm", device="cpu"), questions, clustered=20)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _timed(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start
