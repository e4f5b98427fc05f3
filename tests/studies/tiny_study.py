"""Checkpoints of a tiny BERT, a treebank, and a study of them."""

from __future__ import annotations

import random
from pathlib import Path

from tests.language_models import save, tiny_masked

_WORDS = ["the", "a", "dog", "cat", "ran", "barked", "end", "yes", "and"]
STUDY = """
[study]
name = "tiny"
models = ["{models}/tiny-step*"]
corpora = [{{ corpus = "{treebank}", name = "own" }}]

[settings]
samples = 20  # enough for a test

[analyses.geometry]
[analyses.heads]
"""


def write_checkpoints(folder: Path) -> Path:
    """Three models of one shape."""
    for step in (100, 200, 300):
        save(tiny_masked(seed=step), folder / f"tiny-step{step}")
    return folder


def write_treebank(folder: Path) -> Path:
    """Sixty sentences of six words in twelve documents."""
    chance, lines = random.Random(0), []
    for number in range(60):
        if number % 5 == 0:
            lines.append(f"# newdoc id = d{number // 5}")
        lines.append(f"# sent_id = s{number}")
        for at, word in enumerate(chance.choices(_WORDS, k=6), start=1):
            tag = "N" if word in ("dog", "cat", "end") else "V" if word in ("ran", "barked") else "X"
            relation = "root" if at == 1 else "dep"
            lines.append(f"{at}\t{word}\t{word}\t{tag}\t_\t_\t{at - 1}\t{relation}\t_\t_")
        lines.append("")
    path = folder / "own-dev.conllu"
    path.write_text("\n".join(lines) + "\n")
    return path
