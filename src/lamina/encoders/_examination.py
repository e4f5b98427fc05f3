"""All checks of a passport, in the order in which they are told."""

from __future__ import annotations

from importlib.metadata import version
from time import perf_counter
from typing import Literal, NamedTuple

import torch

from lamina.encoders._maps_checks import (
    check_every_block,
    check_fast_path,
    check_look_ahead,
    check_output,
    check_rows,
    check_states_with_maps,
    run_eager,
)
from lamina.encoders._parts_checks import check_ablation, check_vocabulary, check_weights, language_head
from lamina.encoders._states_checks import (
    check_alive,
    check_company,
    check_direction,
    check_layer_order,
    check_padding,
    check_windows,
)
from lamina.encoders._trial import Trial
from lamina.encoders.contract import Encoder
from lamina.encoders.huggingface import HuggingFaceEncoder
from lamina.encoders.passport import PASSPORT_VERSION, Check, Passport, features


class _Found(NamedTuple):
    checks: list[Check]
    sink: str | None = None
    ablatable: tuple[str, ...] = ()
    language_head: Literal["masked", "causal"] | None = None


def examined(encoder: Encoder) -> Passport:
    """See `lamina.encoders.passport.examine`."""
    start = perf_counter()
    trial = Trial(encoder)
    alive = check_alive(trial)
    if alive.verdict == "fails":
        # Everything else would compare numbers that mean nothing.
        found = _Found([alive])
    elif isinstance(encoder, HuggingFaceEncoder) and encoder.model.training:
        # With dropout on, two runs of the model differ; only what the encoder hands out can be compared.
        found = _Found([alive, check_company(trial), check_padding(trial)])
    elif isinstance(encoder, HuggingFaceEncoder):
        found = _of_transformers(encoder, trial, alive)
    else:
        found = _of_any(trial, alive)
    return Passport(
        model=encoder.name,
        architecture=type(encoder.model).__name__
        if isinstance(encoder, HuggingFaceEncoder)
        else type(encoder).__name__,
        fingerprint=encoder.fingerprint,
        version=PASSPORT_VERSION,
        transformers=version("transformers"),
        torch=str(torch.__version__),
        seconds=perf_counter() - start,
        causal=encoder.causal,
        sink=found.sink,
        maps=encoder.map_blocks,
        ablatable=found.ablatable,
        language_head=found.language_head,
        checks=tuple(found.checks),
        features=features(trial.alone["plain"]),
    )


def _of_any(trial: Trial, alive: Check) -> _Found:
    rows = check_rows(trial, ())
    states = [check_company(trial), check_padding(trial), check_direction(trial), check_windows(trial)]
    maps = [check_states_with_maps(trial), check_every_block(trial), check_look_ahead(trial), rows.check]
    return _Found([alive, *states, *maps], rows.sink)


def _of_transformers(encoder: HuggingFaceEncoder, trial: Trial, alive: Check) -> _Found:
    eager = run_eager(encoder, trial) if trial.has_maps else None
    rows = check_rows(trial, () if eager is None else eager.calls)
    ahead = check_look_ahead(trial)
    made = check_output(encoder, trial, eager)
    sound = "fails" not in (rows.check.verdict, ahead.verdict, made.output.verdict)
    ablation = check_ablation(encoder, trial)
    checks = [
        check_weights(encoder),
        check_vocabulary(encoder),
        alive,
        check_layer_order(encoder, trial),
        check_company(trial),
        check_padding(trial),
        check_windows(trial),
        check_direction(trial),
        check_states_with_maps(trial, eager),
        check_fast_path(encoder, trial, eager, sound=sound),
        check_every_block(trial),
        ahead,
        rows.check,
        made.output,
        made.groups,
        ablation.check,
    ]
    return _Found(checks, rows.sink, ablation.parts, language_head(encoder))
