"""An observer that keeps a ledger of all calls: `python examples/observer.py [MODEL]`.

It writes a line of JSON for each call, to whichever provider it went and however it ended, and
knows no prompt and no answer. As an entry point of the group `swink.plugins` it would be loaded by
every program where it is installed.
"""

import asyncio
import json
import sys
from typing import TextIO

import swink


class Ledger:
    """Writes what each call took and cost."""

    api_level = 1

    def __init__(self, file: TextIO) -> None:
        self._file = file

    @swink.hookimpl
    def on_event(self, event: swink.AssistantMessageEvent, call: swink.Call) -> None:
        match event:
            case swink.Done(stop_reason=reason):
                self._write(call, str(reason))
            case swink.Error(error_kind=kind):
                self._write(call, str(kind))

    def _write(self, call: swink.Call, outcome: str) -> None:
        row = {
            "model": str(call.model),
            "outcome": outcome,
            "attempts": call.attempts,
            "tokens": call.usage.total if call.usage else None,
            "dollars": call.cost.total if call.cost else None,
        }
        print(json.dumps(row), file=self._file, flush=True)


async def main(model: str) -> None:
    async with swink.Client(plugins=[Ledger(sys.stdout)]) as client:
        models = [model, ["echo/fail-quota-exhausted", model], "echo/fail-content-filtered-after-2"]
        for chain in models:
            try:
                await client.complete(chain, "Why is the sky blue?")
            except swink.StreamError as error:
                print("the caller is told:", error.title, file=sys.stderr)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "echo/echo"))
