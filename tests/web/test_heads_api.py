"""The view Heads over HTTP: what is measured, what is read from results, what is refused."""

from __future__ import annotations

import json

import pytest

import lamina
from lamina.models.static import StaticEncoder
from lamina.testing import SAMPLE_TEXTS, TinyEncoder

SENTENCE = "The dogs that chased the cats barked."


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """A folder with results of the tiny model, and a newer one of another model of the same name."""
    folder = tmp_path_factory.mktemp("results")
    corpus = lamina.corpus_from(SAMPLE_TEXTS, name="samples")
    lamina.attention(TinyEncoder(), corpus, samples=20).save(folder / "attention", charts=False)
    lamina.headmap(TinyEncoder(), corpus, samples=20).save(folder / "headmap", charts=False)
    lamina.attention(TinyEncoder(seed=1, heads=1), corpus, samples=20).save(folder / "namesake", charts=False)
    return folder


def atlas(client, **body) -> dict:
    answer = client.post("/api/heads/atlas", json={"model": "tiny", "sentence": SENTENCE} | body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_every_head_is_measured_on_the_sentence(client):
    found = atlas(client({"tiny": TinyEncoder(blocks=3, heads=4, width=16)}))
    assert (found["layers"], found["heads"]) == (3, 4)
    assert {measure["source"] for measure in found["measures"]} == {"sentence"}
    for measure in found["measures"]:
        values = [value for row in measure["values"] for value in row]
        assert len(values) == 12
        assert (measure["low"], measure["high"]) == (min(values), max(values))
    assert found["missing"] == ["attention", "heads", "corefheads", "headmap"]
    assert found["outstanding"][0]["why"] == "previous token"
    assert found["groups"] == [{"source": "sentence", "title": "On this sentence"}]


def test_saved_results_of_this_very_model_are_measures_too(client, results):
    found = atlas(client(folders=[results]))
    assert {measure["source"] for measure in found["measures"]} == {"sentence", "attention", "headmap"}
    assert [source["name"].split("/")[-1] for source in found["sources"]] == ["attention", "headmap"]
    assert found["missing"] == ["heads", "corefheads"]
    titles = {group["source"]: group["title"] for group in found["groups"]}
    assert list(titles) == ["sentence", "attention", "headmap"]
    assert titles["headmap"] == lamina.headmap.title
    assert {measure["rule"] for measure in found["measures"]} == {"uniform attention"}
    (role,) = [measure for measure in found["measures"] if measure["name"] == "role"]
    assert "broad" in role["names"]


def test_lines_carry_few_numbers_and_lose_nothing(client):
    body = {"model": "tiny", "sentence": SENTENCE, "heads": ["2-1", "1-2"], "level": "piece"}
    found = client().post("/api/heads/lines", json=body).json()
    assert [head["head"] for head in found["heads"]] == ["2-1", "1-2"]
    assert found["sinks"][0]
    assert found["words"][:2] == [-1, 0]
    for head in found["heads"]:
        assert len(head["counts"]) == len(head["rest"]) == len(found["tokens"])
        assert sum(head["counts"]) == len(head["to"]) == len(head["weight"])
        assert sum(head["weight"]) + sum(head["rest"]) == pytest.approx(len(found["tokens"]), abs=0.05)


def test_norm_weighted_maps_and_rollout(client):
    body = {"model": "tiny", "sentence": SENTENCE, "heads": ["rollout", "1-2"], "level": "piece"}
    plain, weighted = (
        client().post("/api/heads/lines", json=body | {"weights": weights}).json() for weights in ("attention", "norm")
    )
    for found, other in ((plain, weighted), (weighted, plain)):
        assert [head["head"] for head in found["heads"]] == ["rollout", "1-2"]
        for head, beside in zip(found["heads"], other["heads"], strict=True):
            assert sum(head["weight"]) + sum(head["rest"]) == pytest.approx(len(found["tokens"]), abs=0.05)
            assert head["weight"] != beside["weight"]
    of_maps = [atlas(client(), weights=weights)["measures"] for weights in ("attention", "norm")]
    assert of_maps[0] != of_maps[1]
    assert [each["baseline"] for each in of_maps[0]] == [each["baseline"] for each in of_maps[1]]


def test_saved_results_are_of_the_maps_that_are_shown(client, results, tmp_path):
    asking = client(folders=[results])
    assert atlas(asking, weights="norm")["missing"] == ["attention", "heads", "corefheads", "headmap"]
    assert asking.post("/api/heads/card", json={"model": "tiny", "head": "2-1", "weights": "norm"}).json()["role"] == ""
    corpus = lamina.corpus_from(SAMPLE_TEXTS, name="samples")
    lamina.attention(TinyEncoder(), corpus, samples=20, weights="norm").save(tmp_path / "norm", charts=False)
    both = client(folders=[results, tmp_path])
    assert [each["name"].split("/")[-1] for each in atlas(both, weights="norm")["sources"]] == ["norm"]
    assert [each["name"].split("/")[-1] for each in atlas(both)["sources"]] == ["attention", "headmap"]


def test_words_and_pieces(client):
    body = {"model": "tiny", "sentence": "unhesitating dogs", "heads": ["1-1"]}
    words = client().post("/api/heads/lines", json=body).json()["tokens"]
    pieces = client().post("/api/heads/lines", json=body | {"level": "piece"}).json()["tokens"]
    assert words == ["[special]", "unhesitating", "dogs", "[special]"]
    assert len(pieces) == 8


def test_a_card_says_what_results_say(client, results):
    found = client(folders=[results]).post("/api/heads/card", json={"model": "tiny", "head": "2-1"}).json()
    assert found["head"] == "2-1"
    assert found["role"]
    assert all(row["unit"] and row["rule"] for row in found["behaviours"])
    # Each with the status of its test, so that the page does not call open what was shown.
    assert {row["status"] for row in found["behaviours"]} <= {"clear", "open", "untested"}
    assert len(found["neighbours"]) == 3
    assert len(found["points"]) == 4
    assert {row["of"] for row in found["pattern"]} == {4}
    assert found["relations"] == found["coreference"] == []


def test_a_card_begins_with_a_sentence_and_three_rows(client, results):
    found = client(folders=[results]).post("/api/heads/card", json={"model": "tiny", "head": "2-1"}).json()
    assert found["says"].endswith(".")
    finds, looks, matters = found["evidence"]
    assert [row["kind"] for row in found["evidence"]] == ["finds", "looks", "matters"]
    assert (finds["status"], finds["needs"], finds["value"]) == ("missing", ["heads"], None)
    assert matters["needs"] == ["roles", "ablate"]
    # The number of the row is that of the saved table.
    (own,) = (row for row in found["pattern"] if row["title"] == looks["title"])
    assert [looks[name] for name in ("value", "low", "high")] == pytest.approx(
        [own[name] for name in ("value", "low", "high")], abs=1e-4
    )
    assert looks["beside"] == pytest.approx(own["baseline"], abs=1e-4)


def test_the_best_examples_are_the_strongest_links_of_the_corpus(client, pets):
    asking = client(corpora=(str(pets),))
    found = asking.post("/api/heads/examples", json={"model": "tiny", "head": "2-1"}).json()
    assert (found["corpus"], found["sentences"], found["sought"]) == ("pets", 8, "between any two words")
    weights = [each["weight"] for each in found["examples"]]
    assert len(weights) == 5
    assert weights == sorted(weights, reverse=True)
    best = found["examples"][0]
    lines = asking.post(
        "/api/heads/lines", json={"model": "tiny", "sentence": " ".join(best["words"]), "heads": ["2-1"]}
    ).json()
    row = 1 + best["source"]  # after the special token
    start = sum(lines["heads"][0]["counts"][:row])
    links = dict(
        zip(
            lines["heads"][0]["to"][start : start + lines["heads"][0]["counts"][row]],
            lines["heads"][0]["weight"][start:],
            strict=False,
        )
    )
    assert links[1 + best["target"]] == pytest.approx(best["weight"], abs=1e-4)


def test_a_head_is_seen_to_fail_at_the_relation_that_is_asked_for(client, pets):
    asking = client(corpora=(str(pets),))
    known = asking.post("/api/heads/examples", json={"model": "tiny", "head": "2-1"}).json()
    assert (known["relation"], known["targets"], known["misses"]) == ("", 0, [])
    body = {"model": "tiny", "head": "2-1", "relation": "dobj"}
    found = asking.post("/api/heads/examples", json=body).json()
    assert (found["sought"], found["attends"], found["targets"]) == ("from a word to its head by dobj", True, 8)
    assert len(found["misses"]) == min(5, found["targets"] - found["hits"]) > 0
    for miss in found["misses"]:
        assert (miss["word"], miss["right"], miss["relation"]) == (2, 1, "dobj")
        lines = asking.post("/api/heads/lines", json={"model": "tiny", "sentence": miss["words"], "heads": ["2-1"]})
        drawn = weights_of(lines.json(), miss["word"])
        words = {at: weight for at, weight in drawn.items() if at not in (-1, miss["word"])}
        assert max(words, key=words.get) == miss["chosen"] != miss["right"]
        assert words[miss["chosen"]] == pytest.approx(miss["weight"], abs=1e-4)
        assert words.get(miss["right"], 0) == pytest.approx(miss["right_weight"], abs=0.01)
    assert asking.post("/api/heads/examples", json=body | {"relation": "nothing"}).json()["examples"] == []
    assert asking.post("/api/heads/examples", json=body | {"relation": "x" * 101}).status_code == 422


def weights_of(lines: dict, word: int) -> dict[int, float]:
    """Where a word looks: number of the word attended to (-1 for special tokens) -> weight."""
    (links,), row = lines["heads"], lines["words"].index(word)
    start = sum(links["counts"][:row])
    end = start + links["counts"][row]
    places = [lines["words"][at] for at in links["to"][start:end]]
    return dict(zip(places, links["weight"][start:end], strict=True))


def test_words_of_a_corpus_are_not_split_again(client):
    body = {"model": "tiny", "sentence": ["don't", "U.S.", "x y"], "heads": ["1-1"]}
    found = client().post("/api/heads/lines", json=body).json()
    assert found["tokens"] == ["[special]", "don't", "U.S.", "x y", "[special]"]
    for wrong in ([], ["a", " "], ["a", ""], ["a"] * 513, ["x" * 1001], ["a", None]):
        answer = client().post("/api/heads/lines", json=body | {"sentence": wrong})
        assert answer.status_code in (400, 422), answer.text


def test_a_card_without_results_says_what_is_missing(client):
    found = client().post("/api/heads/card", json={"model": "tiny", "head": "1-1"}).json()
    assert found["missing"] == ["attention", "heads", "corefheads", "headmap"]
    assert found["role"] == ""


@pytest.mark.parametrize(
    ("sentence", "code", "why"),
    [
        ("   ", 400, "no words"),
        ("word " * 600, 400, "at most 512"),
        ("\ud800", 422, "unpaired surrogate"),
        ("x" * 20_001, 413, "characters"),
    ],
    ids=["blank", "long", "broken", "huge"],
)
@pytest.mark.parametrize("path", ["atlas", "lines"])
def test_sentences_that_cannot_be_looked_at(client, path, sentence, code, why):
    body = {"model": "tiny", "sentence": sentence} | ({"heads": ["1-1"]} if path == "lines" else {})
    # By hand: the client's own JSON cannot hold an unpaired surrogate.
    answer = client().post(f"/api/heads/{path}", content=json.dumps(body), headers={"content-type": "application/json"})
    assert (answer.status_code, why in answer.json()["error"]) == (code, True), answer.text


@pytest.mark.parametrize(
    ("head", "code"), [("3-1", 400), ("1-0", 400), ("9999-9999", 400), ("1", 422), ("-1-1", 422), ("1-1\n", 422)]
)
def test_heads_that_are_not_there(client, head, code):
    assert client().post("/api/heads/card", json={"model": "tiny", "head": head}).status_code == code
    body = {"model": "tiny", "sentence": SENTENCE, "heads": [head]}
    assert client().post("/api/heads/lines", json=body).status_code == code


@pytest.mark.parametrize("count", [0, 7])
def test_one_to_six_heads_at_once(client, count):
    body = {"model": "tiny", "sentence": SENTENCE, "heads": ["1-1"] * count}
    assert client().post("/api/heads/lines", json=body).status_code == 422


def test_models_without_heads_are_told_apart(client, tmp_path):
    vectors = tmp_path / "vectors.txt"
    vectors.write_text("dogs 1 2\nbarked 3 4\n", encoding="utf-8")
    asking = client({"vectors": StaticEncoder.read(vectors, name="vectors")})
    for path, more in (("atlas", {"sentence": SENTENCE}), ("lines", {"sentence": SENTENCE, "heads": ["1-1"]})):
        answer = asking.post(f"/api/heads/{path}", json={"model": "vectors"} | more)
        assert (answer.status_code, "no attention heads" in answer.json()["error"]) == (400, True), answer.text
    assert asking.post("/api/heads/card", json={"model": "vectors", "head": "1-1"}).status_code == 400
    assert asking.post("/api/heads/card", json={"model": "other", "head": "1-1"}).status_code == 404


def test_the_page_has_what_its_script_fills(client):
    page = client().get("/heads").text
    for id in (
        "atlas",
        "measure",
        "weights",
        "legend",
        "lines",
        "links",
        "card",
        "examples",
        "chosen",
        "missing",
        "least",
    ):
        assert f'id="{id}"' in page
