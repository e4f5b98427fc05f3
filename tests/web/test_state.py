"""What stands between a request and a model: a bounded number of places and a bounded length."""

from __future__ import annotations

import pytest

from lamina.testing import TinyEncoder
from lamina.web.models import LoadedModels, UnknownModelError
from lamina.web.state import BusyError, Limits, TooLongError


def state_of(client, **settings):
    return client(**settings).app.state.lamina


def test_one_request_too_many_is_sent_away_and_the_next_is_welcome(client):
    app = state_of(client, limits=Limits(waiting=1))
    with app.model("tiny"), pytest.raises(BusyError, match="too many requests"), app.model("tiny"):
        pass
    with app.model("tiny") as encoder:
        assert encoder.blocks == 2


def test_a_request_that_fails_gives_its_place_back(client):
    app = state_of(client, limits=Limits(waiting=1))
    for _ in range(3):
        with pytest.raises(UnknownModelError), app.model("nothing"):
            pass
    with app.model("tiny"):
        pass


def test_all_texts_of_a_request_count(client):
    app = state_of(client, limits=Limits(characters=10))
    app.check_length("12345", "67890")
    with pytest.raises(TooLongError, match="11 characters"):
        app.check_length("12345", "678901")


def test_the_model_used_least_lately_is_let_go():
    loads = []

    def load(name: str) -> TinyEncoder:
        loads.append(name)
        return TinyEncoder()

    models = LoadedModels(lambda: {name: name for name in "abc"}, most=2, load=load)
    for name in "abacab":
        with models.use(name):
            pass
    assert loads == ["a", "b", "c", "b"]
    assert models.loaded() == ["a", "b"]


def test_a_model_that_cannot_be_loaded_is_tried_again():
    tries = iter([OSError("no disk"), TinyEncoder()])

    def load(name: str) -> TinyEncoder:
        found = next(tries)
        if isinstance(found, OSError):
            raise found
        return found

    models = LoadedModels(lambda: {"a": "a"}, most=1, load=load)
    with pytest.raises(OSError, match="no disk"), models.use("a"):
        pass
    with models.use("a") as encoder:
        assert encoder.heads == 2
