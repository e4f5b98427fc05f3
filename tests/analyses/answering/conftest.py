"""Toy questions, and a tiny model that answers them without having learned anything."""

from __future__ import annotations

import importlib.util
from itertools import pairwise
from pathlib import Path

import pytest

from lamina.corpora.question_sets import Questions, questions_from
from lamina.corpora.questions.question import make_question
from lamina.models import Encoder, load_encoder

SENTENCES = ("the fox sat.", "a cat ran.", "the dog ate.")


def _tiny_models():
    path = Path(__file__).parents[2] / "models" / "tiny_models.py"
    spec = importlib.util.spec_from_file_location("tiny_models_for_questions", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def pretrained(tmp_path_factory) -> Encoder:
    """A tiny BERT without a head."""
    return load_encoder(str(_tiny_models().build("bert", tmp_path_factory.mktemp("tiny") / "plain")), device="cpu")


@pytest.fixture
def answering_folder(pretrained, tmp_path: Path) -> Path:
    """A tiny BERT with a span head."""
    import torch
    import transformers

    folder = tmp_path / "answering"
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = transformers.AutoModelForQuestionAnswering.from_pretrained(pretrained.model.name_or_path)
    model.save_pretrained(folder)
    pretrained.tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def toys() -> Questions:
    """Twelve questions about four documents of three sentences."""
    made = []
    for number in range(12):
        at = number % 3
        first = SENTENCES[at]
        context = " ".join((*SENTENCES[at:], *SENTENCES[:at]))
        ends = [0]
        for sentence in context.split(". "):
            ends.append(ends[-1] + len(sentence.rstrip(".")) + 2)
        ranges = [(start, end - 1) for start, end in pairwise(ends)]
        who = first.split()[1]
        place = (context.index(who), context.index(who) + len(who))
        asked = f"who {first.split()[2][:-1]}?"
        made.append(make_question(f"q{number}", asked, context, ranges, [place], {0}, doc=f"doc {number // 3}"))
    return questions_from(made, "toys", "test")
