"""Training the tuned lens of a model on a corpus, once: translators are saved with the runs of probes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from lamina.analyses.behaviour.lens.readings import draw_positions
from lamina.corpora.corpus import fingerprint_of
from lamina.errors import CorpusError, DamagedError
from lamina.files.checking import load_tensors, save_tensors
from lamina.framework.cache import run_folder
from lamina.models.language.lens import layer_states
from lamina.probes.translators import TranslatorExamples, Translators, fit_translators
from lamina.progress import progress, say

if TYPE_CHECKING:
    from lamina.activations import Runtime
    from lamina.models.language.language_model import LanguageModel
    from lamina.types import Text

FORMAT = 1
"""Of saved translators; raised when the same texts would give others."""
SELECTION = 400
"""Positions by which translators are chosen."""
_STATES = {"cpu": 2**30, "cuda": 2**34}
"""Bytes of states that are learned from, at most."""


class TranslatorTexts(NamedTuple):
    """What translators learn from."""

    learn: Sequence[Text]
    select: Sequence[Text]
    """Of other documents: penalties and the number of steps are chosen by them."""
    fingerprint: str


def tuned_lens(
    model: LanguageModel, texts: TranslatorTexts, *, positions: int, steps: int, seed: int, runtime: Runtime
) -> Translators:
    """The translators of a model on a corpus; those of an earlier run with the same settings are used again."""
    about = {"format": FORMAT, "positions": positions, "selection": SELECTION, "steps": steps, "seed": seed}
    key = fingerprint_of("translators", model.fingerprint, texts.fingerprint, about)
    with run_folder(key, runtime.store) as folder:
        path = folder / "translators.safetensors"
        try:
            tensors, head = load_tensors(path)
        except OSError:
            pass
        except DamagedError as error:
            say(f"{error}; translators are trained again")
        else:
            say(f"translators of {model.name} were trained before")
            return Translators.of(tensors, tuple(head["chosen"]))
        learn = _examples(model, texts.learn, positions, seed)
        select = _examples(model, texts.select, SELECTION, seed)
        translators = fit_translators(model, learn, select, steps=steps, seed=seed)
        save_tensors(path, translators.tensors(), {**about, "chosen": translators.chosen})
    return translators


def _examples(model: LanguageModel, texts: Sequence[Text], positions: int, seed: int) -> TranslatorExamples:
    encoder = model.encoder
    room = _STATES["cpu" if encoder.device.type == "cpu" else "cuda"] // (4 * (encoder.layers + 1) * encoder.width)
    drawn = draw_positions(model, texts, min(positions, max(1, room)), seed=seed)
    if not len(drawn):
        raise CorpusError(f"{model.name} has no tokens for any of the training texts; translators cannot be trained")
    states: Any = torch.empty(len(drawn), encoder.layers + 1, encoder.width, device=encoder.device)
    with progress(f"states of {model.name} to learn from", len(drawn)) as advance:
        for numbers, some in layer_states(model, drawn.wanted, raw=True):
            states[torch.from_numpy(numbers).to(states.device)] = some
            advance(len(numbers))
    return TranslatorExamples(states[:, :-1], states[:, -1])
