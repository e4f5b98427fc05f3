"""Making a report: what is asked, what is reused, what is said when a name is wrong."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lamina.errors import InputError
from lamina.report import ANALYSES, choose, make_report
from lamina.report.making import Question


class Named:
    """As much of an encoder or corpus as making a report looks at."""

    def __init__(self, name: str, fingerprint: str) -> None:
        self.name, self.fingerprint, self.split = name, fingerprint, "dev"


@pytest.fixture
def asked(monkeypatch, make_geometry) -> list[str]:
    """Puts a made result in geometry's place; the list grows with every question asked."""
    questions = []

    def ask(encoder, corpus, *, seed, **settings):
        questions.append(encoder.name)
        made = make_geometry(encoder.name, corpus.name)
        provenance = replace(
            made.provenance,
            model={"name": encoder.name, "fingerprint": encoder.fingerprint},
            corpus={"name": corpus.name, "fingerprint": corpus.fingerprint},
            parameters=settings,
            seeds=(seed,),
        )
        return replace(made, provenance=provenance)

    monkeypatch.setitem(ANALYSES, "geometry", Question(ask, {"samples": 10}))
    return questions


def test_the_page_and_the_results_are_written(asked, tmp_path):
    path = make_report(Named("minilm", "f"), Named("ewt", "c"), tmp_path)
    assert path == tmp_path / "index.html"
    assert "<title>minilm on ewt (dev)</title>" in path.read_text(encoding="utf-8")
    kept = {p.name for p in (tmp_path / "results" / "geometry").iterdir()}
    assert kept == {"result.json", "layers.csv", "layers.svg", "layers.vl.json"}


def test_an_answer_for_the_same_inputs_is_reused_and_another_is_not(asked, tmp_path, monkeypatch):
    encoder, corpus = Named("minilm", "f"), Named("ewt", "c")
    first = make_report(encoder, corpus, tmp_path).read_text(encoding="utf-8")
    assert make_report(encoder, corpus, tmp_path).read_text(encoding="utf-8") == first
    assert asked == ["minilm"]
    make_report(encoder, Named("ewt", "other texts"), tmp_path)
    make_report(Named("minilm", "other weights"), corpus, tmp_path)
    monkeypatch.setitem(ANALYSES, "geometry", ANALYSES["geometry"]._replace(settings={"samples": 20}))
    make_report(Named("minilm", "other weights"), corpus, tmp_path)
    assert len(asked) == 4


def test_a_damaged_answer_is_made_again(asked, tmp_path):
    encoder, corpus = Named("minilm", "f"), Named("ewt", "c")
    make_report(encoder, corpus, tmp_path)
    (tmp_path / "results" / "geometry" / "result.json").write_text("{", encoding="utf-8")
    make_report(encoder, corpus, tmp_path)
    assert len(asked) == 2


def test_unknown_names_are_refused_with_the_known_ones():
    with pytest.raises(InputError, match=r"no analysis 'geometri', 'prob'; known: geometry"):
        choose(["geometri", "geometry", "prob"])


def test_none_named_means_all():
    assert choose() == choose([]) == list(ANALYSES)
