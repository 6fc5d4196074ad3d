"""Read a value out of a text."""

import asyncio
from dataclasses import dataclass

import swink


@dataclass
class Person:
    name: str
    age: int | None = None


async def main() -> None:
    answer = await swink.complete("echo/json", "Ada is 36.", type=Person, max_tokens=200)
    print(answer.parsed.name, answer.parsed.age, answer.cost)


asyncio.run(main())
