"""Parser probes from maps to tables: crafted maps whose answer is known, and a tiny model on toy trees."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.torch import load_file

from lamina.analyses.heads.parse import (
    DISTANCE,
    NOBODY,
    ONLY,
    PROBES,
    RANDOM,
    RIGHT,
    WORDS,
    ParserHits,
    contrasts,
    parse,
    picked,
)
from lamina.analyses.heads.trees import gold_tree, to_sentence, word_vectors
from lamina.corpora import corpus_from
from lamina.corpora.splits import Splits
from lamina.errors import CorpusError, ModelError
from lamina.framework.verify import check_findings
from lamina.framework.watch import WatchedText
from lamina.models import SPECIAL, Activations, Tokens
from lamina.models.contract import STATES, Want
from lamina.models.static import StaticEncoder
from lamina.results import Provenance, Result
from lamina.testing import TinyEncoder
from lamina.types import Edge, Span, Text

VOCABULARY = [f"w{number}" for number in range(20)]


def tree_text(name: str) -> Text:
    """Words in a random tree, closed by a full stop."""
    rng = Random(name)
    words = (*rng.choices(VOCABULARY, k=rng.randint(3, 9)), ".")
    last = len(words) - 1
    order = rng.sample(range(last), last)
    # The first of the order is the root, which the full stop hangs on; the others hang on one before them.
    heads = [order[rng.randrange(max(1, order.index(at)))] if at < last else order[0] for at in range(last + 1)]
    labels = ["root" if head == at else "punct" if at == last else "dep" for at, head in enumerate(heads)]
    dep = tuple(
        Edge((label,), Span(at, at + 1), Span(head, head + 1))
        for at, (label, head) in enumerate(zip(labels, heads, strict=True))
    )
    return Text(name, words, edges={"dep": dep})


def toy(train: int = 150, scored: int = 30, extra: Iterable[Text] = ()) -> Splits:
    learned = [tree_text(f"train-{number}") for number in range(train)]
    held_out = [tree_text(f"dev-{number}") for number in range(scored)]
    return Splits(
        corpus_from([*learned, *extra], name="toy", split="train"), corpus_from(held_out, name="toy", split="dev")
    )


class Oracle(TinyEncoder):
    """Its second head points from each dependent at its head, from the root at the first token; others are flat."""

    def encode(
        self, texts: Iterable[Text], want: Collection[Want] = STATES, *, ordered: bool = True
    ) -> Iterator[Activations]:
        for text in texts:
            heads, tokens = gold_tree(text).heads, self.tokenize(text)
            maps = torch.full((self.blocks, self.heads, len(tokens.ids), len(tokens.ids)), 1 / len(tokens.ids))
            maps[0, 1] = 0
            for at, head in enumerate(heads):
                maps[0, 1, at + 1, head] = 1.0
            maps[0, 1, [0, -1], 0] = 1.0
            yield Activations(text.id, tokens, None, maps)

    def tokenize(self, text: Text) -> Tokens:
        words = np.r_[SPECIAL, np.arange(len(text.words)), SPECIAL].astype(np.int32)
        return Tokens(np.arange(len(words), dtype=np.int32), words)


@pytest.fixture(autouse=True)
def _own_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Trained probes are kept with the tests."""
    monkeypatch.setenv("LAMINA_STORE", str(tmp_path / "store"))


@pytest.fixture
def vectors(tmp_path: Path) -> str:
    """A file of word vectors, as a user would name it; one number is the same for all, so that a weight can be."""
    rng = np.random.default_rng(0)
    lines = [f"{word} 1 " + " ".join(f"{x:.3f}" for x in rng.normal(0, 0.3, 4)) for word in [*VOCABULARY, "."]]
    path = tmp_path / "own.txt"
    path.write_text("\n".join(lines) + "\n")
    return str(path)


def by_system(result: Result) -> Any:
    return result.tables["uas"].set_index("system")


def test_a_head_that_points_at_the_truth_is_found_and_parses_without_a_fault(vectors: str):
    result = parse(Oracle(), toy(), vectors=vectors, twin=False, samples=50)
    scores = by_system(result)
    for system in (ONLY, WORDS):
        assert scores.loc[system, ["uas", "uuas", "low", "high"]].tolist() == [1, 1, 1, 1]
    assert scores.loc["spanning tree, best head", "uuas"] == 1
    # The root has no word to point at, so one word in each sentence is missed.
    words = sum(int(gold_tree(tree_text(f"dev-{number}")).scored.sum()) for number in range(30))
    assert scores.loc["argmax, best head", "uas"] == pytest.approx(1 - 30 / words)
    chosen = result.tables["chosen"].set_index("system")
    for system in ("spanning tree, best head", "argmax, best head"):
        assert chosen.loc[system, ["layer", "head"]].tolist() == [1, 2]
    assert chosen.loc["argmax, best head", "direction"] == "dependent"
    assert chosen.loc["spanning tree, mean of heads", ["layer", "head"]].isna().all()
    weights: Any = result.tables["weights"]
    own = weights[(weights["system"] == ONLY) & (weights["direction"] == "dependent")]
    assert own.loc[own["weight"].idxmax(), ["layer", "head"]].tolist() == [1, 2]


def test_tables_have_their_columns_and_say_what_is_not_defined(vectors: str, tmp_path):
    encoder = TinyEncoder()
    result = parse(encoder, toy(40, 10), vectors=vectors, samples=50)
    table: Any = result.tables["uas"]
    assert list(table.columns) == ["system", "uas", "uuas", "low", "high"]
    systems = list(table["system"])
    assert systems[:4] == [RIGHT, ONLY, WORDS, DISTANCE]
    assert systems[-2:] == [f"{ONLY}, {RANDOM}", f"{WORDS}, {RANDOM}"]
    trees = table["system"].str.startswith("spanning tree")
    assert table.loc[trees, "uas"].isna().all()
    assert table.loc[~trees, "uas"].notna().all()
    value = table["uas"].fillna(table["uuas"])
    assert ((table["low"] <= value) & (value <= table["high"])).all()
    weights = result.tables["weights"]
    assert list(weights.columns) == ["system", "layer", "head", "direction", "weight"]
    assert len(weights) == 4 * 4 * encoder.blocks * encoder.heads
    assert set(weights["layer"]) == {1, 2}
    tensors = load_file(result.files[PROBES])
    assert tensors[f"{WORDS}/words"].shape == (2, 6, 2, 4)
    assert f"{ONLY}, {RANDOM}/root" in tensors
    kept = result.load(result.save(tmp_path / "out", charts=False))
    pd.testing.assert_frame_equal(kept.tables["chosen"], result.tables["chosen"])
    assert result.provenance.model["vectors"]["name"] == "own"


def test_right_branching_is_scored_by_hand(vectors: str):
    right = wrong = 0
    for number in range(10):
        tree = gold_tree(tree_text(f"dev-{number}"))
        hits = tree.heads[tree.scored] == np.flatnonzero(tree.scored) + 2
        right, wrong = right + int(hits.sum()), wrong + int((~hits).sum())
    scores = by_system(parse(TinyEncoder(), toy(20, 10), vectors=vectors, twin=False, samples=20))
    assert scores.loc[RIGHT, "uas"] == pytest.approx(right / (right + wrong))


def test_the_same_seed_gives_the_same_numbers_and_the_slip_moves_one_system_alone(vectors: str):
    made = [
        parse(TinyEncoder(), toy(40, 10), vectors=vectors, twin=False, samples=20, faithful=faithful)
        for faithful in (False, False, True)
    ]
    one, same, slipped = (by_system(each) for each in made)
    pd.testing.assert_frame_equal(one, same)
    pd.testing.assert_frame_equal(one.drop(WORDS), slipped.drop(WORDS))
    weights = [each.tables["weights"].query("system == @WORDS")["weight"].to_numpy() for each in made[1:]]
    assert not np.allclose(weights[0], weights[1])


def test_texts_that_are_scored_are_not_learned_from(vectors: str):
    again = [Text(f"again {each.id}", each.words, edges=each.edges) for each in map(tree_text, ("dev-0", "dev-1"))]
    plain = parse(TinyEncoder(), toy(30, 10), vectors=vectors, twin=False, samples=20)
    beside = parse(TinyEncoder(), toy(30, 10, again), vectors=vectors, twin=False, samples=20)
    skipped = beside.provenance.skipped
    assert skipped["tiny: training texts that are in the scored split too, left out"] == 2
    assert by_system(plain).loc[RIGHT].equals(by_system(beside).loc[RIGHT])


def test_words_alone_and_texts_without_trees_are_counted(vectors: str):
    lone = Text("lone", ("w1",), edges={"dep": (Edge(("root",), Span(0, 1), Span(0, 1)),)})
    bare = Text("bare", ("w1", "w2"))
    result = parse(TinyEncoder(), toy(20, 5, [lone, bare]), vectors=vectors, twin=False, samples=20)
    assert result.provenance.skipped["tiny: training texts of one word, whose only candidate is the root"] == 1
    assert result.provenance.skipped["tiny: training texts without dependencies, left out"] == 1
    assert not any("punctuation alone" in reason for reason in result.provenance.skipped)


def test_what_cannot_be_parsed_is_refused_with_the_way_out(vectors: str):
    plain = corpus_from([["a", "b"]], name="plain", split="dev")
    with pytest.raises(CorpusError, match="has no dependencies to parse; name a treebank"):
        parse(TinyEncoder(), Splits(toy().train, plain), vectors=vectors)
    with pytest.raises(ModelError, match="no token embeddings of its own"):
        parse(TinyEncoder(), toy(), vectors="model")
    headless = TinyEncoder()
    headless.heads = 0
    with pytest.raises(ModelError, match="no attention heads"):
        parse(headless, toy(), vectors=vectors)
    same = corpus_from([tree_text("dev-0")], name="toy", split="train")
    with pytest.raises(CorpusError, match="no training text is left"):
        parse(TinyEncoder(), Splits(same, toy(1, 1).scored), vectors=vectors)


# [CLS] un ##kind dogs [SEP], two heads: added up by hand.
MAPS = torch.tensor(
    [
        [0.2, 0.2, 0.2, 0.2, 0.2],
        [0.1, 0.2, 0.3, 0.3, 0.1],
        [0.3, 0.1, 0.1, 0.1, 0.4],
        [0.0, 0.25, 0.25, 0.5, 0.0],
        [1.0, 0.0, 0.0, 0.0, 0.0],
    ]
)[None, None]


@pytest.mark.parametrize(("rows", "expected"), [("mean", [[0.2, 0.25], [0, 0]]), ("first", [[0.1, 0.1], [0, 0]])])
def test_what_words_give_to_special_tokens(rows, expected: list[list[float]]):
    tokens = Tokens(np.arange(5), np.array([SPECIAL, 0, 0, 1, SPECIAL]))
    static = StaticEncoder(["unkind", "dogs"], np.eye(2, dtype=np.float32), name="own")
    made = to_sentence(WatchedText(Text("t", ("unkind", "dogs")), tokens, MAPS, rows), static, causal=False)
    torch.testing.assert_close(made.special[..., 0], torch.tensor(expected, dtype=torch.float32))
    torch.testing.assert_close(made.vectors, torch.eye(2))
    assert made.maps.shape == (2, 2, 1)


def test_a_decoder_without_separators_has_its_first_token_in_their_place():
    maps = torch.tensor([[1.0, 0.0], [0.25, 0.75]])[None, None]
    tokens = Tokens(np.arange(2), np.array([0, 1]))
    static = StaticEncoder(["a", "b"], np.eye(2, dtype=np.float32), name="own")
    made = to_sentence(WatchedText(Text("t", ("a", "b")), tokens, maps), static, causal=True)
    assert made.special[..., 0].tolist() == [[1.0, 1.0], [0.25, 0.25]]


def test_a_split_words_vector_is_the_mean_of_its_pieces():
    text = Text("t", ("abcdef", "abc"))
    encoder = TinyEncoder()
    states = next(encoder.encode([text])).states
    assert states is not None
    torch.testing.assert_close(word_vectors(encoder, text)[0], states[1:3, 0].mean(0))
    torch.testing.assert_close(word_vectors(encoder, text)[1], states[3, 0])


def test_the_picked_word_is_never_the_word_itself():
    maps = torch.tensor([[[0.9, 0.1, 0.0], [0.2, 0.5, 0.3], [0.6, 0.4, 0.0]]])
    assert picked(maps).tolist() == [[[2, 3, 1]], [[3, 3, 2]]]
    assert picked(torch.ones(1, 1, 1)).tolist() == [[[NOBODY]], [[NOBODY]]]


def test_what_a_run_takes_is_counted_and_only_the_texts_asked_for(vectors: str, tmp_path: Path):
    whole = parse.estimate(TinyEncoder(), toy(40, 5), vectors=vectors, samples=20)
    assert (whole.passes, whole.texts, whole.disk) == (2, 45, 0)
    assert whole.seconds > 0
    assert parse.estimate(TinyEncoder(), toy(40, 5), vectors=vectors, texts=10, samples=20, twin=False).texts == 15
    assert not (tmp_path / "store").exists(), "a trial keeps nothing"


def test_vectors_that_are_not_named_are_recorded_by_name(vectors: str):
    asked = parse.ask(TinyEncoder(), toy(5, 5))
    assert asked.settings["vectors"] in ("glove", "model")
    one, other = (parse.ask(TinyEncoder(), toy(5, 5), vectors=name).question for name in ("model", vectors))
    assert one != other
    Path(vectors).write_text("w1 1 2 3\n")
    assert parse.ask(TinyEncoder(), toy(5, 5), vectors=vectors).question != other, "what is in the file counts"


def compared(documents: int = 12, **systems: float) -> Result:
    """A result where systems find so many heads, in documents of 100 words; a name stands for its system."""
    names = {"only": ONLY, "words": WORDS, "distance": DISTANCE, "right": RIGHT, "random": f"{WORDS}, {RANDOM}"}
    draw = np.random.default_rng(0)
    easy = draw.normal(0, 5, documents).round()
    right = {names[name]: 100 * share + easy + draw.integers(-1, 2, documents) for name, share in systems.items()}
    table = contrasts([ParserHits(np.full(documents, 100.0), right)])
    return Result("parse", {"contrasts": table}, Provenance({"name": "m"}, {"name": "c"}, {}))


def test_findings_are_paired_by_document():
    made = compared(words=0.7, distance=0.65, only=0.34, right=0.34, random=0.72)
    found = parse.findings(made)
    assert check_findings(replace(made, findings=found)) == []
    by_claim = {finding.source[0].where["beside"]: finding for finding in found}
    # Documents differ by more than systems do: their intervals overlap, and all documents agree.
    assert by_claim[DISTANCE].status == "clear"
    assert by_claim[DISTANCE].text.startswith(
        "Attention maps and word vectors find more of the tree than distances and"
    )
    assert by_claim[RIGHT].status == "null"
    assert "find as much of the tree as taking the next word as head" in by_claim[RIGHT].text
    assert "find less of the tree than maps of random blocks" in by_claim[f"{WORDS}, {RANDOM}"].text
    (few,) = parse.findings(compared(5, words=0.7, distance=0.65))
    assert few.text.startswith(
        "5 documents are too few to test whether attention maps and word vectors find more or less"
    )


def test_findings_say_nothing_of_what_is_missing():
    assert parse.findings(compared()) == ()
    assert parse.findings(compared(words=0.4)) == ()


def test_documents_are_resampled_not_sentences(vectors: str):
    splits = toy()
    grouped = [replace(text, doc=f"d{at // 10}") for at, text in enumerate(splits.scored)]
    dev = corpus_from(grouped, name="toy", split="dev")
    result = parse(TinyEncoder(), replace(splits, scored=dev), vectors=vectors, twin=False, samples=50)
    assert set(result.tables["contrasts"]["units"]) == {3}
    assert result.provenance.corpus["resampled"] == "documents"
    assert {finding.status for finding in result.findings} == {"untested"}
    assert check_findings(result) == []
