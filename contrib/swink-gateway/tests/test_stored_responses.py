"""Stored responses are read, deleted and continued by the owner of the key that made them alone."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import aiohttp
import pytest
from attrs import define
from made import events, said
from serving import Answer, Scripted, ask, serving
from test_tenancy import ALICE, BOB, KEYS, RESPONSES, VALUES

from swink_core import StopReason, TextDelta, TextEnd, TextStart, UserMessage
from swink_gateway.policy.config import Source
from swink_gateway.protocols.frames import encode
from swink_gateway.serving.conversation_store import ConversationStore, Kept
from swink_gateway.serving.server import Gateway

PATH, BODY = RESPONSES
ENDS = ("response.completed", "error")
ITEMS = [{"role": "user", "content": f"{number}"} for number in range(3)]


def served() -> Any:
    return serving(Scripted(said("Hello")), config=Source("t", KEYS).config(VALUES))


async def made(gateway: Gateway, **more: Any) -> str:
    answer = await ask(gateway, PATH, {**BODY, **more}, headers=ALICE)
    assert answer.status == 200, answer.body
    if more.get("stream"):
        return str(answer.frames[-1]["response"]["id"])
    return str(answer.json["id"])


async def read(gateway: Gateway, id: str, method: str = "GET", below: str = "") -> Answer:
    return await ask(gateway, f"{PATH}/{id}{below}", method=method, headers=ALICE)


@pytest.mark.parametrize("stream", [False, True])
async def test_a_response_is_read_again_as_it_was(stream: bool) -> None:
    async with served() as gateway:
        id = await made(gateway, stream=stream, metadata={"a": "b"})
        found = (await read(gateway, id)).json
    assert (found["id"], found["object"], found["status"]) == (id, "response", "completed")
    assert found["output"][0]["content"][0]["text"] == "Hello"
    assert found["metadata"] == {"a": "b"}


@pytest.mark.parametrize("stream", [False, True])
async def test_a_response_with_a_refusal_is_read_again_as_it_was(stream: bool) -> None:
    words = [TextStart(0), TextDelta(0, "I can't."), TextEnd(0, {"refusal": True})]
    upstream = Scripted(events(*words, stop_reason=StopReason.CONTENT_FILTER))
    async with serving(upstream, config=Source("t", KEYS).config(VALUES)) as gateway:
        answer = await ask(gateway, PATH, {**BODY, "stream": stream}, headers=ALICE)
        first = answer.frames[-1]["response"] if stream else answer.json
        found = (await read(gateway, first["id"])).json
    assert first["output"][0]["content"][0]["type"] == "refusal"
    assert (first["status"], first["incomplete_details"]) == ("completed", None)
    assert found == first


async def test_the_input_items_come_in_pages() -> None:
    async with served() as gateway:
        id = await made(gateway, input=ITEMS)
        newest = (await read(gateway, id, below="/input_items?limit=2")).json
        rest = (await read(gateway, id, below=f"/input_items?after={newest['last_id']}")).json
        oldest = (await read(gateway, id, below="/input_items?order=asc")).json
        wrong = [
            (await read(gateway, id, below=f"/input_items?{query}")).status
            for query in ("limit=0", "limit=x", "order=up", "after=x")
        ]
        text = (await read(gateway, await made(gateway), below="/input_items")).json
    assert [item["content"] for item in newest["data"]] == ["2", "1"]
    assert (newest["object"], newest["has_more"]) == ("list", True)
    assert [item["content"] for item in rest["data"]] == ["0"]
    assert [item["content"] for item in oldest["data"]] == ["0", "1", "2"]
    assert len({item["id"] for item in oldest["data"]}) == len(ITEMS)
    assert wrong == [400] * 4
    assert text["data"][0]["content"] == [{"type": "input_text", "text": "Hi"}]


async def test_reading_a_large_response_again_encodes_nothing_large(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    encoded: list[bytes] = []

    def counted(data: Any) -> bytes:
        encoded.append(encode(data))
        return encoded[-1]

    async with served() as gateway:
        id = await made(gateway, input="x" * 1_000_000)
        monkeypatch.setattr("swink_gateway.serving.stored_responses.encode", counted)
        items = (await read(gateway, id, below="/input_items")).json
        await read(gateway, id)
    assert len(items["data"][0]["content"][0]["text"]) == 1_000_000
    assert encoded
    assert max(map(len, encoded)) < 1000


async def test_a_deleted_response_is_gone_for_continuing_too() -> None:
    async with served() as gateway:
        id = await made(gateway)
        deleted = await read(gateway, id, "DELETE")
        again = await read(gateway, id, "DELETE")
        on = await ask(gateway, PATH, {**BODY, "previous_response_id": id}, headers=ALICE)
    assert deleted.json == {"id": id, "object": "response", "deleted": True}
    assert again.status == 404
    assert (on.status, on.json["error"]["code"]) == (400, "previous_response_not_found")


async def test_a_response_that_has_ended_cannot_be_cancelled() -> None:
    async with served() as gateway:
        refused = await read(gateway, await made(gateway), "POST", "/cancel")
    assert refused.status == 400
    assert "background=true" in refused.json["error"]["message"]


def referring(id: str) -> dict[str, Any]:
    return {**BODY, "input": [ITEMS[0], {"type": "item_reference", "id": id}, ITEMS[1]]}


OWN = {"openai": {"api": "responses"}}
TEXT_ENDS = TextEnd(0, {"item": {"id": "msg_1"}})


@define
class Turns:
    """Asks a model in one way, and returns the complete response."""

    gateway: Gateway
    socket: aiohttp.ClientWebSocketResponse
    model: str
    way: str

    async def __call__(self, **asked: Any) -> dict[str, Any]:
        body = {**asked, "model": self.model, "stream": self.way == "streamed"}
        if self.way == "websocket":
            await self.socket.send_json({**body, "type": "response.create"})
            while (said := await self.socket.receive_json())["type"] not in ENDS:
                pass
            return dict(said["response"])
        answer = await ask(self.gateway, PATH, body)
        return dict(answer.frames[-1]["response"] if answer.frames else answer.json)


@asynccontextmanager
async def connected(upstream: Scripted, model: str, way: str) -> AsyncIterator[Turns]:
    async with (
        serving(upstream, providers=OWN) as gateway,
        aiohttp.ClientSession() as session,
        session.ws_connect(gateway.url + PATH) as socket,
    ):
        yield Turns(gateway, socket, model, way)


@pytest.mark.parametrize("own", [False, True], ids=["another protocol", "the same protocol"])
@pytest.mark.parametrize("way", ["whole", "streamed", "websocket"])
async def test_an_item_that_a_request_refers_to_is_in_its_conversation(way: str, own: bool) -> None:
    upstream = Scripted(*([event] for event in events(TextStart(0), TextDelta(0, "Hi"), TEXT_ENDS)))
    async with connected(upstream, "openai/gpt-5.1" if own else BODY["model"], way) as turn:
        first = await turn(**BODY)
        second = await turn(**referring(first["output"][0]["id"]))
        if way != "websocket":
            items = await ask(turn.gateway, f"{PATH}/{second['id']}/input_items", method="GET")
            assert items.json["data"][1] == first["output"][0]
    _, answer, _ = upstream.context.messages
    assert [block.text for block in answer.content] == ["Hi"]
    assert second["status"] == "completed"


@pytest.mark.parametrize("whose", ["bob's", "deleted", "nobody's"])
async def test_an_item_of_nobody_or_another_owner_is_not_found(whose: str) -> None:
    async with served() as gateway:
        first = (await ask(gateway, PATH, BODY, headers=BOB if whose == "bob's" else ALICE)).json
        if whose == "deleted":
            await read(gateway, first["id"], "DELETE")
        id = "msg_0" if whose == "nobody's" else first["output"][0]["id"]
        answer = await ask(gateway, PATH, referring(id), headers=ALICE)
    assert answer.status == 400
    assert f"Item with id '{id}' not found" in answer.json["error"]["message"]


async def test_references_cannot_exceed_the_size_limit_of_a_request() -> None:
    upstream = Scripted(said("x" * 1_000_000))
    async with serving(upstream) as gateway:
        (item,) = (await ask(gateway, PATH, BODY)).json["output"]
        references = [{"type": "item_reference", "id": item["id"]}] * 40
        answer = await ask(gateway, PATH, {**BODY, "input": references})
    assert (answer.status, answer.json["error"]["code"]) == (400, "context_length_exceeded")


ROUTES = [("GET", ""), ("DELETE", ""), ("POST", "/cancel"), ("GET", "/input_items")]


@pytest.mark.parametrize(("method", "below"), ROUTES)
async def test_another_owner_gets_the_answer_for_an_id_that_does_not_exist(
    method: str, below: str
) -> None:
    async with served() as gateway:
        id = await made(gateway)
        theirs, unknown = [
            await ask(gateway, f"{PATH}/{one}{below}", method=method, headers=BOB)
            for one in (id, "x" * len(id))
        ]
        mine = await read(gateway, id)
    assert (theirs.status, unknown.status, mine.status) == (404, 404, 200)
    assert theirs.body.replace(id.encode(), b"") == unknown.body.replace(b"x" * len(id), b"")
    assert theirs.headers.keys() == unknown.headers.keys()


async def test_a_response_that_was_not_to_be_stored_is_not_found() -> None:
    async with served() as gateway:
        assert (await read(gateway, await made(gateway, store=False))).status == 404


CITED = [{"type": "char_location", "cited_text": "x" * 10_000}] * 200


@pytest.mark.parametrize("way", ["http", "websocket"])
async def test_the_citations_of_an_answer_count_as_its_memory(
    way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    limited = partial(ConversationStore, most_bytes=1_000_000)
    monkeypatch.setattr("swink_gateway.serving.responses.ConversationStore", limited)
    text = [TextStart(0), TextDelta(0, "Hi")]
    short, long = (events(*text, TextEnd(0, metadata={"citations": c})) for c in ([], CITED))
    upstream = Scripted(short)
    upstream.answers += [[short], [long], [short]]
    async with (
        serving(upstream) as gateway,
        aiohttp.ClientSession() as session,
        session.ws_connect(gateway.url + PATH) as socket,
    ):

        async def turn(**more: Any) -> dict[str, Any]:
            asked = {"type": "response.create", **BODY, **more}
            if way == "http":
                answer: dict[str, Any] = (await ask(gateway, PATH, asked)).json
                return answer
            await socket.send_json(asked)
            while (said := await socket.receive_json())["type"] not in ENDS:
                pass
            return dict(said.get("response") or said)

        small = await turn()
        second = await turn(previous_response_id=small["id"])
        large = await turn()
        refused = await turn(previous_response_id=large["id"])
    assert second["status"] == large["status"] == "completed"
    assert refused["error"]["code"] == "previous_response_not_found"


def test_an_owner_with_little_loses_nothing_to_one_with_much() -> None:
    kept = ConversationStore(most=10, most_bytes=1000)
    kept.keep("little", Kept([UserMessage("Hi")], 10, 10), "bob")
    for number in range(100):
        kept.keep(f"many{number}", Kept([UserMessage("Hi")], 10, 10), "alice")
    for number in range(10):
        kept.keep(f"large{number}", Kept([UserMessage("Hi")], 900, 900), "alice")
    assert kept.find("little", "bob") is not None
    assert kept.find("large9", "alice") is not None
    assert kept.find("many99", "alice") is None


def test_an_id_of_two_answers_refers_to_neither() -> None:
    kept = ConversationStore(most=2, most_bytes=100)
    for text in ("a", "b"):
        kept.keep("same", Kept([UserMessage(text)], 50, 50))
    assert (kept.find("same"), kept.delete("same")) == (None, False)
    kept.keep("large", Kept([UserMessage("Hi")], 100, 100))
    assert kept.find("large") is not None
    kept.forget(None)


@pytest.mark.parametrize("own", [False, True], ids=["another protocol", "the same protocol"])
@pytest.mark.parametrize("way", ["whole", "streamed", "websocket"])
async def test_a_conversation_goes_on_from_its_own_answer_if_a_provider_repeats_ids(
    way: str, own: bool
) -> None:
    text = TextStart(0), TextDelta(0, "Hi"), TextEnd(0)
    upstream = Scripted(events(*text, response_id="r1"))
    async with connected(upstream, "openai/gpt-5.1" if own else "echo/echo", way) as turn:
        first, second = [await turn(input=words) for words in ("one", "two")]
        for response, words in ((first, "one"), (second, "two")):
            await turn(input="Go on.", previous_response_id=response["id"])
            assert upstream.context.messages[0] == UserMessage(words)
    assert (first["id"] == "r1") is own
    assert second["id"].startswith("resp_")


async def test_a_response_is_read_again_by_the_id_that_its_client_got() -> None:
    text = TextStart(0), TextDelta(0, "Hi"), TextEnd(0)
    upstream = Scripted(events(*text, response_id="r1"))
    async with serving(upstream) as gateway:
        id = (await ask(gateway, PATH, {**BODY, "model": "echo/echo"})).json["id"]
        same = await ask(gateway, f"{PATH}/{id}", method="GET")
        unknown = await ask(gateway, f"{PATH}/r1", method="GET")
    assert (same.status, same.json["id"], unknown.status) == (200, id, 404)


async def test_large_answers_are_found_while_there_is_room() -> None:
    text = [TextStart(0), TextDelta(0, "x" * 3_000_000), TextEnd(0)]
    async with serving(Scripted(events(*text))) as gateway:
        ids = [(await ask(gateway, PATH, BODY)).json["id"] for _ in range(3)]
        found = [(await ask(gateway, f"{PATH}/{id}", method="GET")).status for id in ids]
    assert found == [200] * 3
