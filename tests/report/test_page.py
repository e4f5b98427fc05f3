"""The page: light, safe with any name, complete in what it says, and whole with --single-file."""

from __future__ import annotations

import base64
import csv
import errno
import io
import json
import os
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from lamina.errors import ResultError, WriteError
from lamina.figures import captions_of
from lamina.files.checking import list_files, write_json
from lamina.framework.registry import names
from lamina.report import write_report
from lamina.report.chapters import how_sure, strongest, words_of
from lamina.report.page import PendingAnalysis, ReportPage
from lamina.results import Provenance, Result
from lamina.results.finding import Finding
from lamina.results.folder import read_head


class Page(HTMLParser):
    """Every start tag with its attributes, and the text of scripts by id."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.specs: dict[str, str] = {}
        self.words = ""
        self._open: str | None = None
        self.html = path.read_text(encoding="utf-8")
        self.feed(self.html)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag in {"script", "style"}:
            self._open = dict(attrs).get("id") or ""

    def handle_endtag(self, tag):
        self._open = None

    def handle_data(self, data):
        if self._open is None:
            self.words += data
        elif self._open:
            self.specs[self._open] = self.specs.get(self._open, "") + data

    def every(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


@pytest.fixture(scope="module")
def page(make_geometry, tmp_path_factory) -> Page:
    return Page(write_report([make_geometry()], tmp_path_factory.mktemp("report"), title="minilm on ewt (dev)"))


@pytest.fixture
def small(make_geometry) -> Result:
    """A result that is drawn quickly, where it does not matter what it shows."""
    return make_geometry(measures=["anisotropy"])


def test_nothing_is_loaded_from_elsewhere(page):
    addresses = [
        value for _, attributes in page.tags for name, value in attributes.items() if name in {"src", "href", "srcset"}
    ]
    assert addresses
    beside = ("figures/", "tables/")
    assert all(address is not None and address.startswith(("data:", "#", *beside)) for address in addresses)
    assert not re.search(r"url\((?!['\"]?data:)|@import", page.html.split("</style>")[0])
    (policy,) = [m["content"] for m in page.every("meta") if m.get("http-equiv") == "Content-Security-Policy"]
    assert policy is not None
    assert policy.startswith("default-src 'none'")


def test_a_single_file_has_everything_in_it(small, tmp_path):
    page = Page(write_report([small], tmp_path, title="t", single_file=True))
    addresses = [value or "" for _, each in page.tags for name, value in each.items() if name in {"src", "href"}]
    assert all(address.startswith(("data:", "#")) for address in addresses)
    assert [path.name for path in tmp_path.iterdir()] == ["index.html"]
    (link,) = [a for a in page.every("a") if a.get("download") and (a["href"] or "").startswith("data:")][:1]
    rows = list(csv.DictReader(io.StringIO(base64.b64decode((link["href"] or "").partition("base64,")[2]).decode())))
    assert [float(row["value"]) for row in rows] == small.tables["layers"]["value"].tolist()


def test_scripts_cannot_end_early(page):
    assert page.html.count("</script>") == len(page.every("script")) == 4


def test_every_chart_has_its_words_table_method_and_provenance(page):
    (still,) = page.every("img")
    assert still["alt"] is not None
    assert still["alt"].startswith("Anisotropy: minilm 0.05 at layer 0")
    # The chart's words are for every reader.
    assert page.words.count(still["alt"]) == 1
    for expected in (*words_of("geometry"), captions_of("geometry")["layers"], "f" * 64, "c" * 64):
        assert expected in page.words
    assert "word types seen fewer than 5 times: 4,120" in page.words
    assert "texts too long" not in page.words
    assert "lamina report minilm --corpus ewt --out report" in page.words


def test_the_csv_beside_the_page_is_the_whole_table(small, tmp_path):
    page = Page(write_report([small], tmp_path, title="t"))
    links = {link["href"] for link in page.every("a") if link.get("download") == "geometry-layers.csv"}
    (address,) = links
    rows = list(csv.DictReader(io.StringIO((tmp_path / str(address)).read_text(encoding="utf-8"))))
    assert [float(row["value"]) for row in rows] == small.tables["layers"]["value"].tolist()


def test_a_result_saved_beside_the_page_is_linked_not_copied(small, tmp_path):
    folder = small.save(tmp_path / "results" / "geometry")
    page = Page(write_report([small], tmp_path, title="t", folders=[folder]))
    links = {link["href"] for link in page.every("a") if link.get("download")}
    assert links == {"results/geometry/layers.csv"}
    assert not (tmp_path / "tables").exists()


def test_the_spec_on_the_page_is_the_chart(page, make_geometry):
    assert json.loads(page.specs["geometry-layers-spec"]) == make_geometry().chart().to_dict()


def test_names_are_shown_as_text_whatever_they_are(make_geometry, tmp_path):
    name = "</script><script>alert(1)</script><img src=x>"
    page = Page(write_report([make_geometry(model=name, measures=["anisotropy"])], tmp_path, title=f"{name} on ewt"))
    assert len(page.every("script")) == 4
    assert len(page.every("img")) == 1
    assert f"{name} on ewt" in page.words
    assert name in json.loads(page.specs["geometry-layers-spec"])["title"]["text"]


def plain(table: pd.DataFrame, **said) -> Result:
    provenance = Provenance({"name": "m", "fingerprint": "f"}, {"name": "c", "fingerprint": "g"}, {}, **said)
    return Result("head_roles", {"scores": table}, provenance)


def test_an_analysis_without_chart_or_words_still_shows_its_table(tmp_path):
    page = Page(write_report([plain(pd.DataFrame({"p": [0.0, 1e-9, 0.25, np.nan]}))], tmp_path, title="t"))
    assert "Head roles" in page.words
    assert "Left out: nothing." in page.words
    assert re.findall("<td>(.*?)</td>", page.html)[-4:] == ["0.0000", "1e-09", "0.2500", ""]
    assert "vegaEmbed=" not in page.html


def test_a_long_table_is_cut_on_the_page_and_whole_in_its_csv(tmp_path):
    page = Page(write_report([plain(pd.DataFrame({"n": range(2000)}))], tmp_path, title="t"))
    assert page.html.count("<tr><td>") == 10
    assert "2,000 rows" in page.words
    assert "the first 10 are shown" in page.words
    assert len((tmp_path / "tables" / "head_roles-scores.csv").read_text(encoding="utf-8").split()) == 2001


def test_several_results_have_contents_and_distinct_ids(small, tmp_path):
    page = Page(write_report([small, small], tmp_path, title="two"))
    ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    targets = [a["href"] for a in page.every("a") if (a["href"] or "").startswith("#")]
    assert targets == ["#overview", "#layers", "#appendix"]
    assert {target[1:] for target in targets if target} <= set(ids)


def test_findings_are_told_strongest_first_with_a_link_to_their_chapter(small, tmp_path):
    clear = Finding("Surely", "lead", "clear", 0.4, 0.3, 0.5, 0.01, 12, "document")
    unsure = Finding("it holds", "lead", "open", 0.1, -0.1, 0.3, 0.4, 12, "document")
    first = replace(small, findings=(unsure,))
    # An analysis that nobody declares has no chart, and is in the last chapter.
    second = replace(plain(pd.DataFrame({"n": [1]})), findings=(clear,))
    page = Page(write_report([first, second], tmp_path, title="t"))
    on_top = page.html[page.html.index('class="further"') : page.html.index('class="chapter"')]
    assert on_top.index("Surely (lead .40 [.30, .50]).") < on_top.index("It is not known whether it holds")
    assert 'href="#answering"' in on_top
    assert "The headline was tested by its lead: .40 [.30, .50], p = .010 after correction" in page.words
    assert "over 12 documents" in page.words


def test_among_clear_findings_the_most_important_one_heads_the_chapter(small, tmp_path):
    plain_one = Finding("Plain", "lead", "clear", 0.4, 0.3, 0.5, 0.01)
    answer = replace(plain_one, claim="Answer", importance=("answers",))
    page = Page(write_report([replace(small, findings=(plain_one, answer))], tmp_path, title="t"))
    on_top = page.html[page.html.index('class="further"') : page.html.index('class="chapter"')]
    assert on_top.index("Answer") < on_top.index("Plain")


def test_how_sure_says_warnings_and_what_has_no_interval():
    about = Provenance({}, {}, {}, warnings=("Small sample: 9 texts.",))
    found = Finding("5 of 72 heads", "", "untested", note="No score.")
    assert how_sure(found, [found], [about]) == [
        "The headline was not tested.",
        "Small sample: 9 texts.",
    ]
    assert strongest([]) == []


def test_how_sure_says_the_samples_that_a_comparison_used():
    found = Finding("a is higher", "difference", "clear", 0.5, 0.4, 0.6, 0.01)
    setting = {"samples": 10_000}
    paired, unpaired = (Provenance({}, {"compared": "geometry", "bootstrap": count}, setting) for count in (1000, 0))
    assert how_sure(found, [found], [paired])[-1] == "Bootstrap samples: 1,000."
    assert not any("samples" in said for said in how_sure(found, [found], [unpaired]))
    assert how_sure(found, [found], [Provenance({}, {}, setting)])[-1] == "Bootstrap samples: 10,000."


def test_wrong_6_how_sure_counts_different_seeds():
    """ "Seeds: 3" was said of the seeds 0, 0 and 1."""
    found = Finding("a is higher", "difference", "clear", 0.5, 0.4, 0.6, 0.01)
    assert how_sure(found, [found], [Provenance({}, {}, {}, seeds=(0, 0, 1))])[-1] == "Seeds: 2."


def test_a_page_in_the_making_says_what_is_to_come(small, tmp_path):
    page = ReportPage(tmp_path, "t")
    text = page.write([small], coming=[PendingAnalysis("Edge probing", 170), PendingAnalysis("Heads")]).read_text(
        encoding="utf-8"
    )
    assert "Still being made" in text
    assert "To come: Edge probing (about 3 min), Heads; in all about 3 min." in text
    assert "This run was stopped" in page.write([small], coming=[PendingAnalysis("Heads")], stopped=True).read_text(
        "utf-8"
    )
    assert "To come" not in page.write([small]).read_text(encoding="utf-8")


def test_a_report_is_replaced_but_never_somebody_elses_page(tmp_path):
    result = plain(pd.DataFrame({"n": [1]}))
    path = write_report([result], tmp_path, title="old")
    assert "new" in Page(write_report([result], tmp_path, title="new")).words
    path.write_text("<h1>my homepage</h1>", encoding="utf-8")
    with pytest.raises(ResultError, match="not a report of lamina"):
        write_report([result], tmp_path, title="newer")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["index.html", "tables"]


def test_what_cannot_be_written_is_said(tmp_path):
    with pytest.raises(ResultError, match="at least one result"):
        write_report([], tmp_path, title="t")
    (tmp_path / "file").write_text("")
    with pytest.raises(ResultError, match="not a folder"):
        write_report([plain(pd.DataFrame({"n": [1]}))], tmp_path / "file", title="t")


@pytest.mark.parametrize("analysis", names())
def test_every_method_is_a_few_sentences(analysis):
    method = words_of(analysis)[2]
    assert 1 <= len(re.findall(r"\.(?: |$)", method)) <= 6


@pytest.mark.parametrize("analysis", names())
def test_texts_have_no_broken_words(analysis):
    said = " ".join([*words_of(analysis), *captions_of(analysis).values()])
    assert not re.search(r"\w- \w|  ", said)


def test_notes_stand_below_the_title(small, tmp_path):
    page = Page(write_report([small], tmp_path, title="t", notes=["Probing <is> left out."]))
    assert "Probing <is> left out." in page.words
    assert page.html.index('class="note"') < page.html.index('class="chapter"')


def test_a_saved_image_is_used_as_long_as_its_chart_is_the_same(small, make_geometry, tmp_path):
    folder = small.save(tmp_path / "saved")
    (folder / "layers.svg").write_text("<svg>saved</svg>", encoding="utf-8")
    head = read_head(folder)
    head["hashes"]["layers.svg"] = list_files(folder)["layers.svg"]
    write_json(folder / "result.json", head)
    still = Path("figures") / "geometry-layers.svg"
    same = write_report([small], tmp_path / "same", title="t", folders=[folder]).parent
    assert "saved" in (same / still).read_text(encoding="utf-8")
    other = make_geometry(layers=4, measures=["anisotropy"])
    drawn = write_report([other], tmp_path / "other", title="t", folders=[folder]).parent
    assert "saved" not in (drawn / still).read_text(encoding="utf-8")
    (folder / "layers.svg").write_text("<svg>Saved</svg>", encoding="utf-8")
    again = write_report([small], tmp_path / "again", title="t", folders=[folder]).parent
    assert "Saved" not in (again / still).read_text(encoding="utf-8")


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS])
def test_a_page_that_cannot_be_written_leaves_the_old_one(tmp_path, monkeypatch, number):
    result = plain(pd.DataFrame({"n": [1]}))
    path = write_report([result], tmp_path, title="old")
    before = sorted(each.name for each in tmp_path.rglob("*"))

    def fail(*_):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(WriteError, match="no space left on the disk" if number == errno.ENOSPC else "cannot write"):
        write_report([result], tmp_path, title="new")
    assert "<title>old" in path.read_text(encoding="utf-8")
    assert sorted(each.name for each in tmp_path.rglob("*")) == before


def test_what_is_no_number_is_null_to_the_browser(make_geometry, tmp_path, monkeypatch):
    import altair as alt

    from lamina.figures import geometry

    missing = alt.Chart(alt.Data(values=[{"x": float("nan")}])).mark_point().encode(x="x:Q")
    monkeypatch.setattr(geometry, "draw", lambda _: {"layers": missing})
    folder = make_geometry().save(tmp_path / "saved")
    text = write_report([make_geometry()], tmp_path, title="t").read_text(encoding="utf-8")
    for spec in ((folder / "layers.vl.json").read_text(encoding="utf-8"), *re.findall(r'-spec">(.*?)</script>', text)):
        assert "NaN" not in spec
        json.loads(spec)
