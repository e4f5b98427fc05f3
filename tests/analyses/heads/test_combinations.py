"""Heads that find a relation together and not alone, put into maps; roles, whose answers are spans."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch

from lamina import Result, heads
from lamina.errors import CorpusError, InputError
from lamina.framework.verify import check_findings
from lamina.types import Edge, Span, Text
from tests.analyses.heads.test_heads import MAPS, WORDS, Painted, corpus_of, dep

TEXTS, SIZE, HEADS = 60, 9, 6
TOGETHER = (1, 4)
"""The heads that both give something to the right word, and more to a wrong one each."""


class Twinned(Painted):
    """Painted maps, and a twin with maps of noise."""

    def random_twin(self, seed: int = 0, *, keep_embeddings: bool = False) -> Painted:
        return Painted({name: noise(np.random.default_rng([seed, number])) for number, name in enumerate(self._maps)})


def noise(rng: np.random.Generator) -> torch.Tensor:
    return torch.from_numpy(rng.dirichlet(np.ones(SIZE), (1, HEADS, SIZE)).astype(np.float32)) * 0.9


@pytest.fixture(scope="module")
def result() -> Result:
    """`obj` is put into two heads, `iobj` into none."""
    rng = np.random.default_rng(0)
    texts, maps = [], {}
    for number in range(TEXTS):
        right, one, other = rng.choice(np.arange(2, SIZE), 3, replace=False).tolist()
        painted = noise(rng)
        for head, wrong in zip(TOGETHER, (one, other), strict=True):
            painted[0, head, 0] = 0.02
            painted[0, head, 0, right], painted[0, head, 0, wrong] = 0.3, 0.35
        edges = (dep("obj", 0, right), dep("iobj", 1, int(rng.integers(2, SIZE))))
        name = f"t{number}"
        texts.append(Text(name, tuple(f"w{place}" for place in range(SIZE)), edges={"dep": edges}, doc=name))
        maps[name] = painted
    return heads(Twinned(maps), corpus_of(texts), combine=True, samples=50)


def of(result: Result, relation: str, baseline: str) -> pd.Series:
    rows = result.tables["combinations"].set_index(["relation", "baseline"])
    return rows.loc[(relation, baseline)]


def test_what_two_heads_find_together_is_found_and_that_it_takes_two(result: Result) -> None:
    row = of(result, "obj", "best head")
    assert row["accuracy"] > 0.9
    assert row["baseline_accuracy"] < 0.4
    assert row["p_adjusted"] < 0.01
    assert sorted([row["heads"], row["heads_other"]])[0] == 2
    weights = result.tables["combination_weights"].query("relation == 'obj' and direction == 'dependent'")
    largest = weights.sort_values("weight", ascending=False).groupby("half").head(2)
    assert set(largest["head"]) == {head + 1 for head in TOGETHER}
    assert of(result, "obj", "untrained twin")["p_adjusted"] < 0.01
    assert any(each.status == "clear" and each.claim.startswith("A weighted sum of 2") for each in result.findings)


def test_nothing_is_found_where_nothing_was_put(result: Result) -> None:
    rows = result.tables["combinations"].query("relation == 'iobj'")
    assert (rows["p_adjusted"] > 0.05).all()
    assert (rows["accuracy"] < 0.4).all()
    assert not check_findings(result)


def test_a_role_is_found_where_any_word_of_the_argument_gets_most() -> None:
    # The verb's row of the second head has most on "cats", of the first on the stop.
    roles = (
        Edge("ARG0", Span(1, 2), Span(0, 1)),
        Edge("ARG1", Span(1, 2), Span(2, 4)),
        Edge("V", Span(1, 2), Span(1, 2)),
    )
    texts = [Text(f"s{number}", WORDS, edges={"srl": roles}) for number in range(4)]
    found = heads(Painted({text.id: MAPS for text in texts}), corpus_of(texts), relations="srl", samples=10)
    rows = found.tables["relations"].query("direction == 'dependent'").set_index(["relation", "head"])["accuracy"]
    assert rows[("ARG1", 1)] == rows[("ARG1", 2)] == 1, "the stop and cats are both in the argument"
    assert rows[("ARG0", 1)] == rows[("ARG0", 2)] == 0
    assert "V" not in set(found.tables["relations"]["relation"])
    offsets = found.tables["baselines"].set_index(["system", "relation"])["accuracy"]
    assert offsets[("offset +1", "ARG1")] == offsets[("offset +2", "ARG1")] == 1


def test_roles_are_refused_where_there_are_none_and_with_stanford() -> None:
    corpus = corpus_of([Text("s", WORDS, edges={"dep": (dep("obj", 2, 1),)})])
    with pytest.raises(CorpusError, match=r"has no semantic roles .* for example propbank_ewt"):
        heads(Painted({"s": MAPS}), corpus, relations="srl")
    with_roles = corpus_of([Text("s", WORDS, edges={"srl": (Edge("ARG0", Span(1, 2), Span(0, 1)),)})])
    with pytest.raises(InputError, match="leave it out with roles"):
        heads(Painted({"s": MAPS}), with_roles, relations="srl", stanford=True)
