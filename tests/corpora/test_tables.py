"""Tables of every make: the same rows give the same texts, whatever file they come from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest
from typer.testing import CliRunner

from lamina.cli.main import app
from lamina.corpora import load_corpus
from lamina.corpora.detection import detect
from lamina.corpora.formats.catalogue import get_format
from lamina.corpora.reading import Fault, Notes
from lamina.corpora.tables import reader
from lamina.errors import CorpusError
from lamina.types import Text

ROWS = [
    {"id": "a", "text": 'Dogs, "big" ones, bark', "stars": "5"},
    {"id": "b", "text": "Cats\nmew", "stars": "1"},
    {"id": "c", "text": "Cows moo; loudly", "stars": "5"},
    {"id": "d", "text": "Birds sing | at dawn", "stars": "1"},
]


def checked(path: Path, form: str = "table") -> tuple[list[Text], list[Fault]]:
    faults: list[Fault] = []
    return list(get_format(form).read(path, faults.append)), faults


def labels(texts: list[Text], annotation: str) -> list[tuple[str, ...]]:
    return [edge.labels for text in texts for edge in text.edges[annotation]]


def quoted(value: str) -> str:
    return '"' + value.replace('"', '""') + '"'


def write_delimited(path: Path, delimiter: str, rows: list[dict[str, str]] = ROWS) -> None:
    lines = [delimiter.join(rows[0]), *(delimiter.join(map(quoted, row.values())) for row in rows)]
    path.write_bytes(b"\xef\xbb\xbf" + "\r\n".join(lines).encode())


def write(path: Path, kind: str) -> None:
    table = pa.Table.from_pylist(ROWS)
    if kind in ",;|\t":
        write_delimited(path, kind)
    elif kind == "lines":
        path.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    elif kind == "list":
        path.write_text(json.dumps(ROWS, indent=1))
    elif kind == "wrapped":
        path.write_text(json.dumps({"version": "1.0", "data": ROWS}))
    elif kind == "parquet":
        pyarrow.parquet.write_table(table, path)
    elif kind == "feather":
        pyarrow.feather.write_feather(table, path)
    else:
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)


KINDS = [",", ";", "|", "\t", "lines", "list", "wrapped", "parquet", "feather", "stream"]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: {"\t": "tab"}.get(kind, kind))
def test_the_same_rows_are_the_same_texts_in_every_kind_of_file(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "own.data"
    write(path, kind)

    texts, faults = checked(path, detect(path).name)

    assert faults == []
    assert [text.id for text in texts] == ["a", "b", "c", "d"]
    assert texts[0].words == ("Dogs", ",", '"', "big", '"', "ones", ",", "bark")
    assert texts[1].words == ("Cats", "mew")
    assert labels(texts, "stars") == [("5",), ("1",), ("5",), ("1",)]


def test_columns_are_chosen_by_name_or_number_and_change_the_fingerprint(tmp_path: Path) -> None:
    path = tmp_path / "own.csv"
    write_delimited(path, ",")
    by_name = load_corpus(path, "all", format="table:text=text,rating:value=stars")
    by_number = load_corpus(path, "all", format="table:text=2,sentiment=3")

    assert [text.edges["rating"][0].value for text in by_name] == [5.0, 1.0, 5.0, 1.0]
    assert by_number.annotations == ("sentiment",)
    assert len({by_name.fingerprint, by_number.fingerprint, load_corpus(path, "all").fingerprint}) == 3
    with pytest.raises(CorpusError, match=r"there is no column 'star'; the columns are id, text, stars"):
        load_corpus(path, "all", format="table:label=star")


@pytest.mark.parametrize("said", ["table:", "table:text", "table:=x", "table:text=a,text=b", "table:header=maybe"])
def test_what_is_said_about_columns_has_to_make_sense(said: str) -> None:
    with pytest.raises(CorpusError, match=r"which column is what|two columns|yes or no"):
        get_format(said)


def test_words_in_rows_are_joined_to_sentences_by_a_column_or_by_blank_lines(tmp_path: Path) -> None:
    kaggle = tmp_path / "ner.csv"
    kaggle.write_text(
        "Sentence #,Word,POS,Tag\n"
        'Sentence: 1,London,NNP,B-geo\n,calling,VBG,O\n,",",",",O\nSentence: 2,Iraq,NNP,B-geo\n'
    )
    blocks = tmp_path / "blocks.tsv"
    blocks.write_text("word\tpos\nDogs\tNOUN\nbark\tVERB\n\nCats\tNOUN\nmew\tVERB\n")

    texts, faults = checked(kaggle, "table:ner=Tag")
    assert (faults, [text.words for text in texts]) == ([], [("London", "calling", ","), ("Iraq",)])
    assert labels(texts, "ner") == [("geo",), ("geo",)]
    texts, faults = checked(blocks)
    assert (faults, [text.words for text in texts]) == ([], [("Dogs", "bark"), ("Cats", "mew")])
    assert labels(texts, "pos") == [("NOUN",), ("VERB",)] * 2


def test_words_without_a_column_that_names_their_text_say_how_to_choose_it(tmp_path: Path) -> None:
    path = tmp_path / "own.tsv"
    path.write_text("word\ttag\tline\n" + "".join(f"{word}\tX\t{at // 2}\n" for at, word in enumerate("abcdef")))

    with pytest.raises(CorpusError, match=r"--format 'table:word=word,id=COLUMN'$"):
        detect(path)
    _, (fault,) = checked(path, "table:word=word")
    assert "--format 'table:word=word,id=COLUMN'" in str(fault)
    for chosen in ("table:word=word,id=line", "table:word=word,text=line"):
        texts, faults = checked(path, chosen)
        assert ([text.words for text in texts], faults) == ([("a", "b"), ("c", "d"), ("e", "f")], [])


def test_blank_lines_mean_nothing_between_texts_and_something_between_words(tmp_path: Path) -> None:
    path = tmp_path / "own.tsv"
    path.write_text("text\tstars\nDogs bark\t1\nCats mew\t0\n\nCows moo\t1\nBirds sing\t0\n")
    texts, faults = checked(path)
    assert (faults, [text.id for text in texts]) == ([], ["own-2", "own-3", "own-5", "own-6"])

    path.write_text("Dogs\tNOUN\nbark\tVERB\n\nCats\tNOUN\nmew\tVERB\n")
    with pytest.raises(CorpusError, match="a row may be a word; say which, as word=COLUMN"):
        detect(path)
    texts, _ = checked(path, "table:word=1,pos=2")
    assert [text.words for text in texts] == [("Dogs", "bark"), ("Cats", "mew")]


@pytest.mark.parametrize(
    "record",
    [
        {"text": "Ann saw Oslo", "entities": [{"start": 8, "end": 12, "label": "LOC"}]},
        {"text": "Ann saw Oslo", "label": [[8, 12, "LOC"]]},
        {"text": "Ann saw Oslo", "spans": [{"start": 8, "end": 12, "label": "LOC", "token_start": 2}]},
        ["Ann saw Oslo", {"entities": [[8, 12, "LOC"]]}],
        {
            "id": 3,
            "data": {"text": "Ann saw Oslo"},
            "annotations": [
                {"was_cancelled": True, "result": []},
                {"result": [{"from_name": "ner", "value": {"start": 8, "end": 12, "labels": ["LOC"]}}]},
            ],
        },
    ],
    ids=["spaCy", "doccano", "prodigy", "spaCy pairs", "Label Studio"],
)
def test_spans_of_characters_as_annotation_programs_export_them(record: Any, tmp_path: Path) -> None:
    path = tmp_path / "own.json"
    path.write_text(json.dumps([record, record]))

    texts, faults = checked(path)

    assert faults == []
    ((edge,),) = texts[0].edges.values()
    assert (edge.labels, texts[0].words[edge.span.start : edge.span.end]) == (("LOC",), ("Oslo",))


@pytest.mark.parametrize("kind", ["jsonl", "json", "parquet"])
def test_objects_within_objects_are_columns(kind: str, tmp_path: Path) -> None:
    rows = [
        {
            "id": str(number),
            "content": {"text": f"Dogs bark {number} times a night"},
            "meta": {"genre": "ab"[number % 2]},
        }
        for number in range(6)
    ]
    path = tmp_path / f"own.{kind}"
    if kind == "parquet":
        pyarrow.parquet.write_table(pa.Table.from_pylist(rows), path)
    else:
        path.write_text("".join(f"{json.dumps(row)}\n" for row in rows) if kind == "jsonl" else json.dumps(rows))

    texts, faults = checked(path)
    chosen, _ = checked(path, "table:text=content.text,kind=meta.genre")

    assert faults == []
    assert texts[0].words == chosen[0].words == ("Dogs", "bark", "0", "times", "a", "night")
    assert labels(texts, "meta.genre") == labels(chosen, "kind") == [("a",), ("b",)] * 3


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_objects_stay_whole_where_a_name_is_taken_or_they_hold_borders_of_spans(kind: str, tmp_path: Path) -> None:
    row = {"text": "Dogs bark", "meta": {"genre": "c"}, "ner": {"start": [0], "end": [4], "label": ["A"]}}
    rows = [row | {"meta.genre": "ab"[number % 2]} for number in range(6)]
    path = tmp_path / f"own.{kind}"
    if kind == "parquet":
        pyarrow.parquet.write_table(pa.Table.from_pylist(rows), path)
    else:
        path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))

    texts, _ = checked(path)

    assert labels(texts, "meta.genre") == [("a",), ("b",)] * 3
    assert {*texts[0].edges} == {"meta.genre"}


def test_objects_whose_names_are_no_labels_are_not_taken_for_classes() -> None:
    from lamina.corpora import corpus_from

    rows = [{"text": "Dogs bark", "target": {"start": number, "word": "Dogs"}} for number in range(6)]
    corpus = corpus_from(rows, name="own", split="all")
    assert corpus.annotations == ()


def test_one_labelled_span_per_row(tmp_path: Path) -> None:
    path = tmp_path / "spans.csv"
    path.write_text("text,start,end,label\nAnn saw Oslo,0,3,PER\nAnn saw Oslo,8,12,LOC\nIt rained,0,2,PRO\n")

    texts, faults = checked(path)

    assert (faults, len(texts)) == ([], 2)
    assert [(edge.labels[0], edge.span.start) for edge in texts[0].edges["label"]] == [("PER", 0), ("LOC", 2)]


@pytest.mark.parametrize(
    "cells",
    [("Dogs bark", "['N', 'V']"), ("Dogs bark", '["N", "V"]'), ("['Dogs' 'bark']", "['N' 'V']"), ("Dogs bark", "N V")],
    ids=["Python", "JSON", "NumPy", "spaces"],
)
def test_lists_written_as_text_are_tags_of_words(cells: tuple[str, str], tmp_path: Path) -> None:
    path = tmp_path / "own.csv"
    column = "words" if cells[0].startswith("[") else "text"
    write_delimited(path, ",", [{column: cells[0], "tags": cells[1]}] * 3)

    texts, faults = checked(path)

    assert faults == []
    assert texts[0].words == ("Dogs", "bark")
    assert labels(texts[:1], "tags") == [("N",), ("V",)]


def test_class_names_and_splits_of_saved_datasets(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    features = datasets.Features(
        {
            "tokens": datasets.Sequence(datasets.Value("string")),
            "ner": datasets.Sequence(datasets.ClassLabel(names=["O", "B-LOC"])),
            "topic": datasets.ClassLabel(names=["news", "sports"]),
        }
    )
    rows = {"tokens": [["In", "Oslo"]] * 3, "ner": [[0, 1]] * 3, "topic": [1, 0, -1]}
    table = datasets.Dataset.from_dict(rows, features=features)
    datasets.disable_progress_bars()
    try:
        datasets.DatasetDict(train=table, validation=table).save_to_disk(tmp_path / "saved")
    finally:
        datasets.enable_progress_bars()

    corpus = load_corpus(tmp_path / "saved", "dev")

    assert corpus.made_split is None
    assert not corpus.unread
    assert labels(list(corpus), "ner") == [("LOC",)] * 3
    assert [text.edges["topic"][0].labels for text in corpus if "topic" in text.edges] == [("sports",), ("news",)]
    assert corpus.left_out() == {"texts without topic": 1}


def test_faults_have_lines_and_reading_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "own.csv"
    rows = [b"text,label", b"Dogs bark,1", b"too,many,cells", b"one", b"caf\xe9,1", b'"a" b,1', b"Cats mew,0"]
    path.write_bytes(b"\n".join([*rows, b"N\0L,1", b" ,1", b'"never closed,0', b"Cows moo,1"]))

    texts, faults = checked(path)

    assert [text.id for text in texts] == ["own-2", "own-7", "own-11"]
    assert {fault.line: fault.what.split(" of the line")[0] for fault in faults} == {
        3: "3 columns",
        4: "1 columns",
        5: "byte 0xe9 at position 4",
        6: "text after a closing quotation mark",
        8: "a NUL byte",
        9: "text 'own-9' cannot be used: it has no words",
        10: "a quotation mark is opened and never closed",
    }


def test_columns_that_are_not_used_and_labels_that_are_missing_are_noted(tmp_path: Path) -> None:
    path = tmp_path / "own.csv"
    path.write_text("text,text,note,label\nDogs bark,x,,1\nCats mew,y,,\nCows moo,z,,0\n")
    noted = Notes()

    assert len(list(reader.read(path, noted=noted))) == 3
    assert set(noted.counts()) == {
        "column 'text (2)' is not used: too many different values for classes",
        "column 'note' is not used: it is empty",
        "texts without label",
    }


def test_damaged_and_overpacked_files_are_faults(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "own.parquet"
    table = pa.table({"text": ["Dogs bark"] * 1000, "label": ["a", "b"] * 500})
    pyarrow.parquet.write_table(table, path, compression="none")
    whole = path.read_bytes()
    assert len(checked(path)[0]) == 1000

    monkeypatch.setattr("lamina.corpora.tables.files._LARGE", 100)
    monkeypatch.setattr("lamina.corpora.tables.files._PACKED", 1)
    texts, faults = checked(path)
    assert len(texts) < 1000
    assert "MB of text in a file of" in faults[0].what

    pyarrow.parquet.write_table(table, path, compression="zstd", use_dictionary=False)
    assert "MB of one column are packed into" in checked(path)[1][0].what

    path.write_bytes(whole[: len(whole) // 2])
    assert "cannot be read as Parquet" in checked(path)[1][0].what
    with pytest.raises(CorpusError, match="cannot be read as Parquet"):
        detect(path)


def test_very_long_cells_are_faults(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lamina.corpora.tables.files.LONGEST_CELL", 50)
    for name, long in {"a.csv": "w " * 30, "b.csv": quoted("w " * 30), "c.jsonl": "w " * 30}.items():
        path = tmp_path / name
        if name.endswith("csv"):
            path.write_text(f"text,label\nDogs bark,1\n{long},0\n")
        else:
            path.write_text('{"text": "Dogs bark", "label": 1}\n' + json.dumps({"text": long, "label": 0}) + "\n")
        texts, faults = checked(path)
        assert (len(texts), [fault.what[:20] for fault in faults]) == (1, ["a cell of 60 charact"])


def test_a_table_that_nobody_understands_says_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "pairs.tsv"
    path.write_text(
        "good\tbad\nDogs bark at night .\tDogs barks at night .\nHe has been there .\tHe have been there .\n"
    )

    with pytest.raises(
        CorpusError, match=r"by tabs with 2 columns \(good, bad\), and no reader.* --format 'table:text="
    ):
        detect(path)
    texts, _ = checked(path, "table:text=good")
    assert texts[0].words[:2] == ("Dogs", "bark")


def test_checking_says_which_column_is_what(tmp_path: Path) -> None:
    path = tmp_path / "own.csv"
    write_delimited(path, ";")
    runner = CliRunner()

    read = runner.invoke(app, ["data", "check", str(path)])
    assert read.exit_code == 0
    assert "one text per row: text in 'text'; stars: a class of the whole text" in read.output
    wrong = runner.invoke(app, ["data", "check", str(path), "--format", "table:text=nothing"])
    assert (wrong.exit_code, "there is no column 'nothing'" in wrong.output) == (1, True)


def test_a_column_of_which_no_row_can_be_read_is_not_called_empty(tmp_path: Path) -> None:
    path = tmp_path / "old.csv"
    path.write_bytes(b"text,label\n" + "Ein Café,a\n".encode("latin-1") * 3)

    read = CliRunner().invoke(app, ["data", "check", str(path)])
    assert read.exit_code == 1
    assert "column 'label' is not used: no row can be read" in read.output


def test_a_sorted_table_keeps_its_labels(tmp_path):
    path = tmp_path / "genres.csv"
    rows = [
        f"{genre},a sentence number {at} of {genre} text" for genre in ("news", "prose", "web") for at in range(1200)
    ]
    path.write_text("\n".join(["genre,text", *rows]) + "\n")
    texts = list(reader.read(path))
    assert {text.edges["genre"][0].labels for text in texts} == {("news",), ("prose",), ("web",)}
    assert "genre: a class of the whole text" in reader.explain(path)


def test_a_rare_fraction_late_in_a_table_makes_its_column_graded(tmp_path):
    path = tmp_path / "scores.csv"
    rows = [f"{at % 5},a sentence number {at} here" for at in range(1500)] + ["2.5,the last sentence here"]
    path.write_text("\n".join(["rating_given,text", *rows]) + "\n")
    assert "rating_given: a graded value of the whole text" in reader.explain(path)


def test_a_column_that_really_has_one_value_says_so(tmp_path):
    path = tmp_path / "same.csv"
    path.write_text("\n".join(["source,text", *(f"web,a sentence number {at} here" for at in range(1500))]) + "\n")
    notes = Notes()
    list(reader.read(path, noted=notes))
    assert "it has one value only" in str(vars(notes))


def test_a_limit_larger_than_any_corpus_takes_all(tmp_path):
    path = tmp_path / "same.csv"
    path.write_text("label,text\na,one two three\nb,four five six\n")
    assert len([*load_corpus(str(path), split="all", limit=10**21)]) == 2


@pytest.mark.parametrize("empty", [250, 1500])
def test_texts_that_come_late_make_a_column_of_texts(tmp_path: Path, empty: int) -> None:
    """The first rows of an export may have no comment yet."""
    path = tmp_path / "comments.csv"
    rows = [f"{n},,{'ab'[n % 2]}" for n in range(empty)]
    rows += [f"{empty + n},the old dogs bark at cat number {n},{'ab'[n % 2]}" for n in range(400)]
    path.write_text("\n".join(["id,remark,mood", *rows]) + "\n")
    corpus = load_corpus(path, "all", skip_faulty=0.9)
    texts = list(corpus)
    assert len(texts) == 400
    assert {text.edges["mood"][0].labels[0] for text in texts} == {"a", "b"}
