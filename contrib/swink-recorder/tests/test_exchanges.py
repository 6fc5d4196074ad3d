"""Calls of several requests: all of them are kept, without a credential, and played again."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

import aiohttp
import pytest
from attrs import define, evolve, field
from hypothesis import given
from hypothesis import strategies as st

import swink_core as swink
from swink_core import StreamOptions
from swink_core.providers import (
    AiohttpClient,
    Grant,
    HTTPRequest,
    Token,
    TokenHTTP,
)
from swink_core.providers import Exchange as Requests
from swink_recorder.capture import Tape
from swink_recorder.cassette import Cassette
from swink_recorder.comparison import request_differences
from swink_recorder.documents import read_document
from swink_recorder.legs import LegKind, RecordedLeg, RecordedRequest
from swink_recorder.loopback import Exchange, LoopbackServer
from swink_recorder.plugin import CassettePlugin
from swink_recorder.recorder import Recorder
from swink_recorder.recording import Recording
from swink_recorder.replay import ReplayServer
from swink_recorder.store import open_store
from swink_testing.acme import AcmeProvider
from swink_testing.calls import client_with

KEY = "canary-key-0123456789"
TOKEN = "canary-token-abcdefghi"
SIGNED = "canary-signature-uvwxyz"
CANARY = b"canary"

SSE = {"Content-Type": "text/event-stream"}
JSON = {"Content-Type": "application/json"}
HELLO = b'data: {"text": "Hello"}\n\n'
WORLD = b'data: {"text": " world"}\n\n'
STOP = b'data: {"stop": "stop"}\n\n'


@define
class Job:
    stream: str
    cancel: str
    result: str


class Jobs(AcmeProvider):
    """Creates a job, streams it from another host, and asks how it ended."""

    path = "/jobs"

    async def exchange(self, x: Requests) -> AsyncIterator[bytes]:
        job = await x.read(x.request(), Job)
        x.on_abandon(HTTPRequest(job.cancel))
        async for data in x.stream(HTTPRequest(job.stream, method="GET")):
            yield data
        yield x.frame(await x.read(HTTPRequest(job.result, method="GET")))


@define(frozen=True)
class APIKey(Grant):
    key: str = field(repr=False)
    url: str

    async def fetch(self, http: TokenHTTP) -> Token:
        fields = {"grant_type": "urn:ietf:params:oauth:grant-type:apikey", "apikey": self.key}
        got = await http.form(self.url, fields, dict[str, Any])
        return Token(got["access_token"], got["expires_in"])


class Granted(AcmeProvider):
    """Exchanges its key for a token."""

    issuer = ""

    def credential(self, request: HTTPRequest, options: StreamOptions) -> Any:
        return APIKey(self.api_key(options) or "", f"{self.issuer}/identity/token")


class Service(LoopbackServer):
    """A server of both; `elsewhere` is the one that streams and gives tokens."""

    def __init__(self, elsewhere: Service | None = None) -> None:
        super().__init__()
        self.elsewhere = elsewhere

    async def respond(self, exchange: Exchange) -> None:
        status, headers, pieces = self.answer(exchange)
        await exchange.start(status, headers)
        for piece in pieces:
            await exchange.write(piece)
        if exchange.path != "/stream/endless":
            await exchange.end()
        else:
            await exchange.disconnected()

    def answer(self, exchange: Exchange) -> tuple[int, dict[str, str], list[bytes]]:
        if exchange.path == "/identity/token":
            answer = {"access_token": TOKEN, "expires_in": 3600, "token_type": "Bearer"}
            return 200, JSON, [json.dumps(answer).encode()]
        if exchange.path.startswith("/stream/"):
            return 200, SSE, [HELLO, WORLD]
        if exchange.path == "/v1/jobs":
            assert self.elsewhere is not None
            kind = "endless" if exchange.json["model"] == "endless" else "7"
            job = {
                "stream": f"{self.elsewhere.url}/stream/{kind}?sig={SIGNED}",
                "cancel": f"{self.url}/v1/jobs/7/cancel",
                "result": f"{self.url}/v1/jobs/7",
            }
            return 201, JSON, [json.dumps(job).encode()]
        if exchange.path == "/v1/chat":
            return 200, SSE, [HELLO, WORLD, STOP]
        return 200, JSON, [b'{"stop": "stop"}']


class Refusing(LoopbackServer):
    """Refuses requests, from the first or the second one for a token on, and quotes the key."""

    def __init__(self, status: int, first: bool) -> None:
        super().__init__()
        self._status = status
        self._gives = not first

    async def respond(self, exchange: Exchange) -> None:
        status = self._status
        message = f"the key {KEY} is unknown"
        answer: dict[str, Any] = {"error": {"code": "bad_key", "message": message}}
        if exchange.path == "/identity/token" and self._gives:
            self._gives = False
            status = 200
            answer = {"access_token": TOKEN, "expires_in": 3600}
        await exchange.start(status, JSON)
        await exchange.write(json.dumps(answer).encode())
        await exchange.end()


async def end_of(asked: swink.Client) -> Any:
    async with asked.stream("acme/large", "Hi") as stream:
        return [event async for event in stream][-1]


class EntryPoint:
    name, group, value = "acme", "swink.providers", "acme:Provider"
    dist = None

    def __init__(self, provider: type[AcmeProvider]) -> None:
        self.load = lambda: provider


def client(provider: type[AcmeProvider], *plugins: Any, **options: Any) -> swink.Client:
    host = swink.Host([CassettePlugin(), *plugins], entry_points=[EntryPoint(provider)], environ={})
    return client_with(host=host, **{"api_key": KEY, "retry": swink.RetryPolicy.none(), **options})


async def record(
    provider: type[AcmeProvider],
    folder: Path,
    *plugins: Any,
    model: str = "acme/large",
    leave: bool = False,
) -> str:
    async with Service() as elsewhere, Service(elsewhere) as service:
        made = at(elsewhere.url, provider)
        async with (
            client(made, *plugins, base_url=f"{service.url}/v1") as asked,
            asked.stream(model, "Hi") as stream,
        ):
            tape = Tape(stream.call)
            async for event in stream:
                if leave and event.type == "text_delta":
                    break
        tape.recording(None, "", stream.call.context).save(folder, stream.call.secrets)
    return stream.message.text


def at(issuer: str, provider: type[AcmeProvider]) -> type[AcmeProvider]:
    """Return a provider whose tokens come from there."""
    return type("There", (provider,), {"issuer": issuer})


def written(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def kinds(recording: Recording) -> list[tuple[LegKind, str]]:
    return [(leg.kind, leg.request.path) for leg in recording.legs]


async def play(
    provider: type[AcmeProvider],
    recording: Recording,
    leave: bool = False,
    model: str = "acme/large",
) -> tuple[str, list[str]]:
    async with ReplayServer() as server:
        url = server.add("case", recording)
        http = server.through(AiohttpClient(), "case")
        async with (
            client(provider, http=http, base_url=url, api_key="another-key") as asked,
            asked.stream(model, "Hi") as stream,
        ):
            async for event in stream:
                if leave and event.type == "text_delta":
                    break
        return stream.message.text, server.problems("case")


async def test_a_job_is_recorded_and_replayed_request_by_request(tmp_path: Path) -> None:
    text = await record(Jobs, tmp_path)

    recording = Recording.load(tmp_path)
    assert kinds(recording) == [
        ("whole", "/v1/jobs"),
        ("stream", "/stream/7?sig=[hidden]"),
        ("whole", "/v1/jobs/7"),
    ]
    assert [leg.request.origin for leg in recording.legs] == [0, 1, 0]
    assert recording.body == HELLO + WORLD
    assert recording.asked is not None
    assert recording.asked["context"]["messages"][0]["content"] == "Hi"
    assert files(tmp_path) == ["0.json", "2.json", "body.sse", "recording.json"]
    assert await play(Jobs, recording) == (text, []) == ("Hello world", [])


async def test_the_request_that_ends_a_job_that_was_left_is_recorded(tmp_path: Path) -> None:
    await record(Jobs, tmp_path, model="acme/endless", leave=True)

    recording = Recording.load(tmp_path)
    assert kinds(recording)[2:] == [("abandon", "/v1/jobs/7/cancel")]
    _, problems = await play(Jobs, recording, leave=True, model="acme/endless")
    assert problems == []
    _, problems = await play(Jobs, recording, model="acme/endless")
    assert "not recorded: GET /v1/jobs/7" in problems


async def test_a_token_is_recorded_as_the_answer_that_it_came_from(tmp_path: Path) -> None:
    text = await record(Granted, tmp_path)

    recording = Recording.load(tmp_path)
    token, answer = recording.legs
    assert (token.kind, answer.kind) == ("token", "stream")
    assert token.request.form == {
        "grant_type": "urn:ietf:params:oauth:grant-type:apikey",
        "apikey": "[key]",
    }
    assert answer.request.headers["Authorization"] == "Bearer [0.access_token]"
    assert json.loads(token.body)["access_token"] == "[0.access_token]"
    provider = at(recording.origins[1], Granted)
    assert await play(provider, recording) == (text, [])


async def test_a_key_in_place_of_its_token_is_a_problem(tmp_path: Path) -> None:
    await record(Granted, tmp_path)

    _, problems = await play(AcmeProvider, Recording.load(tmp_path))

    assert problems == [
        "POST /chat differs from the recorded request: "
        'headers.authorization: "Bearer [hidden]", recorded "Bearer [0.access_token]"',
        "not asked for: token POST /identity/token",
    ]


JOB = RecordedRequest(
    "POST",
    "/v1/jobs?version=2&sig=[hidden]",
    {
        "Accept": "application/json",
        "Content-Type": "application/json",
        "Authorization": "Bearer [key]",
        "X-Team": "blue",
        "X-Request-Id": "1",
    },
    {"prompt": "Hi", "user": "[key]", "size": 1, "list": [1, 2]},
)
SENT_JOB = evolve(
    JOB,
    path="/jobs?version=2&sig=new",
    headers={
        "accept": "application/json",
        "content-type": "application/json",
        "authorization": "Bearer another-key",
        "user-agent": "test",
    },
    body={"user": "another-key", "prompt": "Hi", "size": 1, "list": [1, 2]},
)
FORM = RecordedRequest("POST", "/token", {}, None, {"grant_type": "key", "apikey": "[key]"})
SENT_FORM = evolve(FORM, form={"grant_type": "key", "apikey": "another-key"})

DIFFERENCES = [
    ("nothing differs", {}, []),
    ("a method", {"method": "PUT"}, ['method: "PUT", recorded "POST"']),
    ("a path", {"path": "/job?version=2&sig=x"}, ['path: "/job", recorded "/v1/jobs"']),
    (
        "a query", {"path": "/jobs?version=3&sig=x&more="},
        ['query.version: "3", recorded "2"', 'query.more: "", recorded nothing'],
    ),
    (
        "headers", {"headers": {"Authorization": "Key another-key", "Accept": "*/*"}},
        [
            'headers.authorization: "Key [hidden]", recorded "Bearer [key]"',
            'headers.accept: "*/*", recorded "application/json"',
            'headers.content-type: nothing, recorded "application/json"',
        ],
    ),
    (
        "a body", {"body": {"prompt": "Ho", "user": "x", "size": 1, "list": [1]}},
        ['body.prompt: "Ho", recorded "Hi"', "body.list[1]: nothing, recorded 2"],
    ),
    ("no body", {"body": None}, [
        'body: null, recorded {"prompt": "Hi", "user": "[key]", "size": 1, "list": [1, 2]}',
    ]),
]  # fmt: skip


@pytest.mark.parametrize(("about", "changes", "expected"), DIFFERENCES)
def test_a_request_is_compared_with_the_recorded_one(
    about: str, changes: dict[str, Any], expected: list[str]
) -> None:
    assert request_differences(evolve(SENT_JOB, **changes), JOB, ["x-team"]) == expected


def test_a_signature_in_a_query_is_hidden() -> None:
    signed = evolve(SENT_JOB, path="/jobs?sig=canary")
    found = request_differences(signed, evolve(JOB, path="/jobs"), ["x-team"])
    assert found == ['query.sig: "[hidden]", recorded nothing']


def test_fields_of_forms_are_compared_and_hide_what_may_be_a_secret() -> None:
    changed = evolve(SENT_FORM, form={"grant_type": "password", "secret": "canary"})
    assert request_differences(SENT_FORM, FORM) == []
    assert request_differences(changed, FORM) == [
        'form.grant_type: "password", recorded "key"',
        'form.secret: "[hidden]", recorded nothing',
        'form.apikey: nothing, recorded "[key]"',
    ]


def test_recordings_written_by_hand_are_compared_in_their_existing_parts() -> None:
    by_hand = RecordedRequest("POST", "/v1/jobs")
    assert request_differences(SENT_JOB, by_hand) == []
    assert request_differences(evolve(SENT_JOB, path="/other"), by_hand) == [
        'path: "/other", recorded "/v1/jobs"'
    ]


async def test_a_request_that_differs_is_answered_and_named(tmp_path: Path) -> None:
    await record(Jobs, tmp_path)
    changed = type("Changed", (Jobs,), {"convert": lambda *_: {"model": "large", "messages": 2}})

    text, problems = await play(changed, Recording.load(tmp_path))

    assert text == "Hello world"
    assert problems == [
        "POST /jobs differs from the recorded request: body.messages: 2, recorded 1"
    ]


async def test_of_legs_with_one_path_the_most_similar_one_answers() -> None:
    made = [
        RecordedLeg(
            f"part {number}".encode(),
            [(0.0, 6)],
            "whole",
            RecordedRequest("GET", f"/v1/parts?page={number}"),
            200,
            dict(JSON),
        )
        for number in (1, 2)
    ]
    async with ReplayServer() as server:
        recording = Recording.of(made, "acme", "large", origins=["http://a.invalid"])
        url = server.add("case", recording)
        async with aiohttp.ClientSession() as session:
            texts = [
                await (await session.get(f"{url}/v1/parts?page={page}")).text() for page in (2, 1)
            ]
        assert texts == ["part 2", "part 1"]
        assert server.problems("case") == []


async def test_an_address_without_an_origin_is_answered_by_its_path() -> None:
    leg = RecordedLeg(
        b"{}", [(0.0, 2)], "whole", RecordedRequest("GET", "/v1/jobs/7"), 200, dict(JSON)
    )
    async with ReplayServer() as server:
        recording = Recording.of([leg, leg], "acme", "large", origins=["http://a.invalid"])
        url = server.add("case", recording)
        statuses = []
        async with aiohttp.ClientSession() as session:
            for path in ("/v1/jobs/7", "/v1/jobs/8", "/v1/jobs/7"):
                async with session.get(urljoin(url, path)) as response:
                    statuses.append(response.status)
        assert statuses == [200, 404, 200]


@pytest.mark.parametrize("provider", [Jobs, Granted])
async def test_no_secret_of_any_request_is_in_any_file(
    provider: type[AcmeProvider], tmp_path: Path
) -> None:
    await record(provider, tmp_path / "folder")
    with Cassette(tmp_path / "cassette.json"):
        await record(provider, tmp_path / "again")
    recorder = Recorder(tmp_path / "calls")
    await record(provider, tmp_path / "third", recorder)
    await recorder.aclose()

    assert [*open_store(tmp_path / "calls").entries()]
    assert CANARY not in written(tmp_path)


@pytest.mark.parametrize("provider", [Jobs, Granted])
async def test_a_cassette_replays_every_request(
    provider: type[AcmeProvider], tmp_path: Path
) -> None:
    address = "http://127.0.0.1:9/v1"

    class Redirected(AiohttpClient):
        there = ""

        async def send(self, request: HTTPRequest, connect_timeout: float | None) -> Any:
            request.url = request.url.replace("http://127.0.0.1:9", self.there)
            return await super().send(request, connect_timeout)

    async with Service() as elsewhere, Service(elsewhere) as service:
        http = Redirected()
        http.there = service.url
        made = at(elsewhere.url, provider)
        with Cassette(tmp_path / "case.json"):
            async with client(made, base_url=address, http=http) as asked:
                first = await asked.complete("acme/large", "Hi")
    with Cassette(tmp_path / "case.json", "none") as cassette:
        async with client(provider, base_url=address, api_key=None) as asked:
            again = await asked.complete("acme/large", "Hi")
    assert (again.content, again.usage) == (first.content, first.usage)
    assert again.text == "Hello world"
    assert cassette.unrecorded == []


UNKNOWN = "the key [hidden] is unknown"

TOKEN_REFUSALS = [
    ("the first", 400, True, ["/identity/token"], f"issued no token: {UNKNOWN}"),
    ("the first", 401, True, ["/identity/token"], f"issued no token: {UNKNOWN}"),
    (
        "a renewal", 401, False, ["/identity/token", "/v1/chat", "/identity/token"],
        f"{UNKNOWN} (the token was not renewed: 127.0.0.1 issued no token: {UNKNOWN})",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("about", "status", "first", "requests", "message"), TOKEN_REFUSALS)
async def test_a_cassette_replays_a_refused_request_for_a_token(
    about: str, status: int, first: bool, requests: list[str], message: str, tmp_path: Path
) -> None:
    ends = []
    async with Refusing(status, first) as service:
        made = at(service.url, Granted)
        address = f"{service.url}/v1"
        with Cassette(tmp_path / "case.json"):
            async with client(made, base_url=address) as asked:
                ends.append(await end_of(asked))
        assert [exchange.path for exchange in service.exchanges] == requests
    with Cassette(tmp_path / "case.json", "none") as cassette:
        async with client(made, base_url=address, api_key=None) as asked:
            ends.append(await end_of(asked))
    recorded, replayed = ends
    assert recorded.error_kind is swink.StreamErrorKind.AUTH
    assert recorded.error_message.endswith(message)
    assert replayed.error_kind is recorded.error_kind
    assert replayed.error_message == recorded.error_message
    assert cassette.unrecorded == []
    assert CANARY not in written(tmp_path)


async def test_a_kept_call_has_every_request(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "calls.sqlite")
    await record(Granted, tmp_path / "folder", recorder)
    await recorder.aclose()

    store = open_store(tmp_path / "calls.sqlite")
    [entry] = store.entries()
    [take], _ = read_document(store.read(entry.id), "here")
    assert [leg.kind for leg in take.recording.legs] == ["token", "stream"]
    assert take.recording.request.headers["Authorization"] == "Bearer [0.access_token]"
    assert take.recording.pieces()


# -- any exchange --------------------------------------------------------------------------------

SECONDS = st.floats(0, 1e6, allow_nan=False).map(lambda seconds: round(seconds, 6))
REQUESTS = st.builds(
    RecordedRequest,
    st.sampled_from(["GET", "POST"]),
    st.sampled_from(["/", "/v1/a?b=1"]),
    st.just({"Accept": "text/event-stream", "Authorization": "Bearer [key]"}),
    body=st.none() | st.dictionaries(st.text(max_size=3), st.integers(0, 9), max_size=2),
    form=st.none() | st.just({"grant_type": "x"}),
    origin=st.integers(0, 1),
)


@st.composite
def legs(draw: Any) -> RecordedLeg:
    reads = draw(st.lists(st.tuples(SECONDS, st.binary(max_size=5)), max_size=3))
    reads.sort(key=lambda read: read[0])
    is_answered = draw(st.booleans())
    return RecordedLeg(
        b"".join(data for _, data in reads) if is_answered else b"",
        [(at, len(data)) for at, data in reads] if is_answered else [],
        draw(st.sampled_from(["stream", "whole", "abandon"])),
        draw(REQUESTS),
        draw(st.sampled_from([200, 404])) if is_answered else 0,
        draw(st.sampled_from([SSE, JSON])) if is_answered else {},
        draw(SECONDS),
        draw(SECONDS) if is_answered else 0.0,
    )


@given(st.lists(legs(), min_size=1, max_size=4))
def test_any_exchange_is_read_as_it_was_written(
    tmp_path_factory: pytest.TempPathFactory, kept: list[RecordedLeg]
) -> None:
    folder = tmp_path_factory.mktemp("case")
    recording = Recording.of(kept, "acme", "large", origins=["http://a.invalid"])
    recording.save(folder)

    read = Recording.load(folder)

    recording.save(folder / "again")
    again = Recording.load(folder / "again")
    assert again.legs == read.legs
    assert [_without_file(leg) for leg in read.legs] == [_without_file(leg) for leg in kept]


def _without_file(leg: RecordedLeg) -> tuple[Any, ...]:
    return (
        leg.kind, leg.request, leg.status, leg.headers, leg.body, leg.chunks, leg.sent_at,
        leg.answered_at,
    )  # fmt: skip
