"""Read a value out of a text."""

from pydantic import BaseModel
from pydantic_ai import Agent


class Person(BaseModel):
    name: str
    age: int | None = None


agent = Agent("openai-chat:gpt-5.4-mini", output_type=Person, model_settings={"max_tokens": 200})
result = agent.run_sync("Ada is 36.")
print(result.output.name, result.output.age, result.usage)
