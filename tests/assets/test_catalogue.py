from __future__ import annotations

import re
from hashlib import sha256
from pathlib import Path

import pytest
from typer.testing import CliRunner

from lamina import assets
from lamina.assets.origins import blob_id
from lamina.assets.recipes import CorpusRecipe
from lamina.assets.sources import Card, Hub, Url
from lamina.cli.main import app
from lamina.errors import AssetError, OfflineError


@pytest.fixture
def demo(web, monkeypatch: pytest.MonkeyPatch) -> Card:
    """A catalogue of one corpus that can be fetched, one that cannot, and one model."""
    web.files = {"a": b"alpha"}
    source = Url(web.base, {"a": sha256(b"alpha").hexdigest()})
    card = Card("demo", "corpus", "a demo", "CC0", ("a",), 1000, (source,))
    derived = Card("derived", "corpus", "made by hand", "CC0", ("b",), 1000, note="Set LAMINA_DATA.")
    model = Card("net", "model", "a network", "CC0", ("a",), 1000, (source,))
    monkeypatch.setattr(assets, "CARDS", (card, derived, model))
    return card


def test_every_card_promises_hashes() -> None:
    for card in assets.cards().values():
        assert card.sources or "LAMINA_DATA" in card.note, card.name
        assert card.licence, card.name
        assert card.origin, card.name
        assert card.size > 0, card.name
        for source in card.sources:
            assert source.hashes, card.name
            assert all(re.fullmatch("[0-9a-f]{64}", promised) for promised in source.hashes.values()), card.name
            blobs = source.blobs if isinstance(source, CorpusRecipe) else {}
            assert all(re.fullmatch("[0-9a-f]{40}", promised) for promised in blobs.values()), card.name


def test_every_recipe_pins_a_commit_and_safe_paths() -> None:
    recipes = [
        source for card in assets.cards().values() for source in card.sources if isinstance(source, CorpusRecipe)
    ]
    assert recipes
    for recipe in recipes:
        assert recipe.licence, recipe.place
        assert recipe.changes, recipe.place
        for origin in recipe.origins:
            assert re.fullmatch("[0-9a-f]{40}", origin.commit), recipe.place
            assert re.fullmatch(r"[\w.-]+/[\w.-]+", origin.repo), recipe.place
            assert not [path for path in origin.files if path.startswith("/") or ".." in path.split("/")], recipe.place


def test_every_file_of_the_hub_has_a_commit_and_a_hash() -> None:
    for source in (source for card in assets.cards().values() for source in card.sources):
        if isinstance(source, Hub):
            assert re.fullmatch("[0-9a-f]{40}", source.revision), source.place
            assert set(source.members) == set(source.hashes), source.place
        if isinstance(source, Url):
            assert re.search("/[0-9a-f]{40}(/|$)", source.base), source.place


def test_names_are_unique_and_safe_as_folder_names() -> None:
    assert len(assets.cards()) == len(assets.CARDS)
    assert all(re.fullmatch("[a-z0-9][a-z0-9_.]*", name) for name in assets.cards())


def test_an_unknown_name_is_answered_with_close_ones() -> None:
    with pytest.raises(AssetError, match="did you mean mpnet"):
        assets.find("mpnett")
    with pytest.raises(AssetError, match=r"there is no asset 'zzz'\. All names"):
        assets.find("zzz")


def test_the_data_folder_comes_first(demo: Card, web, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAMINA_DATA", str(tmp_path))
    assert assets.local_folder("demo") is None, "no such folder"
    (tmp_path / "demo").mkdir()
    assert assets.local_folder("demo") is None, "an empty folder"
    (tmp_path / "demo" / "a").write_bytes(b"mine")
    assert assets.locate("demo") == assets.local_folder("demo") == tmp_path / "demo"
    assert not assets.is_cached("demo")
    assert assets.remove("demo") is False
    assert (tmp_path / "demo" / "a").exists()
    assert web.asked == {}


def test_models_are_not_taken_from_the_data_folder(demo: Card, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAMINA_DATA", str(tmp_path))
    (tmp_path / "net").mkdir()
    (tmp_path / "net" / "a").write_bytes(b"mine")
    assert assets.local_folder("net") is None


def test_located_once_then_cached_even_offline(demo: Card, web, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = assets.locate("demo")
    monkeypatch.setenv("LAMINA_OFFLINE", "1")
    assert assets.locate("demo") == folder
    assert assets.is_cached("demo")
    assert web.asked == {"a": 1}
    assert assets.remove("demo") is True
    assert not assets.is_cached("demo")


def test_offline_with_nothing_cached_says_what_to_do(demo: Card, web, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAMINA_OFFLINE", "1")
    with pytest.raises(OfflineError) as raised:
        assets.locate("demo")
    assert str(raised.value) == (
        "demo is not on this machine and LAMINA_OFFLINE is set: unset it and run `lamina assets get demo`, "
        "or set LAMINA_DATA to a folder that holds demo/ with a"
    )
    with pytest.raises(OfflineError, match="or give a folder that holds the model"):
        assets.locate("net")
    assert web.asked == {}
    monkeypatch.setenv("LAMINA_OFFLINE", "0")
    assert assets.locate("demo").is_dir()


def test_what_keeps_the_hub_from_being_asked_holds_for_all_sources(
    demo: Card, web, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(OfflineError, match="demo is not on this machine and HF_HUB_OFFLINE is set: unset it and run"):
        assets.locate("demo")
    assert web.asked == {}
    # Unless the other sources are allowed by name.
    monkeypatch.setenv("LAMINA_OFFLINE", "0")
    assert assets.locate("demo").is_dir()


def test_damage_is_named_and_said_to_be_fetched_again(
    demo: Card, web, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    path = assets.locate("demo") / "a"
    path.write_bytes(b"alphA")
    monkeypatch.setenv("LAMINA_OFFLINE", "1")
    with pytest.raises(OfflineError) as raised:
        assets.locate("demo")
    assert str(raised.value).startswith(f"{path} is damaged and LAMINA_OFFLINE is set: unset it and run")
    command = CliRunner()
    shown = command.invoke(app, ["assets", "list"]).output
    assert [line for line in shown.splitlines() if line.startswith("demo") and "damaged" in line]
    assert str(command.invoke(app, ["assets", "path", "demo"]).exception) == (
        f"{path} is damaged: fetch it again with `lamina assets get demo`"
    )
    monkeypatch.delenv("LAMINA_OFFLINE")
    assert assets.locate("demo") == path.parent
    assert path.read_bytes() == b"alpha"
    assert f"{path} is damaged; demo is fetched again" in capfd.readouterr().err


def test_what_is_not_published_says_where_to_put_it(demo: Card) -> None:
    with pytest.raises(AssetError, match=r"derived is not on this machine .* Set LAMINA_DATA\."):
        assets.locate("derived")


@pytest.mark.data
def test_the_promised_hashes_are_those_of_the_real_files(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAMINA_DATA", str(data_dir))
    for card in assets.cards().values():
        if card.kind == "model" or card.name in ("ewt", "glove", "squad"):
            continue
        folder = assets.local_folder(card.name)
        for source in card.sources if folder else ():
            if isinstance(source, Url):
                for name, promised in source.hashes.items():
                    assert sha256((folder / name).read_bytes()).hexdigest() == promised, (card.name, name)
    for name, path in (
        ("ud_english_ewt", "en_ewt-ud-{}.conllu"),
        ("uner_english_ewt", "en_ewt-ud-{}.iob2"),
        ("streusle", "streusle.ud_{}.conllulex"),
    ):
        recipe = next(source for source in assets.find(name).sources if isinstance(source, CorpusRecipe))
        promised = {what.rpartition("/")[2]: blob for what, blob in recipe.blobs.items()}
        for file in (path.format(split) for split in ("dev", "test")):
            assert blob_id((data_dir / name / file).read_bytes()) == promised[file], (name, file)


@pytest.mark.real
def test_the_default_model_and_corpus_are_the_real_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LAMINA_CACHE")
    model = assets.find("minilm")
    weights = (assets.locate("minilm") / "model.safetensors").read_bytes()
    hub = next(source for source in model.sources if isinstance(source, Hub))
    assert sha256(weights).hexdigest() == hub.hashes["model.safetensors"]
    corpus = assets.locate("ewt")
    assert sorted(path.name for path in corpus.iterdir()) == sorted(assets.find("ewt").members)
    for name, folder in (("minilm", assets.locate("minilm")), ("ewt", corpus)):
        assert sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) == assets.find(name).size
