"""Print how often one call is fitted to its model, alone and beside other calls.

    python -m lab.findings.fits_per_call [PROVIDER/MODEL …]

A call needs to be fitted once: the rules of the model and the names of tools depend on nothing
that changes while it runs.
"""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from typing import Any
from unittest.mock import patch

from lab.findings.call_cost import ANSWER, MODEL, TOOL
from swink_core import Client, UserMessage
from swink_core.providers import HTTPProvider
from swink_testing.driver import MemoryHTTPClient, MemoryResponse

AT_ONCE = (1, 2, 8, 50)


async def fits(model: str, calls: int, with_tool: bool) -> float:
    """Return the mean number of fits, for so many calls at the same time."""
    counted: Counter[str] = Counter()
    fit = HTTPProvider.fit

    def counting(self: HTTPProvider, *arguments: Any) -> Any:
        counted["fits"] += 1
        return fit(self, *arguments)

    http = MemoryHTTPClient(*[MemoryResponse([ANSWER]) for _ in range(calls)])
    providers = {model.partition("/")[0]: {"api_key": "test", "base_url": "http://vendor.invalid"}}
    options: Any = {"tools": [TOOL]} if with_tool else {}
    with patch.object(HTTPProvider, "fit", counting):
        async with Client(http=http, providers=providers) as client:

            async def ask(number: int) -> None:
                async with client.stream(model, [UserMessage(f"Hi {number}")], **options) as stream:
                    async for _ in stream:
                        await asyncio.sleep(0)

            await asyncio.gather(*(ask(number) for number in range(calls)))
    return counted["fits"] / calls


def main() -> None:
    """Print one line for each model and kind of call."""
    print("calls at once:", *AT_ONCE)
    for model in sys.argv[1:] or [MODEL]:
        for with_tool in (False, True):
            kind = "with a tool" if with_tool else "text"
            means = [asyncio.run(fits(model, calls, with_tool)) for calls in AT_ONCE]
            print(f"{model} {kind}:", *(f"{mean:g}" for mean in means))


if __name__ == "__main__":
    main()
