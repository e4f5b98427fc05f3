"""Labels that rules give, compared with labels given by hand."""

from __future__ import annotations

from typing import Any

import pytest

from lamina.tasks.order_rules import (
    BY_NAME,
    FEATURES,
    Clauses,
    OrderCandidate,
    WordCounts,
    fit_odd,
    inversion_rule,
    shift_rule,
)
from lamina.types import Edge, Span, Text

_POS = {
    "NN": "NOUN",
    "NNS": "NOUN",
    "NNP": "PROPN",
    "MD": "AUX",
    "PRP": "PRON",
    ".": "PUNCT",
    ",": "PUNCT",
    "?": "PUNCT",
}


def _pos(tag: str) -> str:
    return _POS.get(tag, "VERB" if tag[0] == "V" else "X")


def tree(lines: str, id: str = "s", const: tuple[tuple[str, int, int], ...] = ()) -> Clauses:
    """A sentence of `form/tag/head/relation`, heads counted from 1 as in CoNLL-U."""
    cells = [line.split("/") for line in lines.split()]
    spans = [Span(at, at + 1) for at in range(len(cells))]
    edges = {
        "pos": tuple(Edge((_pos(tag),), span) for (_, tag, *_), span in zip(cells, spans, strict=True)),
        "xpos": tuple(Edge((tag,), span) for (_, tag, *_), span in zip(cells, spans, strict=True)),
        "dep": tuple(
            Edge((relation,), span, span if head == "0" else spans[int(head) - 1])
            for (_, _, head, relation), span in zip(cells, spans, strict=True)
        ),
    }  # fmt: skip
    if const:
        edges["const"] = tuple(Edge((label,), Span(start, end)) for label, start, end in const)
    return Clauses.of(Text(id, tuple(form for form, *_ in cells), edges=edges))


SENTENCES = {
    "modal": "The/DT/2/det dog/NN/4/nsubj will/MD/4/aux bark/VB/0/root ././4/punct",
    "relative clause with a distractor": (
        "The/DT/2/det dogs/NNS/9/nsubj that/WDT/5/nsubj were/VBD/5/aux chasing/VBG/2/acl:relcl the/DT/7/det "
        "cat/NN/5/obj can/MD/9/aux sleep/VB/0/root ././9/punct"
    ),
    "question": (
        "Can/MD/7/aux the/DT/3/det girl/NN/7/nsubj who/WP/6/nsubj has/VBZ/6/aux left/VBN/3/acl:relcl "
        "return/VB/0/root ?/./7/punct"
    ),
    "passive, UD v1": (
        "The/DT/2/det houses/NNS/4/nsubjpass were/VBD/4/auxpass built/VBN/0/root by/IN/6/case workers/NNS/4/nmod "
        "././4/punct"
    ),
    "passive, UD v2": (
        "The/DT/2/det houses/NNS/4/nsubj:pass were/VBD/4/aux:pass built/VBN/0/root by/IN/6/case workers/NNS/4/obl "
        "././4/punct"
    ),
    "fronted clause": (
        "If/IN/4/mark it/PRP/4/nsubj is/VBZ/4/cop cold/JJ/8/advcl ,/,/8/punct birds/NNS/8/nsubj will/MD/8/aux "
        "leave/VB/0/root ././8/punct"
    ),
    "copula": "His/PRP$/2/nmod:poss brothers/NNS/5/nsubj are/VBP/5/cop good/JJ/5/amod doctors/NNS/0/root ././5/punct",
    "coordinated clauses": (
        "She/PRP/2/nsubj sang/VBD/0/root ,/,/7/punct and/CC/7/cc the/DT/6/det boys/NNS/7/nsubj danced/VBD/2/conj "
        "././2/punct"
    ),
    "coordinated subject": (
        "Cats/NNS/4/nsubj and/CC/3/cc dogs/NNS/1/conj saw/VBD/0/root rain/NN/4/dobj ././4/punct"
    ),
    "possessor before the subject": (
        "Yesterday/NN/6/obl:tmod the/DT/3/det man/NN/5/nmod:poss 's/POS/3/case sister/NN/6/nsubj arrived/VBD/0/root "
        "././6/punct"
    ),
    "no verb": "Great/JJ/2/amod food/NN/0/root and/CC/4/cc service/NN/2/conj !/./2/punct",
    "imperative": "Close/VB/0/root the/DT/3/det doors/NNS/1/obj ././1/punct",
    "second main clause": (
        "Tom/NNP/3/nsubj will/MD/3/aux cook/VB/0/root and/CC/7/cc Ann/NNP/7/nsubj will/MD/7/aux wash/VB/3/conj "
        "././3/punct"
    ),
    "pronoun": "They/PRP/2/nsubj arrived/VBD/0/root late/RB/2/advmod ././2/punct",
}  # fmt: skip


def told(name: str, sentence: str) -> Any:
    """(label, word) of all targets of a rule without anything to learn, or why there are none."""
    task = BY_NAME[name]
    own = tree(SENTENCES[sentence])
    made = task.fit([])(own, 0)
    if isinstance(made, str):
        return made
    return {(label, " ".join(own.text.words[at] for at in span)) for each in made for label, span in each.targets}


@pytest.mark.parametrize(
    ("sentence", "auxiliaries"),
    [
        ("modal", "no auxiliary in a subordinate clause"),
        ("relative clause with a distractor", {("main", "can"), ("other", "were")}),
        ("question", {("main", "Can"), ("other", "has")}),
        ("fronted clause", {("main", "will"), ("other", "is")}),
        ("no verb", "the main clause has no auxiliary"),
        ("second main clause", "no auxiliary in a subordinate clause"),
    ],
)
def test_main_auxiliary(sentence: str, auxiliaries: Any) -> None:
    assert told("main_auxiliary", sentence) == auxiliaries


@pytest.mark.parametrize(
    ("sentence", "nouns"),
    [
        ("modal", "no other noun"),
        ("relative clause with a distractor", {("main", "dogs"), ("other", "cat")}),
        ("passive, UD v1", {("main", "houses"), ("other", "workers")}),
        ("passive, UD v2", {("main", "houses"), ("other", "workers")}),
        ("fronted clause", "no other noun"),
        ("copula", {("main", "brothers"), ("other", "doctors")}),
        ("coordinated clauses", "the subject is no noun"),
        ("coordinated subject", {("main", "Cats"), ("other", "rain")}),
        ("no verb", "the main clause has no subject, or several"),
        ("imperative", "the main clause has no subject, or several"),
    ],
)
def test_subject(sentence: str, nouns: Any) -> None:
    assert told("subject", sentence) == nouns


def test_a_noun_before_the_subject_is_balanced_apart() -> None:
    own = tree(SENTENCES["possessor before the subject"])
    (made,) = BY_NAME["subject"].fit([])(own, 0)
    assert isinstance(made, OrderCandidate)
    assert made.stratum == "other noun first"
    assert ("main", Span(4, 5)) in made.targets


@pytest.mark.parametrize(
    ("task", "sentence", "answer"),
    [
        ("subject_number_noun", "relative clause with a distractor", {("plural", "dogs")}),
        ("subject_number_noun", "modal", {("singular", "dog")}),
        ("subject_number_noun", "coordinated subject", "it is coordinated"),
        ("subject_number_noun", "pronoun", "it is no common noun of known number"),
        ("subject_number_verb", "relative clause with a distractor", {("plural", "can")}),
        ("subject_number_verb", "modal", {("singular", "will")}),
        ("subject_number_verb", "pronoun", {("plural", "arrived")}),
        ("subject_number_verb", "passive, UD v2", "the verb's form tells the number"),
        ("subject_number_verb", "copula", "the verb's form tells the number"),
        ("object_number", "coordinated subject", {("singular", "Cats and dogs saw rain .")}),
        ("object_number", "imperative", {("plural", "Close the doors .")}),
        ("tense_verb", "possessor before the subject", {("past", "arrived")}),
        ("tense_verb", "modal", "the main verb is not finite itself"),
        ("tense_verb", "copula", "the main verb is not finite itself"),
        ("tense", "coordinated clauses", {("past", "She sang , and the boys danced .")}),
        ("tense", "no verb", "the main verb is not finite itself"),
        ("length", "no verb", {("05-08", "Great food and service !")}),
    ],
)
def test_number_tense_and_length(task: str, sentence: str, answer: Any) -> None:
    assert told(task, sentence) == answer


def test_features_stand_in_for_tags() -> None:
    words = ("Hunde", "bellten")
    features = (("Number=Plur",), ("Tense=Past", "VerbForm=Fin"))
    spans = (Span(0, 1), Span(1, 2))
    edges = {
        "pos": (Edge(("NOUN",), spans[0]), Edge(("VERB",), spans[1])),
        "dep": (Edge(("nsubj",), spans[0], spans[1]), Edge(("root",), spans[1], spans[1])),
        FEATURES: tuple(Edge(each, span) for each, span in zip(features, spans, strict=True)),
    }
    own = Clauses.of(Text("s", words, edges=edges))
    assert (own.number(0), own.tense(1), own.finite()) == ("plural", "past", 1)
    without = Clauses.of(Text("s", words, edges={name: edges[name] for name in ("pos", "dep")}))
    assert (without.number(0), without.tense(1)) == ("", "")


def test_shifted_words_are_neighbours_and_never_the_first_or_punctuation() -> None:
    found = set()
    for number in range(60):
        own = tree(SENTENCES["relative clause with a distractor"], f"s{number}")
        (made,) = shift_rule(own, 0)
        assert isinstance(made, OrderCandidate)
        found.add(made.stratum)
        if made.text is None:
            continue
        differs = [
            at for at, pair in enumerate(zip(made.text.words, own.text.words, strict=True)) if len(set(pair)) > 1
        ]
        assert len(differs) == 2
        assert differs[1] == differs[0] + 1
        assert differs[0] >= 1
        assert made.text.words[-1] == "."
        assert made.text.doc == own.text.id
    assert found == {"original", "shifted"}


def test_inverted_clauses() -> None:
    made = [inversion_rule(tree(SENTENCES["coordinated clauses"], f"s{number}"), 0) for number in range(20)]
    assert not any(isinstance(each, str) for each in made)
    changed = {" ".join(each[0].text.words) for each in made if isinstance(each, list) and each[0].text is not None}
    assert changed == {"The boys danced , and she sang ."}
    assert isinstance(inversion_rule(tree(SENTENCES["coordinated subject"]), 0), str)


def _first(made: list[OrderCandidate] | str) -> OrderCandidate:
    assert not isinstance(made, str)
    return made[0]


def test_depth_is_about_sentences_of_the_same_length() -> None:
    flat = "a/X/2/x b/X/0/root c/X/2/x d/X/2/x"
    deep = "a/X/2/x b/X/3/x c/X/4/x d/X/0/root"
    middle = "a/X/2/x b/X/3/x c/X/0/root d/X/3/x"
    train = [tree(each) for each in (flat, middle, deep) for _ in range(7)]
    rule = BY_NAME["depth"].fit(train)
    assert [_first(rule(tree(each), 0)).stratum for each in (flat, deep)] == ["flat", "deep"]
    assert rule(tree(middle), 0) == "as deep as the median of its length"
    assert rule(tree(f"{flat} e/X/2/x"), 0) == "fewer than 20 training sentences of its length"


def test_top_constituents_without_final_punctuation() -> None:
    const = (("S", 0, 5), ("NP-SBJ", 0, 2), ("VP", 2, 4))
    own = tree(SENTENCES["modal"], const=const)
    assert own.top_constituents() == ("NP-SBJ", "VP", ".")
    (made,) = BY_NAME["top_constituents"].fit([own])(own, 0)
    assert isinstance(made, OrderCandidate)
    assert made.stratum == "NP VP"


def test_word_content_is_one_of_the_words_learned() -> None:
    train = [
        tree(f"the/DT/2/det {noun}/NN/0/root", noun) for noun in ("house", "house", "river", "river", "sea", "sea")
    ]
    rule = BY_NAME["word_content"].fit(train)
    assert _first(rule(train[0], 0)).stratum == "house"
    # Fewer than four letters.
    assert isinstance(rule(train[4], 0), str)


def test_an_odd_word_has_the_form_and_the_frequencies_of_the_one_it_replaces() -> None:
    def tagged(name: str, *words: str) -> Clauses:
        pos = ("DET", "NOUN", "VERB", "DET", "NOUN")
        xpos = ("DT", "NN", "VBD", "DT", "NN")
        edges = {
            kind: tuple(Edge((tag,), Span(at, at + 1)) for at, tag in enumerate(tags))
            for kind, tags in (("pos", pos), ("xpos", xpos))
        }
        return Clauses.of(Text(name, words, edges=edges))

    nouns, verbs = ("dog", "cat", "fox", "ant"), ("saw", "fed")
    trees = [
        tagged(f"{noun} {verb} {last} {again}", "the", noun, verb, "a", last)
        for noun in nouns for verb in verbs for last in nouns for again in range(2)
    ]  # fmt: skip
    rule = fit_odd(trees)
    made = [rule(tree, 0) for tree in trees]
    candidates = [each[0] for each in made if not isinstance(each, str)]
    assert len(candidates) == len(trees)
    assert {each.stratum for each in candidates} == {"original", "replaced"}
    for tree, candidate in zip(trees, candidates, strict=True):
        if candidate.text is not None:
            (place,) = (
                at for at, (a, b) in enumerate(zip(tree.text.words, candidate.text.words, strict=True)) if a != b
            )
            assert candidate.text.words[place] in (nouns if place == 1 else verbs)
    # A corpus in which one noun is a hundred times as frequent: it replaces none, and none replaces it.
    rare = WordCounts.of([*(tree.text for tree in trees), *[Text(f"x{n}", ("the", "dog", "saw")) for n in range(1000)]])
    uneven = [(tree, fit_odd(trees, rare)(tree, 0)) for tree in trees]
    for tree, found in uneven:
        if not isinstance(found, str) and found[0].text is not None and tree.text.words[1] != found[0].text.words[1]:
            assert "dog" not in (tree.text.words[1], found[0].text.words[1])
