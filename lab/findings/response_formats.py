"""Print what becomes of `response_format` as OpenAI's SDK takes it.

    python -m lab.findings.response_formats

The two forms of OpenAI's SDK, and a model class, should be understood or refused with advice, never
wrapped into another schema.
"""

from __future__ import annotations

import json
from typing import Any

from pydantic import BaseModel

import swink
from lab.findings.gateways import verdict
from lab.vendor import Vendor

SCHEMA = {
    "type": "object",
    "properties": {"a": {"type": "integer"}},
    "required": ["a"],
    "additionalProperties": False,
}


class Record(BaseModel):
    """A class that is passed in the place of a schema."""

    a: int


FORMATS: dict[str, Any] = {
    "json_object": {"type": "json_object"},
    "json_schema": {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}},
    "a class": Record,
}

MODELS = ("groq/openai/gpt-oss-120b", "openai/gpt-6.1-sol")


def sent(vendor: Vendor) -> str:
    """Return the format in the last body that the vendor received; `nothing` without one."""
    exchanges = vendor.state.record.of()
    if not exchanges:
        return "nothing"
    body = json.loads(exchanges[-1].body)
    return json.dumps(body.get("response_format") or body.get("text"))


def wrapped(found: str) -> bool:
    """Return whether a format of OpenAI's went out as if it were a schema itself."""
    return '"json_object"' in found.partition('"schema"')[2] or found.count('"json_schema"') > 2


def main() -> None:
    """Print one line for each model and format."""
    for model in MODELS:
        for name, format in FORMATS.items():
            with Vendor() as vendor:
                address = {"api_key": "key-alpha", "base_url": f"{vendor.url}/v1"}
                groq = {"api_key": "key-alpha", "base_url": f"{vendor.url}/groq"}
                providers = {"openai": address, "groq": groq}
                advice = ""
                with swink.SyncClient(providers=providers, retry=False) as client:
                    try:
                        client.complete(model, "Reply in JSON.", response_format=format)
                    except swink.SwinkError as error:
                        advice = f"{type(error).__name__}: {str(error)[:120]}"
                found = sent(vendor)
            right = not wrapped(found) and (found != "nothing" or "type=" in advice)
            verdict(right, f"{model}, {name}: sent {found[:150]} {advice}")


if __name__ == "__main__":
    main()
