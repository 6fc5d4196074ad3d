"""The page about real clients has a row for each scene that `make clients` plays.

A scene that differs is played again by itself.
"""

from __future__ import annotations

import asyncio
import importlib
from typing import Any

import pytest


def test_the_page_has_a_row_for_each_scene_of_each_client() -> None:
    pytest.importorskip("swink_gateway")
    drive = importlib.import_module("lab.clients.drive")
    table = importlib.import_module("lab.clients.table")
    played = {(c.name, scene) for c in drive.CLIENTS for scene in table.scenes_of(c)}
    sdks = importlib.import_module("lab.clients.sdks")
    played |= {(sdk.name, scene) for sdk in sdks.SDKS for scene in sdks.SCENES}
    assert played == table.read()
    assert {c.protocol for c in drive.CLIENTS} == drive.OTHER.keys() == drive.SAME.keys()


@pytest.mark.parametrize("slow", [1, 2, 3])
async def test_a_scene_that_differs_is_played_again_by_itself(
    slow: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("swink_gateway")
    drive = importlib.import_module("lab.clients.drive")
    client = drive.CLIENTS[0]
    playing = 0
    beside: list[int] = []

    async def played(client: Any, name: str, is_through: bool) -> Any:
        nonlocal playing
        playing += 1
        await asyncio.sleep(0)
        if is_through and name == "filter":
            beside.append(playing)
        await asyncio.sleep(0)
        playing -= 1
        seconds = 9.0 if is_through and name == "filter" and len(beside) <= slow else 1.0
        run = drive.Run(1, "", seconds, 0)
        return drive.Result(client, name, run, 1, 1 if is_through else None)

    monkeypatch.setattr(drive, "directly", lambda client, name: played(client, name, False))
    monkeypatch.setattr(drive, "through", lambda client, name: played(client, name, True))
    pairs = await drive.play([client], ["filter", "key", "overflow"])
    assert len(beside) == min(slow, drive.TRIES) + 1
    assert beside[0] > 1
    assert {*beside[1:]} == {1}
    assert len(drive.faults(pairs)) == (slow > drive.TRIES)
