"""Install a fresh clone of the last commit with uv, in the ways that the README shows.

uv comes from the package index, into an environment that is deleted afterwards. The interpreter
that runs this program is the one that uv uses; uv downloads none.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import venv
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = "Scripts" if sys.platform == "win32" else "bin"

NAMED = (".", "./contrib/swink", "./plugins/swink-provider-echo")
"""The distributions that the README installs one by one."""

ANSWER = "import swink; print(swink.SyncClient().complete('echo/echo', 'Good morning').text)"


def main() -> None:
    """Run every command; exit with the status of the first one that fails."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        tools = Path(folder, "tools")
        clone = Path(folder, "swink")
        alone = Path(folder, "alone")
        venv.create(tools, with_pip=True)
        python = tools / PROGRAMS / "python"
        uv = tools / PROGRAMS / "uv"
        _run([python, "-m", "pip", "install", "-qq", "--disable-pip-version-check", "uv"])
        _run(["git", "clone", "--quiet", ROOT, clone])
        _run([uv, "sync", "--quiet"], clone)
        _run([uv, "run", "swink", "demo"], clone)
        _run([uv, "venv", "--quiet", alone], clone)
        alone_python = alone / PROGRAMS / "python"
        _run([uv, "pip", "install", "--quiet", "--python", alone_python, *NAMED], clone)
        _run([alone_python, "-c", ANSWER], clone)


def _run(command: Sequence[str | Path], folder: Path | None = None) -> None:
    print("+", *command, flush=True)
    environment = {
        name: value
        for name, value in os.environ.items()
        if name not in ("VIRTUAL_ENV", "PYTHONPATH")
    }
    environment["UV_PYTHON"] = sys.executable
    environment["UV_PYTHON_DOWNLOADS"] = "never"
    done = subprocess.run(command, cwd=folder, env=environment, check=False)
    if done.returncode:
        sys.exit(done.returncode)


if __name__ == "__main__":
    main()
