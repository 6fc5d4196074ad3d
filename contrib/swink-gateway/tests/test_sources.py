"""The sources that one provider's text cites, in the protocol of another."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from made import events
from turned import whole, written

import swink_core as swink
from swink_core import AssistantMessage, TextBlock
from swink_gateway.protocols.chat.protocol import ChatProtocol
from swink_gateway.protocols.gemini.protocol import GeminiProtocol
from swink_gateway.protocols.messages.protocol import MessagesProtocol
from swink_gateway.protocols.responses.protocol import ResponsesProtocol
from swink_gateway.protocols.sources import Source, sources_of
from swink_testing.driver import fold

URL, TITLE = "https://tides.example", "Tides"
TEXT = "Ébb."  # a character of two bytes
CITED = "url_citation"
PAGE = {"url": URL, "title": TITLE}
PLACE = {"start_index": 0, "end_index": 3}
GROUNDED = {
    "groundingChunks": [{"web": {"uri": URL, "title": TITLE}}],
    "groundingSupports": [{"segment": {"endIndex": 4}, "groundingChunkIndices": [0, 7]}],
}

# a provider's metadata of a text, and the cited range
SAID: dict[str, tuple[dict[str, Any], tuple[int, int]]] = {
    "responses": ({"annotations": [{"type": CITED, **PAGE, **PLACE}]}, (0, 3)),
    "chat": ({"annotations": [{"type": CITED, CITED: {**PAGE, **PLACE}}]}, (0, 3)),
    "messages": ({"citations": [{"type": "web_search_result_location", **PAGE}]}, (0, 4)),
    "gemini": ({"groundingMetadata": GROUNDED}, (0, 3)),
    "results": ({"citations": [URL], "search_results": [PAGE]}, (0, 4)),
}  # fmt: skip


@pytest.mark.parametrize("form", SAID)
def test_urls_are_found_in_every_form(form: str) -> None:
    said, place = SAID[form]
    assert sources_of(said, TEXT) == [Source(URL, TITLE, *place)]


@pytest.mark.parametrize(
    "said",
    [
        None, {}, {"annotations": 7}, {"annotations": [7, {"type": "file_path"}]},
        {"annotations": [{"type": CITED, "url": 7}]}, {"citations": [{"document_index": 0}]},
        {"groundingMetadata": {"groundingSupports": [{"groundingChunkIndices": [3]}]}},
    ],
)  # fmt: skip
def test_data_without_a_url_is_not_a_source(said: Any) -> None:
    assert sources_of(said, TEXT) == []


FLAT = {"type": CITED, **PAGE}
EXPECTED: dict[str, Any] = {
    "chat": lambda start, end: {
        "type": CITED,
        CITED: {**PAGE, "start_index": start + 4, "end_index": end + 4},
    },
    "responses": lambda start, end: {**FLAT, "start_index": start, "end_index": end},
    "messages": lambda start, end: {
        "type": "web_search_result_location", "cited_text": "", **PAGE,
    },
    "gemini": lambda start, end: {"uri": URL, "title": TITLE},
}  # fmt: skip
PROTOCOLS: dict[str, Any] = {
    "chat": ChatProtocol(), "responses": ResponsesProtocol(), "messages": MessagesProtocol(),
    "gemini": GeminiProtocol(),
}  # fmt: skip


def found(protocol: str, data: Any) -> list[Any]:
    """Return all sources in an answer."""
    if isinstance(data, list):
        return [one for item in data for one in found(protocol, item)]
    if not isinstance(data, dict):
        return []
    names = {"chat": "annotations", "responses": "annotations", "gemini": "citationSources"}
    here = data.get(names.get(protocol, "citations")) or data.get("citation")
    listed = here if isinstance(here, list) else [here] if here else []
    listed = [{k: v for k, v in one.items() if k != "encrypted_index"} for one in listed]
    return [*listed, *(one for value in data.values() for one in found(protocol, value))]


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("form", SAID)
def test_a_source_is_written_in_every_protocol_with_a_field(form: str, protocol: str) -> None:
    said, place = SAID[form]
    answer = events(
        swink.TextStart(0), swink.TextDelta(0, "So: "), swink.TextEnd(0),
        swink.TextStart(1), swink.TextDelta(1, TEXT), swink.TextEnd(1, said),
    )  # fmt: skip
    expected = [EXPECTED[protocol](*place)]
    body = msgspec.json.decode(whole(PROTOCOLS[protocol], fold(answer, "acme")))
    assert found(protocol, body) == expected
    pieces = written(PROTOCOLS[protocol], [[e] for e in answer], array=False, thoughts=True)
    lines = [line[6:] for line in b"".join(pieces).split(b"\n") if line.startswith(b"data: ")]
    frames = [msgspec.json.decode(line) for line in lines if line != b"[DONE]"]
    told = found(protocol, frames)
    assert told[:1] == expected
    assert all(one == told[0] for one in told)  # some protocols repeat it for the complete text


@pytest.mark.parametrize("form", SAID)
def test_data_sealed_with_a_source_survives_a_client_of_messages(form: str) -> None:
    given = AssistantMessage([TextBlock(TEXT, SAID[form][0])], provider="acme")
    content = msgspec.json.decode(whole(PROTOCOLS["messages"], given))["content"]
    assert [block["type"] for block in content] == ["text"]
    said = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": content}]
    body = {"model": "m", "messages": said}
    returned = MessagesProtocol().read(body, {}, {}).context.messages[1]
    assert isinstance(returned, AssistantMessage)
    assert (returned.content, returned.provider) == (given.content, "acme")
