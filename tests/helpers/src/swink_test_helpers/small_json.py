"""Answers of small JSON services that use aiohttp, such as token services.

`aioresponses` makes responses without a `stream_writer`, which aiohttp asks for since 3.14; the
ones here have one. They are whole before they are read: streaming is for `chaos`.
"""

from __future__ import annotations

from typing import Any
from unittest.mock import Mock

from aiohttp import ClientResponse
from aioresponses import aioresponses

__all__ = ["SmallJSON"]


class _Response(ClientResponse):
    def __init__(self, *args: Any, **facts: Any) -> None:
        super().__init__(*args, **{"stream_writer": Mock(output_size=0), **facts})


class SmallJSON(aioresponses):
    """An `aioresponses` whose responses aiohttp takes; other requests reach this machine alone."""

    def __init__(self) -> None:
        super().__init__(passthrough=["http://127.0.0.1"])

    def add(self, *args: Any, **answer: Any) -> None:
        """Answer requests to an address; see `aioresponses.add`."""
        super().add(*args, **{"response_class": _Response, **answer})
