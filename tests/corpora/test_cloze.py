"""Cloze suites: tables of one's own, the diagnostics and facts with patterns, told apart by their content."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lamina.corpora.suites.cloze import Clozes, Completion, Diagnostics, Fact, Negation, Relations, RolePair, read_cloze
from lamina.errors import CorpusError, FormatError

CPRAG = "item\tcontext_s1\tcontext_s2\texpected\twithin_category\tbetween_category\tconstraint\n"
ROLE = "item\tcontext\texpected\texp_cloze\ttarget\ttgt_cloze\ttgt_cloze(strict)\n"
NEG = "item\tcontext_aff\tcontext_neg\ttarget_aff\ttarget_neg\n"


def written(path: Path, *lines: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{each if isinstance(each, str) else json.dumps(each)}\n" for each in lines))
    return path


def test_own_tables_in_all_ways_to_write_them(tmp_path: Path) -> None:
    tsv = written(
        tmp_path / "own.tsv",
        "id\ttext\tanswer\tcandidates\tpart",
        "a\tThe [MASK] barks .\tdog|puppy\tcat|dog\tanimals",
        "b\tParis is in ____.\tFrance\t\t",
    )
    suite = read_cloze(tsv)
    assert isinstance(suite, Clozes)
    first, second = suite.items
    assert (first.item, first.before, first.after) == ("animals/a", "The ", " barks .")
    assert first.answers == ("dog", "puppy")
    assert first.candidates == ("dog", "puppy", "cat")
    assert (second.part, second.after, second.candidates) == ("own", ".", ())
    lines = written(tmp_path / "own.jsonl", {"prompt": "Cats [Y]", "answer": ["purr", "sleep"]})
    made = read_cloze(lines)
    assert isinstance(made, Clozes)
    assert made.items[0].answers == ("purr", "sleep")
    assert made.fingerprint != suite.fingerprint


@pytest.mark.parametrize(
    ("row", "sentence"),
    [
        ("The dog barks.\tdog", r"own.tsv:2: no slot in 'The dog barks.'; expected one \[MASK\], \[Y\] or ___"),
        ("The [MASK] barks ___.\tdog", "own.tsv:2: 2 slots in"),
        ("The [MASK] barks.\t ", "own.tsv:2: no answer"),
    ],
    ids=["no slot", "two slots", "no answer"],
)
def test_faults_name_file_and_line(tmp_path: Path, row: str, sentence: str) -> None:
    path = written(tmp_path / "own.tsv", "text\tanswer", row, "The ___ sleeps.\tcat")
    with pytest.raises(FormatError, match=sentence):
        read_cloze(path)


def test_columns_and_ids_are_checked(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=r"no column 'answer' \(the columns are: text, label\)"):
        read_cloze(written(tmp_path / "a.tsv", "text\tlabel", "The ___.\tdog"))
    twice = written(tmp_path / "b.tsv", "id\ttext\tanswer", "1\tA ___.\tdog", "1\tThe ___.\tcat")
    with pytest.raises(FormatError, match=r"b.tsv:3: a second text '1' of part 'b' \(the first is at line 2\)"):
        read_cloze(twice)
    offered = written(tmp_path / "c.tsv", "text\tanswer\tcandidates", "A ___.\tdog\tdog")
    with pytest.raises(FormatError, match="all candidates are answers"):
        read_cloze(offered)


def test_diagnostics_are_told_by_their_columns(tmp_path: Path) -> None:
    folder = tmp_path / "another name"
    written(folder / "x" / "C.tsv", CPRAG + "0\tMate!\tShe plays\tchess\tgo\tball\tH")
    written(folder / "R.tsv", ROLE + "1-b\tA b\tsaw|was seen\t.1\thit\t0\t0\n1-a\tA a \thit\t.5\thit by\t.5\t.5")
    written(folder / "N.tsv", NEG + "0\tAn ant is (a|an)\tAn ant is not (a|an)\tinsect\ttool")
    written(folder / "notes.tsv", "0\tsome note\tmore")
    suite = read_cloze(folder)
    assert isinstance(suite, Diagnostics)
    assert dict(suite.left_out) == {"files in another layout": 1}
    assert suite.parts["C"] == (Completion("0", "Mate! She plays", "chess", "go", "ball", "high"),)
    assert suite.parts["R"] == (RolePair("1", "A a", "A b", "hit", ("hit",), ("saw", "was")),)
    (negation,) = suite.parts["N"]
    assert isinstance(negation, Negation)
    assert negation.licensed is None
    assert negation.context("negative", "insect") == "An ant is not an"
    alone = read_cloze(folder / "N.tsv")
    assert isinstance(alone, Diagnostics)
    assert list(alone.parts) == ["N"]
    written(folder / "R.tsv", ROLE + "1-b\tA b\tsaw\t.1\thit\t0\t0")
    with pytest.raises(FormatError, match=r"R.tsv:2: item '1-b' has no partner"):
        read_cloze(folder)


def test_facts_and_patterns_of_pararel_and_of_lama(tmp_path: Path) -> None:
    facts = [{"sub_label": city, "obj_label": country} for city, country in (("Lyon", "France"), ("Bonn", "Germany"))]
    pararel = tmp_path / "pararel"
    written(pararel / "facts" / "P17.jsonl", *facts, facts[0])
    written(pararel / "facts" / "P31.jsonl", *facts)
    written(pararel / "patterns" / "P17.jsonl", {"pattern": "[X] is in [Y] ."}, {"pattern": "[Y] has [X]."})
    suite = read_cloze(pararel)
    assert isinstance(suite, Relations)
    (relation,) = suite.relations
    assert (relation.id, relation.name, relation.facts[0]) == ("P17", "country", Fact("Lyon", "France"))
    assert [each.ends for each in relation.patterns] == [True, False]
    assert dict(suite.left_out) == {"facts that are duplicates": 1, "relations without a pattern": 1}
    lama = tmp_path / "lama"
    written(lama / "TREx" / "P17.jsonl", *facts)
    written(lama / "relations.jsonl", {"relation": "P17", "template": "[X] is in [Y] .", "label": "land"})
    suite = read_cloze(lama)
    assert isinstance(suite, Relations)
    assert suite.relations[0].name == "land"
    assert suite.relations[0].patterns[0].text == "[X] is in [Y] ."
    written(pararel / "patterns" / "P17.jsonl", {"pattern": "[X] is in [Y] or [Y]."})
    with pytest.raises(
        FormatError, match=r"P17.jsonl:1: 2 \[Y\] in '\[X\] is in \[Y\] or \[Y\]\.'; expected one \[Y\]"
    ):
        read_cloze(pararel)
    (pararel / "patterns" / "P17.jsonl").unlink()
    with pytest.raises(CorpusError, match="has no patterns"):
        read_cloze(pararel)
