"""Two models on the same texts: each measure against a plain computation, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from lamina.analyses.layers.probe.probe import probe
from lamina.comparison import similarity as head_similarity
from lamina.comparison.diff import DiffRow, best_table, changed_layers, compare_probes, diff, with_test
from lamina.comparison.similarity import (
    SPECIAL_COLUMNS,
    CkaSums,
    LeaveOneOut,
    grouped,
    jackknife_draws,
    special_attention,
    word_vectors,
)
from lamina.corpora import Corpus, corpus_from
from lamina.corpora.splits import Splits
from lamina.errors import CorpusError, InputError, ModelError
from lamina.framework.verify import check_findings
from lamina.models import Encoder
from lamina.results import Provenance, Result
from lamina.stats import sign_flip_family
from lamina.testing import TinyEncoder
from lamina.training import provenance as unseen_module
from lamina.training.provenance import TEXTS, refuse_seen, text_hash, unseen
from lamina.types import Edge, Span, Text
from tests.analyses.heads.test_heads import Painted, corpus_of

WORDS = ("the", "dogs", "barked", "at", "a", "quick", "unhesitating", "fox", "and", "ran")


def texts(prefix: str, count: int) -> list[Text]:
    rng = np.random.default_rng(len(prefix) + count)
    made = []
    for number in range(count):
        words = tuple(rng.choice(WORDS, 4 + number % 5))
        edges = tuple(
            Edge((("SHORT" if len(word) < 4 else "LONG"),), Span(at, at + 1)) for at, word in enumerate(words)
        )
        made.append(Text(f"{prefix}{number}", words, edges={"pos": edges}))
    return made


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    return corpus_from(texts("scored", 24), name="animals", split="dev")


@pytest.fixture(scope="module")
def splits(corpus: Corpus) -> Splits:
    return Splits(corpus_from(texts("train", 60), name="animals", split="train"), corpus)


@pytest.fixture
def a() -> Encoder:
    return TinyEncoder()


@pytest.fixture
def b(a: Encoder) -> Encoder:
    tuned = TinyEncoder(seed=5)
    tuned.name = "tuned"
    return tuned


def rows(result: Result, measure: str) -> Any:
    table: Any = result.tables["diff"]
    return table[table["measure"] == measure].reset_index(drop=True)


def vectors(encoder: Encoder, corpus: Corpus, layer: int) -> list[torch.Tensor]:
    return [word_vectors([each], layer)[0] for each in encoder.encode(corpus)]


def test_layers_and_heads_are_what_plain_computation_says(a, b, corpus, tmp_path):
    result = diff(a, b, corpus, samples=200, store=tmp_path)

    assert ",".join(result.tables["diff"].columns) == (
        "layer,head,measure,value,low,high,baseline,difference,diff_low,diff_high,p_adjusted,units,needed,unit,seeds"
    )
    assert not check_findings(result)
    cka, cosine, heads = (rows(result, name) for name in ("cka", "cosine", "attention_similarity"))
    for layer in range(3):
        one, other, random = (vectors(each, corpus, layer) for each in (a, b, a.random_twin(0)))
        whole = [torch.cat(each) for each in (one, other, random)]
        # The store keeps half precision.
        assert cka["value"][layer] == pytest.approx(CkaSums.of(whole[0], whole[1]).cka(), abs=2e-3)
        assert cka["baseline"][layer] == pytest.approx(CkaSums.of(whole[0], whole[2]).cka(), abs=2e-3)
        same = torch.cosine_similarity(whole[0], whole[1]).mean()
        assert cosine["value"][layer] == pytest.approx(float(same), abs=2e-3)
        apart = [
            torch.cosine_similarity(one[i][:, None], other[j][None], dim=2).flatten()
            for i, j in product(range(len(one)), repeat=2)
            if i != j
        ]
        assert cosine["baseline"][layer] == pytest.approx(float(torch.cat(apart).mean()), abs=2e-3)
    maps = [[each.maps.flatten(2) for each in model.encode(corpus, ("maps",))] for model in (a, b)]
    own = torch.stack([torch.cosine_similarity(x, y, dim=2) for x, y in zip(*maps, strict=True)]).mean(0)
    crossed = torch.stack([torch.cosine_similarity(x.flip(1), y, dim=2) for x, y in zip(*maps, strict=True)]).mean(0)
    assert heads["value"].tolist() == pytest.approx(own.flatten().tolist(), abs=1e-4)
    assert heads["baseline"].tolist() == pytest.approx(crossed.flatten().tolist(), abs=1e-4)
    assert list(zip(heads["layer"], heads["head"], strict=True)) == [(1, 1), (1, 2), (2, 1), (2, 2)]
    table: Any = result.tables["diff"]
    assert (table["low"] <= table["value"]).all()
    assert (table["value"] <= table["high"]).all()
    assert cka["head"].isna().all()


def test_a_model_is_like_itself(a, corpus, tmp_path):
    table: Any = diff(a, a, corpus, samples=20, store=tmp_path).tables["diff"]
    assert table["value"].tolist() == pytest.approx([1.0] * len(table), abs=1e-5)
    assert (table["baseline"] < 0.99).all()


def test_without_twin_and_heads(a, b, corpus, tmp_path):
    result = diff(a, b, corpus, samples=20, twin=False, attention=False, store=tmp_path)
    assert set(result.tables["diff"]["measure"]) == {"cka", "cosine"}
    assert rows(result, "cka")["baseline"].isna().all()
    assert result.provenance.parameters["twin"] is False


def test_other_widths_have_no_cosine_and_other_shapes_are_refused(a, corpus, tmp_path):
    wide = diff(a, TinyEncoder(width=32), corpus, samples=20, twin=False, store=tmp_path)
    assert set(wide.tables["diff"]["measure"]) == {"cka", "attention_similarity"}
    with pytest.raises(ModelError, match="tiny has 2 blocks and tiny has 3; layers are compared one with one"):
        diff(a, TinyEncoder(blocks=3), corpus, store=tmp_path)
    with pytest.raises(ModelError, match=r"2 heads per block and tiny has 4.*--no-attention"):
        diff(a, TinyEncoder(heads=4), corpus, store=tmp_path)
    assert len(diff(a, TinyEncoder(heads=4), corpus, attention=False, samples=20, store=tmp_path).tables["diff"])


def test_a_head_alone_in_its_layer_has_no_others(corpus, tmp_path):
    heads = rows(
        diff(TinyEncoder(heads=1), TinyEncoder(heads=1, seed=2), corpus, samples=20, store=tmp_path),
        "attention_similarity",
    )
    assert heads["value"].notna().all()
    assert heads["baseline"].isna().all()


def test_other_tokens_are_not_compared_but_counted(a, b, corpus, tmp_path, monkeypatch):
    plain = b.tokenize

    def other(text: Text):
        tokens = plain(text)
        return tokens._replace(ids=tokens.ids[::-1].copy()) if text.id == "scored3" else tokens

    monkeypatch.setattr(b, "tokenize", other)
    found = diff(a, b, corpus, samples=20, twin=False, store=tmp_path)
    assert found.provenance.skipped[head_similarity.OTHER_TOKENS] == 1


def test_texts_may_come_in_any_order(a, b, corpus, monkeypatch):
    plain = head_similarity.compare_heads([(a, b)], list(corpus), samples=20, seed=0)
    forwards = b.encode

    def backwards(texts, want, *, ordered):
        assert not ordered
        return iter(list(forwards(texts, want))[::-1])

    monkeypatch.setattr(b, "encode", backwards)
    mixed = head_similarity.compare_heads([(a, b)], list(corpus), samples=20, seed=0)
    assert mixed.value == pytest.approx(plain.value, abs=1e-5)


@pytest.mark.usefixtures("hasty_probes")
def test_probes_of_both_models_on_the_same_texts(a, b, splits, tmp_path):
    settings: dict[str, Any] = {"samples": 20, "twin": False, "seeds": 1, "store": tmp_path}
    result = diff(a, b, splits, tasks=["pos"], attention=False, **settings)
    before, after, apart = (rows(result, f"probe_{which}:pos") for which in ("a", "b", "difference"))

    assert before["layer"].tolist() == after["layer"].tolist() == [0, 1, 2]
    assert apart["value"].tolist() == pytest.approx((after["value"] - before["value"]).tolist())
    assert set(apart["baseline"]) == {0.0}
    probed = tuple(probe(each, splits, tasks=["pos"], probes=["layer"], **settings) for each in (a, b))
    scores: Any = probed[1].tables["scores"]
    by_f1 = scores[scores["metric"] == "f1"]
    own = by_f1[(by_f1["probe"] == "layer") & (by_f1["of"] == "model") & (by_f1["seed"] == "all")]
    assert after["value"].tolist() == pytest.approx(own["value"].tolist())
    assert after["baseline"][0] == scores.loc[scores["probe"] == "constant", "value"].iloc[0]

    given = diff(
        a, b, splits.scored, probed=(probed[0], probed[1]), attention=False, twin=False, samples=20, store=tmp_path
    )
    assert rows(given, "probe_difference:pos")["value"].tolist() == pytest.approx(apart["value"].tolist())
    with pytest.raises(InputError, match="given for tiny is of another model, tuned"):
        diff(a, b, splits.scored, probed=(probed[1], probed[0]), attention=False, twin=False, store=tmp_path)
    with pytest.raises(InputError, match="or two probing results"):
        diff(a, b, splits, tasks=["pos"], probed=probed, store=tmp_path)
    with pytest.raises(InputError, match="of the model before and of the model after; got 1"):
        diff(a, b, splits.scored, probed=[probed[0]], store=tmp_path)
    elsewhere = replace(probed[1].provenance, corpus={"name": "other", "fingerprint": "other"})
    with pytest.raises(InputError, match="probed with different corpus"):
        diff(a, b, splits.scored, probed=(probed[0], replace(probed[1], provenance=elsewhere)), store=tmp_path)
    fewer = replace(probed[1], tables={**probed[1].tables, "scores": scores[scores["layer"].fillna(-1) != 2]})
    few: dict[str, Any] = {"samples": 20, "seed": 0}
    with pytest.raises(InputError, match=r"pos of tuned: its saved predictions do not give the scores in scores\.csv"):
        list(compare_probes((probed[0], fewer), **few))
    without = replace(probed[1], tables={**probed[1].tables, "scores": scores[scores["probe"] != "constant"]})
    assert [
        row.baseline for row in compare_probes((probed[0], without), **few) if row.measure == "probe_b:pos"
    ] == pytest.approx([np.nan] * 3, nan_ok=True)
    odd = replace(probed[1], tables={**probed[1].tables, "scores": scores.drop(columns="probe")})
    with pytest.raises(InputError, match=r"scores\.csv lacks the column probe"):
        list(compare_probes((probed[0], odd), **few))


@pytest.fixture
def tuned(tmp_path, monkeypatch, splits):
    """A model that has learned from the first five scored and the first training text."""
    folder = tmp_path / "tuned"
    folder.mkdir()
    seen = [*list(splits.scored)[:5], *list(splits.train)[:1]]
    (folder / TEXTS).write_text("\n".join(text_hash(text) for text in seen))
    monkeypatch.setattr(unseen_module, "folder_of", lambda encoder: folder if encoder.name == "tuned" else None)
    return {text_hash(text) for text in seen}


def test_texts_a_model_was_tuned_on_are_left_out(a, b, splits, tuned, tmp_path):
    kept, count = unseen(splits.scored, (a, b))
    assert count == sum(text_hash(text) in tuned for text in splits.scored) >= 5
    assert len(kept) == len(splits.scored) - count
    assert kept.fingerprint != splits.scored.fingerprint
    assert unseen(splits.scored, (a,)) == (splits.scored, 0)
    result = diff(a, b, splits, samples=20, attention=False, twin=False, store=tmp_path)
    assert result.provenance.skipped["texts that a model was fine-tuned on, left out"] == count
    assert result.provenance.corpus["fingerprint"] == kept.fingerprint
    with pytest.raises(CorpusError, match="was fine-tuned on every text of animals"):
        diff(a, b, splits.scored.take(5), store=tmp_path)


def test_probing_refuses_texts_the_model_was_tuned_on(b, splits, tuned, tmp_path):
    with pytest.raises(CorpusError, match=r"was fine-tuned on .* of the texts of animals \(train\)"):
        probe(b, splits, store=tmp_path)
    refuse_seen(TinyEncoder(), splits.scored)


def test_one_text_is_too_few(a, b, corpus, tmp_path):
    with pytest.raises(CorpusError, match="needs at least 2 texts; there are 1"):
        diff(a, b, corpus.take(1), store=tmp_path)


def test_a_difference_is_saved_and_read_back(a, b, corpus, tmp_path):
    result = diff(a, b, corpus, samples=20, store=tmp_path / "store")
    read = Result.load(result.save(tmp_path / "out", charts=False))
    assert read.key == result.key
    assert read.tables["diff"]["measure"].tolist() == result.tables["diff"]["measure"].tolist()
    assert read.tables["diff"]["head"].isna().sum() == 6


NAN = float("nan")


def made(
    layers: list[float] | None = None,
    heads: np.ndarray | None = None,
    probes: dict[str, list[tuple[float, float, float, float]]] | None = None,
    *,
    documents: int = 30,
    spread: float = 0.01,
) -> Result:
    """A result of these CKA by layer, of cosines of heads beside the others [document, head], of probes by layer."""
    rng = np.random.default_rng(0)
    best = pd.DataFrame(columns=list(diff.tables["best"].columns))
    rows: list[DiffRow] = []
    if layers is not None:
        without = np.array(layers) + rng.normal(0, spread / 19, (20, len(layers)))
        left = [LeaveOneOut(value, without[:, at]) for at, value in enumerate(layers)]
        draws = np.stack([jackknife_draws(each, samples=500, seed=0) for each in left], 1)
        tests = changed_layers(np.array(layers), draws, documents)
        rows += [
            with_test(DiffRow(at, None, "cka", value, NAN, NAN, 0.3), tests, at, "document")
            for at, value in enumerate(layers)
        ]
        best = best_table(np.array(layers), draws, documents, "document")
    if heads is not None:
        tests = sign_flip_family(heads, np.ones(len(heads)))
        rows += [
            with_test(DiffRow(1, at + 1, "attention_similarity", 0.5 + own, NAN, NAN, 0.5), tests, at, "document")
            for at, own in enumerate(tests.estimate)
        ]
    for task, own in (probes or {}).items():
        rows += [
            DiffRow(at, None, f"probe_difference:{task}", value, low, high, 0.0, value, low, high, p, 30, 0, "document")
            for at, (value, low, high, p) in enumerate(own)
        ]
    table = pd.DataFrame(rows, columns=list(DiffRow._fields)).astype({"head": "Int64"})
    result = Result("diff", {"diff": table, "best": best}, Provenance({"name": "a and b"}, {"name": "c"}, {}))
    result = replace(result, findings=diff.findings(result))
    assert not check_findings(result)
    return result


def test_findings_name_the_layers_that_can_have_changed_most():
    (found,) = made([0.99, 0.90, 0.71]).findings
    assert found.status == "clear"
    assert found.text.startswith("Layer 2 changed most: CKA before and after is .71 at layer 2, .90 at layer 1 (differ")
    (tied,) = made([0.99, 0.90, 0.71, 0.712]).findings
    assert tied.text.startswith("Layers 2 and 3 changed most: CKA before and after is .71 at layer 2, .90 at layer 1")
    (unsure,) = made([0.70, 0.705, 0.71], spread=0.1).findings
    assert (unsure.status, unsure.claim) == ("open", "fine-tuning changed one layer more than another")


def test_layers_that_did_not_change():
    (found,) = made([0.995, 0.999, 1.0], spread=0.001).findings
    assert found.status == "null"
    assert found.text.startswith("No layer changed: CKA before and after is lowest at layer 0, .995 (1 - CKA .005")
    (same,) = made([1.0, 1.0], spread=0.0).findings
    assert (same.status, same.estimate) == ("null", 0.0)


def ahead(*means: float, documents: int = 30, spread: float = 0.02) -> np.ndarray:
    return np.random.default_rng(1).normal(means, spread, (documents, len(means)))


def test_wrong_12_that_no_head_changed_its_role_needs_all_heads():
    (kept,) = made(heads=ahead(0.3, 0.2, 0.1)).findings
    assert kept.status == "clear"
    assert kept.claim.startswith("All 3 heads are more like themselves before than like the other heads of their layer")
    # One head of which that is not known is enough not to say it of all.
    (unsure,) = made(heads=ahead(0.3, 0.2, 0.002)).findings
    assert unsure.status == "open"
    assert unsure.text.startswith(
        "It is not known whether all 3 heads are more like themselves before than like the other heads of their layer "
        "(difference of head 1-3 .00"
    )
    (few,) = made(heads=ahead(0.3, 0.2, 0.1, documents=5)).findings
    assert few.status == "untested"


def test_findings_name_heads_that_changed_role():
    (one,) = made(heads=ahead(-0.2, 0.3)).findings
    assert one.text.startswith(
        "One of 2 heads changed its role: head 1-1 is more like the other heads of its layer before than like itself "
        "before, cosine .50 against .30 (difference of head 1-1 -.20 ["
    )
    (several,) = made(heads=ahead(-0.2, -0.3, 0.3)).findings
    assert several.claim.startswith("Heads 1-1 and 1-2 changed their role")


def test_findings_say_what_probes_read_better_or_worse():
    worse, same, unknown = made(
        probes={
            "pos": [(0.0, -0.05, 0.05, 1.0), (-0.1, -0.15, -0.05, 0.001)],
            "ner": [(0.01, -0.04, 0.06, 0.8)],
            "sup": [(0.001, -0.01, 0.01, 0.9)],
        }
    ).findings
    assert [each.status for each in (worse, same, unknown)] == ["clear", "null", "open"]
    assert (
        worse.text == "pos is read worse after fine-tuning at layer 1 (difference in F1 at layer 1 -.10 [-.15, -.05])."
    )
    assert unknown.text.startswith("It is not known whether ner is read as well after fine-tuning as before")
    assert same.text.startswith("sup is read as well after fine-tuning as before at all 1 layers")


def test_findings_say_nothing_without_numbers():
    assert made().findings == ()
    assert made([NAN, NAN]).findings == ()


def test_documents_are_left_out_and_resampled_whole():
    assert grouped(["a", "b", "a"]) == [[0, 2], [1]]
    many = grouped([f"d{at // 3}" for at in range(300)])
    assert len(many) == 20
    assert all(at // 3 * 3 in group and at // 3 * 3 + 2 in group for group in many for at in group)


def test_a_dry_run_counts_passes_and_probing(a, b, splits, tmp_path):
    plain = diff.estimate(a, b, splits, samples=20, store=tmp_path)
    assert (plain.passes, plain.texts, plain.steps) == (5, 24, 0)
    assert plain.seconds > 0
    assert diff.estimate(a, b, splits, samples=20, twin=False, attention=False, store=tmp_path).passes == 2
    probing = diff.estimate(a, b, splits, tasks=["pos"], seeds=1, samples=20, store=tmp_path)
    assert probing.steps > 0
    assert probing.seconds > plain.seconds
    assert not [*tmp_path.rglob("*.npy")], "a trial stores nothing"


def test_one_row_per_layer_is_shown(a, b, corpus, tmp_path):
    (shown,) = diff.overview(diff(a, b, corpus, samples=20, store=tmp_path))
    assert shown.columns == ("layer", "cka", "cosine", "attention_similarity")
    assert [row[0] for row in shown.rows] == [0, 1, 2]
    assert shown.rows[0][3] == "-"


def test_shares_of_special_tokens_before_and_after() -> None:
    texts = [Text(f"t{number}", ("a", "b", "c"), doc=f"t{number}") for number in range(20)]

    def model(to_words: float) -> Painted:
        # What words do not give each other goes to the last special token, which is the separator.
        return Painted({text.id: torch.full((2, 1, 3, 3), to_words / 3) for text in texts})

    table = special_attention([(model(0.8), model(0.2))], corpus_of(texts), weights="attention", seed=0)
    assert tuple(table.columns) == SPECIAL_COLUMNS
    separators = table[table["to"] == "separators"]
    assert (separators["difference"] > 0.3).all()
    assert (separators["p_adjusted"] < 0.01).all()
    same = special_attention([(model(0.8), model(0.8))], corpus_of(texts), weights="attention", seed=0)
    assert (same["difference"].abs() < 1e-9).all()
