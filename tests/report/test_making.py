"""Making a report: a tiny model and a few sentences in, a page and its results out."""

from __future__ import annotations

import json

import pytest

from lamina import analyses
from lamina.corpora import corpus_from
from lamina.errors import InputError
from lamina.report import ANALYSES, choose, make_report
from lamina.testing import TinyEncoder

SENTENCES = [["the", "dog", "saw", "the", "cat"], ["the", "cat", "ran"], ["a", "dog", "ran"]] * 4


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


def test_every_analysis_of_the_report_is_a_function_of_analyses():
    assert all(callable(getattr(analyses, name)) for name in ANALYSES)


def test_unknown_names_are_refused_with_the_known_ones():
    with pytest.raises(InputError, match=r"no analysis 'geometri', 'prob'; known: geometry"):
        choose(["geometri", "geometry", "prob"])


def test_none_named_means_all():
    assert choose() == choose([]) == list(ANALYSES)
