"""A process with a low descriptor limit has fewer concurrent answers, and warns at its start."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from serving import ask, serving
from test_keepalive import BEGUN, ENDED, HI, Thinking

from swink_gateway.serving import descriptors
from swink_gateway.serving.descriptors import (
    RESERVED,
    affordable_streams,
    descriptors_left,
    raise_limit,
)
from swink_gateway.serving.limits import Limits

PATH = "/v1/chat/completions"


class Resource:
    """A double of the module `resource`."""

    RLIMIT_NOFILE = 7
    RLIM_INFINITY = -1

    def __init__(self, soft: int, hard: int) -> None:
        self.limits = (soft, hard)

    def getrlimit(self, which: int) -> tuple[int, int]:
        return self.limits

    def setrlimit(self, which: int, limits: tuple[int, int]) -> None:
        self.limits = limits


# (soft and hard limit, the soft limit afterwards, whether there is a warning)
STARTS = [
    ((256, 256), 256, True),
    ((256, 1024), 1024, True),
    ((256, 65536), 1600, False),
    ((256, -1), 1600, False),
    ((4096, 4096), 4096, False),
    ((-1, -1), -1, False),
]


@pytest.mark.parametrize(("limits", "soft", "warns"), STARTS)
def test_the_limit_is_raised_at_the_start_or_a_warning_says_that_it_is_low(
    limits: tuple[int, int], soft: int, warns: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = Resource(*limits)
    monkeypatch.setattr(descriptors, "resource", found)
    warning = raise_limit(Limits())
    assert found.limits[0] == soft
    assert (warning is not None) is warns
    if warning is not None:
        assert "raise the limit to 1600" in warning


def test_a_reserve_of_descriptors_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(descriptors, "resource", Resource(256, 256))
    assert affordable_streams(512) == (256 - RESERVED) // 2
    assert affordable_streams(5) == 5
    assert descriptors_left(connections=100, streams=90)
    assert not descriptors_left(connections=100, streams=92)


async def test_requests_beyond_the_descriptors_get_503(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(descriptors, "resource", Resource(RESERVED + 3, RESERVED + 3))
    upstream: Any = Thinking()
    async with serving(upstream) as gateway:
        first = asyncio.ensure_future(ask(gateway, PATH, HI))
        await upstream.asked.wait()
        refused = await ask(gateway, PATH, HI)
        await upstream.say(*BEGUN)
        await upstream.say(*ENDED)
        assert (await first).status == 200
    assert refused.status == 503
