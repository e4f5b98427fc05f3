"""Agreement pairs made of a treebank: which verbs, which other forms, how many attractors."""

from __future__ import annotations

from pathlib import Path

import pytest

from lamina.corpora.suites.agreement_pairs import agreement_pairs
from lamina.errors import CorpusError

KEYS = """
1 The the DET DT _ 2 det _ _
2 keys key NOUN NNS Number=Plur 9 nsubj _ _
3 to to ADP IN _ 5 case _ _
4 the the DET DT _ 5 det _ _
5 cabinet cabinet NOUN NN Number=Sing 2 nmod _ _
6-7 aren't _ _ _ _ _ _ _ _
6 are be AUX VBP Number=Plur|Person=3|Tense=Pres|VerbForm=Fin 9 cop _ _
7 n't not PART RB _ 9 advmod _ _
8 very very ADV RB _ 9 advmod _ _
9 old old ADJ JJ _ 0 root _ SpaceAfter=No
10 . . PUNCT . _ 9 punct _ _
"""
DOG = """
1 A a DET DT _ 2 det _ _
2 dog dog NOUN NN Number=Sing 4 nsubj _ _
3 IS be AUX VBZ Number=Sing|Person=3|Tense=Pres|VerbForm=Fin 4 aux _ _
4 barking bark VERB VBG VerbForm=Part 0 root _ _
"""
OTHERS = """
1 It it PRON PRP Number=Sing|Person=3 2 nsubj _ _
2 runs run VERB VBZ Number=Sing|Person=3|Tense=Pres|VerbForm=Fin 0 root _ _

1 I I PRON PRP Number=Sing|Person=1 2 nsubj _ _
2 am be AUX VBP Number=Sing|Person=1|Tense=Pres|VerbForm=Fin 0 root _ _

1 Dogs dog NOUN NNS Number=Plur 2 nsubj _ _
2 were be AUX VBD Number=Plur|Person=3|Tense=Past|VerbForm=Fin 0 root _ _

1 Cats cat NOUN NNS Number=Plur 4 nsubj _ _
2 and and CCONJ CC _ 3 cc _ _
3 dogs dog NOUN NNS Number=Plur 1 conj _ _
4 are be AUX VBP Number=Plur|Person=3|Tense=Pres|VerbForm=Fin 0 root _ _

1 Here here ADV RB _ 2 advmod _ _
2 are be AUX VBP Number=Plur|Person=3|Tense=Pres|VerbForm=Fin 0 root _ _
3 keys key NOUN NNS Number=Plur 2 nsubj _ _

1 Keys key NOUN NNS Number=Plur 2 nsubj _ _
2 fell fall VERB VBD Number=Plur|Person=3|Tense=Past|VerbForm=Fin 0 root _ _

1 Key key NOUN NN Number=Sing 2 nsubj _ _
2 fell fall VERB VBD Number=Sing|Person=3|Tense=Past|VerbForm=Fin 0 root _ _
"""


def treebank(path: Path, rows: str) -> Path:
    path.write_text("\n".join("\t".join(line.split()) for line in rows.strip().split("\n")) + "\n\n")
    return path


def test_the_verb_in_the_other_number_as_it_was_written(tmp_path: Path) -> None:
    suite = agreement_pairs(treebank(tmp_path / "own.conllu", KEYS + DOG.replace("\n1 A", "\n\n1 A") + "\n" + OTHERS))
    assert [(pair.paradigm, pair.good, pair.bad) for pair in suite] == [
        ("0 attractors", "A dog IS barking", "A dog ARE barking"),
        ("1 attractor", "The keys to the cabinet aren't very old.", "The keys to the cabinet isn't very old."),
    ]
    assert {pair.term for pair in suite} == {"subject_verb_agreement"}
    assert suite.left_out == {
        "subjects that are no nouns": 1,
        "verbs whose form in the other number is not in the treebank": 1,
        "subjects of several nouns joined (conj)": 1,
        "subjects after their verb": 1,
        "verbs that look the same in both numbers": 2,
    }


def test_tags_tell_number_where_features_do_not(tmp_path: Path) -> None:
    rows = (
        "1 Keys key NOUN NNS _ 2 nsubj _ _\n2 rust rust VERB VBP _ 0 root _ _\n\n"
        "1 Iron iron NOUN NN _ 2 nsubj _ _\n2 rusts rust VERB VBZ _ 0 root _ _"
    )
    suite = agreement_pairs(treebank(tmp_path / "own.conllu", rows))
    assert [pair.bad for pair in suite] == ["Keys rusts", "Iron rust"]


def test_other_languages_and_other_splits(tmp_path: Path) -> None:
    """The form comes from another split, and a gender that agrees is kept."""
    form = "{at} {form} byt' AUX _ {features}|Tense=Past|VerbForm=Fin 0 root _ _"
    noun = "1 {word} {word} NOUN _ Gender=Fem|Number={number} 2 nsubj _ _\n"
    test = noun.format(word="Knigi", number="Plur") + form.format(at=2, form="byli", features="Number=Plur|Gender=Fem")
    train = [
        form.format(at=1, form=word, features=f"Number=Sing|Gender={gender}")
        for word, gender in (("byl", "Masc"), ("byl", "Masc"), ("byla", "Fem"))
    ]
    folder = tmp_path / "ru"
    folder.mkdir()
    treebank(folder / "ru-ud-test.conllu", test)
    treebank(folder / "ru-ud-train.conllu", "\n\n".join(train))
    assert [pair.bad for pair in agreement_pairs(folder, "test")] == ["Knigi byla"]


def test_treebanks_that_cannot_serve(tmp_path: Path) -> None:
    plain = tmp_path / "own.txt"
    plain.write_text("Dogs bark .\n")
    with pytest.raises(CorpusError, match="no lemmas and features; give a treebank in CoNLL-U"):
        agreement_pairs(plain)
    with pytest.raises(CorpusError, match=r"no verb that agrees .* \(subjects that are no nouns: 1\)"):
        agreement_pairs(treebank(tmp_path / "own.conllu", OTHERS.split("\n\n")[0]))


NOUNS = """
1 The the DET DT _ 2 det _ _
2 lamps lamp NOUN NNS Number=Plur 3 nsubj _ _
3 glow glow VERB VBP Number=Plur|Person=3|Tense=Pres|VerbForm=Fin 0 root _ _

1 A a DET DT _ 2 det _ _
2 lamp lamp NOUN NN Number=Sing 3 nsubj _ _
3 glows glow VERB VBZ Number=Sing|Person=3|Tense=Pres|VerbForm=Fin 0 root _ _

1 An a DET DT _ 2 det _ _
2 apple apple NOUN NN Number=Sing 3 nsubj _ _
3 rusts rust VERB VBZ Number=Sing|Person=3|Tense=Pres|VerbForm=Fin 0 root _ _

1 Those that DET DT _ 2 det _ _
2 apples apple NOUN NNS Number=Plur 3 nsubj _ _
3 rust rust VERB VBP Number=Plur|Person=3|Tense=Pres|VerbForm=Fin 0 root _ _
"""


def test_sentences_without_meaning_keep_every_form_and_stand_beside_the_original(tmp_path: Path) -> None:
    path = treebank(tmp_path / "own.conllu", NOUNS)
    suite = agreement_pairs(path, nonce=True)
    by_id = {pair.id: pair for pair in suite}

    assert len(suite) == 8
    assert "An apple glows" in {pair.good for pair in suite}, "no other singular noun goes with an"
    for id, pair in by_id.items():
        if id.endswith(" nonce"):
            original = by_id[id.removesuffix(" nonce")]
            assert pair.paradigm == f"{original.paradigm}, nonce"
            assert pair.term == "subject_verb_agreement_nonce"
            assert len(pair.good.split()) == len(original.good.split())
            # The same word form in the same place: plural nouns for plural nouns, and both numbers of one verb.
            assert pair.good.split()[1].endswith("s") == original.good.split()[1].endswith("s")
            assert pair.good.split()[2] != original.good.split()[2]
            assert {pair.good.split()[2], pair.bad.split()[2]} in ({"glow", "glows"}, {"rust", "rusts"})
    assert agreement_pairs(path, nonce=True).fingerprint == suite.fingerprint != agreement_pairs(path).fingerprint
    assert [pair for pair in suite if pair.term == "subject_verb_agreement"] == list(agreement_pairs(path))
