"""Read a value out of a text."""

import llm
from pydantic import BaseModel


class Person(BaseModel):
    name: str
    age: int | None = None


response = llm.get_model("gpt-5.4-mini").prompt("Ada is 36.", schema=Person, max_tokens=200)
person = Person.model_validate_json(response.text())
print(person.name, person.age, response.usage())
