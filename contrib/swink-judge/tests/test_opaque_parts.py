"""Content without a swink equivalent goes only to the provider for which it was written.

Every installed provider and API over HTTP receives parts for itself and for others: tools'
metadata, extensions in user messages and in tool results, ids of uploaded files.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from swink_core import (
    AssistantMessage,
    Block,
    Client,
    Context,
    DocumentBlock,
    Error,
    ExtensionBlock,
    FileIdSource,
    Host,
    ImageBlock,
    Message,
    RetryPolicy,
    StreamErrorKind,
    StreamOptions,
    SystemMessage,
    TextBlock,
    Tool,
    ToolCallBlock,
    ToolResultMessage,
    UserMessage,
    load,
)
from swink_core.plugins.catalog import Catalog
from swink_core.providers import rule_of
from swink_judge.participants import Participant, participants
from swink_testing.driver import MemoryHTTPClient, MemoryResponse

HOST = Host(environ={})
ASKED = [p for p in participants(HOST) if not p.rules.in_words]
EACH = pytest.mark.parametrize("target", ASKED, ids=str)

OWN, OTHER = "swink-own-4d1f", "swink-other-9c02"


def features_of(target: Participant) -> frozenset[str]:
    provider: Any = HOST.bind(target.provider).provider
    api = provider.api(target.model, StreamOptions(**target.options))
    takes = rule_of(Catalog(HOST).resolve(str(target.model)), api).takes
    return frozenset(name for name in api.features if takes.get(name) is not False)


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


def user_says(block: Block) -> list[Message]:
    return [UserMessage([TextBlock("See this."), block])]


def tool_says(block: Block) -> list[Message]:
    return [
        UserMessage("Look."),
        AssistantMessage([ToolCallBlock("call_1", "look")]),
        ToolResultMessage("call_1", "look", [TextBlock("See this."), block]),
    ]


SAYS = pytest.mark.parametrize("says", [user_says, tool_says])


@EACH
@SAYS
def test_an_extension_goes_to_its_own_provider_as_it_is_or_nowhere(
    target: Participant, says: Callable[[Block], list[Message]]
) -> None:
    data = {"text": OWN, "swink_part": {"value": 1}}

    body, terminal = ask(target, Context(says(ExtensionBlock(target.provider, "part", data))))

    if "extensions" in features_of(target):
        assert json.dumps(data)[1:-1] in body  # an API may want a call's id beside it
    else:
        assert (body, terminal.error_kind) == ("", StreamErrorKind.UNSUPPORTED)


@EACH
@SAYS
def test_an_uploaded_file_is_named_to_its_own_provider_or_refused(
    target: Participant, says: Callable[[Block], list[Message]]
) -> None:
    block = DocumentBlock(FileIdSource(target.provider, OWN))

    body, terminal = ask(target, Context(says(block)))

    if {"documents", "file_ids"} <= features_of(target):
        assert OWN in body
    else:
        assert (body, terminal.error_kind) == ("", StreamErrorKind.UNSUPPORTED)


@EACH
@SAYS
@pytest.mark.parametrize(
    "block",
    [
        ExtensionBlock("elsewhere", "part", {"value": OTHER}),
        ImageBlock(FileIdSource("elsewhere", OTHER)),
        DocumentBlock(FileIdSource("elsewhere", OTHER)),
    ],
    ids=["extension", "image", "document"],
)
def test_what_is_anothers_is_refused_before_anything_is_sent(
    target: Participant, says: Callable[[Block], list[Message]], block: Block
) -> None:
    body, terminal = ask(target, Context(says(block)))

    if target.wire == "swink":  # which goes on to whoever it is meant for
        assert OTHER in body
    else:
        assert (body, terminal.error_kind) == ("", StreamErrorKind.UNSUPPORTED)


@pytest.mark.parametrize("target", [p for p in ASKED if p.wire == "swink"], ids=str)
def test_a_conversation_of_opaque_parts_is_the_same_behind_the_proxy(target: Participant) -> None:
    context = Context(
        [
            SystemMessage("Be brief."),
            *user_says(DocumentBlock(FileIdSource("elsewhere", OTHER), "page.pdf")),
            SystemMessage([TextBlock("Be kind.")]),
            *tool_says(ExtensionBlock("elsewhere", "part", {"value": OTHER})),
        ],
        tools=[Tool("look", strict=True, metadata={"elsewhere": {"value": OTHER}})],
    )

    body, _ = ask(target, context)

    sent = json.loads(body)
    assert load(Context, {name: sent[name] for name in ("messages", "tools")}) == context
