"""Corpora that lamina does not fetch: read by name from the folder that LAMINA_DATA names."""

from __future__ import annotations

from pathlib import Path

import pytest

from lamina.corpora import load_corpus
from lamina.corpora.loading import known_splits
from lamina.errors import AssetError

SST = "sentence\tlabel\n" + "".join(f"film {n} is good\t1\nfilm {n} is bad\t0\n" for n in range(20))
MRPC = "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\n" + "".join(
    f"{n % 2}\t{n}\t{n + 100}\tIt is {n} .\tThey say {n} .\n" for n in range(40)
)
FILES = {
    "sst2/train.tsv": SST,
    "sst2/dev.tsv": "sentence\tlabel\nfine\t1\n",
    "sst2/test.tsv": "index\tsentence\n0\tunlabelled\n",
    "mrpc/msr_paraphrase_train.txt": MRPC,
    "mrpc/msr_paraphrase_test.txt": MRPC.replace("It is", "It was"),
    "coarsewsd/mole/train.data.txt": "".join(f"1\ta mole {n}\n" for n in range(40)),
    "coarsewsd/mole/train.gold.txt": "0\n" * 40,
    "coarsewsd/mole/test.data.txt": "0\tmole rats\n",
    "coarsewsd/mole/test.gold.txt": "1\n",
    "coarsewsd/mole/classes_map.txt": '{"0": "mole_mole_(animal)", "1": "mole_mole_(unit)"}',
}


@pytest.fixture
def brought(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAMINA_DATA", str(tmp_path))
    for name, content in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content, encoding="utf-8")


@pytest.mark.usefixtures("brought")
@pytest.mark.parametrize(
    ("name", "splits", "scored", "annotation"),
    [
        # GLUE's test has no labels: dev is what is scored, and nothing is made of train.
        ("sst2", ("train", "dev"), ("dev", 1), "label"),
        ("mrpc", ("train", "dev", "test"), ("test", 40), "label"),
        ("coarsewsd", ("train", "dev", "test"), ("test", 1), "sense"),
    ],
)
def test_a_name_finds_the_readers_copy(name: str, splits: tuple[str, ...], scored: tuple[str, int], annotation: str):
    assert known_splits(name) == splits
    corpus = load_corpus(name, scored[0])
    assert (len(corpus), corpus.made_split) == (scored[1], None)
    assert corpus.annotations == (annotation,)
    assert all(text.edges[annotation] for text in corpus)


@pytest.mark.parametrize("name", ["sst2", "mrpc", "coarsewsd"])
def test_without_a_copy_the_message_says_what_to_bring(
    name: str, tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAMINA_DATA", str(tmp_path))
    with pytest.raises(
        AssetError, match=rf"{name} is not on this machine .*LAMINA_DATA to a folder that holds {name}/"
    ):
        load_corpus(name)
