"""A JSON file of questions, read whole: its items checked, its faults told with the question's id and line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from lamina.corpora.faults import Fault, Report

Item = dict[str, Any]


class Document:
    """One JSON file; every id in it may stand once."""

    def __init__(self, path: Path, report: Report) -> None:
        self.path = path
        self._report = report
        self._raw = ""
        self._ids: set[str] = set()

    def items(self, key: str | None, expected: str) -> list[Item]:
        """The objects of the list under `key` (of the file itself where None); empty after a fault."""
        loaded = self._load()
        found = loaded.get(key) if key and isinstance(loaded, dict) else loaded
        if loaded is None:
            return []
        if not isinstance(found, list) or not all(isinstance(item, dict) for item in found):
            self._report(Fault(self.path, 1, f"no list of {key or 'questions'}", expected))
            return []
        return found

    def inner(self, item: Item, key: str, where: str) -> list[Item]:
        """The objects of a list within an item; empty after a fault."""
        found = item.get(key)
        if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
            self._report(Fault(self.path, 1, f"{where} has no list of {key}", f'"{key}": [{{...}}, ...]'))
            return []
        return found

    def new_id(self, id: object, where: str) -> str | None:
        """The id of a question, as a string; None after a fault."""
        if not isinstance(id, str | int) or id == "":
            self._report(Fault(self.path, 1, f"{where} has no id", '"id": "..."'))
            return None
        name = str(id)
        if name in self._ids:
            return self.fault(name, "the id stands a second time", "ids that are all different", last=True)
        self._ids.add(name)
        return name

    def fault(self, id: str, what: str, expected: str, *, last: bool = False) -> None:
        """Report what is wrong with a question, with its id and the line it stands on."""
        quoted = json.dumps(id), json.dumps(id, ensure_ascii=False)
        find = self._raw.rfind if last else self._raw.find
        at = max(find(one) for one in quoted)
        line = self._raw.count("\n", 0, at) + 1 if at >= 0 else 1
        self._report(Fault(self.path, line, f"question {id}: {what}", expected))

    def _load(self) -> Any:
        """What the file holds; None after a fault."""
        try:
            self._raw = self.path.read_bytes().decode("utf-8-sig")
            return json.loads(self._raw) if self._raw.strip() else None
        except UnicodeDecodeError as error:
            what, line = (
                f"byte 0x{error.object[error.start]:02x} is not UTF-8",
                error.object.count(b"\n", 0, error.start) + 1,
            )
            self._report(Fault(self.path, line, what, "text saved as UTF-8"))
        except json.JSONDecodeError as error:
            self._report(Fault(self.path, error.lineno, f"not JSON ({error.msg})", "one whole JSON file"))
        except RecursionError:
            self._report(Fault(self.path, 1, "JSON nested too deeply", "one whole JSON file"))
        return None
