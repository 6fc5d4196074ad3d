"""A third-party wheel, beside today's core: gates, observers, taps and wrappers that it brings.

The wheel was built once, from the folder beside it, and never changes; it has to work with every
later core.
"""

from __future__ import annotations

import asyncio
import json
import logging
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

import swink_core as swink
from swink_core import ModelInfo
from swink_core.plugins import host as host_module
from swink_recorder.recording import Recording
from swink_recorder.replay import ReplayServer
from swink_testing.calls import client_with
from swink_testing.clock import ManualClock
from swink_testing.driver import MemoryHTTPClient, MemoryResponse

FIXTURES = Path(__file__).parent / "fixtures"
WHEEL = FIXTURES / "swink_provider_seams-1.0-py3-none-any.whl"
SOURCE = FIXTURES / "seams" / "src"

SSE = {"Content-Type": "text/event-stream", "X-RateLimit-Remaining": "7"}
PIECES = [
    b'data: {"type": "text", "text": "Hel"}\n\ndata: {"type": "text", "text": "lo"}\n\n',
    b'data: {"type": "text", "text": " there"}\n\n',
    b'data: {"type": "done", "text": "stop", "usage": {"input": 3, "output": 2}}\n\n',
]
MODEL, SPARE = "seams/seams-large", "seams/seams-small"
PRICED = ModelInfo("seams-large", "seams")


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, unpacked into a separate folder as by an installer."""
    folder = tmp_path_factory.mktemp("site")
    with zipfile.ZipFile(WHEEL) as archive:
        archive.extractall(folder)
    return folder


@pytest.fixture
def seams(installed: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The contents of the wheel, on the path of this process."""
    monkeypatch.syspath_prepend(str(installed))
    monkeypatch.setenv("SEAMS_API_KEY", "k")
    import swink_provider_seams.plugins

    yield swink_provider_seams.plugins
    for name in [name for name in sys.modules if name.startswith("swink_provider_seams")]:
        del sys.modules[name]


def good() -> MemoryResponse:
    return MemoryResponse(PIECES, headers=SSE)


def refused(status: int) -> MemoryResponse:
    return MemoryResponse.of_json({}, status)


def client_of(*answers: MemoryResponse, **given: Any) -> swink.Client:
    given.setdefault("retry", swink.RetryPolicy(base=0.0))
    return client_with(http=MemoryHTTPClient(*answers), base_url="http://seams.invalid", **given)


def test_the_wheel_is_what_the_source_beside_it_says() -> None:
    with zipfile.ZipFile(WHEEL) as archive:
        held = {n: archive.read(n) for n in archive.namelist() if ".dist-info/" not in n}
    source = {p.relative_to(SOURCE).as_posix(): p for p in SOURCE.rglob("*") if p.is_file()}
    assert held == {
        name: path.read_bytes() for name, path in source.items() if "pycache" not in name
    }


def test_swink_check_finds_no_fault_in_its_provider(
    installed: Path, swink: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    done = swink("check", "seams", PYTHONPATH=str(installed))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "failed" not in done.stdout


FAULTS = """
from swink_test_helpers.fault_matrix import FaultMatrix


class TestSeams(FaultMatrix):
    provider = "seams"
"""


@pytest.mark.heavy
def test_the_fault_matrix_runs_over_its_provider(
    installed: Path, swink_environment: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "test_faults.py").write_text(FAULTS)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)]
    environment = {**swink_environment, "PYTHONPATH": str(installed)}
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout
    passed, _, _ = done.stdout.rpartition(" passed")
    assert int(passed.split()[-1]) > 50


async def until(done: Callable[[], object]) -> None:
    while not done():  # noqa: ASYNC110  # of somebody else's, without an event
        await asyncio.sleep(0)


# -- gates ---------------------------------------------------------------------------------------


async def test_two_gates_see_every_attempt_of_a_retried_chain_and_learn_its_end(seams: Any) -> None:
    limit, budget = seams.RateLimit(1), seams.Budget(1.0)
    answers = [refused(503), refused(503), refused(500), good()]
    policy = swink.RetryPolicy(base=0.0, retries={swink.StreamErrorKind.OVERLOADED: 1})
    async with client_of(*answers, gates=[limit, budget], retry=policy) as client:
        message = await client.complete([MODEL, SPARE], "Hi")
    assert message.text == "Hello there"
    assert limit.told == [
        (MODEL, "error", 503),
        (MODEL, "error", 503),
        (SPARE, "error", 500),
        (SPARE, "done", 200),
    ]
    assert len(budget.spent) == 2


async def test_a_gate_delays_an_attempt_until_it_may_begin(seams: Any) -> None:
    limit = seams.RateLimit(1)
    async with client_of(good(), good(), gates=[limit]) as client:
        async with client.stream(MODEL, "first") as first:
            await anext(aiter(first))
            second = asyncio.ensure_future(client.complete(MODEL, "second"))
            await until(lambda: limit.waiting)
            assert not second.done()
        assert (await second).text == "Hello there"
    assert [kind for _, kind, _ in limit.told] == ["error", "done"]  # the first one was left


async def test_a_refused_target_is_passed_over_without_a_request(seams: Any) -> None:
    budget = seams.Budget(0.0)
    other = seams.RateLimit(5)
    async with client_of(gates=[other, budget]) as client:
        async with client.stream([MODEL, SPARE], "Hi") as stream:
            events = [event async for event in stream]
        assert client._http.requests == []  # type: ignore[attr-defined]
    assert [event.type for event in events] == ["notice", "start", "error"]
    assert events[0].code == "target_passed_over"
    assert "the budget is spent" in events[0].detail
    assert events[-1].error_kind is swink.StreamErrorKind.QUOTA_EXHAUSTED
    assert events[-1].retry_after == 3600.0
    assert [model for model, _, _ in other.told] == [MODEL, SPARE]  # it was entered, so it is told


async def test_a_gate_learns_of_a_cancellation_once(seams: Any) -> None:
    limit = seams.RateLimit(1)
    async with client_of(good(), gates=[limit]) as client:
        stream = client.stream(MODEL, "Hi")
        events = aiter(stream)
        await anext(events)
        await stream.aclose()
        await stream.aclose()
    assert [kind for _, kind, _ in limit.told] == ["error"]


async def test_a_wait_at_a_gate_can_be_cancelled_and_only_the_total_limit_runs(seams: Any) -> None:
    limit, outer, clock = seams.RateLimit(0), seams.RateLimit(9), ManualClock()
    timeouts = swink.Timeouts(first_event=5.0, idle=5.0)
    async with client_of(gates=[outer, limit], clock=clock, timeouts=timeouts) as client:
        stream = client.stream(MODEL, "Hi")
        reader = asyncio.ensure_future(stream.result())
        await until(lambda: limit.waiting)
        await clock.advance(3600.0)
        assert not reader.done()
        await stream.aclose()
        with pytest.raises(swink.StreamAborted):
            await reader
    assert limit.told == []  # its `enter` never returned
    assert [kind for _, kind, _ in outer.told] == ["error"]


async def test_a_gate_that_raises_ends_the_call_and_is_named(seams: Any) -> None:
    class Faulty(seams.RateLimit):  # type: ignore[misc]  # of a wheel without types here
        async def enter(self, target: swink.Target) -> None:
            raise ZeroDivisionError

    async with client_of(good(), gates=[Faulty(1)]) as client:
        with pytest.raises(swink.PluginFault, match="gate Faulty raised ZeroDivisionError"):
            await client.complete(MODEL, "Hi")


def test_a_targets_key_is_equal_in_every_process_and_tells_no_credential(installed: Path) -> None:
    program = (
        "import swink_core as s\n"
        "c = s.Client(providers={'seams': {'api_key': 'sk-canary', 'base_url': 'http://user:word@seams.invalid/v1'}})\n"
        f"print(c.target({MODEL!r}).key)\n"
    )
    keys = {
        subprocess.run(
            [sys.executable, "-c", f"import sys\nsys.path[:0] = [{str(installed)!r}]\n{program}"],
            env={"PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True,
        ).stdout
        for seed in ("1", "2")
    }  # fmt: skip
    [key] = keys
    assert MODEL in key
    assert not any(secret in key for secret in ("canary", "word", "user"))


# -- observers -----------------------------------------------------------------------------------


async def test_an_observer_reads_the_answers_head_and_tells_reads_from_events(
    seams: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SEAMS_LOG", str(tmp_path / "seen"))
    async with client_of(refused(503), good()) as client:
        await client.complete(MODEL, "Hi")
    seen = [json.loads(line) for line in (tmp_path / "seen").read_text().splitlines()]
    assert [(s["attempt"], s["event"], s["status"], s["reads"]) for s in seen] == [
        (1, "start", None, 0),
        (1, "retry", 503, 0),
        (2, "start", None, 0),
        (2, "text_start", 200, 1),
        (2, "text_delta", 200, 1),
        (2, "text_delta", 200, 1),  # the same read brought both
        (2, "text_delta", 200, 2),
        (2, "text_end", 200, 3),
        (2, "done", 200, 3),
    ]
    assert (seen[-1]["left"], seen[-1]["came"], seen[-1]["output"]) == ("7", True, 2)


async def test_an_observer_that_is_stuck_is_left_at_the_limit_and_named(
    seams: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("SEAMS_STUCK", "1")
    monkeypatch.setattr(host_module, "CLOSE_SECONDS", 0.01)
    caplog.set_level(logging.ERROR)
    async with client_of(good()) as client:
        await client.complete(MODEL, "Hi")
    assert "seams-watcher" in caplog.text
    assert "was not closed within" in caplog.text


# -- taps ----------------------------------------------------------------------------------------


async def test_what_its_recorder_keeps_can_be_replayed(
    seams: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SEAMS_FOLDER", str(tmp_path / "kept"))
    async with client_of(refused(503), good(), api_key="sk-canary-123") as client:
        first = await client.complete(MODEL, "Hi")
    recording = Recording.load(tmp_path / "kept")
    assert recording.body == b"".join(PIECES)
    assert [size for _, size in recording.chunks] == [len(piece) for piece in PIECES]
    assert recording.request.path == "/generate"
    assert "canary" not in "".join(p.read_text() for p in (tmp_path / "kept").iterdir())
    monkeypatch.delenv("SEAMS_FOLDER")
    with ReplayServer() as server:
        async with client_with(base_url=server.add("case", recording), api_key="k") as client:
            again = await client.complete(MODEL, "Hi")
    assert again.content == first.content


# -- wrappers ------------------------------------------------------------------------------------


async def batches_through(*plugins: Any) -> list[list[str]]:
    async with (
        client_of(good(), plugins=plugins) as client,
        client.stream(MODEL, "Hi") as stream,
    ):
        return [[event.type for event in batch] async for batch in stream.batches()]


async def test_a_wrapper_that_offers_batches_keeps_them(seams: Any) -> None:
    plain = await batches_through()
    assert await batches_through(seams.ThroughBatches()) == plain
    assert await batches_through(seams.Through()) == plain  # it never waits


async def test_a_wrapper_that_waits_hands_each_event_on_as_it_comes(seams: Any) -> None:
    class Pacing:
        def __init__(self) -> None:
            self.turn = asyncio.Semaphore(0)

        @swink.hookimpl(wrapper=True)
        def stream(self) -> Any:
            inner = yield
            return self.paced(inner)

        async def paced(self, inner: Any) -> Any:
            async for event in inner:
                yield event
                await self.turn.acquire()

    pacing, seen = Pacing(), []
    async with (
        client_of(good(), plugins=[pacing]) as client,
        client.stream(MODEL, "Hi") as stream,
    ):
        events = aiter(stream)
        while not isinstance(seen and seen[-1], swink.Done):
            reading = asyncio.ensure_future(anext(events))
            await asyncio.sleep(0)
            pacing.turn.release()
            seen.append(await reading)
    assert [event.type for event in seen] == [*chain(*await batches_through())]


async def test_what_a_wrapper_had_made_when_it_was_left_is_kept(seams: Any) -> None:
    class Stuck:
        @swink.hookimpl(wrapper=True)
        def stream(self) -> Any:
            inner = yield
            return self.stuck(inner)

        async def stuck(self, inner: Any) -> Any:
            async for event in inner:
                yield event
                if isinstance(event, swink.TextDelta):
                    await asyncio.Event().wait()

    async with client_of(good(), plugins=[Stuck()]) as client:
        stream = client.stream(MODEL, "Hi")
        reader = asyncio.ensure_future(stream.result())
        await until(lambda: stream.call.attempt.reads == 1)
        for _ in range(9):
            await asyncio.sleep(0)
        await stream.aclose()
        with pytest.raises(swink.StreamAborted) as caught:
            await reader
    assert caught.value.partial is not None
    assert caught.value.partial.text == "Hel"


async def test_batches_of_a_wrapper_are_held_to_the_grammar(seams: Any) -> None:
    class Doubling:
        def __init__(self, inner: Any) -> None:
            self.inner = inner

        async def batches(self) -> Any:
            async for batch in self.inner.batches():
                yield batch + batch

    class Wrapper:
        @swink.hookimpl(wrapper=True)
        def stream(self) -> Any:
            inner = yield
            return Doubling(inner)

    async with (
        client_of(good(), plugins=[Wrapper()]) as client,
        client.stream(MODEL, "Hi") as stream,
    ):
        events = [event async for event in stream]
    assert [event.type for event in events] == ["start", "error"]
    assert events[-1].code == "grammar"
