"""Names and words: `python -m checks.words [PATH ...]` lists what does not belong, and fails if there is any.

Classes of one name are one contract or a mistake; those that stay are listed here. Names are nouns for data and verbs
for work, never a bare participle. Sentences are those of the field (docs/glossary.md).
"""

from __future__ import annotations

import ast
import re
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

BANNED = frozenset(["each", "own", "at", "found", "said", "told", "made", "shown", "asked", "kept", "held"])
"""No name of a variable, an argument, a field or a class."""
PAIRS = {
    "Panel": "one panel of a figure, in the modules that draw",
    "ModelReading": "what was computed, and how the API answers it",
    "ContextPart": "what was computed, and how the API answers it",
    "ScoreDraws": "a score and its draws, of a curve and of a probe",
    "CurvePoint": "a point of a curve, of pruning and of training",
    "HeadMeasure": "what was computed, and how the API answers it",
    "HeadCard": "what was computed, and how the API answers it",
    "OutstandingHead": "what was computed, and how the API answers it",
    "TaskLayer": "what was computed, and how the API answers it",
    "Target": "what a model is asked for; in figures, the target that is drawn",
}
"""Names that two classes have on purpose, and why."""
DIALECT = re.compile(
    r"\b(is|are|was|were|be) (told|said) (by|to|of|apart|where|whether|what|how|here|there|in words)\b"
    r"|\bcan(not)? be told\b|\bso many\b|\bwhoever\b|\bwhichever they\b"
    r"|(?<!there )\bis no (number|byte|file|table|word|text|model|interval|image)\b"
    r"|\bhands? on\b|\b(drawn|begins?|made|taken|measured) anew\b|\btaken away\b|\bnobody's\b|\bfor nobody\b"
    r"|\blies? beside\b|\bthat is to be\b|\ba row an?\b|\bat most about\b|\b(said|told) so\b",
    re.IGNORECASE,
)
"""Turns of phrase of the old house."""
_TOKEN = re.compile(
    r"""//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'"""  # comments and strings
    r"""|(?<=[(,=:\[!&|?{};\n])\s*/(?:\\.|\[(?:\\.|[^\]\\\n])*\]|[^/\\\n])+/"""  # a regular expression
    r"""|[`{}]|[\w$]+|.""",
    re.DOTALL,
)
"""One token of a script."""
_TEMPLATE = re.compile(r"(?:\\.|\$(?!\{)|[^`$\\])*(`|\$\{|$)", re.DOTALL)
"""The text of a template, up to its end or an expression in it."""
_PRIVATE = re.compile(r"^lamina(?:\.\w+)*\.(_[a-z]\w*)$")
PAGES = ("docs", "README.md", "CONTRIBUTING.md", "SECURITY.md")


def main(paths: Sequence[str]) -> int:
    """Print every fault below some paths; the exit status."""
    chosen = [Path(path) for path in paths]
    faults = [
        fault
        for fault in (*names(), *script_names(), *private_names(), *words())
        if not chosen or any(Path(fault[0]).is_relative_to(path) for path in chosen)
    ]
    for path, line, fault in faults:
        print(f"{path}:{line}: {fault}")
    if faults:
        print(f"{len(faults)} names and sentences to change; docs/glossary.md has the words")
    return bool(faults)


def names() -> Iterator[tuple[str, int, str]]:
    """Names that are participles, and classes that share a name."""
    classes: dict[str, list[tuple[str, int]]] = defaultdict(list)
    for path in sorted(Path("src").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                classes[node.name.lstrip("_")].append((str(path), node.lineno))
            name = _assigned(node)
            if name.lstrip("_").lower() in BANNED:
                yield str(path), getattr(node, "lineno", 0), f"name '{name}': call it what it holds"
    for name, places in classes.items():
        # A pair is two; panels are in every module that draws.
        if len(places) > 1 and (name not in PAIRS or (len(places) > 2 and name != "Panel")):
            yield from ((path, line, f"class '{name}' exists {len(places)} times") for path, line in places)


def script_names() -> Iterator[tuple[str, int, str]]:
    """Names in scripts that are participles: variables, arguments, functions and fields."""
    for path in sorted(path for folder in ("src", "checks") for path in Path(folder).rglob("*.*js")):
        script = path.read_text()
        for position, token in script_tokens(script):
            if token in BANNED and not re.match(r"\.at\(", script[position - 1 : position + 3]):
                yield str(path), script.count("\n", 0, position) + 1, f"name '{token}': call it what it holds"


def script_tokens(script: str) -> Iterator[tuple[int, str]]:
    """Where every token of a script begins, and the token; of templates only the expressions.

    Example:
        >>> [token for _, token in script_tokens("const text = `held: ${kept}`; // found") if token.strip(" ;`=")]
        ['const', 'text', 'kept', '}', '// found']
    """
    position = 0
    resumes: list[bool] = []  # of every brace that is open: whether the text of a template goes on after it
    while token := _TOKEN.match(script, position):
        yield position, token[0]
        position = token.end()
        if token[0] == "{":
            resumes.append(False)
        if token[0] == "`" or (token[0] == "}" and resumes and resumes.pop()):
            if not (text := _TEMPLATE.match(script, position)):
                return
            position = text.end()
            if text[1] == "${":
                resumes.append(True)


def private_names() -> Iterator[tuple[str, int, str]]:
    """Private names of lamina's modules in tests: a merge would move them."""
    for path in sorted(path for folder in ("tests", "benchmarks") for path in Path(folder).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            private: list[str] = []
            if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "lamina":
                private = [alias.name for alias in node.names if re.match("_[a-zA-Z]", alias.name)]
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                private = _PRIVATE.findall(node.value)
            line = getattr(node, "lineno", 0)
            yield from ((str(path), line, f"'{name}' is private: test what calls it") for name in private)


def _assigned(node: ast.AST) -> str:
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        return node.id
    if isinstance(node, ast.arg):
        return node.arg
    return node.name if isinstance(node, ast.ClassDef) else ""


def words() -> Iterator[tuple[str, int, str]]:
    """Sentences in docstrings, comments, messages and pages."""
    sources = [path for pattern in ("*.py", "*.js", "*.html") for path in Path("src").rglob(pattern)]
    pages = [page for name in PAGES for page in (Path(name).rglob("*.md") if Path(name).is_dir() else [Path(name)])]
    for path in sorted({*sources, *pages}):
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
            prose = path.suffix != ".py" or re.search(r'["#]|^\s+[A-Za-z]', line)
            if prose and (phrase := DIALECT.search(line)):
                yield str(path), number, f"'{phrase.group(0)}': {line.strip()[:100]}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
