"""SemEval-2010 task 8 records."""

from __future__ import annotations

import pytest

from lamina.corpora.formats.marked_pairs import looks_like_semeval, read_semeval

GOOD = '1\t"The <e1>child</e1>\'s crib has <e2>wooden bars</e2>."\nComponent-Whole(e2,e1)\nComment: fine\n\n'


def _file(tmp_path, content):
    path = tmp_path / "TRAIN_FILE.TXT"
    path.write_text(content, encoding="utf-8")
    return path


def test_nominals_become_spans(tmp_path):
    path = _file(tmp_path, GOOD)
    (text,) = read_semeval(path)
    assert looks_like_semeval(path)
    assert text.words == ("The", "child", "'s", "crib", "has", "wooden", "bars", ".")
    (edge,) = text.edges["rel"]
    assert edge.labels == ("Component-Whole(e2,e1)",)
    assert (tuple(edge.span), tuple(edge.other)) == ((1,), (5, 6))


def test_the_second_nominal_may_come_first_and_the_comment_be_missing(tmp_path):
    (text,) = read_semeval(_file(tmp_path, '7\t"<e2>A</e2> of <e1>b</e1>"\nOther'))
    (edge,) = text.edges["rel"]
    assert (edge.span.start, edge.other.start) == (2, 0)


@pytest.mark.parametrize(
    ("record", "line", "what"),
    [
        ("no number\nOther\n\n", 5, "not the start of a record"),
        ('2\t"<e1>a</e1> <e2>b</e2>"\nCause\n\n', 6, "'Cause' is not a relation"),
        ('2\t"<e1>a</e1> <e2>b</e2>"\n\n', 6, "the relation is missing"),
        ('2\t"<e1>a</e1> <e2>b"\nOther\n\n', 5, "not marked"),
        ('2\t"<e1> </e1> <e2>b</e2>"\nOther\n\n', 5, "not marked"),
        ('2\t"<e1>a</e1> <e2>b</e2>"\nOther\nComment:\nmore\n\n', 8, "an extra line"),
        ('2\t"<e1>a</e1> <e2>b</e2>"\nOther\nmore\n\n', 7, "an extra line"),
    ],
)
def test_faults_name_the_line(tmp_path, record, line, what):
    faults = []
    path = _file(tmp_path, GOOD + record + GOOD)
    assert len(list(read_semeval(path, faults.append))) == 2
    assert [fault.line for fault in faults] == [line]
    assert what in faults[0].what


def test_other_files_are_not_taken_for_it(tmp_path):
    assert not looks_like_semeval(_file(tmp_path, "plain text\n"))
    assert not looks_like_semeval(tmp_path)
