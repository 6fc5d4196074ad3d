"""`swink tail` and `swink top`: what they show of a feed, and how they find it again."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import socket
import subprocess
from contextlib import aclosing
from io import StringIO
from typing import Any

import pytest
from aiohttp import web
from aiohttp_sse_client2.client import EventSource
from rich.console import Console

import swink_core as swink
from swink_observers.commands.tail import _line
from swink_observers.feed import Feed
from swink_observers.following import Place, following, spending, told_by
from swink_observers.rows import MOST_ENDED, Calls
from swink_observers.serving import application
from swink_observers.top import cells, live, top
from swink_recorder.loopback import Exchange, LoopbackServer
from swink_testing.command_line import swink_command

END = {
    "time": "2026-11-22T10:00:00+00:00", "call": "c1", "model": "acme/large", "stop": "stop",
    "age": 2.0, "first": 0.5, "output": 40, "rate": 26.7, "retries": 1, "cost": 0.0125,
}  # fmt: skip


class Server:
    """A feed on a separate port, which can go away and come back."""

    def __init__(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as found:
            self.port = found.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}/events"

    async def start(self, feed: Feed) -> None:
        self.runner = web.AppRunner(application(feed), handler_cancellation=True)
        await self.runner.setup()
        await web.TCPSite(self.runner, "127.0.0.1", self.port).start()

    async def stop(self) -> None:
        await self.runner.cleanup()


async def test_a_feed_is_followed_through_a_lost_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("swink_observers.following.AGAIN_SECONDS", 0.0)
    server, feed, times_lost = Server(), Feed(), []
    await server.start(feed)
    feed.publish("begin", {"call": "c1"})
    async with aclosing(following(Place(server.url), 5, lambda: times_lost.append(1))) as records:
        assert (await anext(records))[0] == "begin"
        assert (await anext(records))[0] == "now"
        reading = asyncio.create_task(anext(records))
        await asyncio.sleep(0)
        await server.stop()  # the connection breaks
        feed.publish("notice", {"code": "while nobody listened"})
        await server.start(feed)
        assert await reading == ("notice", {"code": "while nobody listened"})
    await server.stop()


async def test_a_feed_that_is_away_for_long_is_told_of_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tries: asyncio.Queue[None] = asyncio.Queue()

    async def counted(source: Any) -> None:
        tries.put_nowait(None)
        await connect(source)

    connect = EventSource.connect
    monkeypatch.setattr("swink_observers.following.AGAIN_SECONDS", 0.0)
    monkeypatch.setattr(EventSource, "connect", counted)
    server, feed, times_lost = Server(), Feed(), []
    await server.start(feed)
    feed.publish("begin", {"call": "c1"})
    async with aclosing(following(Place(server.url), 5, lambda: times_lost.append(1))) as records:
        assert [(await anext(records))[0] for _ in range(2)] == ["begin", "now"]
        reading = asyncio.create_task(anext(records))
        for losses in (1, 2):
            await asyncio.sleep(0)
            await server.stop()
            while not tries.empty():
                tries.get_nowait()
            for _ in range(3):
                await tries.get()
            assert len(times_lost) == losses
            await server.start(feed)
            feed.publish("notice", {"code": "again"})
            assert (await reading)[0] == "notice"
            reading = asyncio.create_task(anext(records))
        reading.cancel()
        await asyncio.wait([reading])
    await server.stop()


@pytest.mark.parametrize("command", ["tail", "top"])
def test_where_there_is_no_feed_one_is_told_what_to_do(swink: Any, command: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/events"
    done = swink(command, url)
    assert done.returncode == 1
    assert "no feed of calls" in done.stderr
    assert "SWINK_FEED=8765" in done.stderr


HOSTILE_FEEDS: dict[str, tuple[bytes, str]] = {
    "call is a number": (b'event: begin\ndata: {"call": 5}\n\n', "Expected `str | null`"),
    "model is a list": (b'event: begin\ndata: {"call": "a", "model": []}\n\n', "Expected `str`"),
    "endless line": (b"event: begin\ndata: " + b"x" * 1_000_000, "a line of it is too long"),
}


@pytest.mark.parametrize(("sent", "expected"), HOSTILE_FEEDS.values(), ids=HOSTILE_FEEDS)
async def test_a_hostile_feed_is_an_error_that_says_what_is_wrong(
    sent: bytes, expected: str
) -> None:
    class HostileFeed(LoopbackServer):
        async def respond(self, exchange: Exchange) -> None:
            await exchange.start(200, {"Content-Type": "text/event-stream"})
            await exchange.write(sent)
            await exchange.end()

    async def follow(place: Place) -> None:
        calls = Calls()
        async with aclosing(following(place, 0, lambda: None)) as records:
            async for name, data in records:
                with told_by(place):
                    calls.take(name, data, 0.0)

    async with HostileFeed() as server:
        with pytest.raises(swink.SwinkError, match="no feed of calls") as caught:
            await follow(Place(server.url))
    assert expected in str(caught.value)


@pytest.mark.parametrize("rows", [[], 5, [5], [{"key": 5}], [{"key": "a", "limits": []}]], ids=repr)
async def test_spending_of_other_types_is_not_shown(rows: Any) -> None:
    class HostileGateway(LoopbackServer):
        async def respond(self, exchange: Exchange) -> None:
            await exchange.start(200, {"Content-Type": "application/json"})
            await exchange.write(json.dumps({"data": rows}).encode())
            await exchange.end()

    async with HostileGateway() as server:
        place = Place(server.url, spending=server.url)
        assert await spending(place) == []


@pytest.mark.parametrize("option", ["", "--gateway"])
@pytest.mark.parametrize("command", ["tail", "top"])
def test_a_password_in_an_address_is_sent_and_not_shown(
    swink: Any, command: str, option: str
) -> None:
    async def run() -> tuple[Any, list[str]]:
        asked = []

        async def answer(request: web.Request) -> web.Response:
            asked.append(request.headers.get("Authorization", ""))
            return web.Response(text="no feed")

        app, server = web.Application(), Server()
        app.router.add_get("/{path:.*}", answer)
        server.runner = web.AppRunner(app)
        await server.runner.setup()
        await web.TCPSite(server.runner, "127.0.0.1", server.port).start()
        address = server.url.replace("//", "//user:pw%2F1234@") + "?token=canary"
        done = await asyncio.to_thread(lambda: swink(command, *option.split(), address))
        await server.stop()
        return done, asked

    done, asked = asyncio.run(run())
    assert asked == ["Basic dXNlcjpwdy8xMjM0"]
    assert done.returncode == 1
    assert "no feed of calls at http://127.0.0.1:" in done.stderr
    for secret in ("pw%2F1234", "pw/1234", "dXNlcjpwdy8xMjM0", "canary"):
        assert secret not in done.stdout + done.stderr


# (an address, what is wrong with it)
NO_ADDRESSES = [
    ("127.0.0.1:18766", "it does not begin with http:// or https://"),
    ("localhost:18766/events", "it does not begin with http:// or https://"),
    ("http://user:pw1234@127.0.0.1:99999/events?token=pw1234", "Port out of range"),
    ("http://127.0.0.1:port/", "port"),
    ("http://[::1/", "Invalid IPv6 URL"),
    ("http:///events", "it names no host"),
    ("", "it does not begin with http:// or https://"),
]


@pytest.mark.parametrize("gateway", [False, True])
@pytest.mark.parametrize(("address", "fault"), NO_ADDRESSES)
def test_what_is_no_address_is_refused_and_how_one_is_written_is_told(
    address: str, fault: str, gateway: bool
) -> None:
    with pytest.raises(swink.UsageError, match=re.escape(fault)) as refused:
        Place.of("http://localhost/", address) if gateway else Place.of(address, None)
    assert "http://127.0.0.1:8765/events" in refused.value.resolution
    assert "pw1234" not in f"{refused.value} {refused.value.resolution}"


async def test_what_answers_otherwise_is_no_feed() -> None:
    server = Server()
    await server.start(Feed())
    records = following(Place(server.url.replace("events", "elsewhere")), 0, lambda: None)
    with pytest.raises(swink.SwinkError, match="no feed of calls"):
        await anext(records)
    await server.stop()


# (what is sent, how it is followed)
FOREIGN = [
    ("event: end\ndata: [1]\n\n", ("tail",)),
    ("data: 5\n\n", ("tail", "--json")),
    ("data: none\n\n", ("top",)),
    ("event: begin\ndata: {}\n\n", ("tail",)),
    ('event: end\ndata: {"call": "c1"}\n\n', ("top",)),
]


@pytest.mark.parametrize(("sent", "command"), FOREIGN)
async def test_events_of_something_else_are_no_feed(
    swink: Any, sent: str, command: tuple[str, ...]
) -> None:
    async def answer(request: web.Request) -> web.Response:
        return web.Response(text=sent, content_type="text/event-stream")

    app, server = web.Application(), Server()
    app.router.add_get("/events", answer)
    server.runner = web.AppRunner(app)
    await server.runner.setup()
    await web.TCPSite(server.runner, "127.0.0.1", server.port).start()
    done = await asyncio.to_thread(lambda: swink(*command, server.url))
    await server.stop()
    assert done.returncode == 1
    assert "no feed of calls" in done.stderr


async def test_piped_the_table_is_printed_once(swink: Any) -> None:
    server, feed = Server(), Feed()
    await server.start(feed)
    feed.publish("end", END)
    done = await asyncio.to_thread(swink, "top", server.url)
    await server.stop()
    heading, row = done.stdout.splitlines()
    assert heading.split() == ["MODEL", "AGE", "FIRST", "TOKENS", "TOK/S", "RETRIES", "COST"]
    assert row.split() == ["acme/large", "2.0s", "0.5s", "40", "27", "1", "$0.013", "stop"]
    assert "\x1b" not in done.stdout


@pytest.mark.parametrize("more", [(), ("--json",)])
async def test_tail_prints_lines_until_it_is_interrupted(
    swink_environment: dict[str, str], more: tuple[str, ...]
) -> None:
    server, feed = Server(), Feed()
    await server.start(feed)
    feed.publish("end", END)
    command = swink_command("tail", server.url, *more)
    tail = await asyncio.create_subprocess_exec(
        *command, env=swink_environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert tail.stdout is not None
    line = (await tail.stdout.readline()).decode().strip()
    tail.send_signal(signal.SIGINT)
    _, said = await tail.communicate()
    await server.stop()
    assert tail.returncode == 130
    assert b"Traceback" not in said
    if more:
        assert json.loads(line) == {"event": "end", **END}
    else:
        assert line.endswith("c1 acme/large stop after 2.0s, first token 0.5s, 40 tokens, $0.013")


# (name, data, the words of the line)
LINES: list[tuple[str, dict[str, Any], str | None]] = [
    ("begin", {}, "begins"),
    (
        "retry",
        {"delay": 0.5, "next": "acme/small", "kind": "overloaded", "error": "busy"},
        "again in 0.5s on acme/small: overloaded, busy",
    ),
    ("notice", {"code": "malformed_frame"}, "notice malformed_frame"),
    ("content", {"kind": "text", "text": "Hi"}, "text 'Hi'"),
    ("end", {**END, "stop": "error", "kind": "auth", "error": "no"}, "FAILED auth: no"),
    ("end", {**END, "cached": True, "output": None, "cost": None}, "from the cache"),
    ("progress", {}, None),
    ("now", {}, None),
]


@pytest.mark.parametrize(("name", "data", "words"), LINES)
def test_a_line_says_what_happened(name: str, data: dict[str, Any], words: str | None) -> None:
    line = _line(name, {**END, **data})
    assert (line is None) if words is None else (line is not None and words in line)


def test_a_line_holds_nothing_that_drives_a_terminal() -> None:
    hostile = {**END, "model": "acme/\x1b]0;owned\x07x\ny", "code": "\x1b[2J"}
    line = _line("notice", hostile)
    assert line is not None
    assert not re.search(r"[\x00-\x1f]", line)


def test_a_gap_is_told() -> None:
    assert _line("gap", {"lost": 7}) == "... 7 records were lost"
    assert _line("gap", {"lost": None}) == "... some records were lost"


# -- the table -----------------------------------------------------------------------------------


def test_calls_under_way_come_first_and_the_ended_ones_are_bounded() -> None:
    calls = Calls()
    for number in range(MOST_ENDED + 5):
        calls.take("end", {**END, "call": f"e{number}", "output": number}, 0.0)
    calls.take("begin", {"call": "r1", "model": "acme/large"}, 0.0)
    rows = calls.rows()
    assert (calls.running, len(rows)) == (1, MOST_ENDED + 1)
    assert rows[0].end is None
    assert [row.output for row in rows[1:3]] == [MOST_ENDED + 4, MOST_ENDED + 3]


def test_an_age_goes_on_between_records_and_stops_with_the_call() -> None:
    calls = Calls()
    calls.take("progress", {"call": "c1", "model": "m", "age": 1.0}, 10.0)
    assert cells(calls.rows()[0], 12.5)[1] == "3.5s"
    calls.take("end", END, 13.0)
    assert cells(calls.rows()[0], 99.0)[1] == "2.0s"


def test_a_gap_clears_what_may_have_ended() -> None:
    calls = Calls()
    calls.take("begin", {"call": "c1", "model": "m"}, 0.0)
    calls.take("gap", {"lost": 3}, 0.0)
    assert calls.rows() == []


@pytest.mark.parametrize(
    ("width", "headings"),
    [
        (80, ["MODEL", "AGE", "FIRST", "TOKENS", "TOK/S", "RETRIES", "COST"]),
        (40, ["MODEL", "AGE", "TOK/S", "COST"]),
    ],
)
def test_the_table_fits_the_terminal(width: int, headings: list[str]) -> None:
    calls = Calls()
    calls.take("end", {**END, "model": "acme/" + "long-name-" * 9}, 0.0)
    text = StringIO()
    console = Console(file=text, width=width, height=10)
    console.print(live(calls, console).get_renderable())
    lines = text.getvalue().splitlines()
    assert lines[1].split() == headings
    assert len(lines) == 3
    assert max(map(len, lines)) <= width


def test_what_keys_spend_is_shown_above_the_calls() -> None:
    calls = Calls()
    calls.take("end", END, 0.0)
    limits = {"requests": 60.0, "tokens": None, "streams": 8, "dollars_a_day": 5.0}
    calls.spent = [
        {
            "key": "al\x1b[2Jice", "requests": 3, "tokens": 12_000, "streams": 1,
            "dollars_today": 0.25, "dollars_this_month": 17.5, "limits": limits,
        }
    ]  # fmt: skip
    text = StringIO()
    console = Console(file=text, width=100, height=10)
    console.print(live(calls, console).get_renderable())
    spent = text.getvalue().splitlines()[2]
    assert " ".join(spent.split()) == r"al\x1b[2Jice 3 of 60 12,000 1 of 8 $0.25 of $5.00 $17.50"
    assert "\x1b" not in spent
    assert "acme/large" in text.getvalue()


@pytest.mark.parametrize(
    ("gateway", "key", "url", "headers"),
    [
        (None, "k", "http://x/events", {}),
        ("http://g/", "", "http://g/v1/events", {}),
        ("http://g", "k1 k2", "http://g/v1/events", {"Authorization": "Bearer k1"}),
    ],
)
def test_a_gateways_feed_has_an_address_and_wants_a_key(
    gateway: str | None, key: str, url: str, headers: dict[str, str]
) -> None:
    place = Place.of("http://x/events", gateway, {"SWINK_GATEWAY_KEY": key})
    assert (place.url, place.headers) == (url, headers)
    assert "k1" not in repr(place)


async def test_a_program_shows_its_own_calls() -> None:
    text, feed = StringIO(), Feed()
    console = Console(file=text, width=80, height=10, force_terminal=True)
    async with swink.Client(plugins=[feed]) as client, top(feed, console):
        await client.complete("echo/echo", "Hi")
        await asyncio.sleep(0)
    assert "under way" in text.getvalue()
    await asyncio.wait_for(feed.drained(), timeout=5)
