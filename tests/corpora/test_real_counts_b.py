"""The real corpora have the counts that their SOURCE.txt states."""

from __future__ import annotations

from collections import Counter

import pytest

from lamina import assets
from lamina.corpora.formats import streusle, uds
from lamina.corpora.formats.lines import read_plain
from lamina.corpora.formats.marked_pairs import read_gap, read_semeval
from lamina.corpora.formats.uds import read_jsonl
from lamina.types import Text


def _count(texts) -> Counter[str]:
    counts: Counter[str] = Counter()
    for text in texts:
        counts["texts"] += 1
        counts["words"] += len(text.words)
        for name, edges in text.edges.items():
            counts[name] += len(edges)
            counts[f"{name} labelled"] += sum(bool(edge.labels) for edge in edges)
    return counts


@pytest.fixture(scope="module")
def graphs() -> dict[str, list[Text]]:
    """Dev and test as the reader gives them."""
    root = assets.locate("ewt")
    (dev,), (test,) = (root.rglob(f"uds-ewt-sentences-{split}-normalized.json") for split in ("dev", "test"))
    return {"dev": list(uds.read_graphs(dev)), "test": list(uds.read_graphs(test))}


@pytest.mark.real
@pytest.mark.parametrize(
    ("split", "texts", "spr", "supersense"),
    [("dev", 2002, 751, 1850), ("test", 2077, 670, 1793)],
)
def test_uds_graphs(graphs, split, texts, spr, supersense):
    counts = _count(graphs[split])
    assert (counts["texts"], counts["spr"], counts["supersense labelled"]) == (texts, spr, supersense)
    assert counts["pos"] == counts["dep"] == counts["words"]


@pytest.mark.real
@pytest.mark.data
def test_uds_graphs_agree_with_the_joined_files(data_dir, graphs):
    by_id = {text.id: text for text in graphs["dev"]}
    for joined in read_jsonl(data_dir / "uds_protoroles" / "protoroles.dev.jsonl"):
        ours = [(edge.span, edge.labels, edge.rated) for edge in by_id[joined.id].edges["spr"]]
        assert Counter(ours) == Counter((edge.span, edge.labels, edge.rated) for edge in joined.edges["spr"])


@pytest.mark.data
@pytest.mark.parametrize(("split", "texts", "edges"), [("train", 2191, 5669), ("dev", 291, 751), ("test", 276, 670)])
def test_uds_protoroles(data_dir, split, texts, edges):
    found = list(read_jsonl(data_dir / "uds_protoroles" / f"protoroles.{split}.jsonl"))
    assert (len(found), _count(found)["spr"]) == (texts, edges)
    assert len({name for text in found for edge in text.edges["spr"] for name in edge.rated}) == 18


@pytest.mark.data
@pytest.mark.parametrize(
    ("split", "texts", "nouns", "predicates"),
    [("train", 5103, 8548, 11440), ("dev", 1358, 1850, 2646), ("test", 1328, 1793, 2548)],
)
def test_uds_wordsense_factuality(data_dir, split, texts, nouns, predicates):
    counts = _count(read_jsonl(data_dir / "uds_wordsense_factuality" / f"uds.{split}.jsonl"))
    assert (counts["texts"], counts["supersense"], counts["factuality"]) == (texts, nouns, predicates)


@pytest.mark.data
def test_streusle(data_dir):
    folder = data_dir / "streusle"
    counts = {split: _count(streusle.read(folder / f"supersenses.{split}.jsonl")) for split in ("train", "dev", "test")}
    assert [counts[split]["texts"] for split in counts] == [2304, 498, 474]
    assert counts["train"]["supersense_prep"] == counts["train"]["supersense_prep_function"] == 3418
    assert _count(streusle.read(folder / "streusle.ud_test.conllulex"))["texts"] == 535


@pytest.mark.data
def test_streusle_records_agree_with_conllulex(data_dir):
    whole = {text.id: text for text in streusle.read(data_dir / "streusle" / "streusle.ud_dev.conllulex")}
    assert len(whole) == 554
    labels = 0
    for text in streusle.read(data_dir / "streusle" / "supersenses.dev.jsonl"):
        for name, edges in text.edges.items():
            assert set(edges) <= set(whole[text.id].edges[name])
            labels += len(edges) if name != "supersense_prep_function" else 0
    # SOURCE.txt counts 1,799, with the labels outside the inventories (`??`, opaque possessives), which we leave out.
    assert labels == 1791


@pytest.mark.data
@pytest.mark.parametrize(("split", "texts"), [("development", 2000), ("test", 2000), ("validation", 454)])
def test_gap(data_dir, split, texts):
    counts = _count(read_gap(data_dir / "gap_coreference" / f"gap-{split}.tsv"))
    assert (counts["texts"], counts["coref"]) == (texts, 2 * texts)


@pytest.mark.data
@pytest.mark.parametrize(("file", "texts"), [("TRAIN_FILE.TXT", 8000), ("TEST_FILE_FULL.TXT", 2717)])
def test_semeval(data_dir, file, texts):
    found = list(read_semeval(data_dir / "semeval2010_task8" / file))
    assert (len(found), _count(found)["rel"]) == (texts, texts)
    assert len({edge.labels for text in found for edge in text.edges["rel"]}) == 19


@pytest.mark.data
@pytest.mark.parametrize(
    ("split", "lines", "tokens", "articles"), [("valid", 2461, 213886, 60), ("test", 2891, 241211, 62)]
)
def test_wikitext(data_dir, split, lines, tokens, articles):
    """Headings count as lines and tokens; no end-of-line token does."""
    found = list(read_plain(data_dir / "wikitext2" / f"{split}.txt"))
    assert (len(found), _count(found)["words"]) == (lines, tokens)
    assert len({text.doc for text in found}) == articles
