"""The types of the scripts are those of the API."""

from __future__ import annotations

from importlib.resources import files

import pytest

from lamina.web import types


def test_the_types_beside_the_scripts_are_not_stale():
    written = files("lamina.web").joinpath("static/shared/api_types.d.ts").read_text(encoding="utf-8")
    assert written == types.typescript(), "run `python -m lamina.web.types`"


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ({"type": "integer"}, "number"),
        ({"type": "boolean"}, "boolean"),
        ({}, "any"),
        ({"$ref": "#/components/schemas/Head"}, "Head"),
        ({"type": "array", "items": {"$ref": "#/components/schemas/Head"}}, "Head[]"),
        ({"type": "array", "items": {"anyOf": [{"type": "number"}, {"type": "null"}]}}, "(number | null)[]"),
        ({"type": "array", "prefixItems": [{"type": "number"}, {"type": "string"}]}, "[number, string]"),
        ({"enum": ["a", "b"], "type": "string"}, '"a" | "b"'),
        ({"const": "a", "type": "string"}, '"a"'),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, "Record<string, number>"),
        ({"type": "object", "additionalProperties": True}, "Record<string, any>"),
    ],
)
def test_schemas_become_types(schema, said):
    assert types.type_of(schema) == said


def test_addresses_with_parts_to_fill_in_are_patterns():
    assert types.address_of("/api/results") == '"/results"'
    assert types.address_of("/api/results/{id}") == "[address: `/results/${string}`]"


def test_they_are_written_beside_the_scripts(monkeypatch, tmp_path, capsys):
    (tmp_path / "static" / "shared").mkdir(parents=True)
    monkeypatch.setattr(types, "files", lambda _: tmp_path)
    types.main()
    assert capsys.readouterr().out.strip().endswith("api_types.d.ts")
    assert "export interface Get {" in (tmp_path / "static" / "shared" / "api_types.d.ts").read_text()
