"""Schemas as people write them on a command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import swink_core as swink
from swink_cli.schemas import read_schema, schema_of

TEXT, NUMBER = {"type": "string"}, {"type": "integer"}

# name, words, properties, those that may be left out
FIELDS: list[tuple[str, str, dict[str, Any], set[str]]] = [
    ("a name", "name", {"name": TEXT}, set()),
    ("names between commas", "name, age int", {"name": TEXT, "age": NUMBER}, set()),
    ("a comma at the end", "name, age int,", {"name": TEXT, "age": NUMBER}, set()),
    ("lines", "name\nage int\n", {"name": TEXT, "age": NUMBER}, set()),
    ("every type", "a str, b text, c float, d number, e bool", {
        "a": TEXT, "b": TEXT, "c": {"type": "number"}, "d": {"type": "number"},
        "e": {"type": "boolean"},
    }, set()),
    ("a description", "bio: in one sentence", {"bio": {**TEXT, "description": "in one sentence"}},
     set()),
    ("a description with a comma", "bio: short, please\nage int", {
        "bio": {**TEXT, "description": "short, please"}, "age": NUMBER,
    }, set()),
    ("lists", "tags[], sizes int[]", {
        "tags": {"type": "array", "items": TEXT}, "sizes": {"type": "array", "items": NUMBER},
    }, set()),
    ("what may be left out", "name, born int?, tags[]?", {
        "name": TEXT, "born": NUMBER, "tags": {"type": "array", "items": TEXT},
    }, {"born", "tags"}),
    ("letters of any language", "größe int", {"größe": NUMBER}, set()),
]  # fmt: skip


@pytest.mark.parametrize(
    ("words", "properties", "optional"), [row[1:] for row in FIELDS], ids=[row[0] for row in FIELDS]
)
def test_words_stand_for_an_object(
    words: str, properties: dict[str, Any], optional: set[str]
) -> None:
    schema = schema_of(words)
    assert schema["properties"] == properties
    assert schema["required"] == [name for name in properties if name not in optional]
    whole = schema_of(f"[{words}]")
    assert whole["properties"]["items"] == {"type": "array", "items": schema}


@pytest.mark.parametrize(
    "words", ["", "[]", "age foo", "a b c", "1st", "name, name", "na-me", "a[]?x", "age int int"]
)
def test_invalid_field_notation_is_refused(words: str) -> None:
    with pytest.raises(swink.InvalidOption, match="--schema"):
        schema_of(words)


def test_a_schema_is_json_a_file_of_either_kind_or_words(tmp_path: Path) -> None:
    schema = schema_of("name")
    (tmp_path / "a.json").write_text(json.dumps(schema))
    (tmp_path / "b.txt").write_text("name\n")
    (tmp_path / "c").write_text(json.dumps(schema))
    files = (str(tmp_path / name) for name in ("a.json", "b.txt", "c"))
    for given in ("name", json.dumps(schema), *files):
        assert read_schema(given) == schema
    with pytest.raises(swink.MediaError, match=r"absent\.json: No such file"):
        read_schema("absent.json")
    with pytest.raises(swink.InvalidOption, match="--schema is not valid JSON"):
        read_schema("{name}")


def test_an_answer_has_the_fields_that_were_asked_for(swink: Any) -> None:
    answer = json.loads(
        swink("ask", "-m", "echo/echo", "--schema", "[name, age int]", "Ada").stdout
    )
    assert set(answer["items"][0]) == {"name", "age"}
