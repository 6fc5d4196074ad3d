"""Talk for two turns, and say why when it fails."""

import asyncio

from pydantic_ai import Agent, ModelMessage
from pydantic_ai.exceptions import AgentRunError, FallbackExceptionGroup
from pydantic_ai.models.fallback import FallbackModel


async def main() -> None:
    conversation: list[ModelMessage] = []
    model = FallbackModel("openai-chat:gpt-5.4-mini", "openai-chat:gpt-5.4-nano")
    agent = Agent(model, model_settings={"timeout": 30, "temperature": 0.2})
    for question in ("Why is the sky blue?", "And at night?"):
        try:
            async with agent.run_stream(question, message_history=conversation) as run:
                async for piece in run.stream_text(delta=True):
                    print(piece, end="", flush=True)
        except (AgentRunError, FallbackExceptionGroup) as error:
            print(f"\n{error}")
            break
        conversation = run.all_messages()


asyncio.run(main())
