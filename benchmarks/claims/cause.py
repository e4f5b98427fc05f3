"""Claims about what parts of a model are for: ablated heads and blocks, erased concepts, roles of heads, patches.

Scores of items are simulated, by document; the analyses' own tests make findings or verdicts of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
from torch import Tensor

from benchmarks.claims import Simulation
from lamina.analyses.cause.ablate import (
    AGREEMENT,
    CONTRASTS,
    EFFECTS,
    AblationScores,
    agreement_rows,
    contrast_rows,
    effect_rows,
    findings_of,
)
from lamina.analyses.cause.effects import AblatedPart
from lamina.analyses.cause.erasure import (
    CONCEPT,
    CONTROL,
    RANDOM,
    USED,
    ErasureScores,
    ProbeHits,
    compare_layers,
    readable_layers,
    verdict_of,
)
from lamina.analyses.cause.exchanged_states import CONTRASTS as PAIR_CONTRASTS
from lamina.analyses.cause.exchanged_states import (
    CONTROLS,
    DIFFERENCES,
    GAPS,
    PATCH,
    ROLE_TOKENS,
    PairPatch,
    pair_tables,
    turned_tables,
)
from lamina.analyses.cause.exchanged_states import EFFECTS as PAIR_EFFECTS
from lamina.analyses.cause.exchanged_states import RANDOM as RANDOM_TOKENS
from lamina.analyses.cause.importance import GateGradients
from lamina.analyses.cause.patch import findings_of as patch_findings
from lamina.analyses.cause.role_heads import (
    GROUPS,
    ROLES,
    HeadAblations,
    HeadRole,
    Kind,
    RoleNeed,
    group_rows,
    role_rows,
)
from lamina.analyses.cause.roles import findings_of as roles_findings
from lamina.models.interventions.edited_runs import Edit
from lamina.results import Provenance, Result
from lamina.results.finding import Finding
from lamina.targets.target import Target, TargetScores

DOCUMENTS, BLOCKS, HEADS = 20, 4, 6
DRAWN: dict[str, Any] = {"samples": 400, "seed": 0}


class Documents(Target):
    """The loss on documents of unequal size; items and units are the same."""

    name, lower_is_better, layers, skipped = "loss", True, (1,), Counter()
    rows: Sequence[Any] = ()

    def __init__(self, documents: int = DOCUMENTS) -> None:
        self.items = self.units = tuple(f"d{at:02}" for at in range(documents))

    def read(self, rows: Sequence[int], states: Mapping[int, Tensor]) -> np.ndarray:
        """Nothing is run."""
        raise NotImplementedError

    def score(self, values: np.ndarray) -> TargetScores:
        """Nothing is run."""
        raise NotImplementedError

    def loss(self, rows: Sequence[int], states: Mapping[int, Tensor]) -> Tensor:
        """Nothing is run."""
        raise NotImplementedError


class _Losses:
    """A model's losses on documents, and how they change."""

    def __init__(self, rng: np.random.Generator, documents: int = DOCUMENTS) -> None:
        self.rng, self.counts = rng, rng.integers(10, 60, documents).astype(float)
        self.before = TargetScores(self.counts * rng.normal(3, 0.3, documents), self.counts)

    def after(self, effect: float, noise: float = 0.3) -> TargetScores:
        """The mean loss per piece changes by so much, and by noise of each document."""
        own = effect + noise * self.rng.standard_t(5, len(self.counts)) * np.sqrt(10 / self.counts)
        return TargetScores(self.before.hits + self.counts * own, self.counts)


def _result(analysis: str, tables: Mapping[str, tuple[Sequence[Any], Sequence[str]]]) -> Result:
    about = Provenance({"name": "simulated"}, {"name": "simulated"}, {})
    return Result(
        analysis, {name: pd.DataFrame(list(rows), columns=list(own)) for name, (rows, own) in tables.items()}, about
    )


def _told(result: Result, *, contrast: str = "", claim: str = "") -> bool:
    """Whether a finding of this kind is clear."""
    tell = {"ablate": findings_of, "roles": roles_findings, "patch": patch_findings}[result.analysis]
    found: list[Finding] = list(tell(result))
    return any(each.status == "clear" and contrast in each.contrast and claim in each.claim for each in found)


def _ablated(rng: np.random.Generator, parts: Sequence[AblatedPart], effects: Sequence[float]) -> AblationScores:
    losses = _Losses(rng)
    after = tuple(losses.after(effect) for effect in effects)
    return AblationScores(Documents(), tuple(parts), losses.before, after, None)


def _ablation(ablated: AblationScores) -> Result:
    return _result(
        "ablate",
        {
            "effects": (list(effect_rows([ablated], **DRAWN)), EFFECTS),
            "contrasts": (list(contrast_rows([ablated], **DRAWN)), CONTRASTS),
        },
    )


def _places() -> list[tuple[int, int]]:
    return [(block, head) for block in range(BLOCKS) for head in range(HEADS)]


def heads_matter(rng: np.random.Generator, planted: bool) -> bool:
    """Any of 24 heads is said to matter more than random components; one does."""
    parts = [AblatedPart("head", block, head, "mean", (Edit(),)) for block, head in _places()]
    parts += [AblatedPart("random", block, None, "mean", (Edit(),)) for block in range(BLOCKS)]
    # All are equally harmful, heads and random components alike.
    effects = np.full(len(parts), 0.1)
    effects[7] += 0.38 * planted
    result = _ablation(_ablated(rng, parts, effects.tolist()))
    if not planted:
        return bool(result.tables["contrasts"]["worse"][result.tables["contrasts"]["against"] == "random"].any())
    return _told(result, contrast="head 2-2 minus random component")


def blocks_matter(rng: np.random.Generator, planted: bool) -> bool:
    """Any of 6 blocks is said to matter; one does."""
    parts = [AblatedPart("block", block, None, "zero", (Edit(),)) for block in range(6)]
    result = _ablation(_ablated(rng, parts, [0.22 * planted, *[0.0] * 5]))
    return _told(result, contrast="change without layer", claim="layer 1" if planted else "")


def one_block_matters_most(rng: np.random.Generator, planted: bool) -> bool:
    """One of 6 equal blocks is said to matter most; one does."""
    parts = [AblatedPart("block", block, None, "zero", (Edit(),)) for block in range(6)]
    result = _ablation(_ablated(rng, parts, [0.5 + 0.38 * planted, *[0.5] * 5]))
    return _told(result, contrast="minus layer", claim="highest when layer 1 is skipped" if planted else "")


def importance_predicts(rng: np.random.Generator, planted: bool) -> bool:
    """Gradient importance is said to predict effects; it has to do with them, or nothing."""
    places, losses = _places(), _Losses(rng)
    sizes = rng.gamma(2.0, 0.15, len(places))
    mixed = 0.66 if planted else 0.0
    cheap = np.exp(mixed * np.log(sizes) + (1 - mixed) * rng.normal(0, 0.8, len(places)))
    gradients = cheap * rng.gamma(4.0, 0.25, (DOCUMENTS, len(places)))
    target = Documents()
    parts = tuple(AblatedPart("head", block, head, "mean", (Edit(),)) for block, head in places)
    made = AblationScores(
        target, parts, losses.before, tuple(losses.after(size, 0.15) for size in sizes),
        GateGradients(target.units, gradients, tuple(places)),
    )  # fmt: skip
    tables = {
        "effects": ([], EFFECTS),
        "contrasts": ([], CONTRASTS),
        "agreement": (agreement_rows([made], "model", **DRAWN), AGREEMENT),
    }
    return _told(_result("ablate", tables), contrast="rank correlation")


def concept_is_used(rng: np.random.Generator, planted: bool) -> bool:
    """A concept that is but another random subspace is said to be used; or one that is."""
    losses, units = _Losses(rng, 30), tuple(f"d{at:02}" for at in range(30))
    erased = []
    for layer in (1, 2, 3):
        subspaces = 0.4 + 0.1 * rng.standard_normal(7)
        subspaces[0] += 0.6 * (planted and layer == 2)
        scores = [losses.after(effect) for effect in subspaces]
        after = {CONCEPT: scores[:1], RANDOM: scores[1:6], CONTROL: scores[6:]}
        ranks, shares = dict.fromkeys(after, 4), dict.fromkeys(after, 0.1)
        erased.append(ErasureScores(layer, ranks, shares, losses.before, after, units, 1))
    readable: Any = SimpleNamespace(known=True, gone=True, before=(0.9, 0.8, 1.0))
    verdicts = {each.layer: verdict_of(each, readable, "loss", 1) for each in compare_layers(erased, **DRAWN)}
    return verdicts[2] == USED if planted else USED in verdicts.values()


def concept_is_readable(rng: np.random.Generator, planted: bool) -> bool:
    """A probe is said to read more than the constant answer at any of 3 layers; it does at one."""
    documents = np.repeat(np.arange(30), rng.integers(4, 30, 30))
    units = [f"d{at:02}" for at in documents]
    level = np.clip(0.4 + 0.1 * rng.standard_normal(30), 0.05, 0.9)[documents]
    constant = (rng.random(len(level)) < level).astype(float)
    probed = {}
    for layer in (1, 2, 3):
        better = 0.11 * (planted and layer == 2)
        hits = (rng.random(len(level)) < level + better).astype(float)
        probed[layer] = ProbeHits(hits, hits, hits)
    found = readable_layers(probed, constant, units, samples=20, seed=0)
    return found[2].known if planted else any(each.known for each in found.values())


def _roles(rng: np.random.Generator, effects: np.ndarray, finds: np.ndarray, kind: Kind) -> Result:
    losses = _Losses(rng)
    after = {place: losses.after(float(effects[place])) for place in np.ndindex(*effects.shape)}
    units = Documents().units
    name = "sink" if kind == "sink" else "obj"
    needed = RoleNeed(
        HeadRole(name, kind, finds, finds > 0.5), HeadAblations("loss", True, units, losses.before, after)
    )
    tables = {
        "roles": (role_rows([needed]), ROLES),
        "groups": (group_rows([needed], **DRAWN), GROUPS),
    }
    return _result("roles", tables)


def heads_with_a_role_matter(rng: np.random.Generator, planted: bool) -> bool:
    """Any of 4 heads with a role is said to matter more than the others of its layer; one does."""
    finds = np.full((BLOCKS, HEADS), 0.1)
    finds[:, 0] = 0.9
    effects = np.full(finds.shape, 0.1)
    effects[2, 0] += 0.27 * planted
    result = _roles(rng, effects, finds, "relation")
    return _told(result, contrast="head 3-1 minus others" if planted else "minus others")


def sinks_matter(rng: np.random.Generator, planted: bool) -> bool:
    """Sinks are said to matter otherwise than the other heads of their layers, whose effects differ; or they do."""
    finds = np.full((BLOCKS, HEADS), 0.1)
    finds[:, 0] = 0.9
    effects = 0.1 * rng.standard_normal(finds.shape)
    effects[:, 0] += 0.22 * planted
    result = _roles(rng, effects, finds, "sink")
    return _told(result, contrast="without one of them")


def finding_goes_with_use(rng: np.random.Generator, planted: bool) -> bool:
    """What heads find is said to go with the harm without them; it does, or has nothing to do with it."""
    finds = 0.45 * rng.random((BLOCKS, HEADS))
    effects = 0.15 * rng.standard_normal(finds.shape) + 1.15 * planted * finds
    finds[0, 0] = 0.51
    result = _roles(rng, effects, finds, "relation")
    return _told(result, contrast="rank correlation")


def _turned(rng: np.random.Generator, shares: Mapping[str, Sequence[float]], random: float) -> Result:
    """Questions of documents, of which these shares turn by role and layer."""
    documents = np.repeat(np.arange(25), rng.integers(1, 7, 25))
    prone = rng.normal(0, 0.08, 25)[documents]
    outcomes: dict[tuple[str, int, str], np.ndarray] = {}
    for role, own in shares.items():
        for layer, share in enumerate(own):
            for kind, level in ((ROLE_TOKENS, share), (RANDOM_TOKENS, random)):
                turned = rng.random(len(documents)) < np.clip(level + prone, 0, 1)
                outcomes[kind, layer, role] = np.where(turned, "turned", "kept")
    units = np.array([f"d{at:02}" for at in documents])
    there = {role: np.ones(len(documents), bool) for role in shares}
    found = turned_tables("asked", outcomes, there, units, samples=20, seed=0)
    tables = {
        "asked": (found.patch, PATCH),
        "controls": (found.controls, CONTROLS),
        "differences": (found.differences, DIFFERENCES),
    }
    return _result("patch", tables)


def states_turn_answers(rng: np.random.Generator, planted: bool) -> bool:
    """States of any role and layer are said to turn more answers than random tokens; those of one do."""
    shares = {role: [0.3] * 4 for role in ("question", "support", "answer")}
    shares["question"][2] += 0.31 * planted
    result = _turned(rng, shares, 0.3)
    if planted:
        return _told(result, contrast="layer 2: question minus random tokens")
    tests = result.tables["differences"]
    return bool((tests.loc[tests["against"] == RANDOM_TOKENS, "p_adjusted"] < 0.05).any())


def answers_take_over(rng: np.random.Generator, planted: bool) -> bool:
    """The answers' own states are said to turn more, or fewer, than the support's at any layer; they do at one."""
    shares = {role: [0.3] * 4 for role in ("question", "support", "answer")}
    shares["answer"][3] += 0.32 * planted
    result = _turned(rng, shares, 0.3)
    return _told(result, contrast="layer 3: answers minus support" if planted else "answers minus support")


def states_hold_the_difference(rng: np.random.Generator, planted: bool) -> bool:
    """States of any place are said to take away more of the difference than random tokens; those of one do."""
    gap = np.column_stack([rng.normal(2, 1, 60), rng.normal(0, 1, 60)])
    every = np.arange(60)
    patches = []
    for layer in range(4):
        for position in ("word", "after"):
            taken = 0.3 + 0.24 * (planted and (layer, position) == (1, "after"))
            after, random = (gap[:, 0] * (1 - part) + rng.normal(0, 0.6, 60) for part in (taken, 0.3))
            patches.append(PairPatch(layer, position, every, after, random))
    found = pair_tables(gap, patches, [f"p{at:02}" for at in every])
    tables = {
        "pairs": (found.effects, PAIR_EFFECTS),
        "contrasts": (found.contrasts, PAIR_CONTRASTS),
        "gaps": (found.gaps, GAPS),
    }
    return _told(_result("patch", tables), contrast="layer 1: difference in" if planted else "difference in nats")


SIMULATIONS = [
    Simulation("ablate", "heads matter more than random components", heads_matter),
    Simulation("ablate", "layers matter", blocks_matter),
    Simulation("ablate", "one layer matters most", one_block_matters_most),
    Simulation("ablate", "gradient importance predicts effects", importance_predicts),
    Simulation("erase", "a concept is used", concept_is_used),
    Simulation("erase", "a concept is readable", concept_is_readable),
    Simulation("roles", "heads with a role matter more than others", heads_with_a_role_matter),
    Simulation("roles", "sinks and neighbours matter otherwise than others", sinks_matter),
    Simulation("roles", "what heads find goes with what breaks", finding_goes_with_use),
    Simulation("patch", "states turn answers", states_turn_answers),
    Simulation("patch", "the answers' own states take over", answers_take_over),
    Simulation("patch", "states hold the difference of minimal pairs", states_hold_the_difference),
]
