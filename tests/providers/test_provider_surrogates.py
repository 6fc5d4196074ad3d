"""Half a surrogate pair, which UTF-8 cannot represent, does not stop a request, and is reported."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from swink_core import (
    AssistantMessage,
    Client,
    Context,
    Model,
    Notice,
    StreamOptions,
    TextBlock,
    Tool,
    ToolCallBlock,
    ToolResultMessage,
    UserMessage,
)
from swink_core.providers import HTTPProvider
from swink_core.providers.intact import paths_of_halves
from swink_testing.acme import AcmeProvider, acme_answer, acme_host
from swink_testing.driver import MemoryHTTPClient


@pytest.mark.parametrize(
    ("name", "text", "sent"),
    [
        ("plain text", "naïve 🦊", "naïve 🦊"),
        ("a lone half", "a\ud800b", "a\N{REPLACEMENT CHARACTER}b"),
        ("two halves of one character", "\ud83e\udd8a", "🦊"),
        ("a whole one beside a half", "🦊\udc00", "🦊\N{REPLACEMENT CHARACTER}"),
    ],
    ids=lambda value: value.replace(" ", "-") if value.isascii() else "",
)
def test_a_request_contains_what_utf_8_can_represent(name: str, text: str, sent: str) -> None:
    request = HTTPProvider("acme").json_request("http://localhost/", {"text": [text]})
    assert json.loads(request.body) == {"text": [sent]}


HALF = "a\ud800"
MESSAGES = [
    UserMessage(HALF),
    AssistantMessage([TextBlock("fine"), ToolCallBlock("c", "f", {"x": [HALF]})]),
    ToolResultMessage("c", "f", [TextBlock("\ud83e\udd8a"), TextBlock(HALF)]),
]
ALL = ("system_prompt", "messages[0].content", "messages[1].content[1]", "messages[2].content[1]")


def test_the_paths_of_values_with_half_a_pair_are_found() -> None:
    context = Context(MESSAGES, HALF, [Tool("f", "fine"), Tool("g", HALF)])
    assert tuple(paths_of_halves(context)) == (*ALL, "tools[1]")


@pytest.mark.parametrize(
    ("context", "extra", "paths"),
    [
        (Context(MESSAGES, HALF), {}, [ALL]),
        (Context([UserMessage("Hi")]), {"x": HALF}, [("options",)]),
        (Context([UserMessage("\ud83e\udd8a")]), {}, []),
        (Context([UserMessage("Hi")]), {}, []),
    ],
)
async def test_a_notice_names_the_values_with_half_a_pair(
    context: Context,
    extra: dict[str, str],
    paths: list[tuple[str, ...]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def convert(self: AcmeProvider, model: Model, context: Context, options: StreamOptions) -> Any:
        return {"conversation": msgspec.to_builtins(context), **options.extra}

    monkeypatch.setattr(AcmeProvider, "convert", convert)
    http = MemoryHTTPClient(acme_answer({"text": "Hi"}, {"stop": "stop"}))
    own = {"api_key": "test-key", "base_url": "http://acme.invalid"}
    async with Client(host=acme_host(), http=http, providers={"acme": own}) as client:
        stream = client.stream("acme/large", context, extra=extra)
        told = [event async for event in stream if isinstance(event, Notice)]
    assert [notice.paths for notice in told if notice.code == "lone_surrogate"] == paths
    assert len(http.bodies) == 1
