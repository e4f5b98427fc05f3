"""From files to the three sets: GLUE's TSV, SQuAD's JSON, bAbI, stories, corpora without train or test labels."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lamina.corpora import load_corpus
from lamina.corpora.questions.question import Question
from lamina.errors import CorpusError, FormatError, TaskError
from lamina.training.objective import text_of
from lamina.training.provenance import text_hash
from lamina.training.reading import load_sets
from lamina.training.tags import class_of
from lamina.types import Span, Text


def sst(folder: Path, **files: int) -> Path:
    folder.mkdir()
    for name, count in files.items():
        labelled = name != "unlabelled"
        lines = ["sentence\tlabel" if labelled else "index\tsentence"]
        for n in range(count):
            said = f"a {name} film number {n}"
            lines.append(f"{said}\t{n % 2}" if labelled else f"{n}\t{said}")
        (folder / f"{'test' if name == 'unlabelled' else name}.tsv").write_text("\n".join(lines) + "\n")
    return folder


def squad(path: Path, articles: int = 30) -> Path:
    data = []
    for a in range(articles):
        context = f"Dog number {a} barked at noon. The cat of house {a} slept."
        qas = [
            {
                "id": f"q{a}",
                "question": "Who slept?",
                "answers": [{"text": "The cat", "answer_start": context.index("The cat")}],
            }
        ]
        data.append({"title": f"T{a}", "paragraphs": [{"context": context, "qas": qas}]})
    path.write_text(json.dumps({"version": "1.1", "data": data}))
    return path


def test_glue_files_are_read(tmp_path) -> None:
    sets = load_sets("classify", sst(tmp_path / "sst", train=20, dev=6, test=6))
    assert [len(part) for part in (sets.train, sets.select, sets.scored)] == [20, 6, 6]
    assert class_of(sets.train[1]) == "1"
    assert text_of(sets.scored[0]).words == ("a", "test", "film", "number", "0")


def test_where_test_has_no_labels_dev_is_scored(tmp_path) -> None:
    sets = load_sets("classify", sst(tmp_path / "sst", train=60, dev=6, unlabelled=6))
    assert {text_of(item).words[1] for item in sets.scored} == {"dev"}
    assert len(sets.train) + len(sets.select) == 60
    assert sets.select
    assert "test has no labels" in sets.describe()["note"]


def test_mrpc_columns_make_two_segments(tmp_path) -> None:
    path = tmp_path / "train.tsv"
    path.write_text("Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\n1\t7\t8\tDogs bark.\tA dog barked.\n")
    text = next(iter(load_corpus(path, "all")))
    assert text.segments == (Span(0, 3), Span(3, 7))
    assert text.edges["label"][0].labels == ("1",)


@pytest.mark.parametrize(("line", "said"), [("only one", "1 columns"), ("\t1", "no words"), ("x\t", "an empty label")])
def test_glue_faults_name_the_line(tmp_path, line: str, said: str) -> None:
    path = tmp_path / "train.tsv"
    path.write_text(f"sentence\tlabel\nfine\t1\n{line}\n")
    with pytest.raises(FormatError, match=rf"train\.tsv.*3.*{said}"):
        list(load_corpus(path, "all", format="glue"))


def test_questions_keep_their_raw_strings_and_articles_stay_whole(tmp_path) -> None:
    sets = load_sets("squad", squad(tmp_path / "own.json"))
    parts = (sets.train, sets.select, sets.scored)

    assert all(isinstance(item, Question) and item.answers == ("The cat",) for part in parts for item in part)
    assert sum(map(len, parts)) == 30
    docs = [{text_of(item).doc for item in part} for part in parts]
    assert docs[0].isdisjoint(docs[1] | docs[2])


def test_a_given_dev_is_scored_rather_than_a_test_made_of_train(tmp_path) -> None:
    sets = load_sets("classify", sst(tmp_path / "sst", train=60, dev=6))

    assert {text_of(item).words[1] for item in sets.scored} == {"dev"}
    assert {text_of(item).words[1] for item in (*sets.train, *sets.select)} == {"train"}
    assert len(sets.train) + len(sets.select) == 60
    assert sets.describe()["split"] == "dev"
    assert "dev is scored" in sets.describe()["note"]


def test_pairs_of_question_and_sentence_are_known_by_their_questions(tmp_path) -> None:
    path = squad(tmp_path / "own.json")
    asked, pairs = load_sets("squad", path), load_sets("pairs", path)
    first = pairs.train[:2]

    assert [class_of(item) for item in first] == ["1", "0"]
    assert " ".join(text_of(first[0]).words).startswith("Who slept ? The cat")
    assert " ".join(text_of(first[1]).words).startswith("Who slept ? Dog")
    assert {text_hash(text_of(item)) for item in pairs.train} == {text_hash(text_of(item)) for item in asked.train}


def test_stories_are_made(tmp_path) -> None:
    sets = load_sets("babi", "stories", babi_tasks=[1], limit=5)
    assert [len(part) for part in (sets.train, sets.select, sets.scored)] == [5, 5, 5]
    assert {item.task for item in sets.train if isinstance(item, Question)} == {"qa1"}
    assert class_of(load_sets("classify", "stories", babi_tasks=[1], limit=1).train[0]).isalpha()


def test_without_train_dev_is_learned_from(tmp_path) -> None:
    for name in ("dev", "test"):
        (tmp_path / f"own-{name}.txt").write_text("".join(f"The {name} number {n} .\n" for n in range(40)))
    sets = load_sets("mlm", tmp_path, format="plain")
    assert {text_of(item).words[1] for item in (*sets.train, *sets.select)} == {"dev"}
    assert {text_of(item).words[1] for item in sets.scored} == {"test"}
    assert len(sets.train) > len(sets.select) > 0


def test_data_that_is_no_questions_is_refused_for_answering(tmp_path) -> None:
    with pytest.raises(TaskError, match="glue; squad takes questions"):
        load_sets("squad", sst(tmp_path / "sst", train=20, dev=6, test=6))
    with pytest.raises(CorpusError, match="unknown corpus"):
        load_sets("squad", "squads")


def test_a_paragraph_is_known_by_itself_a_story_with_its_question() -> None:
    def asked(question: str, size: int) -> Text:
        words = (question, *(f"w{n}" for n in range(size)))
        return Text(question, words, (Span(0, 1), Span(1, len(words))))

    assert text_hash(asked("who", 80)) == text_hash(asked("why", 80))
    assert text_hash(asked("who", 5)) != text_hash(asked("why", 5))
