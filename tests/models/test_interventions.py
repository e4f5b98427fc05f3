"""Parts of models ablated: the contract in every kind of architecture, what breaks it, and what cannot be done."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import lamina
from benchmarks import tiny_architectures
from benchmarks.tiny_architectures import Built
from lamina.errors import ModelError
from lamina.models.checks.passports import examine
from lamina.models.contract import apart
from lamina.models.interventions import edited_runs as resumed_runs
from lamina.models.interventions import interventions
from lamina.models.interventions.edited_runs import RESAMPLED, Edit, EditedStates, lengths_alike
from lamina.models.interventions.interventions import Interventions
from lamina.models.loading import encoder_from
from lamina.models.running.batching import InputRow
from lamina.models.running.huggingface import HuggingFaceEncoder
from lamina.testing import TinyEncoder, check_interventions
from lamina.types import Text
from tests.language_models import tiny_causal, tiny_masked

ZOO = (
    "albert", "bart", "bloom", "clip_text_model", "deberta-v2", "distilbert", "falcon", "gemma", "gpt2",
    "gpt_neox", "llama", "modernbert", "mpnet", "phi3", "qwen3", "t5",
)  # fmt: skip
"""Architectures whose heads can be told apart, each with a way of its own: shared blocks, position biases, ..."""
WORDS = ("the", "quick", "fox", "and", "the", "lazy", "dog", "barked", "at", "the", "cat")
TEXTS = [Text(str(size), WORDS[:size]) for size in (4, 11, 1, 6)]


@cache
def encoder(name: str) -> HuggingFaceEncoder:
    built = tiny_architectures.build(name)
    assert isinstance(built, Built), built
    made = encoder_from(*built, name=name)
    assert isinstance(made, HuggingFaceEncoder)
    return made


@cache
def masked() -> Interventions:
    return Interventions(tiny_masked())


def rows_of(own: HuggingFaceEncoder) -> list[InputRow]:
    return [row for at, text in enumerate(TEXTS) for row in own.rows(at, own.word_tokenizer(text))]


def ran(parts: Interventions, edits: list[Edit], **asked: object) -> dict[int | None, dict[int, torch.Tensor]]:
    """Edit -> row -> its last layer, without padding."""
    rows = rows_of(parts.encoder)
    found: dict[int | None, dict[int, torch.Tensor]] = {}
    every: list[EditedStates] = list(parts.run(rows, edits, **asked))  # pyright: ignore[reportArgumentType]
    for made in every:
        for at, row in enumerate(made.rows):
            last = made.states[parts.encoder.blocks][at, : len(rows[row].ids)]
            found.setdefault(made.edit, {})[row] = last
    return found


@pytest.mark.parametrize("name", ZOO)
def test_every_architecture_keeps_the_contract(name):
    found = check_interventions(encoder(name))
    assert found.verdict == "holds"
    assert found.message.startswith("heads of 2 of 2 blocks, whole blocks and states can be changed")
    assert found.message.endswith("blocks below a change run once")


def test_where_heads_cannot_be_told_apart_blocks_and_states_can_be_changed():
    assert (
        "not heads: their outputs are not the input of one linear layer"
        in check_interventions(encoder("xlnet")).message
    )
    with pytest.raises(ModelError, match=r"xlnet \(XLNetModel\): its heads cannot.*ablated: --component block"):
        Interventions(encoder("xlnet"))
    assert examine(encoder("xlnet")).ablatable == ("layers",)
    assert examine(encoder("bert")).ablatable == ("attention", "heads", "layers")


@pytest.mark.parametrize("name", ["bart", "t5"])
def test_the_decoder_of_an_encoder_decoder_keeps_it_too(name, tmp_path):
    built = tiny_architectures.build(name, decoder_start_token_id=2)
    assert isinstance(built, Built)
    for part in built:
        part.save_pretrained(tmp_path)
    assert check_interventions(lamina.load_encoder(f"{tmp_path}:decoder", device="cpu")).verdict == "holds"


def test_what_is_not_there_cannot_be_taken_away():
    with pytest.raises(ModelError, match="tiny is not a transformer, so it has no heads or blocks to ablate"):
        Interventions(TinyEncoder())
    with pytest.raises(ModelError, match="has no head 9-1; it has 3 layers of 2 heads, counted from 1"):
        masked().without(8, heads=[0])
    with pytest.raises(ModelError, match="has no head 1-3"):
        masked().without(0, heads=[2])
    with pytest.raises(ModelError, match=r"flaubert.*its blocks do not run one after the other"):
        Interventions(encoder("flaubert"), heads=False)
    with pytest.raises(ModelError, match="no text was given to take them from"):
        ran(masked(), [masked().without(0, heads=[0], fill=RESAMPLED)])


def too_much(handed, block, edits, clean):
    return refilled(handed, block, edits, clean) * torch.linspace(1, 0.9, handed.shape[-1])


def from_the_next_row(handed, block, edits, clean):
    return refilled(handed, block, edits, clean).roll(1, 0)


def longer(row, size):
    return row._replace(ids=np.roll(row.ids, 1))


refilled = resumed_runs.refilled
FAULTS = {
    "differ": ("refilled", too_much),
    "are not what they are alone|differ": ("refilled", from_the_next_row),
    "the output of another text does not arrive": ("as_long", longer),
}


@pytest.mark.parametrize("said", FAULTS)
def test_a_change_that_reaches_further_is_found(said, monkeypatch):
    monkeypatch.setattr(resumed_runs, *FAULTS[said])
    with pytest.raises(AssertionError, match=said):
        check_interventions(encoder("bert"))


def test_gates_that_miss_their_head_are_found(monkeypatch):
    honest = Interventions.gated
    monkeypatch.setattr(Interventions, "gated", lambda self, gates: honest(self, gates.roll(1, -1)))
    with pytest.raises(AssertionError, match="by a gate and by an edit differ"):
        check_interventions(encoder("bert"))


def edits() -> st.SearchStrategy[Edit]:
    """Any changes of a model with three blocks of two heads, together."""
    blocks, units = st.integers(0, 2), st.lists(st.booleans(), min_size=16, max_size=16)
    fills = st.sampled_from([None, RESAMPLED, torch.linspace(-1, 1, 16)])
    mixed = st.builds(lambda where, fill: interventions.HeadEdit(torch.tensor(where), fill), units, fills)
    scaled = st.sampled_from([0.5, 2.0]).map(lambda times: lambda states, _clean: states * times)
    given_over = st.integers(0, 3).map(lambda layer: (layer, lambda _states, clean: clean.donor.states[layer]))
    states = st.dictionaries(st.integers(0, 3), scaled, max_size=1) | given_over.map(lambda pair: dict([pair]))
    return st.builds(Edit, st.dictionaries(blocks, mixed, max_size=2), st.frozensets(blocks, max_size=2), states)


@settings(max_examples=15)
@given(st.lists(edits(), min_size=2, max_size=5))
def test_edits_in_one_batch_are_what_they_are_alone(several):
    parts = masked()
    donors = lengths_alike(rows_of(parts.encoder))
    together = ran(parts, several, donors=donors)
    for number, edit in enumerate(several):
        alone = ran(parts, [edit], donors=donors)
        for row, states in alone[0].items():
            assert apart(together[number][row], states) < 1e-4


def test_blocks_below_and_the_mixing_of_the_changed_block_run_once(monkeypatch):
    parts, ran_so_often = masked(), Counter()

    def counted(module: Any) -> Callable[..., Any]:
        def forward(*given: Any, own: Any = module.forward, **named: Any) -> Any:
            ran_so_often[type(module).__name__] += 1
            return own(*given, **named)

        return forward

    blocks: list[Any] = list(parts.blocks)
    for module in [part for block in blocks for part in (block.attention.self, block.intermediate)]:
        monkeypatch.setattr(module, "forward", counted(module))
    list(parts.run(rows_of(parts.encoder)[:1], [parts.without(1, heads=[0]), parts.without(1, heads=[1])]))
    # As it is: three blocks. With both changes in one batch: the second block from its projection on, and the third.
    assert ran_so_often == {"BertSelfAttention": 4, "BertIntermediate": 5}


@pytest.mark.parametrize(("make", "cut"), [(tiny_masked, True), (tiny_causal, False)])
def test_the_last_layer_is_made_where_it_is_asked_for(make, cut):
    parts = Interventions(make())
    changes = [*(parts.without(block, heads=[1]) for block in range(3)), Edit(skipped=frozenset({2}))]
    places = [np.arange(0, len(row.ids), 2) for row in rows_of(parts.encoder)]
    whole, some = ran(parts, changes), ran(parts, changes, places=places)
    for number in range(4):
        for row, asked in enumerate(places):
            assert apart(some[number][row][asked], whole[number][row][asked]) < 1e-4
    # A block that is left out, and a model whose residuals are added outside, give all tokens.
    others = np.setdiff1d(np.arange(len(some[0][1])), places[1])
    assert some[0][1][others].isnan().all() == cut
    assert not some[3][1].isnan().any()


def test_a_model_is_left_as_it_was():
    parts = masked()

    def broken(_states, _clean):
        raise RuntimeError("broken")

    before = {name: dict(module.__dict__) for name, module in parts.encoder.model.named_modules()}
    hooks = {name: len(module._forward_pre_hooks) for name, module in parts.encoder.model.named_modules()}
    with pytest.raises(RuntimeError, match="broken"):
        ran(parts, [Edit(mixed=parts.without(1, heads=[0]).mixed, states={2: broken})])
    after = dict(parts.encoder.model.named_modules())
    assert {name: set(module.__dict__) for name, module in after.items()} == {
        name: set(kept) for name, kept in before.items()
    }
    assert {name: len(module._forward_pre_hooks) for name, module in after.items()} == hooks


def test_stand_ins_are_other_texts_of_similar_length():
    sizes = np.random.default_rng(0).integers(3, 60, 100)
    rows = [
        InputRow(at, np.full(size, at), np.zeros(size), np.arange(size), slice(0), slice(0))
        for at, size in enumerate(sizes)
    ]
    found = lengths_alike(rows, seed=1)
    assert all(one.text != other.text for one, other in zip(rows, found, strict=True))
    apart_by = [abs(len(one.ids) - len(other.ids)) for one, other in zip(rows, found, strict=True)]
    assert np.mean(apart_by) < 5
    assert [each.text for each in found] == [each.text for each in lengths_alike(rows, seed=1)]
    with pytest.raises(ModelError, match="there is only one text"):
        lengths_alike(rows[:1])
