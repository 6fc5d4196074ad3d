"""Print where a credential that a server echoes can be read afterwards.

    python -m lab.findings.echoed_keys

The server puts the key, in several codings, into an error, a header or a frame. Exceptions, logs,
`repr`, dumped messages and recordings are searched.
"""

from __future__ import annotations

import asyncio
import base64
import html
import io
import json
import logging
import tempfile
import traceback
import urllib.parse
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import swink
from lab.findings.upstreams import chat_chunk, verdict
from swink_recorder.recorder import Recorder
from swink_testing.driver import MemoryHTTPClient, MemoryResponse

MODEL = "deepseek/deepseek-flash"
URL = "http://vendor.invalid"
KEY = 'sk+can/ary=="q&x-0123456789'
OTHER = "CANARYx0123456789"

CODINGS: dict[str, Callable[[str], str]] = {
    "unchanged": str,
    "URL": lambda key: urllib.parse.quote(key, safe=""),
    "JSON": lambda key: json.dumps(key)[1:-1],
    "HTML": html.escape,
    "Base64": lambda key: base64.b64encode(key.encode()).decode(),
    "hexadecimal": lambda key: key.encode().hex(),
    "split over lines": lambda key: key[:9] + "\n" + key[9:],
}


def responses(text: str) -> list[MemoryResponse]:
    """Return responses that contain a text at different places."""
    error = {"error": {"message": f"Bad key {text}", "code": text, "type": text}}
    stream = {"Content-Type": "text/event-stream"}
    first = b"data: " + json.dumps(chat_chunk({"content": "a"})).encode() + b"\n\n"
    named = {"x-request-id": text.replace("\n", "")}
    return [
        MemoryResponse.of_json(error, 401),
        MemoryResponse([f"<p>{text}</p>".encode()], 500, {"Content-Type": "text/html"}),
        MemoryResponse([b"{}"], 400, named),
        MemoryResponse([first + b"data: " + json.dumps(error).encode() + b"\n\n"], 200, stream),
        MemoryResponse([first + b"data: {bad " + text.encode() + b"\n\n"], 200, stream),
    ]


def contents(folder: Path) -> str:
    """Return the text of all files in a folder."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return " ".join(path.read_text("utf-8", "replace") for path in files)


async def places(
    response: MemoryResponse, url: str, key: str, options: dict[str, Any]
) -> dict[str, str]:
    """Return the texts that a failed call leaves, by their place."""
    log = io.StringIO()
    handler = logging.StreamHandler(log)
    root = logging.getLogger()
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    providers = {"deepseek": {"api_key": key, "base_url": url}}
    with tempfile.TemporaryDirectory() as folder:
        recorder = Recorder(folder)
        async with swink.Client(
            http=MemoryHTTPClient(response), providers=providers, plugins=[recorder], retry=False
        ) as client:
            stream = client.stream(MODEL, "Hi", **options)
            raised = ""
            try:
                await stream.result()
            except swink.SwinkError as error:
                raised = "".join(traceback.format_exception(error)) + repr(error)
            shown = repr(stream) + repr(client)
        await recorder.aclose()
        recorded = contents(Path(folder))
    root.removeHandler(handler)
    dumped = json.dumps(swink.dump(stream.message), ensure_ascii=False)
    return {
        "exception": raised,
        "log": log.getvalue(),
        "repr": shown,
        "dump": dumped,
        "recording": recorded,
    }


async def run() -> None:
    """Print one line for each coding of the key, and one for each other credential."""
    for coding, encode in CODINGS.items():
        echoed = encode(KEY)
        found: dict[str, int] = defaultdict(int)
        for response in responses(echoed):
            for place, text in (await places(response, URL, KEY, {})).items():
                whole = all(part in text for part in echoed.split("\n"))
                found[place] += whole or KEY in text
        seen = ", ".join(f"{place} {times}" for place, times in found.items() if times)
        verdict(not seen, f"a key, {coding}", seen)
    others: dict[str, tuple[str, dict[str, Any]]] = {
        "header X-Custom": (URL, {"headers": {"X-Custom": OTHER}}),
        "header X-Api-Key": (URL, {"headers": {"X-Api-Key": OTHER}}),
        "cookie": (URL, {"headers": {"Cookie": f"a=1; s={OTHER}"}}),
        "query of the base URL": (f"{URL}?token={OTHER}", {}),
        "field of extra": (URL, {"extra": {"password": OTHER}}),
    }
    for name, (url, options) in others.items():
        try:
            texts = await places(responses(OTHER)[0], url, "test-key-0123456789", options)
        except swink.SwinkError as error:
            print(f"{name}: refused, {type(error).__name__}")
            continue
        seen = ", ".join(place for place, text in texts.items() if OTHER in text)
        verdict(not seen, f"a secret in the {name}", seen)


def main() -> None:
    """Run the program."""
    logging.getLogger("asyncio").setLevel(logging.ERROR)
    asyncio.run(run())


if __name__ == "__main__":
    main()
