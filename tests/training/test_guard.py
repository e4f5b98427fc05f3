"""A model is never scored on what it was fine-tuned on: every data set, in every view, by every command."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import lamina
from lamina.analyses.words.occurrences import SEEN, find_words
from lamina.corpora import Corpus, load_corpus, load_questions
from lamina.corpora.corpus import View
from lamina.errors import CorpusError
from lamina.testing import TinyEncoder
from lamina.training import provenance
from lamina.training.provenance import ABOUT, GUARD, TEXTS, is_among, refuse_used, text_hash, unguarded, used_texts
from lamina.training.reading import load_sets

STORIES = "stories"


def squad(folder: Path) -> None:
    for split in ("train", "dev", "test"):
        articles = []
        for a in range(4):
            # One paragraph that tells by itself, and one that is short.
            long = f"The {split} dog number {a} barked at noon. " + "It was a day as any other day in this town. " * 5
            short = f"A {split} cat number {a} slept. It was warm."
            paragraphs = [
                {
                    "context": context,
                    "qas": [
                        {"id": f"{split}-{a}-{n}-{who}", "question": f"{who} was it?", "answers": answers}
                        for who in ("Who", "When")
                    ],
                }
                for n, context in enumerate((long, short))
                for answers in [[{"text": "number", "answer_start": context.index("number")}]]
            ]
            articles.append({"title": f"{split} {a}", "paragraphs": paragraphs})
        (folder / f"{split}.json").write_text(json.dumps({"data": articles}))


def hotpot(folder: Path) -> None:
    for split in ("train", "dev", "test"):
        items = []
        for n in range(6):
            context = [
                [f"T{p}", [f"Paragraph {p} of {split} {n} begins.", f" It names number {p}{n}."]] for p in range(10)
            ]
            facts = [["T2", 1], ["T7", 0]]
            items.append(
                {
                    "_id": f"{split}{n}",
                    "question": "Which?",
                    "answer": f"number 2{n}",
                    "context": context,
                    "supporting_facts": facts,
                }
            )
        (folder / f"{split}.json").write_text(json.dumps(items))


def babi(folder: Path) -> None:
    for task in (1, 2):
        for split in ("train", "test"):
            lines = [
                f"1 {who} {split} {task} went to the {place}.\n2 Bob slept.\n3 Where is {who}?\t{place}\t1\n"
                for who in ("Ann", "Cid", "Dan", "Eve", "Flo", "Gus", "Ida", "Jon")
                for place in ("park", "sea")
            ]
            (folder / f"qa{task}_where_{split}.txt").write_text("".join(lines))


def trec(folder: Path) -> None:
    for split in ("train", "dev", "test"):
        asked = (
            f"{kind} {word} {split} {n} ?" for n in range(4) for kind, word in (("HUM:ind", "Who"), ("LOC:x", "Where"))
        )
        (folder / f"{split}.txt").write_text("\n".join(asked) + "\n")


def glue(folder: Path) -> None:
    for split in ("train", "dev", "test"):
        lines = (f"a {split} film {n}\tit is {split} {n}\t{n % 2}" for n in range(8))
        (folder / f"{split}.tsv").write_text("sentence1\tsentence2\tlabel\n" + "\n".join(lines) + "\n")


def conllu(folder: Path) -> None:
    for split in ("train", "dev", "test"):
        lines = []
        for n in range(8):
            words = f"A long sentence of the {split} set with the number {n} was written".split()
            lines += [f"# newdoc id = {split}-{n // 4}"] if n % 4 == 0 else []
            lines += [f"{at}\t{word}\t_\tX\t_\t_\t{at - 1}\tdep\t_\t_" for at, word in enumerate(words, start=1)]
            lines += [""]
        (folder / f"{split}.conllu").write_text("\n".join(lines) + "\n")


def edge_jsonl(folder: Path) -> None:
    for split in ("train", "dev", "test"):
        rows = [
            {
                "text": f"A long sentence of the {split} set with the number {n} was written",
                "info": {"doc": f"{split}-{n // 4}"},
                "targets": [{"span1": [0, 1], "label": "x" if n % 2 else "y"}],
            }
            for n in range(8)
        ]
        (folder / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


@dataclass(frozen=True)
class Data:
    """One kind of data: how its files are made, in which views it can be shown, and what is learned from it."""

    make: Callable[[Path], None] | None
    task: str
    views: tuple[View, ...] = (View(),)
    units: tuple[str, ...] = ("sentence",)
    asks: bool = True
    probed: str | None = None


CUTS = (View(), View(setting="support"), View(max_words=30), View(max_words=45, seed=1))
STORY_VIEWS = (View(), View(babi="classification"), View(tasks=(1,)))
DATA = {
    "squad": Data(squad, "squad", units=("sentence", "document"), probed="sup"),
    "hotpot": Data(hotpot, "hotpot", CUTS, probed="sup"),
    "babi": Data(babi, "babi", STORY_VIEWS, probed="sup"),
    "stories": Data(None, "babi", (View(), View(tasks=(1,))), probed="sup"),
    "trec": Data(trec, "classify", probed="ques"),
    "glue": Data(glue, "classify"),
    "conllu": Data(conllu, "pos", units=("sentence", "document", "window:30"), asks=False, probed="pos"),
    "edge_jsonl": Data(edge_jsonl, "pos", units=("sentence", "document", "window:30"), asks=False, probed="edges"),
}
SHOWN = [
    pytest.param(name, trained, asked, id=f"{name}-{n}-asked-{m}")
    for name, data in DATA.items()
    for n, trained in enumerate(data.views)
    for m, asked in enumerate(data.views)
]


@pytest.fixture
def source(tmp_path: Path) -> Callable[[str], str]:
    """Kind of data -> the path of a small set of it, with three splits."""

    def make(name: str) -> str:
        if DATA[name].make is None:
            return name
        folder = tmp_path / name
        folder.mkdir()
        DATA[name].make(folder)
        return str(folder)

    return make


@pytest.fixture
def tuned(tmp_path: Path, model_folder) -> Callable[..., str]:
    """A folder as `lamina finetune` writes it, without any training."""

    def make(texts: Corpus, view: View | None = None, **about: Any) -> str:
        folder = tmp_path / "tuned"
        shutil.copytree(model_folder("bert"), folder)
        said = {"format": 1, "guard": GUARD, "view": view and view.describe(), **about}
        (folder / ABOUT).write_text(json.dumps(said))
        (folder / TEXTS).write_text("".join(f"{text_hash(text)}\n" for text in texts))
        return str(folder)

    return make


def shown(name: str, data: str, split: str, view: View, unit: str = "sentence") -> Corpus:
    few = {"first": 40} if name == STORIES else {}
    if unit == "sentence" and DATA[name].asks:
        return load_questions(data, split, view=view, **few)
    return load_corpus(data, split, view=view, unit=unit, **few)


@pytest.mark.parametrize(("name", "trained", "asked"), SHOWN)
def test_a_text_is_recognised_in_every_view(name, trained, asked, source, tuned) -> None:
    data = source(name)
    learned = shown(name, data, "train", trained)
    used = used_texts(tuned(learned, trained))

    known = {text.id for text in learned}
    again = [*shown(name, data, "train", asked), *load_corpus(data, "train", view=asked)]
    there = [text for text in again if text.id in known]
    assert there
    assert all(is_among(text, used) for text in there)
    assert not any(is_among(text, used) for text in shown(name, data, "test", asked))


@pytest.mark.parametrize(
    ("name", "unit"), [(name, unit) for name, data in DATA.items() for unit in data.units if unit != "sentence"]
)
def test_a_text_is_recognised_in_a_document_or_window(name, unit, source, tuned) -> None:
    data = source(name)
    used = used_texts(tuned(shown(name, data, "train", View())))
    assert all(is_among(text, used) for text in shown(name, data, "train", View(), unit))
    assert not any(is_among(text, used) for text in shown(name, data, "test", View(), unit))


def options(view: View) -> dict[str, Any]:
    """The view as an option of a command."""
    return {"view": view}


REFUSED = "was fine-tuned on"


@pytest.mark.parametrize("command", ["phases", "token_map"])
@pytest.mark.parametrize("name", [name for name, data in DATA.items() if data.asks])
def test_questions_are_refused_whatever_the_view(name, command, source, tuned, tmp_path) -> None:
    data = source(name)
    views = DATA[name].views
    folder = tuned(shown(name, data, "train", views[-1]), views[-1])
    for view in views:
        asked = {"split": "train", "first": 40, **options(view), "device": "cpu"}
        if command == "token_map":
            asked["example"] = next(iter(load_questions(data, "train", view=view))).id
        with pytest.raises(CorpusError, match=REFUSED):
            getattr(lamina, command)(folder, data, **asked)


@pytest.mark.parametrize("name", [name for name, data in DATA.items() if data.probed])
def test_probes_neither_learn_from_nor_score_what_the_model_has_seen(name, source, tuned, tmp_path) -> None:
    data, view = source(name), DATA[name].views[-1]
    asked = {"tasks": [DATA[name].probed], "preset": "quick", "first": 40, "device": "cpu", "store": tmp_path / "s"}
    for split in ("train", "dev"):
        folder = tuned(shown(name, data, split, view))
        with pytest.raises(CorpusError, match=REFUSED):
            lamina.probe(folder, data, **asked)
        shutil.rmtree(folder)


@pytest.mark.parametrize("name", DATA)
def test_two_models_are_not_compared_on_what_one_has_seen(name, source, tuned, model_folder, tmp_path) -> None:
    data, view = source(name), DATA[name].views[-1]
    folder = tuned(shown(name, data, "train", DATA[name].views[0]), view)
    few = {"first": 40} if name == STORIES else {}
    with pytest.raises(CorpusError, match="was fine-tuned on every text"):
        lamina.diff(str(model_folder("bert")), folder, data, split="train", device="cpu", store=tmp_path / "s", **few)


@pytest.mark.parametrize("name", [name for name in DATA if name != "edge_jsonl"])
def test_a_model_is_not_tuned_further_to_be_scored_on_what_it_has_seen(name, source, tuned, tmp_path) -> None:
    data, view, task = source(name), DATA[name].views[-1], DATA[name].task
    folder = tuned(shown(name, data, "test", view))
    with pytest.raises(CorpusError, match=REFUSED):
        lamina.finetune(folder, data, task=task, max_steps=1, out=tmp_path / "out", device="cpu", first=40)
    assert not (tmp_path / "out").exists()


def test_words_of_seen_sentences_are_not_looked_at_in_whole_documents(tmp_path) -> None:
    rows = [
        {
            "text": f"Word{n} begins a long sentence that is the only one with its number",
            "info": {"doc": f"d{n // 2}"},
            "targets": [{"span1": [0, 1], "label": "x" if n % 2 else "y"}],
        }
        for n in range(80)
    ]
    path = tmp_path / "own.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    used = frozenset(text_hash(text) for text in load_corpus(path, "all", first=1))
    documents = load_corpus(path, "all", unit="document")
    found = find_words(documents, TinyEncoder(), annotation="edges", without=used)
    assert found.skipped[SEEN] == 1, "the document that the sentence is part of"


def test_pairs_are_known_by_their_questions_whichever_sentences_were_drawn(source, tuned) -> None:
    data = source("hotpot")
    pairs = load_sets("pairs", data)
    used = frozenset(text_hash(text) for text in load_questions(data, "train", view=View(setting="support")))
    assert all(is_among(pair, used) for pair in pairs.train)
    assert not any(is_among(pair, used) for pair in (*pairs.select, *pairs.scored))


def test_old_folders_are_said_to_be_unguarded_once_and_in_the_result(source, tuned, tmp_path, capsys) -> None:
    data = source("hotpot")
    folder = tuned(load_questions(data, "train"))
    about = json.loads((Path(folder) / ABOUT).read_text())
    del about["guard"]
    (Path(folder) / ABOUT).write_text(json.dumps(about))
    said = unguarded(folder)
    assert said is not None
    assert "another view" in said

    for _ in range(2):
        refuse_used(folder, load_questions(data, "test"), "hotpot")
    assert capsys.readouterr().err.count("unguarded") == 1
    result = lamina.geometry(folder, data, split="test", samples=5, twin=False, device="cpu", store=tmp_path / "s")
    assert result.provenance.model["unguarded"] == [said]


def test_a_folder_of_this_version_is_guarded(source, tuned) -> None:
    assert unguarded(tuned(load_questions(source("hotpot"), "train"))) is None
    assert provenance.guard_of("some-hub/model") == GUARD
