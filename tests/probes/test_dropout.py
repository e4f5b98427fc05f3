"""Dropout masks: the same bits for the same key, on any device and in any version."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lamina.probes.edge import dropout_mask

KEYS = st.lists(st.integers(0, 2**40), min_size=1, max_size=4).map(tuple)
WRAP = 2**64


def reference(key: tuple[int, ...], count: int, rate: float) -> list[bool]:
    """SplitMix64 written down in plain integers: four decisions of 16 bits, the lowest first, from each output."""
    golden = 0x9E3779B97F4A7C15

    def mixed(z: int) -> int:
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % WRAP
        z = (z ^ (z >> 27)) * 0x94D049BB133111EB % WRAP
        return z ^ (z >> 31)

    start = 0
    for part in key:
        start = mixed((start + part * golden + golden) % WRAP)
    lanes = []
    for counter in range(1, -(-count // 4) + 1):
        bits = mixed((start + counter * golden) % WRAP)
        lanes += [(bits >> (16 * lane)) % 2**16 for lane in range(4)]
    # As a signed number, the lower half of 16 bits comes after the upper one.
    return [(lane + 2**15) % 2**16 >= round(rate * 2**16) for lane in lanes[:count]]


def test_splitmix64_is_the_published_one():
    # The first outputs for the seed 1234567, as in the generator's own test vectors.
    state, outputs = 1234567, []
    for _ in range(3):
        state = (state + 0x9E3779B97F4A7C15) % WRAP
        z = (state ^ (state >> 30)) * 0xBF58476D1CE4E5B9 % WRAP
        z = (z ^ (z >> 27)) * 0x94D049BB133111EB % WRAP
        outputs.append(z ^ (z >> 31))
    assert outputs == [6457827717110365317, 3203168211198807973, 9817491932198370423]


@given(KEYS, st.integers(1, 50), st.sampled_from([0.1, 0.2, 0.3, 0.5]))
def test_the_bits_are_those_of_splitmix64(key, count, rate):
    assert dropout_mask((count,), rate, key=key, device="cpu").tolist() == reference(key, count, rate)


def test_the_bits_never_change():
    # Another device, byte order or version of torch would give another hash.
    bits = dropout_mask((1000,), 0.3, key=(0, 1, 2), device="cpu").numpy()
    assert "".join("01"[bit] for bit in bits[:32].tolist()) == "11000101010010101111111101100000"
    digest = hashlib.sha256(np.packbits(bits).tobytes()).hexdigest()
    assert digest == "d9ed2b610c54bfa7e22a64e1f9034ae352e5ee00092e43e2377ecfacb539fd4c"


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_gpu_gives_the_same_bits():
    here, there = (dropout_mask((99, 7), 0.2, key=(3, 5), device=device) for device in ("cpu", "cuda"))
    assert torch.equal(here, there.cpu())


@given(KEYS, st.integers(1, 300), st.integers(1, 300))
def test_what_is_kept_does_not_depend_on_how_much_is_asked_for(key, few, more):
    short, long = (dropout_mask((count,), 0.3, key=key, device="cpu") for count in sorted((few, more)))
    assert torch.equal(short, long[: len(short)])
    if few % 3 == 0:
        assert torch.equal(
            dropout_mask((few // 3, 3), 0.3, key=key, device="cpu").flatten(),
            dropout_mask((few,), 0.3, key=key, device="cpu"),
        )


@given(KEYS, KEYS)
def test_another_key_is_another_draw(one, other):
    a, b = (dropout_mask((256,), 0.5, key=key, device="cpu") for key in (one, other))
    assert torch.equal(a, b) == (one == other)


@pytest.mark.parametrize("rate", [0.05, 0.2, 0.3, 0.5])
def test_the_rate_is_right_and_draws_are_independent(rate):
    count = 200_000
    draws = torch.stack(
        [dropout_mask((count,), rate, key=(seed, step), device="cpu") for seed in (0, 1) for step in (1, 2)]
    )
    # Five standard errors.
    margin = 5 * (rate * (1 - rate) / count) ** 0.5
    assert (~draws).float().mean(1).tolist() == pytest.approx([rate] * 4, abs=margin)
    both = np.corrcoef(draws.numpy())
    assert np.abs(both - np.eye(4)).max() < 5 / count**0.5
    # Nor do neighbours within a draw go together.
    assert abs(np.corrcoef(draws[0, :-1].numpy(), draws[0, 1:].numpy())[0, 1]) < 5 / count**0.5


def test_nothing_or_all_but_nothing_is_dropped():
    assert dropout_mask((500,), 0.0, key=(1,), device="cpu").all()
    assert dropout_mask((0, 4), 0.3, key=(1,), device="cpu").shape == (0, 4)
