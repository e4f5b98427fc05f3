"""GLUE's own files, as they come."""

from __future__ import annotations

from pathlib import Path

import pytest

from lamina.corpora.detection import detect
from lamina.corpora.reading import Fault

FILES = {
    "SST-2": ("sentence\tlabel\nhide new secretions \t0\nthat loves its characters \t1\n", ["0", "1"], 1),
    "CoLA": ("gj04\t1\t\tDogs bark.\nks08\t0\t*\tDogs barks.\n", ["1", "0"], 1),
    "MRPC": ('Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\n1\t7\t8\t"I go , " he said .\tHe said "go" .\n', ["1"], 2),
    "MRPC quoted": (
        "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\n"
        '1\t7\t8\t"He said ""go"" ."\tHe left .\n0\t5\t6\tA dog .\tA cat .\n',
        ["1", "0"],
        2,
    ),
    "QQP": ("id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n1\t2\t3\tWho?\tWhat?\t0\n", ["0"], 2),
    "QNLI": ("index\tquestion\tsentence\tlabel\n0\tWho came?\tAnn came.\tentailment\n", ["entailment"], 2),
    "RTE": ("index\tsentence1\tsentence2\tlabel\n0\tAnn came.\tShe came.\tnot_entailment\n", ["not_entailment"], 2),
}


def checked(path: Path, content: str):
    path.write_text(content)
    faults: list[Fault] = []
    form = detect(path)
    assert form.name == "glue"
    return list(form.read(path, faults.append)), faults


@pytest.mark.parametrize("name", FILES)
def test_official_layouts(name: str, tmp_path: Path) -> None:
    content, labels, segments = FILES[name]
    texts, faults = checked(tmp_path / "dev.tsv", content)
    assert faults == []
    assert [text.edges["label"][0].labels[0] for text in texts] == labels
    assert {len(text.segments) for text in texts} == {segments}


def test_quotation_marks_are_kept_unless_a_program_put_them_there(tmp_path: Path) -> None:
    (raw,), _ = checked(tmp_path / "raw.tsv", FILES["MRPC"][0])
    (escaped, _), _ = checked(tmp_path / "escaped.tsv", FILES["MRPC quoted"][0])
    assert raw.words[:5] == ('"', "I", "go", ",", '"')
    assert escaped.words[: escaped.segments[0].end] == ("He", "said", '"', "go", '"', ".")


def test_scores_are_graded_and_tests_have_no_labels(tmp_path: Path) -> None:
    header = "index\tgenre\tfilename\tsentence1\tsentence2"
    (scored,), _ = checked(tmp_path / "dev.tsv", f"{header}\tscore\n0\tnews\tMSR\tA dog runs.\tA cat runs.\t3.800\n")
    (bare,), _ = checked(tmp_path / "test.tsv", f"{header}\n0\tnews\tMSR\tA dog runs.\tA cat runs.\n")
    assert [edge.value for edge in scored.edges["score"]] == [3.8]
    assert set(scored.edges) == {"score"}
    assert bare.edges == {}
