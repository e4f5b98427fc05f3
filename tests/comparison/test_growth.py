"""Growth: planted onsets are found and covered, null series have none, and the audit finds planted faults alone."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForMaskedLM, AutoTokenizer

import lamina
from lamina.comparison.trajectories import (
    SETTLING,
    Measurement,
    Quantity,
    bottom_up,
    grown,
    halfway,
    orders,
    position,
)
from lamina.corpora import Splits, corpus_from
from lamina.errors import InputError, ModelError
from lamina.testing import TinyEncoder
from lamina.types import Edge, Span, Text
from tests.language_models import save, tiny_masked

STEPS = (0, 10, 20, 40, 80, 160)


def simulated(truth, rng, *, units=60, samples=300, noise=0.25, chance=np.nan):
    """Shares of units that are right at every step, and their bootstrap draws: the same units at all steps."""
    easy = rng.normal(0, noise / 2, (units, 1))
    values = np.asarray(truth)[None] + easy + rng.normal(0, noise, (units, len(truth)))
    weights = rng.multinomial(units, np.full(units, 1 / units), samples) / units
    return Measurement(values.mean(0), weights @ values, units)


def planted(onset, name="task", layer=None, size=0.3, chance=np.nan):
    truth = [0.2 + size * (number >= onset) for number in range(len(STEPS))]
    return Quantity("planted", name, layer, "accuracy", True, chance, 0.02), truth


def test_intervals_of_onsets_cover_planted_ones_and_are_never_narrower_than_two_checkpoints():
    rng = np.random.default_rng(0)
    covered, tried = 0, 60
    for trial in range(tried):
        first = 1 + trial % 5
        quantity, truth = planted(first)
        (found,) = grown("s", "all", STEPS, {quantity: simulated(truth, rng)})
        row = found.onset
        assert row.low <= STEPS[STEPS.index(int(row.onset)) - 1]
        assert row.high >= row.onset
        covered += row.low < STEPS[first] <= row.high
    assert covered >= 0.9 * tried


def test_a_null_series_has_no_onset():
    rng = np.random.default_rng(1)
    begun = 0
    for _ in range(60):
        training = {}
        for layer in range(4):
            quantity, truth = planted(99, layer=layer)
            training[quantity] = simulated(truth, rng)
        begun += any(np.isfinite(found.onset.onset) for found in grown("s", "all", STEPS, training))
    assert begun <= 6


def test_an_ability_below_chance_does_not_begin():
    quantity, truth = planted(2, size=0.2, chance=0.5)
    (found,) = grown("s", "all", STEPS, {quantity: simulated(truth, np.random.default_rng(2))})
    assert np.isnan(found.onset.onset)
    assert found.onset.reason


def test_orders_are_shares_of_draws_and_halves_are_tested():
    rng = np.random.default_rng(3)
    early, late = planted(1, "early"), planted(4, "late")
    found = grown("s", "all", STEPS, {quantity: simulated(truth, rng) for quantity, truth in (early, late)})
    (row,) = orders(found)
    assert (row.task_a, row.task_b) == ("early", "late")
    assert row.earlier > 0.9
    assert row.earlier + row.same + row.later == pytest.approx(1)
    # From the middle of 0 and 10 to that of 40 and 80, in doublings of 1 + step.
    assert row.difference == pytest.approx(np.log2(1 + 57) - np.log2(1 + 2.3), abs=0.8)
    assert row.p_adjusted < 0.05


def test_half_way_is_by_the_logarithm_of_steps():
    place, step = halfway(np.array([0.0, 0.0, 1.0]), position([0, 3, 15]))
    assert (2**place - 1, step) == (pytest.approx(7), 2)


def test_layers_that_settle_bottom_up_are_told():
    rng = np.random.default_rng(4)
    training = {}
    for layer in range(5):
        truth = 1 / (1 + np.exp(2 * (layer + 0.5 - np.arange(len(STEPS)))))
        training[Quantity(SETTLING, "similarity", layer, "CKA", False, np.nan, 0.02)] = simulated(
            truth, rng, units=20, noise=0.05
        )
    upward = bottom_up(grown("s", "all", STEPS, training))
    assert upward is not None
    assert (upward.first, upward.last) == (0, 4)
    assert upward.test.estimate > 0.9
    assert upward.test.p < 0.05


# Encoders whose labels become readable at known layers and steps.

LABELS, NOUNS = ("A", "B", "C", "D"), ("dog", "cat", "fox", "cow")


class PlantedEncoder(TinyEncoder):
    """States of noise that follows from text and word; from a layer and for learned labels on, they have the label."""

    def __init__(self, learned: bool, layer: int = 1) -> None:
        super().__init__()
        self.learned, self.layer = learned, layer
        self.name = "planted"

    @property
    def fingerprint(self) -> str:
        return hashlib.sha256(f"planted in words {self.learned} {self.layer}".encode()).hexdigest()

    def encode(self, texts, want=("states",), **settings):
        listed = {text.id: text for text in texts}
        for activations in super().encode(listed.values(), want, **settings):
            assert activations.states is not None
            text = listed[activations.text]
            draw = torch.Generator().manual_seed(int(hashlib.sha256(text.words[0].encode()).hexdigest()[:8], 16))
            states = torch.randn(activations.states.shape, generator=draw)
            for token, word in enumerate(activations.tokens.words.tolist()):
                if self.learned and word >= 0:
                    states[token, self.layer :, : len(LABELS)] = 0.0
                    states[token, self.layer :, LABELS.index(label_of(text, word))] = 6.0
            yield replace(activations, states=states.to(activations.states.dtype))


def label_of(text: Text, word: int) -> str:
    return LABELS[int(hashlib.sha256(f"{text.words[0]} {word}".encode()).hexdigest(), 16) % len(LABELS)]


def labelled(split: str, count: int):
    texts = []
    for number in range(count):
        text = Text(
            f"{split}-{number}", tuple(f"{noun}{split}{number}" for noun in NOUNS), doc=f"{split}-{number // 2}"
        )
        edges = tuple(Edge((label_of(text, word),), Span(word, word + 1)) for word in range(4))
        texts.append(replace(text, edges={"pos": edges}))
    return corpus_from(texts, name="planted", split=split)


@pytest.fixture(scope="module")
def growth():
    encoders = {f"step{step}": PlantedEncoder(step >= 40) for step in (0, 10, 20, 40, 80)}
    splits = Splits(labelled("train", 120), labelled("dev", 60))
    return lamina.grow(
        encoders,
        data=splits,
        ask=["probe"],
        options=["probe.tasks=pos", "probe.probes=layer", "probe.seeds=1"],
        samples=100,
        device="cpu",
    )


def test_planted_labels_begin_at_their_layers_and_steps(growth):
    onsets = growth.tables["onsets"]
    probed = onsets[(onsets["analysis"] == "probe") & onsets["layer"].notna()].set_index("layer")
    assert 0 not in probed.index or np.isnan(probed.loc[0, "onset"])
    for layer in (1, 2):
        assert probed.loc[layer, "onset"] == 40
        # Lower where the last bits decide that a probe on noise had not converged: then it may be in the interval.
        assert probed.loc[layer, "low"] <= 20
        assert probed.loc[layer, "high"] >= 40
    assert growth.tables["audit"]["verdict"].eq("ok").all()
    begins = re.compile(r"begins after step (0|10|20) and by step 40\b")
    assert any(begins.search(finding.text) for finding in growth.findings)


def test_growth_is_as_the_analysis_says_at_each_step(growth):
    splits = Splits(labelled("train", 120), labelled("dev", 60))
    alone = lamina.probe(
        PlantedEncoder(True), splits, tasks=["pos"], probes=["layer"], seeds=1, samples=100, twin=False, device="cpu"
    )
    scores = alone.tables["scores"]
    rows = scores[(scores["probe"] == "layer") & (scores["metric"] == "f1") & (scores["of"] == "model")]
    expected = rows[rows["seed"] == "all"].set_index("layer")["value"]
    table = growth.tables["growth"]
    at_end = table[(table["step"] == 80) & (table["analysis"] == "probe") & table["layer"].notna()]
    measured = at_end.set_index("layer")["value"]
    # Saved predictions keep rounded probabilities.
    assert measured.loc[[1, 2]].tolist() == pytest.approx(expected.loc[[1, 2]].tolist(), abs=0.005)


def test_growth_is_drawn(growth):
    from lamina.figures.growth import draw

    charts = draw(growth)
    assert {"onsets", "surface", "curves"} <= charts.keys()
    assert all(chart.to_dict() for chart in charts.values())


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"ask": ["nothing"]}, "there is no analysis 'nothing'"),
        ({"ask": ["look"]}, "cannot be followed"),
        ({"ask": ["probe"], "options": ["pairs.limit=3"]}, "not among what is asked"),
        ({"ask": ["probe"], "options": ["probe.colour=red"]}, "has no option 'colour'"),
        ({"ask": ["probe"], "steps": ["step10"]}, "write CHECKPOINT=STEP"),
    ],
)
def test_wrong_requests_say_what_to_do(settings, words):
    encoders = {f"step{step}": PlantedEncoder(False) for step in (0, 10)}
    with pytest.raises(InputError, match=words):
        lamina.grow(encoders, data=labelled("dev", 4), **settings)


def test_a_step_that_no_name_says_has_to_be_given():
    encoders = {"step10": PlantedEncoder(False), "final": PlantedEncoder(True)}
    with pytest.raises(InputError, match="say it with --step final=STEP"):
        lamina.grow(encoders, data=labelled("dev", 4), ask=["geometry"])


def test_one_checkpoint_is_no_series(tmp_path, model_folder):
    shutil.copytree(model_folder("bert"), tmp_path / "step10")
    with pytest.raises(ModelError, match="a series has at least two"):
        lamina.grow(tmp_path, data=labelled("dev", 4), ask=["geometry"])


def test_checkpoints_that_cannot_be_asked_are_marked_and_the_others_go_on(tmp_path, model_folder):
    weights = load_file(model_folder("bert") / "model.safetensors")
    torch.manual_seed(0)
    for step in (10, 20, 40, 80):
        weights = {key: value + 0.02 * torch.randn_like(value) for key, value in weights.items()}
        shutil.copytree(model_folder("bert"), tmp_path / f"step{step}")
        save_file(weights, tmp_path / f"step{step}" / "model.safetensors", metadata={"format": "pt"})
    (tmp_path / "step20" / "model.safetensors").write_bytes(b"no weights")
    result = lamina.grow(tmp_path, data=labelled("dev", 8), ask=["geometry"], samples=20, device="cpu")
    verdicts = result.tables["audit"].set_index("checkpoint")["verdict"]
    assert verdicts["step20"] == "unreadable"
    assert verdicts.drop("step20").eq("ok").all()
    assert set(result.tables["growth"]["step"]) == {0, 10, 40, 80}
    assert "step20" in result.findings[0].text
    assert pd.notna(result.tables["growth"]["value"]).all()


# Minimal pairs by step, beside a loop of our own.

PAIRS = [(f"The {noun} runs .", f"The {noun} run .") for noun in ("dog", "cat", "fox", "lazy dog", "quick fox")]


@pytest.fixture(scope="module")
def speaking(tmp_path_factory):
    """Tiny masked language models as two checkpoints."""
    home = tmp_path_factory.mktemp("speaking")
    for step, seed in ((10, 3), (40, 11)):
        save(tiny_masked(seed), home / f"step{step}")
    return home


def pseudo_log_likelihood(model, tokenizer, sentence):
    ids = tokenizer(sentence, return_tensors="pt")["input_ids"][0]
    special = set(tokenizer.all_special_ids)
    total = 0.0
    for place in range(len(ids)):
        if int(ids[place]) in special:
            continue
        masked = ids.clone()
        masked[place] = tokenizer.mask_token_id
        with torch.no_grad():
            logits = model(input_ids=masked[None]).logits[0, place]
        total += float(logits.log_softmax(0)[ids[place]])
    return total


def test_minimal_pairs_by_step_agree_with_a_loop_of_our_own(speaking, tmp_path):
    suite = tmp_path / "pairs.tsv"
    suite.write_text("good\tbad\n" + "".join(f"{good}\t{bad}\n" for good, bad in PAIRS), encoding="utf-8")
    result = lamina.grow(
        speaking, data=labelled("dev", 8), ask=["pairs"], options=[f"pairs.suite={suite}"], samples=20, device="cpu"
    )
    growth = result.tables["growth"]
    for step in (10, 40):
        model = AutoModelForMaskedLM.from_pretrained(speaking / f"step{step}").eval()
        tokenizer = AutoTokenizer.from_pretrained(speaking / f"step{step}")
        right = [
            pseudo_log_likelihood(model, tokenizer, good) > pseudo_log_likelihood(model, tokenizer, bad)
            for good, bad in PAIRS
        ]
        rows = growth[(growth["analysis"] == "pairs") & (growth["step"] == step)]
        assert rows["value"].iloc[0] == pytest.approx(np.mean(right))
    assert result.tables["audit"]["loss"].notna().all()


# Faults planted in real checkpoints: all of them are found, and none is invented.

CHECKPOINTS = ("seed0-step300", "seed0-step1000", "seed0-step3000", "seed0", "seed1")


def growing(data_dir, home, taken=None):
    """Links to the checkpoints; `taken`: name -> the checkpoint whose files it gets."""
    for name in CHECKPOINTS:
        source = data_dir / "growing_bert" / (taken or {}).get(name, name)
        (home / name).mkdir(parents=True)
        for path in source.iterdir():
            (home / name / path.name).symlink_to(path)
    return home


def rewrite(folder, change):
    path = folder / "model.safetensors"
    weights = load_file(path)
    path.unlink()
    save_file(change(weights), path, metadata={"format": "pt"})


def verdicts(folder):
    faults = lamina.load_series(folder, {"seed0": 11490, "seed1": 10045}).faults
    return {
        name: {fault.kind for fault in faults if fault.checkpoint == name} for name in {f.checkpoint for f in faults}
    }


def noisy(weights, size=1.0):
    torch.manual_seed(0)
    return {
        key: (value + size * value.float().std() * torch.randn(value.shape)).half() for key, value in weights.items()
    }


def test_faults_planted_in_the_growing_bert_are_found_and_none_is_invented(data_dir, tmp_path):
    assert verdicts(growing(data_dir, tmp_path / "sound")) == {}
    swapped = growing(
        data_dir, tmp_path / "swap", {"seed0-step1000": "seed0-step3000", "seed0-step3000": "seed0-step1000"}
    )
    assert {"seed0-step1000", "seed0-step3000"} <= {
        name for name, kinds in verdicts(swapped).items() if "order" in kinds
    }
    twice = growing(data_dir, tmp_path / "twice", {"seed0-step3000": "seed0"})
    assert any("duplicate" in kinds for kinds in verdicts(twice).values())
    other = growing(data_dir, tmp_path / "other", {"seed0-step3000": "seed1"})
    assert "path" in verdicts(other)["seed0-step3000"]
    changed = growing(data_dir, tmp_path / "changed")
    rewrite(changed / "seed0-step1000", noisy)
    assert "seed0-step1000" in verdicts(changed)
    for step in ("seed0-step1000", "seed0-step3000"):
        less = growing(data_dir, tmp_path / f"half-{step}")
        rewrite(less / step, partial(noisy, size=0.5))
        assert verdicts(less) == {step: {"distance"}}
    words = growing(data_dir, tmp_path / "words")
    content = json.loads((words / "seed1" / "tokenizer.json").read_text(encoding="utf-8"))
    content["model"]["vocab"]["zyzzyva"] = content["model"]["vocab"].pop("the")
    (words / "seed1" / "tokenizer.json").unlink()
    (words / "seed1" / "tokenizer.json").write_text(json.dumps(content), encoding="utf-8")
    assert verdicts(words) == {"seed1": {"tokenizer"}}
