"""Request files, published numbers and data of the papers: complete, consistent and with their sources."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from lamina.errors import CorpusError, InputError
from lamina.figures import captions_of
from lamina.framework.registry import get_analysis
from lamina.framework.requests import data_of
from lamina.reproduction import get_paper, paper_names
from lamina.reproduction.papers import PaperData, refuse_other_edition
from lamina.reproduction.running import vectors_of


@pytest.mark.parametrize("name", paper_names())
def test_every_setting_of_every_request_is_one_the_analysis_has(name: str) -> None:
    for run in get_paper(name).runs:
        analysis = get_analysis(run.analysis)
        for small in (False, True):
            settings, options = run.asked(small=small)
            analysis.checker.check(settings)
            analysis.option_checker.check(options)
        expected = {given.name for given in analysis.reads.given}
        assert set(run.inputs) <= expected
        assert run.data is None or data_of(analysis) is not None or "data" in expected
        assert run.unless is None or run.unless in get_paper(name).data


@pytest.mark.parametrize("name", paper_names())
def test_numbers_are_taken_from_tables_and_columns_that_results_have(name: str) -> None:
    paper = get_paper(name)
    runs = {run.name: get_analysis(run.analysis) for run in paper.runs}
    for table in paper.tables:
        assert table.source
        assert table.model
        for run in table.runs:
            for asked in table.values:
                columns = runs[run].tables[asked.get("from", table.table)].columns
                named = [asked[part] for part in ("value", "low", "high") if part in asked]
                named += [*asked.get("where", table.where), asked.get("key", table.key)]
                assert set(named) <= set(columns), (run, table.id)
        for row, values in table.rows.items():
            assert len(values) == len(table.columns) == len(table.units), row
            assert all(map(math.isfinite, values)), row


def test_figures_named_in_requests_are_drawn_by_their_analysis() -> None:
    for name in paper_names():
        for run in get_paper(name).runs:
            unknown = set(run.figures) - set(captions_of(run.analysis))
            assert not unknown, (name, run.name, unknown)


def test_published_means_follow_from_the_numbers_published_beside_them() -> None:
    suites = get_paper("syntaxgym").tables[0].rows
    means = [sum(values) / len(suites) for values in zip(*suites.values(), strict=True)]
    assert [round(mean, 3) for mean in means[:2]] == [0.781, 0.831]
    terms = {row: values[0] for row, values in get_paper("blimp").tables[0].rows.items()}
    paradigms = {"anaphor_agreement": 2, "argument_structure": 9, "binding": 7, "control_raising": 5,
                 "determiner_noun_agreement": 8, "ellipsis": 2, "filler_gap_dependency": 7, "irregular_forms": 2,
                 "island_effects": 8, "npi_licensing": 7, "quantifiers": 4, "subject_verb_agreement": 6}  # fmt: skip
    mean = sum(terms[term] * count for term, count in paradigms.items()) / sum(paradigms.values())
    assert mean == pytest.approx(terms["overall"], abs=2e-4)


def test_an_unknown_paper_is_refused_with_the_names_there_are() -> None:
    with pytest.raises(InputError, match="did you mean attention"):
        get_paper("atention")


def test_another_edition_is_told_by_its_counts() -> None:
    data = PaperData(
        "wsj", "The treebank", counts={"dev": {"texts": 1700}, "test": {"texts": 2416}}, source="the split"
    )
    refuse_other_edition(data, {"dev": {"texts": 1700}})
    with pytest.raises(CorpusError, match=r"dev has 1,346 texts, expected 1,700 \(the split\).*--any-edition"):
        refuse_other_edition(data, {"dev": {"texts": 1346}, "test": {"texts": 2416}})


def test_data_are_found_below_the_named_folder_and_below_lamina_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = get_paper("attention").data["ptb_dependencies"]
    monkeypatch.delenv("LAMINA_DATA", raising=False)
    assert data.folder(tmp_path) is None
    (tmp_path / "ptb_dependencies").mkdir()
    assert data.folder(tmp_path) == tmp_path / "ptb_dependencies"
    monkeypatch.setenv("LAMINA_DATA", str(tmp_path))
    assert data.folder(None) == tmp_path / "ptb_dependencies"


def test_without_ontonotes_the_pipeline_is_the_suite_alone_and_with_it_the_eight_tasks(tmp_path: Path) -> None:
    paper = get_paper("pipeline")
    assert [run.name for run in paper.runs if run.beside is None] == ["suite"]
    assert {run.beside for run in paper.runs if run.name != "suite"} == {"ontonotes"}
    read = {run.name: run.original for run in paper.runs}
    assert (read["dependencies"], read["relations"]) == ("ewt", "semeval2010")


def test_word_vectors_are_the_papers_where_they_are_here_and_stand_ins_or_none_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (classes,) = [run for run in get_paper("contextualization").runs if run.name == "classes"]
    monkeypatch.setenv("LAMINA_DATA", str(tmp_path / "nothing"))
    monkeypatch.setenv("LAMINA_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("LAMINA_OFFLINE", "1")
    settings, words = vectors_of(classes, None)
    assert settings == {"vectors": []}
    assert words == "word vectors: none (the paper's, fasttext and glove300, are not here)"
    file = tmp_path / "vectors" / "glove.6B.300d.txt"
    file.parent.mkdir()
    file.write_text("cat 1 2\n")
    assert vectors_of(classes, tmp_path) == ({"vectors": [str(file)]}, "")
    assert vectors_of(get_paper("blimp").runs[0], tmp_path) == ({}, "")


def test_runs_that_take_the_models_of_others_come_after_them() -> None:
    for name in paper_names():
        runs = [run.name for run in get_paper(name).runs]
        for place, run in enumerate(get_paper(name).runs):
            assert set(run.after) <= set(runs[:place]), (name, run.name)
            settings = get_analysis(run.analysis).settings
            assert {*run.models_of, *(["vectors"] if run.vectors else [])} <= set(settings)
