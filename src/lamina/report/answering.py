"""The chapter on question answering: a model learns to answer little stories, and is looked at while it does."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lamina.encoders import Encoder
    from lamina.results import Result

STORIES = "stories"
LEARNING: dict[str, Any] = {"babi_tasks": (1,), "max_steps": 120, "lr": 2e-4, "batch": 16, "schedule": "constant"}
"""Of stories with one supporting fact: after about 100 such steps a small model has found out what is asked.

A learning rate that decays over so few steps stops short of that."""


def answer_questions(encoder: Encoder, folder: Path, **settings: Any) -> list[tuple[Path, Result]]:
    """Fine-tune on stories, draw the first scored one at every layer, measure the phases over all of them.

    Returns each result with where it is saved: folders `finetune` (the model too), `token_map` and `phases`.
    `settings` are those of `lamina.phases`.
    """
    from lamina import analyses, finetune, load_encoder
    from lamina.encoders.huggingface import HuggingFaceEncoder
    from lamina.errors import ModelError

    if not isinstance(encoder, HuggingFaceEncoder):
        raise ModelError(f"{encoder.name} cannot be fine-tuned: it is no transformer of Hugging Face")
    tuned = folder / "finetune"
    learned = finetune(encoder, "babi", STORIES, out=tuned, **LEARNING)
    answering = load_encoder(str(tuned), device=str(encoder.model.device))
    answering.name = f"{encoder.name}, fine-tuned"
    questions = analyses.load_questions(STORIES)
    mapped = analyses.ask(analyses.token_map, answering, questions, folder / "token_map")
    measured = analyses.ask(analyses.phases, answering, questions, folder / "phases", **settings)
    return [(tuned, learned), (folder / "token_map", mapped), (folder / "phases", measured)]
