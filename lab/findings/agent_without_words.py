"""Print how a run ends whose last answer, after a tool's result, has no words.

    python -m lab.findings.agent_without_words

Anthropic documents such an answer: the model has nothing to add.
"""

from __future__ import annotations

import asyncio

import swink
from lab.findings.upstreams import MODELS, providers, verdict
from lab.vendor import Vendor
from lab.vendor.writer import Script


async def ending(vendor: Vendor, model: str) -> tuple[str, int]:
    """Run the agent; return the ending and the runs of the tool."""
    notified: list[str] = []

    def notify(text: str) -> str:
        """Send a notification."""
        notified.append(text)
        return "sent"

    call = {"call": "notify", "arguments": {"text": "Deployed."}}
    vendor.state.scripts.clear()
    vendor.state.scripts.extend(Script(((call,), (), (), ())).split())
    async with swink.Client(providers=providers(vendor)) as client:
        try:
            async with client.run(model, "The deployment ended.", tools=[notify]) as run:
                async for _ in run:
                    pass
        except swink.SwinkError as error:
            return type(error).__name__, len(notified)
        return str(run.message.stop_reason), len(notified)


async def execute() -> None:
    """Print one line for each model."""
    for model in MODELS.values():
        async with Vendor() as vendor:
            how, times = await ending(vendor, model)
            requests = len(vendor.state.record.exchanges)
            detail = f"{how}, tool ran {times} times, {requests} requests"
            verdict(how == "stop" and requests == 2, f"{model}: a run ends without words", detail)


def main() -> None:
    """Run the program."""
    asyncio.run(execute())


if __name__ == "__main__":
    main()
