"""Handle every event, and let the type checker report a new one."""

import asyncio
from typing import assert_never

import swink


async def main() -> None:
    async with swink.Client() as client, client.stream("echo/think", "Why?") as stream:
        async for event in stream:
            match event:
                case swink.TextDelta(delta=text) | swink.ThinkingDelta(delta=text):
                    print(text, end="")
                case swink.ToolCallStart(name=name):
                    print(name)
                case swink.Retry(model=model, error_kind=kind):
                    print(f"again on {model}: {kind}")
                case swink.Done(stop_reason=reason):
                    print(f"\n{reason}")
                case swink.Error(error_message=why):
                    print(why)
                case swink.Start() | swink.TextStart() | swink.TextEnd() | swink.Notice():
                    pass
                case swink.ThinkingStart() | swink.ThinkingEnd() | swink.Extension():
                    pass
                case swink.ToolCallDelta() | swink.ToolCallEnd():
                    pass
                case _:
                    assert_never(event)


asyncio.run(main())
