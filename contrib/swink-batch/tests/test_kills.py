"""A run that is killed at any moment: a short series; `make kills` has two hundred in 20,000."""

from pathlib import Path

import pytest
from kills import Kills, row_server


@pytest.mark.parametrize("engine", ["files", "sqlite"])
def test_killed_runs_lose_nothing_and_send_nothing_twice(tmp_path: Path, engine: str) -> None:
    with row_server("--latency", "0.002") as url:
        found = Kills(tmp_path, url, rows=80, engine=engine, seed=24).run(kills=4)
    assert found.kills.total() == 4
    assert found.faults == 0, found
