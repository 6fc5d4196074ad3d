"""Print whether a flipped bit in one frame of an answer is reported.

    python -m lab.findings.flipped_bits

The middle of "Do NOT delete it." is damaged. The text may be whole, or the call may fail; a call
that ends well without the middle is wrong.
"""

from __future__ import annotations

import asyncio

import msgspec

import swink
from lab.findings.upstreams import chat_chunk, verdict
from swink_testing.driver import MemoryHTTPClient, MemoryResponse

PIECES = ("Do ", "NOT ", "delete it.")

GEMINI_ENDING = {"candidates": [{"content": {"parts": [{"text": ""}]}, "finishReason": "STOP"}]}


def frame(data: object) -> bytes:
    """Return one server-sent event."""
    return b"data: " + msgspec.json.encode(data) + b"\n\n"


def chat_frames(middle: bytes) -> list[bytes]:
    """Return the frames of an answer whose middle one is given."""
    return [
        frame(chat_chunk({"role": "assistant", "content": PIECES[0]})),
        middle,
        frame(chat_chunk({"content": PIECES[2]})),
        frame(chat_chunk({}, "stop")),
        b"data: [DONE]\n\n",
    ]


async def answer(model: str, frames: list[bytes]) -> tuple[str, str, list[str]]:
    """Make one call; return the text, the ending and the codes of notices."""
    http = MemoryHTTPClient(MemoryResponse(frames, 200, {"Content-Type": "text/event-stream"}))
    providers = {model.partition("/")[0]: {"api_key": "test", "base_url": "http://vendor.invalid"}}
    notices: list[str] = []
    async with swink.Client(http=http, providers=providers, retry=False) as client:
        stream = client.stream(model, "Hi")
        try:
            async for event in stream:
                if isinstance(event, swink.Notice):
                    notices.append(event.code)
        except swink.StreamError as error:
            return stream.message.text, error.kind, notices
    message = stream.message
    return message.text, str(message.error_kind or message.stop_reason), notices


async def show(name: str, model: str, frames: list[bytes]) -> None:
    """Print one line for a damaged answer."""
    text, ended, notices = await answer(model, frames)
    right = text == "".join(PIECES) or ended != "stop" or bool(notices)
    verdict(right, name, f"{text!r}, {ended}, notices {notices}")


async def run() -> None:
    """Print one line for each place of the damage."""
    whole = frame(chat_chunk({"content": PIECES[1]}))
    damaged = {
        "bit of the key content": whole.replace(b'"content"', b'"con\xf4ent"'),
        "bit of the key delta": whole.replace(b'"delta"', b'"d\xe5lta"'),
        "bit of the key choices": whole.replace(b'"choices"', b'"ch\xefices"'),
        "bit of the text": whole.replace(b"NOT", b"N\xcfT"),
    }
    for name, middle in damaged.items():
        await show(f"{name}, Chat Completions", "deepseek/deepseek-flash", chat_frames(middle))
    texts: tuple[object, ...] = (PIECES[0], 5, PIECES[2])
    frames = [frame({"candidates": [{"content": {"parts": [{"text": text}]}}]}) for text in texts]
    name = "number in place of text, Gemini"
    await show(name, "gemini/gemini-3.6-flash", [*frames, frame(GEMINI_ENDING)])


def main() -> None:
    """Run the program."""
    asyncio.run(run())


if __name__ == "__main__":
    main()
