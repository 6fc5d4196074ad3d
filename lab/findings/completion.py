"""Print whether the options of a call are visible to an editor without a type checker.

    python -m lab.findings.completion

IPython and Jupyter complete from signatures and annotations at run time.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import swink
from lab.findings.gateways import verdict

FUNCTIONS: dict[str, Callable[..., Any]] = {
    "swink.complete_sync": swink.complete_sync,
    "swink.SyncClient": swink.SyncClient,
    "SyncClient.complete": swink.SyncClient.complete,
    "SyncClient.stream": swink.SyncClient.stream,
    "SyncClient.run": swink.SyncClient.run,
    "SyncClient.gather": swink.SyncClient.gather,
    "Client.complete": swink.Client.complete,
}

OPTION = "temperature"
"""An option of every call, which a signature should show."""


def main() -> None:
    """Print one line for each function, and what completes `swink.`."""
    for name, function in FUNCTIONS.items():
        parameters = inspect.signature(function).parameters
        named = [each for each in parameters if each not in ("self", "options")]
        hidden = any(each.kind is each.VAR_KEYWORD for each in parameters.values())
        shown = OPTION in parameters or name == "swink.SyncClient"
        text = f"{name}: {len(named)} parameters by name, **options: {hidden}"
        verdict(shown and not hidden, text)
    missing = set(swink.__all__) - set(dir(swink))
    verdict(not missing, f"dir(swink): {len(dir(swink))} names, {len(missing)} public ones missing")
    answer = swink.complete_sync("echo/echo", "Hi")
    public = [each for each in dir(answer) if not each.startswith("_")]
    verdict("text" in public, f"dir of an answer: {', '.join(public)}")


if __name__ == "__main__":
    main()
