"""A fork that runs `swink` ends as an interpreter does."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from swink_test_helpers.fork_server import run_swink
from swink_test_helpers.installed import install
from swink_testing import command_line

PLUGIN = "class Plugin:\n    pass\n"

# (what a plugin does when it is imported, what the command shows at its end)
LEFT = {
    "an open socket": ("import socket\nleft = socket.socket()", "ResourceWarning: unclosed"),
    "a function for the end": ("import atexit\natexit.register(print, 'at the end')", "at the end"),
    "a thread": (
        "import threading\nthreading.Timer(0.3, print, ['by the thread']).start()",
        "by the thread",
    ),
}


@pytest.mark.parametrize("run", [run_swink, command_line.run_swink])
@pytest.mark.parametrize(("source", "shown"), LEFT.values(), ids=LEFT)
def test_what_a_command_leaves_is_shown_at_its_end(
    source: str,
    shown: str,
    run: Callable[..., subprocess.CompletedProcess[str]],
    swink_environment: dict[str, str],
    tmp_path: Path,
) -> None:
    site, entries = tmp_path / "site", {"swink.plugins": {"leaves": "acme_leaves:Plugin"}}
    install(site, "acme-leaves", entries, {"acme_leaves.py": f"{source}\n\n{PLUGIN}"})
    environment = {**swink_environment, "PYTHONPATH": str(site)}
    done = run("ask", "-n", "-m", "echo/echo", "Hi", environment=environment)
    assert done.returncode == 0
    assert shown in done.stdout + done.stderr
