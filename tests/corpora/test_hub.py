"""Datasets of the Hugging Face hub: names, splits, revisions and refusals. The hub is a folder here."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from lamina.corpora import load_corpus
from lamina.corpora.loading import HubName, hub_files, parse_hub_name
from lamina.errors import CorpusError

datasets = pytest.importorskip("datasets")
COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture(autouse=True)
def forget() -> Iterator[None]:
    hub_files.cache_clear()
    yield
    hub_files.cache_clear()


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of Parquet files that is served as `own/pets`; kept below its commit, as `datasets` does."""
    monkeypatch.setenv("HF_DATASETS_OFFLINE", "1")
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "served"
    (folder / "data").mkdir(parents=True)
    features = {"text": datasets.Value("string"), "label": datasets.ClassLabel(names=["dog", "cat"])}
    datasets.disable_progress_bars()
    for split, count in {"train": 4, "validation": 2, "unsupervised": 2}.items():
        rows = {"text": [f"{split} number {at}" for at in range(count)], "label": [at % 2 for at in range(count)]}
        table = datasets.Dataset.from_dict(rows, features=datasets.Features(features))
        table.to_parquet(folder / "data" / f"{split}-00000-of-00001.parquet")
    load = datasets.load_dataset

    def served(repo: str, config: str | None = None, *, revision: str | None = None):
        assert (repo, config, revision) == ("own/pets", None, None)
        return load(str(folder), cache_dir=str(tmp_path / "kept" / COMMIT))

    monkeypatch.setattr(datasets, "load_dataset", served)
    yield folder
    datasets.enable_progress_bars()


def test_splits_classes_and_revision_come_with_a_dataset(hub: Path) -> None:
    corpus = load_corpus("hf:own/pets", "dev")

    assert [text.words for text in corpus] == [("validation", "number", "0"), ("validation", "number", "1")]
    assert [text.edges["label"][0].labels for text in corpus] == [("dog",), ("cat",)]
    assert corpus.describe()["name"] == "hf:own/pets"
    assert corpus.describe()["revision"] == COMMIT
    assert len(load_corpus("hf:own/pets", "dev", format="table:text=text,pet=label")) == 2
    assert "files that say no split are left out" in str(corpus.made_split)


@pytest.mark.parametrize(
    ("said", "parts"),
    [
        ("hf:imdb", ("imdb", None, None)),
        ("hf:own/pets@v1.0", ("own/pets", None, "v1.0")),
        ("hf:own/pets:small", ("own/pets", "small", None)),
        ("hf:own/pets:a-b@refs/convert/parquet", ("own/pets", "a-b", "refs/convert/parquet")),
    ],
)
def test_names(said: str, parts: tuple[str, str | None, str | None]) -> None:
    assert parse_hub_name(said) == HubName(*parts)


@pytest.mark.parametrize("said", ["hf:", "hf:a b", "hf:a/b/c", "hf:a@", "hf:a:", "hf:a@b@c"])
def test_what_is_no_name_is_refused(said: str) -> None:
    with pytest.raises(CorpusError, match=r"write hf:OWNER/NAME"):
        load_corpus(said)


@pytest.mark.parametrize(
    ("error", "todo"),
    [
        (ConnectionError("Couldn't reach 'own/pets' on the Hub (OfflineModeIsEnabled)"), "not on this machine"),
        (datasets.exceptions.DatasetNotFoundError("Dataset 'own/pets' is a gated dataset"), r"`hf auth login`"),
        (datasets.exceptions.DatasetNotFoundError("Dataset 'own/pets' doesn't exist on the Hub"), "see https"),
        (RuntimeError("Dataset scripts are no longer supported, but found pets.py"), "runs no code of a dataset"),
        (ValueError("Config name is missing. Please pick one among: ['a', 'b']"), "hf:own/pets:CONFIG"),
    ],
    ids=["offline", "gated", "missing", "script", "config"],
)
def test_the_reason_of_the_hub_and_what_to_do(error: Exception, todo: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(datasets, "load_dataset", refuses)
    with pytest.raises(CorpusError, match=todo) as refused:
        load_corpus("hf:own/pets")
    assert str(error) in str(refused.value)


def test_a_path_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("hf:own.csv").write_text("text,label\nDogs bark,1\nCats mew,0\n")
    Path("own").mkdir()

    assert len(load_corpus("hf:own.csv", "all")) == 2
    with pytest.raises(CorpusError, match="own is also a folder here"):
        load_corpus("hf:own")
    with pytest.raises(CorpusError, match="hf:own/pets"):
        load_corpus("own/pets")
