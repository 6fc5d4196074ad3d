"""The detection of ended processes, whose debts other processes pay, on every system."""

from __future__ import annotations

import pytest

from swink_gateway.policy.limits.debts import is_running


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
