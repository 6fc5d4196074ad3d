"""Makes requests for comparison in another process, with another hash seed and a later time.

One process serves all subjects of a run, because starting one takes longer than most checks.
"""

from __future__ import annotations

import atexit
import json
import os
import subprocess
import sys
from importlib.machinery import SourceFileLoader
from typing import Any

from swink_testing.conformance.check import require
from swink_testing.conformance.subject import Subject

__all__ = ["elsewhere"]

_PROGRAM = "from swink_testing.conformance.requests.worker_main import serve; serve()"

_process: subprocess.Popen[bytes] | None = None


def elsewhere(subject: Subject) -> dict[str, str]:
    """Return the result of `requests_of` for the subject in another process."""
    entry = subject.entry
    job = {
        "path": sys.path,
        "entry": [entry.name, entry.value, entry.group, entry.distribution],
        "origin": getattr(sys.modules.get(entry.package), "__file__", None),
        "sources": _replaced(entry.package),
        "model": subject.model_name,
        "options": dict(subject.options),
        "key_form": subject.key_form,
    }
    try:
        answer = _ask(json.dumps(job, default=str).encode())
    except BaseException:
        close()  # a late answer must not be read as the next one
        raise
    require("error" not in answer, f"in another process: {answer.get('error')}")
    found: dict[str, str] = answer["requests"]
    return found


def _replaced(package: str) -> dict[str, str]:
    """Return the source code of modules that differ from their files, such as mutants."""
    found: dict[str, str] = {}
    for name, module in list(sys.modules.items()):
        loader = getattr(module, "__loader__", None)
        if name.partition(".")[0] != package or type(loader) is SourceFileLoader:
            continue
        if isinstance(loader, SourceFileLoader):
            found[name] = loader.get_source(name) or ""
    return found


def _ask(job: bytes) -> dict[str, Any]:
    global _process
    if _process is None or _process.poll() is not None:
        seed = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"
        _process = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
    assert _process.stdin is not None
    assert _process.stdout is not None
    _process.stdin.write(job + b"\n")
    _process.stdin.flush()
    answer: dict[str, Any] = json.loads(_process.stdout.readline() or b'{"error": "it ended"}')
    return answer


@atexit.register
def close() -> None:
    """End the other process, if there is one."""
    global _process
    if _process is not None:
        _process.kill()
        _process.communicate()
        _process = None
