"""What `make clients` holds real clients to is all there."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

TOOL = Path(__file__).parent.parent / "tools" / "clients"


def test_the_table_has_a_row_for_each_scene_of_each_client(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(TOOL))
    pytest.importorskip("swink_gateway")
    drive, table = importlib.import_module("drive"), importlib.import_module("table")
    played = {(c.name, scene) for c in drive.CLIENTS for scene in drive.scenes(c)}
    played |= {(c.name, "model") for c in drive.CLIENTS if c.answered_by_a_model}
    assert played == table.read().keys()
    assert {c.protocol for c in drive.CLIENTS} == drive.BEHIND.keys()
