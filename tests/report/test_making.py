"""Making a report: a tiny model and a few sentences in, a page and its results out."""

from __future__ import annotations

import json

import pytest

from lamina.corpora import corpus_from
from lamina.errors import CorpusError, InputError, TaskError
from lamina.figures import geometry
from lamina.report import choose, make_report, making
from lamina.testing import TinyEncoder

SENTENCES = [["the", "dog", "saw", "the", "cat"], ["the", "cat", "ran"], ["a", "dog", "ran"]] * 4


@pytest.fixture(scope="module", autouse=True)
def _few_questions():
    """What every analysis answers is tested elsewhere; here a few of them stand for all, and one panel for a chart."""
    few = {name: making.ANALYSES[name] for name in ("geometry", "probe", "heads")}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(making, "ANALYSES", few)
        patch.setattr(geometry, "PANELS", geometry.PANELS[:1])
        yield


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Makes a page of a tiny model; made once for all tests that do not change it, since reuse is what it does."""
    folder, corpus = tmp_path_factory.mktemp("made"), corpus_from(SENTENCES, name="pets")

    def make(encoder=None):
        return make_report(encoder or TinyEncoder(), corpus, folder / "report", root=folder / "store")

    return make


def test_the_page_and_the_results_are_written(made):
    path = made()
    assert path.name == "index.html"
    assert "<title>tiny on pets" in path.read_text(encoding="utf-8")
    kept = {file.name for file in (path.parent / "results" / "geometry").iterdir()}
    assert kept == {"result.json", "layers.csv", "layers.svg", "layers.vl.json"}


def test_a_damaged_answer_is_made_again(made):
    head = made().parent / "results" / "geometry" / "result.json"
    head.write_text("{", encoding="utf-8")
    made()
    assert json.loads(head.read_text(encoding="utf-8"))["analysis"] == "geometry"


def test_an_answer_for_the_same_inputs_is_reused_and_another_is_not(made):
    path = made()
    first = path.read_text(encoding="utf-8")
    head = path.parent / "results" / "geometry" / "result.json"
    stamp = head.stat().st_mtime_ns
    assert made().read_text(encoding="utf-8") == first
    assert head.stat().st_mtime_ns == stamp
    made(TinyEncoder(seed=1))
    assert head.stat().st_mtime_ns != stamp
    assert json.loads(head.read_text(encoding="utf-8"))["provenance"]["model"]["name"] == "tiny"


def test_unknown_names_are_refused_with_the_known_ones():
    with pytest.raises(InputError, match=r"no analysis 'geometri', 'prob'; known: geometry, probe"):
        choose(["geometri", "geometry", "prob"])


def test_none_named_means_all():
    assert choose() == choose([]) == list(making.ANALYSES)


def annotated(count: int, split: str):
    """Short sentences with tags, each a document of its own."""
    words = [["the", f"dog{number}", "saw", "a", f"cat{number + 1}"] for number in range(count)]
    texts = [(each, {"pos": ["DET", "NOUN", "VERB", "DET", "NOUN"]}) for each in words]
    return corpus_from(texts, name="pets", split=split)


def test_a_corpus_without_tasks_or_training_texts_is_not_probed_and_the_page_says_why(made, tmp_path):
    assert "Edge probing is left out: pets has no training texts apart from those" in made().read_text(encoding="utf-8")
    bare = corpus_from(SENTENCES, name="pets")
    page = make_report(TinyEncoder(), bare, tmp_path / "bare", train=bare, root=tmp_path / "store")
    assert "Edge probing is left out: pets carries no task" in page.read_text(encoding="utf-8")
    assert not (tmp_path / "bare" / "results" / "probe").exists()


def test_asked_for_by_name_what_cannot_be_answered_is_an_error(tmp_path):
    bare = corpus_from(SENTENCES, name="pets")
    with pytest.raises(CorpusError, match="no training texts"):
        make_report(TinyEncoder(), bare, tmp_path, only=["probe"], root=tmp_path / "store")
    with pytest.raises(TaskError, match="carries no task"):
        make_report(TinyEncoder(), bare, tmp_path, only=["probe"], train=bare, root=tmp_path / "store")


@pytest.mark.usefixtures("hasty_probes")
def test_probing_is_on_the_page_where_there_are_tasks_and_training_texts(tmp_path, monkeypatch):
    monkeypatch.setenv("LAMINA_CACHE", str(tmp_path / "cache"))
    monkeypatch.setitem(making.ANALYSES, "probe", {"preset": "quick", "probes": ("layer",), "seeds": 1, "samples": 20})
    given = {"train": annotated(60, "train"), "root": tmp_path / "store"}
    page = make_report(TinyEncoder(), annotated(12, "dev"), tmp_path / "report", **given)
    text = page.read_text(encoding="utf-8")
    assert "Geometry of the layers" in text
    assert 'id="r2-probe-curves-spec"' in text
    assert "Edge probing is left out" not in text
    assert "Heads that find dependencies is left out: pets has no dependencies" in text
    assert (tmp_path / "report" / "results" / "probe" / "scores.csv").is_file()
