"""Description length: blocks, bits, references, intervals, and a code that was stopped."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as nps
from scipy.special import log_softmax
from scipy.stats import bernoulli, t

import lamina
from lamina import Edge, Span, Text, corpus_from
from lamina.activations import extract
from lamina.analyses.layers.probe import description_length as mdl
from lamina.analyses.layers.probe.planning import TaskSource, TrainingAmounts, plan_run
from lamina.analyses.layers.probe.training import ProbeSetup, ProbeStates
from lamina.corpora.loading import load_splits
from lamina.corpora.splits import Splits
from lamina.files.checking import load_tensors
from lamina.models import Encoder
from lamina.probes import bank
from lamina.probes.bank import LearningRecord, Schedule
from lamina.probes.streams import ProbeTargets, Stream
from lamina.stats import ENOUGH_SEEDS, Units, interval
from lamina.tasks import Task
from lamina.testing import TinyEncoder

SHORT = Schedule(1e-2, validate_every=10, max_validations=6, halve_after=1, stop_after=2, batch_texts=8, hidden=16)
HASTY = replace(SHORT, validate_every=3, max_validations=3)
"""Where it does not matter what probes learn."""
COLUMNS = (
    "model,task,of,layer,seed,targets,code,codelength,low,high,uniform,prior,compression,compression_low,"
    "compression_high,compression_prior,compression_prior_low,compression_prior_high,by_probe,probe_only,converged,"
    "p_beaten,among_best"
)


class Coded(NamedTuple):
    """A code, what was coded, and where it is kept."""

    table: pd.DataFrame
    setup: ProbeSetup
    task: Task
    kept: Path

    def rows(self, of: str = "model", seed: str = "all") -> pd.DataFrame:
        return self.table[(self.table["of"] == of) & (self.table["seed"] == seed)].reset_index(drop=True)


Coder = Callable[..., Coded]


@pytest.fixture
def code(splits: Splits, tmp_path: Path) -> Coder:
    """Codes a task's labels; by default those of the toy corpus on a tiny encoder."""

    def code(task: str | Task = "pos", texts: Splits = splits, *, twin: bool = False, **asked: Any) -> Coded:
        encoder = asked.pop("encoder", None) or TinyEncoder(blocks=1)
        amounts = TrainingAmounts(seeds=asked.pop("seeds", 1), schedule=asked.pop("schedule", SHORT))
        settings: dict[str, Any] = {"probes": ["layer"], "preset": "quick", "metric": None, "seed": 0, "device": "cpu"}
        settings |= {"faithful": asked.pop("faithful", False)}
        (found,), setup, _ = plan_run(encoder.layers, TaskSource(texts, (task,)), amounts=amounts, **settings)

        def states(encoder: Encoder) -> ProbeStates:
            train, scored = (extract(encoder, each, root=tmp_path / "store") for each in (texts.train, texts.scored))
            return ProbeStates(train, scored, encoder.layers, encoder.width, encoder.fingerprint)

        beside = states(encoder.random_twin(0)) if twin else None
        rows = mdl.online_code(found, setup, states(encoder), beside, "tiny", tmp_path, samples=200)
        table = pd.DataFrame(rows, columns=list(mdl.CodeLength._fields))
        return Coded(table, setup, found, tmp_path / f"{found.name}.bits.safetensors")

    return code


def labelled(gold: list[list[int]], rated: list[list[int]] | None = None) -> ProbeTargets:
    """Targets of which only the labels matter."""
    held = np.array(gold, bool)
    count, labels = held.shape
    asked = np.ones_like(held) if rated is None else np.array(rated, bool)
    spans = np.zeros((count, 1, 2), np.int64)
    names = tuple(f"label {number}" for number in range(labels))
    none = np.zeros((count, 0), bool)
    return ProbeTargets(names, np.arange(count), spans, spans, held, asked, asked, none, count)


@given(st.integers(1, 100_000))
def test_blocks_cover_all_texts_and_none_is_empty(texts: int) -> None:
    ends = mdl.block_ends(texts)

    assert ends[-1] == texts
    assert all(0 < start < end for start, end in pairwise([*ends, texts + 1]))


def test_blocks_end_at_the_fractions_of_the_literature() -> None:
    assert mdl.block_ends(10_000) == [10, 20, 40, 80, 160, 320, 625, 1250, 2500, 5000, 10_000]


def test_base_rates_by_hand_where_a_target_has_one_label() -> None:
    # Blocks: A A | A B | C. Counts before the second: A 2; before the third: A 3, B 1; each plus a half.
    targets = labelled([[1, 0, 0], [1, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]])
    expected = [1 / 3, 1 / 3, 2.5 / 3.5, 0.5 / 3.5, 0.5 / 5.5]

    bits = mdl.prior_bits(targets, "categorical", np.array([0, 0, 1, 1, 2]))

    assert bits == pytest.approx(-np.log2(expected))
    assert mdl.uniform_bits(targets, "categorical").sum() == pytest.approx(5 * np.log2(3))


def test_base_rates_by_hand_where_labels_are_rated_one_by_one() -> None:
    # The second target was not asked about the second label: it costs nothing, and counts for nothing.
    targets = labelled([[1, 0], [1, 0], [0, 1]], rated=[[1, 1], [1, 0], [1, 1]])
    third = -np.log2(1 - 2.5 / 3) - np.log2(0.5 / 2)

    bits = mdl.prior_bits(targets, "binary", np.array([0, 0, 1]))

    assert bits == pytest.approx([2, 1, third])
    assert mdl.uniform_bits(targets, "binary").tolist() == [2, 1, 2]


def test_what_a_probe_tells_costs_its_negative_logarithm() -> None:
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(2, 3, 4)).astype(np.float32)
    single = labelled([[0, 1, 0, 0], [1, 0, 0, 0], [0, 0, 0, 1], [0, 0, 1, 0]])
    rows = np.array([3, 0, 1])
    categorical = mdl.probe_bits(torch.from_numpy(logits), single, rows, "categorical")
    told = log_softmax(logits.astype(float), axis=-1)
    assert categorical == pytest.approx(-np.stack([told[:, 0, 2], told[:, 1, 1], told[:, 2, 0]], 1) / np.log(2))

    rated = [[1, 1, 0, 1], [1, 1, 1, 1], [0, 0, 0, 0], [1, 0, 0, 0]]
    several = labelled([[0, 1, 0, 1], [0, 0, 0, 0], [0, 0, 0, 0], [1, 0, 0, 0]], rated)
    binary = mdl.probe_bits(torch.from_numpy(logits), several, np.array([0, 1, 2]), "binary")
    each = -bernoulli.logpmf(several.gold[:3].astype(int), 1 / (1 + np.exp(-logits.astype(float)))) / np.log(2)
    assert binary == pytest.approx((each * np.array(rated)[:3]).sum(-1))
    assert (binary[:, 2] == 0).all(), "nothing was asked"


def test_even_a_probe_that_is_sure_and_wrong_pays_a_finite_number_of_bits() -> None:
    logits = torch.tensor([[[1e4, -1e4]]])
    wrong = labelled([[0, 1]])

    for code in ("categorical", "binary"):
        bits = mdl.probe_bits(logits, wrong, np.array([0]), code)
        assert np.isfinite(bits).all()
        assert bits.min() > 1e4


BITS = nps.arrays(float, (2, 3, 12), elements=st.floats(0.001, 1e4))


@given(BITS, nps.arrays(float, 12, elements=st.floats(0.001, 1e4)))
def test_no_code_is_longer_than_the_shorter_one_by_more_than_a_bit_per_block(probe, prior) -> None:
    ends = mdl.block_ends(12)
    probe[..., : ends[0]] = prior[: ends[0]]

    bits, by_probe = mdl.shorter_bits(probe, prior, ends)

    blocks = len(ends) - 1
    for other in (probe, np.broadcast_to(prior, probe.shape)):
        assert (bits.sum(-1) <= other.sum(-1) + blocks + 1e-6).all()
    best = np.minimum(np.add.reduceat(probe, [0, *ends[:-1]], -1), np.add.reduceat(prior, [0, *ends[:-1]]))
    assert bits.sum(-1) == pytest.approx(best.sum(-1) + blocks)
    assert not by_probe[..., : ends[0]].any()


def test_intervals_hold_the_true_compression_about_as_often_as_they_say() -> None:
    # Texts of different length and difficulty; a target costs 4 bits in the first block, 4 / 2 in the second, 4 / 3 ...
    rng = np.random.default_rng(0)
    ends = mdl.block_ends(120)
    cost = 4 / (1 + np.repeat(np.arange(len(ends)), np.diff([0, *ends])))
    truth = 4 * 120 / cost.sum()
    held = []
    for number in range(300):
        targets = rng.geometric(1 / 15, 120)
        bits = targets * cost * rng.gamma(4, 1 / 4, 120)
        units = Units.of([f"t{text}" for text in range(120)], "text")
        drawn = mdl.ResampledLengths(units, targets.astype(float), samples=200, seed=number)
        low, high = interval(drawn.lengths(4.0 * targets) / drawn.lengths(bits))
        held.append(low <= truth <= high)

    assert 0.91 < np.mean(held) < 0.99


def test_documents_are_resampled_and_a_code_is_of_as_many_targets() -> None:
    # REVIEW: a multinomial bootstrap of texts. Texts of a document cost the same: 10 documents of 12 texts.
    rng = np.random.default_rng(3)
    targets = np.full(120, 5.0)
    bits = targets * np.repeat(rng.gamma(4, 1, 10), 12)
    by_text, by_document = (
        Units.of(names, kind)
        for names, kind in (([f"t{n}" for n in range(120)], "text"), ([f"d{n // 12}" for n in range(120)], "document"))
    )
    widths = []
    for units in (by_text, by_document):
        drawn = mdl.ResampledLengths(units, targets, samples=1000, seed=0)
        # What every target costs alike does not vary with how many are drawn.
        assert drawn.lengths(2 * targets) == pytest.approx(np.full(1000, 1200.0))
        low, high = interval(drawn.lengths(bits))
        widths.append(high - low)
    assert widths[1] > 3 * widths[0]


def test_labels_that_follow_from_the_words_are_compressed(code: Coder) -> None:
    coded = code()

    assert ",".join(coded.table.columns) == COLUMNS
    texts = len(coded.setup.division.learn)
    # Every text has six words with four tags.
    assert (coded.table["targets"] == 6 * texts).all()
    assert (coded.table["code"] == "categorical").all()
    assert coded.table["uniform"].to_numpy() == pytest.approx(6 * texts * 2)
    assert (coded.rows()["compression_prior"] > 2).all()
    assert (coded.rows()["by_probe"] > 0.8).all()


def test_the_columns_of_a_row_fit_together(code: Coder) -> None:
    coded = code(twin=True, seeds=2, schedule=HASTY)
    table = coded.table

    shape = table.groupby("of", sort=False)["seed"].apply(lambda seeds: list(dict.fromkeys(seeds)))
    assert shape.to_dict() == {"model": ["0", "1", "all"], "control": ["0", "all"], "random": ["0", "all"]}
    assert table["compression"].to_numpy() == pytest.approx((table["uniform"] / table["codelength"]).to_numpy())
    assert table["compression_prior"].to_numpy() == pytest.approx((table["prior"] / table["codelength"]).to_numpy())
    for name, value in (("", "codelength"), ("compression_",) * 2, ("compression_prior_",) * 2):
        assert (table[f"{name}low"] <= table[value.rstrip("_")]).all()
        assert (table[value.rstrip("_")] <= table[f"{name}high"]).all()
    for column in ("codelength", "probe_only", "by_probe", "converged"):
        mean = np.mean([coded.rows(seed=seed)[column] for seed in ("0", "1")], axis=0)
        assert coded.rows()[column].to_numpy() == pytest.approx(mean)
    assert table["converged"].between(0, 1).all()
    # Text by text, the bits of the probes are kept; their sum is what the probes cost.
    bits = load_tensors(coded.kept)[0]["bits/model"].numpy()
    assert bits.sum(-1)[0] == pytest.approx(coded.rows(seed="0")["probe_only"].to_numpy())
    assert (bits > 0).all()


def random_words(number: int, split: str) -> Text:
    """Words of their own, with tags drawn at random: nothing to learn but how often each tag is drawn."""
    rng = Random(f"{split} {number}")
    words = tuple("".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=6)) for _ in range(8))
    tags = rng.choices(("A", "B", "C"), weights=(6, 3, 1), k=8)
    edges = tuple(Edge((tag,), Span(at, at + 1)) for at, tag in enumerate(tags))
    return Text(f"{split}-{number}", words, edges={"pos": edges}, doc=f"{split}-{number}")


def test_random_labels_cost_what_base_rates_say(code: Coder) -> None:
    parts = [[random_words(number, split) for number in range(count)] for split, count in (("train", 80), ("dev", 5))]
    train, scored = (corpus_from(texts, name="random", split=each.id[:3]) for texts in parts for each in texts[:1])
    coded = code(texts=Splits(train, scored))

    blocks = len(mdl.block_ends(len(coded.setup.division.learn))) - 1
    rows = coded.rows()
    assert (rows["codelength"] <= rows["prior"] + blocks + 1e-6).all()
    assert (rows["codelength"] > 0.95 * rows["prior"]).all()
    # 1.3 bits of entropy, learned in a few blocks, against the 1.58 of three labels.
    assert rows["compression"].between(1, 1.25).all()


def test_a_code_of_several_labels_asks_only_what_was_rated(code: Coder) -> None:
    def rated(number: int, split: str) -> Text:
        rng = Random(f"{split} {number}")
        words = tuple(rng.choice(("dog", "stone", "runs", "falls")) for _ in range(5))
        edges = []
        for at, word in enumerate(words):
            holds = tuple(name for name, those in (("alive", ("dog",)), ("moves", ("runs", "falls"))) if word in those)
            asked = ("alive", "moves") if at % 2 else ("alive",)
            edges.append(Edge(tuple(set(holds) & set(asked)), Span(at, at + 1), rated=asked))
        return Text(f"{split}-{number}", words, edges={"traits": tuple(edges)}, doc=f"{split}-{number}")

    train, scored = (
        corpus_from([rated(number, split) for number in range(count)], name="traits", split=split)
        for split, count in (("train", 60), ("dev", 5))
    )
    coded = code(Task("traits", "Traits", "traits", 1), Splits(train, scored))

    texts = len(coded.setup.division.learn)
    assert (coded.table["code"] == "binary").all()
    assert (coded.table["uniform"] == 7 * texts).all(), "five words, of which two were asked about twice"
    assert (coded.rows()["compression_prior"] > 1.5).all()


def test_graded_tasks_have_no_code(code: Coder) -> None:
    def judged(number: int, split: str) -> Text:
        edges = (Edge((), Span(0, 1), value=number / 7),)
        return Text(f"{split}-{number}", ("so", split, "is"), edges={"factuality": edges}, doc=f"{split}-{number}")

    train, scored = (
        corpus_from([judged(number, split) for number in range(20)], name="judged", split=split)
        for split in ("train", "dev")
    )
    coded = code(Task("factuality", "Factuality", "factuality", 1, graded=True), Splits(train, scored))

    assert coded.table.empty
    assert not coded.kept.exists()


@pytest.mark.parametrize("faithful", [False, True])
def test_layers_are_standardised_only_by_what_was_coded_before(
    faithful: bool, code: Coder, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked, sent = [], []
    look, cost = Stream.look, mdl.code_length
    monkeypatch.setattr(Stream, "look", lambda self: (looked.append(set(self.targets.text)), look(self))[1])
    monkeypatch.setattr(mdl, "code_length", lambda *args: (sent.append(set(args[1].targets.text)), cost(*args))[1])
    code(faithful=faithful, schedule=HASTY)

    # Model and control are coded in turn, by the same states.
    blocks = sent[::2]
    assert len(blocks) > 3
    assert bool(looked) != faithful
    for number, seen in enumerate(looked):
        assert seen.isdisjoint(set.union(*blocks[number:]))


def test_seeds_in_one_program_as_on_a_gpu_cost_the_same(code: Coder, monkeypatch: pytest.MonkeyPatch) -> None:
    apart = code(seeds=2, schedule=HASTY)
    apart.kept.unlink()
    monkeypatch.setattr(mdl, "programs", lambda seeds, device: [tuple(range(seeds))])

    # A stack of another size is summed in another order.
    together = code(seeds=2, schedule=HASTY)
    for column in ("codelength", "probe_only"):
        assert together.table[column].to_numpy() == pytest.approx(apart.table[column].to_numpy(), rel=0.05)


class Killed(BaseException):
    pass


def kill_after(blocks: int, patch: pytest.MonkeyPatch) -> list[str]:
    """Training fails after so many blocks; returns what was trained."""
    trained: list[str] = []
    train = mdl.train_probes

    def until(groups, schedule, *, what: str, **rest):
        if len(trained) == blocks:
            raise Killed
        trained.append(what)
        return train(groups, schedule, what=what, **rest)

    patch.setattr(mdl, "train_probes", until)
    return trained


def test_a_code_that_was_stopped_continues_with_the_same_numbers(code: Coder, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = code(schedule=HASTY)
    ends = load_tensors(whole.kept)[1]["ends"]
    whole.kept.unlink()

    with monkeypatch.context() as patch:
        kill_after(3, patch)
        with pytest.raises(Killed):
            code(schedule=HASTY)
    with monkeypatch.context() as patch:
        trained = kill_after(100, patch)
        pd.testing.assert_frame_equal(code(schedule=HASTY).table, whole.table, check_exact=True)
        assert len(trained) == len(ends) - 1 - 3
        assert code(schedule=HASTY).table.equals(whole.table)
        assert len(trained) == len(ends) - 1 - 3, "finished, so nothing is trained"
    assert [path.name for path in whole.kept.parent.glob("*.partial")] == []


def test_a_code_that_was_stopped_within_a_block_continues_its_training(
    code: Coder, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = code(schedule=HASTY)
    whole.kept.unlink()
    monkeypatch.setattr(bank, "SECONDS", 0.0)
    validated, partial = bank._StepsByBatch.losses, whole.kept.with_name("pos.bits-3.partial")

    def killed(*args):
        if partial.exists():
            raise Killed
        return validated(*args)

    with monkeypatch.context() as patch:
        patch.setattr(bank._StepsByBatch, "losses", killed)
        with pytest.raises(Killed):
            code(schedule=HASTY)
    assert partial.exists()

    pd.testing.assert_frame_equal(code(schedule=HASTY).table, whole.table, check_exact=True)
    assert not list(whole.kept.parent.glob("*.partial"))


def test_a_code_that_is_damaged_is_made_again_with_a_word(code: Coder, capsys: pytest.CaptureFixture[str]) -> None:
    whole = code(schedule=HASTY)
    content = bytearray(whole.kept.read_bytes())
    content[-5] ^= 1
    whole.kept.write_bytes(content)
    # Left by training that belongs to no code that can be used.
    (whole.kept.parent / "pos.bits-2.partial").write_bytes(content)

    pd.testing.assert_frame_equal(code(schedule=HASTY).table, whole.table, check_exact=True)

    told = capsys.readouterr().err
    assert "is damaged (its checksum does not match); the labels of pos are coded again" in told
    assert told.count("is damaged (") == 1
    assert not list(whole.kept.parent.glob("*.partial"))


def test_a_code_of_another_task_of_the_same_name_is_not_taken(code: Coder) -> None:
    code("pos", schedule=HASTY)
    coarse = Task("pos", "Noun or not", "pos", 1, normalise=noun_or_not)

    coded = code(coarse, schedule=HASTY)
    assert (coded.table["uniform"] == coded.table["targets"]).all()


def noun_or_not(label: str) -> str:
    return label if label == "NOUN" else "other"


def test_from_five_seeds_on_intervals_are_over_seeds_too(code: Coder, monkeypatch: pytest.MonkeyPatch) -> None:
    # Every target costs the same, and every text has as many, so that texts cannot move the lengths: what is left is
    # Student's t over the lengths of the seeds.
    def untrained(groups, schedule, **rest):
        none = np.zeros(2, int)
        return [LearningRecord(none, none, none, none, none == 0, none > 0, none) for _ in groups]

    def cost(probes, block, learn, here, code):
        return np.full((len(probes.cuts), len(here)), 2 - 0.02 * probes.seeds[0] ** 2)

    monkeypatch.setattr(mdl, "train_probes", untrained)
    monkeypatch.setattr(mdl, "code_length", cost)
    monkeypatch.setattr(mdl, "shorter_bits", lambda probe, prior, ends: (probe, np.ones(probe.shape, bool)))
    coded = code(seeds=ENOUGH_SEEDS, schedule=HASTY)

    own = np.array([coded.rows(seed=str(seed))["codelength"][0] for seed in range(5)])
    row, one = coded.rows().iloc[0], coded.rows(seed="0").iloc[0]
    low, high = t.interval(0.95, 4, own.mean(), own.std(ddof=1) / 5**0.5)
    assert row["codelength"] == pytest.approx(own.mean())
    # With 200 draws, the ends of an interval vary by about a tenth of its width; the first text, of two bits per
    # target, moves the sums of the others a little.
    assert (row["low"], row["high"]) == pytest.approx((low, high), abs=0.25 * (high - low))
    assert one["high"] - one["low"] < 0.01 * one["codelength"]


def test_probing_adds_the_table_when_asked(splits: Splits, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAMINA_CACHE", str(tmp_path / "cache"))
    asked: dict[str, Any] = {"tasks": ["pos"], "probes": ["layer"], "seeds": 1, "twin": False, "schedule": HASTY}
    asked |= {"samples": 50, "device": "cpu", "store": tmp_path / "store"}

    result = lamina.probe(TinyEncoder(blocks=1), splits, mdl=True, **asked)
    result.save(tmp_path / "out")

    table = pd.read_csv(tmp_path / "out" / "mdl.csv", dtype={"seed": str})
    assert ",".join(table.columns) == COLUMNS
    assert table[["of", "layer", "seed"]].drop_duplicates().shape[0] == len(table) == 2 * 2 * 2
    assert "mdl" not in lamina.probe(TinyEncoder(blocks=1), splits, **asked).tables


@pytest.mark.real
def test_memory_alone_needs_a_longer_code_than_language(code: Coder) -> None:
    encoder = lamina.load_encoder("minilm")
    coded = code("pos", load_splits("ewt", first=100), encoder=encoder, schedule=replace(SHORT, hidden=32))

    assert (coded.rows()["codelength"] < coded.rows("control")["codelength"]).all()
