"""Cloze: planted truths come out as planted, baselines leave the item out, intervals say what they can."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.stats import beta, spearmanr

import lamina
from lamina.analyses.behaviour.cloze import suites
from lamina.analyses.behaviour.cloze.cloze import findings_of, most_frequent_answer
from lamina.analyses.behaviour.cloze.scores import (
    CHANCE,
    GIVEN_AWAY,
    PARTS,
    TWIN,
    ClozeOutcome,
    baseline_table,
    by_chance,
    cloze_table,
    contrast_table,
    estimate,
    estimates,
    with_mean,
)
from lamina.analyses.behaviour.cloze.suites import (
    ARTICLE,
    FOLLOWED,
    OBJECTS,
    FactOutcomes,
    PatternOutcome,
    ask_diagnostics,
    ask_relations,
    fact_outcomes,
    frequency_effects,
    most_frequent_object,
    object_counts,
    sampled,
)
from lamina.corpora.suites.cloze import (
    Cloze,
    Completion,
    Diagnostics,
    Fact,
    Negation,
    Pattern,
    Relation,
    Relations,
    RolePair,
)
from lamina.framework.verify import check_findings
from lamina.models.language.language_model import language_model
from lamina.models.language.slots import Gap, RatedCandidates
from lamina.types import Text
from tests.language_models import tiny_causal, tiny_masked

VOCABULARY = 50


class _Model:
    vocabulary = VOCABULARY


def speaker(probability: Callable[[str, str], float]) -> Callable[..., Iterator[RatedCandidates]]:
    """Stands for `rate`: a model that gives a word after a context the probability it is told, in one piece."""

    def rate(_: object, slots: Sequence[Gap], candidates: Sequence[Sequence[str]]) -> Iterator[RatedCandidates]:
        for slot, words in zip(slots, candidates, strict=True):
            said = torch.full((VOCABULARY,), -20.0)
            for at, word in enumerate(words):
                said[at] = math.log(probability(slot.before, word))
            # One piece more that is likelier than anything below a half.
            said[-1] = math.log(0.5)
            ids = [np.array([at]) for at in range(len(words))]
            yield RatedCandidates(said[: len(words)].double().numpy(), ids, said)

    return rate


def measured(suite: Diagnostics) -> dict[tuple[str, str], float]:
    found = ask_diagnostics(_Model(), suite, answers=False)  # type: ignore[arg-type]
    return {key: each.value for key, each in estimates(found.scores, samples=20, seed=0).items()}


def test_a_model_that_goes_by_association_ignores_negation(monkeypatch: pytest.MonkeyPatch) -> None:
    likely = {"fish": 0.6, "bird": 0.3, "tool": 0.02, "tree": 0.25}
    monkeypatch.setattr(suites, "rate", speaker(lambda _, word: likely[word]))
    items = (
        Negation("0", "A trout is (a|an)", "A trout is not (a|an)", "fish", "tool", None),
        Negation("1", "A robin is (a|an)", "A robin is not (a|an)", "bird", "tree", None),
    )
    found = measured(Diagnostics("own", "", {"N": items}))
    assert found["N", "sensitivity_affirmative"] == 1
    assert found["N", "sensitivity_negative"] == 0
    assert found["N", "sensitivity"] == 0.5
    assert found["N", "negation_effect"] == pytest.approx(0, abs=1e-6)
    assert found["N", "n400_agreement"] == 1, "as people's N400, it follows association in bare sentences"
    by_hand = (math.log2(0.6 / 0.02) + math.log2(0.3 / 0.25)) / 2
    assert found["N", "surprisal_effect_affirmative"] == pytest.approx(by_hand, rel=1e-5)
    assert found["N", "accuracy_at_1"] == 0.5, "fish is above the likeliest other piece, bird is not"
    assert found["N", "accuracy_at_5_negative"] == 1


def test_a_model_that_heeds_negation_where_it_is_licensed(monkeypatch: pytest.MonkeyPatch) -> None:
    def truth(context: str, word: str) -> float:
        return 0.3 if (word == "safe") != ("n't" in context) else 0.1

    monkeypatch.setattr(suites, "rate", speaker(truth))
    items = tuple(Negation(str(at), "It is", "It isn't", "safe", "bad", at == 0) for at in range(2))
    found = measured(Diagnostics("own", "", {"N": items}))
    assert found["N", "sensitivity_negative"] == 1 == found["N/unlicensed", "sensitivity_negative"]
    assert found["N", "negation_effect"] == pytest.approx(2 * math.log2(3), rel=1e-5)
    assert found["N/licensed", "n400_agreement"] == 1
    assert ("N/unlicensed", "n400_agreement") not in found, "people showed no difference there"


def test_thresholds_and_roles(monkeypatch: pytest.MonkeyPatch) -> None:
    likely = {"chess": 0.105, "go": 0.1, "ball": 0.01}
    monkeypatch.setattr(
        suites,
        "rate",
        speaker(lambda context, word: likely.get(word) or (0.3 if "waitress" in context[-12:] else 0.2)),
    )
    completion = Completion("0", "She plays", "chess", "go", "ball", "high")
    roles = RolePair("1", "which customer the waitress", "which waitress the customer", "served", ("served",), ("hit",))
    found = measured(Diagnostics("own", "", {"C": (completion,), "R": (roles,)}))
    assert (found["C", "sensitivity"], found["C", "sensitivity_over_.01"]) == (1, 0)
    assert found["C/high", "sensitivity"] == 1
    assert (found["R", "sensitivity"], found["R", "sensitivity_over_.01"]) == (1, 1)


FRANCE = [Fact(f"city {at}", "France") for at in range(6)] + [Fact(f"town {at}", "Spain") for at in range(3)]
COUNTRY = Relation("P17", "country", (*FRANCE, Fact("Oslo", "Norway")), (Pattern("[X] is in ", "."),))


def question(said: int, right: bool) -> PatternOutcome:
    return PatternOutcome((right, True), (said,), right, first=False)


def test_consistency_is_over_pairs_of_patterns() -> None:
    asked = FactOutcomes(
        FRANCE[0], 3, True, [question(1, True), question(1, True), question(2, False), question(2, False)]
    )
    found = {each.measure: each for each in fact_outcomes(COUNTRY, asked, VOCABULARY)}
    assert found["precision_at_1"].value == 0.5
    assert found["precision_at_10"].value == 1
    assert found[OBJECTS].value == 0.5
    assert found[OBJECTS].chance == pytest.approx(1 / 3)
    assert found["consistency"].value == pytest.approx(2 / 6)
    assert found["consistency_known"].value == found["consistency"].value
    assert "consistency_unknown" not in found
    assert (found["known"].value, found["consistent_and_right"].value) == (1, 0)


def test_the_most_frequent_object_is_that_of_the_other_facts() -> None:
    rows = [ClozeOutcome("P17", fact.id, OBJECTS, 0.0, True) for fact in COUNTRY.facts]
    assert [each.value for each in most_frequent_object([COUNTRY], rows)] == [1.0] * 6 + [0.0] * 4
    even = Relation("P17", "country", (Fact("Lyon", "France"), Fact("Oslo", "Norway")), ())
    rows = [ClozeOutcome("P17", fact.id, OBJECTS, 0.0, True) for fact in even.facts]
    assert [each.value for each in most_frequent_object([even], rows)] == [0.0, 0.0]
    clozes = [Cloze(str(at), "own", "", "", (answer,), ()) for at, answer in enumerate(("a", "a", "b"))]
    rows = [ClozeOutcome("own", each.id, "accuracy_at_1", 0.0, True) for each in clozes]
    # Without the item itself, a and b are as frequent, and the first by name is said.
    assert [each.value for each in most_frequent_answer(clozes, rows)] == [1.0, 1.0, 0.0]


def test_frequency_effect_is_the_rank_correlation() -> None:
    rng = np.random.default_rng(0)
    facts = [Fact(f"s{at}", f"o{int(each)}") for at, each in enumerate(rng.geometric(0.3, 60))]
    relation = Relation("P1", "P1", tuple(facts), ())
    values = rng.random(60) + [0.1 * relation.objects[fact.object] for fact in facts]
    rows = [
        ClozeOutcome("P1", fact.id, OBJECTS, value, True, unit=fact.subject)
        for fact, value in zip(facts, values, strict=True)
    ]
    found = frequency_effects([relation], rows, None, samples=50, seed=0)["P1", "frequency_correlation"]
    expected: Any = spearmanr([relation.objects[fact.object] for fact in facts], values)[0]
    assert found.value == pytest.approx(expected, abs=1e-6)
    assert found.interval[0] < expected < found.interval[1]
    texts = [Text("1", ("New", "York", "and", "York"))]
    named = Relation("P2", "P2", (Fact("a", "New York"), Fact("b", "York"), Fact("c", "Rome")), ())
    assert object_counts(texts, [named]) == {"New York": 1, "York": 2, "Rome": 0}


def test_intervals_of_items_that_are_all_alike_are_exact() -> None:
    found = estimate([0.0] * 18, map(str, range(18)), samples=50, seed=0)
    assert found.interval == pytest.approx((0.0, beta.ppf(0.975, 1, 18)))
    assert found.interval[1] > 0.15
    mixed = estimate([0.0, 1.0] * 50, map(str, range(100)), samples=2000, seed=0)
    low, high = mixed.interval
    assert low == pytest.approx(0.4, abs=0.02)
    assert high == pytest.approx(0.6, abs=0.02)


def test_baselines_are_paired_on_the_items_that_both_were_asked() -> None:
    own = [ClozeOutcome("a", str(at), "m", float(at < 8), True, 0.5) for at in range(10)]
    twin = [each._replace(value=0.0) for each in own[8:]]

    def summarise(rows: Sequence[ClozeOutcome], certain: bool):
        return with_mean(estimates(rows, samples=50, seed=0, certain=certain))

    table = baseline_table("own", own, {CHANCE: by_chance(own), TWIN: twin}, summarise, 0)
    row = table[(table["baseline"] == TWIN) & (table["part"] == "a") & (table["measure"] == "m")].iloc[0]
    assert (row["n"], row["value"], row["difference"], row["units"]) == (2, 0.0, 0.0, 2)
    row = table[(table["baseline"] == CHANCE) & (table["part"] == "all") & (table["measure"] == "m")].iloc[0]
    assert (row["value"], row["low"], row["high"]) == (0.5, 0.5, 0.5)
    assert row["difference"] == pytest.approx(0.3)


def test_facts_are_asked_as_the_model_can_be_asked() -> None:
    facts = tuple(Fact(subject, object) for subject in ("fox", "lazy dog") for object in ("dog", "cats"))
    patterns = (Pattern("The [X] saw a ", " ."), Pattern("", " saw the [X] ."), Pattern("The [X] saw an ", " ."))
    suite = Relations("own", "", (Relation("P1", "P1", facts, patterns),))
    asked = {"limit": 0, "spelling": "sum", "seed": 0, "answers": True}
    masked = ask_relations(language_model(tiny_masked()), suite, **asked)
    assert masked.skipped[FOLLOWED] == 0
    assert masked.skipped[ARTICLE] == 4
    assert len(masked.answers) == 8
    assert masked.answers[0].text == "The fox saw a ___ ."
    rivals = {each.chance for each in masked.scores if each.measure == OBJECTS}
    assert rivals == {1.0}, "the other object of the subject is true as well, and no rival"
    causal = ask_relations(language_model(tiny_causal()), suite, **asked)
    assert causal.skipped[FOLLOWED] == 1
    assert len(causal.answers) == 4
    fewer = sampled(suite.relations[0], facts, 2, seed=0)
    assert len(fewer) == 2
    assert set(sampled(suite.relations[0], facts, 1, seed=0)) < set(fewer)


def diagnosed(one_piece: int, wrong: int = 18) -> Any:
    """The result of 18 negations, so many of which are of words of one token, and so many wrong under negation."""
    own = []
    for at in range(18):
        known = at < one_piece
        for measure, value in (("sensitivity_affirmative", at > 0), ("sensitivity_negative", at >= wrong)):
            own.append(ClozeOutcome("N", str(at), measure, float(value), known, 0.5, str(at), "", "N"))
        own.append(ClozeOutcome("N", str(at), "sensitivity", 0.5, known, 0.5, str(at)))
    means = estimates(own, samples=50, seed=0)

    def summarise(rows: Sequence[ClozeOutcome], certain: bool):
        return estimates(rows, samples=50, seed=0, certain=certain)

    tables = {
        "cloze": cloze_table("own", means),
        "baselines": baseline_table("own", own, {CHANCE: by_chance(own)}, summarise, 0),
        "contrasts": contrast_table(own, means, (), 0),
        "parts": pd.DataFrame([("N", "N", 18, 36, one_piece, 18 - one_piece)], columns=list(PARTS)),
    }
    return SimpleNamespace(tables=tables, provenance=SimpleNamespace(model={"name": "tiny"}))


def test_findings_say_what_fails() -> None:
    first, second = findings_of(diagnosed(18, wrong=17))
    assert first.status == "clear"
    assert first.text.startswith(
        "N: tiny fails under negation: the true word is likelier than the false one in 6 % of 18 negative contexts, in "
        "affirmative ones in 94 % (negative contexts minus chance -.44 ["
    )
    assert second.status == "clear"
    assert "in more affirmative contexts than negative ones" in second.text
    chance = diagnosed(18, wrong=17).tables["baselines"].query("measure == 'sensitivity_negative'").iloc[0]
    assert (first.p, first.n) == (chance["p_adjusted"], 18)


def test_items_that_are_all_wrong_are_tested_not_left_open() -> None:
    """Resampling them shows no spread, and 18 of 18 are as clear as can be."""
    first, _ = findings_of(diagnosed(18))
    assert first.status == "clear"
    assert first.p is not None
    assert first.p < 0.001


def test_wrong_13_words_of_several_tokens_are_told_in_the_finding() -> None:
    """Wrong 13: 5 of 18 items were of words of one token, without a word in the finding."""
    first, _ = findings_of(diagnosed(5))
    assert "In 5 of 18 items all words are one token; the probability of a word of several is the product" in first.text
    assert "token;" not in next(iter(findings_of(diagnosed(18)))).text


def test_a_completion_has_to_be_likelier_than_both_others_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """REVIEW: CPRAG scores only `good above both`."""
    likely = {"chess": 0.3, "go": 0.4, "ball": 0.01}
    monkeypatch.setattr(suites, "rate", speaker(lambda _, word: likely[word]))
    item = Completion("0", "She plays", "chess", "go", "ball", "high")
    assert measured(Diagnostics("own", "", {"C": (item,)}))["C", "sensitivity"] == 0
    own = [ClozeOutcome("C", str(at), "sensitivity", 1.0, True, 1 / 3, group="C") for at in range(12)]
    means = estimates(own, samples=50, seed=0)
    tables = {
        "cloze": cloze_table("own", means),
        "baselines": baseline_table(
            "own",
            own,
            {CHANCE: by_chance(own)},
            lambda rows, sure: estimates(rows, samples=50, seed=0, certain=sure),
            0,
        ),
        "contrasts": contrast_table(own, means, (), 0),
        "parts": pd.DataFrame([("C", "C", 12, 12, 12, 0)], columns=list(PARTS)),
    }
    result: Any = SimpleNamespace(tables=tables, provenance=SimpleNamespace(model={"name": "tiny"}))
    (found,) = findings_of(result)
    assert found.text.startswith("C: the expected word is likelier than both that do not fit in 100 % of 12 items")


def test_within_a_category_is_scored_above_between_where_neither_is_expected(monkeypatch: pytest.MonkeyPatch) -> None:
    """CPRAG's "chef" over "robin": the kind of filler, apart from the filler itself."""
    likely = {"chess": 0.3, "go": 0.2, "ball": 0.01, "rugby": 0.001}
    monkeypatch.setattr(suites, "rate", speaker(lambda _, word: likely[word]))
    items = tuple(Completion(str(at), "She plays", "chess", *bad, "high") for at, bad in enumerate(
        [("go", "ball"), ("go", "rugby"), ("rugby", "ball"), ("go", "ball")]
    ))  # fmt: skip
    found = ask_diagnostics(_Model(), Diagnostics("own", "", {"C": items}), answers=False)  # type: ignore[arg-type]
    within = [each for each in found.scores if each.measure == "within_over_between"]
    assert [each.value for each in within] == [1, 1, 0, 1]
    assert {each.chance for each in within} == {0.5}


def test_facts_that_the_subject_gives_away_are_left_out_beside_all_facts() -> None:
    named, other = Fact("Apple Watch", "Apple"), Fact("Mac Pro", "Apple")
    relation = Relation("P176", "maker", (named, other), (Pattern("[X] is made by ", "."),))
    scores = []
    for fact, right in ((named, True), (other, False)):
        outcomes = FactOutcomes(fact, 2, True, [question(0, right)._replace(ranks=(right, right))])
        scores += list(fact_outcomes(relation, outcomes, 100))
    means = estimates(scores, samples=40, seed=0)
    value = {measure: mean.value for (_, measure), mean in means.items()}
    assert (value["precision_at_1"], value["precision_at_1_unnamed"]) == (0.5, 0)
    assert (value["precision_at_1_objects_named"], value["precision_at_1_objects_unnamed"]) == (1, 0)
    contrasts = contrast_table(scores, means, (), 0).set_index("contrast")["difference"]
    assert contrasts[GIVEN_AWAY] == 0.5


def test_tables_and_findings_of_a_run_agree(tmp_path: Path) -> None:
    path = tmp_path / "own.tsv"
    words = ("dog", "cat", "fox", "dog", "cat", "dog", "fox", "dog")
    rows = [f"the lazy {'very ' * (at % 3)}___ ran .\t{word}\tdog|cat|fox\n" for at, word in enumerate(words)]
    path.write_text("text\tanswer\tcandidates\n" + "".join(rows))
    result = lamina.cloze(tiny_masked(), str(path), samples=40)
    assert len(result.findings) == 2
    assert check_findings(result) == []
