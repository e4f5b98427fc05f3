"""SyntaxGym's suites: how regions become sentences, and what is wrong with a file, said with its place."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lamina.corpora.suites import read_suite
from lamina.corpora.suites.syntaxgym import RegionSuites, read_region_suites
from lamina.errors import CorpusError, FormatError, InputError


def suite(name: str = "number_own", items: int = 2) -> dict[str, Any]:
    """Sentences in three regions, the second of which is empty in one condition."""

    def condition(called: str, *contents: str) -> dict[str, Any]:
        regions = [{"region_number": number, "content": text} for number, text in enumerate(contents, start=1)]
        return {"condition_name": called, "regions": regions}

    return {
        "meta": {"name": name, "metric": "sum"},
        "region_meta": {"1": "subject", "2": "comma", "3": "rest"},
        "predictions": [{"type": "formula", "formula": "(3;%good%) < (3;%bad%)"}],
        "items": [
            {
                "item_number": number,
                "conditions": [condition("good", " The  dog", "", "barks ."), condition("bad", "The dog", ",", "bark")],
            }
            for number in range(1, items + 1)
        ],
    }


def write(path: Path, made: Any) -> Path:
    path.write_text(made if isinstance(made, str) else json.dumps(made))
    return path


def test_regions_are_joined_by_single_spaces(tmp_path: Path) -> None:
    item = read_region_suites(write(tmp_path / "own.json", suite())).items[0]
    assert {name: item.text(name) for name in item.sentences} == {"good": "The dog barks .", "bad": "The dog , bark"}
    assert item.parts("good") == ["The dog", "", " barks ."]
    assert (item.item, item.field, item.term, item.chance) == ("number_own/1", "syntaxgym", "agreement", 0.5)


def test_a_folder_of_suites_beside_other_files(tmp_path: Path) -> None:
    tagged = suite("b", items=3)
    tagged["meta"]["tags"] = ["filler-gap"]
    write(tmp_path / "b.json", tagged)
    write(tmp_path / "a.json", suite("npi_a"))
    write(tmp_path / "package.json", {"name": "nothing"})
    (tmp_path / "LICENSE").write_text("MIT")
    read = read_suite(tmp_path)
    assert isinstance(read, RegionSuites)
    assert (len(read), read.paradigms, read.left_out) == (5, ("npi_a", "b"), {"JSON files without a suite": 1})
    assert read.take(2).left_out["items beyond the first 2 of a suite"] == 1
    assert [item.item for item in read.only(["licensing"])] == ["npi_a/1", "npi_a/2"]
    assert len(read.only(["filler-gap"])) == 3
    assert len({read.fingerprint, read.take(2).fingerprint, read.only(["b"]).fingerprint}) == 3
    with pytest.raises(InputError, match="no suite or circuit 'islands'; it has b, filler-gap, licensing"):
        read.only(["islands"])


def test_predictions_that_contradict_earlier_ones_are_left_out(tmp_path: Path) -> None:
    made = suite()
    made["predictions"].append({"type": "formula", "formula": "(3;%good%) = (3;%bad%)"})
    read = read_region_suites(write(tmp_path / "own.json", made))
    assert list(read.left_out.values()) == [1]
    assert len(read.items[0].predictions) == 1


def changed(change: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
    made = copy.deepcopy(suite())
    change(made)
    return made


FAULTS = {
    "formula": (
        changed(lambda made: made["predictions"].append({"formula": "(3;%good%) < [(3;%bad%)"})),
        r"suite number_own: formula 2, at character 24: expected .* closing ], found the end",
    ),
    "condition": (
        changed(lambda made: made["items"][1]["conditions"].pop()),
        r"suite number_own, item 2: formula 1 names condition 'bad', which the item lacks; it has good",
    ),
    "region": (
        changed(lambda made: made["items"][0]["conditions"][1]["regions"].pop()),
        r"suite number_own, item 1, condition bad: formula 1 names region 3, which the condition lacks; it has 1, 2",
    ),
    "undeclared": (
        changed(lambda made: made["region_meta"].pop("2")),
        r"item 1, condition good: region 2 is not in region_meta \(1, 3\)",
    ),
    "metric": (changed(lambda made: made["meta"].update(metric="all")), r"unknown metric 'all'; use one of sum, mean"),
    "twice": (changed(lambda made: made["items"][1].update(item_number=1)), r"item 1: a second item has this number"),
    "empty": (changed(lambda made: made.update(items=[])), r"it has no items"),
    "content": (
        changed(lambda made: made["items"][0]["conditions"][0]["regions"][0].pop("content")),
        r"item 1, condition good, region 1: 'content' is missing",
    ),
    "json": ('{"meta": {}, "predictions": [], "items": [}', r"own.json:1: not JSON"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_are_placed(tmp_path: Path, fault: str) -> None:
    made, said = FAULTS[fault]
    with pytest.raises(FormatError, match=said):
        read_suite(write(tmp_path / "own.json", made))


def test_names_of_suites_differ(tmp_path: Path) -> None:
    write(tmp_path / "a.json", suite("same"))
    write(tmp_path / "b.json", suite("same"))
    with pytest.raises(FormatError, match=r"suite same: a.json has that name too"):
        read_region_suites(tmp_path)
    with pytest.raises(CorpusError, match="holds no suite of regions"):
        read_region_suites(write(tmp_path / "c.json", {"name": "nothing"}))


def test_the_published_suites(data_dir: Path) -> None:
    read = read_region_suites(data_dir / "syntaxgym")
    chances = {item.paradigm: round(item.chance, 2) for item in read}
    assert (len(read), len(chances), dict(read.left_out)) == (477, 20, {})
    assert {name: chances[name] for name in ("center_embed", "mvrr", "npi_orc_any", "number_src", "subordination")} == {
        "center_embed": 0.5,
        "mvrr": 0.29,
        "npi_orc_any": 0.21,
        "number_src": 0.25,
        "subordination": 0.25,
    }
    assert {item.term for item in read} == {
        "agreement",
        "center_embedding",
        "garden_path_effects",
        "gross_syntactic_state",
        "licensing",
        "long_distance_dependencies",
    }
