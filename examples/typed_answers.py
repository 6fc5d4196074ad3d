"""Values of a type from text: `python examples/typed_answers.py [MODEL]`.

The fields are shown as they come, and the value once it is whole and fits.
"""

import asyncio
import sys
from dataclasses import dataclass

import swink

LETTER = "One lamp of order 4711 came broken. Please pay its price back. Ada Bell"


@dataclass
class Complaint:
    """What a customer's letter asks for."""

    customer: str
    order: int
    wants_money_back: bool
    broken: list[str]


async def main(model: str) -> None:
    async with swink.Client() as client:
        async with client.stream_answer(model, LETTER, type=Complaint) as stream:
            async for so_far in stream.partials:
                print("so far:", so_far)
            try:
                answer = await stream.result()
            except swink.BadAnswer as error:
                sys.exit(f"{error.message}: {error.text}")
        print(answer.parsed)
        print(answer.usage, answer.cost)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "echo/echo"))
