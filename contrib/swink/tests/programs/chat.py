"""Talk for two turns, and say why when it fails."""

import asyncio

import swink


async def main() -> None:
    conversation: swink.Conversation = []
    models = ["echo/fail-quota-exhausted", "echo/echo"]
    async with swink.Client(timeout=30, temperature=0.2) as client:
        for question in ("Why is the sky blue?", "And at night?"):
            conversation.append(swink.UserMessage(question))
            try:
                async with client.stream(models, conversation) as stream:
                    async for piece in stream.text:
                        print(piece, end="", flush=True)
            except swink.StreamError as error:
                print(f"\n{error.title}: {error.resolution}")
                break
            conversation.append(stream.message)


asyncio.run(main())
