"""Batches of states: no text is lost or changed, whatever the memory, the stream and the way they are asked for."""

from __future__ import annotations

import inspect
from itertools import count, islice

import pytest
import torch

from lamina.errors import ModelError
from lamina.models.contract import Packed
from lamina.models.running.huggingface import HuggingFaceEncoder
from lamina.models.running.tokens import WordTokenizer
from lamina.testing import TinyEncoder
from lamina.types import Span, Text

WORDS = ("the", "lazy", "dog", "runs", "unhesitatingly", "far", "away", ",", "東京", "the")


def stream(number: int, *, long: bool = True) -> list[Text]:
    """Texts of 1 to 10 words, one in segments, and two that need windows."""
    texts = [Text(f"t{n}", tuple(WORDS[n % 7 :][: 1 + n % 10])) for n in range(number)]
    texts[1] = Text("t1", WORDS[:6], (Span(0, 2), Span(2, 6)))
    return [*texts, Text("long", WORDS * 9), Text("longer", WORDS * 14)] if long else texts


def by_text(batches: list[Packed]) -> dict[str, torch.Tensor]:
    return {each.text: each.states for packed in batches for each in packed.unpack() if each.states is not None}


@pytest.fixture
def encoder(tiny_encoder) -> HuggingFaceEncoder:
    """One whose batch size a test may change."""
    base = tiny_encoder("bert")
    return HuggingFaceEncoder(base.model, base.tokenizer, name="bert", tokens_per_batch=64)


@pytest.fixture(scope="module")
def alone(tiny_encoder) -> dict[str, torch.Tensor]:
    """The states of each text, encoded by itself."""
    return {text.id: next(tiny_encoder("bert").encode([text])).states for text in stream(60)}


@pytest.fixture
def crowded(encoder, monkeypatch):
    """Makes the model run out of memory on batches of more than so many tokens."""
    run = encoder.model.forward

    def limit(most: int, error: type[RuntimeError] = torch.OutOfMemoryError) -> None:
        def forward(*args, **inputs):
            if inputs["input_ids"].numel() > most:
                raise error("CUDA out of memory. Tried to allocate 2.00 GiB")
            return run(*args, **inputs)

        # What the model's own forward function names is looked up.
        forward.__signature__ = inspect.signature(run)
        monkeypatch.setattr(encoder.model, "forward", forward)

    return limit


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("on", ["host", "device"])
def test_packed_states_are_those_of_each_text_alone(encoder, alone, dtype, on):
    batches = list(encoder.packed(stream(60), dtype=dtype, on=on))
    assert {packed.states.dtype for packed in batches} == {dtype}
    assert len(batches) < 40
    found = by_text(batches)
    assert found.keys() == alone.keys()
    for name, states in found.items():
        torch.testing.assert_close(
            states, alone[name].to(dtype), rtol=1e-2, atol=1e-2 if dtype != torch.float32 else 1e-5
        )
    windows = {activations.text: activations.windows for packed in batches for activations in packed.unpack()}
    assert windows["t0"] == 1 < windows["long"] < windows["longer"]


@pytest.mark.parametrize("most", [None, 12])
def test_states_are_written_to_the_room_that_is_given(encoder, alone, most):
    given: list[torch.Tensor] = []

    def room(tokens: int) -> torch.Tensor:
        given.append(torch.full((tokens, encoder.layers, encoder.width), torch.nan))
        return given[-1]

    batches = list(encoder.packed(stream(60), room=room, most=most))
    assert [packed.states.data_ptr() for packed in batches] == [each.data_ptr() for each in given]
    if most is not None:
        assert all(len(packed.states) <= most or len(packed.texts) == 1 for packed in batches)
    for name, states in by_text(batches).items():
        torch.testing.assert_close(states, alone[name])


@pytest.mark.parametrize("error", [torch.OutOfMemoryError, RuntimeError], ids=["torch", "other"])
def test_batches_are_halved_when_memory_runs_out_and_no_text_is_lost(encoder, alone, crowded, error):
    encoder.batch_size.tokens = 1000
    crowded(90, error)
    made = list(encoder.encode(stream(60)))
    assert [each.text for each in made] == [text.id for text in stream(60)]
    for each in made:
        torch.testing.assert_close(each.states, alone[each.text])
    assert 40 <= encoder.batch_size.tokens <= 90


def test_a_text_that_does_not_fit_alone_is_named(encoder, crowded):
    crowded(10)
    with pytest.raises(ModelError, match=r"text of 272 tokens \('long'\) does not fit .*--max-tokens"):
        list(encoder.packed([Text("t", ("dog",)), Text("long", WORDS * 9)]))


def test_another_error_of_the_model_is_not_taken_for_memory(encoder, monkeypatch):
    def fails(*_args, **_inputs):
        raise RuntimeError("shapes do not match")

    monkeypatch.setattr(encoder, "_layers", fails)
    with pytest.raises(RuntimeError, match="shapes do not match"):
        next(encoder.packed(stream(3)))


def test_maps_survive_halving_too(encoder, crowded):
    expected = {each.text: each.maps for each in encoder.encode(stream(20, long=False), ("maps",))}
    encoder.batch_size.tokens = 1000
    crowded(60)
    for each in encoder.encode(stream(20, long=False), ("states", "maps")):
        torch.testing.assert_close(each.maps, expected[each.text])
        assert each.states is not None


def test_a_model_that_cannot_pad_packs_texts_of_one_length(encoder, alone):
    encoder.anatomy = encoder.anatomy._replace(pads=False)
    seen: list[torch.Tensor] = []
    watch = encoder.model.register_forward_pre_hook(
        lambda _model, _args, inputs: seen.append(inputs["attention_mask"]), with_kwargs=True
    )
    found = by_text(list(encoder.packed(stream(60))))
    watch.remove()
    assert all(bool(mask.all()) for mask in seen)
    for name, states in found.items():
        torch.testing.assert_close(states, alone[name])


def test_an_endless_stream_is_read_as_needed(encoder):
    read = []
    texts = (read.append(n) or Text(str(n), WORDS[: 1 + n % 9]) for n in count())
    batches = encoder.packed(texts)
    names = [name for packed in islice(batches, 5) for name in packed.texts]
    batches.close()
    assert len(set(names)) == len(names)
    assert len(read) < 5000


def test_an_error_in_the_stream_is_the_callers(encoder):
    def texts():
        yield from stream(700, long=False)
        raise ValueError("the file is cut off")

    with pytest.raises(ValueError, match="cut off"):
        list(encoder.packed(texts()))


@pytest.mark.parametrize("name", ["bert", "roberta", "llama"])
def test_many_texts_are_cut_as_each_alone(tiny_encoder, name):
    tokenizer = tiny_encoder(name).tokenizer
    texts = [*stream(60), Text("s", WORDS[:5], (Span(0, 1), Span(1, 3), Span(3, 5))), Text("?", ("dog", "\u200d", "a"))]
    alone = [WordTokenizer(tokenizer)(text) for text in texts]
    for one, many in zip(alone, WordTokenizer(tokenizer).cut(texts), strict=True):
        assert one.tokens.ids.tolist() == many.tokens.ids.tolist()
        assert one.tokens.words.tolist() == many.tokens.words.tolist()
        assert (one.tokens.unknown, one.head, one.tail) == (many.tokens.unknown, many.head, many.tail)
        assert one.types.tolist() == many.types.tolist()


@pytest.mark.parametrize(("scale", "dtype", "overflow"), [(1e6, torch.float16, True), (1e6, torch.float32, False)])
def test_what_does_not_fit_is_told_with_the_batch(scale, dtype, overflow):
    (packed,) = TinyEncoder(scale=scale).packed(stream(9), dtype=dtype)
    assert (packed.overflow, packed.nan) == (overflow, False)


def test_nan_is_told_with_the_batch(encoder, monkeypatch):
    layers = encoder._layers
    monkeypatch.setattr(encoder, "_layers", lambda inputs: [layer * torch.nan for layer in layers(inputs)])
    assert all(packed.nan and not packed.overflow for packed in encoder.packed(stream(9), dtype=torch.float16))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_gpu_gives_the_same_on_the_card_and_on_the_host(encoder, alone):
    there = HuggingFaceEncoder(encoder.model.cuda(), encoder.tokenizer, name="bert", tokens_per_batch=64)
    for on in ("host", "device"):
        batches = list(there.packed(stream(60), on=on))
        assert {packed.states.device.type for packed in batches} == {"cuda" if on == "device" else "cpu"}
        for name, states in by_text(batches).items():
            torch.testing.assert_close(states.cpu(), alone[name], rtol=1e-3, atol=1e-3)
    encoder.model.cpu()
