"""Compare the schemas of `signatures.py` with those that pydantic-ai makes: `peer_schemas.py`.

It runs in a separate environment (`pip install pydantic-ai-slim`), reads `schemas.json`, which
contains the schemas of swink, and exits with 1 for a difference without a reason in `REASONS`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from pydantic_ai import Tool
from signatures import SIGNATURES

_ONE_OBJECT = "pydantic-ai takes a function's only object for all its arguments; here it has a name"

REASONS = {
    "bare_list": "an `items` of anything says nothing",
    "pair": "no item may follow those of a tuple, and `items: false` says so",
    "mixed_literal": "msgspec sorts the words",
    "enum": "msgspec sorts the words",
    "decimal": "a number of JSON's would lose digits; msgspec wants the text",
    "data": "msgspec says how bytes are encoded, which is in base64",
    "dataclass_argument": _ONE_OBJECT,
    "nested_dataclass": _ONE_OBJECT,
    "model": _ONE_OBJECT,
    "recursive": _ONE_OBJECT,
    "typed_dict": "pydantic takes typing.TypedDict from Python 3.12 on",
}


def written_out(schema: Any, root: Any, depth: int = 0) -> Any:
    """Return a schema without titles, each reference followed a few times."""
    if isinstance(schema, list):
        return [written_out(each, root, depth) for each in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema and depth < 3:
        named = root["$defs"][schema["$ref"].rpartition("/")[2]]
        beside = {key: value for key, value in schema.items() if key != "$ref"}
        return written_out({**named, **beside}, root, depth + 1)
    return {
        key: {name: written_out(each, root, depth) for name, each in value.items()}
        if key == "properties"
        else written_out(value, root, depth)
        for key, value in schema.items()
        if key not in ("$defs", "title")
    }


def theirs(function: Any) -> Any:
    """Return the schema that pydantic-ai makes, or the name of what it raises."""
    try:
        return Tool(function, takes_ctx=False).tool_def.parameters_json_schema
    except Exception as error:
        return type(error).__name__


def main() -> int:
    """Print each difference; return 1 if one has no reason, or a reason no difference."""
    ours = json.loads((Path(__file__).parent / "schemas.json").read_text("utf-8"))
    wrong = 0
    for function in SIGNATURES:
        name = function.__name__
        one, other = ours[name], theirs(function)
        if not isinstance(other, str):
            one, other = written_out(one, one), written_out(other, other)
        is_like = one == other
        if is_like == (name in REASONS):
            wrong += 1
            print(f"{name}:\n  ours   {json.dumps(one)}\n  theirs {json.dumps(other)}")
        elif not is_like:
            print(f"{name}: {REASONS[name]}")
    print(f"{len(SIGNATURES)} signatures, {len(REASONS)} known differences, {wrong} others")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
