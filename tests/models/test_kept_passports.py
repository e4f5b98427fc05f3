"""Passports that are kept: a model is examined once, a file that cannot be trusted is not, and errors are sentences."""

from __future__ import annotations

import json
import os
from dataclasses import replace

import pytest

from lamina.errors import ModelError
from lamina.models import load_encoder
from lamina.models.checks import passports
from lamina.models.checks.passports import examine, passport_of
from lamina.testing import TinyEncoder


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """A cache of its own, and a process that knows no passport yet."""
    monkeypatch.setenv("LAMINA_CACHE", str(tmp_path))
    monkeypatch.setattr(passports, "_KNOWN", {})
    return tmp_path / "passports"


@pytest.fixture
def examined(monkeypatch):
    """Which encoders were examined, in order."""
    seen = []

    def spy(encoder):
        seen.append(encoder.name)
        return examine(encoder)

    monkeypatch.setattr(passports, "examine", spy)
    return seen


def again(monkeypatch, name="again"):
    """The same model in another process, under another name."""
    monkeypatch.setattr(passports, "_KNOWN", {})
    encoder = TinyEncoder()
    encoder.name = name
    return encoder


def test_a_model_is_examined_once_and_known_by_its_fingerprint(examined, monkeypatch):
    first = passport_of(TinyEncoder())
    kept = passport_of(again(monkeypatch))
    assert kept == replace(first, model="again")
    assert passport_of(TinyEncoder(seed=1)).fingerprint != first.fingerprint
    assert examined == ["tiny", "tiny"]


@pytest.mark.parametrize("version", ["transformers", "torch", "lamina's checks"])
def test_other_versions_have_other_passports(examined, monkeypatch, version):
    passport_of(TinyEncoder())
    if version == "lamina's checks":
        monkeypatch.setattr(passports, "PASSPORT_VERSION", 0)
    else:
        known = passports.version
        monkeypatch.setattr(passports, "version", lambda name: "0" if name == version else known(name))
    passport_of(again(monkeypatch))
    assert examined == ["tiny", "again"]


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"passport": {}}', "another model"])
def test_a_damaged_file_is_made_again(examined, monkeypatch, folder, damage):
    passport_of(TinyEncoder())
    (path,) = folder.iterdir()
    if damage == "another model":
        said = json.loads(path.read_text())
        damage = json.dumps(said | {"passport": said["passport"] | {"fingerprint": "f"}})
    path.write_text(damage)
    assert passport_of(again(monkeypatch)).fingerprint == TinyEncoder().fingerprint
    assert examined == ["tiny", "again"]
    passport_of(again(monkeypatch))
    assert examined == ["tiny", "again"]


def test_a_model_that_gives_other_numbers_is_examined_again(examined, monkeypatch, capsys):
    passport_of(TinyEncoder())
    changed = again(monkeypatch, "changed")
    fingerprint = changed.fingerprint
    changed._weights = changed._weights.flip(0)
    monkeypatch.setattr(TinyEncoder, "fingerprint", property(lambda _: fingerprint))
    passport_of(changed)
    assert examined == ["tiny", "changed"]
    assert "changed gives other numbers than when it was examined" in capsys.readouterr().err


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_cache_that_cannot_be_written_costs_only_time(examined, monkeypatch, tmp_path):
    tmp_path.chmod(0o500)
    passport_of(TinyEncoder())
    passport_of(again(monkeypatch))
    assert examined == ["tiny", "again"]


def test_a_file_where_the_folder_should_be_costs_only_time(examined, folder):
    folder.write_text("")
    passport_of(TinyEncoder())
    assert examined == ["tiny"]


def test_what_a_model_raises_is_said_in_a_sentence(monkeypatch, model_folder):
    def broken(_):
        raise IndexError("index out of range in self\nat line 7")

    encoder = load_encoder(str(model_folder("bert")), device="cpu")
    monkeypatch.setattr(passports, "examine", broken)
    with pytest.raises(ModelError, match=r"cannot be examined \(IndexError: index out of range in self\), so"):
        passport_of(encoder)


def test_an_encoder_that_knows_only_its_own_texts_says_that_it_was_not_tried(folder):
    class Stored(TinyEncoder):
        def encode(self, texts, want=(), *, ordered=True):
            raise KeyError("plain")

    passport = passport_of(Stored())
    assert passport.failed == ()
    assert "cannot encode texts that lamina makes up (KeyError: 'plain')" in passport.checks[0].message
    assert not folder.exists()


def test_a_slow_examination_is_announced(monkeypatch, capsys):
    import time

    monkeypatch.setattr(passports, "_PATIENCE", 0.01)
    monkeypatch.setattr(passports, "examine", lambda encoder: (time.sleep(0.2), examine(encoder))[1])
    passport_of(TinyEncoder())
    assert capsys.readouterr().err == "lamina: examining tiny ...\n"


def test_an_encoder_that_cannot_be_recognised_is_examined_again(examined, monkeypatch):
    passport_of(TinyEncoder())
    stored = again(monkeypatch, "stored")
    monkeypatch.setattr(
        stored, "encode", lambda *_, **__: (_ for _ in ()).throw(ModelError("it knows its own texts only"))
    )
    kept = passport_of(stored)
    assert examined == ["tiny", "stored"]
    assert "it knows its own texts only" in str(kept.describe())
