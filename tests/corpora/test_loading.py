"""From a name or a path to a corpus."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from lamina.corpora import load_corpus, load_splits
from lamina.corpora.formats.catalogue import get_format
from lamina.corpora.loading import find_source, splits_of
from lamina.errors import CorpusError, FormatError

Treebank = Callable[..., str]


@pytest.fixture
def folder(tmp_path: Path, treebank: Treebank) -> Path:
    """A UD treebank as they are published."""
    root = tmp_path / "UD_Canine-Bark"
    root.mkdir()
    (root / "xx_bark-ud-train.conllu").write_text(treebank("t1", "t2", "t3", doc="d1"))
    (root / "xx_bark-ud-dev.conllu").write_text(treebank("v1", "v2", doc="d2"))
    (root / "xx_bark-ud-test.conllu").write_text(treebank("e1", doc="d3"))
    (root / "README.md").write_text("# Bark\n")
    (root / "stats.xml").write_text("<treebank/>\n")
    return root


def ids(*args: object, **more: object) -> list[str]:
    return [text.id for text in load_corpus(*args, **more)]


def test_a_folder_has_its_splits(folder: Path) -> None:
    assert ids(folder) == ["v1", "v2"]
    assert ids(folder, "train") == ["t1", "t2", "t3"]
    assert ids(folder, "all") == ["t1", "t2", "t3", "v1", "v2", "e1"]
    assert ids(folder, "all", unit="document") == ["d1", "d2", "d3"]
    assert ids(folder, "train", first=2) == ["t1", "t2"]


def test_a_corpus_says_what_it_is(folder: Path) -> None:
    corpus = load_corpus(folder, "dev", unit="window:100")

    said = corpus.describe()

    assert said["name"] == str(folder)
    assert (said["split"], said["unit"], said["scheme"]) == ("dev", "window:100", "UD, as annotated")
    assert list(said["files"]) == ["xx_bark-ud-dev.conllu"]
    assert "made_split" not in said
    assert set(corpus.annotations) == {"pos", "xpos", "dep", "sentence"}


def test_fingerprints_tell_corpora_apart(folder: Path, treebank: Treebank) -> None:
    def fingerprint(split: str = "dev", unit: str = "sentence", seed: int = 0) -> str:
        return load_corpus(folder, split, unit=unit, seed=seed).fingerprint

    first = fingerprint()
    assert first == fingerprint() == fingerprint(seed=1)
    assert len({first, fingerprint("train"), fingerprint("all"), fingerprint(unit="document")}) == 4
    (folder / "xx_bark-ud-dev.conllu").write_text(treebank("v1", "v3", doc="d2"))
    assert fingerprint() != first


def test_a_missing_dev_is_made(folder: Path, treebank: Treebank) -> None:
    (folder / "xx_bark-ud-dev.conllu").unlink()
    (folder / "xx_bark-ud-train.conllu").write_text(treebank(*(f"t{n}" for n in range(100))))

    dev, train = load_corpus(folder, "dev"), load_corpus(folder, "train")

    assert dev.made_split == "dev is 15 % of the documents of the given train, by hash with seed 0"
    assert {text.id for text in dev} | {text.id for text in train} == {f"t{n}" for n in range(100)}
    assert len(dev) + len(train) == 100
    assert load_corpus(folder, "dev", seed=1).fingerprint != dev.fingerprint
    assert load_corpus(folder, "test").made_split is None


def test_a_lone_file_is_the_split_its_name_says(folder: Path) -> None:
    path = folder / "xx_bark-ud-dev.conllu"

    assert ids(path) == ids(path, "all") == ["v1", "v2"]
    with pytest.raises(CorpusError, match=r"ud-dev.conllu: there is no train here, only dev"):
        load_corpus(path, "train")
    assert splits_of(find_source(path)) == ("dev",)


def test_a_lone_file_without_a_split_is_cut(tmp_path: Path, treebank: Treebank) -> None:
    path = tmp_path / "own.conllu"
    path.write_text(treebank(*(f"s{n}" for n in range(200))))

    sizes = [len(load_corpus(path, split)) for split in ("train", "dev", "test")]

    assert sum(sizes) == 200
    assert sizes[0] > 130
    assert splits_of(find_source(path)) == ("train", "dev", "test")


def test_too_small_to_be_cut(tmp_path: Path, treebank: Treebank) -> None:
    path = tmp_path / "own.conllu"
    path.write_text(treebank("s1", doc="one"))

    with pytest.raises(CorpusError, match=r"too small to have a test .*--split all"):
        load_corpus(path, "test")
    assert ids(path, "all") == ["s1"]


def test_doubled_ids_are_numbered(tmp_path: Path, treebank: Treebank) -> None:
    path = tmp_path / "own.conllu"
    path.write_text(treebank("s", "s"))

    assert ids(path, "all") == ["s", "s#2"]


def test_what_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(CorpusError, match=r"file or folder not found: nowhere/dev\.conllu"):
        load_corpus("nowhere/dev.conllu")
    with pytest.raises(CorpusError, match=r"did you mean ud_english_ewt.*`lamina data list`"):
        load_corpus("ud_english_etw")
    with pytest.raises(CorpusError, match=r"unknown corpus 'zzzzzz'.*`lamina data list`"):
        load_corpus("zzzzzz")


def test_a_slow_format_is_parsed_once(folder: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slow = get_format("conllu")._replace(slow=True)
    monkeypatch.setattr("lamina.corpora.loading.detect", lambda *_: slow)
    first = list(load_corpus(folder))

    unread = slow._replace(read=lambda path: pytest.fail(f"{path} is parsed again"))
    monkeypatch.setattr("lamina.corpora.loading.detect", lambda *_: unread)

    assert list(load_corpus(folder)) == first
    newer = slow._replace(version=slow.version + 1)
    monkeypatch.setattr("lamina.corpora.loading.detect", lambda *_: newer)
    assert list(load_corpus(folder)) == first
    assert len(list((cache / "parsed").iterdir())) == 2


def test_a_folder_without_a_file_of_the_format(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match="holds no conllu file"):
        load_corpus(tmp_path, format="conllu")


def test_what_cannot_be_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: Path) -> str:
        raise PermissionError("Permission denied")

    monkeypatch.setattr("lamina.corpora.loading.sha256_of", refuse)
    with pytest.raises(CorpusError, match="cannot be read: Permission denied"):
        load_corpus(folder)


def test_what_is_empty(tmp_path: Path) -> None:
    path = tmp_path / "empty.conllu"
    path.touch()
    with pytest.raises(CorpusError, match="is empty"):
        load_corpus(path, "all", format="conllu")
    (tmp_path / "void").mkdir()
    with pytest.raises(CorpusError, match="holds no file in a format lamina reads"):
        load_corpus(tmp_path / "void")


def test_wrong_asks_are_refused_before_reading(folder: Path) -> None:
    with pytest.raises(CorpusError, match="unknown unit"):
        load_corpus(folder, unit="paragraph")
    with pytest.raises(CorpusError, match="unknown split"):
        load_corpus(folder, "validate")
    with pytest.raises(CorpusError, match="did you mean conllu"):
        load_corpus(folder, format="conlu")
    with pytest.raises(CorpusError, match="at least 1 text"):
        load_corpus(folder, limit=0)


def test_a_fault_is_said_with_its_line(tmp_path: Path, treebank: Treebank) -> None:
    path = tmp_path / "own.conllu"
    path.write_text(treebank("s1") + "1\tDogs\tdog\n\n")

    with pytest.raises(FormatError, match=r"own.conllu:5: "):
        list(load_corpus(path, "all"))


def test_the_targets_of_edge_jsonl_can_be_named(tmp_path: Path) -> None:
    line = '{"text": "Dogs bark", "targets": [{"span1": [0, 1], "label": "X"}]}\n'
    (tmp_path / "mine-train.jsonl").write_text(line * 9, encoding="utf-8")
    (tmp_path / "mine-dev.jsonl").write_text(line, encoding="utf-8")

    plain, named = (load_corpus(tmp_path, "dev", annotation=name) for name in (None, "size"))
    splits = load_splits(tmp_path, annotation="size")

    assert (plain.annotations, named.annotations) == (("edges",), ("size",))
    assert plain.fingerprint != named.fingerprint == splits.scored.fingerprint
    assert splits.train.annotations == ("size",)


@pytest.mark.parametrize(
    ("corpus", "asked", "said"),
    [
        ("stories", "mine", "stories has 3 annotations .question, answer, sup., so which is to be named 'mine'"),
        ("x.conllu", "mine", "say it as --annotation pos=mine"),
        ("x.conllu", "pos", "'pos' is one of them already; leave --annotation out"),
        ("x.conllu", "pos=dep", "has an annotation 'dep' already"),
        ("x.conllu", "upos=mine", "no annotation 'upos'; it has pos, xpos, dep"),
        ("x.conllu", "pos=,", "cannot be read; give one NAME, or OLD=NEW"),
        ("x.txt", "mine", "no annotation that could be named 'mine'"),
    ],
)
def test_a_name_for_annotations_is_clear(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, treebank: Treebank, corpus: str, asked: str, said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("x.conllu").write_text(treebank("s1"))
    Path("x.txt").write_text("Dogs bark .\n")
    with pytest.raises(CorpusError, match=f"(?i){said}"):
        list(load_corpus(corpus, "all" if corpus != "stories" else "dev", annotation=asked))


def test_annotations_are_renamed(tmp_path: Path, treebank: Treebank) -> None:
    path = tmp_path / "x.conllu"
    path.write_text(treebank("s1"))
    plain, named = (load_corpus(path, "all", annotation=each) for each in (None, "pos=tag, dep=arc"))

    assert plain.annotations == ("pos", "xpos", "dep")
    assert named.annotations == ("tag", "xpos", "arc")
    assert [text.edges["tag"] for text in named] == [text.edges["pos"] for text in plain]
    assert named.fingerprint != plain.fingerprint


def test_an_empty_file_of_a_split_is_that_split_and_not_made_up_from_another(tmp_path: Path):
    line = '{"text": "Dogs bark", "targets": [{"span1": [0, 1], "label": "NOUN"}], "info": {"document_id": "%d"}}'
    (tmp_path / "pos.train.jsonl").write_text("\n".join(line % n for n in range(9)) + "\n", encoding="utf-8")
    (tmp_path / "pos.dev.jsonl").write_text("", encoding="utf-8")
    assert len(load_corpus(tmp_path, split="train")) > 0
    with pytest.raises(CorpusError, match="dev"):
        list(load_corpus(tmp_path, split="dev"))
