"""Print how often the body of one request is built.

    python -m lab.findings.requests_built

With options of the call and `extra` beside defaults of the client, the body is needed once.
"""

from __future__ import annotations

import asyncio
from typing import Any
from unittest.mock import patch

import swink
from lab.findings.call_cost import ANSWER
from lab.findings.upstreams import verdict
from swink_core import Host
from swink_testing.driver import MemoryHTTPClient, MemoryResponse

CASES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "plain": ({}, {}),
    "default of the client": ({"temperature": 0.5}, {}),
    "extra": ({}, {"extra": {"service_tier": "flex"}}),
    "extra beside a default": ({"temperature": 0.5}, {"extra": {"service_tier": "flex"}}),
}


async def built(defaults: dict[str, Any], options: dict[str, Any]) -> int:
    """Count the requests that one call builds."""
    kind: Any = type(Host(environ={}).bind("groq").provider)
    request = kind.request
    built: list[object] = []

    def counting(self: object, *arguments: Any, **named: Any) -> object:
        built.append(self)
        return request(self, *arguments, **named)

    http = MemoryHTTPClient(MemoryResponse([ANSWER]))
    providers = {"groq": {"api_key": "test", "base_url": "http://vendor.invalid"}}
    with patch.object(kind, "request", counting):
        async with swink.Client(http=http, providers=providers, **defaults) as client:
            await client.complete("groq/openai/gpt-oss-120b", "Hi", **options)
    return len(built)


def main() -> None:
    """Print one line for each case."""
    for name, (defaults, options) in CASES.items():
        times = asyncio.run(built(defaults, options))
        verdict(times == 1, name, f"{times} times")


if __name__ == "__main__":
    main()
