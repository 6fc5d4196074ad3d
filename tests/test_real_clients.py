"""The page about real clients has a row for each scene that `make clients` plays."""

from __future__ import annotations

import importlib

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
