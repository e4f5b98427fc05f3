"""Roles of heads and their use: planted truth, the tests by hand, and what is said of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.stats import spearmanr

from lamina.analyses.cause.role_heads import (
    GROUPS,
    ROLES,
    HeadAblations,
    HeadRole,
    RoleNeed,
    attachments,
    group_rows,
    role_rows,
    role_targets,
    roles_of,
    within_layers,
)
from lamina.analyses.cause.roles import findings_of, roles
from lamina.analyses.heads.atlas import NOTHING, card, result_atlas
from lamina.corpora import corpus_from
from lamina.corpora.splits import Splits
from lamina.figures.roles import draw
from lamina.framework.verify import check_findings
from lamina.results import Provenance, Result
from lamina.results.finding import rows_of
from lamina.targets.choice import TargetData
from lamina.targets.probes import ALL_LINKS, BESIDES, LinksTarget
from lamina.targets.target import TargetScores
from lamina.types import Edge, Text
from tests.planted_language import agreement_pairs, copying_head, planted
from tests.planted_treebank import treebank


@pytest.fixture(scope="module")
def splits() -> Splits:
    return Splits(corpus_from(treebank(1, 120), name="planted"), corpus_from(treebank(2, 60), name="planted"))


@pytest.fixture(scope="module")
def joined(splits: Splits) -> Result:
    encoder = planted(0)
    material = TargetData(splits, pairs=agreement_pairs(3, 80))
    made = roles.function(encoder, material, watched=120, items=80, samples=50, twin=False)
    about = Provenance({"name": "planted"}, {"name": "planted"}, {})
    return Result("roles", dict(made.tables), about)


def test_the_head_that_copies_the_number_has_the_role(splits: Splits) -> None:
    found, _ = roles_of(planted(0), list(splits.train), samples=20, seed=0)
    subject = next(role for role in found if role.name == "nsubj")
    assert subject.has[copying_head(planted(0))]
    assert subject.finds[copying_head(planted(0))] > 0.4


def test_agreement_breaks_without_it_and_not_without_others_of_its_layer(joined: Result) -> None:
    table, (block, head) = joined.tables["roles"], copying_head(planted(0))
    own = table[(table["role"] == "nsubj") & (table["target"] == "pairs")]
    (row,) = rows_of(own[own["effect"] < -0.1])
    assert (row.layer, row.head) == (block + 1, head + 1)
    assert row.effect < -0.3
    assert abs(row.others) < 0.1
    assert row.difference == pytest.approx(row.effect - row.others)
    assert row.diff_high < 0
    assert row.p_adjusted < 0.001
    # Others may look at the noun as well; nothing is made of it.
    assert (own.loc[own["effect"] > -0.1, "p_adjusted"] > 0.05).all()


def test_findings_the_figure_and_the_atlas_name_the_head(joined: Result) -> None:
    block, head = copying_head(planted(0))
    name = f"{block + 1}-{head + 1}"
    first = roles.findings(joined)[0]
    assert first.status == "clear"
    assert first.text.startswith(
        f"Head {name}, which finds nsubj, matters for it more than the other heads of its layer"
    )
    assert first.contrast == f"nsubj, head {name} minus others of its layer"
    findings = tuple(roles.findings(joined))
    assert check_findings(replace(joined, findings=findings)) == []
    assert f"'name': '{name}'" in str(draw(joined)["roles"].to_dict())
    (measure,) = result_atlas(joined, 2, 4)
    assert measure.title == "matters for"
    assert measure.names[int(measure.values[block, head])] == "nsubj"
    assert NOTHING in measure.names
    own = card(block + 1, head + 1, {"roles": joined}).matters
    assert own.loc[own["target"] == "pairs", "matters"].tolist() == [True]


def test_links_of_all_relations_are_told_in_one_run(splits: Splits) -> None:
    encoder = planted(0)
    links = LinksTarget(encoder, attachments, 2, list(splits.scored)[:20], splits)
    kept = np.stack([np.arange(len(links.relations)) % 2 for _ in links.rows]).astype(float)
    whole, own, rest = (links.scores(kept, name) for name in (ALL_LINKS, "nsubj", f"{BESIDES}nsubj"))
    assert own.counts.sum() == links.counts["nsubj"] == 20
    np.testing.assert_allclose(own.hits + rest.hits, whole.hits)
    np.testing.assert_allclose(own.counts + rest.counts, whole.counts)
    # Fillers belong to the next word, which is there at the layer above the embeddings.
    with pytest.raises(KeyError):
        links.scores(kept, "unknown")


def _needed(effects: np.ndarray, finds: np.ndarray, *, seed: int = 0, units: int = 40) -> RoleNeed:
    """Heads whose scores differ from the model's by `effects` on average."""
    rng = np.random.default_rng(seed)
    ones, before = np.ones(units), rng.normal(size=units)
    noise = 0.05 * rng.normal(size=(*effects.shape, units))
    after = {
        (block, head): TargetScores(before + effects[block, head] + noise[block, head], ones)
        for block, head in np.ndindex(effects.shape)
    }
    role = HeadRole("obj", "relation", finds, finds > 0.5)
    return RoleNeed(
        role, HeadAblations("link:obj@2", False, tuple(map(str, range(units))), TargetScores(before, ones), after)
    )


def test_a_head_is_compared_with_the_mean_of_its_layer_without_the_role() -> None:
    finds = np.array([[0.9, 0.1, 0.2], [0.1, 0.8, 0.7]])
    needed = _needed(np.array([[-0.4, -0.1, 0.0], [0.0, 0.0, -0.2]]), finds)
    table = pd.DataFrame(role_rows([needed]), columns=list(ROLES))
    assert table[["layer", "head"]].to_numpy().tolist() == [[1, 1], [2, 2], [2, 3]]
    before, after = needed.without.before.value, {at: each.value for at, each in needed.without.after.items()}
    assert table["effect"].tolist() == pytest.approx([after[at] - before for at in ((0, 0), (1, 1), (1, 2))])
    others = [(after[0, 1] + after[0, 2]) / 2 - before, after[1, 0] - before, after[1, 0] - before]
    assert table["others"].tolist() == pytest.approx(others)
    assert (table["p_adjusted"] < 0.01).tolist() == [True, False, True]


def test_a_layer_in_which_every_head_has_the_role_has_nobody_to_compare_with() -> None:
    needed = _needed(np.array([[-0.4, -0.4]]), np.array([[0.9, 0.8]]))
    table = pd.DataFrame(role_rows([needed]), columns=list(ROLES))
    assert table[["others", "difference", "p_adjusted"]].isna().all(axis=None)
    groups = pd.DataFrame(group_rows([needed], samples=20, seed=0), columns=list(GROUPS))
    assert groups["heads"].tolist() == [0]


def test_groups_have_the_rank_correlation_within_layers() -> None:
    finds = np.array([[0.9, 0.1, 0.2, 0.3], [0.1, 0.8, 0.0, 0.3]])
    effects = np.array([[-0.4, -0.1, 0.0, -0.3], [0.2, 0.1, 0.4, 0.2]])
    needed = _needed(effects, finds)
    (row,) = rows_of(pd.DataFrame(group_rows([needed], samples=50, seed=0), columns=list(GROUPS)))
    harm = -needed.without.values((2, 4))
    assert row.rho == pytest.approx(spearmanr(within_layers(finds), within_layers(harm))[0])
    assert row.rho_low <= row.rho <= row.rho_high
    assert row.heads == 2
    assert row.difference < 0
    assert np.isnan(row.p_adjusted), "two heads, one of four in each of two layers: 16 choices"
    assert 0 < row.rho_p_adjusted <= 1


def test_groups_too_small_for_any_permutation_have_no_p() -> None:
    # One of four heads has the role and is the farthest: 1 of 4 draws is as far, whatever the effects.
    alone = _needed(np.array([[-5.0, -0.1, -0.2, -0.3]]), np.array([[0.9, 0.1, 0.2, 0.3]]))
    # Two of eight are 1 of 28 draws.
    effects, finds = np.zeros((1, 8)), np.full((1, 8), 0.1)
    effects[0, :2], finds[0, :2] = -1, 0.9
    table = pd.DataFrame(group_rows([alone], samples=20, seed=0), columns=list(GROUPS))
    assert table["p_adjusted"].isna().all()
    table = pd.DataFrame(group_rows([_needed(effects, finds)], samples=20, seed=0), columns=list(GROUPS))
    assert table["p_adjusted"].tolist() == pytest.approx([1 / 28], abs=0.02)


def test_the_level_of_a_layer_does_not_matter_to_groups() -> None:
    finds = np.array([[0.9, 0.1, 0.1]] * 3)
    level = np.array([[9.0], [0.0], [4.0]]) * np.ones((3, 3))
    table = pd.DataFrame(group_rows([_needed(level, finds)], samples=20, seed=0), columns=list(GROUPS))
    assert (table["p_adjusted"] > 0.05).all()


def test_false_alarms_stay_rare_where_no_head_matters() -> None:
    finds = np.array([[0.9, 0.1, 0.2, 0.3], [0.1, 0.8, 0.0, 0.3]])
    tables = [role_rows([_needed(np.zeros((2, 4)), finds, seed=seed)]) for seed in range(100)]
    alarms = np.mean([any(row[ROLES.index("p_adjusted")] < 0.05 for row in rows) for rows in tables])
    assert alarms <= 0.1


def test_few_documents_are_untested() -> None:
    finds = np.array([[0.9, 0.1, 0.2, 0.3], [0.1, 0.8, 0.0, 0.3]])
    needed = [_needed(np.where(finds > 0.5, -0.4, 0.0), finds, units=5)]
    tables = {
        "roles": pd.DataFrame(role_rows(needed), columns=list(ROLES)),
        "groups": pd.DataFrame(group_rows(needed, samples=20, seed=0), columns=list(GROUPS)),
    }
    first, *_ = findings_of(Result("roles", tables, Provenance({"name": "m"}, {"name": "c"}, {})))
    assert first.text.startswith("5 documents are too few to test whether any head with a role matters")


def with_chains(texts: list[Text]) -> list[Text]:
    """The cue's head, the noun, and the verb are said to be the same."""
    made = []
    for text in texts:
        noun = next(edge for edge in text.edges["dep"] if edge.labels == ("nsubj",))
        verb = next(edge for edge in text.edges["dep"] if edge.labels == ("xcomp",))
        chains = (Edge(("1",), noun.span), Edge(("1",), verb.span))
        made.append(replace(text, edges={**text.edges, "chains": chains}))
    return made


def test_coreference_is_asked_for_where_a_head_has_the_role() -> None:
    train, scored = (
        corpus_from(with_chains(treebank(seed, many)), name="planted") for seed, many in ((1, 120), (2, 40))
    )
    splits, texts = Splits(train, scored), list(scored)
    given = {"layer": 2, "items": 40, "seed": 0}
    asked, skipped = role_targets(planted(0), TargetData(splits), splits, texts, **given)
    assert asked.coreference is not None
    assert asked.coreference.name == "link:coreference@2"
    assert asked.attachment is not None
    assert asked.attachment.name == "link:all@2"
    assert not skipped
    # A head that finds antecedents is needed; otherwise half of the time would be spent on nobody.
    without, told = role_targets(planted(0), TargetData(splits), splits, texts, **given, coreference=False)
    assert without.coreference is None
    assert told == {"texts with coreference that are not scored: no head has that role": 40}
