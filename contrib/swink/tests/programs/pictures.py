"""Show a model a picture."""

import asyncio
import base64

import swink

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


async def main() -> None:
    question = swink.UserMessage([swink.TextBlock("What is this?"), swink.image(PNG)])
    print((await swink.complete("echo/echo", [question])).text)


asyncio.run(main())
