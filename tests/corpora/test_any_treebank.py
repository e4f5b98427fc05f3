"""Treebanks of any language: features in place of tags, splits of what is there; all advice of errors is followed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from lamina.corpora import load_corpus, load_splits
from lamina.corpora.splits import Splits
from lamina.corpora.treebanks import FEATURES, with_features
from lamina.errors import CorpusError, InputError
from lamina.framework.inputs import as_splits
from lamina.framework.outline import outline
from lamina.tasks.order_making import make_order_tasks
from lamina.tasks.order_rules import Clauses

GERMAN = (
    "Die Hunde sahen den Baum .|DET NOUN VERB DET NOUN PUNCT|ART NN VVFIN ART NN $.|2 3 0 5 3 3|"
    "det nsubj root det obj punct|_ Number=Plur Number=Plur,Tense=Past,VerbForm=Fin _ Number=Sing _",
    "Der Hund sieht die Bäume .|DET NOUN VERB DET NOUN PUNCT|ART NN VVFIN ART NN $.|2 3 0 5 3 3|"
    "det nsubj root det obj punct|_ Number=Sing Number=Sing,Tense=Pres,VerbForm=Fin _ Number=Plur _",
    "Die Hunde können den Baum sehen .|DET NOUN AUX DET NOUN VERB PUNCT|ART NN VMFIN ART NN VVINF $.|2 6 6 5 6 0 6|"
    "det nsubj aux det obj root punct|"
    "_ Number=Plur Number=Plur,Tense=Pres,VerbForm=Fin,VerbType=Mod _ Number=Sing VerbForm=Inf _",
)
CZECH = (
    "Psi viděli strom .|NOUN VERB NOUN PUNCT|_ _ _ _|2 0 2 2|nsubj root obj punct|"
    "Number=Plur Number=Plur,Tense=Past,VerbForm=Part Number=Sing _",
)


def treebank(folder: Path, splits: dict[str, int], sentences: tuple[str, ...] = GERMAN, *, tags: bool = True) -> Path:
    """A treebank without lemmas, with as many sentences per split; ten make a document."""
    folder.mkdir(exist_ok=True)
    for split, count in splits.items():
        lines = []
        for number in range(count):
            words, pos, xpos, heads, relations, features = (
                part.split() for part in sentences[number % len(sentences)].split("|")
            )
            lines += [f"# newdoc id = {split}-{number // 10}"] * (number % 10 == 0) + [f"# sent_id = {split}-{number}"]
            rows = zip(words, pos, xpos if tags else ["_"] * len(words), heads, relations, features, strict=True)
            for place, (word, part, tag, head, relation, feats) in enumerate(rows, start=1):
                lines.append(f"{place}\t{word}\t_\t{part}\t{tag}\t{feats.replace(',', '|')}\t{head}\t{relation}\t_\t_")
            lines.append("")
        (folder / f"de_own-ud-{split}.conllu").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


@pytest.mark.parametrize("tags", [True, False])
def test_number_and_tense_come_from_features(tmp_path: Path, tags: bool) -> None:
    """German NN is no singular of Penn's: number and tense are read from features, with tags or without."""
    folder = treebank(tmp_path / "de", {"train": 30, "dev": 30}, tags=tags)
    splits = with_features(load_splits(folder), folder)
    trees = [Clauses.of(text) for text in splits.scored][:3]
    assert [tree.number(1) for tree in trees] == ["plural", "singular", "plural"]
    assert [tree.tense(2) for tree in trees] == ["past", "present", "present"]
    assert [tree.finite() for tree in trees] == [2, 2, 2]
    assert all(FEATURES in text.edges and "xpos" not in text.edges for text in splits.train)


def test_slavic_pasts_are_finite(tmp_path: Path) -> None:
    """A past participle that is the predicate by itself has tense, as in Czech."""
    folder = treebank(tmp_path / "cs", {"train": 10, "dev": 10}, CZECH, tags=False)
    (tree, *_) = [Clauses.of(text) for text in with_features(load_splits(folder), folder).scored]
    assert (tree.tense(1), tree.finite(), tree.number(0)) == ("past", 1, "plural")


def test_tasks_are_made_of_a_german_treebank(tmp_path: Path) -> None:
    """What is asked of words and of the tree is made; only tasks that the sentences do not allow are refused."""
    folder = treebank(tmp_path / "de", {"train": 600, "dev": 600})
    splits = with_features(load_splits(folder), folder)
    made = make_order_tasks(splits, ["bigram_shift", "subject"], items=40, seed=0)
    assert [task.name for task in made.tasks] == ["bigram_shift", "subject"]
    refused = make_order_tasks(splits, None, items=40, seed=0).refused["tense"]
    # Each of the two verbs is in one set only; the third sentence has an auxiliary.
    with_auxiliary = sum("können" in text.words for text in splits.train)
    assert f"the main verb is not finite itself ({with_auxiliary})" in refused


def obeyed(advice: str, wanted: str) -> dict[str, str]:
    """The option of this name in a piece of advice."""
    found = re.search(rf"--{wanted} (\w+)", advice)
    assert found, advice
    return {wanted.replace("-", "_"): found[1]}


@pytest.mark.parametrize("only", ["dev", "test"])
@pytest.mark.parametrize("scored", ["dev", "test"])
def test_one_split_is_divided_on_request(tmp_path: Path, only: str, scored: str) -> None:
    """With dev or test only, the advice to divide it is given, and works when followed."""
    folder = treebank(tmp_path / "one", {only: 900})
    with pytest.raises(CorpusError, match=f"{only} only.*--split-from {only}") as refused:
        load_splits(folder, scored)
    splits = load_splits(folder, scored, **obeyed(str(refused.value), "split-from"))
    documents = [{text.doc for text in corpus} for corpus in (splits.train, splits.scored)]
    assert not documents[0] & documents[1]
    assert all(documents)
    assert splits.scored.made_split == f"{scored} is 10 % of the documents of the given {only}, by hash with seed 0"
    assert isinstance(as_splits(folder, {"split": scored, "split_from": only}), Splits)


@pytest.mark.parametrize("name", ["order", "structure", "probe", "parse"])
def test_commands_that_learn_give_this_advice_at_once(tmp_path: Path, name: str) -> None:
    """Before torch is imported; and with the option the command goes on."""
    folder = treebank(tmp_path / "one", {"dev": 300})
    inputs: dict[str, Any] = {"model": "minilm", "data": str(folder)}
    split = {"split": "dev+test" if name == "order" else "dev"}
    with pytest.raises(CorpusError, match="divide it by document with --split-from dev") as refused:
        outline(name).refuse_misspelt(inputs, split)
    outline(name).refuse_misspelt(inputs, split | obeyed(str(refused.value), "split-from"))


def test_a_split_that_is_not_there_names_those_that_are(tmp_path: Path) -> None:
    """Each of the three ways out works."""
    folder = treebank(tmp_path / "one", {"dev": 300})
    with pytest.raises(CorpusError, match="there is no test here, only dev") as refused:
        load_corpus(folder, "test")
    assert "--split all" in str(refused.value)
    assert len(load_corpus(folder, "all")) == 300
    assert len(load_corpus(folder, **obeyed(str(refused.value), "split"))) == 300
    assert 0 < len(load_corpus(folder, "test", **obeyed(str(refused.value), "split-from"))) < 100


def test_an_unread_file_named_like_a_split_is_read_or_moved_as_advised(tmp_path: Path) -> None:
    """Of texts to learn from as well: the advice never names a split that the command refuses."""
    folder = treebank(tmp_path / "odd", {"train": 600})
    strange = folder / "de_own-ud-dev.dat"
    strange.write_bytes(b"\x00\x01\x02" * 50)
    with pytest.raises(CorpusError, match=r"is named like a split and is not read.*or move it away") as refused:
        load_splits(folder)
    assert "--split" not in str(refused.value)
    strange.unlink()
    assert len(load_splits(folder).scored)


def test_splits_that_are_complete_are_not_made(tmp_path: Path) -> None:
    """A split to divide has to be there, and splits are checked where an analysis is asked."""
    folder = treebank(tmp_path / "one", {"dev": 30})
    with pytest.raises(CorpusError, match=r"--split-from 'train' is no split of the data: it has dev"):
        load_corpus(folder, "dev", split_from="train")
    with pytest.raises(InputError, match="split"):
        outline("structure").refuse_misspelt({"model": "minilm", "data": str(folder)}, {"split": "all"})
