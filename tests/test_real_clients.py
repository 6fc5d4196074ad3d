"""What `make clients` holds real clients to is all there."""

from __future__ import annotations

import importlib

import pytest


def test_the_table_has_a_row_for_each_scene_of_each_client() -> None:
    pytest.importorskip("swink_gateway")
    drive = importlib.import_module("lab.clients.drive")
    table = importlib.import_module("lab.clients.table")
    played = {(c.name, scene) for c in drive.CLIENTS for scene in drive.scenes(c)}
    played |= {(c.name, "model") for c in drive.CLIENTS if c.answered_by_a_model}
    assert played == table.read().keys()
    assert {c.protocol for c in drive.CLIENTS} == drive.BEHIND.keys()
