"""Read a value out of a text."""

from dataclasses import dataclass

import swink


@dataclass
class Person:
    name: str
    age: int | None = None


answer = swink.answer_sync("echo/json", "Ada is 36.", type=Person, max_tokens=200)
print(answer.parsed.name, answer.parsed.age, answer.cost)
