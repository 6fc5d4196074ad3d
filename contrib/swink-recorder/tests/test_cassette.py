"""Cassettes: a recording is replayed to an equal request and to no other."""

from __future__ import annotations

import asyncio
import itertools
import json
import stat
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

import swink_core as swink
from swink_core.providers import OPTIONS, TUNING, HTTPProvider
from swink_recorder.cassette import Cassette
from swink_recorder.plugin import CassettePlugin
from swink_recorder.recording import Recording, RecordingError
from swink_recorder.replay import ReplayServer
from swink_testing.acme import acme_host
from swink_testing.calls import client_with
from swink_testing.clock import ManualClock
from swink_testing.conformance import Subject
from swink_testing.driver import MemoryHTTPClient, MemoryResponse, comparable_events

KEY = "sk-canary-0123456789"
SSE = {"Content-Type": "text/event-stream"}
ONCE = swink.RetryPolicy.none()
AGAIN = swink.RetryPolicy(base=0.0)
DETOUR = "http://nowhere.invalid/v1"


def said(*texts: str, stop: bool = True) -> MemoryResponse:
    """An answer of acme's, a text a read."""
    reads = [f'data: {{"text": "{text}"}}\n\n'.encode() for text in texts]
    return MemoryResponse([*reads, *[b'data: {"stop": "stop"}\n\n'] * stop], headers=SSE)


def refused(status: int, code: str = "busy") -> MemoryResponse:
    return MemoryResponse.of_json({"error": {"code": code, "message": "no"}}, status)


def acme(*answers: Any, **options: Any) -> swink.Client:
    """A client of acme's, whose network has these answers and no others."""
    given = {"api_key": KEY, "base_url": DETOUR, "retry": AGAIN, **options}
    host = acme_host()
    host = swink.Host([CassettePlugin()], entry_points=_entries(host), environ={})
    return client_with(host=host, http=MemoryHTTPClient(*answers), **given)


def _entries(host: swink.Host) -> list[Any]:
    [entry] = host.entries()
    return [_Point(entry)]


class _Point:
    dist = None

    def __init__(self, entry: Any) -> None:
        self.name, self.group, self.value = entry.name, entry.group, entry.value
        self.load = entry.load


async def events_of(client: swink.Client, prompt: Any = "Hi", **options: Any) -> list[Any]:
    async with client, client.stream("acme/large", prompt, **options) as stream:
        return [event async for event in stream]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "cassettes" / "case.json"


def kept(path: Path) -> str:
    return path.read_text("utf-8") if path.exists() else ""


def _write(path: Path, text: str) -> None:
    path.parent.mkdir()
    path.write_text(text)


# -- every installed provider ----------------------------------------------------------------------

SUBJECTS = [Subject.find(name) for name in swink.Host(environ={}).provider_names()]


def _own(subject: Subject) -> list[Recording]:
    """A provider's recordings; one where it borrows those of others that speak its wire format."""
    own = [recording for recording in subject.recordings if recording.provider == subject.name]
    return own or subject.recordings[:1]


CASES = [
    pytest.param(subject, recording, id=f"{subject.name}-{recording.name}")
    for subject in SUBJECTS
    if subject.parses
    for recording in _own(subject)
]


@pytest.mark.parametrize(("subject", "recording"), CASES)
async def test_an_answer_is_replayed_without_network_or_key(
    subject: Subject,
    recording: Recording,
    path: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def ask(url: str, **more: Any) -> list[Any]:
        options: dict[str, Any] = {"base_url": url, "retry": ONCE, **more}
        if not subject.speaks_http:
            options.pop("base_url")
        # the charge of a failed attempt is estimated by its time, which must be equal in both
        async with (
            swink.Client(host=_host_of(subject), clock=ManualClock(jump=True)) as client,
            client.stream(subject.model_of(recording), "Hi", **options) as stream,
        ):
            return comparable_events([event async for event in stream])

    with subject.environment():
        command = _stand_in(tmp_path, recording, monkeypatch)
        async with ReplayServer() as server:
            url = server.add("case", recording)
            with Cassette(path):
                recorded = await ask(url, api_key=KEY)
        command.unlink()
        monkeypatch.delenv("SWINK_CLAUDE_COMMAND")
        for name in subject.info.api_key_env if subject.info else ():
            monkeypatch.delenv(name, raising=False)

        with Cassette(path, "none") as cassette:
            replayed = await ask(url)

    assert cassette.unrecorded == []
    assert replayed == recorded
    assert KEY not in kept(path)


def _host_of(subject: Subject) -> swink.Host:
    return swink.Host([CassettePlugin()], entry_points=[_Point(subject.entry)], environ={})


def _stand_in(folder: Path, recording: Recording, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A command that says what was recorded, for a provider that runs one."""
    (folder / "said").write_bytes(recording.body)
    command = folder / "command"
    command.write_text(f"#!/bin/sh\ncat > /dev/null\ncat {folder / 'said'}\n")
    command.chmod(stat.S_IRWXU)
    monkeypatch.setenv("SWINK_CLAUDE_COMMAND", str(command))
    return command


async def test_a_provider_that_reads_no_bytes_is_replayed_event_by_event(path: Path) -> None:
    async def ask(text: str) -> list[Any]:
        chain = ["echo/fail-overloaded", "echo/echo"]
        async with swink.Client(retry=AGAIN) as client, client.stream(chain, text) as stream:
            return [event async for event in stream]

    with Cassette(path):
        recorded = await ask("one two")
    with Cassette(path) as cassette:
        assert await ask("one two") == recorded
        assert (await ask("three"))[-1].code == "unrecorded"
    assert len(cassette.unrecorded) == 1


def _restarted(ending: swink.Done | swink.Error) -> type[Any]:
    """Return a provider that creates its events itself, and restarts its answer once."""
    events = [
        *(swink.Start(), swink.TextStart(0), swink.TextDelta(0, "old"), swink.TextEnd(0)),
        swink.Retry(1, 1, 0.0, "the upstream was lost", "scripted/m"),
        *(swink.Start(), swink.TextStart(0), swink.TextDelta(0, "new"), swink.TextEnd(0), ending),
    ]

    class Scripted:
        api_level = 1

        def __init__(self, name: str) -> None:
            self.name = name

        @swink.hookimpl
        async def stream(self) -> AsyncIterator[Any]:
            for event in events:
                yield event

    return Scripted


@pytest.mark.parametrize(
    "ending",
    [
        swink.Done(swink.StopReason.STOP),
        swink.Error(error_message="no", error_kind=swink.StreamErrorKind.OVERLOADED, code="busy"),
    ],
    ids=["done", "error"],
)
async def test_a_provider_that_restarts_its_answer_is_replayed_with_the_restart(
    ending: Any, path: Path
) -> None:
    async def ask() -> list[Any]:
        providers = {"scripted": _restarted(ending)}
        host = swink.Host([CassettePlugin()], entry_points=[], providers=providers, environ={})
        client = client_with(host=host, retry=ONCE)
        async with client, client.stream("scripted/m", "Hi") as stream:
            return [event async for event in stream]

    with Cassette(path):
        recorded = await ask()
    with Cassette(path, "none") as cassette:
        assert await ask() == recorded
    assert cassette.unrecorded == []
    assert [event.type for event in recorded].count("retry") == 1
    [attempt] = json.loads(kept(path))["attempts"]
    assert ("failure" in attempt) is isinstance(ending, swink.Error)


# -- to no other request ---------------------------------------------------------------------------

TOOL = swink.Tool("look", "Look it up", {"type": "object", "properties": {}})
ASKED: dict[str, Any] = {
    "context": swink.Context([swink.UserMessage("Hi")], "Be brief.", [TOOL]),
    "temperature": 0.5,
    "max_tokens": 100,
}
CHANGES: dict[str, dict[str, Any]] = {
    "model": {"model": "acme/small"},
    "address": {"base_url": "http://elsewhere.invalid/v1", "api_key": "sk-another-0123456"},
    "message": {"context": swink.Context([swink.UserMessage("Ho")], "Be brief.", [TOOL])},
    "more": {"context": swink.Context([swink.UserMessage("Hi")] * 2, "Be brief.", [TOOL])},
    "role": {
        "context": swink.Context(
            [swink.UserMessage("Hi"), swink.SystemMessage("Hi")], "Be brief.", [TOOL]
        )
    },
    "system prompt": {"context": swink.Context([swink.UserMessage("Hi")], "Be long.", [TOOL])},
    "no tool": {"context": swink.Context([swink.UserMessage("Hi")], "Be brief.", [])},
    "tool's name": {
        "context": swink.Context(
            [swink.UserMessage("Hi")], "Be brief.", [swink.Tool("see", "Look it up")]
        )
    },
    "tool's schema": {
        "context": swink.Context(
            [swink.UserMessage("Hi")], "Be brief.",
            [swink.Tool("look", "Look it up", {"type": "object", "required": ["a"]})],
        )
    },
    "header": {"headers": {"X-Beta": "1"}},
    **{name: {name: OPTIONS[name].example} for name in TUNING},
    "temperature": {"temperature": 0.6},
    "no temperature": {"temperature": None},
    "stop": {"stop": ["END"]},
    "transport": {"transport": "sse"},
    "thinking": {"thinking": "high"},
    "tool_choice": {"tool_choice": "required"},
    "response_format": {"response_format": "json"},
    "cache": {"cache": "auto"},
    "malformed": {"malformed": "skip"},
    "max_output_chars": {"max_output_chars": 50},
    "rules": {"rules": False},
    "retired": {"retired": True},
    "download_media": {"download_media": True},
    "extra": {"extra": {"x": 1}},
}  # fmt: skip


def test_every_option_of_a_request_is_changed_here() -> None:
    how_it_is_made = {"api_key", "headers", "base_url", "timeouts", "retry", "settings"}
    assert swink.StreamOptions.names() - how_it_is_made <= CHANGES.keys()


async def _ask_acme(client: swink.Client, **changed: Any) -> Any:
    given = {"model": "acme/large", **ASKED, **changed}
    model, context = given.pop("model"), given.pop("context")
    async with client, client.stream(model, context, **given) as stream:
        events = [event async for event in stream]
    return events[-1]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("cassettes") / "asked.json"
    with Cassette(path):
        assert isinstance(asyncio.run(_ask_acme(acme(said("Hello")))), swink.Done)
    return path


@pytest.mark.parametrize("changed", CHANGES.values(), ids=CHANGES.keys())
async def test_a_different_request_is_not_replayed(changed: dict[str, Any], recorded: Path) -> None:
    with Cassette(recorded) as cassette:
        end = await _ask_acme(acme(), **changed)
    assert end.code == "unrecorded"
    [why] = cassette.unrecorded
    assert "the nearest differs in" in why


HOW = {
    "key": {"api_key": "sk-another-0123456"},
    "time limits": {"timeouts": swink.Timeouts(idle=5)},
    "retries": {"retry": ONCE},
}


@pytest.mark.parametrize("changed", HOW.values(), ids=HOW.keys())
async def test_transport_options_are_not_part_of_the_canonical_request(
    changed: dict[str, Any], recorded: Path
) -> None:
    with Cassette(recorded):
        assert isinstance(await _ask_acme(acme(), **changed), swink.Done)


async def test_a_plugin_that_rewrites_requests_makes_another_request(recorded: Path) -> None:
    class Rewriter:
        @swink.hookimpl(wrapper=True)
        def convert_messages(self) -> Any:
            return {**(yield), "more": True}

    host = swink.Host([CassettePlugin(), Rewriter()], entry_points=_entries(acme_host()))
    client = client_with(host=host, http=MemoryHTTPClient(), api_key=KEY, base_url=DETOUR)
    with Cassette(recorded) as cassette:
        await _ask_acme(client)
    assert "the request body, as built" in cassette.unrecorded[0]


ELSE: dict[str, dict[str, Any]] = {
    "tool": {"tools": [swink.Tool("see")]},
    "option": {"max_tokens": 2001},
    "model": {"model": "another"},
}


@pytest.mark.parametrize("subject", [s for s in SUBJECTS if s.parses], ids=lambda s: s.name)
async def test_no_provider_is_replayed_for_another_tool_option_or_model(
    subject: Subject, path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recording = _own(subject)[0]

    async def ask(*answers: MemoryResponse, model: str = recording.model, **more: Any) -> Any:
        given = subject.call_options(retry=ONCE)
        asked = {"tools": [TOOL], "max_tokens": 2000}
        http = MemoryHTTPClient(*answers)
        clock = ManualClock(jump=True)  # as above: a failed attempt's cost depends on its time
        async with (
            swink.Client(host=_host_of(subject), http=http, clock=clock) as client,
            client.stream(
                swink.Model(subject.name, model), "Hi", **{**given, **asked, **more}
            ) as stream,
        ):
            return [event async for event in stream][-1]

    with subject.environment():
        _stand_in(tmp_path, recording, monkeypatch)
        with Cassette(path):
            recorded = await ask(MemoryResponse.of_recording(recording))
        with Cassette(path, "none"):
            assert await ask() == recorded
        for changed in ELSE.values():
            with Cassette(path, "none"):
                assert (await ask(**changed)).code == "unrecorded"


# -- several calls ---------------------------------------------------------------------------------


def _text(events: list[Any]) -> str:
    return "".join(event.delta for event in events if isinstance(event, swink.TextDelta))


async def test_equal_calls_get_their_answers_in_order_and_once(path: Path) -> None:
    with Cassette(path):
        for text in ("first", "second"):
            await events_of(acme(said(text)))
    with Cassette(path) as cassette:
        assert [_text(await events_of(acme())) for _ in range(2)] == ["first", "second"]
        assert (await events_of(acme()))[-1].code == "unrecorded"
    assert "more often than the 2 times" in cassette.unrecorded[0]


async def test_parallel_calls_each_get_their_own(path: Path) -> None:
    async def ask(word: str, *answers: Any) -> str:
        return _text(await events_of(acme(*answers), word))

    words = [f"word {number}" for number in range(8)]
    with Cassette(path):
        await asyncio.gather(*(ask(word, said(word, "!")) for word in words))
    with Cassette(path):
        heard = await asyncio.gather(*(ask(word) for word in reversed(words)))
    assert heard == [f"{word}!" for word in reversed(words)]


async def test_a_retried_call_is_replayed_with_its_failures_and_without_their_waits(
    path: Path,
) -> None:
    policy = swink.RetryPolicy(base=20.0, factor=1.0)
    busy = MemoryResponse.of_json({"error": {"code": "busy"}}, 529, {"Retry-After": "0"})
    cut = said("half", stop=False)
    with Cassette(path):
        recorded = await events_of(acme(busy, cut, said("whole")), retry=AGAIN)
    assert [event.type for event in recorded].count("retry") == 1  # cut after it was shown

    clock = ManualClock()  # on which nobody moves the time
    with Cassette(path):
        replayed = await events_of(acme(clock=clock), retry=policy)
    assert _without_delays(replayed) == _without_delays(recorded)


def _without_delays(events: list[Any]) -> list[Any]:
    return [swink.replace(e, delay=0.0) if isinstance(e, swink.Retry) else e for e in events]


@pytest.mark.parametrize(("code", "most"), [("refused", 4), ("connection_refused", 2)])
async def test_a_failure_without_an_answer_is_replayed_as_it_was(
    code: str, most: int, path: Path
) -> None:
    broken = swink.ProviderFailure(
        swink.Failure("connect", kind=swink.StreamErrorKind.NETWORK, code=code, message="no!")
    )
    with Cassette(path):
        recorded = await events_of(acme(*most * [broken]))
    with Cassette(path):
        assert await events_of(acme()) == recorded
    assert recorded[-1].code == code
    retries = [event for event in recorded if isinstance(event, swink.Retry)]
    assert [event.attempt for event in retries] == [*range(2, most + 1)]
    assert {event.max_attempts for event in retries} == {most}


async def _wrong_key(path: Path) -> tuple[Any, Any]:
    answer = MemoryResponse.of_json({"error": {"code": "no", "message": "wrong key"}}, 401)
    with Cassette(path):
        recorded = (await events_of(acme(answer)))[-1]
    with Cassette(path):
        return recorded, (await events_of(acme()))[-1]


async def _no_key(path: Path) -> tuple[Any, Any]:
    with Cassette(path):
        recorded = (await events_of(acme(api_key=None)))[-1]
    with Cassette(path):
        return recorded, (await events_of(acme()))[-1]


async def _refused_by_events(path: Path) -> tuple[Any, Any]:
    ends = []
    for _ in ("recorded", "replayed"):
        async with swink.Client() as client:
            with Cassette(path):
                stream = client.stream("echo/fail-auth", "Hi")
                ends.append([event async for event in stream][-1])
    return ends[0], ends[1]


@pytest.mark.parametrize("ask", [_wrong_key, _no_key, _refused_by_events])
async def test_rejected_credentials_are_reported_as_those_of_the_recording(
    ask: Any, path: Path
) -> None:
    recorded, replayed = await ask(path)
    assert recorded.error_kind is swink.StreamErrorKind.AUTH
    assert replayed.resolution == (
        f"No request was sent; this is the content of {path}. "
        f"Record {path} again with the mode `all`, if the call is correct."
    )
    assert swink.replace(replayed, resolution=recorded.resolution) == recorded


async def test_a_rejection_that_quotes_the_key_is_replayed_with_the_key_hidden(
    path: Path,
) -> None:
    said = {"error": {"code": "no", "message": f'wrong key: "Bearer {KEY}".'}}
    with Cassette(path):
        recorded = (await events_of(acme(MemoryResponse.of_json(said, 401))))[-1]
    with Cassette(path):
        replayed = (await events_of(acme()))[-1]
    assert recorded.error_message == 'wrong key: "Bearer [hidden]".'
    assert replayed.error_message == recorded.error_message
    assert "[hidden]" in kept(path)
    assert "**" not in kept(path)  # whose number would be the key's length


@pytest.mark.parametrize("status", [401, 500])
async def test_a_replayed_failure_is_logged_as_one(
    status: int, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with Cassette(path):
        await events_of(acme(refused(status, "no")), retry=ONCE)
    assert "swink_recorder.cassette" not in [record.name for record in caplog.records]
    with Cassette(path):
        kind = (await events_of(acme(), retry=ONCE))[-1].error_kind
    [record] = [one for one in caplog.records if one.name == "swink_recorder.cassette"]
    assert record.getMessage() == (
        f"acme/large fails ({kind}). No request was sent; this is the content of {path}. "
        f"Record {path} again with the mode `all`, if the call is correct."
    )


async def test_a_stream_that_was_left_can_be_left_there_again_and_read_no_further(
    path: Path,
) -> None:
    async def first(client: swink.Client) -> Any:
        async with client, client.stream("acme/large", "Hi") as stream:
            async for event in stream:
                if isinstance(event, swink.TextDelta):
                    return event

    with Cassette(path):
        recorded = await first(acme(said("one", "two", "three")))
    with Cassette(path) as cassette:
        assert await first(acme()) == recorded
    assert cassette.unrecorded == []
    with Cassette(path) as cassette:
        events = await events_of(acme())
    assert events[-1].code == "unrecorded"
    assert "read further" in cassette.unrecorded[0]


async def test_tool_calls_whose_ids_the_core_made_up_go_back_in_a_second_turn(path: Path) -> None:
    async def turns(*answers: Any) -> str:
        async with acme(*answers) as client:
            history: list[Any] = [swink.UserMessage("Hi")]
            answer = await client.complete("acme/large", history)
            [call] = answer.tool_calls
            history += [answer, swink.ToolResultMessage(call.id, call.name, "42")]
            return (await client.complete("acme/large", history)).text

    called = MemoryResponse(
        [b'data: {"call": "look", "arguments": "{}"}\n\n', b'data: {"stop": "tool_use"}\n\n'],
        headers=SSE,
    )
    with Cassette(path):
        assert await turns(called, said("It is 42.")) == "It is 42."
    with Cassette(path):
        assert await turns() == "It is 42."


# -- time ------------------------------------------------------------------------------------------


async def _in_time(speed: float, path: Path) -> list[float]:
    clock, told = ManualClock(), list[float]()
    with Cassette(path, speed=speed):
        async with acme(clock=clock) as client, client.stream("acme/large", "Hi") as stream:

            async def read() -> None:
                async for batch in stream.batches():
                    told.extend(clock.time() for e in batch if isinstance(e, swink.TextDelta))

            reading = asyncio.ensure_future(read())
            while not reading.done():
                await clock.advance(0.25)
    return told


async def test_reads_keep_their_times_faster_or_all_at_once(path: Path) -> None:
    clock = ManualClock()

    async def slowly() -> AsyncIterator[bytes]:
        for text in ("a", "b", "c"):
            await clock.sleep(1.0)
            yield f'data: {{"text": "{text}"}}\n\n'.encode()
        yield b'data: {"stop": "stop"}\n\n'

    class Slow(MemoryResponse):
        pieces = slowly()

        async def __anext__(self) -> bytes:
            return await anext(self.pieces)

    with Cassette(path):
        recording = asyncio.ensure_future(events_of(acme(Slow(headers=SSE), clock=clock)))
        while not recording.done():
            await clock.advance(0.25)

    def steps(times: list[float]) -> list[float]:
        return [round(b - a, 3) for a, b in itertools.pairwise(times)]

    assert steps(await _in_time(1.0, path)) == [1.0, 1.0]
    assert steps(await _in_time(2.0, path)) == [0.5, 0.5]
    assert steps(await _in_time(0.0, path)) == [0.0, 0.0]


# -- the file --------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [2, 3, 5, 8, 13, 19])
async def test_a_key_is_in_no_file_though_the_answer_has_it_in_pieces(
    size: int, path: Path
) -> None:
    pieces = [KEY[at : at + size] for at in range(0, len(KEY), size)]
    with Cassette(path):
        await events_of(acme(said("It is ", *pieces)), prompt=f"Is it {KEY}?")
    text = kept(path)
    assert KEY not in text
    assert KEY[:size] not in "".join(line for line in text.splitlines() if "text" in line)
    assert "It is " in text


@pytest.mark.parametrize("key", [KEY, "acme/l"], ids=["a key", "no key but a word"])
async def test_a_call_whose_text_contains_its_key_is_replayed_with_and_without_the_key(
    key: str, path: Path
) -> None:
    prompt = f"Is it {key}?"
    with Cassette(path):
        recorded = await events_of(acme(said("Yes"), api_key=key), prompt)
    for other in (key, "another-key-0123"):
        with Cassette(path):
            assert await events_of(acme(api_key=other), prompt) == recorded
    with Cassette(path):
        assert (await events_of(acme(api_key=key), f"Was it {key}?"))[-1].code == "unrecorded"


async def test_a_file_is_written_whole_and_leaves_nothing_beside_it(path: Path) -> None:
    with Cassette(path):
        await events_of(acme(said("Grüße")))
    assert [p.name for p in path.parent.iterdir()] == ["case.json"]
    assert "Grüße" in kept(path)


async def test_without_calls_no_file_is_written(path: Path) -> None:
    with Cassette(path):
        pass
    assert kept(path) == ""


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"swink_cassette": 3, "attempts": []}', '{"swink_cassette": 2}']
)
def test_a_broken_file_says_so(text: str, path: Path) -> None:
    _write(path, text)
    with pytest.raises(RecordingError, match=r"case\.json"), Cassette(path):
        pass


# -- modes -----------------------------------------------------------------------------------------


async def test_mode_none_sends_no_request(path: Path) -> None:
    client = acme(said("Hello"))
    with Cassette(path, "none") as cassette:
        end = (await events_of(client))[-1]
    assert end.code == "unrecorded"
    assert end.resolution.startswith("Record it with the mode `once`")
    assert "contains no recordings" in cassette.unrecorded[0]
    assert kept(path) == ""


async def test_all_asks_and_records_anew(path: Path) -> None:
    for text in ("old", "new"):
        with Cassette(path, "all"):
            await events_of(acme(said(text)))
    with Cassette(path):
        assert _text(await events_of(acme())) == "new"


ENDS: dict[str, tuple[list[Any], list[Any], str]] = {
    "failed": (["good"], [529], "overloaded"),
    "failed otherwise": ([401], [529], "overloaded"),
    "failed again": ([529], [529], ""),
    "failed where it was only tried again": (["cut", "good"], ["cut"], "network"),
    "tried again": (["good"], [529, "new"], ""),
}


@pytest.mark.parametrize(("before", "after", "kind"), ENDS.values(), ids=ENDS.keys())
async def test_all_keeps_a_file_that_is_better_than_the_calls_that_it_made(
    before: list[Any], after: list[Any], kind: str, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def ask(said_in_turn: list[Any]) -> None:
        made = [
            refused(s, str(s)) if isinstance(s, int) else said(s, stop=s != "cut")
            for s in said_in_turn
        ]
        times = dict.fromkeys(swink.StreamErrorKind, len(made) - 1)
        policy = swink.RetryPolicy(retries=times, base=0.0, restart_after_output=True)
        await events_of(acme(*made), retry=policy)

    def inode() -> int:
        return path.stat().st_ino

    with Cassette(path):
        await ask(before)
    old = inode()
    with Cassette(path, "all") as cassette:
        await ask(after)
    assert (inode() == old) == bool(kind)
    if kind:
        assert cassette.unrecorded == [
            f"{path} was kept as it is, since calls failed that did not fail in it: "
            f"acme/large ({kind})\n"
            "Correct that and record again; delete the file if the calls are to fail."
        ]
        assert cassette.unrecorded[0] in caplog.text
    else:
        assert cassette.unrecorded == []


async def test_unused_recordings_can_be_found(path: Path) -> None:
    with Cassette(path) as cassette:
        for prompt in ("one", "two"):
            await events_of(acme(said("Hello")), prompt)
    assert cassette.all_played  # of nothing
    with Cassette(path) as cassette:
        await events_of(acme(), "two")
        assert not cassette.all_played
        await events_of(acme(), "one")
        assert cassette.all_played


@pytest.mark.parametrize("mode", ["once", "none"])
async def test_a_file_without_a_recording_is_to_be_recorded_anew(mode: Any, path: Path) -> None:
    _write(path, '{"swink_cassette": 2, "attempts": []}')
    with Cassette(path, mode):
        end = (await events_of(acme()))[-1]
    assert end.resolution.startswith(f"Record {path} again with the mode `all`")


def test_an_unknown_mode_is_refused(path: Path) -> None:
    with pytest.raises(swink.UsageError, match="unknown cassette mode 'never'"):
        Cassette(path, "never")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("SWINK_PLUGINS", "recorder"),
        ("SWINK_PLUGINS", ""),
        ("SWINK_DISABLE_PLUGINS", "a, cassettes"),
    ],
)
def test_a_cassette_is_refused_if_its_plugin_is_disabled(
    name: str, value: str, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(swink.UsageError, match="would reach the provider"), Cassette(path):
        pass
    monkeypatch.setenv(name, "cassettes" if name == "SWINK_PLUGINS" else "other")
    with Cassette(path):
        pass


async def test_the_innermost_cassette_answers(path: Path, tmp_path: Path) -> None:
    inner = tmp_path / "inner.json"
    with Cassette(path), Cassette(inner):
        await events_of(acme(said("Hello")))
    assert (kept(path), "Hello" in kept(inner)) == ("", True)


async def test_without_a_cassette_calls_are_made(path: Path) -> None:
    assert _text(await events_of(acme(said("Hello")))) == "Hello"


async def test_hooks_are_registered_only_while_a_cassette_is_active(
    path: Path, tmp_path: Path
) -> None:
    def registered() -> dict[str, int]:
        hooks = client.host.bind("acme").hook
        return {name: len(getattr(hooks, name).get_hookimpls()) for name in ("stream", "on_event")}

    async with acme(said("Hello"), said("again")) as client:
        await client.complete("acme/large", "Hi")  # the client is older than the cassette
        alone = registered()
        assert alone == {"stream": 1, "on_event": 0}
        with Cassette(path):
            with Cassette(tmp_path / "inner.json"):
                pass
            assert registered() == {"stream": 2, "on_event": 1}
            await client.complete("acme/large", "Hi")
        assert registered() == alone
    assert "again" in kept(path)


async def test_a_host_whose_clients_were_closed_replays_calls_again(path: Path) -> None:
    client = acme(said("Hello"))
    with Cassette(path):
        await events_of(client)
    again = client_with(host=client.host, http=MemoryHTTPClient(), api_key=KEY, base_url=DETOUR)
    with Cassette(path, "none"):
        assert _text(await events_of(again)) == "Hello"


def test_every_provider_here_has_something_to_replay_or_is_asked_event_by_event() -> None:
    shown = {case.values[0].name for case in CASES}  # type: ignore[attr-defined]
    events = {s.name for s in SUBJECTS if not isinstance(s.provider, HTTPProvider)}
    assert shown | events == {subject.name for subject in SUBJECTS}


def _report_cost(path: Path, cost: float) -> None:
    data = json.loads(path.read_bytes())
    data["attempts"][0]["charged"] = cost
    path.write_text(json.dumps(data))


async def test_a_cost_that_the_provider_reported_is_replayed(path: Path) -> None:
    with Cassette(path):
        await events_of(acme(said("Hello")))
    _report_cost(path, 0.5)

    with Cassette(path, "none"):
        *_, done = await events_of(acme())

    assert done.cost is not None
    assert done.cost.total == 0.5
