"""One question to many models at once, in a live table: `python examples/fan_out.py [MODEL …]`.

A model that fails has its row, and stops no other.
"""

import asyncio
import sys
import time

import swink

QUESTION = "Why is the sky blue, in one sentence?"
MODELS = ["echo/echo", "echo/slow", "echo/think", "echo/flaky", "echo/fail-quota-exhausted"]


class Row:
    """What is known of one model's answer."""

    def __init__(self, model: str) -> None:
        self.model = model
        self.state = "waits"
        self.seconds = 0.0
        self.message: swink.AssistantMessage | None = None

    def __str__(self) -> str:
        text = " ".join(self.message.text.split()) if self.message else ""
        return f"{self.model:28.28} {self.state:12.12} {self.seconds:5.1f} s  {text[-40:]}"


async def ask(client: swink.Client, row: Row) -> None:
    """Ask one model, keeping its row up to date."""
    began = time.monotonic()
    try:
        stream = client.stream(row.model, QUESTION)
    except swink.UsageError as error:  # an unknown provider, for example
        row.state = error.title
        return
    async with stream:
        row.message = stream.message
        async for event in stream:
            match event:
                case swink.Retry():
                    row.state = "asks again"
                case swink.TextDelta() | swink.ThinkingDelta():
                    row.state = "answers"
                case swink.Done(stop_reason=reason):
                    row.state = str(reason)
                case swink.Error(error_kind=kind):
                    row.state = str(kind)
            row.message = stream.message
            row.seconds = time.monotonic() - began


async def draw(rows: list[Row], asking: asyncio.Future[list[None]]) -> None:
    """Draw the table ten times a second, each over the one before, until all have answered."""
    while True:
        over = asking.done()
        print(*rows, sep="\033[K\n", end="\033[K\n", flush=True)
        if over:
            return
        await asyncio.wait([asking], timeout=0.1)
        print(f"\033[{len(rows)}A", end="")


async def main(models: list[str]) -> None:
    rows = [Row(model) for model in models]
    async with swink.Client() as client:
        asking = asyncio.gather(*(ask(client, row) for row in rows))
        if sys.stdout.isatty():
            await draw(rows, asking)
            await asking
        else:
            await asking
            print(*rows, sep="\n")
        print("all of it:", client.usage, client.cost)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:] or MODELS))
