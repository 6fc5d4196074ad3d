"""A model that calls functions until it can answer: `python examples/tool_loop.py [MODEL]`.

What only reads runs unasked; what writes asks you first.
"""

import asyncio
import sys
from typing import Literal

import swink

STOCK = {"apples": 12, "pears": 0}


def count(fruit: Literal["apples", "pears"]) -> int:
    """Tell how much of a fruit is in stock."""
    return STOCK[fruit]


def order(fruit: Literal["apples", "pears"], pieces: int) -> str:
    """Order more of a fruit."""
    STOCK[fruit] += pieces
    return f"{pieces} {fruit} are on their way"


async def approve(call: swink.ToolCallBlock) -> bool | str:
    """Let a call be carried out, or say why not."""
    if call.name == "count":
        return True
    answer = await asyncio.to_thread(input, f"{call.name}{call.arguments}? [y/n] ")
    return answer == "y" or "The user does not want that."


async def main(model: str) -> None:
    question = "Are there enough fruits to give everybody of ten an apple and a pear?"
    async with (
        swink.Client() as client,
        client.run(model, question, tools=[count, order], approve=approve, max_turns=5) as run,
    ):
        async for event in run:
            match event:
                case swink.ToolStart(tool_call=call):
                    print(f"-> {call.name}({call.arguments})")
                case swink.ToolEnd(result=result):
                    print(f"<- {result.content}")
                case swink.TextDelta(delta=text):
                    print(text, end="", flush=True)
                case swink.Error(title=title, resolution=resolution):
                    print(f"{title}. {resolution}")
        print(f"\n{run.turns} turns", run.usage, run.cost)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "echo/tools"))
