"""Debts on a full disk, and the detection of ended processes, whose debts other processes pay."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from msgspec import json

from swink_gateway.policy.limits.debts import Debt, Debts, is_running, process_name


class Kernel:
    """A double of Windows's kernel with a running process, an ended one and one of another user."""

    RUNS, ENDED, ANOTHERS, ERROR_ACCESS_DENIED, ERROR_INVALID_PARAMETER = 8, 12, 16, 5, 87

    def __init__(self, name: str, use_last_error: bool) -> None:
        assert (name, use_last_error) == ("kernel32", True)
        self.error = 0
        self.open: list[int] = []

    def OpenProcess(self, access: int, inherit: bool, process: int) -> int:
        assert (access, inherit) == (0x100000, False)
        if process not in (self.RUNS, self.ENDED):
            is_there = process == self.ANOTHERS
            self.error = self.ERROR_ACCESS_DENIED if is_there else self.ERROR_INVALID_PARAMETER
            return 0
        self.open.append(process)
        return process

    def WaitForSingleObject(self, handle: int, milliseconds: int) -> int:
        assert milliseconds == 0
        return {self.RUNS: 0x102, self.ENDED: 0}[handle]

    def CloseHandle(self, handle: int) -> None:
        self.open.remove(handle)


def test_on_windows_a_process_is_looked_for_without_a_signal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """`os.kill` would send its console a Ctrl-C there, or end it."""
    kernel = Kernel("kernel32", use_last_error=True)
    monkeypatch.setattr("sys.platform", "win32")
    monkeypatch.setattr("os.kill", None)
    monkeypatch.setattr("ctypes.WinDLL", lambda *_, **__: kernel, raising=False)
    monkeypatch.setattr("ctypes.get_last_error", lambda: kernel.error, raising=False)
    processes = [Kernel.RUNS, Kernel.ENDED, Kernel.ANOTHERS, 20]
    assert [is_running(str(process)) for process in processes] == [True, False, True, False]
    assert kernel.open == []


LINUX = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


@LINUX
def test_a_process_has_another_name_than_a_dead_one_with_its_id() -> None:
    id = os.getpid()
    names = [process_name(), f"{id}-1", str(id), f"{2**22 + 1}-1"]
    assert [is_running(name) for name in names] == [True, False, True, False]


@LINUX
async def test_the_debts_of_a_dead_process_with_the_same_id_are_paid(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as earlier:
        earlier.setattr("swink_gateway.policy.limits.debts._start_of", lambda id: "1")
        Debts(tmp_path).add("team", 1.0, 1, 100, 0.5)
    assert await _paid(Debts(tmp_path)) == [1]
    assert os.listdir(tmp_path) == []


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no limit of a file's size")
async def test_charges_that_do_not_fit_on_the_disk_are_kept_in_memory(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    debts = Debts(tmp_path)
    file = tmp_path / f"owed-{process_name()}"
    debts.add("team", 1.0, 1, 100, 0.5)
    with _largest_file(file.stat().st_size + 10):
        debts.add("team", 2.0, 1, 100, 0.5)
        debts.add("team", 3.0, 1, 100, 0.5)
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    assert "charges cannot be written to" in caplog.text
    debts.add("team", 4.0, 1, 100, 0.5)

    written = [json.decode(line, type=Debt) for line in file.read_bytes().splitlines()]
    assert [debt[2] for debt in written] == [1, 4]
    assert await _paid(debts) == [1, 2, 3, 4]


async def test_charges_are_kept_in_memory_if_their_folder_is_gone(tmp_path: Path) -> None:
    debts = Debts(tmp_path / "gone")
    debts.add("team", 1.0, 1, 100, 0.5)
    assert await _paid(debts) == [1]


@contextmanager
def _largest_file(size: int) -> Iterator[None]:
    """Let no file of this process grow beyond a size: what is written more fails."""
    import resource

    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


async def _paid(debts: Debts) -> list[int]:
    """Pay all debts; return the seconds of their attempts."""
    paid: list[int] = []

    async def pays(debt: Debt) -> None:
        paid.append(debt[2])

    await debts.pay(pays)
    return paid
