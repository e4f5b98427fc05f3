"""Every architecture: what lamina hands out is what transformers computes."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from lamina.errors import ModelError
from lamina.models.running import huggingface
from lamina.models.running.huggingface import HuggingFaceEncoder
from lamina.testing import SAMPLE_TEXTS, check_encoder
from lamina.types import Span, Text

PLAIN = SAMPLE_TEXTS[0]
WORDS = ("the", "lazy", "dogs", "barked", "at", "a", "quick", "brown", "fox", ",", "unhesitatingly", ".")
LONG = Text("long", WORDS * 6)
SPECIALS = {"gpt2": (0, 0), "llama": (1, 0)}
"""Special tokens before and after a text; one each side for all others."""
TYPED = {"bert", "electra", "albert"}
"""Models that tell segments apart."""


def run(model, **inputs):
    with torch.no_grad():
        return model(**inputs, output_hidden_states=True, output_attentions=True)


def stacked(out) -> torch.Tensor:
    return torch.stack([layer[0] for layer in out.hidden_states], dim=1)


def close(ours, theirs) -> bool:
    return bool(((ours - theirs).norm(dim=-1) <= 1e-5 * theirs.norm(dim=-1)).all())


def test_it_keeps_the_contract(architecture, tiny_encoder):
    check_encoder(tiny_encoder(architecture))


def test_limit_and_direction_are_found(architecture, tiny, tiny_encoder):
    encoder = tiny_encoder(architecture)
    assert encoder.limit == tiny(architecture).limit
    assert encoder.causal == tiny(architecture).causal
    assert (encoder.blocks, encoder.layers, encoder.heads, encoder.width) == (3, 4, 2, 16)


def test_states_and_maps_are_those_of_the_model(architecture, tiny_encoder, direct_model):
    encoder = tiny_encoder(architecture)
    inputs = encoder.tokenizer(" ".join(PLAIN.words), return_tensors="pt")
    out = run(direct_model(architecture), **inputs)
    (made,) = encoder.encode([PLAIN], ("states", "maps"))
    assert made.tokens.ids.tolist() == inputs["input_ids"][0].tolist()
    assert close(made.states, stacked(out))
    torch.testing.assert_close(made.maps, torch.stack([block[0] for block in out.attentions]))


def test_asking_for_maps_changes_neither_states_nor_fingerprint(architecture, model_folder, tiny_encoder):
    from transformers import AutoModel, AutoTokenizer

    folder = model_folder(architecture)
    fresh = HuggingFaceEncoder(
        AutoModel.from_pretrained(folder), AutoTokenizer.from_pretrained(folder), name=architecture
    )
    (before,) = fresh.encode([PLAIN])
    (during,) = fresh.encode([PLAIN], ("states", "maps"))
    (after,) = fresh.encode([PLAIN])
    assert before.maps is None
    assert during.maps is not None
    assert close(during.states, before.states)
    assert close(after.states, before.states)
    assert fresh.fingerprint == tiny_encoder(architecture).fingerprint


def test_causal_maps_look_back_only(tiny_encoder):
    for name in ("gpt2", "llama"):
        (made,) = tiny_encoder(name).encode([PLAIN], ("maps",))
        assert made.states is None
        assert torch.equal(made.maps, made.maps.tril())


def test_two_segments_are_what_the_tokenizer_makes_of_a_pair(architecture, tiny_encoder, direct_model):
    encoder = tiny_encoder(architecture)
    pair = Text("pair", ("Who", "barked", "?", "The", "dogs", "did", "."), (Span(0, 3), Span(3, 7)))
    typed = architecture in TYPED
    inputs = encoder.tokenizer("Who barked ?", "The dogs did .", return_tensors="pt", return_token_type_ids=typed)
    (made,) = encoder.encode([pair])
    assert made.tokens.ids.tolist() == inputs["input_ids"][0].tolist()
    assert close(made.states, stacked(run(direct_model(architecture), **inputs)))


def hand_made_windows(encoder, model, ids, before, after):
    """Each token from the window that gives it most context, by looking at all windows."""
    inner = len(ids) - before - after
    capacity = encoder.limit - before - after
    starts = sorted({*range(0, inner - capacity, capacity // 2), inner - capacity})
    runs = []
    for start in starts:
        chosen = [*ids[:before], *ids[before + start : before + start + capacity], *ids[len(ids) - after :]]
        chosen = chosen if after else chosen[: before + capacity]
        runs.append(stacked(run(model, input_ids=torch.tensor([chosen]))))
    states = [runs[0][i] for i in range(before)]
    for token in range(inner):
        holding = [i for i, start in enumerate(starts) if start <= token < start + capacity]
        left = {i: token - starts[i] for i in holding}
        context = left if encoder.causal else {i: min(left[i], capacity - 1 - left[i]) for i in holding}
        # Of two windows that are as good, the later.
        best = max(holding, key=lambda i: (context[i], i))
        states.append(runs[best][before + token - starts[best]])
    states += [runs[-1][len(runs[-1]) - after + i] for i in range(after)]
    return torch.stack(states), len(starts)


def test_a_long_text_is_encoded_in_windows(architecture, tiny_encoder, direct_model):
    encoder = tiny_encoder(architecture)
    ids = encoder.tokenize(LONG).ids.tolist()
    before, after = SPECIALS.get(architecture, (1, 1))
    expected, windows = hand_made_windows(encoder, direct_model(architecture), ids, before, after)
    (made,) = encoder.encode([LONG], ("states", "maps"))
    assert made.windows == windows > 1
    assert made.maps is None
    assert close(made.states, expected)


def test_a_question_is_repeated_in_every_window_of_its_context(tiny_encoder, direct_model):
    encoder = tiny_encoder("bert")
    text = Text("question", ("Who", "barked", "?", *WORDS * 3), (Span(0, 3), Span(3, 3 + 3 * len(WORDS))))
    tokens = encoder.tokenize(text)
    head = int(np.argmax(tokens.words == 3))
    last = [*tokens.ids[:head], *tokens.ids[len(tokens.ids) - (encoder.limit - head) :]]
    types = torch.tensor([[0] * head + [1] * (encoder.limit - head)])
    expected = stacked(run(direct_model("bert"), input_ids=torch.tensor([last]), token_type_ids=types))
    (made,) = encoder.encode([text])
    assert made.windows > 1
    assert close(made.states[-5:], expected[-5:])


def test_a_first_segment_beyond_the_limit_is_cut_into_windows_too(tiny_encoder):
    encoder = tiny_encoder("bert")
    text = Text("long question", WORDS * 4 + ("Who", "?"), (Span(0, 4 * len(WORDS)), Span(4 * len(WORDS), 50)))
    (made,) = encoder.encode([text])
    assert made.windows > 1
    assert made.states.shape == (len(made.tokens.ids), 4, 16)
    assert made.states.isfinite().all()


@pytest.mark.parametrize("name", ["bert", "roberta", "llama"])
def test_batching_changes_neither_order_nor_numbers(name, tiny_encoder, monkeypatch):
    base = tiny_encoder(name)
    texts = [Text(f"{n}", WORDS[: 1 + n % 12]) for n in range(20)] + [LONG, PLAIN]
    big, small = (
        HuggingFaceEncoder(base.model, base.tokenizer, name=name, tokens_per_batch=budget) for budget in (4096, 1)
    )
    expected = list(small.encode(texts))
    assert [made.text for made in expected] == [text.id for text in texts]
    loose = {made.text: made for made in big.encode(texts, ordered=False)}
    monkeypatch.setattr("lamina.models.running.batching._TOKENS_FIRST", 40)
    for made, alone in zip(big.encode(texts), expected, strict=True):
        assert made.text == alone.text
        assert close(made.states, alone.states)
        assert close(loose.pop(made.text).states, alone.states)
    assert not loose


def test_reading_ahead_heeds_the_size_of_the_maps(tiny_encoder, monkeypatch):
    encoder, run = tiny_encoder("bert"), []
    texts = [Text(f"{n}", WORDS) for n in range(50)]
    monkeypatch.setitem(huggingface._LOOKAHEAD_BYTES, False, 1)
    watch = encoder.model.register_forward_pre_hook(
        lambda _model, _args, inputs: run.append(len(inputs["input_ids"])), with_kwargs=True
    )
    next(encoder.encode(texts, ("maps",)))
    watch.remove()
    assert run == [1]


def test_a_limit_can_be_lowered_but_not_raised(model_folder):
    import lamina

    assert lamina.load_encoder(str(model_folder("bert")), device="cpu", limit=16).limit == 16
    for limit in (4, 41):
        with pytest.raises(ModelError, match=f"{limit} tokens is not possible; use 8 to 40 for this model"):
            lamina.load_encoder(str(model_folder("bert")), device="cpu", limit=limit)
