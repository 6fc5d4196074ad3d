"""Feed broken answers to every installed provider: `fuzz.py --streams N --refusals N --flips all`.

Every second stream comes over loopback HTTP, cut anywhere and sometimes reset; the others go
straight to decoder and parser. Any input must end in exactly one terminal event that follows the
grammar, produce a message that can be written as JSON, and block the event loop only briefly. Each
is generated from its number alone (see `swink_test_helpers.mutated_answers`), so that a failure is
repeated with `--only NUMBER`, or `--only NUMBER --refusals 1`.

`--flips` flips each bit of every byte of the recordings that the providers ship (`--flips N`: of N
bytes of each), and `--corpus N` those of N bytes of each stream of the corpus, chosen by `--seed`.
See `swink_test_helpers.flipped_bits` for what a damaged answer may be.

`--work` measures the work for each read while an answer grows to so many characters; see
`swink_test_helpers.work_per_read`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import math
import multiprocessing
import os
import random
import signal
import sys
import time
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from functools import cache
from typing import Any, NamedTuple

import swink_core as swink
from swink_core.plugins.binding import Binding
from swink_core.plugins.host import bind_hooks
from swink_core.providers import AiohttpClient, EventSource, HTTPClient
from swink_core.vocabulary.grammar import Automaton
from swink_recorder.loopback import Exchange, LoopbackServer
from swink_test_helpers.flipped_bits import RecordedBody, corpus_bodies, flips, recorded_bodies
from swink_test_helpers.growing_work import LINEAR
from swink_test_helpers.mutated_answers import Mutated, Refusal, Stream, mutated, refusal, stream
from swink_test_helpers.work_per_read import FLAT, PARTS, growth, growth_of_end
from swink_testing.calls import call_of
from swink_testing.driver import MemoryHTTPClient, MemoryResponse, fold
from swink_testing.freeze import FREEZE, UsualSpeed

STUCK_SECONDS = 20
"""An answer is a few kilobytes; one that takes longer hangs."""

BATCH = 2_000
"""Answers that a process takes on at a time."""

Events = list[swink.Event]


class GivenFrames:
    """A decoder for what is already cut into frames."""

    def feed(self, data: bytes) -> list[bytes]:
        """Return the piece as a frame."""
        return [data]

    def finish(self) -> list[bytes]:
        """Do nothing."""
        return []


class Server(LoopbackServer):
    """Writes the pieces of the next answer, and breaks the connection off after some."""

    def __init__(self) -> None:
        super().__init__()
        self.pieces: list[bytes] = []
        self.content_type = ""
        self.breaks_off = False

    async def respond(self, exchange: Exchange) -> None:
        """Answer with a write a piece, each of which the client has time to read."""
        self.exchanges.clear()
        await exchange.start(200, {"Content-Type": self.content_type})
        for piece in self.pieces:
            await exchange.write(piece)
            await asyncio.sleep(0)
        if self.breaks_off:
            exchange.close()
        else:
            await exchange.end()


class Loopback(NamedTuple):
    """A server and the client of those who ask it."""

    server: Server
    http: AiohttpClient


async def feed(given: Stream) -> Events:
    """Return the events that a stream makes without a network."""
    provider = given.subject.provider
    call = call_of(_bound(provider), given.subject.model)
    source = EventSource(
        call,
        _pieces(given.pieces),
        GivenFrames() if given.framed else given.subject.decoder(),
        provider.parser(call.model),
        malformed="skip",
    )
    return [event async for event in source]


@cache
def _bound(provider: Any) -> Binding:
    return bind_hooks("provider", provider)


async def ask(given: Stream, number: int, loopback: Loopback) -> Events:
    """Return the events of a call that is answered with a stream over HTTP."""
    server = loopback.server
    server.pieces = given.on_the_wire(number)
    server.content_type = given.subject.provider.content_types[0]
    server.breaks_off = random.Random(number).random() < 0.2
    return await call(given.subject, loopback.http, base_url=server.url)


async def be_refused(given: Refusal) -> Events:
    """Return the events of a call that is refused."""
    # one that has two APIs may ask the other
    answers = [MemoryResponse([given.body], given.status, given.headers) for _ in range(2)]
    return await call(given.subject, MemoryHTTPClient(*answers))


async def call(subject: Mutated, http: HTTPClient, **options: Any) -> Events:
    """Return the events of a call."""
    given = subject.kit.call_options(**options)
    client = subject.kit.client(http)
    async with client.stream(subject.model, "Hello", **given) as events:
        seen = [event async for event in events]
    json.dumps(swink.dump(events.message), allow_nan=False)
    return seen


async def _pieces(pieces: list[bytes]) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece


def check(events: Events) -> None:
    """Raise AssertionError for events that no stream may have."""
    automaton = Automaton()
    for event in events:
        broken = automaton.step(event)
        assert broken is None, broken
    assert automaton.phase == "ended", "no terminal event"
    terminal = events[-1]
    if isinstance(terminal, swink.Error):
        assert isinstance(terminal.error_kind, swink.StreamErrorKind), terminal
        assert terminal.error_kind is not swink.StreamErrorKind.INTERNAL, terminal
        assert terminal.error_message, terminal
        assert math.isfinite(terminal.retry_after or 0), terminal
    message = swink.dump(fold(events))
    json.dumps(message, allow_nan=False)
    json.dumps([swink.dump(event) for event in events], allow_nan=False)


def check_refused(events: Events) -> None:
    """Raise AssertionError for events that no refused call may have."""
    check(events)
    assert isinstance(events[-1], swink.Error), events[-1]


async def examine(number: int, refused: bool, loopback: Loopback) -> None:
    """Raise what is wrong with the answer of a number."""
    made: Callable[[], Awaitable[Events]]
    if refused:
        made = lambda: be_refused(refusal(number))  # noqa: E731
    elif number % 2 and (given := stream(number)).subject.kit.speaks_http:
        made = lambda: ask(given, number, loopback)  # noqa: E731
    else:
        made = lambda: feed(stream(number))  # noqa: E731
    held, speed = math.inf, UsualSpeed()
    for _ in range(3):  # what else the processor did is not the answer's fault
        begun = time.thread_time()
        (check_refused if refused else check)(await made())
        held = min(held, speed.seconds(time.thread_time() - begun, FREEZE))
        if held < FREEZE:
            return
    raise AssertionError(f"it holds the loop for {held:.2f} s")


def stuck(*_: object) -> None:
    """Break a hanging answer off; see `signal.setitimer`."""
    raise TimeoutError(f"an answer takes longer than {STUCK_SECONDS} s")


async def run(numbers: range, refused: bool) -> tuple[int, str] | None:
    """Feed answers and return the first that fails, with the reason; `None` if all pass."""
    async with AsyncExitStack() as stack:
        loopback = Loopback(await stack.enter_async_context(Server()), AiohttpClient())
        stack.push_async_callback(loopback.http.aclose)
        for number in numbers:
            signal.setitimer(signal.ITIMER_REAL, STUCK_SECONDS)
            try:
                await examine(number, refused, loopback)
            except Exception:
                return number, traceback.format_exc()
        signal.setitimer(signal.ITIMER_REAL, 0)
    return None


def work(given: tuple[range, bool]) -> tuple[int, str] | None:
    """Do what `run` does, in a process of the pool."""
    logging.disable()
    signal.signal(signal.SIGALRM, stuck)
    return asyncio.run(run(*given))


def fail(number: int, refused: bool, why: str) -> None:
    """Print the failing input, and exit."""
    given = refusal(number) if refused else stream(number)
    print(f"{number}, {given.subject.model}: {given[1:]!r:.20000}")
    again = "--refusals 1" if refused else ""
    sys.exit(f"{why}\nagain: python lab/fuzz.py --only {number} {again}")


def feed_all(first: int, count: int, refused: bool) -> None:
    """Feed so many answers on all processors, and exit at the first that fails."""
    began, what = time.monotonic(), "refusals" if refused else "streams"
    print(f"{count} {what} of {', '.join(str(s.model) for s in mutated())}", flush=True)
    last = first + count
    batches = [(range(n, min(n + BATCH, last)), refused) for n in range(first, last, BATCH)]
    with multiprocessing.Pool(os.cpu_count()) as pool:
        for done, failed in enumerate(pool.imap_unordered(work, batches), 1):
            if failed is not None:
                pool.terminate()
                fail(failed[0], refused, failed[1])
            if done % 25 == 0:
                print(f"{done * BATCH} in {time.monotonic() - began:.0f} s", flush=True)
    print(f"no surprise in {count} {what}, {time.monotonic() - began:.0f} s", flush=True)


@cache
def bodies(corpus: bool) -> list[RecordedBody]:
    """Return the recorded bodies, or those of the corpus."""
    return corpus_bodies() if corpus else recorded_bodies()


def flip(given: tuple[bool, int, int | None, int]) -> tuple[int, list[str]]:
    """Flip bits of one body in a process of the pool. Return their number and the faults."""
    logging.disable()
    corpus, index, sample, seed = given
    body = bodies(corpus)[index]

    async def flip_each() -> tuple[int, list[str]]:
        count = 0
        faults: list[str] = []
        for place, bit in flips(body, sample, seed):
            count += 1
            try:
                fault = await body.fault(place, bit)
            except Exception:
                fault = traceback.format_exc()
            if fault is not None:
                faults.append(f"{body.name}, bit {bit} of byte {place}: {fault:.2000}")
        return count, faults

    return asyncio.run(flip_each())


def flip_all(corpus: bool, sample: int | None, seed: int) -> None:
    """Flip bits of `sample` bytes of each body (`None`: all); exit if one is unnoticed."""
    began, what = time.monotonic(), "bodies of the corpus" if corpus else "recorded bodies"
    given = [(corpus, index, sample, seed) for index in range(len(bodies(corpus)))]
    total = 0
    faults: list[str] = []
    with multiprocessing.Pool(os.cpu_count()) as pool:
        for count, found in pool.imap_unordered(flip, given):
            total += count
            faults += found
    seconds = time.monotonic() - began
    print(f"{total} flipped bits in {len(given)} {what}, {seconds:.0f} s, seed {seed}", flush=True)
    if faults:
        sys.exit("\n".join([*faults[:20], f"{len(faults)} flipped bits are unnoticed"]))


async def measure(size: int) -> None:
    """Measure the work of each part for answers of `size` characters; exit if one grows."""
    growing: list[str] = []
    for name in PARTS:
        times = await growth(name, size)
        at_end = await growth_of_end(name, size)
        said = f"the last eighth takes {times:.1f} times the first"
        print(f"{name}: {said}, the end {at_end:.1f} times that of an eighth", flush=True)
        if times >= FLAT or at_end >= LINEAR:
            growing.append(name)
    if growing:
        sys.exit(f"the work grows with the answer: {', '.join(growing)}")


def bytes_of(text: str) -> int | None:
    """Read a number of bytes; `None` for `all`."""
    return None if text == "all" else int(text)


def main() -> None:
    """Feed the requested number of answers."""
    parser = argparse.ArgumentParser(description="Feed broken answers to installed providers.")
    parser.add_argument("--streams", type=int, default=0, help="how many broken streams")
    parser.add_argument("--refusals", type=int, default=0, help="how many broken HTTP errors")
    parser.add_argument("--flips", type=bytes_of, default=0, help="bytes of each recording")
    parser.add_argument("--corpus", type=bytes_of, default=0, help="the same for the corpus")
    parser.add_argument("--work", type=int, default=0, help="characters of answers to measure")
    parser.add_argument("--seed", type=int, default=1, help="chooses the bytes that are flipped")
    parser.add_argument("--first", type=int, default=0, help="the number to begin with")
    parser.add_argument("--only", type=int, help="feed this one alone")
    given = parser.parse_args()
    if given.only is not None:
        failed = work((range(given.only, given.only + 1), bool(given.refusals)))
        if failed is not None:
            fail(failed[0], bool(given.refusals), failed[1])
        return
    for count, refused in ((given.streams, False), (given.refusals, True)):
        if count:
            feed_all(given.first, count, refused)
    for corpus, sample in ((False, given.flips), (True, given.corpus)):
        if sample != 0:
            flip_all(corpus, sample, given.seed)
    if given.work:
        asyncio.run(measure(given.work))


if __name__ == "__main__":
    main()
