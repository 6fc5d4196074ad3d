"""The main program of the process that `worker_process` starts."""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import signal
import sys
from contextlib import ExitStack
from importlib.metadata import EntryPoint
from types import SimpleNamespace
from typing import Any

from swink_core import Host
from swink_testing.conformance.requests.reproducibility import requests_of
from swink_testing.conformance.subject import Subject
from swink_testing.mutants import Mutant

__all__ = ["serve"]


def serve() -> None:
    """Read jobs, one on each line, and answer them until the input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C
    answers = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)  # output of a plugin must not mix with the answers
    for line in sys.stdin.buffer:
        answer: dict[str, Any]
        try:
            answer = {"requests": _requests(json.loads(line))}
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        answers.write(json.dumps(answer).encode() + b"\n")


def _requests(job: dict[str, Any]) -> dict[str, str]:
    sys.path[:] = job["path"]
    importlib.invalidate_caches()
    name, value, group, distribution = job["entry"]
    package = value.partition(":")[0].partition(".")[0]
    if getattr(sys.modules.get(package), "__file__", job["origin"]) != job["origin"]:
        for each in [each for each in sys.modules if each.partition(".")[0] == package]:
            del sys.modules[each]  # a module of the same name from another place
    with ExitStack() as stack:
        for module, source in job["sources"].items():
            stack.enter_context(Mutant(module, module, source).installed())
        load = EntryPoint(name, value, group).load
        dist = SimpleNamespace(name=distribution, version="0")
        entry = SimpleNamespace(name=name, value=value, group=group, dist=dist, load=load)
        host = Host(entry_points=[entry], environ={})
        subject = Subject(
            name, host, job["model"], options=job["options"], key_form=job["key_form"]
        )
        with subject.environment():
            return asyncio.run(requests_of(subject))
