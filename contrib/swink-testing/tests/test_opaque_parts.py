"""What swink has no words for goes to the provider it was meant for, and to no other.

Every installed provider and API over HTTP is asked with tools' metadata of its own and of others.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from swink_core import (
    Client,
    Context,
    Error,
    Host,
    RetryPolicy,
    StreamOptions,
    Tool,
    UserMessage,
)
from swink_testing.driver import MemoryHTTPClient, MemoryResponse
from swink_testing.participants import Participant, participants

HOST = Host(environ={})
ASKED = [p for p in participants(HOST) if not p.rules.in_words]
EACH = pytest.mark.parametrize("target", ASKED, ids=str)

OWN, OTHER = "swink-own-4d1f", "swink-other-9c02"


def features_of(target: Participant) -> frozenset[str]:
    provider: Any = HOST.bind(target.provider).provider
    features: frozenset[str] = provider.api(target.model, StreamOptions(**target.options)).features
    return features


def ask(target: Participant, context: Context) -> tuple[str, Error]:
    """The body of the request that a call makes, empty for none, and how the call ends."""
    http = MemoryHTTPClient(MemoryResponse.of_json({"error": {"message": "enough"}}, 400))

    async def asked() -> Any:
        options = {"api_key": "test", "base_url": "http://server.example", **target.options}
        async with (
            Client(host=HOST, http=http, retry=RetryPolicy.none()) as client,
            client.stream(str(target.model), context, **options) as stream,
        ):
            return [event async for event in stream][-1]

    terminal = asyncio.run(asked())
    return "".join(json.dumps(body) for body in http.bodies), terminal


@EACH
def test_a_tools_metadata_goes_to_its_own_provider_alone(target: Participant) -> None:
    if "tools" not in features_of(target):
        pytest.skip("it takes no tools")
    metadata = {target.provider: {"swink_probe": OWN}, "elsewhere": {"swink_probe": OTHER}}

    body, _ = ask(target, Context([UserMessage("Hi")], tools=[Tool("f", metadata=metadata)]))

    assert OWN in body
    assert (OTHER in body) == (target.wire == "swink")  # which goes on to whoever knows
