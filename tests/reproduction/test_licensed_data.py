"""Data of licence holders, in small hand-written files of the same layout: found, read, counted, planned."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lamina.corpora import load_corpus
from lamina.corpora.loading import known_splits
from lamina.errors import CorpusError
from lamina.reproduction import get_paper
from lamina.reproduction.papers import PaperData, refuse_other_edition
from lamina.reproduction.running import counted

ONTONOTES = """#begin document (bc/xx/00/xx_0000); part {part:03d}
bc/xx/00/xx_0000 {part} 0 Dogs NNS (TOP(S(NP*) - - - - * (ARG0*) (0)
bc/xx/00/xx_0000 {part} 1 bark VBP (VP*) bark 01 1 - * (V*) -
bc/xx/00/xx_0000 {part} 2 . . *)) - - - - * * -

bc/xx/00/xx_0000 {part} 0 They PRP (TOP(S(NP*) - - - - * (ARG0*) (0)
bc/xx/00/xx_0000 {part} 1 love VBP (VP* love 01 1 - * (V*) -
bc/xx/00/xx_0000 {part} 2 Rome NNP (NP*)) - - - - (GPE) (ARG1*) -
bc/xx/00/xx_0000 {part} 3 . . *)) - - - - * * -

#end document
"""
TREE = "( (S (NP-SBJ (NNS Dogs)) (VP (VBP bark)) (. .)) )\n"
CONLLX = "1\tDogs\t_\tNNS\tNNS\t_\t2\tnsubj\t_\t_\n2\tbark\t_\tVBP\tVBP\t_\t0\troot\t_\t_\n\n"
SPR1 = {
    "tokens": ["Dogs", "bark", "."],
    "split": "dev",
    "sent_id": "1940_1",
    "spr1": [
        {"pred_idx": 1, "arg_idx": 0, "responses": [
            {"spr_property": "awareness", "response": 5.0}, {"spr_property": "created", "response": 1.0},
            {"spr_property": "volition", "response": 3.0}]},
    ],
}  # fmt: skip
SENSES = """<?xml version="1.0" encoding="UTF-8" ?>
<corpus lang="en" source="senseval2">
<text id="d000">
<sentence id="d000.s000">
<wf lemma="the" pos="DET">The</wf>
<instance id="d000.s000.t000" lemma="art" pos="NOUN">art</instance>
<wf lemma="of" pos="ADP">of</wf>
<instance id="d000.s000.t001" lemma="change_ringing" pos="NOUN">change ringing</instance>
</sentence>
</text>
</corpus>
"""


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_ontonotes_and_conll_2012_have_five_annotations_and_count_documents_not_parts(tmp_path: Path) -> None:
    root = tmp_path / "conll2012"
    for split in ("train", "dev", "test"):
        write(root / split / "xx_0000.gold_conll", ONTONOTES.format(part=0) + ONTONOTES.format(part=1))
    assert set(known_splits(root, "ontonotes")) >= {"train", "dev", "test"}
    corpus = load_corpus(root, "dev", format="ontonotes")
    assert {"pos", "const", "ner", "srl", "chains"} <= set(corpus.annotations)
    data = get_paper("attention").data["conll2012"]
    assert counted(data, root) == {split: {"texts": 4, "documents": 1} for split in ("train", "dev", "test")}
    with pytest.raises(CorpusError, match="1 documents, expected"):
        refuse_other_edition(data, counted(data, root))


def test_the_treebank_has_tags_from_brackets_and_stanford_dependencies_from_columns(tmp_path: Path) -> None:
    for split in ("train", "dev", "test"):
        write(tmp_path / "ptb_tags" / split / "wsj_0001.mrg", TREE * 2)
        write(tmp_path / "ptb_dependencies" / f"{split}.conllu", CONLLX * 3)
    tags = load_corpus(tmp_path / "ptb_tags", "dev", format="ptb")
    assert [edge.labels[0] for edge in next(iter(tags)).edges["pos"]] == ["NNS", "VBP", "."]
    trees = load_corpus(tmp_path / "ptb_dependencies", "dev", format="conllu")
    assert [edge.labels[0] for edge in next(iter(trees)).edges["dep"]] == ["nsubj", "root"]
    data = get_paper("attention").data["ptb_dependencies"]
    with pytest.raises(CorpusError, match="dev has 3 texts, expected 1,700"):
        refuse_other_edition(data, counted(data, tmp_path / "ptb_dependencies"))


def test_proto_roles_of_spr1_hold_above_three_and_are_rated_where_they_were_asked(tmp_path: Path) -> None:
    for split in ("train", "dev", "test"):
        write(tmp_path / f"spr1.{split}.json", json.dumps(SPR1) + "\n")
    (text,) = load_corpus(tmp_path, "dev")
    (edge,) = text.edges["spr"]
    assert edge.labels == ("awareness",)
    assert edge.rated == ("awareness", "created", "volition")
    assert (edge.span.start, edge.other and edge.other.start, text.doc) == (1, 0, "1940")


def test_senses_of_the_evaluation_framework_are_sense_keys_at_their_words(tmp_path: Path) -> None:
    write(tmp_path / "senseval2.data.xml", SENSES)
    keys = "d000.s000.t000 art%1:06:00::\nd000.s000.t001 change_ringing%1:04:00:: bell_ringing%1:04:00::\n"
    write(tmp_path / "senseval2.gold.key.txt", keys)
    (text,) = load_corpus(tmp_path, "all", format="wsd_framework")
    assert text.words == ("The", "art", "of", "change_ringing")
    assert [edge.labels for edge in text.edges["sense"]] == [
        ("art%1:06:00::",), ("change_ringing%1:04:00::", "bell_ringing%1:04:00::"),
    ]  # fmt: skip
    write(tmp_path / "senseval2.data.xml", '<!DOCTYPE c [<!ENTITY a "b">]>' + SENSES.partition("\n")[2])
    with pytest.raises(CorpusError, match="declares the entity"):
        list(load_corpus(tmp_path, "all", format="wsd_framework"))


def test_word_lists_of_wiki_pse_are_counted(tmp_path: Path) -> None:
    write(tmp_path / "wiki_pse.txt", "in @new_york@-location they eat @apple@-food\n")
    write(tmp_path / "train.tsv", "@new_york@\t-location=3\n")
    write(tmp_path / "test.tsv", "@apple@\t-food=2 -organization=1\n\n")
    (text,) = load_corpus(tmp_path / "wiki_pse.txt", "all", format="wiki_pse")
    assert [edge.labels[0] for edge in text.edges["sclass"]] == ["location", "food"]
    data: PaperData = get_paper("contextualization").data["wiki_pse"]
    assert counted(data, tmp_path) == {"train": {"listed": 1}, "test": {"listed": 1}}


def test_questions_of_hotpot_are_counted_before_any_is_left_out(tmp_path: Path) -> None:
    write(tmp_path / "hotpot_train_v1.1.json", "[]")
    write(tmp_path / "hotpot_dev_distractor_v1.json", json.dumps([{"_id": "1", "answer": "yes"}, {"_id": "2"}]))
    assert {"train", "dev"} <= set(known_splits(tmp_path, "hotpot"))
    data = get_paper("questions").data["hotpot"]
    assert counted(data, tmp_path) == {"dev": {"questions": 2}}
    with pytest.raises(CorpusError, match="dev has 2 questions, expected 7,405"):
        refuse_other_edition(data, counted(data, tmp_path))
