"""Ask much at once, and tell what it costs."""

import asyncio

import swink


async def main() -> None:
    prompts = [f"What is {number} + {number}?" for number in range(50)]
    batch = await swink.gather("echo/echo", prompts, limit=20, retry=False)
    print(batch.done, batch.failed, batch.answers[-1].text, batch.cost)


asyncio.run(main())
