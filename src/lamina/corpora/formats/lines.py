"""One text per line: plain text, fastText, texts with a file of labels, TREC questions.

Plain text: one paragraph per line; blank lines are skipped.

Wikitext headings (` = Title = `) are texts too; a first-level heading starts a document. Words are split at whitespace
if the file is pre-tokenised, otherwise by `corpora.tokenising`. A file counts as pre-tokenised if, in its first 64 KB,
more commas are separate tokens than attached to a word. Headings count as words; nothing is added at the end of a line.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import zip_longest
from pathlib import Path

from lamina.corpora.corpus import View
from lamina.corpora.questions.question import Question, labelled_question
from lamina.corpora.reading import Fault, Notes, Report, head_lines, json_start, raise_fault, read_lines
from lamina.corpora.tables import reader
from lamina.corpora.tables.columns import SAMPLED
from lamina.corpora.tables.files import TableRow, layout_of, uneven
from lamina.corpora.tables.reader import PlannedTable, TableFile
from lamina.corpora.tokenising import split_words
from lamina.errors import CorpusError
from lamina.files.reading import open_regular, read_regular
from lamina.types import Edge, Span, Text

# Data that is never read as plain text.

_CONTENT_SAMPLE = 1 << 16
_MARKS = {b"\xff\xfe": "UTF-16", b"\xfe\xff": "UTF-16"}
_PACKED = {b"\x1f\x8b": "gzip", b"PK\x03\x04": "zip", b"BZh": "bzip2", b"\xfd7zXZ": "xz", b"%PDF": "PDF"}
_JSON = re.compile(r'\{\s*"[^"\n]*"\s*:|\[\s*(?:[{\[]\s*["{\[]|"[^"\n]*"\s*[,\]])')
_MARKUP = re.compile(r"<(?:\?xml|!DOCTYPE|!--|[A-Za-z][\w:.-]*(?:\s[^<>]*)?>)")
_NUMBER = re.compile(r"[-+]?\d+(?:\.\d+)?")


def not_running_text(path: Path) -> str | None:
    """What a file is, in a few words, if it is not running text; None if it may be.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "own.txt"
        >>> _ = path.write_text("Dogs, cats and cows.\\nBirds, too.\\n")
        >>> not_running_text(path)
        >>> _ = path.write_text("Dogs\\tanimal\\nOslo\\tplace\\n")
        >>> not_running_text(path)
        'a table of 2 columns separated by tabs'
    """
    with open_regular(path) as file:
        start = file.read(_CONTENT_SAMPLE)
    named = next((name for mark, name in (_MARKS | _PACKED).items() if start.startswith(mark)), None)
    if named is not None or b"\0" in start:
        return f"{named} data, not text in UTF-8" if named else "binary data"
    text = json_start(path)
    if _JSON.match(text):
        return "JSON"
    if _MARKUP.match(text) and ("</" in text or "/>" in text):
        return "XML or HTML"
    if b"\r" in start and b"\n" not in start:
        return "lines that end with carriage returns only, which `tr '\\r' '\\n' < OLD > NEW` changes"
    lines = [line.strip() for line in head_lines(path, _CONTENT_SAMPLE) if line.strip()]
    if len(lines) > 1 and all(map(_NUMBER.fullmatch, lines)):
        return "a list of numbers, such as the labels of texts in another file"
    if len(lines) > 1 and (columns := _numbered_columns(lines)):
        return f"a table of {columns} columns separated by spaces, most of them numbers, as word vectors are"
    layout = layout_of(path)
    if layout is None or len(lines) < 2:
        return None
    return f"a table of {len(layout.columns)} columns separated by {layout.separator}"


def _numbered_columns(lines: list[str]) -> int:
    """The number of columns, if every line has the same and more than half of each line are numbers; otherwise 0."""
    rows = [line.split() for line in lines]
    columns = len(rows[0])
    alike = columns > 2 and all(len(row) == columns for row in rows)
    return columns if alike and all(2 * sum(map(_is_number, row)) > columns for row in rows) else 0


def _is_number(cell: str) -> bool:
    return _NUMBER.fullmatch(cell) is not None


def why_not_read(path: Path) -> str | None:
    """Why no reader takes a file, and what to do; None if nothing is known about it."""
    reason = reader.why_not(path)
    if reason is not None:
        return reason
    content = not_running_text(path)
    if content is None:
        return uneven(path)
    return f"{path} holds {content}; no reader of lamina fits{_remedy(content)}"


def _remedy(content: str) -> str:
    """What to do about data that is no running text, where something can be done."""
    kind = content.partition(" ")[0]
    if kind in _MARKS.values():
        return f": `iconv -f {kind} -t UTF-8 OLD > NEW` converts it"
    if kind in _PACKED.values() and kind != "PDF":
        return ": unpack it first"
    unread = ("PDF", "binary", "XML", "JSON")
    return ": save the texts as plain text, CSV, JSON lines or Parquet" if kind in unread else ""


_SAMPLE = 1 << 16
_TITLE = re.compile(r"\s*= ([^=\s](?:.*[^=\s])?) =\s*")
_STUCK = re.compile(r"\S,(?=\s)")
_APART = re.compile(r"\s,(?=\s)")


def looks_like_plain(path: Path) -> bool:
    """Whether the file has a plain-text name and holds no other kind of data; all other formats are tried first."""
    named = path.is_file() and path.suffix.lower() in {".txt", ".text", ".tokens", ".raw"}
    return named and not_running_text(path) is None


def read_plain(path: Path, report: Report = raise_fault) -> Iterator[Text]:
    """One text per paragraph, named by its line number."""
    whitespace = _pre_tokenised(path)
    doc = None
    titles: Counter[str] = Counter()
    for line in read_lines(path, report):
        if line is None:
            continue
        if title := _TITLE.fullmatch(line.text):
            titles[title[1]] += 1
            # Two articles may have the same name (`<unk> <unk>`) but are still two documents.
            doc = title[1] if titles[title[1]] == 1 else f"{title[1]} ({titles[title[1]]})"
        if whitespace:
            words, glued = tuple(line.text.split()), ()
        else:
            split = split_words(line.text)
            words, glued = split.words, split.glued
        if words:
            yield Text(f"{path.stem}-{line.number}", words, doc=doc, glued=glued)


def is_pre_tokenised(text: str) -> bool:
    """Whether more commas are separate tokens than attached to a word.

    Example:
        >>> is_pre_tokenised("Well , yes ."), is_pre_tokenised("Well, yes.")
        (True, False)
    """
    sample = text[:_SAMPLE]
    return len(_APART.findall(sample)) > len(_STUCK.findall(sample))


def _pre_tokenised(path: Path) -> bool:
    with open_regular(path) as file:
        return is_pre_tokenised(file.read(_SAMPLE).decode("utf-8", errors="replace"))


# fastText's files: one text per line, with its classes as `__label__NAME` before it or anywhere in it: `label`.
#
# Words are split at white space if the file is pre-tokenised, as for plain text, otherwise by `corpora.tokenising`. A
# text with several labels has all of them.

_LABEL = re.compile(r"(?<!\S)__label__(\S*)")
_EXPECTED = "__label__NAME and a text"


def looks_like_fasttext(path: Path) -> bool:
    """Whether every one of the first lines has a label."""
    lines = [line for line in head_lines(path) if line.strip()] if path.is_file() else []
    return bool(lines) and all(_LABEL.search(line) for line in lines)


def read_fasttext(path: Path, report: Report = raise_fault) -> Iterator[Text]:
    """One text per line, named by its number.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "train.ft"
        >>> _ = path.write_text("__label__good __label__short Dogs bark.\\n")
        >>> text = next(read_fasttext(path))
        >>> text.words, text.edges["label"][0].labels
        (('Dogs', 'bark', '.'), ('good', 'short'))
    """
    at_spaces = is_pre_tokenised("\n".join(_LABEL.sub("", line) for line in head_lines(path, 1 << 16)))
    for line in read_lines(path, report):
        if line is None or not line.text.strip():
            continue
        labels = tuple(_LABEL.findall(line.text))
        rest = _LABEL.sub("", line.text)
        split = split_words(rest)
        words, glued = (tuple(rest.split()), ()) if at_spaces else (split.words, split.glued)
        if not labels or not all(labels):
            report(Fault(path, line.number, f"{line.text[:40]!r} has no label or an empty one", _EXPECTED))
        elif not words:
            report(Fault(path, line.number, "no text after the label", _EXPECTED))
        else:
            edges = {"label": (Edge(labels, Span(0, len(words))),)}
            yield Text(f"{path.stem}-{line.number}", words, edges=edges, glued=glued)


# Texts in one file and their labels in another, line by line: `train_text.txt` and `train_labels.txt`.
#
# The two names differ in one word: `text` and `labels`, `sentences` and `labels` or `tags`, `words` and `tags`,
# `seq.in` and `seq.out` or `label`. A line of labels is the class of the text (annotation `label`), or has one tag per
# word (`tags`; then words are split at spaces). `mapping.txt` in the same folder names the classes, as in TweetEval:
# `0<TAB>anger`.

_PARTNERS = {
    "text": ("labels", "label"),
    "texts": ("labels", "label"),
    "sentences": ("labels", "tags"),
    "words": ("tags", "labels"),
    "seq.in": ("seq.out", "label"),
}
_ANNOTATIONS = {"labels": "label", "label": "label", "tags": "tags", "seq.out": "tags"}
_MAPPING = "mapping.txt"
_BLOCK = 1 << 20


def looks_like_parallel(path: Path) -> bool:
    """Whether there is a file of labels beside it, with as many lines."""
    labels = _labels(path) if path.is_file() else {}
    return bool(labels) and len({_count(file) for file in (path, *labels.values())}) == 1


def parallel_companions(path: Path) -> tuple[Path, ...]:
    """The files of labels, and the names of the classes."""
    mapping = path.parent / _MAPPING
    return (*_labels(path).values(), *([mapping] if mapping.is_file() else []))


def read_parallel(path: Path, report: Report = raise_fault, noted: Notes | None = None) -> Iterator[Text]:
    """One text per line, named by its line number."""
    labels = _labels(path)
    if not labels:
        report(Fault(path, 0, "no file of labels beside it", "two files such as train_text.txt and train_labels.txt"))
        return
    names = _class_names(path.parent / _MAPPING)
    columns = ("text", *labels)
    table = TableFile(path, "a file of texts and a file of labels", columns, partial(_rows, path, labels, names), {})
    try:
        planned = PlannedTable(table, {name: name for name in columns}, SAMPLED)
    except CorpusError as error:
        report(Fault(path, 0, str(error), "one text and one label per line"))
        return
    yield from planned.read(report, noted or Notes())


def _labels(path: Path) -> dict[str, Path]:
    """Annotation -> its file, for a file of texts."""
    files: dict[str, Path] = {}
    for word, partners in _PARTNERS.items():
        # The last one: the name of a corpus may contain the word too.
        places = list(re.finditer(rf"(?<![A-Za-z]){re.escape(word)}(?![A-Za-z])", path.name))
        for partner in partners if places else ():
            beside = path.with_name(path.name[: places[-1].start()] + partner + path.name[places[-1].end() :])
            if beside != path and beside.is_file():
                files.setdefault(_ANNOTATIONS[partner], beside)
    return files


def _rows(
    path: Path,
    labels: Mapping[str, Path],
    names: Mapping[str, str],
    report: Report,
    columns: Sequence[str] | None = None,  # noqa: ARG001 - as any table
) -> Iterator[TableRow]:
    files = [path, *labels.values()]
    together = zip_longest(*(_lines(file, report) for file in files), fillvalue=False)
    for number, (text, *given) in enumerate(together, start=1):
        short = [file.name for file, line in zip(files, (text, *given), strict=True) if line is False]
        if short:
            report(Fault(path, number, f"{short[0]} ends before this line", "as many labels as texts"))
            return
        if text is not None and None not in given:
            cells = {name: names.get(str(line), line) for name, line in zip(labels, given, strict=True)}
            yield TableRow(number, {"text": text, **cells})


def _lines(path: Path, report: Report) -> Iterator[str | None]:
    return (None if line is None else line.text.strip() for line in read_lines(path, report))


def _class_names(path: Path) -> dict[str, str]:
    """Class -> its name; empty if there is no such file, or it is something else."""
    if not path.is_file():
        return {}
    pairs = [line.text.split("\t") for line in read_lines(path, lambda _: None) if line and line.text.strip()]
    return {pair[0].strip(): pair[1].strip() for pair in pairs} if all(len(pair) == 2 for pair in pairs) else {}


def _count(path: Path) -> int:
    """The number of lines, whether or not the last one ends."""
    lines, last = 0, b"\n"
    with open_regular(path) as file:
        while block := file.read(_BLOCK):
            lines += block.count(b"\n")
            last = block[-1:]
    return lines + (last != b"\n")


# TREC question types (Li and Roth): what kind of answer a question asks for.
#
# Lines `COARSE:fine question`. Annotations of the whole question: `ques`, the fine label in full (`DESC:manner`), and
# `ques_coarse` (`DESC`). The questions are already tokenised; they are split at spaces. A repeated question with the
# same label is left out; with another label it is a fault. The original files are not UTF-8: lines that are not are
# read as Latin-1.

REPEATED = "questions that are duplicates"
_LINE = re.compile(r"([A-Z]{2,5}):([a-z]+)\s+(\S.*)")


def looks_like_trec(path: Path) -> bool:
    """Whether the first lines are questions with their types."""
    lines = [line for line in head_lines(path) if line.strip()] if path.is_file() else []
    return bool(lines) and all(_LINE.fullmatch(line) for line in lines)


def read_trec(path: Path, report: Report = raise_fault, noted: Notes | None = None) -> Iterator[Text]:
    """One text per question, named by its line number."""
    noted = noted or Notes()
    types: dict[str, str] = {}
    for number, line in enumerate(_decoded(read_regular(path)).split("\n"), start=1):
        if not line.strip():
            continue
        parts = _LINE.fullmatch(line.strip())
        if parts is None:
            report(Fault(path, number, f"{line[:40]!r} is not a typed question", "COARSE:fine, a space and a question"))
            continue
        fine, question = f"{parts[1]}:{parts[2]}", " ".join(parts[3].split())
        id = f"{path.stem}-{number}"
        if question not in types:
            types[question] = fine
            yield _text(id, tuple(question.split()), parts[1], fine)
        elif types[question] == fine:
            noted.add(REPEATED, id)
        else:
            what = f"question {id} is {fine} here and {types[question]} before"
            report(Fault(path, number, what, "one type per question"))


def trec_questions(
    path: Path,
    report: Report = raise_fault,
    noted: Notes | None = None,
    view: View | None = None,  # noqa: ARG001 - as any reader
) -> Iterator[Question]:
    """Every question with its fine type as the answer; there is one view of them."""
    return (labelled_question(text, "ques", "trec") for text in read_trec(path, report, noted))


def _text(id: str, words: tuple[str, ...], coarse: str, fine: str) -> Text:
    whole = Span(0, len(words))
    return Text(id, words, edges={"ques": (Edge((fine,), whole),), "ques_coarse": (Edge((coarse,), whole),)})


def _decoded(raw: bytes) -> str:
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        return raw.decode("latin-1")
