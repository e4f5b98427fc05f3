"""Tables as JSON: one object per line, or a list of objects, as annotation programs export them.

Label Studio's nested tasks and spaCy's pairs (`["text", {"entities": [...]}]`) become flat rows.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from lamina.corpora.delimited import Row
from lamina.corpora.reading import Fault, Report, head_lines, json_start, read_lines
from lamina.files.reading import BoundedJson, open_regular, parse_json

_WRAPPED = re.compile(
    r'\{\s*(?:"[^"\\]*"\s*:\s*(?:"[^"\\]*"|[\w.+-]+)\s*,\s*)*"(data|examples|records|rows|items)"\s*:\s*\['
)
"""A list of objects below one key; what comes before it is about the whole file (`"version": "1.0"`)."""
_RECORD = "one JSON object per row"


def list_of(path: Path) -> str | None:
    """Where the rows of a JSON file are, for ijson; None if it is no list of objects.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "own.json"
        >>> _ = path.write_text('[{"text": "Dogs bark", "label": "animals"}]')
        >>> list_of(path)
        'item'
    """
    start = json_start(path)
    if re.match(r"\[\s*[\[{]", start):
        return "item"
    wrapped = _WRAPPED.match(start)
    return f"{wrapped[1]}.item" if wrapped else None


def is_lines(path: Path) -> bool:
    """Whether most lines at the start of a file are JSON objects, or lists of a text and its annotations."""
    lines = [line for line in head_lines(path, 1 << 16) if line.strip()]
    if not lines:
        return json_start(path).startswith("{") and _is_one_long_line(path)
    return 2 * sum(map(_opens, lines)) > len(lines) and _parsed(lines[0]) is not None


def _opens(line: str) -> bool:
    return line.lstrip().startswith(("{", "["))


def _parsed(line: str) -> Any:
    try:
        found = parse_json(line)
    except ValueError:
        return None
    return found if isinstance(found, dict | list) else None


def _is_one_long_line(path: Path) -> bool:
    """Whether the first line is longer than what is inspected, and a JSON object all the same."""
    with open_regular(path) as file:
        line = file.readline(1 << 24)
    return _parsed(line.decode("utf-8-sig", errors="replace")) is not None


def rows_of(path: Path, where: str | None, report: Report) -> Iterator[Row]:
    """The rows: of every line if `where` is None, otherwise of the list that `list_of` found."""
    for number, found in _lines(path, report) if where is None else _items(path, where, report):
        row = flattened(found)
        if row is None:
            report(Fault(path, number, f"{str(found)[:60]!r} is no JSON object", _RECORD))
        else:
            yield Row(number, row)


def sample_of(path: Path, where: str | None, size: int) -> list[dict[str, Any]]:
    """The first rows that can be read."""
    return [row.values for row in islice(rows_of(path, where, lambda _: None), size)]


def _lines(path: Path, report: Report) -> Iterator[tuple[int, Any]]:
    for line in read_lines(path, report):
        if line is None or not line.text.strip():
            continue
        try:
            yield line.number, parse_json(line.text)
        except json.JSONDecodeError as error:
            what = f"not JSON ({error.msg} at column {error.colno})"
            report(Fault(path, line.number, what, "one JSON object per line"))
        except ValueError as error:
            report(Fault(path, line.number, str(error), "one JSON object per line"))


def _items(path: Path, where: str, report: Report) -> Iterator[tuple[int, Any]]:
    import ijson

    with open_regular(path) as file:
        if file.read(3) != b"\xef\xbb\xbf":
            file.seek(0)
        found = ijson.items(BoundedJson(file), where, use_float=True)
        number = 0
        while True:
            try:
                item = next(found, None)
            except (ijson.JSONError, ValueError) as error:
                what = f"after row {number}: {str(error).splitlines()[0]}"
                report(Fault(path, 0, what, "one whole JSON list"))
                return
            if item is None:
                return
            number += 1
            yield number, item


def flattened(record: Any) -> dict[str, Any] | None:
    """A record as one flat row; None if it is none.

    Example:
        >>> flattened(["Dogs bark", {"entities": [[0, 4, "ANIMAL"]]}])
        {'text': 'Dogs bark', 'entities': [[0, 4, 'ANIMAL']]}
        >>> value = {"start": 0, "end": 4, "labels": ["ANIMAL"]}
        >>> result = [{"from_name": "ner", "type": "labels", "value": value}]
        >>> flattened({"data": {"text": "Dogs bark"}, "annotations": [{"result": result}]})
        {'text': 'Dogs bark', 'ner': [{'start': 0, 'end': 4, 'label': ['ANIMAL']}]}
    """
    if isinstance(record, list) and len(record) == 2 and isinstance(record[0], str) and isinstance(record[1], dict):
        return {"text": record[0], **record[1]}
    if not isinstance(record, dict):
        return None
    if isinstance(record.get("data"), dict) and isinstance(record.get("annotations"), list):
        about = {"id": record["id"]} if "id" in record else {}
        return about | record["data"] | _label_studio(record["annotations"])
    return record


def _label_studio(annotations: list[Any]) -> dict[str, Any]:
    """The columns of a Label Studio task: the answers of its first annotation that was not cancelled."""
    done = [each for each in annotations if isinstance(each, Mapping) and not each.get("was_cancelled")]
    columns: dict[str, Any] = {}
    for result in done[0].get("result") or () if done else ():
        value = result.get("value") if isinstance(result, Mapping) else None
        if not isinstance(value, Mapping):
            continue
        name = str(result.get("from_name", "label"))
        if "choices" in value:
            chosen = value["choices"]
            columns[name] = chosen[0] if isinstance(chosen, list) and len(chosen) == 1 else chosen
        elif "start" in value and "end" in value:
            labels = value.get("labels") or value.get("hypertextlabels")
            columns.setdefault(name, []).append({"start": value["start"], "end": value["end"], "label": labels})
        elif "rating" in value or "number" in value:
            columns[name] = value.get("rating", value.get("number"))
    return columns
