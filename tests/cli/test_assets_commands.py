from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from lamina import assets
from lamina.assets.origins import Allowance
from lamina.assets.sources import Card
from lamina.cli.machine import assets_app
from lamina.errors import AssetError


class ResultIndex:
    """A source that always delivers."""

    place, hashes, members = "the shelf", {"a": "f" * 64}, ("a",)

    def fetch(self, into: Path, allowance: Allowance) -> None:
        (into / "a").write_bytes(b"alpha")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LAMINA_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("LAMINA_DATA", str(tmp_path / "data"))
    demo = Card("demo", "corpus", "a demo corpus", "CC0", ("a",), 1_500_000, (ResultIndex(),), origin="hand-made")
    derived = Card("derived", "corpus", "made by hand", "CC BY 4.0", ("b",), 1000, note="Put it into LAMINA_DATA.")
    monkeypatch.setattr(assets, "CARDS", (demo, derived))
    return tmp_path / "cache" / "assets"


def run(*arguments: str) -> str:
    result = CliRunner().invoke(assets_app, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_list_says_what_is_here(tmp_path: Path) -> None:
    head, demo, derived = run("list").splitlines()
    assert head.split() == ["name", "kind", "size", "here", "what", "licence"]
    assert demo.split() == ["demo", "corpus", "1.5", "MB", "no", "a", "demo", "corpus", "CC0"]
    assert derived.split()[-3:] == ["CC", "BY", "4.0"]
    run("get", "demo")
    (tmp_path / "data" / "derived").mkdir(parents=True)
    (tmp_path / "data" / "derived" / "b").touch()
    _, demo, derived = run("list").splitlines()
    assert demo.split()[4] == "cached"
    assert derived.split()[4] == "local"


def test_get_path_and_remove(cache: Path) -> None:
    with pytest.raises(AssetError, match="demo is not on this machine: fetch it with `lamina assets get demo`"):
        run("path", "demo")
    assert not cache.exists(), "path fetches nothing"
    assert run("get", "demo", "demo") == f"demo\t{cache / 'demo' / 'files'}\n" * 2
    assert run("path", "demo") == f"{cache / 'demo' / 'files'}\n"
    assert run("remove", "demo") == "demo removed from the cache\n"
    assert run("remove", "demo") == "demo is not in the cache\n"


def test_path_of_what_is_not_published_says_where_to_put_it() -> None:
    with pytest.raises(AssetError, match=r"derived is not on this machine: Put it into LAMINA_DATA\."):
        run("path", "derived")


def test_get_checks_every_name_before_fetching(cache: Path) -> None:
    with pytest.raises(AssetError, match="no asset 'dem'; did you mean demo"):
        run("get", "demo", "dem")
    assert not cache.exists()


def test_show_has_the_whole_card() -> None:
    shown = run("show", "demo")
    for part in ("a demo corpus", "CC0", "hand-made", "1.5 MB", "the shelf", f"sha256   {'f' * 64}  a", "here     no"):
        assert part in shown
    assert "note" not in shown
    assert "note     Put it into LAMINA_DATA." in run("show", "derived")


def test_the_shell_completes_names() -> None:
    from lamina.cli.machine import complete_name

    assert complete_name("de") == ["demo", "derived"]
    assert complete_name("dem") == ["demo"]
