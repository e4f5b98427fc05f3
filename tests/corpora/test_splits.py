"""Splits: told from names, or made so that they never share a text."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lamina.corpora.splits import SPLITS, SplitPart, exact_part, files_by_split, part, split_of, whole_part
from lamina.errors import CorpusError
from lamina.types import Text


@pytest.mark.parametrize(
    ("name", "split"),
    [
        ("en_ewt-ud-train.conllu", "train"),
        ("en_ewt-ud-dev.conllu", "dev"),
        ("ewt_srl_const.test.jsonl", "test"),
        ("TRAIN_FILE.TXT", "train"),
        ("TEST_FILE_FULL.TXT", "test"),
        ("valid.txt", "dev"),
        ("gap-validation.tsv", "dev"),
        ("streusle.ud_dev.conllulex", "dev"),
        ("eng.testa", "dev"),
        ("eng.testb", "test"),
        ("contest.txt", None),
        ("retraining.txt", None),
        ("wsj_0001.mrg", None),
    ],
)
def test_names_tell_splits(name: str, split: str | None) -> None:
    assert split_of(name) == split


def test_folders_tell_splits_where_files_do_not(tmp_path: Path) -> None:
    root = tmp_path / "test"
    files = [root / "train" / "a.mrg", root / "development" / "wsj" / "b.mrg", root / "c.mrg"]

    assert files_by_split(root, files) == {"train": (files[0],), "dev": (files[1],), None: (files[2],)}


def test_lists_of_documents_tell_splits(tmp_path: Path) -> None:
    (tmp_path / "splits").mkdir()
    (tmp_path / "splits" / "train.txt").write_text("one\ntwo\n")
    (tmp_path / "splits" / "dev.txt").write_text("three\n")
    files = [tmp_path / f"{name}.conllu" for name in ("one", "two", "three")]

    assert files_by_split(tmp_path, files) == {"train": tuple(files[:2]), "dev": (files[2],)}


def test_development_beside_validation_is_for_training(tmp_path: Path) -> None:
    files = [tmp_path / f"gap-{name}.tsv" for name in ("development", "test", "validation")]

    assert files_by_split(tmp_path, files) == {"train": (files[0],), "test": (files[1],), "dev": (files[2],)}
    assert files_by_split(tmp_path, files[:2]) == {"dev": (files[0],), "test": (files[1],)}


GIVEN = st.sampled_from([{None}, {"train"}, {"train", "dev"}, {"train", "test"}, {"train", "dev", "test"}])


@given(GIVEN, st.integers(0, 5), st.lists(st.text(min_size=1, max_size=4), min_size=1, max_size=40, unique=True))
def test_what_is_cut_falls_into_one_split_only(given: set[str | None], seed: int, names: list[str]) -> None:
    pool = "train" if "train" in given else None
    texts = [Text(name, ("w",)) for name in names]

    parts = [part(given, split, seed) for split in SPLITS]

    cut = [one for one in parts if pool in one.sources]
    for text in texts:
        assert sum(one.holds(text) for one in cut) == 1


def test_sentences_of_a_document_stay_together() -> None:
    parts = [part({None}, split, seed=0) for split in SPLITS]
    for number in range(50):
        kept = [[one.holds(Text(f"s{at}", ("w",), doc=f"d{number}")) for one in parts] for at in (1, 2)]
        assert kept[0] == kept[1]


def test_shares_are_as_said() -> None:
    texts = [Text(str(number), ("w",)) for number in range(4000)]

    def share(given: set[str | None], split: str) -> float:
        return sum(map(part(given, split, seed=0).holds, texts)) / len(texts)

    assert [share({None}, split) for split in SPLITS] == pytest.approx([0.8, 0.1, 0.1], abs=0.02)
    assert share({"train", "test"}, "dev") == pytest.approx(0.15, abs=0.02)
    assert share({"train", "test"}, "train") == pytest.approx(0.85, abs=0.02)


def test_another_seed_makes_another_split() -> None:
    texts = [Text(str(number), ("w",)) for number in range(200)]
    first, again, other = (part({None}, "dev", seed) for seed in (0, 0, 1))

    chosen = [text.id for text in texts if first.holds(text)]
    assert chosen == [text.id for text in texts if again.holds(text)]
    assert chosen != [text.id for text in texts if other.holds(text)]


def test_what_is_scored_is_never_cut() -> None:
    with pytest.raises(CorpusError, match=r"no train here, only dev and test.*--split dev"):
        part({"dev", "test"}, "train", seed=0)
    with pytest.raises(CorpusError, match="only test"):
        part({"test"}, "dev", seed=0)


def test_all_is_everything() -> None:
    assert part({"test", "train", None}, "all", seed=0).sources == ("train", "test", None)


def test_files_without_a_split_are_not_left_out_in_silence() -> None:
    assert part({"dev", None}, "dev", seed=0).note == "files that say no split are left out"


def test_an_unknown_split_is_refused() -> None:
    with pytest.raises(CorpusError, match="use train, dev, test or all"):
        part({None}, "validation", seed=0)


@given(st.sets(st.text(min_size=1, max_size=5), min_size=6, max_size=20), st.integers(0, 5))
def test_exact_splits_take_every_document_once(documents: set[str], seed: int) -> None:
    sizes = {"train": len(documents) - 4, "dev": 1, "test": 3}
    texts = [Text(document, ("w",), doc=document) for document in documents]
    parts = [exact_part(documents, sizes, split, seed) for split in SPLITS]

    found = [[text.id for text in texts if one.holds(text)] for one in parts]

    assert [len(ids) for ids in found] == [sizes[split] for split in SPLITS]
    assert sorted(id for ids in found for id in ids) == sorted(documents)
    assert parts[2].note == f"test is 3 of the {len(documents)} documents of the corpus, by hash with seed {seed}"


def test_exact_splits_of_another_file_are_refused() -> None:
    with pytest.raises(CorpusError, match="2 documents, not 3"):
        exact_part(["a", "b"], {"train": 1, "dev": 1, "test": 1}, "dev", 0)
    with pytest.raises(CorpusError, match="unknown split"):
        exact_part(["a"], {"train": 1, "dev": 0, "test": 0}, "valid", 0)


def test_of_a_complete_corpus_no_split_is_made() -> None:
    given = {"train", "dev"}
    assert whole_part(given, "train") == SplitPart(("train",))
    assert whole_part(given, "all") == SplitPart(("train", "dev"))
    with pytest.raises(CorpusError, match="there is no test here, only train and dev; ask for --split dev"):
        whole_part(given, "test")
