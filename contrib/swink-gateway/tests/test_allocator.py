"""The allocator returns the memory of large requests to the system."""

from __future__ import annotations

import ctypes
from typing import Any

import pytest

from swink_gateway.serving.allocator import return_large_blocks


class Library:
    """A C library with an allocator; `options` are those that were set."""

    def __init__(self) -> None:
        self.options: dict[int, int] = {}

    def mallopt(self, option: int, value: int) -> int:
        self.options[option] = value
        return 1


def test_the_options_of_glibc_are_set(monkeypatch: pytest.MonkeyPatch) -> None:
    library = Library()
    monkeypatch.setattr(ctypes, "CDLL", lambda name: library)
    assert return_large_blocks()
    assert library.options == {-8: 1, -3: 131_072, -1: 131_072}


@pytest.mark.parametrize("library", [object(), None])
def test_another_allocator_stays_unchanged(library: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda name: library)
    assert not return_large_blocks()
