"""GGUF files: unpacked once, to the weights they hold."""

from __future__ import annotations

import gguf
import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

import lamina
from lamina.errors import ModelError
from lamina.models.weights.quantised import converted, damaged_conversions
from lamina.types import Text

WIDTH, HEADS, KEY_HEADS, INNER, BLOCKS = 32, 4, 2, 64, 2
BYTES = [*range(33, 127), *range(161, 173), *range(174, 256)]
LETTERS = [chr(byte) for byte in BYTES] + [chr(256 + n) for n in range(256 - len(BYTES))]
VOCABULARY = ["<|endoftext|>", *LETTERS, "Ġd", "og", "Ġdog"]
MERGES = ["Ġ d", "o g", "Ġd og"]


def interleaved(weight: np.ndarray, heads: int) -> np.ndarray:
    """As GGUF stores queries and keys: the two halves of a head's rows alternate."""
    return weight.reshape(heads, 2, -1, WIDTH).swapaxes(1, 2).reshape(weight.shape)


def tensors() -> dict[str, np.ndarray]:
    draw = np.random.default_rng(0)
    narrow = WIDTH // HEADS * KEY_HEADS
    shapes = {"token_embd": (len(VOCABULARY), WIDTH), "output_norm": (WIDTH,)}
    for block in range(BLOCKS):
        of_block = {
            "attn_norm": (WIDTH,),
            "attn_q": (WIDTH, WIDTH),
            "attn_k": (narrow, WIDTH),
            "attn_v": (narrow, WIDTH),
            "attn_output": (WIDTH, WIDTH),
            "ffn_norm": (WIDTH,),
            "ffn_gate": (INNER, WIDTH),
            "ffn_up": (INNER, WIDTH),
            "ffn_down": (WIDTH, INNER),
        }
        shapes |= {f"blk.{block}.{name}": shape for name, shape in of_block.items()}
    return {name: draw.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}


def write(path, weights, *, begins=False) -> None:
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(64)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(BLOCKS)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KEY_HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(WIDTH // HEADS)
    writer.add_vocab_size(len(VOCABULARY))
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(VOCABULARY)
    writer.add_token_types([3] + [1] * (len(VOCABULARY) - 1))
    writer.add_token_merges(MERGES)
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(0)
    writer.add_add_bos_token(begins)
    for name, weight in weights.items():
        heads = {"attn_q": HEADS, "attn_k": KEY_HEADS}.get(name.split(".")[-1])
        writer.add_tensor(f"{name}.weight", interleaved(weight, heads) if heads else weight)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


@pytest.fixture
def packed(tmp_path, monkeypatch):
    """Where a GGUF file goes; beside it, a cache of its own."""
    monkeypatch.setenv("LAMINA_CACHE", str(tmp_path / "cache"))
    (tmp_path / "asset").mkdir()
    return tmp_path / "asset" / "tiny.gguf"


def test_the_folder_holds_the_weights_of_the_file(packed, capfd):
    weights = tensors()
    write(packed, weights)
    folder = converted(packed)
    model = AutoModelForCausalLM.from_pretrained(folder)
    made = model.model.state_dict()
    assert model.dtype == torch.float32
    names = {
        "embed_tokens": "token_embd",
        "norm": "output_norm",
        "layers.1.self_attn.q_proj": "blk.1.attn_q",
        "layers.0.self_attn.k_proj": "blk.0.attn_k",
        "layers.0.self_attn.v_proj": "blk.0.attn_v",
        "layers.1.mlp.down_proj": "blk.1.ffn_down",
    }
    for ours, theirs in names.items():
        assert np.array_equal(made[f"{ours}.weight"], weights[theirs]), ours
    assert torch.equal(model.lm_head.weight, made["embed_tokens.weight"])
    tokenizer = AutoTokenizer.from_pretrained(folder)
    assert tokenizer.convert_ids_to_tokens(tokenizer("a dog")["input_ids"]) == ["a", "Ġdog"]
    assert "de-quantizing" not in capfd.readouterr().err


def test_the_work_is_done_once(packed, monkeypatch):
    write(packed, tensors())
    first = converted(packed)
    monkeypatch.setattr("lamina.models.weights.quantised.convert_gguf", lambda *_: pytest.fail("converted again"))
    assert converted(packed) == first
    assert [path.name for path in first.parent.iterdir() if not path.name.endswith(".lock")] == [first.name]


def test_a_damaged_folder_is_converted_again(packed, capfd):
    write(packed, tensors())
    folder = converted(packed)
    weights = folder / "model.safetensors"
    sound = weights.read_bytes()
    weights.write_bytes(sound[:-1] + bytes([sound[-1] ^ 1]))
    assert damaged_conversions() == [folder]
    assert converted(packed) == folder
    assert weights.read_bytes() == sound
    assert f"{folder} is damaged; tiny.gguf is converted again" in capfd.readouterr().err
    (folder / "config.json").unlink()
    assert damaged_conversions() == [folder]


def test_another_file_of_the_same_name_and_size_is_converted_anew(packed):
    write(packed, tensors())
    first = converted(packed)
    other = tensors()
    other["output_norm"] = other["output_norm"] + 1
    write(packed, other)
    assert converted(packed) != first


def with_number(content: bytes, name: bytes, number: int) -> bytes:
    at = content.index(name) + len(name) + 4
    return content[:at] + number.to_bytes(4, "little") + content[at + 4 :]


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: b"",
        lambda content: content[:500],
        lambda content: content[: len(content) // 2],
        lambda content: b"GGUF" + bytes(500),
        lambda content: bytes(range(256)) * 20,
        lambda content: content[:16] + (2**60).to_bytes(8, "little") + content[24:],
        lambda content: with_number(content, b"llama.block_count", 2**31 - 1),
        lambda content: with_number(content, b"llama.vocab_size", 2**31 - 1),
    ],
)
def test_a_damaged_file_is_one_sentence(packed, damage):
    write(packed, tensors())
    packed.write_bytes(damage(packed.read_bytes()))
    with pytest.raises(ModelError, match=r"tiny\.gguf cannot be read as a GGUF file \(.*\); fetch it again$"):
        converted(packed)


def test_a_file_that_lacks_weights_leaves_nothing_behind(packed):
    write(packed, {name: weight for name, weight in tensors().items() if name != "blk.1.ffn_up"})
    with pytest.raises(ModelError, match=r"lacks 1 of the model's weights \(first: model.layers.1.mlp.up_proj"):
        converted(packed)
    left = [path for path in (packed.parents[1] / "cache" / "converted").iterdir() if path.suffix != ".lock"]
    assert not left


def test_a_file_by_its_path_is_a_model(packed):
    write(packed, tensors())
    encoder = lamina.load_encoder(str(packed), device="cpu")
    assert (encoder.name, encoder.blocks, encoder.heads, encoder.causal) == ("tiny", BLOCKS, HEADS, True)
    with pytest.raises(ModelError, match="is not an encoder-decoder, so it has no sides"):
        lamina.load_encoder(f"{packed}:decoder", device="cpu")


def test_texts_begin_with_the_token_that_the_file_asks_for(packed):
    write(packed, tensors(), begins=True)
    tokens = lamina.load_encoder(str(packed), device="cpu").tokenize(Text("t", ("a", "dog")))
    assert (tokens.ids[0], tokens.words.tolist()) == (0, [-1, 0, 1])
