"""Types for the scripts of the pages, generated from the API's description.

`python -m lamina.web.types` writes them; a test fails if they are stale.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

Schema = Mapping[str, Any]

_HEAD = "// Generated from the API's description by `python -m lamina.web.types`; do not edit.\n"
_PREFIX = "/api"


def typescript() -> str:
    """Every shape of the API as a TypeScript interface, and what each address takes and returns.

    Example:
        >>> "export interface AboutServer {" in typescript()
        True
    """
    from lamina.web.app import create_app
    from lamina.web.state import ServerSettings

    described = create_app(ServerSettings()).openapi()
    shapes = [_interface(name, schema) for name, schema in described["components"]["schemas"].items()]
    return "\n".join([_HEAD, *shapes, *_addresses(described["paths"])])


def _interface(name: str, schema: Schema) -> str:
    if schema.get("type") != "object":
        return f"{_comment(schema)}export type {name} = {type_of(schema)};\n"
    required = schema.get("required", ())
    lines = [
        f"{_comment(inner, '  ')}  {_key(field)}{'' if field in required else '?'}: {type_of(inner)};"
        for field, inner in schema.get("properties", {}).items()
    ]
    if schema.get("additionalProperties"):
        lines.append("  [name: string]: unknown;")
    return "\n".join([f"{_comment(schema)}export interface {name} {{", *lines, "}\n"])


def type_of(schema: Schema) -> str:
    if "$ref" in schema:
        return schema["$ref"].rpartition("/")[2]
    if "anyOf" in schema:
        return " | ".join(dict.fromkeys(map(type_of, schema["anyOf"])))
    if "const" in schema or "enum" in schema:
        return " | ".join(json.dumps(value) for value in schema.get("enum", [schema.get("const")]))
    kind = schema.get("type")
    if kind == "array":
        if "prefixItems" in schema:
            return f"[{', '.join(map(type_of, schema['prefixItems']))}]"
        items = schema.get("items", {})
        union = "anyOf" in items or len(items.get("enum", ())) > 1
        return f"({type_of(items)})[]" if union else f"{type_of(items)}[]"
    if kind == "object":
        values = schema.get("additionalProperties", True)
        # What the API does not describe further is not checked.
        return f"Record<string, {type_of(values) if isinstance(values, Mapping) else 'any'}>"
    return {"integer": "number", "number": "number", "null": "null"}.get(str(kind), str(kind) if kind else "any")


def _addresses(paths: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """One interface per method: address -> what it returns, and for POST what it takes."""
    for method in ("get", "post", "delete"):
        lines = []
        for path, methods in paths.items():
            answer = _json(methods.get(method, {}).get("responses", {}))
            if answer is None:
                continue
            taken = _json({"200": methods[method].get("requestBody", {})})
            shape = (
                type_of(answer)
                if method != "post"
                else f"{{ takes: {type_of(taken or {})}; gives: {type_of(answer)} }}"
            )
            lines.append(f"  {address_of(path)}: {shape};")
        yield "\n".join([f"export interface {method.capitalize()} {{", *lines, "}\n"])


def _json(responses: Mapping[str, Any]) -> Schema | None:
    """The JSON schema of the successful response; None if it is not JSON."""
    for code, answer in responses.items():
        if code.startswith("2"):
            return answer.get("content", {}).get("application/json", {}).get("schema")
    return None


def address_of(path: str) -> str:
    """An address as a key; one with parameters becomes a pattern."""
    address = re.sub(r"\{[^}]+\}", "${string}", path.removeprefix(_PREFIX))
    return f"[address: `{address}`]" if "$" in address else json.dumps(address)


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z_]\w*", name) else json.dumps(name)


def _comment(schema: Schema, indent: str = "") -> str:
    description = " ".join(str(schema.get("description", "")).split())
    return f"{indent}/** {description} */\n" if description else ""


def main() -> None:
    """Write the types beside the scripts that use them."""
    path = Path(str(files("lamina.web"))) / "static" / "shared" / "api_types.d.ts"
    path.write_text(typescript(), encoding="utf-8")
    print(path)


if __name__ == "__main__":
    main()
