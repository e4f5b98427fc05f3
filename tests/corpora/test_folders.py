"""Folders of others: what is data, what lies beside it, and texts with faults."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from lamina.corpora import load_corpus
from lamina.corpora.detection import FileSelection, detect, folder_contents
from lamina.errors import CorpusError


def sentences(count: int, start: str = "") -> str:
    """Entities, one token per line."""
    return "".join(
        f"{start}The\tO\nRolling\tB-group\nStones\tI-group\nplayed\tO\nnumber{n}\tO\n\n" for n in range(count)
    )


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with data and much else."""
    files = {
        "README.md": "# Entities",
        "LICENSE": "Permission is hereby granted",
        "LICENSES/cc-by.txt": "Creative Commons",
        "train.conll": sentences(9, "Train\tO\n"),
        "dev.conll": sentences(6, "Dev\tO\n"),
        "test.conll": sentences(7, "Test\tO\n"),
        "submissions/team.conll": sentences(7, "Test\tO\n"),
        "system_outputs/other.conll": sentences(7, "Test\tO\n"),
        "docs/example.conll": sentences(2),
        "gold/test.conll": sentences(7, "Test\tO\n"),
        "lower/train.conll": sentences(9, "TRAIN\tO\n").replace("Stones", "stones").replace("group", "band"),
        "everything.conll": sentences(9, "Train\tO\n") + sentences(6, "Dev\tO\n"),
        "empty.conll": "",
    }
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(content)
    (tmp_path / "cache.pickle").write_bytes(pickle.dumps(["(S (NP x))"] * 9, protocol=0))
    (tmp_path / "cache").write_bytes(pickle.dumps(["(S (NP x))"] * 9, protocol=4))
    return tmp_path


def test_what_lies_beside_the_data_is_named_and_left_out(repository: Path) -> None:
    """Outputs of systems, documentation, copies in other folders, pickles and empty files, each with its reason."""
    form = detect(repository)
    contents = folder_contents(repository, form)
    assert form.name == "ner_columns"
    assert [path.name for path in contents.read] == ["dev.conll", "test.conll", "train.conll"]
    why = {path.relative_to(repository).as_posix(): left.why for path, left in contents.unread.items()}
    expected = {
        "submissions/team.conll": "output of a system; --include submissions",
        "system_outputs/other.conll": "output of a system; --include system_outputs",
        "docs/example.conll": "documentation",
        "LICENSES/cc-by.txt": "documentation",
        "LICENSE": "about the corpus",
        "gold/test.conll": "begins with the same texts as test.conll",
        "everything.conll": "begins with the same texts as train.conll",
        "lower/train.conll": "begins with the same texts as train.conll",
        "cache.pickle": "a pickle, which may run code",
        "cache": "a pickle, which may run code",
        "empty.conll": "it is empty",
    }
    assert all(reason in why[name] for name, reason in expected.items())
    assert [len(load_corpus(repository, split)) for split in ("train", "dev", "test")] == [9, 6, 7]
    assert "gold/test.conll" in load_corpus(repository, "dev").describe()["files_not_read"]


def test_patterns_choose_files(repository: Path) -> None:
    """By path, by name and by folder; what is included by name is read, whatever it looks like."""
    assert len(load_corpus(repository, "all", include="submissions")) == 7
    assert len(load_corpus(repository, "all", include="*.conll", exclude="gold, lower, d*.conll, *output*")) == 9 + 7
    with pytest.raises(CorpusError, match=r"holds no file in a format lamina reads.*does not match --include"):
        load_corpus(repository, "all", include="*.json")
    with pytest.raises(CorpusError, match="choose files of a folder"):
        load_corpus(repository / "dev.conll", exclude="x")
    assert FileSelection.of(None, " a , b*").exclude == ("a", "b*")


def test_folders_whose_names_are_all_alike_are_read(tmp_path: Path) -> None:
    """If all files lie in a folder called `output`, they are the data."""
    (tmp_path / "output").mkdir()
    (tmp_path / "output" / "dev.conll").write_text(sentences(3))
    assert len(load_corpus(tmp_path)) == 3


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("empty.conllu", b"", "is empty; give a file with texts"),
        ("blank.csv", b"\xef\xbb\xbf \n\n", "is empty; give a file with texts"),
        ("data.pkl", pickle.dumps([1]), "is a pickle, which may run code when it is loaded"),
        ("data.txt", pickle.dumps([1], protocol=4), "is a pickle, which may run code when it is loaded"),
    ],
)
def test_files_without_texts_say_what_they_are(tmp_path: Path, name: str, content: bytes, sentence: str) -> None:
    """One sentence, that names the file."""
    (tmp_path / name).write_bytes(content)
    with pytest.raises(CorpusError) as refused:
        load_corpus(tmp_path / name)
    assert f"{name} {sentence}" in str(refused.value)


def test_faulty_texts_are_left_out_up_to_a_share(tmp_path: Path) -> None:
    """They are counted and named; with more of them, or unasked, they are errors."""
    path = tmp_path / "reviews.tsv"
    rows = [f"This is review number {n}\t{'good' if n % 2 else 'bad'}" for n in range(99)]
    path.write_text("\n".join(["text\tlabel", *rows[:40], "too\tmany\tcells", *rows[40:]]) + "\n")
    with pytest.raises(CorpusError, match=r"reviews.tsv:42: 3 columns"):
        list(load_corpus(path, "all"))
    corpus = load_corpus(path, "all", skip_faulty=0.02)
    assert len(list(corpus)) == 99
    assert corpus.left_out() == {"texts with a fault in the file, left out (--skip-faulty)": 1}
    assert corpus.fingerprint == load_corpus(path, "all", skip_faulty=0.02).fingerprint
    with pytest.raises(CorpusError, match=r"1 of 100 texts have a fault \(1.0%\), more than --skip-faulty 0.005"):
        list(load_corpus(path, "all", skip_faulty=0.005))
    with pytest.raises(CorpusError, match="is a share of the texts"):
        list(load_corpus(path, "all", skip_faulty=1.5))
