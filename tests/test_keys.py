"""Sets of keys that stay small in memory."""

from __future__ import annotations

import random

import pytest

from lamina import keys
from lamina.keys import KeySet, SortedKeys


@pytest.fixture
def drawn() -> list[bytes]:
    """Some twice, some that differ in their last byte alone, some of zeros and ones at the ends of the range."""
    draw = random.Random(0)
    alike = draw.randbytes(15)
    made = [alike + bytes([last]) for last in range(20)] + [draw.randbytes(16) for _ in range(200)]
    made += [bytes(16), b"\xff" * 16, b"\x7f" + b"\xff" * 15, b"\x80" + bytes(15)]
    return draw.sample(made, len(made)) + made[:50]


def test_a_set_knows_what_a_python_set_knows(drawn, monkeypatch):
    monkeypatch.setattr(keys, "_FRESH", 7)  # so that it sorts and merges many times
    met, known = KeySet(), set()
    for key in drawn:
        assert met.add(key) == (key not in known)
        known.add(key)
    assert len(met) == len(known)
    assert all(key in met for key in known)
    assert b"\x01" * 16 not in met


def test_of_equal_keys_the_first_is_found(drawn):
    found, places = SortedKeys.of(b"".join(drawn))
    for key in drawn:
        at = found.find(key)
        assert at is not None
        assert places[at] == drawn.index(key)
        assert found.key(at) == key
    assert found.find(b"\x01" * 16) is None


def test_no_keys_at_all():
    nothing, places = SortedKeys.of(b"")
    assert nothing.find(bytes(16)) is None
    assert len(places) == 0
