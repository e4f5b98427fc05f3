"""How often decisions are revised, and whether one task waits for another: planted truth, and sums by hand."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from lamina.analyses.probing.decisions import Decisions, SavedTargets
from lamina.analyses.probing.revisions import revised_at, revision_findings, revision_tables, settled_at

QUICK = {"samples": 50, "shuffles": 99, "seed": 0}


def decided(
    task: str,
    said: np.ndarray,
    words: np.ndarray | None = None,
    per_text: int = 10,
    gold: np.ndarray | None = None,
    corpus: str = "toy",
) -> Decisions:
    """Decisions by the number of the label said, [seed, layer, target]; by default every word of a text is a target."""
    labels = max(int(said.max()), 0 if gold is None else int(gold.max())) + 1
    seeds, _, targets = said.shape
    texts, place = np.divmod(np.arange(targets), per_text)
    if words is None:
        words = np.stack([place, place + 1], -1)[:, None]
    gold = np.zeros(targets, int) if gold is None else gold
    one = np.eye(labels, dtype=bool)
    ids = tuple(f"s{number}" for number in range(texts.max() + 1))
    every = np.ones((targets, labels), bool)
    about = SavedTargets(ids, texts, words, one[gold], every, np.zeros(targets, np.int64))
    return Decisions(task, corpus, tuple(range(seeds)), about, np.packbits(one[said], axis=-1), said == gold)


def settling(layers: np.ndarray, last: int = 6) -> np.ndarray:
    """[seed, target] -> label 1 until that layer, then 0; where it is 0, always 0."""
    return (np.arange(last + 1)[None, :, None] < layers[:, None]).astype(int)


def row_of(table: pd.DataFrame, a: str, b: str, measure: str) -> pd.Series:
    (row,) = table[(table["task_a"] == a) & (table["task_b"] == b) & (table["measure"] == measure)].to_dict("records")
    return pd.Series(row)


def test_a_decision_is_revised_where_it_changes_and_settled_at_the_last_change() -> None:
    said = np.array([[[0, 0, 2], [1, 0, 2], [1, 0, 0], [0, 0, 2]]])
    revised = revised_at(decided("pos", said))

    assert revised[0].T.tolist() == [[True, False, True], [False, False, False], [False, True, True]]
    assert settled_at(revised).tolist() == [[3, 0, 3]]


def test_the_table_counts_targets_revisions_and_what_they_mend() -> None:
    # Gold is 0. First seed: mended at 1; never revised; spoiled at 1, then wrong to wrong at 2. Second: nothing.
    first = [[1, 0, 0], [0, 0, 1], [0, 0, 2]]
    second = [[0, 0, 0], [0, 0, 0], [0, 0, 0]]
    table, pairs = revision_tables([decided("pos", np.array([first, second]))], **QUICK)

    assert table["layer"].isna().tolist() == [False, False, True]
    assert table["targets"].tolist() == [3, 3, 3]
    assert table["revised"].tolist() == pytest.approx([2 / 6, 1 / 6, 2 / 6])
    assert table["mean"].tolist() == pytest.approx([2 / 6, 1 / 6, 3 / 6])
    assert table["settled"].tolist() == pytest.approx([5 / 6, 1, np.nan], nan_ok=True)
    assert table["mended"].tolist() == pytest.approx([1 / 2, 0, 1 / 3])
    assert table["spoiled"].tolist() == pytest.approx([1 / 2, 0, 1 / 3])
    # The seeds disagree about one target at layers 0, 1 and 2 each.
    assert table["seeds_differ"].tolist() == pytest.approx([1 / 3, 1 / 3, 1 / 3])
    assert pairs.empty


def test_one_seed_has_nobody_to_disagree_with() -> None:
    table, _ = revision_tables([decided("pos", np.zeros((1, 3, 4), int))], **QUICK)

    assert table["seeds_differ"].isna().all()
    assert table["revised"].tolist() == [0, 0, 0]
    assert table["mended"].isna().all()


def test_a_task_that_follows_another_by_one_layer_is_found() -> None:
    rng = np.random.default_rng(0)
    leads = rng.integers(1, 5, (2, 600))
    follows = [decided("lead", settling(leads)), decided("follow", settling(leads + 1))]
    _, table = revision_tables(follows, **QUICK)

    # Of layers 1 to 4, each as likely: b is at most where a's leader is in 10 of 16 cases, at a's own layer in 3.
    for measure in ("after_settled", "after_revised"):
        after = row_of(table, "follow", "lead", measure)
        assert (after["pairs"], after["observed"]) == (600, 1)
        assert after["shuffled"] == pytest.approx(10 / 16, abs=0.03)
        assert after["shuffled_low"] < after["shuffled"] < after["shuffled_high"] < 1
        assert after["difference_low"] > 0.3
        assert (after["p"], after["p_adjusted"]) == (0.01, 0.02)
        before = row_of(table, "lead", "follow", measure)
        assert before["observed"] == 0
        assert before["shuffled"] == pytest.approx(3 / 16, abs=0.03)
    together = row_of(table, "follow", "lead", "same_layer")
    assert together["observed"] == 0
    assert together["shuffled"] == pytest.approx(3 / 16, abs=0.03)
    # It is the same number in either direction, and tested once.
    assert len(table) == 5


def clustered(rng: np.random.Generator, texts: int, per_text: int) -> np.ndarray:
    """When decisions settle, a third of them at 0; what is late in a text is late in all of it."""
    late = np.repeat(rng.normal(size=texts), per_text) + rng.normal(size=(2, texts * per_text))
    layers = 1 + np.searchsorted(np.quantile(late, np.arange(1, 6) / 6), late)
    return np.where(rng.random(layers.shape) < 1 / 3, 0, layers)


def test_independent_tasks_differ_from_the_shuffles_no_more_often_than_chance() -> None:
    p, covered = [], []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        gold = rng.integers(0, 4, 40 * 8)
        tasks = [decided(name, settling(clustered(rng, 40, 8)), per_text=8, gold=gold) for name in ("a", "b")]
        _, table = revision_tables(tasks, samples=100, shuffles=39, seed=seed)
        p.append(table["p"].to_numpy())
        covered.append(((table["difference_low"] <= 0) & (table["difference_high"] >= 0)).to_numpy())

    # 5 % are expected. The five tests of a data set depend on each other, so that 40 data sets leave room for chance.
    assert np.mean(np.array(p) <= 0.05) < 0.1
    assert np.mean(covered) > 0.9


def test_what_two_tasks_owe_to_the_label_alone_is_no_coupling() -> None:
    rng = np.random.default_rng(1)
    # The label says how late both settle; beyond that they know nothing of each other.
    label = rng.integers(0, 2, 1200)
    late = [settling(1 + 3 * label + rng.integers(0, 3, (1, 1200))) for _ in range(2)]
    tasks = [decided(name, said, gold=label) for name, said in zip("ab", late, strict=True)]
    _, table = revision_tables(tasks, **QUICK)

    together = row_of(table, "a", "b", "same_layer")
    assert together["shuffled"] == pytest.approx(1 / 3, abs=0.02)
    assert together["shuffled_low"] < together["observed"] < together["shuffled_high"]
    # Among all labels, layers would agree by chance half as often.
    mixed = [decided(name, said) for name, said in zip("ab", late, strict=True)]
    assert row_of(revision_tables(mixed, **QUICK)[1], "a", "b", "same_layer")["shuffled"] == pytest.approx(
        1 / 6, abs=0.02
    )


def random_spans(rng: np.random.Generator, targets: int, spans: int) -> np.ndarray:
    start = rng.integers(0, 12, (targets, spans))
    return np.stack([start, start + rng.integers(1, 4, (targets, spans))], -1)


@pytest.mark.parametrize("seed", range(5))
def test_shares_are_those_of_going_through_all_pairs(seed: int) -> None:
    rng = np.random.default_rng(seed)
    shape = (2, 5, 90)
    a = decided("a", rng.integers(0, 2, shape), random_spans(rng, 90, 2))
    b = decided("b", rng.integers(0, 2, shape) * rng.integers(0, 2, (2, 1, 90)), random_spans(rng, 90, 1))
    _, table = revision_tables([a, b], **QUICK)

    def shares_words(one: int, other: int) -> bool:
        own = {word for start, end in a.targets.words[one] for word in range(start, end)}
        return a.targets.text[one] == b.targets.text[other] and any(
            word in own for start, end in b.targets.words[other] for word in range(start, end)
        )

    pairs = [(one, other) for one in range(90) for other in range(90) if shares_words(one, other)]
    shuffled = sorted({other for _, other in pairs})
    settled = [settled_at(revised_at(each)) for each in (a, b)]
    counts = {"after_settled": [0, 0, 0.0, 0.0], "after_revised": [0, 0, 0.0, 0.0], "same_layer": [0, 0, 0.0, 0.0]}
    for seed_number in range(2):
        donors = settled[1][seed_number, shuffled]
        for one, other in pairs:
            own, beside = settled[0][seed_number, one], settled[1][seed_number, other]
            if own:
                for measure, count in counts.items():
                    asked = [measure == "after_settled" or each > 0 for each in (beside, *donors)]
                    holds = [own == each if measure == "same_layer" else own > each for each in (beside, *donors)]
                    both = [x and y for x, y in zip(asked, holds, strict=True)]
                    count[0] += both[0]
                    count[1] += asked[0]
                    count[2] += np.mean(both[1:])
                    count[3] += np.mean(asked[1:])
    for measure, (hits, asked, chance, chances) in counts.items():
        row = row_of(table, "a", "b", measure)
        assert row["pairs"] == asked / 2
        assert row["observed"] == pytest.approx(hits / asked)
        assert row["shuffled"] == pytest.approx(chance / chances)
        assert row["difference"] == pytest.approx(hits / asked - chance / chances)


def test_targets_without_words_in_common_are_no_pairs() -> None:
    said = settling(np.ones((1, 20), int))
    apart = np.tile([[[50, 51]]], (20, 1, 1))
    _, table = revision_tables([decided("a", said), decided("b", said, apart)], **QUICK)

    assert table["pairs"].eq(0).all()
    assert table.drop(columns=["task_a", "task_b", "measure", "pairs"]).isna().all(axis=None)


def test_tasks_of_two_corpora_are_not_compared() -> None:
    said = settling(np.random.default_rng(0).integers(0, 4, (1, 60)))
    tasks = [decided("a", said), decided("b", said), decided("c", said, corpus="other")]
    own, pairs = revision_tables(tasks, **QUICK)

    assert own["task"].unique().tolist() == ["a", "b", "c"]
    assert set(zip(pairs["task_a"], pairs["task_b"], strict=True)) == {("a", "b"), ("b", "a")}


@pytest.mark.parametrize(("seeds", "varies"), [(4, False), (5, True)])
def test_from_five_seeds_on_seeds_are_drawn_too(seeds: int, varies: bool) -> None:
    # All texts are alike: only the first seed revises.
    said = np.zeros((seeds, 3, 40), int)
    said[0, 0] = 1
    table, _ = revision_tables([decided("pos", said)], **QUICK)

    assert bool(table["high"].iloc[-1] > table["low"].iloc[-1]) is varies


def test_the_same_seed_gives_the_same_tables() -> None:
    tasks = [decided(name, settling(clustered(np.random.default_rng(seed), 20, 5)), per_text=5)
             for seed, name in enumerate("ab")]  # fmt: skip
    for one, other in zip(revision_tables(tasks, **QUICK), revision_tables(tasks, **QUICK), strict=True):
        pd.testing.assert_frame_equal(one, other)


def test_findings_say_the_share_the_baseline_and_what_seeds_do() -> None:
    leads = np.random.default_rng(0).integers(1, 5, (2, 600))
    tables = revision_tables([decided("dep", settling(leads)), decided("pos", settling(leads + 1))], **QUICK)
    after, together, most = revision_findings(*tables)

    assert after.text.startswith(
        "Part of speech: last revision after that of dependencies in 1.00 [1.00, 1.00] of the pairs about the same "
        "words that are both revised, .6"
    )
    assert after.text.endswith("(p = .020, corrected; the clearest of 2 pairs).")
    assert (after.status, after.value) == ("clear", 1)
    assert together.text.startswith(
        "Dependencies and part of speech: last revisions at the same layer in .00 [.00, .00]"
    )
    assert most.text.startswith(
        "Dependencies: 1.00 [1.00, 1.00] of the decisions are revised on the way up (1.00 of the"
    )
    assert "two seeds disagree on ." in most.text


def test_findings_of_one_task_are_about_revisions_alone() -> None:
    (most,) = revision_findings(*revision_tables([decided("pos", settling(np.ones((1, 20), int)))], **QUICK))

    assert most.status == "open"
    assert most.text.endswith("most at layer 1: 1.00 [1.00, 1.00]; one seed, so nothing to compare it with.")


def test_where_nothing_is_revised_that_is_the_finding() -> None:
    (nothing,) = revision_findings(*revision_tables([decided("pos", np.zeros((2, 3, 20), int))], **QUICK))

    assert (nothing.status, nothing.text) == ("null", "No decision is revised from layer to layer.")


def test_a_difference_that_correction_takes_away_is_open() -> None:
    row = {"task_a": "pos", "task_b": "dep", "measure": "after_revised", "pairs": 10, "observed": 0.5, "low": 0.4}
    row |= {"high": 0.6, "shuffled": 0.4, "difference": 0.1, "difference_low": 0.05, "difference_high": 0.15}
    tables = [
        pd.DataFrame([row | {"p": 0.03, "p_adjusted": 0.06}]),
        pd.DataFrame([row | {"p": 0.001, "p_adjusted": 0.006}]),
    ]
    nothing = revision_tables([], **QUICK)[0]

    assert [next(iter(revision_findings(nothing, table))).status for table in tables] == ["open", "clear"]
