"""Making a report: a tiny model and a few sentences in, a page and its results out."""

from __future__ import annotations

import json
from html import unescape

import pytest

from lamina.activations import Runtime
from lamina.cli.results import saved_words
from lamina.corpora import corpus_from
from lamina.errors import CorpusError, InputError, ResultError, TaskError
from lamina.figures import geometry
from lamina.framework.outline import outline
from lamina.framework.registry import get_analysis
from lamina.framework.verify import check_findings, check_words
from lamina.models.checks.passports import passport_of
from lamina.report import choose, make_report
from lamina.report import page as growing
from lamina.report import report as making
from lamina.report.page import ReportPage
from lamina.results import Result
from lamina.testing import TinyEncoder
from lamina.types import Edge, Span, Text

SENTENCES = [["the", "dog", "saw", "the", "cat"], ["the", "cat", "ran"], ["a", "dog", "ran"]] * 4


@pytest.fixture(scope="module", autouse=True)
def _few_questions():
    """What every analysis answers is tested elsewhere; here a few of them stand for all, and one panel for a chart."""
    few = {name: outline(name) for name in ("geometry", "probe", "heads")}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(making, "in_report", lambda: few)
        patch.setattr(geometry, "PANELS", geometry.PANELS[:1])
        yield


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Makes a page of a tiny model; made once for all tests that do not change it, since reuse is what it does."""
    folder, corpus = tmp_path_factory.mktemp("made"), corpus_from(SENTENCES, name="pets")

    def make(encoder=None, **more):
        return make_report(
            encoder or TinyEncoder(), corpus, folder / "report", runtime=Runtime(folder / "store"), **more
        )

    return make


def test_the_page_and_the_results_are_written(made):
    path = made()
    assert path.name == "index.html"
    assert "<title>tiny on pets" in path.read_text(encoding="utf-8")
    kept = {file.name for file in (path.parent / "results" / "geometry").iterdir()}
    assert kept == {
        "result.json",
        "layers.csv",
        "contrasts.csv",
        "draws.parquet",
        "layers.svg",
        "layers.vl.json",
        "measure.svg",
        "measure.vl.json",
    }


def test_a_loaded_model_has_its_precision(made):
    with pytest.raises(InputError, match="dtype is for a model given by name"):
        made(dtype="bfloat16")


def test_a_damaged_answer_is_made_again(made):
    head = made().parent / "results" / "geometry" / "result.json"
    (head.parent / "layers.csv").unlink()
    made()
    assert json.loads(head.read_text(encoding="utf-8"))["analysis"] == "geometry"


def test_an_answer_for_the_same_inputs_is_reused_and_another_is_not(made):
    path = made()
    first = path.read_text(encoding="utf-8")
    head = path.parent / "results" / "geometry" / "result.json"
    stamp = head.stat().st_mtime_ns
    assert made().read_text(encoding="utf-8") == first
    assert head.stat().st_mtime_ns == stamp
    with pytest.raises(ResultError, match="holds another result"):
        made(TinyEncoder(seed=1))
    assert head.stat().st_mtime_ns == stamp
    made(TinyEncoder(seed=1), replace=True)
    assert head.stat().st_mtime_ns != stamp
    made(replace=True)
    assert json.loads(head.read_text(encoding="utf-8"))["provenance"]["model"]["name"] == "tiny"


def test_unknown_names_are_refused_with_the_known_ones():
    with pytest.raises(InputError, match=r"no analysis 'geometri', 'prob'; it has: geometry, probe"):
        choose(["geometri", "geometry", "prob"])


def test_none_named_means_all():
    assert choose() == choose([]) == list(making.in_report())


def test_a_chapter_stands_for_its_analyses_and_some_can_be_left_out():
    assert choose(["layers"]) == ["geometry"]
    assert choose(without=["probe", "layers"]) == ["heads"]
    # An analysis goes before the chapter of its name.
    assert choose(["heads"]) == ["heads"]
    with pytest.raises(InputError, match="no analysis 'prob'; it has: geometry, probe, heads; in the chapters: layers"):
        choose(without=["prob"])
    with pytest.raises(InputError, match="no analysis is left"):
        choose(["probe"], without=["abilities"])


def annotated(count: int, split: str):
    """Short sentences with tags, each a document of its own."""
    words = [["the", f"dog{number}", "saw", "a", f"cat{number + 1}"] for number in range(count)]
    texts = [(each, {"pos": ["DET", "NOUN", "VERB", "DET", "NOUN"]}) for each in words]
    return corpus_from(texts, name="pets", split=split)


def test_a_corpus_without_tasks_is_not_probed_and_the_page_says_why(made, tmp_path):
    page = made()
    text = page.read_text(encoding="utf-8")
    assert "Edge probing is left out: pets is too small to be cut into train and dev" in text
    assert not (page.parent / "results" / "probe").exists()


def test_asked_for_by_name_what_cannot_be_answered_is_an_error(tmp_path):
    bare = corpus_from(SENTENCES, name="pets")
    with pytest.raises(TaskError, match="carries no task"):
        make_report(TinyEncoder(), (bare, bare), tmp_path, only=["probe"], runtime=Runtime(tmp_path / "store"))
    with pytest.raises(CorpusError, match="too small to be cut"):
        make_report(TinyEncoder(), bare.take(2), tmp_path, only=["probe"], runtime=Runtime(tmp_path / "store"))


@pytest.mark.usefixtures("hasty_probes")
def test_probing_is_on_the_page_where_there_are_tasks_and_training_texts(tmp_path, monkeypatch):
    monkeypatch.setenv("LAMINA_CACHE", str(tmp_path / "cache"))
    settings = {"preset": "quick", "probes": ("layer",), "seeds": 1, "samples": 20}
    monkeypatch.setattr(get_analysis("probe"), "report", settings)
    data = {"train": annotated(60, "train"), "dev": annotated(12, "dev")}
    page = make_report(TinyEncoder(), data, tmp_path / "report", runtime=Runtime(tmp_path / "store"))
    text = page.read_text(encoding="utf-8")
    assert "Geometry of the layers" in text
    assert 'id="probe-curves-spec"' in text
    assert "Edge probing is left out" not in text
    assert "Heads that find dependencies is left out: pets has no dependencies" in text
    assert (tmp_path / "report" / "results" / "probe" / "scores.csv").is_file()
    for folder in (tmp_path / "report" / "results").iterdir():
        result = Result.load(folder)
        assert check_findings(result) == []
        assert check_words(result, saved_words(folder, result)) == []


def test_what_was_found_stands_on_top(made):
    page = made()
    head = json.loads((page.parent / "results" / "geometry" / "result.json").read_text(encoding="utf-8"))
    text = unescape(page.read_text(encoding="utf-8"))
    assert head["findings"]
    on_top = text[text.index('class="further"') : text.index('class="chapter"')]
    for finding in head["findings"]:
        assert finding["text"] in on_top


def test_analyses_that_watch_maps_share_one_pass(tmp_path, monkeypatch):
    """One pass of the encoder over the maps of each text, however many analyses look."""
    chosen = {name: outline(name) for name in ("geometry", "attention", "heads", "headmap")}
    for name in chosen:
        monkeypatch.setattr(get_analysis(name), "report", {"samples": 5})
    monkeypatch.setattr(making, "in_report", lambda: chosen)
    monkeypatch.setattr(Result, "charts", lambda self: {})
    seen = []

    class Counted(TinyEncoder):
        def encode(self, texts, want=("states",), *, ordered=True):
            for made in super().encode(texts, want, ordered=ordered):
                if "maps" in want:
                    seen.append(made.text)
                yield made

    edges = (Edge(("nsubj",), Span(0, 1), Span(1, 2)), Edge(("obj",), Span(2, 3), Span(1, 2)))
    texts = [Text(f"t{n}", ("dogs", "see", f"cat{n}"), edges={"dep": edges}, doc=f"d{n}") for n in range(20)]
    corpus = corpus_from(texts, name="pets")
    encoder = Counted()
    encoder.passport = passport_of(TinyEncoder())  # what it encodes to be examined is not counted
    make_report(encoder, corpus, tmp_path / "report", runtime=Runtime(tmp_path / "store"))
    examples = len(seen) - len(texts)
    assert len(seen) >= len(texts)
    # Besides the one pass, heads shows a few sentences again as examples.
    assert examples <= 12


def test_the_page_is_there_after_the_first_analysis_and_stays_when_a_run_is_stopped(tmp_path, monkeypatch):
    """Growth: written after each analysis that was computed, and left with what is missing."""
    monkeypatch.setattr(growing, "_REUSED", 0.0)
    seen = []
    write = ReportPage.write

    def watched(self, results, **more):
        seen.append(([each.analysis for each in results], [each.title for each in more.get("coming", ())]))
        return write(self, results, **more)

    monkeypatch.setattr(ReportPage, "write", watched)
    few = {name: outline(name) for name in ("geometry", "heads")}
    monkeypatch.setattr(making, "in_report", lambda: few)
    monkeypatch.setattr(Result, "charts", lambda self: {})
    monkeypatch.setattr(making.ReportRun, "question", _stopping(making.ReportRun.question))
    with pytest.raises(KeyboardInterrupt):
        make_report(TinyEncoder(), corpus_from(SENTENCES, name="pets"), tmp_path, runtime=Runtime(tmp_path / "store"))
    assert seen == [(["geometry"], ["Heads that find dependencies"])] * 2
    text = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert "This run was stopped" in text
    assert "Missing: Heads that find dependencies" in text


def _stopping(question):
    """Somebody presses Ctrl-C at the second analysis."""

    def asked(self, name, *more):
        if name == "heads":
            raise KeyboardInterrupt
        return question(self, name, *more)

    return asked
