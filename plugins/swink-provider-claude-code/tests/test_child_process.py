"""A command that is run for its output leaves nothing behind, however it ends."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from swink_core import ProviderFailure
from swink_core import StreamErrorKind as Kind
from swink_provider_claude_code import child_process
from swink_provider_claude_code.child_process import ChildProcess
from swink_testing.observing import only_new_objects

RUNS = int(os.environ.get("SWINK_CHILD_RUNS", "40"))
"""Repetitions of each kind of exit; a thousand take minutes."""

MEGABYTE = b"x" * 1024 * 1024


def sh(script: str, *words: str) -> list[str]:
    return ["/bin/sh", "-c", script, "sh", *words]


@contextlib.asynccontextmanager
async def running(script: str, *words: str, said: bytes = b"") -> AsyncIterator[ChildProcess]:
    child = await ChildProcess.start(sh(script, *words), said)
    try:
        yield child
    finally:
        await child.aclose()


async def until(condition: Callable[[], bool]) -> None:
    for _ in range(100_000):
        if condition():
            return
        await asyncio.sleep(0.001)
    pytest.fail("it never was")


async def test_its_words_go_in_and_its_output_comes_out() -> None:
    async with running("cat; echo $1", "last", said=MEGABYTE) as child:
        output = b"".join([data async for data in child])
    assert output == MEGABYTE + b"last\n"
    assert child.code == 0
    assert child.complaint == b""


async def test_its_exit_and_the_end_of_its_complaint_are_known() -> None:
    async with running("head -c 9000 /dev/zero >&2; echo why >&2; exit 5") as child:
        assert [data async for data in child] == []
    assert child.code == 5
    assert child.complaint.endswith(b"why\n")
    assert len(child.complaint) == child_process.COMPLAINT_BYTES


async def test_a_slow_reader_is_not_read_ahead_of() -> None:
    async with running("yes") as child:
        await anext(child)
        for _ in range(200):  # as much as would come
            await asyncio.sleep(0.001)
        assert len(await anext(child)) <= child_process.HELD_BYTES + 256 * 1024
        assert await anext(child)


async def test_an_exit_is_noticed_although_someone_holds_its_pipes() -> None:
    async with asyncio.timeout(30), running("sleep 600 & echo first; exit 7") as child:
        assert b"".join([data async for data in child]) == b"first\n"
        assert child.code == 7


async def test_what_it_wrote_before_it_exited_is_not_lost() -> None:
    script = "head -c 60000 /dev/zero; sleep 600 & exit 7"
    async with asyncio.timeout(30), running(script) as child:
        await until(lambda: child.code is not None)  # the reader comes late
        assert len(b"".join([data async for data in child])) == 60_000


@pytest.fixture
def held(tmp_path: Path) -> Iterator[tuple[str, int]]:
    """A pipe that a process may hold open, and the end that tells whether one does."""
    path = str(tmp_path / "held")
    os.mkfifo(path)
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    yield path, descriptor
    os.close(descriptor)


LEAVING = {
    "it exits": ("exec 3>$1; sleep 600 & echo started; exit 0", True),
    "it is left": ("exec 3>$1; sleep 600 & echo started; sleep 600", False),
    "it is left and will not go": ("trap '' TERM; exec 3>$1; echo started; sleep 600", False),
}


@pytest.mark.parametrize("way", LEAVING)
async def test_whom_it_started_ends_with_it(
    way: str, held: tuple[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(child_process, "GRACE_SECONDS", 0.05)
    script, reads_on = LEAVING[way]
    path, descriptor = held
    async with asyncio.timeout(30):
        async with running(script, path) as child:
            assert await anext(child) == b"started\n"
            if reads_on:
                assert [data async for data in child] == []
        await until(lambda: not _is_held(descriptor))


def _is_held(descriptor: int) -> bool:
    try:
        return os.read(descriptor, 1) != b""
    except BlockingIOError:
        return True


# -- nothing is kept -------------------------------------------------------------------------

WAYS = {
    "it is read to its end": ("cat", "all"),
    "it fails": ("echo no >&2; exit 3", "all"),
    "it kills itself": ("kill -KILL $$", "all"),
    "it never reads its input": ("exit 0", "all"),
    "it closes its output and stays": ("exec >&- 2>&-; sleep 600", "cancel"),
    "it writes without end and is left": ("yes", "once"),
    "it writes nothing and is left": ("exec sleep 600", "cancel"),
    "it reads nothing and is left": ("echo a; exec sleep 600", "once"),
    "it will not go": ("trap '' TERM; echo a; while :; do sleep 600; done", "once"),
    "it leaves someone with its pipes": ("sleep 600 & echo a", "all"),
    "it leaves someone who left its group": ("setsid sleep 600 & echo $! >>$1; echo a", "all"),
    "it is not there": ("", "start"),
}


async def _run(script: str, how: str, record: str) -> None:
    if how == "start":
        with pytest.raises(ProviderFailure):
            await ChildProcess.start([f"{record}.missing"], MEGABYTE)
        return
    child = await ChildProcess.start(sh(script, record), MEGABYTE)
    try:
        if how == "once":
            await anext(child)
        elif how == "all":
            async for _ in child:
                pass
        else:
            task = asyncio.create_task(anext(child))  # type: ignore[arg-type]  # a coroutine here
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
    finally:
        await child.aclose()
    assert child.code is not None


def _descriptors() -> int:
    return len(os.listdir("/dev/fd"))


@pytest.mark.parametrize("way", WAYS)
async def test_descriptors_and_children_do_not_add_up(
    way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(child_process, "GRACE_SECONDS", 0.02)
    monkeypatch.setattr(child_process, "LAST_SECONDS", 0.02)
    script, how = WAYS[way]
    record = tmp_path / "escaped"
    record.touch()
    try:
        with only_new_objects():  # what others left may hold some that would go in between
            await _run(script, how, str(record))
            await asyncio.sleep(0)
            gc.collect()
            before = _descriptors(), _children()  # another test's may be at work
            for _ in range(RUNS):
                await _run(script, how, str(record))
            await asyncio.sleep(0)
            gc.collect()
            assert (_descriptors(), _children()) == before
    finally:
        for line in record.read_text().split():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(line), signal.SIGKILL)


def _children() -> int:
    """Count the processes that this one has, and has not waited for."""
    parents = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # the process has ended
            parents.append(stat.read_text().rpartition(")")[2].split()[1])
    return parents.count(str(os.getpid()))


# -- what cannot be started ------------------------------------------------------------------


@pytest.mark.parametrize("word", ["a\0b", "\ud800", "x" * 3_000_000], ids=["null", "half", "long"])
async def test_words_that_no_command_line_holds_are_a_failure(word: str) -> None:
    with pytest.raises(ProviderFailure) as caught:
        await ChildProcess.start(["/bin/sh", "-c", "exit 0", word])
    assert caught.value.failure.kind is Kind.INVALID_REQUEST


async def test_a_file_that_is_no_program_is_a_failure(tmp_path: Path) -> None:
    path = tmp_path / "command"
    path.write_bytes(b"\x7fELF and no more")
    path.chmod(0o755)
    with pytest.raises(ProviderFailure) as caught:
        await ChildProcess.start([str(path)])
    assert caught.value.failure.kind is Kind.INVALID_REQUEST
