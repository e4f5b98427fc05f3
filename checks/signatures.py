"""Write `src/lamina/__init__.pyi`: the types of every analysis as it is called, for editors and type checkers.

    python -m checks.signatures

An analysis is called with names where its function takes what they load, and with data options and places that its
function does not have; so its types are written out from its declaration.
"""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path

from lamina.framework.registry import get_analysis, homes

PACKAGE = Path(__file__).parents[1] / "src" / "lamina"
STUB = PACKAGE / "__init__.pyi"

_HEAD = '''"""Written by `make index`; what lamina holds, with the types of each call."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Generic, Literal, Optional, ParamSpec

import lamina
from lamina import stats as stats
'''
_MODEL = "str | Path | Encoder"
_CALLED = """
P = ParamSpec("P")

class _Called(lamina.framework.declare.Analysis, Generic[P]):
    def __call__(self, *inputs: P.args, **keywords: P.kwargs) -> Result: ...
    def estimate(self, *inputs: P.args, **keywords: P.kwargs) -> lamina.framework.estimate.Cost: ...
    def ask(self, *inputs: P.args, **keywords: P.kwargs) -> lamina.framework.run.Query: ...

def _called(function: Callable[P, Result]) -> _Called[P]: ...
"""


def stub() -> str:
    """The text of the stub.

    Example:
        >>> "def geometry(" in stub()
        True
    """
    signatures = [_signature(name) for name, home in homes().items() if home.startswith("lamina.")]
    named = "".join(signatures)
    modules = sorted({name.rpartition(".")[0] for name in re.findall(r"\blamina(?:\.\w+)+", named + _CALLED)})
    imports = "".join(f"import {module}\n" for module in modules if module != "lamina")
    return _HEAD.replace("import lamina\n", f"{imports}") + _public() + _CALLED + named


def _public() -> str:
    """The public names that are not analyses, from the package's own imports for type checkers."""
    tree = ast.parse((PACKAGE / "__init__.py").read_text(encoding="utf-8"))
    guarded = next(node for node in tree.body if isinstance(node, ast.If))
    lines = []
    for node in guarded.body:
        if isinstance(node, ast.ImportFrom):
            lines += [f"from {node.module} import {alias.name} as {alias.name}\n" for alias in node.names]
    return "".join(lines)


def _signature(name: str) -> str:
    analysis = get_analysis(name)
    signature = inspect.signature(analysis)
    inputs = {given.name: _MODEL for given in analysis.reads.given if given.kind == "model" and not given.many}
    parameters, starred = [], False
    for parameter in signature.parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY and not starred:
            parameters.append("*")
            starred = True
        star = "*" if parameter.kind is parameter.VAR_POSITIONAL else ""
        starred = starred or bool(star)
        annotation = inputs.get(parameter.name) or _written(parameter.annotation)
        default = "" if parameter.default is parameter.empty else " = ..."
        parameters.append(f"{star}{parameter.name}: {annotation}{default}")
    inside = "".join(f"    {parameter},\n" for parameter in parameters)
    return f"\n@_called\ndef {name}(\n{inside}) -> Result: ...\n"


def _written(annotation: object) -> str:
    if annotation is inspect.Parameter.empty:
        return "Any"
    return (
        inspect.formatannotation(annotation)
        .replace("collections.abc.", "")
        .replace("typing.", "")
        .replace("pathlib.", "")
    )


if __name__ == "__main__":
    STUB.write_text(stub(), encoding="utf-8")
